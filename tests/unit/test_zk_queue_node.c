/* SPDX-License-Identifier: MIT */
/*
 * Queue nodes of the zookeeper store, against a played server: the order of requests,
 * and replies that are late, lost, or refusals.
 */
#include "unit.h"

#include "zk_play.h"

#include <stdio.h>
#include <string.h>

/* ---- Usual ways ------------------------------------------------------------------ */

START_TEST(without_rivals_one_round_trip)
{
    play_begin(HF_MUTEX);
    hold_it(); /* both requests came before any answer */
    leave();
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path("0000000004"));
    ck_assert(fake_quiet(&stage.host));
    peer_reply(&peer, xid, 80, 0);
    expect_left(HF_WITHDRAWN);
    play_end();
}
END_TEST

START_TEST(attempts_are_repeated)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    ck_assert(peer_quiet(&peer, &stage));
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, own("lock-", "0000000004"));
    fake_expect_grant(&stage.host, &ticket);
    fake_attempt(&stage.host, &ticket);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    ck_assert(peer_quiet(&peer, &stage));
    play_end();
}
END_TEST

/* The end of the one ahead is no grant: the listing behind it is. */
START_TEST(the_next_one_lists_first)
{
    play_begin(HF_MUTEX);
    wait_for_it();
    peer_event(&peer, ZK_DELETED, FOLDER "/a-lock-0000000003");
    int32_t xid = asked(ZK_OPCODE_CHILDREN2, FOLDER);
    ck_assert(fake_quiet(&stage.host));
    LIST(xid, own("lock-", "0000000004"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    ck_assert(peer_quiet(&peer, &stage));
    play_end();
}
END_TEST

START_TEST(a_change_is_no_end)
{
    play_begin(HF_MUTEX);
    wait_for_it();
    peer_event(&peer, ZK_CHANGED, FOLDER "/a-lock-0000000003");
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000004"),
         "a-lock-0000000003");
    int32_t xid = asked(ZK_OPCODE_GET, FOLDER "/a-lock-0000000003");
    ck_assert(fake_quiet(&stage.host));
    peer_reply(&peer, xid, 9, ZK_NONODE); /* gone meanwhile */
    xid = asked(ZK_OPCODE_CHILDREN2, FOLDER);
    ck_assert(fake_quiet(&stage.host));
    LIST(xid, own("lock-", "0000000004"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    play_end();
}
END_TEST

/* Another client deleted the node, and none is before it any more: no grant. */
START_TEST(a_waiter_whose_node_is_deleted)
{
    play_begin(HF_MUTEX);
    wait_for_it();
    peer_event(&peer, ZK_DELETED, FOLDER "/a-lock-0000000003");
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), "b-lock-0000000005");
    struct entry entry = entry_asked("lock-");
    ck_assert(fake_quiet(&stage.host));
    answer_create(entry.create, "lock-", "0000000006", 99);
    LIST(entry.list, "b-lock-0000000005", own("lock-", "0000000006"));
    answer_data(asked(ZK_OPCODE_GET, FOLDER "/b-lock-0000000005"), "", 5);
    ck_assert(fake_quiet(&stage.host));
    play_end();
}
END_TEST

/* The same with an empty queue: that is no grant, either. */
START_TEST(deleted_from_a_queue_that_is_empty)
{
    play_begin(HF_MUTEX);
    wait_for_it();
    peer_event(&peer, ZK_DELETED, FOLDER "/a-lock-0000000003");
    answer_list(asked(ZK_OPCODE_CHILDREN2, FOLDER), (const char *const[]){ NULL });
    entry_asked("lock-");
    ck_assert(fake_quiet(&stage.host));
    play_end();
}
END_TEST

/* The same, and the folder has gone with it. */
START_TEST(a_waiter_whose_folder_is_deleted)
{
    play_begin(HF_MUTEX);
    wait_for_it();
    peer_event(&peer, ZK_DELETED, FOLDER "/a-lock-0000000003");
    peer_reply(&peer, asked(ZK_OPCODE_CHILDREN2, FOLDER), 9, ZK_NONODE);
    ck_assert(fake_quiet(&stage.host));
    entry_asked("lock-");
    play_end();
}
END_TEST

/* Its number follows the last one, and still it lists: the folder may be another. */
START_TEST(the_same_client_again)
{
    play_begin(HF_MUTEX);
    hold_it();
    leave();
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, own_path("0000000004")), 78, 0);
    expect_left(HF_WITHDRAWN);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000005", 79);
    ck_assert(fake_quiet(&stage.host));
    LIST(entry.list, own("lock-", "0000000005"), "b-lock-0000000003");
    expect(FAKE_QUEUED);
    play_end();
}
END_TEST

/* The first node of a folder, by its number, and still it lists. */
START_TEST(the_first_number_is_no_grant)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000000", 77);
    ck_assert(fake_quiet(&stage.host));
    LIST(entry.list, own("lock-", "0000000000"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    play_end();
}
END_TEST

START_TEST(others_before_us_are_looked_at_again)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, "a-lock-0000000002", own("lock-", "0000000004"),
         "b-lock-0000000003", "c-lock-0000000005", "00-stray");
    expect(FAKE_QUEUED);
    answer_data(asked(ZK_OPCODE_GET, FOLDER "/b-lock-0000000003"), "", 5);
    peer_event(&peer, ZK_DELETED, FOLDER "/b-lock-0000000003");
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), "a-lock-0000000002",
         own("lock-", "0000000004"));
    int32_t xid = asked(ZK_OPCODE_GET, FOLDER "/a-lock-0000000002");
    ck_assert(fake_quiet(&stage.host));
    answer_data(xid, "", 5);
    leave();
    xid = asked(ZK_OPCODE_DELETE, own_path("0000000004"));
    play_end();
}
END_TEST

/* A writer may have turned into a reader of the same number. */
START_TEST(a_writer_behind_a_writer_looks)
{
    play_begin(HF_WRITE);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("__WRIT__");
    answer_create(entry.create, "__WRIT__", "0000000004", 77);
    LIST(entry.list, "a-__WRIT__0000000003", own("__WRIT__", "0000000004"));
    expect(FAKE_QUEUED);
    answer_data(asked(ZK_OPCODE_GET, FOLDER "/a-__WRIT__0000000003"), "", 5);
    peer_event(&peer, ZK_DELETED, FOLDER "/a-__WRIT__0000000003");
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), "a-__READ__0000000003",
         own("__WRIT__", "0000000004"));
    answer_data(asked(ZK_OPCODE_GET, FOLDER "/a-__READ__0000000003"), "", 5);
    ck_assert(fake_quiet(&stage.host));
    play_end();
}
END_TEST

START_TEST(data_that_we_may_not_read)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, own("lock-", "0000000004"), "a-lock-0000000003");
    expect(FAKE_QUEUED);
    peer_reply(&peer, asked(ZK_OPCODE_GET, FOLDER "/a-lock-0000000003"), 9, ZK_NOAUTH);
    answer_stat(asked(ZK_OPCODE_EXISTS, FOLDER "/a-lock-0000000003"), 5, 1);
    peer_event(&peer, ZK_DELETED, FOLDER "/a-lock-0000000003");
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000004"));
    fake_expect_grant(&stage.host, &ticket);
    play_end();
}
END_TEST

/* And the node has gone by the time that we look whether it is there. */
START_TEST(gone_where_we_may_not_read)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, own("lock-", "0000000004"), "a-lock-0000000003");
    expect(FAKE_QUEUED);
    peer_reply(&peer, asked(ZK_OPCODE_GET, FOLDER "/a-lock-0000000003"), 9, ZK_NOAUTH);
    peer_reply(&peer, asked(ZK_OPCODE_EXISTS, FOLDER "/a-lock-0000000003"), 9,
               ZK_NONODE);
    peer_reply(&peer, asked(ZK_OPCODE_UNWATCH, FOLDER "/a-lock-0000000003"), 9, 0);
    int32_t xid = asked(ZK_OPCODE_CHILDREN2, FOLDER);
    ck_assert(fake_quiet(&stage.host));
    LIST(xid, own("lock-", "0000000004"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    play_end();
}
END_TEST

START_TEST(parents_are_made)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    for (int i = 0; i < 3; i++) { /* and removed again, twice */
        struct entry entry = entry_asked("lock-");
        peer_reply(&peer, entry.create, 9, ZK_NONODE);
        peer_reply(&peer, entry.list, 9, ZK_NONODE);
        peer_reply(&peer, asked(ZK_OPCODE_CONTAINER, FOLDER), 9, ZK_NONODE);
    }
    hold_it();
    play_end();
}
END_TEST

START_TEST(parents_that_are_refused)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    peer_reply(&peer, entry.create, 9, ZK_NONODE);
    peer_reply(&peer, entry.list, 9, ZK_NONODE);
    peer_reply(&peer, asked(ZK_OPCODE_CONTAINER, FOLDER), 9, ZK_NOAUTH);
    entry = entry_asked("lock-");
    peer_reply(&peer, entry.create, 9, ZK_NONODE);
    peer_reply(&peer, entry.list, 9, ZK_NONODE);
    expect_failed(HF_EREFUSED);
    play_end();
}
END_TEST

/* ---- Refused --------------------------------------------------------------------- */

START_TEST(numbers_that_wrapped)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "-2147483648", 77);
    LIST(entry.list, own("lock-", "-2147483648"));
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path("-2147483648"));
    ck_assert(fake_quiet(&stage.host)); /* not before nothing is left */
    peer_reply(&peer, xid, 80, 0);
    expect_failed(HF_EFULL);
    play_end();
}
END_TEST

START_TEST(another_kind_was_first)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, own("lock-", "0000000004"), "a-__READ__0000000003");
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path("0000000004"));
    ck_assert(fake_quiet(&stage.host));
    peer_reply(&peer, xid, 80, 0);
    expect_failed(HF_EMISMATCH);
    play_end();
}
END_TEST

START_TEST(a_try_leaves_nothing)
{
    play_begin(HF_MUTEX);
    ticket.flags = HF_TICKET_TRY;
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, own("lock-", "0000000004"), "a-lock-0000000003");
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path("0000000004"));
    ck_assert(fake_quiet(&stage.host));
    peer_reply(&peer, xid, 80, 0);
    expect(FAKE_BUSY);

    ticket.store[0] = 0; /* the next one on this name looks first */
    fake_attempt(&stage.host, &ticket);
    answer_sync(asked(ZK_OPCODE_SYNC, FOLDER));
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), "a-lock-0000000003");
    expect(FAKE_BUSY);
    fake_attempt(&stage.host, &ticket);
    answer_sync(asked(ZK_OPCODE_SYNC, FOLDER));
    peer_reply(&peer, asked(ZK_OPCODE_CHILDREN2, FOLDER), 9, ZK_NONODE);
    entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000009", 99);
    LIST(entry.list, own("lock-", "0000000009"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 99);
    play_end();
}
END_TEST

/* ---- Not known ------------------------------------------------------------------- */

static void lose_the_answer(void)
{
    fake_attempt(&stage.host, &ticket);
    entry_asked("lock-");
    peer_hang_up(&peer);
    expect_failed(HF_EUNCERTAIN);
    come_back(PEER_SESSION);
    answer_sync(asked(ZK_OPCODE_SYNC, FOLDER));
}

START_TEST(a_lost_create_is_found)
{
    play_begin(HF_MUTEX);
    lose_the_answer();
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000004"), "x");
    answer_stat(asked(ZK_OPCODE_EXISTS, own_path("0000000004")), 66, PEER_SESSION);
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000004"), "x");
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 66);
    play_end();
}
END_TEST

START_TEST(a_lost_create_was_not_done)
{
    play_begin(HF_MUTEX);
    lose_the_answer();
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), "x-lock-0000000001");
    struct entry entry = entry_asked("lock-"); /* under the same id */
    answer_create(entry.create, "lock-", "0000000005", 88);
    LIST(entry.list, own("lock-", "0000000005"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 88);
    play_end();
}
END_TEST

/* It would be the token. What the server did is not known, so it is looked up. */
START_TEST(a_transaction_that_is_none)
{
    const int64_t numbers[] = { -1, INT64_MIN, 0 };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        play_begin(HF_MUTEX);
        fake_attempt(&stage.host, &ticket);
        struct entry entry = entry_asked("lock-");
        answer_create(entry.create, "lock-", "0000000004", numbers[i]);
        expect_failed(HF_EUNCERTAIN);
        come_back(PEER_SESSION);
        answer_sync(asked(ZK_OPCODE_SYNC, FOLDER));
        LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000004"));
        answer_stat(asked(ZK_OPCODE_EXISTS, own_path("0000000004")), numbers[i],
                    PEER_SESSION);
        expect_failed(HF_EUNCERTAIN);
        come_back(PEER_SESSION);
        answer_sync(asked(ZK_OPCODE_SYNC, FOLDER));
        LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), "x");
        entry = entry_asked("lock-");
        answer_create(entry.create, "lock-", "0000000005", INT64_MAX);
        LIST(entry.list, own("lock-", "0000000005"));
        ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), INT64_MAX);
        play_end();
    }
}
END_TEST

/* The node of a session that is over, or will be: never ours. */
START_TEST(a_node_of_another_session)
{
    play_begin(HF_MUTEX);
    lose_the_answer();
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000004"));
    answer_stat(asked(ZK_OPCODE_EXISTS, own_path("0000000004")), 66, OTHER_SESSION);
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, own_path("0000000004")), 70, 0);
    answer_sync(asked(ZK_OPCODE_SYNC, FOLDER));
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), "x");
    hold_it();
    play_end();
}
END_TEST

START_TEST(a_lost_create_is_withdrawn)
{
    play_begin(HF_MUTEX);
    lose_the_answer();
    leave();
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000004"));
    answer_stat(asked(ZK_OPCODE_EXISTS, own_path("0000000004")), 66, PEER_SESSION);
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path("0000000004"));
    ck_assert(fake_quiet(&stage.host));
    peer_reply(&peer, xid, 70, 0);
    expect_left(HF_WITHDRAWN);
    play_end();
}
END_TEST

START_TEST(forgotten_on_the_way)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    fake_forget(&stage.host, &ticket);
    memset(&ticket.store, 0xff, sizeof ticket.store); /* not the store's any more */
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, own("lock-", "0000000004"));
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path("0000000004"));
    peer_reply(&peer, xid, 80, 0);
    ck_assert(fake_quiet(&stage.host));
    ck_assert_uint_eq(ticket.store[0], UINT64_MAX);
    play_end();
}
END_TEST

START_TEST(a_lost_delete_is_repeated)
{
    play_begin(HF_MUTEX);
    hold_it();
    leave();
    asked(ZK_OPCODE_DELETE, own_path("0000000004"));
    peer_hang_up(&peer);
    expect_left(HF_WITHDRAWAL_UNKNOWN);
    come_back(PEER_SESSION);
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, own_path("0000000004")), 9, ZK_NONODE);
    expect_left(HF_WITHDRAWN); /* the first one did it */
    play_end();
}
END_TEST

/* It was not sent the first time: another client deleted the node. */
START_TEST(deleted_while_we_were_away)
{
    play_begin(HF_MUTEX);
    hold_it();
    peer_hang_up(&peer);
    fake_turn(&stage.host, 10000); /* until it is seen */
    leave();
    expect_left(HF_WITHDRAWAL_UNSENT);
    come_back(PEER_SESSION);
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, own_path("0000000004")), 9, ZK_NONODE);
    expect_left(HF_GONE);
    play_end();
}
END_TEST

START_TEST(deleted_by_another_client)
{
    play_begin(HF_MUTEX);
    hold_it();
    leave();
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, own_path("0000000004")), 9, ZK_NONODE);
    expect_left(HF_GONE);
    play_end();
}
END_TEST

START_TEST(a_waiter_that_was_deleted_comes_again)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, "a-lock-0000000003");
    entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000005", 78);
    LIST(entry.list, own("lock-", "0000000005"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 78);
    play_end();
}
END_TEST

START_TEST(a_second_node_of_ours_goes)
{
    char names[2][96];
    play_begin(HF_MUTEX);
    snprintf(names[0], sizeof names[0], "%s", own("lock-", "0000000003"));
    snprintf(names[1], sizeof names[1], "%s", own("lock-", "0000000004"));
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, names[0], names[1]);
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path("0000000003"));
    expect(FAKE_QUEUED);
    peer_reply(&peer, xid, 80, 0);
    peer_reply(&peer, asked(ZK_OPCODE_GET, own_path("0000000003")), 80, ZK_NONODE);
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000004"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    play_end();
}
END_TEST

/* ---- The session ----------------------------------------------------------------- */

START_TEST(a_waiter_looks_after_a_pause)
{
    play_begin(HF_MUTEX);
    wait_for_it();
    peer_hang_up(&peer);
    come_back(PEER_SESSION);
    struct jute in;
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_SET_WATCHES, &in);
    peer_reply(&peer, xid, 9, 0);
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000004"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    play_end();
}
END_TEST

START_TEST(a_waiter_begins_anew)
{
    play_begin(HF_MUTEX);
    wait_for_it();
    peer_hang_up(&peer);
    come_back(0); /* that session is no more */
    peer_accept(&peer, &stage);
    peer_greet(&peer, OTHER_SESSION, PEER_SESSION_MS);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000008", 99);
    LIST(entry.list, own("lock-", "0000000008"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 99);
    play_end();
}
END_TEST

START_TEST(a_hold_ends_with_the_session)
{
    play_begin(HF_MUTEX);
    hold_it();
    peer_hang_up(&peer);
    come_back(0);
    fake_expect_event(&stage.host, &ticket, HF_EVENT_LOST);
    leave();
    expect_left(HF_GONE);
    play_end();
}
END_TEST

START_TEST(revocations_are_told)
{
    play_begin(HF_MUTEX);
    hold_it();
    fake_interest(&stage.host, &ticket);
    answer_data(asked(ZK_OPCODE_GET, own_path("0000000004")), "host=x", 77);
    ck_assert(fake_quiet(&stage.host));
    peer_event(&peer, ZK_CHANGED, own_path("0000000004"));
    answer_data(asked(ZK_OPCODE_GET, own_path("0000000004")), "__REVOKE__", 90);
    fake_expect_event(&stage.host, &ticket, HF_EVENT_REVOKED);
    peer_event(&peer, ZK_DELETED, own_path("0000000004"));
    fake_expect_event(&stage.host, &ticket, HF_EVENT_LOST);
    leave();
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, own_path("0000000004")), 9, ZK_NONODE);
    expect_left(HF_GONE);
    play_end();
}
END_TEST

UNIT_MAIN("zk_queue_node", without_rivals_one_round_trip, attempts_are_repeated,
          the_next_one_lists_first, a_change_is_no_end, a_waiter_whose_node_is_deleted,
          deleted_from_a_queue_that_is_empty, a_waiter_whose_folder_is_deleted,
          the_same_client_again, the_first_number_is_no_grant,
          others_before_us_are_looked_at_again, a_writer_behind_a_writer_looks,
          data_that_we_may_not_read, gone_where_we_may_not_read, parents_are_made,
          parents_that_are_refused, numbers_that_wrapped, another_kind_was_first,
          a_try_leaves_nothing, a_lost_create_is_found, a_lost_create_was_not_done,
          a_transaction_that_is_none, a_node_of_another_session,
          a_lost_create_is_withdrawn, forgotten_on_the_way, a_lost_delete_is_repeated,
          deleted_while_we_were_away, deleted_by_another_client,
          a_waiter_that_was_deleted_comes_again, a_second_node_of_ours_goes,
          a_waiter_looks_after_a_pause, a_waiter_begins_anew,
          a_hold_ends_with_the_session, revocations_are_told)
