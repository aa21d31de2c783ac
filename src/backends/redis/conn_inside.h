/* SPDX-License-Identifier: MIT */
/*
 * What the files of the connection share. conn.c leads: it opens, loses and opens again, and
 * keeps the time. conn_handshake.c is what is said first on a connection, conn_socket.c the
 * calls on it, conn_read.c their replies, conn_channels.c the subscriptions.
 *
 *     WAITING --timer--> CONNECTING --opened--> SHAKING --answered--> UP
 *        ^_________________________________________________________|  hf__redis_conn_lost()
 */
#ifndef HF_REDIS_CONN_INSIDE_H
#define HF_REDIS_CONN_INSIDE_H

#include "../../base/rand.h"
#include "conn.h"

enum conn_state { CONN_WAITING = 0, CONN_CONNECTING, CONN_HANDSHAKE, CONN_UP };

/* What a command in flight is, which says what becomes of its reply. */
enum request_type {
    REQUEST_COMMAND = 0, /* a caller's */
    REQUEST_EVALSHA,     /* a caller's script, whose text the server may not have */
    REQUEST_SUBSCRIBE,   /* subject: the channel */
    REQUEST_UNSUBSCRIBE, /* subject: the channel */
    REQUEST_PING,        /* only to hear whether somebody is there */
    REQUEST_HELLO,       /* from here on: the handshake */
    REQUEST_AUTH,
    REQUEST_NAME,
    REQUEST_SELECT,
    REQUEST_INFO,
    REQUEST_INBOX,
    REQUEST_READY,
};

struct conn_request {
    conn_reply *reply; /* NULL: nobody wants to know */
    void *subject;
    uint64_t word;
    int64_t sent_ns;
    const struct script *script;
    uint32_t kept; /* bytes of the command, in the wire's `kept` */
    uint16_t type; /* enum request_type */
    bool undoable;
};

/* A connection with its calls in flight, first to end; those before `flushed` have been
 * given to the stream. All three run freely; the ring's size cuts them. */
struct conn_socket {
    struct redis_conn *conn;
    struct hf_stream *stream;
    bool connected;          /* the handshake was written */
    unsigned handshake_left; /* answers that the handshake waits for */
    int64_t heard_ns;        /* something came at this moment or later */
    int64_t progress_ns;     /* a reply came, and others were still to come */
    struct conn_request *requests;
    uint32_t room, first, flushed, end;
    char *kept; /* ring of bytes: the commands of script calls in flight */
    size_t kept_room, kept_first, kept_end;
};

struct channel {
    struct channel *next; /* in its bucket */
    uint32_t hash, len;
    uint32_t count;   /* who wants it; 0: about to go */
    uint32_t pending; /* commands about it in flight */
    bool on;          /* confirmed, and nothing is pending */
    char name[];
};

struct redis_conn {
    struct hf_host *host;
    struct conn_settings settings; /* its texts lie in `texts` */
    char *texts;
    size_t texts_size;
    const struct conn_user *user;
    void *session;

    enum conn_state state;
    int protocol;          /* 2 or 3 */
    unsigned socket_count; /* 1, or with RESP2 2; subscriptions go over the last one */
    struct conn_socket sockets[2];
    unsigned reading;      /* inside of the handling of input: flushed at its end */
    struct resp *nodes;    /* of the reply at hand */
    struct resp_arg *args; /* of the script call being written */
    size_t args_room;
    char version[24];

    struct hf_timer timer;
    unsigned attempts; /* since it was up for a while */
    int64_t up_ns;
    bool distrusted; /* the reply at hand was not the answer to its call */
    bool opening;    /* inside of hf__redis_conn_open() */
    bool no_retry;   /* and trying again will not help */
    hf_error why;    /* the last reason to be down */
    struct hf_random random;

    struct channel **buckets;
    uint32_t bucket_count, channel_count;
};

static inline int64_t conn_now(struct redis_conn *conn)
{
    return conn->host->ops->now(conn->host);
}

static inline struct conn_socket *channel_socket(struct redis_conn *conn)
{
    return &conn->sockets[conn->socket_count - 1];
}

/* ---- conn.c ---------------------------------------------------------------------- */

/* The connection is no good: closes it, answers what was in flight, tries again later,
 * or at once where nothing was wrong but the way to speak. */
void hf__redis_conn_lost(struct redis_conn *conn, const hf_error *why);
void hf__redis_conn_reopen(struct redis_conn *conn);
/* The handshake on this wire is done. */
void hf__redis_socket_ready(struct conn_socket *sock);
/* A command was written at `now_ns`: its deadline counts. */
void hf__redis_conn_expect_reply(struct redis_conn *conn, int64_t now_ns);

/* ---- conn_handshake.c ---------------------------------------------------------------- */

/* Writes the whole handshake. 0 or HF_ENOMEM. */
int hf__redis_handshake_begin(struct conn_socket *sock);
/* The answer to one of its steps, NULL for a confirmation; may lose the connection. */
void hf__redis_handshake_reply(struct conn_socket *sock, enum request_type type,
                               const struct resp *nodes);

/* ---- conn_socket.c ----------------------------------------------------------------- */

/* Appends a command to the wire. 0 or HF_ENOMEM: then nothing is changed. */
int hf__redis_socket_put(struct conn_socket *sock, const struct resp_arg *args,
                         size_t count, const struct conn_request *request);
/* Sends what was written, now; or now only if few answers are on their way. */
void hf__redis_socket_flush(struct conn_socket *sock);
void hf__redis_socket_forget_all(
    struct conn_socket *sock); /* nobody wants to know the answers */
void hf__redis_socket_flush_soon(struct conn_socket *sock);
/* Gives back the room that many commands at once have taken, once all are answered. */
void hf__redis_socket_trim(struct conn_socket *sock);
/* The oldest call, which is taken off the wire. */
struct conn_request hf__redis_socket_pop(struct conn_socket *sock);
void hf__redis_conn_answer(struct redis_conn *conn, const struct conn_request *request,
                           const struct resp *nodes, const hf_error *why);
/* The server did not know the script of this call, the last one popped, so it did
 * nothing: the call begins anew, with the full text, unless it has been revoked. */
void hf__redis_socket_send_again(struct conn_socket *sock,
                                 const struct conn_request *request);
/* Answers every call on the wire with `why`, as uncertain or never sent. */
void hf__redis_socket_fail_requests(struct conn_socket *sock, const hf_error *why);
void hf__redis_socket_done(struct conn_socket *sock, bool forked);

/* ---- conn_read.c ----------------------------------------------------------------- */

/* Handles all input that is there. */
void hf__redis_socket_read(struct conn_socket *sock);

/* ---- conn_channels.c ------------------------------------------------------------- */

/* A new connection: SUBSCRIBE for all. 0 or HF_ENOMEM. */
int hf__redis_channels_restore(struct redis_conn *conn);
/* The connection is gone, and with it every subscription. */
void hf__redis_channels_lost(struct redis_conn *conn);
/* The server confirmed the command, or refused it. */
void hf__redis_channel_answered(struct redis_conn *conn, struct channel *channel,
                                enum request_type type, bool refused);
void hf__redis_channels_done(struct redis_conn *conn);

#endif
