/* SPDX-License-Identifier: MIT */
/*
 * Mistake: a lease in milliseconds, given to a command that counts seconds.
 *
 * EXPIRE and EX take seconds, PEXPIRE and PX milliseconds; 1500 / 1000 is 1. The
 * client goes by its 1500 ms, the server by its second. The other way round the lock
 * outlives its holder by a factor of a thousand.
 *
 * Breaks by: a hold that uses its whole lease.
 */
#include "planted.h"

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    (void)want;
    uint64_t asked = history_now();
    struct reply reply = resp_say(self->redis, "SET %s %s NX EX %lld", self->key,
                                  self->owner, (long long)self->ttl_ms / 1000);
    self->until_ns = asked + (uint64_t)self->ttl_ms * 990000u;
    if (reply_nil(&reply))
        return H_BUSY;
    return reply_ok(&reply) ? H_OK : reply_missing(&reply);
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, attempt, ret_grant);
}

extern const struct driver driver_seconds;
const struct driver driver_seconds =
    PLANTED_DRIVER("seconds-for-milliseconds", ONLY_MUTEX, acquire, planted_drop);
