/* SPDX-License-Identifier: MIT */
/*
 * Loads the TLS module: from the directory where it was installed (HF_MODULE_DIR, set
 * by the build), or from $HOLDFAST_MODULES, which is for running from a build directory
 * and is not read in a set-user-ID program. Called by hf__stream_new(), on any thread.
 *
 * Once loaded it stays: OpenSSL does not support being unloaded. The loader counts
 * references, so nothing has to be remembered here.
 */
#include "tls.h"

#include "../base/error.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef HF_HAVE_TLS

static const struct hf_tls *module_table(void *module)
{
    const struct hf_tls *tls = module ? dlsym(module, HF_TLS_SYMBOL) : NULL;
    return tls && tls->abi == HF_TLS_ABI && tls->size == sizeof(*tls) ? tls : NULL;
}

int hf__tls_load(const struct hf_tls **ret_tls, hf_error *why)
{
    const char *dir = secure_getenv("HOLDFAST_MODULES");
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", dir && *dir ? dir : HF_MODULE_DIR,
             HF_TLS_MODULE);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!module)
        return hf__fail(why, HF_EUNSUPPORTED, "TLS cannot be loaded: %s", dlerror());
    const struct hf_tls *tls = module_table(module);
    if (!tls)
        return hf__fail(why, HF_EUNSUPPORTED, "%s is of another version of holdfast",
                        path);
    *ret_tls = tls;
    return 0;
}

#else

int hf__tls_load(const struct hf_tls **ret_tls, hf_error *why)
{
    (void)ret_tls;
    return hf__fail(why, HF_EUNSUPPORTED, "this build of holdfast has no TLS");
}

#endif
