/* SPDX-License-Identifier: MIT */
/*
 * The bad network: see tcp_proxy.h.
 *
 * A thread of its own moves the bytes; the test's thread changes the mode under the
 * mutex and wakes it. What the server says goes through a buffer per connection, so
 * that it can be held back; what the client says is passed on at once. A piece of
 * reply is what one read of the server's socket gives: for one request, its reply.
 */
#include "tcp_proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

#define LINES_MAX 64
#define HELD_MAX 65536

/* One connection: a pair of sockets and what is held back of the server's words. */
struct line {
    int client; /* -1: free */
    int server;
    bool deaf; /* swallows what the server says */
    int64_t due_ms;
    size_t held;
    char *buffer;
};

struct tcp_proxy {
    char upstream[160];
    int listener;
    int port;
    int waker;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    bool stopping;
    enum proxy_mode mode;
    int64_t number;
    const char *text;
    size_t len;
    struct proxy_count count;
    struct line lines[LINES_MAX];
};

/* ---- One connection -------------------------------------------------------------- */

static void line_close(struct line *line)
{
    if (line->client < 0)
        return;
    close(line->client);
    close(line->server);
    free(line->buffer);
    *line = (struct line){ .client = -1, .server = -1 };
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
    int one = 1;
    struct sockaddr_un path = { .sun_family = AF_UNIX };
    struct sockaddr_in port = { .sin_family = AF_INET };
    if (server[0] == ':') {
        port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        port.sin_port = htons((uint16_t)strtol(server + 1, NULL, 10));
        int fd = connected(AF_INET, &port, sizeof port);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return fd;
    }
    snprintf(path.sun_path, sizeof path.sun_path, "%.*s", (int)sizeof path.sun_path - 1,
             server);
    return connected(AF_UNIX, &path, sizeof path);
}

static void line_accept(struct tcp_proxy *proxy)
{
    int one = 1;
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    proxy->count.connections++;
    int server = proxy->mode == PROXY_REFUSE ? -1 : upstream_connect(proxy->upstream);
    struct line *line = proxy->lines;
    while (line < proxy->lines + LINES_MAX && line->client >= 0)
        line++;
    if (server < 0 || line == proxy->lines + LINES_MAX) {
        close(client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *line = (struct line){ .client = client, .server = server };
    line->buffer = malloc(HELD_MAX);
    CHECK(line->buffer != NULL);
}

static bool pass_on(int fd, const char *data, size_t size)
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

static void client_said(struct tcp_proxy *proxy, struct line *line)
{
    char data[16384];
    ssize_t len = recv(line->client, data, sizeof data, 0);
    if (len <= 0 || !pass_on(line->server, data, (size_t)len))
        line_close(line);
    else
        proxy->count.told += (size_t)len;
}

/* Cutting and replacing happen once, and to this line alone. */
static size_t piece_spoil(struct tcp_proxy *proxy, struct line *line, size_t len,
                          bool *ret_cut)
{
    if (proxy->mode == PROXY_CUT) {
        *ret_cut = (int64_t)len >= proxy->number;
        if (!*ret_cut) {
            proxy->number -= (int64_t)len;
            return len;
        }
        len = (size_t)proxy->number;
        proxy->mode = PROXY_PASS;
    } else if (proxy->mode == PROXY_REPLACE) {
        memcpy(line->buffer + line->held, proxy->text, proxy->len);
        len = proxy->len;
        proxy->mode = PROXY_PASS;
    }
    return len;
}

static void server_said(struct tcp_proxy *proxy, struct line *line, int64_t now)
{
    bool cut = false;
    ssize_t len =
        recv(line->server, line->buffer + line->held, HELD_MAX - line->held, 0);
    if (len <= 0) {
        line_close(line);
        return;
    }
    proxy->count.said += (size_t)len;
    if (line->deaf)
        return;
    if (line->held == 0)
        line->due_ms = proxy->mode == PROXY_DELAY ? now + proxy->number : now;
    line->held += piece_spoil(proxy, line, (size_t)len, &cut);
    if (cut) {
        pass_on(line->client, line->buffer, line->held);
        line_close(line);
    }
}

static void line_deliver(struct tcp_proxy *proxy, struct line *line, int64_t now)
{
    if (line->held == 0 || line->due_ms > now)
        return;
    bool trickle = proxy->mode == PROXY_TRICKLE;
    size_t len = trickle ? 1 : line->held;
    if (!pass_on(line->client, line->buffer, len)) {
        line_close(line);
        return;
    }
    line->held -= len;
    memmove(line->buffer, line->buffer + len, line->held);
    line->due_ms = trickle ? now + 1 : now;
}

/* ---- The thread ------------------------------------------------------------------ */

struct polled {
    struct pollfd fds[2 + 2 * LINES_MAX];
    struct line *lines[2 + 2 * LINES_MAX];
    nfds_t count;
};

static void polled_add(struct polled *polled, int fd, struct line *line)
{
    polled->fds[polled->count] = (struct pollfd){ .fd = fd, .events = POLLIN };
    polled->lines[polled->count++] = line;
}

/* Returns how long to sleep. */
static int polled_fill(struct tcp_proxy *proxy, struct polled *polled)
{
    bool waiting = false;
    polled->count = 0;
    polled_add(polled, proxy->waker, NULL);
    polled_add(polled, proxy->listener, NULL);
    for (struct line *line = proxy->lines; line < proxy->lines + LINES_MAX; line++) {
        if (line->client < 0 || proxy->mode == PROXY_HOLE)
            continue;
        waiting |= line->held > 0;
        polled_add(polled, line->client, line);
        if (line->held < HELD_MAX)
            polled_add(polled, line->server, line);
    }
    return waiting ? 1 : -1;
}

static void polled_handle(struct tcp_proxy *proxy, struct polled *polled)
{
    int64_t now = real_ms();
    if (polled->fds[1].revents)
        line_accept(proxy);
    for (nfds_t i = 2; i < polled->count; i++) {
        struct line *line = polled->lines[i];
        int fd = polled->fds[i].fd;
        if (!polled->fds[i].revents || proxy->mode == PROXY_HOLE)
            continue;
        if (line->client == fd)
            client_said(proxy, line);
        else if (line->server == fd)
            server_said(proxy, line, now);
    }
    for (struct line *line = proxy->lines; line < proxy->lines + LINES_MAX; line++)
        if (line->client >= 0 && proxy->mode != PROXY_HOLE)
            line_deliver(proxy, line, now);
}

static void *proxy_run(void *arg)
{
    struct tcp_proxy *proxy = arg;
    struct polled polled;
    uint64_t woken;
    pthread_mutex_lock(&proxy->mutex);
    while (!proxy->stopping) {
        int patience = polled_fill(proxy, &polled);
        pthread_mutex_unlock(&proxy->mutex);
        poll(polled.fds, polled.count, patience);
        pthread_mutex_lock(&proxy->mutex);
        if (polled.fds[0].revents)
            CHECK_EQ(read(proxy->waker, &woken, sizeof woken), sizeof woken);
        polled_handle(proxy, &polled);
    }
    for (size_t i = 0; i < LINES_MAX; i++)
        line_close(&proxy->lines[i]);
    pthread_mutex_unlock(&proxy->mutex);
    return NULL;
}

/* ---- The test's side ------------------------------------------------------------- */

static void listener_open(struct tcp_proxy *proxy)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(proxy->listener >= 0);
    CHECK_EQ(bind(proxy->listener, (struct sockaddr *)&address, len), 0);
    CHECK_EQ(listen(proxy->listener, 64), 0);
    CHECK_EQ(getsockname(proxy->listener, (struct sockaddr *)&address, &len), 0);
    proxy->port = ntohs(address.sin_port);
}

struct tcp_proxy *proxy_start(const char *server)
{
    struct tcp_proxy *proxy = calloc(1, sizeof *proxy);
    CHECK(proxy != NULL);
    snprintf(proxy->upstream, sizeof proxy->upstream, "%s", server);
    for (size_t i = 0; i < LINES_MAX; i++)
        proxy->lines[i].client = proxy->lines[i].server = -1;
    pthread_mutex_init(&proxy->mutex, NULL);
    listener_open(proxy);
    proxy->waker = eventfd(0, EFD_CLOEXEC);
    CHECK(proxy->waker >= 0);
    CHECK_EQ(pthread_create(&proxy->thread, NULL, proxy_run, proxy), 0);
    return proxy;
}

static void proxy_wake(struct tcp_proxy *proxy)
{
    const uint64_t one = 1;
    CHECK_EQ(write(proxy->waker, &one, sizeof one), sizeof one);
}

void proxy_stop(struct tcp_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->stopping = true;
    pthread_mutex_unlock(&proxy->mutex);
    proxy_wake(proxy);
    CHECK_EQ(pthread_join(proxy->thread, NULL), 0);
    close(proxy->listener);
    close(proxy->waker);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

int proxy_port(const struct tcp_proxy *proxy)
{
    return proxy->port;
}

void proxy_set(struct tcp_proxy *proxy, enum proxy_mode mode, int64_t number,
               const char *text, size_t len)
{
    CHECK(len <= HELD_MAX / 2);
    pthread_mutex_lock(&proxy->mutex);
    proxy->mode = mode;
    proxy->number = number;
    proxy->text = text;
    proxy->len = len;
    proxy->count = (struct proxy_count){ 0, 0, 0 };
    for (struct line *line = proxy->lines; line < proxy->lines + LINES_MAX; line++) {
        if (mode == PROXY_SWALLOW)
            line->deaf = true;
        else if (mode == PROXY_REFUSE)
            line_close(line);
    }
    pthread_mutex_unlock(&proxy->mutex);
    proxy_wake(proxy);
}

struct proxy_count proxy_count(struct tcp_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    struct proxy_count count = proxy->count;
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}
