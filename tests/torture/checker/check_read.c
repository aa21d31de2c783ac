/* SPDX-License-Identifier: MIT */
/*
 * From events to holds.
 *
 * Events come thread by thread. What a thread has under way is in `open`; its record
 * among the holds of the lock is made when the acquire is invoked or returns, so that
 * each thread's records are in the order of time, and completed when the release is
 * over or the thread's history ends. How long the process lived is known only when all
 * has been read; check_run() puts that in.
 */
#include "book.h"

struct open_hold *open_find(struct check *check, uint32_t number)
{
    for (size_t i = check->open_count; i-- > 0;)
        if (check->open[i].number == number)
            return &check->open[i];
    return NULL;
}

uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint32_t thread_now(const struct check *check)
{
    return (uint32_t)check->thread_count - 1;
}

void malformed(struct check *check, const struct history_event *event, const char *what)
{
    if (check->note_count < CHECK_EXAMPLES)
        check->notes[check->note_count] =
            (struct note){ *event, thread_now(check), what };
    check->note_count++;
    check->note_by[group_of(event->kind)]++;
}

/* ---- Acquire --------------------------------------------------------------------- */

struct hold *hold_add(struct lock *lock, struct hold hold)
{
    lock->holds =
        more(lock->holds, lock->hold_count, &lock->hold_room, sizeof *lock->holds);
    lock->holds[lock->hold_count] = hold;
    return &lock->holds[lock->hold_count++];
}

/* An acquire, or an adoption; NULL if it makes no sense. */
struct hold *attempt_invoke(struct check *check, const struct history_event *event)
{
    struct lock *lock = lock_get(check, event->lock);
    if (check->open_count == OPEN_MAX || open_find(check, event->hold)) {
        malformed(check, event, "too many attempts at once, or a number twice");
        return NULL;
    }
    struct hold *hold = hold_add(lock, (struct hold){
                                           .inv = event->t_ns,
                                           .ret = NEVER,
                                           .belief = NEVER,
                                           .over = NEVER,
                                           .thread = thread_now(check),
                                           .number = event->hold,
                                           .kind = event->kind,
                                       });
    check->threads[thread_now(check)].worker = true;
    check->open[check->open_count++] = (struct open_hold){
        .number = event->hold,
        .lock = event->lock,
        .index = (size_t)(hold - lock->holds),
        .piece = SIZE_MAX,
        .lost = NEVER,
        .release = NEVER,
        .latest = event->t_ns,
        .other = NEVER,
        .left = NEVER,
    };
    return hold;
}

/* An attempt without effect leaves the holds again. It is the last one there, unless
 * the history makes no sense. */
struct hold hold_remove(struct check *check, const struct open_hold *open)
{
    struct lock *lock = &check->locks[open->lock];
    struct hold hold = lock->holds[open->index];
    size_t last = --lock->hold_count;

    lock->holds[open->index] = lock->holds[last];
    for (size_t i = 0; i < check->open_count; i++) {
        struct open_hold *moved = &check->open[i];
        if (moved != open && moved->lock == open->lock && moved->index == last)
            moved->index = open->index;
        if (moved != open && moved->lock == open->lock && moved->piece == last)
            moved->piece = open->index;
    }
    return hold;
}

static void acquire_failed(struct check *check, struct open_hold *open,
                           const struct history_event *event)
{
    struct lock *lock = &check->locks[open->lock];
    struct check_totals *totals = totals_of(check, event->kind);
    struct hold hold = hold_remove(check, open);

    lock->failures = more(lock->failures, lock->failure_count, &lock->failure_room,
                          sizeof *lock->failures);
    lock->failures[lock->failure_count++] = (struct failure){
        .inv = hold.inv,
        .ret = event->t_ns,
        .thread = hold.thread,
        .number = hold.number,
        .kind = event->kind,
        .result = event->result,
    };
    totals->busy += event->result == H_BUSY;
    totals->timeout += event->result == H_TIMEOUT;
    totals->failed += event->result == H_FAILED;
}

static void limit_check(struct check *check, struct lock *lock,
                        const struct history_event *event)
{
    if (!lock->limit)
        lock->limit = event->limit;
    if (event->permits == 0 || event->permits > event->limit)
        malformed(check, event, "granted more permits than there are, or none");
    else if (event->limit != lock->limit)
        malformed(check, event, "granted under another limit");
}

/* Holds of one thread that overlap: the inner ones keep the token. */
static void reentry_note(struct check *check, const struct open_hold *inner,
                         struct hold *hold)
{
    for (size_t i = 0; i < check->open_count; i++) {
        struct open_hold *outer = &check->open[i];
        if (outer == inner || outer->lock != inner->lock || !outer->granted)
            continue;
        if (check->locks[outer->lock].holds[outer->index].token == hold->token)
            hold->flags |= HOLD_REENTRY;
        else if (outer->release == NEVER)
            outer->other = earlier(outer->other, hold->ret);
    }
}

void attempt_granted(struct check *check, struct open_hold *open,
                     const struct history_event *event)
{
    struct lock *lock = &check->locks[open->lock];
    struct hold *hold = &lock->holds[open->index];

    hold->token = event->token;
    open->granted = true;
    open->detached = event->value != 0;
    open->until = event->until_ns;
    if (event->until_ns == NEVER)
        lock->endless = true;
    else if (event->until_ns > hold->inv && event->until_ns - hold->inv > lock->lease)
        lock->lease = event->until_ns - hold->inv;
    if (event->kind == H_PERMITS) {
        hold->permits = event->permits;
        hold->limit = event->limit;
        limit_check(check, lock, event);
    }
    if (event->kind == H_FAIR)
        hold->place = event->place;
    if (event->kind == H_REENTRANT && !(hold->flags & HOLD_ADOPTED))
        reentry_note(check, open, hold);
}

void open_drop(struct check *check, struct open_hold *open)
{
    *open = check->open[--check->open_count];
}

static void acquire_return(struct check *check, const struct history_event *event)
{
    struct open_hold *open = open_find(check, event->hold);
    struct hold *hold = open ? &check->locks[open->lock].holds[open->index] : NULL;
    if (!open || open->lock != event->lock || hold->ret != NEVER ||
        (hold->flags & HOLD_ADOPTED)) {
        malformed(check, event, "an acquire returns that was not invoked");
        return;
    }
    if (event->result != H_OK && event->result != H_UNKNOWN) {
        acquire_failed(check, open, event);
        open_drop(check, open);
        return;
    }
    hold->ret = event->t_ns;
    hold->kind = event->kind;
    hold->result = event->result;
    open->latest = event->t_ns;
    if (event->result == H_OK) {
        totals_of(check, event->kind)->acquisitions++;
        attempt_granted(check, open, event);
    } else {
        totals_of(check, event->kind)->unknown++;
        open_drop(check, open);
    }
}

/* ---- While held, and the end of it ----------------------------------------------- */

static void hold_seen(struct check *check, const struct history_event *event)
{
    struct open_hold *open = open_find(check, event->hold);
    if (!open || !open->granted)
        return;
    open->latest = event->t_ns;
    if (event->op == H_LOST) {
        uint8_t kind = check->locks[open->lock].holds[open->index].kind;
        totals_of(check, kind)->lost += open->lost == NEVER;
        open->lost = earlier(open->lost, event->t_ns);
    } else if (event->until_ns > open->until) {
        open->until = event->until_ns;
    }
}

/* What the thread believed, and for how long it was right to. What was left behind, or
 * was to outlive a process that ended, is the store's until the lease is over. */
static void hold_close(struct open_hold *open, struct hold *hold)
{
    hold->belief = earlier(earlier(open->release, open->left), open->lost);
    hold->end = earlier(hold->belief, open->until);
    if (open->release != NEVER || (open->left == NEVER && !open->detached))
        return;
    hold->flags |= HOLD_LEFT;
    hold->end = earlier(open->lost, open->until);
}

/* Whether it was still certain then is known when all has been read: it may have been
 * evicted. */
static void other_note(struct lock *lock, const struct hold *hold, uint64_t at)
{
    lock->others =
        more(lock->others, lock->other_count, &lock->other_room, sizeof *lock->others);
    lock->others[lock->other_count++] =
        (struct other){ .thread = hold->thread, .number = hold->number, .at = at };
}

/* All that the thread has to say about a hold has been said. */
void hold_finish(struct check *check, struct open_hold *open)
{
    struct lock *lock = &check->locks[open->lock];
    struct hold *hold = &lock->holds[open->index];

    hold_close(open, hold);
    if (open->granted)
        loss_note(check, open);
    if (open->other < hold->end)
        other_note(lock, hold, open->other);
    if (open->release != NEVER && !hold->release)
        hold->flags |= HOLD_LEAVING;
    if (open->piece != SIZE_MAX) {
        struct hold *piece = &lock->holds[open->piece];
        piece->belief = hold->belief;
        piece->end = hold->end;
        piece->over = hold->over;
        piece->release = hold->release;
        piece->flags |= hold->flags & HOLD_LEFT;
        hold->flags |= HOLD_HALF;
        hold->belief = earlier(hold->belief, open->wrote);
        hold->end = earlier(hold->end, open->wrote);
    }
    open_drop(check, open);
}

static void hold_release(struct check *check, const struct history_event *event)
{
    struct open_hold *open = open_find(check, event->hold);
    bool invoke = event->phase == H_INVOKE;

    if (!open || !open->granted || (open->release == NEVER) != invoke ||
        open->left != NEVER) {
        malformed(check, event, "a release of what was not granted, or twice");
        return;
    }
    struct hold *hold = &check->locks[open->lock].holds[open->index];
    if (invoke) {
        open->release = event->t_ns;
        return;
    }
    hold->release = event->result;
    if (event->result == H_OK || event->result == H_LATE)
        hold->over = event->t_ns;
    totals_of(check, hold->kind)->late += event->result == H_LATE;
    hold_finish(check, open);
}

/* ---- Threads --------------------------------------------------------------------- */

/* The history of a thread is over; what it left open stays so. */
void check_thread_end(struct check *check)
{
    while (check->open_count)
        hold_finish(check, &check->open[check->open_count - 1]);
    register_flush(check);
}

static void thread_turn(struct check *check, const struct history_header *header)
{
    if (check->thread_count && header->process == check->now.process &&
        header->thread == check->now.thread && header->pid == check->now.pid)
        return;
    check_thread_end(check);
    check->now = *header;
    check->report.histories++;
    thread_begin(check, header);
}

static void lock_final(struct check *check, const struct history_event *event)
{
    struct lock *lock = lock_get(check, event->lock);
    lock->ended = true;
    lock->final_token = event->token;
    lock->final_fenced = event->value;
    lock->final_plain = event->until_ns;
}

static void write_note(struct check *check, const struct history_event *event)
{
    struct lock *lock = lock_get(check, event->lock);
    struct open_hold *open = open_find(check, event->hold);
    uint8_t kind =
        open ? check->locks[open->lock].holds[open->index].kind : event->kind;

    if (open)
        open->latest = event->t_ns;
    register_write(check, lock, event, kind);
}

static void event_take(struct check *check, const struct history_event *event)
{
    bool invoke = event->phase == H_INVOKE;
    switch (event->op) {
    case H_ACQUIRE:
        invoke ? (void)attempt_invoke(check, event) : acquire_return(check, event);
        break;
    case H_RELEASE:
        hold_release(check, event);
        break;
    case H_SEEN:
    case H_LOST:
        hold_seen(check, event);
        break;
    case H_REGISTER:
    case H_PLAIN:
        write_note(check, event);
        break;
    case H_FAULT:
        (invoke ? window_open : window_close)(check, event);
        break;
    case H_HEAL:
        check->heals = more(check->heals, check->heal_count, &check->heal_room,
                            sizeof *check->heals);
        check->heals[check->heal_count++] = event->t_ns;
        break;
    case H_END:
        check->threads[thread_now(check)].ended = true;
        break;
    case H_FINAL:
        lock_final(check, event);
        break;
    case H_RESIDUE:
        check_residue(check, event);
        break;
    case H_DOWNGRADE:
        hold_downgrade(check, event);
        break;
    case H_STALL:
        stall_note(check, event);
        break;
    case H_EXTEND:
        hold_extend(check, event);
        break;
    case H_ADOPT:
        hold_adopt(check, event);
        break;
    case H_LEAVE:
        hold_leave(check, event);
        break;
    case H_EVICT:
        hold_evict(check, event);
        break;
    default:
        malformed(check, event, "an event that nobody knows");
    }
}

void check_add(void *arg, const struct history_header *header,
               const struct history_event *event)
{
    struct check *check = arg;

    thread_turn(check, header);
    check->report.events++;
    if (event->t_ns < check->start)
        check->start = event->t_ns;
    if (event->t_ns > check->end)
        check->end = event->t_ns;
    struct process *process = process_of(check, thread_now(check));
    if (event->t_ns > process->last)
        process->last = event->t_ns;
    event_take(check, event);
}
