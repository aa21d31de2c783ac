/* SPDX-License-Identifier: MIT */
/*
 * While the command runs: one thread in one poll() over the warden, the signals and the
 * client. Each step writes to the shared page how long the hold is valid.
 *
 * The end of a lease is divided: the last `margin` is for SIGKILL to take effect;
 * before it comes `grace`, from SIGTERM to SIGKILL. Both fit into the last third of the
 * lease, so they begin after a second renewal was due.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS INT64_C(1000000)

extern char **environ;

struct supervisor {
    struct run *run;
    struct signals *signals;
    struct terminal terminal;
    struct warden warden;
    pid_t group; /* process group of the command; 0: not started */
    pid_t hook;  /* --on-lost=exec */
    int64_t margin_ms, grace_ms;
    int64_t end_at; /* of --max-hold or --no-renew, or NEVER */
    bool end_fixed; /* it is that of --no-renew */
    bool lost;      /* reported by the library, or the warden acted */
    char why[248];  /* the reason from the library, or "" */
    bool handled;   /* the action of --on-lost was taken */
    bool asked;     /* another client asks for the lock, and --on-revoke=term */
    bool ended;
    bool terminal_used; /* the command had it */
    int code;           /* exit code, once ended */
    int status;         /* of the command */
};

/* ---- Lease ----------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void lease_divide(struct supervisor *on)
{
    int64_t lease = hf_hold_left_ms(on->run->hold);

    if (lease == HF_FOREVER)
        return;
    on->margin_ms = least(lease / 10, 1000);
    if (on->margin_ms < 50)
        on->margin_ms = least(50, lease / 4);
    on->grace_ms = least(on->run->grace_ms, lease / 3 - on->margin_ms);
    if (on->grace_ms < 0)
        on->grace_ms = 0;
}

/* The end that renewal cannot move. It counts from now, while the library counts from
 * the grant, so it is a little late: end_reached() allows for that. */
static void lease_end(struct supervisor *on)
{
    const hf_acquire_options *asked = &on->run->acquire;
    int64_t left = hf_hold_left_ms(on->run->hold), now = now_ns();

    on->end_at = NEVER;
    if ((asked->flags & HF_FIXED) && left != HF_FOREVER) {
        on->end_at = now + left * MS;
        on->end_fixed = true;
    }
    if (asked->max_hold_ms > 0 && now + asked->max_hold_ms * MS <= on->end_at) {
        on->end_at = now + asked->max_hold_ms * MS;
        on->end_fixed = false;
    }
}

static bool end_reached(const struct supervisor *on, int64_t at)
{
    return on->end_at != NEVER &&
           at >= on->end_at - (2 * on->margin_ms + on->grace_ms) * MS;
}

/* Reads the clock before the lease: if this process is stopped in between, the deadline
 * is too early, not too late. */
static void deadline_publish(struct supervisor *on)
{
    struct warden_page *page = on->warden.page;
    int64_t now = now_ns(), left = hf_hold_left_ms(on->run->hold);
    int64_t kill_at = NEVER, term_at = NEVER;

    if (on->run->on_lost != LOST_KILL || on->handled)
        return;
    if (left != HF_FOREVER) {
        kill_at = now + (left - on->margin_ms) * MS;
        term_at = kill_at - on->grace_ms * MS;
    }
    atomic_store(&page->kill_at, kill_at);
    atomic_store(&page->term_at, term_at);
}

/* Milliseconds for poll() until this process must do the work of a stopped warden. */
static int lease_timeout(struct supervisor *on)
{
    int64_t kill_at = atomic_load(&on->warden.page->kill_at), left;

    if (kill_at == NEVER)
        return -1;
    left = (kill_at - now_ns()) / MS + on->margin_ms / 2 + 1;
    return left < 0 ? 0 : (int)least(left, 1000000);
}

/* ---- Loss ------------------------------------------------------------------------ */

static void loss_command_start(struct supervisor *on)
{
    char shell[] = "sh", flag[] = "-c", *command = strdup(on->run->on_lost_command);
    char *argv[] = { shell, flag, command, NULL };
    posix_spawnattr_t attr;

    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &on->signals->mask);
    if (!command ||
        posix_spawn(&on->hook, "/bin/sh", NULL, &attr, argv, environ) != 0) {
        cli_say("run: %s: cannot start the command of --on-lost", on->run->names);
        on->hook = 0;
    }
    posix_spawnattr_destroy(&attr);
    free(command);
}

/* Called once, as soon as the loss is certain. `at` is when the hold ended, or will
 * end; `what` and `why` are for an end that was not planned, `why` may be "". */
static void loss_handle(struct supervisor *on, int64_t at, const char *what,
                        const char *why)
{
    char end[64];

    if (end_reached(on, at)) {
        snprintf(end, sizeof end, "%s %s%s", on->end_fixed ? "the lease" : "--max-hold",
                 at > now_ns() ? "is about to end" : "has ended",
                 on->end_fixed ? " (--no-renew)" : "");
        what = end;
        why = "";
    }
    on->handled = true;
    on->code = EXIT_LOST;
    cli_say("run: %s: %s%s%s, the command %s", on->run->names, what, *why ? ": " : "",
            why,
            on->run->on_lost == LOST_KILL ? "is killed" : "continues without the lock");
    if (on->run->on_lost == LOST_EXEC)
        loss_command_start(on);
}

/* The warden has acted on the deadline of the page. */
static void loss_reported(struct supervisor *on)
{
    on->lost = true;
    if (!on->handled)
        loss_handle(on, atomic_load(&on->warden.page->kill_at) + on->margin_ms * MS,
                    "the lease could not be renewed in time", "");
}

/* The store reports the loss: another client may hold the lock already, so no grace. */
static void loss_by_store(struct supervisor *on)
{
    struct warden_page *page = on->warden.page;

    loss_handle(on, now_ns(), "the lock was lost", on->why);
    if (on->run->on_lost != LOST_KILL)
        return;
    atomic_store(&page->kill_at, now_ns());
    atomic_store(&page->term_at, now_ns());
    warden_wake(&on->warden);
}

/* The request may come before the command is started. */
static void revoked(struct supervisor *on)
{
    if (!on->asked || !on->group)
        return;
    on->asked = false;
    kill(-on->group, SIGTERM);
}

static void on_event(void *user, hf_hold *hold, enum hf_event event,
                     const hf_error *why)
{
    struct supervisor *on = user;

    (void)hold;
    if (event == HF_EVENT_LOST) {
        on->lost = true;
        if (strcmp(why->text, hf_error_sentence(HF_ELOST)) != 0) /* a detail */
            snprintf(on->why, sizeof on->why, "%s", why->text);
    }
    if (event == HF_EVENT_DOUBTFUL)
        cli_verbose(on->run->args, "%s: a renewal of the lease is overdue",
                    on->run->names);
    if (event != HF_EVENT_REVOKED)
        return;
    cli_verbose(on->run->args, "%s: another client asks for the lock", on->run->names);
    on->asked = on->run->revoke_ends;
    revoked(on);
}

/* ---- Reports of the warden ------------------------------------------------------- */

int exec_failed(const struct run *run, int error)
{
    cli_say("run: %s: %s", run->command[0], strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static int start_failed(int error)
{
    cli_say("run: the command was not started: %s", strerror(error));
    return EXIT_INTERNAL;
}

static void command_exited(struct supervisor *on, int status)
{
    on->ended = true;
    on->status = status;
    if (on->handled)
        return; /* the lock was lost while the command ran */
    on->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void command_gone(struct supervisor *on, bool not_all)
{
    on->ended = true;
    loss_reported(on);
    if (not_all)
        cli_say("run: %s: some processes of the command could not be killed",
                on->run->names);
}

/* The deadline has passed and the warden has not acted: it is stopped, or gets no
 * processor. So this process kills the tree. */
static void warden_overdue(struct supervisor *on)
{
    int status;

    command_gone(on, !tree_kill(on->group, &status));
}

/* The warden is dead, so the kernel has killed the command; the rest of the tree are
 * now descendants of this process. */
static void warden_died(struct supervisor *on)
{
    int status;

    if (now_ns() >= atomic_load(&on->warden.page->term_at)) {
        warden_overdue(on);
        return;
    }
    if (!on->handled)
        cli_say("run: %s: the warden process has died, the command is killed",
                on->run->names);
    on->ended = true;
    if (!on->handled)
        on->code = EXIT_INTERNAL;
    tree_kill(on->group, &status);
}

static void report_handle(struct supervisor *on, const struct report *report)
{
    switch (report->kind) {
    case REPORT_STARTED:
        on->group = report->value;
        revoked(on);
        break;
    case REPORT_FAILED:
        on->ended = true;
        on->code = exec_failed(on->run, report->value);
        break;
    case REPORT_SETUP_FAILED:
        on->ended = true;
        on->code = start_failed(report->value);
        break;
    case REPORT_STOPPED:
        job_stopped(&on->terminal, on->group, report->value);
        break;
    case REPORT_EXITED:
        command_exited(on, report->value);
        break;
    case REPORT_ENDING:
        loss_reported(on);
        break;
    case REPORT_GONE:
        command_gone(on, report->value != 0);
        break;
    }
}

static void reports_read(struct supervisor *on)
{
    struct report report;
    int got = 1;

    while (!on->ended && (got = warden_read(&on->warden, &report)) > 0)
        report_handle(on, &report);
    if (!on->ended && got < 0)
        warden_died(on);
}

/* ---- The loop -------------------------------------------------------------------- */

static void signals_pass(struct supervisor *on)
{
    int signal;

    while ((signal = signals_next(on->signals)) != 0) {
        if (signal == SIGCONT)
            job_continued(&on->terminal, on->group);
        else
            kill(-on->group, signal);
    }
}

static void supervise_step(struct supervisor *on)
{
    hf_error why;
    struct pollfd fds[] = {
        { on->warden.fd, POLLIN, 0 },
        { on->group ? on->signals->fd : -1, POLLIN, 0 },
        { hf_dispatch_fd(on->run->client, &why), POLLIN, 0 },
    };

    deadline_publish(on);
    if (poll(fds, 3, lease_timeout(on)) < 0)
        return;
    if (fds[0].revents)
        reports_read(on);
    if (on->ended)
        return;
    if (fds[1].revents)
        signals_pass(on);
    if (fds[2].revents)
        hf_dispatch(on->run->client, &why);
    if (on->lost && !on->handled)
        loss_by_store(on);
    if (lease_timeout(on) == 0)
        warden_overdue(on);
}

/* The descriptors that proctree.c needs if the warden cannot act. */
static int descriptors_check(void)
{
    int first = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int second = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (first >= 0)
        close(first);
    if (second >= 0)
        close(second);
    return second < 0 && (errno == EMFILE || errno == ENFILE) ? -1 : 0;
}

static int supervisor_begin(struct supervisor *on)
{
    struct warden_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct child_plan plan = { on->run->command, on->signals, -1, NULL };

    if (page == MAP_FAILED || signals_all(on->signals) != 0)
        return -1;
    atomic_store(&page->term_at, NEVER);
    atomic_store(&page->kill_at, NEVER);
    on->warden.page = page;
    plan.ret_errno = &page->exec_errno;
    terminal_find(&on->terminal);
    if (!on->terminal.on_demand && terminal_in_foreground(&on->terminal))
        plan.terminal = on->terminal.fd;
    lease_divide(on);
    lease_end(on);
    deadline_publish(on);
    if (descriptors_check() != 0)
        return -1;
    return warden_start(&on->warden, &plan);
}

int run_supervise(struct run *run, struct signals *signals, int *ret_signal)
{
    struct supervisor on = { .run = run, .signals = signals, .warden = { .fd = -1 } };
    bool was_foreground;

    hf_hold_watch(run->hold, on_event, &on, NULL);
    if (supervisor_begin(&on) != 0) {
        return start_failed(errno);
    }
    while (!on.ended)
        supervise_step(&on);
    was_foreground =
        on.terminal.fd >= 0 && on.group && tcgetpgrp(on.terminal.fd) == on.group;
    terminal_take(&on.terminal, on.group);
    terminal_done(&on.terminal);
    if (was_foreground && WIFSIGNALED(on.status) &&
        (WTERMSIG(on.status) == SIGINT || WTERMSIG(on.status) == SIGQUIT))
        *ret_signal = WTERMSIG(on.status);
    if (on.hook > 0)
        waitpid(on.hook, NULL, 0);
    hf_hold_watch(run->hold, NULL, NULL, NULL);
    run->warden = on.warden;
    return on.code;
}
