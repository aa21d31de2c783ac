/* SPDX-License-Identifier: MIT */
/*
 * The fault shim: fault.h says what it can do, fault_session.h how.
 *
 * A shim's session holds the inner store's session and a host of its own that it shows
 * to the inner store (fault_host.c). This file has the plan, the calls on their way to
 * the store, and the table.
 *
 * Runs as any store does: under the client's lock, one call at a time. Only the plan is
 * shared between clients and has a mutex. Core never calls a store that is answering,
 * so the records can change only while the inner store is called, and every loop that
 * did so starts again from the front.
 */
#include "fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "../base/error.h"
#include "fault_session.h"

#define SHIMS_MAX 8
#define SCHEMES_MAX 4

struct shim {
    const struct hf_backend *inner;
    struct hf_backend table;
    char text[SCHEMES_MAX][40];
    const char *schemes[SCHEMES_MAX + 1];
};

static struct {
    pthread_mutex_t mutex;
    struct hf_fault faults[HF_FAULT_MAX];
    size_t count;
    uint64_t calls[HF_FAULT_OPS];
    size_t shim_count;
    struct shim shims[SHIMS_MAX];
} plan = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static atomic_bool paused;

/* ---- The plan -------------------------------------------------------------------- */

void hf__fault_plan(const struct hf_fault *faults, size_t count)
{
    pthread_mutex_lock(&plan.mutex);
    plan.count = count < HF_FAULT_MAX ? count : HF_FAULT_MAX;
    if (plan.count)
        memcpy(plan.faults, faults, plan.count * sizeof *faults);
    memset(plan.calls, 0, sizeof plan.calls);
    pthread_mutex_unlock(&plan.mutex);
}

uint64_t hf__fault_calls(enum hf_fault_op op)
{
    pthread_mutex_lock(&plan.mutex);
    uint64_t calls = plan.calls[op];
    pthread_mutex_unlock(&plan.mutex);
    return calls;
}

void hf__fault_pause(bool pause)
{
    atomic_store(&paused, pause);
}

bool hf__fault_paused(void)
{
    return atomic_load(&paused);
}

struct hf_fault hf__fault_next(enum hf_fault_op op)
{
    struct hf_fault found = { .op = op };
    pthread_mutex_lock(&plan.mutex);
    uint64_t number = ++plan.calls[op];
    for (size_t i = 0; i < plan.count; i++) {
        const struct hf_fault *fault = &plan.faults[i];
        if (fault->op == op && fault->first <= number && number <= fault->last)
            found = *fault;
    }
    pthread_mutex_unlock(&plan.mutex);
    return found;
}

/* ---- Calls: from core to the inner store ----------------------------------------- */

static void inner_renew(struct session *s, struct hf_ticket *const *tickets,
                        size_t count, enum hf_renew_mode mode)
{
    s->renew_ns = s->outer->ops->now(s->outer);
    s->inner->renew(s->inner_session, tickets, count, mode);
}

static void call_forward(struct session *s, enum hf_fault_op op, void *key,
                         enum hf_renew_mode mode)
{
    struct hf_ticket *ticket = key;
    if (op == HF_FAULT_ATTEMPT)
        s->inner->attempt(s->inner_session, ticket);
    else if (op == HF_FAULT_WITHDRAW)
        s->inner->withdraw(s->inner_session, ticket);
    else if (op == HF_FAULT_RENEW)
        inner_renew(s, &ticket, 1, mode);
    else
        s->inner->ask(s->inner_session, key);
}

/* Whether calls are held back, also by a pause that is over. */
static bool session_keeps(const struct session *s)
{
    for (HF_EACH(link, &s->records))
        if (HF_CONTAINER(link, struct record, link)->stage == STAGE_KEPT)
            return true;
    return false;
}

static void call_make(struct session *s, struct hf_fault fault, void *key,
                      enum hf_renew_mode mode)
{
    struct answer failure = hf__fault_failure(fault.op, HF_EUNREACHABLE);
    hf__fault_drop(s, fault.op, key);
    if (fault.op == HF_FAULT_WITHDRAW) {
        const struct record *record = hf__fault_find(s, HF_FAULT_ATTEMPT, key);
        if (record && record->stage == STAGE_SILENT)
            hf__fault_drop(s, HF_FAULT_ATTEMPT, key);
    }
    if (fault.what == HF_FAULT_FAIL_BEFORE) {
        hf__fault_deliver(s, key, &failure);
        return;
    }
    bool keep = hf__fault_paused() || session_keeps(s); /* no call overtakes another */
    struct record *record = NULL;
    if (keep || fault.what)
        record = hf__fault_record(s, fault, key, keep ? STAGE_KEPT : STAGE_SENT);
    if (record && keep) {
        record->mode = mode;
        hf__fault_arm(s);
    } else {
        call_forward(s, fault.op, key, mode);
    }
}

/* Handles one waiting record; false if there was none. */
static bool session_step(struct session *s, int64_t now)
{
    for (HF_EACH(link, &s->records)) {
        struct record *record = HF_CONTAINER(link, struct record, link);
        struct record copy = *record;
        if (record->stage == STAGE_READY && record->due_ns <= now) {
            hf__fault_record_free(record);
            hf__fault_deliver(s, copy.key, &copy.answer);
            return true;
        }
        if (record->stage == STAGE_KEPT) {
            if (record->what)
                record->stage = STAGE_SENT;
            else
                hf__fault_record_free(record);
            call_forward(s, copy.op, copy.key, copy.mode);
            return true;
        }
    }
    return false;
}

static bool session_waits(const struct session *s)
{
    for (HF_EACH(link, &s->records)) {
        const struct record *record = HF_CONTAINER(link, struct record, link);
        if (record->stage == STAGE_READY || record->stage == STAGE_KEPT)
            return true;
    }
    return false;
}

static void session_tick(void *arg)
{
    struct session *s = arg;
    int64_t now = s->outer->ops->now(s->outer);
    while (!hf__fault_paused() && session_step(s, now))
        ;
    if (session_waits(s))
        hf__fault_arm(s);
}

/* ---- The table ------------------------------------------------------------------- */

static const struct shim *shim_find(const char *scheme)
{
    for (size_t i = 0; i < plan.shim_count; i++)
        for (const char *const *name = plan.shims[i].schemes; *name; name++)
            if (strcmp(*name, scheme) == 0)
                return &plan.shims[i];
    return NULL;
}

static int fault_open(void *session, struct hf_host *host, const struct hf_url *url,
                      uint64_t *ret_caps, hf_error *why)
{
    struct session *s = session;
    struct hf_url inner_url = *url;
    pthread_mutex_lock(&plan.mutex);
    const struct shim *shim = shim_find(url->scheme);
    pthread_mutex_unlock(&plan.mutex);
    if (!shim)
        return hf__fail(why, HF_EURL, "no store is wrapped as %s", url->scheme);

    s->host.ops = &hf__fault_host_ops;
    s->host.program = host->program;
    s->host.request_ns = host->request_ns;
    s->outer = host;
    s->inner = shim->inner;
    s->timer.callback = session_tick;
    s->timer.arg = s;
    hf__list_init(&s->records);
    inner_url.scheme = url->scheme + strlen("fault+");
    return s->inner->open(s->inner_session, &s->host, &inner_url, ret_caps, why);
}

static void fault_close(void *session, bool forked)
{
    struct session *s = session;
    if (!s->inner)
        return;
    if (!forked)
        s->outer->ops->stop_timer(s->outer, &s->timer);
    s->host.close_by_ns = s->outer->close_by_ns;
    s->inner->close(s->inner_session, forked);
    for (HF_EACH_SAFE(link, &s->records))
        hf__fault_record_free(HF_CONTAINER(link, struct record, link));
}

static void fault_attempt(void *session, struct hf_ticket *ticket)
{
    call_make(session, hf__fault_next(HF_FAULT_ATTEMPT), ticket, HF_RENEW);
}

static void fault_withdraw(void *session, struct hf_ticket *ticket)
{
    call_make(session, hf__fault_next(HF_FAULT_WITHDRAW), ticket, HF_RENEW);
}

static void fault_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                        enum hf_renew_mode mode)
{
    struct session *s = session;
    struct hf_fault fault = hf__fault_next(HF_FAULT_RENEW);
    if (!fault.what && !hf__fault_paused() && hf__list_empty(&s->records)) {
        inner_renew(s, tickets, count, mode);
        return;
    }
    for (size_t i = 0; i < count; i++)
        call_make(s, fault, tickets[i], mode);
}

static void fault_interest(void *session, struct hf_ticket *ticket)
{
    struct session *s = session;
    s->inner->interest(s->inner_session, ticket);
}

static void fault_ask(void *session, struct hf_request *request)
{
    call_make(session, hf__fault_next(HF_FAULT_ASK), request, HF_RENEW);
}

static bool fault_pass(void *session, struct hf_ticket *ticket, uint64_t token)
{
    struct session *s = session;
    return s->inner->pass(s->inner_session, ticket, token);
}

static void fault_forget(void *session, const void *ticket_or_request)
{
    struct session *s = session;
    hf__fault_drop(s, HF_FAULT_OPS, ticket_or_request);
    s->inner->forget(s->inner_session, ticket_or_request);
}

static void shim_fill(struct shim *shim, const struct hf_backend *inner)
{
    shim->inner = inner;
    for (size_t i = 0; i < SCHEMES_MAX && inner->schemes[i]; i++) {
        snprintf(shim->text[i], sizeof shim->text[i], "fault+%s", inner->schemes[i]);
        shim->schemes[i] = shim->text[i];
    }
    shim->table = *inner;
    shim->table.size = sizeof shim->table;
    shim->table.name = shim->text[0];
    shim->table.schemes = shim->schemes;
    shim->table.session_size = sizeof(struct session) + inner->session_size;
    shim->table.open = fault_open;
    shim->table.close = fault_close;
    shim->table.attempt = fault_attempt;
    shim->table.withdraw = fault_withdraw;
    shim->table.renew = fault_renew;
    shim->table.interest = fault_interest;
    shim->table.ask = fault_ask;
    shim->table.forget = fault_forget;
    shim->table.pass = inner->pass ? fault_pass : NULL;
}

int hf__fault_register(const struct hf_backend *inner, hf_error *why)
{
    int rc = 0;
    pthread_mutex_lock(&plan.mutex);
    for (size_t i = 0; i < plan.shim_count; i++)
        if (plan.shims[i].inner == inner)
            goto out;
    if (plan.shim_count == SHIMS_MAX) {
        rc = hf__fail(why, HF_EFULL, "the fault shim wraps %d stores at most",
                      SHIMS_MAX);
        goto out;
    }
    struct shim *shim = &plan.shims[plan.shim_count];
    shim_fill(shim, inner);
    rc = hf_backend_register(&shim->table, why);
    if (rc == 0)
        plan.shim_count++;
out:
    pthread_mutex_unlock(&plan.mutex);
    return rc;
}
