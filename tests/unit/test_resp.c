/* SPDX-License-Identifier: MIT */
/*
 * The codec of Redis's protocol.
 *
 * Input lies in blocks of its exact size, so that a sanitizer sees a read beyond it.
 * Each sample is also read in every strict prefix, which must ask for more, and with
 * the next reply behind it, of which nothing may be touched.
 */
#include "unit.h"

#include "../../src/backends/redis/resp.h"

#include <stdio.h>
#include <string.h>

static struct resp nodes[RESP_NODES_MAX];

static enum resp_state read_exact(const char *data, size_t size, size_t max_nodes,
                                  size_t *ret_used)
{
    char *block = malloc(size ? size : 1);
    if (size)
        memcpy(block, data, size);
    enum resp_state state =
        hf__redis_resp_read(block, size, nodes, max_nodes, ret_used);
    free(block);
    return state;
}

static enum resp_state read_text(const char *text)
{
    size_t used = 0;
    return read_exact(text, strlen(text), RESP_NODES_MAX, &used);
}

#define SAMPLE(text)                                                                   \
    {                                                                                  \
        text, sizeof(text) - 1                                                         \
    }

static const struct resp_arg samples[] = {
    SAMPLE("+OK\r\n"),
    SAMPLE("+\r\n"),
    SAMPLE("-ERR unknown command\r\n"),
    SAMPLE("-NOSCRIPT No matching script. Please use EVAL.\r\n"),
    SAMPLE(":0\r\n"),
    SAMPLE(":-1\r\n"),
    SAMPLE(":+12\r\n"),
    SAMPLE(":9223372036854775807\r\n"),
    SAMPLE(":-9223372036854775808\r\n"),
    SAMPLE("$0\r\n\r\n"),
    SAMPLE("$-1\r\n"),
    SAMPLE("$5\r\nhello\r\n"),
    SAMPLE("$4\r\n\r\n\r\n\r\n"),
    SAMPLE("$3\r\na\0b\r\n"),
    SAMPLE("*0\r\n"),
    SAMPLE("*-1\r\n"),
    SAMPLE("*5\r\n:1\r\n:1700000000000001\r\n:64\r\n:30000\r\n:1700000000000\r\n"),
    SAMPLE("*3\r\n*0\r\n*-1\r\n*2\r\n$1\r\nx\r\n:7\r\n"),
    SAMPLE("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:8\r\n"),
    SAMPLE("_\r\n"),
    SAMPLE("#t\r\n"),
    SAMPLE("#f\r\n"),
    SAMPLE(",3.25\r\n"),
    SAMPLE(",inf\r\n"),
    SAMPLE("(3492890328409238509324850943850943825024385\r\n"),
    SAMPLE("!9\r\nERR plain\r\n"),
    SAMPLE("=8\r\ntxt:some\r\n"),
    SAMPLE("%2\r\n+server\r\n+redis\r\n+proto\r\n:3\r\n"),
    SAMPLE("%0\r\n"),
    SAMPLE("~2\r\n+a\r\n+b\r\n"),
    SAMPLE(">3\r\n+message\r\n+channel\r\n$2\r\nhi\r\n"),
    SAMPLE("|1\r\n+ttl\r\n:3600\r\n+OK\r\n"),
    SAMPLE("|0\r\n|1\r\n+a\r\n*2\r\n:1\r\n:2\r\n*1\r\n|1\r\n_\r\n_\r\n:5\r\n"),
    SAMPLE("%1\r\n$4\r\nlist\r\n*2\r\n%1\r\n+k\r\n~1\r\n:1\r\n$-1\r\n"),
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

/* ---- Reading --------------------------------------------------------------------- */

START_TEST(a_prefix_asks_for_more)
{
    for (size_t i = 0; i < SAMPLES; i++)
        for (size_t size = 0; size <= samples[i].len; size++) {
            size_t used = 0;
            enum resp_state state =
                read_exact(samples[i].text, size, RESP_NODES_MAX, &used);
            bool whole = size == samples[i].len;
            ck_assert_msg(state == (whole ? RESP_WHOLE : RESP_MORE), "%zu: %zu", i,
                          size);
            ck_assert_uint_eq(used, whole ? size : 0);
        }
}
END_TEST

START_TEST(the_next_reply_is_not_touched)
{
    char both[512];

    for (size_t i = 0; i < SAMPLES; i++)
        for (size_t j = 0; j < SAMPLES; j++) {
            size_t used = 0;
            memcpy(both, samples[i].text, samples[i].len);
            memcpy(both + samples[i].len, samples[j].text, samples[j].len);
            ck_assert_int_eq(read_exact(both, samples[i].len + samples[j].len,
                                        RESP_NODES_MAX, &used),
                             RESP_WHOLE);
            UNIT_ASSERT(used == samples[i].len);
        }
}
END_TEST

/* Every node's `next` lies behind it and inside of what it belongs to. */
static size_t check_tree(size_t at, size_t depth)
{
    size_t next = at + 1;

    UNIT_ASSERT(depth <= RESP_DEPTH_MAX);
    if (nodes[at].type == RESP_ARRAY || nodes[at].type == RESP_PUSH)
        for (size_t i = 0; i < nodes[at].len; i++) {
            UNIT_ASSERT(hf__redis_resp_at(nodes, at, i) == &nodes[next]);
            next = check_tree(next, depth + 1);
        }
    UNIT_ASSERT(nodes[at].next == next);
    return next;
}

START_TEST(nodes_form_a_tree)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t used = 0;
        ck_assert_int_eq(hf__redis_resp_read(samples[i].text, samples[i].len, nodes,
                                             RESP_NODES_MAX, &used),
                         RESP_WHOLE);
        check_tree(0, 0);
        ck_assert_ptr_null(hf__redis_resp_at(nodes, 0, nodes[0].len));
    }
}
END_TEST

static const struct resp *whole(const char *text)
{
    size_t used = 0;
    ck_assert_int_eq(
        hf__redis_resp_read(text, strlen(text), nodes, RESP_NODES_MAX, &used),
        RESP_WHOLE);
    ck_assert_uint_eq(used, strlen(text));
    return nodes;
}

static void expect_text(const struct resp *value, enum resp_type type, const char *text)
{
    ck_assert_ptr_nonnull(value);
    ck_assert_int_eq(value->type, type);
    ck_assert_uint_eq(value->len, strlen(text));
    ck_assert_mem_eq(value->text, text, strlen(text));
}

static void expect_number(const struct resp *value, int64_t number)
{
    ck_assert_ptr_nonnull(value);
    ck_assert_int_eq(value->type, RESP_NUMBER);
    ck_assert_int_eq(value->number, number);
}

START_TEST(scalars)
{
    expect_text(whole("+OK\r\n"), RESP_TEXT, "OK");
    expect_text(whole("+\r\n"), RESP_TEXT, "");
    expect_text(whole("$2\r\n\r\n\r\n"), RESP_TEXT, "\r\n");
    expect_text(whole("=7\r\nmkd:# t\r\n"), RESP_TEXT, "# t");
    expect_text(whole("-LOADING yes\r\n"), RESP_ERROR, "LOADING yes");
    expect_text(whole("!5\r\nOOM x\r\n"), RESP_ERROR, "OOM x");
    expect_text(whole(",1.5e300\r\n"), RESP_OTHER, "1.5e300");
    expect_text(whole("(123456789012345678901234567890\r\n"), RESP_OTHER,
                "123456789012345678901234567890");
    expect_number(whole(":42\r\n"), 42);
    expect_number(whole(":0000000000000000042\r\n"), 42);
    expect_number(whole(":9223372036854775807\r\n"), INT64_MAX);
    expect_number(whole(":-9223372036854775808\r\n"), INT64_MIN);
    expect_number(whole("#t\r\n"), 1);
    expect_number(whole("#f\r\n"), 0);
    ck_assert_int_eq(whole("_\r\n")->type, RESP_NIL);
    ck_assert_int_eq(whole("$-1\r\n")->type, RESP_NIL);
    ck_assert_int_eq(whole("*-1\r\n")->type, RESP_NIL);
}
END_TEST

START_TEST(aggregates)
{
    const struct resp *reply =
        whole("*3\r\n*2\r\n:1\r\n*1\r\n+deep\r\n$-1\r\n%1\r\n+k\r\n:9\r\n");

    ck_assert_int_eq(reply->type, RESP_ARRAY);
    ck_assert_uint_eq(reply->len, 3);
    ck_assert_uint_eq(reply->next, 9);
    ck_assert_uint_eq(hf__redis_resp_at(reply, 0, 0)->next, 5);
    expect_text(hf__redis_resp_at(reply, 3, 0), RESP_TEXT, "deep");
    ck_assert_int_eq(hf__redis_resp_at(reply, 0, 1)->type, RESP_NIL);
    ck_assert_uint_eq(hf__redis_resp_at(reply, 0, 2)->len, 2);
    expect_number(hf__redis_resp_at(reply, 6, 1), 9);
    ck_assert_ptr_null(hf__redis_resp_at(reply, 0, 3));
    ck_assert_ptr_null(hf__redis_resp_at(reply, 2, 0)); /* not an array */

    ck_assert_int_eq(whole(">2\r\n+a\r\n+b\r\n")->type, RESP_PUSH);
    expect_text(hf__redis_resp_at(nodes, 0, 1), RESP_TEXT, "b");
}
END_TEST

START_TEST(attributes_are_skipped)
{
    expect_text(whole("|1\r\n+a\r\n%1\r\n+b\r\n:1\r\n+OK\r\n"), RESP_TEXT, "OK");
    ck_assert_uint_eq(nodes[0].next, 1);

    whole("*2\r\n|1\r\n:1\r\n:2\r\n:3\r\n|0\r\n:4\r\n");
    ck_assert_uint_eq(nodes[0].next, 3);
    expect_number(hf__redis_resp_at(nodes, 0, 0), 3);
    expect_number(hf__redis_resp_at(nodes, 0, 1), 4);
}
END_TEST

START_TEST(bad_input)
{
    static const char *const bad[] = {
        "x",
        "\n",
        "OK\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
        "\x80\r\n",
        "+OK\rX",
        ":\r\n",
        ":-\r\n",
        ":1a\r\n",
        ":1\n",
        ":1\rx",
        ": 1\r\n",
        ":9223372036854775808\r\n",
        ":-9223372036854775809\r\n",
        ":99999999999999999999\r\n",
        ":00000000000000000000",
        "=1\r\nx\r\n:1\r\n",
        "$-2\r\n",
        "$5\r\nhelloXX",
        "$5\r\nhello\rX",
        "$\r\n",
        "$?\r\n",
        "$16777217\r\n",
        "$99999999999999999999\r\n",
        "$4294967297\r\n",
        "*-2\r\n",
        "*?\r\n",
        "*4097\r\n",
        "*4294967296\r\n",
        "*9223372036854775807\r\n",
        "%-1\r\n",
        "%2048\r\n", /* 4096 of them and the map itself */
        "%4611686018427387905\r\n",
        "~-1\r\n",
        ">-1\r\n",
        "|-1\r\n",
        "!-1\r\n",
        "=-1\r\n",
        "=3\r\ntxt\r\n",
        "=5\r\ntxt-x\r\n",
        "#x\r\n",
        "#tt",
        "_x\r\n",
        "*1\r\n>1\r\n:1\r\n",
        "*2\r\n:1\r\nx",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        "|1\r\n|1\r\n|1\r\n|1\r\n|1\r\n|1\r\n|1\r\n|1\r\n|1\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(read_text(bad[i]) == RESP_BAD, "'%s'", bad[i]);
}
END_TEST

/* The limits, each from both sides. */

static enum resp_state read_filled(const char *head, char filling, size_t count,
                                   const char *tail)
{
    size_t size = strlen(head) + count + strlen(tail), used = 0;
    char *block = malloc(size);

    memcpy(block, head, strlen(head));
    memset(block + strlen(head), filling, count);
    memcpy(block + strlen(head) + count, tail, strlen(tail));
    enum resp_state state =
        hf__redis_resp_read(block, size, nodes, RESP_NODES_MAX, &used);
    free(block);
    return state;
}

START_TEST(long_strings)
{
    ck_assert_int_eq(read_filled("$16777216\r\n", 'x', RESP_BULK_MAX, "\r\n"),
                     RESP_WHOLE);
    ck_assert_int_eq(read_filled("$16777216\r\n", 'x', RESP_BULK_MAX, ""), RESP_MORE);
    ck_assert_int_eq(read_filled("+", 'x', 65535, "\r\n"), RESP_WHOLE);
    ck_assert_int_eq(read_filled("+", 'x', 65535, ""), RESP_MORE);
    ck_assert_int_eq(read_filled("-", 'x', 65536, ""), RESP_BAD);
}
END_TEST

/* `row` again and again behind `head`. */
static enum resp_state read_row(const char *head, const char *row, size_t count,
                                size_t max_nodes)
{
    size_t size = strlen(head) + count * strlen(row), used = 0;
    char *block = malloc(size), *at = block + strlen(head);

    memcpy(block, head, strlen(head));
    for (size_t i = 0; i < count; i++, at += strlen(row))
        memcpy(at, row, strlen(row));
    enum resp_state state = hf__redis_resp_read(block, size, nodes, max_nodes, &used);
    free(block);
    return state;
}

START_TEST(many_nodes)
{
    ck_assert_int_eq(read_row("*4095\r\n", ":1\r\n", 4095, 4096), RESP_WHOLE);
    ck_assert_int_eq(read_row("*4095\r\n", ":1\r\n", 4094, 4096), RESP_MORE);
    ck_assert_int_eq(read_row("*4096\r\n", ":1\r\n", 0, 4096), RESP_BAD);
    ck_assert_int_eq(read_row("*3\r\n", ":1\r\n", 3, 4), RESP_WHOLE);
    ck_assert_int_eq(read_row("*3\r\n", ":1\r\n", 3, 3), RESP_BAD);
    ck_assert_int_eq(read_row("*2\r\n*1\r\n:1\r\n", "*1\r\n:1\r\n", 1, 4), RESP_BAD);
    ck_assert_int_eq(read_row("", "|0\r\n", 4096, 4096), RESP_MORE);
    ck_assert_int_eq(read_row("", "|0\r\n", 4097, 4096), RESP_BAD);
}
END_TEST

/* ---- Looking at values ----------------------------------------------------------- */

START_TEST(texts_are_compared)
{
    const struct resp *error = whole("-NOSCRIPT No\r\n");
    ck_assert(hf__redis_resp_begins(error, "NOSCRIPT"));
    ck_assert(hf__redis_resp_begins(error, ""));
    ck_assert(!hf__redis_resp_begins(error, "NOSCRIPT Not"));
    ck_assert(!hf__redis_resp_is(error, "NOSCRIPT"));
    ck_assert(hf__redis_resp_is(error, "NOSCRIPT No"));
    ck_assert(!hf__redis_resp_is(whole("+OK\r\n"), "ok"));
    ck_assert(!hf__redis_resp_is(whole(":1\r\n"), "1"));
    ck_assert(!hf__redis_resp_is(whole("_\r\n"), ""));
    ck_assert(!hf__redis_resp_is(NULL, ""));
    ck_assert(!hf__redis_resp_begins(NULL, ""));
}
END_TEST

/* As Redis 5 to 6.2 and 7 say it. */
/* Only lists have elements; a text is as long as it is, and has none. */
START_TEST(elements)
{
    size_t used;
    ck_assert_int_eq(hf__redis_resp_read("+ab\r\n", 5, nodes, 8, &used), RESP_WHOLE);
    ck_assert_ptr_null(hf__redis_resp_at(nodes, 0, 0));
    ck_assert_int_eq(hf__redis_resp_read("*2\r\n:1\r\n:2\r\n", 12, nodes, 8, &used),
                     RESP_WHOLE);
    ck_assert_int_eq(hf__redis_resp_at(nodes, 0, 1)->number, 2);
    ck_assert_ptr_null(hf__redis_resp_at(nodes, 0, 2));
    ck_assert_ptr_null(hf__redis_resp_at(nodes, 1, 0));
    ck_assert_int_eq(hf__redis_resp_read(">1\r\n:1\r\n", 8, nodes, 8, &used),
                     RESP_WHOLE);
    ck_assert_ptr_nonnull(hf__redis_resp_at(nodes, 0, 0));
}
END_TEST

/* A line has an end, or it is none. */
START_TEST(long_lines)
{
    enum { LINE = 64 << 10 };
    static char text[LINE + 8];
    size_t used;
    memset(text, 'x', sizeof text);
    text[0] = '+';
    memcpy(text + LINE, "\r\n", 2); /* the last place where it may stand */
    ck_assert_int_eq(hf__redis_resp_read(text, LINE + 2, nodes, 8, &used), RESP_WHOLE);
    ck_assert_uint_eq(nodes[0].len, LINE - 1);
    text[LINE] = 'x';
    memcpy(text + LINE + 1, "\r\n", 2);
    ck_assert_int_eq(hf__redis_resp_read(text, LINE + 3, nodes, 8, &used), RESP_BAD);
    ck_assert_int_eq(hf__redis_resp_read(text, LINE, nodes, 8, &used), RESP_MORE);
    ck_assert_int_eq(hf__redis_resp_read(text, 0, nodes, 8, &used), RESP_MORE);
}
END_TEST

START_TEST(what_a_script_met)
{
#define FAILED "-ERR Error running script (call to f_e52a49f0): "
    static const struct {
        const char *reply, *cause;
    } cases[] = {
        { FAILED "@user_script:1: @user_script: 1: -OOM command\r\n", "OOM command" },
        { FAILED "@user_script:23: WRONGTYPE Operation\r\n", "WRONGTYPE Operation" },
        { FAILED "@user_script:7: @user_script: 7: Wrong number: 1\r\n",
          "Wrong number: 1" },
        { FAILED "\r\n", "" },
        { FAILED "@user_script\r\n", "@user_script" },
        { FAILED "@user_script:1\r\n", "1" },
        { FAILED "-\r\n", "" },
        { "-ERR Error running script\r\n", "ERR Error running script" },
        { "-OOM command. script: 63, on @user_script:1.\r\n",
          "OOM command. script: 63, on @user_script:1." },
        { "-NOPERM (x): -no\r\n", "NOPERM (x): -no" },
        { "-\r\n", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct resp cause = hf__redis_resp_cause(whole(cases[i].reply));
        ck_assert_msg(hf__redis_resp_is(&cause, cases[i].cause), "%.*s, not %s",
                      (int)cause.len, cause.text, cases[i].cause);
    }
}
END_TEST

START_TEST(numbers_as_text)
{
    static const struct {
        const char *reply;
        bool fine;
        int64_t number;
    } cases[] = {
        { ":-5\r\n", true, -5 },
        { "$2\r\n-5\r\n", true, -5 },
        { "+17\r\n", true, 17 },
        { "$19\r\n9223372036854775807\r\n", true, INT64_MAX },
        { "$19\r\n9223372036854775808\r\n", false, 0 },
        { "$0\r\n\r\n", false, 0 },
        { "$1\r\n-\r\n", false, 0 },
        { "$2\r\n1x\r\n", false, 0 },
        { "$2\r\n1 \r\n", false, 0 },
        { "$3\r\n1.0\r\n", false, 0 },
        { ",1\r\n", false, 0 },
        { "-1\r\n", false, 0 },
        { "$-1\r\n", false, 0 },
        { "*1\r\n:1\r\n", false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t number = 12345;
        bool fine = hf__redis_resp_number(whole(cases[i].reply), &number);
        ck_assert_msg(fine == cases[i].fine, "%zu", i);
        ck_assert_int_eq(number, fine ? cases[i].number : 12345);
    }
    int64_t number = 0;
    ck_assert(!hf__redis_resp_number(NULL, &number));
}
END_TEST

/* ---- Commands -------------------------------------------------------------------- */

static void expect_command(const struct resp_arg *args, size_t count, const char *bytes)
{
    size_t size = hf__redis_resp_command_size(args, count);
    char *block = malloc(size);

    ck_assert_uint_eq(size, strlen(bytes));
    ck_assert_uint_eq(hf__redis_resp_command_write(block, args, count), size);
    ck_assert_mem_eq(block, bytes, size);
    free(block);
}

START_TEST(commands)
{
    const struct resp_arg get[] = { SAMPLE("GET"), SAMPLE("ten bytes!") };
    const struct resp_arg odd[] = { SAMPLE("X"), { NULL, 0 }, SAMPLE("\r\n") };

    expect_command(get, 2, "*2\r\n$3\r\nGET\r\n$10\r\nten bytes!\r\n");
    expect_command(get, 1, "*1\r\n$3\r\nGET\r\n");
    expect_command(odd, 3, "*3\r\n$1\r\nX\r\n$0\r\n\r\n$2\r\n\r\n\r\n");
    expect_command(odd, 0, "*0\r\n");
}
END_TEST

/* A command is an array of strings: what the writer wrote, the reader reads. */
START_TEST(commands_can_be_read)
{
    static const size_t counts[] = { 1, 9, 10, 11, 99, 100, 101, 1000 };
    static char text[1001];
    static struct resp_arg args[1000];

    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < 1000; i++)
        args[i] = (struct resp_arg){ text, i };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        size_t size = hf__redis_resp_command_size(args, counts[i]), used = 0;
        char *block = malloc(size);
        ck_assert_uint_eq(hf__redis_resp_command_write(block, args, counts[i]), size);
        ck_assert_int_eq(hf__redis_resp_read(block, size, nodes, RESP_NODES_MAX, &used),
                         RESP_WHOLE);
        ck_assert_uint_eq(used, size);
        ck_assert_uint_eq(nodes[0].len, counts[i]);
        for (size_t j = 0; j < counts[i]; j++)
            UNIT_ASSERT(hf__redis_resp_at(nodes, 0, j)->len == j);
        free(block);
    }
}
END_TEST

UNIT_MAIN("resp", a_prefix_asks_for_more, the_next_reply_is_not_touched,
          nodes_form_a_tree, scalars, aggregates, attributes_are_skipped, bad_input,
          long_strings, many_nodes, texts_are_compared, elements, long_lines,
          what_a_script_met, numbers_as_text, commands, commands_can_be_read)
