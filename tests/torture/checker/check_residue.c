/* SPDX-License-Identifier: MIT */
/*
 * K11: when all is over, nothing is left behind. Whoever ran the campaign has looked,
 * and written down how many things there were.
 */
#include "book.h"

void check_residue(struct check *check, const struct history_event *event)
{
    struct check_finding *k11 = &check->report.checks[K11_RESIDUE];
    k11->applicable = true;
    k11->examined++;
    check->report.residue += event->value;
    if (event->value)
        finding(check, K11_RESIDUE, G_NONE, "%llu things were left behind in the store",
                (unsigned long long)event->value);
}
