/* SPDX-License-Identifier: MIT */
/*
 * K8: once nothing is broken any more, everybody who waits is answered.
 *
 * An acquire that was under way at a heal has to return within the bound, with whatever
 * answer; who breaks things lets that much time pass before the next fault. Time in
 * which the machine did not run it, or the server, does not count. And no call
 * may stay without an answer, but for those of processes that were killed; a worker
 * thread that is neither killed nor ended in order has crashed.
 */
#include "book.h"

#include <stdlib.h>

static int heal_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

void heals_settle(struct check *check)
{
    if (check->heal_count)
        qsort(check->heals, check->heal_count, sizeof *check->heals, heal_compare);
}

/* The first at or after `t`; NEVER if there is none. */
static uint64_t heal_after(const struct check *check, uint64_t t)
{
    size_t low = 0, high = check->heal_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (check->heals[middle] < t)
            low = middle + 1;
        else
            high = middle;
    }
    return low < check->heal_count ? check->heals[low] : NEVER;
}

void wait_check(struct check *check, const struct lock *lock, uint64_t inv,
                uint64_t ret, uint32_t thread, uint8_t kind)
{
    uint64_t heal = heal_after(check, inv);

    if (heal > ret)
        return;
    check->report.checks[K8_LIVENESS].examined++;
    if (ret - heal > check->options.bound_ns &&
        ret - heal > check->options.bound_ns + stalled(check, thread, heal, ret))
        finding(check, K8_LIVENESS, group_of(kind),
                "lock %u: %s %s asked %.6f, answered %.6f, healed %.6f", lock->number,
                say_thread(check, thread).text, kind_name(kind), say_time(check, inv),
                say_time(check, ret), say_time(check, heal));
}

static void stuck(struct check *check, const struct lock *lock, const struct hold *hold)
{
    bool release = hold->flags & HOLD_LEAVING;
    totals_of(check, hold->kind)->stuck++;
    finding(check, K8_LIVENESS, group_of(hold->kind),
            "lock %u: %s %s hold %u stuck in %s since %.6f", lock->number,
            say_thread(check, hold->thread).text, kind_name(hold->kind), hold->number,
            release ? "release" : "acquire",
            say_time(check, release ? hold->belief : hold->inv));
}

void check_waits(struct check *check, struct lock *lock)
{
    for (size_t i = 0; i < lock->hold_count; i++) {
        const struct hold *hold = &lock->holds[i];
        if (hold->flags & HOLD_PIECE)
            continue;
        if (hold->ret != NEVER)
            wait_check(check, lock, hold->inv, hold->ret, hold->thread, hold->kind);
        if ((hold->ret == NEVER || (hold->flags & HOLD_LEAVING)) &&
            !process_of(check, hold->thread)->killed)
            stuck(check, lock, hold);
    }
    for (size_t i = 0; i < lock->failure_count; i++) {
        const struct failure *failure = &lock->failures[i];
        wait_check(check, lock, failure->inv, failure->ret, failure->thread,
                   failure->kind);
    }
}

void check_threads(struct check *check)
{
    struct check_finding *k8 = &check->report.checks[K8_LIVENESS];
    for (size_t i = 0; i < check->thread_count; i++) {
        const struct thread *thread = &check->threads[i];
        const struct process *process = process_of(check, (uint32_t)i);
        if (!thread->worker)
            continue;
        k8->applicable = true;
        k8->examined++;
        if (!thread->ended && !process->killed)
            finding(check, K8_LIVENESS, G_NONE,
                    "%s neither ended nor was killed; its process was last heard of "
                    "at %.6f",
                    say_thread(check, (uint32_t)i).text,
                    say_time(check, process->last));
    }
}
