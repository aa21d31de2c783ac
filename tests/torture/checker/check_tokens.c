/* SPDX-License-Identifier: MIT */
/*
 * K3: tokens tell grants apart and grow with time.
 *
 * If A had returned before B was invoked, A's token is the smaller. From the largest
 * token down, the earliest return among the larger ones is all there is to remember: a
 * hold that was invoked after it has too small a token. Tokens of 0 mean that the lock
 * has none. A re-entry keeps the token of the hold it is in, and is left out.
 */
#include "book.h"

#include <stdlib.h>

static bool token_counts(const struct hold *hold)
{
    return hold->result == H_OK && hold->token &&
           !(hold->flags & (HOLD_PIECE | HOLD_REENTRY));
}

static void reentries_check(struct check *check, const struct lock *lock)
{
    for (size_t i = 0; i < lock->hold_count; i++)
        if (lock->holds[i].flags & HOLD_OTHER)
            finding(check, K3_TOKENS, group_of(lock->holds[i].kind),
                    "lock %u: re-entered with another token: %s", lock->number,
                    say_hold(check, &lock->holds[i]).text);
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
    k3->applicable = k3->examined > 0;
}
