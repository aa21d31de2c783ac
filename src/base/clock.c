/* SPDX-License-Identifier: MIT */
/*
 * The clock, and the shift that tests apply to it.
 *
 * Called from any thread, very often: a reading is one call into the vDSO and one load
 * that finds no shift. With a shift, the eight bytes of a shared file are added to each
 * reading; a test that adds to them moves time for every process that mapped the file.
 * A mapping is never removed, because a reader may be using it.
 *
 * Linux has no coarse BOOTTIME. The coarse reading is the coarse monotonic one plus the
 * time spent in suspend, measured once; after a later suspend it is behind. That is
 * good enough for display only.
 */
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SHIFTED_POLL_MS 5
#define NOT_MEASURED INT64_MIN

typedef _Atomic int64_t shift_word;

static shift_word *_Atomic shift_page;
static _Atomic int64_t suspended = NOT_MEASURED;

static int64_t clock_read(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * HF_NS_PER_S + t.tv_nsec;
}

static inline shift_word *shift_get(void)
{
    return atomic_load_explicit(&shift_page, memory_order_acquire);
}

static inline int64_t shifted(int64_t reading)
{
    shift_word *shift = shift_get();
    if (__builtin_expect(shift != NULL, 0))
        reading += atomic_load_explicit(shift, memory_order_seq_cst);
    return reading;
}

int64_t hf__now(void)
{
    return shifted(clock_read(CLOCK_BOOTTIME));
}

int64_t hf__now_coarse(void)
{
    int64_t offset = atomic_load_explicit(&suspended, memory_order_relaxed);
    if (offset == NOT_MEASURED) {
        offset = clock_read(CLOCK_BOOTTIME) - clock_read(CLOCK_MONOTONIC);
        atomic_store_explicit(&suspended, offset, memory_order_relaxed);
    }
    return shifted(clock_read(CLOCK_MONOTONIC_COARSE) + offset);
}

int64_t hf__wall_us(void)
{
    return clock_read(CLOCK_REALTIME) / 1000;
}

int64_t hf__deadline(int64_t now, int64_t ms)
{
    int64_t ns, at;
    if (ms < 0 || __builtin_mul_overflow(ms, HF_NS_PER_MS, &ns) ||
        __builtin_add_overflow(now, ns, &at))
        return HF_NEVER;
    return at;
}

int hf__poll_ms(int64_t now, int64_t at)
{
    int64_t left;
    if (at == HF_NEVER) /* no shift of the clock makes this due */
        return -1;
    if (at <= now)
        return 0;
    if (__builtin_sub_overflow(at, now, &left))
        left = INT64_MAX;
    int64_t ms = left / HF_NS_PER_MS + (left % HF_NS_PER_MS != 0);
    int64_t most = shift_get() ? SHIFTED_POLL_MS : INT_MAX;
    return (int)(ms < most ? ms : most);
}

int hf__clock_shift_open(const char *path)
{
    int rc = 0;
    struct stat status;
    void *page;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) < 0 || (status.st_size < (off_t)sizeof(shift_word) &&
                                   ftruncate(fd, sizeof(shift_word)) < 0)) {
        rc = -errno;
        goto out;
    }
    page = mmap(NULL, sizeof(shift_word), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        rc = -errno;
        goto out;
    }
    atomic_store_explicit(&shift_page, (shift_word *)page, memory_order_release);
out:
    close(fd);
    return rc;
}

void hf__clock_shift_add(int64_t ns)
{
    shift_word *shift = shift_get();
    if (shift)
        atomic_fetch_add(shift, ns);
}
