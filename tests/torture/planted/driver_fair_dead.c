/* SPDX-License-Identifier: MIT */
/*
 * Mistake: a fair queue from which the dead are never removed.
 *
 * A list of waiters; whoever is first takes the lock, a sound lease lock, and goes.
 * The lock has a lease, the place in the queue has none. Redisson's fair lock gives
 * each waiter five seconds of grace for this reason, and its tracker has the reports
 * of what happens where that was not enough (issues 4595 and 6150).
 *
 * Breaks by: kill -9 of a client that waits. Its place is reached, and stays.
 */
#include "planted.h"

#include <string.h>

/* In line since the first time we asked. */
static bool stand_in_line(struct planted *self)
{
    if (!self->queued)
        self->queued =
            resp_say(self->redis, "RPUSH %s:queue %s", self->key, self->owner).type ==
            ':';
    return self->queued;
}

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    if (!stand_in_line(self))
        return H_FAILED;
    struct reply first = resp_say(self->redis, "LINDEX %s:queue 0", self->key);
    if (!first.type)
        return reply_missing(&first);
    if (first.type != '$' || strcmp(first.text, self->owner) != 0)
        return H_BUSY;
    enum history_result result = planted_take(self, want);
    if (result == H_OK)
        resp_say(self->redis, "LPOP %s:queue", self->key);
    return result;
}

static enum history_result acquire(void *arg, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    struct planted *self = arg;
    enum history_result result = planted_poll(self, want, attempt, ret_grant);
    if (result != H_OK)
        resp_say(self->redis, "LREM %s:queue 1 %s", self->key, self->owner);
    return result;
}

extern const struct driver driver_fair_dead;
const struct driver driver_fair_dead =
    PLANTED_DRIVER("fair-queue-of-the-dead", 1u << H_FAIR, acquire, planted_drop);
