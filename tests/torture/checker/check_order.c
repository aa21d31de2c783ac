/* SPDX-License-Identifier: MIT */
/*
 * K7: fair locks serve in the order of arrival.
 *
 * Where the store numbers its queue, a hold with a smaller place than one granted
 * before it was overtaken. Who was granted before is told by the tokens; and by the
 * returns, if the later one was still held when it returned (granted first, it would
 * have ended before the other began, and cannot have been held then).
 *
 * Without places there is only the time of asking, which is not that of arrival: being
 * overtaken by one who asked a whole second later is counted as a suspicion.
 */
#include "book.h"

#include <stdlib.h>

#define MARGIN_NS UINT64_C(1000000000)
#define WAITED_NS UINT64_C(1000000)

static bool order_counts(const struct hold *hold)
{
    return hold->kind == H_FAIR && hold->result == H_OK &&
           !(hold->flags & HOLD_ADOPTED);
}

/* In the order of grants, as far as `order` tells. */
static void places_check(struct check *check, struct lock *lock, const uint32_t *order,
                         bool by_token)
{
    const struct hold *top = NULL;
    for (size_t i = 0; i < lock->hold_count; i++) {
        struct hold *hold = &lock->holds[order[i]];
        if (!order_counts(hold) || !hold->place || (by_token && !hold->token))
            continue;
        bool sure = by_token || hold->end > hold->ret;
        if (top && hold->place < top->place && sure &&
            !(hold->flags & HOLD_OVERTAKEN)) {
            hold->flags |= HOLD_OVERTAKEN;
            finding(check, K7_ORDER, G_FAIR, "lock %u: %s | was overtaken by %s",
                    lock->number, say_hold(check, hold).text,
                    say_hold(check, top).text);
        }
        if (!top || hold->place > top->place)
            top = hold;
    }
}

static void times_check(struct check *check, const struct lock *lock,
                        const uint32_t *order)
{
    uint64_t latest = 0;
    for (size_t i = 0; i < lock->hold_count; i++) {
        const struct hold *hold = &lock->holds[order[i]];
        if (!order_counts(hold) || hold->place || hold->ret - hold->inv < WAITED_NS)
            continue;
        if (latest > hold->inv + MARGIN_NS)
            check->report.suspicions++;
        if (hold->inv > latest)
            latest = hold->inv;
    }
}

void check_order(struct check *check, struct lock *lock, const uint32_t *by_ret)
{
    struct check_finding *k7 = &check->report.checks[K7_ORDER];
    uint64_t fair = 0;

    for (size_t i = 0; i < lock->hold_count; i++)
        fair += order_counts(&lock->holds[i]);
    if (!fair)
        return;
    k7->examined += fair;
    k7->applicable = true;
    uint32_t *by_token = order_by(lock->holds, lock->hold_count, sizeof *lock->holds,
                                  offsetof(struct hold, token), by_ret);
    places_check(check, lock, by_ret, false);
    places_check(check, lock, by_token, true);
    times_check(check, lock, by_token);
    free(by_token);
}
