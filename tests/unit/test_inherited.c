/* SPDX-License-Identifier: MIT */
/*
 * Ops that a forked child inherits: it is told so, and may give them up and close the
 * client, in this order, without touching memory that is gone. Clients are driven by
 * hand, so that there is no other thread at the moment of the fork.
 */
#include "unit.h"

#include "turns_store.h"

#include <sys/wait.h>

#define HOUR INT64_C(3600000) /* ms */

static hf_client *client;

static hf_op *begin(const hf_want *wants, size_t count)
{
    hf_options by_hand = HF_OPTIONS_INIT;
    hf_acquire_options patient = HF_ACQUIRE_OPTIONS_INIT;
    hf_op *op = NULL;
    by_hand.driver = HF_DRIVER_USER;
    patient.timeout_ms = HOUR;
    ck_assert_int_eq(hf_backend_register(&turns_store, NULL), 0);
    ck_assert_int_eq(hf_open("turns:", &by_hand, &client, NULL), 0);
    ck_assert_int_eq(
        hf_acquire_async(client, wants, count, &patient, NULL, NULL, &op, NULL), 0);
    return op;
}

/* 0: the child was told that it is one, and came to its end. */
static int child_of(hf_op *op)
{
    int status = -1;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        hf_error why = { 0 };
        hf_hold *hold = NULL;
        int rc = hf_op_wait(op, 0, &hold, &why);
        hf_op_cancel(op);
        hf_op_free(op);
        hf_close(client);
        _exit(rc == HF_EFORKED && why.code == rc && !hold ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

START_TEST(an_op_under_way)
{
    hf_want thing = hf_mutex("thing");
    hf_hold *hold = NULL;
    turn_of("thing")->held = true; /* somebody else has it */
    hf_op *op = begin(&thing, 1);
    ck_assert(!hf_op_done(op));
    ck_assert_int_eq(child_of(op), 0);
    turn_of("thing")->held = false;
    ck_assert_int_eq(hf_op_wait(op, HF_FOREVER, &hold, NULL), 0);
    hf_op_free(op);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

START_TEST(an_op_with_its_hold)
{
    hf_want both[] = { hf_mutex("one"), hf_mutex("two") };
    hf_hold *hold = NULL;
    hf_op *op = begin(both, 2);
    ck_assert(hf_op_done(op));
    ck_assert_int_eq(child_of(op), 0);
    ck_assert_int_eq(hf_op_wait(op, HF_FOREVER, &hold, NULL), 0);
    hf_op_free(op);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

UNIT_MAIN("inherited", an_op_under_way, an_op_with_its_hold)
