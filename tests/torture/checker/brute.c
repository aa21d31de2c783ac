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
 */
#include "naive.h"

#include <stdlib.h>
#include <string.h>

#define STEPS 22

enum step_what { STEP_ACQUIRE, STEP_DOWNGRADE, STEP_END };

struct step {
    enum step_what what;
    const struct fact *fact;
    uint64_t low, high;
    bool must;
    int after; /* the step of the same hold that comes before; -1: none */
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

static bool granted_steps(struct search *search, const struct fact *fact)
{
    struct step acquire = { STEP_ACQUIRE, fact, fact->inv, fact->ret, true, -1 };
    int last = step_add(search, acquire);
    if (fact->downgrade != NEVER) {
        struct step down = { STEP_DOWNGRADE,  fact, fact->before_downgrade,
                             fact->downgrade, true, last };
        last = step_add(search, down);
    }
    uint64_t low = least(least(fact->until, fact->lost), fact->rel_inv);
    struct step end = {
        STEP_END, fact, low, fact->rel_ret, fact->rel_ret != NEVER, last
    };
    if (fact->rel_inv == NEVER)
        end.low = least(low, fact->alive);
    /* Lost before or while it was downgraded: then that does not have to happen. */
    if (fact->downgrade != NEVER && end.low < fact->downgrade) {
        search->steps[last].must = false;
        end.after = search->steps[last].after;
    }
    return step_add(search, end) != -2;
}

static bool unknown_steps(struct search *search, const struct fact *fact)
{
    struct step acquire = { STEP_ACQUIRE, fact, fact->inv, NEVER, false, -1 };
    int last = step_add(search, acquire);
    struct step end = { STEP_END, fact, fact->inv, NEVER, false, last };
    return step_add(search, end) != -2;
}

static bool steps_make(struct search *search, const struct facts *facts)
{
    bool fit = true;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *fact = &facts->all[i];
        if (fact->result == H_OK && fact->until >= fact->ret)
            fit = granted_steps(search, fact) && fit;
        else if (fact->result == H_OK || fact->result == H_UNKNOWN ||
                 fact->ret == NEVER)
            fit = unknown_steps(search, fact) && fit;
    }
    for (int i = 0; i < search->count; i++)
        if (search->steps[i].must)
            search->all_musts |= UINT32_C(1) << i;
    return fit;
}

/* ---- The lock -------------------------------------------------------------------- */

struct state {
    int writers, readers;
    size_t writer; /* the thread, of reentrant ones */
    bool reentrant;
    uint32_t permits;
};

static void state_enter(struct state *state, const struct fact *fact, bool reader)
{
    if (fact->kind == H_PERMITS) {
        state->permits += fact->permits;
    } else if (reader) {
        state->readers++;
    } else {
        state->writers++;
        state->writer = fact->thread;
        state->reentrant = fact->kind == H_REENTRANT;
    }
}

/* Who is in after the steps in `done`. */
static struct state state_after(const struct search *search, uint32_t done)
{
    struct state state = { 0 };
    for (int i = 0; i < search->count; i++) {
        const struct fact *fact = search->steps[i].fact;
        bool reader = fact->kind == H_READ, in = true;
        if (!(done & UINT32_C(1) << i) || search->steps[i].what != STEP_ACQUIRE)
            continue;
        for (int j = i + 1; j < search->count && search->steps[j].fact == fact; j++) {
            bool is_done = done & UINT32_C(1) << j;
            reader |= is_done && search->steps[j].what == STEP_DOWNGRADE;
            in &= !(is_done && search->steps[j].what == STEP_END);
        }
        if (in)
            state_enter(&state, fact, reader);
    }
    return state;
}

static bool lock_admits(const struct state *state, const struct fact *fact)
{
    if (fact->kind == H_PERMITS)
        return state->permits + fact->permits <= fact->limit;
    if (fact->kind == H_READ)
        return state->writers == 0;
    if (state->writers == 0 && state->readers == 0)
        return true;
    return fact->kind == H_REENTRANT && state->reentrant &&
           state->writer == fact->thread && state->readers == 0;
}

/* ---- The search ------------------------------------------------------------------ */

static bool step_may(const struct search *search, uint32_t done, int next)
{
    const struct step *step = &search->steps[next];
    if (step->after >= 0 && !(done & UINT32_C(1) << step->after))
        return false;
    for (int i = 0; i < search->count; i++) {
        const struct step *other = &search->steps[i];
        bool waits = other->must && !(done & UINT32_C(1) << i);
        if (i != next && waits && other->high < step->low)
            return false;
    }
    if (step->what != STEP_ACQUIRE)
        return true;
    struct state state = state_after(search, done);
    return lock_admits(&state, step->fact);
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
