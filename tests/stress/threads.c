/* SPDX-License-Identifier: MIT */
/*
 * threads: sixteen threads, every kind, few names, all ways to ask.
 *
 *     threads [--seconds 4] [--threads 16]
 *
 * Two clients of one process share a handful of names. Each turn a thread draws a
 * name, a way to ask (blocking with a random timeout; asynchronous and waited for; the
 * same and cancelled; a callback that releases), and visits what the lock guards. The
 * guarded values are plain memory on purpose: under ThreadSanitizer a missing
 * happens-before between two holders is a report, even where the counts come out
 * right.
 */
#include "stress.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_MAX 128
#define LIMIT 3 /* of the semaphore */

enum subject { ONE, OTHER, RW, SEMAPHORE, BOTH, SUBJECTS };
enum way { BLOCKING, WAITED, CANCELLED, CALLED_BACK, WAYS };

struct arena {
    hf_client *clients[2];
    atomic_bool over;
    atomic_int pending; /* callbacks still to come */
    atomic_ullong granted, refused, errors, violations;

    long one, other, rw; /* plain: the locks order the accesses */
    uint64_t one_token;
    atomic_int inside_one, inside_other, readers, writers, permits;
    atomic_llong one_visits, other_visits, rw_visits;
};

/* What is being asked for. */
struct ask {
    struct arena *arena;
    enum subject subject;
    hf_want wants[2];
    size_t count;
};

struct fighter {
    struct arena *arena;
    pthread_t thread;
    uint64_t random;
    uint64_t number;
};

/* ---- Visits ---------------------------------------------------------------------- */

static void must(struct arena *arena, bool good)
{
    if (!good)
        atomic_fetch_add(&arena->violations, 1);
}

/* Long enough for others to run into us. */
static void dwell(void)
{
    static _Thread_local unsigned visits;

    spin(20);
    if (++visits % 8 == 0)
        sched_yield();
}

static void visit_one(struct arena *arena, uint64_t token)
{
    must(arena, atomic_fetch_add(&arena->inside_one, 1) == 0);
    must(arena, token > arena->one_token);
    arena->one_token = token;
    arena->one++;
    dwell();
    atomic_fetch_add(&arena->one_visits, 1);
    must(arena, atomic_fetch_sub(&arena->inside_one, 1) == 1);
}

static void visit_other(struct arena *arena)
{
    must(arena, atomic_fetch_add(&arena->inside_other, 1) == 0);
    arena->other++;
    dwell();
    atomic_fetch_add(&arena->other_visits, 1);
    must(arena, atomic_fetch_sub(&arena->inside_other, 1) == 1);
}

static void visit_rw(struct arena *arena, bool write)
{
    if (write) {
        must(arena, atomic_fetch_add(&arena->writers, 1) == 0);
        must(arena, atomic_load(&arena->readers) == 0);
        arena->rw++;
        dwell();
        atomic_fetch_add(&arena->rw_visits, 1);
        must(arena, atomic_fetch_sub(&arena->writers, 1) == 1);
        return;
    }
    atomic_fetch_add(&arena->readers, 1);
    must(arena, atomic_load(&arena->writers) == 0);
    must(arena, arena->rw >= 0);
    dwell();
    atomic_fetch_sub(&arena->readers, 1);
}

static void visit_semaphore(struct arena *arena, int permits)
{
    must(arena, atomic_fetch_add(&arena->permits, permits) + permits <= LIMIT);
    dwell();
    atomic_fetch_sub(&arena->permits, permits);
}

static void visit(const struct ask *ask, hf_hold *hold)
{
    switch (ask->subject) {
    case ONE:
        visit_one(ask->arena, hf_hold_token(hold, 0));
        break;
    case OTHER:
        visit_other(ask->arena);
        break;
    case RW:
        visit_rw(ask->arena, ask->wants[0].kind == HF_WRITE);
        break;
    case SEMAPHORE:
        visit_semaphore(ask->arena, (int)ask->wants[0].permits);
        break;
    case BOTH: /* in the order that is not the library's */
        visit_other(ask->arena);
        visit_rw(ask->arena, true);
        break;
    case SUBJECTS:
        break;
    }
}

/* ---- Asking ---------------------------------------------------------------------- */

static void ask_draw(struct ask *ask, struct arena *arena, uint64_t *random)
{
    static const int kinds[] = { HF_MUTEX, HF_FAIR, HF_REENTRANT };

    ask->arena = arena;
    ask->subject = (enum subject)random_below(random, SUBJECTS);
    ask->count = 1;
    if (ask->subject == ONE) {
        ask->wants[0] = hf_want_of("one", kinds[random_below(random, 3)], 1, 1);
    } else if (ask->subject == OTHER) {
        ask->wants[0] = hf_mutex("other");
    } else if (ask->subject == RW) {
        ask->wants[0] = random_below(random, 4) ? hf_read("rw") : hf_write("rw");
    } else if (ask->subject == SEMAPHORE) {
        ask->wants[0] = hf_permits("semaphore", 1 + random_below(random, 2), LIMIT);
    } else {
        ask->wants[0] = hf_write("rw");
        ask->wants[1] = hf_mutex("other");
        ask->count = 2;
    }
}

static void ask_end(const struct ask *ask, int rc, hf_hold *hold)
{
    struct arena *arena = ask->arena;

    if (rc == 0) {
        atomic_fetch_add(&arena->granted, 1);
        visit(ask, hold);
        rc = hf_release(hold, NULL);
        if (rc) {
            tap_note("released with %s", hf_error_name(rc));
            atomic_fetch_add(&arena->errors, 1);
        }
    } else if (rc == HF_EBUSY || rc == HF_ETIMEOUT || rc == HF_ECANCELLED) {
        atomic_fetch_add(&arena->refused, 1);
    } else {
        tap_note("refused with %s", hf_error_name(rc));
        atomic_fetch_add(&arena->errors, 1);
    }
}

static void ask_called_back(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct ask *ask = user;
    struct arena *arena = ask->arena;

    (void)why;
    ask_end(ask, rc, hold);
    free(ask);
    atomic_fetch_sub(&arena->pending, 1);
}

static void ask_with_callback(const struct ask *ask, hf_client *client,
                              const hf_acquire_options *options)
{
    struct arena *arena = ask->arena;
    struct ask *copy = malloc(sizeof *copy);

    if (!copy)
        return;
    *copy = *ask;
    atomic_fetch_add(&arena->pending, 1);
    if (hf_acquire_async(client, copy->wants, copy->count, options, ask_called_back,
                         copy, NULL, NULL)) {
        atomic_fetch_add(&arena->errors, 1);
        atomic_fetch_sub(&arena->pending, 1);
        free(copy);
    }
}

static void ask_with_op(const struct ask *ask, hf_client *client,
                        const hf_acquire_options *options, bool cancel,
                        uint64_t *random)
{
    hf_op *op = NULL;
    hf_hold *hold = NULL;

    if (hf_acquire_async(client, ask->wants, ask->count, options, NULL, NULL, &op,
                         NULL)) {
        atomic_fetch_add(&ask->arena->errors, 1);
        return;
    }
    if (cancel) {
        spin(random_below(random, 3000));
        hf_op_cancel(op);
        if (random_below(random, 2)) { /* also a way to end it */
            hf_op_free(op);
            return;
        }
    }
    int rc = hf_op_wait(op, HF_FOREVER, &hold, NULL);

    ask_end(ask, rc, hold);
    hf_op_free(op);
}

static void fighter_turn(struct fighter *fighter)
{
    static const int64_t timeouts[] = { 0, 1, 5, 50, HF_FOREVER };
    uint64_t *random = &fighter->random;
    struct arena *arena = fighter->arena;
    hf_client *client = arena->clients[random_below(random, 2)];
    enum way way = (enum way)random_below(random, WAYS);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    struct ask ask;
    hf_hold *hold = NULL;
    int rc;

    ask_draw(&ask, arena, random);
    options.timeout_ms = timeouts[random_below(random, 5)];
    /* Every turn is an owner of its own: a turn never re-enters another one's hold. */
    options.owner = fighter->number += THREADS_MAX;
    if (random_below(random, 4) == 0)
        options.ttl_ms = 10000;
    if (way == CALLED_BACK && atomic_load(&arena->pending) < 64) {
        ask_with_callback(&ask, client, &options);
    } else if (way == BLOCKING || way == CALLED_BACK) {
        rc = hf_acquire(client, ask.wants, ask.count, &options, &hold, NULL);
        ask_end(&ask, rc, hold);
    } else {
        ask_with_op(&ask, client, &options, way == CANCELLED, random);
    }
}

static void *fighter_run(void *arg)
{
    struct fighter *fighter = arg;

    while (!atomic_load(&fighter->arena->over))
        fighter_turn(fighter);
    return NULL;
}

/* ---- The whole ------------------------------------------------------------------- */

static void arena_judge(struct arena *arena)
{
    int64_t limit = real_ms() + 30000;
    int seen;

    while (atomic_load(&arena->pending) && real_ms() < limit)
        poll(NULL, 0, 1);
    tap_note("%llu granted, %llu refused", atomic_load(&arena->granted),
             atomic_load(&arena->refused));
    tap_ok(atomic_load(&arena->pending) == 0, "every callback came");
    tap_ok(atomic_load(&arena->violations) == 0, "no violations (%llu)",
           atomic_load(&arena->violations));
    tap_ok(atomic_load(&arena->errors) == 0, "no unexpected answers (%llu)",
           atomic_load(&arena->errors));
    tap_ok(arena->one == atomic_load(&arena->one_visits) &&
               arena->other == atomic_load(&arena->other_visits) &&
               arena->rw == atomic_load(&arena->rw_visits) && arena->one > 0,
           "the counts are exact");
    seen = entries_seen(arena->clients[0]);
    tap_ok(seen == 0, "nothing is held and nothing queued (%d entries)", seen);
}

static void arena_run(const char *url, const struct stress_options *options)
{
    struct arena arena = { 0 };
    struct fighter fighters[THREADS_MAX];
    int64_t end = real_ms() + options->seconds * 1000;

    tap_note("%s", url);
    arena.clients[0] = open_or_bail(url, NULL);
    arena.clients[1] = open_or_bail(url, NULL);
    for (int i = 0; i < options->threads; i++) {
        fighters[i] =
            (struct fighter){ &arena, 0, 0x9e3779b97f4a7c15 * (uint64_t)(i + 1),
                              (uint64_t)i };
        pthread_create(&fighters[i].thread, NULL, fighter_run, &fighters[i]);
    }
    while (real_ms() < end)
        poll(NULL, 0, 20);
    atomic_store(&arena.over, true);
    for (int i = 0; i < options->threads; i++)
        pthread_join(fighters[i].thread, NULL);
    arena_judge(&arena);
    hf_close(arena.clients[0]);
    hf_close(arena.clients[1]);
}

int main(int argc, char **argv)
{
    struct stress_options options = { .seconds = 4, .threads = 16 };
    char dir[96], url[128];

    stress_options(argc, argv, &options);
    if (options.threads > THREADS_MAX)
        tap_bail("at most %d threads", THREADS_MAX);
    watchdog(options.seconds * 4 + 120);
    arena_run("mem:threads", &options);
    scratch_make(dir, sizeof dir);
    snprintf(url, sizeof url, "file:%s", dir);
    arena_run(url, &options);
    scratch_remove(dir);
    return tap_done();
}
