/* SPDX-License-Identifier: MIT */
/*
 * sim --seeds A-B [--store mem|fault|lease|all] [--acquisitions N] [--mutant NAME]
 * sim --replay SEED [--verbose] ...
 *
 * Runs each seed, one after the other, and ends with a line of figures per store. On a
 * violation it prints the seed, what was wrong, and the last events, and exits with 1.
 * The hash covers every event of every seed: two runs of the same seeds agree in it.
 */
#include "sim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../src/shims/fault.h"

enum { EVENTS_KEPT = 40 };

struct event {
    int64_t at;
    enum event_kind kind;
    int client, actor;
    uint64_t a, b;
};

static const char *const event_names[] = {
#define EVENT_NAME(name) #name,
    EVENTS(EVENT_NAME)
#undef EVENT_NAME
};
static const char *const store_names[] = { "mem", "fault", "lease" };
extern const struct hf_backend hf__backend_memory;

struct count count;
bool verbose;
static struct event events[EVENTS_KEPT];
static uint64_t event_count;
static char wrong[256];

/* ---- what happened --------------------------------------------------------------- */

static void event_print(FILE *out, const struct event *event)
{
    fprintf(out, "%14.6f  %-9s %d.%d  %" PRIu64 " %" PRId64 "\n",
            (double)event->at / 1e6, event_names[event->kind], event->client,
            event->actor, event->a, (int64_t)event->b);
}

static void hash_add(uint64_t word)
{
    count.hash = (count.hash ^ word) * UINT64_C(0x100000001b3);
    count.hash ^= count.hash >> 29;
}

void trace(enum event_kind kind, int client, int actor, uint64_t a, uint64_t b)
{
    if (wrong[0])
        return; /* what led there is what counts */
    struct event *event = &events[event_count++ % EVENTS_KEPT];
    *event = (struct event){ sim_now, kind, client, actor, a, b };
    hash_add((uint64_t)sim_now);
    hash_add((uint64_t)kind << 32 | (uint64_t)client << 8 | (uint64_t)actor);
    hash_add(a);
    hash_add(b);
    if (verbose)
        event_print(stdout, event);
}

void violation(const char *format, ...)
{
    va_list args;
    if (wrong[0])
        return;
    va_start(args, format);
    vsnprintf(wrong, sizeof(wrong), format, args);
    va_end(args);
}

bool violated(void)
{
    return wrong[0] != '\0';
}

static void report_violation(const struct settings *settings)
{
    uint64_t from = event_count > EVENTS_KEPT ? event_count - EVENTS_KEPT : 0;
    printf("sim: store=%s seed=%" PRIu64 " event=%" PRIu64 " violation: %s\n",
           store_names[settings->store], settings->seed, event_count, wrong);
    printf("sim: replay with --store %s --replay %" PRIu64 " --acquisitions %" PRIu64
           "%s%s\n",
           store_names[settings->store], settings->seed, settings->goal,
           mutant ? " --mutant " : "", mutant ? mutant_names[mutant] : "");
    for (uint64_t i = from; i < event_count && !verbose; i++)
        event_print(stdout, &events[i % EVENTS_KEPT]);
    printf("sim: trace=%016" PRIx64 "\n", count.hash);
}

/* ---- runs ------------------------------------------------------------------------ */

struct command {
    uint64_t first, last, goal;
    int store; /* SIM_STORES: all */
};

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static bool run_store(const struct command *command, enum sim_store store)
{
    struct settings settings;
    double began = cpu_seconds();
    memset(&count, 0, sizeof(count));
    for (uint64_t seed = command->first; seed <= command->last; seed++) {
        event_count = 0;
        os_reset(seed * SIM_STORES + store);
        settings_draw(&settings, store, seed, command->goal);
        if (sim_run(&settings))
            continue;
        report_violation(&settings);
        return false;
    }
    double took = cpu_seconds() - began;
    printf("sim: store=%s seeds=%" PRIu64 " acquisitions=%" PRIu64 " exposed=%" PRIu64
           " offers=%" PRIu64 " handoffs=%" PRIu64 " evicted=%" PRIu64
           " adopted=%" PRIu64 " switches=%" PRIu64 " faults=%" PRIu64
           " violations=0 virtual_s=%" PRId64 " rate=%.0f/s trace=%016" PRIx64 "\n",
           store_names[store], command->last - command->first + 1, count.acquisitions,
           count.exposed, count.offers, count.handoffs, count.evicted, count.adopted,
           count.switches, count.faults, count.virtual_ns / SECOND,
           (double)count.acquisitions / (took > 0.001 ? took : 0.001), count.hash);
    fflush(stdout);
    return true;
}

static int find_word(const char *word, const char *const *words, int many)
{
    for (int i = 0; word && i < many; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

static bool read_number(const char *text, uint64_t *ret_number, char **ret_end)
{
    errno = 0;
    *ret_number = text ? strtoull(text, ret_end, 10) : 0;
    return text && errno == 0 && *ret_end != text;
}

static bool read_option(struct command *command, const char *option, const char *value)
{
    char *end = NULL;
    if (strcmp(option, "--seeds") == 0)
        return read_number(value, &command->first, &end) && *end == '-' &&
               read_number(end + 1, &command->last, &end) && !*end;
    if (strcmp(option, "--replay") == 0) {
        bool fine = read_number(value, &command->first, &end) && !*end;
        command->last = command->first;
        return fine;
    }
    if (strcmp(option, "--acquisitions") == 0)
        return read_number(value, &command->goal, &end) && !*end && command->goal;
    if (strcmp(option, "--store") == 0) {
        command->store = find_word(value, store_names, SIM_STORES);
        if (value && strcmp(value, "all") == 0)
            command->store = SIM_STORES;
        return command->store >= 0;
    }
    int found = find_word(value, mutant_names, MUTANTS);
    mutant = found > 0 ? (enum mutant)found : MUTANT_NONE;
    return strcmp(option, "--mutant") == 0 && found >= 0;
}

int main(int argc, char **argv)
{
    struct command command = { 1, 100, 1000, SIM_STORES };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;
        } else if (!read_option(&command, argv[i], argv[i + 1])) {
            fprintf(stderr,
                    "usage: sim [--seeds A-B | --replay SEED] [--store "
                    "mem|fault|lease|all]\n           [--acquisitions N] [--mutant "
                    "NAME] [--verbose]\n");
            return 2;
        } else {
            i++;
        }
    }
    threads_init();
    if (hf_backend_register(&sim_backend, NULL) != 0 ||
        hf__fault_register(&hf__backend_memory, NULL) != 0)
        return 2;
    for (int store = 0; store < SIM_STORES; store++)
        if (command.store == SIM_STORES || command.store == store)
            if (!run_store(&command, (enum sim_store)store))
                return 1;
    return 0;
}
