/* SPDX-License-Identifier: MIT */
/*
 * K12: a hold moves as a whole, and ends once.
 *
 * A token stands for one hold, whichever handle has it: that of the acquire or, after
 * an adoption, that of the adopter. So for each token that was adopted or evicted:
 *
 *   - It ends once: by one release that says "ok", or by one eviction that does.
 *   - Nothing is adopted after its end.
 *   - A release that is called when the hold has been adopted or evicted does not say
 *     "ok". (While that is under way it may: the hold was there when the release was
 *     called, and if its answer is lost, who asks again cannot tell what ended it.)
 *   - What was adopted or evicted had been granted.
 *   - A handle is told that it lost its hold before the promise was over only if the
 *     hold was evicted or adopted, or a fault was felt.
 *
 * (And an extend that says "ok" promises what was asked for: read_moves.c.)
 */
#include "moves.h"

#define REPEAT_NS UINT64_C(5000000)

/* ---- K12 ------------------------------------------------------------------------- */

static void move_found(struct check *check, const struct lock *lock,
                       const struct move *move, const char *what)
{
    finding(check, K12_MOVES, group_of(move->kind),
            "lock %u: %s %s token %llu [%.6f %.6f]: %s", lock->number,
            say_thread(check, move->thread).text,
            move->op == H_ADOPT ? "adopted" : "evicted",
            (unsigned long long)move->token, say_time(check, move->inv),
            say_time(check, move->ret), what);
}

/* A release that says that it ended the hold; that of a re-entry does not. */
static bool says_ended(const struct hold *hold)
{
    return is_handle(hold) && hold->release == H_OK && !(hold->flags & HOLD_REENTRY);
}

/* And it was not adopted or evicted while the release was under way. */
static bool ended_by(const struct group *group, const struct hold *hold)
{
    struct move *move;
    if (!says_ended(hold))
        return false;
    for (size_t i = move_first(group, hold->token);
         (move = move_at(group, i, hold->token)); i++)
        if (move_did(move) && !made_by(hold, move) && move->inv <= hold->over &&
            move->ret >= hold->belief)
            return false;
    return true;
}

/* The eviction of a hold that had been released and handed on inside its client. While
 * a fault is felt a store may not know yet: only the client can tell it. */
static bool evicted_heir(const struct check *check, const struct group *group,
                         const struct move *move)
{
    struct hold *hold;
    if (!windows_meet(check, move->inv, move->ret))
        return false;
    for (size_t i = hold_first(group, move->token);
         (hold = hold_at(group, i, move->token)); i++)
        if (says_ended(hold) && hold->over < move->inv)
            return true;
    return false;
}

/* How often the hold was ended, and the earliest time by which it was. */
static uint64_t ends_count(const struct check *check, const struct group *group,
                           uint64_t token, uint64_t *ret_first)
{
    uint64_t count = 0;
    struct hold *hold;
    struct move *move;
    *ret_first = NEVER;
    for (size_t i = hold_first(group, token); (hold = hold_at(group, i, token)); i++)
        if (ended_by(group, hold)) {
            count++;
            *ret_first = earlier(*ret_first, hold->over);
        }
    for (size_t i = move_first(group, token); (move = move_at(group, i, token)); i++)
        if (move->op == H_EVICT && move_did(move) &&
            !evicted_heir(check, group, move)) {
            count++;
            *ret_first = earlier(*ret_first, move->ret);
        }
    return count;
}

static bool was_granted(const struct group *group, const struct move *move)
{
    struct hold *hold;
    for (size_t i = hold_first(group, move->token);
         (hold = hold_at(group, i, move->token)); i++)
        if (is_handle(hold) && !made_by(hold, move) && hold->inv <= move->ret)
            return true;
    for (size_t i = 0; i < group->lock->hold_count; i++) {
        hold = &group->lock->holds[i];
        if (hold->result != H_OK && !(hold->flags & HOLD_ADOPTED) &&
            hold->inv <= move->ret)
            return true; /* its token is not known: it may be that one */
    }
    return false;
}

/* A handle whose hold was taken away before its release was called. */
static bool was_taken(const struct group *group, const struct hold *hold)
{
    struct move *move;
    for (size_t i = move_first(group, hold->token);
         (move = move_at(group, i, hold->token)); i++)
        if (move_did(move) && !made_by(hold, move) && move->inv >= hold->ret &&
            move->ret < hold->belief)
            return true;
    return false;
}

/* A handle whose hold may have been taken away by the time its release was called: the
 * call that took it need not have returned by then, or may have had no answer. */
static bool may_be_taken(const struct group *group, const struct hold *hold)
{
    struct move *move;
    for (size_t i = move_first(group, hold->token);
         (move = move_at(group, i, hold->token)); i++)
        if (move_may(move) && !made_by(hold, move) && move->ret >= hold->ret &&
            move->inv <= hold->belief)
            return true;
    return false;
}

/* A release whose answer is lost is repeated, and then finds the hold gone. It takes
 * that for its own work, though another client may have taken the hold before the
 * release was called: no store can tell it. So where a fault was felt, and a release
 * took long enough to have been repeated, its "ok" is taken for "not known", here and
 * in K9; they are counted. */
static void releases_doubt(struct check *check, const struct group *group,
                           uint64_t token)
{
    struct hold *hold;
    for (size_t i = hold_first(group, token); (hold = hold_at(group, i, token)); i++) {
        if (!says_ended(hold) || !may_be_taken(group, hold) ||
            hold->over - hold->belief < REPEAT_NS ||
            !windows_meet(check, hold->belief, hold->over))
            continue;
        hold->release = H_UNKNOWN;
        check->report.doubted++;
    }
}

static void token_check(struct check *check, const struct group *group, uint64_t token)
{
    releases_doubt(check, group, token);
    const struct lock *lock = group->lock;
    struct hold *hold;
    struct move *move, *last = NULL;
    uint64_t first, count = ends_count(check, group, token, &first);

    for (size_t i = move_first(group, token); (move = move_at(group, i, token)); i++) {
        check->report.checks[K12_MOVES].examined++;
        last = move;
        if (!move_did(move))
            continue;
        if (!was_granted(group, move))
            move_found(check, lock, move, "it was never granted");
        if (move->op == H_ADOPT && first < move->inv)
            move_found(check, lock, move, "it had ended before");
    }
    for (; count > 1; count--)
        move_found(check, lock, last, "it ended more than once");
    for (size_t i = hold_first(group, token); (hold = hold_at(group, i, token)); i++)
        if (says_ended(hold) && was_taken(group, hold))
            finding(check, K12_MOVES, group_of(hold->kind),
                    "lock %u: adopted or evicted, and then its release said ok: %s",
                    lock->number, say_hold(check, hold).text);
}

static bool loss_caused(const struct group *group, const struct loss *loss)
{
    struct move *move;
    for (size_t i = move_first(group, loss->token);
         (move = move_at(group, i, loss->token)); i++)
        if (move_may(move) && move->inv <= loss->told &&
            !(move->thread == loss->thread && move->number == loss->number))
            return true;
    return false;
}

static void losses_check(struct check *check, const struct group *group)
{
    const struct lock *lock = group->lock;
    for (size_t i = 0; i < lock->loss_count; i++) {
        const struct loss *loss = &lock->losses[i];
        check->report.checks[K12_MOVES].examined++;
        if (windows_meet(check, loss->inv, loss->told) || loss_caused(group, loss))
            continue;
        finding(check, K12_MOVES, group_of(loss->kind),
                "lock %u: %s hold %u %s token %llu was told at %.6f that it is lost, "
                "was promised until %.6f, and no client took it",
                lock->number, say_thread(check, loss->thread).text, loss->number,
                kind_name(loss->kind), (unsigned long long)loss->token,
                say_time(check, loss->told), say_time(check, loss->until));
    }
}

static void calls_check(struct check *check, const struct lock *lock)
{
    for (size_t i = 0; i < lock->move_count; i++) {
        const struct move *move = &lock->moves[i];
        if (move->op != H_EVICT)
            continue; /* the hold that it makes is looked at */
        if (move->ret != NEVER)
            wait_check(check, lock, move->inv, move->ret, move->thread, move->kind);
        else if (!process_of(check, move->thread)->killed)
            finding(check, K8_LIVENESS, group_of(move->kind),
                    "lock %u: %s stuck in an eviction since %.6f", lock->number,
                    say_thread(check, move->thread).text, say_time(check, move->inv));
    }
}

void check_moves(struct check *check, struct lock *lock)
{
    struct check_finding *k12 = &check->report.checks[K12_MOVES];
    struct group group;
    uint64_t token = 0;
    if (lock->move_count || lock->loss_count) {
        group_make(&group, lock);
        for (size_t i = 0; i < lock->move_count; i++) {
            uint64_t next = lock->moves[group.moves[i]].token;
            if (i == 0 || next != token)
                token_check(check, &group, next);
            token = next;
        }
        losses_check(check, &group);
        group_free(&group);
        calls_check(check, lock);
    }
    k12->applicable = k12->examined > 0;
}
