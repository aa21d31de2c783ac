/* SPDX-License-Identifier: MIT */
/*
 * What the server pushes: messages to our inbox, and messages on Redisson's channels.
 *
 * The script that releases a lock grants it to the next holdfast waiter and publishes
 * the grant to that waiter's inbox: nearly every wait ends this way. Behind a foreign
 * holder the first waiter also subscribes to Redisson's channel for the name. It
 * attempts again when the subscription is confirmed (the lock may have been released
 * before) and at every message. A waiter for a latch always subscribes.
 */
#include "session.h"

#include "../../base/clock.h"
#include "../../base/mem.h"
#include "../../base/text.h"

#include <string.h>

/* The longest time for which the server may ask a waiter to wait. */
#define LATER_MAX_MS 1000

struct listener {
    struct hf_list_node link;
    struct hf_ticket *ticket;
    bool confirmed;
    uint32_t len;
    char channel[]; /* of `len` bytes */
};

/* ---- Channels of Redisson -------------------------------------------------------- */

static struct hf_list_node *bucket_of(struct redis_session *me, const char *channel,
                                      size_t len)
{
    return &me->listeners[hf__text_hash(channel, len) % LISTENER_BUCKETS];
}

void hf__redis_listen_start(struct redis_session *me)
{
    for (size_t i = 0; i < LISTENER_BUCKETS; i++)
        hf__list_init(&me->listeners[i]);
}

static struct listener *listener_of(const struct hf_ticket *ticket)
{
    return (struct listener *)(uintptr_t)ticket->store[1];
}

static size_t channel_write(char *out, const struct hf_ticket *ticket)
{
    static const enum key_name names[] = {
        [HF_MUTEX] = KEY_CHANNEL, [HF_REENTRANT] = KEY_CHANNEL, [HF_FAIR] = KEY_CHANNEL,
        [HF_READ] = KEY_RW,       [HF_WRITE] = KEY_RW,          [HF_PERMITS] = KEY_SC,
        [HF_EXPIRING] = KEY_SC,   [HF_LATCH] = KEY_GATE,
    };
    size_t len =
        hf__redis_key_write(out, names[ticket->kind], ticket->name, ticket->name_len);
    if (ticket->kind != HF_FAIR)
        return len;
    out[len++] = ':'; /* the fair lock has a channel for each waiter */
    return len + hf__redis_owner_write(out + len, LAYOUT_REDISSON, &ticket->id);
}

int hf__redis_listen_to(struct redis_session *me, struct hf_ticket *ticket)
{
    char channel[KEY_SIZE + OWNER_SIZE + 1];
    if (listener_of(ticket))
        return 0;
    size_t len = channel_write(channel, ticket);
    struct listener *listener = hf__alloc(sizeof(*listener) + len);
    if (!listener)
        return HF_ENOMEM;
    memcpy(listener->channel, channel, len);
    listener->len = (uint32_t)len;
    listener->ticket = ticket;
    hf__list_push_back(bucket_of(me, channel, len), &listener->link);
    ticket->store[1] = (uintptr_t)listener;
    int rc = hf__redis_conn_subscribe(me->conn, channel, len);
    if (rc != 0) {
        hf__list_remove(&listener->link);
        hf__free(listener);
        ticket->store[1] = 0;
    }
    return rc;
}

void hf__redis_listen_end(struct redis_session *me, struct hf_ticket *ticket)
{
    struct listener *listener = listener_of(ticket);
    if (!listener)
        return;
    ticket->store[1] = 0;
    hf__list_remove(&listener->link);
    hf__redis_conn_unsubscribe(me->conn, listener->channel, listener->len);
    hf__free(listener);
}

void hf__redis_listen_done(struct redis_session *me)
{
    for (size_t i = 0; i < LISTENER_BUCKETS; i++)
        for (struct hf_list_node *link; (link = hf__list_first(&me->listeners[i]));) {
            hf__list_remove(link);
            hf__free(HF_CONTAINER(link, struct listener, link));
        }
}

static bool listens_to(const struct listener *listener, const char *channel, size_t len)
{
    return listener->len == len && memcmp(listener->channel, channel, len) == 0;
}

static void latch_opened(struct redis_session *me, struct hf_ticket *ticket)
{
    struct hf_grant grant = { .token = 1, .span = 1 };
    hf__redis_ticket_attempt_done(me, ticket);
    me->host->ops->granted(me->host, ticket, &grant);
}

/* `payload` NULL: the subscription was confirmed. */
static void channel_message(struct redis_session *me, const char *channel,
                            size_t channel_len, const char *payload, size_t len)
{
    struct hf_list_node *bucket = bucket_of(me, channel, channel_len);
    for (HF_EACH_SAFE(link, bucket)) {
        struct listener *listener = HF_CONTAINER(link, struct listener, link);
        struct hf_ticket *ticket = listener->ticket;
        if (!listens_to(listener, channel, channel_len) ||
            (!payload && listener->confirmed))
            continue;
        if (!payload)
            listener->confirmed = true;
        if (payload && ticket->kind == HF_LATCH && len == 1 && *payload == '0')
            latch_opened(me, ticket);
        else
            me->host->ops->notice(me->host, ticket);
    }
}

void hf__redis_subscribed(void *session, const char *channel, size_t channel_len)
{
    channel_message(session, channel, channel_len, NULL, 0);
}

/* ---- The inbox ------------------------------------------------------------------- */

/* The next word of a message; empty at its end. */
static struct resp_arg next_word(const char **at, const char *end)
{
    const char *from = *at;
    const char *space = memchr(from, ' ', (size_t)(end - from));
    if (!space)
        space = end;
    *at = space < end ? space + 1 : end;
    return (struct resp_arg){ from, (size_t)(space - from) };
}

static bool next_number(const char **at, const char *end, uint64_t *ret_number)
{
    char digits[24];
    struct resp_arg word = next_word(at, end);
    if (word.len == 0 || word.len >= sizeof(digits))
        return false;
    memcpy(digits, word.text, word.len);
    digits[word.len] = '\0';
    return hf__text_number(digits, INT64_MAX, ret_number);
}

/*
 * The lease began when the previous holder released the lock. The client does not know
 * that moment, and the server's clock, which may be set, does not prove it; but it came
 * after the request that queued the ticket. If that request is more than a quarter of
 * the lease ago (a long wait, or this process was stopped), the grant is not believed:
 * core attempts again, and the script answers with the same grant and a fresh lease.
 */
static void inbox_granted(struct redis_session *me, struct hf_ticket *ticket,
                          const char *at, const char *end)
{
    uint64_t token, span, ttl;
    struct hf_grant grant;
    int64_t asked = (int64_t)ticket->store[2];
    if (!next_number(&at, end, &token) || !next_number(&at, end, &span) ||
        !next_number(&at, end, &ttl) || !asked ||
        !hf__redis_grant_read(&grant, ticket, (int64_t)token, (int64_t)span,
                              (int64_t)ttl, asked)) {
        me->host->ops->notice(me->host, ticket);
        return;
    }
    hf__redis_listen_end(me, ticket);
    if (me->host->ops->now(me->host) - asked > grant.ttl_ns / 4)
        me->host->ops->notice(me->host, ticket);
    else
        me->host->ops->granted(me->host, ticket, &grant);
}

/* The lock is left to foreign clients: ask again after that many milliseconds. */
static void inbox_later(struct redis_session *me, struct hf_ticket *ticket,
                        const char *at, const char *end)
{
    uint64_t ms;
    if (!next_number(&at, end, &ms) || ms > LATER_MAX_MS)
        me->host->ops->notice(me->host, ticket);
    else
        me->host->ops->queued(me->host, ticket, (int64_t)(ms + 1) * HF_NS_PER_MS);
}

/* Another client wants the holder of this token evicted. */
static void inbox_evict(struct redis_session *me, struct hf_ticket *ticket,
                        const char *at, const char *end)
{
    struct eviction eviction;
    if (!next_number(&at, end, &eviction.token) ||
        !next_number(&at, end, &eviction.first))
        return;
    struct resp_arg id = next_word(&at, end);
    if (id.len != 2 * sizeof(eviction.id) ||
        !hf__hex_decode(id.text, &eviction.id, sizeof(eviction.id)))
        return;
    eviction.details = at;
    eviction.len = (size_t)(end - at);
    hf__redis_evict_asked(me, ticket, &eviction);
}

/* Another client asks the holder of this token to release it; 0: any holder. */
static void inbox_revoke(struct redis_session *me, struct hf_ticket *ticket,
                         const char *at, const char *end)
{
    uint64_t token, first;
    if (next_number(&at, end, &token) && next_number(&at, end, &first) && token != 0 &&
        token != hf__redis_evict_token_now(ticket, first))
        return; /* handed off since */
    me->host->ops->event(me->host, ticket, HF_EVENT_REVOKED);
}

static void inbox_message(struct redis_session *me, const char *at, const char *end)
{
    struct resp_arg what = next_word(&at, end);
    uint64_t number;
    if (what.len != 1 || !next_number(&at, end, &number))
        return;
    struct resp_arg owner = next_word(&at, end);
    struct hf_ticket *ticket = hf__redis_number_find(me, number, owner.text, owner.len);
    if (!ticket)
        return;
    switch (*what.text) {
    case 'g':
        inbox_granted(me, ticket, at, end);
        break;
    case 'n':
        me->host->ops->notice(me->host, ticket);
        break;
    case 'w':
        inbox_later(me, ticket, at, end);
        break;
    case 'o':
        if (ticket->kind == HF_LATCH)
            latch_opened(me, ticket);
        break;
    case 'e':
        inbox_evict(me, ticket, at, end);
        break;
    case 'l':
        hf__redis_evict_reason(me, ticket, at, (size_t)(end - at));
        me->host->ops->event(me->host, ticket, HF_EVENT_LOST);
        break;
    case 'r':
        inbox_revoke(me, ticket, at, end);
        break;
    default:
        break;
    }
}

void hf__redis_message(void *session, const char *channel, size_t channel_len,
                       const char *payload, size_t len)
{
    struct redis_session *me = session;
    if (channel_len == INBOX_SIZE && memcmp(channel, me->inbox, INBOX_SIZE) == 0)
        inbox_message(me, payload, payload + len);
    else
        channel_message(me, channel, channel_len, payload, len);
}
