/* SPDX-License-Identifier: MIT */
/*
 * Mistake: SETNX, then EXPIRE.
 *
 * Two commands where one is needed. It was the only way before Redis 2.6.12 gave SET
 * the words NX and EX, and texts of that time live on. Everything else here is right:
 * random owner, compare and delete, validity from before the request.
 *
 * Breaks by: the client is killed, or its connection cut, after the first command. The
 * key has no time to live and stays.
 */
#include "planted.h"

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    (void)want;
    struct reply reply = resp_say(self->redis, "SETNX %s %s", self->key, self->owner);
    if (reply.type != ':')
        return reply_missing(&reply);
    if (reply.number == 0)
        return H_BUSY;
    planted_point(self, "before-expire");
    uint64_t asked = history_now();
    resp_say(self->redis, "PEXPIRE %s %lld", self->key, (long long)self->ttl_ms);
    self->until_ns = asked + (uint64_t)self->ttl_ms * 990000u;
    return H_OK;
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, attempt, ret_grant);
}

extern const struct driver driver_setnx_expire;
const struct driver driver_setnx_expire =
    PLANTED_DRIVER("setnx-then-expire", ONLY_MUTEX, acquire, planted_drop);
