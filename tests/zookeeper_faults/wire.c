/* SPDX-License-Identifier: MIT */
/*
 * A bad network between client and server: replies that are cut or never come. The
 * server has carried out the request, and the client cannot know: there must be one
 * node afterwards, never two, and after a release none.
 */
#include "cases.h"

#define THING "thing"

/* ---- Cut ------------------------------------------------------------------------- */

static int64_t reply_bytes(hf_client *client, bool release)
{
    proxy_mode(world.proxy, PROXY_PASS, 0);
    hf_hold *hold = locked(client, THING);
    struct proxy_count taken = proxy_count(world.proxy);
    CHECK_RC(hf_release(hold, NULL), 0);
    struct proxy_count both = proxy_count(world.proxy);
    return (int64_t)(release ? both.said - taken.said : taken.said);
}

static int64_t grant_cut_at(hf_client *client, int64_t bytes)
{
    proxy_mode(world.proxy, PROXY_CUT, bytes);
    int64_t since = real_ms();
    hf_hold *hold = locked(client, THING);
    int64_t took = real_ms() - since;
    CHECK_EQ(contenders(THING), 1);
    EVENTUALLY(proxy_count(world.proxy).connections > 0); /* cut, and back again */
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    return took;
}

static int64_t release_cut_at(hf_client *client, int64_t bytes)
{
    hf_hold *hold = locked(client, THING);
    proxy_mode(world.proxy, PROXY_CUT, bytes);
    int64_t since = real_ms();
    CHECK_RC(hf_release(hold, NULL), 0);
    int64_t took = real_ms() - since;
    EVENTUALLY(proxy_count(world.proxy).connections > 0);
    return took;
}

/* After every number of bytes, from none to all of them. A new client each time: one
 * whose connections keep breaking takes its time to come back. */
static void cut_everywhere(const char *fault, bool release)
{
    int64_t longest = 0, whole = 0;
    world_start(1);
    for (int64_t bytes = 0; bytes <= whole; bytes += bytes < 24 ? 1 : 7) {
        hf_client *client = opened_through("");
        whole = reply_bytes(client, release);
        CHECK(whole >= 16);
        int64_t took =
            release ? release_cut_at(client, bytes) : grant_cut_at(client, bytes);
        longest = took > longest ? took : longest;
        CHECK(contenders(THING) <= 0);
        hf_close(client);
    }
    check_nothing_left();
    report(fault, longest, "0, wherever it was cut");
}

static void create_cut(void)
{
    cut_everywhere("reply to create cut after n bytes", false);
}

static void delete_cut(void)
{
    cut_everywhere("reply to delete cut after n bytes", true);
}

/* The wait ends while it is not known whether the node exists. */
static void create_cut_and_given_up(void)
{
    hf_hold *hold = NULL;
    world_start(1);
    hf_client *client = opened_through("");
    check_recovers(client);
    proxy_mode(world.proxy, PROXY_CUT, 0);
    int rc = lock(client, THING, 0, &hold);
    CHECK_ONE_OF(rc, 0, HF_EUNCERTAIN, HF_EUNREACHABLE);
    if (rc == 0)
        CHECK_RC(hf_release(hold, NULL), 0);
    int64_t back = check_recovers(client);
    EVENTUALLY(contenders(THING) <= 0);
    hf_close(client);
    check_nothing_left();
    report("reply to a try's create cut", back, "%s", name_of(rc));
}

/* ---- Lost ------------------------------------------------------------------------ */

static void create_swallowed(void)
{
    world_start(1);
    hf_client *client = opened_through("&timeout=300ms");
    check_recovers(client);
    proxy_mode(world.proxy, PROXY_SWALLOW, 0);
    int64_t since = real_ms();
    hf_hold *hold = locked(client, THING);
    int64_t took = real_ms() - since;
    CHECK_EQ(contenders(THING), 1);
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK(contenders(THING) <= 0);
    hf_close(client);
    check_nothing_left();
    report("reply to create swallowed", took, "0");
}

static void black_hole(void)
{
    hf_hold *none = NULL;
    struct events events = { 0 };
    struct waiter waiter;
    world_start(1);
    hf_client *a = opened_through("&timeout=300ms");
    hf_client *b = opened("");
    hf_hold *hold = locked(a, THING);
    watch(hold, &events);
    waiter_start(&waiter, b, THING, 1, hold);
    proxy_mode(world.proxy, PROXY_HOLE, 0);
    int rc = lock(a, "other", 500, &none);
    CHECK_ONE_OF(rc, HF_EUNREACHABLE, HF_EUNCERTAIN);
    int64_t served = waiter_served(&waiter);
    EVENTUALLY(atomic_load(&events.lost) == 1);
    CHECK_EQ(events.doubtful, 1);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    proxy_mode(world.proxy, PROXY_PASS, 0);
    check_recovers(a);
    CHECK_RC(hf_release(waiter.hold, NULL), 0);
    hf_close(a);
    hf_close(b);
    check_nothing_left();
    report("black hole, longer than the session", served, "%s; DOUBTFUL, LOST",
           name_of(rc));
}

static void short_break(void)
{
    struct events events = { 0 };
    world_start(1);
    hf_client *client = opened_through("");
    hf_hold *hold = locked(client, THING);
    watch(hold, &events);
    for (int i = 0; i < 3; i++) {
        proxy_mode(world.proxy, PROXY_REFUSE, 0);
        proxy_mode(world.proxy, PROXY_PASS, 0);
        CHECK_RC(hf_hold_verify(hold, NULL), 0);
    }
    int64_t back = check_recovers(client);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_EQ(events.lost, 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
    check_nothing_left();
    report("connection broken three times", back, "still held, release 0");
}

static void release_told(void *user, int rc, const hf_error *why)
{
    (void)why;
    atomic_store((atomic_int *)user, rc);
}

/* The node is deleted when the connection is back, not when the session is over. */
static void release_while_down(void)
{
    atomic_int told = 1; /* nothing yet */
    world_start(1);
    hf_client *client = opened_through("");
    hf_hold *hold = locked(client, THING);
    int64_t session = holder_session(THING);
    proxy_mode(world.proxy, PROXY_REFUSE, 0);
    CHECK_RC(hf_release_async(hold, release_told, &told, NULL), 0);
    EVENTUALLY(proxy_count(world.proxy).connections > 0);
    CHECK_EQ(contenders(THING), 1);
    proxy_mode(world.proxy, PROXY_PASS, 0);
    int64_t since = real_ms();
    EVENTUALLY(contenders(THING) <= 0);
    int64_t took = real_ms() - since;
    EVENTUALLY(atomic_load(&told) != 1);
    CHECK_ONE_OF(told, 0, HF_EUNCERTAIN, HF_EUNREACHABLE);
    hf_hold *again = locked(client, THING);
    CHECK_EQ(holder_session(THING), session);
    CHECK_RC(hf_release(again, NULL), 0);
    hf_close(client);
    check_nothing_left();
    report("released while not connected", took, "%s", name_of(told));
}

const struct fault_case wire_cases[] = {
    { "create-cut", create_cut },
    { "delete-cut", delete_cut },
    { "create-cut-and-given-up", create_cut_and_given_up },
    { "create-swallowed", create_swallowed },
    { "black-hole", black_hole },
    { "short-break", short_break },
    { "release-while-down", release_while_down },
    { NULL, NULL },
};
