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

/* ---- A thousand ------------------------------------------------------------------ */

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

/* Where a server is slow enough for tests to share it, a tenth of that. The release is
 * answered behind a thousand requests. */
static void thousand_waiters_drain(struct env *e)
{
    const int thousand = e->store->prepare ? 100 : 1000;
    struct drain *drain = calloc(1, sizeof *drain);
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = PATIENCE_MS;
    hf_client *client = client_with(e, &options);
    CHECK(drain != NULL);
    drain->exclusive = e->form->code != HF_READ;
    hf_hold *hold = held(e, client, .rival = true);
    for (int i = 0; i < thousand; i++)
        begin(e, client, drain_one, drain, .timeout = HF_FOREVER,
              .who = (uint64_t)i + 2);
    CHECK_EQ(drain->ended, 0);
    let_go(hold);
    for (int seen = 0; seen < thousand; seen = atomic_load(&drain->ended))
        EVENTUALLY(atomic_load(&drain->ended) > seen);
    CHECK_EQ(atomic_load(&drain->ended), thousand);
    CHECK_EQ(drain->guarded.violations, 0);
    CHECK_EQ(drain->guarded.count, drain->exclusive ? thousand : 0);
    check_free(e);
    free(drain);
}

/* ---- The bound ------------------------------------------------------------------- */

#define LOCAL 40

static void note_and_let_go(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    (void)why;
    CHECK_RC(rc, 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    atomic_fetch_add((atomic_int *)user, 1);
}

/* Many of ours, one of theirs: everybody gets in once. */
static void all_are_served(struct env *e, hf_client *mine, hf_client *other)
{
    atomic_int count = 0;
    hf_hold *hold = held(e, mine);
    for (uint64_t i = 0; i < LOCAL; i++)
        begin(e, mine, note_and_let_go, &count, .timeout = HF_FOREVER, .who = i + 2);
    begin(e, other, note_and_let_go, &count, .timeout = HF_FOREVER);
    CHECK_EQ(count, 0);
    let_go(hold);
    EVENTUALLY(atomic_load(&count) == LOCAL + 1);
    check_free(e);
}

static void handoff_off_works(struct env *e)
{
    all_are_served(e, handoff_client(e, HF_OFF), client_open(e));
}

static void handoff_of_one_works(struct env *e)
{
    all_are_served(e, handoff_client(e, 1), handoff_client(e, 1));
}

struct greed {
    struct env *e;
    hf_client *client;
    atomic_bool enough;
    atomic_int rounds;
};

/* Threads that never stop taking it, and could hand it on among themselves for ever. */
static void greedy_member(void *arg, size_t number)
{
    struct greed *greed = arg;
    if (number == 0) {
        hf_client *other = client_open(greed->e);
        EVENTUALLY(atomic_load(&greed->rounds) > 10);
        for (int i = 0; i < 5; i++)
            let_go(held(greed->e, other, .timeout = HF_FOREVER));
        atomic_store(&greed->enough, true);
        return;
    }
    while (!atomic_load(&greed->enough)) {
        let_go(held(greed->e, greed->client, .timeout = HF_FOREVER, .who = number + 2));
        atomic_fetch_add(&greed->rounds, 1);
    }
}

static void others_get_their_turn(struct env *e)
{
    struct greed greed = { .e = e, .client = handoff_client(e, 5) };
    threads_run(5, greedy_member, &greed);
    check_free(e);
}

/* The lock has gone on to another caller of the client: its last token evicts and
 * revokes nobody, its own does, and a look shows that one. */
static void eviction_means_that_token(struct env *e)
{
    struct told told = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *next = NULL;
    hf_hold *hold = held(e, a, .who = 2);
    struct holder old = holder_find(e, b);
    CHECK_EQ(old.token, hf_hold_token(hold, 0));
    hf_op *op = begin(e, a, NULL, NULL, .who = 3, .timeout = HF_FOREVER);
    let_go(hold);
    CHECK_RC(op_end(op, HF_FOREVER, &next), 0);
    CHECK(hf_hold_token(next, 0) > old.token);
    CHECK_RC(hf_hold_watch(next, told_event, &told, NULL), 0);
    CHECK_RC(hf_evict(b, old.name, old.token, NULL), HF_ENOENT);
    CHECK_RC(hf_evict(b, old.name, hf_hold_token(next, 0) + 1, NULL), HF_ENOENT);
    CHECK_RC(hf_hold_verify(next, NULL), 0);
    CHECK_EQ(hf_hold_state(next), HF_HELD);
    EVENTUALLY(holder_find(e, b).token == hf_hold_token(next, 0));
    CHECK_EQ(told.lost + told.revoked, 0);
    CHECK_RC(hf_evict(b, old.name, hf_hold_token(next, 0), NULL), 0);
    EVENTUALLY(atomic_load(&told.lost) == 1);
    CHECK_RC(hf_release(next, NULL), HF_ELOST);
    check_free(e);
}

/* ---- Threads --------------------------------------------------------------------- */

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

/* Whichever of them has ended first; the order is not what these are about. */
static hf_op *first_done(hf_op **ops, size_t count)
{
    hf_op *done = NULL;
    EVENTUALLY(done != NULL)
    for (size_t i = 0; i < count && !done; i++)
        if (ops[i] && hf_op_done(ops[i])) {
            done = ops[i];
            ops[i] = NULL;
        }
    return done;
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
        ops[i] = NULL;
    }
    let_go(hold);
    for (int i = 0; i < 15; i++) {
        CHECK_RC(op_end(first_done(ops, 30), HF_FOREVER, &hold), 0);
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
        CHECK_RC(op_end(first_done(ops, 5), HF_FOREVER, &next), 0);
        CHECK_RC(hf_hold_verify(next, NULL), 0);
        let_go(next);
    }
    check_free(e);
}

/* The holder has extended its lease: who is next has the lease that it asked for. */
static void handoff_after_extend(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *next = NULL, *hold = held(e, client, .ttl = 20000);
    hf_op *op =
        begin(e, client, NULL, NULL, .ttl = 20000, .timeout = HF_FOREVER, .who = 2);
    CHECK_RC(hf_hold_extend(hold, 60000, NULL), 0);
    let_go(hold);
    CHECK_RC(op_end(op, HF_FOREVER, &next), 0);
    CHECK_RC(hf_hold_verify(next, NULL), 0);
    CHECK(hf_hold_left_ms(next) <= 20000);
    let_go(next);
    check_free(e);
}

const struct scenario scenarios_handoff[] = {
    { "handoff-after-extend", EXCLUSIVE & ~MULTI, HF_CAP_HANDOFF | HF_CAP_LEASE, 0,
      handoff_after_extend },
    { "thousand-waiters-drain", LOCKS, 0, 0, thousand_waiters_drain },
    { "handoff-off-works", EXCLUSIVE, 0, 0, handoff_off_works },
    { "eviction-means-that-token", MUTEX | REENTRANT | STRIPED,
      HF_CAP_HANDOFF | HF_CAP_EVICT | HF_CAP_INSPECT, 0, eviction_means_that_token },
    { "handoff-of-one-works", EXCLUSIVE, HF_CAP_HANDOFF, 0, handoff_of_one_works },
    { "others-get-their-turn", EXCLUSIVE, 0, 0, others_get_their_turn },
    { "threads-beside-processes", EXCLUSIVE, HF_CAP_PROCESSES, 0,
      threads_beside_processes },
    { "handoff-among-quitters", EXCLUSIVE, 0, 0, handoff_among_quitters },
    { "eviction-before-handoff", EXCLUSIVE & ~MULTI, HF_CAP_INSPECT | HF_CAP_EVICT, 0,
      eviction_before_handoff },
    { NULL, 0, 0, 0, NULL },
};
