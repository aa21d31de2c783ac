/* SPDX-License-Identifier: MIT */
/*
 * The open lock files of one session: a descriptor serves one ticket at a time, and
 * waits in a cache, by name, between two tickets. For one thread at a time.
 */
#ifndef HF_FILE_LOCKFILE_H
#define HF_FILE_LOCKFILE_H

#include "../../../include/holdfast/backend.h"
#include "../../base/clock.h"
#include "../../base/list.h"
#include "../../kit/blocker.h"

#include <sys/types.h>

#define HF_LOCKFILE_BUCKETS 128
#define HF_LOCKFILE_IDLE_MAX 128

/* In microseconds: see hf__file_lockfile_current(). */
#define HF_LOCKFILE_AGAIN_US 4
#define HF_LOCKFILE_LOOK_US 50

struct lockfile {
    struct hf_list_node link; /* session: all files */
    struct hf_list_node open; /* process: all files, for fork() */
    struct lockfile *next;    /* session: idle files of one bucket */
    struct hf_ticket *ticket; /* the ticket that uses it; NULL: idle */
    int fd;                   /* -1: closed by fork(), in the child */
    int how;                  /* LOCK_EX or LOCK_SH */
    dev_t dev;
    ino_t ino;
    int64_t locked_us; /* when it was last locked; 0: never */
    int64_t seen_us;   /* when the path was last seen to lead here */
    int64_t tick;      /* the same on the coarse clock */
    struct hf_blocker blocker;
    bool used; /* used since it was last considered for closing */
    uint32_t name_hash;
    uint32_t name_len;
    const char *file; /* its name in the directory */
    char name[];      /* the lock's name, and then `file` */
};

struct lockfiles {
    int dir_fd;  /* -1: not open yet */
    mode_t mode; /* of new files */
    size_t idle_count;
    struct hf_list_node all;
    struct lockfile *buckets[HF_LOCKFILE_BUCKETS];
};

/* Empty, and without a directory: the caller sets dir_fd and mode. */
void hf__file_lockfiles_init(struct lockfiles *files);

/* Closes all files and the directory; no blocker may be running (in a forked child none
 * is). */
void hf__file_lockfiles_done(struct lockfiles *files);

/* An unlocked file for this ticket, from the cache or opened; it serves the ticket from
 * now on. Errors of hf__file_dir_open_file(), HF_EREFUSED, HF_ENOMEM. */
int hf__file_lockfile_take(struct lockfiles *files, struct hf_ticket *ticket,
                           struct lockfile **ret_file, hf_error *why);

/* Returns an unlocked file to the cache. */
void hf__file_lockfile_put(struct lockfiles *files, struct lockfile *file);

/* Closes the file for good. */
void hf__file_lockfile_free(struct lockfile *file);

/* Closes the descriptor and opens the path anew. */
int hf__file_lockfile_reopen(struct lockfiles *files, struct lockfile *file,
                             hf_error *why);

/* Whether the path still leads to the open file: a lock on a deleted or replaced file
 * excludes no other client. */
bool hf__file_lockfile_look(struct lockfiles *files, struct lockfile *file,
                            int64_t now_us);

/*
 * The same for a file that was just locked; mostly one comparison, because the look at
 * the path costs as much as the lock itself. The look is left out if this descriptor
 * was locked less than HF_LOCKFILE_AGAIN_US ago: programs that delete their lock files
 * lock the file, delete it and unlock it, and that takes longer. A program that deletes
 * the file of a lock that it does not hold breaks the lock whatever we do; that is
 * detected within HF_LOCKFILE_LOOK_US. The clock is the wall clock, which the token
 * needs anyway: if it is set back, the path is looked at once more.
 */
static inline bool hf__file_lockfile_current(struct lockfiles *files,
                                             struct lockfile *file, int64_t now_us)
{
    uint64_t idle = (uint64_t)now_us - (uint64_t)file->locked_us;
    uint64_t age = (uint64_t)now_us - (uint64_t)file->seen_us;

    file->locked_us = now_us;
    return (idle < HF_LOCKFILE_AGAIN_US && age < HF_LOCKFILE_LOOK_US) ||
           hf__file_lockfile_look(files, file, now_us);
}

/* The same for a release: a look counts until the coarse clock ticks. */
static inline bool hf__file_lockfile_still(struct lockfiles *files,
                                           struct lockfile *file)
{
    return file->tick == hf__now_coarse() ||
           hf__file_lockfile_look(files, file, hf__wall_us());
}

#endif
