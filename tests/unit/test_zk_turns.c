/* SPDX-License-Identifier: MIT */
/*
 * Long queues of ZooKeeper's, against a server that is played: who was in says a last
 * word when it leaves, and the next one is in by that word alone. Also what must not be
 * taken for it, and words that were not said or not heard.
 */
#include "unit.h"

#include "zk_queue.h"

static void wait_in_long_queue(void)
{
    begin(HF_MUTEX);
    join_behind("lock-", "lock-", LONG);
    no_word_yet(WORD);
    answer_data(asked(ZK_OPCODE_GET, AHEAD), "", 5);
    ck_assert(peer_quiet(&peer, &stage)); /* our own node is not watched */
}

static void hold_in_long_queue(void)
{
    wait_in_long_queue();
    hear_the_word();
}

/* ---- The word -------------------------------------------------------------------- */

START_TEST(the_word_is_a_grant)
{
    hold_in_long_queue();
    ck_assert(peer_quiet(&peer, &stage)); /* no listing, no watch to be taken off */
    ck_assert(fake_quiet(&stage.host));
    leave();
    answer_multi(word_asked(), 2, -1, 0);
    expect_left(HF_WITHDRAWN);
    ck_assert(peer_quiet(&peer, &stage));
    end();
}
END_TEST

START_TEST(a_queue_of_one_has_no_words)
{
    begin(HF_MUTEX);
    join_behind("lock-", "lock-", 1);
    answer_data(asked(ZK_OPCODE_GET, AHEAD), "", 5);
    answer_data(asked(ZK_OPCODE_GET, own_path(NUMBER)), "", 77);
    ck_assert(peer_quiet(&peer, &stage));
    peer_event(&peer, ZK_DELETED, AHEAD);
    fake_expect_grant(&stage.host, &ticket);
    leave();
    asked(ZK_OPCODE_DELETE, own_path(NUMBER));
    end();
}
END_TEST

/* Not so long a queue: our own node is watched as well. */
static void wait_behind(int others)
{
    begin(HF_MUTEX);
    join_behind("lock-", "lock-", others);
    no_word_yet(WORD);
    answer_data(asked(ZK_OPCODE_GET, AHEAD), "", 5);
    answer_data(asked(ZK_OPCODE_GET, own_path(NUMBER)), "", 77);
    ck_assert(peer_quiet(&peer, &stage));
}

START_TEST(a_word_to_one_who_watches_itself)
{
    for (int others = 2; others < LONG; others += LONG - 3) {
        wait_behind(others);
        peer_event(&peer, ZK_CREATED, WORD);
        ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
        ck_assert(fake_quiet(&stage.host));
        ck_assert(peer_quiet(&peer, &stage)); /* no glance is due */
        end();
    }
}
END_TEST

/* Deleted by hand while it waited: it hears that first, and no word counts. */
START_TEST(a_word_to_one_who_was_deleted)
{
    wait_behind(2);
    peer_event(&peer, ZK_DELETED, own_path(NUMBER));
    int32_t xid = asked(ZK_OPCODE_CHILDREN2, FOLDER);
    peer_event(&peer, ZK_CREATED, WORD);
    ck_assert(fake_quiet(&stage.host));
    LIST(xid, "b-lock-0000000032");
    entry_asked("lock-");
    ck_assert(fake_quiet(&stage.host));
    end();
}
END_TEST

/* Whoever died or gave up has said nothing, and others are still before us. */
START_TEST(an_end_without_a_word)
{
    wait_in_long_queue();
    peer_event(&peer, ZK_DELETED, AHEAD);
    int32_t xid = asked(ZK_OPCODE_CHILDREN2, FOLDER);
    ck_assert(fake_quiet(&stage.host));
    LIST(xid, "a-lock-0000000027", "a-lock-0000000028", own("lock-", NUMBER));
    unwatched(WORD);
    no_word_yet(BEFORE "-over");
    answer_data(asked(ZK_OPCODE_GET, BEFORE), "", 5);
    answer_data(asked(ZK_OPCODE_GET, own_path(NUMBER)), "", 77); /* a few are left */
    ck_assert(peer_quiet(&peer, &stage));
    ck_assert(fake_quiet(&stage.host));
    peer_event(&peer, ZK_CREATED, BEFORE "-over");
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    end();
}
END_TEST

START_TEST(an_end_without_a_word_and_nobody_left)
{
    wait_in_long_queue();
    peer_event(&peer, ZK_DELETED, AHEAD);
    list_others(asked(ZK_OPCODE_CHILDREN2, FOLDER), "lock-", "lock-", 0);
    unwatched(WORD);
    fake_expect_grant(&stage.host, &ticket);
    leave(); /* it came into a long queue, and so may have the next one */
    word_asked();
    end();
}
END_TEST

/* The last one before us is watched in the usual way, and our own node too: that costs
 * no more than a word. */
START_TEST(who_is_next_needs_no_word)
{
    wait_in_long_queue();
    peer_event(&peer, ZK_DELETED, AHEAD);
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), "a-lock-0000000028", own("lock-", NUMBER));
    unwatched(WORD);
    answer_data(asked(ZK_OPCODE_GET, BEFORE), "", 5);
    answer_data(asked(ZK_OPCODE_GET, own_path(NUMBER)), "", 77);
    peer_event(&peer, ZK_DELETED, BEFORE);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    ck_assert(peer_quiet(&peer, &stage));
    end();
}
END_TEST

START_TEST(a_change_is_no_word)
{
    wait_in_long_queue();
    peer_event(&peer, ZK_CHANGED, AHEAD);
    answer_data(asked(ZK_OPCODE_GET, AHEAD), "", 5);
    ck_assert(peer_quiet(&peer, &stage));
    ck_assert(fake_quiet(&stage.host));
    hear_the_word();
    end();
}
END_TEST

/* The word is asked for first: it may come before the answer about the node. */
START_TEST(a_word_on_the_way)
{
    begin(HF_MUTEX);
    join_behind("lock-", "lock-", LONG);
    no_word_yet(WORD);
    int32_t xid = asked(ZK_OPCODE_GET, AHEAD);
    peer_event(&peer, ZK_CREATED, WORD);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    peer_reply(&peer, xid, 9, ZK_NONODE);
    unwatched(AHEAD); /* which may not be there any more to fire */
    ck_assert(fake_quiet(&stage.host));
    end();
}
END_TEST

START_TEST(a_node_of_that_name)
{
    begin(HF_MUTEX);
    join_behind("lock-", "lock-", LONG);
    answer_stat(asked(ZK_OPCODE_EXISTS, WORD), 5, 0);
    answer_data(asked(ZK_OPCODE_GET, AHEAD), "", 5);
    unwatched(WORD);
    peer_event(&peer, ZK_DELETED, WORD);
    ck_assert(fake_quiet(&stage.host));
    peer_event(&peer, ZK_DELETED, AHEAD);
    asked(ZK_OPCODE_CHILDREN2, FOLDER);
    end();
}
END_TEST

START_TEST(a_waiter_gives_up)
{
    wait_in_long_queue();
    leave();
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path(NUMBER)); /* it has no word */
    peer_event(&peer, ZK_CREATED, WORD);                     /* too late */
    ck_assert(fake_quiet(&stage.host));
    peer_reply(&peer, xid, 80, 0);
    expect_left(HF_WITHDRAWN);
    unwatched(AHEAD);
    unwatched(WORD);
    ck_assert(peer_quiet(&peer, &stage));
    end();
}
END_TEST

/* ---- Readers and writers --------------------------------------------------------- */

#define WRITER FOLDER "/a-__WRIT__0000000029"

START_TEST(a_reader_hears_and_says_nothing)
{
    char path[160];
    begin(HF_READ);
    join_behind("__WRIT__", "__READ__", LONG);
    no_word_yet(WRITER "-over");
    answer_data(asked(ZK_OPCODE_GET, WRITER), "", 5);
    peer_event(&peer, ZK_CREATED, WRITER "-over");
    peer_event(&peer, ZK_DELETED, WRITER);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    leave();
    snprintf(path, sizeof path, FOLDER "/%s", own("__READ__", NUMBER));
    asked(ZK_OPCODE_DELETE, path);
    end();
}
END_TEST

static void hold_as_writer(void)
{
    begin(HF_WRITE);
    join_behind("__WRIT__", "__WRIT__", LONG);
    no_word_yet(WRITER "-over");
    answer_data(asked(ZK_OPCODE_GET, WRITER), "", 5);
    peer_event(&peer, ZK_CREATED, WRITER "-over");
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
}

/* A reader stays, of a new node, and whoever is next is not in. */
static void downgrade(struct hf_request *request)
{
    char reader[160];
    struct jute in;
    *request = fake_request(HF_DOWNGRADE, "jobs");
    request->ticket = &ticket;
    stage.host.calls++;
    stage.host.store->ask(stage.host.session, request);
    stage.host.calls--;
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_MULTI, &in);
    jute_int(&in);
    jute_bool(&in);
    jute_int(&in);
    struct zk_text path = jute_text(&in);
    snprintf(reader, sizeof reader, FOLDER "/%s", own("__READ__", NUMBER));
    ck_assert(path.len == strlen(reader) && memcmp(path.at, reader, path.len) == 0);
    watch.now_ns += HF_NS_PER_S; /* the writer's node is not looked at any more */
    ck_assert(peer_quiet(&peer, &stage));
    answer_multi(xid, 1, -1, 0);
    expect(FAKE_ANSWERED);
}

START_TEST(a_writer_that_reads_on)
{
    char reader[160];
    struct hf_request request;
    hold_as_writer();
    downgrade(&request);
    ck_assert(fake_quiet(&stage.host));
    leave();
    snprintf(reader, sizeof reader, FOLDER "/%s", own("__READ__", NUMBER));
    asked(ZK_OPCODE_DELETE, reader);
    end();
}
END_TEST

START_TEST(a_writer_that_writes_on)
{
    char path[160];
    hold_as_writer();
    leave();
    struct jute in;
    peer_expect(&peer, &stage, ZK_OPCODE_MULTI, &in);
    snprintf(path, sizeof path, FOLDER "/%s-over", own("__WRIT__", NUMBER));
    expect_op(&in, ZK_OPCODE_CREATE, path);
    end();
}
END_TEST

/* ---- Our own node ---------------------------------------------------------------- */

/* Somebody deleted it while we waited, and we have not seen that. */
START_TEST(a_grant_without_a_node)
{
    hold_in_long_queue();
    ck_assert(peer_quiet(&peer, &stage));
    watch.now_ns += 60 * HF_NS_PER_MS;
    peer_reply(&peer, asked(ZK_OPCODE_EXISTS, own_path(NUMBER)), 9, ZK_NONODE);
    fake_expect_event(&stage.host, &ticket, HF_EVENT_LOST);
    leave();
    answer_multi(word_asked(), 2, 2, ZK_NONODE);
    expect_left(HF_GONE);
    end();
}
END_TEST

START_TEST(a_grant_with_a_node)
{
    hold_in_long_queue();
    watch.now_ns += 60 * HF_NS_PER_MS;
    answer_stat(asked(ZK_OPCODE_EXISTS, own_path(NUMBER)), 77, PEER_SESSION);
    watch.now_ns += 60 * HF_NS_PER_MS; /* once is enough */
    ck_assert(peer_quiet(&peer, &stage));
    ck_assert(fake_quiet(&stage.host));
    end();
}
END_TEST

START_TEST(a_glance_without_an_answer)
{
    hold_in_long_queue();
    watch.now_ns += 60 * HF_NS_PER_MS;
    asked(ZK_OPCODE_EXISTS, own_path(NUMBER));
    peer_hang_up(&peer);
    come_back(PEER_SESSION);
    peer_reply(&peer, asked(ZK_OPCODE_EXISTS, own_path(NUMBER)), 9, ZK_NONODE);
    fake_expect_event(&stage.host, &ticket, HF_EVENT_LOST);
    end();
}
END_TEST

START_TEST(released_before_the_glance)
{
    hold_in_long_queue();
    leave();
    int32_t xid = word_asked();
    watch.now_ns += 60 * HF_NS_PER_MS;
    ck_assert(peer_quiet(&peer, &stage));
    answer_multi(xid, 2, 2, ZK_NONODE);
    expect_left(HF_GONE);
    end();
}
END_TEST

/* ---- Words that are refused, or lost --------------------------------------------- */

START_TEST(a_word_that_is_refused)
{
    hold_in_long_queue();
    leave();
    answer_multi(word_asked(), 2, 0, ZK_NODEEXISTS);
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path(NUMBER));
    ck_assert(fake_quiet(&stage.host));
    peer_reply(&peer, xid, 81, 0);
    expect_left(HF_WITHDRAWN);
    end();
}
END_TEST

START_TEST(a_word_that_may_have_been_said)
{
    hold_in_long_queue();
    leave();
    word_asked();
    peer_hang_up(&peer);
    expect_left(HF_WITHDRAWAL_UNKNOWN);
    come_back(PEER_SESSION);
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, own_path(NUMBER)), 9, ZK_NONODE);
    expect_left(HF_WITHDRAWN);
    end();
}
END_TEST

/* What was said meanwhile is told as an end, and that means a look. */
START_TEST(a_word_that_was_missed)
{
    wait_in_long_queue();
    peer_hang_up(&peer);
    come_back(PEER_SESSION);
    watches_set_again(AHEAD, NULL);
    watches_set_again(NULL, WORD);
    int32_t xid = asked(ZK_OPCODE_CHILDREN2, FOLDER);
    peer_event(&peer, ZK_DELETED, AHEAD);
    ck_assert(fake_quiet(&stage.host));
    LIST(xid, own("lock-", NUMBER));
    unwatched(WORD);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    end();
}
END_TEST

START_TEST(a_word_after_a_pause)
{
    wait_in_long_queue();
    peer_hang_up(&peer);
    come_back(PEER_SESSION);
    watches_set_again(AHEAD, NULL);
    watches_set_again(NULL, WORD);
    list_others(asked(ZK_OPCODE_CHILDREN2, FOLDER), "lock-", "lock-", LONG);
    ck_assert(peer_quiet(&peer, &stage)); /* both watches are there */
    hear_the_word();
    end();
}
END_TEST

/* The session is over: nothing of the queue is believed. */
START_TEST(a_word_of_a_former_session)
{
    wait_in_long_queue();
    peer_hang_up(&peer);
    come_back(0);
    peer_accept(&peer, &stage);
    peer_greet(&peer, OTHER_SESSION, PEER_SESSION_MS);
    struct entry entry = entry_asked("lock-");
    peer_event(&peer, ZK_CREATED, WORD);
    ck_assert(fake_quiet(&stage.host));
    answer_create(entry.create, "lock-", "0000000031", 99);
    LIST(entry.list, own("lock-", "0000000031"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 99);
    leave();
    asked(ZK_OPCODE_DELETE, own_path("0000000031"));
    end();
}
END_TEST

UNIT_MAIN("zk_turns", the_word_is_a_grant, a_queue_of_one_has_no_words,
          a_word_to_one_who_watches_itself, a_word_to_one_who_was_deleted,
          an_end_without_a_word, an_end_without_a_word_and_nobody_left,
          who_is_next_needs_no_word, a_change_is_no_word, a_word_on_the_way,
          a_node_of_that_name, a_waiter_gives_up, a_reader_hears_and_says_nothing,
          a_writer_that_reads_on, a_writer_that_writes_on, a_grant_without_a_node,
          a_grant_with_a_node, a_glance_without_an_answer, released_before_the_glance,
          a_word_that_is_refused, a_word_that_may_have_been_said,
          a_word_that_was_missed, a_word_after_a_pause, a_word_of_a_former_session)
