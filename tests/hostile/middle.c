/* SPDX-License-Identifier: MIT */
/*
 * The man in the middle: see middle.h.
 *
 * A thread of its own moves the bytes. It sleeps without the lock and works with it, so
 * that the test may change what the hooks do between two pieces. A lane that ends does
 * so with a reset if its client has gone first: thousands of clients come and go, and
 * none of them shall leave a port behind that waits.
 */
#include "middle.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "../harness/check.h"

enum { LANES = 32, READ_SIZE = 65536 };

struct lane {
    int client; /* -1: free */
    int server;
    bool half; /* nothing more is said to the client */
    enum lane_end end;
    unsigned number;
    char *held; /* of the server's words, not yet dealt with */
    size_t held_len, held_room;
};

struct middle {
    char upstream[160];
    const struct middle_wire *wire;
    void *arg;
    int listener, port, waker;
    atomic_bool wants; /* the thread waits for the lock: a test that takes it again and
                          again lets it in */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    bool stopping;
    unsigned lanes_made;
    struct lane lanes[LANES];
};

/* ---- A lane ---------------------------------------------------------------------- */

static void lane_close(struct lane *lane, bool reset)
{
    struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
    if (lane->client < 0)
        return;
    if (reset)
        setsockopt(lane->client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(lane->client);
    close(lane->server);
    free(lane->held);
    *lane = (struct lane){ .client = -1, .server = -1 };
}

static int connected(int family, const void *address, socklen_t len)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (connect(fd, address, len) == 0)
        return fd;
    close(fd);
    return -1;
}

static int upstream_connect(const char *server)
{
    struct sockaddr_un path = { .sun_family = AF_UNIX };
    struct sockaddr_in port = { .sin_family = AF_INET };
    if (server[0] != ':') {
        snprintf(path.sun_path, sizeof path.sun_path, "%.*s",
                 (int)sizeof path.sun_path - 1, server);
        return connected(AF_UNIX, &path, sizeof path);
    }
    port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    port.sin_port = htons((uint16_t)strtol(server + 1, NULL, 10));
    return connected(AF_INET, &port, sizeof port);
}

static void set_options(int fd)
{
    int one = 1;
    struct timeval patience = { .tv_sec = 2 };
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static void lane_accept(struct middle *middle)
{
    struct lane *lane = middle->lanes;
    int client = accept4(middle->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    int server = upstream_connect(middle->upstream);
    while (lane < middle->lanes + LANES && lane->client >= 0)
        lane++;
    if (server < 0 || lane == middle->lanes + LANES) {
        close(client);
        if (server >= 0)
            close(server);
        return;
    }
    set_options(client);
    *lane = (struct lane){ .client = client, .server = server };
    lane->number = ++middle->lanes_made;
}

static bool send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

bool lane_say(struct lane *lane, const void *data, size_t size)
{
    return lane->client >= 0 && !lane->half && send_all(lane->client, data, size);
}

void lane_trickle(struct lane *lane, const char *data, size_t size)
{
    for (size_t i = 0; i < size && lane_say(lane, data + i, 1); i++)
        sched_yield();
}

void lane_end(struct lane *lane, enum lane_end how)
{
    if (how == LANE_HALF) {
        shutdown(lane->client, SHUT_WR);
        lane->half = true;
    } else {
        lane->end = how;
    }
}

unsigned lane_number(const struct lane *lane)
{
    return lane->number;
}

/* ---- Bytes ----------------------------------------------------------------------- */

static void client_said(struct middle *middle, struct lane *lane)
{
    static char data[READ_SIZE];
    ssize_t len = recv(lane->client, data, sizeof data, 0);
    if (len <= 0 || !send_all(lane->server, data, (size_t)len)) {
        lane_close(lane, true);
        return;
    }
    if (middle->wire->told)
        middle->wire->told(middle->arg, lane, data, (size_t)len);
    if (lane->end)
        lane_close(lane, lane->end == LANE_RESET);
}

static void hold(struct lane *lane, const char *data, size_t size)
{
    if (lane->held_room - lane->held_len < size) {
        lane->held_room = 2 * (lane->held_len + size);
        lane->held = realloc(lane->held, lane->held_room);
        CHECK(lane->held != NULL);
    }
    memcpy(lane->held + lane->held_len, data, size);
    lane->held_len += size;
}

static void server_said(struct middle *middle, struct lane *lane)
{
    static char data[READ_SIZE];
    ssize_t len = recv(lane->server, data, sizeof data, 0);
    if (len <= 0) {
        lane_close(lane, false);
        return;
    }
    hold(lane, data, (size_t)len);
    size_t used = middle->wire->said(middle->arg, lane, lane->held, lane->held_len);
    if (lane->end) {
        lane_close(lane, lane->end == LANE_RESET);
        return;
    }
    lane->held_len -= used;
    memmove(lane->held, lane->held + used, lane->held_len);
}

/* ---- The thread ------------------------------------------------------------------ */

struct polled {
    struct pollfd fds[2 + 2 * LANES];
    struct lane *lanes[2 + 2 * LANES];
    unsigned numbers[2 + 2 * LANES];
    nfds_t count;
};

static void polled_add(struct polled *polled, int fd, struct lane *lane)
{
    polled->fds[polled->count] = (struct pollfd){ .fd = fd, .events = POLLIN };
    polled->numbers[polled->count] = lane ? lane->number : 0;
    polled->lanes[polled->count++] = lane;
}

static void polled_fill(struct middle *middle, struct polled *polled)
{
    polled->count = 0;
    polled_add(polled, middle->waker, NULL);
    polled_add(polled, middle->listener, NULL);
    for (struct lane *lane = middle->lanes; lane < middle->lanes + LANES; lane++)
        if (lane->client >= 0) {
            polled_add(polled, lane->client, lane);
            polled_add(polled, lane->server, lane);
        }
}

static void polled_handle(struct middle *middle, struct polled *polled)
{
    for (nfds_t i = 2; i < polled->count; i++) {
        struct lane *lane = polled->lanes[i];
        if (!polled->fds[i].revents || lane->number != polled->numbers[i])
            continue; /* nothing there, or the lane is another one by now */
        if (lane->end)
            lane_close(lane, lane->end == LANE_RESET);
        else if (lane->client == polled->fds[i].fd)
            client_said(middle, lane);
        else
            server_said(middle, lane);
    }
    if (polled->fds[1].revents)
        lane_accept(middle);
}

static void *middle_run(void *arg)
{
    struct middle *middle = arg;
    struct polled polled;
    pthread_mutex_lock(&middle->mutex);
    while (!middle->stopping) {
        polled_fill(middle, &polled);
        pthread_mutex_unlock(&middle->mutex);
        poll(polled.fds, polled.count, -1);
        atomic_store(&middle->wants, true);
        pthread_mutex_lock(&middle->mutex);
        atomic_store(&middle->wants, false);
        polled_handle(middle, &polled);
    }
    for (size_t i = 0; i < LANES; i++)
        lane_close(&middle->lanes[i], true);
    pthread_mutex_unlock(&middle->mutex);
    return NULL;
}

/* ---- The test's side ------------------------------------------------------------- */

static void listener_open(struct middle *middle)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    middle->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(middle->listener >= 0);
    CHECK_EQ(bind(middle->listener, (struct sockaddr *)&address, len), 0);
    CHECK_EQ(listen(middle->listener, 64), 0);
    CHECK_EQ(getsockname(middle->listener, (struct sockaddr *)&address, &len), 0);
    middle->port = ntohs(address.sin_port);
}

struct middle *middle_start(const char *server, const struct middle_wire *wire,
                            void *arg)
{
    struct middle *middle = calloc(1, sizeof *middle);
    CHECK(middle != NULL);
    snprintf(middle->upstream, sizeof middle->upstream, "%s", server);
    middle->wire = wire;
    middle->arg = arg;
    for (size_t i = 0; i < LANES; i++)
        middle->lanes[i].client = middle->lanes[i].server = -1;
    pthread_mutex_init(&middle->mutex, NULL);
    listener_open(middle);
    middle->waker = eventfd(0, EFD_CLOEXEC);
    CHECK(middle->waker >= 0);
    CHECK_EQ(pthread_create(&middle->thread, NULL, middle_run, middle), 0);
    return middle;
}

void middle_stop(struct middle *middle)
{
    const uint64_t one = 1;
    if (!middle)
        return;
    pthread_mutex_lock(&middle->mutex);
    middle->stopping = true;
    pthread_mutex_unlock(&middle->mutex);
    CHECK_EQ(write(middle->waker, &one, sizeof one), sizeof one);
    CHECK_EQ(pthread_join(middle->thread, NULL), 0);
    close(middle->listener);
    close(middle->waker);
    pthread_mutex_destroy(&middle->mutex);
    free(middle);
}

int middle_port(const struct middle *middle)
{
    return middle->port;
}

void middle_lock(struct middle *middle)
{
    while (atomic_load(&middle->wants))
        sched_yield();
    pthread_mutex_lock(&middle->mutex);
}

void middle_unlock(struct middle *middle)
{
    pthread_mutex_unlock(&middle->mutex);
}

struct lane *middle_newest(struct middle *middle)
{
    struct lane *newest = NULL;
    for (struct lane *lane = middle->lanes; lane < middle->lanes + LANES; lane++)
        if (lane->client >= 0 && (!newest || lane->number > newest->number))
            newest = lane;
    return newest;
}
