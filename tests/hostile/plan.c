/* SPDX-License-Identifier: MIT */
/*
 * Plans: which reply is spoiled where, and how. See hostile.h.
 *
 * The hook runs on the middle's thread, under its lock. It takes the server's words
 * reply by reply, whatever pieces they come in.
 */
#include "hostile.h"

#include <stdlib.h>
#include <string.h>

static void record(struct plan *plan, const char *data, size_t len)
{
    if (plan->replies >= REPLIES_MAX)
        return;
    plan->seen[plan->replies].data = malloc(len);
    CHECK(plan->seen[plan->replies].data != NULL);
    memcpy(plan->seen[plan->replies].data, data, len);
    plan->seen[plan->replies].len = len;
}

/* The spot that this reply is spoiled at, NULL if there is none. */
static const struct spot *spot_of(const struct plan *plan, const char *data, size_t len)
{
    for (size_t i = 0; i < plan->spot_count; i++) {
        const struct spot *spot = &plan->spots[i];
        if (spot->reply == plan->replies && spot->site < plan->wire->sites(data, len) &&
            plan->wire->fits(spot->site, &plan->wire->spoils[spot->spoil]))
            return spot;
    }
    return NULL;
}

static void reply_pass(struct plan *plan, struct lane *lane, const char *data,
                       size_t len)
{
    const struct spot *spot = plan->armed ? spot_of(plan, data, len) : NULL;
    if (plan->armed && plan->recording)
        record(plan, data, len);
    if (plan->armed && plan->rewrite && plan->rewrite(lane, data, len))
        plan->applied++;
    else if (spot)
        plan->wire->spoil(lane, data, len, spot->site,
                          &plan->wire->spoils[spot->spoil]);
    else
        lane_say(lane, data, len);
    plan->applied += spot != NULL;
    plan->replies += plan->armed;
}

static size_t plan_said(void *arg, struct lane *lane, const char *data, size_t size)
{
    struct plan *plan = arg;
    size_t used = 0;
    for (size_t len; (len = plan->wire->measure(data + used, size - used)) > 0;) {
        reply_pass(plan, lane, data + used, len);
        used += len;
    }
    return used;
}

static void plan_told(void *arg, struct lane *lane, const char *data, size_t size)
{
    struct plan *plan = arg;
    if (plan->wire->told)
        plan->wire->told(arg, lane, data, size);
}

const struct middle_wire plan_hooks = { plan_said, plan_told };

size_t plan_spots(const struct plan *plan, enum family family, struct spot **ret_spots)
{
    const struct wire *wire = plan->wire;
    size_t count = 0, room = 0, kinds = 0;
    struct spot *spots = NULL;
    while (wire->spoils[kinds].name)
        kinds++;
    for (uint32_t reply = 0; reply < REPLIES_MAX && plan->seen[reply].data; reply++) {
        const char *data = plan->seen[reply].data;
        size_t len = plan->seen[reply].len, sites = wire->sites(data, len);
        for (size_t at = 0; at < sites * kinds; at++) {
            uint32_t site = (uint32_t)(at / kinds);
            uint32_t spoil = (uint32_t)(at % kinds);
            if ((family && wire->spoils[spoil].family != family) ||
                !wire->fits(site, &wire->spoils[spoil]))
                continue;
            if (count == room) {
                room = room ? 2 * room : 256;
                spots = realloc(spots, room * sizeof *spots);
                CHECK(spots != NULL);
            }
            spots[count++] = (struct spot){ reply, site, spoil };
        }
    }
    *ret_spots = spots;
    return count;
}

void plan_forget(struct plan *plan)
{
    for (size_t i = 0; i < REPLIES_MAX; i++) {
        free(plan->seen[i].data);
        plan->seen[i].data = NULL;
    }
}

uint64_t mix(uint64_t number)
{
    number += UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
    return number ^ (number >> 31);
}
