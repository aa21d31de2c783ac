/* SPDX-License-Identifier: MIT */
/*
 * Checks the wants and options of a caller.
 *
 * Pure checks, which need no lock: a client's capabilities never change. What can be
 * refused before the store is asked is refused here, each with its own sentence.
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/text.h"

#include <string.h>

int hf__name_check(const char *name, size_t *ret_len, hf_error *why)
{
    if (!name)
        return hf__fail(why, HF_ENAME, "the name is NULL");
    size_t len = strnlen(name, HF_NAME_MAX + 1);
    if (len == 0)
        return hf__fail(why, HF_ENAME, "the name is empty");
    if (len > HF_NAME_MAX)
        return hf__fail(why, HF_ENAME, "the name is longer than %d bytes", HF_NAME_MAX);
    if (!hf__text_clean(name, len))
        return hf__fail(why, HF_ENAME,
                        "the name is not UTF-8 or has control characters in it");
    *ret_len = len;
    return 0;
}

static uint64_t kind_capability(int32_t kind)
{
    static const uint64_t needed[] = {
        [HF_MUTEX] = HF_CAP_MUTEX,       [HF_REENTRANT] = HF_CAP_MUTEX,
        [HF_FAIR] = HF_CAP_FAIR,         [HF_READ] = HF_CAP_RW,
        [HF_WRITE] = HF_CAP_RW,          [HF_PERMITS] = HF_CAP_PERMITS,
        [HF_EXPIRING] = HF_CAP_EXPIRING,
    };
    return kind >= HF_MUTEX && kind <= HF_EXPIRING ? needed[kind] : 0;
}

static const char *kind_name(int32_t kind)
{
    static const char *const names[] = { "",     "mutex", "reentrant", "fair",
                                         "read", "write", "permits",   "expiring" };
    return kind >= HF_MUTEX && kind <= HF_EXPIRING ? names[kind] : "?";
}

static int check_numbers(const hf_want *want, hf_error *why)
{
    bool counted = want->kind == HF_PERMITS || want->kind == HF_EXPIRING;
    if (want->permits == 0)
        return hf__fail(why, HF_EINVAL, "permits must be at least 1");
    if (want->permits > want->limit)
        return hf__fail(why, HF_EINVAL, "%u permits are above the limit of %u",
                        want->permits, want->limit);
    if (!counted && (want->permits != 1 || want->limit != 1))
        return hf__fail(why, HF_EINVAL, "permits and limit are for semaphores");
    if (want->kind == HF_EXPIRING && want->permits != 1)
        return hf__fail(why, HF_EINVAL, "an expiring permit is taken one at a time");
    if (want->stripes > 65536)
        return hf__fail(why, HF_EINVAL, "at most 65536 stripes");
    if ((want->stripes == 0) != (want->stripe_key == NULL))
        return hf__fail(why, HF_EINVAL,
                        "a stripe key and a number of stripes go "
                        "together");
    return 0;
}

/* All but the characters of the name, which plan.c checks for a new claim. */
int hf__want_check(const hf_client *client, const hf_want *want, hf_error *why)
{
    uint64_t needed = kind_capability(want->kind);
    size_t len;
    if (!want->name)
        return hf__fail(why, HF_ENAME, "the name is NULL");
    if (!needed)
        return hf__fail(why, HF_EINVAL, "%d is not a kind of lock", want->kind);
    int rc = check_numbers(want, why);
    if (rc == 0 && want->stripes)
        rc = hf__name_check(want->name, &len, why);
    if (rc == 0 && want->stripes && len > HF_NAME_MAX - 6)
        rc = hf__fail(why, HF_ENAME, "the name of a striped lock is at most %d bytes",
                      HF_NAME_MAX - 6);
    if (rc == 0 && !(client->caps & needed))
        rc = hf__fail(why, HF_EUNSUPPORTED,
                      "the %s store does not support %s locks here",
                      client->store->name, kind_name(want->kind));
    return rc;
}

int hf__wants_check(const hf_want *wants, size_t count, hf_error *why)
{
    if (!wants)
        return hf__fail(why, HF_EINVAL, "no wants were given");
    if (count == 0 || count > HF_WANTS_MAX)
        return hf__fail(why, HF_EINVAL, "between 1 and %d wants, not %zu", HF_WANTS_MAX,
                        count);
    return 0;
}

static int check_times(const hf_acquire_options *options, hf_error *why)
{
    if (options->timeout_ms < HF_FOREVER || options->timeout_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL,
                        "the timeout is not 0, HF_FOREVER, or 1 ms to "
                        "10 years");
    if (options->ttl_ms < 0 || options->ttl_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL, "ttl_ms is not between 0 and 10 years");
    if (options->max_hold_ms < 0 || options->max_hold_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL, "max_hold_ms is not between 0 and 10 years");
    return 0;
}

int hf__options_check(const hf_client *client, const hf_acquire_options *given,
                      hf_acquire_options *ret_options, hf_error *why)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    if (given && given->size == sizeof(options)) {
        options = *given;
    } else if (given) {
        if (given->size < sizeof(size_t) + sizeof(int64_t) ||
            given->size > sizeof(options))
            return hf__fail(why, HF_EINVAL,
                            "options.size is %zu, not the size of "
                            "hf_acquire_options",
                            given->size);
        memcpy(&options, given, given->size);
    }
    int rc = check_times(&options, why);
    if (rc != 0)
        return rc;
    if (options.flags & ~(uint32_t)(HF_FIXED | HF_DETACHED))
        return hf__fail(why, HF_EINVAL, "options.flags has unknown bits");
    bool leased = options.ttl_ms || options.max_hold_ms;
    if (leased && !(client->caps & HF_CAP_LEASE))
        return hf__fail(why, HF_EUNSUPPORTED, "the %s store has no leases here",
                        client->store->name);
    if ((options.flags & HF_DETACHED) && !(client->caps & HF_CAP_DETACH))
        return hf__fail(why, HF_EUNSUPPORTED, "the %s store has no detached holds here",
                        client->store->name);
    if ((options.flags & HF_DETACHED) && !options.ttl_ms)
        return hf__fail(why, HF_EINVAL, "a detached hold needs ttl_ms");
    *ret_options = options;
    return 0;
}
