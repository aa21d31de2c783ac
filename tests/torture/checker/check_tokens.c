/* SPDX-License-Identifier: MIT */
/*
 * K3: tokens tell grants apart and grow with time.
 *
 * If A had returned before B was invoked, A's token is the smaller. From the largest
 * token down, the earliest return among the larger ones is all there is to remember: a
 * hold that was invoked after it has too small a token. Tokens of 0 mean that the lock
 * has none. A re-entry keeps the token of the hold it is in, an adoption that of the
 * hold it moves, and both are left out.
 */
#include "book.h"

#include <stdlib.h>

static bool token_counts(const struct hold *hold)
{
    return hold->result == H_OK && hold->token &&
           !(hold->flags & (HOLD_PIECE | HOLD_REENTRY | HOLD_ADOPTED));
}

static const struct hold *hold_of(const struct lock *lock, const struct other *other)
{
    for (size_t i = 0; i < lock->hold_count; i++)
        if (lock->holds[i].thread == other->thread &&
            lock->holds[i].number == other->number)
            return &lock->holds[i];
    return NULL;
}

/* Evicted or adopted by then, or perhaps: the re-entry found the lock free. */
static bool taken_before(const struct lock *lock, uint64_t token, uint64_t at)
{
    for (size_t i = 0; i < lock->move_count; i++) {
        const struct move *move = &lock->moves[i];
        if (move->token == token && move->inv <= at && move->result != H_ABSENT &&
            move->result != H_FAILED)
            return true;
    }
    return false;
}

static void reentries_check(struct check *check, const struct lock *lock)
{
    for (size_t i = 0; i < lock->other_count; i++) {
        const struct other *other = &lock->others[i];
        const struct hold *hold = hold_of(lock, other);
        if (hold && !taken_before(lock, hold->token, other->at))
            finding(check, K3_TOKENS, group_of(hold->kind),
                    "lock %u: re-entered with another token: %s", lock->number,
                    say_hold(check, hold).text);
    }
}

static void token_pair(struct check *check, const struct lock *lock,
                       const struct hold *hold, const struct hold *other,
                       const char *what)
{
    finding(check, K3_TOKENS, group_of(hold->kind), "lock %u: %s | %s %s", lock->number,
            say_hold(check, hold).text, what, say_hold(check, other).text);
}

void check_tokens(struct check *check, struct lock *lock, const uint32_t *by_ret)
{
    struct check_finding *k3 = &check->report.checks[K3_TOKENS];
    uint32_t *order = order_by(lock->holds, lock->hold_count, sizeof *lock->holds,
                               offsetof(struct hold, token), by_ret);
    /* `earliest` is among tokens above the current one, `same` among its equals. */
    const struct hold *earliest = NULL, *same = NULL, *last = NULL;

    for (size_t i = lock->hold_count; i-- > 0;) {
        const struct hold *hold = &lock->holds[order[i]];
        if (!token_counts(hold))
            continue;
        k3->examined++;
        if (last && last->token == hold->token) {
            token_pair(check, lock, hold, last, "has the token of");
        } else {
            if (same && (!earliest || same->ret < earliest->ret))
                earliest = same;
            same = NULL;
        }
        if (earliest && earliest->ret < hold->inv)
            token_pair(check, lock, hold, earliest, "came after");
        if (!same || hold->ret < same->ret)
            same = hold;
        last = hold;
    }
    free(order);
    reentries_check(check, lock);
    k3->applicable = k3->examined > 0 || k3->found > 0;
}
