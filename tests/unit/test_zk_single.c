/* SPDX-License-Identifier: MIT */
/*
 * layout=single against a server that is played: all holders use one path, so a client
 * may delete it only while the node there is known to be its own.
 */
#include "unit.h"

#include "zk_play.h"

enum { OURS = 77, OTHERS = 79 }; /* czxids */

static void single_hold(void)
{
    play_begin_with(HF_MUTEX, "?layout=single");
    fake_attempt(&stage.host, &ticket);
    answer_made(asked(ZK_OPCODE_CREATE2, FOLDER), FOLDER, OURS);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), OURS);
}

/* A delete goes out, and its answer gets lost. */
static void delete_unanswered(void)
{
    leave();
    asked(ZK_OPCODE_DELETE, FOLDER);
    peer_hang_up(&peer);
    expect_left(HF_WITHDRAWAL_UNKNOWN);
    come_back(PEER_SESSION);
    answer_sync(asked(ZK_OPCODE_SYNC, FOLDER));
}

START_TEST(a_release_deletes_the_node)
{
    single_hold();
    leave();
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, FOLDER), 78, 0);
    expect_left(HF_WITHDRAWN);
    ck_assert(peer_quiet(&peer, &stage));
    play_end();
}
END_TEST

START_TEST(an_unanswered_delete_spares_the_next_holder)
{
    single_hold();
    delete_unanswered();
    answer_data(asked(ZK_OPCODE_GET, FOLDER), "", OTHERS);
    expect_left(HF_WITHDRAWN); /* the first delete did it */
    peer_reply(&peer, asked(ZK_OPCODE_UNWATCH, FOLDER), 80, 0);
    ck_assert(peer_quiet(&peer, &stage)); /* and nothing more is deleted */
    play_end();
}
END_TEST

START_TEST(an_unanswered_delete_is_found_done)
{
    single_hold();
    delete_unanswered();
    peer_reply(&peer, asked(ZK_OPCODE_GET, FOLDER), 80, ZK_NONODE);
    expect_left(HF_WITHDRAWN);
    ck_assert(peer_quiet(&peer, &stage));
    play_end();
}
END_TEST

/* A revocation has overwritten the data: the transaction tells whose the node is. */
START_TEST(an_unanswered_delete_is_repeated_for_our_node)
{
    single_hold();
    delete_unanswered();
    answer_data(asked(ZK_OPCODE_GET, FOLDER), "__REVOKE__", OURS);
    peer_reply(&peer, asked(ZK_OPCODE_UNWATCH, FOLDER), 80, 0);
    peer_reply(&peer, asked(ZK_OPCODE_DELETE, FOLDER), 80, 0);
    expect_left(HF_WITHDRAWN);
    play_end();
}
END_TEST

static void verify_begin(void)
{
    struct hf_ticket *tickets[] = { &ticket };
    stage.host.calls++;
    stage.host.store->renew(stage.host.session, tickets, 1, HF_CHECK);
    stage.host.calls--;
    answer_sync(asked(ZK_OPCODE_SYNC, "/"));
}

/* The same session may have the next holder: another ticket of this client. */
START_TEST(another_node_of_our_session_is_no_proof)
{
    single_hold();
    verify_begin();
    answer_stat(asked(ZK_OPCODE_EXISTS, FOLDER), OTHERS, PEER_SESSION);
    expect(FAKE_EVENT);
    expect(FAKE_RENEWED);
    leave();
    expect_left(HF_GONE);
    ck_assert(peer_quiet(&peer, &stage)); /* its node stays */
    play_end();
}
END_TEST

START_TEST(a_node_that_is_gone_is_not_deleted)
{
    single_hold();
    verify_begin();
    peer_reply(&peer, asked(ZK_OPCODE_EXISTS, FOLDER), 80, ZK_NONODE);
    expect(FAKE_EVENT);
    expect(FAKE_RENEWED);
    leave();
    expect_left(HF_GONE);
    ck_assert(peer_quiet(&peer, &stage));
    play_end();
}
END_TEST

UNIT_MAIN("zk_single", a_release_deletes_the_node,
          an_unanswered_delete_spares_the_next_holder,
          an_unanswered_delete_is_found_done,
          an_unanswered_delete_is_repeated_for_our_node,
          another_node_of_our_session_is_no_proof, a_node_that_is_gone_is_not_deleted)
