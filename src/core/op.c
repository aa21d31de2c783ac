/* SPDX-License-Identifier: MIT */
/*
 * Operations: made, timed, finished exactly once.
 *
 * Under the client's lock. hf__op_finish is the only way an op ends; it wakes the
 * thread that waits, or queues the callback. The op of a blocking call is on the
 * caller's stack; others are freed when they are finished and hf_op_free was called.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"

/* A store that has been slow to answer gets more time, within bounds. */
int64_t hf__confirm_until(const hf_client *client)
{
    int64_t wait = client->confirm_ns;
    if (!wait)
        wait = 4 * client->answer_ns;
    if (!client->confirm_ns && wait < HF_DEFAULT_CONFIRM_MS * HF_NS_PER_MS)
        wait = HF_DEFAULT_CONFIRM_MS * HF_NS_PER_MS;
    if (!client->confirm_ns && wait > HF_CONFIRM_MAX_MS * HF_NS_PER_MS)
        wait = HF_CONFIRM_MAX_MS * HF_NS_PER_MS;
    return hf__now() + wait;
}

/* A hold that was lost before stays lost; any other outcome is open. */
void hf__op_give_up(struct hf_op *op)
{
    for (HF_EACH(link, &op->client->claims)) {
        struct claim *claim = HF_CONTAINER(link, struct claim, all);
        if (claim->withdraw_op == op)
            claim->withdraw_op = NULL; /* its timer repeats the withdrawal */
    }
    op->pending = 0;
    hf__need_thread(op->client, NULL);
    if (op->kind == OP_RELEASE && op->rc == HF_ELOST) {
        hf__op_finish(op, op->rc);
        return;
    }
    hf__op_finish(op,
                  hf__fail(&op->why, HF_EUNCERTAIN,
                           "the store did not confirm the withdrawal in time; it is "
                           "being repeated"));
}

static void acquire_timeout(struct hf_op *op)
{
    struct claim *claim = op->claims[op->at];
    int rc = HF_ETIMEOUT;
    if (claim->unreachable || op->timeout_ms == 0) /* the store has not answered */
        rc = HF_EUNREACHABLE;
    if (op->why.code != rc)
        hf__fail_code(&op->why, rc);
    hf__acquire_undo(op, rc);
}

static void op_timeout(void *arg)
{
    struct hf_op *op = arg;
    if (op->undoing || op->kind == OP_RELEASE)
        hf__op_give_up(op);
    else if (op->kind == OP_ACQUIRE || op->kind == OP_LATCH)
        acquire_timeout(op);
    else if (op->kind == OP_REQUEST)
        hf__request_timeout(op);
    else
        hf__check_timeout(op);
}

/* Field by field: most of an op is room that few acquires use. */
void hf__op_init(struct hf_op *op, hf_client *client, enum op_kind kind)
{
    op->client = client;
    op->client_tag = client->handle.generation;
    op->kind = (uint8_t)kind;
    op->link = op->all = (struct hf_list_node){ NULL, NULL };
    op->timer = (struct hf_timer){ .callback = op_timeout, .arg = op };
    op->heap = op->undoing = op->finished = op->delivered = op->abandoned = false;
    op->asleep = op->driving = op->extend = op->reserved = op->woken = false;
    op->calling = op->outcome_open = op->resend = false;
    op->deadline = op->timeout_ms = 0;
    op->rc = 0;
    op->pending = op->count = op->at = op->tries = 0;
    op->reentrant = op->counted = 0;
    op->claims = NULL;
    op->hold = NULL;
    op->callback.done = NULL;
    op->wake = NULL;
    op->why.code = 0;
    op->why.text[0] = '\0';
}

struct hf_op *hf__op_new(hf_client *client, enum op_kind kind)
{
    struct hf_op *op = hf__alloc(sizeof(*op));
    if (op)
        hf__op_init(op, client, kind);
    return op;
}

/* Room for the op's timer, so that setting it cannot fail. */
int hf__op_reserve_timer(struct hf_op *op)
{
    int rc = hf__loop_reserve(&op->client->loop);
    op->reserved = rc == 0;
    return rc;
}

void hf__op_timer(struct hf_op *op, int64_t at_ns)
{
    if (at_ns == HF_NEVER)
        hf__loop_stop_timer(&op->client->loop, &op->timer);
    else
        hf__loop_set_timer(&op->client->loop, &op->timer, at_ns);
}

void hf__op_wake(struct hf_op *op)
{
    if (op->driving && !op->client->loop.sleeping)
        return; /* the caller of this function is that thread */
    if (op->driving)
        hf__loop_kick(&op->client->loop);
    else if (op->wake)
        pthread_cond_signal(op->wake);
}

void hf__op_finish(struct hf_op *op, int rc)
{
    hf_client *client = op->client;
    if (op->finished)
        return;
    op->finished = true;
    op->rc = rc;
    if (rc != 0 && op->hold) {
        hf__hold_free(op->hold);
        op->hold = NULL;
    }
    if (op->timer.slot)
        hf__op_timer(op, HF_NEVER);
    if (op->reserved)
        hf__loop_unreserve(&client->loop);
    hf__list_remove(&op->link);
    hf__list_remove(&op->all);
    if (op->heap && (op->callback.done || op->abandoned)) {
        hf__list_push_back(&client->calls, &op->link);
        hf__signal_calls(client);
    } else if (op->asleep) {
        hf__op_wake(op);
    }
}

/* In a forked child hf_close() frees what the client had, unless a thread of the parent
 * was inside: then neither the client nor the op is touched. */
void hf__op_forget_in_child(struct hf_op *op)
{
    hf_client *client = op->client;
    if (pthread_mutex_trylock(&client->lock) != 0)
        return;
    if (client->handle.generation == op->client_tag) {
        hf__list_remove(&op->link);
        hf__list_remove(&op->all);
        hf__loop_stop_timer(&client->loop, &op->timer);
        for (uint32_t i = 0; op->hold && i < op->hold->count; i++)
            hf__list_remove(&op->hold->parts[i].link);
    }
    pthread_mutex_unlock(&client->lock);
}

/* With its hold, if no caller took that and the client is closed. */
void hf__op_free(struct hf_op *op)
{
    if (op->hold)
        hf__hold_discard(op->hold, op->hold->handle.generation);
    hf__op_free_claims(op);
    hf__free(op);
}

void hf__op_free_claims(struct hf_op *op)
{
    if (op->claims != &op->one)
        hf__free(op->claims);
    op->claims = NULL;
}
