/* SPDX-License-Identifier: MIT */
/*
 * The worker thread of a wait that can only block. Stores call it, under the client's
 * lock, on the thread that drives the loop.
 *
 * Why cancellation and not a signal: a library may not claim a signal, and nothing else
 * ends flock(2) on another thread. Cancellation is asynchronous during the call only;
 * before and after it the thread cannot be cancelled at a bad moment. The worker has a
 * small stack, because it calls next to nothing, and every signal is blocked in it, so
 * that the program's handlers keep running on the program's threads.
 *
 * Invariant: `running` is true from start to collect or cancel, and what the blocker
 * points to (argument, descriptor) lives longer than that.
 */
#include "blocker.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#define BLOCKER_STACK (64 * 1024)

/* pthread_cancel() of the GNU library loads the unwinder on its first call, and aborts
 * the program if it cannot, for lack of a descriptor. So it is loaded here, where the
 * caller can still get an error. */
static bool unwinder_load(void)
{
#ifdef __GLIBC__
    static atomic_bool loaded;
    if (!atomic_load(&loaded))
        atomic_store(&loaded,
                     dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_NODELETE) != NULL);
    return atomic_load(&loaded);
#else
    return true;
#endif
}

/* No local has its address taken: a cancelled thread leaves this frame without
 * unwinding it, and AddressSanitizer would keep the guard zones around such a local. */
static void *blocker_run(void *arg)
{
    static const uint64_t one = 1;
    struct hf_blocker *blocker = arg;
    int result;

    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    result = blocker->call(blocker->arg);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);

    blocker->result = result;
    atomic_store_explicit(&blocker->done, true, memory_order_release);
    while (write(blocker->event_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    return NULL;
}

/* A thread with every signal blocked, which it inherits from the caller. */
static int thread_start(struct hf_blocker *blocker, const pthread_attr_t *attr)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&blocker->thread, attr, blocker_run, blocker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int hf__blocker_start(struct hf_blocker *blocker, hf_blocker_fn *call, void *arg,
                      int event_fd)
{
    long least = sysconf(_SC_THREAD_STACK_MIN);
    size_t stack = least > BLOCKER_STACK ? (size_t)least : BLOCKER_STACK;
    pthread_attr_t attr;
    int rc;

    if (!unwinder_load())
        return -EMFILE;
    blocker->call = call;
    blocker->arg = arg;
    blocker->event_fd = event_fd;
    blocker->result = 0;
    atomic_store_explicit(&blocker->done, false, memory_order_relaxed);

    rc = pthread_attr_init(&attr);
    if (rc != 0)
        return -rc;
    pthread_attr_setstacksize(&attr, stack);
    rc = thread_start(blocker, &attr);
    pthread_attr_destroy(&attr);
    blocker->running = rc == 0;
    return -rc;
}

int hf__blocker_collect(struct hf_blocker *blocker)
{
    pthread_join(blocker->thread, NULL);
    blocker->running = false;
    atomic_store_explicit(&blocker->done, false, memory_order_relaxed);
    return blocker->result;
}

void hf__blocker_break(struct hf_blocker *blocker)
{
    pthread_cancel(blocker->thread);
    hf__blocker_collect(blocker);
}
