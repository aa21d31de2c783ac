/* SPDX-License-Identifier: MIT */
/* The layouts of the file store. Each is a store of its own, but for scheme and
 * options; file.c picks one. */
#ifndef HF_FILE_FILE_H
#define HF_FILE_FILE_H

#include "../../../include/holdfast/backend.h"

extern const struct hf_backend hf__file_queue;
extern const struct hf_backend hf__file_flock;

extern const struct hf_backend hf__backend_file;

#endif
