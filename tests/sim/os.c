/* SPDX-License-Identifier: MIT */
/*
 * The virtual system under the library: its clock, its random bytes, and the few system
 * calls of the event loop, all replaced at link time (-Wl,--wrap) in every object of
 * the program. Nothing of the real machine's time or entropy gets in.
 *
 * Descriptors are numbers from FD_FIRST on. There are eventfds, timerfds and epoll sets
 * (one inside another, as core has them). Readiness is computed when somebody asks.
 * An epoll_wait that has nothing to tell puts its thread to sleep (threads.c).
 *
 * Each node has a clock of its own; `current` is the node whose code is running.
 */
#include "sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../../src/base/rand.h"

enum { FD_FIRST = 64, FDS = 128, MEMBERS = 8 };
#define CLOCK_STEP_NS 8 /* more than what a slow clock may go back by rounding */
#define EPOCH_US INT64_C(1700000000000000)

enum fd_kind { FD_FREE = 0, FD_EVENT, FD_TIMER, FD_EPOLL };

struct member {
    int fd;
    struct epoll_event event;
};

struct fake_fd {
    enum fd_kind kind;
    int node;         /* whose it is */
    uint64_t count;   /* of an eventfd */
    int64_t expires;  /* of a timerfd: true time, or NEVER */
    int members_used; /* of an epoll set */
    struct member members[MEMBERS];
};

int64_t sim_now;
struct node_clock os_clocks[CLIENTS_MAX];
static struct fake_fd fds[FDS];
static int current = -1;
static uint64_t changes[CLIENTS_MAX];   /* of a node's descriptors, so far */
static int64_t node_ready[CLIENTS_MAX]; /* what os_node_ready() said last ... */
static uint64_t node_seen[CLIENTS_MAX]; /* ... at so many changes */
static uint64_t ids_state;

/* ---- chance ---------------------------------------------------------------------- */

static uint64_t dice_state;

static uint64_t mix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t dice(void)
{
    return mix(&dice_state);
}

int64_t dice_between(int64_t low, int64_t high)
{
    return low + (int64_t)(dice() % (uint64_t)(high - low + 1));
}

bool dice_chance(uint32_t per_mille)
{
    return per_mille && dice() % 1000 < per_mille;
}

/* Halved or doubled a few times, by coins: most are short, some are long. */
int64_t dice_spread(int64_t mean)
{
    uint64_t bits = dice();
    int64_t span = mean;
    for (int i = 0; i < 6 && (bits & 1); i++, bits >>= 1)
        span *= 2;
    return (int64_t)((uint64_t)span * (bits >> 8 & 0xffff) >> 16);
}

/* ---- clocks ---------------------------------------------------------------------- */

int64_t clock_read(const struct node_clock *clock, int64_t at)
{
    return clock->start + at + at / 1000 * clock->ppm / 1000;
}

int64_t clock_reach(const struct node_clock *clock, int64_t reading)
{
    int64_t span = reading - clock->start;
    int64_t at = span - span / 1000 * clock->ppm / 1000;
    while (clock_read(clock, at) >= reading)
        at -= 1 + (clock_read(clock, at) - reading) / 2;
    while (clock_read(clock, at) < reading)
        at += 1 + (reading - clock_read(clock, at)) / 2;
    return at;
}

int os_enter(int node)
{
    int before = current;
    current = node;
    return before;
}

int os_node(void)
{
    return current;
}

int64_t os_node_now(void)
{
    if (current < 0)
        return SECOND + sim_now;
    return clock_read(&os_clocks[current], sim_now);
}

void os_reset(uint64_t seed)
{
    dice_state = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
    ids_state = ~seed * UINT64_C(0x9fb21c651e98df25) + 7;
    memset(fds, 0, sizeof(fds));
    for (int i = 0; i < CLIENTS_MAX; i++)
        changes[i]++;
    sim_now = 0;
    current = -1;
}

/* ---- descriptors ----------------------------------------------------------------- */

static struct fake_fd *fd_find(int fd)
{
    return fd >= FD_FIRST && fd < FD_FIRST + FDS ? &fds[fd - FD_FIRST] : NULL;
}

static void changed(const struct fake_fd *fake)
{
    if (fake->node >= 0)
        changes[fake->node]++;
}

static int fd_new(enum fd_kind kind)
{
    for (int i = 0; i < FDS; i++) {
        if (fds[i].kind)
            continue;
        fds[i] = (struct fake_fd){ .kind = kind, .node = current, .expires = NEVER };
        changed(&fds[i]);
        return FD_FIRST + i;
    }
    errno = EMFILE;
    return -1;
}

int64_t os_ready_at(int fd)
{
    const struct fake_fd *fake = fd_find(fd);
    int64_t soonest = NEVER;
    if (!fake || fake->kind == FD_FREE)
        return NEVER;
    if (fake->kind == FD_EVENT)
        return fake->count ? sim_now : NEVER;
    if (fake->kind == FD_TIMER)
        return fake->expires;
    for (int i = 0; i < fake->members_used; i++) {
        int64_t at =
            fake->members[i].event.events ? os_ready_at(fake->members[i].fd) : NEVER;
        if (at < soonest)
            soonest = at;
    }
    return soonest;
}

int64_t os_node_ready(int node, int fd)
{
    if (node_seen[node] != changes[node]) {
        node_seen[node] = changes[node];
        node_ready[node] = os_ready_at(fd);
    }
    return node_ready[node];
}

uint64_t os_changes(int node)
{
    return changes[node];
}

/* ---- what the library calls instead ---------------------------------------------- */

int64_t __wrap_hf__now(void);
int64_t __wrap_hf__now_coarse(void);
int64_t __wrap_hf__wall_us(void);
int __wrap_hf__random_slow(struct hf_random *pool, void *buffer, size_t size);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int epfd, struct epoll_event *events, int most, int timeout);
int __wrap_eventfd(unsigned int count, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *spec,
                           struct itimerspec *old);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __wrap_write(int fd, const void *buffer, size_t size);
ssize_t __real_write(int fd, const void *buffer, size_t size);
int __wrap_eventfd_read(int fd, eventfd_t *value);
int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_close(int fd);
int __real_close(int fd);

int64_t __wrap_hf__now(void)
{
    thread_point();
    sim_now += CLOCK_STEP_NS; /* no two looks at it see the same */
    return os_node_now();
}

int64_t __wrap_hf__now_coarse(void)
{
    return os_node_now();
}

int64_t __wrap_hf__wall_us(void)
{
    return EPOCH_US + sim_now / 1000;
}

int __wrap_hf__random_slow(struct hf_random *pool, void *buffer, size_t size)
{
    unsigned char *to = buffer;
    for (size_t i = 0; i < sizeof(pool->bytes); i += sizeof(uint64_t)) {
        uint64_t word = mix(&ids_state);
        memcpy(pool->bytes + i, &word, sizeof(word));
    }
    pool->mark = hf__fork_mark();
    pool->left = sizeof(pool->bytes);
    for (; size >= sizeof(pool->bytes); size -= 64, to += 64)
        memcpy(to, pool->bytes, 64);
    return hf__random(pool, to, size);
}

int __wrap_epoll_create1(int flags)
{
    (void)flags;
    return fd_new(FD_EPOLL);
}

static struct member *member_find(struct fake_fd *set_, int fd)
{
    for (int i = 0; i < set_->members_used; i++)
        if (set_->members[i].fd == fd)
            return &set_->members[i];
    return NULL;
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    struct fake_fd *fake = fd_find(epfd);
    struct member *member = member_find(fake, fd);
    changed(fake);
    if ((op == EPOLL_CTL_ADD) != (member == NULL)) {
        errno = member ? EEXIST : ENOENT;
        return -1;
    }
    if (op == EPOLL_CTL_DEL) {
        *member = fake->members[--fake->members_used];
        return 0;
    }
    if (!member && fake->members_used == MEMBERS) {
        errno = ENOSPC;
        return -1;
    }
    if (!member)
        member = &fake->members[fake->members_used++];
    *member = (struct member){ fd, *event };
    return 0;
}

static int collect(struct fake_fd *fake, struct epoll_event *events, int most)
{
    int found = 0;
    for (int i = 0; i < fake->members_used && found < most; i++) {
        struct epoll_event *wanted = &fake->members[i].event;
        if (!wanted->events || os_ready_at(fake->members[i].fd) > sim_now)
            continue;
        events[found] = *wanted;
        events[found++].events = EPOLLIN;
        if (wanted->events & EPOLLONESHOT) {
            wanted->events = 0;
            changed(fake);
        }
    }
    return found;
}

int __wrap_epoll_wait(int epfd, struct epoll_event *events, int most, int timeout)
{
    struct fake_fd *fake = fd_find(epfd);
    int64_t until = NEVER;
    if (timeout > 0)
        until = clock_reach(&os_clocks[current], os_node_now() + timeout * MS);
    thread_point();
    int found = collect(fake, events, most);
    while (!found && timeout != 0 && sim_now < until) {
        thread_poll(epfd, until);
        found = collect(fake, events, most);
    }
    thread_point();
    return found;
}

int __wrap_eventfd(unsigned int count_, int flags)
{
    (void)count_;
    (void)flags;
    return fd_new(FD_EVENT);
}

int __wrap_timerfd_create(int clock, int flags)
{
    (void)clock;
    (void)flags;
    return fd_new(FD_TIMER);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *spec,
                           struct itimerspec *old)
{
    (void)flags;
    (void)old;
    changed(fd_find(fd));
    int64_t left = spec->it_value.tv_sec * SECOND + spec->it_value.tv_nsec;
    fd_find(fd)->expires =
        left ? clock_reach(&os_clocks[current], os_node_now() + left) : NEVER;
    return 0;
}

ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
    struct fake_fd *fake = fd_find(fd);
    if (!fake)
        return __real_read(fd, buffer, size);
    uint64_t got = fake->kind == FD_TIMER ? fake->expires <= sim_now : fake->count;
    if (!got) {
        errno = EAGAIN;
        return -1;
    }
    changed(fake);
    fake->count = 0;
    fake->expires = NEVER;
    memcpy(buffer, &got, sizeof(got));
    return sizeof(got);
}

ssize_t __wrap_write(int fd, const void *buffer, size_t size)
{
    struct fake_fd *fake = fd_find(fd);
    if (!fake)
        return __real_write(fd, buffer, size);
    changed(fake);
    fake->count++;
    return (ssize_t)size;
}

int __wrap_eventfd_read(int fd, eventfd_t *value)
{
    return __wrap_read(fd, value, sizeof(*value)) < 0 ? -1 : 0;
}

int __wrap_eventfd_write(int fd, eventfd_t value)
{
    return __wrap_write(fd, &value, sizeof(value)) < 0 ? -1 : 0;
}

/* A closed descriptor leaves every epoll set, as the kernel has it. */
int __wrap_close(int fd)
{
    struct fake_fd *fake = fd_find(fd);
    if (!fake)
        return __real_close(fd);
    changed(fake);
    fake->kind = FD_FREE;
    for (int i = 0; i < FDS; i++) {
        struct member *member =
            fds[i].kind == FD_EPOLL ? member_find(&fds[i], fd) : NULL;
        if (member)
            *member = fds[i].members[--fds[i].members_used];
    }
    return 0;
}
