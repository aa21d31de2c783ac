/* SPDX-License-Identifier: MIT */
/*
 * Whose turn it is: what a place makes of a listing of its queue, and whom it watches.
 *
 * queue.c says who is in. Only a listing grants: one answer of the server shows that
 * our own node is there and that nobody is before it. Numbers grow, so nobody comes
 * before it later. Waiters watch the node right before them (a reader: the nearest
 * writer). Whatever is told of that node means one thing: list again.
 */
#include "places.h"
#include "queue.h"

#include "../../base/error.h"

/* ---- Whose turn it is ------------------------------------------------------------ */

void place_in(struct zk_session *me, struct place *place, int64_t since_ns)
{
    hf__zk_watcher_end(me, &place->watcher);
    place->state = PLACE_IN;
    place->turn++;
    place->flying = false;
    place->user->in(me, place, since_ns);
}

/* ---- Whom to watch --------------------------------------------------------------- */

static void ahead_fired(struct zk_session *me, struct watcher *watcher,
                        enum zk_event_type type)
{
    (void)type;
    struct place *place = HF_CONTAINER(watcher, struct place, watcher);
    if (place->state == PLACE_WAITING)
        place_list(me, place);
}

/* The server may keep a node's data from us, but not that it exists. This watch is set
 * even where the node is not there. */
static void exists_done(void *session, void *subject, uint64_t word,
                        const struct zk_reply *reply, int64_t sent_ns,
                        const hf_error *why)
{
    (void)sent_ns;
    struct zk_session *me = session;
    struct place *place = subject;
    hf_error error;
    if (!still_due(place, word))
        return;
    place->flying = false;
    if (reply && reply->error == ZK_NONODE) {
        hf__zk_watcher_end(me, &place->watcher);
        place_list(me, place);
    } else if (zk_reply_error(reply, why, &error) != 0) {
        hf__zk_watcher_drop(&place->watcher);
        place_pause(me, place, &error);
    }
}

static void look_done(void *session, void *subject, uint64_t word,
                      const struct zk_reply *reply, int64_t sent_ns,
                      const hf_error *why)
{
    (void)sent_ns;
    struct zk_session *me = session;
    struct place *place = subject;
    hf_error error;
    if (!still_due(place, word))
        return;
    place->flying = false;
    if (reply && reply->error == ZK_OK)
        return;
    hf__zk_watcher_drop(&place->watcher);
    if (reply && reply->error == ZK_NONODE) {
        place_list(me, place);
    } else if (reply && reply->error == ZK_NOAUTH) {
        begin_turn(place, PLACE_WAITING);
        hf__zk_watcher_set(me, &place->watcher, place->ahead, ahead_fired);
        place->calls++;
        hf__zk_exists(me->zk, place->ahead, true, exists_done, place, place->turn);
    } else {
        zk_reply_error(reply, why, &error);
        place_pause(me, place, &error);
    }
}

static void look_send(struct zk_session *me, struct place *place)
{
    begin_turn(place, PLACE_WAITING);
    hf__zk_watcher_set(me, &place->watcher, place->ahead, ahead_fired);
    place->calls++;
    hf__zk_get(me->zk, place->ahead, true, look_done, place, place->turn);
}

static void place_wait(struct zk_session *me, struct place *place,
                       const struct zk_text *ahead)
{
    bool told = place->told;
    bool same =
        hf__linked(&place->watcher.link) &&
        strlen(place->ahead) == place->folder_len + 1 + ahead->len &&
        memcmp(place->ahead + place->folder_len + 1, ahead->at, ahead->len) == 0;
    place->state = PLACE_WAITING;
    place->flying = false;
    place->told = true;
    if (!same) {
        hf__zk_watcher_end(me, &place->watcher);
        join(place, place->ahead, ahead->at, ahead->len);
    }
    if (!told)
        place->user->queued(me, place); /* a mere try leaves again, here */
    if (!same && place->state == PLACE_WAITING)
        look_send(me, place);
}

/* ---- Listing --------------------------------------------------------------------- */

/* The folder may belong to another kind. Asked once: whoever comes later sees us. */
static bool first_look(struct zk_session *me, struct place *place,
                       const struct zk_reply *reply, bool mismatch)
{
    hf_error why;
    if (place->checked)
        return true;
    place->checked = true;
    if (mismatch) {
        hf__fail_code(&why, HF_EMISMATCH);
        place_refuse(me, place, &why);
        return false;
    }
    return !place->user->check || place->user->check(me, place, reply);
}

static void judge(struct zk_session *me, struct place *place,
                  const struct zk_reply *reply, int64_t sent_ns)
{
    struct queue_view view;
    hf_error why;
    const char *own = node_name(place);
    hf__zk_queue_judge(&view, me->layout, place->form, own, strlen(own),
                       &place->ticket->id, reply->names, reply->count);
    if (view.extra != NO_NODE && reply->names[view.extra].len < NODE_ROOM) {
        char extra[PATH_SIZE];
        join(place, extra, reply->names[view.extra].at, reply->names[view.extra].len);
        hf__zk_orphan_node_add(me, extra, strlen(extra));
    }
    if (view.own == NO_NODE) { /* somebody deleted it */
        place_idle(place);
        place_enter(me, place);
    } else if (!first_look(me, place, reply, view.mismatch)) {
        return;
    } else if (view.blockers == 0) {
        place_in(me, place, sent_ns);
    } else if (reply->names[view.nearest].len >= NODE_ROOM) {
        hf__fail(&why, HF_ECORRUPT, "a node ahead has a name without end");
        place_refuse(me, place, &why);
    } else {
        place_wait(me, place, &reply->names[view.nearest]);
    }
}

void place_listed(void *session, void *subject, uint64_t word,
                  const struct zk_reply *reply, int64_t sent_ns, const hf_error *why)
{
    struct zk_session *me = session;
    struct place *place = subject;
    hf_error error;
    if (!still_due(place, word) || place->state != PLACE_LISTING)
        return;
    if (reply && reply->error == ZK_NONODE) {
        place_idle(place);
        place_enter(me, place);
    } else if (zk_reply_error(reply, why, &error) != 0) {
        place_pause(me, place, &error);
    } else {
        judge(me, place, reply, sent_ns);
    }
}

void place_list(struct zk_session *me, struct place *place)
{
    begin_turn(place, PLACE_LISTING);
    place->calls++;
    hf__zk_children(me->zk, folder_open(place), false, place_listed, place,
                    place->turn);
    folder_shut(place);
}
