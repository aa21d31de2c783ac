/* SPDX-License-Identifier: MIT */
/*
 * Drives the loop: which thread waits for events, which one sleeps, which one runs
 * callbacks.
 *
 * A blocking caller drives the loop itself until its op is finished: no hop to another
 * thread. One thread drives at a time (client->driven); other callers sleep, each on a
 * condition of its own, and are woken when their op is finished or when it is their
 * turn to drive. The background thread exists only if something must happen without a
 * caller: renewals, asynchronous ops, watches. It sleeps on an outer epoll that holds
 * the loop's epoll descriptor one-shot; a caller disarms that while it drives, and arms
 * it again when it stops.
 *
 * Callbacks are run by the background thread, or by hf_dispatch for HF_DRIVER_USER,
 * with no lock held. done_fd is readable when there are some.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct sleeper {
    struct hf_list_node link;
    pthread_cond_t cond;
};

/* The callbacks that this thread is inside, the latest first: one of them may close
 * another client, which runs what is due there. */
struct inside {
    const hf_client *client;
    const struct inside *outer;
};

/* Small enough for the static TLS block of a library that is loaded with dlopen(). */
static _Thread_local const struct inside *callback_frames
    __attribute__((tls_model("initial-exec")));

bool hf__in_callback(const hf_client *client)
{
    const struct inside *at = callback_frames;
    while (at && at->client != client)
        at = at->outer;
    return client && at;
}

/* ---- acting on answers ----------------------------------------------------------- */

static void act(struct claim *claim)
{
    struct hf_list_node *front = hf__list_first(&claim->ops);
    if (claim->state == CLAIM_WITHDRAWN)
        hf__claim_withdrawn(claim);
    else if (front)
        hf__acquire_advance(HF_CONTAINER(front, struct hf_op, link));
    else if (!claim->holders && !claim->client->closing &&
             (claim->state == CLAIM_HELD || claim->state == CLAIM_LOST))
        hf__claim_give_up(claim); /* every op that waited for it has ended */
}

void hf__run_ready(hf_client *client)
{
    for (struct hf_list_node *link; (link = hf__list_first(&client->ready));) {
        hf__list_remove(link);
        act(HF_CONTAINER(link, struct claim, ready));
    }
}

/* ---- driving --------------------------------------------------------------------- */

static void set_thread_armed(hf_client *client, bool armed)
{
    if (client->outer_fd < 0 || client->user_driver || client->thread_armed == armed)
        return;
    struct epoll_event event = { .events = armed ? EPOLLIN | EPOLLONESHOT : 0 };
    epoll_ctl(client->outer_fd, EPOLL_CTL_MOD, client->loop.epoll_fd, &event);
    client->thread_armed = armed;
}

static void leave_to_background(hf_client *client)
{
    hf__loop_arm(&client->loop);
    set_thread_armed(client, true);
}

/* Another caller that waits drives from now on, or the background thread does. */
static void stop_driving(hf_client *client)
{
    client->driven = false;
    struct hf_list_node *next = hf__list_first(&client->sleepers);
    if (next)
        pthread_cond_signal(&HF_CONTAINER(next, struct sleeper, link)->cond);
    else
        leave_to_background(client);
}

static bool is_over(int64_t until)
{
    return until != HF_NEVER && hf__now() >= until;
}

static void drive(struct hf_op *op, int64_t until)
{
    hf_client *client = op->client;
    client->driven = true;

    set_thread_armed(client, false);
    op->driving = true;
    do {
        hf__loop_turn(&client->loop, &client->lock, until);
        if (op->woken)
            hf__acquire_advance(op);
        hf__run_ready(client);
    } while (!op->finished && !is_over(until));
    op->driving = false;
    stop_driving(client);
}

static void sleep_until(hf_client *client, pthread_cond_t *cond, int64_t until)
{
    int wait_ms = hf__poll_ms(until == HF_NEVER ? 0 : hf__now(), until);
    if (wait_ms < 0) {
        pthread_cond_wait(cond, &client->lock);
        return;
    }
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += wait_ms / 1000;
    at.tv_nsec += (long)(wait_ms % 1000) * HF_NS_PER_MS;
    if (at.tv_nsec >= HF_NS_PER_S) {
        at.tv_sec++;
        at.tv_nsec -= HF_NS_PER_S;
    }
    pthread_cond_clockwait(cond, &client->lock, CLOCK_MONOTONIC, &at);
}

static void wait_for_driver(struct hf_op *op, int64_t until)
{
    struct sleeper me = { .cond = PTHREAD_COND_INITIALIZER };
    hf_client *client = op->client;
    hf__list_push_back(&client->sleepers, &me.link);
    op->wake = &me.cond;
    while (!op->finished && !op->woken && client->driven && !is_over(until))
        sleep_until(client, &me.cond, until);
    op->wake = NULL;
    hf__list_remove(&me.link);
    pthread_cond_destroy(&me.cond);
}

int hf__op_await(struct hf_op *op, int64_t until)
{
    hf_client *client = op->client;
    if (op->finished)
        return 0;
    client->inside++;
    op->asleep = true;
    while (!op->finished && !is_over(until)) {
        if (op->woken)
            hf__acquire_advance(op);
        else if (client->driven)
            wait_for_driver(op, until);
        else
            drive(op, until);
    }
    op->asleep = false;
    if (!client->driven)
        stop_driving(client);
    if (--client->inside == 0 && client->closing)
        pthread_cond_broadcast(&client->emptied);
    return op->finished ? 0 : HF_ETIMEOUT;
}

/* ---- callbacks ------------------------------------------------------------------- */

static void call_op(hf_client *client, struct hf_op *op)
{
    hf_hold *hold = op->hold ? hf__hold_handle(op->hold) : NULL;
    struct inside here = { client, callback_frames };
    op->delivered = true;
    if (op->callback.done) {
        op->hold = NULL;
        op->calling = true;
        pthread_mutex_unlock(&client->lock);
        callback_frames = &here;
        if (op->kind == OP_ACQUIRE)
            op->callback.acquired(op->user, op->rc, hold, op->rc ? &op->why : NULL);
        else
            op->callback.done(op->user, op->rc, op->rc ? &op->why : NULL);
        callback_frames = here.outer;
        pthread_mutex_lock(&client->lock);
        op->calling = false;
    } else if (op->hold) {
        hf__hold_drop(op->hold); /* no caller can take it any more */
        op->hold = NULL;
        hf__run_ready(client);
    }
    if (op->abandoned)
        hf__op_free(op);
}

/* The next event of a watch, taken from it. The loss comes last. */
static enum hf_event next_event(struct hold_watch *watch)
{
    static const enum hf_event order[] = { HF_EVENT_DOUBTFUL, HF_EVENT_REVOKED,
                                           HF_EVENT_LOST };
    size_t i = 0;
    while (i + 1 < sizeof(order) / sizeof(order[0]) &&
           !(watch->pending & 1u << order[i]))
        i++;
    watch->pending &= ~(1u << order[i]);
    return order[i];
}

/* Runs one callback; it may end the watch, or set another one. */
static void call_watch(hf_client *client, struct hold_watch *watch)
{
    enum hf_event event = next_event(watch);
    struct hold_watch copy = *watch;
    struct inside here = { client, callback_frames };
    hf_hold *handle = hf__hold_handle(copy.hold);
    hf_error why;
    if (!watch->pending)
        hf__list_remove(&watch->link);
    if (event == HF_EVENT_LOST)
        hf__hold_fail_lost(copy.hold, &why);
    pthread_mutex_unlock(&client->lock);
    callback_frames = &here;
    if (hf__hold_peek(handle)) /* not released meanwhile */
        copy.callback(copy.user, handle, event, event == HF_EVENT_LOST ? &why : NULL);
    callback_frames = here.outer;
    pthread_mutex_lock(&client->lock);
}

void hf__run_calls(hf_client *client)
{
    for (;;) {
        struct hf_list_node *link = hf__list_first(&client->calls);
        if (link) {
            hf__list_remove(link);
            call_op(client, HF_CONTAINER(link, struct hf_op, link));
            continue;
        }
        link = hf__list_first(&client->alerts);
        if (!link)
            return;
        call_watch(client, HF_CONTAINER(link, struct hold_watch, link));
    }
}

void hf__signal_calls(hf_client *client)
{
    uint64_t one = 1;
    if (client->done_fd >= 0 && write(client->done_fd, &one, sizeof(one)) < 0)
        return; /* EAGAIN: it is readable already */
}

static void clear_done(hf_client *client)
{
    uint64_t count;
    if (read(client->done_fd, &count, sizeof(count)) < 0)
        return; /* EAGAIN: nothing was due */
}

/* ---- the background -------------------------------------------------------------- */

/* What is due now, without waiting; callbacks too. */
static void run_due(hf_client *client)
{
    clear_done(client);
    if (!client->driven) {
        client->driven = true;
        hf__loop_turn(&client->loop, &client->lock, 0);
        hf__run_ready(client);
        stop_driving(client);
    }
    hf__run_calls(client);
}

static void *background(void *arg)
{
    hf_client *client = arg;
    pthread_mutex_lock(&client->lock);
    while (client->thread_running) {
        struct epoll_event events[2];
        pthread_mutex_unlock(&client->lock);
        int ready = epoll_wait(client->outer_fd, events, 2, -1);
        pthread_mutex_lock(&client->lock);
        for (int i = 0; i < ready; i++)
            if (events[i].data.u64 == 0)
                client->thread_armed = false; /* one-shot: it has fired */
        if (client->thread_running && ready > 0)
            run_due(client);
    }
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

static int open_outer(hf_client *client, hf_error *why)
{
    int rc = hf__loop_ensure(&client->loop, why);
    if (rc != 0 || client->outer_fd >= 0)
        return rc;
    client->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->outer_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event inner = { .events = EPOLLIN };
    struct epoll_event done = { .events = EPOLLIN, .data.u64 = 1 };
    if (!client->user_driver)
        inner.events = 0;
    if (client->done_fd >= 0 && client->outer_fd >= 0 &&
        epoll_ctl(client->outer_fd, EPOLL_CTL_ADD, client->loop.epoll_fd, &inner) ==
            0 &&
        epoll_ctl(client->outer_fd, EPOLL_CTL_ADD, client->done_fd, &done) == 0)
        return 0;
    rc = hf__fail_sys(why, HF_ESYSTEM, errno, "cannot set up the event loop");
    if (client->done_fd >= 0)
        close(client->done_fd);
    if (client->outer_fd >= 0)
        close(client->outer_fd);
    client->done_fd = client->outer_fd = -1;
    return rc;
}

static int start_thread(hf_client *client, hf_error *why)
{
    sigset_t all, before;
    sigfillset(&all);
    client->thread_running = true;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int sys = pthread_create(&client->thread, NULL, background, client);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (sys == 0)
        return 0;
    client->thread_running = false;
    return hf__fail_sys(why, HF_ESYSTEM, sys, "cannot start the background thread");
}

/* While the client is being closed its thread ends, and no other one may begin. */
int hf__need_thread(hf_client *client, hf_error *why)
{
    if (client->closing || client->thread_running ||
        (client->user_driver && client->outer_fd >= 0))
        return 0;
    int rc = open_outer(client, why);
    if (rc == 0 && !client->user_driver)
        rc = start_thread(client, why);
    if (rc != 0)
        return rc;
    client->loop.use_timer_fd = true;
    if (!client->driven)
        leave_to_background(client);
    return 0;
}

void hf__stop_thread(hf_client *client)
{
    if (client->thread_running) {
        client->thread_running = false;
        hf__signal_calls(client);
        pthread_mutex_unlock(&client->lock);
        pthread_join(client->thread, NULL);
        pthread_mutex_lock(&client->lock);
    }
    client->loop.use_timer_fd = false;
}

/* hf_close() on another thread waits for it, as it does for the calls that wait. */
int hf__dispatch(hf_client *client)
{
    client->inside++;
    run_due(client);
    if (--client->inside == 0 && client->closing)
        pthread_cond_broadcast(&client->emptied);
    return 0;
}
