/* SPDX-License-Identifier: MIT */
/*
 * Requests other than attempts, withdrawals and renewals: latch, cell, inspect, evict,
 * revoke, downgrade, adopt.
 *
 * Under the client's lock; the caller waits. A request that gets no answer is repeated
 * under the same id, a few times; the store does it once. If it
 * changes something and no answer comes, the caller gets HF_EUNCERTAIN.
 *
 * A walk over a large store may take longer than a request timeout, as long as the
 * store reports progress. The tries are counted all the same.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"
#include "../base/text.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { REQUEST_TRIES = 3 };

static struct request_call *call_of(struct hf_op *op)
{
    return HF_CONTAINER(op, struct request_call, op);
}

struct hf_op *hf__request_op(struct hf_request *request)
{
    return &HF_CONTAINER(request, struct request_call, request)->op;
}

struct hf_request *hf__op_request(struct hf_op *op)
{
    return op->kind == OP_REQUEST ? &call_of(op)->request : NULL;
}

static bool changes_something(int32_t verb)
{
    return verb != HF_LATCH_GET && verb != HF_CELL_GET && verb != HF_INSPECT &&
           verb != HF_DIAGNOSE;
}

/* At `at_ns`, but not after the deadline of the call. */
static void request_timer(struct hf_op *op, int64_t at_ns)
{
    hf__op_timer(op, at_ns < op->deadline ? at_ns : op->deadline);
}

static bool is_last_try(const struct hf_op *op)
{
    return op->tries >= REQUEST_TRIES || hf__now() >= op->deadline;
}

static void request_send(struct hf_op *op)
{
    struct request_call *call = call_of(op);
    op->resend = false;
    op->tries++;
    if (call->report) {
        hf__report_free(call->report);
        call->report = hf__report_new();
        call->no_memory = !call->report;
    }
    if (call->no_memory) {
        hf__op_finish(op, hf__fail_code(&op->why, HF_ENOMEM));
        return;
    }
    request_timer(op, hf__now() + call->answer_ns);
    op->client->store->ask(op->client->session, &call->request);
}

static void request_end(struct hf_op *op, int rc)
{
    struct request_call *call = call_of(op);
    if (rc == HF_EUNREACHABLE && op->outcome_open &&
        changes_something(call->request.verb))
        rc = hf__fail_code(&op->why, HF_EUNCERTAIN);
    else if (rc == HF_ENOENT && op->outcome_open && call->request.verb == HF_ADOPT)
        rc = hf__fail(&op->why, HF_ELOST,
                      "the hold is gone; it may have moved here before that");
    else if (rc == 0 && call->no_memory)
        rc = hf__fail_code(&op->why, HF_ENOMEM);
    hf__op_finish(op, rc);
}

void hf__request_answer(struct hf_op *op, int rc, const hf_error *why)
{
    if (op->finished)
        return;
    if (rc != 0) {
        hf__fail_code(&op->why, rc);
        if (why)
            op->why = *why;
    }
    bool open = rc == HF_EUNCERTAIN || rc == HF_EUNREACHABLE;
    op->outcome_open |= rc == HF_EUNCERTAIN;
    if (!open) {
        request_end(op, rc);
    } else if (is_last_try(op)) {
        op->why.code = HF_EUNREACHABLE; /* also if an answer to a read was lost */
        request_end(op, HF_EUNREACHABLE);
    } else {
        op->resend = true;
        request_timer(op, hf__now() + (INT64_C(10) << op->tries) * HF_NS_PER_MS);
    }
}

/* Without memory for the answer, the store need not go on. */
void hf__request_progress(struct hf_op *op)
{
    int64_t more = call_of(op)->no_memory ? 0 : op->client->request_ns;
    if (!op->finished && !op->resend)
        request_timer(op, hf__now() + more);
}

void hf__request_timeout(struct hf_op *op)
{
    bool last = is_last_try(op);
    if (op->resend && !last) {
        request_send(op);
        return;
    }
    if (!op->resend) {
        op->client->store->forget(op->client->session, &call_of(op)->request);
        op->outcome_open = true;
    }
    if (call_of(op)->no_memory) {
        hf__op_finish(op, hf__fail_code(&op->why, HF_ENOMEM));
        return;
    }
    if (!last) {
        request_send(op);
        return;
    }
    hf__fail_code(&op->why, HF_EUNREACHABLE);
    request_end(op, HF_EUNREACHABLE);
}

int hf__request(hf_client *client, struct request_call *call, hf_error *why)
{
    struct hf_op *op = &call->op;
    hf__op_init(op, client, OP_REQUEST);
    op->deadline = call->until ? call->until : HF_NEVER;
    call->answer_ns = (op->deadline - hf__now()) / REQUEST_TRIES;
    if (call->answer_ns > client->request_ns)
        call->answer_ns = client->request_ns;
    int rc = hf__loop_reserve(&client->loop);
    if (rc != 0)
        return hf__fail_code(why, rc);
    op->reserved = true;
    hf__list_push_back(&client->ops, &op->all);
    call->request.id = hf__next_id(client);
    request_send(op);
    hf__run_ready(client);
    if (!op->finished && (rc = hf__loop_ensure(&client->loop, &op->why)) != 0) {
        client->store->forget(client->session, &call->request);
        hf__op_finish(op, rc);
    }
    hf__op_await(op, HF_NEVER);
    if (op->rc != 0 && why)
        *why = op->why;
    return op->rc;
}

static uint64_t verb_capability(int verb)
{
    static const uint64_t needed[] = {
        [HF_LATCH_SET] = HF_CAP_LATCH,     [HF_LATCH_GET] = HF_CAP_LATCH,
        [HF_LATCH_DOWN] = HF_CAP_LATCH,    [HF_CELL_GET] = HF_CAP_CELL,
        [HF_CELL_SET] = HF_CAP_CELL,       [HF_INSPECT] = HF_CAP_INSPECT,
        [HF_EVICT] = HF_CAP_EVICT,         [HF_REVOKE] = HF_CAP_REVOKE,
        [HF_DOWNGRADE] = HF_CAP_DOWNGRADE, [HF_ADOPT] = HF_CAP_DETACH,
        [HF_DIAGNOSE] = HF_CAP_DIAGNOSE,
    };
    return needed[verb];
}

static const char *verb_name(int verb)
{
    static const char *const names[] = { "",           "latches",  "latches",
                                         "latches",    "cells",    "cells",
                                         "inspection", "eviction", "revocation",
                                         "downgrades", "adoption", "diagnosis" };
    return names[verb];
}

int hf__request_named(hf_client *client, struct request_call *call, int verb,
                      const char *name, uint64_t number, hf_error *why)
{
    if (!(client->caps & verb_capability(verb)))
        return hf__fail(why, HF_EUNSUPPORTED, "the %s store has no %s here",
                        client->store->name, verb_name(verb));
    call->request.verb = verb;
    call->request.name = name;
    call->request.name_len = (uint32_t)strlen(name);
    call->request.name_hash = hf__text_hash(name, call->request.name_len);
    call->request.number = number;
    return hf__request(client, call, why);
}

/* ---- about a hold ---------------------------------------------------------------- */

int hf__downgrade(struct hf_hold *hold, size_t index, hf_error *why)
{
    uint32_t tag = hold->handle.generation;
    struct claim *claim = index < hold->count ? hold->parts[index].claim : NULL;
    if (!claim)
        return hf__fail(why, HF_EINVAL, "the hold has no want %zu", index);
    if (claim->ticket.kind != HF_WRITE)
        return hf__fail(why, HF_EINVAL, "only a write lock can be downgraded");
    int64_t left;
    if (claim->state != CLAIM_HELD || hf__hold_state(hold, &left) == HF_LOST)
        return hf__hold_fail_lost(hold, why);
    struct request_call call = { .request = { .ticket = &claim->ticket } };
    claim->requests++; /* a release in between ends the request */
    int rc = hf__request_named(hold->client, &call, HF_DOWNGRADE, claim->ticket.name, 0,
                               why);
    if (!hf__handle_live(&hold->handle, tag) || hold->parts[index].claim != claim)
        return rc;
    claim->requests--;
    if (rc == 0)
        claim->ticket.kind = HF_READ;
    return rc;
}

/* hf1.<ticket>.<token>.<kind>.<permits>.<limit>.<name>: the name comes last, so that it
 * needs no quoting. */
int hf__hold_text_id(struct hf_hold *hold, size_t index, char *buffer, size_t size,
                     hf_error *why)
{
    struct claim *claim = index < hold->count ? hold->parts[index].claim : NULL;
    if (!claim)
        return hf__fail(why, HF_EINVAL, "the hold has no want %zu", index);
    if (!(hold->client->caps & HF_CAP_DETACH))
        return hf__fail(why, HF_EUNSUPPORTED, "the %s store has no adoption here",
                        hold->client->store->name);
    const struct hf_ticket *ticket = &claim->ticket;
    char text[HF_ID_MAX], hex[2 * sizeof(ticket->id) + 1] = "";
    hf__hex_encode(&ticket->id, sizeof(ticket->id), hex);
    int len = snprintf(text, sizeof(text), "hf1.%s.%" PRIu64 ".%d.%u.%u.%s", hex,
                       hold->parts[index].token, ticket->kind, ticket->permits,
                       ticket->limit, ticket->name);
    if (len < 0 || (size_t)len >= size)
        return hf__fail(why, HF_EINVAL,
                        "the buffer for the id is too small (HF_ID_MAX "
                        "is enough)");
    memcpy(buffer, text, (size_t)len + 1);
    claim->pinned = true; /* the id must never lead to another caller's hold */
    return 0;
}

struct parsed_id {
    struct hf_id ticket;
    uint64_t numbers[4]; /* token, kind, permits, limit */
    const char *name;
};

static bool next_number(const char **at, uint64_t *ret_number)
{
    char digits[24];
    size_t len = strcspn(*at, ".");
    if (len == 0 || len >= sizeof(digits) || (*at)[len] != '.')
        return false;
    memcpy(digits, *at, len);
    digits[len] = '\0';
    *at += len + 1;
    return hf__text_number(digits, UINT64_MAX, ret_number);
}

static int parse_id(const char *id, struct parsed_id *parsed, hf_error *why)
{
    const size_t hex = 2 * sizeof(parsed->ticket);
    const char *at = id;
    size_t name_len;
    if (!id || strnlen(id, HF_ID_MAX) < 4 + hex + 1 || memcmp(id, "hf1.", 4) != 0 ||
        !hf__hex_decode(id + 4, &parsed->ticket, sizeof(parsed->ticket)) ||
        id[4 + hex] != '.')
        return hf__fail(why, HF_EINVAL, "that is not the id of a hold");
    at += 4 + hex + 1;
    for (int i = 0; i < 4; i++)
        if (!next_number(&at, &parsed->numbers[i]))
            return hf__fail(why, HF_EINVAL, "that is not the id of a hold");
    parsed->name = at;
    if (parsed->numbers[1] < HF_MUTEX || parsed->numbers[1] > HF_EXPIRING ||
        parsed->numbers[2] > UINT32_MAX || parsed->numbers[3] > UINT32_MAX)
        return hf__fail(why, HF_EINVAL, "that is not the id of a hold");
    return hf__name_check(at, &name_len, why);
}

static struct claim *adopted_claim(hf_client *client, const struct parsed_id *parsed,
                                   const hf_acquire_options *options)
{
    size_t len = strlen(parsed->name);
    struct claim *claim =
        hf__claim_new(client, parsed->name, len, hf__text_hash(parsed->name, len));
    if (!claim)
        return NULL;
    claim->ticket.kind = (int32_t)parsed->numbers[1];
    claim->ticket.permits = (uint32_t)parsed->numbers[2];
    claim->ticket.limit = (uint32_t)parsed->numbers[3];
    claim->ticket.reserve = 1;
    claim->ticket.flags = options->flags & HF_DETACHED ? HF_TICKET_DETACHED : 0;
    claim->max_hold_ns = options->max_hold_ms * HF_NS_PER_MS;
    claim->ttl_ns = options->ttl_ms ? options->ttl_ms * HF_NS_PER_MS : client->ttl_ns;
    if (!claim->ttl_ns && claim->ticket.kind == HF_EXPIRING)
        claim->ttl_ns = HF_DEFAULT_EXPIRING_MS * HF_NS_PER_MS;
    if (claim->max_hold_ns && (!claim->ttl_ns || claim->ttl_ns > claim->max_hold_ns))
        claim->ttl_ns = claim->max_hold_ns;
    claim->ticket.ttl_ns = claim->ttl_ns;
    claim->fixed = (options->flags & HF_FIXED) != 0;
    claim->renew =
        claim->ttl_ns && !claim->fixed && claim->ttl_ns != claim->max_hold_ns;
    claim->lease_since = hf__now();
    return claim;
}

/* As for an acquire, timeout 0 gives the store the time of one request. */
static int64_t adopt_until(const hf_client *client, int64_t timeout_ms)
{
    int64_t now = hf__now();
    return timeout_ms ? hf__deadline(now, timeout_ms) : now + client->request_ns;
}

/* The hold may have moved here although the answer was lost: then it is withdrawn, as
 * after a lost grant. */
static void adopt_undo(struct claim *claim, bool moved)
{
    if (!moved) {
        hf__claim_free(claim);
        return;
    }
    claim->state = CLAIM_ASKED;
    claim->sent = true;
    hf__claim_give_up(claim);
}

int hf__adopt(hf_client *client, const char *id, const hf_acquire_options *options,
              hf_hold **ret_hold, hf_error *why)
{
    struct parsed_id parsed;
    int rc = parse_id(id, &parsed, why);
    if (rc != 0)
        return rc;
    struct claim *claim = adopted_claim(client, &parsed, options);
    struct hf_hold *hold = claim ? hf__hold_new(client, 1) : NULL;
    struct request_call call = { .request = { .other = parsed.ticket } };
    rc = hold ? 0 : hf__fail_code(why, HF_ENOMEM);
    if (rc == 0 && claim->renew)
        rc = hf__need_thread(client, why);
    if (rc == 0) {
        call.request.ticket = &claim->ticket;
        call.until = adopt_until(client, options->timeout_ms);
        rc = hf__request_named(client, &call, HF_ADOPT, claim->ticket.name,
                               parsed.numbers[0], why);
    }
    if (rc == 0 && client->closing) /* at the moment of the answer */
        rc = hf__fail_code(why, HF_ECLOSED);
    if (rc != 0) {
        if (hold)
            hf__hold_free(hold);
        if (claim)
            adopt_undo(claim, rc == HF_EUNCERTAIN || rc == HF_ECLOSED);
        return rc;
    }
    claim->state = CLAIM_ASKED;
    hf__claim_granted(claim, &call.request.grant);
    hf__list_remove(&claim->ready);
    claim->holders = 1;
    hold->detached = (options->flags & HF_DETACHED) != 0;
    hf__hold_take(hold, 0, claim);
    hf__hold_refresh(hold);
    hf__renew_schedule(claim);
    *ret_hold = hf__hold_handle(hold);
    return 0;
}
