/* SPDX-License-Identifier: MIT */
/*
 * Fair locks, which are strictly first come, first served, and reentrant ones, which
 * count for their owner.
 */
#include <unistd.h>

#include "contract.h"

/* ---- Fair ------------------------------------------------------------------------ */

#define QUEUE 10

struct queue {
    struct env *e;
    hf_client *watcher;
    hf_op *ops[QUEUE];
};

/* One more at the end of the queue, which is seen to stand there. */
static void queue_join(struct queue *queue, hf_client *client, size_t number)
{
    queue->ops[number] =
        begin(queue->e, client, NULL, NULL, .timeout = HF_FOREVER, .who = number + 2);
    EVENTUALLY(queued(queue->e, queue->watcher, number + 1));
}

/* Lets one after the other in and checks that nobody who came later is in before. */
static void queue_drain(struct queue *queue)
{
    uint64_t last = 0;
    for (size_t i = 0; i < QUEUE; i++) {
        hf_hold *hold = NULL;
        if (!queue->ops[i])
            continue;
        CHECK_RC(op_end(queue->ops[i], HF_FOREVER, &hold), 0);
        for (size_t j = i + 1; j < QUEUE; j++)
            CHECK(!queue->ops[j] || !hf_op_done(queue->ops[j]));
        CHECK(hf_hold_token(hold, 0) > last);
        last = hf_hold_token(hold, 0);
        let_go(hold);
    }
}

static void first_come_first_served(struct env *e)
{
    struct queue queue = { .e = e, .watcher = client_open(e) };
    hf_hold *hold = held(e, queue.watcher);
    for (size_t i = 0; i < QUEUE; i++)
        queue_join(&queue, client_open(e), i);
    let_go(hold);
    queue_drain(&queue);
}

/* Also when several of them come from one client, and between them others. */
static void order_within_client(struct env *e)
{
    struct queue queue = { .e = e, .watcher = client_open(e) };
    hf_client *clients[2] = { client_open(e), client_open(e) };
    hf_hold *hold = held(e, queue.watcher);
    for (size_t i = 0; i < QUEUE; i++)
        queue_join(&queue, clients[i / 2 % 2], i);
    let_go(hold);
    queue_drain(&queue);
}

static void order_without_the_cancelled(struct env *e)
{
    struct queue queue = { .e = e, .watcher = client_open(e) };
    hf_hold *hold = held(e, queue.watcher);
    hf_hold *none = NULL;
    for (size_t i = 0; i < QUEUE; i++)
        queue_join(&queue, client_open(e), i);
    for (size_t i = 0; i < QUEUE; i += 3) {
        hf_op_cancel(queue.ops[i]);
        CHECK_RC(op_end(queue.ops[i], HF_FOREVER, &none), HF_ECANCELLED);
        queue.ops[i] = NULL;
    }
    EVENTUALLY(queued(e, queue.watcher, 6));
    let_go(hold);
    queue_drain(&queue);
}

/* Three of ten are processes, and they die in the queue. */
static void order_without_the_dead(struct env *e)
{
    struct taker *takers[QUEUE];
    struct queue queue = { .e = e, .watcher = client_open(e) };
    hf_hold *hold = held(e, queue.watcher);
    for (size_t i = 0; i < QUEUE; i++) {
        if (i % 3 != 1) {
            queue_join(&queue, client_open(e), i);
            continue;
        }
        takers[i] = taker_start(e, NULL);
        taker_begin(e, takers[i], THING, HF_FOREVER, 0, 0);
        EVENTUALLY(queued(e, queue.watcher, i + 1));
    }
    for (size_t i = 1; i < QUEUE; i += 3)
        taker_kill(takers[i]);
    let_go(hold);
    queue_drain(&queue);
}

/* A try does not jump the queue, and neither does who just let go. */
static void nobody_barges_in(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *other = NULL;
    for (int i = 0; i < 20; i++) {
        hf_hold *hold = held(e, a, .timeout = HF_FOREVER);
        hf_op *op = begin(e, b, NULL, NULL, .timeout = HF_FOREVER, .who = 2);
        EVENTUALLY(queued(e, a, 1));
        let_go(hold);
        CHECK_BUSY(e, a);
        CHECK_RC(op_end(op, HF_FOREVER, &other), 0);
        let_go(other);
    }
}

/* ---- Reentrant ------------------------------------------------------------------- */

/* By thread: no owner is named. */
static int thread_take(hf_client *client, hf_hold **ret_hold)
{
    hf_want want = hf_reentrant(THING);
    return hf_acquire(client, &want, 1, NULL, ret_hold, NULL);
}

static void *thread_is_busy(void *arg)
{
    hf_hold *none = NULL;
    CHECK_RC(thread_take(arg, &none), HF_EBUSY);
    return NULL;
}

static void in_another_thread(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, body, arg), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void thread_enters_again(struct env *e)
{
    hf_hold *holds[3];
    hf_client *client = client_open(e);
    for (int i = 0; i < 3; i++) {
        CHECK_RC(thread_take(client, &holds[i]), 0);
        CHECK_EQ(hf_hold_token(holds[i], 0), hf_hold_token(holds[0], 0));
        CHECK_EQ(hf_hold_state(holds[i]), HF_HELD);
    }
    CHECK(holds[0] != holds[1] && holds[1] != holds[2]);
    for (int i = 0; i < 3; i++) {
        in_another_thread(thread_is_busy, client);
        CHECK_BUSY(e, client, .who = 99);
        let_go(holds[i]);
    }
    check_free(e);
}

static void owner_enters_again(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *outer = held(e, client, .who = 5);
    hf_hold *inner = held(e, client, .who = 5, .timeout = HF_FOREVER);
    hf_hold *async = NULL;
    CHECK_RC(op_end(begin(e, client, NULL, NULL, .who = 5), HF_FOREVER, &async), 0);
    CHECK_BUSY(e, client, .who = 6);
    CHECK_EQ(hf_hold_token(inner, 0), hf_hold_token(outer, 0));
    CHECK_EQ(hf_hold_token(async, 0), hf_hold_token(outer, 0));
    let_go(outer); /* in any order */
    CHECK_BUSY(e, client, .who = 6);
    let_go(async);
    CHECK_BUSY(e, client, .who = 6);
    CHECK_RC(hf_hold_verify(inner, NULL), 0);
    let_go(inner);
    check_free(e);
}

/* Others wait already: entering again is not waiting. */
static void enters_past_waiters(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *other = NULL;
    hf_hold *outer = held(e, a, .who = 5);
    hf_op *ops[2] = { begin(e, a, NULL, NULL, .who = 6, .timeout = HF_FOREVER),
                      begin(e, b, NULL, NULL, .who = 5, .timeout = HF_FOREVER) };
    let_go(held(e, a, .who = 5));
    CHECK(!hf_op_done(ops[0]) && !hf_op_done(ops[1]));
    let_go(outer);
    EVENTUALLY(hf_op_done(ops[0]) || hf_op_done(ops[1]));
    int first = hf_op_done(ops[0]) ? 0 : 1;
    CHECK_RC(op_end(ops[first], HF_FOREVER, &other), 0);
    CHECK(!hf_op_done(ops[1 - first]));
    let_go(other);
    CHECK_RC(op_end(ops[1 - first], HF_FOREVER, &other), 0);
    let_go(other);
}

static void evicted_with_all_its_holds(struct env *e)
{
    struct told told[2] = { { 0 } };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *holds[2] = { held(e, a, .who = 5), held(e, a, .who = 5) };
    for (int i = 0; i < 2; i++)
        CHECK_RC(hf_hold_watch(holds[i], told_event, &told[i], NULL), 0);
    holder_evict(e, b);
    for (int i = 0; i < 2; i++) {
        EVENTUALLY(atomic_load(&told[i].lost) == 1);
        CHECK_RC(hf_release(holds[i], NULL), HF_ELOST);
    }
    check_free(e);
}

/* A new owner of the same number is not in by having the number. */
static void count_ends_with_release(struct env *e)
{
    hf_client *client = client_open(e);
    for (int i = 0; i < 5; i++) {
        hf_hold *outer = held(e, client, .who = 5);
        uint64_t token = hf_hold_token(outer, 0);
        let_go(held(e, client, .who = 5));
        let_go(outer);
        hf_hold *next = held(e, client, .who = 6);
        CHECK(hf_hold_token(next, 0) > token);
        CHECK_BUSY(e, client, .who = 5);
        let_go(next);
    }
}

/* A thread that has ended still holds; a new one is not it, though it may have its
 * memory. */
static void *thread_keeps(void *arg)
{
    hf_hold *kept = NULL;
    CHECK_RC(thread_take(arg, &kept), 0);
    return kept;
}

static void thread_that_ended_is_not_the_next(struct env *e)
{
    hf_client *client = client_open(e);
    pthread_t thread;
    void *hold = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, thread_keeps, client), 0);
    CHECK_EQ(pthread_join(thread, &hold), 0);
    for (int i = 0; i < 4; i++)
        in_another_thread(thread_is_busy, client);
    let_go(hold);
    check_free(e);
}

/* Offered to a waiter of this client that is still asleep, the lock has no owner: its
 * last one gets it with what it asks for now, or not at all. */
static void an_offer_has_no_owner(struct env *e)
{
    hf_client *client = client_open(e);
    for (int i = 0; i < 20; i++) {
        struct contender next;
        hf_hold *again = NULL;
        hf_hold *hold = held(e, client, .who = 5);
        contend(&next, e, client, .who = 6, .timeout = HF_FOREVER);
        usleep(2000); /* pause: it should be asleep, where no look shows it */
        let_go(hold);
        int rc = take(e, client, &again, .who = 5, .ttl = 2000, .flags = HF_FIXED);
        CHECK(rc == 0 || rc == HF_EBUSY);
        if (rc == 0) {
            CHECK(hf_hold_left_ms(again) >= 0 && hf_hold_left_ms(again) <= 2000);
            let_go(again);
        }
        CHECK_RC(contender_join(&next), 0);
        let_go(next.hold);
    }
}

const struct scenario scenarios_order[] = {
    { "first-come-first-served", FAIR, HF_CAP_INSPECT, 0, first_come_first_served },
    { "order-within-client", FAIR, HF_CAP_INSPECT, 0, order_within_client },
    { "order-without-the-cancelled", FAIR, HF_CAP_INSPECT, 0,
      order_without_the_cancelled },
    { "order-without-the-dead", FAIR, HF_CAP_INSPECT | HF_CAP_PROCESSES | HF_CAP_CRASH,
      0, order_without_the_dead },
    { "nobody-barges-in", FAIR, HF_CAP_INSPECT, 0, nobody_barges_in },
    { "thread-enters-again", REENTRANT, 0, 0, thread_enters_again },
    { "owner-enters-again", REENTRANT, 0, 0, owner_enters_again },
    { "enters-past-waiters", REENTRANT, 0, 0, enters_past_waiters },
    { "evicted-with-all-its-holds", REENTRANT, HF_CAP_INSPECT | HF_CAP_EVICT, 0,
      evicted_with_all_its_holds },
    { "count-ends-with-release", REENTRANT, 0, 0, count_ends_with_release },
    { "thread-that-ended-is-not-the-next", REENTRANT, 0, 0,
      thread_that_ended_is_not_the_next },
    { "an-offer-has-no-owner", REENTRANT, HF_CAP_LEASE, 0, an_offer_has_no_owner },
    { NULL, 0, 0, 0, NULL },
};
