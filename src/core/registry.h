/* SPDX-License-Identifier: MIT */
/* Which stores there are. */
#ifndef HF_CORE_REGISTRY_H
#define HF_CORE_REGISTRY_H

#include "../../include/holdfast/backend.h"

/* The store of a URL's scheme, with its options checked; NULL with `why` otherwise. */
const struct hf_backend *hf__registry_find(const struct hf_url *url, hf_error *why);

/* Names of the stores of this build, space-separated, static. */
const char *hf__registry_names(void);

int hf__registry_add(const struct hf_backend *backend, hf_error *why);

#endif
