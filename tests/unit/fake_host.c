/* SPDX-License-Identifier: MIT */
/*
 * The fake host of fake_host.h. It records what core would act on, and asserts what
 * core relies on: answers come on the session's own thread, inside a call to the store,
 * and nothing stays in the loop when a session is closed.
 */
#include "fake_host.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "../../src/base/text.h"
#include "../../src/base/url.h"

#include <check.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 10000
#define TURN_MS 100
#define REQUEST_NS INT64_C(5000000000)
#define CLOSE_NS INT64_C(2000000000)

const char *fake_program = "fake";

static _Atomic uint64_t next_id = 1;

static struct fake_host *fake_of(struct hf_host *host)
{
    return (struct fake_host *)(void *)((char *)host -
                                        offsetof(struct fake_host, host));
}

static void call_begin(struct fake_host *fake)
{
    ck_assert_msg(pthread_equal(fake->thread, pthread_self()),
                  "a session is used from two threads");
    fake->calls++;
}

static void call_end(struct fake_host *fake)
{
    fake->calls--;
}

/* ---- Answers --------------------------------------------------------------------- */

static struct fake_answer *note(struct hf_host *host, enum fake_what what,
                                const void *about, int code)
{
    struct fake_host *fake = fake_of(host);

    ck_assert_msg(fake->calls && pthread_equal(fake->thread, pthread_self()),
                  "an answer outside of any call, or on the wrong thread");
    ck_assert_uint_lt(fake->count, FAKE_MAX);
    struct fake_answer *answer =
        &fake->answers[(fake->first + fake->count++) % FAKE_MAX];
    *answer = (struct fake_answer){ .what = what, .about = about, .code = code };
    return answer;
}

static void host_granted(struct hf_host *host, struct hf_ticket *ticket,
                         const struct hf_grant *grant)
{
    note(host, FAKE_GRANTED, ticket, 0)->grant = *grant;
}

static void host_queued(struct hf_host *host, struct hf_ticket *ticket,
                        int64_t retry_ns)
{
    note(host, FAKE_QUEUED, ticket, 0)->retry_ns = retry_ns;
}

static void host_notice(struct hf_host *host, struct hf_ticket *ticket)
{
    note(host, FAKE_NOTICE, ticket, 0);
}

static void host_busy(struct hf_host *host, struct hf_ticket *ticket)
{
    ck_assert_msg(ticket->flags & HF_TICKET_TRY, "busy is for HF_TICKET_TRY only");
    note(host, FAKE_BUSY, ticket, 0);
}

static void host_failed(struct hf_host *host, struct hf_ticket *ticket,
                        const hf_error *why)
{
    note(host, FAKE_FAILED, ticket, why->code)->why = *why;
}

static void host_withdrawn(struct hf_host *host, struct hf_ticket *ticket,
                           enum hf_withdrawal answer)
{
    note(host, FAKE_WITHDRAWN, ticket, (int)answer);
}

static void host_renewed(struct hf_host *host, struct hf_ticket *ticket,
                         enum hf_renewal answer, const struct hf_lease *lease)
{
    struct fake_answer *told = note(host, FAKE_RENEWED, ticket, (int)answer);
    if (lease)
        told->lease = *lease;
}

static void host_event(struct hf_host *host, struct hf_ticket *ticket,
                       enum hf_event event)
{
    note(host, FAKE_EVENT, ticket, (int)event);
}

static void host_reason(struct hf_host *host, struct hf_ticket *ticket,
                        const char *text)
{
    struct fake_host *fake = fake_of(host);
    (void)ticket;
    snprintf(fake->reason, sizeof(fake->reason), "%s", text);
    fake->reason_count++;
}

static void host_answered(struct hf_host *host, struct hf_request *request, int rc,
                          const hf_error *why)
{
    struct fake_answer *answer = note(host, FAKE_ANSWERED, request, rc);
    if (why)
        answer->why = *why;
}

static void host_entry(struct hf_host *host, struct hf_request *request,
                       const hf_entry *entry)
{
    struct fake_host *fake = fake_of(host);
    (void)request;
    ck_assert_uint_lt(fake->entry_count, FAKE_MAX);
    struct fake_entry *copy = &fake->entries[fake->entry_count++];
    copy->entry = *entry;
    snprintf(copy->name, sizeof(copy->name), "%s", entry->name);
    snprintf(copy->host, sizeof(copy->host), "%s", entry->host);
    snprintf(copy->program, sizeof(copy->program), "%s", entry->program);
    snprintf(copy->note, sizeof(copy->note), "%s", entry->note);
}

static void host_cell_data(struct hf_host *host, struct hf_request *request,
                           const void *data, size_t len)
{
    struct fake_host *fake = fake_of(host);
    (void)request;
    ck_assert_uint_le(len, HF_CELL_MAX);
    memcpy(fake->cell, data, len);
    fake->cell[len] = '\0';
    fake->cell_len = len;
}

static void host_finding(struct hf_host *host, struct hf_request *request,
                         const hf_finding *finding)
{
    struct fake_host *fake = fake_of(host);
    (void)request;
    ck_assert_uint_lt(fake->finding_count, FAKE_SLOTS * 2);
    struct fake_finding *copy = &fake->findings[fake->finding_count++];
    copy->level = finding->level;
    snprintf(copy->topic, sizeof(copy->topic), "%s", finding->topic);
    snprintf(copy->what, sizeof(copy->what), "%s", finding->what);
    snprintf(copy->fix, sizeof(copy->fix), "%s", finding->fix);
}

static void host_progress(struct hf_host *host, struct hf_request *request)
{
    (void)request;
    ck_assert_uint_gt(fake_of(host)->calls, 0);
    fake_of(host)->progress_count++;
}

/* ---- Loop ------------------------------------------------------------------------ */

static int host_add_fd(struct hf_host *host, int fd, uint32_t events,
                       hf_fd_cb *callback, void *arg)
{
    struct fake_host *fake = fake_of(host);
    for (size_t i = 0; i < FAKE_SLOTS; i++) {
        ck_assert(!fake->watches[i].callback || fake->watches[i].fd != fd);
        if (fake->watches[i].callback)
            continue;
        fake->watches[i] = (struct fake_watch){ fd, events, callback, arg };
        return 0;
    }
    return HF_ENOMEM;
}

static void host_remove_fd(struct hf_host *host, int fd)
{
    struct fake_host *fake = fake_of(host);
    for (size_t i = 0; i < FAKE_SLOTS; i++)
        if (fake->watches[i].callback && fake->watches[i].fd == fd)
            fake->watches[i].callback = NULL;
}

static int host_set_timer(struct hf_host *host, struct hf_timer *timer, int64_t at_ns)
{
    struct fake_host *fake = fake_of(host);
    for (size_t i = 0; i < FAKE_SLOTS && !timer->slot; i++) {
        if (!fake->timers[i]) {
            fake->timers[i] = timer;
            timer->slot = i + 1;
        }
    }
    if (!timer->slot)
        return HF_ENOMEM;
    timer->at_ns = at_ns;
    return 0;
}

static void host_stop_timer(struct hf_host *host, struct hf_timer *timer)
{
    if (timer->slot)
        fake_of(host)->timers[timer->slot - 1] = NULL;
    timer->slot = 0;
}

static int64_t host_now(struct hf_host *host)
{
    struct fake_clock *clock = fake_of(host)->clock;
    return clock ? clock->now_ns : hf__now();
}

static const struct hf_host_ops ops = {
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

static void turn_fds(struct fake_host *fake, int timeout_ms)
{
    struct pollfd polled[FAKE_SLOTS];
    for (size_t i = 0; i < FAKE_SLOTS; i++)
        polled[i] = (struct pollfd){
            .fd = fake->watches[i].callback ? fake->watches[i].fd : -1,
            .events = (short)fake->watches[i].events,
        };
    if (poll(polled, FAKE_SLOTS, timeout_ms) <= 0)
        return;
    for (size_t i = 0; i < FAKE_SLOTS; i++) {
        struct fake_watch *watch = &fake->watches[i];
        if (!polled[i].revents || !watch->callback || watch->fd != polled[i].fd)
            continue;
        fake->wakes++;
        watch->callback(watch->arg, (uint32_t)polled[i].revents);
    }
}

static void turn_timers(struct fake_host *fake)
{
    for (size_t i = 0; i < FAKE_SLOTS; i++) {
        struct hf_timer *timer = fake->timers[i];
        if (timer && timer->at_ns <= host_now(&fake->host)) {
            host_stop_timer(&fake->host, timer);
            timer->callback(timer->arg);
        }
    }
}

void fake_turn(struct fake_host *fake, int timeout_ms)
{
    call_begin(fake);
    turn_timers(fake);
    turn_fds(fake, fake->count ? 0 : timeout_ms);
    call_end(fake);
}

static struct fake_answer take(struct fake_host *fake)
{
    struct fake_answer answer = fake->answers[fake->first];
    fake->first = (fake->first + 1) % FAKE_MAX;
    fake->count--;
    return answer;
}

struct fake_answer fake_next(struct fake_host *fake)
{
    for (int waited = 0; !fake->count && waited < PATIENCE_MS; waited += TURN_MS)
        fake_turn(fake, TURN_MS);
    ck_assert_msg(fake->count, "no answer");
    return take(fake);
}

bool fake_quiet(struct fake_host *fake)
{
    if (!fake->count)
        fake_turn(fake, 0);
    return fake->count == 0;
}

/* ---- Session --------------------------------------------------------------------- */

int fake_open_why(struct fake_host *fake, const struct hf_backend *store,
                  const char *url, struct fake_clock *clock, hf_error *why)
{
    struct hf_url parsed;
    void *memory = NULL;
    int rc = hf__url_parse(url, &parsed, &memory, why);

    memset(fake, 0, sizeof(*fake));
    if (rc < 0)
        return rc;
    fake->host = (struct hf_host){ .ops = &ops,
                                   .program = fake_program,
                                   .request_ns = REQUEST_NS };
    fake->store = store;
    fake->clock = clock;
    fake->thread = pthread_self();
    fake->entries = calloc(FAKE_MAX, sizeof(fake->entries[0]));
    fake->session = calloc(1, store->session_size);
    rc = store->open(fake->session, &fake->host, &parsed, &fake->capabilities, why);
    hf__free(memory);
    if (rc < 0)
        fake_close(fake);
    return rc;
}

int fake_open(struct fake_host *fake, const struct hf_backend *store, const char *url,
              struct fake_clock *clock)
{
    return fake_open_why(fake, store, url, clock, NULL);
}

static void close_session(struct fake_host *fake, bool forked)
{
    size_t answers = fake->count;

    fake->thread = pthread_self();
    call_begin(fake);
    fake->host.close_by_ns = fake->host.ops->now(&fake->host) + CLOSE_NS;
    fake->store->close(fake->session, forked);
    call_end(fake);
    ck_assert_uint_eq(fake->count, answers);
    for (size_t i = 0; i < FAKE_SLOTS && !forked; i++)
        ck_assert(!fake->watches[i].callback && !fake->timers[i]);
    free(fake->session);
    free(fake->entries);
}

void fake_close(struct fake_host *fake)
{
    close_session(fake, false);
}

void fake_close_forked(struct fake_host *fake)
{
    close_session(fake, true);
}

/* ---- Tickets, requests ----------------------------------------------------------- */

struct hf_id fake_id(void)
{
    uint64_t number = atomic_fetch_add(&next_id, 1);
    return (struct hf_id){ { number, ~number } };
}

struct hf_ticket fake_permits(const char *name, int kind, uint32_t permits,
                              uint32_t limit)
{
    return (struct hf_ticket){
        .id = fake_id(),
        .name = name,
        .name_len = (uint32_t)strlen(name),
        .name_hash = hf__text_hash(name, strlen(name)),
        .kind = kind,
        .permits = permits,
        .limit = limit,
        .reserve = 1,
        .note = "",
    };
}

struct hf_ticket fake_ticket(const char *name, int kind)
{
    return fake_permits(name, kind, 1, 1);
}

struct hf_request fake_request(int verb, const char *name)
{
    return (struct hf_request){
        .verb = verb,
        .id = fake_id(),
        .name = name,
        .name_len = (uint32_t)strlen(name),
        .name_hash = hf__text_hash(name, strlen(name)),
    };
}

/* ---- Calls ----------------------------------------------------------------------- */

void fake_attempt(struct fake_host *fake, struct hf_ticket *ticket)
{
    call_begin(fake);
    fake->store->attempt(fake->session, ticket);
    call_end(fake);
}

void fake_interest(struct fake_host *fake, struct hf_ticket *ticket)
{
    call_begin(fake);
    fake->store->interest(fake->session, ticket);
    call_end(fake);
}

void fake_forget(struct fake_host *fake, const void *ticket_or_request)
{
    call_begin(fake);
    fake->store->forget(fake->session, ticket_or_request);
    call_end(fake);
}

static bool is_wanted(const struct fake_answer *answer, const void *about,
                      enum fake_what what)
{
    if (answer->about != about)
        return false;
    return what ? answer->what == what : answer->what <= FAKE_FAILED;
}

/* The answer that a call asked for may come after older ones: those stay. `what`
 * FAKE_NOTHING: any answer to an attempt. */
static struct fake_answer answer_to(struct fake_host *fake, const void *about,
                                    enum fake_what what)
{
    for (int waited = 0; waited < PATIENCE_MS; waited += TURN_MS) {
        for (size_t i = 0; i < fake->count; i++) {
            struct fake_answer *at = &fake->answers[(fake->first + i) % FAKE_MAX];
            struct fake_answer found = *at;
            if (!is_wanted(at, about, what))
                continue;
            for (size_t k = i; k > 0; k--)
                fake->answers[(fake->first + k) % FAKE_MAX] =
                    fake->answers[(fake->first + k - 1) % FAKE_MAX];
            fake->answers[fake->first] = found;
            return take(fake);
        }
        fake_turn(fake, TURN_MS);
    }
    ck_abort_msg("no answer");
}

struct fake_answer fake_try(struct fake_host *fake, struct hf_ticket *ticket)
{
    fake_attempt(fake, ticket);
    return answer_to(fake, ticket, FAKE_NOTHING);
}

enum hf_withdrawal fake_withdraw(struct fake_host *fake, struct hf_ticket *ticket)
{
    call_begin(fake);
    fake->store->withdraw(fake->session, ticket);
    call_end(fake);
    struct fake_answer answer = answer_to(fake, ticket, FAKE_WITHDRAWN);
    return (enum hf_withdrawal)answer.code;
}

enum hf_renewal fake_renew(struct fake_host *fake, struct hf_ticket *ticket,
                           enum hf_renew_mode mode)
{
    call_begin(fake);
    fake->store->renew(fake->session, &ticket, 1, mode);
    call_end(fake);
    struct fake_answer answer = answer_to(fake, ticket, FAKE_RENEWED);
    return (enum hf_renewal)answer.code;
}

int fake_ask(struct fake_host *fake, struct hf_request *request, hf_error *why)
{
    fake->entry_count = fake->finding_count = 0;
    call_begin(fake);
    fake->store->ask(fake->session, request);
    call_end(fake);
    struct fake_answer answer = answer_to(fake, request, FAKE_ANSWERED);
    if (why)
        *why = answer.why;
    return answer.code;
}

uint64_t fake_expect_grant(struct fake_host *fake, const struct hf_ticket *ticket)
{
    struct fake_answer answer = fake_next(fake);
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    ck_assert_ptr_eq(answer.about, ticket);
    return answer.grant.token;
}

void fake_expect_event(struct fake_host *fake, const struct hf_ticket *ticket,
                       enum hf_event event)
{
    struct fake_answer answer = fake_next(fake);
    ck_assert_int_eq(answer.what, FAKE_EVENT);
    ck_assert_int_eq(answer.code, (int)event);
    ck_assert_ptr_eq(answer.about, ticket);
}
