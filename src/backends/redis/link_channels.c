/* SPDX-License-Identifier: MIT */
/*
 * Subscriptions: which channels are wanted, how often, and how far the server is with
 * them. A small hash table, looked up when somebody subscribes or unsubscribes;
 * messages need no look.
 *
 * Commands about one channel may follow each other before the first is confirmed
 * (subscribe, unsubscribe, subscribe). Only the answer to the last one says what is the
 * case, so `on` is set, and a channel nobody wants is dropped, when nothing is pending.
 *
 * A connection begins with none: link_channels_lost() when it ends, and
 * link_channels_restore() asks for all of them on the next one.
 */
#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../base/text.h"
#include "link_inside.h"

#include <string.h>

enum { BUCKETS_MIN = 16 };

static struct channel **bucket_of(const struct link *link, uint32_t hash)
{
    return &link->buckets[hash & (link->bucket_count - 1)];
}

static struct channel *find(const struct link *link, const char *name, size_t len)
{
    uint32_t hash = hf__text_hash(name, len);
    struct channel *channel = link->bucket_count ? *bucket_of(link, hash) : NULL;

    while (channel && (channel->hash != hash || channel->len != len ||
                       memcmp(channel->name, name, len) != 0))
        channel = channel->next;
    return channel;
}

static bool grow(struct link *link)
{
    uint32_t count = link->bucket_count ? link->bucket_count * 2 : BUCKETS_MIN;
    uint32_t old_count = link->bucket_count;
    struct channel **old = link->buckets;
    struct channel **buckets = hf__alloc(count * sizeof *buckets);

    if (!buckets)
        return false;
    link->buckets = buckets;
    link->bucket_count = count;
    for (uint32_t i = 0; i < old_count; i++)
        while (old[i]) {
            struct channel *channel = old[i];
            old[i] = channel->next;
            channel->next = *bucket_of(link, channel->hash);
            *bucket_of(link, channel->hash) = channel;
        }
    hf__free(old);
    return true;
}

static struct channel *add(struct link *link, const char *name, size_t len)
{
    if (len > UINT32_MAX || (link->channel_count == link->bucket_count && !grow(link)))
        return NULL;
    struct channel *channel = hf__alloc(sizeof *channel + len);
    if (!channel)
        return NULL;
    channel->hash = hf__text_hash(name, len);
    channel->len = (uint32_t)len;
    if (len)
        memcpy(channel->name, name, len);
    channel->next = *bucket_of(link, channel->hash);
    *bucket_of(link, channel->hash) = channel;
    link->channel_count++;
    return channel;
}

static void drop(struct link *link, struct channel *channel)
{
    struct channel **at = bucket_of(link, channel->hash);

    while (*at != channel)
        at = &(*at)->next;
    *at = channel->next;
    hf__free(channel);
    link->channel_count--;
}

/* ---- Commands -------------------------------------------------------------------- */

static int put(struct link *link, struct channel *channel, enum step step)
{
    const struct resp_arg args[] = {
        step == STEP_SUBSCRIBE ? (struct resp_arg){ "SUBSCRIBE", 9 }
                               : (struct resp_arg){ "UNSUBSCRIBE", 11 },
        { channel->name, channel->len },
    };
    const struct call call = {
        .subject = channel,
        .sent_ns = link_now(link),
        .step = step,
    };
    int rc = link_put(link_channel_wire(link), args, 2, &call);

    if (rc < 0)
        return rc;
    channel->pending++;
    channel->on = false;
    link_watch(link, call.sent_ns);
    return 0;
}

static void tell(struct link *link, const struct channel *channel)
{
    link->user->subscribed(link->session, channel->name, channel->len);
}

int link_subscribe(struct link *link, const char *name, size_t len)
{
    struct wire *wire = link_channel_wire(link);
    struct channel *channel = find(link, name, len);

    if (!channel && !(channel = add(link, name, len)))
        return HF_ENOMEM;
    if (channel->count == 0 && wire->talking) {
        if (put(link, channel, STEP_SUBSCRIBE) < 0) {
            if (channel->pending == 0)
                drop(link, channel);
            return HF_ENOMEM;
        }
        link_flush_soon(wire);
    }
    channel->count++;
    if (channel->on)
        tell(link, channel);
    return 0;
}

/* If there is no memory to say it, messages of the channel go on coming: nobody asked
 * for them, and nobody is told anything wrong. */
void link_unsubscribe(struct link *link, const char *name, size_t len)
{
    struct wire *wire = link_channel_wire(link);
    struct channel *channel = find(link, name, len);

    if (!channel || channel->count == 0 || --channel->count > 0)
        return;
    if (wire->talking && put(link, channel, STEP_UNSUBSCRIBE) == 0)
        link_flush_soon(wire);
    else if (channel->pending == 0)
        drop(link, channel);
}

/* ---- Answers --------------------------------------------------------------------- */

void link_channel_settled(struct link *link, struct channel *channel, enum step step,
                          bool refused)
{
    if (--channel->pending > 0)
        return;
    channel->on = step == STEP_SUBSCRIBE && !refused;
    if (channel->count == 0)
        drop(link, channel);
    else if (channel->on)
        tell(link, channel);
}

int link_channels_restore(struct link *link)
{
    int rc = 0;

    for (uint32_t i = 0; i < link->bucket_count && rc == 0; i++)
        for (struct channel *at = link->buckets[i]; at && rc == 0; at = at->next)
            rc = put(link, at, STEP_SUBSCRIBE);
    return rc;
}

void link_channels_lost(struct link *link)
{
    for (uint32_t i = 0; i < link->bucket_count; i++)
        for (struct channel *at = link->buckets[i], *next; at; at = next) {
            next = at->next;
            at->pending = 0;
            at->on = false;
            if (at->count == 0)
                drop(link, at);
        }
}

void link_channels_done(struct link *link)
{
    for (uint32_t i = 0; i < link->bucket_count; i++)
        while (link->buckets[i])
            drop(link, link->buckets[i]);
    hf__free(link->buckets);
}
