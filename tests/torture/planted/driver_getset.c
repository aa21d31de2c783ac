/* SPDX-License-Identifier: MIT */
/*
 * Mistake: the time of expiry is the value, written and judged by client clocks.
 *
 * SETNX stores when the lock will be over; who finds it over takes it with GETSET and
 * has it if the old value was over, too. The manual page of SETNX describes this
 * pattern, and since then says that it is discouraged. The key itself never expires,
 * so it is the clocks of the clients that decide, and they differ.
 *
 * Breaks by: one client whose clock is ahead. It sees a lock that is held as one that
 * is over.
 */
#include "planted.h"

#include <stdlib.h>
#include <time.h>

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    (void)want;
    uint64_t asked = history_now();
    int64_t now = wall_ms();
    long long end = now + self->ttl_ms;
    self->until_ns = asked + (uint64_t)self->ttl_ms * 990000u;
    struct reply reply = resp_say(self->redis, "SETNX %s %lld", self->key, end);
    if (reply.type == ':' && reply.number == 1)
        return H_OK;
    reply = resp_say(self->redis, "GET %s", self->key);
    if (!reply.type)
        return H_FAILED;
    if (reply_nil(&reply) || strtoll(reply.text, NULL, 10) >= now)
        return H_BUSY;
    reply = resp_say(self->redis, "GETSET %s %lld", self->key, end);
    bool over = reply.type == '$' && strtoll(reply.text, NULL, 10) < now;
    return over ? H_OK : reply.type ? H_BUSY : reply_missing(&reply);
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, attempt, ret_grant);
}

/* As the pattern has it: delete while it is still ours by the clock. */
static enum history_result release(void *arg)
{
    struct planted *self = arg;
    if (history_now() >= self->until_ns)
        return H_LATE;
    struct reply reply = resp_say(self->redis, "DEL %s", self->key);
    return reply.type == ':' ? H_OK : reply_missing(&reply);
}

extern const struct driver driver_getset;
const struct driver driver_getset =
    PLANTED_DRIVER("getset-client-clock", ONLY_MUTEX, acquire, release);
