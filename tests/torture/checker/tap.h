/* SPDX-License-Identifier: MIT */
/* Test results, one line each. */
#ifndef CHECKER_TAP_H
#define CHECKER_TAP_H

#include <stdbool.h>
#include <stdio.h>

struct tap {
    int count;
    int failed;
};

static inline bool tap_ok(struct tap *tap, bool ok, const char *name)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", ++tap->count, name);
    fflush(stdout);
    tap->failed += !ok;
    return ok;
}

static inline int tap_done(struct tap *tap)
{
    printf("1..%d\n", tap->count);
    return tap->failed ? 1 : 0;
}

#endif
