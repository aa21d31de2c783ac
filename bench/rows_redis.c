/* SPDX-License-Identifier: MIT */
/*
 * Redis, few at a time: one thread alone, and eight workers on one lock.
 *
 * Alone, the raw limit is a bare client that sends the very same two requests. With
 * eight it is a token in a list, which bare clients pass on with BLPOP and RPUSH: no
 * owner, no lease, no number, and it is gone for good if one of them dies; but it is
 * the least a hand-over in order can cost on this server. Client and server share one
 * core (TCP on the loopback); in the rows with _cores in their name they have all.
 * The rows with _scripted tell how near a lock that is a script can come to that limit
 * at best, and how near to that ours is.
 */
#include "redis_bare.h"

#include <stdlib.h>

#define BATCH 16

struct pair_arg {
    const struct redis *server;
    bool unix_socket;
    struct request pair[2];
};

static int bare_pairs(struct bench *bench, struct bare *bare,
                      const struct request pair[2], struct figures *ret_figures)
{
    int64_t start = now_ns(), cpu = cpu_ns(), pairs = 0;

    do {
        for (int i = 0; i < BATCH; i++) {
            if (bare_call(bare, &pair[0]) || bare_call(bare, &pair[1]))
                return -1;
        }
        pairs += BATCH;
    } while (now_ns() - start < bench->slice_ns);
    ret_figures->v[0] = (double)(now_ns() - start) / (double)pairs;
    ret_figures->v[1] = (double)(cpu_ns() - cpu) / (double)pairs;
    return 0;
}

/* Figures as ours_pair(). */
static int raw_pair(struct bench *bench, void *arg, struct figures *ret_figures)
{
    const struct pair_arg *what = arg;
    static struct bare bare;
    int rc;

    if (bare_open(&bare, what->server, what->unix_socket))
        return bench_error("connect", NULL);
    rc = bare_pairs(bench, &bare, what->pair, ret_figures);
    bare_close(&bare);
    return rc;
}

static void pair_rows(struct bench *bench, struct pair_arg *what, bool one_core,
                      const struct measure *rate, const struct measure *cpu)
{
    char url[400];
    struct figures ours, raw;
    hf_client *client = NULL;
    hf_error why;
    int rc;

    snprintf(url, sizeof url, "%s%s", what->unix_socket ? "redis+unix://" : "",
             what->unix_socket ? what->server->path : what->server->url);
    redis_pin(what->server, one_core);
    rc = hf_open(url, NULL, &client, &why);
    if (rc)
        bench_error(url, &why);
    else
        rc = bench_alternate(bench, rate->name, ours_pair, client, raw_pair, what,
                             &ours, &raw);
    hf_close(client);
    redis_pin(what->server, false);
    if (rc)
        bench_missing(bench, rate);
    else
        bench_report(bench, rate, 1e9 / ours.v[0], 1e9 / raw.v[0]);
    if (cpu && rc)
        bench_missing(bench, cpu);
    else if (cpu)
        bench_report(bench, cpu, ours.v[1] / 1000, raw.v[1] / 1000);
}

void rows_redis_pair(struct bench *bench)
{
    static const struct measure rate = { "redis", "uncontended_pair", "pairs/s",
                                         RATIO_AT_LEAST, 0.9 };
    static const struct measure cpu = { "redis", "client_cpu_pair", "us", RATIO_AT_MOST,
                                        1.5 };
    static const struct measure cores = { "redis", "uncontended_pair_cores", "pairs/s",
                                          RATIO_AT_LEAST, 0.9 };
    static const struct measure path = { "redis", "uncontended_pair_unix", "pairs/s",
                                         RATIO_AT_LEAST, 0.9 };
    struct pair_arg what = { .server = redis_server(bench) };

    if (!what.server)
        return;
    if (requests_learn(what.server, what.pair, 1)) {
        bench_missing(bench, &rate);
        return;
    }
    pair_rows(bench, &what, true, &rate, &cpu);
    pair_rows(bench, &what, false, &cores, NULL);
    what.unix_socket = true;
    pair_rows(bench, &what, true, &path, NULL);
}

/* ---- The token ------------------------------------------------------------------- */

static const struct request token_pop =
    REQUEST("*3\r\n$5\r\nBLPOP\r\n$5\r\ntoken\r\n$1\r\n0\r\n");
static const struct request token_push =
    REQUEST("*3\r\n$5\r\nRPUSH\r\n$5\r\ntoken\r\n$1\r\nt\r\n");

static int token_begin(struct contest *contest, int index, void **ret_state)
{
    struct bare *bare = malloc(sizeof *bare);

    (void)index;
    *ret_state = bare;
    if (!bare)
        return bench_error("worker", NULL);
    return bare_open(bare, contest->shared, false) ? bench_error("connect", NULL) : 0;
}

static int token_enter(void *bare)
{
    return bare_call(bare, &token_pop);
}

static int token_leave(void *bare)
{
    return bare_call(bare, &token_push);
}

static void token_end(void *bare)
{
    if (bare)
        bare_close(bare);
    free(bare);
}

static const struct contest contest_token = {
    .begin = token_begin,
    .enter = token_enter,
    .leave = token_leave,
    .end = token_end,
    .processes = true,
};

/* ---- Eight processes ------------------------------------------------------------- */

static int match_sample(struct bench *bench, void *arg, struct figures *ret_figures)
{
    struct match *match = arg;
    int64_t before;
    int rc;

    if (redis_clear(match->server))
        return -1;
    before = redis_requests(match->server);
    redis_pin(match->server, match->contest.one_core);
    rc = contest_sample(bench, &match->contest, ret_figures);
    redis_pin(match->server, false);
    match->requests =
        (double)(redis_requests(match->server) - before) / ret_figures->v[ENTERED];
    return rc;
}

static int token_sample(struct bench *bench, void *arg, struct figures *ret_figures)
{
    struct match *match = arg;
    static struct bare bare;
    int rc;

    if (redis_clear(match->server) || bare_open(&bare, match->server, false))
        return -1;
    rc = bare_call(&bare, &token_push);
    bare_close(&bare);
    redis_pin(match->server, match->contest.one_core);
    if (rc == 0)
        rc = contest_sample(bench, &match->contest, ret_figures);
    redis_pin(match->server, false);
    return rc;
}

static void process_rows(struct bench *bench, const struct redis *server)
{
    static const struct measure one_core[MATCH_ROWS] = {
        { "redis", "contended_8proc", "acquisitions/s", RATIO_AT_LEAST, 0.9 },
        { "redis", "contended_8proc_requests", "per acquisition", OURS_AT_MOST, 2.3 },
        { "redis", "contended_8proc_slowest_share", "of fair share", OURS_AT_LEAST,
          0.9 },
        { "redis", "contended_8proc_max_over_median", "ratio", OURS_AT_MOST, 10 },
    };
    static const struct measure cores[MATCH_ROWS] = {
        { "redis", "contended_8proc_cores", "acquisitions/s", RATIO_AT_LEAST, 0.9 },
        { "redis", "contended_8proc_cores_requests", "per acquisition", OURS_AT_MOST,
          2.3 },
        { "redis", "contended_8proc_cores_slowest_share", "of fair share",
          OURS_AT_LEAST, 0.9 },
        { "redis", "contended_8proc_cores_max_over_median", "ratio", OURS_AT_MOST, 10 },
    };
    static const struct measure fair[MATCH_ROWS] = {
        { "redis", "contended_8proc_fair", "acquisitions/s", RATIO_AT_LEAST, 0.9 },
        { "redis", "contended_8proc_fair_requests", "per acquisition", OURS_AT_MOST,
          2.3 },
        { "redis", "contended_8proc_fair_slowest_share", "of fair share", OURS_AT_LEAST,
          0.9 },
        { "redis", "contended_8proc_fair_max_over_median", "ratio", OURS_AT_MOST, 10 },
    };
    struct match ours = { server, match_sample, contest_ours, 0 };
    struct match raw = { server, token_sample, contest_token, 2 };

    ours.contest.text = server->url;
    ours.contest.kind = HF_MUTEX;
    ours.contest.processes = true;
    raw.contest.shared = (void *)(uintptr_t)server;
    ours.contest.one_core = raw.contest.one_core = true;
    match_rows(bench, &ours, &raw, one_core);
    ours.contest.one_core = raw.contest.one_core = false;
    match_rows(bench, &ours, &raw, cores);
    ours.contest.one_core = raw.contest.one_core = true;
    ours.contest.kind = HF_FAIR;
    match_rows(bench, &ours, &raw, fair);
}

/* What a script costs, whatever is in it: no goal of ours, but the measure of one. */
static void scripted_rows(struct bench *bench, const struct redis *server)
{
    static const struct measure limit[] = {
        { "redis", "contended_8proc_scripted_limit", "acquisitions/s", GOAL_NONE, 0 },
        { "redis", "contended_8proc_cores_scripted_limit", "acquisitions/s", GOAL_NONE,
          0 },
    };
    static const struct measure near[] = {
        { "redis", "contended_8proc_of_scripted", "acquisitions/s", GOAL_NONE, 0 },
        { "redis", "contended_8proc_cores_of_scripted", "acquisitions/s", GOAL_NONE,
          0 },
    };
    struct match ours = { server, match_sample, contest_ours, 0 };
    struct match least = { server, match_sample, contest_scripted, 2 };
    struct match raw = { server, token_sample, contest_token, 2 };
    struct figures a, b;

    ours.contest.text = server->url;
    ours.contest.kind = HF_MUTEX;
    ours.contest.processes = true;
    least.contest.shared = raw.contest.shared = (void *)(uintptr_t)server;
    for (int i = 0; i < 2; i++) {
        ours.contest.one_core = least.contest.one_core = raw.contest.one_core = i == 0;
        if (bench_alternate(bench, limit[i].name, match_sample, &least, token_sample,
                            &raw, &a, &b))
            bench_missing(bench, &limit[i]);
        else
            bench_report(bench, &limit[i], a.v[RATE], b.v[RATE]);
        if (bench_alternate(bench, near[i].name, match_sample, &ours, match_sample,
                            &least, &a, &b))
            bench_missing(bench, &near[i]);
        else
            bench_report(bench, &near[i], a.v[RATE], b.v[RATE]);
    }
}

/* ---- Eight threads --------------------------------------------------------------- */

static int pair_rate(struct bench *bench, void *arg, struct figures *ret_figures)
{
    const struct pair_arg *what = arg;
    struct figures pair;
    int rc;

    redis_pin(what->server, true);
    rc = raw_pair(bench, arg, &pair);
    redis_pin(what->server, false);
    if (rc == 0)
        ret_figures->v[RATE] = 1e9 / pair.v[0];
    return rc;
}

static void thread_row(struct bench *bench, struct pair_arg *what)
{
    static const struct measure row = { "redis", "contended_8thr_over_raw_pairs",
                                        "acquisitions/s", RATIO_AT_LEAST, 20 };
    struct contest ours = contest_ours;
    struct figures a, b;
    hf_client *client = NULL;
    hf_error why;

    if (hf_open(what->server->url, NULL, &client, &why))
        bench_error(what->server->url, &why);
    ours.shared = client;
    ours.kind = HF_MUTEX;
    if (client && requests_learn(what->server, what->pair, 1) == 0 &&
        bench_alternate(bench, row.name, contest_sample, &ours, pair_rate, what, &a,
                        &b) == 0)
        bench_report(bench, &row, a.v[RATE], b.v[RATE]);
    else
        bench_missing(bench, &row);
    hf_close(client);
}

void rows_redis_contest(struct bench *bench)
{
    struct pair_arg what = { .server = redis_server(bench) };

    if (!what.server)
        return;
    bench->contended_ns /= 2;
    process_rows(bench, what.server);
    scripted_rows(bench, what.server);
    thread_row(bench, &what);
    bench->contended_ns *= 2;
}
