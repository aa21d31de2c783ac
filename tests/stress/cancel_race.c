/* SPDX-License-Identifier: MIT */
/*
 * cancel_race: a grant and a cancel meet, ten thousand times.
 *
 *     cancel_race [--rounds 10000]
 *
 * Each round: the lock is held; an asynchronous acquire waits for it; one thread
 * releases the lock while another cancels the wait, after tiny random spins. Their
 * difference is steered, for each way through the library by itself, so that both
 * outcomes keep happening however slow the machine is. The op has to end exactly
 * once: with a hold, which is released, or cancelled. The next round begins by
 * trying the lock once: it must be free at that moment.
 *
 * The waiter takes turns between the holder's own client (hand-off inside the process)
 * and another one (through the store), and between hf_op_wait() and a callback.
 */
#include "stress.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#define NAME "race"
#define PATIENCE_MS 30000
#define LEAD_MAX 5000000
#define STEP_MIN 20
#define STEP_MAX 100000

/* One way through the library: this client or another, a callback or none. */
struct way {
    int lead; /* how much longer the cancel spins than the release */
    int step; /* by how much that changes next: larger while one of them always wins */
    bool granted; /* the last outcome */
};

struct race {
    hf_client *home;
    hf_client *away;
    uint64_t random;
    struct way ways[4];
    struct way *way; /* of this round */

    /* This round's. */
    hf_hold *hold;
    hf_op *op;
    uint32_t release_spin, cancel_spin;
    int release_rc;
    atomic_int told;
    int told_rc;
    hf_hold *told_hold;

    sem_t release_go, cancel_go, gone, ended;
    atomic_bool over;
    int granted, cancelled, wrong;
};

/* ---- The two rivals -------------------------------------------------------------- */

static void *releaser_run(void *arg)
{
    struct race *race = arg;

    for (;;) {
        sem_wait(&race->release_go);
        if (atomic_load(&race->over))
            return NULL;
        spin(race->release_spin);
        race->release_rc = hf_release(race->hold, NULL);
        sem_post(&race->gone);
    }
}

static void *canceller_run(void *arg)
{
    struct race *race = arg;

    for (;;) {
        sem_wait(&race->cancel_go);
        if (atomic_load(&race->over))
            return NULL;
        spin(race->cancel_spin);
        hf_op_cancel(race->op);
        sem_post(&race->gone);
    }
}

/* ---- One round ------------------------------------------------------------------- */

static void race_told(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct race *race = user;

    (void)why;
    race->told_rc = rc;
    race->told_hold = hold;
    atomic_fetch_add(&race->told, 1);
    sem_post(&race->ended);
}

static void race_draw(struct race *race)
{
    int lead = race->way->lead;

    race->release_spin = random_below(&race->random, 300);
    race->cancel_spin = random_below(&race->random, 300);
    if (lead > 0)
        race->cancel_spin += (uint32_t)lead;
    else
        race->release_spin += (uint32_t)-lead;
}

static void race_steer(struct way *way, bool granted)
{
    way->step = granted == way->granted ? 2 * way->step : way->step / 4;
    if (way->step < STEP_MIN)
        way->step = STEP_MIN;
    if (way->step > STEP_MAX)
        way->step = STEP_MAX;
    way->granted = granted;
    if (granted && way->lead > -LEAD_MAX)
        way->lead -= way->step;
    if (!granted && way->lead < LEAD_MAX)
        way->lead += way->step;
}

static void race_judge(struct race *race, int rc, hf_hold *hold)
{
    if (rc == 0 && hold && hf_release(hold, NULL) == 0) {
        race->granted++;
        race_steer(race->way, true);
    } else if (rc == HF_ECANCELLED && !hold) {
        race->cancelled++;
        race_steer(race->way, false);
    } else {
        race->wrong++;
        tap_note("the op ended with %s", hf_error_name(rc));
    }
}

static void race_round(struct race *race, bool away, bool callback)
{
    static const hf_acquire_options forever = { .size = sizeof forever,
                                                .timeout_ms = HF_FOREVER };
    hf_want want = hf_mutex(NAME);
    hf_hold *hold = NULL;
    hf_error why;
    int rc;

    if (hf_lock(race->home, NAME, 0, &race->hold, &why))
        tap_bail("the lock is not free: %s", why.text);
    if (hf_acquire_async(away ? race->away : race->home, &want, 1, &forever,
                         callback ? race_told : NULL, race, &race->op, &why))
        tap_bail("hf_acquire_async: %s", why.text);
    race->way = &race->ways[2 * away + callback];
    race_draw(race);
    sem_post(&race->release_go);
    sem_post(&race->cancel_go);
    if (callback) {
        sem_wait(&race->ended); /* a callback that never comes is the watchdog's */
        rc = race->told_rc;
        hold = race->told_hold;
    } else {
        rc = hf_op_wait(race->op, PATIENCE_MS, &hold, NULL);
    }
    sem_wait(&race->gone);
    sem_wait(&race->gone);
    hf_op_free(race->op);
    race->wrong += race->release_rc != 0;
    race_judge(race, rc, hold);
}

/* ---- All rounds ------------------------------------------------------------------ */

static void race_run(const char *url, int rounds)
{
    struct race race = { .random = 0x9e3779b97f4a7c15 };
    pthread_t releaser, canceller;
    int callbacks = 0, seen;

    tap_note("%s, %d rounds", url, rounds);
    race.home = open_or_bail(url, NULL);
    race.away = open_or_bail(url, NULL);
    sem_init(&race.release_go, 0, 0);
    sem_init(&race.cancel_go, 0, 0);
    sem_init(&race.gone, 0, 0);
    sem_init(&race.ended, 0, 0);
    pthread_create(&releaser, NULL, releaser_run, &race);
    pthread_create(&canceller, NULL, canceller_run, &race);
    for (int i = 0; i < rounds; i++) {
        race_round(&race, i & 1, i & 2);
        callbacks += i & 2 ? 1 : 0;
    }
    atomic_store(&race.over, true);
    sem_post(&race.release_go);
    sem_post(&race.cancel_go);
    pthread_join(releaser, NULL);
    pthread_join(canceller, NULL);

    tap_note("%d granted, %d cancelled", race.granted, race.cancelled);
    tap_ok(race.wrong == 0, "%d rounds: each op ended as granted or cancelled", rounds);
    tap_ok(atomic_load(&race.told) == callbacks, "each callback came once");
    tap_ok(race.granted > rounds / 20 && race.cancelled > rounds / 20,
           "the race was a race");
    seen = entries_seen(race.home);
    tap_ok(seen == 0, "nothing is held and nothing queued (%d entries)", seen);
    hf_close(race.home);
    hf_close(race.away);
}

int main(int argc, char **argv)
{
    struct stress_options options = { .rounds = 10000 };
    char dir[96], url[128];

    stress_options(argc, argv, &options);
    watchdog(60 + options.rounds / 20);
    race_run("mem:cancel-race", options.rounds);
    scratch_make(dir, sizeof dir);
    snprintf(url, sizeof url, "file:%s", dir);
    race_run(url, options.rounds);
    scratch_remove(dir);
    return tap_done();
}
