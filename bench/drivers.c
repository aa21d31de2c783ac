/* SPDX-License-Identifier: MIT */
/*
 * Drivers of other lock libraries: see drivers.h. Several of them run at the same time,
 * one process each, and get the same order; each answers with a line.
 */
#include "drivers.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMES_MAX 16
#define WARM_MS 3000

extern char **environ;

static int driver_start(struct driver *driver, char **argv)
{
    posix_spawn_file_actions_t actions;
    int in[2], out[2], rc;

    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        return bench_error("pipe", NULL);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    rc = posix_spawnp(&driver->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    driver->to = fdopen(in[1], "w");
    driver->from = fdopen(out[0], "r");
    errno = rc;
    return rc ? bench_error(argv[0], NULL) : 0;
}

static void driver_stop(struct driver *driver)
{
    fclose(driver->to);
    fclose(driver->from);
    if (driver->pid > 0)
        waitpid(driver->pid, NULL, 0);
}

int drivers_start(struct drivers *drivers, int count)
{
    char line[64];
    int rc = 0;

    for (; drivers->count < count && rc == 0; drivers->count++)
        rc = driver_start(&drivers->each[drivers->count], drivers->argv);
    for (int i = 0; i < drivers->count && rc == 0; i++) {
        if (!fgets(line, sizeof line, drivers->each[i].from) ||
            strcmp(line, "ready\n") != 0)
            rc = -1;
    }
    return rc;
}

void drivers_stop(struct drivers *drivers)
{
    while (drivers->count > 0)
        driver_stop(&drivers->each[--drivers->count]);
}

int drivers_run(struct drivers *drivers, int64_t ms, struct figures *ret_figures)
{
    double total = 0, least = INFINITY, longest = 0, cpu_us = 0;
    char line[128];

    for (int i = 0; i < drivers->count; i++) {
        fprintf(drivers->each[i].to, "peers %lld\n", (long long)ms);
        fflush(drivers->each[i].to);
    }
    for (int i = 0; i < drivers->count; i++) {
        double count, wait, cpu = NAN;

        if (!fgets(line, sizeof line, drivers->each[i].from) ||
            sscanf(line, "%lf %lf %lf", &count, &wait, &cpu) < 2)
            return -1;
        total += count;
        cpu_us += cpu;
        least = count < least ? count : least;
        longest = wait > longest ? wait : longest;
    }
    ret_figures->v[RATE] = total * 1000 / (double)ms;
    ret_figures->v[SLOWEST] = total > 0 ? least * drivers->count / total : 0;
    ret_figures->v[DRIVER_CPU] = cpu_us * 1000 / total;
    ret_figures->v[WAIT_MAX] = longest * 1000;
    ret_figures->v[ENTERED] = total;
    return 0;
}

int drivers_crowd(struct drivers *drivers, int waiters, struct figures *ret_figures)
{
    struct driver *driver = &drivers->each[0];
    char line[128];
    double ns;

    fprintf(driver->to, "crowd crowd %d\n", waiters);
    fflush(driver->to);
    if (!fgets(line, sizeof line, driver->from) || sscanf(line, "%lf", &ns) != 1)
        return -1;
    ret_figures->v[PER_HANDOFF] = ns / waiters;
    return 0;
}

/* ---- Against ours ---------------------------------------------------------------- */

int64_t drivers_warm_ms(const struct bench *bench)
{
    return bench->quick ? 100 : WARM_MS;
}

int drivers_alone(struct bench *bench, void *drivers, struct figures *ret_figures)
{
    return drivers_run(drivers, bench->slice_ns / 1000000, ret_figures);
}

static int many_theirs(struct bench *bench, void *drivers, struct figures *ret_figures)
{
    return drivers_run(drivers, bench->contended_ns / 1000000, ret_figures);
}

int drivers_many(struct bench *bench, struct drivers *drivers, const char *url,
                 struct figures *ret_ours, struct figures *ret_theirs)
{
    struct contest contest = contest_ours;
    struct figures warm;
    int rc = drivers_start(drivers, BENCH_WORKERS);

    contest.text = url;
    contest.kind = HF_MUTEX;
    contest.processes = true;
    contest.timed = true;
    if (rc == 0)
        rc = drivers_run(drivers, 2 * drivers_warm_ms(bench), &warm);
    if (rc == 0)
        rc = bench_alternate(bench, "peers", contest_sample, &contest, many_theirs,
                             drivers, ret_ours, ret_theirs);
    drivers_stop(drivers);
    return rc;
}

/* ---- Files of commands ----------------------------------------------------------- */

/* Rows keep the name to the end of the run. */
static const char *name_keep(const char *name)
{
    static char names[NAMES_MAX][32];
    static size_t count;

    if (count == NAMES_MAX)
        return NULL;
    snprintf(names[count], sizeof *names, "%s", name);
    return names[count++];
}

static void line_run(struct bench *bench, char *line, char *port, drivers_each *each)
{
    struct drivers *drivers = calloc(1, sizeof *drivers);
    char *at = NULL, *name = strtok_r(line, "\t\n", &at);
    const char *kept = name ? name_keep(name) : NULL;
    int words = 0;

    if (drivers && kept) {
        while (words < DRIVER_WORDS - 2 &&
               (drivers->argv[words] = strtok_r(NULL, "\t\n", &at)) != NULL)
            words++;
        drivers->argv[words] = port;
        each(bench, kept, drivers);
    }
    free(drivers);
}

void drivers_of(struct bench *bench, const char *file, int port, drivers_each *each)
{
    char path[512], line[4096], text[16];
    FILE *commands;

    snprintf(path, sizeof path, "%s/%s", bench->peers, file);
    snprintf(text, sizeof text, "%d", port);
    commands = fopen(path, "re");
    if (!commands) {
        bench->failures++;
        bench_error(path, NULL);
        return;
    }
    while (fgets(line, sizeof line, commands))
        line_run(bench, line, text, each);
    fclose(commands);
}
