/* SPDX-License-Identifier: MIT */
/*
 * Linearizability by search: is there an order of all that happened, each at a moment
 * of its own call, in which a lock that works could have done it?
 *
 * What happens is a list of steps: an acquire, the end of a hold, a downgrade. Each has
 * a window of time. A step may come next if nothing that must still come had to be over
 * before its window began, and if the lock would allow it in the state the steps before
 * have led to. That state depends on the set of those steps only, so that each set is
 * visited once. All orders are tried.
 *
 *   - A hold ends at its release, or at any time after what was promised is over; that
 *     of a process that was heard of no more, at any time after that, or never.
 *   - An acquire whose outcome is not known may happen at any time from its beginning,
 *     or never, and may end at any time. So may one whose promise was over before it
 *     returned: there was no moment at which it claimed to hold.
 *   - One that was refused did nothing.
 *   - What was adopted is inside from when it moved, beside the handle that had it
 *     before. That one ends when it has moved, and not sooner; or it may end at any
 *     time from the call, if the adoption is not sure to have happened.
 *   - What was evicted, or may have been, ends at any time from the call.
 */
#include "naive.h"

#include <stdlib.h>
#include <string.h>

#define STEPS 24

enum step_what { STEP_ACQUIRE, STEP_DOWNGRADE, STEP_END };

struct step {
    enum step_what what;
    const struct fact *fact;
    uint64_t low, high;
    bool must;
    int after;      /* the step of the same hold that comes before; -1: none */
    uint32_t moves; /* an end: it may come after any of these as well */
};

struct search {
    struct step steps[STEPS];
    int count;
    uint32_t all_musts;
    uint64_t *visited;
};

static int step_add(struct search *search, struct step step)
{
    if (search->count == STEPS)
        return -2;
    search->steps[search->count] = step;
    return search->count++;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Where handles end ----------------------------------------------------------- */

/* By what its own thread said. */
static uint64_t own_low(const struct fact *fact)
{
    uint64_t low = least(least(fact->until, fact->lost), fact->rel_inv);
    if (fact->rel_inv == NEVER && !fact_left(fact))
        low = least(low, fact->alive);
    return low;
}

/* The handle that an adoption made, if this hold surely moved to it and it was held
 * when it was told so; else NULL. */
static const struct fact *moved_to(const struct facts *facts, const struct fact *fact,
                                   const struct feat *feat)
{
    if (feat->op != H_ADOPT || feat->result != H_OK || feat->inv < fact->ret)
        return NULL;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *other = &facts->all[i];
        if (other->adopted && other->thread == feat->thread &&
            other->number == feat->number && other->token == feat->token &&
            own_low(other) >= other->ret)
            return other;
    }
    return NULL;
}

/* From then on it may have been adopted or evicted. */
static uint64_t cut_low(const struct facts *facts, const struct fact *fact)
{
    uint64_t low = NEVER;
    for (size_t i = 0; i < facts->feat_count; i++)
        if (feat_hits(&facts->feats[i], fact) &&
            !moved_to(facts, fact, &facts->feats[i]))
            low = least(low, facts->feats[i].inv);
    return low;
}

static bool has_moved(const struct facts *facts, const struct fact *fact)
{
    for (size_t i = 0; i < facts->feat_count; i++)
        if (feat_hits(&facts->feats[i], fact) &&
            moved_to(facts, fact, &facts->feats[i]))
            return true;
    return false;
}

/* The earliest at which it may end, but for what comes of an adoption. */
static uint64_t end_low(const struct facts *facts, const struct fact *fact)
{
    uint64_t cut = cut_low(facts, fact);
    return has_moved(facts, fact) ? cut : least(cut, own_low(fact));
}

uint64_t brute_end(const struct facts *facts, const struct fact *fact)
{
    uint64_t moved = 0;
    if (!has_moved(facts, fact))
        return end_low(facts, fact);
    for (size_t i = 0; i < facts->feat_count; i++) {
        const struct feat *feat = &facts->feats[i];
        const struct fact *to =
            feat_hits(feat, fact) ? moved_to(facts, fact, feat) : NULL;
        uint64_t end = to ? brute_end(facts, to) : 0;
        moved = end > moved ? end : moved;
    }
    return least(moved, end_low(facts, fact));
}

/* ---- Steps ----------------------------------------------------------------------- */

static bool granted_steps(struct search *search, const struct facts *facts,
                          const struct fact *fact)
{
    struct step acquire = { STEP_ACQUIRE, fact, fact->inv, fact->ret, true, -1, 0 };
    int last = step_add(search, acquire);
    if (fact->downgrade != NEVER) {
        struct step down = {
            STEP_DOWNGRADE, fact, fact->before_downgrade, fact->downgrade, true, last, 0
        };
        last = step_add(search, down);
    }
    uint64_t low = end_low(facts, fact);
    bool must = fact->rel_ret != NEVER && low <= fact->rel_ret;
    struct step end = {
        STEP_END, fact, low, must ? fact->rel_ret : NEVER, must, last, 0
    };
    /* Lost before or while it was downgraded: then that does not have to happen. */
    if (fact->downgrade != NEVER && end.low < fact->downgrade) {
        search->steps[last].must = false;
        end.after = search->steps[last].after;
    }
    return step_add(search, end) != -2;
}

/* The steps by which a hold moves to another handle. */
static uint32_t steps_moving(const struct search *search, const struct facts *facts,
                             const struct fact *fact)
{
    uint32_t moves = 0;
    for (size_t i = 0; i < facts->feat_count; i++) {
        const struct feat *feat = &facts->feats[i];
        const struct fact *to =
            feat_hits(feat, fact) ? moved_to(facts, fact, feat) : NULL;
        for (int j = 0; to && j < search->count; j++)
            if (search->steps[j].fact == to && search->steps[j].what == STEP_ACQUIRE)
                moves |= UINT32_C(1) << j;
    }
    return moves;
}

static bool unknown_steps(struct search *search, const struct fact *fact)
{
    struct step acquire = { STEP_ACQUIRE, fact, fact->inv, NEVER, false, -1, 0 };
    int last = step_add(search, acquire);
    struct step end = { STEP_END, fact, fact->inv, NEVER, false, last, 0 };
    return step_add(search, end) != -2;
}

static bool steps_make(struct search *search, const struct facts *facts)
{
    bool fit = true;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *fact = &facts->all[i];
        if (fact->result == H_OK && end_low(facts, fact) >= fact->ret)
            fit = granted_steps(search, facts, fact) && fit;
        else if (!fact->adopted && (fact->result == H_OK || fact->result == H_UNKNOWN ||
                                    fact->ret == NEVER))
            fit = unknown_steps(search, fact) && fit;
    }
    for (int i = 0; i < search->count; i++)
        if (search->steps[i].what == STEP_END)
            search->steps[i].moves = steps_moving(search, facts, search->steps[i].fact);
    for (int i = 0; i < search->count; i++)
        if (search->steps[i].must)
            search->all_musts |= UINT32_C(1) << i;
    return fit;
}

/* ---- The lock -------------------------------------------------------------------- */

/* Handles of one hold. */
static bool same_hold(const struct fact *a, const struct fact *b)
{
    return (a->adopted || b->adopted) && a->token && a->token == b->token;
}

static bool may_meet(const struct fact *fact, const struct fact *other, bool reader)
{
    if (fact->kind == H_PERMITS && other->kind == H_PERMITS)
        return true;
    if (fact->kind == H_READ && reader)
        return true;
    return fact->kind == H_REENTRANT && other->kind == H_REENTRANT &&
           fact->thread == other->thread;
}

/* Would a lock that works let it in after the steps in `done`? */
static bool lock_admits(const struct search *search, uint32_t done,
                        const struct fact *fact)
{
    uint32_t permits = fact->permits;
    const struct fact *inside[STEPS];
    size_t count = 0;
    for (int i = 0; i < search->count; i++) {
        const struct fact *other = search->steps[i].fact;
        bool reader = other->kind == H_READ, in = true;
        if (!(done & UINT32_C(1) << i) || search->steps[i].what != STEP_ACQUIRE)
            continue;
        for (int j = i + 1; j < search->count && search->steps[j].fact == other; j++) {
            bool is_done = done & UINT32_C(1) << j;
            reader |= is_done && search->steps[j].what == STEP_DOWNGRADE;
            in &= !(is_done && search->steps[j].what == STEP_END);
        }
        if (!in || same_hold(fact, other))
            continue;
        bool again = false;
        for (size_t j = 0; j < count; j++)
            again |= same_hold(inside[j], other);
        inside[count++] = other;
        permits += again ? 0 : other->permits;
        if (!may_meet(fact, other, reader))
            return false;
    }
    return fact->kind != H_PERMITS || permits <= fact->limit;
}

/* ---- The search ------------------------------------------------------------------ */

static bool step_may(const struct search *search, uint32_t done, int next)
{
    const struct step *step = &search->steps[next];
    if (step->after >= 0 && !(done & UINT32_C(1) << step->after))
        return false;
    if (done & step->moves)
        return true;
    for (int i = 0; i < search->count; i++) {
        const struct step *other = &search->steps[i];
        bool waits = other->must && !(done & UINT32_C(1) << i);
        if (i != next && waits && other->high < step->low)
            return false;
    }
    if (step->what != STEP_ACQUIRE)
        return true;
    return lock_admits(search, done, step->fact);
}

static bool search_from(struct search *search, uint32_t done)
{
    if ((done & search->all_musts) == search->all_musts)
        return true;
    if (search->visited[done / 64] & UINT64_C(1) << done % 64)
        return false;
    search->visited[done / 64] |= UINT64_C(1) << done % 64;
    for (int i = 0; i < search->count; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if (!(done & bit) && step_may(search, done, i) &&
            search_from(search, done | bit))
            return true;
    }
    return false;
}

bool brute_linearizable(const struct facts *facts)
{
    static uint64_t visited[(1 << STEPS) / 64];
    struct search search = { .visited = visited };

    if (!steps_make(&search, facts))
        abort();
    memset(visited, 0, ((UINT64_C(1) << search.count) + 63) / 64 * 8);
    return search_from(&search, 0);
}
