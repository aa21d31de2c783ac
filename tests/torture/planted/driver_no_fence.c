/* SPDX-License-Identifier: MIT */
/*
 * Mistake: a lock that is right, and a resource that cannot tell an old holder from a
 * new one.
 *
 * Every rule of the lease lock is kept. The holder looks at its clock, finds that it
 * has time, and is then stopped: by a page fault, a collector, a hypervisor. When it
 * goes on it writes. Martin Kleppmann's critique of RedLock (2016) is about this;
 * RedLock has no number that grows, and here the token is always 1.
 *
 * Breaks by: a pause between the look at the clock and the write. No lock can prevent
 * it, only the resource can, and only with a number that grows.
 */
#include "planted.h"

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    ret_grant->token = 1;
    return planted_poll(self, want, planted_take, ret_grant);
}

extern const struct driver driver_no_fence;
const struct driver driver_no_fence =
    PLANTED_DRIVER("token-never-grows", ONLY_MUTEX, acquire, planted_drop);
