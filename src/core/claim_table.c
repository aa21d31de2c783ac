/* SPDX-License-Identifier: MIT */
/*
 * Makes claims, finds them by name, and keeps them for the next acquire.
 *
 * Under the client's lock. A table by name finds the claim that other callers of this
 * client may wait on, and the one that its owner may enter again. A claim without a
 * holder stays there, idle, for a while: the next acquire of that name needs no memory
 * and no check of the name.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/mem.h"
#include "../base/text.h"

#include <string.h>

enum { IDLE_MAX = 64, IDLE_NAME_MAX = 128 };

/* ---- making ---------------------------------------------------------------------- */

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

/* For a new ticket: all but the name, the last token and what the store remembers. */
static void claim_reset(struct claim *claim)
{
    struct hf_ticket *ticket = &claim->ticket;
    ticket->id = hf__next_id(claim->client);
    ticket->flags = 0;
    ticket->ttl_ns = 0;
    memset(ticket->store, 0, sizeof(ticket->store));
    claim->withdraw_op = NULL;
    claim->owner = (struct owner){ 0, false };
    claim->holders = claim->requests = 0;
    claim->repeats = claim->handoffs = claim->tokens_left = 0;
    claim->lease_since = claim->sent_at = claim->renew_at = claim->renew_sent = 0;
    claim->valid_until = HF_NEVER;
    claim->end_at = HF_NEVER;
    claim->ttl_ns = claim->piece_ns = 0;
    claim->max_hold_ns = 0;
    claim->state = CLAIM_NEW;
    claim->combine = claim->reentrant = claim->pinned = claim->left_behind = false;
    claim->renew = claim->fixed = claim->fixed_end = claim->doubt_notified = false;
    claim->sent = claim->sent_before = claim->noticed = claim->unreachable = false;
    claim->direct_next = claim->interested = false;
}

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

struct claim *hf__claim_new(hf_client *client, const char *name, size_t len,
                            uint32_t hash)
{
    struct claim *claim = claim_alloc(client);
    if (!claim)
        return NULL;
    claim_reset(claim);
    if (!set_name(claim, name, len, hash)) {
        claim_destroy(claim);
        return NULL;
    }
    hf__list_push_back(&client->claims, &claim->all);
    return claim;
}

/* ---- idle claims ----------------------------------------------------------------- */

static void keep_idle(struct claim *claim)
{
    hf_client *client = claim->client;
    claim->state = CLAIM_IDLE;
    hf__list_push_front(&client->idle, &claim->all);
    if (++client->idle_count > IDLE_MAX) {
        client->idle_count--;
        claim_destroy(HF_CONTAINER(client->idle.prev, struct claim, all));
    }
}

void hf__claim_free(struct claim *claim)
{
    hf_client *client = claim->client;
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
    if (!claim->named || claim->ticket.name_len > IDLE_NAME_MAX)
        claim_destroy(claim);
    else
        keep_idle(claim);
}

void hf__claim_free_idle(hf_client *client)
{
    for (struct hf_list_node *link; (link = hf__list_first(&client->idle));)
        claim_destroy(HF_CONTAINER(link, struct claim, all));
    client->idle_count = 0;
}

static bool is_idle_for(const struct claim *claim, const char *name, int32_t kind)
{
    return claim->state == CLAIM_IDLE && claim->ticket.kind == kind &&
           strcmp(claim->ticket.name, name) == 0;
}

/* Most often it is the claim that became idle last: then there is nothing to hash. */
static struct claim *find_idle(const hf_client *client, const char *name, int32_t kind)
{
    struct hf_list_node *latest = hf__list_first(&client->idle);
    if (!latest)
        return NULL;
    struct claim *claim = HF_CONTAINER(latest, struct claim, all);
    if (is_idle_for(claim, name, kind))
        return claim;
    uint32_t hash = hf__text_hash(name, strnlen(name, IDLE_NAME_MAX));
    claim = client->names[hash & (client->names_size - 1)];
    while (claim && !is_idle_for(claim, name, kind))
        claim = claim->name_next;
    return claim;
}

struct claim *hf__claim_take_idle(hf_client *client, const char *name, int32_t kind)
{
    struct claim *claim = find_idle(client, name, kind);
    if (!claim)
        return NULL;
    hf__list_remove(&claim->all);
    client->idle_count--;
    claim_reset(claim);
    hf__list_push_back(&client->claims, &claim->all);
    return claim;
}

/* ---- the table by name ----------------------------------------------------------- */

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

bool hf__claim_is_offered(const struct claim *claim)
{
    return claim->state == CLAIM_HELD && claim->holders == 0;
}

bool hf__claim_fits(const struct claim *claim, int64_t ttl_ns)
{
    return claim->ttl_ns == ttl_ns;
}

/* Without holders it is on its way to another owner. */
bool hf__claim_may_reenter(const struct claim *claim, struct owner owner)
{
    return claim->state == CLAIM_HELD && claim->reentrant && claim->holders > 0 &&
           hf__same_owner(claim->owner, owner);
}

/* One that `owner` holds and may enter again, else one to wait on, else NULL. */
struct claim *hf__claim_find(const struct claim *claim, struct owner owner,
                             bool reentrant)
{
    const hf_client *client = claim->client;
    const struct hf_ticket *ticket = &claim->ticket;
    struct claim *found = NULL;
    if (!client->names_count)
        return NULL;
    struct claim *other = client->names[ticket->name_hash & (client->names_size - 1)];
    for (; other; other = other->name_next) {
        if (other == claim || other->state == CLAIM_IDLE ||
            !same_name(&other->ticket, ticket))
            continue;
        if (reentrant && hf__claim_may_reenter(other, owner))
            return other;
        if (other->combine && !other->pinned)
            found = other;
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
        if (other != claim && other->state == CLAIM_HELD &&
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
