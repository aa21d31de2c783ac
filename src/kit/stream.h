/* SPDX-License-Identifier: MIT */
/*
 * A byte stream to a server: TCP, unix socket, TLS on either. Never blocks except in
 * hf__stream_pump(), which is for the open() of a store.
 *
 * Used by one session, under the client's lock, on the loop that the host offers.
 * Output is gathered and sent by hf__stream_flush(); input waits in one buffer until
 * the user consumes it. Either holds at most 64 MiB. A stream that broke stays broken:
 * hf__stream_open() begins anew with the next address. The callbacks may call any
 * function of the stream except hf__stream_done().
 */
#ifndef HF_KIT_STREAM_H
#define HF_KIT_STREAM_H

#include "../../include/holdfast/backend.h"

struct hf_stream;

struct hf_stream_settings {
    const char *host; /* name or address; "" with unix_path */
    uint16_t port;
    const char *unix_path; /* "" for TCP */
    int64_t connect_ns;    /* resolve + connect + TLS; per opening */

    bool tls;
    bool tls_insecure;    /* do not verify: for tests, never by default */
    const char *tls_ca;   /* file or directory of CA certificates; "": the system's */
    const char *tls_cert; /* client certificate chain, PEM; "" if none */
    const char *tls_key;  /* its key; "": in tls_cert */
    const char *tls_name; /* name to expect and to send (SNI); "": host */
};

struct hf_stream_user {
    void (*opened)(void *arg);                      /* may send now */
    void (*readable)(void *arg);                    /* more input has arrived */
    void (*broken)(void *arg, const hf_error *why); /* HF_EUNREACHABLE, HF_EREFUSED */
};

/* Copies the settings. Reads CA and certificates at once: HF_EURL names what is wrong
 * with them. HF_EUNSUPPORTED for tls in a build without OpenSSL. */
int hf__stream_new(struct hf_host *host, const struct hf_stream_settings *settings,
                   const struct hf_stream_user *user, void *arg,
                   struct hf_stream **ret_stream, hf_error *why);

/* Closes and frees. `forked`: closes the descriptor and touches nothing else (no
 * epoll_ctl, no TLS close_notify). NULL is fine. */
void hf__stream_done(struct hf_stream *stream, bool forked);

/* Starts to connect, without blocking: a name is resolved on a thread of its own, a
 * literal address or path at once. Ends in `opened` or `broken`, never inside the call.
 * The buffers hold nothing of the former connection. */
int hf__stream_open(struct hf_stream *stream, hf_error *why);

/* Closes the connection now; no callback comes. */
void hf__stream_close(struct hf_stream *stream);
bool hf__stream_is_open(const struct hf_stream *stream);

/* Blocks in poll(2) until an event was handled (callbacks run), or until `deadline_ns`
 * of host->now(): then false. For open() of a store; with a deadline that has passed
 * also to handle what has arrived already. */
bool hf__stream_pump(struct hf_stream *stream, int64_t deadline_ns);

/* Room for `size` more bytes of output; the caller writes them and then counts them
 * with hf__stream_wrote(). NULL: out of memory, or 64 MiB wait to be sent. */
char *hf__stream_room(struct hf_stream *stream, size_t size);
void hf__stream_wrote(struct hf_stream *stream, size_t size);

/* Sends what was written. The loop reports a broken connection later, through `broken`.
 * False if the connection is known to be broken and the peer can have received nothing
 * of what was gathered. */
bool hf__stream_flush(struct hf_stream *stream);

/* Input that was not consumed yet. Pointers are valid until the next read. */
const char *hf__stream_input(const struct hf_stream *stream, size_t *ret_size);
void hf__stream_consume(struct hf_stream *stream, size_t size);

/* "host:port" or the path, for messages. Valid as long as the stream. */
const char *hf__stream_peer(const struct hf_stream *stream);

#endif
