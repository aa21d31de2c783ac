/* SPDX-License-Identifier: MIT */
/*
 * What the files of the zookeeper store share: the session, its stays, places, watches.
 *
 * A *stay* is what the session has of a ticket, from its first attempt until nothing of
 * it can be on the server any more: it outlives the ticket if core forgets that
 * (stay->ticket is NULL then, and all that is left to do is to leave). ticket->store[0]
 * is its stay. Each kind has a struct of its own, a stay first, and a table of what to
 * do with it; zookeeper.c calls through the table.
 *
 * A *place* is one node in one queue (a mutex's folder, P/locks of a semaphore). It
 * finds out when it is the first, and it leaves. It belongs to a stay.
 *
 * Down is not the end: whatever has to go on does so at `up`. Nodes are gone only when
 * the session is (`expired`).
 *
 * Calls to the wire may be answered inside the call. Whoever sends several in a row
 * must see to it that the first answer does not free what the others still need.
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

    struct hf_link tickets;
    struct hf_link jobs;    /* requests that take more than one call */
    struct hf_link batches; /* renewals under way */
    struct hf_link orphans; /* nodes to delete, whatever it takes */
    struct hf_link watchers[WATCH_BUCKETS];
    struct hf_timer
        retry_timer; /* something could not be sent though we are connected */

    struct pending_changes pending; /* of changes.c */
    struct zk_identity identity; /* for the data of our nodes: hf__zk_details_write() */
};

/* ---- watch.c: who waits for which path ---------------------------------------------
 *
 * A watcher is set before the call that sets the server's watch. When the path fires
 * (once), the watcher is taken off and `fired` is called; it may be told of something
 * that happened before its own call, so it has to look, and to set itself again. At the
 * end of a session all are dropped, untold: `expired` tells the stays. */
struct watcher;
typedef void watcher_fired(struct zk_session *me, struct watcher *watcher,
                           enum zk_event_type type);
struct watcher {
    struct hf_link link; /* zeroed: not set */
    uint32_t hash;
    const char *path; /* the owner's; must live while it is set */
    watcher_fired *fired;
};

void hf__zk_watchers_init(struct zk_session *me);
void hf__zk_watcher_set(
    struct zk_session *me, struct watcher *watcher, const char *path,
    watcher_fired *fired); /* moves one that is set, as hf__zk_watcher_end() does */
/* Takes it off, and the server's watch too. */
void hf__zk_watcher_end(struct zk_session *me, struct watcher *watcher);
/* Takes it off where the server has no watch: the call said NONODE, or got no reply. */
void hf__zk_watcher_drop(struct watcher *watcher);
void hf__zk_watchers_event(struct zk_session *me, enum zk_event_type type,
                           const char *path, size_t len);
void hf__zk_watchers_drop(struct zk_session *me);

/* ---- stays.c: stays ------------------------------------------------------------- */

struct zk_ticket;
struct zk_ticket_ops {
    /* Asked again: say what is the case. */
    void (*attempt)(struct zk_session *me, struct zk_ticket *ticket);
    /* Leave, and answer stay_left(), now or later. Repeated at any time. The ticket may
     * be gone (forgotten), or core has not asked (the lease is over: stay->leaving is
     * false): the same, stays.c knows. */
    void (*withdraw)(struct zk_session *me, struct zk_ticket *ticket);
    /* Connected again, on the same session (look again at what you wait for, repeat
     * what got no answer), or on a fresh one (after `expired`: begin anew). Also when a
     * call could not be sent for want of memory (hf__zk_session_retry_soon). */
    void (*up)(struct zk_session *me, struct zk_ticket *ticket, bool fresh);
    /* Every node is gone. stays.c tells core of a hold, and ends a stay that leaves. */
    void (*expired)(struct zk_session *me, struct zk_ticket *ticket);
    /* Free what belongs to the kind; the stay itself is freed by stays.c. */
    void (*done)(struct zk_session *me, struct zk_ticket *ticket);
};

struct zk_ticket {
    struct hf_link link;
    const struct zk_ticket_ops *ops;
    struct hf_ticket *core_ticket; /* NULL: forgotten */
    struct hf_id id;
    int32_t kind;
    bool held;        /* by all we know */
    bool withdrawing; /* withdrawn or forgotten */
    bool answered;    /* core has been told queued, or granted */
    bool lease_ended; /* the hold was lost, to its lease or with the session */
    bool node_gone;   /* the server said that its node does not exist any more */
    bool interested;  /* core wants to hear at once */
    bool downgrading; /* another node takes the place of `node`: its end is no loss */
    uint64_t token;
    const char *node; /* path of the node that proves the hold; the kind's memory */
    int64_t ttl_ns, since_ns;
    struct hf_timer lease_timer; /* takes the node away when nobody renews */
    struct watcher own_watcher;  /* of `node`: core wants to hear at once */
    int64_t revoked_mzxid;       /* the change that was told as a revocation */
    struct zk_session *session;  /* for the timer */
    uint32_t requests;           /* with the stay as their subject, under way */
};

/* A stay of `size` bytes for the ticket, in me->stays and ticket->store[0]. NULL: out
 * of memory, `failed` has been told. */
struct zk_ticket *hf__zk_ticket_new(struct zk_session *me,
                                    struct hf_ticket *core_ticket, size_t size,
                                    const struct zk_ticket_ops *ops);
/* Ends it: ops->done(), answers under way are dropped, the memory goes. No answer. */
void hf__zk_ticket_free(struct zk_session *me, struct zk_ticket *ticket);

/* It is in: `node` proves it from here on. Tells core. Not for stays that leave.
 * since_ns: a moment before the request that proved it was sent. */
void hf__zk_ticket_granted(struct zk_session *me, struct zk_ticket *ticket,
                           const char *node, uint64_t token, int64_t since_ns);
void hf__zk_ticket_grant_again(struct zk_session *me, struct zk_ticket *ticket);
void hf__zk_ticket_queued(struct zk_session *me,
                          struct zk_ticket *ticket); /* tells core, once */
/* Tells core. HF_EUNREACHABLE, HF_EUNCERTAIN leave the stay open; else it is ended:
 * nothing of it may be on the server, and `stay` is not to be touched any more. */
void hf__zk_ticket_failed(struct zk_session *me, struct zk_ticket *ticket,
                          const hf_error *why);
void hf__zk_ticket_busy(struct zk_session *me,
                        struct zk_ticket *ticket); /* tells core and ends it */
/* No answer of the server's; `maybe`: it may have done what we asked. */
static inline enum hf_withdrawal zk_not_withdrawn(bool maybe)
{
    return maybe ? HF_WITHDRAWAL_UNKNOWN : HF_WITHDRAWAL_UNSENT;
}
static inline bool zk_is_withdrawn(enum hf_withdrawal answer)
{
    return answer == HF_WITHDRAWN || answer == HF_GONE;
}
/* Tells core. HF_WITHDRAWN, HF_GONE end the stay: do not touch it any more. */
void hf__zk_ticket_withdrawn(struct zk_session *me, struct zk_ticket *ticket,
                             enum hf_withdrawal answer);
/* The hold is over: tells core, once. The stay stays until it is withdrawn. */
void hf__zk_ticket_lost(struct zk_session *me, struct zk_ticket *ticket);
/* The same, and the server said that the node does not exist any more. */
void hf__zk_ticket_node_gone(struct zk_session *me, struct zk_ticket *ticket);

/* The lease that can be given, of ttl_ns from since_ns; sets the timer that ends it. */
int64_t hf__zk_ticket_lease(struct zk_session *me, struct zk_ticket *ticket,
                            int64_t ttl_ns, int64_t since_ns);

void hf__zk_session_withdraw(void *session, struct hf_ticket *core_ticket);
void hf__zk_tickets_forget(struct zk_session *me, const void *gone);
void hf__zk_tickets_up(struct zk_session *me, bool fresh);
void hf__zk_tickets_expired(struct zk_session *me);
void hf__zk_tickets_done(struct zk_session *me);

static inline struct zk_ticket *ticket_of(const struct hf_ticket *core_ticket)
{
    return (struct zk_ticket *)(uintptr_t)core_ticket->store[0];
}

/* ---- places.c: places in queues -------------------------------------------------- */

struct queue_node;
struct queue_node_user {
    /* The first one in the queue (a reader: no writer before it). since_ns: a moment
     * before the request that showed it. */
    void (*admitted)(struct zk_session *me, struct queue_node *qnode, int64_t since_ns);
    /* Others come first; told once per entry. */
    void (*queued)(struct zk_session *me, struct queue_node *qnode);
    /* HF_EUNREACHABLE, HF_EUNCERTAIN: goes on by itself at `up`. Anything else: it is
     * over, nothing is on the server, the place is idle. */
    void (*failed)(struct zk_session *me, struct queue_node *qnode,
                   const hf_error *why);
    /* Answer to place_leave(). After HF_WITHDRAWN or HF_GONE the place is idle. */
    void (*withdrawn)(struct zk_session *me, struct queue_node *qnode,
                      enum hf_withdrawal answer);
    /* May be NULL. Our node is in the folder, for the first time, among these children:
     * is it a folder for us? False: not known yet, or refused; place_list() or
     * place_refuse() comes later, or came. Locks of the wrong form have been refused
     * already. */
    bool (*check)(struct zk_session *me, struct queue_node *qnode,
                  const struct zk_reply *reply);
};

enum queue_node_state {
    QUEUE_NODE_IDLE = 0, /* nothing is there */
    QUEUE_NODE_ENTERING, /* create and list are under way */
    QUEUE_NODE_UNKNOWN,  /* a create may have got there: find out */
    QUEUE_NODE_LISTING,
    QUEUE_NODE_WAITING, /* the one ahead is watched */
    QUEUE_NODE_IN,
    QUEUE_NODE_DELETING, /* delete is under way, or due at the next `up` */
};

struct queue_node {
    struct zk_ticket *ticket;
    const struct queue_node_user *user;
    enum node_form form;
    enum queue_node_state state;
    bool withdrawing;       /* place_leave() was called */
    bool queued_told;       /* `queued` was */
    bool sending;           /* answers that come meanwhile are looked at afterwards */
    bool reply_due;         /* the answer of this turn is to come */
    bool kind_checked;      /* the folder is of our kind */
    bool delete_unanswered; /* a delete may have got there */
    uint8_t retries;        /* of making parents without success */
    int32_t parents_error;
    hf_error refusal;    /* code 0, or why it has to leave */
    uint32_t generation; /* answers of former turns are of no interest */
    uint32_t requests;
    int64_t czxid;          /* of our node: the token */
    size_t folder_len;      /* path[0 .. folder_len) is the folder */
    char *path;             /* of our node, once it is known; room for NODE_ROOM */
    char *predecessor;      /* of the one that is watched; the same memory block */
    struct watcher watcher; /* of the one ahead */
};

/* `folder`: of the queue. 0 or HF_ENOMEM. */
int hf__zk_queue_node_init(struct queue_node *qnode, struct zk_ticket *ticket,
                           const struct queue_node_user *user, enum node_form form,
                           const char *folder, size_t folder_len);
void hf__zk_queue_node_enter(struct zk_session *me,
                             struct queue_node *qnode); /* from PLACE_IDLE */
/* Leaves; may be repeated. If the place is idle, `left` is told inside. */
void hf__zk_queue_node_withdraw(struct zk_session *me, struct queue_node *qnode);
/* Looks (again) whose turn it is. */
void hf__zk_queue_node_list(struct zk_session *me, struct queue_node *qnode);
/* The queue will not have us: leaves it, and then says `failed` with that. */
void hf__zk_queue_node_refuse(struct zk_session *me, struct queue_node *qnode,
                              const hf_error *why);
/* Our node is known to be gone (somebody's multi deleted it): idle, without a word. */
void hf__zk_queue_node_forget(struct zk_session *me, struct queue_node *qnode);
void hf__zk_queue_node_up(struct zk_session *me,
                          struct queue_node *qnode);      /* same session: goes on */
void hf__zk_queue_node_expired(struct queue_node *qnode); /* idle, without a word */
void hf__zk_queue_node_done(struct zk_session *me, struct queue_node *qnode);

/* ---- replies.c: what several of them need ---------------------------------------- */

/* Deletes that node, again and again until it is known to be gone. */
void hf__zk_orphan_node_add(struct zk_session *me, const char *path, size_t len);
void hf__zk_orphan_nodes_retry(struct zk_session *me);
void hf__zk_orphan_nodes_done(
    struct zk_session *me); /* forgets them: their session is over */
/* Something could not be sent though the wire is up: `up` comes to all later. */
void hf__zk_session_retry_soon(struct zk_session *me);

/* A reply that is an error, or none, as a code with a sentence; 0 if it is neither. */
int hf__zk_server_error(const struct zk_reply *reply, hf_error *ret_why);
static inline int zk_reply_error(const struct zk_reply *reply, const hf_error *why,
                                 hf_error *ret_why)
{
    if (reply)
        return reply->error == ZK_OK ? 0 : hf__zk_server_error(reply, ret_why);
    *ret_why = *why;
    return why->code ? why->code : HF_EUNCERTAIN;
}

/* ---- Kinds ----------------------------------------------------------------------- */

void hf__zk_lock_attempt(struct zk_session *me,
                         struct hf_ticket *core_ticket); /* locks.c */
void hf__zk_single_attempt(struct zk_session *me,
                           struct hf_ticket *core_ticket); /* single.c */
void hf__zk_permits_attempt(struct zk_session *me,
                            struct hf_ticket *core_ticket); /* permits.c */
void hf__zk_expiring_attempt(struct zk_session *me,
                             struct hf_ticket *core_ticket); /* expiring.c */
void hf__zk_latch_attempt(struct zk_session *me,
                          struct hf_ticket *core_ticket); /* latches.c */

void hf__zk_session_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                          enum hf_renew_mode mode); /* renew.c */
void hf__zk_session_interest(void *session, struct hf_ticket *core_ticket);
void hf__zk_interest_watch(struct zk_session *me,
                           struct zk_ticket *ticket); /* sets the watch if it is due */
void hf__zk_renew_forget(struct zk_session *me, const struct zk_ticket *ticket);
void hf__zk_renew_done(struct zk_session *me);

/* Requests. What needs more than one call is a job: it is in me->jobs, its calls have
 * it as their subject, and hf__zk_job_end() frees it. A request that is forgotten ends its
 * job; so does the end of the session's memory. `down` is answered by the calls. */
struct job {
    struct hf_link link;
    struct hf_request *request;
    void (*done)(struct zk_session *me, struct job *job); /* frees what hangs on it */
};
struct job *hf__zk_job_begin(struct zk_session *me, struct hf_request *request,
                             size_t size,
                             void (*done)(struct zk_session *,
                                          struct job *)); /* NULL: told */
void hf__zk_job_end(struct zk_session *me, struct job *job, int rc,
                    const hf_error *why);
void hf__zk_jobs_forget(struct zk_session *me, const void *request);
void hf__zk_jobs_done(struct zk_session *me);

void hf__zk_latch_ask(struct zk_session *me,
                      struct hf_request *request);                       /* latches.c */
void hf__zk_cell_ask(struct zk_session *me, struct hf_request *request); /* cells.c */
void hf__zk_inspect(struct zk_session *me, struct hf_request *request);  /* inspect.c */
void hf__zk_evict(struct zk_session *me, struct hf_request *request);    /* inspect.c */
void hf__zk_revoke(struct zk_session *me, struct hf_request *request);   /* inspect.c */
void hf__zk_diagnose(struct zk_session *me,
                     struct hf_request *request); /* diagnose.c */
void hf__zk_downgrade(struct zk_session *me, struct hf_request *request); /* locks.c */
void hf__zk_downgrade_forget(struct zk_session *me, const void *request);

#endif
