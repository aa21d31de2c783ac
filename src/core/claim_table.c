/* SPDX-License-Identifier: MIT */
/*
 * Where claims come from and where they are found: made, named, kept idle.
 *
 * All under the client's lock. A table by name finds the claim that others of this
 * client may wait on, and the one its owner may enter again. A claim that nobody has
 * any more stays there, idle, for a while: whoever wants that name next needs no memory
 * and no check of the name. The latest of them is `hot`, and all set for the same want
 * again.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/mem.h"

#include <string.h>

enum { IDLE_MAX = 64, IDLE_NAME_MAX = 128 };

/* ---- making ------------------------------------------------------------------- */

static struct claim *claim_alloc(hf_client *client)
{
    if (hf__loop_reserve(&client->loop) != 0)
        return NULL;
    struct claim *claim = hf__alloc(sizeof(*claim));
    if (!claim) {
        hf__loop_unreserve(&client->loop);
        return NULL;
    }
    claim->client = client;
    claim->timer.callback = hf__claim_timeout;
    claim->timer.arg = claim;
    claim->ticket.name = claim->name;
    claim->ticket.note = "";
    hf__list_init(&claim->ops);
    hf__list_init(&claim->parts);
    hf__list_init(&claim->checks);
    return claim;
}

static void claim_destroy(struct claim *claim)
{
    hf_client *client = claim->client;
    hf__claim_unname(claim);
    hf__list_remove(&claim->all);
    if (claim->ticket.name != claim->name)
        hf__free((void *)(uintptr_t)claim->ticket.name);
    hf__loop_unreserve(&client->loop);
    hf__free(claim);
}

static void claim_reset(struct claim *claim)
{
    struct hf_ticket *ticket = &claim->ticket;
    ticket->flags = 0;
    ticket->ttl_ns = 0;
    memset(ticket->store, 0, sizeof(ticket->store));
    claim->withdraw_op = NULL;
    claim->owner = (struct owner){ 0, false };
    claim->holders = 0;
    claim->repeats = claim->handoffs = claim->tokens_left = 0;
    claim->lease_since = claim->renew_at = claim->renew_sent = 0;
    claim->valid_until = HF_NEVER;
    claim->end_at = HF_NEVER;
    claim->ttl_ns = claim->piece_ns = 0;
    claim->max_hold_ns = 0;
    claim->state = CLAIM_NEW;
    claim->combine = claim->reentrant = claim->renew = claim->pinned = false;
    claim->unreachable = claim->doubt_notified = claim->idle = false;
    claim->unsent = claim->doubted = claim->fixed_end = claim->fixed = false;
    claim->offered = claim->direct_next = claim->interested = false;
    claim->left_behind = claim->repeated = false;
    claim->requests = 0;
}

/* A claim of its own, so its hint is 0; one that is used again keeps it. */
static bool set_name(struct claim *claim, const char *name, size_t len, uint32_t hash)
{
    char *copy = claim->name;
    if (len >= sizeof(claim->name)) {
        copy = hf__copy_text(name, len);
        if (!copy)
            return false;
    } else {
        memcpy(copy, name, len);
        copy[len] = '\0';
    }
    claim->ticket.name = copy;
    claim->ticket.name_len = (uint32_t)len;
    claim->ticket.name_hash = hash;
    return true;
}

/* The id of an idle claim serves again as long as nobody can know it and the store has
 * answered everything that was asked with it. */
bool hf__claim_new_id(struct claim *claim)
{
    struct hf_id *id = &claim->ticket.id;
    claim->used_id = false;
    return hf__random(&claim->client->ids, id, sizeof(*id)) == 0;
}

struct claim *hf__claim_new(hf_client *client, const char *name, size_t len,
                            uint32_t hash)
{
    struct claim *claim = claim_alloc(client);
    if (!claim)
        return NULL;
    claim_reset(claim);
    if (!set_name(claim, name, len, hash) || !hf__claim_new_id(claim)) {
        claim_destroy(claim);
        return NULL;
    }
    hf__list_push_back(&client->claims, &claim->all);
    return claim;
}

/* Back into the ranks of the idle. */
static void claim_shelve(struct claim *claim)
{
    hf_client *client = claim->client;
    claim->idle = true;
    hf__list_push_front(&client->idle, &claim->all);
    if (++client->idle_count > IDLE_MAX) {
        client->idle_count--;
        claim_destroy(HF_CONTAINER(client->idle.prev, struct claim, all));
    }
}

/* Nobody has it any more. It stays for a while, under its name: whoever wants that name
 * next finds a claim that needs no memory and no check of the name. */
void hf__claim_free(struct claim *claim)
{
    hf_client *client = claim->client;
    claim->used_id |= claim->pinned;
    hf__renew_stop(claim);
    if (claim->timer.slot)
        hf__claim_timer(claim, HF_NEVER);
    hf__list_remove(&claim->ready);
    hf__list_remove(&claim->all);
    if (claim->ticket.note[0])
        hf__free((void *)(uintptr_t)claim->ticket.note);
    claim->ticket.note = "";
    hf__free(claim->lost_why);
    claim->lost_why = NULL;
    if (claim->ticket.name_len <= IDLE_NAME_MAX && !client->closing)
        hf__claim_name(claim);
    if (!claim->named || claim->ticket.name_len > IDLE_NAME_MAX) {
        claim_destroy(claim);
        return;
    }
    claim_shelve(claim);
}

void hf__claim_free_idle(hf_client *client)
{
    if (client->hot)
        claim_destroy(client->hot);
    client->hot = NULL;
    for (struct hf_link *link; (link = hf__list_first(&client->idle));)
        claim_destroy(HF_CONTAINER(link, struct claim, all));
    client->idle_count = 0;
}

/* ---- the table by name --------------------------------------------------------- */

static void names_grow(hf_client *client)
{
    uint32_t size = client->names_size ? client->names_size * 4 : 64;
    struct claim **names = hf__alloc(size * sizeof(*names));
    if (!names)
        return; /* longer chains do no harm */
    for (uint32_t i = 0; i < client->names_size; i++) {
        for (struct claim *claim = client->names[i], *next; claim; claim = next) {
            next = claim->name_next;
            struct claim **chain = &names[claim->ticket.name_hash & (size - 1)];
            claim->name_next = *chain;
            *chain = claim;
        }
    }
    hf__free(client->names);
    client->names = names;
    client->names_size = size;
}

void hf__claim_name(struct claim *claim)
{
    hf_client *client = claim->client;
    if (client->names_count >= client->names_size)
        names_grow(client);
    if (!client->names_size || claim->named)
        return; /* without a table nobody else can wait on it: slower, not wrong */
    struct claim **chain =
        &client->names[claim->ticket.name_hash & (client->names_size - 1)];
    claim->name_next = *chain;
    *chain = claim;
    claim->named = true;
    client->names_count++;
}

void hf__claim_unname(struct claim *claim)
{
    hf_client *client = claim->client;
    if (!claim->named)
        return;
    struct claim **at =
        &client->names[claim->ticket.name_hash & (client->names_size - 1)];
    while (*at != claim)
        at = &(*at)->name_next;
    *at = claim->name_next;
    claim->named = false;
    client->names_count--;
}

static bool same_name(const struct hf_ticket *a, const struct hf_ticket *b)
{
    return a->name_hash == b->name_hash && a->name_len == b->name_len &&
           memcmp(a->name, b->name, a->name_len) == 0;
}

/* Without holders it is on its way to another owner, or only offered. */
bool hf__claim_may_reenter(const struct claim *claim, struct owner owner)
{
    return claim->state == CLAIM_HELD && claim->reentrant && claim->holders > 0 &&
           hf__same_owner(claim->owner, owner);
}

/* One that `owner` holds and may enter again, else one to wait on, else NULL. */
struct claim *hf__claim_find(hf_client *client, const struct hf_ticket *ticket,
                             struct owner owner)
{
    struct claim *found = NULL;
    if (!client->names_count)
        return NULL;
    struct claim *claim = client->names[ticket->name_hash & (client->names_size - 1)];
    for (; claim; claim = claim->name_next) {
        if (claim->idle || !same_name(&claim->ticket, ticket))
            continue;
        if (ticket->kind == HF_REENTRANT && hf__claim_may_reenter(claim, owner))
            return claim;
        if (claim->combine && !claim->pinned)
            found = claim;
    }
    return found;
}

/* A claim that this client still holds, it believes, though a later grant of the same
 * name says that it was taken away. */
static struct claim *superseded_by(const struct claim *claim)
{
    const hf_client *client = claim->client;
    struct claim *other =
        client->names[claim->ticket.name_hash & (client->names_size - 1)];
    for (; other; other = other->name_next)
        if (other != claim && other->state == CLAIM_HELD && !other->idle &&
            other->token < claim->token && same_name(&other->ticket, &claim->ticket))
            return other;
    return NULL;
}

/* The store grants an exclusive lock when no client holds it: this one, too. */
void hf__claim_end_older(const struct claim *claim)
{
    int32_t kind = claim->ticket.kind;
    struct claim *other;
    if (!claim->named || (kind != HF_MUTEX && kind != HF_REENTRANT && kind != HF_FAIR &&
                          kind != HF_WRITE))
        return;
    while ((other = superseded_by(claim)))
        hf__claim_lost(other, "the store has granted the lock again since");
}

/* The same lock as the last time, call for in the same way. */
struct claim *hf__claim_hot(hf_client *client, const char *name, int32_t kind)
{
    struct claim *claim = client->hot;
    if (!claim || claim->ticket.kind != kind || strcmp(claim->name, name) != 0)
        return NULL;
    uint32_t chain = claim->ticket.name_hash & (client->names_size - 1);
    if (client->names[chain] != claim || claim->name_next)
        return NULL; /* others of this client may be on the name: have a closer look */
    if (claim->used_id && !hf__claim_new_id(claim))
        return NULL;
    client->hot = NULL;
    claim->idle = claim->direct_next = false;
    memset(claim->ticket.store, 0, sizeof(claim->ticket.store));
    hf__list_push_back(&client->claims, &claim->all);
    return claim;
}

void hf__claim_cool(struct claim *claim)
{
    hf_client *client = claim->client;
    if (!claim->named || claim->ticket.name != claim->name || client->closing) {
        hf__claim_free(claim);
        return;
    }
    hf__list_remove(&claim->all);
    claim->idle = true;
    if (client->hot)
        claim_shelve(client->hot);
    client->hot = claim;
}

/* An idle claim of that name and kind, ready to be asked for again: then name and kind
 * have been checked before. NULL if there is none, or if any other claim of this client
 * is on the name. */
struct claim *hf__claim_reuse(hf_client *client, const char *name, size_t len,
                              uint32_t hash, int32_t kind)
{
    struct claim *found = NULL;
    if (!client->idle_count && !client->hot)
        return NULL;
    struct claim *claim = client->names[hash & (client->names_size - 1)];
    for (; claim; claim = claim->name_next) {
        const struct hf_ticket *ticket = &claim->ticket;
        if (ticket->name_hash != hash || ticket->name_len != len ||
            memcmp(ticket->name, name, len) != 0)
            continue;
        if (!claim->idle)
            return NULL;
        if (ticket->kind == kind)
            found = claim;
    }
    if (!found || (found->used_id && !hf__claim_new_id(found)))
        return NULL;
    if (found == client->hot) {
        client->hot = NULL;
    } else {
        hf__list_remove(&found->all);
        client->idle_count--;
    }
    claim_reset(found);
    hf__list_push_back(&client->claims, &found->all);
    return found;
}

struct claim *hf__claim_make(hf_client *client, const char *name, size_t len,
                             uint32_t hash, int32_t kind)
{
    struct claim *claim = hf__claim_reuse(client, name, len, hash, kind);
    if (!claim)
        return hf__claim_new(client, name, len, hash);
    hf__claim_unname(claim); /* as a new one: until it is known whom it waits for */
    return claim;
}

/* A claim of that name that is offered to whoever of this client comes first. */
struct claim *hf__claim_offered(hf_client *client, const char *name, size_t len,
                                uint32_t hash)
{
    struct claim *claim = client->names[hash & (client->names_size - 1)];
    for (; claim; claim = claim->name_next)
        if (claim->offered && !claim->ttl_ns && claim->ticket.name_hash == hash &&
            claim->ticket.name_len == len && memcmp(claim->ticket.name, name, len) == 0)
            return claim;
    return NULL;
}
