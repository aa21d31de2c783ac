/* SPDX-License-Identifier: MIT */
/*
 * A lock on its way from one thread of a client to the next: offered to a sleeper,
 * taken by a thread that is awake, given up by a sleeper whose time is over.
 *
 * A sleeper is held fast by a signal whose handler waits: so it is known that the offer
 * is made and that the sleeper has not taken it. `inside` counts the threads that sleep
 * in a client; it is read under the client's lock, which a sleeper has let go of.
 */
#include "unit.h"

#include "turns_store.h"

#include "../../src/core/client.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define HOUR INT64_C(3600000) /* ms */

static hf_client *client;

/* ---- Threads that wait ----------------------------------------------------------- */

struct waiter {
    pthread_t thread;
    hf_want want;
    hf_acquire_options how;
    hf_hold *hold;
    int rc;
    atomic_bool over;
};

static int stopped[2], freed[2]; /* pipes: the handler has begun; it may end */

static void stand_still(int signal)
{
    char byte = 's';
    (void)signal;
    if (write(stopped[1], &byte, 1) != 1 || read(freed[0], &byte, 1) != 1)
        abort();
}

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;
    waiter->rc =
        hf_acquire(client, &waiter->want, 1, &waiter->how, &waiter->hold, NULL);
    waiter->over = true;
    return NULL;
}

static int asleep(void)
{
    int rc = 0;
    hf_client *inside = hf__client_lock(client, &rc, NULL);
    ck_assert_ptr_nonnull(inside);
    int count = (int)inside->inside;
    hf__client_unlock(inside);
    return count;
}

/* Starts a thread that waits, and answers once it sleeps. */
static void start_with(struct waiter *waiter, hf_want want, int64_t timeout_ms,
                       int64_t ttl_ms, int64_t max_hold_ms)
{
    int before = asleep();
    *waiter = (struct waiter){ .want = want };
    waiter->how = (hf_acquire_options)HF_ACQUIRE_OPTIONS_INIT;
    waiter->how.timeout_ms = timeout_ms;
    waiter->how.ttl_ms = ttl_ms;
    waiter->how.max_hold_ms = max_hold_ms;
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_for_it, waiter), 0);
    EVENTUALLY(asleep() == before + 1);
}

static void start(struct waiter *waiter, hf_want want, int64_t timeout_ms,
                  int64_t ttl_ms)
{
    start_with(waiter, want, timeout_ms, ttl_ms, 0);
}

static void hold_fast(const struct waiter *waiter)
{
    char byte;
    ck_assert_int_eq(pthread_kill(waiter->thread, SIGUSR1), 0);
    ck_assert_int_eq(read(stopped[0], &byte, 1), 1);
}

static void let_run(void)
{
    ck_assert_int_eq(write(freed[1], "f", 1), 1);
}

static int join(struct waiter *waiter)
{
    pthread_join(waiter->thread, NULL);
    return waiter->rc;
}

/* ---- Taking ---------------------------------------------------------------------- */

static int attempt(hf_want want, uint64_t owner, hf_hold **ret_hold)
{
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    how.owner = owner;
    return hf_acquire(client, &want, 1, &how, ret_hold, NULL);
}

static hf_hold *held(hf_want want, uint64_t owner)
{
    hf_hold *hold = NULL;
    ck_assert_int_eq(attempt(want, owner, &hold), 0);
    return hold;
}

static void release(hf_hold *hold)
{
    ck_assert_int_eq(hf_release(hold, NULL), 0);
}

static void begin(void)
{
    struct sigaction action = { .sa_handler = stand_still };
    ck_assert(pipe(stopped) == 0 && pipe(freed) == 0);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    client = turns_client(5000);
}

static void end(void)
{
    ck_assert(!turn_of("thing")->held);
    hf_close(client);
}

/* ---- The owner ------------------------------------------------------------------- */

/* The thread that got the lock is its owner; the one that let it go is not. */
START_TEST(a_sleeper_becomes_the_owner)
{
    struct waiter waiter;
    hf_hold *none = NULL;
    begin();
    hf_hold *hold = held(hf_reentrant("thing"), 0);
    start(&waiter, hf_reentrant("thing"), HF_FOREVER, 0);
    release(hold);
    ck_assert_int_eq(join(&waiter), 0);
    ck_assert_int_eq(passes, 1); /* it was handed on, not asked for again */
    ck_assert_uint_eq(turn_of("thing")->token, hf_hold_token(waiter.hold, 0));
    ck_assert_int_eq(attempt(hf_reentrant("thing"), 0, &none), HF_EBUSY);
    release(waiter.hold);
    end();
}
END_TEST

/* As above, for a thread that takes the offer before the sleeper has woken up. */
START_TEST(who_takes_an_offer_is_the_owner)
{
    struct waiter waiter;
    hf_hold *none = NULL;
    begin();
    release(held(hf_mutex("other"), 0)); /* there is a hold to use again */
    hf_hold *hold = held(hf_reentrant("thing"), 7);
    start(&waiter, hf_reentrant("thing"), HF_FOREVER, 0);
    hold_fast(&waiter);
    release(hold);
    hold = held(hf_reentrant("thing"), 8);
    ck_assert_int_eq(passes, 1);
    ck_assert_int_eq(attempt(hf_reentrant("thing"), 7, &none), HF_EBUSY);
    release(held(hf_reentrant("thing"), 8));
    let_run();
    release(hold);
    ck_assert_int_eq(join(&waiter), 0);
    release(waiter.hold);
    end();
}
END_TEST

/* Nor does the owner that released enter it again: it may take the offer, as any caller
 * may, and that is a grant of its own. */
START_TEST(a_former_owner_does_not_enter_an_offer)
{
    struct waiter waiter;
    begin();
    hf_hold *hold = held(hf_reentrant("thing"), 7);
    uint64_t token = hf_hold_token(hold, 0);
    start(&waiter, hf_reentrant("thing"), HF_FOREVER, 0);
    hold_fast(&waiter);
    release(hold);
    hold = held(hf_reentrant("thing"), 7);
    ck_assert_uint_gt(hf_hold_token(hold, 0), token);
    release(hold);
    let_run();
    ck_assert_int_eq(join(&waiter), 0);
    release(waiter.hold);
    end();
}
END_TEST

/* A mutex is handed on to a reentrant want, and that may be entered again. */
START_TEST(an_offer_is_of_the_kind_that_was_asked_for)
{
    struct waiter waiter;
    hf_hold *none = NULL;
    begin();
    release(held(hf_mutex("other"), 0));
    hf_hold *hold = held(hf_mutex("thing"), 7);
    start(&waiter, hf_mutex("thing"), HF_FOREVER, 0);
    hold_fast(&waiter);
    release(hold);
    hold = held(hf_reentrant("thing"), 7);
    release(held(hf_reentrant("thing"), 7));
    release(hold);
    hold = held(hf_mutex("thing"), 7);
    ck_assert_int_eq(attempt(hf_reentrant("thing"), 7, &none), HF_EBUSY);
    let_run();
    release(hold);
    ck_assert_int_eq(join(&waiter), 0);
    release(waiter.hold);
    end();
}
END_TEST

/* A claim that was used before belongs to its new owner. */
START_TEST(a_lock_taken_again_has_a_new_owner)
{
    hf_hold *none = NULL;
    begin();
    release(held(hf_reentrant("thing"), 7));
    hf_hold *hold = held(hf_reentrant("thing"), 8);
    ck_assert_int_eq(attempt(hf_reentrant("thing"), 7, &none), HF_EBUSY);
    release(held(hf_reentrant("thing"), 8));
    release(hold);
    release(held(hf_mutex("other"), 0)); /* that one is at hand now */
    hold = held(hf_reentrant("thing"), 9);
    ck_assert_int_eq(attempt(hf_reentrant("thing"), 8, &none), HF_EBUSY);
    release(held(hf_reentrant("thing"), 9));
    release(hold);
    end();
}
END_TEST

/* ---- Offers that are not taken --------------------------------------------------- */

/* Another thread drives the loop, and so ends the sleeper's time. */
struct crowd {
    struct waiter driver, first, second;
    hf_hold *other, *hold;
};

static void gather(struct crowd *crowd, bool second)
{
    begin();
    crowd->other = held(hf_mutex("other"), 0);
    crowd->hold = held(hf_mutex("thing"), 0);
    start(&crowd->driver, hf_mutex("other"), HF_FOREVER, 0);
    start(&crowd->first, hf_mutex("thing"), HOUR, 0);
    if (second)
        start(&crowd->second, hf_mutex("thing"), HF_FOREVER, 0);
    hold_fast(&crowd->first);
    release(crowd->hold);
}

static void disperse(struct crowd *crowd)
{
    let_run();
    ck_assert_int_eq(join(&crowd->first), HF_ETIMEOUT);
    release(crowd->other);
    ck_assert_int_eq(join(&crowd->driver), 0);
    release(crowd->driver.hold);
    end();
}

/* A sleeper whose time is over does not keep the offer: the next one gets it. */
START_TEST(an_offer_goes_to_the_next_in_line)
{
    struct crowd crowd;
    gather(&crowd, true);
    clock_pass(2 * HOUR);
    EVENTUALLY(crowd.second.over);
    ck_assert_int_eq(join(&crowd.second), 0);
    ck_assert_uint_ne(hf_hold_token(crowd.second.hold, 0), 0);
    release(crowd.second.hold);
    disperse(&crowd);
}
END_TEST

/* Nor does it stay in the store if there is no next one. */
START_TEST(an_offer_of_nobody_is_given_back)
{
    struct crowd crowd;
    gather(&crowd, false);
    ck_assert(turn_of("thing")->held);
    clock_pass(2 * HOUR);
    EVENTUALLY(!turn_of("thing")->held);
    disperse(&crowd);
}
END_TEST

/* A sleeper that came in vain has the next turn, however quick the others are. */
START_TEST(in_vain_only_once)
{
    struct waiter waiter;
    hf_hold *none = NULL;
    begin();
    release(held(hf_mutex("other"), 0));
    hf_hold *hold = held(hf_mutex("thing"), 0);
    start(&waiter, hf_mutex("thing"), HF_FOREVER, 0);
    hold_fast(&waiter);
    release(hold);
    hold = held(hf_mutex("thing"), 0); /* before the sleeper */
    ck_assert_int_eq(passes, 1);
    int rc = 0;
    let_run();
    for (bool came = false; !came;) { /* and the sleeper has seen that */
        hf_client *inside = hf__client_lock(client, &rc, NULL);
        for (HF_EACH(link, &inside->claims))
            came |= HF_CONTAINER(link, struct claim, all)->direct_next;
        hf__client_unlock(inside);
        poll(NULL, 0, 1); /* pause: between two looks, or the sleeper never gets in */
    }
    hold_fast(&waiter);
    release(hold);
    ck_assert_int_eq(passes, 2); /* it is the sleeper's already */
    ck_assert_int_eq(attempt(hf_mutex("thing"), 0, &none), HF_EBUSY);
    let_run();
    ck_assert_int_eq(join(&waiter), 0);
    release(waiter.hold);
    end();
}
END_TEST

static void released(void *user, int rc, const hf_error *why)
{
    (void)user;
    (void)rc;
    (void)why;
}

/* A mutex waits on the claim of a reentrant lock, whose withdrawal is not answered; the
 * waiter's owner gets the lock meanwhile, by a reentrant want. When the waiter asks
 * anew, it does not enter that: it is not reentrant. */
START_TEST(a_mutex_that_asks_anew_enters_nothing)
{
    struct waiter waiter = { .want = hf_mutex("thing"),
                             .how = HF_ACQUIRE_OPTIONS_INIT };
    begin();
    hf_hold *first = held(hf_reentrant("thing"), 9);
    waiter.how.owner = 7;
    waiter.how.timeout_ms = HF_FOREVER;
    ck_assert_int_eq(pthread_create(&waiter.thread, NULL, wait_for_it, &waiter), 0);
    EVENTUALLY(asleep() == 1);
    refuse_pass = mute = true;
    ck_assert_int_eq(hf_release_async(first, released, NULL, NULL), 0);
    turn_of("thing")->held = false; /* it was withdrawn, and the answer was lost */
    hf_hold *hold = held(hf_reentrant("thing"), 7);
    uint64_t token = hf_hold_token(hold, 0);
    refuse_pass = mute = false;
    int before = withdrawals;
    clock_pass(2000);
    EVENTUALLY(withdrawals > before);
    ck_assert_int_eq(asleep(), 1);
    release(hold);
    ck_assert_int_eq(join(&waiter), 0);
    ck_assert_uint_gt(hf_hold_token(waiter.hold, 0), token);
    release(waiter.hold);
    end();
}
END_TEST

/* Where the store does not let it be handed on, the sleeper asks for itself. */
START_TEST(a_refused_pass_is_a_release)
{
    struct waiter waiter;
    begin();
    hf_hold *hold = held(hf_mutex("thing"), 0);
    uint64_t first = hf_hold_token(hold, 0);
    start(&waiter, hf_mutex("thing"), HF_FOREVER, 0);
    refuse_pass = true;
    release(hold);
    ck_assert_int_eq(join(&waiter), 0);
    ck_assert_int_eq(passes, 0);
    ck_assert_uint_ge(hf_hold_token(waiter.hold, 0), first + 1000);
    release(waiter.hold);
    end();
}
END_TEST

/* ---- What a waiter asked for ----------------------------------------------------- */

/* A waiter that wants a lease does not get a hold without one, nor the other way. */
START_TEST(a_lease_is_what_was_asked_for)
{
    struct waiter waiter;
    begin();
    hf_hold *hold = held(hf_mutex("thing"), 0);
    start(&waiter, hf_mutex("thing"), HF_FOREVER, HOUR);
    release(hold);
    ck_assert_int_eq(join(&waiter), 0);
    ck_assert_int_eq(passes, 0);
    ck_assert_int_eq(turn_of("thing")->ttl_ms, HOUR);
    ck_assert_int_le(hf_hold_left_ms(waiter.hold), HOUR);
    hold = waiter.hold;
    start(&waiter, hf_mutex("thing"), HF_FOREVER, 0);
    release(hold);
    ck_assert_int_eq(join(&waiter), 0);
    ck_assert_int_eq(hf_hold_left_ms(waiter.hold), HF_FOREVER);
    release(waiter.hold);
    end();
}
END_TEST

/* Nor one that may be held for longer than it said. */
START_TEST(the_most_is_what_was_asked_for)
{
    struct waiter waiter;
    hf_hold *hold = NULL;
    hf_want want = hf_mutex("thing");
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    begin();
    how.ttl_ms = HOUR;
    ck_assert_int_eq(hf_acquire(client, &want, 1, &how, &hold, NULL), 0);
    start_with(&waiter, want, HF_FOREVER, HOUR, 2 * HOUR);
    release(hold);
    ck_assert_int_eq(join(&waiter), 0);
    ck_assert_int_eq(passes, 0);
    clock_pass(2 * HOUR);
    ck_assert_int_eq(hf_hold_state(waiter.hold), HF_LOST);
    ck_assert_int_eq(hf_release(waiter.hold, NULL), HF_ELOST);
    hf_close(client);
}
END_TEST

/* Who gets the lock while others of the client wait hears at once if it is lost. */
START_TEST(a_loss_is_of_interest_while_others_wait)
{
    struct waiter first, second;
    begin();
    hf_hold *hold = held(hf_mutex("thing"), 0);
    start(&first, hf_mutex("thing"), HF_FOREVER, 0);
    start(&second, hf_mutex("thing"), HF_FOREVER, 0);
    refuse_pass = true; /* a new grant, of which the store knows nothing yet */
    int before = interests;
    release(hold);
    ck_assert_int_eq(join(&first), 0);
    ck_assert_int_gt(interests, before);
    release(first.hold);
    ck_assert_int_eq(join(&second), 0);
    release(second.hold);
    end();
}
END_TEST

/* An offered hold with a lease is not for a thread that wants none. */
START_TEST(an_offer_with_a_lease_is_not_for_all)
{
    struct waiter waiter;
    hf_hold *hold = NULL, *none = NULL;
    hf_want want = hf_mutex("thing");
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    begin();
    release(held(hf_mutex("other"), 0));
    how.ttl_ms = HOUR;
    ck_assert_int_eq(hf_acquire(client, &want, 1, &how, &hold, NULL), 0);
    start(&waiter, want, HF_FOREVER, HOUR);
    hold_fast(&waiter);
    release(hold);
    ck_assert_int_eq(attempt(want, 0, &none), HF_EBUSY);
    let_run();
    ck_assert_int_eq(join(&waiter), 0);
    ck_assert_int_le(hf_hold_left_ms(waiter.hold), HOUR);
    release(waiter.hold);
    end();
}
END_TEST

/* Who was told the id of a hold must not find the next one under it. */
START_TEST(an_id_that_was_told_is_not_used_again)
{
    char id[HF_ID_MAX];
    begin();
    hf_hold *hold = held(hf_mutex("thing"), 0);
    struct hf_id told = turn_of("thing")->id;
    ck_assert_int_eq(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    release(hold);
    hold = held(hf_mutex("thing"), 0);
    ck_assert(!same_id(&turn_of("thing")->id, &told));
    release(hold);
    end();
}
END_TEST

/* Nor is such a hold handed on: its id stands for one holder. */
START_TEST(a_hold_with_a_told_id_is_not_handed_on)
{
    struct waiter waiter;
    char id[HF_ID_MAX];
    begin();
    hf_hold *hold = held(hf_mutex("thing"), 0);
    struct hf_id told = turn_of("thing")->id;
    start(&waiter, hf_mutex("thing"), HF_FOREVER, 0);
    ck_assert_int_eq(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    release(hold);
    ck_assert_int_eq(join(&waiter), 0);
    ck_assert(!same_id(&turn_of("thing")->id, &told));
    release(waiter.hold);
    end();
}
END_TEST

UNIT_MAIN("offers", a_sleeper_becomes_the_owner, who_takes_an_offer_is_the_owner,
          a_former_owner_does_not_enter_an_offer,
          an_offer_is_of_the_kind_that_was_asked_for,
          a_lock_taken_again_has_a_new_owner, an_offer_goes_to_the_next_in_line,
          an_offer_of_nobody_is_given_back, in_vain_only_once,
          a_mutex_that_asks_anew_enters_nothing, a_refused_pass_is_a_release,
          a_lease_is_what_was_asked_for, the_most_is_what_was_asked_for,
          a_loss_is_of_interest_while_others_wait, an_offer_with_a_lease_is_not_for_all,
          an_id_that_was_told_is_not_used_again, a_hold_with_a_told_id_is_not_handed_on)
