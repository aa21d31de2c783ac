/* SPDX-License-Identifier: MIT */
/* layout=flock: the locks of util-linux flock(1). `session` in every function is
 * hf__file_flock.session_size zeroed bytes. */
#ifndef HF_FILE_FLOCK_H
#define HF_FILE_FLOCK_H

#include "../../../include/holdfast/backend.h"

extern const struct hf_backend hf__file_flock;

#endif
