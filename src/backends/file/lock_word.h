/* SPDX-License-Identifier: MIT */
/*
 * The lock word of a record, `word` for short: it says whether a client may take the
 * lock without the guard, and which session did.
 *
 *   generation 63..32 | session 31..20 | serial 19..8 | flags 7..0
 *
 * A word with neither HELD nor SLOW is open: one compare-exchange takes the lock. HELD
 * says that `session` did so; only that session, or a process that holds the guard, may
 * clear it. SLOW says that entries in the table manage the lock; such a word changes
 * with the guard held only. A block that is not a record is SLOW, and a record that is
 * made anew gets a new generation, so a client that remembers an older one cannot take
 * it. `serial` counts the fast grants: what the record says of its holder is valid if
 * it carries the same serial number.
 *
 * With waiters there is WAIT, and two more flags say how the lock is passed on:
 *
 *   INVITED    the first waiter has been woken and will come. Until then other
 *              clients may take the lock and release it without the guard.
 *   IMPATIENT  the first waiter came and found the lock taken, or a waiter must not
 *              be overtaken. The next release gives the lock to the queue.
 */
#ifndef HF_FILE_LOCK_WORD_H
#define HF_FILE_LOCK_WORD_H

#include "../../../include/holdfast/backend.h"

#define WORD_HELD UINT64_C(1)
#define WORD_SLOW UINT64_C(2)
#define WORD_WAIT UINT64_C(4)
#define WORD_INVITED UINT64_C(8)
#define WORD_IMPATIENT UINT64_C(16)

#define WORD_SERIAL UINT64_C(0x000fff00)
#define WORD_SERIAL_ONE UINT64_C(0x00000100)
#define WORD_SESSION UINT64_C(0xfff00000)
#define WORD_SESSION_SHIFT 20
#define WORD_GEN_SHIFT 32

#define WORD_QUEUE (WORD_WAIT | WORD_INVITED | WORD_IMPATIENT)

static inline uint32_t word_gen(uint64_t word)
{
    return (uint32_t)(word >> WORD_GEN_SHIFT);
}

static inline uint32_t word_session(uint64_t word)
{
    return (uint32_t)((word & WORD_SESSION) >> WORD_SESSION_SHIFT);
}

static inline uint32_t word_serial(uint64_t word)
{
    return (uint32_t)(word & WORD_SERIAL);
}

/* The word without holder and flags. */
static inline uint64_t word_base(uint64_t word)
{
    return word & ~(uint64_t)0xff & ~WORD_SESSION;
}

/* The word with the next serial number, held by `session`; the flags of the queue
 * stay. */
static inline uint64_t word_taken(uint64_t word, uint32_t session)
{
    uint64_t serial = (word + WORD_SERIAL_ONE) & WORD_SERIAL;
    return (word & ~WORD_SERIAL & ~WORD_SESSION & ~WORD_SLOW) | serial |
           (uint64_t)session << WORD_SESSION_SHIFT | WORD_HELD;
}

static inline uint64_t word_dropped(uint64_t word)
{
    return word & ~WORD_SESSION & ~WORD_HELD;
}

static inline bool word_held_by(uint64_t word, uint32_t gen, uint32_t session)
{
    return (word & WORD_HELD) && word_gen(word) == gen && word_session(word) == session;
}

/* Whether this word may be taken at once. `passing`: the kind may overtake waiters. */
static inline bool word_open(uint64_t word, bool passing)
{
    if (word & (WORD_HELD | WORD_SLOW | WORD_IMPATIENT))
        return false;
    return passing || !(word & WORD_WAIT);
}

/* Whether the holder may release it without waking a waiter. */
static inline bool word_quiet(uint64_t word)
{
    uint64_t flags = word & (WORD_QUEUE | WORD_SLOW);
    return flags == 0 || flags == (WORD_WAIT | WORD_INVITED);
}

static inline uint64_t word_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void word_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline bool word_swap(uint64_t *word, uint64_t *expected, uint64_t value)
{
    return __atomic_compare_exchange_n(word, expected, value, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

#endif
