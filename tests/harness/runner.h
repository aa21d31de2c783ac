/* SPDX-License-Identifier: MIT */
/* Runs tests, each in a process and a scratch directory of its own, a few at a time. */
#ifndef HARNESS_RUNNER_H
#define HARNESS_RUNNER_H

#include "harness.h"

struct test {
    const struct store *store;
    const struct form *form;
    const struct scenario *scenario;
};

struct verdict {
    bool passed;
    int64_t ms;
    const char *output; /* what the process said; the reason if it failed */
};

typedef void runner_report(void *user, const struct test *test,
                           const struct verdict *verdict);

/* "file/mutex/try-is-busy" into `text`. */
void test_name(const struct test *test, char *text, size_t size);

/* Runs all of them, at most `jobs` at once, by starting this program again with
 * "--one NAME --scratch DIRECTORY". Reports come in the order in which tests end. */
void runner_run(const struct test *tests, size_t count, size_t jobs,
                runner_report *report, void *user);

#endif
