/* SPDX-License-Identifier: MIT */
/*
 * The reader of ZooKeeper's protocol, fed with anything. The first byte says what the
 * frames are replies to; the rest is read frame by frame, as the client does. Held
 * against it:
 *
 *   - a frame that is whole lies inside of the input, and every strict prefix of it
 *     asks for more;
 *   - what a reply points to lies inside of its frame, and no list is longer than the
 *     frame could hold;
 *   - a record that is whole without its last byte is so with it, and says the same;
 *   - no memory is left behind.
 */
#include "fuzz.h"

#include "../../src/backends/zookeeper/wire/zk_records.h"
#include "../../src/base/mem.h"

#include <string.h>

enum { PREFIXES_MAX = 64 };

static const enum zk_opcode opcodes[] = {
    ZK_OPCODE_CREATE2,   ZK_OPCODE_EXISTS, ZK_OPCODE_GET,       ZK_OPCODE_SET,
    ZK_OPCODE_CHILDREN2, ZK_OPCODE_MULTI,  ZK_OPCODE_CONTAINER, ZK_OPCODE_PING,
};

/* In a block of its own, of exactly that size. */
static enum jute_state frame_copy(const char *data, size_t size)
{
    struct jute record = { .at = NULL };
    size_t used = 0;
    char *copy = malloc(size ? size : 1);
    MUST(copy != NULL);
    memcpy(copy, data, size);
    enum jute_state state = hf__zk_jute_frame(copy, size, &record, &used);
    MUST(state != JUTE_WHOLE || (used == size && record.end == copy + size));
    free(copy);
    return state;
}

static void check_prefixes(const char *data, size_t used)
{
    size_t step = 1 + used / PREFIXES_MAX;

    for (size_t size = 0; size < used; size += step)
        MUST(frame_copy(data, size) == JUTE_MORE);
    MUST(frame_copy(data, used) == JUTE_WHOLE);
}

static void check_text(struct zk_text text, const char *from, const char *to)
{
    MUST(text.at != NULL || text.len == 0);
    if (text.len)
        MUST(text.at >= from && text.len <= (size_t)(to - text.at));
}

static void check_reply(const struct zk_reply *reply, const char *from, const char *to)
{
    check_text(reply->path, from, to);
    check_text(reply->data, from, to);
    MUST(reply->count <= (size_t)(to - from));
    for (size_t i = 0; i < reply->count; i++) {
        if (reply->names)
            check_text(reply->names[i], from, to);
        if (reply->paths)
            check_text(reply->paths[i], from, to);
        if (reply->errors && !reply->error)
            MUST(reply->errors[i] == 0);
    }
}

static int read_record(enum zk_opcode opcode, struct jute in, struct zk_lists *lists,
                       struct zk_reply *reply)
{
    *reply = (struct zk_reply){ 0 };
    return hf__zk_reply_read(opcode, &in, lists, reply);
}

static void check_record(enum zk_opcode opcode, struct jute in, struct zk_lists *lists)
{
    struct zk_reply reply, shorter;
    struct zk_lists others = { 0 };
    int rc = read_record(opcode, in, lists, &reply);

    MUST(rc == 0 || rc == HF_EUNREACHABLE);
    if (rc == 0)
        check_reply(&reply, in.at, in.end);
    if (in.at < in.end) {
        struct jute cut = in;
        cut.end--;
        if (read_record(opcode, cut, &others, &shorter) == 0) {
            MUST(rc == 0 && shorter.count == reply.count);
            MUST(shorter.error == reply.error);
            MUST(memcmp(&shorter.stat, &reply.stat, sizeof reply.stat) == 0);
        }
    }
    hf__zk_lists_done(&others);
}

/* As the first frame of a connection, and as an event. */
static void check_others(struct jute record)
{
    struct jute in = record;
    struct zk_connect_reply greeting = hf__zk_connect_reply_read(&in);
    if (!in.bad)
        check_text(greeting.password, record.at, record.end);
    in = record;
    hf__zk_jute_int(&in);
    hf__zk_jute_int(&in);
    struct zk_text path = hf__zk_jute_text(&in);
    if (!in.bad)
        check_text(path, record.at, record.end);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct zk_lists lists = { 0 };
    size_t live = hf__mem_live(), used = 0;

    if (size < 1)
        return 0;
    enum zk_opcode opcode = opcodes[input[0] % (sizeof opcodes / sizeof opcodes[0])];
    const char *data = (const char *)input + 1;
    size--;
    for (size_t at = 0; at < size; at += used) {
        struct jute record;
        if (hf__zk_jute_frame(data + at, size - at, &record, &used) != JUTE_WHOLE)
            break;
        MUST(used >= 4 && used <= size - at);
        check_prefixes(data + at, used);
        check_others(record);
        hf__zk_header_read(&record);
        if (!record.bad)
            check_record(opcode, record, &lists);
        hf__zk_lists_trim(&lists);
    }
    hf__zk_lists_done(&lists);
    MUST(hf__mem_live() == live);
    return 0;
}
