/* SPDX-License-Identifier: MIT */
/*
 * Eight workers on one lock with an empty critical section, on all cores.
 *
 * Processes, mutex: beside flock(2), the kernel's own lock, which lets whoever runs
 * take it again. Processes, fair: beside a ring of pipes, the least a
 * first-come-first-served hand-off can cost. Threads: beside a pthread mutex, and
 * beside the uncontended raw pair of flock(2), which the in-process hand-off has to
 * outrun twentyfold.
 *
 * Rates come from samples without a clock in the loop, waits from samples with one.
 */
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_MS 60000

/* ---- Our side -------------------------------------------------------------------- */

struct seat {
    hf_client *client;
    hf_hold *hold;
    hf_want want;
    char name[32];
    bool own_client;
};

static int seat_begin(struct contest *contest, int index, void **ret_state)
{
    struct seat *seat = calloc(1, sizeof *seat);
    hf_error why;

    *ret_state = seat;
    if (!seat)
        return bench_error("worker", NULL);
    seat->client = contest->shared;
    seat->own_client = !contest->shared;
    snprintf(seat->name, sizeof seat->name, contest->apart ? "apart/%d" : "contested",
             index);
    seat->want = contest->kind == HF_FAIR ? hf_fair(seat->name) : hf_mutex(seat->name);
    if (seat->own_client && hf_open(contest->text, NULL, &seat->client, &why))
        return bench_error(contest->text, &why);
    return 0;
}

static int seat_enter(void *state)
{
    static const hf_acquire_options options = { .size = sizeof options,
                                                .timeout_ms = PATIENCE_MS };
    struct seat *seat = state;
    hf_error why;

    if (hf_acquire(seat->client, &seat->want, 1, &options, &seat->hold, &why))
        return bench_error("hf_acquire", &why);
    return 0;
}

static int seat_leave(void *state)
{
    struct seat *seat = state;
    hf_error why;

    return hf_release(seat->hold, &why) ? bench_error("hf_release", &why) : 0;
}

static void seat_end(void *state)
{
    struct seat *seat = state;

    if (seat && seat->own_client)
        hf_close(seat->client);
    free(seat);
}

const struct contest contest_ours = {
    .begin = seat_begin,
    .enter = seat_enter,
    .leave = seat_leave,
    .end = seat_end,
};

/* ---- The ring, made anew for each sample ----------------------------------------- */

static int ring_sample(struct bench *bench, void *arg, struct figures *ret_figures)
{
    struct contest *ring = arg;
    int pipes[BENCH_WORKERS][2], made = 0, rc = 0;

    for (; made < BENCH_WORKERS && rc == 0; made += rc == 0)
        rc = pipe(pipes[made]);
    ring->shared = pipes;
    if (rc == 0)
        rc = write(pipes[0][1], "t", 1) != 1;
    rc = rc ? bench_error("ring", NULL) : contest_sample(bench, ring, ret_figures);
    for (int i = 0; i < made; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    return rc;
}

/* ---- Processes ------------------------------------------------------------------- */

/* The rows of one kind, in the order of reporting. */
struct quartet {
    struct measure rate, slowest, longest, spread;
};

static void quartet_missing(struct bench *bench, const struct quartet *rows)
{
    bench_missing(bench, &rows->rate);
    bench_missing(bench, &rows->slowest);
    bench_missing(bench, &rows->longest);
    bench_missing(bench, &rows->spread);
}

static void process_rows(struct bench *bench, struct contest *ours, sampler *raw,
                         struct contest *limit, const struct quartet *rows)
{
    struct figures a, b, a_waits, b_waits;
    int64_t full = bench->contended_ns;
    int rc = bench_alternate(bench, rows->rate.name, contest_sample, ours, raw, limit,
                             &a, &b);

    ours->timed = limit->timed = true;
    bench->contended_ns = full / 2;
    if (rc == 0)
        rc = bench_alternate(bench, rows->longest.name, contest_sample, ours, raw,
                             limit, &a_waits, &b_waits);
    bench->contended_ns = full;
    if (rc) {
        quartet_missing(bench, rows);
        return;
    }
    bench_report(bench, &rows->rate, a.v[RATE], b.v[RATE]);
    bench_report(bench, &rows->slowest, a.v[SLOWEST], b.v[SLOWEST]);
    bench_report(bench, &rows->longest, a_waits.v[WAIT_MAX] / 1e6,
                 b_waits.v[WAIT_MAX] / 1e6);
    bench_report(bench, &rows->spread, a_waits.v[WAIT_MAX] / a_waits.v[WAIT_MEDIAN],
                 b_waits.v[WAIT_MAX] / b_waits.v[WAIT_MEDIAN]);
}

void rows_processes(struct bench *bench)
{
    static const struct quartet mutex = {
        { "file", "contended_8proc", "acquisitions/s", RATIO_AT_LEAST, 0.9 },
        { "file", "contended_8proc_slowest_share", "of fair share", OURS_AT_LEAST,
          0.9 },
        { "file", "contended_8proc_max_wait_ms", "ms", GOAL_NONE, 0 },
        { "file", "contended_8proc_max_over_median", "ratio", OURS_AT_MOST, 10 },
    };
    static const struct quartet fair = {
        { "file", "contended_8proc_fair", "acquisitions/s", RATIO_AT_LEAST, 0.9 },
        { "file", "contended_8proc_fair_slowest_share", "of fair share", OURS_AT_LEAST,
          0.9 },
        { "file", "contended_8proc_fair_max_wait_ms", "ms", GOAL_NONE, 0 },
        { "file", "contended_8proc_fair_max_over_median", "ratio", OURS_AT_MOST, 10 },
    };
    struct contest ours = contest_ours, flocks = contest_flock, ring = contest_ring;
    char url[512], path[512];

    bench_url(bench, "processes", "", url, sizeof url);
    snprintf(path, sizeof path, "%s/raw-processes", bench->dir);
    ours.text = url;
    ours.kind = HF_MUTEX;
    ours.processes = true;
    flocks.text = path;
    process_rows(bench, &ours, contest_sample, &flocks, &mutex);
    ours.kind = HF_FAIR;
    ours.timed = false;
    process_rows(bench, &ours, ring_sample, &ring, &fair);
}

/* ---- Threads --------------------------------------------------------------------- */

/* The uncontended raw pair, told as a rate. */
static int flock_rate(struct bench *bench, void *path, struct figures *ret_figures)
{
    struct figures pair;
    int rc;

    pin_one();
    rc = raw_flock_pair(bench, path, &pair);
    pin_all();
    if (rc == 0)
        ret_figures->v[RATE] = 1e9 / pair.v[0];
    return rc;
}

static void thread_rows(struct bench *bench, const char *url, const char *path,
                        const struct measure rows[2])
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    struct contest ours = contest_ours, mutex = contest_mutex;
    struct figures a, b;
    hf_client *client = NULL;
    hf_error why;

    if (hf_open(url, NULL, &client, &why))
        bench_error(url, &why);
    ours.shared = client;
    ours.kind = HF_MUTEX;
    mutex.shared = &one;
    if (client && bench_alternate(bench, rows[0].name, contest_sample, &ours,
                                  contest_sample, &mutex, &a, &b) == 0)
        bench_report(bench, &rows[0], a.v[RATE], b.v[RATE]);
    else
        bench_missing(bench, &rows[0]);
    if (client && bench_alternate(bench, rows[1].name, contest_sample, &ours,
                                  flock_rate, (void *)(uintptr_t)path, &a, &b) == 0)
        bench_report(bench, &rows[1], a.v[RATE], b.v[RATE]);
    else
        bench_missing(bench, &rows[1]);
    hf_close(client);
}

void rows_threads(struct bench *bench)
{
    static const struct measure mem[2] = {
        { "mem", "contended_8thr", "acquisitions/s", GOAL_NONE, 0 },
        { "mem", "contended_8thr_over_raw_pairs", "acquisitions/s", RATIO_AT_LEAST,
          20 },
    };
    static const struct measure file[2] = {
        { "file", "contended_8thr", "acquisitions/s", GOAL_NONE, 0 },
        { "file", "contended_8thr_over_raw_pairs", "acquisitions/s", RATIO_AT_LEAST,
          20 },
    };
    char url[512], path[512];

    bench_url(bench, "threads", "", url, sizeof url);
    snprintf(path, sizeof path, "%s/raw-threads", bench->dir);
    thread_rows(bench, "mem:bench-threads", path, mem);
    thread_rows(bench, url, path, file);
}
