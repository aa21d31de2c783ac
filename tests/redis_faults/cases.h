/* SPDX-License-Identifier: MIT */
/*
 * How the redis: store fails, on real servers and through holdfast.h alone. A case is a
 * process with a server of its own. It has to show what the caller sees, that no client
 * believes to hold a lock that another client can take, that no key stays longer than
 * its lease, and that the same client works again when the fault is over.
 */
#ifndef REDIS_CASES_H
#define REDIS_CASES_H

#include <stdatomic.h>

#include "../../include/holdfast.h"
#include "../harness/check.h"
#include "../harness/redis_raw.h"
#include "../harness/redis_server.h"
#include "../harness/tcp_proxy.h"

struct fault_case {
    const char *name;
    void (*run)(void);
};

/* One array per source, ended by a NULL name. */
extern const struct fault_case connection_cases[]; /* CLIENT KILL, SCRIPT FLUSH */
extern const struct fault_case server_cases[];     /* stalls, restarts, lost data */
extern const struct fault_case access_cases[];     /* passwords, ACLs, replicas */
extern const struct fault_case network_cases[];    /* a bad network in between */
extern const struct fault_case name_cases[];       /* names like keys */
extern const struct fault_case ending_cases[];   /* cancelled with answers under way */
extern const struct fault_case inspect_cases[];  /* thousands of rows, other keys */
extern const struct fault_case foreign_cases[];  /* layout=simple beside others */
extern const struct fault_case noscript_cases[]; /* script=off */

/* ---- The case's world ------------------------------------------------------------ */

struct world {
    char directory[64]; /* empty at the beginning, removed at the end */
    int protocol;       /* 2 or 3: what our clients speak */
    struct redis_server server;
    struct raw *raw; /* to that server */
    struct tcp_proxy *proxy;
};

extern struct world world;

/* Starts the server (options for its command line, or NULL), or starts it again. */
void world_start(const char *const *options);
void world_kill(void);
void world_done(void); /* all of it, from whatever state */

/* A client on the server's socket; or through the proxy, which is started if there is
 * none, with connections that are given up after REQUEST_MS without a reply. `user` ""
 * or "name:word@". */
hf_client *opened(void);
hf_client *opened_through(const char *user);
void url_through(char *url, size_t size, const char *user);

#define REQUEST_MS 200
/* What a busy machine may add to a time that is checked. Also the request timeout of
 * such a client: its connection is given up, made again and asked well within it. */
#define BUSY_MS 3000

/* A lease that a test waits out; one that is renewed in time on a busy machine too. */
#define LEASE_MS 1000
#define STEADY_MS 3000

/* ---- Locks ----------------------------------------------------------------------- */

/* A mutex, with a lease that is renewed. */
int lock(hf_client *client, const char *name, int64_t timeout_ms, int64_t lease_ms,
         hf_hold **ret_hold);
hf_hold *locked(hf_client *client, const char *name, int64_t lease_ms);

/* One that waits for ever, and stands in the queue; its end. */
hf_op *waiting(hf_client *client, const char *name, int64_t lease_ms);
hf_hold *waited(hf_op *op);

/* The events that a watch received. */
struct events {
    atomic_int lost;
    atomic_int doubtful;
};
void watch(hf_hold *hold, struct events *events);

/* Somebody else, as Redisson would: takes the name if it is free, for a minute. */
bool rival_try(const char *name);
void rival_release(const char *name);

/* As long as the hold says HELD nobody else gets the name. And: that for `ms`, during
 * which it never says anything else. */
void check_guarded(const hf_hold *hold, const char *name);
void check_stays_held(const hf_hold *hold, const char *name, int64_t ms);

/* The code is one of a list ended by 1. */
void check_one_of(int rc, const char *file, int line, const int *codes);
#define CHECK_ONE_OF(rc, ...)                                                          \
    check_one_of((rc), __FILE__, __LINE__, (const int[]){ __VA_ARGS__, 1 })

/* The database has nothing but last tokens: now, or if a lease is given when that is
 * over at the latest (and some patience for a busy machine). */
void check_nothing_left(int64_t lease_ms);

/* The same client takes and releases a name; how long that took, with the fault just
 * over. */
int64_t check_recovers(hf_client *client);

/* One row of the table that is printed at the end. */
void report(const char *fault, int64_t recovered_ms, const char *saw, ...)
    __attribute__((format(printf, 3, 4)));

#endif
