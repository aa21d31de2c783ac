/* SPDX-License-Identifier: MIT */
/*
 * Acquire, in every way there is: hf_acquire, hf_lock, hf_acquire_async with a callback
 * or with hf_op_wait; cancelled, freed, or let be.
 *
 * Timeouts are short, so that seats which hold something never wait for each other for
 * long; HF_FOREVER is for ops that are cancelled in the end.
 */
#include <stdio.h>
#include <string.h>

#include "../../src/base/text.h"
#include "storm.h"

/* ---- What to ask for ------------------------------------------------------------- */

static int kind_pick(struct rng *rng, enum family family)
{
    switch (family) {
    case F_RW:
        return rng_chance(rng, 500) ? HF_READ : HF_WRITE;
    case F_PERMITS:
        return HF_PERMITS;
    case F_EXPIRING:
        return HF_EXPIRING;
    default: {
        static const int kinds[] = { HF_MUTEX, HF_REENTRANT, HF_REENTRANT, HF_FAIR };
        return kinds[rng_below(rng, 4)];
    }
    }
}

static enum family family_pick(struct rng *rng, const struct name *name)
{
    static const enum family others[] = { F_MUTEX, F_RW, F_PERMITS, F_EXPIRING };
    uint64_t other = rng_below(rng, 4);
    bool foreign = rng_chance(rng, 100);
    return name->mixed && foreign ? others[other] : name->family;
}

/* What the store lacks is asked for now and then only. */
static int kind_suited(struct rng *rng, int kind)
{
    bool try_it = rng_chance(rng, 30);
    if (try_it)
        return kind;
    if (kind == HF_FAIR && !(world->caps & HF_CAP_FAIR))
        return HF_MUTEX;
    if (kind >= HF_READ && kind <= HF_WRITE && !(world->caps & HF_CAP_RW))
        return HF_MUTEX;
    if (kind == HF_PERMITS && !(world->caps & HF_CAP_PERMITS))
        return HF_MUTEX;
    return kind == HF_EXPIRING && !(world->caps & HF_CAP_EXPIRING) ? HF_MUTEX : kind;
}

static void want_fill(struct ask *ask, size_t index, struct rng *rng)
{
    struct name *name = &world->names[ask->names[index]];
    int kind = kind_suited(rng, kind_pick(rng, family_pick(rng, name)));
    uint32_t permits = 1 + (uint32_t)rng_below(rng, name->limit);
    bool other_limit = rng_chance(rng, 20);
    hf_want want = hf_want_of(name->text, kind, 1, 1);
    if (kind == HF_PERMITS)
        want = hf_permits(name->text, permits, name->limit);
    else if (kind == HF_EXPIRING)
        want = hf_expiring(name->text, name->limit);
    if (other_limit && name->mixed && kind == HF_PERMITS)
        want.limit++;
    ask->wants[index] = want;
}

/* A part of a striped lock, through its key. */
static void want_stripe(struct ask *ask, struct rng *rng)
{
    const struct name *name = &world->names[ask->names[0]];
    char text[HF_NAME_MAX + 1];
    snprintf(ask->key, sizeof ask->key, "key%u", (unsigned)rng_below(rng, 50));
    uint32_t part = hf__text_hash(ask->key, strlen(ask->key)) % name->stripes;
    snprintf(text, sizeof text, "%.900s#%u", name->base, part);
    int found = name_find(text);
    if (found < 0)
        return;
    ask->wants[0] = hf_striped(name->base, ask->key, name->stripes);
    ask->names[0] = found;
}

static void options_fill(struct ask *ask, struct rng *rng)
{
    static const int64_t timeouts[] = { 0, 0, 0, 0, 1, 2, 5, 10, 20 };
    static const int64_t long_timeouts[] = { 50, 150, 1200 };
    static const int64_t leases[] = { 60, 150, 300, 1000, 2500 };
    hf_acquire_options *options = &ask->options;
    *options = (hf_acquire_options)HF_ACQUIRE_OPTIONS_INIT;
    options->timeout_ms = timeouts[rng_below(rng, 9)];
    if (rng_chance(rng, 25))
        options->timeout_ms = long_timeouts[rng_below(rng, 3)];
    bool leased = rng_chance(rng, 250);
    uint64_t lease = rng_below(rng, 5);
    bool fixed = rng_chance(rng, 300), detached = rng_chance(rng, 400);
    bool capped = rng_chance(rng, 30), noted = rng_chance(rng, 50);
    if (leased && (world->caps & HF_CAP_LEASE)) {
        options->ttl_ms = leases[lease];
        options->flags |= fixed ? HF_FIXED : 0;
        if (detached && (world->caps & HF_CAP_DETACH))
            options->flags |= HF_DETACHED;
    }
    if (capped && (world->caps & HF_CAP_LEASE))
        options->max_hold_ms = leases[4 - lease];
    if (noted)
        options->note = "a note";
    options->owner = rng_chance(rng, 400) ? 1 + rng_below(rng, 3) : 0;
}

static bool is_lockable(int name)
{
    return world->names[name].family < F_LATCH || world->names[name].mixed;
}

static bool name_pick(struct ask *ask, struct rng *rng)
{
    int name = (int)rng_below(rng, world->names_count);
    for (size_t i = 0; i < ask->count; i++)
        if (ask->names[i] == name)
            return false;
    if (!is_lockable(name))
        return false;
    ask->names[ask->count++] = name;
    return true;
}

bool ask_plan(struct ask *ask, struct rng *rng, struct client *client)
{
    uint64_t wanted = rng_chance(rng, 80) ? 2 + rng_below(rng, WANTS_MAX - 1) : 1;
    *ask = (struct ask){ .client = client, .client_serial = client->serial };
    for (int tries = 0; ask->count < wanted && tries < 8; tries++)
        name_pick(ask, rng);
    if (ask->count == 0)
        return false;
    for (size_t i = 0; i < ask->count; i++)
        want_fill(ask, i, rng);
    bool striped = rng_chance(rng, 500);
    if (ask->count == 1 && striped && world->names[ask->names[0]].stripes)
        want_stripe(ask, rng);
    options_fill(ask, rng);
    if (!seat_now && !ask->options.owner)
        ask->options.owner = 4; /* a callback's thread is no owner to rely on */
    uint64_t who = ask->options.owner ? UINT64_C(1) << 40 | ask->options.owner
                                      : seat_now->thread_serial;
    ask->owner = client->serial << 42 | who;
    return true;
}

/* ---- The blocking calls ---------------------------------------------------------- */

static void answered(struct ask *ask, int rc, hf_hold *handle, const char *how,
                     struct held *ret_held)
{
    event("%s %.30s%s kind %d owner %llx: %s, token %llu", how,
          world->names[ask->names[0]].text, ask->count > 1 ? "+" : "",
          ask->wants[0].kind, (unsigned long long)ask->owner, code_name(rc),
          (unsigned long long)(rc == 0 ? hf_hold_token(handle, 0) : 0));
    model_answer(ask, rc, handle, ret_held);
}

static void granted(struct ask *ask, int rc, hf_hold *handle, const char *how)
{
    struct held held;
    answered(ask, rc, handle, how, &held);
    if (rc == 0 && !held_put(&held))
        release_now(&held, "release of what there is no room for");
}

static void ask_show(const struct ask *ask)
{
    event("acquire %.30s%s kind %d, timeout %d, ttl %d, flags %u, owner %llx client %d",
          world->names[ask->names[0]].text, ask->count > 1 ? "+" : "",
          ask->wants[0].kind, (int)ask->options.timeout_ms, (int)ask->options.ttl_ms,
          ask->options.flags, (unsigned long long)ask->owner, (int)ask->client_serial);
}

bool acquire_now(struct ask *ask, struct held *ret_held)
{
    hf_error why;
    hf_hold *handle = NULL;
    ask->blocking = true;
    ask_show(ask);
    model_ask(ask);
    int rc = CALL(acquire, ask->client->handle, ask->wants, ask->count, &ask->options,
                  &handle, &why);
    answered(ask, rc, handle, "acquired", ret_held);
    return rc == 0;
}

void act_acquire(struct rng *rng)
{
    struct ask ask;
    hf_error why;
    hf_hold *handle = NULL;
    struct client *client = client_pick(rng);
    if (!client || !ask_plan(&ask, rng, client))
        return;
    bool lock = ask.count == 1 && ask.wants[0].kind == HF_MUTEX &&
                !ask.wants[0].stripes && rng_chance(rng, 300);
    if (lock)
        ask.options = (hf_acquire_options){ .timeout_ms = ask.options.timeout_ms };
    ask.blocking = true;
    ask_show(&ask);
    model_ask(&ask);
    int rc = lock ? CALL(lock, client->handle, ask.wants[0].name,
                         ask.options.timeout_ms, &handle, &why)
                  : CALL(acquire, client->handle, ask.wants, ask.count, &ask.options,
                         &handle, &why);
    granted(&ask, rc, handle, "acquired");
}

/* ---- Without waiting ------------------------------------------------------------- */

static void op_told(void *user, int rc, hf_hold *handle, const hf_error *why)
{
    struct op *op = user;
    (void)why;
    if (atomic_exchange(&op->state, OP_ENDED) == OP_ENDED)
        violation(9, "the end of an acquire is told twice");
    if ((rc == 0) != (handle != NULL))
        violation(9, "an acquire is told %s with%s a hold", code_name(rc),
                  handle ? "" : "out");
    struct client *client = op->ask.client;
    uint64_t plan = op->plan;
    in_callback++;
    op->ask.cancelled = atomic_load(&op->cancelled);
    if (rc == 0 && plan % 8 == 0) { /* given back inside the callback */
        struct held held;
        model_answer(&op->ask, rc, handle, &held);
        release_now(&held, "release inside a callback");
    } else {
        granted(&op->ask, rc, handle, "callback");
    }
    callback_plays(client, plan);
    in_callback--;
    op_unref(op);
}

/* True: it is under way. */
static bool op_start(struct op *op, struct client *client, bool keeps)
{
    hf_error why;
    model_ask(&op->ask);
    int rc = CALL(acquire_async, client->handle, op->ask.wants, op->ask.count,
                  &op->ask.options, op->by_callback ? op_told : NULL, op,
                  keeps ? &op->handle : NULL, &why);
    enum op_state starting = OP_STARTING;
    if (rc == 0 && (keeps || atomic_load(&op->refs) > 0))
        atomic_compare_exchange_strong(&op->state, &starting, OP_RUNNING);
    if (rc == 0)
        return true;
    granted(&op->ask, rc, NULL, "acquire_async");
    op_drop(op);
    return false;
}

static void op_show(const struct op *op)
{
    event("acquire_async %.30s%s kind %d timeout %d, ttl %d, flags %u, %s",
          op->ask.wants[0].name, op->ask.count > 1 ? "+" : "", op->ask.wants[0].kind,
          (int)op->ask.options.timeout_ms, (int)op->ask.options.ttl_ms,
          op->ask.options.flags, op->by_callback ? "callback" : "wait");
}

void mutex_await(struct rng *rng, struct client *client, int name)
{
    struct op *op = op_new(OP_ACQUIRE, 1);
    if (!op)
        return;
    if (!ask_plan(&op->ask, rng, client)) {
        op_drop(op);
        return;
    }
    op->ask.count = 1;
    op->ask.names[0] = name;
    op->ask.wants[0] = hf_mutex(world->names[name].text);
    op->ask.options.timeout_ms = 50;
    op_show(op);
    if (op_start(op, client, true) && !waiting_put(op))
        op_finish(op);
}

void act_acquire_async(struct rng *rng)
{
    struct client *client = client_pick(rng);
    bool by_callback = rng_chance(rng, 500);
    bool keeps = !by_callback || rng_chance(rng, 300);
    struct op *op = client ? op_new(OP_ACQUIRE, by_callback + keeps) : NULL;
    if (!op)
        return;
    if (!ask_plan(&op->ask, rng, client)) {
        op_drop(op);
        return;
    }
    op->by_callback = by_callback;
    op->plan = rng_next(rng);
    if (keeps && rng_chance(rng, 100))
        op->ask.options.timeout_ms = HF_FOREVER;
    op_show(op);
    if (op_start(op, client, keeps) && keeps && !waiting_put(op))
        op_finish(op);
}
