/* SPDX-License-Identifier: MIT */
/*
 * The codec of resp.h: RESP2 and RESP3 in, commands out.
 *
 * The reader goes through the input once, without recursion. Every value becomes a
 * node; an aggregate with elements also becomes a frame on a short stack, which counts
 * the elements still to come. A complete value may complete its frame, and the frames
 * around it. An attribute is a frame too; its nodes are dropped when it is complete, as
 * the value it belongs to follows.
 *
 * A call reads at most max_nodes headers, so that an endless row of attributes or an
 * endless line is refused instead of being read again and again.
 *
 * Called by the connection, on the thread that drives the client. Keeps no state.
 */
#include "resp.h"

#include <string.h>

enum {
    LINE_LIMIT = 64 << 10, /* bytes of a simple string or error */
    DIGITS_MAX = 19,       /* any such number fits into 64 bits */
    OPENED = 2,            /* internal: the elements of this value follow */
};

struct frame {
    uint32_t node; /* of the aggregate; for an attribute, where its nodes begin */
    uint32_t left; /* values to come */
    bool attribute;
};

struct reader {
    const char *at, *end;
    struct resp *nodes;
    size_t max_nodes;
    size_t count; /* nodes in use */
    size_t seen;  /* headers read */
    unsigned depth;
    struct frame stack[RESP_DEPTH_MAX];
};

/* ---- Reading --------------------------------------------------------------------- */

/* Digits with an optional sign; *ret_at is set behind them. RESP_MORE: they reach up to
 * `end`. */
static enum resp_state parse_digits(const char **ret_at, const char *end,
                                    int64_t *ret_number)
{
    const char *at = *ret_at;
    bool minus = at < end && *at == '-';
    uint64_t value = 0;

    if (minus || (at < end && *at == '+'))
        at++;
    const char *first = at;
    for (; at < end && (unsigned char)(*at - '0') < 10; at++) {
        if (at - first == DIGITS_MAX)
            return RESP_BAD;
        value = value * 10 + (unsigned char)(*at - '0');
    }
    if (value > (uint64_t)INT64_MAX + minus || (at == first && at < end))
        return RESP_BAD;
    *ret_at = at;
    *ret_number = minus ? (int64_t)(0 - value) : (int64_t)value;
    return at < end ? RESP_WHOLE : RESP_MORE;
}

static enum resp_state read_end(struct reader *r)
{
    if (r->at < r->end && r->at[0] != '\r')
        return RESP_BAD;
    if (r->end - r->at < 2)
        return RESP_MORE;
    if (r->at[1] != '\n')
        return RESP_BAD;
    r->at += 2;
    return RESP_WHOLE;
}

static enum resp_state read_number(struct reader *r, int64_t *ret_number)
{
    enum resp_state state = parse_digits(&r->at, r->end, ret_number);
    return state == RESP_WHOLE ? read_end(r) : state;
}

static enum resp_state read_line(struct reader *r, struct resp *node)
{
    size_t size = (size_t)(r->end - r->at);
    size_t within = size < LINE_LIMIT ? size : LINE_LIMIT;
    const char *end = memchr(r->at, '\r', within);

    if (!end)
        return within < LINE_LIMIT ? RESP_MORE : RESP_BAD;
    node->text = r->at;
    node->len = (size_t)(end - r->at);
    r->at = end;
    return read_end(r);
}

static enum resp_state read_flag(struct reader *r, struct resp *node)
{
    if (r->at == r->end)
        return RESP_MORE;
    if (*r->at != 't' && *r->at != 'f')
        return RESP_BAD;
    node->number = *r->at == 't';
    r->at++;
    return read_end(r);
}

static enum resp_state read_bulk(struct reader *r, struct resp *node, char mark)
{
    int64_t len = 0;
    enum resp_state state = read_number(r, &len);

    if (state != RESP_WHOLE)
        return state;
    if (len == -1 && mark == '$') {
        node->type = RESP_NIL;
        return RESP_WHOLE;
    }
    if (len < 0 || len > RESP_BULK_MAX)
        return RESP_BAD;
    if (r->end - r->at < len)
        return RESP_MORE;
    node->text = r->at;
    node->len = (size_t)len;
    r->at += len;
    return read_end(r);
}

/* A verbatim string: three letters for the format, a colon, the text. */
static enum resp_state read_verbatim(struct reader *r, struct resp *node)
{
    enum resp_state state = read_bulk(r, node, '=');

    if (state != RESP_WHOLE)
        return state;
    if (node->len < 4 || node->text[3] != ':')
        return RESP_BAD;
    node->text += 4;
    node->len -= 4;
    return RESP_WHOLE;
}

/* The header of an aggregate. Its node stays, an attribute's does not. */
static enum resp_state read_aggregate(struct reader *r, struct resp *node, char mark)
{
    bool pairs = mark == '%' || mark == '|';
    int64_t count = 0;
    enum resp_state state = read_number(r, &count);

    if (state != RESP_WHOLE)
        return state;
    if (count == -1 && mark == '*') {
        node->type = RESP_NIL;
        return RESP_WHOLE;
    }
    if (count < 0 || (uint64_t)count > (r->max_nodes - r->seen) / (pairs ? 2 : 1))
        return RESP_BAD;
    node->len = (size_t)count << pairs;
    if (mark == '|')
        r->count--;
    if (count == 0)
        return mark == '|' ? (enum resp_state)OPENED : RESP_WHOLE;
    if (r->depth == RESP_DEPTH_MAX)
        return RESP_BAD;
    r->stack[r->depth++] = (struct frame){
        .node = (uint32_t)(node - r->nodes),
        .left = (uint32_t)node->len,
        .attribute = mark == '|',
    };
    return (enum resp_state)OPENED;
}

/* What follows the mark; the node has its type already. */
static enum resp_state read_body(struct reader *r, struct resp *node, char mark)
{
    switch (mark) {
    case ':':
        return read_number(r, &node->number);
    case '$':
    case '!':
        return read_bulk(r, node, mark);
    case '=':
        return read_verbatim(r, node);
    case '#':
        return read_flag(r, node);
    case '_':
        return read_end(r);
    case '+':
    case '-':
    case ',':
    case '(':
        return read_line(r, node);
    case '>': /* never inside another value */
        if (r->depth > 0)
            return RESP_BAD;
        break;
    default:
        break;
    }
    return read_aggregate(r, node, mark);
}

static const unsigned char type_of_mark[128] = {
    ['+'] = RESP_TEXT,   ['$'] = RESP_TEXT,  ['='] = RESP_TEXT,  [':'] = RESP_NUMBER,
    ['#'] = RESP_NUMBER, ['_'] = RESP_NIL,   ['-'] = RESP_ERROR, ['!'] = RESP_ERROR,
    ['*'] = RESP_ARRAY,  ['%'] = RESP_ARRAY, ['~'] = RESP_ARRAY, ['|'] = RESP_ARRAY,
    ['>'] = RESP_PUSH,   [','] = RESP_OTHER, ['('] = RESP_OTHER,
};

static enum resp_state read_one(struct reader *r)
{
    if (r->at == r->end)
        return RESP_MORE;
    unsigned char mark = (unsigned char)*r->at++;
    if (mark >= sizeof type_of_mark || !type_of_mark[mark] || r->seen == r->max_nodes)
        return RESP_BAD;
    r->seen++;
    struct resp *node = &r->nodes[r->count++];
    *node = (struct resp){
        .type = (enum resp_type)type_of_mark[mark],
        .next = (uint32_t)r->count,
    };
    return read_body(r, node, (char)mark);
}

/* A value is complete, and perhaps the values around it. True: the outermost is. */
static bool value_done(struct reader *r)
{
    while (r->depth > 0) {
        struct frame *top = &r->stack[r->depth - 1];
        if (--top->left > 0)
            return false;
        r->depth--;
        if (top->attribute) {
            r->count = top->node;
            return false;
        }
        r->nodes[top->node].next = (uint32_t)r->count;
    }
    return true;
}

enum resp_state hf__redis_resp_read(const char *data, size_t size, struct resp *nodes,
                                    size_t max_nodes, size_t *ret_used)
{
    struct reader r;

    if (size == 0)
        return RESP_MORE;
    r.at = data;
    r.end = data + size;
    r.nodes = nodes;
    r.max_nodes = max_nodes;
    r.count = r.seen = 0;
    r.depth = 0;
    for (;;) {
        enum resp_state state = read_one(&r);
        if (state == RESP_MORE || state == RESP_BAD)
            return state;
        if (state == RESP_WHOLE && value_done(&r))
            break;
    }
    *ret_used = (size_t)(r.at - data);
    return RESP_WHOLE;
}

/* ---- Looking at values ----------------------------------------------------------- */

const struct resp *hf__redis_resp_at(const struct resp *nodes, size_t array,
                                     size_t index)
{
    const struct resp *value = &nodes[array];
    size_t at = array + 1;

    if ((value->type != RESP_ARRAY && value->type != RESP_PUSH) || index >= value->len)
        return NULL;
    while (index-- > 0)
        at = nodes[at].next;
    return &nodes[at];
}

static bool has_text(const struct resp *value)
{
    return value && (value->type == RESP_TEXT || value->type == RESP_ERROR ||
                     value->type == RESP_OTHER);
}

bool hf__redis_resp_is(const struct resp *value, const char *text)
{
    size_t len = strlen(text);
    return has_text(value) && value->len == len && memcmp(value->text, text, len) == 0;
}

bool hf__redis_resp_begins(const struct resp *value, const char *prefix)
{
    size_t len = strlen(prefix);
    return has_text(value) && value->len >= len &&
           memcmp(value->text, prefix, len) == 0;
}

/* The value without its bytes up to and including `end`; unchanged without `end`. */
static struct resp behind(struct resp value, const char *end)
{
    size_t len = strlen(end);
    const char *at = memmem(value.text, value.len, end, len);
    if (at) {
        value.len -= (size_t)(at + len - value.text);
        value.text = at + len;
    }
    return value;
}

/* "ERR Error running script (call to f_<sha>): @user_script:1: @user_script: 1: -OOM
 * command not allowed ..." */
struct resp hf__redis_resp_cause(const struct resp *error)
{
    struct resp cause = *error;
    if (!hf__redis_resp_begins(error, "ERR Error running script"))
        return cause;
    cause = behind(cause, "): ");
    for (int i = 0; i < 2 && hf__redis_resp_begins(&cause, "@user_script"); i++) {
        cause = behind(cause, ":");
        cause = behind(cause, ": ");
    }
    return hf__redis_resp_begins(&cause, "-") ? behind(cause, "-") : cause;
}

bool hf__redis_resp_number(const struct resp *value, int64_t *ret_number)
{
    if (!value)
        return false;
    if (value->type == RESP_NUMBER) {
        *ret_number = value->number;
        return true;
    }
    if (value->type != RESP_TEXT || value->len == 0)
        return false;
    const char *at = value->text, *end = at + value->len;
    int64_t number = 0;
    if (parse_digits(&at, end, &number) != RESP_MORE ||
        (unsigned char)(end[-1] - '0') > 9)
        return false;
    *ret_number = number;
    return true;
}

/* ---- Commands -------------------------------------------------------------------- */

static size_t digits_of(size_t number)
{
    size_t digits = 1;
    while (number >= 10) {
        number /= 10;
        digits++;
    }
    return digits;
}

/* '*' or '$', the number, the end of the line. */
static char *write_header(char *at, char mark, size_t number)
{
    size_t digits = digits_of(number);

    *at = mark;
    for (size_t i = digits; i > 0; i--) {
        at[i] = (char)('0' + number % 10);
        number /= 10;
    }
    at += 1 + digits;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

size_t hf__redis_resp_command_size(const struct resp_arg *args, size_t count)
{
    size_t size = 3 + digits_of(count);

    for (size_t i = 0; i < count; i++)
        size += 5 + digits_of(args[i].len) + args[i].len;
    return size;
}

size_t hf__redis_resp_command_write(char *at, const struct resp_arg *args, size_t count)
{
    char *begin = at;

    at = write_header(at, '*', count);
    for (size_t i = 0; i < count; i++) {
        at = write_header(at, '$', args[i].len);
        if (args[i].len)
            memcpy(at, args[i].text, args[i].len);
        at += args[i].len;
        *at++ = '\r';
        *at++ = '\n';
    }
    return (size_t)(at - begin);
}
