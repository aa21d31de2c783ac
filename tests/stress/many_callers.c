/* SPDX-License-Identifier: MIT */
/*
 * many_callers: many threads block in one client at once, and every one of them wakes.
 *
 *     many_callers [--rounds 40] [--threads 32]
 *
 * A blocking caller drives the client's loop itself; with many of them one leads and
 * the others follow, and the lead changes hands each time a leader's own answer comes.
 * Lose one wake-up there and a thread sleeps on although its lock is free. So: a
 * partner client holds a name for each thread, all threads block on their names
 * through one client, and once all of them stand in the queue the partner releases the
 * names in random order, one to four at a time, and waits for those callers to come
 * out: whoever led by then has left, and somebody else has to take over. Once with a
 * quiet client, and once while the same client also serves asynchronous acquires with
 * callbacks, which bring the background thread in.
 */
#include "stress.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_MAX 128
#define PATIENCE_MS 30000

struct hall {
    hf_client *client;
    hf_client *partner;
    int threads, rounds;
    uint64_t random;
    pthread_barrier_t gate;
    sem_t out; /* posted by each caller that came out */
    atomic_int woken, failed;
    atomic_bool noise_over;
    atomic_int noise_pending, noise_done;
};

struct caller {
    struct hall *hall;
    pthread_t thread;
    char name[24];
};

/* ---- Callers --------------------------------------------------------------------- */

static void *caller_run(void *arg)
{
    struct caller *caller = arg;
    struct hall *hall = caller->hall;
    hf_hold *hold;
    hf_error why;

    for (int i = 0; i < hall->rounds; i++) {
        pthread_barrier_wait(&hall->gate); /* the partner holds all names */
        if (hf_lock(hall->client, caller->name, PATIENCE_MS, &hold, &why) == 0 &&
            hf_release(hold, &why) == 0) {
            atomic_fetch_add(&hall->woken, 1);
        } else {
            atomic_fetch_add(&hall->failed, 1);
            tap_note("%s: %s", caller->name, why.text);
        }
        sem_post(&hall->out);
        pthread_barrier_wait(&hall->gate); /* all were released */
    }
    return NULL;
}

/* ---- Noise: asynchronous acquires on names of their own -------------------------- */

static void noise_granted(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct hall *hall = user;

    (void)why;
    if (rc == 0)
        hf_release_async(hold, NULL, NULL, NULL);
    atomic_fetch_add(&hall->noise_done, rc == 0);
    atomic_fetch_sub(&hall->noise_pending, 1);
}

static void *noise_run(void *arg)
{
    static const hf_acquire_options options = { .size = sizeof options,
                                                .timeout_ms = PATIENCE_MS };
    struct hall *hall = arg;
    hf_want want = hf_fair("noise");

    while (!atomic_load(&hall->noise_over)) {
        if (atomic_load(&hall->noise_pending) >= 4) {
            poll(NULL, 0, 1);
            continue;
        }
        atomic_fetch_add(&hall->noise_pending, 1);
        if (hf_acquire_async(hall->client, &want, 1, &options, noise_granted, hall,
                             NULL, NULL))
            atomic_fetch_sub(&hall->noise_pending, 1);
    }
    return NULL;
}

/* ---- The partner ----------------------------------------------------------------- */

static void shuffle(uint64_t *random, hf_hold **holds, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)random_below(random, (uint32_t)i + 1);
        hf_hold *hold = holds[i];

        holds[i] = holds[j];
        holds[j] = hold;
    }
}

/* How many callers stand in a queue; their names begin alike. */
static int waiting(const struct hall *hall)
{
    hf_report *report = NULL;
    int count = 0;

    if (hf_inspect(hall->partner, "caller/", true, &report, NULL))
        return -1;
    for (size_t i = 0; i < hf_report_count(report); i++)
        count += hf_report_entry(report, i)->role == HF_WAITER;
    hf_report_free(report);
    return count;
}

static void hall_round(struct hall *hall, struct caller *callers)
{
    hf_hold *holds[THREADS_MAX];
    int64_t limit = real_ms() + PATIENCE_MS;
    hf_error why;

    for (int i = 0; i < hall->threads; i++) {
        if (hf_lock(hall->partner, callers[i].name, 0, &holds[i], &why))
            tap_bail("%s is not free: %s", callers[i].name, why.text);
    }
    pthread_barrier_wait(&hall->gate);
    while (waiting(hall) < hall->threads) {
        if (real_ms() > limit)
            tap_bail("only %d of %d callers are in the queue", waiting(hall),
                     hall->threads);
        poll(NULL, 0, 1);
    }
    shuffle(&hall->random, holds, hall->threads);
    for (int i = 0, burst; i < hall->threads; i += burst) {
        burst = 1 + (int)random_below(&hall->random, 4);
        burst = burst < hall->threads - i ? burst : hall->threads - i;
        for (int j = 0; j < burst; j++) {
            if (hf_release(holds[i + j], &why))
                tap_bail("hf_release: %s", why.text);
        }
        for (int j = 0; j < burst; j++)
            sem_wait(&hall->out); /* one that never comes is the watchdog's */
    }
    pthread_barrier_wait(&hall->gate);
}

static void hall_run(const char *url, const struct stress_options *options, bool noise)
{
    struct hall hall = {
        .threads = options->threads,
        .rounds = options->rounds,
        .random = 0x2545f4914f6cdd1d,
    };
    struct caller callers[THREADS_MAX];
    pthread_t noisy;

    tap_note("%s, %s", url, noise ? "with asynchronous noise" : "quiet");
    hall.client = open_or_bail(url, NULL);
    hall.partner = open_or_bail(url, NULL);
    sem_init(&hall.out, 0, 0);
    pthread_barrier_init(&hall.gate, NULL, (unsigned)hall.threads + 1);
    for (int i = 0; i < hall.threads; i++) {
        callers[i].hall = &hall;
        snprintf(callers[i].name, sizeof callers[i].name, "caller/%d", i);
        pthread_create(&callers[i].thread, NULL, caller_run, &callers[i]);
    }
    if (noise)
        pthread_create(&noisy, NULL, noise_run, &hall);
    for (int i = 0; i < hall.rounds; i++)
        hall_round(&hall, callers);
    for (int i = 0; i < hall.threads; i++)
        pthread_join(callers[i].thread, NULL);
    atomic_store(&hall.noise_over, true);
    if (noise)
        pthread_join(noisy, NULL);
    hf_close(hall.client);
    hf_close(hall.partner);
    pthread_barrier_destroy(&hall.gate);

    tap_ok(atomic_load(&hall.woken) == hall.threads * hall.rounds &&
               atomic_load(&hall.failed) == 0,
           "%d of %d callers woke", atomic_load(&hall.woken),
           hall.threads * hall.rounds);
    tap_ok(!noise || atomic_load(&hall.noise_done) > 0,
           "%d asynchronous acquires beside", atomic_load(&hall.noise_done));
    tap_ok(atomic_load(&hall.noise_pending) == 0, "each of them was told its end");
}

int main(int argc, char **argv)
{
    struct stress_options options = { .rounds = 40, .threads = 32 };
    char dir[96], url[128];

    stress_options(argc, argv, &options);
    if (options.threads > THREADS_MAX)
        tap_bail("at most %d threads", THREADS_MAX);
    watchdog(60 + options.rounds);
    scratch_make(dir, sizeof dir);
    snprintf(url, sizeof url, "file:%s", dir);
    for (int noise = 0; noise < 2; noise++) {
        hall_run("mem:many-callers", &options, noise);
        hall_run(url, &options, noise);
    }
    scratch_remove(dir);
    return tap_done();
}
