/* SPDX-License-Identifier: MIT */
/*
 * The queue of a name in the mem store, and the places in it.
 *
 * Called by the other files with the space entered. The queue is two lists: holders,
 * then waiters in order of arrival. Nobody overtakes: a waiter is let in only when it
 * is the first of them and the admission rule of the kit says that it fits beside the
 * holders.
 *
 * hf__memory_settle() puts a name right after any change and is the only place where a
 * waiter becomes a holder. Leases end when somebody looks. As nobody may come to look,
 * the first waiter gets an alarm for the first lease that ends; when that comes nearer,
 * or the first waiter is another, settle gives the alarm again.
 */
#include "memory.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

static struct memory_place *place_at(struct hf_list_node *link)
{
    return HF_CONTAINER(link, struct memory_place, in_queue);
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
        struct memory_place *place = place_at(link);
        if (place->end_ns <= now)
            hf__memory_lose(me, place);
        else if (place->end_ns < name->next_end_ns)
            name->next_end_ns = place->end_ns;
    }
}

bool hf__memory_settle(struct memory_session *me, struct memory_name *name)
{
    struct hf_list_node *first;
    struct memory_place *place = NULL;

    name_expire(me, name);
    while ((first = hf__list_first(&name->waiters))) {
        place = place_at(first);
        if (!hf__memory_fits(name, place->kind, place->permits))
            break;
        hf__memory_admit(me, name, place);
        hf__memory_post(me, place, MEMORY_GRANTED);
    }
    if (first && name->next_end_ns < place->alarm_ns) {
        place->alarm_ns = name->next_end_ns;
        hf__memory_post(me, place, MEMORY_ALARM);
    }
    if (first || !hf__list_empty(&name->holders) || name->latch_left ||
        name->cell_version)
        return true;
    hf__memory_name_drop(me, name);
    return false;
}

/* ---- Places -------------------------------------------------------------------- */

static void place_free(struct memory_session *me, struct memory_place *place)
{
    hf__list_remove(&place->in_session);
    hf__list_remove(&place->in_news);
    hf__list_push_front(&me->space->free_places, &place->in_queue);
}

static struct memory_place *place_alloc(struct memory_space *space)
{
    struct hf_list_node *link = hf__list_first(&space->free_places);

    if (!link)
        return hf__alloc(sizeof(struct memory_place));
    hf__list_remove(link);
    return place_at(link);
}

static void place_note(struct memory_place *place, const char *note)
{
    size_t len = strnlen(note, HF_NOTE_MAX);

    memcpy(place->note, note, len);
    place->note[len] = '\0';
}

/* Fills in every member but name, state and links, which a free place has clear. */
struct memory_place *hf__memory_place_new(struct memory_session *me,
                                          struct hf_ticket *ticket)
{
    struct memory_place *place = place_alloc(me->space);

    if (!place)
        return NULL;
    place->session = me;
    place->ticket = ticket;
    place->id = ticket->id;
    place->kind = ticket->kind;
    place->permits = ticket->permits;
    place->span = ticket->reserve;
    place->token = 0;
    place->ttl_ns = ticket->ttl_ns;
    place->begun_ns = 0;
    place->end_ns = place->alarm_ns = HF_NEVER;
    place->since_ns = hf__now_coarse();
    place->news = 0;
    place->detached = ticket->flags & HF_TICKET_DETACHED;
    place->interest = place->revoked = false;
    place_note(place, ticket->note);
    hf__list_push_back(&me->others, &place->in_session);
    ticket->store[0] = (uintptr_t)place;
    return place;
}

bool hf__memory_fits(const struct memory_name *name, int32_t kind, uint32_t permits)
{
    if (kind == HF_LATCH)
        return name->latch_left == 0;
    return hf__admit(&name->held, kind, permits, name->limit) == HF_IN;
}

static void tally_drop(struct hf_tally *tally, const struct memory_place *place)
{
    if (place->kind == HF_PERMITS || place->kind == HF_EXPIRING)
        tally->permits -= place->permits;
    else if (place->kind == HF_READ)
        tally->readers--;
    else
        tally->exclusive--;
}

void hf__memory_wait(struct memory_name *name, struct memory_place *place)
{
    place->name = name;
    place->state = MEMORY_WAITING;
    hf__list_push_back(&name->waiters, &place->in_queue);
    hf__list_remove(&place->in_session);
    hf__list_push_back(&place->session->waiting, &place->in_session);
}

void hf__memory_admit(struct memory_session *me, struct memory_name *name,
                      struct memory_place *place)
{
    if (place->state == MEMORY_WAITING) {
        hf__list_remove(&place->in_queue);
        hf__list_remove(&place->in_session);
        hf__list_push_back(&place->session->others, &place->in_session);
        place->since_ns = hf__now_coarse();
    }
    place->token = hf__memory_draw(place->span);
    place->name = NULL;
    place->state = MEMORY_GONE;
    if (place->kind == HF_LATCH)
        return; /* told that it is open, and nothing to keep */
    hf__memory_hold(me, name, place);
}

void hf__memory_hold(struct memory_session *me, struct memory_name *name,
                     struct memory_place *place)
{
    place->name = name;
    place->state = MEMORY_HELD;
    hf__list_push_back(&name->holders, &place->in_queue);
    hf__tally_add(&name->held, place->kind, place->permits);
    hf__memory_lease(me, place);
}

void hf__memory_lease(struct memory_session *me, struct memory_place *place)
{
    struct memory_name *name = place->name;

    place->begun_ns = 0;
    place->end_ns = HF_NEVER;
    if (place->ttl_ns > 0) {
        place->begun_ns = me->host->ops->now(me->host);
        place->end_ns = place->begun_ns + place->ttl_ns;
    }
    if (place->end_ns < name->next_end_ns)
        name->next_end_ns = place->end_ns;
}

void hf__memory_end(struct memory_session *me, struct memory_place *place)
{
    struct memory_name *name = place->name;

    hf__list_remove(&place->in_queue);
    if (place->state == MEMORY_HELD) {
        tally_drop(&name->held, place);
        if (hf__list_empty(&name->holders))
            name->next_end_ns = HF_NEVER;
    }
    place->name = NULL;
    place->state = MEMORY_GONE;
    if (!place->ticket)
        place_free(me, place);
}

void hf__memory_lose(struct memory_session *me, struct memory_place *place)
{
    if (place->interest)
        hf__memory_post(me, place, MEMORY_LOST);
    hf__memory_end(me, place);
}

void hf__memory_unbind(struct memory_session *me, struct memory_place *place)
{
    place->ticket = NULL;
    hf__list_remove(&place->in_news);
    if (place->state == MEMORY_GONE)
        place_free(me, place);
}
