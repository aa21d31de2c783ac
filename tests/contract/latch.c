/* SPDX-License-Identifier: MIT */
/*
 * The count-down latch: set, counted down by many, waited for by many, set again.
 *
 * An open latch is the same as none, so every scenario ends with latches counted down,
 * and nothing of them may be left.
 */
#include "../harness/faults.h"
#include "contract.h"

static uint32_t latch_count(hf_client *client)
{
    uint32_t count = 77;
    CHECK_RC(hf_latch_count(client, THING, &count, NULL), 0);
    return count;
}

static uint32_t latch_down(hf_client *client, uint32_t by)
{
    uint32_t left = 77;
    CHECK_RC(hf_latch_count_down(client, THING, by, &left, NULL), 0);
    return left;
}

static hf_op *latch_begun(hf_client *client, int64_t timeout)
{
    hf_op *op = NULL;
    CHECK_RC(hf_latch_wait_async(client, THING, timeout, NULL, NULL, &op, NULL), 0);
    return op;
}

static void latch_counts_down(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    CHECK_EQ(latch_count(a), 0);
    CHECK_RC(hf_latch_set(a, THING, 5, NULL), 0);
    CHECK_EQ(latch_count(b), 5);
    CHECK_EQ(latch_down(b, 1), 4);
    CHECK_EQ(latch_down(a, 2), 2);
    CHECK_RC(hf_latch_count_down(a, THING, 1, NULL, NULL), 0);
    CHECK_EQ(latch_count(a), 1);
    CHECK_EQ(latch_down(b, 1), 0);
    CHECK_EQ(latch_count(a), 0);
}

static void latch_is_never_below_zero(struct env *e)
{
    hf_client *client = client_open(e);
    CHECK_EQ(latch_down(client, 1), 0);
    CHECK_RC(hf_latch_set(client, THING, 2, NULL), 0);
    CHECK_EQ(latch_down(client, UINT32_MAX), 0);
    CHECK_EQ(latch_down(client, 1), 0);
    CHECK_EQ(latch_count(client), 0);
    CHECK_RC(hf_latch_set(client, THING, UINT32_MAX, NULL), 0);
    CHECK_EQ(latch_down(client, 1), UINT32_MAX - 1);
    CHECK_EQ(latch_down(client, UINT32_MAX), 0);
}

static void latch_set_while_counting(struct env *e)
{
    hf_error why = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    CHECK_RC(hf_latch_set(a, THING, 2, NULL), 0);
    CHECK_RC(hf_latch_set(b, THING, 9, &why), HF_EBUSY);
    CHECK(why.code == HF_EBUSY && why.text[0]);
    CHECK_EQ(latch_count(b), 2);
    latch_down(a, 2);
    CHECK_RC(hf_latch_set(b, THING, 9, NULL), 0);
    CHECK_EQ(latch_count(a), 9);
    latch_down(a, 9);
}

static void open_latch_lets_through(struct env *e)
{
    struct told told = { 0 };
    hf_client *client = client_open(e);
    CHECK_RC(hf_latch_wait(client, THING, 0, NULL), 0);
    CHECK_RC(hf_latch_wait(client, THING, HF_FOREVER, NULL), 0);
    CHECK_RC(hf_latch_set(client, THING, 1, NULL), 0);
    CHECK_RC(hf_latch_wait(client, THING, 0, NULL), HF_EBUSY);
    latch_down(client, 1);
    CHECK_RC(hf_latch_wait(client, THING, 0, NULL), 0);
    CHECK_RC(
        hf_latch_wait_async(client, THING, HF_FOREVER, told_done, &told, NULL, NULL),
        0);
    EVENTUALLY(atomic_load(&told.ended) == 1);
    CHECK_RC(told.rc, 0);
}

static void zero_wakes_all(struct env *e)
{
    hf_client *clients[3] = { client_open(e), client_open(e), client_open(e) };
    struct told told[4] = { { 0 } };
    hf_op *ops[4];
    CHECK_RC(hf_latch_set(clients[0], THING, 2, NULL), 0);
    for (int i = 0; i < 4; i++) {
        ops[i] = latch_begun(clients[i % 3], HF_FOREVER);
        CHECK_RC(hf_latch_wait_async(clients[i % 3], THING, HF_FOREVER, told_done,
                                     &told[i], NULL, NULL),
                 0);
    }
    latch_down(clients[1], 1);
    for (int i = 0; i < 4; i++)
        CHECK(!hf_op_done(ops[i]) && atomic_load(&told[i].ended) == 0);
    latch_down(clients[2], 1);
    for (int i = 0; i < 4; i++) {
        CHECK_RC(op_end(ops[i], HF_FOREVER, NULL), 0);
        EVENTUALLY(atomic_load(&told[i].ended) == 1);
        CHECK_RC(told[i].rc, 0);
    }
}

static void *latch_waiter(void *arg)
{
    CHECK_RC(hf_latch_wait(arg, THING, HF_FOREVER, NULL), 0);
    return NULL;
}

static void zero_wakes_blocked_threads(struct env *e)
{
    pthread_t threads[3];
    hf_client *clients[2] = { client_open(e), client_open(e) };
    CHECK_RC(hf_latch_set(clients[0], THING, 1, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, latch_waiter, clients[i % 2]), 0);
    EVENTUALLY(seen(e, clients[0], HF_WAITER) > 0);
    latch_down(clients[0], 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* It opened while we waited; that somebody set it again at once is not our concern. */
static void opened_counts_though_set_again(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    for (int i = 0; i < 20; i++) {
        CHECK_RC(hf_latch_set(a, THING, 1, NULL), 0);
        hf_op *op = latch_begun(b, HF_FOREVER);
        EVENTUALLY(queued(e, a, 1));
        latch_down(a, 1);
        CHECK_RC(hf_latch_set(a, THING, 1, NULL), 0);
        CHECK_RC(op_end(op, HF_FOREVER, NULL), 0);
        CHECK_RC(hf_latch_wait(b, THING, 0, NULL), HF_EBUSY);
        latch_down(b, 1);
    }
}

static void latch_wait_ends_in_time(struct env *e)
{
    hf_client *client = client_open(e);
    CHECK_RC(hf_latch_set(client, THING, 1, NULL), 0);
    int64_t since = real_ms();
    CHECK_RC(hf_latch_wait(client, THING, 20, NULL), HF_ETIMEOUT);
    CHECK(real_ms() - since >= 19);
    CHECK_RC(op_end(latch_begun(client, 20), HF_FOREVER, NULL), HF_ETIMEOUT);
    CHECK_EQ(seen(e, client, HF_WAITER), 0);
    latch_down(client, 1);
}

static void latch_wait_is_cancelled(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    CHECK_RC(hf_latch_set(a, THING, 1, NULL), 0);
    hf_op *op = latch_begun(b, HF_FOREVER);
    EVENTUALLY(queued(e, a, 1));
    hf_op_cancel(op);
    CHECK_RC(op_end(op, HF_FOREVER, NULL), HF_ECANCELLED);
    hf_op_free(latch_begun(b, HF_FOREVER));
    EVENTUALLY(seen(e, a, HF_WAITER) == 0);
    latch_down(a, 1);
}

static void latch_wait_is_closed(struct env *e)
{
    struct told told = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    CHECK_RC(hf_latch_set(a, THING, 1, NULL), 0);
    CHECK_RC(hf_latch_wait_async(b, THING, HF_FOREVER, told_done, &told, NULL, NULL),
             0);
    client_close(e, b);
    CHECK_EQ(told.ended, 1);
    CHECK_RC(told.rc, HF_ECLOSED);
    CHECK_EQ(seen(e, a, HF_WAITER), 0);
    latch_down(a, 1);
}

struct crowd {
    hf_client *clients[4];
    atomic_int zeros;
};

static void crowd_member(void *arg, size_t number)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < 10; i++)
        if (latch_down(crowd->clients[number % 4], 1) == 0)
            atomic_fetch_add(&crowd->zeros, 1);
}

static void crowd_counts_exactly(struct env *e)
{
    struct crowd crowd = { .zeros = 0 };
    for (int i = 0; i < 4; i++)
        crowd.clients[i] = client_open(e);
    CHECK_RC(hf_latch_set(crowd.clients[0], THING, 82, NULL), 0);
    hf_op *op = latch_begun(crowd.clients[1], HF_FOREVER);
    threads_run(8, crowd_member, &crowd);
    CHECK_EQ(latch_count(crowd.clients[2]), 2);
    CHECK_EQ(crowd.zeros, 0);
    CHECK(!hf_op_done(op));
    latch_down(crowd.clients[3], 2);
    CHECK_RC(op_end(op, HF_FOREVER, NULL), 0);
}

static void latch_is_shown(struct env *e)
{
    hf_report *report = NULL;
    hf_client *client = client_open(e);
    CHECK_RC(hf_latch_set(client, THING, 3, NULL), 0);
    CHECK_RC(hf_inspect(client, THING, false, &report, NULL), 0);
    CHECK_EQ(hf_report_count(report), 1);
    const hf_entry *entry = hf_report_entry(report, 0);
    CHECK_EQ(entry->kind, HF_LATCH);
    CHECK_EQ(entry->role, HF_OBJECT);
    CHECK_EQ(entry->permits, 3);
    CHECK_TEXT(entry->name, THING);
    hf_report_free(report);
    latch_down(client, 3);
    CHECK_EQ(seen(e, client, HF_OBJECT), 0);
}

static void latch_between_processes(struct env *e)
{
    struct taker *takers[2];
    hf_client *client = client_open(e);
    CHECK_RC(hf_latch_set(client, THING, 2, NULL), 0);
    takers[0] = taker_start(e, NULL);
    takers[1] = taker_start(e, NULL);
    taker_say(takers[0], "await " THING " -1");
    EVENTUALLY(queued(e, client, 1));
    hf_op *op = latch_begun(client, HF_FOREVER);
    taker_say(takers[1], "down " THING " 2");
    taker_expect(takers[1], "done");
    taker_expect(takers[0], "done");
    CHECK_RC(op_end(op, HF_FOREVER, NULL), 0);
}

/* A latch belongs to nobody: the end of who set it changes nothing. */
static void latch_outlives_its_maker(struct env *e)
{
    hf_client *b = client_open(e);
    hf_client *a = client_open(e);
    CHECK_RC(hf_latch_set(a, THING, 2, NULL), 0);
    client_close(e, a);
    CHECK_EQ(latch_count(b), 2);
    latch_down(b, 2);
}

/* The answer is lost, core asks again, and still it counts once. */
static void lost_reply_counts_once(struct env *e)
{
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = hasty_ms(e);
    hf_client *client = client_with(e, &options);
    CHECK_RC(hf_latch_set(client, THING, 9, NULL), 0);
    for (uint64_t n = 1; n <= 2; n++) {
        fault_lose(HF_FAULT_ASK, 1, n);
        CHECK_RC(hf_latch_count_down(client, THING, 1, NULL, NULL), 0);
        fault_none();
        CHECK_EQ(latch_count(client), 9 - n);
    }
    CHECK_EQ(latch_down(client, 7), 0);
}

/* Set once, and asked again because nobody said so: not "busy". */
static void lost_reply_sets_once(struct env *e)
{
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = hasty_ms(e);
    hf_client *client = client_with(e, &options);
    fault_lose(HF_FAULT_ASK, 1, 2);
    CHECK_RC(hf_latch_set(client, THING, 3, NULL), 0);
    fault_none();
    CHECK_EQ(latch_count(client), 3);
    CHECK_RC(hf_latch_set(client, THING, 3, NULL), HF_EBUSY);
    CHECK_EQ(latch_down(client, 3), 0);
}

const struct scenario scenarios_latch[] = {
    { "latch-counts-down", LATCH, 0, 0, latch_counts_down },
    { "latch-is-never-below-zero", LATCH, 0, 0, latch_is_never_below_zero },
    { "latch-set-while-counting", LATCH, 0, 0, latch_set_while_counting },
    { "open-latch-lets-through", LATCH, 0, 0, open_latch_lets_through },
    { "zero-wakes-all", LATCH, 0, 0, zero_wakes_all },
    { "zero-wakes-blocked-threads", LATCH, HF_CAP_INSPECT, 0,
      zero_wakes_blocked_threads },
    { "opened-counts-though-set-again", LATCH, HF_CAP_INSPECT, 0,
      opened_counts_though_set_again },
    { "latch-wait-ends-in-time", LATCH, HF_CAP_INSPECT, 0, latch_wait_ends_in_time },
    { "latch-wait-is-cancelled", LATCH, HF_CAP_INSPECT, 0, latch_wait_is_cancelled },
    { "latch-wait-is-closed", LATCH, HF_CAP_INSPECT, 0, latch_wait_is_closed },
    { "crowd-counts-exactly", LATCH, 0, 0, crowd_counts_exactly },
    { "latch-is-shown", LATCH, HF_CAP_INSPECT, 0, latch_is_shown },
    { "latch-between-processes", LATCH, HF_CAP_PROCESSES | HF_CAP_INSPECT, 0,
      latch_between_processes },
    { "latch-outlives-its-maker", LATCH, 0, 0, latch_outlives_its_maker },
    { "lost-reply-sets-once", LATCH, NEED_FAULT, 0, lost_reply_sets_once },
    { "lost-reply-counts-once", LATCH, NEED_FAULT, 0, lost_reply_counts_once },
    { NULL, 0, 0, 0, NULL },
};
