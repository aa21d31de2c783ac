/* SPDX-License-Identifier: MIT */
/*
 * How an acquire begins, moves on and is undone.
 *
 * An acquire asks for its claims one after the other, in the order of their names, and
 * goes on in hf__acquire_advance whenever the claim that it waits for has news. All
 * granted: the hold takes them. One refused, the deadline, a cancel, a close:
 * hf__acquire_undo withdraws what there is, in reverse order, under a deadline of its
 * own.
 *
 * There is one path. The op of a blocking call is on the caller's stack; if the store
 * grants everything inside the call, the op ends without having been in any list.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"
#include "../base/text.h"

#include <string.h>

static bool lease_is_over(const struct claim *claim)
{
    return claim->valid_until != HF_NEVER && claim->valid_until <= hf__now();
}

/* ---- the next claim -------------------------------------------------------------- */

/* A claim of this client on the same name: its owner enters it again, or the op waits
 * on it. NULL: the op asks the store. */
static struct claim *claim_to_share(const struct hf_op *op, const struct claim *claim)
{
    if (hf__list_first(&claim->ops)) /* shared itself, and in need of a new ticket */
        return NULL;
    bool reentrant = op->reentrant >> op->at & 1;
    struct claim *other = hf__claim_find(claim, op->owner, reentrant);
    if (!other || other->state != CLAIM_HELD || !lease_is_over(other))
        return other;
    hf__claim_lost(other, NULL);
    return NULL;
}

static void share_claim(struct hf_op *op, struct claim *other, bool again)
{
    hf__claim_free(op->claims[op->at]);
    op->claims[op->at] = other;
    if (again) {
        op->counted |= UINT64_C(1) << op->at;
        other->holders++;
        return;
    }
    if (!hf__claim_is_offered(other))
        hf__list_push_back(&other->ops, &op->link);
    hf__claim_interest(other);
}

static void ask_store(struct hf_op *op, struct claim *claim)
{
    if (claim->combine || claim->reentrant)
        hf__claim_name(claim);
    if (op->timeout_ms != 0)
        claim->ticket.flags &= ~(uint32_t)HF_TICKET_TRY;
    hf__list_push_front(&claim->ops, &op->link);
    hf__claim_attempt(claim);
}

static void start_claim(struct hf_op *op, struct claim *claim)
{
    struct claim *other = claim_to_share(op, claim);
    bool reentrant = op->reentrant >> op->at & 1; /* the claim may be of another kind */
    bool again = other && reentrant && hf__claim_may_reenter(other, op->owner);
    bool join = other && claim->combine && hf__claim_fits(other, claim->ttl_ns);
    if (again || (join && (op->timeout_ms != 0 || hf__claim_is_offered(other))))
        share_claim(op, other, again);
    else if (join && other->state != CLAIM_WITHDRAWING)
        claim->state = CLAIM_BUSY;
    else
        ask_store(op, claim);
}

/* ---- moving on ------------------------------------------------------------------- */

/* A claim that was granted first may have been lost while the op waited for others. */
static bool all_are_held(const struct hf_op *op)
{
    for (uint32_t i = 0; i < op->count; i++)
        if (op->claims[i]->state != CLAIM_HELD || lease_is_over(op->claims[i]))
            return false;
    return true;
}

static void acquire_lost(struct hf_op *op)
{
    hf__fail(&op->why, HF_ELOST,
             "granted, but the lease was over before the answer was read");
    hf__acquire_undo(op, HF_ELOST);
}

/* One of several, while the op waited for others. */
static void acquire_lost_one(struct hf_op *op)
{
    const char *why = NULL;
    for (uint32_t i = 0; i < op->count && !why; i++)
        why = op->claims[i]->lost_why;
    if (!why) {
        acquire_lost(op);
        return;
    }
    hf__fail(&op->why, HF_ELOST,
             "one of the locks was lost while the call waited for the others: %s", why);
    hf__acquire_undo(op, HF_ELOST);
}

static void acquire_done(struct hf_op *op)
{
    if (op->count > 1 && !all_are_held(op)) {
        acquire_lost_one(op);
        return;
    }
    for (uint32_t i = 0; i < op->count; i++) {
        struct claim *claim = op->claims[i];
        claim->reentrant = op->reentrant >> i & 1;
        hf__hold_take(op->hold, op->order[i], claim);
        if (!(claim->ticket.flags & HF_TICKET_DETACHED))
            op->hold->detached = false; /* entered again: as it was taken first */
        if (hf__list_first(&claim->ops))
            hf__claim_interest(claim);
    }
    hf__hold_refresh(op->hold);
    for (uint32_t i = 0; i < op->count; i++)
        hf__renew_schedule(op->claims[i]);
    hf__op_finish(op, 0);
}

/* While others are waited for, what is held already may be taken away by force. */
static void watch_what_is_held(const struct hf_op *op)
{
    for (uint32_t i = 0; i < op->at; i++)
        hf__claim_interest(op->claims[i]);
}

/* The claim is held. True: the op has it, and goes on with the next one. */
static bool take_claim(struct hf_op *op, struct claim *claim, bool was_woken)
{
    if (hf__list_linked(&op->link) && claim->holders) { /* another caller has it */
        claim->direct_next |= was_woken;
        return false;
    }
    if (!claim->holders && claim->combine && !hf__claim_fits(claim, op->ttl_ns)) {
        if (!hf__list_linked(&op->link)) /* the ops that wait on it ask anew */
            hf__list_push_back(&claim->ops, &op->link);
        hf__claim_give_up(claim);
        return false;
    }
    hf__list_remove(&op->link);
    if (op->kind == OP_LATCH) {
        hf__claim_free(claim);
        hf__op_finish(op, 0);
        return false;
    }
    if (lease_is_over(claim)) {
        hf__claim_lost(claim, NULL); /* others may wait on it */
        acquire_lost(op);
        return false;
    }
    claim->owner = op->owner;
    claim->holders += !(op->counted >> op->at & 1);
    op->counted |= UINT64_C(1) << op->at;
    if (++op->at == op->count) {
        acquire_done(op);
        return false;
    }
    hf__renew_schedule(claim); /* it has to last until all are granted */
    return true;
}

static void refused(struct hf_op *op, int rc)
{
    if (op->why.code != rc)
        hf__fail_code(&op->why, rc);
    hf__acquire_undo(op, rc);
}

/* Looks at the claim that the op waits for and goes as far as it can. */
void hf__acquire_advance(struct hf_op *op)
{
    bool was_woken = op->woken;
    op->woken = false;
    while (!op->undoing && !op->finished) {
        struct claim *claim = op->claims[op->at];
        switch (claim->state) {
        case CLAIM_NEW:
            hf__list_remove(&op->link);
            start_claim(op, claim);
            break;
        case CLAIM_HELD:
            if (!take_claim(op, claim, was_woken))
                return;
            break;
        case CLAIM_LOST:
            acquire_lost(op);
            return;
        case CLAIM_BUSY:
            if (op->timeout_ms != 0) { /* the op that tried once has left it */
                claim->state = CLAIM_NEW;
                break;
            }
            refused(op, HF_EBUSY);
            return;
        case CLAIM_FAILED:
            refused(op, op->why.code);
            return;
        default:
            watch_what_is_held(op);
            return;
        }
    }
}

/* ---- beginning ------------------------------------------------------------------- */

/* An acquire that tries once still gives the store the time of one request. */
static int64_t op_deadline(const struct hf_op *op)
{
    int64_t now = hf__now();
    if (op->timeout_ms == 0)
        return now + op->client->request_ns;
    return hf__deadline(now, op->timeout_ms);
}

/* From now on hf_close() finds the op, and its timer ends it. */
static void op_park(struct hf_op *op)
{
    hf_client *client = op->client;
    hf__list_push_back(&client->ops, &op->all);
    int rc = hf__op_reserve_timer(op);
    if (rc == 0)
        rc = hf__loop_ensure(&client->loop, &op->why);
    if (rc != 0)
        hf__acquire_undo(op, rc);
    hf__run_ready(client);
    if (op->finished || op->undoing)
        return;
    op->deadline = op_deadline(op);
    hf__op_timer(op, op->deadline);
}

static void op_start(struct hf_op *op)
{
    hf__acquire_advance(op);
    if (!op->finished)
        op_park(op);
}

int hf__acquire(hf_client *client, const hf_want *wants, size_t count,
                const hf_acquire_options *options, hf_hold **ret_hold, hf_error *why)
{
    struct hf_op op;
    hf__op_init(&op, client, OP_ACQUIRE);
    int rc = hf__plan(&op, wants, count, options);
    if (rc == 0) {
        op_start(&op);
        if (!op.finished)
            hf__op_await(&op, HF_NEVER);
        rc = op.rc;
        hf__op_free_claims(&op);
    }
    if (rc == 0)
        *ret_hold = hf__hold_handle(op.hold);
    else if (why)
        *why = op.why;
    return rc;
}

static int start_async(struct hf_op *op, bool background, hf_op **ret_op, hf_error *why)
{
    int rc = background ? hf__need_thread(op->client, why) : 0;
    if (rc != 0) {
        hf__plan_free(op);
        if (op->hold)
            hf__hold_free(op->hold);
        hf__free(op);
        return rc;
    }
    op->heap = true;
    op->abandoned = !ret_op;
    if (ret_op)
        *ret_op = op;
    op_start(op);
    return 0;
}

int hf__acquire_async(hf_client *client, const hf_want *wants, size_t count,
                      const hf_acquire_options *options, hf_acquire_cb *callback,
                      void *user, hf_op **ret_op, hf_error *why)
{
    struct hf_op *op = hf__op_new(client, OP_ACQUIRE);
    if (!op)
        return hf__fail_code(why, HF_ENOMEM);
    op->callback.acquired = callback;
    op->user = user;
    int rc = hf__plan(op, wants, count, options);
    if (rc == 0)
        return start_async(op, true, ret_op, why);
    if (why)
        *why = op->why;
    hf__free(op);
    return rc;
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
    op->timeout_ms = timeout_ms;
    op->callback.done = callback;
    op->user = user;
    return start_async(op, background, ret_op, why);
}

/* ---- undoing --------------------------------------------------------------------- */

static void undo_claim(struct hf_op *op, uint32_t index)
{
    struct claim *claim = op->claims[index];
    bool others = hf__list_first(&claim->ops) != NULL;
    bool counted = op->counted >> index & 1;
    claim->holders -= counted;
    if (claim->holders) /* waited for, or entered by others of this owner */
        return;
    if (others && counted) {
        hf__claim_release(claim, NULL);
        return;
    }
    if (claim->state == CLAIM_WITHDRAWING && !others && !claim->withdraw_op) {
        claim->withdraw_op = op; /* the client gives it up: wait for that, too */
        op->pending++;
        return;
    }
    if (others || claim->state == CLAIM_WITHDRAWING || claim->state == CLAIM_WITHDRAWN)
        return;                                 /* another op withdraws it */
    bool failed = claim->state == CLAIM_FAILED; /* the caller hears of that at once */
    hf__claim_withdraw(claim, failed ? NULL : op);
    if (claim->state == CLAIM_WITHDRAWN) {
        claim->withdraw_op = NULL;
        op->pending -= !failed;
        hf__claim_withdrawn(claim);
    }
}

/* Until when the caller waits to hear that nothing is left: its own deadline, but not
 * longer than a request may take. The withdrawal goes on by itself after that. */
static int64_t undo_until(const struct hf_op *op)
{
    int64_t soon = hf__confirm_until(op->client);
    int64_t end = hf__now() + op->client->request_ns;
    int64_t deadline = op->deadline ? op->deadline : op_deadline(op);
    if (deadline < end)
        end = deadline;
    return op->rc == HF_ECANCELLED || end < soon ? soon : end;
}

/* The op was the first that waited for this claim, and ends: the next op takes over. */
static void leave_to_next(struct claim *claim)
{
    if (claim->state == CLAIM_FAILED || claim->state == CLAIM_BUSY)
        claim->state = CLAIM_NEW; /* the next op asks for itself */
    if (claim->state == CLAIM_NEW || hf__claim_is_offered(claim))
        hf__claim_mark_ready(claim);
}

void hf__acquire_undo(struct hf_op *op, int rc)
{
    if (op->undoing || op->finished)
        return;
    op->undoing = true;
    op->rc = rc;
    if (!op->why.code || op->why.code != rc)
        hf__fail_code(&op->why, rc);
    hf__op_timer(op, HF_NEVER);
    struct claim *at = op->at < op->count ? op->claims[op->at] : NULL;
    bool was_first = at && hf__list_first(&at->ops) == &op->link;
    hf__list_remove(&op->link);
    if (was_first && hf__list_first(&at->ops))
        leave_to_next(at);
    for (uint32_t i = op->count; i-- > 0;)
        undo_claim(op, i);
    if (op->pending == 0)
        hf__op_finish(op, op->rc);
    else
        hf__op_timer(op, undo_until(op));
}
