/* SPDX-License-Identifier: MIT */
/* Filling in hf_error. `why` may be NULL everywhere; the code is returned, so that a
 * failing path reads `return hf__fail(why, HF_EINVAL, "...")`. */
#ifndef HF_BASE_ERROR_H
#define HF_BASE_ERROR_H

#include "../../include/holdfast.h"

/* Sets code and text (cut to fit, control characters replaced by '?'), sys = 0. */
int hf__fail(hf_error *why, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with an errno, whose sentence is appended after ": ". */
int hf__fail_sys(hf_error *why, int code, int sys, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The code's own sentence. */
int hf__fail_code(hf_error *why, int code);

#endif
