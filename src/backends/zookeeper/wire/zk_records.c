/* SPDX-License-Identifier: MIT */
/*
 * The records of zk_records.h. Called for each frame that came in, on the client's
 * thread, and by the tests and the fuzzer with arbitrary bytes.
 *
 * A frame may be longer than its record: newer servers may add fields at the end. It
 * may not be shorter, except the connect reply, whose last field came with version 3.4.
 *
 * The lists grow to what the longest reply needs and are used again: a reply costs no
 * allocation once they are large enough.
 */
#include "zk_records.h"

#include "../../../base/mem.h"

enum {
    LISTS_MIN = 64,
    LISTS_KEPT = 1024,
    TEXT_LEAST = 4,   /* its length */
    RESULT_LEAST = 9, /* type, done, error */
};

/* ---- Lists ----------------------------------------------------------------------- */

void hf__zk_lists_done(struct zk_lists *lists)
{
    hf__free(lists->texts);
    hf__free(lists->errors);
    *lists = (struct zk_lists){ 0 };
}

void hf__zk_lists_trim(struct zk_lists *lists)
{
    if (lists->room > LISTS_KEPT)
        hf__zk_lists_done(lists);
}

static bool lists_reserve(struct zk_lists *lists, size_t count)
{
    size_t room = lists->room ? lists->room : LISTS_MIN;

    while (room < count)
        room *= 2;
    if (room == lists->room)
        return true;
    hf__zk_lists_done(lists);
    lists->texts = hf__alloc(room * sizeof *lists->texts);
    lists->errors = hf__alloc(room * sizeof *lists->errors);
    lists->room = room;
    if (lists->texts && lists->errors)
        return true;
    hf__zk_lists_done(lists);
    return false;
}

/* ---- Parts ----------------------------------------------------------------------- */

struct zk_header hf__zk_header_read(struct jute *in)
{
    struct zk_header header;

    header.xid = hf__zk_jute_int(in);
    header.zxid = hf__zk_jute_long(in);
    header.error = hf__zk_jute_int(in);
    return header;
}

struct zk_connect_reply hf__zk_connect_reply_read(struct jute *in)
{
    struct zk_connect_reply reply = { 0 };

    hf__zk_jute_int(in); /* the protocol's version, always 0 */
    reply.timeout_ms = hf__zk_jute_int(in);
    reply.session = hf__zk_jute_long(in);
    reply.password = hf__zk_jute_text(in);
    if (!in->bad && in->at < in->end)
        reply.read_only = hf__zk_jute_bool(in);
    return reply;
}

/* Transactions count from 1. Only nodes older than the first, such as the root, have 0
 * here, and they are not ephemeral. */
static void read_stat(struct jute *in, struct zk_stat *ret)
{
    ret->czxid = hf__zk_jute_long(in);
    ret->mzxid = hf__zk_jute_long(in);
    ret->ctime = hf__zk_jute_long(in);
    ret->mtime = hf__zk_jute_long(in);
    ret->version = hf__zk_jute_int(in);
    ret->cversion = hf__zk_jute_int(in);
    ret->aversion = hf__zk_jute_int(in);
    ret->ephemeral_owner = hf__zk_jute_long(in);
    ret->data_length = hf__zk_jute_int(in);
    ret->num_children = hf__zk_jute_int(in);
    ret->pzxid = hf__zk_jute_long(in);
    if (ret->czxid < 0 || ret->mzxid < 0 || (ret->czxid == 0 && ret->ephemeral_owner))
        in->bad = true;
}

static int read_names(struct jute *in, struct zk_lists *lists, struct zk_reply *ret)
{
    size_t count = hf__zk_jute_count(in, TEXT_LEAST);

    if (!lists_reserve(lists, count))
        return HF_ENOMEM;
    for (size_t i = 0; i < count && !in->bad; i++)
        lists->texts[i] = hf__zk_jute_text(in);
    ret->names = lists->texts;
    ret->count = count;
    return 0;
}

/* ---- Multi ----------------------------------------------------------------------- */

static struct zk_text read_result(struct jute *in, int32_t type, int32_t *ret_error)
{
    struct zk_text path = { "", 0 };
    struct zk_stat stat;

    switch (type) {
    case ZK_OPCODE_CREATE:
        path = hf__zk_jute_text(in);
        break;
    case ZK_OPCODE_CREATE2:
        path = hf__zk_jute_text(in);
        read_stat(in, &stat);
        break;
    case ZK_OPCODE_SET:
        read_stat(in, &stat);
        break;
    case ZK_OPCODE_DELETE:
    case ZK_OPCODE_CHECK:
        break;
    case ZK_OPCODE_ERROR:
        *ret_error = hf__zk_jute_int(in);
        break;
    default:
        in->bad = true;
        break;
    }
    return path;
}

/* Results, each behind a header, up to a header that says "done". The first error among
 * them is the error of the whole: the header of the reply does not state it. */
static int read_results(struct jute *in, struct zk_lists *lists, struct zk_reply *ret)
{
    size_t most = (size_t)(in->end - in->at) / RESULT_LEAST + 1;

    if (!lists_reserve(lists, most))
        return HF_ENOMEM;
    ret->errors = lists->errors;
    ret->paths = lists->texts;
    while (!in->bad) {
        int32_t type = hf__zk_jute_int(in);
        bool done = hf__zk_jute_bool(in);
        int32_t error = hf__zk_jute_int(in);
        if (done || in->bad)
            break;
        lists->texts[ret->count] = read_result(in, type, &error);
        lists->errors[ret->count++] = error;
        ret->error = ret->error ? ret->error : error;
    }
    return 0;
}

/* ---- Replies --------------------------------------------------------------------- */

int hf__zk_reply_read(enum zk_opcode opcode, struct jute *in, struct zk_lists *lists,
                      struct zk_reply *ret)
{
    int rc = 0;

    switch (opcode) {
    case ZK_OPCODE_CREATE2:
    case ZK_OPCODE_CONTAINER:
        ret->path = hf__zk_jute_text(in);
        read_stat(in, &ret->stat);
        break;
    case ZK_OPCODE_EXISTS:
    case ZK_OPCODE_SET:
        read_stat(in, &ret->stat);
        break;
    case ZK_OPCODE_GET:
        ret->data = hf__zk_jute_text(in);
        read_stat(in, &ret->stat);
        break;
    case ZK_OPCODE_CHILDREN2:
        rc = read_names(in, lists, ret);
        read_stat(in, &ret->stat);
        break;
    case ZK_OPCODE_MULTI:
        rc = read_results(in, lists, ret);
        break;
    default: /* no body, or none that is used */
        break;
    }
    if (rc == 0 && in->bad)
        rc = HF_EUNREACHABLE;
    return rc;
}
