/* SPDX-License-Identifier: MIT */
/*
 * RESP2 and RESP3, the protocol of Redis: an encoder for commands and an incremental,
 * zero-copy decoder for replies. Pure: no I/O, no allocation. Replies come from the
 * network: every length is checked, nesting and sizes are bounded.
 */
#ifndef HF_REDIS_RESP_H
#define HF_REDIS_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum resp_type {
    RESP_TEXT = 1, /* simple, bulk or verbatim string: text, len */
    RESP_NUMBER,   /* number; booleans are 0 and 1 */
    RESP_NIL,      /* of every form */
    RESP_ERROR,    /* text, len: "NOSCRIPT No matching script..." */
    RESP_ARRAY,    /* len elements; maps count keys and values, sets too */
    RESP_PUSH,     /* like an array, but not a reply */
    RESP_OTHER,    /* doubles and big numbers: text, len */
};

enum resp_state {
    RESP_MORE = 0, /* incomplete */
    RESP_WHOLE = 1,
    RESP_BAD = -1, /* not RESP, or beyond the limits below */
};

enum { RESP_NODES_MAX = 4096, RESP_DEPTH_MAX = 8, RESP_BULK_MAX = 16 << 20 };

/* One value. The elements of an array follow it in the node array, each with its own
 * elements; `next` is the index of the first node behind the whole value. */
struct resp {
    enum resp_type type;
    uint32_t next;
    int64_t number;
    const char *text; /* points into the input; not NUL-terminated */
    size_t len;
};

/* Reads one whole value from `data`. Every strict prefix of a valid reply gives
 * RESP_MORE. On RESP_WHOLE nodes[0] is the value and *ret_used its bytes. Attributes
 * ("|") are skipped. Linear in what it reads; a value that arrives in many pieces is
 * read again from its beginning (pieces are large; sizes are bounded). */
enum resp_state hf__redis_resp_read(const char *data, size_t size, struct resp *nodes,
                                    size_t max_nodes, size_t *ret_used);

/* The element `index` of an array or push, NULL if there is none. */
const struct resp *hf__redis_resp_at(const struct resp *nodes, size_t array,
                                     size_t index);
bool hf__redis_resp_is(const struct resp *value,
                       const char *text); /* equal, case counts */
bool hf__redis_resp_begins(const struct resp *value, const char *prefix);
/* The error inside a script, without what a server before Redis 7 puts before it (that
 * the script failed, and the line); any other error unchanged. */
struct resp hf__redis_resp_cause(const struct resp *error);
/* A number, also one written as text. */
bool hf__redis_resp_number(const struct resp *value, int64_t *ret_number);

/* ---- Commands -------------------------------------------------------------------- */

struct resp_arg {
    const char *text;
    size_t len;
};

/* The size of the command in bytes; _write writes it and returns its size. */
size_t hf__redis_resp_command_size(const struct resp_arg *args, size_t count);
size_t hf__redis_resp_command_write(char *at, const struct resp_arg *args,
                                    size_t count);

#endif
