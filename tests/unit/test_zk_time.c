/* SPDX-License-Identifier: MIT */
/*
 * How long a session is believed to live, with a played server and a clock that the
 * test moves: replies, what they prove and what they do not, and missing ones.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "zk_peer.h"

#include <poll.h>
#include <string.h>

#define WHOLE (PEER_SESSION_MS * HF_NS_PER_MS)
#define EIGHTH (WHOLE / 8)
#define LATE (WHOLE / 50)

static struct stage stage;
static struct peer peer;
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

static void come_back(int64_t session)
{
    unsigned ups = stage.ups;
    peer_accept(&peer, &stage);
    peer_greet(&peer, session, PEER_SESSION_MS);
    STAGE_UNTIL(&stage, stage.ups == ups + 1);
}

/* The next request, which has to be a sync; answered after so much time. */
static void answer_sync(int64_t after_ns, int32_t error)
{
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    time_of.now_ns += after_ns;
    peer_reply(&peer, xid, 5, error);
    STAGE_UNTIL(&stage, !hf__zk_ring_oldest(&stage.zk->ring));
}

/* A request that any server answers by itself. */
static void answer_ping(void)
{
    hf__zk_ping(stage.zk, stage_take, &stage, 1);
    peer_expect(&peer, &stage, ZK_OPCODE_PING, NULL);
    peer_reply(&peer, ZK_XID_PING, 5, 0);
    stage_last(&stage);
}

static int64_t believed(void)
{
    return hf__zk_valid_until(stage.zk) - time_of.now_ns;
}

START_TEST(syncs_keep_it_alive)
{
    begin();
    pass(EIGHTH - 1);
    ck_assert(peer_quiet(&peer, &stage));
    pass(1);
    for (int i = 0; i < 20; i++) {
        answer_sync(LATE, 0);
        ck_assert_int_ge(believed(), WHOLE - 3 * EIGHTH - LATE);
        pass(EIGHTH - LATE - 1);
        ck_assert(peer_quiet(&peer, &stage));
        pass(1);
        ck_assert_int_ge(believed(), WHOLE / 2);
    }
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

/* Who writes needs no syncs. An error of the leader's is as good as a success. */
START_TEST(writes_are_as_good_as_syncs)
{
    begin();
    for (int i = 0; i < 20; i++) {
        pass(EIGHTH - 1);
        hf__zk_delete(stage.zk, "/a", -1, stage_take, &stage, 1);
        int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_DELETE, NULL);
        peer_reply(&peer, xid, 1, i % 2 ? ZK_NONODE : ZK_OK);
        ck_assert_int_eq(stage_last(&stage)->sent_ns, time_of.now_ns);
        ck_assert_int_ge(believed(), WHOLE / 2);
        ck_assert(peer_quiet(&peer, &stage));
    }
    pass(EIGHTH - 1);
    ck_assert(peer_quiet(&peer, &stage));
    pass(1);
    peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    end();
}
END_TEST

/* The first request counts when a quarter has passed since it was answered before the
 * one that the leader answers was sent, and not a moment earlier. */
START_TEST(the_leader_must_have_asked)
{
    begin();
    int64_t until = hf__zk_valid_until(stage.zk);
    pass(EIGHTH / 2);
    int64_t sent = time_of.now_ns;
    hf__zk_ping(stage.zk, stage_take, &stage, 1);
    peer_expect(&peer, &stage, ZK_OPCODE_PING, NULL);
    time_of.now_ns += LATE;
    peer_reply(&peer, ZK_XID_PING, 5, 0);
    stage_last(&stage);
    pass(EIGHTH / 2 - LATE);
    answer_sync(0, 0);
    pass(WHOLE / 4 - EIGHTH / 2 + LATE - 1); /* and it asks by itself */
    answer_sync(0, 0);
    ck_assert_int_eq(hf__zk_valid_until(stage.zk), until);
    pass(1);
    hf__zk_sync(stage.zk, "/", stage_take, &stage, 1);
    answer_sync(LATE, 0);
    ck_assert_int_eq(hf__zk_valid_until(stage.zk), sent + WHOLE);
    end();
}
END_TEST

/* A follower without its leader answers what it can: that proves nothing, and in time
 * it is left. Nor does what it refuses by itself. */
START_TEST(a_follower_alone_proves_nothing)
{
    begin();
    int64_t until = hf__zk_valid_until(stage.zk);
    for (int i = 1; i < 18; i++) {
        pass(WHOLE / 24);
        while (!peer_quiet(&peer, &stage))
            answer_sync(0, ZK_NOAUTH);
        answer_ping();
    }
    ck_assert_uint_eq(stage.downs, 0);
    ck_assert_int_eq(hf__zk_valid_until(stage.zk), until);
    pass(until - WHOLE / 4 - time_of.now_ns);
    ck_assert_uint_eq(stage.downs, 1);
    ck_assert_int_eq(hf__zk_valid_until(stage.zk), until);
    come_back(PEER_SESSION);
    ck_assert_int_ge(believed(), WHOLE - HF_NS_PER_S);
    /* What the former server knew is not for this one's leader to have heard. */
    ck_assert_uint_eq(stage.zk->marks.first, stage.zk->marks.end);
    end();
}
END_TEST

/* Answers take longer than the pace allows: it is asked more often, and lives. */
START_TEST(a_slow_leader_is_asked_more_often)
{
    begin();
    for (int i = 0; i < 200; i++) {
        pass(WHOLE / 100);
        const struct zk_pending *oldest = hf__zk_ring_oldest(&stage.zk->ring);
        if (oldest && time_of.now_ns - oldest->sent_ns >= WHOLE / 7)
            peer_reply(&peer, peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL), 5, 0);
        stage_turn(&stage);
        ck_assert_int_gt(believed(), WHOLE / 4);
    }
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

START_TEST(three_quarters_of_silence_are_too_much)
{
    begin();
    stage.zk->settings.request_ns = WHOLE;
    pass(EIGHTH);
    peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    pass(WHOLE / 4 * 3 - EIGHTH - 1);
    ck_assert_uint_eq(stage.downs, 0);
    pass(1);
    ck_assert_uint_eq(stage.downs, 1);
    ck_assert_ptr_nonnull(strstr(stage.why.text, "in time"));
    ck_assert_uint_eq(stage.expiries, 0);
    peer_accept(&peer, &stage);
    ck_assert_int_eq(peer.hello.session, PEER_SESSION);
    peer_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    STAGE_UNTIL(&stage, stage.ups == 1);
    ck_assert_uint_eq(stage.fresh, 0);
    ck_assert_str_eq(stage.story, "du");
    end();
}
END_TEST

/* After a suspend: the answer is there, and nobody has read it. */
START_TEST(an_answer_that_is_there_counts)
{
    begin();
    pass(EIGHTH);
    answer_sync(0, 0);
    pass(WHOLE / 4);
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    peer_reply(&peer, xid, 5, 0);
    struct pollfd polled = { .fd = stage.host.watches[0].fd, .events = POLLIN };
    ck_assert_int_eq(poll(&polled, 1, 5000), 1);
    pass(WHOLE / 4 * 3 - EIGHTH - WHOLE / 4);
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

START_TEST(a_request_has_a_deadline)
{
    begin();
    stage.zk->settings.request_ns = EIGHTH;
    hf__zk_sync(stage.zk, "/", stage_take, &stage, 1);
    peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    pass(EIGHTH - 1);
    ck_assert_uint_eq(stage.downs, 0);
    pass(1);
    ck_assert_str_eq(stage.story, "rd");
    ck_assert_int_eq(stage.replies[0].code, HF_EUNCERTAIN);
    end();
}
END_TEST

/* Of many requests each reply gives the others new time; silence does not. */
START_TEST(a_reply_moves_the_deadline)
{
    begin();
    stage.zk->settings.request_ns = EIGHTH;
    for (int i = 0; i < 5; i++)
        hf__zk_sync(stage.zk, "/", stage_take, &stage, 1);
    for (unsigned i = 0; i < 4; i++) {
        int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
        pass(EIGHTH - 1);
        peer_reply(&peer, xid, 5, 0);
        STAGE_UNTIL(&stage, stage.reply_count == i + 1);
    }
    peer_event(&peer, ZK_DELETED, "/a");
    pass(EIGHTH - 1);
    STAGE_UNTIL(&stage, stage.event_count == 1);
    ck_assert_uint_eq(stage.downs, 0);
    pass(1);
    ck_assert_uint_eq(stage.downs, 1);
    ck_assert_int_eq(stage.replies[4].code, HF_EUNCERTAIN);
    end();
}
END_TEST

/* Events say nothing about the session. */
START_TEST(events_prove_nothing)
{
    begin();
    int64_t until = hf__zk_valid_until(stage.zk);
    pass(WHOLE / 2);
    peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    peer_event(&peer, ZK_DELETED, "/a");
    STAGE_UNTIL(&stage, stage.event_count == 1);
    ck_assert_int_eq(hf__zk_valid_until(stage.zk), until);
    pass(WHOLE / 4);
    ck_assert_uint_eq(stage.downs, 1);
    end();
}
END_TEST

UNIT_MAIN("zk_time", syncs_keep_it_alive, writes_are_as_good_as_syncs,
          the_leader_must_have_asked, a_follower_alone_proves_nothing,
          a_slow_leader_is_asked_more_often, three_quarters_of_silence_are_too_much,
          an_answer_that_is_there_counts, a_request_has_a_deadline,
          a_reply_moves_the_deadline, events_prove_nothing)
