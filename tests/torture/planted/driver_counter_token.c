/* SPDX-License-Identifier: MIT */
/*
 * Mistake: a fencing token that is a counter in the memory of the server.
 *
 * The grant draws its token with INCR, in the same script: as it should be, while the
 * server lives. Redisson's fenced lock keeps its token in such a counter. After a
 * restart without persistence it begins again at 1, and the guarded resource, which
 * has seen 5,000, refuses every new holder; or, if it was restarted too, takes old
 * ones for new.
 *
 * A fail-over to a replica that had not heard of the last grants sets the counter back
 * by as many, so that two holders have the same number; and the lock that was held is
 * free. The Redis manual's page on locks gives the latter as the reason why fail-over
 * is not enough.
 *
 * Breaks by: a restart; a fail-over.
 */
#include "planted.h"

static const char grant[] =
    "if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end "
    "return redis.call('INCR', KEYS[1] .. ':token')";

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    (void)want;
    uint64_t asked = history_now();
    struct reply reply =
        resp_eval(self->redis, grant, self->key, self->owner, self->ttl_ms);
    self->until_ns = asked + (uint64_t)self->ttl_ms * 990000u;
    if (reply.type != ':')
        return reply_missing(&reply);
    self->token = (uint64_t)reply.number;
    return reply.number == 0 ? H_BUSY : H_OK;
}

static enum history_result acquire(void *arg, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    struct planted *self = arg;
    enum history_result result = planted_poll(self, want, attempt, ret_grant);
    ret_grant->token = self->token;
    return result;
}

extern const struct driver driver_counter_token;
const struct driver driver_counter_token =
    PLANTED_DRIVER("counter-token", ONLY_MUTEX, acquire, planted_drop);
