/* SPDX-License-Identifier: MIT */
/* The played queue of zk_play.h. */
#include "zk_play.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

extern const struct hf_backend hf__backend_zookeeper;

struct stage stage;
struct peer peer;
struct hf_ticket ticket;

/* ---- The stage ------------------------------------------------------------------- */

void play_begin(int kind)
{
    play_begin_with(kind, "");
}

void play_begin_with(int kind, const char *options)
{
    char url[96];
    peer_begin(&peer);
    peer_will_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    snprintf(url, sizeof url, "zookeeper://%s/%s", peer.hosts, options);
    ck_assert_int_eq(fake_open(&stage.host, &hf__backend_zookeeper, url, NULL), 0);
    peer_met(&peer);
    ticket = fake_ticket("jobs", kind);
    ticket.ttl_ns = INT64_C(10000000000);
}

/* The server goes first: the store would wait for its last answer. */
void play_end(void)
{
    peer_end(&peer);
    fake_close(&stage.host);
}

void leave(void)
{
    stage.host.calls++;
    stage.host.store->withdraw(stage.host.session, &ticket);
    stage.host.calls--;
}

void expect_left(enum hf_withdrawal wanted)
{
    struct fake_answer answer = fake_next(&stage.host);
    ck_assert_int_eq(answer.what, FAKE_WITHDRAWN);
    ck_assert_int_eq(answer.code, wanted);
}

void expect_failed(int code)
{
    struct fake_answer answer = fake_next(&stage.host);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, code);
}

void expect(enum fake_what what)
{
    struct fake_answer answer = fake_next(&stage.host);
    ck_assert_msg(answer.what == what, "%d: %d %s", answer.what, answer.code,
                  answer.why.text);
}

/* ---- What is asked --------------------------------------------------------------- */

const char *own(const char *form, const char *number)
{
    static char name[128];
    const unsigned char *id = (const unsigned char *)&ticket.id;
    snprintf(name, sizeof name,
             "_c_%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x-"
             "%s%s",
             id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9],
             id[10], id[11], id[12], id[13], id[14], id[15], form, number);
    return name;
}

const char *own_path(const char *number)
{
    static char path[160];
    snprintf(path, sizeof path, FOLDER "/%s", own("lock-", number));
    return path;
}

int32_t asked(enum zk_opcode opcode, const char *path)
{
    struct jute in;
    int32_t xid = peer_expect(&peer, &stage, opcode, &in);
    struct zk_text about = hf__zk_jute_text(&in);
    ck_assert_msg(about.len == strlen(path) && memcmp(about.at, path, about.len) == 0,
                  "%.*s, not %s", (int)about.len, about.at, path);
    return xid;
}

struct entry entry_asked(const char *form)
{
    char path[160];
    snprintf(path, sizeof path, FOLDER "/%s", own(form, ""));
    struct entry entry = { .create = asked(ZK_OPCODE_CREATE2, path) };
    entry.list = asked(ZK_OPCODE_CHILDREN2, FOLDER);
    return entry;
}

/* ---- What is answered ------------------------------------------------------------ */

static void put_stat(struct peer_body *body, int64_t czxid, int64_t owner)
{
    hf__zk_jute_put_long(&body->out, czxid);
    for (int i = 0; i < 3; i++)
        hf__zk_jute_put_long(&body->out, czxid);
    for (int i = 0; i < 3; i++)
        hf__zk_jute_put_int(&body->out, 0);
    hf__zk_jute_put_long(&body->out, owner);
    hf__zk_jute_put_int(&body->out, 0);
    hf__zk_jute_put_int(&body->out, 0);
    hf__zk_jute_put_long(&body->out, czxid);
}

void answer_create(int32_t xid, const char *form, const char *number, int64_t czxid)
{
    char path[160];
    snprintf(path, sizeof path, FOLDER "/%s", own(form, number));
    answer_made(xid, path, czxid);
}

void answer_made(int32_t xid, const char *path, int64_t czxid)
{
    struct peer_body body;
    body_begin(&body);
    hf__zk_jute_put_text(&body.out, path, strlen(path));
    put_stat(&body, czxid, PEER_SESSION);
    peer_reply_with(&peer, xid, czxid, body.bytes, body_len(&body));
}

void answer_list(int32_t xid, const char *const *names)
{
    struct peer_body body;
    int32_t count = 0;
    while (names[count])
        count++;
    body_begin(&body);
    hf__zk_jute_put_int(&body.out, count);
    for (int32_t i = 0; i < count; i++)
        hf__zk_jute_put_text(&body.out, names[i], strlen(names[i]));
    put_stat(&body, 1, 0);
    peer_reply_with(&peer, xid, 9, body.bytes, body_len(&body));
}

void answer_stat(int32_t xid, int64_t czxid, int64_t owner)
{
    struct peer_body body;
    body_begin(&body);
    put_stat(&body, czxid, owner);
    peer_reply_with(&peer, xid, 9, body.bytes, body_len(&body));
}

void answer_data(int32_t xid, const char *data, int64_t mzxid)
{
    struct peer_body body;
    body_begin(&body);
    hf__zk_jute_put_text(&body.out, data, strlen(data));
    put_stat(&body, mzxid, PEER_SESSION);
    peer_reply_with(&peer, xid, 9, body.bytes, body_len(&body));
}

void answer_sync(int32_t xid)
{
    struct peer_body body;
    body_begin(&body);
    hf__zk_jute_put_text(&body.out, FOLDER, strlen(FOLDER));
    peer_reply_with(&peer, xid, 9, body.bytes, body_len(&body));
}

void come_back(int64_t session)
{
    peer_accept(&peer, &stage);
    peer_greet(&peer, session, PEER_SESSION_MS);
}

/* ---- Usual ways ------------------------------------------------------------------ */

void hold_it(void)
{
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, own("lock-", "0000000004"));
    ck_assert_uint_eq(fake_expect_grant(&stage.host, &ticket), 77);
}

void wait_for_it(void)
{
    fake_attempt(&stage.host, &ticket);
    struct entry entry = entry_asked("lock-");
    answer_create(entry.create, "lock-", "0000000004", 77);
    LIST(entry.list, own("lock-", "0000000004"), "a-lock-0000000003");
    expect(FAKE_QUEUED);
    answer_data(asked(ZK_OPCODE_GET, FOLDER "/a-lock-0000000003"), "", 5);
}
