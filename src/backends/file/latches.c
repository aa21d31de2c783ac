/* SPDX-License-Identifier: MIT */
/*
 * Latches: set, get, count down. Guard held; called from queue_ask().
 *
 * A latch is a record with a count. Waiting for it is a ticket like any other
 * (tickets.c). When the count reaches 0 every waiting entry is granted at once, so
 * setting the latch again does not hold those waiters back; each entry ends when its
 * session has reported the grant. A block of its own stores the ids of the last
 * requests, so that a repeated request is not counted twice.
 */
#include "../../base/error.h"
#include "queue.h"

static bool ids_find(const struct file_queue *me, const struct block_record *r,
                     const struct hf_request *request, uint64_t *ret_result)
{
    const struct block_ids *ids = &block_at(me, r->ids)->ids;

    for (uint32_t i = 0; r->ids && i < IDS_COUNT; i++)
        if (id_same(&ids->id[i], &request->id)) {
            *ret_result = ids->result[i];
            return true;
        }
    return false;
}

static void ids_put(struct file_queue *me, const struct block_record *r,
                    const struct hf_request *request)
{
    struct block_ids *ids = &block_at(me, r->ids)->ids;
    uint32_t i = ids->next % IDS_COUNT;

    ids->id[i] = request->id;
    ids->result[i] = (uint32_t)request->result;
    ids->next = i + 1;
}

static int ids_make(struct file_queue *me, struct block_record *r, hf_error *why)
{
    struct region_block *block;

    if (r->ids)
        return 0;
    block = hf__file_table_alloc(me, why);
    if (!block)
        return why->code;
    block->next = 0;
    block->ids = (struct block_ids){ .next = 0 };
    __atomic_store_n(&block->type, BLOCK_IDS, __ATOMIC_RELEASE);
    guard_step();
    r->ids = block_index(me, block);
    guard_step();
    return 0;
}

static int latch_begin(struct file_queue *me, struct block_record *r,
                       struct hf_request *request, hf_error *why)
{
    uint64_t result;

    if (ids_find(me, r, request, &result))
        return 0;
    if (r->left > 0)
        return hf__fail(why, HF_EBUSY, "the latch is counting: %u left", r->left);
    if (ids_make(me, r, why) != 0)
        return why->code;
    r->left = (uint32_t)request->number;
    guard_step();
    ids_put(me, r, request);
    return 0;
}

int hf__file_queue_latch_set(struct file_queue *me, struct hf_request *request,
                             hf_error *why)
{
    struct region_block *record;
    int rc = hf__file_table_get(me, request->name, request->name_len,
                                request->name_hash, HF_LATCH, 1, &record, why);

    if (rc != 0)
        return rc;
    hf__file_record_seize(record); /* so that it does not count as idle */
    rc = latch_begin(me, &record->record, request, why);
    hf__file_record_update(me, record);
    return rc;
}

/* The latch, or NULL for one that is open. HF_EMISMATCH if the name is used for another
 * kind. */
static int latch_find(struct file_queue *me, const struct hf_request *request,
                      struct region_block **ret_record, hf_error *why)
{
    *ret_record =
        hf__file_table_find(me, request->name, request->name_len, request->name_hash);
    if (!*ret_record)
        return 0;
    return hf__file_table_get(me, request->name, request->name_len, request->name_hash,
                              HF_LATCH, 1, ret_record, why);
}

int hf__file_queue_latch_get(struct file_queue *me, struct hf_request *request,
                             hf_error *why)
{
    struct region_block *record;
    int rc = latch_find(me, request, &record, why);

    if (rc == 0)
        request->result = record ? record->record.left : 0;
    return rc;
}

int hf__file_queue_latch_down(struct file_queue *me, struct hf_request *request,
                              hf_error *why)
{
    struct region_block *record;
    struct block_record *r;
    int rc = latch_find(me, request, &record, why);

    request->result = 0;
    if (rc != 0 || !record)
        return rc;
    r = &record->record;
    if (ids_find(me, r, request, &request->result) || r->left == 0)
        return 0;
    if (request->number < r->left)
        request->result = r->left - request->number;
    hf__file_record_seize(record);
    r->left = (uint32_t)request->result;
    guard_step();
    ids_put(me, r, request);
    if (r->left == 0)
        hf__file_record_open(me, record);
    hf__file_record_update(me, record);
    return 0;
}
