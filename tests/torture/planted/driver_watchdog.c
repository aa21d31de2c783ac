/* SPDX-License-Identifier: MIT */
/*
 * Mistakes: watchdogs that renew what is not theirs.
 *
 * `watchdog-blind` renews with PEXPIRE, which asks whether the key exists and not
 * whose it is. A holder that was stopped beyond its lease wakes up, renews the lock of
 * somebody else, is told that all is well, and believes.
 *
 * `watchdog-after-release` renews by writing the key anew, so that a lock that was
 * lost comes back (redsync offers this as an option, set-NX-on-extend); and its
 * release tells the watchdog to stop without waiting for the renewal that is under
 * way. That renewal comes after the release and makes a lock that nobody holds.
 *
 * One thread per hold. The record is shared by hold and thread; the last one frees it.
 *
 * Breaks by: a pause beyond the lease; a release at the moment of a renewal.
 */
#include "planted.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct watchdog {
    struct planted client; /* a connection of its own, and the hold's key and owner */
    bool revives;
    _Atomic(uint64_t) until_ns;
    atomic_bool stop;
    atomic_int users;
};

static void watchdog_unref(struct watchdog *dog)
{
    if (atomic_fetch_sub(&dog->users, 1) > 1)
        return;
    resp_close(dog->client.redis);
    free(dog);
}

static bool renew(struct watchdog *dog)
{
    struct planted *client = &dog->client;
    long long ttl_ms = client->ttl_ms;
    uint64_t asked = history_now();
    struct reply reply =
        dog->revives ? resp_say(client->redis, "SET %s %s PX %lld", client->key,
                                client->owner, ttl_ms)
                     : resp_say(client->redis, "PEXPIRE %s %lld", client->key, ttl_ms);
    if (!reply_ok(&reply) && (reply.type != ':' || reply.number != 1))
        return false;
    atomic_store(&dog->until_ns, asked + (uint64_t)ttl_ms * 990000u);
    return true;
}

static void *watchdog_run(void *arg)
{
    struct watchdog *dog = arg;
    do {
        planted_nap(dog->client.ttl_ms * 1000 / 6);
        if (atomic_load(&dog->stop))
            break;
        planted_point(&dog->client, "before-renewal");
    } while (renew(dog));
    watchdog_unref(dog);
    return NULL;
}

static bool watchdog_start(struct planted *self, bool revives)
{
    struct watchdog *dog = calloc(1, sizeof *dog);
    pthread_t thread;
    if (!dog)
        return false;
    dog->client = *self;
    dog->client.redis = resp_open(self->place);
    dog->revives = revives;
    atomic_init(&dog->until_ns, self->until_ns);
    atomic_init(&dog->users, 2);
    if (!dog->client.redis || pthread_create(&thread, NULL, watchdog_run, dog) != 0) {
        atomic_store(&dog->users, 1);
        watchdog_unref(dog);
        return false;
    }
    pthread_detach(thread);
    self->extra = dog;
    return true;
}

static enum history_result take(struct planted *self, const struct driver_want *want,
                                struct driver_grant *ret_grant, bool revives)
{
    enum history_result result = planted_poll(self, want, planted_take, ret_grant);
    if (result != H_OK || watchdog_start(self, revives))
        return result;
    planted_drop(self);
    return H_FAILED;
}

static enum history_result acquire_blind(void *self, const struct driver_want *want,
                                         struct driver_grant *ret_grant)
{
    return take(self, want, ret_grant, false);
}

static enum history_result acquire_reviving(void *self, const struct driver_want *want,
                                            struct driver_grant *ret_grant)
{
    return take(self, want, ret_grant, true);
}

static bool still_held(void *arg, uint64_t *ret_until_ns)
{
    struct watchdog *dog = ((struct planted *)arg)->extra;
    *ret_until_ns = atomic_load(&dog->until_ns);
    return history_now() < *ret_until_ns;
}

static enum history_result release(void *arg)
{
    struct planted *self = arg;
    struct watchdog *dog = self->extra;
    atomic_store(&dog->stop, true);
    watchdog_unref(dog);
    return planted_drop(self);
}

extern const struct driver driver_watchdog_blind, driver_watchdog_late;
const struct driver driver_watchdog_blind = {
    .name = "watchdog-blind",
    .kinds = ONLY_MUTEX,
    .open = planted_open,
    .close = planted_close,
    .acquire = acquire_blind,
    .release = release,
    .still_held = still_held,
};
const struct driver driver_watchdog_late = {
    .name = "watchdog-after-release",
    .kinds = ONLY_MUTEX,
    .open = planted_open,
    .close = planted_close,
    .acquire = acquire_reviving,
    .release = release,
    .still_held = still_held,
};
