/* SPDX-License-Identifier: MIT */
/*
 * A thread that takes locks: one hold after the other until it is told to stop, every
 * step written to its history.
 *
 * A stamp stands before a call and another after it, so that the checker may take the
 * time between a returned acquire and the beginning of its release, and no other, for
 * surely held. What is promised ends sooner if the lease does: `until_ns`.
 *
 * Only who is alone inside changes the registers: mutex, fair, reentrant, write, and
 * permits if it has all of them.
 */
#include <stdio.h>
#include <time.h>

#include "control.h"
#include "worker.h"

#define NS_PER_US 1000
#define OPEN_PATIENCE_NS UINT64_C(60000000000)
#define PERMITS_LIMIT 4

uint64_t hand_next(struct hand *hand)
{
    hand->random ^= hand->random << 13;
    hand->random ^= hand->random >> 7;
    hand->random ^= hand->random << 17;
    return hand->random;
}

static uint32_t between(struct hand *hand, const uint32_t range[2])
{
    return range[0] + (uint32_t)(hand_next(hand) % (range[1] - range[0] + 1));
}

void spend(uint32_t us)
{
    struct timespec time = { us / 1000000, us % 1000000 * NS_PER_US };
    if (us)
        nanosleep(&time, NULL); /* pause: the work, or the time between two holds */
}

/* ---- One attempt, and what is written about it ----------------------------------- */

void note(struct hand *hand, const struct attempt *attempt, enum history_op op,
          enum history_phase phase, enum history_result result)
{
    struct history_event event = attempt->event;
    event.op = op;
    event.phase = phase;
    event.result = result;
    event.token = attempt->grant.token;
    if ((op == H_ACQUIRE || op == H_ADOPT) && phase == H_RETURN) {
        event.value = attempt->want.detached;
        event.until_ns = attempt->grant.until_ns;
        event.place = attempt->grant.place;
        event.code = attempt->grant.code;
    }
    history_add(hand->history, event);
}

static void note_value(struct hand *hand, const struct attempt *attempt,
                       enum history_op op, enum history_result result, uint64_t value)
{
    struct attempt with = *attempt;
    with.event.value = value;
    note(hand, &with, op, H_RETURN, result);
}

void sight(struct hand *hand, const struct attempt *attempt)
{
    const struct driver *driver = hand->orders->driver;
    struct history_event event = attempt->event;
    if (!driver->still_held || attempt->pretended)
        return;
    event.t_ns = history_now();
    event.phase = H_RETURN;
    event.result = H_OK;
    event.token = attempt->grant.token;
    bool held = driver->still_held(hand->lock, &event.until_ns);
    event.op = held ? H_SEEN : H_LOST;
    if (!held)
        event.t_ns = history_now();
    history_add(hand->history, event);
}

static enum history_result pretend(struct attempt *attempt)
{
    attempt->pretended = true;
    attempt->grant.token = 1;
    attempt->grant.until_ns = UINT64_MAX;
    return H_OK;
}

static enum history_result attempt_begin(struct hand *hand, struct attempt *attempt)
{
    const struct orders *orders = hand->orders;
    attempt->event.hold = ++hand->attempts;
    __atomic_store_n(hand->waiting, history_now(), __ATOMIC_RELAXED);
    note(hand, attempt, H_ACQUIRE, H_INVOKE, 0);
    enum history_result result =
        orders->sabotage && hand_next(hand) % 50 == 0
            ? pretend(attempt)
            : orders->driver->acquire(hand->lock, &attempt->want, &attempt->grant);
    note(hand, attempt, H_ACQUIRE, H_RETURN, result);
    __atomic_store_n(hand->waiting, 0, __ATOMIC_RELAXED);
    if (result == H_OK)
        __atomic_store_n(&attempt->resource->recent, attempt->grant.token,
                         __ATOMIC_RELAXED);
    return result;
}

void attempt_end(struct hand *hand, struct attempt *attempt)
{
    note(hand, attempt, H_RELEASE, H_INVOKE, 0);
    enum history_result result =
        attempt->pretended ? H_OK : hand->orders->driver->release(hand->lock);
    note(hand, attempt, H_RELEASE, H_RETURN, result);
}

/* ---- The work -------------------------------------------------------------------- */

bool is_alone(const struct attempt *attempt)
{
    const struct driver_want *want = &attempt->want;
    return want->kind != H_READ &&
           (want->kind != H_PERMITS || want->permits == want->limit);
}

static void registers_write(struct hand *hand, struct attempt *attempt, uint64_t value,
                            uint64_t plain)
{
    struct fenced *fenced = &attempt->resource->fenced;
    uint64_t token = attempt->grant.token;
    bool accepted = fenced_write(fenced, token, value);
    note_value(hand, attempt, H_REGISTER, accepted ? H_OK : H_REJECTED, value);
    plain_write(attempt->resource, plain);
    note_value(hand, attempt, H_PLAIN, H_OK, plain);
}

static uint32_t work_us(struct hand *hand)
{
    const struct orders *orders = hand->orders;
    if (orders->long_hold && hand_next(hand) % orders->long_hold == 0)
        return (uint32_t)(orders->settings.ttl_ms * 2000);
    return between(hand, orders->hold_us);
}

void attempt_work(struct hand *hand, struct attempt *attempt)
{
    uint64_t value;
    uint64_t token = attempt->grant.token;
    if (!is_alone(attempt)) {
        spend(work_us(hand));
        return;
    }
    bool fresh = fenced_read(&attempt->resource->fenced, token, &value);
    uint64_t plain = plain_read(attempt->resource);
    if (!fresh)
        note_value(hand, attempt, H_REGISTER, H_REJECTED, 0);
    spend(work_us(hand));
    if (fresh)
        registers_write(hand, attempt, value + 1, plain + 1);
}

/* ---- One hold -------------------------------------------------------------------- */

static void attempt_choose(struct hand *hand, struct attempt *attempt)
{
    const struct orders *orders = hand->orders;
    uint32_t lock = (uint32_t)(hand_next(hand) % orders->lock_count);
    struct driver_want *want = &attempt->want;
    *attempt = (struct attempt){ .resource = &hand->resources[lock] };
    *want = (struct driver_want){
        orders->locks[lock].name, orders->locks[lock].kind, 1, 1, 0, false
    };
    if (want->kind == H_READ && hand_next(hand) % 3 == 0)
        want->kind = H_WRITE;
    if (want->kind == H_PERMITS) {
        want->limit = PERMITS_LIMIT;
        want->permits = (uint16_t)(1 + hand_next(hand) % PERMITS_LIMIT);
    }
    uint64_t patience = hand_next(hand) % 10;
    if (patience >= 3) /* else: tries once */
        want->timeout_ms =
            patience < 6 ? (int64_t)(100 + hand_next(hand) % 200) : orders->timeout_ms;
    want->detached = moves_detach(hand, want);
    attempt->event.lock = lock;
    attempt->event.kind = want->kind;
    attempt->event.permits = want->permits;
    attempt->event.limit = want->limit;
}

/* Once more inside: another hold of the same lock with the same token. */
static void enter_again(struct hand *hand, const struct attempt *outer)
{
    struct attempt inner = *outer;
    inner.grant = (struct driver_grant){ .token = 0 };
    inner.want.detached = false;
    if (outer->pretended || attempt_begin(hand, &inner) != H_OK)
        return;
    sight(hand, &inner);
    attempt_end(hand, &inner);
}

static void hold_once(struct hand *hand)
{
    static const uint32_t breath_us[2] = { 500, 4000 };
    struct attempt attempt;
    attempt_choose(hand, &attempt);
    enum history_result result = attempt_begin(hand, &attempt);
    if (result != H_OK) {
        if (result != H_BUSY && result != H_TIMEOUT)
            spend(between(hand, breath_us));
        return;
    }
    sight(hand, &attempt);
    moves_extend(hand, &attempt);
    attempt_work(hand, &attempt);
    if (attempt.want.kind == H_REENTRANT && !attempt.want.detached &&
        hand_next(hand) % 2)
        enter_again(hand, &attempt);
    moves_downgrade(hand, &attempt);
    sight(hand, &attempt);
    if (!moves_offer(hand, &attempt))
        attempt_end(hand, &attempt);
}

/* ---- The thread ------------------------------------------------------------------ */

bool hand_history(struct hand *hand)
{
    const struct orders *orders = hand->orders;
    char path[512];
    snprintf(path, sizeof path, "%s/%04u-%02u.hist", orders->directory, orders->process,
             hand->number);
    hand->history = history_create(path, orders->process, hand->number, orders->events,
                                   orders->label);
    if (!hand->history)
        perror(path);
    return hand->history != NULL;
}

static bool hand_open(struct hand *hand)
{
    const struct orders *orders = hand->orders;
    struct driver_settings settings = orders->settings;
    uint64_t begun = history_now();
    settings.share = hand->number <= orders->sharing;
    while (!hand->lock && !atomic_load(&control.stop) &&
           history_now() - begun < OPEN_PATIENCE_NS) {
        hand->lock = orders->driver->open(&settings);
        if (!hand->lock)
            spend(20000);
    }
    return hand->lock != NULL;
}

void *hand_run(void *arg)
{
    struct hand *hand = arg;
    struct history_event end = { .op = H_END, .phase = H_RETURN, .result = H_OK };
    bool open = hand_open(hand);
    hand->failed = !open && !atomic_load(&control.stop);
    while (open && !atomic_load(&control.stop) && !history_full(hand->history)) {
        if (!moves_once(hand))
            hold_once(hand);
        spend(between(hand, hand->orders->think_us));
    }
    history_add(hand->history, end);
    return NULL;
}
