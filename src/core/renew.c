/* SPDX-License-Identifier: MIT */
/*
 * Leases: when to renew, what each answer means, when a hold is lost.
 *
 * Validity always counts from before the request left, less the drift allowed between
 * two clocks. Renewals are due at a third of the lease; those that are due soon are
 * sent along in one request of up to HF_RENEW_BATCH tickets. A store may give a shorter
 * lease than was asked for: then that one says when to renew, and the whole is asked
 * for each time. No answer is not a loss: the renewal is repeated until the validity is
 * over by the client's own clock, and only then is the hold lost.
 *
 * claim->timer serves a held claim for the repeat and for the end of its validity.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"

#include <stdio.h>

/* The first pause before a request is repeated; each further one is twice as long. */
#define AGAIN_NS (10 * HF_NS_PER_MS)

int64_t hf__drift(int64_t ttl_ns)
{
    return ttl_ns / 100;
}

/* A store may give less than was asked. If it says that it gave more, that is not
 * believed. */
struct hf_lease hf__lease_in_bounds(const struct claim *claim, int64_t since_ns,
                                    int64_t ttl_ns)
{
    const int64_t most = claim->ttl_ns ? claim->ttl_ns : HF_TTL_MAX_MS * HF_NS_PER_MS;
    int64_t now = hf__now();
    struct hf_lease lease = { since_ns < now ? since_ns : now, ttl_ns };
    if (lease.since_ns < 0)
        lease.since_ns = 0;
    if (ttl_ns > most)
        lease.ttl_ns = most;
    return lease;
}

void hf__lease_end_words(const struct claim *claim, char *text, size_t size)
{
    int64_t now = hf__now();
    long long ms = (long long)((now - claim->lease_since) / HF_NS_PER_MS);
    if (now >= claim->end_at && !claim->fixed_end)
        snprintf(text, size, "its longest time (max_hold_ms) is over");
    else if (claim->renew && !claim->fixed_end)
        snprintf(text, size, "the store has confirmed no renewal for %lld.%lld s",
                 ms / 1000, ms % 1000 / 100);
    else
        snprintf(text, size, "its lease is over and was not to be renewed");
}

/* If the store gives what was asked for, the caller's lease says when to renew: what
 * was asked for may be short only because max_hold_ms ends soon. */
bool hf__take_piece(struct claim *claim, int64_t given_ns, int64_t wanted_ns)
{
    bool less = given_ns < wanted_ns - HF_NS_PER_MS;
    claim->piece_ns = less ? given_ns : claim->ttl_ns;
    return less;
}

/* ---- schedule -------------------------------------------------------------------- */

static void set_alarm(hf_client *client)
{
    struct hf_list_node *first = hf__list_first(&client->renewals);
    if (!first) {
        hf__loop_stop_timer(&client->loop, &client->renew_timer);
        return;
    }
    int64_t at = HF_CONTAINER(first, struct claim, renewal)->renew_at;
    if (!client->renew_timer.slot || client->renew_timer.at_ns != at)
        hf__loop_set_timer(&client->loop, &client->renew_timer, at);
}

static void schedule_at(struct claim *claim, int64_t renew_at)
{
    hf_client *client = claim->client;
    struct hf_list_node *at = client->renewals.prev;
    claim->renew_at = renew_at;
    while (at != &client->renewals &&
           HF_CONTAINER(at, struct claim, renewal)->renew_at > claim->renew_at)
        at = at->prev;
    hf__list_insert_before(at->next, &claim->renewal);
    if (client->renewals.next == &claim->renewal)
        set_alarm(client);
}

/* Before all others, and in one request with those that are due too. */
static void schedule_next(struct claim *claim, int64_t now)
{
    struct hf_list_node *list = &claim->client->renewals;
    struct hf_list_node *first = hf__list_first(list);
    claim->renew_at = now;
    if (first && HF_CONTAINER(first, struct claim, renewal)->renew_at < now)
        claim->renew_at = HF_CONTAINER(first, struct claim, renewal)->renew_at;
    hf__list_insert_before(first ? first : list, &claim->renewal);
    set_alarm(claim->client);
}

void hf__renew_schedule(struct claim *claim)
{
    if (claim->valid_until == HF_NEVER || claim->state != CLAIM_HELD)
        return;
    if (!claim->renew || claim->lease_since + claim->piece_ns / 3 >= claim->end_at) {
        hf__claim_timer(claim, claim->valid_until);
        return;
    }
    if (!hf__list_linked(&claim->renewal))
        schedule_at(claim, claim->lease_since + claim->piece_ns / 3);
}

void hf__renew_stop(struct claim *claim)
{
    if (!hf__list_linked(&claim->renewal))
        return;
    hf__list_remove(&claim->renewal);
    set_alarm(claim->client);
}

/* ---- sending --------------------------------------------------------------------- */

/* When to ask again if no answer comes; never after the end. */
static int64_t repeat_at(const struct claim *claim, int64_t now)
{
    int64_t wait = claim->piece_ns / 10;
    if (wait > claim->client->request_ns)
        wait = claim->client->request_ns;
    int64_t at = now + (wait > HF_NS_PER_MS ? wait : HF_NS_PER_MS);
    return at < claim->valid_until ? at : claim->valid_until;
}

static int64_t lease_wanted(const struct claim *claim, int64_t now)
{
    int64_t ttl = claim->ttl_ns;
    if (claim->end_at != HF_NEVER && claim->end_at - now < ttl)
        ttl = claim->end_at - now;
    return ttl > 0 ? ttl : 1;
}

static int64_t end_of(int64_t since_ns, int64_t ttl_ns)
{
    return since_ns + ttl_ns - hf__drift(ttl_ns);
}

static void refresh_holds(struct claim *claim)
{
    for (HF_EACH(link, &claim->parts))
        hf__hold_refresh(HF_CONTAINER(link, struct hold_part, link)->hold);
}

/* A shorter lease counts from when it is asked for: the store may set it although its
 * answer is lost. */
static void believe_less(struct claim *claim)
{
    int64_t end = end_of(claim->renew_sent, claim->ticket.ttl_ns);
    if (end >= claim->valid_until)
        return;
    claim->valid_until = end;
    refresh_holds(claim);
}

static void prepare(struct claim *claim, int64_t now)
{
    claim->renew_sent = now;
    claim->ticket.ttl_ns = lease_wanted(claim, now);
    believe_less(claim);
    hf__claim_timer(claim, repeat_at(claim, now));
}

void hf__renew_due(void *arg)
{
    hf_client *client = arg;
    struct hf_ticket *batch[HF_RENEW_BATCH];
    int64_t now = hf__now();
    for (;;) {
        size_t count = 0;
        while (count < HF_RENEW_BATCH) {
            struct hf_list_node *link = hf__list_first(&client->renewals);
            struct claim *claim =
                link ? HF_CONTAINER(link, struct claim, renewal) : NULL;
            if (!claim || claim->renew_at > now + claim->piece_ns / 10)
                break;
            hf__list_remove(link);
            prepare(claim, now);
            batch[count++] = &claim->ticket;
        }
        if (count == 0)
            break;
        client->store->renew(client->session, batch, count, HF_RENEW);
    }
    set_alarm(client);
}

static void renew_one(struct claim *claim, enum hf_renew_mode mode)
{
    hf_client *client = claim->client;
    struct hf_ticket *ticket = &claim->ticket;
    client->store->renew(client->session, &ticket, 1, mode);
}

/* ---- answers --------------------------------------------------------------------- */

static void notify_doubtful(struct claim *claim, int64_t now)
{
    if (claim->doubt_notified || !claim->renew ||
        now < claim->lease_since + claim->piece_ns * 2 / 3)
        return;
    claim->doubt_notified = true;
    for (HF_EACH(link, &claim->parts))
        hf__hold_notify(HF_CONTAINER(link, struct hold_part, link)->hold,
                        HF_EVENT_DOUBTFUL);
}

void hf__renew_timeout(struct claim *claim)
{
    int64_t now = hf__now();
    if (now >= claim->valid_until) {
        hf__claim_lost(claim, NULL);
        return;
    }
    notify_doubtful(claim, now);
    if (!claim->renew || now >= claim->end_at) {
        hf__claim_timer(claim, claim->valid_until);
        return;
    }
    if (!hf__list_linked(&claim->renewal))
        schedule_next(claim, now);
}

static void renewed(struct claim *claim, const struct hf_lease *lease)
{
    if (lease->since_ns < claim->lease_since)
        return; /* an older answer than the last */
    hf__take_piece(claim, lease->ttl_ns, lease_wanted(claim, lease->since_ns));
    claim->lease_since = lease->since_ns;
    claim->valid_until = end_of(lease->since_ns, lease->ttl_ns);
    if (lease->since_ns <= claim->renew_sent) /* it may answer the request before */
        believe_less(claim);
    claim->doubt_notified = false;
    hf__claim_timer(claim, HF_NEVER);
    refresh_holds(claim);
    hf__list_remove(&claim->renewal);
    hf__renew_schedule(claim);
}

/* A caller may have been told that the lease is over while the answer was on its
 * way. */
static bool has_lapsed(struct claim *claim)
{
    for (HF_EACH(link, &claim->parts))
        if (HF_CONTAINER(link, struct hold_part, link)->hold->valid_until == HF_LAPSED)
            return true;
    return false;
}

/* Ends the calls that this answers: those made before the request was sent. */
static void end_checks(struct claim *claim, int64_t since_ns, bool renewed)
{
    for (HF_EACH_SAFE(link, &claim->checks)) {
        struct hf_op *op = HF_CONTAINER(link, struct hf_op, link);
        if (op->asked_ns <= since_ns && (renewed || !op->extend))
            hf__op_finish(op, 0);
    }
}

/* A caller that waits hears of a store that is back at once, not at its deadline. */
static void ask_again_soon(struct claim *claim, int64_t now)
{
    for (HF_EACH(link, &claim->checks)) {
        struct hf_op *op = HF_CONTAINER(link, struct hf_op, link);
        int64_t at = now + (AGAIN_NS << (op->tries < 5 ? op->tries : 5));
        op->resend = true;
        hf__op_timer(op, at < op->deadline ? at : op->deadline);
    }
}

void hf__renew_answer(struct claim *claim, enum hf_renewal answer,
                      const struct hf_lease *given)
{
    int64_t now = hf__now();
    struct hf_lease lease = { now, claim->ticket.ttl_ns };
    if (given)
        lease = hf__lease_in_bounds(claim, given->since_ns, given->ttl_ns);
    else if (answer == HF_RENEWED)
        lease.since_ns = claim->renew_sent;
    switch (answer) {
    case HF_RENEWED:
        if (claim->valid_until <= now) { /* callers that asked were told: lost */
            hf__claim_lost(claim, NULL);
            break;
        }
        if (claim->valid_until != HF_NEVER)
            renewed(claim, &lease);
        if (has_lapsed(claim)) {
            hf__claim_lost(claim, NULL);
            break;
        }
        end_checks(claim, lease.since_ns, true);
        break;
    case HF_STILL_HELD:
        end_checks(claim, lease.since_ns, false);
        break;
    case HF_RENEWAL_LOST:
        hf__claim_lost(claim,
                       "the store no longer has it: expired, evicted or removed");
        break;
    case HF_RENEWAL_UNKNOWN:
        ask_again_soon(claim, now); /* for a renewal, the claim's timer does */
        break;
    }
}

/* ---- verify and extend ----------------------------------------------------------- */

void hf__check_timeout(struct hf_op *op)
{
    if (!op->resend || hf__now() >= op->deadline) {
        hf__op_finish(op, hf__fail_code(&op->why, HF_EUNREACHABLE));
        return;
    }
    op->resend = false;
    op->tries++;
    hf__op_timer(op, op->deadline);
    renew_one(op->one, op->extend ? HF_RENEW : HF_CHECK);
}

static int check_claim(struct hf_hold *hold, struct claim *claim, int64_t ttl_ns,
                       bool extend, hf_error *why)
{
    hf_client *client = hold->client;
    if (claim->state != CLAIM_HELD)
        return hf__hold_fail_lost(hold, why);
    struct hf_op op;
    hf__op_init(&op, client, OP_CHECK);
    int rc = hf__loop_reserve(&client->loop);
    if (rc != 0)
        return hf__fail_code(why, rc);
    op.reserved = true;
    op.extend = extend;
    op.one = claim;
    op.asked_ns = hf__now();
    op.deadline = op.asked_ns + client->request_ns;
    hf__op_timer(&op, op.deadline);
    hf__list_push_back(&client->ops, &op.all);
    hf__list_push_back(&claim->checks, &op.link);
    if (extend) {
        if (claim->fixed_end)
            claim->end_at = hf__now() + ttl_ns;
        claim->ttl_ns = ttl_ns;
        hf__list_remove(&claim->renewal);
        set_alarm(client);
        prepare(claim, hf__now());
    }
    renew_one(claim, extend ? HF_RENEW : HF_CHECK);
    hf__run_ready(client);
    if (!op.finished) {
        rc = hf__loop_ensure(&client->loop, &op.why);
        if (rc != 0)
            hf__op_finish(&op, rc);
    }
    hf__op_await(&op, HF_NEVER);
    if (op.rc != 0 && why)
        *why = op.why;
    return op.rc;
}

static int check_extend(const struct claim *claim, int64_t ttl_ns, hf_error *why)
{
    if (claim->valid_until == HF_NEVER)
        return hf__fail(why, HF_EINVAL, "the hold has no lease to extend");
    if (!claim->fixed_end && claim->end_at != HF_NEVER &&
        ttl_ns > claim->end_at - hf__now())
        return hf__fail(why, HF_EINVAL, "that would go beyond max_hold_ms");
    return 0;
}

/* A lease as long as max_hold_ms is not renewed; a shorter one is. */
static int renew_from_now(struct claim *claim, hf_error *why)
{
    int rc = 0;
    if (!claim->renew && !claim->fixed)
        rc = hf__need_thread(claim->client, why);
    claim->renew |= rc == 0 && !claim->fixed;
    return rc;
}

/* Claim by claim; the hold may be released by another thread between two of them. */
int hf__hold_check(struct hf_hold *hold, int64_t ttl_ns, bool extend, hf_error *why)
{
    uint32_t tag = hold->handle.generation;
    int64_t left;
    if (hf__hold_state(hold, &left) == HF_LOST)
        return hf__hold_fail_lost(hold, why);
    for (uint32_t i = 0; i < hold->count; i++) {
        struct claim *claim = hold->parts[i].claim;
        if (!claim)
            return hf__fail_code(why, HF_ECLOSED);
        int rc = extend ? check_extend(claim, ttl_ns, why) : 0;
        if (rc == 0 && extend)
            rc = renew_from_now(claim, why);
        if (rc == 0)
            rc = check_claim(hold, claim, ttl_ns, extend, why);
        if (rc != 0)
            return rc;
        if (!hf__handle_live(&hold->handle, tag))
            return hf__fail_code(why, HF_ERELEASED);
    }
    return 0;
}
