/* SPDX-License-Identifier: MIT */
/*
 * K10: who was told "busy" or waited in vain had somebody to thank for it.
 *
 * A possible holder is there from the invocation of its acquire to the return of its
 * release, adoption or eviction. One whose outcome is not known, or that was left
 * behind, may be there for a lease longer; a killed one
 * for a lease after its death; if there is no lease or no time of death, for ever. Any
 * holder will do, since those who wait may stand in the way as well.
 *
 * In a queue even those who get nothing are in the way of others for a moment, after
 * the holder they met has gone. So an attempt in vain also justifies those it overlaps,
 * if it met a holder itself; no further, or a lock that is stuck would excuse itself.
 * One that was cancelled, or failed for another reason, may have had the lock and given
 * it back before it knew: as long as it lasts "busy" is justified. A timeout is not:
 * who waits is served when that one has gone.
 *
 * To be served a waiter, the server and those in between have to be run in turn, half
 * a dozen times. Where they stood still for an eighth of its time, a timeout says
 * nothing about the lock. And such a one may have had it for a moment without hearing
 * of it, so that it justifies others. "Busy" is the store's word: no such excuse.
 *
 * Where a fault was felt, nothing is held against the lock. A necessary condition: it
 * finds locks that stay taken after their holder, not each answer that is wrong.
 */
#include "book.h"

#include <stdlib.h>

static uint64_t plus(uint64_t t, uint64_t more_ns)
{
    return t > NEVER - more_ns ? NEVER : t + more_ns;
}

/* A tenth more than the longest lease: clocks drift, and the store's lease is a little
 * longer than what is promised of it. */
uint64_t lease_over(const struct check *check, const struct lock *lock, uint64_t t)
{
    if (!lock->lease)
        return NEVER;
    return plus(plus(t, lock->lease + lock->lease / 10), check->options.grace_ns);
}

static uint64_t lease_after(const struct check *check, const struct lock *lock,
                            uint64_t t)
{
    return lock->endless ? NEVER : lease_over(check, lock, t);
}

uint64_t possible_end(struct check *check, const struct lock *lock,
                      const struct hold *hold)
{
    const struct process *process = process_of(check, hold->thread);

    if (hold->over != NEVER)
        return hold->over;
    if ((hold->flags & HOLD_LEFT) && process->killed && process->gone != NEVER)
        return lease_over(check, lock, process->gone);
    if (hold->flags & HOLD_LEFT)
        return lease_over(check, lock, plus(hold->belief, check->options.bound_ns));
    if (hold->result == H_UNKNOWN && hold->ret != NEVER)
        return lease_after(check, lock, hold->ret);
    if (hold->release)
        return lease_after(check, lock, plus(hold->belief, check->options.bound_ns));
    if (!process->killed || process->gone == NEVER)
        return NEVER;
    if (lock->endless)
        return plus(process->gone, check->options.grace_ns);
    return lease_after(check, lock, process->gone);
}

static bool unserved(const struct check *check, const struct failure *failure)
{
    if (failure->result != H_TIMEOUT || !check->stall_count)
        return false;
    uint64_t still = stalled(check, failure->thread, failure->inv, failure->ret);
    return still && still * 8 >= failure->ret - failure->inv;
}

/* Marks those that meet a possible holder: both in the order in which they matter. */
static void holders_justify(struct check *check, struct lock *lock,
                            const uint32_t *by_ret, const uint32_t *failures)
{
    uint32_t *holders = order_by(lock->holds, lock->hold_count, sizeof *lock->holds,
                                 offsetof(struct hold, inv), by_ret);
    uint64_t latest = 0;
    bool any = false;
    size_t next = 0;

    for (size_t i = 0; i < lock->failure_count; i++) {
        struct failure *failure = &lock->failures[failures[i]];
        for (; next < lock->hold_count; next++) {
            const struct hold *hold = &lock->holds[holders[next]];
            if (hold->inv > failure->ret)
                break;
            uint64_t end = possible_end(check, lock, hold);
            latest = end > latest ? end : latest;
            any = true;
        }
        failure->justified = any && latest >= failure->inv;
        if (!failure->justified && unserved(check, failure)) {
            failure->justified = true;
            check->report.unserved++;
        }
    }
    free(holders);
}

/* A hold of the same process that was evicted or adopted, and its handle has not heard
 * of it: its client says "busy" to its other threads. */
static bool own_believes(const struct check *check, const struct lock *lock,
                         const struct failure *failure)
{
    uint32_t process = check->threads[failure->thread].process;
    for (size_t i = 0; lock->move_count && i < lock->hold_count; i++) {
        const struct hold *hold = &lock->holds[i];
        if (hold->result == H_OK && hold->inv <= failure->ret &&
            hold->belief >= failure->inv &&
            check->threads[hold->thread].process == process)
            return true;
    }
    return false;
}

static void spurious(struct check *check, const struct lock *lock,
                     const struct failure *failure)
{
    if (own_believes(check, lock, failure))
        return;
    if (windows_meet(check, failure->inv, failure->ret)) {
        check->report.excused++;
        return;
    }
    finding(check, K10_BUSY, group_of(failure->kind),
            "lock %u: %s %s attempt %u [%.6f %.6f] %s, though nobody can have held it",
            lock->number, say_thread(check, failure->thread).text,
            kind_name(failure->kind), failure->number, say_time(check, failure->inv),
            say_time(check, failure->ret),
            failure->result == H_BUSY ? "found it busy" : "timed out");
}

void check_busy(struct check *check, struct lock *lock, const uint32_t *holds_by_ret)
{
    struct check_finding *k10 = &check->report.checks[K10_BUSY];
    uint32_t *by_ret =
        order_by(lock->failures, lock->failure_count, sizeof *lock->failures,
                 offsetof(struct failure, ret), NULL);
    uint32_t *by_inv =
        order_by(lock->failures, lock->failure_count, sizeof *lock->failures,
                 offsetof(struct failure, inv), NULL);
    uint64_t latest = 0, cancelled = 0;
    size_t next = 0;

    if (lock->failure_count)
        holders_justify(check, lock, holds_by_ret, by_ret);
    for (size_t i = 0; i < lock->failure_count; i++) {
        const struct failure *failure = &lock->failures[by_ret[i]];
        for (; next < lock->failure_count; next++) {
            const struct failure *other = &lock->failures[by_inv[next]];
            if (other->inv >= failure->ret)
                break;
            if (other->justified && other->ret > latest)
                latest = other->ret;
            if (other->result == H_FAILED && other->ret > cancelled)
                cancelled = other->ret;
        }
        if (failure->result == H_FAILED)
            continue;
        k10->examined++;
        bool excused = failure->result == H_BUSY && cancelled > failure->inv;
        if (!failure->justified && !excused && latest <= failure->inv)
            spurious(check, lock, failure);
    }
    k10->applicable = k10->examined > 0;
    free(by_ret);
    free(by_inv);
}
