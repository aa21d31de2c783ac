/* SPDX-License-Identifier: MIT */
/*
 * The virtual clock of a scenario, for a server: a module for LD_PRELOAD.
 *
 * Adds to the server's wall clock what stands in the file that the library's own clock
 * adds to its readings (src/base/clock.c), so that leases end on both sides at once.
 * The file may appear after the server has started: until then nothing is added.
 *
 * For Redis only the wall clock moves. It expires keys, answers TIME and stamps with
 * it; its event loop counts on the monotonic clock, which goes on in real time. Were it
 * shifted too, a jump would only make periodic jobs due at once. For ZooKeeper, which
 * ends sessions by the monotonic clock, HOLDFAST_TEST_CLOCK_MONOTONIC=1 moves that one
 * instead: it removes containers by a timer of the wall clock that makes up for every
 * turn it has missed, a thousand million of them after a jump of a year, and drowns.
 * A sleep until a moment of a shifted clock ends at that moment without the shift of
 * now: a Java thread that sleeps computes such a moment from its reading of the clock.
 *
 * Plain system calls instead of the next definition of each function: these may be
 * called before the loader could find one. The server must not be sanitized, nor this.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

typedef _Atomic int64_t shift_word;

static shift_word *_Atomic shift_page;

static shift_word *page_map(void)
{
    struct stat about;
    void *page = MAP_FAILED;
    const char *path = getenv("HOLDFAST_TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &about) == 0 && about.st_size >= (off_t)sizeof(shift_word))
        page = mmap(NULL, sizeof(shift_word), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return page == MAP_FAILED ? NULL : page;
}

static int64_t shift(void)
{
    shift_word *page = atomic_load(&shift_page);
    if (!page) {
        page = page_map();
        atomic_store(&shift_page, page); /* mapped twice at worst */
    }
    return page ? atomic_load(page) : 0;
}

static void timespec_add(struct timespec *t, int64_t ns)
{
    t->tv_sec += ns / NS_PER_S;
    t->tv_nsec += ns % NS_PER_S;
    if (t->tv_nsec >= NS_PER_S) {
        t->tv_sec++;
        t->tv_nsec -= NS_PER_S;
    } else if (t->tv_nsec < 0) {
        t->tv_sec--;
        t->tv_nsec += NS_PER_S;
    }
}

static bool moves(clockid_t id)
{
    static atomic_int monotonic = -1;
    if (atomic_load(&monotonic) < 0)
        atomic_store(&monotonic, getenv("HOLDFAST_TEST_CLOCK_MONOTONIC") != NULL);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        return !atomic_load(&monotonic);
    return id == CLOCK_MONOTONIC && atomic_load(&monotonic);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (rc == 0 && moves(id))
        timespec_add(t, shift());
    return rc;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret_time)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret_time)
        *ret_time = now.tv_sec;
    return now.tv_sec;
}

/* Which clock the moment belongs to is in the condition variable, out of reach; but the
 * wall clock is at 10^9 seconds and more, and no monotonic one is. */
int pthread_cond_timedwait(pthread_cond_t *restrict cond,
                           pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict moment)
{
    struct timespec at = *moment;
    clockid_t id = at.tv_sec > INT64_C(1000000000) ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    if (moves(id))
        timespec_add(&at, -shift());
    return pthread_cond_clockwait(cond, mutex, id, &at);
}
