/* SPDX-License-Identifier: MIT */
/* Small histories: see story.h. */
#include "story.h"

#include <inttypes.h>
#include <stdlib.h>

static struct story_thread *thread_last(struct story *story)
{
    return &story->threads[story->count - 1];
}

void story_thread(struct story *story, uint32_t process, uint32_t thread)
{
    if (story->count == STORY_THREADS)
        abort();
    struct story_thread *next = &story->threads[story->count++];
    next->count = 0;
    next->header = (struct history_header){
        .magic = HISTORY_MAGIC, .process = process, .thread = thread, .pid = process
    };
}

void story_add(struct story *story, struct history_event event)
{
    struct story_thread *thread = thread_last(story);
    if (thread->count == STORY_EVENTS)
        abort();
    thread->events[thread->count++] = event;
}

void story_kill(struct story *story, uint32_t process, uint64_t gone)
{
    story->killed[story->killed_count++] = (struct check_killed){ process, gone };
}

uint32_t story_ask(struct story *story, uint8_t kind, uint64_t inv)
{
    struct story_thread *thread = thread_last(story);
    uint32_t hold = 1;
    for (size_t i = 0; i < thread->count; i++)
        if (thread->events[i].hold >= hold)
            hold = thread->events[i].hold + 1;
    story_add(story, (struct history_event){ .t_ns = inv,
                                             .op = H_ACQUIRE,
                                             .phase = H_INVOKE,
                                             .lock = story->lock,
                                             .hold = hold,
                                             .kind = kind });
    return hold;
}

uint32_t story_take(struct story *story, uint8_t kind, uint64_t inv, uint64_t ret,
                    uint64_t token, uint64_t until)
{
    uint32_t hold = story_ask(story, kind, inv);
    story_add(story, (struct history_event){ .t_ns = ret,
                                             .op = H_ACQUIRE,
                                             .phase = H_RETURN,
                                             .result = H_OK,
                                             .lock = story->lock,
                                             .hold = hold,
                                             .kind = kind,
                                             .token = token,
                                             .until_ns = until,
                                             .permits = 1,
                                             .limit = kind == H_PERMITS ? 2 : 1 });
    return hold;
}

void story_fail(struct story *story, uint8_t kind, uint64_t inv, uint64_t ret,
                enum history_result result)
{
    uint32_t hold = story_ask(story, kind, inv);
    story_add(story, (struct history_event){ .t_ns = ret,
                                             .op = H_ACQUIRE,
                                             .phase = H_RETURN,
                                             .result = (uint8_t)result,
                                             .lock = story->lock,
                                             .hold = hold,
                                             .kind = kind });
}

void story_give(struct story *story, uint32_t hold, uint64_t inv, uint64_t ret,
                enum history_result result)
{
    struct history_event event = { .t_ns = inv,
                                   .op = H_RELEASE,
                                   .phase = H_INVOKE,
                                   .lock = story->lock,
                                   .hold = hold };
    story_add(story, event);
    event.t_ns = ret;
    event.phase = H_RETURN;
    event.result = (uint8_t)result;
    if (ret != NEVER)
        story_add(story, event);
}

void story_note(struct story *story, enum history_op op, uint64_t t, uint32_t hold,
                uint64_t value)
{
    story_add(story, (struct history_event){ .t_ns = t,
                                             .op = (uint8_t)op,
                                             .phase = H_RETURN,
                                             .result = H_OK,
                                             .lock = story->lock,
                                             .hold = hold,
                                             .value = value });
}

void story_end(struct story *story, uint64_t t)
{
    story_note(story, H_END, t, 0, 0);
}

struct check *story_check(const struct story *story, struct check_options options,
                          const struct check_report **ret_report)
{
    options.killed = story->killed;
    options.killed_count = story->killed_count;
    struct check *check = check_new(&options);
    for (size_t i = 0; i < story->count; i++)
        for (size_t j = 0; j < story->threads[i].count; j++)
            check_add(check, &story->threads[i].header, &story->threads[i].events[j]);
    *ret_report = check_run(check);
    return check;
}

void story_print(FILE *out, const struct story *story)
{
    static const char *const ops[] = { "?",         "ACQUIRE",  "RELEASE", "SEEN",
                                       "LOST",      "REGISTER", "PLAIN",   "FAULT",
                                       "HEAL",      "END",      "FINAL",   "RESIDUE",
                                       "DOWNGRADE", "STALL",    "EXTEND",  "ADOPT",
                                       "LEAVE",     "EVICT" };
    for (size_t i = 0; i < story->killed_count; i++)
        fprintf(out, "# p%u was killed\n", story->killed[i].process);
    for (size_t i = 0; i < story->count; i++) {
        const struct story_thread *thread = &story->threads[i];
        for (size_t j = 0; j < thread->count; j++) {
            const struct history_event *event = &thread->events[j];
            fprintf(out,
                    "# p%u/t%u %4" PRIu64 " %-9s %s lock %u hold %u kind %u result %u"
                    " token %" PRIu64 " until %" PRId64 " value %" PRIu64
                    " permits %u/%u place %u\n",
                    thread->header.process, thread->header.thread, event->t_ns,
                    ops[event->op], event->phase == H_INVOKE ? "INVOKE" : "RETURN",
                    event->lock, event->hold, event->kind, event->result, event->token,
                    (int64_t)event->until_ns, event->value, event->permits,
                    event->limit, event->place);
        }
    }
}
