/* SPDX-License-Identifier: MIT */
/*
 * The warden: a process whose only task is to kill the command before the lock is lost.
 *
 * holdfast forks it after the lock is held; it starts the command and reports the state
 * of the command over a socket. It is in a group of its own, so that a Ctrl-C or a stop
 * meant for holdfast does not reach it, but in the same session: otherwise the
 * command's group would be orphaned and Ctrl-Z could not stop it.
 *
 * The deadline is on a page shared with holdfast, which moves it with every renewal. So
 * only the warden has to run for the deadline to be kept. The end of the socket means
 * that holdfast is dead.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* The three descriptors of the warden replace stdin, stdout and stderr, which it must
 * not keep open: their readers wait for the end. */
enum { FD_SOCKET, FD_SIGNAL, FD_TIMER, FD_REST };

/* State of the warden; holdfast has no part in it. */
struct warden_state {
    struct warden_page *page;
    pid_t child;
    bool ending; /* TERM was sent */
    bool reaped; /* another group may have the number now */
    int status;
};

static void report(int kind, int value)
{
    struct report message = { kind, value };

    /* Never wait for holdfast: it may be stopped, and the deadline must be kept. */
    send(FD_SOCKET, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- Deadline -------------------------------------------------------------------- */

static void timer_set(int64_t at)
{
    struct itimerspec spec = { { 0, 0 }, { 0, 0 } };

    if (at != NEVER) {
        at = at > 0 ? at : 1;
        spec.it_value.tv_sec = at / 1000000000;
        spec.it_value.tv_nsec = at % 1000000000;
    }
    timerfd_settime(FD_TIMER, TFD_TIMER_ABSTIME, &spec, NULL);
}

static _Noreturn void kill_all(struct warden_state *state)
{
    bool gone = tree_kill(state->reaped ? 0 : state->child, &state->status);

    report(REPORT_GONE, gone ? 0 : 1);
    _exit(0);
}

static void deadline_check(struct warden_state *state)
{
    int64_t now = now_ns();
    int64_t term_at = atomic_load(&state->page->term_at);
    int64_t kill_at = atomic_load(&state->page->kill_at);

    if (now >= kill_at)
        kill_all(state);
    if (now >= term_at && !state->ending) {
        state->ending = true;
        report(REPORT_ENDING, 0);
        tree_terminate(state->child);
    }
    timer_set(state->ending ? kill_at : term_at);
}

/* ---- State of the command -------------------------------------------------------- */

/* After SIGTERM: reports only the end of the last descendant. */
static void children_end(struct warden_state *state)
{
    int status = -1;
    bool none = tree_reap(state->child, &status);

    state->reaped |= status != -1;
    if (none) {
        report(REPORT_GONE, 0);
        _exit(0);
    }
}

/* Only now is it certain whether exec worked: vfork() may be fork(). */
static void report_end(const struct warden_state *state, const siginfo_t *info)
{
    int error = atomic_load(&state->page->exec_errno);

    if (error)
        report(REPORT_FAILED, error);
    else
        report(REPORT_EXITED,
               info->si_code == CLD_EXITED ? info->si_status << 8 : info->si_status);
}

/* Reaps one dead process, but never the command: its number must stay reserved while
 * holdfast may send signals to it. */
static bool child_changed(struct warden_state *state)
{
    siginfo_t info;
    int status;

    info.si_pid = 0;
    if (waitid(P_PID, (id_t)state->child, &info,
               WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0) {
        if (info.si_code == CLD_STOPPED) {
            waitid(P_PID, (id_t)state->child, &info, WSTOPPED | WNOHANG);
            report(REPORT_STOPPED, info.si_status);
            return true;
        }
        report_end(state, &info);
        _exit(0);
    }
    info.si_pid = 0;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0 ||
        info.si_pid == state->child)
        return false;
    return waitpid(info.si_pid, &status, WNOHANG) > 0;
}

static void children_check(struct warden_state *state)
{
    if (state->ending) {
        children_end(state);
        return;
    }
    while (child_changed(state))
        ;
}

/* ---- The process ----------------------------------------------------------------- */

static void drain(int fd)
{
    char bytes[256];

    while (read(fd, bytes, sizeof bytes) > 0)
        ;
}

static bool holdfast_dead(void)
{
    char byte;
    ssize_t got = recv(FD_SOCKET, &byte, 1, MSG_DONTWAIT);

    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static _Noreturn void warden_loop(struct warden_state *state)
{
    struct pollfd fds[] = { { FD_SOCKET, POLLIN, 0 },
                            { FD_SIGNAL, POLLIN, 0 },
                            { FD_TIMER, POLLIN, 0 } };

    for (;;) {
        if (fds[1].revents)
            drain(FD_SIGNAL);
        if (fds[2].revents)
            drain(FD_TIMER);
        if (fds[0].revents && holdfast_dead())
            kill_all(state);
        children_check(state);
        deadline_check(state);
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            kill_all(state);
    }
}

static void close_rest(void)
{
    if (syscall(SYS_close_range, FD_REST, ~0u, 0) == 0)
        return;
    for (int fd = FD_REST; fd < 65536; fd++)
        close(fd);
}

/* A copy of `fd` above 0 to 2, which are replaced later (stdin may be closed). */
static int fd_above(int fd)
{
    return fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, FD_REST);
}

/* Opens the descriptors of the warden, before the command is started. */
static int descriptors_prepare(int socket, int fds[FD_REST])
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    fds[FD_SOCKET] = fd_above(socket);
    fds[FD_SIGNAL] = fd_above(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    fds[FD_TIMER] =
        fd_above(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    return fds[FD_SOCKET] < 0 || fds[FD_SIGNAL] < 0 || fds[FD_TIMER] < 0 ? -1 : 0;
}

/* Installs these descriptors and closes all others: the warden then shares no
 * descriptor and no lock with holdfast. */
static void descriptors_install(const int fds[FD_REST])
{
    for (int fd = 0; fd < FD_REST; fd++) {
        if (dup2(fds[fd], fd) < 0)
            _exit(EXIT_INTERNAL); /* the kernel kills the command, too */
    }
    close_rest();
}

/* Starts the command; returns the first report. */
static struct report command_start(const struct child_plan *plan,
                                   struct warden_page *page, int socket,
                                   int fds[FD_REST])
{
    struct report first = { REPORT_STARTED, 0 };

    if (descriptors_prepare(socket, fds) != 0)
        return (struct report){ REPORT_SETUP_FAILED, errno };
    if (now_ns() >= atomic_load(&page->term_at))
        return (struct report){ REPORT_GONE, 0 };
    first.value = child_start(plan);
    if (first.value < 0)
        first = (struct report){ REPORT_FAILED, errno };
    return first;
}

static _Noreturn void warden_main(const struct child_plan *plan,
                                  struct warden_page *page, int socket)
{
    struct warden_state state = { .page = page };
    struct report first;
    int fds[FD_REST];
    sigset_t set;

    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "holdfast-warden");
    first = command_start(plan, page, socket, fds);
    send(socket, &first, sizeof first, MSG_NOSIGNAL);
    if (first.kind != REPORT_STARTED)
        _exit(0);
    state.child = first.value;
    descriptors_install(fds);
    warden_loop(&state);
}

/* ---- In holdfast ----------------------------------------------------------------- */

int warden_start(struct warden *warden, const struct child_plan *plan)
{
    int pair[2];

    /* If the warden dies, its descendants become children of holdfast. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    warden->pid = fork();
    if (warden->pid == 0) {
        close(pair[0]);
        warden_main(plan, warden->page, pair[1]);
    }
    close(pair[1]);
    warden->fd = pair[0];
    return warden->pid < 0 ? -1 : 0;
}

int warden_read(struct warden *warden, struct report *ret_report)
{
    ssize_t got = recv(warden->fd, ret_report, sizeof *ret_report, MSG_DONTWAIT);

    if (got == (ssize_t)sizeof *ret_report)
        return 1;
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

void warden_wake(struct warden *warden)
{
    send(warden->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void warden_done(struct warden *warden)
{
    if (warden->fd >= 0)
        close(warden->fd);
    if (warden->pid > 0)
        waitpid(warden->pid, NULL, 0);
    while (waitpid(-1, NULL, WNOHANG) > 0) /* descendants that the warden left */
        ;
}
