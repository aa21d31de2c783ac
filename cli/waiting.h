/* SPDX-License-Identifier: MIT */
/*
 * Waiting for an operation of the library, as `run`, `acquire` and `latch wait` do.
 *
 * The client has HF_DRIVER_USER. One thread polls the client, the signals and the
 * looker of the status line. A signal ends the wait, and the process soon after: the
 * store has CLOSE_MS to confirm that the ticket was withdrawn.
 */
#ifndef HOLDFAST_CLI_WAITING_H
#define HOLDFAST_CLI_WAITING_H

#include "cli.h"

#include <signal.h>
#include <sys/types.h>

/* Nanoseconds of CLOCK_BOOTTIME, which runs while the machine sleeps. */
int64_t now_ns(void);

/* ---- Signals (child.c) ----------------------------------------------------------- */

/* Signals are read from a descriptor; the command gets the original mask and
 * dispositions. */
struct signals {
    int fd;
    sigset_t mask; /* the original mask and dispositions */
    struct sigaction child, pipe;
};

/* signals_begin() takes the signals that end a wait; signals_all(), while the command
 * runs, all that are passed on. Signals that were ignored at the start stay ignored. 0
 * or -1 with errno. */
int signals_begin(struct signals *signals);
int signals_all(struct signals *signals);
/* The next signal, or 0. */
int signals_next(struct signals *signals);

/* ---- The line (status_line.c) ---------------------------------------------------- */

#define LINE_MAX 512

/* The status line of a wait. Another process, the looker, asks the store over a
 * connection of its own, so that its requests delay neither the wait nor a signal nor
 * the grant. */
struct status_line {
    struct args *args;
    const char *what; /* the names, for messages */
    const struct signals *signals;
    const hf_want *wants;
    size_t count;
    int64_t since_ns;
    int64_t step_ms;  /* between two lines; 0: no lines */
    int64_t next_ms;  /* when the next request, or its answer, is due */
    int64_t asked_ms; /* when the outstanding request was made; -1: none is */
    bool on_terminal;
    bool shown;
    int fd; /* to the looker; -1: none */
    pid_t pid;
    char answer[LINE_MAX]; /* its last answer */
};

/* Lines are written on a terminal, or with -v. */
void status_line_begin(struct status_line *line, struct args *args,
                       const struct signals *signals);
/* For poll(): a descriptor or -1; milliseconds or -1. */
int status_line_fd(const struct status_line *line);
int status_line_timeout(const struct status_line *line);
void status_line_step(struct status_line *line);
/* Clears the line and lets the looker end. */
void status_line_end(struct status_line *line);
#define LOOK_COMMAND "_look" /* the hidden command of the looker */
/* The looker: `words` are the pid of the waiting process, and names. */
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
/* Waits until one of them was called, frees the op and returns its rc. */
int wait_finish(struct wait *wait);
/* After a signal: releases the hold and closes the client; returns the exit code. */
int wait_signalled(struct wait *wait);

#endif
