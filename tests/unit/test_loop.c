/* SPDX-License-Identifier: MIT */
/*
 * The loop alone: timers fire in order and only when due, reserved timers never fail to
 * be set, descriptors can be removed from inside callbacks, a kick ends a sleep, and
 * the one descriptor polls readable for timers as well. Also handles: a retired one is
 * told.
 */
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "../../src/core/handle.h"
#include "../../src/core/loop.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int order[4096];
static int fired;

struct mark {
    struct hf_timer timer;
    int number;
};

static void note_order(void *arg)
{
    struct mark *mark = arg;
    order[fired++] = mark->number;
}

static void turn(struct hf_loop *loop, int64_t until)
{
    pthread_mutex_lock(&lock);
    hf__loop_turn(loop, &lock, until);
    pthread_mutex_unlock(&lock);
}

START_TEST(timers_fire_in_order)
{
    enum { COUNT = 1000 };
    static struct mark marks[COUNT];
    struct hf_loop loop;
    uint64_t random = 7;
    int64_t now = hf__now();
    hf__loop_init(&loop);
    ck_assert_int_eq(hf__loop_ensure(&loop, NULL), 0);
    for (int i = 0; i < COUNT; i++) {
        marks[i].number = (int)unit_below(&random, 1000000);
        marks[i].timer.callback = note_order;
        marks[i].timer.arg = &marks[i];
        int64_t at = now - 1000000 + marks[i].number;
        ck_assert_int_eq(hf__loop_set_timer(&loop, &marks[i].timer, at + 5), 0);
        ck_assert_int_eq(hf__loop_set_timer(&loop, &marks[i].timer, at), 0); /* moved */
    }
    for (int i = 0; i < COUNT; i += 3)
        hf__loop_stop_timer(&loop, &marks[i].timer);
    turn(&loop, 0);
    ck_assert_int_eq(fired, COUNT - (COUNT + 2) / 3);
    for (int i = 1; i < fired; i++)
        UNIT_ASSERT(order[i - 1] <= order[i]);
    ck_assert(hf__loop_next(&loop) == HF_NEVER);
    hf__loop_done(&loop);
}
END_TEST

START_TEST(a_timer_is_never_early)
{
    struct mark mark = { .timer = { .callback = note_order, .arg = &mark } };
    struct hf_loop loop;
    hf__loop_init(&loop);
    ck_assert_int_eq(hf__loop_ensure(&loop, NULL), 0);
    int64_t at = hf__now() + 20 * HF_NS_PER_MS;
    hf__loop_set_timer(&loop, &mark.timer, at);
    while (!fired)
        turn(&loop, HF_NEVER);
    ck_assert(hf__now() >= at);
    ck_assert_uint_eq(mark.timer.slot, 0);
    hf__loop_done(&loop);
}
END_TEST

/* Turns until then; how many it took. An alarm that was set for others may end some. */
static int turns_until(struct hf_loop *loop, int64_t until)
{
    int turns = 0;
    for (; hf__now() < until; turns++)
        turn(loop, until);
    return turns;
}

/* The kernel's timer stays set from turn to turn; each still ends when it should, with
 * few turns for nothing. */
START_TEST(turns_share_an_alarm)
{
    struct mark mark = { .timer = { .callback = note_order, .arg = &mark } };
    struct hf_loop loop;
    hf__loop_init(&loop);
    ck_assert_int_eq(hf__loop_ensure(&loop, NULL), 0);
    int64_t start = hf__now();
    for (int i = 0; i < 100; i++) {
        hf__loop_kick(&loop);
        turn(&loop,
             start + (60000 + i) * HF_NS_PER_MS); /* each for later than the last */
    }
    ck_assert_int_eq(loop.armed_at, start + 60000 * HF_NS_PER_MS);
    hf__loop_set_timer(&loop, &mark.timer, hf__now() + 30 * HF_NS_PER_MS);
    ck_assert_int_le(turns_until(&loop, hf__now() + 25 * HF_NS_PER_MS), 2);
    ck_assert_int_le(turns_until(&loop, hf__now() + 25 * HF_NS_PER_MS), 4);
    ck_assert_int_eq(fired, 1);
    ck_assert_int_le(turns_until(&loop, hf__now() + 3 * HF_NS_PER_MS), 2);
    hf__loop_done(&loop);
}
END_TEST

START_TEST(reserved_timers_cannot_fail)
{
    enum { COUNT = 300 };
    static struct mark marks[COUNT];
    struct hf_loop loop;
    hf__loop_init(&loop);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(hf__loop_reserve(&loop), 0);
    hf__mem_fail(1, 1);
    for (int i = 0; i < COUNT; i++)
        UNIT_ASSERT(hf__loop_set_timer(&loop, &marks[i].timer, i + 1) == 0);
    hf__mem_fail(0, 0);
    hf__loop_done(&loop);
}
END_TEST

struct pair {
    struct hf_loop *loop;
    int fd, other;
    int calls;
};

static void remove_both(void *arg, uint32_t events)
{
    struct pair *pair = arg;
    (void)events;
    pair->calls++;
    hf__loop_remove_fd(pair->loop, pair->fd);
    hf__loop_remove_fd(pair->loop, pair->other);
}

START_TEST(a_removed_descriptor_is_silent)
{
    struct hf_loop loop;
    hf__loop_init(&loop);
    int one = eventfd(1, EFD_NONBLOCK), two = eventfd(1, EFD_NONBLOCK);
    struct pair first = { &loop, one, two, 0 }, second = { &loop, two, one, 0 };
    ck_assert_int_eq(hf__loop_add_fd(&loop, one, EPOLLIN, remove_both, &first), 0);
    ck_assert_int_eq(hf__loop_add_fd(&loop, two, EPOLLIN, remove_both, &second), 0);
    turn(&loop, 0);
    ck_assert_int_eq(first.calls + second.calls, 1);
    ck_assert_int_eq(hf__loop_add_fd(&loop, one, EPOLLIN, remove_both, &first), 0);
    turn(&loop, 0);
    ck_assert_int_eq(first.calls + second.calls, 2);
    hf__loop_done(&loop);
    close(one);
    close(two);
}
END_TEST

static void *kick_later(void *arg)
{
    struct hf_loop *loop = arg;
    bool asleep = false;
    while (!asleep) {
        pthread_mutex_lock(&lock);
        asleep = loop->sleeping;
        pthread_mutex_unlock(&lock);
    }
    hf__loop_kick(loop);
    return NULL;
}

START_TEST(a_kick_ends_the_sleep)
{
    struct hf_loop loop;
    pthread_t thread;
    hf__loop_init(&loop);
    ck_assert_int_eq(hf__loop_ensure(&loop, NULL), 0);
    pthread_create(&thread, NULL, kick_later, &loop);
    turn(&loop, HF_NEVER); /* the test's time limit says if it never ends */
    pthread_join(thread, NULL);
    ck_assert(!loop.sleeping);
    hf__loop_done(&loop);
}
END_TEST

START_TEST(the_descriptor_shows_timers)
{
    struct mark mark = { .timer = { .callback = note_order, .arg = &mark } };
    struct hf_loop loop;
    hf__loop_init(&loop);
    ck_assert_int_eq(hf__loop_ensure(&loop, NULL), 0);
    loop.use_timer_fd = true;
    hf__loop_set_timer(&loop, &mark.timer, hf__now() + 5 * HF_NS_PER_MS);
    while (!fired) {
        struct pollfd polled = { .fd = loop.epoll_fd, .events = POLLIN };
        ck_assert_int_eq(poll(&polled, 1, 30000), 1);
        turn(&loop, 0);
        hf__loop_arm(&loop);
    }
    hf__loop_done(&loop);
}
END_TEST

struct object {
    struct handle handle;
    int payload;
};

START_TEST(a_retired_handle_is_told)
{
    struct object *one = hf__handle_new(HANDLE_HOLD, sizeof(*one), sizeof(one->handle));
    void *wrapped = hf__handle_wrap(&one->handle);
    ck_assert_ptr_eq(hf__handle_object(wrapped, HANDLE_HOLD), one);
    ck_assert_ptr_null(hf__handle_object(wrapped, HANDLE_CLIENT));
    ck_assert(hf__handle_live(&one->handle, hf__handle_tag(wrapped)));
    hf__handle_retire(one);
    ck_assert(!hf__handle_live(&one->handle, hf__handle_tag(wrapped)));
    struct object *two = hf__handle_new(HANDLE_HOLD, sizeof(*two), sizeof(two->handle));
    ck_assert_ptr_eq(two, one); /* recycled, and yet the old handle stays stale */
    ck_assert_ptr_ne(hf__handle_wrap(&two->handle), wrapped);
    ck_assert(!hf__handle_live(&two->handle, hf__handle_tag(wrapped)));
    hf__handle_retire(two);
    hf__debug_trim();
    ck_assert_uint_eq(hf__mem_live(), 0);
}
END_TEST

/* Nothing may bring a stale handle back: neither many uses, nor a trim in between. */
START_TEST(a_stale_handle_never_comes_back)
{
    hf__debug_age_handles(HANDLE_GENERATION_MAX - 4);
    struct object *one = hf__handle_new(HANDLE_HOLD, sizeof(*one), sizeof(one->handle));
    void *first = hf__handle_wrap(&one->handle);
    hf__handle_retire(one);
    for (int i = 0; i < 10; i++) {
        struct object *next =
            hf__handle_new(HANDLE_HOLD, sizeof(*next), sizeof(next->handle));
        ck_assert_ptr_nonnull(next);
        void *handle = hf__handle_wrap(&next->handle);
        ck_assert(next != one || hf__handle_tag(handle) > hf__handle_tag(first));
        ck_assert(!hf__handle_live(&one->handle, hf__handle_tag(first)));
        hf__handle_retire(next);
    }
    ck_assert_ptr_eq(hf__handle_object(first, HANDLE_HOLD), one); /* worn, and kept */
}
END_TEST

START_TEST(the_table_finds_every_object)
{
    enum { MANY = 1000 };
    static struct object *objects[MANY];
    for (int i = 0; i < MANY; i++) {
        objects[i] =
            hf__handle_new(HANDLE_HOLD, sizeof(*objects[i]), sizeof(struct handle));
        ck_assert_ptr_nonnull(objects[i]);
    }
    for (int i = 0; i < MANY; i++) {
        void *wrapped = hf__handle_wrap(&objects[i]->handle);
        ck_assert_ptr_eq(hf__handle_object(wrapped, HANDLE_HOLD), objects[i]);
        ck_assert(hf__handle_live(&objects[i]->handle, hf__handle_tag(wrapped)));
    }
    void *old = hf__handle_wrap(&objects[0]->handle);
    for (int i = 0; i < MANY; i++)
        hf__handle_retire(objects[i]);
    hf__debug_trim();
    ck_assert_uint_eq(hf__mem_live(), 0);
    ck_assert_ptr_null(hf__handle_object(old, HANDLE_HOLD));
    struct object *fresh =
        hf__handle_new(HANDLE_HOLD, sizeof(*fresh), sizeof(struct handle));
    ck_assert_ptr_ne(hf__handle_wrap(&fresh->handle), old);
    hf__handle_retire(fresh);
    hf__debug_trim();
}
END_TEST

UNIT_MAIN("loop", timers_fire_in_order, a_timer_is_never_early, turns_share_an_alarm,
          reserved_timers_cannot_fail, a_removed_descriptor_is_silent,
          a_kick_ends_the_sleep, the_descriptor_shows_timers, a_retired_handle_is_told,
          the_table_finds_every_object, a_stale_handle_never_comes_back)
