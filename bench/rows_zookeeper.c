/* SPDX-License-Identifier: MIT */
/*
 * ZooKeeper, few at a time: one thread alone, and eight processes on one lock.
 *
 * Alone, the raw limit is a bare session that creates a node and lists the folder in
 * one flight, and then deletes the node: the least that a lock has to send. With eight,
 * the raw limit is the recipe on bare sockets: create, list, watch the one ahead, wait,
 * list again, delete. Names of nodes are Curator's on both sides. Client and server
 * share one core; in the rows with _cores in their name they have all.
 */
#include "zookeeper_bare.h"

#include <stdlib.h>

#define BATCH 64
#define FOLDER "/bare"

/* ---- One thread ------------------------------------------------------------------ */

#define WARM_MS 12000

/* As any lock has to, it looks at the answer: nobody is before it. */
static int bare_pair(struct zoo_bare *bare, const char *prefix)
{
    char path[ZOO_PATH_SIZE], ahead[ZOO_PATH_SIZE];

    if (zoo_create_and_list(bare, FOLDER, prefix, path) ||
        zoo_judge(bare, FOLDER, path, ahead) != 1)
        return -1;
    return zoo_delete(bare, path);
}

static int bare_pairs(const struct bench *bench, struct zoo_bare *bare,
                      struct figures *ret_figures)
{
    char prefix[ZOO_PATH_SIZE];
    int64_t start = now_ns(), cpu = cpu_ns(), pairs = 0;

    zoo_lock_path(prefix, FOLDER);
    do {
        for (int i = 0; i < BATCH; i++) {
            if (bare_pair(bare, prefix))
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
    static struct zoo_bare bare;
    int rc;

    if (zoo_open(&bare, arg))
        return -1;
    rc = bare_pairs(bench, &bare, ret_figures);
    zoo_close(&bare);
    return rc;
}

/* Both kinds of requests, until the server's compiler has seen enough of them. */
static int pair_warm(struct bench *bench, hf_client *client, void *server)
{
    int64_t end = now_ns() + INT64_C(1000000) * (bench->quick ? 0 : WARM_MS);
    struct figures figures;
    int rc = 0;

    while (!rc && now_ns() < end) {
        rc = ours_pair(bench, client, &figures);
        if (!rc)
            rc = raw_pair(bench, server, &figures);
    }
    return rc;
}

static void pair_rows(struct bench *bench, const struct zookeeper *server,
                      bool one_core, const struct measure *rate,
                      const struct measure *cpu)
{
    void *bare_server = (void *)(uintptr_t)server;
    struct figures ours, raw;
    hf_client *client = NULL;
    hf_error why;
    int rc;

    zookeeper_pin(server, one_core);
    rc = hf_open(server->url, NULL, &client, &why);
    if (rc)
        bench_error(server->url, &why);
    else
        rc = pair_warm(bench, client, bare_server);
    if (!rc)
        rc = bench_alternate(bench, rate->name, ours_pair, client, raw_pair,
                             bare_server, &ours, &raw);
    hf_close(client);
    zookeeper_pin(server, false);
    if (rc)
        bench_missing(bench, rate);
    else
        bench_report(bench, rate, 1e9 / ours.v[0], 1e9 / raw.v[0]);
    if (cpu && rc)
        bench_missing(bench, cpu);
    else if (cpu)
        bench_report(bench, cpu, ours.v[1] / 1000, raw.v[1] / 1000);
}

void rows_zookeeper_pair(struct bench *bench)
{
    static const struct measure rate = { "zookeeper", "uncontended_pair", "pairs/s",
                                         RATIO_AT_LEAST, 0.85 };
    static const struct measure cpu = { "zookeeper", "client_cpu_pair", "us",
                                        OURS_AT_MOST, 60 };
    static const struct measure cores = { "zookeeper", "uncontended_pair_cores",
                                          "pairs/s", RATIO_AT_LEAST, 0.85 };
    const struct zookeeper *server = zookeeper_server(bench);

    if (!server)
        return;
    bench->slice_ns *= 4; /* of a server that is slower than others */
    pair_rows(bench, server, true, &rate, &cpu);
    pair_rows(bench, server, false, &cores, NULL);
    bench->slice_ns /= 4;
}

/* ---- The recipe ------------------------------------------------------------------ */

struct recipe {
    struct zoo_bare bare;
    char prefix[ZOO_PATH_SIZE], own[ZOO_PATH_SIZE];
};

static int recipe_begin(struct contest *contest, int index, void **ret_state)
{
    struct recipe *recipe = malloc(sizeof *recipe);

    (void)index;
    if (!recipe)
        return bench_error("worker", NULL);
    if (zoo_open(&recipe->bare, contest->shared)) {
        free(recipe);
        return -1;
    }
    zoo_lock_path(recipe->prefix, FOLDER);
    *ret_state = recipe;
    return 0;
}

static int recipe_enter(void *state)
{
    struct recipe *recipe = state;
    struct zoo_bare *bare = &recipe->bare;
    char ahead[ZOO_PATH_SIZE];
    int first, there;

    if (zoo_create(bare, recipe->prefix, recipe->own))
        return -1;
    while ((first = zoo_look(bare, FOLDER, recipe->own, ahead)) == 0) {
        there = zoo_watch(bare, ahead);
        if (there < 0 || (there > 0 && zoo_await_event(bare)))
            return -1;
    }
    return first > 0 ? 0 : -1;
}

static int recipe_leave(void *state)
{
    struct recipe *recipe = state;

    return zoo_delete(&recipe->bare, recipe->own);
}

static void recipe_end(void *state)
{
    struct recipe *recipe = state;

    if (recipe)
        zoo_close(&recipe->bare);
    free(recipe);
}

static const struct contest contest_recipe = {
    .begin = recipe_begin,
    .enter = recipe_enter,
    .leave = recipe_leave,
    .end = recipe_end,
    .processes = true,
};

/* ---- Eight processes ------------------------------------------------------------- */

static int match_sample(struct bench *bench, void *arg, struct figures *ret_figures)
{
    struct match *match = arg;
    struct zoo_packets before, after;
    int64_t requests;
    int rc = zookeeper_packets(match->server, &before);

    zookeeper_pin(match->server, match->contest.one_core);
    if (rc == 0)
        rc = contest_sample(bench, &match->contest, ret_figures);
    zookeeper_pin(match->server, false);
    if (rc || zookeeper_packets(match->server, &after))
        return -1;
    requests = after.received - before.received;
    /* But for the beginnings and ends of sessions. */
    match->requests = (double)(requests - 2 * BENCH_WORKERS) / ret_figures->v[ENTERED];
    return 0;
}

/* As pair_warm(): hand-overs on one core are slow until they are compiled. */
static void match_warm(struct bench *bench, struct match *ours, struct match *raw)
{
    int64_t end = now_ns() + INT64_C(1000000) * (bench->quick ? 0 : 2 * WARM_MS);
    struct figures figures;

    while (now_ns() < end && !match_sample(bench, ours, &figures) &&
           !match_sample(bench, raw, &figures))
        continue;
}

void rows_zookeeper_contest(struct bench *bench)
{
    static const struct measure one_core[MATCH_ROWS] = {
        { "zookeeper", "contended_8proc", "acquisitions/s", RATIO_AT_LEAST, 1 },
        { "zookeeper", "contended_8proc_requests", "per acquisition", OURS_AT_MOST,
          5.1 }, /* and a ping now and then */
        { "zookeeper", "contended_8proc_slowest_share", "of fair share", OURS_AT_LEAST,
          0.9 },
        { "zookeeper", "contended_8proc_max_over_median", "ratio", OURS_AT_MOST, 10 },
    };
    static const struct measure cores[MATCH_ROWS] = {
        { "zookeeper", "contended_8proc_cores", "acquisitions/s", RATIO_AT_LEAST, 1 },
        { "zookeeper", "contended_8proc_cores_requests", "per acquisition",
          OURS_AT_MOST, 5.1 },
        { "zookeeper", "contended_8proc_cores_slowest_share", "of fair share",
          OURS_AT_LEAST, 0.9 },
        { "zookeeper", "contended_8proc_cores_max_over_median", "ratio", OURS_AT_MOST,
          10 },
    };
    const struct zookeeper *server = zookeeper_server(bench);
    struct match ours = { server, match_sample, contest_ours, 0 };
    struct match raw = { server, match_sample, contest_recipe, 0 };

    if (!server)
        return;
    ours.contest.text = server->url;
    ours.contest.kind = HF_MUTEX;
    ours.contest.processes = true;
    raw.contest.shared = (void *)(uintptr_t)server;
    ours.contest.one_core = raw.contest.one_core = true;
    match_warm(bench, &ours, &raw);
    match_rows(bench, &ours, &raw, one_core);
    ours.contest.one_core = raw.contest.one_core = false;
    match_rows(bench, &ours, &raw, cores);
}
