/* SPDX-License-Identifier: MIT */
/*
 * Other lock libraries on the same Redis server, in the same run (bench --peers DIR,
 * whose file commands peers/prepare.py writes). Each runs once before it counts,
 * because some of them compile while they run. One of them alone shares a core with the
 * server, eight of them have all cores; so do ours.
 */
#include "drivers.h"
#include "redis_bare.h"

struct peer {
    const struct redis *server;
    struct drivers *drivers;
};

/* ---- Alone ----------------------------------------------------------------------- */

static int alone_ours(struct bench *bench, void *client, struct figures *ret_figures)
{
    struct figures pair;
    int rc = ours_pair(bench, client, &pair);

    ret_figures->v[RATE] = 1e9 / pair.v[0];
    return rc;
}

static int alone(struct bench *bench, struct peer *peer, struct figures *ours,
                 struct figures *theirs)
{
    struct figures warm;
    hf_client *client = NULL;
    hf_error why;
    int rc;

    redis_pin(peer->server, true);
    rc = hf_open(peer->server->url, NULL, &client, &why)
             ? -1
             : drivers_start(peer->drivers, 1);
    if (rc == 0)
        rc = drivers_run(peer->drivers, drivers_warm_ms(bench), &warm);
    if (rc == 0)
        rc = bench_alternate(bench, "peers", alone_ours, client, drivers_alone,
                             peer->drivers, ours, theirs);
    hf_close(client);
    drivers_stop(peer->drivers);
    redis_pin(peer->server, false);
    return rc;
}

/* ---- Rows ------------------------------------------------------------------------ */

static void peer_rows(struct bench *bench, const char *name, struct drivers *drivers)
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
    struct peer peer = { redis_server(bench), drivers };
    struct figures ours = { { 0 } }, theirs = { { 0 } };

    if (alone(bench, &peer, &ours, &theirs) == 0) {
        bench_report_peer(bench, &pair, name, ours.v[RATE], theirs.v[RATE]);
    } else {
        bench->failures++;
        fprintf(stderr, "bench: the driver of %s failed\n", name);
        return;
    }
    if (drivers_many(bench, drivers, peer.server->url, &ours, &theirs)) {
        bench->failures++;
        fprintf(stderr, "bench: the drivers of %s failed\n", name);
        return;
    }
    bench_report_peer(bench, &rate, name, ours.v[RATE], theirs.v[RATE]);
    bench_report_peer(bench, &slowest, name, ours.v[SLOWEST], theirs.v[SLOWEST]);
    bench_report_peer(bench, &longest, name, ours.v[WAIT_MAX] / 1e6,
                      theirs.v[WAIT_MAX] / 1e6);
}

void rows_redis_peers(struct bench *bench)
{
    const struct redis *server = bench->peers ? redis_server(bench) : NULL;

    if (server)
        drivers_of(bench, "commands", server->port, peer_rows);
}
