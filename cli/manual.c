/* SPDX-License-Identifier: MIT */
/*
 * The man pages, written as roff from the tables of the commands and the texts of
 * pages.c. The build runs `holdfast help --man PAGE` once per page and installs the
 * output. The texts are plain (prose.h); characters that are special in roff are
 * escaped here, and options, `quoted words` and references such as flock(1) are bold.
 */
#include "help.h"

#include "pages.h"
#include "prose.h"

#include <ctype.h>
#include <string.h>

/* ---- Text ------------------------------------------------------------------------ */

static void put_char(char c, FILE *out)
{
    switch (c) {
    case '\\':
        fputs("\\e", out);
        break;
    case '-':
        fputs("\\-", out);
        break;
    case '~':
        fputs("\\(ti", out);
        break;
    case '^':
        fputs("\\(ha", out);
        break;
    case '\'':
        fputs("\\(aq", out);
        break;
    case '"':
        fputs("\\(dq", out);
        break;
    default:
        putc(c, out);
    }
}

static void put_plain(const char *text, size_t len, FILE *out)
{
    for (size_t i = 0; i < len; i++)
        put_char(text[i], out);
}

static void put_font(const char *font, const char *text, size_t len, FILE *out)
{
    fprintf(out, "\\f%s", font);
    put_plain(text, len, out);
    fputs("\\fP", out);
}

static size_t count_alnum(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && (isalnum((unsigned char)text[n]) || text[n] == '-'))
        n++;
    return n;
}

/* The number of bytes at the beginning of a word that are bold: an option, or the name
 * before "(1)". */
static size_t bold_part(const char *word, size_t len)
{
    size_t name = count_alnum(word, len);

    if (len > 1 && word[0] == '-' && (isalpha((unsigned char)word[1]) || name > 2))
        return name;
    if (name && name + 2 < len && word[name] == '(' &&
        isdigit((unsigned char)word[name + 1]) && word[name + 2] == ')')
        return name;
    return 0;
}

/* One word of running text. *quoted: inside `backquotes`, which may span words. */
static void put_word(const char *word, size_t len, bool *quoted, FILE *out)
{
    size_t bold = *quoted ? 0 : bold_part(word, len);

    if (*word == '.' || *word == '\'')
        fputs("\\&", out);
    if (bold)
        put_font("B", word, bold, out);
    for (size_t i = bold; i < len; i++) {
        if (word[i] != '`') {
            put_char(word[i], out);
            continue;
        }
        *quoted = !*quoted;
        fputs(*quoted ? "\\fB" : "\\fP", out);
    }
}

static void put_text(const char *text, size_t len, FILE *out)
{
    const char *end = text + len;
    bool quoted = false;

    while (text < end) {
        size_t size = strcspn(text, " \n");

        if (size > (size_t)(end - text))
            size = (size_t)(end - text);
        if (size)
            put_word(text, size, &quoted, out);
        text += size;
        text += strspn(text, " \n");
        if (text < end)
            putc(' ', out);
    }
    if (quoted)
        fputs("\\fP", out);
}

static void put_string(const char *text, FILE *out)
{
    put_text(text, strlen(text), out);
}

/* A text of the tables as a sentence, with capital and full stop added. */
static void put_sentence(const char *text, FILE *out)
{
    char first = (char)toupper((unsigned char)text[0]);

    if (first != text[0]) {
        putc(first, out);
        put_string(text + 1, out);
    } else {
        put_string(text, out);
    }
    fputs(text[strlen(text) - 1] == '.' ? "\n" : ".\n", out);
}

/* Capitals are placeholders: NAME... -- COMMAND [ARGUMENT...] */
static void put_operands(const char *text, FILE *out)
{
    while (*text) {
        size_t caps = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

        if (caps)
            put_font("I", text, caps, out);
        else
            put_char(*text, out);
        text += caps ? caps : 1;
    }
}

static void put_literal(const struct paragraph *part, FILE *out)
{
    const char *line = part->text, *end = part->text + part->len;

    fputs(".PP\n.RS 4\n.EX\n", out);
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)((stop ? stop : end) - line), blank = *line == ' ';

        fputs("\\&", out);
        put_plain(line + blank, len - blank, out);
        putc('\n', out);
        line += len + 1;
    }
    fputs(".EE\n.RE\n", out);
}

static void put_prose(const char *text, FILE *out)
{
    struct paragraph part;
    bool first = true;

    while (prose_next(&text, &part)) {
        if (part.kind == PROSE_LITERAL) {
            put_literal(&part, out);
        } else if (part.kind == PROSE_ITEM) {
            fputs(".TP\n\\fB", out);
            put_plain(part.term, part.term_len, out);
            fputs("\\fP\n", out);
            put_text(part.text, part.len, out);
            putc('\n', out);
        } else {
            fputs(first ? "" : ".PP\n", out);
            put_text(part.text, part.len, out);
            putc('\n', out);
        }
        first = false;
    }
}

/* ---- Parts of a page ------------------------------------------------------------- */

static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = words; (at = strstr(at, word)) != NULL; at += len) {
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
            return true;
    }
    return false;
}

static bool is_overview(const struct page *page)
{
    return strcmp(page->group, "holdfast") == 0;
}

/* The next command of a page, from index *i on. */
static const struct command *page_command(const struct page *page, size_t *i)
{
    while (cli_commands[*i]) {
        const struct command *command = cli_commands[(*i)++];

        if (strcmp(command->group, page->group) == 0)
            return command;
    }
    return NULL;
}

static size_t page_commands(const struct page *page)
{
    size_t i = 0, count = 0;

    while (page_command(page, &i))
        count++;
    return count;
}

static void put_synopsis(const struct page *page, FILE *out)
{
    const struct command *command;
    size_t i = 0;

    fputs(".SH SYNOPSIS\n", out);
    if (is_overview(page))
        fputs(".SY holdfast\n\\fICOMMAND\\fP [\\fIOPTION\\fP...] "
              "[\\fIOPERAND\\fP...]\n.YS\n",
              out);
    while ((command = page_command(page, &i)) != NULL) {
        fprintf(out, ".SY \"holdfast %s\"\n[\\fIOPTION\\fP...]", command->name);
        if (command->operands && *command->operands) {
            putc(' ', out);
            put_operands(command->operands, out);
        }
        fputs("\n.YS\n", out);
    }
    if (strcmp(page->group, "url") == 0)
        fputs(".SY holdfast\n\\fICOMMAND\\fP \\fB\\-\\-url\\fP \\fIURL\\fP ...\n.YS\n",
              out);
}

static void put_commands(const struct page *page, FILE *out)
{
    bool several = page_commands(page) > 1;
    const struct command *command;
    size_t i = 0;

    while ((command = page_command(page, &i)) != NULL) {
        if (several)
            fprintf(out, ".SS %s\n", command->name);
        else
            fputs(page->intro ? ".PP\n" : "", out);
        put_sentence(command->summary, out);
        if (command->about && *command->about) {
            fputs(".PP\n", out);
            put_prose(command->about, out);
        }
    }
}

static void put_option(const struct option *option, FILE *out)
{
    fputs(".TP\n", out);
    if (option->letter)
        fprintf(out, "\\fB\\-%c\\fP, ", option->letter);
    fputs("\\fB\\-\\-", out);
    put_plain(option->name, strlen(option->name), out);
    fputs("\\fP", out);
    if (option->arg) {
        putc(' ', out);
        put_operands(option->arg, out);
    }
    putc('\n', out);
    put_sentence(option->help, out);
}

/* Prints the options, if there are any, under the heading `head` unless it is NULL. */
static void put_options(const char *head, const struct option *options, FILE *out)
{
    bool any = false;

    for (const struct option *o = options; o && o->name; o++) {
        if (!o->help)
            continue;
        if (!any && head)
            fprintf(out, ".SS %s\n", head);
        any = true;
        put_option(o, out);
    }
}

static void put_all_options(const struct page *page, FILE *out)
{
    bool several = page_commands(page) > 1;
    const struct command *command;
    size_t i = 0;

    fputs(".SH OPTIONS\n", out);
    while ((command = page_command(page, &i)) != NULL)
        put_options(several ? command->name : NULL, command->options, out);
    put_options(is_overview(page) ? NULL : "Of every command", cli_common_options, out);
}

static void put_facts(const char *head, const struct page_fact *facts,
                      const struct page *page, FILE *out)
{
    bool any = false;

    for (; facts->name; facts++) {
        if (!is_overview(page) && !has_word(facts->groups, page->group))
            continue;
        if (!any)
            fprintf(out, ".SH %s\n", head);
        any = true;
        fputs(".TP\n\\fB", out);
        put_plain(facts->name, strlen(facts->name), out);
        fputs("\\fP\n", out);
        put_sentence(facts->text, out);
    }
}

static void put_examples(const struct page *page, FILE *out)
{
    const struct command *command;
    bool any = false;
    size_t i = 0;

    while ((command = page_command(page, &i)) != NULL) {
        for (const char *const *e = command->examples; e && *e; e += 2) {
            if (!any)
                fputs(".SH EXAMPLES\n", out);
            any = true;
            fputs(".TP\n\\fB", out);
            put_plain(e[0], strlen(e[0]), out);
            fputs("\\fP\n", out);
            put_sentence(e[1], out);
        }
    }
}

static void put_see_also(const struct page *page, FILE *out)
{
    const char *comma = "";

    fputs(".SH SEE ALSO\n", out);
    for (const struct page *other = pages; other->group; other++) {
        if (other == page)
            continue;
        fprintf(out, "%s\\fB", comma);
        put_plain(other->name, strlen(other->name), out);
        fprintf(out, "\\fP(%d)", other->section);
        comma = ",\n";
    }
    fputs(",\n\\fBflock\\fP(1)\n", out);
}

/* All commands, with the page of each. */
static void put_list(FILE *out)
{
    fputs(".SH COMMANDS\n", out);
    for (const struct page *page = pages; page->group; page++) {
        const struct command *command;
        size_t i = 0;

        if (page_commands(page) == 0)
            continue;
        fprintf(out, ".SS %s\n", page->title);
        while ((command = page_command(page, &i)) != NULL) {
            fprintf(out, ".TP\n\\fB%s\\fP\n", command->name);
            put_sentence(command->summary, out);
        }
        if (!is_overview(page)) {
            fputs(".PP\nSee \\fB", out);
            put_plain(page->name, strlen(page->name), out);
            fprintf(out, "\\fP(%d).\n", page->section);
        }
    }
}

/* ---- Pages ----------------------------------------------------------------------- */

static void put_title(const struct page *page, FILE *out)
{
    fputs(".\\\" Made by `holdfast help --man`; do not edit.\n.TH ", out);
    for (const char *c = page->name; *c; c++)
        put_char((char)toupper((unsigned char)*c), out);
    fprintf(out, " %d \"\" \"holdfast %s\" \"holdfast manual\"\n.SH NAME\n",
            page->section, hf_version());
    put_plain(page->name, strlen(page->name), out);
    fputs(" \\- ", out);
    put_string(page->summary, out);
    putc('\n', out);
}

static void put_page(const struct page *page, FILE *out)
{
    put_title(page, out);
    put_synopsis(page, out);
    fputs(".SH DESCRIPTION\n", out);
    if (page->intro)
        put_prose(page->intro, out);
    if (is_overview(page))
        put_list(out);
    else
        put_commands(page, out);
    if (page_commands(page) > 0)
        put_all_options(page, out);
    for (const struct page_section *s = page->sections; s && s->head; s++) {
        fprintf(out, ".SH %s\n", s->head);
        put_prose(s->text, out);
    }
    put_facts("EXIT STATUS", page_exit_codes, page, out);
    put_facts("ENVIRONMENT", page_environment, page, out);
    if (is_overview(page)) {
        fputs(".SH FILES\n", out);
        put_prose(page_files, out);
    }
    put_examples(page, out);
    put_see_also(page, out);
}

int manual_print(const char *group, FILE *out)
{
    for (const struct page *page = pages; page->group; page++) {
        if (strcmp(page->group, group) == 0) {
            put_page(page, out);
            return 0;
        }
    }
    return -1;
}
