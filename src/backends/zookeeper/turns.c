/* SPDX-License-Identifier: MIT */
/*
 * Whose turn it is: what a place makes of a listing of its queue, and whom it watches.
 *
 * queue.c says who is in. Others watch the one right before them (a reader: the nearest
 * writer) and look again when it has gone. If that was the only one before them, and
 * nobody can have come between, they are in without looking; for that they watch their
 * own node as well.
 *
 * In a longer queue that is not known. There, whoever was in and leaves says a last
 * word (LAST_WORD), which the next one watches for as well: before who was in there is
 * nobody, so the next one is. In a very long one its own node is not watched (that
 * would be told at each end), but looked at a moment later: if somebody had deleted it
 * while it waited, the hold is lost. The end of the one ahead without that word, of a
 * waiter that gave up or of a client that died, means a look, as ever. The word is
 * never told late: its node does not stay, so there is nothing to be told of.
 *
 * In a quick queue most of these watches are set for nothing. So a session that has
 * heard words of late, and no end without one, watches for the word alone at first, and
 * for the rest if it has not come a moment later. Where other clients are in the queue
 * it does not: they say nothing.
 *
 * Any wake-up but the end of the watched node and its last word only means: look again.
 */
#include "places.h"
#include "queue.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"

/* From so many ahead on there are last words: of one alone, its end says as much. And
 * from so many on our own node is not watched: in a queue like that each request of
 * everyone who comes counts. */
enum { DEEP = 2, CROWD = 16 };

/* Soon, but not so soon that short holds pay for it: their release finds out. */
#define GLANCE_NS (10 * HF_NS_PER_MS)

/* After so many words in a row the word alone is watched at first, for so long; by who
 * is so far back that the one ahead can hardly have left before the watch is set. */
enum { TRUST = 4, FAR = 4 };
#define LATER_NS (10 * HF_NS_PER_MS)

/* ---- Whose turn it is ------------------------------------------------------------ */

void place_in(struct keeper *me, struct place *place, int64_t since_ns)
{
    if (!place->blind)
        glance_stop(me, place);
    watch_end(me, &place->watcher);
    watch_end(me, &place->over);
    place->state = PLACE_IN;
    place->turn++;
    place->flying = false;
    place->user->in(me, place, since_ns);
}

static void ahead_gone(struct keeper *me, struct place *place, int64_t since_ns)
{
    if (place->deep)
        me->words = 0;
    if (place->direct && place->sure)
        place_in(me, place, since_ns);
    else
        place_list(me, place);
}

static void look_send(struct keeper *me, struct place *place);

static void ahead_fired(struct keeper *me, struct watcher *watcher,
                        enum zk_event_type type)
{
    struct place *place = HF_CONTAINER(watcher, struct place, watcher);
    if (place->state != PLACE_WAITING)
        return;
    if (type == ZK_DELETED)
        ahead_gone(me, place, 0);
    else
        look_send(me, place);
}

/* The server may keep its data from us, but not that it exists. Such a watch is there
 * even where the node is not. */
static void exists_done(void *session, void *subject, uint64_t word,
                        const struct zk_reply *reply, int64_t sent_ns,
                        const hf_error *why)
{
    struct keeper *me = session;
    struct place *place = subject;
    hf_error error;
    if (!still_due(place, word))
        return;
    place->flying = false;
    if (reply && reply->error == ZK_NONODE) {
        watch_end(me, &place->watcher);
        ahead_gone(me, place, sent_ns);
    } else if (zoo_reply_error(reply, why, &error) != 0) {
        watch_void(&place->watcher);
        place_pause(me, place, &error);
    }
}

static void look_done(void *session, void *subject, uint64_t word,
                      const struct zk_reply *reply, int64_t sent_ns,
                      const hf_error *why)
{
    struct keeper *me = session;
    struct place *place = subject;
    hf_error error;
    if (!still_due(place, word))
        return;
    place->flying = false;
    if (reply && reply->error == ZK_OK)
        return;
    watch_void(&place->watcher);
    if (reply && reply->error == ZK_NONODE) {
        ahead_gone(me, place, sent_ns);
    } else if (reply && reply->error == ZK_NOAUTH) {
        begin_turn(place, PLACE_WAITING);
        watch_set(me, &place->watcher, place->ahead, ahead_fired);
        place->calls++;
        zk_exists(me->zk, place->ahead, true, exists_done, place, place->turn);
    } else {
        zoo_reply_error(reply, why, &error);
        place_pause(me, place, &error);
    }
}

static void self_fired(struct keeper *me, struct watcher *watcher,
                       enum zk_event_type type)
{
    struct place *place = HF_CONTAINER(watcher, struct place, self);
    place->sure = false;
    if (type != ZK_DELETED)
        return;
    if (place->state == PLACE_WAITING)
        place_list(me, place);
    else if (place->state == PLACE_IN && place->stay->node == place->path)
        stay_lost(me, place->stay);
}

static void self_done(void *session, void *subject, uint64_t word,
                      const struct zk_reply *reply, int64_t sent_ns,
                      const hf_error *why)
{
    (void)session;
    (void)sent_ns;
    (void)why;
    struct place *place = subject;
    bool there = reply && reply->error == ZK_OK;
    if (!there)
        watch_void(&place->self);
    if (still_due(place, word))
        place->sure = there && hf__linked(&place->self.link);
}

/* Who is going to be in without looking has to know that its own node is still there:
 * events come in the order of what happened, so its end would be told before. */
static void self_send(struct keeper *me, struct place *place)
{
    bool unseen = place->direct || (place->deep && place->before < CROWD);
    if (!unseen || hf__linked(&place->self.link))
        return;
    watch_set(me, &place->self, place->path, self_fired);
    place->calls++;
    zk_get(me->zk, place->path, true, self_done, place, place->turn);
}

/* ---- The last word of the one ahead ---------------------------------------------- */

static void glance_done(void *session, void *subject, uint64_t word,
                        const struct zk_reply *reply, int64_t sent_ns,
                        const hf_error *why)
{
    (void)sent_ns;
    (void)why;
    struct keeper *me = session;
    struct place *place = subject;
    if (!still_due(place, word) || !place->blind || !reply)
        return; /* again at `up` */
    place->blind = false;
    if (reply->error == ZK_NONODE)
        stay_lost(me, place->stay);
}

void place_glance(struct keeper *me, struct place *place)
{
    place->calls++;
    zk_exists(me->zk, place->path, false, glance_done, place, place->turn);
}

static void glance_due(void *arg)
{
    struct place *place = arg;
    place_glance(place->stay->keeper, place);
}

/* The one timer of a place: waiting, it is for the look that was put off; being in, for
 * the glance. */
static int glance_set(struct keeper *me, struct place *place, void (*due)(void *),
                      int64_t after_ns)
{
    place->stay->keeper = me;
    place->glance.callback = due;
    place->glance.arg = place;
    return me->host->ops->set_timer(me->host, &place->glance,
                                    me->host->ops->now(me->host) + after_ns);
}

static void over_fired(struct keeper *me, struct watcher *watcher,
                       enum zk_event_type type)
{
    struct place *place = HF_CONTAINER(watcher, struct place, over);
    if (place->state != PLACE_WAITING || type != ZK_CREATED)
        return;
    if (!place->flying)
        watch_void(&place->watcher); /* fires next: it was the same transaction */
    me->words++;
    place->blind = !place->sure;
    if (place->blind)
        glance_set(me, place, glance_due, GLANCE_NS); /* or a renewal finds out */
    place_in(me, place, 0);
}

static void over_done(void *session, void *subject, uint64_t word,
                      const struct zk_reply *reply, int64_t sent_ns,
                      const hf_error *why)
{
    (void)sent_ns;
    (void)why;
    struct keeper *me = session;
    struct place *place = subject;
    if (!still_due(place, word))
        return;
    if (reply && reply->error == ZK_OK)
        watch_end(me, &place->over); /* somebody's joke: no word will come */
    else if (!reply || reply->error != ZK_NONODE)
        watch_void(&place->over);
}

/* Not for who watches its own node: that one knows as much by the end of the node. */
static void over_send(struct keeper *me, struct place *place)
{
    size_t len = strlen(place->ahead);
    if (!place->deep || place->direct || hf__linked(&place->over.link))
        return;
    if (!place->word)
        place->word = hf__alloc(place->folder_len + 1 + NODE_ROOM + sizeof(LAST_WORD));
    if (!place->word)
        return; /* looks, then */
    memcpy(place->word, place->ahead, len);
    memcpy(place->word + len, LAST_WORD, sizeof(LAST_WORD));
    watch_set(me, &place->over, place->word, over_fired);
    place->calls++;
    zk_exists(me->zk, place->word, true, over_done, place, place->turn);
}

/* ---- Whom to watch --------------------------------------------------------------- */

static void look_due(void *arg)
{
    struct place *place = arg;
    struct keeper *me = place->stay->keeper;
    if (place->state == PLACE_WAITING && zk_is_up(me->zk))
        look_send(me, place);
}

/* False if it is no case for that: look now. */
static bool look_later(struct keeper *me, struct place *place)
{
    if (!place->deep || place->direct || me->words < TRUST || place->before < FAR ||
        glance_set(me, place, look_due, LATER_NS) != 0)
        return false;
    begin_turn(place, PLACE_WAITING);
    place->flying = false;
    over_send(me, place);
    return true;
}

static void look_send(struct keeper *me, struct place *place)
{
    begin_turn(place, PLACE_WAITING);
    watch_set(me, &place->watcher, place->ahead, ahead_fired);
    place->calls++;
    zk_gather(me->zk);
    over_send(me, place);
    zk_get(me->zk, place->ahead, true, look_done, place, place->turn);
    self_send(me, place);
    zk_flush(me->zk);
}

static void place_wait(struct keeper *me, struct place *place,
                       const struct zk_text *ahead, bool direct)
{
    bool told = place->told;
    bool same =
        hf__linked(&place->watcher.link) &&
        strlen(place->ahead) == place->folder_len + 1 + ahead->len &&
        memcmp(place->ahead + place->folder_len + 1, ahead->at, ahead->len) == 0;
    place->state = PLACE_WAITING;
    place->flying = false;
    place->direct = direct;
    place->told = true;
    if (!same) {
        watch_end(me, &place->watcher);
        watch_end(me, &place->over);
        join(place, place->ahead, ahead->at, ahead->len);
    }
    if (!told)
        place->user->queued(me, place); /* a mere try leaves again, here */
    if (!same && place->state == PLACE_WAITING && !look_later(me, place))
        look_send(me, place);
}

/* ---- Listing --------------------------------------------------------------------- */

/* The folder may belong to another kind. Asked once: whoever comes later sees us. */
static bool first_look(struct keeper *me, struct place *place,
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

static void judge(struct keeper *me, struct place *place, const struct zk_reply *reply,
                  int64_t sent_ns)
{
    struct queue_view view;
    hf_error why;
    const char *own = node_name(place);
    queue_judge(&view, me->layout, place->form, own, strlen(own), &place->stay->id,
                reply->names, reply->count);
    place->deep |= view.blockers >= DEEP && place->user->hands_over;
    place->before = (uint32_t)view.blockers;
    if (view.extra != NO_NODE && reply->names[view.extra].len < NODE_ROOM) {
        char extra[PATH_SIZE];
        join(place, extra, reply->names[view.extra].at, reply->names[view.extra].len);
        litter_add(me, extra, strlen(extra));
    }
    if (view.own == NO_NODE) { /* somebody deleted it */
        place_idle(place);
        place_enter(me, place);
    } else if (!first_look(me, place, reply, view.mismatch)) {
        return;
    } else if (view.blockers == 0) {
        place->alone = reply->count == 1;
        place_in(me, place, sent_ns);
    } else if (reply->names[view.nearest].len >= NODE_ROOM) {
        hf__fail(&why, HF_ECORRUPT, "a node ahead has a name without end");
        place_refuse(me, place, &why);
    } else {
        place_wait(me, place, &reply->names[view.nearest], view.direct);
    }
}

void place_listed(void *session, void *subject, uint64_t word,
                  const struct zk_reply *reply, int64_t sent_ns, const hf_error *why)
{
    struct keeper *me = session;
    struct place *place = subject;
    hf_error error;
    if (!still_due(place, word) || place->state != PLACE_LISTING)
        return;
    if (reply && reply->error == ZK_NONODE) {
        place_idle(place);
        place_enter(me, place);
    } else if (zoo_reply_error(reply, why, &error) != 0) {
        place_pause(me, place, &error);
    } else {
        judge(me, place, reply, sent_ns);
    }
}

void place_list(struct keeper *me, struct place *place)
{
    begin_turn(place, PLACE_LISTING);
    place->calls++;
    zk_children(me->zk, folder_open(place), false, place_listed, place, place->turn);
    folder_shut(place);
}
