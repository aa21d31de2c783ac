/* SPDX-License-Identifier: MIT */
/*
 * bench: how fast is holdfast, beside the raw limit of this machine, in the same run?
 *
 *     bench [--quick] [--json PATH] [--dir DIR] [--rounds N] [--only GROUP]
 *           [--peers DIR]
 *
 * Prints one line per measure,
 *
 *     bench: <store> <measure> ours=<x> raw=<y> ratio=<r> target=<t> ok|short
 *
 * and writes the same to build/bench/results.json. A figure that does not exist is "-".
 * The exit code says whether everything could be measured, not whether it was fast.
 * --only takes a group, or the beginning of several ("redis"). --peers measures other
 * libraries too (bench/peers), whose figure then stands in the place of the raw one.
 * --quick takes samples of a few milliseconds: it shows that the bench works, no more.
 */
#include "redis_bare.h"
#include "zookeeper_bare.h"

#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(struct bench *);
} groups[] = {
    { "pair", rows_pair },
    { "processes", rows_processes },
    { "threads", rows_threads },
    { "waiters", rows_waiters },
    { "held", rows_held },
    { "cli", rows_cli },
    { "redis_pair", rows_redis_pair },
    { "redis_contest", rows_redis_contest },
    { "redis_many", rows_redis_many },
    { "redis_crowd", rows_redis_crowd },
    { "redis_held", rows_redis_held },
    { "redis_peers", rows_redis_peers },
    { "zookeeper_pair", rows_zookeeper_pair },
    { "zookeeper_contest", rows_zookeeper_contest },
    { "zookeeper_crowd", rows_zookeeper_crowd },
    { "zookeeper_peers", rows_zookeeper_peers },
};

static int remove_one(const char *path, const struct stat *info, int type,
                      struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static int make_dir(struct bench *bench, const char *parent)
{
    if (!parent)
        parent = getenv("TMPDIR");
    if (!parent || !*parent)
        parent = "/tmp";
    if ((size_t)snprintf(bench->dir, sizeof bench->dir, "%s/holdfast-bench.XXXXXX",
                         parent) >= sizeof bench->dir ||
        !mkdtemp(bench->dir))
        return bench_error("cannot make a directory to work in", NULL);
    return 0;
}

/* The chain of a thousand eventfds needs more than the usual soft limit. */
static void raise_fd_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int usage(FILE *out, int code)
{
    fprintf(out, "usage: bench [--quick] [--json PATH] [--dir DIR] [--rounds N] "
                 "[--only GROUP] [--peers DIR]\ngroups:");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        fprintf(out, " %s", groups[i].name);
    fprintf(out, "\n");
    return code;
}

static void be_quick(struct bench *bench)
{
    bench->quick = true;
    bench->rounds = 1;
    bench->slice_ns = 1000000;
    bench->contended_ns = 20000000;
    bench->held = 1000;
}

/* -1 to go on, else the exit code. */
static int read_options(int argc, char **argv, struct bench *bench,
                        const char **ret_parent)
{
    static const struct option options[] = {
        { "quick", no_argument, NULL, 'q' },
        { "json", required_argument, NULL, 'j' },
        { "dir", required_argument, NULL, 'd' },
        { "rounds", required_argument, NULL, 'r' },
        { "only", required_argument, NULL, 'o' },
        { "peers", required_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'q')
            be_quick(bench);
        else if (option == 'j')
            bench->json = optarg;
        else if (option == 'd')
            *ret_parent = optarg;
        else if (option == 'r')
            bench->rounds = (int)strtol(optarg, NULL, 10);
        else if (option == 'o')
            bench->only = optarg;
        else if (option == 'p')
            bench->peers = optarg;
        else
            return option == 'h' ? usage(stdout, 0) : usage(stderr, 2);
    }
    if (optind < argc || bench->rounds < 1 || bench->rounds > BENCH_ROUNDS_MAX)
        return usage(stderr, 2);
    return -1;
}

int main(int argc, char **argv)
{
    static struct bench bench = {
        .rounds = 5,
        .slice_ns = 150000000,
        .contended_ns = 2000000000,
        .held = 100000,
        .json = "build/bench/results.json",
    };
    const char *parent = NULL;
    int rc = read_options(argc, argv, &bench, &parent);

    if (rc >= 0)
        return rc;
    signal(SIGPIPE, SIG_IGN);
    raise_fd_limit();
    pin_all();
    if (make_dir(&bench, parent))
        return 1;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (!bench.only || strncmp(groups[i].name, bench.only, strlen(bench.only)) == 0)
            groups[i].run(&bench);
    }
    redis_stop(&bench);
    zookeeper_stop(&bench);
    nftw(bench.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (bench_write_json(&bench) || bench.failures || bench.row_count == 0)
        return 1;
    return 0;
}
