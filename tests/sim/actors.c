/* SPDX-License-Identifier: MIT */
/*
 * Actors: each asks for locks, waits, works, lets go, and begins again. Several share
 * one client, as the threads of a program do, and some share an owner of reentrant
 * locks; the others own them by their thread.
 *
 * The scheduler runs actor_act() (acts.c) on the actor's thread when its time has come;
 * the library calls the callbacks on the thread of the loop, perhaps while the actor's
 * own is inside a call. Every op must end exactly once, in time, and with an answer
 * that can be; no event may come for a hold that was released, and none after the one
 * that says it is lost; the lease and the flags of a hold are those that were asked
 * for.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define SLACK_NS (300 * MS)

struct client *client_of(const struct actor *actor)
{
    return sim_client(actor->client);
}

bool actor_busy(const struct actor *actor)
{
    return actor->state != ACTOR_IDLE || actor->busy;
}

void actor_rest(struct actor *actor)
{
    actor->state = ACTOR_IDLE;
    actor->next_at = sim_now + dice_spread(set.think_ns);
}

/* Its client was closed since it began. */
bool actor_was_closed(const struct actor *actor)
{
    return client_of(actor)->closes != actor->closes_before;
}

/* ---- letting go ------------------------------------------------------------------ */

/* Whether it had it until the end. A hand-off does not ask the store, so that only the
 * next one hears of an eviction. */
static void check_possession(const struct actor *actor, int rc)
{
    bool fine = actor->was_fine;
    for (int i = 0; i < actor->released; i++) {
        const struct belief *part = &actor->parts[i];
        fine &= !oracle_is_evicted(part->name, part->token);
        /* Elsewhere it may be the answer to a repeat, after the hold has moved. */
        if (rc == 0 && part->kind != HF_REENTRANT && set.store == SIM_MEM)
            repair_released(part->name, part->token);
    }
    if (rc == 0 && actor->was_gone)
        violation("client %d released a hold that it did not have", actor->client);
    if (rc != 0 && fine && !actor_was_closed(actor))
        violation("client %d had a hold, and its release answered %s", actor->client,
                  hf_error_name(rc));
}

static void check_released(const struct actor *actor, int rc)
{
    trace(EVENT_RELEASED, actor->client, actor->index, (uint64_t)rc, 0);
    count.lost += rc == HF_ELOST;
    bool known = rc == 0 || rc == HF_ELOST || rc == HF_ECLOSED ||
                 (rc == HF_EUNCERTAIN && set.store != SIM_MEM);
    if (!known)
        violation("a release answered %s", hf_error_name(rc));
    check_possession(actor, rc);
}

static void note_release(struct actor *actor)
{
    actor->released = actor->count;
    bool exact = set.store == SIM_MEM; /* elsewhere an answer may be that to a repeat */
    actor->was_gone = false;
    actor->was_fine = exact && actor->count && !actor->posted;
    for (int i = 0; i < actor->count; i++) {
        actor->was_gone |= exact && actor->parts[i].gone && set.handoff == HF_OFF &&
                           actor->parts[i].kind != HF_REENTRANT;
        actor->was_fine &=
            actor->parts[i].for_good && !oracle_is_gone(&actor->parts[i]);
    }
}

static void released(void *user, int rc, const hf_error *why)
{
    struct actor *actor = user;
    (void)why;
    if (actor->state != ACTOR_LEAVING) {
        violation("a release of client %d ended twice", actor->client);
        return;
    }
    actor->leaving = NULL;
    check_released(actor, rc);
    actor_rest(actor);
}

void actor_end_beliefs(struct actor *actor)
{
    for (int i = 0; i < actor->count; i++)
        oracle_ended(&actor->parts[i]);
    actor->count = 0;
}

void actor_release(struct actor *actor, bool may_block)
{
    hf_hold *hold = actor->hold;
    for (int i = 0; i < actor->count; i++)
        oracle_work(&actor->parts[i]);
    note_release(actor);
    actor_end_beliefs(actor);
    actor->hold = NULL;
    actor->leaving = hold;
    actor->next_at = NEVER;
    count.exposed += actor->exposed || count.faults != actor->faults_before;
    trace(EVENT_RELEASE, actor->client, actor->index, may_block, 0);
    actor->state = ACTOR_LEAVING;
    if (may_block) {
        int rc = hf_release(hold, NULL);
        actor->leaving = NULL;
        check_released(actor, rc);
        actor_rest(actor);
        return;
    }
    uint64_t round = actor->round;
    int rc = hf_release_async(hold, released, actor, NULL);
    if (rc == 0)
        return;
    if (rc != HF_ECLOSED || !actor_was_closed(actor) || actor->round != round)
        violation("hf_release_async answered %s", hf_error_name(rc));
    actor->leaving = NULL;
    actor_rest(actor);
}

/* ---- being told ------------------------------------------------------------------ */

void actor_told(void *user, hf_hold *hold, enum hf_event event, const hf_error *why)
{
    struct actor *actor = user;
    (void)why;
    trace(EVENT_EVENT, actor->client, actor->index, event, 0);
    if (actor->hold != hold && actor->leaving != hold) {
        violation("client %d was told of a hold it had released", actor->client);
        return;
    }
    if (actor->told_lost)
        violation("client %d was told event %d after the hold was lost", actor->client,
                  (int)event);
    if (event != HF_EVENT_LOST)
        return;
    actor->told_lost = true;
    thread_guard(true);
    if (hf_hold_state(hold) != HF_LOST)
        violation("client %d was told that a hold is lost which is not", actor->client);
    thread_guard(false);
    if (dice_chance(500) && actor->state == ACTOR_HOLDING)
        actor->next_at = actor->release_at = sim_now;
}

static bool may_end_so(const struct actor *actor, int rc)
{
    if (rc == 0)
        return true;
    if (rc == HF_ECLOSED)
        return actor_was_closed(actor);
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
    if (actor->timeout_ns == NEVER || client->dead || actor_was_closed(actor))
        return;
    int64_t took = sim_now - actor->began - (client->stalled - actor->stalled_before);
    int64_t most = (actor->once ? request : actor->timeout_ns) + request;
    if (took > most + most / 50 + SLACK_NS)
        violation("an acquire of client %d took %lld ms of %lld", actor->client,
                  (long long)(took / MS), (long long)(most / MS));
}

/* What its lease is to be, 0 for none. */
static int64_t lease_due(const struct actor *actor)
{
    int64_t ttl_ms = actor->asked_ttl_ms;
    if (!ttl_ms && set.store == SIM_LEASE)
        ttl_ms = set.ttl_ms;
    for (int i = 0; i < actor->count; i++)
        if (!ttl_ms && actor->parts[i].kind == HF_EXPIRING)
            ttl_ms = 30000;
    if (actor->asked_max_ms && (!ttl_ms || ttl_ms > actor->asked_max_ms))
        ttl_ms = actor->asked_max_ms;
    return ttl_ms;
}

static bool is_same(const struct belief *a, const struct belief *b)
{
    return a->name == b->name && a->owner == b->owner && b->kind == HF_REENTRANT;
}

/* Another actor of the same owner may be in, or have been, and may not have told
 * yet. It may also never tell: its own acquire of several names may have given up
 * meanwhile. */
static bool may_be_entry(const struct actor *actor)
{
    for (int i = 0; actor->owner && actor->count > 1 && i < actor->count; i++)
        if (actor->parts[i].kind == HF_REENTRANT)
            return true;
    for (int i = 0; i < actor->count; i++)
        if (actor->parts[i].kind == HF_REENTRANT &&
            actor->parts[i].token <= names[actor->parts[i].name].told)
            return true;
    for (int i = 0; i < set.actors * PARTS_MAX; i++) {
        const struct actor *other = &client_of(actor)->actors[i / PARTS_MAX];
        for (int j = 0; other != actor && j < actor->count; j++)
            if (actor->parts[j].kind == HF_REENTRANT &&
                is_same(&actor->parts[j], &other->parts[i % PARTS_MAX]))
                return true;
    }
    return false;
}

/* A lock that is entered again has the lease of those who are in. */
static void check_lease(struct actor *actor, hf_hold *hold)
{
    int64_t ttl_ms = lease_due(actor), left_ms = hf_hold_left_ms(hold);
    int64_t end_ms = actor->asked_max_ms;
    if ((actor->asked_flags & HF_FIXED) && (!end_ms || ttl_ms < end_ms))
        end_ms = ttl_ms;
    if (may_be_entry(actor))
        return;
    for (int i = 0; ttl_ms == 0 && left_ms == 0 && i < actor->count; i++)
        if (actor_was_closed(actor) || oracle_is_gone(&actor->parts[i]))
            return; /* taken away before it was told */
    if (ttl_ms ? left_ms > ttl_ms || left_ms == HF_FOREVER : left_ms != HF_FOREVER)
        violation("client %d asked for a lease of %lld ms and has %lld", actor->client,
                  (long long)ttl_ms, (long long)left_ms);
    for (int i = 0; end_ms && i < actor->count; i++)
        actor->parts[i].dies_at = sim_now + end_ms * MS + end_ms * MS / 100 + MS;
    actor->parts[0].for_good = !ttl_ms && actor->count == 1;
}

void actor_take(struct actor *actor, hf_hold *hold, bool adopted)
{
    actor->hold = hold;
    actor->state = ACTOR_HOLDING;
    actor->told_lost = actor->watched = actor->posted = false;
    actor->next_at = NEVER;
    if (client_of(actor)->dead) {
        actor->count = 0;
        return;
    }
    uint64_t tokens[PARTS_MAX];
    size_t many = hf_hold_count(hold);
    for (int i = 0; i < actor->count; i++)
        tokens[i] = hf_hold_token(hold, (size_t)i);
    if (actor_was_closed(actor)) {
        actor->count = 0;
    } else if ((int)many != actor->count) {
        violation("a hold of %d wants has %zu", actor->count, many);
    }
    thread_guard(true);
    for (int i = 0; i < actor->count; i++) {
        struct belief *part = &actor->parts[i];
        part->hold = hold;
        part->token = tokens[i];
    }
    if (actor->count)
        check_lease(actor, hold);
    for (int i = 0; i < actor->count; i++) {
        struct belief *part = &actor->parts[i];
        trace(EVENT_GRANT, actor->client, actor->index, (uint64_t)part->name,
              oracle_number(part->token));
        if (adopted)
            oracle_adopted(part);
        else
            oracle_granted(part, actor->floor[i]);
    }
    oracle_check();
    thread_guard(false);
    count.acquisitions++;
    actor->release_at = sim_now + dice_spread(set.hold_ns);
    actor->next_at = dice_chance(500) ? sim_now + (actor->release_at - sim_now) / 2
                                      : actor->release_at;
}

/* Its callback may come while the actor's own thread is busy with the op. */
static void give_op(struct actor *actor)
{
    hf_op *op = actor->op;
    actor->op = NULL;
    if (actor->busy && actor->in_call)
        actor->spent = op;
    else
        hf_op_free(op);
}

/* The one end of an acquire or of a wait for the latch. */
void actor_ended(struct actor *actor, int rc, hf_hold *hold)
{
    if (actor->state != ACTOR_WAITING) {
        violation("an op of client %d ended twice", actor->client);
        return;
    }
    actor->next_at = NEVER;
    actor->round++;
    check_end(actor, rc);
    give_op(actor);
    if (actor->latch)
        objects_wait_ended(actor->latch_began, rc);
    if ((rc == 0) != (hold != NULL) && !actor->latch)
        violation("an acquire answered %d and %s hold", rc, hold ? "a" : "no");
    if (rc == 0 && !actor->latch) {
        actor_take(actor, hold, false);
        return;
    }
    actor->count = 0;
    actor_rest(actor);
}

static void acquired(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct actor *actor = user;
    if ((rc != 0) != (why != NULL))
        violation("an acquire answered %d %s a reason", rc, why ? "with" : "without");
    actor->in_call = true;
    actor_ended(actor, rc, hold);
    bool more = !actor->busy && !client_of(actor)->closing && !client_of(actor)->dead &&
                dice_chance(set.in_callback);
    if (more && actor->state == ACTOR_HOLDING)
        actor_release(actor, false);
    else if (more && actor->state == ACTOR_IDLE && !sim_healed())
        actor_acquire(actor);
    actor->in_call = false;
}

static void latch_done(void *user, int rc, const hf_error *why)
{
    struct actor *actor = user;
    (void)why;
    actor->in_call = true;
    actor_ended(actor, rc, NULL);
    actor->in_call = false;
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
            .owner = actor->owner ? actor->owner : BY_THREAD | thread_serial(),
            .dies_at = NEVER,
            .closes = client_of(actor)->closes,
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

void actor_draw_options(struct actor *actor, hf_acquire_options *options)
{
    options->timeout_ms = draw_timeout(actor);
    options->owner = actor->owner;
    if (dice_chance(set.leased))
        options->ttl_ms = set.ttl_ms;
    if (options->ttl_ms && dice_chance(100))
        options->ttl_ms = 1 + dice_spread(set.ttl_ms);
    if (options->ttl_ms > set.ttl_most_ms)
        options->ttl_ms = set.ttl_most_ms;
    if (options->ttl_ms && dice_chance(set.fixed))
        options->flags = HF_FIXED;
    if (options->ttl_ms && dice_chance(set.leave))
        options->flags |= HF_DETACHED;
    if (dice_chance(set.capped))
        options->max_hold_ms = 1 + dice_spread(set.hold_ns * 2) / MS;
    actor->asked_ttl_ms = options->ttl_ms;
    actor->asked_max_ms = options->max_hold_ms;
    actor->asked_flags = options->flags;
}

/* It asks for something. */
void actor_begin(struct actor *actor)
{
    actor->began = actor->latch_began = sim_now;
    actor->cancelled = false;
    actor->closes_before = client_of(actor)->closes;
    actor->next_at = NEVER;
    actor->stalled_before = client_of(actor)->stalled;
    if (client_of(actor)->not_before > sim_now) /* a pause that is not over */
        actor->stalled_before -= client_of(actor)->not_before - sim_now;
    actor->faults_before = count.faults;
    actor->exposed = nemesis_is_at_it();
}

static void note_begin(struct actor *actor, bool latch)
{
    actor_begin(actor);
    actor->latch = latch;
    actor->state = ACTOR_WAITING;
}

/* An op was begun: what its actor does about it while it waits. */
static void plan_next(struct actor *actor)
{
    actor->next_at = NEVER;
    if (dice_chance(set.cancel))
        actor->next_at = sim_now + dice_spread(set.hold_ns);
    if (actor->poll)
        actor->next_at = sim_now + MS;
}

static void refused(struct actor *actor, int rc, const char *call)
{
    if (rc != HF_ECLOSED || !actor_was_closed(actor))
        violation("%s answered %s", call, hf_error_name(rc));
    actor->count = 0;
    actor->round++;
    actor_rest(actor);
}

static void acquire_blocking(struct actor *actor, const hf_want *wants,
                             const hf_acquire_options *options)
{
    hf_hold *hold = NULL;
    hf_error why;
    actor->poll = false;
    int rc = hf_acquire(client_of(actor)->handle, wants, (size_t)actor->count, options,
                        &hold, &why);
    actor_ended(actor, rc, hold);
}

void actor_acquire(struct actor *actor)
{
    hf_want wants[PARTS_MAX];
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    draw_wants(actor, wants);
    actor_draw_options(actor, &options);
    note_begin(actor, false);
    trace(actor->count > 1 ? EVENT_ASK_MULTI : EVENT_ASK, actor->client, actor->index,
          (uint64_t)actor->parts[0].name << 8 | (uint64_t)actor->parts[0].kind,
          (uint64_t)options.timeout_ms);
    if (dice_chance(set.blocking) && !actor->in_call) {
        acquire_blocking(actor, wants, &options);
        return;
    }
    uint64_t round = actor->round;
    actor->poll = dice_chance(set.poll);
    int rc = hf_acquire_async(client_of(actor)->handle, wants, (size_t)actor->count,
                              &options, actor->poll ? NULL : acquired, actor,
                              &actor->op, NULL);
    if (rc != 0)
        refused(actor, rc, "hf_acquire_async");
    else if (actor->round == round)
        plan_next(actor);
}

void actor_wait_latch(struct actor *actor)
{
    int64_t timeout_ms = draw_timeout(actor);
    note_begin(actor, true);
    actor->count = 0;
    actor->poll = false;
    trace(EVENT_ASK, actor->client, actor->index, HF_LATCH, (uint64_t)timeout_ms);
    if (dice_chance(set.blocking)) {
        int rc =
            hf_latch_wait(client_of(actor)->handle, objects_latch, timeout_ms, NULL);
        actor_ended(actor, rc, NULL);
        return;
    }
    uint64_t round = actor->round;
    int rc = hf_latch_wait_async(client_of(actor)->handle, objects_latch, timeout_ms,
                                 latch_done, actor, &actor->op, NULL);
    if (rc != 0)
        refused(actor, rc, "hf_latch_wait_async");
    else if (actor->round == round)
        plan_next(actor);
}

/* Its process is no more, or its client is closed: it holds nothing. */
void actor_tell_lost(struct actor *actor)
{
    if (actor->hold)
        actor_end_beliefs(actor);
}
