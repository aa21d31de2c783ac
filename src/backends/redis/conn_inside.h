/* SPDX-License-Identifier: MIT */
/*
 * What the files of the connection share. conn.c opens, loses and reopens it, and keeps
 * the deadlines; conn_handshake.c has the handshake, conn_socket.c the requests on a
 * socket, conn_read.c the replies, conn_channels.c the subscriptions.
 *
 *     WAITING --timer--> CONNECTING --opened--> HANDSHAKE --answered--> UP
 *        ^___________________________________________________________|  conn_lost
 */
#ifndef HF_REDIS_CONN_INSIDE_H
#define HF_REDIS_CONN_INSIDE_H

#include "../../base/rand.h"
#include "conn.h"

enum conn_state { CONN_WAITING = 0, CONN_CONNECTING, CONN_HANDSHAKE, CONN_UP };

/* What a request is, which decides what happens with its reply. */
enum request_type {
    REQUEST_COMMAND = 0, /* a caller's */
    REQUEST_EVALSHA,     /* a caller's script, whose text the server may not have */
    REQUEST_SUBSCRIBE,   /* subject: the channel */
    REQUEST_UNSUBSCRIBE, /* subject: the channel */
    REQUEST_PING,        /* to learn whether the server still answers */
    REQUEST_HELLO,       /* from here on: of the handshake */
    REQUEST_AUTH,
    REQUEST_NAME,
    REQUEST_SELECT,
    REQUEST_INFO,
    REQUEST_INBOX,
    REQUEST_READY,
};

struct conn_request {
    conn_reply *reply; /* NULL: no callback */
    void *subject;
    uint64_t word;
    int64_t sent_ns;
    const struct script *script;
    uint32_t kept; /* bytes of the command in the socket's `kept` */
    uint16_t type; /* enum request_type */
    bool undoable;
};

/* A socket with its requests in flight, first to end; those before `flushed` were given
 * to the stream. The three indices only grow, and are taken modulo the ring's size. */
struct conn_socket {
    struct redis_conn *conn;
    struct hf_stream *stream;
    bool connected;          /* the handshake was written */
    unsigned handshake_left; /* answers that the handshake waits for */
    int64_t heard_ns;        /* the server was heard at this moment or later */
    int64_t progress_ns;     /* a reply came while others were still due */
    struct conn_request *requests;
    uint32_t room, first, flushed, end;
    char *kept; /* ring of bytes: the script commands in flight */
    size_t kept_room, kept_first, kept_end;
};

struct channel {
    struct channel *next; /* in its bucket */
    uint32_t hash, len;
    uint32_t count;   /* how many subscribers; 0: to be removed */
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
    unsigned reading;      /* depth of hf__redis_socket_read(): it flushes last */
    struct resp *nodes;    /* of the reply being handled */
    struct resp_arg *args; /* of the script command being written */
    size_t args_room;
    char version[24];

    struct hf_timer timer;
    unsigned attempts; /* since it was up for a while */
    int64_t up_ns;
    bool distrusted; /* the reply being handled belongs to no request */
    bool opening;    /* inside of hf__redis_conn_open() */
    bool no_retry;   /* and trying again would not help */
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

/* The connection failed: closes it, answers the requests in flight, and tries again
 * later; reopen tries again at once, with another protocol. */
void hf__redis_conn_lost(struct redis_conn *conn, const hf_error *why);
void hf__redis_conn_reopen(struct redis_conn *conn);
/* The handshake on this socket is done. */
void hf__redis_socket_ready(struct conn_socket *sock);
/* A command was written at `now_ns`: sets the timer to its deadline if need be. */
void hf__redis_conn_expect_reply(struct redis_conn *conn, int64_t now_ns);

/* ---- conn_handshake.c ------------------------------------------------------------ */

/* Writes the whole handshake. 0 or HF_ENOMEM. */
int hf__redis_handshake_begin(struct conn_socket *sock);
/* A reply to one of its requests, NULL for a confirmation; may lose the connection. */
void hf__redis_handshake_reply(struct conn_socket *sock, enum request_type type,
                               const struct resp *nodes);

/* ---- conn_socket.c --------------------------------------------------------------- */

/* Appends a command to the socket's output. 0 or HF_ENOMEM: then nothing is changed. */
int hf__redis_socket_put(struct conn_socket *sock, const struct resp_arg *args,
                         size_t count, const struct conn_request *request);
/* Sends what was written; _soon only if few replies are due, which would send it. */
void hf__redis_socket_flush(struct conn_socket *sock);
void hf__redis_socket_flush_soon(struct conn_socket *sock);
/* The requests on the socket end without a callback. */
void hf__redis_socket_forget_all(struct conn_socket *sock);
/* Frees the memory that many commands at once took, when all are answered. */
void hf__redis_socket_trim(struct conn_socket *sock);
/* Removes the oldest request and returns it. */
struct conn_request hf__redis_socket_pop(struct conn_socket *sock);
void hf__redis_conn_answer(struct redis_conn *conn, const struct conn_request *request,
                           const struct resp *nodes, const hf_error *why);
/* The server did not know the script of this request, the last one popped, and executed
 * nothing: sends it again with the full text, unless a later request undoes it. */
void hf__redis_socket_send_again(struct conn_socket *sock,
                                 const struct conn_request *request);
/* Answers every request on the socket with `why`, as uncertain or never sent. */
void hf__redis_socket_fail_requests(struct conn_socket *sock, const hf_error *why);
void hf__redis_socket_done(struct conn_socket *sock, bool forked);

/* ---- conn_read.c ----------------------------------------------------------------- */

/* Handles all input that has arrived. */
void hf__redis_socket_read(struct conn_socket *sock);

/* ---- conn_channels.c ------------------------------------------------------------- */

/* A new connection: SUBSCRIBE for all. 0 or HF_ENOMEM. */
int hf__redis_channels_restore(struct redis_conn *conn);
/* The connection is lost, and every subscription with it. */
void hf__redis_channels_lost(struct redis_conn *conn);
/* The server confirmed the command, or refused it. */
void hf__redis_channel_answered(struct redis_conn *conn, struct channel *channel,
                                enum request_type type, bool refused);
void hf__redis_channels_done(struct redis_conn *conn);

#endif
