/* SPDX-License-Identifier: MIT */
/*
 * worker: one process that takes locks and writes down what came of it.
 *
 * M threads take K locks of each kind through one driver (driver.h) until SIGTERM or
 * until DIRECTORY/stop exists; each finishes its hold, and the process ends with 0. The
 * main thread obeys commands meanwhile (control.h). At the end one line on standard
 * output says what the process has left behind of descriptors, of the library's memory,
 * and, with --residue, in the store.
 *
 * Exit: 0, 1 if something was left or went wrong that never should, 2 for bad usage.
 */
#include "worker.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "control.h"

/* ---- Residue --------------------------------------------------------------------- */

struct belongings {
    long descriptors;
    long blocks;
};

static struct belongings belongings_count(void)
{
    struct belongings count = { 0, (long)hf__mem_live() };
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        count.descriptors++;
    if (directory)
        closedir(directory);
    return count;
}

/* After a rehearsal: what the library sets up once and keeps is not left behind. Where
 * that failed (the store may be away) what is left cannot be told. */
static struct belongings belongings_before(const struct orders *orders)
{
    bool warm = strcmp(orders->driver->name, "holdfast") != 0 ||
                holdfast_warm(&orders->settings, orders->sharing, orders->threads + 1);
    struct belongings count = belongings_count();
    if (!warm)
        count.blocks = LONG_MAX;
    return count;
}

/* What was left to its lease goes with it: it is given that time. */
static long entries_left(const struct orders *orders)
{
    struct timespec moment = { 0, 20000000 };
    uint64_t begun = history_now();
    uint64_t patience = (uint64_t)orders->settings.ttl_ms * 6 * 1000000;
    for (;;) {
        long entries = holdfast_entries(orders->settings.url);
        if (entries == 0 || history_now() - begun > patience)
            return entries;
        nanosleep(&moment, NULL); /* pause: leases end by themselves */
    }
}

static bool residue_tell(const struct orders *orders, struct hand *hands,
                         struct belongings before)
{
    long entries = orders->residue ? entries_left(orders) : 0;
    for (uint32_t i = 0; i < orders->threads; i++)
        if (hands[i].lock)
            orders->driver->close(hands[i].lock);
    struct belongings after = belongings_count();
    long descriptors = after.descriptors - before.descriptors;
    long blocks = after.blocks - before.blocks;
    printf("residue descriptors=%ld blocks=%ld entries=%ld broken=%u\n",
           descriptors > 0 ? descriptors : 0, blocks > 0 ? blocks : 0, entries,
           atomic_load(&control.broken));
    fflush(stdout);
    return descriptors <= 0 && blocks <= 0 && entries == 0 &&
           atomic_load(&control.broken) == 0;
}

/* ---- The process ----------------------------------------------------------------- */

static void on_stop(int number)
{
    (void)number;
    atomic_store(&control.stop, true);
}

static void on_storm(int number)
{
    (void)number;
}

static void signals_set(void)
{
    struct sigaction stop = { .sa_handler = on_stop };
    struct sigaction storm = { .sa_handler = on_storm }; /* no SA_RESTART */
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGUSR1, &storm, NULL);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

struct shared {
    struct resource *resources;
    struct notice *board;
    uint64_t *waiting;
};

static void shared_map(const struct orders *orders, struct shared *shared)
{
    char path[512];
    snprintf(path, sizeof path, "%s/waiting-%04u", orders->directory, orders->process);
    shared->resources = resources_map(orders->resources_path, orders->lock_count);
    shared->waiting = words_map(path, orders->threads);
    shared->board = NULL;
    snprintf(path, sizeof path, "%s-board", orders->resources_path);
    if (orders->moves & MOVE_ADOPT)
        shared->board = board_map(path, orders->lock_count);
    if (!shared->resources || !shared->waiting ||
        (!shared->board && orders->moves & MOVE_ADOPT)) {
        perror("worker: registers");
        exit(1);
    }
}

static void shared_unmap(const struct orders *orders, struct shared *shared)
{
    resources_unmap(shared->resources, orders->lock_count);
    words_unmap(shared->waiting, orders->threads);
    board_unmap(shared->board, orders->lock_count);
}

/* Before there is anything that run.py takes for a worker at work, whose descriptors it
 * may then take away. */
static void hands_prepare(const struct orders *orders, struct hand *hands)
{
    for (uint32_t i = 0; i < orders->threads; i++) {
        uint64_t mixed =
            orders->seed * 0x9e3779b97f4a7c15u + orders->process * 131u + i;
        hands[i] = (struct hand){ .orders = orders, .number = i + 1 };
        hands[i].random = mixed * 0xbf58476d1ce4e5b9u | 1;
        if (!hand_history(&hands[i]))
            exit(1);
    }
}

static void hands_start(const struct orders *orders, const struct shared *shared,
                        struct hand *hands, pthread_t *threads)
{
    for (uint32_t i = 0; i < orders->threads; i++) {
        struct hand *hand = &hands[i];
        hand->resources = shared->resources;
        hand->board = shared->board;
        hand->waiting = &shared->waiting[i];
        if (pthread_create(&hand->thread, NULL, hand_run, hand) != 0) {
            perror("worker: thread");
            exit(1);
        }
        threads[i] = hand->thread;
    }
}

int main(int argc, char **argv)
{
    static struct orders orders;
    static struct hand hands[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    struct shared shared;
    struct pulse pulse;
    char stop_path[512];
    bool ok = true;

    orders_read(&orders, argc, argv);
    signals_set();
    snprintf(stop_path, sizeof stop_path, "%s/stop", orders.directory);
    hands_prepare(&orders, hands);
    pulse_start(&pulse, &orders);
    shared_map(&orders, &shared);
    struct belongings before = belongings_before(&orders);
    hands_start(&orders, &shared, hands, threads);
    control_run(stop_path, threads, orders.threads);
    for (uint32_t i = 0; i < orders.threads; i++) {
        pthread_join(hands[i].thread, NULL);
        ok &= !hands[i].failed;
    }
    pulse_stop(&pulse);
    ok &= residue_tell(&orders, hands, before);
    for (uint32_t i = 0; i < orders.threads; i++)
        history_close(hands[i].history);
    shared_unmap(&orders, &shared);
    return ok ? 0 : 1;
}
