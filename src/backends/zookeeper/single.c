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
#include "session.h"

#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../base/text.h"

#include <stdio.h>
#include <string.h>

enum { RETRIES = 100, ID_DIGITS = 32 };

enum single_state {
    SINGLE_IDLE = 0,
    SINGLE_CREATING,
    SINGLE_LOOKING, /* reads the node of the holder, or of a create without a reply */
    SINGLE_WAITING,
    SINGLE_HELD,
    SINGLE_DELETING,
};

struct single {
    struct zk_ticket ticket;
    enum single_state state;
    bool reply_due;        /* of this generation */
    bool may_exist;        /* a node of ours */
    bool may_have_deleted; /* a delete was, or may have been, carried out */
    uint8_t retries;
    uint32_t generation;
    struct watcher watcher;
    char *path;
};

static void create_send(struct zk_session *me, struct single *single);
static void look_send(struct zk_session *me, struct single *single);

static struct single *single_of(struct zk_ticket *ticket)
{
    return HF_CONTAINER(ticket, struct single, ticket);
}

static void single_begin(struct single *single, enum single_state state)
{
    single->state = state;
    single->reply_due = true;
    single->generation++;
    single->ticket.requests++;
}

/* Core has withdrawn it, or its lease has ended: only the withdrawal is left. */
static bool is_withdrawing(const struct single *single)
{
    return single->ticket.withdrawing || single->ticket.lease_ended;
}

static bool reply_is_due(struct single *single, uint64_t tag)
{
    single->ticket.requests--;
    if ((uint32_t)tag != single->generation)
        return false;
    single->reply_due = false;
    return true;
}

/* No reply, or one that decides nothing. single_up() goes on. */
static void single_pause(struct zk_session *me, struct single *single,
                         const hf_error *why)
{
    hf_error copy = *why;
    if (single->may_exist)
        copy.code = HF_EUNCERTAIN;
    if (hf__zk_is_up(me->zk))
        hf__zk_session_retry_soon(me);
    if (single->ticket.withdrawing)
        hf__zk_ticket_withdrawn(me, &single->ticket,
                                zk_not_withdrawn(single->may_exist));
    else if (!single->ticket.answered)
        hf__zk_ticket_failed(me, &single->ticket, &copy);
}

/* ---- Withdrawing ----------------------------------------------------------------- */

/* Nothing of ours is on the server any more. */
static void single_withdrawn(struct zk_session *me, struct single *single)
{
    single->state = SINGLE_IDLE;
    single->may_exist = false;
    hf__zk_ticket_withdrawn(me, &single->ticket,
                            single->may_have_deleted ? HF_WITHDRAWN : HF_GONE);
}

static void delete_done(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct single *single = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error error;
    if (!reply_is_due(single, answer->tag))
        return;
    if (reply && (reply->error == ZK_OK || reply->error == ZK_NONODE)) {
        single->may_have_deleted |= reply->error == ZK_OK;
        single_withdrawn(me, single);
        return;
    }
    if (zk_answer_error(answer, &error) == HF_EUNCERTAIN) {
        single->may_exist = single->may_have_deleted = true;
        single->state = SINGLE_LOOKING;
    }
    single_pause(me, single, &error);
}

static void delete_send(struct zk_session *me, struct single *single)
{
    single_begin(single, SINGLE_DELETING);
    hf__zk_unsent_answer(me->zk,
                         hf__zk_delete(me->zk, single->path, -1, delete_done, single,
                                       single->generation),
                         delete_done, single, single->generation);
}

static void single_withdraw(struct zk_session *me, struct zk_ticket *ticket)
{
    struct single *single = single_of(ticket);
    hf__zk_watcher_end(me, &single->watcher);
    if (single->reply_due)
        return; /* its reply decides */
    bool held = single->state == SINGLE_HELD && !ticket->node_gone;
    if (held || single->state == SINGLE_DELETING)
        delete_send(me, single);
    else if (single->may_exist)
        look_send(me, single);
    else
        single_withdrawn(me, single);
}

/* ---- Looking --------------------------------------------------------------------- */

/* By its transaction where that is known: a revocation overwrites the data. */
static bool is_ours(const struct zk_session *me, const struct single *single,
                    const struct zk_reply *reply)
{
    char id[ID_DIGITS];
    if (reply->stat.ephemeral_owner != hf__zk_session_id(me->zk))
        return false;
    if (single->ticket.token)
        return (uint64_t)reply->stat.czxid == single->ticket.token;
    if (reply->data.len < ID_DIGITS)
        return false;
    hf__hex_encode(&single->ticket.id, sizeof(single->ticket.id), id);
    return memcmp(reply->data.at + reply->data.len - ID_DIGITS, id, ID_DIGITS) == 0;
}

static void single_held(struct zk_session *me, struct single *single, int64_t czxid,
                        int64_t since_ns)
{
    single->state = SINGLE_HELD;
    single->may_exist = single->may_have_deleted = false;
    hf__zk_watcher_end(me, &single->watcher);
    if (is_withdrawing(single))
        delete_send(me, single);
    else
        hf__zk_ticket_granted(me, &single->ticket, single->path, (uint64_t)czxid,
                              since_ns);
}

static void single_taken(struct zk_session *me, struct single *single)
{
    struct zk_ticket *ticket = &single->ticket;
    single->may_exist = false;
    single->state = SINGLE_WAITING;
    if (is_withdrawing(single)) {
        hf__zk_watcher_end(me, &single->watcher);
        single_withdrawn(me, single);
        return;
    }
    if (ticket->core_ticket->flags & HF_TICKET_TRY) {
        hf__zk_watcher_end(me, &single->watcher);
        single->state = SINGLE_IDLE;
        hf__zk_ticket_busy(me, ticket);
        return;
    }
    if (!ticket->answered)
        hf__zk_ticket_queued(me, ticket);
    if (!hf__list_linked(&single->watcher.link))
        look_send(me, single);
}

static void look_done(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct single *single = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error error;
    if (!reply_is_due(single, answer->tag))
        return;
    if (reply && reply->error == ZK_OK && is_ours(me, single, reply)) {
        single_held(me, single, reply->stat.czxid, answer->sent_ns);
    } else if (reply && reply->error == ZK_OK && reply->stat.ephemeral_owner) {
        single_taken(me, single);
    } else if (reply && reply->error == ZK_OK) {
        hf__zk_watcher_end(me, &single->watcher);
        hf__fail(&error, HF_EMISMATCH, "the name is a persistent node");
        if (is_withdrawing(single))
            single_withdrawn(me, single);
        else
            hf__zk_ticket_failed(me, &single->ticket, &error);
    } else {
        hf__zk_watcher_drop(&single->watcher);
        if (reply && reply->error == ZK_NONODE) {
            if (is_withdrawing(single)) {
                single_withdrawn(me, single);
            } else {
                single->may_exist = false;
                create_send(me, single);
            }
            return;
        }
        zk_answer_error(answer, &error);
        single_pause(me, single, &error);
    }
}

/* The event may be of the watch of another ticket, before our own is set:
 * single_taken() reads the node again. */
static void single_fired(struct zk_session *me, struct watcher *watcher,
                         enum zk_event_type type)
{
    struct single *single = HF_CONTAINER(watcher, struct single, watcher);
    if (single->state != SINGLE_WAITING)
        return;
    if (type == ZK_DELETED)
        create_send(me, single);
    else
        look_send(me, single);
}

static void look_send(struct zk_session *me, struct single *single)
{
    single_begin(single, SINGLE_LOOKING);
    hf__zk_gather(me->zk);
    if (single->may_exist)
        hf__zk_sync(me->zk, single->path, NULL, NULL, 0);
    hf__zk_watcher_set(me, &single->watcher, single->path, single_fired);
    hf__zk_unsent_answer(
        me->zk,
        hf__zk_get(me->zk, single->path, true, look_done, single, single->generation),
        look_done, single, single->generation);
    hf__zk_flush(me->zk);
}

/* ---- Creating -------------------------------------------------------------------- */

static void create_done(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct single *single = answer->subject;
    const struct zk_reply *reply = answer->reply;
    struct zk_ticket *ticket = &single->ticket;
    hf_error error;
    if (!reply_is_due(single, answer->tag))
        return;
    if (reply && reply->error == ZK_OK) {
        single_held(me, single, reply->stat.czxid ? reply->stat.czxid : reply->zxid,
                    answer->sent_ns);
    } else if (reply && reply->error == ZK_NODEEXISTS) {
        look_send(me, single);
    } else if (reply && reply->error == ZK_NONODE && !is_withdrawing(single) &&
               ++single->retries <= RETRIES) {
        create_send(me, single);
    } else {
        int rc = zk_answer_error(answer, &error);
        single->may_exist |= rc == HF_EUNCERTAIN;
        single->state = single->may_exist ? SINGLE_LOOKING : SINGLE_IDLE;
        if (single->may_exist || rc == HF_EUNREACHABLE)
            single_pause(me, single, &error);
        else if (ticket->withdrawing)
            hf__zk_ticket_withdrawn(me, ticket, HF_GONE);
        else
            hf__zk_ticket_failed(me, ticket, &error);
    }
}

static void create_send(struct zk_session *me, struct single *single)
{
    char data[ZK_DETAILS_SIZE + ID_DIGITS + 8];
    int64_t now = me->host->ops->now(me->host);
    size_t len =
        hf__zk_details_write(&me->identity, single->ticket.core_ticket, now, 0, data);
    memcpy(data + len, " id=", sizeof(" id="));
    hf__hex_encode(&single->ticket.id, sizeof(single->ticket.id), data + len + 4);
    single_begin(single, SINGLE_CREATING);
    hf__zk_gather(me->zk);
    if (single->retries > 0)
        /* The only parent is the chroot. */
        hf__zk_make_folder(me->zk, "/", NULL, NULL, 0);
    hf__zk_unsent_answer(me->zk,
                         hf__zk_create(me->zk, single->path, data, len + 4 + ID_DIGITS,
                                       ZK_EPHEMERAL, create_done, single,
                                       single->generation),
                         create_done, single, single->generation);
    hf__zk_flush(me->zk);
}

/* ---- The ticket ------------------------------------------------------------------ */

static void single_attempt_again(struct zk_session *me, struct zk_ticket *ticket)
{
    struct single *single = single_of(ticket);
    hf_error why;
    if (ticket->held)
        hf__zk_ticket_grant_again(me, ticket);
    else if (ticket->withdrawing || ticket->lease_ended)
        return;
    else if (single->state == SINGLE_IDLE)
        create_send(me, single);
    else if (!hf__zk_is_up(me->zk)) {
        hf__fail(&why, single->may_exist ? HF_EUNCERTAIN : HF_EUNREACHABLE,
                 "there is no connection to ZooKeeper");
        hf__zk_ticket_failed(me, ticket, &why);
    } else if (ticket->answered) {
        hf__zk_ticket_queued(me, ticket);
    }
}

static void single_up(struct zk_session *me, struct zk_ticket *ticket, bool fresh)
{
    (void)fresh;
    struct single *single = single_of(ticket);
    if (single->reply_due)
        return;
    if (single->state == SINGLE_DELETING)
        delete_send(me, single);
    else if (single->state == SINGLE_LOOKING || single->state == SINGLE_WAITING)
        look_send(me, single);
    else if (single->state == SINGLE_IDLE && ticket->core_ticket &&
             !ticket->withdrawing && !ticket->lease_ended) {
        if (ticket->answered)
            create_send(me, single);
        else
            me->host->ops->notice(me->host, ticket->core_ticket);
    }
}

static void single_expired(struct zk_session *me, struct zk_ticket *ticket)
{
    (void)me;
    struct single *single = single_of(ticket);
    hf__zk_watcher_drop(&single->watcher);
    single->state = SINGLE_IDLE;
    single->may_exist = single->reply_due = false;
    single->generation++;
}

static void single_done(struct zk_session *me, struct zk_ticket *ticket)
{
    struct single *single = single_of(ticket);
    hf__zk_watcher_end(me, &single->watcher);
    hf__free(single->path);
}

static const struct zk_ticket_ops single_ops = {
    .attempt = single_attempt_again,
    .withdraw = single_withdraw,
    .up = single_up,
    .expired = single_expired,
    .done = single_done,
};

void hf__zk_single_attempt(struct zk_session *me, struct hf_ticket *core_ticket)
{
    char folder[FOLDER_SIZE];
    hf_error why;
    struct zk_ticket *ticket =
        hf__zk_ticket_new(me, core_ticket, sizeof(struct single), &single_ops);
    if (!ticket)
        return;
    size_t len =
        hf__zk_flat_path_write(folder, core_ticket->name, core_ticket->name_len);
    single_of(ticket)->path = hf__copy_text(folder, len);
    if (!single_of(ticket)->path) {
        hf__fail_code(&why, HF_ENOMEM);
        hf__zk_ticket_failed(me, ticket, &why);
        return;
    }
    single_attempt_again(me, ticket);
}
