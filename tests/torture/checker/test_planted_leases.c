/* SPDX-License-Identifier: MIT */
/*
 * Planted stories about holds that are left to their lease, leases that are set again,
 * and downgrades.
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

/* Process 8 adopts token 1 and releases it at `rel`. */
static void adopter(struct story *story, uint64_t inv, uint64_t ret, uint64_t rel,
                    enum history_result release)
{
    story_thread(story, 8, 0);
    call(story, H_ADOPT, inv, ret, 1, 1, H_OK);
    story_give(story, 1, rel, rel + 2, release);
    story_end(story, rel + 2);
}

/* ---- Left to the lease ----------------------------------------------------------- */

static void leave(struct story *story, uint64_t until)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, until);
    call(story, H_LEAVE, 20, 22, hold, 1, H_OK);
    story_end(story, 22);
}

static void left_is_held(struct story *story)
{
    leave(story, 40);
    simple(story, 2, H_MUTEX, 39, 50, 2);
}

static void left_is_over(struct story *story)
{
    leave(story, 40);
    simple(story, 2, H_MUTEX, 40, 50, 2);
}

/* The lease is 30; a tenth, the bound of 100 and the grace of 10 come on top. */
static void left_and_busy(struct story *story, uint64_t at)
{
    leave(story, 40);
    story_thread(story, 2, 0);
    story_fail(story, H_MUTEX, at, at + 2, H_BUSY);
    story_end(story, at + 2);
}

static void left_busy_for_long(struct story *story)
{
    left_and_busy(story, 164);
}

static void left_busy(struct story *story)
{
    left_and_busy(story, 163);
}

static void left_and_adopted(struct story *story)
{
    leave(story, 40);
    adopter(story, 30, 34, 50, H_OK);
    simple(story, 2, H_MUTEX, 50, 60, 2);
}

/* Detached holds outlive their process. */
static void killed(struct story *story, uint64_t detached)
{
    story_thread(story, 1, 0);
    story_take(story, H_MUTEX, 10, 12, 1, 40);
    story->threads[0].events[1].value = detached;
    story_kill(story, 1, 14);
    simple(story, 2, H_MUTEX, 30, 50, 2);
}

static void killed_detached(struct story *story)
{
    killed(story, 1);
}

static void killed_attached(struct story *story)
{
    killed(story, 0);
}

static void left_and_released(struct story *story)
{
    leave(story, 40);
    story_give(story, 1, 30, 32, H_OK);
}

/* ---- Leases that are set again --------------------------------------------------- */

static void extended(struct story *story, uint64_t until, uint64_t other)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, 50);
    struct history_event event = {
        .t_ns = 20, .op = H_EXTEND, .phase = H_INVOKE, .hold = hold, .value = 10
    };
    story_add(story, event);
    event.t_ns = 22;
    event.phase = H_RETURN;
    event.result = H_OK;
    event.until_ns = event.value = until;
    story_add(story, event);
    story_give(story, hold, 70, 72, H_LATE);
    story_end(story, 72);
    simple(story, 2, H_MUTEX, other, other + 5, 2);
}

/* A shorter lease takes the place of a longer one. */
static void extended_shorter(struct story *story)
{
    extended(story, 30, 30);
}

static void extended_promised(struct story *story)
{
    extended(story, 30, 29);
}

static void extended_longer(struct story *story)
{
    extended(story, 60, 55);
}

static void extend_falls_short(struct story *story, uint64_t until)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, 10000 * MS);
    struct history_event event = {
        .t_ns = 20, .op = H_EXTEND, .phase = H_INVOKE, .hold = hold, .value = 1000 * MS
    };
    story_add(story, event);
    event.t_ns = 22;
    event.phase = H_RETURN;
    event.result = H_OK;
    event.until_ns = event.value = until;
    story_add(story, event);
    story_give(story, hold, 70, 72, H_OK);
    story_end(story, 72);
}

static void extend_ignored(struct story *story)
{
    extend_falls_short(story, 980 * MS);
}

static void extend_less_drift(struct story *story)
{
    extend_falls_short(story, 989 * MS);
}

/* ---- Downgrades ------------------------------------------------------------------ */

static void downgrade(struct story *story, uint8_t kind, uint64_t at)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_WRITE, 10, 12, 1, NEVER);
    call(story, H_DOWNGRADE, 20, 26, hold, 1, H_OK);
    story_give(story, hold, 40, 42, H_OK);
    story_end(story, 42);
    simple(story, 2, kind, at, at + 1, 2);
}

static void reader_beside_writer(struct story *story)
{
    downgrade(story, H_READ, 19);
}

static void reader_while_downgraded(struct story *story)
{
    downgrade(story, H_READ, 22);
}

/* It let go in between. */
static void writer_while_downgraded(struct story *story)
{
    downgrade(story, H_WRITE, 22);
}

const struct planted planted_leases[] = {
    { "another comes in where one was left", left_is_held, K1_EXCLUSION, 1 },
    { "another comes in when its lease is over", left_is_over, K1_EXCLUSION, 0 },
    { "busy long after the lease of what was left", left_busy_for_long, K10_BUSY, 1 },
    { "busy while it may be there", left_busy, K10_BUSY, 0 },
    { "left, and adopted", left_and_adopted, K12_MOVES, 0 },
    { "detached and killed: held", killed_detached, K1_EXCLUSION, 1 },
    { "killed: not held", killed_attached, K1_EXCLUSION, 0 },
    { "left, and released", left_and_released, K9_CONSERVATION, 2 },
    { "a shorter lease", extended_shorter, K1_EXCLUSION, 0 },
    { "another is in before it ends", extended_promised, K1_EXCLUSION, 1 },
    { "another is in before a longer lease ends", extended_longer, K1_EXCLUSION, 1 },
    { "an extend that changes nothing", extend_ignored, K12_MOVES, 1 },
    { "an extend, less the drift", extend_less_drift, K12_MOVES, 0 },
    { "a reader beside a writer", reader_beside_writer, K1_EXCLUSION, 1 },
    { "a reader while it is downgraded", reader_while_downgraded, K1_EXCLUSION, 0 },
    { "a writer while it is downgraded", writer_while_downgraded, K1_EXCLUSION, 1 },
    { 0 },
};
