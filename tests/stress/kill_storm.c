/* SPDX-License-Identifier: MIT */
/*
 * kill_storm: processes full of threads on one file mutex, killed at random.
 *
 *     kill_storm [--seconds 60] [--processes 8] [--threads 8] [--no-lock]
 *
 * The parent forks the processes, kills one to three of them with SIGKILL every few
 * milliseconds and starts them again at once. What the lock guards (kill_stage.h)
 * tells two who are inside, tokens that do not grow and increments that are lost; at
 * the end the counter is compared exactly, not within bounds. Then the lock has to be
 * free, and the directory to hold nothing but what is documented.
 *
 * --no-lock is the positive control: the same without the lock has to find violations.
 */
#include "kill_stage.h"
#include "stress.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 64
#define KILL_EVERY_MS 36 /* on average; one to three processes each time */
#define KILLS_PER_SECOND 34
#define STALL_MS 20000
#define NAME "storm"

struct storm {
    struct stress_options options;
    char url[128];
    char dir[96];
    struct stage *stage;
    pid_t pids[PROCESSES_MAX];
    uint64_t random;
    int kills;
    int strange; /* processes that ended in a way that was not ours */
};

struct thread {
    struct storm *storm;
    hf_client *client;
    pthread_t id;
    int place;
};

/* ---- Processes that are killed --------------------------------------------------- */

static void stage_fail(struct stage *stage, const char *what, const hf_error *why)
{
    if (atomic_exchange(&stage->failed, 1) == 0)
        snprintf(stage->failure, sizeof stage->failure, "%s: %s: %.180s", what,
                 hf_error_name(why->code), why->text);
}

/* 0, or the code that ends this thread. */
static int visit_locked(const struct thread *thread)
{
    struct stage *stage = thread->storm->stage;
    hf_hold *hold;
    hf_error why;
    int rc = hf_lock(thread->client, NAME, 10000, &hold, &why);

    if (rc == HF_ETIMEOUT) {
        atomic_fetch_add(&stage->timeouts, 1);
        return 0;
    }
    if (rc) {
        stage_fail(stage, "hf_lock", &why);
        return rc;
    }
    stage_visit(stage, thread->place, hf_hold_token(hold, 0));
    rc = hf_release(hold, &why);
    if (rc) {
        stage_violation(stage, BAD_RELEASE);
        stage_fail(stage, "hf_release", &why);
    }
    return rc;
}

static void *thread_run(void *arg)
{
    const struct thread *thread = arg;
    struct stage *stage = thread->storm->stage;
    int rc = 0;

    while (rc == 0 && !atomic_load(&stage->stop)) {
        if (thread->storm->options.no_lock)
            stage_visit(stage, thread->place, atomic_load(&stage->last_token) + 1);
        else
            rc = visit_locked(thread);
    }
    return NULL;
}

static void process_run(struct storm *storm, int slot)
{
    struct thread threads[PLACES_MAX / PROCESSES_MAX];
    int count = storm->options.threads;
    hf_client *client = NULL;
    hf_error why;

    if (!storm->options.no_lock && hf_open(storm->url, NULL, &client, &why)) {
        stage_fail(storm->stage, "hf_open", &why);
        return;
    }
    for (int i = 0; i < count; i++) {
        threads[i] = (struct thread){ storm, client, 0, slot * count + i };
        pthread_create(&threads[i].id, NULL, thread_run, &threads[i]);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i].id, NULL);
    hf_close(client);
}

/* ---- The parent ------------------------------------------------------------------ */

static void process_start(struct storm *storm, int slot)
{
    pid_t pid = fork();

    if (pid < 0)
        tap_bail("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        process_run(storm, slot);
        _exit(0);
    }
    storm->pids[slot] = pid;
}

static void process_reap(struct storm *storm, int slot, int wanted_signal)
{
    int status = 0;

    waitpid(storm->pids[slot], &status, 0);
    if (wanted_signal && WIFSIGNALED(status) && WTERMSIG(status) == wanted_signal)
        return;
    if (!wanted_signal && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    storm->strange++;
    tap_note("a process ended with status %#x", (unsigned)status);
}

/* One to three neighbours, at the same moment, and new ones in their place. */
static void storm_strike(struct storm *storm)
{
    int count = storm->options.processes;
    int first = (int)random_below(&storm->random, (uint32_t)count);
    int hits = random_below(&storm->random, 4) ? 1 : 3;

    hits = hits < count ? hits : count;
    for (int i = 0; i < hits; i++)
        kill(storm->pids[(first + i) % count], SIGKILL);
    for (int i = 0; i < hits; i++) {
        process_reap(storm, (first + i) % count, SIGKILL);
        process_start(storm, (first + i) % count);
    }
    storm->kills += hits;
}

/* Until time is over and there were enough kills. False if nothing moved for long. */
static bool storm_rage(struct storm *storm)
{
    int64_t end = real_ms() + storm->options.seconds * 1000, moved = real_ms();
    int enough = storm->options.no_lock ? 0 : storm->options.seconds * KILLS_PER_SECOND;
    uint64_t seen = 0;

    while (real_ms() < end || storm->kills < enough) {
        uint64_t acquired = atomic_load(&storm->stage->acquired);

        poll(NULL, 0, (int)random_below(&storm->random, 2 * KILL_EVERY_MS));
        storm_strike(storm);
        if (acquired != seen)
            moved = real_ms();
        seen = acquired;
        if (real_ms() - moved > STALL_MS || atomic_load(&storm->stage->failed))
            return false;
    }
    return true;
}

/* Half of them end politely, half are killed. */
static void storm_end(struct storm *storm)
{
    int half = storm->options.processes / 2;

    for (int i = 0; i < half; i++)
        kill(storm->pids[i], SIGKILL);
    atomic_store(&storm->stage->stop, 1);
    for (int i = 0; i < storm->options.processes; i++)
        process_reap(storm, i, i < half ? SIGKILL : 0);
}

/* ---- What is left behind --------------------------------------------------------- */

/* What docs/backends/file.md says stays when nobody is there. */
static bool documented(const char *name)
{
    return strcmp(name, "state") == 0 || strcmp(name, "live") == 0;
}

static int undocumented_files(const struct storm *storm)
{
    char path[128];
    DIR *dir;
    const struct dirent *entry;
    int count = 0;

    snprintf(path, sizeof path, "%s/.holdfast", storm->dir);
    dir = opendir(path);
    if (!dir)
        count++;

    while (dir && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            documented(entry->d_name))
            continue;
        tap_note("left behind: %s", entry->d_name);
        count++;
    }
    if (dir)
        closedir(dir);
    return count;
}

static void check_aftermath(struct storm *storm)
{
    hf_client *client = open_or_bail(storm->url, NULL);
    hf_hold *hold = NULL;
    hf_error why = { 0 };
    int seen = entries_seen(client);

    tap_ok(seen == 0, "nobody holds and nobody waits (%d entries)", seen);
    tap_ok(hf_lock(client, NAME, 0, &hold, &why) == 0, "the lock is free %s", why.text);
    tap_ok(hf_hold_token(hold, 0) > atomic_load(&storm->stage->last_token),
           "and its next token is larger than all before");
    tap_ok(hf_release(hold, NULL) == 0, "release");
    hf_close(client);
    tap_ok(undocumented_files(storm) == 0, "only documented files are left");
}

static void check_storm(struct storm *storm, bool moved)
{
    const struct stage *stage = storm->stage;
    uint64_t sum = stage_sum(storm->stage,
                             storm->options.processes * storm->options.threads),
             counter = atomic_load(&stage->counter);

    tap_note("%d kills, %llu acquisitions, %llu timeouts", storm->kills,
             (unsigned long long)atomic_load(&stage->acquired),
             (unsigned long long)atomic_load(&stage->timeouts));
    tap_note("%llu holders killed inside, %llu of them in the middle of an increment",
             (unsigned long long)atomic_load(&stage->orphans),
             (unsigned long long)atomic_load(&stage->settled));
    tap_note("violations: %llu two inside, %llu old tokens, %llu lost updates, "
             "%llu releases refused",
             (unsigned long long)atomic_load(&stage->violations[TWO_INSIDE]),
             (unsigned long long)atomic_load(&stage->violations[OLD_TOKEN]),
             (unsigned long long)atomic_load(&stage->violations[LOST_UPDATE]),
             (unsigned long long)atomic_load(&stage->violations[BAD_RELEASE]));
    if (storm->options.no_lock) {
        tap_ok(stage_violations(stage) > 0 && counter != sum,
               "without the lock the checks find violations (%llu of %llu counted)",
               (unsigned long long)counter, (unsigned long long)sum);
        return;
    }
    tap_ok(moved, "it never stood still");
    tap_ok(!atomic_load(&stage->failed), "every call answered as it should %s",
           stage->failure);
    tap_ok(storm->strange == 0, "no process ended by itself");
    tap_ok(stage_violations(stage) == 0, "no violations");
    tap_ok(counter == sum && sum > 0, "the counter is exact: %llu, acknowledged %llu",
           (unsigned long long)counter, (unsigned long long)sum);
    check_aftermath(storm);
}

int main(int argc, char **argv)
{
    static struct storm storm = {
        .options = { .seconds = 60, .processes = 8, .threads = 8 },
        .random = 88172645463325252,
    };
    bool moved;

    stress_options(argc, argv, &storm.options);
    if (storm.options.processes > PROCESSES_MAX ||
        storm.options.threads > PLACES_MAX / PROCESSES_MAX)
        tap_bail("at most %d processes of %d threads", PROCESSES_MAX,
                 PLACES_MAX / PROCESSES_MAX);
    storm.random ^= (uint64_t)getpid() << 32;
    watchdog(storm.options.seconds * 4 + 120);
    scratch_make(storm.dir, sizeof storm.dir);
    snprintf(storm.url, sizeof storm.url, "file:%s", storm.dir);
    storm.stage = mmap(NULL, sizeof *storm.stage, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (storm.stage == MAP_FAILED)
        tap_bail("mmap: %s", strerror(errno));
    for (int i = 0; i < storm.options.processes; i++)
        process_start(&storm, i);
    moved = storm_rage(&storm);
    storm_end(&storm);
    check_storm(&storm, moved);
    scratch_remove(storm.dir);
    return tap_done();
}
