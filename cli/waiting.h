/* SPDX-License-Identifier: MIT */
/*
 * Waiting for an operation of the library: what `run`, `acquire` and `latch wait`
 * share.
 *
 * The client is one with HF_DRIVER_USER. One thread polls the client, the signals and
 * the process that looks for the line on the terminal. A signal ends the wait and, soon
 * after, the process: the store has CLOSE_MS to confirm that the place was given up.
 */
#ifndef HOLDFAST_CLI_WAITING_H
#define HOLDFAST_CLI_WAITING_H

#include "cli.h"

#include <signal.h>
#include <sys/types.h>

/* Nanoseconds of CLOCK_BOOTTIME, which runs while the machine sleeps. */
int64_t now_ns(void);

/* ---- Signals (child.c) ----------------------------------------------------------- */

/* Signals come through a descriptor; the command gets back what we found. */
struct signals {
    int fd;
    sigset_t mask; /* as we found it, and the dispositions we changed */
    struct sigaction child, pipe;
};

/* Those that end a wait; then, for the time the command runs, all that are passed on.
 * Signals that were ignored when we were started stay so. 0 or -1 with errno. */
int signals_begin(struct signals *signals);
int signals_all(struct signals *signals);
/* The next signal, or 0. */
int signals_next(struct signals *signals);

/* ---- The line (status_line.c) ---------------------------------------------------- */

#define LINE_MAX 512

/* Whom a wait is for. Another process looks, over a connection of its own, so that no
 * look delays the wait, a signal or the grant. */
struct status_line {
    struct args *args;
    const char *what; /* the names, for messages */
    const struct signals *signals;
    const hf_want *wants;
    size_t count;
    int64_t since_ns;
    int64_t step_ms;  /* between two lines; 0: no lines */
    int64_t next_ms;  /* when the next look is due, or its answer */
    int64_t asked_ms; /* since when an answer is outstanding; -1: none is */
    bool on_terminal;
    bool shown;
    int fd; /* to the process that looks; -1: none */
    pid_t pid;
    char said[LINE_MAX]; /* what it said last */
};

/* Lines are written on a terminal, or with -v. */
void status_line_begin(struct status_line *line, struct args *args,
                       const struct signals *signals);
/* For poll(): a descriptor or -1; milliseconds or -1. */
int status_line_fd(const struct status_line *line);
int status_line_timeout(const struct status_line *line);
void status_line_step(struct status_line *line);
/* Takes the line off the screen and lets the other process go. */
void status_line_end(struct status_line *line);
#define LOOK_COMMAND "_look" /* what this program is called with to look: hidden */
/* The other process: `words` are the pid of the one that waits, and names. */
int looker_main(char **words, size_t count);

/* ---- The wait -------------------------------------------------------------------- */

struct wait {
    hf_client *client;
    struct signals *signals;
    struct status_line *line; /* NULL: none is shown */
    hf_op *op;
    hf_hold *hold;
    int signal; /* that ended the wait, or 0 */
    bool done;
    int rc;
    hf_error why;
};

/* Callbacks for hf_..._async(), with the wait as `user`. */
void wait_acquired(void *user, int rc, hf_hold *hold, const hf_error *why);
void wait_done(void *user, int rc, const hf_error *why);
/* Waits until one of them was called, and frees the op; its rc. */
int wait_finish(struct wait *wait);
/* After a signal: gives up what is held and closes the client; the exit code. */
int wait_signalled(struct wait *wait);

#endif
