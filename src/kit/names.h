/* SPDX-License-Identifier: MIT */
/*
 * Any name as one safe component of a path, and back.
 *
 * Bytes outside [A-Za-z0-9._-], and a leading dot, become %XX (upper-case hex). A
 * result longer than HF_FILE_NAME_LONG bytes is cut, at HF_FILE_NAME_CUT or before, and
 * ends with '~' and 32 hex digits of a 128-bit hash of the whole name; '~' occurs
 * nowhere else. So two names never share a file, no result holds a '/', is "." or "..",
 * or begins with a dot, and none is longer than HF_FILE_NAME_LONG.
 */
#ifndef HF_KIT_NAMES_H
#define HF_KIT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#define HF_FILE_NAME_LONG 200
#define HF_FILE_NAME_CUT 160
#define HF_FILE_NAME_SIZE 256 /* a buffer of this size is always enough */

/* False if the name is empty or `out` is too small; then `out` is undefined. */
bool hf__name_to_file(const char *name, size_t len, char *out, size_t out_size);

/* The name (with a NUL that *ret_len does not count). False for a shortened name, for a
 * text that hf__name_to_file() does not make, and if `out` is too small. */
bool hf__name_from_file(const char *file, char *out, size_t out_size, size_t *ret_len);

/* SipHash-2-4 with 128 bits under a fixed key: the same on every machine, for ever. */
void hf__name_hash128(const char *name, size_t len, unsigned char hash[16]);

#endif
