/* SPDX-License-Identifier: MIT */
/*
 * `holdfast`: finds the command, has its options parsed and runs it.
 *
 * Nothing happens here that every start would have to pay for: no locale, no thread.
 */
#include "args.h"
#include "commands.h"
#include "help.h"
#include "waiting.h"

#include <string.h>
#include <unistd.h>

/* A full disk or a closed pipe must not pass for success. */
static int flush_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    cli_say("standard output cannot be written");
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

static int unknown_command(char **words, size_t count)
{
    const char *near = help_nearest_command(words[0]);
    char shown[256];

    url_without_secrets(words[0], shown, sizeof shown);
    if (count > 1 && is_help(words[1]) && help_family(words[0], stdout))
        return EXIT_DONE;
    if (words[0][0] == '-')
        cli_say("the command comes first: holdfast COMMAND %s (see holdfast --help)",
                words[0]);
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

int main(int argc, char **argv)
{
    char **words = argc > 0 ? argv + 1 : argv;
    size_t count = argc > 0 ? (size_t)argc - 1 : 0;
    int used = 0;
    const struct command *command = command_find(words, count, &used);

    if (!command && count > 1 && strcmp(words[0], LOOK_COMMAND) == 0)
        return line_look(words + 1, count - 1);
    if (!command)
        return flush_output(no_command(words, count));
    return flush_output(run_command(command, words + used, count - (size_t)used));
}
