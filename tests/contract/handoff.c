/* SPDX-License-Identifier: MIT */
/*
 * Many waiters in one process: the hand-off between them, its bound, and its tokens.
 */
#include <stdio.h>
#include <stdlib.h>

#include "contract.h"

static hf_client *handoff_client(struct env *e, int handoff)
{
    hf_options options = HF_OPTIONS_INIT;
    options.handoff = handoff;
    return client_with(e, &options);
}

/* ---- A thousand ------------------------------------------------------------------------ */

struct drain {
    struct guarded guarded;
    atomic_int ended;
    bool exclusive;
};

static void drain_one(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct drain *drain = user;
    (void)why;
    CHECK_RC(rc, 0);
    if (drain->exclusive)
        guarded_visit(&drain->guarded, hf_hold_token(hold, 0));
    CHECK_RC(hf_release(hold, NULL), 0);
    atomic_fetch_add(&drain->ended, 1);
}

#define THOUSAND 1000

static void thousand_waiters_drain(struct env *e)
{
    struct drain *drain = calloc(1, sizeof *drain);
    hf_client *client = client_open(e);
    CHECK(drain != NULL);
    drain->exclusive = e->form->code != HF_READ;
    hf_hold *hold = held(e, client, .rival = true);
    for (uint64_t i = 0; i < THOUSAND; i++)
        begin(e, client, drain_one, drain, .timeout = HF_FOREVER, .who = i + 2);
    CHECK_EQ(drain->ended, 0);
    let_go(hold);
    EVENTUALLY(atomic_load(&drain->ended) == THOUSAND);
    CHECK_EQ(drain->guarded.violations, 0);
    CHECK_EQ(drain->guarded.count, drain->exclusive ? THOUSAND : 0);
    check_free(e);
    free(drain);
}

/* ---- The bound --------------------------------------------------------------------------- */

#define LOCAL 40

/* Who got in, in which order: everybody notes it and lets go. */
struct order {
    atomic_int count;
    atomic_int place_of_other;
};

static void order_mine(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct order *order = user;
    (void)why;
    CHECK_RC(rc, 0);
    atomic_fetch_add(&order->count, 1);
    CHECK_RC(hf_release(hold, NULL), 0);
}

static void order_other(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct order *order = user;
    atomic_store(&order->place_of_other, atomic_load(&order->count));
    order_mine(user, rc, hold, why);
}

/* How many of ours get in before the other one, who came when all of ours were there. */
static int grants_before_other(struct env *e, hf_client *mine, hf_client *other)
{
    struct order order = { 0, -1 };
    hf_hold *hold = held(e, mine);
    for (uint64_t i = 0; i < LOCAL; i++)
        begin(e, mine, order_mine, &order, .timeout = HF_FOREVER, .who = i + 2);
    size_t waiting = seen(e, other, HF_WAITER);
    begin(e, other, order_other, &order, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, mine, waiting + 1));
    let_go(hold);
    EVENTUALLY(atomic_load(&order.count) == LOCAL + 1);
    return atomic_load(&order.place_of_other);
}

static void bound_lets_others_in(struct env *e)
{
    int before = grants_before_other(e, handoff_client(e, 5), client_open(e));
    CHECK(before <= 6);
    check_free(e);
}

static void handoff_off_works(struct env *e)
{
    grants_before_other(e, handoff_client(e, HF_OFF), client_open(e));
    check_free(e);
}

static void handoff_of_one_works(struct env *e)
{
    grants_before_other(e, handoff_client(e, 1), handoff_client(e, 1));
    check_free(e);
}

/* ---- Threads ------------------------------------------------------------------------------ */

struct crowd {
    struct env *e;
    hf_client *client;
    struct guarded *guarded;
};

static void crowd_member(void *arg, size_t number)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < 40; i++) {
        hf_hold *hold =
            held(crowd->e, crowd->client, .timeout = HF_FOREVER, .who = number + 2);
        guarded_visit(crowd->guarded, hf_hold_token(hold, 0));
        let_go(hold);
    }
}

/* Threads that hand the lock among themselves, and processes that want it too: one
 * counter, one row of tokens, and everybody gets to the end. */
static void threads_beside_processes(struct env *e)
{
    struct taker *takers[3];
    char path[256];
    snprintf(path, sizeof path, "%s/guarded", e->scratch);
    struct crowd crowd = { e, handoff_client(e, 8), guarded_map(path) };
    ballast_ensure(e, THING);
    for (size_t i = 0; i < 3; i++)
        takers[i] = taker_start(e, i == 0 ? "handoff=-1" : NULL);
    for (size_t i = 0; i < 3; i++)
        taker_say(takers[i], "work %s " THING " 40 %s", e->form->name, path);
    threads_run(6, crowd_member, &crowd);
    for (size_t i = 0; i < 3; i++)
        taker_expect(takers[i], "worked");
    CHECK_EQ(crowd.guarded->violations, 0);
    CHECK_EQ(crowd.guarded->count, 9 * 40);
    guarded_unmap(crowd.guarded);
}

/* Some of those who wait for a hand-off give up, others do not. */
static void handoff_among_quitters(struct env *e)
{
    hf_op *ops[30];
    hf_hold *none = NULL;
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    for (uint64_t i = 0; i < 30; i++)
        ops[i] = begin(e, client, NULL, NULL, .timeout = HF_FOREVER, .who = i + 2);
    for (int i = 0; i < 30; i += 2) {
        hf_op_cancel(ops[i]);
        CHECK_RC(op_end(ops[i], HF_FOREVER, &none), HF_ECANCELLED);
    }
    let_go(hold);
    for (int i = 1; i < 30; i += 2) {
        CHECK_RC(op_end(ops[i], HF_FOREVER, &hold), 0);
        let_go(hold);
    }
    check_free(e);
}

/* The hold that would be handed on is taken away: it is not handed on, and those who
 * wait for it get their turn after whoever has the lock now. */
static void eviction_before_handoff(struct env *e)
{
    hf_op *ops[5];
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    hf_hold *next = NULL;
    for (uint64_t i = 0; i < 5; i++)
        ops[i] = begin(e, a, NULL, NULL, .timeout = HF_FOREVER, .who = i + 2);
    holder_evict(e, b);
    EVENTUALLY(hf_hold_state(hold) == HF_LOST || hf_op_done(ops[0]));
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    for (int i = 0; i < 5; i++) {
        CHECK_RC(op_end(ops[i], HF_FOREVER, &next), 0);
        CHECK_RC(hf_hold_verify(next, NULL), 0);
        let_go(next);
    }
    check_free(e);
}

const struct scenario scenarios_handoff[] = {
    { "thousand-waiters-drain", LOCKS, 0, 0, thousand_waiters_drain },
    { "bound-lets-others-in", MUTEX, HF_CAP_HANDOFF | HF_CAP_INSPECT, 0,
      bound_lets_others_in },
    { "handoff-off-works", EXCLUSIVE, HF_CAP_INSPECT, 0, handoff_off_works },
    { "handoff-of-one-works", EXCLUSIVE, HF_CAP_HANDOFF | HF_CAP_INSPECT, 0,
      handoff_of_one_works },
    { "threads-beside-processes", EXCLUSIVE, HF_CAP_PROCESSES, 0,
      threads_beside_processes },
    { "handoff-among-quitters", EXCLUSIVE, 0, 0, handoff_among_quitters },
    { "eviction-before-handoff", EXCLUSIVE & ~MULTI, HF_CAP_INSPECT | HF_CAP_EVICT, 0,
      eviction_before_handoff },
    { NULL, 0, 0, 0, NULL },
};
