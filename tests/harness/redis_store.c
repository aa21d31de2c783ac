/* SPDX-License-Identifier: MIT */
/*
 * The redis rows of the contract suite: see redis_store.h.
 *
 * Called on the scenario's main thread. What may stay in the database after a scenario
 * is what docs/backends/redis.md says stays: the last token of each name, for good, and
 * answers kept for a repeat of a latch's or cell's change, for a minute. Whatever was
 * sent before hf_close() returned has been done by then, so the keys are looked at
 * without patience; only the end of the connections is waited for.
 */
#include "redis_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_raw.h"
#include "redis_server.h"

static const char *const stays_for_good[] = { "redisson_lock_token:", NULL };
static const char *const stays_a_minute[] = { "holdfast_done:", "holdfast_opened:",
                                              NULL };

struct look {
    struct raw *asker; /* beside the connection that scans */
    uint64_t count;    /* of keys that do not stay for good */
    bool found;        /* one that does not stay at all: */
    char key[HF_NAME_MAX + 128];
};

void redis_store_start(struct env *e, const char *prefix, const char *query)
{
    struct redis_server *server = calloc(1, sizeof *server);
    CHECK(server != NULL);
    redis_start(server, e->scratch, e->scenario->flags & CLOCK, NULL);
    snprintf(e->url, sizeof e->url, "%sredis+unix://%s%s", prefix, server->socket,
             query);
    e->store_data = server;
}

void redis_store_stop(struct env *e)
{
    redis_kill(e->store_data);
    free(e->store_data);
    e->store_data = NULL;
}

static bool begins_with_any(const char *key, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        if (strncmp(key, *prefixes, strlen(*prefixes)) == 0)
            return true;
    return false;
}

static bool ends_in_a_minute(struct raw *raw, const char *key)
{
    const char *const args[] = { "PTTL", key };
    long long left = strtoll(raw_call(raw, args, 2), NULL, 10);
    return left != -1 && left <= 60000;
}

static bool key_look(void *arg, const char *key)
{
    struct look *look = arg;
    if (begins_with_any(key, stays_for_good))
        return true;
    look->count++;
    if (begins_with_any(key, stays_a_minute) && ends_in_a_minute(look->asker, key))
        return true;
    look->found = true;
    snprintf(look->key, sizeof look->key, "%s", key);
    return true;
}

static void database_look(const struct env *e, struct look *look)
{
    const struct redis_server *server = e->store_data;
    struct raw *raw = raw_open(server->socket);
    EVENTUALLY(raw_others(raw) == 0);
    *look = (struct look){ .asker = raw_open(server->socket) };
    raw_keys(raw, key_look, look);
    raw_close(look->asker);
    raw_close(raw);
}

bool redis_store_residue(const struct env *e, char *text, size_t size)
{
    struct look look;
    database_look(e, &look);
    if (look.found)
        snprintf(text, size, "the key %.200s", look.key);
    return look.found;
}

uint64_t redis_store_weight(const struct env *e)
{
    struct look look;
    database_look(e, &look);
    return look.count;
}
