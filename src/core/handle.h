/* SPDX-License-Identifier: MIT */
/*
 * Handles that can be told from stale ones.
 *
 * What a user gets is a number, not an address: the index of an object in a table of
 * the process, and the object's generation. An object is live in odd generations. When
 * it is released its generation goes up, so every handle from before is refused instead
 * of followed. Objects are used again but never freed, and one whose generations are
 * used up is not used again: a stale handle stays stale for as long as the process
 * runs.
 */
#ifndef HF_CORE_HANDLE_H
#define HF_CORE_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(uintptr_t) >= sizeof(uint64_t),
               "a handle is an index and a generation of 32 bits each");

struct handle {
    _Atomic uint32_t generation; /* odd: live */
    uint32_t index;              /* in the table */
    uint16_t kind;
    struct handle *next; /* in a free list */
};

enum handle_kind { HANDLE_CLIENT = 0, HANDLE_HOLD = 1, HANDLE_KINDS };

#define HANDLE_INDEX_BITS 32

/* After this generation an object is not used again. */
#define HANDLE_GENERATION_MAX (UINT32_MAX - 1)

/* An object of `size` bytes, live and zeroed, but for the first `keep` bytes of one
 * that was used before. NULL: out of memory. */
void *hf__handle_new(enum handle_kind kind, size_t size, size_t keep);

/* Makes every handle to it stale, and puts it on the free list: hf__handle_close, then
 * hf__handle_recycle. A caller with a free list of its own uses the halves and asks
 * hf__handle_used_up in between. */
void hf__handle_retire(void *object);
void hf__handle_recycle(void *object);

static inline void hf__handle_close(struct handle *handle)
{
    uint32_t now = atomic_load_explicit(&handle->generation, memory_order_relaxed);
    atomic_store_explicit(&handle->generation, now + 1, memory_order_release);
}

static inline void hf__handle_open(struct handle *handle)
{
    hf__handle_close(handle); /* even to odd */
}

/* Its generations are used up. */
static inline bool hf__handle_used_up(const struct handle *handle)
{
    return atomic_load_explicit(&handle->generation, memory_order_relaxed) >=
           HANDLE_GENERATION_MAX;
}

static inline void *hf__handle_wrap(const struct handle *handle)
{
    uintptr_t tag = atomic_load_explicit(&handle->generation, memory_order_relaxed);
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): nobody follows it */
    return (void *)(tag << HANDLE_INDEX_BITS | handle->index);
}

static inline uint32_t hf__handle_tag(const void *wrapped)
{
    return (uint32_t)((uintptr_t)wrapped >> HANDLE_INDEX_BITS);
}

/* The object whatever its state, NULL if there never was one of that kind; compare tags
 * to know whether it is the one meant. */
void *hf__handle_object(const void *wrapped, enum handle_kind kind);

static inline bool hf__handle_live(const struct handle *handle, uint32_t tag)
{
    return (tag & 1) != 0 &&
           atomic_load_explicit(&handle->generation, memory_order_acquire) == tag;
}

/* For tests that count memory: frees what no handle is live in. */
void hf__debug_trim(void);

/* For tests: the handles of objects used from now on are as if each object had been
 * used this often. */
void hf__debug_age_handles(uint32_t generation);

#endif
