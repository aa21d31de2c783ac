/* SPDX-License-Identifier: MIT */
/*
 * K12 by pairs, and what adoptions and evictions mean for the other checks: see
 * naive.h. A feat is what was done to a hold by another, a fact what a handle says.
 */
#include "naive.h"

/* ---- Reading --------------------------------------------------------------------- */

static void feat_read(struct feat *feat, const struct story_thread *told, size_t thread,
                      size_t first)
{
    const struct history_event *event = &told->events[first];
    *feat = (struct feat){ .op = event->op,
                           .token = event->token,
                           .got = event->token,
                           .inv = event->t_ns,
                           .ret = NEVER,
                           .thread = thread,
                           .number = event->hold };
    for (size_t i = first + 1; i < told->count; i++) {
        const struct history_event *other = &told->events[i];
        if (other->op != event->op || other->hold != event->hold ||
            other->phase != H_RETURN)
            continue;
        feat->ret = other->t_ns;
        feat->result = other->result;
        feat->got = other->token;
    }
}

void feats_read(struct facts *facts, const struct story *story)
{
    facts->feat_count = 0;
    for (size_t i = 0; i < story->count; i++)
        for (size_t j = 0; j < story->threads[i].count; j++) {
            const struct history_event *event = &story->threads[i].events[j];
            if ((event->op == H_ADOPT || event->op == H_EVICT) &&
                event->phase == H_INVOKE)
                feat_read(&facts->feats[facts->feat_count++], &story->threads[i], i, j);
        }
}

bool fact_left(const struct fact *fact)
{
    return fact->rel_inv == NEVER && (fact->left != NEVER || fact->detached);
}

void facts_believe(struct facts *facts)
{
    facts->feat_count = 0;
    for (size_t i = 0; i < facts->count; i++) {
        struct fact *fact = &facts->all[i];
        fact->until = NEVER;
        fact->detached = false;
        if (fact->left < fact->rel_inv)
            fact->rel_inv = fact->left;
        fact->left = NEVER;
    }
}

/* ---- One hold and what was done to it -------------------------------------------- */

static bool made(const struct feat *feat, const struct fact *fact)
{
    return fact->adopted && fact->thread == feat->thread &&
           fact->number == feat->number;
}

static bool may(const struct feat *feat)
{
    return feat->result == H_OK || feat->result == H_UNKNOWN || feat->result == 0;
}

static bool about(const struct feat *feat, const struct fact *fact)
{
    return fact->result == H_OK && fact->token && feat->token == fact->token &&
           !made(feat, fact);
}

bool feat_hits(const struct feat *feat, const struct fact *fact)
{
    bool before = fact->adopted && feat->ret < fact->inv;
    return about(feat, fact) && may(feat) && !before;
}

uint64_t feats_until(const struct facts *facts, const struct fact *fact, uint64_t until,
                     uint64_t longer, const struct check_options *options)
{
    uint64_t maybe = 0;
    for (size_t i = 0; i < facts->feat_count; i++) {
        const struct feat *feat = &facts->feats[i];
        if (!feat_hits(feat, fact))
            continue;
        if (feat->result == H_OK && feat->ret < until)
            until = feat->ret;
        uint64_t lease = feat->ret == NEVER || longer == NEVER
                             ? NEVER
                             : feat->ret + options->bound_ns + longer;
        if (feat->op == H_ADOPT && feat->result != H_OK && lease > maybe)
            maybe = lease;
    }
    return until > maybe ? until : maybe;
}

/* ---- K12 ------------------------------------------------------------------------- */

static bool inside_another(const struct facts *facts, const struct fact *fact)
{
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *outer = &facts->all[i];
        if (outer->thread == fact->thread && outer->result == H_OK &&
            outer->kind == H_REENTRANT && fact->kind == H_REENTRANT && !fact->adopted &&
            outer->asked < fact->asked && outer->releasing > fact->answered &&
            outer->token == fact->token)
            return true;
    }
    return false;
}

static uint64_t believed(const struct fact *fact)
{
    return fact->lost < fact->rel_inv ? fact->lost : fact->rel_inv;
}

/* Its release says that it ended the hold. */
static bool says_so(const struct facts *facts, const struct fact *fact)
{
    return fact->result == H_OK && fact->token && fact->release == H_OK &&
           !inside_another(facts, fact);
}

/* And nothing else can have. */
static bool ended(const struct facts *facts, const struct fact *fact)
{
    bool alone = says_so(facts, fact);
    for (size_t i = 0; i < facts->feat_count; i++) {
        const struct feat *feat = &facts->feats[i];
        if (about(feat, fact) && feat->result == H_OK && feat->inv <= fact->rel_ret &&
            feat->ret >= believed(fact))
            alone = false;
    }
    return alone;
}

static bool evicts(const struct feat *feat)
{
    return feat->op == H_EVICT && feat->result == H_OK;
}

/* Ends beyond the first, of the token that this feat is the first to name. */
static uint64_t ends_extra(const struct facts *facts, size_t index)
{
    uint64_t token = facts->feats[index].token, count = 0;
    for (size_t i = 0; i < index; i++)
        if (facts->feats[i].token == token)
            return 0;
    for (size_t i = 0; i < facts->count; i++)
        count += facts->all[i].token == token && ended(facts, &facts->all[i]);
    for (size_t i = 0; i < facts->feat_count; i++)
        count += facts->feats[i].token == token && evicts(&facts->feats[i]);
    return count > 1 ? count - 1 : 0;
}

static bool ended_before(const struct facts *facts, const struct feat *feat)
{
    for (size_t i = 0; i < facts->count; i++)
        if (facts->all[i].token == feat->token && ended(facts, &facts->all[i]) &&
            facts->all[i].rel_ret < feat->inv)
            return true;
    for (size_t i = 0; i < facts->feat_count; i++)
        if (facts->feats[i].token == feat->token && evicts(&facts->feats[i]) &&
            facts->feats[i].ret < feat->inv)
            return true;
    return false;
}

static bool granted_before(const struct facts *facts, const struct feat *feat)
{
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *fact = &facts->all[i];
        bool unknown =
            !fact->adopted && (fact->result == H_UNKNOWN || fact->ret == NEVER);
        if ((about(feat, fact) || unknown) && fact->inv <= feat->ret)
            return true;
    }
    return false;
}

static bool kept(const struct facts *facts, const struct fact *fact)
{
    for (size_t i = 0; i < facts->feat_count; i++) {
        const struct feat *feat = &facts->feats[i];
        if (says_so(facts, fact) && about(feat, fact) && feat->result == H_OK &&
            feat->inv >= fact->ret && feat->ret < believed(fact))
            return true;
    }
    return false;
}

/* Told that it was lost before the promise was over, though it was not taken. */
static bool lost_for_nothing(const struct facts *facts, const struct fact *fact)
{
    uint64_t told = fact->lost;
    if (fact->release == H_LATE && fact->rel_ret < told)
        told = fact->rel_ret;
    if (fact->result != H_OK || told >= fact->until)
        return false;
    for (size_t i = 0; i < facts->feat_count; i++) {
        const struct feat *feat = &facts->feats[i];
        bool own = fact->thread == feat->thread && fact->number == feat->number;
        if (feat->token == fact->token && may(feat) && !own && feat->inv <= told)
            return false;
    }
    return true;
}

uint64_t naive_moves(const struct facts *facts)
{
    uint64_t found = 0;
    for (size_t i = 0; i < facts->feat_count; i++) {
        const struct feat *feat = &facts->feats[i];
        found += feat->result == H_OK && !granted_before(facts, feat);
        found +=
            feat->result == H_OK && feat->op == H_ADOPT && ended_before(facts, feat);
        found += ends_extra(facts, i);
    }
    for (size_t i = 0; i < facts->count; i++) {
        bool named = false;
        for (size_t j = 0; j < facts->feat_count; j++)
            named |= facts->feats[j].token == facts->all[i].token;
        found += named && kept(facts, &facts->all[i]);
        found += lost_for_nothing(facts, &facts->all[i]);
    }
    return found;
}
