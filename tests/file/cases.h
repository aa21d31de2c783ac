/* SPDX-License-Identifier: MIT */
/*
 * Failure tests of the file: store, through holdfast.h only. A case is a process with a
 * directory of its own; most run once for each layout. A case shows the code, the
 * message, and that nothing was made or damaged.
 */
#ifndef FILE_CASES_H
#define FILE_CASES_H

#include "../../include/holdfast.h"
#include "../harness/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum layout { QUEUE = 1, FLOCK = 2, BOTH = 3 };

struct file_case {
    const char *name;
    void (*run)(void);
    int layouts;
};

/* One array per source, ended by a NULL name. */
extern const struct file_case directory_cases[];
extern const struct file_case planted_cases[];
extern const struct file_case system_cases[];
extern const struct file_case process_cases[];
extern const struct file_case interop_cases[];
extern const struct file_case foreign_files_cases[];
extern const struct file_case shared_cases[];

/* Of the case that runs: its layout, and an empty directory (mode 0700). */
extern enum layout layout;
extern char scratch[64];

/* Ends the case as skipped; the reason is shown. */
_Noreturn void skip(const char *reason);

/* What the case needs root for; skips it otherwise. */
void need_root(void);

/* A private view of the mounts, with an empty tmpfs on `path` (options may be ""). */
void private_tmpfs(const char *path, const char *options);

/* `scratch`/name, in one of a few buffers, used in rotation. */
const char *in_scratch(const char *name);

/* file:`path`, with the layout and, if given, one more option ("mode=0600"). */
const char *url_of(const char *path, const char *option);

/* The file that the layout makes first, below its directory. */
const char *state_name(void);

/* A directory and everything below it as text, contents included. */
void snapshot(const char *path, char *text, size_t size);

/* Opening is refused with this code and a message that contains `part`, and the scratch
 * directory is unchanged. sys: the errno, or -1 for any. */
void check_refused(const char *url, int code, int sys, const char *part);

/* Opening, locking "x" and releasing it succeed. `opened` just opens. */
void check_works(const char *url);
hf_client *opened(const char *url);

/* Tries once to take `want`. */
int try_want(hf_client *client, hf_want want, hf_hold **ret_hold);

/* Another process that holds a lock: it prints a line when it has it, and keeps it
 * until its input ends or it is killed. */
struct other {
    pid_t pid;
    int in;
    int out;
};

/* The body runs in the child, its standard input and output connected to the case. */
void other_start(struct other *other, void (*body)(void *arg), void *arg);
void other_run(struct other *other, const char *const *argv);
void other_expect(struct other *other, const char *line);
/* For the body: prints the line; waits for the end of its input. */
void other_say(const char *line);
void other_wait(void);
/* Lets it end; returns the exit status. And: kills it with SIGKILL. */
int other_end(struct other *other);
void other_kill(struct other *other);

/* The exit status of a program with no input. */
int run_program(const char *const *argv);

#endif
