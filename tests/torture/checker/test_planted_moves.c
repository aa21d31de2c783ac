/* SPDX-License-Identifier: MIT */
/*
 * Planted stories about holds that are extended, downgraded, left, adopted or evicted:
 * K12, and what the other checks make of them.
 */
#include "test_lockcheck.h"

#define MS UINT64_C(1000000)

/* One thread that takes, gives back and ends. */
static void simple(struct story *story, uint32_t process, uint8_t kind, uint64_t ret,
                   uint64_t rel, uint64_t token)
{
    story_thread(story, process, 0);
    uint32_t hold = story_take(story, kind, ret - 2, ret, token, NEVER);
    story_give(story, hold, rel, rel + 2, H_OK);
    story_end(story, rel + 2);
}

/* A hold of process 1 with token 1, from 12, that is released at `rel`. */
static void holder(struct story *story, uint64_t rel, enum history_result result)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, NEVER);
    story_give(story, hold, rel, rel + 2, result);
    story_end(story, rel + 2);
}

static void call(struct story *story, enum history_op op, uint64_t inv, uint64_t ret,
                 uint32_t hold, uint64_t token, enum history_result result)
{
    struct history_event event = { .t_ns = inv,
                                   .op = (uint8_t)op,
                                   .phase = H_INVOKE,
                                   .lock = story->lock,
                                   .hold = hold,
                                   .kind = H_MUTEX,
                                   .token = token,
                                   .permits = 1,
                                   .limit = 1 };
    story_add(story, event);
    event.t_ns = ret;
    event.phase = H_RETURN;
    event.result = (uint8_t)result;
    event.until_ns = NEVER;
    if (ret != NEVER)
        story_add(story, event);
}

/* Process 9 evicts token 1. */
static void evictor(struct story *story, uint64_t inv, uint64_t ret,
                    enum history_result result)
{
    story_thread(story, 9, 0);
    call(story, H_EVICT, inv, ret, 1, 1, result);
    story_end(story, ret);
}

/* Process 8 adopts token 1 and releases it at `rel`. */
static void adopter(struct story *story, uint64_t inv, uint64_t ret, uint64_t rel,
                    enum history_result release)
{
    story_thread(story, 8, 0);
    call(story, H_ADOPT, inv, ret, 1, 1, H_OK);
    story_give(story, 1, rel, rel + 2, release);
    story_end(story, rel + 2);
}

/* ---- Eviction -------------------------------------------------------------------- */

static void evicted_then_another(struct story *story)
{
    holder(story, 40, H_LATE);
    evictor(story, 20, 24, H_OK);
    simple(story, 2, H_MUTEX, 23, 30, 2);
}

static void another_before_eviction(struct story *story)
{
    holder(story, 40, H_LATE);
    evictor(story, 20, 24, H_OK);
    simple(story, 2, H_MUTEX, 19, 30, 2);
}

/* "No such hold" harms no holder. */
static void stale_eviction_harms(struct story *story)
{
    holder(story, 40, H_OK);
    evictor(story, 20, 24, H_ABSENT);
    simple(story, 2, H_MUTEX, 26, 30, 2);
}

static void stale_eviction(struct story *story)
{
    holder(story, 18, H_OK);
    evictor(story, 21, 24, H_ABSENT);
    simple(story, 2, H_MUTEX, 26, 30, 2);
}

static void told_nothing(struct story *story)
{
    holder(story, 40, H_OK);
    evictor(story, 20, 24, H_OK);
}

/* Its answer may have been lost, and the release repeated. */
static void told_nothing_in_a_fault(struct story *story, uint64_t ret)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, NEVER);
    story_give(story, hold, 40, ret, H_OK);
    story_end(story, ret);
    evictor(story, 20, 24, H_OK);
    story_thread(story, 90, 0);
    story_add(story, (struct history_event){
                         .t_ns = 35, .op = H_FAULT, .phase = H_INVOKE, .kind = 1 });
}

static void told_nothing_at_once(struct story *story)
{
    told_nothing_in_a_fault(story, 42);
}

static void told_nothing_late(struct story *story)
{
    told_nothing_in_a_fault(story, 42 + 10 * MS);
}

static void told_meanwhile(struct story *story)
{
    holder(story, 23, H_OK);
    evictor(story, 20, 24, H_OK);
}

/* An eviction, and another is in before the release is called that says "ok". */
static void taken_and_told_nothing(struct story *story, uint64_t evicted,
                                   enum history_result result, uint64_t ret)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, NEVER);
    story_give(story, hold, 40, ret, H_OK);
    story_end(story, ret);
    evictor(story, 20, evicted, result);
    simple(story, 2, H_MUTEX, 30, 34, 2);
    story_thread(story, 90, 0);
    story_add(story, (struct history_event){
                         .t_ns = 35, .op = H_FAULT, .phase = H_INVOKE, .kind = 1 });
}

static void taken_by_a_slow_eviction(struct story *story)
{
    taken_and_told_nothing(story, 50, H_OK, 42 + 10 * MS);
}

static void taken_by_an_unheard_eviction(struct story *story)
{
    taken_and_told_nothing(story, 36, H_UNKNOWN, 42 + 10 * MS);
}

static void taken_and_not_repeated(struct story *story)
{
    taken_and_told_nothing(story, 50, H_OK, 42);
}

static void evicted_after_release(struct story *story)
{
    holder(story, 18, H_OK);
    evictor(story, 21, 24, H_OK);
}

/* The store may not know yet that it was handed on inside the client. */
static void evicted_heir(struct story *story)
{
    evicted_after_release(story);
    story_thread(story, 90, 0);
    story_add(story, (struct history_event){
                         .t_ns = 15, .op = H_FAULT, .phase = H_INVOKE, .kind = 1 });
}

/* The same, and who has it now is not certain any more. */
static void heir_loses(struct story *story, uint64_t fault)
{
    holder(story, 18, H_OK);
    story_thread(story, 1, 1);
    uint32_t hold = story_take(story, H_MUTEX, 15, 19, 2, NEVER);
    story_give(story, hold, 40, 42, H_LATE);
    story_end(story, 42);
    evictor(story, 24, 28, H_OK);
    simple(story, 2, H_MUTEX, 27, 30, 3);
    story_thread(story, 90, 0);
    story_add(story, (struct history_event){
                         .t_ns = fault, .op = H_FAULT, .phase = H_INVOKE, .kind = 1 });
}

static void heir_loses_in_a_fault(struct story *story)
{
    heir_loses(story, 15);
}

static void evicted_twice(struct story *story)
{
    holder(story, 40, H_LATE);
    story_thread(story, 9, 0);
    call(story, H_EVICT, 20, 22, 1, 1, H_OK);
    call(story, H_EVICT, 24, 26, 2, 1, H_OK);
    story_end(story, 26);
}

/* A re-entry that comes back with another token. The outer hold is over by then. */
static void reentered(struct story *story, uint64_t ret)
{
    story_thread(story, 1, 0);
    uint32_t outer = story_take(story, H_REENTRANT, 10, 12, 1, NEVER);
    uint32_t inner = story_take(story, H_REENTRANT, 15, ret, 2, NEVER);
    story_give(story, inner, 30, 32, H_OK);
    story_give(story, outer, 40, 42, H_LATE);
    story_end(story, 42);
    evictor(story, 20, 24, H_OK);
}

static void reentered_before(struct story *story)
{
    reentered(story, 19);
}

static void reentered_as_evicted(struct story *story)
{
    reentered(story, 20);
}

static void evicted_nobody(struct story *story)
{
    holder(story, 40, H_OK);
    story_thread(story, 9, 0);
    call(story, H_EVICT, 20, 22, 1, 7, H_OK);
    story_end(story, 22);
}

/* A client whose acquire is not known to have failed may have had it. */
static void evicted_somebody(struct story *story)
{
    story_thread(story, 1, 0);
    story_fail(story, H_MUTEX, 10, 15, H_UNKNOWN);
    story_end(story, 15);
    story_thread(story, 9, 0);
    call(story, H_EVICT, 20, 22, 1, 7, H_OK);
    story_end(story, 22);
}

static void busy_after_eviction(struct story *story, uint64_t inv)
{
    holder(story, 80, H_LATE);
    evictor(story, 20, 24, H_OK);
    story_thread(story, 2, 0);
    story_fail(story, H_MUTEX, inv, inv + 2, H_BUSY);
    story_end(story, inv + 2);
}

static void evicted_and_busy(struct story *story)
{
    busy_after_eviction(story, 30);
}

static void busy_meanwhile(struct story *story)
{
    busy_after_eviction(story, 23);
}

/* Told so by its own client, which has not heard of the eviction. */
static void busy_at_home(struct story *story)
{
    holder(story, 80, H_LATE);
    evictor(story, 20, 24, H_OK);
    story_thread(story, 1, 1);
    story_fail(story, H_MUTEX, 30, 32, H_BUSY);
    story_end(story, 32);
}

static void eviction_stuck(struct story *story)
{
    holder(story, 40, H_OK);
    story_thread(story, 9, 0);
    call(story, H_EVICT, 20, NEVER, 1, 1, H_OK);
    story_end(story, 50);
}

/* ---- Losses ---------------------------------------------------------------------- */

static void lost(struct story *story, uint64_t until)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, until);
    story_note(story, H_LOST, 20, hold, 0);
    story_give(story, hold, 40, 42, H_LATE);
    story_end(story, 42);
}

static void lost_too_soon(struct story *story)
{
    lost(story, 21);
}

static void lost_in_time(struct story *story)
{
    lost(story, 20);
}

static void late_too_soon(struct story *story)
{
    holder(story, 20, H_LATE);
}

static void lost_to_eviction(struct story *story)
{
    lost(story, 30);
    evictor(story, 15, 16, H_OK);
}

/* ---- Adoption -------------------------------------------------------------------- */

static void moves(struct story *story)
{
    holder(story, 40, H_LATE);
    adopter(story, 20, 24, 50, H_OK);
    simple(story, 2, H_MUTEX, 52, 60, 2);
}

static void adopter_is_certain(struct story *story)
{
    holder(story, 40, H_LATE);
    adopter(story, 20, 24, 50, H_OK);
    simple(story, 2, H_MUTEX, 45, 60, 2);
}

/* Let go and taken again: for a moment it was free. */
static void free_in_between(struct story *story)
{
    holder(story, 40, H_LATE);
    adopter(story, 20, 24, 50, H_OK);
    simple(story, 2, H_MUTEX, 22, 23, 2);
}

static void old_handle_lives(struct story *story)
{
    holder(story, 30, H_OK);
    adopter(story, 20, 24, 50, H_UNKNOWN);
}

static void release_meanwhile(struct story *story)
{
    holder(story, 23, H_OK);
    adopter(story, 20, 24, 50, H_OK);
}

static void adopted_after_release(struct story *story)
{
    holder(story, 14, H_OK);
    adopter(story, 20, 24, 50, H_UNKNOWN);
}

static void adopted_after_eviction(struct story *story)
{
    holder(story, 60, H_LATE);
    evictor(story, 15, 17, H_OK);
    adopter(story, 20, 24, 50, H_UNKNOWN);
}

static void adopted_other_token(struct story *story)
{
    holder(story, 40, H_LATE);
    adopter(story, 20, 24, 50, H_OK);
    struct story_thread *thread = &story->threads[story->count - 1];
    thread->events[1].token = 2;
}

/* An adoption that may have happened: the old handle is not certain any more, and the
 * lock is busy for a lease. */
static void adopted_perhaps(struct story *story)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, 30);
    story_give(story, hold, 40, 42, H_LATE);
    story_end(story, 42);
    story_thread(story, 8, 0);
    call(story, H_ADOPT, 20, 24, 1, 1, H_UNKNOWN);
    story_end(story, 24);
    story_thread(story, 2, 0);
    story_fail(story, H_MUTEX, 50, 52, H_BUSY);
    story_end(story, 52);
}

const struct planted planted_moves[] = {
    { "another comes in after an eviction", evicted_then_another, K1_EXCLUSION, 0 },
    { "another came in before it", another_before_eviction, K1_EXCLUSION, 1 },
    { "an eviction that found nobody, and another is in", stale_eviction_harms,
      K1_EXCLUSION, 1 },
    { "an eviction that found nobody", stale_eviction, K12_MOVES, 0 },
    { "evicted, and the release says ok", told_nothing, K12_MOVES, 2 },
    { "the same in a fault", told_nothing_at_once, K12_MOVES, 2 },
    { "the same, and it may have been repeated", told_nothing_late, K12_MOVES, 0 },
    { "evicted while it is released", told_meanwhile, K12_MOVES, 0 },
    { "another is in, the eviction still under way", taken_by_a_slow_eviction,
      K9_CONSERVATION, 0 },
    { "another is in, the eviction without an answer", taken_by_an_unheard_eviction,
      K9_CONSERVATION, 0 },
    { "the same, and the release was not repeated", taken_and_not_repeated,
      K9_CONSERVATION, 1 },
    { "evicted after the release", evicted_after_release, K12_MOVES, 1 },
    { "evicted after the release, in a fault", evicted_heir, K12_MOVES, 0 },
    { "and who has it now loses it", heir_loses_in_a_fault, K1_EXCLUSION, 0 },
    { "evicted twice", evicted_twice, K12_MOVES, 1 },
    { "re-entered with another token, then evicted", reentered_before, K3_TOKENS, 1 },
    { "evicted, and re-entered with another", reentered_as_evicted, K3_TOKENS, 0 },
    { "evicted with a token that nobody had", evicted_nobody, K12_MOVES, 1 },
    { "evicted somebody unknown", evicted_somebody, K12_MOVES, 0 },
    { "busy long after an eviction", evicted_and_busy, K10_BUSY, 1 },
    { "busy during an eviction", busy_meanwhile, K10_BUSY, 0 },
    { "busy in the client of the evicted", busy_at_home, K10_BUSY, 0 },
    { "an eviction never returns", eviction_stuck, K8_LIVENESS, 1 },
    { "lost before the promise is over", lost_too_soon, K12_MOVES, 1 },
    { "lost when it is over", lost_in_time, K12_MOVES, 0 },
    { "late before the promise is over", late_too_soon, K12_MOVES, 1 },
    { "lost to an eviction", lost_to_eviction, K12_MOVES, 0 },
    { "a hold moves", moves, K12_MOVES, 0 },
    { "another is in with the adopter", adopter_is_certain, K1_EXCLUSION, 1 },
    { "free for a moment while it moves", free_in_between, K1_EXCLUSION, 1 },
    { "adopted, and the old handle is released", old_handle_lives, K12_MOVES, 1 },
    { "adopted while it is released", release_meanwhile, K12_MOVES, 0 },
    { "adopted after the release", adopted_after_release, K12_MOVES, 1 },
    { "adopted after an eviction", adopted_after_eviction, K12_MOVES, 1 },
    { "adopted under another token", adopted_other_token, K3_TOKENS, 1 },
    { "adopted perhaps, and busy", adopted_perhaps, K10_BUSY, 0 },
    { 0 },
};
