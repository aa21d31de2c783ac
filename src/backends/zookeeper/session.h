/* SPDX-License-Identifier: MIT */
/*
 * What the files of the zookeeper store share: the session, watchers, jobs. ticket.h
 * has the tickets.
 *
 * A lost connection ends nothing: work goes on at `up`. Nodes end with the session
 * only (`expired`).
 */
#ifndef HF_ZOOKEEPER_SESSION_H
#define HF_ZOOKEEPER_SESSION_H

#include "../../base/list.h"
#include "details.h"
#include "names.h"
#include "pending_changes.h"
#include "wire/zk.h"

enum { WATCH_BUCKETS = 256 };

struct zk_session {
    struct hf_host *host;
    struct zk *zk;
    enum layout layout;
    bool closing;
    int64_t session_asked_ns;

    struct hf_list_node tickets;
    struct hf_list_node jobs;    /* requests of core that take several to the server */
    struct hf_list_node batches; /* renewals under way */
    struct hf_list_node
        orphans; /* nodes whose delete is repeated until they are gone */
    struct hf_list_node watchers[WATCH_BUCKETS];
    struct hf_timer retry_timer; /* a request was not sent though we are connected */

    struct pending_changes pending; /* of changes.c */
    struct zk_identity identity;    /* for the data of our nodes */
};

/* ---- watchers.c: which watcher waits for which path --------------------------------
 *
 * A watcher is set before the request that sets the server's watch. When the path
 * fires, once, the watcher is removed and `fired` is called. The event may be older
 * than that request, so `fired` has to ask the server, and set the watcher again. When
 * the session ends all are dropped without a call: `expired` tells the tickets. */
struct watcher;
typedef void watcher_fired(struct zk_session *me, struct watcher *watcher,
                           enum zk_event_type type);
struct watcher {
    struct hf_list_node link; /* zeroed: not set */
    uint32_t hash;
    const char *path; /* the owner's; must live while the watcher is set */
    watcher_fired *fired;
};

void hf__zk_watchers_init(struct zk_session *me);
/* A watcher that is set is ended first. */
void hf__zk_watcher_set(struct zk_session *me, struct watcher *watcher,
                        const char *path, watcher_fired *fired);
/* Removes it, and the server's watch. */
void hf__zk_watcher_end(struct zk_session *me, struct watcher *watcher);
/* Removes it where the server has no watch: the reply was NONODE, or none came. */
void hf__zk_watcher_drop(struct watcher *watcher);
void hf__zk_watchers_event(struct zk_session *me, enum zk_event_type type,
                           const char *path, size_t len);
void hf__zk_watchers_drop(struct zk_session *me);

/* ---- orphans.c ------------------------------------------------------------------- */

/* Deletes that node, repeatedly until it is known to be gone. */
void hf__zk_orphan_node_add(struct zk_session *me, const char *path, size_t len);
void hf__zk_orphan_nodes_retry(struct zk_session *me);
/* Drops them: their session is over. */
void hf__zk_orphan_nodes_done(struct zk_session *me);
/* A request was not sent though the client is connected: repeats `up` soon. */
void hf__zk_session_retry_soon(struct zk_session *me);

/* ---- errors.c -------------------------------------------------------------------- */

/* The code and sentence for an error of the server, or for no reply; 0: no error. */
int hf__zk_server_error(const struct zk_reply *reply, hf_error *ret_why);
static inline int zk_answer_error(const struct zk_answer *answer, hf_error *ret_why)
{
    const struct zk_reply *reply = answer->reply;
    if (reply)
        return reply->error == ZK_OK ? 0 : hf__zk_server_error(reply, ret_why);
    *ret_why = *answer->why;
    return answer->why->code ? answer->why->code : HF_EUNCERTAIN;
}

/* ---- Kinds: locks.c, single.c, permits.c, latches.c ------------------------------ */

void hf__zk_lock_attempt(struct zk_session *me, struct hf_ticket *core_ticket);
void hf__zk_single_attempt(struct zk_session *me, struct hf_ticket *core_ticket);
void hf__zk_permits_attempt(struct zk_session *me, struct hf_ticket *core_ticket);
void hf__zk_latch_attempt(struct zk_session *me, struct hf_ticket *core_ticket);

/* ---- renew.c --------------------------------------------------------------------- */

void hf__zk_session_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                          enum hf_renew_mode mode);
void hf__zk_session_interest(void *session, struct hf_ticket *core_ticket);
/* Watches the ticket's own node if core is interested and no watch is set. */
struct zk_ticket;
void hf__zk_interest_watch(struct zk_session *me, struct zk_ticket *ticket);
void hf__zk_renew_forget(struct zk_session *me, const struct zk_ticket *ticket);
void hf__zk_renew_done(struct zk_session *me);

/* ---- jobs.c ------------------------------------------------------------------------
 *
 * A request of core that takes more than one to the server is a job: it is in me->jobs,
 * its requests have it as their subject, and hf__zk_job_end() frees it. It also ends
 * when core forgets the request, and with the session's memory. When the connection is
 * lost its requests are answered without a reply. */
struct job {
    struct hf_list_node link;
    struct hf_request *request;
    /* Frees what the kind added. */
    void (*done)(struct zk_session *me, struct job *job);
};
/* NULL: no memory, and the request has been answered. */
struct job *hf__zk_job_begin(struct zk_session *me, struct hf_request *request,
                             size_t size,
                             void (*done)(struct zk_session *, struct job *));
void hf__zk_job_end(struct zk_session *me, struct job *job, int rc,
                    const hf_error *why);
void hf__zk_jobs_forget(struct zk_session *me, const void *request);
void hf__zk_jobs_done(struct zk_session *me);

/* ---- Requests: latches.c, cells.c, inspect.c, diagnose.c, locks.c ---------------- */

void hf__zk_latch_ask(struct zk_session *me, struct hf_request *request);
void hf__zk_cell_ask(struct zk_session *me, struct hf_request *request);
void hf__zk_inspect(struct zk_session *me, struct hf_request *request);
void hf__zk_evict(struct zk_session *me, struct hf_request *request);
void hf__zk_revoke(struct zk_session *me, struct hf_request *request);
void hf__zk_diagnose(struct zk_session *me, struct hf_request *request);
void hf__zk_downgrade(struct zk_session *me, struct hf_request *request);
void hf__zk_downgrade_forget(struct zk_session *me, const void *request);

#endif
