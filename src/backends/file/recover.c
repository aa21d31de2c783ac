/* SPDX-License-Identifier: MIT */
/*
 * Rebuilds the table after a process died with the guard held.
 *
 * Called with the guard held by the next process that locks it. It relies on the blocks
 * only: a block is a record if its type says so, an entry if it has a state and its
 * record exists. Buckets, lists, counts and the free list are written from scratch;
 * incomplete blocks become free. Then every record is updated, which admits the waiters
 * that fit, and every session is woken, because it is not known which wake-up was not
 * written.
 *
 * Fast holds go on meanwhile: a word that is HELD stays so. A crash may leave two
 * things twice, because the new one is written before the old one is removed: a hold
 * that was moved to another entry (same token: the later entry stays), and a fast hold
 * that became an entry (the entry stays).
 */
#include "../../base/clock.h"
#include "queue.h"

#define MARK UINT64_C(0x80) /* not a record: in use */

static bool block_used(const struct file_queue *me, uint32_t index)
{
    return index > 0 && index < me->region.head->high_water;
}

/* ---- First pass: which blocks are valid ------------------------------------------ */

static void marks_clear(struct file_queue *me)
{
    for (uint32_t i = 1; i < me->region.head->high_water; i++) {
        struct region_block *block = block_at(me, i);
        if (block->type != BLOCK_RECORD)
            word_store(&block->lock_word, (block->lock_word | WORD_SLOW) & ~MARK);
    }
}

/* Marks the rest of a record's name; false if it is incomplete. */
static bool name_mark(struct file_queue *me, const struct block_record *r)
{
    uint32_t index = r->more;

    for (int left = r->name_len - NAME_INLINE; left > 0; left -= NAME_MORE) {
        struct region_block *block = block_at(me, index);
        if (!block_used(me, index) || block->type != BLOCK_NAME ||
            (block->lock_word & MARK))
            return false;
        word_store(&block->lock_word, block->lock_word | MARK);
        index = block->next;
    }
    return index == 0;
}

static void ids_mark(struct file_queue *me, struct block_record *r)
{
    struct region_block *block = block_at(me, r->ids);

    if (block_used(me, r->ids) && block->type == BLOCK_IDS)
        word_store(&block->lock_word, block->lock_word | MARK);
    else
        r->ids = 0;
}

static void record_reset(struct block_record *r)
{
    r->tally = (struct hf_tally){ 0 };
    r->soonest = HF_NEVER;
    r->first = r->last = r->first_waiting = 0;
    r->granted = r->waiting = r->strict = r->invited = 0;
}

static void records_reset(struct file_queue *me)
{
    for (uint32_t i = 0; i < BUCKET_COUNT; i++)
        me->region.buckets[i] = 0;
    for (uint32_t i = 1; i < me->region.head->high_water; i++) {
        struct region_block *block = block_at(me, i);
        if (block->type != BLOCK_RECORD)
            continue;
        if (!name_mark(me, &block->record)) {
            word_store(&block->lock_word, block->lock_word | WORD_SLOW);
            block->type = BLOCK_FREE;
            continue;
        }
        ids_mark(me, &block->record);
        record_reset(&block->record);
        __atomic_store_n(&block->record.newest, hf__file_region_newest(&me->region),
                         __ATOMIC_RELAXED);
        hf__file_table_chain(me, block);
    }
}

/* ---- Second pass: entries into their queues -------------------------------------- */

static bool entry_valid(const struct file_queue *me, const struct block_entry *e)
{
    const struct region_block *record = block_at(me, e->record);

    return (e->state == ENTRY_WAITING || e->state == ENTRY_GRANTED) &&
           block_used(me, e->record) && record->type == BLOCK_RECORD &&
           word_gen(record->lock_word) == e->record_gen && e->session < SESSION_COUNT;
}

static bool entry_before(const struct block_entry *a, const struct block_entry *b)
{
    if (a->state != b->state)
        return a->state == ENTRY_GRANTED;
    return a->seq < b->seq;
}

/* From the back: blocks mostly come in the order of arrival. */
static void entry_insert(struct file_queue *me, struct block_record *r,
                         struct region_block *entry)
{
    uint32_t index = block_index(me, entry), prev = r->last;

    while (prev && entry_before(&entry->entry, &block_at(me, prev)->entry))
        prev = block_at(me, prev)->entry.prev;
    entry->entry.prev = prev;
    entry->next = prev ? block_at(me, prev)->next : r->first;
    if (prev)
        block_at(me, prev)->next = index;
    else
        r->first = index;
    if (entry->next)
        block_at(me, entry->next)->entry.prev = index;
    else
        r->last = index;
}

static struct region_block *entry_twin(struct file_queue *me,
                                       const struct region_block *entry)
{
    uint32_t index = block_at(me, entry->entry.record)->record.first;

    for (; index; index = block_at(me, index)->next) {
        struct region_block *other = block_at(me, index);
        if (other->entry.state != ENTRY_GRANTED)
            break;
        if (other->entry.token == entry->entry.token)
            return other;
    }
    return NULL;
}

static void list_drop(struct file_queue *me, struct region_block *entry)
{
    struct block_record *r = &block_at(me, entry->entry.record)->record;
    uint32_t prev = entry->entry.prev, next = entry->next;

    *(prev ? &block_at(me, prev)->next : &r->first) = next;
    *(next ? &block_at(me, next)->entry.prev : &r->last) = prev;
    entry->entry.state = ENTRY_NONE;
    entry->type = BLOCK_FREE;
}

static void entries_insert(struct file_queue *me)
{
    for (uint32_t i = 1; i < me->region.head->high_water; i++) {
        struct region_block *entry = block_at(me, i), *twin = NULL;
        if (entry->type != BLOCK_ENTRY)
            continue;
        if (!entry_valid(me, &entry->entry)) {
            entry->entry.state = ENTRY_NONE;
            entry->type = BLOCK_FREE;
            continue;
        }
        if (entry->entry.state == ENTRY_GRANTED)
            twin = entry_twin(me, entry);
        entry_insert(me, &block_at(me, entry->entry.record)->record, entry);
        if (twin)
            list_drop(me, twin->entry.seq < entry->entry.seq ? twin : entry);
        if (entry->entry.seq >= me->region.head->next_seq)
            me->region.head->next_seq = entry->entry.seq + 1;
    }
}

/* ---- Third pass: what follows from them ------------------------------------------ */

static void record_count(struct file_queue *me, struct block_record *r)
{
    for (uint32_t index = r->first; index; index = block_at(me, index)->next) {
        const struct block_entry *e = &block_at(me, index)->entry;
        if (e->state == ENTRY_GRANTED) {
            r->granted++;
            hf__tally_add(&r->tally, e->kind, e->permits);
            if (e->expires < r->soonest)
                r->soonest = e->expires;
            continue;
        }
        if (!r->first_waiting)
            r->first_waiting = index;
        r->waiting++;
        r->strict += !kind_passes(e->kind);
    }
}

static void free_list_make(struct file_queue *me)
{
    struct region_head *head = me->region.head;

    head->free_first = head->free_count = 0;
    for (uint32_t i = head->high_water - 1; i > 0; i--) {
        struct region_block *block = block_at(me, i);
        bool part = block->type == BLOCK_NAME || block->type == BLOCK_IDS;
        if (part && !(block->lock_word & MARK))
            block->type = BLOCK_FREE;
        if (block->type != BLOCK_FREE)
            continue;
        block->next = head->free_first;
        head->free_first = i;
        head->free_count++;
    }
}

static void records_update(struct file_queue *me)
{
    for (uint32_t i = 1; i < me->region.head->high_water; i++) {
        struct region_block *block = block_at(me, i);
        if (block->type != BLOCK_RECORD)
            continue;
        if (block->record.granted)
            hf__file_record_drop(block);
        hf__file_record_update(me, block);
    }
}

void hf__file_guard_recover(struct file_queue *me)
{
    me->region.head->recoveries++;
    marks_clear(me);
    records_reset(me);
    entries_insert(me);
    for (uint32_t i = 1; i < me->region.head->high_water; i++)
        if (block_at(me, i)->type == BLOCK_RECORD)
            record_count(me, &block_at(me, i)->record);
    free_list_make(me);
    records_update(me);
    for (uint32_t i = 0; i < SESSION_COUNT; i++)
        if (me->region.sessions[i].state == SESSION_USED)
            hf__file_peer_wake(me, i, 0);
}
