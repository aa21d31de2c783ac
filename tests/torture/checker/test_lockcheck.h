/* SPDX-License-Identifier: MIT */
/* The parts of test_lockcheck. */
#ifndef CHECKER_TEST_LOCKCHECK_H
#define CHECKER_TEST_LOCKCHECK_H

#include "story.h"
#include "tap.h"

/* A story that the checker must judge in one way: `found` by `id`, and nothing by any
 * other check that must hold; 0 is a near miss, all green. */
struct planted {
    const char *name;
    void (*tell)(struct story *story);
    enum check_id id;
    uint64_t found;
};

extern const struct planted planted_safety[];   /* K1 to K5; ends with a NULL name */
extern const struct planted planted_progress[]; /* K7 to K11 */
extern const struct planted planted_moves[];    /* K12, and holds that move */
extern const struct planted planted_leases[];   /* left, extended, downgraded */

#endif
