/* SPDX-License-Identifier: MIT */
/*
 * The leases of a semaphore: taken in one multi, found again when its reply was lost,
 * deleted one by one. Under the client's lock.
 *
 * The multi says, in this order: the limit is, or becomes, ours; these are our leases;
 * our queue node is deleted. If any of it fails nothing has changed, and the operation
 * that failed decides what follows: look again, make the folder, or enter the queue
 * again. Behind the multi, in the same packet, the client lists the name: do other
 * kinds have nodes there? A client of another kind that came before the leases may not
 * have seen us; one that comes later does.
 */
#include "permits.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <stdio.h>
#include <string.h>

enum { RETRIES = 50, TAKE_OPS = LEASE_NODES + 2 };

static void node_path(const struct permit *permit, uint32_t index, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/%s", permit->folders.leases, permit->names[index]);
}

void hf__zk_permit_count(struct permit *permit, enum layout layout,
                         const struct zk_reply *reply)
{
    permit->used = permit->count = 0;
    for (size_t i = 0; i < reply->count; i++) {
        const struct zk_text *name = &reply->names[i];
        struct node node;
        permit->used += hf__zk_lease_weight(layout, name);
        hf__zk_node_parse(&node, layout, name->at, name->len);
        if (!node.has_id || name->len >= NODE_SIZE || permit->count == permit->nodes ||
            memcmp(&node.id, &permit->ticket.id, sizeof(node.id)) != 0)
            continue;
        memcpy(permit->names[permit->count], name->at, name->len);
        permit->names[permit->count++][name->len] = '\0';
    }
}

static int list(struct zk_ticket *ticket, const char *path, enum request what)
{
    return TICKET_ASK(ticket, what, hf__zk_children, path, false);
}

/* No reply: the leases are listed when there is a connection again. */
static void check_unanswered(struct zk_session *me, struct zk_ticket *ticket,
                             const hf_error *why)
{
    hf__zk_ticket_reset(ticket, TICKET_FIND_LEASES);
    hf__zk_ticket_pause(me, ticket, why);
}

static void check_unsent(struct zk_session *me, struct zk_ticket *ticket, int rc)
{
    hf_error why;
    if (rc == 0)
        return;
    hf__zk_unsent_why(me->zk, rc, &why);
    check_unanswered(me, ticket, &why);
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

/* All requests go out in one write: the server may remove an empty folder at any
 * moment. */
static int take_send(struct zk_session *me, struct permit *permit,
                     const struct zk_op *ops, size_t count)
{
    struct zk_ticket *ticket = &permit->ticket;
    hf__zk_gather(me->zk);
    if (permit->leases_missing)
        TICKET_ASK(ticket, ASK_LEASE_FOLDER, hf__zk_make_folder,
                   permit->folders.leases);
    permit->leases_missing = false;
    int rc = TICKET_ASK(ticket, ASK_TAKE, hf__zk_multi, ops, count);
    permit->checking = rc == 0 && list(ticket, permit->folders.name, ASK_CHECK) == 0;
    hf__zk_flush(me->zk);
    return rc;
}

static void take(struct zk_session *me, struct permit *permit)
{
    struct zk_ticket *ticket = &permit->ticket;
    struct zk_op ops[TAKE_OPS];
    char line[ZK_DETAILS_SIZE], text[LIMIT_SIZE];
    size_t room = strlen(permit->folders.leases) + 1 + NODE_SIZE;
    char *paths = hf__alloc(permit->nodes * room);
    hf_error why;
    hf__zk_ticket_begin(ticket, TICKET_TAKE);
    if (!paths) {
        hf__fail_code(&why, HF_ENOMEM);
        hf__zk_ticket_set(ticket, TICKET_FIRST);
        hf__zk_ticket_refuse(ticket, &why);
        return;
    }
    size_t count = 0, len = hf__zk_details_write(&me->identity, ticket->core_ticket,
                                                 me->host->ops->now(me->host), 0, line);
    if (permit->limit_state != LIMIT_FOREIGN)
        op_for_limit(me, permit, &ops[count++], text);
    ops_for_leases(me, permit, ops + count, paths, room, line, len);
    count += permit->nodes;
    ops[count++] =
        (struct zk_op){ .what = ZK_OP_DELETE, .path = ticket->path, .version = -1 };
    int rc = take_send(me, permit, ops, count);
    hf__free(paths);
    if (rc != 0)
        ticket->state = TICKET_FIRST;
    hf__zk_ticket_unsent(me, ticket, rc);
}

/* The leases are ours. `checking`: the look at the name was sent behind the take. */
static void taken(struct zk_session *me, struct permit *permit, uint64_t token,
                  int64_t since_ns, bool checking)
{
    struct zk_ticket *ticket = &permit->ticket;
    size_t len = strlen(permit->folders.leases) + 1 + NODE_SIZE;
    hf__zk_watcher_end(me, &ticket->watcher);
    hf__zk_ticket_set(ticket, TICKET_CHECK);
    if (checking)
        ticket->awaits = AWAITS_REPLY;
    ticket->retries = 0;
    ticket->token = token;
    ticket->since_ns = since_ns;
    snprintf(permit->node, len, "%s/%s", permit->folders.leases, permit->names[0]);
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

static void take_hopeless(struct permit *permit, int32_t error)
{
    int32_t folder = permit->folder_error;
    bool made = folder == ZK_OK || folder == ZK_NODEEXISTS;
    struct zk_reply reply = { .error = made ? error : folder };
    hf_error why;
    hf__zk_server_error(&reply, &why);
    hf__zk_ticket_refuse(&permit->ticket, &why);
}

/* Nothing was changed: FIRST, unless the queue node was deleted by another client.
 * `limit`: the first operation was about the limit. */
static void take_failed(struct permit *permit, const struct zk_reply *reply, bool limit)
{
    struct zk_ticket *ticket = &permit->ticket;
    size_t failed = 0;
    while (failed + 1 < reply->count && reply->errors[failed] == ZK_OK)
        failed++;
    bool at_limit = limit && failed == 0, at_place = failed + 1 == reply->count;
    bool absent = reply->error == ZK_NONODE;
    bool known = at_limit || absent || reply->error == ZK_NODEEXISTS;
    permit->watching = false;
    if (ticket->retries++ == RETRIES || !known) {
        take_hopeless(permit, reply->error);
    } else if (at_limit) {
        permit->limit_unwritable |= reply->error == ZK_NOAUTH;
    } else if (at_place && absent) {
        ticket->retries = 0;
        hf__zk_ticket_set(ticket, TICKET_IDLE);
    } else if (absent) {
        permit->leases_missing = true;
        hf__zk_ticket_set(ticket, TICKET_TAKE);
    } else {
        hf__zk_ticket_set(ticket, TICKET_FIND_LEASES);
    }
}

static void take_answered(struct zk_session *me, struct permit *permit,
                          const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    struct zk_ticket *ticket = &permit->ticket;
    bool limit = permit->limit_state != LIMIT_FOREIGN;
    hf_error why;
    if (reply && reply->error == ZK_OK) {
        keep_names(permit, reply->paths + limit, reply->count - 1 - limit);
        taken(me, permit, (uint64_t)reply->zxid, answer->sent_ns, permit->checking);
        return;
    }
    hf__zk_ticket_set(ticket, TICKET_FIRST);
    zk_answer_error(answer, &why);
    if (!reply && why.code == HF_EUNCERTAIN)
        ticket->state = TICKET_FIND_LEASES;
    if (!reply)
        hf__zk_ticket_pause(me, ticket, &why);
    else if (reply->count && ticket->goal == GOAL_HOLD)
        take_failed(permit, reply, limit);
    else
        hf__zk_ticket_refuse(ticket, &why);
}

/* ---- Checking -------------------------------------------------------------------- */

static void check(struct zk_session *me, struct permit *permit)
{
    hf__zk_ticket_begin(&permit->ticket, TICKET_CHECK);
    check_unsent(me, &permit->ticket,
                 list(&permit->ticket, permit->folders.name, ASK_CHECK));
}

static void check_probe(struct zk_session *me, struct permit *permit)
{
    hf__zk_ticket_begin(&permit->ticket, TICKET_CHECK_PROBE);
    check_unsent(me, &permit->ticket,
                 hf__zk_ticket_probe(me, &permit->ticket, permit->folders.name));
}

/* The leases exist. Without another kind the ticket is granted. */
static void checked(struct zk_ticket *ticket, int32_t clash)
{
    hf_error why;
    hf__zk_ticket_set(ticket, TICKET_CHECKED);
    if (!clash)
        return;
    hf__zk_kind_mismatch(&why, clash, ticket->kind);
    hf__zk_ticket_refuse(ticket, &why);
}

static void check_answered(struct zk_session *me, struct zk_ticket *ticket,
                           const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    if (!reply) {
        check_unanswered(me, ticket, answer->why);
        return;
    }
    int32_t clash =
        hf__zk_kind_clash(me->layout, reply->names, reply->count, ticket->kind);
    if (clash == KIND_MAYBE)
        hf__zk_ticket_set(ticket, TICKET_CHECK_PROBE);
    else
        checked(ticket, clash);
}

static void check_probed(struct zk_session *me, struct zk_ticket *ticket,
                         enum request what, const struct zk_answer *answer)
{
    if (!hf__zk_ticket_probed(me, ticket, what, answer))
        return;
    if (answer->reply)
        checked(ticket, ticket->clash);
    else
        check_unanswered(me, ticket, answer->why);
}

/* ---- Finding --------------------------------------------------------------------- */

static void find(struct zk_session *me, struct permit *permit)
{
    struct zk_ticket *ticket = &permit->ticket;
    hf__zk_ticket_begin(ticket, TICKET_FIND_LEASES);
    hf__zk_gather(me->zk);
    hf__zk_sync(me->zk, permit->folders.leases, NULL, NULL, 0);
    int rc = list(ticket, permit->folders.leases, ASK_FIND_LEASES);
    hf__zk_flush(me->zk);
    hf__zk_ticket_unsent(me, ticket, rc);
}

/* The take was not carried out, and cannot be any more: the sync came after it. */
static void take_not_done(struct permit *permit)
{
    permit->count = 0;
    permit->watching = false;
    hf__zk_ticket_set(&permit->ticket, TICKET_FIRST);
}

static void find_answered(struct zk_session *me, struct permit *permit,
                          const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    bool absent = reply && reply->error == ZK_NONODE;
    if (!absent && zk_answer_error(answer, &why) != 0) {
        hf__zk_ticket_pause(me, &permit->ticket, &why);
        return;
    }
    hf__zk_permit_count(permit, me->layout, reply);
    if (permit->count < permit->nodes) /* a multi makes all of them or none */
        take_not_done(permit);
    else
        hf__zk_ticket_set(&permit->ticket, TICKET_LEASE_OWNER);
}

static void owner(struct zk_session *me, struct permit *permit)
{
    struct zk_ticket *ticket = &permit->ticket;
    char path[PATH_SIZE];
    node_path(permit, 0, path);
    hf__zk_ticket_begin(ticket, TICKET_LEASE_OWNER);
    check_unsent(me, ticket,
                 TICKET_ASK(ticket, ASK_LEASE_OWNER, hf__zk_exists, path, false));
}

static void owner_answered(struct zk_session *me, struct permit *permit,
                           const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    char path[PATH_SIZE];
    if (!reply) {
        check_unanswered(me, &permit->ticket, answer->why);
        return;
    }
    if (reply->error == ZK_OK &&
        reply->stat.ephemeral_owner == hf__zk_session_id(me->zk)) {
        taken(me, permit, (uint64_t)reply->stat.czxid, answer->sent_ns, false);
        return;
    }
    /* a former session of ours: the server is about to delete them */
    for (uint32_t i = 0; i < permit->count && reply->error == ZK_OK; i++) {
        node_path(permit, i, path);
        hf__zk_orphan_node_add(me, path, strlen(path));
    }
    take_not_done(permit);
}

/* ---- Releasing ------------------------------------------------------------------- */

static void release(struct zk_session *me, struct permit *permit)
{
    struct zk_ticket *ticket = &permit->ticket;
    char path[PATH_SIZE];
    int rc = 0;
    hf__zk_ticket_reset(ticket, TICKET_RELEASE);
    permit->release_failed = false;
    hf__zk_ticket_begin(ticket, TICKET_RELEASE);
    hf__zk_gather(me->zk);
    for (uint32_t i = 0; i < permit->count && rc == 0; i++) {
        bool last = i + 1 == permit->count;
        node_path(permit, i, path);
        rc = TICKET_ASK(ticket, last ? ASK_RELEASE_LAST : ASK_RELEASE, hf__zk_delete,
                        path, -1);
        ticket->deleted |= rc != 0 && i > 0; /* those replies are not waited for */
    }
    hf__zk_flush(me->zk);
    if (rc != 0)
        ticket->generation++;
    hf__zk_ticket_unsent(me, ticket, rc);
}

static void release_answered(struct zk_session *me, struct permit *permit,
                             enum request what, const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    struct zk_ticket *ticket = &permit->ticket;
    hf_error why;
    int rc = zk_answer_error(answer, &why);
    ticket->deleted |= rc == 0 || (!reply && rc == HF_EUNCERTAIN);
    permit->release_failed |= rc != 0 && !(reply && reply->error == ZK_NONODE);
    if (what != ASK_RELEASE_LAST)
        return;
    if (permit->release_failed) {
        if (rc == 0)
            hf__fail_code(&why, HF_EUNCERTAIN);
        hf__zk_ticket_pause(me, ticket, &why);
        return;
    }
    permit->count = 0;
    hf__zk_ticket_set(ticket, TICKET_IDLE);
}

/* ---- All of it ------------------------------------------------------------------- */

void hf__zk_permit_take_act(struct zk_session *me, struct permit *permit,
                            enum action action)
{
    switch (action) {
    case DO_TAKE:
        take(me, permit);
        break;
    case DO_FIND_LEASES:
        find(me, permit);
        break;
    case DO_LEASE_OWNER:
        owner(me, permit);
        break;
    case DO_CHECK:
        check(me, permit);
        break;
    case DO_CHECK_PROBE:
        check_probe(me, permit);
        break;
    case DO_RELEASE:
        release(me, permit);
        break;
    default:
        break;
    }
}

void hf__zk_permit_take_record(struct zk_session *me, struct permit *permit,
                               enum request what, const struct zk_answer *answer)
{
    struct zk_ticket *ticket = &permit->ticket;
    if (what == ASK_LEASE_FOLDER)
        permit->folder_error = answer->reply ? answer->reply->error : ZK_OK;
    else if (what == ASK_TAKE)
        take_answered(me, permit, answer);
    else if (what == ASK_CHECK && ticket->state == TICKET_CHECK)
        check_answered(me, ticket, answer);
    else if (what == ASK_FIND_LEASES)
        find_answered(me, permit, answer);
    else if (what == ASK_LEASE_OWNER)
        owner_answered(me, permit, answer);
    else if (what == ASK_RELEASE || what == ASK_RELEASE_LAST)
        release_answered(me, permit, what, answer);
    else if (ticket->state == TICKET_CHECK_PROBE)
        check_probed(me, ticket, what, answer);
}
