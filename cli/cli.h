/* SPDX-License-Identifier: MIT */
/*
 * What the subcommands of `holdfast` share.
 *
 * Each subcommand is one const struct command: its words, its options and its function.
 * The same tables drive parsing (args.c), --help (help.c), the man pages and the shell
 * completion (the hidden commands `help --man NAME` and `help --complete SHELL`), so
 * that all of them agree.
 *
 * The command uses the library through holdfast.h alone.
 */
#ifndef HOLDFAST_CLI_H
#define HOLDFAST_CLI_H

#include <holdfast.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Exit codes: documented in holdfast(1), never renumbered --------------------- */

/* `run` uses codes that few programs use, because the exit code of the command passes
 * through; 128 + n if signal n ended it. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_BUSY = 1,         /* held by another client and --wait 0; -E changes it */
    EXIT_USAGE = 64,       /* wrong options, bad URL, bad name, bad duration */
    EXIT_UNREACHABLE = 69, /* the store does not answer */
    EXIT_INTERNAL = 70,    /* a system error: memory, descriptors, disk */
    EXIT_TIMEOUT = 75,     /* --wait is over; -E changes it */
    EXIT_REFUSED = 77,     /* the store refused: password, permission, mismatch */
    EXIT_LOST = 78,        /* the lock was lost while the command ran */
    EXIT_CANNOT_RUN = 126, /* the command is there but cannot be run */
    EXIT_NOT_FOUND = 127,  /* no such command */
};

/* The exit code for a code of the library. */
int cli_exit_of(int code);

/* ---- Tables ---------------------------------------------------------------------- */

enum option_type {
    OPT_FLAG,     /* value.flag */
    OPT_TEXT,     /* value.text */
    OPT_DURATION, /* value.ms */
    OPT_FOREVER,  /* a duration or "forever" (HF_FOREVER) */
    OPT_NUMBER,   /* value.number, within min .. max */
    OPT_LIST,     /* value.texts, value.count: may be given again and again */
};

struct option {
    const char *name; /* without "--" */
    char letter;      /* 0: none */
    enum option_type type;
    const char *arg;  /* what its value is called: "DURATION"; NULL for flags */
    const char *help; /* one sentence, without full stop */
    uint64_t min, max;
};

struct value {
    bool given;
    bool flag;
    const char *text;
    int64_t ms;
    uint64_t number;
    const char **texts;
    size_t count;
};

struct args; /* parsed options and operands of one call */

struct command {
    const char *name;     /* "run", "latch set" */
    const char *operands; /* "NAME... -- COMMAND [ARGUMENT...]" */
    const char *summary;  /* one line, for the list of commands */
    const char *group;    /* the man page it is in: "run", "hold", "look", ... */
    const char *about;    /* paragraphs for --help and the man page, plain text */
    const char *const *examples;  /* "command line", "what it does", ..., NULL */
    const struct option *options; /* ends with name NULL; common ones are added */
    int (*run)(struct args *args);
    int min_operands, max_operands; /* max -1: any number */
    bool takes_command;             /* operands end at "--", a command line follows */
};

/* All subcommands, in the order of the help; ends with NULL. One file each defines its
 * tables: `extern const struct command cmd_run;` ... in commands.h. */
extern const struct command *const cli_commands[];

/* ---- Arguments ------------------------------------------------------------------- */

/* The value of an option of this command; asking for one it does not have is a bug and
 * aborts. */
const struct value *args_get(const struct args *args, const char *name);
size_t args_count(const struct args *args);
const char *args_operand(const struct args *args, size_t index);
char **args_command(const struct args *args);  /* after "--"; NULL-terminated */
const char *args_url(const struct args *args); /* --url or NULL */

/* "500ms", "10s", "1m30s", "2h", "1d", "0", plain number = seconds. 0 or -1. */
int parse_duration(const char *text, int64_t *ret_ms);
/* "1m30s" for 90000; "4.2s", "350ms": short, for messages and tables. */
void format_duration(int64_t ms, char *buffer, size_t size);

/* ---- Client, messages ------------------------------------------------------------ */

/* Opens the store of --url / $HOLDFAST_URL / this host. On failure prints a message and
 * sets *ret_exit to the exit code. */
hf_client *cli_open(struct args *args, const hf_options *options, int *ret_exit);

/* Prints "holdfast: run: jobs/nightly: <sentence> (HF_EBUSY)"; returns the exit code
 * that belongs to the error. `what` may be NULL. */
int cli_fail(struct args *args, const char *what, const hf_error *why);
/* The same line, with its newline, into a buffer. */
void cli_error_line(struct args *args, const char *what, const hf_error *why,
                    char *buffer, size_t size);
/* cli_fail() for a lock that another client holds: names the holder, if the store
 * answers within LOOK_MS. Returns `code`. After it only the client may be closed
 * (holder.c). */
int cli_fail_held(struct args *args, hf_client *client, const char *what,
                  const hf_want *wants, size_t count, const hf_error *why, int code);
/* A usage error, with a pointer to --help; returns EXIT_USAGE. */
int cli_usage(struct args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "holdfast: ..." on stderr. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Only with -v. */
void cli_verbose(struct args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- Ending (exit_timer.c) ------------------------------------------------------- */

#define CLOSE_MS 150 /* for the store to confirm the last request */

/* After `ms`, ends the process with `code` from any call, and writes `line` to stderr
 * before (NULL: nothing). exit_timer_stop() cancels it. */
void exit_timer_start(int64_t ms, int code, const char *line);
void exit_timer_stop(void);
/* Dies of the signal with its default action. Safe in a handler. */
_Noreturn void die_by(int number);
/* hf_close() that waits CLOSE_MS at most; returns `code`. The last thing a command
 * does. */
int cli_close(hf_client *client, int code);

/* A URL with its password blanked out, for messages; writes at most size bytes. */
void url_without_secrets(const char *url, char *buffer, size_t size);

/* Is `id` the id, or the ids, of a hold of an enclosing `run`? */
bool run_has_id(const char *id);

/* ---- Output (table.c, json.c) ---------------------------------------------------- */

/* A table: bold heads and aligned columns on a terminal, tabs otherwise. Control
 * characters in cells are shown as \xNN: other users choose names and notes. */
struct table;
struct table *table_new(const char *const *heads); /* ends with NULL */
void table_cell(struct table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* row by row, left to right */
void table_print(struct table *table, FILE *out);
void table_free(struct table *table);
void text_blank(char *text); /* replaces what is unsafe on a terminal by '?' */
bool colours_on(FILE *out);  /* a terminal, no NO_COLOR, TERM not dumb */

/* A JSON writer that keeps the commas, the escapes and the closing brackets. */
struct json;
struct json *json_new(FILE *out);
void json_open(struct json *json, const char *key,
               char bracket); /* '{' or '['; key NULL in arrays */
void json_close(struct json *json);
void json_text(struct json *json, const char *key, const char *value);
void json_number(struct json *json, const char *key, int64_t value);
void json_token(struct json *json, const char *key, uint64_t value); /* as a number */
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
void json_end(struct json *json); /* closes what is open, newline, frees */

#endif
