/* SPDX-License-Identifier: MIT */
/*
 * Mistake: RedLock, and a member that comes back empty at once.
 *
 * Three servers without persistence, a majority of two, validity = ttl - time spent -
 * drift: the algorithm as published. The Redis manual's page on it says in its section
 * on crash recovery that a member must stay away for longer than the longest lease
 * after a crash, or write everything to disk before it answers. A supervisor that
 * restarts the server within a second knows nothing of that.
 *
 * Breaks by: A holds on members 1 and 2; 2 is restarted; B gets 2 and 3.
 *
 * `redlock` is the same with the rule enforced by the client: a member that has been
 * up for less than a lease (and the second in which it counts) does not vote.
 */
#include "planted.h"

#include <stdlib.h>

static bool too_young(struct planted *self, struct resp *member)
{
    struct reply age = resp_eval(member,
                                 "return string.match(redis.call('INFO', 'server'), "
                                 "'uptime_in_seconds:(%d+)')",
                                 self->key, "", 0);
    return age.type != '$' || strtoll(age.text, NULL, 10) * 1000 < self->ttl_ms + 1000;
}

static void withdraw(struct planted *self)
{
    for (size_t i = 0; i < self->members; i++) {
        self->redis = self->member[i];
        planted_drop(self);
    }
}

static enum history_result vote(struct planted *self, bool careful)
{
    size_t yes = 0, asked = 0;
    uint64_t until = history_now() + (uint64_t)self->ttl_ms * 990000u - 2000000u;
    for (size_t i = 0; i < self->members; i++) {
        if (careful && too_young(self, self->member[i]))
            continue;
        self->redis = self->member[i];
        asked++;
        yes += planted_take(self, NULL) == H_OK;
    }
    self->until_ns = until;
    if (yes > self->members / 2 && history_now() < until)
        return H_OK;
    withdraw(self);
    return asked > self->members / 2 ? H_BUSY : H_FAILED;
}

static enum history_result vote_any(struct planted *self,
                                    const struct driver_want *want)
{
    (void)want;
    return vote(self, false);
}

static enum history_result vote_old(struct planted *self,
                                    const struct driver_want *want)
{
    (void)want;
    return vote(self, true);
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, vote_any, ret_grant);
}

static enum history_result acquire_careful(void *self, const struct driver_want *want,
                                           struct driver_grant *ret_grant)
{
    return planted_poll(self, want, vote_old, ret_grant);
}

static enum history_result release(void *arg)
{
    struct planted *self = arg;
    bool late = history_now() >= self->until_ns;
    withdraw(self);
    return late ? H_LATE : H_OK;
}

extern const struct driver driver_redlock, driver_redlock_restart;
const struct driver driver_redlock =
    PLANTED_DRIVER("redlock", ONLY_MUTEX, acquire_careful, release);
const struct driver driver_redlock_restart =
    PLANTED_DRIVER("redlock-restarted-member", ONLY_MUTEX, acquire, release);
