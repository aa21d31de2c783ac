/* SPDX-License-Identifier: MIT */
/* The played server of zk_peer.h. */
#include "zk_peer.h"

#include "../../src/base/clock.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE = 1000 };

/* ---- Life ------------------------------------------------------------------------ */

/* On the port it had, or on any. */
void peer_listen(struct peer *peer)
{
    struct sockaddr_in name = { .sin_family = AF_INET,
                                .sin_port = htons(peer->port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof name;
    int on = 1;

    peer->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(peer->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ck_assert_int_eq(bind(peer->listener, (struct sockaddr *)&name, len), 0);
    ck_assert_int_eq(listen(peer->listener, 16), 0);
    ck_assert_int_eq(getsockname(peer->listener, (struct sockaddr *)&name, &len), 0);
    peer->port = ntohs(name.sin_port);
}

void peer_deafen(struct peer *peer)
{
    close(peer->listener);
    peer->listener = -1;
}

void peer_begin(struct peer *peer)
{
    memset(peer, 0, sizeof *peer);
    peer->fd = -1;
    peer_listen(peer);
    snprintf(peer->hosts, sizeof peer->hosts, "127.0.0.1:%u", peer->port);
}

void peer_hang_up(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
    peer->heard_len = peer->taken = 0;
}

void peer_end(struct peer *peer)
{
    shutdown(peer->listener, SHUT_RD); /* if nobody came, accept ends */
    peer_met(peer);
    peer_hang_up(peer);
    peer_deafen(peer);
}

/* ---- Hearing --------------------------------------------------------------------- */

static void hear_more(struct peer *peer, int timeout_ms)
{
    struct pollfd polled = { .fd = peer->fd, .events = POLLIN };

    if (peer->taken == peer->heard_len)
        peer->taken = peer->heard_len = 0;
    if (poll(&polled, 1, timeout_ms) <= 0)
        return;
    ssize_t got = recv(peer->fd, peer->heard + peer->heard_len,
                       PEER_BUFFER - peer->heard_len, MSG_DONTWAIT);
    if (got > 0)
        peer->heard_len += (size_t)got;
}

static bool take_frame(struct peer *peer, struct jute *ret)
{
    size_t used = 0;

    if (hf__zk_jute_frame(peer->heard + peer->taken, peer->heard_len - peer->taken, ret,
                          &used) != JUTE_WHOLE)
        return false;
    peer->taken += used;
    return true;
}

static void hello_read(struct peer *peer, struct jute in)
{
    struct peer_hello *hello = &peer->hello;

    memset(hello, 0, sizeof *hello);
    hf__zk_jute_int(&in);
    hello->last_zxid = hf__zk_jute_long(&in);
    hello->timeout_ms = hf__zk_jute_int(&in);
    hello->session = hf__zk_jute_long(&in);
    struct zk_text password = hf__zk_jute_text(&in);
    memcpy(hello->password, password.at,
           password.len < sizeof hello->password ? password.len : 31);
    hello->read_only = hf__zk_jute_bool(&in);
    if (in.bad || in.at != in.end)
        hello->timeout_ms = -1;
    peer->connections++;
}

struct jute peer_hear(struct peer *peer, struct stage *stage)
{
    struct jute record = { .bad = true };
    int turns = 0;

    for (hear_more(peer, 0); !take_frame(peer, &record); hear_more(peer, 0)) {
        if (turns++ == PATIENCE)
            ck_abort_msg("the client says nothing");
        stage_turn(stage);
    }
    return record;
}

int32_t peer_expect(struct peer *peer, struct stage *stage, enum zk_opcode opcode,
                    struct jute *ret)
{
    struct jute in = peer_hear(peer, stage);
    int32_t xid = hf__zk_jute_int(&in);
    int32_t what = hf__zk_jute_int(&in);

    if (what != (int32_t)opcode)
        ck_abort_msg("opcode %d where %d was expected", what, (int)opcode);
    if (ret)
        *ret = in;
    return xid;
}

bool peer_quiet(struct peer *peer, struct stage *stage)
{
    stage_turn(stage);
    hear_more(peer, 0);
    return peer->taken == peer->heard_len;
}

/* ---- Speaking -------------------------------------------------------------------- */

void peer_say(struct peer *peer, const void *bytes, size_t len)
{
    ck_assert_int_eq(send(peer->fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static size_t greeting_write(char *bytes, size_t room, int64_t session, int32_t ms)
{
    struct jute_out out = { .at = bytes, .end = bytes + room };
    char *frame = hf__zk_jute_open(&out);

    hf__zk_jute_put_int(&out, 0);
    hf__zk_jute_put_int(&out, ms);
    hf__zk_jute_put_long(&out, session);
    hf__zk_jute_put_text(&out, session ? "0123456789abcdef" : "", session ? 16 : 0);
    hf__zk_jute_put_bool(&out, false);
    hf__zk_jute_close(&out, frame);
    return (size_t)(out.at - bytes);
}

void peer_greet(struct peer *peer, int64_t session, int32_t timeout_ms)
{
    char bytes[64];
    peer_say(peer, bytes, greeting_write(bytes, sizeof bytes, session, timeout_ms));
}

void peer_reply_with(struct peer *peer, int32_t xid, int64_t zxid, const void *body,
                     size_t len)
{
    static char bytes[PEER_BUFFER];
    struct jute_out out = { .at = bytes, .end = bytes + sizeof bytes };
    char *frame = hf__zk_jute_open(&out);

    hf__zk_jute_put_int(&out, xid);
    hf__zk_jute_put_long(&out, zxid);
    hf__zk_jute_put_int(&out, 0);
    memcpy(out.at, body, len);
    out.at += len;
    hf__zk_jute_close(&out, frame);
    peer_say(peer, bytes, (size_t)(out.at - bytes));
}

void peer_reply(struct peer *peer, int32_t xid, int64_t zxid, int32_t error)
{
    char bytes[32];
    struct jute_out out = { .at = bytes, .end = bytes + sizeof bytes };
    char *frame = hf__zk_jute_open(&out);

    hf__zk_jute_put_int(&out, xid);
    hf__zk_jute_put_long(&out, zxid);
    hf__zk_jute_put_int(&out, error);
    hf__zk_jute_close(&out, frame);
    peer_say(peer, bytes, (size_t)(out.at - bytes));
}

void peer_event(struct peer *peer, int32_t type, const char *path)
{
    struct peer_body body;

    body_begin(&body);
    hf__zk_jute_put_int(&body.out, type);
    hf__zk_jute_put_int(&body.out, 3);
    hf__zk_jute_put_text(&body.out, path, strlen(path));
    peer_reply_with(peer, ZK_XID_EVENT, -1, body.bytes, body_len(&body));
}

void body_begin(struct peer_body *body)
{
    body->out =
        (struct jute_out){ .at = body->bytes, .end = body->bytes + sizeof body->bytes };
}

void body_stat(struct peer_body *body, int64_t owner)
{
    for (int i = 0; i < 4; i++)
        hf__zk_jute_put_long(&body->out, 7);
    for (int i = 0; i < 3; i++)
        hf__zk_jute_put_int(&body->out, i);
    hf__zk_jute_put_long(&body->out, owner);
    hf__zk_jute_put_int(&body->out, 0);
    hf__zk_jute_put_int(&body->out, 0);
    hf__zk_jute_put_long(&body->out, 7);
}

size_t body_len(const struct peer_body *body)
{
    return (size_t)(body->out.at - body->bytes);
}

/* ---- Connections ----------------------------------------------------------------- */

static void take_caller(struct peer *peer)
{
    int on = 1;

    peer->fd = accept(peer->listener, NULL, NULL);
    if (peer->fd >= 0)
        setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool peer_wait(struct peer *peer, struct jute *ret)
{
    for (int i = 0; i < 50; i++) {
        hear_more(peer, 100);
        if (take_frame(peer, ret))
            return true;
    }
    return false;
}

static void *greet_first(void *arg)
{
    struct peer *peer = arg;
    struct jute record;

    take_caller(peer);
    if (peer->fd < 0 || !peer_wait(peer, &record))
        return NULL;
    hello_read(peer, record);
    if (peer->greets_len)
        send(peer->fd, peer->greets, peer->greets_len, MSG_NOSIGNAL);
    else
        shutdown(peer->fd, SHUT_RDWR);
    if (peer->will_check && peer_wait(peer, &record)) {
        peer->taken = 0; /* for the test to look at */
        peer_reply(peer, ZK_XID_AUTH, 0, peer->verdict);
    }
    return NULL;
}

void peer_will_say(struct peer *peer, const void *bytes, size_t len)
{
    ck_assert_uint_le(len, sizeof peer->greets);
    memcpy(peer->greets, bytes, len);
    peer->greets_len = len;
    peer->greeting = true;
    ck_assert_int_eq(pthread_create(&peer->thread, NULL, greet_first, peer), 0);
}

void peer_will_greet(struct peer *peer, int64_t session, int32_t timeout_ms)
{
    char bytes[64];
    peer_will_say(peer, bytes,
                  greeting_write(bytes, sizeof bytes, session, timeout_ms));
}

void peer_met(struct peer *peer)
{
    if (peer->greeting)
        ck_assert_int_eq(pthread_join(peer->thread, NULL), 0);
    peer->greeting = false;
}

void peer_open(struct peer *peer, struct stage *stage, struct fake_clock *clock)
{
    peer_begin(peer);
    peer_will_greet(peer, PEER_SESSION, PEER_SESSION_MS);
    struct zk_settings settings = stage_settings(peer->hosts);
    int rc = stage_open(stage, &settings, clock);
    ck_assert_msg(rc == 0, "%d: %s", rc, stage->why.text);
    peer_met(peer);
}

void peer_accept(struct peer *peer, struct stage *stage)
{
    struct pollfd polled = { .fd = peer->listener, .events = POLLIN };
    int turns = 0;

    peer_hang_up(peer);
    while (poll(&polled, 1, 0) == 0) {
        if (turns++ == PATIENCE)
            ck_abort_msg("the client does not come back");
        if (stage->host.clock)
            stage->host.clock->now_ns += 10 * HF_NS_PER_MS;
        stage_turn(stage);
    }
    take_caller(peer);
    ck_assert_int_ge(peer->fd, 0);
    hello_read(peer, peer_hear(peer, stage));
}
