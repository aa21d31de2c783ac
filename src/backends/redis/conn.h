/* SPDX-License-Identifier: MIT */
/*
 * The way to the server: one connection that speaks RESP3, or two where the server
 * knows only RESP2 (the second for subscriptions). Handshake, pipelining, scripts by
 * SHA with NOSCRIPT recovery, subscriptions, reconnection with jittered back-off,
 * deadlines. Knows no locks.
 *
 * A call is answered exactly once: with the reply, or with NULL and an error that says
 * whether the server may have done it (HF_EUNCERTAIN) or cannot have (HF_EUNREACHABLE,
 * HF_ENOMEM: it was never sent). Nothing is sent again behind the caller's back, but
 * for scripts the server did not know.
 */
#ifndef HF_REDIS_CONN_H
#define HF_REDIS_CONN_H

#include "../../kit/stream.h"
#include "resp.h"

struct redis_conn;
struct script; /* scripts.h: text and SHA1 in hex */

/* `nodes` is the reply (nodes[0]), valid during the call; NULL: none will come, `why`
 * says why. An error reply is a reply. `sent_ns` is a moment before it was sent. */
typedef void conn_reply(void *session, void *subject, uint64_t word,
                        const struct resp *nodes, int64_t sent_ns, const hf_error *why);

struct conn_settings {
    struct hf_stream_settings stream;
    const char *user, *password; /* "" if none; copied, wiped at the end */
    const char *client_name;     /* CLIENT SETNAME; "" for none */
    uint32_t database;
    int64_t request_ns; /* no reply for so long: the connection is given up */
    int protocol;       /* 0: RESP3 if the server can; 2 or 3: that one */
    const char *inbox;  /* a channel to be subscribed always */
};

struct conn_user {
    /* Connected and subscribed (again): whoever waits should look again. */
    void (*up)(void *session);
    /* Gone; calls under way have been answered. The connection tries again by itself. */
    void (*down)(void *session, const hf_error *why);
    /* A message on a channel. */
    void (*message)(void *session, const char *channel, size_t channel_len,
                    const char *payload, size_t payload_len);
    /* A channel of hf__redis_conn_subscribe() is subscribed now (told on every connection). */
    void (*subscribed)(void *session, const char *channel, size_t channel_len);
};

/* Connects and shakes hands, blocking until that is done or failed: HF_EUNREACHABLE,
 * HF_EREFUSED (password, ACL), HF_EUNSUPPORTED (too old), HF_EURL. */
int hf__redis_conn_open(struct hf_host *host, const struct conn_settings *settings,
                        const struct conn_user *user, void *session,
                        struct redis_conn **ret_link, hf_error *why);
void hf__redis_conn_close(struct redis_conn *conn,
                          bool forked); /* no answer comes any more */

/* Before hf__redis_conn_close(): from here on nothing is told. hf__redis_conn_drain() then blocks until
 * the server has answered all that was asked, at most for `patience_ns`, which counts
 * from when the oldest of that was sent: a server that is silent already is not waited
 * for once more. */
void hf__redis_conn_mute(struct redis_conn *conn);
void hf__redis_conn_drain(struct redis_conn *conn, int64_t patience_ns);

bool hf__redis_conn_is_up(const struct redis_conn *conn);
/* Thousands of calls are under way: what can be asked for again should not be added. */
bool hf__redis_conn_is_crowded(const struct redis_conn *conn);
const char *hf__redis_conn_version(const struct redis_conn *conn); /* "7.0.15" */

/* Sends a command, or a script with its keys and arguments, in one flight with others.
 * `subject` and `word` are the caller's, handed to `reply`. While the connection is down the
 * answer (NULL, HF_EUNREACHABLE) comes at once, inside the call. */
void hf__redis_conn_send(struct redis_conn *conn, const struct resp_arg *args,
                         size_t count, conn_reply *reply, void *subject, uint64_t word);
void hf__redis_conn_eval(struct redis_conn *conn, const struct script *script,
                         const struct resp_arg *keys, size_t key_count,
                         const struct resp_arg *args, size_t arg_count,
                         conn_reply *reply, void *subject, uint64_t word);
/* For a script whose work a later call about the same subject undoes. If the server did
 * not know it, and that call is on its way by now (or the subject forgotten), it is not
 * sent again, behind the one that should undo it: the answer is HF_EUNREACHABLE. */
void hf__redis_conn_eval_undoable(struct redis_conn *conn, const struct script *script,
                                  const struct resp_arg *keys, size_t key_count,
                                  const struct resp_arg *args, size_t arg_count,
                                  conn_reply *reply, void *subject, uint64_t word);

/* Inside of a reply that cannot be the answer to its call: no other one can be trusted
 * either, and the connection ends when the callback has returned. */
void hf__redis_conn_distrust(struct redis_conn *conn);

/* No answer to calls with this subject may come any more. */
void hf__redis_conn_forget(struct redis_conn *conn, const void *subject);

/* Counted: as many unsubscribes as subscribes end the subscription. The first one sends
 * SUBSCRIBE; `subscribed` comes when the server has confirmed, inside the call if it
 * had before. 0 or HF_ENOMEM. */
int hf__redis_conn_subscribe(struct redis_conn *conn, const char *channel, size_t len);
void hf__redis_conn_unsubscribe(struct redis_conn *conn, const char *channel,
                                size_t len);

#endif
