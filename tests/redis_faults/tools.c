/* SPDX-License-Identifier: MIT */
/*
 * What the cases are written with: see cases.h. All on the case's main thread, but for
 * watches, which the library calls on its own.
 */
#include "cases.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SLACK_MS 3000 /* for a busy machine */

struct world world;

/* ---- The case's world ------------------------------------------------------------ */

void world_start(const char *const *options)
{
    redis_start(&world.server, world.directory, false, options);
    world.raw = raw_open(world.server.socket);
}

void world_kill(void)
{
    raw_close(world.raw);
    world.raw = NULL;
    redis_kill(&world.server);
}

void world_done(void)
{
    if (world.server.pid)
        world_kill();
    if (world.proxy)
        proxy_stop(world.proxy);
    world.proxy = NULL;
}

static hf_client *client_open(const char *url)
{
    hf_client *client = NULL;
    hf_error why = { 0 };
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = strstr(url, "timeout=") ? BUSY_MS : 0;
    if (hf_open(url, &options, &client, &why) != 0)
        check_failed(__FILE__, __LINE__, "hf_open: %s: %s", hf_error_name(why.code),
                     why.text);
    return client;
}

hf_client *opened(void)
{
    char url[256];
    snprintf(url, sizeof url, "redis+unix://%s?protocol=%d", world.server.socket,
             world.protocol);
    return client_open(url);
}

void url_through(char *url, size_t size, const char *user)
{
    if (!world.proxy)
        world.proxy = proxy_start(world.server.socket);
    snprintf(url, size, "redis://%s127.0.0.1:%d?protocol=%d&timeout=%dms", user,
             proxy_port(world.proxy), world.protocol, REQUEST_MS);
}

hf_client *opened_through(const char *user)
{
    char url[256];
    url_through(url, sizeof url, user);
    return client_open(url);
}

/* ---- Locks ----------------------------------------------------------------------- */

static hf_acquire_options options_of(int64_t timeout_ms, int64_t lease_ms)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = timeout_ms;
    options.ttl_ms = lease_ms;
    return options;
}

int lock(hf_client *client, const char *name, int64_t timeout_ms, int64_t lease_ms,
         hf_hold **ret_hold)
{
    hf_want want = hf_mutex(name);
    hf_acquire_options options = options_of(timeout_ms, lease_ms);
    return hf_acquire(client, &want, 1, &options, ret_hold, NULL);
}

hf_hold *locked(hf_client *client, const char *name, int64_t lease_ms)
{
    hf_hold *hold = NULL;
    CHECK_RC(lock(client, name, 0, lease_ms, &hold), 0);
    check_guarded(hold, name);
    return hold;
}

hf_op *waiting(hf_client *client, const char *name, int64_t lease_ms)
{
    hf_op *op = NULL;
    hf_want want = hf_mutex(name);
    hf_acquire_options options = options_of(HF_FOREVER, lease_ms);
    CHECK_RC(hf_acquire_async(client, &want, 1, &options, NULL, NULL, &op, NULL), 0);
    EVENTUALLY(raw_number(world.raw, "LLEN holdfast_queue:{%s}", name) == 1);
    return op;
}

hf_hold *waited(hf_op *op)
{
    hf_hold *hold = NULL;
    CHECK_RC(hf_op_wait(op, PATIENCE_MS, &hold, NULL), 0);
    hf_op_free(op);
    return hold;
}

static void events_told(void *user, hf_hold *hold, enum hf_event event,
                        const hf_error *why)
{
    struct events *events = user;
    (void)hold;
    (void)why;
    atomic_fetch_add(&events->lost, event == HF_EVENT_LOST);
    atomic_fetch_add(&events->doubtful, event == HF_EVENT_DOUBTFUL);
}

void watch(hf_hold *hold, struct events *events)
{
    CHECK_RC(hf_hold_watch(hold, events_told, events, NULL), 0);
}

/* ---- Somebody else --------------------------------------------------------------- */

bool rival_try(const char *name)
{
    const char *const take[] = {
        "EVAL",
        "if redis.call('exists', KEYS[1]) == 1 then return 0 end "
        "redis.call('hset', KEYS[1], 'rival:1', 1) "
        "redis.call('pexpire', KEYS[1], 60000) return 1",
        "1",
        name,
    };
    const char *reply = raw_call(world.raw, take, 4);
    if (reply[0] == '-')
        check_failed(__FILE__, __LINE__, "the rival is told %s", reply);
    return strcmp(reply, "1") == 0;
}

void rival_release(const char *name)
{
    CHECK_EQ(raw_number(world.raw, "HDEL %s rival:1", name), 1);
    raw_say(world.raw, "PUBLISH redisson_lock__channel:{%s} 0", name);
}

/* ---- Checks ---------------------------------------------------------------------- */

void check_guarded(const hf_hold *hold, const char *name)
{
    bool taken = hf_hold_state(hold) == HF_HELD && rival_try(name);
    if (taken && hf_hold_state(hold) == HF_HELD)
        check_failed(__FILE__, __LINE__, "'%s' is held, and a rival has it", name);
    CHECK(!taken); /* it must have been lost in between: not in these tests */
}

void check_stays_held(const hf_hold *hold, const char *name, int64_t ms)
{
    for (int64_t end = real_ms() + ms; real_ms() < end;) {
        CHECK_EQ(hf_hold_state(hold), HF_HELD);
        check_guarded(hold, name);
        poll(NULL, 0, 10); /* pause: between two looks */
    }
}

void check_one_of(int rc, const char *file, int line, const int *codes)
{
    for (; *codes != 1; codes++)
        if (rc == *codes)
            return;
    check_failed(file, line, "%s (%d) is not among the codes allowed",
                 rc == 0 ? "0" : hf_error_name(rc), rc);
}

static bool key_stays(void *arg, const char *key)
{
    char *found = arg;
    if (strncmp(key, "redisson_lock_token:", 20) == 0)
        return true;
    snprintf(found, 128, "%s", key);
    return false;
}

void check_nothing_left(int64_t lease_ms)
{
    char found[128];
    int64_t end = real_ms() + (lease_ms ? lease_ms + SLACK_MS : 0);
    do {
        found[0] = '\0';
        raw_keys(world.raw, key_stays, found);
        poll(NULL, 0, found[0] ? 5 : 0); /* pause: between two looks */
    } while (found[0] && real_ms() < end);
    if (found[0])
        check_failed(__FILE__, __LINE__, "%s is gone", found);
}

int64_t check_recovers(hf_client *client)
{
    hf_hold *hold = NULL;
    int64_t since = real_ms();
    CHECK_RC(lock(client, "recovery", PATIENCE_MS, 2000, &hold), 0);
    int64_t took = real_ms() - since;
    check_guarded(hold, "recovery");
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK(rival_try("recovery"));
    rival_release("recovery");
    return took;
}

void report(const char *fault, int64_t recovered_ms, const char *saw, ...)
{
    char text[128];
    va_list list;
    va_start(list, saw);
    vsnprintf(text, sizeof text, saw, list);
    va_end(list);
    printf("@%-40s | %-44s | %lld ms\n", fault, text, (long long)recovered_ms);
}
