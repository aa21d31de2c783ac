/* SPDX-License-Identifier: MIT */
/*
 * Orphan nodes, and the timer that repeats what could not be sent.
 *
 * An orphan node is a node of ours without a ticket, such as what a create left whose
 * reply was lost. Its delete is repeated until the node is known to be gone, or its
 * session is over, which ends the node too. Under the client's lock.
 */
#include "ticket.h"

#include "../../base/clock.h"
#include "../../base/mem.h"

#include <string.h>

#define RETRY_NS (100 * HF_NS_PER_MS)

/* ---- Orphan nodes ---------------------------------------------------------------- */

struct orphan_node {
    struct hf_list_node link;
    bool delete_sent;
    char path[];
};

static void orphan_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct orphan_node *orphan = answer->subject;
    const struct zk_reply *reply = answer->reply;
    orphan->delete_sent = false;
    if (reply && (reply->error == ZK_OK || reply->error == ZK_NONODE)) {
        hf__list_remove(&orphan->link);
        hf__free(orphan);
    } else if (hf__zk_is_up(me->zk)) {
        hf__zk_session_retry_soon(me);
    }
}

static void orphan_delete(struct zk_session *me, struct orphan_node *orphan)
{
    orphan->delete_sent =
        hf__zk_delete(me->zk, orphan->path, -1, orphan_reply, orphan, 0) == 0;
    if (!orphan->delete_sent && hf__zk_is_up(me->zk))
        hf__zk_session_retry_soon(me);
}

/* No memory to track it: delete once, best effort. The node ends with the session. */
void hf__zk_orphan_node_add(struct zk_session *me, const char *path, size_t len)
{
    struct orphan_node *orphan = hf__alloc(sizeof(*orphan) + len + 1);
    if (!orphan) {
        hf__zk_delete(me->zk, path, -1, NULL, NULL, 0);
        return;
    }
    memcpy(orphan->path, path, len);
    hf__list_push_back(&me->orphans, &orphan->link);
    orphan_delete(me, orphan);
}

void hf__zk_orphan_nodes_retry(struct zk_session *me)
{
    for (HF_EACH_SAFE(link, &me->orphans)) {
        struct orphan_node *orphan = HF_CONTAINER(link, struct orphan_node, link);
        if (!orphan->delete_sent)
            orphan_delete(me, orphan);
    }
}

void hf__zk_orphan_nodes_done(struct zk_session *me)
{
    for (struct hf_list_node *link; (link = hf__list_first(&me->orphans));) {
        struct orphan_node *orphan = HF_CONTAINER(link, struct orphan_node, link);
        if (orphan->delete_sent)
            hf__zk_forget(me->zk, orphan);
        hf__list_remove(link);
        hf__free(orphan);
    }
}

/* ---- Retries --------------------------------------------------------------------- */

static void retry_due(void *arg)
{
    struct zk_session *me = arg;
    if (!hf__zk_is_up(me->zk))
        return;
    hf__zk_orphan_nodes_retry(me);
    hf__zk_tickets_up(me);
}

void hf__zk_session_retry_soon(struct zk_session *me)
{
    if (me->retry_timer.slot || me->closing)
        return;
    me->retry_timer.callback = retry_due;
    me->retry_timer.arg = me;
    me->host->ops->set_timer(me->host, &me->retry_timer,
                             me->host->ops->now(me->host) + RETRY_NS);
}
