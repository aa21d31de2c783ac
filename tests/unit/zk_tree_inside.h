/* SPDX-License-Identifier: MIT */
/* What the files of the server of zk_tree.h share. */
#ifndef HF_TESTS_ZK_TREE_INSIDE_H
#define HF_TESTS_ZK_TREE_INSIDE_H

#include "zk_tree.h"

bool tree_is_child(const char *path, const char *parent);
int32_t tree_children(const char *path); /* how many */
bool tree_is_over(int64_t session);
void tree_session_over(int64_t session);

/* Codes of the server's. `made`: the path, with its number. */
int32_t tree_node_make(const char *path, const void *data, size_t len, int32_t mode,
                       int64_t session, char made[TREE_PATH]);
int32_t tree_node_delete(const char *path, int32_t version);
int32_t tree_node_set(const char *path, const void *data, size_t len, int32_t version);

void tree_watch(struct tree_caller *caller, const char *path, bool child);
void tree_fire(const char *path, enum zk_event_type type, bool child);

struct jute_out tree_out(char *bytes, size_t size);
void tree_say(struct tree_caller *caller, struct jute_out *out, char *frame);

#endif
