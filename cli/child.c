/* SPDX-License-Identifier: MIT */
/*
 * The edge between holdfast and its command: signals, the terminal, and the last steps
 * before exec.
 *
 * The command has a process group of its own. If we are in the foreground of a terminal
 * the terminal is handed to that group, so that Ctrl-C and Ctrl-Z reach it and not us.
 * When the command stops we take the terminal back and stop as well: that is what the
 * shell waits for. In a pipeline our neighbours are in our group and may want the
 * terminal (`holdfast run ... | less`); then it is handed over only when the command
 * stops because it asked for it.
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
    sigaddset(&set, SIGTTOU); /* or we could not take the terminal back */
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

bool terminal_ours(const struct terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

void terminal_give(const struct terminal *terminal, pid_t group)
{
    if (terminal_ours(terminal))
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

/* Returns when somebody continues us; at once if nobody could (an orphaned group). */
static void stop_self(const struct terminal *terminal, int signal)
{
    /* The rest of our group is where the terminal would have sent it without us. In a
     * pipeline it did, and SIGSTOP came from elsewhere. */
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

    if (wants_terminal && terminal_ours(terminal)) {
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

/* Between vfork and exec: our memory is the caller's, who sleeps. */
static void child_exec(const struct child_plan *plan, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_INTERNAL); /* died before the line above */
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
    /* Half the cost of fork(), and every run pays it. What child_exec() calls is
     * async-signal-safe and writes nothing but *ret_errno, which is to be shared. */
    pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */

    if (pid == 0)
        child_exec(plan, parent); /* NOLINT(clang-analyzer-unix.Vfork) */
    if (pid > 0)
        setpgid(pid, pid); /* if vfork() is fork(), it may not have come to that yet */
    return pid;
}
