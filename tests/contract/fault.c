/* SPDX-License-Identifier: MIT */
/*
 * A store whose answers get lost, or that says that it cannot.
 *
 * All through the fault shim. Whatever happens on the way, a grant is given once, the
 * caller gets a code that tells it what is known, and nothing is left in the store.
 * A client that waits no longer than hasty_ms() repeats its requests after a third of
 * that time.
 */
#include <string.h>

#include "../harness/faults.h"
#include "contract.h"

static hf_client *hasty_client(struct env *e)
{
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = hasty_ms(e);
    return client_with(e, &options);
}

/* A client in such haste takes a server that is busy for one that is away. */
static void verified(hf_hold *hold)
{
    EVENTUALLY(hf_hold_verify(hold, NULL) == 0);
}

/* Such a client may have to say that it does not know yet; "lost" would be wrong. */
static void let_go_hastily(hf_hold *hold)
{
    int rc = hf_release(hold, NULL);
    CHECK(rc == 0 || rc == HF_EUNCERTAIN);
}

/* One look from outside: all parts of one hold, and nobody in the queue. */
static void one_hold_is_seen(struct env *e, hf_client *watcher, const hf_hold *hold)
{
    CHECK_EQ(seen(e, watcher, HF_HOLDER), hf_hold_count(hold));
    CHECK_EQ(seen(e, watcher, HF_WAITER), 0);
}

/* ---- Lost replies ---------------------------------------------------------------- */

static void lost_grants(struct env *e)
{
    hf_client *watcher = client_open(e);
    hf_client *client = hasty_client(e);
    ballast_ensure(e, THING);
    for (uint64_t n = 1; n <= 3; n++) {
        fault_lose(HF_FAULT_ATTEMPT, 1, n);
        hf_hold *hold = held(e, client, .timeout = HF_FOREVER);
        CHECK(hf__fault_calls(HF_FAULT_ATTEMPT) > n);
        fault_none();
        one_hold_is_seen(e, watcher, hold);
        verified(hold);
        let_go_hastily(hold);
        EVENTUALLY(seen(e, watcher, HF_HOLDER) == 0);
    }
}

/* Every reply but the first: a multi-lock loses them halfway. */
static void lost_grant_of_second(struct env *e)
{
    hf_client *watcher = client_open(e);
    hf_client *client = hasty_client(e);
    ballast_ensure(e, THING);
    for (uint64_t n = 2; n <= 4; n++) {
        fault_lose(HF_FAULT_ATTEMPT, n, n);
        hf_hold *hold = held(e, client, .timeout = HF_FOREVER);
        fault_none();
        one_hold_is_seen(e, watcher, hold);
        let_go_hastily(hold);
    }
}

/* A try: it may say that it does not know, but then it cleans up. */
static void lost_try(struct env *e)
{
    hf_client *watcher = client_open(e);
    hf_client *client = hasty_client(e);
    hf_hold *hold = NULL;
    ballast_ensure(e, THING);
    fault_lose(HF_FAULT_ATTEMPT, 1, 1);
    int rc = take(e, client, &hold);
    fault_none();
    CHECK(rc == 0 || rc == HF_EUNREACHABLE || rc == HF_EUNCERTAIN);
    if (rc == 0)
        let_go_hastily(hold);
    EVENTUALLY(seen(e, watcher, HF_HOLDER) == 0);
}

static void lost_place_in_queue(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = hasty_client(e);
    for (uint64_t n = 1; n <= 3; n++) {
        hf_hold *other = NULL;
        hf_hold *hold = held(e, a);
        fault_lose(HF_FAULT_ATTEMPT, 1, n);
        hf_op *op = begin(e, b, NULL, NULL, .rival = true, .timeout = HF_FOREVER);
        EVENTUALLY(queued(e, a, 1));
        let_go(hold);
        CHECK_RC(op_end(op, HF_FOREVER, &other), 0);
        fault_none();
        CHECK_RC(hf_hold_verify(other, NULL), 0);
        CHECK_EQ(seen(e, a, HF_WAITER), 0);
        let_go_hastily(other);
    }
}

/* The release was done and the answer lost. Not knowing is allowed; "lost" is not. */
static void lost_release(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = hasty_client(e);
    for (uint64_t n = 1; n <= 2; n++) {
        hf_hold *hold = held(e, b);
        fault_lose(HF_FAULT_WITHDRAW, 1, n);
        int rc = hf_release(hold, NULL);
        CHECK(rc == 0 || rc == HF_EUNCERTAIN);
        fault_none();
        let_go(held(e, a, .rival = true, .timeout = HF_FOREVER));
    }
}

static void lost_cancel(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = hasty_client(e);
    hf_hold *hold = held(e, a);
    hf_hold *other = NULL;
    hf_op *op = begin(e, b, NULL, NULL, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, a, 1));
    fault_lose(HF_FAULT_WITHDRAW, 1, 1);
    hf_op_cancel(op);
    int rc = op_end(op, HF_FOREVER, &other); /* uncertain: not known to be out yet */
    CHECK(rc == HF_ECANCELLED || rc == HF_EUNCERTAIN);
    fault_none();
    EVENTUALLY(seen(e, a, HF_WAITER) == 0);
    let_go(hold);
    check_free(e);
}

static void lost_look(struct env *e)
{
    hf_client *client = hasty_client(e);
    hf_hold *hold = held(e, client);
    fault_lose(HF_FAULT_ASK, 1, 2);
    CHECK_EQ(seen(e, client, HF_HOLDER), hf_hold_count(hold));
    fault_none();
    let_go_hastily(hold);
}

static void adopt_without_answer(struct env *e, hf_client *by, hf_hold *hold)
{
    char id[HF_ID_MAX];
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *adopted = NULL;
    options.ttl_ms = e->form->ttl_ms;
    options.timeout_ms = 30000; /* three times what its client waits for an answer */
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    fault_lose(HF_FAULT_ASK, 1, 2);
    CHECK_RC(hf_adopt(by, id, &options, &adopted, NULL), 0);
    fault_none();
    CHECK_RC(hf_hold_verify(adopted, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    let_go_hastily(adopted);
}

/* It was moved to us and nobody said so: asked again, it is ours, not gone. What has a
 * long name is freed with its release: then the store must not know it any more, also
 * from the first answer. */
static void lost_adoption(struct env *e)
{
    char name[400];
    hf_client *a = client_open(e);
    hf_client *b = hasty_client(e);
    hf_hold *hold = NULL;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    adopt_without_answer(e, b, held(e, a));
    check_free(e);
    CHECK_RC(hf_lock(a, name, 0, &hold, NULL), 0);
    adopt_without_answer(e, b, hold);
    client_close(e, b);
    check_free(e);
}

static void lost_downgrade(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = hasty_client(e);
    hf_want read = hf_read(THING);
    hf_hold *other = NULL;
    hf_hold *hold = held(e, b);
    fault_lose(HF_FAULT_ASK, 1, 2);
    CHECK_RC(hf_hold_downgrade(hold, 0, NULL), 0);
    fault_none();
    CHECK_RC(hf_acquire(a, &read, 1, NULL, &other, NULL), 0);
    CHECK_BUSY(e, a);
    let_go(other);
    let_go_hastily(hold);
}

/* ---- Cannot ---------------------------------------------------------------------- */

/* What was never sent need not be taken back: that this fails, too, changes nothing. */
static void unreachable_says_so(struct env *e)
{
    static const struct hf_fault faults[] = {
        { HF_FAULT_ATTEMPT, HF_FAULT_FAIL_BEFORE, 1, HF_FAULT_ALWAYS, 0 },
        { HF_FAULT_WITHDRAW, HF_FAULT_FAIL_BEFORE, 1, HF_FAULT_ALWAYS, 0 },
    };
    hf_client *watcher = client_open(e);
    hf_client *client = hasty_client(e);
    hf_hold *hold = NULL;
    ballast_ensure(e, THING);
    hf__fault_plan(faults, 2);
    CHECK_RC(take(e, client, &hold), HF_EUNREACHABLE);
    int rc = take(e, client, &hold, .timeout = 100);
    CHECK(rc == HF_EUNREACHABLE || rc == HF_ETIMEOUT);
    CHECK(hold == NULL);
    fault_none();
    EVENTUALLY(seen(e, watcher, HF_HOLDER) == 0);
    let_go_hastily(held(e, client));
}

/* It was unreachable for a while, and the caller had time. */
static void unreachable_for_a_while(struct env *e)
{
    hf_client *client = hasty_client(e);
    ballast_ensure(e, THING);
    fault_plan(HF_FAULT_ATTEMPT, HF_FAULT_FAIL_BEFORE, 1, 2, 0);
    hf_hold *hold = held(e, client, .timeout = HF_FOREVER);
    fault_none();
    verified(hold);
    let_go_hastily(hold);
}

/* It may have been granted, and cannot be taken back yet: that is not known. */
static void uncertain_says_so(struct env *e)
{
    static const struct hf_fault faults[] = {
        { HF_FAULT_ATTEMPT, HF_FAULT_FAIL_AFTER, 1, HF_FAULT_ALWAYS, 0 },
        { HF_FAULT_WITHDRAW, HF_FAULT_FAIL_BEFORE, 1, HF_FAULT_ALWAYS, 0 },
    };
    hf_client *watcher = client_open(e);
    hf_client *client = hasty_client(e);
    hf_hold *hold = NULL;
    ballast_ensure(e, THING);
    hf__fault_plan(faults, 2);
    CHECK_RC(take(e, client, &hold), HF_EUNCERTAIN);
    CHECK(hold == NULL);
    fault_none();
    EVENTUALLY(seen(e, watcher, HF_HOLDER) == 0);
    check_free(e);
}

/* It may have been granted, and was taken back for certain. Of a store that is away the
 * caller waits a fifth of a second for that; a slow server may need longer. */
static void taken_back_is_unreachable(struct env *e)
{
    hf_client *watcher = client_open(e);
    hf_client *client = hasty_client(e);
    hf_hold *hold = NULL;
    ballast_ensure(e, THING);
    fault_plan(HF_FAULT_ATTEMPT, HF_FAULT_FAIL_AFTER, 1, HF_FAULT_ALWAYS, 0);
    int rc = take(e, client, &hold);
    CHECK(rc == HF_EUNREACHABLE || (rc == HF_EUNCERTAIN && e->store->prepare));
    CHECK(hold == NULL);
    if (rc == HF_EUNREACHABLE)
        CHECK_EQ(seen(e, watcher, HF_HOLDER), 0);
    EVENTUALLY(seen(e, watcher, HF_HOLDER) == 0);
    fault_none();
}

static void verify_unreachable(struct env *e)
{
    hf_client *client = hasty_client(e);
    hf_hold *hold = held(e, client);
    fault_plan(HF_FAULT_RENEW, HF_FAULT_FAIL_BEFORE, 1, HF_FAULT_ALWAYS, 0);
    CHECK_RC(hf_hold_verify(hold, NULL), HF_EUNREACHABLE);
    fault_none();
    verified(hold);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    let_go_hastily(hold);
}

/* Away for a moment: whoever asks is not told that, nor kept until its time is up. */
static void verify_asks_again(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    fault_plan(HF_FAULT_RENEW, HF_FAULT_FAIL_BEFORE, 1, 2, 0);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    CHECK(hf__fault_calls(HF_FAULT_RENEW) > 2);
    fault_none();
    let_go(hold);
}

/* The caller is not kept; the withdrawal goes on by itself. */
static void release_unreachable(struct env *e)
{
    hf_client *watcher = client_open(e);
    hf_client *client = hasty_client(e);
    hf_hold *hold = held(e, client);
    fault_plan(HF_FAULT_WITHDRAW, HF_FAULT_FAIL_BEFORE, 1, HF_FAULT_ALWAYS, 0);
    CHECK_RC(hf_release(hold, NULL), HF_EUNCERTAIN);
    CHECK_RC(hf_release(hold, NULL), HF_ERELEASED);
    fault_none();
    EVENTUALLY(seen(e, watcher, HF_HOLDER) == 0);
    check_free(e);
}

/* Nothing can be asked: whoever asks is told. */
static void ask_unreachable(struct env *e)
{
    hf_client *client = hasty_client(e);
    hf_report *report = NULL;
    fault_plan(HF_FAULT_ASK, HF_FAULT_FAIL_BEFORE, 1, HF_FAULT_ALWAYS, 0);
    CHECK_RC(hf_inspect(client, "", true, &report, NULL), HF_EUNREACHABLE);
    CHECK(report == NULL);
    fault_none();
    CHECK_RC(hf_inspect(client, "", true, &report, NULL), 0);
    hf_report_free(report);
}

#define FAULT (NEED_FAULT | HF_CAP_INSPECT)

const struct scenario scenarios_fault[] = {
    { "lost-grants", LOCKS, FAULT, 0, lost_grants },
    { "lost-grant-of-second", MULTI, FAULT, 0, lost_grant_of_second },
    { "lost-try", LOCKS, FAULT, 0, lost_try },
    { "lost-place-in-queue", LOCKS, FAULT, 0, lost_place_in_queue },
    { "lost-release", LOCKS, FAULT, 0, lost_release },
    { "lost-cancel", LOCKS, FAULT, 0, lost_cancel },
    { "lost-look", LOCKS, FAULT, 0, lost_look },
    { "lost-adoption", SINGLES, FAULT | HF_CAP_DETACH, 0, lost_adoption },
    { "lost-downgrade", WRITE, FAULT | HF_CAP_DOWNGRADE, 0, lost_downgrade },
    { "unreachable-says-so", LOCKS, FAULT, 0, unreachable_says_so },
    { "unreachable-for-a-while", LOCKS, FAULT, 0, unreachable_for_a_while },
    { "uncertain-says-so", LOCKS, FAULT, 0, uncertain_says_so },
    { "taken-back-is-unreachable", LOCKS, FAULT, 0, taken_back_is_unreachable },
    { "verify-unreachable", LOCKS, FAULT, 0, verify_unreachable },
    { "verify-asks-again", LOCKS, FAULT, 0, verify_asks_again },
    { "release-unreachable", LOCKS, FAULT, 0, release_unreachable },
    { "ask-unreachable", LOCKS, FAULT, 0, ask_unreachable },
    { NULL, 0, 0, 0, NULL },
};
