/* SPDX-License-Identifier: MIT */
/*
 * Mistake: a read-write lock made of a counter of readers and a flag for the writer.
 *
 * A reader looks at the flag and counts itself; a writer sets the flag and looks at
 * the counter. Each step is atomic, and each side looks before the other has written.
 * The textbook order (write first, look second, on both sides) would be safe; on one
 * side it is the wrong way round, and no test of one reader and one writer notices.
 *
 * Breaks by: contention. And both halves stay when their owner is killed.
 */
#include "planted.h"

static enum history_result read_in(struct planted *self)
{
    struct reply flag = resp_say(self->redis, "EXISTS %s:writer", self->key);
    if (flag.type != ':')
        return reply_missing(&flag);
    if (flag.number != 0)
        return H_BUSY;
    struct reply reply = resp_say(self->redis, "INCR %s:readers", self->key);
    return reply.type == ':' ? H_OK : reply_missing(&reply);
}

static enum history_result write_in(struct planted *self)
{
    struct reply reply = resp_say(self->redis, "SETNX %s:writer 1", self->key);
    if (reply.type != ':')
        return reply_missing(&reply);
    if (reply.number == 0)
        return H_BUSY;
    struct reply readers = resp_say(self->redis, "INCRBY %s:readers 0", self->key);
    if (readers.type == ':' && readers.number == 0)
        return H_OK;
    resp_say(self->redis, "DEL %s:writer", self->key);
    return H_BUSY;
}

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    return want->kind == H_READ ? read_in(self) : write_in(self);
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

extern const struct driver driver_rw_counters;
const struct driver driver_rw_counters = PLANTED_DRIVER(
    "rw-two-counters", (1u << H_READ) | (1u << H_WRITE), acquire, release);
