/* SPDX-License-Identifier: MIT */
/*
 * Stays: what the session has of a ticket, whatever its kind, and what is told to core.
 *
 * All under the client's lock. A hold is proven by a node of this session, and believed
 * as long as that is known to live: grant.ttl_ns is the smaller of that and what was
 * asked for. A session lives on whatever becomes of one lease, so each has a timer here
 * that takes its node off the server when nobody has renewed it. After a hold is lost
 * its stay remains until core has withdrawn it, so that the answer can be HF_GONE.
 */
#include "session.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

/* ---- Beginning and end ----------------------------------------------------------- */

struct stay *stay_begin(struct zk_session *me, struct hf_ticket *ticket, size_t size,
                        const struct stay_ops *ops)
{
    hf_error why;
    struct stay *stay = hf__alloc(size);
    if (!stay) {
        hf__fail_code(&why, HF_ENOMEM);
        me->host->ops->failed(me->host, ticket, &why);
        return NULL;
    }
    stay->ops = ops;
    stay->ticket = ticket;
    stay->id = ticket->id;
    stay->kind = ticket->kind;
    ticket->store[0] = (uint64_t)(uintptr_t)stay;
    hf__list_push_back(&me->stays, &stay->link);
    return stay;
}

static void stop_proof(struct zk_session *me, struct stay *stay)
{
    stay->held = false;
    if (stay->lease.slot)
        me->host->ops->stop_timer(me->host, &stay->lease);
    hf__zk_watcher_end(me, &stay->own);
}

void stay_end(struct zk_session *me, struct stay *stay)
{
    stop_proof(me, stay);
    hf__zk_renew_forget(me, stay);
    if (stay->calls)
        hf__zk_forget(me->zk, stay);
    if (stay->ticket)
        stay->ticket->store[0] = 0;
    hf__list_remove(&stay->link);
    stay->ops->done(me, stay);
    hf__free(stay);
}

/* ---- What core is told ----------------------------------------------------------- */

static void lease_over(void *arg)
{
    struct stay *stay = arg;
    struct zk_session *me = stay->session;
    stay_lost(me, stay);
    stay->over = true;
    stay->ops->withdraw(me, stay);
}

/* What the session is known to live counts from a while ago, and so does its drift. */
static int64_t session_left(const struct zk_session *me, int64_t now)
{
    int64_t drift = hf__zk_session_ns(me->zk) / 100;
    int64_t left = hf__zk_valid_until(me->zk) - drift - now;
    return left > 1 ? left : 1;
}

int64_t stay_lease(struct zk_session *me, struct stay *stay, int64_t ttl_ns,
                   int64_t since_ns)
{
    int64_t most = session_left(me, since_ns);
    int64_t given = ttl_ns > 0 && ttl_ns < most ? ttl_ns : most;
    stay->session = me;
    stay->lease.callback = lease_over;
    stay->lease.arg = stay;
    /* Without the timer it still ends, with the session. */
    me->host->ops->set_timer(me->host, &stay->lease, since_ns + given);
    return given;
}

void stay_grant_again(struct zk_session *me, struct stay *stay)
{
    struct hf_grant grant = {
        .token = stay->token,
        .span = 1,
        .ttl_ns = stay->ttl_ns,
        .since_ns = stay->since_ns,
    };
    stay->answered = true;
    me->host->ops->granted(me->host, stay->ticket, &grant);
}

void stay_granted(struct zk_session *me, struct stay *stay, const char *node,
                  uint64_t token, int64_t since_ns)
{
    stay->held = true;
    stay->node = node;
    stay->token = token;
    stay->since_ns = since_ns;
    stay->ttl_ns = stay_lease(me, stay, stay->ticket->ttl_ns, stay->since_ns);
    stay_grant_again(me, stay);
}

void stay_queued(struct zk_session *me, struct stay *stay)
{
    stay->answered = true;
    me->host->ops->queued(me->host, stay->ticket, 0);
}

void stay_failed(struct zk_session *me, struct stay *stay, const hf_error *why)
{
    struct hf_ticket *ticket = stay->ticket;
    bool open = why->code == HF_EUNREACHABLE || why->code == HF_EUNCERTAIN;
    if (!open)
        stay_end(me, stay);
    if (ticket)
        me->host->ops->failed(me->host, ticket, why);
}

void stay_busy(struct zk_session *me, struct stay *stay)
{
    struct hf_ticket *ticket = stay->ticket;
    stay_end(me, stay);
    if (ticket)
        me->host->ops->busy(me->host, ticket);
}

void stay_left(struct zk_session *me, struct stay *stay, enum hf_withdrawal answer)
{
    struct hf_ticket *ticket = stay->ticket;
    if (!zk_is_withdrawn(answer)) {
        if (ticket && stay->leaving)
            me->host->ops->withdrawn(me->host, ticket, answer);
        return;
    }
    if (!stay->leaving)
        return; /* its lease was over, and core has not been heard of yet */
    if (stay->over)
        answer = HF_GONE;
    stay_end(me, stay);
    if (ticket)
        me->host->ops->withdrawn(me->host, ticket, answer);
}

void stay_lost(struct zk_session *me, struct stay *stay)
{
    if (!stay->held)
        return;
    stop_proof(me, stay);
    if (stay->ticket && !stay->leaving)
        me->host->ops->event(me->host, stay->ticket, HF_EVENT_LOST);
}

void stay_gone(struct zk_session *me, struct stay *stay)
{
    stay->gone = true;
    stay_lost(me, stay);
}

/* ---- What core asks -------------------------------------------------------------- */

static void stay_leave(struct zk_session *me, struct stay *stay)
{
    stop_proof(me, stay);
    stay->leaving = true;
    stay->ops->withdraw(me, stay);
}

void hf__zk_session_withdraw(void *session, struct hf_ticket *ticket)
{
    struct zk_session *me = session;
    struct stay *stay = stay_of(ticket);
    if (stay)
        stay_leave(me, stay);
    else
        me->host->ops->withdrawn(me->host, ticket, HF_GONE);
}

/* `gone` may be a ticket or a request; only its address is looked at. */
void stays_forget(struct zk_session *me, const void *gone)
{
    for (HF_EACH_SAFE(link, &me->stays)) {
        struct stay *stay = HF_CONTAINER(link, struct stay, link);
        if (stay->ticket != gone)
            continue;
        hf__zk_renew_forget(me, stay);
        stay->ticket->store[0] = 0;
        stay->ticket = NULL;
        stay_leave(me, stay);
        return;
    }
}

/* ---- What the wire tells --------------------------------------------------------- */

void stays_up(struct zk_session *me, bool fresh)
{
    for (HF_EACH_SAFE(link, &me->stays)) {
        struct stay *stay = HF_CONTAINER(link, struct stay, link);
        if (stay->held)
            hf__zk_interest_watch(me, stay);
        stay->ops->up(me, stay, fresh);
    }
}

void stays_expired(struct zk_session *me)
{
    for (HF_EACH_SAFE(link, &me->stays)) {
        struct stay *stay = HF_CONTAINER(link, struct stay, link);
        if (stay->held)
            stay->over = true;
        stay_lost(me, stay);
        stay->ops->expired(me, stay);
        if (stay->leaving)
            stay_left(me, stay, HF_GONE);
    }
}

void stays_done(struct zk_session *me)
{
    for (struct hf_link *link; (link = hf__list_first(&me->stays));)
        stay_end(me, HF_CONTAINER(link, struct stay, link));
}
