/* SPDX-License-Identifier: MIT */
/*
 * The server kills connections and forgets scripts: every call goes on and returns 0.
 */
#include "cases.h"

#include <stdio.h>

static const char *const with_debug[] = { "--enable-debug-command", "yes", NULL };

static void connections_kill(void)
{
    raw_say(world.raw, "CLIENT KILL TYPE normal SKIPME yes");
    raw_say(world.raw, "CLIENT KILL TYPE pubsub");
}

/* ---- CLIENT KILL ----------------------------------------------------------------- */

static void kill_while_holding(void)
{
    struct events events = { 0 };
    world_start(NULL);
    hf_client *client = opened();
    hf_hold *hold = locked(client, "held", STEADY_MS);
    watch(hold, &events);
    connections_kill();
    int64_t since = real_ms();
    EVENTUALLY(raw_others(world.raw) > 0);
    int64_t back = real_ms() - since;
    check_stays_held(hold, "held", 2 * STEADY_MS);
    CHECK_EQ(events.lost + events.doubtful, 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    check_recovers(client);
    hf_close(client);
    check_nothing_left(0);
    report("CLIENT KILL while holding", back, "still held, release 0");
}

/* Released in the moment in which the waiter cannot hear it. */
static void kill_while_waiting(void)
{
    world_start(NULL);
    hf_client *client = opened();
    CHECK(rival_try("wanted"));
    hf_op *op = waiting(client, "wanted", LEASE_MS);
    connections_kill();
    rival_release("wanted");
    int64_t since = real_ms();
    hf_hold *hold = waited(op);
    int64_t back = real_ms() - since;
    check_guarded(hold, "wanted");
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
    check_nothing_left(0);
    report("CLIENT KILL while waiting", back, "granted when it was free: 0");
}

static void kill_holder_and_waiter(void)
{
    world_start(NULL);
    hf_client *a = opened();
    hf_client *b = opened();
    hf_hold *first = locked(a, "both", LEASE_MS);
    hf_op *op = waiting(b, "both", LEASE_MS);
    connections_kill();
    int64_t since = real_ms();
    int rc = hf_release(first, NULL);
    CHECK_RC(rc, 0);
    hf_hold *second = waited(op);
    int64_t back = real_ms() - since;
    check_guarded(second, "both");
    CHECK_RC(hf_release(second, NULL), 0);
    hf_close(a);
    hf_close(b);
    check_nothing_left(0);
    report("CLIENT KILL of holder and waiter", back, "release 0, grant 0");
}

/* The server sleeps, the request reaches its socket, and before it is read the
 * connection is gone. */
static void stall_and_kill(void)
{
    raw_send(world.raw, "DEBUG SLEEP 0.3");
    raw_send(world.raw, "CLIENT KILL TYPE normal SKIPME yes");
    raw_send(world.raw, "CLIENT KILL TYPE pubsub");
}

static void stall_over(void)
{
    for (int i = 0; i < 3; i++)
        raw_read(world.raw);
}

static void kill_take_in_flight(void)
{
    hf_hold *hold = NULL;
    world_start(with_debug);
    hf_client *client = opened();
    check_recovers(client);
    stall_and_kill();
    int64_t since = real_ms();
    CHECK_RC(lock(client, "flying", 5000, LEASE_MS, &hold), 0);
    int64_t back = real_ms() - since - 300;
    stall_over();
    check_guarded(hold, "flying");
    CHECK_EQ(raw_number(world.raw, "HLEN flying"), 1);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
    check_nothing_left(0);
    report("CLIENT KILL, acquire in flight", back, "0");
}

static void kill_try_in_flight(void)
{
    hf_hold *hold = NULL;
    world_start(with_debug);
    hf_client *client = opened();
    check_recovers(client);
    stall_and_kill();
    int rc = lock(client, "flying", 0, LEASE_MS, &hold);
    stall_over();
    CHECK_ONE_OF(rc, 0, HF_EUNREACHABLE, HF_EUNCERTAIN);
    if (rc == 0)
        CHECK_RC(hf_release(hold, NULL), 0);
    int64_t back = check_recovers(client);
    hf_close(client);
    check_nothing_left(LEASE_MS);
    report("CLIENT KILL, try in flight", back, "%s", rc ? hf_error_name(rc) : "0");
}

static void kill_release_in_flight(void)
{
    world_start(with_debug);
    hf_client *client = opened();
    hf_hold *hold = locked(client, "flying", 60000);
    stall_and_kill();
    CHECK_RC(hf_release(hold, NULL), 0);
    stall_over();
    check_nothing_left(0);
    int64_t back = check_recovers(client);
    hf_close(client);
    report("CLIENT KILL, release in flight", back, "0");
}

/* ---- SCRIPT FLUSH ---------------------------------------------------------------- */

static void scripts_forgotten(void)
{
    world_start(NULL);
    hf_client *client = opened();
    for (int i = 0; i < 20; i++) {
        hf_hold *hold = NULL;
        raw_say(world.raw, "SCRIPT FLUSH");
        CHECK_RC(lock(client, "forgotten", 0, LEASE_MS, &hold), 0);
        raw_say(world.raw, "SCRIPT FLUSH");
        CHECK_RC(hf_release(hold, NULL), 0);
    }
    raw_say(world.raw, "SCRIPT FLUSH");
    int64_t back = check_recovers(client);
    hf_close(client);
    check_nothing_left(0);
    report("SCRIPT FLUSH", back, "0");
}

static void scripts_forgotten_while_held(void)
{
    struct events events = { 0 };
    world_start(NULL);
    hf_client *a = opened();
    hf_client *b = opened();
    hf_hold *hold = locked(a, "kept", STEADY_MS);
    watch(hold, &events);
    hf_op *op = waiting(b, "kept", LEASE_MS);
    raw_say(world.raw, "SCRIPT FLUSH");
    check_stays_held(hold, "kept", 2 * STEADY_MS);
    CHECK_EQ(events.lost + events.doubtful, 0);
    raw_say(world.raw, "SCRIPT FLUSH");
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK_RC(hf_release(waited(op), NULL), 0);
    hf_close(a);
    hf_close(b);
    check_nothing_left(0);
    report("SCRIPT FLUSH while held and waited for", 0, "renewed, release 0, grant 0");
}

/* ---- A client that does not run -------------------------------------------------- */

static size_t seen(hf_client *client, int role)
{
    hf_report *report = NULL;
    size_t count = 0;
    CHECK_RC(hf_inspect(client, "away", false, &report, NULL), 0);
    for (size_t i = 0; i < hf_report_count(report); i++)
        count += hf_report_entry(report, i)->role == role;
    hf_report_free(report);
    return count;
}

/* Its grant lies in the socket until the lease is over and another client holds. */
static void granted_while_away(void)
{
    char url[256];
    hf_client *away = NULL;
    hf_hold *hold = NULL;
    hf_op *op = NULL;
    hf_want want = hf_mutex("away");
    hf_options options = HF_OPTIONS_INIT;
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    world_start(NULL);
    snprintf(url, sizeof url, "redis+unix://%s?protocol=%d", world.server.socket,
             world.protocol);
    options.driver = HF_DRIVER_USER;
    how.timeout_ms = HF_FOREVER;
    how.ttl_ms = 300;
    how.flags = HF_FIXED;
    hf_client *client = opened();
    CHECK_RC(hf_open(url, &options, &away, NULL), 0);
    hf_hold *first = locked(client, "away", 30000);
    CHECK_RC(hf_acquire_async(away, &want, 1, &how, NULL, NULL, &op, NULL), 0);
    EVENTUALLY(seen(client, HF_WAITER) == 1)
    hf_dispatch(away, NULL);
    CHECK_RC(hf_release(first, NULL), 0);
    CHECK_EQ(seen(client, HF_HOLDER), 1); /* and it does not know */
    int64_t since = real_ms();
    EVENTUALLY(rival_try("away"));
    EVENTUALLY(real_ms() - since > 600)
    {
        hf_dispatch(away, NULL);
        CHECK(!hf_op_done(op));
    }
    rival_release("away");
    EVENTUALLY(hf_op_done(op))
    hf_dispatch(away, NULL);
    CHECK_RC(hf_op_wait(op, 0, &hold, NULL), 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_op_free(op);
    hf_close(away);
    hf_close(client);
    check_nothing_left(0);
    report("grant read after its lease", 0, "waits on, then 0");
}

const struct fault_case connection_cases[] = {
    { "kill-while-holding", kill_while_holding },
    { "kill-while-waiting", kill_while_waiting },
    { "kill-holder-and-waiter", kill_holder_and_waiter },
    { "kill-take-in-flight", kill_take_in_flight },
    { "kill-try-in-flight", kill_try_in_flight },
    { "kill-release-in-flight", kill_release_in_flight },
    { "scripts-forgotten", scripts_forgotten },
    { "scripts-forgotten-while-held", scripts_forgotten_while_held },
    { "granted-while-away", granted_while_away },
    { NULL, NULL },
};
