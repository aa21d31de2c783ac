/* SPDX-License-Identifier: MIT */
/*
 * The connection to the server: one socket that speaks RESP3, or two sockets where the
 * server knows only RESP2 (the second for subscriptions). Handshake, pipelining,
 * scripts by SHA with NOSCRIPT recovery, subscriptions, reconnection with jittered
 * back-off, deadlines. Knows no locks.
 *
 * A request is answered exactly once: with the reply, or with NULL and an error that
 * says whether the server may have executed it (HF_EUNCERTAIN) or cannot have
 * (HF_EUNREACHABLE, HF_ENOMEM: it was never sent). The connection repeats a request
 * only if the server did not know its script.
 */
#ifndef HF_REDIS_CONN_H
#define HF_REDIS_CONN_H

#include "../../kit/stream.h"
#include "resp.h"

struct redis_conn;
struct script; /* scripts.h: text and SHA1 in hex */

/* `nodes` is the reply (nodes[0]), valid during the callback. NULL: no reply will come,
 * for the reason in `why`. An error reply is a reply. `sent_ns` is a moment before the
 * request was sent. */
typedef void conn_reply(void *session, void *subject, uint64_t word,
                        const struct resp *nodes, int64_t sent_ns, const hf_error *why);

struct conn_settings {
    struct hf_stream_settings stream;
    const char *user, *password; /* "" if none; copied, wiped at the end */
    const char *client_name;     /* CLIENT SETNAME; "" for none */
    uint32_t database;
    int64_t request_ns; /* no reply for so long: the connection is closed */
    int protocol;       /* 0: RESP3 if the server can; 2 or 3: that one */
    const char *inbox;  /* the channel that is always subscribed */
};

struct conn_user {
    /* Connected and subscribed (again): waiters should ask again. */
    void (*up)(void *session);
    /* Lost; requests under way have been answered. It reconnects by itself. */
    void (*down)(void *session, const hf_error *why);
    /* A message on a channel. */
    void (*message)(void *session, const char *channel, size_t channel_len,
                    const char *payload, size_t payload_len);
    /* A channel of hf__redis_conn_subscribe() is subscribed now (reported on every
     * connection). */
    void (*subscribed)(void *session, const char *channel, size_t channel_len);
};

/* Connects, and blocks until the handshake is done or has failed: HF_EUNREACHABLE,
 * HF_EREFUSED (password, ACL), HF_EUNSUPPORTED (too old), HF_EURL. */
int hf__redis_conn_open(struct hf_host *host, const struct conn_settings *settings,
                        const struct conn_user *user, void *session,
                        struct redis_conn **ret_conn, hf_error *why);
/* No callback after this. */
void hf__redis_conn_close(struct redis_conn *conn, bool forked);

/* Before hf__redis_conn_close(): no callback after hf__redis_conn_mute().
 * hf__redis_conn_drain() then blocks until the server has answered all requests, at
 * most for `patience_ns` from when the oldest of them was sent: a server that is silent
 * already is not waited for once more. */
void hf__redis_conn_mute(struct redis_conn *conn);
void hf__redis_conn_drain(struct redis_conn *conn, int64_t patience_ns);

bool hf__redis_conn_is_up(const struct redis_conn *conn);
/* More than a thousand requests are under way: do not add what will be asked again. */
bool hf__redis_conn_is_crowded(const struct redis_conn *conn);
const char *hf__redis_conn_version(const struct redis_conn *conn); /* "7.0.15" */

/* Sends a command, or a script with its keys and arguments, pipelined with others.
 * `subject` and `word` are the caller's, handed to `reply`. While the connection is
 * down the answer (NULL, HF_EUNREACHABLE) comes inside this function. */
void hf__redis_conn_send(struct redis_conn *conn, const struct resp_arg *args,
                         size_t count, conn_reply *reply, void *subject, uint64_t word);
void hf__redis_conn_eval(struct redis_conn *conn, const struct script *script,
                         const struct resp_arg *keys, size_t key_count,
                         const struct resp_arg *args, size_t arg_count,
                         conn_reply *reply, void *subject, uint64_t word);
/* For a script whose effect a later request about the same subject undoes. If the
 * server did not know the script, and the later request is under way by now (or the
 * subject is forgotten), the script is not sent again, as it would run after the
 * request that should undo it: the answer is HF_EUNREACHABLE. */
void hf__redis_conn_eval_undoable(struct redis_conn *conn, const struct script *script,
                                  const struct resp_arg *keys, size_t key_count,
                                  const struct resp_arg *args, size_t arg_count,
                                  conn_reply *reply, void *subject, uint64_t word);

/* Called in the callback of a reply that cannot belong to its request: no later reply
 * can be trusted either, so the connection is closed when the callback has returned. */
void hf__redis_conn_distrust(struct redis_conn *conn);

/* From here on requests with this subject end without a callback. */
void hf__redis_conn_forget(struct redis_conn *conn, const void *subject);

/* Counted: as many unsubscribes as subscribes end the subscription. The first subscribe
 * sends SUBSCRIBE; `subscribed` is called when the server has confirmed it, or inside
 * this function if the server had confirmed it before. 0 or HF_ENOMEM. */
int hf__redis_conn_subscribe(struct redis_conn *conn, const char *channel, size_t len);
void hf__redis_conn_unsubscribe(struct redis_conn *conn, const char *channel,
                                size_t len);

#endif
