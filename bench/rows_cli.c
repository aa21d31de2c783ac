/* SPDX-License-Identifier: MIT */
/*
 * The command: `holdfast run x -- true` beside `flock f true`, from start to exit.
 *
 * Both find a free lock, run the smallest command there is and end; what is measured is
 * the start of two programs and little else. One run after the other, pinned to one
 * core.
 */
#include "bench.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

static int run_once(const char **argv)
{
    int status, rc;
    pid_t pid;

    rc = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
    if (rc) {
        errno = rc;
        return bench_error(argv[0], NULL);
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return bench_error("waitpid", NULL);
    }
    if (status == 0)
        return 0;
    fprintf(stderr, "bench: %s ended with status %d\n", argv[0], status);
    return -1;
}

/* Figure: microseconds per run. */
static int run_sample(struct bench *bench, void *argv, struct figures *ret_figures)
{
    int64_t start = now_ns(), runs = 0;

    do {
        if (run_once(argv))
            return -1;
        runs++;
    } while (now_ns() - start < bench->slice_ns);
    ret_figures->v[0] = (double)(now_ns() - start) / 1000 / (double)runs;
    return 0;
}

void rows_cli(struct bench *bench)
{
    static const struct measure run = { "file", "cli_run", "us", RATIO_AT_MOST, 1.5 };
    const char *command = getenv("HOLDFAST_COMMAND");
    char url[512], path[512];
    const char *ours_argv[] = {
        command ? command : BENCH_COMMAND, "run", "x", "--", "true", NULL
    };
    const char *raw_argv[] = { "flock", path, "true", NULL };
    struct figures ours, raw;
    int rc;

    bench_url(bench, "cli", "", url, sizeof url);
    snprintf(path, sizeof path, "%s/raw-cli", bench->dir);
    setenv("HOLDFAST_URL", url, 1);
    pin_one();
    rc = bench_alternate(bench, run.name, run_sample, ours_argv, run_sample, raw_argv,
                         &ours, &raw);
    pin_all();
    unsetenv("HOLDFAST_URL");
    if (rc)
        bench_missing(bench, &run);
    else
        bench_report(bench, &run, ours.v[0], raw.v[0]);
}
