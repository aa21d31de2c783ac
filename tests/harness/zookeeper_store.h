/* SPDX-License-Identifier: MIT */
/* Hooks of the zookeeper rows of the contract suite (stores.c). A server takes a second
 * to start and an ensemble three: the tests of a lane share one. */
#ifndef HARNESS_ZOOKEEPER_STORE_H
#define HARNESS_ZOOKEEPER_STORE_H

#include "harness.h"

/* In the runner: starts the servers of a lane, one or three, and tells the test to be
 * started where they are. */
void zookeeper_store_prepare(size_t lane, size_t servers);

/* `prefix` comes before the URL, `query` ("" or "&layout=...") after its options. Uses
 * the lane's servers, or starts some of its own if there is no runner. */
void zookeeper_store_start(struct env *e, size_t servers, const char *prefix,
                           const char *query);
void zookeeper_store_stop(struct env *e);
bool zookeeper_store_residue(const struct env *e, char *text, size_t size);
uint64_t zookeeper_store_weight(const struct env *e);
void zookeeper_store_settle(const struct env *e);

#endif
