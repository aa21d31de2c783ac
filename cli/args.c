/* SPDX-License-Identifier: MIT */
/*
 * Parsing of a command line by the tables of cli.h.
 *
 * Options may stand anywhere before "--". A value follows as --name=value, --name
 * value, -nvalue or -n value; letters of flags may be joined. An option may be given
 * once, unless its type is a list. An error is reported at once, with the word as the
 * user typed it.
 */
#include "args.h"

#include "help.h"

#include <stdlib.h>
#include <string.h>

/* ---- The parsed command line ----------------------------------------------------- */

static size_t option_index(const struct args *args, const char *name)
{
    for (size_t i = 0; i < args->option_count; i++) {
        if (strcmp(args->options[i]->name, name) == 0)
            return i;
    }
    abort(); /* the command asks for an option that is not in its table */
}

const struct value *args_get(const struct args *args, const char *name)
{
    return &args->values[option_index(args, name)];
}

size_t args_count(const struct args *args)
{
    return args->operand_count;
}

const char *args_operand(const struct args *args, size_t index)
{
    return index < args->operand_count ? args->operands[index] : NULL;
}

char **args_command(const struct args *args)
{
    return args->command_line;
}

const char *args_url(const struct args *args)
{
    const struct value *url = args_get(args, "url");

    return url->count ? url->texts[0] : NULL;
}

bool args_help(const struct args *args)
{
    return args_get(args, "help")->flag;
}

bool args_verbose(const struct args *args)
{
    return args_get(args, "verbose")->flag;
}

/* ---- Values ---------------------------------------------------------------------- */

static int value_number(struct args *args, const struct option *option,
                        const char *text, uint64_t *ret_number)
{
    uint64_t max = option->max ? option->max : UINT64_MAX;
    uint64_t number = 0;

    if (!*text)
        return cli_usage(args, "--%s: a number is needed", option->name);
    for (const char *c = text; *c; c++) {
        unsigned digit = (unsigned)(*c - '0');

        if (digit > 9)
            return cli_usage(args, "--%s: \"%s\" is not a number", option->name, text);
        if (number > (UINT64_MAX - digit) / 10)
            return cli_usage(args, "--%s: \"%s\" is too large", option->name, text);
        number = number * 10 + digit;
    }
    if (number < option->min || number > max)
        return cli_usage(args, "--%s: %s is not a number from %llu to %llu",
                         option->name, text, (unsigned long long)option->min,
                         (unsigned long long)max);
    *ret_number = number;
    return 0;
}

static int value_duration(struct args *args, const struct option *option,
                          const char *text, int64_t *ret_ms)
{
    if (option->type == OPT_FOREVER && strcmp(text, "forever") == 0) {
        *ret_ms = HF_FOREVER;
        return 0;
    }
    if (parse_duration(text, ret_ms) == 0)
        return 0;
    return cli_usage(args,
                     "--%s: \"%s\" is not a duration: write 500ms, 10s, 1m30s, "
                     "10 (seconds)%s",
                     option->name, text,
                     option->type == OPT_FOREVER ? ", 0 or forever" : "");
}

static int value_more(struct value *value, const char *text)
{
    const char **texts = realloc(value->texts, (value->count + 1) * sizeof *texts);

    if (!texts) {
        cli_say("out of memory");
        return EXIT_INTERNAL;
    }
    value->texts = texts;
    texts[value->count++] = text;
    return 0;
}

static int value_set(struct args *args, size_t index, const char *text)
{
    const struct option *option = args->options[index];
    struct value *value = &args->values[index];

    if (value->given && option->type != OPT_LIST && option->type != OPT_FLAG)
        return cli_usage(args, "--%s was given twice", option->name);
    value->given = true;
    switch (option->type) {
    case OPT_FLAG:
        value->flag = true;
        return 0;
    case OPT_TEXT:
        value->text = text;
        return 0;
    case OPT_DURATION:
    case OPT_FOREVER:
        return value_duration(args, option, text, &value->ms);
    case OPT_NUMBER:
        return value_number(args, option, text, &value->number);
    case OPT_LIST:
        return value_more(value, text);
    }
    return 0;
}

/* ---- Options --------------------------------------------------------------------- */

/* The next word of the command line. */
struct cursor {
    char **words;
    size_t count;
    size_t next;
};

static int unknown_option(struct args *args, const char *name)
{
    const char *near = help_nearest_option(args->command, name);

    if (near)
        return cli_usage(args, "there is no option --%s; did you mean --%s?", name,
                         near);
    return cli_usage(args, "there is no option --%s", name);
}

static int take_value(struct args *args, struct cursor *at, size_t index)
{
    const struct option *option = args->options[index];

    if (at->next == at->count)
        return cli_usage(args, "--%s needs a value: %s", option->name, option->arg);
    return value_set(args, index, at->words[at->next++]);
}

static int parse_long(struct args *args, struct cursor *at, char *word)
{
    char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);

    for (size_t i = 0; i < args->option_count; i++) {
        const struct option *option = args->options[i];

        if (strlen(option->name) != length || strncmp(option->name, word, length) != 0)
            continue;
        if (equals && option->type == OPT_FLAG)
            return cli_usage(args, "--%s takes no value", option->name);
        if (equals)
            return value_set(args, i, equals + 1);
        return option->type == OPT_FLAG ? value_set(args, i, NULL)
                                        : take_value(args, at, i);
    }
    if (equals)
        *equals = '\0'; /* the value may be a secret, the message is not */
    return unknown_option(args, word);
}

static int parse_letters(struct args *args, struct cursor *at, const char *letters)
{
    for (; *letters; letters++) {
        size_t i = 0;
        int rc;

        while (i < args->option_count && args->options[i]->letter != *letters)
            i++;
        if (i == args->option_count)
            return cli_usage(args, "there is no option -%c", *letters);
        if (args->options[i]->type != OPT_FLAG)
            return letters[1] ? value_set(args, i, letters + 1)
                              : take_value(args, at, i);
        rc = value_set(args, i, NULL);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int parse_words(struct args *args, struct cursor *at)
{
    while (at->next < at->count) {
        char *word = at->words[at->next++];
        int rc = 0;

        if (strcmp(word, "--") == 0) {
            if (args->command->takes_command) {
                args->command_line = at->words + at->next;
                return 0;
            }
            while (at->next < at->count)
                args->operands[args->operand_count++] = at->words[at->next++];
            return 0;
        }
        if (strncmp(word, "--", 2) == 0)
            rc = parse_long(args, at, word + 2);
        else if (word[0] == '-' && word[1])
            rc = parse_letters(args, at, word + 1);
        else
            args->operands[args->operand_count++] = word;
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- Parsing --------------------------------------------------------------------- */

static void add_options(struct args *args, const struct option *options)
{
    for (; options && options->name; options++) {
        if (args->option_count == ARGS_OPTIONS_MAX)
            abort(); /* the command has more than ARGS_OPTIONS_MAX options */
        args->options[args->option_count++] = options;
    }
}

/* The operand may be a URL whose --url was forgotten, so its password is hidden. */
static int operand_surplus(struct args *args, const char *operand)
{
    char shown[256];

    url_without_secrets(operand, shown, sizeof shown);
    return cli_usage(args, "unexpected operand \"%s\"", shown);
}

static int check_operands(struct args *args)
{
    const struct command *command = args->command;
    size_t count = args->operand_count;

    if (count < (size_t)command->min_operands)
        return cli_usage(args, "%s: holdfast %s %s",
                         count == 0 ? "an operand is missing" : "operands are missing",
                         command->name, command->operands);
    if (command->max_operands >= 0 && count > (size_t)command->max_operands)
        return operand_surplus(args, args->operands[command->max_operands]);
    if (args_get(args, "url")->count > 1)
        return cli_usage(args, "only one --url can be given: a quorum of stores is not "
                               "implemented");
    return 0;
}

int args_parse(struct args *args, const struct command *command, char **words,
               size_t count)
{
    struct cursor at = { words, count, 0 };
    int rc;

    memset(args, 0, sizeof *args);
    args->command = command;
    add_options(args, command->options);
    add_options(args, cli_common_options);
    args->operands = calloc(count + 1, sizeof *args->operands);
    if (!args->operands) {
        cli_say("out of memory");
        return EXIT_INTERNAL;
    }
    rc = parse_words(args, &at);
    if (rc == 0 && !args_help(args))
        rc = check_operands(args);
    return rc;
}

void args_done(struct args *args)
{
    for (size_t i = 0; i < args->option_count; i++)
        free(args->values[i].texts);
    free(args->operands);
}
