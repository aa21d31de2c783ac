/* SPDX-License-Identifier: MIT */
/*
 * How the zookeeper: store fails, on real servers and through holdfast.h alone. A case
 * has to show what the caller sees, that never two clients believe to hold one name at
 * the same time, that waiters are served soon after the fault is over, and that no node
 * stays behind.
 */
#ifndef ZOOKEEPER_CASES_H
#define ZOOKEEPER_CASES_H

#include <pthread.h>
#include <stdatomic.h>

#include "../../include/holdfast.h"
#include "../harness/check.h"
#include "../harness/tcp_proxy.h"
#include "../harness/zookeeper_raw.h"
#include "../harness/zookeeper_server.h"

struct fault_case {
    const char *name;
    void (*run)(void);
};

/* One array per source, ended by a NULL name. */
extern const struct fault_case ensemble_cases[]; /* servers die, freeze, come back */
extern const struct fault_case cut_cases[];      /* a follower without its leader */
extern const struct fault_case session_cases[];  /* sessions and processes end */
extern const struct fault_case wire_cases[];     /* replies get lost */
extern const struct fault_case herd_cases[];     /* a thousand waiters */
extern const struct fault_case deadline_cases[]; /* calls end in time */

/* The session that clients ask for; and how soon after the end of a fault a waiter has
 * the lock: the session, an election, two seconds. */
#define SESSION_MS 2000
#define ELECTION_MS 2000
#define HEAL_MS (SESSION_MS + ELECTION_MS + 2000)

/* ---- The case's world ------------------------------------------------------------ */

struct world {
    char directory[48]; /* empty at the beginning, removed at the end */
    struct zookeeper zoo;
    struct tcp_proxy *proxy;
    int session_ms; /* that clients ask for: SESSION_MS at the beginning of a case */
};

extern struct world world;

/* So many servers run, and they are as the last case left them, which is: empty. */
void world_start(size_t servers);
void case_done(void);
void world_done(void); /* all of it, from whatever state */

/* A client on all servers; or through the proxy before the first one, which is started
 * if there is none. `more` "" or "&layout=...". */
hf_client *opened(const char *more);
hf_client *opened_at(unsigned servers, const char *more); /* bits: on these servers */
hf_client *opened_through(const char *more);

/* ---- Locks ----------------------------------------------------------------------- */

/* A mutex, with a lease as long as the session. */
int lock(hf_client *client, const char *name, int64_t timeout_ms, hf_hold **ret_hold);
hf_hold *locked(hf_client *client, const char *name);

/* What a watch was told. */
struct events {
    atomic_int lost;
    atomic_int doubtful;
};
void watch(hf_hold *hold, struct events *events);

/* One that waits for ever. Its turn comes when `former` (or NULL) is lost or let go: in
 * the moment it does, `former` is looked at. */
struct waiter {
    pthread_mutex_t mutex; /* guards `former` */
    const hf_hold *former;
    atomic_bool over;
    atomic_bool both; /* two at once were told that they hold the name */
    int rc;
    hf_hold *hold;
};

/* Starts one, and waits until it is number `place` in the queue of the name (who holds
 * it is number 0). Waits for its turn, which has to come within HEAL_MS, and checks
 * that nobody else had the name: how long it took. */
void waiter_start(struct waiter *waiter, hf_client *client, const char *name, int place,
                  const hf_hold *former);
int64_t waiter_served(struct waiter *waiter);

/* From here on `former` may be released. */
void waiter_blind(struct waiter *waiter);

/* ---- What the servers say -------------------------------------------------------- */

/* How many nodes there are in the folder of a lock; -1 if it is not there. */
int contenders(const char *name);
int contenders_of(const char *name, int64_t session); /* nodes of that session */

/* The session of the first of them, and the server that it is connected to. */
int64_t holder_session(const char *name);
size_t server_of(int64_t session);
bool server_has(size_t node, int64_t session);

/* No node is there any more; containers take the server a moment. */
void check_nothing_left(void);

/* The same client takes and releases a name; how long that took. */
int64_t check_recovers(hf_client *client);

const char *name_of(int rc);
void check_one_of(int rc, const char *file, int line, const int *codes);
#define CHECK_ONE_OF(rc, ...)                                                          \
    check_one_of((rc), __FILE__, __LINE__, (const int[]){ __VA_ARGS__, 1 })

/* One row of the table that is printed at the end. */
void report(const char *fault, int64_t served_ms, const char *saw, ...)
    __attribute__((format(printf, 3, 4)));

#endif
