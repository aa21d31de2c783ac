/* SPDX-License-Identifier: MIT */
/*
 * The JSON writer.
 *
 * One document is one line, written piece by piece: `watch --json` prints a document
 * per change, which a reader may process line by line. The writer keeps a stack of open
 * brackets and places commas and closing brackets itself. The output is always UTF-8:
 * an invalid byte becomes U+FFFD, and control characters and other characters that are
 * unsafe on a terminal are escaped. A key in an array, or none in an object, is a bug
 * of the caller and aborts. Main thread only.
 */
#include "cli.h"
#include "utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16

struct json {
    FILE *out;
    size_t depth;
    char closing[DEPTH_MAX]; /* '}' or ']', outermost first */
    bool filled[DEPTH_MAX];  /* has an element already */
};

struct json *json_new(FILE *out)
{
    struct json *json = calloc(1, sizeof *json);

    if (!json) {
        cli_say("out of memory");
        exit(EXIT_INTERNAL);
    }
    json->out = out;
    return json;
}

static void put_escape(FILE *out, uint32_t code)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const char *found = code < 0x80 ? memchr(plain, (int)code, sizeof plain - 1) : NULL;

    if (found)
        fprintf(out, "\\%c", letter[found - plain]);
    else if (code > 0xffff)
        fprintf(out, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + (code >> 10),
                0xdc00 + (code & 0x3ff));
    else
        fprintf(out, "\\u%04" PRIx32, code);
}

static void put_text(FILE *out, const char *text)
{
    uint32_t code;
    size_t len;

    putc('"', out);
    for (; *text; text += len ? len : 1) {
        len = utf8_read(text, &code);
        if (!len)
            fputs("\xef\xbf\xbd", out);
        else if (utf8_unsafe(code) || code == '"' || code == '\\')
            put_escape(out, code);
        else
            fwrite(text, 1, len, out);
    }
    putc('"', out);
}

/* The comma before an element, and its key. */
static void element_begin(struct json *json, const char *key)
{
    size_t top = json->depth - 1;

    if ((json->depth && json->closing[top] == '}') != (key != NULL))
        abort();
    if (!json->depth)
        return;
    if (json->filled[top])
        putc(',', json->out);
    json->filled[top] = true;
    if (key) {
        put_text(json->out, key);
        putc(':', json->out);
    }
}

void json_open(struct json *json, const char *key, char bracket)
{
    if (json->depth == DEPTH_MAX || (bracket != '{' && bracket != '['))
        abort();
    element_begin(json, key);
    putc(bracket, json->out);
    json->closing[json->depth] = bracket == '{' ? '}' : ']';
    json->filled[json->depth++] = false;
}

void json_close(struct json *json)
{
    if (!json->depth)
        abort();
    putc(json->closing[--json->depth], json->out);
}

void json_text(struct json *json, const char *key, const char *value)
{
    if (!value) {
        json_null(json, key);
        return;
    }
    element_begin(json, key);
    put_text(json->out, value);
}

void json_number(struct json *json, const char *key, int64_t value)
{
    element_begin(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void json_token(struct json *json, const char *key, uint64_t value)
{
    element_begin(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void json_bool(struct json *json, const char *key, bool value)
{
    element_begin(json, key);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *key)
{
    element_begin(json, key);
    fputs("null", json->out);
}

void json_end(struct json *json)
{
    while (json->depth)
        json_close(json);
    putc('\n', json->out);
    free(json);
}
