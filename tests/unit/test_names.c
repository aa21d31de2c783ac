/* SPDX-License-Identifier: MIT */
/* Names as files: known pairs, the published vectors of the hash, and a million random
 * and hostile names, none of which may collide, escape or come back changed. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../../src/base/text.h"
#include "../../src/kit/names.h"

#ifdef __SANITIZE_THREAD__ /* which finds nothing here, and takes half a minute */
#define MANY 100000
#else
#define MANY 1000000
#endif
#define LONGEST 1024

static const char *to_file(const char *name, size_t len)
{
    static char file[HF_FILE_NAME_SIZE];

    ck_assert(hf__name_to_file(name, len, file, sizeof file));
    return file;
}

#define ck_file(name, expected)                                                        \
    ck_assert_str_eq(to_file(name, sizeof(name) - 1), expected)

START_TEST(names_known)
{
    ck_file("jobs", "jobs");
    ck_file("a.b_c-9", "a.b_c-9");
    ck_file("jobs/nightly", "jobs%2Fnightly");
    ck_file(".", "%2E");
    ck_file("..", "%2E.");
    ck_file(".holdfast-tokens", "%2Eholdfast-tokens");
    ck_file("100%", "100%25");
    ck_file("a~b", "a%7Eb");
    ck_file("a b\n", "a%20b%0A");
    ck_file("\xc3\xa9", "%C3%A9");
    ck_file("a\0b", "a%00b");
    ck_file("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd");
}
END_TEST

START_TEST(names_long)
{
    char name[LONGEST + 1], file[HF_FILE_NAME_SIZE];

    memset(name, 'a', sizeof name);
    ck_assert_uint_eq(strlen(to_file(name, 200)), 200);
    ck_assert_ptr_null(strchr(to_file(name, 200), '~'));
    ck_assert_uint_eq(strlen(to_file(name, 201)), 160 + 33);
    ck_assert_int_eq(to_file(name, 201)[160], '~');

    memset(name, '/', sizeof name);
    ck_assert_uint_eq(strlen(to_file(name, 66)), 198);
    /* 53 escapes are 159 bytes, and half of one is never written. */
    ck_assert_uint_eq(strlen(to_file(name, 67)), 159 + 33);
    ck_assert_uint_eq(strlen(to_file(name, LONGEST)), 159 + 33);

    ck_assert(!hf__name_to_file("", 0, file, sizeof file));
    ck_assert(!hf__name_to_file("abc", 3, file, 3));
    ck_assert(hf__name_to_file("abc", 3, file, 4));
}
END_TEST

START_TEST(names_back_refused)
{
    static const char *const wrong[] = {
        "",    ".",    "..",  ".hidden", "a/b", "a~b", "a%2fb", "a%2", "a%",
        "%41", "a%2E", "a b", "\x80",    "%2",  "%G0", "%%%",   "%7e", "a%5F",
    };
    char file[HF_FILE_NAME_SIZE], out[LONGEST + 1], name[300];
    size_t len;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(!hf__name_from_file(wrong[i], out, sizeof out, &len), "'%s'",
                      wrong[i]);
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    ck_assert(!hf__name_from_file(name, out, sizeof out, &len));
    ck_assert(hf__name_to_file(name, sizeof name, file, sizeof file));
    ck_assert(!hf__name_from_file(file, out, sizeof out, &len));
    ck_assert(!hf__name_from_file("abc", out, 3, &len));
    ck_assert(hf__name_from_file("abc", out, 4, &len));
}
END_TEST

/* The vectors that the authors of SipHash publish for the key 00 01 .. 0f and the
 * message 00 01 .. */
START_TEST(names_hash_vectors)
{
    static const struct {
        size_t len;
        const char *hex;
    } vectors[] = {
        { 0, "a3817f04ba25a8e66df67214c7550293" },
        { 1, "da87c1d86b99af44347659119b22fc45" },
        { 2, "8177228da4a45dc7fca38bdef60affe4" },
        { 7, "a1f1ebbed8dbc153c0b84aa61ff08239" },
        { 8, "3b62a9ba6258f5610f83e264f31497b4" },
    };
    char message[16], hex[33] = { 0 };
    unsigned char hash[16];

    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (char)i;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        hf__name_hash128(message, vectors[i].len, hash);
        hf__hex_encode(hash, sizeof hash, hex);
        ck_assert_str_eq(hex, vectors[i].hex);
    }
}
END_TEST

/* ---- A million names ------------------------------------------------------------- */

/* Name number `i`: random bytes, or one of the families that a bad map would confuse.
 * The number itself is in it, so that no two names are equal. */
static size_t name_make(uint64_t *random, uint32_t i, char *name)
{
    static const char hostile[] = "/.%~\\:*?\"<>| \t\n\r\0\x7f\x80\xff-_aA2EFf";
    size_t len = unit_below(random, 8) ? unit_below(random, 24)
                                       : unit_below(random, LONGEST - 16);
    bool tame = i % 2;
    char number[16];
    size_t digits, at;

    for (size_t n = 0; n < len; n++)
        name[n] = tame ? hostile[unit_below(random, sizeof hostile - 1)]
                       : (char)unit_below(random, 256);
    /* Like the result of a map of another name. */
    if (i % 5 == 0 && len > 40)
        name[len - 33] = '~';
    digits = (size_t)snprintf(number, sizeof number, "%c%x", "/%.~"[i % 4], i);
    at = i % 3 == 0 ? 0 : len;
    memmove(name + at + digits, name + at, len - at);
    memcpy(name + at, number, digits);
    return len + digits;
}

/* Plain conditions instead of assertions from here on: each assertion writes a line to
 * a pipe, and there are millions. */
static bool file_right(const char *name, size_t len, const char *file)
{
    char back[LONGEST + 1];
    size_t back_len;
    bool came_back = hf__name_from_file(file, back, sizeof back, &back_len);

    if (file[0] == '\0' || file[0] == '.' || strchr(file, '/') ||
        strlen(file) > HF_FILE_NAME_LONG)
        return false;
    if (strchr(file, '~'))
        return !came_back;
    return came_back && back_len == len && memcmp(back, name, len) == 0;
}

static int compare_text(const void *a, const void *b)
{
    return memcmp(a, b, 24);
}

/* Equal files show as equal pairs of two independent hashes, 24 bytes in all. */
START_TEST(names_million)
{
    char(*digests)[24] = calloc(MANY, sizeof *digests);
    uint64_t random = UINT64_C(0x9E3779B97F4A7C15);
    char name[LONGEST + 16], file[HF_FILE_NAME_SIZE];

    ck_assert_ptr_nonnull(digests);
    for (uint32_t i = 0; i < MANY; i++) {
        size_t len = name_make(&random, i, name);
        uint32_t other;

        if (!hf__name_to_file(name, len, file, sizeof file) ||
            !file_right(name, len, file))
            ck_abort_msg("name %u", (unsigned)i);
        hf__name_hash128(file, strlen(file), (unsigned char *)digests[i]);
        other = hf__text_hash(file, strlen(file));
        memcpy(digests[i] + 16, &other, sizeof other);
    }
    qsort(digests, MANY, sizeof *digests, compare_text);
    for (uint32_t i = 1; i < MANY; i++)
        if (memcmp(digests[i - 1], digests[i], sizeof *digests) == 0)
            ck_abort_msg("two names in one file");
    free(digests);
}
END_TEST

UNIT_MAIN("names", names_known, names_long, names_back_refused, names_hash_vectors,
          names_million)
