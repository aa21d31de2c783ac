/* SPDX-License-Identifier: MIT */
/* The guard: one robust mutex around everything but the fast path. Held for
 * microseconds; a process that finds that the owner died while holding it repairs the
 * table. */
#ifndef HF_FILE_GUARD_H
#define HF_FILE_GUARD_H

#include "../../../include/holdfast/backend.h"

struct file_queue;

/* 0; HF_EUNREACHABLE if another process keeps it (me->guard_stopped: that process is
 * stopped); HF_ECORRUPT. After an error nothing has happened. Waits up to 50 ms, 5 ms
 * if the owner is known to be stopped, and in open() as long as a request may take. */
int hf__file_guard_lock(struct file_queue *me, hf_error *why);
void hf__file_guard_unlock(struct file_queue *me);

/* Guard held: rebuilds everything that is derived from blocks, admits waiters that fit,
 * and wakes all sessions. */
void hf__file_guard_recover(struct file_queue *me);

/* For tests: the n-th step from now (1 = the next) with the guard held sends this
 * process hf__file_fail_signal. 0: never. */
extern uint32_t hf__file_failpoint;
extern int hf__file_fail_signal;
void hf__file_fail(void);

/* Stands after every store that a crash may separate from the next one. */
static inline void guard_step(void)
{
    if (__builtin_expect(hf__file_failpoint != 0, 0))
        hf__file_fail();
}

#endif
