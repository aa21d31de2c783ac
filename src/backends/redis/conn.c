/* SPDX-License-Identifier: MIT */
/*
 * The states of a connection: it connects, does the handshake, is lost, and reconnects
 * after a delay that grows from attempt to attempt and is random for each client, so
 * that a restarted server does not get all its clients at once.
 *
 * One timer serves all: the next attempt while the connection is down; the deadline of
 * the oldest request, and a PING after a long silence, while it is up. The timer is
 * moved only when it is set too late, so most requests do not touch it. Each reply
 * gives the requests behind it a new deadline: a server that answers many of them
 * slowly is not taken for dead.
 *
 * hf__redis_conn_open() runs the same states without the loop: it pumps the stream and
 * runs the timer itself until the connection is up. A failure that waiting cannot
 * repair ends it at once.
 *
 * Runs under the session's lock, in calls of the store and in the loop's callbacks.
 */
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"
#include "conn_inside.h"

#include <poll.h>
#include <string.h>

#define BACKOFF_FIRST_NS (40 * HF_NS_PER_MS) /* halved by the jitter at most */
#define BACKOFF_LAST_NS (2 * HF_NS_PER_S)
#define SILENCE_NS (15 * HF_NS_PER_S)

enum { BACKOFF_DOUBLINGS = 6, CROWD = 1024 };

/* ---- Time ------------------------------------------------------------------------ */

/* Cannot fail: the timer is always set, or has just fired. */
static void arm(struct redis_conn *conn, int64_t at_ns)
{
    conn->host->ops->set_timer(conn->host, &conn->timer, at_ns);
}

void hf__redis_conn_expect_reply(struct redis_conn *conn, int64_t now_ns)
{
    int64_t due = now_ns + conn->settings.request_ns;
    if (conn->timer.at_ns > due)
        arm(conn, due);
}

static int64_t backoff_ns(struct redis_conn *conn)
{
    unsigned doublings =
        conn->attempts < BACKOFF_DOUBLINGS ? conn->attempts : BACKOFF_DOUBLINGS;
    int64_t most = BACKOFF_FIRST_NS << doublings;
    uint32_t random = UINT32_MAX / 2;

    if (most > BACKOFF_LAST_NS)
        most = BACKOFF_LAST_NS;
    hf__random(&conn->random, &random, sizeof random);
    return most / 2 + (int64_t)(((uint64_t)most / 2 * random) >> 32);
}

static void ping(struct conn_socket *sock, int64_t now)
{
    static const struct resp_arg args[] = { { "PING", 4 } };
    const struct conn_request request = { .sent_ns = now, .type = REQUEST_PING };

    if (hf__redis_socket_put(sock, args, 1, &request) == 0)
        hf__redis_socket_flush(sock);
}

/* Since when the server owes the oldest reply. */
static int64_t owed_since(const struct conn_socket *sock)
{
    int64_t since = sock->requests[sock->first & (sock->room - 1)].sent_ns;
    return sock->progress_ns > since ? sock->progress_ns : since;
}

/* When this socket must be checked next; 0: a reply is overdue. */
static int64_t socket_due(struct conn_socket *sock, int64_t now)
{
    int64_t request_ns = sock->conn->settings.request_ns;

    if (sock->first == sock->end && now - sock->heard_ns >= SILENCE_NS)
        ping(sock, now);
    if (sock->first == sock->end)
        return (sock->heard_ns > now - SILENCE_NS ? sock->heard_ns : now) + SILENCE_NS;
    int64_t due = owed_since(sock) + request_ns;
    return due > now ? due : 0;
}

static void fail_by_timeout(struct conn_socket *sock)
{
    hf_error why;
    hf__error_set(&why, HF_EUNREACHABLE, "no answer from %s within %lld ms",
                  hf__stream_peer(sock->stream),
                  (long long)(sock->conn->settings.request_ns / HF_NS_PER_MS));
    hf__redis_conn_lost(sock->conn, &why);
}

/* After a suspend, or on a busy machine, the reply may have arrived without having been
 * read: a deadline counts as missed only after reading the stream brought nothing. */
static int64_t socket_due_after_read(struct conn_socket *sock, int64_t now)
{
    int64_t due = socket_due(sock, now);

    if (due == 0 && hf__stream_pump(sock->stream, now) && sock->connected)
        due = socket_due(sock, now);
    return due;
}

static void check_deadlines(struct redis_conn *conn)
{
    int64_t now = conn_now(conn), next = now + SILENCE_NS;

    for (unsigned i = 0; i < conn->socket_count; i++) {
        struct conn_socket *sock = &conn->sockets[i];
        int64_t due = sock->connected ? socket_due_after_read(sock, now) : next;
        if (conn->state == CONN_WAITING)
            return; /* the ping or the read lost the connection */
        if (due == 0) {
            fail_by_timeout(sock);
            return;
        }
        next = due < next ? due : next;
    }
    if (next < conn->timer.at_ns)
        arm(conn, next);
}

/* ---- Down and up ----------------------------------------------------------------- */

static void socket_opened(void *arg)
{
    struct conn_socket *sock = arg;
    struct redis_conn *conn = sock->conn;
    hf_error why;

    conn->state = CONN_HANDSHAKE;
    sock->connected = true;
    sock->heard_ns = conn_now(conn);
    if (hf__redis_handshake_begin(sock) < 0) {
        hf__fail_code(&why, HF_ENOMEM);
        hf__redis_conn_lost(conn, &why);
        return;
    }
    hf__redis_socket_flush(sock);
    hf__redis_conn_expect_reply(conn, sock->heard_ns);
}

static void socket_readable(void *arg)
{
    hf__redis_socket_read(arg);
}

static void socket_broken(void *arg, const hf_error *why)
{
    struct conn_socket *sock = arg;
    sock->conn->no_retry = true;
    hf__redis_conn_lost(sock->conn, why);
}

static const struct hf_stream_user stream_user = {
    .opened = socket_opened,
    .readable = socket_readable,
    .broken = socket_broken,
};

static int stream_make(struct redis_conn *conn, unsigned index, hf_error *why)
{
    struct conn_socket *sock = &conn->sockets[index];

    if (sock->stream)
        return 0;
    return hf__stream_new(conn->host, &conn->settings.stream, &stream_user, sock,
                          &sock->stream, why);
}

static void connect_socket(struct redis_conn *conn, unsigned index)
{
    hf_error why;
    int rc = stream_make(conn, index, &why);

    if (rc == 0)
        rc = hf__stream_open(conn->sockets[index].stream, &why);
    if (rc == 0)
        return;
    conn->no_retry = true;
    hf__redis_conn_lost(conn, &why);
}

static void connect_first(struct redis_conn *conn)
{
    conn->state = CONN_CONNECTING;
    conn->socket_count = conn->protocol == 2 ? 2 : 1;
    connect_socket(conn, 0);
}

void hf__redis_socket_ready(struct conn_socket *sock)
{
    struct redis_conn *conn = sock->conn;

    if (sock != channel_socket(conn)) {
        connect_socket(conn, 1);
        return;
    }
    conn->state = CONN_UP;
    conn->up_ns = conn_now(conn);
    if (!conn->opening)
        conn->user->up(conn->session);
}

static void close_sockets(struct redis_conn *conn)
{
    conn->state = CONN_WAITING;
    for (unsigned i = 0; i < 2; i++) {
        struct conn_socket *sock = &conn->sockets[i];
        sock->connected = false;
        sock->handshake_left = 0;
        if (sock->stream)
            hf__stream_close(sock->stream);
    }
}

void hf__redis_conn_lost(struct redis_conn *conn, const hf_error *why)
{
    bool was_up = conn->state == CONN_UP && !conn->opening;
    int64_t now = conn_now(conn);

    conn->why = *why;
    if (was_up && now - conn->up_ns > BACKOFF_LAST_NS)
        conn->attempts = 0;
    close_sockets(conn);
    arm(conn, now + backoff_ns(conn));
    conn->attempts++;
    for (unsigned i = 0; i < 2; i++)
        hf__redis_socket_fail_requests(&conn->sockets[i], &conn->why);
    hf__redis_channels_lost(conn);
    if (was_up)
        conn->user->down(conn->session, &conn->why);
}

void hf__redis_conn_reopen(struct redis_conn *conn)
{
    hf_error why = { .code = HF_EUNREACHABLE };

    close_sockets(conn);
    arm(conn, conn_now(conn));
    for (unsigned i = 0; i < 2; i++)
        hf__redis_socket_fail_requests(&conn->sockets[i], &why);
    hf__redis_channels_lost(conn);
}

static void tick(void *arg)
{
    struct redis_conn *conn = arg;

    arm(conn, HF_NEVER);
    if (conn->state == CONN_WAITING)
        connect_first(conn);
    else
        check_deadlines(conn);
}

/* ---- Open and close -------------------------------------------------------------- */

/* Copies the texts of the settings into one block. */
static int texts_keep(struct redis_conn *conn)
{
    struct conn_settings *s = &conn->settings;
    const char **texts[] = {
        &s->stream.host,    &s->stream.unix_path,
        &s->stream.tls_ca,  &s->stream.tls_cert,
        &s->stream.tls_key, &s->stream.tls_name,
        &s->user,           &s->password,
        &s->client_name,    &s->inbox,
    };
    enum { COUNT = sizeof texts / sizeof texts[0] };

    for (size_t i = 0; i < COUNT; i++) {
        *texts[i] = *texts[i] ? *texts[i] : "";
        conn->texts_size += strlen(*texts[i]) + 1;
    }
    char *at = conn->texts = hf__alloc(conn->texts_size);
    for (size_t i = 0; i < COUNT && at; i++) {
        size_t size = strlen(*texts[i]) + 1;
        *texts[i] = memcpy(at, *texts[i], size);
        at += size;
    }
    return at ? 0 : HF_ENOMEM;
}

/* The server accepts only visible ASCII in a client's name. */
static void name_clean(struct redis_conn *conn)
{
    for (char *c = (char *)(uintptr_t)conn->settings.client_name; *c; c++)
        if (*c < '!' || *c > '~')
            *c = '_';
}

static int conn_make(struct hf_host *host, const struct conn_settings *settings,
                     const struct conn_user *user, void *session,
                     struct redis_conn **ret_conn, hf_error *why)
{
    struct redis_conn *conn = hf__alloc(sizeof *conn);

    if (!conn)
        return hf__fail_code(why, HF_ENOMEM);
    *ret_conn = conn;
    conn->host = host;
    conn->settings = *settings;
    conn->user = user;
    conn->session = session;
    conn->protocol = settings->protocol == 2 ? 2 : 3;
    conn->socket_count = 1;
    conn->timer.callback = tick;
    conn->timer.arg = conn;
    conn->sockets[0].conn = conn->sockets[1].conn = conn;
    conn->nodes = hf__alloc(RESP_NODES_MAX * sizeof *conn->nodes);
    if (texts_keep(conn) < 0 || !conn->nodes ||
        host->ops->set_timer(host, &conn->timer, HF_NEVER) < 0)
        return hf__fail_code(why, HF_ENOMEM);
    name_clean(conn);
    return stream_make(conn, 0, why);
}

/* One iteration of what the client's loop would do. */
static void loop_once(struct redis_conn *conn, int64_t deadline_ns)
{
    int64_t until = conn->timer.at_ns < deadline_ns ? conn->timer.at_ns : deadline_ns;
    unsigned in_handshake = conn->sockets[0].connected &&
                            !conn->sockets[0].handshake_left && conn->socket_count == 2;

    if (conn->state == CONN_WAITING)
        poll(NULL, 0, hf__poll_ms(conn_now(conn), until));
    else
        hf__stream_pump(conn->sockets[in_handshake].stream, until);
    if (conn->timer.at_ns <= conn_now(conn)) {
        conn->host->ops->stop_timer(conn->host, &conn->timer);
        tick(conn);
    }
}

static int wait_until_up(struct redis_conn *conn, hf_error *why)
{
    int64_t deadline =
        conn_now(conn) + conn->settings.stream.connect_ns + conn->settings.request_ns;

    conn->opening = true;
    connect_first(conn);
    while (conn->state != CONN_UP && !conn->no_retry && conn_now(conn) < deadline)
        loop_once(conn, deadline);
    conn->opening = false;
    if (conn->state == CONN_UP)
        return 0;
    if (!conn->why.code)
        hf__error_set(&conn->why, HF_EUNREACHABLE, "%s does not answer",
                      hf__stream_peer(conn->sockets[0].stream));
    if (why)
        *why = conn->why;
    return conn->why.code;
}

int hf__redis_conn_open(struct hf_host *host, const struct conn_settings *settings,
                        const struct conn_user *user, void *session,
                        struct redis_conn **ret_conn, hf_error *why)
{
    struct redis_conn *conn = NULL;
    int rc = conn_make(host, settings, user, session, &conn, why);

    if (rc == 0)
        rc = wait_until_up(conn, why);
    if (rc == 0)
        *ret_conn = conn;
    else
        hf__redis_conn_close(conn, false);
    return rc;
}

void hf__redis_conn_mute(struct redis_conn *conn)
{
    conn->opening = true; /* suppresses callbacks */
    hf__redis_socket_forget_all(&conn->sockets[0]);
}

void hf__redis_conn_drain(struct redis_conn *conn, int64_t patience_ns)
{
    struct conn_socket *sock = &conn->sockets[0];
    bool looked = false; /* replies that have arrived are read even if time is over */

    hf__redis_socket_flush(sock);
    while (conn->state == CONN_UP && sock->first != sock->end) {
        int64_t deadline = owed_since(sock) + patience_ns;
        if (looked && conn_now(conn) >= deadline)
            break;
        looked = true;
        loop_once(conn, deadline);
    }
}

void hf__redis_conn_close(struct redis_conn *conn, bool forked)
{
    if (!conn)
        return;
    conn->host->ops->stop_timer(conn->host, &conn->timer);
    hf__redis_socket_done(&conn->sockets[0], forked);
    hf__redis_socket_done(&conn->sockets[1], forked);
    hf__redis_channels_done(conn);
    if (conn->texts)
        explicit_bzero(conn->texts, conn->texts_size);
    hf__free(conn->texts);
    hf__free(conn->nodes);
    hf__free(conn->args);
    hf__free(conn);
}

bool hf__redis_conn_is_up(const struct redis_conn *conn)
{
    return conn->state == CONN_UP;
}

bool hf__redis_conn_is_crowded(const struct redis_conn *conn)
{
    return conn->sockets[0].end - conn->sockets[0].first > CROWD;
}

const char *hf__redis_conn_version(const struct redis_conn *conn)
{
    return conn->version;
}
