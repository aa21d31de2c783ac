/* SPDX-License-Identifier: MIT */
/* The library's clock, moved by a test that uses the library as a whole: one test in
 * one process. */
#ifndef HF_TESTS_UNIT_CLOCK_H
#define HF_TESTS_UNIT_CLOCK_H

#include "../../src/base/clock.h"

#include <check.h>
#include <stdlib.h>
#include <unistd.h>

static inline void clock_begin(void)
{
    char path[] = "/tmp/hf-clock-XXXXXX";
    close(mkstemp(path));
    ck_assert_int_eq(hf__clock_shift_open(path), 0);
    unlink(path);
}

static inline void clock_pass(int64_t ms)
{
    hf__clock_shift_add(ms * HF_NS_PER_MS);
}

#endif
