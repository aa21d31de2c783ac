/* SPDX-License-Identifier: MIT */
/* The report of the checker, for people and for programs. */
#ifndef CHECKER_REPORT_H
#define CHECKER_REPORT_H

#include "check.h"

#include <stdio.h>

void report_text(FILE *out, const struct check_options *options,
                 const struct check_report *report);

/* One JSON object on one line. */
void report_json(FILE *out, const struct check_options *options,
                 const struct check_report *report);

#endif
