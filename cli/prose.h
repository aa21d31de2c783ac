/* SPDX-License-Identifier: MIT */
/*
 * The markup in the texts of the tables. Paragraphs are separated by an empty line, and
 * are of three kinds:
 *
 *   running text, wrapped as needed
 *   lines that begin with a space, printed unchanged
 *   "TERM :: what it means", an item of a list
 *
 * `Backquotes` mark what the user types literally.
 */
#ifndef HOLDFAST_CLI_PROSE_H
#define HOLDFAST_CLI_PROSE_H

#include <stddef.h>
#include <stdio.h>

enum paragraph_kind { PROSE_TEXT, PROSE_LITERAL, PROSE_ITEM };

struct paragraph {
    enum paragraph_kind kind;
    const char *term; /* of an item */
    size_t term_len;
    const char *text;
    size_t len;
};

/* Takes the next paragraph off *cursor; 0 at the end. */
int prose_next(const char **cursor, struct paragraph *ret_paragraph);

/* Prints `text` from `column` on, wrapped at 80 columns; further lines begin at
 * `indent`. Ends the line. */
void prose_wrap(const char *text, size_t len, size_t column, size_t indent, FILE *out);

/* Prints all paragraphs of `text`, with an empty line between them. */
void prose_print(const char *text, size_t indent, FILE *out);

#endif
