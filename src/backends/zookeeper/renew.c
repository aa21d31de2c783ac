/* SPDX-License-Identifier: MIT */
/*
 * Renewal, and what core is told at once about a hold.
 *
 * The session is the lease, and the client (wire/) keeps it alive for all holds: a
 * renewal gives what the session is known to live (hf__zk_ticket_lease()). It asks
 * whether the nodes still exist, all of them together, behind a sync: this server may
 * not have heard yet that a node was deleted. A deletion of a watched node would have
 * been reported before the reply to the sync, so for those that reply is enough. A
 * batch lives until its last request is answered; a ticket that core forgets meanwhile
 * is removed from it. No reply means "unknown" for each: core asks again until the
 * lease is over.
 *
 * Interest: a watch on our own node reports its deletion, and Curator's revocation,
 * which is __REVOKE__ written into it.
 */
#include "ticket.h"

#include "../../base/mem.h"

#include <string.h>

static const char revocation[] = "__REVOKE__";

#define WATCHED UINT64_MAX /* tag of the sync */

struct batch {
    struct hf_list_node link;
    enum hf_renew_mode mode;
    uint32_t count, requests;
    struct {
        struct hf_ticket *core_ticket; /* NULL: answered, or forgotten by core */
        bool watched;
    } of[];
};

void hf__zk_renew_forget(struct zk_session *me, const struct zk_ticket *ticket)
{
    for (HF_EACH(link, &me->batches)) {
        struct batch *batch = HF_CONTAINER(link, struct batch, link);
        for (uint32_t i = 0; i < batch->count; i++)
            if (batch->of[i].core_ticket &&
                batch->of[i].core_ticket == ticket->core_ticket)
                batch->of[i].core_ticket = NULL;
    }
}

static void batch_free(struct batch *batch)
{
    hf__list_remove(&batch->link);
    hf__free(batch);
}

void hf__zk_renew_done(struct zk_session *me)
{
    for (struct hf_list_node *link; (link = hf__list_first(&me->batches));)
        batch_free(HF_CONTAINER(link, struct batch, link));
}

/* ---- Answers --------------------------------------------------------------------- */

static void renewal_report(struct zk_session *me, struct hf_ticket *core_ticket,
                           enum hf_renew_mode mode, enum hf_renewal answer,
                           int64_t sent_ns)
{
    struct zk_ticket *ticket = ticket_of(core_ticket);
    if (answer == HF_RENEWAL_LOST && ticket)
        hf__zk_ticket_node_gone(me, ticket);
    if (!ticket || !ticket_is_held(ticket))
        answer = HF_RENEWAL_LOST;
    if (answer == HF_STILL_HELD && mode == HF_RENEW) {
        ticket->since_ns = sent_ns;
        ticket->ttl_ns = hf__zk_ticket_lease(me, ticket, core_ticket->ttl_ns, sent_ns);
        answer = HF_RENEWED;
    }
    struct hf_lease lease = { sent_ns, ticket ? ticket->ttl_ns : core_ticket->ttl_ns };
    me->host->ops->renewed(me->host, core_ticket, answer, &lease);
}

/* In layout=single every holder's node has the same path: the transaction identifies
 * it. */
static bool proves(struct zk_session *me, const struct zk_ticket *ticket,
                   const struct zk_reply *reply)
{
    return reply->error == ZK_OK &&
           reply->stat.ephemeral_owner == hf__zk_session_id(me->zk) &&
           (me->layout != LAYOUT_SINGLE ||
            (uint64_t)reply->stat.czxid == ticket->token);
}

static enum hf_renewal renewal_of(struct zk_session *me, const struct zk_ticket *ticket,
                                  const struct zk_reply *reply, bool watched)
{
    if (!reply || (reply->error != ZK_OK && reply->error != ZK_NONODE))
        return HF_RENEWAL_UNKNOWN;
    if (watched)
        return HF_STILL_HELD;
    return ticket && proves(me, ticket, reply) ? HF_STILL_HELD : HF_RENEWAL_LOST;
}

static void batch_report(struct zk_session *me, struct batch *batch,
                         const struct zk_answer *answer)
{
    bool synced = answer->tag == WATCHED;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct hf_ticket *core_ticket = batch->of[i].core_ticket;
        if (!core_ticket || (synced ? !batch->of[i].watched : i != answer->tag))
            continue;
        batch->of[i].core_ticket = NULL;
        renewal_report(me, core_ticket, batch->mode,
                       renewal_of(me, ticket_of(core_ticket), answer->reply, synced),
                       answer->sent_ns);
    }
}

static void batch_done(const struct zk_answer *answer)
{
    struct batch *batch = answer->subject;
    batch_report(answer->session, batch, answer);
    if (--batch->requests == 0)
        batch_free(batch);
}

/* ---- Asking ---------------------------------------------------------------------- */

/* Tickets that are not held are answered at once. So are those being downgraded: the
 * server may have replaced the node, and would not find the one we know. */
static void batch_sort(struct zk_session *me, struct batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct hf_ticket *core_ticket = batch->of[i].core_ticket;
        const struct zk_ticket *ticket = core_ticket ? ticket_of(core_ticket) : NULL;
        if (ticket && ticket->node) {
            batch->of[i].watched =
                batch->mode == HF_RENEW && hf__list_linked(&ticket->own_watcher.link);
        } else if (core_ticket) {
            batch->of[i].core_ticket = NULL;
            renewal_report(me, core_ticket, batch->mode,
                           ticket && ticket_is_held(ticket) ? HF_RENEWAL_UNKNOWN
                                                            : HF_RENEWAL_LOST,
                           0);
        }
    }
}

static void batch_sent(struct zk_session *me, struct batch *batch, uint64_t tag, int rc)
{
    struct zk_answer none = { .tag = tag, .sent_ns = me->host->ops->now(me->host) };
    if (rc == 0)
        batch->requests++;
    else
        batch_report(me, batch, &none);
}

static void batch_send(struct zk_session *me, struct batch *batch)
{
    batch_sort(me, batch);
    hf__zk_gather(me->zk);
    batch_sent(me, batch, WATCHED,
               hf__zk_sync(me->zk, "/", batch_done, batch, WATCHED));
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct hf_ticket *core_ticket = batch->of[i].core_ticket;
        if (!core_ticket || batch->of[i].watched)
            continue;
        batch_sent(me, batch, i,
                   hf__zk_exists(me->zk, ticket_of(core_ticket)->node, false,
                                 batch_done, batch, i));
    }
    hf__zk_flush(me->zk);
    if (batch->requests == 0)
        batch_free(batch);
}

void hf__zk_session_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                          enum hf_renew_mode mode)
{
    struct zk_session *me = session;
    struct batch *batch = hf__alloc(sizeof(*batch) + count * sizeof(batch->of[0]));
    for (size_t i = 0; !batch && i < count; i++)
        me->host->ops->renewed(me->host, tickets[i], HF_RENEWAL_UNKNOWN, NULL);
    if (!batch)
        return;
    batch->mode = mode;
    batch->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        batch->of[i].core_ticket = tickets[i];
    hf__list_push_back(&me->batches, &batch->link);
    batch_send(me, batch);
}

/* ---- Interest -------------------------------------------------------------------- */

static void own_fired(struct zk_session *me, struct watcher *watcher,
                      enum zk_event_type type)
{
    struct zk_ticket *ticket = HF_CONTAINER(watcher, struct zk_ticket, own_watcher);
    if (type == ZK_DELETED)
        hf__zk_ticket_node_gone(me, ticket);
    else
        hf__zk_interest_watch(me, ticket);
}

static void own_done(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct zk_ticket *ticket = answer->subject;
    const struct zk_reply *reply = answer->reply;
    ticket->requests--;
    if (!reply || reply->error != ZK_OK)
        hf__zk_watcher_drop(&ticket->own_watcher);
    if (!reply || !ticket_is_held(ticket))
        return;
    if (reply->error == ZK_NONODE) {
        hf__zk_ticket_node_gone(me, ticket);
    } else if (reply->data.len == sizeof(revocation) - 1 &&
               memcmp(reply->data.at, revocation, reply->data.len) == 0 &&
               reply->stat.mzxid != ticket->revoked_mzxid) {
        ticket->revoked_mzxid = reply->stat.mzxid;
        me->host->ops->event(me->host, ticket->core_ticket, HF_EVENT_REVOKED);
    }
}

void hf__zk_interest_watch(struct zk_session *me, struct zk_ticket *ticket)
{
    if (!ticket->interested || !ticket->node ||
        hf__list_linked(&ticket->own_watcher.link) || !hf__zk_is_up(me->zk))
        return;
    hf__zk_watcher_set(me, &ticket->own_watcher, ticket->node, own_fired);
    if (hf__zk_get(me->zk, ticket->node, true, own_done, ticket, 0) == 0)
        ticket->requests++;
    else
        hf__zk_watcher_drop(&ticket->own_watcher);
}

void hf__zk_session_interest(void *session, struct hf_ticket *core_ticket)
{
    struct zk_session *me = session;
    struct zk_ticket *ticket = ticket_of(core_ticket);
    if (!ticket || !ticket_is_held(ticket))
        return;
    ticket->interested = true;
    hf__zk_interest_watch(me, ticket);
}
