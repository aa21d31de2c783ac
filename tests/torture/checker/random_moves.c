/* SPDX-License-Identifier: MIT */
/*
 * Random stories, second part: holds that are extended, left, adopted or evicted.
 *
 * Who adopts and evicts is a thread of its own, in a process that lives. Most of what
 * it does fits the plan: it adopts while the hold is there and is done before the plan
 * ends it. Some of it is late, or answered wrongly. Dice of their own, so that the rest
 * of a story is the same with and without.
 */
#include "random_plan.h"

#include <stdlib.h>

#define MOVER 80 /* the process */

static enum history_result answer_draw(struct plan *dice, bool there)
{
    static const enum history_result others[] = { H_OK, H_ABSENT, H_UNKNOWN, H_FAILED };
    if (chance(dice, 80))
        return there ? H_OK : H_ABSENT;
    return others[draw(dice, 4)];
}

static void evict_draw(struct plan *plan, struct plan *dice, const struct op *op)
{
    uint64_t inv = op->ret + draw(dice, op->rel_ret - op->ret + 3);
    struct deed deed = { .op = H_EVICT, .about = op, .token = op->token, .inv = inv };
    deed.ret = inv + draw(dice, 4);
    deed.result = (uint8_t)answer_draw(dice, deed.ret < op->rel_inv || op->left);
    if (chance(dice, 10))
        deed.token += draw(dice, 3);
    plan->deeds[plan->deed_count++] = deed;
}

static void adopt_draw(struct plan *plan, struct plan *dice, const struct op *op)
{
    uint64_t room = op->rel_inv - op->ret;
    uint64_t inv = op->ret + draw(dice, room + 2);
    struct deed deed = { .op = H_ADOPT, .about = op, .token = op->token, .inv = inv };
    deed.ret = inv + draw(dice, 4);
    deed.rel_inv = most(deed.ret, op->end - draw(dice, 3)) + draw(dice, 2);
    deed.rel_ret = deed.rel_inv + draw(dice, 3);
    deed.until = chance(dice, 60) ? NEVER : deed.rel_inv + draw(dice, 4);
    deed.until -= deed.until == NEVER ? 0 : draw(dice, 3);
    deed.result = (uint8_t)answer_draw(dice, deed.inv <= op->rel_inv || op->left);
    deed.release = chance(dice, 80) ? H_OK : chance(dice, 50) ? H_LATE : H_UNKNOWN;
    deed.left = chance(dice, 15);
    plan->deeds[plan->deed_count++] = deed;
}

static void extend_draw(struct plan *dice, struct op *op)
{
    if (op->rel_inv == op->ret)
        return;
    op->extend = op->ret + draw(dice, op->rel_inv - op->ret);
    op->extend_ret = op->extend + draw(dice, op->rel_inv - op->extend + 1);
    op->extend_until = op->extend_ret + draw(dice, 8);
}

/* Whose hold was taken away is mostly told so. */
static void op_taken(struct plan *dice, struct op *op)
{
    if (op->release == H_OK && chance(dice, 70))
        op->release = H_LATE;
}

/* Of two holds with one token (K3) it cannot be told which was adopted. */
static bool token_alone(const struct plan *plan, const struct op *op)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++)
        count += plan->ops[i].token == op->token ||
                 (plan->ops[i].nested && plan->ops[i].token + 1 == op->token);
    return count == 1;
}

static void op_deeds(struct plan *plan, struct plan *dice, struct op *op)
{
    bool can = op->result == H_OK && op->token && !op->nested;
    if (can && !op->downgrade && chance(dice, 15))
        extend_draw(dice, op);
    if (can && chance(dice, 15))
        op->detached = true;
    op->left = op->detached && chance(dice, 60);
    if (can && !op->downgrade && !plan->adopted && token_alone(plan, op) &&
        chance(dice, op->detached ? 60 : 20)) {
        plan->adopted++;
        adopt_draw(plan, dice, op);
        op_taken(dice, op);
    }
    if (can && plan->deed_count < DEEDS && chance(dice, 20)) {
        evict_draw(plan, dice, op);
        op_taken(dice, op);
    }
}

void deeds_draw(struct plan *plan)
{
    struct plan dice = { .seed = plan->seed ^ UINT64_C(0x5555555555555555) };
    if (!chance(&dice, 50))
        return;
    for (size_t i = 0; i < plan->count && plan->deed_count < DEEDS; i++)
        op_deeds(plan, &dice, &plan->ops[i]);
}

/* ---- The story ------------------------------------------------------------------- */

static struct history_event deed_event(const struct plan *plan, const struct op *op,
                                       enum history_op what, uint64_t t, uint32_t hold)
{
    return (struct history_event){ .t_ns = t,
                                   .op = (uint8_t)what,
                                   .phase = H_INVOKE,
                                   .hold = hold,
                                   .kind = op->kind,
                                   .permits = op->permits,
                                   .limit = plan->limit };
}

void extend_tell(struct story *story, const struct plan *plan, const struct op *op,
                 uint32_t hold)
{
    struct history_event event = deed_event(plan, op, H_EXTEND, op->extend, hold);
    event.value = 5;
    story_add(story, event);
    event.phase = H_RETURN;
    event.t_ns = op->extend_ret;
    event.result = H_OK;
    event.until_ns = event.value = op->extend_until;
    story_add(story, event);
}

void leave_tell(struct plan *plan, struct story *story, const struct op *op,
                uint32_t hold)
{
    struct history_event event = deed_event(plan, op, H_LEAVE, op->rel_inv, hold);
    story_add(story, event);
    event.phase = H_RETURN;
    event.t_ns = op->rel_ret;
    event.result = H_OK;
    story_add(story, event);
}

static void adopted_tell(struct plan *plan, struct story *story,
                         const struct deed *deed, uint32_t hold)
{
    struct op mine = *deed->about;
    mine.rel_inv = deed->rel_inv;
    mine.rel_ret = deed->rel_ret;
    if (deed->left)
        leave_tell(plan, story, &mine, hold);
    else
        story_give(story, hold, deed->rel_inv, deed->rel_ret,
                   (enum history_result)deed->release);
}

static void deed_tell(struct plan *plan, struct story *story, const struct deed *deed,
                      uint32_t hold)
{
    struct history_event event =
        deed_event(plan, deed->about, deed->op, deed->inv, hold);
    event.token = deed->token;
    story_add(story, event);
    event.phase = H_RETURN;
    event.t_ns = deed->ret;
    event.result = deed->result;
    event.until_ns = deed->until;
    event.value = deed->op == H_ADOPT && deed->left;
    if (deed->op == H_ADOPT && deed->token % 7 == 0)
        event.token += 50; /* of no other */
    story_add(story, event);
    if (deed->op == H_ADOPT && deed->result == H_OK)
        adopted_tell(plan, story, deed, hold);
}

static int event_compare(const void *left, const void *right)
{
    const struct history_event *a = left, *b = right;
    if (a->t_ns != b->t_ns)
        return (a->t_ns > b->t_ns) - (a->t_ns < b->t_ns);
    if (a->hold != b->hold)
        return (a->hold > b->hold) - (a->hold < b->hold);
    bool a_first = a->op == H_ADOPT || a->op == H_EVICT;
    bool b_first = b->op == H_ADOPT || b->op == H_EVICT;
    if (a_first != b_first)
        return a_first ? -1 : 1;
    return (a->phase > b->phase) - (a->phase < b->phase);
}

void deeds_tell(struct plan *plan, struct story *story)
{
    if (!plan->deed_count)
        return;
    story_thread(story, MOVER, 0);
    for (size_t i = 0; i < plan->deed_count; i++)
        deed_tell(plan, story, &plan->deeds[i], (uint32_t)i + 1);
    struct story_thread *told = &story->threads[story->count - 1];
    qsort(told->events, told->count, sizeof *told->events, event_compare);
    story_end(story, told->events[told->count - 1].t_ns);
}
