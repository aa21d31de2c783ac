/* SPDX-License-Identifier: MIT */
/*
 * Mistake: the owner is the process, and the owner may enter again.
 *
 * A reentrant lock whose value is the host and the pid. Two threads of one process are
 * one owner to it. The ZooKeeper C recipe names its node after the session and etcd's
 * mutex its key after the lease, with the same effect for two users of one session.
 *
 * Breaks by: two threads.
 */
#include "planted.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    snprintf(self->owner, sizeof self->owner, "host:%d", (int)getpid());
    enum history_result result = planted_take(self, want);
    if (result != H_BUSY)
        return result;
    uint64_t asked = history_now();
    struct reply reply = resp_eval(self->redis,
                                   "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                   "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end "
                                   "return 0",
                                   self->key, self->owner, self->ttl_ms);
    self->until_ns = asked + (uint64_t)self->ttl_ms * 990000u;
    return reply.type == ':' && reply.number == 1 ? H_OK : H_BUSY;
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, attempt, ret_grant);
}

extern const struct driver driver_owner_pid;
const struct driver driver_owner_pid =
    PLANTED_DRIVER("owner-is-the-process", ONLY_MUTEX, acquire, planted_drop);
