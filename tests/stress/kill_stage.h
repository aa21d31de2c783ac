/* SPDX-License-Identifier: MIT */
/*
 * What the lock of kill_storm guards: a page that all processes share.
 *
 * A counter that is read, dawdled over and written back; who is inside; the largest
 * token seen. A thread writes down what it intends before it touches the counter, so
 * that whoever comes after a killed holder can tell whether that increment took place.
 */
#ifndef KILL_STAGE_H
#define KILL_STAGE_H

#include <stdatomic.h>
#include <stdint.h>

#define PLACES_MAX 1024

enum { TWO_INSIDE, OLD_TOKEN, LOST_UPDATE, BAD_RELEASE, VIOLATION_KINDS };

/* One thread's place, kept over the deaths of its processes. */
struct record {
    _Alignas(64) atomic_ullong done; /* increments that took place */
    atomic_ullong before;            /* `done` before the one intended */
    atomic_ullong target;            /* what the counter is to become; 0: no intent */
};

struct stage {
    atomic_ullong counter;
    atomic_ullong last_token;
    atomic_ullong inside_token;
    atomic_int inside_pid; /* 0: nobody */
    atomic_int inside_place;
    atomic_int stop;
    _Alignas(64) atomic_ullong acquired;
    atomic_ullong timeouts;
    atomic_ullong orphans; /* holders killed inside */
    atomic_ullong settled; /* of them, in the middle of an increment */
    atomic_ullong violations[VIOLATION_KINDS];
    atomic_int failed; /* set by whoever writes failure */
    char failure[256];
    struct record records[PLACES_MAX];
};

void stage_violation(struct stage *stage, int kind);
uint64_t stage_violations(const struct stage *stage);

/* One visit under the lock, by the thread at `place`. */
void stage_visit(struct stage *stage, int place, uint64_t token);

/* Settles what was cut short at the places 0 .. count - 1 when nobody is left, and
 * gives the number of increments that took place. */
uint64_t stage_sum(struct stage *stage, int count);

#endif
