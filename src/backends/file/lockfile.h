/* SPDX-License-Identifier: MIT */
/*
 * Open lock files of one session: a descriptor serves one ticket at a time, and rests
 * in a cache, by name, between two tickets. For one thread at a time.
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
    struct hf_list_node link; /* session: all of them */
    struct hf_list_node open; /* process: all of them, for fork() */
    struct lockfile *next;    /* session: idle ones of one bucket */
    struct hf_ticket *ticket; /* whom it serves; NULL: idle */
    int fd;                   /* -1: closed by fork(), in the child */
    int how;                  /* LOCK_EX or LOCK_SH */
    dev_t dev;
    ino_t ino;
    int64_t locked_us; /* when it was last locked; 0: never */
    int64_t seen_us;   /* when the path was last seen to lead here */
    int64_t tick;      /* the same by the coarse clock */
    struct hf_blocker blocker;
    bool used; /* since it was last considered for closing */
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

/* Empty, and without a directory: dir_fd and mode are for the caller to set. */
void hf__file_lockfiles_init(struct lockfiles *files);

/* Closes everything, the directory too; no blocker may be running (in a forked child
 * none is). */
void hf__file_lockfiles_done(struct lockfiles *files);

/* An unlocked file for this ticket, from the cache or opened; the ticket's from now on.
 * Errors of hf__file_dir_open_file(), HF_EREFUSED, HF_ENOMEM. */
int hf__file_lockfile_take(struct lockfiles *files, struct hf_ticket *ticket,
                           struct lockfile **ret_file, hf_error *why);

/* Gives an unlocked file back to the cache. */
void hf__file_lockfile_put(struct lockfiles *files, struct lockfile *file);

/* Closes the file for good. */
void hf__file_lockfile_free(struct lockfile *file);

/* Lets go of the descriptor and opens the path anew. */
int hf__file_lockfile_reopen(struct lockfiles *files, struct lockfile *file,
                             hf_error *why);

/* Whether the path still leads to the file we have open: a lock on a deleted or
 * replaced file excludes nobody. */
bool hf__file_lockfile_look(struct lockfiles *files, struct lockfile *file,
                            int64_t now_us);

/*
 * The same when it was just locked, mostly at the price of a comparison, for the look
 * costs as much as the lock itself. It is left out if this descriptor was locked less
 * than HF_LOCKFILE_AGAIN_US ago: that is hardly time for somebody else to lock the
 * file, delete it and unlock it, as those do who delete their lock files. Somebody who
 * deletes the file of a lock he does not hold breaks it whatever we do, and is noticed
 * within HF_LOCKFILE_LOOK_US. The clock is the wall clock, which the token needs
 * anyway: set back, it makes us look once more.
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

/* And for letting go of it: a look counts until the coarse clock ticks. */
static inline bool hf__file_lockfile_still(struct lockfiles *files,
                                           struct lockfile *file)
{
    return file->tick == hf__now_coarse() ||
           hf__file_lockfile_look(files, file, hf__wall_us());
}

#endif
