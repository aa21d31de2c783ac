/* SPDX-License-Identifier: MIT */
/*
 * Sorting by key: a merge sort that begins with the runs that are there.
 *
 * The items of a lock come thread by thread, and within a thread in the order of time:
 * a few long runs. Orders by other keys start from one by time, which they resemble:
 * many short runs, of which neighbours hardly overlap, so that merging is copying. All
 * this needs two arrays of indices; sorting keys would need four times the memory.
 */
#include "book.h"

#include <stdlib.h>
#include <string.h>

struct sorting {
    const char *keys;
    size_t size;
    uint32_t *from, *to;
    uint32_t *runs; /* where they begin, and the end of the last */
    size_t run_count, run_room;
};

static uint64_t key_of(const struct sorting *sorting, uint32_t index)
{
    uint64_t key;
    memcpy(&key, sorting->keys + index * sorting->size, sizeof key);
    return key;
}

static void run_add(struct sorting *sorting, size_t at)
{
    sorting->runs = more(sorting->runs, sorting->run_count, &sorting->run_room,
                         sizeof *sorting->runs);
    sorting->runs[sorting->run_count++] = (uint32_t)at;
}

static void runs_find(struct sorting *sorting, size_t count)
{
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t key = key_of(sorting, sorting->from[i]);
        if (i == 0 || key < last)
            run_add(sorting, i);
        last = key;
    }
    run_add(sorting, count);
}

/* The first of [left, right) whose key is above `key`, or not below it. */
static size_t run_find(const struct sorting *sorting, size_t left, size_t right,
                       uint64_t key, bool above)
{
    while (left < right) {
        size_t middle = left + (right - left) / 2;
        uint64_t other = key_of(sorting, sorting->from[middle]);
        if (other < key || (above && other == key))
            left = middle + 1;
        else
            right = middle;
    }
    return left;
}

static void run_copy(struct sorting *sorting, size_t to, size_t from, size_t end)
{
    memcpy(sorting->to + to, sorting->from + from, (end - from) * sizeof(uint32_t));
}

/* Merges where the two overlap; copies what is before and after. */
static void runs_merge(struct sorting *sorting, size_t left, size_t middle, size_t end)
{
    const uint32_t *from = sorting->from;
    if (middle == end) {
        run_copy(sorting, left, left, end);
        return;
    }
    uint64_t right_key = key_of(sorting, from[middle]);
    size_t first = run_find(sorting, left, middle, right_key, true);
    uint64_t last_key = key_of(sorting, from[middle - 1]);
    size_t last = run_find(sorting, middle, end, last_key, false);
    size_t right = middle, to = first;

    run_copy(sorting, left, left, first);
    run_copy(sorting, last, last, end);
    uint64_t left_key = first < middle ? key_of(sorting, from[first]) : 0;
    while (first < middle && right < last) {
        if (left_key <= right_key) {
            sorting->to[to++] = from[first++];
            if (first < middle)
                left_key = key_of(sorting, from[first]);
        } else {
            sorting->to[to++] = from[right++];
            if (right < last)
                right_key = key_of(sorting, from[right]);
        }
    }
    run_copy(sorting, to, first, middle);
    run_copy(sorting, to + (middle - first), right, last);
}

/* Merges neighbours, two by two; the last may be left over. */
static void runs_halve(struct sorting *sorting)
{
    size_t runs = sorting->run_count - 1, kept = 0;
    for (size_t i = 0; i < runs; i += 2) {
        size_t middle = sorting->runs[i + 1];
        size_t end = i + 2 <= runs ? sorting->runs[i + 2] : middle;
        size_t begin = sorting->runs[i];
        runs_merge(sorting, begin, middle, end);
        sorting->runs[kept++] = begin;
    }
    sorting->runs[kept++] = sorting->runs[runs];
    sorting->run_count = kept;
    uint32_t *swap = sorting->from;
    sorting->from = sorting->to;
    sorting->to = swap;
}

uint32_t *order_by(const void *items, size_t count, size_t size, size_t offset,
                   const uint32_t *start)
{
    struct sorting sorting = { .keys = (const char *)items + offset, .size = size };

    sorting.from = zeroed(count, sizeof *sorting.from);
    for (size_t i = 0; i < count; i++)
        sorting.from[i] = start ? start[i] : (uint32_t)i;
    runs_find(&sorting, count);
    if (sorting.run_count > 2)
        sorting.to = zeroed(count, sizeof *sorting.to);
    while (sorting.run_count > 2)
        runs_halve(&sorting);
    free(sorting.to);
    free(sorting.runs);
    return sorting.from;
}
