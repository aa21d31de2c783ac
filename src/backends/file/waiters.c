/* SPDX-License-Identifier: MIT */
/*
 * Waiters: the tickets of this session that wait, or are watched, and how it hears of
 * them.
 *
 * A ticket has a waiter while it waits, and while core is interested in a hold. When a
 * session grants or ends an entry, it writes to the FIFO of the entry's session; then
 * that session's loop calls this file, and the waiter is checked with the guard held.
 * If a check finds that the first waiter came and the lock is taken, the next release
 * is strict. Each waiting ticket has a timer, for the end of a lease before it and for
 * sessions that must be polled. If the guard is busy, everything is checked again a
 * little later.
 *
 * Runs under the client's lock, like all of a session. The host is called without the
 * guard, and after the waiter was freed if the answer ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"
#include "home.h"
#include "queue.h"

#define NEWS_COUNT 256
#define PEER_POLL_NS (100 * HF_NS_PER_MS)

/* ---- Numbers --------------------------------------------------------------------- */

static bool numbers_grow(struct file_queue *me)
{
    uint32_t room = me->number_room ? me->number_room * 2 : 16;
    struct queue_number *numbers = hf__realloc(
        me->numbers, me->number_room * sizeof(*numbers), room * sizeof(*numbers));

    if (!numbers)
        return false;
    for (uint32_t i = room - 1; i >= me->number_room && i > 0; i--) {
        numbers[i].next_free = me->number_free;
        me->number_free = i;
    }
    me->numbers = numbers;
    me->number_room = room;
    return true;
}

/* A timer that is set can always be moved, so it is always set. */
static void waiter_due(void *arg)
{
    struct queue_waiter *waiter = arg;
    struct hf_host *host = waiter->queue->host;

    host->ops->set_timer(host, &waiter->timer, HF_NEVER);
    hf__file_waiter_check(waiter, false);
}

struct queue_waiter *hf__file_waiter_new(struct file_queue *me,
                                         struct hf_ticket *ticket)
{
    struct queue_waiter *waiter = hf__alloc(sizeof(*waiter));

    if (!waiter || (!me->number_free && !numbers_grow(me)))
        goto fail;
    waiter->queue = me;
    waiter->ticket = ticket;
    waiter->timer.callback = waiter_due;
    waiter->timer.arg = waiter;
    if (me->host->ops->set_timer(me->host, &waiter->timer, HF_NEVER) != 0)
        goto fail;
    waiter->number = me->number_free;
    me->number_free = me->numbers[waiter->number].next_free;
    me->numbers[waiter->number].waiter = waiter;
    hf__list_push_back(&me->waiters, &waiter->link);
    ticket->store[3] = (uint64_t)(uintptr_t)waiter;
    return waiter;
fail:
    hf__free(waiter);
    return NULL;
}

void hf__file_waiter_free(struct queue_waiter *waiter)
{
    struct file_queue *me;

    if (!waiter)
        return;
    me = waiter->queue;
    me->host->ops->stop_timer(me->host, &waiter->timer);
    me->numbers[waiter->number] = (struct queue_number){ .next_free = me->number_free };
    me->number_free = waiter->number;
    hf__list_remove(&waiter->link);
    waiter->ticket->store[3] = 0;
    hf__free(waiter);
}

/* ---- Waiting --------------------------------------------------------------------- */

/* The first waiter takes a free lock, or (`woken`) makes the next release strict. */
static void first_advance(struct file_queue *me, struct region_block *record,
                          struct region_block *entry, bool woken)
{
    for (;;) {
        uint64_t word = hf__file_record_seize(record);
        uint64_t next = (word & ~WORD_INVITED) | WORD_WAIT | WORD_IMPATIENT;

        if (!(word & WORD_HELD))
            hf__file_record_admit(me, record);
        if (entry->entry.state != ENTRY_WAITING || !woken)
            break;
        if (word_swap(&record->lock_word, &word, next)) {
            record->record.invited = block_index(me, entry);
            break;
        }
    }
    guard_step();
    hf__file_record_update(me, record);
}

static void entry_told(struct file_queue *me, struct hf_ticket *ticket,
                       struct region_block *entry)
{
    entry->entry.flags |= ENTRY_TOLD;
    if (entry->entry.kind == HF_LATCH) {
        hf__file_entry_end(me, entry);
        ticket_set(ticket, TICKET_OPEN, 0, 0, 0);
    }
}

struct waiter_news hf__file_waiter_advance(struct queue_waiter *waiter, bool woken)
{
    struct file_queue *me = waiter->queue;
    uint32_t index = ticket_block(waiter->ticket);
    struct region_block *entry =
        hf__file_entry_find(me, index, waiter->ticket->store[2]);
    struct waiter_news news = { .state = ENTRY_NONE, .again = HF_NEVER };
    struct region_block *record;

    if (!entry)
        return news;
    record = block_at(me, entry->entry.record);
    me->current = index;
    hf__file_record_expire(me, record);
    if (entry->entry.state == ENTRY_WAITING && record->record.first_waiting == index)
        first_advance(me, record, entry, woken);
    me->current = 0;
    news.state = (enum entry_state)entry->entry.state;
    if (news.state == ENTRY_GRANTED) {
        news.grant = hf__file_entry_grant(entry);
        entry_told(me, waiter->ticket, entry);
    } else if (news.state == ENTRY_WAITING) {
        if (record->record.first_waiting == index)
            news.again = record->record.soonest;
        hf__file_peer_note(me, record, entry);
    }
    return news;
}

static void waiter_granted(struct queue_waiter *waiter, const struct hf_grant *grant)
{
    struct hf_host *host = waiter->queue->host;
    struct hf_ticket *ticket = waiter->ticket;

    hf__file_waiter_free(waiter);
    host->ops->granted(host, ticket, grant);
}

static void waiter_lost(struct queue_waiter *waiter)
{
    struct hf_host *host = waiter->queue->host;
    struct hf_ticket *ticket = waiter->ticket;
    hf_error why;

    hf__fail(&why, HF_ELOST, "the ticket is no longer in the queue");
    hf__file_waiter_free(waiter);
    ticket_set(ticket, TICKET_NONE, 0, 0, 0);
    host->ops->failed(host, ticket, &why);
}

static void waiter_sleep(struct queue_waiter *waiter, int64_t again)
{
    struct file_queue *me = waiter->queue;

    if (me->target_poll) {
        int64_t poll_at = queue_now(me) + PEER_POLL_NS;
        again = poll_at < again ? poll_at : again;
    }
    if (waiter->timer.at_ns != again)
        me->host->ops->set_timer(me->host, &waiter->timer, again);
}

bool hf__file_waiter_answer(struct queue_waiter *waiter, struct waiter_news news)
{
    struct file_queue *me = waiter->queue;
    hf_error why;

    while (news.state == ENTRY_WAITING && hf__file_peer_check(me, true)) {
        if (hf__file_guard_lock(me, &why) != 0) {
            hf__file_retry_soon(me);
            return false;
        }
        news = hf__file_waiter_advance(waiter, false);
        hf__file_guard_unlock(me);
    }
    if (news.state == ENTRY_WAITING)
        waiter_sleep(waiter, news.again);
    else if (news.state == ENTRY_GRANTED)
        waiter_granted(waiter, &news.grant);
    else
        waiter_lost(waiter);
    return news.state != ENTRY_WAITING;
}

bool hf__file_waiter_check(struct queue_waiter *waiter, bool woken)
{
    struct file_queue *me = waiter->queue;
    struct waiter_news news;
    hf_error why;

    if (hf__file_guard_lock(me, &why) != 0) {
        hf__file_retry_soon(me);
        return false;
    }
    news = hf__file_waiter_advance(waiter, woken);
    hf__file_guard_unlock(me);
    return hf__file_waiter_answer(waiter, news);
}

/* ---- Holds that core is interested in -------------------------------------------- */

enum hold_news { HOLD_SAME, HOLD_REVOKED, HOLD_LOST };

static enum hold_news fast_news(struct file_queue *me, const struct hf_ticket *ticket)
{
    struct block_record *r = &block_at(me, ticket_block(ticket))->record;

    if (!hf__file_fast_held(me, ticket))
        return HOLD_LOST;
    if (r->revoked != ticket->store[2])
        return HOLD_SAME;
    r->revoked = 0;
    return HOLD_REVOKED;
}

static enum hold_news hold_news(struct file_queue *me, const struct hf_ticket *ticket)
{
    struct region_block *entry;

    if (ticket_mode(ticket) == TICKET_FAST)
        return fast_news(me, ticket);
    entry = hf__file_entry_find(me, ticket_block(ticket), ticket->store[2]);
    if (!entry || entry->entry.state != ENTRY_GRANTED)
        return HOLD_LOST;
    if (!(entry->entry.flags & ENTRY_REVOKED))
        return HOLD_SAME;
    entry->entry.flags &= ~(uint32_t)ENTRY_REVOKED;
    return HOLD_REVOKED;
}

void hf__file_waiter_check_hold(struct queue_waiter *waiter)
{
    struct file_queue *me = waiter->queue;
    struct hf_ticket *ticket = waiter->ticket;
    enum hold_news news;
    hf_error why;

    if (hf__file_guard_lock(me, &why) != 0) {
        hf__file_retry_soon(me);
        return;
    }
    news = hold_news(me, ticket);
    if (news == HOLD_LOST)
        hf__file_eviction_tell(me, ticket);
    hf__file_guard_unlock(me);
    if (news == HOLD_LOST) {
        hf__file_waiter_free(waiter);
        me->host->ops->event(me->host, ticket, HF_EVENT_LOST);
    } else if (news == HOLD_REVOKED) {
        me->host->ops->event(me->host, ticket, HF_EVENT_REVOKED);
    }
}

/* ---- News ------------------------------------------------------------------------ */

void hf__file_waiters_check(struct file_queue *me)
{
    for (HF_EACH_SAFE(link, &me->waiters)) {
        struct queue_waiter *waiter = HF_CONTAINER(link, struct queue_waiter, link);
        if (waiter->waiting)
            hf__file_waiter_check(waiter, true);
        else
            hf__file_waiter_check_hold(waiter);
    }
}

static void retry_due(void *arg)
{
    struct file_queue *me = arg;

    me->host->ops->set_timer(me->host, &me->retry, HF_NEVER);
    hf__file_waiters_check(me);
    hf__file_queue_resume(me);
}

bool hf__file_retry_soon(struct file_queue *me)
{
    me->retry.callback = retry_due;
    me->retry.arg = me;
    return me->host->ops->set_timer(me->host, &me->retry,
                                    queue_now(me) + GUARD_RETRY_NS) == 0;
}

static struct queue_waiter *waiter_of(const struct file_queue *me, uint32_t block)
{
    struct queue_waiter *waiter;
    uint32_t number;

    if (block >= BLOCKS_MAX)
        return NULL;
    number = __atomic_load_n(&block_at(me, block)->entry.waiter, __ATOMIC_RELAXED);
    waiter = number < me->number_room ? me->numbers[number].waiter : NULL;
    return waiter && ticket_block(waiter->ticket) == block ? waiter : NULL;
}

static void fifo_ready(void *arg, uint32_t events)
{
    struct file_queue *me = arg;
    uint32_t *fifo_full = &me->region.sessions[me->session].fifo_full;
    uint32_t news[NEWS_COUNT];
    ssize_t got = read(me->fifo_fd, news, sizeof(news));
    bool all = __atomic_exchange_n(fifo_full, 0, __ATOMIC_ACQ_REL);

    (void)events;
    for (ssize_t i = 0; i < got / (ssize_t)sizeof(news[0]); i++) {
        struct queue_waiter *waiter = waiter_of(me, news[i]);
        if (waiter && waiter->waiting)
            hf__file_waiter_check(waiter, true);
        all = all || news[i] == 0;
    }
    if (all)
        hf__file_waiters_check(me);
}

/* An existing FIFO of that name is a leftover: generations do not come back. */
static int fifo_make(struct file_queue *me, int *ret_fd, hf_error *why)
{
    char file[32];
    int fd;

    hf__file_home_fifo(file, me->session, me->session_gen);
    hf__file_home_drop_fifo(me->dir_fd, file);
    if (mkfifoat(me->dir_fd, file, me->mode) != 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "no FIFO to wait with");
    fd = openat(me->dir_fd, file, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "no FIFO to wait with");
    fchmod(fd, me->mode); /* past the umask */
    *ret_fd = fd;
    return 0;
}

int hf__file_listen(struct file_queue *me, hf_error *why)
{
    struct hf_host *host = me->host;
    int fd = -1, rc;

    if (me->fifo_fd >= 0)
        return 0;
    me->retry.callback = retry_due;
    me->retry.arg = me;
    if (!me->retry.slot) { /* else a postponed request has set it */
        rc = host->ops->set_timer(host, &me->retry, HF_NEVER);
        if (rc != 0)
            return hf__fail_code(why, rc);
    }
    rc = fifo_make(me, &fd, why);
    if (rc != 0)
        return rc;
    rc = host->ops->add_fd(host, fd, EPOLLIN, fifo_ready, me);
    if (rc != 0) {
        close(fd);
        return hf__fail_code(why, rc);
    }
    me->fifo_fd = fd;
    __atomic_store_n(&me->region.sessions[me->session].fifo, 1, __ATOMIC_RELEASE);
    return 0;
}
