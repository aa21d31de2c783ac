/* SPDX-License-Identifier: MIT */
/*
 * Names that look like each other's keys: `x` and `{x}`, and the keys themselves. A
 * call on one never changes the other, and names that would share keys are refused.
 */
#include "cases.h"

#include <string.h>

static int take(hf_client *client, hf_want want, hf_hold **ret_hold, hf_error *why)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = 0;
    options.ttl_ms = STEADY_MS;
    return hf_acquire(client, &want, 1, &options, ret_hold, why);
}

static hf_op *queued(hf_client *client, hf_want want)
{
    hf_op *op = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = HF_FOREVER;
    options.ttl_ms = STEADY_MS;
    CHECK_RC(hf_acquire_async(client, &want, 1, &options, NULL, NULL, &op, NULL), 0);
    EVENTUALLY(raw_number(world.raw, "EXISTS holdfast_queue:{x} holdfast_queue::{x}") ==
               1);
    return op;
}

/* One of each, and a waiter for the one in braces: whoever lets go of the other one
 * must not let it in. */
static void twins(hf_want plain, hf_want braced)
{
    hf_hold *one = NULL, *two = NULL;
    world_start(NULL);
    hf_client *first = opened(), *second = opened(), *third = opened();
    CHECK_RC(take(first, plain, &one, NULL), 0);
    CHECK_RC(take(second, braced, &two, NULL), 0);
    hf_op *op = queued(third, braced);
    CHECK_RC(hf_release(one, NULL), 0);
    CHECK_RC(take(first, plain, &one, NULL), 0); /* it is answered after any grant */
    CHECK_RC(hf_release(one, NULL), 0);
    CHECK_EQ(hf_op_wait(op, 50, &one, NULL), HF_ETIMEOUT);
    CHECK_EQ(hf_hold_state(two), HF_HELD);
    CHECK_RC(hf_release(two, NULL), 0);
    hf_hold *hold = waited(op);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(first);
    hf_close(second);
    hf_close(third);
    check_nothing_left(0);
}

static void twin_mutexes(void)
{
    twins(hf_mutex("x"), hf_mutex("{x}"));
}

static void twin_writers(void)
{
    twins(hf_write("x"), hf_write("{x}"));
}

static void twin_semaphores(void)
{
    twins(hf_permits("x", 1, 1), hf_permits("{x}", 1, 1));
}

static void refused(hf_client *client, hf_want want, const char *part)
{
    hf_hold *none = NULL;
    hf_error why = { 0 };
    CHECK_RC(take(client, want, &none, &why), HF_EINVAL);
    CHECK(strstr(why.text, part) != NULL);
}

static void keys_as_names(void)
{
    uint32_t left;
    world_start(NULL);
    hf_client *client = opened();
    hf_hold *hold = locked(client, "a", STEADY_MS);
    refused(client, hf_mutex("holdfast_info:{a}"), "holdfast_info:");
    refused(client, hf_write("redisson_lock_token:{a}"), "redisson_lock_token:");
    refused(client, hf_permits("{a}:timeout", 1, 1), ":timeout");
    refused(client, hf_fair("{a}"), "braces");
    refused(client, hf_expiring("{a}", 1), "braces");
    CHECK_RC(hf_latch_count(client, "holdfast_queue:{a}", &left, NULL), HF_EINVAL);
    CHECK_RC(hf_latch_set(client, "holdfast_queue:{a}", 3, NULL), HF_EINVAL);
    CHECK_RC(hf_evict(client, "holdfast_info:{a}", 1, NULL), HF_EINVAL);
    check_guarded(hold, "a");
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
    check_nothing_left(0);
}

const struct fault_case name_cases[] = {
    { "twin-mutexes", twin_mutexes },
    { "twin-writers", twin_writers },
    { "twin-semaphores", twin_semaphores },
    { "keys-as-names", keys_as_names },
    { NULL, NULL },
};
