/* SPDX-License-Identifier: MIT */
/*
 * Mistake: a lease that the holder never looks at.
 *
 * SET NX PX and compare-and-delete, as in the manual; the program then works until it
 * is done and takes for granted that the lock lasted. Without renewal and without a
 * look at the clock that holds as long as the work is shorter than the lease, that is,
 * in tests.
 *
 * Breaks by: work, or a pause, that takes longer than the lease.
 */
#include "planted.h"

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    enum history_result result = planted_take(self, want);
    self->until_ns = NO_END;
    return result;
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, attempt, ret_grant);
}

extern const struct driver driver_no_validity;
const struct driver driver_no_validity =
    PLANTED_DRIVER("lease-never-looked-at", ONLY_MUTEX, acquire, planted_drop);
