/* SPDX-License-Identifier: MIT */
/* Random bytes for ids, from getrandom(2) through a small buffer per thread. A forked
 * child never sees the parent's buffer. */
#ifndef HF_BASE_RAND_H
#define HF_BASE_RAND_H

#include <stddef.h>

/* 0, or -errno if the kernel gives none. */
int hf__random(void *buffer, size_t size);

#endif
