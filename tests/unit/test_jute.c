/* SPDX-License-Identifier: MIT */
/*
 * Jute and the records of ZooKeeper's protocol, out of the blue: what is written is
 * read again, every strict prefix is told from the whole, and no length that a server
 * could make up is believed.
 */
#include "unit.h"

#include "../../src/backends/zookeeper/wire/zk_records.h"
#include "../../src/base/mem.h"

#include <string.h>

static char bytes[4096];

static struct jute_out writing(size_t room)
{
    return (struct jute_out){ .at = bytes, .end = bytes + room };
}

static struct jute reading(const struct jute_out *out)
{
    return (struct jute){ .at = bytes, .end = out->at };
}

/* In a block of its own, of exactly that size, so that a sanitizer sees more. */
static enum jute_state frame_of(const void *data, size_t size, size_t *used)
{
    struct jute record = { 0 };
    char *copy = malloc(size ? size : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, data, size);
    enum jute_state state = hf__zk_jute_frame(copy, size, &record, used);
    if (state == JUTE_WHOLE)
        UNIT_ASSERT(record.at == copy + 4 && record.end == copy + *used);
    free(copy);
    return state;
}

/* ---- The codec ------------------------------------------------------------------- */

START_TEST(what_is_written_is_read)
{
    struct jute_out out = writing(sizeof bytes);
    hf__zk_jute_put_int(&out, INT32_MIN);
    hf__zk_jute_put_int(&out, 0x01020304);
    hf__zk_jute_put_long(&out, INT64_MIN + 7);
    hf__zk_jute_put_bool(&out, true);
    hf__zk_jute_put_bool(&out, false);
    hf__zk_jute_put_text(&out, "text", 4);
    hf__zk_jute_put_joined(&out, "/ch", 3, "/root", 5);
    hf__zk_jute_put_text(&out, NULL, 0);
    ck_assert(!out.full);
    ck_assert_int_eq(memcmp(bytes + 4, "\1\2\3\4", 4), 0);

    struct jute in = reading(&out);
    ck_assert_int_eq(hf__zk_jute_int(&in), INT32_MIN);
    ck_assert_int_eq(hf__zk_jute_int(&in), 0x01020304);
    ck_assert_int_eq(hf__zk_jute_long(&in), INT64_MIN + 7);
    ck_assert(hf__zk_jute_bool(&in));
    ck_assert(!hf__zk_jute_bool(&in));
    struct zk_text text = hf__zk_jute_text(&in);
    ck_assert_int_eq(memcmp(text.at, "text", 4), 0);
    text = hf__zk_jute_text(&in);
    ck_assert_uint_eq(text.len, 8);
    ck_assert_int_eq(memcmp(text.at, "/ch/root", 8), 0);
    ck_assert_uint_eq(hf__zk_jute_text(&in).len, 0);
    ck_assert(!in.bad && in.at == in.end);
}
END_TEST

START_TEST(reading_beyond_the_end_is_bad_and_stays_so)
{
    struct jute in = { .at = bytes, .end = bytes + 3 };

    ck_assert_int_eq(hf__zk_jute_int(&in), 0);
    ck_assert(in.bad);
    ck_assert(!hf__zk_jute_bool(&in));
    ck_assert_int_eq(hf__zk_jute_long(&in), 0);
    ck_assert_uint_eq(hf__zk_jute_text(&in).len, 0);
    ck_assert_ptr_nonnull(hf__zk_jute_text(&in).at);
    ck_assert_uint_eq(hf__zk_jute_count(&in, 1), 0);
    ck_assert(in.bad && in.at == in.end);
}
END_TEST

static bool text_is_bad(int32_t len, size_t left)
{
    struct jute_out out = writing(sizeof bytes);
    hf__zk_jute_put_int(&out, len);
    struct jute in = { .at = bytes, .end = bytes + 4 + left };
    hf__zk_jute_text(&in);
    return in.bad;
}

static bool count_is_bad(int32_t count, size_t left, size_t least)
{
    struct jute_out out = writing(sizeof bytes);
    hf__zk_jute_put_int(&out, count);
    struct jute in = { .at = bytes, .end = bytes + 4 + left };
    size_t got = hf__zk_jute_count(&in, least);
    UNIT_ASSERT(in.bad || got == (count < 0 ? 0 : (size_t)count));
    return in.bad;
}

START_TEST(lengths_are_held_against_what_is_there)
{
    ck_assert(!text_is_bad(0, 0));
    ck_assert(!text_is_bad(-1, 0)); /* none */
    ck_assert(!text_is_bad(5, 5));
    ck_assert(text_is_bad(6, 5));
    ck_assert(text_is_bad(-2, 5));
    ck_assert(text_is_bad(INT32_MIN, 5));
    ck_assert(text_is_bad(INT32_MAX, 5));
    ck_assert(!count_is_bad(2, 8, 4));
    ck_assert(!count_is_bad(-1, 8, 4));
    ck_assert(count_is_bad(3, 8, 4));
    ck_assert(count_is_bad(INT32_MAX, 8, 4));
    ck_assert(count_is_bad(-2, 8, 4));
    ck_assert(count_is_bad(1, 0, 1));
}
END_TEST

START_TEST(what_does_not_fit_is_not_written)
{
    for (size_t room = 0; room < 40; room++) {
        memset(bytes, 'z', sizeof bytes);
        struct jute_out out = writing(room);
        char *frame = hf__zk_jute_open(&out);
        hf__zk_jute_put_int(&out, 1);
        hf__zk_jute_put_long(&out, 2);
        hf__zk_jute_put_bool(&out, true);
        hf__zk_jute_put_joined(&out, "head", 4, "tail", 4);
        hf__zk_jute_close(&out, frame);
        ck_assert(out.full == (room < 4 + 4 + 8 + 1 + 12));
        ck_assert_int_eq(bytes[room], 'z');
    }
    struct jute_out out = writing(sizeof bytes);
    hf__zk_jute_put_joined(&out, bytes, INT32_MAX, bytes, 1);
    ck_assert(out.full);
}
END_TEST

START_TEST(frames_ask_for_more_until_they_are_whole)
{
    struct jute_out out = writing(sizeof bytes);
    char *frame = hf__zk_jute_open(&out);
    hf__zk_jute_put_text(&out, "anything", 8);
    hf__zk_jute_close(&out, frame);
    size_t size = (size_t)(out.at - bytes), used = 0;

    for (size_t cut = 0; cut < size; cut++)
        ck_assert_int_eq(frame_of(bytes, cut, &used), JUTE_MORE);
    ck_assert_int_eq(frame_of(bytes, size, &used), JUTE_WHOLE);
    ck_assert_uint_eq(used, size);
    ck_assert_int_eq(frame_of(bytes, size + 9, &used), JUTE_WHOLE);
    ck_assert_uint_eq(used, size);
    ck_assert_int_eq(frame_of("\0\0\0\0", 4, &used), JUTE_WHOLE);
    ck_assert_int_eq(frame_of("\xff\xff\xff\xff", 4, &used), JUTE_BAD);
    ck_assert_int_eq(frame_of("\x80\0\0\0", 4, &used), JUTE_BAD);
    ck_assert_int_eq(frame_of("\0\x40\0\0", 4, &used), JUTE_MORE);
    ck_assert_int_eq(frame_of("\0\x40\0\1", 4, &used), JUTE_BAD);
    ck_assert_int_eq(frame_of("HTTP", 4, &used), JUTE_BAD);
}
END_TEST

/* ---- Records --------------------------------------------------------------------- */

static void put_stat(struct jute_out *out)
{
    for (int64_t i = 1; i <= 4; i++)
        hf__zk_jute_put_long(out, i);
    for (int32_t i = 5; i <= 7; i++)
        hf__zk_jute_put_int(out, i);
    hf__zk_jute_put_long(out, 8);
    hf__zk_jute_put_int(out, 9);
    hf__zk_jute_put_int(out, 10);
    hf__zk_jute_put_long(out, 11);
}

static void put_result(struct jute_out *out, int32_t type, bool done, int32_t error)
{
    hf__zk_jute_put_int(out, type);
    hf__zk_jute_put_bool(out, done);
    hf__zk_jute_put_int(out, error);
}

/* A reply without its header, of every kind. */
static size_t body_write(enum zk_opcode opcode)
{
    struct jute_out out = writing(sizeof bytes);

    if (opcode == ZK_OPCODE_CREATE2)
        hf__zk_jute_put_text(&out, "/a-0000000001", 13);
    if (opcode == ZK_OPCODE_GET)
        hf__zk_jute_put_text(&out, "data", 4);
    if (opcode == ZK_OPCODE_CHILDREN2) {
        hf__zk_jute_put_int(&out, 3);
        hf__zk_jute_put_text(&out, "one", 3);
        hf__zk_jute_put_text(&out, "", 0);
        hf__zk_jute_put_text(&out, "three", 5);
    }
    if (opcode == ZK_OPCODE_MULTI) {
        put_result(&out, ZK_OPCODE_CREATE, false, 0);
        hf__zk_jute_put_text(&out, "/b", 2);
        put_result(&out, ZK_OPCODE_DELETE, false, 0);
        put_result(&out, ZK_OPCODE_CREATE2, false, 0);
        hf__zk_jute_put_text(&out, "/c", 2);
        put_stat(&out);
        put_result(&out, ZK_OPCODE_SET, false, 0);
        put_stat(&out);
        put_result(&out, ZK_OPCODE_ERROR, false, ZK_NONODE);
        hf__zk_jute_put_int(&out, ZK_NONODE);
        put_result(&out, -1, true, -1);
    } else {
        put_stat(&out);
    }
    return (size_t)(out.at - bytes);
}

static int body_read(enum zk_opcode opcode, size_t size, struct zk_lists *lists,
                     struct zk_reply *reply)
{
    struct jute in = { .at = bytes, .end = bytes + size };
    *reply = (struct zk_reply){ 0 };
    return hf__zk_reply_read(opcode, &in, lists, reply);
}

START_TEST(replies_are_read)
{
    struct zk_lists lists = { 0 };
    struct zk_reply reply;
    size_t live = hf__mem_live();

    size_t size = body_write(ZK_OPCODE_CREATE2);
    ck_assert_int_eq(body_read(ZK_OPCODE_CREATE2, size, &lists, &reply), 0);
    ck_assert_uint_eq(reply.path.len, 13);
    ck_assert_int_eq(reply.stat.czxid, 1);
    ck_assert_int_eq(reply.stat.version, 5);
    ck_assert_int_eq(reply.stat.ephemeral_owner, 8);
    ck_assert_int_eq(reply.stat.pzxid, 11);
    size = body_write(ZK_OPCODE_CHILDREN2);
    ck_assert_int_eq(body_read(ZK_OPCODE_CHILDREN2, size, &lists, &reply), 0);
    ck_assert_uint_eq(reply.count, 3);
    ck_assert_uint_eq(reply.names[1].len, 0);
    ck_assert_int_eq(memcmp(reply.names[2].at, "three", 5), 0);
    ck_assert_int_eq(reply.stat.num_children, 10);
    size = body_write(ZK_OPCODE_MULTI);
    ck_assert_int_eq(body_read(ZK_OPCODE_MULTI, size, &lists, &reply), 0);
    ck_assert_uint_eq(reply.count, 5);
    ck_assert_int_eq(reply.error, ZK_NONODE);
    ck_assert_int_eq(reply.errors[4], ZK_NONODE);
    ck_assert_int_eq(reply.errors[0], 0);
    ck_assert_int_eq(memcmp(reply.paths[2].at, "/c", 2), 0);
    ck_assert_uint_eq(reply.paths[1].len, 0);
    hf__zk_lists_done(&lists);
    ck_assert_uint_eq(hf__mem_live(), live);
}
END_TEST

START_TEST(a_reply_cut_short_is_none)
{
    static const enum zk_opcode opcodes[] = { ZK_OPCODE_CREATE2, ZK_OPCODE_EXISTS,
                                              ZK_OPCODE_GET,     ZK_OPCODE_SET,
                                              ZK_OPCODE_MULTI,   ZK_OPCODE_CHILDREN2 };
    struct zk_lists lists = { 0 };
    struct zk_reply reply;

    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
        size_t size = body_write(opcodes[i]);
        for (size_t cut = 0; cut < size; cut++)
            UNIT_ASSERT(body_read(opcodes[i], cut, &lists, &reply) == HF_EUNREACHABLE);
        ck_assert_int_eq(body_read(opcodes[i], size, &lists, &reply), 0);
        /* A newer server may say more. */
        ck_assert_int_eq(body_read(opcodes[i], size + 8, &lists, &reply), 0);
    }
    hf__zk_lists_done(&lists);
}
END_TEST

START_TEST(made_up_counts_take_no_memory)
{
    struct zk_lists lists = { 0 };
    struct zk_reply reply;
    struct jute_out out = writing(sizeof bytes);

    hf__zk_jute_put_int(&out, INT32_MAX);
    ck_assert_int_eq(body_read(ZK_OPCODE_CHILDREN2, 500, &lists, &reply),
                     HF_EUNREACHABLE);
    ck_assert_uint_le(lists.room, 64);
    hf__zk_lists_done(&lists);
}
END_TEST

START_TEST(an_unknown_result_is_none)
{
    struct zk_lists lists = { 0 };
    struct zk_reply reply;
    struct jute_out out = writing(sizeof bytes);

    put_result(&out, 77, false, 0);
    put_result(&out, -1, true, -1);
    ck_assert_int_eq(
        body_read(ZK_OPCODE_MULTI, (size_t)(out.at - bytes), &lists, &reply),
        HF_EUNREACHABLE);
    hf__zk_lists_done(&lists);
}
END_TEST

START_TEST(lists_without_memory)
{
    struct zk_lists lists = { 0 };
    struct zk_reply reply;
    size_t size = body_write(ZK_OPCODE_CHILDREN2), live = hf__mem_live();

    for (uint64_t nth = 1; nth <= 2; nth++) {
        hf__mem_fail(nth, 0);
        ck_assert_int_eq(body_read(ZK_OPCODE_CHILDREN2, size, &lists, &reply),
                         HF_ENOMEM);
        ck_assert_uint_eq(hf__mem_live(), live);
    }
    hf__mem_fail(0, 0);
    ck_assert_int_eq(body_read(ZK_OPCODE_CHILDREN2, size, &lists, &reply), 0);
    hf__zk_lists_done(&lists);
}
END_TEST

START_TEST(greetings_of_all_ages)
{
    struct jute_out out = writing(sizeof bytes);
    hf__zk_jute_put_int(&out, 0);
    hf__zk_jute_put_int(&out, 4000);
    hf__zk_jute_put_long(&out, 99);
    hf__zk_jute_put_text(&out, "0123456789abcdef", 16);
    struct jute in = reading(&out);
    struct zk_connect_reply greeting = hf__zk_connect_reply_read(&in);
    ck_assert(!in.bad && !greeting.read_only);
    ck_assert_int_eq(greeting.timeout_ms, 4000);
    ck_assert_int_eq(greeting.session, 99);
    ck_assert_uint_eq(greeting.password.len, 16);
    hf__zk_jute_put_bool(&out, true);
    in = reading(&out);
    ck_assert(hf__zk_connect_reply_read(&in).read_only);
    in = reading(&out);
    in.end -= 2;
    hf__zk_connect_reply_read(&in);
    ck_assert(in.bad);
}
END_TEST

UNIT_MAIN("jute", what_is_written_is_read, reading_beyond_the_end_is_bad_and_stays_so,
          lengths_are_held_against_what_is_there, what_does_not_fit_is_not_written,
          frames_ask_for_more_until_they_are_whole, replies_are_read,
          a_reply_cut_short_is_none, made_up_counts_take_no_memory,
          an_unknown_result_is_none, lists_without_memory, greetings_of_all_ages)
