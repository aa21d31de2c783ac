/* SPDX-License-Identifier: MIT */
/*
 * layout=simple on a server that forbids scripts (script=off): the lease is renewed, a
 * check changes nothing, and a key that another client has taken is not touched.
 */
#include "cases.h"

#include <stdio.h>
#include <string.h>

#define MINUTE_MS 60000

static hf_client *noscript_client(void)
{
    char url[256];
    hf_client *client = NULL;
    snprintf(url, sizeof url, "redis+unix://%s?protocol=%d&layout=simple&script=off",
             world.server.socket, world.protocol);
    CHECK_RC(hf_open(url, NULL, &client, NULL), 0);
    return client;
}

/* More is left of the lease than at the last check. */
static bool has_risen(int64_t *last)
{
    int64_t left = raw_number(world.raw, "PTTL name");
    bool risen = left > *last;
    *last = left;
    return risen;
}

static void noscript_is_renewed(void)
{
    int64_t last = MINUTE_MS;
    world_start(NULL);
    hf_client *client = noscript_client();
    hf_hold *hold = locked(client, "name", STEADY_MS);
    for (int i = 0; i < 2; i++)
        EVENTUALLY(has_risen(&last));
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_RC(hf_release(hold, NULL), 0);
    check_nothing_left(0);
    hf_close(client);
    report("script=off, a renewed lease", 0, "held");
}

static void noscript_check_changes_nothing(void)
{
    hf_want want = hf_mutex("name");
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold = NULL;
    world_start(NULL);
    hf_client *client = noscript_client();
    how.ttl_ms = MINUTE_MS;
    how.flags = HF_FIXED;
    CHECK_RC(hf_acquire(client, &want, 1, &how, &hold, NULL), 0);
    EVENTUALLY(raw_number(world.raw, "PTTL name") < MINUTE_MS - 20);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    CHECK(raw_number(world.raw, "PTTL name") < MINUTE_MS - 20);
    CHECK_RC(hf_hold_extend(hold, 2 * MINUTE_MS, NULL), 0);
    CHECK(raw_number(world.raw, "PTTL name") > MINUTE_MS);
    CHECK_RC(hf_release(hold, NULL), 0);
    check_nothing_left(0);
    hf_close(client);
    report("script=off, verify and extend", 0, "0");
}

static void noscript_spares_others(void)
{
    world_start(NULL);
    hf_client *client = noscript_client();
    hf_hold *hold = locked(client, "name", MINUTE_MS);
    raw_say(world.raw, "SET name stranger");
    CHECK_RC(hf_hold_verify(hold, NULL), HF_ELOST);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK(strcmp(raw_say(world.raw, "GET name"), "stranger") == 0);
    raw_say(world.raw, "DEL name");
    check_nothing_left(0);
    hf_close(client);
    report("script=off, another client took the key", 0, "HF_ELOST");
}

const struct fault_case noscript_cases[] = {
    { "noscript-is-renewed", noscript_is_renewed },
    { "noscript-check-changes-nothing", noscript_check_changes_nothing },
    { "noscript-spares-others", noscript_spares_others },
    { NULL, NULL },
};
