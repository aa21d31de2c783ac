/* SPDX-License-Identifier: MIT */
/* Random bytes for ids, from the kernel through a small pool. A pool belongs to one
 * thread at a time (core's is under the client's lock); zeroed is empty. A forked child
 * never uses the bytes of its parent's pool. */
#ifndef HF_BASE_RAND_H
#define HF_BASE_RAND_H

#include "fork.h"

#include <stddef.h>
#include <string.h>

#define HF_RANDOM_POOL 4096

struct hf_random {
    uint64_t mark; /* of the process that filled it */
    size_t left;   /* bytes not returned yet, at the end of `bytes` */
    unsigned char bytes[HF_RANDOM_POOL];
};

/* For more bytes than the pool has: fills it, or asks the kernel for more than a pool
 * can hold. */
int hf__random_slow(struct hf_random *pool, void *buffer, size_t size);

/* 0, or -errno if the kernel gives none. Bytes are wiped as they are returned. */
static inline int hf__random(struct hf_random *pool, void *buffer, size_t size)
{
    if (size >= sizeof pool->bytes || pool->left <= size ||
        hf__forked(pool->mark)) /* bytes left, so the page exists */
        return hf__random_slow(pool, buffer, size);
    unsigned char *from = pool->bytes + sizeof pool->bytes - pool->left;
    memcpy(buffer, from, size);
    memset(from, 0, size);
    __asm__ volatile("" : : "r"(from) : "memory"); /* keeps the wiping */
    pool->left -= size;
    return 0;
}

#endif
