/* SPDX-License-Identifier: MIT */
/*
 * Queue nodes: one node in one queue, from its creation to its end.
 *
 *     IDLE --enter--> ENTERING --> LISTING --> IN
 *       ^                 |         |   ^       |
 *       |                 v         v   |       |
 *       |              UNKNOWN    WAITING       |
 *       +---------------- DELETING <------------+
 *
 * Create and list are sent together, so that a client without rivals waits for one
 * round trip. A waiter watches its predecessor and lists again when that is gone
 * (queue_wait.c).
 *
 * Every request carries the queue node's generation, and a reply of an earlier
 * generation is dropped. A create without a reply is searched by its id, behind a sync,
 * before another one is sent; the node that is found must belong to our session. A
 * delete without a reply is repeated. What stops because the connection is lost goes on
 * in hf__zk_queue_node_up().
 *
 * Under the client's lock. The user's callbacks may withdraw the queue node and may
 * free it, so they are called last, and never while requests are being gathered.
 */
#include "queue_node.h"
#include "queue.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

/* How often parents are made, or a recovery is begun, in vain. Servers that remove
 * empty containers may do so between two of our requests, and often. */
enum { RETRIES = 100 };

static void recover_send(struct zk_session *me, struct queue_node *qnode);
static void delete_send(struct zk_session *me, struct queue_node *qnode);

int hf__zk_queue_node_init(struct queue_node *qnode, struct zk_ticket *ticket,
                           const struct queue_node_user *user, enum node_form form,
                           const char *folder, size_t folder_len)
{
    size_t size = folder_len + 1 + NODE_ROOM;
    *qnode = (struct queue_node){ .ticket = ticket, .user = user, .form = form };
    qnode->path = hf__alloc(2 * size);
    if (!qnode->path)
        return HF_ENOMEM;
    qnode->predecessor = qnode->path + size;
    qnode->folder_len = folder_len;
    memcpy(qnode->path, folder, folder_len);
    return 0;
}

void hf__zk_queue_node_done(struct zk_session *me, struct queue_node *qnode)
{
    hf__zk_watcher_end(me, &qnode->watcher);
    if (qnode->requests)
        hf__zk_forget(me->zk, qnode);
    hf__free(qnode->path);
    qnode->path = NULL;
}

/* ---- Ends ------------------------------------------------------------------------ */

static void qnode_deleted(struct zk_session *me, struct queue_node *qnode,
                          enum hf_withdrawal answer)
{
    hf_error refusal = qnode->refusal;
    qnode_idle(qnode);
    qnode->refusal.code = 0;
    if (refusal.code && !qnode->withdrawing)
        qnode->user->failed(me, qnode, &refusal);
    else
        qnode->user->withdrawn(me, qnode, answer);
}

void hf__zk_queue_node_refuse(struct zk_session *me, struct queue_node *qnode,
                              const hf_error *why)
{
    qnode->refusal = *why;
    delete_send(me, qnode);
}

/* Nothing is on the server. */
static void qnode_fail(struct zk_session *me, struct queue_node *qnode,
                       const hf_error *why)
{
    hf_error copy = *why;
    qnode_idle(qnode);
    if (qnode->withdrawing)
        qnode->user->withdrawn(me, qnode, HF_GONE);
    else
        qnode->user->failed(me, qnode, &copy);
}

void hf__zk_queue_node_pause(struct zk_session *me, struct queue_node *qnode,
                             const hf_error *why)
{
    hf_error copy = *why;
    qnode->reply_due = false;
    if (hf__zk_is_up(me->zk))
        hf__zk_session_retry_soon(me);
    copy.code = HF_EUNCERTAIN;
    if (qnode->withdrawing)
        qnode->user->withdrawn(me, qnode, zk_not_withdrawn(qnode->delete_unanswered));
    else if (!qnode->queued_told)
        qnode->user->failed(me, qnode, &copy);
}

/* ---- Withdrawing ----------------------------------------------------------------- */

static void delete_done(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct queue_node *qnode = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error error;
    if (!reply_is_due(qnode, answer->tag))
        return;
    if (reply && reply->error == ZK_OK) {
        qnode_deleted(me, qnode, HF_WITHDRAWN);
    } else if (reply && reply->error == ZK_NONODE) {
        qnode_deleted(me, qnode, qnode->delete_unanswered ? HF_WITHDRAWN : HF_GONE);
    } else {
        qnode->delete_unanswered |= !reply && answer->why->code == HF_EUNCERTAIN;
        zk_answer_error(answer, &error);
        hf__zk_queue_node_pause(me, qnode, &error);
    }
}

static void delete_send(struct zk_session *me, struct queue_node *qnode)
{
    qnode_begin(qnode, QUEUE_NODE_DELETING);
    qnode->requests++;
    hf__zk_gather(me->zk);
    hf__zk_unsent_answer(
        me->zk,
        hf__zk_delete(me->zk, qnode->path, -1, delete_done, qnode, qnode->generation),
        delete_done, qnode, qnode->generation);
    hf__zk_watcher_end(me, &qnode->watcher);
    hf__zk_flush(me->zk);
}

void hf__zk_queue_node_withdraw(struct zk_session *me, struct queue_node *qnode)
{
    qnode->withdrawing = true;
    switch (qnode->state) {
    case QUEUE_NODE_IDLE:
        qnode->user->withdrawn(me, qnode, HF_GONE);
        break;
    case QUEUE_NODE_ENTERING:
        break; /* its reply tells what to delete */
    case QUEUE_NODE_UNKNOWN:
        if (!qnode->reply_due)
            recover_send(me, qnode);
        break;
    case QUEUE_NODE_DELETING:
        if (!qnode->reply_due)
            delete_send(me, qnode);
        break;
    default:
        delete_send(me, qnode);
    }
}

void hf__zk_queue_node_forget(struct zk_session *me, struct queue_node *qnode)
{
    hf__zk_watcher_end(me, &qnode->watcher);
    qnode_idle(qnode);
}

void hf__zk_queue_node_expired(struct queue_node *qnode)
{
    hf__zk_watcher_drop(&qnode->watcher);
    qnode_idle(qnode);
    qnode->refusal.code = 0;
    qnode->delete_unanswered = false;
}

/* ---- Entering -------------------------------------------------------------------- */

static void parents_done(const struct zk_answer *answer)
{
    struct queue_node *qnode = answer->subject;
    const struct zk_reply *reply = answer->reply;
    if (reply_is_due(qnode, answer->tag) && reply)
        qnode->parents_error = reply->error;
}

/* Below zero: such a node would sort before all others. */
static bool has_wrapped(struct zk_session *me, const struct queue_node *qnode)
{
    struct node node;
    hf__zk_node_parse_number(&node, me->layout, own_name(qnode),
                             strlen(own_name(qnode)));
    return node.form == NODE_OTHER || node.number[0] == '-';
}

static void entered(struct zk_session *me, struct queue_node *qnode,
                    const struct zk_reply *reply)
{
    size_t room = NODE_ROOM + qnode->folder_len;
    hf_error why;
    if (reply->path.len > room || reply->path.len <= qnode->folder_len + 1) {
        hf__fail(&why, HF_ECORRUPT, "the server's reply is malformed");
        qnode->state = QUEUE_NODE_UNKNOWN;
        hf__zk_queue_node_pause(me, qnode, &why);
        return;
    }
    memcpy(qnode->path, reply->path.at, reply->path.len);
    qnode->path[reply->path.len] = '\0';
    qnode->czxid = reply->stat.czxid ? reply->stat.czxid : reply->zxid;
    qnode->state = QUEUE_NODE_LISTING;
    qnode->retries = 0;
    if (qnode->withdrawing) {
        delete_send(me, qnode);
    } else if (has_wrapped(me, qnode)) {
        hf__fail(&why, HF_EFULL,
                 "the numbers of this folder are used up: delete it when it is idle");
        hf__zk_queue_node_refuse(me, qnode, &why);
    }
}

static void parents_missing(struct zk_session *me, struct queue_node *qnode)
{
    hf_error why;
    int32_t error = qnode->parents_error;
    bool refused = error != ZK_OK && error != ZK_NODEEXISTS && error != ZK_NONODE;
    if (qnode->withdrawing || ++qnode->retries > RETRIES || refused) {
        struct zk_reply reply = { .error = refused ? error : ZK_NONODE };
        hf__zk_server_error(&reply, &why);
        qnode_fail(me, qnode, &why);
        return;
    }
    qnode_idle(qnode);
    hf__zk_queue_node_enter(me, qnode);
}

static void create_done(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct queue_node *qnode = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error error;
    if (!reply_is_due(qnode, answer->tag))
        return;
    if (reply && reply->error == ZK_OK) {
        entered(me, qnode, reply);
    } else if (reply && reply->error == ZK_NONODE) {
        parents_missing(me, qnode);
    } else if (zk_answer_error(answer, &error) == HF_EUNCERTAIN) {
        qnode->generation++; /* drops the reply to the list */
        qnode->state = QUEUE_NODE_UNKNOWN;
        hf__zk_queue_node_pause(me, qnode, &error);
    } else if (qnode->sending) {
        qnode->refusal = error; /* hf__zk_queue_node_enter() acts on it */
    } else {
        qnode_fail(me, qnode, &error);
    }
}

static void enter_send(struct zk_session *me, struct queue_node *qnode)
{
    char node[NODE_SIZE], data[ZK_DETAILS_SIZE];
    size_t len =
        hf__zk_node_name_write(node, me->layout, qnode->form, &qnode->ticket->id);
    int64_t now = me->host->ops->now(me->host);
    size_t data_len =
        hf__zk_details_write(&me->identity, qnode->ticket->core_ticket, now, 0, data);
    hf__zk_gather(me->zk);
    if (qnode->retries > 0) {
        qnode->requests++;
        hf__zk_unsent_answer(me->zk,
                             hf__zk_make_folder(me->zk, folder_open(qnode),
                                                parents_done, qnode, qnode->generation),
                             parents_done, qnode, qnode->generation);
    }
    join(qnode, qnode->path, node, len);
    qnode->requests++;
    hf__zk_unsent_answer(me->zk,
                         hf__zk_create(me->zk, qnode->path, data, data_len,
                                       ZK_EPHEMERAL_SEQUENTIAL, create_done, qnode,
                                       qnode->generation),
                         create_done, qnode, qnode->generation);
    qnode->requests++;
    hf__zk_unsent_answer(me->zk,
                         hf__zk_children(me->zk, folder_open(qnode), false,
                                         hf__zk_queue_node_listed, qnode,
                                         qnode->generation),
                         hf__zk_queue_node_listed, qnode, qnode->generation);
    folder_shut(qnode);
    hf__zk_flush(me->zk);
}

void hf__zk_queue_node_enter(struct zk_session *me, struct queue_node *qnode)
{
    hf_error why;
    qnode->withdrawing = qnode->delete_unanswered = qnode->kind_checked = false;
    qnode->parents_error = ZK_OK;
    if (!hf__zk_is_up(me->zk)) {
        hf__fail(&why, HF_EUNREACHABLE, "there is no connection to ZooKeeper");
        qnode_fail(me, qnode, &why);
        return;
    }
    qnode_begin(qnode, QUEUE_NODE_ENTERING);
    qnode->sending = true;
    enter_send(me, qnode);
    qnode->sending = false;
    if (qnode->refusal.code && qnode->state == QUEUE_NODE_ENTERING) {
        why = qnode->refusal;
        qnode->refusal.code = 0;
        qnode_fail(me, qnode, &why);
    }
}

/* ---- Finding a node whose create got no reply ------------------------------------ */

/* The node does not exist, and cannot come any more: the sync came after the create. */
static void recover_nothing(struct zk_session *me, struct queue_node *qnode)
{
    qnode_idle(qnode);
    qnode->retries = 0;
    if (qnode->withdrawing)
        qnode->user->withdrawn(me, qnode, HF_GONE);
    else
        hf__zk_queue_node_enter(me, qnode);
}

static void owner_done(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct queue_node *qnode = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error error;
    if (!reply_is_due(qnode, answer->tag))
        return;
    bool gone = reply && reply->error == ZK_NONODE;
    if (!gone && zk_answer_error(answer, &error) != 0) {
        hf__zk_queue_node_pause(me, qnode, &error);
    } else if (!gone && reply->stat.ephemeral_owner == hf__zk_session_id(me->zk)) {
        qnode->czxid = reply->stat.czxid;
        if (qnode->withdrawing)
            delete_send(me, qnode);
        else
            hf__zk_queue_node_list(me, qnode);
    } else if (++qnode->retries > RETRIES) {
        hf__fail(&error, HF_EREFUSED, "a node of a former session cannot be deleted");
        qnode->retries = 0;
        hf__zk_queue_node_pause(me, qnode, &error);
    } else {
        if (!gone)
            hf__zk_orphan_node_add(me, qnode->path, strlen(qnode->path));
        recover_send(me, qnode);
    }
}

static void recover_done(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct queue_node *qnode = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error error;
    size_t at = NO_NODE;
    if (!reply_is_due(qnode, answer->tag))
        return;
    if (!(reply && reply->error == ZK_NONODE) && zk_answer_error(answer, &error) != 0) {
        hf__zk_queue_node_pause(me, qnode, &error);
        return;
    }
    at = hf__zk_queue_find(me->layout, &qnode->ticket->id, reply->names, reply->count);
    if (at == NO_NODE || reply->names[at].len >= NODE_ROOM) {
        recover_nothing(me, qnode);
        return;
    }
    join(qnode, qnode->path, reply->names[at].at, reply->names[at].len);
    qnode_begin(qnode, QUEUE_NODE_UNKNOWN);
    qnode->requests++;
    hf__zk_unsent_answer(
        me->zk,
        hf__zk_exists(me->zk, qnode->path, false, owner_done, qnode, qnode->generation),
        owner_done, qnode, qnode->generation);
}

static void recover_send(struct zk_session *me, struct queue_node *qnode)
{
    qnode_begin(qnode, QUEUE_NODE_UNKNOWN);
    qnode->requests++;
    hf__zk_gather(me->zk);
    hf__zk_sync(me->zk, folder_open(qnode), NULL, NULL, 0);
    hf__zk_unsent_answer(me->zk,
                         hf__zk_children(me->zk, qnode->path, false, recover_done,
                                         qnode, qnode->generation),
                         recover_done, qnode, qnode->generation);
    hf__zk_flush(me->zk);
}

/* ---- Connected again ------------------------------------------------------------- */

void hf__zk_queue_node_up(struct zk_session *me, struct queue_node *qnode)
{
    if (qnode->reply_due)
        return;
    switch (qnode->state) {
    case QUEUE_NODE_UNKNOWN:
        recover_send(me, qnode);
        break;
    case QUEUE_NODE_LISTING:
    case QUEUE_NODE_WAITING:
        hf__zk_queue_node_list(me, qnode);
        break;
    case QUEUE_NODE_DELETING:
        delete_send(me, qnode);
        break;
    default:
        break;
    }
}
