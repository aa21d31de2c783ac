/* SPDX-License-Identifier: MIT */
/*
 * Mistakes with a hold that is evicted, adopted, left or extended. The lock itself is a
 * lease lock that is right, with a token: SET NX PX, and compare-and-delete.
 *
 *   evict-whoever     deletes the key, whose it may be by now: the token was that of a
 *                     holder who has gone, and another one loses its lock.
 *   adopt-keeps-old   the adopter takes over the owner's secret. So does the former
 *                     owner keep it, and its release takes the lock from the adopter.
 *   leave-lets-go     what is left behind is released, though it was to last until its
 *                     lease ends or it is adopted.
 *   extend-not-sent   counts on the longer lease without asking for it.
 *
 * Break by: use of those verbs. The last one also needs holds longer than a lease.
 */
#include <stdio.h>
#include <string.h>

#include "planted.h"

static const char grant[] =
    "if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end "
    "local token = redis.call('INCR', KEYS[1] .. ':token') "
    "redis.call('SET', KEYS[1] .. ':token:now', token, 'PX', ARGV[2]) "
    "return token";

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    (void)want;
    uint64_t asked = history_now();
    struct reply reply =
        resp_eval(self->redis, grant, self->key, self->owner, self->ttl_ms);
    self->until_ns = asked + (uint64_t)self->ttl_ms * 990000u;
    if (reply.type != ':')
        return reply_missing(&reply);
    self->token = (uint64_t)reply.number;
    return reply.number == 0 ? H_BUSY : H_OK;
}

static enum history_result acquire(void *arg, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    struct planted *self = arg;
    enum history_result result = planted_poll(self, want, attempt, ret_grant);
    ret_grant->token = self->token;
    return result;
}

/* ---- As it should be ------------------------------------------------------------- */

static enum history_result number_result(const struct reply *reply,
                                         enum history_result none)
{
    if (reply->type != ':')
        return reply_missing(reply);
    return reply->number == 1 ? H_OK : none;
}

static enum history_result evict(void *arg, const char *name, uint64_t token)
{
    struct planted *self = arg;
    struct reply reply = resp_eval(self->redis,
                                   "if redis.call('GET', KEYS[1] .. ':token:now') == "
                                   "ARGV[2] then redis.call('DEL', KEYS[1] .. "
                                   "':token:now') return redis.call('DEL', KEYS[1]) "
                                   "end return 0",
                                   name, "", (int64_t)token);
    return number_result(&reply, H_ABSENT);
}

static enum history_result extend(void *arg, int64_t ttl_ms,
                                  struct driver_grant *ret_grant)
{
    struct planted *self = arg;
    uint64_t asked = history_now();
    struct reply reply = resp_eval(self->redis,
                                   "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                   "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) "
                                   "end return 0",
                                   self->key, self->owner, ttl_ms);
    enum history_result result = number_result(&reply, H_LATE);
    if (result == H_OK)
        self->until_ns = asked + (uint64_t)ttl_ms * 990000u;
    ret_grant->until_ns = ret_grant->latest_ns = self->until_ns;
    return result;
}

static enum history_result identify(void *arg, char *buffer, size_t size)
{
    struct planted *self = arg;
    snprintf(buffer, size, "%s %llu", self->owner, (unsigned long long)self->token);
    return H_OK;
}

/* Not ours any more; the lease goes on. */
static enum history_result leave(void *self)
{
    (void)self;
    return H_OK;
}

/* ---- Wrong ----------------------------------------------------------------------- */

static enum history_result evict_whoever(void *arg, const char *name, uint64_t token)
{
    struct planted *self = arg;
    (void)token;
    struct reply reply = resp_say(self->redis, "DEL %s", name);
    return number_result(&reply, H_ABSENT);
}

/* Under the secret of the former owner, which goes on to use it. */
static enum history_result adopt_as_owner(void *arg, const struct driver_want *want,
                                          const char *id,
                                          struct driver_grant *ret_grant)
{
    struct planted *self = arg;
    unsigned long long token;
    *ret_grant = (struct driver_grant){ .token = 0 };
    if (sscanf(id, "%32s %llu", self->owner, &token) != 2)
        return H_FAILED;
    snprintf(self->key, sizeof self->key, "%s", want->name);
    self->kind = want->kind;
    self->token = token;
    enum history_result result = extend(self, self->ttl_ms, ret_grant);
    ret_grant->token = token;
    return result == H_LATE ? H_ABSENT : result;
}

static enum history_result leave_drop(void *self)
{
    planted_drop(self);
    return H_OK;
}

static enum history_result extend_nothing(void *arg, int64_t ttl_ms,
                                          struct driver_grant *ret_grant)
{
    struct planted *self = arg;
    self->until_ns = history_now() + (uint64_t)ttl_ms * 990000u;
    ret_grant->until_ns = ret_grant->latest_ns = self->until_ns;
    return H_OK;
}

#define MOVING_DRIVER(name_, extend_, leave_, evict_)                                  \
    {                                                                                  \
        .name = name_, .kinds = ONLY_MUTEX, .open = planted_open,                      \
        .close = planted_close, .acquire = acquire, .release = planted_drop,           \
        .still_held = planted_still_held, .extend = extend_, .identify = identify,     \
        .adopt = adopt_as_owner, .leave = leave_, .evict = evict_,                     \
    }

extern const struct driver driver_evict_whoever, driver_adopt_keeps, driver_leave_drops,
    driver_extend_nothing;
const struct driver driver_evict_whoever =
    MOVING_DRIVER("evict-whoever", extend, leave, evict_whoever);
const struct driver driver_adopt_keeps =
    MOVING_DRIVER("adopt-keeps-old", extend, leave, evict);
const struct driver driver_leave_drops =
    MOVING_DRIVER("leave-lets-go", extend, leave_drop, evict);
const struct driver driver_extend_nothing =
    MOVING_DRIVER("extend-not-sent", extend_nothing, leave, evict);
