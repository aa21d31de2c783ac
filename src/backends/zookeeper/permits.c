/* SPDX-License-Identifier: MIT */
/*
 * Semaphores: Curator's SemaphoreV2, with weights. Expiring permits are the same in a
 * folder below (leases.h). Under the client's lock.
 *
 * A ticket has a queue node in P/locks until it is the first, waits there until enough
 * permits are free, and then exchanges its queue node for its leases in one multi. So
 * no ticket overtakes another, a ticket for many permits is not starved, there are
 * never more leases than the limit, and only the first in the queue watches the leases.
 *
 * A look asks for three things at once: which kinds the name serves, the limit, the
 * leases. The first look is sent together with the queue node, so that a client without
 * rivals waits for two replies in all. What it says of the leases counts only if the
 * queue node turns out to be the first; what it says of the limit counts in any case.
 */
#include "permits.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

enum look { LOOK_FOLDER = 1, LOOK_LIMIT, LOOK_LEASES };

#define LOOK_BITS 8

/* ---- Refused, or stuck ----------------------------------------------------------- */

static void permit_leave_queue(struct zk_session *me, struct permit *permit)
{
    hf__zk_watcher_end(me, &permit->watcher);
    hf__zk_kind_probe_drop(me, &permit->probe);
    permit_set_state(permit, PERMIT_QUEUE);
    hf__zk_queue_node_withdraw(me, &permit->qnode);
}

void hf__zk_permit_refuse(struct zk_session *me, struct permit *permit,
                          const hf_error *why)
{
    hf__zk_watcher_end(me, &permit->watcher);
    permit_set_state(permit, PERMIT_QUEUE);
    hf__zk_queue_node_refuse(me, &permit->qnode, why);
}

void hf__zk_permit_pause(struct zk_session *me, struct permit *permit,
                         const hf_error *why)
{
    hf_error copy = *why;
    if (hf__zk_is_up(me->zk))
        hf__zk_session_retry_soon(me);
    copy.code = HF_EUNCERTAIN;
    if (permit->ticket.withdrawing)
        hf__zk_ticket_withdrawn(me, &permit->ticket,
                                zk_not_withdrawn(permit->delete_unanswered));
    else if (!permit->ticket.answered)
        hf__zk_ticket_failed(me, &permit->ticket, &copy);
}

/* ---- The queue node -------------------------------------------------------------- */

static struct permit *permit_of_node(struct queue_node *qnode)
{
    return permit_of(qnode->ticket);
}

static void qnode_admitted(struct zk_session *me, struct queue_node *qnode,
                           int64_t since_ns)
{
    (void)since_ns;
    struct permit *permit = permit_of_node(qnode);
    if (permit->state == PERMIT_LOOK && permit->was_first)
        return; /* the look that was sent with the queue node is under way */
    hf__zk_permit_look(me, permit, false);
}

/* A try waits for the result of the look: busy, or refused. */
static void qnode_queued(struct zk_session *me, struct queue_node *qnode)
{
    struct permit *permit = permit_of_node(qnode);
    permit->was_first = false;
    if (!(permit->ticket.core_ticket->flags & HF_TICKET_TRY))
        hf__zk_ticket_queued(me, &permit->ticket);
    else if (permit->state != PERMIT_LOOK)
        hf__zk_permit_look(me, permit, false);
}

static void qnode_failed(struct zk_session *me, struct queue_node *qnode,
                         const hf_error *why)
{
    struct permit *permit = permit_of_node(qnode);
    permit_set_state(permit, PERMIT_QUEUE);
    hf__zk_ticket_failed(me, &permit->ticket, why);
}

static void qnode_withdrawn(struct zk_session *me, struct queue_node *qnode,
                            enum hf_withdrawal answer)
{
    struct permit *permit = permit_of_node(qnode);
    if (permit->ticket.withdrawing)
        hf__zk_ticket_withdrawn(me, &permit->ticket, answer);
    else if (zk_is_withdrawn(answer) && permit->try_failed)
        hf__zk_ticket_busy(me, &permit->ticket);
}

static const struct queue_node_user queue_node_user = {
    .admitted = qnode_admitted,
    .queued = qnode_queued,
    .failed = qnode_failed,
    .withdrawn = qnode_withdrawn,
};

/* The queue node may fail inside and free the ticket: then core's has none. */
void hf__zk_permit_enter(struct zk_session *me, struct permit *permit)
{
    struct hf_ticket *core_ticket = permit->ticket.core_ticket;
    permit->kind_checked = permit->try_failed = permit->qnode.queued_told = false;
    permit->ticket.answered = false;
    permit_set_state(permit, PERMIT_QUEUE);
    hf__zk_gather(me->zk);
    hf__zk_queue_node_enter(me, &permit->qnode);
    if (ticket_of(core_ticket) == &permit->ticket &&
        permit->qnode.state != QUEUE_NODE_IDLE)
        hf__zk_permit_look(me, permit, false);
    hf__zk_flush(me->zk);
}

/* ---- Deciding -------------------------------------------------------------------- */

static void refuse_limit(struct zk_session *me, struct permit *permit)
{
    hf_error why;
    hf__fail(&why, HF_EMISMATCH, "the semaphore is in use with a limit of %u, not %u",
             permit->limit, permit->ticket.core_ticket->limit);
    hf__zk_permit_refuse(me, permit, &why);
}

/* The first one, but too few permits are free. */
static void wait_for_permits(struct zk_session *me, struct permit *permit)
{
    if (!permit->watching) {
        hf__zk_permit_look(me, permit, true);
        return;
    }
    permit->state = PERMIT_WAIT;
    if (!permit->ticket.answered)
        hf__zk_ticket_queued(me, &permit->ticket);
}

static void decide(struct zk_session *me, struct permit *permit)
{
    const struct hf_ticket *core_ticket = permit->ticket.core_ticket;
    bool first = permit->was_first && permit->qnode.state == QUEUE_NODE_IN;
    bool other =
        permit->limit_state == LIMIT_THERE && permit->limit != core_ticket->limit;
    permit->kind_checked = true;
    if (other && permit->used > 0) {
        refuse_limit(me, permit);
    } else if (first && permit->used + core_ticket->permits <= core_ticket->limit) {
        hf__zk_permit_take(me, permit);
    } else if (core_ticket->flags & HF_TICKET_TRY) {
        permit->try_failed = true;
        permit_leave_queue(me, permit);
    } else if (first) {
        wait_for_permits(me, permit);
    } else {
        permit_set_state(permit, PERMIT_QUEUE);
        if (permit->qnode.state == QUEUE_NODE_IN)
            hf__zk_permit_look(me, permit, false);
    }
}

static void probe_done(struct zk_session *me, struct kind_probe *probe, int rc,
                       const hf_error *why)
{
    struct permit *permit = HF_CONTAINER(probe, struct permit, probe);
    if (rc == 0)
        decide(me, permit);
    else if (rc == HF_EMISMATCH)
        hf__zk_permit_refuse(me, permit, why);
    else
        hf__zk_permit_pause(me, permit, why);
}

static void look_done(struct zk_session *me, struct permit *permit)
{
    int32_t kind = permit->ticket.kind;
    enum queue_node_state state = permit->qnode.state;
    hf_error why;
    if (state != QUEUE_NODE_IN && state != QUEUE_NODE_WAITING) {
        permit_set_state(permit, PERMIT_QUEUE); /* its folder is not made yet */
    } else if (permit->clash == KIND_MAYBE) {
        hf__zk_kind_probe(me, &permit->probe, permit->folders.name, kind, probe_done);
    } else if (permit->clash) {
        hf__zk_kind_mismatch(&why, permit->clash, kind);
        hf__zk_permit_refuse(me, permit, &why);
    } else {
        decide(me, permit);
    }
}

/* ---- Looking --------------------------------------------------------------------- */

static void leases_fired(struct zk_session *me, struct watcher *watcher,
                         enum zk_event_type type)
{
    struct permit *permit = HF_CONTAINER(watcher, struct permit, watcher);
    (void)type;
    if (permit->state == PERMIT_WAIT || permit->state == PERMIT_LOOK)
        hf__zk_permit_look(me, permit, true);
}

static void read_limit(struct permit *permit, enum layout layout,
                       const struct zk_reply *reply)
{
    permit->limit_state = LIMIT_NONE;
    permit->limit_version = reply->stat.version;
    if (reply->error == ZK_OK)
        permit->limit_state = hf__zk_limit_read(layout, permit->ticket.kind,
                                                &reply->data, &permit->limit);
    if (permit->limit_unwritable || reply->error == ZK_NOAUTH)
        permit->limit_state = LIMIT_FOREIGN;
}

void hf__zk_permit_count(struct permit *permit, enum layout layout,
                         const struct zk_reply *reply)
{
    permit->used = permit->count = 0;
    for (size_t i = 0; i < reply->count; i++) {
        const struct zk_text *name = &reply->names[i];
        struct node node;
        permit->used += hf__zk_lease_weight(layout, name);
        hf__zk_node_parse(&node, layout, name->at, name->len);
        if (!node.has_id || name->len >= NODE_SIZE || permit->count == permit->nodes ||
            memcmp(&node.id, &permit->ticket.id, sizeof(node.id)) != 0)
            continue;
        memcpy(permit->names[permit->count], name->at, name->len);
        permit->names[permit->count++][name->len] = '\0';
    }
}

static void look_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct permit *permit = permit_of(answer->subject);
    const struct zk_reply *reply = answer->reply;
    enum look look = answer->tag & ((1 << LOOK_BITS) - 1);
    hf_error why;
    permit->ticket.requests--;
    if (answer->tag >> LOOK_BITS != permit->generation)
        return;
    bool read = reply && (reply->error == ZK_OK || reply->error == ZK_NONODE);
    if (look == LOOK_LEASES && permit->watching && !(reply && reply->error == ZK_OK))
        hf__zk_watcher_drop(&permit->watcher);
    if (look == LOOK_LIMIT && reply) {
        read_limit(permit, me->layout, reply);
    } else if (look == LOOK_FOLDER && read) {
        permit->clash = hf__zk_kind_clash(me->layout, reply->names, reply->count,
                                          permit->ticket.kind);
    } else if (look == LOOK_LEASES && read) {
        permit->leases_missing = reply->error == ZK_NONODE;
        hf__zk_permit_count(permit, me->layout, reply);
        look_done(me, permit);
    } else if (look == LOOK_LEASES) {
        zk_answer_error(answer, &why);
        if (reply)
            hf__zk_permit_refuse(me, permit, &why);
        else
            hf__zk_permit_pause(me, permit, &why);
    }
}

static void look_send(struct permit *permit,
                      int (*call)(struct zk *, const char *, bool, zk_done *, void *,
                                  uint64_t),
                      struct zk *zk, const char *path, bool watch, enum look look)
{
    permit->ticket.requests++;
    uint64_t tag = (uint64_t)permit->generation << LOOK_BITS | look;
    hf__zk_unsent_answer(zk, call(zk, path, watch, look_reply, &permit->ticket, tag),
                         look_reply, &permit->ticket, tag);
}

/* A reply inside a call only says that there is no connection; none frees the
 * ticket. */
void hf__zk_permit_look(struct zk_session *me, struct permit *permit, bool watch)
{
    const struct lease_folders *at = &permit->folders;
    permit_set_state(permit, PERMIT_LOOK);
    permit->watching = watch;
    permit->was_first =
        permit->qnode.state == QUEUE_NODE_IN || !permit->qnode.queued_told;
    permit->clash = 0;
    if (watch)
        hf__zk_watcher_set(me, &permit->watcher, at->leases, leases_fired);
    hf__zk_gather(me->zk);
    if (!permit->kind_checked)
        look_send(permit, hf__zk_children, me->zk, at->name, false, LOOK_FOLDER);
    look_send(permit, hf__zk_get, me->zk, at->base, false, LOOK_LIMIT);
    look_send(permit, hf__zk_children, me->zk, at->leases, watch, LOOK_LEASES);
    hf__zk_flush(me->zk);
}

/* ---- The ticket ------------------------------------------------------------------ */

static void permit_attempt(struct zk_session *me, struct zk_ticket *ticket)
{
    struct permit *permit = permit_of(ticket);
    if (permit->state == PERMIT_HELD)
        hf__zk_ticket_grant_again(me, ticket);
    else if (permit->state <= PERMIT_QUEUE && permit->qnode.state == QUEUE_NODE_IDLE)
        hf__zk_permit_enter(me, permit);
    else if (ticket->answered)
        hf__zk_ticket_queued(me, ticket);
}

static void permit_withdraw(struct zk_session *me, struct zk_ticket *ticket)
{
    struct permit *permit = permit_of(ticket);
    switch (permit->state) {
    case PERMIT_NONE:
        hf__zk_ticket_withdrawn(me, ticket, HF_GONE);
        break;
    case PERMIT_TAKE: /* its reply tells what to delete */
        break;
    case PERMIT_UNKNOWN:
        hf__zk_permit_find(me, permit);
        break;
    case PERMIT_CHECK:
        hf__zk_kind_probe_drop(me, &permit->probe);
        hf__zk_permit_release(me, permit);
        break;
    case PERMIT_HELD:
        hf__zk_permit_release(me, permit);
        break;
    case PERMIT_RELEASE:
        if (permit->replies_due == 0)
            hf__zk_permit_release(me, permit);
        break;
    default:
        permit_leave_queue(me, permit);
    }
}

static void permit_up(struct zk_session *me, struct zk_ticket *ticket, bool fresh)
{
    struct permit *permit = permit_of(ticket);
    (void)fresh;
    if (permit->state == PERMIT_UNKNOWN)
        hf__zk_permit_find(me, permit);
    else if (permit->state == PERMIT_RELEASE && permit->replies_due == 0)
        hf__zk_permit_release(me, permit);
    else if (permit->state > PERMIT_WAIT || ticket->lease_ended)
        return;
    else if (permit->qnode.state != QUEUE_NODE_IDLE &&
             permit->qnode.state != QUEUE_NODE_IN)
        hf__zk_queue_node_up(me, &permit->qnode);
    else if (ticket->withdrawing)
        permit_withdraw(me, ticket);
    else if (permit->qnode.state == QUEUE_NODE_IDLE)
        hf__zk_permit_enter(me, permit);
    else
        hf__zk_permit_look(me, permit, permit->watching);
}

static void permit_expired(struct zk_session *me, struct zk_ticket *ticket)
{
    struct permit *permit = permit_of(ticket);
    hf__zk_queue_node_expired(&permit->qnode);
    hf__zk_watcher_drop(&permit->watcher);
    hf__zk_kind_probe_drop(me, &permit->probe);
    permit_set_state(permit, PERMIT_NONE);
    permit->count = permit->replies_due = 0;
    permit->try_failed = permit->delete_unanswered = false;
    permit->refusal.code = 0;
}

static void permit_done(struct zk_session *me, struct zk_ticket *ticket)
{
    struct permit *permit = permit_of(ticket);
    hf__zk_kind_probe_drop(me, &permit->probe);
    hf__zk_watcher_end(me, &permit->watcher);
    hf__zk_queue_node_done(me, &permit->qnode);
    hf__free(permit->folders.name);
    hf__free(permit->names);
}

static const struct zk_ticket_ops permit_ops = {
    .attempt = permit_attempt,
    .withdraw = permit_withdraw,
    .up = permit_up,
    .expired = permit_expired,
    .done = permit_done,
};

static bool permit_init(struct zk_session *me, struct permit *permit)
{
    const struct hf_ticket *core_ticket = permit->ticket.core_ticket;
    struct lease_folders *at = &permit->folders;
    permit->permits = core_ticket->permits;
    permit->nodes = hf__zk_lease_node_count(core_ticket->permits);
    if (!hf__zk_lease_folders_write(at, me->layout, core_ticket->kind,
                                    core_ticket->name, core_ticket->name_len))
        return false;
    size_t path = strlen(at->leases) + 1 + NODE_SIZE;
    permit->names = hf__alloc(permit->nodes * sizeof(*permit->names) + path);
    if (!permit->names ||
        hf__zk_queue_node_init(&permit->qnode, &permit->ticket, &queue_node_user,
                               NODE_LOCK, at->locks, strlen(at->locks)) != 0)
        return false;
    permit->node = (char *)permit->names[permit->nodes];
    return true;
}

void hf__zk_permits_attempt(struct zk_session *me, struct hf_ticket *core_ticket)
{
    hf_error why;
    struct zk_ticket *ticket =
        hf__zk_ticket_new(me, core_ticket, sizeof(struct permit), &permit_ops);
    if (!ticket)
        return;
    if (permit_init(me, permit_of(ticket))) {
        hf__zk_permit_enter(me, permit_of(ticket));
        return;
    }
    hf__fail_code(&why, HF_ENOMEM);
    hf__zk_ticket_failed(me, ticket, &why);
}
