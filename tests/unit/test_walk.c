/* SPDX-License-Identifier: MIT */
/*
 * How long core waits for a request that takes many steps, with a store that is a
 * script: each tick of its timer moves the clock by 40 seconds, and then the store
 * has made a step, or is silent, or says the end. A request timeout is a minute: what
 * passes of real time plays no part.
 */
#include "unit.h"

#include "../../include/holdfast/backend.h"
#include "unit_clock.h"

enum { STEP_MS = 40000, TIMEOUT_MS = 60000, TRIES = 3 };

static struct script {
    int steps;  /* of a walk that ends */
    int silent; /* from this step on, on the first `bad` tries */
    int failed; /* the same, and it says so */
    int bad;
} script;

static struct walker {
    struct hf_host *host;
    struct hf_request *request;
    struct hf_timer timer;
    int tries, step;
} * walker;

static hf_client *client;

/* ---- The store ------------------------------------------------------------------- */

static void tell(const char *name)
{
    hf_entry row = { .size = sizeof row, .name = name, .kind = HF_MUTEX };
    if (walker->request->verb == HF_INSPECT)
        walker->host->ops->entry(walker->host, walker->request, &row);
}

static void tick_later(void)
{
    int64_t now = walker->host->ops->now(walker->host);
    walker->host->ops->set_timer(walker->host, &walker->timer, now + 1);
}

static void end(int rc)
{
    struct hf_request *request = walker->request;
    walker->request = NULL;
    walker->host->ops->answered(walker->host, request, rc, NULL);
}

static void tick(void *arg)
{
    bool bad = walker->tries <= script.bad;
    (void)arg;
    clock_pass(STEP_MS);
    walker->step++;
    if (bad && script.failed && walker->step >= script.failed) {
        end(HF_EUNCERTAIN);
        return;
    }
    if (walker->step == script.steps) {
        tell("late");
        end(0);
        return;
    }
    if (!bad || !script.silent || walker->step < script.silent)
        walker->host->ops->progress(walker->host, walker->request);
    tick_later();
}

static void walk_ask(void *session, struct hf_request *request)
{
    struct walker *me = session;
    me->request = request;
    me->step = 0;
    me->tries++;
    tell("early");
    tick_later();
}

static void walk_forget(void *session, const void *request)
{
    struct walker *me = session;
    if (me->request != request)
        return;
    me->request = NULL;
    me->host->ops->stop_timer(me->host, &me->timer);
}

static int walk_open(void *session, struct hf_host *host, const struct hf_url *url,
                     uint64_t *ret_caps, hf_error *why)
{
    (void)url;
    (void)why;
    walker = session;
    walker->host = host;
    walker->timer.callback = tick;
    *ret_caps = HF_CAP_INSPECT | HF_CAP_EVICT;
    return 0;
}

static void walk_close(void *session, bool forked)
{
    struct walker *me = session;
    (void)forked;
    me->host->ops->stop_timer(me->host, &me->timer);
}

/* There are no locks: these are never called. */
static void no_ticket(void *session, struct hf_ticket *ticket)
{
    (void)session;
    (void)ticket;
    ck_abort();
}

static void no_renewal(void *session, struct hf_ticket *const *tickets, size_t count,
                       enum hf_renew_mode mode)
{
    (void)tickets;
    (void)count;
    (void)mode;
    no_ticket(session, NULL);
}

static const char *const schemes[] = { "walk", NULL };
static const char *const options[] = { NULL };

static const struct hf_backend store = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "walk",
    .schemes = schemes,
    .options = options,
    .session_size = sizeof(struct walker),
    .open = walk_open,
    .close = walk_close,
    .attempt = no_ticket,
    .withdraw = no_ticket,
    .renew = no_renewal,
    .interest = no_ticket,
    .ask = walk_ask,
    .forget = walk_forget,
};

/* ---- Walks ----------------------------------------------------------------------- */

/* How many rows there are, or a code; *ret_ms is how long it took. */
static int walk(struct script plan, int64_t *ret_ms)
{
    hf_options given = HF_OPTIONS_INIT;
    hf_report *report = NULL;
    given.request_timeout_ms = TIMEOUT_MS;
    clock_begin();
    script = plan;
    ck_assert_int_eq(hf_backend_register(&store, NULL), 0);
    ck_assert_int_eq(hf_open("walk:", &given, &client, NULL), 0);
    int64_t since = hf__now();
    int rc = hf_inspect(client, "", true, &report, NULL);
    *ret_ms = (hf__now() - since) / HF_NS_PER_MS;
    int rows = rc == 0 ? (int)hf_report_count(report) : rc;
    hf_report_free(report);
    return rows;
}

START_TEST(goes_on_while_there_are_steps)
{
    int64_t took;
    ck_assert_int_eq(walk((struct script){ .steps = 10 }, &took), 2);
    ck_assert_int_eq(walker->tries, 1);
    ck_assert_int_ge(took, 10 * STEP_MS);
    hf_close(client);
}
END_TEST

/* Two steps of nothing are too much, and each try has its time. */
START_TEST(silence_ends_it)
{
    int64_t took;
    struct script plan = { .steps = 10, .silent = 4, .bad = TRIES };
    ck_assert_int_eq(walk(plan, &took), HF_EUNREACHABLE);
    ck_assert_int_eq(walker->tries, TRIES);
    ck_assert_int_ge(took, TRIES * 5 * STEP_MS);
    ck_assert_int_lt(took, TRIES * 6 * STEP_MS);
    ck_assert_ptr_null(walker->request);
    hf_close(client);
}
END_TEST

/* Steps give time, not tries: a walk that breaks off each time ends as well. */
START_TEST(steps_are_no_new_tries)
{
    int64_t took;
    struct script plan = { .steps = 10, .failed = 8, .bad = 100 };
    ck_assert_int_eq(walk(plan, &took), HF_EUNREACHABLE);
    ck_assert_int_eq(walker->tries, TRIES);
    hf_close(client);
}
END_TEST

/* What the first try told is not told twice. */
START_TEST(begins_anew)
{
    int64_t took;
    struct script plan = { .steps = 10, .silent = 4, .bad = 1 };
    ck_assert_int_eq(walk(plan, &took), 2);
    ck_assert_int_eq(walker->tries, 2);
    hf_close(client);
}
END_TEST

START_TEST(what_changes_something_is_open_then)
{
    int64_t took;
    struct script plan = { .steps = 10, .silent = 4, .bad = 100 };
    ck_assert_int_eq(walk(plan, &took), HF_EUNREACHABLE);
    ck_assert_int_eq(hf_evict(client, "name", 7, NULL), HF_EUNCERTAIN);
    ck_assert_int_eq(walker->tries, 2 * TRIES);
    hf_close(client);
}
END_TEST

UNIT_MAIN("walk", goes_on_while_there_are_steps, silence_ends_it,
          steps_are_no_new_tries, begins_anew, what_changes_something_is_open_then)
