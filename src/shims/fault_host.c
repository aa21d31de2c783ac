/* SPDX-License-Identifier: MIT */
/*
 * The fault shim's host: every answer of the wrapped store passes here on its way to
 * core, and is lost, failed, delayed or held back if a record says so.
 *
 * Runs under the client's lock, as answers do. An answer that waits is kept in its
 * record and delivered by the session's timer (fault.c).
 */
#include "../base/error.h"
#include "../base/mem.h"
#include "fault_session.h"

#define TICK_NS INT64_C(1000000)

/* ---- Records --------------------------------------------------------------------- */

struct record *hf__fault_find(struct session *s, enum hf_fault_op op, const void *key)
{
    for (HF_EACH(link, &s->records)) {
        struct record *record = HF_CONTAINER(link, struct record, link);
        if (record->op == op && record->key == key)
            return record;
    }
    return NULL;
}

void hf__fault_record_free(struct record *record)
{
    hf__list_remove(&record->link);
    hf__free(record);
}

void hf__fault_drop(struct session *s, enum hf_fault_op op, const void *key)
{
    for (HF_EACH_SAFE(link, &s->records)) {
        struct record *record = HF_CONTAINER(link, struct record, link);
        if (record->key == key && (op == HF_FAULT_OPS || record->op == op))
            hf__fault_record_free(record);
    }
}

struct record *hf__fault_record(struct session *s, struct hf_fault fault, void *key,
                                enum stage stage)
{
    struct record *record = hf__alloc(sizeof *record);
    if (!record)
        return NULL;
    record->op = fault.op;
    record->what = fault.what;
    record->delay_ns = fault.delay_ms * 1000000;
    record->stage = stage;
    record->key = key;
    hf__list_push_back(&s->records, &record->link);
    return record;
}

void hf__fault_arm(struct session *s)
{
    if (!s->timer.slot)
        s->outer->ops->set_timer(s->outer, &s->timer,
                                 s->outer->ops->now(s->outer) + TICK_NS);
}

/* ---- Answers: from the inner store to core --------------------------------------- */

void hf__fault_deliver(struct session *s, void *key, const struct answer *answer)
{
    struct hf_host *host = s->outer;
    const struct hf_host_ops *ops = host->ops;
    switch (answer->kind) {
    case ANSWER_GRANTED:
        ops->granted(host, key, &answer->grant);
        break;
    case ANSWER_QUEUED:
        ops->queued(host, key, answer->retry_ns);
        break;
    case ANSWER_NOTICE:
        ops->notice(host, key);
        break;
    case ANSWER_BUSY:
        ops->busy(host, key);
        break;
    case ANSWER_FAILED:
        ops->failed(host, key, &answer->why);
        break;
    case ANSWER_WITHDRAWN:
        if (answer->code == HF_WITHDRAWN || answer->code == HF_GONE)
            hf__fault_drop(s, HF_FAULT_OPS, key);
        ops->withdrawn(host, key, (enum hf_withdrawal)answer->code);
        break;
    case ANSWER_RENEWED:
        ops->renewed(host, key, (enum hf_renewal)answer->code, &answer->lease);
        break;
    case ANSWER_EVENT:
        ops->event(host, key, (enum hf_event)answer->code);
        break;
    case ANSWER_ANSWERED:
        ops->answered(host, key, answer->code, &answer->why);
        break;
    }
}

struct answer hf__fault_failure(enum hf_fault_op op, int code)
{
    struct answer answer = { .kind = ANSWER_FAILED, .code = code };
    hf__fail(&answer.why, code, "the fault shim failed this call");
    if (op == HF_FAULT_WITHDRAW) {
        answer.kind = ANSWER_WITHDRAWN;
        answer.code =
            code == HF_EUNREACHABLE ? HF_WITHDRAWAL_UNSENT : HF_WITHDRAWAL_UNKNOWN;
    } else if (op == HF_FAULT_RENEW) {
        answer.kind = ANSWER_RENEWED;
        answer.code = HF_RENEWAL_UNKNOWN;
    } else if (op == HF_FAULT_ASK) {
        answer.kind = ANSWER_ANSWERED;
    }
    return answer;
}

/* Keeps an answer for later. A later one about the same ticket or request replaces it,
 * because otherwise core would hear "queued" after "granted". */
static void answer_keep(struct session *s, struct record *record,
                        const struct answer *answer)
{
    if (record->stage != STAGE_READY) {
        record->stage = STAGE_READY;
        record->due_ns = s->outer->ops->now(s->outer) + record->delay_ns;
    }
    record->answer = *answer;
    hf__fault_arm(s);
}

static void answer_tamper(struct session *s, struct record *record,
                          const struct answer *answer)
{
    void *key = record->key;
    struct answer failure = hf__fault_failure(record->op, HF_EUNCERTAIN);
    if (record->stage == STAGE_SILENT)
        return;
    switch (record->what) {
    case HF_FAULT_LOSE:
        hf__fault_record_free(record);
        break;
    case HF_FAULT_FAIL_AFTER:
        if (record->op == HF_FAULT_ATTEMPT)
            record->stage = STAGE_SILENT;
        else
            hf__fault_record_free(record);
        hf__fault_deliver(s, key, &failure);
        break;
    default:
        answer_keep(s, record, answer);
        break;
    }
}

/* Every answer of the inner store comes through here. */
static void answer_route(struct session *s, enum hf_fault_op op, void *key,
                         const struct answer *answer)
{
    struct record *record = hf__fault_find(s, op, key);
    if (!record && hf__fault_paused())
        record = hf__fault_record(s, (struct hf_fault){ .op = op }, key, STAGE_SENT);
    if (record)
        answer_tamper(s, record, answer);
    else
        hf__fault_deliver(s, key, answer);
}

static struct session *session_of(struct hf_host *host)
{
    return HF_CONTAINER(host, struct session, host);
}

static void host_granted(struct hf_host *host, struct hf_ticket *ticket,
                         const struct hf_grant *grant)
{
    struct answer answer = { .kind = ANSWER_GRANTED, .grant = *grant };
    answer_route(session_of(host), HF_FAULT_ATTEMPT, ticket, &answer);
}

static void host_queued(struct hf_host *host, struct hf_ticket *ticket,
                        int64_t retry_ns)
{
    struct answer answer = { .kind = ANSWER_QUEUED, .retry_ns = retry_ns };
    answer_route(session_of(host), HF_FAULT_ATTEMPT, ticket, &answer);
}

static void host_notice(struct hf_host *host, struct hf_ticket *ticket)
{
    struct answer answer = { .kind = ANSWER_NOTICE };
    answer_route(session_of(host), HF_FAULT_ATTEMPT, ticket, &answer);
}

static void host_busy(struct hf_host *host, struct hf_ticket *ticket)
{
    struct answer answer = { .kind = ANSWER_BUSY };
    answer_route(session_of(host), HF_FAULT_ATTEMPT, ticket, &answer);
}

static void host_failed(struct hf_host *host, struct hf_ticket *ticket,
                        const hf_error *why)
{
    struct answer answer = { .kind = ANSWER_FAILED, .why = *why };
    answer_route(session_of(host), HF_FAULT_ATTEMPT, ticket, &answer);
}

static void host_withdrawn(struct hf_host *host, struct hf_ticket *ticket,
                           enum hf_withdrawal withdrawal)
{
    struct answer answer = { .kind = ANSWER_WITHDRAWN, .code = (int)withdrawal };
    answer_route(session_of(host), HF_FAULT_WITHDRAW, ticket, &answer);
}

static void host_renewed(struct hf_host *host, struct hf_ticket *ticket,
                         enum hf_renewal renewal, const struct hf_lease *lease)
{
    struct session *s = session_of(host);
    struct answer answer = { .kind = ANSWER_RENEWED, .code = (int)renewal };
    answer.lease = lease ? *lease : (struct hf_lease){ s->renew_ns, ticket->ttl_ns };
    answer_route(s, HF_FAULT_RENEW, ticket, &answer);
}

static void host_event(struct hf_host *host, struct hf_ticket *ticket,
                       enum hf_event event)
{
    struct session *s = session_of(host);
    struct answer answer = { .kind = ANSWER_EVENT, .code = (int)event };
    struct hf_fault fault = hf__fault_next(HF_FAULT_EVENT);
    if (fault.what == HF_FAULT_LOSE)
        return;
    if (fault.what == HF_FAULT_DELAY)
        hf__fault_record(s, fault, ticket, STAGE_SENT);
    answer_route(s, HF_FAULT_EVENT, ticket, &answer);
}

static void host_reason(struct hf_host *host, struct hf_ticket *ticket,
                        const char *text)
{
    struct hf_host *outer = session_of(host)->outer;
    outer->ops->reason(outer, ticket, text);
}

static void host_answered(struct hf_host *host, struct hf_request *request, int rc,
                          const hf_error *why)
{
    struct answer answer = { .kind = ANSWER_ANSWERED, .code = rc };
    if (why)
        answer.why = *why;
    else if (rc != 0)
        hf__fail_code(&answer.why, rc);
    answer_route(session_of(host), HF_FAULT_ASK, request, &answer);
}

/* If an answer is dropped, its data is dropped too. */
static bool data_is_lost(struct session *s, const struct hf_request *request)
{
    const struct record *record = hf__fault_find(s, HF_FAULT_ASK, request);
    return record &&
           (record->what == HF_FAULT_LOSE || record->what == HF_FAULT_FAIL_AFTER);
}

static void host_entry(struct hf_host *host, struct hf_request *request,
                       const hf_entry *entry)
{
    struct session *s = session_of(host);
    if (!data_is_lost(s, request))
        s->outer->ops->entry(s->outer, request, entry);
}

static void host_cell_data(struct hf_host *host, struct hf_request *request,
                           const void *data, size_t len)
{
    struct session *s = session_of(host);
    if (!data_is_lost(s, request))
        s->outer->ops->cell_data(s->outer, request, data, len);
}

static void host_finding(struct hf_host *host, struct hf_request *request,
                         const hf_finding *finding)
{
    struct session *s = session_of(host);
    if (!data_is_lost(s, request))
        s->outer->ops->finding(s->outer, request, finding);
}

static void host_progress(struct hf_host *host, struct hf_request *request)
{
    struct session *s = session_of(host);
    if (!data_is_lost(s, request) && !hf__fault_paused())
        s->outer->ops->progress(s->outer, request);
}

static int host_add_fd(struct hf_host *host, int fd, uint32_t events,
                       hf_fd_cb *callback, void *arg)
{
    struct hf_host *outer = session_of(host)->outer;
    return outer->ops->add_fd(outer, fd, events, callback, arg);
}

static void host_remove_fd(struct hf_host *host, int fd)
{
    struct hf_host *outer = session_of(host)->outer;
    outer->ops->remove_fd(outer, fd);
}

static int host_set_timer(struct hf_host *host, struct hf_timer *timer, int64_t at_ns)
{
    struct hf_host *outer = session_of(host)->outer;
    return outer->ops->set_timer(outer, timer, at_ns);
}

static void host_stop_timer(struct hf_host *host, struct hf_timer *timer)
{
    struct hf_host *outer = session_of(host)->outer;
    outer->ops->stop_timer(outer, timer);
}

static int64_t host_now(struct hf_host *host)
{
    struct hf_host *outer = session_of(host)->outer;
    return outer->ops->now(outer);
}

const struct hf_host_ops hf__fault_host_ops = {
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
