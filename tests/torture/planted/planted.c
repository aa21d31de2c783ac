/* SPDX-License-Identifier: MIT */
/*
 * What the planted locks share: see planted.h.
 *
 * The lease lock here (planted_take, planted_drop) is the one of the Redis manual done
 * right, so that a driver that uses it is wrong in what it adds and in nothing else.
 * Everything runs on the thread that opened the client.
 */
#include "planted.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* ---- The client ------------------------------------------------------------------ */

static const char *after_scheme(const char *url)
{
    const char *colon = strchr(url, ':');
    if (!colon)
        return url;
    colon++;
    return strncmp(colon, "//", 2) == 0 ? colon + 2 : colon;
}

static bool members_open(struct planted *self)
{
    char list[sizeof self->place];
    char *rest = NULL;
    snprintf(list, sizeof list, "%s", self->place);
    for (char *path = strtok_r(list, ",", &rest);
         path && self->members < PLANTED_MEMBERS; path = strtok_r(NULL, ",", &rest)) {
        self->member[self->members] = resp_open(path);
        if (!self->member[self->members++])
            return false;
    }
    self->redis = self->member[0];
    return self->redis != NULL;
}

void *planted_open(const struct driver_settings *settings)
{
    struct planted *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->fd = -1;
    self->ttl_ms = settings->ttl_ms ? settings->ttl_ms : 300;
    snprintf(self->place, sizeof self->place, "%s", after_scheme(settings->url));
    self->place[strcspn(self->place, "?")] = '\0';
    if (getrandom(&self->dice, sizeof self->dice, 0) != sizeof self->dice ||
        (strncmp(settings->url, "redis", 5) == 0 && !members_open(self))) {
        planted_close(self);
        return NULL;
    }
    return self;
}

void planted_close(void *arg)
{
    struct planted *self = arg;
    for (size_t i = 0; i < self->members; i++)
        resp_close(self->member[i]);
    if (self->fd >= 0)
        close(self->fd);
    free(self);
}

bool planted_still_held(void *arg, uint64_t *ret_until_ns)
{
    struct planted *self = arg;
    *ret_until_ns = self->until_ns;
    return history_now() < self->until_ns;
}

/* ---- Waiting --------------------------------------------------------------------- */

uint64_t planted_dice(struct planted *self, uint64_t sides)
{
    self->dice = self->dice * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (self->dice >> 33) % sides;
}

void planted_nap(int64_t us)
{
    struct timespec time = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
    nanosleep(&time, NULL); /* pause: wrong locks poll, and are forced to be slow */
}

static void owner_draw(struct planted *self)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        abort();
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(self->owner + 2 * i, 3, "%02x", bytes[i]);
}

enum history_result planted_poll(struct planted *self, const struct driver_want *want,
                                 planted_try *attempt, struct driver_grant *ret_grant)
{
    uint64_t end = history_now() + (uint64_t)want->timeout_ms * 1000000u;
    snprintf(self->key, sizeof self->key, "%s", want->name);
    self->kind = want->kind;
    self->permits = want->permits;
    self->queued = false;
    self->until_ns = NO_END;
    owner_draw(self);
    for (;;) {
        enum history_result result = attempt(self, want);
        ret_grant->until_ns = self->until_ns;
        if (result == H_UNKNOWN || result == H_FAILED)
            planted_nap(5000);
        if (result != H_BUSY || want->timeout_ms == 0)
            return result;
        if (history_now() >= end)
            return H_TIMEOUT;
        planted_nap(300 + (int64_t)planted_dice(self, 2000));
    }
}

/* ---- A lease lock that is right -------------------------------------------------- */

enum history_result reply_missing(const struct reply *reply)
{
    return reply->sent ? H_UNKNOWN : H_FAILED;
}

enum history_result planted_take(struct planted *self, const struct driver_want *want)
{
    (void)want;
    uint64_t asked = history_now();
    struct reply reply = resp_say(self->redis, "SET %s %s NX PX %lld", self->key,
                                  self->owner, (long long)self->ttl_ms);
    self->until_ns = asked + (uint64_t)self->ttl_ms * 990000u;
    if (reply_nil(&reply))
        return H_BUSY;
    if (!reply_ok(&reply))
        return reply.type ? H_FAILED : reply_missing(&reply);
    return history_now() < self->until_ns ? H_OK : H_UNKNOWN;
}

enum history_result planted_drop(void *arg)
{
    struct planted *self = arg;
    struct reply reply = resp_eval(self->redis,
                                   "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                   "return redis.call('DEL', KEYS[1]) end return 0",
                                   self->key, self->owner, 0);
    if (reply.type != ':')
        return reply_missing(&reply);
    return reply.number == 1 ? H_OK : H_LATE;
}

/* ---- Forced schedules ------------------------------------------------------------ */

void planted_point(struct planted *self, const char *name)
{
    const char *what = getenv("PLANTED_POINT");
    size_t len = strlen(name);
    char deed[16] = "";
    long times = 1, ms = 0;
    if (!what || strncmp(what, name, len) != 0 || what[len] != ':' ||
        sscanf(what + len + 1, "%15[a-z]:%ld:%ld", deed, &times, &ms) < 2 ||
        times < 1 || planted_dice(self, (uint64_t)times) != 0)
        return;
    if (strcmp(deed, "kill") == 0)
        raise(SIGKILL);
    planted_nap(ms * 1000);
}
