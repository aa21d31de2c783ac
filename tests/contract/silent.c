/* SPDX-License-Identifier: MIT */
/*
 * A store that answers late or not at all: delays, silence, renewals that get lost.
 *
 * All through the fault shim, as in fault.c, which has lost replies and failures.
 */
#include "../harness/faults.h"
#include "contract.h"

#define TTL 30000
#define LEASE_OVER (INT64_C(24) * 3600 * 1000) /* longer than any lease here */

static hf_client *hasty_client(struct env *e)
{
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = hasty_ms(e);
    return client_with(e, &options);
}

/* ---- Late and silent ------------------------------------------------------------- */

static void delayed_answers(struct env *e)
{
    hf_client *client = client_open(e);
    ballast_ensure(e, THING);
    fault_plan(HF_FAULT_ATTEMPT, HF_FAULT_DELAY, 1, HF_FAULT_ALWAYS, 10);
    hf_hold *hold = held(e, client, .timeout = HF_FOREVER);
    fault_plan(HF_FAULT_WITHDRAW, HF_FAULT_DELAY, 1, HF_FAULT_ALWAYS, 10);
    let_go(hold);
    fault_none();
    check_free(e);
}

/* Cancelled while the grant is on its way. */
static void cancel_before_late_grant(struct env *e)
{
    hf_client *watcher = client_open(e);
    hf_client *client = client_open(e);
    hf_hold *hold = NULL;
    ballast_ensure(e, THING);
    fault_plan(HF_FAULT_ATTEMPT, HF_FAULT_DELAY, 1, HF_FAULT_ALWAYS, 20);
    for (int i = 0; i < 5; i++) {
        hf_op *op = begin(e, client, NULL, NULL, .timeout = HF_FOREVER);
        hf_op_cancel(op);
        int rc = op_end(op, HF_FOREVER, &hold);
        CHECK(rc == HF_ECANCELLED || (rc == 0 && hold));
        if (rc == 0)
            let_go(hold);
    }
    fault_none();
    EVENTUALLY(seen(e, watcher, HF_HOLDER) == 0);
}

/* The answer took longer than the lease: nobody may believe in that grant. */
static void late_grant_is_not_believed(struct env *e)
{
    hf_hold *hold = NULL;
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = 100 * TTL;
    hf_client *client = client_with(e, &options);
    ballast_ensure(e, THING);
    fault_plan(HF_FAULT_ATTEMPT, HF_FAULT_DELAY, 1, 1, TTL + 1000);
    hf_op *op = begin(e, client, NULL, NULL, .timeout = HF_FOREVER, .ttl = TTL,
                      .flags = HF_FIXED);
    EVENTUALLY(hf_op_done(op)) /* the delay begins when the store has answered */
    clock_advance(1000);
    int rc = op_end(op, HF_FOREVER, &hold);
    if (rc == 0) { /* it asked again, and this is the second grant */
        CHECK_EQ(hf_hold_state(hold), HF_HELD);
        CHECK_RC(hf_hold_verify(hold, NULL), 0);
        let_go(hold);
    } else {
        CHECK_RC(rc, HF_ELOST);
    }
    fault_none();
    check_free(e);
}

static void silent_store_ends_the_wait(struct env *e)
{
    hf_client *watcher = client_open(e);
    hf_client *client = hasty_client(e);
    hf_hold *hold = NULL;
    ballast_ensure(e, THING);
    hf__fault_pause(true);
    int64_t since = real_ms();
    int rc = take(e, client, &hold, .timeout = 50);
    CHECK(rc == HF_ETIMEOUT || rc == HF_EUNCERTAIN || rc == HF_EUNREACHABLE);
    CHECK(real_ms() - since >= 49 && real_ms() - since < 10000);
    rc = take(e, client, &hold);
    CHECK(rc == HF_EUNCERTAIN || rc == HF_EUNREACHABLE);
    CHECK(hold == NULL);
    hf__fault_pause(false);
    /* The requests of before are on their way, each with its withdrawal behind it. */
    let_go(held(e, watcher, .rival = true, .timeout = HF_FOREVER));
}

static void silent_store_wakes_up(struct env *e)
{
    hf_client *client = hasty_client(e);
    hf_hold *hold = NULL;
    ballast_ensure(e, THING);
    hf__fault_pause(true);
    hf_op *op = begin(e, client, NULL, NULL, .timeout = HF_FOREVER);
    CHECK_RC(hf_op_wait(op, 50, &hold, NULL), HF_ETIMEOUT);
    CHECK(!hf_op_done(op));
    hf__fault_pause(false);
    CHECK_RC(op_end(op, HF_FOREVER, &hold), 0);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    let_go(hold);
}

/* The store is silent and the client is closed all the same; its session ends. */
static void close_beside_silent_store(struct env *e)
{
    hf_client *client = hasty_client(e);
    struct told told = { 0 };
    hf_hold *hold = held(e, client);
    ballast_ensure(e, "other");
    hf__fault_pause(true);
    begin(e, client, told_hold, &told, .name = "other", .timeout = HF_FOREVER);
    int64_t since = real_ms();
    client_close(e, client);
    CHECK(real_ms() - since < 10000);
    CHECK_EQ(told.ended, 1);
    CHECK_RC(told.rc, HF_ECLOSED);
    CHECK_RC(hf_release(hold, NULL), HF_ECLOSED);
    hf__fault_pause(false);
    if (!(e->store->caps & HF_CAP_CRASH))
        clock_advance(LEASE_OVER); /* a server that was not told waits for the lease */
    check_free(e);
}

/* ---- Renewal --------------------------------------------------------------------- */

static void overdue_renewal_is_doubtful(struct env *e)
{
    struct told told = { 0 };
    hf_client *client = hasty_client(e);
    hf_hold *hold = held(e, client, .ttl = TTL);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    fault_lose(HF_FAULT_RENEW, 1, HF_FAULT_ALWAYS);
    clock_advance(TTL / 2);
    EVENTUALLY(hf__fault_calls(HF_FAULT_RENEW) > 0);
    clock_advance(TTL / 3);
    EVENTUALLY(hf_hold_state(hold) == HF_DOUBTFUL);
    EVENTUALLY(atomic_load(&told.doubtful) > 0);
    CHECK(hf_hold_left_ms(hold) > 0);
    CHECK_EQ(told.lost, 0);

    fault_none();
    EVENTUALLY(hf_hold_state(hold) == HF_HELD);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    let_go(hold);
    CHECK_EQ(told.lost, 0);
}

static void unanswered_renewals_end_it(struct env *e)
{
    struct told told = { 0 };
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client, .ttl = TTL);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    fault_plan(HF_FAULT_RENEW, HF_FAULT_FAIL_BEFORE, 1, HF_FAULT_ALWAYS, 0);
    clock_advance(TTL + 1000);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    EVENTUALLY(atomic_load(&told.lost) == 1);
    fault_none();
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    check_free(e);
}

/* The store's own word of the loss got lost; the next renewal brings it. */
static void renewal_brings_the_loss(struct env *e)
{
    struct told told = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    fault_lose(HF_FAULT_EVENT, 1, HF_FAULT_ALWAYS);
    holder_evict(e, b);
    clock_advance(TTL / 2);
    EVENTUALLY(atomic_load(&told.lost) == 1);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    fault_none();
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    check_free(e);
}

#define FAULT (NEED_FAULT | HF_CAP_INSPECT)

const struct scenario scenarios_silent[] = {
    { "delayed-answers", LOCKS, FAULT, 0, delayed_answers },
    { "cancel-before-late-grant", LOCKS, FAULT, 0, cancel_before_late_grant },
    { "late-grant-is-not-believed", LOCKS, FAULT | HF_CAP_LEASE, CLOCK,
      late_grant_is_not_believed },
    { "silent-store-ends-the-wait", LOCKS, FAULT, 0, silent_store_ends_the_wait },
    { "silent-store-wakes-up", LOCKS, FAULT, 0, silent_store_wakes_up },
    { "close-beside-silent-store", LOCKS, FAULT, CLOCK, close_beside_silent_store },
    { "overdue-renewal-is-doubtful", LOCKS, FAULT | HF_CAP_LEASE, CLOCK,
      overdue_renewal_is_doubtful },
    { "unanswered-renewals-end-it", LOCKS, FAULT | HF_CAP_LEASE, CLOCK,
      unanswered_renewals_end_it },
    { "renewal-brings-the-loss", LOCKS, FAULT | HF_CAP_LEASE | HF_CAP_EVICT, CLOCK,
      renewal_brings_the_loss },
    { NULL, 0, 0, 0, NULL },
};
