/* SPDX-License-Identifier: MIT */
/*
 * The answers of the store (struct hf_host_ops).
 *
 * Called by the store, under the client's lock, inside one of its functions or from a
 * descriptor's or timer's callback. Nothing here calls the store: the claim's state
 * changes and the claim is marked ready; hf__run_ready() acts on it later. An answer
 * for a state that the claim has left is dropped.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"
#include "report.h"

#include <inttypes.h>
#include <string.h>

enum { REASON_MAX = 150 };

static hf_client *client_of(struct hf_host *host)
{
    return HF_CONTAINER(host, hf_client, host);
}

static struct claim *claim_of(struct hf_ticket *ticket)
{
    return HF_CONTAINER(ticket, struct claim, ticket);
}

static bool waits(const struct claim *claim)
{
    return claim->state == CLAIM_ASKED || claim->state == CLAIM_QUEUED;
}

static void host_failed(struct hf_host *host, struct hf_ticket *ticket,
                        const hf_error *why);

/* The store has forgotten its count: a resource that checks tokens would refuse this
 * holder, or accept an older one beside it. The store believes that the ticket holds
 * the lock, so core withdraws it. */
static void refuse_token(struct claim *claim, uint64_t token)
{
    hf_error why;
    hf__fail(&why, HF_ECORRUPT,
             "the store gave token %" PRIu64 " after token %" PRIu64
             ": its data was lost or set back; if that was meant, open a new client",
             token, claim->token);
    claim->sent_before = true;
    host_failed(&claim->client->host, &claim->ticket, &why);
}

/* A claim that was idle has the last token of its name. A store that is not durable may
 * begin anew. */
static bool token_grows(const struct claim *claim, uint64_t token)
{
    bool durable = claim->client->caps & HF_CAP_DURABLE;
    return claim->ticket.kind == HF_LATCH || token > (durable ? claim->token : 0);
}

static void host_granted(struct hf_host *host, struct hf_ticket *ticket,
                         const struct hf_grant *grant)
{
    (void)host;
    struct claim *claim = claim_of(ticket);
    if (!waits(claim))
        return;
    if (!token_grows(claim, grant->token)) {
        refuse_token(claim, grant->token);
        return;
    }
    hf__claim_granted(claim, grant);
    hf__claim_end_older(claim);
}

static void host_queued(struct hf_host *host, struct hf_ticket *ticket,
                        int64_t retry_ns)
{
    (void)host;
    struct claim *claim = claim_of(ticket);
    if (!waits(claim))
        return;
    if (claim->state == CLAIM_ASKED && claim->sent_at)
        claim->client->answer_ns = hf__now() - claim->sent_at;
    claim->state = CLAIM_QUEUED;
    claim->unreachable = false;
    claim->repeats = 0;
    if (!claim->noticed)
        hf__claim_timer(claim, retry_ns > 0 ? hf__now() + retry_ns : HF_NEVER);
}

/* On a store with several connections a notice may overtake the older answer `queued`,
 * which then must not delay the new attempt. */
static void host_notice(struct hf_host *host, struct hf_ticket *ticket)
{
    (void)host;
    struct claim *claim = claim_of(ticket);
    if (!waits(claim))
        return;
    claim->noticed = true;
    hf__claim_timer(claim, hf__now());
}

static void host_busy(struct hf_host *host, struct hf_ticket *ticket)
{
    (void)host;
    struct claim *claim = claim_of(ticket);
    if (!waits(claim))
        return;
    claim->state = CLAIM_BUSY;
    hf__claim_timer(claim, HF_NEVER);
    hf__claim_mark_ready(claim);
}

static void keep_sentence(struct claim *claim, const hf_error *why)
{
    struct hf_list_node *front = hf__list_first(&claim->ops);
    if (front)
        HF_CONTAINER(front, struct hf_op, link)->why = *why;
}

static int64_t backoff(struct claim *claim)
{
    uint32_t step = claim->repeats < 6 ? claim->repeats : 6;
    claim->repeats++;
    return hf__now() + (INT64_C(10) << step) * HF_NS_PER_MS;
}

static void host_failed(struct hf_host *host, struct hf_ticket *ticket,
                        const hf_error *why)
{
    (void)host;
    struct claim *claim = claim_of(ticket);
    if (!waits(claim))
        return;
    keep_sentence(claim, why);
    if (why->code == HF_EUNREACHABLE || why->code == HF_EUNCERTAIN) {
        claim->unreachable = true;
        claim->sent = why->code == HF_EUNCERTAIN;
        claim->state = CLAIM_ASKED;
        hf__claim_timer(claim, backoff(claim));
        return;
    }
    claim->state = CLAIM_FAILED;
    hf__claim_timer(claim, HF_NEVER);
    hf__claim_mark_ready(claim);
}

static void host_withdrawn(struct hf_host *host, struct hf_ticket *ticket,
                           enum hf_withdrawal answer)
{
    (void)host;
    struct claim *claim = claim_of(ticket);
    if (claim->state != CLAIM_WITHDRAWING)
        return;
    if (answer == HF_WITHDRAWAL_UNKNOWN || answer == HF_WITHDRAWAL_UNSENT) {
        claim->sent = answer != HF_WITHDRAWAL_UNSENT;
        hf__claim_timer(claim, backoff(claim));
        return;
    }
    claim->state = CLAIM_WITHDRAWN;
    claim->withdrawal = (uint8_t)answer;
    if (claim->timer.slot)
        hf__claim_timer(claim, HF_NEVER);
    hf__claim_mark_ready(claim);
}

static void host_renewed(struct hf_host *host, struct hf_ticket *ticket,
                         enum hf_renewal answer, const struct hf_lease *lease)
{
    (void)host;
    struct claim *claim = claim_of(ticket);
    if (claim->state == CLAIM_HELD)
        hf__renew_answer(claim, answer, lease);
}

static void host_event(struct hf_host *host, struct hf_ticket *ticket,
                       enum hf_event event)
{
    (void)host;
    struct claim *claim = claim_of(ticket);
    if (claim->state != CLAIM_HELD)
        return;
    if (event == HF_EVENT_LOST) {
        hf__claim_lost(claim,
                       "the store no longer has it: evicted, adopted or removed");
        return;
    }
    for (HF_EACH(link, &claim->parts))
        hf__hold_notify(HF_CONTAINER(link, struct hold_part, link)->hold, event);
}

static void host_reason(struct hf_host *host, struct hf_ticket *ticket,
                        const char *text)
{
    (void)host;
    struct claim *claim = claim_of(ticket);
    if (claim->state == CLAIM_HELD && !claim->lost_why)
        claim->lost_why = hf__copy_text(text, strnlen(text, REASON_MAX));
}

static void host_answered(struct hf_host *host, struct hf_request *request, int rc,
                          const hf_error *why)
{
    (void)host;
    hf__request_answer(hf__request_op(request), rc, why);
}

static void host_entry(struct hf_host *host, struct hf_request *request,
                       const hf_entry *entry)
{
    (void)host;
    hf__report_add(request, entry);
}

static void host_cell_data(struct hf_host *host, struct hf_request *request,
                           const void *data, size_t len)
{
    (void)host;
    hf__report_cell(request, data, len);
}

static void host_finding(struct hf_host *host, struct hf_request *request,
                         const hf_finding *finding)
{
    (void)host;
    hf__report_find(request, finding);
}

static void host_progress(struct hf_host *host, struct hf_request *request)
{
    (void)host;
    hf__request_progress(hf__request_op(request));
}

static int host_add_fd(struct hf_host *host, int fd, uint32_t events,
                       hf_fd_cb *callback, void *arg)
{
    return hf__loop_add_fd(&client_of(host)->loop, fd, events, callback, arg);
}

static void host_remove_fd(struct hf_host *host, int fd)
{
    hf__loop_remove_fd(&client_of(host)->loop, fd);
}

static int host_set_timer(struct hf_host *host, struct hf_timer *timer, int64_t at_ns)
{
    return hf__loop_set_timer(&client_of(host)->loop, timer, at_ns);
}

static void host_stop_timer(struct hf_host *host, struct hf_timer *timer)
{
    hf__loop_stop_timer(&client_of(host)->loop, timer);
}

static int64_t host_now(struct hf_host *host)
{
    (void)host;
    return hf__now();
}

const struct hf_host_ops hf__host_ops = {
    .size = sizeof(struct hf_host_ops),
    .granted = host_granted,
    .queued = host_queued,
    .notice = host_notice,
    .busy = host_busy,
    .failed = host_failed,
    .withdrawn = host_withdrawn,
    .renewed = host_renewed,
    .event = host_event,
    .reason = host_reason,
    .answered = host_answered,
    .entry = host_entry,
    .cell_data = host_cell_data,
    .finding = host_finding,
    .progress = host_progress,
    .add_fd = host_add_fd,
    .remove_fd = host_remove_fd,
    .set_timer = host_set_timer,
    .stop_timer = host_stop_timer,
    .now = host_now,
};
