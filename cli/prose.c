/* SPDX-License-Identifier: MIT */
/*
 * Paragraphs of the texts of the tables, wrapped for a terminal. help.c prints them;
 * manual.c reads them paragraph by paragraph and makes roff of them. No state; main
 * thread only.
 */
#include "prose.h"

#include <string.h>

#define WIDTH 80
#define ITEM_INDENT 4

int prose_next(const char **cursor, struct paragraph *ret_paragraph)
{
    const char *text = *cursor + strspn(*cursor, "\n"), *end = strstr(text, "\n\n");
    size_t len = end ? (size_t)(end - text) : strlen(text);
    const char *sign;

    if (!*text)
        return 0;
    *cursor = text + len;
    if (text[len - 1] == '\n')
        len--;
    *ret_paragraph = (struct paragraph){ .text = text, .len = len };
    if (*text == ' ') {
        ret_paragraph->kind = PROSE_LITERAL;
        return 1;
    }
    sign = memmem(text, len, " :: ", 4);
    if (sign) {
        ret_paragraph->kind = PROSE_ITEM;
        ret_paragraph->term = text;
        ret_paragraph->term_len = (size_t)(sign - text);
        ret_paragraph->text = sign + 4;
        ret_paragraph->len = len - ret_paragraph->term_len - 4;
    }
    return 1;
}

static void pad(size_t count, FILE *out)
{
    fprintf(out, "%*s", (int)count, "");
}

void prose_wrap(const char *text, size_t len, size_t column, size_t indent, FILE *out)
{
    const char *end = text + len;
    int first = 1;

    for (;;) {
        const char *word = text + strspn(text, " \n");
        size_t size = strcspn(word, " \n");

        if (word >= end)
            break;
        if (size > (size_t)(end - word))
            size = (size_t)(end - word);
        if (!first && column + 1 + size > WIDTH) {
            putc('\n', out);
            pad(indent, out);
            column = indent;
        } else if (!first) {
            putc(' ', out);
            column++;
        }
        fwrite(word, 1, size, out);
        column += size;
        text = word + size;
        first = 0;
    }
    putc('\n', out);
}

static void print_literal(const struct paragraph *part, size_t indent, FILE *out)
{
    const char *line = part->text, *end = part->text + part->len;

    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)((stop ? stop : end) - line);

        pad(indent, out);
        fwrite(line, 1, len, out);
        putc('\n', out);
        line += len + 1;
    }
}

void prose_print(const char *text, size_t indent, FILE *out)
{
    struct paragraph part;
    int count = 0;

    while (prose_next(&text, &part)) {
        if (count++)
            putc('\n', out);
        if (part.kind == PROSE_LITERAL) {
            print_literal(&part, indent, out);
            continue;
        }
        pad(indent, out);
        if (part.kind == PROSE_ITEM) {
            prose_wrap(part.term, part.term_len, indent, indent, out);
            indent += ITEM_INDENT;
            pad(indent, out);
            prose_wrap(part.text, part.len, indent, indent, out);
            indent -= ITEM_INDENT;
        } else {
            prose_wrap(part.text, part.len, indent, indent, out);
        }
    }
}
