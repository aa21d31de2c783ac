/* SPDX-License-Identifier: MIT */
/*
 * Requests about one persistent node (a latch, a cell), carried out once per request
 * id.
 *
 * A verb names its node and plans what to do with it as it is found. changes.c reads
 * the node, checks whether the name serves another kind, sends the plan as one multi,
 * and begins again if another client changed the node first.
 */
#ifndef HF_ZOOKEEPER_CHANGES_H
#define HF_ZOOKEEPER_CHANGES_H

#include "kinds.h"
#include "pending_changes.h"
#include "session.h"

enum { PLAN_OPS = 3 };

struct plan {
    size_t count; /* of operations; 0: nothing to change, answer with `result` */
    struct zk_op ops[PLAN_OPS];
    char paths[PLAN_OPS][PATH_SIZE];
    char text[64];   /* room for data */
    uint64_t result; /* of the request, once the plan is carried out */
    bool by_zxid;    /* the result is the number of the transaction instead */
};

/* 0 and a plan, or the code to answer. `found` NULL: there is no such node. */
typedef int plan_make(struct zk_session *me, struct hf_request *request,
                      const char *folder, const struct zk_reply *found,
                      struct plan *plan, hf_error *why);

struct change_verb {
    const char *node; /* NODE_... */
    int32_t kind;
    plan_make *plan;
};

void hf__zk_change_ask(struct zk_session *me, struct hf_request *request,
                       const struct change_verb *verb);

/* Adds an operation on a node in `folder`. */
struct zk_op *hf__zk_plan_add(struct plan *plan, int what, const char *folder,
                              const char *node);

void hf__zk_pending_changes_init(struct pending_changes *pending);
void hf__zk_pending_changes_done(struct zk_session *me);

#endif
