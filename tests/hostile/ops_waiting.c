/* SPDX-License-Identifier: MIT */
/*
 * Operations in which the client waits, and what ends the wait is pushed: a grant, an
 * opened latch, an eviction, a wish to let go.
 */
#include "hostile.h"

#include <stdatomic.h>

struct told {
    atomic_int lost, revoked;
};

static void tell(void *user, hf_hold *hold, enum hf_event event, const hf_error *why)
{
    struct told *told = user;
    (void)hold;
    if (why)
        CHECK(text_is_clean(why->text));
    if (event == HF_EVENT_LOST)
        atomic_fetch_add(&told->lost, 1);
    else if (event == HF_EVENT_REVOKED)
        atomic_fetch_add(&told->revoked, 1);
}

static hf_op *queue(struct trial *t, hf_want want)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_op *op = NULL;
    options.timeout_ms = WAIT_MS;
    options.ttl_ms = LEASE_MS;
    CHECK_RC(hf_acquire_async(t->client, &want, 1, &options, NULL, NULL, &op, NULL), 0);
    return op;
}

/* The end of the wait, whichever it is. */
static void ended(struct trial *t, hf_op *op)
{
    hf_hold *hold = NULL;
    begin(t);
    int rc = hf_op_wait(op, HF_FOREVER, &hold, &t->why);
    judged(t, rc, WAIT_MS + 4 * REQUEST_MS);
    CHECK((rc == 0) == (hold != NULL));
    if (hold) {
        judge_hold(t, hold, LEASE_MS);
        let_go(t, hold);
    }
    hf_op_free(op);
}

/* The answers to one who must wait, up to its withdrawal. */
static void queued(struct trial *t)
{
    hf_hold *hold = sane_hold(t, hf_mutex(t->name));
    hf_want want = hf_mutex(t->name);
    hf_hold *ours = NULL;
    arm(t);
    take(t, &want, 1, REQUEST_MS / 3, &ours);
    let_go(t, ours);
    hf_release(hold, NULL);
}

static void granted_as(struct trial *t, hf_want theirs, hf_want ours)
{
    hf_hold *hold = sane_hold(t, theirs);
    hf_op *op = queue(t, ours);
    EVENTUALLY(hf_op_done(op) || entries(t, HF_WAITER) == 1);
    arm(t);
    CHECK_RC(hf_release(hold, NULL), 0);
    ended(t, op);
}

static void granted(struct trial *t)
{
    granted_as(t, hf_mutex(t->name), hf_mutex(t->name));
}

static void granted_fair(struct trial *t)
{
    granted_as(t, hf_fair(t->name), hf_fair(t->name));
}

static void granted_read(struct trial *t)
{
    granted_as(t, hf_write(t->name), hf_read(t->name));
}

static void granted_permits(struct trial *t)
{
    granted_as(t, hf_permits(t->name, 4, 5), hf_permits(t->name, 3, 5));
}

/* A latch that opens while we wait. */
static void opened(struct trial *t)
{
    hf_op *op = NULL;
    CHECK_RC(hf_latch_set(t->sane, t->name, 1, NULL), 0);
    CHECK_RC(hf_latch_wait_async(t->client, t->name, WAIT_MS, NULL, NULL, &op, &t->why),
             0);
    EVENTUALLY(hf_op_done(op) || entries(t, HF_WAITER) == 1);
    arm(t);
    CHECK_RC(hf_latch_count_down(t->sane, t->name, 1, NULL, NULL), 0);
    begin(t);
    judged(t, hf_op_wait(op, HF_FOREVER, NULL, &t->why), WAIT_MS + 4 * REQUEST_MS);
    hf_op_free(op);
}

/* Somebody takes our lock away, or wishes it. */
static void watched(struct trial *t, bool away)
{
    struct told told = { 0 };
    hf_hold *hold = held(t, hf_mutex(t->name));
    CHECK_RC(hf_hold_watch(hold, tell, &told, NULL), 0);
    arm(t);
    if (away)
        hf_evict(t->sane, t->name, hf_hold_token(hold, 0), NULL);
    else
        CHECK_RC(hf_revoke(t->sane, t->name, 0, NULL), 0);
    begin(t);
    judged(t, hf_hold_verify(hold, &t->why), 4 * REQUEST_MS);
    judge_hold(t, hold, LEASE_MS);
    CHECK(atomic_load(&told.lost) <= 1);
    let_go(t, hold);
}

static void evicted(struct trial *t)
{
    watched(t, true);
}

static void revoked(struct trial *t)
{
    watched(t, false);
}

const struct op waiting_ops[] = {
    { .name = "queued", .run = queued },
    { .name = "granted", .run = granted, .needs = HF_CAP_INSPECT },
    { .name = "granted-fair",
      .run = granted_fair,
      .needs = HF_CAP_FAIR | HF_CAP_INSPECT },
    { .name = "granted-read", .run = granted_read, .needs = HF_CAP_RW },
    { .name = "granted-permits", .run = granted_permits, .needs = HF_CAP_PERMITS },
    { .name = "opened", .run = opened, .needs = HF_CAP_LATCH },
    { .name = "evicted", .run = evicted, .needs = HF_CAP_EVICT },
    { .name = "revoked", .run = revoked, .needs = HF_CAP_REVOKE },
    { .name = "granted, layout 2",
      .run = granted,
      .query = 1,
      .needs = HF_CAP_INSPECT },
    { .name = "evicted, layout 2", .run = evicted, .query = 1, .needs = HF_CAP_EVICT },
    { .name = "queued, layout 3", .run = queued, .query = 2 },
    { .name = NULL },
};
