/* SPDX-License-Identifier: MIT */
/*
 * The state file, as all processes map it.
 *
 *   head (one page) | sessions | hash buckets | blocks of 192 bytes
 *
 * A block is free, a record (a name and its queue), an entry (a ticket in a queue), the
 * rest of a long name, or the ids of a latch. Block 0 is not used; index 0 means none.
 *
 * Blocks are the truth: a process may die anywhere, and recover.c rebuilds everything
 * else (buckets, lists, counts, free list, lock words of records that are SLOW) from
 * them. So the `type` of a block, and the `state` of an entry, are written after
 * everything else in it.
 *
 * What is read or written without the guard is accessed with __atomic: lock words, the
 * fast hold of a record, the state of sessions, and the first lines of the head.
 */
#ifndef HF_FILE_REGION_H
#define HF_FILE_REGION_H

#include <pthread.h>
#include <sys/types.h>

#include "../../kit/admit.h"

#define REGION_MAGIC UINT64_C(0x6c64796873666c68)
#define REGION_MAKING UINT64_C(0x6b616d6873666c68) /* not complete yet */
#define REGION_VERSION 2
#define REGION_HEAD_SIZE 4096

#define SESSION_COUNT 1024
#define BUCKET_COUNT 8192
#define BLOCKS_FIRST 1024
#define BLOCKS_MAX (1u << 20)

#define NAME_INLINE 40
#define NAME_MORE 176
#define IDS_COUNT 8

enum block_type {
    BLOCK_FREE = 0,
    BLOCK_RECORD = 1,
    BLOCK_ENTRY = 2,
    BLOCK_NAME = 3,
    BLOCK_IDS = 4,
};

enum entry_state {
    ENTRY_NONE = 0,
    ENTRY_WAITING = 1,
    ENTRY_GRANTED = 2,
};

enum entry_flag {
    ENTRY_DETACHED = 1 << 0,
    ENTRY_REVOKED = 1 << 1,
    ENTRY_TOLD = 1 << 2, /* its session has reported the grant */
};

enum session_state {
    SESSION_FREE = 0,
    SESSION_USED = 1,
    SESSION_CLOSED = 2, /* closed without the guard: another session cleans up */
};

enum { EVICTIONS_KEPT = 16 };

/* The hold of this ticket was evicted by that process. */
struct region_eviction {
    struct hf_id id;
    int32_t pid; /* 0: none, or reported to its client */
    char program[44];
};

struct region_head {
    uint64_t magic; /* written last */
    uint32_t version;
    uint32_t abi;
    unsigned char boot[16];
    uint64_t time_ns;         /* time namespace of its clock; 0: not known */
    uint64_t durable_ceiling; /* above all numbers given out, also after a crash */
    uint64_t recoveries;
    uint64_t next_seq;
    uint32_t block_count; /* blocks that the file has room for */
    uint32_t high_water;  /* blocks that were ever used */
    uint32_t free_first;
    uint32_t free_count;
    uint32_t cells;    /* there may be cells in the directory */
    uint64_t live_ino; /* inode of the file `live` that the sessions use; 0: none yet */

    _Alignas(64) uint64_t next_token;
    uint64_t ceiling; /* numbers below may be given out */

    _Alignas(64) pthread_mutex_t guard;
    int32_t
        guard_pid; /* the process that holds it, for messages; 0: none, or not known */
    uint64_t guard_space; /* the pid namespace of that process; 0: not known */

    /* A file that an older version made has zeros here. */
    _Alignas(64) struct region_eviction evictions[EVICTIONS_KEPT];
    uint32_t eviction_next;
};

struct region_session {
    uint32_t state;
    uint32_t gen;
    int32_t pid;
    uint32_t fifo;  /* its FIFO exists */
    uint64_t start; /* start time of the process; 0: not known */
    uint64_t space; /* pid namespace; 0: not known */
    char program[64];
    uint32_t fifo_full; /* its FIFO was full: it must check all its tickets */
    uint32_t unused[7];
};

/* The fields up to `serial` describe a fast hold. The holder writes them, `serial`
 * last. */
struct block_record {
    uint64_t token;
    struct hf_id id;
    int64_t since;
    uint32_t span;
    int32_t kind;
    uint32_t serial;
    uint32_t hash;
    uint64_t revoked; /* token of the fast hold that was asked to release */
    uint64_t newest;  /* the largest number granted here; a new one is larger */

    struct hf_tally tally; /* over the granted entries */
    int64_t soonest;       /* no lease of a granted entry ends before */
    uint32_t first, last;  /* all entries: granted ones first, then by arrival */
    uint32_t first_waiting;
    uint32_t granted, waiting;
    uint32_t strict;  /* waiting entries that must not be overtaken */
    uint32_t invited; /* the entry that INVITED or IMPATIENT is about */
    uint32_t limit;
    uint32_t left; /* of a latch; of a cell: 1 if there is one */
    uint32_t ids;  /* of a latch */
    uint32_t more; /* the rest of the name */
    uint16_t name_len;
    uint8_t family;
    uint8_t unused;
    char name[NAME_INLINE];
};

struct block_entry {
    uint32_t state;
    uint32_t record;
    uint32_t record_gen;
    uint32_t prev;
    uint64_t seq;
    struct hf_id id;
    uint64_t token;
    int64_t expires; /* HF_NEVER: no lease */
    int64_t ttl;
    int64_t since;
    uint32_t span; /* wanted while waiting, given once granted */
    uint32_t permits;
    int32_t kind;
    uint32_t flags;
    uint32_t waiter; /* its session's number for the waiter */
    uint32_t session;
    uint32_t session_gen;
    int32_t pid;
    char note[HF_NOTE_MAX + 1];
};

struct block_ids {
    struct hf_id id[IDS_COUNT];
    uint32_t result[IDS_COUNT];
    uint32_t next;
};

struct region_block {
    uint32_t type;
    uint32_t next; /* in its free list, bucket, queue, or name */
    uint64_t lock_word;
    union {
        struct block_record record;
        struct block_entry entry;
        struct block_ids ids;
        char name[NAME_MORE];
    };
};

_Static_assert(sizeof(struct region_head) <= REGION_HEAD_SIZE, "head fits its page");
_Static_assert(sizeof(struct region_session) == 128, "sessions do not share a line");
_Static_assert(sizeof(struct region_block) == 192, "a block is three lines");

struct region {
    int fd;                   /* -1: not open */
    struct region_head *head; /* NULL: not mapped */
    struct region_session *sessions;
    uint32_t *buckets;
    struct region_block *blocks;
    uint64_t first_token; /* if this session made the file: its first number; else 0 */
};

/* Opens, makes or (after a reboot) renews the state file of a directory and maps it;
 * waits until `until` of hf__now() while another process makes it. HF_ECORRUPT,
 * HF_EUNSUPPORTED, HF_EFULL, HF_EUNREACHABLE, HF_EREFUSED, HF_ESYSTEM. */
int hf__file_region_open(struct region *region, int dir_fd, mode_t mode, int64_t until,
                         hf_error *why);
void hf__file_region_close(struct region *region);

/* Whether its name still leads to the file that is open. */
bool hf__file_region_there(const struct region *region, int dir_fd);

/* Guard held: whether this session made it and no other session has used it since. */
bool hf__file_region_unused(const struct region *region);

/* Guard held: doubles the room for blocks. HF_EFULL, HF_ESYSTEM. */
int hf__file_region_grow(struct region *region, hf_error *why);

/* Raises the ceiling above `end`, on disk first; then numbers up to `end` may be given
 * out. */
void hf__file_region_raise(struct region *region, uint64_t end);

/* The first of `span` new numbers, for a token or a version. */
static inline uint64_t hf__file_region_draw(struct region *region, uint32_t span)
{
    struct region_head *head = region->head;
    uint64_t first = __atomic_fetch_add(&head->next_token, span, __ATOMIC_RELAXED);
    if (__builtin_expect(
            first + span > __atomic_load_n(&head->ceiling, __ATOMIC_ACQUIRE), 0))
        hf__file_region_raise(region, first + span);
    return first;
}

/* The largest number given out so far, to any session. */
static inline uint64_t hf__file_region_newest(const struct region *region)
{
    return __atomic_load_n(&region->head->next_token, __ATOMIC_RELAXED) - 1;
}

#endif
