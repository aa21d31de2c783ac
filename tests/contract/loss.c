/* SPDX-License-Identifier: MIT */
/*
 * Losing a hold and being told: watches, eviction, revocation.
 */
#include <string.h>

#include "contract.h"

static void release_is_no_loss(struct env *e)
{
    struct told told = { 0 };
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    let_go(hold);
    client_close(e, client);
    check_free(e);
    CHECK_EQ(told.lost + told.doubtful + told.revoked, 0);
}

static void eviction_is_told(struct env *e)
{
    struct told told = { 0 };
    hf_error why = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    holder_evict(e, b);
    EVENTUALLY(atomic_load(&told.lost) == 1);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_EQ(hf_hold_left_ms(hold), 0);
    CHECK_RC(hf_hold_verify(hold, NULL), HF_ELOST);
    CHECK_RC(hf_release(hold, &why), HF_ELOST);
    CHECK(why.code == HF_ELOST && strstr(why.text, "evicted"));
    CHECK_EQ(told.lost, 1);
    check_free(e);
}

/* Also without a watch the holder finds out, at the latest when it lets go. */
static void eviction_is_found_out(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    holder_evict(e, b);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    check_free(e);
}

/* A multi-lock that lost one part still has the others until it is released. */
static void eviction_lets_next_in(struct env *e)
{
    struct contender waiter;
    hf_client *clients[3] = { client_open(e), client_open(e), client_open(e) };
    hf_hold *hold = held(e, clients[0]);
    contend(&waiter, e, clients[1], .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, clients[2], 1));
    holder_evict(e, clients[2]);
    if (hf_hold_count(hold) > 1)
        CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK_RC(contender_join(&waiter), 0);
    CHECK_RC(hf_release(hold, NULL),
             hf_hold_count(waiter.hold) > 1 ? HF_ERELEASED : HF_ELOST);
    CHECK_RC(hf_hold_verify(waiter.hold, NULL), 0);
    CHECK_BUSY(e, clients[2], .who = 3);
    let_go(waiter.hold);
}

static void wrong_token_is_refused(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    struct holder holder = holder_find(e, b);
    CHECK_RC(hf_evict(b, holder.name, holder.token + 1000000, NULL), HF_ENOENT);
    CHECK_RC(hf_evict(b, "no such name", holder.token, NULL), HF_ENOENT);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    let_go(hold);
    CHECK_RC(hf_evict(b, holder.name, holder.token, NULL), HF_ENOENT);
}

/* A token of the past does not hit the holder of today. */
static void old_token_is_refused(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *first = held(e, a);
    struct holder holder = holder_find(e, b);
    let_go(first);
    hf_hold *second = held(e, b, .who = 2);
    CHECK_RC(hf_evict(a, holder.name, holder.token, NULL), HF_ENOENT);
    CHECK_RC(hf_hold_verify(second, NULL), 0);
    let_go(second);
}

static void watch_after_loss(struct env *e)
{
    struct told told = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    holder_evict(e, b);
    CHECK_RC(hf_hold_verify(hold, NULL), HF_ELOST);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    EVENTUALLY(atomic_load(&told.lost) == 1);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
}

static void watch_can_end(struct env *e)
{
    struct told first = { 0 };
    struct told second = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    CHECK_RC(hf_hold_watch(hold, told_event, &first, NULL), 0);
    CHECK_RC(hf_hold_watch(hold, told_event, &second, NULL), 0);
    holder_evict(e, b);
    EVENTUALLY(atomic_load(&second.lost) == 1);
    CHECK_EQ(first.lost, 0);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);

    hold = held(e, a, .timeout = HF_FOREVER);
    CHECK_RC(hf_hold_watch(hold, told_event, &first, NULL), 0);
    CHECK_RC(hf_hold_watch(hold, NULL, NULL, NULL), 0);
    holder_evict(e, b);
    CHECK_RC(hf_hold_verify(hold, NULL), HF_ELOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK_EQ(first.lost, 0);
}

/* Release and eviction at the same time: no hang, no crash, told at most once. */
static void *race_evictor(void *arg)
{
    void **client_and_holder = arg;
    const struct holder *holder = client_and_holder[1];
    int rc = hf_evict(client_and_holder[0], holder->name, holder->token, NULL);
    CHECK(rc == 0 || rc == HF_ENOENT);
    return NULL;
}

#define RACES 20

static void release_races_eviction(struct env *e)
{
    static struct told told[RACES]; /* one may still be told when the race is over */
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    for (int i = 0; i < RACES; i++) {
        pthread_t thread;
        hf_hold *hold = held(e, a, .timeout = HF_FOREVER);
        struct holder holder = holder_find(e, b);
        void *client_and_holder[] = { b, &holder };
        CHECK_RC(hf_hold_watch(hold, told_event, &told[i], NULL), 0);
        CHECK_EQ(pthread_create(&thread, NULL, race_evictor, client_and_holder), 0);
        int rc = hf_release(hold, NULL);
        CHECK(rc == 0 || rc == HF_ELOST);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    client_close(e, a);
    for (int i = 0; i < RACES; i++)
        CHECK(atomic_load(&told[i].lost) <= 1);
    check_free(e);
}

/* The watch's own callback may release. */
static void release_on_loss(void *user, hf_hold *hold, enum hf_event event,
                            const hf_error *why)
{
    (void)why;
    if (event == HF_EVENT_LOST) {
        CHECK_RC(hf_release(hold, NULL), HF_ELOST);
        atomic_fetch_add((atomic_int *)user, 1);
    }
}

static void watch_releases(struct env *e)
{
    atomic_int count = 0;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    CHECK_RC(hf_hold_watch(hold, release_on_loss, &count, NULL), 0);
    holder_evict(e, b);
    EVENTUALLY(atomic_load(&count) == 1);
    CHECK_RC(hf_release(hold, NULL), HF_ERELEASED);
    check_free(e);
}

/* ---- Asking ---------------------------------------------------------------------- */

static void revoke_is_told(struct env *e)
{
    struct told told = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    struct holder holder = holder_find(e, b);
    CHECK_RC(hf_revoke(b, holder.name, 0, NULL), 0);
    EVENTUALLY(atomic_load(&told.revoked) == 1);
    CHECK_RC(hf_revoke(b, holder.name, holder.token, NULL), 0);
    EVENTUALLY(atomic_load(&told.revoked) == 2);
    CHECK_EQ(told.lost, 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    let_go(hold);
}

static void revoke_before_watch(struct env *e)
{
    struct told told = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    struct holder holder = holder_find(e, b);
    CHECK_RC(hf_revoke(b, holder.name, 0, NULL), 0);
    CHECK_RC(hf_hold_verify(hold, NULL), 0); /* whatever was sent to `a` has come */
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    EVENTUALLY(atomic_load(&told.revoked) == 1);
    CHECK_EQ(told.lost, 0);
    let_go(hold);
}

static void revoke_of_nobody(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    struct holder holder = holder_find(e, client);
    CHECK_RC(hf_revoke(client, holder.name, holder.token + 1000000, NULL), HF_ENOENT);
    CHECK_RC(hf_revoke(client, "no such name", 0, NULL), HF_ENOENT);
    let_go(hold);
}

#define EVICT (HF_CAP_INSPECT | HF_CAP_EVICT)
#define REVOKE (HF_CAP_INSPECT | HF_CAP_REVOKE)

const struct scenario scenarios_loss[] = {
    { "release-is-no-loss", LOCKS, 0, 0, release_is_no_loss },
    { "eviction-is-told", LOCKS, EVICT, 0, eviction_is_told },
    { "eviction-is-found-out", LOCKS, EVICT, 0, eviction_is_found_out },
    { "eviction-lets-next-in", LOCKS, EVICT, 0, eviction_lets_next_in },
    { "wrong-token-is-refused", LOCKS, EVICT, 0, wrong_token_is_refused },
    { "old-token-is-refused", LOCKS, EVICT, 0, old_token_is_refused },
    { "watch-after-loss", LOCKS, EVICT, 0, watch_after_loss },
    { "watch-can-end", LOCKS, EVICT, 0, watch_can_end },
    { "release-races-eviction", LOCKS, EVICT, 0, release_races_eviction },
    { "watch-releases", LOCKS, EVICT, 0, watch_releases },
    { "revoke-is-told", LOCKS, REVOKE, 0, revoke_is_told },
    { "revoke-before-watch", LOCKS, REVOKE, 0, revoke_before_watch },
    { "revoke-of-nobody", LOCKS, REVOKE, 0, revoke_of_nobody },
    { NULL, 0, 0, 0, NULL },
};
