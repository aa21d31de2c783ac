/* SPDX-License-Identifier: MIT */
/*
 * The ZooKeeper client against a played server: what it sends, byte by byte, and what
 * it does with replies in pieces, malformed or false replies, and missing ones.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "zk_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct stage stage;
static struct peer peer, other;

static void end(void)
{
    stage_close(&stage);
    peer_end(&peer);
}

static bool text_is(struct zk_text text, const char *wanted)
{
    return text.len == strlen(wanted) && memcmp(text.at, wanted, text.len) == 0;
}

/* ---- Greetings ------------------------------------------------------------------- */

START_TEST(a_new_session_is_asked_for)
{
    peer_open(&peer, &stage, NULL);
    ck_assert_int_eq(peer.hello.session, 0);
    ck_assert_int_eq(peer.hello.last_zxid, 0);
    ck_assert_int_eq(peer.hello.timeout_ms, 10000);
    ck_assert(!peer.hello.read_only);
    ck_assert(hf__zk_is_up(stage.zk));
    ck_assert_int_eq(hf__zk_session_id(stage.zk), PEER_SESSION);
    ck_assert_int_eq(hf__zk_session_ns(stage.zk), PEER_SESSION_MS * HF_NS_PER_MS);
    ck_assert_int_le(hf__zk_valid_until(stage.zk),
                     hf__now() + hf__zk_session_ns(stage.zk));
    ck_assert_int_gt(hf__zk_valid_until(stage.zk), hf__now());
    ck_assert_uint_eq(stage.ups, 0);
    end();
}
END_TEST

static int open_once(int64_t connect_ns, const void *bytes, size_t len)
{
    peer_begin(&peer);
    peer_will_say(&peer, bytes, len);
    struct zk_settings settings = stage_settings(peer.hosts);
    settings.stream.connect_ns = connect_ns;
    return stage_open(&stage, &settings, NULL);
}

static void open_to(int code, const char *words, const void *bytes, size_t len)
{
    bool hopeless = strcmp(words, "does not speak") == 0;
    bool late = strcmp(words, "in time") == 0;
    /* Where it tries on until its time is over, that is short. */
    int64_t limit = code < 0 && !hopeless ? HF_NS_PER_S : 5 * HF_NS_PER_S;
    int rc = open_once(limit, bytes, len);
    for (int i = 0; !late && rc < 0 && strstr(stage.why.text, "in time") && i < 3;
         i++) {
        peer_end(&peer); /* the machine is busy */
        rc = open_once(limit *= 4, bytes, len);
    }
    ck_assert_msg(rc == code, "%d: %s", rc, stage.why.text);
    if (rc < 0)
        ck_assert_msg(strstr(stage.why.text, words) != NULL, "%s", stage.why.text);
    if (rc == 0)
        stage_close(&stage);
    peer_end(&peer);
}

#define GREETING "\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\7\0\0\0\4pass"
#define OPEN_TO(code, words, text) open_to(code, words, text, sizeof text - 1)

START_TEST(greetings)
{
    size_t live = hf__mem_live();

    OPEN_TO(0, "", "\0\0\0\x18" GREETING);
    OPEN_TO(0, "", "\0\0\0\x19" GREETING "\0");
    OPEN_TO(0, "", "\0\0\0\x1d" GREETING "\0abcd");
    OPEN_TO(HF_EUNREACHABLE, "does not speak", /* a password of 65 bytes */
            "\0\0\0\x55\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\7\0\0\0\x41"
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0");
    OPEN_TO(HF_EUNREACHABLE, "is read-only", "\0\0\0\x19" GREETING "\1");
    OPEN_TO(HF_EUNREACHABLE, "does not speak", "\0\0\0\x17" GREETING);
    OPEN_TO(HF_EUNREACHABLE, "does not speak", "HTTP/1.1 400 Bad Request\r\n");
    OPEN_TO(HF_EUNREACHABLE, "does not speak", "\xff\xff\xff\xff");
    OPEN_TO(HF_EUNREACHABLE, "does not speak", "\0\0\0\0");
    OPEN_TO(HF_EUNREACHABLE, "does not speak",
            "\0\0\0\x14"
            "\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\7\x7f\xff\xff\xff");
    OPEN_TO(HF_EUNREACHABLE, "grants no session",
            "\0\0\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\7\0\0\0\0");
    OPEN_TO(0, "", /* a session of 24 days, with the last number there is */
            "\0\0\0\x18\0\0\0\0\x7f\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\4"
            "pass");
    OPEN_TO(HF_EUNREACHABLE, "grants no session",
            "\0\0\0\x14\0\0\0\0\x80\0\0\0\x80\0\0\0\0\0\0\0\0\0\0\0");
    OPEN_TO(HF_EUNREACHABLE, "closed the connection", "");
    OPEN_TO(HF_EUNREACHABLE, "in time", "\0\0\0\x18");
    ck_assert_uint_eq(hf__mem_live(), live);
}
END_TEST

/* A port that is bound, and on which no server listens. */
static int deaf_port(unsigned *ret_port)
{
    struct sockaddr_in name = { .sin_family = AF_INET };
    socklen_t len = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, len), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    *ret_port = ntohs(name.sin_port);
    return fd;
}

START_TEST(no_server_listens)
{
    char hosts[80];
    unsigned ports[2];
    int fds[] = { deaf_port(&ports[0]), deaf_port(&ports[1]) };
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u,127.0.0.1:%u", ports[0], ports[1]);
    struct zk_settings settings = stage_settings(hosts);
    int64_t start = hf__now();
    ck_assert_int_eq(stage_open(&stage, &settings, NULL), HF_EUNREACHABLE);
    ck_assert_int_lt(hf__now() - start, 60 * HF_NS_PER_S);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(lists_of_servers_are_checked)
{
    static const char *const bad[] = { "",     ",",    "a,", ",a", "a:,b",  "a:0",
                                       "a:1x", "[::1", "[]", "a:", "[::1]x" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct zk_settings settings = stage_settings(bad[i]);
        int rc = stage_open(&stage, &settings, NULL);
        ck_assert_msg(rc == HF_EURL, "%s: %d %s", bad[i], rc, stage.why.text);
    }
    struct zk_settings settings = stage_settings("a");
    settings.chroot = "a";
    ck_assert_int_eq(stage_open(&stage, &settings, NULL), HF_EURL);
    settings.chroot = "/a//b";
    ck_assert_int_eq(stage_open(&stage, &settings, NULL), HF_EURL);
}
END_TEST

/* Both are tried, in any order; the client leaves the read-only one. */
START_TEST(the_next_server_is_tried)
{
    char hosts[80];
    peer_begin(&peer);
    peer_begin(&other);
    peer_will_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    peer_will_say(&other, "\0\0\0\x19" GREETING "\1", 4 + 25);
    snprintf(hosts, sizeof hosts, "%s,%s", peer.hosts, other.hosts);
    struct zk_settings settings = stage_settings(hosts);
    ck_assert_int_eq(stage_open(&stage, &settings, NULL), 0);
    peer_met(&peer);
    ck_assert_int_eq(hf__zk_session_id(stage.zk), PEER_SESSION);
    ck_assert_int_eq(peer.hello.session, 0);
    peer_end(&other);
    end();
}
END_TEST

START_TEST(passwords)
{
    struct jute in;
    peer_begin(&peer);
    peer.will_check = true;
    peer_will_greet(&peer, 7, 4096);
    struct zk_settings settings = stage_settings(peer.hosts);
    settings.auth = "user:secret";
    ck_assert_int_eq(stage_open(&stage, &settings, NULL), 0);
    peer_met(&peer);
    ck_assert_int_eq(peer_expect(&peer, &stage, ZK_OPCODE_AUTH, &in), ZK_XID_AUTH);
    ck_assert_int_eq(hf__zk_jute_int(&in), 0);
    ck_assert(text_is(hf__zk_jute_text(&in), "digest"));
    ck_assert(text_is(hf__zk_jute_text(&in), "user:secret"));
    ck_assert(!in.bad && in.at == in.end);
    /* And again on the next connection. */
    peer_accept(&peer, &stage);
    peer_greet(&peer, 7, 4096);
    ck_assert_int_eq(peer_expect(&peer, &stage, ZK_OPCODE_AUTH, NULL), ZK_XID_AUTH);
    ck_assert_uint_eq(stage.ups, 0);
    peer_reply(&peer, ZK_XID_AUTH, 0, 0);
    STAGE_UNTIL(&stage, stage.ups == 1);
    end();
}
END_TEST

START_TEST(a_wrong_password_is_refused)
{
    peer_begin(&peer);
    peer.will_check = true;
    peer.verdict = ZK_AUTHFAILED;
    peer_will_greet(&peer, 7, 4096);
    struct zk_settings settings = stage_settings(peer.hosts);
    settings.auth = "user:secret";
    ck_assert_int_eq(stage_open(&stage, &settings, NULL), HF_EREFUSED);
    ck_assert_ptr_nonnull(strstr(stage.why.text, "password"));
    ck_assert_ptr_null(strstr(stage.why.text, "secret"));
    peer_end(&peer);
}
END_TEST

/* ---- Calls ----------------------------------------------------------------------- */

START_TEST(a_flight_is_one_write)
{
    struct jute in;
    struct peer_body body;
    peer_open(&peer, &stage, NULL);
    hf__zk_gather(stage.zk);
    hf__zk_create(stage.zk, "/l/x-", "d", 1, ZK_EPHEMERAL_SEQUENTIAL, stage_take,
                  &stage, 1);
    hf__zk_children(stage.zk, "/l", false, stage_take, &stage, 2);
    ck_assert(peer_quiet(&peer, &stage));
    hf__zk_flush(stage.zk);

    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_CREATE2, &in);
    ck_assert_int_eq(xid, 1);
    ck_assert(text_is(hf__zk_jute_text(&in), "/l/x-"));
    ck_assert(text_is(hf__zk_jute_text(&in), "d"));
    ck_assert_int_eq(hf__zk_jute_int(&in), 1);
    ck_assert_int_eq(hf__zk_jute_int(&in), 31);
    ck_assert(text_is(hf__zk_jute_text(&in), "world"));
    ck_assert(text_is(hf__zk_jute_text(&in), "anyone"));
    ck_assert_int_eq(hf__zk_jute_int(&in), 3);
    ck_assert(!in.bad && in.at == in.end);
    ck_assert_uint_lt(peer.taken, peer.heard_len); /* both in one read */
    ck_assert_int_eq(peer_expect(&peer, &stage, ZK_OPCODE_CHILDREN2, &in), 2);
    ck_assert(text_is(hf__zk_jute_text(&in), "/l"));
    ck_assert(!hf__zk_jute_bool(&in) && !in.bad && in.at == in.end);

    body_begin(&body);
    hf__zk_jute_put_text(&body.out, "/l/x-0000000003", 15);
    body_stat(&body, PEER_SESSION);
    peer_reply_with(&peer, 1, 77, body.bytes, body_len(&body));
    body_begin(&body);
    hf__zk_jute_put_int(&body.out, 1);
    hf__zk_jute_put_text(&body.out, "x-0000000003", 12);
    body_stat(&body, 0);
    peer_reply_with(&peer, 2, 77, body.bytes, body_len(&body));
    const struct stage_reply *reply = stage_last(&stage);
    ck_assert_uint_eq(stage.reply_count, 2);
    ck_assert_str_eq(reply->text, "x-0000000003");
    ck_assert_str_eq(reply[-1].text, "/l/x-0000000003");
    ck_assert_int_eq(reply[-1].reply.zxid, 77);
    ck_assert_int_eq(reply[-1].reply.stat.ephemeral_owner, PEER_SESSION);
    ck_assert_int_eq(reply[-1].reply.stat.aversion, 2);
    end();
}
END_TEST

START_TEST(replies_come_in_pieces)
{
    static const char reply[] = "\0\0\0\x10\0\0\0\1\0\0\0\0\0\0\0\5\xff\xff\xff\x9b"
                                "\0\0\0\x10\0\0\0\2\0\0\0\0\0\0\0\6\0\0\0\0";
    peer_open(&peer, &stage, NULL);
    hf__zk_delete(stage.zk, "/a", 3, stage_take, &stage, 10);
    hf__zk_delete(stage.zk, "/a", -1, stage_take, &stage, 11);
    peer_expect(&peer, &stage, ZK_OPCODE_DELETE, NULL);
    peer_expect(&peer, &stage, ZK_OPCODE_DELETE, NULL);
    for (size_t i = 0; i + 1 < sizeof reply - 1; i++) {
        peer_say(&peer, reply + i, 1);
        stage_turn(&stage);
        ck_assert_uint_eq(stage.reply_count, i >= 19);
    }
    peer_say(&peer, reply + sizeof reply - 2, 1);
    const struct stage_reply *last = stage_last(&stage);
    ck_assert_uint_eq(stage.reply_count, 2);
    ck_assert_uint_eq(last[-1].word, 10);
    ck_assert_int_eq(last[-1].reply.error, ZK_NONODE);
    ck_assert_int_eq(last->reply.error, ZK_OK);
    ck_assert_ptr_eq(last->subject, &stage);
    end();
}
END_TEST

START_TEST(calls_made_in_answers_share_a_write)
{
    peer_open(&peer, &stage, NULL);
    for (uint64_t i = 0; i < 3; i++)
        hf__zk_sync(stage.zk, "/", stage_take, &stage, i);
    for (int i = 0; i < 3; i++)
        peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    hf__zk_forget(stage.zk, &stage);
    hf__zk_ping(stage.zk, stage_take, &peer, 4);
    peer_expect(&peer, &stage, ZK_OPCODE_PING, NULL);
    for (int32_t i = 1; i <= 3; i++)
        peer_reply(&peer, i, 1, 0);
    peer_reply(&peer, ZK_XID_PING, 1, 0);
    stage_last(&stage);
    ck_assert_uint_eq(stage.reply_count, 1); /* the others were forgotten */
    ck_assert_ptr_eq(stage.replies[0].subject, &peer);
    end();
}
END_TEST

START_TEST(requests_of_all_kinds)
{
    struct jute in;
    const struct zk_op ops[] = {
        { .what = ZK_OP_CREATE,
          .path = "/a",
          .data = "x",
          .len = 1,
          .mode = ZK_CONTAINER },
        { .what = ZK_OP_DELETE, .path = "/b", .version = 5 },
        { .what = ZK_OP_SET, .path = "/c", .data = "yy", .len = 2, .version = 6 },
        { .what = ZK_OP_CHECK, .path = "/d", .version = 7 },
    };
    peer_begin(&peer);
    peer_will_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    struct zk_settings settings = stage_settings(peer.hosts);
    settings.chroot = "/in/here/";
    ck_assert_int_eq(stage_open(&stage, &settings, NULL), 0);
    peer_met(&peer);

    hf__zk_set(stage.zk, "/s", "data", 4, 9, stage_take, &stage, 1);
    peer_expect(&peer, &stage, ZK_OPCODE_SET, &in);
    ck_assert(text_is(hf__zk_jute_text(&in), "/in/here/s"));
    ck_assert(text_is(hf__zk_jute_text(&in), "data"));
    ck_assert_int_eq(hf__zk_jute_int(&in), 9);
    ck_assert(!in.bad && in.at == in.end);
    hf__zk_exists(stage.zk, "/", true, stage_take, &stage, 1);
    peer_expect(&peer, &stage, ZK_OPCODE_EXISTS, &in);
    ck_assert(text_is(hf__zk_jute_text(&in), "/in/here"));
    ck_assert(hf__zk_jute_bool(&in) && in.at == in.end);
    hf__zk_multi(stage.zk, ops, 4, stage_take, &stage, 1);
    peer_expect(&peer, &stage, ZK_OPCODE_MULTI, &in);
    static const int32_t types[] = { ZK_OPCODE_CONTAINER, ZK_OPCODE_DELETE,
                                     ZK_OPCODE_SET, ZK_OPCODE_CHECK };
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(hf__zk_jute_int(&in), types[i]);
        ck_assert(!hf__zk_jute_bool(&in));
        ck_assert_int_eq(hf__zk_jute_int(&in), -1);
        struct zk_text path = hf__zk_jute_text(&in);
        ck_assert(path.len == 10 && path.at[9] == "abcd"[i]);
        if (i == 0 || i == 2)
            ck_assert_uint_eq(hf__zk_jute_text(&in).len, ops[i].len);
        if (i == 0)
            in.at += 27;
        ck_assert_int_eq(hf__zk_jute_int(&in), i == 0 ? 4 : ops[i].version);
    }
    ck_assert_int_eq(hf__zk_jute_int(&in), -1);
    ck_assert(hf__zk_jute_bool(&in));
    ck_assert_int_eq(hf__zk_jute_int(&in), -1);
    ck_assert(!in.bad && in.at == in.end);
    hf__zk_make_folder(stage.zk, "/q/r", stage_take, &stage, 1);
    static const char *const made[] = { "/in", "/in/here", "/in/here/q",
                                        "/in/here/q/r" };
    for (int i = 0; i < 4; i++) {
        peer_expect(&peer, &stage, ZK_OPCODE_CONTAINER, &in);
        ck_assert(text_is(hf__zk_jute_text(&in), made[i]));
    }
    ck_assert(peer_quiet(&peer, &stage));
    end();
}
END_TEST

/* Persistent where they are to be kept. What is made of the chroot lies outside of it,
 * and is no lie of the server's. */
START_TEST(folders_may_be_kept)
{
    static const char *const made[] = { "/in", "/in/here", "/in/here/q" };
    struct jute in;
    peer_begin(&peer);
    peer_will_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    struct zk_settings settings = stage_settings(peer.hosts);
    settings.chroot = "/in/here";
    settings.keep_folders = true;
    ck_assert_int_eq(stage_open(&stage, &settings, NULL), 0);
    peer_met(&peer);
    hf__zk_make_folder(stage.zk, "/q", stage_take, &stage, 1);
    for (int i = 0; i < 3; i++) {
        struct peer_body body;
        int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_CREATE2, &in);
        ck_assert(text_is(hf__zk_jute_text(&in), made[i]));
        body_begin(&body);
        hf__zk_jute_put_text(&body.out, made[i], strlen(made[i]));
        body_stat(&body, 0);
        peer_reply_with(&peer, xid, 10 + i, body.bytes, body_len(&body));
    }
    ck_assert_str_eq(stage_last(&stage)->text, "/q");
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

START_TEST(what_is_too_large_is_not_sent)
{
    static char data[1 << 20];
    peer_open(&peer, &stage, NULL);
    ck_assert_int_eq(hf__zk_create(stage.zk, "/a", data, sizeof data, ZK_PERSISTENT,
                                   stage_take, &stage, 1),
                     HF_EINVAL);
    ck_assert_uint_eq(stage.reply_count, 0);
    ck_assert(peer_quiet(&peer, &stage));
    ck_assert(hf__zk_is_up(stage.zk));
    end();
}
END_TEST

/* ---- Loss ------------------------------------------------------------------------ */

/* The peer says something instead of the reply that is due; the calls are uncertain,
 * the client is down and comes back. */
static void say_instead(const void *bytes, size_t len, const char *words)
{
    unsigned downs = stage.downs, replies = stage.reply_count, ups = stage.ups;

    hf__zk_children(stage.zk, "/a", true, stage_take, &stage, 1);
    hf__zk_multi(stage.zk, &(struct zk_op){ .what = ZK_OP_CHECK, .path = "/" }, 1,
                 stage_take, &stage, 2);
    peer_expect(&peer, &stage, ZK_OPCODE_CHILDREN2, NULL);
    peer_expect(&peer, &stage, ZK_OPCODE_MULTI, NULL);
    peer_say(&peer, bytes, len);
    STAGE_UNTIL(&stage, stage.downs == downs + 1);
    ck_assert_msg(strstr(stage.why.text, words) != NULL, "%s", stage.why.text);
    ck_assert_uint_eq(stage.reply_count, replies + 2);
    ck_assert_int_eq(stage.replies[replies].code, HF_EUNCERTAIN);
    ck_assert_int_eq(stage.replies[replies + 1].code, HF_EUNCERTAIN);
    ck_assert_int_eq(hf__zk_sync(stage.zk, "/", stage_take, &stage, 3),
                     HF_EUNREACHABLE);
    ck_assert_uint_eq(stage.reply_count, replies + 2);
    peer_accept(&peer, &stage);
    ck_assert_int_eq(peer.hello.session, PEER_SESSION);
    ck_assert_str_eq(peer.hello.password, "0123456789abcdef");
    peer_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    STAGE_UNTIL(&stage, stage.ups == ups + 1);
    ck_assert_uint_eq(stage.expiries + stage.fresh, 0);
    stage.zk->xid = 0;
    stage.zk->attempts = 0; /* or the pauses would grow */
}

#define HEADER(xid) xid "\0\0\0\0\0\0\0\5\0\0\0\0"
#define SAY_INSTEAD(text, words) say_instead(text, sizeof text - 1, words)

START_TEST(malformed_replies_end_the_connection)
{
    peer_open(&peer, &stage, NULL);
    SAY_INSTEAD("\0\0\0\x10" HEADER("\0\0\0\2"), "to no request"); /* another's xid */
    SAY_INSTEAD("\0\0\0\x10" HEADER("\0\0\0\0"), "to no request");
    SAY_INSTEAD("\0\0\0\x10" HEADER("\xff\xff\xff\xfe"), "to no request");
    SAY_INSTEAD("\0\0\0\x10" HEADER("\xff\xff\xff\xf8"), "to no request");
    SAY_INSTEAD("\0\0\0\x0f" HEADER("\0\0\0\1"), "malformed reply");
    SAY_INSTEAD("\0\0\0\0", "malformed reply");
    SAY_INSTEAD("\x7f\0\0\0", "does not speak");
    SAY_INSTEAD("\0\0\0\x10" HEADER("\0\0\0\1"), "malformed reply"); /* no body */
    SAY_INSTEAD("\0\0\0\x18" HEADER("\0\0\0\1") "\x7f\xff\xff\xff....",
                "malformed reply");
    SAY_INSTEAD("\0\0\0\x18" HEADER("\0\0\0\1") "\xff\xff\xff\xfe....",
                "malformed reply");
    SAY_INSTEAD("\0\0\0\x18" HEADER("\0\0\0\1") "\0\0\0\1\x7f\0\0\0",
                "malformed reply");
    SAY_INSTEAD("\0\0\0\x10" HEADER("\xff\xff\xff\xff"), "malformed event");
    SAY_INSTEAD("\0\0\0\x1c" HEADER("\xff\xff\xff\xff") "\0\0\0\1\0\0\0\3\0\0\0\5",
                "malformed event");
    end();
}
END_TEST

/* Fewer results than operations; a path that is not below the chroot. */
START_TEST(replies_that_contradict_the_request)
{
    static const char none[] = "\0\0\0\x19" HEADER("\0\0\0\1") "\xff\xff\xff\xff\1"
                                                               "\xff\xff\xff\xff";
    struct peer_body body;
    peer_begin(&peer);
    peer_will_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    struct zk_settings settings = stage_settings(peer.hosts);
    settings.chroot = "/in";
    ck_assert_int_eq(stage_open(&stage, &settings, NULL), 0);
    peer_met(&peer);
    hf__zk_multi(stage.zk, &(struct zk_op){ .what = ZK_OP_CHECK, .path = "/" }, 1,
                 stage_take, &stage, 1);
    peer_expect(&peer, &stage, ZK_OPCODE_MULTI, NULL);
    peer_say(&peer, none, sizeof none - 1);
    STAGE_UNTIL(&stage, stage.downs == 1);
    ck_assert_int_eq(stage.replies[0].code, HF_EUNCERTAIN);
    peer_accept(&peer, &stage);
    peer_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    STAGE_UNTIL(&stage, stage.ups == 1);
    hf__zk_create(stage.zk, "/a", "", 0, ZK_PERSISTENT, stage_take, &stage, 1);
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_CREATE2, NULL);
    body_begin(&body);
    hf__zk_jute_put_text(&body.out, "/inn/a", 6);
    body_stat(&body, 0);
    peer_reply_with(&peer, xid, 3, body.bytes, body_len(&body));
    STAGE_UNTIL(&stage, stage.downs == 2);
    ck_assert_int_eq(stage.replies[1].code, HF_EUNCERTAIN);
    end();
}
END_TEST

START_TEST(events)
{
    peer_begin(&peer);
    peer_will_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
    struct zk_settings settings = stage_settings(peer.hosts);
    settings.chroot = "/in";
    ck_assert_int_eq(stage_open(&stage, &settings, NULL), 0);
    peer_met(&peer);
    peer_event(&peer, -1, "");      /* of the connection */
    peer_event(&peer, 5, "/in/a");  /* a watch was removed */
    peer_event(&peer, 99, "/in/a"); /* not known yet */
    peer_event(&peer, 0, "/in/a");
    peer_event(&peer, 2, "/inn/a"); /* not ours */
    peer_event(&peer, 2, "/in/a/b");
    peer_event(&peer, 4, "/in");
    STAGE_UNTIL(&stage, stage.event_count == 2);
    ck_assert_str_eq(stage.events[0], "2 /a/b");
    ck_assert_str_eq(stage.events[1], "4 /");
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

START_TEST(the_server_goes_away)
{
    peer_open(&peer, &stage, NULL);
    hf__zk_sync(stage.zk, "/", stage_take, &stage, 1);
    peer_expect(&peer, &stage, ZK_OPCODE_SYNC, NULL);
    peer_hang_up(&peer);
    STAGE_UNTIL(&stage, stage.downs == 1);
    ck_assert_int_eq(stage.replies[0].code, HF_EUNCERTAIN);
    ck_assert_str_eq(stage.story, "rd");
    end();
}
END_TEST

/* ---- Memory ---------------------------------------------------------------------- */

/* One round of what a lock does: create and list, watch, event, delete. */
static void one_round(void)
{
    struct peer_body body;
    struct jute in;

    hf__zk_get(stage.zk, "/l/before", true, stage_take, &stage, 1);
    int32_t xid = peer_expect(&peer, &stage, ZK_OPCODE_GET, &in);
    body_begin(&body);
    hf__zk_jute_put_text(&body.out, "data", 4);
    body_stat(&body, 0);
    peer_reply_with(&peer, xid, 3, body.bytes, body_len(&body));
    peer_event(&peer, ZK_DELETED, "/l/before");
    hf__zk_delete(stage.zk, "/l/x", -1, stage_take, &stage, 2);
    xid = peer_expect(&peer, &stage, ZK_OPCODE_DELETE, &in);
    peer_reply(&peer, xid, 4, 0);
    stage_last(&stage);
    stage.reply_count = 0;
}

START_TEST(nothing_is_allocated_per_request)
{
    peer_open(&peer, &stage, NULL);
    for (int i = 0; i < 3; i++)
        one_round();
    uint64_t count = hf__mem_count();
    for (int i = 0; i < 100; i++)
        one_round();
    ck_assert_uint_eq(hf__mem_count(), count);
    ck_assert_uint_eq(stage.zk->watches.count, 0);
    end();
}
END_TEST

/* Whatever allocation fails: an answer to each request that was taken, and nothing
 * left. */
START_TEST(out_of_memory)
{
    size_t live = hf__mem_live();
    int opened = 0;

    for (uint64_t nth = 1; nth < 40; nth++) {
        peer_begin(&peer);
        peer_will_greet(&peer, PEER_SESSION, PEER_SESSION_MS);
        struct zk_settings settings = stage_settings(peer.hosts);
        settings.stream.connect_ns = settings.request_ns = 100 * HF_NS_PER_MS;
        memset(&stage, 0, sizeof stage);
        hf__mem_fail(nth + 1, 0); /* the first one is the URL of the fake host */
        int rc = stage_open(&stage, &settings, NULL);
        if (rc == 0) {
            opened++;
            unsigned taken = 0;
            for (uint64_t i = 0; i < 20; i++)
                taken += hf__zk_exists(stage.zk, i ? "/some/path" : "/other", true,
                                       stage_take, &stage, i) == 0;
            hf__zk_unwatch(stage.zk, "/other");
            hf__mem_fail(0, 0);
            peer_hang_up(&peer);
            STAGE_UNTIL(&stage, stage.downs > 0 || stage.expiries > 0);
            ck_assert_uint_eq(stage.reply_count, taken);
            stage_close(&stage);
        } else {
            ck_assert(rc == HF_ENOMEM || rc == HF_EUNREACHABLE);
        }
        hf__mem_fail(0, 0);
        peer_end(&peer);
        ck_assert_uint_eq(hf__mem_live(), live);
    }
    ck_assert_int_gt(opened, 20);
}
END_TEST

UNIT_MAIN("zk_peer", a_new_session_is_asked_for, greetings, no_server_listens,
          lists_of_servers_are_checked, the_next_server_is_tried, passwords,
          a_wrong_password_is_refused, a_flight_is_one_write, replies_come_in_pieces,
          calls_made_in_answers_share_a_write, requests_of_all_kinds,
          folders_may_be_kept, what_is_too_large_is_not_sent,
          malformed_replies_end_the_connection, replies_that_contradict_the_request,
          events, the_server_goes_away, nothing_is_allocated_per_request, out_of_memory)
