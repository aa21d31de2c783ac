/* SPDX-License-Identifier: MIT */
/*
 * Ops under way: waited for, looked at, cancelled, freed.
 *
 * A seat takes an op out of the pool before it touches it, so that an op is waited for
 * by one thread at a time. An op with a callback ends there; what is left to do here is
 * to cancel it or to free it.
 */
#include "storm.h"

static bool is_closing(const struct op *op)
{
    return atomic_load(&op->ask.client->closing);
}

/* hf_op_wait() and hf_op_done() together tell an end from a wait that was too short: an
 * end that was taken cannot be taken again. */
static bool op_waited(struct op *op, int64_t timeout_ms, int *ret_rc,
                      hf_hold **ret_hold)
{
    hf_error why;
    int rc = CALL(op_wait, op->handle, timeout_ms, ret_hold, &why);
    *ret_rc = rc;
    if (rc != HF_ETIMEOUT)
        return true;
    COUNTED(op_done);
    if (!hf_op_done(op->handle))
        return false;
    int again = CALL(op_wait, op->handle, 0, ret_hold, &why);
    if (again != HF_EINVAL)
        *ret_rc = again;
    return true;
}

static void op_answered(struct op *op, int rc, hf_hold *handle)
{
    struct held held;
    event("op ended: %s, kind %d, token %llu", code_name(rc), op->ask.wants[0].kind,
          (unsigned long long)(handle ? hf_hold_token(handle, 0) : 0));
    if (op->what == OP_LATCH) {
        latch_answer(op, rc);
        return;
    }
    op->ask.cancelled = atomic_load(&op->cancelled);
    model_answer(&op->ask, rc, handle, &held);
    if (rc == 0 && !held_put(&held))
        release_now(&held, "release of what an op brought");
}

static void op_free_record(struct op *op)
{
    COUNTED(op_free);
    hf_op_free(op->handle);
    op_unref(op);
}

static bool op_try_end(struct op *op, int64_t timeout_ms)
{
    hf_hold *handle = NULL;
    int rc;
    if (!op_waited(op, timeout_ms, &rc, &handle))
        return false;
    atomic_store(&op->state, OP_ENDED);
    op_answered(op, rc, handle);
    op_free_record(op);
    return true;
}

/* Freed while under way: no caller hears how it ended. The model hears of it last:
 * until then the op may hold what another handle of its owner has. */
static void op_abandon(struct op *op)
{
    bool told = op->by_callback || op->what != OP_ACQUIRE;
    struct ask ask = { .client = NULL };
    if (!told)
        ask = op->ask;
    atomic_store(&op->cancelled, true);
    event("op_free%s", op->by_callback ? ", its callback comes" : "");
    if (!op->by_callback)
        atomic_store(&op->state, OP_ENDED);
    op_free_record(op);
    if (!told)
        model_abandon(&ask);
}

void op_finish(struct op *op)
{
    atomic_store(&op->cancelled, true);
    COUNTED(op_cancel);
    hf_op_cancel(op->handle);
    if (op->by_callback || in_callback) {
        op_abandon(op);
        return;
    }
    if (!op_try_end(op, 30000))
        violation(9, "a cancelled op has not ended after 30 s");
}

static void callback_op_act(struct op *op, uint64_t choice)
{
    COUNTED(op_done);
    bool done = hf_op_done(op->handle);
    if (choice < 3 && !done) {
        atomic_store(&op->cancelled, true);
        COUNTED(op_cancel);
        hf_op_cancel(op->handle);
    }
    bool endless = op->what == OP_ACQUIRE && op->ask.options.timeout_ms == HF_FOREVER;
    if (choice < 6 || done || endless || !waiting_put(op))
        op_abandon(op);
}

void act_op(struct rng *rng)
{
    static const int64_t timeouts[] = { 0, 0, 2, 20 };
    struct op *op = waiting_take(rng);
    uint64_t choice = rng_below(rng, 10);
    int64_t timeout = timeouts[rng_below(rng, 4)];
    if (!op)
        return;
    if (op->by_callback) {
        callback_op_act(op, choice);
        return;
    }
    if (choice == 0 || (is_closing(op) && choice < 5)) {
        op_abandon(op);
        return;
    }
    if (choice < 4) {
        atomic_store(&op->cancelled, true);
        COUNTED(op_cancel);
        hf_op_cancel(op->handle);
    }
    if (!op_try_end(op, timeout) && !waiting_put(op))
        op_finish(op);
}
