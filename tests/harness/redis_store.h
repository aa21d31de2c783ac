/* SPDX-License-Identifier: MIT */
/* The hooks of the redis rows in stores.c: a private server for each scenario. */
#ifndef HARNESS_REDIS_STORE_H
#define HARNESS_REDIS_STORE_H

#include "harness.h"

void redis_store_start(struct env *e, const char *prefix, const char *query);
void redis_store_stop(struct env *e);
bool redis_store_residue(const struct env *e, char *text, size_t size);
uint64_t redis_store_weight(const struct env *e);

#endif
