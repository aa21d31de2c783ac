/* SPDX-License-Identifier: MIT */
/*
 * The fast path: a lock is taken and released through the lock word of its record
 * alone. For tickets.c, under the client's lock; in a header, so that the compiler can
 * inline it.
 *
 * A session takes the word for an exclusive ticket without lease and note with one
 * compare-exchange, draws a token and describes the hold in the record. It releases the
 * lock with another compare-exchange. No system call, no guard. The description is
 * written after the word was taken, `serial` last; a reader (hf__file_fast_read)
 * compares the serial number.
 *
 * The fast path needs to know where the record is. Core passes the hint of the last
 * ticket of a name, and each session remembers some names itself; a hint that is out of
 * date finds another generation in the word and fails.
 */
#ifndef HF_FILE_FASTPATH_H
#define HF_FILE_FASTPATH_H

#include <string.h>

#include "../../base/clock.h"
#include "queue.h"

#define TOKENS_AHEAD_MAX 64 /* grants */

/* ---- Token and description ------------------------------------------------------- */

/*
 * A session draws token numbers ahead, so that a lock that no other client wants causes
 * no traffic on the counter that all sessions share. They are as good as fresh ones as
 * long as they are larger than the newest number of the record. The more grants in a
 * row no other session interrupted, the more are drawn.
 */
static inline uint64_t fast_token(struct file_queue *me, struct block_record *r,
                                  uint32_t span)
{
    uint64_t newest = __atomic_load_n(&r->newest, __ATOMIC_RELAXED);
    uint64_t token = me->token_next;

    if (token <= newest || token + span > me->token_end) {
        if (token <= newest)
            me->streak = 0;
        uint32_t ahead =
            me->streak < TOKENS_AHEAD_MAX ? me->streak + 1 : TOKENS_AHEAD_MAX;
        token = hf__file_region_draw(&me->region, span * ahead);
        me->token_end = token + (uint64_t)span * ahead;
    }
    me->streak++;
    me->token_next = token + span;
    __atomic_store_n(&r->newest, token + span - 1, __ATOMIC_RELAXED);
    return token;
}

/* After the word was set to `word`: describes the hold in the record and in the
 * ticket. */
static inline void fast_publish(struct file_queue *me, struct region_block *record,
                                uint64_t word, struct hf_ticket *ticket)
{
    struct block_record *r = &record->record;
    uint32_t span = ticket_span(ticket);
    uint64_t token = fast_token(me, r, span);

    __atomic_store_n(&r->token, token, __ATOMIC_RELEASE);
    __atomic_store_n(&r->id.word[0], ticket->id.word[0], __ATOMIC_RELEASE);
    __atomic_store_n(&r->id.word[1], ticket->id.word[1], __ATOMIC_RELEASE);
    __atomic_store_n(&r->since, hf__now_coarse(), __ATOMIC_RELEASE);
    __atomic_store_n(&r->span, span, __ATOMIC_RELEASE);
    __atomic_store_n(&r->kind, ticket->kind, __ATOMIC_RELEASE);
    __atomic_store_n(&r->serial, word_serial(word), __ATOMIC_RELEASE);
    ticket_set(ticket, TICKET_FAST, block_index(me, record), word, token);
    me->held++;
}

/* ---- Where the record is --------------------------------------------------------- */

/*
 * Where the record is and which serial number its word had, in one number: generation
 * 63..32, block 31..12, serial 11..0. Never 0.
 */
static inline uint64_t hint_of(uint32_t block, uint64_t word)
{
    return (word & ~(uint64_t)UINT32_MAX) | (uint64_t)block << 12 |
           word_serial(word) >> 8;
}

static inline uint32_t hint_block(uint64_t hint)
{
    return (uint32_t)hint >> 12;
}

static inline uint64_t hint_word(uint64_t hint)
{
    return (hint & ~(uint64_t)UINT32_MAX) | (hint & 0xfff) << 8;
}

static inline struct queue_cached *cache_at(struct file_queue *me, uint32_t hash)
{
    return &me->cache[hash % CACHE_COUNT];
}

static inline bool cache_is(const struct queue_cached *cached,
                            const struct hf_ticket *ticket)
{
    return cached->hash == ticket->name_hash && cached->len == ticket->name_len &&
           cached->writes == (ticket->kind == HF_WRITE) &&
           memcmp(cached->name, ticket->name, ticket->name_len) == 0;
}

static inline void cache_put(struct file_queue *me, struct hf_ticket *ticket,
                             struct region_block *record)
{
    struct queue_cached *cached = cache_at(me, ticket->name_hash);

    ticket->hint = hint_of(block_index(me, record), word_load(&record->lock_word));
    if (ticket->name_len > CACHE_NAME)
        return;
    cached->hint = ticket->hint;
    cached->hash = ticket->name_hash;
    cached->len = (uint16_t)ticket->name_len;
    cached->writes = ticket->kind == HF_WRITE;
    memcpy(cached->name, ticket->name, ticket->name_len);
}

static inline uint64_t hint_find(struct file_queue *me, const struct hf_ticket *ticket)
{
    struct queue_cached *cached = cache_at(me, ticket->name_hash);

    if (ticket->hint)
        return ticket->hint;
    return cache_is(cached, ticket) ? cached->hint : 0;
}

/* ---- Take and drop --------------------------------------------------------------- */

/*
 * Without the guard; false: use the table. The first compare-exchange expects the word
 * of the hint: most often that is right, and reading the word first would cost as much
 * again.
 */
static inline bool fast_take(struct file_queue *me, struct hf_ticket *ticket)
{
    struct region_block *record;
    uint64_t hint, word;

    if (!ticket_plain(ticket) || ticket_mode(ticket) != TICKET_NONE)
        return false;
    hint = hint_find(me, ticket);
    if (!hint)
        return false;
    record = block_at(me, hint_block(hint));
    word = hint_word(hint);
    if (!word_swap(&record->lock_word, &word, word_taken(word, me->session)) &&
        (word_gen(word) != word_gen(hint) || !word_open(word, ticket_passes(ticket)) ||
         !word_swap(&record->lock_word, &word, word_taken(word, me->session))))
        return false;
    fast_publish(me, record, word_taken(word, me->session), ticket);
    return true;
}

/* Guard held: takes a record whose word is seized and free. */
static inline void fast_grant(struct file_queue *me, struct hf_ticket *ticket,
                              struct region_block *record, uint64_t word)
{
    word = word_taken(word, me->session);
    word_store(&record->lock_word, word);
    guard_step();
    fast_publish(me, record, word, ticket);
    cache_put(me, ticket, record);
}

static inline bool fast_is(const struct file_queue *me,
                           const struct region_block *record, uint64_t word,
                           const struct hf_ticket *ticket)
{
    return word_held_by(word, word_gen(ticket->store[1]), me->session) &&
           __atomic_load_n(&record->record.token, __ATOMIC_ACQUIRE) == ticket->store[2];
}

/* Without the guard; expects the remembered word first, as above. The token tells this
 * hold from a later one of the same session. */
static inline bool fast_drop(struct file_queue *me, struct hf_ticket *ticket)
{
    struct region_block *record = block_at(me, ticket_block(ticket));
    struct queue_cached *cached = cache_at(me, ticket->name_hash);
    uint64_t word = ticket->store[1];

    if (!fast_is(me, record, word, ticket) || !word_quiet(word))
        return false;
    if (!word_swap(&record->lock_word, &word, word_dropped(word)) &&
        (!fast_is(me, record, word, ticket) || !word_quiet(word) ||
         !word_swap(&record->lock_word, &word, word_dropped(word))))
        return false;
    ticket->hint = hint_of(ticket_block(ticket), word);
    if (hint_block(cached->hint) == ticket_block(ticket))
        cached->hint = ticket->hint;
    return true;
}

#endif
