/* SPDX-License-Identifier: MIT */
/*
 * The leases of a semaphore: taken in one multi, found again when its reply was lost,
 * deleted one by one. Under the client's lock.
 *
 * The multi says, in this order: the limit is, or becomes, ours; these are our leases;
 * our queue node is deleted. If any of it fails nothing has changed, and the operation
 * that failed decides what follows: look again, make the folder, or enter the queue
 * again. Behind the multi, in the same packet, the client lists the name: do other
 * kinds have nodes there?
 */
#include "permits.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <stdio.h>
#include <string.h>

enum { RETRIES = 50, TAKE_OPS = LEASE_NODES + 2 };

static zk_done take_reply, find_reply, owner_reply;

/* False for a reply of an earlier generation. */
static bool reply_is_due(struct permit *permit, uint64_t tag)
{
    permit->ticket.requests--;
    return tag == permit->generation;
}

static void node_path(const struct permit *permit, uint32_t index, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/%s", permit->folders.leases, permit->names[index]);
}

/* ---- Taken ----------------------------------------------------------------------- */

/* The leases exist, and no other kind uses the name. */
static void permit_granted(struct zk_session *me, struct permit *permit)
{
    permit_set_state(permit, PERMIT_HELD);
    hf__zk_ticket_granted(me, &permit->ticket, permit->node, permit->ticket.token,
                          permit->ticket.since_ns);
}

/* Another kind uses the name: deletes the leases, then tells core. */
static void permit_clashes(struct zk_session *me, struct permit *permit,
                           const hf_error *why)
{
    permit->refusal = *why;
    hf__zk_permit_release(me, permit);
}

/* No reply: the leases are listed when there is a connection again. */
static void check_failed(struct zk_session *me, struct permit *permit,
                         const hf_error *why)
{
    permit_set_state(permit, PERMIT_UNKNOWN);
    hf__zk_permit_pause(me, permit, why);
}

static void check_probed(struct zk_session *me, struct kind_probe *probe, int rc,
                         const hf_error *why)
{
    struct permit *permit = HF_CONTAINER(probe, struct permit, probe);
    if (rc == 0)
        permit_granted(me, permit);
    else if (rc == HF_EMISMATCH)
        permit_clashes(me, permit, why);
    else
        check_failed(me, permit, why);
}

static void check_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct permit *permit = permit_of(answer->subject);
    const struct zk_reply *reply = answer->reply;
    int32_t kind = permit->ticket.kind, clash;
    hf_error why;
    permit->ticket.requests--;
    if (answer->tag != permit->generation || permit->state != PERMIT_CHECK)
        return;
    if (!reply) {
        check_failed(me, permit, answer->why);
        return;
    }
    clash = hf__zk_kind_clash(me->layout, reply->names, reply->count, kind);
    if (clash == KIND_MAYBE) {
        hf__zk_kind_probe(me, &permit->probe, permit->folders.name, kind, check_probed);
    } else if (clash) {
        hf__zk_kind_mismatch(&why, clash, kind);
        permit_clashes(me, permit, &why);
    } else {
        permit_granted(me, permit);
    }
}

static void check_send(struct zk_session *me, struct permit *permit)
{
    permit->ticket.requests++;
    hf__zk_unsent_answer(me->zk,
                         hf__zk_children(me->zk, permit->folders.name, false,
                                         check_reply, &permit->ticket,
                                         permit->generation),
                         check_reply, &permit->ticket, permit->generation);
}

/* The leases are ours. The look at the name was sent behind the take (`checking`), or
 * is sent here. */
static void permit_taken(struct zk_session *me, struct permit *permit, uint64_t token,
                         int64_t since_ns, bool checking)
{
    size_t len = strlen(permit->folders.leases) + 1 + NODE_SIZE;
    hf__zk_watcher_end(me, &permit->watcher);
    hf__zk_queue_node_forget(me, &permit->qnode);
    permit->state = PERMIT_CHECK;
    permit->retries = 0;
    permit->ticket.token = token;
    permit->ticket.since_ns = since_ns;
    snprintf(permit->node, len, "%s/%s", permit->folders.leases, permit->names[0]);
    if (permit->ticket.withdrawing)
        hf__zk_permit_release(me, permit);
    else if (!checking)
        check_send(me, permit);
}

/* Nothing was taken, and core has withdrawn the ticket. */
static bool take_is_off(struct zk_session *me, struct permit *permit)
{
    if (!permit->ticket.withdrawing)
        return false;
    permit_set_state(permit, PERMIT_QUEUE);
    hf__zk_queue_node_withdraw(me, &permit->qnode);
    return true;
}

static void keep_names(struct permit *permit, const struct zk_text *paths, size_t count)
{
    size_t skip = strlen(permit->folders.leases) + 1;
    permit->count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t len = paths[i].len;
        if (len <= skip || len - skip >= NODE_SIZE)
            continue;
        memcpy(permit->names[permit->count], paths[i].at + skip, len - skip);
        permit->names[permit->count++][len - skip] = '\0';
    }
}

static void folder_made(const struct zk_answer *answer)
{
    struct permit *permit = permit_of(answer->subject);
    const struct zk_reply *reply = answer->reply;
    permit->ticket.requests--;
    permit->folder_error = reply ? reply->error : ZK_OK;
}

static void take_hopeless(struct zk_session *me, struct permit *permit, int32_t error)
{
    int32_t folder = permit->folder_error;
    bool made = folder == ZK_OK || folder == ZK_NODEEXISTS;
    struct zk_reply reply = { .error = made ? error : folder };
    hf_error why;
    hf__zk_server_error(&reply, &why);
    hf__zk_permit_refuse(me, permit, &why);
}

/* `limit`: the first operation was about the limit. */
static void take_failed(struct zk_session *me, struct permit *permit,
                        const struct zk_reply *reply, bool limit)
{
    size_t failed = 0;
    while (failed + 1 < reply->count && reply->errors[failed] == ZK_OK)
        failed++;
    bool at_limit = limit && failed == 0, at_place = failed + 1 == reply->count;
    bool absent = reply->error == ZK_NONODE;
    bool known = at_limit || absent || reply->error == ZK_NODEEXISTS;
    if (permit->retries++ == RETRIES || !known) {
        take_hopeless(me, permit, reply->error);
    } else if (at_limit) {
        permit->limit_unwritable |= reply->error == ZK_NOAUTH;
        hf__zk_permit_look(me, permit, false);
    } else if (at_place && absent) { /* another client deleted it */
        hf__zk_queue_node_forget(me, &permit->qnode);
        hf__zk_permit_enter(me, permit);
    } else if (absent) {
        permit->leases_missing = true;
        hf__zk_permit_take(me, permit);
    } else {
        hf__zk_permit_find(me, permit);
    }
}

static void take_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct permit *permit = permit_of(answer->subject);
    const struct zk_reply *reply = answer->reply;
    bool limit = permit->limit_state != LIMIT_FOREIGN;
    hf_error why;
    if (!reply_is_due(permit, answer->tag))
        return;
    if (!reply && answer->why->code == HF_EUNCERTAIN) {
        permit->state = PERMIT_UNKNOWN;
        hf__zk_permit_pause(me, permit, answer->why);
    } else if (reply && reply->error == ZK_OK) {
        keep_names(permit, reply->paths + limit, reply->count - 1 - limit);
        permit_taken(me, permit, (uint64_t)reply->zxid, answer->sent_ns, true);
    } else if (take_is_off(me, permit)) {
        return;
    } else if (reply && reply->count) {
        take_failed(me, permit, reply, limit);
    } else if (reply) {
        zk_answer_error(answer, &why);
        hf__zk_permit_refuse(me, permit, &why);
    } else {
        permit->state = PERMIT_LOOK;
        hf__zk_permit_pause(me, permit, answer->why);
    }
}

/* ---- Taking ---------------------------------------------------------------------- */

static void op_for_limit(struct zk_session *me, const struct permit *permit,
                         struct zk_op *op, char text[LIMIT_SIZE])
{
    uint32_t limit = permit->ticket.core_ticket->limit;
    bool same = permit->limit_state == LIMIT_THERE && permit->limit == limit;
    *op = (struct zk_op){ .path = permit->folders.base,
                          .data = text,
                          .version = permit->limit_version };
    op->what = same ? ZK_OP_CHECK : ZK_OP_SET;
    if (!same)
        op->len = hf__zk_limit_write(text, me->layout, permit->ticket.kind, limit);
}

/* Where the server adds numbers, all leases of a hold are created by one path. */
static void ops_for_leases(const struct zk_session *me, const struct permit *permit,
                           struct zk_op *ops, char *paths, size_t room,
                           const char *line, size_t len)
{
    bool named = me->layout == LAYOUT_KAZOO;
    for (uint32_t i = 0; i < permit->nodes; i++) {
        char *path = paths + i * room, name[NODE_SIZE];
        hf__zk_lease_name_write(name, me->layout, &permit->ticket.id, permit->permits,
                                i);
        snprintf(path, room, "%s/%s", permit->folders.leases, name);
        ops[i] =
            (struct zk_op){ .what = ZK_OP_CREATE,
                            .path = path,
                            .data = line,
                            .len = len,
                            .mode = named ? ZK_EPHEMERAL : ZK_EPHEMERAL_SEQUENTIAL };
    }
}

void hf__zk_permit_take(struct zk_session *me, struct permit *permit)
{
    struct zk_op ops[TAKE_OPS];
    char line[ZK_DETAILS_SIZE], text[LIMIT_SIZE];
    size_t room = strlen(permit->folders.leases) + 1 + NODE_SIZE;
    char *paths = hf__alloc(permit->nodes * room);
    hf_error why;
    if (!paths) {
        hf__fail_code(&why, HF_ENOMEM);
        hf__zk_permit_refuse(me, permit, &why);
        return;
    }
    size_t count = 0,
           len = hf__zk_details_write(&me->identity, permit->ticket.core_ticket,
                                      me->host->ops->now(me->host), 0, line);
    permit_set_state(permit, PERMIT_TAKE);
    if (permit->limit_state != LIMIT_FOREIGN)
        op_for_limit(me, permit, &ops[count++], text);
    ops_for_leases(me, permit, ops + count, paths, room, line, len);
    count += permit->nodes;
    ops[count++] = (struct zk_op){ .what = ZK_OP_DELETE,
                                   .path = permit->qnode.path,
                                   .version = -1 };
    hf__zk_gather(me->zk);
    /* In one write: the server may remove an empty folder at any moment. */
    if (permit->leases_missing) {
        permit->ticket.requests++;
        hf__zk_unsent_answer(me->zk,
                             hf__zk_make_folder(me->zk, permit->folders.leases,
                                                folder_made, &permit->ticket, 0),
                             folder_made, &permit->ticket, 0);
    }
    permit->leases_missing = false;
    permit->ticket.requests++;
    hf__zk_unsent_answer(me->zk,
                         hf__zk_multi(me->zk, ops, count, take_reply, &permit->ticket,
                                      permit->generation),
                         take_reply, &permit->ticket, permit->generation);
    check_send(me, permit);
    hf__zk_flush(me->zk);
    hf__free(paths);
}

/* ---- Finding --------------------------------------------------------------------- */

/* The take was not carried out, and cannot be any more: the sync came after it. */
static void take_not_done(struct zk_session *me, struct permit *permit)
{
    permit->count = 0;
    if (take_is_off(me, permit))
        return;
    hf__zk_permit_look(me, permit, false);
}

static void owner_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct permit *permit = permit_of(answer->subject);
    const struct zk_reply *reply = answer->reply;
    char path[PATH_SIZE];
    if (!reply_is_due(permit, answer->tag))
        return;
    if (!reply) {
        hf__zk_permit_pause(me, permit, answer->why);
    } else if (reply->error == ZK_OK &&
               reply->stat.ephemeral_owner == hf__zk_session_id(me->zk)) {
        permit_taken(me, permit, (uint64_t)reply->stat.czxid, answer->sent_ns, false);
    } else { /* a former session of ours: the server is about to delete them */
        for (uint32_t i = 0; i < permit->count && reply->error == ZK_OK; i++) {
            node_path(permit, i, path);
            hf__zk_orphan_node_add(me, path, strlen(path));
        }
        take_not_done(me, permit);
    }
}

static void find_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct permit *permit = permit_of(answer->subject);
    const struct zk_reply *reply = answer->reply;
    char path[PATH_SIZE];
    hf_error why;
    if (!reply_is_due(permit, answer->tag))
        return;
    bool absent = reply && reply->error == ZK_NONODE;
    if (!absent && zk_answer_error(answer, &why) != 0) {
        hf__zk_permit_pause(me, permit, &why);
        return;
    }
    hf__zk_permit_count(permit, me->layout, reply);
    if (permit->count < permit->nodes) { /* a multi makes all of them or none */
        take_not_done(me, permit);
        return;
    }
    node_path(permit, 0, path);
    permit->ticket.requests++;
    hf__zk_unsent_answer(me->zk,
                         hf__zk_exists(me->zk, path, false, owner_reply,
                                       &permit->ticket, permit->generation),
                         owner_reply, &permit->ticket, permit->generation);
}

void hf__zk_permit_find(struct zk_session *me, struct permit *permit)
{
    permit_set_state(permit, PERMIT_UNKNOWN);
    hf__zk_gather(me->zk);
    hf__zk_sync(me->zk, permit->folders.leases, NULL, NULL, 0);
    permit->ticket.requests++;
    hf__zk_unsent_answer(me->zk,
                         hf__zk_children(me->zk, permit->folders.leases, false,
                                         find_reply, &permit->ticket,
                                         permit->generation),
                         find_reply, &permit->ticket, permit->generation);
    hf__zk_flush(me->zk);
}

/* ---- Giving back ----------------------------------------------------------------- */

static void release_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct permit *permit = permit_of(answer->subject);
    const struct zk_reply *reply = answer->reply;
    if (!reply_is_due(permit, answer->tag))
        return;
    bool known = reply && (reply->error == ZK_OK || reply->error == ZK_NONODE);
    permit->deleted_some |= reply && reply->error == ZK_OK;
    permit->delete_failed |= !known;
    permit->delete_unanswered |= !reply && answer->why->code == HF_EUNCERTAIN;
    if (--permit->replies_due > 0)
        return;
    if (permit->delete_failed) {
        if (hf__zk_is_up(me->zk))
            hf__zk_session_retry_soon(me);
        hf__zk_ticket_withdrawn(me, &permit->ticket,
                                zk_not_withdrawn(permit->delete_unanswered));
        return;
    }
    permit_set_state(permit, PERMIT_NONE);
    permit->count = 0;
    hf_error refusal = permit->refusal; /* freed with the ticket */
    if (refusal.code && !permit->ticket.withdrawing)
        hf__zk_ticket_failed(me, &permit->ticket, &refusal);
    else
        hf__zk_ticket_withdrawn(
            me, &permit->ticket,
            permit->deleted_some || permit->delete_unanswered ? HF_WITHDRAWN : HF_GONE);
}

/* A reply inside a call only says "no connection", and does not free the ticket. */
void hf__zk_permit_release(struct zk_session *me, struct permit *permit)
{
    char path[PATH_SIZE];
    permit_set_state(permit, PERMIT_RELEASE);
    permit->delete_failed = false;
    permit->replies_due = permit->count;
    permit->ticket.requests += permit->count;
    hf__zk_gather(me->zk);
    for (uint32_t i = 0; i < permit->count; i++) {
        node_path(permit, i, path);
        hf__zk_unsent_answer(me->zk,
                             hf__zk_delete(me->zk, path, -1, release_reply,
                                           &permit->ticket, permit->generation),
                             release_reply, &permit->ticket, permit->generation);
    }
    hf__zk_flush(me->zk);
}
