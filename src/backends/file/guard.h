/* SPDX-License-Identifier: MIT */
/* The guard: one robust mutex around all that is not done with a record's word alone.
 * Held for microseconds; whoever finds that its owner died in it repairs the table. */
#ifndef HF_FILE_GUARD_H
#define HF_FILE_GUARD_H

#include "../../../include/holdfast/backend.h"

struct file_queue;

/* 0, or HF_EUNREACHABLE if somebody stays inside (me->guard_stopped: he cannot go on),
 * or HF_ECORRUPT. After an error nothing has happened. Waits for up to 50 ms, for 5 ms
 * if the last wait was in vain, and in open() for as long as a request may take. */
int hf__file_guard_lock(struct file_queue *me, hf_error *why);
void hf__file_guard_unlock(struct file_queue *me);

/* Makes everything that is derived from blocks anew, lets in whom it can, and wakes
 * everybody. In the guard. */
void hf__file_guard_recover(struct file_queue *me);

/* For tests: the n-th step from now (1 = the next) inside the guard sends this process
 * hf__file_fail_signal. 0: never. */
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
