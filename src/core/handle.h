/* SPDX-License-Identifier: MIT */
/*
 * Handles that can be told from stale ones.
 *
 * Clients and holds live in memory that is never given back while the process runs.
 * Each carries a generation, and the pointer users get carries the same number in its
 * unused upper bits: a handle that was released, or a client that was closed, no longer
 * matches and is refused instead of followed. (Where pointers have no room, generation
 * checks are limited to the object's own liveness.)
 */
#ifndef HF_CORE_HANDLE_H
#define HF_CORE_HANDLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct handle {
    _Atomic uint16_t generation; /* odd: live */
    uint16_t kind;
    struct handle *next; /* in a free list */
};

enum handle_kind { HANDLE_CLIENT = 0, HANDLE_HOLD = 1, HANDLE_KINDS };

#if UINTPTR_MAX > 0xffffffffu
#define HANDLE_SHIFT 48
#define HANDLE_MASK (((uintptr_t)1 << HANDLE_SHIFT) - 1)
#else
#define HANDLE_SHIFT 0
#define HANDLE_MASK UINTPTR_MAX
#endif

/* An object of `size` bytes, live and zeroed, but for the first `keep` bytes of one
 * that was used before. NULL: out of memory. */
void *hf__handle_new(enum handle_kind kind, size_t size, size_t keep);

/* Makes every handle to it stale, and puts it on the free list: hf__handle_close, then
 * hf__handle_shelve. Who keeps a free list of its own uses the halves. */
void hf__handle_retire(void *object);
void hf__handle_shelve(void *object);

static inline void hf__handle_close(struct handle *handle)
{
    uint16_t now = atomic_load_explicit(&handle->generation, memory_order_relaxed);
    atomic_store_explicit(&handle->generation, (uint16_t)(now + 1),
                          memory_order_release);
}
static inline void hf__handle_open(struct handle *handle)
{
    hf__handle_close(handle); /* even to odd */
}

static inline void *hf__handle_wrap(struct handle *handle)
{
#if HANDLE_SHIFT
    uintptr_t tag = atomic_load_explicit(&handle->generation, memory_order_relaxed);
    return (void *)((uintptr_t)handle | tag << HANDLE_SHIFT);
#else
    return handle;
#endif
}

static inline uint16_t hf__handle_tag(const void *wrapped)
{
#if HANDLE_SHIFT
    return (uint16_t)((uintptr_t)wrapped >> HANDLE_SHIFT);
#else
    return atomic_load_explicit(&((struct handle *)wrapped)->generation,
                                memory_order_acquire);
#endif
}

/* The object whatever its state; compare tags to know whether it is the one meant. */
static inline void *hf__handle_object(const void *wrapped)
{
    return (void *)((uintptr_t)wrapped & HANDLE_MASK);
}

static inline int hf__handle_live(const struct handle *handle, uint16_t tag)
{
    return (tag & 1) != 0 &&
           atomic_load_explicit(&handle->generation, memory_order_acquire) == tag;
}

/* For tests that count memory: frees what no handle is live in. */
void hf__debug_trim(void);

#endif
