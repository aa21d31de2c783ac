/* SPDX-License-Identifier: MIT */
/*
 * The bench harness: ours and the raw limit, measured in turn in one run.
 *
 * A group of rows (rows_*.c) calls bench_alternate() with two samplers, gets the
 * median of each figure, and hands it to bench_report(), which prints one line and
 * keeps the row for the JSON file. Errors are told once, on stderr, by whoever meets
 * them; a sampler then returns non-zero and its rows are reported as missing.
 */
#ifndef BENCH_H
#define BENCH_H

#include <holdfast.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_FIGURES 5 /* what one sample may yield */
#define BENCH_ROUNDS_MAX 25
#define BENCH_ROWS_MAX 128
#define BENCH_WORKERS 8
#define BENCH_WORKERS_MAX 64

enum goal {
    GOAL_NONE,
    RATIO_AT_MOST, /* ours / raw */
    RATIO_AT_LEAST,
    OURS_AT_MOST, /* ours alone */
    OURS_AT_LEAST,
};

struct measure {
    const char *store;
    const char *name;
    const char *unit;
    enum goal goal;
    double target;
};

struct redis;
struct zookeeper;

/* One row. A figure that does not exist is NAN. */
struct row {
    struct measure measure;
    const char *peer; /* another library, in the place of the raw limit; or NULL */
    double ours, raw, ratio;
    bool ok;
};

struct bench {
    bool quick;
    int rounds;           /* samples of each side */
    int64_t slice_ns;     /* one sample of a single thread */
    int64_t contended_ns; /* one sample of many workers */
    size_t held;          /* how many locks "held_100k" holds */
    char dir[256];        /* ours alone; removed at the end */
    const char *json;
    const char *only;
    const char *peers;   /* directory of what the other libraries need; NULL: without */
    struct redis *redis; /* the server of this run, once it is needed */
    bool no_redis;       /* there is none to be had */
    struct zookeeper *zookeeper; /* the same */
    bool no_zookeeper;
    int failures;
    size_t row_count;
    struct row rows[BENCH_ROWS_MAX];
};

struct figures {
    double v[BENCH_FIGURES];
};

typedef int sampler(struct bench *bench, void *arg, struct figures *ret_figures);

/* Runs `ours` and `raw` in turn, `rounds` times each, and gives the medians. */
int bench_alternate(struct bench *bench, const char *title, sampler *ours,
                    void *ours_arg, sampler *raw, void *raw_arg,
                    struct figures *ret_ours, struct figures *ret_raw);

void bench_report(struct bench *bench, const struct measure *measure, double ours,
                  double raw);
/* Beside another library, `theirs` instead of the raw limit. */
void bench_report_peer(struct bench *bench, const struct measure *measure,
                       const char *peer, double ours, double theirs);
/* The row could not be measured. */
void bench_missing(struct bench *bench, const struct measure *measure);

/* Says what failed, on stderr; returns -1. `why` may be NULL. */
int bench_error(const char *what, const hf_error *why);
int bench_free_port(void); /* on the loopback; 0: none */
int bench_write_json(const struct bench *bench);

/* Writes "file:<a new directory of that name><options>". */
void bench_url(const struct bench *bench, const char *name, const char *options,
               char *url, size_t size);

/* ---- Clocks and cores ------------------------------------------------------------ */

int64_t now_ns(void);
int64_t cpu_ns(void); /* of this process, all threads */
void pin_one(void);   /* this thread, and those it starts, to one core */
void pin_all(void);   /* to all cores the program was given */
size_t heap_bytes(void);
int thread_count(void); /* of this process */

/* ---- Many workers on one thing (contest.c) --------------------------------------- */

/* What the workers fight for. enter and leave return 0, 1 to stop quietly, or -1. */
struct contest {
    const char *text; /* URL or path */
    int kind;         /* enum hf_kind */
    void *shared;     /* of all threads; of none of the processes */
    int (*begin)(struct contest *contest, int index, void **ret_state);
    int (*enter)(void *state);
    int (*leave)(void *state);
    void (*end)(void *state);
    int workers; /* 0: BENCH_WORKERS */
    bool apart;  /* a lock for each */
    bool timed;  /* measure each wait */
    bool one_core;
    bool processes;
};

/* Figures: acquisitions/s, share of the slowest worker (1 = fair share); if timed:
 * median wait and longest wait in ns; acquisitions in all. */
enum { RATE, SLOWEST, WAIT_MEDIAN, WAIT_MAX, ENTERED };
int contest_sample(struct bench *bench, void *contest, struct figures *ret_figures);

/* Workers with a client of ours, on the store of `text`; or threads that share the
 * client `shared`. */
extern const struct contest contest_ours;

/* A contest on a server, and what it costs the server. */
struct match {
    const void *server;
    sampler *sample; /* gets the match; sets `requests` unless that is known */
    struct contest contest;
    double requests; /* per acquisition, of the last sample */
};

enum { ROW_RATE, ROW_REQUESTS, ROW_SLOWEST, ROW_SPREAD, MATCH_ROWS };
void match_rows(struct bench *bench, struct match *ours, struct match *raw,
                const struct measure rows[MATCH_ROWS]);

/* ---- Raw limits (raw.c) ---------------------------------------------------------- */

/* Figures: ns and CPU ns of a flock(2) pair, on a file inside bench->dir. */
int raw_flock_pair(struct bench *bench, void *path, struct figures *ret_figures);
int raw_mutex_pair(struct bench *bench, void *unused, struct figures *ret_figures);
/* Figure: ns per hand-off along *(int *)length eventfds in one epoll loop. */
int raw_chain(struct bench *bench, void *length, struct figures *ret_figures);

extern const struct contest contest_flock; /* 8 open files, one inode */
extern const struct contest contest_ring;  /* 8 processes pass a token through pipes */
extern const struct contest contest_mutex; /* 8 threads, one pthread mutex */

/* ---- What the stores share ------------------------------------------------------- */

/* One thread takes and releases one lock of the client `arg`. Figures: ns and CPU ns of
 * a pair. */
int ours_pair(struct bench *bench, void *arg, struct figures *ret_figures);

/* A thousand waiters in one client. `watch` is told before and after they do nothing
 * but wait. */
struct crowd_plan {
    const char *url;
    int idle_ms;
    void (*watch)(void *arg, bool begins);
    void *arg;
};
enum { PER_HANDOFF, PER_WAITER, THREADS, IDLE_CPU };
int ours_crowd(struct bench *bench, void *plan, struct figures *ret_figures);

/* bench->held locks in one client. `watch` as above, for the time of renewing. */
struct held_plan {
    const char *url;
    int64_t ttl_ms;
    void (*watch)(void *arg, bool begins);
    void *arg;
};
enum { PER_HOLD, CPU_SHARE };
int ours_held(struct bench *bench, const struct held_plan *plan,
              struct figures *ret_figures);

/* ---- Groups of rows -------------------------------------------------------------- */

void rows_pair(struct bench *bench);
void rows_processes(struct bench *bench);
void rows_threads(struct bench *bench);
void rows_waiters(struct bench *bench);
void rows_held(struct bench *bench);
void rows_cli(struct bench *bench);
void rows_redis_pair(struct bench *bench);
void rows_redis_contest(struct bench *bench);
void rows_redis_many(struct bench *bench);
void rows_redis_crowd(struct bench *bench);
void rows_redis_held(struct bench *bench);
void rows_redis_peers(struct bench *bench);
void rows_zookeeper_pair(struct bench *bench);
void rows_zookeeper_contest(struct bench *bench);
void rows_zookeeper_crowd(struct bench *bench);
void rows_zookeeper_peers(struct bench *bench);

#endif
