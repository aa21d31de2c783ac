/* SPDX-License-Identifier: MIT */
/* Clients of the server of zk_tree.h, driven as core drives them. */
#include "zk_tree.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

extern const struct hf_backend hf__backend_zookeeper;

enum { IDLE_MS = 5, TURNS = 20000, REST = 60 };

#define NS_PER_MS INT64_C(1000000)

/* ---- Opening and closing block: a thread is the server meanwhile ----------------- */

static atomic_bool serving;

static void *serve(void *arg)
{
    while (atomic_load(&serving))
        if (!tree_step())
            poll(NULL, 0, 1); /* pause: somebody else has to speak first */
    return arg;
}

static pthread_t serve_begin(void)
{
    pthread_t thread;
    atomic_store(&serving, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
    return thread;
}

static void serve_end(pthread_t thread)
{
    atomic_store(&serving, false);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

void tree_open(struct fake_host *host, const char *options)
{
    char url[160];
    hf_error why = { 0 };
    size_t slot = 0;
    while (tree.hosts[slot])
        slot++;
    ck_assert_uint_lt(slot, TREE_CALLERS);
    tree.hosts[slot] = host;
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%u/%s", tree.port, options);
    pthread_t thread = serve_begin();
    int rc = fake_open_why(host, &hf__backend_zookeeper, url, &tree.clock, &why);
    serve_end(thread);
    ck_assert_msg(rc == 0, "%d: %s", rc, why.text);
}

void tree_close(struct fake_host *host)
{
    host->count = 0;
    pthread_t thread = serve_begin();
    fake_close(host);
    serve_end(thread);
    for (size_t i = 0; i < TREE_CALLERS; i++)
        if (tree.hosts[i] == host)
            tree.hosts[i] = NULL;
}

/* ---- Time ------------------------------------------------------------------------ */

void tree_turn(void)
{
    bool busy = tree_step();
    for (size_t i = 0; i < TREE_CALLERS; i++) {
        if (!tree.hosts[i])
            continue;
        unsigned wakes = tree.hosts[i]->wakes;
        fake_turn(tree.hosts[i], 0);
        busy |= tree.hosts[i]->wakes != wakes;
    }
    if (tree.purge_ns && tree.clock.now_ns >= tree.purge_ns)
        tree_purge();
    if (!busy && !tree_step())
        tree.clock.now_ns += IDLE_MS * NS_PER_MS;
}

void tree_rest(void)
{
    int64_t until = tree.clock.now_ns + REST * IDLE_MS * NS_PER_MS;
    while (tree.clock.now_ns < until || tree.purge_ns)
        tree_turn();
}

void tree_sleep(int64_t ms)
{
    int64_t until = tree.clock.now_ns + ms * NS_PER_MS;
    while (tree.clock.now_ns < until)
        tree_turn();
}

/* ---- Answers --------------------------------------------------------------------- */

struct fake_answer tree_next(struct fake_host *host, const void *about)
{
    for (int turns = 0; turns < TURNS; turns++) {
        while (host->count) {
            struct fake_answer answer = host->answers[host->first];
            host->first = (host->first + 1) % FAKE_MAX;
            host->count--;
            bool lost = answer.what == FAKE_EVENT && answer.code == HF_EVENT_LOST;
            tree.losses += lost;
            if (answer.about == about && !lost)
                return answer;
        }
        tree_turn();
    }
    ck_abort_msg("no answer");
}

static bool is_open(const struct fake_answer *answer)
{
    return answer->what == FAKE_NOTICE ||
           (answer->what == FAKE_FAILED &&
            (answer->code == HF_EUNREACHABLE || answer->code == HF_EUNCERTAIN ||
             answer->code == HF_ENOMEM));
}

/* Up to an answer that is none of "ask again" and "wait"; `queued`: or up to that. */
static struct fake_answer take_until(struct fake_host *host, struct hf_ticket *ticket,
                                     bool queued)
{
    for (;;) {
        struct fake_answer answer = tree_next(host, ticket);
        if (is_open(&answer)) {
            tree_sleep(20);
            if (!host->count) /* else that is the answer */
                fake_attempt(host, ticket);
        } else if (answer.what != FAKE_QUEUED || queued) {
            return answer;
        }
    }
}

struct fake_answer tree_take(struct fake_host *host, struct hf_ticket *ticket)
{
    fake_attempt(host, ticket);
    return take_until(host, ticket, false);
}

void tree_queue(struct fake_host *host, struct hf_ticket *ticket)
{
    fake_attempt(host, ticket);
    struct fake_answer answer = take_until(host, ticket, true);
    ck_assert_msg(answer.what == FAKE_QUEUED, "%d: %d %s", answer.what, answer.code,
                  answer.why.text);
}

uint64_t tree_granted(struct fake_host *host, struct hf_ticket *ticket)
{
    struct fake_answer answer = take_until(host, ticket, false);
    ck_assert_msg(answer.what == FAKE_GRANTED, "%d: %d %s", answer.what, answer.code,
                  answer.why.text);
    return answer.grant.token;
}

static void withdraw(struct fake_host *host, struct hf_ticket *ticket)
{
    host->calls++;
    host->store->withdraw(host->session, ticket);
    host->calls--;
}

/* Repeated until it is known, as core does. */
enum hf_withdrawal tree_leave(struct fake_host *host, struct hf_ticket *ticket)
{
    withdraw(host, ticket);
    for (;;) {
        struct fake_answer answer = tree_next(host, ticket);
        if (answer.what != FAKE_WITHDRAWN)
            continue;
        if (answer.code == HF_WITHDRAWN || answer.code == HF_GONE)
            return (enum hf_withdrawal)answer.code;
        tree_sleep(20);
        if (!host->count)
            withdraw(host, ticket);
    }
}

enum hf_renewal tree_renew(struct fake_host *host, struct hf_ticket *ticket,
                           enum hf_renew_mode mode)
{
    host->calls++;
    host->store->renew(host->session, &ticket, 1, mode);
    host->calls--;
    for (;;) {
        struct fake_answer answer = tree_next(host, ticket);
        if (answer.what == FAKE_RENEWED)
            return (enum hf_renewal)answer.code;
    }
}

int tree_ask_once(struct fake_host *host, struct hf_request *request, hf_error *why)
{
    host->entry_count = host->finding_count = 0;
    host->calls++;
    host->store->ask(host->session, request);
    host->calls--;
    struct fake_answer answer = tree_next(host, request);
    ck_assert_int_eq(answer.what, FAKE_ANSWERED);
    if (why)
        *why = answer.why;
    return answer.code;
}

/* Asked again with the same id. Uncertain for good: the session has ended. */
int tree_ask(struct fake_host *host, struct hf_request *request, hf_error *why)
{
    int rc = HF_EUNREACHABLE;
    for (int i = 0; i < 40; i++) {
        rc = tree_ask_once(host, request, why);
        if (rc != HF_EUNREACHABLE && rc != HF_EUNCERTAIN && rc != HF_ENOMEM)
            break;
        tree_sleep(20);
    }
    return rc;
}
