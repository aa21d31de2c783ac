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

#include "names.h"
#include "wire/zk.h"

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
 * for none, or KIND_MAYBE if only the folders inside can tell. */
int32_t hf__zk_kind_clash(enum layout layout, const struct zk_text *names, size_t count,
                          int32_t kind);

/* HF_EMISMATCH, with a sentence that names both kinds. */
int hf__zk_kind_mismatch(hf_error *why, int32_t there, int32_t asked);

/* The folders inside that may have to be listed: the path of number `index` below
 * `folder`, for one that asks for `kind`. False: that is of its own kind, and shows
 * nothing. */
enum { KIND_INSIDES = 4 };
bool hf__zk_kind_inside(char path[PATH_SIZE], const char *folder, int32_t kind,
                        size_t index);
/* Which of them comes last. */
size_t hf__zk_kind_inside_last(int32_t kind);
/* The kind whose folder that is, if the listing shows a lock of it; 0. */
int32_t hf__zk_kind_found(enum layout layout, size_t index,
                          const struct zk_reply *reply);

#endif
