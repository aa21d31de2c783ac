/* SPDX-License-Identifier: MIT */
/*
 * mem: locks between the clients of one process. The reference store: each promise of
 * the seam is kept in the plainest way, for reading and for tests, and it is fast all
 * the same.
 *
 * This file has the table and the calls about sessions and tickets. Core calls it under
 * the client's lock. Each call locks the space, changes it, unlocks it, and only then
 * answers the host. A space has clients on many threads, which is why mem has a lock of
 * its own, unlike other stores.
 *
 * ticket->store[0] points to the ticket's entry; 0: none. The entry points to the
 * ticket until that was withdrawn, refused or forgotten; an entry that was ended
 * meanwhile is MEMORY_ENDED and exists until then.
 */
#include "memory.h"

#include "../../base/clock.h"
#include "../../base/error.h"

#include <unistd.h>

#define QUEUED 1

#define CAPABILITIES                                                                   \
    (HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_DOWNGRADE | HF_CAP_PERMITS |      \
     HF_CAP_EXPIRING | HF_CAP_LATCH | HF_CAP_CELL | HF_CAP_LEASE | HF_CAP_DETACH |     \
     HF_CAP_INSPECT | HF_CAP_EVICT | HF_CAP_REVOKE | HF_CAP_HANDOFF | HF_CAP_DIAGNOSE)

static struct memory_entry *entry_at(struct hf_list_node *link)
{
    return HF_CONTAINER(link, struct memory_entry, in_session);
}

/* ---- Session --------------------------------------------------------------------- */

static int memory_open(void *session, struct hf_host *host, const struct hf_url *url,
                       uint64_t *ret_caps, hf_error *why)
{
    struct memory_session *me = session;

    me->host = host;
    me->wake_fd = -1;
    hf__list_init(&me->waiting);
    hf__list_init(&me->others);
    hf__list_init(&me->news);
    hf__list_init(&me->report);
    if (url->host[0] || url->user[0] || url->port)
        return hf__fail(why, HF_EURL, "mem: takes the name of a space and no host");
    me->space = hf__memory_space_open(url->path);
    if (!me->space)
        return hf__fail_code(why, HF_ENOMEM);
    *ret_caps = CAPABILITIES;
    return 0;
}

/* Whether the hold outlives its session. A grant that was not reported yet does not,
 * detached or not. */
static bool entry_outlives(const struct memory_entry *entry)
{
    return entry->detached && entry->state == MEMORY_HELD &&
           entry->end_ns != HF_NEVER && !(entry->news & MEMORY_GRANTED);
}

static void entry_close(struct memory_session *me, struct memory_entry *entry,
                        bool forked)
{
    struct memory_name *name = entry->name;
    bool outlives = entry_outlives(entry);

    hf__memory_unbind(me, entry);
    if (outlives) {
        hf__list_remove(&entry->in_session);
        entry->session = NULL;
    } else if (name) {
        hf__memory_end(me, entry);
        if (!forked)
            hf__memory_update(me, name);
    }
}

/* In a forked child the eventfds and the loop still belong to the parent: wake no
 * session, and remove nothing from the loop. */
static void memory_close(void *session, bool forked)
{
    struct memory_session *me = session;
    struct hf_list_node *link;

    if (!me->space)
        return;
    hf__memory_lock(me);
    while ((link = hf__list_first(&me->waiting)) ||
           (link = hf__list_first(&me->others)))
        entry_close(me, entry_at(link), forked);
    hf__memory_unlock(me);
    if (!forked) {
        me->host->ops->stop_timer(me->host, &me->timer);
        if (me->wake_fd >= 0)
            me->host->ops->remove_fd(me->host, me->wake_fd);
    }
    if (me->wake_fd >= 0)
        close(me->wake_fd);
    hf__memory_space_close(me->space);
}

/* ---- Tickets --------------------------------------------------------------------- */

static enum hf_withdrawal ticket_end(struct memory_session *me,
                                     struct hf_ticket *ticket)
{
    struct memory_entry *entry = hf__memory_entry_of(ticket);
    struct memory_name *name;

    if (!entry)
        return HF_GONE;
    if (entry->state == MEMORY_HELD && entry->end_ns != HF_NEVER)
        hf__memory_update(me, entry->name);
    name = entry->name;
    ticket->store[0] = 0;
    hf__memory_unbind(me, entry);
    if (!name)
        return HF_GONE;
    hf__memory_end(me, entry);
    hf__memory_update(me, name);
    return HF_WITHDRAWN;
}

static int ticket_known(struct memory_entry *entry, struct hf_grant *ret_grant)
{
    if (entry->state == MEMORY_WAITING)
        return QUEUED;
    entry->news &= ~(uint32_t)MEMORY_GRANTED; /* this answer reports it */
    *ret_grant = hf__memory_grant(entry);
    return 0;
}

/* 0: admitted, with the grant; QUEUED; HF_EBUSY; or another error. */
static int ticket_begin(struct memory_session *me, struct hf_ticket *ticket,
                        struct hf_grant *ret_grant, hf_error *why)
{
    struct memory_name *name =
        hf__memory_find(me, ticket->name, ticket->name_len, ticket->name_hash);
    struct memory_entry *entry = hf__memory_entry_of(ticket);
    bool in;
    int rc;

    if (entry && entry->state != MEMORY_ENDED)
        return ticket_known(entry, ret_grant);
    if (entry)
        ticket_end(me, ticket);
    if (name && (rc = hf__memory_match(name, ticket->kind, ticket->limit, why)) < 0)
        return rc;
    in = !name || (hf__list_empty(&name->waiters) &&
                   hf__memory_fits(name, ticket->kind, ticket->permits));
    if (in && ticket->kind == HF_LATCH) {
        *ret_grant = (struct hf_grant){ .token = hf__memory_draw(1), .span = 1 };
        return 0;
    }
    if (!in && (ticket->flags & HF_TICKET_TRY))
        return HF_EBUSY;
    if (!name)
        name = hf__memory_name_new(me, ticket->name, ticket->name_len,
                                   ticket->name_hash, ticket->kind, ticket->limit);
    if (!name)
        return hf__fail_code(why, HF_ENOMEM);
    entry = hf__memory_entry_new(me, ticket);
    if (entry && in)
        hf__memory_admit(me, name, entry);
    else if (entry)
        hf__memory_wait(name, entry);
    if (!entry || !in)
        hf__memory_update(me, name);
    return entry ? ticket_known(entry, ret_grant) : hf__fail_code(why, HF_ENOMEM);
}

static void memory_attempt(void *session, struct hf_ticket *ticket)
{
    struct memory_session *me = session;
    const struct hf_host_ops *ops = me->host->ops;
    struct hf_grant grant;
    hf_error why;
    int rc, listening;

    hf__memory_lock(me);
    rc = ticket_begin(me, ticket, &grant, &why);
    hf__memory_unlock(me);
    if (rc == QUEUED && (listening = hf__memory_listen(me, &why)) < 0) {
        hf__memory_lock(me);
        ticket_end(me, ticket);
        hf__memory_unlock(me);
        rc = listening;
    }
    if (rc == 0)
        ops->granted(me->host, ticket, &grant);
    else if (rc == QUEUED)
        ops->queued(me->host, ticket, 0);
    else if (rc == HF_EBUSY)
        ops->busy(me->host, ticket);
    else
        ops->failed(me->host, ticket, &why);
    hf__memory_drain(me);
}

static void memory_withdraw(void *session, struct hf_ticket *ticket)
{
    struct memory_session *me = session;
    enum hf_withdrawal answer;

    hf__memory_lock(me);
    answer = ticket_end(me, ticket);
    hf__memory_unlock(me);
    me->host->ops->withdrawn(me->host, ticket, answer);
    hf__memory_drain(me);
}

static enum hf_renewal ticket_renew(struct memory_session *me,
                                    const struct hf_ticket *ticket,
                                    enum hf_renew_mode mode)
{
    struct memory_entry *entry = hf__memory_entry_of(ticket);

    if (entry && entry->name)
        hf__memory_update(me, entry->name);
    if (!entry || entry->state == MEMORY_ENDED)
        return HF_RENEWAL_LOST;
    if (entry->state == MEMORY_WAITING || mode == HF_CHECK)
        return HF_STILL_HELD;
    if (ticket->ttl_ns <= 0 && entry->end_ns == HF_NEVER)
        return HF_STILL_HELD;
    entry->ttl_ns = ticket->ttl_ns;
    hf__memory_lease(me, entry);
    hf__memory_update(me, entry->name);
    return HF_RENEWED;
}

static void memory_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                         enum hf_renew_mode mode)
{
    struct memory_session *me = session;

    for (size_t i = 0; i < count; i++) {
        enum hf_renewal answer;
        hf__memory_lock(me);
        answer = ticket_renew(me, tickets[i], mode);
        hf__memory_unlock(me);
        me->host->ops->renewed(me->host, tickets[i], answer, NULL);
    }
    hf__memory_drain(me);
}

static void memory_interest(void *session, struct hf_ticket *ticket)
{
    struct memory_session *me = session;
    struct memory_entry *entry = hf__memory_entry_of(ticket);

    if (!entry || hf__memory_listen(me, NULL) < 0)
        return; /* a loss is then reported at the next renewal or at the end */
    hf__memory_lock(me);
    if (!entry->interest && entry->revoked)
        hf__memory_post(me, entry, MEMORY_REVOKED);
    if (!entry->interest && entry->state == MEMORY_ENDED)
        hf__memory_post(me, entry, MEMORY_LOST);
    entry->interest = true;
    hf__memory_unlock(me);
    hf__memory_drain(me);
}

static bool list_forget(struct memory_session *me, struct hf_list_node *list,
                        const void *ticket)
{
    for (HF_EACH(link, list)) {
        if (entry_at(link)->ticket == ticket) {
            hf__memory_unbind(me, entry_at(link));
            return true;
        }
    }
    return false;
}

static bool memory_pass(void *session, struct hf_ticket *ticket, uint64_t token)
{
    struct memory_session *me = session;

    hf__memory_lock(me);
    struct memory_entry *entry = hf__memory_entry_of(ticket);
    bool held = entry && entry->name && entry->state == MEMORY_HELD;
    if (held) {
        entry->span -= (uint32_t)(token - entry->token);
        entry->token = token;
        entry->revoked = false; /* the previous caller was asked */
    }
    hf__memory_unlock(me);
    return held;
}

/* Requests are answered at once, so only a ticket can be meant. */
static void memory_forget(void *session, const void *ticket_or_request)
{
    struct memory_session *me = session;

    hf__memory_lock(me);
    if (!list_forget(me, &me->waiting, ticket_or_request))
        list_forget(me, &me->others, ticket_or_request);
    hf__memory_unlock(me);
}

static const char *const schemes[] = { "mem", NULL };
static const char *const options[] = { NULL };

const struct hf_backend hf__backend_memory = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "mem",
    .schemes = schemes,
    .options = options,
    .session_size = sizeof(struct memory_session),
    .open = memory_open,
    .close = memory_close,
    .attempt = memory_attempt,
    .withdraw = memory_withdraw,
    .renew = memory_renew,
    .interest = memory_interest,
    .ask = hf__memory_ask,
    .forget = memory_forget,
    .pass = memory_pass,
};
