/* SPDX-License-Identifier: MIT */
/*
 * Mistake: the validity is counted from the reply.
 *
 * The server's clock starts when it carries the request out, the client's when it has
 * read the answer. What lies between (network, a full socket buffer, a scheduler) is
 * time during which the client believes and the server does not. DistributedLock's
 * lease monitor starts its clock there, and a change to node-redlock that would have
 * done so was proposed as pull request 167.
 *
 * Breaks by: slow answers.
 */
#include "planted.h"

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    (void)want;
    struct reply reply = resp_say(self->redis, "SET %s %s NX PX %lld", self->key,
                                  self->owner, (long long)self->ttl_ms);
    self->until_ns = history_now() + (uint64_t)self->ttl_ms * 990000u;
    if (reply_nil(&reply))
        return H_BUSY;
    return reply_ok(&reply) ? H_OK : reply_missing(&reply);
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, attempt, ret_grant);
}

extern const struct driver driver_validity_from_reply;
const struct driver driver_validity_from_reply =
    PLANTED_DRIVER("validity-from-reply", ONLY_MUTEX, acquire, planted_drop);
