/* SPDX-License-Identifier: MIT */
/*
 * Who was alone in ZooKeeper's folder and comes back: when it needs no listing, and
 * when it does, against a server that is played.
 */
#include "unit.h"

#include "../../src/backends/zookeeper/alone.h"
#include "zk_play.h"

#include <stdio.h>

static void leave_it(const char *number, int64_t zxid)
{
    leave();
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, own_path(number)), zxid, 0);
    expect_left(HF_WITHDRAWN);
}

/* Node 4 of transaction 77 was the only child. */
static void was_alone(void)
{
    play_begin(HF_MUTEX);
    hold_it();
    leave_it("0000000004", 78);
}

/* Asks for the lock again, and nothing goes out but a create. */
static int32_t create_asked(void)
{
    char path[160];
    fake_attempt(&stage.host, &ticket);
    snprintf(path, sizeof path, FOLDER "/%s", own("lock-", ""));
    int32_t xid = asked(ZK_OPCODE_CREATE2, path);
    ck_assert(peer_quiet(&peer, &stage));
    return xid;
}

/* As create_asked(), and the listing is asked for in the same flight. */
static void both_asked(const char *number, int64_t czxid)
{
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", number, czxid);
    LIST(entry.list, own("lock-", number));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), (uint64_t)czxid);
    leave_it(number, czxid + 1);
}

START_TEST(alone_again_asks_once)
{
    was_alone();
    char number[] = "0000000005";
    for (int64_t czxid = 79; czxid < 87; czxid += 2, number[9]++) {
        answer_create(create_asked(), "lock-", number, czxid);
        ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), (uint64_t)czxid);
        ck_assert(peer_quiet(&peer, &stage));
        leave_it(number, czxid + 1);
    }
    play_end();
}
END_TEST

START_TEST(somebody_is_ahead)
{
    was_alone();
    answer_create(create_asked(), "lock-", "0000000006", 80);
    ck_assert(fake_quiet(&stage.host));
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000006"),
         "a-lock-0000000005");
    expect(FAKE_QUEUED);
    answer_data(asked(ZK_OPCODE_GET, FOLDER "/a-lock-0000000005"), "", 5);
    answer_data(asked(ZK_OPCODE_GET, own_path("0000000006")), "", 80);
    peer_event(&peer, ZK_DELETED, FOLDER "/a-lock-0000000005");
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 80);
    leave_it("0000000006", 82);
    both_asked("0000000007", 83); /* it was not alone */
    play_end();
}
END_TEST

START_TEST(somebody_came_and_went)
{
    was_alone();
    answer_create(create_asked(), "lock-", "0000000006", 81);
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000006"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 81);
    leave_it("0000000006", 82);
    create_asked();
    play_end();
}
END_TEST

/* Seven transactions of others may have removed, made and filled the folder, as far as
 * number 4: our 5 proves nothing then. Six cannot. */
START_TEST(a_folder_made_anew)
{
    was_alone();
    answer_create(create_asked(), "lock-", "0000000005", 86);
    ck_assert(fake_quiet(&stage.host));
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000005"),
         "a-lock-0000000004");
    expect(FAKE_QUEUED);
    play_end();
}
END_TEST

START_TEST(a_folder_that_cannot_have_been_made_anew)
{
    was_alone();
    answer_create(create_asked(), "lock-", "0000000005", 85);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 85);
    play_end();
}
END_TEST

START_TEST(another_leader)
{
    was_alone();
    answer_create(create_asked(), "lock-", "0000000005", (INT64_C(1) << 32) + 79);
    ck_assert(fake_quiet(&stage.host));
    asked(ZK_OPCODE_CHILDREN2, FOLDER);
    play_end();
}
END_TEST

START_TEST(in_but_not_alone)
{
    play_begin(HF_MUTEX);
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, own("lock-", "0000000004"), "a-lock-0000000005");
    fake_expect_grant(&stage.host, &ticket);
    leave_it("0000000004", 79);
    both_asked("0000000006", 80);
    play_end();
}
END_TEST

START_TEST(evicted)
{
    play_begin(HF_MUTEX);
    hold_it();
    leave();
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, own_path("0000000004")), 78, ZK_NONODE);
    expect_left(HF_GONE);
    both_asked("0000000005", 79);
    play_end();
}
END_TEST

/* Found again, not answered: that is looked at, as ever. */
START_TEST(a_create_without_an_answer)
{
    was_alone();
    create_asked();
    peer_hang_up(&peer);
    expect_failed(HF_EUNCERTAIN);
    come_back(PEER_SESSION);
    answer_sync(asked(ZK_OPCODE_SYNC, FOLDER));
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000005"));
    answer_stat(asked(ZK_OPCODE_EXISTS, own_path("0000000005")), 79, PEER_SESSION);
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000005"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 79);
    play_end();
}
END_TEST

START_TEST(the_folder_has_gone)
{
    was_alone();
    peer_reply(&peer, create_asked(), 80, ZK_NONODE);
    int32_t made = asked(ZK_OPCODE_CONTAINER, FOLDER);
    struct entry entry = entry_asked("lock-");
    peer_reply(&peer, made, 81, ZK_NODEEXISTS);
    answer_create(entry.create, "lock-", "0000000000", 82);
    LIST(entry.list, own("lock-", "0000000000"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 82);
    play_end();
}
END_TEST

/* There is room for so many; older ones are forgotten, never mistaken. */
START_TEST(a_table_that_is_full)
{
    static struct alone_table table;
    uint64_t hints[ALONE_SLOTS + 1];
    struct alone found = { -1, -1 };
    ck_assert(!alone_find(&table, 0, &found));
    for (int64_t i = 0; i <= ALONE_SLOTS; i++)
        hints[i] = alone_note(&table, &(struct alone){ i, 1000 + i });
    ck_assert(!alone_find(&table, hints[0], &found));
    for (int64_t i = 1; i <= ALONE_SLOTS; i++) {
        ck_assert(alone_find(&table, hints[i], &found));
        ck_assert_int_eq(found.number, i);
        ck_assert_int_eq(found.czxid, 1000 + i);
    }
}
END_TEST

UNIT_MAIN("zk_alone", alone_again_asks_once, somebody_is_ahead, somebody_came_and_went,
          a_folder_made_anew, a_folder_that_cannot_have_been_made_anew, another_leader,
          in_but_not_alone, evicted, a_create_without_an_answer, the_folder_has_gone,
          a_table_that_is_full)
