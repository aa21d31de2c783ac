/* SPDX-License-Identifier: MIT */
/*
 * The queue of a name in the mem store, and the entries in it.
 *
 * The other files call it with the space locked. The queue is two lists: holders, and
 * waiters in order of arrival. No waiter is overtaken: a waiter is admitted only when
 * it is the first of them and the admission rule of the kit says that it fits beside
 * the holders.
 *
 * hf__memory_update() is called after any change of a name and is the only function
 * that makes a waiter a holder. A lease ends when a call checks it. As there may be no
 * call, the first waiter gets an alarm for the first lease that ends; when that time
 * comes nearer, or another waiter becomes the first, hf__memory_update() posts the
 * alarm again.
 */
#include "memory.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

static struct memory_entry *entry_at(struct hf_list_node *link)
{
    return HF_CONTAINER(link, struct memory_entry, in_queue);
}

int hf__memory_match(const struct memory_name *name, int32_t kind, uint32_t limit,
                     hf_error *why)
{
    static const char *const words[] = {
        [HF_MUTEX] = "mutex",
        [HF_REENTRANT] = "reentrant mutex",
        [HF_FAIR] = "fair mutex",
        [HF_READ] = "read lock",
        [HF_WRITE] = "write lock",
        [HF_PERMITS] = "semaphore",
        [HF_EXPIRING] = "semaphore of expiring permits",
        [HF_LATCH] = "latch",
        [HF_CELL] = "cell",
    };

    if (hf__family(name->kind) != hf__family(kind))
        return hf__fail(why, HF_EMISMATCH, "the name is in use as a %s, not as a %s",
                        words[name->kind], words[kind]);
    if ((kind == HF_PERMITS || kind == HF_EXPIRING) && name->limit != limit)
        return hf__fail(why, HF_EMISMATCH,
                        "the %s is in use with a limit of %u, not %u", words[kind],
                        name->limit, limit);
    return 0;
}

static void name_expire(struct memory_session *me, struct memory_name *name)
{
    int64_t now;

    if (name->next_end_ns == HF_NEVER)
        return;
    now = me->host->ops->now(me->host);
    if (now < name->next_end_ns)
        return;
    name->next_end_ns = HF_NEVER;
    for (HF_EACH_SAFE(link, &name->holders)) {
        struct memory_entry *entry = entry_at(link);
        if (entry->end_ns <= now)
            hf__memory_lose(me, entry);
        else if (entry->end_ns < name->next_end_ns)
            name->next_end_ns = entry->end_ns;
    }
}

bool hf__memory_update(struct memory_session *me, struct memory_name *name)
{
    struct hf_list_node *first;
    struct memory_entry *entry = NULL;

    name_expire(me, name);
    while ((first = hf__list_first(&name->waiters))) {
        entry = entry_at(first);
        if (!hf__memory_fits(name, entry->kind, entry->permits))
            break;
        hf__memory_admit(me, name, entry);
        hf__memory_post(me, entry, MEMORY_GRANTED);
    }
    if (first && name->next_end_ns < entry->alarm_ns) {
        entry->alarm_ns = name->next_end_ns;
        hf__memory_post(me, entry, MEMORY_ALARM);
    }
    if (first || !hf__list_empty(&name->holders) || name->latch_left ||
        name->cell_version)
        return true;
    hf__memory_name_drop(me, name);
    return false;
}

/* ---- Entries ------------------------------------------------------------------- */

static void entry_free(struct memory_session *me, struct memory_entry *entry)
{
    hf__list_remove(&entry->in_session);
    hf__list_remove(&entry->in_news);
    hf__list_push_front(&me->space->free_entries, &entry->in_queue);
}

static struct memory_entry *entry_alloc(struct memory_space *space)
{
    struct hf_list_node *link = hf__list_first(&space->free_entries);

    if (!link)
        return hf__alloc(sizeof(struct memory_entry));
    hf__list_remove(link);
    return entry_at(link);
}

static void entry_note(struct memory_entry *entry, const char *note)
{
    size_t len = strnlen(note, HF_NOTE_MAX);

    memcpy(entry->note, note, len);
    entry->note[len] = '\0';
}

/* Fills in every member but name, state and list nodes, which are clear in a free
 * entry. */
struct memory_entry *hf__memory_entry_new(struct memory_session *me,
                                          struct hf_ticket *ticket)
{
    struct memory_entry *entry = entry_alloc(me->space);

    if (!entry)
        return NULL;
    entry->session = me;
    entry->ticket = ticket;
    entry->id = ticket->id;
    entry->kind = ticket->kind;
    entry->permits = ticket->permits;
    entry->span = ticket->reserve;
    entry->token = 0;
    entry->ttl_ns = ticket->ttl_ns;
    entry->begun_ns = 0;
    entry->end_ns = entry->alarm_ns = HF_NEVER;
    entry->since_ns = hf__now_coarse();
    entry->news = 0;
    entry->detached = ticket->flags & HF_TICKET_DETACHED;
    entry->interest = entry->revoked = false;
    entry_note(entry, ticket->note);
    hf__list_push_back(&me->others, &entry->in_session);
    ticket->store[0] = (uintptr_t)entry;
    return entry;
}

bool hf__memory_fits(const struct memory_name *name, int32_t kind, uint32_t permits)
{
    if (kind == HF_LATCH)
        return name->latch_left == 0;
    return hf__admit(&name->held, kind, permits, name->limit) == HF_IN;
}

static void tally_drop(struct hf_tally *tally, const struct memory_entry *entry)
{
    if (entry->kind == HF_PERMITS || entry->kind == HF_EXPIRING)
        tally->permits -= entry->permits;
    else if (entry->kind == HF_READ)
        tally->readers--;
    else
        tally->exclusive--;
}

void hf__memory_wait(struct memory_name *name, struct memory_entry *entry)
{
    entry->name = name;
    entry->state = MEMORY_WAITING;
    hf__list_push_back(&name->waiters, &entry->in_queue);
    hf__list_remove(&entry->in_session);
    hf__list_push_back(&entry->session->waiting, &entry->in_session);
}

void hf__memory_admit(struct memory_session *me, struct memory_name *name,
                      struct memory_entry *entry)
{
    if (entry->state == MEMORY_WAITING) {
        hf__list_remove(&entry->in_queue);
        hf__list_remove(&entry->in_session);
        hf__list_push_back(&entry->session->others, &entry->in_session);
        entry->since_ns = hf__now_coarse();
    }
    entry->token = hf__memory_draw(entry->span);
    entry->name = NULL;
    entry->state = MEMORY_ENDED;
    if (entry->kind == HF_LATCH)
        return; /* reported as open, and nothing to keep */
    hf__memory_hold(me, name, entry);
}

void hf__memory_hold(struct memory_session *me, struct memory_name *name,
                     struct memory_entry *entry)
{
    entry->name = name;
    entry->state = MEMORY_HELD;
    hf__list_push_back(&name->holders, &entry->in_queue);
    hf__tally_add(&name->held, entry->kind, entry->permits);
    hf__memory_lease(me, entry);
}

void hf__memory_lease(struct memory_session *me, struct memory_entry *entry)
{
    struct memory_name *name = entry->name;

    entry->begun_ns = 0;
    entry->end_ns = HF_NEVER;
    if (entry->ttl_ns > 0) {
        entry->begun_ns = me->host->ops->now(me->host);
        entry->end_ns = entry->begun_ns + entry->ttl_ns;
    }
    if (entry->end_ns < name->next_end_ns)
        name->next_end_ns = entry->end_ns;
}

void hf__memory_end(struct memory_session *me, struct memory_entry *entry)
{
    struct memory_name *name = entry->name;

    hf__list_remove(&entry->in_queue);
    if (entry->state == MEMORY_HELD) {
        tally_drop(&name->held, entry);
        if (hf__list_empty(&name->holders))
            name->next_end_ns = HF_NEVER;
    }
    entry->name = NULL;
    entry->state = MEMORY_ENDED;
    if (!entry->ticket)
        entry_free(me, entry);
}

/* If the grant was not reported yet, core hears of both. */
void hf__memory_lose(struct memory_session *me, struct memory_entry *entry)
{
    if (entry->interest || (entry->news & MEMORY_GRANTED))
        hf__memory_post(me, entry, MEMORY_LOST);
    hf__memory_end(me, entry);
}

void hf__memory_unbind(struct memory_session *me, struct memory_entry *entry)
{
    entry->ticket = NULL;
    hf__list_remove(&entry->in_news);
    if (entry->state == MEMORY_ENDED)
        entry_free(me, entry);
}
