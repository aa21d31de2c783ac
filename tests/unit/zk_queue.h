/* SPDX-License-Identifier: MIT */
/* A long queue of ZooKeeper's on a server that is played, and what is said in it. */
#ifndef HF_TESTS_ZK_QUEUE_H
#define HF_TESTS_ZK_QUEUE_H

#include "../../src/base/clock.h"
#include "unit.h"
#include "zk_play.h"

#include <stdio.h>
#include <string.h>

enum { LONG = 16, OTHERS_MAX = 20 };

#define NUMBER "0000000030"
#define AHEAD FOLDER "/a-lock-0000000029"
#define BEFORE FOLDER "/a-lock-0000000028"
#define WORD AHEAD "-over"

/* Time stands still but where a test lets it pass: a hold that came by a word looks at
 * its own node after 10 ms. */
static struct fake_clock watch;

static inline void begin(int kind)
{
    play_begin(kind);
    watch.now_ns = hf__now();
    stage.host.clock = &watch;
}

static inline void end(void)
{
    stage.host.clock = NULL; /* closing waits, and not for ever */
    play_end();
}

/* ---- The queue ------------------------------------------------------------------- */

/* Our node, and so many others before it: a-<form>0000000029, 28 and so on. */
static inline void list_others(int32_t xid, const char *form, const char *own_form,
                               int others)
{
    static char names[OTHERS_MAX][64];
    const char *list[OTHERS_MAX + 2] = { NULL };
    for (int i = 0; i < others; i++) {
        snprintf(names[i], sizeof names[i], "a-%s00000000%02d", form, 30 - others + i);
        list[i] = names[i];
    }
    list[others] = own(own_form, NUMBER);
    answer_list(xid, list);
}

static inline void join_behind(const char *form, const char *own_form, int others)
{
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked(own_form);
    answer_create(entry.create, own_form, NUMBER, 77);
    list_others(entry.list, form, own_form, others);
    expect(FAKE_QUEUED);
}

static inline void no_word_yet(const char *path)
{
    peer_reply(&peer, asked(ZK_OPCODE_EXISTS, path), 9, ZK_NONODE);
}

static inline void unwatched(const char *path)
{
    peer_reply(&peer, asked(ZK_OPCODE_UNWATCH, path), 9, 0);
}

/* Both are told, in the order of the transaction. */
static inline void hear_the_word(void)
{
    peer_event(&peer, ZK_CREATED, WORD);
    peer_event(&peer, ZK_DELETED, AHEAD);
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
}

static inline void expect_op(struct jute *in, int32_t opcode, const char *path)
{
    ck_assert_int_eq(jute_int(in), opcode);
    jute_bool(in);
    jute_int(in);
    struct zk_text about = jute_text(in);
    ck_assert_msg(about.len == strlen(path) && memcmp(about.at, path, about.len) == 0,
                  "%.*s, not %s", (int)about.len, about.at, path);
    if (opcode == ZK_OPCODE_CREATE) {
        ck_assert_uint_eq(jute_text(in).len, 0);
        in->at += 27; /* open to everyone */
        ck_assert_int_eq(jute_int(in), ZK_EPHEMERAL);
    } else {
        ck_assert_int_eq(jute_int(in), -1);
    }
}

/* Hands over. */
static inline int32_t word_asked(void)
{
    char word[200];
    struct jute in;
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_MULTI, &in);
    snprintf(word, sizeof word, "%s-over", own_path(NUMBER));
    expect_op(&in, ZK_OPCODE_CREATE, word);
    expect_op(&in, ZK_OPCODE_DELETE, word);
    expect_op(&in, ZK_OPCODE_DELETE, own_path(NUMBER));
    ck_assert_int_eq(jute_int(&in), -1);
    ck_assert(jute_bool(&in));
    return xid;
}

static inline void put_result(struct peer_body *body, int32_t type, int32_t error)
{
    jute_put_int(&body->out, type);
    jute_put_bool(&body->out, false);
    jute_put_int(&body->out, error);
    if (type == ZK_OPCODE_CREATE)
        jute_put_text(&body->out, "/x", 2);
    if (type == ZK_OPCODE_ERROR)
        jute_put_int(&body->out, error);
}

/* A create and `count` deletes; fails at that one of them, or at none (-1). */
static inline void answer_multi(int32_t xid, int count, int at, int32_t error)
{
    struct peer_body body;
    body_begin(&body);
    for (int i = 0; i <= count; i++) {
        if (at < 0)
            put_result(&body, i == 0 ? ZK_OPCODE_CREATE : ZK_OPCODE_DELETE, 0);
        else
            put_result(&body, ZK_OPCODE_ERROR, i < at ? 0 : i == at ? error : -2);
    }
    jute_put_int(&body.out, -1);
    jute_put_bool(&body.out, true);
    jute_put_int(&body.out, -1);
    peer_reply_with(&peer, xid, 80, body.bytes, body_len(&body));
}

/* The request that sets them again has the node among the first vector, the word among
 * the second one. */
static inline void watches_set_again(const char *data, const char *exist)
{
    struct jute in;
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_SET_WATCHES, &in);
    in.at += sizeof(int64_t);
    for (int i = 0; i < 2; i++) {
        const char *wanted = i == 0 ? data : exist;
        ck_assert_int_eq(jute_int(&in), wanted ? 1 : 0);
        struct zk_text path = wanted ? jute_text(&in) : (struct zk_text){ "", 0 };
        ck_assert(!wanted || (path.len == strlen(wanted) &&
                              memcmp(path.at, wanted, path.len) == 0));
    }
    peer_reply(&peer, xid, 9, 0);
}

#endif
