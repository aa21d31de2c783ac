/* SPDX-License-Identifier: MIT */
/*
 * Spaces of the mem store and the names in them.
 *
 * A space is opened by its label, counted, and freed with its last session. Its names
 * are in a hash table that doubles when it is full; names and entries are recycled, so
 * that to lock and unlock a free name allocates nothing. Token and version numbers come
 * from one counter for the whole process, which goes on when a space ends.
 *
 * fork: the handlers hold every lock over the fork, so a child has a consistent copy.
 * There the spaces are taken off the list: they show the parent's locks at the time of
 * the fork, and exist only until the sessions that the child inherited are closed.
 */
#include "memory.h"

#include "../../base/clock.h"
#include "../../base/mem.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define FIRST_BUCKETS 64
#define TEXT_ROOM 64 /* names up to this length are recycled */

static pthread_once_t process_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t spaces_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hf_list_node spaces = { &spaces, &spaces };
static char host_name[MEMORY_HOST];
static _Atomic uint64_t next_number = 1;

static struct memory_space *space_at(struct hf_list_node *link)
{
    return HF_CONTAINER(link, struct memory_space, link);
}

static struct memory_entry *entry_at(struct hf_list_node *link)
{
    return HF_CONTAINER(link, struct memory_entry, in_queue);
}

/* ---- Process, spaces ----------------------------------------------------------- */

static void fork_prepare(void)
{
    pthread_mutex_lock(&spaces_lock);
    for (HF_EACH(link, &spaces))
        pthread_mutex_lock(&space_at(link)->lock);
}

static void fork_parent(void)
{
    for (HF_EACH(link, &spaces))
        pthread_mutex_unlock(&space_at(link)->lock);
    pthread_mutex_unlock(&spaces_lock);
}

static void fork_child(void)
{
    for (HF_EACH_SAFE(link, &spaces)) {
        pthread_mutex_unlock(&space_at(link)->lock);
        hf__list_remove(link);
    }
    pthread_mutex_unlock(&spaces_lock);
}

static void process_init(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    if (gethostname(host_name, sizeof(host_name) - 1) < 0)
        host_name[0] = '\0';
}

const char *hf__memory_host_name(void)
{
    return host_name;
}

static void space_free(struct memory_space *space)
{
    struct hf_list_node *link;
    struct memory_name *name;

    for (size_t i = 0; i < space->bucket_count; i++) {
        while ((name = space->buckets[i])) {
            space->buckets[i] = name->next;
            while ((link = hf__list_first(&name->holders))) {
                hf__list_remove(link);
                hf__free(entry_at(link));
            }
            hf__free(name->cell_data);
            hf__free(name);
        }
    }
    while ((name = space->free_names)) {
        space->free_names = name->next;
        hf__free(name);
    }
    while ((link = hf__list_first(&space->free_entries))) {
        hf__list_remove(link);
        hf__free(entry_at(link));
    }
    pthread_mutex_destroy(&space->lock);
    hf__free(space->buckets);
    hf__free(space);
}

static struct memory_space *space_new(const char *label)
{
    size_t room = strlen(label) + 1;
    struct memory_space *space = hf__alloc(sizeof(*space) + room);

    if (!space)
        return NULL;
    space->buckets = hf__alloc(FIRST_BUCKETS * sizeof(space->buckets[0]));
    if (!space->buckets) {
        hf__free(space);
        return NULL;
    }
    memcpy(space->label, label, room);
    space->bucket_count = FIRST_BUCKETS;
    hf__list_init(&space->free_entries);
    pthread_mutex_init(&space->lock, NULL);
    hf__list_push_back(&spaces, &space->link);
    return space;
}

struct memory_space *hf__memory_space_open(const char *label)
{
    struct memory_space *space = NULL;

    pthread_once(&process_once, process_init);
    pthread_mutex_lock(&spaces_lock);
    for (HF_EACH(link, &spaces))
        if (strcmp(space_at(link)->label, label) == 0)
            space = space_at(link);
    if (!space)
        space = space_new(label);
    if (space)
        space->session_count++;
    pthread_mutex_unlock(&spaces_lock);
    return space;
}

void hf__memory_space_close(struct memory_space *space)
{
    bool last;

    pthread_mutex_lock(&spaces_lock);
    last = --space->session_count == 0;
    if (last)
        hf__list_remove(&space->link);
    pthread_mutex_unlock(&spaces_lock);
    if (last)
        space_free(space);
}

void hf__memory_lock(struct memory_session *me)
{
    pthread_mutex_lock(&me->space->lock);
}

void hf__memory_unlock(struct memory_session *me)
{
    me->due = !hf__list_empty(&me->news);
    pthread_mutex_unlock(&me->space->lock);
}

uint64_t hf__memory_draw(uint32_t count)
{
    return atomic_fetch_add_explicit(&next_number, count, memory_order_relaxed);
}

/* ---- Names --------------------------------------------------------------------- */

static struct memory_name **bucket_of(struct memory_space *space, uint32_t hash)
{
    return &space->buckets[hash & (space->bucket_count - 1)];
}

/* Longer chains work as well, so no memory is no error. */
static void buckets_grow(struct memory_space *space)
{
    size_t old_count = space->bucket_count;
    struct memory_name **old = space->buckets;
    struct memory_name **wider = hf__alloc(2 * old_count * sizeof(wider[0]));

    if (!wider)
        return;
    space->buckets = wider;
    space->bucket_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++) {
        for (struct memory_name *name = old[i], *next; name; name = next) {
            struct memory_name **bucket = bucket_of(space, name->hash);
            next = name->next;
            name->next = *bucket;
            *bucket = name;
        }
    }
    hf__free(old);
}

/* A recycled name is empty: only empty names are freed. */
static struct memory_name *name_alloc(struct memory_space *space, size_t len)
{
    struct memory_name *name = space->free_names;

    if (len > TEXT_ROOM)
        return hf__alloc(sizeof(*name) + len);
    if (!name)
        return hf__alloc(sizeof(*name) + TEXT_ROOM);
    space->free_names = name->next;
    return name;
}

struct memory_name *hf__memory_name_new(struct memory_session *me, const char *text,
                                        uint32_t len, uint32_t hash, int32_t kind,
                                        uint32_t limit)
{
    struct memory_space *space = me->space;
    struct memory_name *name = name_alloc(space, len);
    struct memory_name **bucket;

    if (!name)
        return NULL;
    if (space->name_count >= space->bucket_count)
        buckets_grow(space);
    hf__list_init(&name->holders);
    hf__list_init(&name->waiters);
    name->next_end_ns = HF_NEVER;
    name->kind = kind;
    name->limit = limit;
    name->hash = hash;
    name->len = len;
    memcpy(name->text, text, len);
    bucket = bucket_of(space, hash);
    name->next = *bucket;
    *bucket = name;
    space->name_count++;
    return name;
}

void hf__memory_name_drop(struct memory_session *me, struct memory_name *name)
{
    struct memory_space *space = me->space;
    struct memory_name **at = bucket_of(space, name->hash);

    while (*at != name)
        at = &(*at)->next;
    *at = name->next;
    space->name_count--;
    if (name->len > TEXT_ROOM) {
        hf__free(name);
        return;
    }
    name->next = space->free_names;
    space->free_names = name;
}

struct memory_name *hf__memory_find(struct memory_session *me, const char *text,
                                    uint32_t len, uint32_t hash)
{
    struct memory_name *name = *bucket_of(me->space, hash);

    while (name && (name->hash != hash || name->len != len ||
                    memcmp(name->text, text, len) != 0))
        name = name->next;
    if (!name || name->next_end_ns == HF_NEVER)
        return name;
    return hf__memory_update(me, name) ? name : NULL;
}
