/* SPDX-License-Identifier: MIT */
/*
 * Mistake: a writer becomes a reader by letting go and coming in again.
 *
 * The lock itself is right: one script looks at the writer and the readers and takes
 * its place. But the downgrade is two of them, and a writer that waits is in between,
 * changes what the first one has just written, and the first one goes on reading.
 *
 * Breaks by: contention.
 */
#include <stdio.h>

#include "planted.h"

static const char read_in[] =
    "if redis.call('EXISTS', KEYS[1] .. ':writer') == 1 then return 0 end "
    "redis.call('INCR', KEYS[1] .. ':readers') return 1";
static const char write_in[] =
    "if redis.call('EXISTS', KEYS[1] .. ':writer') == 1 or "
    "tonumber(redis.call('GET', KEYS[1] .. ':readers') or '0') > 0 then return 0 end "
    "redis.call('SET', KEYS[1] .. ':writer', 1) return 1";

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    struct reply reply = resp_eval(
        self->redis, want->kind == H_READ ? read_in : write_in, self->key, "", 0);
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
    struct reply reply = self->kind == H_READ
                             ? resp_say(self->redis, "DECR %s:readers", self->key)
                             : resp_say(self->redis, "DEL %s:writer", self->key);
    return reply.type == ':' ? H_OK : reply_missing(&reply);
}

static enum history_result downgrade(void *arg)
{
    struct planted *self = arg;
    struct driver_want want = { .kind = H_READ };
    release(self);
    self->kind = H_READ;
    while (attempt(self, &want) == H_BUSY)
        planted_nap(200);
    return H_OK;
}

extern const struct driver driver_downgrade_lets_go;
const struct driver driver_downgrade_lets_go = {
    .name = "downgrade-lets-go",
    .kinds = (1u << H_READ) | (1u << H_WRITE),
    .open = planted_open,
    .close = planted_close,
    .acquire = acquire,
    .release = release,
    .still_held = planted_still_held,
    .downgrade = downgrade,
};
