/* SPDX-License-Identifier: MIT */
/*
 * The guard: the lock on the table that all processes share.
 *
 * Locked by a session that registers, waits, wakes, leases, inspects or repairs; the
 * fast path does not lock it. It is a robust mutex: if its owner dies, the next owner
 * is told, rebuilds the table (recover.c) and goes on.
 *
 * It is held for microseconds of running time, but a busy host, or a container over its
 * share of the processor, may stretch that to any length. So nothing is concluded from
 * the time that passes. A session that opens waits as long as core waits for any
 * answer. Later a caller waits here for a moment only, because it holds the client's
 * lock; then the call is answered with "not now" and repeated: by core (tickets), or by
 * the timer of queue.c (requests). The owner is examined, and if it is stopped
 * (stopped.c) waiting is of no use, and the error names it.
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
#include "stopped.h"

#define SPINS 100
#define SLICE_NS (50 * HF_NS_PER_MS)
#define SHORT_NS (5 * HF_NS_PER_MS) /* while its owner is known to be stopped */

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

/* ThreadSanitizer does not know pthread_mutex_clocklock and would report every unlock
 * after it. */
static int lock_within(pthread_mutex_t *guard, int64_t wait_ns)
{
#ifdef __SANITIZE_THREAD__
    int sys = EBUSY;
    for (int64_t left = wait_ns / HF_NS_PER_MS; left > 0 && sys == EBUSY; left--) {
        poll(NULL, 0, 1);
        sys = pthread_mutex_trylock(guard);
    }
    return sys == EBUSY ? ETIMEDOUT : sys;
#else
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += wait_ns % HF_NS_PER_S;
    end.tv_sec += wait_ns / HF_NS_PER_S + end.tv_nsec / HF_NS_PER_S;
    end.tv_nsec %= HF_NS_PER_S;
    return pthread_mutex_clocklock(guard, CLOCK_MONOTONIC, &end);
#endif
}

static int lock_now(pthread_mutex_t *guard)
{
    int sys = pthread_mutex_trylock(guard);

    for (int i = 0; i < SPINS && sys == EBUSY; i++) {
        cpu_relax();
        sys = pthread_mutex_trylock(guard);
    }
    return sys == EBUSY ? ETIMEDOUT : sys;
}

/* The process that holds the guard. `stopped`: why it cannot run, or NULL if it may be
 * running. */
struct owner {
    int32_t pid; /* 0: not known */
    bool here;   /* in this pid namespace */
    const char *stopped;
};

static struct owner guard_owner(const struct file_queue *me)
{
    const struct region_head *head = me->region.head;
    uint64_t space = __atomic_load_n(&head->guard_space, __ATOMIC_RELAXED);
    struct owner owner = {
        .pid = __atomic_load_n(&head->guard_pid, __ATOMIC_RELAXED),
        .here = space && space == me->space,
    };

    if (owner.pid && owner.here)
        owner.stopped = hf__file_stopped(owner.pid);
    return owner;
}

static int guard_fail(struct file_queue *me, const struct owner *owner, hf_error *why)
{
    const char *where = owner->here ? "" : " of another pid namespace";

    me->guard_stopped = owner->stopped != NULL;
    if (owner->stopped)
        return hf__fail(why, HF_EUNREACHABLE,
                        "process %d is %s in the middle of a change to the state file: "
                        "let it go on, or kill it",
                        owner->pid, owner->stopped);
    if (owner->pid)
        return hf__fail(why, HF_EUNREACHABLE,
                        "process %d%s has not finished its change to the state file "
                        "yet: the host is too busy, or keeps it from running",
                        owner->pid, where);
    return hf__fail(why, HF_EUNREACHABLE,
                    "the state file was in use all the time: the host is too busy");
}

/* In slices, so that a stopped owner is detected. Twice, because it may have gone on
 * and unlocked the guard in between. */
static int lock_patiently(struct file_queue *me, struct owner *ret_owner)
{
    int64_t slice = me->guard_stopped && !me->open_until ? SHORT_NS : SLICE_NS;
    int32_t stopped = 0;

    do {
        int sys = lock_within(&me->region.head->guard, slice);

        if (sys != ETIMEDOUT)
            return sys;
        *ret_owner = guard_owner(me);
        if (ret_owner->stopped && stopped == ret_owner->pid)
            break;
        stopped = ret_owner->stopped ? ret_owner->pid : 0;
    } while (hf__now() < me->open_until);
    return ETIMEDOUT;
}

int hf__file_guard_lock(struct file_queue *me, hf_error *why)
{
    struct region_head *head = me->region.head;
    int sys = lock_now(&head->guard);

    if (sys == ETIMEDOUT) {
        struct owner owner = { 0, false, NULL };

        sys = lock_patiently(me, &owner);
        if (sys == ETIMEDOUT)
            return guard_fail(me, &owner, why);
    }
    if (sys != 0 && sys != EOWNERDEAD)
        return hf__fail_sys(why, HF_ECORRUPT, sys, "the guard of the state file");
    me->guard_stopped = false;
    __atomic_store_n(&head->guard_space, me->space, __ATOMIC_RELAXED);
    __atomic_store_n(&head->guard_pid, me->pid, __ATOMIC_RELAXED);
    if (sys == EOWNERDEAD) {
        hf__file_guard_recover(me);
        pthread_mutex_consistent(&head->guard);
    }
    guard_step();
    return 0;
}

void hf__file_guard_unlock(struct file_queue *me)
{
    struct region_head *head = me->region.head;

    guard_step();
    __atomic_store_n(&head->guard_pid, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&head->guard);
}
