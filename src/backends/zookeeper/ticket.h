/* SPDX-License-Identifier: MIT */
/*
 * Tickets: what the session keeps of a ticket of core's, from its first attempt until
 * nothing of it can be on the server.
 *
 * A ticket outlives core's ticket if core forgets that: then core_ticket is NULL and
 * the ticket is only withdrawn. core_ticket->store[0] points to it. Each kind embeds it
 * as its first member and has a table of operations.
 *
 * Calls go one way. What core asks and what the server replies comes to tickets.c. It
 * lets the kind record what is known, asks a pure function what follows (decide.h), and
 * does that: tells core, or lets the kind send a request. So it goes on until there is
 * nothing to do for now. Only tickets.c tells core and frees a ticket.
 *
 * The ticket is the subject of all its requests, and their tag has its generation: all
 * replies that are due are dropped by the next generation. Replies come in the order of
 * the requests, so a reply that does not fit the state can be passed over.
 */
#ifndef HF_ZOOKEEPER_TICKET_H
#define HF_ZOOKEEPER_TICKET_H

#include "decide.h"
#include "kinds.h"
#include "session.h"

/* What was asked for, in the tag of a request. */
enum request {
    ASK_FOLDER = 1, /* make it */
    ASK_CREATE,
    ASK_LIST,  /* the queue, or the node of layout=single */
    ASK_FIND,  /* the same behind a sync, after a create without a reply */
    ASK_OWNER, /* whose is the node that was found? */
    ASK_WATCH, /* the predecessor */
    ASK_WATCH_DENIED,
    ASK_PROBE, /* and so on: one for each of the folders of other kinds */
    ASK_PROBE_LAST = ASK_PROBE + KIND_INSIDES - 1,
    ASK_DELETE,
    ASK_PEEK, /* locks.c */
    ASK_DOWNGRADE,
    ASK_LOOK_FOLDER, /* permits.c */
    ASK_LOOK_LIMIT,
    ASK_LOOK_LEASES,
    ASK_TAKE, /* permits_take.c */
    ASK_LEASE_FOLDER,
    ASK_CHECK,
    ASK_FIND_LEASES,
    ASK_LEASE_OWNER,
    ASK_RELEASE,
    ASK_RELEASE_LAST,
};

struct zk_ticket;
struct zk_ticket_ops {
    /* What to do next, by a function of decide.h. */
    enum action (*decide)(const struct zk_ticket *ticket, const struct facts *facts);
    /* Does it; only what tickets.c does not do itself (TELL_..., DO_GIVE_UP). */
    void (*act)(struct zk_session *me, struct zk_ticket *ticket, enum action action);
    /* A reply, or its absence: keeps what it says. */
    void (*record)(struct zk_session *me, struct zk_ticket *ticket, enum request what,
                   const struct zk_answer *answer);
    /* Every node is gone. May be NULL. */
    void (*expired)(struct zk_session *me, struct zk_ticket *ticket);
    /* Frees what the kind has added. May be NULL. */
    void (*done)(struct zk_session *me, struct zk_ticket *ticket);
};

struct zk_ticket {
    struct hf_list_node link;
    struct zk_session *session;
    const struct zk_ticket_ops *ops;
    struct hf_ticket *core_ticket; /* NULL: core has forgotten it */
    struct hf_id id;
    int32_t kind;

    enum ticket_state state;
    enum awaits awaits;
    enum goal goal;
    enum told told;
    hf_error refusal;     /* of GOAL_REFUSED */
    uint32_t generation;  /* replies to requests of an earlier one are dropped */
    uint32_t requests;    /* under way */
    uint8_t retries;      /* of making parents, or of finding a node */
    int32_t folder_error; /* of the request that made the folder */
    int32_t clash;        /* another kind that uses the name; 0: none was seen */
    bool kind_checked;    /* no other kind uses the name */
    bool deleted;         /* a delete was carried out, or may have been */
    bool interested;      /* core wants to be told at once of a loss or revocation */

    /* The queue node. */
    enum node_form form;
    size_t folder_len;      /* path[0 .. folder_len) is the folder */
    char *path;             /* of our node, once it is known; room for NODE_ROOM */
    char *predecessor;      /* path of the node that is watched; in the same block */
    struct watcher watcher; /* of the predecessor, or of what else is waited for */

    /* The hold. */
    const char *node; /* path of the node that proves it; NULL: none does, or it is not
                       * known which */
    uint64_t token;
    int64_t ttl_ns, since_ns;
    struct hf_timer lease_timer; /* deletes the node of a hold that is not renewed */
    struct watcher own_watcher;  /* of `node`, while core is interested */
    int64_t revoked_mzxid;       /* the change that was reported as a revocation */
};

static inline struct zk_ticket *ticket_of(const struct hf_ticket *core_ticket)
{
    return (struct zk_ticket *)(uintptr_t)core_ticket->store[0];
}

static inline bool ticket_is_held(const struct zk_ticket *ticket)
{
    return ticket->told == TOLD_GRANTED && ticket->goal == GOAL_HOLD;
}

/* ---- tickets.c: beginning and end ------------------------------------------------ */

/* A ticket of `size` bytes, in me->tickets and core_ticket->store[0]. NULL: no memory,
 * and core has been told `failed`. */
struct zk_ticket *hf__zk_ticket_new(struct zk_session *me,
                                    struct hf_ticket *core_ticket, size_t size,
                                    const struct zk_ticket_ops *ops);
/* There was no memory to begin with: tells core, and frees the ticket. */
void hf__zk_ticket_no_memory(struct zk_session *me, struct zk_ticket *ticket);

void hf__zk_ticket_attempt(struct zk_session *me, struct zk_ticket *ticket);
void hf__zk_session_withdraw(void *session, struct hf_ticket *core_ticket);
void hf__zk_tickets_forget(struct zk_session *me, const void *forgotten);
void hf__zk_tickets_up(struct zk_session *me);
void hf__zk_tickets_expired(struct zk_session *me);
void hf__zk_tickets_done(struct zk_session *me);

/* ---- tickets.c: requests --------------------------------------------------------- */

/* Acts on what is known. May free the ticket. */
void hf__zk_ticket_advance(struct zk_session *me, struct zk_ticket *ticket);

/* `done` of all requests whose tag is that of hf__zk_ticket_tag(). */
zk_done hf__zk_ticket_answered;

static inline uint64_t hf__zk_ticket_tag(const struct zk_ticket *ticket,
                                         enum request what)
{
    return (uint64_t)ticket->generation << 8 | what;
}

/* `rc` is what the request returned, and is returned again. */
static inline int hf__zk_ticket_sent(struct zk_ticket *ticket, int rc)
{
    ticket->requests += rc == 0;
    return rc;
}

/* Sends a request of the ticket: by `send`, hf__zk_get and the like, with these
 * arguments behind the client. Its code. */
#define TICKET_ASK(ticket, what, send, ...)                                            \
    hf__zk_ticket_sent(ticket, send((ticket)->session->zk, __VA_ARGS__,                \
                                    hf__zk_ticket_answered, ticket,                    \
                                    hf__zk_ticket_tag(ticket, what)))

/* A new state, whose request is about to be sent. */
static inline void hf__zk_ticket_begin(struct zk_ticket *ticket,
                                       enum ticket_state state)
{
    ticket->state = state;
    ticket->awaits = AWAITS_REPLY;
}

/* A new state, of which something has to be done next. */
static inline void hf__zk_ticket_set(struct zk_ticket *ticket, enum ticket_state state)
{
    ticket->state = state;
    ticket->awaits = AWAITS_NOTHING;
}

/* The same, and replies that are due are dropped. */
static inline void hf__zk_ticket_reset(struct zk_ticket *ticket,
                                       enum ticket_state state)
{
    hf__zk_ticket_set(ticket, state);
    ticket->generation++;
}

/* No reply, or one that decides nothing: goes on when the client is connected again, or
 * soon. Core is told that the outcome is not known. */
void hf__zk_ticket_pause(struct zk_session *me, struct zk_ticket *ticket,
                         const hf_error *why);
/* The same if `rc`, of a request, is a code. */
void hf__zk_ticket_unsent(struct zk_session *me, struct zk_ticket *ticket, int rc);
/* Nothing is on the server, and nothing is under way. After HF_EUNREACHABLE the ticket
 * lives on, otherwise it is refused. */
void hf__zk_ticket_fail(struct zk_session *me, struct zk_ticket *ticket,
                        const hf_error *why);
/* It cannot be held: what is on the server is deleted, and then core is told. */
void hf__zk_ticket_refuse(struct zk_ticket *ticket, const hf_error *why);

/* ---- tickets.c: what core is told ------------------------------------------------ */

/* Admitted, which `node` proves from here on; token and since_ns have been set. */
void hf__zk_ticket_granted(struct zk_session *me, struct zk_ticket *ticket,
                           const char *node);
/* The hold is lost: tells core, once. The ticket lives until it is withdrawn. */
void hf__zk_ticket_lost(struct zk_session *me, struct zk_ticket *ticket);
/* The same, and the server said that the node does not exist. */
void hf__zk_ticket_node_gone(struct zk_session *me, struct zk_ticket *ticket);

/* How much of a lease of ttl_ns from since_ns can be given; sets the timer for its
 * end. */
int64_t hf__zk_ticket_lease(struct zk_session *me, struct zk_ticket *ticket,
                            int64_t ttl_ns, int64_t since_ns);

/* ---- tickets.c: other kinds ------------------------------------------------------ */

/* Lists the folders in `folder` that may serve other kinds. 0 or the code of a request
 * that was not sent. */
int hf__zk_ticket_probe(struct zk_session *me, struct zk_ticket *ticket,
                        const char *folder);
/* Keeps in ticket->clash what one of the replies shows. True: it was the last one. */
bool hf__zk_ticket_probed(struct zk_session *me, struct zk_ticket *ticket,
                          enum request what, const struct zk_answer *answer);

/* ---- queue_node.c: one node in one queue ----------------------------------------- */

/* `folder`: of the queue. 0 or HF_ENOMEM. */
int hf__zk_queue_node_init(struct zk_ticket *ticket, enum node_form form,
                           const char *folder, size_t folder_len);
/* DO_ENTER, DO_FIND, DO_OWNER, DO_LIST, DO_WATCH, DO_DELETE, and their replies. */
void hf__zk_queue_node_act(struct zk_session *me, struct zk_ticket *ticket,
                           enum action action);
void hf__zk_queue_node_record(struct zk_session *me, struct zk_ticket *ticket,
                              enum request what, const struct zk_answer *answer);
/* The path of one in the same folder. */
void hf__zk_queue_node_join(const struct zk_ticket *ticket, char *path,
                            const char *name, size_t len);

#endif
