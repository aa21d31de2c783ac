/* SPDX-License-Identifier: MIT */
/*
 * Ids, adoption and leaving: holds that move to another client or process, or stay in
 * the store without a handle.
 *
 * Ids lie in the model, so that any process can use them. What an id may bring is known
 * by its name and token: every part that has them is taken over together, as the
 * handles of a reentrant hold share one grant.
 */
#include <stdio.h>
#include <string.h>

#include "storm.h"

/* ---- Ids ------------------------------------------------------------------------- */

static void id_keep(const struct held *held, size_t index, const char *text)
{
    model_lock();
    const struct part *part = &world->parts[held->parts[index]];
    if (part->flags & P_TAKEN) { /* the id of a hold that has another one by now */
        model_unlock();
        return;
    }
    struct id_entry *entry = &world->ids[world->ids_at++ % IDS_MAX];
    *entry = (struct id_entry){ .used = true,
                                .since = world->names[part->name].takings_begun,
                                .name = part->name,
                                .token = part->token,
                                .kind = part->kind,
                                .permits = part->permits,
                                .limit = part->limit };
    snprintf(entry->text, sizeof entry->text, "%s", text);
    model_unlock();
}

void act_id(struct rng *rng)
{
    struct held held;
    hf_error why;
    char text[HF_ID_MAX];
    uint64_t choice = rng_next(rng);
    if (!held_take(rng, &held))
        return;
    size_t index = choice % held.count;
    int rc = CALL(hold_id, held.handle, index, text, sizeof text, &why);
    event("id: %s", code_name(rc));
    bool lost = rc == HF_ELOST && hf_hold_state(held.handle) == HF_LOST;
    bool closing = rc == HF_ECLOSED && atomic_load(&held.client->closing);
    bool cannot = rc == HF_EUNSUPPORTED && !(world->caps & HF_CAP_DETACH);
    if (rc == 0)
        id_keep(&held, index, text);
    else if (!lost && !closing && !cannot)
        violation(13, "hf_hold_id answers %s", code_name(rc));
    if (!held_put(&held))
        release_now(&held, "release");
}

/* Of a hold that this process has right now, so that it is adopted while it is held. */
static void id_make(struct rng *rng)
{
    struct held held;
    hf_error why;
    char text[HF_ID_MAX];
    if (!held_take(rng, &held))
        return;
    if (CALL(hold_id, held.handle, 0, text, sizeof text, &why) == 0)
        id_keep(&held, 0, text);
    if (!held_put(&held))
        release_now(&held, "release");
}

static bool id_pick(struct rng *rng, struct id_entry *ret_entry)
{
    uint64_t choice = rng_next(rng);
    bool again = rng_chance(rng, 100); /* an id that was used already */
    bool fresh = rng_chance(rng, world->config.lossy ? 900 : 500);
    if (fresh)
        id_make(rng);
    model_lock();
    if (fresh)
        choice = (world->ids_at + IDS_MAX - 1) % IDS_MAX;
    uint32_t count = world->ids_at < IDS_MAX ? world->ids_at : IDS_MAX;
    struct id_entry *entry = count ? &world->ids[choice % count] : NULL;
    bool found = entry && (entry->used || again) && entry->text[0];
    if (found) {
        *ret_entry = *entry;
        entry->used = false;
    }
    model_unlock();
    return found;
}

/* ---- Adopt ----------------------------------------------------------------------- */

/* What is known when an adoption begins. */
struct outlook {
    enum known known;
    bool spent; /* the hold was adopted since: it has another id now */
    struct taking *taking;
};

static bool id_is_spent(const struct id_entry *id)
{
    for (size_t i = 0; i < TAKINGS_KEPT; i++) {
        const struct taking *taking = &world->names[id->name].takings[i];
        if (taking->adoption && taking->state == TAKE_DONE &&
            taking->token == id->token && taking->serial > id->since)
            return true;
    }
    return false;
}

static struct outlook adopt_begin(struct ask *ask, const struct id_entry *id)
{
    struct name *name = &world->names[id->name];
    struct outlook outlook;
    model_lock();
    outlook.spent = id_is_spent(id);
    outlook.known = model_known(id->name, id->token);
    outlook.taking = taking_begin(id->name, id->token, true);
    ask->began_ns = now_ns();
    name->activity++;
    name_asks(name, 1);
    model_unlock();
    return outlook;
}

static void adopt_moved(struct ask *ask, const struct id_entry *id, hf_hold *handle,
                        const struct outlook *outlook, struct held *ret_held)
{
    uint64_t token = hf_hold_token(handle, 0);
    taking_end(id->name, outlook->taking, TAKE_DONE);
    if (outlook->spent)
        violation(15, "%.60s was adopted twice with one id",
                  world->names[id->name].text);
    if (outlook->known == SURELY_FREE)
        violation(15, "%.60s was adopted with token %llu, which had been released",
                  world->names[id->name].text, (unsigned long long)id->token);
    if (token != id->token && !atomic_load(&ask->client->closing))
        violation(15, "%.60s had token %llu, and after its adoption %llu",
                  world->names[id->name].text, (unsigned long long)id->token,
                  (unsigned long long)token);
    const struct grant *grant = grant_find(&world->names[id->name], token);
    if (grant && family_of(grant->kind) == family_of(id->kind))
        ask->wants[0].kind = grant->kind;
    int part = part_new(ask, 0, handle, token);
    check_exclusion(&world->parts[part]);
    *ret_held = (struct held){ .handle = handle, .client = ask->client, .count = 1 };
    ret_held->parts[0] = part;
    atomic_fetch_add(&world->adoptions, 1);
}

/* Of two adoptions of one hold that meet one finds nobody. */
static bool adopt_must_succeed(const struct id_entry *id, const struct outlook *outlook)
{
    return outlook->known == SURELY_HELD &&
           !adoption_meets(id->name, outlook->taking, id->since) &&
           model_known(id->name, id->token) == SURELY_HELD;
}

static void adopt_failed(const struct ask *ask, const struct id_entry *id, int rc,
                         const struct outlook *outlook)
{
    struct name *name = &world->names[id->name];
    bool closing = rc == HF_ECLOSED && atomic_load(&ask->client->closing);
    bool cannot = rc == HF_EUNSUPPORTED && !(world->caps & HF_CAP_DETACH);
    bool certain = rc == HF_ENOENT || cannot;
    taking_end(id->name, outlook->taking, certain ? TAKE_FAILED : TAKE_OPEN);
    if (certain) {
        if (!cannot && adopt_must_succeed(id, outlook))
            violation(15, "%.60s is held with token %llu, and cannot be adopted",
                      name->text, (unsigned long long)id->token);
    } else if (!closing && rc != HF_ETIMEOUT && rc != HF_ELOST &&
               !is_weather(rc, ask->began_ns)) {
        violation(13, "hf_adopt of %.60s answers %s", name->text, code_name(rc));
    }
    if (rc == HF_EUNCERTAIN || rc == HF_ECLOSED || rc == HF_ETIMEOUT)
        name->linger_until = FAR;
}

static void ask_fill(struct ask *ask, const struct id_entry *id, struct client *client,
                     struct rng *rng)
{
    static const int64_t leases[] = { 0, 200, 800, 1500 };
    *ask = (struct ask){ .client = client, .client_serial = client->serial };
    ask->count = 1;
    ask->names[0] = id->name;
    ask->wants[0] =
        hf_want_of(world->names[id->name].text, id->kind, id->permits, id->limit);
    ask->owner = UINT64_MAX - atomic_fetch_add(&world->serials, 1);
    ask->options = (hf_acquire_options)HF_ACQUIRE_OPTIONS_INIT;
    ask->options.timeout_ms = 3000;
    ask->options.ttl_ms = leases[rng_below(rng, 4)];
    if (ask->options.ttl_ms && rng_chance(rng, 300))
        ask->options.flags |= HF_DETACHED;
    if (ask->options.ttl_ms && rng_chance(rng, world->config.lossy ? 900 : 500))
        ask->options.flags |= HF_FIXED;
}

void act_adopt(struct rng *rng)
{
    struct id_entry id;
    struct ask ask;
    struct held held;
    hf_error why;
    hf_hold *handle = NULL;
    struct client *client = client_pick(rng);
    if (!client || !id_pick(rng, &id))
        return;
    ask_fill(&ask, &id, client, rng);
    struct outlook outlook = adopt_begin(&ask, &id);
    int rc = CALL(adopt, client->handle, id.text, &ask.options, &handle, &why);
    event("adopt %.30s token %llu: %s", world->names[id.name].text,
          (unsigned long long)id.token, code_name(rc));
    model_lock();
    if (rc == 0)
        adopt_moved(&ask, &id, handle, &outlook, &held);
    else
        adopt_failed(&ask, &id, rc, &outlook);
    name_asks(&world->names[id.name], -1);
    model_unlock();
    bool looks = rng_chance(rng, world->config.lossy ? 1000 : 500);
    looks &= rc == 0 && (world->caps & HF_CAP_INSPECT);
    if (rc == 0 && !held_put(&held))
        release_now(&held, "release of what was adopted");
    if (looks)
        inspect_name(client, id.name);
}

/* ---- Leave ----------------------------------------------------------------------- */

/* A hold that is not detached stays. */
static void leave_refused(struct held *held, bool detached)
{
    hf_error why;
    int rc = detached ? 0 : CALL(hold_leave, held->handle, &why);
    if (rc != HF_EINVAL && !detached && rc != HF_ECLOSED)
        violation(15, "a hold that is not detached is left: %s", code_name(rc));
    if (!held_put(held))
        release_now(held, "release");
}

void leave_held(struct rng *rng, struct held *held)
{
    hf_error why;
    char text[HF_ID_MAX];
    bool keeps_id = rng_chance(rng, 600);
    bool detached = true, open = false;
    model_lock();
    for (size_t i = 0; i < held->count; i++) {
        detached &= world->parts[held->parts[i]].detached;
        open |= world->parts[held->parts[i]].detach_open;
    }
    model_unlock();
    if (open) {
        if (!held_put(held))
            release_now(held, "release");
        return;
    }
    if (detached && keeps_id &&
        CALL(hold_id, held->handle, 0, text, sizeof text, &why) == 0)
        id_keep(held, 0, text);
    if (!detached || atomic_load(&held->client->closing)) {
        leave_refused(held, detached);
        return;
    }
    model_lock();
    model_left(held);
    model_unlock();
    int rc = CALL(hold_leave, held->handle, &why);
    event("leave: %s", code_name(rc));
    if (rc == 0)
        stale_put(held);
    if (rc == HF_ECLOSED || world->config.lossy)
        CALL(release, held->handle, &why);
    else if (rc != 0)
        violation(15, "a detached hold cannot be left: %s", code_name(rc));
    atomic_fetch_add(&world->leaves, 1);
}

void act_leave(struct rng *rng)
{
    struct held held;
    if (held_take(rng, &held))
        leave_held(rng, &held);
}
