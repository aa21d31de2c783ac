/* SPDX-License-Identifier: MIT */
/*
 * What the planted locks share, so that each driver_*.c is its mistake and little else:
 * a client, polling, the parts of a lease lock that are right, and points at which a
 * schedule can be forced.
 */
#ifndef TORTURE_PLANTED_H
#define TORTURE_PLANTED_H

#include "driver.h"
#include "resp_blocking.h"

#define PLANTED_MEMBERS 3

/* One thread's client, and the one hold it may have. */
struct planted {
    struct resp *redis;                   /* the first member */
    struct resp *member[PLANTED_MEMBERS]; /* all of them, as the URL names them */
    size_t members;
    char place[256]; /* of the URL: the directory, or the sockets */
    int64_t ttl_ms;
    char key[96];      /* of the lock in hand */
    char owner[33];    /* random, fresh for each acquire */
    uint64_t until_ns; /* what we promise */
    uint64_t dice;
    uint8_t kind;
    uint64_t token;
    uint16_t permits;
    bool queued; /* false at the beginning of each acquire */
    int fd;      /* of lock files; -1 */
    void *extra; /* the driver's own */
};

#define NO_END UINT64_MAX

/* redis+unix:///a.sock, or several with commas between; file:///directory. */
void *planted_open(const struct driver_settings *settings);
void planted_close(void *self);
/* True until until_ns, by the clock. */
bool planted_still_held(void *self, uint64_t *ret_until_ns);

/* Calls `attempt` until it says something else than busy, or the time to wait is over.
 * Sets key and owner before. */
typedef enum history_result planted_try(struct planted *self,
                                        const struct driver_want *want);
enum history_result planted_poll(struct planted *self, const struct driver_want *want,
                                 planted_try *attempt, struct driver_grant *ret_grant);

/* The lease lock as it should be: SET NX PX, validity from before the request. */
enum history_result planted_take(struct planted *self, const struct driver_want *want);
/* Compare and delete, in one script. */
enum history_result planted_drop(void *self);

/* What an answer that did not come means. */
enum history_result reply_missing(const struct reply *reply);

/*
 * A place at which a schedule can be forced. $PLANTED_POINT names one and says what
 * happens there, one time in `n`: "before-expire:kill:n" or "before-del:pause:n:ms".
 */
void planted_point(struct planted *self, const char *name);

uint64_t planted_dice(struct planted *self, uint64_t sides); /* 0 .. sides - 1 */
void planted_nap(int64_t us);

#define PLANTED_DRIVER(name_, kinds_, acquire_, release_)                              \
    {                                                                                  \
        .name = name_, .kinds = kinds_, .open = planted_open, .close = planted_close,  \
        .acquire = acquire_, .release = release_, .still_held = planted_still_held,    \
    }

#define ONLY_MUTEX (1u << H_MUTEX)

#endif
