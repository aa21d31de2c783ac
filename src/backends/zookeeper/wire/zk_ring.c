/* SPDX-License-Identifier: MIT */
/*
 * Requests, from the first byte to the answer. They are written into the stream's own
 * buffer, behind one another, and go out in one write; what they wait for stands in a
 * ring. The server answers in the order of the requests, so the ring is all that is
 * needed to find who asked. Nothing is allocated per request: the ring grows by
 * doubling.
 *
 * Everything runs under the session's lock. Callers may make calls from inside of an
 * answer; they may not close the client there.
 */
#include "../../../base/error.h"
#include "../../../base/mem.h"
#include "zk_inside.h"

enum { CALLS_MIN = 16, HEADER_SIZE = 12 };

/* ---- The ring -------------------------------------------------------------------- */

static struct zk_call *call_at(const struct zk_ring *ring, uint32_t index)
{
    return &ring->calls[index & (ring->room - 1)];
}

static int reserve(struct zk_ring *ring)
{
    uint32_t count = ring->end - ring->first;

    if (count < ring->room)
        return 0;
    uint32_t room = ring->room ? ring->room * 2 : CALLS_MIN;
    struct zk_call *calls = hf__alloc(room * sizeof *calls);
    if (!calls)
        return HF_ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        calls[(ring->first + i) & (room - 1)] = *call_at(ring, ring->first + i);
    hf__free(ring->calls);
    ring->calls = calls;
    ring->room = room;
    return 0;
}

const struct zk_call *hf__zk_ring_oldest(const struct zk_ring *ring)
{
    return ring->first == ring->end ? NULL : call_at(ring, ring->first);
}

struct zk_call hf__zk_ring_pop(struct zk_ring *ring)
{
    struct zk_call call = *call_at(ring, ring->first);

    if (ring->flushed == ring->first)
        ring->flushed++;
    ring->first++;
    return call;
}

/* ---- Answers --------------------------------------------------------------------- */

void hf__zk_request_answer(struct zk *zk, const struct zk_call *call,
                           const struct zk_reply *reply, const hf_error *why)
{
    if (call->done)
        call->done(zk->session, call->subject, call->word, reply, call->sent_ns, why);
}

void hf__zk_requests_fail(struct zk *zk, const hf_error *why)
{
    struct zk_ring *ring = &zk->ring;
    hf_error uncertain = *why, unsent = *why;

    uncertain.code = HF_EUNCERTAIN;
    unsent.code = HF_EUNREACHABLE;
    while (ring->first != ring->end) {
        bool sent = ring->flushed != ring->first;
        struct zk_call call = hf__zk_ring_pop(ring);
        if (call.watch)
            hf__zk_watch_answered(zk, &call, NULL);
        hf__zk_request_answer(zk, &call, NULL, sent ? &uncertain : &unsent);
    }
}

void hf__zk_forget(struct zk *zk, const void *subject)
{
    for (uint32_t i = zk->ring.first; i != zk->ring.end; i++)
        if (call_at(&zk->ring, i)->subject == subject)
            call_at(&zk->ring, i)->done = NULL;
}

void hf__zk_forget_all(struct zk *zk)
{
    for (uint32_t i = zk->ring.first; i != zk->ring.end; i++)
        call_at(&zk->ring, i)->done = NULL;
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
        ring->flushed = before; /* these were never sent, and we know it */
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

/* Numbers of requests are positive; below are those with a meaning of their own. */
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

int zk_letter_begin(struct zk *zk, struct zk_letter *letter, enum zk_opcode opcode,
                    size_t size)
{
    struct zk_call *call = &letter->call;
    char *at = reserve(&zk->ring) == 0 ? hf__stream_room(zk->stream, HEADER_SIZE + size)
                                       : NULL;
    if (!at)
        return HF_ENOMEM;
    call->opcode = (int16_t)opcode;
    call->xid = xid_of(zk, opcode);
    call->sent_ns = zk_now(zk);
    letter->out = (struct jute_out){ .at = at, .end = at + HEADER_SIZE + size };
    letter->frame = hf__zk_jute_open(&letter->out);
    hf__zk_jute_put_int(&letter->out, call->xid);
    hf__zk_jute_put_int(&letter->out, opcode);
    return 0;
}

void zk_letter_end(struct zk *zk, struct zk_letter *letter)
{
    hf__zk_jute_close(&letter->out, letter->frame);
    hf__stream_wrote(zk->stream, (size_t)(letter->out.at - letter->frame));
    *call_at(&zk->ring, zk->ring.end++) = letter->call;
    hf__zk_deadline_note(zk, letter->call.sent_ns);
}

int zk_letter_bare(struct zk *zk, enum zk_opcode opcode)
{
    struct zk_letter letter = { .frame = NULL };
    int rc = zk_letter_begin(zk, &letter, opcode, 0);

    if (rc == 0)
        zk_letter_end(zk, &letter);
    return rc;
}
