/* SPDX-License-Identifier: MIT */
/*
 * What can be done to a hold other than releasing it: evict, revoke, downgrade, adopt.
 * Guard held; called from queue_ask().
 *
 * A hold is an entry, or a fast hold in the lock word of its record. A fast hold is
 * frozen before it is judged: its holder can then not release it without the guard, so
 * what was read stays true until the guard is unlocked. A fast hold that was taken but
 * not described yet has no token that another client could know; it counts as not
 * there.
 *
 * A hold that moves to another client gets a new entry, which is complete before the
 * old one ends.
 */
#include "../../base/clock.h"
#include "../../base/error.h"
#include "queue.h"

static struct region_block *record_of(struct file_queue *me,
                                      const struct hf_request *request)
{
    struct region_block *record =
        hf__file_table_find(me, request->name, request->name_len, request->name_hash);

    if (record)
        hf__file_record_expire(me, record);
    return record;
}

static bool token_in(uint64_t token, uint64_t first, uint32_t span)
{
    return token >= first && token - first < span;
}

/* The granted entry after `entry` (NULL: the first), or NULL. */
static struct region_block *granted_next(const struct file_queue *me,
                                         const struct region_block *record,
                                         const struct region_block *entry)
{
    uint32_t index = entry ? entry->next : record->record.first;
    struct region_block *next = block_at(me, index);

    return index && next->entry.state == ENTRY_GRANTED ? next : NULL;
}

/* ---- Evict and revoke ------------------------------------------------------------ */

static bool fast_evict(struct file_queue *me, struct region_block *record,
                       uint64_t token)
{
    struct fast_hold hold;
    bool ours = (hf__file_record_freeze(record) & WORD_HELD) &&
                hf__file_fast_read(record, &hold) && token == hold.token;

    if (ours) {
        hf__file_eviction_note(me, &hold.id);
        hf__file_record_drop(record);
    }
    hf__file_record_update(me, record);
    if (ours)
        hf__file_peer_wake(me, hold.session, 0);
    return ours;
}

int hf__file_queue_evict(struct file_queue *me, struct hf_request *request,
                         hf_error *why)
{
    struct region_block *record = record_of(me, request), *entry = NULL;

    while (record && (entry = granted_next(me, record, entry)))
        if (request->number == entry->entry.token) {
            hf__file_eviction_note(me, &entry->entry.id);
            hf__file_entry_lose(me, entry);
            return 0;
        }
    if (record && fast_evict(me, record, request->number))
        return 0;
    return hf__fail(why, HF_ENOENT, "no holder has that token");
}

static bool fast_revoke(struct file_queue *me, struct region_block *record,
                        uint64_t token)
{
    struct fast_hold hold;

    if (!hf__file_fast_read(record, &hold) || (token && token != hold.token))
        return false;
    record->record.revoked = hold.token;
    hf__file_peer_wake(me, hold.session, 0);
    return true;
}

static bool entry_revoke(struct file_queue *me, struct region_block *entry,
                         uint64_t token)
{
    struct block_entry *e = &entry->entry;

    if (token && token != e->token)
        return false;
    e->flags |= ENTRY_REVOKED;
    if (me->region.sessions[e->session].gen == e->session_gen)
        hf__file_peer_wake(me, e->session, 0);
    return true;
}

int hf__file_queue_revoke(struct file_queue *me, struct hf_request *request,
                          hf_error *why)
{
    struct region_block *record = record_of(me, request), *entry = NULL;
    bool any = record && fast_revoke(me, record, request->number);

    while (record && (entry = granted_next(me, record, entry)))
        any |= entry_revoke(me, entry, request->number);
    if (any)
        return 0;
    return hf__fail(why, HF_ENOENT,
                    request->number ? "no holder has that token"
                                    : "the lock has no holder");
}

/* ---- Holds that change ----------------------------------------------------------- */

/* A new entry for a hold, with its token. */
static int hold_move(struct file_queue *me, struct region_block *record,
                     struct entry_init init, struct hf_ticket *ticket, hf_error *why)
{
    struct region_block *block = hf__file_table_alloc(me, why);

    if (!block)
        return why->code;
    init.ticket = ticket;
    init.state = ENTRY_GRANTED;
    init.expires = ticket->ttl_ns ? queue_now(me) + ticket->ttl_ns : HF_NEVER;
    hf__file_entry_put(me, block, record, &init);
    ticket_set(ticket, TICKET_ENTRY, block_index(me, block), 0, block->entry.seq);
    return 0;
}

/* The fast hold of `record`, which is frozen, becomes an entry. */
static int fast_move(struct file_queue *me, struct region_block *record,
                     const struct fast_hold *hold, int32_t kind,
                     struct hf_ticket *ticket, hf_error *why)
{
    struct entry_init init = {
        .kind = kind,
        .permits = 1,
        .token = hold->token,
        .span = hold->span,
        .since = hold->since,
        .note = "",
    };
    int rc = hold_move(me, record, init, ticket, why);

    if (rc == 0)
        hf__file_record_drop(record);
    return rc;
}

static int fast_downgrade(struct file_queue *me, struct hf_ticket *ticket,
                          hf_error *why)
{
    struct region_block *record = block_at(me, ticket_block(ticket));
    struct fast_hold hold;
    int rc;

    if (!hf__file_fast_held(me, ticket))
        return hf__fail_code(why, HF_ELOST);
    hf__file_record_freeze(record);
    rc = hf__file_fast_read(record, &hold)
             ? fast_move(me, record, &hold, HF_READ, ticket, why)
             : hf__fail_code(why, HF_ELOST);
    if (rc == 0)
        me->held--;
    hf__file_record_update(me, record);
    return rc;
}

static struct region_block *hold_of(struct file_queue *me,
                                    const struct hf_ticket *ticket)
{
    struct region_block *entry = NULL;

    if (ticket_mode(ticket) == TICKET_ENTRY)
        entry = hf__file_entry_find(me, ticket_block(ticket), ticket->store[2]);
    if (entry &&
        (entry->entry.state != ENTRY_GRANTED || entry->entry.expires <= queue_now(me)))
        entry = NULL;
    return entry;
}

int hf__file_queue_downgrade(struct file_queue *me, struct hf_request *request,
                             hf_error *why)
{
    struct region_block *entry, *record;

    if (ticket_mode(request->ticket) == TICKET_FAST)
        return fast_downgrade(me, request->ticket, why);
    entry = hold_of(me, request->ticket);
    if (!entry)
        return hf__fail_code(why, HF_ELOST);
    if (entry->entry.kind != HF_WRITE)
        return 0; /* done before */
    record = block_at(me, entry->entry.record);
    entry->entry.kind = HF_READ;
    guard_step();
    record->record.tally.exclusive--;
    record->record.tally.readers++;
    hf__file_record_update(me, record);
    return 0;
}

/* An id names one token of a hold's span: the hold goes on with that token alone. */
static int fast_adopt(struct file_queue *me, struct region_block *record,
                      struct hf_request *request, hf_error *why)
{
    struct fast_hold hold;
    int rc = HF_ENOENT;

    if ((hf__file_record_freeze(record) & WORD_HELD) &&
        hf__file_fast_read(record, &hold) && id_same(&hold.id, &request->other) &&
        token_in(request->number, hold.token, hold.span)) {
        hold.token = request->number;
        hold.span = 1;
        rc = fast_move(me, record, &hold, hold.kind, request->ticket, why);
    }
    hf__file_record_update(me, record);
    if (rc == 0)
        hf__file_peer_wake(me, hold.session, 0);
    return rc;
}

static int entry_adopt(struct file_queue *me, struct region_block *record,
                       struct hf_request *request, hf_error *why)
{
    struct region_block *old = NULL;
    int rc = HF_ENOENT;

    while ((old = granted_next(me, record, old)))
        if (id_same(&old->entry.id, &request->other) &&
            token_in(request->number, old->entry.token, old->entry.span)) {
            const struct block_entry *e = &old->entry;
            struct entry_init init = { .kind = e->kind,
                                       .permits = e->permits,
                                       .token = request->number,
                                       .span = 1,
                                       .since = e->since,
                                       .note = e->note };
            rc = hold_move(me, record, init, request->ticket, why);
            if (rc == 0)
                hf__file_entry_lose(me, old);
            break;
        }
    return rc;
}

/* The result of an earlier request for the same ticket, if it is still there. */
static struct region_block *adopted_before(struct file_queue *me,
                                           const struct region_block *record,
                                           const struct hf_request *request)
{
    struct region_block *entry = NULL;

    while ((entry = granted_next(me, record, entry)))
        if (id_same(&entry->entry.id, &request->ticket->id) &&
            entry->entry.token == request->number)
            return entry;
    return NULL;
}

/* The first waiter has to watch the new holder, hence the wake-up. */
static int hold_adopt(struct file_queue *me, struct region_block *record,
                      struct hf_request *request, hf_error *why)
{
    uint32_t waiting;
    int rc = entry_adopt(me, record, request, why);

    if (rc == HF_ENOENT)
        rc = fast_adopt(me, record, request, why);
    waiting = record->record.first_waiting;
    if (rc == 0 && waiting)
        hf__file_peer_wake(me, block_at(me, waiting)->entry.session, waiting);
    return rc;
}

int hf__file_queue_adopt(struct file_queue *me, struct hf_request *request,
                         hf_error *why)
{
    struct region_block *record = record_of(me, request);
    struct region_block *entry = NULL;
    int rc = HF_ENOENT;

    if (record && !(entry = adopted_before(me, record, request))) {
        rc = hold_adopt(me, record, request, why);
        entry = rc == 0 ? hold_of(me, request->ticket) : NULL;
    }
    if (entry) {
        ticket_set(request->ticket, TICKET_ENTRY, block_index(me, entry), 0,
                   entry->entry.seq);
        request->grant = hf__file_entry_grant(entry);
        return 0;
    }
    return rc == HF_ENOENT
               ? hf__fail(why, rc, "there is no such hold, or not with that token")
               : rc;
}
