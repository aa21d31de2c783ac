/* SPDX-License-Identifier: MIT */
/*
 * Tickets: attempt, withdraw, renew, interest. Core calls these functions.
 *
 * An attempt tries the fast path first (fastpath.h), and so does a withdrawal of a fast
 * hold. Everything else locks the guard: the first use of a name, all other kinds,
 * waiting, passing the lock to a waiter.
 */
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"
#include "fastpath.h"
#include "queue.h"

#define RENEW_BATCH 64

bool hf__file_fast_held(const struct file_queue *me, const struct hf_ticket *ticket)
{
    const struct region_block *record = block_at(me, ticket_block(ticket));
    return fast_is(me, record, word_load(&record->lock_word), ticket);
}

/* ---- Attempt, guard held --------------------------------------------------------- */

enum attempt_result {
    ATTEMPT_IN,
    ATTEMPT_QUEUED,
    ATTEMPT_BUSY,     /* the targets may be dead */
    ATTEMPT_MISMATCH, /* the same */
    ATTEMPT_PREPARE,  /* the ticket must wait, and the session is not ready for that */
    ATTEMPT_FAILED,
};

static bool record_fits(const struct block_record *r, uint64_t word,
                        const struct hf_ticket *ticket)
{
    if (word & WORD_HELD)
        return false;
    if (ticket->kind == HF_LATCH)
        return r->left == 0;
    if (r->waiting)
        return ticket_passes(ticket) && !r->granted && !r->strict &&
               !(word & WORD_IMPATIENT);
    return hf__admit(&r->tally, ticket->kind, ticket->permits, r->limit) == HF_IN;
}

static struct entry_init init_of(struct file_queue *me, const struct hf_ticket *ticket,
                                 enum entry_state state)
{
    bool leased = state == ENTRY_GRANTED && ticket->ttl_ns;

    return (struct entry_init){
        .ticket = ticket,
        .state = state,
        .kind = ticket->kind,
        .permits = ticket->permits,
        .span = ticket_span(ticket),
        .since = hf__now_coarse(),
        .expires = leased ? queue_now(me) + ticket->ttl_ns : HF_NEVER,
        .note = ticket->note,
    };
}

static enum attempt_result latch_open(struct file_queue *me, struct hf_ticket *ticket,
                                      struct hf_grant *ret_grant)
{
    *ret_grant = (struct hf_grant){ hf__file_region_draw(&me->region, 1), 1, 0, 0 };
    ticket_set(ticket, TICKET_OPEN, 0, 0, 0);
    return ATTEMPT_IN;
}

static enum attempt_result ticket_in(struct file_queue *me, struct hf_ticket *ticket,
                                     struct region_block *record, uint64_t word,
                                     struct hf_grant *ret_grant, hf_error *why)
{
    struct region_block *block;
    struct entry_init init;

    if (ticket->kind == HF_LATCH)
        return latch_open(me, ticket, ret_grant);
    if (ticket_plain(ticket)) {
        fast_grant(me, ticket, record, word);
        *ret_grant = (struct hf_grant){ ticket->store[2], ticket_span(ticket), 0, 0 };
        return ATTEMPT_IN;
    }
    block = hf__file_table_alloc(me, why);
    if (!block)
        return ATTEMPT_FAILED;
    init = init_of(me, ticket, ENTRY_GRANTED);
    hf__file_entry_put(me, block, record, &init);
    ticket_set(ticket, TICKET_ENTRY, block_index(me, block), 0, block->entry.seq);
    *ret_grant = hf__file_entry_grant(block);
    return ATTEMPT_IN;
}

static enum attempt_result ticket_wait(struct file_queue *me, struct hf_ticket *ticket,
                                       struct region_block *record, hf_error *why)
{
    struct queue_waiter *waiter = ticket_waiter(ticket);
    bool try = ticket->flags & HF_TICKET_TRY;
    struct region_block *block;
    struct entry_init init;

    if (!me->targets || (!try && !waiter))
        return ATTEMPT_PREPARE;
    if (try) {
        hf__file_peer_note(me, record, NULL);
        return ATTEMPT_BUSY;
    }
    block = hf__file_table_alloc(me, why);
    if (!block)
        return ATTEMPT_FAILED;
    init = init_of(me, ticket, ENTRY_WAITING);
    hf__file_entry_put(me, block, record, &init);
    block->entry.waiter = waiter->number;
    waiter->waiting = true;
    ticket_set(ticket, TICKET_ENTRY, block_index(me, block), 0, block->entry.seq);
    return ATTEMPT_QUEUED;
}

static enum attempt_result ticket_mismatch(struct file_queue *me,
                                           const struct hf_ticket *ticket)
{
    struct region_block *record =
        hf__file_table_find(me, ticket->name, ticket->name_len, ticket->name_hash);

    if (!me->targets)
        return ATTEMPT_PREPARE;
    hf__file_peer_note(me, record, NULL);
    return ATTEMPT_MISMATCH;
}

static enum attempt_result ticket_enter(struct file_queue *me, struct hf_ticket *ticket,
                                        struct hf_grant *ret_grant, hf_error *why)
{
    struct region_block *record;
    enum attempt_result result;
    uint64_t word;
    int rc;

    if (ticket->kind == HF_LATCH &&
        !hf__file_table_find(me, ticket->name, ticket->name_len, ticket->name_hash))
        return latch_open(me, ticket, ret_grant);
    rc = hf__file_table_get(me, ticket->name, ticket->name_len, ticket->name_hash,
                            ticket->kind, ticket->limit, &record, why);
    if (rc != 0)
        return rc == HF_EMISMATCH ? ticket_mismatch(me, ticket) : ATTEMPT_FAILED;
    word = hf__file_record_seize(record);
    if (record_fits(&record->record, word, ticket))
        result = ticket_in(me, ticket, record, word, ret_grant, why);
    else
        result = ticket_wait(me, ticket, record, why);
    me->current = result == ATTEMPT_QUEUED ? ticket_block(ticket) : 0;
    hf__file_record_update(me, record);
    me->current = 0;
    return result;
}

/* ---- Attempt --------------------------------------------------------------------- */

static void answer_failed(struct file_queue *me, struct hf_ticket *ticket,
                          const hf_error *why)
{
    hf__file_waiter_free(ticket_waiter(ticket));
    me->host->ops->failed(me->host, ticket, why);
}

/* The guard was busy: nothing has happened, ask again soon. A try has one request
 * timeout in all, and core's back-off would spend most of it asleep. */
static void answer_later(struct file_queue *me, struct hf_ticket *ticket,
                         const hf_error *why)
{
    bool try = ticket->flags & HF_TICKET_TRY;

    if (why->code != HF_EUNREACHABLE || try)
        answer_failed(me, ticket, why);
    else
        me->host->ops->queued(me->host, ticket, GUARD_RETRY_NS);
    if (why->code == HF_EUNREACHABLE && try && !me->guard_stopped)
        me->host->ops->notice(me->host, ticket);
}

static int ticket_prepare(struct file_queue *me, struct hf_ticket *ticket,
                          hf_error *why)
{
    if (!me->targets)
        me->targets = hf__alloc(SESSION_COUNT * sizeof(*me->targets));
    if (!me->targets)
        return hf__fail_code(why, HF_ENOMEM);
    if (ticket->flags & HF_TICKET_TRY)
        return 0;
    if (hf__file_listen(me, why) != 0)
        return why->code;
    if (!ticket_waiter(ticket) && !hf__file_waiter_new(me, ticket))
        return hf__fail_code(why, HF_ENOMEM);
    return 0;
}

static void answer_queued(struct file_queue *me, struct hf_ticket *ticket, bool over)
{
    if (!over)
        me->host->ops->queued(me->host, ticket, QUEUED_RETRY_NS);
}

static void attempt_slow(struct file_queue *me, struct hf_ticket *ticket)
{
    struct waiter_news news = { ENTRY_WAITING, { 0, 0, 0, 0 }, HF_NEVER };
    struct hf_grant grant;
    enum attempt_result result;
    hf_error why;
    bool again;

    do {
        if (hf__file_guard_lock(me, &why) != 0) {
            answer_later(me, ticket, &why);
            return;
        }
        result = ticket_enter(me, ticket, &grant, &why);
        if (result == ATTEMPT_QUEUED) /* the holder may have released it meanwhile */
            news = hf__file_waiter_advance(ticket_waiter(ticket), false);
        hf__file_guard_unlock(me);
        again = result == ATTEMPT_BUSY || result == ATTEMPT_MISMATCH
                    ? hf__file_peer_check(me, false)
                    : result == ATTEMPT_PREPARE;
        if (result == ATTEMPT_PREPARE && ticket_prepare(me, ticket, &why) != 0) {
            answer_failed(me, ticket, &why);
            return;
        }
    } while (again);
    if (result == ATTEMPT_QUEUED) {
        answer_queued(me, ticket, hf__file_waiter_answer(ticket_waiter(ticket), news));
        return;
    }
    if (result == ATTEMPT_FAILED || result == ATTEMPT_MISMATCH) {
        answer_failed(me, ticket, &why);
        return;
    }
    hf__file_waiter_free(ticket_waiter(ticket));
    if (result == ATTEMPT_BUSY)
        me->host->ops->busy(me->host, ticket);
    else
        me->host->ops->granted(me->host, ticket, &grant);
}

enum known { KNOWN_NOT, KNOWN_HELD, KNOWN_ANSWERED };

static enum known entry_known(struct file_queue *me, struct hf_ticket *ticket,
                              struct hf_grant *ret_grant)
{
    struct queue_waiter *waiter = ticket_waiter(ticket);
    struct region_block *entry;
    hf_error why;

    if (waiter && waiter->waiting) {
        me->thorough = true;
        answer_queued(me, ticket, hf__file_waiter_check(waiter, false));
        me->thorough = false;
        return KNOWN_ANSWERED;
    }
    if (hf__file_guard_lock(me, &why) != 0) {
        answer_later(me, ticket, &why);
        return KNOWN_ANSWERED;
    }
    entry = hf__file_entry_find(me, ticket_block(ticket), ticket->store[2]);
    if (entry)
        *ret_grant = hf__file_entry_grant(entry);
    hf__file_guard_unlock(me);
    return entry ? KNOWN_HELD : KNOWN_NOT;
}

static enum known fast_known(struct file_queue *me, struct hf_ticket *ticket,
                             struct hf_grant *ret_grant)
{
    struct region_block *record = block_at(me, ticket_block(ticket));

    if (!hf__file_fast_held(me, ticket))
        return KNOWN_NOT;
    ret_grant->token = ticket->store[2];
    ret_grant->span = __atomic_load_n(&record->record.span, __ATOMIC_RELAXED);
    return KNOWN_HELD;
}

/* Answers for a ticket that was attempted before. False: the store has nothing of
 * it. */
static bool attempt_known(struct file_queue *me, struct hf_ticket *ticket)
{
    struct hf_grant grant = { .span = 1 };
    enum known known = KNOWN_NOT;

    switch (ticket_mode(ticket)) {
    case TICKET_NONE:
        return false;
    case TICKET_OPEN:
        grant.token = hf__file_region_draw(&me->region, 1);
        known = KNOWN_HELD;
        break;
    case TICKET_FAST:
        known = fast_known(me, ticket, &grant);
        break;
    case TICKET_ENTRY:
        known = entry_known(me, ticket, &grant);
        break;
    }
    if (known == KNOWN_HELD)
        me->host->ops->granted(me->host, ticket, &grant);
    else if (known == KNOWN_NOT)
        ticket_set(ticket, TICKET_NONE, 0, 0, 0);
    return known != KNOWN_NOT;
}

void hf__file_queue_attempt(void *session, struct hf_ticket *ticket)
{
    struct file_queue *me = session;

    if (fast_take(me, ticket)) {
        struct hf_grant grant = { ticket->store[2], ticket_span(ticket), 0, 0 };
        me->host->ops->granted(me->host, ticket, &grant);
    } else if (!attempt_known(me, ticket)) {
        attempt_slow(me, ticket);
    }
}

/* ---- Withdraw -------------------------------------------------------------------- */

static bool fast_end(struct file_queue *me, const struct hf_ticket *ticket)
{
    struct region_block *record = block_at(me, ticket_block(ticket));

    if (!hf__file_fast_held(me, ticket))
        return false;
    hf__file_record_drop(record);
    hf__file_record_update(me, record);
    return true;
}

static bool entry_end(struct file_queue *me, const struct hf_ticket *ticket)
{
    uint32_t index = ticket_block(ticket);
    struct region_block *entry = hf__file_entry_find(me, index, ticket->store[2]);

    if (entry)
        hf__file_record_expire(me, block_at(me, entry->entry.record));
    entry = hf__file_entry_find(me, index, ticket->store[2]);
    if (!entry)
        return false;
    hf__file_entry_end(me, entry);
    return true;
}

static enum hf_withdrawal withdraw_slow(struct file_queue *me, struct hf_ticket *ticket)
{
    enum ticket_mode mode = ticket_mode(ticket);
    bool was_there;
    hf_error why;

    if (mode == TICKET_NONE || mode == TICKET_OPEN)
        return mode == TICKET_OPEN ? HF_WITHDRAWN : HF_GONE;
    if (hf__file_guard_lock(me, &why) != 0)
        return HF_WITHDRAWAL_UNSENT;
    was_there = mode == TICKET_FAST ? fast_end(me, ticket) : entry_end(me, ticket);
    hf__file_guard_unlock(me);
    return was_there ? HF_WITHDRAWN : HF_GONE;
}

void hf__file_queue_withdraw(void *session, struct hf_ticket *ticket)
{
    struct file_queue *me = session;
    enum hf_withdrawal answer = HF_WITHDRAWN;

    if (ticket_mode(ticket) != TICKET_FAST || !fast_drop(me, ticket))
        answer = withdraw_slow(me, ticket);
    if (answer != HF_WITHDRAWAL_UNSENT) {
        me->held -= ticket_mode(ticket) == TICKET_FAST;
        hf__file_waiter_free(ticket_waiter(ticket));
        ticket_set(ticket, TICKET_NONE, 0, 0, 0);
    }
    me->host->ops->withdrawn(me->host, ticket, answer);
}

/* ---- Renew and interest ---------------------------------------------------------- */

static enum hf_renewal ticket_renew(struct file_queue *me,
                                    const struct hf_ticket *ticket,
                                    enum hf_renew_mode mode, int64_t now)
{
    struct region_block *entry;

    if (ticket_mode(ticket) == TICKET_FAST)
        return hf__file_fast_held(me, ticket) ? HF_STILL_HELD : HF_RENEWAL_LOST;
    if (ticket_mode(ticket) == TICKET_OPEN)
        return HF_STILL_HELD;
    entry = hf__file_entry_find(me, ticket_block(ticket), ticket->store[2]);
    if (!entry || entry->entry.state != ENTRY_GRANTED || entry->entry.expires <= now)
        return HF_RENEWAL_LOST;
    if (mode == HF_CHECK || !entry->entry.ttl)
        return HF_STILL_HELD;
    entry->entry.ttl = ticket->ttl_ns;
    entry->entry.expires = ticket->ttl_ns ? now + ticket->ttl_ns : HF_NEVER;
    return HF_RENEWED;
}

/* `soonest` of the record may be too early after this, which costs one check only; a
 * lease that became shorter is the one case that needs care. */
static void lease_note(struct file_queue *me, const struct hf_ticket *ticket)
{
    struct block_entry *e = &block_at(me, ticket_block(ticket))->entry;
    struct block_record *r = &block_at(me, e->record)->record;

    if (e->expires < r->soonest)
        r->soonest = e->expires;
}

static void batch_renew(struct file_queue *me, struct hf_ticket *const *tickets,
                        size_t count, enum hf_renew_mode mode)
{
    enum hf_renewal answers[RENEW_BATCH];
    int64_t now = queue_now(me);
    hf_error why;
    bool locked = hf__file_guard_lock(me, &why) == 0;

    for (size_t i = 0; i < count; i++) {
        answers[i] =
            locked ? ticket_renew(me, tickets[i], mode, now) : HF_RENEWAL_UNKNOWN;
        if (answers[i] == HF_RENEWED)
            lease_note(me, tickets[i]);
        if (answers[i] == HF_RENEWAL_LOST)
            hf__file_eviction_tell(me, tickets[i]);
    }
    if (locked)
        hf__file_guard_unlock(me);
    for (size_t i = 0; i < count; i++)
        me->host->ops->renewed(me->host, tickets[i], answers[i], NULL);
}

void hf__file_queue_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                          enum hf_renew_mode mode)
{
    struct file_queue *me = session;

    while (count > 0) {
        size_t part = count < RENEW_BATCH ? count : RENEW_BATCH;
        batch_renew(me, tickets, part, mode);
        tickets += part;
        count -= part;
    }
}

void hf__file_queue_interest(void *session, struct hf_ticket *ticket)
{
    struct file_queue *me = session;
    struct queue_waiter *waiter = ticket_waiter(ticket);
    hf_error why;

    if (ticket_mode(ticket) == TICKET_OPEN || hf__file_listen(me, &why) != 0)
        return;
    if (!waiter)
        waiter = hf__file_waiter_new(me, ticket);
    if (waiter)
        hf__file_waiter_check_hold(waiter);
}
