/* SPDX-License-Identifier: MIT */
/*
 * Texts made from the tables of the commands:
 *
 *   help.c      --help, the command `help`, "did you mean"
 *   manual.c    the man pages;  pages.c: their further texts
 *   complete.c  completion for bash and zsh
 *   prose.c     paragraphs, wrapped for a terminal
 */
#ifndef HOLDFAST_CLI_HELP_H
#define HOLDFAST_CLI_HELP_H

#include "cli.h"

/* The options of every command (--url, --verbose, --help), defined in commands.c; ends
 * with name NULL. An option whose help is NULL is hidden. */
extern const struct option cli_common_options[];

/* `holdfast COMMAND --help`. */
void help_print(const struct command *command, FILE *out);
/* `holdfast --help`, `holdfast help`. */
void help_overview(FILE *out);
/* `holdfast latch --help`: the commands that begin with this word; false if there are
 * none. */
bool help_family(const char *word, FILE *out);

/* The nearest command or option, or NULL: "realese" -> "release", "wiat" -> "wait".
 * `word` is given without dashes; a command may be one word of "latch set". */
const char *help_nearest_command(const char *word);
const char *help_nearest_option(const struct command *command, const char *word);

/* ---- Between help.c, manual.c and complete.c ------------------------------------- */

/* The roff of the page of a group ("holdfast", "run", ..., "url"); the completion
 * script of a shell ("bash", "zsh"). -1: no such thing. */
int manual_print(const char *group, FILE *out);
int complete_print(const char *shell, FILE *out);

#endif
