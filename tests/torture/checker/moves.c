/* SPDX-License-Identifier: MIT */
/*
 * Where handles end from which the hold was taken, for all checks but K12.
 *
 * Evicted: at the call, if that said "ok" or may have done it. Adopted: the hold was
 * there when it moved, so it was held from the first grant to the end of the last
 * handle. The former handle is therefore as certain as the adopter's, and for as long,
 * whatever its own promise was. If the adoption may have happened or not, the former
 * handle is certain until the call.
 */
#include "moves.h"

#include <stdlib.h>

#define HANDOFFS 64 /* in a row, inside one client */

bool move_did(const struct move *move)
{
    return move->result == H_OK;
}

bool move_may(const struct move *move)
{
    return move->result == H_OK || move->result == H_UNKNOWN || move->result == 0;
}

bool made_by(const struct hold *hold, const struct move *move)
{
    return (hold->flags & HOLD_ADOPTED) && hold->thread == move->thread &&
           hold->number == move->number;
}

bool is_handle(const struct hold *hold)
{
    return hold->result == H_OK && hold->token && !(hold->flags & HOLD_HALF);
}

/* ---- By token -------------------------------------------------------------------- */

void group_make(struct group *group, const struct lock *lock)
{
    group->lock = lock;
    group->moves = order_by(lock->moves, lock->move_count, sizeof *lock->moves,
                            offsetof(struct move, token), NULL);
    group->holds = order_by(lock->holds, lock->hold_count, sizeof *lock->holds,
                            offsetof(struct hold, token), NULL);
}

void group_free(struct group *group)
{
    free(group->moves);
    free(group->holds);
}

size_t move_first(const struct group *group, uint64_t token)
{
    size_t low = 0, high = group->lock->move_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (group->lock->moves[group->moves[middle]].token < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t hold_first(const struct group *group, uint64_t token)
{
    size_t low = 0, high = group->lock->hold_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (group->lock->holds[group->holds[middle]].token < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct move *move_at(const struct group *group, size_t i, uint64_t token)
{
    if (i >= group->lock->move_count)
        return NULL;
    struct move *move = &group->lock->moves[group->moves[i]];
    return move->token == token ? move : NULL;
}

struct hold *hold_at(const struct group *group, size_t i, uint64_t token)
{
    if (i >= group->lock->hold_count)
        return NULL;
    struct hold *hold = &group->lock->holds[group->holds[i]];
    return hold->token == token ? hold : NULL;
}

/* ---- Where handles end ----------------------------------------------------------- */

/* The handle that the adoption made; for readers, the reading half of it. */
static const struct hold *adopter_of(const struct group *group, const struct move *move,
                                     uint8_t kind)
{
    struct hold *hold;
    for (size_t i = hold_first(group, move->token);
         (hold = hold_at(group, i, move->token)); i++)
        if (made_by(hold, move) && hold->result == H_OK && kind == hold->kind)
            return hold;
    return NULL;
}

struct ends {
    bool certain;   /* when it returned, by its own word */
    uint64_t cut;   /* certain no longer than that */
    uint64_t moved; /* held by the adopter until then; 0: was not adopted */
    uint64_t over;  /* by then the store has given it to another handle, or ended it */
    uint64_t maybe; /* it may be there until then though the handle is done; 0: no */
};

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* An adoption without an answer may have set a new lease. */
static uint64_t move_lease(struct check *check, const struct lock *lock,
                           const struct move *move)
{
    const struct process *process = process_of(check, move->thread);
    if (move->ret != NEVER)
        return lease_over(check, lock, move->ret + check->options.bound_ns);
    return process->killed && process->gone != NEVER
               ? lease_over(check, lock, process->gone)
               : NEVER;
}

/* `ends` of those that returned later are complete. */
static void ends_take(struct check *check, const struct group *group, size_t index,
                      const struct move *move, struct ends *all)
{
    const struct hold *hold = &group->lock->holds[index], *to = NULL;
    struct ends *ends = &all[index];
    bool adopted = move->op == H_ADOPT;
    bool before = (hold->flags & HOLD_ADOPTED) && move->ret < hold->inv;
    if (!move_may(move) || made_by(hold, move) || before)
        return;
    if (move_did(move))
        ends->over = earlier(ends->over, move->ret);
    else if (adopted)
        ends->maybe = later(ends->maybe, move_lease(check, group->lock, move));
    if (adopted && move_did(move) && move->inv >= hold->ret)
        to = adopter_of(group, move, hold->kind);
    if (to && all[to - group->lock->holds].certain)
        ends->moved = later(ends->moved, to->end);
    else
        ends->cut = earlier(ends->cut, move->inv);
}

/* Whether the hold came from that of the token by hand-offs inside one process. */
static bool is_heir(const struct check *check, const struct group *group,
                    const struct hold *hold, uint64_t token)
{
    struct hold *first;
    for (size_t i = hold_first(group, token); (first = hold_at(group, i, token)); i++)
        if (check->threads[first->thread].process ==
            check->threads[hold->thread].process)
            return true;
    return false;
}

/* Evicted by the token of one before it, which was all that the store knew in a
 * fault. */
static uint64_t heir_cut(const struct check *check, const struct group *group,
                         const struct hold *hold)
{
    uint64_t first = hold->token > HANDOFFS ? hold->token - HANDOFFS : 1, cut = NEVER;
    for (size_t i = move_first(group, first); i < group->lock->move_count; i++) {
        const struct move *move = &group->lock->moves[group->moves[i]];
        if (move->token >= hold->token)
            break;
        if (move->op == H_EVICT && move_may(move) && move->ret >= hold->inv &&
            windows_meet(check, move->inv, move->ret) &&
            is_heir(check, group, hold, move->token))
            cut = earlier(cut, move->inv);
    }
    return cut;
}

static void hold_settle(struct check *check, const struct group *group, size_t index,
                        struct ends *all)
{
    struct hold *hold = &group->lock->holds[index];
    struct ends *ends = &all[index];
    struct move *move;
    *ends = (struct ends){ hold->end >= hold->ret, NEVER, 0, NEVER, 0 };
    if (hold->result != H_OK || !hold->token)
        return;
    for (size_t i = move_first(group, hold->token);
         (move = move_at(group, i, hold->token)); i++)
        ends_take(check, group, index, move, all);
    if (ends->moved)
        hold->end = ends->moved;
    hold->end = earlier(hold->end, ends->cut);
    hold->end = earlier(hold->end, heir_cut(check, group, hold));
    uint64_t possible = earlier(possible_end(check, group->lock, hold), ends->over);
    if (ends->over != NEVER || ends->maybe)
        hold->over = earlier(later(possible, ends->maybe), NEVER - 1); /* for ever */
}

/* From the last handle of a hold to its first, which end no sooner than the next. */
void moves_settle(struct check *check, struct lock *lock)
{
    struct group group;
    if (!lock->move_count)
        return;
    group_make(&group, lock);
    struct ends *ends = zeroed(lock->hold_count, sizeof *ends);
    uint32_t *by_ret = order_by(lock->holds, lock->hold_count, sizeof *lock->holds,
                                offsetof(struct hold, ret), NULL);
    for (size_t i = lock->hold_count; i-- > 0;)
        hold_settle(check, &group, by_ret[i], ends);
    free(by_ret);
    free(ends);
    group_free(&group);
}
