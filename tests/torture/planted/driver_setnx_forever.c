/* SPDX-License-Identifier: MIT */
/*
 * Mistake: SETNX, and no expiry at all.
 *
 * The first lock everybody writes. It excludes well, and it is for ever: a holder that
 * is killed leaves a key that nobody may delete. HashiCorp Vault's etcd backend had
 * the same form, a lock key without a lease (vault, pull request 2526).
 *
 * Breaks by: kill -9 of a holder. Everybody else waits until somebody deletes the key
 * by hand.
 */
#include "planted.h"

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    (void)want;
    struct reply reply = resp_say(self->redis, "SETNX %s 1", self->key);
    if (reply.type != ':')
        return reply_missing(&reply);
    return reply.number == 1 ? H_OK : H_BUSY;
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, attempt, ret_grant);
}

static enum history_result release(void *arg)
{
    struct planted *self = arg;
    struct reply reply = resp_say(self->redis, "DEL %s", self->key);
    return reply.type == ':' ? H_OK : reply_missing(&reply);
}

extern const struct driver driver_setnx_forever;
const struct driver driver_setnx_forever =
    PLANTED_DRIVER("setnx-forever", ONLY_MUTEX, acquire, release);
