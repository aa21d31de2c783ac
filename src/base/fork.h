/* SPDX-License-Identifier: MIT */
/* Tells a forked child from its parent without a system call: a page that the kernel
 * wipes in every child (MADV_WIPEONFORK) holds a number that only this process has. */
#ifndef HF_BASE_FORK_H
#define HF_BASE_FORK_H

#include <stdbool.h>
#include <stdint.h>

/* This process's mark, never 0. Sets the page up on first use. */
uint64_t hf__fork_mark(void);

extern const volatile uint64_t *hf__fork_page; /* NULL until the first mark was taken */

/* True in a child of the process that took the mark. */
static inline bool hf__forked(uint64_t mark)
{
    return __atomic_load_n(hf__fork_page, __ATOMIC_RELAXED) != mark;
}

#endif
