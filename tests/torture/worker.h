/* SPDX-License-Identifier: MIT */
/* Inside a worker: what it was told to do (worker_orders.c), a thread that does it
 * (worker_hold.c), and one that watches the machine (worker_pulse.c). */
#ifndef TORTURE_WORKER_H
#define TORTURE_WORKER_H

#include <pthread.h>

#include "driver.h"
#include "register.h"

#define LOCKS_MAX 64
#define THREADS_MAX 64

struct target {
    uint8_t kind; /* H_READ: read or write */
    char name[40];
};

struct orders {
    struct driver_settings settings;
    const struct driver *driver;
    const char *directory;
    const char *resources_path;
    const char *label;
    uint32_t process;
    uint32_t threads;
    uint32_t sharing; /* so many of the threads share one client */
    uint32_t lock_count;
    struct target locks[LOCKS_MAX];
    uint64_t seed;
    uint64_t events; /* room in each history */
    uint32_t hold_us[2];
    uint32_t think_us[2];
    uint32_t long_hold; /* one hold in so many lasts twice the lease; 0: none */
    int64_t timeout_ms;
    bool residue;  /* count what is left in the store at the end */
    bool sabotage; /* now and then do without the lock, to see the checks fail */
};

void orders_read(struct orders *orders, int argc, char **argv);

struct hand {
    const struct orders *orders;
    struct resource *resources;
    struct history *history;
    uint64_t *waiting; /* since when; 0: not. run.py looks at it */
    pthread_t thread;
    uint32_t number; /* of the thread, from 1 */
    uint32_t attempts;
    uint64_t random;
    void *lock;  /* the driver's */
    bool failed; /* could not begin, though nobody told it to stop */
};

/* A thread that notices when it is not run (worker_pulse.c); until control.stop. */
struct pulse {
    struct history *history;
    pthread_t thread;
    bool runs;
};

void pulse_start(struct pulse *pulse, const struct orders *orders);
void pulse_stop(struct pulse *pulse);

/* Makes the history; false: said on stderr. */
bool hand_history(struct hand *hand);
/* Opens the driver, takes locks until it is told to stop. */
void *hand_run(void *arg);

#endif
