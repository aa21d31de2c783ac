/* SPDX-License-Identifier: MIT */
/*
 * A ZooKeeper client: one session with an ensemble, over one connection at a time, on
 * the streams of the kit. Connects, re-attaches, keeps alive, pipelines, watches. Knows
 * no locks, and nothing of the store around it: this folder could be a library of its
 * own.
 *
 * A call is answered exactly once: with the server's reply (which may be an error code
 * of the server's), or with NULL and an error that says whether the server may have
 * done it (HF_EUNCERTAIN) or cannot have (HF_EUNREACHABLE, HF_ENOMEM: never sent).
 * Nothing is sent again behind the caller's back. Replies come in the order of the
 * calls. Never blocks, but in hf__zk_open() and hf__zk_close_wait().
 *
 * Paths given and got are absolute and below the chroot, which is added and taken off
 * here.
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

/* A reply, valid during the callback. What a call does not return is zero. `zxid` is
 * the transaction of a write: for a create, the czxid of the node. */
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

typedef void zk_done(void *session, void *subject, uint64_t tag,
                     const struct zk_reply *reply, int64_t sent_ns,
                     const hf_error *why);

struct zk;

struct zk_settings {
    const char *hosts;  /* "h1:2181,h2,[::1]:2183", or one address such as "::1" */
    const char *chroot; /* "" or "/some/path"; need not exist */
    /* All but the host. The port is for hosts without one, 2181 if it is 0; the time
     * to connect is shared by all hosts, and is all that hf__zk_open() has. */
    struct hf_stream_settings stream;
    const char
        *auth; /* "user:password" of digest auth, "" for none; wiped at the end */
    int64_t session_ns; /* asked for; hf__zk_session_ns() says what was granted */
    int64_t request_ns; /* no reply for so long: the connection is given up */
    bool keep_folders; /* hf__zk_make_folder() makes persistent nodes, not containers */
    bool creator_only; /* nodes are open to `auth` alone, not to everyone */
};

struct zk_user {
    /* Connected. `fresh`: with a new session; ephemeral nodes and watches of the former
     * one are gone or will go. Otherwise the session goes on, and watches that were set
     * have been set again: events missed meanwhile are told. */
    void (*up)(void *session, bool fresh);
    /* Not connected; calls under way have been answered. Tries again by itself. */
    void (*down)(void *session, const hf_error *why);
    /* The server has said that the session is over, or the time granted has passed
     * without a word from it. Told once per session, before the next `up`. */
    void (*expired)(void *session);
    /* A watch has fired (and is gone). */
    void (*event)(void *session, enum zk_event_type type, const char *path, size_t len);
};

/* Tries all hosts, blocking, until a session is there or the time to connect is over.
 * With 0 it is up, fresh, and `up` is not told. HF_EUNREACHABLE, HF_EREFUSED (auth),
 * HF_EURL, HF_ENOMEM. */
int hf__zk_open(struct hf_host *host, const struct zk_settings *settings,
                const struct zk_user *user, void *session, struct zk **ret_zk,
                hf_error *why);

/* Ends the session if it can be told at once, never waits. */
void hf__zk_close(struct zk *zk, bool forked);

/* Before hf__zk_close(): from here on nothing is told. hf__zk_close_wait() then blocks until all
 * that was asked, and the end of the session, has been answered, or `deadline_ns`; also
 * of a session that is about to come back. Not if no server has been there for a
 * while. */
void hf__zk_mute(struct zk *zk);
void hf__zk_close_wait(struct zk *zk, int64_t deadline_ns);

bool hf__zk_is_up(const struct zk *zk);
int64_t hf__zk_session_id(const struct zk *zk);
int64_t hf__zk_session_ns(const struct zk *zk); /* as granted */
/* The session lives, by what we know, until this moment of host->now(): its time counts
 * from before the leader of the servers heard of it. While all is well, half of that
 * lies ahead, or more. */
int64_t hf__zk_valid_until(const struct zk *zk);

/* Each sends at once, but for calls made inside of an answer or between hf__zk_gather() and
 * hf__zk_flush(), which nest: these go out together, in one flight. `done` NULL: nobody
 * wants to know. A request beyond a server's usual limit of 1 MiB is answered with
 * HF_EINVAL and not sent. */
void hf__zk_gather(struct zk *zk);
void hf__zk_flush(struct zk *zk);

void hf__zk_create(struct zk *zk, const char *path, const void *data, size_t len,
                   enum zk_mode mode, zk_done *done, void *subject, uint64_t tag);
void hf__zk_delete(struct zk *zk, const char *path, int32_t version, zk_done *done,
                   void *subject, uint64_t tag);
void hf__zk_exists(struct zk *zk, const char *path, bool watch, zk_done *done,
                   void *subject, uint64_t tag);
void hf__zk_get(struct zk *zk, const char *path, bool watch, zk_done *done,
                void *subject, uint64_t tag);
void hf__zk_children(struct zk *zk, const char *path, bool watch, zk_done *done,
                     void *subject, uint64_t tag);
void hf__zk_set(struct zk *zk, const char *path, const void *data, size_t len,
                int32_t version, zk_done *done, void *subject, uint64_t tag);
void hf__zk_sync(struct zk *zk, const char *path, zk_done *done, void *subject,
                 uint64_t tag);
/* What the ensemble says of its servers, wherever the chroot is; no data: it is one. */
void hf__zk_get_config(struct zk *zk, zk_done *done, void *subject, uint64_t tag);
void hf__zk_ping(struct zk *zk, zk_done *done, void *subject, uint64_t tag);

/* The folder `path` and all that is missing above it, parts of the chroot included,
 * in one flight. The answer is that of the last one: ZK_OK or ZK_NODEEXISTS. */
void hf__zk_make_folder(struct zk *zk, const char *path, zk_done *done, void *subject,
                        uint64_t tag);

struct zk_op {
    enum { ZK_OP_CREATE = 1, ZK_OP_DELETE, ZK_OP_SET, ZK_OP_CHECK } what;
    const char *path;
    const void *data;
    size_t len;
    enum zk_mode mode;
    int32_t version;
};
void hf__zk_multi(struct zk *zk, const struct zk_op *ops, size_t count, zk_done *done,
                  void *subject, uint64_t tag);

/* Takes our watch of that path off the server's hands. Counted: a call with `watch`
 * that was answered without one (ZK_NONODE but for exists), or whose event has come,
 * needs none; else as many of these as of those. No answer. */
void hf__zk_unwatch(struct zk *zk, const char *path);

/* No answer to calls with this subject may come any more. */
void hf__zk_forget(struct zk *zk, const void *subject);

/* Four-letter words are not part of this: they need a connection of their own. */

#endif
