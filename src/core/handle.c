/* SPDX-License-Identifier: MIT */
/*
 * Allocates clients and holds and takes them back: a table that finds them by index,
 * and one free list per kind, for the process.
 *
 * Called from any thread, with or without a client's lock; the lists have a lock of
 * their own, which is held across fork(), so that a child finds them whole. The table
 * grows by chunks that stay where they are, each twice as large as the one before:
 * a look-up takes no lock.
 */
#include "handle.h"

#include "../base/mem.h"

#include <pthread.h>
#include <string.h>

enum { CHUNK_FIRST = 64, CHUNKS = 27 };

typedef _Atomic(struct handle *) table_entry;

static pthread_mutex_t lists_lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *lists[HANDLE_KINDS];
static _Atomic(table_entry *) chunks[CHUNKS];
static uint64_t next_index;
static uint64_t object_count;
static uint32_t first_generation; /* even, and above any generation in use before */

/* ---- forks ----------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&lists_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lists_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

/* ---- the table ------------------------------------------------------------------- */

/* Chunk k has CHUNK_FIRST << k entries. */
static uint32_t chunk_of(uint32_t index, uint32_t *ret_offset)
{
    uint32_t chunk = 31u - (uint32_t)__builtin_clz(index / CHUNK_FIRST + 1);
    *ret_offset = index - CHUNK_FIRST * ((1u << chunk) - 1);
    return chunk;
}

static table_entry *entry_of(uint32_t index)
{
    uint32_t offset, chunk = chunk_of(index, &offset);
    table_entry *entries = atomic_load_explicit(&chunks[chunk], memory_order_acquire);
    return entries ? &entries[offset] : NULL;
}

void *hf__handle_object(const void *wrapped, enum handle_kind kind)
{
    const table_entry *entry = wrapped ? entry_of((uint32_t)(uintptr_t)wrapped) : NULL;
    struct handle *handle =
        entry ? atomic_load_explicit(entry, memory_order_acquire) : NULL;
    return handle && handle->kind == (uint16_t)kind ? handle : NULL;
}

/* Under lists_lock. */
static bool table_add(struct handle *handle)
{
    uint32_t offset, chunk;
    if (next_index > UINT32_MAX)
        return false;
    chunk = chunk_of((uint32_t)next_index, &offset);
    table_entry *entries = atomic_load_explicit(&chunks[chunk], memory_order_relaxed);
    if (!entries) {
        entries = hf__alloc(((size_t)CHUNK_FIRST << chunk) * sizeof(*entries));
        if (!entries)
            return false;
        atomic_store_explicit(&chunks[chunk], entries, memory_order_release);
    }
    handle->index = (uint32_t)next_index++;
    object_count++;
    atomic_store_explicit(&entries[offset], handle, memory_order_release);
    return true;
}

/* Under lists_lock. With the last object the table is freed, too; later objects start
 * above every generation that was in use. */
static void table_remove(const struct handle *handle)
{
    uint32_t generation = handle->generation;
    atomic_store(entry_of(handle->index), NULL);
    if (generation > first_generation)
        first_generation = generation;
    if (--object_count > 0)
        return;
    next_index = 0;
    for (int i = 0; i < CHUNKS; i++)
        hf__free(atomic_exchange(&chunks[i], NULL));
}

/* ---- making and keeping ---------------------------------------------------------- */

static struct handle *handle_make(enum handle_kind kind, size_t size)
{
    struct handle *handle = hf__alloc(size);
    if (!handle)
        return NULL;
    handle->generation = first_generation;
    handle->kind = (uint16_t)kind;
    if (table_add(handle))
        return handle;
    hf__free(handle);
    return NULL;
}

void *hf__handle_new(enum handle_kind kind, size_t size, size_t keep)
{
    pthread_mutex_lock(&lists_lock);
    struct handle *handle = lists[kind];
    if (handle) {
        lists[kind] = handle->next;
        memset((char *)handle + keep, 0, size - keep);
    } else {
        handle = handle_make(kind, size);
    }
    pthread_mutex_unlock(&lists_lock);
    if (!handle)
        return NULL;
    handle->next = NULL;
    hf__handle_open(handle);
    return handle;
}

void hf__handle_recycle(void *object)
{
    struct handle *handle = object;
    if (hf__handle_used_up(handle))
        return; /* it stays in the table, closed for ever */
    pthread_mutex_lock(&lists_lock);
    handle->next = lists[handle->kind];
    lists[handle->kind] = handle;
    pthread_mutex_unlock(&lists_lock);
}

void hf__handle_retire(void *object)
{
    hf__handle_close(object);
    hf__handle_recycle(object);
}

void hf__debug_trim(void)
{
    pthread_mutex_lock(&lists_lock);
    for (int kind = 0; kind < HANDLE_KINDS; kind++) {
        for (struct handle *handle; (handle = lists[kind]);) {
            lists[kind] = handle->next;
            table_remove(handle);
            hf__free(handle);
        }
    }
    pthread_mutex_unlock(&lists_lock);
}

void hf__debug_age_handles(uint32_t generation)
{
    hf__debug_trim();
    pthread_mutex_lock(&lists_lock);
    first_generation = generation & ~1u;
    pthread_mutex_unlock(&lists_lock);
}

/* At exit, so that leak checkers report nothing. */
__attribute__((destructor)) static void trim_at_exit(void)
{
    hf__debug_trim();
}
