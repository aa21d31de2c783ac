/* SPDX-License-Identifier: MIT */
/*
 * Names: a lock's name as a path and back, and the names of nodes in a lock's folder.
 * Pure functions.
 *
 * The lock `jobs/nightly` has the folder /jobs/nightly, as Curator would have it. What
 * ZooKeeper cannot have in a path, what looks like a node of ours, and '%' itself are
 * written %XX, so that two names never share a path.
 */
#ifndef HF_ZOOKEEPER_NAMES_H
#define HF_ZOOKEEPER_NAMES_H

#include "../../../include/holdfast/backend.h"

enum layout { LAYOUT_CURATOR, LAYOUT_KAZOO, LAYOUT_SINGLE };

enum {
    FOLDER_SIZE = 3 * HF_NAME_MAX + 2, /* a name's path, with its NUL */
    NODE_SIZE = 72,                    /* a node's name, number and NUL included */
    NODE_ROOM = 256, /* for the name of any client's node, and a NUL */
    PATH_SIZE = FOLDER_SIZE + NODE_ROOM + 16, /* any path of ours: P/leases/<node> */
    UUID_SIZE = 36,
};

/* The folder of a name, with a NUL; returns its length. */
size_t hf__zk_folder_write(char out[FOLDER_SIZE], const char *name, size_t len);

/* The same as one component, every '/' encoded: for nodes without children. */
size_t hf__zk_flat_path_write(char out[FOLDER_SIZE], const char *name, size_t len);

/* The name of a folder (or of a prefix of its path), nested or flat, with a NUL that
 * *ret_len does not count. False for a path that no name has. */
bool hf__zk_folder_read(const char *path, size_t len, char out[HF_NAME_MAX + 1],
                        size_t *ret_len);

/* What a child of a lock's folder is, by its name. A name without the full form of its
 * kind, number included, is NODE_OTHER and no contender. */
enum node_form {
    NODE_OTHER = 0,
    NODE_LOCK,  /* mutex: ..lock-<number>; kazoo ..__lock__<number>, also a writer */
    NODE_READ,  /* ..__READ__<number>; kazoo ..__rlock__<number> */
    NODE_WRITE, /* ..__WRIT__<number> */
    NODE_LEASE, /* ..lease-<number> */
};

struct node {
    enum node_form form;
    bool has_id;
    struct hf_id id; /* of its ticket, if the name has one: a uuid, or 32 hex digits */
    const char *number; /* the sort key: "0000000042", "-2147483648" */
    size_t number_len;
};

void hf__zk_node_parse(struct node *node, enum layout layout, const char *name,
                       size_t len);

/* The same without the id, for long listings; and whether the id is this one. */
void hf__zk_node_parse_number(struct node *node, enum layout layout, const char *name,
                              size_t len);
bool hf__zk_node_is_of(const char *name, size_t len, const struct hf_id *id);

/* As strcmp, by number alone; equal numbers are possible. */
int hf__zk_node_compare(const struct node *a, const struct node *b);

/* The name without its number, with a NUL; returns its length. "" for a form that the
 * layout does not have. */
size_t hf__zk_node_name_write(char out[NODE_SIZE], enum layout layout,
                              enum node_form form, const struct hf_id *id);

/* "8-4-4-4-12" hex digits, no NUL. */
void hf__zk_uuid_write(char out[UUID_SIZE], const struct hf_id *id);

#endif
