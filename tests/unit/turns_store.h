/* SPDX-License-Identifier: MIT */
/*
 * A store of one process for tests of core: each name has one holder at a time, and a
 * waiter asks again every millisecond. What core asked for is written down, and a test
 * may change the answers. Its functions run under the client's lock; a test looks at
 * the counters from outside.
 */
#ifndef HF_TESTS_TURNS_STORE_H
#define HF_TESTS_TURNS_STORE_H

#include "unit_clock.h"
#include "unit_store.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define EVENTUALLY(condition)                                                          \
    do {                                                                               \
        for (int looks_ = 0; !(condition) && looks_ < 10000; looks_++)                 \
            poll(NULL, 0, 1); /* pause: between two looks */                           \
        ck_assert_msg((condition), "%s", #condition);                                  \
    } while (0)

enum { TURNS_NAMES = 8 };

static struct turn {
    char name[64];
    atomic_bool held;
    struct hf_ticket *ticket;
    struct hf_id id; /* of the holder */
    _Atomic uint64_t token;
    _Atomic int64_t ttl_ms; /* as asked for in the last attempt or renewal */
} turns[TURNS_NAMES];

static struct hf_host *turns_host;
static atomic_int passes, withdrawals, renewals, checks, forgets, interests;
static atomic_bool refuse_pass;        /* pass() says no */
static atomic_bool deaf;               /* renewals get no answer */
static atomic_bool mute;               /* withdrawals get none */
static atomic_bool silent;             /* nor do requests */
static atomic_int asks;                /* of which there were so many */
static struct hf_request *turns_asked; /* the last one */
static atomic_int ask_rc;              /* what requests are answered with, if not 0 */
static atomic_int ask_rc_once;         /* and the next one, before that */
static _Atomic int64_t grant_jump;     /* ms that pass inside the attempt for "b" */
static _Atomic int64_t answer_age;     /* ms that an answer to renew() is too old by */
static atomic_bool lying;              /* of each lease it says these two, in ns: */
static _Atomic int64_t lie_since, lie_ttl;

static inline struct turn *turn_of(const char *name)
{
    for (int i = 0; i < TURNS_NAMES; i++) {
        if (!turns[i].name[0])
            snprintf(turns[i].name, sizeof turns[i].name, "%s", name);
        if (strcmp(turns[i].name, name) == 0)
            return &turns[i];
    }
    ck_abort_msg("too many names");
    return NULL;
}

static inline bool same_id(const struct hf_id *a, const struct hf_id *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static int turns_open(void *session, struct hf_host *host, const struct hf_url *url,
                      uint64_t *ret_caps, hf_error *why)
{
    (void)url;
    (void)why;
    turns_host = *(struct hf_host **)session = host;
    *ret_caps = HF_CAP_MUTEX | HF_CAP_HANDOFF | HF_CAP_LEASE | HF_CAP_DETACH |
                HF_CAP_EXPIRING | HF_CAP_DIAGNOSE;
    return 0;
}

static void turns_attempt(void *session, struct hf_ticket *ticket)
{
    struct hf_host *host = *(struct hf_host **)session;
    struct turn *turn = turn_of(ticket->name);
    if (turn->held && !same_id(&turn->id, &ticket->id)) {
        if (ticket->flags & HF_TICKET_TRY)
            host->ops->busy(host, ticket);
        else
            host->ops->queued(host, ticket, HF_NS_PER_MS);
        return;
    }
    if (!turn->held)
        turn->token += 1000;
    turn->held = true;
    turn->id = ticket->id;
    turn->ticket = ticket;
    turn->ttl_ms = ticket->ttl_ns / HF_NS_PER_MS;
    struct hf_grant grant = { .token = turn->token,
                              .span = ticket->reserve,
                              .ttl_ns = ticket->ttl_ns };
    if (strcmp(ticket->name, "b") == 0) {
        clock_pass(grant_jump);
        grant.since_ns = host->ops->now(host);
    }
    if (lying) {
        grant.since_ns = lie_since;
        grant.ttl_ns = lie_ttl;
    }
    host->ops->granted(host, ticket, &grant);
}

static void turns_withdraw(void *session, struct hf_ticket *ticket)
{
    struct hf_host *host = *(struct hf_host **)session;
    struct turn *turn = turn_of(ticket->name);
    bool mine = turn->held && same_id(&turn->id, &ticket->id);
    atomic_fetch_add(&withdrawals, 1);
    if (mute)
        return;
    if (mine)
        turn->held = false;
    host->ops->withdrawn(host, ticket, mine ? HF_WITHDRAWN : HF_GONE);
}

static void turns_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                        enum hf_renew_mode mode)
{
    struct hf_host *host = *(struct hf_host **)session;
    atomic_fetch_add(mode == HF_RENEW ? &renewals : &checks, 1);
    for (size_t i = 0; i < count; i++) {
        struct turn *turn = turn_of(tickets[i]->name);
        struct hf_lease lease = { host->ops->now(host) - answer_age * HF_NS_PER_MS,
                                  tickets[i]->ttl_ns };
        if (lying)
            lease = (struct hf_lease){ lie_since, lie_ttl };
        turn->ttl_ms = tickets[i]->ttl_ns / HF_NS_PER_MS;
        bool mine = turn->held && same_id(&turn->id, &tickets[i]->id);
        enum hf_renewal answer = mode == HF_RENEW ? HF_RENEWED : HF_STILL_HELD;
        if (!deaf || mode == HF_CHECK)
            host->ops->renewed(host, tickets[i], mine ? answer : HF_RENEWAL_LOST,
                               &lease);
    }
}

static bool turns_pass(void *session, struct hf_ticket *ticket, uint64_t token)
{
    (void)session;
    if (refuse_pass)
        return false;
    turn_of(ticket->name)->token = token;
    atomic_fetch_add(&passes, 1);
    return true;
}

static void turns_forget(void *session, const void *ticket_or_request)
{
    (void)session;
    (void)ticket_or_request;
    atomic_fetch_add(&forgets, 1);
}

static void turns_interest(void *session, struct hf_ticket *ticket)
{
    (void)session;
    (void)ticket;
    atomic_fetch_add(&interests, 1);
}

/* What hf_diagnose() is told, the least first. */
static void turns_diagnose(struct hf_host *host, struct hf_request *request)
{
    static const hf_finding found[] = {
        { sizeof(hf_finding), HF_GOOD, "first", "all is well", NULL },
        { sizeof(hf_finding), HF_TRAP, "second", "a trap", "go round it" },
        { sizeof(hf_finding), HF_REMARK, "third", "a remark", "read it" },
        { sizeof(hf_finding), HF_TRAP, "fourth", "another trap", "go round it, too" },
    };
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++)
        host->ops->finding(host, request, &found[i]);
    host->ops->answered(host, request, 0, NULL);
}

/* Adoption and diagnosis; there is nothing else to ask. */
static void turns_ask(void *session, struct hf_request *request)
{
    struct hf_host *host = *(struct hf_host **)session;
    int rc = ask_rc_once ? atomic_exchange(&ask_rc_once, 0) : ask_rc;
    atomic_fetch_add(&asks, 1);
    turns_asked = request;
    if (silent)
        return;
    if (rc != 0) {
        host->ops->answered(host, request, rc, NULL);
        return;
    }
    if (request->verb == HF_DIAGNOSE) {
        turns_diagnose(host, request);
        return;
    }
    struct turn *turn = turn_of(request->name);
    bool known =
        request->verb == HF_ADOPT && turn->held && same_id(&turn->id, &request->other);
    if (known) {
        turn->id = request->ticket->id;
        turn->ticket = request->ticket;
        turn->ttl_ms = request->ticket->ttl_ns / HF_NS_PER_MS;
        request->grant = (struct hf_grant){ .token = request->number,
                                            .span = 1,
                                            .ttl_ns = request->ticket->ttl_ns };
    }
    host->ops->answered(host, request, known ? 0 : HF_ENOENT, NULL);
}

static const char *const turns_schemes[] = { "turns", NULL };
static const char *const turns_options[] = { NULL };

static const struct hf_backend turns_store = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "turns",
    .schemes = turns_schemes,
    .options = turns_options,
    .session_size = sizeof(struct hf_host *),
    .open = turns_open,
    .close = quiet_close,
    .attempt = turns_attempt,
    .withdraw = turns_withdraw,
    .renew = turns_renew,
    .interest = turns_interest,
    .pass = turns_pass,
    .ask = turns_ask,
    .forget = turns_forget,
};

static inline hf_client *turns_client(int64_t request_ms)
{
    hf_options given = HF_OPTIONS_INIT;
    hf_client *client = NULL;
    given.request_timeout_ms = request_ms;
    clock_begin();
    ck_assert_int_eq(hf_backend_register(&turns_store, NULL), 0);
    ck_assert_int_eq(hf_open("turns:", &given, &client, NULL), 0);
    return client;
}

#endif
