/* SPDX-License-Identifier: MIT */
/*
 * Leases that a store gives in pieces, with a store that is a script: it gives what is
 * asked for, but no more at a time than it can promise just then. Leases are minutes
 * long, so that real time plays no part; the clock moves in steps, and after each one
 * the test waits for what must follow from it.
 */
#include "unit.h"

#include "unit_clock.h"
#include "unit_store.h"

#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#define MINUTE INT64_C(60000) /* ms */
#define TTL (30 * MINUTE)
#define PIECE (3 * MINUTE)
#define EVENTUALLY(condition)                                                          \
    do {                                                                               \
        for (int looks_ = 0; !(condition) && looks_ < 10000; looks_++)                 \
            poll(NULL, 0, 1); /* pause: between two looks */                           \
        ck_assert_msg((condition), "%s", #condition);                                  \
    } while (0)

static hf_client *client;
static _Atomic int64_t most = INT64_MAX; /* of a lease at a time, ms */
static atomic_bool deaf;                 /* renewals get no answer */
static struct hf_lease kept;             /* what the first of them would have been */
static atomic_bool late;                 /* the next one is answered with that */
static atomic_int renewals, others;      /* of "thing", of whatever else */
static _Atomic int64_t asked;            /* the lease of the last one of "thing", ms */

/* ---- The store ------------------------------------------------------------------- */

static int64_t given_ns(const struct hf_ticket *ticket)
{
    int64_t ms = ticket->ttl_ns / HF_NS_PER_MS;
    return (ms < most ? ms : most) * HF_NS_PER_MS;
}

static int piece_open(void *session, struct hf_host *host, const struct hf_url *url,
                      uint64_t *ret_caps, hf_error *why)
{
    (void)url;
    (void)why;
    *(struct hf_host **)session = host;
    *ret_caps = HF_CAP_MUTEX | HF_CAP_LEASE;
    return 0;
}

static void piece_attempt(void *session, struct hf_ticket *ticket)
{
    struct hf_host *host = *(struct hf_host **)session;
    struct hf_grant grant = { .token = 1, .span = 1, .ttl_ns = given_ns(ticket) };
    host->ops->granted(host, ticket, &grant);
}

static void piece_withdraw(void *session, struct hf_ticket *ticket)
{
    struct hf_host *host = *(struct hf_host **)session;
    host->ops->withdrawn(host, ticket, HF_WITHDRAWN);
}

static void piece_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                        enum hf_renew_mode mode)
{
    struct hf_host *host = *(struct hf_host **)session;
    for (size_t i = 0; i < count; i++) {
        struct hf_lease lease = { host->ops->now(host), given_ns(tickets[i]) };
        if (strcmp(tickets[i]->name, "thing") == 0) {
            atomic_store(&asked, tickets[i]->ttl_ns / HF_NS_PER_MS);
            atomic_fetch_add(&renewals, 1);
        } else {
            atomic_fetch_add(&others, 1);
        }
        if (deaf && !kept.ttl_ns)
            kept = lease;
        bool old = late;
        if (!deaf || old)
            host->ops->renewed(host, tickets[i],
                               mode == HF_RENEW ? HF_RENEWED : HF_STILL_HELD,
                               old ? &kept : &lease);
        if (old)
            late = false;
    }
}

static const char *const schemes[] = { "piece", NULL };
static const char *const options[] = { NULL };

static const struct hf_backend store = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "piece",
    .schemes = schemes,
    .options = options,
    .session_size = sizeof(struct hf_host *),
    .open = piece_open,
    .close = quiet_close,
    .attempt = piece_attempt,
    .withdraw = piece_withdraw,
    .renew = piece_renew,
    .interest = quiet_interest,
    .ask = quiet_ask,
    .forget = quiet_forget,
};

/* ---- The holder ------------------------------------------------------------------ */

static hf_hold *take(const char *name, int64_t ttl_ms, uint32_t flags)
{
    hf_want want = hf_mutex(name);
    hf_acquire_options given = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold = NULL;
    given.ttl_ms = ttl_ms;
    given.flags = flags;
    ck_assert_int_eq(hf_acquire(client, &want, 1, &given, &hold, NULL), 0);
    return hold;
}

static hf_hold *begin(int64_t first, uint32_t flags)
{
    hf_options given = HF_OPTIONS_INIT;
    given.request_timeout_ms = 50; /* where there is no answer */
    clock_begin();
    ck_assert_int_eq(hf_backend_register(&store, NULL), 0);
    ck_assert_int_eq(hf_open("piece:", &given, &client, NULL), 0);
    most = first;
    return take("thing", TTL, flags);
}

/* So much later there is a renewal, which asks for that much. */
static void step(int64_t ms, int64_t wanted)
{
    int before = renewals;
    clock_pass(ms);
    EVENTUALLY(renewals > before);
    ck_assert_msg(asked > wanted - MINUTE / 10 && asked <= wanted, "%lld ms asked for",
                  (long long)asked);
}

static bool lasts(const hf_hold *hold, int64_t ms)
{
    int64_t left = hf_hold_left_ms(hold);
    return left > ms - ms / 50 && left <= ms;
}

/* ---- Pieces ---------------------------------------------------------------------- */

START_TEST(less_for_once_is_not_less_for_ever)
{
    hf_hold *hold = begin(INT64_MAX, 0);
    ck_assert(lasts(hold, TTL));
    most = PIECE;
    step(TTL / 3 + 1, TTL);
    EVENTUALLY(lasts(hold, PIECE));
    step(PIECE / 3 + 1, TTL); /* the sooner */
    EVENTUALLY(lasts(hold, PIECE));
    most = INT64_MAX;
    step(PIECE / 3 + 1, TTL);
    EVENTUALLY(lasts(hold, TTL));
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* Renewals come as seldom again. The companion shows that those due were made. */
START_TEST(the_pace_is_found_again)
{
    hf_hold *hold = begin(PIECE, 0);
    hf_hold *companion = take("companion", 6 * MINUTE, 0);
    most = INT64_MAX;
    step(PIECE / 3 + 1, TTL);
    EVENTUALLY(lasts(hold, TTL));
    int before = renewals;
    for (int i = 0; i < 3; i++) {
        int seen = others;
        clock_pass(2 * MINUTE + 1);
        EVENTUALLY(others > seen);
    }
    ck_assert_int_eq(renewals, before);
    ck_assert_int_eq(hf_release(companion, NULL), 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

START_TEST(doubt_goes_by_the_piece)
{
    hf_hold *hold = begin(PIECE, 0);
    deaf = true;
    clock_pass(PIECE / 3 + 1);
    EVENTUALLY(renewals > 0);
    ck_assert_int_eq(hf_hold_state(hold), HF_HELD);
    clock_pass(PIECE / 3 + 1);
    ck_assert_int_eq(hf_hold_state(hold), HF_DOUBTFUL);
    most = INT64_MAX;
    deaf = false;
    EVENTUALLY(lasts(hold, TTL));
    clock_pass(PIECE / 3 * 2 + 1);
    ck_assert_int_eq(hf_hold_state(hold), HF_HELD);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* A fixed lease is renewed in pieces up to its end, large ones or small. */
START_TEST(a_fixed_end_stays)
{
    hf_hold *hold = begin(PIECE, HF_FIXED);
    int64_t gone = PIECE / 3 + 1;
    step(gone, TTL - gone);
    most = INT64_MAX;
    step(gone, TTL - 2 * gone);
    step(TTL / 3, TTL / 3 * 2 - 2 * gone);
    step(TTL / 3, TTL / 3 - 2 * gone);
    EVENTUALLY(lasts(hold, TTL / 3 - 2 * gone));
    clock_pass(TTL / 3 - 2 * gone - MINUTE);
    ck_assert_int_eq(hf_hold_state(hold), HF_HELD); /* that was the last one */
    ck_assert_int_le(hf_hold_left_ms(hold), MINUTE);
    clock_pass(MINUTE);
    ck_assert_int_eq(hf_hold_state(hold), HF_LOST);
    ck_assert_int_eq(hf_release(hold, NULL), HF_ELOST);
    hf_close(client);
}
END_TEST

START_TEST(extended_in_pieces)
{
    hf_hold *hold = begin(INT64_MAX, 0);
    most = PIECE;
    ck_assert_int_eq(hf_hold_extend(hold, 3 * TTL, NULL), 0);
    ck_assert_int_eq(asked, 3 * TTL);
    ck_assert(lasts(hold, PIECE));
    most = INT64_MAX;
    step(PIECE / 3 + 1, 3 * TTL);
    EVENTUALLY(lasts(hold, 3 * TTL));
    ck_assert_int_eq(hf_hold_extend(hold, TTL, NULL), 0);
    ck_assert(lasts(hold, TTL));
    step(TTL / 3 + 1, TTL);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* The store may have heard it, and ends the lease then. */
START_TEST(shortened_without_an_answer)
{
    hf_hold *hold = begin(INT64_MAX, 0);
    deaf = true;
    ck_assert_int_eq(hf_hold_extend(hold, PIECE, NULL), HF_EUNREACHABLE);
    ck_assert_int_eq(asked, PIECE);
    ck_assert_int_le(hf_hold_left_ms(hold), PIECE);
    clock_pass(PIECE);
    ck_assert_int_eq(hf_hold_state(hold), HF_LOST);
    ck_assert_int_eq(hf_release(hold, NULL), HF_ELOST);
    hf_close(client);
}
END_TEST

/* Nor is it believed for longer because of what was answered before that. */
START_TEST(shortened_before_an_older_answer)
{
    hf_hold *hold = begin(INT64_MAX, 0);
    deaf = true;
    step(TTL / 3 + 1, TTL);
    ck_assert_int_eq(hf_hold_extend(hold, PIECE, NULL), HF_EUNREACHABLE);
    late = true;
    EVENTUALLY(!late);
    ck_assert_int_le(hf_hold_left_ms(hold), PIECE);
    deaf = false;
    EVENTUALLY(lasts(hold, PIECE));
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

UNIT_MAIN("renew", less_for_once_is_not_less_for_ever, the_pace_is_found_again,
          doubt_goes_by_the_piece, a_fixed_end_stays, extended_in_pieces,
          shortened_without_an_answer, shortened_before_an_older_answer)
