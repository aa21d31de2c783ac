/* SPDX-License-Identifier: MIT */
/*
 * Planted stories for K1 to K5: for each check what must turn it red, and beside it
 * what looks alike and must not.
 */
#include "test_lockcheck.h"

/* One thread that takes, gives back and ends. */
static uint32_t simple(struct story *story, uint32_t process, uint8_t kind,
                       uint64_t ret, uint64_t rel, uint64_t token)
{
    story_thread(story, process, 0);
    uint32_t hold = story_take(story, kind, ret - 2, ret, token, NEVER);
    story_give(story, hold, rel, rel + 2, H_OK);
    story_end(story, rel + 2);
    return hold;
}

/* ---- K1 -------------------------------------------------------------------------- */

static void mutex_overlap(struct story *story)
{
    simple(story, 1, H_MUTEX, 12, 20, 1);
    simple(story, 2, H_MUTEX, 19, 30, 2);
}

static void mutex_touch(struct story *story)
{
    simple(story, 1, H_MUTEX, 12, 20, 1);
    simple(story, 2, H_MUTEX, 20, 30, 2);
}

static void kinds_overlap(struct story *story)
{
    simple(story, 1, H_FAIR, 12, 20, 1);
    simple(story, 2, H_REENTRANT, 15, 30, 2);
}

static void writer_beside_reader(struct story *story)
{
    simple(story, 1, H_READ, 12, 20, 1);
    simple(story, 2, H_READ, 13, 22, 2);
    simple(story, 3, H_WRITE, 21, 30, 3);
}

static void readers_together(struct story *story)
{
    simple(story, 1, H_READ, 12, 20, 1);
    simple(story, 2, H_READ, 13, 22, 2);
    simple(story, 3, H_WRITE, 22, 30, 3);
}

static void permits_too_many(struct story *story)
{
    simple(story, 1, H_PERMITS, 12, 20, 1);
    simple(story, 2, H_PERMITS, 13, 20, 2);
    simple(story, 3, H_PERMITS, 19, 25, 3);
}

static void permits_just(struct story *story)
{
    simple(story, 1, H_PERMITS, 12, 20, 1);
    simple(story, 2, H_PERMITS, 13, 25, 2);
    simple(story, 3, H_PERMITS, 20, 25, 3);
}

/* The lease of the first ends at `until`; it goes on until it is told. */
static void leased(struct story *story, uint64_t until, uint64_t other)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, until);
    story_give(story, hold, 40, 42, H_LATE);
    story_end(story, 42);
    simple(story, 2, H_MUTEX, other, other + 5, 2);
}

static void lease_promised(struct story *story)
{
    leased(story, 21, 20);
}

static void lease_over(struct story *story)
{
    leased(story, 20, 20);
}

/* A renewal that only a later sight tells of covers the time before it. */
static void sight_covers(struct story *story)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, 15);
    story_add(story, (struct history_event){ .t_ns = 18,
                                             .op = H_SEEN,
                                             .phase = H_RETURN,
                                             .hold = hold,
                                             .until_ns = 28 });
    story_give(story, hold, 40, 42, H_LATE);
    story_end(story, 42);
    simple(story, 2, H_MUTEX, 16, 17, 2);
}

static void told_lost(struct story *story)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, 30);
    story_note(story, H_LOST, 20, hold, 0);
    story_give(story, hold, 40, 42, H_LATE);
    story_end(story, 42);
    simple(story, 2, H_MUTEX, 20, 25, 2);
    story_thread(story, 90, 0);
    story_add(story, (struct history_event){
                         .t_ns = 15, .op = H_FAULT, .phase = H_INVOKE, .kind = 1 });
}

/* Killed while it held: the hold is gone with the process, but not before. */
static void holder_killed(struct story *story, uint64_t other)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_MUTEX, 10, 12, 1, NEVER);
    story_note(story, H_PLAIN, 14, hold, 1);
    story_thread(story, 1, 1);
    story->lock = 1;
    story_take(story, H_MUTEX, 16, 18, 1, NEVER);
    story->lock = 0;
    story_kill(story, 1, 19);
    simple(story, 2, H_MUTEX, other, 30, 2);
}

static void killed_still_there(struct story *story)
{
    holder_killed(story, 17); /* its other thread was heard of at 18 */
}

static void killed_gone(struct story *story)
{
    holder_killed(story, 18);
}

static void downgraded(struct story *story, uint8_t kind, uint64_t other)
{
    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_WRITE, 10, 12, 1, NEVER);
    story_note(story, H_PLAIN, 15, hold, 1);
    story_note(story, H_DOWNGRADE, 20, hold, 0);
    story_give(story, hold, 30, 32, H_OK);
    story_end(story, 32);
    simple(story, 2, kind, other, other + 5, 2);
}

static void downgrade_early(struct story *story)
{
    downgraded(story, H_READ, 14);
}

static void downgrade_shared(struct story *story)
{
    downgraded(story, H_READ, 15);
}

static void downgrade_writer(struct story *story)
{
    downgraded(story, H_WRITE, 29);
}

static void reentered(struct story *story, uint32_t thread, uint64_t token)
{
    story_thread(story, 1, 0);
    uint32_t outer = story_take(story, H_REENTRANT, 10, 12, 5, NEVER);
    if (thread)
        story_thread(story, 1, thread);
    uint32_t inner = story_take(story, H_REENTRANT, 14, 16, token, NEVER);
    story_give(story, inner, 18, 20, H_OK);
    if (thread) {
        story_end(story, 20);
        story_thread(story, 1, 2);
        outer = story_take(story, H_REENTRANT, 32, 34, 7, NEVER);
        story->threads[0].events[2] = (struct history_event){
            .t_ns = 25, .op = H_RELEASE, .phase = H_INVOKE, .hold = 1
        };
        story->threads[0].events[3] = (struct history_event){
            .t_ns = 26, .op = H_RELEASE, .phase = H_RETURN, .hold = 1, .result = H_OK
        };
        story->threads[0].events[4] =
            (struct history_event){ .t_ns = 27, .op = H_END, .phase = H_RETURN };
        story->threads[0].count = 5;
    }
    story_give(story, outer, 40, 42, H_OK);
    story_end(story, 42);
}

static void reentry(struct story *story)
{
    reentered(story, 0, 5);
}

static void reentry_of_another(struct story *story)
{
    reentered(story, 1, 6);
}

static void unknown_is_no_hold(struct story *story)
{
    story_thread(story, 1, 0);
    story_fail(story, H_MUTEX, 10, 12, H_UNKNOWN);
    story_end(story, 60);
    simple(story, 2, H_MUTEX, 14, 30, 2);
}

/* ---- K3 -------------------------------------------------------------------------- */

static void token_falls(struct story *story)
{
    simple(story, 1, H_MUTEX, 12, 20, 5);
    simple(story, 2, H_MUTEX, 30, 40, 4);
}

static void token_twice(struct story *story)
{
    simple(story, 1, H_READ, 12, 20, 5);
    simple(story, 2, H_READ, 13, 40, 5);
}

/* Asked before the other returned: either may have come first. */
static void token_either(struct story *story)
{
    simple(story, 1, H_READ, 14, 20, 5);
    simple(story, 2, H_READ, 16, 40, 4);
}

static void token_none(struct story *story)
{
    simple(story, 1, H_MUTEX, 12, 20, 0);
    simple(story, 2, H_MUTEX, 30, 40, 0);
}

static void reentry_new_token(struct story *story)
{
    reentered(story, 0, 6);
}

/* ---- K4, K5 ---------------------------------------------------------------------- */

static void writes(struct story *story, uint32_t process, uint64_t from, uint64_t token,
                   enum history_op op, uint64_t value)
{
    story_thread(story, process, 0);
    uint32_t hold = story_take(story, H_MUTEX, from, from + 2, token, NEVER);
    story_add(story, (struct history_event){ .t_ns = from + 4,
                                             .op = (uint8_t)op,
                                             .phase = H_RETURN,
                                             .result = H_OK,
                                             .hold = hold,
                                             .token = token,
                                             .value = value });
    story_give(story, hold, from + 6, from + 8, H_OK);
    story_end(story, from + 8);
}

static void final(struct story *story, uint64_t token, uint64_t fenced, uint64_t plain)
{
    story_thread(story, 99, 0);
    story_add(story, (struct history_event){ .t_ns = 100,
                                             .op = H_FINAL,
                                             .phase = H_RETURN,
                                             .token = token,
                                             .value = fenced,
                                             .until_ns = plain });
}

static void fenced_two(struct story *story, uint64_t first, uint64_t second)
{
    writes(story, 1, 10, 1, H_REGISTER, first);
    writes(story, 2, 30, 2, H_REGISTER, second);
}

static void fenced_fine(struct story *story)
{
    fenced_two(story, 1, 2);
    final(story, 2, 2, 0);
}

static void fenced_lost(struct story *story)
{
    fenced_two(story, 1, 1);
    final(story, 2, 1, 0);
}

static void fenced_lost_at_end(struct story *story)
{
    fenced_two(story, 1, 2);
    final(story, 2, 1, 0);
}

static void fenced_too_many(struct story *story)
{
    fenced_two(story, 1, 2);
    final(story, 2, 3, 0);
}

/* The one too many may be that of a worker killed before it wrote it down. */
static void fenced_killed(struct story *story)
{
    fenced_two(story, 1, 2);
    story_thread(story, 3, 0);
    story_take(story, H_MUTEX, 50, 52, 3, NEVER);
    story_kill(story, 3, 60);
    final(story, 3, 3, 0);
}

static void fenced_falls(struct story *story)
{
    fenced_two(story, 2, 1); /* the older token's write came after the newer's */
    final(story, 2, 2, 0);
}

static void fenced_token_final(struct story *story)
{
    fenced_two(story, 1, 2);
    final(story, 1, 2, 0);
}

static void plain_fine(struct story *story)
{
    writes(story, 1, 10, 1, H_PLAIN, 1);
    writes(story, 2, 30, 2, H_PLAIN, 2);
    final(story, 0, 0, 2);
}

static void plain_lost(struct story *story)
{
    writes(story, 1, 10, 1, H_PLAIN, 1);
    writes(story, 2, 30, 2, H_PLAIN, 1);
    final(story, 0, 0, 1);
}

/* A stale write set the register back: 3 writes, of which the last wrote 1 again. */
static void plain_back(struct story *story)
{
    writes(story, 1, 10, 1, H_PLAIN, 1);
    writes(story, 2, 30, 2, H_PLAIN, 2);
    writes(story, 3, 50, 3, H_PLAIN, 3);
    final(story, 0, 0, 1);
}

const struct planted planted_safety[] = {
    { "two in a mutex", mutex_overlap, K1_EXCLUSION, 1 },
    { "one leaves as the other returns", mutex_touch, K1_EXCLUSION, 0 },
    { "fair and reentrant exclude each other", kinds_overlap, K1_EXCLUSION, 1 },
    { "a writer beside a reader", writer_beside_reader, K1_EXCLUSION, 1 },
    { "readers together, then a writer", readers_together, K1_EXCLUSION, 0 },
    { "three permits of two", permits_too_many, K1_EXCLUSION, 1 },
    { "two permits of two", permits_just, K1_EXCLUSION, 0 },
    { "inside a promised lease", lease_promised, K1_EXCLUSION, 1 },
    { "after a promised lease", lease_over, K1_EXCLUSION, 0 },
    { "a sight covers the time before it", sight_covers, K1_EXCLUSION, 1 },
    { "told lost, then another", told_lost, K1_EXCLUSION, 0 },
    { "inside, while the killed one still lived", killed_still_there, K1_EXCLUSION, 1 },
    { "inside, after the killed one was heard of", killed_gone, K1_EXCLUSION, 0 },
    { "a reader before the downgrade", downgrade_early, K1_EXCLUSION, 1 },
    { "a reader after the downgrade", downgrade_shared, K1_EXCLUSION, 0 },
    { "a writer after the downgrade", downgrade_writer, K1_EXCLUSION, 1 },
    { "a re-entry", reentry, K1_EXCLUSION, 0 },
    { "a re-entry of another thread", reentry_of_another, K1_EXCLUSION, 1 },
    { "an unknown outcome is no hold", unknown_is_no_hold, K1_EXCLUSION, 0 },
    { "a token smaller than an earlier one", token_falls, K3_TOKENS, 1 },
    { "a token twice", token_twice, K3_TOKENS, 1 },
    { "tokens of two at once", token_either, K3_TOKENS, 0 },
    { "no tokens at all", token_none, K3_TOKENS, 0 },
    { "a re-entry with a new token", reentry_new_token, K3_TOKENS, 1 },
    { "fenced writes", fenced_fine, K4_FENCED, 0 },
    { "a fenced update lost", fenced_lost, K4_FENCED, 1 },
    { "a fenced update lost in the end", fenced_lost_at_end, K4_FENCED, 1 },
    { "a fenced update of nobody", fenced_too_many, K4_FENCED, 1 },
    { "a fenced update of one who was killed", fenced_killed, K4_FENCED, 0 },
    { "an old token accepted", fenced_falls, K4_FENCED, 1 },
    { "the register forgot a token", fenced_token_final, K4_FENCED, 1 },
    { "plain writes", plain_fine, K5_PLAIN, 0 },
    { "a plain update lost", plain_lost, K5_PLAIN, 1 },
    { "plain updates set back", plain_back, K5_PLAIN, 2 },
    { 0 },
};
