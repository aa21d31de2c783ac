/* SPDX-License-Identifier: MIT */
/*
 * The handshake of a connection: the client names itself and the session it would like
 * to go on with, then sends its password if there is one, then sets its watches again,
 * ahead of any other request: what the user does when it is told that the client is up
 * meets a server that has them.
 *
 * A read-only server, which is cut off from the others, is of no use for locks and is
 * left at once. A session that has expired by our clock, but not yet for the servers,
 * is closed before a new one begins: its nodes would block other clients and ourselves.
 *
 * Called by zk.c and zk_read.c, under the session's lock.
 */
#include "../../../base/clock.h"
#include "../../../base/error.h"
#include "zk_inside.h"

#include <string.h>

enum {
    CONNECT_SIZE = 4 + 4 + 8 + 4 + 8 + 4 + ZK_PASSWORD_MAX + 1,
    SESSION_LEAST_MS = 10, /* less cannot be kept alive */
};

static const char AUTH_SCHEME[] = "digest";

static int32_t wanted_ms(const struct zk *zk)
{
    int64_t ms = zk->settings.session_ns / HF_NS_PER_MS;
    return ms > INT32_MAX ? INT32_MAX : (int32_t)ms;
}

void hf__zk_handshake_begin(struct zk *zk)
{
    char *at = hf__stream_room(zk->stream, CONNECT_SIZE);
    struct jute_out out = { .at = at, .end = at ? at + CONNECT_SIZE : NULL };

    if (!at) {
        hf__zk_lost_because(zk, HF_ENOMEM,
                            "cannot be sent the handshake: out of memory");
        return;
    }
    char *frame = hf__zk_jute_open(&out);
    hf__zk_jute_put_int(&out, 0); /* the protocol's version */
    hf__zk_jute_put_long(&out, zk->last_zxid);
    hf__zk_jute_put_int(&out, wanted_ms(zk));
    hf__zk_jute_put_long(&out, zk->session_id);
    hf__zk_jute_put_text(&out, zk->password, zk->password_len);
    hf__zk_jute_put_bool(&out, false); /* a read-only server is refused */
    hf__zk_jute_close(&out, frame);
    hf__stream_wrote(zk->stream, (size_t)(out.at - frame));
    zk->asked_ns = zk_now(zk);
    hf__stream_flush(zk->stream);
}

static int put_auth(struct zk *zk)
{
    size_t len = strlen(zk->settings.auth);
    struct zk_request request = { .frame = NULL };
    int rc = hf__zk_request_begin(zk, &request, ZK_OPCODE_AUTH,
                                  4 + 4 + sizeof AUTH_SCHEME + 4 + len);
    if (rc != 0)
        return rc;
    hf__zk_jute_put_int(&request.out, 0);
    hf__zk_jute_put_text(&request.out, AUTH_SCHEME, sizeof AUTH_SCHEME - 1);
    hf__zk_jute_put_text(&request.out, zk->settings.auth, len);
    hf__zk_request_end(zk, &request);
    return 0;
}

static void connection_up(struct zk *zk)
{
    if (hf__zk_watches_restore(zk) != 0)
        hf__zk_lost_because(zk, HF_ENOMEM, "cannot be sent the watches: out of memory");
    else
        hf__zk_ready(zk);
}

static void auth_or_up(struct zk *zk)
{
    if (!*zk->settings.auth) {
        connection_up(zk);
        return;
    }
    zk->state = ZK_STATE_AUTH;
    if (put_auth(zk) != 0)
        hf__zk_lost_because(zk, HF_ENOMEM,
                            "cannot be sent the password: out of memory");
}

/* The server goes on with our session, or has made a new one. */
static void session_take(struct zk *zk, const struct zk_connect_reply *reply)
{
    if (reply->session != zk->session_id) {
        hf__zk_session_expire(zk);
        hf__zk_session_forget(zk);
        zk->session_id = reply->session;
        zk->fresh = true;
    }
    memcpy(zk->password, reply->password.at, reply->password.len);
    zk->password_len = reply->password.len;
    zk->session_ns = reply->timeout_ms * HF_NS_PER_MS;
    zk->base_ns = zk->asked_ns; /* the leader itself made or moved it */
}

static void old_session_close(struct zk *zk)
{
    zk->state = ZK_STATE_CLOSING_OLD;
    if (hf__zk_request_empty(zk, ZK_OPCODE_CLOSE) != 0)
        hf__zk_lost_because(zk, HF_ENOMEM,
                            "cannot be sent the end of the session: out of memory");
}

void hf__zk_handshake_reply(struct zk *zk, struct jute *in)
{
    struct zk_connect_reply reply = hf__zk_connect_reply_read(in);
    bool none = reply.timeout_ms < SESSION_LEAST_MS || reply.session == 0;

    if (in->bad || reply.password.len > ZK_PASSWORD_MAX) {
        zk->reached = false;
        hf__zk_lost_because(zk, HF_EUNREACHABLE, "does not speak ZooKeeper's protocol");
    } else if (none && zk->session_id) {
        hf__zk_session_expire(zk);
        hf__zk_session_forget(zk);
        zk->tried = 0;
        hf__zk_lost_because(zk, HF_EUNREACHABLE, "has ended the session");
    } else if (none) {
        hf__zk_lost_because(zk, HF_EUNREACHABLE, "grants no session");
    } else if (reply.read_only) {
        hf__zk_lost_because(zk, HF_EUNREACHABLE,
                            "is read-only: it is cut off from the others");
    } else if (zk->expired && reply.session == zk->session_id) {
        old_session_close(zk);
    } else {
        session_take(zk, &reply);
        auth_or_up(zk);
    }
}

void hf__zk_auth_reply(struct zk *zk, int32_t error)
{
    if (error == ZK_OK) {
        connection_up(zk);
        return;
    }
    zk->give_up = true;
    hf__zk_lost_because(zk, HF_EREFUSED, "does not accept the password");
}
