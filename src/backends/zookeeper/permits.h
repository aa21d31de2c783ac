/* SPDX-License-Identifier: MIT */
/*
 * A semaphore's ticket, shared by permits.c (queue, waiting for permits, the first
 * look) and permits_take.c (leases: taken, found, released).
 *
 *     QUEUE --first--> LOOK --too few--> WAIT --leases changed--> LOOK
 *                       |
 *                       +--enough--> TAKE --> CHECK --> HELD --> RELEASE
 *
 * TAKE without a reply is UNKNOWN until the leases have been listed. CHECK: the leases
 * exist, and the name is looked at once more. A client of another kind that came before
 * them may not have seen us; one that comes later does.
 */
#ifndef HF_ZOOKEEPER_PERMITS_H
#define HF_ZOOKEEPER_PERMITS_H

#include "leases.h"

enum permit_state {
    PERMIT_NONE = 0, /* nothing is on the server */
    PERMIT_QUEUE,
    PERMIT_LOOK,
    PERMIT_WAIT,
    PERMIT_TAKE,
    PERMIT_UNKNOWN,
    PERMIT_CHECK,
    PERMIT_HELD,
    PERMIT_RELEASE,
};

struct permit {
    struct zk_ticket ticket;
    struct queue_node qnode;
    struct watcher watcher; /* of the folder of leases */
    struct kind_probe probe;
    struct lease_folders folders;
    enum permit_state state;
    uint32_t generation; /* replies to requests of an earlier one are dropped */

    bool was_first;        /* no ticket was before ours when the look was sent */
    bool watching;         /* the look has set a watch */
    bool kind_checked;     /* no other kind uses the name */
    bool leases_missing;   /* the folder of leases does not exist */
    bool limit_unwritable; /* the server does not let us write the limit */
    bool try_failed;       /* a try without room: withdraw, then say busy */
    hf_error refusal;      /* in PERMIT_RELEASE: why it cannot be held; code 0: none */
    int32_t clash;         /* what hf__zk_kind_clash() returned */
    uint8_t retries;       /* of the take */
    int32_t folder_error;  /* of the request that made the folder of leases */

    uint64_t used; /* permits, by the last listing of the leases */
    enum limit_state limit_state;
    uint32_t limit;
    int32_t limit_version;

    uint32_t permits, nodes; /* asked for, and how many nodes that takes */
    uint32_t count;          /* leases that we have */
    uint32_t replies_due;    /* to the deletes of the release; of these: */
    bool deleted_some, delete_failed;
    bool delete_unanswered; /* in this release or an earlier one */
    char (*names)[NODE_SIZE];
    char *node; /* path of the first lease */
};

static inline struct permit *permit_of(struct zk_ticket *ticket)
{
    return HF_CONTAINER(ticket, struct permit, ticket);
}

static inline void permit_set_state(struct permit *permit, enum permit_state state)
{
    permit->state = state;
    permit->generation++;
}

/* ---- permits.c ------------------------------------------------------------------- */

void hf__zk_permit_look(struct zk_session *me, struct permit *permit, bool watch);
void hf__zk_permit_enter(struct zk_session *me, struct permit *permit);
void hf__zk_permit_refuse(struct zk_session *me, struct permit *permit,
                          const hf_error *why);
/* No connection, or no memory for the request: goes on at `up`. */
void hf__zk_permit_pause(struct zk_session *me, struct permit *permit,
                         const hf_error *why);
/* Counts the permits in the folder of leases, and keeps the names of our leases. */
void hf__zk_permit_count(struct permit *permit, enum layout layout,
                         const struct zk_reply *reply);

/* ---- permits_take.c -------------------------------------------------------------- */

/* First in the queue, and enough permits are free. */
void hf__zk_permit_take(struct zk_session *me, struct permit *permit);
/* A take got no reply: was it carried out? */
void hf__zk_permit_find(struct zk_session *me, struct permit *permit);
/* Deletes all leases. */
void hf__zk_permit_release(struct zk_session *me, struct permit *permit);

#endif
