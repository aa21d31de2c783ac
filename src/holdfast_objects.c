/* SPDX-License-Identifier: MIT */
/*
 * The functions of holdfast.h for latches, cells, inspection and repair: one request to
 * the store each, but for waiting on a latch, which is an acquire without a hold.
 */
#include "api.h"
#include "base/mem.h"
#include "core/report.h"

#include <string.h>

/* ---- latch, cell, look and repair ------------------------------------------------ */

/* Enters, sends one request about a name, leaves. */
static int ask(hf_client *handle, struct request_call *call, int verb, const char *name,
               uint64_t number, hf_error *why)
{
    int rc;
    size_t len;
    hf_client *client = lock_to_wait(handle, &rc, why);
    if (!client)
        return rc;
    if (!call->request.prefix)
        rc = hf__name_check(name, &len, why);
    else
        rc = 0;
    if (rc == 0)
        rc = hf__request_named(client, call, verb, name, number, why);
    hf__client_unlock(client);
    return rc;
}

int hf_latch_set(hf_client *client, const char *name, uint32_t count, hf_error *why)
{
    struct request_call call = { .no_memory = false };
    if (count == 0)
        return hf__fail(why, HF_EINVAL, "a latch counts down from at least 1");
    return ask(client, &call, HF_LATCH_SET, name, count, why);
}

int hf_latch_count(hf_client *client, const char *name, uint32_t *ret_count,
                   hf_error *why)
{
    struct request_call call = { .no_memory = false };
    int rc = check_out(ret_count, why);
    if (rc == 0)
        rc = ask(client, &call, HF_LATCH_GET, name, 0, why);
    if (rc == 0)
        *ret_count = (uint32_t)call.request.result;
    return rc;
}

int hf_latch_count_down(hf_client *client, const char *name, uint32_t by,
                        uint32_t *ret_left, hf_error *why)
{
    struct request_call call = { .no_memory = false };
    if (by == 0)
        return hf__fail(why, HF_EINVAL, "a latch is counted down by at least 1");
    int rc = ask(client, &call, HF_LATCH_DOWN, name, by, why);
    if (rc == 0 && ret_left)
        *ret_left = (uint32_t)call.request.result;
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
    hf_client *client = rc == 0 ? hf__client_lock(handle, &rc, why) : NULL;
    if (!client)
        return rc;
    if (client->caps & HF_CAP_LATCH)
        rc = hf__latch_wait(client, name, timeout_ms, background, callback, user,
                            ret_op, why);
    else
        rc = hf__fail(why, HF_EUNSUPPORTED, "the %s store has no latches here",
                      client->store->name);
    hf__client_unlock(client);
    return rc;
}

int hf_latch_wait(hf_client *client, const char *name, int64_t timeout_ms,
                  hf_error *why)
{
    hf_op *op = NULL;
    if (hf__in_callback(hf__handle_object(client, HANDLE_CLIENT)))
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
    return start_latch_wait(client, name, timeout_ms, true, callback, user, ret_op,
                            why);
}

int hf_cell_get(hf_client *client, const char *name, void **ret_data, size_t *ret_len,
                uint64_t *ret_version, hf_error *why)
{
    struct request_call call = { .no_memory = false };
    if (!ret_data || !ret_len || !ret_version)
        return check_out(NULL, why);
    int rc = ask(client, &call, HF_CELL_GET, name, 0, why);
    if (rc != 0) {
        hf__free(call.cell);
        return rc;
    }
    *ret_data = call.cell;
    *ret_len = call.cell_len;
    *ret_version = call.request.result;
    return 0;
}

int hf_cell_set(hf_client *client, const char *name, uint64_t version, const void *data,
                size_t len, uint64_t *ret_version, hf_error *why)
{
    struct request_call call = { .request = { .data = data, .data_len = len } };
    if (len > HF_CELL_MAX)
        return hf__fail(why, HF_EINVAL, "a cell holds at most %d bytes", HF_CELL_MAX);
    if (!data && (len != 0 || version == 0))
        return hf__fail(why, HF_EINVAL,
                        "removing a cell takes its version and no data");
    int rc = ask(client, &call, HF_CELL_SET, name, version, why);
    if (rc == 0 && ret_version)
        *ret_version = call.request.result;
    return rc;
}

void hf_free(void *data)
{
    hf__free(data);
}

int hf_inspect(hf_client *client, const char *name, bool prefix, hf_report **ret_report,
               hf_error *why)
{
    struct request_call call = { .request = { .prefix = prefix } };
    int rc = check_out(ret_report, why);
    if (rc != 0)
        return rc;
    if (!name || strnlen(name, HF_NAME_MAX + 1) > HF_NAME_MAX)
        return hf__fail(why, HF_ENAME, "the name or prefix is NULL or too long");
    call.report = hf__report_new();
    if (!call.report)
        return hf__fail_code(why, HF_ENOMEM);
    rc = ask(client, &call, HF_INSPECT, name, 0, why);
    if (rc == 0)
        *ret_report = call.report;
    else
        hf__report_free(call.report);
    return rc;
}

int hf_diagnose(hf_client *client, hf_report **ret_report, hf_error *why)
{
    struct request_call call = { .request = { .prefix = true } };
    int rc = check_out(ret_report, why);
    if (rc != 0)
        return rc;
    call.report = hf__report_new();
    if (!call.report)
        return hf__fail_code(why, HF_ENOMEM);
    rc = ask(client, &call, HF_DIAGNOSE, "", 0, why);
    if (rc == 0)
        *ret_report = call.report;
    else
        hf__report_free(call.report);
    return rc;
}

/* A report has either entries or findings. */
size_t hf_report_count(const hf_report *report)
{
    return report ? report->count + report->finding_count : 0;
}

const hf_finding *hf_report_finding(const hf_report *report, size_t index)
{
    return report && index < report->finding_count ? &report->findings[index] : NULL;
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
    struct request_call call = { .no_memory = false };
    return ask(client, &call, HF_EVICT, name, token, why);
}

int hf_revoke(hf_client *client, const char *name, uint64_t token, hf_error *why)
{
    struct request_call call = { .no_memory = false };
    return ask(client, &call, HF_REVOKE, name, token, why);
}
