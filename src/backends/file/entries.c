/* SPDX-License-Identifier: MIT */
/*
 * The queue of a record: which entries are granted and which is next. Guard held.
 *
 * The entries of a record stand in one list, granted ones first, the others by arrival.
 * A session may also take a lock through the lock word alone (a fast hold, fastpath.h).
 * So every function here first seizes the word: then it is SLOW, and only the holder of
 * the guard changes it, or it is HELD, and its holder may at most release it meanwhile.
 * After a change hf__file_record_update() decides which entry is next and sets the word
 * accordingly.
 *
 * A free lock with waiters is passed on in one of two ways. Strictly: the first waiter
 * (and all others that fit) is granted, then woken. Or by invitation: the first waiter
 * is woken and the lock left open, so that other sessions can use it until the waiter
 * runs. If an invited waiter finds the lock taken, the next release is strict.
 *
 * To wake a session is to write to a FIFO, and that is done with the guard held too: if
 * a process dies between a grant and its wake-up, it dies with the guard held, and
 * recover.c wakes all sessions.
 */
#include <string.h>

#include "../../base/clock.h"
#include "queue.h"

/* ---- Lock words ------------------------------------------------------------------ */

/* The holder may write these at the same time; the serial number shows whether they are
 * complete. */
bool hf__file_fast_read(const struct region_block *record, struct fast_hold *ret_hold)
{
    const struct block_record *r = &record->record;
    uint64_t word = word_load(&record->lock_word);
    uint32_t serial = __atomic_load_n(&r->serial, __ATOMIC_ACQUIRE);

    if (!(word & WORD_HELD) || serial != word_serial(word))
        return false;
    *ret_hold = (struct fast_hold){
        .token = __atomic_load_n(&r->token, __ATOMIC_ACQUIRE),
        .id.word[0] = __atomic_load_n(&r->id.word[0], __ATOMIC_ACQUIRE),
        .id.word[1] = __atomic_load_n(&r->id.word[1], __ATOMIC_ACQUIRE),
        .since = __atomic_load_n(&r->since, __ATOMIC_ACQUIRE),
        .span = __atomic_load_n(&r->span, __ATOMIC_ACQUIRE),
        .kind = __atomic_load_n(&r->kind, __ATOMIC_ACQUIRE),
        .session = word_session(word),
    };
    return ((word_load(&record->lock_word) ^ word) & ~WORD_QUEUE) == 0;
}

uint64_t hf__file_record_seize(struct region_block *record)
{
    uint64_t word = word_load(&record->lock_word);

    while (!(word & (WORD_HELD | WORD_SLOW)))
        if (word_swap(&record->lock_word, &word, word | WORD_SLOW)) {
            guard_step();
            return word | WORD_SLOW;
        }
    return word;
}

uint64_t hf__file_record_freeze(struct region_block *record)
{
    for (;;) {
        uint64_t word = hf__file_record_seize(record);
        if (!(word & WORD_HELD) ||
            word_swap(&record->lock_word, &word, word | WORD_IMPATIENT))
            return word;
    }
}

void hf__file_record_drop(struct region_block *record)
{
    uint64_t word = word_load(&record->lock_word);

    while ((word & WORD_HELD) &&
           !word_swap(&record->lock_word, &word, word_dropped(word) | WORD_SLOW))
        ;
    guard_step();
}

/* ---- The list -------------------------------------------------------------------- */

/* Before `after`, or (0) at the end. */
static void list_insert(struct file_queue *me, struct block_record *r, uint32_t after,
                        struct region_block *entry)
{
    uint32_t index = block_index(me, entry);
    uint32_t prev = after ? block_at(me, after)->entry.prev : r->last;

    entry->entry.prev = prev;
    entry->next = after;
    if (prev)
        block_at(me, prev)->next = index;
    else
        r->first = index;
    if (after)
        block_at(me, after)->entry.prev = index;
    else
        r->last = index;
    guard_step();
}

static void list_remove(struct file_queue *me, struct block_record *r,
                        struct region_block *entry)
{
    uint32_t prev = entry->entry.prev;

    if (prev)
        block_at(me, prev)->next = entry->next;
    else
        r->first = entry->next;
    guard_step();
    if (entry->next)
        block_at(me, entry->next)->entry.prev = prev;
    else
        r->last = prev;
    guard_step();
}

static void tally_drop(struct hf_tally *tally, const struct block_entry *e)
{
    if (e->kind == HF_PERMITS || e->kind == HF_EXPIRING)
        tally->permits -= e->permits;
    else if (e->kind == HF_READ)
        tally->readers--;
    else
        tally->exclusive--;
}

static void state_set(struct region_block *entry, enum entry_state state)
{
    __atomic_store_n(&entry->entry.state, state, __ATOMIC_RELEASE);
    guard_step();
}

/* A hold that moves to another client keeps its token, which may be older than others
 * here. */
static void newest_raise(struct block_record *r, const struct block_entry *e)
{
    uint64_t last = e->token + e->span - 1;

    if (last > r->newest)
        __atomic_store_n(&r->newest, last, __ATOMIC_RELAXED);
}

static void granted_count(struct block_record *r, const struct block_entry *e)
{
    r->granted++;
    hf__tally_add(&r->tally, e->kind, e->permits);
    if (e->expires < r->soonest)
        r->soonest = e->expires;
}

/* ---- Entries --------------------------------------------------------------------- */

struct region_block *hf__file_entry_find(const struct file_queue *me, uint32_t block,
                                         uint64_t seq)
{
    struct region_block *entry = block_at(me, block);
    bool ours = entry->type == BLOCK_ENTRY && entry->entry.state != ENTRY_NONE &&
                entry->entry.seq == seq;
    return ours ? entry : NULL;
}

struct hf_grant hf__file_entry_grant(const struct region_block *entry)
{
    const struct block_entry *e = &entry->entry;

    return (struct hf_grant){
        .token = e->token,
        .span = e->span,
        .ttl_ns = e->ttl,
        .since_ns = e->ttl ? e->expires - e->ttl : 0,
    };
}

static void entry_fill(struct file_queue *me, struct block_entry *e,
                       struct region_block *record, const struct entry_init *init)
{
    const struct hf_ticket *ticket = init->ticket;

    *e = (struct block_entry){
        .record = block_index(me, record),
        .record_gen = word_gen(record->lock_word),
        .seq = me->region.head->next_seq++,
        .id = ticket->id,
        .token = init->token,
        .expires = init->expires,
        .ttl = ticket->ttl_ns,
        .since = init->since,
        .span = init->span,
        .permits = init->permits,
        .kind = init->kind,
        .flags = ticket->flags & HF_TICKET_DETACHED ? ENTRY_DETACHED : 0,
        .session = me->session,
        .session_gen = me->session_gen,
        .pid = me->pid,
    };
    memcpy(e->note, init->note, strnlen(init->note, HF_NOTE_MAX));
}

void hf__file_entry_put(struct file_queue *me, struct region_block *block,
                        struct region_block *record, const struct entry_init *init)
{
    struct block_record *r = &record->record;
    struct block_entry *e = &block->entry;

    entry_fill(me, e, record, init);
    if (init->state == ENTRY_GRANTED) {
        e->flags |= ENTRY_TOLD;
        if (e->token == 0)
            e->token = hf__file_region_draw(&me->region, e->span);
        newest_raise(r, e);
    }
    __atomic_store_n(&block->type, BLOCK_ENTRY, __ATOMIC_RELEASE);
    guard_step();
    state_set(block, init->state);
    me->held++;
    if (init->state == ENTRY_GRANTED) {
        list_insert(me, r, r->first_waiting, block);
        granted_count(r, e);
        return;
    }
    list_insert(me, r, 0, block);
    if (!r->first_waiting)
        r->first_waiting = block_index(me, block);
    r->waiting++;
    r->strict += !kind_passes(e->kind);
}

static void waiting_uncount(struct block_record *r, struct region_block *entry,
                            uint32_t index)
{
    if (r->first_waiting == index)
        r->first_waiting = entry->next;
    r->waiting--;
    r->strict -= !kind_passes(entry->entry.kind);
}

void hf__file_entry_remove(struct file_queue *me, struct region_block *entry)
{
    struct block_entry *e = &entry->entry;
    struct block_record *r = &block_at(me, e->record)->record;
    bool granted = e->state == ENTRY_GRANTED;

    state_set(entry, ENTRY_NONE);
    list_remove(me, r, entry);
    if (granted) {
        r->granted--;
        tally_drop(&r->tally, e);
        if (r->granted == 0)
            r->soonest = HF_NEVER;
    } else {
        waiting_uncount(r, entry, block_index(me, entry));
    }
    if (e->session == me->session && e->session_gen == me->session_gen)
        me->held--;
    hf__file_table_free(me, entry);
}

static void entry_wake(struct file_queue *me, uint32_t index)
{
    if (index)
        hf__file_peer_wake(me, block_at(me, index)->entry.session, index);
}

void hf__file_entry_end(struct file_queue *me, struct region_block *entry)
{
    struct region_block *record = block_at(me, entry->entry.record);
    uint32_t behind = entry->entry.state == ENTRY_WAITING ? entry->next : 0;

    hf__file_record_seize(record);
    hf__file_entry_remove(me, entry);
    entry_wake(me, behind);
    hf__file_record_update(me, record);
}

static bool entry_has_owner(const struct file_queue *me, const struct block_entry *e)
{
    return me->region.sessions[e->session].gen == e->session_gen;
}

void hf__file_entry_lose(struct file_queue *me, struct region_block *entry)
{
    uint32_t session = entry->entry.session;
    bool owned = entry_has_owner(me, &entry->entry);

    hf__file_entry_end(me, entry);
    if (owned)
        hf__file_peer_wake(me, session, 0);
}

/* ---- Admission ------------------------------------------------------------------- */

static void entry_grant(struct file_queue *me, struct block_record *r,
                        struct region_block *entry)
{
    struct block_entry *e = &entry->entry;

    e->token = hf__file_region_draw(&me->region, e->span);
    newest_raise(r, e);
    e->since = hf__now_coarse();
    e->expires = e->ttl ? queue_now(me) + e->ttl : HF_NEVER;
    guard_step();
    state_set(entry, ENTRY_GRANTED);
    waiting_uncount(r, entry, block_index(me, entry));
    granted_count(r, e);
    guard_step();
    entry_wake(me, block_index(me, entry));
}

/* With several holders the new first waiter has to watch all of them, not only the
 * entry that stood before it, hence the last wake-up. */
void hf__file_record_admit(struct file_queue *me, struct region_block *record)
{
    struct block_record *r = &record->record;
    uint32_t first = r->first_waiting;

    while (r->first_waiting) {
        struct region_block *entry = block_at(me, r->first_waiting);
        if (hf__admit(&r->tally, entry->entry.kind, entry->entry.permits, r->limit) !=
            HF_IN)
            break;
        entry_grant(me, r, entry);
    }
    if (r->first_waiting != first && r->granted > 1)
        entry_wake(me, r->first_waiting);
}

void hf__file_record_open(struct file_queue *me, struct region_block *record)
{
    while (record->record.first_waiting)
        entry_grant(me, &record->record, block_at(me, record->record.first_waiting));
}

static uint64_t queue_flags(struct block_record *r, uint64_t word)
{
    if (!r->waiting)
        return 0;
    if (r->strict)
        return WORD_WAIT | WORD_IMPATIENT;
    if (r->invited != r->first_waiting)
        return WORD_WAIT;
    return word & WORD_QUEUE;
}

static void update_slow(struct file_queue *me, struct region_block *record,
                        uint64_t word)
{
    struct block_record *r = &record->record;
    uint64_t flags = queue_flags(r, word);

    if (r->waiting && (r->granted || (flags & WORD_IMPATIENT))) {
        hf__file_record_admit(me, record);
        flags = queue_flags(r, word);
    }
    if (r->granted || r->strict) {
        word_store(&record->lock_word, word_base(word) | flags | WORD_SLOW);
    } else if (!r->waiting) {
        r->invited = 0;
        word_store(&record->lock_word, word_base(word));
    } else {
        if (!(flags & WORD_INVITED))
            entry_wake(me, r->first_waiting);
        r->invited = r->first_waiting;
        guard_step();
        word_store(&record->lock_word, word_base(word) | WORD_WAIT | WORD_INVITED);
    }
    guard_step();
}

void hf__file_record_update(struct file_queue *me, struct region_block *record)
{
    for (;;) {
        uint64_t word = hf__file_record_seize(record);
        if (!(word & WORD_HELD)) {
            update_slow(me, record, word);
            return;
        }
        uint64_t next = (word & ~WORD_QUEUE) | queue_flags(&record->record, word);
        if (next == word || word_swap(&record->lock_word, &word, next)) {
            guard_step();
            return;
        }
    }
}

/* ---- Leases ---------------------------------------------------------------------- */

static struct region_block *lease_over(struct file_queue *me, struct block_record *r,
                                       int64_t now)
{
    uint32_t index = r->first;

    r->soonest = HF_NEVER;
    for (uint32_t i = 0; i < r->granted; i++) {
        struct region_block *entry = block_at(me, index);
        if (entry->entry.expires <= now)
            return entry;
        if (entry->entry.expires < r->soonest)
            r->soonest = entry->entry.expires;
        index = entry->next;
    }
    return NULL;
}

void hf__file_record_expire(struct file_queue *me, struct region_block *record)
{
    struct block_record *r = &record->record;
    struct region_block *entry;

    if (r->soonest == HF_NEVER)
        return;
    int64_t now = queue_now(me);
    if (r->soonest > now)
        return;
    while ((entry = lease_over(me, r, now)))
        hf__file_entry_lose(me, entry);
}
