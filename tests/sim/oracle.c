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
 * A hold that was evicted is told of it some time later; until then it may say held
 * beside another, and only the register is asked about it.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

struct name names[NAMES_MAX];
static uint64_t first_number;

void oracle_reset(void)
{
    memset(names, 0, sizeof(names));
    first_number = 0;
    for (int i = 0; i < NAMES_MAX; i++) {
        snprintf(names[i].text, sizeof(names[i].text), "n%d", i);
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

static bool is_exempt(const struct belief *belief)
{
    return belief->token <= names[belief->name].evicted;
}

static bool is_alive(struct belief *belief)
{
    int before = os_enter(belief->client);
    bool lost = hf_hold_state(belief->hold) == HF_LOST;
    os_enter(before);
    if (!lost && belief->lost_seen)
        violation("%s: a hold of client %d was lost and is held again (token %llu)",
                  names[belief->name].text, belief->client,
                  (unsigned long long)belief->token);
    belief->lost_seen |= lost;
    return !lost;
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
                          (unsigned long long)a->token, (unsigned long long)b->token);
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

/* ---- tokens and the register ----------------------------------------------------- */

void oracle_granted(struct belief *belief, uint64_t floor)
{
    struct name *name = &names[belief->name];
    /* Entered again, perhaps by one who heard of the first entry later. */
    bool again = belief->kind == HF_REENTRANT && belief->token == name->told &&
                 belief->client == name->told_client &&
                 belief->owner == name->told_owner;
    belief->lost_seen = false;
    if (is_exclusive(belief) && is_alive(belief))
        floor = name->told;
    if (!again && !is_exempt(belief) && belief->token <= floor)
        violation("%s: token %llu of client %d is not above %llu", name->text,
                  (unsigned long long)belief->token, belief->client,
                  (unsigned long long)floor);
    if (belief->token > name->told) {
        name->told = belief->token;
        name->told_client = belief->client;
        name->told_owner = belief->owner;
    }
    belief->next = name->beliefs;
    name->beliefs = belief;
    name->belief_count++;
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
                      name->text, (unsigned long long)belief->token,
                      (unsigned long long)name->fence);
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
