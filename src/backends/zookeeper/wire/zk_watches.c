/* SPDX-License-Identifier: MIT */
/*
 * The watches that the server keeps for this connection, mirrored, so that they can be
 * set again on the next one.
 *
 * Events and replies come over one connection in the order in which things happened. So
 * the mirror is exact if it changes when a reply or an event is read, never when a
 * request is written: a watch exists from the reply to the request that set it until
 * the event it fires, or until the reply to the request that removes it.
 *
 * A watch fires once, and the type of an event says which watches it ends. Requests for
 * the same path share one entry and are counted: a user that takes its watch back does
 * not take it from the others.
 *
 * Entries that are gone are kept for the next ones, so that waiting in a queue again
 * and again costs no allocation. Called under the session's lock.
 */
#include "../../../base/mem.h"
#include "../../../base/text.h"
#include "zk_inside.h"

#include <string.h>

enum {
    BUCKETS_MIN = 16,
    PATH_ROOM = 192, /* of an entry that is kept; longer ones are freed */
    SPARE_MAX = 64,
    PACKET_MAX = 128 << 10, /* of paths set again in one request */
    EMPTY_VECTORS = 20,     /* the zxid and three counts */
};

/* ---- The table ------------------------------------------------------------------- */

static struct zk_watch **bucket_of(const struct zk_watches *table, uint32_t hash)
{
    return &table->buckets[hash & (table->bucket_count - 1)];
}

static struct zk_watch *find(const struct zk_watches *table, const char *path,
                             size_t len, uint32_t hash)
{
    struct zk_watch *watch = table->bucket_count ? *bucket_of(table, hash) : NULL;

    while (watch && (watch->hash != hash || watch->len != len ||
                     memcmp(watch->path, path, len) != 0))
        watch = watch->next;
    return watch;
}

/* A table that cannot grow for lack of memory is slower, but correct. */
static bool table_grow(struct zk_watches *table)
{
    uint32_t old = table->bucket_count, count = old ? old * 2 : BUCKETS_MIN;
    struct zk_watches larger = *table;

    if (table->count < old)
        return true;
    larger.bucket_count = count;
    larger.buckets = hf__alloc(count * sizeof *larger.buckets);
    if (!larger.buckets)
        return old > 0;
    for (uint32_t i = 0; i < old; i++) {
        for (struct zk_watch *watch = table->buckets[i], *next; watch; watch = next) {
            struct zk_watch **bucket = bucket_of(&larger, watch->hash);
            next = watch->next;
            watch->next = *bucket;
            *bucket = watch;
        }
    }
    hf__free(table->buckets);
    *table = larger;
    return true;
}

static struct zk_watch *entry_new(struct zk_watches *table, size_t len)
{
    struct zk_watch *watch = table->spare;
    size_t room = len < PATH_ROOM ? PATH_ROOM : len;

    if (watch && len <= PATH_ROOM) {
        table->spare = watch->next;
        table->spare_count--;
        *watch = (struct zk_watch){ .room = PATH_ROOM };
        return watch;
    }
    watch = hf__alloc(sizeof *watch + room);
    if (watch)
        watch->room = (uint32_t)room;
    return watch;
}

static void entry_free(struct zk_watches *table, struct zk_watch *watch)
{
    if (watch->room != PATH_ROOM || table->spare_count == SPARE_MAX) {
        hf__free(watch);
        return;
    }
    watch->next = table->spare;
    table->spare = watch;
    table->spare_count++;
}

static void drop_if_idle(struct zk_watches *table, struct zk_watch *watch)
{
    struct zk_watch **at = bucket_of(table, watch->hash);

    if (watch->refs || watch->set)
        return;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    table->count--;
    entry_free(table, watch);
}

/* ---- Paths ----------------------------------------------------------------------- */

/* The path as the server knows it, in a new entry that is in no bucket yet. */
static struct zk_watch *entry_make(struct zk *zk, const char *path)
{
    size_t tail = zk->chroot_len && path[1] == '\0' ? 0 : strlen(path);
    struct zk_watch *watch = entry_new(&zk->watches, zk->chroot_len + tail);

    if (!watch)
        return NULL;
    watch->len = (uint32_t)(zk->chroot_len + tail);
    memcpy(watch->path, zk->settings.chroot, zk->chroot_len);
    memcpy(watch->path + zk->chroot_len, path, tail);
    watch->hash = hf__text_hash(watch->path, watch->len);
    return watch;
}

/* A search makes an entry, mostly a spare one, because that joins the path. */
struct zk_watch *hf__zk_watch_find(struct zk *zk, const char *path)
{
    struct zk_watches *table = &zk->watches;
    struct zk_watch *probe = table->count ? entry_make(zk, path) : NULL;
    struct zk_watch *found = NULL;

    if (!probe)
        return NULL;
    found = find(table, probe->path, probe->len, probe->hash);
    entry_free(table, probe);
    return found;
}

struct zk_watch *hf__zk_watch_ref(struct zk *zk, const char *path)
{
    struct zk_watches *table = &zk->watches;
    struct zk_watch *made = entry_make(zk, path);
    struct zk_watch *found = NULL;

    if (!made)
        return NULL;
    found = find(table, made->path, made->len, made->hash);
    if (found || !table_grow(table)) {
        entry_free(table, made);
    } else {
        made->next = *bucket_of(table, made->hash);
        *bucket_of(table, made->hash) = found = made;
        table->count++;
    }
    if (found)
        found->refs++;
    return found;
}

/* ---- What becomes of one --------------------------------------------------------- */

void hf__zk_watch_unref(struct zk *zk, struct zk_watch *watch)
{
    if (!watch)
        return;
    watch->refs--;
    drop_if_idle(&zk->watches, watch);
}

void hf__zk_watch_asked(struct zk_watch *watch)
{
    watch->wanted++;
    watch->requested++;
}

bool hf__zk_watch_unwant(struct zk_watch *watch)
{
    if (watch->wanted)
        watch->wanted--;
    return watch->wanted == 0 && (watch->set || watch->requested);
}

/* Which watch a request has set, by its reply. */
static uint8_t set_by(const struct zk_pending *pending, int32_t error)
{
    if (error == ZK_NONODE)
        return pending->opcode == ZK_OPCODE_EXISTS ? ZK_WATCH_EXIST : 0;
    if (error != ZK_OK)
        return 0;
    return pending->opcode == ZK_OPCODE_CHILDREN2 ? ZK_WATCH_CHILD : ZK_WATCH_DATA;
}

void hf__zk_watch_answered(struct zk *zk, const struct zk_pending *pending,
                           const struct zk_reply *reply)
{
    struct zk_watch *watch = pending->watch;

    if (pending->opcode == ZK_OPCODE_UNWATCH) {
        watch->set = 0;
    } else {
        uint8_t set = reply ? set_by(pending, reply->error) : 0;
        watch->requested--;
        watch->set |= set;
        if (!set && watch->wanted)
            watch->wanted--;
    }
    hf__zk_watch_unref(zk, watch);
}

void hf__zk_watch_fired(struct zk *zk, enum zk_event_type type, struct zk_text path)
{
    static const uint8_t ends[] = {
        [ZK_CREATED] = ZK_WATCH_DATA | ZK_WATCH_EXIST,
        [ZK_DELETED] = ZK_WATCH_DATA | ZK_WATCH_EXIST | ZK_WATCH_CHILD,
        [ZK_CHANGED] = ZK_WATCH_DATA | ZK_WATCH_EXIST,
        [ZK_CHILD] = ZK_WATCH_CHILD,
    };
    uint32_t hash = hf__text_hash(path.at, path.len);
    struct zk_watch *watch = find(&zk->watches, path.at, path.len, hash);

    if (!watch)
        return;
    watch->set &= (uint8_t)~ends[type];
    if (!watch->set)
        watch->wanted = watch->requested;
    drop_if_idle(&zk->watches, watch);
}

/* ---- A new connection ------------------------------------------------------------ */

static struct zk_watch *first_from(const struct zk_watches *table, uint32_t *bucket)
{
    while (*bucket < table->bucket_count) {
        struct zk_watch *watch = table->buckets[(*bucket)++];
        if (watch)
            return watch;
    }
    return NULL;
}

/* A position in the table. */
struct cursor {
    struct zk_watch *at;
    uint32_t bucket;
};

static struct zk_watch *cursor_next(const struct zk_watches *table,
                                    struct cursor *cursor)
{
    struct zk_watch *watch = cursor->at;

    if (!watch)
        return NULL;
    cursor->at = watch->next ? watch->next : first_from(table, &cursor->bucket);
    return watch;
}

/* How many of a kind go into the next request, and their size. */
static uint32_t measure(const struct zk_watches *table, struct cursor cursor,
                        uint8_t kind, size_t *ret_size)
{
    uint32_t count = 0;
    size_t size = 0;

    for (struct zk_watch *watch; (watch = cursor_next(table, &cursor));) {
        size_t more = watch->set & kind ? sizeof(int32_t) + watch->len : 0;
        if (count && size + more > PACKET_MAX)
            break;
        size += more;
        count += more > 0;
    }
    *ret_size = size;
    return count;
}

static void put_paths(const struct zk_watches *table, struct cursor *cursor,
                      uint8_t kind, struct jute_out *out, uint32_t count)
{
    hf__zk_jute_put_int(out, (int32_t)count);
    while (count) {
        const struct zk_watch *watch = cursor_next(table, cursor);
        if (!(watch->set & kind))
            continue;
        hf__zk_jute_put_text(out, watch->path, watch->len);
        count--;
    }
}

/* The next request with watches of this kind. 0, or 1: there are no more. */
static int restore_some(struct zk *zk, struct cursor *cursor, uint8_t kind)
{
    const struct zk_watches *table = &zk->watches;
    struct zk_request request = { .frame = NULL };
    size_t size = 0;
    uint32_t count = measure(table, *cursor, kind, &size);

    if (!count)
        return 1;
    if (hf__zk_request_begin(zk, &request, ZK_OPCODE_SET_WATCHES,
                             EMPTY_VECTORS + size) != 0)
        return HF_ENOMEM;
    hf__zk_jute_put_long(&request.out, zk->last_zxid);
    for (unsigned each = ZK_WATCH_DATA; each <= ZK_WATCH_CHILD; each <<= 1) {
        if (each == kind)
            put_paths(table, cursor, kind, &request.out, count);
        else
            hf__zk_jute_put_int(&request.out, 0);
    }
    hf__zk_request_end(zk, &request);
    return 0;
}

int hf__zk_watches_restore(struct zk *zk)
{
    int rc = 0;

    for (unsigned kind = ZK_WATCH_DATA; kind <= ZK_WATCH_CHILD; kind <<= 1) {
        struct cursor cursor = { .bucket = 0 };
        cursor.at = first_from(&zk->watches, &cursor.bucket);
        do
            rc = restore_some(zk, &cursor, (uint8_t)kind);
        while (rc == 0);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- Ends ------------------------------------------------------------------------ */

/* All requests have been answered, so none points to an entry. */
void hf__zk_watches_clear(struct zk *zk)
{
    struct zk_watches *table = &zk->watches;

    for (uint32_t i = 0; i < table->bucket_count; i++) {
        for (struct zk_watch *watch = table->buckets[i], *next; watch; watch = next) {
            next = watch->next;
            entry_free(table, watch);
        }
        table->buckets[i] = NULL;
    }
    table->count = 0;
}

void hf__zk_watches_done(struct zk *zk)
{
    hf__zk_watches_clear(zk);
    for (struct zk_watch *watch = zk->watches.spare, *next; watch; watch = next) {
        next = watch->next;
        hf__free(watch);
    }
    hf__free(zk->watches.buckets);
}
