/* SPDX-License-Identifier: MIT */
/*
 * Servers of an ensemble of three die, freeze and come back, while one client holds a
 * name and another waits for it. As long as a majority is left the hold stays, or is
 * lost when the client had no reply for the time of its session; the waiter is served
 * as soon as the lock is released. Without a majority the holder has to find out alone,
 * by its clock.
 */
#include "cases.h"

#include <string.h>

#define THING "thing"

/* One holds THING, and another waits for it. */
struct stage {
    hf_client *a, *b;
    hf_hold *hold;
    struct events events;
    struct waiter waiter;
};

static void stage_set(struct stage *stage)
{
    world_start(3);
    stage->a = opened("");
    stage->b = opened("");
    stage->hold = locked(stage->a, THING);
    watch(stage->hold, &stage->events);
    waiter_start(&stage->waiter, stage->b, THING, 1, stage->hold);
}

/* The fault is over. The holder lets go; how long it took from here until the waiter
 * had the name. Then all that there was is gone. */
static int64_t stage_end(struct stage *stage, int *ret_rc)
{
    int64_t took = 0;
    if (hf_hold_state(stage->hold) == HF_LOST)
        took = waiter_served(&stage->waiter);
    waiter_blind(&stage->waiter);
    *ret_rc = hf_release(stage->hold, NULL);
    CHECK_ONE_OF(*ret_rc, 0, HF_ELOST);
    took += waiter_served(&stage->waiter);
    CHECK_RC(hf_hold_verify(stage->waiter.hold, NULL), 0);
    CHECK_RC(hf_release(stage->waiter.hold, NULL), 0);
    check_recovers(stage->a);
    hf_close(stage->a);
    hf_close(stage->b);
    check_nothing_left();
    return took;
}

static void stage_report(const char *fault, const struct stage *stage, int64_t served,
                         int rc)
{
    report(fault, served, "release %s; DOUBTFUL %d, LOST %d", name_of(rc),
           stage->events.doubtful, stage->events.lost);
}

/* ---- One server ------------------------------------------------------------------ */

static void server_killed(struct stage *stage, size_t node, const char *fault)
{
    int rc;
    zookeeper_kill(&world.zoo, node);
    zookeeper_settle(&world.zoo);
    check_recovers(stage->b);
    int64_t served = stage_end(stage, &rc);
    stage_report(fault, stage, served, rc);
}

static void leader_killed(void)
{
    struct stage stage = { 0 };
    stage_set(&stage);
    server_killed(&stage, zookeeper_leader(&world.zoo), "leader killed");
}

/* The one that the holder is connected to, leader or not. */
static void own_server_killed(void)
{
    struct stage stage = { 0 };
    stage_set(&stage);
    server_killed(&stage, server_of(holder_session(THING)),
                  "the holder's server killed");
}

static void follower_killed(void)
{
    struct stage stage = { 0 };
    stage_set(&stage);
    server_killed(&stage, zookeeper_follower(&world.zoo), "follower killed");
}

static void server_frozen(void)
{
    int rc;
    struct stage stage = { 0 };
    stage_set(&stage);
    size_t node = server_of(holder_session(THING));
    zookeeper_freeze(&world.zoo, node);
    zookeeper_settle(&world.zoo);
    check_recovers(stage.b);
    int64_t served = stage_end(&stage, &rc);
    stage_report("the holder's server frozen", &stage, served, rc);
}

/* It wakes up and still believes to be the leader. */
static void leader_frozen(void)
{
    int rc;
    struct stage stage = { 0 };
    stage_set(&stage);
    size_t node = zookeeper_leader(&world.zoo);
    zookeeper_freeze(&world.zoo, node);
    zookeeper_settle(&world.zoo);
    check_recovers(stage.b);
    zookeeper_thaw(&world.zoo, node);
    zookeeper_settle(&world.zoo);
    int64_t served = stage_end(&stage, &rc);
    stage_report("leader frozen and thawed", &stage, served, rc);
}

/* ---- More than one --------------------------------------------------------------- */

static void check_lost_in_time(struct stage *stage, int64_t since)
{
    EVENTUALLY(hf_hold_state(stage->hold) == HF_LOST);
    CHECK(real_ms() - since <= SESSION_MS + 3000);
    EVENTUALLY(atomic_load(&stage->events.lost) == 1);
    CHECK(!atomic_load(&stage->waiter.over));
}

static void quorum_lost(void)
{
    int rc;
    hf_hold *none = NULL;
    struct stage stage = { 0 };
    stage_set(&stage);
    size_t kept = server_of(holder_session(THING));
    int64_t since = real_ms();
    for (size_t i = 0; i < 3; i++)
        if (i != kept)
            zookeeper_kill(&world.zoo, i);
    int refused = lock(stage.b, "other", 300, &none);
    CHECK_ONE_OF(refused, HF_EUNREACHABLE, HF_EUNCERTAIN, HF_ETIMEOUT);
    check_lost_in_time(&stage, since);
    for (size_t i = 0; i < 3; i++)
        if (i != kept)
            zookeeper_run(&world.zoo, i);
    zookeeper_settle(&world.zoo);
    int64_t served = stage_end(&stage, &rc);
    CHECK_RC(rc, HF_ELOST);
    report("quorum lost and regained", served, "%s; DOUBTFUL %d, LOST in time",
           name_of(refused), stage.events.doubtful);
}

static void all_frozen(void)
{
    int rc;
    struct stage stage = { 0 };
    stage_set(&stage);
    int64_t since = real_ms();
    for (size_t i = 0; i < 3; i++)
        zookeeper_freeze(&world.zoo, i);
    check_lost_in_time(&stage, since);
    for (size_t i = 0; i < 3; i++)
        zookeeper_thaw(&world.zoo, i);
    zookeeper_settle(&world.zoo);
    int64_t served = stage_end(&stage, &rc);
    CHECK_RC(rc, HF_ELOST);
    report("all frozen beyond the session", served, "DOUBTFUL %d, LOST in time",
           stage.events.doubtful);
}

static void all_restarted(void)
{
    int rc;
    struct stage stage = { 0 };
    stage_set(&stage);
    for (size_t i = 0; i < 3; i++)
        zookeeper_kill(&world.zoo, i);
    for (size_t i = 0; i < 3; i++)
        zookeeper_run(&world.zoo, i);
    zookeeper_settle(&world.zoo);
    int64_t served = stage_end(&stage, &rc);
    stage_report("all three restarted", &stage, served, rc);
}

const struct fault_case ensemble_cases[] = {
    { "leader-killed", leader_killed },
    { "own-server-killed", own_server_killed },
    { "follower-killed", follower_killed },
    { "server-frozen", server_frozen },
    { "leader-frozen", leader_frozen },
    { "quorum-lost", quorum_lost },
    { "all-frozen", all_frozen },
    { "all-restarted", all_restarted },
    { NULL, NULL },
};
