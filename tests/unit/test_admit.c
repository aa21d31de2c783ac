/* SPDX-License-Identifier: MIT */
/*
 * The admission rule: a table, and a simulation of queues.
 *
 * In the simulation tickets come, leave and are downgraded at random. A waiting ticket
 * is checked again only when what the rule told it to watch has changed. After every
 * step the queue is judged by a second description of the rule, written pair by pair:
 * no conflict among the admitted, no ticket admitted past a conflicting one ahead, no
 * ticket waiting that could be admitted. With the watching rule weakened the same
 * simulation has to find such waiters, or it would prove nothing.
 */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "../../src/kit/admit.h"

/* ---- Table ----------------------------------------------------------------------- */

static const struct {
    struct hf_tally ahead;
    int32_t kind;
    uint32_t permits, limit;
    enum hf_watch want;
} table[] = {
    { { 0, 0, 0 }, HF_MUTEX, 1, 1, HF_IN },
    { { 0, 0, 0 }, HF_REENTRANT, 1, 1, HF_IN },
    { { 0, 0, 0 }, HF_FAIR, 1, 1, HF_IN },
    { { 0, 0, 0 }, HF_WRITE, 1, 1, HF_IN },
    { { 0, 0, 0 }, HF_READ, 1, 1, HF_IN },
    { { 0, 0, 0 }, HF_PERMITS, 1, 1, HF_IN },
    { { 0, 0, 0 }, HF_EXPIRING, 1, 1, HF_IN },
    { { 0, 0, 1 }, HF_MUTEX, 1, 1, HF_WATCH_PREVIOUS },
    { { 0, 0, 1 }, HF_REENTRANT, 1, 1, HF_WATCH_PREVIOUS },
    { { 0, 0, 1 }, HF_FAIR, 1, 1, HF_WATCH_PREVIOUS },
    { { 0, 0, 1 }, HF_WRITE, 1, 1, HF_WATCH_PREVIOUS },
    { { 0, 1, 0 }, HF_WRITE, 1, 1, HF_WATCH_PREVIOUS },
    { { 0, 9, 0 }, HF_READ, 1, 1, HF_IN },
    { { 0, 0, 1 }, HF_READ, 1, 1, HF_WATCH_WRITER },
    { { 0, 9, 1 }, HF_READ, 1, 1, HF_WATCH_WRITER },
    { { 2, 0, 0 }, HF_PERMITS, 1, 3, HF_IN },
    { { 3, 0, 0 }, HF_PERMITS, 1, 3, HF_WATCH_QUEUE },
    { { 2, 0, 0 }, HF_PERMITS, 2, 3, HF_WATCH_QUEUE },
    { { 0, 0, 0 }, HF_PERMITS, 3, 3, HF_IN },
    { { 0, 0, 0 }, HF_PERMITS, 4, 3, HF_WATCH_QUEUE },
    { { 2, 0, 0 }, HF_EXPIRING, 1, 3, HF_IN },
    { { 3, 0, 0 }, HF_EXPIRING, 1, 3, HF_WATCH_QUEUE },
    { { 0, 0, 0 }, HF_PERMITS, UINT32_MAX, UINT32_MAX, HF_IN },
    { { 1, 0, 0 }, HF_PERMITS, UINT32_MAX, UINT32_MAX, HF_WATCH_QUEUE },
    { { UINT64_C(1) << 32, 0, 0 }, HF_PERMITS, 1, UINT32_MAX, HF_WATCH_QUEUE },
    { { 0, 0, 0 }, HF_LATCH, 1, 1, HF_WATCH_QUEUE },
    { { 0, 0, 0 }, HF_CELL, 1, 1, HF_WATCH_QUEUE },
    { { 0, 0, 0 }, 0, 1, 1, HF_WATCH_QUEUE },
    { { 0, 0, 0 }, -5, 1, 1, HF_WATCH_QUEUE },
};

START_TEST(admit_table)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        ck_assert_msg(hf__admit(&table[i].ahead, table[i].kind, table[i].permits,
                                table[i].limit) == table[i].want,
                      "line %d of the table", (int)i);
}
END_TEST

START_TEST(tally_counts_by_kind)
{
    struct hf_tally tally = { 0 };
    static const int32_t exclusive[] = { HF_MUTEX, HF_REENTRANT, HF_FAIR, HF_WRITE,
                                         77 };

    for (uint32_t i = 0; i < 5; i++) {
        hf__tally_add(&tally, exclusive[i], 1);
        ck_assert_uint_eq(tally.exclusive, i + 1);
    }
    hf__tally_add(&tally, HF_READ, 1);
    ck_assert_uint_eq(tally.readers, 1);
    hf__tally_add(&tally, HF_PERMITS, UINT32_MAX);
    hf__tally_add(&tally, HF_EXPIRING, UINT32_MAX);
    ck_assert(tally.permits == 2 * (uint64_t)UINT32_MAX);
    ck_assert_uint_eq(tally.exclusive, 5);
    ck_assert_uint_eq(tally.readers, 1);
}
END_TEST

START_TEST(families)
{
    static const int want[] = { 0, 1, 1, 1, 2, 2, 3, 4, 5, 6, 0 };
    for (int32_t kind = 0; kind <= 10; kind++)
        ck_assert_int_eq(hf__family(kind), want[kind]);
    ck_assert_int_eq(hf__family(-1), 0);
    ck_assert_int_eq(hf__family(INT32_MAX), 0);
}
END_TEST

/* ---- Simulation ------------------------------------------------------------------ */

enum { QUEUE_MAX = 12, STEPS = 60000 };

struct place {
    uint32_t id; /* never used twice */
    int32_t kind;
    uint32_t permits;
    enum hf_watch answer; /* when it was last checked */
    uint32_t watched;     /* id, for HF_WATCH_PREVIOUS and HF_WATCH_WRITER */
};

struct sim {
    const int32_t *kinds;
    uint32_t kind_count;
    uint32_t limit;
    enum hf_watch weakened;    /* answers of this kind ... */
    enum hf_watch weakened_to; /* ... are taken for that one; HF_IN: none */
    uint64_t seed;
    uint32_t next_id;
    int count;
    struct place queue[QUEUE_MAX];
    long sleepers; /* seen over the whole run */
    long admitted; /* grants that had to wait first */
};

static bool is_exclusive(int32_t kind)
{
    return kind != HF_READ && kind != HF_PERMITS && kind != HF_EXPIRING;
}

static uint32_t watch_target(const struct sim *sim, int index, enum hf_watch answer)
{
    for (int i = index - 1; i >= 0; i--)
        if (answer == HF_WATCH_PREVIOUS || is_exclusive(sim->queue[i].kind))
            return sim->queue[i].id;
    return 0;
}

static enum hf_watch ask(const struct sim *sim, int index)
{
    struct hf_tally ahead = { 0 };
    for (int i = 0; i < index; i++)
        hf__tally_add(&ahead, sim->queue[i].kind, sim->queue[i].permits);
    return hf__admit(&ahead, sim->queue[index].kind, sim->queue[index].permits,
                     sim->limit);
}

static void look(struct sim *sim, int index)
{
    struct place *place = &sim->queue[index];
    enum hf_watch before = place->answer;
    place->answer = ask(sim, index);
    if (place->answer != HF_IN && place->answer == sim->weakened)
        place->answer = sim->weakened_to;
    place->watched = 0;
    if (place->answer == HF_WATCH_PREVIOUS || place->answer == HF_WATCH_WRITER)
        place->watched = watch_target(sim, index, place->answer);
    if (place->answer == HF_IN && before != HF_IN)
        sim->admitted++;
}

/* Ticket `id` has left, or changed its kind: the tickets that watch it are checked
 * again. */
static void changed(struct sim *sim, uint32_t id)
{
    for (int i = 0; i < sim->count; i++) {
        struct place *place = &sim->queue[i];
        if (place->answer == HF_WATCH_QUEUE ||
            (place->answer != HF_IN && place->watched == id))
            look(sim, i);
    }
}

static void arrive(struct sim *sim)
{
    struct place *place = &sim->queue[sim->count++];
    place->id = ++sim->next_id;
    place->kind = sim->kinds[unit_below(&sim->seed, sim->kind_count)];
    place->permits =
        place->kind == HF_PERMITS ? 1 + unit_below(&sim->seed, sim->limit) : 1;
    place->answer = HF_IN;
    look(sim, sim->count - 1);
}

static void leave(struct sim *sim, int index)
{
    uint32_t id = sim->queue[index].id;
    sim->count--;
    memmove(&sim->queue[index], &sim->queue[index + 1],
            (size_t)(sim->count - index) * sizeof sim->queue[0]);
    changed(sim, id);
}

static void downgrade(struct sim *sim, int index)
{
    struct place *place = &sim->queue[index];
    if (place->kind == HF_WRITE && place->answer == HF_IN) {
        place->kind = HF_READ;
        changed(sim, place->id);
    }
}

/* ---- The rule again, pair by pair ------------------------------------------------ */

static bool pair_conflicts(const struct place *a, const struct place *b)
{
    return is_exclusive(a->kind) || is_exclusive(b->kind);
}

static bool may_be_in(const struct sim *sim, int index)
{
    uint64_t sum = 0;
    for (int i = 0; i <= index; i++) {
        if (i < index && pair_conflicts(&sim->queue[i], &sim->queue[index]))
            return false;
        sum += sim->queue[i].permits;
    }
    return sim->queue[index].kind == HF_READ || is_exclusive(sim->queue[index].kind) ||
           sum <= sim->limit;
}

static void assert_no_conflict_inside(const struct sim *sim)
{
    uint64_t sum = 0;
    for (int i = 0; i < sim->count; i++) {
        if (sim->queue[i].answer != HF_IN)
            continue;
        if (hf__family(sim->queue[i].kind) >= 3)
            sum += sim->queue[i].permits;
        for (int j = 0; j < i; j++)
            UNIT_ASSERT(sim->queue[j].answer != HF_IN ||
                        !pair_conflicts(&sim->queue[i], &sim->queue[j]));
    }
    UNIT_ASSERT(sum <= sim->limit);
}

static void judge(struct sim *sim)
{
    assert_no_conflict_inside(sim);
    for (int i = 0; i < sim->count; i++) {
        bool may = may_be_in(sim, i);
        bool in = sim->queue[i].answer == HF_IN;
        UNIT_ASSERT(may || !in); /* no ticket is admitted past a conflicting one */
        sim->sleepers += may && !in;
    }
}

static void simulate(struct sim *sim)
{
    sim->seed = 20240607;
    for (int step = 0; step < STEPS; step++) {
        uint32_t dice = unit_below(&sim->seed, 20);
        if (sim->count < QUEUE_MAX && (sim->count == 0 || dice < 10))
            arrive(sim);
        else if (dice < 12)
            downgrade(sim, (int)unit_below(&sim->seed, (uint32_t)sim->count));
        else
            leave(sim, (int)unit_below(&sim->seed, (uint32_t)sim->count));
        judge(sim);
    }
    ck_assert_int_gt(sim->admitted, STEPS / 100);
}

static const int32_t mutex_kinds[] = { HF_MUTEX, HF_REENTRANT, HF_FAIR };
static const int32_t rw_kinds[] = { HF_READ, HF_READ, HF_WRITE };
static const int32_t permit_kinds[] = { HF_PERMITS };
static const int32_t expiring_kinds[] = { HF_EXPIRING };

START_TEST(no_ticket_sleeps_on_a_mutex)
{
    struct sim sim = { .kinds = mutex_kinds, .kind_count = 3, .limit = 1 };
    simulate(&sim);
    ck_assert_int_eq(sim.sleepers, 0);
}
END_TEST

START_TEST(no_ticket_sleeps_on_read_write)
{
    struct sim sim = { .kinds = rw_kinds, .kind_count = 3, .limit = 1 };
    simulate(&sim);
    ck_assert_int_eq(sim.sleepers, 0);
}
END_TEST

START_TEST(no_ticket_sleeps_on_permits)
{
    for (uint32_t limit = 1; limit <= 5; limit++) {
        struct sim weighted = { .kinds = permit_kinds,
                                .kind_count = 1,
                                .limit = limit };
        struct sim single = { .kinds = expiring_kinds,
                              .kind_count = 1,
                              .limit = limit };
        simulate(&weighted);
        simulate(&single);
        ck_assert_int_eq(weighted.sleepers + single.sleepers, 0);
    }
}
END_TEST

/* The same with one rule weakened. If these pass the simulation detects nothing. */
START_TEST(weaker_watches_leave_sleepers)
{
    struct sim permits = { .kinds = permit_kinds,
                           .kind_count = 1,
                           .limit = 3,
                           .weakened = HF_WATCH_QUEUE,
                           .weakened_to = HF_WATCH_PREVIOUS };
    struct sim readers = { .kinds = rw_kinds,
                           .kind_count = 3,
                           .limit = 1,
                           .weakened = HF_WATCH_WRITER,
                           .weakened_to = HF_WATCH_PREVIOUS };
    struct sim writers = { .kinds = rw_kinds,
                           .kind_count = 3,
                           .limit = 1,
                           .weakened = HF_WATCH_PREVIOUS,
                           .weakened_to = HF_WATCH_WRITER };
    simulate(&permits);
    simulate(&readers);
    simulate(&writers);
    ck_assert_int_gt(permits.sleepers, 0);
    ck_assert_int_gt(readers.sleepers, 0);
    ck_assert_int_gt(writers.sleepers, 0);
}
END_TEST

UNIT_MAIN("admit", admit_table, tally_counts_by_kind, families,
          no_ticket_sleeps_on_a_mutex, no_ticket_sleeps_on_read_write,
          no_ticket_sleeps_on_permits, weaker_watches_leave_sleepers)
