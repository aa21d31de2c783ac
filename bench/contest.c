/* SPDX-License-Identifier: MIT */
/*
 * Workers, mostly eight, fight for one thing, as processes or as threads, for a fixed
 * time.
 *
 * Workers report through a page they share with the parent: how often they got in, and,
 * if the contest is timed, a histogram of their waits (four buckets per octave). All of
 * them wait at a gate until the last one is ready: a pipe whose write end the parent
 * closes. Processes are forked from a parent that has no client open.
 */
#include "bench.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUCKETS 256

struct slot {
    _Alignas(64) uint64_t entered;
    int64_t longest;
    int failed;
    uint32_t waits[BUCKETS];
};

struct arena {
    _Alignas(64) atomic_int stop;
    _Alignas(64) atomic_int ready;
    int workers;
    struct slot slots[BENCH_WORKERS_MAX];
};

struct worker {
    struct contest *contest;
    struct arena *arena;
    pthread_t thread;
    pid_t pid;
    int index;
    int gate; /* read end */
};

/* ---- Waits ----------------------------------------------------------------------- */

static int bucket_of(int64_t ns)
{
    uint64_t wait = ns < 4 ? 4 : (uint64_t)ns;
    int octave = 63 - __builtin_clzll(wait);

    return octave * 4 + (int)(wait >> (octave - 2) & 3);
}

static double bucket_middle(int bucket)
{
    return ((double)(4 + bucket % 4) + 0.5) * (double)(UINT64_C(1) << (bucket / 4)) / 4;
}

static void slot_add_wait(struct slot *slot, int64_t ns)
{
    slot->waits[bucket_of(ns)]++;
    if (ns > slot->longest)
        slot->longest = ns;
}

static double median_wait(const struct arena *arena, uint64_t total)
{
    uint64_t seen = 0;
    int bucket = 0;

    for (; bucket < BUCKETS; bucket++) {
        for (int i = 0; i < arena->workers; i++)
            seen += arena->slots[i].waits[bucket];
        if (seen * 2 >= total)
            break;
    }
    return bucket_middle(bucket);
}

/* ---- One worker ------------------------------------------------------------------ */

static int work_plain(struct contest *contest, struct arena *arena, struct slot *slot,
                      void *state)
{
    uint64_t entered = 0;
    int rc = 0;

    while (!atomic_load_explicit(&arena->stop, memory_order_relaxed)) {
        if ((rc = contest->enter(state)) != 0)
            break;
        entered++;
        if ((rc = contest->leave(state)) != 0)
            break;
    }
    slot->entered = entered;
    return rc;
}

static int work_timed(struct contest *contest, struct arena *arena, struct slot *slot,
                      void *state)
{
    int rc = 0;

    while (!atomic_load_explicit(&arena->stop, memory_order_relaxed)) {
        int64_t start = now_ns();

        if ((rc = contest->enter(state)) != 0)
            break;
        slot_add_wait(slot, now_ns() - start);
        slot->entered++;
        if ((rc = contest->leave(state)) != 0)
            break;
    }
    return rc;
}

static void *worker_run(void *arg)
{
    struct worker *worker = arg;
    struct contest *contest = worker->contest;
    struct slot *slot = &worker->arena->slots[worker->index];
    void *state = NULL;
    int rc = contest->begin(contest, worker->index, &state);
    struct pollfd gate = { worker->gate, POLLIN, 0 };

    atomic_fetch_add(&worker->arena->ready, 1);
    poll(&gate, 1, -1);
    if (rc == 0)
        rc = contest->timed ? work_timed(contest, worker->arena, slot, state)
                            : work_plain(contest, worker->arena, slot, state);
    contest->end(state);
    slot->failed = rc < 0;
    if (rc < 0)
        atomic_store(&worker->arena->stop, 1);
    return NULL;
}

/* ---- All of them ----------------------------------------------------------------- */

static int worker_start(struct worker *worker, int gate_write)
{
    if (!worker->contest->processes)
        return pthread_create(&worker->thread, NULL, worker_run, worker);
    worker->pid = fork();
    if (worker->pid != 0)
        return worker->pid < 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(gate_write);
    worker_run(worker);
    _exit(0);
}

static void worker_join(struct worker *worker)
{
    if (!worker->contest->processes)
        pthread_join(worker->thread, NULL);
    else
        waitpid(worker->pid, NULL, 0);
}

static struct figures contest_figures(const struct contest *contest,
                                      const struct arena *arena, int64_t elapsed)
{
    struct figures figures = { { 0 } };
    uint64_t total = 0, least = UINT64_MAX;
    int64_t longest = 0;

    for (int i = 0; i < arena->workers; i++) {
        const struct slot *slot = &arena->slots[i];

        total += slot->entered;
        least = slot->entered < least ? slot->entered : least;
        longest = slot->longest > longest ? slot->longest : longest;
    }
    figures.v[RATE] = (double)total * 1e9 / (double)elapsed;
    figures.v[SLOWEST] = total ? (double)least * arena->workers / (double)total : 0;
    figures.v[WAIT_MEDIAN] = contest->timed ? median_wait(arena, total) : 0;
    figures.v[WAIT_MAX] = (double)longest;
    figures.v[ENTERED] = (double)total;
    return figures;
}

/* Lets them run for the given time, or until one of them fails. Counts from the opening
 * of the gate to the raising of the flag. */
static int64_t contest_time(struct arena *arena, int started, int gate_write,
                            int64_t ns)
{
    int64_t start, end;

    while (atomic_load(&arena->ready) < started)
        poll(NULL, 0, 1);
    start = now_ns();
    end = start + ns;
    close(gate_write);
    for (int64_t left = ns; left > 0 && !atomic_load(&arena->stop);
         left = end - now_ns())
        poll(NULL, 0, left > 50000000 ? 50 : (int)(left / 1000000) + 1);
    atomic_store(&arena->stop, 1);
    return now_ns() - start;
}

int contest_sample(struct bench *bench, void *arg, struct figures *ret_figures)
{
    struct contest *contest = arg;
    struct worker workers[BENCH_WORKERS_MAX];
    struct arena *arena;
    int gate[2], started = 0, rc = 0;
    int64_t elapsed;

    arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED || pipe(gate))
        return bench_error("cannot set up the workers", NULL);
    arena->workers = contest->workers ? contest->workers : BENCH_WORKERS;
    if (contest->one_core)
        pin_one();
    else
        pin_all();
    for (; started < arena->workers && rc == 0; started += rc == 0) {
        workers[started] = (struct worker){ contest, arena, 0, 0, started, gate[0] };
        rc = worker_start(&workers[started], gate[1]);
    }
    elapsed = contest_time(arena, started, gate[1], bench->contended_ns);
    for (int i = 0; i < started; i++) {
        worker_join(&workers[i]);
        rc |= arena->slots[i].failed;
    }
    *ret_figures = contest_figures(contest, arena, elapsed);
    pin_all();
    close(gate[0]);
    munmap(arena, sizeof *arena);
    return rc ? -1 : 0;
}

/* ---- On a server ----------------------------------------------------------------- */

/* Rates and requests from samples without a clock in the loop, waits from those with
 * one. */
void match_rows(struct bench *bench, struct match *ours, struct match *raw,
                const struct measure rows[MATCH_ROWS])
{
    struct figures a, b, a_waits, b_waits;
    int64_t full = bench->contended_ns;
    int rc = bench_alternate(bench, rows[ROW_RATE].name, ours->sample, ours,
                             raw->sample, raw, &a, &b);
    double requests = ours->requests, raw_requests = raw->requests;

    ours->contest.timed = raw->contest.timed = true;
    bench->contended_ns = full / 2;
    if (rc == 0)
        rc = bench_alternate(bench, rows[ROW_SPREAD].name, ours->sample, ours,
                             raw->sample, raw, &a_waits, &b_waits);
    bench->contended_ns = full;
    ours->contest.timed = raw->contest.timed = false;
    for (int i = 0; rc && i < MATCH_ROWS; i++)
        bench_missing(bench, &rows[i]);
    if (rc)
        return;
    bench_report(bench, &rows[ROW_RATE], a.v[RATE], b.v[RATE]);
    bench_report(bench, &rows[ROW_REQUESTS], requests, raw_requests);
    bench_report(bench, &rows[ROW_SLOWEST], a.v[SLOWEST], b.v[SLOWEST]);
    bench_report(bench, &rows[ROW_SPREAD], a_waits.v[WAIT_MAX] / a_waits.v[WAIT_MEDIAN],
                 b_waits.v[WAIT_MAX] / b_waits.v[WAIT_MEDIAN]);
}
