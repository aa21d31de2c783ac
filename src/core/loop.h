/* SPDX-License-Identifier: MIT */
/*
 * The loop of one client: descriptors in one epoll set, timers in one heap.
 *
 * Everything here happens under the client's lock; only hf__loop_turn releases it,
 * while it sleeps. No descriptor is opened before the first wait.
 */
#ifndef HF_CORE_LOOP_H
#define HF_CORE_LOOP_H

#include "../../include/holdfast/backend.h"
#include <pthread.h>

struct hf_fd_slot {
    hf_fd_cb *callback; /* NULL: free */
    void *arg;
    uint32_t generation;
};

struct hf_loop {
    int epoll_fd; /* the one descriptor a user's loop polls; -1 until needed */
    int wake_fd;  /* eventfd in it: wakes the sleeper */
    int timer_fd; /* timerfd in it: for sleepers that do not pass a timeout */
    bool use_timer_fd;
    bool sleeping;
    int64_t sleep_until;    /* when `sleeping` */
    int64_t armed_at;       /* what timer_fd is set to; HF_NEVER: off */
    struct hf_timer **heap; /* heap[1] is the earliest; slot = index */
    size_t timers, heap_size;
    size_t reserved;        /* timers that must always find room */
    struct hf_fd_slot *fds; /* by descriptor */
    size_t fd_slots;
    size_t fd_count;
};

void hf__loop_init(struct hf_loop *loop);
void hf__loop_done(struct hf_loop *loop); /* closes and frees; never epoll_ctl */

/* Opens epoll and the wake-up descriptor if that has not been done. */
int hf__loop_ensure(struct hf_loop *loop, hf_error *why);

int hf__loop_add_fd(struct hf_loop *loop, int fd, uint32_t events, hf_fd_cb *callback,
                    void *arg);
void hf__loop_remove_fd(struct hf_loop *loop, int fd);

int hf__loop_set_timer(struct hf_loop *loop, struct hf_timer *timer, int64_t at_ns);
void hf__loop_stop_timer(struct hf_loop *loop, struct hf_timer *timer);

/* Room for one more timer, so that setting it cannot fail; and the room back. */
int hf__loop_reserve(struct hf_loop *loop);
void hf__loop_unreserve(struct hf_loop *loop);

/* When the earliest timer is due; HF_NEVER without one. */
int64_t hf__loop_next(const struct hf_loop *loop);

/* Sets timer_fd for the earliest timer, for a thread that waits without a timeout. */
void hf__loop_arm(struct hf_loop *loop);

/* Wakes the thread that sleeps in hf__loop_turn. */
void hf__loop_kick(struct hf_loop *loop);

/* One turn: sleep (at most until `until`, unlocked), then descriptors, then timers. */
void hf__loop_turn(struct hf_loop *loop, pthread_mutex_t *lock, int64_t until);

#endif
