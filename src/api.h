/* SPDX-License-Identifier: MIT */
/* How every exported function begins: the checks that holdfast.c and holdfast_objects.c
 * share. */
#ifndef HF_API_H
#define HF_API_H

#include "base/error.h"
#include "core/client.h"

/* Every call that may wait begins like this. */
static inline hf_client *lock_to_wait(hf_client *handle, int *ret_rc, hf_error *why)
{
    if (hf__in_callback(hf__handle_object(handle, HANDLE_CLIENT))) {
        *ret_rc = hf__fail_code(why, HF_ECALLBACK);
        return NULL;
    }
    return hf__client_lock(handle, ret_rc, why);
}

static inline struct hf_hold *lock_hold_to_wait(hf_hold *handle, int *ret_rc,
                                                hf_error *why)
{
    struct hf_hold *hold = hf__hold_lock(handle, ret_rc, why);
    if (hold && hf__in_callback(hold->client)) {
        hf__client_unlock(hold->client);
        *ret_rc = hf__fail_code(why, HF_ECALLBACK);
        return NULL;
    }
    return hold;
}

static inline int check_out(const void *pointer, hf_error *why)
{
    return pointer ? 0 : hf__fail(why, HF_EINVAL, "there is nowhere to put the result");
}

static inline int check_timeout(int64_t timeout_ms, hf_error *why)
{
    if (timeout_ms < HF_FOREVER || timeout_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL,
                        "the timeout is not 0, HF_FOREVER, or 1 ms to "
                        "10 years");
    return 0;
}

#endif
