/* SPDX-License-Identifier: MIT */
/* The one clock: CLOCK_BOOTTIME, nanoseconds. It runs during suspend and is the same in
 * every process of the host. Tests shift it: a file of 8 bytes, mapped by every process
 * of the test, holds an offset that is added to each reading. */
#ifndef HF_BASE_CLOCK_H
#define HF_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define HF_NS_PER_MS INT64_C(1000000)
#define HF_NS_PER_S INT64_C(1000000000)
#define HF_NEVER INT64_MAX

int64_t hf__now(void);

/* A few nanoseconds cheaper and a few milliseconds coarser; for display only. */
int64_t hf__now_coarse(void);

/* Microseconds since 1970, for fencing tokens only: a counter that was lost starts
 * above every number it gave out. The only reading of a wall clock in the library;
 * never compare it with anything but a token. */
int64_t hf__wall_us(void);

/* now + ms, saturated; ms < 0 (forever) gives HF_NEVER. */
int64_t hf__deadline(int64_t now, int64_t ms);

/* ns to ms for poll and epoll: rounded up, 0 if not positive, -1 for HF_NEVER. */
int hf__poll_ms(int64_t now, int64_t at);

/* For tests. Maps the shared offset; 0 or -errno. With a shift in place sleeps are cut
 * to a few milliseconds (hf__poll_ms), so that a jump is noticed. */
int hf__clock_shift_open(const char *path);
void hf__clock_shift_add(int64_t ns);

#endif
