/* SPDX-License-Identifier: MIT */
/*
 * From events to holds, second part: what becomes of a hold between its acquire and its
 * end. It is extended, downgraded, left to its lease, adopted or evicted.
 *
 * Who adopts or evicts names a hold of another thread by its token. Whose that is can
 * be told only when all has been read: check_moves.c.
 */
#include "book.h"

#define ROUNDING_NS UINT64_C(2000000) /* leases are told in whole milliseconds */

/* ---- By its holder --------------------------------------------------------------- */

/* The writer is certain up to the call, or to the last it said before. As a reader it
 * counts from the beginning: what a reader excludes, a writer does too. */
static void downgrade_begin(struct check *check, struct open_hold *open,
                            const struct history_event *event)
{
    struct lock *lock = &check->locks[open->lock];
    struct hold piece = lock->holds[open->index];
    piece.kind = H_READ;
    piece.flags |= HOLD_PIECE;
    hold_add(lock, piece);
    open->piece = lock->hold_count - 1;
    open->lowering = event->phase == H_INVOKE;
    open->wrote = open->lowering ? event->t_ns : open->latest;
    open->latest = event->t_ns;
}

void hold_downgrade(struct check *check, const struct history_event *event)
{
    struct open_hold *open = open_find(check, event->hold);
    bool ends = open && open->lowering && event->phase == H_RETURN;
    if (!open || !open->granted || (open->piece != SIZE_MAX && !ends)) {
        malformed(check, event, "a downgrade of what is not held for writing");
        return;
    }
    if (ends) {
        open->lowering = false;
        open->latest = event->t_ns;
    } else {
        downgrade_begin(check, open, event);
    }
    if (event->phase == H_RETURN && event->result == H_OK)
        totals_of(check, H_WRITE)->downgrades++;
}

/* An extend that said "ok" and promised less than was asked for. */
static void extend_check(struct check *check, const struct open_hold *open,
                         const struct history_event *event)
{
    uint64_t wanted = open->asked + open->lease - open->lease / 100 - ROUNDING_NS;
    uint8_t kind = check->locks[open->lock].holds[open->index].kind;
    totals_of(check, kind)->extends++;
    check->report.checks[K12_MOVES].examined++;
    if (open->lease > ROUNDING_NS && event->value < wanted)
        finding(check, K12_MOVES, group_of(kind),
                "lock %u: %s hold %u: an extend by %.3f s said ok and falls short of "
                "it by %.3f s",
                open->lock, say_thread(check, thread_now(check)).text, open->number,
                (double)open->lease / 1e9, (double)(wanted - event->value) / 1e9);
}

/* A lease that is set again may be shorter than the one before: what was promised is
 * over at the call, and what the answer promises takes its place. */
void hold_extend(struct check *check, const struct history_event *event)
{
    struct open_hold *open = open_find(check, event->hold);
    bool invoke = event->phase == H_INVOKE;
    if (!open || !open->granted || (open->lease == 0) != invoke) {
        malformed(check, event, "an extend of what is not held");
        return;
    }
    open->latest = event->t_ns;
    if (invoke) {
        open->asked = event->t_ns;
        open->lease = event->value ? event->value : 1;
        open->until = earlier(open->until, event->t_ns);
        return;
    }
    struct lock *lock = &check->locks[open->lock];
    if (open->lease > lock->lease)
        lock->lease = open->lease;
    if (event->until_ns > open->until)
        open->until = event->until_ns;
    if (event->result == H_OK)
        extend_check(check, open, event);
    open->lease = 0;
}

/* Left to its lease, unless the call says that it is not. */
void hold_leave(struct check *check, const struct history_event *event)
{
    struct open_hold *open = open_find(check, event->hold);
    bool invoke = event->phase == H_INVOKE;
    if (!open || !open->granted || open->release != NEVER ||
        (open->left == NEVER) != invoke) {
        malformed(check, event, "what is not held is left behind");
        return;
    }
    open->latest = event->t_ns;
    if (invoke) {
        open->left = event->t_ns;
    } else if (event->result == H_OK) {
        totals_of(check, check->locks[open->lock].holds[open->index].kind)->left++;
        hold_finish(check, open);
    } else {
        open->left = NEVER;
    }
}

/* Told that the hold was lost, or had been, though the promise was not over. */
void loss_note(struct check *check, const struct open_hold *open)
{
    struct lock *lock = &check->locks[open->lock];
    const struct hold *hold = &lock->holds[open->index];
    uint64_t told = open->lost;
    if (hold->release == H_LATE)
        told = earlier(told, hold->over);
    if (told >= open->until)
        return;
    lock->losses =
        more(lock->losses, lock->loss_count, &lock->loss_room, sizeof *lock->losses);
    lock->losses[lock->loss_count++] = (struct loss){
        .inv = hold->inv,
        .told = told,
        .until = open->until,
        .token = hold->token,
        .thread = hold->thread,
        .number = hold->number,
        .kind = hold->kind,
    };
}

/* ---- By others ------------------------------------------------------------------- */

static void move_begin(struct check *check, const struct history_event *event)
{
    struct lock *lock = lock_get(check, event->lock);
    lock->moves =
        more(lock->moves, lock->move_count, &lock->move_room, sizeof *lock->moves);
    lock->moves[lock->move_count++] = (struct move){
        .token = event->token,
        .inv = event->t_ns,
        .ret = NEVER,
        .thread = thread_now(check),
        .number = event->hold,
        .op = event->op,
        .kind = event->kind,
    };
    check->threads[thread_now(check)].worker = true;
}

/* The call of this thread that returns here; NULL if it was not invoked. */
static struct move *move_end(struct check *check, const struct history_event *event)
{
    struct lock *lock = lock_get(check, event->lock);
    for (size_t i = lock->move_count; i-- > 0;) {
        struct move *move = &lock->moves[i];
        if (move->thread != thread_now(check) || move->number != event->hold ||
            move->op != event->op || move->ret != NEVER)
            continue;
        move->ret = event->t_ns;
        move->result = event->result;
        return move;
    }
    malformed(check, event, "an adoption or eviction returns that was not invoked");
    return NULL;
}

void hold_evict(struct check *check, const struct history_event *event)
{
    if (event->phase == H_INVOKE) {
        move_begin(check, event);
        return;
    }
    if (move_end(check, event) && event->result == H_OK)
        totals_of(check, event->kind)->evictions++;
}

static void adopt_return(struct check *check, const struct history_event *event)
{
    struct open_hold *open = open_find(check, event->hold);
    struct hold *hold = open ? &check->locks[open->lock].holds[open->index] : NULL;
    if (!open || open->lock != event->lock || hold->ret != NEVER ||
        !(hold->flags & HOLD_ADOPTED)) {
        malformed(check, event, "an adoption returns that was not invoked");
        return;
    }
    const struct move *move = move_end(check, event);
    if (event->result != H_OK) { /* if it may have happened, the move knows */
        hold_remove(check, open);
        open_drop(check, open);
        return;
    }
    hold->ret = event->t_ns;
    hold->kind = event->kind;
    hold->result = H_OK;
    open->latest = event->t_ns;
    totals_of(check, event->kind)->adoptions++;
    attempt_granted(check, open, event);
    if (move && move->token != event->token)
        finding(check, K3_TOKENS, group_of(event->kind),
                "lock %u: %s hold %u: adopted token %llu and has %llu", event->lock,
                say_thread(check, thread_now(check)).text, event->hold,
                (unsigned long long)move->token, (unsigned long long)event->token);
}

void hold_adopt(struct check *check, const struct history_event *event)
{
    if (event->phase == H_RETURN) {
        adopt_return(check, event);
        return;
    }
    struct hold *hold = attempt_invoke(check, event);
    if (!hold)
        return;
    hold->flags |= HOLD_ADOPTED;
    move_begin(check, event);
}
