/* SPDX-License-Identifier: MIT */
/*
 * The contract suite: every scenario, in every form it applies to, on every store.
 *
 *   contract --list                     the scenarios, their forms and needs
 *   contract --cells                    what the matrix has to contain, computed
 *   contract --check-matrix             fails if matrix.inc is not that
 *   contract --store S [--kind K] [--only SCENARIO] [--jobs N]    runs, speaks TAP
 *   contract --matrix [--jobs N]        runs all stores, one line per store and kind
 *   contract --one STORE/FORM/SCENARIO --scratch DIR              a single test, here
 *
 * What runs is the generated table matrix.inc (tools/gen-matrix.sh), so that a scenario
 * that is missing in it does not run and the check says so. A cell that applies but is
 * not run is a line MISSING with the capability that the store lacks; there is no other
 * way to be left out.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/runner.h"
#include "contract.h"

static const struct scenario *const tables[] = {
    scenarios_mutex,   scenarios_names,    scenarios_waiting,  scenarios_async,
    scenarios_loop,    scenarios_life,     scenarios_process,  scenarios_lease,
    scenarios_token,   scenarios_loss,     scenarios_adopt,    scenarios_inspect,
    scenarios_rw,      scenarios_semaphore, scenarios_latch,   scenarios_cell,
    scenarios_multi,   scenarios_order,    scenarios_handoff,  scenarios_fault,
    scenarios_badinput, scenarios_badurl,  scenarios_memory,   NULL,
};

struct cell {
    const char *store;
    const char *form;
    const char *scenario;
    const char *lacks; /* NULL: it runs */
};

static const struct cell matrix[] = {
#define RUNS(store, form, scenario) { store, form, scenario, NULL },
#define MISSING(store, form, scenario, lacks) { store, form, scenario, lacks },
#include "matrix.inc"
#undef RUNS
#undef MISSING
    { NULL, NULL, NULL, NULL },
};

struct request {
    const char *store;
    const char *kind;
    const char *only;
    const char *one;
    const char *scratch;
    size_t jobs;
};

/* ---- Walking: stores x forms x scenarios ----------------------------------------------- */

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

static const struct scenario *scenario_find(const char *name)
{
    for (const struct scenario *const *table = tables; *table; table++)
        for (const struct scenario *scenario = *table; scenario->name; scenario++)
            if (strcmp(scenario->name, name) == 0)
                return scenario;
    return NULL;
}

/* ---- --list, --cells, --check-matrix ------------------------------------------------------ */

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

static int run_list(void)
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
           strcmp(left->lacks ? left->lacks : "", right->lacks ? right->lacks : "") == 0;
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

static int run_check_matrix(void)
{
    struct comparison comparison = { matrix, NULL };
    cells_walk(cell_compare, &comparison);
    bool fresh = !comparison.differs && !comparison.at->store;
    if (!comparison.differs && comparison.at->store)
        printf("# matrix.inc is stale: %s/%s/%s does not exist\n", comparison.at->store,
               comparison.at->form, comparison.at->scenario);
    fresh = names_unique() && fresh;
    printf("1..1\n%s 1 - matrix.inc is what the scenarios say\n", fresh ? "ok" : "not ok");
    return fresh ? 0 : 1;
}

/* ---- Running -------------------------------------------------------------------------------- */

static bool cell_wanted(const struct cell *cell, const struct request *request)
{
    const struct form *form = form_find(cell->form);
    if (cell->lacks || !form || !scenario_find(cell->scenario) ||
        !store_find(cell->store))
        return false;
    return (!request->store || strcmp(request->store, cell->store) == 0) &&
           (!request->kind || strcmp(request->kind, form->kind) == 0 ||
            strcmp(request->kind, form->name) == 0) &&
           (!request->only || strcmp(request->only, cell->scenario) == 0);
}

static struct test *tests_collect(const struct request *request, size_t *ret_count)
{
    struct test *tests = calloc(sizeof matrix / sizeof *matrix, sizeof *tests);
    size_t count = 0;
    CHECK(tests != NULL);
    for (const struct cell *cell = matrix; cell->store; cell++)
        if (cell_wanted(cell, request))
            tests[count++] = (struct test){ store_find(cell->store),
                                            form_find(cell->form),
                                            scenario_find(cell->scenario) };
    *ret_count = count;
    return tests;
}

struct tap {
    size_t number;
    size_t failed;
};

static void output_print(const char *output)
{
    for (const char *line = output; *line;) {
        size_t len = strcspn(line, "\n");
        printf("# %.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
}

static void tap_report(void *user, const struct test *test, const struct verdict *verdict)
{
    struct tap *tap = user;
    char name[256];
    test_name(test, name, sizeof name);
    tap->number++;
    tap->failed += !verdict->passed;
    printf("%s %zu - %s # %lld ms\n", verdict->passed ? "ok" : "not ok", tap->number,
           name, (long long)verdict->ms);
    if (!verdict->passed)
        output_print(verdict->output);
    fflush(stdout);
}

static int run_tap(const struct request *request)
{
    size_t count = 0;
    struct tap tap = { 0, 0 };
    struct test *tests = tests_collect(request, &count);
    printf("1..%zu\n", count);
    runner_run(tests, count, request->jobs, tap_report, &tap);
    free(tests);
    return count > 0 && tap.failed == 0 ? 0 : 1;
}

/* ---- --matrix --------------------------------------------------------------------------------- */

struct row {
    const struct store *store;
    const char *kind;
    size_t passed;
    size_t total;
};

#define ROWS_MAX 256

struct rows {
    struct row row[ROWS_MAX];
    size_t count;
};

static struct row *row_find(struct rows *rows, const struct store *store,
                            const struct form *form)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->row[i].store == store && strcmp(rows->row[i].kind, form->kind) == 0)
            return &rows->row[i];
    CHECK(rows->count < ROWS_MAX);
    struct row *row = &rows->row[rows->count++];
    *row = (struct row){ store, form->kind, 0, 0 };
    return row;
}

static void row_report(void *user, const struct test *test, const struct verdict *verdict)
{
    row_find(user, test->store, test->form)->passed += verdict->passed;
    if (!verdict->passed) {
        char name[256];
        test_name(test, name, sizeof name);
        fprintf(stderr, "# not ok: %s: %s\n", name, verdict->output);
    }
}

/* A kind that a store offers has a row even if no test of it is in the table. */
static void rows_expect(struct rows *rows, const struct request *request)
{
    for (const struct store *store = stores; store->name; store++)
        for (const struct form *form = forms; form->name; form++)
            if ((form->caps & ~store->caps) == 0 &&
                (!request->store || strcmp(request->store, store->name) == 0))
                row_find(rows, store, form);
}

static int run_matrix(const struct request *request)
{
    static struct rows rows;
    size_t count = 0;
    int rc = 0;
    struct test *tests = tests_collect(request, &count);
    rows_expect(&rows, request);
    for (size_t i = 0; i < count; i++)
        row_find(&rows, tests[i].store, tests[i].form)->total++;
    runner_run(tests, count, request->jobs, row_report, &rows);
    for (size_t i = 0; i < rows.count; i++) {
        const struct row *row = &rows.row[i];
        printf("cell: %s %s %zu/%zu\n", row->store->name, row->kind, row->passed,
               row->total);
        if (row->total == 0 || row->passed < row->total)
            rc = 1;
    }
    free(tests);
    return rc;
}

/* ---- --one -------------------------------------------------------------------------------------- */

static int run_one(const struct request *request)
{
    char store[64];
    char form[64];
    char scenario[128];
    const char *scratch = request->scratch;
    char made[] = "/tmp/holdfast-XXXXXX";
    if (sscanf(request->one, "%63[^/]/%63[^/]/%127s", store, form, scenario) != 3 ||
        !store_find(store) || !form_find(form) || !scenario_find(scenario)) {
        printf("there is no test %s\n", request->one);
        return 2;
    }
    if (!scratch)
        scratch = mkdtemp(made);
    CHECK(scratch != NULL);
    env_run(store_find(store), form_find(form), scenario_find(scenario), scratch);
    return 0;
}

/* ---- The command line ------------------------------------------------------------------------------ */

static const struct option options[] = {
    { "list", no_argument, NULL, 'l' },
    { "cells", no_argument, NULL, 'c' },
    { "check-matrix", no_argument, NULL, 'm' },
    { "matrix", no_argument, NULL, 'M' },
    { "store", required_argument, NULL, 's' },
    { "kind", required_argument, NULL, 'k' },
    { "only", required_argument, NULL, 'o' },
    { "jobs", required_argument, NULL, 'j' },
    { "one", required_argument, NULL, '1' },
    { "scratch", required_argument, NULL, 'd' },
    { NULL, 0, NULL, 0 },
};

static int usage(void)
{
    fprintf(stderr, "usage: contract --list | --cells | --check-matrix | --matrix |\n"
                    "       contract --store S [--kind K] [--only SCENARIO] [--jobs N]\n");
    return 2;
}

static int run(int what, const struct request *request)
{
    switch (what) {
    case 'l':
        return run_list();
    case 'c':
        cells_walk(cell_print, NULL);
        return 0;
    case 'm':
        return run_check_matrix();
    case 'M':
        return run_matrix(request);
    case '1':
        return run_one(request);
    case 's':
        return store_find(request->store) ? run_tap(request) : usage();
    default:
        return usage();
    }
}

int main(int argc, char **argv)
{
    struct request request = { .jobs = 2 };
    int what = 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 's')
            request.store = optarg;
        else if (option == 'k')
            request.kind = optarg;
        else if (option == 'o')
            request.only = optarg;
        else if (option == '1')
            request.one = optarg;
        else if (option == 'd')
            request.scratch = optarg;
        else if (option == 'j')
            request.jobs = (size_t)strtoul(optarg, NULL, 10);
        if (strchr("lcmM1?", option) || (option == 's' && !what))
            what = option;
    }
    return run(what, &request);
}
