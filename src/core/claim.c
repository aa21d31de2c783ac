/* SPDX-License-Identifier: MIT */
/*
 * The life of a claim: asked for, queued, held, handed off, withdrawn, lost.
 *
 * Under the client's lock. Between hf__claim_attempt and the answer, and between
 * hf__claim_withdraw and its answer, a timer repeats the request with the same id, so
 * that a lost reply is found again. A claim is freed when the store has answered its
 * withdrawal (or never had it), no hold has it and no op waits on it.
 *
 * Hand-off: all acquires of one client for one mutex wait on one claim, with one ticket
 * in the store. hf__claim_release gives the claim to the next of them under the next
 * token, at most client->handoff times in a row and only while the lease is not near
 * its end; then the claim is withdrawn and asked for anew, behind other clients. The
 * next waiter is usually asleep, and waking it takes longer than most critical sections
 * last. So the claim is offered: the waiter is woken, and any thread of the client may
 * take the claim first. If a woken waiter loses that race, the next release goes to it
 * directly.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"

#include <string.h>

/* How often a request is sent within one request timeout, if no answer comes. */
enum { REQUEST_TRIES = 3 };

/* ---- asking ---------------------------------------------------------------------- */

void hf__claim_mark_ready(struct claim *claim)
{
    if (!hf__list_linked(&claim->ready))
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
    claim->lease_since = hf__now();
    int64_t ttl = claim->ttl_ns;
    if (claim->end_at != HF_NEVER && claim->end_at - claim->lease_since < ttl)
        ttl = claim->end_at - claim->lease_since;
    claim->ticket.ttl_ns = ttl > 0 ? ttl : 1;
}

void hf__claim_attempt(struct claim *claim)
{
    hf_client *client = claim->client;
    if (claim->ttl_ns)
        stamp_lease(claim);
    claim->sent_before |= claim->sent;
    claim->sent = true;
    claim->noticed = false;
    claim->sent_at = 0;
    claim->state = CLAIM_ASKED;
    client->store->attempt(client->session, &claim->ticket);
    hf__list_remove(&claim->ready); /* the caller looks at an answer inside the call */
    if (claim->state != CLAIM_ASKED || claim->timer.slot)
        return;
    claim->sent_at = hf__now();
    hf__claim_timer(claim, claim->sent_at + client->request_ns / REQUEST_TRIES);
}

/* The store gives less than was asked, which is the most that it can promise at a time.
 * Core renews it, up to its end if the lease is a fixed one. */
static void take_less(struct claim *claim)
{
    if (!claim->renew && !claim->max_hold_ns) {
        claim->max_hold_ns = claim->ttl_ns;
        claim->fixed_end = true;
    }
    claim->renew = true;
    hf__need_thread(claim->client, NULL); /* if that fails, the hold is lost early */
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
        int64_t since = grant->since_ns ? grant->since_ns : claim->lease_since;
        struct hf_lease lease = hf__lease_in_bounds(claim, since, grant->ttl_ns);
        if (hf__take_piece(claim, lease.ttl_ns, claim->ticket.ttl_ns))
            take_less(claim);
        claim->lease_since = lease.since_ns;
        claim->valid_until = lease.since_ns + lease.ttl_ns - hf__drift(lease.ttl_ns);
        claim->end_at =
            claim->max_hold_ns ? lease.since_ns + claim->max_hold_ns : HF_NEVER;
    }
    claim->state = CLAIM_HELD;
    if (claim->timer.slot)
        hf__claim_timer(claim, HF_NEVER);
    hf__claim_mark_ready(claim);
}

static void send_withdrawal(struct claim *claim)
{
    hf_client *client = claim->client;
    claim->sent_before |= claim->sent;
    claim->sent = true;
    claim->state = CLAIM_WITHDRAWING;
    client->store->withdraw(client->session, &claim->ticket);
    hf__list_remove(&claim->ready);
    if (claim->state == CLAIM_WITHDRAWING && !claim->timer.slot)
        hf__claim_timer(claim, hf__now() + client->request_ns / REQUEST_TRIES);
}

/* The repeat of an unanswered request, or something about a lease (renew.c). */
void hf__claim_timeout(void *arg)
{
    struct claim *claim = arg;
    switch (claim->state) {
    case CLAIM_ASKED:
    case CLAIM_QUEUED:
        hf__claim_attempt(claim);
        if (claim->state != CLAIM_ASKED && claim->state != CLAIM_QUEUED)
            hf__claim_mark_ready(claim);
        break;
    case CLAIM_WITHDRAWING:
        send_withdrawal(claim);
        if (claim->state == CLAIM_WITHDRAWN)
            hf__claim_mark_ready(claim);
        break;
    case CLAIM_HELD:
        hf__renew_timeout(claim);
        break;
    default:
        break;
    }
}

/* A watch is set, or a caller waits for a hand-off: the store tells of a loss at
 * once. */
void hf__claim_interest(struct claim *claim)
{
    if (claim->interested || claim->state != CLAIM_HELD)
        return;
    claim->interested = true;
    claim->client->store->interest(claim->client->session, &claim->ticket);
}

/* ---- giving up ------------------------------------------------------------------- */

/* Takes the claim's ticket out of the store. `withdraw_op` (may be NULL) counts the
 * claim as pending until that is done. If the state is CLAIM_WITHDRAWN afterwards, it
 * is done, and the caller calls hf__claim_withdrawn(). */
void hf__claim_withdraw(struct claim *claim, struct hf_op *withdraw_op)
{
    bool asked = claim->state == CLAIM_ASKED;
    bool sent = claim->sent || claim->sent_before;
    bool refused = claim->state == CLAIM_FAILED; /* an earlier attempt may be in */
    bool in_store = (asked && sent) || claim->state == CLAIM_QUEUED ||
                    claim->state == CLAIM_HELD || claim->state == CLAIM_LOST ||
                    (refused && claim->sent_before);
    if (asked && !sent)
        claim->client->store->forget(claim->client->session, &claim->ticket);
    hf__renew_stop(claim);
    if (claim->timer.slot)
        hf__claim_timer(claim, HF_NEVER);
    if (hf__list_first(&claim->checks))
        hf__claim_end_checks(claim, HF_ELOST, "the hold was released meanwhile");
    if (claim->requests)
        hf__claim_end_requests(claim);
    claim->repeats = 0;
    claim->sent = claim->sent_before = false;
    claim->withdraw_op = withdraw_op;
    if (withdraw_op)
        withdraw_op->pending++;
    if (claim->left_behind)
        claim->client->store->forget(claim->client->session, &claim->ticket);
    if (!in_store || claim->left_behind) {
        claim->state = CLAIM_WITHDRAWN;
        claim->withdrawal = HF_WITHDRAWN;
        return;
    }
    send_withdrawal(claim);
    if (claim->state != CLAIM_WITHDRAWING)
        return;
    hf__claim_unname(claim);
    if (!withdraw_op)
        hf__need_thread(claim->client, NULL); /* no caller waits for the answer */
}

/* A new ticket for the ops that still wait on a withdrawn claim. */
static void claim_restart(struct claim *claim)
{
    struct hf_op *front = HF_CONTAINER(hf__list_first(&claim->ops), struct hf_op, link);
    claim->state = CLAIM_NEW;
    claim->ttl_ns = front->ttl_ns;
    claim->repeats = 0;
    claim->direct_next = claim->sent = claim->sent_before = false;
    claim->ticket.flags |= HF_TICKET_YIELD; /* other clients first */
    memset(claim->ticket.store, 0, sizeof(claim->ticket.store));
    claim->ticket.id = hf__next_id(claim->client);
    hf__claim_name(claim);
    hf__acquire_advance(front);
}

void hf__claim_withdrawn(struct claim *claim)
{
    struct hf_op *withdraw_op = claim->withdraw_op;
    /* At a repeat, an earlier withdrawal may have been the one that did it. */
    bool gone = claim->withdrawal == HF_GONE && !claim->sent_before;
    claim->withdraw_op = NULL;
    if (hf__list_first(&claim->ops))
        claim_restart(claim);
    else
        hf__claim_free(claim);
    if (!withdraw_op)
        return;
    if (gone && withdraw_op->kind == OP_RELEASE && withdraw_op->rc == 0)
        withdraw_op->rc = hf__fail(&withdraw_op->why, HF_ELOST,
                                   "the lock was gone before it was released");
    if (--withdraw_op->pending == 0)
        hf__op_finish(withdraw_op, withdraw_op->rc);
}

static bool may_hand_off(const struct claim *claim)
{
    const hf_client *client = claim->client;
    struct hf_list_node *front = hf__list_first(&claim->ops);
    if (!front || claim->pinned || claim->state != CLAIM_HELD || !claim->tokens_left ||
        claim->handoffs >= client->handoff || client->closing)
        return false;
    if (!hf__claim_fits(claim, HF_CONTAINER(front, struct hf_op, link)->ttl_ns))
        return false; /* the holder has extended its lease to another length */
    return claim->valid_until == HF_NEVER ||
           claim->valid_until - hf__now() > claim->piece_ns / 3;
}

/* The store knows the hold by its next token before another caller has it. False: the
 * store says that the hold was lost, and its holder must be told. */
static bool claim_pass(struct claim *claim)
{
    hf_client *client = claim->client;
    if (!client->store->pass(client->session, &claim->ticket, claim->token + 1))
        return false;
    claim->token++;
    claim->tokens_left--;
    claim->handoffs++;
    return true;
}

/* To the next waiter of this client. False: there is none, or the store must be
 * asked. */
bool hf__claim_hand_off(struct claim *claim)
{
    if (!may_hand_off(claim) || !claim_pass(claim))
        return false;
    struct hf_op *front = HF_CONTAINER(hf__list_first(&claim->ops), struct hf_op, link);
    if (front->asleep && !claim->direct_next) {
        front->woken = true;
        hf__op_wake(front);
        return true;
    }
    claim->direct_next = false;
    hf__acquire_advance(front);
    return true;
}

/* Withdraws a claim that no op waits for. */
void hf__claim_give_up(struct claim *claim)
{
    hf__claim_withdraw(claim, NULL);
    if (claim->state == CLAIM_WITHDRAWN)
        hf__claim_withdrawn(claim);
}

/* Its last holder has released it. */
void hf__claim_release(struct claim *claim, struct hf_op *withdraw_op)
{
    if (hf__claim_hand_off(claim))
        return;
    hf__claim_withdraw(claim, withdraw_op);
    if (claim->state == CLAIM_WITHDRAWN)
        hf__claim_withdrawn(claim);
}

/* ---- losing ---------------------------------------------------------------------- */

void hf__claim_end_checks(struct claim *claim, int rc, const char *reason)
{
    for (struct hf_list_node *link; (link = hf__list_first(&claim->checks));) {
        struct hf_op *op = HF_CONTAINER(link, struct hf_op, link);
        if (rc != 0)
            hf__fail(&op->why, rc, "%s", reason);
        hf__op_finish(op, rc);
    }
}

/* The ticket is withdrawn: requests about it end. */
void hf__claim_end_requests(struct claim *claim)
{
    hf_client *client = claim->client;
    claim->requests = 0;
    for (HF_EACH_SAFE(link, &client->ops)) {
        struct hf_op *op = HF_CONTAINER(link, struct hf_op, all);
        struct hf_request *request = hf__op_request(op);
        if (!request || request->ticket != &claim->ticket)
            continue;
        client->store->forget(client->session, request);
        hf__op_finish(op,
                      hf__fail(&op->why, HF_ELOST, "the hold was released meanwhile"));
    }
}

/* The ops that waited for a hand-off need a new ticket. */
static void move_waiters(struct claim *claim)
{
    struct hf_list_node *front = hf__list_first(&claim->ops);
    if (!front)
        return;
    if (!claim->combine) { /* granted and lost before its op had a look */
        hf__claim_mark_ready(claim);
        return;
    }
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
    fresh->ttl_ns = HF_CONTAINER(front, struct hf_op, link)->ttl_ns;
    fresh->renew = claim->renew;
    while ((front = hf__list_first(&claim->ops))) {
        hf__list_remove(front);
        hf__list_push_back(&fresh->ops, front);
        HF_CONTAINER(front, struct hf_op, link)->one = fresh;
    }
    hf__claim_name(fresh);
    hf__claim_mark_ready(fresh); /* the first op asks the store */
}

void hf__claim_lost(struct claim *claim, const char *reason)
{
    char words[80];
    if (claim->state != CLAIM_HELD)
        return;
    if (!reason) {
        hf__lease_end_words(claim, words, sizeof(words));
        reason = words;
    }
    if (!claim->lost_why)
        claim->lost_why = hf__copy_text(reason, strlen(reason));
    claim->state = CLAIM_LOST;
    hf__claim_unname(claim);
    hf__renew_stop(claim);
    hf__claim_timer(claim, HF_NEVER);
    for (HF_EACH(link, &claim->parts)) {
        struct hf_hold *hold = HF_CONTAINER(link, struct hold_part, link)->hold;
        atomic_store(&hold->lost, true);
        hf__hold_notify(hold, HF_EVENT_LOST);
    }
    hf__claim_end_checks(claim, HF_ELOST, reason);
    move_waiters(claim);
    if (!claim->holders && !hf__list_first(&claim->ops))
        hf__claim_mark_ready(claim); /* offered, and not taken: no holder frees it */
}
