/* SPDX-License-Identifier: MIT */
/*
 * What the locks guard: one cell per lock in a file that every worker maps.
 *
 * The fenced register refuses tokens older than the newest it has seen, on reading as
 * on writing. The read must present its token too: if it did not, B (newer) could read,
 * then A (older) write and be told that all is well, and then B write over it.
 *
 * The plain register is the positive control: read, then written after the work. It
 * loses updates as soon as two are inside.
 *
 * No locks: a worker that is stopped or killed anywhere keeps nobody from going on.
 */
#ifndef TORTURE_REGISTER_H
#define TORTURE_REGISTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fenced {
    _Alignas(16) uint64_t token; /* the newest that has read or written */
    uint64_t value;
};

/* run.py reads this layout: 64 bytes, token, value, plain. */
struct resource {
    struct fenced fenced;
    uint64_t plain;
    uint64_t spare[5];
};
_Static_assert(sizeof(struct resource) == 64, "one cell, one cache line");

/* Maps `count` cells of `path`, made if need be. NULL: errno. */
struct resource *resources_map(const char *path, size_t count);
void resources_unmap(struct resource *resources, size_t count);

/* The same for plain words: since when each thread of a process has been waiting. */
uint64_t *words_map(const char *path, size_t count);
void words_unmap(uint64_t *words, size_t count);

/* False: the token is too old. */
bool fenced_read(struct fenced *fenced, uint64_t token, uint64_t *ret_value);
bool fenced_write(struct fenced *fenced, uint64_t token, uint64_t value);

uint64_t plain_read(const struct resource *resource);
void plain_write(struct resource *resource, uint64_t value);

#endif
