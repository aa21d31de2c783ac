/* SPDX-License-Identifier: MIT */
/*
 * ZooKeeper, a thousand waiters on one lock.
 *
 * Ours wait in one client, and so in one session. They are held against the recipe on a
 * thousand bare sockets in one epoll loop: when the one ahead has gone a session lists
 * the folder, sees that it is the first, and deletes its node. Everybody has it once.
 * Packets are those of the server: requests, answers and events of one hand-over.
 *
 * layout=single is a herd. All of it is woken by every hand-over, so only the first few
 * hand-overs are measured, out of a thousand that wait; beside it stands the queue on
 * bare sockets, to show what the queue is good for.
 */
#include "zookeeper_bare.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define WAITERS 1000
#define FOLDER "/bare"
#define SETTLE_MS 200 /* longer than any answer takes */
#define IDLE_MS 2000
#define HERD_PASSES 20

/* Figures of a crowd, after those of ours_crowd(). */
enum { PACKETS = IDLE_CPU + 1 };

int zookeeper_crowd_size(const struct bench *bench)
{
    return bench->quick ? 50 : WAITERS;
}

static int64_t packets_between(struct zoo_packets before, struct zoo_packets after)
{
    return after.received - before.received + after.sent - before.sent;
}

/* ---- The recipe on bare sockets -------------------------------------------------- */

enum step { WAITING, LISTING, LEAVING, GONE };

struct link {
    int fd;
    int32_t xid;
    enum step step;
    char own[ZOO_PATH_SIZE];
};

struct chain {
    int epoll, made;
    struct zoo_bare bare; /* its buffer serves all */
    struct link links[WAITERS + 1];
};

static struct zoo_bare *chain_bare(struct chain *chain, const struct link *link)
{
    chain->bare.fd = link->fd;
    chain->bare.xid = link->xid;
    chain->bare.events = 0;
    chain->bare.from = chain->bare.to = 0;
    return &chain->bare;
}

/* Behind the one that was made before it; the first one holds. */
static int chain_add(struct chain *chain, const struct zookeeper *server)
{
    struct link *link = &chain->links[chain->made];
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = (uint32_t)chain->made };
    struct zoo_bare *bare = &chain->bare;
    char prefix[ZOO_PATH_SIZE];
    int rc;

    if (zoo_open(bare, server))
        return -1;
    link->fd = bare->fd;
    zoo_lock_path(prefix, FOLDER);
    rc = zoo_create(bare, prefix, link->own);
    if (rc == 0 && chain->made > 0 && zoo_watch(bare, link[-1].own) != 1)
        rc = -1;
    link->xid = bare->xid;
    chain->made++;
    if (rc || epoll_ctl(chain->epoll, EPOLL_CTL_ADD, link->fd, &event))
        return bench_error("chain", NULL);
    return 0;
}

/* The session has something to read. Returns 1 if it has got the lock. */
static int chain_step(struct chain *chain, struct link *link)
{
    struct zoo_bare *bare = chain_bare(chain, link);
    char ahead[ZOO_PATH_SIZE];
    int rc = -1, got = 0;

    if (zoo_next(bare) == ZOO_FAILED || bare->from != bare->to)
        return bench_error("chain", NULL);
    if (link->step == WAITING) {
        rc = zoo_ask_list(bare, FOLDER);
    } else if (link->step == LISTING) {
        got = zoo_judge(bare, FOLDER, link->own, ahead) == 1;
        rc = got ? zoo_ask_delete(bare, link->own) : -1;
    } else if (link->step == LEAVING) {
        rc = bare->error;
    }
    link->step++;
    link->xid = bare->xid;
    return rc ? -1 : got;
}

static int chain_drain(struct chain *chain, int waiters)
{
    struct epoll_event events[64];
    struct link *first = &chain->links[0];
    int done = 0;

    first->step = LEAVING;
    if (zoo_ask_delete(chain_bare(chain, first), first->own))
        return -1;
    first->xid = chain->bare.xid;
    while (done < waiters) {
        int ready = epoll_wait(chain->epoll, events, 64, 10000);

        if (ready <= 0)
            return bench_error("chain", NULL);
        for (int i = 0; i < ready; i++) {
            int got = chain_step(chain, &chain->links[events[i].data.u32]);

            if (got < 0)
                return -1;
            done += got;
        }
    }
    return 0;
}

/* The last answer may still be on its way: zoo_close() reads past it. */
static void chain_close(struct chain *chain)
{
    while (chain->made > 0)
        zoo_close(chain_bare(chain, &chain->links[--chain->made]));
    close(chain->epoll);
    free(chain);
}

/* Figures: ns and packets of a hand-over. */
static int raw_chain_of_nodes(struct bench *bench, void *arg,
                              struct figures *ret_figures)
{
    const struct zookeeper *server = arg;
    struct chain *chain = calloc(1, sizeof *chain);
    struct zoo_packets before, after;
    int waiters = zookeeper_crowd_size(bench), rc;
    int64_t start;

    if (!chain)
        return bench_error("chain", NULL);
    chain->epoll = epoll_create1(EPOLL_CLOEXEC);
    rc = chain->epoll < 0;
    while (rc == 0 && chain->made <= waiters)
        rc = chain_add(chain, server);
    if (rc == 0)
        rc = zookeeper_packets(server, &before);
    start = now_ns();
    if (rc == 0)
        rc = chain_drain(chain, waiters);
    ret_figures->v[PER_HANDOFF] = (double)(now_ns() - start) / waiters;
    if (rc == 0)
        rc = zookeeper_packets(server, &after);
    if (rc == 0)
        ret_figures->v[PACKETS] = (double)packets_between(before, after) / waiters;
    chain_close(chain);
    return rc;
}

/* ---- Ours ------------------------------------------------------------------------ */

struct crowd_case {
    const struct zookeeper *server;
    const char *options; /* of the URL */
    const char *name;    /* of the lock: layouts do not share names */
    int passes;          /* hand-overs; 0: one for each who waits */
    double idle_packets; /* of the last sample */
};

struct crowd {
    hf_client *client;
    int passed, wanted;
    int failed;
    bool over;       /* the client is being closed */
    hf_hold *last;   /* the one that has it at the end, */
    int64_t last_ns; /* since then */
};

/* The last one keeps it, so that everything comes to rest. */
static void crowd_granted(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct crowd *crowd = user;

    if (crowd->over)
        return;
    if (rc) {
        crowd->failed++;
        bench_error("waiter", why);
    } else if (++crowd->passed < crowd->wanted) {
        crowd->failed += hf_release_async(hold, NULL, NULL, NULL) != 0;
    } else {
        crowd->last = hold;
        crowd->last_ns = now_ns();
    }
}

/* 1: nothing came in that time. */
static int crowd_turn(struct crowd *crowd, int timeout_ms)
{
    struct pollfd watch = { hf_dispatch_fd(crowd->client, NULL), POLLIN, 0 };
    hf_error why;

    if (poll(&watch, 1, timeout_ms) < 1)
        return 1;
    return hf_dispatch(crowd->client, &why) ? bench_error("hf_dispatch", &why) : 0;
}

/* Until nothing comes, and the server has nothing to do either. */
static int crowd_settle(struct crowd *crowd, const struct zookeeper *server)
{
    struct zoo_packets before, after;

    if (zookeeper_packets(server, &after))
        return -1;
    do {
        int rc = 0;

        before = after;
        while (rc == 0 && !crowd->failed)
            rc = crowd_turn(crowd, SETTLE_MS);
        if (rc < 0 || crowd->failed || zookeeper_packets(server, &after))
            return -1;
    } while (packets_between(before, after) > 0);
    return 0;
}

static int crowd_queue(struct crowd *crowd, const struct crowd_case *what, int waiters)
{
    static const hf_acquire_options forever = { .size = sizeof forever,
                                                .timeout_ms = HF_FOREVER };
    hf_want want = hf_mutex(what->name);
    hf_error why;

    for (int i = 0; i < waiters; i++) {
        if (hf_acquire_async(crowd->client, &want, 1, &forever, crowd_granted, crowd,
                             NULL, &why))
            return bench_error("hf_acquire_async", &why);
    }
    return crowd_settle(crowd, what->server);
}

/* What doing nothing costs. */
static int crowd_idle(struct crowd *crowd, struct crowd_case *what, bool quick,
                      struct figures *ret_figures)
{
    int idle_ms = quick ? 2 : IDLE_MS;
    struct zoo_packets before, after;
    int64_t end, cpu;

    if (zookeeper_packets(what->server, &before))
        return -1;
    cpu = cpu_ns();
    end = now_ns() + (int64_t)idle_ms * 1000000;
    for (int64_t left = idle_ms; left > 0; left = (end - now_ns()) / 1000000)
        crowd_turn(crowd, (int)left);
    ret_figures->v[IDLE_CPU] = (double)(cpu_ns() - cpu) / 1000;
    if (zookeeper_packets(what->server, &after))
        return -1;
    int64_t packets = packets_between(before, after); /* without the question itself */
    what->idle_packets = packets > 0 ? (double)packets : 0;
    return 0;
}

static int crowd_pass(struct crowd *crowd, hf_hold *first,
                      const struct zookeeper *server, struct figures *ret_figures)
{
    struct zoo_packets before, after;
    int64_t start;
    hf_error why;
    int rc = zookeeper_packets(server, &before);

    start = now_ns();
    if (rc == 0 && hf_release_async(first, NULL, NULL, &why))
        return bench_error("hf_release_async", &why);
    while (rc == 0 && crowd->passed < crowd->wanted && !crowd->failed)
        rc = crowd_turn(crowd, 20000);
    if (rc || crowd_settle(crowd, server) || zookeeper_packets(server, &after))
        return bench_error("the crowd does not get through", NULL);
    ret_figures->v[PER_HANDOFF] = (double)(crowd->last_ns - start) / crowd->wanted;
    ret_figures->v[PACKETS] = (double)packets_between(before, after) / crowd->wanted;
    return 0;
}

static int crowd_run(const struct bench *bench, struct crowd *crowd,
                     struct crowd_case *what, struct figures *ret_figures)
{
    int waiters = zookeeper_crowd_size(bench), threads = thread_count(), rc;
    size_t heap;
    hf_hold *first = NULL;
    hf_error why;

    if (hf_lock(crowd->client, what->name, 0, &first, &why))
        return bench_error("hf_lock", &why);
    heap = heap_bytes();
    crowd->wanted = what->passes && !bench->quick ? what->passes : waiters;
    rc = crowd_queue(crowd, what, waiters);
    ret_figures->v[PER_WAITER] = (double)(heap_bytes() - heap) / waiters;
    ret_figures->v[THREADS] = thread_count() - threads;
    if (rc == 0)
        rc = crowd_idle(crowd, what, bench->quick, ret_figures);
    if (rc == 0 && crowd->passed > 0)
        rc = bench_error("the first hold was lost", NULL);
    if (rc == 0)
        return crowd_pass(crowd, first, what->server, ret_figures);
    hf_release(first, NULL);
    return -1;
}

/* Figures as ours_crowd(), and the packets of a hand-over. */
static int crowd_sample(struct bench *bench, void *arg, struct figures *ret_figures)
{
    struct crowd_case *what = arg;
    hf_options options = { .size = sizeof options, .driver = HF_DRIVER_USER };
    struct crowd crowd = { 0 };
    hf_error why;
    char url[128];
    int rc;

    snprintf(url, sizeof url, "%s%s", what->server->url, what->options);
    if (hf_open(url, &options, &crowd.client, &why))
        return bench_error(url, &why);
    rc = crowd_run(bench, &crowd, what, ret_figures);
    crowd.over = true;
    hf_close(crowd.client);
    hf_release(crowd.last, NULL);
    return rc;
}

int zookeeper_crowd(struct bench *bench, const struct zookeeper *server,
                    struct figures *ret_figures)
{
    struct crowd_case what = { .server = server, .options = "", .name = "crowd" };

    return crowd_sample(bench, &what, ret_figures);
}

/* ---- Rows ------------------------------------------------------------------------ */

static void crowd_rows(struct bench *bench, const struct zookeeper *server,
                       struct figures *ret_raw)
{
    static const struct measure rows[] = {
        { "zookeeper", "waiters_1000", "ns/hand-off", RATIO_AT_MOST, 1.2 },
        { "zookeeper", "waiters_1000_bytes", "bytes/waiter", OURS_AT_MOST, 1024 },
        { "zookeeper", "waiters_1000_threads", "threads", OURS_AT_MOST, 0 },
        { "zookeeper", "waiters_1000_idle_cpu_us", "us in 2 s", OURS_AT_MOST, 200 },
        { "zookeeper", "waiters_1000_packets", "per hand-off", OURS_AT_MOST, 5.1 },
        { "zookeeper", "waiters_1000_idle_packets", "in 2 s", OURS_AT_MOST, 8 },
    };
    struct crowd_case what = { .server = server, .options = "", .name = "crowd" };
    struct figures a;
    int rc =
        bench_alternate(bench, rows[0].name, crowd_sample, &what, raw_chain_of_nodes,
                        (void *)(uintptr_t)server, &a, ret_raw);

    for (int i = 0; rc && i < 6; i++)
        bench_missing(bench, &rows[i]);
    if (rc)
        return;
    for (int i = 0; i <= PACKETS; i++)
        bench_report(bench, &rows[i], a.v[i],
                     i == PER_HANDOFF || i == PACKETS ? ret_raw->v[i] : NAN);
    bench_report(bench, &rows[5], what.idle_packets, NAN);
}

static int known(struct bench *bench, void *arg, struct figures *ret_figures)
{
    (void)bench;
    *ret_figures = *(struct figures *)arg;
    return 0;
}

static void herd_rows(struct bench *bench, const struct zookeeper *server,
                      struct figures *queue)
{
    static const struct measure time = { "zookeeper", "waiters_1000_single",
                                         "ns/hand-off", GOAL_NONE, 0 };
    static const struct measure packets = { "zookeeper", "waiters_1000_single_packets",
                                            "per hand-off", GOAL_NONE, 0 };
    struct crowd_case what = { .server = server,
                               .options = "?layout=single",
                               .name = "herd",
                               .passes = HERD_PASSES };
    struct figures a, b;

    if (bench_alternate(bench, time.name, crowd_sample, &what, known, queue, &a, &b)) {
        bench_missing(bench, &time);
        bench_missing(bench, &packets);
        return;
    }
    bench_report(bench, &time, a.v[PER_HANDOFF], b.v[PER_HANDOFF]);
    bench_report(bench, &packets, a.v[PACKETS], b.v[PACKETS]);
}

void rows_zookeeper_crowd(struct bench *bench)
{
    const struct zookeeper *server = zookeeper_server(bench);
    struct figures raw = { { NAN, NAN, NAN, NAN, NAN } };

    if (!server)
        return;
    zookeeper_pin(server, true);
    crowd_rows(bench, server, &raw);
    herd_rows(bench, server, &raw);
    zookeeper_pin(server, false);
}
