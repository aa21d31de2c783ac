/* SPDX-License-Identifier: MIT */
/*
 * The played server of redis_peer.h. One thread plays and tests; only for the first
 * exchange, in which the store blocks, there is a second one.
 */
#include "redis_peer.h"

#include "../../src/backends/redis/session.h"
#include "../../src/base/mem.h"

#include <check.h>
#include <fnmatch.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { TURNS = 10000 };

struct peer peer;

/* ---- Hearing --------------------------------------------------------------------- */

static struct {
    char bytes[PEER_REQUEST]; /* that have come and were not taken */
    size_t len;
    struct resp nodes[PEER_WORDS];
} in;

static void append_word(char *out, size_t *at, const struct resp *word)
{
    ck_assert_uint_lt(*at + word->len + 2, PEER_REQUEST);
    if (*at)
        out[(*at)++] = ' ';
    memcpy(out + *at, word->text, word->len);
    *at += word->len;
    out[*at] = '\0';
}

static struct resp script_name(const struct resp *sha)
{
    for (size_t i = 0; hf__redis_scripts[i]; i++)
        if (hf__redis_resp_is(sha, hf__redis_scripts[i]->sha))
            return (struct resp){ .text = hf__redis_scripts[i]->name,
                                  .len = strlen(hf__redis_scripts[i]->name) };
    return *sha;
}

/* Takes one request off what has come. False: it is not whole. */
static bool take_request(char *out)
{
    size_t used, at = 0, first = 0;
    if (hf__redis_resp_read(in.bytes, in.len, in.nodes, PEER_WORDS, &used) !=
        RESP_WHOLE)
        return false;
    if (hf__redis_resp_is(hf__redis_resp_at(in.nodes, 0, 0), "EVALSHA")) {
        struct resp name = script_name(hf__redis_resp_at(in.nodes, 0, 1));
        append_word(out, &at, &name);
        first = 2;
    }
    for (size_t i = first; i < in.nodes[0].len; i++)
        append_word(out, &at, hf__redis_resp_at(in.nodes, 0, i));
    in.len -= used;
    memmove(in.bytes, in.bytes + used, in.len);
    return true;
}

static bool receive(int flags)
{
    ssize_t got = recv(peer.fd, in.bytes + in.len, sizeof in.bytes - in.len, flags);
    in.len += got > 0 ? (size_t)got : 0;
    return got > 0;
}

static bool is_ping(const char *request)
{
    if (strcmp(request, "PING") != 0)
        return false;
    peer_say("+PONG\r\n");
    return true;
}

const char *peer_hear(void)
{
    static char request[PEER_REQUEST];
    for (int i = 0; i < TURNS; i++) {
        if (take_request(request)) {
            if (!is_ping(request))
                return request;
        } else if (!receive(MSG_DONTWAIT)) {
            fake_turn(&peer.host, 1);
        }
    }
    ck_abort_msg("the store sends nothing");
}

const char *peer_hear_alone(void)
{
    static char request[PEER_REQUEST];
    while (!take_request(request))
        if (!receive(0))
            return "";
    return request;
}

const char *peer_rest(void)
{
    static char request[PEER_REQUEST];
    receive(MSG_DONTWAIT);
    return take_request(request) ? request : "";
}

bool peer_is_quiet(void)
{
    char request[PEER_REQUEST];
    fake_turn(&peer.host, 0);
    receive(MSG_DONTWAIT);
    while (take_request(request))
        if (!is_ping(request))
            return false;
    return true;
}

void peer_expect(const char *pattern)
{
    const char *request = peer_hear();
    ck_assert_msg(fnmatch(pattern, request, 0) == 0, "not %s: %s", pattern, request);
}

/* ---- Saying ---------------------------------------------------------------------- */

void peer_say(const char *text)
{
    size_t len = strlen(text);
    ck_assert_int_eq(send(peer.fd, text, len, MSG_NOSIGNAL), (ssize_t)len);
}

void peer_answer(const char *pattern, const char *text)
{
    peer_expect(pattern);
    peer_say(text);
}

void peer_push(const char *channel, const char *payload)
{
    static char text[PEER_REQUEST];
    const char *to = channel ? channel : peer.inbox;
    snprintf(text, sizeof text, ">3\r\n+message\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
             strlen(to), to, strlen(payload), payload);
    peer_say(text);
}

void peer_confirm(const char *channel)
{
    char text[512];
    snprintf(text, sizeof text, ">3\r\n+subscribe\r\n$%zu\r\n%s\r\n:1\r\n",
             strlen(channel), channel);
    peer_say(text);
}

/* ---- Beginning and end ----------------------------------------------------------- */

/* Answers one request of the first exchange; true if it was the last one. */
static bool answer_handshake(const char *request)
{
    size_t len = strlen(peer.handshake);
    snprintf(peer.handshake + len, sizeof peer.handshake - len, "%s\n", request);
    if (strncmp(request, "HELLO", 5) == 0) {
        peer_say("%1\r\n+version\r\n+7.0.15\r\n");
    } else if (strncmp(request, "SUBSCRIBE ", 10) == 0) {
        snprintf(peer.inbox, sizeof peer.inbox, "%s", request + 10);
        peer_confirm(peer.inbox);
    } else {
        peer_say(strcmp(request, "PING") == 0 ? "+PONG\r\n" : "+OK\r\n");
    }
    return strcmp(request, "PING") == 0;
}

static void *serve_handshake(void *arg)
{
    static char request[PEER_REQUEST];
    (void)arg;
    in.len = 0;
    peer.handshake[0] = '\0';
    peer.fd = accept(peer.listener, NULL, NULL);
    while (take_request(request) ? !answer_handshake(request) : receive(0))
        ;
    return NULL;
}

static int socket_make(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    snprintf(peer.path, sizeof peer.path, "/tmp/hf-redis-%d", (int)getpid());
    snprintf(name.sun_path, sizeof name.sun_path, "%s", peer.path);
    unlink(peer.path); /* of a test that failed under this number */
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    return listener;
}

void peer_open_on(int listener, const char *url)
{
    pthread_t thread;
    hf_error why = { 0 };
    peer.live = hf__mem_live();
    peer.clock.now_ns = INT64_C(1000000000000);
    peer.listener = listener;
    ck_assert_int_eq(pthread_create(&thread, NULL, serve_handshake, NULL), 0);
    int rc = fake_open_why(&peer.host, &hf__backend_redis, url, &peer.clock, &why);
    ck_assert_msg(rc == 0, "%d: %s", rc, why.text);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

void peer_open_url(const char *url)
{
    char text[512];
    int listener = socket_make();
    const char *at = strstr(url, "%s");
    ck_assert_ptr_nonnull(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - url), url, peer.path, at + 2);
    peer_open_on(listener, text);
}

void peer_open(const char *options)
{
    char url[256];
    snprintf(url, sizeof url, "redis+unix://%%s?protocol=3%s", options);
    peer_open_url(url);
}

void peer_hang_up(void)
{
    close(peer.fd);
    peer.fd = -1;
    in.len = 0;
}

void peer_again(void)
{
    static char request[PEER_REQUEST];
    struct pollfd polled = { .fd = peer.listener, .events = POLLIN };
    for (int i = 0; i < TURNS && poll(&polled, 1, 0) == 0; i++) {
        peer.clock.now_ns += INT64_C(10000000);
        fake_turn(&peer.host, 1);
    }
    peer.fd = accept(peer.listener, NULL, NULL);
    in.len = 0;
    const struct redis_session *session = peer.host.session;
    for (int i = 0; i < TURNS; i++) {
        if (hf__redis_conn_is_up(session->conn))
            return;
        if (take_request(request)) {
            answer_handshake(request);
        } else if (!receive(MSG_DONTWAIT)) {
            fake_turn(&peer.host, 1);
        }
    }
    ck_abort_msg("the store does not finish its handshake");
}

void peer_leave_open(void)
{
    close(peer.listener);
    unlink(peer.path);
    fake_close(&peer.host);
    close(peer.fd);
    ck_assert_uint_eq(hf__mem_live(), peer.live);
}

void peer_close(void)
{
    if (peer.fd >= 0)
        close(peer.fd);
    close(peer.listener);
    unlink(peer.path);
    fake_turn(&peer.host, 0);
    fake_close(&peer.host);
    ck_assert_uint_eq(hf__mem_live(), peer.live);
}

/* ---- Tickets --------------------------------------------------------------------- */

const char *peer_address(const struct hf_ticket *ticket)
{
    static char text[64];
    char owner[OWNER_SIZE];
    size_t len = hf__redis_owner_write(owner, LAYOUT_REDISSON, &ticket->id);
    snprintf(text, sizeof text, "%u %.*s", (unsigned)ticket->store[0] - 1, (int)len,
             owner);
    return text;
}

struct hf_ticket peer_ticket(int kind)
{
    struct hf_ticket ticket = fake_ticket("name", kind);
    ticket.reserve = 4;
    ticket.ttl_ns = INT64_C(30000000000);
    return ticket;
}

void peer_grant(struct hf_ticket *ticket)
{
    fake_attempt(&peer.host, ticket);
    peer_hear();
    peer_say("*5\r\n:1\r\n:7\r\n:4\r\n:30000\r\n:0\r\n");
    ck_assert_uint_eq(fake_expect_grant(&peer.host, ticket), 7);
}
