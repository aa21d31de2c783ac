/* SPDX-License-Identifier: MIT */
/*
 * What the files of the queue layout share. Read them in this order:
 *
 *   lock_word.h         what one compare-exchange can do
 *   region.[ch]         the state file, as all processes see it
 *   home.[ch]           the store's own directory, and what may be removed from it
 *   guard.[ch]          the mutex around the table
 *   table.c             blocks and records: from names to queues
 *   entries.c           the queue of a record: holders, waiters, admission
 *   recover.c           rebuilds the table after a death with the guard held
 *   sessions.c          sessions: registered, unregistered, cleaned up after
 *   peers.c             other sessions: waking them, watching them die
 *   waiters.c           tickets of this session that wait or are watched
 *   fastpath.h          the fast path, for a lock that is free
 *   tickets.c           the seam: attempt, withdraw, renew, interest
 *   latches.c cells.c inspect.c repair.c diagnose.c  the seam: ask
 *   queue.c             the seam: open, close, the table of functions
 *
 * `me` is always this session. "Guard held" means between hf__file_guard_lock() and
 * hf__file_guard_unlock(); the host is called without the guard.
 */
#ifndef HF_FILE_QUEUE_H
#define HF_FILE_QUEUE_H

#include "../../base/list.h"
#include "guard.h"
#include "lock_word.h"
#include "region.h"

#define CACHE_COUNT 256
#define CACHE_NAME 112 /* longer names are not cached */
#define RECENT_COUNT 8
#define SPAN_MAX 65536 /* numbers of one grant */

#define GUARD_RETRY_NS (10 * INT64_C(1000000))
#define QUEUED_RETRY_NS (5 * INT64_C(1000000000))

struct queue_cached {
    uint64_t hint; /* see fastpath.h */
    uint32_t hash;
    uint16_t len;    /* 0: empty */
    uint16_t writes; /* a read-write lock, not a mutex */
    char name[CACHE_NAME];
};

/* What this session keeps about another one. */
struct queue_peer {
    struct file_queue *queue; /* NULL: nothing yet */
    uint32_t gen;
    int process;  /* pidfd, or -1 */
    int fifo;     /* or -1 */
    bool in_loop; /* the loop watches `process` */
};

/* A session to be checked once the guard is unlocked. */
struct queue_target {
    uint32_t session;
    uint32_t gen;
};

/* A ticket of this session that waits, or a hold whose loss or revocation core wants to
 * hear of. */
struct queue_waiter {
    struct hf_list_node link;
    struct file_queue *queue;
    struct hf_ticket *ticket;
    struct hf_timer timer; /* when to check again */
    uint32_t number;
    bool waiting; /* false: it is a hold */
};

struct queue_number {
    struct queue_waiter *waiter;
    uint32_t next_free;
};

struct file_queue {
    struct hf_host *host;
    struct region region;
    int top_fd;  /* the directory of the URL */
    int dir_fd;  /* .holdfast in it, with all files */
    int live_fd; /* its lock shows that this session lives */
    int fifo_fd; /* other sessions write here to wake this one; -1: not yet needed */
    mode_t mode;
    int32_t pid;
    uint32_t session; /* SESSION_COUNT: none */
    uint32_t session_gen;
    uint32_t held;   /* fast holds and entries of this session, at least */
    uint32_t streak; /* fast grants in a row without one of another session */
    uint64_t token_next, token_end; /* token numbers drawn ahead */
    uint64_t space;                 /* pid namespace */
    int64_t open_until; /* in open(): how long to wait for the guard; else 0 */
    uint32_t current;   /* the entry being handled: its session needs no wake-up */
    uint32_t target_count;
    bool target_poll;   /* one of the targets must be polled */
    bool thorough;      /* core asks again: check the lock on `live` as well */
    bool home_made;     /* this session made .holdfast */
    bool diagnosed;     /* it was asked to diagnose */
    bool files_removed; /* and has removed the unused files */
    bool guard_stopped; /* the last wait failed: its owner is stopped */
    struct queue_target *targets; /* room for SESSION_COUNT; made when first needed */
    struct queue_peer *peers;     /* the same */
    struct hf_list_node waiters;
    struct queue_number *numbers; /* of waiters; from 1 */
    uint32_t number_room;
    uint32_t number_free;
    struct hf_timer retry; /* the guard was busy: check everything again */
    struct hf_request *postponed, *postponed_last; /* wait for the guard */
    struct hf_list_node in_process;     /* among the sessions of this process */
    struct hf_id removed[RECENT_COUNT]; /* requests that removed a cell */
    uint32_t removed_next;
    char host_name[256];
    struct queue_cached cache[CACHE_COUNT];
};

static inline struct region_block *block_at(const struct file_queue *me, uint32_t index)
{
    return &me->region.blocks[index];
}

static inline uint32_t block_index(const struct file_queue *me,
                                   const struct region_block *block)
{
    return (uint32_t)(block - me->region.blocks);
}

static inline int64_t queue_now(const struct file_queue *me)
{
    return me->host->ops->now(me->host);
}

/* Kinds that may be overtaken: the first waiter is invited, the lock stays open. */
static inline bool kind_passes(int32_t kind)
{
    return kind == HF_MUTEX || kind == HF_REENTRANT;
}

/* Whether this ticket may overtake waiters that may be overtaken. */
static inline bool ticket_passes(const struct hf_ticket *ticket)
{
    return kind_passes(ticket->kind) && !(ticket->flags & HF_TICKET_YIELD);
}

/* Whether a ticket may be held through the lock word alone. */
static inline bool ticket_plain(const struct hf_ticket *ticket)
{
    const uint32_t fast =
        1u << HF_MUTEX | 1u << HF_REENTRANT | 1u << HF_FAIR | 1u << HF_WRITE;

    return (fast >> ticket->kind & 1) && ticket->ttl_ns == 0 &&
           !(ticket->flags & HF_TICKET_DETACHED) && ticket->note[0] == '\0';
}

static inline uint32_t ticket_span(const struct hf_ticket *ticket)
{
    return ticket->reserve < SPAN_MAX ? ticket->reserve : SPAN_MAX;
}

static inline bool id_same(const struct hf_id *a, const struct hf_id *b)
{
    return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

/*
 * ---- ticket->store ---------------------------------------------------------------
 * [0] low half: a mode, high half: a block
 * [1] the lock word as it was taken (fast hold)
 * [2] token (fast hold) or number of arrival (entry)
 * [3] the waiter, if there is one
 */
enum ticket_mode {
    TICKET_NONE = 0,
    TICKET_FAST = 1,  /* held through the lock word of a record */
    TICKET_ENTRY = 2, /* an entry in the queue: waiting or held */
    TICKET_OPEN = 3,  /* a latch that was open: nothing is kept */
};

static inline enum ticket_mode ticket_mode(const struct hf_ticket *ticket)
{
    return (enum ticket_mode)(uint32_t)ticket->store[0];
}

static inline uint32_t ticket_block(const struct hf_ticket *ticket)
{
    return (uint32_t)(ticket->store[0] >> 32);
}

static inline void ticket_set(struct hf_ticket *ticket, enum ticket_mode mode,
                              uint32_t block, uint64_t word, uint64_t number)
{
    ticket->store[0] = (uint64_t)block << 32 | (uint32_t)mode;
    ticket->store[1] = word;
    ticket->store[2] = number;
}

static inline struct queue_waiter *ticket_waiter(const struct hf_ticket *ticket)
{
    return (struct queue_waiter *)(uintptr_t)ticket->store[3];
}

/* ---- table.c: guard held --------------------------------------------------------- */

/* A block whose type is still BLOCK_FREE, or NULL: HF_EFULL, HF_ESYSTEM. */
struct region_block *hf__file_table_alloc(struct file_queue *me, hf_error *why);
void hf__file_table_free(struct file_queue *me, struct region_block *block);

struct region_block *hf__file_table_find(struct file_queue *me, const char *name,
                                         uint32_t len, uint32_t hash);

/* Finds or makes the record of a name, for `kind` and `limit`. HF_EMISMATCH. */
int hf__file_table_get(struct file_queue *me, const char *name, uint32_t len,
                       uint32_t hash, int32_t kind, uint32_t limit,
                       struct region_block **ret_record, hf_error *why);

/* The name of a record; `out` has room for HF_NAME_MAX + 1. */
void hf__file_table_name(const struct file_queue *me, const struct region_block *record,
                         char *out);
void hf__file_table_chain(struct file_queue *me, struct region_block *record);

/* ---- entries.c: guard held ------------------------------------------------------- */

/* What a record says of its fast hold; false if there is none, or it is not described
 * yet. */
struct fast_hold {
    uint64_t token;
    struct hf_id id;
    int64_t since;
    uint32_t span;
    int32_t kind;
    uint32_t session;
};
bool hf__file_fast_read(const struct region_block *record, struct fast_hold *ret_hold);

/* Keeps other sessions from taking the word: it is then HELD (by a fast hold) or SLOW.
 * `freeze` does the same and makes the holder of a fast hold use the guard for its
 * release. */
uint64_t hf__file_record_seize(struct region_block *record);
uint64_t hf__file_record_freeze(struct region_block *record);

/* To be called after every change: passes the lock on and sets the lock word. */
void hf__file_record_update(struct file_queue *me, struct region_block *record);

/* Admits waiting entries, in order; the word is SLOW. */
void hf__file_record_admit(struct file_queue *me, struct region_block *record);

/* Admits all waiting entries, whatever the rule: a latch opens. */
void hf__file_record_open(struct file_queue *me, struct region_block *record);

/* Ends the fast hold. The caller updates the record. */
void hf__file_record_drop(struct region_block *record);

/* Ends expired leases, and updates the record if there was one. */
void hf__file_record_expire(struct file_queue *me, struct region_block *record);

/* The entry at `block` if it arrived as number `seq`, or NULL. */
struct region_block *hf__file_entry_find(const struct file_queue *me, uint32_t block,
                                         uint64_t seq);

struct hf_grant hf__file_entry_grant(const struct region_block *entry);

/* Fills `block` in and puts it into the queue of `record`. A granted entry needs a
 * token (0: draw one). The caller updates the record. */
struct entry_init {
    const struct hf_ticket *ticket;
    enum entry_state state;
    int32_t kind;
    uint32_t permits;
    uint64_t token;
    uint32_t span;
    int64_t since;
    int64_t expires;
    const char *note;
};
void hf__file_entry_put(struct file_queue *me, struct region_block *block,
                        struct region_block *record, const struct entry_init *init);

/* `remove` takes an entry out of the queue. `end` also wakes the waiter behind it and
 * updates the record; `lose` also wakes its session. */
void hf__file_entry_remove(struct file_queue *me, struct region_block *entry);
void hf__file_entry_end(struct file_queue *me, struct region_block *entry);
void hf__file_entry_lose(struct file_queue *me, struct region_block *entry);

/* ---- sessions.c ------------------------------------------------------------------ */

int hf__file_session_register(struct file_queue *me, hf_error *why);
void hf__file_session_unregister(struct file_queue *me);

/* Without the guard: cleans up after all sessions that have died. */
void hf__file_sessions_sweep(struct file_queue *me);

/* Guard held: removes what a session that died left behind. */
void hf__file_session_reap(struct file_queue *me, uint32_t session);

/* Whether the byte of a session in `live` is still locked. */
bool hf__file_session_locked(const struct file_queue *me, uint32_t session);

void hf__file_session_close(struct file_queue *me, bool forked);

/* Start time of a process from /proc; 0 if not known. */
uint64_t hf__file_process_start(int32_t pid);

/* ---- peers.c --------------------------------------------------------------------- */

/* Guard held: wakes a session about one of its entries, or (0) about all it has. */
void hf__file_peer_wake(struct file_queue *me, uint32_t session, uint32_t entry);

/* `note`, guard held: notes the sessions that this entry waits for (NULL: the holders)
 * as targets. `check`, without the guard: cleans up after those that have died, and is
 * true if there was one; `stay` keeps watching the others. */
void hf__file_peer_note(struct file_queue *me, struct region_block *record,
                        struct region_block *entry);
bool hf__file_peer_check(struct file_queue *me, bool stay);
void hf__file_peers_close(struct file_queue *me, bool forked);

/* ---- evictions.c ----------------------------------------------------------------- */

/* Guard held. `note`: this session evicted a hold. `tell`: a hold of this session is
 * lost; tells the host who evicted it, if that is known. */
void hf__file_eviction_note(struct file_queue *me, const struct hf_id *id);
void hf__file_eviction_tell(struct file_queue *me, struct hf_ticket *ticket);

/* ---- waiters.c ------------------------------------------------------------------- */

/* Makes the FIFO through which other sessions wake this one. HF_ENOMEM, HF_ESYSTEM. */
int hf__file_listen(struct file_queue *me, hf_error *why);
struct queue_waiter *hf__file_waiter_new(struct file_queue *me,
                                         struct hf_ticket *ticket);
void hf__file_waiter_free(struct queue_waiter *waiter);

/*
 * Whether a waiting ticket is admitted by now. `advance`, guard held, finds out
 * (`woken`: this session was woken for it) and takes the lock if it is free. `answer`,
 * without the guard, tells the host, and is true if the wait is over. `check` does
 * both.
 */
struct waiter_news {
    enum entry_state state;
    struct hf_grant grant;
    int64_t again; /* when a lease before it ends */
};
struct waiter_news hf__file_waiter_advance(struct queue_waiter *waiter, bool woken);
bool hf__file_waiter_answer(struct queue_waiter *waiter, struct waiter_news news);
bool hf__file_waiter_check(struct queue_waiter *waiter, bool woken);
void hf__file_waiter_check_hold(struct queue_waiter *waiter);
void hf__file_waiters_check(struct file_queue *me);
/* Has everything checked again a little later. False: no memory for the timer; cannot
 * happen while a ticket waits. */
bool hf__file_retry_soon(struct file_queue *me);

/* ---- tickets.c ------------------------------------------------------------------- */

/* Whether the fast hold of a ticket is still held. */
bool hf__file_fast_held(const struct file_queue *me, const struct hf_ticket *ticket);

void hf__file_queue_attempt(void *session, struct hf_ticket *ticket);
void hf__file_queue_withdraw(void *session, struct hf_ticket *ticket);
void hf__file_queue_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                          enum hf_renew_mode mode);
void hf__file_queue_interest(void *session, struct hf_ticket *ticket);
bool hf__file_queue_pass(void *session, struct hf_ticket *ticket, uint64_t token);

/* ---- Requests -------------------------------------------------------------------- */

/* Runs the requests again that found the guard busy. */
void hf__file_queue_resume(struct file_queue *me);

typedef int queue_verb(struct file_queue *me, struct hf_request *request,
                       hf_error *why);

/* Guard held. */
queue_verb hf__file_queue_latch_set, hf__file_queue_latch_get,
    hf__file_queue_latch_down;
queue_verb hf__file_queue_evict, hf__file_queue_revoke, hf__file_queue_downgrade,
    hf__file_queue_adopt;

/* Whether a name has the file of a cell. */
bool hf__file_cell_exists(const struct file_queue *me, const char *name, uint32_t len);

/* Without the guard; they lock it themselves. */
queue_verb hf__file_queue_cell_get, hf__file_queue_cell_set, hf__file_queue_inspect;
queue_verb hf__file_queue_diagnose;

#endif
