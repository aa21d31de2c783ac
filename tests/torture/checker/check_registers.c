/* SPDX-License-Identifier: MIT */
/*
 * K4, the fenced register, and K5, the plain one.
 *
 * Both are counters: whoever is inside reads v and writes v + 1. If no update is lost,
 * each value is written once and the last is the number of writes. So accepted writes
 * are kept by value: one that is there already was lost, and in the order of values the
 * tokens never fall.
 *
 * A worker that was killed may have written once more than it wrote down; the final
 * value may be larger by as many as did not end in order, and no more.
 */
#include "book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX (UINT64_C(1) << 26)

/* By a quarter, not double: unlike other tables this one is cleared, and so costs
 * memory where nothing was written. */
static void *stretch(void *items, size_t *room, size_t index, size_t size)
{
    if (index < *room)
        return items;
    size_t wide = *room + *room / 4 + 64;
    if (wide <= index)
        wide = index + 1;
    char *wider = realloc(items, wide * size);
    if (!wider) {
        fprintf(stderr, "lockcheck: out of memory\n");
        exit(2);
    }
    memset(wider + *room * size, 0, (wide - *room) * size);
    *room = wide;
    return wider;
}

void register_done(struct writes *writes)
{
    free(writes->by_value);
    free(writes->written);
    writes->by_value = NULL;
    writes->written = NULL;
    writes->room = 0;
}

static uint32_t writer_of(const struct write *write)
{
    return (write->writer >> WRITE_GROUP_BITS) - 1;
}

static enum check_group writer_group(const struct write *write)
{
    return write->writer & ((1 << WRITE_GROUP_BITS) - 1);
}

static uint64_t write_token(const struct write *write)
{
    return (uint64_t)write->token[1] << 32 | write->token[0];
}

/* Whether K5 has a say is known only when all has been read: so this is kept. */
static void write_twice(struct check *check, struct writes *writes, uint64_t value,
                        enum check_group group)
{
    if (writes->twice < CHECK_EXAMPLES)
        writes->examples[writes->twice] = (struct twice){
            .value = value,
            .thread = (uint32_t)check->thread_count - 1,
        };
    writes->twice++;
    writes->twice_by[group]++;
}

/* False if the value was there. */
static bool fenced_put(const struct check *check, struct writes *writes, uint64_t value,
                       uint64_t token, enum check_group group)
{
    writes->by_value =
        stretch(writes->by_value, &writes->room, value, sizeof *writes->by_value);
    struct write *write = &writes->by_value[value];
    if (write->writer)
        return false;
    write->writer = (uint32_t)check->thread_count << WRITE_GROUP_BITS | (uint32_t)group;
    write->token[0] = (uint32_t)token;
    write->token[1] = (uint32_t)(token >> 32);
    return true;
}

static bool plain_put(struct writes *writes, uint64_t value)
{
    uint64_t bit = UINT64_C(1) << value % 64;
    writes->written =
        stretch(writes->written, &writes->room, value / 64, sizeof *writes->written);
    if (writes->written[value / 64] & bit)
        return false;
    writes->written[value / 64] |= bit;
    return true;
}

/* Tables are large and values far apart: the processor is told of several before the
 * first of them is needed. */
void register_flush(struct check *check)
{
    for (size_t i = 0; i < check->pending_count; i++) {
        const struct pending *pending = &check->pending[i];
        struct writes *writes = &check->locks[pending->lock].fenced;
        if (!fenced_put(check, writes, pending->value, pending->token, pending->group))
            write_twice(check, writes, pending->value, pending->group);
    }
    check->pending_count = 0;
}

static void fenced_later(struct check *check, const struct lock *lock, uint64_t value,
                         uint64_t token, enum check_group group)
{
    if (check->pending_count == PENDING_MAX)
        register_flush(check);
    if (value < lock->fenced.room)
        __builtin_prefetch(&lock->fenced.by_value[value], 1);
    check->pending[check->pending_count++] =
        (struct pending){ lock->number, group, value, token };
}

static void write_put(struct check *check, struct lock *lock,
                      const struct history_event *event, enum check_group group)
{
    bool fenced = event->op == H_REGISTER;
    struct writes *writes = fenced ? &lock->fenced : &lock->plain;
    uint64_t value = event->value;

    writes->count++;
    if (value == 0 || value >= VALUE_MAX) {
        finding(check, fenced ? K4_FENCED : K5_PLAIN, group,
                "lock %u: %llu written, which is no count", lock->number,
                (unsigned long long)value);
        return;
    }
    if (value > writes->top) {
        writes->top = value;
        writes->top_group = group;
    }
    if (fenced)
        fenced_later(check, lock, value, event->token, group);
    else if (!plain_put(writes, value))
        write_twice(check, writes, value, group);
}

/* Only who excludes others of its kind has the plain register to itself. */
static bool shares(const struct history_event *event, uint8_t kind)
{
    return kind == H_READ ||
           (kind == H_PERMITS && 2 * (uint32_t)event->permits <= event->limit);
}

void register_write(struct check *check, struct lock *lock,
                    const struct history_event *event, uint8_t kind)
{
    struct check_totals *totals = totals_of(check, kind);

    if (event->op == H_REGISTER) {
        totals->rejected += event->result == H_REJECTED;
        if (event->result != H_OK || event->token == 0)
            return;
        totals->fenced++;
    } else if (shares(event, kind)) {
        lock->shared = true;
    }
    write_put(check, lock, event, group_of(kind));
}

static uint64_t unfinished(const struct check *check)
{
    uint64_t count = 0;
    for (size_t i = 0; i < check->thread_count; i++)
        count += check->threads[i].worker && !check->threads[i].ended;
    return count;
}

static uint64_t *lost_total(struct check *check, enum check_id id,
                            enum check_group group)
{
    struct check_totals *totals = &check->report.by[group];
    return id == K4_FENCED ? &totals->lost_fenced : &totals->lost_plain;
}

static void twice_check(struct check *check, const struct lock *lock,
                        const struct writes *writes, enum check_id id)
{
    uint64_t seen = 0;
    for (enum check_group group = 0; group < GROUPS; group++) {
        *lost_total(check, id, group) += writes->twice_by[group];
        for (uint64_t i = 0; i < writes->twice_by[group]; i++, seen++) {
            struct twice twice = writes->examples[seen % CHECK_EXAMPLES];
            finding(check, id, group,
                    "lock %u: update lost: %s wrote %llu, which was written before",
                    lock->number, say_thread(check, twice.thread).text,
                    (unsigned long long)twice.value);
        }
    }
}

/* Beyond writes that were seen twice: what the final value lacks. */
static uint64_t lost_at_end(const struct writes *writes, uint64_t final)
{
    uint64_t lost = writes->count > final ? writes->count - final : 0;
    return lost > writes->twice ? lost - writes->twice : 0;
}

static void final_check(struct check *check, const struct lock *lock,
                        const struct writes *writes, enum check_id id, uint64_t final)
{
    enum check_group group = writes->top_group;
    uint64_t lost = lost_at_end(writes, final), spare = unfinished(check);
    uint64_t distinct = writes->count - writes->twice;

    for (uint64_t i = 0; i < lost; i++)
        finding(check, id, group, "lock %u: %llu writes, but the register says %llu",
                lock->number, (unsigned long long)writes->count,
                (unsigned long long) final);
    *lost_total(check, id, group) += lost;
    if (final > distinct && final - distinct > spare)
        finding(check, id, group,
                "lock %u: the register says %llu, of which %llu are written down",
                lock->number, (unsigned long long) final, (unsigned long long)distinct);
}

static void falls_check(struct check *check, const struct lock *lock)
{
    const struct writes *writes = &lock->fenced;
    uint64_t top = 0, top_value = 0;

    for (uint64_t value = 1; value <= writes->top; value++) {
        const struct write *write = &writes->by_value[value];
        if (!write->writer)
            continue;
        if (write_token(write) < top)
            finding(check, K4_FENCED, writer_group(write),
                    "lock %u: %llu was accepted with token %llu from %s, though "
                    "%llu had been with %llu",
                    lock->number, (unsigned long long)value,
                    (unsigned long long)write_token(write),
                    say_thread(check, writer_of(write)).text,
                    (unsigned long long)top_value, (unsigned long long)top);
        else
            top = write_token(write), top_value = value;
    }
    if (lock->ended && lock->final_token < top)
        finding(check, K4_FENCED, writes->top_group,
                "lock %u: the register ended at token %llu, below the accepted %llu",
                lock->number, (unsigned long long)lock->final_token,
                (unsigned long long)top);
}

void check_registers(struct check *check, struct lock *lock)
{
    struct check_finding *k4 = &check->report.checks[K4_FENCED];
    struct check_finding *k5 = &check->report.checks[K5_PLAIN];

    k4->examined += lock->fenced.count;
    k4->applicable = k4->examined > 0;
    twice_check(check, lock, &lock->fenced, K4_FENCED);
    falls_check(check, lock);
    if (lock->ended && lock->fenced.count)
        final_check(check, lock, &lock->fenced, K4_FENCED, lock->final_fenced);
    if (lock->shared)
        return;
    k5->examined += lock->plain.count;
    k5->applicable = k5->examined > 0;
    twice_check(check, lock, &lock->plain, K5_PLAIN);
    if (lock->ended && lock->plain.count)
        final_check(check, lock, &lock->plain, K5_PLAIN, lock->final_plain);
}
