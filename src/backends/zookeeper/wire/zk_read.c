/* SPDX-License-Identifier: MIT */
/*
 * Replies and events: takes what the stream has, frame by frame. The first frame of a
 * connection is the connect reply; each other one is an event or the reply to the
 * oldest pending request. Anything else (a reply to another request, a malformed
 * record) ends the connection: after it no reply can be trusted to belong to its
 * request.
 *
 * What a reply proves. The leader alone ends sessions, and hears of those at a follower
 * only indirectly: followers collect which sessions were active, and hand that over
 * whenever the leader asks them, every half tick. A follower that is cut off goes on to
 * answer for a while, so its replies alone prove nothing. But a write or a sync is
 * answered by the leader, behind all that this follower had told it before. So if a
 * request was answered (the follower knows of it), then a quarter of a session passed
 * (the leader has asked: a session has two ticks at least), and then a write or a sync
 * was sent and is answered now, the leader has heard of the session after the first of
 * these was sent: that is the base from which its time counts. The first requests of a
 * session and of a connection need no such proof: the leader itself makes a session or
 * moves it to another server. An event proves nothing: it may have been under way for
 * long.
 *
 * Callbacks get pointers into the stream's buffer, so nothing is consumed before all
 * has been handled; what they send goes out in one write at the end. Runs in the
 * stream's callback, under the session's lock.
 */
#include "../../../base/error.h"
#include "zk_inside.h"

#include <string.h>

static void protocol_error(struct zk *zk, const char *what)
{
    zk->reached = false; /* hf__zk_open() treats it as not reachable */
    hf__zk_lost_because(zk, HF_EUNREACHABLE, what);
}

/* False: it is not below the chroot. */
static bool path_strip(const struct zk *zk, struct zk_text *path)
{
    size_t len = zk->chroot_len;

    if (len == 0)
        return true;
    if (path->len < len || memcmp(path->at, zk->settings.chroot, len) != 0 ||
        (path->len > len && path->at[len] != '/'))
        return false;
    path->at += len;
    path->len -= len;
    if (path->len == 0)
        *path = (struct zk_text){ "/", 1 };
    return true;
}

/* ---- Events ---------------------------------------------------------------------- */

/* Other types are about the server, or are not known yet: no request asks for them. */
static void take_event(struct zk *zk, struct jute *in)
{
    int32_t type = hf__zk_jute_int(in);
    hf__zk_jute_int(in); /* the state of the connection, which the client knows */
    struct zk_text path = hf__zk_jute_text(in);

    if (in->bad) {
        protocol_error(zk, "sent a malformed event");
        return;
    }
    if (zk->state != ZK_STATE_UP || type < ZK_CREATED || type > ZK_CHILD)
        return;
    hf__zk_watch_fired(zk, (enum zk_event_type)type, path);
    if (path_strip(zk, &path) && !zk_is_quiet(zk))
        zk->user->event(zk->session, (enum zk_event_type)type, path.at, path.len);
}

/* ---- Replies --------------------------------------------------------------------- */

static bool multi_check(struct zk *zk, const struct zk_pending *pending,
                        const struct zk_reply *reply)
{
    bool fine = reply->count == pending->count;

    for (size_t i = 0; i < reply->count && fine; i++)
        fine = !zk->lists.texts[i].len || path_strip(zk, &zk->lists.texts[i]);
    return fine;
}

static int decode(struct zk *zk, const struct zk_pending *pending, struct jute *in,
                  struct zk_reply *reply)
{
    bool fine = true;

    if (reply->error != ZK_OK)
        return 0;
    int rc = hf__zk_reply_read((enum zk_opcode)pending->opcode, in, &zk->lists, reply);
    bool create =
        pending->opcode == ZK_OPCODE_CREATE2 || pending->opcode == ZK_OPCODE_CONTAINER;
    if (rc == 0 && create)
        /* hf__zk_make_folder() also makes parts of the chroot, without a callback. */
        fine = path_strip(zk, &reply->path) || !pending->done;
    else if (rc == 0 && pending->opcode == ZK_OPCODE_MULTI)
        fine = multi_check(zk, pending, reply);
    /* The caller uses the number of the transaction as a token. */
    if (create || pending->opcode == ZK_OPCODE_MULTI)
        fine = fine && reply->zxid > 0;
    return fine ? rc : HF_EUNREACHABLE;
}

/* The follower knows of the session since that request; a password is none. */
static void mark_add(struct zk *zk, const struct zk_pending *pending)
{
    struct zk_marks *marks = &zk->marks;
    const struct zk_mark *last = &marks->at[(marks->end - 1) % ZK_MARKS_MAX];
    int64_t apart = zk->session_ns / ZK_MARKS_PER_SESSION;

    if (pending->opcode == ZK_OPCODE_AUTH ||
        (marks->first != marks->end && pending->sent_ns - last->sent_ns < apart))
        return;
    if (marks->end - marks->first == ZK_MARKS_MAX)
        marks->first++;
    marks->at[marks->end++ % ZK_MARKS_MAX] =
        (struct zk_mark){ pending->sent_ns, zk_now(zk) };
}

/* Whether the leader answered this. A follower may refuse a request without the leader
 * (rights, throttling), but not with one of these errors. */
static bool is_leader_reply(const struct zk_pending *pending, int32_t error)
{
    switch (pending->opcode) {
    case ZK_OPCODE_CREATE2:
    case ZK_OPCODE_CONTAINER:
    case ZK_OPCODE_DELETE:
    case ZK_OPCODE_SET:
    case ZK_OPCODE_MULTI:
    case ZK_OPCODE_SYNC:
        return error == ZK_OK || error == ZK_NONODE || error == ZK_NODEEXISTS ||
               error == ZK_NOTEMPTY || error == ZK_BADVERSION;
    default:
        return false;
    }
}

static void session_prove(struct zk *zk, const struct zk_pending *pending,
                          int32_t error)
{
    struct zk_marks *marks = &zk->marks;
    int64_t before = pending->sent_ns - zk->session_ns / 4;

    mark_add(zk, pending);
    if (!is_leader_reply(pending, error))
        return;
    if (zk->asked_ns < pending->sent_ns)
        zk->asked_ns = pending->sent_ns;
    for (; marks->first != marks->end; marks->first++) {
        const struct zk_mark *one = &marks->at[marks->first % ZK_MARKS_MAX];
        if (one->heard_ns > before)
            break;
        if (zk->base_ns < one->sent_ns)
            zk->base_ns = one->sent_ns;
    }
}

static void answer(struct zk *zk, const struct zk_pending *pending,
                   const struct zk_reply *reply)
{
    if (pending->watch)
        hf__zk_watch_answered(zk, pending, reply);
    hf__zk_pending_answer(zk, pending, reply, NULL);
}

/* The reply to a request that the client sent for itself. */
static void own_reply(struct zk *zk, const struct zk_pending *pending, int32_t error)
{
    if (pending->opcode == ZK_OPCODE_AUTH) {
        hf__zk_auth_reply(zk, error);
    } else if (pending->opcode == ZK_OPCODE_CLOSE) {
        hf__zk_session_forget(zk);
        zk->tried = 0;
        hf__zk_lost_because(zk, HF_EUNREACHABLE, "has ended the session as asked");
    } else if (error != ZK_OK) {
        hf__zk_lost_because(zk, HF_EUNREACHABLE, "does not set the watches again");
    }
}

static bool is_own(const struct zk_pending *pending)
{
    return pending->opcode == ZK_OPCODE_AUTH || pending->opcode == ZK_OPCODE_CLOSE ||
           pending->opcode == ZK_OPCODE_SET_WATCHES;
}

/* Errors about the connection or its session, not about the request alone. */
static bool is_end(int32_t error)
{
    return error == ZK_SESSIONEXPIRED || error == ZK_SESSIONMOVED ||
           error == ZK_NOTREADONLY;
}

static void session_ended(struct zk *zk, int32_t error)
{
    if (error == ZK_SESSIONMOVED) {
        hf__zk_lost_because(zk, HF_EUNREACHABLE,
                            "has moved the session to another server");
    } else if (error == ZK_NOTREADONLY) {
        hf__zk_lost_because(zk, HF_EUNREACHABLE,
                            "is read-only: it is cut off from the others");
    } else {
        hf__zk_lost_because(zk, HF_EUNREACHABLE, "has ended the session");
        hf__zk_session_expire(zk);
        hf__zk_session_forget(zk);
    }
}

static void take_reply(struct zk *zk, const struct zk_header *header, struct jute *in)
{
    struct zk_reply reply = { .error = header->error, .zxid = header->zxid };
    const struct zk_pending *oldest = hf__zk_ring_oldest(&zk->ring);

    if (zk->ring.first == zk->ring.flushed || oldest->xid != header->xid) {
        protocol_error(zk, "sent a reply to no request");
        return;
    }
    int rc = header->zxid < 0 ? HF_EUNREACHABLE : decode(zk, oldest, in, &reply);
    if (rc == HF_ENOMEM) {
        hf__zk_lost_because(zk, HF_ENOMEM, "sent a reply for which memory is missing");
        return;
    }
    if (rc != 0) {
        protocol_error(zk, "sent a malformed reply");
        return;
    }
    struct zk_pending pending = hf__zk_ring_pop(&zk->ring);
    bool ends = is_end(header->error);
    if (!ends)
        session_prove(zk, &pending, header->error);
    if (!ends && zk->last_zxid < header->zxid)
        zk->last_zxid = header->zxid;
    if (is_own(&pending) && !ends)
        own_reply(zk, &pending, header->error);
    else
        answer(zk, &pending, &reply);
    if (ends)
        session_ended(zk, header->error);
}

/* ---- Frames ---------------------------------------------------------------------- */

static void take_frame(struct zk *zk, struct jute *in)
{
    if (zk->state == ZK_STATE_HANDSHAKE) {
        hf__zk_handshake_reply(zk, in);
        return;
    }
    struct zk_header header = hf__zk_header_read(in);
    if (in->bad)
        protocol_error(zk, "sent a malformed reply");
    else if (header.xid == ZK_XID_EVENT)
        take_event(zk, in);
    else
        take_reply(zk, &header, in);
}

static void read_all(struct zk *zk)
{
    size_t size = 0, done = 0, used = 0;
    struct hf_stream *stream = zk->stream;
    const char *input = hf__stream_input(stream, &size);
    enum jute_state state = JUTE_MORE;
    uint32_t connection = zk->connection;
    struct jute record;

    while (done < size) {
        state = hf__zk_jute_frame(input + done, size - done, &record, &used);
        if (state != JUTE_WHOLE)
            break;
        done += used;
        take_frame(zk, &record);
        if (zk->connection != connection)
            return;
    }
    if (state == JUTE_BAD)
        protocol_error(zk, "does not speak ZooKeeper's protocol");
    else
        hf__stream_consume(stream, done);
}

void hf__zk_read(struct zk *zk)
{
    uint32_t connection = zk->connection, first = zk->ring.first;

    zk->gathering++;
    read_all(zk);
    zk->gathering--;
    if (zk->ring.first != first && hf__zk_ring_oldest(&zk->ring))
        zk->last_reply_ns = zk_now(zk);
    if (zk->connection == connection)
        hf__zk_flush_soon(zk);
    hf__zk_lists_trim(&zk->lists);
}
