/* SPDX-License-Identifier: MIT */
/*
 * Where clients and holds come from and go to: one free list per kind, for the process.
 *
 * Called from any thread, with or without a client's lock; the lists have a lock of
 * their own. Retired objects keep their generation for ever, so that old handles stay
 * stale.
 */
#include "handle.h"

#include "../base/mem.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lists_lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *lists[HANDLE_KINDS];

static struct handle *list_pop(enum handle_kind kind)
{
    pthread_mutex_lock(&lists_lock);
    struct handle *handle = lists[kind];
    if (handle)
        lists[kind] = handle->next;
    pthread_mutex_unlock(&lists_lock);
    return handle;
}

void *hf__handle_new(enum handle_kind kind, size_t size, size_t keep)
{
    struct handle *handle = list_pop(kind);
    if (handle)
        memset((char *)handle + keep, 0, size - keep);
    else
        handle = hf__alloc(size);
    if (!handle)
        return NULL;
    handle->kind = (uint16_t)kind;
    handle->next = NULL;
    hf__handle_open(handle);
    return handle;
}

void hf__handle_shelve(void *object)
{
    struct handle *handle = object;
    pthread_mutex_lock(&lists_lock);
    handle->next = lists[handle->kind];
    lists[handle->kind] = handle;
    pthread_mutex_unlock(&lists_lock);
}

void hf__handle_retire(void *object)
{
    hf__handle_close(object);
    hf__handle_shelve(object);
}

void hf__debug_trim(void)
{
    for (int kind = 0; kind < HANDLE_KINDS; kind++)
        for (struct handle *handle; (handle = list_pop((enum handle_kind)kind));)
            hf__free(handle);
}

/* Valgrind and LeakSanitizer would call the lists reachable; users like a clean end. */
__attribute__((destructor)) static void trim_at_exit(void)
{
    hf__debug_trim();
}
