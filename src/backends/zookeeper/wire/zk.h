/* SPDX-License-Identifier: MIT */
/*
 * A ZooKeeper client: one session with an ensemble, over one connection at a time, on
 * the streams of the kit. It connects, re-attaches, keeps the session alive, pipelines
 * and watches. It knows no locks and nothing of the store that uses it.
 *
 * A request that was taken is answered exactly once, later: with the server's reply,
 * which may be an error of the server's, or with NULL and an error that says whether
 * the server may have carried it out (HF_EUNCERTAIN) or cannot have (HF_EUNREACHABLE).
 * Nothing is repeated without the caller. Replies come in the order of the requests.
 * Only hf__zk_open() and hf__zk_close_wait() block.
 *
 * Paths given and returned are absolute and below the chroot, which is added and
 * removed here.
 */
#ifndef HF_ZK_H
#define HF_ZK_H

#include "../../../kit/stream.h"

enum zk_error {
    ZK_OK = 0,
    ZK_UNIMPLEMENTED = -6,
    ZK_BADARGUMENTS = -8,
    ZK_NONODE = -101,
    ZK_NOAUTH = -102,
    ZK_BADVERSION = -103,
    ZK_NOCHILDRENFOREPHEMERALS = -108,
    ZK_NODEEXISTS = -110,
    ZK_NOTEMPTY = -111,
    ZK_SESSIONEXPIRED = -112,
    ZK_INVALIDACL = -114,
    ZK_AUTHFAILED = -115,
    ZK_SESSIONMOVED = -118,
    ZK_NOTREADONLY = -119,
    ZK_NOWATCHER = -121,
    ZK_QUOTAEXCEEDED = -125,
    ZK_THROTTLED = -127,
};

enum zk_mode {
    ZK_PERSISTENT = 0,
    ZK_EPHEMERAL = 1,
    ZK_PERSISTENT_SEQUENTIAL = 2,
    ZK_EPHEMERAL_SEQUENTIAL = 3,
    ZK_CONTAINER = 4,
};

enum zk_event_type {
    ZK_CREATED = 1,
    ZK_DELETED = 2,
    ZK_CHANGED = 3,
    ZK_CHILD = 4,
};

struct zk_stat {
    int64_t czxid, mzxid, ctime, mtime;
    int32_t version, cversion, aversion;
    int64_t ephemeral_owner;
    int32_t data_length, num_children;
    int64_t pzxid;
};

struct zk_text {
    const char *at;
    size_t len;
};

/* A reply, valid during the callback. Fields that a request does not return are zero.
 * `zxid` is the transaction of a write: for a create, the czxid of the node. */
struct zk_reply {
    int32_t error; /* enum zk_error */
    int64_t zxid;
    struct zk_text path;         /* create */
    struct zk_text data;         /* get */
    struct zk_stat stat;         /* create, exists, get, set, children */
    const struct zk_text *names; /* children, without their parent's path */
    size_t count;                /* of names; of results in a multi */
    const int32_t *errors;       /* multi: one per operation */
    const struct zk_text *paths; /* multi: one per operation, "" but for creates */
};

/* What a request was answered with. */
struct zk_answer {
    void *session; /* as given to hf__zk_open() */
    void *subject; /* as given with the request */
    uint64_t tag;
    const struct zk_reply *reply; /* NULL: none came */
    int64_t sent_ns;
    const hf_error *why; /* why none came */
};

typedef void zk_done(const struct zk_answer *answer);

struct zk;

struct zk_settings {
    const char *hosts;  /* "h1:2181,h2,[::1]:2183", or one address such as "::1" */
    const char *chroot; /* "" or "/some/path"; need not exist */
    /* All but the host. The port is for hosts without one, 2181 if it is 0. The time to
     * connect is shared by all hosts and limits hf__zk_open(). */
    struct hf_stream_settings stream;
    const char *auth;   /* digest "user:password", or ""; wiped at the end */
    int64_t session_ns; /* asked for; hf__zk_session_ns() says what was granted */
    int64_t request_ns; /* without a reply for so long the connection is given up */
    bool keep_folders; /* hf__zk_make_folder() makes persistent nodes, not containers */
    bool creator_only; /* nodes are open to `auth` alone, not to everyone */
};

struct zk_user {
    /* Connected. `fresh`: with a new session; ephemeral nodes and watches of the former
     * one are gone or will be. Otherwise the session goes on and its watches have been
     * set again: events missed meanwhile are reported. */
    void (*up)(void *session, bool fresh);
    /* Not connected; pending requests have been answered. Tries again by itself. */
    void (*down)(void *session, const hf_error *why);
    /* The server has said that the session is over, or the time granted has passed
     * without a sign of the leader. Called once per session, before the next `up`. */
    void (*expired)(void *session);
    /* A watch has fired (and is gone). */
    void (*event)(void *session, enum zk_event_type type, const char *path, size_t len);
};

/* Tries all hosts, blocking, until a session exists or the time to connect is over. On
 * 0 it is up, fresh, and `up` is not called. HF_EUNREACHABLE, HF_EREFUSED (auth),
 * HF_EURL, HF_ENOMEM. */
int hf__zk_open(struct hf_host *host, const struct zk_settings *settings,
                const struct zk_user *user, void *session, struct zk **ret_zk,
                hf_error *why);

/* Sends the end of the session if it can at once; never waits. */
void hf__zk_close(struct zk *zk, bool forked);

/* Before hf__zk_close(): from here on no callback is called. hf__zk_close_wait() then
 * blocks until all requests, and the end of the session, have been answered, or until
 * `deadline_ns`; also for a session that is about to reconnect. It does not wait if no
 * server could be reached for a while. */
void hf__zk_mute(struct zk *zk);
void hf__zk_close_wait(struct zk *zk, int64_t deadline_ns);

bool hf__zk_is_up(const struct zk *zk);
int64_t hf__zk_session_id(const struct zk *zk);
int64_t hf__zk_session_ns(const struct zk *zk); /* as granted */
/* The session is known to live until this moment of host->now(): its time counts from
 * before the leader of the servers heard of it. While all is well at least half of it
 * lies ahead. */
int64_t hf__zk_valid_until(const struct zk *zk);

/* Each request is sent at once, except those made inside a callback or between
 * hf__zk_gather() and hf__zk_flush(), which nest: these go out in one write. `done`
 * NULL: the reply is dropped. The result is 0, or why the request was not sent:
 * HF_EUNREACHABLE, HF_ENOMEM, or HF_EINVAL beyond a server's usual limit of 1 MiB. Then
 * `done` is not called. */
void hf__zk_gather(struct zk *zk);
void hf__zk_flush(struct zk *zk);
/* The sentence for such a code. */
void hf__zk_unsent_why(const struct zk *zk, int code, hf_error *ret_why);

int hf__zk_create(struct zk *zk, const char *path, const void *data, size_t len,
                  enum zk_mode mode, zk_done *done, void *subject, uint64_t tag);
int hf__zk_delete(struct zk *zk, const char *path, int32_t version, zk_done *done,
                  void *subject, uint64_t tag);
int hf__zk_exists(struct zk *zk, const char *path, bool watch, zk_done *done,
                  void *subject, uint64_t tag);
int hf__zk_get(struct zk *zk, const char *path, bool watch, zk_done *done,
               void *subject, uint64_t tag);
int hf__zk_children(struct zk *zk, const char *path, bool watch, zk_done *done,
                    void *subject, uint64_t tag);
int hf__zk_set(struct zk *zk, const char *path, const void *data, size_t len,
               int32_t version, zk_done *done, void *subject, uint64_t tag);
int hf__zk_sync(struct zk *zk, const char *path, zk_done *done, void *subject,
                uint64_t tag);
/* The ensemble's list of its servers, wherever the chroot is; no data: a single server.
 * */
int hf__zk_get_config(struct zk *zk, zk_done *done, void *subject, uint64_t tag);
int hf__zk_ping(struct zk *zk, zk_done *done, void *subject, uint64_t tag);

/* Creates the folder `path` and all that is missing above it, parts of the chroot
 * included, in one write. The reply is that of the last one: ZK_OK or ZK_NODEEXISTS. */
int hf__zk_make_folder(struct zk *zk, const char *path, zk_done *done, void *subject,
                       uint64_t tag);

struct zk_op {
    enum { ZK_OP_CREATE = 1, ZK_OP_DELETE, ZK_OP_SET, ZK_OP_CHECK } what;
    const char *path;
    const void *data;
    size_t len;
    enum zk_mode mode;
    int32_t version;
};
int hf__zk_multi(struct zk *zk, const struct zk_op *ops, size_t count, zk_done *done,
                 void *subject, uint64_t tag);

/* Removes our watch of that path from the server. Counted: each request with `watch`
 * needs one of these, unless its reply set no watch (ZK_NONODE, except for exists) or
 * its event has come. No reply. */
void hf__zk_unwatch(struct zk *zk, const char *path);

/* From here on `done` is not called for requests with this subject. */
void hf__zk_forget(struct zk *zk, const void *subject);

/* Four-letter words are not offered: they need a connection of their own. */

#endif
