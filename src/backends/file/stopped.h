/* SPDX-License-Identifier: MIT */
/* Whether a process is kept from running. */
#ifndef HF_FILE_STOPPED_H
#define HF_FILE_STOPPED_H

#include <stdint.h>

/* What keeps a process of this pid namespace from running ("stopped", "held by a
 * debugger", "frozen"), or NULL if nothing is known to. */
const char *hf__file_stopped(int32_t pid);

/* The same for a line of /proc/<pid>/stat; for tests. */
const char *hf__file_stopped_by_stat(const char *text);

#endif
