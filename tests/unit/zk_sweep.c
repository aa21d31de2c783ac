/* SPDX-License-Identifier: MIT */
/* The sweep of zk_sweep.h. */
#include "zk_sweep.h"

#include "../../src/base/mem.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct fake_host sweep_a, sweep_b;
struct hf_ticket sweep_one, sweep_two;
bool sweep_ended, sweep_short;

static const char *options;

/* ---- Rounds ---------------------------------------------------------------------- */

/* With ZK_TRACE=1 in the environment; so does zk_tree.c, of each request. */
static void round_say(const char *what, int fault, uint64_t nth)
{
    if (getenv("ZK_TRACE"))
        fprintf(stderr, "%s %" PRIu64 ", fault %d\n", what, nth, fault);
}

static void round_begin(void)
{
    tree_begin();
    tree_open(&sweep_a, options);
    tree_open(&sweep_b, options);
}

static void round_end(size_t live)
{
    tree_rest();
    tree.after = NULL;
    unsigned asked = tree.asked;
    tree_rest();
    ck_assert_uint_eq(tree.asked, asked); /* nothing is asked for ever */
    ck_assert_msg(tree_left() == 0, "%s is left", tree_first("-")->path);
    if (!sweep_short) /* no memory to take a watch off: it stays for the session */
        ck_assert_uint_eq(tree_watches(), 0);
    if (!sweep_ended)
        ck_assert_uint_eq(tree.losses, 0);
    tree_close(&sweep_a);
    tree_close(&sweep_b);
    tree_end();
    ck_assert_uint_eq(hf__mem_live(), live);
}

static unsigned sweep_with(void (*scene)(void), enum tree_fault fault)
{
    unsigned nth = 0;
    sweep_short = false;
    sweep_ended =
        fault == TREE_END_BEFORE || fault == TREE_END_AFTER || fault == TREE_LINGER;
    do {
        size_t live = hf__mem_live();
        round_begin();
        tree_spoil(++nth, fault);
        round_say("request", fault, nth);
        scene();
        round_end(live);
    } while (tree.spoilt);
    return nth;
}

static void sweep_memory(void (*scene)(void))
{
    uint64_t most = 0;
    sweep_ended = false;
    sweep_short = true;
    for (uint64_t nth = 0; nth <= most; nth++) {
        size_t live = hf__mem_live();
        round_begin();
        uint64_t before = hf__mem_count();
        hf__mem_fail(nth, 0);
        round_say("allocation", 0, nth);
        scene();
        hf__mem_fail(0, 0);
        if (nth == 0)
            most = hf__mem_count() - before;
        round_end(live);
    }
}

void sweep(const char *with, void (*scene)(void))
{
    options = with;
    ck_assert_uint_gt(sweep_with(scene, TREE_CUT_BEFORE), 1);
    sweep_with(scene, TREE_CUT_AFTER);
    sweep_with(scene, TREE_END_BEFORE);
    sweep_with(scene, TREE_END_AFTER);
    sweep_with(scene, TREE_LINGER);
    sweep_with(scene, TREE_REAP);
    sweep_memory(scene);
}

void sweep_asks(const char *with, void (*scene)(void), const char *letters)
{
    size_t live = hf__mem_live();
    options = with;
    sweep_ended = sweep_short = false;
    round_begin();
    tree_spoil(0, TREE_FINE);
    scene();
    tree_rest();
    ck_assert_str_eq(tree.asked_by_first, letters);
    round_end(live);
}

/* ---- Scenes ---------------------------------------------------------------------- */

void sweep_tickets(int kind, uint32_t permits, uint32_t limit)
{
    sweep_one = fake_permits("jobs/nightly", kind, permits, limit);
    sweep_two = fake_permits("jobs/nightly", kind, permits, limit);
    sweep_one.ttl_ns = sweep_two.ttl_ns = INT64_C(60000000000);
}

/* Tokens are transactions. */
void sweep_hold(struct fake_host *host, struct hf_ticket *ticket)
{
    struct fake_answer answer = tree_take(host, ticket);
    ck_assert_msg(answer.what == FAKE_GRANTED, "%d: %d %s", answer.what, answer.code,
                  answer.why.text);
    ck_assert_uint_gt(answer.grant.token, 100);
    ck_assert_uint_le(answer.grant.token, (uint64_t)tree.zxid);
    ck_assert_int_gt(answer.grant.ttl_ns, 0);
}

void sweep_leave(struct fake_host *host, struct hf_ticket *ticket)
{
    enum hf_withdrawal answer = tree_leave(host, ticket);
    if (!sweep_ended || host == &sweep_b)
        ck_assert_int_eq(answer, HF_WITHDRAWN);
}

void sweep_take_and_leave(void)
{
    sweep_hold(&sweep_a, &sweep_one);
    ck_assert_uint_ge(tree_left(), 1);
    sweep_leave(&sweep_a, &sweep_one);
}

void sweep_wait_and_take(void)
{
    sweep_hold(&sweep_b, &sweep_two);
    tree_queue(&sweep_a, &sweep_one);
    tree_rest(); /* whatever it asks for while it waits */
    sweep_leave(&sweep_b, &sweep_two);
    tree_granted(&sweep_a, &sweep_one);
    sweep_leave(&sweep_a, &sweep_one);
}

/* A second try may look before it goes in. */
void sweep_try_and_fail(void)
{
    sweep_hold(&sweep_b, &sweep_two);
    size_t nodes = tree_left();
    sweep_one.flags = HF_TICKET_TRY;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(tree_take(&sweep_a, &sweep_one).what, FAKE_BUSY);
    tree_rest();
    ck_assert_uint_eq(tree_left(), nodes);
    sweep_leave(&sweep_b, &sweep_two);
    struct fake_answer answer = tree_take(&sweep_a, &sweep_one);
    if (answer.what == FAKE_BUSY && sweep_ended) { /* a node of the former session */
        tree_rest();
        answer = tree_take(&sweep_a, &sweep_one);
    }
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    sweep_leave(&sweep_a, &sweep_one);
}

void sweep_wait_and_give_up(void)
{
    sweep_hold(&sweep_b, &sweep_two);
    size_t nodes = tree_left();
    tree_queue(&sweep_a, &sweep_one);
    tree_leave(&sweep_a, &sweep_one);
    tree_rest();
    ck_assert_uint_eq(tree_left(), nodes);
    sweep_leave(&sweep_b, &sweep_two);
}

/* Core forgets the ticket, which is no more from then on, at any moment. */
void sweep_forget(void)
{
    for (int turns = 0; turns < 12; turns += 1 + turns / 4) {
        struct hf_ticket *ticket = malloc(sizeof *ticket);
        *ticket = sweep_one;
        ticket->id = fake_id();
        fake_attempt(&sweep_a, ticket);
        for (int i = 0; i < turns; i++)
            tree_turn();
        fake_forget(&sweep_a, ticket);
        free(ticket);
        sweep_a.count = 0;
    }
    tree_rest();
    ck_assert_uint_eq(tree_left(), 0);
}
