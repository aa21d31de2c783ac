/* SPDX-License-Identifier: MIT */
/*
 * layout=single: the lock is one ephemeral node, and every waiter watches it.
 *
 * This is the form that texts about ZooKeeper begin with, for users who share locks
 * with such a program. It is a herd: when the node is deleted all waiters are told, all
 * of them try to create it, and one succeeds. There is no order, and waiters cannot be
 * seen. An ephemeral node has no children, so a name is one component with its slashes
 * encoded; a folder, if there is one, belongs into the URL.
 *
 * The node's data names its ticket (id=...), so that a create without a reply can be
 * found.
 *
 * All holders share one path, so a delete by path may hit the next holder. A delete is
 * sent only while the node is known to be ours: right after the create, or after a read
 * that showed it. A delete without a reply is followed by a read, never by a second
 * delete. For the same reason this layout has no eviction: an evicted holder that has
 * not heard of it would delete the node of the next one.
 */
#include "ticket.h"

#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../base/text.h"

#include <stdio.h>
#include <string.h>

enum { RETRIES = 100, ID_DIGITS = 32 };

/* ---- Creating -------------------------------------------------------------------- */

static void create_send(struct zk_session *me, struct zk_ticket *ticket)
{
    char data[ZK_DETAILS_SIZE + ID_DIGITS + 8];
    int64_t now = me->host->ops->now(me->host);
    hf_error why;
    size_t len = hf__zk_details_write(&me->identity, ticket->core_ticket, now, 0, data);
    memcpy(data + len, " id=", sizeof(" id="));
    hf__hex_encode(&ticket->id, sizeof(ticket->id), data + len + 4);
    hf__zk_ticket_begin(ticket, TICKET_ENTER);
    hf__zk_gather(me->zk);
    if (ticket->retries > 0)
        /* The only parent is the chroot. */
        hf__zk_make_folder(me->zk, "/", NULL, NULL, 0);
    int rc = TICKET_ASK(ticket, ASK_CREATE, hf__zk_create, ticket->path, data,
                        len + 4 + ID_DIGITS, ZK_EPHEMERAL);
    hf__zk_flush(me->zk);
    if (rc == 0)
        return;
    hf__zk_unsent_why(me->zk, rc, &why);
    hf__zk_ticket_fail(me, ticket, &why);
}

static void single_first(struct zk_session *me, struct zk_ticket *ticket, int64_t czxid,
                         int64_t since_ns)
{
    hf__zk_watcher_end(me, &ticket->watcher);
    ticket->token = (uint64_t)czxid;
    ticket->since_ns = since_ns;
    ticket->deleted = false;
    hf__zk_ticket_set(ticket, TICKET_FIRST);
}

static void create_answered(struct zk_session *me, struct zk_ticket *ticket,
                            const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    if (reply && reply->error == ZK_OK) {
        single_first(me, ticket, reply->stat.czxid ? reply->stat.czxid : reply->zxid,
                     answer->sent_ns);
    } else if (reply && reply->error == ZK_NODEEXISTS) {
        hf__zk_ticket_set(ticket, TICKET_LIST);
    } else if (reply && reply->error == ZK_NONODE && ++ticket->retries <= RETRIES) {
        hf__zk_ticket_set(ticket, TICKET_IDLE);
    } else if (zk_answer_error(answer, &why) == HF_EUNCERTAIN) {
        ticket->state = TICKET_FIND;
        hf__zk_ticket_pause(me, ticket, &why);
    } else {
        hf__zk_ticket_fail(me, ticket, &why);
    }
}

/* ---- Looking --------------------------------------------------------------------- */

/* By its transaction where that is known: a revocation overwrites the data. */
static bool is_ours(const struct zk_session *me, const struct zk_ticket *ticket,
                    const struct zk_reply *reply)
{
    char id[ID_DIGITS];
    if (reply->stat.ephemeral_owner != hf__zk_session_id(me->zk))
        return false;
    if (ticket->token)
        return (uint64_t)reply->stat.czxid == ticket->token;
    if (reply->data.len < ID_DIGITS)
        return false;
    hf__hex_encode(&ticket->id, sizeof(ticket->id), id);
    return memcmp(reply->data.at + reply->data.len - ID_DIGITS, id, ID_DIGITS) == 0;
}

/* The event may be of the watch of another ticket, before our own is set: then the node
 * is read again. */
static void single_fired(struct zk_session *me, struct watcher *watcher,
                         enum zk_event_type type)
{
    struct zk_ticket *ticket = HF_CONTAINER(watcher, struct zk_ticket, watcher);
    if (ticket->state != TICKET_WAIT)
        return;
    hf__zk_ticket_set(ticket, type == ZK_DELETED ? TICKET_IDLE : TICKET_LIST);
    hf__zk_ticket_advance(me, ticket);
}

/* Reads the node of the holder or, in FIND, of a create without a reply. */
static void look_send(struct zk_session *me, struct zk_ticket *ticket,
                      enum ticket_state state)
{
    hf__zk_ticket_begin(ticket, state);
    hf__zk_gather(me->zk);
    if (state == TICKET_FIND)
        hf__zk_sync(me->zk, ticket->path, NULL, NULL, 0);
    hf__zk_watcher_set(me, &ticket->watcher, ticket->path, single_fired);
    int rc = TICKET_ASK(ticket, ASK_LIST, hf__zk_get, ticket->path, true);
    hf__zk_flush(me->zk);
    if (rc != 0)
        hf__zk_watcher_drop(&ticket->watcher);
    hf__zk_ticket_unsent(me, ticket, rc);
}

/* The node is of another client. Without a watcher the event has come already. */
static void single_taken(struct zk_ticket *ticket)
{
    ticket->state = TICKET_WAIT;
    ticket->awaits =
        hf__list_linked(&ticket->watcher.link) ? AWAITS_EVENT : AWAITS_NOTHING;
}

static void look_answered(struct zk_session *me, struct zk_ticket *ticket,
                          const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    if (reply && reply->error == ZK_OK && is_ours(me, ticket, reply)) {
        single_first(me, ticket, reply->stat.czxid, answer->sent_ns);
    } else if (reply && reply->error == ZK_OK && reply->stat.ephemeral_owner) {
        single_taken(ticket);
    } else if (reply && reply->error == ZK_OK) {
        hf__zk_watcher_end(me, &ticket->watcher);
        hf__fail(&why, HF_EMISMATCH, "the name is a persistent node");
        hf__zk_ticket_fail(me, ticket, &why);
    } else {
        hf__zk_watcher_drop(&ticket->watcher);
        if (reply && reply->error == ZK_NONODE) {
            hf__zk_ticket_set(ticket, TICKET_IDLE);
            return;
        }
        zk_answer_error(answer, &why);
        hf__zk_ticket_pause(me, ticket, &why);
    }
}

/* ---- Deleting -------------------------------------------------------------------- */

static void delete_send(struct zk_session *me, struct zk_ticket *ticket)
{
    hf__zk_ticket_reset(ticket, TICKET_DELETE);
    hf__zk_ticket_begin(ticket, TICKET_DELETE);
    hf__zk_ticket_unsent(
        me, ticket, TICKET_ASK(ticket, ASK_DELETE, hf__zk_delete, ticket->path, -1));
}

/* Without a reply: looked at before another delete, which could hit another client. */
static void delete_answered(struct zk_session *me, struct zk_ticket *ticket,
                            const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    int rc = zk_answer_error(answer, &why);
    if (rc == 0 || (reply && reply->error == ZK_NONODE)) {
        ticket->deleted |= rc == 0;
        hf__zk_ticket_set(ticket, TICKET_IDLE);
        return;
    }
    if (rc == HF_EUNCERTAIN) {
        ticket->deleted = true;
        ticket->state = TICKET_FIND;
    }
    hf__zk_ticket_pause(me, ticket, &why);
}

/* Nothing of ours is on the server while another client's node is waited for. */
static void single_leave(struct zk_session *me, struct zk_ticket *ticket)
{
    bool waits = ticket->state == TICKET_LIST || ticket->state == TICKET_WAIT;
    hf__zk_watcher_end(me, &ticket->watcher);
    if (waits)
        hf__zk_ticket_reset(ticket, TICKET_IDLE);
    else
        delete_send(me, ticket);
}

/* ---- The ticket ------------------------------------------------------------------ */

static enum action single_decide(const struct zk_ticket *ticket,
                                 const struct facts *facts)
{
    (void)ticket;
    return hf__zk_decide_lock(facts);
}

static void single_act(struct zk_session *me, struct zk_ticket *ticket,
                       enum action action)
{
    if (action == DO_ENTER)
        create_send(me, ticket);
    else if (action == DO_FIND)
        look_send(me, ticket, TICKET_FIND);
    else if (action == DO_LIST || action == DO_WATCH)
        look_send(me, ticket, TICKET_LIST);
    else if (action == DO_GRANT)
        hf__zk_ticket_granted(me, ticket, ticket->path);
    else
        single_leave(me, ticket);
}

static void single_record(struct zk_session *me, struct zk_ticket *ticket,
                          enum request what, const struct zk_answer *answer)
{
    if (what == ASK_CREATE)
        create_answered(me, ticket, answer);
    else if (what == ASK_LIST)
        look_answered(me, ticket, answer);
    else
        delete_answered(me, ticket, answer);
}

static const struct zk_ticket_ops single_ops = {
    .decide = single_decide,
    .act = single_act,
    .record = single_record,
};

void hf__zk_single_attempt(struct zk_session *me, struct hf_ticket *core_ticket)
{
    char folder[FOLDER_SIZE];
    struct zk_ticket *ticket =
        hf__zk_ticket_new(me, core_ticket, sizeof(*ticket), &single_ops);
    if (!ticket)
        return;
    size_t len =
        hf__zk_flat_path_write(folder, core_ticket->name, core_ticket->name_len);
    ticket->path = hf__copy_text(folder, len);
    if (ticket->path)
        hf__zk_ticket_attempt(me, ticket);
    else
        hf__zk_ticket_no_memory(me, ticket);
}
