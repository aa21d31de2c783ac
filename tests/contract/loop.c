/* SPDX-License-Identifier: MIT */
/*
 * A user's own event loop: HF_DRIVER_USER, hf_dispatch_fd() and hf_dispatch().
 *
 * Nothing may happen outside hf_dispatch() and the calls of the scenario itself, every
 * callback has to come on the thread that dispatches, and the descriptor has to poll
 * readable whenever there is something to do, timers included.
 */
#include <poll.h>

#include "contract.h"

static hf_client *user_client(struct env *e)
{
    hf_options options = HF_OPTIONS_INIT;
    options.driver = HF_DRIVER_USER;
    return client_with(e, &options);
}

static struct told told_here(void)
{
    struct told told = { .home = pthread_self(), .homed = true };
    return told;
}

/* Polls and dispatches until the counter is `count`; how often it was woken. */
static int loop_until(hf_client *client, atomic_int *counter, int count)
{
    int fd = hf_dispatch_fd(client, NULL);
    int woken = 0;
    int64_t end = real_ms() + PATIENCE_MS;
    CHECK(fd >= 0);
    while (atomic_load(counter) < count) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        CHECK(real_ms() < end);
        woken += poll(&ready, 1, 1000);
        CHECK_RC(hf_dispatch(client, NULL), 0);
    }
    return woken;
}

static void loop_runs_callbacks(struct env *e)
{
    struct told taken = told_here();
    struct told released = told_here();
    hf_client *other = client_open(e);
    hf_client *mine = user_client(e);
    hf_hold *hold = held(e, other);

    begin(e, mine, told_hold, &taken, .rival = true, .timeout = HF_FOREVER);
    CHECK_RC(hf_dispatch(mine, NULL), 0);
    CHECK_EQ(taken.ended, 0);
    let_go(hold);
    loop_until(mine, &taken.ended, 1);
    CHECK_RC(taken.rc, 0);
    CHECK_BUSY(e, other);
    CHECK_RC(hf_release_async(taken.hold, told_done, &released, NULL), 0);
    loop_until(mine, &released.ended, 1);
    CHECK_RC(released.rc, 0);
    CHECK_EQ(taken.foreign + released.foreign, 0);
    check_free(e);
}

/* Also not while other clients of the process are busy. */
static void no_callback_without_dispatch(struct env *e)
{
    struct told told = told_here();
    hf_client *other = client_open(e);
    hf_client *mine = user_client(e);
    begin(e, mine, told_hold, &told, .name = "mine");
    for (int i = 0; i < 20; i++)
        let_go(held(e, other));
    CHECK_EQ(told.ended, 0);
    loop_until(mine, &told.ended, 1);
    CHECK_EQ(told.foreign, 0);
    let_go(told.hold);
}

/* The callback of a free lock is due at once, and the descriptor says so. */
static void descriptor_says_so(struct env *e)
{
    struct told told = told_here();
    hf_client *mine = user_client(e);
    struct pollfd ready = { .fd = hf_dispatch_fd(mine, NULL), .events = POLLIN };
    CHECK(ready.fd >= 0);
    CHECK_RC(hf_dispatch(mine, NULL), 0);
    CHECK_EQ(poll(&ready, 1, 0), 0);
    begin(e, mine, told_hold, &told);
    CHECK_EQ(told.ended, 0);
    CHECK_EQ(poll(&ready, 1, PATIENCE_MS), 1);
    loop_until(mine, &told.ended, 1);
    CHECK_RC(told.rc, 0);
    let_go(told.hold);
    CHECK_RC(hf_dispatch(mine, NULL), 0);
    CHECK_EQ(poll(&ready, 1, 0), 0);
}

/* A timeout is a reason to be woken; waiting for it is not. */
static void timers_wake_the_loop(struct env *e)
{
    struct told told = told_here();
    hf_client *other = client_open(e);
    hf_client *mine = user_client(e);
    hf_hold *hold = held(e, other);
    int64_t since = real_ms();
    begin(e, mine, told_hold, &told, .rival = true, .timeout = 40);
    int woken = loop_until(mine, &told.ended, 1);
    CHECK_RC(told.rc, HF_ETIMEOUT);
    CHECK(real_ms() - since >= 39);
    CHECK(woken < 20);
    CHECK_EQ(told.foreign, 0);
    let_go(hold);
}

/* One who waits for the same lock gives up in the moment in which the store confirms
 * that it was released: both are due when the loop is turned. The release must be told,
 * and not wait for a claim that is gone. The first hand-off uses up what the client may
 * hand on, so that the second release goes to the store. */
static void release_meets_timeout(struct env *e)
{
    hf_options options = HF_OPTIONS_INIT;
    options.driver = HF_DRIVER_USER;
    options.handoff = 1;
    hf_client *mine = client_with(e, &options);
    struct told next = told_here(), late = told_here(), released = told_here();
    let_go(held(e, mine)); /* once, so that the store knows all it needs */
    hf_hold *hold = held(e, mine);
    begin(e, mine, told_hold, &next, .rival = true, .timeout = HF_FOREVER, .who = 2);
    let_go(hold);
    loop_until(mine, &next.ended, 1);
    CHECK_RC(next.rc, 0);
    begin(e, mine, told_hold, &late, .rival = true, .timeout = 1, .who = 3);
    CHECK_RC(hf_release_async(next.hold, told_done, &released, NULL), 0);
    /* pause: so that the answer and the timeout are both there when the loop turns */
    poll(NULL, 0, 30);
    loop_until(mine, &released.ended, 1);
    CHECK_RC(released.rc, 0);
    loop_until(mine, &late.ended, 1);
    CHECK(late.rc == 0 || late.rc == HF_ETIMEOUT);
    if (late.rc == 0)
        let_go(late.hold);
    check_free(e);
}

static void dispatch_once(hf_client *client)
{
    struct pollfd ready = { .fd = hf_dispatch_fd(client, NULL), .events = POLLIN };
    poll(&ready, 1, 20);
    CHECK_RC(hf_dispatch(client, NULL), 0);
}

/* Some stores grant a released lock to the next waiter, in others that waiter takes it
 * itself, and it stays free while the waiter's loop stands still. */
static bool granted_meanwhile(struct env *e, hf_client *client)
{
    for (int i = 0; i < 30; i++) {
        if (seen(e, client, HF_HOLDER) > 0)
            return true;
        poll(NULL, 0, 10); /* pause: for a grant that may never be seen */
    }
    return false;
}

/* The loop stands still while its ticket is granted and evicted. When it turns again,
 * the acquire must not succeed beside the client that has the lock by then. */
static void evicted_before_it_was_heard(struct env *e)
{
    struct told told = told_here();
    hf_client *mine = user_client(e);
    hf_client *other = client_open(e);
    hf_hold *hold = held(e, other);
    begin(e, mine, told_hold, &told, .rival = true, .timeout = HF_FOREVER, .who = 2);
    for (int64_t end = real_ms() + PATIENCE_MS; !queued(e, other, 1);) {
        CHECK(real_ms() < end);
        dispatch_once(mine);
    }
    let_go(hold);
    if (!granted_meanwhile(e, other)) {
        loop_until(mine, &told.ended, 1);
        CHECK_RC(told.rc, 0);
        let_go(told.hold);
        return;
    }
    holder_evict(e, other);
    hold = held(e, other);
    for (int i = 0; i < 20; i++)
        dispatch_once(mine);
    if (atomic_load(&told.ended) && told.rc == 0)
        CHECK_EQ(hf_hold_state(told.hold), HF_LOST);
    uint64_t token = hf_hold_token(hold, 0);
    let_go(hold);
    loop_until(mine, &told.ended, 1);
    if (told.rc == 0 && hf_hold_state(told.hold) == HF_HELD)
        CHECK(hf_hold_token(told.hold, 0) > token);
    else if (told.rc != 0)
        CHECK_RC(told.rc, HF_ELOST);
    if (told.rc == 0)
        hf_release(told.hold, NULL);
    check_free(e);
}

static void loop_hears_of_loss(struct env *e)
{
    struct told told = told_here();
    hf_client *other = client_open(e);
    hf_client *mine = user_client(e);
    hf_hold *hold = held(e, mine);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    CHECK_RC(hf_dispatch(mine, NULL), 0);
    CHECK_EQ(told.lost, 0);
    holder_evict(e, other);
    loop_until(mine, &told.lost, 1);
    CHECK_EQ(told.foreign, 0);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
}

/* Blocking calls drive the client themselves; callbacks still wait for the loop. */
static void blocking_calls_work(struct env *e)
{
    struct contender waiter;
    struct told told = told_here();
    hf_client *other = client_open(e);
    hf_client *mine = user_client(e);
    hf_hold *hold = held(e, other);
    begin(e, mine, told_hold, &told, .name = "other");
    contend(&waiter, e, mine, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, other, 1));
    let_go(hold);
    CHECK_RC(contender_join(&waiter), 0);
    CHECK_EQ(told.ended, 0);
    let_go(waiter.hold);
    loop_until(mine, &told.ended, 1);
    CHECK_EQ(told.foreign, 0);
    let_go(told.hold);
}

static void close_runs_what_is_due(struct env *e)
{
    struct told waiting = told_here();
    struct told granted = told_here();
    hf_client *other = client_open(e);
    hf_client *mine = user_client(e);
    hf_hold *hold = held(e, other);
    begin(e, mine, told_hold, &waiting, .rival = true, .timeout = HF_FOREVER);
    begin(e, mine, told_hold, &granted, .name = "other");
    client_close(e, mine);
    CHECK_EQ(waiting.ended, 1);
    CHECK_RC(waiting.rc, HF_ECLOSED);
    CHECK_EQ(granted.ended, 1);
    if (granted.rc == 0)
        CHECK_RC(hf_release(granted.hold, NULL), HF_ECLOSED);
    else
        CHECK_RC(granted.rc, HF_ECLOSED);
    CHECK_EQ(waiting.foreign + granted.foreign, 0);
    CHECK_EQ(seen(e, other, HF_WAITER), 0);
    let_go(hold);
    check_free(e);
}

static void inside_dispatch(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    void **client_and_count = user;
    (void)why;
    CHECK_RC(rc, 0);
    CHECK_RC(hf_dispatch(client_and_count[0], NULL), HF_ECALLBACK);
    CHECK_RC(hf_release(hold, NULL), 0);
    atomic_fetch_add((atomic_int *)client_and_count[1], 1);
}

static void dispatch_in_callback(struct env *e)
{
    atomic_int count = 0;
    hf_client *mine = user_client(e);
    void *client_and_count[] = { mine, &count };
    begin(e, mine, inside_dispatch, client_and_count);
    loop_until(mine, &count, 1);
    check_free(e);
}

static void only_for_user_drivers(struct env *e)
{
    hf_error why = { 0 };
    hf_client *client = client_open(e);
    CHECK_RC(hf_dispatch_fd(client, &why), HF_EINVAL);
    CHECK(why.code == HF_EINVAL && why.text[0]);
}

const struct scenario scenarios_loop[] = {
    { "loop-runs-callbacks", LOCKS, 0, 0, loop_runs_callbacks },
    { "no-callback-without-dispatch", LOCKS, 0, 0, no_callback_without_dispatch },
    { "descriptor-says-so", LOCKS, 0, 0, descriptor_says_so },
    { "timers-wake-the-loop", LOCKS, 0, 0, timers_wake_the_loop },
    { "release-meets-timeout", LOCKS, 0, 0, release_meets_timeout },
    { "evicted-before-it-was-heard", EXCLUSIVE & ~MULTI, HF_CAP_INSPECT | HF_CAP_EVICT,
      0, evicted_before_it_was_heard },
    { "loop-hears-of-loss", LOCKS, HF_CAP_INSPECT | HF_CAP_EVICT, 0,
      loop_hears_of_loss },
    { "blocking-calls-work", LOCKS, HF_CAP_INSPECT, 0, blocking_calls_work },
    { "close-runs-what-is-due", LOCKS, HF_CAP_INSPECT, 0, close_runs_what_is_due },
    { "dispatch-in-callback", LOCKS, 0, 0, dispatch_in_callback },
    { "only-for-user-drivers", MUTEX, 0, 0, only_for_user_drivers },
    { NULL, 0, 0, 0, NULL },
};
