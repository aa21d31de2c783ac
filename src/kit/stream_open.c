/* SPDX-License-Identifier: MIT */
/*
 * Opening a stream: resolve the name, connect to one of its addresses, TLS handshake.
 * Called from hf__stream_open() and then by the loop, whenever the watched descriptor
 * is ready or the timer is due.
 *
 * Addresses are tried in turn, beginning after the one that was connected last, and
 * share what is left of the deadline, so that an unresponsive one leaves time for the
 * others. No callback is called inside hf__stream_open(): a connect that succeeds at
 * once is reported by the loop (the socket is writable), one that fails sets
 * `breaking`. A failed TLS handshake ends the opening; another address would not do
 * better, and the message would be lost.
 */
#include "stream_internal.h"

#include "../base/clock.h"
#include "../base/error.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BACKLOG_RETRY_NS (10 * HF_NS_PER_MS)

enum { KEEPALIVE_IDLE_S = 30, KEEPALIVE_STEP_S = 10, KEEPALIVE_PROBES = 3 };

static int64_t now_of(struct hf_stream *stream)
{
    return stream->host->ops->now(stream->host);
}

static void timer_move(struct hf_stream *stream, int64_t at_ns)
{
    stream->host->ops->set_timer(stream->host, &stream->timer, at_ns);
}

static void timer_share(struct hf_stream *stream)
{
    int64_t now = now_of(stream);
    size_t left = stream->addresses.count - stream->tried;
    int64_t share = (stream->deadline_ns - now) / (int64_t)(left ? left : 1);
    timer_move(stream, now + (share > 0 ? share : 0));
}

/* A path without permission stays so; all other errors may pass. */
static void note_sys(struct hf_stream *stream, int sys)
{
    int code = sys == EACCES || sys == EPERM ? HF_EREFUSED : HF_EUNREACHABLE;
    hf__error_set_sys(&stream->why, code, sys, "cannot connect to %s", stream->peer);
}

/* ---- Connect ------------------------------------------------------------------- */

static void watch_or_break(struct hf_stream *stream, uint32_t events)
{
    if (hf__stream_watch(stream, stream->fd, events) == 0)
        return;
    hf__error_set(&stream->why, HF_ESYSTEM, "the connection to %s cannot be watched",
                  stream->peer);
    hf__stream_break_later(stream);
}

/* 0: under way or done. EAGAIN of a unix socket is neither: its backlog is full. */
static int connect_start(struct hf_stream *stream, const struct hf_address *address)
{
    stream->fd =
        socket(address->name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (stream->fd < 0)
        return errno;
    const struct sockaddr *name = (const struct sockaddr *)&address->name;
    if (connect(stream->fd, name, address->len) == 0 || errno == EINPROGRESS ||
        errno == EINTR)
        return 0;
    int sys = errno;
    hf__stream_drop_socket(stream, false);
    return sys;
}

static size_t address_index(const struct hf_stream *stream)
{
    return (stream->first + stream->tried) % stream->addresses.count;
}

static void connect_next(struct hf_stream *stream)
{
    stream->state = STREAM_CONNECTING;
    for (; stream->tried < stream->addresses.count; stream->tried++) {
        size_t index = address_index(stream);
        int sys = connect_start(stream, &stream->addresses.list[index]);
        if (sys == 0) {
            timer_share(stream);
            watch_or_break(stream, EPOLLOUT);
            return;
        }
        note_sys(stream, sys);
        if (sys == EAGAIN) {
            timer_move(stream, now_of(stream) + BACKLOG_RETRY_NS);
            return;
        }
    }
    hf__stream_break_later(stream);
}

static void address_failed(struct hf_stream *stream)
{
    hf__stream_drop_socket(stream, false);
    stream->tried++;
    connect_next(stream);
}

/* A local port without a listener may be the one that the kernel chose for this socket:
 * then it is connected to itself. */
static bool is_self(int fd)
{
    struct sockaddr_storage here = { 0 }, there = { 0 };
    socklen_t here_len = sizeof(here), there_len = sizeof(there);

    return getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 &&
           here.ss_family != AF_UNIX && here_len == there_len &&
           memcmp(&here, &there, here_len) == 0;
}

static int connect_result(int fd)
{
    int sys = 0;
    socklen_t len = sizeof(sys);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &len) != 0)
        return errno;
    return sys == 0 && is_self(fd) ? ECONNREFUSED : sys;
}

/* A unix socket refuses the TCP options, which does no harm. */
static void socket_tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        { IPPROTO_TCP, TCP_NODELAY, 1 },
        { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S },
        { IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_STEP_S },
        { IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES },
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                   sizeof(options[i].value));
}

/* ---- Handshake ----------------------------------------------------------------- */

static void become_open(struct hf_stream *stream)
{
    stream->first = address_index(stream) + 1;
    stream->state = STREAM_OPEN;
    timer_move(stream, HF_NEVER);
    watch_or_break(stream, EPOLLIN);
    if (!stream->breaking)
        stream->user.opened(stream->arg);
}

static void handshake_step(struct hf_stream *stream)
{
    uint32_t wants = EPOLLIN;
    int rc = stream->tls->handshake(stream->session, &wants, &stream->why);
    if (rc == 0)
        watch_or_break(stream, wants);
    else if (rc > 0)
        become_open(stream);
    else
        hf__stream_break_later(stream);
}

static void handshake_start(struct hf_stream *stream)
{
    const char *name = hf__stream_tls_name(&stream->settings);
    stream->state = STREAM_HANDSHAKE;
    int rc = stream->tls->session_new(stream->context, stream->fd, name,
                                      &stream->session, &stream->why);
    if (rc == 0)
        handshake_step(stream);
    else
        hf__stream_break_later(stream);
}

static void connect_step(struct hf_stream *stream)
{
    int sys = connect_result(stream->fd);
    if (sys != 0) {
        note_sys(stream, sys);
        address_failed(stream);
        return;
    }
    socket_tune(stream->fd);
    if (stream->tls)
        handshake_start(stream);
    else
        become_open(stream);
}

/* ---- Resolve ------------------------------------------------------------------- */

static void resolve_step(struct hf_stream *stream)
{
    int error = 0;
    if (!hf__resolve_take(stream->resolve, &stream->addresses, &error))
        return;
    hf__stream_unwatch(stream);
    hf__resolve_drop(stream->resolve, false);
    stream->resolve = NULL;
    if (error == 0) {
        connect_next(stream);
        return;
    }
    hf__error_set(&stream->why, HF_EUNREACHABLE, "the host %s cannot be found: %s",
                  stream->settings.host, gai_strerror(error));
    hf__stream_break_later(stream);
}

static int resolve_start(struct hf_stream *stream, hf_error *why)
{
    const struct hf_stream_settings *settings = &stream->settings;
    int rc = 0;

    stream->state = STREAM_RESOLVING;
    if (!stream->resolve)
        rc = hf__resolve_start(settings->host, settings->port, &stream->resolve);
    if (rc != 0)
        return hf__fail_sys(why, rc == -ENOMEM ? HF_ENOMEM : HF_ESYSTEM, -rc,
                            "cannot look for the host %s", settings->host);
    rc = hf__stream_watch(stream, hf__resolve_fd(stream->resolve), EPOLLIN);
    return rc == 0 ? 0 : hf__fail_code(why, rc);
}

/* ---- The opening --------------------------------------------------------------- */

void hf__stream_open_step(struct hf_stream *stream)
{
    if (stream->state == STREAM_RESOLVING)
        resolve_step(stream);
    else if (stream->state == STREAM_CONNECTING)
        connect_step(stream);
    else
        handshake_step(stream);
}

static const char *awaited(const struct hf_stream *stream)
{
    if (stream->state == STREAM_RESOLVING)
        return "no address";
    return stream->state == STREAM_HANDSHAKE ? "no TLS handshake" : "no answer";
}

void hf__stream_open_late(struct hf_stream *stream)
{
    bool over = now_of(stream) >= stream->deadline_ns;
    bool waits = stream->state == STREAM_CONNECTING && stream->fd < 0;

    if (!over && waits) {
        connect_next(stream);
        return;
    }
    if (!waits)
        hf__error_set(&stream->why, HF_EUNREACHABLE, "%s from %s in time",
                      awaited(stream), stream->peer);
    if (over || stream->state == STREAM_RESOLVING)
        hf__stream_break_later(stream);
    else
        address_failed(stream);
}

static int open_begin(struct hf_stream *stream, hf_error *why)
{
    const struct hf_stream_settings *settings = &stream->settings;

    if (*settings->unix_path)
        hf__resolve_path(settings->unix_path, &stream->addresses);
    else if (!hf__resolve_literal(settings->host, settings->port, &stream->addresses))
        return resolve_start(stream, why);
    connect_next(stream);
    return 0;
}

int hf__stream_open(struct hf_stream *stream, hf_error *why)
{
    hf__stream_close(stream);
    stream->deadline_ns = now_of(stream) + stream->settings.connect_ns;
    stream->tried = 0;
    if (stream->host->ops->set_timer(stream->host, &stream->timer,
                                     stream->deadline_ns) != 0)
        return hf__fail_code(why, HF_ENOMEM);
    int rc = open_begin(stream, why);
    if (rc != 0)
        hf__stream_close(stream);
    return rc;
}
