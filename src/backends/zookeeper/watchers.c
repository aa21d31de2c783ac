/* SPDX-License-Identifier: MIT */
/*
 * Watchers: which part of this session waits for which path.
 *
 * The server keeps one watch per path and session and fires it once, however often it
 * was set. So an event goes to every watcher of that path. The client (wire/) counts
 * how often a watch was set and taken back. Under the client's lock.
 */
#include "session.h"

#include "../../base/text.h"

#include <string.h>

void hf__zk_watchers_init(struct zk_session *me)
{
    for (size_t i = 0; i < WATCH_BUCKETS; i++)
        hf__list_init(&me->watchers[i]);
}

static struct hf_list_node *bucket_of(struct zk_session *me, uint32_t hash)
{
    return &me->watchers[hash % WATCH_BUCKETS];
}

void hf__zk_watcher_drop(struct watcher *watcher)
{
    hf__list_remove(&watcher->link);
}

void hf__zk_watcher_end(struct zk_session *me, struct watcher *watcher)
{
    if (!hf__list_linked(&watcher->link))
        return;
    hf__list_remove(&watcher->link);
    if (!me->closing)
        hf__zk_unwatch(me->zk, watcher->path);
}

void hf__zk_watcher_set(struct zk_session *me, struct watcher *watcher,
                        const char *path, watcher_fired *fired)
{
    hf__zk_watcher_end(me, watcher);
    watcher->path = path;
    watcher->hash = hf__text_hash(path, strlen(path));
    watcher->fired = fired;
    hf__list_push_back(bucket_of(me, watcher->hash), &watcher->link);
}

/* A watcher may set itself again inside `fired`, even for the same path: it is not
 * called again for this event. */
void hf__zk_watchers_event(struct zk_session *me, enum zk_event_type type,
                           const char *path, size_t len)
{
    uint32_t hash = hf__text_hash(path, len);
    struct hf_list_node *bucket = bucket_of(me, hash), matching;
    hf__list_init(&matching);
    for (HF_EACH_SAFE(link, bucket)) {
        struct watcher *watcher = HF_CONTAINER(link, struct watcher, link);
        if (watcher->hash != hash || strlen(watcher->path) != len ||
            memcmp(watcher->path, path, len) != 0)
            continue;
        hf__list_remove(link);
        hf__list_push_back(&matching, link);
    }
    for (struct hf_list_node *link; (link = hf__list_first(&matching));) {
        hf__list_remove(link);
        struct watcher *watcher = HF_CONTAINER(link, struct watcher, link);
        watcher->fired(me, watcher, type);
    }
}

void hf__zk_watchers_drop(struct zk_session *me)
{
    for (size_t i = 0; i < WATCH_BUCKETS; i++)
        for (struct hf_list_node *link; (link = hf__list_first(&me->watchers[i]));)
            hf__list_remove(link);
}
