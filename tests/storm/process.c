/* SPDX-License-Identifier: MIT */
/*
 * A worker process: clients, seats, the loop of clients that have none of their own.
 *
 * The main thread opens the clients and starts the seats. When a seat's thread has
 * played its part it ends, and another thread goes on with the seat: same stream, same
 * pool of holds, another owner. At the end everything is given back, and descriptors,
 * threads and the library's memory must be as before.
 */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../src/base/mem.h"
#include "storm.h"

extern void hf__debug_trim(void);

#define LIFE_MAX 150
#define DRAIN_MS 40000

struct process *self;
_Thread_local struct seat *seat_now;
_Thread_local int in_callback;

static struct seat seats[SEATS_MAX + 1];

/* ---- Seats ----------------------------------------------------------------------- */

static bool is_over(const struct seat *seat)
{
    return atomic_load(&world->over) ||
           (world->config.steps && seat->step >= (uint64_t)world->config.steps);
}

static void loop_once(void)
{
    for (size_t slot = 0; slot < (size_t)world->config.clients; slot++) {
        if (!slot_is_user_driven(slot))
            continue;
        pthread_mutex_lock(&self->mutex);
        struct client *client = self->clients[slot];
        pthread_mutex_unlock(&self->mutex);
        if (client)
            client_dispatch(client);
    }
}

static bool is_alone(void)
{
    return world->config.processes == 1 && world->config.threads == 1;
}

static void *seat_run(void *arg)
{
    struct seat *seat = arg;
    seat_now = seat;
    while (!is_over(seat) && (int64_t)seat->step < seat->ends_at) {
        seat_step(seat);
        if (is_alone())
            loop_once();
    }
    atomic_store(&seat->ended, true);
    return NULL;
}

static void seat_start(struct seat *seat)
{
    struct rng rng =
        plan_step(world->config.seed, self->number, seat->number, ~seat->step);
    seat->ends_at = (int64_t)(seat->step + 2 + rng_below(&rng, LIFE_MAX));
    seat->thread_serial = 1 + atomic_fetch_add(&world->serials, 1);
    atomic_store(&seat->ended, false);
    if (pthread_create(&seat->thread, NULL, seat_run, seat) != 0)
        trouble("cannot start a thread");
}

static void *loop_run(void *arg)
{
    (void)arg;
    while (!atomic_load(&self->stopping)) {
        loop_once();
        poll(NULL, 0, 1); /* pause: our own event loop has other things to do */
    }
    return NULL;
}

static void seats_play(struct rng *rng)
{
    int playing = world->config.threads;
    for (int i = 0; i < playing; i++) {
        seats[i].number = i;
        seat_start(&seats[i]);
    }
    while (playing > 0) {
        poll(NULL, 0, 1); /* pause: between two looks at the seats */
        if (world->config.lossy)
            store_weather(rng);
        for (int i = 0; i < world->config.threads; i++) {
            struct seat *seat = &seats[i];
            if (atomic_load(&seat->over) || !atomic_load(&seat->ended))
                continue;
            pthread_join(seat->thread, NULL);
            atomic_fetch_add(&world->threads_ended, 1);
            if (!is_over(seat)) {
                seat_start(seat);
                continue;
            }
            atomic_store(&seat->over, true);
            playing--;
        }
    }
}

/* ---- The end --------------------------------------------------------------------- */

static size_t ops_under_way(void)
{
    size_t count = 0;
    for (size_t i = 0; i < OPS_MAX; i++)
        count += atomic_load(&self->ops[i].state) != OP_FREE;
    return count;
}

/* Callbacks may still bring holds, and start what brings more. */
static void drain(struct rng *rng)
{
    int64_t until = now_ns() + DRAIN_MS * NS_PER_MS;
    do {
        struct held held;
        for (struct op *op; (op = waiting_take(rng));)
            op_finish(op);
        while (held_take(rng, &held))
            release_now(&held, "last release");
        loop_once();
        if (ops_under_way() > 0)
            poll(NULL, 0, 1); /* pause: callbacks come on other threads */
        if (now_ns() > until) {
            violation(9, "%zu ops have not ended", ops_under_way());
            return;
        }
    } while (ops_under_way() > 0 || self->helds_count > 0);
}

/* What is in a store of this process alone can be seen from here alone. */
static void own_store_check(void)
{
    int64_t until = now_ns() + 20000 * NS_PER_MS;
    size_t count;
    do {
        hf_report *report = NULL;
        objects_clear(self->clients[0]);
        if (hf_inspect(self->clients[0]->handle, "", true, &report, NULL) != 0)
            return;
        count = hf_report_count(report);
        if (count > 0 && now_ns() > until) {
            const hf_entry *entry = hf_report_entry(report, 0);
            violation(12, "%.60s is left, kind %d, role %d, token %llu", entry->name,
                      entry->kind, entry->role, (unsigned long long)entry->token);
            count = 0;
        }
        hf_report_free(report);
        poll(NULL, 0, 5); /* pause: leases of holds that were left run out */
    } while (count > 0);
}

static void clients_free(void)
{
    while (self->all_clients) {
        struct client *client = self->all_clients;
        self->all_clients = client->next;
        free(client);
    }
}

/* ---- Residue --------------------------------------------------------------------- */

struct count {
    size_t descriptors, threads, blocks;
};

static size_t entries_count(const char *path)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    if (!dir)
        trouble("cannot read %s", path);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static struct count count_all(void)
{
    hf__debug_trim();
    return (struct count){ entries_count("/proc/self/fd"),
                           entries_count("/proc/self/task"), hf__mem_live() };
}

/* Each handle was given back: else it is the storm that leaks. */
static void parts_check(void)
{
    for (int i = 0; i < world->parts_end; i++) {
        const struct part *part = &world->parts[i];
        if ((part->flags & P_USED) && part->process == self->number &&
            !(part->flags & P_LEFT))
            trouble("a part of %.60s, token %llu, flags %#x, was never released",
                    world->names[part->name].text, (unsigned long long)part->token,
                    part->flags);
    }
}

static void residue_check(const struct count *before)
{
    struct count after = count_all();
    for (int tries = 0; tries < 3000 && after.threads > before->threads; tries++) {
        poll(NULL, 0, 1); /* pause: a thread that was joined stays for a moment */
        after = count_all();
    }
    if (after.descriptors != before->descriptors || after.blocks != before->blocks ||
        after.threads > before->threads)
        violation(12,
                  "descriptors %zu, were %zu; threads %zu, were %zu; blocks %zu, "
                  "were %zu",
                  after.descriptors, before->descriptors, after.threads,
                  before->threads, after.blocks, before->blocks);
}

static void *thread_nothing(void *arg)
{
    return arg;
}

/* What the library and race detectors set up once is no leak. */
static struct count warm_up(void)
{
    hf_client *client = NULL;
    pthread_t thread;
    if (hf_open(world->url, NULL, &client, NULL) == 0)
        hf_close(client);
    if (pthread_create(&thread, NULL, thread_nothing, NULL) == 0)
        pthread_join(thread, NULL);
    return count_all();
}

/* A store of this process alone ends with its last client, and all clients may be
 * between close and open at once: one more stays to the end. */
static hf_client *own_store_keep(void)
{
    hf_client *client = NULL;
    if (!(world->caps & HF_CAP_PROCESSES) &&
        hf_open(world->url, NULL, &client, NULL) != 0)
        trouble("hf_open of %s", world->url);
    return client;
}

int process_run(int number)
{
    pthread_t loop;
    struct rng rng = plan_step(world->config.seed, number, 254, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    self = calloc(1, sizeof *self);
    if (!self)
        trouble("no memory for a process");
    self->number = number;
    pthread_mutex_init(&self->mutex, NULL);
    store_connect();
    struct count before = warm_up();
    hf_client *keeps = own_store_keep();
    for (size_t slot = 0; slot < (size_t)world->config.clients; slot++)
        slot_open(slot, &rng);
    if (!is_alone() && pthread_create(&loop, NULL, loop_run, NULL) != 0)
        trouble("cannot start a thread");

    seats_play(&rng);

    store_calm();
    seats[SEATS_MAX].number = SEATS_MAX - 1;
    seat_now = &seats[SEATS_MAX];
    drain(&rng);
    if (!(world->caps & HF_CAP_PROCESSES))
        own_store_check();
    for (size_t slot = 0; slot < (size_t)world->config.clients; slot++)
        slot_close(slot);
    hf_close(keeps);
    atomic_store(&self->stopping, true);
    if (!is_alone())
        pthread_join(loop, NULL);
    clients_free();
    parts_check();
    residue_check(&before);
    return 0;
}
