/* SPDX-License-Identifier: MIT */
/* The matrix, and what it is made from. */
#ifndef CONTRACT_CELLS_H
#define CONTRACT_CELLS_H

#include "../harness/harness.h"

struct cell {
    const char *store;
    const char *form;
    const char *scenario;
    const char *lacks; /* NULL: it runs */
};

extern const struct cell matrix[]; /* ends with a NULL store */

const struct scenario *scenario_find(const char *name);

/* For --list, --cells and --check-matrix: the exit code of the program. */
int cells_list(void);
int cells_print(void);
int cells_check(void);

#endif
