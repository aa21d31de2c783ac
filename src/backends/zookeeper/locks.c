/* SPDX-License-Identifier: MIT */
/*
 * Mutex, reentrant, fair, read, write: a stay with one place in the folder of its name.
 *
 * First come, first served for all of them, so mutex and fair are the same. A mere try
 * goes into the queue as well and leaves it when it is not the first: only a write is
 * sure to see what there is. Two writes for nothing are dear, though, so a name that
 * was busy the last time (ticket->hint) is looked at first, behind a sync.
 *
 * Downgrade is Curator's (5.5 and later): a reader's node with the writer's number
 * takes the place of the writer's, both in one transaction.
 */
#include "kinds.h"
#include "queue.h"

#include "../../base/error.h"

#include <string.h>

enum { HINT_BUSY = 1 };

struct lock {
    struct stay stay;
    struct place place;
    bool trying;  /* not the first: leaves again, and then says busy */
    bool peeking; /* looks before it goes in */
    /* stay.moving: from a writer into a reader, and not known to be one. */
    struct hf_request *request; /* that asked for it; NULL if it was forgotten */
    struct kind_probe probe;
};

static struct lock *lock_of(struct stay *stay)
{
    return HF_CONTAINER(stay, struct lock, stay);
}

static struct lock *lock_with(struct place *place)
{
    return HF_CONTAINER(place, struct lock, place);
}

static enum node_form form_of(int32_t kind)
{
    if (kind == HF_READ)
        return NODE_READ;
    return kind == HF_WRITE ? NODE_WRITE : NODE_LOCK;
}

/* ---- What the place says --------------------------------------------------------- */

static void lock_in(struct zk_session *me, struct place *place, int64_t since_ns)
{
    struct stay *stay = place->stay;
    stay->ticket->hint = 0;
    stay_granted(me, stay, place->path, (uint64_t)place->czxid, since_ns);
}

static void lock_queued(struct zk_session *me, struct place *place)
{
    struct lock *lock = lock_with(place);
    if (lock->stay.ticket->flags & HF_TICKET_TRY) {
        lock->trying = true;
        place_leave(me, place);
    } else {
        stay_queued(me, &lock->stay);
    }
}

static void lock_failed(struct zk_session *me, struct place *place, const hf_error *why)
{
    stay_failed(me, place->stay, why);
}

static void lock_left(struct zk_session *me, struct place *place,
                      enum hf_withdrawal answer)
{
    struct lock *lock = lock_with(place);
    struct stay *stay = &lock->stay;
    hf_error why;
    if (!lock->trying || stay->leaving) {
        stay_left(me, stay, answer);
    } else if (!zk_is_withdrawn(answer)) {
        hf__fail_code(&why, HF_EUNCERTAIN);
        stay_failed(me, stay, &why);
    } else {
        stay->ticket->hint = HINT_BUSY;
        stay_busy(me, stay);
    }
}

static void probed(struct zk_session *me, struct kind_probe *probe, int rc,
                   const hf_error *why)
{
    struct place *place = &HF_CONTAINER(probe, struct lock, probe)->place;
    if (place->state != PLACE_LISTING || place->leave)
        return;
    if (rc == HF_EMISMATCH) {
        place_refuse(me, place, why);
    } else {
        place->checked = rc == 0;
        place_list(me, place); /* without an answer, this has none either */
    }
}

/* Semaphores, latches and cells have their own children in the folder. */
static bool lock_check(struct zk_session *me, struct place *place,
                       const struct zk_reply *reply)
{
    struct lock *lock = lock_with(place);
    const struct hf_ticket *ticket = lock->stay.ticket;
    hf_error why;
    int32_t clash =
        hf__zk_kind_clash(me->layout, reply->names, reply->count, ticket->kind);
    if (clash == KIND_MAYBE) {
        char folder[FOLDER_SIZE];
        hf__zk_folder_write(folder, ticket->name, ticket->name_len);
        hf__zk_kind_probe(me, &lock->probe, folder, ticket->kind, probed);
        return false;
    }
    if (clash != HF_LATCH && clash != HF_CELL)
        return true; /* other locks: queue.c knows better who was the first */
    hf__zk_kind_mismatch(&why, clash, ticket->kind);
    place_refuse(me, place, &why);
    return false;
}

static const struct place_user lock_user = {
    .in = lock_in,
    .queued = lock_queued,
    .failed = lock_failed,
    .left = lock_left,
    .check = lock_check,
};

/* ---- Attempts -------------------------------------------------------------------- */

static void peek_done(void *session, void *subject, uint64_t word,
                      const struct zk_reply *reply, int64_t sent_ns,
                      const hf_error *why)
{
    (void)word;
    (void)sent_ns;
    struct zk_session *me = session;
    struct lock *lock = subject;
    struct queue_view view;
    hf_error error;
    lock->stay.calls--;
    lock->peeking = false;
    if (!reply) {
        error = *why;
        error.code = error.code == HF_ENOMEM ? HF_ENOMEM : HF_EUNREACHABLE;
        stay_failed(me, &lock->stay, &error);
        return;
    }
    hf__zk_queue_judge(&view, me->layout, lock->place.form, NULL, 0, &lock->stay.id,
                       reply->names, reply->count);
    if (reply->error == ZK_OK && view.blockers > 0 && !view.mismatch)
        stay_busy(me, &lock->stay);
    else
        place_enter(me, &lock->place);
}

static void peek(struct zk_session *me, struct lock *lock)
{
    char folder[FOLDER_SIZE];
    hf__zk_folder_write(folder, lock->stay.ticket->name, lock->stay.ticket->name_len);
    lock->peeking = true;
    lock->stay.calls++;
    hf__zk_gather(me->zk);
    hf__zk_sync(me->zk, folder, NULL, NULL, 0);
    hf__zk_children(me->zk, folder, false, peek_done, lock, 0);
    hf__zk_flush(me->zk);
}

static void lock_start(struct zk_session *me, struct lock *lock)
{
    const struct hf_ticket *ticket = lock->stay.ticket;
    lock->trying = false;
    if ((ticket->flags & HF_TICKET_TRY) && ticket->hint == HINT_BUSY) {
        peek(me, lock);
        return;
    }
    place_enter(me, &lock->place);
}

static void lock_attempt(struct zk_session *me, struct stay *stay)
{
    struct lock *lock = lock_of(stay);
    hf_error why;
    if (stay->held) {
        stay_grant_again(me, stay);
    } else if (stay->leaving || stay->over || lock->peeking) {
        return;
    } else if (lock->place.state == PLACE_IDLE) {
        lock->place.told = false; /* an attempt is answered: by busy, if it is a try */
        lock_start(me, lock);
    } else if (!hf__zk_is_up(me->zk)) {
        hf__fail(&why, HF_EUNCERTAIN, "there is no connection to ZooKeeper");
        stay_failed(me, stay, &why);
    } else if (stay->answered) {
        stay_queued(me, stay);
    }
}

static void lock_withdraw(struct zk_session *me, struct stay *stay)
{
    struct lock *lock = lock_of(stay);
    if (lock->stay.moving) {
        litter_add(me, lock->place.ahead, strlen(lock->place.ahead));
        lock->stay.moving = false;
    }
    place_leave(me, &lock->place);
}

/* ---- Downgrade ------------------------------------------------------------------- */

static void turn_answer(struct zk_session *me, struct lock *lock, int rc,
                        const hf_error *why)
{
    struct hf_request *request = lock->request;
    lock->request = NULL;
    if (request)
        me->host->ops->answered(me->host, request, rc, why);
}

static void turned(struct zk_session *me, struct lock *lock)
{
    size_t len = strlen(lock->place.ahead);
    memcpy(lock->place.path, lock->place.ahead, len + 1);
    lock->place.form = NODE_READ;
    lock->stay.kind = HF_READ;
    lock->stay.moving = false;
    turn_answer(me, lock, 0, NULL);
}

/* Our own node is gone, and the new one is not there: the hold is lost. */
static bool is_gone(const struct zk_reply *reply)
{
    return reply && reply->error == ZK_NONODE;
}

static void turn_done(void *session, void *subject, uint64_t word,
                      const struct zk_reply *reply, int64_t sent_ns,
                      const hf_error *why)
{
    (void)word;
    (void)sent_ns;
    struct zk_session *me = session;
    struct lock *lock = subject;
    hf_error error;
    lock->stay.calls--;
    if (!lock->stay.moving)
        return; /* withdrawn meanwhile */
    int rc = zk_reply_error(reply, why, &error);
    if (rc == 0 || (reply && reply->error == ZK_NODEEXISTS)) {
        turned(me, lock);
    } else if (is_gone(reply)) {
        lock->stay.moving = false;
        stay_lost(me, &lock->stay);
        rc = hf__fail_code(&error, HF_ELOST);
        turn_answer(me, lock, rc, &error);
    } else if (rc != HF_EUNCERTAIN) {
        lock->stay.moving = false;
        turn_answer(me, lock, rc, &error);
    }
    if (lock->stay.held && !lock->stay.moving)
        hf__zk_interest_watch(me, &lock->stay);
}

static void turn_send(struct zk_session *me, struct lock *lock)
{
    char data[ZK_DETAILS_SIZE];
    int64_t now = me->host->ops->now(me->host);
    struct hf_ticket reader = *lock->stay.ticket;
    reader.kind = HF_READ;
    struct zk_op ops[2] = {
        { .what = ZK_OP_CREATE,
          .path = lock->place.ahead,
          .data = data,
          .len = hf__zk_details_write(&me->self, &reader, now, lock->stay.token, data),
          .mode = ZK_EPHEMERAL },
        { .what = ZK_OP_DELETE, .path = lock->place.path, .version = -1 },
    };
    lock->stay.calls++;
    hf__zk_multi(me->zk, ops, 2, turn_done, lock, 0);
}

/* The path of the reader's node goes where that of the one ahead was: nobody is. */
static void write_reader(struct zk_session *me, struct lock *lock)
{
    struct place *place = &lock->place;
    struct node node;
    const char *own = place->path + place->folder_len + 1;
    char *to = place->ahead + place->folder_len + 1;
    hf__zk_node_parse(&node, me->layout, own, strlen(own));
    memcpy(place->ahead, place->path, place->folder_len + 1);
    to += hf__zk_node_name_write(to, me->layout, NODE_READ, &lock->stay.id);
    memcpy(to, node.number, node.number_len);
    to[node.number_len] = '\0';
}

void hf__zk_downgrade(struct zk_session *me, struct hf_request *request)
{
    hf_error why;
    struct stay *stay = stay_of(request->ticket);
    struct lock *lock = stay ? lock_of(stay) : NULL;
    if (!lock || !stay->held) {
        hf__fail_code(&why, HF_ELOST);
        me->host->ops->answered(me->host, request, HF_ELOST, &why);
        return;
    }
    lock->request = request;
    if (stay->kind == HF_READ) {
        turn_answer(me, lock, 0, NULL);
    } else if (!stay->moving) {
        /* That node's end will not be the end of the hold. */
        hf__zk_watcher_end(me, &stay->own);
        write_reader(me, lock);
        stay->moving = true;
        turn_send(me, lock);
    }
}

void hf__zk_downgrade_forget(struct zk_session *me, const void *request)
{
    for (HF_EACH(link, &me->stays)) {
        struct stay *stay = HF_CONTAINER(link, struct stay, link);
        if ((stay->kind == HF_WRITE || stay->kind == HF_READ) &&
            lock_of(stay)->request == request)
            lock_of(stay)->request = NULL;
    }
}

/* ---- The session ----------------------------------------------------------------- */

static void lock_up(struct zk_session *me, struct stay *stay, bool fresh)
{
    (void)fresh;
    struct lock *lock = lock_of(stay);
    if (lock->stay.moving && !stay->calls)
        turn_send(me, lock);
    if (lock->place.state != PLACE_IDLE)
        place_up(me, &lock->place);
    else if (stay->ticket && !stay->leaving && !stay->over && !lock->peeking) {
        if (stay->answered)
            lock_start(me, lock); /* its place went with the former session */
        else
            me->host->ops->notice(me->host, stay->ticket);
    }
}

static void lock_expired(struct zk_session *me, struct stay *stay)
{
    struct lock *lock = lock_of(stay);
    hf_error why;
    stay->moving = lock->trying = false;
    hf__fail_code(&why, HF_ELOST);
    turn_answer(me, lock, HF_ELOST, &why);
    place_expired(&lock->place);
}

static void lock_done(struct zk_session *me, struct stay *stay)
{
    struct lock *lock = lock_of(stay);
    hf_error why;
    hf__fail_code(&why, HF_ELOST);
    if (!me->closing)
        turn_answer(me, lock, HF_ELOST, &why);
    hf__zk_kind_probe_drop(me, &lock->probe);
    place_done(me, &lock->place);
}

static const struct stay_ops lock_ops = {
    .attempt = lock_attempt,
    .withdraw = lock_withdraw,
    .up = lock_up,
    .expired = lock_expired,
    .done = lock_done,
};

void hf__zk_lock_attempt(struct zk_session *me, struct hf_ticket *ticket)
{
    char folder[FOLDER_SIZE];
    hf_error why;
    struct stay *stay = stay_begin(me, ticket, sizeof(struct lock), &lock_ops);
    if (!stay)
        return;
    size_t len = hf__zk_folder_write(folder, ticket->name, ticket->name_len);
    if (place_init(&lock_of(stay)->place, stay, &lock_user, form_of(ticket->kind),
                   folder, len) != 0) {
        hf__fail_code(&why, HF_ENOMEM);
        stay_failed(me, stay, &why);
        return;
    }
    lock_attempt(me, stay);
}
