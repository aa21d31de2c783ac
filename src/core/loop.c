/* SPDX-License-Identifier: MIT */
/*
 * A small loop on epoll. Who drives it changes from moment to moment (driver.c): a
 * blocking caller, the background thread, or the user's own loop through the epoll
 * descriptor.
 *
 * Invariants: a timer's slot is its index in the heap, 0 when idle. An event is handed
 * out only if the descriptor's slot still has the generation it was registered with, so
 * that a callback may remove any descriptor, its own included. A timer set earlier than
 * the sleeper's alarm kicks the sleeper; one set later costs nothing.
 */
#include "loop.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { TURN_EVENTS = 64, RESERVE_SLACK = 16, ARM_MS = 20 };

/* Marks in the events of the loop's own descriptors; other events carry a descriptor
 * and a generation, which is never so high. */
#define KICKED UINT64_MAX
#define RANG (UINT64_MAX - 1)

void hf__loop_init(struct hf_loop *loop)
{
    *loop = (struct hf_loop){ .epoll_fd = -1, .wake_fd = -1, .timer_fd = -1 };
    loop->armed_at = HF_NEVER;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void hf__loop_done(struct hf_loop *loop)
{
    close_fd(&loop->timer_fd);
    close_fd(&loop->wake_fd);
    close_fd(&loop->epoll_fd);
    hf__free(loop->heap);
    hf__free(loop->fds);
    hf__loop_init(loop);
}

static int watch_internal(struct hf_loop *loop, int fd, uint64_t mark)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = mark };
    return fd < 0 ? -1 : epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int hf__loop_ensure(struct hf_loop *loop, hf_error *why)
{
    if (loop->epoll_fd >= 0)
        return 0;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        goto failed;
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch_internal(loop, loop->wake_fd, KICKED) != 0)
        goto failed;
    loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (watch_internal(loop, loop->timer_fd, RANG) != 0)
        goto failed;
    return 0;
failed:;
    int sys = errno;
    close_fd(&loop->timer_fd);
    close_fd(&loop->wake_fd);
    close_fd(&loop->epoll_fd);
    return hf__fail_sys(why, HF_ESYSTEM, sys, "cannot set up the event loop");
}

/* ---- descriptors ----------------------------------------------------------------- */

static int reserve_fd_slot(struct hf_loop *loop, int fd)
{
    size_t need = (size_t)fd + 1;
    if (need <= loop->fd_slots)
        return 0;
    size_t slots = loop->fd_slots ? loop->fd_slots : 32;
    while (slots < need)
        slots *= 2;
    struct hf_fd_slot *fds =
        hf__realloc(loop->fds, loop->fd_slots * sizeof(*fds), slots * sizeof(*fds));
    if (!fds)
        return HF_ENOMEM;
    loop->fds = fds;
    loop->fd_slots = slots;
    return 0;
}

int hf__loop_add_fd(struct hf_loop *loop, int fd, uint32_t events, hf_fd_cb *callback,
                    void *arg)
{
    int rc = hf__loop_ensure(loop, NULL);
    if (rc == 0)
        rc = reserve_fd_slot(loop, fd);
    if (rc != 0)
        return rc;
    struct hf_fd_slot *slot = &loop->fds[fd];
    uint32_t generation = slot->generation + 1;
    struct epoll_event event = { .events = events };
    event.data.u64 = (uint64_t)generation << 32 | (uint32_t)fd;
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0 &&
        (errno != EEXIST || epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0))
        return HF_ESYSTEM;
    loop->fd_count += slot->callback == NULL;
    *slot = (struct hf_fd_slot){ callback, arg, generation };
    return 0;
}

void hf__loop_remove_fd(struct hf_loop *loop, int fd)
{
    if (fd < 0 || (size_t)fd >= loop->fd_slots || !loop->fds[fd].callback)
        return;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    loop->fds[fd].callback = NULL;
    loop->fd_count--;
}

static void drain_counter(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof(count)) < 0)
        return; /* EAGAIN: another turn has read it */
}

static void hand_out(struct hf_loop *loop, const struct epoll_event *event)
{
    if (event->data.u64 >= RANG)
        return;
    size_t fd = (uint32_t)event->data.u64;
    uint32_t generation = (uint32_t)(event->data.u64 >> 32);
    if (fd >= loop->fd_slots)
        return;
    struct hf_fd_slot slot = loop->fds[fd];
    if (slot.callback && slot.generation == generation)
        slot.callback(slot.arg, event->events);
}

/* ---- timers ---------------------------------------------------------------------- */

static void heap_put(struct hf_loop *loop, size_t at, struct hf_timer *timer)
{
    loop->heap[at] = timer;
    timer->slot = at;
}

static void heap_up(struct hf_loop *loop, size_t at)
{
    struct hf_timer *timer = loop->heap[at];
    while (at > 1 && loop->heap[at / 2]->at_ns > timer->at_ns) {
        heap_put(loop, at, loop->heap[at / 2]);
        at /= 2;
    }
    heap_put(loop, at, timer);
}

static void heap_down(struct hf_loop *loop, size_t at)
{
    struct hf_timer *timer = loop->heap[at];
    for (size_t child = 2 * at; child <= loop->timers; child = 2 * at) {
        if (child < loop->timers &&
            loop->heap[child + 1]->at_ns < loop->heap[child]->at_ns)
            child++;
        if (loop->heap[child]->at_ns >= timer->at_ns)
            break;
        heap_put(loop, at, loop->heap[child]);
        at = child;
    }
    heap_put(loop, at, timer);
}

static int heap_room(struct hf_loop *loop, size_t timers)
{
    if (timers + 1 <= loop->heap_size)
        return 0;
    size_t size = loop->heap_size ? loop->heap_size * 2 : 32;
    while (size < timers + 1)
        size *= 2;
    void *heap = hf__realloc(loop->heap, loop->heap_size * sizeof(*loop->heap),
                             size * sizeof(*loop->heap));
    if (!heap)
        return HF_ENOMEM;
    loop->heap = heap;
    loop->heap_size = size;
    return 0;
}

/* The slack is for the store's timers, which may fail to be set. */
int hf__loop_reserve(struct hf_loop *loop)
{
    int rc = heap_room(loop, loop->reserved + 1 + RESERVE_SLACK);
    loop->reserved += rc == 0;
    return rc;
}

void hf__loop_unreserve(struct hf_loop *loop)
{
    loop->reserved--;
}

int hf__loop_set_timer(struct hf_loop *loop, struct hf_timer *timer, int64_t at_ns)
{
    if (timer->slot) {
        timer->at_ns = at_ns;
        heap_up(loop, timer->slot);
        heap_down(loop, timer->slot);
    } else {
        if (heap_room(loop, loop->timers + 1) != 0)
            return HF_ENOMEM;
        timer->at_ns = at_ns;
        heap_put(loop, ++loop->timers, timer);
        heap_up(loop, loop->timers);
    }
    if (loop->sleeping && at_ns < loop->sleep_until)
        hf__loop_kick(loop);
    else if (loop->use_timer_fd && at_ns < loop->armed_at)
        hf__loop_arm(loop);
    return 0;
}

void hf__loop_stop_timer(struct hf_loop *loop, struct hf_timer *timer)
{
    size_t at = timer->slot;
    if (!at)
        return;
    struct hf_timer *last = loop->heap[loop->timers--];
    timer->slot = 0;
    if (last == timer)
        return;
    heap_put(loop, at, last);
    heap_up(loop, at);
    heap_down(loop, last->slot);
}

int64_t hf__loop_next(const struct hf_loop *loop)
{
    return loop->timers ? loop->heap[1]->at_ns : HF_NEVER;
}

static void arm_for(struct hf_loop *loop, int64_t at, int wait_ms)
{
    int64_t left = wait_ms > 0 ? wait_ms * HF_NS_PER_MS : 1;
    struct itimerspec spec = { .it_value = { left / HF_NS_PER_S, left % HF_NS_PER_S } };
    if (timerfd_settime(loop->timer_fd, 0, &spec, NULL) == 0)
        loop->armed_at = at;
}

void hf__loop_arm(struct hf_loop *loop)
{
    int64_t next = hf__loop_next(loop);
    if (loop->timer_fd >= 0 && next < loop->armed_at)
        arm_for(loop, next, hf__poll_ms(hf__now(), next));
}

static void run_timers(struct hf_loop *loop)
{
    if (!loop->timers)
        return;
    int64_t now = hf__now();
    while (loop->timers && loop->heap[1]->at_ns <= now) {
        struct hf_timer *timer = loop->heap[1];
        hf__loop_stop_timer(loop, timer);
        timer->callback(timer->arg);
    }
}

/* ---- turning --------------------------------------------------------------------- */

void hf__loop_kick(struct hf_loop *loop)
{
    uint64_t one = 1;
    if (loop->wake_fd >= 0 && write(loop->wake_fd, &one, sizeof(one)) < 0)
        return; /* EAGAIN: a kick is pending already */
}

/* The timeout for epoll_wait(). The kernel sets up a timer for each such call; timer_fd
 * is set once and serves all calls with a later time. So timer_fd is used, unless the
 * wait is short. */
static int turn_timeout(struct hf_loop *loop, int64_t until)
{
    if (until == 0)
        return 0;
    if (loop->sleep_until == HF_NEVER || loop->sleep_until >= loop->armed_at)
        return -1;
    int wait_ms = hf__poll_ms(hf__now(), loop->sleep_until);
    if (wait_ms < ARM_MS)
        return wait_ms;
    arm_for(loop, loop->sleep_until, wait_ms);
    return loop->sleep_until >= loop->armed_at ? -1 : wait_ms;
}

void hf__loop_turn(struct hf_loop *loop, pthread_mutex_t *lock, int64_t until)
{
    struct epoll_event events[TURN_EVENTS];
    int64_t next = hf__loop_next(loop);
    loop->sleep_until = until < next ? until : next;
    int wait_ms = turn_timeout(loop, until);
    loop->sleeping = true;
    pthread_mutex_unlock(lock);
    int ready = epoll_wait(loop->epoll_fd, events, TURN_EVENTS, wait_ms);
    pthread_mutex_lock(lock);
    loop->sleeping = false;
    for (int i = 0; i < ready; i++) {
        if (events[i].data.u64 == KICKED)
            drain_counter(loop->wake_fd);
        if (events[i].data.u64 == RANG) {
            drain_counter(loop->timer_fd);
            loop->armed_at = HF_NEVER;
        }
    }
    for (int i = 0; i < ready; i++)
        hand_out(loop, &events[i]);
    run_timers(loop);
}
