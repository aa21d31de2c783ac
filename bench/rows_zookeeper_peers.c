/* SPDX-License-Identifier: MIT */
/*
 * Other lock libraries on the same ZooKeeper server, in the same run (bench --peers
 * DIR, whose file commands.zookeeper peers/prepare.py writes).
 *
 * Each runs once before it counts, because some of them compile while they run, as the
 * server does; so do ours. Alone and in a crowd they share a core with the server, as
 * ours do; eight processes have all cores.
 */
#include "drivers.h"
#include "zookeeper_bare.h"

struct peer {
    const struct zookeeper *server;
    struct drivers *drivers;
};

/* ---- Alone ----------------------------------------------------------------------- */

static int alone_ours(struct bench *bench, void *client, struct figures *ret_figures)
{
    struct figures pair;
    int rc = ours_pair(bench, client, &pair);

    ret_figures->v[RATE] = 1e9 / pair.v[0];
    ret_figures->v[DRIVER_CPU] = pair.v[1];
    return rc;
}

static int alone_warm(struct bench *bench, hf_client *client)
{
    int64_t end = now_ns() + INT64_C(1000000) * drivers_warm_ms(bench);
    struct figures figures;
    int rc = 0;

    while (rc == 0 && now_ns() < end)
        rc = alone_ours(bench, client, &figures);
    return rc;
}

static int alone(struct bench *bench, struct peer *peer, struct figures *ours,
                 struct figures *theirs)
{
    struct figures warm;
    hf_client *client = NULL;
    hf_error why;
    int rc = drivers_start(peer->drivers, 1);

    if (rc == 0)
        rc = drivers_run(peer->drivers, drivers_warm_ms(bench), &warm);
    if (rc == 0 && (rc = hf_open(peer->server->url, NULL, &client, &why)) != 0)
        bench_error(peer->server->url, &why);
    if (rc == 0)
        rc = alone_warm(bench, client);
    if (rc == 0)
        rc = bench_alternate(bench, "peers", alone_ours, client, drivers_alone,
                             peer->drivers, ours, theirs);
    hf_close(client);
    return rc;
}

/* ---- A crowd --------------------------------------------------------------------- */

static int crowd_ours(struct bench *bench, void *peer, struct figures *ret_figures)
{
    return zookeeper_crowd(bench, ((struct peer *)peer)->server, ret_figures);
}

static int crowd_theirs(struct bench *bench, void *peer, struct figures *ret_figures)
{
    return drivers_crowd(((struct peer *)peer)->drivers, zookeeper_crowd_size(bench),
                         ret_figures);
}

static int crowd(struct bench *bench, struct peer *peer, struct figures *ours,
                 struct figures *theirs)
{
    int rc = bench->quick ? 0 : crowd_theirs(bench, peer, theirs);

    if (rc == 0)
        rc = bench_alternate(bench, "peers", crowd_ours, peer, crowd_theirs, peer, ours,
                             theirs);
    return rc;
}

/* ---- Rows ------------------------------------------------------------------------ */

static void peer_failed(struct bench *bench, const char *name)
{
    bench->failures++;
    fprintf(stderr, "bench: a driver of %s failed\n", name);
}

static void one_core_rows(struct bench *bench, struct peer *peer, const char *name)
{
    static const struct measure pair = { "zookeeper", "uncontended_pair", "pairs/s",
                                         RATIO_AT_LEAST, 1 };
    static const struct measure cpu = { "zookeeper", "client_cpu_pair", "us",
                                        RATIO_AT_MOST, 1 };
    static const struct measure waiters = { "zookeeper", "waiters_1000", "ns/hand-off",
                                            RATIO_AT_MOST, 1 };
    struct figures ours = { { 0 } }, theirs = { { 0 } };

    if (alone(bench, peer, &ours, &theirs) == 0) {
        bench_report_peer(bench, &pair, name, ours.v[RATE], theirs.v[RATE]);
        bench_report_peer(bench, &cpu, name, ours.v[DRIVER_CPU] / 1000,
                          theirs.v[DRIVER_CPU] / 1000);
    } else {
        peer_failed(bench, name);
    }
    if (crowd(bench, peer, &ours, &theirs) == 0)
        bench_report_peer(bench, &waiters, name, ours.v[PER_HANDOFF],
                          theirs.v[PER_HANDOFF]);
    else
        peer_failed(bench, name);
}

static void many_rows(struct bench *bench, struct peer *peer, const char *name)
{
    static const struct measure rate = { "zookeeper", "contended_8proc_cores",
                                         "acquisitions/s", RATIO_AT_LEAST, 1 };
    static const struct measure slowest = { "zookeeper",
                                            "contended_8proc_cores_slowest_share",
                                            "of fair share", GOAL_NONE, 0 };
    static const struct measure longest = { "zookeeper",
                                            "contended_8proc_cores_max_wait_ms", "ms",
                                            RATIO_AT_MOST, 1 };
    struct figures ours = { { 0 } }, theirs = { { 0 } };

    if (drivers_many(bench, peer->drivers, peer->server->url, &ours, &theirs)) {
        peer_failed(bench, name);
        return;
    }
    bench_report_peer(bench, &rate, name, ours.v[RATE], theirs.v[RATE]);
    bench_report_peer(bench, &slowest, name, ours.v[SLOWEST], theirs.v[SLOWEST]);
    bench_report_peer(bench, &longest, name, ours.v[WAIT_MAX] / 1e6,
                      theirs.v[WAIT_MAX] / 1e6);
}

static void peer_rows(struct bench *bench, const char *name, struct drivers *drivers)
{
    struct peer peer = { zookeeper_server(bench), drivers };

    zookeeper_pin(peer.server, true);
    one_core_rows(bench, &peer, name);
    drivers_stop(drivers);
    zookeeper_pin(peer.server, false);
    many_rows(bench, &peer, name);
}

void rows_zookeeper_peers(struct bench *bench)
{
    const struct zookeeper *server = bench->peers ? zookeeper_server(bench) : NULL;

    if (!server)
        return;
    bench->slice_ns *= 4; /* as in the rows of one thread */
    drivers_of(bench, "commands.zookeeper", server->port, peer_rows);
    bench->slice_ns /= 4;
}
