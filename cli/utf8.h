/* SPDX-License-Identifier: MIT */
/* Reading UTF-8 that other users wrote: names, notes, programs, hosts. */
#ifndef HOLDFAST_CLI_UTF8_H
#define HOLDFAST_CLI_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code point at the beginning of `text`, which is NUL-terminated. Returns its
 * length in bytes, or 0 if it is not UTF-8: a stray or missing continuation, overlong,
 * a surrogate. */
static inline size_t utf8_read(const char *text, uint32_t *ret_code)
{
    static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *bytes = (const unsigned char *)text;
    size_t len = bytes[0] < 0x80   ? 1
                 : bytes[0] < 0xc0 ? 0
                 : bytes[0] < 0xe0 ? 2
                 : bytes[0] < 0xf0 ? 3
                 : bytes[0] < 0xf8 ? 4
                                   : 0;
    uint32_t code = len < 2 ? bytes[0] : bytes[0] & (0x7fu >> len);

    for (size_t i = 1; i < len; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (bytes[i] & 0x3f);
    }
    if (!len || code < smallest[len] || code > 0x10ffff || (code >> 11) == 0x1b)
        return 0;
    *ret_code = code;
    return len;
}

/* Unsafe on a terminal: controls (C0, DEL, C1), and characters that change the writing
 * direction, break the line or are invisible. */
static inline bool utf8_unsafe(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c ||
           (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
           (code >= 0xfff9 && code <= 0xfffb) || (code >= 0xe0000 && code <= 0xe0fff);
}

#endif
