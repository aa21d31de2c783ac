/* SPDX-License-Identifier: MIT */
/*
 * What a ticket does next, by what is known of it. Pure functions.
 *
 *     IDLE --> ENTER --> LIST --> FIRST --> HELD
 *      ^         |       |   ^      |        |
 *      |         v       v   |      |        |
 *      |       FIND     WAIT-+      |        |
 *      +------------------ DELETE <-+--------+
 *
 * A semaphore has between FIRST and HELD: TAKE (its leases), CHECK (once more whether
 * another kind uses the name), and RELEASE in place of the last DELETE.
 */
#ifndef HF_ZOOKEEPER_DECIDE_H
#define HF_ZOOKEEPER_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

enum ticket_state {
    TICKET_IDLE = 0,    /* nothing is on the server */
    TICKET_PEEK,        /* lists the folder before it enters */
    TICKET_ENTER,       /* create and list are under way */
    TICKET_FIND,        /* a create may have been carried out: find out */
    TICKET_OWNER,       /* found: is it of this session? */
    TICKET_LIST,        /* the queue is listed, to learn the place in it */
    TICKET_PROBE,       /* other kinds may use the name: look into their folders */
    TICKET_WAIT,        /* for the predecessor's end */
    TICKET_WAIT_DENIED, /* the same; the server denies the predecessor's data */
    TICKET_FIRST,       /* in the queue; of a reader: no writer is before it */
    TICKET_TAKE,        /* the leases of a semaphore */
    TICKET_FIND_LEASES, /* a take may have been carried out: find out */
    TICKET_LEASE_OWNER, /* found: are they of this session? */
    TICKET_CHECK,       /* they exist: does another kind use the name? */
    TICKET_CHECK_PROBE,
    TICKET_CHECKED, /* none does */
    TICKET_HELD,
    TICKET_DOWNGRADE, /* a writer that becomes a reader, not known to be one yet */
    TICKET_DELETE,    /* of the node is under way, or due */
    TICKET_RELEASE,   /* the same of leases */
};

/* For what it waits in its state. */
enum awaits {
    AWAITS_NOTHING = 0, /* the state's request is to be sent */
    AWAITS_REPLY,
    AWAITS_EVENT, /* of a watch */
    AWAITS_UP,    /* the client is not connected, or has no memory: the next `up` */
};

enum goal {
    GOAL_HOLD = 0,
    GOAL_LOST,     /* the lease ended: nothing may be left; core has yet to withdraw */
    GOAL_BUSY,     /* a try that is not the first: nothing may be left, then "busy" */
    GOAL_REFUSED,  /* the same, then the error */
    GOAL_OPEN,     /* of a latch, and nothing is kept of the wait */
    GOAL_WITHDRAW, /* core has withdrawn or forgotten it */
};

enum told { TOLD_NOTHING = 0, TOLD_QUEUED, TOLD_GRANTED, TOLD_LOST };

struct facts {
    enum ticket_state state;
    enum awaits awaits;
    enum goal goal;
    enum told told;
    bool is_try;
    bool was_busy; /* a lock: the name was, the last time */
};

enum action {
    DO_NOTHING = 0,
    DO_PEEK,
    DO_ENTER,
    DO_FIND,
    DO_OWNER,
    DO_LIST,
    DO_PROBE,
    DO_WATCH,
    DO_DELETE,
    DO_GIVE_UP, /* a try that is not the first */
    DO_GRANT,
    DO_DOWNGRADE,
    DO_TAKE,
    DO_FIND_LEASES,
    DO_LEASE_OWNER,
    DO_CHECK,
    DO_CHECK_PROBE,
    DO_RELEASE,
    DO_LOOK,  /* at the leases and the limit */
    DO_JUDGE, /* what the look has shown */
    TELL_QUEUED,
    TELL_OVER, /* nothing is left on the server */
};

/* Mutex, fair, read, write; layout=single, whose LIST reads the one node. */
enum action hf__zk_decide_lock(const struct facts *facts);

/* The wait for a latch: LIST reads its gate, ENTER creates the node of the waiter. */
enum action hf__zk_decide_latch(const struct facts *facts, bool node_may_exist);

/* What a semaphore knows of its leases and limit. */
enum look {
    LOOK_NONE = 0,
    LOOK_DUE,
    LOOK_OUTDATED, /* due, and to be repeated */
    LOOK_DONE,
};

enum action hf__zk_decide_permit(const struct facts *facts, enum look look);

#endif
