/* SPDX-License-Identifier: MIT */
/*
 * The nodes of a semaphore: paths, names, weights, the limit. Pure functions.
 *
 *                 queue              leases                           limit, data of
 *   permits       P/locks            P/leases/_c_<uuid>-lease-<n>     P
 *   expiring      P/hf%expiring/locks  P/hf%expiring/leases/..            P/hf%expiring
 *   kazoo         P-__lock__         P/<32 hex digits>                P
 *
 * Each permit is a node, so that clients which count nodes (Curator, kazoo) count
 * right. More than LEASE_NODES at once are one node that has the number in its name, as
 * in _c_<uuid>-x500-lease-<n>: Curator counts that as one.
 */
#ifndef HF_ZOOKEEPER_LEASES_H
#define HF_ZOOKEEPER_LEASES_H

#include "kinds.h"

enum { LEASE_NODES = 64, LIMIT_SIZE = 48 };

enum limit_state {
    LIMIT_NONE = 0, /* nothing is written */
    LIMIT_THERE,
    LIMIT_FOREIGN, /* written by another program: do not touch it */
};

/* The folders of a semaphore, in one block: freed by hf__free(folders->name). */
struct lease_folders {
    char *name;   /* P */
    char *base;   /* its data is the limit */
    char *locks;  /* the queue */
    char *leases; /* of the holders */
};

/* False: out of memory. */
bool hf__zk_lease_folders_write(struct lease_folders *folders, enum layout layout,
                                int32_t kind, const char *name, size_t len);

uint32_t hf__zk_lease_node_count(uint32_t permits); /* how many nodes that takes */

/* The name of node `index` of a hold, without the number that the server adds. */
void hf__zk_lease_name_write(char out[NODE_SIZE], enum layout layout,
                             const struct hf_id *id, uint32_t permits, uint32_t index);

/* How many permits a child of the folder of leases counts for; 0: it is no lease. */
uint32_t hf__zk_lease_weight(enum layout layout, const struct zk_text *name);

enum limit_state hf__zk_limit_read(enum layout layout, int32_t kind,
                                   const struct zk_text *data, uint32_t *ret_limit);
size_t hf__zk_limit_write(char out[LIMIT_SIZE], enum layout layout, int32_t kind,
                          uint32_t limit);

#endif
