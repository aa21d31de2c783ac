/* SPDX-License-Identifier: MIT */
/*
 * Tables: aligned columns with bold heads on a terminal, tabs elsewhere.
 *
 * Cells are kept until table_print(), because a column is as wide as its widest cell.
 * Cells may contain text of other users (names, notes, hosts): characters that could
 * move the cursor or change the writing direction are shown as \xNN, and a tab in a
 * cell cannot end a column. Main thread only.
 */
#include "cli.h"
#include "utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GAP 2 /* spaces between columns */

struct table {
    const char *const *heads;
    size_t columns;
    size_t count, room; /* cells */
    char **cells;
};

static _Noreturn void no_memory(void)
{
    cli_say("out of memory");
    exit(EXIT_INTERNAL);
}

struct table *table_new(const char *const *heads)
{
    struct table *table = calloc(1, sizeof *table);

    if (!table)
        no_memory();
    table->heads = heads;
    while (heads[table->columns])
        table->columns++;
    return table;
}

/* A copy of `text` that is safe to show. */
static char *escaped_copy(const char *text)
{
    char *copy = malloc(4 * strlen(text) + 1), *to = copy;
    uint32_t code;
    size_t len;

    if (!copy)
        no_memory();
    while (*text) {
        len = utf8_read(text, &code);
        if (len && !utf8_unsafe(code)) {
            memcpy(to, text, len);
            to += len;
            text += len;
            continue;
        }
        for (size_t bytes = len ? len : 1; bytes; bytes--)
            to += snprintf(to, 5, "\\x%02x", (unsigned)(unsigned char)*text++);
    }
    *to = '\0';
    return copy;
}

void table_cell(struct table *table, const char *format, ...)
{
    char *text;
    va_list list;
    int len;

    va_start(list, format);
    len = vasprintf(&text, format, list);
    va_end(list);
    if (len < 0)
        no_memory();
    if (table->count == table->room) {
        table->room = table->room ? 2 * table->room : 64;
        table->cells = realloc(table->cells, table->room * sizeof *table->cells);
        if (!table->cells)
            no_memory();
    }
    table->cells[table->count++] = escaped_copy(text);
    free(text);
}

/* The columns of the terminal that a code point takes. wcwidth() is more exact but
 * needs a locale, which would take longer than the rest of the start. */
static size_t code_width(uint32_t code)
{
    if ((code >= 0x300 && code < 0x370) || (code >= 0x200b && code <= 0x200d) ||
        (code >= 0xfe00 && code <= 0xfe0f))
        return 0;
    if ((code >= 0x1100 && code < 0x1160) || (code >= 0x2e80 && code < 0xa4d0) ||
        (code >= 0xac00 && code < 0xd7a4) || (code >= 0xf900 && code < 0xfb00) ||
        (code >= 0xfe30 && code < 0xfe70) || (code >= 0xff01 && code < 0xff61) ||
        (code >= 0x1f300 && code < 0x1fb00) || (code >= 0x20000 && code < 0x30000))
        return 2;
    return 1;
}

static size_t text_width(const char *text)
{
    size_t width = 0, len;
    uint32_t code;

    for (; *text; text += len) {
        len = utf8_read(text, &code);
        if (!len) /* only possible in a head */
            len = code = 1;
        width += code_width(code);
    }
    return width;
}

static size_t column_width(const struct table *table, size_t column)
{
    size_t widest = text_width(table->heads[column]), width;

    for (size_t i = column; i < table->count; i += table->columns) {
        width = text_width(table->cells[i]);
        if (width > widest)
            widest = width;
    }
    return widest;
}

bool colours_on(FILE *out)
{
    const char *term = getenv("TERM"), *off = getenv("NO_COLOR");

    return isatty(fileno(out)) && !(off && *off) && term && *term &&
           strcmp(term, "dumb") != 0;
}

/* One line of `count` cells; `widths` NULL: tabs between them. */
static void print_line(const char *const *cells, size_t count, const size_t *widths,
                       FILE *out)
{
    size_t pad;

    for (size_t i = 0; i < count; i++) {
        fputs(cells[i], out);
        if (i + 1 == count)
            break;
        if (!widths)
            putc('\t', out);
        else
            for (pad = widths[i] + GAP - text_width(cells[i]); pad; pad--)
                putc(' ', out);
    }
}

void table_print(struct table *table, FILE *out)
{
    const char *const *cells = (const char *const *)table->cells;
    bool bold = colours_on(out);
    size_t *widths = NULL, left;

    if (isatty(fileno(out))) {
        widths = calloc(table->columns + 1, sizeof *widths);
        if (!widths)
            no_memory();
        for (size_t i = 0; i < table->columns; i++)
            widths[i] = column_width(table, i);
    }
    fputs(bold ? "\033[1m" : "", out);
    print_line(table->heads, table->columns, widths, out);
    fputs(bold ? "\033[0m\n" : "\n", out);
    for (size_t i = 0; i < table->count; i += table->columns) {
        left = table->count - i;
        print_line(cells + i, left < table->columns ? left : table->columns, widths,
                   out);
        putc('\n', out);
    }
    free(widths);
}

void table_free(struct table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}
