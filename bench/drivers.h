/* SPDX-License-Identifier: MIT */
/*
 * Programs that put another lock library to work (bench/peers), and how to speak with
 * them.
 *
 * A driver is started with the server's port as its last argument and says "ready". For
 * a line "NAME MS" it takes and releases that lock for so long, and answers how often,
 * its longest wait in microseconds and, if it knows, the CPU time of its process in
 * microseconds. For a line "crowd NAME COUNT" it lets so many threads wait for the lock
 * and answers how many nanoseconds it took until each has had it once. It ends with its
 * input.
 */
#ifndef BENCH_DRIVERS_H
#define BENCH_DRIVERS_H

#include "bench.h"

#include <sys/types.h>

#define DRIVER_WORDS 20

struct driver {
    pid_t pid;
    FILE *to, *from;
};

struct drivers {
    char *argv[DRIVER_WORDS]; /* the same for all */
    struct driver each[BENCH_WORKERS];
    int count;
};

int drivers_start(struct drivers *drivers, int count);
void drivers_stop(struct drivers *drivers);

/* All of them for so long. Figures as those of a contest, but for this one: the CPU
 * time of an acquisition, in ns. */
enum { DRIVER_CPU = WAIT_MEDIAN };
int drivers_run(struct drivers *drivers, int64_t ms, struct figures *ret_figures);
/* The first of them, with so many waiters. Figure: ns of a hand-over. */
int drivers_crowd(struct drivers *drivers, int waiters, struct figures *ret_figures);

/* Samplers' work: one driver for a slice (its argument), and all of bench's workers on
 * one lock, ours at `url` and theirs in turn, after a while that does not count. */
int drivers_alone(struct bench *bench, void *drivers, struct figures *ret_figures);
int drivers_many(struct bench *bench, struct drivers *drivers, const char *url,
                 struct figures *ret_ours, struct figures *ret_theirs);

/* How long they run before they count: some compile while they run. */
int64_t drivers_warm_ms(const struct bench *bench);

/* Calls `each` for the lines of a file of commands: a name, then the words of the
 * command, with tabs between. The port is put behind them. */
typedef void drivers_each(struct bench *bench, const char *name,
                          struct drivers *drivers);
void drivers_of(struct bench *bench, const char *file, int port, drivers_each *each);

#endif
