/* SPDX-License-Identifier: MIT */
/*
 * The life of a session, with a played server and a clock that the test moves: going on
 * at another server, the end by the server's word and by the client's clock, and the
 * watches, which must outlive a connection but not a session.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "zk_peer.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WHOLE (PEER_SESSION_MS * HF_NS_PER_MS)

static struct stage stage;
static struct peer peer, other;
static struct fake_clock time_of = { .now_ns = 1000 * HF_NS_PER_S };

static void begin(void)
{
    peer_open(&peer, &stage, &time_of);
}

static void end(void)
{
    stage_close(&stage);
    peer_end(&peer);
}

static void pass(int64_t ns)
{
    time_of.now_ns += ns;
    stage_turn(&stage);
}

static bool text_is(struct zk_text text, const char *wanted)
{
    return text.len == strlen(wanted) && memcmp(text.at, wanted, text.len) == 0;
}

static void come_back(int64_t session)
{
    unsigned ups = stage.ups;
    peer_accept(&peer, &stage);
    peer_greet(&peer, session, PEER_SESSION_MS);
    STAGE_UNTIL(&stage, stage.ups == ups + 1);
}

/* ---- The end of a session -------------------------------------------------------- */

/* By our clock: told at the moment, once; the servers, which know it still, are told
 * that it is over before a new one begins. */
START_TEST(it_ends_by_our_clock)
{
    begin();
    int64_t until = hf__zk_valid_until(stage.zk);
    peer_deafen(&peer);
    peer_hang_up(&peer);
    STAGE_UNTIL(&stage, stage.downs == 1);
    pass(until - time_of.now_ns - 1);
    ck_assert_uint_eq(stage.expiries, 0);
    ck_assert_int_eq(hf__zk_session_id(stage.zk), PEER_SESSION);
    pass(1);
    ck_assert_uint_eq(stage.expiries, 1);
    ck_assert_int_eq(hf__zk_session_id(stage.zk), 0);
    ck_assert_int_eq(hf__zk_valid_until(stage.zk), 0);
    peer_listen(&peer);
    peer_accept(&peer, &stage);
    ck_assert_int_eq(peer.hello.session, PEER_SESSION);
    peer_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_CLOSE, NULL);
    ck_assert_uint_eq(stage.ups, 0);
    peer_reply(&peer, xid, 9, 0);
    peer_accept(&peer, &stage);
    ck_assert_int_eq(peer.hello.session, 0);
    peer_greet(&peer, 42, PEER_SESSION_MS);
    STAGE_UNTIL(&stage, stage.ups == 1);
    ck_assert_uint_eq(stage.fresh, 1);
    ck_assert_int_eq(hf__zk_session_id(stage.zk), 42);
    ck_assert_str_eq(stage.story, "dxU");
    end();
}
END_TEST

START_TEST(it_ends_by_the_servers_word)
{
    begin();
    hf__zk_sync(stage.zk, "/", stage_take, &stage, 1);
    peer_reply(&peer, peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL), 5, 0);
    stage_last(&stage);
    peer_hang_up(&peer);
    STAGE_UNTIL(&stage, stage.downs == 1);
    peer_accept(&peer, &stage);
    ck_assert_int_eq(peer.hello.last_zxid, 5);
    peer_greet(&peer, 0, 0);
    STAGE_UNTIL(&stage, stage.expiries == 1);
    peer_accept(&peer, &stage);
    ck_assert_int_eq(peer.hello.session, 0);
    ck_assert_int_eq(peer.hello.last_zxid, 0);
    ck_assert_int_eq(peer.hello.password[0], 0);
    peer_greet(&peer, 42, PEER_SESSION_MS);
    STAGE_UNTIL(&stage, stage.ups == 1);
    ck_assert_str_eq(stage.story, "rdxU");
    end();
}
END_TEST

START_TEST(another_session_is_a_new_one)
{
    begin();
    come_back(43);
    ck_assert_str_eq(stage.story, "dxU");
    ck_assert_int_eq(hf__zk_session_id(stage.zk), 43);
    end();
}
END_TEST

START_TEST(it_ends_in_a_reply)
{
    begin();
    hf__zk_sync(stage.zk, "/", stage_take, &stage, 1);
    hf__zk_sync(stage.zk, "/", stage_take, &stage, 2);
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    peer_reply(&peer, xid, 0, ZK_SESSIONEXPIRED);
    STAGE_UNTIL(&stage, stage.expiries == 1);
    ck_assert_str_eq(stage.story, "rrdx");
    ck_assert_int_eq(stage.replies[0].reply.error, ZK_SESSIONEXPIRED);
    ck_assert_int_eq(stage.replies[1].code, HF_EUNCERTAIN);
    come_back(42);
    ck_assert_int_eq(peer.hello.session, 0);
    /* Moved elsewhere: the connection ends, the session goes on. */
    hf__zk_sync(stage.zk, "/", stage_take, &stage, 3);
    xid = peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    peer_reply(&peer, xid, 0, ZK_SESSIONMOVED);
    come_back(42);
    ck_assert_int_eq(peer.hello.session, 42);
    ck_assert_str_eq(stage.story, "rrdxUrdu");
    /* A server that has come to only read: likewise, and it proves nothing. */
    int64_t until = hf__zk_valid_until(stage.zk);
    time_of.now_ns += HF_NS_PER_MS;
    hf__zk_sync(stage.zk, "/", stage_take, &stage, 4);
    xid = peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    peer_reply(&peer, xid, 0, ZK_NOTREADONLY);
    STAGE_UNTIL(&stage, stage.downs == 3);
    ck_assert_int_eq(stage.replies[3].reply.error, ZK_NOTREADONLY);
    ck_assert_int_eq(hf__zk_valid_until(stage.zk), until);
    ck_assert_uint_eq(stage.expiries, 1);
    end();
}
END_TEST

/* ---- Watches --------------------------------------------------------------------- */

static void reply_stat(int32_t xid, int64_t zxid, bool with_data)
{
    struct peer_body body;
    body_begin(&body);
    if (with_data)
        hf__zk_jute_put_int(&body.out, 0); /* no data, or no children */
    body_stat(&body, 0);
    peer_reply_with(&peer, xid, zxid, body.bytes, body_len(&body));
}

static void watch_data(const char *path)
{
    hf__zk_get(stage.zk, path, true, stage_take, &stage, 1);
    reply_stat(peer_expect(&peer, &stage, ZK_OPCODE_GET, NULL), 5, true);
    stage_last(&stage);
}

static void watch_children(const char *path)
{
    hf__zk_children(stage.zk, path, true, stage_take, &stage, 1);
    reply_stat(peer_expect(&peer, &stage, ZK_OPCODE_CHILDREN2, NULL), 6, true);
    stage_last(&stage);
}

static void watch_absent(const char *path)
{
    hf__zk_exists(stage.zk, path, true, stage_take, &stage, 1);
    peer_reply(&peer, peer_expect(&peer, &stage, ZK_OPCODE_EXISTS, NULL), 7, ZK_NONODE);
    stage_last(&stage);
}

/* The next SetWatches, as "zxid d:paths e:paths c:paths". */
static const char *restored(void)
{
    static char text[STAGE_TEXT];
    struct jute in;
    ck_assert_int_eq(peer_expect(&peer, &stage, ZK_OPCODE_SET_WATCHES, &in),
                     ZK_XID_WATCHES);
    int len = snprintf(text, sizeof text, "%d", (int)hf__zk_jute_long(&in));

    for (int kind = 0; kind < 3; kind++) {
        size_t count = hf__zk_jute_count(&in, 4);
        for (size_t i = 0; i < count; i++) {
            struct zk_text path = hf__zk_jute_text(&in);
            len += snprintf(text + len, sizeof text - (size_t)len, " %c:%.*s",
                            "dec"[kind], (int)path.len, path.at);
        }
    }
    ck_assert(!in.bad && in.at == in.end);
    peer_reply(&peer, ZK_XID_WATCHES, 8, 0);
    return text;
}

START_TEST(watches_are_set_again)
{
    begin();
    watch_data("/d");
    watch_children("/c");
    watch_absent("/e");
    hf__zk_get(stage.zk, "/none", true, stage_take, &stage, 1); /* sets nothing */
    peer_reply(&peer, peer_expect(&peer, &stage, ZK_OPCODE_GET, NULL), 7, ZK_NONODE);
    stage_last(&stage);
    peer_accept(&peer, &stage);
    ck_assert_int_eq(peer.hello.last_zxid, 7);
    peer_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    ck_assert_str_eq(restored(), "7 d:/d");
    ck_assert_str_eq(restored(), "7 e:/e");
    ck_assert_str_eq(restored(), "7 c:/c");
    ck_assert(peer_quiet(&peer, &stage));
    ck_assert_uint_eq(stage.ups, 1);
    /* What has fired is not set again. */
    peer_event(&peer, ZK_CHANGED, "/d");
    peer_event(&peer, ZK_CHANGED, "/c"); /* not what was asked of it */
    peer_event(&peer, ZK_CREATED, "/e");
    STAGE_UNTIL(&stage, stage.event_count == 3);
    come_back(PEER_SESSION);
    ck_assert_str_eq(restored(), "8 c:/c");
    peer_event(&peer, ZK_DELETED, "/c");
    STAGE_UNTIL(&stage, stage.event_count == 4);
    come_back(PEER_SESSION);
    ck_assert(peer_quiet(&peer, &stage));
    ck_assert_uint_eq(stage.zk->watches.count, 0);
    end();
}
END_TEST

START_TEST(a_new_session_has_no_watches)
{
    begin();
    watch_data("/d");
    come_back(44);
    ck_assert(peer_quiet(&peer, &stage));
    ck_assert_uint_eq(stage.zk->watches.count, 0);
    end();
}
END_TEST

START_TEST(watches_taken_back)
{
    struct jute in;
    begin();
    watch_data("/d");
    watch_data("/d");
    hf__zk_unwatch(stage.zk, "/d"); /* the other one wants it still */
    hf__zk_unwatch(stage.zk, "/nobody");
    ck_assert(peer_quiet(&peer, &stage));
    hf__zk_unwatch(stage.zk, "/d");
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_UNWATCH, &in);
    ck_assert(text_is(hf__zk_jute_text(&in), "/d"));
    ck_assert_int_eq(hf__zk_jute_int(&in), 3);
    ck_assert(!in.bad && in.at == in.end);
    /* A new one, sent behind, lives on, though the first reply is still to come. */
    hf__zk_get(stage.zk, "/d", true, stage_take, &stage, 9);
    peer_reply(&peer, xid, 5, ZK_NOWATCHER);
    reply_stat(peer_expect(&peer, &stage, ZK_OPCODE_GET, NULL), 5, true);
    stage_last(&stage);
    come_back(PEER_SESSION);
    ck_assert_str_eq(restored(), "5 d:/d");
    end();
}
END_TEST

/* Not yet answered, and taken back; down, and taken back. */
START_TEST(watches_taken_back_in_flight)
{
    begin();
    hf__zk_get(stage.zk, "/d", true, stage_take, &stage, 1);
    hf__zk_unwatch(stage.zk, "/d");
    reply_stat(peer_expect(&peer, &stage, ZK_OPCODE_GET, NULL), 5, true);
    peer_reply(&peer, peer_expect(&peer, &stage, ZK_OPCODE_UNWATCH, NULL), 5, 0);
    stage_last(&stage);
    ck_assert_uint_eq(stage.zk->watches.count, 0);
    watch_data("/e");
    peer_hang_up(&peer);
    STAGE_UNTIL(&stage, stage.downs == 1);
    hf__zk_unwatch(stage.zk, "/e");
    come_back(PEER_SESSION);
    ck_assert(peer_quiet(&peer, &stage));
    ck_assert_uint_eq(stage.zk->watches.count, 0);
    end();
}
END_TEST

START_TEST(many_watches_are_set_in_parts)
{
    enum { COUNT = 600, LENGTH = 800 };
    static char path[LENGTH + 16];
    struct jute in;
    size_t total = 0, packets = 0;

    begin();
    memset(path, 'x', LENGTH);
    path[0] = '/';
    for (int i = 0; i < COUNT; i++) {
        snprintf(path + LENGTH, 16, "%d", i);
        hf__zk_get(stage.zk, path, true, NULL, NULL, 0);
        reply_stat(peer_expect(&peer, &stage, ZK_OPCODE_GET, NULL), 5, true);
    }
    STAGE_UNTIL(&stage, !hf__zk_ring_oldest(&stage.zk->ring));
    ck_assert_uint_eq(stage.zk->watches.count, COUNT);
    come_back(PEER_SESSION);
    while (total < COUNT) {
        peer_expect(&peer, &stage, ZK_OPCODE_SET_WATCHES, &in);
        ck_assert_uint_le((size_t)(in.end - in.at), (128 << 10) + 20);
        hf__zk_jute_long(&in);
        total += hf__zk_jute_count(&in, 4);
        packets++;
        peer_reply(&peer, ZK_XID_WATCHES, 5, 0);
    }
    ck_assert_uint_eq(total, COUNT);
    ck_assert_uint_eq(packets, 4);
    STAGE_UNTIL(&stage, !hf__zk_ring_oldest(&stage.zk->ring));
    end();
}
END_TEST

/* ---- Servers --------------------------------------------------------------------- */

/* With the one gone, the other is tried at once, with the same session. */
START_TEST(the_session_goes_on_elsewhere)
{
    char hosts[80];
    peer_begin(&peer);
    peer_begin(&other);
    snprintf(hosts, sizeof hosts, "%s,%s", peer.hosts, other.hosts);
    struct zk_settings settings = stage_settings(hosts);
    peer_will_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    peer_will_greet(&other, PEER_SESSION, PEER_SESSION_MS);
    ck_assert_int_eq(stage_open(&stage, &settings, &time_of), 0);
    struct peer *first =
        stage.zk->servers[stage.zk->server_at].port == peer.port ? &peer : &other;
    struct peer *second = first == &peer ? &other : &peer;
    peer_met(first);
    peer_deafen(first);
    peer_hang_up(first);
    for (int i = 0; i < 100 && !stage.ups; i++)
        pass(10 * HF_NS_PER_MS);
    ck_assert_uint_eq(stage.ups, 1);
    peer_met(second);
    ck_assert_int_eq(second->hello.session, PEER_SESSION);
    ck_assert_str_eq(stage.story, "du");
    peer_end(&other);
    end();
}
END_TEST

/* Between rounds there are pauses, which grow, to two seconds at most. */
START_TEST(pauses_grow)
{
    int64_t pauses[24];
    begin();
    peer_hang_up(&peer);
    STAGE_UNTIL(&stage, stage.downs == 1);
    peer_deafen(&peer);
    for (int i = 0; i < 24; i++) {
        unsigned attempts = stage.zk->attempts;
        int64_t start = time_of.now_ns;
        ck_assert_int_ge(stage.zk->retry_ns, start);
        pauses[i] = stage.zk->retry_ns - start;
        time_of.now_ns = stage.zk->retry_ns;
        STAGE_UNTIL(&stage, stage.zk->attempts == attempts + 1);
    }
    ck_assert_int_lt(pauses[0], 60 * HF_NS_PER_MS);
    ck_assert_int_le(pauses[6], WHOLE / 8); /* while the session lives */
    ck_assert_int_gt(pauses[23], 900 * HF_NS_PER_MS);
    ck_assert_int_le(pauses[23], 2 * HF_NS_PER_S);
    end();
}
END_TEST

/* A server that lets clients in and drops them is no better than one that is away. */
START_TEST(pauses_grow_where_connections_do_not_last)
{
    begin();
    for (unsigned i = 0; i < 4; i++) {
        peer_hang_up(&peer);
        STAGE_UNTIL(&stage, stage.downs == i + 1);
        ck_assert_uint_eq(stage.zk->attempts, i + 1);
        come_back(PEER_SESSION);
    }
    end();
}
END_TEST

/* ---- The end of the client ------------------------------------------------------- */

START_TEST(closing_ends_the_session)
{
    begin();
    stage_close(&stage);
    /* The client is gone: only its last words are there. */
    char bytes[64];
    ck_assert_int_eq(recv(peer.fd, bytes, sizeof bytes, MSG_WAITALL), 12);
    ck_assert_int_eq(memcmp(bytes + 8, "\xff\xff\xff\xf5", 4), 0);
    peer_end(&peer);
}
END_TEST

static void *answer_all(void *arg)
{
    struct peer *of = arg;
    char bytes[256];
    ssize_t got = recv(of->fd, bytes, sizeof bytes, 0);
    /* A sync of "/" (17 bytes) and the end (12). */
    for (ssize_t left = got; left < 29; left += got)
        got = recv(of->fd, bytes, sizeof bytes, 0);
    peer_reply(of, 1, 1, 0);
    peer_reply(of, 2, 2, 0);
    return NULL;
}

START_TEST(settling_waits_for_all_answers)
{
    pthread_t thread;
    begin();
    hf__zk_sync(stage.zk, "/", stage_take, &stage, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, answer_all, &peer), 0);
    hf__zk_mute(stage.zk);
    hf__zk_close_wait(stage.zk, time_of.now_ns + 5 * HF_NS_PER_S);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(hf__zk_session_id(stage.zk), 0);
    ck_assert_str_eq(stage.story, "");
    struct pollfd polled = { .fd = peer.listener, .events = POLLIN };
    ck_assert_int_eq(poll(&polled, 1, 50), 0); /* and does not come back */
    end();
}
END_TEST

static void *greet_and_end(void *arg)
{
    struct peer *of = arg;
    char bytes[12];
    peer_greet(of, PEER_SESSION, PEER_SESSION_MS);
    if (recv(of->fd, bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes)
        peer_reply(of, 1, 1, 0);
    return NULL;
}

/* It has said hello again, and is closed before it has heard who it is. */
START_TEST(settling_ends_a_session_that_comes_back)
{
    pthread_t thread;
    begin();
    peer_hang_up(&peer);
    STAGE_UNTIL(&stage, stage.downs == 1);
    pass(HF_NS_PER_S);
    peer_accept(&peer, &stage);
    ck_assert_int_eq(stage.zk->state, ZK_STATE_HANDSHAKE);
    ck_assert_int_eq(pthread_create(&thread, NULL, greet_and_end, &peer), 0);
    hf__zk_mute(stage.zk);
    hf__zk_close_wait(stage.zk, time_of.now_ns + 5 * HF_NS_PER_S);
    ck_assert_int_eq(hf__zk_session_id(stage.zk), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_str_eq(stage.story, "d");
    end();
}
END_TEST

static void *accept_and_end(void *arg)
{
    struct peer *of = arg;
    char hello[128];
    struct pollfd polled = { .fd = of->listener, .events = POLLIN };
    if (poll(&polled, 1, 5000) != 1)
        return NULL;
    of->fd = accept(of->listener, NULL, NULL);
    return recv(of->fd, hello, sizeof hello, 0) > 0 ? greet_and_end(of) : NULL;
}

/* The connection is lost, and it is closed before it has tried again. */
START_TEST(settling_ends_a_session_that_was_lost)
{
    pthread_t thread;
    peer_open(&peer, &stage, NULL);
    peer_hang_up(&peer);
    STAGE_UNTIL(&stage, stage.downs == 1);
    ck_assert_int_eq(stage.zk->state, ZK_STATE_WAITING);
    ck_assert_int_eq(pthread_create(&thread, NULL, accept_and_end, &peer), 0);
    hf__zk_mute(stage.zk);
    hf__zk_close_wait(stage.zk, hf__now() + 5 * HF_NS_PER_S);
    ck_assert_int_eq(hf__zk_session_id(stage.zk), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    end();
}
END_TEST

/* Without a server it gives up soon. */
START_TEST(settling_does_not_hope_for_long)
{
    peer_open(&peer, &stage, NULL);
    peer_deafen(&peer);
    peer_hang_up(&peer);
    STAGE_UNTIL(&stage, stage.downs == 1);
    int64_t since = hf__now();
    hf__zk_mute(stage.zk);
    hf__zk_close_wait(stage.zk, hf__now() + 60 * HF_NS_PER_S);
    ck_assert_int_lt(hf__now() - since, 30 * HF_NS_PER_S);
    end();
}
END_TEST

/* The socket is the parent's, too: a child says nothing on it. */
START_TEST(a_forked_child_is_silent)
{
    int status = -1;
    begin();
    pid_t child = fork();
    if (child == 0) {
        fake_close_forked(&stage.host);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(peer_quiet(&peer, &stage));
    hf__zk_sync(stage.zk, "/", stage_take, &stage, 1);
    peer_reply(&peer, peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL), 1, 0);
    ck_assert_int_eq(stage_last(&stage)->code, 0);
    end();
}
END_TEST

UNIT_MAIN("zk_session", it_ends_by_our_clock, it_ends_by_the_servers_word,
          another_session_is_a_new_one, it_ends_in_a_reply, watches_are_set_again,
          a_new_session_has_no_watches, watches_taken_back,
          watches_taken_back_in_flight, many_watches_are_set_in_parts,
          the_session_goes_on_elsewhere, pauses_grow,
          pauses_grow_where_connections_do_not_last, closing_ends_the_session,
          settling_waits_for_all_answers, settling_ends_a_session_that_comes_back,
          settling_ends_a_session_that_was_lost, settling_does_not_hope_for_long,
          a_forked_child_is_silent)
