/* SPDX-License-Identifier: MIT */
/*
 * One blocking system call on a thread of its own, for a store whose wait has no
 * asynchronous form. When it returns, an eventfd that the loop watches is written.
 *
 * The call runs with asynchronous cancellation on: it must be the bare system call, own
 * nothing, and take no address of a local. All functions are called from one thread at
 * a time; the worker never handles a signal.
 */
#ifndef HF_KIT_BLOCKER_H
#define HF_KIT_BLOCKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef int hf_blocker_fn(void *arg); /* 0 or -errno */

/* Embedded in the object that it serves. Zeroed is idle. */
struct hf_blocker {
    pthread_t thread;
    hf_blocker_fn *call;
    void *arg;
    int event_fd;
    int result;
    bool running; /* the thread exists and has not been joined */
    atomic_bool done;
};

/* Starts `call(arg)`. 0 or -errno (EAGAIN: no more threads). `event_fd` must stay open
 * until the blocker was collected or cancelled. */
int hf__blocker_start(struct hf_blocker *blocker, hf_blocker_fn *call, void *arg,
                      int event_fd);

/* Whether the call has returned. */
static inline bool hf__blocker_done(struct hf_blocker *blocker)
{
    return atomic_load_explicit(&blocker->done, memory_order_acquire);
}

/* What the call returned; waits for the thread to end. Makes the blocker idle. */
int hf__blocker_collect(struct hf_blocker *blocker);

/*
 * Cancels the call, waits for the thread to end and makes the blocker idle (no effect
 * if it is idle). The call may have completed a moment before: the caller has to undo
 * its effect in either case.
 */
void hf__blocker_break(struct hf_blocker *blocker);

static inline void hf__blocker_cancel(struct hf_blocker *blocker)
{
    if (blocker->running)
        hf__blocker_break(blocker);
}

#endif
