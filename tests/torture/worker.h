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
    char name[1025];
};

/* What workers do to holds beside taking and releasing them. */
enum move_flag {
    MOVE_EXTEND = 1,
    MOVE_DOWNGRADE = 2,
    MOVE_ADOPT = 4, /* holds are put up for others, who adopt them */
    MOVE_LEAVE = 8, /* some of these are left to their lease */
    MOVE_EVICT = 16,
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
    uint32_t moves;     /* enum move_flag */
    int64_t timeout_ms;
    bool residue;  /* count what is left in the store at the end */
    bool sabotage; /* now and then do without the lock, to see the checks fail */
};

void orders_read(struct orders *orders, int argc, char **argv);

struct hand {
    const struct orders *orders;
    struct resource *resources;
    struct notice *board; /* NULL: nothing is adopted */
    struct history *history;
    uint64_t *waiting; /* since when; 0: not. run.py looks at it */
    pthread_t thread;
    uint32_t number; /* of the thread, from 1 */
    uint32_t attempts;
    uint64_t random;
    void *lock;  /* the driver's */
    bool failed; /* could not begin, though nobody told it to stop */
};

/* One attempt at a lock, and what all its events have in common. */
struct attempt {
    struct driver_want want;
    struct driver_grant grant;
    struct history_event event;
    struct resource *resource;
    bool pretended;
    bool lowered; /* was a writer, is a reader now */
};

/* ---- worker_hold.c, for worker_moves.c ------------------------------------------- */

uint64_t hand_next(struct hand *hand); /* a random number */
void note(struct hand *hand, const struct attempt *attempt, enum history_op op,
          enum history_phase phase, enum history_result result);
void spend(uint32_t us);
/* Asks the lock whether it is still held. */
void sight(struct hand *hand, const struct attempt *attempt);
void attempt_work(struct hand *hand, struct attempt *attempt);
void attempt_end(struct hand *hand, struct attempt *attempt);
bool is_alone(const struct attempt *attempt);

/* ---- worker_moves.c -------------------------------------------------------------- */

/* Whether the hold that is about to be taken is to be put up for others. */
bool moves_detach(struct hand *hand, const struct driver_want *want);
/* Now and then: extends or downgrades what is held. */
void moves_extend(struct hand *hand, struct attempt *attempt);
void moves_downgrade(struct hand *hand, struct attempt *attempt);
/* Puts a detached hold up for others. True: it was left to its lease as well, and there
 * is nothing to release. */
bool moves_offer(struct hand *hand, struct attempt *attempt);
/* Now and then, between two holds: adopts one of those, or evicts a holder. True if
 * that was a hold. */
bool moves_once(struct hand *hand);

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
