/* SPDX-License-Identifier: MIT */
/*
 * Mistake: release by DEL, without asking whose it is.
 *
 * SET NX PX is right, and so is what the holder believes: it counts the validity from
 * before the request and stops in time. But a holder that was away for longer than its
 * lease deletes the lock of the one who came after. The manual page of SET warns of
 * just this and gives the script to use instead of DEL.
 *
 * Breaks by: a pause beyond the lease, and a third client.
 */
#include "planted.h"

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, planted_take, ret_grant);
}

static enum history_result release(void *arg)
{
    struct planted *self = arg;
    struct reply reply = resp_say(self->redis, "DEL %s", self->key);
    return reply.type == ':' ? H_OK : reply_missing(&reply);
}

extern const struct driver driver_del_blind;
const struct driver driver_del_blind =
    PLANTED_DRIVER("del-without-owner", ONLY_MUTEX, acquire, release);
