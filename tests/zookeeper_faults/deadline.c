/* SPDX-License-Identifier: MIT */
/*
 * Deadlines, with a server that is frozen or dead: calls end when their time is over,
 * and so does hf_close(), whatever the store could not send. The limits of the store's
 * own requests are much longer, so that a call which waits for one of them shows.
 */
#include "cases.h"

#include <stdio.h>

#define THING "thing"
#define REQUEST_MS 500 /* that a try has */
#define CLOSE_MS 300
#define STORE_MS 20000 /* of the store's own limits */

/* What a busy machine adds. */
#define LATE_MS 1500

/* The latest answer of each call. */
enum call { WAIT, LOCK, RELEASE, OPEN, CLOSE_IDLE, CLOSE_HOLDER, CLOSE_WAITER, CALLS };
static const char *const calls[CALLS] = {
    "a wait",       "a lock or a try", "a release",     "hf_open",
    "idle, closed", "holds, closed",   "asked, closed",
};
static int64_t latest[CALLS];

/* Since `since`, no later than `most_ms`, or by what a busy machine adds. */
static void in_time(enum call call, int64_t since, int64_t most_ms)
{
    int64_t late = real_ms() - since - most_ms;
    if (late > LATE_MS)
        check_failed(__FILE__, __LINE__, "%s: %lld ms after its time", calls[call],
                     (long long)late);
    latest[call] = late > latest[call] ? late : latest[call];
}

static int client_try(int connect_ms, hf_client **ret_client)
{
    char url[160];
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = REQUEST_MS;
    options.close_timeout_ms = CLOSE_MS;
    snprintf(url, sizeof url,
             "zookeeper://127.0.0.1:%d?session=%dms&timeout=%dms&connect_timeout=%dms",
             world.zoo.node[0].port, world.session_ms, STORE_MS, connect_ms);
    return hf_open(url, &options, ret_client, NULL);
}

static hf_client *client_opened(void)
{
    hf_client *client = NULL;
    CHECK_RC(client_try(STORE_MS, &client), 0);
    return client;
}

static void closed(hf_client *client, enum call call)
{
    int64_t since = real_ms();
    hf_close(client);
    in_time(call, since, CLOSE_MS);
}

/* ---- Calls ----------------------------------------------------------------------- */

/* Waits when the fault comes. */
static void waits(int64_t timeout_ms, void (*fault)(struct zookeeper *, size_t))
{
    hf_client *holder = client_opened(), *client = client_opened();
    hf_hold *hold = locked(holder, THING), *none = NULL;
    hf_want want = hf_mutex(THING);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_op *op = NULL;
    options.timeout_ms = timeout_ms;
    int64_t since = real_ms();
    CHECK_RC(hf_acquire_async(client, &want, 1, &options, NULL, NULL, &op, NULL), 0);
    EVENTUALLY(contenders(THING) == 2);
    fault(&world.zoo, 0);
    int rc = hf_op_wait(op, HF_FOREVER, &none, NULL);
    in_time(WAIT, since, timeout_ms);
    CHECK_ONE_OF(rc, HF_ETIMEOUT, HF_EUNREACHABLE, HF_EUNCERTAIN);
    hf_op_free(op);
    closed(client, CLOSE_WAITER);
    closed(holder, CLOSE_HOLDER);
    hf_release(hold, NULL);
}

/* Calls that begin after the fault. */
static void begins(int64_t timeout_ms, void (*fault)(struct zookeeper *, size_t))
{
    hf_client *idle = client_opened(), *client = client_opened();
    hf_client *other = client_opened();
    hf_hold *hold = locked(client, THING), *none = NULL;
    fault(&world.zoo, 0);
    int64_t since = real_ms();
    CHECK_ONE_OF(hf_lock(other, THING, timeout_ms, &none, NULL), HF_ETIMEOUT,
                 HF_EUNREACHABLE, HF_EUNCERTAIN);
    in_time(LOCK, since, timeout_ms ? timeout_ms : REQUEST_MS);
    since = real_ms();
    CHECK_ONE_OF(hf_release(hold, NULL), HF_EUNCERTAIN, HF_ELOST);
    in_time(RELEASE, since, REQUEST_MS);
    closed(client, CLOSE_WAITER);
    closed(other, CLOSE_WAITER);
    closed(idle, CLOSE_IDLE);
}

static void opens(void)
{
    hf_client *none = NULL;
    int64_t since = real_ms();
    CHECK_RC(client_try(1000, &none), HF_EUNREACHABLE);
    in_time(OPEN, since, 1000);
}

static void again(void)
{
    world_start(1);
    check_nothing_left();
}

static void deadlines(void (*fault)(struct zookeeper *, size_t), const char *what)
{
    const int64_t timeouts[] = { 0, 100, 1500 };
    for (int i = 0; i < CALLS; i++)
        latest[i] = 0;
    for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        world_start(1);
        begins(timeouts[i], fault);
        again();
    }
    waits(1500, fault);
    opens();
    again();
    for (int i = 0; i < CALLS; i++)
        report(what, latest[i], "%s: later than asked by", calls[i]);
}

static void frozen(void)
{
    deadlines(zookeeper_freeze, "server frozen");
}

static void dead(void)
{
    deadlines(zookeeper_kill, "server dead");
}

const struct fault_case deadline_cases[] = {
    { "deadlines-frozen", frozen },
    { "deadlines-dead", dead },
    { NULL, NULL },
};
