/* SPDX-License-Identifier: MIT */
/*
 * Look and repair in the mem store: who holds and waits, and what can be done to a
 * holder from outside, by its token, its id, or its ticket.
 *
 * One function per verb, called by hf__memory_ask() with the space entered. A report is
 * gathered as copies and told after the space was left, because the texts in it may
 * belong to other sessions.
 */
#include "memory.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>
#include <unistd.h>

static struct memory_place *place_at(struct hf_list_node *link)
{
    return HF_CONTAINER(link, struct memory_place, in_queue);
}

/* ---- Inspect --------------------------------------------------------------------- */

static const char *text_put(char **at, const char *text, size_t len)
{
    char *copy = *at;

    memcpy(copy, text, len);
    *at += len + 1;
    return copy;
}

static hf_entry *sight_add(struct memory_session *me, const struct memory_name *name,
                           const char *program, const char *note)
{
    size_t program_len = strlen(program), note_len = strlen(note);
    struct memory_sight *sight =
        hf__alloc(sizeof(*sight) + name->len + program_len + note_len + 3);
    char *at;

    if (!sight)
        return NULL;
    at = sight->text;
    sight->entry = (hf_entry){
        .size = sizeof(hf_entry),
        .name = text_put(&at, name->text, name->len),
        .host = hf__memory_host_name(),
        .program = text_put(&at, program, program_len),
        .note = text_put(&at, note, note_len),
        .kind = name->kind,
        .limit = name->limit,
        .since_ms = -1,
        .left_ms = HF_FOREVER,
    };
    hf__list_push_back(&me->sights, &sight->link);
    return &sight->entry;
}

static bool object_see(struct memory_session *me, const struct memory_name *name)
{
    hf_entry *entry;

    if (!name->latch_left && !name->cell_version)
        return true;
    entry = sight_add(me, name, "", "");
    if (!entry)
        return false;
    entry->role = HF_OBJECT;
    entry->permits = name->latch_left;
    entry->token = name->cell_version;
    return true;
}

static bool place_see(struct memory_session *me, const struct memory_place *place,
                      uint32_t number)
{
    const char *program = place->session ? place->session->host->program : "";
    hf_entry *entry = sight_add(me, place->name, program, place->note);
    bool holds = place->state == MEMORY_HELD;

    if (!entry)
        return false;
    entry->kind = place->kind;
    entry->role = holds ? HF_HOLDER : HF_WAITER;
    entry->token = holds ? place->token : 0;
    entry->permits = place->permits;
    entry->place = holds ? 0 : number;
    entry->pid = getpid();
    entry->since_ms = (hf__now_coarse() - place->since_ns) / HF_NS_PER_MS;
    if (place->end_ns != HF_NEVER)
        entry->left_ms = (place->end_ns - me->host->ops->now(me->host)) / HF_NS_PER_MS;
    return true;
}

static bool name_see(struct memory_session *me, const struct memory_name *name)
{
    uint32_t number = 0;

    if (!object_see(me, name))
        return false;
    for (HF_EACH(link, &name->holders))
        if (!place_see(me, place_at(link), 0))
            return false;
    for (HF_EACH(link, &name->waiters))
        if (!place_see(me, place_at(link), number++))
            return false;
    return true;
}

static bool all_see(struct memory_session *me, const struct hf_request *request)
{
    for (size_t i = 0; i < me->space->bucket_count; i++) {
        struct memory_name *name = me->space->buckets[i], *next;
        for (; name; name = next) {
            next = name->next;
            if (name->len < request->name_len ||
                memcmp(name->text, request->name, request->name_len) != 0)
                continue;
            if (hf__memory_settle(me, name) && !name_see(me, name))
                return false;
        }
    }
    return true;
}

int hf__memory_inspect(struct memory_session *me, struct hf_request *request,
                       hf_error *why)
{
    struct memory_name *name = request->prefix ? NULL : hf__memory_asked(me, request);
    bool seen = true;

    if (request->prefix)
        seen = all_see(me, request);
    else if (name)
        seen = name_see(me, name);
    return seen ? 0 : hf__fail_code(why, HF_ENOMEM);
}

/* ---- Diagnose -------------------------------------------------------------------- */

const hf_finding hf__memory_finding = {
    sizeof(hf_finding), HF_GOOD, "reach",
    "locks among the threads of this process only; they end with it", ""
};

/* Nothing can be wrong with it. */
int hf__memory_diagnose(struct memory_session *me, struct hf_request *request,
                        hf_error *why)
{
    (void)me;
    (void)request;
    (void)why;
    return 0;
}

/* ---- Holders, by token or id ----------------------------------------------------- */

static struct memory_place *holder_by_token(struct memory_name *name, uint64_t token)
{
    for (HF_EACH(link, &name->holders)) {
        struct memory_place *place = place_at(link);
        if (token == place->token)
            return place;
    }
    return NULL;
}

static struct memory_place *holder_by_id(struct memory_name *name,
                                         const struct hf_id *id)
{
    for (HF_EACH(link, &name->holders))
        if (memcmp(&place_at(link)->id, id, sizeof(*id)) == 0)
            return place_at(link);
    return NULL;
}

int hf__memory_evict(struct memory_session *me, struct hf_request *request,
                     hf_error *why)
{
    struct memory_name *name = hf__memory_asked(me, request);
    struct memory_place *place = name ? holder_by_token(name, request->number) : NULL;

    if (!place)
        return hf__fail(why, HF_ENOENT, "nobody holds it with that token");
    hf__memory_lose(me, place);
    hf__memory_settle(me, name);
    return 0;
}

static void holder_revoke(struct memory_session *me, struct memory_place *place)
{
    place->revoked = true;
    if (place->interest)
        hf__memory_post(me, place, MEMORY_REVOKED);
}

int hf__memory_revoke(struct memory_session *me, struct hf_request *request,
                      hf_error *why)
{
    struct memory_name *name = hf__memory_asked(me, request);
    struct memory_place *place;

    if (!name || hf__list_empty(&name->holders))
        return hf__fail(why, HF_ENOENT, "nobody holds it");
    if (request->number == 0) {
        for (HF_EACH(link, &name->holders))
            holder_revoke(me, place_at(link));
        return 0;
    }
    place = holder_by_token(name, request->number);
    if (!place)
        return hf__fail(why, HF_ENOENT, "nobody holds it with that token");
    holder_revoke(me, place);
    return 0;
}

int hf__memory_downgrade(struct memory_session *me, struct hf_request *request,
                         hf_error *why)
{
    struct memory_place *place = hf__memory_place_of(request->ticket);

    if (place && place->name)
        hf__memory_settle(me, place->name);
    if (!place || !place->name || place->state != MEMORY_HELD)
        return hf__fail_code(why, HF_ELOST);
    if (place->kind != HF_WRITE)
        return 0; /* done before */
    place->kind = HF_READ;
    place->name->held.exclusive--;
    place->name->held.readers++;
    hf__memory_settle(me, place->name);
    return 0;
}

/* The heir takes over all but id and lease, under the token that its id names; the old
 * place is lost to its ticket. */
static void place_inherit(struct memory_session *me, struct memory_place *heir,
                          struct memory_place *old, uint64_t token)
{
    struct memory_name *name = old->name;

    heir->kind = old->kind;
    heir->permits = old->permits;
    heir->token = token;
    heir->span = 1;
    heir->since_ns = old->since_ns;
    memcpy(heir->note, old->note, sizeof(heir->note));
    hf__memory_hold(me, name, heir);
    hf__memory_lose(me, old);
    hf__memory_settle(me, name);
}

int hf__memory_adopt(struct memory_session *me, struct hf_request *request,
                     hf_error *why)
{
    struct hf_ticket *ticket = request->ticket;
    struct memory_name *name =
        hf__memory_find(me, ticket->name, ticket->name_len, ticket->name_hash);
    struct memory_place *heir = hf__memory_place_of(ticket);
    struct memory_place *old = name ? holder_by_id(name, &request->other) : NULL;

    if (old &&
        (request->number < old->token || request->number - old->token >= old->span))
        return hf__fail(why, HF_ENOENT, "the hold does not have that token");
    if (!old && (!heir || heir->state != MEMORY_HELD))
        return hf__fail(why, HF_ENOENT, "there is no such hold");
    if (!heir && !(heir = hf__memory_place_new(me, ticket)))
        return hf__fail_code(why, HF_ENOMEM);
    if (old)
        place_inherit(me, heir, old, request->number);
    request->grant = hf__memory_grant(heir);
    return 0;
}
