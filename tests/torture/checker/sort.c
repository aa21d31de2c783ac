/* SPDX-License-Identifier: MIT */
/*
 * Sorting by key: a merge sort that begins with the runs that are there.
 *
 * The items of a lock come thread by thread, and within a thread in the order of time:
 * a few long runs. Orders by other keys start from one by time, which they resemble:
 * many short runs, of which neighbours hardly overlap, so that merging is copying. Keys
 * are taken out of their items first and move together with the indices, in arrays of
 * their own, because an item is a cache line and most of it is of no interest here.
 */
#include "book.h"

#include <stdlib.h>
#include <string.h>

struct column {
    uint64_t *key;
    uint32_t *index;
};

struct sorting {
    struct column from, to;
    uint32_t *runs; /* where they begin, and the end of the last */
    size_t run_count, run_room;
};

static struct column column_new(size_t count)
{
    return (struct column){ zeroed(count, sizeof(uint64_t)),
                            zeroed(count, sizeof(uint32_t)) };
}

static void run_add(struct sorting *sorting, size_t at)
{
    sorting->runs = more(sorting->runs, sorting->run_count, &sorting->run_room,
                         sizeof *sorting->runs);
    sorting->runs[sorting->run_count++] = (uint32_t)at;
}

static void runs_find(struct sorting *sorting, size_t count)
{
    const uint64_t *key = sorting->from.key;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || key[i] < key[i - 1])
            run_add(sorting, i);
    run_add(sorting, count);
}

/* The first of [left, right) whose key is above `key`, or not below it. */
static size_t run_find(const struct sorting *sorting, size_t left, size_t right,
                       uint64_t key, bool above)
{
    while (left < right) {
        size_t middle = left + (right - left) / 2;
        uint64_t other = sorting->from.key[middle];
        if (other < key || (above && other == key))
            left = middle + 1;
        else
            right = middle;
    }
    return left;
}

static void run_copy(struct sorting *sorting, size_t to, size_t from, size_t end)
{
    size_t count = end - from;
    memcpy(sorting->to.key + to, sorting->from.key + from, count * sizeof(uint64_t));
    memcpy(sorting->to.index + to, sorting->from.index + from,
           count * sizeof(uint32_t));
}

/* Merges where the two overlap; copies what is before and after. Which of the two is
 * next nobody can foretell: hence no branch. */
static void runs_merge(struct sorting *sorting, size_t left, size_t middle, size_t end)
{
    const struct column from = sorting->from, to = sorting->to;
    if (middle == end) {
        run_copy(sorting, left, left, end);
        return;
    }
    size_t first = run_find(sorting, left, middle, from.key[middle], true);
    size_t last = run_find(sorting, middle, end, from.key[middle - 1], false);
    size_t right = middle, at = first;

    run_copy(sorting, left, left, first);
    run_copy(sorting, last, last, end);
    while (first < middle && right < last) {
        bool later = from.key[right] < from.key[first];
        size_t next = later ? right : first;
        to.key[at] = from.key[next];
        to.index[at++] = from.index[next];
        right += later;
        first += !later;
    }
    run_copy(sorting, at, first, middle);
    run_copy(sorting, at + (middle - first), right, last);
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
        sorting->runs[kept++] = (uint32_t)begin;
    }
    sorting->runs[kept++] = sorting->runs[runs];
    sorting->run_count = kept;
    struct column swap = sorting->from;
    sorting->from = sorting->to;
    sorting->to = swap;
}

uint32_t *order_by(const void *items, size_t count, size_t size, size_t offset,
                   const uint32_t *start)
{
    const char *keys = (const char *)items + offset;
    struct sorting sorting = { .from = column_new(count) };

    for (size_t i = 0; i < count; i++) {
        sorting.from.index[i] = start ? start[i] : (uint32_t)i;
        memcpy(&sorting.from.key[i], keys + sorting.from.index[i] * size,
               sizeof(uint64_t));
    }
    runs_find(&sorting, count);
    if (sorting.run_count > 2)
        sorting.to = column_new(count);
    while (sorting.run_count > 2)
        runs_halve(&sorting);
    free(sorting.from.key);
    free(sorting.to.key);
    free(sorting.to.index);
    free(sorting.runs);
    return sorting.from.index;
}
