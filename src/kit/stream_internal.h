/* SPDX-License-Identifier: MIT */
/*
 * What stream.c (opening and closing, loop, input and output) and stream_open.c (from
 * nothing to an open connection) share.
 *
 *     CLOSED -> RESOLVING -> CONNECTING -> HANDSHAKE -> OPEN -> CLOSED
 *
 * One descriptor is watched at a time: that of the lookup in RESOLVING, else the
 * socket. The timer is set from open to close, so that moving it cannot fail (nor can
 * setting it again where it has just fired): in the first three states it is the end of
 * the step, in OPEN it is HF_NEVER. A stream that must break is `breaking` and its
 * timer due; the timer calls `broken`.
 */
#ifndef HF_KIT_STREAM_INTERNAL_H
#define HF_KIT_STREAM_INTERNAL_H

#include "buffer.h"
#include "resolve.h"
#include "stream.h"
#include "tls.h"

enum stream_state {
    STREAM_CLOSED = 0,
    STREAM_RESOLVING,
    STREAM_CONNECTING, /* without a descriptor: the peer's backlog is full, try again */
    STREAM_HANDSHAKE,
    STREAM_OPEN,
};

struct hf_stream {
    struct hf_host *host;
    struct hf_stream_user user;
    void *arg;
    struct hf_stream_settings settings; /* strings are in `texts` */
    char *texts;
    char peer[288];

    enum stream_state state;
    int fd;
    int watched_fd;   /* -1: none */
    uint32_t watched; /* its events */
    uint32_t epoch;   /* how often it was closed: shows whether a callback did */
    struct hf_timer timer;

    bool breaking;
    hf_error why; /* of `breaking`, or of the last address that failed */

    struct hf_resolve *resolve; /* kept over a close, for the next opening */
    struct hf_addresses addresses;
    size_t first; /* the address to begin with */
    size_t tried; /* addresses of this opening that failed */
    int64_t deadline_ns;

    const struct hf_tls *tls; /* NULL without TLS */
    void *context;
    void *session;
    uint32_t read_wants, write_wants; /* EPOLLOUT: waits for it */

    struct hf_buffer in, out;
};

/* Watches `fd` for `events`, and nothing else any more. 0 or a code. */
int hf__stream_watch(struct hf_stream *stream, int fd, uint32_t events);
void hf__stream_unwatch(struct hf_stream *stream);

/* Has the loop call `broken` with stream->why. */
void hf__stream_break_later(struct hf_stream *stream);

/* Closes the socket (and its TLS session) but not the opening. */
void hf__stream_drop_socket(struct hf_stream *stream, bool notify);

/* The next step of an opening, when the watched descriptor or the timer says so. */
void hf__stream_open_step(struct hf_stream *stream);
void hf__stream_open_late(struct hf_stream *stream);

/* The name that the certificate must be for; "" if none can be given. */
const char *hf__stream_tls_name(const struct hf_stream_settings *settings);

#endif
