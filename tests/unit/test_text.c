/* SPDX-License-Identifier: MIT */
/*
 * Names, hashes, hex and numbers.
 *
 * hf__text_clean is compared with a slow reference that decodes code points, over every
 * short sequence that could matter. Texts are checked in blocks of their exact size, so
 * that a sanitizer sees a read beyond them.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "../../src/base/text.h"

/* ---- Clean text ------------------------------------------------------------------ */

static bool clean_exact(const char *text, size_t len)
{
    char *block = malloc(len ? len : 1);
    if (len)
        memcpy(block, text, len);
    bool clean = hf__text_clean(block, len);
    free(block);
    return clean;
}

static const struct {
    bool clean;
    const char *text;
} corpus[] = {
    { true, "" },
    { true, "a" },
    { true, "jobs/nightly" },
    { true, " ~ printable ASCII ~ " },
    { true, "exactly8" },
    { true, "exactly-sixteen!" },
    { true, "gr\xC3\xBC\xC3\x9F"
            "e" },
    { true, "\xC2\xA0" },         /* U+00A0, right after the C1 controls */
    { true, "\xDF\xBF" },         /* U+07FF */
    { true, "\xE0\xA0\x80" },     /* U+0800 */
    { true, "\xE2\x82\xAC" },     /* U+20AC */
    { true, "\xED\x9F\xBF" },     /* U+D7FF, before the surrogates */
    { true, "\xEE\x80\x80" },     /* U+E000, after them */
    { true, "\xEF\xBF\xBD" },     /* U+FFFD */
    { true, "\xF0\x90\x80\x80" }, /* U+10000 */
    { true, "\xF4\x8F\xBF\xBF" }, /* U+10FFFF */
    { true, "eight by\xE2\x82\xACtes, more" },
    { false, "\x01" },
    { false, "a\nb" },
    { false, "tab\there" },
    { false, "\x1F" },
    { false, "del\x7F" },
    { false, "1234567\x7F" },
    { false, "12345678\x1F" },
    { false, "12345678901\x1Bz" },
    { false, "\xC2\x80" }, /* C1 controls */
    { false, "\xC2\x85" },
    { false, "\xC2\x9F" },
    { false, "\x80" }, /* continuation alone */
    { false, "\xBF" },
    { false, "abc\x80"
             "def" },
    { false, "\xC0\x80" }, /* overlong */
    { false, "\xC0\xAF" },
    { false, "\xC1\xBF" },
    { false, "\xE0\x80\x80" },
    { false, "\xE0\x9F\xBF" },
    { false, "\xF0\x80\x80\x80" },
    { false, "\xF0\x8F\xBF\xBF" },
    { false, "\xED\xA0\x80" }, /* surrogates */
    { false, "\xED\xBF\xBF" },
    { false, "\xED\xA0\x80\xED\xB0\x80" },
    { false, "\xF4\x90\x80\x80" }, /* beyond U+10FFFF */
    { false, "\xF5\x80\x80\x80" },
    { false, "\xF8\x88\x80\x80\x80" },
    { false, "\xFE" },
    { false, "\xFF" },
    { false, "\xC3" }, /* cut short */
    { false, "\xE2\x82" },
    { false, "\xE2" },
    { false, "\xF0\x9F\x94" },
    { false, "\xF0\x9F" },
    { false, "\xF0" },
    { false, "\xC3(" }, /* cut short by something else */
    { false, "\xE2\x82(" },
    { false, "\xE2(\xAC" },
    { false, "\xF0\x9F\x94(" },
    { false, "\xF0\x9F(\x92" },
    { false, "long enough \xE2\x82 for words" },
};

START_TEST(clean_corpus)
{
    for (size_t i = 0; i < sizeof corpus / sizeof corpus[0]; i++)
        ck_assert_msg(clean_exact(corpus[i].text, strlen(corpus[i].text)) ==
                          corpus[i].clean,
                      "line %d of the corpus", (int)i);
    ck_assert(!clean_exact("a\0b", 3));
    ck_assert(!clean_exact("\0", 1));
    ck_assert(!clean_exact("12345678\0", 9));
    ck_assert(hf__text_clean(NULL, 0));
}
END_TEST

/* Every byte at every place of texts of every short length. */
START_TEST(clean_any_byte_anywhere)
{
    char text[25];
    for (size_t len = 1; len <= sizeof text; len++) {
        for (size_t at = 0; at < len; at++) {
            for (int byte = 0; byte < 256; byte++) {
                memset(text, 'a', len);
                text[at] = (char)byte;
                bool want = byte >= 0x20 && byte < 0x7F;
                ck_assert_msg(clean_exact(text, len) == want, "0x%x at %zu of %zu",
                              byte, at, len);
            }
        }
    }
}
END_TEST

/* One code point by the definition: value, then shortest form, then the ranges. */
static size_t reference_char(const unsigned char *at, size_t left)
{
    static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = at[0] < 0x80             ? 1
                 : (at[0] & 0xE0) == 0xC0 ? 2
                 : (at[0] & 0xF0) == 0xE0 ? 3
                 : (at[0] & 0xF8) == 0xF0 ? 4
                                          : 0;
    if (len == 0 || len > left)
        return 0;
    uint32_t point = len == 1 ? at[0] : at[0] & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
        point = point << 6 | (at[i] & 0x3F);
    }
    bool control = point < 0x20 || (point >= 0x7F && point < 0xA0);
    bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    bool bad = point < smallest[len] || point > 0x10FFFF || control || surrogate;
    return bad ? 0 : len;
}

static bool reference_clean(const unsigned char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t step = reference_char(text + at, len - at);
        if (step == 0)
            return false;
        at += step;
    }
    return true;
}

static void assert_as_reference(const unsigned char *text, size_t len)
{
    if (hf__text_clean((const char *)text, len) != reference_clean(text, len))
        ck_abort_msg("%zu bytes: %02x %02x %02x %02x", len, text[0], text[1], text[2],
                     text[3]);
}

START_TEST(clean_agrees_with_reference)
{
    static const unsigned char last[] = { 0, 'a', 0x7F, 0x80, 0xBF, 0xC0, 0xFF };
    unsigned char text[4] = { 0 };

    for (unsigned head = 0; head < 0x10000; head++) {
        text[0] = (unsigned char)(head >> 8);
        text[1] = (unsigned char)head;
        assert_as_reference(text, 2);
        for (unsigned third = 0; third < 256; third += text[0] < 0xC0 ? 37 : 1) {
            text[2] = (unsigned char)third;
            assert_as_reference(text, 3);
            for (size_t i = 0; text[0] >= 0xEF && i < sizeof last; i++) {
                text[3] = last[i];
                assert_as_reference(text, 4);
            }
        }
    }
}
END_TEST

START_TEST(clean_agrees_on_random_mixtures)
{
    static const char *const pieces[] = {
        "a",    "plain",    "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x94\x92",
        "\x80", "\xED\xA0", "\xC2\x85", "\x1F"
    };
    uint64_t seed = 42;
    for (int round = 0; round < 20000; round++) {
        char text[80];
        size_t len = 0;
        uint32_t count = unit_below(&seed, 12);
        uint32_t kinds = unit_below(&seed, 4) ? 5 : 9; /* mostly without bad ones */
        for (uint32_t i = 0; i < count; i++) {
            const char *piece = pieces[unit_below(&seed, kinds)];
            memcpy(text + len, piece, strlen(piece));
            len += strlen(piece);
        }
        UNIT_ASSERT(clean_exact(text, len) ==
                    reference_clean((const unsigned char *)text, len));
    }
}
END_TEST

/* ---- Hash ------------------------------------------------------------------------ */

static const struct {
    const char *text;
    uint32_t hash;
} vectors[] = {
    { "", 0xd34402ed },
    { "a", 0xf479242c },
    { "ab", 0x88c3af49 },
    { "abc", 0x4d84f427 },
    { "abcd", 0x072ea5a2 },
    { "abcdefg", 0xc4ab8ba3 },
    { "abcdefgh", 0x8637055f },
    { "abcdefghi", 0x83cb440f },
    { "jobs/nightly", 0xcb1bf6dc },
    { "gr\xC3\xBC\xC3\x9F"
      "e",
      0x0737ece9 },
    { "tenant/000123/jobs/nightly-report", 0x1c4dda62 },
};

START_TEST(hash_never_changes)
{
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint32_t hash = hf__text_hash(vectors[i].text, strlen(vectors[i].text));
        ck_assert_msg(hash == vectors[i].hash, "{ \"%s\", 0x%08x },", vectors[i].text,
                      hash);
    }
}
END_TEST

/* Every byte at every position counts; nothing beyond the length does. */
START_TEST(hash_sees_every_byte)
{
    char text[40];
    for (size_t len = 1; len < sizeof text; len++) {
        memset(text, 'a', sizeof text);
        uint32_t plain = hf__text_hash(text, len);
        text[len] = 'b';
        ck_assert_uint_eq(hf__text_hash(text, len), plain);
        text[len] = 'a';
        ck_assert_uint_ne(hf__text_hash(text, len - 1), plain);
        for (size_t at = 0; at < len; at++) {
            text[at] = 'b';
            ck_assert_uint_ne(hf__text_hash(text, len), plain);
            text[at] = 'a';
        }
    }
}
END_TEST

static int hash_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* 100,000 similar names: about one pair collides by chance, and 1,024 buckets (by low
 * bits, and by high bits) get about 98 each, with a deviation of 10. */
static void hash_spread(const char *format)
{
    enum { COUNT = 100000, BUCKETS = 1024 };
    uint32_t *hashes = malloc(COUNT * sizeof *hashes);
    uint32_t low[BUCKETS] = { 0 }, high[BUCKETS] = { 0 };
    int collisions = 0;

    for (int i = 0; i < COUNT; i++) {
        char name[64];
        int len = snprintf(name, sizeof name, format, i);
        hashes[i] = hf__text_hash(name, (size_t)len);
        low[hashes[i] % BUCKETS]++;
        high[hashes[i] >> 22]++;
    }
    qsort(hashes, COUNT, sizeof *hashes, hash_compare);
    for (int i = 1; i < COUNT; i++)
        collisions += hashes[i] == hashes[i - 1];
    ck_assert_int_lt(collisions, 10);
    for (int i = 0; i < BUCKETS; i++) {
        ck_assert_uint_lt(low[i], 160);
        ck_assert_uint_lt(high[i], 160);
        ck_assert_uint_gt(low[i], 45);
        ck_assert_uint_gt(high[i], 45);
    }
    free(hashes);
}

START_TEST(hash_spreads_names)
{
    hash_spread("%d");
    hash_spread("lock-%d");
    hash_spread("%08x");
    hash_spread("tenant/%06d/jobs/nightly-report");
    hash_spread("%x/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}
END_TEST

/* ---- Hex ------------------------------------------------------------------------- */

START_TEST(hex_goes_there_and_back)
{
    unsigned char bytes[256], back[256];
    char hex[2 * 256 + 1];

    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    hex[512] = 'z';
    hf__hex_encode(bytes, 256, hex);
    ck_assert_mem_eq(hex, "000102030405060708090a0b0c0d0e0f10", 34);
    ck_assert_mem_eq(hex + 508, "feff", 4);
    ck_assert_int_eq(hex[512], 'z');
    ck_assert(hf__hex_decode(hex, back, 256));
    ck_assert_mem_eq(bytes, back, 256);
    ck_assert(hf__hex_decode("", back, 0));
    ck_assert(hf__hex_decode("aAfF", back, 2));
    ck_assert_mem_eq(back, "\xAA\xFF", 2);
}
END_TEST

START_TEST(hex_refuses_other_digits)
{
    for (int c = 0; c < 256; c++) {
        char left[2] = { (char)c, '0' }, right[2] = { '0', (char)c };
        unsigned char byte;
        bool digit = c && strchr("0123456789abcdefABCDEF", c);
        ck_assert(hf__hex_decode(left, &byte, 1) == digit);
        ck_assert(hf__hex_decode(right, &byte, 1) == digit);
    }
    unsigned char few[2];
    ck_assert(!hf__hex_decode("ab", few, 2)); /* the NUL ends it */
    ck_assert(!hf__hex_decode("abc", few, 2));
}
END_TEST

/* ---- Numbers --------------------------------------------------------------------- */

START_TEST(number_limits)
{
    static const struct {
        const char *text;
        uint64_t max;
        bool fine;
        uint64_t number;
    } cases[] = {
        { "0", 0, true, 0 },
        { "0", UINT64_MAX, true, 0 },
        { "7", 7, true, 7 },
        { "8", 7, false, 0 },
        { "007", 7, true, 7 },
        { "65535", UINT16_MAX, true, 65535 },
        { "65536", UINT16_MAX, false, 0 },
        { "9223372036854775807", INT64_MAX, true, INT64_MAX },
        { "9223372036854775808", INT64_MAX, false, 0 },
        { "18446744073709551615", UINT64_MAX, true, UINT64_MAX },
        { "18446744073709551616", UINT64_MAX, false, 0 },
        { "18446744073709551620", UINT64_MAX, false, 0 },
        { "184467440737095516150", UINT64_MAX, false, 0 },
        { "99999999999999999999", UINT64_MAX, false, 0 },
        { "000000000000000000000000000000001", 1, true, 1 },
        { "", UINT64_MAX, false, 0 },
        { " 1", UINT64_MAX, false, 0 },
        { "1 ", UINT64_MAX, false, 0 },
        { "+1", UINT64_MAX, false, 0 },
        { "-1", UINT64_MAX, false, 0 },
        { "0x10", UINT64_MAX, false, 0 },
        { "1.0", UINT64_MAX, false, 0 },
        { "1e3", UINT64_MAX, false, 0 },
        { "\xD9\xA1", UINT64_MAX, false, 0 }, /* an Arabic-Indic digit */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t number = 12345;
        bool fine = hf__text_number(cases[i].text, cases[i].max, &number);
        ck_assert_msg(fine == cases[i].fine, "'%s'", cases[i].text);
        ck_assert(number == (fine ? cases[i].number : 12345));
    }
}
END_TEST

UNIT_MAIN("text", clean_corpus, clean_any_byte_anywhere, clean_agrees_with_reference,
          clean_agrees_on_random_mixtures, hash_never_changes, hash_sees_every_byte,
          hash_spreads_names, hex_goes_there_and_back, hex_refuses_other_digits,
          number_limits)
