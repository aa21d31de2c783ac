/* SPDX-License-Identifier: MIT */
/*
 * The nodes of a semaphore: paths, names, weights, the limit. Pure functions.
 *
 *                 queue              leases                           limit, data of
 *   permits       P/locks            P/leases/_c_<uuid>-lease-<n>     P
 *   expiring      P/hf%expiring/locks  P/hf%expiring/leases/..            P/hf%expiring
 *   kazoo         P-__lock__         P/<32 hex digits>                P
 *
 * A permit is a node, so that whoever counts nodes (Curator, kazoo) counts right. Of
 * more than LEASE_NODES at once one node is made that has the number in its name, as in
 * _c_<uuid>-x500-lease-<n>: Curator takes that for one.
 */
#ifndef HF_ZOOKEEPER_LEASES_H
#define HF_ZOOKEEPER_LEASES_H

#include "kinds.h"

enum { LEASE_NODES = 64, LIMIT_SIZE = 48 };

enum limit_state {
    LIMIT_NONE = 0, /* nothing is written there */
    LIMIT_THERE,
    LIMIT_FOREIGN, /* something of somebody else's; leave it alone */
};

/* The folders of a semaphore, in one block: hf__free(folders->name). */
struct lease_folders {
    char *name;   /* P */
    char *base;   /* has the limit */
    char *locks;  /* the queue */
    char *leases; /* who holds */
};

/* False: out of memory. */
bool hf__zk_lease_folders_write(struct lease_folders *folders, enum layout layout,
                                int32_t kind, const char *name, size_t len);

uint32_t hf__zk_lease_node_count(uint32_t permits); /* how many nodes that takes */

/* The name of node `index` of a hold, without the number the server adds. */
void hf__zk_lease_name_write(char out[NODE_SIZE], enum layout layout,
                             const struct hf_id *id, uint32_t permits, uint32_t index);

/* How many permits a child of the folder of leases stands for; 0 if it is none. */
uint32_t hf__zk_lease_weight(enum layout layout, const struct zk_text *name);

enum limit_state hf__zk_limit_read(enum layout layout, int32_t kind,
                                   const struct zk_text *data, uint32_t *ret_limit);
size_t hf__zk_limit_write(char out[LIMIT_SIZE], enum layout layout, int32_t kind,
                          uint32_t limit);

#endif
