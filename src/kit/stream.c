/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing a stream, its registration in the loop, input and output.
 *
 * Called by one session, under the client's lock, and by the loop. The hot path is one
 * send(2) in hf__stream_flush() and one recv(2) when the loop says that the socket is
 * readable; the loop is asked for EPOLLOUT only while a write was short. Both detect
 * that the peer has closed the connection. Then all input that had arrived is read
 * first, because a server's last message says why it closed, and `broken` is called
 * after that.
 *
 * No SIGPIPE: every send has MSG_NOSIGNAL, and TLS has a BIO of its own for that. After
 * each callback `epoch` shows whether the user has closed the stream.
 */
#include "stream_internal.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READ_LEAST ((size_t)4 << 10) /* room for one recv */
#define CONNECT_DEFAULT_NS (5 * HF_NS_PER_S)

enum { REST_READS = 64 };

/* ---- In the loop --------------------------------------------------------------- */

static void on_ready(void *arg, uint32_t events);
static void on_timer(void *arg);

void hf__stream_unwatch(struct hf_stream *stream)
{
    if (stream->watched_fd >= 0)
        stream->host->ops->remove_fd(stream->host, stream->watched_fd);
    stream->watched_fd = -1;
    stream->watched = 0;
}

int hf__stream_watch(struct hf_stream *stream, int fd, uint32_t events)
{
    if (stream->watched_fd == fd && stream->watched == events)
        return 0;
    hf__stream_unwatch(stream);
    int rc = stream->host->ops->add_fd(stream->host, fd, events, on_ready, stream);
    if (rc == 0) {
        stream->watched_fd = fd;
        stream->watched = events;
    }
    return rc;
}

void hf__stream_break_later(struct hf_stream *stream)
{
    int64_t now = stream->host->ops->now(stream->host);
    stream->breaking = true;
    stream->host->ops->set_timer(stream->host, &stream->timer, now);
}

void hf__stream_drop_socket(struct hf_stream *stream, bool notify)
{
    hf__stream_unwatch(stream);
    if (stream->session)
        stream->tls->session_free(stream->session, notify);
    stream->session = NULL;
    if (stream->fd >= 0)
        close(stream->fd);
    stream->fd = -1;
}

void hf__stream_close(struct hf_stream *stream)
{
    hf__stream_drop_socket(stream, stream->state == STREAM_OPEN && !stream->breaking);
    stream->host->ops->stop_timer(stream->host, &stream->timer);
    stream->state = STREAM_CLOSED;
    stream->breaking = false;
    stream->read_wants = stream->write_wants = 0;
    stream->in.from = stream->in.to = 0;
    hf__buffer_wipe(&stream->out);
    stream->epoch++;
}

static void stream_break(struct hf_stream *stream, const hf_error *why)
{
    hf_error copy = *why;
    stream->breaking = true;
    hf__stream_close(stream);
    stream->user.broken(stream->arg, &copy);
}

bool hf__stream_is_open(const struct hf_stream *stream)
{
    return stream->state == STREAM_OPEN && !stream->breaking;
}

/* ---- Input --------------------------------------------------------------------- */

static ssize_t peer_closed(const struct hf_stream *stream, int sys, hf_error *why)
{
    if (sys)
        return hf__fail_sys(why, HF_EUNREACHABLE, sys, "the connection to %s broke",
                            stream->peer);
    return hf__fail(why, HF_EUNREACHABLE, "%s closed the connection", stream->peer);
}

static bool is_again(int sys)
{
    return sys == EAGAIN || sys == EWOULDBLOCK || sys == EINTR;
}

/* Bytes, 0: none now, or a code. */
static ssize_t pull(struct hf_stream *stream, char *data, size_t size, hf_error *why)
{
    if (stream->tls) {
        stream->read_wants = EPOLLIN;
        return stream->tls->read(stream->session, data, size, &stream->read_wants, why);
    }
    ssize_t got = recv(stream->fd, data, size, 0);
    if (got > 0)
        return got;
    if (got < 0 && is_again(errno))
        return 0;
    return peer_closed(stream, got < 0 ? errno : 0, why);
}

/* One read and its callback. > 0: there may be more; 0: not now; < 0: the stream
 * ends. */
static ssize_t read_once(struct hf_stream *stream, hf_error *why)
{
    char *room = hf__buffer_room(&stream->in, READ_LEAST);
    if (!room)
        return hf__fail(why, HF_EUNREACHABLE,
                        "no room for what %s sent, which may be too long",
                        stream->peer);
    ssize_t got = pull(stream, room, hf__buffer_free(&stream->in), why);
    if (got <= 0)
        return got;
    stream->in.to += (size_t)got;
    stream->user.readable(stream->arg);
    return got;
}

/* False if the stream was closed or opened anew meanwhile. */
static bool read_ready(struct hf_stream *stream)
{
    uint32_t epoch = stream->epoch;
    hf_error why;
    ssize_t got;

    do {
        got = read_once(stream, &why);
        if (stream->epoch != epoch)
            return false;
    } while (got > 0 && stream->tls && stream->tls->pending(stream->session));
    if (got >= 0)
        return true;
    stream_break(stream,
                 stream->breaking && why.code != HF_EREFUSED ? &stream->why : &why);
    return false;
}

/* Reads what had arrived, then ends the stream. */
static void read_rest(struct hf_stream *stream)
{
    uint32_t epoch = stream->epoch;
    hf_error why = stream->why, last;
    ssize_t got = 1;

    for (int i = 0; i < REST_READS && got > 0; i++) {
        got = read_once(stream, &last);
        if (stream->epoch != epoch)
            return;
    }
    stream_break(stream, got < 0 && last.code == HF_EREFUSED ? &last : &why);
}

const char *hf__stream_input(const struct hf_stream *stream, size_t *ret_size)
{
    *ret_size = hf__buffer_used(&stream->in);
    return *ret_size ? stream->in.data + stream->in.from : "";
}

void hf__stream_consume(struct hf_stream *stream, size_t size)
{
    hf__buffer_consume(&stream->in, size);
}

/* ---- Output -------------------------------------------------------------------- */

static ssize_t push(struct hf_stream *stream, const char *data, size_t size)
{
    if (stream->tls) {
        stream->write_wants = EPOLLOUT;
        return stream->tls->write(stream->session, data, size, &stream->write_wants,
                                  &stream->why);
    }
    stream->write_wants = EPOLLOUT;
    ssize_t sent = send(stream->fd, data, size, MSG_NOSIGNAL);
    if (sent >= 0)
        return sent;
    return is_again(errno) ? 0 : peer_closed(stream, errno, &stream->why);
}

/* Without TLS a short write means that the socket is full: no second try. */
static void write_out(struct hf_stream *stream)
{
    size_t left = hf__buffer_used(&stream->out);
    while (left > 0) {
        ssize_t sent = push(stream, stream->out.data + stream->out.from, left);
        if (sent < 0) {
            hf__stream_break_later(stream);
            return;
        }
        hf__buffer_consume(&stream->out, (size_t)sent);
        left -= (size_t)sent;
        if (sent == 0 || !stream->tls)
            break;
    }
    if (left == 0)
        stream->write_wants = 0;
}

/* The registration follows what input and output wait for. */
static void rewatch(struct hf_stream *stream)
{
    uint32_t wants = (stream->read_wants | stream->write_wants) & EPOLLOUT;
    if (stream->breaking || stream->watched == (EPOLLIN | wants))
        return;
    if (hf__stream_watch(stream, stream->fd, EPOLLIN | wants) == 0)
        return;
    hf__error_set(&stream->why, HF_ESYSTEM, "the connection to %s cannot be watched",
                  stream->peer);
    hf__stream_break_later(stream);
}

char *hf__stream_room(struct hf_stream *stream, size_t size)
{
    return hf__buffer_room(&stream->out, size);
}

void hf__stream_wrote(struct hf_stream *stream, size_t size)
{
    stream->out.to += size;
}

bool hf__stream_flush(struct hf_stream *stream)
{
    if (!hf__stream_is_open(stream) || stream->watched & EPOLLOUT)
        return true;
    size_t gathered = hf__buffer_used(&stream->out);
    write_out(stream);
    rewatch(stream);
    return stream->tls || !stream->breaking || hf__buffer_used(&stream->out) < gathered;
}

/* ---- Events -------------------------------------------------------------------- */

/* TLS may need one direction to go on with the other. */
static void transfer(struct hf_stream *stream, uint32_t events)
{
    bool both = stream->tls != NULL;
    if ((both || events & ~(uint32_t)EPOLLOUT) && !read_ready(stream))
        return;
    if ((both || events & EPOLLOUT) && !stream->breaking)
        write_out(stream);
    rewatch(stream);
}

static void on_ready(void *arg, uint32_t events)
{
    struct hf_stream *stream = arg;
    if (stream->state == STREAM_OPEN)
        transfer(stream, events);
    else if (!stream->breaking)
        hf__stream_open_step(stream);
}

static void on_timer(void *arg)
{
    struct hf_stream *stream = arg;
    if (!stream->breaking)
        hf__stream_open_late(stream);
    else if (stream->state == STREAM_OPEN)
        read_rest(stream);
    else
        stream_break(stream, &stream->why);
}

bool hf__stream_pump(struct hf_stream *stream, int64_t deadline_ns)
{
    const struct hf_host_ops *ops = stream->host->ops;
    int64_t until = deadline_ns;
    struct pollfd polled = { .fd = stream->watched_fd,
                             .events = (short)stream->watched };
    int64_t now;

    if (stream->timer.slot && stream->timer.at_ns < until)
        until = stream->timer.at_ns;
    do {
        now = ops->now(stream->host);
        if (poll(&polled, 1, hf__poll_ms(now, until)) > 0) {
            on_ready(stream, (uint32_t)polled.revents);
            return true;
        }
        now = ops->now(stream->host);
    } while (now < until);
    if (!stream->timer.slot || stream->timer.at_ns > now)
        return false;
    ops->stop_timer(stream->host, &stream->timer);
    on_timer(stream);
    return true;
}

/* ---- Life ---------------------------------------------------------------------- */

const char *hf__stream_tls_name(const struct hf_stream_settings *settings)
{
    return *settings->tls_name ? settings->tls_name : settings->host;
}

static int settings_check(const struct hf_stream_settings *settings, hf_error *why)
{
    struct hf_addresses found;

    if (*settings->unix_path && !hf__resolve_path(settings->unix_path, &found))
        return hf__fail(why, HF_EURL, "the path of the socket is too long");
    if (!*settings->unix_path && !*settings->host)
        return hf__fail(why, HF_EURL, "there is no host to connect to");
    if (!*settings->unix_path && settings->port == 0)
        return hf__fail(why, HF_EURL, "there is no port to connect to");
    if (settings->tls && !settings->tls_insecure && !*hf__stream_tls_name(settings))
        return hf__fail(why, HF_EURL,
                        "TLS on a unix socket needs the name to expect (tls_name)");
    return 0;
}

/* Two passes over the strings: how long they are, then where they go. */
static int settings_copy(struct hf_stream *stream,
                         const struct hf_stream_settings *settings)
{
    struct hf_stream_settings *copy = &stream->settings;
    const char **texts[] = { &copy->host,     &copy->unix_path, &copy->tls_ca,
                             &copy->tls_cert, &copy->tls_key,   &copy->tls_name };
    size_t count = sizeof(texts) / sizeof(texts[0]), size = 0;

    *copy = *settings;
    for (size_t i = 0; i < count; i++) {
        *texts[i] = *texts[i] ? *texts[i] : "";
        size += strlen(*texts[i]) + 1;
    }
    char *at = stream->texts = hf__alloc(size);
    for (size_t i = 0; i < count && at; i++) {
        size_t len = strlen(*texts[i]) + 1;
        *texts[i] = memcpy(at, *texts[i], len);
        at += len;
    }
    if (copy->connect_ns <= 0)
        copy->connect_ns = CONNECT_DEFAULT_NS;
    return at ? 0 : HF_ENOMEM;
}

static void peer_write(struct hf_stream *stream)
{
    const struct hf_stream_settings *settings = &stream->settings;
    const char *format = strchr(settings->host, ':') ? "[%s]:%u" : "%s:%u";

    if (*settings->unix_path)
        snprintf(stream->peer, sizeof(stream->peer), "%s", settings->unix_path);
    else
        snprintf(stream->peer, sizeof(stream->peer), format, settings->host,
                 (unsigned)settings->port);
}

static int stream_init(struct hf_stream *stream, hf_error *why)
{
    const struct hf_stream_settings *settings = &stream->settings;
    int rc = settings_check(settings, why);
    if (rc == 0 && settings->tls)
        rc = hf__tls_load(&stream->tls, why);
    if (rc == 0 && settings->tls)
        rc = stream->tls->context_new(settings, &stream->context, why);
    if (rc == 0)
        peer_write(stream);
    return rc;
}

int hf__stream_new(struct hf_host *host, const struct hf_stream_settings *settings,
                   const struct hf_stream_user *user, void *arg,
                   struct hf_stream **ret_stream, hf_error *why)
{
    struct hf_stream *stream = hf__alloc(sizeof(*stream));
    int rc = HF_ENOMEM;

    if (!stream)
        return hf__fail_code(why, HF_ENOMEM);
    stream->host = host;
    stream->user = *user;
    stream->arg = arg;
    stream->fd = stream->watched_fd = -1;
    stream->timer.callback = on_timer;
    stream->timer.arg = stream;
    if (settings_copy(stream, settings) != 0)
        hf__error_set(why, HF_ENOMEM, "%s", hf_error_sentence(HF_ENOMEM));
    else
        rc = stream_init(stream, why);
    if (rc == 0)
        *ret_stream = stream;
    else
        hf__stream_done(stream, false);
    return rc;
}

/* In a forked child the sockets belong to the parent, too: they are closed without
 * touching the loop's epoll and without a message to the peer. Timers are memory of
 * this process. */
void hf__stream_done(struct hf_stream *stream, bool forked)
{
    if (!stream)
        return;
    if (!forked)
        hf__stream_close(stream);
    stream->host->ops->stop_timer(stream->host, &stream->timer);
    stream->watched_fd = -1;
    hf__stream_drop_socket(stream, false);
    hf__resolve_drop(stream->resolve, forked);
    if (stream->context)
        stream->tls->context_free(stream->context);
    hf__buffer_done(&stream->in);
    hf__buffer_done(&stream->out);
    hf__free(stream->texts);
    hf__free(stream);
}

const char *hf__stream_peer(const struct hf_stream *stream)
{
    return stream->peer;
}
