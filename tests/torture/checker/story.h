/* SPDX-License-Identifier: MIT */
/*
 * Small histories for the tests of the checker, made in memory.
 *
 * A story is told thread by thread: story_thread() begins one, and what follows is what
 * it did. Times are plain numbers.
 */
#ifndef CHECKER_STORY_H
#define CHECKER_STORY_H

#include "check.h"

#include <stdio.h>

#define STORY_THREADS 10
#define STORY_EVENTS 64
#define NEVER UINT64_MAX

struct story_thread {
    struct history_header header;
    struct history_event events[STORY_EVENTS];
    size_t count;
};

struct story {
    struct story_thread threads[STORY_THREADS];
    size_t count;
    uint32_t lock; /* that what follows is about */
    struct check_killed killed[STORY_THREADS];
    size_t killed_count;
};

void story_thread(struct story *story, uint32_t process, uint32_t thread);
void story_add(struct story *story, struct history_event event);
void story_kill(struct story *story, uint32_t process, uint64_t gone);

/* An acquire of `kind`; returns the number of the attempt. */
uint32_t story_ask(struct story *story, uint8_t kind, uint64_t inv);
uint32_t story_take(struct story *story, uint8_t kind, uint64_t inv, uint64_t ret,
                    uint64_t token, uint64_t until);
void story_fail(struct story *story, uint8_t kind, uint64_t inv, uint64_t ret,
                enum history_result result);
void story_give(struct story *story, uint32_t hold, uint64_t inv, uint64_t ret,
                enum history_result result);
void story_note(struct story *story, enum history_op op, uint64_t t, uint32_t hold,
                uint64_t value);
void story_end(struct story *story, uint64_t t);

/* Tells it to a checker and gives that back, with its report. */
struct check *story_check(const struct story *story, struct check_options options,
                          const struct check_report **ret_report);

void story_print(FILE *out, const struct story *story);

#endif
