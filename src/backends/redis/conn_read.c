/* SPDX-License-Identifier: MIT */
/*
 * Input: reads the stream value by value and finds the request of each reply.
 *
 * Replies come in the order of the commands, so each belongs to the oldest request of
 * the socket. A push (RESP3), or on the second socket of RESP2 an array that begins
 * like one, is no reply. But the confirmation of a subscription comes in the order of
 * the replies, and is compared with the oldest request as they are.
 *
 * Input that does not fit (no RESP, a reply without a request, a confirmation of
 * another channel) ends the connection: after it no reply can be matched to its
 * request.
 *
 * Handlers get pointers into the stream's buffer, so nothing is consumed before all has
 * been handled. What handlers send goes out in one write at the end.
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

/* The oldest request, NULL if all that was sent is answered. */
static const struct conn_request *oldest(const struct conn_socket *sock)
{
    return sock->first == sock->flushed
               ? NULL
               : &sock->requests[sock->first & (sock->room - 1)];
}

/* ---- Pushes ---------------------------------------------------------------------- */

static bool is_push(const struct conn_socket *sock, const struct resp *nodes)
{
    if (nodes[0].type == RESP_PUSH)
        return true;
    if (sock != &sock->conn->sockets[1] || nodes[0].type != RESP_ARRAY)
        return false;
    const struct resp *what = hf__redis_resp_at(nodes, 0, 0);
    return hf__redis_resp_is(what, "message") || hf__redis_resp_is(what, "subscribe") ||
           hf__redis_resp_is(what, "unsubscribe");
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

/* Whether this is the request that the server confirms. */
static bool is_about(const struct redis_conn *conn, const struct conn_request *request,
                     bool subscribe, const struct resp *name)
{
    if (!request || !name || name->type != RESP_TEXT)
        return false;
    if (request->type == REQUEST_INBOX)
        return subscribe && hf__redis_resp_is(name, conn->settings.inbox);
    if (request->type != (subscribe ? REQUEST_SUBSCRIBE : REQUEST_UNSUBSCRIBE))
        return false;
    const struct channel *channel = request->subject;
    return channel->len == name->len &&
           memcmp(channel->name, name->text, name->len) == 0;
}

static void confirmed(struct conn_socket *sock, bool subscribe, const struct resp *name)
{
    if (!is_about(sock->conn, oldest(sock), subscribe, name)) {
        lost(sock, "confirmed a subscription that was not asked for");
        return;
    }
    struct conn_request request = hf__redis_socket_pop(sock);
    if (request.type == REQUEST_INBOX)
        hf__redis_handshake_reply(sock, REQUEST_INBOX, NULL);
    else
        hf__redis_channel_answered(sock->conn, request.subject,
                                   (enum request_type)request.type, false);
}

static void handle_push(struct conn_socket *sock, const struct resp *nodes)
{
    const struct resp *what = hf__redis_resp_at(nodes, 0, 0);

    sock->heard_ns = conn_now(sock->conn);
    if (hf__redis_resp_is(what, "message"))
        message(sock->conn, hf__redis_resp_at(nodes, 0, 1),
                hf__redis_resp_at(nodes, 0, 2));
    else if (hf__redis_resp_is(what, "subscribe"))
        confirmed(sock, true, hf__redis_resp_at(nodes, 0, 1));
    else if (hf__redis_resp_is(what, "unsubscribe"))
        confirmed(sock, false, hf__redis_resp_at(nodes, 0, 1));
}

/* ---- Replies --------------------------------------------------------------------- */

static bool is_subscription(const struct conn_request *request)
{
    return request->type == REQUEST_SUBSCRIBE || request->type == REQUEST_UNSUBSCRIBE ||
           request->type == REQUEST_INBOX;
}

static void handle_answer(struct conn_socket *sock, const struct conn_request *request,
                          const struct resp *nodes)
{
    struct redis_conn *conn = sock->conn;

    switch (request->type) {
    case REQUEST_EVALSHA:
        if (nodes[0].type == RESP_ERROR && hf__redis_resp_begins(nodes, "NOSCRIPT"))
            hf__redis_socket_send_again(sock, request);
        else
            hf__redis_conn_answer(conn, request, nodes, NULL);
        break;
    case REQUEST_COMMAND:
        hf__redis_conn_answer(conn, request, nodes, NULL);
        break;
    case REQUEST_SUBSCRIBE:
    case REQUEST_UNSUBSCRIBE:
        hf__redis_channel_answered(conn, request->subject,
                                   (enum request_type)request->type, true);
        break;
    case REQUEST_PING:
        break;
    default:
        hf__redis_handshake_reply(sock, (enum request_type)request->type, nodes);
        break;
    }
}

static void handle_reply(struct conn_socket *sock, const struct resp *nodes)
{
    if (!oldest(sock)) {
        lost(sock, "sent a reply without a request");
        return;
    }
    struct conn_request request = hf__redis_socket_pop(sock);
    sock->heard_ns = request.sent_ns;
    if (is_subscription(&request) && nodes[0].type != RESP_ERROR)
        lost(sock, "sent another reply to a subscription");
    else
        handle_answer(sock, &request, nodes);
}

void hf__redis_conn_distrust(struct redis_conn *conn)
{
    conn->distrusted = true;
}

/* False: the socket was closed. */
static bool handle_value(struct conn_socket *sock, const struct resp *nodes)
{
    sock->conn->distrusted = false;
    if (is_push(sock, nodes))
        handle_push(sock, nodes);
    else
        handle_reply(sock, nodes);
    if (sock->conn->distrusted && sock->connected)
        lost(sock, "sent an invalid reply");
    return sock->connected;
}

static void read_all(struct conn_socket *sock)
{
    struct resp *nodes = sock->conn->nodes;
    size_t size = 0, done = 0, used = 0;
    const char *input = hf__stream_input(sock->stream, &size);
    enum resp_state state = RESP_MORE;

    while (done < size) {
        state = hf__redis_resp_read(input + done, size - done, nodes, RESP_NODES_MAX,
                                    &used);
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
