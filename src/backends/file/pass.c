/* SPDX-License-Identifier: MIT */
/*
 * A hold is handed off to another caller of its client, under a later token.
 *
 * Guard held, as for an eviction: an eviction by token either comes first, and the hold
 * is not handed off, or meets the new token. The span goes down before the token goes
 * up, so that a process that dies in between never owns a number that is not its own.
 */
#include "queue.h"

static bool fast_pass(struct file_queue *me, struct hf_ticket *ticket, uint64_t token)
{
    struct block_record *r = &block_at(me, ticket_block(ticket))->record;

    if (!hf__file_fast_held(me, ticket))
        return false;
    uint32_t span = __atomic_load_n(&r->span, __ATOMIC_RELAXED);
    __atomic_store_n(&r->span, span - (uint32_t)(token - r->token), __ATOMIC_RELEASE);
    __atomic_store_n(&r->token, token, __ATOMIC_RELEASE);
    ticket->store[2] = token;
    return true;
}

static bool entry_pass(struct file_queue *me, struct hf_ticket *ticket, uint64_t token)
{
    struct region_block *entry =
        hf__file_entry_find(me, ticket_block(ticket), ticket->store[2]);

    if (!entry || entry->entry.state != ENTRY_GRANTED)
        return false;
    entry->entry.span -= (uint32_t)(token - entry->entry.token);
    entry->entry.token = token;
    entry->entry.flags &= ~(uint32_t)ENTRY_REVOKED; /* the previous caller was asked */
    return true;
}

bool hf__file_queue_pass(void *session, struct hf_ticket *ticket, uint64_t token)
{
    struct file_queue *me = session;
    enum ticket_mode mode = ticket_mode(ticket);
    hf_error why;

    if ((mode != TICKET_FAST && mode != TICKET_ENTRY) ||
        hf__file_guard_lock(me, &why) != 0)
        return false;
    bool passed = mode == TICKET_FAST ? fast_pass(me, ticket, token)
                                      : entry_pass(me, ticket, token);
    hf__file_guard_unlock(me);
    return passed;
}
