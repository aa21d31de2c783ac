/* SPDX-License-Identifier: MIT */
/*
 * Which cells there are: every store x every form x every scenario that applies to it.
 *
 * The generated table matrix.inc (tools/gen-matrix.sh) says what runs. A cell that
 * applies but does not run is a line MISSING with the capability that the store lacks;
 * there is no other way to be left out. The check compares the table with what the
 * scenarios say of themselves now.
 */
#include "cells.h"

#include <stdio.h>
#include <string.h>

#include "contract.h"

static const struct scenario *const tables[] = {
    scenarios_mutex,     scenarios_names,  scenarios_waiting,   scenarios_deadline,
    scenarios_async,     scenarios_loop,   scenarios_life,      scenarios_process,
    scenarios_lease,     scenarios_token,  scenarios_loss,      scenarios_adopt,
    scenarios_inspect,   scenarios_rw,     scenarios_semaphore, scenarios_latch,
    scenarios_cell,      scenarios_multi,  scenarios_order,     scenarios_handoff,
    scenarios_entangled, scenarios_fault,  scenarios_silent,    scenarios_badinput,
    scenarios_badobject, scenarios_badurl, scenarios_memory,    NULL,
};

const struct cell matrix[] = {
#define RUNS(store, form, scenario) { store, form, scenario, NULL },
#define MISSING(store, form, scenario, lacks) { store, form, scenario, lacks },
#include "matrix.inc"
#undef RUNS
#undef MISSING
    { NULL, NULL, NULL, NULL },
};

/* ---- Walking: stores x forms x scenarios ----------------------------------------- */

typedef void cell_visit(void *user, const struct cell *cell);

/* The name of one capability that the store lacks, or NULL. */
static const char *cell_lacks(const struct store *store, const struct form *form,
                              const struct scenario *scenario)
{
    uint64_t lacking = (form->caps | scenario->needs) & ~store->caps;
    return lacking ? capability_name(lacking & (~lacking + 1)) : NULL;
}

static void cells_of(const struct store *store, const struct form *form,
                     cell_visit *visit, void *user)
{
    for (const struct scenario *const *table = tables; *table; table++)
        for (const struct scenario *scenario = *table; scenario->name; scenario++) {
            struct cell cell = { store->name, form->name, scenario->name,
                                 cell_lacks(store, form, scenario) };
            if (scenario->forms & (UINT32_C(1) << (form - forms)))
                visit(user, &cell);
        }
}

static void cells_walk(cell_visit *visit, void *user)
{
    for (const struct store *store = stores; store->name; store++)
        for (const struct form *form = forms; form->name; form++)
            cells_of(store, form, visit, user);
}

const struct scenario *scenario_find(const char *name)
{
    for (const struct scenario *const *table = tables; *table; table++)
        for (const struct scenario *scenario = *table; scenario->name; scenario++)
            if (strcmp(scenario->name, name) == 0)
                return scenario;
    return NULL;
}

/* ---- --list, --cells, --check-matrix --------------------------------------------- */

static void scenario_print(const struct scenario *scenario)
{
    printf("%-34s", scenario->name);
    for (const struct form *form = forms; form->name; form++)
        if (scenario->forms & (UINT32_C(1) << (form - forms)))
            printf(" %s", form->name);
    const char *before = " ; needs ";
    for (int i = 0; i < 64; i++)
        if (scenario->needs & (UINT64_C(1) << i)) {
            printf("%s%s", before, capability_name(UINT64_C(1) << i));
            before = ", ";
        }
    printf("\n");
}

int cells_list(void)
{
    for (const struct scenario *const *table = tables; *table; table++)
        for (const struct scenario *scenario = *table; scenario->name; scenario++)
            scenario_print(scenario);
    return 0;
}

static void cell_print(void *user, const struct cell *cell)
{
    (void)user;
    printf("%s %s %s %s\n", cell->store, cell->form, cell->scenario,
           cell->lacks ? cell->lacks : "-");
}

static bool cell_same(const struct cell *left, const struct cell *right)
{
    return right->store && strcmp(left->store, right->store) == 0 &&
           strcmp(left->form, right->form) == 0 &&
           strcmp(left->scenario, right->scenario) == 0 &&
           strcmp(left->lacks ? left->lacks : "", right->lacks ? right->lacks : "") ==
               0;
}

struct comparison {
    const struct cell *at;
    const struct cell *differs;
};

static void cell_compare(void *user, const struct cell *cell)
{
    struct comparison *comparison = user;
    if (comparison->differs)
        return;
    if (cell_same(cell, comparison->at))
        comparison->at++;
    else
        comparison->differs = cell;
    if (comparison->differs)
        printf("# matrix.inc is stale: %s/%s/%s is not where it should be\n",
               cell->store, cell->form, cell->scenario);
}

/* Also: no two scenarios of one name, as the second would never run. */
static bool names_unique(void)
{
    for (const struct scenario *const *table = tables; *table; table++)
        for (const struct scenario *scenario = *table; scenario->name; scenario++)
            if (scenario_find(scenario->name) != scenario) {
                printf("# two scenarios are called %s\n", scenario->name);
                return false;
            }
    return true;
}

int cells_check(void)
{
    struct comparison comparison = { matrix, NULL };
    cells_walk(cell_compare, &comparison);
    bool fresh = !comparison.differs && !comparison.at->store;
    if (!comparison.differs && comparison.at->store)
        printf("# matrix.inc is stale: %s/%s/%s does not exist\n", comparison.at->store,
               comparison.at->form, comparison.at->scenario);
    fresh = names_unique() && fresh;
    printf("1..1\n%s 1 - matrix.inc is what the scenarios say\n",
           fresh ? "ok" : "not ok");
    return fresh ? 0 : 1;
}

int cells_print(void)
{
    cells_walk(cell_print, NULL);
    return 0;
}
