/* SPDX-License-Identifier: MIT */
/*
 * Every function of holdfast.h, and nothing else: check the arguments, enter the client,
 * call core, leave. What is not in this file is not for applications.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/client.h"
#include "core/registry.h"
#include "core/report.h"

#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* Every call that may wait begins like this. */
static hf_client *enter_to_wait(hf_client *handle, int *ret_rc, hf_error *why)
{
    if (hf__in_callback(hf__handle_object(handle)) && handle) {
        *ret_rc = hf__fail_code(why, HF_ECALLBACK);
        return NULL;
    }
    return hf__client_enter(handle, ret_rc, why);
}

static struct hf_hold *enter_hold_to_wait(hf_hold *handle, int *ret_rc, hf_error *why)
{
    struct hf_hold *hold = hf__hold_enter(handle, ret_rc, why);
    if (hold && hf__in_callback(hold->client)) {
        hf__client_leave(hold->client);
        *ret_rc = hf__fail_code(why, HF_ECALLBACK);
        return NULL;
    }
    return hold;
}

static int check_out(const void *pointer, hf_error *why)
{
    return pointer ? 0 : hf__fail(why, HF_EINVAL, "there is nowhere to put the result");
}

static int check_timeout(int64_t timeout_ms, hf_error *why)
{
    if (timeout_ms < HF_FOREVER || timeout_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL, "the timeout is not 0, HF_FOREVER, or 1 ms to "
                                        "10 years");
    return 0;
}

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
    hf_client *client = hf__client_enter(handle, &rc, NULL);
    if (!client)
        return 0;
    uint64_t caps = client->caps;
    hf__client_leave(client);
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
               const hf_acquire_options *given, hf_hold **ret_hold, hf_error *why)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    int rc = check_out(ret_hold, why);
    hf_client *client = rc == 0 ? enter_to_wait(handle, &rc, why) : NULL;
    if (!client)
        return rc;
    rc = hf__want_check(client, wants, count, why);
    if (rc == 0)
        rc = hf__options_check(client, given, &options, why);
    if (rc == 0)
        rc = hf__acquire(client, wants, count, &options, ret_hold, why);
    hf__client_leave(client);
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

/* A hold of a client that is closed: nothing to give up but the handle. */
static void free_stale(hf_hold *handle)
{
    struct hf_hold *hold = hf__hold_peek(handle);
    uint16_t tag = hf__handle_tag(handle);
    if (!hold || !atomic_compare_exchange_strong(&hold->handle.generation, &tag,
                                                 (uint16_t)(tag + 1)))
        return;
    hf__free(hold->watch);
    if (hold->parts != &hold->one)
        hf__free(hold->parts);
    hf__handle_shelve(hold);
}

int hf_release(hf_hold *handle, hf_error *why)
{
    int rc = 0;
    if (!handle)
        return 0;
    struct hf_hold *hold = hf__hold_enter(handle, &rc, why);
    if (rc == HF_ECLOSED)
        free_stale(handle);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_release(hold, why);
    hf__client_leave(client);
    return rc;
}

int hf_acquire_async(hf_client *handle, const hf_want *wants, size_t count,
                     const hf_acquire_options *given, hf_acquire_cb *callback, void *user,
                     hf_op **ret_op, hf_error *why)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    int rc;
    if (!callback && !ret_op)
        return hf__fail(why, HF_EINVAL, "neither a callback nor room for the op");
    hf_client *client = hf__client_enter(handle, &rc, why);
    if (!client)
        return rc;
    rc = hf__want_check(client, wants, count, why);
    if (rc == 0)
        rc = hf__options_check(client, given, &options, why);
    if (rc == 0)
        rc = hf__acquire_async(client, wants, count, &options, callback, user, ret_op,
                               why);
    hf__client_leave(client);
    return rc;
}

int hf_release_async(hf_hold *handle, hf_done_cb *callback, void *user, hf_error *why)
{
    int rc = 0;
    if (!handle)
        return hf__fail(why, HF_EINVAL, "the hold is NULL");
    struct hf_hold *hold = hf__hold_enter(handle, &rc, why);
    if (rc == HF_ECLOSED)
        free_stale(handle);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_release_async(hold, callback, user, why);
    hf__client_leave(client);
    return rc;
}

/* ---- ops ------------------------------------------------------------------------- */

/* The op's client, locked, if it still is the same one. */
static hf_client *op_enter(const hf_op *op)
{
    hf_client *client = op->client;
    pthread_mutex_lock(&client->lock);
    if (client->handle.generation == op->client_tag)
        return client;
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

void hf_op_cancel(hf_op *op)
{
    hf_client *client = op ? op_enter(op) : NULL;
    if (!client)
        return;
    if (op->kind == OP_ACQUIRE || op->kind == OP_LATCH)
        hf__acquire_undo(op, HF_ECANCELLED);
    hf__client_leave(client);
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

static int op_wait_check(const hf_op *op, int64_t timeout_ms, const hf_hold *const *hold,
                         hf_error *why)
{
    if (!op)
        return hf__fail(why, HF_EINVAL, "the op is NULL");
    if (op->callback.done)
        return hf__fail(why, HF_EINVAL, "the end of this op is told to its callback");
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
    hf_client *client = op_enter(op);
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
    hf__client_leave(client);
    return rc;
}

bool hf_op_done(const hf_op *op)
{
    hf_client *client = op ? op_enter(op) : NULL;
    bool done = !client || op->finished;
    if (client)
        hf__client_leave(client);
    return done;
}

void hf_op_free(hf_op *op)
{
    hf_client *client = op ? op_enter(op) : NULL;
    if (op && !client) {
        hf__op_free(op);
        return;
    }
    if (!client)
        return;
    op->abandoned = true;
    if (!op->finished) {
        hf__acquire_undo(op, HF_ECANCELLED);
    } else if (op->delivered || !op->callback.done) {
        if (op->hold && op->rc == 0)
            hf__hold_drop(op->hold);
        else if (op->hold)
            hf__hold_free(op->hold);
        hf__op_free(op);
    }
    hf__client_leave(client);
}

/* ---- the hold -------------------------------------------------------------------- */

size_t hf_hold_count(const hf_hold *handle)
{
    const struct hf_hold *hold = hf__hold_peek(handle);
    return hold ? hold->count : 0;
}

uint64_t hf_hold_token(const hf_hold *handle, size_t index)
{
    const struct hf_hold *hold = hf__hold_peek(handle);
    return hold && index < hold->count ? hold->parts[index].token : 0;
}

enum hf_state hf_hold_state(const hf_hold *handle)
{
    const struct hf_hold *hold = hf__hold_peek(handle);
    int64_t left;
    return hold ? hf__hold_state(hold, &left) : HF_LOST;
}

int64_t hf_hold_left_ms(const hf_hold *handle)
{
    const struct hf_hold *hold = hf__hold_peek(handle);
    int64_t left = 0;
    if (hold)
        hf__hold_state(hold, &left);
    return left;
}

int hf_hold_verify(hf_hold *handle, hf_error *why)
{
    int rc;
    struct hf_hold *hold = enter_hold_to_wait(handle, &rc, why);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_ask(hold, 0, false, why);
    hf__client_leave(client);
    return rc;
}

int hf_hold_watch(hf_hold *handle, hf_watch_cb *callback, void *user, hf_error *why)
{
    int rc;
    struct hf_hold *hold = hf__hold_enter(handle, &rc, why);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_watch(hold, callback, user, why);
    hf__client_leave(client);
    return rc;
}

int hf_hold_extend(hf_hold *handle, int64_t ttl_ms, hf_error *why)
{
    int rc;
    if (ttl_ms < 1 || ttl_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL, "the lease is not between 1 ms and 10 years");
    struct hf_hold *hold = enter_hold_to_wait(handle, &rc, why);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_ask(hold, ttl_ms * HF_NS_PER_MS, true, why);
    hf__client_leave(client);
    return rc;
}

int hf_hold_downgrade(hf_hold *handle, size_t index, hf_error *why)
{
    int rc;
    struct hf_hold *hold = enter_hold_to_wait(handle, &rc, why);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__downgrade(hold, index, why);
    hf__client_leave(client);
    return rc;
}

int hf_hold_id(hf_hold *handle, size_t index, char *buffer, size_t size, hf_error *why)
{
    int rc = check_out(buffer, why);
    struct hf_hold *hold = rc == 0 ? hf__hold_enter(handle, &rc, why) : NULL;
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_text_id(hold, index, buffer, size, why);
    hf__client_leave(client);
    return rc;
}

int hf_adopt(hf_client *handle, const char *id, const hf_acquire_options *given,
             hf_hold **ret_hold, hf_error *why)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    int rc = check_out(ret_hold, why);
    hf_client *client = rc == 0 ? enter_to_wait(handle, &rc, why) : NULL;
    if (!client)
        return rc;
    rc = hf__options_check(client, given, &options, why);
    if (rc == 0)
        rc = hf__adopt(client, id, &options, ret_hold, why);
    hf__client_leave(client);
    return rc;
}

int hf_hold_leave(hf_hold *handle, hf_error *why)
{
    int rc;
    struct hf_hold *hold = hf__hold_enter(handle, &rc, why);
    if (!hold)
        return rc;
    hf_client *client = hold->client;
    rc = hf__hold_leave(hold, why);
    hf__client_leave(client);
    return rc;
}

/* ---- latch, cell, look and repair ------------------------------------------------- */

/* Enters, sends one request about a name, leaves. */
static int ask(hf_client *handle, struct asked *asked, int verb, const char *name,
               uint64_t number, hf_error *why)
{
    int rc;
    size_t len;
    hf_client *client = enter_to_wait(handle, &rc, why);
    if (!client)
        return rc;
    if (!asked->request.prefix)
        rc = hf__name_check(name, &len, why);
    else
        rc = 0;
    if (rc == 0)
        rc = hf__request_named(client, asked, verb, name, number, why);
    hf__client_leave(client);
    return rc;
}

int hf_latch_set(hf_client *client, const char *name, uint32_t count, hf_error *why)
{
    struct asked asked = { .no_memory = false };
    if (count == 0)
        return hf__fail(why, HF_EINVAL, "a latch counts down from at least 1");
    return ask(client, &asked, HF_LATCH_SET, name, count, why);
}

int hf_latch_count(hf_client *client, const char *name, uint32_t *ret_count,
                   hf_error *why)
{
    struct asked asked = { .no_memory = false };
    int rc = check_out(ret_count, why);
    if (rc == 0)
        rc = ask(client, &asked, HF_LATCH_GET, name, 0, why);
    if (rc == 0)
        *ret_count = (uint32_t)asked.request.result;
    return rc;
}

int hf_latch_count_down(hf_client *client, const char *name, uint32_t by,
                        uint32_t *ret_left, hf_error *why)
{
    struct asked asked = { .no_memory = false };
    if (by == 0)
        return hf__fail(why, HF_EINVAL, "a latch is counted down by at least 1");
    int rc = ask(client, &asked, HF_LATCH_DOWN, name, by, why);
    if (rc == 0 && ret_left)
        *ret_left = (uint32_t)asked.request.result;
    return rc;
}

static int start_latch_wait(hf_client *handle, const char *name, int64_t timeout_ms,
                            bool background, hf_done_cb *callback, void *user,
                            hf_op **ret_op, hf_error *why)
{
    size_t len;
    int rc = hf__name_check(name, &len, why);
    if (rc == 0)
        rc = check_timeout(timeout_ms, why);
    hf_client *client = rc == 0 ? hf__client_enter(handle, &rc, why) : NULL;
    if (!client)
        return rc;
    if (client->caps & HF_CAP_LATCH)
        rc = hf__latch_wait(client, name, timeout_ms, background, callback, user, ret_op,
                            why);
    else
        rc = hf__fail(why, HF_EUNSUPPORTED, "the %s store has no latches here",
                      client->store->name);
    hf__client_leave(client);
    return rc;
}

int hf_latch_wait(hf_client *client, const char *name, int64_t timeout_ms, hf_error *why)
{
    hf_op *op;
    if (client && hf__in_callback(hf__handle_object(client)))
        return hf__fail_code(why, HF_ECALLBACK);
    int rc = start_latch_wait(client, name, timeout_ms, false, NULL, NULL, &op, why);
    if (rc != 0)
        return rc;
    rc = hf_op_wait(op, HF_FOREVER, NULL, why);
    hf_op_free(op);
    return rc;
}

int hf_latch_wait_async(hf_client *client, const char *name, int64_t timeout_ms,
                        hf_done_cb *callback, void *user, hf_op **ret_op, hf_error *why)
{
    if (!callback && !ret_op)
        return hf__fail(why, HF_EINVAL, "neither a callback nor room for the op");
    return start_latch_wait(client, name, timeout_ms, true, callback, user, ret_op, why);
}

int hf_cell_get(hf_client *client, const char *name, void **ret_data, size_t *ret_len,
                uint64_t *ret_version, hf_error *why)
{
    struct asked asked = { .no_memory = false };
    if (!ret_data || !ret_len || !ret_version)
        return check_out(NULL, why);
    int rc = ask(client, &asked, HF_CELL_GET, name, 0, why);
    if (rc != 0) {
        hf__free(asked.cell);
        return rc;
    }
    *ret_data = asked.cell;
    *ret_len = asked.cell_len;
    *ret_version = asked.request.result;
    return 0;
}

int hf_cell_set(hf_client *client, const char *name, uint64_t version, const void *data,
                size_t len, uint64_t *ret_version, hf_error *why)
{
    struct asked asked = { .request = { .data = data, .data_len = len } };
    if (len > HF_CELL_MAX)
        return hf__fail(why, HF_EINVAL, "a cell holds at most %d bytes", HF_CELL_MAX);
    if (!data && (len != 0 || version == 0))
        return hf__fail(why, HF_EINVAL, "removing a cell takes its version and no data");
    int rc = ask(client, &asked, HF_CELL_SET, name, version, why);
    if (rc == 0 && ret_version)
        *ret_version = asked.request.result;
    return rc;
}

void hf_free(void *data)
{
    hf__free(data);
}

int hf_inspect(hf_client *client, const char *name, bool prefix, hf_report **ret_report,
               hf_error *why)
{
    struct asked asked = { .request = { .prefix = prefix } };
    int rc = check_out(ret_report, why);
    if (rc != 0)
        return rc;
    if (!name || strnlen(name, HF_NAME_MAX + 1) > HF_NAME_MAX)
        return hf__fail(why, HF_ENAME, "the name or prefix is NULL or too long");
    asked.report = hf__report_new();
    if (!asked.report)
        return hf__fail_code(why, HF_ENOMEM);
    rc = ask(client, &asked, HF_INSPECT, name, 0, why);
    if (rc == 0)
        *ret_report = asked.report;
    else
        hf__report_free(asked.report);
    return rc;
}

size_t hf_report_count(const hf_report *report)
{
    return report ? report->count : 0;
}

const hf_entry *hf_report_entry(const hf_report *report, size_t index)
{
    return report && index < report->count ? &report->entries[index] : NULL;
}

void hf_report_free(hf_report *report)
{
    hf__report_free(report);
}

int hf_evict(hf_client *client, const char *name, uint64_t token, hf_error *why)
{
    struct asked asked = { .no_memory = false };
    return ask(client, &asked, HF_EVICT, name, token, why);
}

int hf_revoke(hf_client *client, const char *name, uint64_t token, hf_error *why)
{
    struct asked asked = { .no_memory = false };
    return ask(client, &asked, HF_REVOKE, name, token, why);
}

/* ---- your own event loop ----------------------------------------------------------- */

static hf_client *enter_user_driver(hf_client *handle, int *ret_rc, hf_error *why)
{
    hf_client *client = enter_to_wait(handle, ret_rc, why);
    if (!client || client->user_driver)
        return client;
    hf__client_leave(client);
    *ret_rc = hf__fail(why, HF_EINVAL, "the client was not opened with HF_DRIVER_USER");
    return NULL;
}

int hf_dispatch_fd(hf_client *handle, hf_error *why)
{
    int rc;
    hf_client *client = enter_user_driver(handle, &rc, why);
    if (!client)
        return rc;
    rc = hf__need_thread(client, why);
    int fd = client->outer_fd;
    hf__client_leave(client);
    return rc == 0 ? fd : rc;
}

int hf_dispatch(hf_client *handle, hf_error *why)
{
    int rc;
    hf_client *client = enter_user_driver(handle, &rc, why);
    if (!client)
        return rc;
    rc = hf__need_thread(client, why);
    if (rc == 0)
        rc = hf__dispatch(client);
    hf__client_leave(client);
    return rc;
}
