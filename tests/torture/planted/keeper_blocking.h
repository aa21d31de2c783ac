/* SPDX-License-Identifier: MIT */
/* A blocking ZooKeeper session for locks that are wrong on purpose: it survives a
 * connection that breaks, and it shares no code with the library. One thread per
 * session; no watches, no pings: whoever asks often enough keeps it alive. */
#ifndef TORTURE_KEEPER_BLOCKING_H
#define TORTURE_KEEPER_BLOCKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keeper;

/* What became of a request; else the server's own code, below 0. */
enum keeper_code {
    KEEPER_OK = 0,
    KEEPER_SILENT = 1, /* no answer came; it may have been carried out */
    KEEPER_UNSENT = 2, /* there was no connection */
    KEEPER_OVER = 3,   /* the session has expired; the next request begins another */
    KEEPER_NO_NODE = -101,
    KEEPER_NODE_EXISTS = -110,
};

enum keeper_mode { KEEPER_PERSISTENT = 0, KEEPER_EPHEMERAL_SEQUENTIAL = 3 };

/* `place` is 127.0.0.1:PORT. Connects when first used, and again after a failure, with
 * the same session as long as the server knows it. */
struct keeper *keeper_open(const char *place, int64_t session_ms);
void keeper_close(struct keeper *keeper); /* NULL is fine; ends the session if it can */

/* `made`, at least as large as `path` and 11 bytes more: the name it was given. */
int keeper_create(struct keeper *keeper, const char *path, enum keeper_mode mode,
                  char *made, size_t size);
int keeper_delete(struct keeper *keeper, const char *path);
typedef void keeper_each(void *arg, const char *name);
int keeper_children(struct keeper *keeper, const char *path, keeper_each *each,
                    void *arg);

#endif
