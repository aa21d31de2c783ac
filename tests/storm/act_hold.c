/* SPDX-License-Identifier: MIT */
/*
 * What is done with a hold: release in both ways, verify, extend, downgrade, watch,
 * looks; and with handles that were released before.
 */
#include <stdio.h>
#include <stdlib.h>

#include "storm.h"

/* ---- Release --------------------------------------------------------------------- */

static void watch_over(const struct held *held)
{
    if (!held->watched)
        return;
    struct watch *watch = &self->watches[held->watch];
    atomic_store(&watch->released_ns, now_ns());
    atomic_store(&watch->released, true);
}

void release_now(struct held *held, const char *how)
{
    struct farewell farewell;
    hf_error why;
    model_release(held, &farewell);
    int rc = CALL(release, held->handle, &why);
    watch_over(held);
    event("%s of %.30s: %s, token %llu", how, world->names[farewell.name].text,
          code_name(rc), (unsigned long long)farewell.token);
    model_released(&farewell, rc, how);
    stale_put(held);
}

static void released_told(void *user, int rc, const hf_error *why)
{
    struct op *op = user;
    (void)why;
    if (atomic_exchange(&op->state, OP_ENDED) == OP_ENDED)
        violation(9, "the end of a release is told twice");
    event("release callback: %s", code_name(rc));
    model_released(&op->farewell, rc, "release_async");
    op_unref(op);
}

void release_async(struct held *held)
{
    hf_error why;
    struct op *op = op_new(OP_RELEASE, 1);
    if (!op) {
        release_now(held, "release");
        return;
    }
    op->ask.client = held->client;
    op->by_callback = true;
    model_release(held, &op->farewell);
    struct farewell farewell = op->farewell;
    enum op_state starting = OP_STARTING;
    int rc = CALL(release_async, held->handle, released_told, op, &why);
    watch_over(held);
    stale_put(held);
    event("release_async of %.30s token %llu: %s", world->names[farewell.name].text,
          (unsigned long long)farewell.token, code_name(rc));
    if (rc == 0) {
        atomic_compare_exchange_strong(&op->state, &starting, OP_RUNNING);
        return;
    }
    model_released(&farewell, rc, "release_async");
    op_drop(op);
}

void act_release(struct rng *rng)
{
    struct held held;
    bool async = rng_chance(rng, 250);
    if (!held_take(rng, &held))
        return;
    if (async)
        release_async(&held);
    else
        release_now(&held, "release");
}

/* ---- Watch ----------------------------------------------------------------------- */

/* A loss that nothing explains: no eviction, no adoption, no lease that ended. */
static bool loss_is_explained(const struct watch *watch, const hf_hold *handle)
{
    model_lock();
    const struct part *part = &world->parts[watch->part];
    bool explained = part->serial != watch->part_serial || part->leased ||
                     world->config.lossy || world->config.kills ||
                     (part->flags & (P_EXCUSED | P_RELEASING)) ||
                     hf_hold_count(handle) > 1;
    model_unlock();
    return explained;
}

static void watch_told(void *user, hf_hold *hold, enum hf_event what,
                       const hf_error *why)
{
    struct watch *watch = user;
    int64_t now = now_ns();
    (void)why;
    if (atomic_load(&watch->lost) > 0)
        violation(9, "event %d comes after HF_EVENT_LOST", (int)what);
    /* One that has begun may still be running: on another thread, for as long as the
     * machine lets it wait. */
    if (atomic_load(&watch->released) &&
        now - atomic_load(&watch->released_ns) > 2000 * NS_PER_MS)
        violation(9, "event %d comes after hf_release() has returned", (int)what);
    if (what == HF_EVENT_LOST) {
        atomic_fetch_add(&watch->lost, 1);
        if (!loss_is_explained(watch, hold))
            violation(9, "HF_EVENT_LOST for a hold that nothing has ended");
        if (hf_hold_state(hold) != HF_LOST)
            violation(9, "HF_EVENT_LOST, and the state is %d",
                      (int)hf_hold_state(hold));
    }
}

void act_watch(struct held *held)
{
    hf_error why;
    uint32_t slot;
    struct watch *watch = watch_new(held, &slot);
    if (held->watched) /* the former one is replaced, and hears no more */
        watch_over(held);
    held->watched = true;
    held->watch = slot;
    int rc = CALL(hold_watch, held->handle, watch_told, watch, &why);
    event("watch: %s", code_name(rc));
    if (rc != 0 && !(rc == HF_ECLOSED && atomic_load(&held->client->closing)))
        violation(13, "hf_hold_watch answers %s", code_name(rc));
}

static void unwatch(struct held *held)
{
    hf_error why;
    int rc = CALL(hold_watch, held->handle, NULL, NULL, &why);
    watch_over(held);
    held->watched = false;
    if (rc != 0 && !(rc == HF_ECLOSED && atomic_load(&held->client->closing)))
        violation(13, "hf_hold_watch(NULL) answers %s", code_name(rc));
}

/* ---- Verify, extend, downgrade --------------------------------------------------- */

void verify(struct held *held)
{
    hf_error why;
    struct farewell farewell;
    model_look(held, &farewell);
    int rc = CALL(hold_verify, held->handle, &why);
    event("verify: %s", code_name(rc));
    model_looked(&farewell, rc, "verify");
}

/* An extension begins (1) or ends (-1): of every handle of the grant. */
static void extend_mark(const struct held *held, int change, bool open)
{
    for (size_t i = 0; i < held->count; i++) {
        const struct part *mine = &world->parts[held->parts[i]];
        for (int j = 0; j < world->parts_end; j++) {
            struct part *part = &world->parts[j];
            if (part != mine && !parts_are_one(part, mine))
                continue;
            part->extends += change > 0;
            if (part->flags & P_LEFT)
                part->sure_until = 0; /* its lease is another one now */
            part->extending += change;
            part->lease_open |= open;
        }
    }
}

/* Returns whether another extension of the same grant is under way, or its outcome not
 * known: then the lease may be what that one asked for. */
static bool extend_begin(const struct held *held, int64_t ttl_ms, uint32_t *ret_extends)
{
    bool open = false;
    model_lock();
    extend_mark(held, 1, false);
    *ret_extends = 0;
    for (size_t i = 0; i < held->count; i++) { /* the end moves from now on */
        struct part *part = &world->parts[held->parts[i]];
        part->fixed_end = FAR;
        part->fixed = false;
        if (part->ttl_ms && part->ttl_ms < ttl_ms)
            part->ttl_ms = ttl_ms;
        part->leased |= part->ttl_ms > 0 && ttl_ms < 5000;
        *ret_extends += part->extends;
        open |= part->extending > 1 || part->lease_open;
    }
    model_unlock();
    return open;
}

static bool extend_end(const struct held *held, int rc, uint32_t extends)
{
    uint32_t now = 0;
    model_lock();
    extend_mark(held, -1, rc != 0 && rc != HF_ELOST && rc != HF_EINVAL);
    for (size_t i = 0; i < held->count; i++)
        now += world->parts[held->parts[i]].extends;
    model_unlock();
    return now != extends;
}

void extend(struct held *held, int64_t ttl_ms)
{
    hf_error why;
    struct farewell farewell;
    uint32_t extends;
    model_look(held, &farewell);
    bool open = extend_begin(held, ttl_ms, &extends);
    bool leased = world->parts[held->parts[0]].ttl_ms > 0;
    if (farewell.left_ms > ttl_ms) /* a short one may be over before the answer */
        farewell.left_ms = ttl_ms;
    int64_t began = now_ns();
    int rc = CALL(hold_extend, held->handle, ttl_ms, &why);
    int64_t left = hf_hold_left_ms(held->handle);
    int64_t took = (now_ns() - began) / NS_PER_MS;
    event("extend %d: %s, left %lld", (int)ttl_ms, code_name(rc), (long long)left);
    open |= extend_end(held, rc, extends);
    if (rc == HF_EINVAL || (rc == HF_EUNSUPPORTED && !(world->caps & HF_CAP_LEASE)))
        return; /* no lease, or past max_hold_ms */
    model_looked(&farewell, rc, "extend");
    if (open)
        return;
    if (rc == 0 && leased && (left > ttl_ms || left == HF_FOREVER))
        violation(6, "extended by %lld ms, and has %lld left", (long long)ttl_ms,
                  (long long)left);
    if (rc == 0 && !world->session_ms && held->count == 1 && left != HF_FOREVER &&
        hf_hold_state(held->handle) == HF_HELD && !world->config.lossy &&
        left < ttl_ms - ttl_ms / 50 - took - 60)
        violation(6, "extended by %lld ms, which took %lld, and has %lld left",
                  (long long)ttl_ms, (long long)took, (long long)left);
}

void downgrade(struct held *held)
{
    hf_error why;
    struct farewell farewell;
    struct part *part = &world->parts[held->parts[0]];
    struct held first = *held;
    first.count = 1; /* of several wants the others have no say in it */
    model_look(&first, &farewell);
    model_lock();
    bool writes = part->kind == HF_WRITE;
    struct grant *grant = grant_find(&world->names[part->name], part->token);
    if (writes)
        part->flags |= P_DOWNGRADING;
    if (writes && grant)
        grant->kind = HF_READ;
    model_unlock();
    int rc = CALL(hold_downgrade, held->handle, 0, &why);
    event("downgrade: %s", code_name(rc));
    model_lock();
    if (writes && rc == 0) {
        part->kind = HF_READ;
        part->token = hf_hold_token(held->handle, 0);
        part->flags = (part->flags & ~(uint32_t)P_DOWNGRADING) | P_DOWNGRADED;
    } else if (rc != HF_EUNCERTAIN && !world->config.lossy) {
        part->flags &= ~(uint32_t)P_DOWNGRADING;
    }
    model_unlock();
    bool adopted = was_adopted(part->owner); /* its id may still say: a writer */
    if ((farewell.flags & (P_DOUBTED | P_DOWNGRADING)) || (adopted && !writes))
        return;
    if (writes && (world->caps & HF_CAP_DOWNGRADE))
        model_looked(&farewell, rc, "downgrade");
    else if (rc == 0)
        violation(13, "a hold that is no writer was downgraded");
}

static void look(struct held *held)
{
    COUNTED(hold_state);
    COUNTED(hold_left_ms);
    COUNTED(hold_count);
    COUNTED(hold_token);
    size_t count = hf_hold_count(held->handle);
    uint64_t token = hf_hold_token(held->handle, 0);
    bool closing = atomic_load(&held->client->closing);
    model_lock();
    const struct part *part = &world->parts[held->parts[0]];
    if (!closing && (count != held->count || token != part->token))
        violation(13, "a hold of %zu wants with token %llu says %zu and %llu",
                  held->count, (unsigned long long)part->token, count,
                  (unsigned long long)token);
    if (hf_hold_state(held->handle) != HF_LOST &&
        now_ns() > part->fixed_end + 5 * NS_PER_MS)
        violation(6, "%.60s is held %lld ms after its end",
                  world->names[part->name].text,
                  (long long)((now_ns() - part->fixed_end) / NS_PER_MS));
    model_unlock();
}

void act_hold(struct rng *rng)
{
    static const int64_t leases[] = { 80, 400, 1500 };
    struct held held;
    uint64_t choice = rng_below(rng, 12);
    int64_t lease = leases[rng_below(rng, 3)];
    if (!held_take(rng, &held))
        return;
    if (choice < 3)
        verify(&held);
    else if (choice < 5)
        extend(&held, lease);
    else if (choice < 7)
        downgrade(&held);
    else if (choice < 9)
        act_watch(&held);
    else if (choice == 9 && held.watched)
        unwatch(&held);
    else
        look(&held);
    if (!held_put(&held))
        release_now(&held, "release");
}

/* ---- Handles that others use, or used -------------------------------------------- */

/* From now on the model does not know whether it reads or writes. */
void peek_downgrade(const struct held *held)
{
    hf_error why;
    model_lock();
    struct part *part = &world->parts[held->parts[0]];
    bool same = (part->flags & P_USED) && part->handle == held->handle;
    struct grant *grant =
        same ? grant_find(&world->names[part->name], part->token) : NULL;
    if (same)
        part->flags |= P_DOWNGRADING | P_DOUBTED;
    if (grant && part->kind == HF_WRITE)
        grant->kind = HF_READ; /* as which it may be adopted */
    model_unlock();
    int rc = same ? CALL(hold_downgrade, held->handle, 0, &why) : 0;
    event("downgrade beside others: %s", code_name(rc));
}

/* Beside whatever its owner does: nothing can be expected but that it is safe. */
void act_peek(struct rng *rng)
{
    struct held held;
    hf_error why;
    uint64_t choice = rng_below(rng, 4);
    if (!held_peek(rng, &held))
        return;
    if (choice == 0 && !getenv("STORM_NO_VERIFY")) {
        int rc = CALL(hold_verify, held.handle, &why);
        event("verify beside others: %s", code_name(rc));
    }
    if (choice == 1 && world->config.lossy) {
        peek_downgrade(&held);
        return;
    }
    for (int i = 0; i < 8 && held.count == 1; i++) /* rather one with several wants */
        held_peek(rng, &held);
    for (int i = 0; i < 400 && hf_hold_count(held.handle) > 0; i++) {
        (void)hf_hold_token(held.handle, held.count - 1);
        (void)hf_hold_state(held.handle);
        (void)hf_hold_count(held.handle);
    }
}

void act_stale(struct rng *rng)
{
    struct stale stale;
    hf_error why;
    if (!stale_peek(rng, &stale))
        return;
    bool closed = atomic_load(&stale.client->closing);
    int rc = CALL(release, stale.handle, &why);
    if (rc != HF_ERELEASED && !(closed && rc == HF_ECLOSED))
        violation(14, "a second release answers %s", code_name(rc));
    if (hf_hold_state(stale.handle) != HF_LOST || hf_hold_token(stale.handle, 0) != 0 ||
        hf_hold_count(stale.handle) != 0)
        violation(14, "a released handle says state %d, token %llu",
                  (int)hf_hold_state(stale.handle),
                  (unsigned long long)hf_hold_token(stale.handle, 0));
}
