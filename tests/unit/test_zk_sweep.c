/* SPDX-License-Identifier: MIT */
/*
 * Locks of the zookeeper store with one fault in each request in turn (zk_sweep.h): the
 * lock is acquired in the end, a release is known to be one, and a loss is reported.
 */
#include "unit.h"

#include "zk_sweep.h"

#include <string.h>

static void mutex(void)
{
    sweep_tickets(HF_MUTEX, 1, 1);
}

static void alone(void)
{
    mutex();
    sweep_take_and_leave();
}

static void waits(void)
{
    mutex();
    sweep_wait_and_take();
}

static void tries(void)
{
    mutex();
    sweep_try_and_fail();
}

static void gives_up(void)
{
    mutex();
    sweep_wait_and_give_up();
}

static void forgotten(void)
{
    mutex();
    sweep_forget();
}

START_TEST(mutexes)
{
    sweep("", alone);
    sweep("", waits);
    sweep("", forgotten);
}
END_TEST

/* The server keeps from us what is in the nodes of others. */
static void waits_for_the_unreadable(void)
{
    tree.deny = ZK_OPCODE_GET;
    tree.deny_path = "-lock-";
    tree.error = ZK_NOAUTH;
    waits();
}

START_TEST(mutexes_behind_an_acl)
{
    sweep("", waits_for_the_unreadable);
}
END_TEST

START_TEST(mutexes_that_are_not_got)
{
    sweep("", tries);
    sweep("", gives_up);
}
END_TEST

START_TEST(kazoo)
{
    sweep("?layout=kazoo", waits);
    sweep("?layout=kazoo", tries);
}
END_TEST

START_TEST(single)
{
    sweep("?layout=single", alone);
    sweep("?layout=single", waits);
    sweep("?layout=single", tries);
    sweep("?layout=single", gives_up);
    sweep("?layout=single", forgotten);
}
END_TEST

/* ---- Readers and writers --------------------------------------------------------- */

/* Asked until the server has said something. */
static enum hf_renewal renewed(enum hf_renew_mode mode)
{
    for (;;) {
        enum hf_renewal answer = tree_renew(&sweep_a, &sweep_one, mode);
        if (answer != HF_RENEWAL_UNKNOWN)
            return answer;
        tree_sleep(20);
    }
}

/* A writer becomes a reader, and another reader is admitted. */
static void downgrades(void)
{
    struct hf_request request = fake_request(HF_DOWNGRADE, "jobs/nightly");
    sweep_tickets(HF_WRITE, 1, 1);
    sweep_two.kind = HF_READ;
    request.ticket = &sweep_one;
    sweep_hold(&sweep_a, &sweep_one);
    tree_queue(&sweep_b, &sweep_two);
    int rc = tree_ask(&sweep_a, &request, NULL);
    ck_assert_int_eq(rc, sweep_ended && rc ? HF_ELOST : 0);
    if (rc == 0)
        ck_assert_uint_eq(tree_count("__WRIT__"), 0);
    tree_granted(&sweep_b, &sweep_two);
    if (rc == 0 && !sweep_ended) {
        ck_assert_uint_eq(tree_left(), 2);
        ck_assert_int_eq(renewed(HF_CHECK), HF_STILL_HELD);
        ck_assert_int_eq(tree_ask(&sweep_a, &request, NULL), 0); /* again: it is one */
    }
    sweep_leave(&sweep_a, &sweep_one);
    sweep_leave(&sweep_b, &sweep_two);
}

/* Withdrawn before the server has said that the writer is a reader. */
static void turns_and_leaves(void)
{
    struct hf_request request = fake_request(HF_DOWNGRADE, "jobs/nightly");
    sweep_tickets(HF_WRITE, 1, 1);
    request.ticket = &sweep_one;
    sweep_hold(&sweep_a, &sweep_one);
    sweep_a.calls++;
    sweep_a.store->ask(sweep_a.session, &request);
    sweep_a.calls--;
    tree_leave(&sweep_a, &sweep_one);
}

START_TEST(readers_and_writers)
{
    sweep("", downgrades);
    sweep("", turns_and_leaves);
    sweep("?layout=kazoo", downgrades);
}
END_TEST

/* ---- Renewals -------------------------------------------------------------------- */

static void renews(void)
{
    mutex();
    sweep_hold(&sweep_a, &sweep_one);
    for (int i = 0; i < 2; i++) {
        unsigned told = tree.losses;
        enum hf_renewal first = renewed(HF_RENEW), second = renewed(HF_CHECK);
        if (first == HF_RENEWAL_LOST || second == HF_RENEWAL_LOST) {
            ck_assert(sweep_ended);
            ck_assert_uint_eq(tree.losses, told + 1);
            break;
        }
        ck_assert_int_eq(first, HF_RENEWED);
        ck_assert_int_eq(second, HF_STILL_HELD);
        fake_interest(&sweep_a, &sweep_one); /* the second time it is watched */
        tree_rest();
    }
    sweep_leave(&sweep_a, &sweep_one);
}

START_TEST(renewals)
{
    sweep("", renews);
    sweep("?layout=single", renews);
}
END_TEST

/* Who wants to hear of a loss at once does so, whatever happened on the way. */
static void watched(void)
{
    mutex();
    sweep_hold(&sweep_a, &sweep_one);
    fake_interest(&sweep_a, &sweep_one);
    tree_rest();
    struct tree_node *node = tree_first("jobs/nightly/");
    if (!tree.losses && !sweep_a.count) {
        ck_assert_ptr_nonnull(node);
        tree_delete(node->path);
        if (sweep_short) /* no memory for the watch: the renewal tells */
            ck_assert_int_eq(renewed(HF_RENEW), HF_RENEWAL_LOST);
        for (int i = 0; i < 100 && !sweep_a.count && !tree.losses; i++)
            tree_turn();
        struct fake_answer answer = sweep_a.answers[sweep_a.first];
        ck_assert(tree.losses || answer.what == FAKE_EVENT);
        ck_assert(tree.losses || answer.code == HF_EVENT_LOST);
    }
    sweep_a.count = tree.losses = 0; /* all of them were told */
    tree_leave(&sweep_a, &sweep_one);
}

START_TEST(losses)
{
    sweep("", watched);
}
END_TEST

/* ---- One client ------------------------------------------------------------------ */

static void begin(const char *options)
{
    tree_begin();
    tree_open(&sweep_a, options);
    tree_open(&sweep_b, options);
}

static void end(void)
{
    tree_close(&sweep_a);
    tree_close(&sweep_b);
    tree_end();
}

static int downgrade(void)
{
    struct hf_request request = fake_request(HF_DOWNGRADE, "jobs/nightly");
    request.ticket = &sweep_one;
    return tree_ask_once(&sweep_a, &request, NULL);
}

/* Deleted by hand: the downgrade finds out, and tells both. */
START_TEST(a_downgrade_of_what_is_lost)
{
    begin("");
    sweep_tickets(HF_WRITE, 1, 1);
    sweep_hold(&sweep_a, &sweep_one);
    tree_delete(tree_first("__WRIT__")->path);
    ck_assert_int_eq(downgrade(), HF_ELOST);
    ck_assert_uint_eq(tree.losses, 1);
    ck_assert_int_eq(downgrade(), HF_ELOST);
    ck_assert_int_eq(downgrade(), HF_ELOST);
    ck_assert_uint_eq(tree.losses, 1);
    ck_assert_uint_eq(tree_left(), 0);
    tree_cut(0);
    unsigned asked = tree.asked;
    tree_sleep(1000); /* nothing of it is asked again */
    ck_assert_uint_eq(tree.asked, asked);
    tree_leave(&sweep_a, &sweep_one);
    ck_assert_int_eq(downgrade(), HF_ELOST); /* of no hold at all */
    end();
}
END_TEST

/* Refused by the server: the writer writes on. */
START_TEST(a_downgrade_that_is_refused)
{
    begin("");
    sweep_tickets(HF_WRITE, 1, 1);
    sweep_hold(&sweep_a, &sweep_one);
    tree.error = ZK_NOAUTH;
    tree_spoil(1, TREE_ERROR);
    ck_assert_int_eq(downgrade(), HF_EREFUSED);
    tree_spoil(0, TREE_FINE);
    ck_assert_int_eq(renewed(HF_CHECK), HF_STILL_HELD);
    ck_assert_int_eq(downgrade(), 0);
    ck_assert_uint_eq(tree_count("__READ__"), 1);
    ck_assert_int_eq(tree_leave(&sweep_a, &sweep_one), HF_WITHDRAWN);
    end();
}
END_TEST

/* A lease that ends takes the node away; the ticket is not taken up again. */
static void expires(const char *options, int kind, uint32_t permits)
{
    begin(options);
    sweep_tickets(kind, permits, permits);
    sweep_one.ttl_ns = INT64_C(500000000);
    sweep_hold(&sweep_a, &sweep_one);
    tree_sleep(400);
    ck_assert_uint_eq(tree_left(), permits);
    ck_assert_uint_eq(sweep_a.count, 0);
    tree_queue(&sweep_b, &sweep_two);
    tree_sleep(200);
    ck_assert_uint_eq(sweep_a.count, 1);
    ck_assert_int_eq(sweep_a.answers[sweep_a.first].code, HF_EVENT_LOST);
    ck_assert_int_eq(tree_renew(&sweep_a, &sweep_one, HF_RENEW), HF_RENEWAL_LOST);
    tree_granted(&sweep_b, &sweep_two);
    sweep_leave(&sweep_b, &sweep_two);
    if (kind == HF_MUTEX) {
        fake_attempt(&sweep_a, &sweep_one);
        tree_rest();
        ck_assert_uint_eq(sweep_a.count, 0);
    }
    ck_assert_uint_eq(tree_left(), 0);
    ck_assert_int_eq(tree_leave(&sweep_a, &sweep_one), HF_GONE);
    end();
}

START_TEST(leases_end)
{
    expires("", HF_MUTEX, 1);
    expires("?layout=single", HF_MUTEX, 1);
    expires("", HF_PERMITS, 3);
    expires("", HF_EXPIRING, 2);
}
END_TEST

/* Every attempt is answered, also while there is no server. */
static void answered(const char *options, int kind)
{
    begin(options);
    sweep_tickets(kind, 1, 1);
    tree.deaf = true;
    tree_cut(0);
    tree_rest();
    for (int i = 0; i < 3; i++) {
        fake_attempt(&sweep_a, &sweep_one);
        struct fake_answer answer = tree_next(&sweep_a, &sweep_one);
        ck_assert_int_eq(answer.what, FAKE_FAILED);
        ck_assert_int_eq(answer.code, HF_EUNREACHABLE);
    }
    tree.deaf = false;
    tree_granted(&sweep_a, &sweep_one); /* told when there is one again, or let in */
    tree_leave(&sweep_a, &sweep_one);
    end();
}

START_TEST(attempts_without_a_server)
{
    answered("", HF_MUTEX);
    answered("", HF_PERMITS);
    answered("?layout=single", HF_MUTEX);
    answered("?layout=kazoo", HF_PERMITS);
}
END_TEST

/* An attempt that the server did not receive, or whose reply was lost: the first answer
 * says that the outcome is not known, the second one grants the lock. */
static void doubted(const char *options, int kind, enum tree_fault fault)
{
    bool spoilt = true;
    for (unsigned nth = 1; spoilt; nth++) {
        begin(options);
        sweep_tickets(kind, 1, 1);
        tree_put("/jobs/nightly/leases", "")->container = true;
        tree_put("/jobs/nightly/locks", "")->container = true;
        tree_spoil(nth, fault);
        fake_attempt(&sweep_a, &sweep_one);
        struct fake_answer answer = tree_next(&sweep_a, &sweep_one);
        spoilt = tree.spoilt;
        ck_assert_int_eq(answer.what, spoilt ? FAKE_FAILED : FAKE_GRANTED);
        if (spoilt) {
            ck_assert(answer.code == HF_EUNCERTAIN || answer.code == HF_EUNREACHABLE);
            tree_granted(&sweep_a, &sweep_one);
        }
        tree_leave(&sweep_a, &sweep_one);
        end();
    }
}

START_TEST(attempts_without_an_answer)
{
    doubted("", HF_MUTEX, TREE_CUT_BEFORE);
    doubted("", HF_PERMITS, TREE_CUT_BEFORE);
    doubted("", HF_PERMITS, TREE_CUT_AFTER);
}
END_TEST

/* Of what it holds and what it waits for a client is told nothing while a connection
 * ends and comes back. */
static void unmoved(const char *options, int kind)
{
    begin(options);
    sweep_tickets(kind, 1, 1);
    sweep_hold(&sweep_b, &sweep_two);
    tree_queue(&sweep_a, &sweep_one);
    tree_rest();
    for (size_t i = 0; i < 2; i++) {
        sweep_a.count = sweep_b.count = 0;
        tree_cut(i);
        tree_sleep(1000);
        ck_assert_uint_eq(sweep_a.count + sweep_b.count, 0);
    }
    fake_attempt(&sweep_a, &sweep_one); /* asked again, it says that it waits */
    ck_assert_int_eq(tree_next(&sweep_a, &sweep_one).what, FAKE_QUEUED);
    fake_attempt(&sweep_b, &sweep_two); /* or that it is held */
    ck_assert_int_eq(tree_next(&sweep_b, &sweep_two).what, FAKE_GRANTED);
    sweep_leave(&sweep_b, &sweep_two);
    ck_assert_int_eq(tree_next(&sweep_a, &sweep_one).what, FAKE_GRANTED);
    tree_leave(&sweep_a, &sweep_one);
    end();
}

START_TEST(a_connection_that_comes_back)
{
    unmoved("", HF_MUTEX);
    unmoved("", HF_PERMITS);
    unmoved("?layout=single", HF_MUTEX);
}
END_TEST

/* What a waiter waits for is asked for while the connection ends. */
START_TEST(a_look_that_gets_no_answer)
{
    static const int kinds[] = { HF_MUTEX, HF_PERMITS };
    for (size_t i = 0; i < 2; i++) {
        begin("");
        sweep_tickets(kinds[i], 1, 1);
        sweep_hold(&sweep_b, &sweep_two);
        tree_queue(&sweep_a, &sweep_one);
        tree_rest();
        sweep_a.count = 0;
        tree_spoil(1, TREE_CUT_BEFORE);
        sweep_leave(&sweep_b, &sweep_two);
        ck_assert_int_eq(tree_next(&sweep_a, &sweep_one).what, FAKE_GRANTED);
        ck_assert(tree.spoilt);
        tree_leave(&sweep_a, &sweep_one);
        end();
    }
}
END_TEST

/* What each scene asks of the server when nothing goes wrong. */
START_TEST(requests_of_each_scene)
{
    sweep_asks("", alone, "CLFFCLD");
    sweep_asks("", waits, "CLGLD");
    sweep_asks("", waits_for_the_unreadable, "CLGELD");
    sweep_asks("", tries, "CLDSLSLCLD");
    sweep_asks("", gives_up, "CLGDU");
    sweep_asks("?layout=kazoo", waits, "CLGLD");
    sweep_asks("?layout=kazoo", tries, "CLDSLSLCLD");
    sweep_asks("?layout=single", alone, "CD");
    sweep_asks("?layout=single", waits, "CGCD");
    sweep_asks("?layout=single", tries, "CGUCGUCD");
    sweep_asks("?layout=single", gives_up, "CGU");
    sweep_asks("", downgrades, "CLFFCLMSED");
    sweep_asks("", renews, "CLFFCLSESEGSSEUD");
    sweep_asks("?layout=single", renews, "CSESEGSSEUD");
    sweep_asks("", watched, "CLFFCLGD");
}
END_TEST

UNIT_MAIN("zk_sweep", requests_of_each_scene, mutexes, mutexes_behind_an_acl,
          a_downgrade_of_what_is_lost, a_downgrade_that_is_refused, leases_end,
          attempts_without_a_server, attempts_without_an_answer,
          a_connection_that_comes_back, a_look_that_gets_no_answer,
          mutexes_that_are_not_got, kazoo, single, readers_and_writers, renewals,
          losses)
