/* SPDX-License-Identifier: MIT */
/*
 * Possession: the object behind an hf_hold.
 *
 * Under the client's lock, but for hf__hold_state: it reads three atomics and the
 * clock, so it answers whatever other threads are doing. A hold's memory is
 * recycled, never freed (handle.h); its parts link it to the claims it has. Every
 * change of a claim's lease goes through hf__hold_refresh of the holds that have it.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/fork.h"
#include "../base/mem.h"

enum { FREE_HOLDS_MAX = 64 };

/* ---- making ---------------------------------------------------------------------- */

static struct hf_hold *hold_alloc(hf_client *client)
{
    struct handle *handle = client->free_holds;
    if (!handle)
        return hf__handle_new(HANDLE_HOLD, sizeof(struct hf_hold),
                              sizeof(struct hf_hold)); /* stale handles read it */
    client->free_holds = handle->next;
    client->free_holds_count--;
    hf__handle_open(handle);
    return (struct hf_hold *)(void *)handle;
}

struct hf_hold *hf__hold_new(hf_client *client, uint32_t count)
{
    struct hf_hold *hold = hold_alloc(client);
    if (!hold)
        return NULL;
    atomic_store_explicit(&hold->client, client, memory_order_relaxed);
    hold->client_tag = client->handle.generation;
    atomic_store_explicit(&hold->count, count, memory_order_relaxed);
    hold->parts = &hold->one;
    hold->watch = NULL;
    hold->detached = hold->revoked = hold->handed_out = false;
    hold->one.claim = NULL;
    atomic_store_explicit(&hold->lost, false, memory_order_relaxed);
    atomic_store_explicit(&hold->valid_until, HF_NEVER, memory_order_relaxed);
    if (count > 1)
        hold->parts = hf__alloc(count * sizeof(*hold->parts));
    if (hold->parts)
        return hold;
    hold->parts = &hold->one;
    atomic_store_explicit(&hold->count, 0, memory_order_relaxed);
    hf__hold_free(hold);
    return NULL;
}

void hf__hold_free(struct hf_hold *hold)
{
    hf_client *client = hold->client;
    if (hold->watch) {
        hf__list_remove(&hold->watch->link);
        hf__free(hold->watch);
        hold->watch = NULL;
    }
    if (hold->parts != &hold->one)
        hf__free(hold->parts);
    hold->parts = &hold->one;
    hf__handle_close(&hold->handle);
    atomic_store_explicit(&hold->count, 0, memory_order_relaxed);
    if (client->free_holds_count >= FREE_HOLDS_MAX ||
        hf__handle_used_up(&hold->handle)) {
        hf__handle_recycle(hold);
        return;
    }
    hold->handle.next = client->free_holds;
    client->free_holds = &hold->handle;
    client->free_holds_count++;
}

/* A hold whose client is closed: only its handle is released, once. The client's
 * mutex outlives the client; in a forked child it may be locked for ever, and is not
 * needed. */
void hf__hold_discard(struct hf_hold *hold, uint32_t tag)
{
    hf_client *client = hold->client;
    bool alone = hf__forked(client->fork_mark);
    if (!alone)
        pthread_mutex_lock(&client->lock);
    bool live = hf__handle_live(&hold->handle, tag);
    if (live) {
        hf__handle_close(&hold->handle);
        hf__free(hold->watch);
        if (hold->parts != &hold->one)
            hf__free(hold->parts);
    }
    if (!alone)
        pthread_mutex_unlock(&client->lock);
    if (live)
        hf__handle_recycle(hold);
}

void hf__hold_take(struct hf_hold *hold, uint32_t index, struct claim *claim)
{
    struct hold_part *part = &hold->parts[index];
    part->claim = claim;
    part->hold = hold;
    atomic_store_explicit(&part->token, claim->token, memory_order_relaxed);
    hf__list_push_back(&claim->parts, &part->link);
}

/* When a renewal that should have come by then is overdue. */
static int64_t doubt_at(const struct claim *claim)
{
    if (!claim->renew || claim->valid_until == HF_NEVER)
        return HF_NEVER;
    return claim->lease_since + claim->piece_ns * 2 / 3;
}

void hf__hold_refresh(struct hf_hold *hold)
{
    int64_t valid = HF_NEVER, doubt = HF_NEVER;
    bool plain =
        hold->count == 1 && hold->one.claim && hold->one.claim->valid_until == HF_NEVER;
    for (uint32_t i = 0; !plain && i < hold->count; i++) {
        const struct claim *claim = hold->parts[i].claim;
        if (!claim)
            continue;
        if (claim->valid_until < valid)
            valid = claim->valid_until;
        if (claim->end_at < valid)
            valid = claim->end_at;
        if (doubt_at(claim) < doubt)
            doubt = doubt_at(claim);
    }
    int64_t before = atomic_load(&hold->valid_until);
    while (before != HF_LAPSED &&
           !atomic_compare_exchange_weak(&hold->valid_until, &before, valid))
        ;
    atomic_store_explicit(&hold->doubt_at, doubt, memory_order_release);
}

/* ---- handles --------------------------------------------------------------------- */

hf_hold *hf__hold_handle(struct hf_hold *hold)
{
    hold->handed_out = true;
    return hf__handle_wrap(&hold->handle);
}

struct hf_hold *hf__hold_peek(const hf_hold *handle)
{
    struct hf_hold *hold = hf__handle_object(handle, HANDLE_HOLD);
    if (!hold || !hf__handle_live(&hold->handle, hf__handle_tag(handle)))
        return NULL;
    return hold;
}

struct hf_hold *hf__hold_lock(const hf_hold *handle, int *ret_rc, hf_error *why)
{
    struct hf_hold *hold = hf__hold_peek(handle);
    if (!hold) {
        *ret_rc = hf__fail_code(why, handle ? HF_ERELEASED : HF_EINVAL);
        return NULL;
    }
    hf_client *client = hold->client;
    if (hf__forked(client->fork_mark)) {
        *ret_rc = hf__fail_code(why, HF_EFORKED);
        return NULL;
    }
    pthread_mutex_lock(&client->lock);
    if (!hf__handle_live(&hold->handle, hf__handle_tag(handle)))
        *ret_rc = hf__fail_code(why, HF_ERELEASED);
    else if (hold->client_tag != client->handle.generation || client->closing)
        *ret_rc = hf__fail_code(why, HF_ECLOSED);
    else
        return hold;
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

/* ---- what it says ---------------------------------------------------------------- */

size_t hf__hold_count(const hf_hold *handle)
{
    const struct hf_hold *hold = hf__hold_peek(handle);
    size_t count = hold ? hold->count : 0;
    return hf__hold_peek(handle) ? count
                                 : 0; /* its memory may be of another hold by now */
}

/* The parts of several wants are freed with the hold, under the lock. */
static uint64_t token_of_many(const struct hf_hold *hold, uint32_t tag, size_t index)
{
    hf_client *client = hold->client;
    bool alone = hf__forked(client->fork_mark);
    if (!alone)
        pthread_mutex_lock(&client->lock);
    bool known = hf__handle_live(&hold->handle, tag) && index < hold->count;
    uint64_t token = known ? hold->parts[index].token : 0;
    if (!alone)
        pthread_mutex_unlock(&client->lock);
    return token;
}

uint64_t hf__hold_token(const hf_hold *handle, size_t index)
{
    const struct hf_hold *hold = hf__hold_peek(handle);
    if (!hold)
        return 0;
    if (hold->count != 1)
        return token_of_many(hold, hf__handle_tag(handle), index);
    uint64_t token = atomic_load_explicit(&hold->one.token, memory_order_acquire);
    return index == 0 && hf__hold_peek(handle) ? token : 0;
}

/* The lease is over at `now`, and stays so from this answer on: a renewal that arrives
 * at the same moment finds the mark. False: the renewal came first. */
static bool lapse(struct hf_hold *hold, int64_t *valid, int64_t now)
{
    while (now >= *valid)
        if (*valid == HF_LAPSED ||
            atomic_compare_exchange_weak(&hold->valid_until, valid, HF_LAPSED))
            return true;
    return false;
}

enum hf_state hf__hold_state(struct hf_hold *hold, int64_t *ret_left_ms)
{
    *ret_left_ms = 0;
    if (atomic_load(&hold->lost) || hf__forked(hold->client->fork_mark))
        return HF_LOST;
    int64_t valid = atomic_load_explicit(&hold->valid_until, memory_order_acquire);
    *ret_left_ms = HF_FOREVER;
    if (valid == HF_NEVER)
        return HF_HELD;
    int64_t now = hf__now();
    *ret_left_ms = 0;
    if (lapse(hold, &valid, now))
        return HF_LOST;
    *ret_left_ms = valid == HF_NEVER ? HF_FOREVER : (valid - now) / HF_NS_PER_MS;
    int64_t doubt = atomic_load_explicit(&hold->doubt_at, memory_order_acquire);
    return now >= doubt ? HF_DOUBTFUL : HF_HELD;
}

static bool hold_is_lost(struct hf_hold *hold)
{
    int64_t left;
    return hf__hold_state(hold, &left) == HF_LOST;
}

int hf__hold_fail_lost(const struct hf_hold *hold, hf_error *why)
{
    char words[80];
    int64_t now = hf__now();
    for (uint32_t i = 0; i < hold->count; i++) {
        const struct claim *claim = hold->parts[i].claim;
        if (!claim || (claim->state == CLAIM_HELD && now < claim->valid_until &&
                       now < claim->end_at))
            continue;
        if (claim->state == CLAIM_HELD)
            hf__lease_end_words(claim, words, sizeof(words));
        return hf__fail(why, HF_ELOST, "%s",
                        claim->state == CLAIM_HELD ? words
                        : claim->lost_why          ? claim->lost_why
                                                   : "it is not known why");
    }
    return hf__fail_code(why, HF_ELOST);
}

/* ---- watching -------------------------------------------------------------------- */

void hf__hold_notify(struct hf_hold *hold, enum hf_event event)
{
    struct hold_watch *watch = hold->watch;
    if (!watch)
        hold->revoked |= event == HF_EVENT_REVOKED;
    if (!watch || watch->lost_notified)
        return;
    watch->lost_notified = event == HF_EVENT_LOST;
    watch->pending |= 1u << event;
    if (!hf__list_linked(&watch->link))
        hf__list_push_back(&hold->client->alerts, &watch->link);
    hf__signal_calls(hold->client);
}

static void show_interest(struct hf_hold *hold)
{
    for (uint32_t i = 0; i < hold->count; i++)
        if (hold->parts[i].claim)
            hf__claim_interest(hold->parts[i].claim);
}

int hf__hold_watch(struct hf_hold *hold, hf_watch_cb *callback, void *user,
                   hf_error *why)
{
    struct hold_watch *watch = hold->watch;
    if (!callback) {
        if (watch)
            hf__list_remove(&watch->link);
        hf__free(watch);
        hold->watch = NULL;
        return 0;
    }
    int rc = hf__need_thread(hold->client, why);
    if (rc != 0)
        return rc;
    if (!watch)
        watch = hf__alloc(sizeof(*watch));
    if (!watch)
        return hf__fail_code(why, HF_ENOMEM);
    hold->watch = watch;
    watch->hold = hold;
    watch->callback = callback;
    watch->user = user;
    watch->lost_notified = false;
    show_interest(hold);
    if (hold->revoked)
        hf__hold_notify(hold, HF_EVENT_REVOKED);
    hold->revoked = false;
    if (hold_is_lost(hold))
        hf__hold_notify(hold, HF_EVENT_LOST);
    return 0;
}

/* ---- letting go ------------------------------------------------------------------ */

/* Takes the claims from the hold; those without another holder are released. */
static void release_parts(struct hf_hold *hold, struct hf_op *withdraw_op)
{
    for (uint32_t i = hold->count; i-- > 0;) {
        struct claim *claim = hold->parts[i].claim;
        if (!claim)
            continue;
        hf__list_remove(&hold->parts[i].link);
        hold->parts[i].claim = NULL;
        if (--claim->holders == 0)
            hf__claim_release(claim, withdraw_op);
    }
}

void hf__hold_drop(struct hf_hold *hold)
{
    release_parts(hold, NULL);
    hf__hold_free(hold);
}

/* Ends the op at once if the store answers inside the call. */
static void start_release(struct hf_op *op, struct hf_hold *hold)
{
    op->pending = 1; /* until all parts have been started */
    if (hold_is_lost(hold))
        op->rc = hf__hold_fail_lost(hold, &op->why);
    release_parts(hold, op);
    hf__hold_free(hold);
    if (--op->pending == 0) {
        hf__op_finish(op, op->rc);
        return;
    }
    hf__list_push_back(&op->client->ops, &op->all);
    if (hf__op_reserve_timer(op) == 0 && hf__loop_ensure(&op->client->loop, NULL) == 0)
        hf__op_timer(op, hf__now() + op->client->request_ns);
    else
        hf__op_give_up(op);
}

int hf__hold_release(struct hf_hold *hold, hf_error *why)
{
    struct hf_op op;
    hf__op_init(&op, hold->client, OP_RELEASE);
    start_release(&op, hold);
    if (!op.finished)
        hf__op_await(&op, HF_NEVER);
    if (op.rc != 0 && why)
        *why = op.why;
    return op.rc;
}

int hf__hold_release_async(struct hf_hold *hold, hf_done_cb *callback, void *user,
                           hf_error *why)
{
    hf_client *client = hold->client;
    struct hf_op *op = hf__op_new(client, OP_RELEASE);
    int rc = hf__need_thread(client, why);
    if (!op || rc != 0) {
        hf__free(op);
        hf__hold_drop(hold);
        return rc != 0 ? rc
                       : hf__fail(why, HF_ENOMEM,
                                  "released, but there is no memory to "
                                  "tell how it went");
    }
    op->heap = op->abandoned = true;
    op->callback.done = callback;
    op->user = user;
    start_release(op, hold);
    return 0;
}

int hf__hold_leave(struct hf_hold *hold, hf_error *why)
{
    if (!hold->detached)
        return hf__fail(why, HF_EINVAL, "only a detached hold can be left behind");
    for (uint32_t i = 0; i < hold->count; i++) {
        struct claim *claim = hold->parts[i].claim;
        if (!claim)
            continue;
        hf__list_remove(&hold->parts[i].link);
        hold->parts[i].claim = NULL;
        claim->left_behind = true; /* also when a later holder releases it */
        if (--claim->holders == 0)
            hf__claim_release(claim, NULL);
    }
    hf__hold_free(hold);
    return 0;
}
