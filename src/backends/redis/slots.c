/* SPDX-License-Identifier: MIT */
/*
 * Slots: small numbers for tickets that the server may know of. The scripts keep the
 * number and send it back in every message, so that the ticket is found without a
 * search; its owner is compared all the same, because a slot is used again.
 *
 * Under the client's lock. Free slots form a list through the array itself.
 */
#include "session.h"

#include "../../base/mem.h"

static bool slots_grow(struct redis_session *me)
{
    uint32_t room = me->slot_room ? 2 * me->slot_room : 16;
    uintptr_t *slots =
        hf__realloc(me->slots, me->slot_room * sizeof(*slots), room * sizeof(*slots));
    if (!slots)
        return false;
    me->slots = slots;
    me->slot_room = room;
    return true;
}

uint32_t slot_reserve(struct redis_session *me)
{
    uint32_t slot = me->slot_free;
    if (slot) {
        me->slot_free = (uint32_t)(me->slots[slot - 1] >> 1);
    } else {
        if (me->slot_count == me->slot_room && !slots_grow(me))
            return 0;
        slot = ++me->slot_count;
    }
    me->slots[slot - 1] = 1;
    return slot;
}

void slot_free(struct redis_session *me, uint32_t slot)
{
    if (!slot)
        return;
    me->slots[slot - 1] = (uintptr_t)me->slot_free << 1 | 1;
    me->slot_free = slot;
}

void slot_bind(struct redis_session *me, uint32_t slot, struct hf_ticket *ticket)
{
    me->slots[slot - 1] = (uintptr_t)ticket;
    ticket->store[0] = (ticket->store[0] & ~(ONE_CALL - 1)) | slot;
}

void slot_unbind(struct redis_session *me, struct hf_ticket *ticket)
{
    slot_free(me, slot_of(ticket));
    ticket->store[0] &= ~(ONE_CALL - 1);
}

int slot_take(struct redis_session *me, struct hf_ticket *ticket)
{
    uint32_t slot = slot_of(ticket) ? 0 : slot_reserve(me);
    if (slot)
        slot_bind(me, slot, ticket);
    return slot_of(ticket) ? 0 : HF_ENOMEM;
}

void slot_give(struct redis_session *me, struct hf_ticket *ticket)
{
    listen_end(me, ticket);
    if (ticket->store[0] >= ONE_CALL)
        hf__redis_conn_forget(me->conn, ticket);
    renew_forget(me, ticket);
    slot_free(me, slot_of(ticket));
    ticket->store[0] = 0;
}

void slot_settle(struct redis_session *me, struct hf_ticket *ticket)
{
    if (!(ticket->store[0] & LEAVING))
        slot_give(me, ticket);
}

static struct hf_ticket *ticket_in(const struct redis_session *me, uint32_t slot)
{
    uintptr_t there = me->slots[slot];
    return there & 1 ? NULL : (struct hf_ticket *)there;
}

struct hf_ticket *slot_ticket(const struct redis_session *me, uint64_t slot,
                              const char *owner, size_t owner_len)
{
    struct hf_ticket *ticket =
        slot < me->slot_count ? ticket_in(me, (uint32_t)slot) : NULL;
    return ticket && owner_is(owner, owner_len, &ticket->id) ? ticket : NULL;
}

/* Core lets what it is told pass where nobody waits. */
void slots_notice(struct redis_session *me)
{
    for (uint32_t slot = 0; slot < me->slot_count; slot++)
        if (ticket_in(me, slot))
            me->host->ops->notice(me->host, ticket_in(me, slot));
}

/* A ticket whose withdrawal was not answered, or never asked for. */
size_t slots_leave(struct redis_session *me)
{
    size_t count = 0;
    for (uint32_t slot = 0; slot < me->slot_count; slot++) {
        struct hf_ticket *ticket = ticket_in(me, slot);
        if (!ticket || ticket->flags & HF_TICKET_DETACHED)
            continue;
        ticket_leave(me, ticket, NULL);
        count++;
    }
    return count;
}

void slots_forget(struct redis_session *me, const void *gone)
{
    for (uint32_t slot = 0; slot < me->slot_count; slot++)
        if (ticket_in(me, slot) == gone)
            slot_give(me, ticket_in(me, slot));
}
