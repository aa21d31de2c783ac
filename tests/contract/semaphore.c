/* SPDX-License-Identifier: MIT */
/*
 * Semaphores: up to N and never more, whoever dies; weighted permits that do not
 * starve; expiring permits with an id and a lease each.
 *
 * Scenarios that both kinds share make their wants through the form, so that a permit
 * is one of hf_permits() or one hf_expiring().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract.h"

#define TTL 30000

static hf_want permit_want(const struct env *e, uint32_t limit)
{
    return e->form->code == HF_EXPIRING ? hf_expiring(THING, limit)
                                        : hf_permits(THING, 1, limit);
}

static int permit_take(struct env *e, hf_client *client, hf_want want, int64_t timeout,
                       hf_hold **ret_hold)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = timeout;
    options.ttl_ms = e->form->ttl_ms;
    return hf_acquire(client, &want, 1, &options, ret_hold, NULL);
}

static hf_hold *permit_held(struct env *e, hf_client *client, hf_want want)
{
    hf_hold *hold = NULL;
    CHECK_RC(permit_take(e, client, want, 0, &hold), 0);
    return hold;
}

/* The lease of another has just ended: see held_soon(). */
static hf_hold *permit_soon(struct env *e, hf_client *client, hf_want want)
{
    hf_hold *hold = NULL;
    if (e->store->caps & NEED_PROMPT)
        return permit_held(e, client, want);
    EVENTUALLY(permit_take(e, client, want, 0, &hold) == 0);
    return hold;
}

static void permit_busy(struct env *e, hf_client *client, hf_want want)
{
    hf_hold *hold = NULL;
    CHECK_RC(permit_take(e, client, want, 0, &hold), HF_EBUSY);
}

static hf_op *permit_begun(struct env *e, hf_client *client, hf_want want)
{
    hf_op *op = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = HF_FOREVER;
    options.ttl_ms = e->form->ttl_ms;
    CHECK_RC(hf_acquire_async(client, &want, 1, &options, NULL, NULL, &op, NULL), 0);
    return op;
}

static hf_hold *op_held(hf_op *op)
{
    hf_hold *hold = NULL;
    CHECK_RC(op_end(op, HF_FOREVER, &hold), 0);
    return hold;
}

/* ---- Up to N --------------------------------------------------------------------- */

static void drain_then_one(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_want want = permit_want(e, 5);
    hf_hold *holds[5];
    for (int i = 0; i < 5; i++)
        holds[i] = permit_held(e, i % 2 ? a : b, want);
    permit_busy(e, a, want);
    permit_busy(e, b, want);
    let_go(holds[2]);
    holds[2] = permit_held(e, b, want);
    permit_busy(e, a, want);
    for (int i = 0; i < 5; i++)
        let_go(holds[i]);
}

/* One release lets exactly one of three waiters in. */
static void one_release_one_waiter(struct env *e)
{
    hf_client *clients[4];
    hf_op *ops[3];
    hf_hold *holds[2];
    hf_want want = permit_want(e, 2);
    for (int i = 0; i < 4; i++)
        clients[i] = client_open(e);
    for (int i = 0; i < 2; i++)
        holds[i] = permit_held(e, clients[3], want);
    for (size_t i = 0; i < 3; i++) {
        ops[i] = permit_begun(e, clients[i], want);
        EVENTUALLY(queued(e, clients[3], i + 1));
    }
    let_go(holds[0]);
    EVENTUALLY(hf_op_done(ops[0]) + hf_op_done(ops[1]) + hf_op_done(ops[2]) > 0);
    CHECK(queued(e, clients[3], 2));
    CHECK_EQ(seen(e, clients[3], HF_HOLDER), 2);
    let_go(op_held(ops[0]));
    let_go(op_held(ops[1]));
    let_go(holds[1]);
    let_go(op_held(ops[2]));
}

struct crowd {
    struct env *e;
    hf_client *clients[4];
    pthread_barrier_t barrier;
    struct guarded guarded;
};

#define LIMIT 4

/* In the last round all permits are out at once: everybody stays until LIMIT are in. */
static void crowd_member(void *arg, size_t number)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < 10; i++) {
        hf_hold *hold = NULL;
        CHECK_RC(permit_take(crowd->e, crowd->clients[number % 4],
                             permit_want(crowd->e, LIMIT), HF_FOREVER, &hold),
                 0);
        guarded_enter(&crowd->guarded);
        CHECK(crowd->guarded.inside <= LIMIT);
        if (i == 9)
            pthread_barrier_wait(&crowd->barrier);
        guarded_leave(&crowd->guarded);
        let_go(hold);
    }
}

static void exactly_up_to_limit(struct env *e)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    CHECK(crowd != NULL);
    crowd->e = e;
    for (size_t i = 0; i < 4; i++)
        crowd->clients[i] = client_open(e);
    CHECK_EQ(pthread_barrier_init(&crowd->barrier, NULL, LIMIT), 0);
    threads_run(5 * LIMIT, crowd_member, crowd);
    CHECK_EQ(crowd->guarded.most, LIMIT);
    CHECK_EQ(crowd->guarded.inside, 0);
    pthread_barrier_destroy(&crowd->barrier);
    free(crowd);
}

static void huge_limit(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *one = permit_held(e, client, permit_want(e, UINT32_MAX));
    hf_hold *two = permit_held(e, client, permit_want(e, UINT32_MAX));
    let_go(one);
    let_go(two);
}

/* All permits of the largest limit at once, twice: the sum does not overflow. */
static void huge_weights(struct env *e)
{
    hf_client *client = client_open(e);
    hf_want all = hf_permits(THING, UINT32_MAX, UINT32_MAX);
    hf_hold *hold = permit_held(e, client, all);
    permit_busy(e, client, all);
    permit_busy(e, client, hf_permits(THING, 1, UINT32_MAX));
    let_go(hold);
}

static void release_makes_no_permits(struct env *e)
{
    hf_client *client = client_open(e);
    hf_want want = permit_want(e, 2);
    hf_hold *one = permit_held(e, client, want);
    hf_hold *two = permit_held(e, client, want);
    let_go(one);
    CHECK_RC(hf_release(one, NULL), HF_ERELEASED);
    one = permit_held(e, client, want);
    permit_busy(e, client, want);
    let_go(one);
    let_go(two);
}

static void limits_must_agree(struct env *e)
{
    hf_error why = { 0 };
    hf_hold *other = NULL;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = permit_held(e, a, permit_want(e, 3));
    hf_want wants[2] = { permit_want(e, 5), permit_want(e, 2) };
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.ttl_ms = e->form->ttl_ms;
    for (int i = 0; i < 2; i++) {
        CHECK_RC(hf_acquire(b, &wants[i], 1, &options, &other, &why), HF_EMISMATCH);
        CHECK(why.code == HF_EMISMATCH && why.text[0] && !other);
        options.timeout_ms = HF_FOREVER;
        CHECK_RC(hf_acquire(a, &wants[i], 1, &options, &other, NULL), HF_EMISMATCH);
    }
    let_go(permit_held(e, b, permit_want(e, 3)));
    let_go(hold);
    let_go(permit_held(e, b, permit_want(e, 5))); /* a free name has no limit */
}

/* ---- Death ----------------------------------------------------------------------- */

static void killed_permits_come_back(struct env *e)
{
    struct taker *takers[2];
    hf_client *client = client_open(e);
    ballast_ensure(e, THING);
    takers[0] = taker_start(e, NULL);
    takers[1] = taker_start(e, NULL);
    for (int round = 0; round < 2; round++) {
        taker_take(e, takers[round], THING, HF_FOREVER, 0, 0);
        CHECK_BUSY(e, client);
        taker_kill(takers[round]);
        let_go(held(e, client, .timeout = HF_FOREVER));
    }
    CHECK_EQ(seen(e, client, HF_HOLDER), 0);
    hf_hold *last = held(e, client);
    CHECK_BUSY(e, client);
    let_go(last);
}

/* ---- Weights --------------------------------------------------------------------- */

static void weights_add_up(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *three = permit_held(e, a, hf_permits(THING, 3, 10));
    hf_hold *five = permit_held(e, b, hf_permits(THING, 5, 10));
    permit_busy(e, a, hf_permits(THING, 3, 10));
    hf_hold *two = permit_held(e, a, hf_permits(THING, 2, 10));
    permit_busy(e, b, hf_permits(THING, 1, 10));
    let_go(three);
    permit_busy(e, b, hf_permits(THING, 4, 10));
    let_go(permit_held(e, b, hf_permits(THING, 3, 10)));
    let_go(five);
    let_go(two);
    let_go(permit_held(e, a, hf_permits(THING, 10, 10)));
}

/* Nine of ten are wanted; small ones that come later do not slip past for ever. */
static void large_want_is_not_starved(struct env *e)
{
    hf_client *clients[3] = { client_open(e), client_open(e), client_open(e) };
    hf_hold *small = permit_held(e, clients[0], hf_permits(THING, 3, 10));
    hf_op *large = permit_begun(e, clients[1], hf_permits(THING, 9, 10));
    EVENTUALLY(queued(e, clients[0], 1));
    permit_busy(e, clients[2], hf_permits(THING, 2, 10));
    hf_op *late = permit_begun(e, clients[2], hf_permits(THING, 2, 10));
    EVENTUALLY(queued(e, clients[0], 2));
    let_go(small);
    hf_hold *hold = op_held(large);
    CHECK(!hf_op_done(late));
    let_go(hold);
    let_go(op_held(late));
}

/* It goes away, and the small one behind it fits at once. */
static void large_want_gives_up(struct env *e)
{
    hf_client *clients[3] = { client_open(e), client_open(e), client_open(e) };
    hf_hold *none = NULL;
    hf_hold *small = permit_held(e, clients[0], hf_permits(THING, 3, 10));
    hf_op *large = permit_begun(e, clients[1], hf_permits(THING, 9, 10));
    EVENTUALLY(queued(e, clients[0], 1));
    hf_op *late = permit_begun(e, clients[2], hf_permits(THING, 2, 10));
    EVENTUALLY(queued(e, clients[0], 2));
    hf_op_cancel(large);
    CHECK_RC(op_end(large, HF_FOREVER, &none), HF_ECANCELLED);
    let_go(op_held(late));
    let_go(small);
}

/* ---- Expiring permits ------------------------------------------------------------ */

static void permits_have_ids(struct env *e)
{
    char ids[3][HF_ID_MAX];
    hf_hold *holds[3];
    hf_client *client = client_open(e);
    for (int i = 0; i < 3; i++) {
        holds[i] = permit_held(e, client, hf_expiring(THING, 3));
        CHECK_RC(hf_hold_id(holds[i], 0, ids[i], HF_ID_MAX, NULL), 0);
    }
    CHECK(strcmp(ids[0], ids[1]) && strcmp(ids[1], ids[2]) && strcmp(ids[0], ids[2]));
    for (int i = 0; i < 3; i++)
        let_go(holds[i]);
}

static hf_hold *lease_held(hf_client *client, int64_t ttl)
{
    hf_hold *hold = NULL;
    hf_want want = hf_expiring(THING, 3);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.ttl_ms = ttl;
    options.flags = HF_FIXED;
    CHECK_RC(hf_acquire(client, &want, 1, &options, &hold, NULL), 0);
    return hold;
}

/* Each ends on its own; one is extended, the others are not. */
static void permits_expire_one_by_one(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *first = lease_held(client, TTL);
    hf_hold *second = lease_held(client, 2 * TTL);
    hf_hold *third = lease_held(client, TTL);
    permit_busy(e, client, hf_expiring(THING, 3));
    CHECK_RC(hf_hold_extend(third, 3 * TTL, NULL), 0);

    clock_advance(TTL + 1000);
    CHECK_EQ(hf_hold_state(first), HF_LOST);
    CHECK_EQ(hf_hold_state(second), HF_HELD);
    CHECK_EQ(hf_hold_state(third), HF_HELD);
    let_go(permit_soon(e, client, hf_expiring(THING, 3)));
    clock_advance(TTL);
    CHECK_EQ(hf_hold_state(second), HF_LOST);
    CHECK_RC(hf_hold_verify(third, NULL), 0);

    CHECK_RC(hf_release(first, NULL), HF_ELOST);
    CHECK_RC(hf_release(second, NULL), HF_ELOST);
    let_go(third);
}

/* Released late, a permit must not come back a second time. */
static void late_release_makes_no_permits(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *late = lease_held(client, TTL);
    clock_advance(TTL + 1000);
    hf_hold *holds[3];
    for (int i = 0; i < 3; i++)
        holds[i] = permit_soon(e, client, hf_expiring(THING, 3));
    CHECK_RC(hf_release(late, NULL), HF_ELOST);
    permit_busy(e, client, hf_expiring(THING, 3));
    for (int i = 0; i < 3; i++)
        let_go(holds[i]);
}

#define BOTH (PERMITS | EXPIRING)

const struct scenario scenarios_semaphore[] = {
    { "drain-then-one", BOTH, 0, 0, drain_then_one },
    { "one-release-one-waiter", BOTH, HF_CAP_INSPECT, 0, one_release_one_waiter },
    { "exactly-up-to-limit", BOTH, 0, 0, exactly_up_to_limit },
    { "huge-limit", BOTH, 0, 0, huge_limit },
    { "huge-weights", PERMITS, 0, 0, huge_weights },
    { "release-makes-no-permits", BOTH, 0, 0, release_makes_no_permits },
    { "limits-must-agree", BOTH, 0, 0, limits_must_agree },
    { "killed-permits-come-back", SEMAPHORES,
      HF_CAP_PROCESSES | HF_CAP_CRASH | HF_CAP_INSPECT, 0, killed_permits_come_back },
    { "weights-add-up", PERMITS, 0, 0, weights_add_up },
    { "large-want-is-not-starved", PERMITS, HF_CAP_INSPECT, 0,
      large_want_is_not_starved },
    { "large-want-gives-up", PERMITS, HF_CAP_INSPECT, 0, large_want_gives_up },
    { "permits-have-ids", EXPIRING, HF_CAP_DETACH, 0, permits_have_ids },
    { "permits-expire-one-by-one", EXPIRING, HF_CAP_LEASE, CLOCK,
      permits_expire_one_by_one },
    { "late-release-makes-no-permits", EXPIRING, HF_CAP_LEASE, CLOCK,
      late_release_makes_no_permits },
    { NULL, 0, 0, 0, NULL },
};
