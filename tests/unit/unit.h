/* SPDX-License-Identifier: MIT */
/* What all unit tests share: one suite per file, run with each test in a process of its
 * own, and the result as TAP on standard output.
 *
 *     START_TEST(something_holds) { ck_assert(...); } END_TEST
 *     UNIT_MAIN("url", something_holds, ...)
 */
#ifndef HF_TESTS_UNIT_H
#define HF_TESTS_UNIT_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define UNIT_TIMEOUT_S 240 /* for a sanitizer on a busy machine */

static inline int unit_run(const char *name, const TTest *const *tests, size_t count)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, UNIT_TIMEOUT_S);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define UNIT_MAIN(name, ...)                                                           \
    int main(void)                                                                     \
    {                                                                                  \
        const TTest *const tests[] = { __VA_ARGS__ };                                  \
        return unit_run(name, tests, sizeof tests / sizeof tests[0]);                  \
    }

/* As ck_assert, but it costs nothing while it holds; check reports each assertion to
 * the parent process, which is too slow in a loop of many thousand passes. */
#define UNIT_ASSERT(condition)                                                         \
    ((condition) ? (void)0 : ck_abort_msg("%s does not hold", #condition))

/* Random numbers that are the same in every run (xorshift64*). */
static inline uint64_t unit_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static inline uint32_t unit_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)((unit_random(state) >> 32) % bound);
}

#endif
