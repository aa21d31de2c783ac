/* SPDX-License-Identifier: MIT */
/* The scenarios, one table per file; each ends with a NULL name. */
#ifndef CONTRACT_H
#define CONTRACT_H

#include "../harness/harness.h"

extern const struct scenario scenarios_mutex[];     /* exclusion, alone and crowded */
extern const struct scenario scenarios_names[];     /* which names are one lock */
extern const struct scenario scenarios_waiting[];   /* timeouts, cancel */
extern const struct scenario scenarios_deadline[];  /* calls end in time */
extern const struct scenario scenarios_async[];     /* ops, callbacks */
extern const struct scenario scenarios_loop[];      /* the user's own loop */
extern const struct scenario scenarios_life[];      /* close, fork */
extern const struct scenario scenarios_process[];   /* other processes, and their end */
extern const struct scenario scenarios_lease[];     /* expiry, renewal, max_hold */
extern const struct scenario scenarios_token[];     /* fencing */
extern const struct scenario scenarios_loss[];      /* watch, evict, revoke */
extern const struct scenario scenarios_adopt[];     /* detached holds, ids */
extern const struct scenario scenarios_inspect[];   /* reports */
extern const struct scenario scenarios_rw[];        /* read and write */
extern const struct scenario scenarios_semaphore[]; /* permits and expiring permits */
extern const struct scenario scenarios_latch[];
extern const struct scenario scenarios_cell[];
extern const struct scenario scenarios_multi[];     /* several names; stripes */
extern const struct scenario scenarios_order[];     /* fair, reentrant */
extern const struct scenario scenarios_handoff[];   /* many waiters in one process */
extern const struct scenario scenarios_entangled[]; /* calls in each other's way */
extern const struct scenario scenarios_fault[];     /* lost replies, failures */
extern const struct scenario scenarios_silent[];    /* late answers, or none */
extern const struct scenario scenarios_badinput[];
extern const struct scenario scenarios_badobject[];
extern const struct scenario scenarios_badurl[];
extern const struct scenario scenarios_memory[]; /* every allocation fails once */

#endif
