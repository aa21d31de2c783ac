/* SPDX-License-Identifier: MIT */
/*
 * gen_history DIR [--count N] [--threads T] [--locks K] [--kind KIND] [--seed S]
 *
 * Writes histories of locks that keep their promises: N acquisitions by T threads on K
 * locks, with sights, both registers, busy answers and a fault now and then. For
 * measuring lockcheck and for trying it out. Each lock is a clock of its own that says
 * when it is free; the threads take turns.
 */
#include "../history.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_HOLD 8 /* events, at most */

struct settings {
    uint64_t count, threads, locks, seed;
    uint8_t kind;
    const char *directory;
};

struct made_lock {
    uint64_t free; /* nobody has it from then on */
    uint64_t token, fenced, plain;
};

struct made_thread {
    struct history *history;
    uint64_t now;
    uint32_t hold;
};

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed % below;
}

static void put(struct made_thread *thread, struct history_event event)
{
    event.t_ns = thread->now;
    if (!history_add(thread->history, event)) {
        fprintf(stderr, "gen_history: a history is full\n");
        exit(2);
    }
}

/* One hold of `lock`, which is free when it begins; one in eight tries in vain first,
 * inside the hold before. */
static void hold_make(const struct settings *settings, struct made_thread *thread,
                      struct made_lock *lock, uint32_t number, uint64_t *seed)
{
    struct history_event event = {
        .lock = number, .kind = settings->kind, .permits = 1, .limit = 1
    };
    event.hold = ++thread->hold;
    event.op = H_ACQUIRE;
    event.phase = H_INVOKE;
    put(thread, event);
    event.phase = H_RETURN;
    if (thread->now < lock->free && draw(seed, 8) == 0) {
        event.result = H_BUSY;
        put(thread, event);
        event.hold = ++thread->hold;
        event.result = 0;
        event.phase = H_INVOKE;
        put(thread, event);
        event.phase = H_RETURN;
    }
    if (thread->now < lock->free)
        thread->now = lock->free;
    thread->now += 1 + draw(seed, 200);
    event.result = H_OK;
    event.token = ++lock->token;
    event.until_ns = thread->now + UINT64_C(30000000000);
    put(thread, event);

    thread->now += draw(seed, 300);
    event.op = H_SEEN;
    put(thread, event);
    event.op = H_REGISTER;
    event.value = ++lock->fenced;
    put(thread, event);
    event.op = H_PLAIN;
    event.value = ++lock->plain;
    put(thread, event);

    event.value = 0;
    event.until_ns = 0;
    event.op = H_RELEASE;
    event.phase = H_INVOKE;
    put(thread, event);
    lock->free = thread->now + draw(seed, 100);
    thread->now += 100 + draw(seed, 100);
    event.phase = H_RETURN;
    put(thread, event);
    thread->now += draw(seed, 1000);
}

static struct history *history_make(const struct settings *settings, uint32_t process,
                                    uint32_t thread, uint64_t capacity)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/p%u-t%u.hist", settings->directory, process,
             thread);
    struct history *history =
        history_create(path, process, thread, capacity, "gen_history");
    if (!history) {
        fprintf(stderr, "gen_history: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    return history;
}

/* The one who breaks things and takes stock; process 0. */
static void nemesis_make(const struct settings *settings, uint64_t from, uint64_t to,
                         const struct made_lock *locks)
{
    struct made_thread nemesis = { .history = history_make(settings, 0, 0, 1 << 20) };
    uint64_t step = (to - from) / 400 + 1;

    for (uint64_t i = 1; i <= 300; i++) {
        struct history_event event = { .op = H_FAULT, .phase = H_INVOKE, .value = i };
        event.kind = (uint8_t)(i % 12 + 1);
        nemesis.now = from + i * step;
        put(&nemesis, event);
        nemesis.now += step / 4;
        event.phase = H_RETURN;
        put(&nemesis, event);
    }
    put(&nemesis, (struct history_event){ .op = H_HEAL, .phase = H_RETURN });
    for (uint32_t i = 0; i < settings->locks; i++)
        put(&nemesis, (struct history_event){ .op = H_FINAL,
                                              .phase = H_RETURN,
                                              .lock = i,
                                              .token = locks[i].token,
                                              .value = locks[i].fenced,
                                              .until_ns = locks[i].plain });
    put(&nemesis, (struct history_event){ .op = H_RESIDUE, .phase = H_RETURN });
    history_close(nemesis.history);
}

static void campaign_make(struct settings *settings)
{
    struct made_thread *threads = calloc(settings->threads, sizeof *threads);
    struct made_lock *locks = calloc(settings->locks, sizeof *locks);
    uint64_t start = UINT64_C(1000000000), end = start;
    uint64_t room = (settings->count / settings->threads + 2) * PER_HOLD * 5 / 4;

    if (!threads || !locks)
        exit(2);
    for (uint32_t i = 0; i < settings->threads; i++) {
        threads[i].history = history_make(settings, 1 + i / 8, i % 8, room);
        threads[i].now = start + i;
    }
    for (uint64_t i = 0; i < settings->count; i++) {
        uint32_t lock = (uint32_t)draw(&settings->seed, settings->locks);
        struct made_thread *thread = &threads[i % settings->threads];
        hold_make(settings, thread, &locks[lock], lock, &settings->seed);
    }
    for (uint32_t i = 0; i < settings->threads; i++) {
        put(&threads[i], (struct history_event){ .op = H_END, .phase = H_RETURN });
        end = threads[i].now > end ? threads[i].now : end;
        history_close(threads[i].history);
    }
    nemesis_make(settings, start, end, locks);
    free(threads);
    free(locks);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "count", required_argument, NULL, 'c' },
        { "threads", required_argument, NULL, 't' },
        { "locks", required_argument, NULL, 'l' },
        { "kind", required_argument, NULL, 'k' },
        { "seed", required_argument, NULL, 's' },
        { 0 },
    };
    struct settings settings = { 100000, 32, 8, 1, H_MUTEX, NULL };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint64_t number = optarg ? strtoull(optarg, NULL, 10) : 0;
        if (option == 'c')
            settings.count = number;
        else if (option == 't')
            settings.threads = number ? number : 1;
        else if (option == 'l')
            settings.locks = number ? number : 1;
        else if (option == 'k')
            settings.kind = (uint8_t)number;
        else if (option == 's')
            settings.seed = number ? number : 1;
    }
    settings.directory = argv[optind];
    if (!settings.directory) {
        fprintf(stderr, "usage: gen_history DIR [--count N] [--threads T]"
                        " [--locks K] [--kind 1..6] [--seed S]\n");
        return 2;
    }
    campaign_make(&settings);
    return 0;
}
