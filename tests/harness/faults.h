/* SPDX-License-Identifier: MIT */
/* Short words for the fault shim's plan, for scenarios that need NEED_FAULT. */
#ifndef HARNESS_FAULTS_H
#define HARNESS_FAULTS_H

#include "../../src/shims/fault.h"

static inline void fault_plan(enum hf_fault_op op, enum hf_fault_what what,
                              uint64_t first, uint64_t last, int64_t delay_ms)
{
    struct hf_fault fault = { op, what, first, last, delay_ms };
    hf__fault_plan(&fault, 1);
}

/* The answers to calls `first` to `last` from now get lost. */
static inline void fault_lose(enum hf_fault_op op, uint64_t first, uint64_t last)
{
    fault_plan(op, HF_FAULT_LOSE, first, last, 0);
}

static inline void fault_none(void)
{
    hf__fault_plan(NULL, 0);
}

#endif
