/* SPDX-License-Identifier: MIT */
/*
 * Long queues of the zookeeper store, against a played server: a waiter is admitted by
 * a listing that shows its node and none before it, and by nothing else. Readers and
 * writers in such a queue, and a writer that becomes a reader.
 */
#include "unit.h"

#include "zk_play.h"

#include <stdio.h>
#include <string.h>

enum { LONG = 16 };

#define NUMBER "0000000030"
#define AHEAD FOLDER "/a-lock-0000000029"
#define BEFORE FOLDER "/a-lock-0000000028"
#define WRITER FOLDER "/a-__WRIT__0000000029"

/* Our node, and so many others before it: a-<form>0000000029, 28 and so on. */
static void list_others(int32_t xid, const char *form, const char *own_form, int others)
{
    static char names[LONG][64];
    const char *list[LONG + 2] = { NULL };
    for (int i = 0; i < others; i++) {
        snprintf(names[i], sizeof names[i], "a-%s00000000%02d", form, 30 - others + i);
        list[i] = names[i];
    }
    list[others] = own(own_form, NUMBER);
    answer_list(xid, list);
}

static void wait_behind(const char *form, const char *own_form, const char *ahead)
{
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked(own_form);
    answer_create(entry.create, own_form, NUMBER, 77);
    list_others(entry.list, form, own_form, LONG);
    expect(FAKE_QUEUED);
    answer_data(asked(ZK_OPCODE_GET, ahead), "", 5);
    ck_assert(peer_quiet(&peer, &stage)); /* one watch is all */
}

static void wait_in_long_queue(void)
{
    play_begin(HF_MUTEX);
    wait_behind("lock-", "lock-", AHEAD);
}

/* All before us have gone. */
static void become_first(const char *own_form, const char *ahead)
{
    peer_event(&peer, ZK_DELETED, ahead);
    int32_t xid = asked(ZK_OPCODE_CHILDREN2, FOLDER);
    ck_assert(fake_quiet(&stage.host));
    list_others(xid, "", own_form, 0);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    ck_assert(peer_quiet(&peer, &stage));
}

static const char *path_of(const char *form)
{
    static char path[160];
    snprintf(path, sizeof path, FOLDER "/%s", own(form, NUMBER));
    return path;
}

static void unwatched(const char *path)
{
    peer_reply(&peer, asked(ZK_OPCODE_UNWATCH, path), 9, 0);
}

/* ---- Waiting --------------------------------------------------------------------- */

START_TEST(a_listing_is_a_grant)
{
    wait_in_long_queue();
    become_first("lock-", AHEAD);
    leave();
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, own_path(NUMBER)), 80, 0);
    expect_left(HF_WITHDRAWN);
    ck_assert(peer_quiet(&peer, &stage));
    play_end();
}
END_TEST

/* The one ahead gave up or died, and others are still before us. */
START_TEST(others_are_left)
{
    wait_in_long_queue();
    peer_event(&peer, ZK_DELETED, AHEAD);
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), "a-lock-0000000027", "a-lock-0000000028",
         own("lock-", NUMBER));
    answer_data(asked(ZK_OPCODE_GET, BEFORE), "", 5);
    ck_assert(peer_quiet(&peer, &stage));
    ck_assert(fake_quiet(&stage.host));
    become_first("lock-", BEFORE);
    play_end();
}
END_TEST

START_TEST(deleted_in_a_long_queue)
{
    wait_in_long_queue();
    peer_event(&peer, ZK_DELETED, AHEAD);
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), "b-lock-0000000031");
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000032", 99);
    LIST(entry.list, "b-lock-0000000031", own("lock-", "0000000032"));
    answer_data(asked(ZK_OPCODE_GET, FOLDER "/b-lock-0000000031"), "", 5);
    ck_assert(fake_quiet(&stage.host));
    peer_event(&peer, ZK_DELETED, FOLDER "/b-lock-0000000031");
    LIST(asked(ZK_OPCODE_CHILDREN2, FOLDER), own("lock-", "0000000032"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 99);
    play_end();
}
END_TEST

START_TEST(a_waiter_gives_up)
{
    wait_in_long_queue();
    leave();
    int32_t xid = asked(ZK_OPCODE_DELETE, own_path(NUMBER));
    peer_event(&peer, ZK_DELETED, AHEAD); /* too late */
    ck_assert(fake_quiet(&stage.host));
    peer_reply(&peer, xid, 80, 0);
    expect_left(HF_WITHDRAWN);
    unwatched(AHEAD);
    ck_assert(peer_quiet(&peer, &stage));
    play_end();
}
END_TEST

/* ---- The connection -------------------------------------------------------------- */

static void watch_set_again(const char *path)
{
    struct jute in;
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_SET_WATCHES, &in);
    in.at += sizeof(int64_t);
    ck_assert_int_eq(hf__zk_jute_int(&in), 1);
    struct zk_text about = hf__zk_jute_text(&in);
    ck_assert(about.len == strlen(path) && memcmp(about.at, path, about.len) == 0);
    peer_reply(&peer, xid, 9, 0);
}

/* What is told behind a pause is in no order: only the listing counts. */
START_TEST(an_end_that_was_missed)
{
    wait_in_long_queue();
    peer_hang_up(&peer);
    come_back(PEER_SESSION);
    watch_set_again(AHEAD);
    int32_t xid = asked(ZK_OPCODE_CHILDREN2, FOLDER);
    peer_event(&peer, ZK_DELETED, AHEAD);
    ck_assert(fake_quiet(&stage.host));
    LIST(xid, own("lock-", NUMBER));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
    play_end();
}
END_TEST

START_TEST(a_watch_that_lives_on)
{
    wait_in_long_queue();
    peer_hang_up(&peer);
    come_back(PEER_SESSION);
    watch_set_again(AHEAD);
    list_others(asked(ZK_OPCODE_CHILDREN2, FOLDER), "lock-", "lock-", LONG);
    ck_assert(peer_quiet(&peer, &stage));
    become_first("lock-", AHEAD);
    play_end();
}
END_TEST

/* The session is over: nothing of the queue is believed. */
START_TEST(an_end_told_to_another_session)
{
    wait_in_long_queue();
    peer_hang_up(&peer);
    come_back(0);
    peer_accept(&peer, &stage);
    peer_greet(&peer, OTHER_SESSION, PEER_SESSION_MS);
    struct entry entry = entry_asked("lock-");
    peer_event(&peer, ZK_DELETED, AHEAD);
    ck_assert(fake_quiet(&stage.host));
    answer_create(entry.create, "lock-", "0000000031", 99);
    LIST(entry.list, own("lock-", "0000000031"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 99);
    play_end();
}
END_TEST

/* ---- Readers and writers --------------------------------------------------------- */

START_TEST(a_reader_behind_writers)
{
    play_begin(HF_READ);
    wait_behind("__WRIT__", "__READ__", WRITER);
    become_first("__READ__", WRITER);
    leave();
    asked(ZK_OPCODE_DELETE, path_of("__READ__"));
    play_end();
}
END_TEST

static void hold_as_writer(void)
{
    play_begin(HF_WRITE);
    wait_behind("__WRIT__", "__WRIT__", WRITER);
    become_first("__WRIT__", WRITER);
}

/* Asked of the store; the request to the server. */
static int32_t downgrade_asked(struct hf_request *request)
{
    struct jute in;
    *request = fake_request(HF_DOWNGRADE, "jobs");
    request->ticket = &ticket;
    stage.host.calls++;
    stage.host.store->ask(stage.host.session, request);
    stage.host.calls--;
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_MULTI, &in);
    hf__zk_jute_int(&in);
    hf__zk_jute_bool(&in);
    hf__zk_jute_int(&in);
    struct zk_text path = hf__zk_jute_text(&in);
    const char *reader = path_of("__READ__");
    ck_assert(path.len == strlen(reader) && memcmp(path.at, reader, path.len) == 0);
    return xid;
}

static void put_result(struct peer_body *body, int32_t type)
{
    hf__zk_jute_put_int(&body->out, type);
    hf__zk_jute_put_bool(&body->out, false);
    hf__zk_jute_put_int(&body->out, 0);
    if (type == ZK_OPCODE_CREATE)
        hf__zk_jute_put_text(&body->out, "/x", 2);
}

static void answer_downgrade(int32_t xid)
{
    struct peer_body body;
    body_begin(&body);
    put_result(&body, ZK_OPCODE_CREATE);
    put_result(&body, ZK_OPCODE_DELETE);
    hf__zk_jute_put_int(&body.out, -1);
    hf__zk_jute_put_bool(&body.out, true);
    hf__zk_jute_put_int(&body.out, -1);
    peer_reply_with(&peer, xid, 80, body.bytes, body_len(&body));
}

/* The end of the writer's node is told first, and is none of the hold. */
START_TEST(a_writer_that_reads_on)
{
    struct hf_request request;
    hold_as_writer();
    int32_t xid = downgrade_asked(&request);
    peer_event(&peer, ZK_DELETED, path_of("__WRIT__"));
    ck_assert(peer_quiet(&peer, &stage));
    answer_downgrade(xid);
    expect(FAKE_ANSWERED);
    ck_assert(fake_quiet(&stage.host));
    leave();
    asked(ZK_OPCODE_DELETE, path_of("__READ__"));
    play_end();
}
END_TEST

/* Meanwhile nobody can say whether it is held: the writer's node has gone, or has not.
 * It is not asked for, and nothing is lost. */
START_TEST(asked_while_it_turns)
{
    struct hf_request request;
    hold_as_writer();
    int32_t xid = downgrade_asked(&request);
    ck_assert_int_eq(fake_renew(&stage.host, &ticket, HF_RENEW), HF_RENEWAL_UNKNOWN);
    ck_assert_int_eq(fake_renew(&stage.host, &ticket, HF_CHECK), HF_RENEWAL_UNKNOWN);
    fake_interest(&stage.host, &ticket);
    for (int i = 0; i < 2; i++) { /* a sync each: nothing is asked of the node */
        struct jute in;
        peer_expect(&peer, &stage, ZK_OPCODE_SYNC, &in);
    }
    ck_assert(peer_quiet(&peer, &stage));
    answer_downgrade(xid);
    expect(FAKE_ANSWERED);
    asked(ZK_OPCODE_GET, path_of("__READ__"));
    ck_assert(fake_quiet(&stage.host));
    play_end();
}
END_TEST

UNIT_MAIN("zk_long_queue", a_listing_is_a_grant, others_are_left,
          deleted_in_a_long_queue, a_waiter_gives_up, an_end_that_was_missed,
          a_watch_that_lives_on, an_end_told_to_another_session,
          a_reader_behind_writers, a_writer_that_reads_on, asked_while_it_turns)
