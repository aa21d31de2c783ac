/* SPDX-License-Identifier: MIT */
/*
 * Which kind a name serves, judged by the children of its folder P.
 *
 *   P/..lock-<number>                       mutex, reentrant, fair
 *   P/..__READ__<number>, ..__WRIT__..      read and write
 *   P/locks/..  P/leases/..                 permits (Curator's SemaphoreV2)
 *   P/hf%expiring/locks/..  ../leases/..    expiring permits: the same, one level down
 *   P/hf%latch  P/hf%gate  P/hf%wait-<uuid> a latch: its count, its gate, its waiters
 *   P/hf%cell                               a cell
 *   P/hf%done-<uuid>                        a change was made (see changes.c)
 *
 * No name has a bare '%' in its path, so these are never the folder of a name; and 'h'
 * sorts after all digits, so Curator, which sorts all children, never finds one of them
 * before a lock. Folders of semaphores stay for a while after their last use: that one
 * exists is no proof, it has to be listed.
 */
#ifndef HF_ZOOKEEPER_KINDS_H
#define HF_ZOOKEEPER_KINDS_H

#include "session.h"

#define NODE_LATCH "/hf%latch"
#define NODE_GATE "/hf%gate"
#define NODE_WAIT "/hf%wait-"
#define NODE_CELL "/hf%cell"
#define NODE_DONE "/hf%done-"
#define FOLDER_EXPIRING "/hf%expiring"
#define FOLDER_LOCKS "/locks"
#define FOLDER_LEASES "/leases"

#define KIND_MAYBE (-1)

/* The kind of another family than that of `kind` which the children of a folder show: 0
 * for none, or KIND_MAYBE if only hf__zk_kind_probe() can tell. */
int32_t hf__zk_kind_clash(enum layout layout, const struct zk_text *names, size_t count,
                          int32_t kind);

/* HF_EMISMATCH, with a sentence that names both kinds. */
int hf__zk_kind_mismatch(hf_error *why, int32_t there, int32_t asked);

/* Lists the folders of semaphores. Embedded in its user; zeroed is idle. */
struct kind_probe;
/* `rc`: 0, HF_EMISMATCH, or the code of a missing reply. */
typedef void kind_probe_done(struct zk_session *me, struct kind_probe *probe, int rc,
                             const hf_error *why);
struct kind_probe {
    kind_probe_done *done;
    int32_t kind;  /* asked for */
    int32_t clash; /* found; 0: none */
    uint8_t replies_due;
    int rc;
};

void hf__zk_kind_probe(struct zk_session *me, struct kind_probe *probe,
                       const char *folder, int32_t kind, kind_probe_done *done);
/* `done` is not called any more. */
void hf__zk_kind_probe_drop(struct zk_session *me, struct kind_probe *probe);

#endif
