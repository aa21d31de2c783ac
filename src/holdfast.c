/* SPDX-License-Identifier: MIT */
/*
 * The functions of holdfast.h, and nothing else: check the arguments, enter the client,
 * call core, leave. Clients, acquires, holds and the loop are here; latches, cells and
 * inspection in holdfast_objects.c. What is in neither is not for applications.
 */
#include "api.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/mem.h"
#include "core/registry.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* ---- client ---------------------------------------------------------------------- */

int hf_open(const char *url, const hf_options *options, hf_client **ret_client,
            hf_error *why)
{
    hf_error own; /* the code is needed even if the caller does not want the words */
    int rc = check_out(ret_client, why);
    return rc != 0 ? rc : hf__client_open(url, options, ret_client, why ? why : &own);
}

void hf_close(hf_client *client)
{
    hf__client_close(client);
}

uint64_t hf_capabilities(const hf_client *handle)
{
    int rc;
    hf_client *client = hf__client_lock(handle, &rc, NULL);
    if (!client)
        return 0;
    uint64_t caps = client->caps;
    hf__client_unlock(client);
    return caps;
}

const char *hf_version(void)
{
    return TEXT(HF_VERSION_MAJOR) "." TEXT(HF_VERSION_MINOR) "." TEXT(HF_VERSION_PATCH);
}

const char *hf_stores(void)
{
    return hf__registry_names();
}

int hf_backend_register(const struct hf_backend *backend, hf_error *why)
{
    return hf__registry_add(backend, why);
}

/* ---- acquire --------------------------------------------------------------------- */

int hf_acquire(hf_client *handle, const hf_want *wants, size_t count,
               const hf_acquire_options *options, hf_hold **ret_hold, hf_error *why)
{
    int rc = check_out(ret_hold, why);
    hf_client *client = rc == 0 ? lock_to_wait(handle, &rc, why) : NULL;
    if (!client)
        return rc;
    rc = hf__acquire(client, wants, count, options, ret_hold, why);
    hf__client_unlock(client);
    return rc;
}

int hf_lock(hf_client *handle, const char *name, int64_t timeout_ms, hf_hold **ret_hold,
            hf_error *why)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_want want = hf_mutex(name);
    options.timeout_ms = timeout_ms;
    return hf_acquire(handle, &want, 1, &options, ret_hold, why);
}

int hf_release(hf_hold *handle, hf_error *why)
{
    int rc = 0;
    if (!handle)
        return 0;
    struct hf_hold *hold = hf__hold_lock(handle, &rc, why);
    if (rc == HF_ECLOSED)
        hf__hold_discard(hf__handle_object(handle, HANDLE_HOLD),
                         hf__handle_tag(handle));
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_release(hold, why);
    hf__client_unlock(client);
    return rc;
}

int hf_acquire_async(hf_client *handle, const hf_want *wants, size_t count,
                     const hf_acquire_options *options, hf_acquire_cb *callback,
                     void *user, hf_op **ret_op, hf_error *why)
{
    int rc;
    if (!callback && !ret_op)
        return hf__fail(why, HF_EINVAL, "neither a callback nor room for the op");
    hf_client *client = hf__client_lock(handle, &rc, why);
    if (!client)
        return rc;
    rc = hf__acquire_async(client, wants, count, options, callback, user, ret_op, why);
    hf__client_unlock(client);
    return rc;
}

int hf_release_async(hf_hold *handle, hf_done_cb *callback, void *user, hf_error *why)
{
    int rc = 0;
    if (!handle)
        return hf__fail(why, HF_EINVAL, "the hold is NULL");
    struct hf_hold *hold = hf__hold_lock(handle, &rc, why);
    if (rc == HF_ECLOSED)
        hf__hold_discard(hf__handle_object(handle, HANDLE_HOLD),
                         hf__handle_tag(handle));
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_release_async(hold, callback, user, why);
    hf__client_unlock(client);
    return rc;
}

/* ---- ops ------------------------------------------------------------------------- */

/* The op's client, locked, if it still is the same one. */
static hf_client *op_lock(const hf_op *op)
{
    hf_client *client = op->client;
    if (hf__forked(client->fork_mark))
        return NULL;
    pthread_mutex_lock(&client->lock);
    if (client->handle.generation == op->client_tag)
        return client;
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

void hf_op_cancel(hf_op *op)
{
    hf_client *client = op ? op_lock(op) : NULL;
    if (!client)
        return;
    if (op->kind == OP_ACQUIRE || op->kind == OP_LATCH)
        hf__acquire_undo(op, HF_ECANCELLED);
    hf__client_unlock(client);
}

static int op_take_result(hf_op *op, hf_hold **ret_hold, hf_error *why)
{
    op->delivered = true;
    if (op->rc != 0 && why)
        *why = op->why;
    if (op->rc == 0 && op->hold && ret_hold) {
        *ret_hold = hf__hold_handle(op->hold);
        op->hold = NULL;
    }
    return op->rc;
}

static int op_wait_check(const hf_op *op, int64_t timeout_ms,
                         const hf_hold *const *hold, hf_error *why)
{
    if (!op)
        return hf__fail(why, HF_EINVAL, "the op is NULL");
    if (op->callback.done)
        return hf__fail(why, HF_EINVAL,
                        "this op has a callback, which gets its result");
    if (op->kind == OP_ACQUIRE && !hold)
        return hf__fail(why, HF_EINVAL, "there is nowhere to put the hold");
    return check_timeout(timeout_ms, why);
}

int hf_op_wait(hf_op *op, int64_t timeout_ms, hf_hold **ret_hold, hf_error *why)
{
    int rc = op_wait_check(op, timeout_ms, (const hf_hold *const *)ret_hold, why);
    if (rc != 0)
        return rc;
    if (hf__in_callback(op->client))
        return hf__fail_code(why, HF_ECALLBACK);
    if (hf__forked(op->client->fork_mark))
        return hf__fail_code(why, HF_EFORKED);
    hf_client *client = op_lock(op);
    if (!client)
        return op->rc != 0 ? op_take_result(op, ret_hold, why)
                           : hf__fail_code(why, HF_ECLOSED);
    if (op->asleep)
        rc = hf__fail(why, HF_EINVAL, "another thread waits for this op");
    else if (op->delivered)
        rc = hf__fail(why, HF_EINVAL, "the result of this op was taken before");
    else if (hf__op_await(op, hf__deadline(hf__now(), timeout_ms)) != 0)
        rc = hf__fail(why, HF_ETIMEOUT, "the operation is still under way");
    else
        rc = op_take_result(op, ret_hold, why);
    hf__client_unlock(client);
    return rc;
}

bool hf_op_done(const hf_op *op)
{
    hf_client *client = op ? op_lock(op) : NULL;
    bool done = !client || op->finished;
    if (client)
        hf__client_unlock(client);
    return done;
}

void hf_op_free(hf_op *op)
{
    hf_client *client = op ? op_lock(op) : NULL;
    if (op && !client) {
        if (hf__forked(op->client->fork_mark))
            hf__op_forget_in_child(op);
        hf__op_free(op);
        return;
    }
    if (!client)
        return;
    op->abandoned = true;
    if (!op->finished) {
        hf__acquire_undo(op, HF_ECANCELLED);
    } else if ((op->delivered || !op->callback.done) && !op->calling) {
        if (op->hold)
            hf__hold_drop(op->hold);
        op->hold = NULL;
        hf__op_free(op);
    }
    hf__client_unlock(client);
}

/* ---- the hold -------------------------------------------------------------------- */

size_t hf_hold_count(const hf_hold *handle)
{
    return hf__hold_count(handle);
}

uint64_t hf_hold_token(const hf_hold *handle, size_t index)
{
    return hf__hold_token(handle, index);
}

enum hf_state hf_hold_state(const hf_hold *handle)
{
    struct hf_hold *hold = hf__hold_peek(handle);
    int64_t left;
    return hold ? hf__hold_state(hold, &left) : HF_LOST;
}

int64_t hf_hold_left_ms(const hf_hold *handle)
{
    struct hf_hold *hold = hf__hold_peek(handle);
    int64_t left = 0;
    if (hold)
        hf__hold_state(hold, &left);
    return left;
}

int hf_hold_verify(hf_hold *handle, hf_error *why)
{
    int rc;
    struct hf_hold *hold = lock_hold_to_wait(handle, &rc, why);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_check(hold, 0, false, why);
    hf__client_unlock(client);
    return rc;
}

int hf_hold_watch(hf_hold *handle, hf_watch_cb *callback, void *user, hf_error *why)
{
    int rc;
    struct hf_hold *hold = hf__hold_lock(handle, &rc, why);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_watch(hold, callback, user, why);
    hf__client_unlock(client);
    return rc;
}

int hf_hold_extend(hf_hold *handle, int64_t ttl_ms, hf_error *why)
{
    int rc;
    if (ttl_ms < 1 || ttl_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL, "the lease is not between 1 ms and 10 years");
    struct hf_hold *hold = lock_hold_to_wait(handle, &rc, why);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_check(hold, ttl_ms * HF_NS_PER_MS, true, why);
    hf__client_unlock(client);
    return rc;
}

int hf_hold_downgrade(hf_hold *handle, size_t index, hf_error *why)
{
    int rc;
    struct hf_hold *hold = lock_hold_to_wait(handle, &rc, why);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__downgrade(hold, index, why);
    hf__client_unlock(client);
    return rc;
}

int hf_hold_id(hf_hold *handle, size_t index, char *buffer, size_t size, hf_error *why)
{
    int rc = check_out(buffer, why);
    struct hf_hold *hold = rc == 0 ? hf__hold_lock(handle, &rc, why) : NULL;
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_text_id(hold, index, buffer, size, why);
    hf__client_unlock(client);
    return rc;
}

int hf_adopt(hf_client *handle, const char *id, const hf_acquire_options *given,
             hf_hold **ret_hold, hf_error *why)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    int rc = check_out(ret_hold, why);
    hf_client *client = rc == 0 ? lock_to_wait(handle, &rc, why) : NULL;
    if (!client)
        return rc;
    rc = hf__options_check(client, given, &options, why);
    if (rc == 0)
        rc = hf__adopt(client, id, &options, ret_hold, why);
    hf__client_unlock(client);
    return rc;
}

int hf_hold_leave(hf_hold *handle, hf_error *why)
{
    int rc;
    struct hf_hold *hold = hf__hold_lock(handle, &rc, why);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_leave(hold, why);
    hf__client_unlock(client);
    return rc;
}

/* ---- your own event loop --------------------------------------------------------- */

static hf_client *lock_user_driver(hf_client *handle, int *ret_rc, hf_error *why)
{
    hf_client *client = lock_to_wait(handle, ret_rc, why);
    if (!client || client->user_driver)
        return client;
    hf__client_unlock(client);
    *ret_rc = hf__fail(why, HF_EINVAL, "the client was not opened with HF_DRIVER_USER");
    return NULL;
}

int hf_dispatch_fd(hf_client *handle, hf_error *why)
{
    int rc;
    hf_client *client = lock_user_driver(handle, &rc, why);
    if (!client)
        return rc;
    rc = hf__need_thread(client, why);
    int fd = client->outer_fd;
    hf__client_unlock(client);
    return rc == 0 ? fd : rc;
}

int hf_dispatch(hf_client *handle, hf_error *why)
{
    int rc;
    hf_client *client = lock_user_driver(handle, &rc, why);
    if (!client)
        return rc;
    rc = hf__need_thread(client, why);
    if (rc == 0)
        rc = hf__dispatch(client);
    hf__client_unlock(client);
    return rc;
}
