/* SPDX-License-Identifier: MIT */
/*
 * Inspect and repair in the mem store: reports holders and waiters, and changes a hold
 * by its token, its id, or its ticket.
 *
 * One function per verb, called by hf__memory_ask() with the space locked. A report is
 * gathered as copies and passed on after the space was unlocked, because the texts in
 * it may belong to other sessions.
 */
#include "memory.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>
#include <unistd.h>

static struct memory_entry *entry_at(struct hf_list_node *link)
{
    return HF_CONTAINER(link, struct memory_entry, in_queue);
}

/* ---- Inspect --------------------------------------------------------------------- */

static const char *text_put(char **at, const char *text, size_t len)
{
    char *copy = *at;

    memcpy(copy, text, len);
    *at += len + 1;
    return copy;
}

static hf_entry *item_add(struct memory_session *me, const struct memory_name *name,
                          const char *program, const char *note)
{
    size_t program_len = strlen(program), note_len = strlen(note);
    struct memory_item *item =
        hf__alloc(sizeof(*item) + name->len + program_len + note_len + 3);
    char *at;

    if (!item)
        return NULL;
    at = item->text;
    item->entry = (hf_entry){
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
    hf__list_push_back(&me->report, &item->link);
    return &item->entry;
}

static bool object_report(struct memory_session *me, const struct memory_name *name)
{
    hf_entry *out;

    if (!name->latch_left && !name->cell_version)
        return true;
    out = item_add(me, name, "", "");
    if (!out)
        return false;
    out->role = HF_OBJECT;
    out->permits = name->latch_left;
    out->token = name->cell_version;
    return true;
}

static bool entry_report(struct memory_session *me, const struct memory_entry *entry,
                         uint32_t number)
{
    const char *program = entry->session ? entry->session->host->program : "";
    hf_entry *out = item_add(me, entry->name, program, entry->note);
    bool holds = entry->state == MEMORY_HELD;

    if (!out)
        return false;
    out->kind = entry->kind;
    out->role = holds ? HF_HOLDER : HF_WAITER;
    out->token = holds ? entry->token : 0;
    out->permits = entry->permits;
    out->place = holds ? 0 : number;
    out->pid = getpid();
    out->since_ms = (hf__now_coarse() - entry->since_ns) / HF_NS_PER_MS;
    if (entry->end_ns != HF_NEVER)
        out->left_ms = (entry->end_ns - me->host->ops->now(me->host)) / HF_NS_PER_MS;
    return true;
}

static bool name_report(struct memory_session *me, const struct memory_name *name)
{
    uint32_t number = 0;

    if (!object_report(me, name))
        return false;
    for (HF_EACH(link, &name->holders))
        if (!entry_report(me, entry_at(link), 0))
            return false;
    for (HF_EACH(link, &name->waiters))
        if (!entry_report(me, entry_at(link), number++))
            return false;
    return true;
}

static bool all_report(struct memory_session *me, const struct hf_request *request)
{
    for (size_t i = 0; i < me->space->bucket_count; i++) {
        struct memory_name *name = me->space->buckets[i], *next;
        for (; name; name = next) {
            next = name->next;
            if (name->len < request->name_len ||
                memcmp(name->text, request->name, request->name_len) != 0)
                continue;
            if (hf__memory_update(me, name) && !name_report(me, name))
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
        seen = all_report(me, request);
    else if (name)
        seen = name_report(me, name);
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

static struct memory_entry *holder_by_token(struct memory_name *name, uint64_t token)
{
    for (HF_EACH(link, &name->holders)) {
        struct memory_entry *entry = entry_at(link);
        if (token == entry->token)
            return entry;
    }
    return NULL;
}

static struct memory_entry *holder_by_id(struct memory_name *name,
                                         const struct hf_id *id)
{
    for (HF_EACH(link, &name->holders))
        if (memcmp(&entry_at(link)->id, id, sizeof(*id)) == 0)
            return entry_at(link);
    return NULL;
}

int hf__memory_evict(struct memory_session *me, struct hf_request *request,
                     hf_error *why)
{
    struct memory_name *name = hf__memory_asked(me, request);
    struct memory_entry *entry = name ? holder_by_token(name, request->number) : NULL;

    if (!entry)
        return hf__fail(why, HF_ENOENT, "no holder has that token");
    hf__memory_lose(me, entry);
    hf__memory_update(me, name);
    return 0;
}

static void holder_revoke(struct memory_session *me, struct memory_entry *entry)
{
    entry->revoked = true;
    if (entry->interest)
        hf__memory_post(me, entry, MEMORY_REVOKED);
}

int hf__memory_revoke(struct memory_session *me, struct hf_request *request,
                      hf_error *why)
{
    struct memory_name *name = hf__memory_asked(me, request);
    struct memory_entry *entry;

    if (!name || hf__list_empty(&name->holders))
        return hf__fail(why, HF_ENOENT, "the lock has no holder");
    if (request->number == 0) {
        for (HF_EACH(link, &name->holders))
            holder_revoke(me, entry_at(link));
        return 0;
    }
    entry = holder_by_token(name, request->number);
    if (!entry)
        return hf__fail(why, HF_ENOENT, "no holder has that token");
    holder_revoke(me, entry);
    return 0;
}

int hf__memory_downgrade(struct memory_session *me, struct hf_request *request,
                         hf_error *why)
{
    struct memory_entry *entry = hf__memory_entry_of(request->ticket);

    if (entry && entry->name)
        hf__memory_update(me, entry->name);
    if (!entry || !entry->name || entry->state != MEMORY_HELD)
        return hf__fail_code(why, HF_ELOST);
    if (entry->kind != HF_WRITE)
        return 0; /* done before */
    entry->kind = HF_READ;
    entry->name->held.exclusive--;
    entry->name->held.readers++;
    hf__memory_update(me, entry->name);
    return 0;
}

/* `adopter` takes over everything but id and lease, under the token that its id names;
 * the ticket of the old entry loses it. */
static void entry_take_over(struct memory_session *me, struct memory_entry *adopter,
                            struct memory_entry *old, uint64_t token)
{
    struct memory_name *name = old->name;

    adopter->kind = old->kind;
    adopter->permits = old->permits;
    adopter->token = token;
    adopter->span = 1;
    adopter->since_ns = old->since_ns;
    memcpy(adopter->note, old->note, sizeof(adopter->note));
    hf__memory_hold(me, name, adopter);
    hf__memory_lose(me, old);
    hf__memory_update(me, name);
}

int hf__memory_adopt(struct memory_session *me, struct hf_request *request,
                     hf_error *why)
{
    struct hf_ticket *ticket = request->ticket;
    struct memory_name *name =
        hf__memory_find(me, ticket->name, ticket->name_len, ticket->name_hash);
    struct memory_entry *adopter = hf__memory_entry_of(ticket);
    struct memory_entry *old = name ? holder_by_id(name, &request->other) : NULL;

    if (old &&
        (request->number < old->token || request->number - old->token >= old->span))
        return hf__fail(why, HF_ENOENT, "the hold does not have that token");
    if (!old && (!adopter || adopter->state != MEMORY_HELD))
        return hf__fail(why, HF_ENOENT, "there is no such hold");
    if (!adopter && !(adopter = hf__memory_entry_new(me, ticket)))
        return hf__fail_code(why, HF_ENOMEM);
    if (old)
        entry_take_over(me, adopter, old, request->number);
    request->grant = hf__memory_grant(adopter);
    return 0;
}
