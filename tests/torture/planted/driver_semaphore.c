/* SPDX-License-Identifier: MIT */
/*
 * Mistakes: semaphores that count.
 *
 * `semaphore-leak`: INCR to enter, DECR to leave. A holder that is killed never
 * leaves, and after `limit` deaths nobody enters. Redisson's RSemaphore is such a
 * counter, which is why it also has RPermitExpirableSemaphore.
 *
 * `semaphore-expiring-counter`: the same, healed by a time to live on the counter. It
 * is the counter that expires, not the permits: those who are inside are forgotten all
 * at once, and their DECR then makes room that is not there.
 *
 * `semaphore-look-then-take`: GET, compare, INCR. kazoo's semaphore decided outside
 * its lock in the same way until pull request 214.
 *
 * Breaks by: kill -9; a pause; contention.
 */
#include "planted.h"

#include <stdlib.h>

static enum history_result count_up(struct planted *self,
                                    const struct driver_want *want)
{
    struct reply reply =
        resp_say(self->redis, "INCRBY %s %u", self->key, want->permits);
    if (reply.type != ':')
        return reply_missing(&reply);
    if (reply.number <= want->limit)
        return H_OK;
    resp_say(self->redis, "DECRBY %s %u", self->key, want->permits);
    return H_BUSY;
}

static enum history_result count_up_expiring(struct planted *self,
                                             const struct driver_want *want)
{
    enum history_result result = count_up(self, want);
    if (result == H_OK)
        resp_say(self->redis, "PEXPIRE %s %lld", self->key, (long long)self->ttl_ms);
    return result;
}

static enum history_result look_then_take(struct planted *self,
                                          const struct driver_want *want)
{
    struct reply found = resp_say(self->redis, "GET %s", self->key);
    if (!found.type)
        return reply_missing(&found);
    if (strtoll(found.text, NULL, 10) + want->permits > want->limit)
        return H_BUSY;
    struct reply reply =
        resp_say(self->redis, "INCRBY %s %u", self->key, want->permits);
    return reply.type == ':' ? H_OK : reply_missing(&reply);
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, count_up, ret_grant);
}

static enum history_result acquire_expiring(void *self, const struct driver_want *want,
                                            struct driver_grant *ret_grant)
{
    return planted_poll(self, want, count_up_expiring, ret_grant);
}

static enum history_result acquire_looking(void *self, const struct driver_want *want,
                                           struct driver_grant *ret_grant)
{
    return planted_poll(self, want, look_then_take, ret_grant);
}

static enum history_result release(void *arg)
{
    struct planted *self = arg;
    struct reply reply =
        resp_say(self->redis, "DECRBY %s %u", self->key, self->permits);
    return reply.type == ':' ? H_OK : reply_missing(&reply);
}

#define ONLY_PERMITS (1u << H_PERMITS)

extern const struct driver driver_semaphore_leak, driver_semaphore_expiring,
    driver_semaphore_look;
const struct driver driver_semaphore_leak =
    PLANTED_DRIVER("semaphore-leak", ONLY_PERMITS, acquire, release);
const struct driver driver_semaphore_expiring = PLANTED_DRIVER(
    "semaphore-expiring-counter", ONLY_PERMITS, acquire_expiring, release);
const struct driver driver_semaphore_look =
    PLANTED_DRIVER("semaphore-look-then-take", ONLY_PERMITS, acquire_looking, release);
