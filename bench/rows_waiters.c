/* SPDX-License-Identifier: MIT */
/*
 * A thousand waiters of one process on one lock.
 *
 * The client is driven by this program's own loop (HF_DRIVER_USER), so that a thread
 * more than before would be the library's doing. Each waiter releases in its callback;
 * the time runs from the first release to the last callback. While all of them wait,
 * the loop sleeps in poll(2) for 200 ms, and the CPU time of that is a row of its own.
 */
#include "bench.h"

#include <poll.h>

#define WAITERS 1000
#define IDLE_MS 200
#define SETTLE_MS 20 /* longer than any answer takes */

struct crowd {
    hf_client *client;
    int waiting;
    int failed;
};

static void crowd_granted(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct crowd *crowd = user;

    crowd->waiting--;
    if (rc || hf_release_async(hold, NULL, NULL, NULL)) {
        crowd->failed++;
        if (rc)
            bench_error("waiter", why);
    }
}

static int crowd_turn(struct crowd *crowd, int timeout_ms)
{
    struct pollfd watch = { hf_dispatch_fd(crowd->client, NULL), POLLIN, 0 };
    hf_error why;

    if (poll(&watch, 1, timeout_ms) < 1)
        return 0;
    return hf_dispatch(crowd->client, &why) ? bench_error("hf_dispatch", &why) : 0;
}

/* Lets the loop settle, then measures the CPU time of doing nothing. */
static double crowd_idle(struct crowd *crowd, const struct crowd_plan *plan, bool quick)
{
    int idle_ms = quick ? 2 : plan->idle_ms;
    int64_t end, start, cpu;

    while (crowd_turn(crowd, 0) == 0) {
        struct pollfd watch = { hf_dispatch_fd(crowd->client, NULL), POLLIN, 0 };

        if (poll(&watch, 1, SETTLE_MS) < 1)
            break;
    }
    if (plan->watch)
        plan->watch(plan->arg, true);
    start = cpu_ns();
    end = now_ns() + (int64_t)idle_ms * 1000000;
    for (int64_t left = idle_ms; left > 0; left = (end - now_ns()) / 1000000)
        crowd_turn(crowd, (int)left);
    cpu = cpu_ns() - start;
    if (plan->watch)
        plan->watch(plan->arg, false);
    return (double)cpu / 1000;
}

static int crowd_queue(struct crowd *crowd)
{
    static const hf_acquire_options forever = { .size = sizeof forever,
                                                .timeout_ms = HF_FOREVER };
    hf_want want = hf_mutex("crowd");
    hf_error why;

    for (; crowd->waiting < WAITERS; crowd->waiting++) {
        if (hf_acquire_async(crowd->client, &want, 1, &forever, crowd_granted, crowd,
                             NULL, &why))
            return bench_error("hf_acquire_async", &why);
    }
    return 0;
}

static int crowd_drain(struct crowd *crowd, hf_hold *first, struct figures *figures)
{
    int64_t start = now_ns();
    hf_error why;

    if (hf_release(first, &why))
        return bench_error("hf_release", &why);
    while (crowd->waiting > 0 && !crowd->failed) {
        if (crowd_turn(crowd, 10000))
            return -1;
    }
    figures->v[PER_HANDOFF] = (double)(now_ns() - start) / WAITERS;
    return crowd->failed ? -1 : 0;
}

int ours_crowd(struct bench *bench, void *arg, struct figures *ret_figures)
{
    const struct crowd_plan *plan = arg;
    hf_options options = { .size = sizeof options, .driver = HF_DRIVER_USER };
    struct crowd crowd = { 0 };
    hf_hold *first = NULL;
    hf_error why;
    size_t heap;
    int threads, rc;

    if (hf_open(plan->url, &options, &crowd.client, &why))
        return bench_error(plan->url, &why);
    rc = hf_lock(crowd.client, "crowd", 0, &first, &why);
    if (rc)
        bench_error("hf_lock", &why);
    threads = thread_count();
    heap = heap_bytes();
    if (rc == 0)
        rc = crowd_queue(&crowd);
    if (rc == 0) {
        ret_figures->v[PER_WAITER] = (double)(heap_bytes() - heap) / WAITERS;
        ret_figures->v[THREADS] = thread_count() - threads;
        ret_figures->v[IDLE_CPU] = crowd_idle(&crowd, plan, bench->quick);
        rc = crowd_drain(&crowd, first, ret_figures);
    }
    hf_close(crowd.client);
    return rc;
}

/* The chain, and the CPU time that an idle poll(2) of the same length costs. */
static int limit_sample(struct bench *bench, void *length, struct figures *ret_figures)
{
    int64_t start = cpu_ns();

    poll(NULL, 0, bench->quick ? 2 : IDLE_MS);
    ret_figures->v[IDLE_CPU] = (double)(cpu_ns() - start) / 1000;
    return raw_chain(bench, length, ret_figures);
}

static void crowd_rows(struct bench *bench, const char *url,
                       const struct measure rows[4])
{
    struct crowd_plan plan = { .url = url, .idle_ms = IDLE_MS };
    int length = WAITERS;
    struct figures ours, raw;
    int rc;

    pin_one();
    rc = bench_alternate(bench, rows[0].name, ours_crowd, &plan, limit_sample, &length,
                         &ours, &raw);
    pin_all();
    for (int i = 0; i < 4; i++) {
        if (rc)
            bench_missing(bench, &rows[i]);
        else
            bench_report(bench, &rows[i], ours.v[i],
                         i == PER_WAITER || i == THREADS ? NAN : raw.v[i]);
    }
}

void rows_waiters(struct bench *bench)
{
    static const struct measure mem[4] = {
        { "mem", "waiters_1000", "ns/hand-off", RATIO_AT_MOST, 1.5 },
        { "mem", "waiters_1000_bytes", "bytes/waiter", OURS_AT_MOST, 1024 },
        { "mem", "waiters_1000_threads", "threads", OURS_AT_MOST, 0 },
        { "mem", "waiters_1000_idle_cpu_us", "us in 200 ms", OURS_AT_MOST, 200 },
    };
    static const struct measure file[4] = {
        { "file", "waiters_1000", "ns/hand-off", RATIO_AT_MOST, 1.5 },
        { "file", "waiters_1000_bytes", "bytes/waiter", OURS_AT_MOST, 1024 },
        { "file", "waiters_1000_threads", "threads", OURS_AT_MOST, 0 },
        { "file", "waiters_1000_idle_cpu_us", "us in 200 ms", OURS_AT_MOST, 200 },
    };
    char url[512];

    crowd_rows(bench, "mem:bench-waiters", mem);
    bench_url(bench, "waiters", "", url, sizeof url);
    crowd_rows(bench, url, file);
}
