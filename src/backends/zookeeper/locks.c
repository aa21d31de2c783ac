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
#include "kinds.h"
#include "queue.h"

#include "../../base/error.h"

#include <string.h>

enum { HINT_BUSY = 1 };

struct lock {
    struct zk_ticket ticket;
    struct queue_node qnode;
    bool try_failed; /* a try that is not the first: withdraw, then say busy */
    bool peeking;    /* lists the folder before it enters */
    /* ticket.downgrading: a writer that becomes a reader, not known to be one yet. */
    struct hf_request *request; /* downgrade; NULL: none, or forgotten by core */
    struct kind_probe probe;
};

static struct lock *lock_of(struct zk_ticket *ticket)
{
    return HF_CONTAINER(ticket, struct lock, ticket);
}

static struct lock *lock_of_node(struct queue_node *qnode)
{
    return HF_CONTAINER(qnode, struct lock, qnode);
}

static enum node_form form_of(int32_t kind)
{
    if (kind == HF_READ)
        return NODE_READ;
    return kind == HF_WRITE ? NODE_WRITE : NODE_LOCK;
}

/* ---- The queue node -------------------------------------------------------------- */

static void lock_admitted(struct zk_session *me, struct queue_node *qnode,
                          int64_t since_ns)
{
    struct zk_ticket *ticket = qnode->ticket;
    ticket->core_ticket->hint = 0;
    hf__zk_ticket_granted(me, ticket, qnode->path, (uint64_t)qnode->czxid, since_ns);
}

static void lock_queued(struct zk_session *me, struct queue_node *qnode)
{
    struct lock *lock = lock_of_node(qnode);
    if (lock->ticket.core_ticket->flags & HF_TICKET_TRY) {
        lock->try_failed = true;
        hf__zk_queue_node_withdraw(me, qnode);
    } else {
        hf__zk_ticket_queued(me, &lock->ticket);
    }
}

static void lock_failed(struct zk_session *me, struct queue_node *qnode,
                        const hf_error *why)
{
    hf__zk_ticket_failed(me, qnode->ticket, why);
}

static void lock_withdrawn(struct zk_session *me, struct queue_node *qnode,
                           enum hf_withdrawal answer)
{
    struct lock *lock = lock_of_node(qnode);
    struct zk_ticket *ticket = &lock->ticket;
    hf_error why;
    if (!lock->try_failed || ticket->withdrawing) {
        hf__zk_ticket_withdrawn(me, ticket, answer);
    } else if (!zk_is_withdrawn(answer)) {
        hf__fail_code(&why, HF_EUNCERTAIN);
        hf__zk_ticket_failed(me, ticket, &why);
    } else {
        ticket->core_ticket->hint = HINT_BUSY;
        hf__zk_ticket_busy(me, ticket);
    }
}

static void probe_done(struct zk_session *me, struct kind_probe *probe, int rc,
                       const hf_error *why)
{
    struct queue_node *qnode = &HF_CONTAINER(probe, struct lock, probe)->qnode;
    if (qnode->state != QUEUE_NODE_LISTING || qnode->withdrawing)
        return;
    if (rc == HF_EMISMATCH) {
        hf__zk_queue_node_refuse(me, qnode, why);
    } else {
        qnode->kind_checked = rc == 0;
        /* If the probe got no reply the listing gets none either. */
        hf__zk_queue_node_list(me, qnode);
    }
}

/* Semaphores, latches and cells have their own children in the folder. */
static bool lock_check(struct zk_session *me, struct queue_node *qnode,
                       const struct zk_reply *reply)
{
    struct lock *lock = lock_of_node(qnode);
    const struct hf_ticket *core_ticket = lock->ticket.core_ticket;
    hf_error why;
    int32_t clash =
        hf__zk_kind_clash(me->layout, reply->names, reply->count, core_ticket->kind);
    if (clash == KIND_MAYBE) {
        char folder[FOLDER_SIZE];
        hf__zk_folder_write(folder, core_ticket->name, core_ticket->name_len);
        hf__zk_kind_probe(me, &lock->probe, folder, core_ticket->kind, probe_done);
        return false;
    }
    if (clash != HF_LATCH && clash != HF_CELL)
        return true; /* other locks: queue.c decides which was the first */
    hf__zk_kind_mismatch(&why, clash, core_ticket->kind);
    hf__zk_queue_node_refuse(me, qnode, &why);
    return false;
}

static const struct queue_node_user lock_user = {
    .admitted = lock_admitted,
    .queued = lock_queued,
    .failed = lock_failed,
    .withdrawn = lock_withdrawn,
    .check = lock_check,
};

/* ---- Attempts -------------------------------------------------------------------- */

static void peek_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct lock *lock = answer->subject;
    const struct zk_reply *reply = answer->reply;
    struct queue_view view;
    hf_error error;
    lock->ticket.requests--;
    lock->peeking = false;
    if (!reply) {
        error = *answer->why;
        error.code = error.code == HF_ENOMEM ? HF_ENOMEM : HF_EUNREACHABLE;
        hf__zk_ticket_failed(me, &lock->ticket, &error);
        return;
    }
    hf__zk_queue_judge(&view, me->layout, lock->qnode.form, NULL, 0, &lock->ticket.id,
                       reply->names, reply->count);
    if (reply->error == ZK_OK && view.blockers > 0 && !view.mismatch)
        hf__zk_ticket_busy(me, &lock->ticket);
    else
        hf__zk_queue_node_enter(me, &lock->qnode);
}

static void peek(struct zk_session *me, struct lock *lock)
{
    char folder[FOLDER_SIZE];
    hf__zk_folder_write(folder, lock->ticket.core_ticket->name,
                        lock->ticket.core_ticket->name_len);
    lock->peeking = true;
    lock->ticket.requests++;
    hf__zk_gather(me->zk);
    hf__zk_sync(me->zk, folder, NULL, NULL, 0);
    hf__zk_unsent_answer(me->zk,
                         hf__zk_children(me->zk, folder, false, peek_reply, lock, 0),
                         peek_reply, lock, 0);
    hf__zk_flush(me->zk);
}

static void lock_start(struct zk_session *me, struct lock *lock)
{
    const struct hf_ticket *core_ticket = lock->ticket.core_ticket;
    lock->try_failed = false;
    if ((core_ticket->flags & HF_TICKET_TRY) && core_ticket->hint == HINT_BUSY) {
        peek(me, lock);
        return;
    }
    hf__zk_queue_node_enter(me, &lock->qnode);
}

static void lock_attempt(struct zk_session *me, struct zk_ticket *ticket)
{
    struct lock *lock = lock_of(ticket);
    hf_error why;
    if (ticket->held) {
        hf__zk_ticket_grant_again(me, ticket);
    } else if (ticket->withdrawing || ticket->lease_ended || lock->peeking) {
        return;
    } else if (lock->qnode.state == QUEUE_NODE_IDLE) {
        lock->qnode.queued_told =
            false; /* so that this attempt is answered, with busy if it is a try */
        lock_start(me, lock);
    } else if (!hf__zk_is_up(me->zk)) {
        hf__fail(&why, HF_EUNCERTAIN, "there is no connection to ZooKeeper");
        hf__zk_ticket_failed(me, ticket, &why);
    } else if (ticket->answered) {
        hf__zk_ticket_queued(me, ticket);
    }
}

static void lock_withdraw(struct zk_session *me, struct zk_ticket *ticket)
{
    struct lock *lock = lock_of(ticket);
    if (lock->ticket.downgrading) {
        hf__zk_orphan_node_add(me, lock->qnode.predecessor,
                               strlen(lock->qnode.predecessor));
        lock->ticket.downgrading = false;
    }
    hf__zk_queue_node_withdraw(me, &lock->qnode);
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

static void downgrade_made(struct zk_session *me, struct lock *lock)
{
    size_t len = strlen(lock->qnode.predecessor);
    memcpy(lock->qnode.path, lock->qnode.predecessor, len + 1);
    lock->qnode.form = NODE_READ;
    lock->ticket.kind = HF_READ;
    lock->ticket.downgrading = false;
    downgrade_answer(me, lock, 0, NULL);
}

/* Our own node does not exist, and so the new one was not made: the hold is lost. */
static bool node_is_gone(const struct zk_reply *reply)
{
    return reply && reply->error == ZK_NONODE;
}

static void downgrade_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct lock *lock = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error error;
    lock->ticket.requests--;
    if (!lock->ticket.downgrading)
        return; /* withdrawn meanwhile */
    int rc = zk_answer_error(answer, &error);
    if (rc == 0 || (reply && reply->error == ZK_NODEEXISTS)) {
        downgrade_made(me, lock);
    } else if (node_is_gone(reply)) {
        lock->ticket.downgrading = false;
        hf__zk_ticket_lost(me, &lock->ticket);
        rc = hf__fail_code(&error, HF_ELOST);
        downgrade_answer(me, lock, rc, &error);
    } else if (rc != HF_EUNCERTAIN) {
        lock->ticket.downgrading = false;
        downgrade_answer(me, lock, rc, &error);
    }
    if (lock->ticket.held && !lock->ticket.downgrading)
        hf__zk_interest_watch(me, &lock->ticket);
}

static void downgrade_send(struct zk_session *me, struct lock *lock)
{
    char data[ZK_DETAILS_SIZE];
    int64_t now = me->host->ops->now(me->host);
    struct hf_ticket reader = *lock->ticket.core_ticket;
    reader.kind = HF_READ;
    struct zk_op ops[2] = {
        { .what = ZK_OP_CREATE,
          .path = lock->qnode.predecessor,
          .data = data,
          .len = hf__zk_details_write(&me->identity, &reader, now, lock->ticket.token,
                                      data),
          .mode = ZK_EPHEMERAL },
        { .what = ZK_OP_DELETE, .path = lock->qnode.path, .version = -1 },
    };
    lock->ticket.requests++;
    hf__zk_unsent_answer(me->zk, hf__zk_multi(me->zk, ops, 2, downgrade_reply, lock, 0),
                         downgrade_reply, lock, 0);
}

/* The path of the reader's node is kept in `predecessor`: a holder has none. */
static void reader_path_write(struct zk_session *me, struct lock *lock)
{
    struct queue_node *qnode = &lock->qnode;
    struct node node;
    const char *own = qnode->path + qnode->folder_len + 1;
    char *to = qnode->predecessor + qnode->folder_len + 1;
    hf__zk_node_parse(&node, me->layout, own, strlen(own));
    memcpy(qnode->predecessor, qnode->path, qnode->folder_len + 1);
    to += hf__zk_node_name_write(to, me->layout, NODE_READ, &lock->ticket.id);
    memcpy(to, node.number, node.number_len);
    to[node.number_len] = '\0';
}

void hf__zk_downgrade(struct zk_session *me, struct hf_request *request)
{
    hf_error why;
    struct zk_ticket *ticket = ticket_of(request->ticket);
    struct lock *lock = ticket ? lock_of(ticket) : NULL;
    if (!lock || !ticket->held) {
        hf__fail_code(&why, HF_ELOST);
        me->host->ops->answered(me->host, request, HF_ELOST, &why);
        return;
    }
    lock->request = request;
    if (ticket->kind == HF_READ) {
        downgrade_answer(me, lock, 0, NULL);
    } else if (!ticket->downgrading) {
        /* That node's end will not be the end of the hold. */
        hf__zk_watcher_end(me, &ticket->own_watcher);
        reader_path_write(me, lock);
        ticket->downgrading = true;
        downgrade_send(me, lock);
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

/* ---- The session ----------------------------------------------------------------- */

static void lock_up(struct zk_session *me, struct zk_ticket *ticket, bool fresh)
{
    (void)fresh;
    struct lock *lock = lock_of(ticket);
    if (lock->ticket.downgrading && !ticket->requests)
        downgrade_send(me, lock);
    if (lock->qnode.state != QUEUE_NODE_IDLE)
        hf__zk_queue_node_up(me, &lock->qnode);
    else if (ticket->core_ticket && !ticket->withdrawing && !ticket->lease_ended &&
             !lock->peeking) {
        if (ticket->answered)
            lock_start(me, lock); /* its queue node ended with the former session */
        else
            me->host->ops->notice(me->host, ticket->core_ticket);
    }
}

static void lock_expired(struct zk_session *me, struct zk_ticket *ticket)
{
    struct lock *lock = lock_of(ticket);
    hf_error why;
    ticket->downgrading = lock->try_failed = false;
    hf__fail_code(&why, HF_ELOST);
    downgrade_answer(me, lock, HF_ELOST, &why);
    hf__zk_queue_node_expired(&lock->qnode);
}

static void lock_done(struct zk_session *me, struct zk_ticket *ticket)
{
    struct lock *lock = lock_of(ticket);
    hf_error why;
    hf__fail_code(&why, HF_ELOST);
    if (!me->closing)
        downgrade_answer(me, lock, HF_ELOST, &why);
    hf__zk_kind_probe_drop(me, &lock->probe);
    hf__zk_queue_node_done(me, &lock->qnode);
}

static const struct zk_ticket_ops lock_ops = {
    .attempt = lock_attempt,
    .withdraw = lock_withdraw,
    .up = lock_up,
    .expired = lock_expired,
    .done = lock_done,
};

void hf__zk_lock_attempt(struct zk_session *me, struct hf_ticket *core_ticket)
{
    char folder[FOLDER_SIZE];
    hf_error why;
    struct zk_ticket *ticket =
        hf__zk_ticket_new(me, core_ticket, sizeof(struct lock), &lock_ops);
    if (!ticket)
        return;
    size_t len = hf__zk_folder_write(folder, core_ticket->name, core_ticket->name_len);
    if (hf__zk_queue_node_init(&lock_of(ticket)->qnode, ticket, &lock_user,
                               form_of(core_ticket->kind), folder, len) != 0) {
        hf__fail_code(&why, HF_ENOMEM);
        hf__zk_ticket_failed(me, ticket, &why);
        return;
    }
    lock_attempt(me, ticket);
}
