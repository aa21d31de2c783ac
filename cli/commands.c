/* SPDX-License-Identifier: MIT */
/*
 * The list of subcommands, in the order of the help, the options that all of them have,
 * and the look-up by name. Used by main.c, args.c and help.c.
 */
#include "commands.h"
#include "help.h"

#include <string.h>

const struct command *const cli_commands[] = {
    &cmd_run,        &cmd_acquire,    &cmd_release,   &cmd_extend,
    &cmd_ls,         &cmd_show,       &cmd_top,       &cmd_watch,
    &cmd_break,      &cmd_revoke,     &cmd_latch_set, &cmd_latch_down,
    &cmd_latch_wait, &cmd_latch_show, &cmd_cell_get,  &cmd_cell_set,
    &cmd_cell_rm,    &cmd_sem_show,   &cmd_doctor,    &cmd_bench,
    &cmd_version,    &cmd_help,       NULL,
};

const struct option cli_common_options[] = {
    { "url", 'u', OPT_LIST, "URL",
      "the store; default: $HOLDFAST_URL, else this user's directory on this host", 0,
      0 },
    { "verbose", 'v', OPT_FLAG, NULL, "report each step on stderr", 0, 0 },
    { "help", 'h', OPT_FLAG, NULL, "show this help", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

/* How many of `words` spell `name`: 0 if they do not. */
static int words_of(const char *name, char *const *words, size_t count)
{
    const char *space = strchr(name, ' ');
    size_t first = space ? (size_t)(space - name) : strlen(name);

    if (count < 1 || strlen(words[0]) != first || strncmp(words[0], name, first) != 0)
        return 0;
    if (!space)
        return 1;
    return count > 1 && strcmp(words[1], space + 1) == 0 ? 2 : 0;
}

const struct command *command_find(char *const *words, size_t count, int *ret_used)
{
    for (size_t i = 0; cli_commands[i]; i++) {
        int used = words_of(cli_commands[i]->name, words, count);

        if (used) {
            *ret_used = used;
            return cli_commands[i];
        }
    }
    return NULL;
}
