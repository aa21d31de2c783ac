/* SPDX-License-Identifier: MIT */
/*
 * How an acquire moves on, and how it is undone.
 *
 * An acquire asks for its claims one after the other, in the global order of names, and
 * goes on in hf__acquire_advance whenever the one it waits for has news. All in: the
 * hold takes them. One refused, the deadline, a cancel, a close: hf__acquire_undo
 * withdraws what there is, in reverse order, under a deadline of its own. start.c
 * begins them.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"

static bool lease_is_over(const struct claim *claim)
{
    return claim->valid_until != HF_NEVER && claim->valid_until <= hf__now();
}

/* ---- moving on ----------------------------------------------------------------- */

/* The next claim of the op: enter what we hold already, wait with others of this
 * client, or ask the store. */
static void start_claim(struct hf_op *op, struct claim *claim)
{
    struct claim *other =
        claim->named ? NULL : hf__claim_find(op->client, &claim->ticket, op->owner);
    if (other && other->state == CLAIM_HELD && lease_is_over(other)) {
        hf__claim_lost(other, NULL);
        other = NULL;
    }
    bool again = other && claim->ticket.kind == HF_REENTRANT &&
                 hf__claim_may_reenter(other, op->owner);
    bool join = other && claim->combine && other->ttl_ns == claim->ttl_ns;
    if (again || (join && !op->once)) {
        hf__claim_free(claim);
        op->claims[op->at] = other;
        op->counted |= (uint64_t)again << op->at;
        if (again)
            other->holders++;
        else if (!other->offered)
            hf__list_push_back(&other->ops, &op->link);
        if (!again)
            hf__claim_interest(other);
        return;
    }
    if (join && other->state != CLAIM_WITHDRAWING) {
        claim->state = CLAIM_BUSY;
        return;
    }
    if (claim->combine || claim->reentrant)
        hf__claim_name(claim);
    if (!op->once)
        claim->ticket.flags &= ~(uint32_t)HF_TICKET_TRY;
    hf__list_push_front(&claim->ops, &op->link);
    hf__claim_attempt(claim);
}

/* One that came early may have gone again while the others were waited for. */
static bool all_are_ours(const struct hf_op *op)
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

/* What is known of it, if one of several was lost while others were waited for. */
static void acquire_lost_one(struct hf_op *op)
{
    const char *why = NULL;
    for (uint32_t i = 0; i < op->count && !why; i++)
        why = op->claims[i]->lost_why;
    if (!why) {
        acquire_lost(op);
        return;
    }
    hf__fail(&op->why, HF_ELOST, "lost while others were waited for: %s", why);
    hf__acquire_undo(op, HF_ELOST);
}

static void acquire_done(struct hf_op *op)
{
    if (op->count > 1 && !all_are_ours(op)) {
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

/* Extended, or asked for by another waiter, who has given up since. */
static bool is_of_another_length(const struct hf_op *op, const struct claim *claim)
{
    return claim->combine && !claim->holders && op->ttl_ns != claim->ttl_ns;
}

/* While others are waited for, what is held already may be taken away by force. */
static void watch_what_is_held(const struct hf_op *op)
{
    for (uint32_t i = 0; i < op->at; i++)
        hf__claim_interest(op->claims[i]);
}

/* Looks at the claim the op waits for and goes as far as it can. */
void hf__acquire_advance(struct hf_op *op)
{
    bool came = op->offered; /* woken for an offer */
    op->offered = false;
    while (!op->undoing && !op->finished) {
        struct claim *claim = op->claims[op->at];
        switch (claim->state) {
        case CLAIM_NEW:
            if (hf__linked(&op->link))
                hf__list_remove(&op->link);
            start_claim(op, claim);
            break;
        case CLAIM_HELD:
            if (hf__linked(&op->link) && claim->holders) { /* one of ours has it */
                claim->direct_next |= came;
                return;
            }
            if (is_of_another_length(op, claim)) {
                if (!hf__linked(&op->link)) /* those who wait on it ask anew */
                    hf__list_push_back(&claim->ops, &op->link);
                hf__claim_give_up(claim);
                return;
            }
            if (claim->offered)
                hf__claim_take_offer(claim);
            hf__list_remove(&op->link);
            if (op->kind == OP_LATCH) {
                hf__claim_free(claim);
                hf__op_finish(op, 0);
                return;
            }
            if (lease_is_over(claim)) {
                hf__claim_lost(claim, NULL); /* others may wait on it */
                acquire_lost(op);
                return;
            }
            claim->owner = op->owner;
            claim->holders += !(op->counted >> op->at & 1);
            op->counted |= UINT64_C(1) << op->at;
            if (++op->at == op->count) {
                acquire_done(op);
                return;
            }
            hf__renew_schedule(claim); /* it has to last until all are in */
            break;
        case CLAIM_LOST:
            acquire_lost(op);
            return;
        case CLAIM_BUSY:
            if (!op->once) { /* who tried once has left it to us */
                claim->state = CLAIM_NEW;
                break;
            }
            hf__fail_code(&op->why, HF_EBUSY);
            hf__acquire_undo(op, HF_EBUSY);
            return;
        case CLAIM_FAILED:
            if (!op->why.code) /* it failed before there was an op */
                op->why = op->client->answer;
            hf__acquire_undo(op, op->why.code);
            return;
        default:
            watch_what_is_held(op);
            return;
        }
    }
}

/* ---- undoing ------------------------------------------------------------------- */

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
        claim->withdraw_op =
            op; /* the client gives it up, and no other op waits for that */
        op->pending++;
        return;
    }
    if (others || claim->state == CLAIM_WITHDRAWING || claim->state == CLAIM_WITHDRAWN)
        return; /* somebody else gives it up, and is told */
    bool refused = claim->state == CLAIM_FAILED; /* is told at once */
    hf__claim_withdraw(claim, refused ? NULL : op);
    if (claim->state == CLAIM_WITHDRAWN) {
        claim->withdraw_op = NULL;
        op->pending -= !refused;
        hf__claim_withdrawn(claim);
    }
}

/* Until when the caller waits to hear that nothing is left: its own deadline, but not
 * longer than a request may take. The withdrawal goes on by itself after that. */
static int64_t undo_until(const struct hf_op *op)
{
    int64_t soon = hf__confirm_until(op->client);
    int64_t end = hf__now() + op->client->request_ns;
    if (op->deadline < end)
        end = op->deadline;
    return op->rc == HF_ECANCELLED || end < soon ? soon : end;
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
    bool fronted = at && hf__list_first(&at->ops) == &op->link;
    hf__list_remove(&op->link);
    if (at && fronted && at->offered && hf__list_first(&at->ops))
        hf__claim_release(at, NULL); /* the offer goes to the next in line */
    bool refused = at && (at->state == CLAIM_FAILED || at->state == CLAIM_BUSY);
    if (refused && fronted && hf__list_first(&at->ops))
        at->state = CLAIM_NEW; /* the next one who waits on it asks for itself */
    if (at && fronted && hf__list_first(&at->ops) && at->state == CLAIM_NEW)
        hf__claim_mark_ready(at);
    for (uint32_t i = op->count; i-- > 0;)
        undo_claim(op, i);
    if (op->pending == 0)
        hf__op_finish(op, op->rc);
    else
        hf__op_timer(op, undo_until(op));
}
