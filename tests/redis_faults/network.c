/* SPDX-License-Identifier: MIT */
/*
 * A bad network between client and server: replies are lost, cut, late, arrive byte by
 * byte, or are replaced. A connection without a reply is given up after REQUEST_MS
 * here. Whatever arrives, there is one grant, and the client knows it.
 */
#include "cases.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *name_of(int rc)
{
    return rc == 0 ? "0" : hf_error_name(rc);
}

/* One holder, and it is this one. */
static void check_single(const hf_hold *hold, const char *name)
{
    check_guarded(hold, name);
    CHECK_EQ(raw_number(world.raw, "HLEN %s", name), 1);
}

/* ---- Lost ------------------------------------------------------------------------ */

static void grant_swallowed(void)
{
    hf_hold *hold = NULL;
    world_start(NULL);
    hf_client *client = opened_through("");
    check_recovers(client);
    proxy_mode(world.proxy, PROXY_SWALLOW, 0);
    int64_t since = real_ms();
    CHECK_RC(lock(client, "swallowed", 5000, STEADY_MS, &hold), 0);
    int64_t took = real_ms() - since;
    CHECK(took >= REQUEST_MS / 2 && proxy_count(world.proxy).connections > 0);
    check_single(hold, "swallowed");
    check_stays_held(hold, "swallowed", STEADY_MS);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
    check_nothing_left(0);
    report("reply to acquire swallowed", took, "0");
}

static void try_swallowed(void)
{
    hf_hold *hold = NULL;
    world_start(NULL);
    hf_client *client = opened_through("");
    check_recovers(client);
    proxy_mode(world.proxy, PROXY_SWALLOW, 0);
    int rc = lock(client, "swallowed", 0, LEASE_MS, &hold);
    CHECK_ONE_OF(rc, 0, HF_EUNREACHABLE, HF_EUNCERTAIN);
    if (rc == 0)
        CHECK_RC(hf_release(hold, NULL), 0);
    int64_t back = check_recovers(client);
    check_nothing_left(LEASE_MS);
    hf_close(client);
    report("reply to try swallowed", back, "%s", name_of(rc));
}

static void release_swallowed(void)
{
    world_start(NULL);
    hf_client *client = opened_through("");
    hf_hold *hold = locked(client, "swallowed", 60000);
    proxy_mode(world.proxy, PROXY_SWALLOW, 0);
    int64_t since = real_ms();
    int rc = hf_release(hold, NULL);
    CHECK_RC(rc, 0);
    int64_t took = real_ms() - since;
    check_nothing_left(0);
    check_recovers(client);
    hf_close(client);
    report("reply to release swallowed", took, "%s", name_of(rc));
}

/* ---- Cut ------------------------------------------------------------------------- */

static int64_t grant_cut_at(hf_client *client, int64_t bytes)
{
    hf_hold *hold = NULL;
    proxy_mode(world.proxy, PROXY_CUT, bytes);
    int64_t since = real_ms();
    CHECK_RC(lock(client, "cut", 5000, 10 * LEASE_MS, &hold), 0);
    int64_t took = real_ms() - since;
    check_single(hold, "cut");
    EVENTUALLY(proxy_count(world.proxy).connections > 0); /* cut, and back again */
    CHECK_RC(hf_release(hold, NULL), 0);
    return took;
}

static int64_t release_cut_at(hf_client *client, int64_t bytes)
{
    hf_hold *hold = locked(client, "cut", 10 * LEASE_MS);
    proxy_mode(world.proxy, PROXY_CUT, bytes);
    int64_t since = real_ms();
    CHECK_RC(hf_release(hold, NULL), 0);
    int64_t took = real_ms() - since;
    EVENTUALLY(proxy_count(world.proxy).connections > 0);
    return took;
}

static int64_t reply_bytes(hf_client *client, bool release)
{
    hf_hold *hold = NULL;
    proxy_mode(world.proxy, PROXY_PASS, 0);
    CHECK_RC(lock(client, "cut", 0, 10 * LEASE_MS, &hold), 0);
    struct proxy_count taken = proxy_count(world.proxy);
    CHECK_RC(hf_release(hold, NULL), 0);
    struct proxy_count both = proxy_count(world.proxy);
    return (int64_t)(release ? both.said - taken.said : taken.said);
}

/* After every number of bytes, from none to all of them. A new client each time: one
 * whose connections keep breaking takes its time to come back. */
static void cut_everywhere(const char *fault, bool release)
{
    int64_t longest = 0, whole = 0;
    world_start(NULL);
    for (int64_t bytes = 0; bytes <= whole; bytes++) {
        hf_client *client = opened_through("");
        check_recovers(client);
        whole = reply_bytes(client, release);
        CHECK(whole >= 3);
        int64_t took =
            release ? release_cut_at(client, bytes) : grant_cut_at(client, bytes);
        longest = took > longest ? took : longest;
        check_nothing_left(0);
        hf_close(client);
    }
    report(fault, longest, "0, each of %lld times", (long long)whole + 1);
}

static void grant_cut(void)
{
    cut_everywhere("reply to acquire cut after n bytes", false);
}

static void release_cut(void)
{
    cut_everywhere("reply to release cut after n bytes", true);
}

/* ---- Slow ------------------------------------------------------------------------ */

static void trickled(void)
{
    struct events events = { 0 };
    world_start(NULL);
    char url[256];
    url_through(url, sizeof url, "");
    proxy_mode(world.proxy, PROXY_TRICKLE, 0);
    hf_options options = HF_OPTIONS_INIT;
    hf_client *client = NULL;
    *strstr(url, "&timeout") = '\0'; /* a byte each millisecond takes its time */
    CHECK_RC(hf_open(url, &options, &client, NULL), 0);
    hf_hold *hold = locked(client, "trickled", STEADY_MS);
    watch(hold, &events);
    check_stays_held(hold, "trickled", 2 * STEADY_MS);
    CHECK_EQ(events.lost + events.doubtful, 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    int64_t back = check_recovers(client);
    hf_close(client);
    check_nothing_left(0);
    report("replies trickled byte by byte", back, "0, renewed, release 0");
}

static void delayed(void)
{
    hf_hold *none = NULL;
    world_start(NULL);
    hf_client *client = opened_through("");
    check_recovers(client);
    proxy_mode(world.proxy, PROXY_DELAY, 3 * REQUEST_MS);
    int64_t since = real_ms();
    int rc = lock(client, "delayed", 1000, LEASE_MS, &none);
    CHECK_ONE_OF(rc, HF_EUNREACHABLE, HF_EUNCERTAIN);
    CHECK(real_ms() - since <= 1000 + BUSY_MS);
    proxy_mode(world.proxy, PROXY_PASS, 0);
    int64_t back = check_recovers(client);
    check_nothing_left(LEASE_MS);
    hf_close(client);
    report("replies later than the request timeout", back, "%s", name_of(rc));
}

static void black_hole(void)
{
    hf_hold *none = NULL;
    struct events events = { 0 };
    world_start(NULL);
    hf_client *client = opened_through("");
    hf_hold *hold = locked(client, "held", LEASE_MS);
    watch(hold, &events);
    proxy_mode(world.proxy, PROXY_HOLE, 0);
    int64_t since = real_ms();
    int rc = lock(client, "other", 300, LEASE_MS, &none);
    CHECK_ONE_OF(rc, HF_EUNREACHABLE, HF_EUNCERTAIN);
    EVENTUALLY(atomic_load(&events.lost) == 1);
    CHECK(real_ms() - since <= LEASE_MS + BUSY_MS);
    CHECK_EQ(events.doubtful, 1);
    CHECK_ONE_OF(hf_release(hold, NULL), HF_ELOST, HF_EUNCERTAIN);
    EVENTUALLY(rival_try("held")); /* free by the end of the lease */
    rival_release("held");
    proxy_mode(world.proxy, PROXY_PASS, 0);
    int64_t back = check_recovers(client);
    check_nothing_left(LEASE_MS);
    hf_close(client);
    report("black hole, longer than the lease", back, "%s; DOUBTFUL, LOST",
           name_of(rc));
}

static void short_break(void)
{
    struct events events = { 0 };
    world_start(NULL);
    hf_client *client = opened_through("");
    hf_hold *hold = locked(client, "held", 3 * LEASE_MS);
    watch(hold, &events);
    proxy_mode(world.proxy, PROXY_REFUSE, 0);
    check_stays_held(hold, "held", 500);
    proxy_mode(world.proxy, PROXY_PASS, 0);
    int64_t back = check_recovers(client);
    check_stays_held(hold, "held", 3 * LEASE_MS);
    CHECK_EQ(events.lost, 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
    check_nothing_left(0);
    report("connections refused, shorter than lease", back, "still held, release 0");
}

/* ---- Something else -------------------------------------------------------------- */

struct nonsense {
    const char *what;
    const char *text;
    size_t len;
    int rc; /* what an acquire with time to wait ends with */
};

#define TEXT(text) text, sizeof(text) - 1

static const struct nonsense nonsenses[] = {
    { "an HTTP reply", TEXT("HTTP/1.1 400 Bad Request\r\n\r\n"), 0 },
    { "zero bytes", TEXT("\0\0\0\0\0\0\0\0"), 0 },
    { "high bytes", TEXT("\xff\xfe\xfd\xfc\r\n\r\n"), 0 },
    { "half a reply and no more", TEXT("*5\r\n:1\r\n"), 0 },
    { "a string of 100 GB", TEXT("$99999999999\r\nx"), 0 },
    { "an array of 10^9", TEXT("*1000000000\r\n:1\r\n"), 0 },
    { "deep nesting",
      TEXT("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"), 0 },
    { "a negative length", TEXT("$-7\r\n"), 0 },
    { "an answer of another kind", TEXT("+OK\r\n"), 0 },
    { "nil", TEXT("$-1\r\n"), 0 },
    { "an empty array", TEXT("*0\r\n"), 0 },
    { "a grant without token", TEXT("*5\r\n:1\r\n:0\r\n:1\r\n:1000\r\n:1\r\n"), 0 },
    { "a grant of the past", TEXT("*5\r\n:1\r\n:7\r\n:1\r\n:-1000\r\n:1\r\n"), 0 },
    { "an error", TEXT("-ERR no such luck\r\n"), HF_EREFUSED },
    { "LOADING", TEXT("-LOADING Redis is loading the dataset in memory\r\n"), 0 },
    { "BUSY", TEXT("-BUSY Redis is busy running a script.\r\n"), 0 },
};

static void nonsense_run(const struct nonsense *one)
{
    char fault[64];
    hf_hold *hold = NULL;
    hf_client *client = opened_through("");
    check_recovers(client);
    proxy_set(world.proxy, PROXY_REPLACE, 0, one->text, one->len);
    int64_t since = real_ms();
    int rc = lock(client, "garbled", 5000, LEASE_MS, &hold);
    int64_t took = real_ms() - since;
    if (rc != one->rc)
        check_failed(__FILE__, __LINE__, "%s gives %s, not %s", one->what, name_of(rc),
                     name_of(one->rc));
    if (rc == 0) {
        check_single(hold, "garbled");
        CHECK_RC(hf_release(hold, NULL), 0);
    }
    proxy_mode(world.proxy, PROXY_PASS, 0);
    int64_t back = check_recovers(client);
    check_nothing_left(LEASE_MS);
    hf_close(client);
    snprintf(fault, sizeof fault, "instead: %s", one->what);
    report(fault, rc == 0 ? took : back, "%s", name_of(rc));
}

static void garbled(void)
{
    world_start(NULL);
    for (size_t i = 0; i < sizeof nonsenses / sizeof *nonsenses; i++)
        nonsense_run(&nonsenses[i]);
}

/* The lock goes while the client is cut off. The first withdrawals are not sent, so the
 * one that finds nothing is too late. */
static void *release_run(void *hold)
{
    return (void *)(intptr_t)hf_release(hold, NULL);
}

static void late_release(void)
{
    char url[256];
    uint32_t count;
    pthread_t thread;
    void *rc;
    hf_client *client = NULL;
    hf_options options = HF_OPTIONS_INIT;
    world_start(NULL);
    hf_close(opened_through("")); /* the proxy runs */
    url_through(url, sizeof url, "");
    options.request_timeout_ms = 60000;
    CHECK_RC(hf_open(url, &options, &client, NULL), 0);
    hf_hold *hold = locked(client, "late", 600000);
    proxy_mode(world.proxy, PROXY_REFUSE, 0);
    EVENTUALLY(hf_latch_count(client, "none", &count, NULL) == HF_EUNREACHABLE);
    raw_say(world.raw, "DEL late");
    CHECK_EQ(pthread_create(&thread, NULL, release_run, hold), 0);
    EVENTUALLY(hf_hold_state(hold) == HF_LOST); /* the release has begun */
    proxy_mode(world.proxy, PROXY_PASS, 0);
    CHECK_EQ(pthread_join(thread, &rc), 0);
    CHECK_RC((int)(intptr_t)rc, HF_ELOST);
    hf_close(client);
    report("release after the lock went while cut off", 0, "HF_ELOST");
}

const struct fault_case network_cases[] = {
    { "grant-swallowed", grant_swallowed },
    { "try-swallowed", try_swallowed },
    { "release-swallowed", release_swallowed },
    { "late-release", late_release },
    { "grant-cut", grant_cut },
    { "release-cut", release_cut },
    { "trickled", trickled },
    { "delayed", delayed },
    { "black-hole", black_hole },
    { "short-break", short_break },
    { "garbled", garbled },
    { NULL, NULL },
};
