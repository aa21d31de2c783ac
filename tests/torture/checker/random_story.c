/* SPDX-License-Identifier: MIT */
/*
 * Random stories: see random_story.h.
 *
 * A plan comes first: who holds from when to when. Half of the plans are legal by
 * construction, the others whatever comes; calls are then wrapped around the moments of
 * the plan, leases end some of the holds early, some outcomes become unknown, some
 * processes die. At last most stories get one or two small changes, so that many are
 * right or wrong by a hair.
 */
#include "random_story.h"
#include "random_plan.h"

#include <string.h>

uint64_t draw(struct plan *plan, uint64_t below)
{
    plan->seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = plan->seed;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

bool chance(struct plan *plan, unsigned percent)
{
    return draw(plan, 100) < percent;
}

uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- The plan -------------------------------------------------------------------- */

static uint8_t kind_draw(struct plan *plan)
{
    static const uint8_t exclusive[] = { H_MUTEX, H_FAIR, H_REENTRANT };
    switch (plan->mix) {
    case MIX_MUTEX:
        return H_MUTEX;
    case MIX_FAIR:
        return H_FAIR;
    case MIX_RW:
        return chance(plan, 60) ? H_READ : H_WRITE;
    case MIX_PERMITS:
        return H_PERMITS;
    case MIX_REENTRANT:
        return H_REENTRANT;
    default:
        return exclusive[draw(plan, 3)];
    }
}

/* Whether `op` may be inside with those planned, at every moment of it. */
static bool op_legal(const struct plan *plan, const struct op *op)
{
    for (uint64_t t = op->grant; t < op->end; t++) {
        uint32_t permits = op->permits;
        for (size_t i = 0; i < plan->count; i++) {
            const struct op *other = &plan->ops[i];
            if (t < other->grant || t >= other->end)
                continue;
            if (op->kind == H_PERMITS)
                permits += other->permits;
            else if (op->kind != H_READ || other->kind != H_READ)
                return false;
        }
        if (op->kind == H_PERMITS && permits > plan->limit)
            return false;
    }
    return true;
}

static void op_plan(struct plan *plan, bool legal)
{
    for (int tries = 0; tries < 12; tries++) {
        struct op op = { .lost = NEVER, .until = NEVER };
        op.thread = (uint32_t)draw(plan, plan->threads);
        op.kind = kind_draw(plan);
        op.permits = (uint16_t)(1 + draw(plan, plan->limit));
        op.grant = plan->free[op.thread] + draw(plan, 8);
        op.end = op.grant + 1 + draw(plan, 8);
        if (legal && !op_legal(plan, &op))
            continue;
        op.inv = op.grant - least(draw(plan, 5), op.grant - plan->free[op.thread]);
        op.ret = least(op.grant + draw(plan, 4), op.end);
        op.rel_inv = most(op.end - draw(plan, 4), op.ret);
        op.rel_ret = op.end + draw(plan, 4);
        op.result = H_OK;
        op.release = H_OK;
        plan->free[op.thread] = op.rel_ret + draw(plan, 3);
        plan->ops[plan->count++] = op;
        return;
    }
}

/* ---- What may happen to a hold --------------------------------------------------- */

/* The lease was over at the end; the client went on for a while. */
static void op_expire(struct plan *plan, struct op *op, uint64_t room)
{
    uint64_t longer = draw(plan, room + 1);
    op->until = most(op->end - draw(plan, 2), op->ret);
    op->rel_inv = most(op->end + longer, op->ret);
    op->rel_ret = most(op->rel_ret + longer, op->rel_inv);
    op->release = chance(plan, 80) ? H_LATE : H_OK;
    plan->free[op->thread] = most(plan->free[op->thread], op->rel_ret);
}

static void op_dress(struct plan *plan, struct op *op, bool last)
{
    if (last && chance(plan, 25))
        op_expire(plan, op, 10);
    else if (chance(plan, 30))
        op->until = op->rel_inv + draw(plan, 6);
    if (op->rel_inv > op->ret && chance(plan, 30)) {
        op->seen = op->ret + draw(plan, op->rel_inv - op->ret);
        op->seen_until = op->until;
        if (op->until != NEVER && op->seen < op->until && chance(plan, 50))
            op->until = op->seen; /* it was renewed in between */
    }
    if (chance(plan, 8))
        op->lost = most(op->ret, op->rel_inv - draw(plan, 3));
    if (op->kind == H_WRITE && chance(plan, 25) && plan->extras++ < 3)
        op->downgrade = op->ret + draw(plan, op->rel_inv - op->ret + 1);
    if (chance(plan, 8))
        op->release = H_UNKNOWN;
    if (chance(plan, 8))
        op->result = H_UNKNOWN;
    else if (chance(plan, 12))
        op->result = chance(plan, 50) ? H_BUSY : H_TIMEOUT;
    else if (chance(plan, 4))
        op->result = H_FAILED;
    op->writes = op->result == H_OK && chance(plan, 70);
    op->nested = op->kind == H_REENTRANT && chance(plan, 50) && plan->extras++ < 3;
}

/* In the order of grants, so that nothing is lost; but for a slip now and then. */
static void values_draw(struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        plan->ops[i].value = 1;
        for (size_t j = 0; j < plan->count; j++)
            plan->ops[i].value +=
                plan->ops[j].writes && plan->ops[j].grant < plan->ops[i].grant;
        plan->values += plan->ops[i].writes;
        if (chance(plan, 5))
            plan->ops[i].value = draw(plan, 6);
    }
    if (chance(plan, 5))
        plan->values += draw(plan, 3);
}

static void tokens_draw(struct plan *plan)
{
    bool ordered = chance(plan, 75), none = chance(plan, 5);
    for (size_t i = 0; i < plan->count; i++) {
        uint64_t rank = 1;
        for (size_t j = 0; j < plan->count; j++)
            rank += plan->ops[j].grant < plan->ops[i].grant ||
                    (plan->ops[j].grant == plan->ops[i].grant && j < i);
        plan->ops[i].token = ordered ? rank * 2 : 1 + draw(plan, 12);
        plan->ops[i].place = ordered ? rank : 1 + draw(plan, 6);
        if (chance(plan, 10))
            plan->ops[i].token += draw(plan, 3);
        if (chance(plan, 15))
            plan->ops[i].place = draw(plan, 5);
        if (none)
            plan->ops[i].token = 0;
    }
}

/* ---- The story ------------------------------------------------------------------- */

static struct history_event event_of(const struct plan *plan, const struct op *op,
                                     enum history_op what, uint64_t t, uint32_t hold)
{
    return (struct history_event){ .t_ns = t,
                                   .op = (uint8_t)what,
                                   .phase = H_RETURN,
                                   .hold = hold,
                                   .kind = op->kind,
                                   .permits = op->permits,
                                   .limit = plan->limit };
}

static uint32_t op_begin(const struct plan *plan, struct story *story,
                         const struct op *op, uint64_t inv, uint64_t ret)
{
    uint32_t hold = story_ask(story, op->kind, inv);
    struct history_event event = event_of(plan, op, H_ACQUIRE, ret, hold);
    event.result = op->result;
    event.value = op->detached;
    if (op->result == H_OK) {
        event.token = op->token;
        event.until_ns = op->until;
        event.place = op->kind == H_FAIR ? (uint32_t)op->place : 0;
    }
    story_add(story, event);
    return hold;
}

static void write_tell(struct plan *plan, struct story *story, const struct op *op,
                       uint32_t hold)
{
    struct history_event event = event_of(plan, op, H_REGISTER, op->ret, hold);
    event.token = op->token;
    event.result = chance(plan, 97) ? H_OK : H_REJECTED;
    event.value = op->value;
    story_add(story, event);
}

static void nested_tell(struct plan *plan, struct story *story, const struct op *op)
{
    struct op inner = *op;
    uint64_t at = most(op->ret, op->seen_until ? op->seen : 0);

    inner.detached = false;
    inner.inv = at + draw(plan, op->rel_inv - at + 1);
    inner.ret = inner.inv + draw(plan, op->rel_inv - inner.inv + 1);
    inner.rel_inv = inner.ret + draw(plan, op->rel_inv - inner.ret + 1);
    if (chance(plan, 10))
        inner.token++;
    uint32_t hold = op_begin(plan, story, &inner, inner.inv, inner.ret);
    story_give(story, hold, inner.rel_inv,
               inner.rel_inv + draw(plan, op->rel_inv - inner.rel_inv + 1), H_OK);
}

static void sights_tell(struct plan *plan, struct story *story, const struct op *op,
                        uint32_t hold)
{
    if (op->seen_until) {
        struct history_event event = event_of(plan, op, H_SEEN, op->seen, hold);
        event.until_ns = op->seen_until;
        story_add(story, event);
    }
    if (op->nested)
        nested_tell(plan, story, op);
    uint64_t at = most(op->ret, op->seen_until ? op->seen : 0);
    if (op->downgrade && op->downgrade >= at && !op->nested) {
        struct history_event event =
            event_of(plan, op, H_DOWNGRADE, op->downgrade, hold);
        event.phase = H_INVOKE;
        if (op->downgrade % 2)
            story_add(story, event);
        event.phase = H_RETURN;
        story_add(story, event);
    }
    at = most(at, op->downgrade);
    if (op->extend && op->extend >= at && !op->nested)
        extend_tell(story, plan, op, hold);
    at = op->extend && !op->nested ? most(at, op->extend_ret) : at;
    if (op->lost != NEVER && op->lost >= at && !op->nested)
        story_add(story, event_of(plan, op, H_LOST, op->lost, hold));
}

static void op_tell(struct plan *plan, struct story *story, const struct op *op)
{
    uint32_t hold = op_begin(plan, story, op, op->inv, op->ret);
    if (op->result != H_OK)
        return;
    if (op->writes)
        write_tell(plan, story, op, hold);
    sights_tell(plan, story, op, hold);
    if (op->left)
        leave_tell(plan, story, op, hold);
    else
        story_give(story, hold, op->rel_inv, op->rel_ret, op->release);
}

static void thread_tell(struct plan *plan, struct story *story, uint32_t thread)
{
    story_thread(story, chance(plan, 70) ? thread + 1 : 1, thread);
    for (size_t i = 0; i < plan->count; i++)
        if (plan->ops[i].thread == thread)
            op_tell(plan, story, &plan->ops[i]);
    struct story_thread *told = &story->threads[story->count - 1];
    uint64_t last = told->count ? told->events[told->count - 1].t_ns : 0;
    if (told->count && chance(plan, 15)) {
        told->count = 1 + draw(plan, told->count);
        if (chance(plan, 90))
            story_kill(story, told->header.process, last + draw(plan, 5));
    } else {
        story_end(story, last);
    }
}

/* Moves one event within the bounds of its neighbours, or the end of a promise. */
static void story_nudge(struct plan *plan, struct story *story)
{
    struct story_thread *thread = &story->threads[draw(plan, story->count)];
    if (thread->count < 2)
        return;
    size_t index = draw(plan, thread->count - 1);
    struct history_event *event = &thread->events[index];
    uint64_t *time = chance(plan, 75) ? &event->t_ns : &event->until_ns;
    if (*time == 0 || *time == NEVER)
        return;
    *time += draw(plan, 9);
    *time -= least(*time - 1, 4);
    if (index && event->t_ns < thread->events[index - 1].t_ns)
        event->t_ns = thread->events[index - 1].t_ns;
    if (event->t_ns > thread->events[index + 1].t_ns)
        event->t_ns = thread->events[index + 1].t_ns;
}

static void final_tell(struct plan *plan, struct story *story)
{
    story_thread(story, 99, 0);
    story_note(story, H_FINAL, 1000, 0, plan->values);
    struct history_event *event = &story->threads[story->count - 1].events[0];
    event->token = 90;
}

/* Now and then a worker is not run, or the server. The plan's seed is not touched, so
 * that the rest of a story is the same with and without. */
static void stalls_tell(const struct plan *plan, struct story *story)
{
    struct plan dice = { .seed = ~plan->seed };
    if (!chance(&dice, 40))
        return;
    story_thread(story, 1 + (uint32_t)draw(&dice, plan->threads), 90);
    uint8_t server = chance(&dice, 50);
    uint64_t t = 10;
    for (uint64_t i = 1 + draw(&dice, 4); i > 0; i--) {
        uint64_t begin = t + draw(&dice, 12);
        t = begin + 1 + draw(&dice, 3);
        story_add(story, (struct history_event){ .t_ns = t,
                                                 .value = begin,
                                                 .op = H_STALL,
                                                 .phase = H_RETURN,
                                                 .kind = server });
    }
}

void random_story(struct story *story, uint64_t seed)
{
    struct plan plan = { .seed = seed };
    bool legal = chance(&plan, 70);
    size_t want = 2 + draw(&plan, OPS - 1);

    plan.mix = (enum mix)draw(&plan, 6);
    plan.limit = plan.mix == MIX_PERMITS ? (uint16_t)(1 + draw(&plan, 4)) : 1;
    plan.threads = 2 + (uint32_t)draw(&plan, 4);
    for (uint32_t i = 0; i < plan.threads; i++)
        plan.free[i] = 10 + draw(&plan, 6);
    for (size_t i = 0; i < want; i++)
        op_plan(&plan, legal);
    for (size_t i = 0; i < plan.count; i++) {
        bool last = true;
        for (size_t j = i + 1; j < plan.count; j++)
            last = last && plan.ops[j].thread != plan.ops[i].thread;
        op_dress(&plan, &plan.ops[i], last);
    }
    tokens_draw(&plan);
    deeds_draw(&plan);
    values_draw(&plan);
    story->count = 0;
    story->killed_count = 0;
    story->lock = 0;
    for (uint32_t i = 0; i < plan.threads; i++)
        thread_tell(&plan, story, i);
    deeds_tell(&plan, story);
    for (uint64_t i = draw(&plan, 3); i > 0; i--)
        story_nudge(&plan, story);
    if (chance(&plan, 70))
        final_tell(&plan, story);
    stalls_tell(&plan, story);
}

void random_nonsense(struct story *story, uint64_t seed)
{
    struct plan plan = { .seed = seed };
    story->count = 0;
    story->killed_count = 0;
    for (uint32_t i = 0; i < 4; i++) {
        story_thread(story, i / 2, i % 2);
        for (uint64_t j = draw(&plan, STORY_EVENTS); j > 0; j--)
            story_add(story,
                      (struct history_event){ .t_ns = draw(&plan, 50),
                                              .token = draw(&plan, 5),
                                              .until_ns = draw(&plan, 80),
                                              .value = draw(&plan, 20),
                                              .lock = (uint32_t)draw(&plan, 2) * 7,
                                              .hold = (uint32_t)draw(&plan, 4),
                                              .permits = (uint16_t)draw(&plan, 4),
                                              .limit = (uint16_t)draw(&plan, 4),
                                              .op = (uint8_t)draw(&plan, 18),
                                              .phase = (uint8_t)draw(&plan, 3),
                                              .result = (uint8_t)draw(&plan, 9),
                                              .kind = (uint8_t)draw(&plan, 8),
                                              .place = (uint32_t)draw(&plan, 4) });
    }
}
