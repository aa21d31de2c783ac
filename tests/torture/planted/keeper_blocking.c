/* SPDX-License-Identifier: MIT */
/*
 * The blocking session: see keeper_blocking.h.
 *
 * One request at a time, in a buffer that is sent whole; the answer is read into
 * another. A connection on which an answer failed to come is given up, and the next
 * request makes a new one that shows the session's number and password. Replies are
 * trusted: the server is ours.
 */
#include "keeper_blocking.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define PASSWORD 16
#define PATIENCE_MS 1000
#define BUFFER 65536

enum request { CREATE = 1, DELETE = 2, CHILDREN = 8, CLOSE = -11 };

struct keeper {
    int fd; /* -1: not connected */
    uint16_t port;
    int64_t session_ms;
    int64_t session; /* 0: none yet */
    char password[PASSWORD];
    int32_t xid;
    size_t len; /* of the request being written, after four bytes for it */
    size_t at;  /* in the reply being read */
    char out[1024];
    char in[BUFFER];
};

/* ---- Records --------------------------------------------------------------------- */

static void put(struct keeper *keeper, const void *bytes, size_t len)
{
    if (4 + keeper->len + len > sizeof keeper->out)
        abort();
    memcpy(keeper->out + 4 + keeper->len, bytes, len);
    keeper->len += len;
}

static void put_int(struct keeper *keeper, int32_t value)
{
    uint32_t big = htobe32((uint32_t)value);
    put(keeper, &big, sizeof big);
}

static void put_long(struct keeper *keeper, int64_t value)
{
    uint64_t big = htobe64((uint64_t)value);
    put(keeper, &big, sizeof big);
}

static void put_text(struct keeper *keeper, const char *text)
{
    put_int(keeper, (int32_t)strlen(text));
    put(keeper, text, strlen(text));
}

static int32_t get_int(struct keeper *keeper)
{
    uint32_t big;
    memcpy(&big, keeper->in + keeper->at, sizeof big);
    keeper->at += sizeof big;
    return (int32_t)be32toh(big);
}

static void get_text(struct keeper *keeper, char *text, size_t size)
{
    int32_t len = get_int(keeper);
    snprintf(text, size, "%.*s", len, keeper->in + keeper->at);
    keeper->at += (size_t)len;
}

/* ---- The connection -------------------------------------------------------------- */

static void hang_up(struct keeper *keeper)
{
    if (keeper->fd >= 0)
        close(keeper->fd);
    keeper->fd = -1;
}

static bool send_out(struct keeper *keeper)
{
    uint32_t big = htobe32((uint32_t)keeper->len);
    size_t size = 4 + keeper->len;
    memcpy(keeper->out, &big, sizeof big);
    return send(keeper->fd, keeper->out, size, MSG_NOSIGNAL) == (ssize_t)size;
}

/* A read with a timeout is interrupted when the process is stopped and goes on. */
static bool bytes_read(struct keeper *keeper, char *bytes, size_t len)
{
    while (len) {
        ssize_t got = recv(keeper->fd, bytes, len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        bytes += got;
        len -= (size_t)got;
    }
    return true;
}

static bool reply_read(struct keeper *keeper)
{
    keeper->at = 0;
    if (!bytes_read(keeper, keeper->in, 4))
        return false;
    size_t len = (size_t)get_int(keeper);
    keeper->at = 0;
    return len <= sizeof keeper->in && bytes_read(keeper, keeper->in, len);
}

static bool dial(struct keeper *keeper)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(keeper->port) };
    struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    keeper->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (keeper->fd < 0)
        return false;
    setsockopt(keeper->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(keeper->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connect(keeper->fd, (struct sockaddr *)&address, sizeof address) == 0;
}

/* The first words on a connection: which session it is to be. */
static int introduce(struct keeper *keeper)
{
    keeper->len = 0;
    put_int(keeper, 0);
    put_long(keeper, 0);
    put_int(keeper, (int32_t)keeper->session_ms);
    put_long(keeper, keeper->session);
    put_int(keeper, PASSWORD);
    put(keeper, keeper->password, PASSWORD);
    put(keeper, "", 1);
    if (!send_out(keeper) || !reply_read(keeper))
        return KEEPER_UNSENT;
    keeper->at = 4;
    if (get_int(keeper) <= 0) {
        keeper->session = 0;
        memset(keeper->password, 0, PASSWORD);
        return KEEPER_OVER;
    }
    uint64_t big;
    memcpy(&big, keeper->in + keeper->at, sizeof big);
    keeper->session = (int64_t)be64toh(big);
    memcpy(keeper->password, keeper->in + keeper->at + 12, PASSWORD);
    return KEEPER_OK;
}

static int connected(struct keeper *keeper)
{
    int rc = KEEPER_OK;
    if (keeper->fd >= 0)
        return KEEPER_OK;
    rc = dial(keeper) ? introduce(keeper) : KEEPER_UNSENT;
    if (rc != KEEPER_OK)
        hang_up(keeper);
    return rc;
}

static void begin(struct keeper *keeper, enum request type)
{
    keeper->len = 0;
    put_int(keeper, ++keeper->xid);
    put_int(keeper, (int32_t)type);
}

/* Sends what was written; then `at` is behind the reply's head. */
static int ask(struct keeper *keeper)
{
    if (!send_out(keeper) || !reply_read(keeper)) {
        hang_up(keeper);
        return KEEPER_SILENT;
    }
    keeper->at = 12;
    return get_int(keeper);
}

/* ---- What there is to ask -------------------------------------------------------- */

struct keeper *keeper_open(const char *place, int64_t session_ms)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);
    const char *colon = strchr(place, ':');
    if (!keeper || !colon) {
        free(keeper);
        return NULL;
    }
    keeper->fd = -1;
    keeper->port = (uint16_t)strtoul(colon + 1, NULL, 10);
    keeper->session_ms = session_ms;
    return keeper;
}

void keeper_close(struct keeper *keeper)
{
    if (!keeper)
        return;
    if (keeper->session && connected(keeper) == KEEPER_OK) {
        begin(keeper, CLOSE);
        ask(keeper);
    }
    hang_up(keeper);
    free(keeper);
}

int keeper_create(struct keeper *keeper, const char *path, enum keeper_mode mode,
                  char *made, size_t size)
{
    enum { EVERYTHING = 31 };
    int rc = connected(keeper);
    if (rc != KEEPER_OK)
        return rc;
    begin(keeper, CREATE);
    put_text(keeper, path);
    put_int(keeper, 0); /* no data */
    put_int(keeper, 1); /* one rule: anybody may do everything */
    put_int(keeper, EVERYTHING);
    put_text(keeper, "world");
    put_text(keeper, "anyone");
    put_int(keeper, (int32_t)mode);
    rc = ask(keeper);
    if (rc == KEEPER_OK && made)
        get_text(keeper, made, size);
    return rc;
}

int keeper_delete(struct keeper *keeper, const char *path)
{
    int rc = connected(keeper);
    if (rc != KEEPER_OK)
        return rc;
    begin(keeper, DELETE);
    put_text(keeper, path);
    put_int(keeper, -1); /* whatever its version */
    return ask(keeper);
}

int keeper_children(struct keeper *keeper, const char *path, keeper_each *each,
                    void *arg)
{
    char name[128];
    int rc = connected(keeper);
    if (rc != KEEPER_OK)
        return rc;
    begin(keeper, CHILDREN);
    put_text(keeper, path);
    put(keeper, "", 1); /* no watch */
    rc = ask(keeper);
    for (int32_t left = rc == KEEPER_OK ? get_int(keeper) : 0; left > 0; left--) {
        get_text(keeper, name, sizeof name);
        each(arg, name);
    }
    return rc;
}
