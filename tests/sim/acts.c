/* SPDX-License-Identifier: MIT */
/*
 * What an actor does when its time has come, on its own thread: ask for something, look
 * after what it has asked for, or do something with what it holds.
 */
#include "sim.h"

#include <string.h>

/* ---- idle ------------------------------------------------------------------------ */

static void act_idle(struct actor *actor)
{
    struct client *client = client_of(actor);
    if (sim_healed()) {
        actor->next_at = NEVER;
        return;
    }
    if (dice_chance(set.renew_thread)) {
        trace(EVENT_THREAD, actor->client, actor->index, 0, 0);
        actor->new_thread = true; /* this one ends, and another one takes its place */
        actor_rest(actor);
        return;
    }
    if (dice_chance(set.objects)) {
        if (dice_chance(300)) {
            actor_wait_latch(actor);
            return;
        }
        objects_act(actor->client, client->handle);
        actor_rest(actor);
        return;
    }
    if (dice_chance(set.evict) && repair_evict(actor)) {
        actor_rest(actor);
        return;
    }
    if (dice_chance(set.adopt) && repair_adopt(actor))
        return;
    if (dice_chance(set.reopen)) {
        client_close(client);
        client_open(client);
        return;
    }
    actor_acquire(actor);
}

/* ---- waiting --------------------------------------------------------------------- */

/* Takes the result if it is there; else it waits for it, for some time. The op may end
 * right after the wait for it was over: its result is there to be taken then. */
static void poll_op(struct actor *actor, int64_t timeout_ms)
{
    hf_hold *hold = NULL;
    int rc = hf_op_wait(actor->op, timeout_ms, &hold, NULL), late;
    if (rc == HF_ETIMEOUT && !hf_op_done(actor->op))
        return;
    if (rc == HF_ETIMEOUT &&
        (late = hf_op_wait(actor->op, 0, &hold, NULL)) != HF_EINVAL)
        rc = late;
    actor_ended(actor, rc, hold);
}

static void drop_op(struct actor *actor, hf_op *op)
{
    trace(EVENT_DROP, actor->client, actor->index, 0, 0);
    actor->op = NULL;
    hf_op_free(op);
    if (actor->poll) {
        actor->count = 0;
        actor->round++;
        actor_rest(actor);
    }
}

/* A callback may end the op at any moment: then it is not ours to look after. */
static void act_waiting(struct actor *actor)
{
    uint64_t round = actor->round;
    actor->next_at = NEVER;
    if (actor->poll && (hf_op_done(actor->op) || dice_chance(set.blocking)))
        poll_op(actor, dice_between(0, 3));
    if (actor->round != round)
        return;
    bool cancel = actor->op && (!actor->poll || dice_chance(set.cancel / 8));
    if (cancel && !actor->cancelled) {
        actor->cancelled = true;
        trace(EVENT_CANCEL, actor->client, actor->index, 0, 0);
        hf_op_cancel(actor->op);
    } else if (cancel && dice_chance(300)) {
        drop_op(actor, actor->op);
    }
    if (actor->round == round && actor->poll)
        actor->next_at = sim_now + dice_between(1, 5) * MS;
}

/* ---- holding --------------------------------------------------------------------- */

static void verify(struct actor *actor)
{
    bool gone = false;
    for (int i = 0; i < actor->count; i++)
        gone |= actor->parts[i].gone;
    int rc = hf_hold_verify(actor->hold, NULL);
    trace(EVENT_VERIFY, actor->client, actor->index, (uint64_t)rc, 0);
    if (rc == 0 && gone)
        violation("client %d verified a hold that it does not have", actor->client);
}

/* The lease is what was asked for, from a moment during the call on. */
static void check_extended(struct actor *actor, int64_t ttl_ms, int64_t took)
{
    thread_guard(true);
    int64_t left = hf_hold_left_ms(actor->hold) * MS, ttl = ttl_ms * MS;
    bool shared = actor->count != 1 || actor->parts[0].kind == HF_REENTRANT;
    if (!shared && oracle_alive(&actor->parts[0]) &&
        (left > ttl || left < ttl - ttl / 50 - took - took / 50 - 2 * MS))
        violation("client %d has extended its lease to %lld ms and has %lld",
                  actor->client, (long long)ttl_ms, (long long)(left / MS));
    if (!shared && (actor->asked_flags & HF_FIXED))
        actor->parts[0].dies_at = sim_now + ttl + ttl / 100 + MS;
    thread_guard(false);
}

static void extend(struct actor *actor)
{
    int64_t began = sim_now, ttl_ms = 1 + dice_spread(set.ttl_ms) / 2;
    if (ttl_ms > set.ttl_most_ms)
        ttl_ms = set.ttl_most_ms;
    for (int i = 0; i < actor->count; i++)
        oracle_extended(&actor->parts[i]);
    int rc = hf_hold_extend(actor->hold, ttl_ms, NULL);
    trace(EVENT_EXTEND, actor->client, actor->index, (uint64_t)rc, 0);
    if (rc == 0 && actor->count)
        check_extended(actor, ttl_ms, sim_now - began);
}

static void ask_about(struct actor *actor)
{
    int rc, what = (int)(dice() % 3);
    if (what == 0) {
        verify(actor);
    } else if (what == 1) {
        extend(actor);
    } else if (actor->count) {
        int index = (int)(dice() % (uint64_t)actor->count);
        if (actor->parts[index].kind != HF_WRITE || actor->posted)
            return; /* an id that was posted says what kind it was */
        actor->parts[index].kind = HF_READ; /* from now on others may come in */
        rc = hf_hold_downgrade(actor->hold, (size_t)index, NULL);
        trace(EVENT_DOWNGRADE, actor->client, actor->index, (uint64_t)rc, 0);
    }
}

/* Whether it is to come in, a reentrant lock is asked for once more. */
static void check_again(struct actor *actor, const struct belief *again, int rc,
                        bool was_alive)
{
    const struct belief *part = &actor->parts[0];
    trace(EVENT_AGAIN, actor->client, actor->index, (uint64_t)rc, 0);
    bool alive = was_alive && actor->count && oracle_alive(&actor->parts[0]) &&
                 !oracle_is_gone(part);
    bool owns = again->owner == part->owner;
    if (alive && owns && (rc != 0 || again->token != part->token))
        violation("client %d could not enter its lock again: %s", actor->client,
                  hf_error_name(rc));
    if (alive && !owns && rc == 0)
        violation("client %d entered a lock that another owner holds", actor->client);
}

static void enter_again(struct actor *actor)
{
    const struct belief *part = &actor->parts[0];
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    struct belief again = *part;
    uint64_t floor = names[part->name].told;
    hf_want want = hf_reentrant(names[part->name].text);
    hf_hold *hold = NULL;
    bool was_alive = oracle_alive(&actor->parts[0]);
    options.owner = actor->owner;
    options.timeout_ms = dice_chance(500) ? 0 : dice_between(1, 3);
    if (dice_chance(set.leased))
        options.ttl_ms = set.ttl_ms;
    if (options.ttl_ms && dice_chance(set.leave))
        options.flags = HF_DETACHED;
    again.closes = client_of(actor)->closes;
    again.owner = actor->owner ? actor->owner : BY_THREAD | thread_serial();
    int rc = hf_acquire(client_of(actor)->handle, &want, 1, &options, &hold, NULL);
    thread_guard(true);
    again.hold = hold;
    again.token = rc == 0 ? hf_hold_token(hold, 0) : 0;
    again.for_good = again.for_good && again.token == part->token;
    again.dies_at = NEVER;
    check_again(actor, &again, rc, was_alive);
    if (rc == 0)
        oracle_granted(&again, floor);
    thread_guard(false);
    if (rc != 0)
        return;
    count.acquisitions++;
    thread_nap(dice_spread(set.hold_ns / 4));
    /* Another actor of the same owner may have taken it first, detached. */
    bool plain = !actor->owner && !(actor->asked_flags & HF_DETACHED);
    if (options.flags && plain && again.token == part->token &&
        hf_hold_leave(hold, NULL) == 0)
        violation("client %d left a hold behind that is not detached", actor->client);
    oracle_ended(&again);
    rc = hf_release(hold, NULL);
    if (rc != 0 && rc != HF_ELOST && rc != HF_ECLOSED && set.store == SIM_MEM)
        violation("a release answered %s", hf_error_name(rc));
}

static void set_watch(struct actor *actor)
{
    actor->watched = true;
    trace(EVENT_WATCH, actor->client, actor->index, 0, 0);
    int rc = hf_hold_watch(actor->hold, actor_told, actor, NULL);
    if (rc != 0 && !(rc == HF_ECLOSED && actor_was_closed(actor)))
        violation("hf_hold_watch answered %s", hf_error_name(rc));
}

static void act_holding(struct actor *actor)
{
    actor->next_at = NEVER;
    if (!actor->watched && dice_chance(set.watch))
        set_watch(actor);
    if (sim_now < actor->release_at && !sim_healed()) {
        for (int i = 0; i < actor->count; i++)
            oracle_work(&actor->parts[i]);
        if (actor->count == 1 && actor->parts[0].kind == HF_REENTRANT &&
            dice_chance(set.again))
            enter_again(actor);
        if (dice_chance(set.adopt))
            repair_post(actor);
        if (dice_chance(set.blocking))
            ask_about(actor);
        actor->next_at = actor->release_at;
        return;
    }
    bool shared = false;
    for (int i = 0; i < actor->count; i++)
        shared |= actor->parts[i].kind == HF_REENTRANT && actor->owner;
    if ((actor->asked_flags & HF_DETACHED) && !shared && dice_chance(500))
        repair_leave(actor);
    else
        actor_release(actor, dice_chance(set.blocking));
}

/* ---- the thread ------------------------------------------------------------------ */

static void act(struct actor *actor)
{
    if (actor->state == ACTOR_IDLE)
        act_idle(actor);
    else if (actor->state == ACTOR_WAITING)
        act_waiting(actor);
    else if (actor->state == ACTOR_HOLDING)
        act_holding(actor);
    else
        actor->next_at = NEVER;
}

void actor_act(void *arg)
{
    struct actor *actor = arg;
    act(actor);
    hf_op_free(actor->spent);
    actor->spent = NULL;
    if (client_of(actor)->dead && actor->hold) {
        hf_release(actor->hold, NULL); /* a killed process, tidied up after the seed */
        actor->hold = NULL;
        actor->state = ACTOR_IDLE;
    }
    actor->busy = false;
}
