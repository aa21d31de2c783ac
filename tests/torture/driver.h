/* SPDX-License-Identifier: MIT */
/*
 * A lock under torture: holdfast itself, a lock written wrong on purpose, or another
 * library's behind a pipe. The worker (worker.c) knows only this table.
 *
 * A driver is opened once per thread and used by that thread alone. It may block, as
 * long as `timeout_ms` says plus what its request deadline adds.
 */
#ifndef TORTURE_DRIVER_H
#define TORTURE_DRIVER_H

#include <stdint.h>

#include "history.h"

struct driver_settings {
    const char *url;     /* of the store, as holdfast writes it */
    const char *command; /* for a peer: the program behind the pipe; else NULL */
    int64_t ttl_ms;      /* the lease to ask for; 0: the lock's default */
    bool share;          /* threads of one process share one client, if it has one */
};

struct driver_want {
    const char *name;
    uint8_t kind; /* enum history_kind */
    uint16_t permits;
    uint16_t limit;
    int64_t timeout_ms; /* 0 tries once */
    bool detached;      /* the hold outlives this process until its lease ends */
};

struct driver_grant {
    uint64_t token;     /* 0 if this lock knows none */
    uint64_t until_ns;  /* history_now() until which it promises to be held, counted
                          soundly; UINT64_MAX if it promises no end */
    uint64_t latest_ns; /* extend: the latest end that until_ns may stand for */
    uint32_t place;
    uint32_t code;
};

struct driver {
    const char *name;
    uint32_t kinds; /* 1 << enum history_kind, those it can do */

    void *(*open)(const struct driver_settings *settings); /* NULL: said on stderr */
    void (*close)(void *self);

    /* H_OK, H_BUSY, H_TIMEOUT, H_UNKNOWN or H_FAILED; one hold at a time, but for
     * REENTRANT. */
    enum history_result (*acquire)(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant);
    /* H_OK, H_LATE, H_UNKNOWN or H_FAILED; the hold is gone whatever it says. */
    enum history_result (*release)(void *self);
    /* True while the lock itself says "held"; then until_ns as above. The caller has
     * stamped before. May be NULL: then what acquire promised is all there is. */
    bool (*still_held)(void *self, uint64_t *ret_until_ns);

    /* What may be done to a hold meanwhile; each may be NULL. All are about the hold
     * that was taken last, but for `adopt`, which takes one, and `evict`, which takes
     * one away from another. H_OK, H_UNKNOWN or H_FAILED; H_LATE if the hold is lost;
     * adopt and evict: H_ABSENT if there is no such hold. */
    enum history_result (*extend)(void *self, int64_t ttl_ms,
                                  struct driver_grant *ret_grant);
    enum history_result (*downgrade)(void *self);
    /* Writes the id by which another may adopt the hold. */
    enum history_result (*identify)(void *self, char *buffer, size_t size);
    enum history_result (*adopt)(void *self, const struct driver_want *want,
                                 const char *id, struct driver_grant *ret_grant);
    /* Leaves a detached hold to its lease; H_OK: it is not ours to release any more. */
    enum history_result (*leave)(void *self);
    enum history_result (*evict)(void *self, const char *name, uint64_t token);
};

extern const struct driver *const drivers[]; /* NULL at the end */
const struct driver *driver_find(const char *name);

#endif
