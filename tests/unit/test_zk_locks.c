/* SPDX-License-Identifier: MIT */
/*
 * Locks of the zookeeper store on a server inside the test: names that serve another
 * kind, nodes that other clients delete or make, sessions that end, renewals of several
 * holds, the cost of a try.
 */
#include "unit.h"

#include "../../src/base/mem.h"
#include "zk_sweep.h"

#include <stdio.h>
#include <string.h>

#define a sweep_a
#define b sweep_b
#define one sweep_one
#define two sweep_two
#define P "/jobs/nightly"

static void begin_with(const char *options, int kind)
{
    tree_begin();
    tree_open(&a, options);
    tree_open(&b, options);
    sweep_tickets(kind, 1, 1);
}

static void begin(int kind)
{
    begin_with("", kind);
}

static void end(void)
{
    tree_close(&a);
    tree_close(&b);
    tree_end();
}

static void refused(int code, const char *part)
{
    struct fake_answer answer = tree_take(&a, &one);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, code);
    ck_assert_msg(strstr(answer.why.text, part), "%s", answer.why.text);
    tree_rest();
    ck_assert_uint_eq(tree_count(P "/_c_"), 0);
}

static void told_lost(void)
{
    tree_rest();
    ck_assert_uint_eq(a.count, 1);
    ck_assert_int_eq(a.answers[a.first].what, FAKE_EVENT);
    ck_assert_int_eq(a.answers[a.first].code, HF_EVENT_LOST);
    a.count = 0;
}

/* ---- Other kinds ----------------------------------------------------------------- */

static const struct {
    const char *node, *said;
} others[] = {
    { "/hf%latch", "in use as a latch, not as a mutex" },
    { "/hf%gate", "in use as a latch, not as a mutex" },
    { "/hf%cell", "in use as a cell, not as a mutex" },
    { "/leases/x-lease-0000000001", "in use as a semaphore, not as a mutex" },
    { "/locks/x-lock-0000000001", "in use as a semaphore, not as a mutex" },
    { "/hf%expiring/locks/x-lock-0000000001", "expiring permits, not as a mutex" },
    { "/hf%expiring/leases/x-lease-0000000001", "expiring permits, not as a mutex" },
};

START_TEST(names_of_other_kinds)
{
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char path[96];
        begin(HF_MUTEX);
        snprintf(path, sizeof path, P "%s", others[i].node);
        if (i == 4)
            tree_put(P "/leases", "");
        tree_put(path, "");
        refused(HF_EMISMATCH, others[i].said);
        one.flags = HF_TICKET_TRY;
        refused(HF_EMISMATCH, others[i].said);
        tree_delete(path);
        ck_assert_int_eq(tree_take(&a, &one).what, FAKE_GRANTED);
        end();
    }
}
END_TEST

/* Who came first says what the name is; the other one is refused. */
START_TEST(mutexes_and_readers)
{
    begin(HF_MUTEX);
    two.kind = HF_READ;
    sweep_hold(&b, &two);
    ck_assert_int_eq(tree_take(&a, &one).code, HF_EMISMATCH);
    ck_assert_uint_eq(tree_left(), 1);
    sweep_leave(&b, &two);
    sweep_hold(&a, &one);
    two.id = fake_id();
    ck_assert_int_eq(tree_take(&b, &two).code, HF_EMISMATCH);
    two.kind = HF_WRITE;
    two.id = fake_id();
    ck_assert_int_eq(tree_take(&b, &two).code, HF_EMISMATCH);
    two.kind = HF_FAIR;
    two.id = fake_id();
    tree_queue(&b, &two);
    end();
}
END_TEST

static void beside_empty_folders(void)
{
    tree_put(P "/leases/other", "")->container = true;
    sweep_tickets(HF_MUTEX, 1, 1);
    sweep_wait_and_take();
}

static void tried_beside_empty_folders(void)
{
    tree_put(P "/leases/other", "")->container = true;
    sweep_tickets(HF_MUTEX, 1, 1);
    sweep_try_and_fail();
}

static void forgotten_beside_empty_folders(void)
{
    tree_put(P "/leases/other", "")->container = true;
    sweep_tickets(HF_MUTEX, 1, 1);
    sweep_forget();
}

START_TEST(empty_folders_of_semaphores)
{
    sweep("", beside_empty_folders);
    sweep("", tried_beside_empty_folders);
    sweep("", forgotten_beside_empty_folders);
}
END_TEST

/* ---- The session ----------------------------------------------------------------- */

/* The hold is lost and stays lost: nothing is taken in its place. */
static void ends(const char *options, int kind)
{
    begin_with(options, kind);
    sweep_hold(&a, &one);
    size_t nodes = tree_left();
    tree_session_end(0);
    ck_assert_uint_eq(tree_left(), nodes - 1);
    told_lost();
    tree_sleep(2000);
    ck_assert_uint_eq(tree_left(), 0);
    ck_assert_int_eq(tree_renew(&a, &one, HF_CHECK), HF_RENEWAL_LOST);
    ck_assert_int_eq(tree_leave(&a, &one), HF_GONE);
    ck_assert_uint_eq(a.count, 0);
    end();
}

START_TEST(a_hold_ends_with_its_session)
{
    ends("", HF_MUTEX);
    ends("", HF_READ);
    ends("", HF_PERMITS);
    ends("?layout=single", HF_MUTEX);
    ends("?layout=kazoo", HF_WRITE);
}
END_TEST

/* Withdrawn while there is no session: nothing is left to be withdrawn. */
static void ends_on_leaving(const char *options, int kind)
{
    begin_with(options, kind);
    sweep_hold(&a, &one);
    tree_spoil(1, TREE_END_BEFORE);
    ck_assert_int_eq(tree_leave(&a, &one), HF_GONE);
    tree_rest();
    ck_assert_uint_eq(tree_left(), 0);
    one.id = fake_id();
    sweep_hold(&a, &one);
    end();
}

START_TEST(a_session_ends_on_leaving)
{
    ends_on_leaving("", HF_MUTEX);
    ends_on_leaving("", HF_PERMITS);
    ends_on_leaving("?layout=single", HF_MUTEX);
}
END_TEST

/* A waiter waits on, at the end of the queue of the next session. */
static void waits_on(const char *options, int kind)
{
    begin_with(options, kind);
    sweep_hold(&b, &two);
    tree_queue(&a, &one);
    tree_rest();
    tree_session_end(0);
    tree_sleep(1000);
    sweep_leave(&b, &two);
    tree_granted(&a, &one);
    ck_assert_int_eq(tree_leave(&a, &one), HF_WITHDRAWN);
    end();
}

START_TEST(a_waiter_outlives_its_session)
{
    waits_on("", HF_MUTEX);
    waits_on("", HF_WRITE);
    waits_on("", HF_PERMITS);
    waits_on("?layout=single", HF_MUTEX);
}
END_TEST

/* ---- Nodes in other hands -------------------------------------------------------- */

/* A node at our path that is not of our session proves nothing. */
START_TEST(a_node_of_another_session)
{
    char path[TREE_PATH];
    begin(HF_MUTEX);
    sweep_hold(&a, &one);
    snprintf(path, sizeof path, "%s", tree_first(P "/")->path);
    ck_assert_int_eq(tree_renew(&a, &one, HF_RENEW), HF_RENEWED);
    tree_delete(path);
    tree_put_at(path, "", 0x4242);
    ck_assert_int_eq(tree_renew(&a, &one, HF_RENEW), HF_RENEWAL_LOST);
    ck_assert_uint_eq(tree.losses, 1);
    end();
}
END_TEST

START_TEST(a_hold_that_is_deleted_by_hand)
{
    begin(HF_MUTEX);
    sweep_hold(&a, &one);
    tree_delete(tree_first(P "/_c_")->path);
    ck_assert_int_eq(tree_leave(&a, &one), HF_GONE);
    one.id = fake_id();
    sweep_hold(&a, &one);
    tree_delete(tree_first(P "/_c_")->path);
    ck_assert_int_eq(tree_renew(&a, &one, HF_CHECK), HF_RENEWAL_LOST);
    ck_assert_int_eq(tree_leave(&a, &one), HF_GONE);
    end();
}
END_TEST

/* Several in one call: each has its own answer. */
START_TEST(renewals_of_several)
{
    struct hf_ticket tickets[4];
    struct hf_ticket *list[4];
    static const enum hf_renewal answers[] = { HF_RENEWED, HF_RENEWAL_LOST, HF_RENEWED,
                                               HF_RENEWAL_LOST };
    static const char *const names[] = { "n1", "n2", "n3", "n4" };
    begin(HF_MUTEX);
    for (size_t i = 0; i < 4; i++) {
        tickets[i] = fake_ticket(names[i], HF_MUTEX);
        list[i] = &tickets[i];
        if (i < 3) /* the last one is not held at all */
            sweep_hold(&a, &tickets[i]);
    }
    fake_interest(&a, &tickets[2]);
    tree_rest();
    tree_delete(tree_first("/n2/")->path);
    a.calls++;
    a.store->renew(a.session, list, 4, HF_RENEW);
    a.calls--;
    for (size_t told = 0; told < 4;) {
        while (!a.count)
            tree_turn();
        struct fake_answer answer = fake_next(&a);
        for (int i = 0; i < 4 && answer.what == FAKE_RENEWED; i++)
            if (answer.about == &tickets[i]) {
                ck_assert_int_eq(answer.code, answers[i]);
                told++;
            }
    }
    end();
}
END_TEST

/* A lease that is renewed does not end. */
START_TEST(a_lease_that_is_renewed)
{
    begin(HF_MUTEX);
    one.ttl_ns = INT64_C(800000000);
    sweep_hold(&a, &one);
    for (int i = 0; i < 5; i++) {
        tree_sleep(500);
        ck_assert_int_eq(tree_renew(&a, &one, HF_RENEW), HF_RENEWED);
    }
    tree_sleep(500);
    ck_assert_int_eq(tree_renew(&a, &one, HF_CHECK), HF_STILL_HELD); /* is no renewal */
    ck_assert_uint_eq(tree.losses, 0);
    tree_sleep(500);
    told_lost();
    ck_assert_int_eq(tree_leave(&a, &one), HF_GONE);
    end();
}
END_TEST

/* Interest in what has gone already is told at once. */
START_TEST(interest_comes_too_late)
{
    begin(HF_MUTEX);
    sweep_hold(&a, &one);
    tree_delete(tree_first(P "/_c_")->path);
    fake_interest(&a, &one);
    told_lost();
    fake_interest(&a, &one); /* and once */
    tree_rest();
    ck_assert_uint_eq(a.count, 0);
    ck_assert_int_eq(tree_leave(&a, &one), HF_GONE);
    end();
}
END_TEST

/* A waiter is attempted while there is no connection: the outcome is not known. */
START_TEST(a_waiter_without_a_server)
{
    begin(HF_MUTEX);
    sweep_hold(&b, &two);
    tree_queue(&a, &one);
    tree_rest();
    tree.deaf = true;
    tree_cut(0);
    tree_rest();
    for (int i = 0; i < 2; i++) {
        fake_attempt(&a, &one);
        struct fake_answer answer = tree_next(&a, &one);
        ck_assert_int_eq(answer.what, FAKE_FAILED);
        ck_assert_int_eq(answer.code, HF_EUNCERTAIN);
    }
    tree.deaf = false;
    tree_sleep(3000);
    sweep_leave(&b, &two);
    tree_granted(&a, &one);
    end();
}
END_TEST

/* A look changes nothing, so what became of it is never in doubt. */
START_TEST(a_try_that_looks_in_vain)
{
    begin(HF_MUTEX);
    one.flags = HF_TICKET_TRY;
    sweep_hold(&b, &two);
    ck_assert_int_eq(tree_take(&a, &one).what, FAKE_BUSY);
    tree_spoil(2, TREE_CUT_AFTER);
    fake_attempt(&a, &one);
    struct fake_answer answer = tree_next(&a, &one);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, HF_EUNREACHABLE);
    tree_sleep(1000);
    end();
}
END_TEST

/* A try that cannot leave the queue has not been answered yet. */
START_TEST(a_try_that_leaves_in_vain)
{
    begin(HF_MUTEX);
    one.flags = HF_TICKET_TRY;
    sweep_hold(&b, &two);
    tree_spoil(3, TREE_CUT_BEFORE);
    fake_attempt(&a, &one);
    struct fake_answer answer = tree_next(&a, &one);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, HF_EUNCERTAIN);
    tree_sleep(1000);
    ck_assert_uint_eq(tree_left(), 1);
    end();
}
END_TEST

/* Names that only begin like ours, or end so, are not ours. */
START_TEST(nodes_that_look_like_ours)
{
    char path[TREE_PATH + 8];
    begin(HF_MUTEX);
    sweep_hold(&a, &one);
    ck_assert_int_eq(tree_renew(&a, &one, HF_CHECK), HF_STILL_HELD);
    snprintf(path, sizeof path, "%s0", tree_first(P "/_c_")->path);
    tree_put(path, "");
    ck_assert_int_eq(tree_renew(&a, &one, HF_CHECK), HF_STILL_HELD);
    ck_assert_int_eq(tree_leave(&a, &one), HF_WITHDRAWN);
    ck_assert_ptr_nonnull(tree_find(path));
    end();
}
END_TEST

/* ---- What it costs --------------------------------------------------------------- */

static unsigned cost_of_try(enum fake_what what)
{
    unsigned before = tree.asked;
    ck_assert_int_eq(tree_take(&a, &one).what, what);
    tree_rest();
    return tree.asked - before;
}

/* A try that was busy looks first the next time, one that was not goes in at once. */
START_TEST(tries_look_before_they_write)
{
    begin(HF_MUTEX);
    one.flags = HF_TICKET_TRY;
    sweep_hold(&b, &two);
    ck_assert_uint_eq(cost_of_try(FAKE_BUSY), 3); /* create, list, delete */
    ck_assert_uint_eq(cost_of_try(FAKE_BUSY), 1);
    ck_assert_uint_eq(cost_of_try(FAKE_BUSY), 1);
    sweep_leave(&b, &two);
    ck_assert_uint_eq(cost_of_try(FAKE_GRANTED), 3);
    sweep_leave(&a, &one);
    ck_assert_uint_eq(cost_of_try(FAKE_GRANTED), 2);
    end();
}
END_TEST

/* ---- Forgotten ------------------------------------------------------------------- */

START_TEST(a_downgrade_that_is_forgotten)
{
    begin(HF_WRITE);
    sweep_hold(&a, &one);
    struct hf_request *gone = malloc(sizeof *gone);
    *gone = fake_request(HF_DOWNGRADE, "jobs/nightly");
    gone->ticket = &one;
    a.calls++;
    a.store->ask(a.session, gone);
    a.calls--;
    fake_forget(&a, gone);
    free(gone);
    tree_rest();
    ck_assert_uint_eq(a.count, 0);
    ck_assert_uint_eq(tree_count("__READ__"), 1);
    ck_assert_int_eq(tree_leave(&a, &one), HF_WITHDRAWN);
    ck_assert_uint_eq(tree_left(), 0);
    end();
}
END_TEST

/* Closed in the middle of everything: no memory stays, and no node. */
START_TEST(closed_on_the_way)
{
    for (int turns = 0; turns < 10; turns++) {
        size_t live = hf__mem_live();
        struct hf_ticket sem = fake_permits("jobs/sem", HF_PERMITS, 2, 3);
        struct hf_ticket latch = fake_ticket("jobs/latch", HF_LATCH);
        struct hf_request walk = fake_request(HF_INSPECT, "");
        struct hf_request set = fake_request(HF_LATCH_SET, "jobs/other");
        struct hf_ticket *list[] = { &one };
        begin(HF_MUTEX);
        walk.prefix = true;
        set.number = 3;
        tree_put("/jobs/latch/hf%gate", "");
        sweep_hold(&a, &one);
        fake_attempt(&a, &sem);
        fake_attempt(&a, &latch);
        a.calls++;
        a.store->ask(a.session, &walk);
        a.store->ask(a.session, &set);
        a.store->renew(a.session, list, 1, HF_RENEW);
        a.calls--;
        for (int i = 0; i < turns; i++)
            tree_turn();
        tree_close(&a);
        for (size_t i = 0; i < TREE_NODES; i++)
            ck_assert(!tree.nodes[i].path[0] || !tree.nodes[i].owner);
        tree_close(&b);
        tree_end();
        ck_assert_uint_eq(hf__mem_live(), live);
    }
}
END_TEST

/* What each scene asks of the server when nothing goes wrong. */
START_TEST(requests_of_each_scene)
{
    sweep_asks("", beside_empty_folders, "CLLLLLLGLD");
    sweep_asks("", tried_beside_empty_folders, "CLLLLLLDSLSLCLLLLLLD");
}
END_TEST

UNIT_MAIN("zk_locks", requests_of_each_scene, names_of_other_kinds, mutexes_and_readers,
          empty_folders_of_semaphores, a_hold_ends_with_its_session,
          a_session_ends_on_leaving, a_waiter_outlives_its_session,
          a_node_of_another_session, a_hold_that_is_deleted_by_hand,
          renewals_of_several, a_lease_that_is_renewed, interest_comes_too_late,
          a_waiter_without_a_server, a_try_that_looks_in_vain,
          a_try_that_leaves_in_vain, nodes_that_look_like_ours,
          tries_look_before_they_write, a_downgrade_that_is_forgotten,
          closed_on_the_way)
