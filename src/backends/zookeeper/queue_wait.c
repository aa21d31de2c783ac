/* SPDX-License-Identifier: MIT */
/*
 * How a queue node waits: what it makes of a listing of its queue, and which
 * predecessor it watches.
 *
 * queue.c says which node is admitted. Only a listing grants: one reply of the server
 * shows that our own node exists and that none is before it. Numbers grow, so none
 * comes before it later. Waiters watch the node right before their own; a reader
 * watches the nearest writer. Any event on that node means one thing: list again.
 */
#include "queue.h"
#include "queue_node.h"

#include "../../base/error.h"

/* ---- Admitted -------------------------------------------------------------------- */

void hf__zk_queue_node_admit(struct zk_session *me, struct queue_node *qnode,
                             int64_t since_ns)
{
    hf__zk_watcher_end(me, &qnode->watcher);
    qnode->state = QUEUE_NODE_IN;
    qnode->generation++;
    qnode->reply_due = false;
    qnode->user->admitted(me, qnode, since_ns);
}

/* ---- The predecessor ------------------------------------------------------------- */

static void predecessor_fired(struct zk_session *me, struct watcher *watcher,
                              enum zk_event_type type)
{
    (void)type;
    struct queue_node *qnode = HF_CONTAINER(watcher, struct queue_node, watcher);
    if (qnode->state == QUEUE_NODE_WAITING)
        hf__zk_queue_node_list(me, qnode);
}

/* The server may deny a node's data, but not that it exists. This watch is set even if
 * the node does not exist. */
static void exists_done(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct queue_node *qnode = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error error;
    if (!reply_is_due(qnode, answer->tag))
        return;
    qnode->reply_due = false;
    if (reply && reply->error == ZK_NONODE) {
        hf__zk_watcher_end(me, &qnode->watcher);
        hf__zk_queue_node_list(me, qnode);
    } else if (zk_answer_error(answer, &error) != 0) {
        hf__zk_watcher_drop(&qnode->watcher);
        hf__zk_queue_node_pause(me, qnode, &error);
    }
}

static void watch_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct queue_node *qnode = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error error;
    if (!reply_is_due(qnode, answer->tag))
        return;
    qnode->reply_due = false;
    if (reply && reply->error == ZK_OK)
        return;
    hf__zk_watcher_drop(&qnode->watcher);
    if (reply && reply->error == ZK_NONODE) {
        hf__zk_queue_node_list(me, qnode);
    } else if (reply && reply->error == ZK_NOAUTH) {
        qnode_begin(qnode, QUEUE_NODE_WAITING);
        hf__zk_watcher_set(me, &qnode->watcher, qnode->predecessor, predecessor_fired);
        qnode->requests++;
        hf__zk_unsent_answer(me->zk,
                             hf__zk_exists(me->zk, qnode->predecessor, true,
                                           exists_done, qnode, qnode->generation),
                             exists_done, qnode, qnode->generation);
    } else {
        zk_answer_error(answer, &error);
        hf__zk_queue_node_pause(me, qnode, &error);
    }
}

static void watch_send(struct zk_session *me, struct queue_node *qnode)
{
    qnode_begin(qnode, QUEUE_NODE_WAITING);
    hf__zk_watcher_set(me, &qnode->watcher, qnode->predecessor, predecessor_fired);
    qnode->requests++;
    hf__zk_unsent_answer(me->zk,
                         hf__zk_get(me->zk, qnode->predecessor, true, watch_reply,
                                    qnode, qnode->generation),
                         watch_reply, qnode, qnode->generation);
}

static void qnode_wait(struct zk_session *me, struct queue_node *qnode,
                       const struct zk_text *predecessor)
{
    bool queued_told = qnode->queued_told;
    bool same =
        hf__list_linked(&qnode->watcher.link) &&
        strlen(qnode->predecessor) == qnode->folder_len + 1 + predecessor->len &&
        memcmp(qnode->predecessor + qnode->folder_len + 1, predecessor->at,
               predecessor->len) == 0;
    qnode->state = QUEUE_NODE_WAITING;
    qnode->reply_due = false;
    qnode->queued_told = true;
    if (!same) {
        hf__zk_watcher_end(me, &qnode->watcher);
        join(qnode, qnode->predecessor, predecessor->at, predecessor->len);
    }
    if (!queued_told)
        qnode->user->queued(me, qnode); /* a try is withdrawn inside */
    if (!same && qnode->state == QUEUE_NODE_WAITING)
        watch_send(me, qnode);
}

/* ---- Listing --------------------------------------------------------------------- */

/* The folder may serve another kind. Checked once: a client that comes later sees
 * us. */
static bool check_once(struct zk_session *me, struct queue_node *qnode,
                       const struct zk_reply *reply, bool mismatch)
{
    hf_error why;
    if (qnode->kind_checked)
        return true;
    qnode->kind_checked = true;
    if (mismatch) {
        hf__fail_code(&why, HF_EMISMATCH);
        hf__zk_queue_node_refuse(me, qnode, &why);
        return false;
    }
    return !qnode->user->check || qnode->user->check(me, qnode, reply);
}

static void judge(struct zk_session *me, struct queue_node *qnode,
                  const struct zk_reply *reply, int64_t sent_ns)
{
    struct queue_view view;
    hf_error why;
    const char *own = own_name(qnode);
    hf__zk_queue_judge(&view, me->layout, qnode->form, own, strlen(own),
                       &qnode->ticket->id, reply->names, reply->count);
    if (view.extra != NO_NODE && reply->names[view.extra].len < NODE_ROOM) {
        char extra[PATH_SIZE];
        join(qnode, extra, reply->names[view.extra].at, reply->names[view.extra].len);
        hf__zk_orphan_node_add(me, extra, strlen(extra));
    }
    if (view.own == NO_NODE) { /* another client deleted it */
        qnode_idle(qnode);
        hf__zk_queue_node_enter(me, qnode);
    } else if (!check_once(me, qnode, reply, view.mismatch)) {
        return;
    } else if (view.blockers == 0) {
        hf__zk_queue_node_admit(me, qnode, sent_ns);
    } else if (reply->names[view.nearest].len >= NODE_ROOM) {
        hf__fail(&why, HF_ECORRUPT, "a node before ours has a name that is too long");
        hf__zk_queue_node_refuse(me, qnode, &why);
    } else {
        qnode_wait(me, qnode, &reply->names[view.nearest]);
    }
}

void hf__zk_queue_node_listed(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct queue_node *qnode = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error error;
    if (!reply_is_due(qnode, answer->tag) || qnode->state != QUEUE_NODE_LISTING)
        return;
    if (reply && reply->error == ZK_NONODE) {
        qnode_idle(qnode);
        hf__zk_queue_node_enter(me, qnode);
    } else if (zk_answer_error(answer, &error) != 0) {
        hf__zk_queue_node_pause(me, qnode, &error);
    } else {
        judge(me, qnode, reply, answer->sent_ns);
    }
}

void hf__zk_queue_node_list(struct zk_session *me, struct queue_node *qnode)
{
    qnode_begin(qnode, QUEUE_NODE_LISTING);
    qnode->requests++;
    hf__zk_unsent_answer(me->zk,
                         hf__zk_children(me->zk, folder_open(qnode), false,
                                         hf__zk_queue_node_listed, qnode,
                                         qnode->generation),
                         hf__zk_queue_node_listed, qnode, qnode->generation);
    folder_shut(qnode);
}
