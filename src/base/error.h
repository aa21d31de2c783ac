/* SPDX-License-Identifier: MIT */
/* Filling in hf_error. `why` may be NULL everywhere; the code is returned, so that a
 * failing path reads `return hf__fail(why, HF_EINVAL, "...")`. */
#ifndef HF_BASE_ERROR_H
#define HF_BASE_ERROR_H

#include "../../include/holdfast.h"

/* Sets code and text (cut to fit, control characters replaced by '?'), sys = 0. */
void hf__error_set(hf_error *why, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with an errno, whose sentence is appended after ": ". */
void hf__error_set_sys(hf_error *why, int code, int sys, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline int hf__code(int code)
{
    return code;
}

/* Macros, so that compiler and analyser see that the result is the code itself. */
#define hf__fail(why, code, ...)                                                       \
    (hf__error_set((why), (code), __VA_ARGS__), hf__code(code))
#define hf__fail_sys(why, code, sys, ...)                                              \
    (hf__error_set_sys((why), (code), (sys), __VA_ARGS__), hf__code(code))

/* The code's own sentence. */
#define hf__fail_code(why, code) hf__fail(why, code, "%s", hf_error_sentence(code))

#endif
