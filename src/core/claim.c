/* SPDX-License-Identifier: MIT */
/*
 * A claim's life: made, asked for, queued, held, given up.
 *
 * All under the client's lock. Between hf__claim_attempt and the answer, and between
 * hf__claim_leave and its answer, a timer repeats the request with the same id, so that a
 * lost reply is found again. A claim is freed when the store has answered its withdrawal
 * (or never had it), no hold has it and no op waits on it.
 *
 * Hand-off: acquires of one client that want the same mutex wait on one claim, of which
 * only one ticket stands in the store. hf__claim_release lets the next of them have it
 * under the next token number, at most client->handoff times in a row and only while the
 * lease has some life left; then the claim goes back to the end of the store's queue.
 * The next one is usually asleep, and waking takes longer than most critical sections:
 * so the claim is offered first, and a thread that is running may take it while the
 * sleeper is on its way. A sleeper that came in vain gets the next turn for certain.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"
#include "../base/rand.h"

#include <string.h>

enum { IDLE_MAX = 64 };

static void claim_timeout(void *arg);

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
    claim->timer.callback = claim_timeout;
    claim->timer.arg = claim;
    claim->ticket.name = claim->name;
    claim->ticket.note = "";
    hf__list_init(&claim->ops);
    hf__list_init(&claim->parts);
    hf__list_init(&claim->askers);
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
    claim->leaver = NULL;
    claim->owner = 0;
    claim->holders = 0;
    claim->repeats = 0;
    claim->asked_at = 0;
    claim->valid_until = HF_NEVER;
    claim->end_at = HF_NEVER;
    claim->ttl_ns = 0;
    claim->max_hold_ns = 0;
    claim->state = CLAIM_NEW;
    claim->combine = claim->reentrant = claim->renew = claim->pinned = false;
    claim->unreachable = claim->doubt_told = claim->idle = false;
    claim->offered = claim->impatient = claim->interested = false;
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
static bool new_id(struct claim *claim)
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
    if (!set_name(claim, name, len, hash) || !new_id(claim)) {
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
    if (claim->ticket.name == claim->name && !client->closing)
        hf__claim_name(claim);
    if (!claim->named || claim->ticket.name != claim->name) {
        claim_destroy(claim);
        return;
    }
    claim_shelve(claim);
}

void hf__claim_trim(hf_client *client)
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

/* One that `owner` holds and may enter again, else one to wait on, else NULL. */
struct claim *hf__claim_find(hf_client *client, const struct hf_ticket *ticket,
                             uint64_t owner)
{
    struct claim *found = NULL;
    if (!client->names_count)
        return NULL;
    struct claim *claim = client->names[ticket->name_hash & (client->names_size - 1)];
    for (; claim; claim = claim->name_next) {
        if (claim->idle || !same_name(&claim->ticket, ticket))
            continue;
        if (ticket->kind == HF_REENTRANT && claim->state == CLAIM_HELD &&
            claim->reentrant && claim->owner == owner)
            return claim;
        if (claim->combine && !claim->pinned)
            found = claim;
    }
    return found;
}

/* The same lock as the last time, asked for in the same way. */
struct claim *hf__claim_hot(hf_client *client, const char *name, int32_t kind)
{
    struct claim *claim = client->hot;
    if (!claim || claim->ticket.kind != kind ||
        strncmp(claim->name, name, sizeof(claim->name)) != 0)
        return NULL;
    uint32_t chain = claim->ticket.name_hash & (client->names_size - 1);
    if (client->names[chain] != claim || claim->name_next)
        return NULL; /* others of this client may be on the name: have a closer look */
    if (claim->used_id && !new_id(claim))
        return NULL;
    client->hot = NULL;
    claim->idle = claim->impatient = false;
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
    if (!found || (found->used_id && !new_id(found)))
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

/* ---- asking -------------------------------------------------------------------- */

void hf__claim_tell(struct claim *claim)
{
    if (claim->inline_call)
        return;
    claim->used_id = true; /* answers may still be under way */
    if (!hf__linked(&claim->ready))
        hf__list_push_back(&claim->client->ready, &claim->ready);
}

void hf__claim_timer(struct claim *claim, int64_t at_ns)
{
    struct hf_loop *loop = &claim->client->loop;
    if (at_ns == HF_NEVER)
        hf__loop_stop_timer(loop, &claim->timer);
    else
        hf__loop_set_timer(loop, &claim->timer, at_ns); /* room is reserved before */
}

static void stamp_lease(struct claim *claim)
{
    claim->asked_at = hf__now();
    int64_t ttl = claim->ttl_ns;
    if (claim->end_at != HF_NEVER && claim->end_at - claim->asked_at < ttl)
        ttl = claim->end_at - claim->asked_at;
    claim->ticket.ttl_ns = ttl > 0 ? ttl : 1;
}

void hf__claim_attempt(struct claim *claim)
{
    hf_client *client = claim->client;
    if (claim->ttl_ns)
        stamp_lease(claim);
    claim->state = CLAIM_ASKED;
    claim->inline_call = true;
    client->store->attempt(client->session, &claim->ticket);
    claim->inline_call = false;
    if (claim->state == CLAIM_ASKED && !claim->timer.slot)
        hf__claim_timer(claim, hf__now() + client->request_ns);
}

void hf__claim_granted(struct claim *claim, const struct hf_grant *grant)
{
    claim->token = grant->token;
    claim->tokens_left = grant->span ? grant->span - 1 : 0;
    claim->handoffs = 0;
    claim->repeats = 0;
    claim->unreachable = claim->interested = false;
    claim->valid_until = HF_NEVER;
    if (grant->ttl_ns) {
        int64_t from = grant->since_ns ? grant->since_ns : claim->asked_at;
        claim->asked_at = from;
        claim->valid_until = from + grant->ttl_ns - hf__drift(grant->ttl_ns);
        claim->end_at = claim->max_hold_ns ? from + claim->max_hold_ns : HF_NEVER;
    }
    claim->state = CLAIM_HELD;
    if (claim->timer.slot)
        hf__claim_timer(claim, HF_NEVER);
    hf__claim_tell(claim);
}

static void claim_withdraw(struct claim *claim)
{
    hf_client *client = claim->client;
    claim->state = CLAIM_LEAVING;
    claim->inline_call = true;
    client->store->withdraw(client->session, &claim->ticket);
    claim->inline_call = false;
    if (claim->state == CLAIM_LEAVING && !claim->timer.slot)
        hf__claim_timer(claim, hf__now() + client->request_ns);
}

/* The repeat of an unanswered request, or something about a lease (renew.c). */
static void claim_timeout(void *arg)
{
    struct claim *claim = arg;
    switch (claim->state) {
    case CLAIM_ASKED:
    case CLAIM_QUEUED:
        hf__claim_attempt(claim);
        if (claim->state != CLAIM_ASKED && claim->state != CLAIM_QUEUED)
            hf__claim_tell(claim);
        break;
    case CLAIM_LEAVING:
        claim->repeated = true;
        claim_withdraw(claim);
        if (claim->state == CLAIM_LEFT)
            hf__claim_tell(claim);
        break;
    case CLAIM_HELD:
        hf__renew_timeout(claim);
        break;
    default:
        break;
    }
}

/* Somebody watches, or waits for a hand-off: a loss must not go unnoticed. */
void hf__claim_interest(struct claim *claim)
{
    if (claim->interested || claim->state != CLAIM_HELD)
        return;
    claim->interested = true;
    claim->client->store->interest(claim->client->session, &claim->ticket);
}

/* ---- giving up ----------------------------------------------------------------- */

/* Takes the claim out of the store. `leaver` (may be NULL) counts it as pending until
 * it has left; look at the state afterwards: CLAIM_LEFT means that it is done and
 * hf__claim_left() is yours to call. */
void hf__claim_leave(struct claim *claim, struct hf_op *leaver)
{
    bool in_store = claim->state == CLAIM_ASKED || claim->state == CLAIM_QUEUED ||
                    claim->state == CLAIM_HELD || claim->state == CLAIM_LOST;
    claim->offered = false;
    hf__renew_stop(claim);
    if (claim->timer.slot)
        hf__claim_timer(claim, HF_NEVER);
    if (hf__list_first(&claim->askers))
        hf__claim_end_askers(claim, HF_ELOST, "the hold was released meanwhile");
    claim->repeats = 0;
    claim->repeated = false;
    claim->leaver = leaver;
    if (leaver)
        leaver->pending++;
    if (!in_store) {
        claim->state = CLAIM_LEFT;
        claim->withdrawal = HF_WITHDRAWN;
        return;
    }
    claim_withdraw(claim);
    if (claim->state != CLAIM_LEAVING)
        return;
    hf__claim_unname(claim);
    if (!leaver)
        hf__need_thread(claim->client, NULL); /* somebody has to hear the answer */
}

/* A fresh ticket for those who still wait on a claim that had to go. */
static void claim_restart(struct claim *claim)
{
    struct hf_op *front = HF_CONTAINER(hf__list_first(&claim->ops), struct hf_op, link);
    claim->state = CLAIM_NEW;
    claim->repeats = 0;
    claim->impatient = false;
    claim->ticket.flags |= HF_TICKET_YIELD; /* this client has had its turns */
    memset(claim->ticket.store, 0, sizeof(claim->ticket.store));
    if (!new_id(claim)) {
        hf__acquire_undo(front, HF_ESYSTEM);
        return;
    }
    hf__claim_name(claim);
    hf__acquire_advance(front);
}

void hf__claim_left(struct claim *claim)
{
    struct hf_op *leaver = claim->leaver;
    /* Gone at a repeat: the first one did it, and its answer was lost. */
    bool gone = claim->withdrawal == HF_GONE && !claim->repeated;
    claim->leaver = NULL;
    if (hf__list_first(&claim->ops))
        claim_restart(claim);
    else
        hf__claim_free(claim);
    if (!leaver)
        return;
    if (gone && leaver->kind == OP_RELEASE && leaver->rc == 0)
        leaver->rc = hf__fail(&leaver->why, HF_ELOST,
                              "the lock was gone before it was released");
    if (--leaver->pending == 0)
        hf__op_finish(leaver, leaver->rc);
}

static bool may_hand_off(const struct claim *claim)
{
    const hf_client *client = claim->client;
    if (!hf__list_first(&claim->ops) || claim->pinned || claim->state != CLAIM_HELD ||
        !claim->tokens_left || claim->handoffs >= client->handoff || client->closing)
        return false;
    return claim->valid_until == HF_NEVER ||
           claim->valid_until - hf__now() > claim->ttl_ns / 3;
}

/* To the next of this client, if there is one and it may be. */
bool hf__claim_hand_off(struct claim *claim)
{
    if (!may_hand_off(claim))
        return false;
    struct hf_op *front = HF_CONTAINER(hf__list_first(&claim->ops), struct hf_op, link);
    claim->offered = true;
    if (front->asleep && !claim->impatient) {
        front->offered = true;
        hf__op_wake(front);
        return true;
    }
    claim->impatient = false;
    hf__acquire_advance(front);
    return true;
}

void hf__claim_take_offer(struct claim *claim)
{
    claim->offered = false;
    claim->token++;
    claim->tokens_left--;
    claim->handoffs++;
}

/* The last holder lets go. */
void hf__claim_release(struct claim *claim, struct hf_op *leaver)
{
    if (hf__claim_hand_off(claim))
        return;
    hf__claim_leave(claim, leaver);
    if (claim->state == CLAIM_LEFT)
        hf__claim_left(claim);
}

/* ---- losing -------------------------------------------------------------------- */

void hf__claim_end_askers(struct claim *claim, int rc, const char *reason)
{
    for (struct hf_link *link; (link = hf__list_first(&claim->askers));) {
        struct hf_op *op = HF_CONTAINER(link, struct hf_op, link);
        if (rc != 0)
            hf__fail(&op->why, rc, "%s", reason);
        hf__op_finish(op, rc);
    }
}

/* Those who waited for a hand-off need a ticket of their own now. */
static void move_waiters(struct claim *claim)
{
    struct hf_link *front = hf__list_first(&claim->ops);
    if (!front)
        return;
    const struct hf_ticket *old = &claim->ticket;
    struct claim *fresh =
        hf__claim_new(claim->client, old->name, old->name_len, old->name_hash);
    if (!fresh) {
        while ((front = hf__list_first(&claim->ops)))
            hf__acquire_undo(HF_CONTAINER(front, struct hf_op, link), HF_ENOMEM);
        return;
    }
    fresh->ticket.kind = old->kind;
    fresh->ticket.permits = old->permits;
    fresh->ticket.limit = old->limit;
    fresh->ticket.reserve = old->reserve;
    fresh->combine = true;
    fresh->ttl_ns = claim->ttl_ns;
    fresh->renew = claim->renew;
    while ((front = hf__list_first(&claim->ops))) {
        hf__list_remove(front);
        hf__list_push_back(&fresh->ops, front);
        HF_CONTAINER(front, struct hf_op, link)->one = fresh;
    }
    hf__claim_name(fresh);
    hf__claim_tell(fresh); /* CLAIM_NEW: settle lets the front op go on */
}

void hf__claim_lost(struct claim *claim, const char *reason)
{
    if (claim->state != CLAIM_HELD)
        return;
    claim->state = CLAIM_LOST;
    claim->offered = false;
    hf__claim_unname(claim);
    hf__renew_stop(claim);
    hf__claim_timer(claim, HF_NEVER);
    for (HF_EACH(link, &claim->parts)) {
        struct hf_hold *hold = HF_CONTAINER(link, struct hold_part, link)->hold;
        atomic_store(&hold->lost, true);
        hf__hold_tell(hold, HF_EVENT_LOST);
    }
    hf__claim_end_askers(claim, HF_ELOST, reason);
    move_waiters(claim);
}
