/* SPDX-License-Identifier: MIT */
/*
 * Callbacks that remember, and threads that take.
 *
 * The callbacks run on whatever thread the library chooses; everything they touch is
 * atomic.
 */
#include <stdlib.h>

#include "harness.h"

/* ---- Being told ------------------------------------------------------------------ */

static void told_where(struct told *told)
{
    if (told->homed && !pthread_equal(told->home, pthread_self()))
        atomic_fetch_add(&told->foreign, 1);
}

void told_hold(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct told *told = user;
    told_where(told);
    CHECK((rc == 0) == (hold != NULL));
    CHECK(rc == 0 || (why && why->code == rc && why->text[0]));
    atomic_store(&told->rc, rc);
    atomic_store(&told->hold, hold);
    atomic_fetch_add(&told->ended, 1);
}

void told_done(void *user, int rc, const hf_error *why)
{
    struct told *told = user;
    told_where(told);
    CHECK(rc == 0 || (why && why->code == rc && why->text[0]));
    atomic_store(&told->rc, rc);
    atomic_fetch_add(&told->ended, 1);
}

void told_event(void *user, hf_hold *hold, enum hf_event event, const hf_error *why)
{
    struct told *told = user;
    (void)hold;
    (void)why;
    told_where(told);
    if (event == HF_EVENT_LOST)
        atomic_fetch_add(&told->lost, 1);
    else if (event == HF_EVENT_DOUBTFUL)
        atomic_fetch_add(&told->doubtful, 1);
    else if (event == HF_EVENT_REVOKED)
        atomic_fetch_add(&told->revoked, 1);
}

/* ---- Threads --------------------------------------------------------------------- */

static void *contender_main(void *arg)
{
    struct contender *contender = arg;
    contender->rc =
        take_with(contender->e, contender->client, &contender->hold, contender->how);
    atomic_store(&contender->over, true);
    return NULL;
}

void contender_start(struct contender *contender, struct env *e, hf_client *client,
                     struct take how)
{
    contender->e = e;
    contender->client = client;
    contender->how = how;
    contender->rc = 1;
    contender->hold = NULL;
    atomic_store(&contender->over, false);
    CHECK_EQ(pthread_create(&contender->thread, NULL, contender_main, contender), 0);
}

int contender_join(struct contender *contender)
{
    CHECK_EQ(pthread_join(contender->thread, NULL), 0);
    return contender->rc;
}

struct thread_job {
    pthread_t thread;
    void (*body)(void *arg, size_t number);
    void *arg;
    size_t number;
};

static void *thread_main(void *arg)
{
    struct thread_job *job = arg;
    job->body(job->arg, job->number);
    return NULL;
}

void threads_run(size_t count, void (*body)(void *arg, size_t number), void *arg)
{
    struct thread_job *jobs = calloc(count, sizeof *jobs);
    pthread_attr_t small;
    CHECK(jobs != NULL && pthread_attr_init(&small) == 0);
    CHECK_EQ(pthread_attr_setstacksize(&small, 256 * 1024), 0);
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct thread_job){ .body = body, .arg = arg, .number = i };
        CHECK_EQ(pthread_create(&jobs[i].thread, &small, thread_main, &jobs[i]), 0);
    }
    for (size_t i = 0; i < count; i++)
        CHECK_EQ(pthread_join(jobs[i].thread, NULL), 0);
    pthread_attr_destroy(&small);
    free(jobs);
}
