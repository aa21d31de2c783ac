/* SPDX-License-Identifier: MIT */
/*
 * Mistake: "busy" from memory.
 *
 * To spare the server, a client that was refused remembers how long the key had to
 * live and refuses by itself until then. A lock is given back long before its lease is
 * over, as a rule; this client does not hear of it.
 *
 * Breaks by: nothing but use. No two are ever inside; only a check that every refusal
 * had a holder behind it sees anything.
 */
#include "planted.h"

#include <stdlib.h>

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    enum history_result result = planted_take(self, want);
    if (result != H_BUSY)
        return result;
    struct reply left = resp_say(self->redis, "PTTL %s", self->key);
    uint64_t *free_at = self->extra;
    if (left.type == ':' && left.number > 0)
        *free_at = history_now() + (uint64_t)left.number * 1000000u;
    return H_BUSY;
}

static enum history_result acquire(void *arg, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    struct planted *self = arg;
    uint64_t *free_at = self->extra;
    if (want->timeout_ms == 0 && history_now() < *free_at)
        return H_BUSY;
    return planted_poll(self, want, attempt, ret_grant);
}

static void *memory_open(const struct driver_settings *settings)
{
    struct planted *self = planted_open(settings);
    if (self && !(self->extra = calloc(1, sizeof(uint64_t)))) {
        planted_close(self);
        return NULL;
    }
    return self;
}

static void memory_close(void *arg)
{
    free(((struct planted *)arg)->extra);
    planted_close(arg);
}

extern const struct driver driver_busy_remembered;
const struct driver driver_busy_remembered = {
    .name = "busy-from-memory",
    .kinds = ONLY_MUTEX,
    .open = memory_open,
    .close = memory_close,
    .acquire = acquire,
    .release = planted_drop,
    .still_held = planted_still_held,
};
