/* SPDX-License-Identifier: MIT */
/*
 * The parsed command line of one call. main.c makes it with args_parse(); the commands
 * read it through the functions of cli.h only.
 */
#ifndef HOLDFAST_CLI_ARGS_H
#define HOLDFAST_CLI_ARGS_H

#include "cli.h"

#define ARGS_OPTIONS_MAX 40

struct args {
    const struct command *command;
    const struct option *options[ARGS_OPTIONS_MAX]; /* of the command, and common */
    struct value values[ARGS_OPTIONS_MAX];
    size_t option_count;
    const char **operands;
    size_t operand_count;
    char **command_line; /* after "--", or NULL */
};

/* Parses what follows the name of the command. 0, or an exit code after a message.
 * With --help, which is looked at first, the rest need not be complete. */
int args_parse(struct args *args, const struct command *command, char **words,
               size_t count);
void args_done(struct args *args);

bool args_help(const struct args *args);
bool args_verbose(const struct args *args);

#endif
