/* SPDX-License-Identifier: MIT */
/*
 * When the machine did not run somebody: told by a thread of each worker that wakes up
 * every few milliseconds, and by one that asks the server as often.
 *
 * That is no fault, and nothing is exposed by it. But who is not run cannot ask, and a
 * server that is not run cannot answer, so that such time is not held against a lock
 * (K8, K10). Stalls of one source do not overlap.
 */
#include "book.h"

#include <stdlib.h>

void stall_note(struct check *check, const struct history_event *event)
{
    uint32_t process = check->threads[check->thread_count - 1].process;
    check->stalls = more(check->stalls, check->stall_count, &check->stall_room,
                         sizeof *check->stalls);
    check->stalls[check->stall_count++] = (struct stall){
        .begin = event->value < event->t_ns ? event->value : event->t_ns,
        .end = event->t_ns,
        .process = event->kind ? EVERYBODY : process,
    };
}

static int stall_compare(const void *left, const void *right)
{
    const struct stall *a = left, *b = right;
    if (a->process != b->process)
        return (a->process > b->process) - (a->process < b->process);
    return (a->end > b->end) - (a->end < b->end);
}

void stalls_settle(struct check *check)
{
    if (check->stall_count)
        qsort(check->stalls, check->stall_count, sizeof *check->stalls, stall_compare);
}

/* The first of `process` that ends after `t`, or where it would be. */
static size_t stall_after(const struct check *check, uint32_t process, uint64_t t)
{
    size_t low = 0, high = check->stall_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct stall *stall = &check->stalls[middle];
        if (stall->process < process || (stall->process == process && stall->end <= t))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t stalled_by(const struct check *check, uint32_t process, uint64_t begin,
                           uint64_t end)
{
    uint64_t sum = 0;
    for (size_t i = stall_after(check, process, begin); i < check->stall_count; i++) {
        const struct stall *stall = &check->stalls[i];
        if (stall->process != process || stall->begin >= end)
            break;
        uint64_t from = stall->begin > begin ? stall->begin : begin;
        sum += (stall->end < end ? stall->end : end) - from;
    }
    return sum;
}

uint64_t stalled(const struct check *check, uint32_t thread, uint64_t begin,
                 uint64_t end)
{
    return stalled_by(check, check->threads[thread].process, begin, end) +
           stalled_by(check, EVERYBODY, begin, end);
}
