/* SPDX-License-Identifier: MIT */
/*
 * The model at the end of a hold, and at looks at it: what a release, a verify or an
 * eviction may say; what is left behind; what a close does.
 */
#include <stdio.h>

#include "storm.h"

#define MARGIN_MS 60

/* ---- Release and looks ----------------------------------------------------------- */

static bool is_shared(const struct part *part)
{
    for (int i = 0; i < world->parts_end; i++)
        if (&world->parts[i] != part && parts_are_one(part, &world->parts[i]))
            return true;
    return false;
}

/* Other handles of the same grant, or ops that may bring one. */
static bool has_siblings(const struct part *part)
{
    bool asked = world->names[part->name].asking > 0;
    bool may_enter = part->kind == HF_REENTRANT && asked;
    /* A server is not asked when a hold goes on to another thread. */
    bool may_pass = world->default_ttl && part->kind == HF_MUTEX && asked;
    return may_enter || may_pass || is_shared(part);
}

static void begin(const struct held *held, struct farewell *farewell, bool release)
{
    *farewell = (struct farewell){ .count = held->count, .release = release };
    model_lock();
    farewell->closed = atomic_load(&held->client->closed);
    for (size_t i = 0; i < held->count; i++) {
        struct part *part = &world->parts[held->parts[i]];
        part_confirm(part);
        farewell->parts[i] = held->parts[i];
        if (i == 0) {
            farewell->name = part->name;
            farewell->token = part->token;
        }
        farewell->siblings |= has_siblings(part);
        farewell->activity[i] = world->names[part->name].activity;
        farewell->asked[i] = world->names[part->name].asking > 0;
        farewell->entered[i] = part->entered;
        farewell->flags |= part->flags;
        if (release)
            part->flags |= P_RELEASING;
    }
    farewell->state = hf_hold_state(held->handle);
    farewell->left_ms = hf_hold_left_ms(held->handle);
    farewell->began_ns = now_ns();
    model_unlock();
}

void model_release(const struct held *held, struct farewell *farewell)
{
    begin(held, farewell, true);
}

void model_look(const struct held *held, struct farewell *farewell)
{
    begin(held, farewell, false);
    farewell->siblings = false;
}

/* Others have asked for its name while the release was under way. */
static bool was_asked_for(const struct farewell *farewell, size_t index)
{
    const struct part *part = &world->parts[farewell->parts[index]];
    return farewell->asked[index] ||
           world->names[part->name].activity != farewell->activity[index];
}

/* The hold goes on, so that this release did not have to ask the store: its owner has
 * entered again meanwhile, or another thread has got it. */
static bool went_on(const struct farewell *farewell)
{
    for (size_t i = 0; i < farewell->count; i++) {
        const struct part *part = &world->parts[farewell->parts[i]];
        bool may_pass = world->default_ttl && part->kind == HF_MUTEX;
        if (part->entered != farewell->entered[i] || is_shared(part) ||
            part->left_once || (may_pass && was_asked_for(farewell, i)))
            return true;
    }
    return false;
}

/* What the model knows: lost (-1), perhaps (0), kept (1). */
static int fate(const struct farewell *farewell, uint32_t since)
{
    int64_t took = (now_ns() - farewell->began_ns) / NS_PER_MS;
    bool short_of =
        farewell->left_ms != HF_FOREVER && farewell->left_ms < took + MARGIN_MS;
    bool lossy = world->config.lossy && !world->config.unsent;
    bool others = farewell->siblings || (farewell->release && went_on(farewell));
    if ((farewell->flags & (P_EVICTED | P_ADOPTED)) || farewell->state == HF_LOST)
        return others || lossy ? 0 : -1;
    if (since & (P_TAKEN | P_DOUBTED | P_CLOSING) || short_of || world->config.lossy ||
        farewell->state == HF_DOUBTFUL)
        return 0;
    return 1;
}

static void judge(const struct farewell *farewell, uint32_t since, int rc,
                  const char *how)
{
    int known = fate(farewell, since);
    bool closing = (since & (P_CLOSING | P_CLOSED)) != 0;
    bool right = (rc == 0 && known >= 0) || (rc == HF_ELOST && known <= 0) ||
                 (rc == HF_ECLOSED && closing) || is_weather(rc, farewell->began_ns);
    if (farewell->closed)
        right = rc == HF_ECLOSED;
    else if (closing)
        right |= rc == 0 || rc == HF_ELOST || rc == HF_EUNCERTAIN;
    if (right)
        return;
    const struct part *part = &world->parts[farewell->parts[0]];
    violation(3,
              "%s of %.60s (kind %d, token %llu, %d parts) answers %s; %s; "
              "flags %#x, state %d, left %lld ms",
              how, world->names[part->name].text, part->kind,
              (unsigned long long)part->token, (int)farewell->count, code_name(rc),
              farewell->closed ? "its client is closed"
              : known < 0      ? "it was lost"
                               : "it was held",
              (unsigned)since, (int)farewell->state, (long long)farewell->left_ms);
}

static uint32_t flags_since(const struct farewell *farewell)
{
    uint32_t flags = farewell->flags;
    for (size_t i = 0; i < farewell->count; i++)
        flags |= world->parts[farewell->parts[i]].flags;
    return flags;
}

void model_looked(struct farewell *farewell, int rc, const char *how)
{
    model_lock();
    judge(farewell, flags_since(farewell), rc, how);
    model_unlock();
}

/* The store keeps the grant when the last of its handles is released. */
static void parts_stay(const struct part *part)
{
    for (int i = 0; i < world->parts_end; i++)
        world->parts[i].left_once |= parts_are_one(part, &world->parts[i]);
}

static void part_end(struct part *part, int rc, bool asked)
{
    struct name *name = &world->names[part->name];
    struct grant *grant = grant_find(name, part->token);
    if (part->flags & P_LEFT) /* it outlives its handle */
        return;
    if (rc == HF_ECLOSED) /* a detached grant outlives its client */
        parts_stay(part);
    if (rc != 0 && rc != HF_ELOST && rc != HF_ECLOSED)
        name_linger(name, now_ns() + 5000 * NS_PER_MS);
    if (rc == HF_ECLOSED || part->left_once)
        name_linger(name, now_ns() + (part->ttl_ms + 3000) * NS_PER_MS);
    if (grant && !is_shared(part)) {
        grant->handed = rc == 0 && name->asking > 0;
        grant->passed |= rc == 0 && asked;
        grant->over_ns = grant->handed ? 0 : now_ns();
        grant->freed_ns = rc == 0 && !part->left_once ? grant->over_ns : 0;
    }
    part_free(part);
}

void model_released(struct farewell *farewell, int rc, const char *how)
{
    model_lock();
    judge(farewell, flags_since(farewell), rc, how);
    for (size_t i = 0; i < farewell->count; i++)
        part_end(&world->parts[farewell->parts[i]], rc, was_asked_for(farewell, i));
    model_unlock();
}

/* Whose part it is may only be asked in its process: elsewhere a lease says nothing. */
enum known model_known(int name, uint64_t token)
{
    const struct grant *grant = grant_find(&world->names[name], token);
    bool any = false;
    for (int i = 0; i < world->parts_end; i++) {
        const struct part *part = &world->parts[i];
        if (!(part->flags & P_USED) || part->name != name || part->token != token)
            continue;
        bool endless = !part->leased && !(part->flags & (P_EXCUSED | P_RELEASING));
        bool moves = part->flags & (P_DOWNGRADING | P_DOWNGRADED); /* to another node */
        any = true;
        if (!world->config.lossy && !moves && (endless || part_is_held(part, 500)))
            return SURELY_HELD;
    }
    return !any && grant && grant->freed_ns ? SURELY_FREE : UNKNOWN;
}

/* ---- Leave and close ------------------------------------------------------------- */

/* From now on the store alone has it, at least for as long as its holder knew. It stays
 * there when the other handles of the grant are released. */
static void part_leave(struct part *part, int64_t left_ms)
{
    struct name *name = &world->names[part->name];
    parts_stay(part);
    part->flags = (part->flags | P_LEFT) & ~(uint32_t)(P_CLOSING | P_CLOSED);
    part->sure_until = now_ns() + (left_ms - MARGIN_MS) * NS_PER_MS;
    if (left_ms == HF_FOREVER || world->config.lossy)
        part->sure_until = 0;
    part->handle = NULL;
    part->disputes_count = 0;
    name_linger(name, now_ns() + (part->ttl_ms + 500) * NS_PER_MS);
    name->busy--;
}

void model_left(const struct held *held)
{
    for (size_t i = 0; i < held->count; i++) {
        struct part *part = &world->parts[held->parts[i]];
        int64_t left =
            hf_hold_state(held->handle) == HF_HELD ? hf_hold_left_ms(held->handle) : 0;
        part_confirm(part);
        part_leave(part, left);
    }
}

void model_closing(struct client *client, uint32_t flag)
{
    model_lock();
    for (int i = 0; i < world->parts_end; i++) {
        struct part *part = &world->parts[i];
        if (!(part->flags & P_USED) || part->client != client->serial ||
            (part->flags & P_LEFT))
            continue;
        part->flags |= flag;
        name_linger(&world->names[part->name],
                    now_ns() + (part->ttl_ms + 3000) * NS_PER_MS);
    }
    model_unlock();
}
