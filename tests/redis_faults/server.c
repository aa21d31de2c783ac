/* SPDX-License-Identifier: MIT */
/*
 * The server stalls, ends, restarts, loses data, or is full. A holder keeps a lock that
 * the server still has, and gets the loss event within its lease if the server has lost
 * it. Then another client may get the lock before that event: fencing tokens exist for
 * this, so they have to grow in every case.
 */
#include "cases.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const with_debug[] = { "--enable-debug-command", "yes", NULL };
static const char *const with_aof[] = { "--appendonly", "yes", "--appendfsync",
                                        "always", NULL };

/* Told within its lease, counted from `since`; and released, it says so. */
static int64_t check_told_lost(hf_hold *hold, struct events *events, int64_t since,
                               int64_t lease_ms)
{
    EVENTUALLY(atomic_load(&events->lost) == 1);
    int64_t took = real_ms() - since;
    CHECK(took <= lease_ms + 500);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    return took;
}

/* ---- DEBUG SLEEP ----------------------------------------------------------------- */

static void short_sleep(void)
{
    hf_hold *other = NULL;
    struct events events = { 0 };
    world_start(with_debug);
    hf_client *client = opened();
    hf_hold *hold = locked(client, "held", 3 * LEASE_MS);
    watch(hold, &events);
    raw_send(world.raw, "DEBUG SLEEP 0.5");
    int64_t since = real_ms();
    CHECK_RC(lock(client, "other", 5000, LEASE_MS, &other), 0);
    int64_t took = real_ms() - since;
    CHECK(took >= 300);
    raw_read(world.raw);
    check_stays_held(hold, "held", 100);
    CHECK_EQ(events.lost + events.doubtful, 0);
    CHECK_RC(hf_release(other, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
    check_nothing_left(0);
    report("DEBUG SLEEP shorter than the lease", took - 500, "still held, acquire 0");
}

static void long_sleep(void)
{
    struct events events = { 0 };
    world_start(with_debug);
    hf_client *client = opened();
    hf_hold *hold = locked(client, "held", LEASE_MS);
    watch(hold, &events);
    kill(world.server.pid, SIGSTOP);
    EVENTUALLY(atomic_load(&events.lost) == 1); /* by our clock alone */
    CHECK_EQ(events.doubtful, 1);
    kill(world.server.pid, SIGCONT);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    int64_t back = check_recovers(client);
    check_nothing_left(LEASE_MS);
    hf_close(client);
    report("server stopped for longer than the lease", back,
           "DOUBTFUL, LOST, release ELOST");
}

/* ---- Restarts -------------------------------------------------------------------- */

static void restart_forgets(void)
{
    struct events events = { 0 };
    world_start(NULL);
    hf_client *a = opened();
    hf_client *b = opened();
    hf_hold *first = locked(a, "held", LEASE_MS);
    uint64_t token = hf_hold_token(first, 0);
    watch(first, &events);
    hf_op *op = waiting(b, "held", LEASE_MS);
    int64_t since = real_ms();
    world_kill();
    world_start(NULL);
    int64_t up = real_ms();
    hf_hold *second = waited(op);
    int64_t back = real_ms() - up;
    CHECK(hf_hold_token(second, 0) > token);
    check_told_lost(first, &events, since, LEASE_MS);
    check_guarded(second, "held");
    CHECK_RC(hf_release(second, NULL), 0);
    check_nothing_left(0);
    hf_close(a);
    hf_close(b);
    report("restart without persistence", back, "holder LOST, waiter 0, token grows");
}

static void restart_remembers(void)
{
    struct events events = { 0 };
    world_start(with_aof);
    hf_client *a = opened();
    hf_client *b = opened();
    hf_hold *first = locked(a, "held", 5 * LEASE_MS);
    uint64_t token = hf_hold_token(first, 0);
    watch(first, &events);
    hf_op *op = waiting(b, "held", LEASE_MS);
    world_kill();
    world_start(with_aof);
    int64_t up = real_ms();
    EVENTUALLY(raw_others(world.raw) >= 2);
    int64_t back = real_ms() - up;
    EVENTUALLY(hf_hold_verify(first, NULL) == 0);
    check_stays_held(first, "held", LEASE_MS);
    CHECK(!hf_op_done(op));
    CHECK_EQ(events.lost, 0);
    CHECK_RC(hf_release(first, NULL), 0);
    hf_hold *second = waited(op);
    CHECK(hf_hold_token(second, 0) > token);
    CHECK_RC(hf_release(second, NULL), 0);
    hf_close(a);
    hf_close(b);
    check_nothing_left(0);
    report("restart with AOF, within the lease", back, "still held, then waiter 0");
}

static void restart_comes_late(void)
{
    struct events events = { 0 };
    world_start(with_aof);
    hf_client *a = opened();
    hf_client *b = opened();
    hf_hold *first = locked(a, "held", LEASE_MS);
    uint64_t token = hf_hold_token(first, 0);
    watch(first, &events);
    hf_op *op = waiting(b, "held", LEASE_MS);
    int64_t since = real_ms();
    world_kill();
    EVENTUALLY(atomic_load(&events.lost) == 1);
    CHECK(real_ms() - since <= LEASE_MS + BUSY_MS);
    world_start(with_aof);
    int64_t up = real_ms();
    hf_hold *second = waited(op);
    int64_t back = real_ms() - up;
    CHECK(hf_hold_token(second, 0) > token);
    CHECK_RC(hf_release(first, NULL), HF_ELOST);
    CHECK_RC(hf_release(second, NULL), 0);
    hf_close(a);
    hf_close(b);
    check_nothing_left(LEASE_MS);
    report("restart with AOF, after the lease", back, "holder LOST, waiter 0");
}

static void server_away(void)
{
    char url[256];
    hf_error why = { 0 };
    hf_hold *hold = NULL;
    hf_client *none = NULL;
    world_start(NULL);
    snprintf(url, sizeof url, "redis+unix://%s", world.server.socket);
    hf_client *client = opened();
    world_kill();
    int64_t since = real_ms();
    int rc = lock(client, "away", 300, LEASE_MS, &hold);
    CHECK_RC(rc, HF_EUNREACHABLE);
    CHECK(real_ms() - since < 300 + BUSY_MS);
    CHECK_RC(hf_open(url, NULL, &none, &why), HF_EUNREACHABLE);
    CHECK(strstr(why.text, world.server.socket) != NULL);
    world_start(NULL);
    int64_t back = check_recovers(client);
    check_nothing_left(0);
    hf_close(client);
    report("server away", back, "%s, hf_open EUNREACHABLE", hf_error_name(rc));
}

/* ---- FLUSHALL -------------------------------------------------------------------- */

static void flushed_while_held(void)
{
    hf_hold *next = NULL;
    struct events events = { 0 };
    world_start(NULL);
    hf_client *client = opened();
    hf_hold *hold = locked(client, "held", LEASE_MS);
    uint64_t token = hf_hold_token(hold, 0);
    watch(hold, &events);
    raw_say(world.raw, "FLUSHALL");
    int64_t told = check_told_lost(hold, &events, real_ms(), LEASE_MS);
    CHECK(told < LEASE_MS); /* by the renewal, not by the end of the lease */
    check_nothing_left(0);
    CHECK_RC(lock(client, "held", 0, LEASE_MS, &next), 0);
    CHECK(hf_hold_token(next, 0) > token);
    raw_say(world.raw, "FLUSHALL");
    CHECK_RC(hf_hold_verify(next, NULL), HF_ELOST);
    CHECK_RC(hf_release(next, NULL), HF_ELOST);
    int64_t back = check_recovers(client);
    hf_close(client);
    report("FLUSHALL while held", back,
           "LOST at the next renewal, after %lld ms; token grows", (long long)told);
}

static void flushed_while_waiting(void)
{
    struct events events = { 0 };
    world_start(NULL);
    hf_client *a = opened();
    hf_client *b = opened();
    hf_hold *first = locked(a, "held", LEASE_MS);
    watch(first, &events);
    hf_op *op = waiting(b, "held", LEASE_MS);
    raw_say(world.raw, "FLUSHALL");
    int64_t since = real_ms();
    hf_hold *second = waited(op);
    int64_t back = real_ms() - since;
    CHECK(back <= 2 * LEASE_MS);
    CHECK(hf_hold_token(second, 0) > hf_hold_token(first, 0));
    check_guarded(second, "held");
    check_told_lost(first, &events, since, LEASE_MS);
    CHECK_RC(hf_release(second, NULL), 0);
    check_nothing_left(0);
    hf_close(a);
    hf_close(b);
    report("FLUSHALL while waited for", back, "holder LOST, waiter 0, token grows");
}

/* ---- Memory ---------------------------------------------------------------------- */

static long long memory_used(void)
{
    const char *line = strstr(raw_say(world.raw, "INFO memory"), "used_memory:");
    CHECK(line != NULL);
    return strtoll(line + strlen("used_memory:"), NULL, 10);
}

static void evict_by_filling(const char *name)
{
    char filler[4096];
    memset(filler, 'x', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    raw_say(world.raw, "CONFIG SET maxmemory-policy allkeys-lru");
    raw_say(world.raw, "CONFIG SET maxmemory %lld", memory_used() + 300000);
    for (int i = 0; i < 20000; i++) {
        char key[32];
        const char *const set[] = { "SET", key, filler };
        snprintf(key, sizeof key, "filler:%d", i);
        CHECK_TEXT(raw_call(world.raw, set, 3), "OK");
        if (i % 20 == 0 && raw_number(world.raw, "EXISTS %s", name) == 0)
            return;
    }
    check_failed(__FILE__, __LINE__, "the server has evicted %s", name);
}

static void evicted(void)
{
    struct events events = { 0 };
    world_start(NULL);
    hf_client *client = opened();
    hf_hold *hold = locked(client, "held", 10 * LEASE_MS);
    watch(hold, &events);
    evict_by_filling("held");
    CHECK_RC(hf_hold_verify(hold, NULL), HF_ELOST);
    EVENTUALLY(atomic_load(&events.lost) == 1);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    raw_say(world.raw, "CONFIG SET maxmemory 0"); /* or the next one is evicted, too */
    int64_t back = check_recovers(client);
    hf_close(client);
    raw_say(world.raw, "FLUSHALL");
    report("evicted (allkeys-lru)", back, "LOST at the next renewal, release ELOST");
}

static void memory_full(void)
{
    hf_error why = { 0 };
    hf_hold *other = NULL;
    struct events events = { 0 };
    world_start(NULL);
    hf_client *client = opened();
    hf_hold *hold = locked(client, "held", STEADY_MS);
    watch(hold, &events);
    raw_say(world.raw, "CONFIG SET maxmemory 1");
    int rc = hf_lock(client, "other", 0, &other, &why);
    CHECK_RC(rc, HF_EFULL);
    CHECK(strstr(why.text, "memory") != NULL);
    for (int64_t end = real_ms() + 2 * STEADY_MS; real_ms() < end;) {
        CHECK_EQ(hf_hold_state(hold), HF_HELD);
        poll(NULL, 0, 10); /* pause: between two looks */
    }
    CHECK_EQ(events.lost, 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    check_nothing_left(0);
    raw_say(world.raw, "CONFIG SET maxmemory 0");
    int64_t back = check_recovers(client);
    hf_close(client);
    check_nothing_left(0);
    report("out of memory (noeviction)", back, "%s; renewed, release 0",
           hf_error_name(rc));
}

/* A waiter asks again when the lease it waits for should be over. It is refused then,
 * and its place in the queue, which it had before, must not be left to nobody. */
static void memory_full_while_waiting(void)
{
    hf_hold *other = NULL;
    world_start(NULL);
    hf_client *client = opened();
    hf_client *late = opened();
    hf_hold *hold = locked(client, "held", STEADY_MS);
    hf_op *op = waiting(late, "held", LEASE_MS);
    raw_say(world.raw, "CONFIG SET maxmemory 1");
    int rc = hf_op_wait(op, PATIENCE_MS, &other, NULL);
    CHECK_RC(rc, HF_EFULL);
    hf_op_free(op);
    EVENTUALLY(raw_number(world.raw, "LLEN holdfast_queue:{held}") == 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    raw_say(world.raw, "CONFIG SET maxmemory 0");
    CHECK_RC(hf_release(hold, NULL), 0);
    int64_t back = check_recovers(late);
    hf_close(client);
    hf_close(late);
    check_nothing_left(0);
    report("out of memory while waited for", back, "holder held, waiter %s",
           hf_error_name(rc));
}

const struct fault_case server_cases[] = {
    { "short-sleep", short_sleep },
    { "long-sleep", long_sleep },
    { "restart-forgets", restart_forgets },
    { "restart-remembers", restart_remembers },
    { "restart-comes-late", restart_comes_late },
    { "server-away", server_away },
    { "flushed-while-held", flushed_while_held },
    { "flushed-while-waiting", flushed_while_waiting },
    { "evicted", evicted },
    { "memory-full", memory_full },
    { "memory-full-while-waiting", memory_full_while_waiting },
    { NULL, NULL },
};
