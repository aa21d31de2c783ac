/* SPDX-License-Identifier: MIT */
/*
 * Callbacks that change what is still to be told: one that closes another client, whose
 * own callbacks then run inside it, and one that ends or changes the watch it is told
 * for.
 */
#include "unit.h"

#include "turns_store.h"

#include "../../src/core/client.h"

/* ---- Inside one another ---------------------------------------------------------- */

static hf_client *outer, *inner;
static int inside_rc, after_rc, inner_rc;

static void inner_told(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    hf_hold *none = NULL;
    (void)user;
    (void)hold;
    (void)why;
    inner_rc = rc;
    inside_rc = hf_lock(outer, "y", 0, &none, NULL);
}

static void outer_told(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    hf_hold *none = NULL;
    (void)user;
    (void)why;
    ck_assert_int_eq(rc, 0);
    hf_close(inner);
    after_rc = hf_lock(outer, "y", 0, &none, NULL);
    ck_assert_int_eq(after_rc, HF_ECALLBACK); /* or what follows pulls the floor away */
    hf_close(outer);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
}

/* The callback of one client closes another one, and is inside its own all the same. */
START_TEST(a_callback_inside_a_callback)
{
    hf_options by_hand = HF_OPTIONS_INIT;
    hf_acquire_options patient = HF_ACQUIRE_OPTIONS_INIT;
    hf_want x = hf_mutex("x"), z = hf_mutex("z");
    hf_client *other;
    hf_hold *hold;
    by_hand.driver = HF_DRIVER_USER;
    patient.timeout_ms = HF_FOREVER;
    ck_assert_int_eq(hf_open("mem:nested", &by_hand, &outer, NULL), 0);
    ck_assert_int_eq(hf_open("mem:nested", &by_hand, &inner, NULL), 0);
    ck_assert_int_eq(hf_open("mem:nested", NULL, &other, NULL), 0);
    ck_assert_int_eq(hf_lock(other, "x", 0, &hold, NULL), 0);
    ck_assert_int_eq(
        hf_acquire_async(inner, &x, 1, &patient, inner_told, NULL, NULL, NULL), 0);
    ck_assert_int_eq(
        hf_acquire_async(outer, &z, 1, &patient, outer_told, NULL, NULL, NULL), 0);
    ck_assert_int_eq(hf_dispatch(outer, NULL), 0);
    ck_assert_int_eq(inner_rc, HF_ECLOSED);
    ck_assert_int_eq(inside_rc, HF_ECALLBACK);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    ck_assert_int_eq(hf_lock(outer, "y", 0, &hold, NULL), 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(outer);
    hf_close(other);
}
END_TEST

/* ---- Watches --------------------------------------------------------------------- */

static atomic_int first_events, second_revoked, second_lost;

static void second_told(void *user, hf_hold *hold, enum hf_event event,
                        const hf_error *why)
{
    (void)user;
    (void)hold;
    (void)why;
    atomic_fetch_add(event == HF_EVENT_LOST ? &second_lost : &second_revoked, 1);
}

/* `user` is the callback to go on with, or NULL. */
static void first_told(void *user, hf_hold *hold, enum hf_event event,
                       const hf_error *why)
{
    hf_watch_cb **next = user;
    (void)event;
    (void)why;
    atomic_fetch_add(&first_events, 1);
    ck_assert_int_eq(hf_hold_watch(hold, *next, NULL, NULL), 0);
}

/* Asked for and lost in one moment, so that both are due when the first is told. */
static hf_hold *watched(hf_client *client, hf_watch_cb **next)
{
    hf_hold *hold = NULL;
    int rc = 0;
    ck_assert_int_eq(hf_lock(client, "thing", 0, &hold, NULL), 0);
    ck_assert_int_eq(hf_hold_watch(hold, first_told, next, NULL), 0);
    hf_client *inside = hf__client_lock(client, &rc, NULL);
    struct turn *turn = turn_of("thing");
    turn->held = false;
    turns_host->ops->event(turns_host, turn->ticket, HF_EVENT_REVOKED);
    turns_host->ops->event(turns_host, turn->ticket, HF_EVENT_LOST);
    hf__client_unlock(inside);
    return hold;
}

/* Whoever ends a watch hears no more of it, not even what was due before. */
START_TEST(a_watch_that_ends_is_over)
{
    hf_watch_cb *next = NULL;
    hf_client *client = turns_client(50);
    hf_hold *hold = watched(client, &next);
    EVENTUALLY(first_events > 0);
    ck_assert_int_eq(hf_release(hold, NULL), HF_ELOST);
    hf_close(client);
    ck_assert_int_eq(first_events, 1);
}
END_TEST

/* And of two, one after the other, the second is told of the loss, once. */
START_TEST(the_loss_is_told_to_the_watch_there_is)
{
    hf_watch_cb *next = second_told;
    hf_client *client = turns_client(50);
    hf_hold *hold = watched(client, &next);
    EVENTUALLY(second_lost > 0);
    ck_assert_int_eq(hf_release(hold, NULL), HF_ELOST);
    hf_close(client);
    ck_assert_int_eq(first_events, 1);
    ck_assert_int_eq(second_lost, 1);
    ck_assert_int_eq(second_revoked, 0);
}
END_TEST

UNIT_MAIN("callbacks", a_callback_inside_a_callback, a_watch_that_ends_is_over,
          the_loss_is_told_to_the_watch_there_is)
