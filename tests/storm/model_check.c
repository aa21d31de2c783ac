/* SPDX-License-Identifier: MIT */
/*
 * The checks that need several parts at once: exclusion, tokens, leases.
 *
 * All under the model's lock. Exclusion: a part that has just been registered, and says
 * HF_HELD, meets the others of its name. Those of its own process are asked at once
 * whether they are held; the others get a *dispute*, which the owner answers when it
 * next comes by. Lost is for ever, so a hold that says HF_HELD later was not lost
 * before: what it confirms later conflicted then.
 */
#include <stdio.h>
#include <string.h>

#include "storm.h"

#define DRIFT_SLACK_MS 30

/* ---- S2: tokens ------------------------------------------------------------------ */

/* The grant of a reentrant hold that its owner still had when we asked. */
static bool is_reentry(const struct ask *ask, size_t index, uint64_t token)
{
    const struct grant *grant = grant_find(&world->names[ask->names[index]], token);
    for (int i = 0; i < world->parts_end; i++) {
        const struct part *part = &world->parts[i];
        if ((part->flags & P_USED) && part->name == ask->names[index] &&
            part->token == token && part->owner == ask->owner &&
            part->kind == HF_REENTRANT && ask->wants[index].kind == HF_REENTRANT)
            return true;
    }
    return grant && grant->reentrant && ask->wants[index].kind == HF_REENTRANT &&
           grant->owner == ask->owner &&
           (grant->over_ns == 0 || grant->over_ns > ask->began_ns);
}

bool check_token(const struct ask *ask, size_t index, uint64_t token)
{
    const struct name *name = &world->names[ask->names[index]];
    if (token == 0 && atomic_load(&ask->client->closing))
        return false;
    if (is_reentry(ask, index, token))
        return true;
    if (token <= ask->floor[index])
        violation(2, "%.60s was granted to kind %d with token %llu; %llu was before it",
                  name->text, ask->wants[index].kind, (unsigned long long)token,
                  (unsigned long long)ask->floor[index]);
    for (int i = 0; i < world->parts_end; i++) {
        const struct part *part = &world->parts[i];
        if ((part->flags & P_USED) && part->name == ask->names[index] &&
            part->token == token)
            violation(2, "%.60s was granted twice with token %llu", name->text,
                      (unsigned long long)token);
    }
    return false;
}

/* ---- S1: exclusion --------------------------------------------------------------- */

/* How much of the room that `mine` leaves the other one takes; 0: they may both be. */
static int64_t weight_against(const struct part *mine, const struct part *other)
{
    if (family_of(mine->kind) != family_of(other->kind))
        return 1;
    switch (family_of(mine->kind)) {
    case F_MUTEX:
        return parts_are_one(mine, other) ? 0 : 1;
    case F_RW:
        if (mine->kind == HF_READ && other->kind == HF_READ)
            return 0;
        return !((mine->flags | other->flags) & P_DOWNGRADING);
    default:
        return other->permits;
    }
}

static int64_t room_of(const struct part *mine)
{
    enum family family = family_of(mine->kind);
    return family == F_MUTEX || family == F_RW ? 0 : mine->limit - mine->permits;
}

static int64_t room_beside(const struct part *mine, const struct part *other)
{
    bool other_sum =
        family_of(mine->kind) != family_of(other->kind) || mine->limit != other->limit;
    return other_sum ? 0 : room_of(mine);
}

static void conflict(struct dispute *dispute, const struct part *other)
{
    violation(1,
              "%s; beside it kind %d, %u permits, token %llu of process %d says "
              "that it is held%s",
              dispute->text, other->kind, other->permits,
              (unsigned long long)other->token, other->process,
              other->flags & P_LEFT ? " (it was left behind)" : "");
}

static void dispute_confirm(struct dispute *dispute, const struct part *other,
                            int64_t weight, int64_t room)
{
    dispute->room -= weight;
    if (dispute->room < 0 || room < weight)
        conflict(dispute, other);
}

static struct dispute *dispute_open(const struct part *mine, uint32_t *ret_slot)
{
    *ret_slot = world->disputes_at++ % DISPUTES_MAX;
    struct dispute *dispute = &world->disputes[*ret_slot];
    dispute->serial++;
    dispute->room = room_of(mine);
    char text[sizeof dispute->text];
    snprintf(text, sizeof text,
             "%.60s was granted to kind %d, %u of %u permits, token %llu, process %d",
             world->names[mine->name].text, mine->kind, mine->permits, mine->limit,
             (unsigned long long)mine->token, mine->process);
    memcpy(dispute->text, text, sizeof text);
    return dispute;
}

static bool at_once(const struct part *other)
{
    return (other->flags & P_LEFT) || other->process == self->number;
}

void check_exclusion(struct part *part)
{
    struct dispute *dispute = NULL;
    uint32_t slot = 0;
    if ((part->flags & P_EXCUSED) || hf_hold_state(part->handle) != HF_HELD)
        return;
    for (int i = 0; i < world->parts_end; i++) {
        struct part *other = &world->parts[i];
        if (other == part || !(other->flags & P_USED) || other->name != part->name ||
            (other->flags & (P_EXCUSED | P_RELEASING)))
            continue;
        int64_t weight = weight_against(part, other);
        if (weight == 0)
            continue;
        if (!dispute)
            dispute = dispute_open(part, &slot);
        if (at_once(other) && part_is_held(other, 0))
            dispute_confirm(dispute, other, weight, room_beside(part, other));
        else if (!at_once(other) && other->disputes_count < PART_DISPUTES) {
            other->disputes[other->disputes_count++] = slot | dispute->serial << 8;
            atomic_fetch_add(&world->disputes_opened, 1);
        }
    }
}

/* The owner of a part answers what came up about it. */
void part_confirm(struct part *part)
{
    if (part->disputes_count == 0 || part->process != self->number ||
        (part->flags & P_LEFT))
        return;
    bool held = part_is_held(part, 0);
    for (uint32_t i = 0; held && i < part->disputes_count; i++) {
        struct dispute *dispute = &world->disputes[part->disputes[i] & 0xff];
        bool same = (dispute->serial & 0xffffff) == part->disputes[i] >> 8;
        bool sum = part->kind == HF_PERMITS || part->kind == HF_EXPIRING;
        if (same)
            dispute_confirm(dispute, part, sum ? part->permits : 1,
                            sum ? part->permits : 0);
    }
    part->disputes_count = 0;
}

void disputes_answer(int process)
{
    if (world->config.processes == 1)
        return;
    model_lock();
    for (int i = 0; i < world->parts_end; i++) {
        struct part *part = &world->parts[i];
        if ((part->flags & P_USED) && part->process == process &&
            !(part->flags & P_RELEASING))
            part_confirm(part);
    }
    model_unlock();
}

/* ---- S6: leases ------------------------------------------------------------------ */

/* A mutex that another thread of the client had goes on with the lease that it has, if
 * a third of it is left. */
static bool may_be_passed_on(const struct ask *ask)
{
    return ask->count == 1 && ask->wants[0].kind == HF_MUTEX && !ask->quiet[0];
}

void check_lease(const struct ask *ask, const hf_hold *handle, bool reentered)
{
    int64_t asked = lease_asked(ask);
    int64_t left = hf_hold_left_ms(handle);
    int64_t took = (now_ns() - ask->began_ns) / NS_PER_MS;
    enum hf_state state = hf_hold_state(handle);
    const char *name = ask->wants[0].name;
    if (reentered || enters_beside_others(ask) || atomic_load(&ask->client->closing) ||
        state == HF_LOST)
        return;
    if (!asked && left != HF_FOREVER && !world->session_ms)
        violation(6, "%.60s asked for no lease and has %lld ms left", name,
                  (long long)left);
    if (asked && (left > asked || left == HF_FOREVER))
        violation(6, "%.60s asked for a lease of %lld ms and has %lld ms left", name,
                  (long long)asked, (long long)left);
    int64_t least = (may_be_passed_on(ask) ? asked / 3 : asked - asked / 50) - took -
                    DRIFT_SLACK_MS;
    if (asked && !world->session_ms && left < least)
        violation(6,
                  "%.60s asked for %lld ms, was granted after %lld and has %lld left",
                  name, (long long)asked, (long long)took, (long long)left);
}
