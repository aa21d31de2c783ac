/* SPDX-License-Identifier: MIT */
/*
 * What a worker does to holds beside taking and releasing them, each step written down.
 *
 * Its own it extends and downgrades. Some it takes detached; when it has done its work
 * under such a one it puts the id up on a board that all workers share, and then either
 * leaves the hold to its lease or goes on for a while and releases it, as if it had not
 * given it away. Meanwhile another thread, of this process or another, may have adopted
 * it by the id, works under it and releases it.
 *
 * Two handles of one hold have one token, which the fenced register cannot tell apart.
 * So who works on the registers has the notice alone; where many share the lock anyway,
 * several may try to adopt one hold at once.
 *
 * Evicted is who was last seen with a lock, by its token. Often it has gone by then,
 * and no other holder may be harmed by that.
 */
#include <stdio.h>
#include <string.h>

#include "control.h"
#include "worker.h"

#define NS_PER_MS UINT64_C(1000000)

static bool one_in(struct hand *hand, uint64_t count)
{
    return hand_next(hand) % count == 0;
}

static bool moves(const struct hand *hand, uint32_t flag)
{
    return (hand->orders->moves & flag) != 0;
}

/* ---- By its holder --------------------------------------------------------------- */

void moves_extend(struct hand *hand, struct attempt *attempt)
{
    const struct orders *orders = hand->orders;
    int64_t ttl = orders->settings.ttl_ms;
    if (!moves(hand, MOVE_EXTEND) || !orders->driver->extend || !ttl ||
        attempt->pretended || !one_in(hand, 8))
        return;
    static const int quarters[] = { 2, 4, 8 };
    int64_t lease = ttl * quarters[hand_next(hand) % 3] / 4;
    struct attempt with = *attempt;
    with.event.value = (uint64_t)lease * NS_PER_MS;
    note(hand, &with, H_EXTEND, H_INVOKE, 0);
    enum history_result result = orders->driver->extend(hand->lock, lease, &with.grant);
    with.event.value = with.grant.latest_ns;
    with.event.until_ns = with.grant.until_ns;
    note(hand, &with, H_EXTEND, H_RETURN, result);
    sight(hand, attempt);
}

void moves_downgrade(struct hand *hand, struct attempt *attempt)
{
    const struct driver *driver = hand->orders->driver;
    if (!moves(hand, MOVE_DOWNGRADE) || !driver->downgrade || attempt->pretended ||
        attempt->want.kind != H_WRITE || !one_in(hand, 4))
        return;
    note(hand, attempt, H_DOWNGRADE, H_INVOKE, 0);
    enum history_result result = driver->downgrade(hand->lock);
    note(hand, attempt, H_DOWNGRADE, H_RETURN, result);
    attempt->lowered = true; /* or may be */
    sight(hand, attempt);
    spend((uint32_t)(hand_next(hand) % 2000));
}

/* ---- Holds that are given away --------------------------------------------------- */

bool moves_detach(struct hand *hand, const struct driver_want *want)
{
    const struct orders *orders = hand->orders;
    return hand->board && orders->driver->adopt && orders->settings.ttl_ms &&
           want->kind != 0 && one_in(hand, 16);
}

static bool notice_write(struct hand *hand, const struct attempt *attempt)
{
    struct notice notice = { .token = attempt->grant.token };
    uint8_t kind = attempt->lowered ? H_READ : attempt->want.kind;
    notice.want = kind | (uint64_t)attempt->want.permits << 16 |
                  (uint64_t)attempt->want.limit << 32;
    if (hand->orders->driver->identify(hand->lock, notice.id, sizeof notice.id) != H_OK)
        return false;
    notice_post(&hand->board[attempt->event.lock], &notice);
    return true;
}

bool moves_offer(struct hand *hand, struct attempt *attempt)
{
    if (!attempt->want.detached || attempt->pretended || !notice_write(hand, attempt))
        return false;
    if (moves(hand, MOVE_LEAVE) && one_in(hand, 3)) {
        note(hand, attempt, H_LEAVE, H_INVOKE, 0);
        enum history_result result = hand->orders->driver->leave(hand->lock);
        note(hand, attempt, H_LEAVE, H_RETURN, result);
        return result == H_OK;
    }
    spend((uint32_t)(hand_next(hand) % 20000));
    sight(hand, attempt);
    return false;
}

static bool notice_find(struct hand *hand, struct attempt *attempt,
                        struct notice *ret_notice)
{
    uint32_t count = hand->orders->lock_count;
    uint32_t first = (uint32_t)(hand_next(hand) % count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t lock = (first + i) % count;
        bool copy = one_in(hand, 2);
        struct driver_want *want = &attempt->want;
        if (!notice_take(&hand->board[lock], ret_notice, true))
            continue;
        *want = (struct driver_want){ .name = hand->orders->locks[lock].name,
                                      .kind = (uint8_t)ret_notice->want,
                                      .permits = (uint16_t)(ret_notice->want >> 16),
                                      .limit = (uint16_t)(ret_notice->want >> 32) };
        attempt->event.lock = lock;
        attempt->resource = &hand->resources[lock];
        copy = copy && !is_alone(attempt);
        if (copy || notice_take(&hand->board[lock], ret_notice, false))
            return true;
    }
    return false;
}

/* Adopts and, if that succeeds, works and releases or puts it up again. */
static bool adopt_once(struct hand *hand)
{
    struct attempt attempt = { .grant = { .token = 0 } };
    struct notice notice;
    if (!notice_find(hand, &attempt, &notice))
        return false;
    attempt.want.detached = hand->orders->settings.ttl_ms && one_in(hand, 4);
    attempt.event.hold = ++hand->attempts;
    attempt.event.kind = attempt.want.kind;
    attempt.event.permits = attempt.want.permits;
    attempt.event.limit = attempt.want.limit;
    attempt.grant.token = notice.token;
    __atomic_store_n(hand->waiting, history_now(), __ATOMIC_RELAXED);
    note(hand, &attempt, H_ADOPT, H_INVOKE, 0);
    enum history_result result = hand->orders->driver->adopt(hand->lock, &attempt.want,
                                                             notice.id, &attempt.grant);
    note(hand, &attempt, H_ADOPT, H_RETURN, result);
    __atomic_store_n(hand->waiting, 0, __ATOMIC_RELAXED);
    if (result != H_OK)
        return true;
    sight(hand, &attempt);
    moves_extend(hand, &attempt);
    attempt_work(hand, &attempt);
    moves_downgrade(hand, &attempt);
    sight(hand, &attempt);
    if (!moves_offer(hand, &attempt))
        attempt_end(hand, &attempt);
    return true;
}

/* ---- Eviction -------------------------------------------------------------------- */

static void evict_once(struct hand *hand)
{
    const struct orders *orders = hand->orders;
    uint32_t lock = (uint32_t)(hand_next(hand) % orders->lock_count);
    uint64_t token = __atomic_load_n(&hand->resources[lock].recent, __ATOMIC_RELAXED);
    struct attempt attempt = { .grant = { .token = 0 } };
    if (token > 1 && one_in(hand, 4))
        token--; /* that of the holder before, perhaps */
    if (!token)
        return;
    attempt.event.lock = lock;
    attempt.event.kind = orders->locks[lock].kind;
    attempt.event.hold = ++hand->attempts;
    attempt.grant.token = token;
    __atomic_store_n(hand->waiting, history_now(), __ATOMIC_RELAXED);
    note(hand, &attempt, H_EVICT, H_INVOKE, 0);
    enum history_result result =
        orders->driver->evict(hand->lock, orders->locks[lock].name, token);
    note(hand, &attempt, H_EVICT, H_RETURN, result);
    __atomic_store_n(hand->waiting, 0, __ATOMIC_RELAXED);
}

bool moves_once(struct hand *hand)
{
    const struct driver *driver = hand->orders->driver;
    if (moves(hand, MOVE_EVICT) && driver->evict && one_in(hand, 32))
        evict_once(hand);
    return hand->board && driver->adopt && one_in(hand, 6) && adopt_once(hand);
}
