/* SPDX-License-Identifier: MIT */
/*
 * What the files of the queue layout share. Read them in this order:
 *
 *   lock_word.h region.[ch]  what all processes see: the word of a lock, the state file
 *   home.[ch]           the directory of our own, and what may be removed from it
 *   guard.[ch]          the mutex around the table
 *   table.c             blocks and records: names to queues
 *   entries.c            the queue of a record: who is in, who is next
 *   recover.c           the table made anew after a death inside the guard
 *   sessions.c             sessions: claimed, left, cleaned up after
 *   peers.c             other sessions: waking them, watching them die
 *   waiters.c            what we wait for or care about, and how we hear of it
 *   fastpath.h             the way around the table, for a lock that is free
 *   tickets.c           the seam: attempt, withdraw, renew, interest
 *   latches.c cells.c inspect.c repair.c diagnose.c  the seam: ask
 *   queue.c             the seam: open, close, the table of functions
 *
 * `me` is always this session. "In the guard" means between hf__file_guard_enter() and
 * hf__file_guard_leave(); the host is answered outside of it.
 */
#ifndef HF_FILE_QUEUE_H
#define HF_FILE_QUEUE_H

#include "../../base/list.h"
#include "guard.h"
#include "lock_word.h"
#include "region.h"

#define CACHE_COUNT 256
#define CACHE_NAME 112 /* longer names are looked up */
#define RECENT_COUNT 8
#define SPAN_MAX 65536 /* numbers of one grant */

#define GUARD_RETRY_NS (10 * INT64_C(1000000))
#define QUEUED_RETRY_NS (5 * INT64_C(1000000000))

struct queue_cached {
    uint64_t hint; /* see fastpath.h */
    uint32_t hash;
    uint16_t len;    /* 0: empty */
    uint16_t writes; /* it is a read/write lock, not a mutex */
    char name[CACHE_NAME];
};

/* Another session, as far as we have to do with it. */
struct queue_peer {
    struct file_queue *queue; /* NULL: nothing is known of it yet */
    uint32_t gen;
    int process;  /* pidfd, or -1 */
    int fifo;     /* or -1 */
    bool in_loop; /* the loop tells us when `process` ends */
};

/* A session to be looked after once the guard is left. */
struct queue_target {
    uint32_t session;
    uint32_t gen;
};

/* A ticket that waits, or whose holder wants to hear of it. */
struct queue_waiter {
    struct hf_list_node link;
    struct file_queue *queue;
    struct hf_ticket *ticket;
    struct hf_timer timer; /* when to look again */
    uint32_t number;
    bool waiting; /* or granted, and core is interested */
};

struct queue_number {
    struct queue_waiter *waiter;
    uint32_t next_free;
};

struct file_queue {
    struct hf_host *host;
    struct region region;
    int top_fd;  /* the directory of the URL */
    int dir_fd;  /* the one of our own in it, where all files are */
    int live_fd; /* holds the lock that says we live */
    int fifo_fd; /* others wake us here; -1 until somebody needs to */
    mode_t mode;
    int32_t pid;
    uint32_t session; /* SESSION_COUNT: none */
    uint32_t session_gen;
    uint32_t held;   /* quick holds and places of ours, at least */
    uint32_t streak; /* quick grants of ours in a row that nobody came between */
    uint64_t token_next, token_end; /* token numbers drawn ahead */
    uint64_t space;                 /* pid namespace */
    int64_t open_until;             /* in open(), which may take its time; else 0 */
    uint32_t current; /* a place that is being dealt with: its owner is awake */
    uint32_t target_count;
    bool target_poll;             /* one of the targets has to be polled */
    bool thorough;                /* core asks again: look twice */
    bool home_made;               /* the directory of our own was not there, */
    bool diagnosed;               /* and all that this session does is to look: */
    bool files_removed;           /* its files went with it */
    bool guard_stopped;           /* the last wait was in vain: its owner is stopped */
    struct queue_target *targets; /* room for SESSION_COUNT; made when first needed, */
    struct queue_peer *peers;     /* as are these */
    struct hf_list_node waiters;
    struct queue_number *numbers; /* of stakes; from 1 */
    uint32_t number_room;
    uint32_t number_free;
    struct hf_timer retry; /* the guard was busy: look at everything again */
    struct hf_request *postponed, *postponed_last; /* requests that wait for it, too */
    struct hf_list_node in_process;     /* among the sessions of this process */
    struct hf_id removed[RECENT_COUNT]; /* cells we removed: requests done */
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

/* Kinds that may be overtaken: the lock is offered to them, not handed over. */
static inline bool kind_passes(int32_t kind)
{
    return kind == HF_MUTEX || kind == HF_REENTRANT;
}

/* May this one overtake those who wait and may be overtaken? */
static inline bool ticket_passes(const struct hf_ticket *ticket)
{
    return kind_passes(ticket->kind) && !(ticket->flags & HF_TICKET_YIELD);
}

/* A ticket that may be held through the word of its record alone. */
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

/* ---- ticket->store ---------------------------------------------------------------
 * [0] what we have: low half a mode, high half a block
 * [1] the word as we took it (quick hold)
 * [2] token (quick hold) or number of arrival (place)
 * [3] the stake, if there is one
 */
enum ticket_mode {
    TICKET_NONE = 0,
    TICKET_FAST = 1,  /* held through the word of a record */
    TICKET_ENTRY = 2, /* a place: waiting or held */
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

/* ---- table.c: in the guard ------------------------------------------------------- */

/* A block that is still BLOCK_FREE by type, or NULL: HF_EFULL, HF_ESYSTEM. */
struct region_block *hf__file_table_alloc(struct file_queue *me, hf_error *why);
void hf__file_table_free(struct file_queue *me, struct region_block *block);

struct region_block *hf__file_table_find(struct file_queue *me, const char *name,
                                         uint32_t len, uint32_t hash);

/* Finds or makes the record of a name, as one of `kind` and `limit`. HF_EMISMATCH. */
int hf__file_table_get(struct file_queue *me, const char *name, uint32_t len,
                       uint32_t hash, int32_t kind, uint32_t limit,
                       struct region_block **ret_record, hf_error *why);

/* The name of a record; `out` has room for HF_NAME_MAX + 1. */
void hf__file_table_name(const struct file_queue *me, const struct region_block *record,
                         char *out);
void hf__file_table_chain(struct file_queue *me, struct region_block *record);

/* ---- entries.c: in the guard ------------------------------------------------------ */

/* What a record says of its quick hold; false if there is none, or not quite yet. */
struct fast_hold {
    uint64_t token;
    struct hf_id id;
    int64_t since;
    uint32_t span;
    int32_t kind;
    uint32_t session;
};
bool hf__file_fast_read(const struct region_block *record, struct fast_hold *ret_hold);

/* Keeps others out of the word: it is then HELD (by a quick hold) or SLOW. `freeze`
 * does the same and makes a quick holder come to the guard for its release. */
uint64_t hf__file_record_seize(struct region_block *record);
uint64_t hf__file_record_freeze(struct region_block *record);

/* After every change: passes the lock on, and sets the word. */
void hf__file_record_update(struct file_queue *me, struct region_block *record);

/* Lets in waiting places, in order; the word is SLOW. */
void hf__file_record_admit(struct file_queue *me, struct region_block *record);

/* The same for all of them, whatever the rule: a latch opens. */
void hf__file_record_open(struct file_queue *me, struct region_block *record);

/* Takes the quick hold away; to be settled. */
void hf__file_record_drop(struct region_block *record);

/* Removes leases that are over, and settles if there was one. */
void hf__file_record_expire(struct file_queue *me, struct region_block *record);

/* The place at `block` if it is the one that arrived as number `seq`, or NULL. */
struct region_block *hf__file_entry_find(const struct file_queue *me, uint32_t block,
                                         uint64_t seq);

struct hf_grant hf__file_entry_grant(const struct region_block *entry);

/* Fills `block` in and puts it into the queue of `record`. A granted one needs a token
 * (0: draw one). Nothing is settled. */
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

/* Takes a place away, wakes who stood behind it, and settles. `remove` only takes it
 * away. `lose` also tells its session. */
void hf__file_entry_remove(struct file_queue *me, struct region_block *entry);
void hf__file_entry_end(struct file_queue *me, struct region_block *entry);
void hf__file_entry_lose(struct file_queue *me, struct region_block *entry);

/* ---- sessions.c --------------------------------------------------------------------- */

int hf__file_session_register(struct file_queue *me, hf_error *why);
void hf__file_session_unregister(struct file_queue *me);

/* Outside the guard: cleans up after all sessions that are gone. */
void hf__file_sessions_sweep(struct file_queue *me);

/* In the guard: removes what a session that is gone left behind. */
void hf__file_session_reap(struct file_queue *me, uint32_t session);

/* Whether the lock of a session's byte in `live` is still there. */
bool hf__file_session_locked(const struct file_queue *me, uint32_t session);

void hf__file_session_close(struct file_queue *me, bool forked);

/* Start time of a process from /proc; 0 if it cannot be known. */
uint64_t hf__file_process_start(int32_t pid);

/* ---- peers.c --------------------------------------------------------------------- */

/* In the guard: wakes a session about one of its places, or (0) about all it has. */
void hf__file_peer_wake(struct file_queue *me, uint32_t session, uint32_t entry);

/* In the guard: note whom this place depends on. Afterwards, outside: look after them;
 * true if somebody was found dead and his places are gone. `stay` keeps watching. */
void hf__file_peer_note(struct file_queue *me, struct region_block *record,
                        struct region_block *entry);
bool hf__file_peer_check(struct file_queue *me, bool stay);
void hf__file_peers_close(struct file_queue *me, bool forked);

/* ---- evictions.c ----------------------------------------------------------------- */

/* In the guard: a hold has been evicted, by us. And: one of ours is gone, so say who
 * evicted it, if that is known. */
void hf__file_eviction_note(struct file_queue *me, const struct hf_id *id);
void hf__file_eviction_tell(struct file_queue *me, struct hf_ticket *ticket);

/* ---- waiters.c -------------------------------------------------------------------- */

/* Makes our FIFO, so that others can wake us. HF_ENOMEM, HF_ESYSTEM. */
int hf__file_listen(struct file_queue *me, hf_error *why);
struct queue_waiter *hf__file_waiter_new(struct file_queue *me,
                                         struct hf_ticket *ticket);
void hf__file_waiter_free(struct queue_waiter *waiter);

/*
 * Looks whether a waiting ticket is in by now. `peek`, in the guard, finds out (`came`:
 * we were woken for it); `tell`, outside, answers the host if the wait is over, and
 * returns true then; `look` does both.
 */
struct waiter_news {
    enum entry_state state;
    struct hf_grant grant;
    int64_t again; /* when a lease in front of it ends */
};
struct waiter_news hf__file_waiter_advance(struct queue_waiter *waiter, bool woken);
bool hf__file_waiter_answer(struct queue_waiter *waiter, struct waiter_news news);
bool hf__file_waiter_check(struct queue_waiter *waiter, bool woken);
void hf__file_waiter_check_hold(struct queue_waiter *waiter);
void hf__file_waiters_check(struct file_queue *me);
/* Has everything looked at again a little later. False: no memory for the timer, which
 * cannot be if something waits already. */
bool hf__file_retry_soon(struct file_queue *me);

/* ---- tickets.c ------------------------------------------------------------------- */

/* Whether the quick hold of a ticket is still ours. */
bool hf__file_fast_held(const struct file_queue *me, const struct hf_ticket *ticket);

void hf__file_queue_attempt(void *session, struct hf_ticket *ticket);
void hf__file_queue_withdraw(void *session, struct hf_ticket *ticket);
void hf__file_queue_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                          enum hf_renew_mode mode);
void hf__file_queue_interest(void *session, struct hf_ticket *ticket);
bool hf__file_queue_pass(void *session, struct hf_ticket *ticket, uint64_t token);

/* ---- Requests -------------------------------------------------------------------- */

/* Requests that found the guard busy are run again. */
void hf__file_queue_resume(struct file_queue *me);

typedef int queue_verb(struct file_queue *me, struct hf_request *request,
                       hf_error *why);

/* In the guard. */
queue_verb hf__file_queue_latch_set, hf__file_queue_latch_get,
    hf__file_queue_latch_down;
queue_verb hf__file_queue_evict, hf__file_queue_revoke, hf__file_queue_downgrade,
    hf__file_queue_adopt;

/* Whether a name has the file of a cell. */
bool hf__file_cell_exists(const struct file_queue *me, const char *name, uint32_t len);

/* Outside; they enter it themselves. */
queue_verb hf__file_queue_cell_get, hf__file_queue_cell_set, hf__file_queue_inspect;
queue_verb hf__file_queue_diagnose;

#endif
