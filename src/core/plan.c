/* SPDX-License-Identifier: MIT */
/*
 * From wants to claims: checks what a caller asks for and makes one claim for each
 * want.
 *
 * Under the client's lock, before the store is asked. All memory that an acquire needs
 * is set aside here, the hold included, so that a grant never finds the heap empty.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"
#include "../base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the wants of one acquire have in common. */
struct plan {
    hf_client *client;
    const hf_acquire_options *options;
    struct owner owner;
    int64_t ttl_ns, max_hold_ns;
    uint32_t reserve;
    bool combine; /* other callers of this client may wait on its claim */
};

/* ---- terms ----------------------------------------------------------------------- */

/* The owner that the caller has named, else the calling thread. */
static struct owner owner_of(const hf_acquire_options *options)
{
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t mine __attribute__((tls_model("initial-exec")));
    if (options->owner)
        return (struct owner){ options->owner, false };
    if (!mine)
        mine = atomic_fetch_add(&threads, 1) + 1;
    return (struct owner){ mine, true };
}

/* An expiring permit has a lease, whether the caller asks for one or not. */
static bool any_expires(const hf_want *wants, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (wants[i].kind == HF_EXPIRING)
            return true;
    return false;
}

static void plan_init(struct plan *plan, hf_client *client,
                      const hf_acquire_options *options, const hf_want *wants,
                      size_t count)
{
    plan->client = client;
    plan->options = options;
    plan->owner = owner_of(options);
    plan->ttl_ns = options->ttl_ms ? options->ttl_ms * HF_NS_PER_MS : client->ttl_ns;
    if (!plan->ttl_ns && any_expires(wants, count))
        plan->ttl_ns = HF_DEFAULT_EXPIRING_MS * HF_NS_PER_MS;
    plan->max_hold_ns = options->max_hold_ms * HF_NS_PER_MS;
    if (plan->max_hold_ns && (!plan->ttl_ns || plan->ttl_ns > plan->max_hold_ns))
        plan->ttl_ns = plan->max_hold_ns;
    bool plain = count == 1 && options->flags == 0 && !plan->max_hold_ns;
    plan->combine = plain && client->handoff != 0;
    plan->reserve = plan->combine ? client->handoff + 1 : 1;
}

/* ---- claims ---------------------------------------------------------------------- */

static int set_note(struct claim *claim, const char *note)
{
    if (!note || !note[0])
        return 0;
    size_t len = strnlen(note, HF_NOTE_MAX);
    while (len > 0 && ((unsigned char)note[len] & 0xc0) == 0x80)
        len--; /* never cut inside a character */
    char *copy = hf__copy_text(note, len);
    if (!copy)
        return HF_ENOMEM;
    claim->ticket.note = copy;
    return 0;
}

static void fill_claim(struct claim *claim, const struct plan *plan,
                       const hf_want *want)
{
    struct hf_ticket *ticket = &claim->ticket;
    bool mutex = want->kind == HF_MUTEX || want->kind == HF_REENTRANT;
    ticket->kind = want->kind;
    ticket->permits = want->permits;
    ticket->limit = want->limit;
    ticket->reserve = mutex ? plan->reserve : 1;
    ticket->flags = plan->options->timeout_ms == 0 ? HF_TICKET_TRY : 0;
    if (plan->options->flags & HF_DETACHED)
        ticket->flags |= HF_TICKET_DETACHED;
    claim->ttl_ns = plan->ttl_ns;
    claim->max_hold_ns = plan->max_hold_ns;
    claim->fixed = (plan->options->flags & HF_FIXED) != 0;
    claim->renew = plan->ttl_ns && !claim->fixed && plan->ttl_ns != plan->max_hold_ns;
    claim->combine = mutex && plan->combine;
    claim->reentrant = want->kind == HF_REENTRANT;
    claim->owner = plan->owner;
    if (!claim->combine && !claim->reentrant)
        hf__claim_unname(claim); /* it was idle, and is of no use to other callers */
}

static struct claim *named_claim(hf_client *client, const char *name, int32_t kind,
                                 hf_error *why)
{
    struct claim *claim = hf__claim_take_idle(client, name, kind);
    size_t len;
    if (claim)
        return claim; /* its name has been checked before */
    if (hf__name_check(name, &len, why) != 0)
        return NULL;
    claim = hf__claim_new(client, name, len, hf__text_hash(name, len));
    if (!claim)
        hf__fail_code(why, HF_ENOMEM);
    return claim;
}

static struct claim *striped_claim(hf_client *client, const hf_want *want,
                                   hf_error *why)
{
    char name[HF_NAME_MAX + 1];
    uint32_t hash = hf__text_hash(want->stripe_key, strlen(want->stripe_key));
    snprintf(name, sizeof(name), "%s#%u", want->name, hash % want->stripes);
    return named_claim(client, name, want->kind, why);
}

/* NULL: refused, or out of memory; *why has the code. */
static struct claim *plan_claim(const struct plan *plan, const hf_want *want,
                                hf_error *why)
{
    hf_client *client = plan->client;
    if (hf__want_check(client, want, why) != 0)
        return NULL;
    struct claim *claim = want->stripes
                              ? striped_claim(client, want, why)
                              : named_claim(client, want->name, want->kind, why);
    if (!claim)
        return NULL;
    fill_claim(claim, plan, want);
    if (set_note(claim, plan->options->note) == 0)
        return claim;
    hf__claim_free(claim);
    hf__fail_code(why, HF_ENOMEM);
    return NULL;
}

/* ---- all wants of an acquire ----------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct claim *const *left = a, *const *right = b;
    return strcmp((*left)->ticket.name, (*right)->ticket.name);
}

/* Every client asks for several names in the same order: no two can wait for each
 * other. */
static int sort_claims(struct hf_op *op, hf_error *why)
{
    qsort(op->claims, op->count, sizeof(op->claims[0]), by_name);
    for (uint32_t i = 1; i < op->count; i++)
        if (strcmp(op->claims[i - 1]->ticket.name, op->claims[i]->ticket.name) == 0)
            return hf__fail(why, HF_EINVAL, "two of the wants are for the same name");
    return 0;
}

static int make_claims(struct hf_op *op, const struct plan *plan, const hf_want *wants,
                       size_t count, hf_error *why)
{
    op->claims = count > 1 ? hf__alloc(count * sizeof(struct claim *)) : &op->one;
    if (!op->claims)
        return hf__fail_code(why, HF_ENOMEM);
    for (; op->count < count; op->count++) {
        struct claim *claim = plan_claim(plan, &wants[op->count], why);
        if (!claim)
            return why->code;
        claim->want_index = (uint8_t)op->count;
        op->claims[op->count] = claim;
    }
    return count > 1 ? sort_claims(op, why) : 0;
}

/* Where the store's own clock does not end a lease, the client has to, in time. */
static bool needs_thread(const struct plan *plan, const struct claim *claim)
{
    return claim->renew || (claim->ttl_ns && !(plan->client->caps & HF_CAP_CRASH));
}

static int make_hold(struct hf_op *op, const struct plan *plan, hf_error *why)
{
    int rc = 0;
    if (needs_thread(plan, op->claims[0]))
        rc = hf__need_thread(plan->client, why);
    if (rc != 0)
        return rc;
    op->hold = hf__hold_new(plan->client, op->count);
    if (!op->hold)
        return hf__fail_code(why, HF_ENOMEM);
    op->hold->detached = (plan->options->flags & HF_DETACHED) != 0;
    for (uint32_t i = 0; i < op->count; i++) {
        op->order[i] = op->claims[i]->want_index;
        op->reentrant |= (uint64_t)op->claims[i]->reentrant << i;
    }
    return 0;
}

void hf__plan_free(struct hf_op *op)
{
    while (op->count > 0)
        hf__claim_free(op->claims[--op->count]);
    hf__op_free_claims(op);
}

int hf__plan(struct hf_op *op, const hf_want *wants, size_t count,
             const hf_acquire_options *given)
{
    hf_acquire_options options;
    struct plan plan;
    hf_error *why = &op->why;
    int rc = hf__wants_check(wants, count, why);
    if (rc == 0)
        rc = hf__options_check(op->client, given, &options, why);
    if (rc != 0)
        return rc;
    plan_init(&plan, op->client, &options, wants, count);
    op->owner = plan.owner;
    op->ttl_ns = plan.ttl_ns;
    op->timeout_ms = options.timeout_ms;
    rc = make_claims(op, &plan, wants, count, why);
    if (rc == 0)
        rc = make_hold(op, &plan, why);
    if (rc != 0)
        hf__plan_free(op);
    return rc;
}
