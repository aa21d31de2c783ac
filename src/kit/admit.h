/* SPDX-License-Identifier: MIT */
/*
 * The admission rule of every kind, as a pure function of the tickets ahead.
 *
 * Walk the queue from the front. `hf__admit` says whether the next ticket is admitted,
 * given the tally of all tickets before it (admitted or not); `hf__tally_add` adds it
 * to the tally. A mutex (fair, reentrant, write) is admitted if no ticket is ahead; a
 * reader if no writer is ahead; permits if the sum ahead and its own fit into the
 * limit.
 */
#ifndef HF_KIT_ADMIT_H
#define HF_KIT_ADMIT_H

#include "../../include/holdfast/backend.h"

struct hf_tally {
    uint64_t permits; /* sum over permits and expiring */
    uint32_t readers;
    uint32_t exclusive; /* mutex, reentrant, fair, write */
};

/* What a waiting ticket has to watch, for stores that watch (ZooKeeper, etcd). */
enum hf_watch {
    HF_IN = 0,         /* none: admitted */
    HF_WATCH_PREVIOUS, /* the ticket right before it */
    HF_WATCH_WRITER,   /* the nearest exclusive ticket before it */
    HF_WATCH_QUEUE,    /* any change of the queue */
};

enum hf_watch hf__admit(const struct hf_tally *ahead, int32_t kind, uint32_t permits,
                        uint32_t limit);
void hf__tally_add(struct hf_tally *ahead, int32_t kind, uint32_t permits);

/* Kinds that may be used on one name belong to one family: 1 mutex, reentrant, fair; 2
 * read, write; 3 permits; 4 expiring; 5 latch; 6 cell; 0 for anything else. */
int hf__family(int32_t kind);

#endif
