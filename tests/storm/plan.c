/* SPDX-License-Identifier: MIT */
/*
 * What a seat does in each of its steps: random streams, and the choice of the act.
 *
 * The stream of a step depends on the seed, the process, the seat and the number of the
 * step, and on nothing that happened before: the same seed plans the same acts on the
 * same names, whatever the scheduler made of the steps before.
 */
#include <stdio.h>
#include <string.h>

#include "storm.h"

uint64_t rng_next(struct rng *rng)
{
    uint64_t mixed = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    return rng_next(rng) % bound;
}

bool rng_chance(struct rng *rng, uint32_t of_thousand)
{
    return rng_below(rng, 1000) < of_thousand;
}

struct rng plan_step(uint64_t seed, int process, int seat, uint64_t step)
{
    struct rng rng = { seed * UINT64_C(0xff51afd7ed558ccd) };
    rng.state ^= (uint64_t)process << 56 | (uint64_t)seat << 48 | step;
    rng.state = rng_next(&rng);
    return rng;
}

/* ---- The choice ------------------------------------------------------------------ */

static const struct {
    uint32_t weight;
    const char *name;
    void (*act)(struct rng *rng);
    uint64_t caps; /* 0: any store can do it */
    uint32_t kinds;
} acts[] = {
    { 300, "acquire", act_acquire, 0, 0 },
    { 110, "acquire_async", act_acquire_async, 0, 0 },
    { 130, "op", act_op, 0, 0 },
    { 300, "release", act_release, 0, 0 },
    { 90, "hold", act_hold, 0, 0 },
    { 20, "peek", act_peek, 0, 0 },
    { 12, "stale", act_stale, 0, 0 },
    { 30, "id", act_id, 0, 0 },
    { 30, "adopt", act_adopt, 0, 0 },
    { 12, "leave", act_leave, HF_CAP_DETACH, 0 },
    { 40, "enter_again", act_enter_again, HF_CAP_DETACH, 0 },
    { 30, "step_down", act_step_down, HF_CAP_DOWNGRADE, K_RW },
    { 30, "hand_over", act_hand_over, 0, K_MUTEX },
    { 30, "inspect", act_inspect, HF_CAP_INSPECT, 0 },
    { 45, "evict", act_evict, 0, 0 },
    { 15, "revoke", act_revoke, 0, 0 },
    { 40, "latch", act_latch, HF_CAP_LATCH, K_LATCH },
    { 40, "cell", act_cell, HF_CAP_CELL, K_CELL },
    { 2, "diagnose", act_diagnose, 0, 0 },
    { 6, "bad_input", act_bad_input, 0, 0 },
    { 3, "close", act_close, 0, 0 },
    { 3, "fork", act_fork, 0, 0 },
};

#define ACTS (sizeof acts / sizeof *acts)

static bool act_is_skipped(size_t i)
{
    char word[32];
    snprintf(word, sizeof word, ",%s,", acts[i].name);
    return world->config.skip[0] && strstr(world->config.skip, word);
}

static bool act_applies(size_t i)
{
    return !act_is_skipped(i) && (acts[i].caps & ~world->caps) == 0 &&
           (!acts[i].kinds || (acts[i].kinds & world->config.kinds));
}

/* In bad weather there are few holds to adopt, and few answers that come. */
static uint64_t act_weight(size_t i)
{
    bool more = world->config.lossy && acts[i].act == act_adopt;
    return act_applies(i) ? acts[i].weight * (more ? 4 : 1) : 0;
}

static void act_choose(struct rng *rng)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < ACTS; i++)
        sum += act_weight(i);
    uint64_t at = rng_below(rng, sum);
    for (size_t i = 0; i < ACTS; i++) {
        uint64_t weight = act_weight(i);
        if (at < weight) {
            acts[i].act(rng);
            return;
        }
        at -= weight;
    }
}

void seat_step(struct seat *seat)
{
    seat->rng = plan_step(world->config.seed, self->number, seat->number, seat->step);
    act_choose(&seat->rng);
    seat->step++;
    atomic_fetch_add_explicit(&world->steps, 1, memory_order_relaxed);
    disputes_answer(self->number);
}
