/* SPDX-License-Identifier: MIT */
/*
 * Latches: P/hf%latch has what is left to count, P/hf%gate exists while it counts.
 *
 * Both are created in one multi and deleted in one, by the last count-down; an open
 * latch leaves nothing. Counting changes hf%latch alone, so that the waiters, which
 * watch the gate, sleep until it is deleted. Then all of them are woken: that is what a
 * latch is for. A gate that is made again is another node with another czxid: a waiter
 * of the former one knows that it has opened.
 *
 * Each waiter has a node of its own, P/hf%wait-<uuid>, for hf_inspect() alone. It may
 * outlive the wait for a moment: then it is an orphan node. All under the client's
 * lock.
 */
#include "changes.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Counting -------------------------------------------------------------------- */

static const char left_text[] = "holdfast latch left=";

static int latch_left(const struct zk_reply *found, uint64_t *ret_left, hf_error *why)
{
    char text[64];
    size_t skip = sizeof(left_text) - 1, len = found->data.len;
    if (len <= skip || len >= sizeof(text) ||
        memcmp(found->data.at, left_text, skip) != 0)
        return hf__fail(why, HF_ECORRUPT,
                        "the node of the latch has data of another program");
    memcpy(text, found->data.at, len);
    text[len] = '\0';
    *ret_left = strtoull(text + skip, NULL, 10);
    return 0;
}

static void plan_left(struct plan *plan, struct zk_op *op, uint64_t left)
{
    op->data = plan->text;
    op->len =
        (size_t)snprintf(plan->text, sizeof(plan->text), "%s%" PRIu64, left_text, left);
    plan->result = left;
}

static int latch_set(struct zk_session *me, struct hf_request *request,
                     const char *folder, const struct zk_reply *found,
                     struct plan *plan, hf_error *why)
{
    (void)me;
    uint64_t left = 0;
    if (found && latch_left(found, &left, why) != 0)
        return HF_ECORRUPT;
    if (found)
        return hf__fail(why, HF_EBUSY, "the latch is counting: %" PRIu64 " left", left);
    plan_left(plan, hf__zk_plan_add(plan, ZK_OP_CREATE, folder, NODE_LATCH),
              request->number);
    hf__zk_plan_add(plan, ZK_OP_CREATE, folder, NODE_GATE);
    return 0;
}

static int latch_get(struct zk_session *me, struct hf_request *request,
                     const char *folder, const struct zk_reply *found,
                     struct plan *plan, hf_error *why)
{
    (void)me;
    (void)request;
    (void)folder;
    return found ? latch_left(found, &plan->result, why) : 0;
}

static int latch_down(struct zk_session *me, struct hf_request *request,
                      const char *folder, const struct zk_reply *found,
                      struct plan *plan, hf_error *why)
{
    (void)me;
    uint64_t left = 0;
    if (!found)
        return 0; /* it is open */
    if (latch_left(found, &left, why) != 0)
        return HF_ECORRUPT;
    bool opens = left <= request->number;
    struct zk_op *op =
        hf__zk_plan_add(plan, opens ? ZK_OP_DELETE : ZK_OP_SET, folder, NODE_LATCH);
    op->version = found->stat.version;
    if (opens)
        hf__zk_plan_add(plan, ZK_OP_DELETE, folder, NODE_GATE);
    else
        plan_left(plan, op, left - request->number);
    return 0;
}

void hf__zk_latch_ask(struct zk_session *me, struct hf_request *request)
{
    static const struct change_verb set = { NODE_LATCH, HF_LATCH, latch_set };
    static const struct change_verb get = { NODE_LATCH, HF_LATCH, latch_get };
    static const struct change_verb down = { NODE_LATCH, HF_LATCH, latch_down };
    hf__zk_change_ask(me, request,
                      request->verb == HF_LATCH_SET   ? &set
                      : request->verb == HF_LATCH_GET ? &get
                                                      : &down);
}

/* ---- Waiting --------------------------------------------------------------------- */

enum { REPLY_GATE = 1, REPLY_FOLDER, REPLY_NODE, REPLY_DELETE };

struct wait {
    struct zk_ticket ticket;
    struct watcher watcher;
    struct kind_probe probe;
    int64_t gate;        /* czxid of the gate that is waited for; 0: not known yet */
    bool node_may_exist; /* P/hf%wait-<uuid> */
    bool node_exists;    /* it does */
    char *folder;        /* the three paths are in one block */
    char *gate_path;
    char *node;
};

static struct wait *wait_of(struct zk_ticket *ticket)
{
    return HF_CONTAINER(ticket, struct wait, ticket);
}

static zk_done wait_reply;

static void wait_look(struct zk_session *me, struct wait *wait);

static void gate_fired(struct zk_session *me, struct watcher *watcher,
                       enum zk_event_type type)
{
    struct wait *wait = HF_CONTAINER(watcher, struct wait, watcher);
    (void)type;
    if (!wait->ticket.withdrawing)
        wait_look(me, wait);
}

/* The watch is set first: an event before the reply only causes another look. The first
 * look identifies the gate, behind a sync: this server may not have heard yet of a
 * latch that another client was told is set. */
static void wait_look(struct zk_session *me, struct wait *wait)
{
    hf__zk_watcher_set(me, &wait->watcher, wait->gate_path, gate_fired);
    wait->ticket.requests++;
    hf__zk_gather(me->zk);
    if (!wait->gate)
        hf__zk_sync(me->zk, wait->gate_path, NULL, NULL, 0);
    hf__zk_unsent_answer(me->zk,
                         hf__zk_get(me->zk, wait->gate_path, true, wait_reply,
                                    &wait->ticket, REPLY_GATE),
                         wait_reply, &wait->ticket, REPLY_GATE);
    hf__zk_flush(me->zk);
}

static void wait_delete(struct zk_session *me, struct wait *wait)
{
    hf__zk_watcher_end(me, &wait->watcher);
    if (!wait->node_may_exist) {
        hf__zk_ticket_withdrawn(me, &wait->ticket, HF_GONE);
        return;
    }
    wait->ticket.requests++;
    hf__zk_unsent_answer(
        me->zk,
        hf__zk_delete(me->zk, wait->node, -1, wait_reply, &wait->ticket, REPLY_DELETE),
        wait_reply, &wait->ticket, REPLY_DELETE);
}

/* Core forgets a wait that is over, and so does the store, except for its node. */
static void wait_open(struct zk_session *me, struct wait *wait)
{
    struct hf_ticket *core_ticket = wait->ticket.core_ticket;
    struct hf_grant grant = { .token = (uint64_t)wait->gate + 1, .span = 1 };
    hf__zk_watcher_end(me, &wait->watcher);
    if (wait->node_may_exist)
        hf__zk_orphan_node_add(me, wait->node, strlen(wait->node));
    core_ticket->store[0] = 0;
    core_ticket->store[1] = 1; /* asked again, it is still open for this ticket */
    wait->ticket.core_ticket = NULL;
    hf__zk_ticket_free(me, &wait->ticket);
    me->host->ops->granted(me->host, core_ticket, &grant);
}

static void wait_fail(struct zk_session *me, struct wait *wait, const hf_error *why)
{
    bool open = why->code == HF_EUNREACHABLE || why->code == HF_EUNCERTAIN;
    if (!open && wait->node_may_exist)
        hf__zk_orphan_node_add(me, wait->node, strlen(wait->node));
    if (!open)
        hf__zk_watcher_end(me, &wait->watcher);
    hf__zk_ticket_failed(me, &wait->ticket, why);
}

static void wait_queue(struct zk_session *me, struct wait *wait)
{
    char line[ZK_DETAILS_SIZE];
    if (wait->node_exists) {
        hf__zk_ticket_queued(me, &wait->ticket);
        return;
    }
    size_t len = hf__zk_details_write(&me->identity, wait->ticket.core_ticket,
                                      me->host->ops->now(me->host), 0, line);
    wait->node_may_exist = true;
    wait->ticket.requests++;
    hf__zk_unsent_answer(me->zk,
                         hf__zk_create(me->zk, wait->node, line, len, ZK_EPHEMERAL,
                                       wait_reply, &wait->ticket, REPLY_NODE),
                         wait_reply, &wait->ticket, REPLY_NODE);
}

static void probe_done(struct zk_session *me, struct kind_probe *probe, int rc,
                       const hf_error *why)
{
    struct wait *wait = HF_CONTAINER(probe, struct wait, probe);
    if (wait->ticket.withdrawing)
        return;
    if (rc == 0)
        wait_open(me, wait);
    else
        wait_fail(me, wait, why);
}

/* No gate: the latch is open, unless the name serves another kind. */
static void folder_reply(struct zk_session *me, struct wait *wait,
                         const struct zk_reply *reply)
{
    hf_error why;
    int32_t clash = hf__zk_kind_clash(me->layout, reply->names, reply->count, HF_LATCH);
    if (clash == KIND_MAYBE) {
        hf__zk_kind_probe(me, &wait->probe, wait->folder, HF_LATCH, probe_done);
    } else if (clash) {
        hf__zk_kind_mismatch(&why, clash, HF_LATCH);
        wait_fail(me, wait, &why);
    } else {
        wait_open(me, wait);
    }
}

static void gate_reply(struct zk_session *me, struct wait *wait,
                       const struct zk_reply *reply)
{
    bool absent = reply->error == ZK_NONODE;
    if (absent)
        hf__zk_watcher_drop(&wait->watcher);
    if (wait->gate && (absent || reply->stat.czxid != wait->gate)) {
        wait_open(me, wait);
    } else if (absent) {
        wait->ticket.requests++;
        hf__zk_unsent_answer(me->zk,
                             hf__zk_children(me->zk, wait->folder, false, wait_reply,
                                             &wait->ticket, REPLY_FOLDER),
                             wait_reply, &wait->ticket, REPLY_FOLDER);
    } else if (wait->ticket.core_ticket->flags & HF_TICKET_TRY) {
        hf__zk_watcher_end(me, &wait->watcher);
        hf__zk_ticket_busy(me, &wait->ticket);
    } else {
        wait->gate = reply->stat.czxid;
        wait_queue(me, wait);
    }
}

static void node_reply(struct zk_session *me, struct wait *wait,
                       const struct zk_reply *reply, const hf_error *why)
{
    bool there = reply->error == ZK_OK || reply->error == ZK_NODEEXISTS;
    wait->node_exists = there;
    if (there)
        hf__zk_ticket_queued(me, &wait->ticket);
    else if (reply->error == ZK_NONODE) /* the folder is gone, and the latch with it */
        wait_look(me, wait);
    else
        wait_fail(me, wait, why);
}

static void delete_reply(struct zk_session *me, struct wait *wait,
                         const struct zk_reply *reply)
{
    bool there = reply && reply->error == ZK_OK;
    bool gone = reply && reply->error == ZK_NONODE;
    if (there || gone)
        hf__zk_ticket_withdrawn(me, &wait->ticket, there ? HF_WITHDRAWN : HF_GONE);
    else
        hf__zk_ticket_withdrawn(me, &wait->ticket, HF_WITHDRAWAL_UNKNOWN);
}

static void wait_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    const struct zk_reply *reply = answer->reply;
    struct wait *wait = wait_of(answer->subject);
    hf_error why;
    wait->ticket.requests--;
    int rc = zk_answer_error(answer, &why);
    bool absent = reply && reply->error == ZK_NONODE;
    if (answer->tag == REPLY_DELETE) {
        delete_reply(me, wait, reply);
    } else if (wait->ticket.withdrawing) {
        return; /* the reply to the delete, behind this one, ends it */
    } else if (answer->tag == REPLY_NODE && reply) {
        node_reply(me, wait, reply, &why);
    } else if (rc != 0 && !absent) {
        if (answer->tag == REPLY_GATE)
            hf__zk_watcher_drop(&wait->watcher);
        wait_fail(me, wait, &why);
    } else if (answer->tag == REPLY_GATE) {
        gate_reply(me, wait, reply);
    } else {
        folder_reply(me, wait, reply);
    }
}

/* ---- The ticket ------------------------------------------------------------------ */

static void wait_attempt(struct zk_session *me, struct zk_ticket *ticket)
{
    wait_look(me, wait_of(ticket));
}

static void wait_withdraw(struct zk_session *me, struct zk_ticket *ticket)
{
    wait_delete(me, wait_of(ticket));
}

static void wait_up(struct zk_session *me, struct zk_ticket *ticket, bool fresh)
{
    struct wait *wait = wait_of(ticket);
    if (fresh)
        wait->node_may_exist = wait->node_exists = false;
    if (ticket->withdrawing)
        wait_delete(me, wait);
    else
        wait_look(me, wait);
}

static void wait_expired(struct zk_session *me, struct zk_ticket *ticket)
{
    (void)me;
    wait_of(ticket)->node_may_exist = wait_of(ticket)->node_exists = false;
}

static void wait_done(struct zk_session *me, struct zk_ticket *ticket)
{
    struct wait *wait = wait_of(ticket);
    hf__zk_kind_probe_drop(me, &wait->probe);
    hf__zk_watcher_end(me, &wait->watcher);
    hf__free(wait->folder);
}

static const struct zk_ticket_ops wait_ops = {
    .attempt = wait_attempt,
    .withdraw = wait_withdraw,
    .up = wait_up,
    .expired = wait_expired,
    .done = wait_done,
};

/* The paths of the folder, the gate and the node, one behind the other. */
static bool wait_name(struct wait *wait)
{
    const struct hf_ticket *core_ticket = wait->ticket.core_ticket;
    char folder[FOLDER_SIZE], uuid[UUID_SIZE];
    size_t len = hf__zk_folder_write(folder, core_ticket->name, core_ticket->name_len);
    size_t room = len + sizeof(NODE_WAIT) + UUID_SIZE;
    wait->folder = hf__alloc(3 * room);
    if (!wait->folder)
        return false;
    wait->gate_path = wait->folder + room;
    wait->node = wait->gate_path + room;
    hf__zk_uuid_write(uuid, &core_ticket->id);
    snprintf(wait->folder, room, "%s", folder);
    snprintf(wait->gate_path, room, "%s%s", folder, NODE_GATE);
    snprintf(wait->node, room, "%s%s%.*s", folder, NODE_WAIT, UUID_SIZE, uuid);
    return true;
}

void hf__zk_latch_attempt(struct zk_session *me, struct hf_ticket *core_ticket)
{
    struct hf_grant grant = { .token = 1, .span = 1 };
    hf_error why;
    if (core_ticket->store[1]) {
        me->host->ops->granted(me->host, core_ticket, &grant);
        return;
    }
    struct zk_ticket *ticket =
        hf__zk_ticket_new(me, core_ticket, sizeof(struct wait), &wait_ops);
    if (!ticket)
        return;
    if (!wait_name(wait_of(ticket))) {
        hf__fail_code(&why, HF_ENOMEM);
        hf__zk_ticket_failed(me, ticket, &why);
        return;
    }
    wait_attempt(me, ticket);
}
