/* SPDX-License-Identifier: MIT */
/*
 * Calls end at their deadline, whatever the store does.
 *
 * The fault shim swallows the answers to withdrawals, so no call hears that its place
 * in the queue is given up. Requests have a timeout that no test would wait for: a call
 * that waits for the store shows by that.
 */
#include <pthread.h>
#include <time.h>

#include "../harness/faults.h"
#include "contract.h"

#define REQUEST_MS 60000
#define BOUND_MS (REQUEST_MS / 3)

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* As users open one, but for the patience with requests. */
static hf_client *patient_client(struct env *e)
{
    hf_client *client = NULL;
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = REQUEST_MS;
    CHECK_RC(hf_open(e->url, &options, &client, NULL), 0);
    return client;
}

static void ends_at_its_deadline(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = patient_client(e);
    hf_hold *hold = held(e, a);
    hf_hold *none = NULL;
    fault_lose(HF_FAULT_WITHDRAW, 1, HF_FAULT_ALWAYS);
    int64_t began = now_ms();
    int rc = take(e, b, &none, .rival = true, .who = 2, .timeout = 200);
    CHECK(rc == HF_EUNCERTAIN); /* nothing is held, but it may be for a moment */
    CHECK(now_ms() - began < BOUND_MS);
    began = now_ms();
    hf_close(b);
    CHECK(now_ms() - began < BOUND_MS);
    fault_none();
    EVENTUALLY(seen(e, a, HF_WAITER) == 0);
    let_go(hold);
    check_free(e);
}

static void cancelled_at_once(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = patient_client(e);
    hf_hold *hold = held(e, a);
    hf_hold *none = NULL;
    hf_op *op = begin(e, b, NULL, NULL, .rival = true, .who = 2, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, a, 1));
    fault_lose(HF_FAULT_WITHDRAW, 1, HF_FAULT_ALWAYS);
    int64_t began = now_ms();
    hf_op_cancel(op);
    int rc = op_end(op, HF_FOREVER, &none);
    CHECK(rc == HF_EUNCERTAIN);
    CHECK(now_ms() - began < BOUND_MS);
    hf_close(b);
    fault_none();
    let_go(hold);
    check_free(e);
}

static void close_is_bounded(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = patient_client(e);
    hf_hold *hold = held(e, b);
    fault_lose(HF_FAULT_WITHDRAW, 1, HF_FAULT_ALWAYS);
    int64_t began = now_ms();
    hf_close(b);
    CHECK(now_ms() - began < BOUND_MS);
    fault_none();
    CHECK_RC(hf_release(hold, NULL), HF_ECLOSED);
    let_go(held(e, a, .rival = true, .timeout = HF_FOREVER));
}

/* The holder's client waits a second for a store that is silent, or as long as it was
 * told; not as long as a request may take. */
static void close_keeps_its_option(struct env *e)
{
    const int64_t given[] = { 0, 2500 };
    for (size_t i = 0; i < 2; i++) {
        hf_client *a = client_open(e);
        hf_client *b = NULL;
        hf_options options = HF_OPTIONS_INIT;
        options.request_timeout_ms = REQUEST_MS;
        options.close_timeout_ms = given[i];
        CHECK_RC(hf_open(e->url, &options, &b, NULL), 0);
        hf_hold *hold = held(e, b);
        fault_lose(HF_FAULT_WITHDRAW, 1, HF_FAULT_ALWAYS);
        int64_t began = now_ms();
        hf_close(b);
        int64_t took = now_ms() - began;
        CHECK(took >= (given[i] ? given[i] : 1000) - 10);
        CHECK(took < (given[i] ? BOUND_MS : 4000));
        fault_none();
        CHECK_RC(hf_release(hold, NULL), HF_ECLOSED);
        let_go(held(e, a, .rival = true, .timeout = HF_FOREVER));
    }
}

struct silence {
    hf_client *client;
    enum hf_fault_op op; /* what the client does, and is not answered */
};

/* A request timeout passes once the client is waiting: until then it has its lock, and
 * the look at it takes as long. */
static void *timeout_passes(void *arg)
{
    const struct silence *silence = arg;
    EVENTUALLY(hf__fault_calls(silence->op) > 0);
    CHECK(hf_capabilities(silence->client) != 0);
    clock_advance(REQUEST_MS + 1000);
    return NULL;
}

/* The client tries, and then releases, once in each way; the store is silent. Each has
 * one request timeout in all, not one for each time that it is asked again. What a try
 * may have taken is given back at its end, which the store confirms at once: then
 * nothing is uncertain. A slow server may need longer. */
static void silence_lasts_one_timeout(struct env *e)
{
    hf_client *client = patient_client(e);
    struct silence attempt = { client, HF_FAULT_ATTEMPT };
    struct silence withdraw = { client, HF_FAULT_WITHDRAW };
    hf_hold *none = NULL;
    pthread_t thread;
    ballast_ensure(e, THING);
    fault_lose(HF_FAULT_ATTEMPT, 1, HF_FAULT_ALWAYS);
    CHECK_EQ(pthread_create(&thread, NULL, timeout_passes, &attempt), 0);
    int64_t began = now_ms();
    int rc = take(e, client, &none);
    CHECK(rc == HF_EUNREACHABLE || (rc == HF_EUNCERTAIN && e->store->prepare));
    CHECK(now_ms() - began < BOUND_MS);
    pthread_join(thread, NULL);
    fault_none();
    for (int async = 0; async < 2; async++) {
        struct told told = { 0 };
        hf_hold *hold = held(e, client, .timeout = HF_FOREVER);
        fault_lose(HF_FAULT_WITHDRAW, 1, HF_FAULT_ALWAYS);
        CHECK_EQ(pthread_create(&thread, NULL, timeout_passes, &withdraw), 0);
        began = now_ms();
        if (async) {
            CHECK_RC(hf_release_async(hold, told_done, &told, NULL), 0);
            EVENTUALLY(atomic_load(&told.ended) == 1);
        } else {
            told.rc = hf_release(hold, NULL);
        }
        CHECK_RC(told.rc, HF_EUNCERTAIN);
        CHECK(now_ms() - began < BOUND_MS);
        pthread_join(thread, NULL);
        fault_none();
    }
    hf_close(client);
    check_free(e);
}

/* A hold that was lost stays lost, however the store takes the late release. */
static void lost_before_the_silence(struct env *e)
{
    hf_client *a = client_open(e);
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = hasty_ms(e);
    hf_client *b = client_with(e, &options);
    hf_hold *hold = held(e, b);
    struct told told = { 0 };
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    holder_evict(e, a);
    EVENTUALLY(atomic_load(&told.lost) == 1);
    fault_lose(HF_FAULT_WITHDRAW, 1, HF_FAULT_ALWAYS);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    fault_none();
    check_free(e);
}

/* The lock was taken away; the first withdrawal did not get out, the second finds
 * nothing: that is no success. */
static void late_release_is_told(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, b);
    hf__fault_plan(
        (struct hf_fault[]){
            { HF_FAULT_WITHDRAW, HF_FAULT_FAIL_BEFORE, 1, 2, 0 },
            { HF_FAULT_EVENT, HF_FAULT_LOSE, 1, HF_FAULT_ALWAYS, 0 },
        },
        2);
    holder_evict(e, a);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK(hf__fault_calls(HF_FAULT_WITHDRAW) > 2);
    fault_none();
    check_free(e);
}

#define EVICT (NEED_FAULT | HF_CAP_EVICT | HF_CAP_INSPECT)

const struct scenario scenarios_deadline[] = {
    { "ends-at-its-deadline", LOCKS, NEED_FAULT | HF_CAP_INSPECT, 0,
      ends_at_its_deadline },
    { "cancelled-at-once", LOCKS, NEED_FAULT | HF_CAP_INSPECT, 0, cancelled_at_once },
    { "close-is-bounded", LOCKS, NEED_FAULT, 0, close_is_bounded },
    { "close-keeps-its-option", MUTEX, NEED_FAULT, 0, close_keeps_its_option },
    { "silence-lasts-one-timeout", SINGLES, NEED_FAULT, CLOCK,
      silence_lasts_one_timeout },
    { "lost-before-the-silence", SINGLES, EVICT, 0, lost_before_the_silence },
    { "late-release-is-told", SINGLES, EVICT, 0, late_release_is_told },
    { NULL, 0, 0, 0, NULL },
};
