/* SPDX-License-Identifier: MIT */
/* Every allocation of the library goes through here, so that tests can count what is
 * live and make the n-th allocation fail. Memory comes zeroed. */
#ifndef HF_BASE_MEM_H
#define HF_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *hf__alloc(size_t size);                                  /* NULL: out of memory */
void *hf__realloc(void *memory, size_t old_size, size_t size); /* grown part zeroed */
char *hf__copy_text(const char *text, size_t len);             /* NUL-terminated copy */
void hf__free(void *memory);                                   /* NULL is fine */

/* For tests: blocks live now; the n-th allocation from now (1 = next) fails, once or
 * from then on; 0 switches it off. hf__mem_count() is how many were asked for. */
size_t hf__mem_live(void);
uint64_t hf__mem_count(void);
void hf__mem_fail(uint64_t nth, int sticky);

#endif
