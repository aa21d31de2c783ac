/* SPDX-License-Identifier: MIT */
/*
 * Exclusion: the first thing a lock is for, in every form.
 *
 * The scenarios speak of a subject and its rival (harness.h), so that a read lock is
 * held against writers and everything else against its own like.
 */
#include <stdlib.h>

#include "contract.h"

static void try_is_busy(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    CHECK_BUSY(e, b, .rival = true, .who = 2);
    CHECK_BUSY(e, a, .rival = true, .who = 2);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    let_go(hold);

    hold = held(e, b, .rival = true, .who = 2);
    CHECK_BUSY(e, a);
    let_go(hold);
}

/* One thread, one owner: only reentrant wants count. For read: no way to upgrade. */
static void taken_twice_is_busy(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    hf_hold *second = NULL;
    CHECK_BUSY(e, client, .rival = true);
    CHECK_RC(take(e, client, &second, .rival = true, .timeout = 10), HF_ETIMEOUT);
    CHECK(second == NULL);
    let_go(hold);
}

static void other_name_is_free(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *one = held(e, client, .name = "one");
    hf_hold *two = held(e, client, .name = "two");
    CHECK_BUSY(e, client, .name = "two", .rival = true, .who = 2);
    let_go(one);
    CHECK_BUSY(e, client, .name = "two", .rival = true, .who = 2);
    let_go(two);
}

static void retake_after_release(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    for (int i = 0; i < 20; i++) {
        let_go(held(e, a));
        let_go(held(e, b, .rival = true));
    }
}

static void release_twice(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *first = held(e, a);
    hf_error why = { 0 };
    let_go(first);

    hf_hold *next = held(e, b, .rival = true);
    CHECK_RC(hf_release(first, &why), HF_ERELEASED);
    CHECK(why.code == HF_ERELEASED && why.text[0]);
    CHECK_EQ(hf_hold_state(first), HF_LOST);
    CHECK_EQ(hf_hold_left_ms(first), 0);
    CHECK_EQ(hf_hold_state(next), HF_HELD);
    CHECK_BUSY(e, a);
    let_go(next);
}

static void release_wakes_waiter(struct env *e)
{
    struct contender waiter;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    contend(&waiter, e, b, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, a, 1));
    CHECK(!atomic_load(&waiter.over));
    let_go(hold);
    CHECK_RC(contender_join(&waiter), 0);
    CHECK_BUSY(e, a);
    let_go(waiter.hold);
}

/* Nobody else can be sure that a thread of the same client waits already; it must be
 * served whichever was first. */
static void release_wakes_own_thread(struct env *e)
{
    hf_client *client = client_open(e);
    for (int i = 0; i < 20; i++) {
        struct contender waiter;
        hf_hold *hold = held(e, client);
        contend(&waiter, e, client, .rival = true, .timeout = HF_FOREVER, .who = 2);
        let_go(hold);
        CHECK_RC(contender_join(&waiter), 0);
        let_go(waiter.hold);
    }
}

static void any_thread_releases(struct env *e)
{
    struct contender taker;
    hf_client *client = client_open(e);
    contend(&taker, e, client, .timeout = 0);
    CHECK_RC(contender_join(&taker), 0);
    CHECK_BUSY(e, client, .rival = true, .who = 2);
    let_go(taker.hold);
    check_free(e);
}

/* ---- A crowd --------------------------------------------------------------------- */

#define CROWD 100
#define ROUNDS 3

struct crowd {
    struct env *e;
    hf_client *clients[4];
    struct guarded guarded;
};

static void crowd_member(void *arg, size_t number)
{
    struct crowd *crowd = arg;
    hf_client *client = crowd->clients[number % 4];
    for (int i = 0; i < ROUNDS; i++) {
        hf_hold *hold =
            held(crowd->e, client, .timeout = HF_FOREVER, .who = number + 1);
        guarded_visit(&crowd->guarded, hf_hold_token(hold, 0));
        let_go(hold);
    }
}

static void hundred_contenders(struct env *e)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    CHECK(crowd != NULL);
    crowd->e = e;
    for (size_t i = 0; i < 4; i++)
        crowd->clients[i] = client_open(e);
    threads_run(CROWD, crowd_member, crowd);
    CHECK_EQ(crowd->guarded.violations, 0);
    CHECK_EQ(crowd->guarded.count, CROWD * ROUNDS);
    free(crowd);
}

/* Tries only: whoever gets in is alone. */
static void crowd_tryer(void *arg, size_t number)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < 50; i++) {
        hf_hold *hold = NULL;
        int rc = take(crowd->e, crowd->clients[number % 4], &hold, .who = number + 1);
        CHECK(rc == 0 || rc == HF_EBUSY);
        if (rc == 0) {
            guarded_visit(&crowd->guarded, hf_hold_token(hold, 0));
            let_go(hold);
        }
    }
}

static void eight_tryers(struct env *e)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    CHECK(crowd != NULL);
    crowd->e = e;
    for (size_t i = 0; i < 4; i++)
        crowd->clients[i] = client_open(e);
    threads_run(8, crowd_tryer, crowd);
    CHECK_EQ(crowd->guarded.violations, 0);
    CHECK(crowd->guarded.count > 0);
    free(crowd);
    check_free(e);
}

/* ---- hf_lock --------------------------------------------------------------------- */

static void lock_is_a_mutex(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = NULL;
    hf_hold *other = NULL;
    CHECK_RC(hf_lock(a, THING, 0, &hold, NULL), 0);
    CHECK_EQ(hf_hold_count(hold), 1);
    CHECK_RC(hf_lock(b, THING, 0, &other, NULL), HF_EBUSY);
    CHECK_RC(hf_lock(b, THING, 10, &other, NULL), HF_ETIMEOUT);
    CHECK_BUSY(e, b);
    let_go(hold);
    CHECK_RC(hf_lock(b, THING, HF_FOREVER, &other, NULL), 0);
    let_go(other);
}

static void no_options_tries_once(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_want want = hf_mutex(THING);
    hf_hold *hold = NULL;
    hf_hold *other = NULL;
    CHECK_RC(hf_acquire(a, &want, 1, NULL, &hold, NULL), 0);
    CHECK_RC(hf_acquire(b, &want, 1, NULL, &other, NULL), HF_EBUSY);
    let_go(hold);
}

const struct scenario scenarios_mutex[] = {
    { "try-is-busy", LOCKS, 0, 0, try_is_busy },
    { "taken-twice-is-busy", LOCKS & ~REENTRANT, 0, 0, taken_twice_is_busy },
    { "other-name-is-free", LOCKS, 0, 0, other_name_is_free },
    { "retake-after-release", LOCKS, 0, 0, retake_after_release },
    { "release-twice", LOCKS, 0, 0, release_twice },
    { "release-wakes-waiter", LOCKS, HF_CAP_INSPECT, 0, release_wakes_waiter },
    { "release-wakes-own-thread", LOCKS, 0, 0, release_wakes_own_thread },
    { "any-thread-releases", LOCKS, 0, 0, any_thread_releases },
    { "hundred-contenders", EXCLUSIVE, 0, 0, hundred_contenders },
    { "eight-tryers", EXCLUSIVE, 0, 0, eight_tryers },
    { "lock-is-a-mutex", MUTEX, 0, 0, lock_is_a_mutex },
    { "no-options-tries-once", MUTEX, 0, 0, no_options_tries_once },
    { NULL, 0, 0, 0, NULL },
};
