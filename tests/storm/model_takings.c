/* SPDX-License-Identifier: MIT */
/*
 * Evictions and adoptions: what they mean to the parts of their token while they are
 * under way, and when they are over. All under the model's lock.
 *
 * Several may be under way for one token at a time. A part is open to each of them, so
 * that its flags are always worked out from all that are remembered.
 */
#include "storm.h"

static bool concerns(const struct taking *taking, const struct part *part)
{
    bool before = taking->adoption && taking->serial <= part->adopted_after;
    return taking->state != TAKE_FAILED && taking->token == part->token &&
           part->token != 0 && !before;
}

/* Of a part that has just come to be known. */
uint32_t taken_flags(const struct part *part)
{
    const struct name *name = &world->names[part->name];
    uint32_t flags = 0;
    for (size_t i = 0; i < TAKINGS_KEPT; i++)
        if (concerns(&name->takings[i], part))
            flags |= name->takings[i].state == TAKE_DONE ? P_EVICTED : P_EVICT_TRIED;
    return flags;
}

static uint32_t tried_flags(const struct part *part)
{
    const struct name *name = &world->names[part->name];
    uint32_t flags = 0;
    for (size_t i = 0; i < TAKINGS_KEPT; i++) {
        const struct taking *taking = &name->takings[i];
        if (concerns(taking, part) && taking->state != TAKE_DONE)
            flags |= taking->adoption ? P_ADOPT_TRIED : P_EVICT_TRIED;
    }
    return flags;
}

/* What follows for one part from a taking that has begun or ended. */
static void part_taken(struct part *part, const struct taking *taking)
{
    bool moves = world->session_ms &&
                 (part->flags & (P_DOWNGRADING | P_DOWNGRADED)); /* to a new node */
    bool passed = !taking->adoption && ((part->flags & P_RELEASING) || moves);
    if (taking->state == TAKE_OPEN || (taking->state == TAKE_DONE && passed))
        part->flags |= P_DOUBTED; /* which of the two was first stays open */
    else if (taking->state == TAKE_DONE)
        part->flags |= taking->adoption ? P_ADOPTED : P_EVICTED;
    part->flags &= ~(uint32_t)(P_EVICT_TRIED | P_ADOPT_TRIED);
    part->flags |= tried_flags(part);
    if ((part->flags & P_LEFT) && (part->flags & P_ADOPTED))
        part_free(part);
}

static void parts_taken(int name, const struct taking *taking)
{
    struct taking before = *taking;
    if (before.state == TAKE_FAILED)
        before.state = TAKE_RUNS; /* for concerns(): until now it was one */
    for (int i = 0; i < world->parts_end; i++) {
        struct part *part = &world->parts[i];
        if ((part->flags & P_USED) && part->name == name && concerns(&before, part))
            part_taken(part, taking);
    }
}

struct taking *taking_begin(int name, uint64_t token, bool adoption)
{
    struct name *of = &world->names[name];
    struct taking *taking;
    do /* not one that is under way */
        taking = &of->takings[++of->takings_begun % TAKINGS_KEPT];
    while (taking->state == TAKE_RUNS);
    *taking = (struct taking){ .token = token,
                               .serial = of->takings_begun,
                               .state = TAKE_RUNS,
                               .adoption = adoption };
    parts_taken(name, taking);
    return taking;
}

void taking_end(int name, struct taking *taking, enum taking_state state)
{
    /* Where answers get lost, it may have found nobody the second time only. */
    bool repeats = world->config.lossy && !world->config.unsent;
    taking->state = state == TAKE_FAILED && repeats ? TAKE_OPEN : state;
    parts_taken(name, taking);
}

bool adoption_meets(int name, const struct taking *mine, uint32_t since)
{
    const struct name *of = &world->names[name];
    if (of->takings_begun - since >= TAKINGS_KEPT)
        return true; /* more than is remembered */
    for (size_t i = 0; i < TAKINGS_KEPT; i++) {
        const struct taking *other = &of->takings[i];
        bool counts = other->serial > since || other->state == TAKE_RUNS;
        if (other != mine && other->adoption && other->state != TAKE_FAILED &&
            other->token == mine->token && counts)
            return true;
    }
    return false;
}
