/* SPDX-License-Identifier: MIT */
/*
 * Inside the checker: what was read, boiled down to what the checks need.
 *
 * A hold takes one cache line, because ten million of them have to fit: 64 bytes each,
 * by lock, in the order of their threads' files. Memory that cannot be had ends the
 * program.
 */
#ifndef CHECKER_BOOK_H
#define CHECKER_BOOK_H

#include "check.h"

#define NEVER UINT64_MAX

enum hold_flag {
    HOLD_PIECE = 1,     /* the reading half of a downgraded writer: no acquisition */
    HOLD_REENTRY = 2,   /* inside another hold of the thread, with its token */
    HOLD_CONFLICT = 4,  /* K1 has it */
    HOLD_OVERTAKEN = 8, /* K7 has it */
    HOLD_LEAVING = 16,  /* release was invoked and did not return */
    HOLD_ADOPTED = 32,  /* moved here from another handle: no acquisition */
    HOLD_LEFT = 64,     /* left to its lease, which outlives its process */
    HOLD_HALF = 128,    /* the writing half of a downgraded writer */
};

/* An acquire that took effect or may have: result is H_OK, H_UNKNOWN, or 0 if it never
 * returned. */
struct hold {
    uint64_t inv;
    uint64_t ret;    /* NEVER: did not return */
    uint64_t end;    /* certain for [ret, end) */
    uint64_t belief; /* what the client knew: release invoked, or told that it lost */
    uint64_t over;   /* release returned; NEVER: not known */
    uint64_t token;
    uint32_t thread;
    uint32_t number; /* `hold` of its events */
    union {
        uint32_t place; /* FAIR */
        struct {
            uint16_t permits, limit; /* PERMITS */
        };
    };
    uint8_t kind;
    uint8_t result;
    uint8_t release; /* its result; 0: none */
    uint8_t flags;
};
_Static_assert(sizeof(struct hold) == 64, "one hold, one cache line");

/* What is done to a hold by others: it is adopted, or evicted. Adopting also makes a
 * hold, of the same thread and number. */
struct move {
    uint64_t token; /* of the hold that is meant */
    uint64_t inv;
    uint64_t ret; /* NEVER: did not return */
    uint32_t thread;
    uint32_t number;
    uint8_t op;
    uint8_t kind;
    uint8_t result; /* 0: did not return */
};

/* A handle was told that it had lost its hold before the promise was over. */
struct loss {
    uint64_t inv; /* of the acquire */
    uint64_t told;
    uint64_t until;
    uint64_t token;
    uint32_t thread;
    uint32_t number;
    uint8_t kind;
};

/* A hold that was re-entered with another token. */
struct other {
    uint32_t thread;
    uint32_t number;
    uint64_t at;
};

/* An acquire that had no effect: busy, timed out, failed. */
struct failure {
    uint64_t inv;
    uint64_t ret;
    uint32_t thread;
    uint32_t number;
    uint8_t kind;
    uint8_t result;
    bool justified;
};

struct twice {
    uint64_t value;
    uint32_t thread; /* that came second */
};

#define WRITE_GROUP_BITS 3

struct write {
    uint32_t writer;   /* (thread + 1) and its group; 0: nobody wrote that down */
    uint32_t token[2]; /* halves, so that twelve bytes do */
};

/* Accepted writes by value: each writes one more than it read, so that in a register
 * that loses nothing all values differ and their order is that of the writes. */
struct writes {
    struct write *by_value; /* fenced */
    uint64_t *written;      /* plain: a bit for each value */
    size_t room;
    uint64_t count;
    uint64_t top; /* largest value */
    enum check_group top_group;
    uint64_t twice; /* writes of a value that was there */
    uint64_t twice_by[GROUPS];
    struct twice examples[CHECK_EXAMPLES];
};

/* A write to the fenced register that is yet to be put into its table. */
struct pending {
    uint32_t lock;
    enum check_group group;
    uint64_t value, token;
};

#define PENDING_MAX 32

struct lock {
    uint32_t number;
    uint16_t limit; /* of the first to name one */
    bool seen;
    bool shared;    /* the plain register was written under a lock for many */
    bool ended;     /* there is an H_FINAL */
    bool endless;   /* some hold had no lease */
    uint64_t lease; /* the longest there was */
    uint64_t final_token, final_fenced, final_plain;
    struct hold *holds;
    size_t hold_count, hold_room;
    struct failure *failures;
    size_t failure_count, failure_room;
    struct writes fenced, plain;
    struct move *moves;
    size_t move_count, move_room;
    struct loss *losses;
    size_t loss_count, loss_room;
    struct other *others;
    size_t other_count, other_room;
};

struct process {
    uint32_t number;
    uint64_t last; /* its last event: alive until then */
    bool killed;
    uint64_t gone; /* dead by then; NEVER: not known */
};

struct thread {
    uint32_t process; /* index */
    uint32_t number;
    bool worker; /* tried to acquire something */
    bool ended;  /* of its own accord */
};

struct window {
    uint64_t begin;
    uint64_t end;
    uint64_t number;
    uint32_t thread;
};

#define EVERYBODY UINT32_MAX

/* Not run: a process, or the server. */
struct stall {
    uint64_t begin;
    uint64_t end;
    uint32_t process; /* index, or EVERYBODY */
};

/* An attempt of the thread being read that is not over. */
struct open_hold {
    uint32_t number;
    uint32_t lock;
    size_t index; /* among the holds of the lock */
    size_t piece; /* after a downgrade: its reading half; else SIZE_MAX */
    bool granted;
    uint64_t until; /* the largest promised */
    uint64_t lost;
    uint64_t release; /* invoked */
    uint64_t latest;  /* its last event */
    uint64_t wrote;   /* with a piece: for writing up to then */
    uint64_t other;   /* a re-entry came back with another token then */
    uint64_t left;    /* leaving was invoked */
    uint64_t asked;   /* an extend was invoked */
    uint64_t lease;   /* and asks for so much; 0: none is under way */
    bool detached;
    bool lowering; /* a downgrade was invoked */
};

#define OPEN_MAX 32

/* An event that does not fit; told when the times of all are known. */
struct note {
    struct history_event event;
    uint32_t thread;
    const char *what;
};

struct check {
    struct check_options options;
    struct check_report report;
    uint64_t start, end; /* of all */
    uint64_t *heals;     /* in order once all is read */
    size_t heal_count, heal_room;
    bool residue; /* was looked for */
    struct lock *locks;
    size_t lock_count;
    struct process *processes;
    size_t process_count, process_room;
    struct thread *threads;
    size_t thread_count, thread_room;
    struct window *windows; /* merged and sorted once all is read */
    size_t window_count, window_room;
    struct stall *stalls; /* by process and time once all is read */
    size_t stall_count, stall_room;
    struct open_hold open[OPEN_MAX];
    size_t open_count;
    struct pending pending[PENDING_MAX]; /* of the thread being read */
    size_t pending_count;
    struct history_header now; /* of the thread being read */
    struct note notes[CHECK_EXAMPLES];
    uint64_t note_count, note_by[GROUPS];
};

/* ---- book.c ---------------------------------------------------------------------- */

void *more(void *items, size_t count, size_t *room, size_t size);
void *zeroed(size_t count, size_t size);
struct lock *lock_get(struct check *check, uint32_t number);
uint32_t thread_begin(struct check *check, const struct history_header *header);
enum check_group group_of(uint8_t kind);
const char *kind_name(uint8_t kind);
struct check_totals *totals_of(struct check *check, uint8_t kind);
struct process *process_of(struct check *check, uint32_t thread);

/* Counts a finding and keeps the first few as text. */
void finding(struct check *check, enum check_id id, enum check_group group,
             const char *format, ...) __attribute__((format(printf, 4, 5)));

struct words {
    char text[192];
};
struct words say_hold(const struct check *check, const struct hold *hold);
struct words say_thread(const struct check *check, uint32_t thread);
double say_time(const struct check *check, uint64_t t_ns); /* seconds since the start */

/* ---- check_read.c ---------------------------------------------------------------- */

void check_thread_end(struct check *check);

uint64_t earlier(uint64_t a, uint64_t b);
uint32_t thread_now(const struct check *check);
void malformed(struct check *check, const struct history_event *event,
               const char *what);
struct open_hold *open_find(struct check *check, uint32_t number);
void open_drop(struct check *check, struct open_hold *open);
struct hold *attempt_invoke(struct check *check, const struct history_event *event);
void attempt_granted(struct check *check, struct open_hold *open,
                     const struct history_event *event);
struct hold hold_remove(struct check *check, const struct open_hold *open);
struct hold *hold_add(struct lock *lock, struct hold hold);
void hold_finish(struct check *check, struct open_hold *open);

/* ---- read_moves.c ---------------------------------------------------------------- */

void hold_adopt(struct check *check, const struct history_event *event);
void hold_evict(struct check *check, const struct history_event *event);
void hold_leave(struct check *check, const struct history_event *event);
void hold_extend(struct check *check, const struct history_event *event);
void hold_downgrade(struct check *check, const struct history_event *event);
/* When all has been said about a granted hold, or was left unsaid. */
void loss_note(struct check *check, const struct open_hold *open);

/* ---- windows.c ------------------------------------------------------------------- */

void window_open(struct check *check, const struct history_event *event);
void window_close(struct check *check, const struct history_event *event);
void windows_settle(struct check *check);
bool windows_meet(const struct check *check, uint64_t begin, uint64_t end);

/* ---- stalls.c -------------------------------------------------------------------- */

void stall_note(struct check *check, const struct history_event *event);
void stalls_settle(struct check *check);
/* For how long of that time the thread's process was not run, and the server not. */
uint64_t stalled(const struct check *check, uint32_t thread, uint64_t begin,
                 uint64_t end);

/* ---- sort.c ---------------------------------------------------------------------- */

/* Indices of `count` items of `size` bytes, in the order of the 64-bit key at `offset`;
 * equal keys stay as they were in `start`, which may be NULL for the items' own order.
 * Fast where that is nearly sorted, or made of a few sorted runs. Yours to free. */
uint32_t *order_by(const void *items, size_t count, size_t size, size_t offset,
                   const uint32_t *start);

/* ---- The checks ------------------------------------------------------------------ */

enum cover { COVER_CERTAIN, COVER_BELIEF, COVER_RELEASED };

typedef void sweep_found(struct check *check, const struct lock *lock,
                         struct hold *hold, const struct hold *other, uint64_t overlap);

/* Walks through the holds in the order of their start; `found` for each that starts
 * while another, or too many others, are inside. Returns how many were looked at. */
uint64_t sweep(struct check *check, struct lock *lock, const uint32_t *by_ret,
               enum cover cover, sweep_found *found);

void check_exclusion(struct check *check, struct lock *lock, const uint32_t *by_ret);
/* True if there was an overlap: without one check_released() has nothing to find, since
 * what a release vouches for is part of what was believed. */
bool check_belief(struct check *check, struct lock *lock, const uint32_t *by_ret);
void check_tokens(struct check *check, struct lock *lock, const uint32_t *by_ret);
void check_registers(struct check *check, struct lock *lock);
void check_order(struct check *check, struct lock *lock, const uint32_t *by_ret);
void check_waits(struct check *check, struct lock *lock);
void check_threads(struct check *check);
void heals_settle(struct check *check);
void check_releases(struct check *check, struct lock *lock);
void check_released(struct check *check, struct lock *lock, const uint32_t *by_ret);
void check_notes(struct check *check);
void check_busy(struct check *check, struct lock *lock, const uint32_t *by_ret);
void check_residue(struct check *check, const struct history_event *event);
/* Before the others: where handles end from which the hold was adopted or evicted. */
void moves_settle(struct check *check, struct lock *lock);
void check_moves(struct check *check, struct lock *lock);
/* The latest at which the store may still have it. */
uint64_t possible_end(struct check *check, const struct lock *lock,
                      const struct hold *hold);
/* When a lease is over that was given at `t`, by a lock that has leases. */
uint64_t lease_over(const struct check *check, const struct lock *lock, uint64_t t);
/* K8, for one call. */
void wait_check(struct check *check, const struct lock *lock, uint64_t inv,
                uint64_t ret, uint32_t thread, uint8_t kind);

void register_write(struct check *check, struct lock *lock,
                    const struct history_event *event, uint8_t kind);
void register_flush(struct check *check); /* before another thread, or a check */
void register_done(struct writes *writes);

#endif
