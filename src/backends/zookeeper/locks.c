/* SPDX-License-Identifier: MIT */
/*
 * Mutex, reentrant, fair, read, write: a ticket with one queue node in the folder of
 * its name.
 *
 * All are first come, first served, so mutex and fair are the same. A try enters the
 * queue too and is withdrawn when it is not the first: only a write is sure to see
 * every node. That costs two writes for nothing, so a name that was busy the last time
 * (core_ticket->hint) is looked at first, behind a sync.
 *
 * Downgrade is Curator's (5.5 and later): a reader's node with the writer's number
 * replaces the writer's node, both in one transaction.
 */
#include "queue.h"
#include "ticket.h"

#include "../../base/error.h"

#include <string.h>

struct lock {
    struct zk_ticket ticket;
    struct hf_request *request; /* downgrade; NULL: none, or forgotten by core */
};

static struct lock *lock_of(struct zk_ticket *ticket)
{
    return HF_CONTAINER(ticket, struct lock, ticket);
}

static enum node_form form_of(int32_t kind)
{
    if (kind == HF_READ)
        return NODE_READ;
    return kind == HF_WRITE ? NODE_WRITE : NODE_LOCK;
}

static size_t folder_of(const struct zk_ticket *ticket, char folder[FOLDER_SIZE])
{
    memcpy(folder, ticket->path, ticket->folder_len);
    folder[ticket->folder_len] = '\0';
    return ticket->folder_len;
}

/* ---- The first look -------------------------------------------------------------- */

static void peek(struct zk_session *me, struct zk_ticket *ticket)
{
    char folder[FOLDER_SIZE];
    hf_error why;
    folder_of(ticket, folder);
    hf__zk_ticket_begin(ticket, TICKET_PEEK);
    hf__zk_gather(me->zk);
    hf__zk_sync(me->zk, folder, NULL, NULL, 0);
    int rc = TICKET_ASK(ticket, ASK_PEEK, hf__zk_children, folder, false);
    hf__zk_flush(me->zk);
    if (rc == 0)
        return;
    hf__zk_unsent_why(me->zk, rc, &why);
    hf__zk_ticket_fail(me, ticket, &why);
}

static void peek_answered(struct zk_session *me, struct zk_ticket *ticket,
                          const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    struct queue_view view;
    if (!reply) {
        hf_error why = *answer->why;
        why.code = HF_EUNREACHABLE; /* it was a question only */
        hf__zk_ticket_fail(me, ticket, &why);
        return;
    }
    hf__zk_queue_judge(&view, me->layout, ticket->form, NULL, 0, &ticket->id,
                       reply->names, reply->count);
    if (reply->error == ZK_OK && view.blockers > 0 && !view.mismatch) {
        ticket->goal = GOAL_BUSY;
        hf__zk_ticket_set(ticket, TICKET_IDLE);
    } else {
        hf__zk_ticket_set(ticket, TICKET_ENTER);
    }
}

/* ---- Other kinds ----------------------------------------------------------------- */

/* Semaphores, latches and cells have their own children in the folder. Checked once, by
 * the first listing that shows our node: a client that comes later sees us. */
static void kind_check(struct zk_session *me, struct zk_ticket *ticket,
                       const struct zk_reply *reply)
{
    hf_error why;
    int32_t clash =
        hf__zk_kind_clash(me->layout, reply->names, reply->count, ticket->kind);
    if (clash == KIND_MAYBE) {
        hf__zk_ticket_set(ticket, TICKET_PROBE);
    } else if (clash == HF_LATCH || clash == HF_CELL) {
        hf__zk_kind_mismatch(&why, clash, ticket->kind);
        hf__zk_ticket_refuse(ticket, &why);
    } else { /* other locks: queue.c decides which was the first */
        ticket->kind_checked = true;
    }
}

static void probe(struct zk_session *me, struct zk_ticket *ticket)
{
    char folder[FOLDER_SIZE];
    folder_of(ticket, folder);
    hf__zk_ticket_begin(ticket, TICKET_PROBE);
    int rc = hf__zk_ticket_probe(me, ticket, folder);
    if (rc != 0)
        hf__zk_ticket_reset(ticket, TICKET_LIST);
    hf__zk_ticket_unsent(me, ticket, rc);
}

static void probe_answered(struct zk_session *me, struct zk_ticket *ticket,
                           enum request what, const struct zk_answer *answer)
{
    hf_error why;
    if (!hf__zk_ticket_probed(me, ticket, what, answer))
        return;
    hf__zk_ticket_set(ticket, TICKET_LIST);
    if (!answer->reply) {
        hf__zk_ticket_pause(me, ticket, answer->why);
    } else if (ticket->clash) {
        hf__zk_kind_mismatch(&why, ticket->clash, ticket->kind);
        hf__zk_ticket_refuse(ticket, &why);
    } else {
        ticket->kind_checked = true;
    }
}

/* ---- Downgrade ------------------------------------------------------------------- */

static void downgrade_answer(struct zk_session *me, struct lock *lock, int rc,
                             const hf_error *why)
{
    struct hf_request *request = lock->request;
    lock->request = NULL;
    if (request)
        me->host->ops->answered(me->host, request, rc, why);
}

/* It is held as before, or as a reader. */
static void downgrade_over(struct zk_session *me, struct zk_ticket *ticket)
{
    hf__zk_ticket_set(ticket, TICKET_HELD);
    ticket->node = ticket->path;
    hf__zk_interest_watch(me, ticket);
}

static void downgrade_answered(struct zk_session *me, struct zk_ticket *ticket,
                               const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    struct lock *lock = lock_of(ticket);
    hf_error why;
    int rc = zk_answer_error(answer, &why);
    if (rc == 0 || (reply && reply->error == ZK_NODEEXISTS)) {
        memcpy(ticket->path, ticket->predecessor, strlen(ticket->predecessor) + 1);
        ticket->form = NODE_READ;
        ticket->kind = HF_READ;
        downgrade_over(me, ticket);
        downgrade_answer(me, lock, 0, NULL);
    } else if (reply && reply->error == ZK_NONODE) {
        /* Our own node does not exist, and so the new one was not made. */
        hf__zk_ticket_set(ticket, TICKET_HELD);
        hf__zk_ticket_lost(me, ticket);
        rc = hf__fail_code(&why, HF_ELOST);
        downgrade_answer(me, lock, rc, &why);
    } else if (rc == HF_EUNCERTAIN) {
        ticket->awaits = AWAITS_UP;
    } else {
        downgrade_over(me, ticket);
        downgrade_answer(me, lock, rc, &why);
    }
}

static void downgrade_send(struct zk_session *me, struct zk_ticket *ticket)
{
    char data[ZK_DETAILS_SIZE];
    int64_t now = me->host->ops->now(me->host);
    struct hf_ticket reader = *ticket->core_ticket;
    hf_error why;
    reader.kind = HF_READ;
    struct zk_op ops[2] = {
        { .what = ZK_OP_CREATE,
          .path = ticket->predecessor,
          .data = data,
          .len = hf__zk_details_write(&me->identity, &reader, now, ticket->token, data),
          .mode = ZK_EPHEMERAL },
        { .what = ZK_OP_DELETE, .path = ticket->path, .version = -1 },
    };
    hf__zk_ticket_begin(ticket, TICKET_DOWNGRADE);
    int rc = TICKET_ASK(ticket, ASK_DOWNGRADE, hf__zk_multi, ops, 2);
    if (rc == 0)
        return;
    hf__zk_unsent_why(me->zk, rc, &why);
    downgrade_over(me, ticket);
    downgrade_answer(me, lock_of(ticket), rc, &why);
}

/* The path of the reader's node is kept in `predecessor`: a holder has none. */
static void reader_path_write(struct zk_session *me, struct zk_ticket *ticket)
{
    struct node node;
    char name[NODE_ROOM];
    const char *own = ticket->path + ticket->folder_len + 1;
    hf__zk_node_parse(&node, me->layout, own, strlen(own));
    size_t len = hf__zk_node_name_write(name, me->layout, NODE_READ, &ticket->id);
    memcpy(name + len, node.number, node.number_len);
    hf__zk_queue_node_join(ticket, ticket->predecessor, name, len + node.number_len);
}

void hf__zk_downgrade(struct zk_session *me, struct hf_request *request)
{
    hf_error why;
    struct zk_ticket *ticket = ticket_of(request->ticket);
    if (!ticket || !ticket_is_held(ticket)) {
        hf__fail_code(&why, HF_ELOST);
        me->host->ops->answered(me->host, request, HF_ELOST, &why);
        return;
    }
    lock_of(ticket)->request = request;
    if (ticket->kind == HF_READ) {
        downgrade_answer(me, lock_of(ticket), 0, NULL);
    } else if (ticket->state != TICKET_DOWNGRADE) {
        /* That node's end will not be the end of the hold. */
        hf__zk_watcher_end(me, &ticket->own_watcher);
        ticket->node = NULL;
        reader_path_write(me, ticket);
        hf__zk_ticket_set(ticket, TICKET_DOWNGRADE);
        hf__zk_ticket_advance(me, ticket);
    }
}

void hf__zk_downgrade_forget(struct zk_session *me, const void *request)
{
    for (HF_EACH(link, &me->tickets)) {
        struct zk_ticket *ticket = HF_CONTAINER(link, struct zk_ticket, link);
        if ((ticket->kind == HF_WRITE || ticket->kind == HF_READ) &&
            lock_of(ticket)->request == request)
            lock_of(ticket)->request = NULL;
    }
}

/* ---- The ticket ------------------------------------------------------------------ */

static enum action lock_decide(const struct zk_ticket *ticket,
                               const struct facts *facts)
{
    struct facts known = *facts;
    known.was_busy = ticket->core_ticket && ticket->core_ticket->hint;
    return hf__zk_decide_lock(&known);
}

static void lock_act(struct zk_session *me, struct zk_ticket *ticket,
                     enum action action)
{
    /* Either node may be there. */
    if (action == DO_DELETE && ticket->state == TICKET_DOWNGRADE)
        hf__zk_orphan_node_add(me, ticket->predecessor, strlen(ticket->predecessor));
    if (action == DO_ENTER)
        ticket->kind_checked = false;
    if (action == DO_PEEK)
        peek(me, ticket);
    else if (action == DO_PROBE)
        probe(me, ticket);
    else if (action == DO_GRANT)
        hf__zk_ticket_granted(me, ticket, ticket->path);
    else if (action == DO_DOWNGRADE)
        downgrade_send(me, ticket);
    else
        hf__zk_queue_node_act(me, ticket, action);
}

static void lock_record(struct zk_session *me, struct zk_ticket *ticket,
                        enum request what, const struct zk_answer *answer)
{
    if (what == ASK_PEEK)
        peek_answered(me, ticket, answer);
    else if (what == ASK_DOWNGRADE)
        downgrade_answered(me, ticket, answer);
    else if (what >= ASK_PROBE && what <= ASK_PROBE_LAST)
        probe_answered(me, ticket, what, answer);
    else
        hf__zk_queue_node_record(me, ticket, what, answer);
    if (what == ASK_LIST && !ticket->kind_checked && ticket->goal == GOAL_HOLD &&
        (ticket->state == TICKET_FIRST || ticket->state == TICKET_WAIT))
        kind_check(me, ticket, answer->reply);
}

static void lock_expired(struct zk_session *me, struct zk_ticket *ticket)
{
    hf_error why;
    hf__fail_code(&why, HF_ELOST);
    downgrade_answer(me, lock_of(ticket), HF_ELOST, &why);
}

static void lock_done(struct zk_session *me, struct zk_ticket *ticket)
{
    hf_error why;
    hf__fail_code(&why, HF_ELOST);
    if (!me->closing)
        downgrade_answer(me, lock_of(ticket), HF_ELOST, &why);
}

static const struct zk_ticket_ops lock_ops = {
    .decide = lock_decide,
    .act = lock_act,
    .record = lock_record,
    .expired = lock_expired,
    .done = lock_done,
};

void hf__zk_lock_attempt(struct zk_session *me, struct hf_ticket *core_ticket)
{
    char folder[FOLDER_SIZE];
    struct zk_ticket *ticket =
        hf__zk_ticket_new(me, core_ticket, sizeof(struct lock), &lock_ops);
    if (!ticket)
        return;
    size_t len = hf__zk_folder_write(folder, core_ticket->name, core_ticket->name_len);
    if (hf__zk_queue_node_init(ticket, form_of(core_ticket->kind), folder, len) != 0)
        hf__zk_ticket_no_memory(me, ticket);
    else
        hf__zk_ticket_attempt(me, ticket);
}
