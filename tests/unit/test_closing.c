/* SPDX-License-Identifier: MIT */
/*
 * A client that is closed at the moment in which the answer to a call of another thread
 * has come: the answer has ended the request, and the thread that waits for it has not
 * run since. It is held fast by a signal whose handler waits (as in test_offers.c).
 */
#include "unit.h"

#include "turns_store.h"

#include "../../src/core/client.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define HOUR INT64_C(3600000) /* ms */

static hf_client *client;
static int stopped[2], freed[2]; /* pipes: the handler has begun; it may end */

struct call {
    pthread_t thread;
    hf_hold *hold, *adopted;
    char id[HF_ID_MAX];
    int rc;
};

static void stand_still(int signal)
{
    char byte = 's';
    (void)signal;
    if (write(stopped[1], &byte, 1) != 1 || read(freed[0], &byte, 1) != 1)
        abort();
}

static int asleep(void)
{
    int rc = 0;
    hf_client *inside = hf__client_lock(client, &rc, NULL);
    int count = (int)inside->inside;
    hf__client_unlock(inside);
    return count;
}

static void begin(const hf_want *wants, size_t count, struct call *call)
{
    struct sigaction action = { .sa_handler = stand_still };
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    ck_assert(pipe(stopped) == 0 && pipe(freed) == 0);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    client = turns_client(HOUR);
    how.ttl_ms = HOUR;
    ck_assert_int_eq(hf_acquire(client, wants, count, &how, &call->hold, NULL), 0);
}

/* The thread waits, and does not run any more. */
static void start(struct call *call, void *(*run)(void *))
{
    char byte;
    ck_assert_int_eq(pthread_create(&call->thread, NULL, run, call), 0);
    EVENTUALLY(asleep() == 1);
    ck_assert_int_eq(pthread_kill(call->thread, SIGUSR1), 0);
    ck_assert_int_eq(read(stopped[0], &byte, 1), 1);
}

static void *run_close(void *arg)
{
    hf_close(arg);
    return NULL;
}

/* Closes the client while the thread of the call stands still, and lets it run. */
static void close_over(struct call *call)
{
    pthread_t closer;
    ck_assert_int_eq(pthread_create(&closer, NULL, run_close, client), 0);
    EVENTUALLY(hf_capabilities(client) == 0);
    ck_assert_int_eq(write(freed[1], "f", 1), 1);
    pthread_join(call->thread, NULL);
    pthread_join(closer, NULL);
}

/* ---- The calls ------------------------------------------------------------------- */

static void *run_extend(void *arg)
{
    struct call *call = arg;
    call->rc = hf_hold_extend(call->hold, HOUR, NULL);
    return NULL;
}

/* The first of two names is extended, and then there is no second one. */
START_TEST(closed_between_two_names)
{
    hf_want both[] = { hf_mutex("one"), hf_mutex("two") };
    struct call call = { .rc = 1 };
    struct hf_lease lease;
    int rc = 0;
    begin(both, 2, &call);
    deaf = true;
    start(&call, run_extend);
    hf_client *inside = hf__client_lock(client, &rc, NULL);
    lease = (struct hf_lease){ hf__now(), HOUR * HF_NS_PER_MS };
    turns_host->ops->renewed(turns_host, turn_of("one")->ticket, HF_RENEWED, &lease);
    hf__client_unlock(inside);
    close_over(&call);
    ck_assert_int_eq(call.rc, HF_ECLOSED);
    ck_assert_int_eq(hf_release(call.hold, NULL), HF_ECLOSED);
    ck_assert(!turn_of("one")->held && !turn_of("two")->held);
}
END_TEST

static void *run_adopt(void *arg)
{
    struct call *call = arg;
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    how.ttl_ms = HOUR;
    call->rc = hf_adopt(client, call->id, &how, &call->adopted, NULL);
    return NULL;
}

/* A hold that has moved to a client that is closed is not left to nobody. */
START_TEST(closed_when_it_was_adopted)
{
    hf_want thing = hf_mutex("thing");
    struct call call = { .rc = 1 };
    int rc = 0;
    begin(&thing, 1, &call);
    ck_assert_int_eq(hf_hold_id(call.hold, 0, call.id, sizeof call.id, NULL), 0);
    silent = true;
    start(&call, run_adopt);
    hf_client *inside = hf__client_lock(client, &rc, NULL);
    struct hf_request *request = turns_asked;
    turn_of("thing")->id = request->ticket->id;
    request->grant = (struct hf_grant){ .token = request->number,
                                        .span = 1,
                                        .ttl_ns = request->ticket->ttl_ns };
    turns_host->ops->answered(turns_host, request, 0, NULL);
    hf__client_unlock(inside);
    close_over(&call);
    ck_assert_int_eq(call.rc, HF_ECLOSED);
    ck_assert_ptr_null(call.adopted);
    ck_assert_int_eq(hf_release(call.hold, NULL), HF_ECLOSED);
    ck_assert(!turn_of("thing")->held);
}
END_TEST

UNIT_MAIN("closing", closed_between_two_names, closed_when_it_was_adopted)
