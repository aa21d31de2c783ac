/* SPDX-License-Identifier: MIT */
/*
 * When faults were felt: from their beginning until a grace after their end.
 *
 * Filled while histories are read; then settled once into disjoint windows in order, in
 * which one lookup is a binary search.
 */
#include "book.h"

#include <stdlib.h>

void window_open(struct check *check, const struct history_event *event)
{
    check->windows = more(check->windows, check->window_count, &check->window_room,
                          sizeof *check->windows);
    check->windows[check->window_count++] = (struct window){
        .begin = event->t_ns,
        .end = NEVER,
        .number = event->value,
        .thread = (uint32_t)check->thread_count - 1,
    };
    check->report.faults++;
    check->report.faults_by[event->kind]++;
}

void window_close(struct check *check, const struct history_event *event)
{
    for (size_t i = check->window_count; i-- > 0;) {
        struct window *window = &check->windows[i];
        if (window->thread == check->thread_count - 1 && window->end == NEVER &&
            window->number == event->value) {
            window->end = event->t_ns;
            return;
        }
    }
    window_open(check, event);
    check->windows[check->window_count - 1].end = event->t_ns;
}

static int window_compare(const void *left, const void *right)
{
    const struct window *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

void windows_settle(struct check *check)
{
    size_t kept = 0;
    if (check->window_count)
        qsort(check->windows, check->window_count, sizeof *check->windows,
              window_compare);
    for (size_t i = 0; i < check->window_count; i++) {
        struct window window = check->windows[i];
        if (window.end != NEVER)
            window.end += check->options.grace_ns;
        struct window *last = kept ? &check->windows[kept - 1] : NULL;
        if (!last || last->end < window.begin)
            check->windows[kept++] = window;
        else if (last->end < window.end)
            last->end = window.end;
    }
    check->window_count = kept;
}

bool windows_meet(const struct check *check, uint64_t begin, uint64_t end)
{
    size_t low = 0, high = check->window_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (check->windows[middle].end < begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low < check->window_count && check->windows[low].begin <= end;
}
