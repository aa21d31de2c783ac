/* SPDX-License-Identifier: MIT */
/*
 * A release that would hand its hold to another caller of the same client, when the
 * hold has been evicted and the client has not heard of it yet: it is driven by hand
 * (HF_DRIVER_USER), and is not driven in between. The release must not say that all
 * was well, and the caller that waits gets a grant of its own.
 */
#include "unit.h"

#include <holdfast.h>
#include <string.h>

START_TEST(evicted_is_not_handed_on)
{
    hf_options by_hand = HF_OPTIONS_INIT;
    hf_acquire_options patient = HF_ACQUIRE_OPTIONS_INIT;
    hf_want want = hf_mutex("x");
    hf_client *client, *other;
    hf_hold *hold, *next = NULL;
    hf_op *op;
    by_hand.driver = HF_DRIVER_USER;
    patient.timeout_ms = HF_FOREVER;
    ck_assert_int_eq(hf_open("mem:handoff", &by_hand, &client, NULL), 0);
    ck_assert_int_eq(hf_open("mem:handoff", NULL, &other, NULL), 0);
    ck_assert_int_eq(hf_lock(client, "x", 0, &hold, NULL), 0);
    uint64_t token = hf_hold_token(hold, 0);
    ck_assert_int_eq(
        hf_acquire_async(client, &want, 1, &patient, NULL, NULL, &op, NULL), 0);
    ck_assert_int_eq(hf_evict(other, "x", token, NULL), 0);
    ck_assert_int_eq(hf_release(hold, NULL), HF_ELOST);
    ck_assert_int_eq(hf_op_wait(op, HF_FOREVER, &next, NULL), 0);
    ck_assert_uint_gt(hf_hold_token(next, 0), token);
    ck_assert_int_eq(hf_release(next, NULL), 0);
    hf_op_free(op);
    hf_close(other);
    hf_close(client);
}
END_TEST

/* The first of two names is evicted, and another client takes it, while the second one
 * is waited for: neither is granted, and the other client keeps the first. */
START_TEST(evicted_while_the_next_is_waited_for)
{
    hf_options by_hand = HF_OPTIONS_INIT;
    hf_acquire_options patient = HF_ACQUIRE_OPTIONS_INIT;
    hf_want both[] = { hf_mutex("a"), hf_mutex("b") };
    hf_client *client, *other;
    hf_hold *a, *b, *none = NULL;
    hf_report *report = NULL;
    hf_error why;
    hf_op *op;
    by_hand.driver = HF_DRIVER_USER;
    patient.timeout_ms = HF_FOREVER;
    ck_assert_int_eq(hf_open("mem:handoff", &by_hand, &client, NULL), 0);
    ck_assert_int_eq(hf_open("mem:handoff", NULL, &other, NULL), 0);
    ck_assert_int_eq(hf_lock(other, "b", 0, &b, NULL), 0);
    ck_assert_int_eq(hf_acquire_async(client, both, 2, &patient, NULL, NULL, &op, NULL),
                     0);
    ck_assert_int_eq(hf_inspect(other, "a", false, &report, NULL), 0);
    ck_assert_uint_eq(hf_report_count(report), 1);
    ck_assert_int_eq(hf_evict(other, "a", hf_report_entry(report, 0)->token, NULL), 0);
    hf_report_free(report);
    ck_assert_int_eq(hf_lock(other, "a", 0, &a, NULL), 0);
    ck_assert_int_eq(hf_release(b, NULL), 0);
    ck_assert_int_eq(hf_op_wait(op, HF_FOREVER, &none, &why), HF_ELOST);
    ck_assert_ptr_nonnull(strstr(why.text, "evicted"));
    hf_op_free(op);
    ck_assert_int_eq(hf_hold_verify(a, NULL), 0);
    ck_assert_int_eq(hf_release(a, NULL), 0);
    ck_assert_int_eq(hf_lock(other, "b", 0, &b, NULL), 0);
    ck_assert_int_eq(hf_release(b, NULL), 0);
    hf_close(other);
    hf_close(client);
}
END_TEST

static int take(hf_client *client, uint64_t owner, int64_t ttl_ms, hf_hold **hold)
{
    hf_want want = hf_reentrant("x");
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    how.owner = owner;
    how.ttl_ms = ttl_ms;
    return hf_acquire(client, &want, 1, &how, hold, NULL);
}

/* The client has not heard of an eviction, and is granted the lock anew, for another
 * owner: it knows by that, and the former owner does not enter what was evicted. */
START_TEST(granted_anew_means_lost)
{
    hf_options by_hand = HF_OPTIONS_INIT;
    hf_client *client, *other;
    hf_hold *first, *second, *none = NULL;
    by_hand.driver = HF_DRIVER_USER;
    ck_assert_int_eq(hf_open("mem:handoff", &by_hand, &client, NULL), 0);
    ck_assert_int_eq(hf_open("mem:handoff", NULL, &other, NULL), 0);
    ck_assert_int_eq(take(client, 1, 600000, &first), 0);
    ck_assert_int_eq(hf_evict(other, "x", hf_hold_token(first, 0), NULL), 0);
    ck_assert_int_eq(hf_hold_state(first), HF_HELD); /* not heard */
    ck_assert_int_eq(take(client, 2, 0, &second), 0);
    ck_assert_int_eq(hf_hold_state(first), HF_LOST);
    ck_assert_int_eq(take(client, 1, 600000, &none), HF_EBUSY);
    ck_assert_int_eq(hf_hold_verify(second, NULL), 0);
    ck_assert_int_eq(hf_release(first, NULL), HF_ELOST);
    ck_assert_int_eq(hf_release(second, NULL), 0);
    hf_close(other);
    hf_close(client);
}
END_TEST

UNIT_MAIN("handoff", evicted_is_not_handed_on, evicted_while_the_next_is_waited_for,
          granted_anew_means_lost)
