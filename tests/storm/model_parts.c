/* SPDX-License-Identifier: MIT */
/*
 * Parts and grants: made, found, freed. All under the model's lock.
 *
 * A grant is kept for a while after its last part has gone: handles of it may become
 * known late, and its token must never be seen again.
 */
#include <string.h>

#include "storm.h"

enum family family_of(int kind)
{
    switch (kind) {
    case HF_MUTEX:
    case HF_REENTRANT:
    case HF_FAIR:
        return F_MUTEX;
    case HF_READ:
    case HF_WRITE:
        return F_RW;
    case HF_PERMITS:
        return F_PERMITS;
    default:
        return F_EXPIRING;
    }
}

/* ---- Parts ----------------------------------------------------------------------- */

struct grant *grant_find(struct name *name, uint64_t token)
{
    for (size_t i = 0; i < GRANTS_KEPT; i++)
        if (name->grants[i].token == token && token != 0)
            return &name->grants[i];
    return NULL;
}

static void grant_keep(struct name *name, const struct part *part)
{
    struct grant *grant = grant_find(name, part->token);
    if (!grant) {
        grant = &name->grants[name->grants_at++ % GRANTS_KEPT];
        *grant = (struct grant){ .token = part->token,
                                 .owner = part->owner,
                                 .kind = part->kind,
                                 .reentrant = part->kind == HF_REENTRANT };
    }
    grant->over_ns = grant->freed_ns = 0;
    grant->handed = false;
    for (size_t i = 0; i < GRANTS_KEPT; i++) /* what was handed on has arrived */
        if (name->grants[i].handed && name->grants[i].token < part->token) {
            name->grants[i].handed = false;
            name->grants[i].freed_ns = name->grants[i].over_ns = now_ns();
        }
}

bool was_adopted(uint64_t owner)
{
    return owner > UINT64_MAX / 2;
}

bool parts_are_one(const struct part *a, const struct part *b)
{
    return (a->flags & P_USED) && (b->flags & P_USED) && a->name == b->name &&
           a->kind == HF_REENTRANT && b->kind == HF_REENTRANT && a->token == b->token &&
           a->owner == b->owner && a->process == b->process;
}

static struct part *part_slot(void)
{
    int64_t now = now_ns();
    for (int i = 0; i < PARTS_MAX; i++) {
        struct part *part = &world->parts[i];
        if ((part->flags & P_LEFT) && now > part->sure_until)
            part_free(part);
        if (part->flags & P_USED)
            continue;
        if (i >= world->parts_end)
            world->parts_end = i + 1;
        return part;
    }
    trouble("the model is full");
}

int64_t lease_asked(const struct ask *ask)
{
    int64_t ttl = ask->options.ttl_ms;
    bool expiring = false;
    for (size_t i = 0; i < ask->count; i++)
        expiring |= ask->wants[i].kind == HF_EXPIRING;
    if (!ttl)
        ttl = ask->client->ttl_ms ? ask->client->ttl_ms : world->default_ttl;
    if (!ttl && expiring)
        ttl = 30000;
    if (ask->options.max_hold_ms && (!ttl || ttl > ask->options.max_hold_ms))
        ttl = ask->options.max_hold_ms;
    return ttl;
}

/* Longer leases are renewed long before a busy machine can cost them. */
static bool may_end_by_itself(const struct ask *ask)
{
    return lease_asked(ask) && (lease_asked(ask) < 5000 || ask->options.max_hold_ms ||
                                (ask->options.flags & HF_FIXED));
}

static int64_t fixed_end(const struct ask *ask, int64_t now)
{
    int64_t end = FAR;
    if ((ask->options.flags & HF_FIXED) && lease_asked(ask))
        end = now + lease_asked(ask) * NS_PER_MS;
    if (ask->options.max_hold_ms && now + ask->options.max_hold_ms * NS_PER_MS < end)
        end = now + ask->options.max_hold_ms * NS_PER_MS;
    return end;
}

static uint32_t client_flags(const struct client *client)
{
    uint32_t flags = atomic_load(&client->closing) ? P_CLOSING : 0;
    return flags | (atomic_load(&client->closed) ? P_CLOSED : 0);
}

/* Of two that enter together the later one may be registered first, or alone. */
bool enters_beside_others(const struct ask *ask)
{
    for (size_t i = 0; i < ask->count; i++)
        if (ask->wants[i].kind == HF_REENTRANT &&
            (!ask->alone[i] ||
             world->names[ask->names[i]].activity != ask->activity[i]))
            return true;
    return false;
}

int part_new(const struct ask *ask, size_t index, hf_hold *handle, uint64_t token)
{
    const hf_want *want = &ask->wants[index];
    struct name *name = &world->names[ask->names[index]];
    struct part *part = part_slot();
    int64_t now = now_ns();
    uint32_t serial = part->serial + 1;
    uint32_t doubt = atomic_load(&world->doomed[self->number]) ? P_DOUBTED : 0;
    *part = (struct part){ .flags = P_USED | doubt | client_flags(ask->client),
                           .serial = serial,
                           .name = ask->names[index],
                           .kind = want->kind,
                           .permits = want->permits,
                           .limit = want->limit,
                           .token = token,
                           .owner = ask->owner,
                           .process = self->number,
                           .client = ask->client_serial,
                           .handle = handle,
                           .since_ns = now,
                           .asked_ns = ask->began_ns,
                           .fixed_end = fixed_end(ask, now),
                           .ttl_ms = lease_asked(ask),
                           .leased = may_end_by_itself(ask),
                           .fixed = ask->options.flags & HF_FIXED,
                           .detach_open = ask->reentered || enters_beside_others(ask),
                           .claim_detached = ask->options.flags & HF_DETACHED,
                           .detached = ask->options.flags & HF_DETACHED };
    part->adopted_after = was_adopted(ask->owner) ? name->takings_begun : 0;
    part->flags |= taken_flags(part);
    part->leased |= part->detach_open;         /* the lease is that of the first one */
    for (int i = 0; i < world->parts_end; i++) /* it shares what befell its siblings */
        if (&world->parts[i] != part && parts_are_one(part, &world->parts[i])) {
            part->flags |= world->parts[i].flags & P_TAKEN;
            part->left_once |= world->parts[i].left_once;
            part->leased |= world->parts[i].leased;
            part->fixed_end = FAR;
            part->fixed = false;
            part->detached &= world->parts[i].claim_detached;
            part->claim_detached = world->parts[i].claim_detached;
            part->detach_open = world->parts[i].detach_open;
        }
    if (token > name->max_token)
        name->max_token = token;
    grant_keep(name, part);
    name->busy++;
    return (int)(part - world->parts);
}

void part_free(struct part *part)
{
    if (!(part->flags & P_LEFT))
        world->names[part->name].busy--;
    part->flags = 0;
    part->serial++;
    while (world->parts_end > 0 && !(world->parts[world->parts_end - 1].flags & P_USED))
        world->parts_end--;
}

bool part_is_held(const struct part *part, int64_t margin_ms)
{
    if (!(part->flags & P_USED) || (part->flags & (P_EXCUSED | P_RELEASING)))
        return false;
    if (part->flags & P_LEFT)
        return now_ns() < part->sure_until - margin_ms * NS_PER_MS;
    if (part->process != self->number || hf_hold_state(part->handle) != HF_HELD)
        return false;
    int64_t left = hf_hold_left_ms(part->handle);
    return left == HF_FOREVER || left > margin_ms;
}
