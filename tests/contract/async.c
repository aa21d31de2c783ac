/* SPDX-License-Identifier: MIT */
/*
 * Operations and callbacks: started, ended exactly once, waited for, given up.
 *
 * Callbacks here run on the library's thread; loop.c has the ones of a user's own loop.
 */
#include "contract.h"

static void async_take_and_release(struct env *e)
{
    struct told taken = { 0 };
    struct told released = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    CHECK(begin(e, a, told_hold, &taken) == NULL);
    EVENTUALLY(atomic_load(&taken.ended) == 1);
    CHECK_RC(taken.rc, 0);
    CHECK_BUSY(e, b, .rival = true);
    CHECK_RC(hf_release_async(taken.hold, told_done, &released, NULL), 0);
    EVENTUALLY(atomic_load(&released.ended) == 1);
    CHECK_RC(released.rc, 0);
    check_free(e);
    CHECK_EQ(taken.ended, 1);
}

/* Every mix of a blocking and a non-blocking take and release. */
static void async_and_blocking_mix(struct env *e)
{
    hf_client *client = client_open(e);
    for (int i = 0; i < 4; i++) {
        hf_hold *hold = NULL;
        if (i & 1)
            hold = held(e, client, .timeout = HF_FOREVER);
        else
            CHECK_RC(op_end(begin(e, client, NULL, NULL, .timeout = HF_FOREVER),
                            HF_FOREVER, &hold),
                     0);
        CHECK_EQ(hf_hold_state(hold), HF_HELD);
        if (i & 2)
            let_go(hold);
        else
            CHECK_RC(hf_release_async(hold, NULL, NULL, NULL), 0);
    }
    client_close(e, client);
    check_free(e);
}

static void async_try_is_busy(struct env *e)
{
    struct told told = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    hf_hold *other = NULL;
    begin(e, b, told_hold, &told, .rival = true);
    EVENTUALLY(atomic_load(&told.ended) == 1);
    CHECK_RC(told.rc, HF_EBUSY);
    CHECK_RC(
        op_end(begin(e, a, NULL, NULL, .rival = true, .who = 2), HF_FOREVER, &other),
        HF_EBUSY);
    let_go(hold);
}

static void async_release_twice(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    CHECK_RC(hf_release_async(hold, NULL, NULL, NULL), 0);
    CHECK_RC(hf_release_async(hold, NULL, NULL, NULL), HF_ERELEASED);
    CHECK_RC(hf_release(hold, NULL), HF_ERELEASED);
}

static void op_wait_in_steps(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    hf_hold *other = NULL;
    hf_op *op = begin(e, b, NULL, NULL, .rival = true, .timeout = HF_FOREVER);
    CHECK_RC(hf_op_wait(op, 0, &other, NULL), HF_ETIMEOUT);
    CHECK_RC(hf_op_wait(op, 10, &other, NULL), HF_ETIMEOUT);
    CHECK(!hf_op_done(op));
    CHECK(other == NULL);
    let_go(hold);
    CHECK_RC(hf_op_wait(op, HF_FOREVER, &other, NULL), 0);
    CHECK(hf_op_done(op));
    hf_op_free(op);
    CHECK_EQ(hf_hold_state(other), HF_HELD);
    let_go(other);
}

/* An op that nobody wants any more takes its ticket along. */
static void op_free_while_waiting(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    for (int i = 0; i < 10; i++)
        hf_op_free(begin(e, i % 2 ? a : b, NULL, NULL, .rival = true,
                         .timeout = HF_FOREVER, .who = 2));
    EVENTUALLY(seen(e, a, HF_WAITER) == 0);
    let_go(hold);
    check_free(e);
}

/* And one that was granted gives the lock back. */
static void op_free_with_hold(struct env *e)
{
    hf_client *client = client_open(e);
    for (int i = 0; i < 10; i++) {
        hf_op *op = begin(e, client, NULL, NULL, .timeout = HF_FOREVER);
        EVENTUALLY(hf_op_done(op));
        hf_op_free(op);
    }
    EVENTUALLY(seen(e, client, HF_HOLDER) == 0);
    check_free(e);
}

static void op_free_races_grant(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    for (int i = 0; i < 50; i++) {
        hf_hold *hold = held(e, a, .timeout = HF_FOREVER);
        hf_op *op = begin(e, i % 2 ? a : b, NULL, NULL, .rival = true,
                          .timeout = HF_FOREVER, .who = 2);
        CHECK_RC(hf_release_async(hold, NULL, NULL, NULL), 0);
        hf_op_free(op);
    }
    EVENTUALLY(seen(e, a, HF_HOLDER) == 0);
    let_go(held(e, a, .rival = true, .timeout = HF_FOREVER)); /* places go by and by */
}

/* ---- Inside a callback ----------------------------------------------------------- */

struct inside {
    struct env *e;
    hf_client *client;
    struct told next;
    atomic_int done;
    bool async;
};

/* Releases what it was just given, one way or the other, and asks again. */
static void inside_release(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct inside *inside = user;
    (void)why;
    CHECK_RC(rc, 0);
    if (inside->async)
        CHECK_RC(hf_release_async(hold, NULL, NULL, NULL), 0);
    else
        CHECK_RC(hf_release(hold, NULL), 0);
    begin(inside->e, inside->client, told_hold, &inside->next, .timeout = HF_FOREVER);
    atomic_fetch_add(&inside->done, 1);
}

static void callback_reenters(struct env *e)
{
    hf_client *client = client_open(e);
    for (int i = 0; i < 2; i++) {
        struct inside inside = { .e = e, .client = client, .async = i == 1 };
        begin(e, client, inside_release, &inside);
        EVENTUALLY(atomic_load(&inside.next.ended) == 1);
        CHECK_RC(inside.next.rc, 0);
        CHECK_EQ(inside.done, 1);
        let_go(inside.next.hold);
    }
    check_free(e);
}

/* Everything that may wait is refused, and nothing is done. */
static void inside_blocking(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct inside *inside = user;
    hf_client *client = inside->client;
    hf_hold *other = NULL;
    hf_report *report = NULL;
    hf_want want = hf_mutex("other");
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    uint32_t count = 7;
    (void)why;
    CHECK_RC(rc, 0);
    options.timeout_ms = HF_FOREVER;
    CHECK_RC(hf_acquire(client, &want, 1, &options, &other, NULL), HF_ECALLBACK);
    CHECK_RC(hf_lock(client, "other", 0, &other, NULL), HF_ECALLBACK);
    CHECK_RC(hf_hold_verify(hold, NULL), HF_ECALLBACK);
    CHECK_RC(hf_inspect(client, "", true, &report, NULL), HF_ECALLBACK);
    CHECK_RC(hf_evict(client, "other", 1, NULL), HF_ECALLBACK);
    CHECK_RC(hf_revoke(client, "other", 0, NULL), HF_ECALLBACK);
    CHECK_RC(hf_latch_set(client, "latch", 1, NULL), HF_ECALLBACK);
    CHECK_RC(hf_latch_count(client, "latch", &count, NULL), HF_ECALLBACK);
    CHECK_RC(hf_latch_count_down(client, "latch", 1, NULL, NULL), HF_ECALLBACK);
    CHECK_RC(hf_latch_wait(client, "latch", 0, NULL), HF_ECALLBACK);
    CHECK_RC(hf_cell_set(client, "cell", 0, "x", 1, NULL, NULL), HF_ECALLBACK);
    CHECK(other == NULL && report == NULL && count == 7);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_RC(hf_release(hold, NULL), 0);
    atomic_fetch_add(&inside->done, 1);
}

static void blocking_in_callback(struct env *e)
{
    struct inside inside = { .e = e, .client = client_open(e) };
    begin(e, inside.client, inside_blocking, &inside);
    EVENTUALLY(atomic_load(&inside.done) == 1);
    check_free(e);
}

/* A callback may use another client as it likes. */
static void inside_other_client(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct inside *inside = user;
    (void)why;
    CHECK_RC(rc, 0);
    CHECK_BUSY(inside->e, inside->client, .rival = true);
    CHECK_RC(hf_release(hold, NULL), 0);
    atomic_fetch_add(&inside->done, 1);
}

static void other_client_in_callback(struct env *e)
{
    struct inside inside = { .e = e, .client = client_open(e) };
    begin(e, client_open(e), inside_other_client, &inside);
    EVENTUALLY(atomic_load(&inside.done) == 1);
}

const struct scenario scenarios_async[] = {
    { "async-take-and-release", LOCKS, 0, 0, async_take_and_release },
    { "async-and-blocking-mix", LOCKS, 0, 0, async_and_blocking_mix },
    { "async-try-is-busy", LOCKS, 0, 0, async_try_is_busy },
    { "async-release-twice", LOCKS, 0, 0, async_release_twice },
    { "op-wait-in-steps", LOCKS, 0, 0, op_wait_in_steps },
    { "op-free-while-waiting", LOCKS, HF_CAP_INSPECT, 0, op_free_while_waiting },
    { "op-free-with-hold", LOCKS, HF_CAP_INSPECT, 0, op_free_with_hold },
    { "op-free-races-grant", LOCKS, HF_CAP_INSPECT, 0, op_free_races_grant },
    { "callback-reenters", LOCKS, 0, 0, callback_reenters },
    { "blocking-in-callback", LOCKS, HF_CAP_LATCH | HF_CAP_CELL | HF_CAP_INSPECT, 0,
      blocking_in_callback },
    { "other-client-in-callback", LOCKS, 0, 0, other_client_in_callback },
    { NULL, 0, 0, 0, NULL },
};
