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
    if ((event->op == H_ACQUIRE || event->op == H_ADOPT) && !invoke) {
        fact->detached = event->value != 0;
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
    } else if (event->op == H_LEAVE) {
        fact->left = invoke ? event->t_ns : fact->left;
    } else if (event->op == H_EXTEND && invoke) {
        fact->asked_lease = event->value;
        if (event->t_ns < fact->until)
            fact->until = event->t_ns;
    } else if (event->op == H_EXTEND) {
        if (fact->asked_lease > fact->lease)
            fact->lease = fact->asked_lease;
        if (event->until_ns > fact->until)
            fact->until = event->until_ns;
    }
}

/* A downgrade is somewhere between its call, if that was written down, or else the last
 * event before, and its return. */
static void fact_lower(struct fact *fact, const struct history_event *event,
                       uint64_t previous)
{
    if (event->phase == H_INVOKE || fact->before_downgrade == NEVER)
        fact->before_downgrade = event->phase == H_INVOKE ? event->t_ns : previous;
    fact->downgrade = event->phase == H_INVOKE ? NEVER - 1 : event->t_ns;
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
        .number = told->events[first].hold,
        .adopted = told->events[first].op == H_ADOPT,
        .left = NEVER,
    };
    for (size_t i = first; i < told->count; i++) {
        if (told->events[i].hold != told->events[first].hold)
            continue;
        if (told->events[i].op == H_DOWNGRADE)
            fact_lower(fact, &told->events[i], previous);
        if (told->events[i].op == H_ACQUIRE && told->events[i].phase == H_RETURN)
            fact->answered = i;
        if ((told->events[i].op == H_RELEASE && told->events[i].phase == H_INVOKE) ||
            (told->events[i].op == H_LEAVE && told->events[i].phase == H_RETURN))
            fact->releasing = i;
        fact_take(fact, &told->events[i]);
        previous = told->events[i].t_ns;
    }
}

/* Adopted in vain is nothing. */
static bool is_fact(const struct fact *fact)
{
    return !fact->adopted || fact->result == H_OK || fact->ret == NEVER;
}

void facts_read(struct facts *facts, const struct story *story)
{
    facts->count = 0;
    for (size_t i = 0; i < story->count; i++)
        for (size_t j = 0; j < story->threads[i].count; j++) {
            const struct history_event *event = &story->threads[i].events[j];
            if ((event->op != H_ACQUIRE && event->op != H_ADOPT) ||
                event->phase != H_INVOKE)
                continue;
            fact_read(&facts->all[facts->count], story, i, j);
            facts->count += is_fact(&facts->all[facts->count]);
        }
    feats_read(facts, story);
}

/* ---- K3 -------------------------------------------------------------------------- */

static uint64_t end_promised(const struct fact *fact)
{
    uint64_t end = fact->until;
    if (fact->lost < end)
        end = fact->lost;
    if (fact->left < end && !fact_left(fact))
        end = fact->left;
    return fact->rel_inv < end ? fact->rel_inv : end;
}

static bool contains(const struct fact *outer, const struct fact *inner)
{
    return outer->thread == inner->thread && outer->result == H_OK &&
           outer->kind == H_REENTRANT && inner->kind == H_REENTRANT &&
           !inner->adopted && outer->asked < inner->asked &&
           outer->releasing > inner->answered;
}

static bool has_token(const struct facts *facts, const struct fact *fact)
{
    for (size_t i = 0; i < facts->count; i++)
        if (contains(&facts->all[i], fact) && facts->all[i].token == fact->token)
            return false;
    return fact->result == H_OK && fact->token != 0 && !fact->adopted;
}

/* Had it been adopted or evicted by then, or perhaps? */
static bool taken_by(const struct facts *facts, const struct fact *fact, uint64_t t)
{
    for (size_t i = 0; i < facts->feat_count; i++)
        if (facts->feats[i].token == fact->token && facts->feats[i].inv <= t &&
            facts->feats[i].result != H_ABSENT && facts->feats[i].result != H_FAILED)
            return true;
    return false;
}

uint64_t naive_tokens(const struct facts *facts)
{
    uint64_t late = 0, other = 0, twice = 0;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *a = &facts->all[i];
        bool is_late = false, is_twice = false;
        uint64_t entered = NEVER; /* with another token */
        for (size_t j = 0; j < facts->count; j++) {
            const struct fact *b = &facts->all[j];
            bool both = has_token(facts, a) && has_token(facts, b);
            is_late |= both && b->ret < a->inv && b->token > a->token;
            is_twice |= both && j < i && b->token == a->token;
            if (contains(a, b) && b->result == H_OK && a->token != b->token &&
                b->ret < entered)
                entered = b->ret;
        }
        late += is_late;
        twice += is_twice;
        other += entered < end_promised(a) && !taken_by(facts, a, entered);
    }
    for (size_t i = 0; i < facts->feat_count; i++)
        other += facts->feats[i].op == H_ADOPT && facts->feats[i].result == H_OK &&
                 facts->feats[i].got != facts->feats[i].token;
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
            worker |= thread->events[j].op == H_ACQUIRE ||
                      thread->events[j].op == H_ADOPT ||
                      thread->events[j].op == H_EVICT;
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
        uint64_t end = brute_end(facts, a);
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

/* 0 if nothing is known; `ret_endless` if some have none. */
static uint64_t longest_lease(const struct facts *facts, bool *ret_endless)
{
    uint64_t lease = 0;
    *ret_endless = false;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *fact = &facts->all[i];
        if (fact->lease > lease)
            lease = fact->lease;
        if (fact->result == H_OK && fact->first_until == NEVER)
            *ret_endless = true;
        else if (fact->result == H_OK && fact->first_until > fact->inv + lease)
            lease = fact->first_until - fact->inv;
    }
    return lease;
}

/* The same by what its own thread said. */
static uint64_t own_until(const struct story *story, const struct facts *facts,
                          const struct fact *fact, const struct check_options *options)
{
    bool endless;
    uint64_t lease = longest_lease(facts, &endless), gone = NEVER;
    bool known = !endless && lease != 0;
    uint64_t longer = lease + lease / 10 + options->grace_ns;

    for (size_t i = 0; i < story->killed_count; i++)
        if (story->killed[i].process == fact->process)
            gone = story->killed[i].gone_ns;
    if (fact->release == H_OK || fact->release == H_LATE)
        return fact->rel_ret;
    if (fact_left(fact)) {
        uint64_t from = fact->left < fact->lost ? fact->left : fact->lost;
        from = from == NEVER ? fact->alive : from;
        from = gone != NEVER ? gone : from + options->bound_ns;
        return lease ? from + longer : NEVER;
    }
    if (fact->release || fact->result == H_UNKNOWN) {
        uint64_t from = fact->rel_inv < fact->lost ? fact->rel_inv : fact->lost;
        if (fact->result == H_UNKNOWN)
            from = fact->ret - options->bound_ns;
        return known ? from + options->bound_ns + longer : NEVER;
    }
    if (gone == NEVER || (lease == 0 && !endless))
        return NEVER;
    return known ? gone + longer : gone + options->grace_ns;
}

/* The latest at which it can have been held. */
static uint64_t held_until(const struct story *story, const struct facts *facts,
                           const struct fact *fact, const struct check_options *options)
{
    bool endless;
    uint64_t lease = longest_lease(facts, &endless);
    uint64_t longer = lease ? lease + lease / 10 + options->grace_ns : NEVER;
    return feats_until(facts, fact, own_until(story, facts, fact, options), longer,
                       options);
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

/* Does another thread of its process believe to hold it? */
static bool own_believes(const struct facts *facts, const struct fact *fact)
{
    for (size_t i = 0; i < facts->count && facts->feat_count; i++) {
        const struct fact *holder = &facts->all[i];
        uint64_t end = holder->lost < holder->rel_inv ? holder->lost : holder->rel_inv;
        end = holder->left < end ? holder->left : end;
        end = end == NEVER ? holder->alive : end;
        if (holder->result == H_OK && holder->process == fact->process &&
            holder->inv <= fact->ret && end >= fact->inv)
            return true;
    }
    return false;
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
        bool excused = !in_vain(a) || meets_holder(story, facts, a, options) ||
                       not_run(story, a) || own_believes(facts, a);
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
