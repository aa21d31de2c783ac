/* SPDX-License-Identifier: MIT */
/*
 * A walk over names: who holds, who waits, which latches and cells exist. Shared by
 * hf_inspect(), hf_evict(), hf_revoke() and hf_diagnose().
 *
 * A walk is a job. It has a list of steps, each one question to the server, and asks so
 * many at a time; a reply may append steps. Holders, waiters and objects are reported
 * in the order of their queue, holders first.
 */
#ifndef HF_ZOOKEEPER_WALK_H
#define HF_ZOOKEEPER_WALK_H

#include "leases.h"
#include "session.h"

enum step_what {
    STEP_FOLDER = 1, /* the folder of a name, or above one: list it */
    STEP_BASE,       /* of a semaphore: read its limit */
    STEP_LEASES,     /* list them */
    STEP_QUEUE,      /* list it */
    STEP_NODE,       /* a holder, a waiter, an object: read and report it */
};

struct step {
    struct hf_list_node link;
    struct walk *walk;
    enum step_what what;
    bool pass_through; /* a folder above the names asked for: not reported */
    bool unreadable;   /* the server denies its data: ask only whether it exists */
    int32_t kind, role;
    uint32_t permits, limit, place;
    size_t folder_len; /* path[0 .. folder_len) is the folder of the name */
    char path[];
};

struct walk;

/* A node was read; `reply` has no data if it is unreadable. */
typedef void walk_node_read(struct zk_session *me, struct walk *walk,
                            const struct step *step, const struct zk_reply *reply);
/* A folder was listed; may be NULL. */
typedef void walk_folder_listed(struct zk_session *me, struct walk *walk,
                                const struct step *step, const struct zk_reply *reply);
/* No step is left: call hf__zk_job_end(), or send more requests. */
typedef void walk_ended(struct zk_session *me, struct walk *walk);

struct walk {
    struct job job;
    bool prefix;
    walk_node_read *node_read;
    walk_folder_listed *folder_listed;
    walk_ended *ended;
    struct hf_list_node todo;
    struct hf_list_node asked;
    size_t under_way;
    int rc;
    hf_error why;
    uint64_t found; /* nodes deleted or written; of a diagnosis: ns of the ping */
    uint8_t rounds; /* of an eviction */
    bool vanished;  /* a node was deleted between being listed and being read */
    char *victim;   /* path of the node to evict; of a diagnosis: its struct */
};

/* Begins at the request's name; with `prefix` at all names that begin with it. NULL: no
 * memory, and the request has been answered. hf__zk_walk_continue() starts it. */
struct walk *hf__zk_walk_begin(struct zk_session *me, struct hf_request *request,
                               bool prefix, walk_node_read *node_read,
                               walk_ended *ended);
void hf__zk_walk_continue(struct zk_session *me, struct walk *walk);
/* From the beginning; only when no step is left. */
void hf__zk_walk_restart(struct zk_session *me, struct walk *walk);

/* The walk waits for one more request, sent with hf__zk_walk_reply as `done` and the
 * walk as `subject`; `rc` is what the request returned. An error other than ZK_NONODE
 * ends the walk. */
void hf__zk_walk_expect(struct zk_session *me, struct walk *walk, int rc);
zk_done hf__zk_walk_reply;

/* The name of the lock that a step is about; false if its path is no name's. */
bool hf__zk_walk_name(const struct step *step, char name[HF_NAME_MAX + 1]);

#endif
