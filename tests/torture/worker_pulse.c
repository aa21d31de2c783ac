/* SPDX-License-Identifier: MIT */
/*
 * The pulse of a worker: a thread that does nothing but wake up, and writes down when
 * it could not (H_STALL), into a history of its own.
 *
 * Where the machine has more to do than it can, a timeout may be the scheduler's doing
 * and not the lock's; lockcheck has to know. The thread asks nothing of the library.
 */
#include "worker.h"

#include <stdio.h>
#include <time.h>

#include "control.h"

#define BEAT_NS UINT64_C(10000000)
#define LATE_NS UINT64_C(10000000)
#define PULSE_EVENTS (1u << 18)

static void *pulse_run(void *arg)
{
    struct history *history = arg;
    const struct timespec beat = { .tv_nsec = BEAT_NS };
    uint64_t last = history_now();
    while (!atomic_load(&control.stop) && !history_full(history)) {
        nanosleep(&beat, NULL); /* pause: whether it lasts longer is what is asked */
        struct history_event event = { .op = H_STALL, .phase = H_RETURN };
        event.value = last + BEAT_NS;
        event.t_ns = last = history_now();
        if (event.t_ns > event.value + LATE_NS)
            history_add(history, event);
    }
    return NULL;
}

void pulse_start(struct pulse *pulse, const struct orders *orders)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%04u-pulse.hist", orders->directory,
             orders->process);
    pulse->history =
        history_create(path, orders->process, 0, PULSE_EVENTS, orders->label);
    pulse->runs = pulse->history &&
                  pthread_create(&pulse->thread, NULL, pulse_run, pulse->history) == 0;
    if (!pulse->runs)
        perror("worker: pulse");
}

void pulse_stop(struct pulse *pulse)
{
    if (pulse->runs)
        pthread_join(pulse->thread, NULL);
    if (pulse->history)
        history_close(pulse->history);
}
