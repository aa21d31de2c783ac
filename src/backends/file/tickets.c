/* SPDX-License-Identifier: MIT */
/*
 * Tickets: attempt, withdraw, renew, interest. The seam calls in here.
 *
 * The quick way first: an exclusive ticket without lease and note takes the word of its
 * record with one compare-exchange, draws a token, writes down who it is, and is in; it
 * gives the lock up with another. No system call, no guard. It needs to know where the
 * record is, so each session remembers some names; a stale memory finds another
 * generation in the word and fails. What the record says of a quick hold is written
 * after the word was taken, `turn` last (see hf__quick_read).
 *
 * Everything else enters the guard: the first look at a name, all other kinds, waiting,
 * passing the lock to somebody who waits.
 */
#include <string.h>

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"
#include "queue.h"

#define SPAN_MAX 65536
#define STOCK_MAX 64 /* grants */
#define RENEW_BATCH 64

/* ---- The quick way --------------------------------------------------------------- */

static bool ticket_plain(const struct hf_ticket *ticket)
{
    const uint32_t quick =
        1u << HF_MUTEX | 1u << HF_REENTRANT | 1u << HF_FAIR | 1u << HF_WRITE;

    return (quick >> ticket->kind & 1) && ticket->ttl_ns == 0 &&
           !(ticket->flags & HF_TICKET_DETACHED) && ticket->note[0] == '\0';
}

static uint32_t ticket_span(const struct hf_ticket *ticket)
{
    return ticket->reserve < SPAN_MAX ? ticket->reserve : SPAN_MAX;
}

/*
 * Token numbers come from a stock of this session, so that a lock nobody else wants
 * costs no traffic on the counter that all share: as good as fresh ones as long as they
 * are larger than the newest number of the record. The longer nobody has come between,
 * the larger the stock.
 */
static uint64_t quick_token(struct file_queue *me, struct block_record *r,
                            uint32_t span)
{
    uint64_t newest = __atomic_load_n(&r->newest, __ATOMIC_RELAXED);
    uint64_t token = me->stock;

    if (token <= newest || token + span > me->stock_end) {
        if (token <= newest)
            me->streak = 0;
        uint32_t ahead = me->streak < STOCK_MAX ? me->streak + 1 : STOCK_MAX;
        token = hf__region_draw(&me->region, span * ahead);
        me->stock_end = token + (uint64_t)span * ahead;
    }
    me->streak++;
    me->stock = token + span;
    __atomic_store_n(&r->newest, token + span - 1, __ATOMIC_RELAXED);
    return token;
}

/* The word is ours as `word`; says so to everybody, and remembers it. */
static uint64_t quick_publish(struct file_queue *me, struct region_block *record,
                              uint64_t word, struct hf_ticket *ticket)
{
    struct block_record *r = &record->record;
    uint32_t span = ticket_span(ticket);
    uint64_t token = quick_token(me, r, span);

    __atomic_store_n(&r->token, token, __ATOMIC_RELEASE);
    __atomic_store_n(&r->id.word[0], ticket->id.word[0], __ATOMIC_RELEASE);
    __atomic_store_n(&r->id.word[1], ticket->id.word[1], __ATOMIC_RELEASE);
    __atomic_store_n(&r->since, hf__now_coarse(), __ATOMIC_RELEASE);
    __atomic_store_n(&r->span, span, __ATOMIC_RELEASE);
    __atomic_store_n(&r->kind, ticket->kind, __ATOMIC_RELEASE);
    __atomic_store_n(&r->turn, word_turn(word), __ATOMIC_RELEASE);
    ticket_set(ticket, TICKET_QUICK, block_index(me, record), word, token);
    me->held++;
    return token;
}

/*
 * Where the record is and how we left its word, in a number: generation 63..32, block
 * 31..12, turn 11..0. Never 0.
 */
static inline uint64_t hint_of(uint32_t block, uint64_t word)
{
    return (word & ~(uint64_t)UINT32_MAX) | (uint64_t)block << 12 |
           word_turn(word) >> 8;
}

static inline uint32_t hint_block(uint64_t hint)
{
    return (uint32_t)hint >> 12;
}

static inline uint64_t hint_word(uint64_t hint)
{
    return (hint & ~(uint64_t)UINT32_MAX) | (hint & 0xfff) << 8;
}

static inline struct queue_cached *cache_at(struct file_queue *me, uint32_t hash)
{
    return &me->cache[hash % CACHE_COUNT];
}

static inline bool cache_is(const struct queue_cached *cached,
                            const struct hf_ticket *ticket)
{
    return cached->hash == ticket->name_hash && cached->len == ticket->name_len &&
           cached->writes == (ticket->kind == HF_WRITE) &&
           memcmp(cached->name, ticket->name, ticket->name_len) == 0;
}

static void cache_put(struct file_queue *me, struct hf_ticket *ticket,
                      struct region_block *record)
{
    struct queue_cached *cached = cache_at(me, ticket->name_hash);

    ticket->hint = hint_of(block_index(me, record), word_load(&record->word));
    if (ticket->name_len > CACHE_NAME)
        return;
    cached->hint = ticket->hint;
    cached->hash = ticket->name_hash;
    cached->len = (uint16_t)ticket->name_len;
    cached->writes = ticket->kind == HF_WRITE;
    memcpy(cached->name, ticket->name, ticket->name_len);
}

static inline uint64_t hint_find(struct file_queue *me, const struct hf_ticket *ticket)
{
    struct queue_cached *cached = cache_at(me, ticket->name_hash);

    if (ticket->hint)
        return ticket->hint;
    return cache_is(cached, ticket) ? cached->hint : 0;
}

/*
 * The first compare-exchange goes by memory: most often the word is as we left it, and
 * a look at it beforehand would cost as much again.
 */
static bool attempt_quick(struct file_queue *me, struct hf_ticket *ticket)
{
    struct region_block *record;
    uint64_t hint, word;

    if (!ticket_plain(ticket) || ticket_mode(ticket) != TICKET_NONE)
        return false;
    hint = hint_find(me, ticket);
    if (!hint)
        return false;
    record = block_at(me, hint_block(hint));
    word = hint_word(hint);
    if (!word_swap(&record->word, &word, word_taken(word, me->slot)) &&
        (word_gen(word) != word_gen(hint) || !word_open(word, ticket_passes(ticket)) ||
         !word_swap(&record->word, &word, word_taken(word, me->slot))))
        return false;
    quick_publish(me, record, word_taken(word, me->slot), ticket);
    return true;
}

static bool quick_is(const struct file_queue *me, const struct region_block *record,
                     uint64_t word, const struct hf_ticket *ticket)
{
    return word_held_by(word, word_gen(ticket->store[1]), me->slot) &&
           __atomic_load_n(&record->record.token, __ATOMIC_ACQUIRE) == ticket->store[2];
}

bool hf__quick_mine(const struct file_queue *me, const struct hf_ticket *ticket)
{
    const struct region_block *record = block_at(me, ticket_block(ticket));
    return quick_is(me, record, word_load(&record->word), ticket);
}

/* By memory first, as above. The token tells our hold from a later one of ours. */
static bool withdraw_quick(struct file_queue *me, struct hf_ticket *ticket)
{
    struct region_block *record = block_at(me, ticket_block(ticket));
    struct queue_cached *cached = cache_at(me, ticket->name_hash);
    uint64_t word = ticket->store[1];

    if (!quick_is(me, record, word, ticket) || !word_quiet(word))
        return false;
    if (!word_swap(&record->word, &word, word_dropped(word)) &&
        (!quick_is(me, record, word, ticket) || !word_quiet(word) ||
         !word_swap(&record->word, &word, word_dropped(word))))
        return false;
    ticket->hint = hint_of(ticket_block(ticket), word);
    if (hint_block(cached->hint) == ticket_block(ticket))
        cached->hint = ticket->hint;
    return true;
}

/* ---- Attempt, in the guard ------------------------------------------------------- */

enum entry {
    ENTRY_IN,
    ENTRY_QUEUED,
    ENTRY_BUSY,     /* the targets may be dead */
    ENTRY_MISMATCH, /* the same */
    ENTRY_PREPARE,  /* we have to wait, and are not ready for it */
    ENTRY_FAILED,
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

static struct place_wish wish_of(struct file_queue *me, const struct hf_ticket *ticket,
                                 enum place_state state)
{
    bool leased = state == PLACE_GRANTED && ticket->ttl_ns;

    return (struct place_wish){
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

static enum entry latch_open(struct file_queue *me, struct hf_ticket *ticket,
                             struct hf_grant *ret_grant)
{
    *ret_grant = (struct hf_grant){ hf__region_draw(&me->region, 1), 1, 0, 0 };
    ticket_set(ticket, TICKET_OPEN, 0, 0, 0);
    return ENTRY_IN;
}

static enum entry ticket_in(struct file_queue *me, struct hf_ticket *ticket,
                            struct region_block *record, uint64_t word,
                            struct hf_grant *ret_grant, hf_error *why)
{
    struct region_block *block;
    struct place_wish wish;

    if (ticket->kind == HF_LATCH)
        return latch_open(me, ticket, ret_grant);
    if (ticket_plain(ticket)) {
        word = word_taken(word, me->slot);
        word_store(&record->word, word);
        guard_step();
        *ret_grant = (struct hf_grant){ quick_publish(me, record, word, ticket),
                                        ticket_span(ticket), 0, 0 };
        cache_put(me, ticket, record);
        return ENTRY_IN;
    }
    block = hf__table_alloc(me, why);
    if (!block)
        return ENTRY_FAILED;
    wish = wish_of(me, ticket, PLACE_GRANTED);
    hf__place_put(me, block, record, &wish);
    ticket_set(ticket, TICKET_PLACE, block_index(me, block), 0, block->place.seq);
    *ret_grant = hf__place_grant(block);
    return ENTRY_IN;
}

static enum entry ticket_wait(struct file_queue *me, struct hf_ticket *ticket,
                              struct region_block *record, hf_error *why)
{
    struct queue_stake *stake = ticket_stake(ticket);
    bool try = ticket->flags & HF_TICKET_TRY;
    struct region_block *block;
    struct place_wish wish;

    if (!me->targets || (!try && !stake))
        return ENTRY_PREPARE;
    if (try) {
        hf__peer_note(me, record, NULL);
        return ENTRY_BUSY;
    }
    block = hf__table_alloc(me, why);
    if (!block)
        return ENTRY_FAILED;
    wish = wish_of(me, ticket, PLACE_WAITING);
    hf__place_put(me, block, record, &wish);
    block->place.stake = stake->number;
    stake->waiting = true;
    ticket_set(ticket, TICKET_PLACE, block_index(me, block), 0, block->place.seq);
    return ENTRY_QUEUED;
}

static enum entry ticket_mismatch(struct file_queue *me, const struct hf_ticket *ticket)
{
    struct region_block *record =
        hf__table_find(me, ticket->name, ticket->name_len, ticket->name_hash);

    if (!me->targets)
        return ENTRY_PREPARE;
    hf__peer_note(me, record, NULL);
    return ENTRY_MISMATCH;
}

static enum entry ticket_enter(struct file_queue *me, struct hf_ticket *ticket,
                               struct hf_grant *ret_grant, hf_error *why)
{
    struct region_block *record;
    enum entry entry;
    uint64_t word;
    int rc;

    if (ticket->kind == HF_LATCH &&
        !hf__table_find(me, ticket->name, ticket->name_len, ticket->name_hash))
        return latch_open(me, ticket, ret_grant);
    rc = hf__table_get(me, ticket->name, ticket->name_len, ticket->name_hash,
                       ticket->kind, ticket->limit, &record, why);
    if (rc != 0)
        return rc == HF_EMISMATCH ? ticket_mismatch(me, ticket) : ENTRY_FAILED;
    word = hf__record_seize(record);
    if (record_fits(&record->record, word, ticket))
        entry = ticket_in(me, ticket, record, word, ret_grant, why);
    else
        entry = ticket_wait(me, ticket, record, why);
    me->busy = entry == ENTRY_QUEUED ? ticket_block(ticket) : 0;
    hf__record_settle(me, record);
    me->busy = 0;
    return entry;
}

/* ---- Attempt --------------------------------------------------------------------- */

static void answer_failed(struct file_queue *me, struct hf_ticket *ticket,
                          const hf_error *why)
{
    hf__stake_free(ticket_stake(ticket));
    me->host->ops->failed(me->host, ticket, why);
}

/* The guard was not to be had: nothing has happened, ask again soon. */
static void answer_later(struct file_queue *me, struct hf_ticket *ticket,
                         const hf_error *why)
{
    if (why->code != HF_EUNREACHABLE || (ticket->flags & HF_TICKET_TRY))
        answer_failed(me, ticket, why);
    else
        me->host->ops->queued(me->host, ticket, GUARD_RETRY_NS);
}

static int ticket_prepare(struct file_queue *me, struct hf_ticket *ticket,
                          hf_error *why)
{
    if (!me->targets)
        me->targets = hf__alloc(SLOT_COUNT * sizeof(*me->targets));
    if (!me->targets)
        return hf__fail_code(why, HF_ENOMEM);
    if (ticket->flags & HF_TICKET_TRY)
        return 0;
    if (hf__stake_listen(me, why) != 0)
        return why->code;
    if (!ticket_stake(ticket) && !hf__stake_new(me, ticket))
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
    struct stake_news news = { PLACE_WAITING, { 0, 0, 0, 0 }, HF_NEVER };
    struct hf_grant grant;
    enum entry entry;
    hf_error why;
    bool again;

    do {
        if (hf__guard_enter(me, &why) != 0) {
            answer_later(me, ticket, &why);
            return;
        }
        entry = ticket_enter(me, ticket, &grant, &why);
        if (entry == ENTRY_QUEUED) /* the holder may have left meanwhile */
            news = hf__stake_peek(ticket_stake(ticket), false);
        hf__guard_leave(me);
        again = entry == ENTRY_BUSY || entry == ENTRY_MISMATCH
                    ? hf__peer_check(me, false)
                    : entry == ENTRY_PREPARE;
        if (entry == ENTRY_PREPARE && ticket_prepare(me, ticket, &why) != 0) {
            answer_failed(me, ticket, &why);
            return;
        }
    } while (again);
    if (entry == ENTRY_QUEUED) {
        answer_queued(me, ticket, hf__stake_tell(ticket_stake(ticket), news));
        return;
    }
    if (entry == ENTRY_FAILED || entry == ENTRY_MISMATCH) {
        answer_failed(me, ticket, &why);
        return;
    }
    hf__stake_free(ticket_stake(ticket));
    if (entry == ENTRY_BUSY)
        me->host->ops->busy(me->host, ticket);
    else
        me->host->ops->granted(me->host, ticket, &grant);
}

/* A ticket that was attempted before: says what is the case. False: nothing is
 * there. */
static bool attempt_known(struct file_queue *me, struct hf_ticket *ticket)
{
    struct hf_grant grant = { .span = 1 };
    struct region_block *block = block_at(me, ticket_block(ticket));
    hf_error why;

    switch (ticket_mode(ticket)) {
    case TICKET_NONE:
        return false;
    case TICKET_OPEN:
        grant.token = hf__region_draw(&me->region, 1);
        break;
    case TICKET_QUICK:
        if (!hf__quick_mine(me, ticket))
            goto gone;
        grant.token = ticket->store[2];
        grant.span = __atomic_load_n(&block->record.span, __ATOMIC_RELAXED);
        break;
    case TICKET_PLACE:
        if (ticket_stake(ticket) && ticket_stake(ticket)->waiting) {
            answer_queued(me, ticket, hf__stake_look(ticket_stake(ticket), false));
            return true;
        }
        if (hf__guard_enter(me, &why) != 0) {
            answer_later(me, ticket, &why);
            return true;
        }
        block = hf__place_find(me, ticket_block(ticket), ticket->store[2]);
        if (block)
            grant = hf__place_grant(block);
        hf__guard_leave(me);
        if (!block)
            goto gone;
        break;
    }
    me->host->ops->granted(me->host, ticket, &grant);
    return true;
gone:
    ticket_set(ticket, TICKET_NONE, 0, 0, 0);
    return false;
}

void hf__queue_attempt(void *session, struct hf_ticket *ticket)
{
    struct file_queue *me = session;

    if (attempt_quick(me, ticket)) {
        struct hf_grant grant = { ticket->store[2], ticket_span(ticket), 0, 0 };
        me->host->ops->granted(me->host, ticket, &grant);
    } else if (!attempt_known(me, ticket)) {
        attempt_slow(me, ticket);
    }
}

/* ---- Withdraw -------------------------------------------------------------------- */

static bool quick_end(struct file_queue *me, const struct hf_ticket *ticket)
{
    struct region_block *record = block_at(me, ticket_block(ticket));

    if (!hf__quick_mine(me, ticket))
        return false;
    hf__record_drop(record);
    hf__record_settle(me, record);
    return true;
}

static bool place_end(struct file_queue *me, const struct hf_ticket *ticket)
{
    uint32_t index = ticket_block(ticket);
    struct region_block *place = hf__place_find(me, index, ticket->store[2]);

    if (place)
        hf__record_expire(me, block_at(me, place->place.record));
    place = hf__place_find(me, index, ticket->store[2]);
    if (!place)
        return false;
    hf__place_end(me, place);
    return true;
}

static enum hf_withdrawal withdraw_slow(struct file_queue *me, struct hf_ticket *ticket)
{
    enum ticket_mode mode = ticket_mode(ticket);
    bool was_there;
    hf_error why;

    if (mode == TICKET_NONE || mode == TICKET_OPEN)
        return mode == TICKET_OPEN ? HF_WITHDRAWN : HF_GONE;
    if (hf__guard_enter(me, &why) != 0)
        return HF_WITHDRAWAL_UNKNOWN;
    was_there = mode == TICKET_QUICK ? quick_end(me, ticket) : place_end(me, ticket);
    hf__guard_leave(me);
    return was_there ? HF_WITHDRAWN : HF_GONE;
}

void hf__queue_withdraw(void *session, struct hf_ticket *ticket)
{
    struct file_queue *me = session;
    enum hf_withdrawal answer = HF_WITHDRAWN;

    if (ticket_mode(ticket) != TICKET_QUICK || !withdraw_quick(me, ticket))
        answer = withdraw_slow(me, ticket);
    if (answer != HF_WITHDRAWAL_UNKNOWN) {
        me->held -= ticket_mode(ticket) == TICKET_QUICK;
        hf__stake_free(ticket_stake(ticket));
        ticket_set(ticket, TICKET_NONE, 0, 0, 0);
    }
    me->host->ops->withdrawn(me->host, ticket, answer);
}

/* ---- Renew and interest ---------------------------------------------------------- */

static enum hf_renewal ticket_renew(struct file_queue *me,
                                    const struct hf_ticket *ticket,
                                    enum hf_renew_mode mode, int64_t now)
{
    struct region_block *place;

    if (ticket_mode(ticket) == TICKET_QUICK)
        return hf__quick_mine(me, ticket) ? HF_STILL_HELD : HF_RENEWAL_LOST;
    if (ticket_mode(ticket) == TICKET_OPEN)
        return HF_STILL_HELD;
    place = hf__place_find(me, ticket_block(ticket), ticket->store[2]);
    if (!place || place->place.state != PLACE_GRANTED || place->place.expires <= now)
        return HF_RENEWAL_LOST;
    if (mode == HF_CHECK || !place->place.ttl)
        return HF_STILL_HELD;
    place->place.ttl = ticket->ttl_ns;
    place->place.expires = ticket->ttl_ns ? now + ticket->ttl_ns : HF_NEVER;
    return HF_RENEWED;
}

/* `soonest` of the records may be too early after this, which costs a look and no more;
 * a lease that became shorter is the one case to care about. */
static void lease_note(struct file_queue *me, const struct hf_ticket *ticket)
{
    struct block_place *p = &block_at(me, ticket_block(ticket))->place;
    struct block_record *r = &block_at(me, p->record)->record;

    if (p->expires < r->soonest)
        r->soonest = p->expires;
}

static void batch_renew(struct file_queue *me, struct hf_ticket *const *tickets,
                        size_t count, enum hf_renew_mode mode)
{
    enum hf_renewal answers[RENEW_BATCH];
    int64_t now = queue_now(me);
    hf_error why;
    bool entered = hf__guard_enter(me, &why) == 0;

    for (size_t i = 0; i < count; i++) {
        answers[i] =
            entered ? ticket_renew(me, tickets[i], mode, now) : HF_RENEWAL_UNKNOWN;
        if (answers[i] == HF_RENEWED)
            lease_note(me, tickets[i]);
    }
    if (entered)
        hf__guard_leave(me);
    for (size_t i = 0; i < count; i++)
        me->host->ops->renewed(me->host, tickets[i], answers[i]);
}

void hf__queue_renew(void *session, struct hf_ticket *const *tickets, size_t count,
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

void hf__queue_interest(void *session, struct hf_ticket *ticket)
{
    struct file_queue *me = session;
    struct queue_stake *stake = ticket_stake(ticket);
    hf_error why;

    if (ticket_mode(ticket) == TICKET_OPEN || hf__stake_listen(me, &why) != 0)
        return;
    if (!stake)
        stake = hf__stake_new(me, ticket);
    if (stake)
        hf__stake_mind(stake);
}
