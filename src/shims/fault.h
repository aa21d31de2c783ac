/* SPDX-License-Identifier: MIT */
/*
 * A store that wraps a store and makes it fail as planned. For tests.
 *
 * hf__fault_register(inner) makes "fault+<scheme>" known for each scheme of `inner`.
 * There is one plan for the whole process; it applies to every session of every shim.
 * Without a plan every call and every answer is passed on unchanged.
 */
#ifndef HF_SHIMS_FAULT_H
#define HF_SHIMS_FAULT_H

#include "../../include/holdfast/backend.h"

enum hf_fault_op {
    HF_FAULT_ATTEMPT = 0,
    HF_FAULT_WITHDRAW = 1,
    HF_FAULT_RENEW = 2, /* one call, however many tickets */
    HF_FAULT_ASK = 3,
    HF_FAULT_EVENT = 4, /* an event about a hold: can be lost or delayed */
    HF_FAULT_OPS = 5,
};

enum hf_fault_what {
    HF_FAULT_LOSE = 1,        /* done; the answer is dropped */
    HF_FAULT_FAIL_BEFORE = 2, /* not done; the answer is HF_EUNREACHABLE or unknown */
    HF_FAULT_FAIL_AFTER = 3,  /* done; the answer is HF_EUNCERTAIN or unknown */
    HF_FAULT_DELAY = 4,       /* done; the answer waits `delay_ms` of the clock */
};

/* Calls `first` to `last` of `op`, counted from 1 since the plan was made. */
struct hf_fault {
    enum hf_fault_op op;
    enum hf_fault_what what;
    uint64_t first;
    uint64_t last;
    int64_t delay_ms;
};

#define HF_FAULT_MAX 16
#define HF_FAULT_ALWAYS UINT64_MAX

/* 0 also if it was registered before; else as hf_backend_register(). */
int hf__fault_register(const struct hf_backend *inner, hf_error *why);

/* Replaces the plan (copied; at most HF_FAULT_MAX) and counts from 0 again. */
void hf__fault_plan(const struct hf_fault *faults, size_t count);

/* How many calls of `op` there were since the plan was made. */
uint64_t hf__fault_calls(enum hf_fault_op op);

/* While paused no call reaches a store and no answer leaves it; both are kept in order
 * and passed on when the pause ends. */
void hf__fault_pause(bool paused);

#endif
