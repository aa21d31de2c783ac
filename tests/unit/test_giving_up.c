/* SPDX-License-Identifier: MIT */
/*
 * Calls that end without what they came for: when they may end, and what is there no
 * more by then.
 */
#include "unit.h"

#include "turns_store.h"

#include <pthread.h>

#define HOUR INT64_C(3600000) /* ms */

static hf_client *client;

static void begin(int64_t request_ms, int64_t confirm_ms)
{
    hf_options given = HF_OPTIONS_INIT;
    given.request_timeout_ms = request_ms;
    given.confirm_timeout_ms = confirm_ms;
    ck_assert_int_eq(hf_backend_register(&turns_store, NULL), 0);
    ck_assert_int_eq(hf_open("turns:", &given, &client, NULL), 0);
}

static hf_op *ask(void)
{
    hf_want want = hf_mutex("thing");
    hf_acquire_options patient = HF_ACQUIRE_OPTIONS_INIT;
    hf_op *op = NULL;
    patient.timeout_ms = HF_FOREVER;
    ck_assert_int_eq(
        hf_acquire_async(client, &want, 1, &patient, NULL, NULL, &op, NULL), 0);
    return op;
}

/* The lock of the first op is being given back, without an answer so far, and a second
 * one waits for it in this client. */
static hf_op *waits_for_a_withdrawal(void)
{
    hf_op *first = ask(), *second = ask();
    ck_assert(hf_op_done(first) && !hf_op_done(second));
    refuse_pass = mute = true;
    hf_op_free(first);
    ck_assert_int_eq(withdrawals, 1);
    return second;
}

/* Nothing is held after a cancel: so it waits for what its own client gives back. */
START_TEST(a_cancel_waits_for_the_withdrawal)
{
    hf_hold *none = NULL;
    begin(50, HOUR);
    hf_op *op = waits_for_a_withdrawal();
    hf_op_cancel(op);
    ck_assert(!hf_op_done(op));
    mute = false;
    ck_assert_int_eq(hf_op_wait(op, HF_FOREVER, &none, NULL), HF_ECANCELLED);
    ck_assert(!turn_of("thing")->held);
    hf_op_free(op);
    hf_close(client);
}
END_TEST

/* If that is not confirmed the caller hears so. */
START_TEST(an_unconfirmed_cancel_is_uncertain)
{
    hf_hold *none = NULL;
    begin(50, 1);
    hf_op *op = waits_for_a_withdrawal();
    hf_op_cancel(op);
    ck_assert_int_eq(hf_op_wait(op, HF_FOREVER, &none, NULL), HF_EUNCERTAIN);
    ck_assert(turn_of("thing")->held);
    hf_op_free(op);
    mute = false;
    EVENTUALLY(!turn_of("thing")->held); /* it goes on by itself */
    hf_close(client);
}
END_TEST

struct adoption {
    pthread_t thread;
    char id[HF_ID_MAX];
    int64_t timeout_ms;
    int rc;
    atomic_bool over;
};

static void *run_adopt(void *arg)
{
    struct adoption *adoption = arg;
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *none = NULL;
    how.timeout_ms = adoption->timeout_ms;
    adoption->rc = hf_adopt(client, adoption->id, &how, &none, NULL);
    adoption->over = true;
    return NULL;
}

/* The store says nothing, and is asked three times within the time that there is. */
static void adopt_in_vain(struct adoption *adoption, int64_t timeout_ms, int64_t time)
{
    int before = asks;
    adoption->timeout_ms = timeout_ms;
    adoption->over = false;
    ck_assert_int_eq(pthread_create(&adoption->thread, NULL, run_adopt, adoption), 0);
    for (int i = 1; i <= 3; i++) {
        EVENTUALLY(asks == before + i);
        ck_assert(!adoption->over);
        clock_pass(time / 3 + 1);
    }
    EVENTUALLY(adoption->over);
    pthread_join(adoption->thread, NULL);
    ck_assert_int_eq(adoption->rc, HF_EUNCERTAIN);
}

/* An adoption ends at its deadline; one that tries once has the time of one request. */
START_TEST(an_adoption_has_a_deadline)
{
    struct adoption adoption;
    hf_hold *hold = NULL;
    client = turns_client(HOUR);
    ck_assert_int_eq(hf_lock(client, "thing", 0, &hold, NULL), 0);
    ck_assert_int_eq(hf_hold_id(hold, 0, adoption.id, sizeof adoption.id, NULL), 0);
    silent = true;
    adopt_in_vain(&adoption, 0, HOUR);
    adopt_in_vain(&adoption, HOUR / 4, HOUR / 4);
    adopt_in_vain(&adoption, HF_FOREVER, 3 * HOUR);
    silent = false;
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

UNIT_MAIN("giving_up", a_cancel_waits_for_the_withdrawal,
          an_unconfirmed_cancel_is_uncertain, an_adoption_has_a_deadline)
