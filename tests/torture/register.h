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
    uint64_t recent; /* the token of a present or recent holder, for evictions */
    uint64_t spare[4];
};
_Static_assert(sizeof(struct resource) == 64, "one cell, one cache line");

/* A hold that another may adopt, on a board of one notice per lock. A notice that is
 * torn (its writer was killed, or there were two) is none: its sum does not fit. */
#define NOTICE_ID 1216

struct notice {
    uint64_t sum; /* 0: none */
    uint64_t token;
    uint64_t want; /* kind, permits, limit */
    char id[NOTICE_ID];
    uint64_t room[5];
};
_Static_assert(sizeof(struct notice) == 1280, "whole cache lines");

struct notice *board_map(const char *path, size_t count);
void board_unmap(struct notice *board, size_t count);

/* Puts it up in place of what is there. Fills `sum`. */
void notice_post(struct notice *place, struct notice *notice);
/* False if there is none. What is taken is there no more and no other thread has it,
 * unless `copy` leaves it there. */
bool notice_take(struct notice *place, struct notice *ret_notice, bool copy);

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
