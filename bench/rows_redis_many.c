/* SPDX-License-Identifier: MIT */
/*
 * Redis, many at a time: 64 threads on 64 locks, a thousand waiters, a hundred thousand
 * locks held.
 *
 * The 64 threads share one client, and so one connection. They are held against a bare
 * client that has 32 requests under way on one connection, takes and releases in turn,
 * and against redis-benchmark -P 32 with the script that takes (of locks that are free:
 * names at random), in requests. The thousand waiters are held against a thousand bare
 * connections in one epoll loop that pass a token on, each once.
 */
#include "redis_bare.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MANY 64
#define PIPELINE 32
#define WAITERS 1000

extern char **environ;

/* ---- 64 threads ------------------------------------------------------------------ */

struct many {
    const struct redis *server;
    struct contest ours;
    struct request pairs[2 * PIPELINE];
    char flight[2][PIPELINE * REQUEST_SIZE]; /* all takes, all releases */
    size_t len[2];
};

static int many_ours(struct bench *bench, void *arg, struct figures *ret_figures)
{
    struct many *many = arg;
    int rc;

    redis_pin(many->server, many->ours.one_core);
    rc = contest_sample(bench, &many->ours, ret_figures);
    redis_pin(many->server, false);
    return rc;
}

static void many_prepare(struct many *many)
{
    for (int i = 0; i < 2 * PIPELINE; i++) {
        int way = i % 2;

        memcpy(many->flight[way] + many->len[way], many->pairs[i].bytes,
               many->pairs[i].len);
        many->len[way] += many->pairs[i].len;
    }
}

static int flight_call(struct many *many, struct bare *bare, int way)
{
    int rc = bare_send(bare, many->flight[way], many->len[way]);

    for (int i = 0; i < PIPELINE && rc == 0; i++)
        rc = bare_reply(bare);
    return rc;
}

/* Figure: pairs/s. */
static int many_bare(struct bench *bench, void *arg, struct figures *ret_figures)
{
    static struct bare bare;
    struct many *many = arg;
    int64_t start, pairs = 0;
    int rc = bare_open(&bare, many->server, false);

    if (rc)
        return bench_error("connect", NULL);
    redis_pin(many->server, many->ours.one_core);
    start = now_ns();
    for (; rc == 0 && now_ns() - start < bench->contended_ns; pairs += PIPELINE) {
        rc = flight_call(many, &bare, 0);
        if (rc == 0)
            rc = flight_call(many, &bare, 1);
    }
    ret_figures->v[RATE] = (double)pairs * 1e9 / (double)(now_ns() - start);
    redis_pin(many->server, false);
    bare_close(&bare);
    return rc;
}

/* The second field of the line that --csv prints below its heading. */
static double csv_rate(const char *text)
{
    const char *line = strchr(text, '\n');
    const char *field = line ? strstr(line, "\",\"") : NULL;

    return field ? strtod(field + 3, NULL) : 0;
}

static int run_reading(const char **argv, char *text, size_t size)
{
    posix_spawn_file_actions_t actions;
    int out[2], status = -1, rc;
    size_t have = 0;
    ssize_t got;
    pid_t pid;

    if (pipe(out))
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    while (rc == 0 && (got = read(out[0], text + have, size - 1 - have)) > 0)
        have += (size_t)got;
    text[have] = '\0';
    close(out[0]);
    if (rc == 0)
        waitpid(pid, &status, 0);
    errno = rc;
    return status == 0 ? 0 : bench_error(argv[0], NULL);
}

/* Figure: requests/s, half of which would be pairs. */
static int many_tool(struct bench *bench, void *arg, struct figures *ret_figures)
{
    struct many *many = arg;
    char port[16], text[2 * REQUEST_SIZE], answer[4096];
    const char *argv[48] = { "redis-benchmark",
                             "-p",
                             port,
                             "-P",
                             "32",
                             "-r",
                             "999999999",
                             "--csv",
                             "-n",
                             bench->quick ? "500" : "40000" };
    int words, rc;

    snprintf(port, sizeof port, "%d", many->server->port);
    words = request_words(&many->pairs[0], "bench/0", "__rand_int__", text, sizeof text,
                          argv + 10, 36);
    argv[10 + words] = NULL;
    redis_pin(many->server, many->ours.one_core);
    rc = run_reading(argv, answer, sizeof answer);
    redis_pin(many->server, false);
    ret_figures->v[RATE] = csv_rate(answer) / 2;
    return rc || redis_clear(many->server) ? -1 : 0;
}

static void many_rows(struct bench *bench, struct many *many, bool one_core,
                      const struct measure rows[2])
{
    struct figures a, b;

    many->ours.one_core = one_core;
    if (bench_alternate(bench, rows[0].name, many_ours, many, many_bare, many, &a, &b))
        bench_missing(bench, &rows[0]);
    else
        bench_report(bench, &rows[0], a.v[RATE], b.v[RATE]);
    if (bench_alternate(bench, rows[1].name, many_ours, many, many_tool, many, &a, &b))
        bench_missing(bench, &rows[1]);
    else
        bench_report(bench, &rows[1], 2 * a.v[RATE], 2 * b.v[RATE]);
}

void rows_redis_many(struct bench *bench)
{
    static const struct measure one_core[2] = {
        { "redis", "threads_64", "pairs/s", RATIO_AT_LEAST, 0.7 },
        { "redis", "threads_64_redis_benchmark", "requests/s", RATIO_AT_LEAST, 0.7 },
    };
    static const struct measure cores[2] = {
        { "redis", "threads_64_cores", "pairs/s", RATIO_AT_LEAST, 0.7 },
        { "redis", "threads_64_cores_redis_benchmark", "requests/s", RATIO_AT_LEAST,
          0.7 },
    };
    struct many *many = calloc(1, sizeof *many);
    hf_client *client = NULL;
    hf_error why;

    if (!many || !(many->server = redis_server(bench))) {
        free(many);
        return;
    }
    if (hf_open(many->server->url, NULL, &client, &why))
        bench_error(many->server->url, &why);
    many->ours = contest_ours;
    many->ours.shared = client;
    many->ours.workers = THREADS_MANY;
    many->ours.apart = true;
    if (!client || requests_learn(many->server, many->pairs, PIPELINE)) {
        bench_missing(bench, &one_core[0]);
    } else {
        many_prepare(many);
        bench->contended_ns /= 2;
        many_rows(bench, many, true, one_core);
        many_rows(bench, many, false, cores);
        bench->contended_ns *= 2;
    }
    hf_close(client);
    free(many);
}

/* ---- A thousand waiters ---------------------------------------------------------- */

static const struct request token_pop =
    REQUEST("*3\r\n$5\r\nBLPOP\r\n$5\r\nchain\r\n$1\r\n0\r\n");
static const struct request token_push =
    REQUEST("*3\r\n$5\r\nRPUSH\r\n$5\r\nchain\r\n$1\r\nt\r\n");

struct quiet {
    const struct redis *server;
    int64_t before, during;
};

static void quiet_watch(void *arg, bool begins)
{
    struct quiet *quiet = arg;
    int64_t now = redis_counter(quiet->server, "stats", "total_commands_processed:");

    if (begins)
        quiet->before = now;
    else
        quiet->during = now - quiet->before - 1; /* the first question itself */
}

struct chain {
    int epoll, made;
    struct bare first; /* its buffer serves all */
    int fds[WAITERS];
};

static int chain_open(struct chain *chain, const struct redis *server)
{
    chain->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (; chain->made < WAITERS; chain->made++) {
        struct epoll_event event = { .events = EPOLLIN,
                                     .data.u32 = (uint32_t)chain->made };

        if (bare_open(&chain->first, server, false))
            return bench_error("connect", NULL);
        chain->fds[chain->made] = chain->first.fd;
        if (epoll_ctl(chain->epoll, EPOLL_CTL_ADD, chain->first.fd, &event) ||
            bare_send(&chain->first, token_pop.bytes, token_pop.len))
            return bench_error("chain", NULL);
    }
    return 0;
}

/* One of them has something to read: the token, or the answer to passing it on. */
static int chain_step(struct chain *chain, uint32_t index, bool *has_passed)
{
    chain->first.fd = chain->fds[index];
    chain->first.from = chain->first.to = 0;
    if (bare_reply(&chain->first))
        return -1;
    if (has_passed[index])
        return 0;
    has_passed[index] = true;
    return bare_send(&chain->first, token_push.bytes, token_push.len) ? -1 : 1;
}

static int chain_run(struct chain *chain)
{
    bool has_passed[WAITERS] = { false };
    struct epoll_event events[64];

    for (int done = 0; done < WAITERS;) {
        int ready = epoll_wait(chain->epoll, events, 64, 10000);

        if (ready <= 0)
            return bench_error("chain", NULL);
        for (int i = 0; i < ready; i++) {
            int step = chain_step(chain, events[i].data.u32, has_passed);

            if (step < 0)
                return -1;
            done += step;
        }
    }
    return 0;
}

/* Waits until all stand in the server's queue. */
static int chain_settle(const struct redis *server)
{
    int64_t end = now_ns() + 10000000000;

    while (redis_counter(server, "clients", "blocked_clients:") < WAITERS) {
        if (now_ns() > end)
            return bench_error("chain", NULL);
    }
    return 0;
}

/* Figure: ns per hand-over. */
static int raw_token_chain(struct bench *bench, void *arg, struct figures *ret_figures)
{
    const struct redis *server = arg;
    struct chain *chain = calloc(1, sizeof *chain);
    static struct bare starter;
    int64_t start;
    int rc;

    (void)bench;
    if (!chain || redis_clear(server) || bare_open(&starter, server, false)) {
        free(chain);
        return bench_error("chain", NULL);
    }
    rc = chain_open(chain, server);
    if (rc == 0)
        rc = chain_settle(server);
    start = now_ns();
    if (rc == 0)
        rc = bare_call(&starter, &token_push);
    if (rc == 0)
        rc = chain_run(chain);
    ret_figures->v[PER_HANDOFF] = (double)(now_ns() - start) / WAITERS;
    while (chain->made > 0)
        close(chain->fds[--chain->made]);
    close(chain->epoll);
    bare_close(&starter);
    free(chain);
    return rc;
}

static void crowd_rows(struct bench *bench, const struct redis *server,
                       const char *options, const struct measure *rows, int count)
{
    char url[128];
    struct quiet quiet = { .server = server };
    struct crowd_plan plan = {
        .url = url, .idle_ms = 2000, .watch = quiet_watch, .arg = &quiet
    };
    struct figures a, b;
    int rc;

    snprintf(url, sizeof url, "%s%s", server->url, options);
    redis_pin(server, true);
    rc = bench_alternate(bench, rows[0].name, ours_crowd, &plan, raw_token_chain,
                         (void *)(uintptr_t)server, &a, &b);
    redis_pin(server, false);
    for (int i = 0; i < count; i++) {
        if (rc)
            bench_missing(bench, &rows[i]);
        else if (i == count - 1)
            bench_report(bench, &rows[i], (double)quiet.during, NAN);
        else
            bench_report(bench, &rows[i], a.v[i], i == 0 ? b.v[i] : NAN);
    }
}

void rows_redis_crowd(struct bench *bench)
{
    static const struct measure rows[5] = {
        { "redis", "waiters_1000", "ns/hand-off", RATIO_AT_MOST, 1.5 },
        { "redis", "waiters_1000_bytes", "bytes/waiter", OURS_AT_MOST, 1024 },
        { "redis", "waiters_1000_threads", "threads", OURS_AT_MOST, 0 },
        { "redis", "waiters_1000_idle_cpu_us", "us in 2 s", OURS_AT_MOST, 200 },
        { "redis", "waiters_1000_idle_requests", "in 2 s", OURS_AT_MOST, 0 },
    };
    static const struct measure each[2] = {
        { "redis", "waiters_1000_no_handoff", "ns/hand-off", RATIO_AT_MOST, 1.5 },
        { "redis", "waiters_1000_no_handoff_idle_requests", "in 2 s", OURS_AT_MOST, 0 },
    };
    const struct redis *server = redis_server(bench);

    if (!server)
        return;
    crowd_rows(bench, server, "", rows, 5);
    crowd_rows(bench, server, "?handoff=0", each, 2);
}

/* ---- A hundred thousand held ----------------------------------------------------- */

struct renewals {
    const struct redis *server;
    int64_t requests, locks;
};

static void renewals_watch(void *arg, bool begins)
{
    struct renewals *seen = arg;
    int sign = begins ? -1 : 1;

    seen->requests += sign * redis_requests(seen->server);
    /* The script looks once at each lock that it renews. */
    seen->locks +=
        sign * redis_counter(seen->server, "commandstats", "cmdstat_hexists:calls=");
}

void rows_redis_held(struct bench *bench)
{
    static const struct measure rows[3] = {
        { "redis", "held_100k_bytes", "bytes/hold", OURS_AT_MOST, 512 },
        { "redis", "held_100k_renew_cpu_percent", "% of a core", GOAL_NONE, 0 },
        { "redis", "held_100k_renew_requests", "per 100 locks", OURS_AT_MOST, 1 },
    };
    struct renewals seen = { .server = redis_server(bench) };
    struct held_plan plan = { .ttl_ms = 12000, .watch = renewals_watch, .arg = &seen };
    struct figures figures = { { 0 } };

    if (!seen.server)
        return;
    plan.url = seen.server->url;
    int rc = ours_held(bench, &plan, &figures);
    for (int i = 0; i < 3; i++) {
        if (rc)
            bench_missing(bench, &rows[i]);
        else if (i < 2)
            bench_report(bench, &rows[i], figures.v[i], NAN);
        else
            bench_report(bench, &rows[i],
                         (double)seen.requests * 100 / (double)seen.locks, NAN);
    }
}
