/* SPDX-License-Identifier: MIT */
/*
 * Scheme -> store. The built-in ones come from a list the build makes; others are added
 * by hf_backend_register(). Each table is checked once, when it is added: a missing
 * function is refused by name.
 */
#include "registry.h"

#include "../base/error.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { STORES_MAX = 32 };

#define HF_ABSENT(scheme)
#define HF_BACKEND(name) extern const struct hf_backend hf__backend_##name;
#include "backends.inc"
#undef HF_BACKEND

static const struct hf_backend *const built_in[] = {
#define HF_BACKEND(name) &hf__backend_##name,
#include "backends.inc"
#undef HF_BACKEND
    NULL
};
#undef HF_ABSENT

/* Stores that were left out of this build, so that it can say so. */
static const char *const absent[] = {
#define HF_BACKEND(name)
#define HF_ABSENT(scheme) scheme,
#include "backends.inc"
#undef HF_BACKEND
#undef HF_ABSENT
    NULL
};

static pthread_mutex_t added_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct hf_backend *added[STORES_MAX];
static size_t added_count;

static char names[256];
static pthread_once_t names_once = PTHREAD_ONCE_INIT;

/* Options that core understands for every store. */
static const char *const common_options[] = { "handoff", "ttl", NULL };

static bool has(const char *const *list, const char *word)
{
    for (; list && *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static const struct hf_backend *find(const char *scheme)
{
    for (size_t i = 0; built_in[i]; i++)
        if (has(built_in[i]->schemes, scheme))
            return built_in[i];
    const struct hf_backend *found = NULL;
    pthread_mutex_lock(&added_lock);
    for (size_t i = 0; i < added_count && !found; i++)
        if (added[i] && has(added[i]->schemes, scheme))
            found = added[i];
    pthread_mutex_unlock(&added_lock);
    return found;
}

static const char *missing(const struct hf_backend *backend)
{
    if (backend->size != sizeof(*backend) || backend->abi != HF_BACKEND_ABI)
        return "size or abi";
    if (!backend->name || !backend->schemes || !backend->schemes[0])
        return "name or schemes";
    if (!backend->open || !backend->close || !backend->attempt || !backend->withdraw ||
        !backend->renew || !backend->interest || !backend->ask || !backend->forget)
        return "one of its functions";
    return NULL;
}

/* An '@' in the wrong place: what looks like a scheme or an option may be part of a
 * password, so it is not shown. */
static bool may_hold_secret(const struct hf_url *url)
{
    for (size_t i = 0; i < url->option_count; i++)
        if (strchr(url->options[i].key, '@') || strchr(url->options[i].value, '@'))
            return true;
    return false;
}

static int check_options(const struct hf_backend *store, const struct hf_url *url,
                         hf_error *why)
{
    for (size_t i = 0; i < url->option_count; i++) {
        const char *key = url->options[i].key;
        if (has(common_options, key) || has(store->options, key))
            continue;
        if (may_hold_secret(url))
            return hf__fail(why, HF_EURL,
                            "the %s store has no such option (an '@' in a password "
                            "is written %%40, a '?' %%3F)",
                            store->name);
        return hf__fail(why, HF_EURL, "the %s store has no option \"%s\"", store->name,
                        key);
    }
    return 0;
}

const struct hf_backend *hf__registry_find(const struct hf_url *url, hf_error *why)
{
    const struct hf_backend *store = find(url->scheme);
    if (!store && has(absent, url->scheme)) {
        hf__fail(why, HF_EUNSUPPORTED, "this build has no store for \"%s:\"",
                 url->scheme);
        return NULL;
    }
    if (!store && (strchr(url->path, '@') || may_hold_secret(url))) {
        hf__fail(why, HF_EURL, "it does not begin with a store of this build: %s",
                 hf__registry_names());
        return NULL;
    }
    if (!store) {
        hf__fail(why, HF_EURL,
                 "there is no store for the scheme \"%s:\" (this build has: %s)",
                 url->scheme, hf__registry_names());
        return NULL;
    }
    return check_options(store, url, why) == 0 ? store : NULL;
}

int hf__registry_add(const struct hf_backend *backend, hf_error *why)
{
    if (!backend)
        return hf__fail(why, HF_EINVAL, "no store was given");
    const char *lack = missing(backend);
    if (lack)
        return hf__fail(why, HF_EINVAL, "the store's table lacks %s", lack);
    for (size_t i = 0; backend->schemes[i]; i++)
        if (find(backend->schemes[i]))
            return hf__fail(why, HF_EINVAL, "the scheme \"%s\" is taken",
                            backend->schemes[i]);
    pthread_mutex_lock(&added_lock);
    bool room = added_count < STORES_MAX;
    if (room)
        added[added_count++] = backend;
    pthread_mutex_unlock(&added_lock);
    return room ? 0 : hf__fail(why, HF_EFULL, "at most %d stores", STORES_MAX);
}

static void make_names(void)
{
    size_t at = 0;
    for (size_t i = 0; built_in[i] && at < sizeof(names) - 32; i++)
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? " " : "",
                               built_in[i]->name);
}

const char *hf__registry_names(void)
{
    pthread_once(&names_once, make_names);
    return names;
}
