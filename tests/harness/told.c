/* SPDX-License-Identifier: MIT */
/*
 * Callbacks that remember, threads that take, and the things that locks guard.
 *
 * The callbacks run on whatever thread the library chooses; everything they touch is
 * atomic. `struct guarded` counts with plain loads and stores (relaxed atomics, so that
 * no compiler and no race detector objects): if two holders are ever inside at once,
 * an increment is lost or somebody is met.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

/* ---- Being told -------------------------------------------------------------------- */

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

/* ---- Threads ------------------------------------------------------------------------ */

static void *contender_main(void *arg)
{
    struct contender *contender = arg;
    contender->rc = take_with(contender->e, contender->client, &contender->hold,
                              contender->how);
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

/* ---- Guarded things ------------------------------------------------------------------ */

struct guarded *guarded_map(const char *path)
{
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct guarded)) == 0);
    struct guarded *guarded = mmap(NULL, sizeof *guarded, PROT_READ | PROT_WRITE,
                                   MAP_SHARED, fd, 0);
    CHECK(guarded != MAP_FAILED);
    close(fd);
    return guarded;
}

void guarded_unmap(struct guarded *guarded)
{
    munmap(guarded, sizeof *guarded);
}

void guarded_enter(struct guarded *guarded)
{
    long long inside = 1 + atomic_fetch_add(&guarded->inside, 1);
    long long most = atomic_load(&guarded->most);
    while (inside > most && !atomic_compare_exchange_weak(&guarded->most, &most, inside))
        ;
}

void guarded_leave(struct guarded *guarded)
{
    atomic_fetch_sub(&guarded->inside, 1);
}

void guarded_visit(struct guarded *guarded, uint64_t token)
{
    if (atomic_fetch_add(&guarded->inside, 1) != 0)
        atomic_fetch_add(&guarded->violations, 1);
    if (token <= atomic_load(&guarded->token))
        atomic_fetch_add(&guarded->violations, 1);
    long long count = atomic_load_explicit(&guarded->count, memory_order_relaxed);
    atomic_store(&guarded->token, token);
    atomic_store_explicit(&guarded->count, count + 1, memory_order_relaxed);
    atomic_fetch_sub(&guarded->inside, 1);
}

bool guarded_write(struct guarded *guarded, uint64_t token)
{
    unsigned long long largest = atomic_load(&guarded->token);
    if (token < largest)
        return false;
    atomic_store(&guarded->token, token);
    return true;
}
