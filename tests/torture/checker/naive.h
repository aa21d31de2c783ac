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
    uint32_t number;
    bool adopted, detached;
    uint64_t left;  /* leaving was invoked; NEVER: was not */
    uint64_t lease; /* the longest that an extend asked for */
    uint64_t asked_lease;
};

/* What was done to a hold by another. */
struct feat {
    uint8_t op, result;
    uint64_t token, got, inv, ret;
    size_t thread;
    uint32_t number;
};

#define FEATS 16

struct facts {
    struct fact all[FACTS];
    size_t count;
    struct feat feats[FEATS];
    size_t feat_count;
};

void facts_read(struct facts *facts, const struct story *story);

/* naive_moves.c */
void feats_read(struct facts *facts, const struct story *story);
/* What each client believed, instead of what the lock promised and others did. */
void facts_believe(struct facts *facts);
/* Whether it names the hold that the fact is about, was not what made the fact, and
 * happened or may have. */
bool feat_hits(const struct feat *feat, const struct fact *fact);
bool fact_left(const struct fact *fact); /* to its lease */
/* The end of a hold as K10 has to take it, when all its own thread said is `until`. */
uint64_t feats_until(const struct facts *facts, const struct fact *fact, uint64_t until,
                     uint64_t longer, const struct check_options *options);
uint64_t naive_moves(const struct facts *facts); /* K12: how many? */

/* brute.c: is there an order in which a lock that works could have done this? */
bool brute_linearizable(const struct facts *facts);
/* Until when a handle's hold was surely held, by it or by its adopter. */
uint64_t brute_end(const struct facts *facts, const struct fact *fact);

uint64_t naive_tokens(const struct facts *facts); /* K3: how many? */
uint64_t naive_fenced(const struct story *story); /* K4: how many? */
uint64_t naive_order(const struct facts *facts);  /* K7: how many? */
/* K10: how many? */
uint64_t naive_busy(const struct story *story, const struct facts *facts,
                    const struct check_options *options);

#endif
