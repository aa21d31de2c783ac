/* SPDX-License-Identifier: MIT */
/*
 * Replies, in: takes what the stream has, value by value, and finds whom it is for.
 *
 * Replies come in the order of the commands, so each belongs to the oldest call on the
 * wire. A push (RESP3), or on the second connection of RESP2 an array that begins like
 * one, is no reply. But the confirmation of a subscription stands in line with the
 * replies, and is held against the oldest call as they are.
 *
 * What does not fit (no RESP, a reply nobody asked for, a confirmation of something
 * else) ends the connection: from there on no reply can be trusted to be the right one.
 *
 * What a handler is given points into the stream's buffer, so nothing is consumed
 * before all has been handled; and whatever handlers send goes out in one write at the
 * end.
 */
#include "../../base/error.h"
#include "conn_inside.h"

#include <string.h>

static void lost(struct conn_socket *sock, const char *what)
{
    hf_error why;
    hf__error_set(&why, HF_EUNREACHABLE, "%s %s; the connection was closed",
                  hf__stream_peer(sock->stream), what);
    sock->conn->no_retry = true;
    hf__redis_conn_lost(sock->conn, &why);
}

/* The oldest call, NULL if nothing was sent that is not answered. */
static const struct call *oldest(const struct conn_socket *sock)
{
    return sock->first == sock->flushed ? NULL
                                        : &sock->calls[sock->first & (sock->room - 1)];
}

/* ---- Pushes ---------------------------------------------------------------------- */

static bool is_push(const struct conn_socket *sock, const struct resp *nodes)
{
    if (nodes[0].type == RESP_PUSH)
        return true;
    if (sock != &sock->conn->sockets[1] || nodes[0].type != RESP_ARRAY)
        return false;
    const struct resp *what = resp_at(nodes, 0, 0);
    return resp_is(what, "message") || resp_is(what, "subscribe") ||
           resp_is(what, "unsubscribe");
}

static void message(struct redis_conn *conn, const struct resp *channel,
                    const struct resp *payload)
{
    if (conn->opening || !channel || !payload || channel->type != RESP_TEXT ||
        payload->type != RESP_TEXT)
        return;
    conn->user->message(conn->session, channel->text, channel->len, payload->text,
                        payload->len);
}

/* Whether this call is what the server confirms. */
static bool is_about(const struct redis_conn *conn, const struct call *call,
                     bool subscribe, const struct resp *name)
{
    if (!call || !name || name->type != RESP_TEXT)
        return false;
    if (call->step == STEP_INBOX)
        return subscribe && resp_is(name, conn->settings.inbox);
    if (call->step != (subscribe ? STEP_SUBSCRIBE : STEP_UNSUBSCRIBE))
        return false;
    const struct channel *channel = call->subject;
    return channel->len == name->len &&
           memcmp(channel->name, name->text, name->len) == 0;
}

static void confirmed(struct conn_socket *sock, bool subscribe, const struct resp *name)
{
    if (!is_about(sock->conn, oldest(sock), subscribe, name)) {
        lost(sock, "confirmed a subscription that was not asked for");
        return;
    }
    struct call call = hf__redis_socket_pop(sock);
    if (call.step == STEP_INBOX)
        hf__redis_handshake_reply(sock, STEP_INBOX, NULL);
    else
        hf__redis_channel_answered(sock->conn, call.subject, (enum step)call.step,
                                   false);
}

static void handle_push(struct conn_socket *sock, const struct resp *nodes)
{
    const struct resp *what = resp_at(nodes, 0, 0);

    sock->heard_ns = conn_now(sock->conn);
    if (resp_is(what, "message"))
        message(sock->conn, resp_at(nodes, 0, 1), resp_at(nodes, 0, 2));
    else if (resp_is(what, "subscribe"))
        confirmed(sock, true, resp_at(nodes, 0, 1));
    else if (resp_is(what, "unsubscribe"))
        confirmed(sock, false, resp_at(nodes, 0, 1));
}

/* ---- Replies --------------------------------------------------------------------- */

static bool is_subscription(const struct call *call)
{
    return call->step == STEP_SUBSCRIBE || call->step == STEP_UNSUBSCRIBE ||
           call->step == STEP_INBOX;
}

static void handle_answer(struct conn_socket *sock, const struct call *call,
                          const struct resp *nodes)
{
    struct redis_conn *conn = sock->conn;

    switch (call->step) {
    case STEP_EVALSHA:
        if (nodes[0].type == RESP_ERROR && resp_begins(nodes, "NOSCRIPT"))
            hf__redis_socket_send_again(sock, call);
        else
            hf__redis_conn_answer(conn, call, nodes, NULL);
        break;
    case STEP_CALL:
        hf__redis_conn_answer(conn, call, nodes, NULL);
        break;
    case STEP_SUBSCRIBE:
    case STEP_UNSUBSCRIBE:
        hf__redis_channel_answered(conn, call->subject, (enum step)call->step, true);
        break;
    case STEP_PING:
        break;
    default:
        hf__redis_handshake_reply(sock, (enum step)call->step, nodes);
        break;
    }
}

static void handle_reply(struct conn_socket *sock, const struct resp *nodes)
{
    if (!oldest(sock)) {
        lost(sock, "answered what nobody asked");
        return;
    }
    struct call call = hf__redis_socket_pop(sock);
    sock->heard_ns = call.sent_ns;
    if (is_subscription(&call) && nodes[0].type != RESP_ERROR)
        lost(sock, "answered a subscription with something else");
    else
        handle_answer(sock, &call, nodes);
}

void hf__redis_conn_distrust(struct redis_conn *conn)
{
    conn->distrusted = true;
}

/* False: the wire is closed. */
static bool handle_value(struct conn_socket *sock, const struct resp *nodes)
{
    sock->conn->distrusted = false;
    if (is_push(sock, nodes))
        handle_push(sock, nodes);
    else
        handle_reply(sock, nodes);
    if (sock->conn->distrusted && sock->connected)
        lost(sock, "sent an answer that makes no sense");
    return sock->connected;
}

static void read_all(struct conn_socket *sock)
{
    struct resp *nodes = sock->conn->nodes;
    size_t size = 0, done = 0, used = 0;
    const char *input = hf__stream_input(sock->stream, &size);
    enum resp_state state = RESP_MORE;

    while (done < size) {
        state = resp_read(input + done, size - done, nodes, RESP_NODES_MAX, &used);
        if (state != RESP_WHOLE)
            break;
        done += used;
        if (!handle_value(sock, nodes))
            return;
    }
    if (state == RESP_BAD)
        lost(sock, "does not speak Redis's protocol");
    else
        hf__stream_consume(sock->stream, done);
}

void hf__redis_socket_read(struct conn_socket *sock)
{
    struct redis_conn *conn = sock->conn;
    uint32_t first = sock->first;

    conn->reading++;
    if (sock->connected)
        read_all(sock);
    conn->reading--;
    if (sock->first != first && sock->first != sock->end)
        sock->progress_ns = conn_now(conn);
    for (unsigned i = 0; i < conn->socket_count; i++)
        if (conn->sockets[i].connected)
            hf__redis_socket_flush(&conn->sockets[i]);
    if (!conn->reading)
        hf__redis_socket_trim(sock);
}
