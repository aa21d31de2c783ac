/* SPDX-License-Identifier: MIT */
/* How a refusal is checked: its code, its sentence, and results that stay untouched. */
#ifndef CONTRACT_BADINPUT_H
#define CONTRACT_BADINPUT_H

#include <string.h>

#include "contract.h"

/* `call` mentions &why. The sentence must be there and say more than nothing. */
#define REFUSED(rc_code, call)                                                         \
    do {                                                                               \
        hf_error why = { 0 };                                                          \
        CHECK_RC(call, rc_code);                                                       \
        CHECK_EQ(why.code, rc_code);                                                   \
        CHECK(strlen(why.text) >= 8);                                                  \
        CHECK(strchr(why.text, '\n') == NULL);                                         \
    } while (0)

/* Where results would go; a stranger that must not be touched. */
struct results {
    hf_hold *hold;
    hf_op *op;
    hf_report *report;
    void *data;
    size_t len;
    uint64_t version;
    uint32_t count;
};

static inline struct results untouched(void)
{
    struct results results;
    memset(&results, 0x5a, sizeof results);
    return results;
}

static inline void check_untouched(const struct results *results)
{
    struct results expected = untouched();
    CHECK(memcmp(results, &expected, sizeof expected) == 0);
}

/* Names that nothing accepts; NULL at the end. NULL and too long ones are not in it. */
extern const char *const bad_names[];

#endif
