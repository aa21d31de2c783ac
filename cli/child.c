/* SPDX-License-Identifier: MIT */
/*
 * What `run` and its command share with the system: signals, the terminal, job control,
 * and the steps before exec.
 *
 * The command has a process group of its own. If holdfast is in the foreground of a
 * terminal, it hands the terminal to that group, so that Ctrl-C and Ctrl-Z reach the
 * command and not holdfast. When the command stops, holdfast takes the terminal back
 * and stops as well, which is what the shell waits for. In a pipeline (`holdfast run
 * ... | less`) other processes of holdfast's group may need the terminal; then it is
 * handed over only when the command stops because it needs the terminal.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- Signals --------------------------------------------------------------------- */

static void set_add(sigset_t *set, const int *list)
{
    for (; *list; list++) {
        struct sigaction now;

        if (sigaction(*list, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(set, *list);
    }
}

static int signals_redirect(struct signals *signals, const sigset_t *set)
{
    if (sigprocmask(SIG_BLOCK, set, NULL) != 0)
        return -1;
    signals->fd = signalfd(signals->fd, set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd < 0 ? -1 : 0;
}

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0 };
static const int others[] = { SIGWINCH, SIGCONT, SIGTSTP, 0 };

int signals_begin(struct signals *signals)
{
    struct sigaction plain = { .sa_handler = SIG_DFL };
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigset_t set;

    signals->fd = -1;
    sigprocmask(SIG_BLOCK, NULL, &signals->mask);
    sigaction(SIGCHLD, &plain, &signals->child);
    sigaction(SIGPIPE, &ignore, &signals->pipe);
    sigemptyset(&set);
    set_add(&set, ending);
    return signals_redirect(signals, &set);
}

int signals_all(struct signals *signals)
{
    sigset_t set;

    sigemptyset(&set);
    set_add(&set, ending);
    set_add(&set, others);
    if (signals_redirect(signals, &set) != 0)
        return -1;
    sigemptyset(&set);
    sigaddset(&set, SIGTTOU); /* or holdfast could not take the terminal back */
    sigaddset(&set, SIGTTIN);
    return sigprocmask(SIG_BLOCK, &set, NULL);
}

int signals_next(struct signals *signals)
{
    struct signalfd_siginfo info;

    return read(signals->fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo
                                                                : 0;
}

/* ---- The terminal ---------------------------------------------------------------- */

static bool is_pipe(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 &&
           (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

void terminal_find(struct terminal *terminal)
{
    terminal->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    terminal->on_demand =
        terminal->fd >= 0 && (is_pipe(STDIN_FILENO) || is_pipe(STDOUT_FILENO));
}

bool terminal_in_foreground(const struct terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

void terminal_give(const struct terminal *terminal, pid_t group)
{
    if (terminal_in_foreground(terminal))
        tcsetpgrp(terminal->fd, group);
}

void terminal_take(const struct terminal *terminal, pid_t group)
{
    if (terminal->fd >= 0 && tcgetpgrp(terminal->fd) == group)
        tcsetpgrp(terminal->fd, getpgrp());
}

void terminal_done(struct terminal *terminal)
{
    if (terminal->fd >= 0)
        close(terminal->fd);
    terminal->fd = -1;
}

/* ---- Job control ----------------------------------------------------------------- */

/* Returns when SIGCONT arrives; at once in an orphaned group, which does not stop. */
static void stop_self(const struct terminal *terminal, int signal)
{
    /* Without holdfast the terminal would have stopped the whole group. In a pipeline
     * it has done so, and SIGSTOP does not come from the terminal. */
    bool all = !terminal->on_demand && signal != SIGSTOP;
    struct timespec none = { 0, 0 };
    sigset_t set, before;

    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_UNBLOCK, &set, &before);
    kill(all ? 0 : getpid(), signal);
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGCONT);
    sigtimedwait(&set, NULL, &none);
}

void job_continued(const struct terminal *terminal, pid_t group)
{
    if (!terminal->on_demand)
        terminal_give(terminal, group);
    kill(-group, SIGCONT);
}

void job_stopped(const struct terminal *terminal, pid_t group, int signal)
{
    bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;
    bool had_it = terminal->fd >= 0 && tcgetpgrp(terminal->fd) == group;

    if (wants_terminal && terminal_in_foreground(terminal)) {
        terminal_give(terminal, group);
        kill(-group, SIGCONT);
        return;
    }
    terminal_take(terminal, group);
    stop_self(terminal, signal);
    if (had_it)
        terminal_give(terminal, group);
    job_continued(terminal, group);
}

/* ---- The command ----------------------------------------------------------------- */

/* Between vfork and exec: runs in the memory of the caller, which is suspended. */
static void child_exec(const struct child_plan *plan, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_INTERNAL); /* the parent died before PR_SET_PDEATHSIG was set */
    if (plan->terminal >= 0)
        tcsetpgrp(plan->terminal, getpid());
    sigaction(SIGCHLD, &plan->signals->child, NULL);
    sigaction(SIGPIPE, &plan->signals->pipe, NULL);
    sigprocmask(SIG_SETMASK, &plan->signals->mask, NULL);
    execvp(plan->argv[0], plan->argv);
    atomic_store(plan->ret_errno, errno);
    _exit(EXIT_NOT_FOUND);
}

pid_t child_start(const struct child_plan *plan)
{
    pid_t parent = getpid();
    /* Half the cost of fork(). What child_exec() calls is async-signal-safe and writes
     * nothing but *ret_errno, which is shared on purpose. */
    pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */

    if (pid == 0)
        child_exec(plan, parent); /* NOLINT(clang-analyzer-unix.Vfork) */
    if (pid > 0)
        setpgid(pid, pid); /* if vfork() is fork(), the child may still be before it */
    return pid;
}
