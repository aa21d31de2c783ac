/* SPDX-License-Identifier: MIT */
/* history_read() with a second thread that reads ahead; see history.h for the rest. */
#ifndef CHECKER_READ_AHEAD_H
#define CHECKER_READ_AHEAD_H

#include "../history.h"

int history_read_ahead(const char *directory, history_each *each, void *arg);

#endif
