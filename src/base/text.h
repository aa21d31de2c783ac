/* SPDX-License-Identifier: MIT */
/* Helpers for text: names, hashes, hex, numbers. */
#ifndef HF_BASE_TEXT_H
#define HF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Well-formed UTF-8 (no surrogates, no overlong forms) without control characters
 * (U+0000-001F, U+007F-009F). The fast path is plain ASCII, eight bytes at a time. */
bool hf__text_clean(const char *text, size_t len);

/* 32-bit hash, the same in every process and on every machine. */
uint32_t hf__text_hash(const char *text, size_t len);

/* 2 * size hex digits (lower case), no NUL; and back: false on a wrong digit. */
void hf__hex_encode(const void *bytes, size_t size, char *out);
bool hf__hex_decode(const char *hex, void *bytes, size_t size);

/* An unsigned decimal number that is the whole text; false otherwise or if > max. */
bool hf__text_number(const char *text, uint64_t max, uint64_t *ret_number);

#endif
