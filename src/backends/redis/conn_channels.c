/* SPDX-License-Identifier: MIT */
/*
 * Subscriptions: the channels, how many subscribers each has, and whether the server
 * has confirmed it. A small hash table, which is used to subscribe and unsubscribe;
 * messages do not need it.
 *
 * Commands about one channel may follow each other before the first is confirmed
 * (subscribe, unsubscribe, subscribe). Only the reply to the last one gives the final
 * state, so `on` is set, and a channel without subscribers is removed, when no reply is
 * pending.
 *
 * A new connection has no subscriptions: hf__redis_channels_lost() when the old one
 * ends, and hf__redis_channels_restore() asks for all of them on the next one.
 */
#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../base/text.h"
#include "conn_inside.h"

#include <string.h>

enum { BUCKETS_MIN = 16 };

static struct channel **bucket_of(const struct redis_conn *conn, uint32_t hash)
{
    return &conn->buckets[hash & (conn->bucket_count - 1)];
}

static struct channel *find(const struct redis_conn *conn, const char *name, size_t len)
{
    uint32_t hash = hf__text_hash(name, len);
    struct channel *channel = conn->bucket_count ? *bucket_of(conn, hash) : NULL;

    while (channel && (channel->hash != hash || channel->len != len ||
                       memcmp(channel->name, name, len) != 0))
        channel = channel->next;
    return channel;
}

static bool grow(struct redis_conn *conn)
{
    uint32_t count = conn->bucket_count ? conn->bucket_count * 2 : BUCKETS_MIN;
    uint32_t old_count = conn->bucket_count;
    struct channel **old = conn->buckets;
    struct channel **buckets = hf__alloc(count * sizeof *buckets);

    if (!buckets)
        return false;
    conn->buckets = buckets;
    conn->bucket_count = count;
    for (uint32_t i = 0; i < old_count; i++)
        while (old[i]) {
            struct channel *channel = old[i];
            old[i] = channel->next;
            channel->next = *bucket_of(conn, channel->hash);
            *bucket_of(conn, channel->hash) = channel;
        }
    hf__free(old);
    return true;
}

static struct channel *add(struct redis_conn *conn, const char *name, size_t len)
{
    if (len > UINT32_MAX || (conn->channel_count == conn->bucket_count && !grow(conn)))
        return NULL;
    struct channel *channel = hf__alloc(sizeof *channel + len);
    if (!channel)
        return NULL;
    channel->hash = hf__text_hash(name, len);
    channel->len = (uint32_t)len;
    if (len)
        memcpy(channel->name, name, len);
    channel->next = *bucket_of(conn, channel->hash);
    *bucket_of(conn, channel->hash) = channel;
    conn->channel_count++;
    return channel;
}

static void drop(struct redis_conn *conn, struct channel *channel)
{
    struct channel **at = bucket_of(conn, channel->hash);

    while (*at != channel)
        at = &(*at)->next;
    *at = channel->next;
    hf__free(channel);
    conn->channel_count--;
}

/* ---- Commands -------------------------------------------------------------------- */

static int put(struct redis_conn *conn, struct channel *channel, enum request_type type)
{
    const struct resp_arg args[] = {
        type == REQUEST_SUBSCRIBE ? (struct resp_arg){ "SUBSCRIBE", 9 }
                                  : (struct resp_arg){ "UNSUBSCRIBE", 11 },
        { channel->name, channel->len },
    };
    const struct conn_request request = {
        .subject = channel,
        .sent_ns = conn_now(conn),
        .type = type,
    };
    int rc = hf__redis_socket_put(channel_socket(conn), args, 2, &request);

    if (rc < 0)
        return rc;
    channel->pending++;
    channel->on = false;
    hf__redis_conn_expect_reply(conn, request.sent_ns);
    return 0;
}

static void report_subscribed(struct redis_conn *conn, const struct channel *channel)
{
    conn->user->subscribed(conn->session, channel->name, channel->len);
}

int hf__redis_conn_subscribe(struct redis_conn *conn, const char *name, size_t len)
{
    struct conn_socket *sock = channel_socket(conn);
    struct channel *channel = find(conn, name, len);

    if (!channel && !(channel = add(conn, name, len)))
        return HF_ENOMEM;
    if (channel->count == 0 && sock->connected) {
        if (put(conn, channel, REQUEST_SUBSCRIBE) < 0) {
            if (channel->pending == 0)
                drop(conn, channel);
            return HF_ENOMEM;
        }
        hf__redis_socket_flush_soon(sock);
    }
    channel->count++;
    if (channel->on)
        report_subscribed(conn, channel);
    return 0;
}

/* Without memory for the command, messages of the channel keep coming; they find no
 * subscriber and are ignored. */
void hf__redis_conn_unsubscribe(struct redis_conn *conn, const char *name, size_t len)
{
    struct conn_socket *sock = channel_socket(conn);
    struct channel *channel = find(conn, name, len);

    if (!channel || channel->count == 0 || --channel->count > 0)
        return;
    if (sock->connected && put(conn, channel, REQUEST_UNSUBSCRIBE) == 0)
        hf__redis_socket_flush_soon(sock);
    else if (channel->pending == 0)
        drop(conn, channel);
}

/* ---- Answers --------------------------------------------------------------------- */

void hf__redis_channel_answered(struct redis_conn *conn, struct channel *channel,
                                enum request_type type, bool refused)
{
    if (--channel->pending > 0)
        return;
    channel->on = type == REQUEST_SUBSCRIBE && !refused;
    if (channel->count == 0)
        drop(conn, channel);
    else if (channel->on)
        report_subscribed(conn, channel);
}

int hf__redis_channels_restore(struct redis_conn *conn)
{
    int rc = 0;

    for (uint32_t i = 0; i < conn->bucket_count && rc == 0; i++)
        for (struct channel *at = conn->buckets[i]; at && rc == 0; at = at->next)
            rc = put(conn, at, REQUEST_SUBSCRIBE);
    return rc;
}

void hf__redis_channels_lost(struct redis_conn *conn)
{
    for (uint32_t i = 0; i < conn->bucket_count; i++)
        for (struct channel *at = conn->buckets[i], *next; at; at = next) {
            next = at->next;
            at->pending = 0;
            at->on = false;
            if (at->count == 0)
                drop(conn, at);
        }
}

void hf__redis_channels_done(struct redis_conn *conn)
{
    for (uint32_t i = 0; i < conn->bucket_count; i++)
        while (conn->buckets[i])
            drop(conn, conn->buckets[i]);
    hf__free(conn->buckets);
}
