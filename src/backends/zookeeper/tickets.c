/* SPDX-License-Identifier: MIT */
/*
 * Tickets: what the session keeps of each, whatever its kind, and what core is told.
 *
 * All under the client's lock. A hold is proven by a node of this session and counts as
 * long as that session is known to live: grant.ttl_ns is the smaller of that and what
 * was asked for. The end of one lease does not end the session, so each ticket has a
 * timer here that deletes its node when the lease is not renewed. A ticket whose hold
 * was lost lives until core has withdrawn it, so that the answer can be HF_GONE.
 */
#include "session.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

/* ---- Beginning and end ----------------------------------------------------------- */

struct zk_ticket *hf__zk_ticket_new(struct zk_session *me,
                                    struct hf_ticket *core_ticket, size_t size,
                                    const struct zk_ticket_ops *ops)
{
    hf_error why;
    struct zk_ticket *ticket = hf__alloc(size);
    if (!ticket) {
        hf__fail_code(&why, HF_ENOMEM);
        me->host->ops->failed(me->host, core_ticket, &why);
        return NULL;
    }
    ticket->ops = ops;
    ticket->core_ticket = core_ticket;
    ticket->id = core_ticket->id;
    ticket->kind = core_ticket->kind;
    core_ticket->store[0] = (uint64_t)(uintptr_t)ticket;
    hf__list_push_back(&me->tickets, &ticket->link);
    return ticket;
}

static void stop_proof(struct zk_session *me, struct zk_ticket *ticket)
{
    ticket->held = false;
    if (ticket->lease_timer.slot)
        me->host->ops->stop_timer(me->host, &ticket->lease_timer);
    hf__zk_watcher_end(me, &ticket->own_watcher);
}

void hf__zk_ticket_free(struct zk_session *me, struct zk_ticket *ticket)
{
    stop_proof(me, ticket);
    hf__zk_renew_forget(me, ticket);
    if (ticket->requests)
        hf__zk_forget(me->zk, ticket);
    if (ticket->core_ticket)
        ticket->core_ticket->store[0] = 0;
    hf__list_remove(&ticket->link);
    ticket->ops->done(me, ticket);
    hf__free(ticket);
}

/* ---- What core is told ----------------------------------------------------------- */

static void lease_timer_fired(void *arg)
{
    struct zk_ticket *ticket = arg;
    struct zk_session *me = ticket->session;
    hf__zk_ticket_lost(me, ticket);
    ticket->lease_ended = true;
    ticket->ops->withdraw(me, ticket);
}

/* How long the session is known to live counts from an earlier moment; so does
 * drift. */
static int64_t session_left(const struct zk_session *me, int64_t now)
{
    int64_t drift = hf__zk_session_ns(me->zk) / 100;
    int64_t left = hf__zk_valid_until(me->zk) - drift - now;
    return left > 1 ? left : 1;
}

int64_t hf__zk_ticket_lease(struct zk_session *me, struct zk_ticket *ticket,
                            int64_t ttl_ns, int64_t since_ns)
{
    int64_t most = session_left(me, since_ns);
    int64_t given = ttl_ns > 0 && ttl_ns < most ? ttl_ns : most;
    ticket->session = me;
    ticket->lease_timer.callback = lease_timer_fired;
    ticket->lease_timer.arg = ticket;
    /* Without the timer the node still ends with the session. */
    me->host->ops->set_timer(me->host, &ticket->lease_timer, since_ns + given);
    return given;
}

void hf__zk_ticket_grant_again(struct zk_session *me, struct zk_ticket *ticket)
{
    struct hf_grant grant = {
        .token = ticket->token,
        .span = 1,
        .ttl_ns = ticket->ttl_ns,
        .since_ns = ticket->since_ns,
    };
    ticket->answered = true;
    me->host->ops->granted(me->host, ticket->core_ticket, &grant);
}

void hf__zk_ticket_granted(struct zk_session *me, struct zk_ticket *ticket,
                           const char *node, uint64_t token, int64_t since_ns)
{
    ticket->held = true;
    ticket->node = node;
    ticket->token = token;
    ticket->since_ns = since_ns;
    ticket->ttl_ns =
        hf__zk_ticket_lease(me, ticket, ticket->core_ticket->ttl_ns, ticket->since_ns);
    hf__zk_ticket_grant_again(me, ticket);
}

void hf__zk_ticket_queued(struct zk_session *me, struct zk_ticket *ticket)
{
    ticket->answered = true;
    me->host->ops->queued(me->host, ticket->core_ticket, 0);
}

void hf__zk_ticket_failed(struct zk_session *me, struct zk_ticket *ticket,
                          const hf_error *why)
{
    struct hf_ticket *core_ticket = ticket->core_ticket;
    bool open = why->code == HF_EUNREACHABLE || why->code == HF_EUNCERTAIN;
    if (!open)
        hf__zk_ticket_free(me, ticket);
    if (core_ticket)
        me->host->ops->failed(me->host, core_ticket, why);
}

void hf__zk_ticket_busy(struct zk_session *me, struct zk_ticket *ticket)
{
    struct hf_ticket *core_ticket = ticket->core_ticket;
    hf__zk_ticket_free(me, ticket);
    if (core_ticket)
        me->host->ops->busy(me->host, core_ticket);
}

void hf__zk_ticket_withdrawn(struct zk_session *me, struct zk_ticket *ticket,
                             enum hf_withdrawal answer)
{
    struct hf_ticket *core_ticket = ticket->core_ticket;
    if (!zk_is_withdrawn(answer)) {
        if (core_ticket && ticket->withdrawing)
            me->host->ops->withdrawn(me->host, core_ticket, answer);
        return;
    }
    if (!ticket->withdrawing)
        return; /* its lease ended; core has not withdrawn it yet */
    if (ticket->lease_ended)
        answer = HF_GONE;
    hf__zk_ticket_free(me, ticket);
    if (core_ticket)
        me->host->ops->withdrawn(me->host, core_ticket, answer);
}

void hf__zk_ticket_lost(struct zk_session *me, struct zk_ticket *ticket)
{
    if (!ticket->held)
        return;
    stop_proof(me, ticket);
    if (ticket->core_ticket && !ticket->withdrawing)
        me->host->ops->event(me->host, ticket->core_ticket, HF_EVENT_LOST);
}

void hf__zk_ticket_node_gone(struct zk_session *me, struct zk_ticket *ticket)
{
    ticket->node_gone = true;
    hf__zk_ticket_lost(me, ticket);
}

/* ---- What core asks -------------------------------------------------------------- */

static void ticket_withdraw(struct zk_session *me, struct zk_ticket *ticket)
{
    stop_proof(me, ticket);
    ticket->withdrawing = true;
    ticket->ops->withdraw(me, ticket);
}

void hf__zk_session_withdraw(void *session, struct hf_ticket *core_ticket)
{
    struct zk_session *me = session;
    struct zk_ticket *ticket = ticket_of(core_ticket);
    if (ticket)
        ticket_withdraw(me, ticket);
    else
        me->host->ops->withdrawn(me->host, core_ticket, HF_GONE);
}

/* `forgotten` is a ticket or a request of core's; only its address is compared. */
void hf__zk_tickets_forget(struct zk_session *me, const void *forgotten)
{
    for (HF_EACH_SAFE(link, &me->tickets)) {
        struct zk_ticket *ticket = HF_CONTAINER(link, struct zk_ticket, link);
        if (ticket->core_ticket != forgotten)
            continue;
        hf__zk_renew_forget(me, ticket);
        ticket->core_ticket->store[0] = 0;
        ticket->core_ticket = NULL;
        ticket_withdraw(me, ticket);
        return;
    }
}

/* ---- What the client reports ----------------------------------------------------- */

void hf__zk_tickets_up(struct zk_session *me, bool fresh)
{
    for (HF_EACH_SAFE(link, &me->tickets)) {
        struct zk_ticket *ticket = HF_CONTAINER(link, struct zk_ticket, link);
        if (ticket->held)
            hf__zk_interest_watch(me, ticket);
        ticket->ops->up(me, ticket, fresh);
    }
}

void hf__zk_tickets_expired(struct zk_session *me)
{
    for (HF_EACH_SAFE(link, &me->tickets)) {
        struct zk_ticket *ticket = HF_CONTAINER(link, struct zk_ticket, link);
        if (ticket->held)
            ticket->lease_ended = true;
        hf__zk_ticket_lost(me, ticket);
        ticket->ops->expired(me, ticket);
        if (ticket->withdrawing)
            hf__zk_ticket_withdrawn(me, ticket, HF_GONE);
    }
}

void hf__zk_tickets_done(struct zk_session *me)
{
    for (struct hf_list_node *link; (link = hf__list_first(&me->tickets));)
        hf__zk_ticket_free(me, HF_CONTAINER(link, struct zk_ticket, link));
}
