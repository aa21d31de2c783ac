/* SPDX-License-Identifier: MIT */
/*
 * Mistake: a release that got no answer is sent again later, and the owner's value is
 * the client's, not the hold's.
 *
 * Compare and delete looks like a request that may be repeated at will. It is one only
 * if no later lock carries the same value. With one random value per client, drawn
 * when it starts, the second release finds "its own" lock: the next one. Retries come
 * from the client library as a rule: ioredis sends unanswered commands again after a
 * reconnect unless told not to (autoResendUnfulfilledCommands).
 *
 * Breaks by: a server that is slow to answer one release.
 */
#include "planted.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_MS 25

static void *send_again(void *arg)
{
    struct planted *copy = arg;
    planted_nap(20000); /* back-off */
    planted_drop(copy);
    resp_close(copy->redis);
    free(copy);
    return NULL;
}

static void retry_later(const struct planted *self)
{
    pthread_t thread;
    struct planted *copy = malloc(sizeof *copy);
    if (!copy)
        return;
    *copy = *self;
    copy->redis = resp_open(self->place);
    if (copy->redis && pthread_create(&thread, NULL, send_again, copy) == 0) {
        pthread_detach(thread);
        return;
    }
    resp_close(copy->redis);
    free(copy);
}

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    snprintf(self->owner, sizeof self->owner, "client-%d-%p", (int)getpid(),
             (void *)self);
    return planted_take(self, want);
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, attempt, ret_grant);
}

static enum history_result release(void *arg)
{
    struct planted *self = arg;
    resp_patience(self->redis, PATIENCE_MS);
    enum history_result result = planted_drop(self);
    resp_patience(self->redis, 1000);
    if (result == H_UNKNOWN)
        retry_later(self);
    return result;
}

extern const struct driver driver_release_resent;
const struct driver driver_release_resent =
    PLANTED_DRIVER("release-sent-again", ONLY_MUTEX, acquire, release);
