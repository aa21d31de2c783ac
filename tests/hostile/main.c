/* SPDX-License-Identifier: MIT */
/*
 * Runs the cases, each in a process of its own with a server of its own, and says in
 * TAP what came of them.
 *
 *   hostile redis [--query '&protocol=2'] [--each N] [--seed N] [--jobs N] [PART]
 *   hostile zookeeper ...
 *   hostile redis --count K --seed N     K random trials, several spots in each
 *
 * A case is an operation, or a script. PART: only cases whose name contains it. With
 * --each N so many spots of each family are tried, chosen by the seed; else all of
 * them, which takes minutes. --flood N: messages of a flood, 100000 else.
 */
#include "hostile.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS_MAX = 8, RANDOM_OPS = 64 };

struct settings settings = { .query = "", .seed = 1, .flood = 100000 };

struct one_case {
    char name[80];
    const struct op *op;
    const struct script *script;
};

struct job {
    pid_t pid; /* 0: free */
    int output;
    int64_t since_ms;
    struct one_case what;
    char directory[40];
};

static struct job jobs[JOBS_MAX];
static size_t job_count = 3;
static int total, failures;
static const char *part = "";

/* ---- In the process of a case ---------------------------------------------------- */

struct tally {
    size_t spots, tried, met;
};

/* Some of the spots of a family, or all of them. */
static void sample(struct trial *t, const struct op *op, enum family family,
                   struct tally *tally)
{
    struct spot *spots = NULL;
    size_t count = plan_spots(t->plan, family, &spots);
    size_t some = settings.each && settings.each < count ? settings.each : count;
    uint64_t seed = mix(settings.seed) + (uint64_t)family;
    for (size_t i = 0; i < some; i++) {
        size_t at = some < count ? mix(seed + 8 * i) % count : i;
        tally->met += trial_run(t, op, &spots[at], 1, false);
    }
    tally->spots += count;
    tally->tried += some;
    free(spots);
}

/* Several spots at once, of any family. */
static void randomly(struct trial *t, const struct op *op, struct tally *tally)
{
    struct spot *all = NULL, spots[SPOTS_MAX];
    size_t count = plan_spots(t->plan, 0, &all);
    for (uint32_t i = 0; count && i < settings.count; i++) {
        uint64_t dice = mix(mix(settings.seed) + i);
        size_t some = 1 + dice % SPOTS_MAX;
        for (size_t k = 0; k < some; k++)
            spots[k] = all[mix(dice + k) % count];
        tally->met += trial_run(t, op, spots, some, false);
    }
    tally->spots = count;
    tally->tried = settings.count;
    free(all);
}

static void op_run(struct trial *t, const struct op *op)
{
    struct tally tally = { 0, 0, 0 };
    trial_run(t, op, NULL, 0, false); /* so that the server knows the scripts */
    struct spot *spots = NULL;
    for (int i = 0; i < 5 && !plan_spots(t->plan, 0, &spots); i++)
        trial_run(t, op, NULL, 0, true); /* a busy machine may bring no reply in time */
    free(spots);
    for (int family = NUMBERS; family < FAMILIES && !settings.count; family++)
        sample(t, op, (enum family)family, &tally);
    if (settings.count)
        randomly(t, op, &tally);
    rewind(stdout);
    CHECK_EQ(ftruncate(STDOUT_FILENO, 0), 0);
    printf("@%zu trials, %zu spoiled, of %zu spots\n", tally.tried, tally.met,
           tally.spots);
    fflush(stdout);
    CHECK(tally.met > 0 || tally.tried < 20);
}

static void case_child(const struct job *job)
{
    static struct trial t;
    const struct op *op = job->what.op;
    setpgid(0, 0);
    dup2(job->output, STDOUT_FILENO);
    dup2(job->output, STDERR_FILENO);
    alarm(600);
#if PEAK_FACTOR == 1
    const struct rlimit most = { 1 << 30, 1 << 30 };
    CHECK_EQ(setrlimit(RLIMIT_AS, &most), 0);
#endif
    world_begin(&t, job->directory, op);
    if (op && (hf_capabilities(t.sane) & op->needs) == op->needs) {
        op_run(&t, op);
    } else if (job->what.script) {
        script_run(&t, job->what.script);
    } else {
        printf("@not on this store\n");
        fflush(stdout);
    }
    world_end(&t);
    exit(0);
}

/* ---- The runner ------------------------------------------------------------------ */

static int entry_remove(const char *path, const struct stat *about, int type,
                        struct FTW *ftw)
{
    (void)about;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void job_report(struct job *job, int status, const struct rusage *usage)
{
    static char text[16384];
    bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ssize_t len = pread(job->output, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    const char *said = strchr(text, '@');
    total++;
    failures += !passed;
    printf("%s %d - %s # %lld ms, %ld MiB", passed ? "ok" : "not ok", total,
           job->what.name, (long long)(real_ms() - job->since_ms),
           usage->ru_maxrss / 1024);
    if (passed && said)
        printf(", %.*s", (int)strcspn(said + 1, "\n"), said + 1);
    printf("\n");
    for (const char *line = passed ? "" : text; *line;) {
        size_t end = strcspn(line, "\n");
        printf("# %.*s\n", (int)end, line);
        line += end + (line[end] == '\n');
    }
    if (!passed)
        printf("# status %#x\n", (unsigned)status);
    fflush(stdout);
}

static void job_wait(void)
{
    int status;
    struct rusage usage;
    pid_t pid = wait4(-1, &status, 0, &usage);
    for (size_t i = 0; i < JOBS_MAX; i++) {
        if (jobs[i].pid != pid)
            continue;
        kill(-pid, SIGKILL); /* a server, if the case did not come to its end */
        job_report(&jobs[i], status, &usage);
        close(jobs[i].output);
        nftw(jobs[i].directory, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
        jobs[i].pid = 0;
    }
}

static struct job *job_free_one(void)
{
    for (;;) {
        for (size_t i = 0; i < job_count; i++)
            if (!jobs[i].pid)
                return &jobs[i];
        job_wait();
    }
}

static void case_start(const struct one_case *what)
{
    if (!strstr(what->name, part))
        return;
    struct job *job = job_free_one();
    job->what = *what;
    job->since_ms = real_ms();
    snprintf(job->directory, sizeof job->directory, "/tmp/holdfast-hostile-XXXXXX");
    CHECK(mkdtemp(job->directory) != NULL);
    job->output = memfd_create("output", MFD_CLOEXEC);
    CHECK(job->output >= 0);
    fflush(stdout);
    job->pid = fork();
    CHECK(job->pid >= 0);
    if (job->pid == 0)
        case_child(job);
    setpgid(job->pid, job->pid);
}

static void cases_of(const struct op *op)
{
    struct one_case what = { .op = op };
    if (!settings.wire->queries[op->query])
        return;
    snprintf(what.name, sizeof what.name, "%s %s", settings.wire->name, op->name);
    case_start(&what);
}

static void scripts_of(const struct script *script)
{
    struct one_case what = { .script = script };
    for (; script->name && !settings.count; what.script = ++script) {
        if (script->large && settings.each)
            continue;
        snprintf(what.name, sizeof what.name, "%s %s", settings.wire->name,
                 script->name);
        case_start(&what);
    }
}

static bool option(char **argv, const char *name, const char **ret_value)
{
    if (strcmp(argv[0], name) != 0 || !argv[1])
        return false;
    *ret_value = argv[1];
    return true;
}

static void read_arguments(char **argv)
{
    const char *value = NULL;
    settings.wire =
        argv[1] && strcmp(argv[1], "zookeeper") == 0 ? &zookeeper_wire : &redis_wire;
    for (argv += argv[1] ? 2 : 1; *argv; argv++) {
        if (option(argv, "--query", &value))
            settings.query = value;
        else if (option(argv, "--each", &value))
            settings.each = (uint32_t)strtoul(value, NULL, 10);
        else if (option(argv, "--seed", &value))
            settings.seed = strtoull(value, NULL, 10);
        else if (option(argv, "--count", &value))
            settings.count = (uint32_t)strtoul(value, NULL, 10);
        else if (option(argv, "--flood", &value))
            settings.flood = (int)strtol(value, NULL, 10);
        else if (option(argv, "--jobs", &value))
            job_count = strtoul(value, NULL, 10);
        else
            part = *argv;
        argv += value != NULL;
        value = NULL;
    }
    job_count = job_count < 1 ? 1 : job_count > JOBS_MAX ? JOBS_MAX : job_count;
}

int main(int argc, char **argv)
{
    (void)argc;
    read_arguments(argv);
    if (settings.wire->shared)
        settings.wire->start(NULL);
    for (const struct op *op = waiting_ops; op->name; op++)
        cases_of(op);
    for (const struct op *op = ops; op->name; op++)
        cases_of(op);
    scripts_of(settings.wire == &redis_wire ? redis_scripts : zookeeper_scripts);
    for (size_t i = 0; i < JOBS_MAX; i++)
        while (jobs[i].pid)
            job_wait();
    if (settings.wire->shared)
        settings.wire->stop();
    printf("1..%d\n", total);
    return failures ? 1 : 0;
}
