/* SPDX-License-Identifier: MIT */
/*
 * Planted stories for K7 to K11, as in test_planted_safety.c. The tests check with a
 * bound of 100 and a grace of 10.
 */
#include "test_lockcheck.h"

static void simple(struct story *story, uint32_t process, uint64_t ret, uint64_t rel,
                   uint64_t token)
{
    story_thread(story, process, 0);
    uint32_t hold = story_take(story, H_MUTEX, ret - 2, ret, token, NEVER);
    story_give(story, hold, rel, rel + 2, H_OK);
    story_end(story, rel + 2);
}

/* ---- K7 -------------------------------------------------------------------------- */

static void queued(struct story *story, uint32_t process, uint64_t ret, uint64_t token,
                   uint32_t place)
{
    story_thread(story, process, 0);
    uint32_t hold = story_take(story, H_FAIR, 10, ret, token, NEVER);
    story->threads[story->count - 1].events[1].place = place;
    story_give(story, hold, ret + 5, ret + 6, H_OK);
    story_end(story, ret + 6);
}

static void overtaken_by_token(struct story *story)
{
    queued(story, 1, 20, 1, 2);
    queued(story, 2, 40, 2, 1);
}

/* Tokens drawn on arrival do not tell who was served first; the returns do. */
static void overtaken_by_time(struct story *story)
{
    queued(story, 1, 20, 2, 2);
    queued(story, 2, 40, 1, 1);
}

static void in_turn(struct story *story)
{
    queued(story, 1, 20, 1, 1);
    queued(story, 2, 40, 2, 2);
}

static void no_places(struct story *story)
{
    queued(story, 1, 20, 1, 0);
    queued(story, 2, 40, 2, 0);
}

/* ---- K8 -------------------------------------------------------------------------- */

static void nemesis(struct story *story, enum history_op op, enum history_phase phase,
                    uint64_t t, uint64_t number)
{
    if (!story->count || story->threads[story->count - 1].header.process != 90)
        story_thread(story, 90, 0);
    story_add(story, (struct history_event){ .t_ns = t,
                                             .op = (uint8_t)op,
                                             .phase = (uint8_t)phase,
                                             .value = number,
                                             .kind = 1 });
}

static void healed(struct story *story, uint64_t ret)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, ret, 1, NEVER);
    story_give(story, hold, ret + 1, ret + 2, H_OK);
    story_end(story, ret + 2);
    nemesis(story, H_HEAL, H_RETURN, 50, 0);
}

static void answered_late(struct story *story)
{
    healed(story, 151);
}

static void answered_in_time(struct story *story)
{
    healed(story, 150);
}

/* From `begin` to `end` the machine did not run a process, or, as 0, the server. */
static void stall(struct story *story, uint32_t process, uint64_t begin, uint64_t end)
{
    story_thread(story, process ? process : 91, 9);
    story_add(story, (struct history_event){ .t_ns = end,
                                             .op = H_STALL,
                                             .phase = H_RETURN,
                                             .value = begin,
                                             .kind = process == 0 });
}

static void answered_late_but_still(struct story *story)
{
    healed(story, 153);
    stall(story, 1, 40, 51);
    stall(story, 0, 152, 160);
    stall(story, 0, 70, 71);
}

static void answered_late_though_still(struct story *story)
{
    healed(story, 154);
    stall(story, 1, 40, 51);
    stall(story, 0, 152, 153);
    stall(story, 0, 70, 71);
    stall(story, 2, 60, 140);
}

/* Under way at the first heal: the second gives it no more time. */
static void answered_after_next(struct story *story)
{
    healed(story, 160);
    nemesis(story, H_HEAL, H_RETURN, 120, 0);
    nemesis(story, H_HEAL, H_RETURN, 500, 0);
}

static void stuck_acquire(struct story *story)
{
    story_thread(story, 1, 0);
    story_ask(story, H_MUTEX, 10);
}

static void stuck_killed(struct story *story)
{
    stuck_acquire(story);
    story_kill(story, 1, 20);
}

static void stuck_release(struct story *story)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, NEVER);
    story_give(story, hold, 20, NEVER, H_OK);
}

static void crashed(struct story *story)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, NEVER);
    story_give(story, hold, 20, 22, H_OK);
}

/* ---- K9 -------------------------------------------------------------------------- */

static void never_released(struct story *story)
{
    story_thread(story, 1, 0);
    story_take(story, H_MUTEX, 10, 12, 1, 20);
    story_end(story, 30);
}

static void never_released_killed(struct story *story)
{
    story_thread(story, 1, 0);
    story_take(story, H_MUTEX, 10, 12, 1, 20);
    story_kill(story, 1, 30);
}

static void released_twice(struct story *story)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, NEVER);
    story_give(story, hold, 20, 22, H_OK);
    story_add(story,
              (struct history_event){
                  .t_ns = 24, .op = H_RELEASE, .phase = H_INVOKE, .hold = hold });
    story_end(story, 30);
}

static void permits_of_another_limit(struct story *story)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_PERMITS, 10, 12, 1, NEVER);
    story_give(story, hold, 20, 22, H_OK);
    hold = story_take(story, H_PERMITS, 30, 32, 2, NEVER);
    story->threads[0].events[5].limit = 3;
    story_give(story, hold, 40, 42, H_OK);
    story_end(story, 50);
}

static void late(struct story *story, enum history_result result)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, 20);
    story_give(story, hold, 40, 42, result);
    story_end(story, 42);
    simple(story, 2, 24, 30, 2);
}

static void late_called_ok(struct story *story)
{
    late(story, H_OK);
}

static void late_called_late(struct story *story)
{
    late(story, H_LATE);
}

/* ---- K10 ------------------------------------------------------------------------- */

static void tries(struct story *story, uint32_t process, uint64_t inv, uint64_t ret,
                  enum history_result result)
{
    story_thread(story, process, 0);
    story_fail(story, H_MUTEX, inv, ret, result);
    story_end(story, ret);
}

static void busy_for_nobody(struct story *story)
{
    simple(story, 1, 12, 20, 1);
    tries(story, 2, 23, 25, H_BUSY);
}

static void busy_while_leaving(struct story *story)
{
    simple(story, 1, 12, 20, 1);
    tries(story, 2, 22, 25, H_BUSY);
}

static void busy_under_fault(struct story *story)
{
    busy_for_nobody(story);
    nemesis(story, H_FAULT, H_INVOKE, 11, 1);
    nemesis(story, H_FAULT, H_RETURN, 13, 1);
}

/* The first is felt until 16, the second until 24. */
static void busy_under_faults(struct story *story)
{
    busy_for_nobody(story);
    nemesis(story, H_FAULT, H_INVOKE, 5, 1);
    nemesis(story, H_FAULT, H_RETURN, 6, 1);
    nemesis(story, H_FAULT, H_INVOKE, 10, 2);
    nemesis(story, H_FAULT, H_RETURN, 14, 2);
}

static void busy_after_fault(struct story *story)
{
    busy_for_nobody(story);
    nemesis(story, H_FAULT, H_INVOKE, 11, 1);
    nemesis(story, H_FAULT, H_RETURN, 12, 1);
}

/* The second met the holder and was in the way of the third; the fourth met nobody. */
static void busy_chain(struct story *story)
{
    simple(story, 1, 12, 20, 1);
    tries(story, 2, 21, 30, H_TIMEOUT);
    tries(story, 3, 29, 40, H_TIMEOUT);
}

static void busy_chain_long(struct story *story)
{
    busy_chain(story);
    tries(story, 4, 39, 50, H_TIMEOUT);
}

/* A killed holder may be in the way for a lease (28 and a tenth) and the grace. */
static void dead_holder(struct story *story, uint64_t inv)
{
    story_thread(story, 1, 0);
    story_take(story, H_MUTEX, 10, 12, 1, 38);
    story_kill(story, 1, 40);
    tries(story, 2, inv, inv + 2, H_BUSY);
}

/* Nine ticks of 72, less than that, of somebody else, and for one told "busy". */
static void timeout_still(struct story *story)
{
    simple(story, 1, 12, 20, 1);
    tries(story, 2, 30, 102, H_TIMEOUT);
    stall(story, 2, 25, 34);
    stall(story, 0, 97, 120);
}

static void timeout_hardly_still(struct story *story)
{
    simple(story, 1, 12, 20, 1);
    tries(story, 2, 30, 102, H_TIMEOUT);
    stall(story, 2, 25, 34);
    stall(story, 0, 98, 120);
}

static void timeout_others_still(struct story *story)
{
    simple(story, 1, 12, 20, 1);
    tries(story, 2, 30, 102, H_TIMEOUT);
    stall(story, 3, 25, 110);
}

static void busy_still(struct story *story)
{
    busy_for_nobody(story);
    stall(story, 2, 20, 30);
}

/* It may have had the lock without hearing of it. */
static void busy_for_one_still(struct story *story)
{
    busy_for_nobody(story);
    tries(story, 3, 24, 40, H_TIMEOUT);
    stall(story, 3, 30, 40);
}

/* Cancelled: it may have had the lock as long as it lasted, and no longer. */
static void busy_for_one_cancelled(struct story *story)
{
    busy_for_nobody(story);
    tries(story, 3, 24, 40, H_FAILED);
}

static void busy_after_one_cancelled(struct story *story)
{
    busy_for_nobody(story);
    tries(story, 3, 20, 22, H_FAILED);
}

static void busy_for_the_dead(struct story *story)
{
    dead_holder(story, 81);
}

static void busy_until_lease(struct story *story)
{
    dead_holder(story, 80);
}

/* ---- K11 ------------------------------------------------------------------------- */

static void residue(struct story *story)
{
    simple(story, 1, 12, 20, 1);
    nemesis(story, H_RESIDUE, H_RETURN, 50, 3);
}

static void no_residue(struct story *story)
{
    simple(story, 1, 12, 20, 1);
    nemesis(story, H_RESIDUE, H_RETURN, 50, 0);
}

const struct planted planted_progress[] = {
    { "overtaken, by the tokens", overtaken_by_token, K7_ORDER, 1 },
    { "overtaken, by the returns", overtaken_by_time, K7_ORDER, 1 },
    { "served in turn", in_turn, K7_ORDER, 0 },
    { "places not known", no_places, K7_ORDER, 0 },
    { "answered too late after the heal", answered_late, K8_LIVENESS, 1 },
    { "answered in time after the second heal", answered_after_next, K8_LIVENESS, 1 },
    { "answered in time after the heal", answered_in_time, K8_LIVENESS, 0 },
    { "answered late, and not run before", answered_late_but_still, K8_LIVENESS, 0 },
    { "answered later than that", answered_late_though_still, K8_LIVENESS, 1 },
    { "stuck in acquire", stuck_acquire, K8_LIVENESS, 2 },
    { "killed in acquire", stuck_killed, K8_LIVENESS, 0 },
    { "stuck in release", stuck_release, K8_LIVENESS, 2 },
    { "a worker that crashed", crashed, K8_LIVENESS, 1 },
    { "never released", never_released, K9_CONSERVATION, 1 },
    { "killed before the release", never_released_killed, K9_CONSERVATION, 0 },
    { "released twice", released_twice, K9_CONSERVATION, 1 },
    { "two limits for one semaphore", permits_of_another_limit, K9_CONSERVATION, 1 },
    { "a late release called ok", late_called_ok, K9_CONSERVATION, 1 },
    { "a late release called late", late_called_late, K9_CONSERVATION, 0 },
    { "busy for nobody", busy_for_nobody, K10_BUSY, 1 },
    { "busy while the holder leaves", busy_while_leaving, K10_BUSY, 0 },
    { "busy for nobody, but a fault is felt", busy_under_fault, K10_BUSY, 0 },
    { "busy for nobody, but faults are felt", busy_under_faults, K10_BUSY, 0 },
    { "busy for nobody, the fault is over", busy_after_fault, K10_BUSY, 1 },
    { "busy for one who was told busy", busy_chain, K10_BUSY, 0 },
    { "busy for one who was told so for another", busy_chain_long, K10_BUSY, 1 },
    { "timed out, and was not run", timeout_still, K10_BUSY, 0 },
    { "timed out, and was hardly not run", timeout_hardly_still, K10_BUSY, 1 },
    { "timed out while others were not run", timeout_others_still, K10_BUSY, 1 },
    { "busy for nobody, and was not run", busy_still, K10_BUSY, 1 },
    { "busy for one who was not run", busy_for_one_still, K10_BUSY, 0 },
    { "busy for one who was cancelled", busy_for_one_cancelled, K10_BUSY, 0 },
    { "busy after one who was cancelled", busy_after_one_cancelled, K10_BUSY, 1 },
    { "busy for one long dead", busy_for_the_dead, K10_BUSY, 1 },
    { "busy for the lease of a dead one", busy_until_lease, K10_BUSY, 0 },
    { "things left behind", residue, K11_RESIDUE, 1 },
    { "nothing left behind", no_residue, K11_RESIDUE, 0 },
    { 0 },
};
