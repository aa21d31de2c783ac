/* SPDX-License-Identifier: MIT */
/*
 * What the checker decides, decided again in the plainest way there is: by looking at
 * all pairs, at all moments, or at all orders. Shares no code with the checker and
 * reads stories by itself. For one lock.
 */
#ifndef CHECKER_NAIVE_H
#define CHECKER_NAIVE_H

#include "story.h"

#define FACTS 32

/* One attempt, as its thread wrote it down. */
struct fact {
    size_t thread;
    uint32_t process;
    uint8_t kind, result, release;
    uint16_t permits, limit;
    uint64_t inv, ret; /* NEVER: none */
    uint64_t first_until, until, lost, rel_inv, rel_ret;
    uint64_t before_downgrade, downgrade; /* NEVER: none */
    uint64_t token, place;
    uint64_t alive; /* the last event of its process */
    /* Which events of its thread; SIZE_MAX: none. */
    size_t asked, answered, releasing;
};

struct facts {
    struct fact all[FACTS];
    size_t count;
};

void facts_read(struct facts *facts, const struct story *story);

/* brute.c: is there an order in which a lock that works could have done this? */
bool brute_linearizable(const struct facts *facts);

uint64_t naive_tokens(const struct facts *facts); /* K3: how many? */
uint64_t naive_fenced(const struct story *story); /* K4: how many? */
uint64_t naive_order(const struct facts *facts);  /* K7: how many? */
/* K10: how many? */
uint64_t naive_busy(const struct story *story, const struct facts *facts,
                    const struct check_options *options);

#endif
