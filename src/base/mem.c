/* SPDX-License-Identifier: MIT */
/*
 * Allocation: calloc with a count and a hook that makes it fail.
 *
 * Called from any thread. Two counters are enough: `asked` for every allocation that
 * was tried, `ended` for those of them that are not live (refused, freed, or a realloc,
 * which adds no block). One relaxed addition per call, and hf__mem_live() subtracts.
 *
 * The hook is one word: the number of the allocation that fails, with the top bit for
 * "and all after it"; 0 is off. It is read after the counter went up, so exactly one
 * allocation has a number that is not sticky.
 */
#include "mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STICKY (UINT64_C(1) << 63)

static _Atomic uint64_t asked;
static _Atomic uint64_t ended;
static _Atomic uint64_t fail_at;

static bool is_refused(void)
{
    uint64_t number = atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed) + 1;
    uint64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (at == 0)
        return false;
    return at & STICKY ? number >= (at & ~STICKY) : number == at;
}

static void count_ended(void)
{
    atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
}

void *hf__alloc(size_t size)
{
    void *memory = is_refused() ? NULL : calloc(1, size ? size : 1);
    if (!memory)
        count_ended();
    return memory;
}

void *hf__realloc(void *memory, size_t old_size, size_t size)
{
    if (!memory)
        return hf__alloc(size);

    char *grown = is_refused() ? NULL : realloc(memory, size ? size : 1);
    count_ended();
    if (grown && size > old_size)
        memset(grown + old_size, 0, size - old_size);
    return grown;
}

char *hf__copy_text(const char *text, size_t len)
{
    char *copy = len < SIZE_MAX ? hf__alloc(len + 1) : NULL;
    if (copy && len)
        memcpy(copy, text, len);
    return copy;
}

void hf__free(void *memory)
{
    if (!memory)
        return;
    free(memory);
    count_ended();
}

size_t hf__mem_live(void)
{
    uint64_t not_live = atomic_load_explicit(&ended, memory_order_relaxed);
    return (size_t)(atomic_load_explicit(&asked, memory_order_relaxed) - not_live);
}

uint64_t hf__mem_count(void)
{
    return atomic_load_explicit(&asked, memory_order_relaxed);
}

void hf__mem_fail(uint64_t nth, int sticky)
{
    uint64_t at = nth ? (hf__mem_count() + nth) | (sticky ? STICKY : 0) : 0;
    atomic_store_explicit(&fail_at, at, memory_order_relaxed);
}
