/* SPDX-License-Identifier: MIT */
/*
 * The checks by pairs: see naive.h. Speed is of no interest here, being right at first
 * sight is.
 */
#include "naive.h"

/* ---- Reading --------------------------------------------------------------------- */

static uint64_t process_alive(const struct story *story, uint32_t process)
{
    uint64_t last = 0;
    for (size_t i = 0; i < story->count; i++)
        for (size_t j = 0; j < story->threads[i].count; j++)
            if (story->threads[i].header.process == process &&
                story->threads[i].events[j].t_ns > last)
                last = story->threads[i].events[j].t_ns;
    return last;
}

static void fact_take(struct fact *fact, const struct history_event *event)
{
    bool invoke = event->phase == H_INVOKE;
    if (event->op == H_ACQUIRE && !invoke) {
        fact->ret = event->t_ns;
        fact->result = event->result;
        fact->first_until = event->until_ns;
        fact->until = event->until_ns;
        fact->token = event->token;
        fact->place = event->place;
        fact->permits = event->permits;
        fact->limit = event->limit;
    } else if (event->op == H_RELEASE && invoke) {
        fact->rel_inv = event->t_ns;
    } else if (event->op == H_RELEASE) {
        fact->rel_ret = event->t_ns;
        fact->release = event->result;
    } else if (event->op == H_SEEN && event->until_ns > fact->until) {
        fact->until = event->until_ns;
    } else if (event->op == H_LOST && event->t_ns < fact->lost) {
        fact->lost = event->t_ns;
    }
}

static void fact_read(struct fact *fact, const struct story *story, size_t thread,
                      size_t first)
{
    const struct story_thread *told = &story->threads[thread];
    uint64_t previous = 0;

    *fact = (struct fact){
        .thread = thread,
        .process = told->header.process,
        .kind = told->events[first].kind,
        .inv = told->events[first].t_ns,
        .ret = NEVER,
        .lost = NEVER,
        .rel_inv = NEVER,
        .rel_ret = NEVER,
        .before_downgrade = NEVER,
        .downgrade = NEVER,
        .alive = process_alive(story, told->header.process),
        .asked = first,
        .answered = SIZE_MAX,
        .releasing = SIZE_MAX,
    };
    for (size_t i = first; i < told->count; i++) {
        if (told->events[i].hold != told->events[first].hold)
            continue;
        if (told->events[i].op == H_DOWNGRADE) {
            fact->before_downgrade = previous;
            fact->downgrade = told->events[i].t_ns;
        }
        if (told->events[i].op == H_ACQUIRE && told->events[i].phase == H_RETURN)
            fact->answered = i;
        if (told->events[i].op == H_RELEASE && told->events[i].phase == H_INVOKE)
            fact->releasing = i;
        fact_take(fact, &told->events[i]);
        previous = told->events[i].t_ns;
    }
}

void facts_read(struct facts *facts, const struct story *story)
{
    facts->count = 0;
    for (size_t i = 0; i < story->count; i++)
        for (size_t j = 0; j < story->threads[i].count; j++)
            if (story->threads[i].events[j].op == H_ACQUIRE &&
                story->threads[i].events[j].phase == H_INVOKE)
                fact_read(&facts->all[facts->count++], story, i, j);
}

/* ---- K3 -------------------------------------------------------------------------- */

static uint64_t end_promised(const struct fact *fact)
{
    uint64_t end = fact->until;
    if (fact->lost < end)
        end = fact->lost;
    return fact->rel_inv < end ? fact->rel_inv : end;
}

static bool contains(const struct fact *outer, const struct fact *inner)
{
    return outer->thread == inner->thread && outer->result == H_OK &&
           outer->kind == H_REENTRANT && inner->kind == H_REENTRANT &&
           outer->asked < inner->asked && outer->releasing > inner->answered;
}

static bool has_token(const struct facts *facts, const struct fact *fact)
{
    for (size_t i = 0; i < facts->count; i++)
        if (contains(&facts->all[i], fact) && facts->all[i].token == fact->token)
            return false;
    return fact->result == H_OK && fact->token != 0;
}

uint64_t naive_tokens(const struct facts *facts)
{
    uint64_t late = 0, other = 0, twice = 0;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *a = &facts->all[i];
        bool is_late = false, is_other = false, is_twice = false;
        for (size_t j = 0; j < facts->count; j++) {
            const struct fact *b = &facts->all[j];
            bool both = has_token(facts, a) && has_token(facts, b);
            is_late |= both && b->ret < a->inv && b->token > a->token;
            is_twice |= both && j < i && b->token == a->token;
            is_other |= contains(a, b) && b->result == H_OK && a->token != b->token &&
                        b->ret < end_promised(a);
        }
        late += is_late;
        twice += is_twice;
        other += is_other;
    }
    return late + twice + other;
}

/* ---- K4 -------------------------------------------------------------------------- */

struct write_fact {
    uint64_t value, token;
};

static size_t writes_read(struct write_fact *writes, const struct story *story,
                          const struct history_event **ret_final)
{
    size_t count = 0;
    for (size_t i = 0; i < story->count; i++) {
        for (size_t j = 0; j < story->threads[i].count; j++) {
            const struct history_event *event = &story->threads[i].events[j];
            if (event->op == H_REGISTER && event->result == H_OK && event->token)
                writes[count++] = (struct write_fact){ event->value, event->token };
            if (event->op == H_FINAL)
                *ret_final = event;
        }
    }
    return count;
}

static size_t not_ended(const struct story *story)
{
    size_t count = 0;
    for (size_t i = 0; i < story->count; i++) {
        const struct story_thread *thread = &story->threads[i];
        bool worker = false, ended = false;
        for (size_t j = 0; j < thread->count; j++) {
            worker |= thread->events[j].op == H_ACQUIRE;
            ended |= thread->events[j].op == H_END;
        }
        count += worker && !ended;
    }
    return count;
}

uint64_t naive_fenced(const struct story *story)
{
    struct write_fact writes[STORY_THREADS * STORY_EVENTS];
    const struct history_event *final = NULL;
    size_t count = writes_read(writes, story, &final);
    uint64_t bad = 0, twice = 0, falls = 0, top = 0;

    for (size_t i = 0; i < count; i++) {
        bool seen = false, fall = false;
        for (size_t j = 0; j < i; j++)
            seen |= writes[j].value == writes[i].value && writes[i].value;
        for (size_t j = 0; j < count; j++) {
            bool first = true;
            for (size_t k = 0; k < j; k++)
                first &= writes[k].value != writes[j].value;
            fall |= first && writes[j].value && writes[j].value < writes[i].value &&
                    writes[j].token > writes[i].token;
        }
        bad += writes[i].value == 0;
        twice += seen;
        falls += fall && !seen;
        if (writes[i].value && !seen && writes[i].token > top)
            top = writes[i].token;
    }
    uint64_t found = bad + twice + falls;
    if (!final)
        return found;
    if (count && count > final->value + twice)
        found += count - final->value - twice;
    if (count && final->value > count - twice + not_ended(story))
        found++;
    return found + (final->token < top);
}

/* ---- K7 -------------------------------------------------------------------------- */

uint64_t naive_order(const struct facts *facts)
{
    uint64_t found = 0;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *a = &facts->all[i];
        bool overtaken = false;
        uint64_t end = end_promised(a);
        if (a->rel_inv == NEVER && a->alive < end)
            end = a->alive;
        for (size_t j = 0; j < facts->count; j++) {
            const struct fact *b = &facts->all[j];
            if (a->kind != H_FAIR || b->kind != H_FAIR || a->result != H_OK ||
                b->result != H_OK || !a->place || b->place <= a->place)
                continue;
            overtaken |= b->token && b->token < a->token;
            overtaken |= b->token && b->token == a->token && b->ret < a->ret;
            overtaken |= b->token && b->token == a->token && b->ret == a->ret && j < i;
            overtaken |=
                end > a->ret && (b->ret < a->ret || (b->ret == a->ret && j < i));
        }
        found += overtaken;
    }
    return found;
}

/* ---- K10 ------------------------------------------------------------------------- */

/* NEVER if some have none, 0 if nothing is known. */
static uint64_t longest_lease(const struct facts *facts)
{
    uint64_t lease = 0;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *fact = &facts->all[i];
        if (fact->result == H_OK && fact->first_until == NEVER)
            return NEVER;
        if (fact->result == H_OK && fact->first_until > fact->inv + lease)
            lease = fact->first_until - fact->inv;
    }
    return lease;
}

/* The latest at which it can have been held. */
static uint64_t held_until(const struct story *story, const struct facts *facts,
                           const struct fact *fact, const struct check_options *options)
{
    uint64_t lease = longest_lease(facts), gone = NEVER;
    bool known = lease != NEVER && lease != 0;
    uint64_t longer = lease + lease / 10 + options->grace_ns;

    for (size_t i = 0; i < story->killed_count; i++)
        if (story->killed[i].process == fact->process)
            gone = story->killed[i].gone_ns;
    if (fact->release == H_OK || fact->release == H_LATE)
        return fact->rel_ret;
    if (fact->release || fact->result == H_UNKNOWN) {
        uint64_t from = fact->rel_inv < fact->lost ? fact->rel_inv : fact->lost;
        if (fact->result == H_UNKNOWN)
            from = fact->ret - options->bound_ns;
        return known ? from + options->bound_ns + longer : NEVER;
    }
    if (gone == NEVER || lease == 0)
        return NEVER;
    return known ? gone + longer : gone + options->grace_ns;
}

static bool meets_holder(const struct story *story, const struct facts *facts,
                         const struct fact *fact, const struct check_options *options)
{
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *holder = &facts->all[i];
        bool possible = holder->result == H_OK || holder->result == H_UNKNOWN ||
                        holder->ret == NEVER;
        if (possible && holder->inv <= fact->ret &&
            held_until(story, facts, holder, options) >= fact->inv)
            return true;
    }
    return false;
}

/* Was it, or the server, not run for an eighth of the time? */
static bool not_run(const struct story *story, const struct fact *fact)
{
    uint64_t still = 0;
    for (size_t i = 0; i < story->count; i++) {
        const struct story_thread *told = &story->threads[i];
        for (size_t j = 0; j < told->count; j++) {
            const struct history_event *event = &told->events[j];
            if (event->op == H_STALL &&
                (event->kind || told->header.process == fact->process))
                for (uint64_t t = event->value; t < event->t_ns; t++)
                    still += t >= fact->inv && t < fact->ret;
        }
    }
    return fact->result == H_TIMEOUT && still > 0 && 8 * still >= fact->ret - fact->inv;
}

static bool in_vain(const struct fact *fact)
{
    return fact->result == H_BUSY || fact->result == H_TIMEOUT;
}

uint64_t naive_busy(const struct story *story, const struct facts *facts,
                    const struct check_options *options)
{
    uint64_t found = 0;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *a = &facts->all[i];
        bool excused =
            !in_vain(a) || meets_holder(story, facts, a, options) || not_run(story, a);
        for (size_t j = 0; j < facts->count && !excused; j++) {
            const struct fact *b = &facts->all[j];
            bool vain = in_vain(b) || b->result == H_FAILED;
            bool in_the_way =
                (b->result == H_FAILED && a->result == H_BUSY) ||
                (vain && (meets_holder(story, facts, b, options) || not_run(story, b)));
            excused = in_the_way && b->inv < a->ret && b->ret > a->inv;
        }
        found += !excused;
    }
    return found;
}
