/* SPDX-License-Identifier: MIT */
/*
 * From wants to an acquire under way.
 *
 * The common case has its own short way: one want, granted by the store inside the
 * call, needs no op at all (ask_at_once). Memory for the hold is set aside before the
 * store is call, so that a grant never meets an empty heap. How it goes on is in
 * acquire.c.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"
#include "../base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plan {
    hf_client *client;
    const hf_acquire_options *options;
    struct owner owner;
    int64_t ttl_ns, max_hold_ns;
    uint32_t reserve;
    bool combine; /* a single want that others of this client may wait on */
};

/* ---- claims of a plan ---------------------------------------------------------- */

/* The caller's choice, or the calling thread. */
static struct owner owner_of(const hf_acquire_options *options)
{
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t mine __attribute__((tls_model("initial-exec")));
    if (options && options->owner)
        return (struct owner){ options->owner, false };
    if (!mine)
        mine = atomic_fetch_add(&threads, 1) + 1;
    return (struct owner){ mine, true };
}

/* A permit that expires has a lease, call for or not. */
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

static bool is_mutex(int32_t kind)
{
    return kind == HF_MUTEX || kind == HF_REENTRANT;
}

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

/* Where a lease does not end by the store's own clock, somebody here has to end it. */
static bool needs_timers(const struct plan *plan, const struct claim *claim)
{
    return claim->renew || (claim->ttl_ns && !(plan->client->caps & HF_CAP_CRASH));
}

static void fill_claim(struct claim *claim, const struct plan *plan,
                       const hf_want *want)
{
    struct hf_ticket *ticket = &claim->ticket;
    bool mutex = is_mutex(want->kind);
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
}

static uint32_t stripe_of(const hf_want *want)
{
    return hf__text_hash(want->stripe_key, strlen(want->stripe_key)) % want->stripes;
}

/* NULL: out of memory. */
static struct claim *plan_claim(const struct plan *plan, const hf_want *want)
{
    char striped[HF_NAME_MAX + 1];
    const char *name = want->name;
    size_t len = strlen(name);
    if (want->stripes) {
        len =
            (size_t)snprintf(striped, sizeof(striped), "%s#%u", name, stripe_of(want));
        name = striped;
    }
    struct claim *claim =
        hf__claim_make(plan->client, name, len, hf__text_hash(name, len), want->kind);
    if (!claim)
        return NULL;
    fill_claim(claim, plan, want);
    if (set_note(claim, plan->options->note) != 0) {
        hf__claim_free(claim);
        return NULL;
    }
    return claim;
}

/* ---- starting ------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    const struct claim *const *left = a, *const *right = b;
    return strcmp((*left)->ticket.name, (*right)->ticket.name);
}

static int check_duplicates(const struct hf_op *op, hf_error *why)
{
    for (uint32_t i = 1; i < op->count; i++)
        if (strcmp(op->claims[i - 1]->ticket.name, op->claims[i]->ticket.name) == 0)
            return hf__fail(why, HF_EINVAL, "two of the wants are for the same name");
    return 0;
}

static void free_claims(struct hf_op *op, size_t made)
{
    for (size_t i = 0; i < made; i++)
        hf__claim_free(op->claims[i]);
    if (op->claims != &op->one)
        hf__free(op->claims);
    op->claims = NULL;
    op->count = 0;
}

/* Everything an acquire needs, before the store hears of it. */
static int op_prepare(struct hf_op *op, const struct plan *plan, const hf_want *wants,
                      size_t count, hf_error *why)
{
    size_t made = 0;
    int rc = HF_ENOMEM;
    op->claims = &op->one;
    op->owner = plan->owner;
    op->ttl_ns = plan->ttl_ns;
    op->max_hold_ns = plan->max_hold_ns;
    op->flags = plan->options->flags;
    op->once = plan->options->timeout_ms == 0;
    if (count > 1)
        op->claims = hf__alloc(count * sizeof(struct claim *));
    if (!op->claims)
        return hf__fail_code(why, HF_ENOMEM);
    for (; made < count; made++) {
        op->claims[made] = plan_claim(plan, &wants[made]);
        if (!op->claims[made])
            goto failed;
        op->claims[made]->want_index = (uint8_t)made;
    }
    op->count = (uint32_t)count;
    qsort(op->claims, count, sizeof(op->claims[0]), by_name);
    for (size_t i = 0; i < count; i++) {
        op->order[i] = op->claims[i]->want_index;
        op->reentrant |= (uint64_t)op->claims[i]->reentrant << i;
    }
    rc = check_duplicates(op, why);
    if (rc == 0 && needs_timers(plan, op->claims[0]))
        rc = hf__need_timers(plan->client, why);
    if (rc != 0)
        goto failed;
    rc = HF_ENOMEM;
    op->hold = hf__hold_new(plan->client, (uint32_t)count);
    if (op->hold) {
        op->hold->detached = (plan->options->flags & HF_DETACHED) != 0;
        return 0;
    }
failed:
    free_claims(op, made);
    if (rc == HF_ENOMEM)
        hf__fail_code(why, HF_ENOMEM);
    return rc;
}

/* Deadline of the op: an attempt that is made only once still gets its time. */
static int64_t op_deadline(const struct hf_op *op, int64_t timeout_ms, int64_t now)
{
    if (timeout_ms == 0)
        return now + op->client->request_ns;
    return hf__deadline(now, timeout_ms);
}

/* Not granted on the spot: set the deadline, if there is something to wait for. */
static int op_park(struct hf_op *op, int64_t timeout_ms)
{
    hf_client *client = op->client;
    hf__run_ready(client);
    if (op->finished)
        return 0;
    int rc = hf__loop_ensure(&client->loop, &op->why);
    if (rc != 0) {
        hf__acquire_undo(op, rc);
        hf__run_ready(client);
    } else if (!op->undoing) {
        if (!op->deadline)
            op->deadline = op_deadline(op, timeout_ms, hf__now());
        hf__op_timer(op, op->deadline);
    }
    return 0;
}

static int op_start(struct hf_op *op, int64_t timeout_ms, hf_error *why)
{
    hf_client *client = op->client;
    int rc = hf__loop_reserve(&client->loop);
    if (rc != 0)
        return hf__fail_code(why, rc);
    op->reserved = true;
    op->deadline = op_deadline(op, timeout_ms, hf__now());
    hf__list_push_back(&client->ops, &op->all);
    hf__acquire_advance(op);
    return op_park(op, timeout_ms);
}
static void release_unused(struct hf_op *op)
{
    if (op->claims != &op->one)
        hf__free(op->claims);
    op->claims = NULL;
}

/* Waits for an op on the caller's stack and hands its result out. */
static int op_result(struct hf_op *op, hf_hold **ret_hold, hf_error *why)
{
    hf__op_await(op, HF_NEVER);
    int rc = op->rc;
    release_unused(op);
    if (rc == 0)
        *ret_hold = hf__hold_handle(op->hold);
    else if (why)
        *why = op->why;
    return rc;
}

static int acquire_waiting(const struct plan *plan, const hf_want *wants, size_t count,
                           hf_hold **ret_hold, hf_error *why)
{
    struct hf_op op;
    hf__op_init(&op, plan->client, OP_ACQUIRE);
    int rc = op_prepare(&op, plan, wants, count, why);
    if (rc != 0)
        return rc;
    rc = op_start(&op, plan->options->timeout_ms, why);
    if (rc != 0) {
        free_claims(&op, op.count);
        hf__hold_free(op.hold);
        return rc;
    }
    return op_result(&op, ret_hold, why);
}

/* The short way met an obstacle: go on with an op that fronts the claim. */
HF_SLOW_WAY static int wait_for_claim(const struct plan *plan, struct claim *claim,
                                      struct hf_hold *hold, hf_hold **ret_hold,
                                      hf_error *why)
{
    struct hf_op op;
    hf__op_init(&op, plan->client, OP_ACQUIRE);
    op.claims = &op.one;
    op.one = claim;
    op.count = 1;
    op.order[0] = 0;
    op.reentrant = claim->reentrant;
    op.hold = hold;
    op.owner = plan->owner;
    op.ttl_ns = plan->ttl_ns;
    op.once = plan->options->timeout_ms == 0;
    op.reserved = hf__loop_reserve(&plan->client->loop) == 0;
    hf__list_push_back(&plan->client->ops, &op.all);
    hf__list_push_front(&claim->ops, &op.link);
    if (!op.reserved)
        hf__acquire_undo(&op, HF_ENOMEM);
    else
        hf__acquire_advance(&op);
    op_park(&op, plan->options->timeout_ms);
    return op_result(&op, ret_hold, why);
}

static int hand_out(struct claim *claim, struct hf_hold *hold, hf_hold **ret_hold)
{
    claim->holders = 1;
    hf__hold_take(hold, 0, claim);
    hf__hold_refresh(hold);
    *ret_hold = hf__hold_handle(hold);
    return 0;
}

/* Most of the time the store grants it on the spot, and then no op is needed. */
static int ask_at_once(const struct plan *plan, struct claim *claim,
                       struct hf_hold *hold, hf_hold **ret_hold, hf_error *why)
{
    hf__claim_attempt(claim);
    if (claim->state != CLAIM_HELD)
        return wait_for_claim(plan, claim, hold, ret_hold, why);
    return hand_out(claim, hold, ret_hold);
}

/* One plain want, and nobody of this client is in the way. */
static int acquire_one(const struct plan *plan, const hf_want *want, hf_hold **ret_hold,
                       hf_error *why)
{
    hf_client *client = plan->client;
    struct claim *claim = plan_claim(plan, want);
    struct hf_hold *hold = claim ? hf__hold_new(client, 1) : NULL;
    if (!hold) {
        if (claim)
            hf__claim_free(claim);
        return hf__fail_code(why, HF_ENOMEM);
    }
    if (claim->combine || claim->reentrant)
        hf__claim_name(claim);
    return ask_at_once(plan, claim, hold, ret_hold, why);
}

static bool nobody_in_the_way(const struct plan *plan, const hf_want *want)
{
    if (!plan->client->names_count)
        return true;
    if (want->stripes)
        return false;
    struct hf_ticket probe = { .name = want->name, .kind = want->kind };
    probe.name_len = (uint32_t)strlen(want->name);
    probe.name_hash = hf__text_hash(want->name, probe.name_len);
    return hf__claim_find(plan->client, &probe, plan->owner) == NULL;
}

int hf__acquire(hf_client *client, const hf_want *wants, size_t count,
                const hf_acquire_options *options, hf_hold **ret_hold, hf_error *why)
{
    struct plan plan;
    plan_init(&plan, client, options, wants, count);
    if (count == 1 && !plan.ttl_ns && nobody_in_the_way(&plan, &wants[0]))
        return acquire_one(&plan, &wants[0], ret_hold, why);
    return acquire_waiting(&plan, wants, count, ret_hold, why);
}

static bool is_plain(const hf_client *client, const hf_acquire_options *options)
{
    return !client->ttl_ns &&
           (!options ||
            (options->size == sizeof(*options) && options->timeout_ms >= HF_FOREVER &&
             options->timeout_ms <= HF_TTL_MAX_MS && !options->ttl_ms &&
             !options->max_hold_ms && !options->note && !options->flags));
}

static bool is_plain_want(const hf_want *want)
{
    bool exclusive =
        is_mutex(want->kind) || want->kind == HF_FAIR || want->kind == HF_WRITE;
    return exclusive && want->name && !want->stripes && !want->stripe_key &&
           want->permits == 1 && want->limit == 1;
}

/* A hand-off that is on its way to a sleeper, and we are awake. */
HF_SLOW_WAY static int take_offered(hf_client *client, const hf_want *want, size_t len,
                                    uint32_t hash, const hf_acquire_options *options,
                                    hf_hold **ret_hold)
{
    if (!client->names_count || !is_mutex(want->kind))
        return 1;
    struct claim *claim = hf__claim_offered(client, want->name, len, hash);
    if (!claim)
        return 1;
    struct hf_hold *hold = hf__hold_new(client, 1);
    if (!hold)
        return 1;
    hf__claim_take_offer(claim);
    claim->reentrant = want->kind == HF_REENTRANT;
    claim->owner = owner_of(options);
    return hand_out(claim, hold, ret_hold);
}

HF_SLOW_WAY static int wait_for_hot(struct claim *claim, const hf_want *want,
                                    const hf_acquire_options *options,
                                    struct hf_hold *hold, hf_hold **ret_hold,
                                    hf_error *why)
{
    hf_acquire_options none = HF_ACQUIRE_OPTIONS_INIT;
    struct plan plan;
    plan_init(&plan, claim->client, options ? options : &none, want, 1);
    return wait_for_claim(&plan, claim, hold, ret_hold, why);
}

/* As ask_at_once, for a claim that needs no plan. */
static int ask_hot(struct claim *claim, const hf_want *want,
                   const hf_acquire_options *options, hf_hold **ret_hold, hf_error *why)
{
    hf_client *client = claim->client;
    bool mutex = is_mutex(want->kind);
    claim->combine = mutex && client->handoff != 0;
    claim->reentrant = want->kind == HF_REENTRANT;
    claim->ticket.reserve = claim->combine ? client->handoff + 1 : 1;
    claim->ticket.flags = options && options->timeout_ms ? 0 : HF_TICKET_TRY;
    if (claim->reentrant)
        claim->owner = owner_of(options);
    struct hf_hold *hold = hf__hold_new(client, 1);
    hf__claim_attempt(claim);
    if (claim->state == CLAIM_HELD)
        return hand_out(claim, hold, ret_hold);
    return wait_for_hot(claim, want, options, hold, ret_hold, why);
}

/* Another name than the last time, but one that is known. */
__attribute__((noinline)) static int acquire_known(hf_client *client,
                                                   const hf_want *wants,
                                                   const hf_acquire_options *given,
                                                   hf_hold **ret_hold, hf_error *why)
{
    size_t len = strnlen(wants->name, sizeof(((struct claim *)0)->name));
    if (len == sizeof(((struct claim *)0)->name))
        return 1; /* longer than what claims keep inside themselves */
    uint32_t hash = hf__text_hash(wants->name, len);
    struct claim *claim = hf__claim_reuse(client, wants->name, len, hash, wants->kind);
    if (!claim)
        return take_offered(client, wants, len, hash, given, ret_hold);
    hf_acquire_options none = HF_ACQUIRE_OPTIONS_INIT;
    struct plan plan;
    plan_init(&plan, client, given ? given : &none, wants, 1);
    fill_claim(claim, &plan, wants);
    return ask_at_once(&plan, claim, hf__hold_new(client, 1), ret_hold, why);
}

/* What was asked for before, by this client, under the same name: an idle claim is
 * there, and only the store has to be asked. 1: take the long way, checks and all. */
int hf__acquire_fast(hf_client *client, const hf_want *wants, size_t count,
                     const hf_acquire_options *given, hf_hold **ret_hold, hf_error *why)
{
    if (count != 1 || !wants || !client->free_holds || !is_plain_want(wants) ||
        !is_plain(client, given))
        return 1;
    struct claim *hot = hf__claim_hot(client, wants->name, wants->kind);
    if (hot)
        return ask_hot(hot, wants, given, ret_hold, why);
    return acquire_known(client, wants, given, ret_hold, why);
}

static int start_async(struct hf_op *op, int64_t timeout_ms, bool background,
                       hf_op **ret_op, hf_error *why)
{
    int rc = background ? hf__need_thread(op->client, why) : 0;
    op->heap = true;
    op->abandoned = !ret_op;
    if (rc == 0)
        rc = op_start(op, timeout_ms, why);
    if (rc != 0) {
        free_claims(op, op->count);
        if (op->hold)
            hf__hold_free(op->hold);
        hf__free(op);
        return rc;
    }
    if (ret_op)
        *ret_op = op;
    return 0;
}

int hf__acquire_async(hf_client *client, const hf_want *wants, size_t count,
                      const hf_acquire_options *options, hf_acquire_cb *callback,
                      void *user, hf_op **ret_op, hf_error *why)
{
    struct plan plan;
    plan_init(&plan, client, options, wants, count);
    struct hf_op *op = hf__op_new(client, OP_ACQUIRE);
    if (!op)
        return hf__fail_code(why, HF_ENOMEM);
    op->callback.acquired = callback;
    op->user = user;
    int rc = op_prepare(op, &plan, wants, count, why);
    if (rc != 0) {
        hf__free(op);
        return rc;
    }
    return start_async(op, options->timeout_ms, true, ret_op, why);
}

int hf__latch_wait(hf_client *client, const char *name, int64_t timeout_ms,
                   bool background, hf_done_cb *callback, void *user, hf_op **ret_op,
                   hf_error *why)
{
    struct hf_op *op = hf__op_new(client, OP_LATCH);
    if (!op)
        return hf__fail_code(why, HF_ENOMEM);
    size_t len = strlen(name);
    op->one = hf__claim_new(client, name, len, hf__text_hash(name, len));
    if (!op->one) {
        hf__free(op);
        return hf__fail_code(why, HF_ENOMEM);
    }
    op->one->ticket.kind = HF_LATCH;
    op->one->ticket.permits = op->one->ticket.limit = op->one->ticket.reserve = 1;
    op->one->ticket.flags = timeout_ms == 0 ? HF_TICKET_TRY : 0;
    op->claims = &op->one;
    op->count = 1;
    op->once = timeout_ms == 0;
    op->callback.done = callback;
    op->user = user;
    return start_async(op, timeout_ms, background, ret_op, why);
}
