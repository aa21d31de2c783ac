/* SPDX-License-Identifier: MIT */
/*
 * Bugs planted in core from outside, by functions that the linker puts between two
 * objects of the library (-Wl,--wrap), and switched on at run time. Off, they only pass
 * on.
 */
#include "sim.h"

#include "../../src/base/clock.h"
#include "../../src/core/client.h"

enum mutant mutant;
const char *const mutant_names[MUTANTS] = {
    [MUTANT_NONE] = "none",
    [MUTANT_DOUBLE_GRANT] = "double-grant",
    [MUTANT_TOKEN] = "token",
    [MUTANT_ARRIVAL] = "arrival",
    [MUTANT_LATE_RENEWAL] = "late-renewal",
    [MUTANT_KEEP_TICKET] = "keep-ticket",
    [MUTANT_NO_PUSH] = "no-push",
    [MUTANT_CORE_ARRIVAL] = "core-arrival",
    [MUTANT_CORE_NO_WORD] = "core-no-word",
    [MUTANT_CORE_DEAF] = "core-deaf",
};

void __real_hf__claim_granted(struct claim *claim, const struct hf_grant *grant);
void __wrap_hf__claim_granted(struct claim *claim, const struct hf_grant *grant);
void __real_hf__claim_tell(struct claim *claim);
void __wrap_hf__claim_tell(struct claim *claim);
void __real_hf__renew_answer(struct claim *claim, enum hf_renewal answer,
                             const struct hf_lease *given);
void __wrap_hf__renew_answer(struct claim *claim, enum hf_renewal answer,
                             const struct hf_lease *given);

void __wrap_hf__claim_granted(struct claim *claim, const struct hf_grant *grant)
{
    struct hf_grant late = *grant;
    if (mutant == MUTANT_CORE_ARRIVAL)
        late.since_ns = hf__now();
    __real_hf__claim_granted(claim, &late);
}

void __wrap_hf__claim_tell(struct claim *claim)
{
    if (mutant != MUTANT_CORE_NO_WORD || !dice_chance(5))
        __real_hf__claim_tell(claim);
}

void __wrap_hf__renew_answer(struct claim *claim, enum hf_renewal answer,
                             const struct hf_lease *given)
{
    if (mutant == MUTANT_CORE_DEAF && answer == HF_RENEWAL_LOST)
        answer = HF_RENEWED;
    __real_hf__renew_answer(claim, answer, given);
}
