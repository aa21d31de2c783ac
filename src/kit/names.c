/* SPDX-License-Identifier: MIT */
/*
 * Lock names as file names. Pure functions, callable from any thread.
 *
 * The escaped form is canonical: each byte has exactly one form, itself or its escape.
 * That makes the map injective, and hf__name_from_file() accepts no other form.
 *
 * The hash of long names is SipHash with a public key: it need not resist a deliberate
 * collision (two names that collide would only wait for each other), but it must never
 * change.
 */
#include "names.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "../base/text.h"

#define HASH_SIZE 16

static const char upper_hex[] = "0123456789ABCDEF";

static bool byte_plain(unsigned char byte, bool first)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' ||
           (byte == '.' && !first);
}

/* ---- SipHash-2-4-128 ------------------------------------------------------------ */

static inline uint64_t rotate(uint64_t word, int by)
{
    return word << by | word >> (64 - by);
}

static void sip_rounds(uint64_t v[4], int rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
}

void hf__name_hash128(const char *name, size_t len, unsigned char hash[HASH_SIZE])
{
    const uint64_t key[2] = { UINT64_C(0x0706050403020100),
                              UINT64_C(0x0f0e0d0c0b0a0908) };
    uint64_t v[4] = { key[0] ^ UINT64_C(0x736f6d6570736575),
                      key[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                      key[0] ^ UINT64_C(0x6c7967656e657261),
                      key[1] ^ UINT64_C(0x7465646279746573) };
    uint64_t last = (uint64_t)len << 56;
    uint64_t word;
    size_t at = 0;

    for (; at + 8 <= len; at += 8) {
        memcpy(&word, name + at, 8);
        sip_word(v, le64toh(word));
    }
    for (size_t i = 0; at + i < len; i++)
        last |= (uint64_t)(unsigned char)name[at + i] << (8 * i);
    sip_word(v, last);

    v[2] ^= 0xee;
    for (int half = 0; half < 2; half++) {
        sip_rounds(v, 4);
        word = htole64(v[0] ^ v[1] ^ v[2] ^ v[3]);
        memcpy(hash + 8 * half, &word, 8);
        v[1] ^= 0xdd;
    }
}

/* ---- Encoding and decoding ------------------------------------------------------- */

/* Writes whole escapes only, as many as fit into `room`. Returns how much of the name
 * was used and how long the result is. */
static size_t name_escape(const char *name, size_t len, char *out, size_t room,
                          size_t *ret_used)
{
    size_t used = 0;
    size_t at = 0;

    for (; at < len; at++) {
        unsigned char byte = (unsigned char)name[at];
        bool plain = byte_plain(byte, at == 0);

        if (used + (plain ? 1 : 3) > room)
            break;
        if (plain) {
            out[used++] = (char)byte;
        } else {
            out[used++] = '%';
            out[used++] = upper_hex[byte >> 4];
            out[used++] = upper_hex[byte & 15];
        }
    }
    *ret_used = used;
    return at;
}

bool hf__name_to_file(const char *name, size_t len, char *out, size_t out_size)
{
    char text[HF_FILE_NAME_LONG];
    unsigned char hash[HASH_SIZE];
    size_t used;
    bool fits = name_escape(name, len, text, HF_FILE_NAME_LONG, &used) == len;

    if (len == 0)
        return false;
    if (!fits) {
        name_escape(name, len, text, HF_FILE_NAME_CUT, &used);
        hf__name_hash128(name, len, hash);
        text[used++] = '~';
        hf__hex_encode(hash, HASH_SIZE, text + used);
        used += (size_t)2 * HASH_SIZE;
    }
    if (used >= out_size)
        return false;
    memcpy(out, text, used);
    out[used] = '\0';
    return true;
}

static int hex_value(char digit)
{
    const char *at = digit ? strchr(upper_hex, digit) : NULL;

    return at ? (int)(at - upper_hex) : -1;
}

/* The byte that `text` begins with, and the length of its form; 0: no valid form. */
static size_t byte_decode(const char *text, bool first, unsigned char *ret_byte)
{
    int high, low;

    if (*text != '%') {
        *ret_byte = (unsigned char)*text;
        return byte_plain(*ret_byte, first) ? 1 : 0;
    }
    high = hex_value(text[1]);
    low = high < 0 ? -1 : hex_value(text[2]);
    if (low < 0)
        return 0;
    *ret_byte = (unsigned char)(high << 4 | low);
    return byte_plain(*ret_byte, first) ? 0 : 3;
}

bool hf__name_from_file(const char *file, char *out, size_t out_size, size_t *ret_len)
{
    size_t len = 0;
    unsigned char byte;

    if (*file == '\0' || strlen(file) > HF_FILE_NAME_LONG)
        return false;
    while (*file != '\0') {
        size_t took = byte_decode(file, len == 0, &byte);

        if (took == 0 || len + 1 >= out_size)
            return false;
        out[len++] = (char)byte;
        file += took;
    }
    out[len] = '\0';
    *ret_len = len;
    return true;
}
