/* SPDX-License-Identifier: MIT */
/*
 * Waiting, and its three ends: granted, out of time, cancelled.
 *
 * After a wait that ended without a grant nothing may be held and nothing queued. The
 * two races at the end of the file let the grant and the other end happen at the same
 * moment, many times over: whichever wins, the lock must be free afterwards.
 */
#include <sys/resource.h>

#include "contract.h"

#define TWO_YEARS_MS (INT64_C(2) * 365 * 24 * 3600 * 1000)

static void timeout_right_code(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    hf_hold *other = NULL;
    int64_t since = real_ms();
    CHECK_RC(take(e, b, &other, .rival = true, .timeout = 30), HF_ETIMEOUT);
    int64_t took = real_ms() - since;
    CHECK(took >= 29); /* two clocks, each rounded down */
    CHECK(took < 5000);
    CHECK(other == NULL);
    CHECK_EQ(seen(e, b, HF_WAITER), 0);

    since = real_ms();
    hf_op *op = begin(e, b, NULL, NULL, .rival = true, .timeout = 30);
    CHECK_RC(op_end(op, HF_FOREVER, &other), HF_ETIMEOUT);
    CHECK(real_ms() - since >= 29);
    CHECK_EQ(seen(e, b, HF_WAITER), 0);
    let_go(hold);
    check_free(e);
}

/* The same lock, waited for by a thread of the client that holds it. */
static void timeout_in_own_client(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    hf_hold *other = NULL;
    int64_t since = real_ms();
    CHECK_RC(take(e, client, &other, .rival = true, .timeout = 30, .who = 2),
             HF_ETIMEOUT);
    CHECK(real_ms() - since >= 29);
    CHECK_EQ(seen(e, client, HF_WAITER), 0);
    let_go(hold);
    check_free(e);
}

static void long_timeout(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TWO_YEARS_MS);
    hf_hold *other = NULL;
    hf_op *op = begin(e, b, NULL, NULL, .rival = true, .timeout = 3600 * 1000);
    /* An answer under way must not look as if it had taken an hour: the waiter itself
     * asks, behind what it has asked before. And later not as long as answers may. */
    EVENTUALLY(queued(e, b, 1));
    clock_advance(3598 * 1000);
    CHECK_RC(hf_op_wait(op, 20, &other, NULL), HF_ETIMEOUT);
    CHECK(!hf_op_done(op));
    clock_advance(3 * 1000);
    CHECK_RC(op_end(op, HF_FOREVER, &other), HF_ETIMEOUT);
    CHECK_EQ(seen(e, a, HF_WAITER), 0);
    let_go(hold);
}

static void forever_is_forever(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TWO_YEARS_MS);
    hf_hold *other = NULL;
    hf_op *op = begin(e, b, NULL, NULL, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, a, 1));
    clock_advance(INT64_C(366) * 24 * 3600 * 1000);
    CHECK_RC(hf_op_wait(op, 20, &other, NULL), HF_ETIMEOUT);
    CHECK(!hf_op_done(op));
    EVENTUALLY(queued(e, a, 1)); /* a queue may have a lease, too, and be renewed now */
    let_go(hold);
    CHECK_RC(op_end(op, HF_FOREVER, &other), 0);
    let_go(other);
}

/* ---- Cancel ---------------------------------------------------------------------- */

static void cancel_while_waiting(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    hf_hold *other = NULL;
    hf_op *op = begin(e, b, NULL, NULL, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, a, 1));
    hf_op_cancel(op);
    CHECK_RC(op_end(op, HF_FOREVER, &other), HF_ECANCELLED);
    CHECK(other == NULL);
    CHECK_EQ(seen(e, a, HF_WAITER), 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    let_go(hold);
    check_free(e);
}

/* At once, before anybody can know whether the ticket stands in the queue. */
static void cancel_at_once(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    for (int i = 0; i < 20; i++) {
        hf_hold *other = NULL;
        hf_client *client = i % 2 ? a : b;
        hf_op *op = begin(e, client, NULL, NULL, .rival = true, .timeout = HF_FOREVER,
                          .who = 2);
        hf_op_cancel(op);
        hf_op_cancel(op);
        CHECK_RC(op_end(op, HF_FOREVER, &other), HF_ECANCELLED);
    }
    CHECK_EQ(seen(e, a, HF_WAITER), 0);
    let_go(hold);
    check_free(e);
}

static void cancel_with_callback(struct env *e)
{
    struct told told = { 0 };
    struct wants wants;
    hf_op *op = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    options.timeout_ms = HF_FOREVER;
    options.ttl_ms = e->form->ttl_ms;
    options.owner = 2;
    form_wants(e->form, &wants, THING, true);
    CHECK_RC(hf_acquire_async(b, wants.want, wants.count, &options, told_hold, &told,
                              &op, NULL),
             0);
    EVENTUALLY(queued(e, a, 1));
    hf_op_cancel(op);
    EVENTUALLY(atomic_load(&told.ended) == 1);
    CHECK_RC(told.rc, HF_ECANCELLED);
    hf_op_free(op);
    let_go(hold);
}

static void cancel_after_end(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = NULL;
    hf_op *op = begin(e, client, NULL, NULL, .timeout = HF_FOREVER);
    EVENTUALLY(hf_op_done(op));
    hf_op_cancel(op);
    CHECK_RC(op_end(op, HF_FOREVER, &hold), 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    let_go(hold);
}

/* The first in the queue gives up; the one behind it is not forgotten. */
static void cancel_lets_next_in(struct env *e)
{
    hf_client *clients[3] = { client_open(e), client_open(e), client_open(e) };
    hf_hold *hold = held(e, clients[0]);
    hf_hold *other = NULL;
    hf_op *first =
        begin(e, clients[1], NULL, NULL, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, clients[0], 1));
    hf_op *second =
        begin(e, clients[2], NULL, NULL, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, clients[0], 2));
    hf_op_cancel(first);
    CHECK_RC(op_end(first, HF_FOREVER, &other), HF_ECANCELLED);
    let_go(hold);
    CHECK_RC(op_end(second, HF_FOREVER, &other), 0);
    let_go(other);
}

/* ---- Races ----------------------------------------------------------------------- */

#define RACES 200

struct race {
    pthread_barrier_t barrier;
    hf_op *op;
};

static void *race_canceller(void *arg)
{
    struct race *race = arg;
    for (int i = 0; i < RACES; i++) {
        pthread_barrier_wait(&race->barrier);
        hf_op_cancel(race->op);
        pthread_barrier_wait(&race->barrier);
    }
    return NULL;
}

static void race_round(struct env *e, struct race *race, hf_client *a, hf_client *b)
{
    hf_hold *other = NULL;
    hf_hold *hold = held(e, a, .timeout = HF_FOREVER);
    race->op = begin(e, b, NULL, NULL, .rival = true, .timeout = HF_FOREVER, .who = 2);
    pthread_barrier_wait(&race->barrier);
    let_go(hold);
    pthread_barrier_wait(&race->barrier);
    int rc = op_end(race->op, HF_FOREVER, &other);
    CHECK(rc == 0 || rc == HF_ECANCELLED);
    CHECK((rc == 0) == (other != NULL));
    if (rc == 0)
        let_go(other);
}

static void cancel_races_grant(struct env *e)
{
    struct race race;
    pthread_t thread;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    CHECK_EQ(pthread_barrier_init(&race.barrier, NULL, 2), 0);
    CHECK_EQ(pthread_create(&thread, NULL, race_canceller, &race), 0);
    for (int i = 0; i < RACES; i++)
        race_round(e, &race, a, i % 2 ? a : b);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&race.barrier);
    CHECK_EQ(seen(e, a, HF_HOLDER), 0);
    CHECK_EQ(seen(e, a, HF_WAITER), 0);
    check_free(e);
}

static void timeout_races_grant(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    for (int i = 0; i < 30; i++) {
        hf_hold *other = NULL;
        hf_hold *hold = held(e, a, .timeout = HF_FOREVER);
        hf_op *op =
            begin(e, i % 2 ? a : b, NULL, NULL, .rival = true, .timeout = 1, .who = 2);
        int64_t since = real_ms();
        while (real_ms() == since)
            ;
        let_go(hold);
        int rc = op_end(op, HF_FOREVER, &other);
        CHECK(rc == 0 || rc == HF_ETIMEOUT);
        CHECK((rc == 0) == (other != NULL));
        if (rc == 0)
            let_go(other);
    }
    CHECK_EQ(seen(e, a, HF_HOLDER), 0);
    check_free(e);
}

/* ---- Waiters sleep --------------------------------------------------------------- */

static int64_t cpu_us(void)
{
    struct rusage usage;
    CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

/* Four waiters for a fifth of a second: a loop would burn most of it. */
static void waiting_costs_nothing(struct env *e)
{
    struct contender waiters[4];
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    int64_t before = cpu_us();
    for (size_t i = 0; i < 4; i++)
        contend(&waiters[i], e, i % 2 ? a : b, .rival = true, .timeout = 200,
                .who = i + 2);
    for (size_t i = 0; i < 4; i++)
        CHECK_RC(contender_join(&waiters[i]), HF_ETIMEOUT);
    CHECK(cpu_us() - before < 60000);
    let_go(hold);
}

const struct scenario scenarios_waiting[] = {
    { "timeout-right-code", LOCKS, HF_CAP_INSPECT, 0, timeout_right_code },
    { "timeout-in-own-client", LOCKS, HF_CAP_INSPECT, 0, timeout_in_own_client },
    { "long-timeout", LOCKS, HF_CAP_INSPECT | HF_CAP_LEASE, CLOCK, long_timeout },
    { "forever-is-forever", LOCKS, HF_CAP_INSPECT | HF_CAP_LEASE | NEED_LONG, CLOCK,
      forever_is_forever },
    { "cancel-while-waiting", LOCKS, HF_CAP_INSPECT, 0, cancel_while_waiting },
    { "cancel-at-once", LOCKS, HF_CAP_INSPECT, 0, cancel_at_once },
    { "cancel-with-callback", LOCKS, HF_CAP_INSPECT, 0, cancel_with_callback },
    { "cancel-after-end", LOCKS, 0, 0, cancel_after_end },
    { "cancel-lets-next-in", LOCKS, HF_CAP_INSPECT, 0, cancel_lets_next_in },
    { "cancel-races-grant", LOCKS, HF_CAP_INSPECT, 0, cancel_races_grant },
    { "timeout-races-grant", LOCKS, HF_CAP_INSPECT, 0, timeout_races_grant },
    { "waiting-costs-nothing", MUTEX | READ | PERMITS | MULTI, 0, 0,
      waiting_costs_nothing },
    { NULL, 0, 0, 0, NULL },
};
