/* SPDX-License-Identifier: MIT */
/*
 * What the files of the client share. zk.c opens, keeps the time, loses the connection
 * and begins anew. zk_hosts.c has the list of servers, zk_handshake.c the start of a
 * connection, zk_requests.c the requests, zk_ring.c those that are pending, zk_read.c
 * the replies and events, zk_watches.c the watches that the server keeps for us,
 * zk_records.c and jute.c the protocol's records and bytes.
 *
 *     WAITING --timer--> CONNECTING --opened--> HANDSHAKE --> AUTH --> UP
 *        ^                                         |--> CLOSING_OLD (a session that has
 *        |_________________________________________|      expired here, but not there)
 *                                         hf__zk_lost()
 *
 * A session has an id from the handshake until it is over: because the server said so,
 * or because the time granted has passed (`expired`; the id is kept to end it
 * properly).
 */
#ifndef HF_ZK_INSIDE_H
#define HF_ZK_INSIDE_H

#include "../../../base/rand.h"
#include "jute.h"
#include "zk.h"
#include "zk_records.h"

enum { ZK_PASSWORD_MAX = 64 };

enum zk_state {
    ZK_STATE_WAITING = 0,
    ZK_STATE_CONNECTING,
    ZK_STATE_HANDSHAKE,
    ZK_STATE_AUTH,
    ZK_STATE_CLOSING_OLD,
    ZK_STATE_UP,
};

/* Kinds of watches, as bits. The server has at most one of a kind per path. */
enum { ZK_WATCH_DATA = 1, ZK_WATCH_EXIST = 2, ZK_WATCH_CHILD = 4 };

/* A path that is watched, or is about to be. */
struct zk_watch {
    struct zk_watch *next; /* in its bucket, or among the spare ones */
    uint32_t hash, len, room;
    uint32_t wanted;    /* requests that set it and are not taken back */
    uint32_t requested; /* of these, pending ones */
    uint32_t refs;      /* pending requests that point here, and the like */
    uint8_t set;        /* what the server has, by what has been read */
    char path[];        /* as the server knows it */
};

struct zk_watches {
    struct zk_watch **buckets;
    struct zk_watch *spare;
    uint32_t bucket_count, count, spare_count;
};

/* A request without a reply yet. */
struct zk_pending {
    zk_done *done; /* NULL: the reply is dropped */
    void *subject;
    uint64_t tag;
    int64_t sent_ns;
    struct zk_watch *watch; /* set or taken off by this one */
    uint32_t count;         /* operations of a multi */
    int32_t xid;
    int16_t opcode; /* enum zk_opcode */
};

/* Pending requests, first to end; those before `flushed` have been given to the stream.
 * All three only grow; an index is taken modulo the ring's size. */
struct zk_ring {
    struct zk_pending *entries;
    uint32_t room, first, flushed, end;
};

/* Requests that were answered on this connection, one per 24th of a session, and of
 * which the leader may not have heard yet. Both ends only grow. The room is for more
 * than a session: a connection is given up before. */
enum { ZK_MARKS_PER_SESSION = 24, ZK_MARKS_MAX = 32 };

struct zk_marks {
    struct zk_mark {
        int64_t sent_ns, heard_ns; /* the request, its answer */
    } at[ZK_MARKS_MAX];
    uint32_t first, end;
};

struct zk_server {
    char *name; /* of the host */
    uint16_t port;
    struct hf_stream *stream; /* NULL until it is tried */
};

struct zk {
    struct hf_host *host;
    struct zk_settings settings; /* its texts are in `texts` */
    char *texts;
    char *hosts; /* in `texts`, cut into pieces */
    size_t texts_size, chroot_len;
    const struct zk_user *user;
    void *session;

    struct zk_server *servers;
    size_t server_count;
    size_t server_at;         /* the one in use, or tried last */
    size_t tried;             /* how many were tried since the last pause */
    bool reached;             /* since then one accepted the connection */
    struct hf_stream *stream; /* of the one in use */

    enum zk_state state;
    uint32_t connection; /* how often one was lost: shows whether a callback lost it */
    bool opening, give_up; /* inside hf__zk_open(); waiting will not help */
    bool muted;
    bool close_sent; /* the end of the session, on this connection */
    bool closing;    /* in hf__zk_close_wait(): no session after this one */
    hf_error why;    /* the last reason to be down */

    struct hf_timer timer;
    unsigned attempts; /* rounds over the servers since it was up for a while */
    int64_t up_ns, retry_ns, handshake_until_ns;

    int64_t session_id; /* 0: none */
    bool expired;       /* by our clock */
    bool fresh;         /* `up` was not called for it */
    bool announced;     /* `up` was called: `expired` has to follow */
    char password[ZK_PASSWORD_MAX];
    size_t password_len;
    int64_t session_ns; /* granted */
    int64_t base_ns;    /* the leader has heard of a request sent then or later */
    int64_t asked_ns;   /* of the last request for the leader: when it was sent */
    struct zk_marks marks;
    int64_t last_zxid;

    int32_t xid;
    struct zk_ring ring;
    int64_t last_reply_ns; /* when a reply came while others were due */
    unsigned gathering; /* nested: reads, and hf__zk_gather() without hf__zk_flush() */
    struct zk_lists lists;
    struct zk_watches watches;
    struct hf_random random;
};

static inline int64_t zk_now(struct zk *zk)
{
    return zk->host->ops->now(zk->host);
}

/* No callback is called now. */
static inline bool zk_is_quiet(const struct zk *zk)
{
    return zk->opening || zk->muted;
}

/* ---- zk.c ------------------------------------------------------------------------ */

/* The connection failed: closes it, answers the pending requests, tries the next server
 * now or, after all of them, later. */
void hf__zk_lost(struct zk *zk, const hf_error *why);
void hf__zk_lost_because(struct zk *zk, int code, const char *what);
/* The session is over: the first calls user->expired(), the second forgets the id. */
void hf__zk_session_expire(struct zk *zk);
void hf__zk_session_forget(struct zk *zk);
/* Up: calls user->up(). */
void hf__zk_ready(struct zk *zk);
/* A request was written at `now_ns`: moves the timer to its deadline. */
void hf__zk_deadline_note(struct zk *zk, int64_t now_ns);

/* ---- zk_hosts.c ------------------------------------------------------------------ */

int hf__zk_servers_make(struct zk *zk, hf_error *why); /* reads and shuffles the list */
void hf__zk_servers_done(struct zk *zk, bool forked);
/* How long one server may take to connect, and for its connect reply. */
int64_t hf__zk_server_share_ns(const struct zk *zk);
/* Starts to connect to the next one. 0 or a code. */
int hf__zk_server_next(struct zk *zk, const struct hf_stream_user *user, hf_error *why);

/* ---- zk_handshake.c -------------------------------------------------------------- */

void hf__zk_handshake_begin(struct zk *zk); /* the connection is there */
void hf__zk_handshake_reply(struct zk *zk, struct jute *in); /* the first frame */
void hf__zk_auth_reply(struct zk *zk, int32_t error);        /* the answer to auth */

/* ---- zk_ring.c ------------------------------------------------------------------- */

/* NULL: none is pending. */
const struct zk_pending *hf__zk_ring_oldest(const struct zk_ring *ring);
struct zk_pending hf__zk_ring_pop(struct zk_ring *ring);

void hf__zk_pending_answer(struct zk *zk, const struct zk_pending *pending,
                           const struct zk_reply *reply, const hf_error *why);
/* Answers all with `why`: uncertain or, those not flushed, never sent. */
void hf__zk_pending_fail_all(struct zk *zk, const hf_error *why);
void hf__zk_forget_all(struct zk *zk); /* all replies are dropped */
/* Sends what was written: now, or unless requests are being gathered. */
void hf__zk_flush_now(struct zk *zk);
void hf__zk_flush_soon(struct zk *zk);

/* A request that is being written: begun with room for a body of `size` bytes, which
 * the caller puts into `out`. 0 or HF_ENOMEM: then nothing is changed. */
struct zk_request {
    struct zk_pending pending;
    struct jute_out out;
    char *frame;
};
int hf__zk_request_begin(struct zk *zk, struct zk_request *request,
                         enum zk_opcode opcode, size_t size);
void hf__zk_request_end(struct zk *zk, struct zk_request *request);
/* One without a body, whose reply has no callback. */
int hf__zk_request_empty(struct zk *zk, enum zk_opcode opcode);

/* ---- zk_read.c ------------------------------------------------------------------- */

void hf__zk_read(struct zk *zk);

/* ---- zk_watches.c ---------------------------------------------------------------- */

/* By the path below the chroot. find: NULL if it is not watched. ref: made if there is
 * none, with one more reference; NULL: no memory. */
struct zk_watch *hf__zk_watch_find(struct zk *zk, const char *path);
struct zk_watch *hf__zk_watch_ref(struct zk *zk, const char *path);
/* A request that sets it is pending. */
void hf__zk_watch_asked(struct zk_watch *watch);
/* One user less. True if it was the last one and the server may have a watch. */
bool hf__zk_watch_unwant(struct zk_watch *watch);
/* A request that sets or removes it was answered; `reply` NULL: without a reply. */
void hf__zk_watch_answered(struct zk *zk, const struct zk_pending *pending,
                           const struct zk_reply *reply);
/* One reference less; freed if the server has no watch either. NULL is fine. */
void hf__zk_watch_unref(struct zk *zk, struct zk_watch *watch);
/* An event, with the path as the server knows it. */
void hf__zk_watch_fired(struct zk *zk, enum zk_event_type type, struct zk_text path);
/* Writes the requests that set all of them again. 0 or HF_ENOMEM. */
int hf__zk_watches_restore(struct zk *zk);
void hf__zk_watches_clear(struct zk *zk); /* the session is over: the server has none */
void hf__zk_watches_done(struct zk *zk);

#endif
