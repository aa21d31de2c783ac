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
#include "ticket.h"

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

struct wait {
    struct zk_ticket ticket;
    int64_t gate;        /* czxid of the gate that is waited for; 0: not known yet */
    bool node_may_exist; /* P/hf%wait-<uuid> */
    bool node_exists;    /* it does */
    char *folder;        /* the three paths are in one block, ticket.path */
    char *gate_path;
    char *node;
};

static struct wait *wait_of(struct zk_ticket *ticket)
{
    return HF_CONTAINER(ticket, struct wait, ticket);
}

/* The wait is over: its node is deleted by and by. */
static void wait_end(struct zk_session *me, struct wait *wait, enum goal goal)
{
    hf__zk_watcher_end(me, &wait->ticket.watcher);
    if (wait->node_may_exist)
        hf__zk_orphan_node_add(me, wait->node, strlen(wait->node));
    wait->node_may_exist = false;
    wait->ticket.goal = goal;
    hf__zk_ticket_reset(&wait->ticket, TICKET_IDLE);
}

static void wait_open(struct zk_session *me, struct wait *wait)
{
    wait->ticket.token = (uint64_t)wait->gate + 1;
    wait_end(me, wait, GOAL_OPEN);
}

/* Questions that got no reply are asked again when core does, or at `up`. */
static void wait_fail(struct zk_session *me, struct wait *wait, const hf_error *why)
{
    hf__zk_ticket_fail(me, &wait->ticket, why);
    if (wait->ticket.goal == GOAL_REFUSED)
        wait_end(me, wait, GOAL_REFUSED);
}

static void wait_unsent(struct zk_session *me, struct wait *wait, int rc)
{
    hf_error why;
    if (rc == 0)
        return;
    hf__zk_unsent_why(me->zk, rc, &why);
    wait_fail(me, wait, &why);
}

/* ---- Looking at the gate --------------------------------------------------------- */

static void gate_fired(struct zk_session *me, struct watcher *watcher,
                       enum zk_event_type type)
{
    struct zk_ticket *ticket = HF_CONTAINER(watcher, struct zk_ticket, watcher);
    (void)type;
    if (ticket->goal != GOAL_HOLD ||
        (ticket->state != TICKET_WAIT && ticket->state != TICKET_ENTER))
        return; /* the reply that is due is not believed without the watcher */
    hf__zk_ticket_set(ticket, TICKET_LIST);
    hf__zk_ticket_advance(me, ticket);
}

/* The watch is set first: an event before the reply only causes another look. The first
 * look identifies the gate, behind a sync: this server may not have heard yet of a
 * latch that another client was told is set. */
static void gate_look(struct zk_session *me, struct wait *wait)
{
    struct zk_ticket *ticket = &wait->ticket;
    hf__zk_ticket_begin(ticket, TICKET_LIST);
    hf__zk_watcher_set(me, &ticket->watcher, wait->gate_path, gate_fired);
    hf__zk_gather(me->zk);
    if (!wait->gate)
        hf__zk_sync(me->zk, wait->gate_path, NULL, NULL, 0);
    int rc = TICKET_ASK(ticket, ASK_LIST, hf__zk_get, wait->gate_path, true);
    hf__zk_flush(me->zk);
    if (rc != 0)
        hf__zk_watcher_drop(&ticket->watcher);
    wait_unsent(me, wait, rc);
}

/* Without a watcher the gate has changed since it was read. */
static void wait_on(struct zk_ticket *ticket)
{
    ticket->state = TICKET_WAIT;
    ticket->awaits =
        hf__list_linked(&ticket->watcher.link) ? AWAITS_EVENT : AWAITS_NOTHING;
}

static void gate_found(struct zk_session *me, struct wait *wait, int64_t czxid)
{
    struct zk_ticket *ticket = &wait->ticket;
    if (wait->gate && czxid != wait->gate) {
        wait_open(me, wait);
    } else if (ticket->core_ticket->flags & HF_TICKET_TRY) {
        wait_end(me, wait, GOAL_BUSY);
    } else {
        wait->gate = czxid;
        hf__zk_ticket_set(ticket, TICKET_ENTER);
        if (wait->node_exists)
            wait_on(ticket);
    }
}

static void gate_answered(struct zk_session *me, struct wait *wait,
                          const struct zk_answer *answer)
{
    struct zk_ticket *ticket = &wait->ticket;
    hf_error why;
    int rc = zk_answer_error(answer, &why);
    bool absent = answer->reply && answer->reply->error == ZK_NONODE;
    if (rc != 0)
        hf__zk_watcher_drop(&ticket->watcher);
    if (rc == 0)
        gate_found(me, wait, answer->reply->stat.czxid);
    else if (absent && wait->gate)
        wait_open(me, wait);
    else if (absent)
        hf__zk_ticket_set(ticket, TICKET_CHECK);
    else
        wait_fail(me, wait, &why);
}

/* ---- No gate: the latch is open, unless the name serves another kind ------------- */

static void folder_answered(struct zk_session *me, struct wait *wait,
                            const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    int rc = zk_answer_error(answer, &why);
    if (rc != 0 && !(reply && reply->error == ZK_NONODE)) {
        wait_fail(me, wait, &why);
        return;
    }
    int32_t clash = hf__zk_kind_clash(me->layout, reply->names, reply->count, HF_LATCH);
    if (clash == KIND_MAYBE) {
        hf__zk_ticket_set(&wait->ticket, TICKET_CHECK_PROBE);
    } else if (clash) {
        hf__zk_kind_mismatch(&why, clash, HF_LATCH);
        wait_fail(me, wait, &why);
    } else {
        wait_open(me, wait);
    }
}

static void probe_answered(struct zk_session *me, struct wait *wait, enum request what,
                           const struct zk_answer *answer)
{
    hf_error why;
    if (!hf__zk_ticket_probed(me, &wait->ticket, what, answer))
        return;
    if (!answer->reply) {
        wait_fail(me, wait, answer->why);
    } else if (wait->ticket.clash) {
        hf__zk_kind_mismatch(&why, wait->ticket.clash, HF_LATCH);
        wait_fail(me, wait, &why);
    } else {
        wait_open(me, wait);
    }
}

/* ---- The node of the waiter ------------------------------------------------------ */

static void node_create(struct zk_session *me, struct wait *wait)
{
    struct zk_ticket *ticket = &wait->ticket;
    char line[ZK_DETAILS_SIZE];
    size_t len = hf__zk_details_write(&me->identity, ticket->core_ticket,
                                      me->host->ops->now(me->host), 0, line);
    wait->node_may_exist = true;
    hf__zk_ticket_begin(ticket, TICKET_ENTER);
    wait_unsent(me, wait,
                TICKET_ASK(ticket, ASK_CREATE, hf__zk_create, wait->node, line, len,
                           ZK_EPHEMERAL));
}

/* NONODE: the folder is gone, and the latch with it. */
static void create_answered(struct zk_session *me, struct wait *wait,
                            const struct zk_answer *answer)
{
    struct zk_ticket *ticket = &wait->ticket;
    hf_error why;
    int rc = zk_answer_error(answer, &why);
    bool absent = answer->reply && answer->reply->error == ZK_NONODE;
    wait->node_exists =
        rc == 0 || (answer->reply && answer->reply->error == ZK_NODEEXISTS);
    if (ticket->state != TICKET_ENTER)
        return; /* the gate is looked at again */
    if (wait->node_exists) {
        wait_on(ticket);
    } else if (absent) {
        hf__zk_ticket_set(ticket, TICKET_LIST);
    } else {
        wait_fail(me, wait, &why);
    }
}

static void node_delete(struct zk_session *me, struct wait *wait)
{
    struct zk_ticket *ticket = &wait->ticket;
    hf__zk_watcher_end(me, &ticket->watcher);
    hf__zk_ticket_reset(ticket, wait->node_may_exist ? TICKET_DELETE : TICKET_IDLE);
    if (!wait->node_may_exist)
        return;
    hf__zk_ticket_begin(ticket, TICKET_DELETE);
    hf__zk_ticket_unsent(me, ticket,
                         TICKET_ASK(ticket, ASK_DELETE, hf__zk_delete, wait->node, -1));
}

static void delete_answered(struct zk_session *me, struct wait *wait,
                            const struct zk_answer *answer)
{
    struct zk_ticket *ticket = &wait->ticket;
    hf_error why;
    int rc = zk_answer_error(answer, &why);
    ticket->deleted |= rc == 0 || rc == HF_EUNCERTAIN;
    if (rc != 0 && !(answer->reply && answer->reply->error == ZK_NONODE)) {
        hf__zk_ticket_pause(me, ticket, &why);
        return;
    }
    wait->node_may_exist = false;
    hf__zk_ticket_set(ticket, TICKET_IDLE);
}

/* ---- The ticket ------------------------------------------------------------------ */

static enum action wait_decide(const struct zk_ticket *ticket,
                               const struct facts *facts)
{
    const struct wait *wait = HF_CONTAINER(ticket, const struct wait, ticket);
    return hf__zk_decide_latch(facts, wait->node_may_exist);
}

static void wait_act(struct zk_session *me, struct zk_ticket *ticket,
                     enum action action)
{
    struct wait *wait = wait_of(ticket);
    if (action == DO_LIST) {
        gate_look(me, wait);
    } else if (action == DO_ENTER) {
        node_create(me, wait);
    } else if (action == DO_CHECK) {
        hf__zk_ticket_begin(ticket, TICKET_CHECK);
        wait_unsent(
            me, wait,
            TICKET_ASK(ticket, ASK_CHECK, hf__zk_children, wait->folder, false));
    } else if (action == DO_CHECK_PROBE) {
        hf__zk_ticket_begin(ticket, TICKET_CHECK_PROBE);
        wait_unsent(me, wait, hf__zk_ticket_probe(me, ticket, wait->folder));
    } else {
        node_delete(me, wait);
    }
}

static void wait_record(struct zk_session *me, struct zk_ticket *ticket,
                        enum request what, const struct zk_answer *answer)
{
    struct wait *wait = wait_of(ticket);
    if (what == ASK_LIST)
        gate_answered(me, wait, answer);
    else if (what == ASK_CREATE)
        create_answered(me, wait, answer);
    else if (what == ASK_CHECK)
        folder_answered(me, wait, answer);
    else if (what == ASK_DELETE)
        delete_answered(me, wait, answer);
    else
        probe_answered(me, wait, what, answer);
}

static void wait_expired(struct zk_session *me, struct zk_ticket *ticket)
{
    (void)me;
    wait_of(ticket)->node_may_exist = wait_of(ticket)->node_exists = false;
}

static const struct zk_ticket_ops wait_ops = {
    .decide = wait_decide,
    .act = wait_act,
    .record = wait_record,
    .expired = wait_expired,
};

/* The paths of the folder, the gate and the node, one behind the other. */
static bool wait_name(struct wait *wait)
{
    const struct hf_ticket *core_ticket = wait->ticket.core_ticket;
    char folder[FOLDER_SIZE], uuid[UUID_SIZE];
    size_t len = hf__zk_folder_write(folder, core_ticket->name, core_ticket->name_len);
    size_t room = len + sizeof(NODE_WAIT) + UUID_SIZE;
    wait->folder = wait->ticket.path = hf__alloc(3 * room);
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
    if (core_ticket->store[1]) {
        me->host->ops->granted(me->host, core_ticket, &grant);
        return;
    }
    struct zk_ticket *ticket =
        hf__zk_ticket_new(me, core_ticket, sizeof(struct wait), &wait_ops);
    if (!ticket)
        return;
    if (wait_name(wait_of(ticket)))
        hf__zk_ticket_attempt(me, ticket);
    else
        hf__zk_ticket_no_memory(me, ticket);
}
