/* SPDX-License-Identifier: MIT */
/*
 * Mistake: look whether it is free, then take it.
 *
 * GET and SET, or EXISTS and SET, each atomic and the pair not. Found wherever a lock
 * is built on a cache interface that has get() and set() but no add(). The lease is
 * there, the owner is checked at the end; two are inside all the same.
 *
 * Breaks by: contention alone.
 */
#include "planted.h"

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    (void)want;
    struct reply found = resp_say(self->redis, "GET %s", self->key);
    if (!reply_nil(&found))
        return found.type ? H_BUSY : reply_missing(&found);
    uint64_t asked = history_now();
    struct reply reply = resp_say(self->redis, "SET %s %s PX %lld", self->key,
                                  self->owner, (long long)self->ttl_ms);
    self->until_ns = asked + (uint64_t)self->ttl_ms * 990000u;
    return reply_ok(&reply) ? H_OK : reply_missing(&reply);
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, attempt, ret_grant);
}

extern const struct driver driver_get_then_set;
const struct driver driver_get_then_set =
    PLANTED_DRIVER("get-then-set", ONLY_MUTEX, acquire, planted_drop);
