/* SPDX-License-Identifier: MIT */
/*
 * K1 exclusion, K2 belief overlap, and the sweep that both are.
 *
 * A hold is certain from the return of its acquire until the lock's own promise ends:
 * release invoked, told that it is lost, or the largest end promised, whichever comes
 * first. Certain holds that conflict are the lock's fault; and where none conflict, the
 * history is linearizable: put each acquire at its return and each release at its
 * invocation. So this one pass over the holds decides what a search would. (A hold that
 * ends at the moment it returned was there at that moment, if no longer.)
 *
 * K2 is the same with what the client believed, whatever was promised. Leases overlap
 * so under pauses, which is what tokens are for: it is counted, not held against them.
 */
#include "book.h"

#include <stdlib.h>

static uint64_t cover_end(const struct hold *hold, enum cover cover)
{
    if (cover == COVER_BELIEF)
        return hold->belief;
    if (cover == COVER_RELEASED && hold->release == H_OK &&
        !(hold->flags & HOLD_REENTRY)) /* the outermost speaks for all */
        return hold->belief;
    return hold->end;
}

/* Two that may not be inside together, whatever their number. */
static bool holds_exclude(const struct hold *a, const struct hold *b)
{
    if (a->kind == H_READ && b->kind == H_READ)
        /* Two that were writers at one moment and stayed on as readers: the second
         * cannot have come in. */
        return (a->flags & b->flags & HOLD_PIECE) && a->ret == b->ret &&
               a->thread != b->thread;
    if (a->thread == b->thread && a->number == b->number)
        return false; /* halves of one that was downgraded */
    if (a->kind == H_PERMITS && b->kind == H_PERMITS)
        return false;
    return !(a->kind == H_REENTRANT && b->kind == H_REENTRANT &&
             a->thread == b->thread);
}

/* Handles of one hold, which was adopted from the one to the other. */
static bool same_hold(const struct hold *a, const struct hold *b)
{
    return ((a->flags | b->flags) & HOLD_ADOPTED) && a->token && a->token == b->token;
}

struct inside {
    struct lock *lock;
    enum cover cover;
    uint32_t *index;
    size_t count, room;
};

/* Another handle of the same hold stands before it. */
static bool inside_twice(const struct inside *inside, size_t place)
{
    const struct hold *hold = &inside->lock->holds[inside->index[place]];
    for (size_t i = 0; i < place; i++)
        if (same_hold(&inside->lock->holds[inside->index[i]], hold))
            return true;
    return false;
}

/* Those whose end has come leave. Returns the first that may not be in with `hold`, or
 * one of those that leave it too few permits. */
static const struct hold *inside_meet(struct inside *inside, const struct hold *hold,
                                      uint64_t *ret_overlap)
{
    const struct hold *found = NULL, *sharer = NULL;
    uint32_t permits = hold->kind == H_PERMITS ? hold->permits : 0;
    uint64_t sooner = cover_end(hold, inside->cover);
    size_t kept = 0;

    for (size_t i = 0; i < inside->count; i++) {
        const struct hold *other = &inside->lock->holds[inside->index[i]];
        uint64_t end = cover_end(other, inside->cover);
        if (end <= hold->ret)
            continue;
        inside->index[kept++] = inside->index[i];
        if (same_hold(hold, other))
            continue;
        if (other->ret >= cover_end(hold, inside->cover))
            continue; /* both at once, and one for that moment only: in either order */
        if (hold->kind == H_PERMITS && other->kind == H_PERMITS &&
            !inside_twice(inside, kept - 1)) {
            permits += other->permits;
            sharer = other;
            sooner = end < sooner ? end : sooner;
        }
        if (!found && holds_exclude(hold, other)) {
            found = other;
            *ret_overlap = end < sooner ? end - hold->ret : sooner - hold->ret;
        }
    }
    inside->count = kept;
    if (found || !sharer || permits <= hold->limit)
        return found;
    *ret_overlap = sooner - hold->ret;
    return sharer;
}

uint64_t sweep(struct check *check, struct lock *lock, const uint32_t *by_ret,
               enum cover cover, sweep_found *found)
{
    struct inside inside = { .lock = lock, .cover = cover };
    uint64_t examined = 0;

    for (size_t i = 0; i < lock->hold_count; i++) {
        struct hold *hold = &lock->holds[by_ret[i]];
        uint64_t overlap = 0;
        if (hold->result != H_OK || cover_end(hold, cover) < hold->ret)
            continue;
        const struct hold *other = inside_meet(&inside, hold, &overlap);
        examined += !(hold->flags & HOLD_PIECE);
        /* What came before it has met its writing half already. */
        if (other && (!(hold->flags & HOLD_PIECE) || other->ret == hold->ret))
            found(check, lock, hold, other, overlap);
        inside.index =
            more(inside.index, inside.count, &inside.room, sizeof *inside.index);
        inside.index[inside.count++] = by_ret[i];
    }
    free(inside.index);
    return examined;
}

static void exclusion_found(struct check *check, const struct lock *lock,
                            struct hold *hold, const struct hold *other,
                            uint64_t overlap)
{
    hold->flags |= HOLD_CONFLICT;
    finding(check, K1_EXCLUSION, group_of(hold->kind),
            "lock %u: %s | with %s | for %.6f s", lock->number,
            say_hold(check, hold).text, say_hold(check, other).text,
            (double)overlap / 1e9);
}

void check_exclusion(struct check *check, struct lock *lock, const uint32_t *by_ret)
{
    struct check_finding *k1 = &check->report.checks[K1_EXCLUSION];
    k1->examined += sweep(check, lock, by_ret, COVER_CERTAIN, exclusion_found);
    k1->applicable = k1->examined > 0;
}

static void belief_found(struct check *check, const struct lock *lock,
                         struct hold *hold, const struct hold *other, uint64_t overlap)
{
    if (overlap > check->report.belief_max_ns)
        check->report.belief_max_ns = overlap;
    finding(check, K2_BELIEF, group_of(hold->kind),
            "lock %u: %s | believed with %s | for %.6f s", lock->number,
            say_hold(check, hold).text, say_hold(check, other).text,
            (double)overlap / 1e9);
}

bool check_belief(struct check *check, struct lock *lock, const uint32_t *by_ret)
{
    struct check_finding *k2 = &check->report.checks[K2_BELIEF];
    uint64_t before = k2->found;
    k2->examined += sweep(check, lock, by_ret, COVER_BELIEF, belief_found);
    k2->applicable = k2->examined > 0;
    return k2->found > before;
}
