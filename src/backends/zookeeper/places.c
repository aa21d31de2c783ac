/* SPDX-License-Identifier: MIT */
/*
 * Places: one node in one queue, from its creation to its end.
 *
 *     IDLE --enter--> ENTERING --> LISTING --> IN
 *       ^                 |         |   ^       |
 *       |                 v         v   |       |
 *       |              UNKNOWN    WAITING       |
 *       +----------------- LEAVING <------------+
 *
 * Create and list go out in one flight, so that a client without rivals waits once.
 * Others watch the node right before theirs and list again when it has gone (turns.c).
 *
 * Every call carries the place's turn, and an answer of a former turn is dropped. A
 * create without an answer is looked for by its id, behind a sync, before another one
 * is made; what is found must belong to our session. A delete without an answer is
 * repeated. Whatever stops because the connection is gone goes on in place_up().
 *
 * Under the client's lock. The user's callbacks may call place_leave() and may end the
 * place, so they come last, and never while a flight is being put together.
 */
#include "places.h"
#include "queue.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

/* Of building parents, or clearing up, that come to nothing. Servers that remove empty
 * containers may well do so between two of our requests, and often. */
enum { ROUNDS = 100 };

static void recover_send(struct zk_session *me, struct place *place);
static void delete_send(struct zk_session *me, struct place *place);

int place_init(struct place *place, struct zk_ticket *ticket,
               const struct place_user *user, enum node_form form, const char *folder,
               size_t folder_len)
{
    size_t size = folder_len + 1 + NODE_ROOM;
    *place = (struct place){ .ticket = ticket, .user = user, .form = form };
    place->path = hf__alloc(2 * size);
    if (!place->path)
        return HF_ENOMEM;
    place->ahead = place->path + size;
    place->folder_len = folder_len;
    memcpy(place->path, folder, folder_len);
    return 0;
}

void place_done(struct zk_session *me, struct place *place)
{
    hf__zk_watcher_end(me, &place->watcher);
    if (place->calls)
        hf__zk_forget(me->zk, place);
    hf__free(place->path);
    place->path = NULL;
}

/* ---- Ends ------------------------------------------------------------------------ */

static void place_gone(struct zk_session *me, struct place *place,
                       enum hf_withdrawal answer)
{
    hf_error verdict = place->verdict;
    place_idle(place);
    place->verdict.code = 0;
    if (verdict.code && !place->leave)
        place->user->failed(me, place, &verdict);
    else
        place->user->left(me, place, answer);
}

void place_refuse(struct zk_session *me, struct place *place, const hf_error *why)
{
    place->verdict = *why;
    delete_send(me, place);
}

/* Nothing is on the server. */
static void place_fail(struct zk_session *me, struct place *place, const hf_error *why)
{
    hf_error copy = *why;
    place_idle(place);
    if (place->leave)
        place->user->left(me, place, HF_GONE);
    else
        place->user->failed(me, place, &copy);
}

void place_pause(struct zk_session *me, struct place *place, const hf_error *why)
{
    hf_error copy = *why;
    place->flying = false;
    if (hf__zk_is_up(me->zk))
        hf__zk_session_retry_soon(me);
    copy.code = HF_EUNCERTAIN;
    if (place->leave)
        place->user->left(me, place, zk_not_withdrawn(place->unsure));
    else if (!place->told)
        place->user->failed(me, place, &copy);
}

/* ---- Leaving --------------------------------------------------------------------- */

static void delete_done(void *session, void *subject, uint64_t word,
                        const struct zk_reply *reply, int64_t sent_ns,
                        const hf_error *why)
{
    (void)sent_ns;
    struct zk_session *me = session;
    struct place *place = subject;
    hf_error error;
    if (!still_due(place, word))
        return;
    if (reply && reply->error == ZK_OK) {
        place_gone(me, place, HF_WITHDRAWN);
    } else if (reply && reply->error == ZK_NONODE) {
        place_gone(me, place, place->unsure ? HF_WITHDRAWN : HF_GONE);
    } else {
        place->unsure |= !reply && why->code == HF_EUNCERTAIN;
        zk_reply_error(reply, why, &error);
        place_pause(me, place, &error);
    }
}

static void delete_send(struct zk_session *me, struct place *place)
{
    begin_turn(place, PLACE_LEAVING);
    place->calls++;
    hf__zk_gather(me->zk);
    hf__zk_delete(me->zk, place->path, -1, delete_done, place, place->turn);
    hf__zk_watcher_end(me, &place->watcher);
    hf__zk_flush(me->zk);
}

void place_leave(struct zk_session *me, struct place *place)
{
    place->leave = true;
    switch (place->state) {
    case PLACE_IDLE:
        place->user->left(me, place, HF_GONE);
        break;
    case PLACE_ENTERING:
        break; /* its answer tells what to delete */
    case PLACE_UNKNOWN:
        if (!place->flying)
            recover_send(me, place);
        break;
    case PLACE_LEAVING:
        if (!place->flying)
            delete_send(me, place);
        break;
    default:
        delete_send(me, place);
    }
}

void place_forget(struct zk_session *me, struct place *place)
{
    hf__zk_watcher_end(me, &place->watcher);
    place_idle(place);
}

void place_expired(struct place *place)
{
    hf__zk_watcher_drop(&place->watcher);
    place_idle(place);
    place->verdict.code = 0;
    place->unsure = false;
}

/* ---- Entering -------------------------------------------------------------------- */

static void parents_done(void *session, void *subject, uint64_t word,
                         const struct zk_reply *reply, int64_t sent_ns,
                         const hf_error *why)
{
    (void)session;
    (void)sent_ns;
    (void)why;
    struct place *place = subject;
    if (still_due(place, word) && reply)
        place->parents_error = reply->error;
}

/* Below zero: such a node would be sorted before all others. */
static bool has_wrapped(struct zk_session *me, const struct place *place)
{
    struct node node;
    hf__zk_node_parse_number(&node, me->layout, node_name(place),
                             strlen(node_name(place)));
    return node.form == NODE_OTHER || node.number[0] == '-';
}

static void entered(struct zk_session *me, struct place *place,
                    const struct zk_reply *reply)
{
    size_t room = NODE_ROOM + place->folder_len;
    hf_error why;
    if (reply->path.len > room || reply->path.len <= place->folder_len + 1) {
        hf__fail(&why, HF_ECORRUPT, "the server's answer makes no sense");
        place->state = PLACE_UNKNOWN;
        place_pause(me, place, &why);
        return;
    }
    memcpy(place->path, reply->path.at, reply->path.len);
    place->path[reply->path.len] = '\0';
    place->czxid = reply->stat.czxid ? reply->stat.czxid : reply->zxid;
    place->state = PLACE_LISTING;
    place->rounds = 0;
    if (place->leave) {
        delete_send(me, place);
    } else if (has_wrapped(me, place)) {
        hf__fail(&why, HF_EFULL,
                 "the numbers of this folder are used up: delete it when it is idle");
        place_refuse(me, place, &why);
    }
}

static void parents_missing(struct zk_session *me, struct place *place)
{
    hf_error why;
    int32_t error = place->parents_error;
    bool refused = error != ZK_OK && error != ZK_NODEEXISTS && error != ZK_NONODE;
    if (place->leave || ++place->rounds > ROUNDS || refused) {
        struct zk_reply reply = { .error = refused ? error : ZK_NONODE };
        hf__zk_server_error(&reply, &why);
        place_fail(me, place, &why);
        return;
    }
    place_idle(place);
    place_enter(me, place);
}

/* Codes of a create that was not done, whatever it is that hinders. */
static void create_done(void *session, void *subject, uint64_t word,
                        const struct zk_reply *reply, int64_t sent_ns,
                        const hf_error *why)
{
    (void)sent_ns;
    struct zk_session *me = session;
    struct place *place = subject;
    hf_error error;
    if (!still_due(place, word))
        return;
    if (reply && reply->error == ZK_OK) {
        entered(me, place, reply);
    } else if (reply && reply->error == ZK_NONODE) {
        parents_missing(me, place);
    } else if (zk_reply_error(reply, why, &error) == HF_EUNCERTAIN) {
        place->turn++; /* the list that came along is of no use */
        place->state = PLACE_UNKNOWN;
        place_pause(me, place, &error);
    } else if (place->sending) {
        place->verdict = error; /* place_enter() is not done with it */
    } else {
        place_fail(me, place, &error);
    }
}

static void enter_send(struct zk_session *me, struct place *place)
{
    char node[NODE_SIZE], data[ZK_DETAILS_SIZE];
    size_t len =
        hf__zk_node_name_write(node, me->layout, place->form, &place->ticket->id);
    int64_t now = me->host->ops->now(me->host);
    size_t data_len =
        hf__zk_details_write(&me->self, place->ticket->core_ticket, now, 0, data);
    hf__zk_gather(me->zk);
    if (place->rounds > 0) {
        place->calls++;
        hf__zk_make_folder(me->zk, folder_open(place), parents_done, place,
                           place->turn);
    }
    join(place, place->path, node, len);
    place->calls++;
    hf__zk_create(me->zk, place->path, data, data_len, ZK_EPHEMERAL_SEQUENTIAL,
                  create_done, place, place->turn);
    place->calls++;
    hf__zk_children(me->zk, folder_open(place), false, place_listed, place,
                    place->turn);
    folder_shut(place);
    hf__zk_flush(me->zk);
}

void place_enter(struct zk_session *me, struct place *place)
{
    hf_error why;
    place->leave = place->unsure = place->checked = false;
    place->parents_error = ZK_OK;
    if (!hf__zk_is_up(me->zk)) {
        hf__fail(&why, HF_EUNREACHABLE, "there is no connection to ZooKeeper");
        place_fail(me, place, &why);
        return;
    }
    begin_turn(place, PLACE_ENTERING);
    place->sending = true;
    enter_send(me, place);
    place->sending = false;
    if (place->verdict.code && place->state == PLACE_ENTERING) {
        why = place->verdict;
        place->verdict.code = 0;
        place_fail(me, place, &why);
    }
}

/* ---- Finding a node whose creation was not answered ------------------------------ */

/* It is not there, and cannot come any more: the sync has seen to that. */
static void recover_nothing(struct zk_session *me, struct place *place)
{
    place_idle(place);
    place->rounds = 0;
    if (place->leave)
        place->user->left(me, place, HF_GONE);
    else
        place_enter(me, place);
}

static void owner_done(void *session, void *subject, uint64_t word,
                       const struct zk_reply *reply, int64_t sent_ns,
                       const hf_error *why)
{
    (void)sent_ns;
    struct zk_session *me = session;
    struct place *place = subject;
    hf_error error;
    if (!still_due(place, word))
        return;
    bool gone = reply && reply->error == ZK_NONODE;
    if (!gone && zk_reply_error(reply, why, &error) != 0) {
        place_pause(me, place, &error);
    } else if (!gone && reply->stat.ephemeral_owner == hf__zk_session_id(me->zk)) {
        place->czxid = reply->stat.czxid;
        if (place->leave)
            delete_send(me, place);
        else
            place_list(me, place);
    } else if (++place->rounds > ROUNDS) {
        hf__fail(&error, HF_EREFUSED, "a node of a former session cannot be deleted");
        place->rounds = 0;
        place_pause(me, place, &error);
    } else {
        if (!gone)
            hf__zk_orphan_node_add(me, place->path, strlen(place->path));
        recover_send(me, place);
    }
}

static void recover_done(void *session, void *subject, uint64_t word,
                         const struct zk_reply *reply, int64_t sent_ns,
                         const hf_error *why)
{
    (void)sent_ns;
    struct zk_session *me = session;
    struct place *place = subject;
    hf_error error;
    size_t at = NO_NODE;
    if (!still_due(place, word))
        return;
    if (!(reply && reply->error == ZK_NONODE) &&
        zk_reply_error(reply, why, &error) != 0) {
        place_pause(me, place, &error);
        return;
    }
    at = hf__zk_queue_find(me->layout, &place->ticket->id, reply->names, reply->count);
    if (at == NO_NODE || reply->names[at].len >= NODE_ROOM) {
        recover_nothing(me, place);
        return;
    }
    join(place, place->path, reply->names[at].at, reply->names[at].len);
    begin_turn(place, PLACE_UNKNOWN);
    place->calls++;
    hf__zk_exists(me->zk, place->path, false, owner_done, place, place->turn);
}

static void recover_send(struct zk_session *me, struct place *place)
{
    begin_turn(place, PLACE_UNKNOWN);
    place->calls++;
    hf__zk_gather(me->zk);
    hf__zk_sync(me->zk, folder_open(place), NULL, NULL, 0);
    hf__zk_children(me->zk, place->path, false, recover_done, place, place->turn);
    hf__zk_flush(me->zk);
}

/* ---- Connected again ------------------------------------------------------------- */

void place_up(struct zk_session *me, struct place *place)
{
    if (place->flying)
        return;
    switch (place->state) {
    case PLACE_UNKNOWN:
        recover_send(me, place);
        break;
    case PLACE_LISTING:
    case PLACE_WAITING:
        place_list(me, place);
        break;
    case PLACE_LEAVING:
        delete_send(me, place);
        break;
    default:
        break;
    }
}
