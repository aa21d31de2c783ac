/* SPDX-License-Identifier: MIT */
/*
 * Queue nodes: the requests about one node in one queue, and what their replies show.
 *
 * Create and list are sent together, so that a client without rivals waits for one
 * round trip. A create without a reply is searched by its id, behind a sync, before
 * another one is sent; the node that is found must belong to our session. A delete
 * without a reply is repeated.
 *
 * queue.c says who is admitted. Only a listing grants: one reply of the server shows
 * that our own node exists and that none is before it. Numbers grow, so none comes
 * before it later. Waiters watch the node right before their own; a reader watches the
 * nearest writer. Any event on that node means one thing: list again.
 *
 * Under the client's lock. tickets.c calls, and acts on what is recorded here.
 */
#include "queue.h"
#include "ticket.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

/* How often parents are made, or a recovery is begun, in vain. Servers that remove
 * empty containers may do so between two of our requests, and often. */
enum { RETRIES = 100 };

int hf__zk_queue_node_init(struct zk_ticket *ticket, enum node_form form,
                           const char *folder, size_t folder_len)
{
    size_t size = folder_len + 1 + NODE_ROOM;
    ticket->path = hf__alloc(2 * size);
    if (!ticket->path)
        return HF_ENOMEM;
    ticket->form = form;
    ticket->predecessor = ticket->path + size;
    ticket->folder_len = folder_len;
    memcpy(ticket->path, folder, folder_len);
    return 0;
}

void hf__zk_queue_node_join(const struct zk_ticket *ticket, char *path,
                            const char *name, size_t len)
{
    memmove(path, ticket->path, ticket->folder_len);
    path[ticket->folder_len] = '/';
    memcpy(path + ticket->folder_len + 1, name, len);
    path[ticket->folder_len + 1 + len] = '\0';
}

static const char *own_name(const struct zk_ticket *ticket)
{
    return ticket->path + ticket->folder_len + 1;
}

/* path[] is cut at the folder for a request about the folder, and joined again. */
static const char *folder_open(struct zk_ticket *ticket)
{
    ticket->path[ticket->folder_len] = '\0';
    return ticket->path;
}

static void folder_shut(struct zk_ticket *ticket)
{
    ticket->path[ticket->folder_len] = '/';
}

/* ---- Entering -------------------------------------------------------------------- */

static int create_send(struct zk_session *me, struct zk_ticket *ticket)
{
    char node[NODE_SIZE], data[ZK_DETAILS_SIZE];
    size_t len = hf__zk_node_name_write(node, me->layout, ticket->form, &ticket->id);
    size_t data_len = hf__zk_details_write(&me->identity, ticket->core_ticket,
                                           me->host->ops->now(me->host), 0, data);
    if (ticket->retries > 0)
        TICKET_ASK(ticket, ASK_FOLDER, hf__zk_make_folder, folder_open(ticket));
    hf__zk_queue_node_join(ticket, ticket->path, node, len);
    return TICKET_ASK(ticket, ASK_CREATE, hf__zk_create, ticket->path, data, data_len,
                      ZK_EPHEMERAL_SEQUENTIAL);
}

static int list_send(struct zk_ticket *ticket)
{
    int rc = TICKET_ASK(ticket, ASK_LIST, hf__zk_children, folder_open(ticket), false);
    folder_shut(ticket);
    return rc;
}

static void enter(struct zk_session *me, struct zk_ticket *ticket)
{
    hf_error why;
    ticket->deleted = false;
    ticket->folder_error = ZK_OK;
    if (!hf__zk_is_up(me->zk)) {
        hf__fail(&why, HF_EUNREACHABLE, "there is no connection to ZooKeeper");
        hf__zk_ticket_fail(me, ticket, &why);
        return;
    }
    hf__zk_ticket_begin(ticket, TICKET_ENTER);
    hf__zk_gather(me->zk);
    int created = create_send(me, ticket);
    int listed = created ? 0 : list_send(ticket);
    hf__zk_flush(me->zk);
    if (created != 0) {
        hf__zk_unsent_why(me->zk, created, &why);
        hf__zk_ticket_fail(me, ticket, &why);
    } else if (listed != 0) { /* as if the create had got no reply */
        hf__zk_ticket_reset(ticket, TICKET_FIND);
        hf__zk_ticket_unsent(me, ticket, listed);
    }
}

/* Below zero: such a node would sort before all others. */
static bool has_wrapped(struct zk_session *me, const struct zk_ticket *ticket)
{
    struct node node;
    hf__zk_node_parse_number(&node, me->layout, own_name(ticket),
                             strlen(own_name(ticket)));
    return node.form == NODE_OTHER || node.number[0] == '-';
}

static void entered(struct zk_session *me, struct zk_ticket *ticket,
                    const struct zk_reply *reply)
{
    size_t room = NODE_ROOM + ticket->folder_len;
    hf_error why;
    if (reply->path.len > room || reply->path.len <= ticket->folder_len + 1) {
        hf__fail(&why, HF_ECORRUPT, "the server's reply is malformed");
        ticket->state = TICKET_FIND;
        hf__zk_ticket_pause(me, ticket, &why);
        return;
    }
    memcpy(ticket->path, reply->path.at, reply->path.len);
    ticket->path[reply->path.len] = '\0';
    ticket->token = (uint64_t)(reply->stat.czxid ? reply->stat.czxid : reply->zxid);
    ticket->retries = 0;
    hf__zk_ticket_begin(ticket, TICKET_LIST);
    if (has_wrapped(me, ticket)) {
        hf__fail(&why, HF_EFULL,
                 "the numbers of this folder are used up: delete it when it is idle");
        hf__zk_ticket_refuse(ticket, &why);
    }
}

static void parents_missing(struct zk_session *me, struct zk_ticket *ticket)
{
    hf_error why;
    int32_t error = ticket->folder_error;
    bool refused = error != ZK_OK && error != ZK_NODEEXISTS && error != ZK_NONODE;
    if (++ticket->retries > RETRIES || refused) {
        struct zk_reply reply = { .error = refused ? error : ZK_NONODE };
        hf__zk_server_error(&reply, &why);
        hf__zk_ticket_fail(me, ticket, &why);
        return;
    }
    hf__zk_ticket_set(ticket, TICKET_ENTER);
}

static void create_answered(struct zk_session *me, struct zk_ticket *ticket,
                            const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    if (reply && reply->error == ZK_OK) {
        entered(me, ticket, reply);
    } else if (reply && reply->error == ZK_NONODE) {
        parents_missing(me, ticket);
    } else if (zk_answer_error(answer, &why) == HF_EUNCERTAIN) {
        ticket->state = TICKET_FIND;
        hf__zk_ticket_pause(me, ticket, &why);
    } else {
        hf__zk_ticket_fail(me, ticket, &why);
    }
}

/* ---- Finding a node whose create got no reply ------------------------------------ */

static void find(struct zk_session *me, struct zk_ticket *ticket)
{
    hf__zk_ticket_begin(ticket, TICKET_FIND);
    hf__zk_gather(me->zk);
    hf__zk_sync(me->zk, folder_open(ticket), NULL, NULL, 0);
    int rc = TICKET_ASK(ticket, ASK_FIND, hf__zk_children, ticket->path, false);
    hf__zk_flush(me->zk);
    hf__zk_ticket_unsent(me, ticket, rc);
}

/* Not found: it does not exist, and cannot come any more, because the sync came after
 * the create. */
static void find_answered(struct zk_session *me, struct zk_ticket *ticket,
                          const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    if (!(reply && reply->error == ZK_NONODE) && zk_answer_error(answer, &why) != 0) {
        hf__zk_ticket_pause(me, ticket, &why);
        return;
    }
    size_t at = hf__zk_queue_find(me->layout, &ticket->id, reply->names, reply->count);
    if (at == NO_NODE || reply->names[at].len >= NODE_ROOM) {
        ticket->retries = 0;
        hf__zk_ticket_set(ticket, TICKET_IDLE);
        return;
    }
    hf__zk_queue_node_join(ticket, ticket->path, reply->names[at].at,
                           reply->names[at].len);
    hf__zk_ticket_set(ticket, TICKET_OWNER);
}

static void owner(struct zk_session *me, struct zk_ticket *ticket)
{
    hf__zk_ticket_begin(ticket, TICKET_OWNER);
    int rc = TICKET_ASK(ticket, ASK_OWNER, hf__zk_exists, ticket->path, false);
    if (rc != 0)
        ticket->state = TICKET_FIND;
    hf__zk_ticket_unsent(me, ticket, rc);
}

static void owner_answered(struct zk_session *me, struct zk_ticket *ticket,
                           const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    bool gone = reply && reply->error == ZK_NONODE;
    hf__zk_ticket_set(ticket, TICKET_FIND);
    if (!gone && zk_answer_error(answer, &why) != 0) {
        hf__zk_ticket_pause(me, ticket, &why);
    } else if (!gone && reply->stat.ephemeral_owner == hf__zk_session_id(me->zk)) {
        ticket->token = (uint64_t)reply->stat.czxid;
        hf__zk_ticket_set(ticket, TICKET_LIST);
    } else if (++ticket->retries > RETRIES) {
        hf__fail(&why, HF_EREFUSED, "a node of a former session cannot be deleted");
        ticket->retries = 0;
        hf__zk_ticket_pause(me, ticket, &why);
    } else if (!gone) {
        hf__zk_orphan_node_add(me, ticket->path, strlen(ticket->path));
    }
}

/* ---- Listing --------------------------------------------------------------------- */

static void list(struct zk_session *me, struct zk_ticket *ticket)
{
    hf__zk_ticket_begin(ticket, TICKET_LIST);
    hf__zk_ticket_unsent(me, ticket, list_send(ticket));
}

/* The watch of a predecessor stays if that has not changed. */
static void wait_for(struct zk_session *me, struct zk_ticket *ticket,
                     const struct zk_text *name)
{
    size_t skip = ticket->folder_len + 1;
    bool same = hf__list_linked(&ticket->watcher.link) &&
                strlen(ticket->predecessor) == skip + name->len &&
                memcmp(ticket->predecessor + skip, name->at, name->len) == 0;
    ticket->state = TICKET_WAIT;
    ticket->awaits = same ? AWAITS_EVENT : AWAITS_NOTHING;
    if (same)
        return;
    hf__zk_watcher_end(me, &ticket->watcher);
    hf__zk_queue_node_join(ticket, ticket->predecessor, name->at, name->len);
}

static void place_record(struct zk_session *me, struct zk_ticket *ticket,
                         const struct queue_view *view, const struct zk_answer *answer)
{
    const struct zk_text *names = answer->reply->names;
    hf_error why;
    if (view->own == NO_NODE) { /* another client deleted it */
        hf__zk_ticket_set(ticket, TICKET_IDLE);
    } else if (!ticket->kind_checked && view->mismatch) {
        hf__fail_code(&why, HF_EMISMATCH);
        hf__zk_ticket_refuse(ticket, &why);
    } else if (view->blockers == 0) {
        hf__zk_watcher_end(me, &ticket->watcher);
        ticket->since_ns = answer->sent_ns;
        hf__zk_ticket_set(ticket, TICKET_FIRST);
    } else if (names[view->nearest].len >= NODE_ROOM) {
        hf__fail(&why, HF_ECORRUPT, "a node before ours has a name that is too long");
        hf__zk_ticket_refuse(ticket, &why);
    } else {
        wait_for(me, ticket, &names[view->nearest]);
    }
}

static void list_answered(struct zk_session *me, struct zk_ticket *ticket,
                          const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    const char *own = own_name(ticket);
    struct queue_view view;
    hf_error why;
    if (reply && reply->error == ZK_NONODE) {
        hf__zk_ticket_set(ticket, TICKET_IDLE);
        return;
    }
    if (zk_answer_error(answer, &why) != 0) {
        hf__zk_ticket_pause(me, ticket, &why);
        return;
    }
    hf__zk_queue_judge(&view, me->layout, ticket->form, own, strlen(own), &ticket->id,
                       reply->names, reply->count);
    if (view.extra != NO_NODE && reply->names[view.extra].len < NODE_ROOM) {
        char extra[PATH_SIZE];
        hf__zk_queue_node_join(ticket, extra, reply->names[view.extra].at,
                               reply->names[view.extra].len);
        hf__zk_orphan_node_add(me, extra, strlen(extra));
    }
    place_record(me, ticket, &view, answer);
}

/* ---- Waiting --------------------------------------------------------------------- */

static void predecessor_fired(struct zk_session *me, struct watcher *watcher,
                              enum zk_event_type type)
{
    (void)type;
    struct zk_ticket *ticket = HF_CONTAINER(watcher, struct zk_ticket, watcher);
    if (ticket->state != TICKET_WAIT && ticket->state != TICKET_WAIT_DENIED)
        return;
    hf__zk_ticket_set(ticket, TICKET_LIST);
    hf__zk_ticket_advance(me, ticket);
}

/* The server may deny a node's data, but not that it exists. */
static void watch(struct zk_session *me, struct zk_ticket *ticket)
{
    bool denied = ticket->state == TICKET_WAIT_DENIED;
    hf__zk_ticket_begin(ticket, ticket->state);
    hf__zk_watcher_set(me, &ticket->watcher, ticket->predecessor, predecessor_fired);
    int rc = denied
                 ? TICKET_ASK(ticket, ASK_WATCH_DENIED, hf__zk_exists,
                              ticket->predecessor, true)
                 : TICKET_ASK(ticket, ASK_WATCH, hf__zk_get, ticket->predecessor, true);
    if (rc != 0)
        hf__zk_watcher_drop(&ticket->watcher);
    hf__zk_ticket_unsent(me, ticket, rc);
}

/* A watch by `exists` is set even if the node does not exist. */
static void watch_answered(struct zk_session *me, struct zk_ticket *ticket,
                           enum request what, const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    bool gone = reply && reply->error == ZK_NONODE;
    hf_error why;
    if (reply && reply->error == ZK_OK) {
        ticket->awaits = AWAITS_EVENT;
        return;
    }
    if (gone && what == ASK_WATCH_DENIED)
        hf__zk_watcher_end(me, &ticket->watcher);
    else
        hf__zk_watcher_drop(&ticket->watcher);
    if (gone) {
        hf__zk_ticket_set(ticket, TICKET_LIST);
    } else if (reply && reply->error == ZK_NOAUTH && what == ASK_WATCH) {
        hf__zk_ticket_set(ticket, TICKET_WAIT_DENIED);
    } else {
        zk_answer_error(answer, &why);
        hf__zk_ticket_pause(me, ticket, &why);
    }
}

/* ---- Deleting -------------------------------------------------------------------- */

static void delete_node(struct zk_session *me, struct zk_ticket *ticket)
{
    hf__zk_ticket_reset(ticket, TICKET_DELETE);
    hf__zk_ticket_begin(ticket, TICKET_DELETE);
    hf__zk_gather(me->zk);
    int rc = TICKET_ASK(ticket, ASK_DELETE, hf__zk_delete, ticket->path, -1);
    hf__zk_watcher_end(me, &ticket->watcher);
    hf__zk_flush(me->zk);
    hf__zk_ticket_unsent(me, ticket, rc);
}

static void delete_answered(struct zk_session *me, struct zk_ticket *ticket,
                            const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    bool gone = reply && (reply->error == ZK_OK || reply->error == ZK_NONODE);
    int rc = zk_answer_error(answer, &why);
    ticket->deleted |= rc == 0 || (!reply && rc == HF_EUNCERTAIN);
    if (gone)
        hf__zk_ticket_reset(ticket, TICKET_IDLE);
    else
        hf__zk_ticket_pause(me, ticket, &why);
}

/* ---- Both ------------------------------------------------------------------------ */

void hf__zk_queue_node_act(struct zk_session *me, struct zk_ticket *ticket,
                           enum action action)
{
    switch (action) {
    case DO_ENTER:
        enter(me, ticket);
        break;
    case DO_FIND:
        find(me, ticket);
        break;
    case DO_OWNER:
        owner(me, ticket);
        break;
    case DO_LIST:
        list(me, ticket);
        break;
    case DO_WATCH:
        watch(me, ticket);
        break;
    case DO_DELETE:
        delete_node(me, ticket);
        break;
    default:
        break;
    }
}

/* A reply that is of no state but its own has been outrun by an event. */
void hf__zk_queue_node_record(struct zk_session *me, struct zk_ticket *ticket,
                              enum request what, const struct zk_answer *answer)
{
    enum ticket_state state = ticket->state;
    bool waits = state == TICKET_WAIT || state == TICKET_WAIT_DENIED;
    if (what == ASK_FOLDER && answer->reply)
        ticket->folder_error = answer->reply->error;
    else if (what == ASK_CREATE)
        create_answered(me, ticket, answer);
    else if (what == ASK_LIST && state == TICKET_LIST)
        list_answered(me, ticket, answer);
    else if (what == ASK_FIND)
        find_answered(me, ticket, answer);
    else if (what == ASK_OWNER)
        owner_answered(me, ticket, answer);
    else if ((what == ASK_WATCH || what == ASK_WATCH_DENIED) && waits)
        watch_answered(me, ticket, what, answer);
    else if (what == ASK_DELETE)
        delete_answered(me, ticket, answer);
}
