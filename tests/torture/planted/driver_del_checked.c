/* SPDX-License-Identifier: MIT */
/*
 * Mistake: ask whose lock it is, then delete it: two commands.
 *
 * What remains of the owner check when scripts are avoided: GET, compare in the
 * client, DEL. Between the two the lease may end and the lock be somebody else's.
 *
 * Breaks by: a pause between GET and DEL. It need not be longer than what is left of
 * the lease at that moment.
 */
#include "planted.h"

#include <string.h>

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, planted_take, ret_grant);
}

static enum history_result release(void *arg)
{
    struct planted *self = arg;
    struct reply found = resp_say(self->redis, "GET %s", self->key);
    if (!found.type)
        return reply_missing(&found);
    if (found.type != '$' || strcmp(found.text, self->owner) != 0)
        return H_LATE;
    planted_point(self, "before-del");
    struct reply reply = resp_say(self->redis, "DEL %s", self->key);
    return reply.type == ':' ? H_OK : reply_missing(&reply);
}

extern const struct driver driver_del_checked;
const struct driver driver_del_checked =
    PLANTED_DRIVER("get-then-del", ONLY_MUTEX, acquire, release);
