/* SPDX-License-Identifier: MIT */
/*
 * An acquire is cancelled before the server's reply to it is read. The withdrawal is
 * sent after it, and its own reply ends the op. Requests are never repeated here: a
 * request whose reply is dropped does not end.
 */
#include "cases.h"

#include <stdio.h>

#define NEVER_MS 600000
#define CLOSE_MS 20000 /* that hf_close() may take, and does not */

/* One that is driven by hand, so that nothing is read before the case says so. */
static hf_client *driven(const char *more)
{
    char url[256];
    hf_client *client = NULL;
    hf_options options = HF_OPTIONS_INIT;
    options.driver = HF_DRIVER_USER;
    options.request_timeout_ms = NEVER_MS;
    options.close_timeout_ms = CLOSE_MS;
    snprintf(url, sizeof url, "redis+unix://%s?protocol=%d&timeout=%dms%s",
             world.server.socket, world.protocol, NEVER_MS, more);
    CHECK_RC(hf_open(url, &options, &client, NULL), 0);
    return client;
}

/* Asks once, so that the server knows the scripts; then asks, and cancels before the
 * answer is read. */
static void cancelled(const char *more, const hf_want *want, int code)
{
    hf_op *op = NULL;
    hf_hold *none = NULL;
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_client *client = driven(more);
    for (int round = 0; round < 2; round++) {
        CHECK_RC(hf_acquire_async(client, want, 1, &how, NULL, NULL, &op, NULL), 0);
        if (round == 1)
            hf_op_cancel(op);
        EVENTUALLY(hf_op_done(op))
        hf_dispatch(client, NULL);
        CHECK_RC(hf_op_wait(op, 0, &none, NULL), round == 1 ? HF_ECANCELLED : code);
        hf_op_free(op);
    }
    hf_close(client);
}

/* The same, and the client is closed instead: it waits for the withdrawal's answer,
 * and not for as long as it may. */
static void closed(const char *more, const hf_want *want)
{
    hf_op *op = NULL;
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_client *client = driven(more);
    CHECK_RC(hf_acquire_async(client, want, 1, &how, NULL, NULL, &op, NULL), 0);
    EVENTUALLY(hf_op_done(op))
    hf_dispatch(client, NULL);
    hf_op_free(op);
    CHECK_RC(hf_acquire_async(client, want, 1, &how, NULL, NULL, &op, NULL), 0);
    int64_t since = real_ms();
    hf_close(client);
    CHECK(real_ms() - since < CLOSE_MS / 2);
    CHECK_RC(hf_op_wait(op, 0, &(hf_hold *){ NULL }, NULL), HF_ECLOSED);
    hf_op_free(op);
}

static void closed_when_busy(void)
{
    hf_want want = hf_mutex("taken"), plain = hf_mutex("simple");
    world_start(NULL);
    CHECK(rival_try("taken"));
    raw_say(world.raw, "SET simple rival");
    closed("", &want);
    closed("&layout=simple", &plain);
    closed("&layout=simple&script=off", &plain);
    rival_release("taken");
    raw_say(world.raw, "DEL simple");
    check_nothing_left(0);
    report("closed, and busy arrives", 0, "HF_ECLOSED");
}

static void cancelled_when_busy(void)
{
    hf_want want = hf_mutex("taken"), plain = hf_mutex("simple");
    world_start(NULL);
    CHECK(rival_try("taken"));
    raw_say(world.raw, "SET simple rival");
    cancelled("", &want, HF_EBUSY);
    cancelled("&layout=simple", &plain, HF_EBUSY);
    cancelled("&layout=simple&script=off", &plain, HF_EBUSY);
    rival_release("taken");
    raw_say(world.raw, "DEL simple");
    check_nothing_left(0);
    report("cancelled, and busy arrives", 0, "HF_ECANCELLED");
}

static void cancelled_when_refused(void)
{
    hf_want want = hf_mutex("list");
    world_start(NULL);
    raw_say(world.raw, "RPUSH list a");
    cancelled("", &want, HF_EMISMATCH);
    cancelled("&layout=simple", &want, HF_EMISMATCH);
    cancelled("&layout=simple&script=off", &want, HF_EMISMATCH);
    raw_say(world.raw, "DEL list");
    check_nothing_left(0);
    report("cancelled, and an error arrives", 0, "HF_ECANCELLED");
}

/* A client waits for a latch and cancels while the server's word that the latch is open
 * is on its way: as the answer to it, or as a message to a waiter (`queued`). */
static void latch_cancelled(hf_client *opener, bool queued)
{
    hf_op *op = NULL;
    hf_client *client = driven("");
    if (queued)
        CHECK_RC(hf_latch_set(opener, "latch", 1, NULL), 0);
    CHECK_RC(hf_latch_wait_async(client, "latch", HF_FOREVER, NULL, NULL, &op, NULL),
             0);
    if (queued) {
        EVENTUALLY(raw_number(world.raw, "LLEN holdfast_queue:{latch}") == 1)
        hf_dispatch(client, NULL);
        CHECK_RC(hf_latch_count_down(opener, "latch", 1, NULL, NULL), 0);
    }
    hf_op_cancel(op);
    EVENTUALLY(hf_op_done(op))
    hf_dispatch(client, NULL);
    CHECK_RC(hf_op_wait(op, 0, NULL, NULL), HF_ECANCELLED);
    hf_op_free(op);
    hf_close(client);
}

static void cancelled_when_open(void)
{
    world_start(NULL);
    hf_client *opener = opened();
    latch_cancelled(opener, true); /* so that the server knows the scripts */
    latch_cancelled(opener, false);
    hf_close(opener);
    report("cancelled, and a latch is open", 0, "HF_ECANCELLED");
}

const struct fault_case ending_cases[] = {
    { "cancelled-when-busy", cancelled_when_busy },
    { "cancelled-when-refused", cancelled_when_refused },
    { "cancelled-when-open", cancelled_when_open },
    { "closed-when-busy", closed_when_busy },
    { NULL, NULL },
};
