/* SPDX-License-Identifier: MIT */
/*
 * What a holder may believe: how long a lease is good for, what an answer is an answer
 * to, what is told and how often. With the store of turns_store.h. Leases are hours
 * long, so that real time plays no part; the clock moves in steps.
 */
#include "unit.h"

#include "turns_store.h"

#include "../../src/core/client.h"

#include <pthread.h>

#define HOUR INT64_C(3600000) /* ms */

static hf_client *client;
static atomic_int lost, doubtful, revoked;

static void told(void *user, hf_hold *hold, enum hf_event event, const hf_error *why)
{
    (void)user;
    (void)hold;
    (void)why;
    atomic_fetch_add(event == HF_EVENT_LOST       ? &lost
                     : event == HF_EVENT_DOUBTFUL ? &doubtful
                                                  : &revoked,
                     1);
}

static int take(const char *name, int64_t ttl_ms, int64_t max_hold_ms, uint32_t flags,
                hf_hold **ret_hold)
{
    hf_want want = hf_mutex(name);
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    how.ttl_ms = ttl_ms;
    how.max_hold_ms = max_hold_ms;
    how.flags = flags;
    return hf_acquire(client, &want, 1, &how, ret_hold, NULL);
}

static hf_hold *begin(int64_t ttl_ms, int64_t max_hold_ms, uint32_t flags)
{
    hf_hold *hold = NULL;
    client = turns_client(50);
    ck_assert_int_eq(take("thing", ttl_ms, max_hold_ms, flags, &hold), 0);
    return hold;
}

static void lose(const char *name)
{
    struct turn *turn = turn_of(name);
    int rc = 0;
    hf_client *inside = hf__client_lock(client, &rc, NULL);
    turn->held = false;
    turns_host->ops->event(turns_host, turn->ticket, HF_EVENT_LOST);
    hf__client_unlock(inside);
}

/* ---- How long a lease is good for ------------------------------------------------ */

/* Clocks may differ by a hundredth: so much less is believed, from the grant on. */
START_TEST(the_drift_is_taken_off)
{
    hf_hold *hold = begin(100 * HOUR, 0, 0);
    ck_assert_int_le(hf_hold_left_ms(hold), 99 * HOUR);
    ck_assert_int_gt(hf_hold_left_ms(hold), 98 * HOUR);
    clock_pass(34 * HOUR);
    EVENTUALLY(renewals == 1 && hf_hold_left_ms(hold) > 98 * HOUR);
    ck_assert_int_le(hf_hold_left_ms(hold), 99 * HOUR);
    ck_assert_int_eq(hf_hold_extend(hold, 200 * HOUR, NULL), 0);
    ck_assert_int_le(hf_hold_left_ms(hold), 198 * HOUR);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* A hold that must end before its lease asks for no more, and is not renewed. */
START_TEST(the_most_ends_a_longer_lease)
{
    hf_hold *hold = begin(10 * HOUR, 2 * HOUR, 0);
    hf_error why = { 0 };
    ck_assert_int_eq(turn_of("thing")->ttl_ms, 2 * HOUR);
    clock_pass(HOUR);
    ck_assert_int_eq(hf_hold_state(hold), HF_HELD);
    clock_pass(HOUR);
    ck_assert_int_eq(hf_hold_state(hold), HF_LOST);
    ck_assert_int_eq(renewals, 0);
    ck_assert_int_eq(hf_release(hold, &why), HF_ELOST);
    ck_assert_msg(strstr(why.text, "max_hold_ms"), "%s", why.text);
    hf_close(client);
}
END_TEST

/* But it is renewed once it was given a shorter lease, unless that was to be fixed. */
START_TEST(a_shorter_lease_than_the_most_is_renewed)
{
    hf_hold *hold = begin(20 * HOUR, 20 * HOUR, 0);
    ck_assert_int_eq(hf_hold_extend(hold, 10 * HOUR, NULL), 0);
    clock_pass(4 * HOUR);
    EVENTUALLY(hf_hold_left_ms(hold) > 9 * HOUR);
    ck_assert_int_eq(hf_hold_state(hold), HF_HELD);
    clock_pass(16 * HOUR);
    ck_assert_int_eq(hf_hold_state(hold), HF_LOST);
    ck_assert_int_eq(hf_release(hold, NULL), HF_ELOST);
    ck_assert_int_eq(take("thing", 20 * HOUR, 20 * HOUR, HF_FIXED, &hold), 0);
    ck_assert_int_eq(hf_hold_extend(hold, 10 * HOUR, NULL), 0);
    int before = renewals;
    clock_pass(9 * HOUR);
    ck_assert_int_eq(hf_hold_verify(hold, NULL), 0);
    ck_assert_int_eq(renewals, before);
    ck_assert_int_le(hf_hold_left_ms(hold), HOUR);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* As above, for a hold that is taken over by its id. */
START_TEST(the_most_ends_an_adopted_lease)
{
    char id[HF_ID_MAX];
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *adopted = NULL;
    hf_hold *hold = begin(10 * HOUR, 0, HF_DETACHED);
    uint64_t token = hf_hold_token(hold, 0);
    ck_assert_int_eq(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    ck_assert_int_eq(hf_hold_leave(hold, NULL), 0);
    how.ttl_ms = 10 * HOUR;
    how.max_hold_ms = 2 * HOUR;
    ck_assert_int_eq(hf_adopt(client, id, &how, &adopted, NULL), 0);
    ck_assert_uint_eq(hf_hold_token(adopted, 0), token);
    ck_assert_int_eq(turn_of("thing")->ttl_ms, 2 * HOUR);
    ck_assert_int_le(hf_hold_left_ms(adopted), 2 * HOUR - 2 * HOUR / 100);
    clock_pass(2 * HOUR);
    ck_assert_int_eq(hf_hold_state(adopted), HF_LOST);
    ck_assert_int_eq(renewals, 0);
    ck_assert_int_eq(hf_release(adopted, NULL), HF_ELOST);
    hf_close(client);
}
END_TEST

/* A permit that expires has a lease though none was asked for. */
START_TEST(an_expiring_permit_has_a_lease)
{
    hf_want want = hf_expiring("permit", 1);
    hf_hold *hold = NULL;
    client = turns_client(50);
    ck_assert_int_eq(hf_acquire(client, &want, 1, NULL, &hold, NULL), 0);
    ck_assert_int_gt(turn_of("permit")->ttl_ms, 0);
    ck_assert_int_ne(hf_hold_left_ms(hold), HF_FOREVER);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* The first part's lease is over when the last one is granted. */
START_TEST(a_late_grant_of_several_is_no_grant)
{
    hf_want wants[] = { hf_mutex("a"), hf_mutex("b") };
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold = NULL;
    client = turns_client(50);
    how.ttl_ms = HOUR;
    grant_jump = HOUR;
    ck_assert_int_eq(hf_acquire(client, wants, 2, &how, &hold, NULL), HF_ELOST);
    EVENTUALLY(!turn_of("a")->held && !turn_of("b")->held);
    grant_jump = 0;
    ck_assert_int_eq(hf_acquire(client, wants, 2, &how, &hold, NULL), 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* A store may say of a lease what it likes: the holder believes no more than it asked
 * for, from now on at most. Sums that overflow are the sanitizer's to see. */
START_TEST(no_more_than_was_asked_for)
{
    static const int64_t limits[] = { INT64_MIN, -1, 1, INT64_MAX - 1, INT64_MAX };
    enum { LIMITS = sizeof limits / sizeof limits[0] };
    client = turns_client(50);
    for (int i = 0; i < LIMITS * LIMITS; i++) {
        hf_hold *hold = NULL;
        lie_since = limits[i / LIMITS];
        lie_ttl = limits[i % LIMITS];
        bool longer = lie_since > 1 && lie_ttl > 1;
        lying = true;
        int rc = take("thing", HOUR, 0, HF_FIXED, &hold);
        ck_assert(rc == 0 || (rc == HF_ELOST && !longer));
        lying = false;
        if (rc != 0) {
            EVENTUALLY(!turn_of("thing")->held);
            ck_assert_int_eq(take("thing", HOUR, 0, HF_FIXED, &hold), 0);
        }
        ck_assert_int_le(hf_hold_left_ms(hold), HOUR - HOUR / 100);
        lying = true;
        rc = hf_hold_extend(hold, 2 * HOUR, NULL);
        ck_assert(rc == 0 || !longer);
        ck_assert_int_le(hf_hold_left_ms(hold), 2 * HOUR - 2 * HOUR / 100);
        lying = false;
        hf_release(hold, NULL);
        EVENTUALLY(!turn_of("thing")->held);
    }
    hf_close(client);
}
END_TEST

/* ---- What an answer is an answer to ---------------------------------------------- */

/* The store's word has to be younger than the question. */
START_TEST(an_older_answer_does_not_verify)
{
    hf_hold *hold = begin(10 * HOUR, 0, 0);
    answer_age = 1000;
    ck_assert_int_eq(hf_hold_verify(hold, NULL), HF_EUNREACHABLE);
    ck_assert_int_ge(checks, 1);
    answer_age = 0;
    ck_assert_int_eq(hf_hold_verify(hold, NULL), 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

START_TEST(an_older_answer_does_not_extend)
{
    hf_hold *hold = begin(10 * HOUR, 0, 0);
    clock_pass(HOUR);
    answer_age = 1000;
    ck_assert_int_eq(hf_hold_extend(hold, 20 * HOUR, NULL), HF_EUNREACHABLE);
    answer_age = 0;
    ck_assert_int_eq(hf_hold_extend(hold, 20 * HOUR, NULL), 0);
    ck_assert_int_gt(hf_hold_left_ms(hold), 19 * HOUR);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

static void *extend(void *arg)
{
    static int rc;
    rc = hf_hold_extend(arg, 20 * HOUR, NULL);
    return &rc;
}

/* A look says nothing about a lease: it does not end a call that asked for more. */
START_TEST(a_look_does_not_extend)
{
    pthread_t thread;
    void *rc = NULL;
    hf_hold *hold = begin(10 * HOUR, 0, 0);
    deaf = true;
    ck_assert_int_eq(pthread_create(&thread, NULL, extend, hold), 0);
    EVENTUALLY(renewals >= 1); /* and so it waits */
    ck_assert_int_eq(hf_hold_verify(hold, NULL), 0);
    pthread_join(thread, &rc);
    ck_assert_int_eq(*(int *)rc, HF_EUNREACHABLE);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* A word of loss that comes while the release is under way is not about it. */
START_TEST(an_event_after_the_release_is_dropped)
{
    hf_hold *hold = begin(10 * HOUR, 0, 0);
    struct turn *turn = turn_of("thing");
    ck_assert_int_eq(hf_hold_watch(hold, told, NULL, NULL), 0);
    mute = true;
    ck_assert_int_eq(hf_release_async(hold, NULL, NULL, NULL), 0);
    ck_assert_int_ge(withdrawals, 1);
    int rc = 0;
    hf_client *inside = hf__client_lock(client, &rc, NULL);
    turns_host->ops->event(turns_host, turn->ticket, HF_EVENT_LOST);
    turns_host->ops->event(turns_host, turn->ticket, HF_EVENT_REVOKED);
    hf__client_unlock(inside);
    clock_pass(4 * HOUR); /* a renewal would be due, and is not made */
    EVENTUALLY(withdrawals >= 3);
    ck_assert_int_eq(renewals, 0);
    mute = false;
    EVENTUALLY(!turn->held); /* the withdrawal is repeated */
    ck_assert_int_eq(lost + revoked, 0);
    ck_assert_int_eq(take("thing", 0, 0, 0, &hold), 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* A request of which no try got there has changed nothing, and the caller hears so. */
START_TEST(unreachable_is_not_uncertain)
{
    char id[HF_ID_MAX];
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *adopted = NULL;
    hf_hold *hold = begin(10 * HOUR, 0, 0);
    ck_assert_int_eq(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    ask_rc = HF_EUNREACHABLE;
    ck_assert_int_eq(hf_adopt(client, id, &how, &adopted, NULL), HF_EUNREACHABLE);
    ask_rc = HF_EUNCERTAIN;
    ck_assert_int_eq(hf_adopt(client, id, &how, &adopted, NULL), HF_EUNCERTAIN);
    ask_rc = 0;
    ck_assert_int_eq(hf_hold_verify(hold, NULL), 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* A repeat that finds nothing does not say that the first one moved nothing. */
START_TEST(gone_at_a_repeat_is_not_absent)
{
    char id[HF_ID_MAX];
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *adopted = NULL;
    hf_hold *hold = begin(10 * HOUR, 0, 0);
    ck_assert_int_eq(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    ask_rc = HF_ENOENT;
    ck_assert_int_eq(hf_adopt(client, id, &how, &adopted, NULL), HF_ENOENT);
    ask_rc_once = HF_EUNREACHABLE; /* it did not get there */
    ck_assert_int_eq(hf_adopt(client, id, &how, &adopted, NULL), HF_ENOENT);
    ask_rc_once = HF_EUNCERTAIN;
    ck_assert_int_eq(hf_adopt(client, id, &how, &adopted, NULL), HF_ELOST);
    ask_rc = 0;
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* A held ticket is asked nothing but for renewals: what else comes is too late. */
START_TEST(late_answers_change_nothing)
{
    hf_error why = { .code = HF_EMISMATCH };
    struct hf_grant other = { .token = 5, .span = 1, .ttl_ns = HF_NS_PER_MS };
    int rc = 0;
    hf_hold *hold = begin(10 * HOUR, 0, 0);
    uint64_t token = hf_hold_token(hold, 0);
    struct hf_ticket *ticket = turn_of("thing")->ticket;
    const struct hf_host_ops *ops = turns_host->ops;
    hf_client *inside = hf__client_lock(client, &rc, NULL);
    ops->withdrawn(turns_host, ticket, HF_GONE);
    ops->busy(turns_host, ticket);
    ops->queued(turns_host, ticket, 1);
    ops->notice(turns_host, ticket);
    ops->failed(turns_host, ticket, &why);
    ops->granted(turns_host, ticket, &other);
    hf__client_unlock(inside);
    ck_assert_int_eq(hf_hold_verify(hold, NULL), 0);
    ck_assert_int_eq(hf_hold_state(hold), HF_HELD);
    ck_assert_uint_eq(hf_hold_token(hold, 0), token);
    ck_assert_int_gt(hf_hold_left_ms(hold), 9 * HOUR);
    ck_assert_int_eq(withdrawals, 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    ck_assert_int_eq(withdrawals, 1);
    hf_close(client);
}
END_TEST

/* ---- What is told ---------------------------------------------------------------- */

/* Doubt is told once for each time that an answer stays out. */
START_TEST(doubt_is_told_once)
{
    hf_hold *hold = begin(10 * HOUR, 0, 0);
    ck_assert_int_eq(hf_hold_watch(hold, told, NULL, NULL), 0);
    deaf = true;
    for (int64_t hours = 4; hours > 2; hours--) {
        int before = renewals;
        clock_pass(hours * HOUR);
        EVENTUALLY(renewals > before + 1); /* asked again and again */
    }
    EVENTUALLY(doubtful == 1);
    int before = renewals;
    clock_pass(HOUR);
    EVENTUALLY(renewals > before + 1);
    deaf = false;
    EVENTUALLY(hf_hold_left_ms(hold) > 9 * HOUR);
    ck_assert_int_eq(doubtful, 1);
    deaf = true;
    clock_pass(7 * HOUR);
    EVENTUALLY(doubtful == 2);
    ck_assert_int_eq(lost, 0);
    deaf = false;
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* Who watches a second time is told again; the loss itself is told once. */
START_TEST(a_second_watch_is_told_too)
{
    hf_hold *hold = begin(0, 0, 0);
    ck_assert_int_eq(hf_hold_watch(hold, told, NULL, NULL), 0);
    lose("thing");
    EVENTUALLY(lost == 1);
    ck_assert_int_eq(hf_hold_watch(hold, told, NULL, NULL), 0);
    EVENTUALLY(lost == 2);
    ck_assert_int_eq(hf_release(hold, NULL), HF_ELOST);
    hf_close(client);
    ck_assert_int_eq(lost, 2);
}
END_TEST

/* ---- After a loss ---------------------------------------------------------------- */

struct waiter {
    hf_hold *hold;
    int rc;
};

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;
    hf_want want = hf_mutex("thing");
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    how.timeout_ms = HF_FOREVER;
    how.ttl_ms = 10 * HOUR;
    waiter->rc = hf_acquire(client, &want, 1, &how, &waiter->hold, NULL);
    return NULL;
}

static int asleep(void)
{
    int rc = 0;
    hf_client *inside = hf__client_lock(client, &rc, NULL);
    int count = (int)inside->inside;
    hf__client_unlock(inside);
    return count;
}

/* Who waited for a hand-off of a hold that is lost has the lease that it asked for, and
 * that is renewed. */
START_TEST(a_waiter_of_a_lost_hold_is_renewed)
{
    struct waiter waiter = { 0 };
    pthread_t thread;
    hf_hold *hold = begin(10 * HOUR, 0, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
    EVENTUALLY(asleep() == 1);
    lose("thing");
    pthread_join(thread, NULL);
    ck_assert_int_eq(waiter.rc, 0);
    ck_assert_int_eq(turn_of("thing")->ttl_ms, 10 * HOUR);
    ck_assert_int_le(hf_hold_left_ms(waiter.hold), 10 * HOUR);
    int before = renewals;
    clock_pass(4 * HOUR);
    EVENTUALLY(renewals > before && hf_hold_left_ms(waiter.hold) > 9 * HOUR);
    ck_assert_int_eq(hf_release(hold, NULL), HF_ELOST);
    ck_assert_int_eq(hf_hold_verify(waiter.hold, NULL), 0);
    ck_assert_int_eq(hf_release(waiter.hold, NULL), 0);
    hf_close(client);
}
END_TEST

/* Those who wait stay in line, however often the hold is lost before their turn. */
START_TEST(waiters_outlive_two_losses)
{
    struct waiter waiters[2] = { { 0 } };
    pthread_t threads[2];
    hf_hold *hold = begin(10 * HOUR, 0, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, wait_for_it, &waiters[i]),
                         0);
        EVENTUALLY(asleep() == i + 1);
    }
    lose("thing");
    pthread_join(threads[0], NULL);
    ck_assert_int_eq(waiters[0].rc, 0);
    lose("thing");
    pthread_join(threads[1], NULL);
    ck_assert_int_eq(waiters[1].rc, 0);
    ck_assert_int_eq(hf_hold_verify(waiters[1].hold, NULL), 0);
    ck_assert_int_eq(hf_release(waiters[1].hold, NULL), 0);
    ck_assert_int_eq(hf_release(waiters[0].hold, NULL), HF_ELOST);
    ck_assert_int_eq(hf_release(hold, NULL), HF_ELOST);
    hf_close(client);
}
END_TEST

/* A hold that is left behind while its renewal is under way stays as it is. */
START_TEST(left_during_a_renewal)
{
    hf_hold *hold = begin(10 * HOUR, 0, HF_DETACHED);
    deaf = true;
    clock_pass(4 * HOUR);
    EVENTUALLY(renewals >= 1);
    int before = forgets;
    ck_assert_int_eq(hf_hold_leave(hold, NULL), 0);
    ck_assert_int_gt(forgets, before); /* no answer may come to it any more */
    int sent = renewals;
    clock_pass(4 * HOUR);
    ck_assert_int_eq(take("other", 0, 0, 0, &hold), 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    ck_assert_int_eq(renewals, sent);
    ck_assert(turn_of("thing")->held);
    ck_assert_int_eq(withdrawals, 1); /* of the other one */
    hf_close(client);
}
END_TEST

UNIT_MAIN("leases", the_drift_is_taken_off, the_most_ends_a_longer_lease,
          a_shorter_lease_than_the_most_is_renewed, the_most_ends_an_adopted_lease,
          an_expiring_permit_has_a_lease, a_late_grant_of_several_is_no_grant,
          no_more_than_was_asked_for, an_older_answer_does_not_verify,
          an_older_answer_does_not_extend, a_look_does_not_extend,
          unreachable_is_not_uncertain, gone_at_a_repeat_is_not_absent,
          late_answers_change_nothing, an_event_after_the_release_is_dropped,
          doubt_is_told_once, a_second_watch_is_told_too,
          a_waiter_of_a_lost_hold_is_renewed, waiters_outlive_two_losses,
          left_during_a_renewal)
