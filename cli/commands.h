/* SPDX-License-Identifier: MIT */
/*
 * The subcommands, one const table each, and the look-up by name.
 *
 * A new command is a table in its own file cmd_<name>.c, a line here, and a line in
 * commands.c.
 */
#ifndef HOLDFAST_CLI_COMMANDS_H
#define HOLDFAST_CLI_COMMANDS_H

#include "cli.h"

extern const struct command cmd_run;
extern const struct command cmd_acquire, cmd_release, cmd_extend;
extern const struct command cmd_ls, cmd_show, cmd_top, cmd_watch;
extern const struct command cmd_break, cmd_revoke;
extern const struct command cmd_latch_set, cmd_latch_down, cmd_latch_wait,
    cmd_latch_show;
extern const struct command cmd_cell_get, cmd_cell_set, cmd_cell_rm;
extern const struct command cmd_sem_show;
extern const struct command cmd_doctor, cmd_bench, cmd_version;
extern const struct command cmd_help;

/* The command that `words` begin with, and how many words its name has (1 or 2);
 * NULL if there is none. */
const struct command *command_find(char *const *words, size_t count, int *ret_used);

#endif
