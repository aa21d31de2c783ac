/* SPDX-License-Identifier: MIT */
/*
 * The scheduler: whose turn it is, and what a seed is made of.
 *
 * A step finds the earliest thing that can happen (a message arrives, a client's
 * descriptor polls readable, an actor wants to act, a fault begins or ends), moves the
 * clock there and lets it happen. A client is dispatched when its descriptor says so
 * and never otherwise, as a program with its own loop would do it: a wake-up that is
 * missing shows.
 *
 * Actors and dispatches run on threads of their client (threads.c), any number of them
 * at once; a thread that can go on is one of the things that can happen. A seed ends
 * with a heal: faults stop, actors let go, everything has to end within a bound, and
 * nothing may be left in the server or on the heap.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

#include "../../src/base/mem.h"
#include "../../src/core/handle.h"

#define STEPS_PER_GOAL 100     /* then the seed has had its time */
#define TURNS_PER_MS_MOST 2000 /* more of them, and somebody spins */
#define VIRTUAL_MOST (3600 * SECOND)
#define JOB_MOST (600 * SECOND)

static struct client clients[CLIENTS_MAX];
static bool healed;
static uint64_t steps, turns;
static int64_t turns_since;

struct client *sim_client(int index)
{
    return &clients[index];
}

bool sim_healed(void)
{
    return healed;
}

/* ---- steps ----------------------------------------------------------------------- */

struct next {
    int64_t at;
    struct client *client;
    struct actor *actor;
    struct thread *thread;
    enum {
        NEXT_NONE,
        NEXT_NET,
        NEXT_DISPATCH,
        NEXT_ACTOR,
        NEXT_THREAD,
        NEXT_NEMESIS
    } what;
};

static void offer(struct next *next, int64_t at, int what, struct client *client,
                  struct actor *actor)
{
    if (client && at < client->not_before)
        at = client->not_before;
    if (at >= next->at)
        return;
    *next = (struct next){ at, client, actor, NULL, what };
}

static void offer_client(struct next *next, struct client *client)
{
    if (!client->handle || client->frozen || client->closing)
        return;
    if (!client->dispatching && !client->background) {
        int64_t at = os_node_ready(client->index, client->fd);
        if (at < next->at)
            offer(next, at > client->loop_not_before ? at : client->loop_not_before,
                  NEXT_DISPATCH, client, NULL);
    }
    for (int i = 0; i < set.actors; i++) {
        struct actor *actor = &client->actors[i];
        if (actor->next_at < next->at && !actor->busy && !actor->in_call)
            offer(next, actor->next_at, NEXT_ACTOR, client, actor);
    }
}

static struct next find_next(void)
{
    struct next next = { .at = NEVER };
    offer(&next, net_next(), NEXT_NET, NULL, NULL);
    offer(&next, nemesis_next(), NEXT_NEMESIS, NULL, NULL);
    for (int i = 0; i < set.clients; i++)
        offer_client(&next, &clients[i]);
    next.thread = threads_next(&next.at);
    if (next.thread)
        next.what = NEXT_THREAD;
    return next;
}

/* A client that is called again and again, and does nothing. */
static void count_turn(void)
{
    turns++;
    if (sim_now - turns_since < MS) {
        if (turns > TURNS_PER_MS_MOST)
            violation("somebody spins: %d turns in a millisecond", TURNS_PER_MS_MOST);
        return;
    }
    turns_since = sim_now;
    turns = 0;
}

static void dispatch(void *arg)
{
    struct client *client = arg;
    uint64_t closes = client->closes;
    int rc = hf_dispatch(client->handle, NULL);
    if (rc != 0 && !(rc == HF_ECLOSED && (client->closing || client->closes != closes)))
        violation("hf_dispatch answered %s", hf_error_name(rc));
    client->loop_not_before = sim_now + 2 * US + dice_spread(10 * US);
    client->dispatching = false;
}

static void begin_thread(const struct next *next)
{
    struct client *client = next->client;
    struct identity *self = &client->loop_self;
    if (next->what == NEXT_DISPATCH) {
        count_turn();
        client->dispatching = true;
    } else {
        next->actor->busy = true;
        if (next->actor->new_thread)
            identity_renew(&next->actor->self);
        next->actor->new_thread = false;
        self = &next->actor->self;
    }
    trace(next->actor ? EVENT_RUN : EVENT_DISPATCH, client->index,
          next->actor ? next->actor->index : 0, 0, 0);
    thread_resume(thread_start(client->index, self, next->actor ? actor_act : dispatch,
                               next->actor ? (void *)next->actor : client));
}

/* The earliest thing before `limit` happens; false if there is none. */
static bool step(int64_t limit)
{
    struct next next = find_next();
    if (next.at >= limit) {
        if (limit != NEVER && sim_now < limit)
            sim_now = limit;
        return false;
    }
    if (next.at > sim_now)
        sim_now = next.at;
    steps++;
    if (next.what == NEXT_NET) {
        net_step();
        return true;
    }
    if (next.what == NEXT_NEMESIS) {
        nemesis_act();
        return true;
    }
    if (next.what == NEXT_THREAD) {
        trace(EVENT_RUN, thread_node(next.thread), thread_index(next.thread), 1, 0);
        thread_resume(next.thread);
    } else {
        begin_thread(&next);
    }
    oracle_check();
    return true;
}

/* ---- jobs: what the world itself has a thread do --------------------------------- */

struct job {
    void (*work)(struct client *client);
    struct client *client;
    bool done;
};

static void job_do(void *arg)
{
    struct job *job = arg;
    job->work(job->client);
    job->done = true;
}

static void run_job(struct client *client, void (*work)(struct client *))
{
    struct job job = { work, client, false };
    struct identity self;
    int64_t bound = sim_now + JOB_MOST;
    identity_renew(&self);
    thread_resume(thread_start(client->index, &self, job_do, &job));
    while (!violated() && !job.done)
        if (!step(bound))
            violation("a call of client %d does not come back", client->index);
}

/* ---- clients --------------------------------------------------------------------- */

void client_open(struct client *client)
{
    char url[32];
    hf_error why;
    hf_options options = HF_OPTIONS_INIT;
    int before = os_enter(client->index);
    client->background = dice_chance(set.background);
    options.driver = client->background ? HF_DRIVER_THREAD : HF_DRIVER_USER;
    options.handoff = set.handoff;
    options.request_timeout_ms = set.request_ms;
    options.confirm_timeout_ms = set.request_ms;
    if (set.store == SIM_LEASE)
        snprintf(url, sizeof(url), "lease:%d", client->index);
    else
        snprintf(url, sizeof(url), "%smem:sim", set.store == SIM_FAULT ? "fault+" : "");
    if (set.store == SIM_LEASE)
        options.ttl_ms = set.ttl_ms;
    trace(EVENT_OPEN, client->index, 0, 0, 0);
    if (hf_open(url, &options, &client->handle, &why) != 0)
        violation("hf_open answered %s", why.text);
    else if (!client->background)
        client->fd = hf_dispatch_fd(client->handle, &why);
    client->closing = false;
    for (int i = 0; i < set.actors; i++)
        client->actors[i].next_at = sim_now + dice_spread(set.think_ns);
    os_enter(before);
}

static void actor_after_close(struct actor *actor)
{
    if (actor->busy)
        return; /* its thread will see */
    if (actor->hold && hf_release(actor->hold, NULL) != HF_ECLOSED)
        violation("a hold of a closed client can be released");
    actor->hold = NULL;
    if (actor->op && actor->poll) {
        hf_hold *hold = NULL;
        int rc = hf_op_wait(actor->op, 0, &hold, NULL);
        if (rc == 0 || hold)
            violation("an op of a closed client gave a hold");
        hf_op_free(actor->op);
        actor->op = NULL;
        actor->state = ACTOR_IDLE;
    }
    if (actor->state == ACTOR_WAITING || actor->state == ACTOR_LEAVING)
        violation("an op of client %d has not ended with its client", actor->client);
    actor->state = ACTOR_IDLE;
    actor_tell_lost(actor); /* given inside the close */
}

/* While other threads are in calls, or dispatch. */
void client_close(struct client *client)
{
    int before = os_enter(client->index);
    trace(EVENT_CLOSE, client->index, 0, 0, 0);
    client->closing = true;
    client->closes++;
    for (int i = 0; i < set.actors; i++)
        actor_tell_lost(&client->actors[i]);
    hf_close(client->handle);
    for (int i = 0; i < set.actors && !violated(); i++)
        actor_after_close(&client->actors[i]);
    client->handle = NULL;
    os_enter(before);
}

/* ---- one seed -------------------------------------------------------------------- */

static bool all_home(void)
{
    for (int i = 0; i < set.clients; i++)
        for (int j = 0; !clients[i].dead && j < set.actors; j++)
            if (actor_busy(&clients[i].actors[j]))
                return false;
    return true;
}

static void wake_actors(void)
{
    for (int i = 0; i < set.clients; i++)
        for (int j = 0; j < set.actors; j++)
            if (clients[i].actors[j].state == ACTOR_HOLDING)
                clients[i].actors[j].next_at = sim_now;
}

static struct client *any_client(void)
{
    for (int i = 0; i < set.clients; i++)
        if (clients[i].handle && !clients[i].dead && !clients[i].closing)
            return &clients[i];
    return &clients[0];
}

static void run_until(int64_t until)
{
    while (!violated() && step(until))
        ;
}

static void say_who_is_stuck(void)
{
    for (int i = 0; i < set.clients; i++)
        for (int j = 0; !clients[i].dead && j < set.actors; j++)
            if (actor_busy(&clients[i].actors[j]))
                violation("client %d actor %d is stuck (state %d) since %lld ms, %lld "
                          "ms after the heal",
                          i, j, (int)clients[i].actors[j].state,
                          (long long)(clients[i].actors[j].began / MS),
                          (long long)(sim_now / MS));
}

static void open_latch(struct client *client)
{
    objects_heal(client->index, client->handle);
}

/* Faults are over. Everything that was begun has to end now, and leave nothing. */
static void heal(void)
{
    healed = true;
    trace(EVENT_HEAL, 0, 0, 0, 0);
    run_until(nemesis_heal());
    wake_actors();
    int64_t bound = sim_now + 120 * SECOND + 16 * set.ttl_most_ms * MS;
    run_until(sim_now + 2 * SECOND);
    for (int round = 0; !violated() && !all_home() && sim_now < bound; round++) {
        run_job(any_client(), open_latch);
        wake_actors();
        run_until(sim_now + 5 * SECOND);
    }
    if (!violated() && !all_home())
        say_who_is_stuck();
    bool killed = net.left_behind; /* also by an actor that has just finished */
    for (int i = 0; i < set.clients; i++)
        killed |= clients[i].dead;
    run_until(sim_now + (killed ? 100 * SECOND + set.ttl_most_ms * MS
                                : 8 * set.request_ms * MS + 3 * SECOND));
    char which[80];
    size_t left = set.store == SIM_LEASE ? server_tickets(which, sizeof(which)) : 0;
    if (left)
        violation("%zu tickets are left in the server: %s", left, which);
}

static void prepare(void)
{
    memset(clients, 0, sizeof(clients));
    healed = false;
    steps = turns = 0;
    turns_since = 0;
    threads_reset();
    for (int i = 0; i < CLIENTS_MAX; i++) {
        clients[i].index = i;
        identity_renew(&clients[i].loop_self);
        for (int j = 0; j < ACTORS_MAX; j++) {
            struct actor *actor = &clients[i].actors[j];
            actor->client = i;
            actor->index = j;
            actor->next_at = NEVER;
            actor->owner = (uint64_t)(100 * i + j / 2 + 1);
            if (dice_chance(set.by_thread))
                actor->owner = 0;
            identity_renew(&actor->self);
        }
    }
    oracle_reset();
    objects_reset();
    repair_reset();
    net_reset();
    server_forget();
    nemesis_reset();
}

static void close_all(void)
{
    for (int i = 0; i < set.clients && !violated(); i++) {
        clients[i].frozen = false;
        if (clients[i].handle)
            run_job(&clients[i], client_close);
    }
    for (int i = 0; i < set.clients && !violated(); i++)
        while (threads_of(i) && !violated())
            if (!step(sim_now + JOB_MOST))
                violation("a thread of client %d does not end", i);
}

/* What lies in mem is gone when the last client closes: this one stays. */
static hf_client *anchor_open(void)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_client *anchor = NULL;
    options.driver = HF_DRIVER_USER;
    if (set.store != SIM_LEASE && hf_open("mem:sim", &options, &anchor, NULL) != 0)
        violation("hf_open failed");
    return anchor;
}

bool sim_run(const struct settings *settings)
{
    uint64_t goal = count.acquisitions + settings->goal;
    size_t live = hf__mem_live();
    set = *settings;
    prepare();
    hf_client *anchor = anchor_open();
    for (int i = 0; i < set.clients && !violated(); i++)
        client_open(&clients[i]);
    while (!violated() && count.acquisitions < goal &&
           steps < set.goal * STEPS_PER_GOAL && step(VIRTUAL_MOST))
        ;
    if (!violated())
        heal();
    if (!violated())
        close_all();
    if (violated())
        return false;
    hf_close(anchor);
    net_done();
    server_reset();
    hf__debug_trim();
    if (hf__mem_live() != live)
        violation("%zu blocks of memory are left", hf__mem_live() - live);
    count.virtual_ns += sim_now;
    return !violated();
}
