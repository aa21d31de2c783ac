/* SPDX-License-Identifier: MIT */
/* A private redis-server on a unix socket in a directory of the test's own. */
#ifndef HARNESS_REDIS_SERVER_H
#define HARNESS_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct redis_server {
    pid_t pid; /* 0: not running */
    char directory[128];
    char socket[160];
};

/*
 * Starts it and waits until it answers. `options` are words for its command line that
 * come after ours (no port, no persistence), ended by NULL; NULL for none. With `clock`
 * its wall clock follows the scenario's virtual clock (clock_preload.c). It dies with
 * the thread that started it: call it from the main thread.
 */
void redis_start(struct redis_server *server, const char *directory, bool clock,
                 const char *const *options);

/* Kills it, as if the machine went dark, and reaps it. It can be started again. */
void redis_kill(struct redis_server *server);

/* Asks it to end, which with a persistence of some kind saves what there is. */
void redis_shut_down(struct redis_server *server);

#endif
