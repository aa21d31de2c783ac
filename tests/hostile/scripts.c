/* SPDX-License-Identifier: MIT */
/* What the scripts of all wires share. See hostile.h. */
#include "hostile.h"

void check_peak(int64_t before, int64_t most)
{
    int64_t grown = peak_bytes() - before;
    if (grown > most * PEAK_FACTOR)
        check_failed(__FILE__, __LINE__, "memory is bounded: it grew by %lld MiB",
                     (long long)(grown / MIB));
}

hf_op *queue_behind(struct trial *t)
{
    hf_want want = hf_mutex(t->name);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_op *op = NULL;
    options.timeout_ms = PATIENCE_MS;
    options.ttl_ms = LEASE_MS;
    CHECK_RC(hf_acquire_async(t->client, &want, 1, &options, NULL, NULL, &op, NULL), 0);
    EVENTUALLY(entries(t, HF_WAITER) == 1);
    return op;
}

void set_rewrite(struct trial *t, bool (*rewrite)(struct lane *, const char *, size_t))
{
    middle_lock(t->middle);
    t->plan->rewrite = rewrite;
    t->plan->armed = rewrite != NULL;
    middle_unlock(t->middle);
}

/* Connections that end as soon as they are made; then one lasts. */
static bool rewrite_reset(struct lane *lane, const char *data, size_t len)
{
    (void)data;
    (void)len;
    lane_end(lane, LANE_RESET);
    return true;
}

void never_lasts(struct trial *t)
{
    hf_want want = hf_mutex(t->name);
    hf_hold *hold;
    set_rewrite(t, rewrite_reset);
    for (int i = 0; i < 3; i++)
        CHECK(take(t, &want, 1, REQUEST_MS, &hold) != 0);
    set_rewrite(t, NULL);
}

void granted_after(struct trial *t, hf_hold *theirs, hf_op *op)
{
    hf_hold *ours = NULL;
    CHECK(!hf_op_done(op));
    CHECK_RC(hf_release(theirs, NULL), 0);
    begin(t);
    CHECK_RC(judged(t, hf_op_wait(op, HF_FOREVER, &ours, &t->why), PATIENCE_MS), 0);
    judge_hold(t, ours, LEASE_MS);
    hf_op_free(op);
    let_go(t, ours);
}
