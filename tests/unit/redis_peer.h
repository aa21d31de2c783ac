/* SPDX-License-Identifier: MIT */
/*
 * The redis store alone, on a fake host, against a server that the test itself plays:
 * it receives each request and sends any reply.
 *
 *     peer_open("&layout=simple");
 *     fake_attempt(&peer.host, &ticket);
 *     peer_expect("simple_take 4 name *");
 *     peer_say("*1\r\n:3\r\n");
 *     ck_assert_int_eq(fake_next(&peer.host).what, FAKE_BUSY);
 *     peer_close();
 *
 * A request is its words with a space between them. A script that is called by its SHA
 * stands there as its name, without EVALSHA. peer_close() also checks that no block of
 * memory is left.
 */
#ifndef HF_TESTS_REDIS_PEER_H
#define HF_TESTS_REDIS_PEER_H

#include "fake_host.h"

extern const struct hf_backend hf__backend_redis;

enum { PEER_REQUEST = 65536, PEER_WORDS = 1024 };

struct peer {
    struct fake_host host;
    struct fake_clock clock;
    int listener, fd;
    size_t live; /* blocks of memory before */
    char path[64];
    char inbox[64];
    char handshake[1024]; /* its requests, one a line */
};

extern struct peer peer;

/* Opens a session over RESP3; `options` as in "&layout=simple". */
void peer_open(const char *options);
/* The same with a whole URL, in which %s stands for the socket's path. */
void peer_open_url(const char *url);
/* The same with a socket that listens already. */
void peer_open_on(int listener, const char *url);
/* The server goes first: nothing is withdrawn any more. */
void peer_close(void);
/* The session ends while the server is there. */
void peer_leave_open(void);
void peer_hang_up(void);
/* Waits for the store to reconnect, and answers its handshake. */
void peer_again(void);

/* The next request; valid until the one after it. Not PING, which is answered. */
const char *peer_hear(void);
/* The same on a thread of its own, while the store is blocked; "" at the end. */
const char *peer_hear_alone(void);
/* What has arrived already, "" if nothing; the store's loop does not run. */
const char *peer_rest(void);
/* The next request fits this pattern of fnmatch(3). */
void peer_expect(const char *pattern);
/* The store sends nothing. */
bool peer_is_quiet(void);

void peer_say(const char *text);
/* peer_expect() and peer_say(). */
void peer_answer(const char *pattern, const char *text);
/* A message on a channel, NULL: the inbox. */
void peer_push(const char *channel, const char *payload);
/* The server confirms a subscription. */
void peer_confirm(const char *channel);

/* As the server knows this ticket: "<number> <owner>". */
const char *peer_address(const struct hf_ticket *ticket);

/* A ticket of a name with a lease of 30 s. */
struct hf_ticket peer_ticket(int kind);
/* One that has been granted, with tokens from 7 on. */
void peer_grant(struct hf_ticket *ticket);

#endif
