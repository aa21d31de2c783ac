/* SPDX-License-Identifier: MIT */
/*
 * A walk over names: who holds, who waits, which latches and cells there are. Shared by
 * hf_inspect(), hf_evict(), hf_revoke() and hf_diagnose().
 *
 * A survey is a job. It works off a list of sights, each a question to the server, so
 * many at a time; an answer may put further ones at the end. What holders, waiters and
 * objects say is told in the order of their queue, holders first.
 */
#ifndef HF_ZOOKEEPER_WALK_H
#define HF_ZOOKEEPER_WALK_H

#include "leases.h"

enum step_what {
    STEP_FOLDER = 1, /* the folder of a name, or on the way to one: list it */
    STEP_BASE,       /* of a semaphore: read its limit */
    STEP_LEASES,     /* list them */
    STEP_QUEUE,      /* list it */
    STEP_NODE,       /* a holder, a waiter, an object: read it, and tell */
};

struct step {
    struct hf_link link;
    struct walk *walk;
    enum step_what what;
    bool pass_through; /* a folder on the way, itself of no interest */
    bool unreadable;   /* we may see that it is there, not what it says */
    int32_t kind, role;
    uint32_t permits, limit, place;
    size_t folder_len; /* path[0 .. folder_len) is the folder of the name */
    char path[];
};

struct walk;

/* A node, as it was read; `reply` has no data if it is unreadable. */
typedef void walk_node_read(struct zk_session *me, struct walk *walk,
                            const struct step *step, const struct zk_reply *reply);
/* A folder, as it was listed; may be NULL. */
typedef void walk_folder_listed(struct zk_session *me, struct walk *walk,
                                const struct step *step, const struct zk_reply *reply);
/* Nothing is left to be asked: to be ended with hf__zk_job_end(), or after more calls. */
typedef void walk_ended(struct zk_session *me, struct walk *walk);

struct walk {
    struct job job;
    bool prefix;
    walk_node_read *node_read;
    walk_folder_listed *folder_listed;
    walk_ended *ended;
    struct hf_link todo;
    struct hf_link asked;
    size_t under_way;
    int rc;
    hf_error why;
    uint64_t found; /* the user's own */
    uint8_t rounds; /* the user's own */
    bool vanished;  /* a node had gone between being listed and being read */
    char *victim;
};

/* Begins at the request's name; with `prefix` at all names that begin so. NULL: the
 * request has been answered. survey_go() sets it off. */
struct walk *hf__zk_walk_begin(struct zk_session *me, struct hf_request *request,
                               bool prefix, walk_node_read *node_read,
                               walk_ended *ended);
void hf__zk_walk_continue(struct zk_session *me, struct walk *walk);
/* From the beginning, where nothing is left to be asked. */
void hf__zk_walk_restart(struct zk_session *me, struct walk *walk);

/* A call more that the survey waits for: `survey_done` as `done`, the survey as
 * `subject`. Its errors end the survey, but for ZK_NONODE. */
void hf__zk_walk_expect(struct walk *walk);
zk_done hf__zk_walk_reply;

/* The name of the lock that a sight is about; false if it has none. */
bool hf__zk_walk_name(const struct step *step, char name[HF_NAME_MAX + 1]);

#endif
