/* SPDX-License-Identifier: MIT */
/*
 * Blocks and records: from a name to its queue. Guard held.
 *
 * A record that is not in use stays, so that the next client finds it ready; such idle
 * records are freed when blocks run out, before the file grows. A client that remembers
 * one finds another generation in its lock word and comes here again. The same happens
 * when an idle name is reused for another kind (first a mutex, then a semaphore).
 *
 * A block from hf__file_table_alloc() has no type yet. Until it gets one it is not part
 * of anything, and after a crash it is free again; that is why the type is always
 * written last. `why` is never NULL here.
 */
#include "queue.h"

#include <string.h>

#include "../../base/clock.h"
#include "../../base/error.h"

static uint32_t *bucket_of(struct file_queue *me, uint32_t hash)
{
    return &me->region.buckets[hash % BUCKET_COUNT];
}

static void type_set(struct region_block *block, enum block_type type)
{
    __atomic_store_n(&block->type, type, __ATOMIC_RELEASE);
    guard_step();
}

/* ---- Free blocks ----------------------------------------------------------------- */

void hf__file_table_free(struct file_queue *me, struct region_block *block)
{
    struct region_head *head = me->region.head;

    type_set(block, BLOCK_FREE);
    block->next = head->free_first;
    guard_step();
    head->free_first = block_index(me, block);
    head->free_count++;
    guard_step();
}

static void chain_free(struct file_queue *me, uint32_t index)
{
    while (index) {
        struct region_block *block = block_at(me, index);
        index = block->next;
        hf__file_table_free(me, block);
    }
}

static bool record_idle(const struct region_block *block)
{
    return block->record.first == 0 && block->record.left == 0;
}

/* A cell is found again by its file. */
static bool record_spare(const struct region_block *block)
{
    return record_idle(block) || block->record.family == hf__family(HF_CELL);
}

static void record_unchain(struct file_queue *me, struct region_block *record)
{
    uint32_t *link = bucket_of(me, record->record.hash);
    uint32_t index = block_index(me, record);

    while (*link && *link != index)
        link = &block_at(me, *link)->next;
    if (*link)
        *link = record->next;
    guard_step();
}

static void record_forget(struct file_queue *me, struct region_block *record)
{
    uint64_t word = word_load(&record->lock_word);
    uint64_t barred = (uint64_t)(word_gen(word) + 1) << WORD_GEN_SHIFT | WORD_SLOW;

    if (word != word_base(word) || !word_swap(&record->lock_word, &word, barred))
        return;
    guard_step();
    record_unchain(me, record);
    type_set(record, BLOCK_FREE);
    chain_free(me, record->record.more);
    chain_free(me, record->record.ids);
    hf__file_table_free(me, record);
}

static void records_reclaim(struct file_queue *me)
{
    for (uint32_t i = 1; i < me->region.head->high_water; i++) {
        struct region_block *block = block_at(me, i);
        if (block->type == BLOCK_RECORD && record_spare(block))
            record_forget(me, block);
    }
}

/* Frees idle records first; then, if that freed few blocks, grows the file. */
static int room_make(struct file_queue *me, hf_error *why)
{
    struct region_head *head = me->region.head;
    int rc = 0;

    records_reclaim(me);
    if (head->free_count < head->block_count / 4)
        rc = hf__file_region_grow(&me->region, why);
    return head->free_count ? 0 : rc;
}

struct region_block *hf__file_table_alloc(struct file_queue *me, hf_error *why)
{
    struct region_head *head = me->region.head;
    struct region_block *block;

    if (!head->free_first && head->high_water == head->block_count &&
        room_make(me, why) != 0)
        return NULL;
    if (head->free_first) {
        block = block_at(me, head->free_first);
        head->free_first = block->next;
        head->free_count--;
    } else {
        block = block_at(me, head->high_water);
        word_store(&block->lock_word, WORD_SLOW);
        head->high_water++;
    }
    guard_step();
    return block;
}

/* ---- Names ----------------------------------------------------------------------- */

static size_t part_of(size_t left, size_t room)
{
    return left < room ? left : room;
}

static bool name_is(const struct file_queue *me, const struct region_block *record,
                    const char *name, uint32_t len)
{
    const struct block_record *r = &record->record;
    size_t part = part_of(len, NAME_INLINE);

    if (r->name_len != len || memcmp(r->name, name, part) != 0)
        return false;
    for (uint32_t more = r->more; more; more = block_at(me, more)->next) {
        name += part;
        len -= (uint32_t)part;
        part = part_of(len, NAME_MORE);
        if (memcmp(block_at(me, more)->name, name, part) != 0)
            return false;
    }
    return true;
}

void hf__file_table_name(const struct file_queue *me, const struct region_block *record,
                         char *out)
{
    const struct block_record *r = &record->record;
    size_t left = part_of(r->name_len, HF_NAME_MAX);
    size_t part = part_of(left, NAME_INLINE);

    memcpy(out, r->name, part);
    for (uint32_t more = r->more; more; more = block_at(me, more)->next) {
        out += part;
        left -= part;
        part = part_of(left, NAME_MORE);
        memcpy(out, block_at(me, more)->name, part);
    }
    out[part] = '\0';
}

/* The part of a name that does not fit into its record, last block first. */
static int name_put(struct file_queue *me, const char *name, uint32_t len,
                    uint32_t *ret_more, hf_error *why)
{
    uint32_t more = 0;

    while (len > NAME_INLINE) {
        size_t part = (len - NAME_INLINE) % NAME_MORE;
        struct region_block *block = hf__file_table_alloc(me, why);
        if (!block) {
            chain_free(me, more);
            return why->code;
        }
        if (part == 0)
            part = NAME_MORE;
        len -= (uint32_t)part;
        memcpy(block->name, name + len, part);
        block->next = more;
        more = block_index(me, block);
        type_set(block, BLOCK_NAME);
    }
    *ret_more = more;
    return 0;
}

/* ---- Records --------------------------------------------------------------------- */

struct region_block *hf__file_table_find(struct file_queue *me, const char *name,
                                         uint32_t len, uint32_t hash)
{
    uint32_t index = *bucket_of(me, hash);

    while (index) {
        struct region_block *record = block_at(me, index);
        if (record->record.hash == hash && name_is(me, record, name, len))
            return record;
        index = record->next;
    }
    return NULL;
}

void hf__file_table_chain(struct file_queue *me, struct region_block *record)
{
    uint32_t *bucket = bucket_of(me, record->record.hash);

    record->next = *bucket;
    guard_step();
    *bucket = block_index(me, record);
    guard_step();
}

static int record_make(struct file_queue *me, const char *name, uint32_t len,
                       uint32_t hash, struct region_block **ret_record, hf_error *why)
{
    struct region_block *record = hf__file_table_alloc(me, why);
    uint32_t more = 0;

    if (!record)
        return why->code;
    if (name_put(me, name, len, &more, why) != 0) {
        hf__file_table_free(me, record);
        return why->code;
    }
    record->record = (struct block_record){
        .hash = hash,
        .more = more,
        .name_len = (uint16_t)len,
        .soonest = HF_NEVER,
        .serial = UINT32_MAX,
        .newest = hf__file_region_newest(&me->region),
    };
    memcpy(record->record.name, name, part_of(len, NAME_INLINE));
    if (me->region.head->cells && hf__file_cell_exists(me, name, len)) {
        record->record.family = (uint8_t)hf__family(HF_CELL);
        record->record.left = 1;
    }
    type_set(record, BLOCK_RECORD);
    hf__file_table_chain(me, record);
    word_store(&record->lock_word, (uint64_t)(word_gen(record->lock_word) + 1)
                                       << WORD_GEN_SHIFT);
    *ret_record = record;
    return 0;
}

static const char *const family_names[] = {
    "nothing", "a mutex", "a read/write lock", "a semaphore", "expiring permits",
    "a latch", "a cell",
};

static int record_mismatch(const struct block_record *r, int family, uint32_t limit,
                           hf_error *why)
{
    if (r->family != family)
        return hf__fail(why, HF_EMISMATCH, "the name is in use as %s, not as %s",
                        family_names[r->family], family_names[family]);
    return hf__fail(why, HF_EMISMATCH, "the name is in use as %s with limit %u, not %u",
                    family_names[family], r->limit, limit);
}

static bool family_limited(int family)
{
    return family == 3 || family == 4;
}

/* The file of a cell may be missing without a trace in the table: its process died
 * half-way. */
static void cell_look(struct file_queue *me, struct region_block *record)
{
    char name[HF_NAME_MAX + 1];

    if (record->record.family != hf__family(HF_CELL))
        return;
    hf__file_table_name(me, record, name);
    record->record.left = hf__file_cell_exists(me, name, record->record.name_len);
}

/* Reuses an idle record for another family, under a new generation. */
static bool record_reuse(struct file_queue *me, struct region_block *record, int family)
{
    uint64_t word = word_load(&record->lock_word);
    uint64_t fresh = (uint64_t)(word_gen(word) + 1) << WORD_GEN_SHIFT;
    uint32_t ids = record->record.ids;

    if (!record_idle(record) || word != word_base(word) ||
        !word_swap(&record->lock_word, &word, fresh))
        return false;
    guard_step();
    record->record.ids = 0;
    guard_step();
    chain_free(me, ids);
    record->record.serial = UINT32_MAX;
    record->record.family = (uint8_t)family;
    guard_step();
    return true;
}

int hf__file_table_get(struct file_queue *me, const char *name, uint32_t len,
                       uint32_t hash, int32_t kind, uint32_t limit,
                       struct region_block **ret_record, hf_error *why)
{
    struct region_block *record = hf__file_table_find(me, name, len, hash);
    int family = hf__family(kind);

    if (record)
        hf__file_record_expire(me, record);
    else if (record_make(me, name, len, hash, &record, why) != 0)
        return why->code;
    if (record->record.family != family) {
        cell_look(me, record);
        if (!record_reuse(me, record, family))
            return record_mismatch(&record->record, family, limit, why);
    }
    if (family_limited(family) && record->record.limit != limit) {
        if (!record_idle(record))
            return record_mismatch(&record->record, family, limit, why);
        record->record.limit = limit;
    }
    *ret_record = record;
    return 0;
}
