/* SPDX-License-Identifier: MIT */
/*
 * The admission rules, and nothing else: no I/O, no memory, no clock.
 *
 * Stores call them once for each ticket while they walk a queue from the front. Every
 * ticket ahead counts, admitted or not, so an admitted ticket stays admitted (tickets
 * ahead of it can only leave the queue) and none is overtaken: a reader behind a
 * waiting writer waits, and so does a small semaphore ticket behind a large one.
 *
 * Which ticket to watch follows from the rule. Every ticket ahead blocks a mutex, so
 * watching the last of them is enough. Writers alone block a reader; watching the
 * nearest is enough, because the reader is checked again when that writer has ended.
 * The end of any ticket ahead may admit a semaphore ticket, so it must watch all.
 *
 * An unknown kind blocks like a mutex and is never admitted.
 */
#include "admit.h"

int hf__family(int32_t kind)
{
    switch (kind) {
    case HF_MUTEX:
    case HF_REENTRANT:
    case HF_FAIR:
        return 1;
    case HF_READ:
    case HF_WRITE:
        return 2;
    case HF_PERMITS:
        return 3;
    case HF_EXPIRING:
        return 4;
    case HF_LATCH:
        return 5;
    case HF_CELL:
        return 6;
    default:
        return 0;
    }
}

enum hf_watch hf__admit(const struct hf_tally *ahead, int32_t kind, uint32_t permits,
                        uint32_t limit)
{
    switch (kind) {
    case HF_MUTEX:
    case HF_REENTRANT:
    case HF_FAIR:
    case HF_WRITE:
        return ahead->exclusive || ahead->readers || ahead->permits ? HF_WATCH_PREVIOUS
                                                                    : HF_IN;
    case HF_READ:
        return ahead->exclusive ? HF_WATCH_WRITER : HF_IN;
    case HF_PERMITS:
    case HF_EXPIRING:
        return ahead->permits + permits > limit ? HF_WATCH_QUEUE : HF_IN;
    default:
        return HF_WATCH_QUEUE;
    }
}

void hf__tally_add(struct hf_tally *ahead, int32_t kind, uint32_t permits)
{
    switch (kind) {
    case HF_PERMITS:
    case HF_EXPIRING:
        ahead->permits += permits;
        break;
    case HF_READ:
        ahead->readers++;
        break;
    default:
        ahead->exclusive++;
        break;
    }
}
