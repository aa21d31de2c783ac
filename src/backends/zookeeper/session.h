/* SPDX-License-Identifier: MIT */
/*
 * What the files of the zookeeper store share: the session, its tickets, their queue
 * nodes, watchers, jobs.
 *
 * struct zk_ticket is what the session keeps of a ticket of core's, from its first
 * attempt until nothing of it can be on the server. It outlives core's ticket if core
 * forgets that: then core_ticket is NULL and the ticket is only withdrawn.
 * core_ticket->store[0] points to it. Each kind embeds it as its first member and has a
 * table of operations, through which zookeeper.c calls.
 *
 * A queue node is one node in one queue: the folder of a mutex, P/locks of a semaphore.
 * It belongs to a ticket, finds out when it is the first, and is deleted at the end.
 *
 * A lost connection ends nothing: work goes on at `up`. Nodes end with the session
 * only (`expired`).
 *
 * A request to the client (wire/) may be answered inside the call. A caller that sends
 * several in a row must make sure that the first reply frees nothing the rest needs.
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

/* ---- tickets.c ------------------------------------------------------------------- */

struct zk_ticket;
struct zk_ticket_ops {
    /* Core asks again: answer with the present state. */
    void (*attempt)(struct zk_session *me, struct zk_ticket *ticket);
    /* Take the ticket out of the store and call hf__zk_ticket_withdrawn(), now or
     * later. May be repeated at any time. core_ticket may be NULL, and `withdrawing` is
     * false if the lease ended and core has not withdrawn yet: tickets.c sorts that
     * out. */
    void (*withdraw)(struct zk_session *me, struct zk_ticket *ticket);
    /* Connected again. Same session: ask again about what is waited for, repeat what
     * got no reply. A fresh one, after `expired`: begin anew. Also called, with the
     * same session, when memory for a request was missing
     * (hf__zk_session_retry_soon()). */
    void (*up)(struct zk_session *me, struct zk_ticket *ticket, bool fresh);
    /* Every node is gone. tickets.c tells core of a lost hold, and frees a ticket that
     * is being withdrawn. */
    void (*expired)(struct zk_session *me, struct zk_ticket *ticket);
    /* Free what the kind has added; tickets.c frees the ticket. */
    void (*done)(struct zk_session *me, struct zk_ticket *ticket);
};

struct zk_ticket {
    struct hf_list_node link;
    const struct zk_ticket_ops *ops;
    struct hf_ticket *core_ticket; /* NULL: core has forgotten it */
    struct hf_id id;
    int32_t kind;
    bool held;        /* as far as this client knows */
    bool withdrawing; /* core has withdrawn or forgotten it */
    bool answered;    /* core has been told that it is queued or granted */
    bool lease_ended; /* the hold was lost: its lease or its session ended */
    bool node_gone;   /* the server said that the node does not exist */
    bool interested;  /* core wants to be told at once of a loss or revocation */
    bool downgrading; /* another node replaces `node`, whose end is no loss */
    uint64_t token;
    const char *node; /* path of the node that proves the hold; the kind's memory */
    int64_t ttl_ns, since_ns;
    struct hf_timer lease_timer; /* deletes the node of a hold that is not renewed */
    struct watcher own_watcher;  /* of `node`, while core is interested */
    int64_t revoked_mzxid;       /* the change that was reported as a revocation */
    struct zk_session *session;  /* for the timer */
    uint32_t requests;           /* under way, with the ticket as their subject */
};

/* A ticket of `size` bytes, in me->tickets and core_ticket->store[0]. NULL: no memory,
 * and core has been told `failed`. */
struct zk_ticket *hf__zk_ticket_new(struct zk_session *me,
                                    struct hf_ticket *core_ticket, size_t size,
                                    const struct zk_ticket_ops *ops);
/* Calls ops->done(), drops replies that are due and frees it. Core is told nothing. */
void hf__zk_ticket_free(struct zk_session *me, struct zk_ticket *ticket);

/* Admitted, which `node` proves from here on. Tells core. Not for a ticket that is
 * being withdrawn. since_ns: a moment before the request that proved it was sent. */
void hf__zk_ticket_granted(struct zk_session *me, struct zk_ticket *ticket,
                           const char *node, uint64_t token, int64_t since_ns);
void hf__zk_ticket_grant_again(struct zk_session *me, struct zk_ticket *ticket);
/* Tells core that it is queued. */
void hf__zk_ticket_queued(struct zk_session *me, struct zk_ticket *ticket);
/* Tells core. After HF_EUNREACHABLE and HF_EUNCERTAIN the ticket lives on. With any
 * other code nothing of it may be on the server, and it is freed. */
void hf__zk_ticket_failed(struct zk_session *me, struct zk_ticket *ticket,
                          const hf_error *why);
/* Tells core, and frees the ticket. */
void hf__zk_ticket_busy(struct zk_session *me, struct zk_ticket *ticket);
/* No reply to a delete; `maybe`: the server may have carried it out. */
static inline enum hf_withdrawal zk_not_withdrawn(bool maybe)
{
    return maybe ? HF_WITHDRAWAL_UNKNOWN : HF_WITHDRAWAL_UNSENT;
}
static inline bool zk_is_withdrawn(enum hf_withdrawal answer)
{
    return answer == HF_WITHDRAWN || answer == HF_GONE;
}
/* Tells core. After HF_WITHDRAWN and HF_GONE the ticket has been freed, unless only its
 * lease ended and core has not withdrawn it yet. */
void hf__zk_ticket_withdrawn(struct zk_session *me, struct zk_ticket *ticket,
                             enum hf_withdrawal answer);
/* The hold is lost: tells core, once. The ticket lives until it is withdrawn. */
void hf__zk_ticket_lost(struct zk_session *me, struct zk_ticket *ticket);
/* The same, and the server said that the node does not exist. */
void hf__zk_ticket_node_gone(struct zk_session *me, struct zk_ticket *ticket);

/* How much of a lease of ttl_ns from since_ns can be given; sets the timer for its
 * end. */
int64_t hf__zk_ticket_lease(struct zk_session *me, struct zk_ticket *ticket,
                            int64_t ttl_ns, int64_t since_ns);

void hf__zk_session_withdraw(void *session, struct hf_ticket *core_ticket);
void hf__zk_tickets_forget(struct zk_session *me, const void *forgotten);
void hf__zk_tickets_up(struct zk_session *me, bool fresh);
void hf__zk_tickets_expired(struct zk_session *me);
void hf__zk_tickets_done(struct zk_session *me);

static inline struct zk_ticket *ticket_of(const struct hf_ticket *core_ticket)
{
    return (struct zk_ticket *)(uintptr_t)core_ticket->store[0];
}

/* ---- queue_node.c, queue_wait.c -------------------------------------------------- */

struct queue_node;
struct queue_node_user {
    /* First in the queue; of a reader: no writer is before it. since_ns: a moment
     * before the request that showed it. */
    void (*admitted)(struct zk_session *me, struct queue_node *qnode, int64_t since_ns);
    /* Other nodes are before it. Called once for each time it enters. */
    void (*queued)(struct zk_session *me, struct queue_node *qnode);
    /* HF_EUNREACHABLE, HF_EUNCERTAIN: goes on by itself at `up`. Any other code:
     * nothing is on the server, and the queue node is idle. */
    void (*failed)(struct zk_session *me, struct queue_node *qnode,
                   const hf_error *why);
    /* Answers hf__zk_queue_node_withdraw(). Idle after HF_WITHDRAWN and HF_GONE. */
    void (*withdrawn)(struct zk_session *me, struct queue_node *qnode,
                      enum hf_withdrawal answer);
    /* May be NULL. The first listing that shows our node: does the folder serve our
     * kind? False: not known yet, or refused; the user calls hf__zk_queue_node_list()
     * or hf__zk_queue_node_refuse() later, or has called it. Locks of another form have
     * been refused before. */
    bool (*check)(struct zk_session *me, struct queue_node *qnode,
                  const struct zk_reply *reply);
};

enum queue_node_state {
    QUEUE_NODE_IDLE = 0, /* nothing is on the server */
    QUEUE_NODE_ENTERING, /* create and list are under way */
    QUEUE_NODE_UNKNOWN,  /* a create may have been carried out: find out */
    QUEUE_NODE_LISTING,
    QUEUE_NODE_WAITING, /* the predecessor is watched */
    QUEUE_NODE_IN,
    QUEUE_NODE_DELETING, /* delete is under way, or due at the next `up` */
};

struct queue_node {
    struct zk_ticket *ticket;
    const struct queue_node_user *user;
    enum node_form form;
    enum queue_node_state state;
    bool withdrawing;       /* hf__zk_queue_node_withdraw() was called */
    bool queued_told;       /* user->queued() was */
    bool sending;           /* hf__zk_queue_node_enter() acts on a failure itself */
    bool reply_due;         /* to a request of this generation */
    bool kind_checked;      /* the folder serves our kind */
    bool delete_unanswered; /* a delete without a reply may have been carried out */
    uint8_t retries;        /* of making parents, or of the recovery */
    int32_t parents_error;
    hf_error refusal;       /* why it is deleted; code 0: not refused */
    uint32_t generation;    /* replies to requests of an earlier one are dropped */
    uint32_t requests;      /* under way */
    int64_t czxid;          /* of our node: the token */
    size_t folder_len;      /* path[0 .. folder_len) is the folder */
    char *path;             /* of our node, once it is known; room for NODE_ROOM */
    char *predecessor;      /* path of the node that is watched; in the same block */
    struct watcher watcher; /* of the predecessor */
};

/* `folder`: of the queue. 0 or HF_ENOMEM. */
int hf__zk_queue_node_init(struct queue_node *qnode, struct zk_ticket *ticket,
                           const struct queue_node_user *user, enum node_form form,
                           const char *folder, size_t folder_len);
/* Only while it is idle. */
void hf__zk_queue_node_enter(struct zk_session *me, struct queue_node *qnode);
/* May be repeated. If it is idle `withdrawn` is called inside. */
void hf__zk_queue_node_withdraw(struct zk_session *me, struct queue_node *qnode);
/* Asks the server whether it is admitted, or which predecessor to watch. */
void hf__zk_queue_node_list(struct zk_session *me, struct queue_node *qnode);
/* The ticket is refused: deletes the node, then calls `failed` with that error. */
void hf__zk_queue_node_refuse(struct zk_session *me, struct queue_node *qnode,
                              const hf_error *why);
/* Our node is known to be gone, by our own multi or another client: idle, no call. */
void hf__zk_queue_node_forget(struct zk_session *me, struct queue_node *qnode);
/* Connected again, on the same session. */
void hf__zk_queue_node_up(struct zk_session *me, struct queue_node *qnode);
/* Idle, without a call. */
void hf__zk_queue_node_expired(struct queue_node *qnode);
void hf__zk_queue_node_done(struct zk_session *me, struct queue_node *qnode);

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
