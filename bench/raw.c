/* SPDX-License-Identifier: MIT */
/*
 * The raw limits: what this machine can do with no library at all.
 *
 *   flock(2)   the kernel's own lock between processes: a pair on an open file, and
 *              eight processes with an open file each on one inode
 *   ring       eight processes pass a token through pipes: first come, first served,
 *              each wake-up meant for one process; the least a fair hand-off can cost
 *   mutex      pthread_mutex_t, alone and with eight threads
 *   chain      eventfds in one epoll loop, each event setting off the next: the least
 *              that waking a thousand waiters of one loop costs with system calls
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <unistd.h>

#define BATCH 256

/* ---- Pairs ----------------------------------------------------------------------- */

int raw_flock_pair(struct bench *bench, void *path, struct figures *ret_figures)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int64_t start = now_ns(), cpu = cpu_ns(), pairs = 0;

    if (fd < 0)
        return bench_error(path, NULL);
    do {
        for (int i = 0; i < BATCH; i++) {
            if (flock(fd, LOCK_EX) || flock(fd, LOCK_UN))
                return bench_error("flock", NULL);
        }
        pairs += BATCH;
    } while (now_ns() - start < bench->slice_ns);
    ret_figures->v[0] = (double)(now_ns() - start) / (double)pairs;
    ret_figures->v[1] = (double)(cpu_ns() - cpu) / (double)pairs;
    close(fd);
    return 0;
}

int raw_mutex_pair(struct bench *bench, void *unused, struct figures *ret_figures)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int64_t start = now_ns(), cpu = cpu_ns(), pairs = 0;

    (void)unused;
    do {
        for (int i = 0; i < BATCH; i++) {
            pthread_mutex_lock(&mutex);
            pthread_mutex_unlock(&mutex);
        }
        pairs += BATCH;
    } while (now_ns() - start < bench->slice_ns);
    ret_figures->v[0] = (double)(now_ns() - start) / (double)pairs;
    ret_figures->v[1] = (double)(cpu_ns() - cpu) / (double)pairs;
    return 0;
}

/* ---- Contests -------------------------------------------------------------------- */

static int flock_begin(struct contest *contest, int index, void **ret_state)
{
    int fd = open(contest->text, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    (void)index;
    *ret_state = (void *)(intptr_t)fd;
    return fd < 0 ? bench_error(contest->text, NULL) : 0;
}

static int flock_enter(void *state)
{
    return flock((int)(intptr_t)state, LOCK_EX) ? bench_error("flock", NULL) : 0;
}

static int flock_leave(void *state)
{
    return flock((int)(intptr_t)state, LOCK_UN) ? bench_error("flock", NULL) : 0;
}

static void flock_end(void *state)
{
    close((int)(intptr_t)state);
}

const struct contest contest_flock = {
    .begin = flock_begin,
    .enter = flock_enter,
    .leave = flock_leave,
    .end = flock_end,
    .processes = true,
};

/* `shared` is int[BENCH_WORKERS][2], made before the fork: worker i reads from pipe i
 * and writes to pipe i + 1. The token may lie in the pipe of a worker that has
 * stopped, so each wakes the next one up when it stops. */
struct ring_place {
    int in, out;
};

static int ring_begin(struct contest *contest, int index, void **ret_state)
{
    int(*pipes)[2] = contest->shared;
    struct ring_place *place = malloc(sizeof *place);

    *ret_state = place;
    if (!place)
        return bench_error("ring", NULL);
    place->in = pipes[index][0];
    place->out = pipes[(index + 1) % BENCH_WORKERS][1];
    return 0;
}

static int ring_enter(void *state)
{
    const struct ring_place *place = state;
    char token;

    return read(place->in, &token, 1) == 1 ? 0 : bench_error("ring", NULL);
}

static int ring_leave(void *state)
{
    const struct ring_place *place = state;

    return write(place->out, "t", 1) == 1 ? 0 : bench_error("ring", NULL);
}

static void ring_end(void *state)
{
    if (state)
        ring_leave(state);
    free(state);
}

const struct contest contest_ring = {
    .begin = ring_begin,
    .enter = ring_enter,
    .leave = ring_leave,
    .end = ring_end,
    .processes = true,
};

static int mutex_begin(struct contest *contest, int index, void **ret_state)
{
    (void)index;
    *ret_state = contest->shared;
    return 0;
}

static int mutex_enter(void *state)
{
    return pthread_mutex_lock(state) ? -1 : 0;
}

static int mutex_leave(void *state)
{
    return pthread_mutex_unlock(state) ? -1 : 0;
}

static void mutex_end(void *state)
{
    (void)state;
}

const struct contest contest_mutex = {
    .begin = mutex_begin,
    .enter = mutex_enter,
    .leave = mutex_leave,
    .end = mutex_end,
};

/* ---- Chain ----------------------------------------------------------------------- */

static int chain_link(int epoll, int *fds, int index)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = (uint32_t)index };

    fds[index] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fds[index] < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fds[index], &event);
}

static int chain_run(int epoll, const int *fds, int length)
{
    struct epoll_event events[64];
    uint64_t one = 1;

    if (write(fds[0], &one, sizeof one) < 0)
        return -1;
    for (int done = 0; done < length;) {
        int ready = epoll_wait(epoll, events, 64, -1);

        for (int i = 0; i < ready; i++) {
            uint32_t index = events[i].data.u32;

            if (read(fds[index], &one, sizeof one) < 0)
                return -1;
            done++;
            if (done < length && write(fds[index + 1], &one, sizeof one) < 0)
                return -1;
        }
    }
    return 0;
}

int raw_chain(struct bench *bench, void *arg, struct figures *ret_figures)
{
    int length = *(int *)arg, made = 0, rc = 0;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int *fds = calloc((size_t)length, sizeof *fds);
    int64_t start;

    (void)bench;
    for (; fds && made < length && rc == 0; made += rc == 0)
        rc = chain_link(epoll, fds, made);
    start = now_ns();
    if (rc == 0)
        rc = fds ? chain_run(epoll, fds, length) : -1;
    ret_figures->v[0] = (double)(now_ns() - start) / length;
    if (rc)
        rc = bench_error("chain of eventfds", NULL);
    while (made > 0)
        close(fds[--made]);
    close(epoll);
    free(fds);
    return rc;
}
