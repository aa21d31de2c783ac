/* SPDX-License-Identifier: MIT */
/*
 * One thread, one lock, nobody else: acquire and release, pinned to one core.
 *
 * The raw limit of the file store is flock(2) on an open file in the same directory,
 * that of the mem store a pthread mutex (which keeps no queue, no token and no report,
 * and has no target for that reason).
 */
#include "bench.h"

#include <string.h>

#define BATCH 256

int ours_pair(struct bench *bench, void *client, struct figures *ret_figures)
{
    int64_t start = now_ns(), cpu = cpu_ns(), pairs = 0;
    hf_hold *hold;
    hf_error why;

    do {
        for (int i = 0; i < BATCH; i++) {
            if (hf_lock(client, "pair", 0, &hold, &why))
                return bench_error("hf_lock", &why);
            if (hf_release(hold, &why))
                return bench_error("hf_release", &why);
        }
        pairs += BATCH;
    } while (now_ns() - start < bench->slice_ns);
    ret_figures->v[0] = (double)(now_ns() - start) / (double)pairs;
    ret_figures->v[1] = (double)(cpu_ns() - cpu) / (double)pairs;
    return 0;
}

/* Reports wall time per pair as `wall` and, if given, CPU time per pair as `cpu`. */
static void pair_rows(struct bench *bench, const char *url, sampler *raw, void *raw_arg,
                      const struct measure *wall, const struct measure *cpu)
{
    struct figures ours, limit;
    hf_client *client = NULL;
    hf_error why;
    int rc;

    pin_one();
    rc = hf_open(url, NULL, &client, &why);
    if (rc)
        bench_error(url, &why);
    else
        rc = bench_alternate(bench, wall->name, ours_pair, client, raw, raw_arg, &ours,
                             &limit);
    hf_close(client);
    pin_all();
    if (rc) {
        bench_missing(bench, wall);
        if (cpu)
            bench_missing(bench, cpu);
        return;
    }
    bench_report(bench, wall, ours.v[0], limit.v[0]);
    if (cpu)
        bench_report(bench, cpu, ours.v[1], limit.v[1]);
}

void rows_pair(struct bench *bench)
{
    static const struct measure file = { "file", "uncontended_pair", "ns",
                                         RATIO_AT_MOST, 0.2 };
    static const struct measure cpu = { "file", "client_cpu_pair", "ns", RATIO_AT_MOST,
                                        1.5 };
    static const struct measure flat = { "file", "uncontended_pair_flock", "ns",
                                         RATIO_AT_MOST, 1.5 };
    static const struct measure mem = { "mem", "uncontended_pair", "ns", GOAL_NONE, 0 };
    char url[512], path[512];

    snprintf(path, sizeof path, "%s/raw-pair", bench->dir);
    bench_url(bench, "pair", "", url, sizeof url);
    pair_rows(bench, url, raw_flock_pair, path, &file, &cpu);
    bench_url(bench, "flat", "?layout=flock", url, sizeof url);
    pair_rows(bench, url, raw_flock_pair, path, &flat, NULL);
    pair_rows(bench, "mem:bench-pair", raw_mutex_pair, NULL, &mem, NULL);
}
