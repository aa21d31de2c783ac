/* SPDX-License-Identifier: MIT */
/*
 * The guard: entering and leaving the table that all processes share.
 *
 * Entered by whoever claims a slot, waits, wakes, leases, looks or repairs; a plain
 * acquire and release do not come here. It is a robust mutex: if its owner dies the
 * next one is told so, repairs the table (recover.c) and goes on. A process that is
 * stopped inside cannot be told from a slow one, so nobody waits longer than 50 ms: the
 * caller answers "not now" and core asks again.
 */
#include "guard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "../../base/clock.h"
#include "../../base/error.h"
#include "queue.h"

#define SPINS 100
#define PATIENCE_NS (50 * HF_NS_PER_MS)

uint32_t hf__file_failpoint;
int hf__file_fail_signal = SIGKILL;

void hf__file_fail(void)
{
    if (--hf__file_failpoint == 0)
        kill(getpid(), hf__file_fail_signal);
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#ifndef __SANITIZE_THREAD__
static struct timespec patience_end(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += PATIENCE_NS;
    at.tv_sec += at.tv_nsec / HF_NS_PER_S;
    at.tv_nsec %= HF_NS_PER_S;
    return at;
}
#endif

/* ThreadSanitizer does not know pthread_mutex_clocklock and would call every unlock
 * after it wrong. */
static int lock_patiently(pthread_mutex_t *guard)
{
#ifdef __SANITIZE_THREAD__
    int sys = EBUSY;
    for (int left = PATIENCE_NS / HF_NS_PER_MS; left > 0 && sys == EBUSY; left--) {
        poll(NULL, 0, 1);
        sys = pthread_mutex_trylock(guard);
    }
    return sys == EBUSY ? ETIMEDOUT : sys;
#else
    struct timespec end = patience_end();
    return pthread_mutex_clocklock(guard, CLOCK_MONOTONIC, &end);
#endif
}

static int guard_lock(pthread_mutex_t *guard)
{
    int sys = pthread_mutex_trylock(guard);

    for (int i = 0; i < SPINS && sys == EBUSY; i++) {
        cpu_relax();
        sys = pthread_mutex_trylock(guard);
    }
    return sys == EBUSY ? lock_patiently(guard) : sys;
}

int hf__guard_enter(struct file_queue *me, hf_error *why)
{
    struct region_head *head = me->region.head;
    int sys = guard_lock(&head->guard);

    if (sys == ETIMEDOUT)
        return hf__fail(why, HF_EUNREACHABLE,
                        "process %d does not leave the state file; is it stopped?",
                        __atomic_load_n(&head->guard_pid, __ATOMIC_RELAXED));
    if (sys != 0 && sys != EOWNERDEAD)
        return hf__fail_sys(why, HF_ECORRUPT, sys, "the guard of the state file");
    __atomic_store_n(&head->guard_pid, me->pid, __ATOMIC_RELAXED);
    if (sys == EOWNERDEAD) {
        hf__guard_recover(me);
        pthread_mutex_consistent(&head->guard);
    }
    guard_step();
    return 0;
}

void hf__guard_leave(struct file_queue *me)
{
    struct region_head *head = me->region.head;

    guard_step();
    __atomic_store_n(&head->guard_pid, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&head->guard);
}
