/* SPDX-License-Identifier: MIT */
/*
 * A Redis server of the bench's own, and the least a C program needs to talk to one.
 *
 * The server is private to the run: no persistence, a port of the loopback and a unix
 * socket in bench->dir. It is started by the first group that needs it and stopped at
 * the end; if the bench dies the kernel stops it.
 */
#ifndef BENCH_REDIS_BARE_H
#define BENCH_REDIS_BARE_H

#include "bench.h"

#include <sys/types.h>

#define REQUEST_SIZE 1024

struct redis {
    pid_t pid;
    int port;
    char path[300]; /* of its unix socket */
    char url[64];   /* redis://127.0.0.1:port */
};

/* The server of this run, started if need be. NULL: there is none, and why was said. */
const struct redis *redis_server(struct bench *bench);
void redis_stop(struct bench *bench);
/* The server to the core of pin_one(), or to all of them. */
void redis_pin(const struct redis *server, bool one);
/* Forgets every key. */
int redis_clear(const struct redis *server);

/* Requests of clients so far: everything but what scripts call, connecting and INFO
 * itself. -1 on failure. */
int64_t redis_requests(const struct redis *server);
/* A counter of INFO, "cmdstat_hexists:calls=" for example; 0 if it is not there, -1 on
 * failure. */
int64_t redis_counter(const struct redis *server, const char *section,
                      const char *name);

/* ---- A bare blocking client ------------------------------------------------------ */

/* A command as it goes over the wire. */
struct request {
    size_t len;
    char bytes[REQUEST_SIZE];
};

#define REQUEST(text)                                                                  \
    {                                                                                  \
        sizeof(text) - 1, text                                                         \
    }

struct bare {
    int fd;
    size_t from, to;
    char in[16384];
};

int bare_open(struct bare *bare, const struct redis *server, bool unix_socket);
void bare_close(struct bare *bare);
int bare_send(const struct bare *bare, const char *bytes, size_t len);
/* Reads one whole reply; an error reply is a failure. */
int bare_reply(struct bare *bare);
/* A request and its reply. */
int bare_call(struct bare *bare, const struct request *request);

/* The command of words, ended by NULL. */
void request_make(struct request *request, const char *const *words);

/* What our client sends to take and to let go of each of `count` locks that nobody
 * wants, "bench/0" and so on: two requests per lock, learned by watching it. */
int requests_learn(const struct redis *server, struct request *pairs, int count);
/* The words of a request, for redis-benchmark; `name` is replaced by `by`. Returns how
 * many; they lie in `text`. */
int request_words(const struct request *request, const char *name, const char *by,
                  char *text, size_t size, const char **words, int max);

/* Workers on a lock that is a script and as little as can be; shared: the server. */
extern const struct contest contest_scripted;

#endif
