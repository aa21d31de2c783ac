/* SPDX-License-Identifier: MIT */
/*
 * What must hold of locks, whatever happens.
 *
 * A belief is one want of a hold that an actor was given and has not let go of. At
 * every moment at which a client has done something, those of one name that do not say
 * HF_LOST by their own client's clock must fit together (time alone only ends beliefs).
 * Once lost is lost for good. A token is larger than every one told before its request
 * was made; that of an exclusive hold that is not lost, larger than every one told. And
 * a register that refuses old tokens sees no update of a holder vanish.
 *
 * A hold that was evicted or adopted is told of it some time later; until then it may
 * say held beside another, and only the register is asked about it. One that was left
 * behind goes on without a handle until its lease is over: a ghost.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

struct name names[NAMES_MAX];
static uint64_t first_number;

enum { GHOSTS_MAX = 64 };
static struct belief ghosts[GHOSTS_MAX];

/* Pairs with the same hash, and all in one chain of a table. */
static const char *const colliding[NAMES_MAX] = { "n0/000a74", "n1/00584d", "n2/0167f4",
                                                  "n3/04e677", "n4/034e4c", "n5/00bb35",
                                                  "n6/01b5d6", "n7/051229" };

/* Longer than what a claim keeps inside itself, and than what stays known when idle. */
static void name_write(struct name *name, int index)
{
    static const int lengths[] = { 27, 28, 128, 129 };
    int length = dice_chance(set.strange) ? lengths[dice() % 4] : 2;
    memset(name->text, '{', (size_t)length);
    name->text[0] = 'n';
    name->text[1] = (char)('0' + index % 10);
    name->text[2] = length > 2 ? '/' : '\0';
    if (length > 2 && dice_chance(500))
        snprintf(name->text, sizeof(name->text), "%s", colliding[index]);
}

void oracle_reset(void)
{
    memset(names, 0, sizeof(names));
    memset(ghosts, 0, sizeof(ghosts));
    first_number = 0;
    for (int i = 0; i < NAMES_MAX; i++) {
        name_write(&names[i], i);
        names[i].family =
            i < set.names ? (enum family)(dice() % FAMILIES) : FAMILY_MUTEX;
        if (i == 0)
            names[i].family = FAMILY_MUTEX;
        names[i].limit = (uint32_t)dice_between(1, 5);
    }
}

/* For the trace: mem counts on over all spaces of a process, and so over seeds. */
uint64_t oracle_number(uint64_t token)
{
    if (set.store == SIM_LEASE || !token)
        return token;
    if (!first_number)
        first_number = token;
    return token - first_number;
}

static bool is_exclusive(const struct belief *belief)
{
    return belief->kind != HF_READ && belief->kind != HF_PERMITS &&
           belief->kind != HF_EXPIRING;
}

bool oracle_is_evicted(int index, uint64_t token)
{
    const struct name *name = &names[index];
    uint32_t many = name->gone_next < EVICTIONS_KEPT ? name->gone_next : EVICTIONS_KEPT;
    for (uint32_t i = 0; i < many; i++)
        if (token >= name->gone[i].first && token <= name->gone[i].last)
            return true;
    return false;
}

static bool is_exempt(const struct belief *belief)
{
    return belief->moved || belief->gone ||
           oracle_is_evicted(belief->name, belief->token);
}

bool oracle_is_gone(const struct belief *belief)
{
    return is_exempt(belief);
}

static bool is_alive(struct belief *belief)
{
    if (belief->ghost)
        return sim_now < belief->until;
    int before = os_enter(belief->client);
    thread_guard(true);
    bool lost = hf_hold_state(belief->hold) == HF_LOST;
    thread_guard(false);
    os_enter(before);
    bool open = sim_client(belief->client)->closes == belief->closes;
    if (lost && open && belief->for_good && !is_exempt(belief))
        violation("%s: client %d lost a hold without lease (token %llu)",
                  names[belief->name].text, belief->client,
                  (unsigned long long)oracle_number(belief->token));
    if (!lost && sim_now > belief->dies_at)
        violation("%s: a hold of client %d lives longer than it asked for (token %llu)",
                  names[belief->name].text, belief->client,
                  (unsigned long long)oracle_number(belief->token));
    if (!lost && belief->lost_seen)
        violation("%s: a hold of client %d was lost and is held again (token %llu)",
                  names[belief->name].text, belief->client,
                  (unsigned long long)oracle_number(belief->token));
    belief->lost_seen |= lost;
    return !lost;
}

bool oracle_alive(struct belief *belief)
{
    return is_alive(belief);
}

static bool fit(const struct belief *a, const struct belief *b)
{
    if (a->kind == HF_READ && b->kind == HF_READ)
        return true;
    return a->kind == HF_REENTRANT && b->kind == HF_REENTRANT &&
           a->client == b->client && a->owner == b->owner;
}

static void check_pairs(const struct name *name)
{
    for (struct belief *a = name->beliefs; a; a = a->next) {
        if (!is_alive(a) || is_exempt(a))
            continue;
        for (struct belief *b = a->next; b; b = b->next)
            if (!fit(a, b) && is_alive(b) && !is_exempt(b))
                violation("%s: clients %d and %d both hold it (tokens %llu, %llu)",
                          name->text, a->client, b->client,
                          (unsigned long long)oracle_number(a->token),
                          (unsigned long long)oracle_number(b->token));
    }
}

static void check_sum(const struct name *name)
{
    uint64_t sum = 0;
    for (struct belief *belief = name->beliefs; belief; belief = belief->next)
        if (is_alive(belief) && !is_exempt(belief))
            sum += belief->permits;
    if (sum > name->limit)
        violation("%s: %llu permits of %u are held", name->text,
                  (unsigned long long)sum, name->limit);
}

void oracle_check(void)
{
    for (int i = 0; i < set.names; i++) {
        if (names[i].belief_count < 2)
            continue;
        if (names[i].family == FAMILY_MUTEX || names[i].family == FAMILY_RW)
            check_pairs(&names[i]);
        else
            check_sum(&names[i]);
    }
}

static void belief_add(struct belief *belief)
{
    struct name *name = &names[belief->name];
    belief->next = name->beliefs;
    name->beliefs = belief;
    name->belief_count++;
}

/* ---- tokens and the register ----------------------------------------------------- */

/* All who have entered share the lease. */
void oracle_extended(const struct belief *belief)
{
    for (struct belief *at = names[belief->name].beliefs; at; at = at->next)
        if (at->token == belief->token)
            at->dies_at = NEVER;
}

void oracle_granted(struct belief *belief, uint64_t floor)
{
    struct name *name = &names[belief->name];
    /* Entered again, perhaps by one who heard of the first entry later. */
    bool again = belief->kind == HF_REENTRANT && belief->token == name->told &&
                 belief->client == name->told_client &&
                 belief->owner == name->told_owner;
    belief->lost_seen = false;
    bool alive = is_alive(belief);
    again |= belief->kind == HF_REENTRANT && !alive && belief->token == floor;
    if (is_exclusive(belief) && alive)
        floor = name->told;
    if (!again && !is_exempt(belief) && belief->token <= floor)
        violation("%s: token %llu of client %d is not above %llu", name->text,
                  (unsigned long long)oracle_number(belief->token), belief->client,
                  (unsigned long long)oracle_number(floor));
    if (belief->token > name->told) {
        name->told = belief->token;
        name->told_client = belief->client;
        name->told_owner = belief->owner;
    }
    belief_add(belief);
    if (!is_exclusive(belief))
        return;
    if (belief->token >= name->fence) {
        name->fence = belief->token;
        belief->value = name->value;
    }
}

/* A side effect, right after hf_hold_state() was asked. */
void oracle_work(struct belief *belief)
{
    struct name *name = &names[belief->name];
    if (!is_exclusive(belief))
        return;
    bool alive = is_alive(belief) && !is_exempt(belief);
    if (belief->token < name->fence) {
        count.refused++;
        if (alive)
            violation("%s: the register refused token %llu of a holder (%llu came)",
                      name->text, (unsigned long long)oracle_number(belief->token),
                      (unsigned long long)oracle_number(name->fence));
        return;
    }
    if (alive && name->value != belief->value)
        violation("%s: an update was lost under client %d", name->text, belief->client);
    name->fence = belief->token;
    name->value++;
    for (struct belief *at = name->beliefs; at; at = at->next)
        if (at->token == belief->token) /* entered again: they share it */
            at->value = name->value;
}

void oracle_ended(struct belief *belief)
{
    struct name *name = &names[belief->name];
    for (struct belief **at = &name->beliefs; *at; at = &(*at)->next) {
        if (*at != belief)
            continue;
        *at = belief->next;
        name->belief_count--;
        return;
    }
}

/* ---- evicted, adopted, left behind ----------------------------------------------- */

uint32_t oracle_evicting(int index, uint64_t first, uint64_t last)
{
    struct name *name = &names[index];
    name->gone[name->gone_next % EVICTIONS_KEPT] = (struct range){ first, last };
    return name->gone_next++;
}

void oracle_not_evicted(int index, uint32_t entry)
{
    struct name *name = &names[index];
    if (name->gone_next - entry <= EVICTIONS_KEPT)
        name->gone[entry % EVICTIONS_KEPT] = (struct range){ 1, 0 }; /* none */
}

struct belief *oracle_holder(int index, uint64_t token)
{
    struct belief *belief = names[index].beliefs;
    while (belief && (belief->token != token || belief->moved))
        belief = belief->next;
    return belief;
}

void oracle_moved(int index, uint64_t token, bool moved)
{
    for (struct belief *at = names[index].beliefs; at; at = at->next)
        if (at->token == token)
            at->moved += moved ? 1 : at->moved ? -1 : 0;
}

void oracle_gone(int index, uint64_t token)
{
    for (struct belief *at = names[index].beliefs; at; at = at->next)
        if (at->token == token)
            at->gone = true;
}

/* Under the token that it had: it goes on where the former holder was. */
void oracle_adopted(struct belief *belief)
{
    struct name *name = &names[belief->name];
    if (belief->token > name->told)
        name->told = belief->token;
    belief_add(belief);
    if (is_exclusive(belief) && belief->token >= name->fence) {
        name->fence = belief->token;
        belief->value = name->value;
    }
}

static void ghosts_bury(bool all)
{
    for (int i = 0; i < GHOSTS_MAX; i++) {
        if (!ghosts[i].ghost || (!all && sim_now < ghosts[i].until))
            continue;
        oracle_ended(&ghosts[i]);
        ghosts[i].ghost = false;
    }
}

void oracle_left(const struct belief *belief, int64_t until)
{
    ghosts_bury(false);
    for (int i = 0; i < GHOSTS_MAX; i++) {
        if (ghosts[i].ghost)
            continue;
        ghosts[i] = *belief;
        ghosts[i].ghost = true;
        ghosts[i].until = until;
        belief_add(&ghosts[i]);
        return;
    }
}

void oracle_forget(void)
{
    ghosts_bury(true);
}
