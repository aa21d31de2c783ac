/* SPDX-License-Identifier: MIT */
/* Inside random stories: the plan of one. */
#ifndef CHECKER_RANDOM_PLAN_H
#define CHECKER_RANDOM_PLAN_H

#include "story.h"

#define OPS 8

enum mix { MIX_MUTEX, MIX_FAIR, MIX_RW, MIX_PERMITS, MIX_REENTRANT, MIX_EXCLUSIVE };

struct op {
    uint32_t thread;
    uint8_t kind;
    uint16_t permits;
    uint64_t grant, end; /* the moments */
    uint64_t inv, ret, rel_inv, rel_ret;
    uint64_t until, lost, seen, seen_until, downgrade;
    uint64_t token, place;
    uint8_t result, release;
    bool nested; /* a re-entry inside */
    bool left;   /* instead of released */
    bool detached;
    uint64_t extend, extend_ret, extend_until; /* 0: none */
    bool writes;                               /* to the fenced register */
    uint64_t value;
};

#define DEEDS 6

/* What a thread of its own does to the holds of others: evict, or adopt and release. */
struct deed {
    enum history_op op;
    const struct op *about;
    uint64_t token;
    uint64_t inv, ret;
    uint64_t until, rel_inv, rel_ret; /* adopted */
    uint8_t result, release;
    bool left;
};

struct plan {
    uint64_t seed;
    enum mix mix;
    uint16_t limit;
    uint32_t threads;
    uint64_t free[STORY_THREADS]; /* when the thread has nothing to do */
    struct op ops[OPS];
    size_t count;
    uint64_t values; /* the register */
    int extras;      /* re-entries and downgrades; few, for the search's sake */
    struct deed deeds[DEEDS];
    size_t deed_count;
    int adopted;
};

uint64_t draw(struct plan *plan, uint64_t below);
bool chance(struct plan *plan, unsigned percent);
uint64_t most(uint64_t a, uint64_t b);
uint64_t least(uint64_t a, uint64_t b);

/* ---- random_moves.c -------------------------------------------------------------- */

/* Some holds are extended, left to their lease, adopted or evicted. After tokens were
 * drawn. */
void deeds_draw(struct plan *plan);
void extend_tell(struct story *story, const struct plan *plan, const struct op *op,
                 uint32_t hold);
/* What is said instead of a release. */
void leave_tell(struct plan *plan, struct story *story, const struct op *op,
                uint32_t hold);
void deeds_tell(struct plan *plan, struct story *story);

#endif
