/* SPDX-License-Identifier: MIT */
/*
 * What happened: calls counted, events kept, violations told.
 *
 * Everything here is atomic or belongs to the calling thread's lane, so that it may be
 * called with or without the model's lock, in callbacks and in forked children. The
 * last events of each lane lie in shared memory and outlive their process.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "storm.h"

#define SHOWN_MAX 20
#define LONG_RUN 300000 /* calls after which every function must be among them */

static const char *const function_names[] = {
#define FUNCTION_NAME(name) "hf_" #name,
    FUNCTIONS(FUNCTION_NAME)
#undef FUNCTION_NAME
};

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

const char *code_name(int rc)
{
    return rc == 0 ? "0" : hf_error_name(rc);
}

int called(enum function function, int rc)
{
    int slot = rc > 0 ? 0 : -rc;
    atomic_fetch_add_explicit(&world->calls[function], 1, memory_order_relaxed);
    if (slot < CODES)
        atomic_fetch_add_explicit(&world->codes[slot], 1, memory_order_relaxed);
    return rc;
}

bool is_weather(int rc, int64_t began_ns)
{
    if (rc != HF_EUNCERTAIN && rc != HF_EUNREACHABLE)
        return false;
    if (world->config.lossy)
        return true;
    if (now_ns() - began_ns < 2000 * NS_PER_MS)
        return false;
    atomic_fetch_add(&world->slow, 1);
    return true;
}

/* ---- Events ---------------------------------------------------------------------- */

static struct lane *lane_mine(void)
{
    int process = self ? self->number : PROCESSES_MAX - 1;
    return &world->lanes[process][seat_now ? seat_now->number : SEATS_MAX];
}

/* Callbacks of several clients share a lane: a text may then be torn, no more. */
void event(const char *format, ...)
{
    struct lane *lane = lane_mine();
    struct event *event = &lane->events[atomic_fetch_add(&lane->at, 1) % EVENTS_KEPT];
    va_list list;
    event->at_ns = now_ns();
    va_start(list, format);
    vsnprintf(event->text, sizeof event->text, format, list);
    va_end(list);
}

static void lane_show(int process, int number, size_t last)
{
    struct lane *lane = &world->lanes[process][number];
    unsigned at = atomic_load(&lane->at);
    unsigned from = at > last ? at - (unsigned)last : 0;
    if (at == 0)
        return;
    fprintf(stderr, "# process %d, %s %d:\n", process,
            number < SEATS_MAX ? "seat" : "callbacks", number);
    for (unsigned i = from; i < at; i++) {
        const struct event *event = &lane->events[i % EVENTS_KEPT];
        fprintf(stderr, "#   %9.3f  %s\n",
                (double)(event->at_ns - world->began_ns) / 1e9, event->text);
    }
}

void report_events(void)
{
    const char *last = getenv("STORM_EVENTS");
    size_t count = last ? (size_t)strtoul(last, NULL, 10) : 12;
    for (int process = 0; process < PROCESSES_MAX; process++)
        for (int number = 0; number < LANES; number++)
            lane_show(process, number, count < EVENTS_KEPT ? count : EVENTS_KEPT);
}

/* ---- Violations ------------------------------------------------------------------ */

static void tell(const char *what, const char *format, va_list list)
{
    char text[600];
    vsnprintf(text, sizeof text, format, list);
    dprintf(STDERR_FILENO, "# %9.3f process %d seat %d: %s: %s\n",
            (double)(now_ns() - world->began_ns) / 1e9, self ? self->number : -1,
            seat_now ? seat_now->number : -1, what, text);
}

/* The first one ends the run: what follows is often its echo. */
void violation(int check, const char *format, ...)
{
    char what[32];
    va_list list;
    if (atomic_fetch_add(&world->violations, 1) >= SHOWN_MAX)
        return;
    snprintf(what, sizeof what, "violation of S%d", check);
    va_start(list, format);
    tell(what, format, list);
    va_end(list);
    event("violation of S%d", check);
    if (!getenv("STORM_GO_ON"))
        atomic_store(&world->over, true);
}

void trouble(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tell("trouble", format, list);
    va_end(list);
    if (world)
        atomic_fetch_add(&world->troubles, 1);
    _exit(3);
}

/* ---- The end --------------------------------------------------------------------- */

/* Of latches and cells only where there is one; in bad weather a client whose turn it
 * would be may never have been opened. */
static bool is_due(int function, unsigned long long calls)
{
    const char *name = function_names[function];
    bool latch = false, cell = false;
    for (size_t i = 0; i < world->names_count; i++) {
        latch |= world->names[i].family == F_LATCH;
        cell |= world->names[i].family == F_CELL;
    }
    if ((strstr(name, "latch") && !latch) || (strstr(name, "cell") && !cell) ||
        (function == FN_free && !cell))
        return false;
    if (!(world->caps & HF_CAP_DETACH) &&
        (function == FN_adopt || function == FN_hold_leave))
        return false;
    return calls > LONG_RUN && world->config.kinds == K_ALL && !world->config.lossy;
}

static bool calls_show(void)
{
    bool all = true;
    unsigned long long calls = 0;
    printf("# calls:");
    for (int i = 0; i < FN_COUNT; i++)
        calls += atomic_load(&world->calls[i]);
    for (int i = 0; i < FN_COUNT; i++)
        printf("%s %s %llu", i % 5 ? "," : "\n#  ", function_names[i] + 3,
               (unsigned long long)atomic_load(&world->calls[i]));
    printf("\n# answers:");
    for (int i = 0; i < CODES; i++)
        if (atomic_load(&world->codes[i]))
            printf(" %s %llu", code_name(-i),
                   (unsigned long long)atomic_load(&world->codes[i]));
    printf("\n");
    for (int i = 0; i < FN_COUNT; i++)
        if (atomic_load(&world->calls[i]) == 0 && is_due(i, calls)) {
            printf("# %s was never called\n", function_names[i]);
            all = false;
        }
    return all;
}

bool report_end(void)
{
    const struct config *config = &world->config;
    bool all = calls_show();
    printf("# storm: store=%s seed=%llu seconds=%.1f steps=%llu grants=%llu "
           "reentries=%llu forks=%llu threads_ended=%llu evictions=%llu "
           "adoptions=%llu left=%llu closes=%llu old_tokens=%llu kills=%llu "
           "disputes=%llu late=%llu "
           "slow=%llu violations=%d\n",
           config->store, (unsigned long long)config->seed,
           (double)(now_ns() - world->began_ns) / 1e9,
           (unsigned long long)atomic_load(&world->steps),
           (unsigned long long)atomic_load(&world->grants),
           (unsigned long long)atomic_load(&world->reentries),
           (unsigned long long)atomic_load(&world->forks),
           (unsigned long long)atomic_load(&world->threads_ended),
           (unsigned long long)atomic_load(&world->evictions),
           (unsigned long long)atomic_load(&world->adoptions),
           (unsigned long long)atomic_load(&world->leaves),
           (unsigned long long)atomic_load(&world->closes),
           (unsigned long long)atomic_load(&world->old_tokens),
           (unsigned long long)atomic_load(&world->kills),
           (unsigned long long)atomic_load(&world->disputes_opened),
           (unsigned long long)atomic_load(&world->late),
           (unsigned long long)atomic_load(&world->slow),
           atomic_load(&world->violations));
    fflush(stdout);
    return all;
}
