/* SPDX-License-Identifier: MIT */
/*
 * The second opinion: see zookeeper_raw.h.
 *
 * One request at a time, written into one buffer and answered into another. Numbers go
 * over the wire with the high byte first; texts and data have their length before them,
 * -1 for none. Every packet has its length in front.
 */
#include "zookeeper_raw.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"

#define SIZE (4 << 20)
#define PASSWORD_LEN 16

enum {
    CREATE = 1,
    DELETE = 2,
    EXISTS = 3,
    GET = 4,
    SET = 5,
    SYNC = 9,
    CHILDREN = 8,
    CREATE_CONTAINER = 19,
    CLOSE = -11,
};

struct zkraw {
    int fd;
    int32_t xid;
    int64_t session;
    size_t used; /* of out */
    size_t len;  /* of in */
    size_t at;
    bool quiet; /* a lost connection does not end the test */
    bool ended; /* the server has closed the connection, or did not answer */
    char out[16384];
    char in[SIZE];
};

/* ---- Words ----------------------------------------------------------------------- */

static void put(struct zkraw *raw, const void *data, size_t len)
{
    CHECK(raw->used + len <= sizeof raw->out);
    memcpy(raw->out + raw->used, data, len);
    raw->used += len;
}

static void put_int(struct zkraw *raw, int32_t number)
{
    uint32_t big = htobe32((uint32_t)number);
    put(raw, &big, sizeof big);
}

static void put_long(struct zkraw *raw, int64_t number)
{
    uint64_t big = htobe64((uint64_t)number);
    put(raw, &big, sizeof big);
}

static void put_flag(struct zkraw *raw, bool flag)
{
    put(raw, flag ? "\1" : "", 1);
}

static void put_text(struct zkraw *raw, const char *text)
{
    put_int(raw, (int32_t)strlen(text));
    put(raw, text, strlen(text));
}

static const char *take(struct zkraw *raw, size_t len)
{
    CHECK(len <= raw->len - raw->at);
    raw->at += len;
    return raw->in + raw->at - len;
}

static int32_t take_int(struct zkraw *raw)
{
    uint32_t big;
    memcpy(&big, take(raw, sizeof big), sizeof big);
    return (int32_t)be32toh(big);
}

static int64_t take_long(struct zkraw *raw)
{
    uint64_t big;
    memcpy(&big, take(raw, sizeof big), sizeof big);
    return (int64_t)be64toh(big);
}

static void take_text(struct zkraw *raw, char *text, size_t size)
{
    int32_t len = take_int(raw);
    const char *at = take(raw, len > 0 ? (size_t)len : 0);
    if (text)
        snprintf(text, size, "%.*s", len > 0 ? (int)len : 0, at);
}

static void take_stat(struct zkraw *raw, struct zkraw_stat *ret_stat)
{
    struct zkraw_stat stat = { .czxid = take_long(raw) };
    stat.mzxid = take_long(raw);
    stat.ctime = take_long(raw);
    stat.mtime = take_long(raw);
    stat.version = take_int(raw);
    stat.cversion = take_int(raw);
    stat.aversion = take_int(raw);
    stat.owner = take_long(raw);
    stat.data_length = take_int(raw);
    stat.children = take_int(raw);
    stat.pzxid = take_long(raw);
    if (ret_stat)
        *ret_stat = stat;
}

/* ---- Packets --------------------------------------------------------------------- */

static bool fill(struct zkraw *raw, void *data, size_t len)
{
    for (size_t got = 0; got < len;) {
        ssize_t more = recv(raw->fd, (char *)data + got, len - got, 0);
        if (more <= 0) {
            raw->ended = true;
            return false;
        }
        got += (size_t)more;
    }
    return true;
}

static bool packet_send(struct zkraw *raw)
{
    uint32_t big = htobe32((uint32_t)raw->used);
    bool sent = send(raw->fd, &big, sizeof big, MSG_NOSIGNAL | MSG_MORE) == 4 &&
                send(raw->fd, raw->out, raw->used, MSG_NOSIGNAL) == (ssize_t)raw->used;
    raw->used = 0;
    return sent;
}

static bool packet_read(struct zkraw *raw)
{
    uint32_t big;
    raw->at = raw->len = 0;
    if (!fill(raw, &big, sizeof big))
        return false;
    CHECK(be32toh(big) <= SIZE);
    raw->len = be32toh(big);
    return fill(raw, raw->in, raw->len);
}

static void request(struct zkraw *raw, int32_t type)
{
    put_int(raw, ++raw->xid);
    put_int(raw, type);
}

static void request_on(struct zkraw *raw, int32_t type, const char *path)
{
    request(raw, type);
    put_text(raw, path);
}

/* The error code of the reply; what follows it can be taken. */
static int32_t call(struct zkraw *raw)
{
    if (raw->ended || !packet_send(raw) || !packet_read(raw)) {
        if (!raw->quiet)
            check_failed(__FILE__, __LINE__, "ZooKeeper answers");
        raw->ended = true;
        raw->used = 0;
        return ZKRAW_LOST;
    }
    CHECK_EQ(take_int(raw), raw->xid);
    take_long(raw);
    return take_int(raw);
}

/* ---- Sessions -------------------------------------------------------------------- */

static int loopback_connect(int port)
{
    int one = 1;
    struct timeval limit = { .tv_sec = PATIENCE_MS / 1000 };
    struct sockaddr_in address = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* As the server makes it: sixteen bytes of java.util.Random. */
static void password_of(int64_t session, unsigned char *password)
{
    const uint64_t step = UINT64_C(0x5DEECE66D);
    const uint64_t mask = (UINT64_C(1) << 48) - 1;
    uint64_t seed = ((uint64_t)session ^ UINT64_C(0xB3415C00) ^ step) & mask;
    for (size_t i = 0; i < PASSWORD_LEN; i += 4) {
        seed = (seed * step + 0xB) & mask;
        for (size_t byte = 0; byte < 4; byte++)
            password[i + byte] = (unsigned char)(seed >> (16 + 8 * byte));
    }
}

static bool session_ask(struct zkraw *raw, int session_ms, int64_t session)
{
    unsigned char password[PASSWORD_LEN] = { 0 };
    if (session)
        password_of(session, password);
    put_int(raw, 0);
    put_long(raw, 0);
    put_int(raw, session_ms);
    put_long(raw, session);
    put_int(raw, PASSWORD_LEN);
    put(raw, password, PASSWORD_LEN);
    put_flag(raw, false);
    if (!packet_send(raw) || !packet_read(raw))
        return false;
    take_int(raw);
    bool granted = take_int(raw) > 0;
    raw->session = take_long(raw);
    return granted;
}

static struct zkraw *open_as(int port, int session_ms, int64_t session)
{
    int fd = loopback_connect(port);
    if (fd < 0)
        return NULL;
    struct zkraw *raw = calloc(1, sizeof *raw);
    CHECK(raw != NULL);
    raw->fd = fd;
    if (session_ask(raw, session_ms, session))
        return raw;
    zkraw_drop(raw);
    return NULL;
}

struct zkraw *zkraw_open_quietly(int port, int session_ms)
{
    struct zkraw *raw = open_as(port, session_ms, 0);
    if (raw)
        raw->quiet = true;
    return raw;
}

struct zkraw *zkraw_open(int port, int session_ms)
{
    struct zkraw *raw = open_as(port, session_ms, 0);
    if (!raw)
        check_failed(__FILE__, __LINE__, "ZooKeeper gives a session");
    return raw;
}

int64_t zkraw_session(const struct zkraw *raw)
{
    return raw->session;
}

void zkraw_drop(struct zkraw *raw)
{
    close(raw->fd);
    free(raw);
}

void zkraw_insist(struct zkraw *raw)
{
    raw->quiet = false;
}

bool zkraw_is_lost(const struct zkraw *raw)
{
    return raw->ended;
}

void zkraw_close(struct zkraw *raw)
{
    if (!raw)
        return;
    request(raw, CLOSE);
    call(raw);
    zkraw_drop(raw);
}

void zkraw_expire_quietly(int port, int64_t session)
{
    struct zkraw *raw = open_as(port, 10000, session);
    if (raw)
        raw->quiet = true;
    zkraw_close(raw);
}

void zkraw_expire(int port, int64_t session)
{
    struct zkraw *raw = open_as(port, 10000, session);
    if (!raw)
        check_failed(__FILE__, __LINE__, "session %#llx lives", (long long)session);
    CHECK_EQ(raw->session, session);
    zkraw_close(raw);
}

/* ---- Nodes ----------------------------------------------------------------------- */

int zkraw_create(struct zkraw *raw, const char *path, const char *data, int mode,
                 char *ret_path)
{
    request_on(raw, mode == ZKRAW_CONTAINER ? CREATE_CONTAINER : CREATE, path);
    put_text(raw, data);
    put_int(raw, 1);
    put_int(raw, 31); /* all rights, */
    put_text(raw, "world");
    put_text(raw, "anyone");
    put_int(raw, mode);
    int rc = call(raw);
    if (rc == 0)
        take_text(raw, ret_path, ZKRAW_PATH_MAX);
    return rc;
}

int zkraw_delete(struct zkraw *raw, const char *path)
{
    request_on(raw, DELETE, path);
    put_int(raw, -1);
    return call(raw);
}

int zkraw_set(struct zkraw *raw, const char *path, const char *data)
{
    request_on(raw, SET, path);
    put_text(raw, data);
    put_int(raw, -1);
    return call(raw);
}

int zkraw_exists(struct zkraw *raw, const char *path, struct zkraw_stat *ret_stat)
{
    request_on(raw, EXISTS, path);
    put_flag(raw, false);
    int rc = call(raw);
    if (rc == 0)
        take_stat(raw, ret_stat);
    return rc;
}

int zkraw_get(struct zkraw *raw, const char *path, char *data, size_t size,
              struct zkraw_stat *ret_stat)
{
    request_on(raw, GET, path);
    put_flag(raw, false);
    int rc = call(raw);
    if (rc == 0) {
        take_text(raw, data, size);
        take_stat(raw, ret_stat);
    }
    return rc;
}

int zkraw_sync(struct zkraw *raw)
{
    request_on(raw, SYNC, "/");
    return call(raw);
}

/* Names are copied first: `each` may make calls of its own. */
int zkraw_children(struct zkraw *raw, const char *path, zkraw_each *each, void *arg)
{
    request_on(raw, CHILDREN, path);
    put_flag(raw, false);
    if (call(raw) != 0)
        return -1;
    int count = take_int(raw);
    if (!each || count <= 0)
        return count;
    char(*names)[ZKRAW_PATH_MAX] = calloc((size_t)count, sizeof *names);
    CHECK(names != NULL);
    for (int i = 0; i < count; i++)
        take_text(raw, names[i], sizeof names[i]);
    for (int i = 0; i < count && each(arg, names[i]); i++)
        ;
    free(names);
    return count;
}

/* ---- Trees ----------------------------------------------------------------------- */

struct walk {
    struct zkraw *raw;
    const char *path;
    zkraw_each *each;
    void *arg;
    bool over;
};

static bool walk_child(void *arg, const char *name)
{
    struct walk *walk = arg;
    char path[ZKRAW_PATH_MAX];
    bool root = strcmp(walk->path, "/") == 0;
    snprintf(path, sizeof path, "%.*s/%.*s", root ? 0 : ZKRAW_PATH_MAX / 2, walk->path,
             ZKRAW_PATH_MAX / 2 - 2, name);
    struct walk below = { walk->raw, path, walk->each, walk->arg, false };
    zkraw_children(walk->raw, path, walk_child, &below);
    walk->over = below.over || !walk->each(walk->arg, path);
    return !walk->over;
}

void zkraw_walk(struct zkraw *raw, const char *path, zkraw_each *each, void *arg)
{
    struct walk walk = { raw, path, each, arg, false };
    zkraw_sync(raw);
    zkraw_children(raw, path, walk_child, &walk);
}

static bool node_remove(void *arg, const char *path)
{
    zkraw_delete(arg, path);
    return true;
}

void zkraw_remove(struct zkraw *raw, const char *path)
{
    zkraw_walk(raw, path, node_remove, raw);
    zkraw_delete(raw, path);
}
