/* SPDX-License-Identifier: MIT */
/*
 * --help, the command `help`, and suggestions for a mistyped word.
 *
 * All texts come from the tables of the commands, so that a new option appears in the
 * help, in its man page and in the completion at once. Help that the user asked for
 * goes to stdout. Main thread only, no state.
 */
#include "help.h"

#include "commands.h"
#include "pages.h"
#include "prose.h"

#include <ctype.h>
#include <string.h>

#define INDENT 2
#define COMMAND_COLUMN 16 /* where the summaries begin */
#define OPTION_COLUMN 26  /* where the explanations begin */
#define WORD_MAX 64

/* ---- Suggestions ----------------------------------------------------------------- */

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* How many letters to add, drop, change or swap to make `a` of `b`. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX + 1], la = strlen(a), lb = strlen(b);
    size_t *before = rows[0], *last = rows[1], *next = rows[2], *spare;

    if (la > WORD_MAX || lb > WORD_MAX)
        return WORD_MAX;
    for (size_t j = 0; j <= lb; j++)
        before[j] = last[j] = j;
    for (size_t i = 1; i <= la; i++) {
        next[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            next[j] = smallest(last[j] + 1, next[j - 1] + 1,
                               last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < next[j])
                next[j] = before[j - 2] + 1;
        }
        spare = before;
        before = last;
        last = next;
        next = spare;
    }
    return last[lb];
}

/* The nearest candidate for the mistyped `word` so far. */
struct guess {
    const char *word;
    const char *best;
    size_t best_distance;
};

static void guess_try(struct guess *guess, const char *candidate)
{
    size_t len = strlen(guess->word), far = distance(guess->word, candidate);

    if (len > 1 && strncmp(guess->word, candidate, len) == 0)
        far = 0; /* an abbreviation */
    if (far <= (len + 2) / 3 && far < guess->best_distance) {
        guess->best = candidate;
        guess->best_distance = far;
    }
}

const char *help_nearest_command(const char *word)
{
    struct guess guess = { word, NULL, WORD_MAX };
    const char *space;

    for (size_t i = 0; cli_commands[i]; i++) {
        guess_try(&guess, cli_commands[i]->name);
        space = strchr(cli_commands[i]->name, ' ');
        if (space && !strchr(word, ' ')) {
            /* "lach" is near the first word of "latch set". */
            char first[WORD_MAX];

            snprintf(first, sizeof first, "%.*s", (int)(space - cli_commands[i]->name),
                     cli_commands[i]->name);
            if (distance(word, first) <= 1 && guess.best_distance > 1) {
                guess.best = cli_commands[i]->name;
                guess.best_distance = 1;
            }
        }
    }
    return guess.best;
}

const char *help_nearest_option(const struct command *command, const char *word)
{
    struct guess guess = { word, NULL, WORD_MAX };
    const struct option *lists[] = { command->options, cli_common_options };

    for (size_t i = 0; i < 2; i++) {
        for (const struct option *o = lists[i]; o && o->name; o++) {
            if (o->help)
                guess_try(&guess, o->name);
        }
    }
    return guess.best;
}

/* ---- Printing -------------------------------------------------------------------- */

/* "  left side        right side, wrapped", or on two lines if the left is long. */
static void print_pair(const char *left, const char *right, size_t column, FILE *out)
{
    int used = fprintf(out, "%*s%s", INDENT, "", left);

    if ((size_t)used + 2 > column) {
        putc('\n', out);
        used = 0;
    }
    fprintf(out, "%*s", (int)column - used, "");
    prose_wrap(right, strlen(right), column, column, out);
}

static void print_option(const struct option *option, FILE *out)
{
    char left[2 * WORD_MAX], letter[] = "-x, ";

    letter[1] = option->letter;
    snprintf(left, sizeof left, "%s--%s%s%s", option->letter ? letter : "    ",
             option->name, option->arg ? " " : "", option->arg ? option->arg : "");
    print_pair(left, option->help, OPTION_COLUMN, out);
}

static void print_options(const char *title, const struct option *options, FILE *out)
{
    bool any = false;

    for (const struct option *o = options; o && o->name; o++) {
        if (!o->help)
            continue;
        if (!any)
            fprintf(out, "\n%s:\n", title);
        any = true;
        print_option(o, out);
    }
}

static bool takes_duration(const struct command *command)
{
    for (const struct option *o = command->options; o && o->name; o++) {
        if (o->help && (o->type == OPT_DURATION || o->type == OPT_FOREVER))
            return true;
    }
    return false;
}

static void print_usage(const struct command *command, FILE *out)
{
    fprintf(out, "holdfast %s [OPTION...]%s%s\n", command->name,
            command->operands && *command->operands ? " " : "",
            command->operands ? command->operands : "");
}

static const struct page *page_of(const char *group)
{
    const struct page *page = pages;

    while (page->group && strcmp(page->group, group) != 0)
        page++;
    return page->group ? page : NULL;
}

void help_print(const struct command *command, FILE *out)
{
    const struct page *page = page_of(command->group);

    fputs("Usage: ", out);
    print_usage(command, out);
    fprintf(out, "\n%c%s.\n", toupper((unsigned char)command->summary[0]),
            command->summary + 1);
    if (command->about && *command->about) {
        putc('\n', out);
        prose_print(command->about, 0, out);
    }
    print_options("Options", command->options, out);
    print_options("Options of every command", cli_common_options, out);
    if (takes_duration(command))
        fputs(
            "\nA DURATION is written as 500ms, 10s, 1m30s, 2h or 1d; a plain number is "
            "seconds.\n",
            out);
    for (const char *const *e = command->examples; e && *e; e += 2) {
        fprintf(out, "%s  %s\n      ", e == command->examples ? "\nExamples:\n" : "",
                e[0]);
        prose_wrap(e[1], strlen(e[1]), 6, 6, out);
    }
    if (page)
        fprintf(out, "\nSee also: man %s\n", page->name);
}

static void print_commands(const struct page *page, FILE *out)
{
    bool any = false;

    for (size_t i = 0; cli_commands[i]; i++) {
        if (strcmp(cli_commands[i]->group, page->group) != 0)
            continue;
        if (!any)
            fprintf(out, "\n%s:\n", page->title);
        any = true;
        print_pair(cli_commands[i]->name, cli_commands[i]->summary, COMMAND_COLUMN,
                   out);
    }
}

void help_overview(FILE *out)
{
    fputs("Usage: holdfast COMMAND [OPTION...] [OPERAND...]\n\n"
          "Locks that work across processes and machines, for scripts, cron jobs and\n"
          "deployments.\n",
          out);
    for (const struct page *page = pages; page->group; page++)
        print_commands(page, out);
    print_options("Options of every command", cli_common_options, out);
    fputs("\n`holdfast help COMMAND` shows the options of a command, `help exit` the\n"
          "exit codes, `help url` the store URLs. The manual: man holdfast\n",
          out);
}

bool help_family(const char *word, FILE *out)
{
    size_t len = strlen(word);
    bool any = false;

    for (size_t i = 0; cli_commands[i]; i++) {
        const char *name = cli_commands[i]->name;

        if (strncmp(name, word, len) != 0 || name[len] != ' ')
            continue;
        fputs(any ? "       " : "Usage: ", out);
        print_usage(cli_commands[i], out);
        any = true;
    }
    if (any)
        fprintf(out, "\nholdfast help %s COMMAND shows the options of each.\n", word);
    return any;
}

/* ---- The command ----------------------------------------------------------------- */

static void print_facts(const struct page_fact *facts, FILE *out)
{
    for (; facts->name; facts++)
        print_pair(facts->name, facts->text, OPTION_COLUMN, out);
}

static void print_sections(const struct page *page, FILE *out)
{
    prose_print(page->intro, 0, out);
    for (const struct page_section *s = page->sections; s && s->head; s++) {
        fprintf(out, "\n%s\n\n", s->head);
        prose_print(s->text, INDENT, out);
    }
}

/* A topic that is not a command. */
static bool print_topic(const char *topic, FILE *out)
{
    if (strcmp(topic, "exit") == 0) {
        fputs("Exit codes:\n", out);
        print_facts(page_exit_codes, out);
    } else if (strcmp(topic, "environment") == 0) {
        fputs("Environment:\n", out);
        print_facts(page_environment, out);
    } else if (strcmp(topic, "url") == 0) {
        print_sections(page_of("url"), out);
    } else {
        return false;
    }
    return true;
}

static const struct command *command_named(const char *name)
{
    for (size_t i = 0; cli_commands[i]; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    }
    return NULL;
}

static int help_about(struct args *args, const char *topic)
{
    const struct command *command = command_named(topic);
    const char *near = help_nearest_command(topic);

    if (command)
        help_print(command, stdout);
    else if (!help_family(topic, stdout) && !print_topic(topic, stdout))
        return near ? cli_usage(args, "%s: no such command; did you mean `%s`?", topic,
                                near)
                    : cli_usage(args, "%s: no such command", topic);
    return EXIT_DONE;
}

/* The tables, one option per line, for the tests: command, group, option, letter,
 * value. */
static void print_tables(FILE *out)
{
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct command *command = cli_commands[i];
        const struct option *lists[] = { command->options, cli_common_options };

        for (size_t j = 0; j < 2; j++) {
            for (const struct option *o = lists[j]; o && o->name; o++) {
                if (o->help)
                    fprintf(out, "%s\t%s\t%s\t%c\t%s\n", command->name, command->group,
                            o->name, o->letter ? o->letter : '-', o->arg ? o->arg : "");
            }
        }
    }
}

static int help_run(struct args *args)
{
    const struct value *man = args_get(args, "man");
    const struct value *complete = args_get(args, "complete");
    char topic[WORD_MAX];

    if (man->given && manual_print(man->text, stdout))
        return cli_usage(args, "%s: no such page", man->text);
    if (complete->given && complete_print(complete->text, stdout))
        return cli_usage(args, "%s: no completion for this shell", complete->text);
    if (args_get(args, "tables")->flag)
        print_tables(stdout);
    if (man->given || complete->given || args_get(args, "tables")->flag)
        return EXIT_DONE;
    if (args_count(args) == 0) {
        help_overview(stdout);
        return EXIT_DONE;
    }
    snprintf(topic, sizeof topic, "%s%s%s", args_operand(args, 0),
             args_count(args) > 1 ? " " : "",
             args_count(args) > 1 ? args_operand(args, 1) : "");
    return help_about(args, topic);
}

static const struct option help_options[] = {
    { "man", 0, OPT_TEXT, "PAGE", NULL, 0, 0 },
    { "complete", 0, OPT_TEXT, "SHELL", NULL, 0, 0 },
    { "tables", 0, OPT_FLAG, NULL, NULL, 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const help_examples[] = {
    "holdfast help run",
    "the options of `run`, as `holdfast run --help` shows them",
    "holdfast help exit",
    "what each exit code means",
    NULL,
};

const struct command cmd_help = {
    .name = "help",
    .operands = "[COMMAND | exit | environment | url]",
    .summary = "explain a command, the exit codes or the store URLs",
    .group = "holdfast",
    .about = "Without an operand, lists all commands.",
    .examples = help_examples,
    .options = help_options,
    .run = help_run,
    .min_operands = 0,
    .max_operands = 2,
};
