/* SPDX-License-Identifier: MIT */
/*
 * Quick queues of ZooKeeper's, against a server that is played: where last words can be
 * relied on, the word alone is watched at first.
 */
#include "unit.h"

#include "zk_queue.h"

static void word_and_leave(void)
{
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    leave();
    answer_multi(word_asked(), 2, -1, 0);
    expect_left(HF_WITHDRAWN);
}

/* Four words heard, and the fifth wait begins behind so many. */
static void rely_on_words(int others)
{
    begin(HF_MUTEX);
    for (int i = 0; i < 4; i++) {
        join_behind("lock-", "lock-", LONG);
        no_word_yet(WORD);
        answer_data(asked(ZK_OPCODE_GET, AHEAD), "", 5);
        peer_event(&peer, ZK_CREATED, WORD);
        peer_event(&peer, ZK_DELETED, AHEAD);
        word_and_leave();
    }
    join_behind("lock-", "lock-", others);
    no_word_yet(WORD);
}

START_TEST(the_word_alone_is_watched)
{
    for (int others = 4; others < OTHERS_MAX; others += 15) {
        rely_on_words(others);
        ck_assert(peer_quiet(&peer, &stage));
        peer_event(&peer, ZK_CREATED, WORD);
        word_and_leave();
        ck_assert(peer_quiet(&peer, &stage)); /* nothing else was watched */
        end();
    }
}
END_TEST

START_TEST(too_near_to_wait_for_a_word)
{
    rely_on_words(3);
    asked(ZK_OPCODE_GET, AHEAD);
    asked(ZK_OPCODE_GET, own_path(NUMBER));
    end();
}
END_TEST

/* All that is watched otherwise is watched then, and a word is as good as before. */
START_TEST(a_word_that_takes_its_time)
{
    rely_on_words(4);
    watch.now_ns += 11 * HF_NS_PER_MS;
    answer_data(asked(ZK_OPCODE_GET, AHEAD), "", 5);
    answer_data(asked(ZK_OPCODE_GET, own_path(NUMBER)), "", 77);
    ck_assert(peer_quiet(&peer, &stage));
    hear_the_word();
    watch.now_ns += HF_NS_PER_S; /* our own node was watched: no glance */
    ck_assert(peer_quiet(&peer, &stage));
    end();
}
END_TEST

/* It left before its word was watched for, or gave up, or died: a listing tells, and
 * words are not relied on any more. */
START_TEST(a_word_that_never_comes)
{
    rely_on_words(4);
    watch.now_ns += 11 * HF_NS_PER_MS;
    peer_reply(&peer, asked(ZK_OPCODE_GET, AHEAD), 9, ZK_NONODE);
    answer_data(asked(ZK_OPCODE_GET, own_path(NUMBER)), "", 77);
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", NUMBER), "b-lock-0000000031");
    unwatched(WORD);
    word_and_leave();
    join_behind("lock-", "lock-", LONG);
    no_word_yet(WORD);
    asked(ZK_OPCODE_GET, AHEAD);
    end();
}
END_TEST

/* In by a word alone: our own node is looked at soon, once. */
START_TEST(a_word_alone_to_one_who_was_deleted)
{
    rely_on_words(4);
    peer_event(&peer, ZK_CREATED, WORD);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    watch.now_ns += 11 * HF_NS_PER_MS;
    peer_reply(&peer, asked(ZK_OPCODE_EXISTS, own_path(NUMBER)), 9, ZK_NONODE);
    fake_expect_event(&stage.host, &ticket, HF_EVENT_LOST);
    end();
}
END_TEST

START_TEST(gives_up_before_it_looked)
{
    rely_on_words(4);
    leave();
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path(NUMBER));
    watch.now_ns += HF_NS_PER_S; /* no look any more */
    peer_reply(&peer, xid, 80, 0);
    expect_left(HF_WITHDRAWN);
    unwatched(WORD);
    ck_assert(peer_quiet(&peer, &stage));
    end();
}
END_TEST

/* Whatever tells it that it is in: there is no look any more. */
START_TEST(cut_off_before_it_looked)
{
    rely_on_words(4);
    peer_hang_up(&peer);
    come_back(PEER_SESSION);
    watches_set_again(NULL, WORD);
    int32_t xid = asked(ZK_OPCODE_CHILDREN2, FOLDER);
    watch.now_ns += 11 * HF_NS_PER_MS;
    ck_assert(peer_quiet(&peer, &stage));
    list_others(xid, "lock-", "lock-", 0);
    unwatched(WORD);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    watch.now_ns += 11 * HF_NS_PER_MS;
    ck_assert(peer_quiet(&peer, &stage));
    end();
}
END_TEST

UNIT_MAIN("zk_trust", the_word_alone_is_watched, too_near_to_wait_for_a_word,
          a_word_that_takes_its_time, a_word_that_never_comes,
          a_word_alone_to_one_who_was_deleted, gives_up_before_it_looked,
          cut_off_before_it_looked)
