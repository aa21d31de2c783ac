/* SPDX-License-Identifier: MIT */
/*
 * Semaphores of the zookeeper store on a server inside the test: never more leases than
 * the limit, whatever fault happens on the way (zk_sweep.h); limits that do not agree;
 * what other clients have put among the leases.
 */
#include "unit.h"

#include "zk_sweep.h"

#include <stdio.h>
#include <string.h>

#define LEASES "/jobs/nightly/leases"

static void never_more_than_three(void)
{
    UNIT_ASSERT(tree_count("-lease-") <= 3);
}

static void two_of_three(int kind)
{
    tree.after = never_more_than_three;
    sweep_tickets(kind, 2, 3);
}

static void alone(void)
{
    two_of_three(HF_PERMITS);
    sweep_take_and_leave();
}

static void waits(void)
{
    two_of_three(HF_PERMITS);
    sweep_wait_and_take();
}

static void tries(void)
{
    two_of_three(HF_PERMITS);
    sweep_try_and_fail();
}

static void gives_up(void)
{
    two_of_three(HF_PERMITS);
    sweep_wait_and_give_up();
}

static void forgotten(void)
{
    two_of_three(HF_PERMITS);
    sweep_forget();
}

static void expiring_waits(void)
{
    two_of_three(HF_EXPIRING);
    sweep_wait_and_take();
}

/* Three at once, the second of them behind the first. */
static void in_line(void)
{
    two_of_three(HF_PERMITS);
    struct hf_ticket third = sweep_one;
    third.id = fake_id();
    sweep_hold(&sweep_b, &sweep_two);
    tree_queue(&sweep_a, &sweep_one);
    tree_queue(&sweep_b, &third);
    sweep_leave(&sweep_b, &sweep_two);
    if (!sweep_ended && !sweep_short) { /* who came first is first */
        tree_granted(&sweep_a, &sweep_one);
        sweep_leave(&sweep_a, &sweep_one);
        tree_granted(&sweep_b, &third);
        sweep_leave(&sweep_b, &third);
        return;
    }
    tree_leave(&sweep_b, &third);
    tree_granted(&sweep_a, &sweep_one);
    sweep_leave(&sweep_a, &sweep_one);
}

START_TEST(permits)
{
    sweep("", alone);
    sweep("", waits);
    sweep("", forgotten);
}
END_TEST

START_TEST(permits_that_are_not_got)
{
    sweep("", tries);
    sweep("", gives_up);
}
END_TEST

START_TEST(permits_in_line)
{
    sweep("", in_line);
}
END_TEST

START_TEST(expiring_permits)
{
    sweep("", expiring_waits);
}
END_TEST

START_TEST(kazoo_permits)
{
    sweep("?layout=kazoo", waits);
    sweep("?layout=kazoo", tries);
}
END_TEST

/* ---- Other kinds on the same name ------------------------------------------------ */

static bool other_is_in;
static const char *other_node;

/* As a client of another kind does it: its node first, then it looks whether there is a
 * semaphore, by its folder of leases. */
static void other_comes(void)
{
    char path[96];
    snprintf(path, sizeof path, "/jobs/nightly/%s", other_node);
    if (!tree_find("/jobs/nightly"))
        tree_put("/jobs/nightly", "")->container = true;
    tree_put_at(path, "", 0x4242);
    other_is_in = !tree_find(LEASES) ||
                  !(tree_count("nightly/leases/") + tree_count("nightly/locks/"));
}

/* Whatever the moment: of both at most one is in, and the semaphore's client leaves
 * nothing behind when it is not. */
static void never_both(const char *node, int kind, bool folders)
{
    other_node = node;
    for (unsigned nth = 1;; nth++) {
        tree_begin();
        tree_open(&sweep_a, "");
        sweep_tickets(kind, 2, 3);
        if (folders)
            tree_put(LEASES, "")->container = true;
        other_is_in = false;
        tree.call = other_comes;
        tree_spoil(nth, TREE_CALL);
        struct fake_answer answer = tree_take(&sweep_a, &sweep_one);
        bool spoilt = tree.spoilt;
        if (answer.what == FAKE_GRANTED) {
            ck_assert_msg(!other_is_in, "both are in: request %u", nth);
            ck_assert_int_eq(tree_leave(&sweep_a, &sweep_one), HF_WITHDRAWN);
        } else {
            ck_assert_int_eq(answer.what, FAKE_FAILED);
            ck_assert_int_eq(answer.code, HF_EMISMATCH);
        }
        tree_rest();
        ck_assert_uint_eq(tree_count("-lease-") + tree_count("nightly/locks/"), 0);
        tree_close(&sweep_a);
        tree_end();
        if (!spoilt)
            return;
    }
}

START_TEST(never_in_beside_another_kind)
{
    never_both("x-lock-0000000001", HF_PERMITS, false);
    never_both("x-lock-0000000001", HF_PERMITS, true);
    never_both("x-__READ__0000000001", HF_EXPIRING, false);
    never_both("hf%latch", HF_PERMITS, false);
    never_both("hf%expiring/locks/x-lock-0000000001", HF_PERMITS, false);
}
END_TEST

/* ---- The limit ------------------------------------------------------------------- */

#define P "/jobs/nightly"
#define LIMIT_3 "holdfast permits limit=3"

static void begin(const char *options)
{
    tree_begin();
    tree_open(&sweep_a, options);
    tree_open(&sweep_b, options);
    sweep_tickets(HF_PERMITS, 2, 3);
}

static void end(void)
{
    tree_close(&sweep_a);
    tree_close(&sweep_b);
    tree_end();
}

static bool data_is(const char *path, const char *data)
{
    const struct tree_node *node = tree_find(path);
    return node->len == strlen(data) && memcmp(node->data, data, node->len) == 0;
}

static void refused(int code, const char *part)
{
    struct fake_answer answer = tree_take(&sweep_a, &sweep_one);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, code);
    ck_assert_msg(strstr(answer.why.text, part), "%s", answer.why.text);
    tree_rest();
    ck_assert_uint_eq(tree_count("nightly/locks/"), 0);
}

START_TEST(the_limit_is_written_and_kept)
{
    begin("");
    sweep_hold(&sweep_b, &sweep_two);
    ck_assert(data_is(P, LIMIT_3));
    int32_t version = tree_find(P)->version;
    sweep_one.limit = 5;
    refused(HF_EMISMATCH, "in use with a limit of 3, not 5");
    sweep_one.limit = 3;
    sweep_one.permits = 1;
    sweep_one.id = fake_id();
    sweep_hold(&sweep_a, &sweep_one);
    ck_assert_int_eq(tree_find(P)->version, version); /* it is not written again */
    sweep_leave(&sweep_a, &sweep_one);
    sweep_leave(&sweep_b, &sweep_two);
    sweep_one.limit = 5; /* no permit is held: another limit may be set */
    sweep_one.id = fake_id();
    sweep_hold(&sweep_a, &sweep_one);
    ck_assert(data_is(P, "holdfast permits limit=5"));
    end();
}
END_TEST

/* What others have written there stays. */
START_TEST(a_limit_of_others)
{
    begin("");
    tree_put(P, "10.0.0.1");
    sweep_hold(&sweep_a, &sweep_one);
    ck_assert(data_is(P, "10.0.0.1"));
    tree_queue(&sweep_b, &sweep_two); /* our own limit counts */
    sweep_leave(&sweep_a, &sweep_one);
    tree_granted(&sweep_b, &sweep_two);
    ck_assert(data_is(P, "10.0.0.1"));
    end();
}
END_TEST

/* Without the right to write it, or to read it, there is none. */
START_TEST(a_limit_that_may_not_be_written)
{
    static const enum zk_opcode opcodes[] = { ZK_OPCODE_SET, ZK_OPCODE_GET };
    for (size_t i = 0; i < 2; i++) {
        begin("");
        tree.deny = opcodes[i];
        tree.deny_path = "=" P;
        tree.error = ZK_NOAUTH;
        sweep_hold(&sweep_a, &sweep_one);
        ck_assert(data_is(P, ""));
        ck_assert_uint_eq(tree_count("-lease-"), 2);
        ck_assert_int_eq(tree_leave(&sweep_a, &sweep_one), HF_WITHDRAWN);
        ck_assert_uint_eq(tree_count("-lease-"), 0);
        end();
    }
}
END_TEST

/* Between the look and the take. The take is the last but one request. */
static unsigned take_at;

static void behind(void (*call)(void))
{
    tree.call = call;
    tree_spoil(take_at, TREE_CALL);
}

static void another_limit(void)
{
    tree_set(P, "holdfast permits limit=7");
    tree_put(LEASES "/foreign-lease-0000000009", "");
}

static void another_limit_unused(void)
{
    tree_set(P, "holdfast permits limit=7");
}

static void queue_node_is_deleted(void)
{
    tree_delete(tree_first("nightly/locks/")->path);
}

static void folder_is_reaped(void)
{
    tree_delete(LEASES);
}

/* Every folder exists, so that the requests are: two for the node, three to
 * look, the take, the look behind it. */
static void begin_in_place(void)
{
    begin("");
    tree_put(LEASES, "")->container = true;
    tree_put(P "/locks", "")->container = true;
    tree_set(P, LIMIT_3);
    take_at = 6;
}

START_TEST(the_limit_is_changed_before_the_take)
{
    begin_in_place();
    behind(another_limit);
    refused(HF_EMISMATCH, "in use with a limit of 7, not 3");
    ck_assert(tree.spoilt);
    ck_assert_uint_eq(tree_count("-lease-"), 1);
    end();
    begin_in_place();
    behind(another_limit_unused);
    sweep_hold(&sweep_a, &sweep_one);
    ck_assert(tree.spoilt);
    ck_assert(data_is(P, LIMIT_3));
    end();
}
END_TEST

START_TEST(what_is_deleted_before_the_take)
{
    static void (*const calls[])(void) = { queue_node_is_deleted, folder_is_reaped };
    for (size_t i = 0; i < 2; i++) {
        begin_in_place();
        behind(calls[i]);
        sweep_hold(&sweep_a, &sweep_one);
        ck_assert(tree.spoilt);
        ck_assert_uint_eq(tree_count("-lease-"), 2);
        ck_assert_uint_eq(tree_count("nightly/locks/"), 0);
        ck_assert_int_eq(tree_leave(&sweep_a, &sweep_one), HF_WITHDRAWN);
        end();
    }
}
END_TEST

/* Errors that nothing can be done about end the wait, and leave nothing. */
START_TEST(a_take_that_is_refused)
{
    begin_in_place();
    tree.error = ZK_NOAUTH;
    tree_spoil(take_at, TREE_ERROR);
    refused(HF_EREFUSED, "no permission");
    tree.deny = ZK_OPCODE_CREATE;
    tree.deny_path = "-lease-";
    refused(HF_EREFUSED, "no permission");
    tree.error = ZK_QUOTAEXCEEDED;
    refused(HF_EFULL, "quota");
    tree.deny = ZK_OPCODE_CHILDREN2;
    tree.deny_path = "=" LEASES;
    tree.error = ZK_NOAUTH;
    refused(HF_EREFUSED, "no permission");
    tree_delete(LEASES);
    tree.deny = ZK_OPCODE_CONTAINER;
    refused(HF_EREFUSED, "no permission"); /* the folder cannot be made */
    tree.deny = 0;
    sweep_hold(&sweep_a, &sweep_one);
    end();
}
END_TEST

/* ---- Room ------------------------------------------------------------------------ */

/* Whatever lies among the leases counts, as it does for Curator. */
START_TEST(leases_of_foreign_clients_count)
{
    begin("");
    tree_put(LEASES "/foreign", "");
    tree_put(LEASES "/another", "");
    tree_queue(&sweep_a, &sweep_one);
    tree_delete(LEASES "/another");
    tree_granted(&sweep_a, &sweep_one);
    ck_assert_uint_eq(tree_count(LEASES "/"), 3);
    end();
}
END_TEST

START_TEST(exactly_the_room_there_is)
{
    begin("");
    sweep_one.permits = 3;
    sweep_hold(&sweep_a, &sweep_one);
    ck_assert_uint_eq(tree_count("-lease-"), 3);
    sweep_two.permits = 1;
    sweep_two.flags = HF_TICKET_TRY;
    ck_assert_int_eq(tree_take(&sweep_b, &sweep_two).what, FAKE_BUSY);
    sweep_leave(&sweep_a, &sweep_one);
    ck_assert_int_eq(tree_take(&sweep_b, &sweep_two).what, FAKE_GRANTED);
    end();
}
END_TEST

/* Many at once are one node, which says how many. */
START_TEST(many_at_once)
{
    static const char *const options[] = { "", "?layout=kazoo" };
    for (size_t i = 0; i < 2; i++) {
        begin(options[i]);
        sweep_tickets(HF_PERMITS, 100, 120);
        sweep_hold(&sweep_a, &sweep_one);
        ck_assert_uint_eq(tree_count("-x100"), 1);
        tree_queue(&sweep_b, &sweep_two);
        struct hf_ticket few = fake_permits("jobs/nightly", HF_PERMITS, 64, 120);
        tree_queue(&sweep_a, &few);
        sweep_leave(&sweep_a, &sweep_one);
        tree_granted(&sweep_b, &sweep_two);
        tree_rest();
        sweep_leave(&sweep_b, &sweep_two);
        tree_granted(&sweep_a, &few);
        ck_assert_uint_eq(tree_left(), 64);
        sweep_leave(&sweep_a, &few);
        ck_assert_uint_eq(tree_left(), 0);
        end();
    }
}
END_TEST

static size_t watches_of(size_t caller, const char *path)
{
    size_t count = 0;
    for (size_t k = 0; k < TREE_WATCHES; k++)
        count += strcmp(tree.callers[caller].watches[k].path, path) == 0;
    return count;
}

/* The first in line watches the leases, others the one before them. A release wakes one
 * of many. */
START_TEST(only_the_first_watches)
{
    begin("");
    struct hf_ticket second = sweep_two, third = sweep_two;
    second.id = fake_id();
    third.id = fake_id();
    sweep_hold(&sweep_b, &sweep_two);
    tree_queue(&sweep_a, &sweep_one);
    tree_queue(&sweep_b, &second);
    tree_queue(&sweep_b, &third);
    tree_rest();
    ck_assert_uint_eq(watches_of(0, LEASES), 1);
    ck_assert_uint_eq(watches_of(1, LEASES), 0);
    ck_assert_uint_eq(tree_watches(), 3);
    sweep_leave(&sweep_b, &sweep_two);
    tree_granted(&sweep_a, &sweep_one);
    tree_rest();
    ck_assert_uint_eq(watches_of(0, LEASES), 0);
    ck_assert_uint_eq(watches_of(1, LEASES), 1);
    tree_leave(&sweep_b, &third);
    sweep_leave(&sweep_a, &sweep_one);
    tree_granted(&sweep_b, &second);
    sweep_leave(&sweep_b, &second);
    tree_rest();
    ck_assert_uint_eq(tree_watches(), 0);
    end();
}
END_TEST

/* The one ahead gives up: the next one is first, and looks for itself. */
START_TEST(the_first_gives_up)
{
    begin("");
    struct hf_ticket small = fake_permits("jobs/nightly", HF_PERMITS, 1, 3);
    sweep_hold(&sweep_b, &sweep_two);
    tree_queue(&sweep_a, &sweep_one);
    tree_queue(&sweep_b, &small); /* there is room, but it is not the first */
    tree_rest();
    ck_assert_uint_eq(tree_count("-lease-"), 2);
    ck_assert_int_eq(tree_leave(&sweep_a, &sweep_one), HF_WITHDRAWN);
    tree_granted(&sweep_b, &small);
    ck_assert_uint_eq(tree_count("-lease-"), 3);
    end();
}
END_TEST

/* A waiter whose queue node another client deletes enters again. */
START_TEST(a_place_that_is_deleted_by_hand)
{
    begin("");
    sweep_hold(&sweep_b, &sweep_two);
    tree_queue(&sweep_a, &sweep_one);
    tree_rest();
    queue_node_is_deleted();
    sweep_leave(&sweep_b, &sweep_two);
    tree_granted(&sweep_a, &sweep_one);
    ck_assert_int_eq(tree_leave(&sweep_a, &sweep_one), HF_WITHDRAWN);
    end();
}
END_TEST

/* The name serves something else. */
START_TEST(names_of_other_kinds)
{
    static const struct {
        const char *node, *said;
    } of[] = {
        { "/x-lock-0000000001", "in use as a mutex, not as a semaphore" },
        { "/x-__READ__0000000001", "in use as a read/write lock" },
        { "/hf%latch", "in use as a latch" },
        { "/hf%cell", "in use as a cell" },
        { "/hf%expiring/locks/x-lock-0000000001", "semaphore of expiring permits" },
        { "/hf%expiring/leases/x-lease-0000000001", "semaphore of expiring permits" },
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        char path[96];
        begin("");
        snprintf(path, sizeof path, P "%s", of[i].node);
        tree_put(path, "");
        refused(HF_EMISMATCH, of[i].said);
        sweep_one.flags = HF_TICKET_TRY;
        refused(HF_EMISMATCH, of[i].said);
        ck_assert_uint_eq(tree_count("-lease-"), i == 5);
        tree_delete(path);
        sweep_hold(&sweep_a, &sweep_one);
        end();
    }
}
END_TEST

/* An empty folder of the other kind is no sign of it; asked for anew each time. */
static void beside_empty_folders(void)
{
    tree_put(P "/hf%expiring/leases", "")->container = true;
    tree_put(P "/hf%expiring/leases/other", "");
    tree_find(P "/hf%expiring/leases/other")->container = true;
    two_of_three(HF_PERMITS);
    sweep_wait_and_take();
}

static void forgotten_beside_empty_folders(void)
{
    tree_put(P "/hf%expiring/leases/other", "")->container = true;
    two_of_three(HF_PERMITS);
    sweep_forget();
}

START_TEST(empty_folders_of_other_kinds)
{
    sweep("", beside_empty_folders);
    sweep("", forgotten_beside_empty_folders);
}
END_TEST

/* What each scene asks of the server when nothing goes wrong. */
START_TEST(requests_of_each_scene)
{
    sweep_asks("", alone, "CLLGLFFFCLLGLFFFMLDD");
    sweep_asks("", waits, "CLLGLGLGLMLDD");
    sweep_asks("", tries, "CLLGLDCLLGLDCLLGLMLDD");
    sweep_asks("", gives_up, "CLLGLGLDU");
    sweep_asks("", in_line, "CLLGLGLGLMLDD");
    sweep_asks("", expiring_waits, "CLLGLGLGLMLDD");
    sweep_asks("?layout=kazoo", waits, "CLLGLGLGLMLDD");
    sweep_asks("?layout=kazoo", tries, "CLLGLDCLLGLDCLLGLMLDD");
    sweep_asks("", beside_empty_folders, "CLLGLLLGLGLMLLLDD");
}
END_TEST

UNIT_MAIN("zk_semaphores", requests_of_each_scene, the_limit_is_written_and_kept,
          a_limit_of_others, a_limit_that_may_not_be_written,
          the_limit_is_changed_before_the_take, what_is_deleted_before_the_take,
          a_take_that_is_refused, leases_of_foreign_clients_count,
          exactly_the_room_there_is, many_at_once, only_the_first_watches,
          the_first_gives_up, a_place_that_is_deleted_by_hand, names_of_other_kinds,
          empty_folders_of_other_kinds, never_in_beside_another_kind, permits,
          permits_that_are_not_got, permits_in_line, expiring_permits, kazoo_permits)
