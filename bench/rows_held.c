/* SPDX-License-Identifier: MIT */
/*
 * A hundred thousand locks held by one client, each with a lease that is renewed.
 *
 * Bytes come from the heap; what the file store keeps in its directory is not client
 * memory. For the cost of renewal the leases are short and the loop runs for one and a
 * half of them, so that a hold that was not renewed would be lost by the end, which is
 * looked at. CPU time is told for the default lease of 30 s renewed every third, as a
 * share of one core.
 */
#include "bench.h"

#include <poll.h>
#include <stdlib.h>

#define DEFAULT_TTL_S 30

struct estate {
    struct bench *bench;
    const struct held_plan *plan;
    hf_client *client;
    hf_hold **holds;
    size_t count;
    int64_t ttl_ms;
};

static int estate_acquire(struct estate *estate, size_t count)
{
    hf_acquire_options options = { .size = sizeof options, .ttl_ms = estate->ttl_ms };
    char name[32];
    hf_want want = hf_mutex(name);
    hf_error why;

    for (; estate->count < count; estate->count++) {
        snprintf(name, sizeof name, "held/%zu", estate->count);
        if (hf_acquire(estate->client, &want, 1, &options,
                       &estate->holds[estate->count], &why))
            return bench_error(name, &why);
    }
    return 0;
}

static int estate_run(struct estate *estate, int64_t ms)
{
    struct pollfd watch = { hf_dispatch_fd(estate->client, NULL), POLLIN, 0 };
    int64_t end = now_ns() + ms * 1000000;
    hf_error why;

    for (int64_t left = ms; left > 0; left = (end - now_ns()) / 1000000) {
        if (poll(&watch, 1, (int)left) < 0 || hf_dispatch(estate->client, &why))
            return bench_error("hf_dispatch", &why);
    }
    return 0;
}

static int estate_check(const struct estate *estate)
{
    size_t lost = 0;

    for (size_t i = 0; i < estate->count; i++)
        lost += hf_hold_state(estate->holds[i]) != HF_HELD;
    if (lost)
        fprintf(stderr, "bench: %zu of %zu holds were not renewed in time\n", lost,
                estate->count);
    return lost ? -1 : 0;
}

/* Share of a core over `ms`, scaled from the short lease to the default one. */
static int estate_renew(struct estate *estate, double *ret_share)
{
    int64_t ms = estate->ttl_ms * 3 / 2, start;
    const struct held_plan *plan = estate->plan;
    double busy;

    if (plan->watch)
        plan->watch(plan->arg, true);
    start = cpu_ns();
    if (estate_run(estate, ms) || estate_check(estate))
        return -1;
    busy = (double)(cpu_ns() - start) / ((double)ms * 1e6);
    if (plan->watch)
        plan->watch(plan->arg, false);
    *ret_share = busy * (double)estate->ttl_ms / (DEFAULT_TTL_S * 1000) * 100;
    return 0;
}

static int estate_measure(struct estate *estate, struct figures *figures)
{
    size_t count = estate->bench->held, heap;
    int rc;

    estate->holds = calloc(count, sizeof(hf_hold *));
    if (!estate->holds)
        return bench_error("held locks", NULL);
    heap = heap_bytes();
    rc = estate_acquire(estate, count);
    if (rc == 0) {
        figures->v[PER_HOLD] = (double)(heap_bytes() - heap) / (double)count;
        rc = estate_renew(estate, &figures->v[CPU_SHARE]);
    }
    for (size_t i = 0; i < estate->count; i++)
        hf_release(estate->holds[i], NULL);
    free(estate->holds);
    return rc;
}

int ours_held(struct bench *bench, const struct held_plan *plan,
              struct figures *ret_figures)
{
    hf_options options = { .size = sizeof options, .driver = HF_DRIVER_USER };
    struct estate estate = { .bench = bench,
                             .plan = plan,
                             .ttl_ms = bench->quick ? 1200 : plan->ttl_ms };
    hf_error why;
    int rc;

    rc = hf_open(plan->url, &options, &estate.client, &why);
    if (rc)
        bench_error(plan->url, &why);
    else
        rc = estate_measure(&estate, ret_figures);
    hf_close(estate.client);
    return rc;
}

static void held_rows(struct bench *bench, const char *url,
                      const struct measure rows[2])
{
    const struct held_plan plan = { .url = url, .ttl_ms = 6000 };
    struct figures figures = { { 0 } };
    int rc;

    pin_one();
    rc = ours_held(bench, &plan, &figures);
    pin_all();
    for (int i = 0; i < 2; i++) {
        if (rc)
            bench_missing(bench, &rows[i]);
        else
            bench_report(bench, &rows[i], figures.v[i], NAN);
    }
}

void rows_held(struct bench *bench)
{
    static const struct measure mem[2] = {
        { "mem", "held_100k_bytes", "bytes/hold", OURS_AT_MOST, 512 },
        { "mem", "held_100k_renew_cpu_percent", "% of a core", GOAL_NONE, 0 },
    };
    static const struct measure file[2] = {
        { "file", "held_100k_bytes", "bytes/hold", OURS_AT_MOST, 512 },
        { "file", "held_100k_renew_cpu_percent", "% of a core", GOAL_NONE, 0 },
    };
    char url[512];

    held_rows(bench, "mem:bench-held", mem);
    bench_url(bench, "held", "", url, sizeof url);
    held_rows(bench, url, file);
}
