/* SPDX-License-Identifier: MIT */
/*
 * Requests, from the first byte to the reply. They are written into the stream's own
 * buffer, behind one another, and go out in one write. A ring has the pending ones: the
 * server replies in the order of the requests, so a reply belongs to the oldest.
 * Nothing is allocated per request: the ring grows by doubling.
 *
 * Everything runs under the session's lock. Callbacks may send further requests; they
 * may not close the client.
 */
#include "../../../base/error.h"
#include "../../../base/mem.h"
#include "zk_inside.h"

enum { RING_MIN = 16, HEADER_SIZE = 12 };

/* ---- The ring -------------------------------------------------------------------- */

static struct zk_pending *entry_at(const struct zk_ring *ring, uint32_t index)
{
    return &ring->entries[index & (ring->room - 1)];
}

static int reserve(struct zk_ring *ring)
{
    uint32_t count = ring->end - ring->first;

    if (count < ring->room)
        return 0;
    uint32_t room = ring->room ? ring->room * 2 : RING_MIN;
    struct zk_pending *entries = hf__alloc(room * sizeof *entries);
    if (!entries)
        return HF_ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        entries[(ring->first + i) & (room - 1)] = *entry_at(ring, ring->first + i);
    hf__free(ring->entries);
    ring->entries = entries;
    ring->room = room;
    return 0;
}

const struct zk_pending *hf__zk_ring_oldest(const struct zk_ring *ring)
{
    return ring->first == ring->end ? NULL : entry_at(ring, ring->first);
}

struct zk_pending hf__zk_ring_pop(struct zk_ring *ring)
{
    struct zk_pending pending = *entry_at(ring, ring->first);

    if (ring->flushed == ring->first)
        ring->flushed++;
    ring->first++;
    return pending;
}

/* ---- Answers --------------------------------------------------------------------- */

void hf__zk_pending_answer(struct zk *zk, const struct zk_pending *pending,
                           const struct zk_reply *reply, const hf_error *why)
{
    struct zk_answer answer = {
        .session = zk->session,
        .subject = pending->subject,
        .tag = pending->tag,
        .reply = reply,
        .sent_ns = pending->sent_ns,
        .why = why,
    };

    if (pending->done)
        pending->done(&answer);
}

void hf__zk_pending_fail_all(struct zk *zk, const hf_error *why)
{
    struct zk_ring *ring = &zk->ring;
    hf_error uncertain = *why, unsent = *why;

    uncertain.code = HF_EUNCERTAIN;
    unsent.code = HF_EUNREACHABLE;
    while (ring->first != ring->end) {
        bool sent = ring->flushed != ring->first;
        struct zk_pending pending = hf__zk_ring_pop(ring);
        if (pending.watch)
            hf__zk_watch_answered(zk, &pending, NULL);
        hf__zk_pending_answer(zk, &pending, NULL, sent ? &uncertain : &unsent);
    }
}

void hf__zk_forget(struct zk *zk, const void *subject)
{
    for (uint32_t i = zk->ring.first; i != zk->ring.end; i++)
        if (entry_at(&zk->ring, i)->subject == subject)
            entry_at(&zk->ring, i)->done = NULL;
}

void hf__zk_forget_all(struct zk *zk)
{
    for (uint32_t i = zk->ring.first; i != zk->ring.end; i++)
        entry_at(&zk->ring, i)->done = NULL;
}

/* ---- Sending --------------------------------------------------------------------- */

void hf__zk_flush_now(struct zk *zk)
{
    struct zk_ring *ring = &zk->ring;
    uint32_t before = ring->flushed;

    if (before == ring->end)
        return;
    ring->flushed = ring->end;
    if (!hf__stream_flush(zk->stream))
        ring->flushed = before; /* the stream took none of it: these were never sent */
}

void hf__zk_flush_soon(struct zk *zk)
{
    if (!zk->gathering)
        hf__zk_flush_now(zk);
}

void hf__zk_gather(struct zk *zk)
{
    zk->gathering++;
}

void hf__zk_flush(struct zk *zk)
{
    zk->gathering--;
    hf__zk_flush_soon(zk);
}

/* Numbers of requests are positive; negative ones have fixed meanings. */
static int32_t next_xid(struct zk *zk)
{
    zk->xid = zk->xid == INT32_MAX ? 1 : zk->xid + 1;
    return zk->xid;
}

static int32_t xid_of(struct zk *zk, enum zk_opcode opcode)
{
    switch (opcode) {
    case ZK_OPCODE_PING:
        return ZK_XID_PING;
    case ZK_OPCODE_AUTH:
        return ZK_XID_AUTH;
    case ZK_OPCODE_SET_WATCHES:
        return ZK_XID_WATCHES;
    default:
        return next_xid(zk);
    }
}

int hf__zk_request_begin(struct zk *zk, struct zk_request *request,
                         enum zk_opcode opcode, size_t size)
{
    struct zk_pending *pending = &request->pending;
    char *at = reserve(&zk->ring) == 0 ? hf__stream_room(zk->stream, HEADER_SIZE + size)
                                       : NULL;
    if (!at)
        return HF_ENOMEM;
    pending->opcode = (int16_t)opcode;
    pending->xid = xid_of(zk, opcode);
    pending->sent_ns = zk_now(zk);
    request->out = (struct jute_out){ .at = at, .end = at + HEADER_SIZE + size };
    request->frame = hf__zk_jute_open(&request->out);
    hf__zk_jute_put_int(&request->out, pending->xid);
    hf__zk_jute_put_int(&request->out, opcode);
    return 0;
}

void hf__zk_request_end(struct zk *zk, struct zk_request *request)
{
    hf__zk_jute_close(&request->out, request->frame);
    hf__stream_wrote(zk->stream, (size_t)(request->out.at - request->frame));
    *entry_at(&zk->ring, zk->ring.end++) = request->pending;
    hf__zk_deadline_note(zk, request->pending.sent_ns);
}

int hf__zk_request_empty(struct zk *zk, enum zk_opcode opcode)
{
    struct zk_request request = { .frame = NULL };
    int rc = hf__zk_request_begin(zk, &request, opcode, 0);

    if (rc == 0)
        hf__zk_request_end(zk, &request);
    return rc;
}
