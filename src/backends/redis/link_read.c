/* SPDX-License-Identifier: MIT */
/*
 * Replies, in: takes what the stream has, value by value, and finds whom it is for.
 *
 * Replies come in the order of the commands, so each belongs to the oldest call on the
 * wire. A push (RESP3), or on the second connection of RESP2 an array that begins like
 * one, is no reply. But the confirmation of a subscription stands in line with the
 * replies, and is held against the oldest call as they are.
 *
 * What does not fit (no RESP, a reply nobody asked for, a confirmation of something
 * else) ends the connection: from there on no reply can be trusted to be the right one.
 *
 * What a handler is given points into the stream's buffer, so nothing is consumed
 * before all has been handled; and whatever handlers send goes out in one write at the
 * end.
 */
#include "../../base/error.h"
#include "link_inside.h"

#include <string.h>

static void lost(struct wire *wire, const char *what)
{
    hf_error why;
    hf__error_set(&why, HF_EUNREACHABLE, "%s %s; the connection was closed",
                  hf__stream_peer(wire->stream), what);
    wire->link->hopeless = true;
    link_lost(wire->link, &why);
}

/* The oldest call, NULL if nothing was sent that is not answered. */
static const struct call *oldest(const struct wire *wire)
{
    return wire->first == wire->flushed ? NULL
                                        : &wire->calls[wire->first & (wire->room - 1)];
}

/* ---- Pushes ---------------------------------------------------------------------- */

static bool is_push(const struct wire *wire, const struct resp *nodes)
{
    if (nodes[0].type == RESP_PUSH)
        return true;
    if (wire != &wire->link->wires[1] || nodes[0].type != RESP_ARRAY)
        return false;
    const struct resp *what = resp_at(nodes, 0, 0);
    return resp_is(what, "message") || resp_is(what, "subscribe") ||
           resp_is(what, "unsubscribe");
}

static void message(struct link *link, const struct resp *channel,
                    const struct resp *payload)
{
    if (link->opening || !channel || !payload || channel->type != RESP_TEXT ||
        payload->type != RESP_TEXT)
        return;
    link->user->message(link->session, channel->text, channel->len, payload->text,
                        payload->len);
}

/* Whether this call is what the server confirms. */
static bool is_about(const struct link *link, const struct call *call, bool subscribe,
                     const struct resp *name)
{
    if (!call || !name || name->type != RESP_TEXT)
        return false;
    if (call->step == STEP_INBOX)
        return subscribe && resp_is(name, link->settings.inbox);
    if (call->step != (subscribe ? STEP_SUBSCRIBE : STEP_UNSUBSCRIBE))
        return false;
    const struct channel *channel = call->subject;
    return channel->len == name->len &&
           memcmp(channel->name, name->text, name->len) == 0;
}

static void confirmed(struct wire *wire, bool subscribe, const struct resp *name)
{
    if (!is_about(wire->link, oldest(wire), subscribe, name)) {
        lost(wire, "confirmed a subscription that was not asked for");
        return;
    }
    struct call call = link_pop(wire);
    if (call.step == STEP_INBOX)
        link_shook(wire, STEP_INBOX, NULL);
    else
        link_channel_settled(wire->link, call.subject, (enum step)call.step, false);
}

static void take_push(struct wire *wire, const struct resp *nodes)
{
    const struct resp *what = resp_at(nodes, 0, 0);

    wire->heard_ns = link_now(wire->link);
    if (resp_is(what, "message"))
        message(wire->link, resp_at(nodes, 0, 1), resp_at(nodes, 0, 2));
    else if (resp_is(what, "subscribe"))
        confirmed(wire, true, resp_at(nodes, 0, 1));
    else if (resp_is(what, "unsubscribe"))
        confirmed(wire, false, resp_at(nodes, 0, 1));
}

/* ---- Replies --------------------------------------------------------------------- */

static bool is_subscription(const struct call *call)
{
    return call->step == STEP_SUBSCRIBE || call->step == STEP_UNSUBSCRIBE ||
           call->step == STEP_INBOX;
}

static void take_answer(struct wire *wire, const struct call *call,
                        const struct resp *nodes)
{
    struct link *link = wire->link;

    switch (call->step) {
    case STEP_EVALSHA:
        if (nodes[0].type == RESP_ERROR && resp_begins(nodes, "NOSCRIPT"))
            link_send_again(wire, call);
        else
            link_answer(link, call, nodes, NULL);
        break;
    case STEP_CALL:
        link_answer(link, call, nodes, NULL);
        break;
    case STEP_SUBSCRIBE:
    case STEP_UNSUBSCRIBE:
        link_channel_settled(link, call->subject, (enum step)call->step, true);
        break;
    case STEP_PING:
        break;
    default:
        link_shook(wire, (enum step)call->step, nodes);
        break;
    }
}

static void take_reply(struct wire *wire, const struct resp *nodes)
{
    if (!oldest(wire)) {
        lost(wire, "answered what nobody asked");
        return;
    }
    struct call call = link_pop(wire);
    wire->heard_ns = call.sent_ns;
    if (is_subscription(&call) && nodes[0].type != RESP_ERROR)
        lost(wire, "answered a subscription with something else");
    else
        take_answer(wire, &call, nodes);
}

void link_distrust(struct link *link)
{
    link->distrusted = true;
}

/* False: the wire is closed. */
static bool take(struct wire *wire, const struct resp *nodes)
{
    wire->link->distrusted = false;
    if (is_push(wire, nodes))
        take_push(wire, nodes);
    else
        take_reply(wire, nodes);
    if (wire->link->distrusted && wire->talking)
        lost(wire, "sent an answer that makes no sense");
    return wire->talking;
}

static void read_all(struct wire *wire)
{
    struct resp *nodes = wire->link->nodes;
    size_t size = 0, done = 0, used = 0;
    const char *input = hf__stream_input(wire->stream, &size);
    enum resp_state state = RESP_MORE;

    while (done < size) {
        state = resp_read(input + done, size - done, nodes, RESP_NODES_MAX, &used);
        if (state != RESP_WHOLE)
            break;
        done += used;
        if (!take(wire, nodes))
            return;
    }
    if (state == RESP_BAD)
        lost(wire, "does not speak Redis's protocol");
    else
        hf__stream_consume(wire->stream, done);
}

void link_read(struct wire *wire)
{
    struct link *link = wire->link;
    uint32_t first = wire->first;

    link->reading++;
    if (wire->talking)
        read_all(wire);
    link->reading--;
    if (wire->first != first && wire->first != wire->end)
        wire->moved_ns = link_now(link);
    for (unsigned i = 0; i < link->wire_count; i++)
        if (link->wires[i].talking)
            link_flush(&link->wires[i]);
    if (!link->reading)
        link_trim(wire);
}
