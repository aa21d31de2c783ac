/* SPDX-License-Identifier: MIT */
/*
 * What befalls clients, network and server; and the draw of a seed's settings.
 *
 * Every seed has a random subset of the faults (swarm): a seed without pauses finds
 * what pauses would hide. A fault begins, and ends by itself at a time drawn with it.
 */
#include "sim.h"

#include <string.h>

#include "../../src/shims/fault.h"

enum { RUNNING_MAX = 8 };

struct running {
    enum fault fault;
    int client;
    int64_t until;
};

static struct running running[RUNNING_MAX];
static int running_count;
static int64_t next_fault;
static bool may_kill;
struct settings set;

/* ---- settings -------------------------------------------------------------------- */

static const uint32_t faults_of[SIM_STORES] = {
    [SIM_MEM] = 1u << FAULT_PAUSE,
    [SIM_FAULT] = 1u << FAULT_PAUSE | 1u << FAULT_PLAN | 1u << FAULT_FREEZE,
    [SIM_LEASE] = (1u << FAULT_PLAN) - 1,
};

static uint32_t knob(uint32_t most)
{
    return dice_chance(400) ? 0 : (uint32_t)dice_between(1, most);
}

static int64_t one_of(const int64_t *from, size_t many)
{
    return from[dice() % many];
}

/* Holds about as long as their leases, and few names: renewals decide. */
static void draw_pressure(struct settings *drawn)
{
    drawn->ttl_ms = dice_between(1, 5) * 40;
    drawn->ttl_most_ms = 2 * drawn->ttl_ms;
    drawn->hold_ns = drawn->ttl_ms * MS;
    drawn->think_ns = drawn->delay_ns = 300 * US;
    drawn->names = (int)dice_between(1, 2);
    drawn->clients = (int)dice_between(2, 3);
    drawn->calm_ns = drawn->ttl_ms * MS / 8;
    drawn->forever = 900;
    drawn->goal /= 4;
}

/* Many threads of one client or two on one name: hand-offs decide. */
static void draw_crowd(struct settings *drawn)
{
    drawn->names = (int)dice_between(1, 2);
    drawn->clients = (int)dice_between(1, 2);
    drawn->actors = (int)dice_between(3, ACTORS_MAX);
    drawn->blocking = (uint32_t)dice_between(600, 1000);
    drawn->preempt = (uint32_t)dice_between(20, 300);
    drawn->preempt_ns *= dice_chance(300) ? 10 : 1; /* sleepers come too late */
    drawn->multi = drawn->objects = 0;
    if (drawn->handoff == HF_OFF)
        drawn->handoff = 0;
    if (drawn->think_ns > drawn->hold_ns)
        drawn->think_ns = drawn->hold_ns;
}

void settings_draw(struct settings *drawn, enum sim_store store, uint64_t seed,
                   uint64_t goal)
{
    static const int64_t ttls[] = { 40, 200, 1000, 5000, 30000 };
    static const int64_t requests[] = { 50, 200, 1000, 5000 };
    static const int64_t times[] = { 20 * US, 300 * US, 3 * MS, 20 * MS };
    static const int64_t delays[] = { 20 * US, 100 * US, 500 * US, 3 * MS };
    static const int handoffs[] = { 0, HF_OFF, 1, 3 };
    memset(drawn, 0, sizeof(*drawn));
    drawn->store = store;
    drawn->seed = seed;
    drawn->goal = goal;
    drawn->clients = (int)dice_between(2, CLIENTS_MAX);
    drawn->actors = (int)dice_between(1, ACTORS_MAX);
    drawn->names = (int)dice_between(1, 6);
    drawn->ttl_ms = one_of(ttls, 5);
    drawn->ttl_most_ms = 2 * drawn->ttl_ms;
    drawn->request_ms = one_of(requests, 4);
    drawn->hold_ns = one_of(times, 4);
    drawn->think_ns = one_of(times, 4);
    drawn->delay_ns = one_of(delays, 4);
    drawn->handoff = handoffs[dice() % 4];
    drawn->faults = faults_of[store] & (uint32_t)dice();
    drawn->calm_ns =
        (drawn->hold_ns + drawn->think_ns + 4 * drawn->delay_ns) * dice_between(1, 40);
    drawn->forever = knob(600);
    drawn->once = knob(300);
    drawn->cancel = knob(200);
    drawn->multi = knob(300);
    drawn->blocking = dice_chance(200) ? 0 : (uint32_t)dice_between(1, 1000);
    drawn->leased = store == SIM_LEASE ? 800 : knob(800);
    drawn->by_thread = knob(1000);
    drawn->again = knob(600);
    drawn->renew_thread = knob(60);
    drawn->background = knob(800);
    drawn->preempt = knob(200);
    drawn->evict = knob(30);
    drawn->adopt = knob(300);
    drawn->leave = knob(100);
    drawn->strange = knob(1000);
    drawn->preempt_ns = one_of(times, 3) / 10;
    drawn->fixed = knob(200);
    drawn->capped = knob(100);
    drawn->watch = knob(400);
    drawn->poll = knob(200);
    drawn->objects = knob(30);
    drawn->reopen = knob(5);
    drawn->in_callback = knob(200);
    if (store == SIM_LEASE && dice_chance(100))
        draw_pressure(drawn);
    else if (dice_chance(350))
        draw_crowd(drawn);
}

/* ---- faults ---------------------------------------------------------------------- */

static int64_t far_ns(void)
{
    return (set.ttl_most_ms * 11 / 10 + 100) * MS;
}

static void running_add(enum fault fault, int client, int64_t span)
{
    running[running_count++] = (struct running){ fault, client, sim_now + span };
}

static bool is_running(enum fault fault, int client)
{
    for (int i = 0; i < running_count; i++)
        if (running[i].fault == fault && running[i].client == client)
            return true;
    return false;
}

static void draw_plan(void)
{
    struct hf_fault plan[4];
    int many = (int)dice_between(1, 4);
    for (int i = 0; i < many; i++) {
        plan[i] = (struct hf_fault){
            .op = (enum hf_fault_op)(dice() % HF_FAULT_OPS),
            .what = (enum hf_fault_what)dice_between(HF_FAULT_LOSE, HF_FAULT_DELAY),
            .delay_ms = dice_between(1, 100),
        };
        if (plan[i].op == HF_FAULT_EVENT && plan[i].what != HF_FAULT_LOSE)
            plan[i].what = HF_FAULT_DELAY;
        plan[i].first = 1 + dice() % 10;
        plan[i].last = plan[i].first + dice() % 5;
    }
    hf__fault_plan(plan, (size_t)many);
}

static void pause_client(int index, int64_t span)
{
    struct client *client = sim_client(index);
    if (client->not_before < sim_now + span)
        client->not_before = sim_now + span;
    client->stalled += span;
}

static void kill_client(int index)
{
    struct client *client = sim_client(index);
    if (!may_kill || client->closing || !client->handle)
        return;
    may_kill = false;
    client->dead = client->frozen = true;
    net_cut(index, 0);
    for (int i = 0; i < set.actors; i++)
        actor_tell_lost(&client->actors[i]);
}

static void evict_a_holder(void)
{
    uint64_t first, last;
    int name;
    if (!server_evict_any(&first, &last, &name))
        return;
    trace(EVENT_EVICT, 0, name, first, last);
    oracle_evicting(name, first, last);
    for (uint64_t token = first; token <= last; token++)
        oracle_gone(name, token);
}

static void server_goes(bool forgets)
{
    net.server_up = false;
    for (int i = 0; i < set.clients; i++)
        net_cut(i, dice_spread(MS));
    if (!forgets)
        return;
    server_forget();
    objects_forget();
    oracle_forget();
}

/* How long it lasts, 0: a moment. */
static int64_t begin(enum fault fault)
{
    int client = (int)(dice() % (uint64_t)set.clients);
    int64_t span = dice_spread(dice_chance(250) ? set.ttl_ms * MS : set.calm_ns);
    bool for_all = fault == FAULT_SERVER_PAUSE || fault == FAULT_LOSS ||
                   fault == FAULT_SLOW || fault == FAULT_FREEZE ||
                   fault == FAULT_CRASH || fault == FAULT_FORGET;
    if (for_all)
        client = 0;
    if (is_running(fault, client) || running_count == RUNNING_MAX)
        return 0;
    if (fault == FAULT_PAUSE && sim_client(client)->not_before > sim_now + MS)
        return 0;
    if ((fault == FAULT_CRASH || fault == FAULT_FORGET) && !net.server_up)
        return 0;
    if (fault == FAULT_FORGET)
        span = far_ns() + span;
    trace(EVENT_FAULT, client, (int)fault, (uint64_t)span, 0);
    count.faults++;
    switch (fault) {
    case FAULT_PAUSE:
        pause_client(client, span);
        return span;
    case FAULT_CUT:
        net_cut(client, dice_chance(500) ? 0 : dice_spread(100 * MS));
        return 0;
    case FAULT_KILL:
        kill_client(client);
        return 0;
    case FAULT_EVICT:
        evict_a_holder();
        return 0;
    case FAULT_PLAN:
        draw_plan();
        return 0;
    case FAULT_STALL_UP:
        net_block(client, 1, true);
        break;
    case FAULT_STALL_DOWN:
        net_block(client, 0, true);
        break;
    case FAULT_PARTITION:
        net_block(client, 0, true);
        net_block(client, 1, true);
        break;
    case FAULT_SERVER_PAUSE:
        net_pause_server(true);
        break;
    case FAULT_CRASH:
    case FAULT_FORGET:
        server_goes(fault == FAULT_FORGET);
        break;
    case FAULT_LOSS:
        net.loss = (uint32_t)dice_between(10, 300);
        break;
    case FAULT_SLOW:
        net.delay_ns = set.delay_ns * 2 + dice_between(1, 20) * MS;
        break;
    default:
        hf__fault_pause(true);
        break;
    }
    running_add(fault, client, span);
    return span;
}

static void end(const struct running *run)
{
    int client = run->client;
    trace(EVENT_HEAL, client, (int)run->fault, 0, 0);
    if (run->fault == FAULT_STALL_UP || run->fault == FAULT_PARTITION)
        net_block(client, 1, false);
    if (run->fault == FAULT_STALL_DOWN || run->fault == FAULT_PARTITION)
        net_block(client, 0, false);
    if (run->fault == FAULT_SERVER_PAUSE)
        net_pause_server(false);
    if (run->fault == FAULT_CRASH || run->fault == FAULT_FORGET)
        net.server_up = true;
    if (run->fault == FAULT_LOSS)
        net.loss = 0;
    if (run->fault == FAULT_SLOW)
        net.delay_ns = set.delay_ns;
    if (run->fault == FAULT_FREEZE)
        hf__fault_pause(false);
}

static void end_at(int index)
{
    struct running run = running[index];
    running[index] = running[--running_count];
    end(&run);
}

static int first_to_end(void)
{
    int first = -1;
    for (int i = 0; i < running_count; i++)
        if (first < 0 || running[i].until < running[first].until)
            first = i;
    return first;
}

bool nemesis_is_at_it(void)
{
    return running_count > 0;
}

int64_t nemesis_next(void)
{
    int first = first_to_end();
    if (first >= 0 && running[first].until < next_fault)
        return running[first].until;
    return next_fault;
}

void nemesis_act(void)
{
    int first = first_to_end();
    if (first >= 0 && running[first].until <= sim_now) {
        end_at(first);
        return;
    }
    enum fault fault = (enum fault)(dice() % FAULTS);
    for (int i = 0; !(set.faults & 1u << fault); i++)
        fault = (enum fault)((fault + 1) % FAULTS);
    next_fault = sim_now + begin(fault) / 4 + dice_spread(set.calm_ns);
}

/* When all is well: a server that has forgotten may not come back before the last lease
 * that it gave is over, not even now. */
int64_t nemesis_heal(void)
{
    int64_t well = sim_now;
    next_fault = NEVER;
    for (int i = running_count; i-- > 0;)
        if (running[i].fault == FAULT_FORGET)
            well = running[i].until;
        else
            end_at(i);
    hf__fault_plan(NULL, 0);
    hf__fault_pause(false);
    for (int i = 0; i < set.clients; i++)
        if (sim_client(i)->not_before > sim_now + SECOND)
            sim_client(i)->not_before = sim_now;
    return well;
}

/* The clocks of a lease differ in rate, within what the library allows for. */
void nemesis_reset(void)
{
    bool drift = set.store == SIM_LEASE && dice_chance(600);
    running_count = 0;
    may_kill = true;
    next_fault = set.faults ? dice_spread(set.calm_ns) : NEVER;
    server_node =
        (struct node_clock){ 50000 * SECOND, drift ? dice_between(-4000, 4000) : 0 };
    for (int i = 0; i < CLIENTS_MAX; i++) {
        os_clocks[i].start =
            set.store == SIM_LEASE ? dice_between(1, 1000) * SECOND : 1000 * SECOND;
        os_clocks[i].ppm = drift ? dice_between(-4000, 4000) : 0;
    }
    hf__fault_plan(NULL, 0);
    hf__fault_pause(false);
}
