/* SPDX-License-Identifier: MIT */
/*
 * The shadow model: which parts of which names are held, as their callers know it.
 *
 * A part is registered right after its acquire returned, and marked right before its
 * release begins: while it is registered and not marked, its holder may rely on it. The
 * memory is shared by all processes; the mutex is robust, because processes are killed.
 * The checks themselves are in model_check.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "storm.h"

#define MARGIN_MS 60

struct world *world;

void world_make(const struct config *config)
{
    pthread_mutexattr_t attributes;
    void *memory = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        trouble("no memory for the model");
    world = memory;
    world->config = *config;
    world->began_ns = now_ns();
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&world->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    names_make(world->names, &world->names_count, config);
}

void model_lock(void)
{
    int rc = pthread_mutex_lock(&world->mutex);
    if (rc == EOWNERDEAD)
        pthread_mutex_consistent(&world->mutex);
    else if (rc != 0)
        trouble("the model's lock answers %d", rc);
}

void model_unlock(void)
{
    pthread_mutex_unlock(&world->mutex);
}

void name_linger(struct name *name, int64_t until)
{
    if (until > name->linger_until)
        name->linger_until = until;
}

/* An acquire begins (1) or ends (-1). */
void name_asks(struct name *name, int change)
{
    name->asking += change;
    name->busy += change;
    name->asking_by[self->number] += change;
}

void model_doom_process(int process)
{
    model_lock();
    atomic_store(&world->doomed[process], true);
    for (int i = 0; i < world->parts_end; i++)
        if (world->parts[i].process == process && !(world->parts[i].flags & P_LEFT))
            world->parts[i].flags |= world->parts[i].flags & P_USED ? P_DOUBTED : 0;
    model_unlock();
}

void model_forget_process(int process, int64_t linger_ns)
{
    model_lock();
    for (size_t i = 0; i < world->names_count; i++) { /* what it asked for meanwhile */
        struct name *name = &world->names[i];
        name_linger(name, now_ns() + linger_ns);
        name->asking -= name->asking_by[process];
        name->busy -= name->asking_by[process];
        name->asking_by[process] = 0;
    }
    atomic_store(&world->doomed[process], false);
    for (int i = 0; i < world->parts_end; i++) {
        struct part *part = &world->parts[i];
        if ((part->flags & P_USED) && part->process == process &&
            !(part->flags & P_LEFT))
            part_free(part);
    }
    model_unlock();
}

/* ---- Acquire --------------------------------------------------------------------- */

/* The part that this owner may enter again. */
static int part_to_reenter(const struct ask *ask)
{
    if (ask->count != 1 || ask->wants[0].kind != HF_REENTRANT || !ask->blocking)
        return -1;
    for (int i = 0; i < world->parts_end; i++) {
        const struct part *part = &world->parts[i];
        if ((part->flags & P_USED) && part->name == ask->names[0] &&
            part->kind == HF_REENTRANT && part->owner == ask->owner &&
            !(part->flags & P_LEFT) && part_is_held(part, 1000))
            return i;
    }
    return -1;
}

/* Those that this ask may enter: a release of one is perhaps not the last. */
static void parts_entered(const struct ask *ask, size_t index)
{
    for (int i = 0; i < world->parts_end; i++) {
        struct part *part = &world->parts[i];
        if ((part->flags & P_USED) && part->name == ask->names[index] &&
            part->kind == HF_REENTRANT && part->owner == ask->owner &&
            ask->wants[index].kind == HF_REENTRANT)
            part->entered++;
    }
}

void model_ask(struct ask *ask)
{
    model_lock();
    ask->began_ns = now_ns();
    for (size_t i = 0; i < ask->count; i++) {
        struct name *name = &world->names[ask->names[i]];
        ask->quiet[i] = name->busy == 0 && ask->began_ns > name->linger_until;
        ask->alone[i] = name->asking == 0;
        ask->activity[i] = ++name->activity;
        ask->floor[i] = name->max_token;
        name_asks(name, 1);
        parts_entered(ask, i);
    }
    ask->reenters = part_to_reenter(ask);
    if (ask->reenters >= 0)
        ask->reenters_serial = world->parts[ask->reenters].serial;
    model_unlock();
}

static bool any_refused(const struct ask *ask)
{
    for (size_t i = 0; i < ask->count; i++)
        if (name_is_refused(world->config.store, ask->wants[i].name,
                            ask->wants[i].kind))
            return true;
    return false;
}

static bool any_mixed(const struct ask *ask)
{
    for (size_t i = 0; i < ask->count; i++)
        if (world->names[ask->names[i]].mixed)
            return true;
    return false;
}

static bool may_be_lost(const struct ask *ask)
{
    bool evicted = false;
    for (size_t i = 0; i < ask->count; i++)
        evicted |= world->names[ask->names[i]].evictions > 0 ||
                   ask->wants[i].kind == HF_EXPIRING;
    return evicted || ask->options.ttl_ms || ask->options.max_hold_ms ||
           ask->client->ttl_ms || world->default_ttl;
}

static bool unsupported(const struct ask *ask)
{
    static const uint64_t needs[] = {
        0,         HF_CAP_MUTEX, HF_CAP_MUTEX,   HF_CAP_FAIR,
        HF_CAP_RW, HF_CAP_RW,    HF_CAP_PERMITS, HF_CAP_EXPIRING
    };
    uint64_t needed = 0;
    for (size_t i = 0; i < ask->count; i++)
        needed |= needs[ask->wants[i].kind];
    if (ask->options.ttl_ms || ask->options.max_hold_ms)
        needed |= HF_CAP_LEASE;
    if (ask->options.flags & HF_DETACHED)
        needed |= HF_CAP_DETACH;
    return needed & ~world->caps;
}

/* Nothing of this name was there when the call began, and nothing has come since. */
static bool had_the_name_alone(const struct ask *ask)
{
    for (size_t i = 0; i < ask->count; i++) {
        const struct name *name = &world->names[ask->names[i]];
        if (!ask->quiet[i] || name->activity != ask->activity[i] ||
            name->linger_until > ask->began_ns)
            return false;
    }
    return true;
}

static bool code_is_allowed(const struct ask *ask, int rc)
{
    int64_t timeout = ask->options.timeout_ms;
    switch (rc) {
    case HF_EBUSY:
        return timeout == 0 && (world->config.lossy || !had_the_name_alone(ask));
    case HF_ETIMEOUT:
        return timeout > 0 &&
               (world->config.lossy || timeout < 1000 || !had_the_name_alone(ask));
    case HF_ECANCELLED:
        return ask->cancelled;
    case HF_ECLOSED:
        return atomic_load(&ask->client->closing);
    case HF_EMISMATCH:
        return any_mixed(ask);
    case HF_EINVAL:
        return any_refused(ask);
    case HF_EUNSUPPORTED:
        return unsupported(ask);
    case HF_ELOST:
        return may_be_lost(ask);
    case HF_EUNCERTAIN: /* the store did not confirm the withdrawal in time */
        return world->config.lossy || now_ns() - ask->began_ns > 60 * NS_PER_MS;
    default:
        return is_weather(rc, ask->began_ns);
    }
}

static void deadline_check(const struct ask *ask)
{
    int64_t took = (now_ns() - ask->began_ns) / NS_PER_MS;
    int64_t timeout = ask->options.timeout_ms ? ask->options.timeout_ms : 5000;
    if (timeout == HF_FOREVER || took < timeout + 500)
        return;
    atomic_fetch_add(&world->late, 1);
    if (took > timeout + 20000)
        violation(8, "an acquire of %.40s with %lld ms ended after %lld ms",
                  ask->wants[0].name, (long long)timeout, (long long)took);
}

static void judge_refusal(const struct ask *ask, int rc)
{
    const char *name = ask->wants[0].name;
    const struct part *own = ask->reenters < 0 ? NULL : &world->parts[ask->reenters];
    if (!code_is_allowed(ask, rc))
        violation(13, "an acquire of %.60s as kind %d with timeout %lld answers %s",
                  name, ask->wants[0].kind, (long long)ask->options.timeout_ms,
                  code_name(rc));
    if (own && (rc == HF_EBUSY || rc == HF_ETIMEOUT) &&
        own->serial == ask->reenters_serial && part_is_held(own, 0))
        violation(7, "%.60s is not entered again by its owner: %s", name,
                  code_name(rc));
    /* Granted, and its client closed before the caller heard of it: it stays. */
    bool stays = rc == HF_ECLOSED && (ask->options.flags & HF_DETACHED);
    int64_t linger_ms = stays ? lease_asked(ask) + 500 : 5000;
    if (rc == HF_EUNCERTAIN || stays)
        for (size_t i = 0; i < ask->count; i++)
            name_linger(&world->names[ask->names[i]], now_ns() + linger_ms * NS_PER_MS);
}

static void register_all(struct ask *ask, hf_hold *handle, struct held *ret_held)
{
    bool again = false;
    struct held held = { .handle = handle, .client = ask->client, .count = ask->count };
    for (size_t i = 0; i < ask->count; i++) {
        uint64_t token = hf_hold_token(handle, i);
        again |= check_token(ask, i, token);
        ask->reentered = again;
        held.parts[i] = part_new(ask, i, handle, token);
    }
    for (size_t i = 0; i < ask->count; i++)
        check_exclusion(&world->parts[held.parts[i]]);
    check_lease(ask, handle, again);
    atomic_fetch_add(&world->grants, ask->count);
    atomic_fetch_add(&world->reentries, again);
    *ret_held = held;
}

void model_answer(struct ask *ask, int rc, hf_hold *handle, struct held *ret_held)
{
    deadline_check(ask);
    model_lock();
    if (rc == 0 && any_refused(ask))
        violation(13, "%.60s should be refused", ask->wants[0].name);
    if (rc == 0)
        register_all(ask, handle, ret_held);
    else
        judge_refusal(ask, rc);
    for (size_t i = 0; i < ask->count; i++) {
        name_asks(&world->names[ask->names[i]], -1);
    }
    model_unlock();
}

void model_abandon(const struct ask *ask)
{
    model_lock();
    for (size_t i = 0; i < ask->count; i++) {
        struct name *name = &world->names[ask->names[i]];
        name_asks(name, -1);
        name_linger(name, now_ns() + 3000 * NS_PER_MS);
    }
    model_unlock();
}
