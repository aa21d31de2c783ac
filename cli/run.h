/* SPDX-License-Identifier: MIT */
/*
 * What the files of `holdfast run` share.
 *
 *   cmd_run.c      options, exit code
 *   nested.c       the environment, and enclosing runs (--reentrant)
 *   waiting.c      the acquire, the release
 *   status_line.c  the line that is shown while it waits
 *   supervise.c    the loop while the command runs: hold, signals, warden
 *   warden.c       the process between holdfast and the command, which kills it in time
 *   child.c        the steps before exec, the terminal, job control
 *   proctree.c     ending a tree of processes
 *
 * Three processes: holdfast has the hold. Its child, the warden, has no lock, no
 * terminal and no open file, only a deadline on a shared page. The warden's child is
 * the command. The warden is a subreaper and becomes the parent of orphaned
 * descendants, so that none of them escapes. If holdfast is stopped, the warden ends
 * the command before the lease ends; if holdfast dies, at once. If the warden dies, the
 * kernel kills the command, and holdfast kills the rest.
 */
#ifndef HOLDFAST_CLI_RUN_H
#define HOLDFAST_CLI_RUN_H

#include "waiting.h"

#include <stdatomic.h>
#include <sys/types.h>

#define RUN_NAMES_MAX 64

struct warden_page;

struct warden {
    pid_t pid;
    int fd;
    struct warden_page *page;
};

enum on_lost { LOST_KILL, LOST_WARN, LOST_EXEC };

struct run {
    struct args *args;
    hf_client *client;
    hf_hold *hold;
    hf_want wants[RUN_NAMES_MAX]; /* those still to acquire */
    size_t count;
    uint64_t outer_tokens
        [RUN_NAMES_MAX]; /* by operand: token of the hold of an enclosing run, or 0 */
    hf_acquire_options acquire;
    char **command;
    char *names; /* separated by blanks */
    enum on_lost on_lost;
    const char *on_lost_command;
    bool revoke_ends; /* --on-revoke=term */
    int64_t grace_ms;
    bool given_up; /* the store does not answer: end without closing the client */
    struct warden warden;
};

/* ---- The terminal (child.c) ------------------------------------------------------ */

struct terminal {
    int fd;         /* -1: none */
    bool on_demand; /* hand it over only when the command asks */
};

void terminal_find(struct terminal *terminal);
/* Is the group of this process in the foreground? */
bool terminal_in_foreground(const struct terminal *terminal);
void terminal_give(const struct terminal *terminal, pid_t group);
void terminal_take(const struct terminal *terminal, pid_t group);
void terminal_done(struct terminal *terminal);

/* The command was stopped by `signal`: stops this process, too, and continues the
 * command when this process is continued. */
void job_stopped(const struct terminal *terminal, pid_t group, int signal);
void job_continued(const struct terminal *terminal, pid_t group);

/* ---- The command (child.c) ------------------------------------------------------- */

struct child_plan {
    char **argv;
    const struct signals *signals;
    int terminal;          /* to take on start, or -1 */
    atomic_int *ret_errno; /* on a shared page: why exec failed */
};

/* Starts the command as a child of the caller, in a group of its own; it is killed
 * when the caller dies. Its pid, or -1; why exec failed is in *ret_errno once it has
 * ended. */
pid_t child_start(const struct child_plan *plan);

/* ---- The warden ------------------------------------------------------------------ */

#define NEVER INT64_MAX

/* What holdfast passes to the warden in memory: it may be stopped at any time. */
struct warden_page {
    _Atomic int64_t term_at; /* SIGTERM */
    _Atomic int64_t kill_at; /* SIGKILL */
    atomic_int exec_errno;
};

enum report_kind {
    REPORT_STARTED = 1,  /* value: pid */
    REPORT_FAILED,       /* value: errno of exec */
    REPORT_SETUP_FAILED, /* the warden could not be set up, no command started; errno */
    REPORT_STOPPED,      /* value: signal */
    REPORT_EXITED,       /* value: wait status */
    REPORT_ENDING,       /* the deadline is near, SIGTERM was sent */
    REPORT_GONE,         /* all processes ended; value: 1 if some are left */
};

struct report {
    int kind;
    int value;
};

/* The warden starts the command, unless the deadline on the page has passed by then. 0
 * or -1 with errno. */
int warden_start(struct warden *warden, const struct child_plan *plan);
/* The next report: 1, 0 if there is none yet, -1 if the warden is dead. */
int warden_read(struct warden *warden, struct report *ret_report);
/* Makes the warden read the page, which now has an earlier deadline. */
void warden_wake(struct warden *warden);
void warden_done(struct warden *warden);

/* ---- Ending a tree (proctree.c) -------------------------------------------------- */

/* Sends SIGTERM, and SIGCONT so that a stopped process can end, to the group and to all
 * descendants of this process. */
void tree_terminate(pid_t group);
/* Reaps dead children; true when no child is left. The status of `child` goes to
 * *ret_status if it was among them. */
bool tree_reap(pid_t child, int *ret_status);
/* Is `pid` an ancestor of this process? */
bool tree_is_ancestor(pid_t pid);
/* Kills all descendants of this process, which must be a subreaper, and waits for the
 * last of them. False if some could not be killed (of another user, or stuck). */
bool tree_kill(pid_t group, int *ret_status);

/* ---- Steps ----------------------------------------------------------------------- */

/* With --reentrant: removes from the wants the names that enclosing runs hold, and
 * keeps their tokens. 0, or an exit code after a message. */
int run_reuse_outer(struct run *run);
/* Sets the environment of the command. */
void run_export(struct run *run);

/* Acquires run->hold. If it stays NULL, returns the exit code, after a message (none
 * with -E 0). */
int run_acquire(struct run *run, struct signals *signals);
/* Prints why the command could not be started; returns the exit code. */
int exec_failed(const struct run *run, int error);
/* Prints why the lock was not acquired; returns the exit code. */
int run_not_acquired(struct run *run, const hf_error *why);
/* Releases run->hold; returns `code`, or EXIT_LOST if the lock was lost. */
int run_release(struct run *run, struct signals *signals, int code);
/* Runs the command under run->hold until it has ended; returns the exit code.
 * *ret_signal is set if a signal from the terminal ended it, of which holdfast then
 * dies as well. */
int run_supervise(struct run *run, struct signals *signals, int *ret_signal);

#endif
