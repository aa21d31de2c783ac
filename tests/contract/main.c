/* SPDX-License-Identifier: MIT */
/*
 * The contract suite: every scenario, in every form it applies to, on every store.
 *
 *   contract --list                     the scenarios, their forms and needs
 *   contract --cells                    what the matrix has to contain, computed
 *   contract --check-matrix             fails if matrix.inc is not that
 *   contract --store S [--kind K] [--only SCENARIO] [--needs CAPABILITY] [--part I/N]
 *            [--jobs N]                 runs (each N-th test of it), speaks TAP
 *   contract --matrix [--jobs N]        runs all stores, one line per store and kind
 *   contract --one STORE/FORM/SCENARIO --scratch DIR              a single test, here
 *
 * What runs is the generated matrix (cells.c). Each test is a process of its own.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/runner.h"
#include "cells.h"

struct request {
    const char *store;
    const char *kind;
    const char *only;
    const char *needs;
    const char *one;
    const char *scratch;
    size_t part;
    size_t parts;
    size_t jobs;
};

/* ---- Running --------------------------------------------------------------------- */

static bool scenario_needs(const struct scenario *scenario, const char *capability)
{
    for (int i = 0; i < 64; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if ((scenario->needs & bit) && strcmp(capability_name(bit), capability) == 0)
            return true;
    }
    return false;
}

static bool cell_wanted(const struct cell *cell, const struct request *request)
{
    const struct form *form = form_find(cell->form);
    if (cell->lacks || !form || !scenario_find(cell->scenario) ||
        !store_find(cell->store))
        return false;
    return (!request->store || strcmp(request->store, cell->store) == 0) &&
           (!request->kind || strcmp(request->kind, form->kind) == 0 ||
            strcmp(request->kind, form->name) == 0) &&
           (!request->only || strcmp(request->only, cell->scenario) == 0) &&
           (!request->needs ||
            scenario_needs(scenario_find(cell->scenario), request->needs));
}

static struct test *tests_collect(const struct request *request, size_t *ret_count)
{
    size_t count = 0;
    while (matrix[count].store)
        count++;
    struct test *tests = calloc(count + 1, sizeof *tests);
    CHECK(tests != NULL);
    count = 0;
    size_t wanted = 0;
    for (const struct cell *cell = matrix; cell->store; cell++)
        if (cell_wanted(cell, request) && wanted++ % request->parts == request->part)
            tests[count++] =
                (struct test){ store_find(cell->store), form_find(cell->form),
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

static void tap_report(void *user, const struct test *test,
                       const struct verdict *verdict)
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
    if (count == 0) {
        puts("Bail out! no test has these words");
        free(tests);
        return 1;
    }
    printf("1..%zu\n", count);
    runner_run(tests, count, request->jobs, tap_report, &tap);
    free(tests);
    return count > 0 && tap.failed == 0 ? 0 : 1;
}

/* ---- --matrix -------------------------------------------------------------------- */

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

static void row_report(void *user, const struct test *test,
                       const struct verdict *verdict)
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

/* ---- --one ----------------------------------------------------------------------- */

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

/* ---- The command line ------------------------------------------------------------ */

static const struct option options[] = {
    { "list", no_argument, NULL, 'l' },
    { "cells", no_argument, NULL, 'c' },
    { "check-matrix", no_argument, NULL, 'm' },
    { "matrix", no_argument, NULL, 'M' },
    { "store", required_argument, NULL, 's' },
    { "kind", required_argument, NULL, 'k' },
    { "only", required_argument, NULL, 'o' },
    { "needs", required_argument, NULL, 'n' },
    { "part", required_argument, NULL, 'p' },
    { "jobs", required_argument, NULL, 'j' },
    { "one", required_argument, NULL, '1' },
    { "scratch", required_argument, NULL, 'd' },
    { NULL, 0, NULL, 0 },
};

static int usage(void)
{
    fprintf(stderr,
            "usage: contract --list | --cells | --check-matrix | --matrix |\n"
            "       contract --store S [--kind K] [--only SCENARIO] [--needs C]\n"
            "                [--part I/N] [--jobs N]\n");
    return 2;
}

static int run(int what, const struct request *request)
{
    switch (what) {
    case 'l':
        return cells_list();
    case 'c':
        return cells_print();
    case 'm':
        return cells_check();
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

/* "2/5" is the second of five. */
static void part_read(struct request *request, const char *text)
{
    size_t part = 0, parts = 0;
    CHECK(sscanf(text, "%zu/%zu", &part, &parts) == 2);
    CHECK(part >= 1 && part <= parts);
    request->part = part - 1;
    request->parts = parts;
}

int main(int argc, char **argv)
{
    struct request request = { .jobs = 2, .parts = 1 };
    int what = 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 's')
            request.store = optarg;
        else if (option == 'k')
            request.kind = optarg;
        else if (option == 'o')
            request.only = optarg;
        else if (option == 'n')
            request.needs = optarg;
        else if (option == 'p')
            part_read(&request, optarg);
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
