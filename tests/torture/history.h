/* SPDX-License-Identifier: MIT */
/*
 * What happened, written down so that it outlives whoever wrote it.
 *
 * Each thread that takes part has one file of its own: a header and an array of events
 * of 64 bytes, mapped and appended to. A process that is killed leaves its file behind,
 * complete but for the event it was writing, which its sum gives away. `lockcheck`
 * reads a directory of such files and says whether the locks kept their promises.
 *
 * Times are CLOCK_MONOTONIC, read by system call, so that a preloaded clock does not
 * touch them: one clock for all processes of the machine.
 */
#ifndef TORTURE_HISTORY_H
#define TORTURE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_MAGIC UINT64_C(0x31746968646c6f68) /* "holdhit1" */

enum history_op {
    H_ACQUIRE = 1,  /* INVOKE, RETURN: result, token, until_ns, permits; value 1: the
                      hold outlives its process (detached) */
    H_RELEASE = 2,  /* INVOKE, RETURN: result */
    H_SEEN = 3,     /* RETURN: the lock said "held" when asked after `t_ns`; until_ns */
    H_LOST = 4,     /* RETURN: the lock said "lost" at t_ns */
    H_REGISTER = 5, /* RETURN: the fenced register; value: what was written; result */
    H_PLAIN = 6,    /* RETURN: the plain register; value: what was written */
    H_FAULT = 7,    /* INVOKE: begins, RETURN: over; value: its number; kind: which */
    H_HEAL = 8,     /* RETURN: from here on nothing is broken */
    H_END = 9,      /* RETURN: this thread stopped of its own accord */
    H_FINAL = 10,   /* RETURN, at the end, per lock: token: the fenced register's last,
                      value: its value, until_ns: the plain register's value */
    H_RESIDUE = 11, /* RETURN, at the end: value: things left behind in the store */
    H_DOWNGRADE = 12, /* INVOKE, RETURN: result; a writer became a reader */
    H_STALL = 13,     /* RETURN: from `value` to t_ns the machine did not run this
                        process; kind 1: nor the server, for anybody */
    H_EXTEND = 14, /* INVOKE: value: the lease that is asked for, in ns; RETURN: result,
                     until_ns, value: the latest end that until_ns may stand for */
    H_ADOPT = 15,  /* INVOKE: token: of the hold that is to move; RETURN: as H_ACQUIRE;
                     it begins a hold of this thread */
    H_LEAVE = 16,  /* INVOKE, RETURN: result; the hold is left to its lease */
    H_EVICT = 17,  /* INVOKE, RETURN: result; token: whose hold is taken away */
};

enum history_phase { H_INVOKE = 1, H_RETURN = 2 };

enum history_result {
    H_OK = 1,
    H_BUSY = 2, /* tried once, somebody else has it */
    H_TIMEOUT = 3,
    H_LATE = 4,     /* release: the cover had gone before */
    H_UNKNOWN = 5,  /* the outcome is not known; may have happened */
    H_FAILED = 6,   /* an error that says that nothing happened */
    H_REJECTED = 7, /* by the register: a token too old */
    H_ABSENT = 8,   /* adopt, evict: no such hold */
};

/* What kind of lock; decides which holds exclude each other. */
enum history_kind {
    H_MUTEX = 1,
    H_FAIR = 2,
    H_READ = 3,
    H_WRITE = 4,
    H_PERMITS = 5,   /* sum of permits <= limit */
    H_REENTRANT = 6, /* holds of one (process, thread) may overlap, with one token */
};

struct history_event {
    uint64_t t_ns; /* INVOKE: before the call; RETURN: after it; SEEN: before it */
    uint64_t token;
    uint64_t until_ns; /* the lock promises "held" until then; UINT64_MAX: no lease */
    uint64_t value;
    uint32_t lock; /* number of the lock */
    uint32_t hold; /* number of the attempt within this thread, from 1; ties the events
                      of one acquire, its sights and its release together */
    uint16_t permits;
    uint16_t limit;
    uint8_t op;
    uint8_t phase;
    uint8_t result;
    uint8_t kind;
    uint32_t place; /* FAIR: number in the store's queue, if known; else 0 */
    uint32_t code;  /* the library's own error code, negated, for people */
    uint32_t sum;   /* of the bytes before, see history_sum(); 0 is not a valid sum */
    uint32_t spare; /* 0 */
};
_Static_assert(sizeof(struct history_event) == 64, "one event, one cache line");

struct history_header {
    uint64_t magic;
    uint32_t process; /* number of the worker, from 1; a restarted one counts on */
    uint32_t thread;
    uint64_t capacity; /* events that fit */
    uint64_t pid;
    char label[32]; /* driver and store, for messages */
};

/* ---- Writing (one thread per history) -------------------------------------------- */

struct history;

/* Makes `path` (O_EXCL), sparse, with room for `capacity` events. NULL: errno. */
struct history *history_create(const char *path, uint32_t process, uint32_t thread,
                               uint64_t capacity, const char *label);
void history_close(struct history *history);

/* Appends; fills `sum`, and `t_ns` if it is 0. False if it is full. Never blocks. */
bool history_add(struct history *history, struct history_event event);
bool history_full(const struct history *history); /* less than 64 events are left */

uint64_t history_now(void);

/*
 * The sum that `event` has to have: FNV-1a over the 56 bytes before `sum`, taken as
 * seven words of 64 bits, little-endian. history.py computes the same:
 *
 *     h = 0xcbf29ce484222325
 *     for each word: h = ((h ^ word) * 0x100000001b3) mod 2^64
 *     sum = (h ^ (h >> 32)) mod 2^32, or 1 if that is 0
 */
uint32_t history_sum(const struct history_event *event);

/* ---- Reading --------------------------------------------------------------------- */

/* Calls `each` for every sound event of every *.hist in `directory`, file by file, in
 * the order written. -1: errno, or EBADMSG for a file that is none of ours. A torn last
 * event is dropped; a torn one in the middle is EBADMSG. A file whose writer was killed
 * before its header was there is empty. A file may be longer or shorter than its header
 * says: what is there counts. */
typedef void history_each(void *arg, const struct history_header *header,
                          const struct history_event *event);
int history_read(const char *directory, history_each *each, void *arg);

#endif
