/* SPDX-License-Identifier: MIT */
/*
 * A ticket that a store refuses after it has taken it: asked again, because nobody told
 * the waiter anything or because an answer was lost, the store says that it is full.
 * Whoever waited is told so, and the place that it has had is given up. The store is a
 * script.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "unit_store.h"

#include <stdatomic.h>

enum first { TAKEN, LOST, UNSENT, REFUSED };

static enum first first; /* what becomes of the first attempt */
static atomic_int attempts, withdrawn;
static int deaf; /* withdrawals that get no answer */

/* ---- The store ------------------------------------------------------------------- */

static int full_open(void *session, struct hf_host *host, const struct hf_url *url,
                     uint64_t *ret_caps, hf_error *why)
{
    (void)url;
    (void)why;
    *(struct hf_host **)session = host;
    *ret_caps = HF_CAP_MUTEX;
    return 0;
}

static void refuse(struct hf_host *host, struct hf_ticket *ticket, int code)
{
    hf_error why = { .code = code };
    host->ops->failed(host, ticket, &why);
}

static void full_attempt(void *session, struct hf_ticket *ticket)
{
    struct hf_host *host = *(struct hf_host **)session;
    if (atomic_fetch_add(&attempts, 1) > 0 || first == REFUSED)
        refuse(host, ticket, HF_EFULL);
    else if (first == TAKEN)
        host->ops->queued(host, ticket, HF_NS_PER_MS);
    else
        refuse(host, ticket, first == LOST ? HF_EUNCERTAIN : HF_EUNREACHABLE);
}

static void full_withdraw(void *session, struct hf_ticket *ticket)
{
    struct hf_host *host = *(struct hf_host **)session;
    atomic_fetch_add(&withdrawn, 1);
    host->ops->withdrawn(host, ticket,
                         deaf-- > 0 ? HF_WITHDRAWAL_UNKNOWN : HF_WITHDRAWN);
}

static void full_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                       enum hf_renew_mode mode)
{
    (void)session;
    (void)tickets;
    (void)count;
    (void)mode;
}

static const char *const schemes[] = { "full", NULL };
static const char *const options[] = { NULL };

static const struct hf_backend store = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "full",
    .schemes = schemes,
    .options = options,
    .session_size = sizeof(struct hf_host *),
    .open = full_open,
    .close = quiet_close,
    .attempt = full_attempt,
    .withdraw = full_withdraw,
    .renew = full_renew,
    .interest = quiet_interest,
    .ask = quiet_ask,
    .forget = quiet_forget,
};

/* ---- The waiter ------------------------------------------------------------------ */

/* Waits in vain; returns how often it was withdrawn until the client was closed. */
static int withdrawals_of(enum first what, int unheard)
{
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    first = what;
    deaf = unheard;
    ck_assert_int_eq(hf_backend_register(&store, NULL), 0);
    ck_assert_int_eq(hf_open("full:", NULL, &client, NULL), 0);
    ck_assert_int_eq(hf_lock(client, "thing", HF_FOREVER, &hold, NULL), HF_EFULL);
    ck_assert_ptr_null(hold);
    ck_assert_int_eq(attempts, what == REFUSED ? 1 : 2);
    hf_close(client);
    return withdrawn;
}

START_TEST(queued_then_refused)
{
    ck_assert_int_eq(withdrawals_of(TAKEN, 0), 1);
}
END_TEST

START_TEST(lost_then_refused)
{
    ck_assert_int_eq(withdrawals_of(LOST, 0), 1);
}
END_TEST

/* Nobody waits for that: the withdrawal is repeated by itself, and by hf_close. */
START_TEST(withdrawn_until_heard)
{
    ck_assert_int_eq(withdrawals_of(TAKEN, 2), 3);
}
END_TEST

START_TEST(never_there)
{
    ck_assert_int_eq(withdrawals_of(UNSENT, 0), 0);
}
END_TEST

START_TEST(refused_at_once)
{
    ck_assert_int_eq(withdrawals_of(REFUSED, 0), 0);
}
END_TEST

UNIT_MAIN("refused", queued_then_refused, lost_then_refused, withdrawn_until_heard,
          never_there, refused_at_once)
