/* SPDX-License-Identifier: MIT */
/*
 * Who is admitted: what a listing of a lock's folder means for one node in it. Pure.
 *
 * All forms share the numbers of one folder, so they are compared with one another: an
 * exclusive node waits for every lower number, a reader for the exclusive ones. That
 * also holds between forms that do not belong together, such as a mutex and a read lock
 * in one folder: the second one is refused (`mismatch`), and until it is gone none can
 * be admitted beside it.
 */
#ifndef HF_ZOOKEEPER_QUEUE_H
#define HF_ZOOKEEPER_QUEUE_H

#include "names.h"
#include "wire/zk.h"

#define NO_NODE SIZE_MAX

struct queue_view {
    size_t own;      /* index of our node, NO_NODE if it is missing */
    size_t blockers; /* how many nodes ours waits for */
    size_t nearest;  /* index of the node to watch, NO_NODE if none */
    size_t extra;    /* another node with our id, NO_NODE if none */
    bool mismatch;   /* the folder serves another kind of lock */
};

/* `own`: the name of our node; NULL: it does not exist yet. */
void hf__zk_queue_judge(struct queue_view *view, enum layout layout,
                        enum node_form form, const char *own, size_t own_len,
                        const struct hf_id *id, const struct zk_text *names,
                        size_t count);

/* A node with that id, the lowest number first; NO_NODE. */
size_t hf__zk_queue_find(enum layout layout, const struct hf_id *id,
                         const struct zk_text *names, size_t count);

#endif
