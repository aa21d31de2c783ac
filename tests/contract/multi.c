/* SPDX-License-Identifier: MIT */
/*
 * Several names at once: all or nothing, in one order for everybody; and stripes, which
 * are one name cut into parts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract.h"

static hf_hold *one_held(hf_client *client, hf_want want)
{
    hf_hold *hold = NULL;
    CHECK_RC(hf_acquire(client, &want, 1, NULL, &hold, NULL), 0);
    return hold;
}

static hf_acquire_options waits(int64_t timeout)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = timeout;
    return options;
}

/* ---- All or nothing -------------------------------------------------------------- */

/* One of three is taken, each in turn: the other two are handed back. */
static void all_or_nothing(struct env *e)
{
    hf_want wants[3] = { hf_mutex("b"), hf_write("c"), hf_permits("a", 1, 1) };
    hf_acquire_options options = waits(10);
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    for (int i = 0; i < 3; i++) {
        hf_hold *none = NULL;
        hf_hold *taken = one_held(a, wants[i]);
        CHECK_RC(hf_acquire(b, wants, 3, NULL, &none, NULL), HF_EBUSY);
        CHECK_EQ(seen(e, a, HF_HOLDER), 1);
        CHECK_RC(hf_acquire(b, wants, 3, &options, &none, NULL), HF_ETIMEOUT);
        CHECK_EQ(seen(e, a, HF_HOLDER), 1);
        CHECK_EQ(seen(e, a, HF_WAITER), 0);
        CHECK(none == NULL);
        let_go(taken);
    }
}

static void cancel_rolls_back(struct env *e)
{
    hf_want wants[3] = { hf_mutex("b"), hf_write("c"), hf_permits("a", 1, 1) };
    hf_acquire_options options = waits(HF_FOREVER);
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *taken = one_held(a, wants[1]);
    hf_hold *none = NULL;
    hf_op *op = NULL;
    CHECK_RC(hf_acquire_async(b, wants, 3, &options, NULL, NULL, &op, NULL), 0);
    EVENTUALLY(queued(e, a, 1));
    CHECK_EQ(seen(e, a, HF_HOLDER), 3);
    hf_op_cancel(op);
    CHECK_RC(op_end(op, HF_FOREVER, &none), HF_ECANCELLED);
    CHECK_EQ(seen(e, a, HF_HOLDER), 1);
    CHECK_EQ(seen(e, a, HF_WAITER), 0);
    let_go(taken);
}

/* The store refuses the last of them. */
static void mismatch_rolls_back(struct env *e)
{
    hf_want wants[3] = { hf_permits("c", 1, 1), hf_write("a"), hf_mutex("b") };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *none = NULL;
    hf_hold *taken = one_held(a, hf_permits("c", 1, 2));
    CHECK_RC(hf_acquire(b, wants, 3, NULL, &none, NULL), HF_EMISMATCH);
    CHECK_EQ(seen(e, a, HF_HOLDER), 1);
    CHECK_EQ(seen(e, a, HF_WAITER), 0);
    let_go(taken);
}

static void killed_multi_frees_all(struct env *e)
{
    hf_client *client = client_open(e);
    struct taker *taker = taker_start(e, NULL);
    taker_take(e, taker, THING, 0, 0, 0);
    CHECK_EQ(seen(e, client, HF_HOLDER), 3);
    taker_kill(taker);
    let_go(held(e, client, .timeout = HF_FOREVER));
}

/* A process dies in the middle: it has two and waits for the third. */
static void killed_halfway_frees_all(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *last = one_held(client, hf_mutex(THING "/c"));
    struct taker *taker = taker_start(e, NULL);
    taker_begin(e, taker, THING, HF_FOREVER, 0, 0);
    EVENTUALLY(queued(e, client, 1));
    CHECK_EQ(seen(e, client, HF_HOLDER), 3);
    taker_kill(taker);
    let_go(last);
    let_go(held(e, client, .timeout = HF_FOREVER));
}

/* ---- Order ----------------------------------------------------------------------- */

struct pair {
    hf_client *clients[2];
    struct guarded guarded;
};

/* Half of them name the two the other way round. */
static void pair_member(void *arg, size_t number)
{
    struct pair *pair = arg;
    hf_acquire_options options = waits(HF_FOREVER);
    hf_want wants[2] = { hf_mutex(number % 2 ? "A" : "B"),
                         hf_mutex(number % 2 ? "B" : "A") };
    for (int i = 0; i < 30; i++) {
        hf_hold *hold = NULL;
        CHECK_RC(
            hf_acquire(pair->clients[number / 2 % 2], wants, 2, &options, &hold, NULL),
            0);
        guarded_visit(&pair->guarded, hf_hold_token(hold, number % 2 ? 0 : 1));
        let_go(hold);
    }
}

static void no_deadlock(struct env *e)
{
    struct pair *pair = calloc(1, sizeof *pair);
    CHECK(pair != NULL);
    pair->clients[0] = client_open(e);
    pair->clients[1] = client_open(e);
    threads_run(8, pair_member, pair);
    CHECK_EQ(pair->guarded.violations, 0);
    CHECK_EQ(pair->guarded.count, 8 * 30);
    free(pair);
}

/* Tokens come in the caller's order, whatever order they were taken in. */
static void tokens_by_index(struct env *e)
{
    static const char *const names[5] = { "m", "z", "a", "k", "b" };
    hf_want wants[5];
    hf_hold *hold = NULL;
    hf_client *client = client_open(e);
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j <= i; j++) /* so that the five tokens differ */
            let_go(one_held(client, hf_mutex(names[i])));
        wants[i] = hf_mutex(names[i]);
    }
    CHECK_RC(hf_acquire(client, wants, 5, NULL, &hold, NULL), 0);
    CHECK_EQ(hf_hold_count(hold), 5);
    for (size_t i = 0; i < 5; i++) {
        hf_report *report = NULL;
        CHECK_RC(hf_inspect(client, names[i], false, &report, NULL), 0);
        CHECK_EQ(hf_report_count(report), 1);
        CHECK_EQ(hf_report_entry(report, 0)->token, hf_hold_token(hold, i));
        hf_report_free(report);
    }
    let_go(hold);
}

static void sixty_four_names(struct env *e)
{
    static char names[64][16];
    hf_want wants[64];
    hf_hold *hold = NULL;
    hf_hold *none = NULL;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    for (int i = 0; i < 64; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i * 37 % 64);
        wants[i] = hf_mutex(names[i]);
    }
    CHECK_RC(hf_acquire(a, wants, 64, NULL, &hold, NULL), 0);
    CHECK_EQ(hf_hold_count(hold), 64);
    CHECK_EQ(seen(e, b, HF_HOLDER), 64);
    for (int i = 0; i < 64; i += 9)
        CHECK_RC(hf_acquire(b, &wants[i], 1, NULL, &none, NULL), HF_EBUSY);
    let_go(hold);
    CHECK_EQ(seen(e, b, HF_HOLDER), 0);
}

static void same_name_twice(struct env *e)
{
    hf_error why = { 0 };
    hf_hold *none = NULL;
    hf_op *op = NULL;
    hf_client *client = client_open(e);
    hf_want twice[3] = { hf_mutex("a"), hf_mutex("b"), hf_mutex("a") };
    hf_want kinds[2] = { hf_read("a"), hf_write("a") };
    CHECK_RC(hf_acquire(client, twice, 3, NULL, &none, &why), HF_EINVAL);
    CHECK(why.code == HF_EINVAL && why.text[0] && !none);
    CHECK_RC(hf_acquire(client, kinds, 2, NULL, &none, NULL), HF_EINVAL);
    CHECK_RC(hf_acquire_async(client, twice, 3, NULL, NULL, NULL, &op, NULL),
             HF_EINVAL);
    CHECK(op == NULL);
    CHECK_EQ(seen(e, client, HF_HOLDER), 0);
}

/* A reentrant part is entered again; the others are taken as usual. */
static void multi_enters_again(struct env *e)
{
    hf_client *client = client_open(e);
    hf_want wants[2] = { hf_mutex("x"), hf_reentrant("r") };
    hf_hold *outer = one_held(client, hf_reentrant("r"));
    hf_hold *both = NULL;
    hf_hold *none = NULL;
    CHECK_RC(hf_acquire(client, wants, 2, NULL, &both, NULL), 0);
    CHECK_EQ(hf_hold_token(both, 1), hf_hold_token(outer, 0));
    hf_hold *x = NULL;
    CHECK_RC(hf_lock(client, "x", 0, &x, NULL), HF_EBUSY);
    let_go(outer);
    hf_client *other = client_open(e);
    CHECK_RC(hf_acquire(other, &wants[1], 1, NULL, &none, NULL), HF_EBUSY);
    let_go(both);
    let_go(one_held(other, hf_reentrant("r")));
}

/* ---- Stripes --------------------------------------------------------------------- */

#define STRIPES 16
#define KEYS 400

/* Every key falls into one of sixteen parts, and every part is hit by some key. */
static void stripes_cover_range(struct env *e)
{
    hf_hold *holds[KEYS] = { NULL };
    hf_client *client = client_open(e);
    int count = 0;
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof key, "key-%d", i);
        hf_want want = hf_striped(THING, key, STRIPES);
        int rc = hf_acquire(client, &want, 1, NULL, &holds[i], NULL);
        CHECK(rc == 0 || rc == HF_EBUSY);
        count += rc == 0;
    }
    CHECK_EQ(count, STRIPES);
    CHECK_EQ(seen(e, client, HF_HOLDER), STRIPES);
    for (int i = 0; i < KEYS; i++)
        CHECK_RC(hf_release(holds[i], NULL), 0);
}

/* The same key is the same part for every client and every process. */
static void same_key_same_stripe(struct env *e)
{
    hf_hold *none = NULL;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_want key = hf_striped(THING, "some key", 1000);
    hf_want other_name = hf_striped("another", "some key", 1000);
    hf_hold *hold = one_held(a, key);
    CHECK_RC(hf_acquire(b, &key, 1, NULL, &none, NULL), HF_EBUSY);
    let_go(one_held(b, other_name));
    let_go(hold);
}

static void one_stripe_is_one_lock(struct env *e)
{
    hf_hold *none = NULL;
    hf_client *client = client_open(e);
    hf_want other = hf_striped(THING, "other", 1);
    hf_hold *hold = one_held(client, hf_striped(THING, "some", 1));
    CHECK_RC(hf_acquire(client, &other, 1, NULL, &none, NULL), HF_EBUSY);
    let_go(hold);
}

/* A look at the tokens while another thread releases: those of the hold, or 0. */
struct glance {
    _Atomic(hf_hold *) hold;
    atomic_ullong newest; /* no token so far is larger */
    atomic_bool over;
};

static void *look_at_tokens(void *arg)
{
    struct glance *glance = arg;
    while (!atomic_load(&glance->over)) {
        hf_hold *hold = atomic_load(&glance->hold);
        size_t count = hf_hold_count(hold);
        CHECK(count == 0 || count == 3);
        for (size_t i = 0; i < 3; i++) {
            uint64_t token = hf_hold_token(hold, i);
            CHECK(token <= atomic_load(&glance->newest));
        }
        CHECK_EQ(hf_hold_token(hold, 3), 0);
    }
    return NULL;
}

static void tokens_beside_release(struct env *e)
{
    struct glance glance = { .over = false };
    hf_client *client = client_open(e);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, look_at_tokens, &glance), 0);
    for (int i = 0; i < 100; i++) {
        hf_hold *hold = held(e, client);
        for (size_t n = 0; n < 3; n++) {
            uint64_t token = hf_hold_token(hold, n);
            CHECK(token > 0);
            if (token > atomic_load(&glance.newest))
                atomic_store(&glance.newest, token);
        }
        atomic_store(&glance.hold, hold);
        let_go(hold);
    }
    atomic_store(&glance.over, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

const struct scenario scenarios_multi[] = {
    { "all-or-nothing", MULTI, HF_CAP_INSPECT, 0, all_or_nothing },
    { "cancel-rolls-back", MULTI, HF_CAP_INSPECT, 0, cancel_rolls_back },
    { "mismatch-rolls-back", MULTI, HF_CAP_INSPECT, 0, mismatch_rolls_back },
    { "killed-multi-frees-all", MULTI, HF_CAP_PROCESSES | HF_CAP_CRASH | HF_CAP_INSPECT,
      0, killed_multi_frees_all },
    { "killed-halfway-frees-all", MULTI,
      HF_CAP_PROCESSES | HF_CAP_CRASH | HF_CAP_INSPECT, 0, killed_halfway_frees_all },
    { "no-deadlock", MULTI, 0, 0, no_deadlock },
    { "tokens-by-index", MULTI, HF_CAP_INSPECT, 0, tokens_by_index },
    { "tokens-beside-release", MULTI, 0, 0, tokens_beside_release },
    { "sixty-four-names", MULTI, HF_CAP_INSPECT, 0, sixty_four_names },
    { "same-name-twice", MULTI, HF_CAP_INSPECT, 0, same_name_twice },
    { "multi-enters-again", MULTI, 0, 0, multi_enters_again },
    { "stripes-cover-range", STRIPED, HF_CAP_INSPECT, 0, stripes_cover_range },
    { "same-key-same-stripe", STRIPED, 0, 0, same_key_same_stripe },
    { "one-stripe-is-one-lock", STRIPED, 0, 0, one_stripe_is_one_lock },
    { NULL, 0, 0, 0, NULL },
};
