/* SPDX-License-Identifier: MIT */
/*
 * What is done to holds from outside, by their token or their id: evict, adopt, leave.
 *
 * A holder posts the id of its hold as a parcel; an actor of any client may take the
 * parcel and adopt the hold. It must then have it under the same token, and the former
 * handle must be lost. An eviction takes the hold with exactly its token: one that was
 * released before is gone, one that is held is there. What is left behind stays in the
 * store until its lease is over, or until it is adopted.
 */
#include "sim.h"

#include <string.h>

enum { PARCELS_MAX = 8, SPAN_MOST = 16 };

struct parcel {
    bool there;
    bool released; /* its hold, for certain, before the adoption began */
    struct belief what;
    char id[HF_ID_MAX];
};

static struct parcel parcels[PARCELS_MAX];

void repair_reset(void)
{
    memset(parcels, 0, sizeof(parcels));
}

static bool is_open_end(int rc)
{
    return set.store != SIM_MEM && (rc == HF_EUNCERTAIN || rc == HF_EUNREACHABLE);
}

/* ---- evict ----------------------------------------------------------------------- */

enum aim { AIM_HOLDER = 0, AIM_NEWEST, AIM_STALE, AIM_FUTURE, AIMS };

static uint64_t draw_token(const struct name *name, enum aim aim)
{
    if (aim == AIM_HOLDER && name->beliefs)
        return name->beliefs->token;
    if (aim == AIM_STALE)
        return name->done[dice() % TOKENS_KEPT];
    return name->told ? name->told + (aim == AIM_FUTURE) * (1 + dice() % 5) : 0;
}

/* mem does not know a request again whose answer the fault shim has lost: it then says
 * that nobody holds it, which is so. */
static void check_evicted(int index, uint64_t token, int rc, const struct belief *was,
                          uint32_t entry)
{
    const struct belief *is = oracle_holder(index, token);
    if (rc == 0 || (rc == HF_ENOENT && set.store == SIM_FAULT))
        return;
    if (rc == HF_ENOENT)
        oracle_not_evicted(index, entry);
    else if (!is_open_end(rc) && rc != HF_ECLOSED)
        violation("hf_evict answered %s", hf_error_name(rc));
    if (rc == HF_ENOENT && was && was == is && !oracle_is_gone(is) &&
        oracle_alive(oracle_holder(index, token)))
        violation("%s: token %llu is held, and cannot be evicted", names[index].text,
                  (unsigned long long)oracle_number(token));
}

bool repair_evict(struct actor *actor)
{
    int index = (int)(dice() % (uint64_t)set.names);
    enum aim aim = (enum aim)(dice() % AIMS);
    uint64_t token = draw_token(&names[index], aim);
    if (!token)
        return false;
    const struct belief *was = oracle_holder(index, token);
    if (was && !oracle_alive(oracle_holder(index, token)))
        was = NULL;
    /* A lock that is handed on goes by its old number until it is taken. */
    bool exact = set.store != SIM_LEASE || set.handoff == HF_OFF;
    bool stale = aim == AIM_STALE && exact && names[index].told > token;
    /* If the holder's client is silent, the last number heard of stands for it. */
    uint32_t entry = oracle_evicting(index, token, token + (exact ? 0 : SPAN_MOST));
    int rc = hf_evict(client_of(actor)->handle, names[index].text, token, NULL);
    thread_guard(true);
    trace(EVENT_EVICT, actor->client, actor->index, oracle_number(token), (uint64_t)rc);
    check_evicted(index, token, rc, was, entry);
    if (rc == 0 && stale)
        violation("%s: token %llu was released, and could be evicted",
                  names[index].text, (unsigned long long)oracle_number(token));
    if (rc == 0) {
        count.evicted++;
        oracle_gone(index, token);
    }
    thread_guard(false);
    return true;
}

/* ---- post and adopt -------------------------------------------------------------- */

void repair_post(struct actor *actor)
{
    struct parcel *parcel = &parcels[dice() % PARCELS_MAX];
    const struct belief *part = &actor->parts[0];
    char id[HF_ID_MAX];
    bool shared = part->kind == HF_REENTRANT && actor->owner;
    if (actor->count != 1 || actor->posted || shared)
        return;
    actor->posted = true;
    if (hf_hold_id(actor->hold, 0, id, sizeof(id), NULL) != 0 || !actor->count)
        return;
    parcel->there = true;
    parcel->released = false;
    parcel->what = *part;
    memcpy(parcel->id, id, sizeof(id));
}

/* A release of it was confirmed: the id is nobody's any more. */
void repair_released(int name, uint64_t token)
{
    names[name].done[names[name].done_next++ % TOKENS_KEPT] = token;
    for (int i = 0; i < PARCELS_MAX; i++)
        if (parcels[i].what.name == name && parcels[i].what.token == token)
            parcels[i].released = true;
}

static void adopt_failed(const struct parcel *parcel, int rc, const struct belief *was)
{
    int name = parcel->what.name;
    uint64_t token = parcel->what.token;
    if (rc == HF_ELOST && set.store != SIM_MEM)
        return; /* a try before may have moved it, with a lease that is over by now */
    if (rc == HF_ENOENT || rc == HF_EUNREACHABLE)
        oracle_moved(name, token, false); /* nothing has happened to it */
    else if (!is_open_end(rc) && rc != HF_ECLOSED)
        violation("hf_adopt answered %s", hf_error_name(rc));
    const struct belief *is = oracle_holder(name, token);
    if (rc == HF_ENOENT && was && was == is && !oracle_is_gone(is) &&
        oracle_alive(oracle_holder(name, token)))
        violation("%s: token %llu is held, and cannot be adopted", names[name].text,
                  (unsigned long long)oracle_number(token));
}

static void adopted(struct actor *actor, const struct parcel *parcel, hf_hold *hold)
{
    uint64_t token = hf_hold_token(hold, 0);
    if (token != parcel->what.token && !actor_was_closed(actor))
        violation("%s: token %llu was adopted and is %llu",
                  names[parcel->what.name].text,
                  (unsigned long long)oracle_number(parcel->what.token),
                  (unsigned long long)oracle_number(token));
    if (parcel->released)
        violation("%s: token %llu was released, and could be adopted",
                  names[parcel->what.name].text,
                  (unsigned long long)oracle_number(token));
    oracle_gone(parcel->what.name, parcel->what.token);
    actor->parts[0] = (struct belief){
        .client = actor->client,
        .name = parcel->what.name,
        .kind = parcel->what.kind,
        .permits = parcel->what.permits,
        .closes = actor->closes_before,
        .dies_at = NEVER,
    };
    actor->count = 1;
    count.adopted++;
    actor_take(actor, hold, true);
}

bool repair_adopt(struct actor *actor)
{
    struct parcel parcel = parcels[dice() % PARCELS_MAX];
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold = NULL;
    if (!parcel.there)
        return false;
    for (int i = 0; i < PARCELS_MAX; i++)
        if (parcels[i].there && strcmp(parcels[i].id, parcel.id) == 0)
            parcels[i].there = false;
    actor_begin(actor);
    actor_draw_options(actor, &options);
    const struct belief *was = oracle_holder(parcel.what.name, parcel.what.token);
    if (was && !oracle_alive(oracle_holder(parcel.what.name, parcel.what.token)))
        was = NULL;
    oracle_moved(parcel.what.name, parcel.what.token, true);
    int rc = hf_adopt(client_of(actor)->handle, parcel.id, &options, &hold, NULL);
    thread_guard(true);
    trace(EVENT_ADOPT, actor->client, actor->index, oracle_number(parcel.what.token),
          (uint64_t)rc);
    if (rc == 0)
        adopted(actor, &parcel, hold);
    else
        adopt_failed(&parcel, rc, was);
    thread_guard(false);
    if (rc != 0)
        actor_rest(actor);
    return true;
}

/* ---- leave ----------------------------------------------------------------------- */

void repair_leave(struct actor *actor)
{
    hf_hold *hold = actor->hold;
    if (dice_chance(700))
        repair_post(actor);
    thread_guard(true);
    int64_t left_ns = hf_hold_left_ms(hold) * MS;
    for (int i = 0; i < actor->count; i++)
        if (oracle_alive(&actor->parts[i]) && !oracle_is_gone(&actor->parts[i]))
            oracle_left(&actor->parts[i], sim_now + left_ns - left_ns / 50);
    actor_end_beliefs(actor);
    thread_guard(false);
    actor->hold = NULL;
    actor->leaving = hold;
    net.left_behind = true;
    int rc = hf_hold_leave(hold, NULL);
    trace(EVENT_LEAVE, actor->client, actor->index, (uint64_t)rc, 0);
    actor->leaving = NULL;
    if (rc == HF_ECLOSED && actor_was_closed(actor))
        hf_release(hold, NULL); /* the handle only */
    else if (rc != 0)
        violation("hf_hold_leave answered %s", hf_error_name(rc));
    actor_rest(actor);
}
