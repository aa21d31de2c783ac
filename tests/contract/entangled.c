/* SPDX-License-Identifier: MIT */
/*
 * Calls of one client that get in each other's way, and answers that come when they are
 * not expected any more. Each of these was a defect that simulation found (tests/sim).
 */
#include "../harness/faults.h"
#include "contract.h"

#define TTL 30000
#define OWNER 7

static hf_acquire_options as_owner(int64_t timeout)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = timeout;
    options.owner = OWNER;
    return options;
}

static int try_one(hf_client *client, hf_want want)
{
    hf_hold *hold = NULL;
    int rc = hf_acquire(client, &want, 1, NULL, &hold, NULL);
    if (rc == 0)
        let_go(hold);
    return rc;
}

/* ---- A reentrant part of several wants ------------------------------------------- */

struct entry {
    hf_client *mine, *other;
    hf_hold *in_the_way;
    hf_hold *entered;
    hf_op *op;
};

/* a is had, b is waited for, and the same owner enters a once more. */
static void entry_make(struct env *e, struct entry *entry)
{
    hf_want wants[2] = { hf_reentrant("a"), hf_mutex("b") };
    hf_want b = hf_mutex("b");
    hf_acquire_options waits = as_owner(HF_FOREVER), once = as_owner(0);
    entry->mine = client_open(e);
    entry->other = client_open(e);
    entry->in_the_way = entry->entered = NULL;
    entry->op = NULL;
    CHECK_RC(hf_acquire(entry->other, &b, 1, NULL, &entry->in_the_way, NULL), 0);
    CHECK_RC(
        hf_acquire_async(entry->mine, wants, 2, &waits, NULL, NULL, &entry->op, NULL),
        0);
    EVENTUALLY(queued(e, entry->other, 1));
    CHECK_RC(hf_acquire(entry->mine, &wants[0], 1, &once, &entry->entered, NULL), 0);
}

static void entered_while_waiting(struct env *e)
{
    struct entry entry;
    hf_hold *both = NULL;
    entry_make(e, &entry);
    let_go(entry.in_the_way);
    CHECK_RC(op_end(entry.op, HF_FOREVER, &both), 0);
    let_go(both);
    CHECK_RC(try_one(entry.other, hf_mutex("a")), HF_EBUSY);
    CHECK_EQ(hf_hold_state(entry.entered), HF_HELD);
    let_go(entry.entered);
    CHECK_RC(try_one(entry.other, hf_mutex("a")), 0);
}

static void left_while_waiting(struct env *e)
{
    struct entry entry;
    hf_hold *both = NULL;
    entry_make(e, &entry);
    let_go(entry.entered);
    CHECK_RC(try_one(entry.other, hf_mutex("a")), HF_EBUSY);
    let_go(entry.in_the_way);
    CHECK_RC(op_end(entry.op, HF_FOREVER, &both), 0);
    CHECK_RC(try_one(entry.other, hf_mutex("a")), HF_EBUSY);
    let_go(both);
    CHECK_RC(try_one(entry.other, hf_mutex("a")), 0);
}

static void entered_then_cancelled(struct env *e)
{
    struct entry entry;
    entry_make(e, &entry);
    hf_op_cancel(entry.op);
    CHECK_RC(op_end(entry.op, HF_FOREVER, &(hf_hold *){ NULL }), HF_ECANCELLED);
    CHECK_RC(try_one(entry.other, hf_mutex("a")), HF_EBUSY);
    CHECK_EQ(hf_hold_state(entry.entered), HF_HELD);
    let_go(entry.entered);
    CHECK_RC(try_one(entry.other, hf_mutex("a")), 0);
    let_go(entry.in_the_way);
}

/* ---- Leases of several wants ----------------------------------------------------- */

/* What was had first is kept while the rest is waited for. */
static void first_lasts_until_the_last(struct env *e)
{
    hf_want wants[2] = { hf_mutex("a"), hf_mutex("b") }, third = hf_mutex("c");
    hf_acquire_options waits = as_owner(HF_FOREVER), long_lease = as_owner(0);
    hf_client *mine = client_open(e), *other = client_open(e);
    hf_hold *in_the_way = NULL, *both = NULL, *companion = NULL;
    hf_op *op = NULL;
    waits.ttl_ms = TTL;
    long_lease.ttl_ms = 100 * TTL;
    CHECK_RC(hf_acquire(other, &wants[1], 1, &long_lease, &in_the_way, NULL), 0);
    CHECK_RC(hf_acquire_async(mine, wants, 2, &waits, NULL, NULL, &op, NULL), 0);
    EVENTUALLY(queued(e, other, 1));
    CHECK_RC(hf_acquire(mine, &third, 1, &waits, &companion, NULL), 0);
    for (int i = 0; i < 4; i++) {
        clock_advance(TTL / 2);
        EVENTUALLY(hf_hold_left_ms(companion) > TTL * 3 / 4); /* renewed, as a was */
        CHECK_RC(try_one(other, hf_mutex("a")), HF_EBUSY);
    }
    let_go(in_the_way);
    CHECK_RC(op_end(op, HF_FOREVER, &both), 0);
    CHECK_EQ(hf_hold_state(both), HF_HELD);
    CHECK_RC(hf_hold_verify(both, NULL), 0);
    let_go(both);
    let_go(companion);
}

/* Both are taken away, one after the other: that is one loss. What a third one is told
 * after them shows that both have been heard of. */
static void lost_is_told_once(struct env *e)
{
    struct told told = { 0 }, last = { 0 };
    hf_want wants[2] = { hf_mutex("a"), hf_mutex("b") };
    hf_client *mine = client_open(e), *other = client_open(e);
    hf_hold *both = NULL;
    CHECK_RC(hf_acquire(mine, wants, 2, NULL, &both, NULL), 0);
    hf_hold *third = held(e, mine, .name = "c");
    CHECK_RC(hf_hold_watch(both, told_event, &told, NULL), 0);
    CHECK_RC(hf_hold_watch(third, told_event, &last, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        CHECK_RC(hf_evict(other, wants[i].name, hf_hold_token(both, i), NULL), 0);
        EVENTUALLY(atomic_load(&told.lost) >= 1);
    }
    CHECK_RC(hf_evict(other, "c", hf_hold_token(third, 0), NULL), 0);
    EVENTUALLY(atomic_load(&last.lost) >= 1);
    CHECK_EQ(atomic_load(&told.lost), 1);
    CHECK_RC(hf_hold_verify(both, NULL), HF_ELOST);
    CHECK_RC(hf_release(both, NULL), HF_ELOST);
    CHECK_RC(hf_release(third, NULL), HF_ELOST);
    CHECK_EQ(atomic_load(&told.lost), 1);
}

/* ---- Late answers ---------------------------------------------------------------- */

/* Somebody tries once, somebody else of the same client joins and waits; "busy" comes
 * when the first one has gone, and is no answer for the second. */
static void busy_is_for_who_tried(struct env *e)
{
    hf_client *mine = client_open(e), *other = client_open(e);
    hf_hold *first = held(e, other), *hold = NULL;
    fault_plan(HF_FAULT_ATTEMPT, HF_FAULT_DELAY, 1, 1, 100);
    hf_op *once = begin(e, mine, NULL, NULL, .timeout = 0);
    hf_op *waits = begin(e, mine, NULL, NULL, .timeout = HF_FOREVER, .who = 2);
    hf_op_cancel(once);
    CHECK(op_end(once, HF_FOREVER, &hold) != 0);
    EVENTUALLY(queued(e, other, 1));
    CHECK(!hf_op_done(waits));
    fault_none();
    let_go(first);
    CHECK_RC(op_end(waits, HF_FOREVER, &hold), 0);
    let_go(hold);
}

/* A renewal is confirmed when nobody believed in it any more, and before the end of the
 * lease was noticed: both are due after one long pause, the answer first. */
static void lost_stays_lost(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client, .ttl = TTL);
    fault_plan(HF_FAULT_RENEW, HF_FAULT_DELAY, 1, HF_FAULT_ALWAYS, TTL / 4);
    clock_advance(TTL / 2);
    EVENTUALLY(hf__fault_calls(HF_FAULT_RENEW) > 0);
    clock_advance(TTL * 3 / 4);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    let_go(held(e, client, .name = "other"));
    fault_none();
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
}

/* The grant is read too late for the first of several; the others are not forgotten. */
static void late_grant_wakes_others(struct env *e)
{
    hf_options patient = HF_OPTIONS_INIT;
    patient.request_timeout_ms = 100 * TTL; /* the attempt is not repeated */
    hf_client *mine = client_with(e, &patient);
    hf_hold *hold = NULL;
    fault_plan(HF_FAULT_ATTEMPT, HF_FAULT_DELAY, 1, 1, TTL + 1000);
    hf_op *first = begin(e, mine, NULL, NULL, .timeout = HF_FOREVER, .ttl = TTL);
    hf_op *second =
        begin(e, mine, NULL, NULL, .timeout = HF_FOREVER, .ttl = TTL, .who = 2);
    EVENTUALLY(hf_op_done(first))
    clock_advance(1000);
    int rc = op_end(first, HF_FOREVER, &hold);
    CHECK(rc == HF_ELOST || rc == 0);
    if (rc == 0)
        hf_release(hold, NULL);
    fault_none();
    CHECK_RC(op_end(second, HF_FOREVER, &hold), 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    let_go(hold);
}

const struct scenario scenarios_entangled[] = {
    { "entered-while-waiting", REENTRANT, HF_CAP_INSPECT, 0, entered_while_waiting },
    { "left-while-waiting", REENTRANT, HF_CAP_INSPECT, 0, left_while_waiting },
    { "entered-then-cancelled", REENTRANT, HF_CAP_INSPECT, 0, entered_then_cancelled },
    { "first-lasts-until-the-last", MUTEX, HF_CAP_LEASE | HF_CAP_INSPECT, CLOCK,
      first_lasts_until_the_last },
    { "lost-is-told-once", MUTEX, HF_CAP_EVICT, 0, lost_is_told_once },
    { "busy-is-for-who-tried", MUTEX | REENTRANT, NEED_FAULT | HF_CAP_INSPECT, 0,
      busy_is_for_who_tried },
    { "lost-stays-lost", MUTEX | READ | PERMITS, NEED_FAULT | HF_CAP_LEASE, CLOCK,
      lost_stays_lost },
    { "late-grant-wakes-others", MUTEX, NEED_FAULT | HF_CAP_LEASE, CLOCK,
      late_grant_wakes_others },
    { NULL, 0, 0, 0, NULL },
};
