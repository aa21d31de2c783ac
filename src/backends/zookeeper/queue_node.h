/* SPDX-License-Identifier: MIT */
/* What places.c (coming and going) and turns.c (whose turn it is) share. */
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

/* False for an answer of a former turn. */
static inline bool reply_is_due(struct queue_node *qnode, uint64_t tag)
{
    qnode->requests--;
    return (uint32_t)tag == qnode->generation;
}

/* Nothing of the place is on the server, or under way. */
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

/* The folder's path needs a NUL of its own while that of the node goes on behind it. */
static inline const char *folder_open(struct queue_node *qnode)
{
    qnode->path[qnode->folder_len] = '\0';
    return qnode->path;
}

static inline void folder_shut(struct queue_node *qnode)
{
    qnode->path[qnode->folder_len] = '/';
}

/* Something of ours is or may be on the server, and we are stuck; see place_up(). */
void hf__zk_queue_node_pause(struct zk_session *me, struct queue_node *qnode,
                             const hf_error *why);

/* It is our turn: tells the user, so this comes last. */
void hf__zk_queue_node_admit(struct zk_session *me, struct queue_node *qnode,
                             int64_t since_ns);

zk_done hf__zk_queue_node_listed; /* the answer to a listing: in, or whom to wait for */

#endif
