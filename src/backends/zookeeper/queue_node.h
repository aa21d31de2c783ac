/* SPDX-License-Identifier: MIT */
/* What queue_node.c and queue_wait.c share. */
#ifndef HF_ZOOKEEPER_QUEUE_NODE_H
#define HF_ZOOKEEPER_QUEUE_NODE_H

#include "session.h"

#include <string.h>

static inline const char *own_name(const struct queue_node *qnode)
{
    return qnode->path + qnode->folder_len + 1;
}

static inline void qnode_begin(struct queue_node *qnode, enum queue_node_state state)
{
    qnode->state = state;
    qnode->generation++;
    qnode->reply_due = true;
}

/* False for a reply of an earlier generation. */
static inline bool reply_is_due(struct queue_node *qnode, uint64_t tag)
{
    qnode->requests--;
    return (uint32_t)tag == qnode->generation;
}

/* Nothing of it is on the server, or under way. */
static inline void qnode_idle(struct queue_node *qnode)
{
    qnode->state = QUEUE_NODE_IDLE;
    qnode->generation++;
    qnode->reply_due = false;
}

static inline void join(const struct queue_node *qnode, char *path, const char *name,
                        size_t len)
{
    memmove(path, qnode->path, qnode->folder_len);
    path[qnode->folder_len] = '/';
    memcpy(path + qnode->folder_len + 1, name, len);
    path[qnode->folder_len + 1 + len] = '\0';
}

/* path[] is cut at the folder for a request about the folder, and joined again. */
static inline const char *folder_open(struct queue_node *qnode)
{
    qnode->path[qnode->folder_len] = '\0';
    return qnode->path;
}

static inline void folder_shut(struct queue_node *qnode)
{
    qnode->path[qnode->folder_len] = '/';
}

/* Something of ours is or may be on the server, and nothing can be sent now: goes on in
 * hf__zk_queue_node_up(). */
void hf__zk_queue_node_pause(struct zk_session *me, struct queue_node *qnode,
                             const hf_error *why);

/* Admitted. The user is called, so this comes last. */
void hf__zk_queue_node_admit(struct zk_session *me, struct queue_node *qnode,
                             int64_t since_ns);

zk_done hf__zk_queue_node_listed; /* the reply to a listing */

#endif
