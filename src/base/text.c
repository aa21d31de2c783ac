/* SPDX-License-Identifier: MIT */
/*
 * Helpers for text: whether a name is clean, its hash, hex, numbers.
 *
 * Pure functions, called from any thread. hf__text_clean and hf__text_hash run on every
 * acquire, so both read eight bytes at a time; the rest, of one to seven bytes, becomes
 * one word made of overlapping reads. Nothing is read outside the text.
 *
 * The hash is part of file formats and decides which stripe a key belongs to: it must
 * never change. Words are little-endian by definition.
 */
#include "text.h"

#include <string.h>

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

static inline uint64_t load_8(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline uint64_t load_4(const char *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

/* One to seven bytes as a word. Two texts of one length give the same word only if they
 * are equal; shorter than four, the upper five bytes are 0. */
static inline uint64_t load_few(const char *at, size_t len)
{
    if (len >= 4)
        return load_4(at) | load_4(at + len - 4) << 32;
    return (uint64_t)(unsigned char)at[0] | (uint64_t)(unsigned char)at[len / 2] << 8 |
           (uint64_t)(unsigned char)at[len - 1] << 16;
}

/* ---- Clean names ---------------------------------------------------------------- */

/* A top bit is set unless all eight bytes are in 0x20 .. 0x7E: by the byte itself if it
 * is not ASCII, by the subtraction if it is below 0x20, by the addition if it is 0x7F.
 * A borrow from the neighbour or a carry into it needs a byte that is not clean
 * anyway. */
static inline uint64_t word_marks(uint64_t word)
{
    return word | (word - EACH_BYTE(0x20)) | (word + EACH_BYTE(0x01));
}

static inline bool is_plain(uint64_t marks)
{
    return (marks & EACH_BYTE(0x80)) == 0;
}

static inline bool text_plain(const char *text, size_t len)
{
    uint64_t marks = 0;
    if (len >= 8) {
        for (size_t at = 0; at < len - 8; at += 8)
            marks |= word_marks(load_8(text + at));
        marks |= word_marks(load_8(text + len - 8));
    } else if (len >= 4) {
        marks = word_marks(load_few(text, len));
    } else if (len > 0) {
        marks = word_marks(load_few(text, len) | EACH_BYTE(0x20) << 24);
    }
    return is_plain(marks);
}

/* Length of the clean character at `at`, with `left` >= 1 bytes to go; 0 if it is not
 * clean. The second byte's range excludes overlong forms (E0, F0), surrogates (ED),
 * code points beyond U+10FFFF (F4) and the C1 controls (C2). */
static size_t char_clean(const unsigned char *at, size_t left)
{
    unsigned char lead = at[0], low = 0x80, high = 0xBF;
    if (lead < 0x80)
        return lead >= 0x20 && lead != 0x7F;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    size_t len = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead == 0xC2 || lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    if (left < len || at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

static __attribute__((noinline)) bool utf8_clean(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t step = len - at >= 8 && is_plain(word_marks(load_8(text + at)))
                          ? 8
                          : char_clean((const unsigned char *)text + at, len - at);
        if (step == 0)
            return false;
        at += step;
    }
    return true;
}

bool hf__text_clean(const char *text, size_t len)
{
    return text_plain(text, len) || utf8_clean(text, len);
}

/* ---- Hash ------------------------------------------------------------------------ */

static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

uint32_t hf__text_hash(const char *text, size_t len)
{
    uint64_t hash = UINT64_C(0x243F6A8885A308D3);
    size_t at = 0;

    for (; len - at >= 8; at += 8)
        hash = hash_word(hash, load_8(text + at));
    if (at < len)
        hash = hash_word(hash, load_few(text + at, len - at));
    hash = hash_word(hash, len) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(hash >> 32);
}

/* ---- Hex and numbers ------------------------------------------------------------- */

void hf__hex_encode(const void *bytes, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[from[i] >> 4];
        out[2 * i + 1] = digits[from[i] & 15];
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hf__hex_decode(const char *hex, void *bytes, size_t size)
{
    unsigned char *to = bytes;
    for (size_t i = 0; i < size; i++) {
        int high = hex_digit(hex[2 * i]);
        int low = high < 0 ? -1 : hex_digit(hex[2 * i + 1]);
        if (low < 0)
            return false;
        to[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

bool hf__text_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        unsigned digit = (unsigned)(*text - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (number > max)
        return false;
    *ret_number = number;
    return true;
}
