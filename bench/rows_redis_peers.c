/* SPDX-License-Identifier: MIT */
/*
 * Other lock libraries on the same server, in the same run (bench --peers DIR).
 *
 * DIR/commands, which peers/prepare.py writes, has a line for each: its name, then the
 * command of its driver, with tabs between. A driver is started with the port as its
 * last argument, says "ready", and for each line "NAME MS" takes and releases that lock
 * for so long; it answers how often and its longest wait in microseconds. It runs once
 * before it counts, because some of them compile while they run. One of them alone
 * shares a core with the server, eight of them have all cores; so do ours.
 */
#include "redis_bare.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WARM_MS 2000
#define WORDS_MAX 16

extern char **environ;

struct driver {
    pid_t pid;
    FILE *to, *from;
};

struct peer {
    const struct redis *server;
    char *argv[WORDS_MAX + 2];
    struct driver drivers[BENCH_WORKERS];
    int count;
};

/* ---- Drivers --------------------------------------------------------------------- */

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

/* It ends when there is nothing more to read. */
static void driver_stop(struct driver *driver)
{
    fclose(driver->to);
    fclose(driver->from);
    if (driver->pid > 0)
        waitpid(driver->pid, NULL, 0);
}

static int peer_start(struct peer *peer, int count)
{
    char line[64];
    int rc = 0;

    for (; peer->count < count && rc == 0; peer->count++)
        rc = driver_start(&peer->drivers[peer->count], peer->argv);
    for (int i = 0; i < peer->count && rc == 0; i++) {
        if (!fgets(line, sizeof line, peer->drivers[i].from) ||
            strcmp(line, "ready\n") != 0)
            rc = -1;
    }
    return rc;
}

static void peer_stop(struct peer *peer)
{
    while (peer->count > 0)
        driver_stop(&peer->drivers[--peer->count]);
}

/* All of them for so long. Figures as those of a contest. */
static int peer_run(struct peer *peer, int64_t ms, struct figures *ret_figures)
{
    double total = 0, least = INFINITY, longest = 0;

    for (int i = 0; i < peer->count; i++) {
        fprintf(peer->drivers[i].to, "peers %lld\n", (long long)ms);
        fflush(peer->drivers[i].to);
    }
    for (int i = 0; i < peer->count; i++) {
        double count, wait;

        if (fscanf(peer->drivers[i].from, "%lf %lf", &count, &wait) != 2)
            return -1;
        total += count;
        least = count < least ? count : least;
        longest = wait > longest ? wait : longest;
    }
    ret_figures->v[RATE] = total * 1000 / (double)ms;
    ret_figures->v[SLOWEST] = total > 0 ? least * peer->count / total : 0;
    ret_figures->v[WAIT_MAX] = longest * 1000;
    return 0;
}

/* ---- Alone ----------------------------------------------------------------------- */

static int alone_ours(struct bench *bench, void *client, struct figures *ret_figures)
{
    struct figures pair;
    int rc = ours_pair(bench, client, &pair);

    ret_figures->v[RATE] = 1e9 / pair.v[0];
    return rc;
}

static int alone_theirs(struct bench *bench, void *peer, struct figures *ret_figures)
{
    return peer_run(peer, bench->slice_ns / 1000000, ret_figures);
}

static int alone(struct bench *bench, struct peer *peer, struct figures *ours,
                 struct figures *theirs)
{
    struct figures warm;
    hf_client *client = NULL;
    hf_error why;
    int rc;

    redis_pin(peer->server, true);
    rc = hf_open(peer->server->url, NULL, &client, &why) ? -1 : peer_start(peer, 1);
    if (rc == 0)
        rc = peer_run(peer, bench->quick ? 100 : WARM_MS, &warm);
    if (rc == 0)
        rc = bench_alternate(bench, "peers", alone_ours, client, alone_theirs, peer,
                             ours, theirs);
    hf_close(client);
    peer_stop(peer);
    redis_pin(peer->server, false);
    return rc;
}

/* ---- Eight of them --------------------------------------------------------------- */

static int many_theirs(struct bench *bench, void *peer, struct figures *ret_figures)
{
    return peer_run(peer, bench->contended_ns / 1000000, ret_figures);
}

static int many(struct bench *bench, struct peer *peer, struct figures *ours,
                struct figures *theirs)
{
    struct contest contest = contest_ours;
    struct figures warm;
    int rc = peer_start(peer, BENCH_WORKERS);

    contest.text = peer->server->url;
    contest.kind = HF_MUTEX;
    contest.processes = true;
    contest.timed = true;
    if (rc == 0)
        rc = peer_run(peer, bench->quick ? 100 : 2 * WARM_MS, &warm);
    if (rc == 0)
        rc = bench_alternate(bench, "peers", contest_sample, &contest, many_theirs,
                             peer, ours, theirs);
    peer_stop(peer);
    return rc;
}

/* ---- Rows ------------------------------------------------------------------------ */

static void peer_rows(struct bench *bench, struct peer *peer, const char *name)
{
    static const struct measure pair = { "redis", "uncontended_pair", "pairs/s",
                                         RATIO_AT_LEAST, 1 };
    static const struct measure rate = { "redis", "contended_8proc_cores",
                                         "acquisitions/s", RATIO_AT_LEAST, 1 };
    static const struct measure slowest = { "redis",
                                            "contended_8proc_cores_slowest_share",
                                            "of fair share", RATIO_AT_LEAST, 1 };
    static const struct measure longest = { "redis",
                                            "contended_8proc_cores_max_wait_ms", "ms",
                                            RATIO_AT_MOST, 1 };
    struct figures ours = { { 0 } }, theirs = { { 0 } };

    if (alone(bench, peer, &ours, &theirs) == 0) {
        bench_report_peer(bench, &pair, name, ours.v[RATE], theirs.v[RATE]);
    } else {
        bench->failures++;
        fprintf(stderr, "bench: the driver of %s failed\n", name);
        return;
    }
    if (many(bench, peer, &ours, &theirs)) {
        bench->failures++;
        fprintf(stderr, "bench: the drivers of %s failed\n", name);
        return;
    }
    bench_report_peer(bench, &rate, name, ours.v[RATE], theirs.v[RATE]);
    bench_report_peer(bench, &slowest, name, ours.v[SLOWEST], theirs.v[SLOWEST]);
    bench_report_peer(bench, &longest, name, ours.v[WAIT_MAX] / 1e6,
                      theirs.v[WAIT_MAX] / 1e6);
}

static void peer_line(struct bench *bench, const struct redis *server, char *line)
{
    static char names[16][32];
    static size_t name_count;
    struct peer *peer = calloc(1, sizeof *peer);
    char port[16], *at = NULL, *name = strtok_r(line, "\t\n", &at);
    int words = 0;

    if (!peer || !name || name_count == sizeof names / sizeof *names) {
        free(peer);
        return;
    }
    peer->server = server;
    while (words < WORDS_MAX && (peer->argv[words] = strtok_r(NULL, "\t\n", &at)))
        words++;
    snprintf(port, sizeof port, "%d", server->port);
    peer->argv[words] = port;
    snprintf(names[name_count], sizeof *names, "%s", name);
    peer_rows(bench, peer, names[name_count++]);
    free(peer);
}

void rows_redis_peers(struct bench *bench)
{
    char path[512], line[4096];
    const struct redis *server = bench->peers ? redis_server(bench) : NULL;
    FILE *commands;

    if (!server)
        return;
    snprintf(path, sizeof path, "%s/commands", bench->peers);
    commands = fopen(path, "re");
    if (!commands) {
        bench->failures++;
        bench_error(path, NULL);
        return;
    }
    while (fgets(line, sizeof line, commands))
        peer_line(bench, server, line);
    fclose(commands);
}
