/* SPDX-License-Identifier: MIT */
/*
 * Actors: each asks for locks, waits, works, lets go, and begins anew. Several share
 * one client, as the coroutines of a program do, and some share an owner of reentrant
 * locks.
 *
 * The scheduler calls actor_act() when an actor's time has come; the library calls the
 * callbacks. Every op must end exactly once, in time, and with an answer that can be;
 * no event may come for a hold that was released, and none after the one that says it
 * is lost. Calls that wait are made only where no other one is being waited for.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define SLACK_NS (300 * MS)

static void begin_acquire(struct actor *actor);

static struct client *client_of(const struct actor *actor)
{
    return sim_client(actor->client);
}

bool actor_busy(const struct actor *actor)
{
    return actor->state != ACTOR_IDLE;
}

static void rest(struct actor *actor)
{
    actor->state = ACTOR_IDLE;
    actor->next_at = sim_now + dice_spread(set.think_ns);
}

/* Around every call that may wait: meanwhile the client does nothing else. */
static void wait_begins(struct client *client, int64_t *began)
{
    client->blocked = true;
    *began = sim_now;
    trace(EVENT_BLOCK, client->index, 0, 0, 0);
}

static void wait_ended(struct client *client, int64_t began)
{
    client->blocked = false;
    client->stalled += sim_now - began;
    oracle_check();
}

static bool may_wait(const struct actor *actor)
{
    return !sim_nested() && !actor->in_call;
}

/* ---- letting go ------------------------------------------------------------------ */

static void check_released(const struct actor *actor, int rc)
{
    trace(EVENT_RELEASED, actor->client, actor->index, (uint64_t)rc, 0);
    count.lost += rc == HF_ELOST;
    bool known = rc == 0 || rc == HF_ELOST || rc == HF_ECLOSED ||
                 (rc == HF_EUNCERTAIN && set.store != SIM_MEM);
    if (!known)
        violation("a release answered %s", hf_error_name(rc));
}

static void released(void *user, int rc, const hf_error *why)
{
    struct actor *actor = user;
    (void)why;
    if (actor->state != ACTOR_LEAVING) {
        violation("a release of client %d ended twice", actor->client);
        return;
    }
    check_released(actor, rc);
    rest(actor);
}

static void end_beliefs(struct actor *actor)
{
    for (int i = 0; i < actor->count; i++)
        oracle_ended(&actor->parts[i]);
    actor->count = 0;
}

void actor_release(struct actor *actor, bool may_block)
{
    hf_hold *hold = actor->hold;
    struct client *client = client_of(actor);
    for (int i = 0; i < actor->count; i++)
        oracle_work(&actor->parts[i]);
    end_beliefs(actor);
    actor->hold = NULL;
    count.exposed += actor->exposed || count.faults != actor->faults_before;
    trace(EVENT_RELEASE, actor->client, actor->index, may_block, 0);
    actor->state = ACTOR_LEAVING;
    if (may_block) {
        int64_t began;
        wait_begins(client, &began);
        int rc = hf_release(hold, NULL);
        wait_ended(client, began);
        check_released(actor, rc);
        rest(actor);
        return;
    }
    int rc = hf_release_async(hold, released, actor, NULL);
    if (rc != 0)
        violation("hf_release_async answered %s", hf_error_name(rc));
}

/* ---- being told ------------------------------------------------------------------ */

static void told(void *user, hf_hold *hold, enum hf_event event, const hf_error *why)
{
    struct actor *actor = user;
    (void)why;
    trace(EVENT_EVENT, actor->client, actor->index, event, 0);
    if (actor->hold != hold || actor->state != ACTOR_HOLDING) {
        violation("client %d was told of a hold it had released", actor->client);
        return;
    }
    if (actor->told_lost)
        violation("client %d was told event %d after the hold was lost", actor->client,
                  (int)event);
    if (event != HF_EVENT_LOST)
        return;
    actor->told_lost = true;
    if (hf_hold_state(hold) != HF_LOST)
        violation("client %d was told that a hold is lost which is not", actor->client);
    if (dice_chance(500))
        actor->next_at = actor->release_at = sim_now;
}

static bool may_end_so(const struct actor *actor, int rc)
{
    if (rc == 0 || rc == HF_ECLOSED)
        return true;
    if (rc == HF_EBUSY)
        return actor->once;
    if (rc == HF_ETIMEOUT)
        return !actor->once && actor->timeout_ns != NEVER;
    if (rc == HF_ECANCELLED)
        return actor->cancelled;
    if (rc == HF_ELOST)
        return !actor->latch;
    return set.store != SIM_MEM && (rc == HF_EUNCERTAIN || rc == HF_EUNREACHABLE);
}

static void check_end(const struct actor *actor, int rc)
{
    const struct client *client = client_of(actor);
    int64_t request = set.request_ms * MS;
    trace(EVENT_END, actor->client, actor->index, (uint64_t)rc, 0);
    count.ended++;
    if (!may_end_so(actor, rc))
        violation("an acquire of client %d ended with %s", actor->client,
                  hf_error_name(rc));
    if (actor->timeout_ns == NEVER || client->dead || rc == HF_ECLOSED)
        return;
    int64_t took = sim_now - actor->began - (client->stalled - actor->stalled_before);
    int64_t most = (actor->once ? request : actor->timeout_ns) + request;
    if (took > most + most / 50 + SLACK_NS)
        violation("an acquire of client %d took %lld ms of %lld", actor->client,
                  (long long)(took / MS), (long long)(most / MS));
}

static void take_hold(struct actor *actor, hf_hold *hold)
{
    actor->hold = hold;
    actor->state = ACTOR_HOLDING;
    actor->told_lost = actor->watched = false;
    if ((int)hf_hold_count(hold) != actor->count)
        violation("a hold of %d wants has %zu", actor->count, hf_hold_count(hold));
    for (int i = 0; i < actor->count; i++) {
        struct belief *part = &actor->parts[i];
        part->hold = hold;
        part->token = hf_hold_token(hold, (size_t)i);
        trace(EVENT_GRANT, actor->client, actor->index, (uint64_t)part->name,
              oracle_number(part->token));
        oracle_granted(part, actor->floor[i]);
    }
    oracle_check();
    count.acquisitions++;
    actor->release_at = sim_now + dice_spread(set.hold_ns);
    actor->next_at = dice_chance(500) ? sim_now + (actor->release_at - sim_now) / 2
                                      : actor->release_at;
}

/* The one end of an acquire or of a wait for the latch. */
static void ended(struct actor *actor, int rc, hf_hold *hold)
{
    if (actor->state != ACTOR_WAITING) {
        violation("an op of client %d ended twice", actor->client);
        return;
    }
    check_end(actor, rc);
    hf_op_free(actor->op);
    actor->op = NULL;
    if (actor->latch)
        objects_wait_ended(actor->latch_began, rc);
    if ((rc == 0) != (hold != NULL) && !actor->latch)
        violation("an acquire answered %d and %s hold", rc, hold ? "a" : "no");
    if (rc == 0 && !actor->latch) {
        take_hold(actor, hold);
        return;
    }
    actor->count = 0;
    rest(actor);
}

static void acquired(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct actor *actor = user;
    if ((rc != 0) != (why != NULL))
        violation("an acquire answered %d %s a reason", rc, why ? "with" : "without");
    actor->in_call = true;
    ended(actor, rc, hold);
    bool more = !client_of(actor)->closing && dice_chance(set.in_callback);
    if (more && actor->state == ACTOR_HOLDING)
        actor_release(actor, false);
    else if (more && actor->state == ACTOR_IDLE && !sim_healed())
        begin_acquire(actor);
    actor->in_call = false;
}

static void latch_done(void *user, int rc, const hf_error *why)
{
    (void)why;
    ended(user, rc, NULL);
}

/* ---- asking ---------------------------------------------------------------------- */

static hf_want draw_want(const struct name *name)
{
    static const int mutexes[] = { HF_MUTEX, HF_MUTEX, HF_REENTRANT, HF_FAIR };
    switch (name->family) {
    case FAMILY_MUTEX:
        return hf_want_of(name->text, mutexes[dice() % 4], 1, 1);
    case FAMILY_RW:
        return hf_want_of(name->text, dice_chance(300) ? HF_WRITE : HF_READ, 1, 1);
    case FAMILY_PERMITS:
        return hf_permits(name->text, (uint32_t)dice_between(1, name->limit),
                          name->limit);
    default:
        return hf_expiring(name->text, name->limit);
    }
}

static void draw_wants(struct actor *actor, hf_want *wants)
{
    int first = (int)(dice() % (uint64_t)set.names);
    actor->count = 1;
    if (set.names > 1 && dice_chance(set.multi))
        actor->count =
            (int)dice_between(2, set.names < PARTS_MAX ? set.names : PARTS_MAX);
    for (int i = 0; i < actor->count; i++) {
        int index = (first + i) % set.names;
        wants[i] = draw_want(&names[index]);
        actor->floor[i] = names[index].told;
        actor->parts[i] = (struct belief){
            .client = actor->client,
            .name = index,
            .kind = wants[i].kind,
            .permits = wants[i].permits,
            .owner = actor->owner,
        };
    }
}

static int64_t draw_timeout(struct actor *actor)
{
    int64_t timeout_ms = HF_FOREVER;
    actor->once = dice_chance(set.once);
    if (actor->once)
        timeout_ms = 0;
    else if (!dice_chance(set.forever))
        timeout_ms = 1 + dice_spread(set.hold_ns * 8 + set.delay_ns * 4) / MS;
    actor->timeout_ns = timeout_ms < 0 ? NEVER : timeout_ms * MS;
    return timeout_ms;
}

static void draw_options(struct actor *actor, hf_acquire_options *options)
{
    options->timeout_ms = draw_timeout(actor);
    options->owner = actor->owner;
    if (set.store == SIM_LEASE ? dice_chance(800) : dice_chance(400))
        options->ttl_ms = set.ttl_ms;
    if (options->ttl_ms && dice_chance(100))
        options->ttl_ms = 1 + dice_spread(set.ttl_ms);
    if (options->ttl_ms > set.ttl_most_ms)
        options->ttl_ms = set.ttl_most_ms;
    if (options->ttl_ms && dice_chance(set.fixed))
        options->flags = HF_FIXED;
    if (dice_chance(set.capped))
        options->max_hold_ms = 1 + dice_spread(set.hold_ns * 2) / MS;
}

static void note_begin(struct actor *actor, bool latch)
{
    actor->began = actor->latch_began = sim_now;
    actor->latch = latch;
    actor->cancelled = false;
    actor->stalled_before = client_of(actor)->stalled;
    actor->faults_before = count.faults;
    actor->exposed = nemesis_is_at_it();
    actor->state = ACTOR_WAITING;
}

static void plan_next(struct actor *actor)
{
    actor->next_at = NEVER;
    if (dice_chance(set.cancel))
        actor->next_at = sim_now + dice_spread(set.hold_ns);
    if (actor->poll)
        actor->next_at = sim_now + MS;
}

static void begin_acquire(struct actor *actor)
{
    hf_want wants[PARTS_MAX];
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_error why;
    struct client *client = client_of(actor);
    draw_wants(actor, wants);
    draw_options(actor, &options);
    note_begin(actor, false);
    trace(actor->count > 1 ? EVENT_ASK_MULTI : EVENT_ASK, actor->client, actor->index,
          (uint64_t)actor->parts[0].name << 8 | (uint64_t)actor->parts[0].kind,
          (uint64_t)options.timeout_ms);
    /* Never without end: its own client's others cannot let go meanwhile. */
    if (options.timeout_ms >= 0 && dice_chance(set.blocking) && may_wait(actor)) {
        int64_t began;
        hf_hold *hold = NULL;
        actor->poll = false;
        wait_begins(client, &began);
        int rc = hf_acquire(client->handle, wants, (size_t)actor->count, &options,
                            &hold, &why);
        wait_ended(client, began);
        ended(actor, rc, hold);
        return;
    }
    actor->poll = dice_chance(set.poll);
    int rc = hf_acquire_async(client->handle, wants, (size_t)actor->count, &options,
                              actor->poll ? NULL : acquired, actor, &actor->op, &why);
    if (rc != 0) {
        violation("hf_acquire_async answered %s: %s", hf_error_name(rc), why.text);
        return;
    }
    plan_next(actor);
}

static void begin_latch(struct actor *actor)
{
    struct client *client = client_of(actor);
    int64_t timeout_ms = draw_timeout(actor);
    note_begin(actor, true);
    actor->count = 0;
    actor->poll = false;
    trace(EVENT_ASK, actor->client, actor->index, HF_LATCH, (uint64_t)timeout_ms);
    int rc = hf_latch_wait_async(client->handle, objects_latch, timeout_ms, latch_done,
                                 actor, &actor->op, NULL);
    if (rc != 0)
        violation("hf_latch_wait_async answered %s", hf_error_name(rc));
    plan_next(actor);
}

/* ---- what an actor does next ----------------------------------------------------- */

static void act_idle(struct actor *actor)
{
    struct client *client = client_of(actor);
    int64_t began;
    if (sim_healed()) {
        actor->next_at = NEVER;
        return;
    }
    if (dice_chance(set.objects) && may_wait(actor)) {
        if (dice_chance(300)) {
            begin_latch(actor);
            return;
        }
        wait_begins(client, &began);
        objects_act(actor->client, client->handle);
        wait_ended(client, began);
        rest(actor);
        return;
    }
    if (dice_chance(set.reopen) && may_wait(actor)) {
        client_close(client);
        client_open(client);
        return;
    }
    begin_acquire(actor);
}

static void act_waiting(struct actor *actor)
{
    if (actor->poll && hf_op_done(actor->op)) {
        hf_hold *hold = NULL;
        int rc = hf_op_wait(actor->op, 0, &hold, NULL);
        ended(actor, rc, hold);
        return;
    }
    bool cancel = !actor->poll || dice_chance(set.cancel / 8);
    if (cancel && !actor->cancelled) {
        actor->cancelled = true;
        trace(EVENT_CANCEL, actor->client, actor->index, 0, 0);
        hf_op_cancel(actor->op);
    } else if (cancel && dice_chance(300)) {
        trace(EVENT_DROP, actor->client, actor->index, 0, 0);
        hf_op_free(actor->op);
        actor->op = NULL;
        if (actor->poll) {
            actor->count = 0;
            rest(actor);
            return;
        }
    }
    actor->next_at = actor->poll ? sim_now + dice_between(1, 5) * MS : NEVER;
}

static void ask_about(struct actor *actor)
{
    struct client *client = client_of(actor);
    int64_t began;
    int rc, what = (int)(dice() % 3);
    wait_begins(client, &began);
    if (what == 0) {
        rc = hf_hold_verify(actor->hold, NULL);
        trace(EVENT_VERIFY, actor->client, actor->index, (uint64_t)rc, 0);
    } else if (what == 1) {
        rc = hf_hold_extend(actor->hold, set.ttl_ms, NULL);
        trace(EVENT_EXTEND, actor->client, actor->index, (uint64_t)rc, 0);
    } else {
        int index = (int)(dice() % (uint64_t)actor->count);
        if (actor->parts[index].kind == HF_WRITE) {
            actor->parts[index].kind = HF_READ; /* from now on others may come in */
            rc = hf_hold_downgrade(actor->hold, (size_t)index, NULL);
            trace(EVENT_DOWNGRADE, actor->client, actor->index, (uint64_t)rc, 0);
        }
    }
    wait_ended(client, began);
}

static void act_holding(struct actor *actor)
{
    if (!actor->watched && dice_chance(set.watch)) {
        actor->watched = true;
        trace(EVENT_WATCH, actor->client, actor->index, 0, 0);
        int rc = hf_hold_watch(actor->hold, told, actor, NULL);
        if (rc != 0)
            violation("hf_hold_watch answered %s", hf_error_name(rc));
    }
    if (sim_now < actor->release_at && !sim_healed()) {
        actor->next_at = actor->release_at;
        for (int i = 0; i < actor->count; i++)
            oracle_work(&actor->parts[i]);
        if (dice_chance(set.blocking) && may_wait(actor))
            ask_about(actor);
        return;
    }
    actor_release(actor, dice_chance(set.blocking) && may_wait(actor));
}

void actor_act(struct actor *actor)
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

/* Its process is no more, or its client is closed: it holds nothing. */
void actor_tell_lost(struct actor *actor)
{
    end_beliefs(actor);
}
