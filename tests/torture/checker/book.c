/* SPDX-License-Identifier: MIT */
/*
 * The tables of the checker, and how it speaks of what is in them: see book.h.
 *
 * Tables grow by doubling; for large ones realloc() moves pages instead of bytes and
 * what was not touched costs nothing, so that growth is cheap in time and memory.
 */
#include "book.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCKS_MAX (1u << 20)

static void out_of_memory(void)
{
    fprintf(stderr, "lockcheck: out of memory\n");
    exit(2);
}

void *more(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    *room = *room ? *room * 2 : 16;
    items = realloc(items, *room * size);
    if (!items)
        out_of_memory();
    return items;
}

void *zeroed(size_t count, size_t size)
{
    void *items = calloc(count ? count : 1, size);
    if (!items)
        out_of_memory();
    return items;
}

struct lock *lock_get(struct check *check, uint32_t number)
{
    if (number >= LOCKS_MAX) {
        fprintf(stderr, "lockcheck: there is no lock %u\n", number);
        exit(2);
    }
    if (number >= check->lock_count) {
        size_t count = number + 1;
        check->locks = realloc(check->locks, count * sizeof *check->locks);
        if (!check->locks)
            out_of_memory();
        memset(check->locks + check->lock_count, 0,
               (count - check->lock_count) * sizeof *check->locks);
        check->lock_count = count;
    }
    struct lock *lock = &check->locks[number];
    lock->number = number;
    lock->seen = true;
    return lock;
}

static uint32_t process_get(struct check *check, uint32_t number)
{
    size_t i = check->process_count;
    while (i-- > 0)
        if (check->processes[i].number == number)
            return (uint32_t)i;
    check->processes = more(check->processes, check->process_count,
                            &check->process_room, sizeof *check->processes);
    struct process *process = &check->processes[check->process_count];
    *process = (struct process){ .number = number, .gone = NEVER };
    for (i = 0; i < check->options.killed_count; i++) {
        if (check->options.killed[i].process != number)
            continue;
        process->killed = true;
        process->gone = check->options.killed[i].gone_ns;
    }
    return (uint32_t)check->process_count++;
}

uint32_t thread_begin(struct check *check, const struct history_header *header)
{
    uint32_t process = process_get(check, header->process);
    check->threads = more(check->threads, check->thread_count, &check->thread_room,
                          sizeof *check->threads);
    check->threads[check->thread_count] =
        (struct thread){ .process = process, .number = header->thread };
    return (uint32_t)check->thread_count++;
}

struct process *process_of(struct check *check, uint32_t thread)
{
    return &check->processes[check->threads[thread].process];
}

/* ---- Names ----------------------------------------------------------------------- */

enum check_group group_of(uint8_t kind)
{
    switch (kind) {
    case H_MUTEX:
        return G_MUTEX;
    case H_FAIR:
        return G_FAIR;
    case H_READ:
    case H_WRITE:
        return G_RW;
    case H_PERMITS:
        return G_PERMITS;
    case H_REENTRANT:
        return G_REENTRANT;
    default:
        return G_NONE;
    }
}

const char *check_group_name(enum check_group group)
{
    static const char *const names[GROUPS] = { "mutex",   "fair",      "rw",
                                               "permits", "reentrant", "none" };
    return names[group];
}

const char *kind_name(uint8_t kind)
{
    if (kind == H_READ)
        return "read";
    if (kind == H_WRITE)
        return "write";
    return check_group_name(group_of(kind));
}

static const struct {
    const char *name;
    const char *title;
} check_names[CHECKS] = {
    [K1_EXCLUSION] = { "K1", "exclusion" },
    [K2_BELIEF] = { "K2", "belief overlap" },
    [K3_TOKENS] = { "K3", "token order" },
    [K4_FENCED] = { "K4", "fenced register" },
    [K5_PLAIN] = { "K5", "plain register" },
    [K7_ORDER] = { "K7", "first come first served" },
    [K8_LIVENESS] = { "K8", "liveness" },
    [K9_CONSERVATION] = { "K9", "conservation" },
    [K10_BUSY] = { "K10", "justified busy" },
    [K11_RESIDUE] = { "K11", "residue" },
    [K12_MOVES] = { "K12", "moves and ends" },
};

const char *check_name(enum check_id id)
{
    return check_names[id].name;
}

const char *check_title(enum check_id id)
{
    return check_names[id].title;
}

bool check_must_hold(const struct check_options *options, enum check_id id)
{
    if (options->unsound)
        return id == K3_TOKENS || id == K4_FENCED;
    if (id == K5_PLAIN)
        return options->strict_plain;
    return id != K2_BELIEF;
}

struct check_totals *totals_of(struct check *check, uint8_t kind)
{
    return &check->report.by[group_of(kind)];
}

/* ---- Findings -------------------------------------------------------------------- */

void finding(struct check *check, enum check_id id, enum check_group group,
             const char *format, ...)
{
    struct check_finding *found = &check->report.checks[id];
    found->found_by[group]++;
    if (found->found++ >= CHECK_EXAMPLES)
        return;
    va_list list;
    va_start(list, format);
    if (vasprintf(&found->examples[found->found - 1], format, list) < 0)
        out_of_memory();
    va_end(list);
}

double say_time(const struct check *check, uint64_t t_ns)
{
    return t_ns == NEVER ? 1.0 / 0.0 : (double)(int64_t)(t_ns - check->start) / 1e9;
}

struct words say_thread(const struct check *check, uint32_t index)
{
    struct words words;
    const struct thread *thread = &check->threads[index];
    snprintf(words.text, sizeof words.text, "p%u/t%u",
             check->processes[thread->process].number, thread->number);
    return words;
}

struct words say_hold(const struct check *check, const struct hold *hold)
{
    struct words words;
    char extra[32] = "";
    if (hold->kind == H_PERMITS)
        snprintf(extra, sizeof extra, " %u/%u", hold->permits, hold->limit);
    if (hold->kind == H_FAIR && hold->place)
        snprintf(extra, sizeof extra, " place %u", hold->place);
    snprintf(words.text, sizeof words.text,
             "%.40s hold %u %s%s asked %.6f held [%.6f %.6f) token %llu",
             say_thread(check, hold->thread).text, hold->number, kind_name(hold->kind),
             extra, say_time(check, hold->inv), say_time(check, hold->ret),
             say_time(check, hold->end), (unsigned long long)hold->token);
    return words;
}
