/* SPDX-License-Identifier: MIT */
/*
 * A semaphore's ticket, shared by permits.c (queue, waiting for permits, the look at
 * them) and permits_take.c (leases: taken, found, released). decide.h has its states.
 */
#ifndef HF_ZOOKEEPER_PERMITS_H
#define HF_ZOOKEEPER_PERMITS_H

#include "leases.h"
#include "ticket.h"

struct permit {
    struct zk_ticket ticket;
    struct lease_folders folders;
    enum look look;

    bool was_first;        /* no ticket was before ours when the look was sent */
    bool watching;         /* the look sets a watch on the folder of leases */
    bool leases_missing;   /* that does not exist */
    bool limit_unwritable; /* the server does not let us write the limit */
    bool checking;         /* the look at the name is under way behind the take */
    bool release_failed;   /* some delete of this release was */
    int32_t clash;         /* what hf__zk_kind_clash() returned */
    int32_t folder_error;  /* of the request that made the folder of leases */

    uint64_t used; /* permits, by the last listing of the leases */
    enum limit_state limit_state;
    uint32_t limit;
    int32_t limit_version;

    uint32_t permits, nodes; /* asked for, and how many nodes that takes */
    uint32_t count;          /* leases that we have */
    char (*names)[NODE_SIZE];
    char *node; /* path of the first lease */
};

static inline struct permit *permit_of(struct zk_ticket *ticket)
{
    return HF_CONTAINER(ticket, struct permit, ticket);
}

/* ---- permits_take.c -------------------------------------------------------------- */

/* DO_TAKE, DO_FIND_LEASES, DO_LEASE_OWNER, DO_CHECK, DO_CHECK_PROBE, DO_RELEASE, and
 * their replies. */
void hf__zk_permit_take_act(struct zk_session *me, struct permit *permit,
                            enum action action);
void hf__zk_permit_take_record(struct zk_session *me, struct permit *permit,
                               enum request what, const struct zk_answer *answer);

/* Counts the permits in the folder of leases, and keeps the names of our leases. */
void hf__zk_permit_count(struct permit *permit, enum layout layout,
                         const struct zk_reply *reply);

#endif
