/* SPDX-License-Identifier: MIT */
/*
 * A second opinion on a ZooKeeper server: a blocking session that shares no code with
 * the library. Calls return the server's error code (0, ZKRAW_NONODE...); a server that
 * does not answer before patience ends, ends the test (but see zkraw_open_quietly).
 *
 * The session is never pinged: it lives for `session_ms` from its last call.
 */
#ifndef HARNESS_ZOOKEEPER_RAW_H
#define HARNESS_ZOOKEEPER_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZKRAW_PATH_MAX 8192

enum {
    ZKRAW_LOST = -4, /* of a quiet session only */
    ZKRAW_NONODE = -101,
    ZKRAW_BADVERSION = -103,
    ZKRAW_EXISTS = -110,
    ZKRAW_NOTEMPTY = -111
};
enum { ZKRAW_PERSISTENT, ZKRAW_EPHEMERAL, ZKRAW_SEQUENTIAL = 2, ZKRAW_CONTAINER = 4 };

struct zkraw;

struct zkraw_stat {
    int64_t czxid, mzxid, ctime, mtime;
    int32_t version, cversion, aversion;
    int64_t owner; /* session of an ephemeral node, otherwise 0 */
    int32_t data_length, children;
    int64_t pzxid;
};

struct zkraw *zkraw_open(int port, int session_ms);
/* NULL if the server does not serve. If its connection is lost later, calls of this
 * session answer ZKRAW_LOST instead of ending the test. */
struct zkraw *zkraw_open_quietly(int port, int session_ms);
bool zkraw_is_lost(const struct zkraw *raw);
void zkraw_insist(struct zkraw *raw); /* from now on as if by zkraw_open() */
int64_t zkraw_session(const struct zkraw *raw);
void zkraw_close(struct zkraw *raw); /* ends the session; NULL is fine */
void zkraw_drop(struct zkraw *raw);  /* the connection alone, as a crash would */

/* `ret_path` (or NULL) has room for ZKRAW_PATH_MAX. The modes ZKRAW_EPHEMERAL and
 * ZKRAW_SEQUENTIAL may be combined. */
int zkraw_create(struct zkraw *raw, const char *path, const char *data, int mode,
                 char *ret_path);
int zkraw_delete(struct zkraw *raw, const char *path);
int zkraw_set(struct zkraw *raw, const char *path, const char *data);
int zkraw_exists(struct zkraw *raw, const char *path, struct zkraw_stat *ret_stat);
/* The data as text, cut to `size`. */
int zkraw_get(struct zkraw *raw, const char *path, char *data, size_t size,
              struct zkraw_stat *ret_stat);
/* Brings the server that is asked up to the leader. */
int zkraw_sync(struct zkraw *raw);

/* How many children a node has; -1 if there is no such node. Their names, if `each` is
 * not NULL, until it says false. */
typedef bool zkraw_each(void *arg, const char *text);
int zkraw_children(struct zkraw *raw, const char *path, zkraw_each *each, void *arg);

/* Every node below `path` with its full path, children before their parents, after a
 * sync. And: removes them all, and `path` too. */
void zkraw_walk(struct zkraw *raw, const char *path, zkraw_each *each, void *arg);
void zkraw_remove(struct zkraw *raw, const char *path);

/* Ends somebody else's session, as if its time had passed. Its connection stays open,
 * and the server drops without a word what comes in on it: that is how the server does
 * it. The password of a session follows from its number. */
void zkraw_expire(int port, int64_t session);
/* Fine if it is over, or if the server does not serve. */
void zkraw_expire_quietly(int port, int64_t session);

#endif
