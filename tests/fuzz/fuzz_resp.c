/* SPDX-License-Identifier: MIT */
/*
 * The reader of Redis's protocol, fed with anything. The first byte says how many nodes
 * there are; the rest is read value by value, as the link does. Held against it:
 *
 *   - what is whole lies inside of the input, and its nodes form a tree of the promised
 *     depth, with texts inside of the value;
 *   - every strict prefix of a whole value asks for more;
 *   - more input behind a value changes nothing about it, and what is bad stays bad.
 */
#include "fuzz.h"

#include "../../src/backends/redis/resp.h"

#include <string.h>

enum { PREFIXES_MAX = 300 };

static struct resp nodes[RESP_NODES_MAX], again[RESP_NODES_MAX];

static bool is_aggregate(const struct resp *value)
{
    return value->type == RESP_ARRAY || value->type == RESP_PUSH;
}

static size_t check_tree(const char *data, size_t used, size_t at, size_t max,
                         unsigned depth)
{
    const struct resp *value = &nodes[at];
    size_t next = at + 1;

    MUST(at < max && depth <= RESP_DEPTH_MAX);
    MUST(value->type != RESP_PUSH || depth == 0);
    if (is_aggregate(value)) {
        for (size_t i = 0; i < value->len; i++) {
            MUST(i > 8 || hf__redis_resp_at(nodes, at, i) == &nodes[next]);
            next = check_tree(data, used, next, max, depth + 1);
        }
        MUST(hf__redis_resp_at(nodes, at, value->len) == NULL);
    } else if (value->type != RESP_NUMBER && value->type != RESP_NIL) {
        MUST(value->text >= data && value->len <= used);
        MUST(value->text + value->len <= data + used);
    }
    MUST(value->next == next);
    return next;
}

/* In a block of its own, of exactly that size. */
static enum resp_state read_copy(const char *data, size_t size, size_t max)
{
    size_t used = 0;
    char *copy = malloc(size ? size : 1);
    MUST(copy != NULL);
    memcpy(copy, data, size);
    enum resp_state state = hf__redis_resp_read(copy, size, again, max, &used);
    MUST(state != RESP_WHOLE || (used > 0 && used <= size));
    free(copy);
    return state;
}

static void check_whole(const char *data, size_t used, size_t max)
{
    size_t step = 1 + used / PREFIXES_MAX;
    int64_t number = 0;

    MUST(used > 0);
    check_tree(data, used, 0, max, 0);
    for (size_t size = 0; size < used; size += step)
        MUST(read_copy(data, size, max) == RESP_MORE);
    MUST(read_copy(data, used - 1, max) == RESP_MORE);
    MUST(read_copy(data, used, max) == RESP_WHOLE);
    if (hf__redis_resp_number(nodes, &number))
        MUST(nodes[0].type == RESP_NUMBER || nodes[0].type == RESP_TEXT);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const size_t sizes[] = { RESP_NODES_MAX, 1, 2, 5, 17, 64 };

    if (size < 1)
        return 0;
    size_t max = sizes[input[0] % (sizeof sizes / sizeof sizes[0])];
    const char *data = (const char *)input + 1;
    size--;
    for (size_t at = 0; at < size;) {
        size_t used = 0;
        enum resp_state state =
            hf__redis_resp_read(data + at, size - at, nodes, max, &used);
        if (state != RESP_WHOLE) {
            /* Cut in half it may ask for more, but it cannot be whole. */
            MUST(read_copy(data + at, (size - at) / 2, max) != RESP_WHOLE);
            break;
        }
        MUST(used <= size - at);
        check_whole(data + at, used, max);
        at += used;
    }
    return 0;
}
