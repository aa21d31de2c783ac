/* SPDX-License-Identifier: MIT */
/*
 * Fencing: every grant on a name has a larger token than all grants before it, whatever
 * ended those, and a resource that looks at tokens is safe from a holder that
 * overslept.
 */
#include <stdio.h>
#include <stdlib.h>

#include "contract.h"

#define TTL 30000

struct tokens {
    uint64_t last[3];
};

/* Every want of the hold has a token above all earlier ones. */
static void tokens_grow(struct tokens *tokens, const hf_hold *hold)
{
    for (size_t i = 0; i < hf_hold_count(hold); i++) {
        CHECK(hf_hold_token(hold, i) > tokens->last[i]);
        tokens->last[i] = hf_hold_token(hold, i);
    }
    CHECK_EQ(hf_hold_token(hold, hf_hold_count(hold)), 0);
}

static void token_over_release(struct env *e)
{
    struct tokens tokens = { { 0 } };
    hf_client *clients[2] = { client_open(e), client_open(e) };
    for (int i = 0; i < 40; i++) {
        hf_hold *hold = held(e, clients[i / 3 % 2], .who = (uint64_t)i + 1);
        tokens_grow(&tokens, hold);
        let_go(hold);
    }
}

/* Between the two grants of one name lie many of others. Where a server is slow enough
 * for tests to share it, a tenth of that. */
static void token_over_other_names(struct env *e)
{
    struct tokens tokens = { { 0 } };
    int many = e->store->prepare ? 200 : 2000;
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    tokens_grow(&tokens, hold);
    let_go(hold);
    for (int i = 0; i < many; i++) {
        char name[32];
        snprintf(name, sizeof name, "name/%d", i);
        let_go(held(e, client, .name = name));
    }
    hold = held(e, client);
    tokens_grow(&tokens, hold);
    let_go(hold);
}

static void token_over_expiry(struct env *e)
{
    struct tokens tokens = { { 0 } };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *first = held(e, a, .ttl = TTL, .flags = HF_FIXED);
    tokens_grow(&tokens, first);
    clock_advance(TTL + 1000);
    hf_hold *second = held_soon(e, b);
    tokens_grow(&tokens, second);
    CHECK_RC(hf_release(first, NULL), HF_ELOST);
    let_go(second);
}

static void token_over_eviction(struct env *e)
{
    struct tokens tokens = { { 0 } };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *first = held(e, a);
    tokens_grow(&tokens, first);
    holder_evict(e, b);
    CHECK_RC(hf_release(first, NULL), HF_ELOST);
    hf_hold *second = held(e, b, .timeout = HF_FOREVER);
    tokens_grow(&tokens, second);
    let_go(second);
}

/* No client was left in between. */
static void token_over_reopen(struct env *e)
{
    struct tokens tokens = { { 0 } };
    for (int i = 0; i < 5; i++) {
        hf_client *client = client_open(e);
        hf_hold *hold = held(e, client);
        tokens_grow(&tokens, hold);
        if (i % 2)
            let_go(hold);
        client_close(e, client);
        CHECK_RC(hf_release(hold, NULL), i % 2 ? HF_ERELEASED : HF_ECLOSED);
    }
}

static void token_over_handover(struct env *e)
{
    struct tokens tokens = { { 0 } };
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    for (int i = 0; i < 200; i++) {
        tokens_grow(&tokens, hold);
        hf_op *op =
            begin(e, client, NULL, NULL, .timeout = HF_FOREVER, .who = (uint64_t)i + 2);
        let_go(hold);
        CHECK_RC(op_end(op, HF_FOREVER, &hold), 0);
    }
    let_go(hold);
}

static void token_over_processes(struct env *e)
{
    uint64_t last = 0;
    hf_client *client = client_open(e);
    for (int i = 0; i < 3; i++) {
        struct taker *taker = taker_start(e, NULL);
        uint64_t token = taker_take(e, taker, THING, HF_FOREVER, 0, 0);
        CHECK(token > last);
        if (i == 1) {
            taker_say(taker, "release");
            taker_expect(taker, "done");
        }
        taker_kill(taker);
        hf_hold *hold = held(e, client, .timeout = HF_FOREVER);
        CHECK(hf_hold_token(hold, 0) > token);
        last = hf_hold_token(hold, 0);
        let_go(hold);
    }
}

/* ---- The fenced register --------------------------------------------------------- */

/* The holder is stopped, its lease ends, the next one writes; when the first wakes up
 * it says "lost" before it has asked anybody, and the register refuses its token. */
static void stale_write_is_refused(struct env *e)
{
    char path[256];
    snprintf(path, sizeof path, "%s/register", e->scratch);
    struct guarded *guarded = guarded_map(path);
    hf_client *client = client_open(e);

    struct taker *taker = taker_start(e, NULL);
    uint64_t token = taker_take(e, taker, THING, 0, TTL, 0);
    taker_say(taker, "write %s", path);
    taker_expect(taker, "written");
    taker_stop(taker);
    CHECK_BUSY(e, client, .rival = true);
    clock_advance(TTL + 1000);
    hf_hold *hold = held(e, client, .rival = true, .timeout = HF_FOREVER);
    CHECK(hf_hold_token(hold, 0) > token);
    CHECK(guarded_write(guarded, hf_hold_token(hold, 0)));

    taker_continue(taker);
    taker_say(taker, "state");
    CHECK_EQ(strtol(taker_expect(taker, "state"), NULL, 10), HF_LOST);
    taker_say(taker, "write %s", path);
    taker_expect(taker, "refused");
    taker_say(taker, "release");
    CHECK_TEXT(taker_expect(taker, "failed"), "HF_ELOST");
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    let_go(hold);
    guarded_unmap(guarded);
}

/* Its turn came while it was stopped, and passed. What it finds when it goes on is out
 * of date, and must not be believed. */
static void turn_passes_while_stopped(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *first = held(e, client, .rival = true);
    struct taker *taker = taker_start(e, NULL);
    taker_begin(e, taker, THING, HF_FOREVER, TTL, HF_FIXED);
    EVENTUALLY(queued(e, client, 1));
    taker_stop(taker);
    let_go(first);
    clock_advance(TTL + 1000);
    hf_hold *hold = held(e, client, .rival = true, .timeout = HF_FOREVER);
    taker_continue(taker);

    EVENTUALLY(taker_has_said(taker) || queued(e, client, 1));
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    if (taker_has_said(taker)) {
        CHECK_TEXT(taker_expect(taker, "failed"), "HF_ELOST");
        let_go(hold);
        return;
    }
    let_go(hold);
    taker_expect(taker, "held");
    taker_say(taker, "state");
    CHECK_EQ(strtol(taker_expect(taker, "state"), NULL, 10), HF_HELD);
    taker_say(taker, "release");
    taker_expect(taker, "done");
}

const struct scenario scenarios_token[] = {
    { "token-over-release", LOCKS, 0, 0, token_over_release },
    { "token-over-other-names", LOCKS & ~PERMITS_OF_5, 0, 0, token_over_other_names },
    { "turn-passes-while-stopped", LOCKS,
      HF_CAP_LEASE | HF_CAP_PROCESSES | HF_CAP_INSPECT, CLOCK,
      turn_passes_while_stopped },
    { "token-over-expiry", LOCKS, HF_CAP_LEASE, CLOCK, token_over_expiry },
    { "token-over-eviction", LOCKS, HF_CAP_INSPECT | HF_CAP_EVICT, 0,
      token_over_eviction },
    { "token-over-reopen", LOCKS, 0, 0, token_over_reopen },
    { "token-over-handover", LOCKS, 0, 0, token_over_handover },
    { "token-over-processes", LOCKS, HF_CAP_PROCESSES | HF_CAP_CRASH, 0,
      token_over_processes },
    { "stale-write-is-refused", LOCKS, HF_CAP_PROCESSES | HF_CAP_LEASE, CLOCK,
      stale_write_is_refused },
    { NULL, 0, 0, 0, NULL },
};
