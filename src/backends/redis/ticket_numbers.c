/* SPDX-License-Identifier: MIT */
/*
 * Ticket numbers: small numbers for the tickets that the server may know. The scripts
 * store the number and put it into every message, so that the ticket is found without a
 * search. The owner is compared as well, because numbers are reused.
 *
 * Under the client's lock. Free numbers form a list through the array itself.
 */
#include "session.h"

#include "../../base/mem.h"

static bool numbers_grow(struct redis_session *me)
{
    uint32_t room = me->number_room ? 2 * me->number_room : 16;
    uintptr_t *numbers = hf__realloc(me->numbers, me->number_room * sizeof(*numbers),
                                     room * sizeof(*numbers));
    if (!numbers)
        return false;
    me->numbers = numbers;
    me->number_room = room;
    return true;
}

uint32_t hf__redis_number_reserve(struct redis_session *me)
{
    uint32_t number = me->number_free;
    if (number) {
        me->number_free = (uint32_t)(me->numbers[number - 1] >> 1);
    } else {
        if (me->number_count == me->number_room && !numbers_grow(me))
            return 0;
        number = ++me->number_count;
    }
    me->numbers[number - 1] = 1;
    return number;
}

void hf__redis_number_free(struct redis_session *me, uint32_t number)
{
    if (!number)
        return;
    me->numbers[number - 1] = (uintptr_t)me->number_free << 1 | 1;
    me->number_free = number;
}

void hf__redis_number_bind(struct redis_session *me, uint32_t number,
                           struct hf_ticket *ticket)
{
    me->numbers[number - 1] = (uintptr_t)ticket;
    ticket->store[0] = (ticket->store[0] & ~(ONE_REQUEST - 1)) | number;
}

void hf__redis_number_unbind(struct redis_session *me, struct hf_ticket *ticket)
{
    hf__redis_number_free(me, ticket_number(ticket));
    ticket->store[0] &= ~(ONE_REQUEST - 1);
}

int hf__redis_number_assign(struct redis_session *me, struct hf_ticket *ticket)
{
    uint32_t number = ticket_number(ticket) ? 0 : hf__redis_number_reserve(me);
    if (number)
        hf__redis_number_bind(me, number, ticket);
    return ticket_number(ticket) ? 0 : HF_ENOMEM;
}

void hf__redis_ticket_done(struct redis_session *me, struct hf_ticket *ticket)
{
    hf__redis_listen_end(me, ticket);
    if (ticket->store[0] >= ONE_REQUEST)
        hf__redis_conn_forget(me->conn, ticket);
    hf__redis_renew_forget(me, ticket);
    hf__redis_number_free(me, ticket_number(ticket));
    ticket->store[0] = 0;
}

void hf__redis_ticket_attempt_done(struct redis_session *me, struct hf_ticket *ticket)
{
    if (!(ticket->store[0] & WITHDRAWING))
        hf__redis_ticket_done(me, ticket);
}

static struct hf_ticket *ticket_in(const struct redis_session *me, uint32_t number)
{
    uintptr_t there = me->numbers[number];
    return there & 1 ? NULL : (struct hf_ticket *)there;
}

struct hf_ticket *hf__redis_number_find(const struct redis_session *me, uint64_t number,
                                        const char *owner, size_t owner_len)
{
    struct hf_ticket *ticket =
        number < me->number_count ? ticket_in(me, (uint32_t)number) : NULL;
    return ticket && hf__redis_owner_is(owner, owner_len, &ticket->id) ? ticket : NULL;
}

/* Core ignores the notice for a ticket that does not wait. */
void hf__redis_tickets_notify(struct redis_session *me)
{
    for (uint32_t number = 0; number < me->number_count; number++)
        if (ticket_in(me, number))
            me->host->ops->notice(me->host, ticket_in(me, number));
}

/* What is left are tickets whose withdrawal was not answered, or never requested. */
size_t hf__redis_tickets_withdraw(struct redis_session *me)
{
    size_t count = 0;
    for (uint32_t number = 0; number < me->number_count; number++) {
        struct hf_ticket *ticket = ticket_in(me, number);
        if (!ticket || ticket->flags & HF_TICKET_DETACHED)
            continue;
        hf__redis_ticket_withdraw(me, ticket, NULL);
        count++;
    }
    return count;
}

void hf__redis_tickets_forget(struct redis_session *me, const void *subject)
{
    for (uint32_t number = 0; number < me->number_count; number++)
        if (ticket_in(me, number) == subject)
            hf__redis_ticket_done(me, ticket_in(me, number));
}
