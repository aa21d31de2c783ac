/* SPDX-License-Identifier: MIT */
/*
 * Calls in a row that chance alone seldom brings together: a hold that its owner enters
 * again, and leaves with one of the handles; a writer that is watched and steps down; a
 * mutex that is released while its own client waits for it.
 */
#include "storm.h"

/* ---- Entering again -------------------------------------------------------------- */

#define EXPLICIT (UINT64_C(1) << 40) /* in an owner: options.owner is the rest */

struct again {
    struct client *client;
    int name;
    uint64_t owner;
    bool detached;
};

static bool again_read(const struct held *held, struct again *ret_again)
{
    model_lock();
    const struct part *part = &world->parts[held->parts[0]];
    bool good = (part->flags & P_USED) && part->handle == held->handle &&
                part->kind == HF_REENTRANT && (part->owner & EXPLICIT) &&
                !was_adopted(part->owner);
    *ret_again =
        (struct again){ held->client, part->name, part->owner, part->claim_detached };
    model_unlock();
    return good;
}

/* Rather one that is detached. */
static bool again_pick(struct rng *rng, struct again *ret_again)
{
    bool any = false;
    for (int i = 0; i < 12 && !(any && ret_again->detached); i++) {
        struct held held;
        struct again again;
        if (!held_peek(rng, &held))
            return false;
        if (held.count == 1 && again_read(&held, &again)) {
            *ret_again = again;
            any = true;
        }
    }
    return any;
}

void act_enter_again(struct rng *rng)
{
    struct again again;
    struct ask ask;
    struct held held;
    bool leaves = rng_chance(rng, 400);
    if (!again_pick(rng, &again) || !ask_plan(&ask, rng, again.client))
        return;
    ask.count = 1;
    ask.names[0] = again.name;
    ask.wants[0] = hf_want_of(world->names[again.name].text, HF_REENTRANT, 1, 1);
    ask.owner = again.owner;
    ask.options.owner = again.owner & (EXPLICIT - 1);
    ask.options.max_hold_ms = 0;
    if (again.detached) {
        ask.options.ttl_ms = 1000;
        ask.options.flags = HF_DETACHED;
    }
    if (!acquire_now(&ask, &held))
        return;
    if (leaves && again.detached)
        leave_held(rng, &held);
    else if (!held_put(&held))
        release_now(&held, "release of what was entered again");
}

/* ---- Stepping down --------------------------------------------------------------- */

static int name_of_family(struct rng *rng, enum family family)
{
    int name = (int)rng_below(rng, world->names_count);
    for (size_t i = 0; i < world->names_count; i++, name++)
        if (world->names[name % (int)world->names_count].family == family)
            return name % (int)world->names_count;
    return -1;
}

/* In bad weather others may release it meanwhile. */
void act_step_down(struct rng *rng)
{
    struct ask ask;
    struct held held;
    struct client *client = client_pick(rng);
    int name = name_of_family(rng, F_RW);
    bool beside = rng_chance(rng, 700), watches = rng_chance(rng, 700);
    if (!client || name < 0 || !ask_plan(&ask, rng, client))
        return;
    ask.count = 1;
    ask.names[0] = name;
    ask.wants[0] = hf_write(world->names[name].text);
    ask.options.timeout_ms = 20;
    if (!acquire_now(&ask, &held))
        return;
    if (watches)
        act_watch(&held);
    bool shared = beside && world->config.lossy && held_put(&held);
    if (shared) {
        peek_downgrade(&held);
        return;
    }
    downgrade(&held);
    verify(&held);
    if (!held_put(&held))
        release_now(&held, "release of what stepped down");
}

/* ---- Handing over ---------------------------------------------------------------- */

/* To a waiter of the same client: after an extension, or beside an eviction. */
void act_hand_over(struct rng *rng)
{
    struct ask ask;
    struct held held;
    struct client *client = client_pick(rng), *other = client_pick(rng);
    int name = name_of_family(rng, F_MUTEX);
    uint64_t choice = rng_below(rng, 3);
    if (!client || !other || name < 0 || !ask_plan(&ask, rng, client))
        return;
    ask.count = 1;
    ask.names[0] = name;
    ask.wants[0] = hf_mutex(world->names[name].text);
    ask.options.timeout_ms = 20;
    if (!acquire_now(&ask, &held))
        return;
    uint64_t token = hf_hold_token(held.handle, 0);
    mutex_await(rng, client, name);
    if (choice == 0)
        extend(&held, 1500);
    else if (choice == 1 && token)
        evict_now(other, name, token);
    release_now(&held, "release to a waiter");
}
