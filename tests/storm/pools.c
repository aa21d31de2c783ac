/* SPDX-License-Identifier: MIT */
/*
 * What a worker has: holds, ops, watches, and handles that it used to have.
 *
 * Under the process's mutex, which is never held over a call of the library. A thread
 * that does something with a hold takes it out of the pool first, so that the model's
 * word about it is exact; act_peek() alone uses a hold that others may be releasing.
 * Records that callbacks come back to are used again as late as possible: a call that
 * comes twice, or too late, still meets its own record.
 */
#include <string.h>

#include "storm.h"

bool held_put(const struct held *held)
{
    pthread_mutex_lock(&self->mutex);
    bool room = self->helds_count < HELDS_MAX;
    if (room)
        self->helds[self->helds_count++] = *held;
    pthread_mutex_unlock(&self->mutex);
    return room;
}

bool held_take(struct rng *rng, struct held *ret_held)
{
    uint64_t choice = rng_next(rng);
    pthread_mutex_lock(&self->mutex);
    bool any = self->helds_count > 0;
    if (any) {
        struct held *held = &self->helds[choice % self->helds_count];
        *ret_held = *held;
        *held = self->helds[--self->helds_count];
    }
    pthread_mutex_unlock(&self->mutex);
    return any;
}

bool held_peek(struct rng *rng, struct held *ret_held)
{
    uint64_t choice = rng_next(rng);
    pthread_mutex_lock(&self->mutex);
    bool any = self->helds_count > 0;
    if (any)
        *ret_held = self->helds[choice % self->helds_count];
    pthread_mutex_unlock(&self->mutex);
    return any;
}

void stale_put(const struct held *held)
{
    pthread_mutex_lock(&self->mutex);
    self->stale[self->stale_at++ % STALE_MAX] =
        (struct stale){ held->handle, held->client };
    pthread_mutex_unlock(&self->mutex);
}

bool stale_peek(struct rng *rng, struct stale *ret_stale)
{
    uint64_t choice = rng_next(rng);
    pthread_mutex_lock(&self->mutex);
    uint32_t count = self->stale_at < STALE_MAX ? self->stale_at : STALE_MAX;
    if (count > 0)
        *ret_stale = self->stale[choice % count];
    pthread_mutex_unlock(&self->mutex);
    return count > 0;
}

/* ---- Ops ------------------------------------------------------------------------- */

struct op *op_new(enum op_what what, int refs)
{
    struct op *found = NULL;
    pthread_mutex_lock(&self->mutex);
    for (uint32_t tried = 0; !found && tried < OPS_MAX; tried++) {
        struct op *op = &self->ops[self->ops_at++ % OPS_MAX];
        if (atomic_load(&op->state) == OP_FREE)
            found = op;
    }
    if (found) {
        found->serial++;
        found->what = what;
        found->by_callback = false;
        found->handle = NULL;
        found->ask = (struct ask){ .client = NULL };
        found->farewell = (struct farewell){ .count = 0 };
        found->plan = 0;
        atomic_store(&found->cancelled, false);
        atomic_store(&found->refs, refs);
        atomic_store(&found->state, OP_STARTING);
    }
    pthread_mutex_unlock(&self->mutex);
    return found;
}

void op_unref(struct op *op)
{
    if (atomic_fetch_sub(&op->refs, 1) == 1)
        atomic_store(&op->state, OP_FREE);
}

void op_drop(struct op *op)
{
    atomic_store(&op->state, OP_FREE);
}

bool waiting_put(struct op *op)
{
    pthread_mutex_lock(&self->mutex);
    bool room = self->waiting_count < HELDS_MAX;
    if (room)
        self->waiting[self->waiting_count++] = op;
    pthread_mutex_unlock(&self->mutex);
    return room;
}

struct op *waiting_take(struct rng *rng)
{
    uint64_t choice = rng_next(rng);
    struct op *op = NULL;
    pthread_mutex_lock(&self->mutex);
    if (self->waiting_count > 0) {
        struct op **at = &self->waiting[choice % self->waiting_count];
        op = *at;
        *at = self->waiting[--self->waiting_count];
    }
    pthread_mutex_unlock(&self->mutex);
    return op;
}

/* ---- Watches --------------------------------------------------------------------- */

struct watch *watch_new(const struct held *held, uint32_t *ret_slot)
{
    pthread_mutex_lock(&self->mutex);
    *ret_slot = self->watches_at++ % WATCHES_MAX;
    struct watch *watch = &self->watches[*ret_slot];
    atomic_store(&watch->lost, 0);
    atomic_store(&watch->released, false);
    watch->part = held->parts[0];
    watch->part_serial = world->parts[held->parts[0]].serial;
    watch->user_driven = held->client->user_driven;
    pthread_mutex_unlock(&self->mutex);
    return watch;
}
