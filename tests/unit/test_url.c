/* SPDX-License-Identifier: MIT */
/*
 * URLs of stores: a corpus of good and bad ones, random damage, options, redaction.
 *
 * Good URLs are compared in one line, their parts between bars, so that a table row is
 * all there is to a case. Every bad one also has to leave the result alone, free what
 * it took, and keep what is between "//" and "@" out of its message.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "../../src/base/error.h"
#include "../../src/base/mem.h"
#include "../../src/base/url.h"

/* scheme|user|password|host|port|path|key=value|... */
static void url_describe(const struct hf_url *url, char *buffer, size_t size)
{
    int len = snprintf(buffer, size, "%s|%s|%s|%s|%u|%s", url->scheme, url->user,
                       url->password, url->host, (unsigned)url->port, url->path);
    for (size_t i = 0; i < url->option_count; i++)
        len += snprintf(buffer + len, size - (size_t)len, "|%s=%s", url->options[i].key,
                        url->options[i].value);
}

static const struct {
    const char *text;
    const char *parts;
} good[] = {
    { "mem:", "mem||||0|" },
    { "mem:space", "mem||||0|space" },
    { "MEM:Space", "mem||||0|Space" },
    { "mem:?trace=1", "mem||||0||trace=1" },
    { "mem:?", "mem||||0|" },
    { "mem:a?", "mem||||0|a" },
    { "file:/run/locks", "file||||0|/run/locks" },
    { "file:///run/locks", "file||||0|/run/locks" },
    { "file://host/run/locks", "file|||host|0|/run/locks" },
    { "file:relative/dir", "file||||0|relative/dir" },
    { "file:./a b", "file||||0|./a b" },
    { "file:/a:b@c", "file||||0|/a:b@c" },
    { "file:/a?layout=flock", "file||||0|/a|layout=flock" },
    { "file:/a%3Fb%23c%25", "file||||0|/a?b#c%" },
    { "file:/%e2%82%AC", "file||||0|/\xE2\x82\xAC" },
    { "file:/\xFF", "file||||0|/\xFF" },
    { "file:/a%2Fb", "file||||0|/a/b" },
    { "file:/a//b", "file||||0|/a//b" },
    { "file:////a", "file||||0|//a" },
    { "file:?a", "file||||0||a=" },
    { "redis:", "redis||||0|" },
    { "redis://", "redis||||0|" },
    { "redis://h", "redis|||h|0|" },
    { "redis://h/", "redis|||h|0|/" },
    { "redis://h:6379", "redis|||h|6379|" },
    { "redis://h:1", "redis|||h|1|" },
    { "redis://h:65535/3", "redis|||h|65535|/3" },
    { "redis://h:006379", "redis|||h|6379|" },
    { "redis://:6379", "redis||||6379|" },
    { "redis://h?db=3", "redis|||h|0||db=3" },
    { "redis://user@h", "redis|user||h|0|" },
    { "redis://user:pw@h", "redis|user|pw|h|0|" },
    { "redis://:pw@h:1/2", "redis||pw|h|1|/2" },
    { "redis://user:@h", "redis|user||h|0|" },
    { "redis://@h", "redis|||h|0|" },
    { "redis://user:pw@", "redis|user|pw||0|" },
    { "redis://user:p:w:@h", "redis|user|p:w:|h|0|" },
    { "redis://us%40er:p%3Aw%2F%40%3f@h", "redis|us@er|p:w/@?|h|0|" },
    { "redis://127.0.0.1:7000", "redis|||127.0.0.1|7000|" },
    { "redis://[::1]", "redis|||::1|0|" },
    { "redis://[::1]:6379/0", "redis|||::1|6379|/0" },
    { "redis://u:p@[2001:db8::7]:1", "redis|u|p|2001:db8::7|1|" },
    { "redis://[::ffff:10.0.0.1]", "redis|||::ffff:10.0.0.1|0|" },
    { "redis://[fe80::1%25eth0]:2", "redis|||fe80::1%eth0|2|" },
    { "redis://b\xC3\xBC"
      "cher.example",
      "redis|||b\xC3\xBC"
      "cher.example|0|" },
    { "redis://h/?a=1&b=2", "redis|||h|0|/|a=1|b=2" },
    { "redis://h/?a=1=2", "redis|||h|0|/|a=1=2" },
    { "redis://h/?a=", "redis|||h|0|/|a=" },
    { "redis://h/?a=?&b=/:@", "redis|||h|0|/|a=?|b=/:@" },
    { "redis://h/?a=x%26y&%62=+", "redis|||h|0|/|a=x&y|b=+" },
    { "redis://h/?a=1&A=2", "redis|||h|0|/|a=1|A=2" },
    { "redis+unix:/run/redis.sock", "redis+unix||||0|/run/redis.sock" },
    { "Redis-Cluster://h", "redis-cluster|||h|0|" },
    { "a1.b+c-d:x", "a1.b+c-d||||0|x" },
    { "z:", "z||||0|" },
    { "postgres://%2Frun%2Fpg/db", "postgres|||/run/pg|0|/db" },
    { "etcd://h/a/%20b", "etcd|||h|0|/a/ b" },
    { "zookeeper://a,b", "zookeeper|||a,b|0|" },
    { "zookeeper://a:2181,b,c:1/r?x=1", "zookeeper|||a:2181,b,c:1|0|/r|x=1" },
    { "zookeeper://u:p@[::1]:2181,10.0.0.1,[::2]",
      "zookeeper|u|p|[::1]:2181,10.0.0.1,[::2]|0|" },
    { "zookeeper://u:p,w@a,b", "zookeeper|u|p,w|a,b|0|" },
    { "zookeeper://[fe80::1%25eth0]:2,a", "zookeeper|||[fe80::1%eth0]:2,a|0|" },
    { "file:/a,b?k=c,d", "file||||0|/a,b|k=c,d" },
};

/* What a message must not show: "secret" is wherever a secret could be. */
static const char *const bad[] = {
    "",
    ":",
    "file",
    "/run/locks",
    "//host",
    "1file:/a",
    "+file:/a",
    "fi le:/a",
    "fi_le:/a",
    " file:/a",
    "\xC3\xA4:/a",
    "%66ile:/a",
    "file:/a#fragment",
    "redis://h/#",
    "redis://u:secret#@h",
    "file:/%",
    "file:/%1",
    "file:/%g0",
    "file:/%0g",
    "file:/%00",
    "file:/a%00b",
    "file:/%%",
    "file:/a?k=%0",
    "file:/a?%=1",
    "file:/a?k=%00",
    "redis://h%00/",
    "redis://u:secret%@h",
    "redis://u:secret%00@h",
    "redis://%zz:secret@h",
    "redis://h:0",
    "redis://h:65536",
    "redis://h:99999999999999999999",
    "redis://h:",
    "redis://h:x",
    "redis://h:-1",
    "redis://h:+1",
    "redis://h: 1",
    "redis://h:1:2",
    "redis://a:b:c",
    "redis://u:secret@h:x",
    "redis://u:secret/x@h",
    "redis://u:12?secret&secret&@h",
    "redis://u:secret@secret@h",
    "redis://[::1",
    "redis://::1",
    "redis://[]",
    "redis://[::g]",
    "redis://[::1]x",
    "redis://[::1]x1",
    "redis://[%3A%3A1]",
    "redis://[::1%41]",
    "redis://[::1]]:1",
    "redis://[::1%eth0]",
    "redis://[::1%25%0a]",
    "redis://[::1]:",
    "redis://[127.0.0.1]",
    "redis://[1:2:3:4:5:6:7:8:9:1:2:3:4:5:6:7:8:9:1:2:3:4:5:6:7:8:9:0]",
    "zookeeper://,",
    "zookeeper://a,",
    "zookeeper://,a",
    "zookeeper://a,,b",
    "zookeeper://a,:2181",
    "zookeeper://a:,b",
    "zookeeper://a:0,b",
    "zookeeper://a,b:65536",
    "zookeeper://a,b:x",
    "zookeeper://a,b:1:2",
    "zookeeper://a,[::1",
    "zookeeper://a,[::g]",
    "zookeeper://a,::1",
    "zookeeper://a,b c",
    "zookeeper://a,b%2Cc",
    "zookeeper://a,b%3A1",
    "zookeeper://a%2Cb",
    "zookeeper://a,b%0a",
    "zookeeper://a,b%zz",
    "zookeeper://u:secret@a,b:x",
    "redis://h h",
    "redis://h%0d%0ax",
    "redis://h\n",
    "redis://h%80",
    "redis://a%3Ab",
    "redis://a%40b",
    "redis://h\\x",
    "file:/a?=1",
    "file:/a?&",
    "file:/a?a=1&",
    "file:/a?a=1&&b=2",
    "file:/a?&a=1",
    "file:/a?a=1&a=2",
    "file:/a?a&a",
    "file:/a?ab=1&%61b=2",
};

START_TEST(url_good_ones_come_apart)
{
    size_t live = hf__mem_live();
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct hf_url url;
        void *memory = NULL;
        hf_error why = { 0 };
        char parts[256];
        int rc = hf__url_parse(good[i].text, &url, &memory, &why);
        ck_assert_msg(rc == 0, "%s: %s", good[i].text, why.text);
        ck_assert_int_eq(why.code, 0);
        url_describe(&url, parts, sizeof parts);
        ck_assert_str_eq(parts, good[i].parts);
        hf__free(memory);
    }
    ck_assert_uint_eq(hf__mem_live(), live);
}
END_TEST

START_TEST(url_bad_ones_are_refused)
{
    size_t live = hf__mem_live();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hf_url url = { .scheme = "untouched" };
        void *memory = &url;
        hf_error why = { 0 };
        int rc = hf__url_parse(bad[i], &url, &memory, &why);
        ck_assert_msg(rc == HF_EURL, "'%s' was understood", bad[i]);
        ck_assert_int_eq(why.code, HF_EURL);
        ck_assert_ptr_null(strstr(why.text, "secret"));
        ck_assert_str_eq(url.scheme, "untouched");
        ck_assert_ptr_eq(memory, &url);
        ck_assert_int_eq(hf__url_parse(bad[i], &url, &memory, NULL), HF_EURL);
    }
    ck_assert_uint_eq(hf__mem_live(), live);
}
END_TEST

START_TEST(url_messages_help)
{
    struct hf_url url;
    void *memory;
    hf_error why;
    hf__url_parse("file:/a?ttl=1&ttl=2", &url, &memory, &why);
    ck_assert_str_eq(why.text, "the option 'ttl' is given twice");
    hf__url_parse("redis://u:p@w@h", &url, &memory, &why);
    ck_assert_ptr_nonnull(strstr(why.text, "must be written %40"));
}
END_TEST

START_TEST(url_out_of_memory)
{
    struct hf_url url;
    void *memory;
    hf_error why;
    hf__mem_fail(1, 0);
    ck_assert_int_eq(hf__url_parse("mem:", &url, &memory, &why), HF_ENOMEM);
    ck_assert_int_eq(why.code, HF_ENOMEM);
}
END_TEST

/* "mem:?0=&1=&...": as many options as fit, and one more. */
static int parse_with_options(int count)
{
    struct hf_url url;
    void *memory = NULL;
    char text[1024];
    int len = snprintf(text, sizeof text, "mem:");

    for (int i = 0; i < count; i++)
        len +=
            snprintf(text + len, sizeof text - (size_t)len, "%c%d=", i ? '&' : '?', i);
    int rc = hf__url_parse(text, &url, &memory, NULL);
    if (rc == 0) {
        ck_assert_uint_eq(url.option_count, (size_t)count);
        hf__free(memory);
    }
    return rc;
}

START_TEST(url_number_of_options_is_bounded)
{
    for (int count = 0; count <= 64; count++)
        ck_assert_int_eq(parse_with_options(count), 0);
    ck_assert_int_eq(parse_with_options(65), HF_EURL);
    ck_assert_int_eq(parse_with_options(100), HF_EURL);
}
END_TEST

/* Any damage to a good URL: no crash, no leak, no half result. */
START_TEST(url_survives_damage)
{
    static const char marks[] = "%:/?#[]@&=+.-\n\x80 a0";
    uint64_t seed = 7;
    size_t live = hf__mem_live();

    for (int round = 0; round < 50000; round++) {
        const char *base = good[unit_below(&seed, sizeof good / sizeof good[0])].text;
        size_t len = strlen(base);
        char *text = calloc(1, len + 1);
        struct hf_url url = { 0 };
        void *memory = NULL;
        char line[64];

        memcpy(text, base, len);
        for (uint32_t n = 1 + unit_below(&seed, 4); n > 0 && len; n--)
            text[unit_below(&seed, (uint32_t)len)] =
                marks[unit_below(&seed, sizeof marks)];
        int rc = hf__url_parse(text, &url, &memory, NULL);
        UNIT_ASSERT((rc == 0) == (memory != NULL));
        UNIT_ASSERT(rc == 0 || rc == HF_EURL);
        hf__url_redact(text, line, sizeof line);
        hf__free(memory);
        free(text);
    }
    ck_assert_uint_eq(hf__mem_live(), live);
}
END_TEST

/* ---- Options --------------------------------------------------------------------- */

START_TEST(url_options_are_found)
{
    struct hf_url url;
    void *memory;
    ck_assert_int_eq(hf__url_parse("mem:?a=1&b&c=", &url, &memory, NULL), 0);
    ck_assert_str_eq(hf__url_option(&url, "a"), "1");
    ck_assert_str_eq(hf__url_option(&url, "b"), "");
    ck_assert_str_eq(hf__url_option(&url, "c"), "");
    ck_assert_ptr_null(hf__url_option(&url, "A"));
    ck_assert_ptr_null(hf__url_option(&url, ""));
    hf__free(memory);
}
END_TEST

static const struct {
    const char *value;
    int64_t low, high;
    bool fine;
    int64_t number;
} numbers[] = {
    { "5", 0, 10, true, 5 },
    { "0", 0, 10, true, 0 },
    { "10", 0, 10, true, 10 },
    { "11", 0, 10, false, 0 },
    { "-1", 0, 10, false, 0 },
    { "-1", -1, 10, true, -1 },
    { "-2", -1, 10, false, 0 },
    { "9223372036854775807", 0, INT64_MAX, true, INT64_MAX },
    { "9223372036854775808", 0, INT64_MAX, false, 0 },
    { "-9223372036854775807", INT64_MIN, 0, true, -INT64_MAX },
    { "99999999999999999999999", 0, INT64_MAX, false, 0 },
    { "", 0, 10, false, 0 },
    { "-", -10, 10, false, 0 },
    { "--1", -10, 10, false, 0 },
    { "+1", 0, 10, false, 0 },
    { "1s", 0, 10, false, 0 },
    { "1.5", 0, 10, false, 0 },
    { "0x1", 0, 10, false, 0 },
    { "%31", 0, 10, true, 1 },
};

START_TEST(url_numbers_have_limits)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct hf_url url;
        void *memory;
        hf_error why = { 0 };
        int64_t number = 77;
        char text[80];
        snprintf(text, sizeof text, "mem:?n=%s", numbers[i].value);
        ck_assert_int_eq(hf__url_parse(text, &url, &memory, NULL), 0);
        int rc = hf__url_number(&url, "n", numbers[i].low, numbers[i].high, 3, &number,
                                &why);
        ck_assert_msg(rc == (numbers[i].fine ? 0 : HF_EURL), "%s", text);
        ck_assert(number == (numbers[i].fine ? numbers[i].number : 77));
        ck_assert_int_eq(hf__url_number(&url, "other", 0, 1, 99, &number, NULL), 0);
        ck_assert_int_eq(number, 99);
        hf__free(memory);
    }
}
END_TEST

START_TEST(url_number_says_what_is_wanted)
{
    struct hf_url url;
    void *memory;
    hf_error why;
    int64_t number;
    ck_assert_int_eq(hf__url_parse("mem:?ttl=secret", &url, &memory, NULL), 0);
    hf__url_number(&url, "ttl", 1, 60, 0, &number, &why);
    ck_assert_str_eq(why.text, "the option 'ttl' must be a whole number from 1 to 60");
    hf__free(memory);
}
END_TEST

START_TEST(url_times_have_units)
{
    static const struct {
        const char *value;
        int64_t ms; /* -1: refused */
    } times[] = {
        { "500ms", 500 },
        { "30s", 30000 },
        { "30sec", 30000 },
        { "5m", 300000 },
        { "5min", 300000 },
        { "1h", 3600000 },
        { "1d", 86400000 },
        { "1m30s", 90000 },
        { "1h30m", 5400000 },
        { "1s500ms", 1500 },
        { "30", -1 },
        { "0", -1 },
        { "", -1 },
        { "s", -1 },
        { "1h30", -1 },
        { "30s1m", -1 },
        { "1s1s", -1 },
        { "-1s", -1 },
        { "1.5s", -1 },
        { "1e3", -1 },
        { "1 s", -1 },
        { "1sx", -1 },
        { "1secs", -1 },
        { "0ms", -1 },
        { "101d", -1 },
        { "99999999999999999999d", -1 },
        { "9223372036854775807ms", -1 },
    };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        struct hf_url url;
        void *memory;
        hf_error why = { 0 };
        int64_t ms = 77;
        char text[80];
        snprintf(text, sizeof text, "mem:?t=%s", times[i].value);
        ck_assert_int_eq(hf__url_parse(text, &url, &memory, NULL), 0);
        int rc = hf__url_time(&url, "t", 1, 8640000000, 3, &ms, &why);
        ck_assert_msg(rc == (times[i].ms >= 0 ? 0 : HF_EURL), "%s", text);
        ck_assert_msg(ms == (times[i].ms >= 0 ? times[i].ms : 77), "%s", text);
        ck_assert(rc == 0 || strstr(why.text, "as in 30s or 500ms"));
        ck_assert_int_eq(hf__url_time(&url, "other", 0, 1, 99, &ms, NULL), 0);
        ck_assert_int_eq(ms, 99);
        hf__free(memory);
    }
}
END_TEST

/* ---- Redaction ------------------------------------------------------------------- */

START_TEST(url_redaction)
{
    static const char *const pairs[][2] = {
        { "redis://h:1/2?a=b", "redis://h:1/2?a=b" },
        { "redis://u:pw@h:1/2", "redis://***@h:1/2" },
        { "redis://u@h", "redis://***@h" },
        { "redis://:pw@h", "redis://***@h" },
        { "redis://u:p@w@h", "redis://***@h" },
        { "redis://u:p/w@h/0", "redis://***@h/0" },
        { "redis://u:p?w@h", "redis://***@h" },
        { "redis://u:p#w@h", "redis://***@h" },
        { "zookeeper://u:pw@a:1,b:2/r", "zookeeper://***@a:1,b:2/r" },
        { "zookeeper://a:1,b:2/r", "zookeeper://a:1,b:2/r" },
        { "redis:u:pw@h", "redis:***@h" },
        { "u:pw@h", "u:***@h" },
        { "pw@h:1", "***@h:1" },
        { "//u:pw@h", "//***@h" },
        { "file:///run/user@1000/x", "file:///run/user@1000/x" },
        { "file:/run/user@1000/x", "file:/run/user@1000/x" },
        { "redis:/:pw@h", "redis:***@h" },
        { "redis:///u:pw@h", "redis://***@h" },
        { "redis:/pw@h", "redis:***@h" },
        { "redis//u:pw@h", "***@h" },
        { "file://u:pw@h", "file://***@h" },
        { "@", "***@" },
        { "", "" },
        { ":", ":" },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char line[64];
        hf__url_redact(pairs[i][0], line, sizeof line);
        ck_assert_str_eq(line, pairs[i][1]);
    }
}
END_TEST

START_TEST(url_redaction_is_cut_to_fit)
{
    char line[16];
    memset(line, 'z', sizeof line);
    hf__url_redact("redis://user:password@host", line, 10);
    ck_assert_str_eq(line, "redis://*");
    ck_assert_int_eq(line[10], 'z');
    hf__url_redact("redis://h", line, 1);
    ck_assert_str_eq(line, "");
    hf__url_redact("redis://h", line, 0);
}
END_TEST

UNIT_MAIN("url", url_good_ones_come_apart, url_bad_ones_are_refused, url_messages_help,
          url_out_of_memory, url_number_of_options_is_bounded, url_survives_damage,
          url_options_are_found, url_numbers_have_limits,
          url_number_says_what_is_wanted, url_times_have_units, url_redaction,
          url_redaction_is_cut_to_fit)
