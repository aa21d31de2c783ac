/* SPDX-License-Identifier: MIT */
/*
 * layout=simple for servers that forbid scripts (script=off).
 *
 * An attempt is MULTI, INCRBY token, SET NX PX, PTTL, GET, PERSIST token, EXEC. A
 * change of our own lock is WATCH and GET, and if the value is ours MULTI, DEL or
 * PEXPIRE, EXEC: the server executes nothing if the key changed in between. An EXEC
 * ends every WATCH of the connection, so all of this goes through one queue of jobs,
 * one at a time.
 *
 * A release sends no message: waiters poll at random intervals. Under the client's
 * lock.
 */
#include "noscript.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

enum job_kind { JOB_ATTEMPT, JOB_WITHDRAW, JOB_RENEW, JOB_CHECK };

struct job {
    struct hf_list_node link;
    enum job_kind kind;
    struct hf_ticket *ticket; /* NULL: forgotten */
    int64_t sent_ns, ttl_ns;
    size_t name_len, value_len;
    char value[OWNER_SIZE];
    char name[]; /* a copy: the ticket may be forgotten */
};

static void jobs_run(struct redis_session *me);

/* ---- Answers --------------------------------------------------------------------- */

/* After the last answer to an attempt no job may touch the ticket, except a withdrawal:
 * then its answer is the last one. */
static void drop_attempts(struct redis_session *me, const struct hf_ticket *ticket)
{
    for (HF_EACH(link, &me->jobs)) {
        struct job *job = HF_CONTAINER(link, struct job, link);
        if (job->ticket == ticket && job->kind != JOB_WITHDRAW)
            job->ticket = NULL;
    }
}

static void report_failed(struct redis_session *me, struct job *job,
                          const hf_error *why)
{
    struct hf_lease lease = { job->sent_ns, job->ttl_ns };
    switch (job->kind) {
    case JOB_ATTEMPT:
        if (why->code != HF_EUNREACHABLE && why->code != HF_EUNCERTAIN)
            drop_attempts(me, job->ticket);
        me->host->ops->failed(me->host, job->ticket, why);
        break;
    case JOB_WITHDRAW:
        me->host->ops->withdrawn(me->host, job->ticket,
                                 why->code == HF_EUNREACHABLE ? HF_WITHDRAWAL_UNSENT
                                                              : HF_WITHDRAWAL_UNKNOWN);
        break;
    default:
        me->host->ops->renewed(me->host, job->ticket, HF_RENEWAL_UNKNOWN, &lease);
    }
}

static void report_owned(struct redis_session *me, struct job *job, bool ours)
{
    struct hf_lease lease = { job->sent_ns, job->ttl_ns };
    switch (job->kind) {
    case JOB_WITHDRAW:
        hf__redis_noscript_forget(me, job->ticket); /* the memory is core's again */
        me->host->ops->withdrawn(me->host, job->ticket, ours ? HF_WITHDRAWN : HF_GONE);
        break;
    case JOB_CHECK:
        me->host->ops->renewed(me->host, job->ticket,
                               ours ? HF_STILL_HELD : HF_RENEWAL_LOST, &lease);
        break;
    default:
        me->host->ops->renewed(me->host, job->ticket,
                               ours ? HF_RENEWED : HF_RENEWAL_LOST, &lease);
    }
}

static void job_free(struct job *job)
{
    hf__list_remove(&job->link);
    hf__free(job);
}

/* Ends the running job; `why` NULL: the caller reports the result. */
static void job_end(struct redis_session *me, struct job *job, const hf_error *why)
{
    struct job copy = *job;
    job_free(job);
    me->job_running = false;
    if (why && copy.ticket)
        report_failed(me, &copy, why);
    jobs_run(me);
}

static void ignore_reply(void *session, void *subject, uint64_t word,
                         const struct resp *nodes, int64_t sent_ns, const hf_error *why)
{
    (void)session;
    (void)subject;
    (void)word;
    (void)nodes;
    (void)sent_ns;
    (void)why;
}

static void send(struct redis_session *me, struct job *job, struct resp_arg *args,
                 size_t count, conn_reply *reply)
{
    hf__redis_conn_send(me->conn, args, count, reply, job, 0);
}

static void send_word(struct redis_session *me, const char *word, conn_reply *reply,
                      struct job *job)
{
    struct resp_arg arg = { word, strlen(word) };
    send(me, job, &arg, 1, reply);
}

/* ---- Attempt --------------------------------------------------------------------- */

static void attempt_answered(void *session, void *subject, uint64_t word,
                             const struct resp *nodes, int64_t sent_ns,
                             const hf_error *no_reply)
{
    (void)word;
    (void)sent_ns;
    struct redis_session *me = session;
    struct job *job = subject;
    struct hf_ticket *ticket = job->ticket;
    hf_error why;
    int64_t token = 0, left = -1;
    int rc = hf__redis_reply_error(nodes, no_reply, &why);
    const struct resp *set = rc == 0 ? hf__redis_resp_at(nodes, 0, 1) : NULL;
    const struct resp *value = rc == 0 ? hf__redis_resp_at(nodes, 0, 3) : NULL;
    if (rc == 0 && ticket &&
        (!value || !hf__redis_resp_number(hf__redis_resp_at(nodes, 0, 0), &token) ||
         !hf__redis_resp_number(hf__redis_resp_at(nodes, 0, 2), &left))) {
        rc = hf__redis_ticket_bad_reply(ticket, &why);
        hf__redis_conn_distrust(me->conn);
    }
    if (rc == 0 && ticket && value && value->type == RESP_ERROR)
        rc = hf__fail_code(&why, HF_EMISMATCH);
    if (rc != 0 || !ticket || !value) {
        job_end(me, job, rc != 0 ? &why : NULL);
        return;
    }
    bool ours = value->type == RESP_TEXT && value->len == job->value_len &&
                memcmp(value->text, job->value, job->value_len) == 0;
    struct hf_grant grant;
    bool new = set->type != RESP_NIL && set->type != RESP_ERROR;
    int64_t ttl =
        new ? job->ttl_ns / HF_NS_PER_MS : left; /* a repeated attempt: what is left */
    int64_t first = token >= ticket->reserve ? token - ticket->reserve + 1 : 0;
    if (ours && !hf__redis_grant_read(&grant, ticket, first, ticket->reserve, ttl,
                                      job->sent_ns)) {
        hf__redis_ticket_bad_reply(ticket, &why);
        job_end(me, job, &why);
        return;
    }
    bool busy = !ours && ticket->flags & HF_TICKET_TRY;
    if (busy)
        drop_attempts(me, ticket); /* before job_end() starts the next job */
    job_end(me, job, NULL);
    if (ours) {
        me->host->ops->granted(me->host, ticket, &grant);
    } else if (busy) {
        me->host->ops->busy(me->host, ticket);
    } else {
        me->host->ops->queued(me->host, ticket,
                              hf__redis_poll_ms(me, left) * HF_NS_PER_MS);
    }
}

static void job_attempt(struct redis_session *me, struct job *job)
{
    char token[KEY_SIZE];
    struct args numbers;
    const struct hf_ticket *ticket = job->ticket;
    struct resp_arg name = { job->name, job->name_len };
    struct resp_arg key = { token, hf__redis_key_write(token, KEY_TOKEN, job->name,
                                                       job->name_len) };
    hf__redis_args_init(&numbers);
    hf__redis_args_number(&numbers, ticket->reserve);
    hf__redis_args_number(&numbers, hf__redis_ttl_ms(ticket));
    struct resp_arg count[] = { { "INCRBY", 6 }, key, numbers.arg[0] };
    struct resp_arg set[] = { { "SET", 3 }, name,        { job->value, job->value_len },
                              { "NX", 2 },  { "PX", 2 }, numbers.arg[1] };
    struct resp_arg left[] = { { "PTTL", 4 }, name };
    struct resp_arg get[] = { { "GET", 3 }, name };
    /* A client with scripts may have given the counter a TTL. */
    struct resp_arg keep[] = { { "PERSIST", 7 }, key };
    send_word(me, "MULTI", ignore_reply, NULL);
    send(me, NULL, count, 3, ignore_reply);
    send(me, NULL, set, 6, ignore_reply);
    send(me, NULL, left, 2, ignore_reply);
    send(me, NULL, get, 2, ignore_reply);
    send(me, NULL, keep, 2, ignore_reply);
    send_word(me, "EXEC", attempt_answered, job);
}

/* ---- Withdraw and renew: only what is ours --------------------------------------- */

static void change_answered(void *session, void *subject, uint64_t word,
                            const struct resp *nodes, int64_t sent_ns,
                            const hf_error *no_reply)
{
    (void)word;
    (void)sent_ns;
    struct redis_session *me = session;
    struct job *job = subject;
    hf_error why;
    int64_t changed = 0;
    int rc = hf__redis_reply_error(nodes, no_reply, &why);
    if (rc != 0) {
        job_end(me, job, &why);
        return;
    }
    const struct resp *first = hf__redis_resp_at(nodes, 0, 0);
    bool ours = first && hf__redis_resp_number(first, &changed) && changed == 1;
    struct job copy = *job;
    job_end(me, job, NULL);
    if (copy.ticket)
        report_owned(me, &copy, ours);
}

static void change(struct redis_session *me, struct job *job)
{
    struct args numbers;
    struct resp_arg name = { job->name, job->name_len };
    hf__redis_args_init(&numbers);
    hf__redis_args_number(&numbers, job->ttl_ns / HF_NS_PER_MS);
    struct resp_arg drop[] = { { "DEL", 3 }, name };
    struct resp_arg renew[] = { { "PEXPIRE", 7 }, name, numbers.arg[0] };
    send_word(me, "MULTI", ignore_reply, NULL);
    if (job->kind == JOB_WITHDRAW)
        send(me, NULL, drop, 2, ignore_reply);
    else
        send(me, NULL, renew, 3, ignore_reply);
    send_word(me, "EXEC", change_answered, job);
}

static void value_read(void *session, void *subject, uint64_t word,
                       const struct resp *nodes, int64_t sent_ns,
                       const hf_error *no_reply)
{
    (void)word;
    (void)sent_ns;
    struct redis_session *me = session;
    struct job *job = subject;
    hf_error why;
    int rc = hf__redis_reply_error(nodes, no_reply, &why);
    bool ours = rc == 0 && nodes[0].type == RESP_TEXT &&
                nodes[0].len == job->value_len &&
                memcmp(nodes[0].text, job->value, job->value_len) == 0;
    if (rc != 0 && rc != HF_EMISMATCH) {
        job_end(me, job, &why);
        return;
    }
    if (ours && job->kind != JOB_CHECK) {
        change(me, job);
        return;
    }
    struct job copy = *job;
    send_word(me, "UNWATCH", ignore_reply, NULL);
    job_end(me, job, NULL);
    if (copy.ticket)
        report_owned(me, &copy, ours);
}

static void job_own(struct redis_session *me, struct job *job)
{
    struct resp_arg name = { job->name, job->name_len };
    struct resp_arg watch[] = { { "WATCH", 5 }, name };
    struct resp_arg get[] = { { "GET", 3 }, name };
    send(me, NULL, watch, 2, ignore_reply);
    send(me, job, get, 2, value_read);
}

/* ---- The queue ------------------------------------------------------------------- */

/* Not recursive: when a job ends inside its own start, this loop starts the next. */
static void jobs_run(struct redis_session *me)
{
    struct hf_list_node *link;
    if (me->jobs_busy)
        return;
    me->jobs_busy = true;
    while (!me->job_running && (link = hf__list_first(&me->jobs))) {
        struct job *job = HF_CONTAINER(link, struct job, link);
        me->job_running = true;
        if (!job->ticket) {
            job_free(job);
            me->job_running = false;
        } else {
            job->sent_ns = me->host->ops->now(me->host);
            if (job->kind == JOB_ATTEMPT)
                job_attempt(me, job);
            else
                job_own(me, job);
        }
    }
    me->jobs_busy = false;
}

static void job_add(struct redis_session *me, enum job_kind kind,
                    struct hf_ticket *ticket)
{
    struct job *job = hf__alloc(sizeof(*job) + ticket->name_len);
    hf_error why;
    if (!job) {
        struct job none = { .kind = kind, .ticket = ticket };
        hf__fail_code(&why, HF_ENOMEM);
        report_failed(me, &none, &why);
        return;
    }
    job->kind = kind;
    job->ticket = ticket;
    job->ttl_ns = hf__redis_ttl_ms(ticket) * HF_NS_PER_MS;
    job->value_len = hf__redis_owner_write(job->value, LAYOUT_SIMPLE, &ticket->id);
    job->name_len = ticket->name_len;
    memcpy(job->name, ticket->name, ticket->name_len);
    hf__list_push_back(&me->jobs, &job->link);
    jobs_run(me);
}

void hf__redis_noscript_attempt(struct redis_session *me, struct hf_ticket *ticket)
{
    job_add(me, JOB_ATTEMPT, ticket);
}

void hf__redis_noscript_withdraw(struct redis_session *me, struct hf_ticket *ticket)
{
    job_add(me, JOB_WITHDRAW, ticket);
}

void hf__redis_noscript_renew(struct redis_session *me, struct hf_ticket *ticket,
                              enum hf_renew_mode mode)
{
    job_add(me, mode == HF_RENEW ? JOB_RENEW : JOB_CHECK, ticket);
}

void hf__redis_noscript_forget(struct redis_session *me, const void *ticket)
{
    for (HF_EACH(link, &me->jobs)) {
        struct job *job = HF_CONTAINER(link, struct job, link);
        if (job->ticket == ticket)
            job->ticket = NULL;
    }
}

void hf__redis_noscript_done(struct redis_session *me)
{
    for (struct hf_list_node *link; (link = hf__list_first(&me->jobs));)
        job_free(HF_CONTAINER(link, struct job, link));
}
