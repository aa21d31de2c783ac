/* SPDX-License-Identifier: MIT */
/*
 * Sessions and processes end: by force, by kill -9, by being suspended for too long.
 * And what a session has on the server while it lives: waits that were given up leave
 * no node and no watch.
 */
#include "cases.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define THING "thing"

/* ---- Expired by force ------------------------------------------------------------ */

/* The server ends the session long before its time, which no client can know: the hold
 * is believed until the server is heard of again, for a third of the session or so. */
static void session_expired(void)
{
    struct events events = { 0 };
    struct waiter waiter;
    world_start(3);
    hf_client *a = opened("");
    hf_client *b = opened("");
    hf_hold *hold = locked(a, THING);
    watch(hold, &events);
    waiter_start(&waiter, b, THING, 1, NULL);
    int64_t session = holder_session(THING);
    zkraw_expire(world.zoo.node[server_of(session)].port, session);
    int64_t served = waiter_served(&waiter);
    EVENTUALLY(atomic_load(&events.lost) == 1);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK_RC(hf_release(waiter.hold, NULL), 0);
    int64_t back = check_recovers(a);
    hf_close(a);
    hf_close(b);
    check_nothing_left();
    report("session expired by force", served, "LOST; takes again in %lld ms",
           (long long)back);
}

/* A waiter's session ends: it stands in the queue again, at the end. */
static void waiter_expired(void)
{
    struct waiter waiter;
    world_start(3);
    hf_client *b = opened("");
    hf_hold *first = locked(b, THING);
    int64_t session = holder_session(THING);
    CHECK_RC(hf_release(first, NULL), 0);
    hf_client *a = opened("");
    hf_hold *hold = locked(a, THING);
    waiter_start(&waiter, b, THING, 1, hold);
    zkraw_expire(world.zoo.node[server_of(session)].port, session);
    EVENTUALLY(contenders_of(THING, session) == 0 && contenders(THING) == 2);
    CHECK(!atomic_load(&waiter.over));
    waiter_blind(&waiter);
    CHECK_RC(hf_release(hold, NULL), 0);
    int64_t served = waiter_served(&waiter);
    CHECK_RC(hf_release(waiter.hold, NULL), 0);
    hf_close(a);
    hf_close(b);
    check_nothing_left();
    report("a waiter's session expired by force", served, "waits on, 0");
}

/* ---- Another process ------------------------------------------------------------- */

/* Shared with a process that holds THING and looks at its hold all the time. */
struct outsider {
    atomic_int looks;
    atomic_int lost;
    atomic_bool given_on;  /* another client has it */
    atomic_int violations; /* it said HELD after that */
};

static void outsider_run(struct outsider *shared)
{
    hf_hold *hold = locked(opened(""), THING);
    for (;;) {
        bool given_on = atomic_load(&shared->given_on);
        enum hf_state state = hf_hold_state(hold);
        atomic_fetch_add(&shared->violations, given_on && state == HF_HELD);
        atomic_store(&shared->lost, state == HF_LOST);
        atomic_fetch_add(&shared->looks, 1);
        poll(NULL, 0, 1); /* pause: between two looks */
    }
}

static pid_t outsider_start(struct outsider **ret_shared)
{
    pid_t parent = getpid();
    struct outsider *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setpgid(0, parent);
        outsider_run(shared);
    }
    EVENTUALLY(atomic_load(&shared->looks) > 0);
    *ret_shared = shared;
    return pid;
}

static void outsider_end(pid_t pid)
{
    int status;
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
}

static void holder_killed(void)
{
    struct outsider *shared;
    struct waiter waiter;
    world_start(3);
    pid_t pid = outsider_start(&shared);
    hf_client *client = opened("");
    waiter_start(&waiter, client, THING, 1, NULL);
    outsider_end(pid);
    int64_t served = waiter_served(&waiter);
    CHECK(served <= SESSION_MS + 2000);
    CHECK_RC(hf_release(waiter.hold, NULL), 0);
    hf_close(client);
    check_nothing_left();
    report("holder killed -9", served, "0");
}

static void holder_frozen(void)
{
    struct outsider *shared;
    struct waiter waiter;
    world_start(3);
    pid_t pid = outsider_start(&shared);
    hf_client *client = opened("");
    waiter_start(&waiter, client, THING, 1, NULL);
    CHECK_EQ(kill(pid, SIGSTOP), 0);
    int64_t served = waiter_served(&waiter);
    atomic_store(&shared->given_on, true);
    CHECK_EQ(kill(pid, SIGCONT), 0);
    EVENTUALLY(atomic_load(&shared->lost));
    CHECK_EQ(shared->violations, 0);
    CHECK_RC(hf_hold_verify(waiter.hold, NULL), 0);
    CHECK_RC(hf_release(waiter.hold, NULL), 0);
    outsider_end(pid);
    hf_close(client);
    check_nothing_left();
    report("holder frozen beyond its session", served, "LOST on waking, never HELD");
}

/* ---- Waits that are given up ----------------------------------------------------- */

/* A client that waits for as long as it takes to hear that its node is deleted: on a
 * busy machine that may be longer than by default, and then it would be told so. */
static hf_client *patient_opened(void)
{
    hf_client *client = NULL;
    hf_options options = HF_OPTIONS_INIT;
    char url[80];
    options.confirm_timeout_ms = 15000;
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d?session=%dms",
             world.zoo.node[0].port, world.session_ms);
    CHECK_RC(hf_open(url, &options, &client, NULL), 0);
    return client;
}

static void waits_given_up(void)
{
    hf_hold *none = NULL;
    world_start(1);
    hf_client *a = opened("");
    hf_client *b = patient_opened();
    hf_hold *hold = locked(a, THING);
    int64_t watches = zookeeper_number(&world.zoo, 0, "watch_count");
    for (int i = 0; i < 50; i++)
        CHECK_RC(lock(b, THING, 5, &none), HF_ETIMEOUT);
    EVENTUALLY(zookeeper_number(&world.zoo, 0, "watch_count") <= watches);
    EVENTUALLY(contenders(THING) == 1);
    CHECK_RC(hf_release(hold, NULL), 0);
    EVENTUALLY(zookeeper_number(&world.zoo, 0, "watch_count") == 0);
    hf_close(a);
    hf_close(b);
    check_nothing_left();
    report("50 waits given up", 0, "no node, no watch left");
}

const struct fault_case session_cases[] = {
    { "session-expired", session_expired }, { "waiter-expired", waiter_expired },
    { "holder-killed", holder_killed },     { "holder-frozen", holder_frozen },
    { "waits-given-up", waits_given_up },   { NULL, NULL },
};
