/* SPDX-License-Identifier: MIT */
/*
 * Leases: their end, their renewal, their limits. All on the virtual clock.
 *
 * Leases are tens of seconds long, so that real time, which runs as well, plays no
 * part. The clock moves in steps no larger than what a scenario wants to be noticed,
 * and after each step the scenario waits for what must follow from it.
 */
#include "contract.h"

#define TTL 30000

static void state_by_arithmetic(struct env *e)
{
    hf_options options = HF_OPTIONS_INIT;
    options.driver = HF_DRIVER_USER; /* and nobody dispatches */
    hf_client *client = client_with(e, &options);
    hf_hold *hold = held(e, client, .ttl = TTL);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    int64_t left = hf_hold_left_ms(hold);
    CHECK(left > TTL / 2 && left <= TTL);

    clock_advance(TTL / 2);
    CHECK(hf_hold_state(hold) != HF_LOST);
    CHECK(hf_hold_left_ms(hold) <= left - TTL / 2);
    clock_advance(TTL / 2);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_EQ(hf_hold_left_ms(hold), 0);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
}

static void no_lease_no_end(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    CHECK_EQ(hf_hold_left_ms(hold), HF_FOREVER);
    clock_advance(INT64_C(365) * 24 * 3600 * 1000);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    CHECK_RC(hf_hold_extend(hold, TTL, NULL), HF_EINVAL);
    let_go(hold);
}

static void client_default_lease(struct env *e)
{
    hf_options options = HF_OPTIONS_INIT;
    struct wants wants;
    hf_hold *hold = NULL;
    options.ttl_ms = TTL;
    hf_client *client = client_with(e, &options);
    form_wants(e->form, &wants, THING, false);
    ballast_ensure(e, THING);
    CHECK_RC(hf_acquire(client, wants.want, wants.count, NULL, &hold, NULL), 0);
    int64_t left = hf_hold_left_ms(hold);
    CHECK(left > TTL / 2 && left <= TTL);
    let_go(hold);
}

/* One step of the clock, and the renewal that it makes due: one that was sent after the
   step, not a proof from just before it, which moves the end by a few milliseconds. */
static void step(hf_hold *hold, int64_t ms)
{
    int64_t before = hf_hold_left_ms(hold);
    clock_advance(ms);
    EVENTUALLY(hf_hold_left_ms(hold) > before - ms / 2);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
}

/* ---- The end --------------------------------------------------------------------- */

/* The companion is renewed, and shows that renewals were made when they were due. */
static void fixed_lease_ends(struct env *e)
{
    struct contender waiter;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_FIXED);
    hf_hold *companion = held(e, a, .name = "companion", .ttl = TTL);
    contend(&waiter, e, b, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, b, 1));
    step(companion, TTL / 2);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK(!atomic_load(&waiter.over));
    step(companion, TTL / 2 + 1000);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_RC(contender_join(&waiter), 0);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK_RC(hf_hold_verify(waiter.hold, NULL), 0);
    let_go(waiter.hold);
    let_go(companion);
}

/* Who tries is served too: an expired lock is free for whoever looks. */
static void expired_is_free_to_try(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_FIXED);
    CHECK_BUSY(e, b, .rival = true);
    clock_advance(TTL + 1000);
    hf_hold *other = held_soon(e, b, .rival = true);
    CHECK_RC(hf_hold_verify(hold, NULL), HF_ELOST);
    CHECK_RC(hf_hold_extend(hold, TTL, NULL), HF_ELOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK_RC(hf_hold_verify(other, NULL), 0);
    CHECK_BUSY(e, a, .who = 3);
    let_go(other);
}

static void release_after_expiry(struct env *e)
{
    hf_error why = { 0 };
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client, .ttl = TTL, .flags = HF_FIXED);
    clock_advance(TTL + 1000);
    CHECK_RC(hf_release(hold, &why), HF_ELOST);
    CHECK(why.code == HF_ELOST && why.text[0]);
    check_free(e);
}

static void expiry_is_told(struct env *e)
{
    struct told told = { 0 };
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client, .ttl = TTL, .flags = HF_FIXED);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    clock_advance(TTL / 2);
    CHECK_EQ(told.lost, 0);
    clock_advance(TTL / 2 + 1000);
    EVENTUALLY(atomic_load(&told.lost) == 1);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK_EQ(told.lost, 1);
}

/* ---- Renewal --------------------------------------------------------------------- */

static void renewal_keeps(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL);
    for (int i = 0; i < 24; i++)
        step(hold, TTL / 2 - 1000);
    CHECK_BUSY(e, b, .rival = true);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    let_go(hold);
    check_free(e);
}

/* Many leases, one client: they are renewed in company. More than go into one request,
 * but where a server is slow. */
static void renewal_keeps_many(struct env *e)
{
    static hf_hold *holds[150];
    int count = e->store->prepare ? 40 : 150;
    hf_client *client = client_open(e);
    for (int i = 0; i < count; i++) {
        char name[] = "name-000";
        name[5] = (char)('0' + i / 100);
        name[6] = (char)('0' + i / 10 % 10);
        name[7] = (char)('0' + i % 10);
        holds[i] = held(e, client, .name = name, .ttl = TTL);
    }
    for (int step_number = 0; step_number < 3; step_number++) {
        clock_advance(TTL / 2);
        for (int i = 0; i < count; i++)
            EVENTUALLY(hf_hold_left_ms(holds[i]) > TTL / 2);
    }
    for (int i = 0; i < count; i++)
        let_go(holds[i]);
}

/* The lock is free after a release, whatever renewals were under way. */
static void renewal_ends_with_release(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    for (int i = 0; i < 10; i++) {
        hf_hold *hold = held(e, a, .ttl = TTL, .timeout = HF_FOREVER);
        clock_advance(TTL / 2);
        let_go(hold);
        hf_hold *other = held(e, b, .rival = true, .ttl = TTL, .flags = HF_FIXED);
        clock_advance(TTL + 1000);
        CHECK_EQ(hf_hold_state(other), HF_LOST);
        CHECK_RC(hf_release(other, NULL), HF_ELOST);
    }
}

static void max_hold_ends(struct env *e)
{
    struct told told = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .max_hold = 2 * TTL);
    hf_hold *companion = held(e, a, .name = "companion", .ttl = TTL);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    for (int i = 1; i <= 3; i++) {
        step(companion, TTL / 2);
        EVENTUALLY(hf_hold_left_ms(hold) > (i < 3 ? TTL / 2 + 1000 : TTL / 4));
        CHECK(hf_hold_left_ms(hold) <= 2 * TTL - i * TTL / 2);
        CHECK_BUSY(e, b, .rival = true);
    }
    step(companion, TTL / 2);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    EVENTUALLY(atomic_load(&told.lost) == 1);
    hf_hold *other = held(e, b, .rival = true, .timeout = HF_FOREVER);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK_RC(hf_hold_verify(other, NULL), 0);
    let_go(other);
    let_go(companion);
}

/* ---- Verify and extend ----------------------------------------------------------- */

static void verify_asks_the_store(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    holder_evict(e, b);
    CHECK_RC(hf_hold_verify(hold, NULL), HF_ELOST);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
}

static void extend_moves_the_end(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_FIXED);
    clock_advance(TTL / 2);
    CHECK_RC(hf_hold_extend(hold, 4 * TTL, NULL), 0);
    CHECK(hf_hold_left_ms(hold) > 3 * TTL);
    clock_advance(2 * TTL);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_BUSY(e, b, .rival = true);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);

    CHECK_RC(hf_hold_extend(hold, TTL, NULL), 0); /* also to an earlier end */
    CHECK(hf_hold_left_ms(hold) <= TTL);
    clock_advance(TTL + 1000);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    let_go(held_soon(e, b, .rival = true));
    CHECK_RC(hf_hold_extend(hold, TTL, NULL), HF_ELOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
}

static void extend_within_limits(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client, .ttl = TTL, .max_hold = 2 * TTL);
    CHECK_RC(hf_hold_extend(hold, 3 * TTL, NULL), HF_EINVAL);
    CHECK_RC(hf_hold_extend(hold, 0, NULL), HF_EINVAL);
    CHECK_RC(hf_hold_extend(hold, -1, NULL), HF_EINVAL);
    CHECK_RC(hf_hold_extend(hold, TTL, NULL), 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    let_go(hold);
}

#define LEASE (HF_CAP_LEASE)

const struct scenario scenarios_lease[] = {
    { "state-by-arithmetic", LOCKS, LEASE, CLOCK, state_by_arithmetic },
    { "no-lease-no-end", LOCKS & ~EXPIRING, LEASE | NEED_ENDLESS, CLOCK,
      no_lease_no_end },
    { "client-default-lease", LOCKS, LEASE, CLOCK, client_default_lease },
    { "fixed-lease-ends", LOCKS, LEASE | HF_CAP_INSPECT, CLOCK, fixed_lease_ends },
    { "expired-is-free-to-try", LOCKS, LEASE, CLOCK, expired_is_free_to_try },
    { "release-after-expiry", LOCKS, LEASE, CLOCK, release_after_expiry },
    { "expiry-is-told", LOCKS, LEASE, CLOCK, expiry_is_told },
    { "renewal-keeps", LOCKS, LEASE, CLOCK, renewal_keeps },
    { "renewal-keeps-many", LOCKS & ~PERMITS_OF_5, LEASE, CLOCK, renewal_keeps_many },
    { "renewal-ends-with-release", LOCKS, LEASE, CLOCK, renewal_ends_with_release },
    { "max-hold-ends", LOCKS, LEASE, CLOCK, max_hold_ends },
    { "verify-asks-the-store", LOCKS, LEASE | HF_CAP_INSPECT | HF_CAP_EVICT, CLOCK,
      verify_asks_the_store },
    { "extend-moves-the-end", LOCKS, LEASE, CLOCK, extend_moves_the_end },
    { "extend-within-limits", LOCKS, LEASE, CLOCK, extend_within_limits },
    { NULL, 0, 0, 0, NULL },
};
