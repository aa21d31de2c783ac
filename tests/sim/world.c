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
 * A call that waits runs further steps from inside (sim_block), one such call at a
 * time. A seed ends with a heal: faults stop, actors let go, everything has to end
 * within a bound, and nothing may be left in the server or on the heap.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

#include "../../src/base/mem.h"
#include "../../src/core/handle.h"

#define STEPS_PER_GOAL 100     /* then the seed has had its time */
#define TURNS_PER_MS_MOST 2000 /* more of them, and somebody spins */
#define VIRTUAL_MOST (3600 * SECOND)

static struct client clients[CLIENTS_MAX];
static int depth;
static bool healed;
static uint64_t steps, turns;
static int64_t turns_since;

struct client *sim_client(int index)
{
    return &clients[index];
}

bool sim_nested(void)
{
    return depth > 0;
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
    enum { NEXT_NONE, NEXT_NET, NEXT_DISPATCH, NEXT_ACTOR, NEXT_NEMESIS } what;
};

static void offer(struct next *next, int64_t at, int what, struct client *client,
                  struct actor *actor)
{
    if (at >= next->at)
        return;
    *next = (struct next){ at, client, actor, what };
}

static void offer_client(struct next *next, struct client *client)
{
    if (!client->handle || client->dead || client->blocked)
        return;
    int64_t at = os_node_ready(client->index, client->fd);
    if (at < next->at)
        offer(next, at > client->not_before ? at : client->not_before, NEXT_DISPATCH,
              client, NULL);
    for (int i = 0; i < set.actors; i++) {
        at = client->actors[i].next_at;
        if (at < next->at)
            offer(next, at > client->not_before ? at : client->not_before, NEXT_ACTOR,
                  client, &client->actors[i]);
    }
}

static struct next find_next(void)
{
    struct next next = { .at = NEVER };
    offer(&next, net_next(), NEXT_NET, NULL, NULL);
    offer(&next, nemesis_next(), NEXT_NEMESIS, NULL, NULL);
    for (int i = 0; i < set.clients; i++)
        offer_client(&next, &clients[i]);
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

static void dispatch(struct client *client)
{
    count_turn();
    trace(EVENT_DISPATCH, client->index, 0, 0, 0);
    int rc = hf_dispatch(client->handle, NULL);
    if (rc != 0)
        violation("hf_dispatch answered %s", hf_error_name(rc));
    int64_t busy = sim_now + 2 * US + dice_spread(10 * US);
    if (client->not_before < busy)
        client->not_before = busy;
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
    int before = os_enter(next.client ? next.client->index : -1);
    if (next.what == NEXT_NET) {
        net_step();
    } else if (next.what == NEXT_NEMESIS) {
        nemesis_act();
    } else if (next.what == NEXT_DISPATCH) {
        dispatch(next.client);
        oracle_check();
    } else {
        actor_act(next.actor);
        oracle_check();
    }
    os_enter(before);
    return true;
}

void sim_block(int node, int epoll_fd, int64_t until)
{
    const struct client *client = &clients[node];
    int before = os_enter(-1);
    depth++;
    for (;;) {
        int64_t ready = os_ready_at(epoll_fd);
        int64_t wake = ready < until ? ready : until;
        if (wake < client->not_before)
            wake = client->not_before;
        if (wake <= sim_now)
            break;
        if (!step(wake) && wake == NEVER) {
            violation("client %d sleeps in a call, and nothing will wake it", node);
            break;
        }
        if (violated())
            break;
    }
    depth--;
    os_enter(before);
}

/* ---- clients --------------------------------------------------------------------- */

void client_open(struct client *client)
{
    char url[32];
    hf_error why;
    hf_options options = HF_OPTIONS_INIT;
    int before = os_enter(client->index);
    options.driver = HF_DRIVER_USER;
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
    else
        client->fd = hf_dispatch_fd(client->handle, &why);
    for (int i = 0; i < set.actors; i++)
        client->actors[i].next_at = sim_now + dice_spread(set.think_ns);
    os_enter(before);
}

static void actor_after_close(struct actor *actor)
{
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

void client_close(struct client *client)
{
    int before = os_enter(client->index);
    int64_t began = sim_now;
    trace(EVENT_CLOSE, client->index, 0, 0, 0);
    client->blocked = client->closing = true;
    for (int i = 0; i < set.actors; i++)
        if (client->actors[i].hold)
            actor_tell_lost(&client->actors[i]);
    hf_close(client->handle);
    client->blocked = client->closing = false;
    client->stalled += sim_now - began;
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
        if (clients[i].handle && !clients[i].dead)
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

/* Faults are over. Everything that was begun has to end now, and leave nothing. */
static void heal(void)
{
    bool killed = net.left_behind;
    healed = true;
    trace(EVENT_HEAL, 0, 0, 0, 0);
    run_until(nemesis_heal());
    wake_actors();
    int64_t bound = sim_now + 120 * SECOND + 16 * set.ttl_most_ms * MS;
    run_until(sim_now + 2 * SECOND);
    for (int round = 0; !violated() && !all_home() && sim_now < bound; round++) {
        struct client *client = any_client();
        int before = os_enter(client->index);
        client->blocked = true;
        objects_heal(client->index, client->handle);
        client->blocked = false;
        os_enter(before);
        wake_actors();
        run_until(sim_now + 5 * SECOND);
    }
    if (!violated() && !all_home())
        say_who_is_stuck();
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
    depth = 0;
    steps = turns = 0;
    turns_since = 0;
    for (int i = 0; i < CLIENTS_MAX; i++) {
        clients[i].index = i;
        for (int j = 0; j < ACTORS_MAX; j++) {
            struct actor *actor = &clients[i].actors[j];
            actor->client = i;
            actor->index = j;
            actor->next_at = NEVER;
            actor->owner = (uint64_t)(100 * i + j / 2 + 1);
        }
    }
    oracle_reset();
    objects_reset();
    net_reset();
    server_forget();
    nemesis_reset();
}

static void close_all(void)
{
    for (int i = 0; i < set.clients && !violated(); i++)
        if (clients[i].handle)
            client_close(&clients[i]);
}

bool sim_run(const struct settings *settings)
{
    uint64_t goal = count.acquisitions + settings->goal;
    size_t live = hf__mem_live();
    set = *settings;
    prepare();
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
    net_done();
    server_reset();
    hf__debug_trim();
    if (hf__mem_live() != live)
        violation("%zu blocks of memory are left", hf__mem_live() - live);
    count.virtual_ns += sim_now;
    return !violated();
}
