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
 * rivals waits for two replies in all. What it says of the leases counts only if no
 * ticket was before ours when it was sent; what it says of the limit counts in any
 * case.
 */
#include "permits.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

/* ---- Looking --------------------------------------------------------------------- */

static void leases_fired(struct zk_session *me, struct watcher *watcher,
                         enum zk_event_type type)
{
    struct zk_ticket *ticket = HF_CONTAINER(watcher, struct zk_ticket, watcher);
    struct permit *permit = permit_of(ticket);
    (void)type;
    if (ticket->state != TICKET_FIRST)
        return;
    if (permit->look == LOOK_DUE)
        permit->look = LOOK_OUTDATED;
    if (ticket->awaits == AWAITS_EVENT)
        ticket->awaits = AWAITS_NOTHING;
    hf__zk_ticket_advance(me, ticket);
}

static void look(struct zk_session *me, struct permit *permit)
{
    const struct lease_folders *at = &permit->folders;
    struct zk_ticket *ticket = &permit->ticket;
    int rc = 0;
    permit->look = LOOK_DUE;
    permit->was_first = ticket->state == TICKET_FIRST || ticket->told == TOLD_NOTHING;
    permit->clash = 0;
    if (permit->watching)
        hf__zk_watcher_set(me, &ticket->watcher, at->leases, leases_fired);
    hf__zk_gather(me->zk);
    if (!ticket->kind_checked)
        rc = TICKET_ASK(ticket, ASK_LOOK_FOLDER, hf__zk_children, at->name, false);
    if (rc == 0)
        rc = TICKET_ASK(ticket, ASK_LOOK_LIMIT, hf__zk_get, at->base, false);
    if (rc == 0)
        rc = TICKET_ASK(ticket, ASK_LOOK_LEASES, hf__zk_children, at->leases,
                        permit->watching);
    hf__zk_flush(me->zk);
    if (rc == 0)
        return;
    permit->look = LOOK_NONE;
    if (permit->watching)
        hf__zk_watcher_drop(&ticket->watcher);
    if (ticket->awaits != AWAITS_REPLY) /* else a reply of the queue comes */
        hf__zk_ticket_unsent(me, ticket, rc);
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

/* What the look has shown counts while the place in the queue is known. */
static void look_over(struct permit *permit)
{
    enum ticket_state state = permit->ticket.state;
    bool placed =
        state == TICKET_FIRST || state == TICKET_WAIT || state == TICKET_WAIT_DENIED;
    permit->look = placed && permit->look == LOOK_DUE ? LOOK_DONE : LOOK_NONE;
}

/* Unless the queue node has a request under way, whose reply comes, or is paused. */
static void look_lost(struct zk_session *me, struct permit *permit, const hf_error *why)
{
    struct zk_ticket *ticket = &permit->ticket;
    permit->look = LOOK_NONE;
    if (ticket->awaits == AWAITS_NOTHING || ticket->awaits == AWAITS_EVENT)
        hf__zk_ticket_pause(me, ticket, why);
}

static void leases_answered(struct zk_session *me, struct permit *permit,
                            const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    struct zk_ticket *ticket = &permit->ticket;
    hf_error why;
    if (permit->watching && !(reply && reply->error == ZK_OK))
        hf__zk_watcher_drop(&ticket->watcher);
    if (reply && (reply->error == ZK_OK || reply->error == ZK_NONODE)) {
        permit->leases_missing = reply->error == ZK_NONODE;
        hf__zk_permit_count(permit, me->layout, reply);
        look_over(permit);
        return;
    }
    zk_answer_error(answer, &why);
    if (!reply) {
        look_lost(me, permit, &why);
        return;
    }
    permit->look = LOOK_NONE;
    hf__zk_ticket_refuse(ticket, &why);
}

/* ---- Judging --------------------------------------------------------------------- */

static void refuse_limit(struct permit *permit)
{
    hf_error why;
    hf__fail(&why, HF_EMISMATCH, "the semaphore is in use with a limit of %u, not %u",
             permit->limit, permit->ticket.core_ticket->limit);
    hf__zk_ticket_refuse(&permit->ticket, &why);
}

/* The first one, but too few permits are free. */
static void wait_for_permits(struct permit *permit)
{
    if (permit->watching)
        permit->ticket.awaits = hf__list_linked(&permit->ticket.watcher.link)
                                    ? AWAITS_EVENT
                                    : AWAITS_NOTHING;
    permit->watching = true;
}

static void judge_permits(struct permit *permit)
{
    struct zk_ticket *ticket = &permit->ticket;
    const struct hf_ticket *core_ticket = ticket->core_ticket;
    bool first = permit->was_first && ticket->state == TICKET_FIRST;
    bool other =
        permit->limit_state == LIMIT_THERE && permit->limit != core_ticket->limit;
    ticket->kind_checked = true;
    if (other && permit->used > 0)
        refuse_limit(permit);
    else if (first && permit->used + core_ticket->permits <= core_ticket->limit)
        hf__zk_ticket_set(ticket, TICKET_TAKE);
    else if (core_ticket->flags & HF_TICKET_TRY)
        ticket->goal = GOAL_BUSY;
    else if (first)
        wait_for_permits(permit);
}

static void judge(struct zk_session *me, struct permit *permit)
{
    struct zk_ticket *ticket = &permit->ticket;
    hf_error why;
    permit->look = LOOK_NONE;
    if (permit->clash == KIND_MAYBE) {
        int rc = hf__zk_ticket_probe(me, ticket, permit->folders.name);
        permit->look = rc == 0 ? LOOK_DUE : LOOK_NONE;
        permit->clash = 0;
        if (ticket->awaits != AWAITS_REPLY)
            hf__zk_ticket_unsent(me, ticket, rc);
    } else if (permit->clash) {
        hf__zk_kind_mismatch(&why, permit->clash, ticket->kind);
        hf__zk_ticket_refuse(ticket, &why);
    } else {
        judge_permits(permit);
    }
}

static void probe_answered(struct zk_session *me, struct permit *permit,
                           enum request what, const struct zk_answer *answer)
{
    struct zk_ticket *ticket = &permit->ticket;
    if (!hf__zk_ticket_probed(me, ticket, what, answer))
        return;
    permit->clash = ticket->clash;
    if (answer->reply)
        look_over(permit);
    else
        look_lost(me, permit, answer->why);
}

/* ---- The ticket ------------------------------------------------------------------ */

static void permit_enter(struct zk_session *me, struct permit *permit)
{
    struct zk_ticket *ticket = &permit->ticket;
    bool first_time = ticket->retries == 0; /* else the folder is made first */
    permit->watching = false;
    hf__zk_gather(me->zk);
    hf__zk_queue_node_act(me, ticket, DO_ENTER);
    if (ticket->state == TICKET_ENTER && first_time) {
        ticket->told = TOLD_NOTHING;
        ticket->kind_checked = false;
        look(me, permit);
    }
    hf__zk_flush(me->zk);
}

static enum action permit_decide(const struct zk_ticket *ticket,
                                 const struct facts *facts)
{
    return hf__zk_decide_permit(
        facts, HF_CONTAINER(ticket, const struct permit, ticket)->look);
}

static void permit_act(struct zk_session *me, struct zk_ticket *ticket,
                       enum action action)
{
    struct permit *permit = permit_of(ticket);
    if (action == DO_ENTER) {
        permit_enter(me, permit);
    } else if (action == DO_LOOK) {
        look(me, permit);
    } else if (action == DO_JUDGE) {
        judge(me, permit);
    } else if (action == DO_GRANT) {
        hf__zk_ticket_granted(me, ticket, permit->node);
    } else {
        if (action == DO_DELETE)
            permit->look = LOOK_NONE; /* its replies are dropped */
        hf__zk_queue_node_act(me, ticket, action);
        hf__zk_permit_take_act(me, permit, action);
    }
}

/* Of a look that does not count any more the replies are passed over. */
static void look_record(struct zk_session *me, struct permit *permit, enum request what,
                        const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    bool read = reply && (reply->error == ZK_OK || reply->error == ZK_NONODE);
    if (permit->look != LOOK_DUE && permit->look != LOOK_OUTDATED)
        return;
    if (what == ASK_LOOK_LEASES)
        leases_answered(me, permit, answer);
    else if (what == ASK_LOOK_LIMIT && reply)
        read_limit(permit, me->layout, reply);
    else if (what == ASK_LOOK_FOLDER && read)
        permit->clash = hf__zk_kind_clash(me->layout, reply->names, reply->count,
                                          permit->ticket.kind);
    else if (what >= ASK_PROBE && what <= ASK_PROBE_LAST)
        probe_answered(me, permit, what, answer);
}

static void permit_record(struct zk_session *me, struct zk_ticket *ticket,
                          enum request what, const struct zk_answer *answer)
{
    struct permit *permit = permit_of(ticket);
    bool probed = what >= ASK_PROBE && what <= ASK_PROBE_LAST;
    bool look = what >= ASK_LOOK_FOLDER && what <= ASK_LOOK_LEASES;
    if (look || (probed && ticket->state != TICKET_CHECK_PROBE))
        look_record(me, permit, what, answer);
    else if (probed || what >= ASK_TAKE)
        hf__zk_permit_take_record(me, permit, what, answer);
    else
        hf__zk_queue_node_record(me, ticket, what, answer);
    if (ticket->state == TICKET_WAIT)
        permit->was_first = false;
}

static void permit_expired(struct zk_session *me, struct zk_ticket *ticket)
{
    struct permit *permit = permit_of(ticket);
    (void)me;
    permit->look = LOOK_NONE;
    permit->count = 0;
}

static void permit_done(struct zk_session *me, struct zk_ticket *ticket)
{
    (void)me;
    hf__free(permit_of(ticket)->folders.name);
    hf__free(permit_of(ticket)->names);
}

static const struct zk_ticket_ops permit_ops = {
    .decide = permit_decide,
    .act = permit_act,
    .record = permit_record,
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
    if (!permit->names || hf__zk_queue_node_init(&permit->ticket, NODE_LOCK, at->locks,
                                                 strlen(at->locks)) != 0)
        return false;
    permit->node = (char *)permit->names[permit->nodes];
    return true;
}

void hf__zk_permits_attempt(struct zk_session *me, struct hf_ticket *core_ticket)
{
    struct zk_ticket *ticket =
        hf__zk_ticket_new(me, core_ticket, sizeof(struct permit), &permit_ops);
    if (!ticket)
        return;
    if (permit_init(me, permit_of(ticket)))
        hf__zk_ticket_attempt(me, ticket);
    else
        hf__zk_ticket_no_memory(me, ticket);
}
