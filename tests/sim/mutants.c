/* SPDX-License-Identifier: MIT */
/*
 * Bugs planted in core from outside, by functions that the linker puts between two
 * objects of the library (-Wl,--wrap), and switched on at run time. Off, they only pass
 * on; those on the way of an offer also count.
 */
#include "sim.h"

#include <string.h>

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
    [MUTANT_OFFER_OWNER] = "offer-owner",
    [MUTANT_OFFER_KEPT] = "offer-kept",
    [MUTANT_OFFER_LEASE] = "offer-lease",
};

void __real_hf__claim_granted(struct claim *claim, const struct hf_grant *grant);
void __wrap_hf__claim_granted(struct claim *claim, const struct hf_grant *grant);
void __real_hf__claim_mark_ready(struct claim *claim);
void __wrap_hf__claim_mark_ready(struct claim *claim);
void __real_hf__renew_answer(struct claim *claim, enum hf_renewal answer,
                             const struct hf_lease *given);
void __wrap_hf__renew_answer(struct claim *claim, enum hf_renewal answer,
                             const struct hf_lease *given);

bool __real_hf__claim_fits(const struct claim *claim, int64_t ttl_ns);
bool __wrap_hf__claim_fits(const struct claim *claim, int64_t ttl_ns);
void __real_hf__hold_take(struct hf_hold *hold, uint32_t index, struct claim *claim);
void __wrap_hf__hold_take(struct hf_hold *hold, uint32_t index, struct claim *claim);
void __real_hf__op_wake(struct hf_op *op);
void __wrap_hf__op_wake(struct hf_op *op);
void __real_hf__acquire_undo(struct hf_op *op, int rc);
void __wrap_hf__acquire_undo(struct hf_op *op, int rc);
static const struct claim *taken; /* handed off, and its owner before that */
static struct owner former;
static bool undoing;

void __wrap_hf__claim_granted(struct claim *claim, const struct hf_grant *grant)
{
    struct hf_grant late = *grant;
    if (mutant == MUTANT_CORE_ARRIVAL)
        late.since_ns = hf__now();
    __real_hf__claim_granted(claim, &late);
}

void __wrap_hf__claim_mark_ready(struct claim *claim)
{
    bool kept = undoing && mutant == MUTANT_OFFER_KEPT && hf__claim_is_offered(claim);
    if (!kept && (mutant != MUTANT_CORE_NO_WORD || !dice_chance(5)))
        __real_hf__claim_mark_ready(claim);
}

void __wrap_hf__renew_answer(struct claim *claim, enum hf_renewal answer,
                             const struct hf_lease *given)
{
    if (mutant == MUTANT_CORE_DEAF && answer == HF_RENEWAL_LOST)
        answer = HF_RENEWED;
    __real_hf__renew_answer(claim, answer, given);
}

/* ---- offers ---------------------------------------------------------------------- */

void __wrap_hf__op_wake(struct hf_op *op)
{
    count.offers += op->woken;
    __real_hf__op_wake(op);
}

/* Core looks at the lease of a claim before an op takes it. */
bool __wrap_hf__claim_fits(const struct claim *claim, int64_t ttl_ns)
{
    bool offered = hf__claim_is_offered(claim) && claim->handoffs > 0;
    taken = offered ? claim : NULL;
    former = claim->owner;
    return (offered && mutant == MUTANT_OFFER_LEASE) ||
           __real_hf__claim_fits(claim, ttl_ns);
}

void __wrap_hf__hold_take(struct hf_hold *hold, uint32_t index, struct claim *claim)
{
    count.handoffs += taken == claim;
    if (mutant == MUTANT_OFFER_OWNER && taken == claim)
        claim->owner = former;
    taken = NULL;
    __real_hf__hold_take(hold, index, claim);
}

void __wrap_hf__acquire_undo(struct hf_op *op, int rc)
{
    undoing = rc == HF_ETIMEOUT;
    __real_hf__acquire_undo(op, rc);
    undoing = false;
}
