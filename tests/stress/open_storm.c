/* SPDX-License-Identifier: MIT */
/*
 * open_storm: processes that open, lock, look and close, on a host that is too busy.
 *
 *     open_storm [--rounds 1250] [--processes 8] [--threads 12]
 *
 * Each process does --rounds of it in one directory, beside --threads processes that
 * only burn time. Every call has to answer as on an idle host: nobody is stopped, so
 * nobody may be called so, and slowness is no error.
 *
 * Then the same processes meet in new directories, one after the other. Some only look
 * (hf_diagnose) and take the files that they made with them; those who lock must
 * exclude each other all the same, and their tokens must grow.
 */
#include "stress.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 64

struct tally {
    _Atomic int opened, failed;
    char failure[256]; /* the first */
    _Atomic int ready, inside, two_inside, old_tokens;
    _Atomic uint64_t last_token;
};

static struct tally *tally;
static char url[128];

static int fail(const char *what, const hf_error *why)
{
    if (atomic_fetch_add(&tally->failed, 1) == 0)
        snprintf(tally->failure, sizeof tally->failure, "%s: %s: %.180s", what,
                 hf_error_name(why->code), why->text);
    return -1;
}

static int round_locked(hf_client *client)
{
    hf_report *report = NULL;
    hf_hold *hold = NULL;
    hf_error why = { 0 };
    int rc = hf_lock(client, "x", 0, &hold, &why);

    if (rc != 0 && rc != HF_EBUSY)
        return fail("hf_lock", &why);
    if (hf_inspect(client, "x", false, &report, &why) != 0)
        return fail("hf_inspect", &why);
    hf_report_free(report);
    if (rc == 0 && hf_release(hold, &why) != 0)
        return fail("hf_release", &why);
    return 0;
}

/* ---- New directories ------------------------------------------------------------- */

static void look(void)
{
    hf_client *client = NULL;
    hf_report *report = NULL;
    hf_error why = { 0 };

    if (hf_open(url, NULL, &client, &why) != 0 ||
        hf_diagnose(client, &report, &why) != 0)
        fail("look", &why);
    hf_report_free(report);
    hf_close(client);
}

static void meet(void)
{
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    hf_error why = { 0 };

    if (hf_open(url, NULL, &client, &why) != 0 ||
        hf_lock(client, "x", 60000, &hold, &why) != 0) {
        fail("meet", &why);
        return;
    }
    if (atomic_fetch_add(&tally->inside, 1) != 0)
        atomic_fetch_add(&tally->two_inside, 1);
    if (atomic_exchange(&tally->last_token, hf_hold_token(hold, 0)) >=
        hf_hold_token(hold, 0))
        atomic_fetch_add(&tally->old_tokens, 1);
    spin(1000);
    atomic_fetch_sub(&tally->inside, 1);
    if (hf_release(hold, &why) != 0)
        fail("hf_release", &why);
    hf_close(client);
}

static void newcomer_run(int number, int count)
{
    atomic_fetch_add(&tally->ready, 1);
    while (atomic_load(&tally->ready) < count)
        spin(10);
    for (int i = 0; i < 4; i++)
        if (number % 2)
            look();
        else if (i == number / 2 % 4)
            meet();
    _exit(0);
}

static void directory_run(const char *dir, int round, int count)
{
    pid_t pids[PROCESSES_MAX];
    char path[112];

    snprintf(path, sizeof path, "%s/%d", dir, round);
    snprintf(url, sizeof url, "file:%s", path);
    if (mkdir(path, 0700) != 0)
        tap_bail("cannot make %s", path);
    atomic_store(&tally->ready, 0);
    atomic_store(&tally->last_token, 0);
    for (int i = 0; i < count; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            newcomer_run(i, count);
    }
    for (int i = 0; i < count; i++)
        waitpid(pids[i], NULL, 0);
}

static void directories_run(const char *dir, const struct stress_options *options)
{
    int rounds = options->rounds / 4 + 1;

    for (int i = 0; i < rounds; i++)
        directory_run(dir, i, options->processes);
    tap_ok(atomic_load(&tally->two_inside) == 0,
           "in %d new directories, never two inside", rounds);
    tap_ok(atomic_load(&tally->old_tokens) == 0, "and tokens grow");
}

/* ---- One directory --------------------------------------------------------------- */

static void process_run(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        hf_client *client = NULL;
        hf_error why = { 0 };

        if (hf_open(url, NULL, &client, &why) != 0) {
            fail("hf_open", &why);
            continue;
        }
        atomic_fetch_add(&tally->opened, 1);
        round_locked(client);
        hf_close(client);
    }
}

static pid_t process_start(bool busy, int rounds)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(0);
    if (busy)
        for (;;)
            spin(1000000);
    process_run(rounds);
    _exit(0);
}

static void processes_run(const struct stress_options *options)
{
    pid_t busy[PROCESSES_MAX], pids[PROCESSES_MAX];

    for (int i = 0; i < options->threads; i++)
        busy[i] = process_start(true, 0);
    for (int i = 0; i < options->processes; i++)
        pids[i] = process_start(false, options->rounds);
    for (int i = 0; i < options->processes; i++) {
        int status = 0;

        waitpid(pids[i], &status, 0);
        tap_ok(status == 0, "process %d ended as it should", i);
    }
    for (int i = 0; i < options->threads; i++) {
        kill(busy[i], SIGKILL);
        waitpid(busy[i], NULL, 0);
    }
}

int main(int argc, char **argv)
{
    struct stress_options options = { .rounds = 1250, .processes = 8, .threads = 12 };
    char dir[96];

    stress_options(argc, argv, &options);
    if (options.processes > PROCESSES_MAX || options.threads > PROCESSES_MAX)
        tap_bail("at most %d processes", PROCESSES_MAX);
    watchdog(120 + options.rounds * options.processes);
    scratch_make(dir, sizeof dir);
    snprintf(url, sizeof url, "file:%s", dir);
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED)
        tap_bail("mmap: %s", strerror(errno));
    processes_run(&options);
    directories_run(dir, &options);
    tap_ok(atomic_load(&tally->opened) == options.rounds * options.processes,
           "%d of %d opens", atomic_load(&tally->opened),
           options.rounds * options.processes);
    tap_ok(atomic_load(&tally->failed) == 0, "no call failed: %d did %s",
           atomic_load(&tally->failed), tally->failure);
    scratch_remove(dir);
    return tap_done();
}
