/* SPDX-License-Identifier: MIT */
/*
 * The queue of a record: who is in, who is next. Called in the guard.
 *
 * Places stand in one list per record, granted ones in front, the others by arrival. A
 * lock is also taken through the word of its record alone (a quick hold, tickets.c), so
 * every function here first seizes the word: it is then SLOW, and ours, or HELD, and
 * its owner may at most drop it meanwhile. After a change hf__file_record_settle() decides
 * who is next and sets the word to what became of it.
 *
 * A free lock with waiters is passed on in one of two ways. Strictly: the first in line
 * (and who else fits) is granted, then woken. Or by invitation: the first in line is
 * woken and the lock left open, so that it is used while the other wakes up. An invited
 * place that finds the lock taken when it comes makes the next release strict.
 *
 * To wake is to write to a FIFO, and that is done in here too: a process that dies
 * between a grant and its wake-up dies in the guard, and recover.c wakes everybody.
 */
#include <string.h>

#include "../../base/clock.h"
#include "queue.h"

/* ---- Words ----------------------------------------------------------------------- */

/* The holder writes these while we read them; the turn tells whether they are whole. */
bool hf__file_fast_read(const struct region_block *record, struct fast_hold *ret_hold)
{
    const struct block_record *r = &record->record;
    uint64_t word = word_load(&record->lock_word);
    uint32_t turn = __atomic_load_n(&r->turn, __ATOMIC_ACQUIRE);

    if (!(word & WORD_HELD) || turn != word_turn(word))
        return false;
    *ret_hold = (struct fast_hold){
        .token = __atomic_load_n(&r->token, __ATOMIC_ACQUIRE),
        .id.word[0] = __atomic_load_n(&r->id.word[0], __ATOMIC_ACQUIRE),
        .id.word[1] = __atomic_load_n(&r->id.word[1], __ATOMIC_ACQUIRE),
        .since = __atomic_load_n(&r->since, __ATOMIC_ACQUIRE),
        .span = __atomic_load_n(&r->span, __ATOMIC_ACQUIRE),
        .kind = __atomic_load_n(&r->kind, __ATOMIC_ACQUIRE),
        .session = word_session(word),
    };
    return ((word_load(&record->lock_word) ^ word) & ~WORD_QUEUE) == 0;
}

uint64_t hf__file_record_seize(struct region_block *record)
{
    uint64_t word = word_load(&record->lock_word);

    while (!(word & (WORD_HELD | WORD_SLOW)))
        if (word_swap(&record->lock_word, &word, word | WORD_SLOW)) {
            guard_step();
            return word | WORD_SLOW;
        }
    return word;
}

uint64_t hf__file_record_freeze(struct region_block *record)
{
    for (;;) {
        uint64_t word = hf__file_record_seize(record);
        if (!(word & WORD_HELD) ||
            word_swap(&record->lock_word, &word, word | WORD_IMPATIENT))
            return word;
    }
}

void hf__file_record_drop(struct region_block *record)
{
    uint64_t word = word_load(&record->lock_word);

    while ((word & WORD_HELD) &&
           !word_swap(&record->lock_word, &word, word_dropped(word) | WORD_SLOW))
        ;
    guard_step();
}

/* ---- The list -------------------------------------------------------------------- */

/* Before `after`, or (0) at the end. */
static void list_insert(struct file_queue *me, struct block_record *r, uint32_t after,
                        struct region_block *place)
{
    uint32_t index = block_index(me, place);
    uint32_t prev = after ? block_at(me, after)->place.prev : r->last;

    place->place.prev = prev;
    place->next = after;
    if (prev)
        block_at(me, prev)->next = index;
    else
        r->first = index;
    if (after)
        block_at(me, after)->place.prev = index;
    else
        r->last = index;
    guard_step();
}

static void list_remove(struct file_queue *me, struct block_record *r,
                        struct region_block *place)
{
    uint32_t prev = place->place.prev;

    if (prev)
        block_at(me, prev)->next = place->next;
    else
        r->first = place->next;
    guard_step();
    if (place->next)
        block_at(me, place->next)->place.prev = prev;
    else
        r->last = prev;
    guard_step();
}

static void tally_drop(struct hf_tally *tally, const struct block_place *p)
{
    if (p->kind == HF_PERMITS || p->kind == HF_EXPIRING)
        tally->permits -= p->permits;
    else if (p->kind == HF_READ)
        tally->readers--;
    else
        tally->exclusive--;
}

static void state_set(struct region_block *place, enum place_state state)
{
    __atomic_store_n(&place->place.state, state, __ATOMIC_RELEASE);
    guard_step();
}

/* A hold that changes hands keeps a token that may be older than others' here. */
static void newest_raise(struct block_record *r, const struct block_place *p)
{
    uint64_t last = p->token + p->span - 1;

    if (last > r->newest)
        __atomic_store_n(&r->newest, last, __ATOMIC_RELAXED);
}

static void granted_count(struct block_record *r, const struct block_place *p)
{
    r->granted++;
    hf__tally_add(&r->tally, p->kind, p->permits);
    if (p->expires < r->soonest)
        r->soonest = p->expires;
}

/* ---- Places ---------------------------------------------------------------------- */

struct region_block *hf__file_place_find(const struct file_queue *me, uint32_t block,
                                         uint64_t seq)
{
    struct region_block *place = block_at(me, block);
    bool ours = place->type == BLOCK_PLACE && place->place.state != PLACE_NONE &&
                place->place.seq == seq;
    return ours ? place : NULL;
}

struct hf_grant hf__file_place_grant(const struct region_block *place)
{
    const struct block_place *p = &place->place;

    return (struct hf_grant){
        .token = p->token,
        .span = p->span,
        .ttl_ns = p->ttl,
        .since_ns = p->ttl ? p->expires - p->ttl : 0,
    };
}

static void place_fill(struct file_queue *me, struct block_place *p,
                       struct region_block *record, const struct place_wish *wish)
{
    const struct hf_ticket *ticket = wish->ticket;

    *p = (struct block_place){
        .record = block_index(me, record),
        .record_gen = word_gen(record->lock_word),
        .seq = me->region.head->next_seq++,
        .id = ticket->id,
        .token = wish->token,
        .expires = wish->expires,
        .ttl = ticket->ttl_ns,
        .since = wish->since,
        .span = wish->span,
        .permits = wish->permits,
        .kind = wish->kind,
        .flags = ticket->flags & HF_TICKET_DETACHED ? PLACE_DETACHED : 0,
        .session = me->session,
        .session_gen = me->session_gen,
        .pid = me->pid,
    };
    memcpy(p->note, wish->note, strnlen(wish->note, HF_NOTE_MAX));
}

void hf__file_place_put(struct file_queue *me, struct region_block *block,
                        struct region_block *record, const struct place_wish *wish)
{
    struct block_record *r = &record->record;
    struct block_place *p = &block->place;

    place_fill(me, p, record, wish);
    if (wish->state == PLACE_GRANTED) {
        p->flags |= PLACE_TOLD;
        if (p->token == 0)
            p->token = hf__file_region_draw(&me->region, p->span);
        newest_raise(r, p);
    }
    __atomic_store_n(&block->type, BLOCK_PLACE, __ATOMIC_RELEASE);
    guard_step();
    state_set(block, wish->state);
    me->held++;
    if (wish->state == PLACE_GRANTED) {
        list_insert(me, r, r->first_waiting, block);
        granted_count(r, p);
        return;
    }
    list_insert(me, r, 0, block);
    if (!r->first_waiting)
        r->first_waiting = block_index(me, block);
    r->waiting++;
    r->strict += !kind_passes(p->kind);
}

static void waiting_uncount(struct block_record *r, struct region_block *place,
                            uint32_t index)
{
    if (r->first_waiting == index)
        r->first_waiting = place->next;
    r->waiting--;
    r->strict -= !kind_passes(place->place.kind);
}

void hf__file_place_remove(struct file_queue *me, struct region_block *place)
{
    struct block_place *p = &place->place;
    struct block_record *r = &block_at(me, p->record)->record;
    bool granted = p->state == PLACE_GRANTED;

    state_set(place, PLACE_NONE);
    list_remove(me, r, place);
    if (granted) {
        r->granted--;
        tally_drop(&r->tally, p);
        if (r->granted == 0)
            r->soonest = HF_NEVER;
    } else {
        waiting_uncount(r, place, block_index(me, place));
    }
    if (p->session == me->session && p->session_gen == me->session_gen)
        me->held--;
    hf__file_table_free(me, place);
}

static void place_wake(struct file_queue *me, uint32_t index)
{
    if (index)
        hf__file_peer_wake(me, block_at(me, index)->place.session, index);
}

void hf__file_place_end(struct file_queue *me, struct region_block *place)
{
    struct region_block *record = block_at(me, place->place.record);
    uint32_t behind = place->place.state == PLACE_WAITING ? place->next : 0;

    hf__file_record_seize(record);
    hf__file_place_remove(me, place);
    place_wake(me, behind);
    hf__file_record_settle(me, record);
}

static bool place_has_owner(const struct file_queue *me, const struct block_place *p)
{
    return me->region.sessions[p->session].gen == p->session_gen;
}

void hf__file_place_lose(struct file_queue *me, struct region_block *place)
{
    uint32_t session = place->place.session;
    bool owned = place_has_owner(me, &place->place);

    hf__file_place_end(me, place);
    if (owned)
        hf__file_peer_wake(me, session, 0);
}

/* ---- Admission ------------------------------------------------------------------- */

static void place_grant(struct file_queue *me, struct block_record *r,
                        struct region_block *place)
{
    struct block_place *p = &place->place;

    p->token = hf__file_region_draw(&me->region, p->span);
    newest_raise(r, p);
    p->since = hf__now_coarse();
    p->expires = p->ttl ? queue_now(me) + p->ttl : HF_NEVER;
    guard_step();
    state_set(place, PLACE_GRANTED);
    waiting_uncount(r, place, block_index(me, place));
    granted_count(r, p);
    guard_step();
    place_wake(me, block_index(me, place));
}

/* With several holders the new first in line has to watch all of them, not only the one
 * that stood before it, hence the last wake-up. */
void hf__file_record_admit(struct file_queue *me, struct region_block *record)
{
    struct block_record *r = &record->record;
    uint32_t first = r->first_waiting;

    while (r->first_waiting) {
        struct region_block *place = block_at(me, r->first_waiting);
        if (hf__admit(&r->tally, place->place.kind, place->place.permits, r->limit) !=
            HF_IN)
            break;
        place_grant(me, r, place);
    }
    if (r->first_waiting != first && r->granted > 1)
        place_wake(me, r->first_waiting);
}

void hf__file_record_open(struct file_queue *me, struct region_block *record)
{
    while (record->record.first_waiting)
        place_grant(me, &record->record, block_at(me, record->record.first_waiting));
}

static uint64_t queue_flags(struct block_record *r, uint64_t word)
{
    if (!r->waiting)
        return 0;
    if (r->strict)
        return WORD_WAIT | WORD_IMPATIENT;
    if (r->invited != r->first_waiting)
        return WORD_WAIT;
    return word & WORD_QUEUE;
}

static void settle_slow(struct file_queue *me, struct region_block *record,
                        uint64_t word)
{
    struct block_record *r = &record->record;
    uint64_t flags = queue_flags(r, word);

    if (r->waiting && (r->granted || (flags & WORD_IMPATIENT))) {
        hf__file_record_admit(me, record);
        flags = queue_flags(r, word);
    }
    if (r->granted || r->strict) {
        word_store(&record->lock_word, word_base(word) | flags | WORD_SLOW);
    } else if (!r->waiting) {
        r->invited = 0;
        word_store(&record->lock_word, word_base(word));
    } else {
        if (!(flags & WORD_INVITED))
            place_wake(me, r->first_waiting);
        r->invited = r->first_waiting;
        guard_step();
        word_store(&record->lock_word, word_base(word) | WORD_WAIT | WORD_INVITED);
    }
    guard_step();
}

void hf__file_record_settle(struct file_queue *me, struct region_block *record)
{
    for (;;) {
        uint64_t word = hf__file_record_seize(record);
        if (!(word & WORD_HELD)) {
            settle_slow(me, record, word);
            return;
        }
        uint64_t next = (word & ~WORD_QUEUE) | queue_flags(&record->record, word);
        if (next == word || word_swap(&record->lock_word, &word, next)) {
            guard_step();
            return;
        }
    }
}

/* ---- Leases ---------------------------------------------------------------------- */

static struct region_block *lease_over(struct file_queue *me, struct block_record *r,
                                       int64_t now)
{
    uint32_t index = r->first;

    r->soonest = HF_NEVER;
    for (uint32_t i = 0; i < r->granted; i++) {
        struct region_block *place = block_at(me, index);
        if (place->place.expires <= now)
            return place;
        if (place->place.expires < r->soonest)
            r->soonest = place->place.expires;
        index = place->next;
    }
    return NULL;
}

void hf__file_record_expire(struct file_queue *me, struct region_block *record)
{
    struct block_record *r = &record->record;
    struct region_block *place;

    if (r->soonest == HF_NEVER)
        return;
    int64_t now = queue_now(me);
    if (r->soonest > now)
        return;
    while ((place = lease_over(me, r, now)))
        hf__file_place_lose(me, place);
}
