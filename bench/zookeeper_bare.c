/* SPDX-License-Identifier: MIT */
/*
 * The bare session: a blocking socket, one send per flight and as few receives as the
 * answers take. It never pings, because it never rests for long; nothing is repeated,
 * and a connection that breaks is the end.
 *
 * Numbers go over the wire with the high byte first; texts have their length before
 * them, and so has every packet. An answer begins with the number of its request, the
 * transaction and an error code; an event has the number -1.
 */
#include "zookeeper_bare.h"

#include <endian.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SESSION_MS 30000
#define NUMBER_LEN 10
#define FLIGHT_SIZE 1024
#define NO_NODE (-101)
#define NODE_EXISTS (-110)

enum { CREATE = 1, DELETE = 2, EXISTS = 3, CHILDREN = 8, CLOSE = -11 };
enum { PERSISTENT = 0, EPHEMERAL_SEQUENTIAL = 3 };

/* ---- Writing --------------------------------------------------------------------- */

/* Requests on their way into one send(2). */
struct flight {
    size_t len, head;
    char bytes[FLIGHT_SIZE];
};

static void put(struct flight *flight, const void *data, size_t len)
{
    if (len > sizeof flight->bytes - flight->len)
        abort();
    memcpy(flight->bytes + flight->len, data, len);
    flight->len += len;
}

static void put_int(struct flight *flight, int32_t number)
{
    uint32_t big = htobe32((uint32_t)number);

    put(flight, &big, sizeof big);
}

static void put_text(struct flight *flight, const char *text)
{
    put_int(flight, (int32_t)strlen(text));
    put(flight, text, strlen(text));
}

static void packet_begin(struct flight *flight)
{
    flight->head = flight->len;
    put_int(flight, 0);
}

static void packet_end(struct flight *flight)
{
    uint32_t big = htobe32((uint32_t)(flight->len - flight->head - 4));

    memcpy(flight->bytes + flight->head, &big, sizeof big);
}

static void request_begin(struct zoo_bare *bare, struct flight *flight, int32_t type)
{
    packet_begin(flight);
    put_int(flight, ++bare->xid);
    put_int(flight, type);
}

static int flight_send(const struct zoo_bare *bare, const struct flight *flight)
{
    ssize_t sent = send(bare->fd, flight->bytes, flight->len, MSG_NOSIGNAL);

    return sent == (ssize_t)flight->len ? 0 : bench_error("send", NULL);
}

/* ---- Reading --------------------------------------------------------------------- */

static int fill(struct zoo_bare *bare, size_t want)
{
    if (bare->from > 0 && bare->from + want > sizeof bare->in) {
        memmove(bare->in, bare->in + bare->from, bare->to - bare->from);
        bare->to -= bare->from;
        bare->from = 0;
    }
    if (want > sizeof bare->in)
        return bench_error("an answer is too long", NULL);
    while (bare->to - bare->from < want) {
        ssize_t got =
            recv(bare->fd, bare->in + bare->to, sizeof bare->in - bare->to, 0);

        if (got <= 0)
            return bench_error("recv", NULL);
        bare->to += (size_t)got;
    }
    return 0;
}

static int32_t int_at(const struct zoo_bare *bare, size_t at)
{
    uint32_t big;

    memcpy(&big, bare->in + at, sizeof big);
    return (int32_t)be32toh(big);
}

/* One packet, which then lies from bare->at to bare->until. */
static int packet_read(struct zoo_bare *bare)
{
    size_t len;

    if (bare->from == bare->to)
        bare->from = bare->to = 0;
    if (fill(bare, 4))
        return -1;
    len = (size_t)int_at(bare, bare->from);
    if (fill(bare, 4 + len))
        return -1;
    bare->at = bare->from + 4;
    bare->until = bare->from = bare->at + len;
    return 0;
}

enum zoo_packet zoo_next(struct zoo_bare *bare)
{
    int32_t xid;

    if (packet_read(bare) || bare->until - bare->at < 16)
        return ZOO_FAILED;
    xid = int_at(bare, bare->at);
    bare->error = int_at(bare, bare->at + 12);
    bare->at += 16;
    return xid == -1 ? ZOO_EVENT : ZOO_ANSWER;
}

/* 0, or NO_NODE or NODE_EXISTS, or -1. */
static int answer(struct zoo_bare *bare)
{
    enum zoo_packet packet;

    while ((packet = zoo_next(bare)) == ZOO_EVENT)
        bare->events++;
    if (packet == ZOO_FAILED)
        return -1;
    if (bare->error == 0 || bare->error == NO_NODE || bare->error == NODE_EXISTS)
        return bare->error;
    fprintf(stderr, "bench: the server says: error %d\n", (int)bare->error);
    return -1;
}

int zoo_await_event(struct zoo_bare *bare)
{
    if (bare->events == 0 && zoo_next(bare) != ZOO_EVENT)
        return -1;
    bare->events = 0;
    return 0;
}

/* ---- Requests -------------------------------------------------------------------- */

static void put_create(struct zoo_bare *bare, struct flight *flight, const char *path,
                       int32_t mode)
{
    request_begin(bare, flight, CREATE);
    put_text(flight, path);
    put_text(flight, "127.0.0.1"); /* as Curator does */
    put_int(flight, 1);
    put_int(flight, 31);
    put_text(flight, "world");
    put_text(flight, "anyone");
    put_int(flight, mode);
    packet_end(flight);
}

static void put_look(struct zoo_bare *bare, struct flight *flight, int32_t type,
                     const char *path, bool watch)
{
    request_begin(bare, flight, type);
    put_text(flight, path);
    put(flight, watch ? "\1" : "", 1);
    packet_end(flight);
}

static int take_path(const struct zoo_bare *bare, char path[ZOO_PATH_SIZE])
{
    size_t len = (size_t)int_at(bare, bare->at);

    if (len >= ZOO_PATH_SIZE || len > bare->until - bare->at - 4)
        return bench_error("create", NULL);
    memcpy(path, bare->in + bare->at + 4, len);
    path[len] = '\0';
    return 0;
}

int zoo_make(struct zoo_bare *bare, const char *path)
{
    struct flight flight = { 0 };
    int rc;

    put_create(bare, &flight, path, PERSISTENT);
    rc = flight_send(bare, &flight) ? -1 : answer(bare);
    return rc == NODE_EXISTS ? 0 : rc;
}

int zoo_create(struct zoo_bare *bare, const char *path, char ret_path[ZOO_PATH_SIZE])
{
    struct flight flight = { 0 };

    put_create(bare, &flight, path, EPHEMERAL_SEQUENTIAL);
    return flight_send(bare, &flight) || answer(bare) ? -1 : take_path(bare, ret_path);
}

int zoo_create_and_list(struct zoo_bare *bare, const char *folder, const char *path,
                        char ret_path[ZOO_PATH_SIZE])
{
    struct flight flight = { 0 };

    put_create(bare, &flight, path, EPHEMERAL_SEQUENTIAL);
    put_look(bare, &flight, CHILDREN, folder, false);
    if (flight_send(bare, &flight) || answer(bare) || take_path(bare, ret_path))
        return -1;
    return answer(bare) ? -1 : 0;
}

int zoo_ask_delete(struct zoo_bare *bare, const char *path)
{
    struct flight flight = { 0 };

    request_begin(bare, &flight, DELETE);
    put_text(&flight, path);
    put_int(&flight, -1);
    packet_end(&flight);
    return flight_send(bare, &flight);
}

int zoo_delete(struct zoo_bare *bare, const char *path)
{
    return zoo_ask_delete(bare, path) || answer(bare) ? -1 : 0;
}

int zoo_watch(struct zoo_bare *bare, const char *path)
{
    struct flight flight = { 0 };
    int rc;

    put_look(bare, &flight, EXISTS, path, true);
    rc = flight_send(bare, &flight) ? -1 : answer(bare);
    if (rc == 0 || rc == NO_NODE)
        return rc == 0;
    return -1;
}

int zoo_ask_list(struct zoo_bare *bare, const char *folder)
{
    struct flight flight = { 0 };

    put_look(bare, &flight, CHILDREN, folder, false);
    return flight_send(bare, &flight);
}

int zoo_look(struct zoo_bare *bare, const char *folder, const char *own,
             char ret_ahead[ZOO_PATH_SIZE])
{
    if (zoo_ask_list(bare, folder) || answer(bare))
        return -1;
    return zoo_judge(bare, folder, own, ret_ahead);
}

/* ---- The queue ------------------------------------------------------------------- */

void zoo_lock_path(char path[ZOO_PATH_SIZE], const char *folder)
{
    static unsigned count;

    snprintf(path, ZOO_PATH_SIZE, "%s/_c_%08x-0000-4000-8000-%012x-lock-", folder,
             (unsigned)getpid(), count++);
}

int zoo_judge(const struct zoo_bare *bare, const char *folder, const char *own,
              char ret_ahead[ZOO_PATH_SIZE])
{
    const char *number = own + strlen(own) - NUMBER_LEN;
    const char *ahead = NULL;
    size_t ahead_len = 0, at = bare->at + 4;
    int32_t count = bare->error == 0 ? int_at(bare, bare->at) : -1;

    if (count < 1)
        return bench_error("the own node is not there", NULL);
    for (; count > 0 && at + 4 <= bare->until; count--) {
        size_t len = (size_t)int_at(bare, at);
        const char *name = bare->in + at + 4;
        const char *its = name + len - NUMBER_LEN;

        at += 4 + len;
        if (len < NUMBER_LEN || at > bare->until)
            return bench_error("a name makes no sense", NULL);
        if (memcmp(its, number, NUMBER_LEN) < 0 &&
            (!ahead || memcmp(its, ahead + ahead_len - NUMBER_LEN, NUMBER_LEN) > 0)) {
            ahead = name;
            ahead_len = len;
        }
    }
    if (ahead)
        snprintf(ret_ahead, ZOO_PATH_SIZE, "%s/%.*s", folder, (int)ahead_len, ahead);
    return !ahead;
}

/* ---- Session --------------------------------------------------------------------- */

static int zoo_connect(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

int zoo_open(struct zoo_bare *bare, const struct zookeeper *server)
{
    static const char zeros[16];
    struct flight flight = { 0 };

    bare->xid = bare->events = 0;
    bare->from = bare->to = 0;
    bare->fd = zoo_connect(server->port);
    if (bare->fd < 0)
        return bench_error("connect", NULL);
    packet_begin(&flight);
    put(&flight, zeros, 12); /* version, last transaction */
    put_int(&flight, SESSION_MS);
    put(&flight, zeros, 8); /* a new session */
    put_int(&flight, sizeof zeros);
    put(&flight, zeros, sizeof zeros);
    put(&flight, zeros, 1); /* not read-only */
    packet_end(&flight);
    if (flight_send(bare, &flight) == 0 && packet_read(bare) == 0 &&
        int_at(bare, bare->at + 4) > 0)
        return 0;
    close(bare->fd);
    return bench_error("the server gives no session", NULL);
}

void zoo_close(struct zoo_bare *bare)
{
    struct flight flight = { 0 };

    request_begin(bare, &flight, CLOSE);
    packet_end(&flight);
    if (flight_send(bare, &flight) == 0)
        answer(bare);
    close(bare->fd);
    bare->fd = -1;
}
