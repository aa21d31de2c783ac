/* SPDX-License-Identifier: MIT */
/*
 * `holdfast`: finds the command, parses its options and runs it.
 *
 * main() does nothing that would make every start slower: it sets no locale and starts
 * no thread.
 */
#include "args.h"
#include "commands.h"
#include "help.h"
#include "waiting.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A full disk or a closed pipe is an error, not success. */
static int flush_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    cli_say("cannot write to standard output");
    return code == EXIT_DONE ? EXIT_INTERNAL : code;
}

static int run_command(const struct command *command, char **words, size_t count)
{
    struct args args;
    int code = args_parse(&args, command, words, count);

    if (code == 0 && args_help(&args))
        help_print(command, stdout);
    else if (code == 0)
        code = command->run(&args);
    args_done(&args);
    return code;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* "latch set, latch down": the commands that begin with this word; false if there are
 * none. */
static bool family_names(const char *word, char *buffer, size_t size)
{
    size_t len = strlen(word), used = 0;

    for (size_t i = 0; cli_commands[i] && used < size; i++) {
        const char *name = cli_commands[i]->name;

        if (strncmp(name, word, len) == 0 && name[len] == ' ')
            used += (size_t)snprintf(buffer + used, size - used, "%s%s",
                                     used ? ", " : "", name);
    }
    return used > 0;
}

static int unknown_command(char **words, size_t count)
{
    const char *near = help_nearest_command(words[0]);
    char shown[256], names[256];

    url_without_secrets(words[0], shown, sizeof shown);
    if (count > 1 && is_help(words[1]) && help_family(words[0], stdout))
        return EXIT_DONE;
    if (family_names(words[0], names, sizeof names)) {
        cli_say("%s: one of these subcommands is needed: %s (see holdfast %s --help)",
                shown, names, shown);
        return EXIT_USAGE;
    }
    if (words[0][0] == '-')
        cli_say("the command comes first: holdfast COMMAND %s (see holdfast --help)",
                shown);
    else if (near)
        cli_say("there is no command \"%s\"; did you mean \"%s\"?", shown, near);
    else
        cli_say("there is no command \"%s\" (see holdfast --help)", shown);
    return EXIT_USAGE;
}

static int no_command(char **words, size_t count)
{
    if (count == 0) {
        help_overview(stderr);
        return EXIT_USAGE;
    }
    if (is_help(words[0])) {
        help_overview(stdout);
        return EXIT_DONE;
    }
    if (strcmp(words[0], "--version") == 0 || strcmp(words[0], "-V") == 0)
        return run_command(&cmd_version, words + 1, 0);
    return unknown_command(words, count);
}

/* The number of words that a common option and its value take; 0 if words[0] is no
 * common option. --help is left out: it is a command here. */
static size_t common_option(char *const *words, size_t count)
{
    const char *word = words[0];

    for (const struct option *o = cli_common_options; o->name && word[0] == '-'; o++) {
        size_t len = strlen(o->name), value = o->type == OPT_FLAG ? 1 : 2;

        if (strcmp(o->name, "help") == 0)
            continue;
        if (word[1] == o->letter && o->letter)
            return word[2] && value == 2 ? 1 : value <= count ? value : 0;
        if (word[1] != '-' || strncmp(word + 2, o->name, len) != 0)
            continue;
        if (word[2 + len] == '=')
            return 1;
        if (!word[2 + len])
            return value <= count ? value : 0;
    }
    return 0;
}

/* Common options may stand before the command: they are moved behind it. */
static int run_after_options(char **words, size_t lead, size_t count)
{
    int used = 0;
    const struct command *command = command_find(words + lead, count - lead, &used);
    char **all = calloc(count + 1, sizeof *all);
    int code;

    if (!command || !all) {
        free(all);
        return no_command(words + lead, count - lead);
    }
    memcpy(all, words, lead * sizeof *all);
    memcpy(all + lead, words + lead + used,
           (count - lead - (size_t)used) * sizeof *all);
    code = run_command(command, all, count - (size_t)used);
    free(all);
    return code;
}

int main(int argc, char **argv)
{
    char **words = argc > 0 ? argv + 1 : argv;
    size_t count = argc > 0 ? (size_t)argc - 1 : 0, lead = 0, more;
    int used = 0;
    const struct command *command = command_find(words, count, &used);

    while (lead < count && (more = common_option(words + lead, count - lead)) > 0)
        lead += more;
    if (lead > 0)
        return flush_output(run_after_options(words, lead, count));
    if (!command && count > 1 && strcmp(words[0], LOOK_COMMAND) == 0)
        return looker_main(words + 1, count - 1);
    if (!command)
        return flush_output(no_command(words, count));
    return flush_output(run_command(command, words + used, count - (size_t)used));
}
