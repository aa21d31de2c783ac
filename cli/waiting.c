/* SPDX-License-Identifier: MIT */
/*
 * Where `holdfast run` waits for the store: the acquire and the release.
 *
 * While it waits for its turn a line tells whom for: on a terminal one line that is
 * written over every second, with -v elsewhere a line at growing intervals, otherwise
 * nothing. A signal takes us out of the queue first.
 */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define FIRST_MS 1000 /* a short wait is not worth a line */
#define LINE_MAX 512
#define RELEASE_MS 15000 /* at most, for the store to confirm it */

struct wait {
    struct run *run;
    struct signals *signals;
    bool done;
    int rc;
    hf_error why;
    hf_op *op;
    int signal; /* that ended the wait, or 0 */
    int64_t since_ns;
    int64_t next_ms; /* when the next line is due */
    int64_t step_ms;
    bool on_terminal;
    bool shown;
};

static int64_t waited_ms(const struct wait *wait)
{
    return (now_ns() - wait->since_ns) / 1000000;
}

/* ---- The line -------------------------------------------------------------------- */

/* Names and programs come from strangers: nothing of theirs may move the cursor. */
static void clean(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
    }
}

static bool is_us(const hf_entry *entry)
{
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    return entry->pid == getpid() && strcmp(entry->host, host) == 0;
}

static void add_holder(const hf_entry *entry, char *line, size_t size)
{
    size_t used = strlen(line);
    char who[160] = "", place[32] = "";

    if (entry->pid > 0)
        snprintf(place, sizeof place, " pid %" PRId64, entry->pid);
    if (entry->program[0])
        snprintf(who, sizeof who, " `%.120s`", entry->program);
    snprintf(line + used, size - used, ": held by %.64s%s%s", entry->host, place, who);
}

/* Whom we wait for on one name; false if nobody holds it but perhaps us. */
static bool add_name(struct wait *wait, const char *name, char *line, size_t size)
{
    const hf_entry *holder = NULL;
    hf_report *report = NULL;
    uint32_t ahead = 0;
    size_t used;

    if (hf_inspect(wait->run->client, name, false, &report, NULL) != 0)
        return false;
    for (size_t i = 0; i < hf_report_count(report); i++) {
        const hf_entry *entry = hf_report_entry(report, i);

        if (entry->role == HF_HOLDER && !holder && !is_us(entry))
            holder = entry;
        if (entry->role == HF_WAITER && is_us(entry))
            ahead = entry->place;
    }
    if (holder) {
        add_holder(holder, line, size);
        used = strlen(line);
        if (ahead > 0)
            snprintf(line + used, size - used, ", %" PRIu32 " ahead", ahead);
    }
    hf_report_free(report);
    return holder != NULL;
}

static void line_make(struct wait *wait, char *line, size_t size)
{
    struct run *run = wait->run;
    uint64_t can = hf_capabilities(run->client);

    snprintf(line, size, "waiting %" PRId64 " s", waited_ms(wait) / 1000);
    for (size_t i = 0; i < run->count && (can & HF_CAP_INSPECT); i++) {
        if (!run->wants[i].stripes && add_name(wait, run->wants[i].name, line, size))
            break;
    }
    clean(line);
}

/* Cut to the width, so that the next one can be written over it. */
static void line_fit(char *line)
{
    struct winsize window = { 0, 0, 0, 0 };
    size_t width = 80;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1)
        width = window.ws_col;
    if (strlen(line) < width)
        return;
    line[--width] = '\0';
    while (width > 0 && (line[width - 1] & 0xc0) == 0x80) /* not half a letter */
        line[--width] = '\0';
    if (width > 0 && ((unsigned char)line[width - 1] & 0x80))
        line[width - 1] = '\0';
}

static void line_show(struct wait *wait)
{
    char line[LINE_MAX];

    line_make(wait, line, sizeof line);
    if (wait->on_terminal) {
        line_fit(line);
        fprintf(stderr, "\r%s\033[K", line);
        fflush(stderr);
        wait->shown = true;
    } else {
        cli_verbose(wait->run->args, "%s: %s", wait->run->names, line);
        wait->step_ms = wait->step_ms < 60000 ? wait->step_ms * 2 : 60000;
    }
    wait->next_ms = waited_ms(wait) + wait->step_ms;
}

static void line_clear(struct wait *wait)
{
    if (wait->shown)
        fputs("\r\033[K", stderr);
    wait->shown = false;
}

/* ---- The acquire ----------------------------------------------------------------- */

static void on_acquired(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct wait *wait = user;

    wait->done = true;
    wait->rc = rc;
    wait->run->hold = hold;
    if (rc != 0)
        wait->why = *why;
}

static int wait_timeout(struct wait *wait)
{
    int64_t left = wait->next_ms - waited_ms(wait);

    if (wait->step_ms == 0 || wait->signal)
        return -1;
    return left < 0 ? 0 : (int)left;
}

static void wait_turn(struct wait *wait)
{
    hf_client *client = wait->run->client;
    struct pollfd fds[] = { { hf_dispatch_fd(client, NULL), POLLIN, 0 },
                            { wait->signals->fd, POLLIN, 0 } };
    int ready = poll(fds, 2, wait_timeout(wait));

    if (ready == 0)
        line_show(wait);
    if (ready > 0 && fds[1].revents && !wait->signal) {
        wait->signal = signals_next(wait->signals);
        if (wait->signal)
            hf_op_cancel(wait->op);
    }
    hf_dispatch(client, NULL);
}

/* One acquire, up to its end. */
static int wait_once(struct wait *wait)
{
    struct run *run = wait->run;
    int rc = hf_acquire_async(run->client, run->wants, run->count, &run->acquire,
                              on_acquired, wait, &wait->op, &wait->why);

    if (rc != 0)
        return rc;
    wait->done = false;
    hf_dispatch(run->client, NULL);
    while (!wait->done)
        wait_turn(wait);
    hf_op_free(wait->op);
    return wait->rc;
}

/* Granted while we were stopped, and over before we knew: nothing has run yet, so stand
 * in line again if there is time. */
static bool try_again(struct wait *wait, int64_t timeout)
{
    int64_t left = timeout - waited_ms(wait);

    if (wait->rc != HF_ELOST || wait->signal || timeout == 0)
        return false;
    if (timeout == HF_FOREVER)
        return true;
    wait->run->acquire.timeout_ms = left;
    return left > 0;
}

int run_acquire(struct run *run, struct signals *signals)
{
    struct wait wait = { .run = run, .signals = signals, .since_ns = now_ns() };
    int64_t timeout = run->acquire.timeout_ms;
    char took[32];
    int rc;

    if (timeout != 0) {
        wait.on_terminal = isatty(STDERR_FILENO) == 1;
        if (wait.on_terminal || args_get(run->args, "verbose")->flag)
            wait.step_ms = wait.next_ms = FIRST_MS;
    }
    do
        rc = wait_once(&wait);
    while (rc != 0 && try_again(&wait, timeout));
    line_clear(&wait);
    if (wait.signal) {
        hf_release(run->hold, NULL);
        run->hold = NULL;
        return 128 + wait.signal;
    }
    if (rc != 0)
        return run_refused(run, &wait.why);
    format_duration(waited_ms(&wait), took, sizeof took);
    cli_verbose(run->args, "%s: acquired after %s, token %" PRIu64, run->names, took,
                hf_hold_token(run->hold, 0));
    return 0;
}

/* ---- The release ----------------------------------------------------------------- */

struct release {
    bool done;
    int rc;
    hf_error why;
};

static void on_released(void *user, int rc, const hf_error *why)
{
    struct release *release = user;

    release->done = true;
    release->rc = rc;
    if (rc != 0)
        release->why = *why;
}

static bool ends_us(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP ||
           signal == SIGQUIT;
}

/* The store may not answer any more. With its lease the hold ends by itself, so there
 * is no point in waiting for longer; nor if we are told to end. */
static void release_within(struct run *run, struct signals *signals, int64_t left_ms,
                           struct release *release)
{
    struct pollfd fds[] = { { hf_dispatch_fd(run->client, NULL), POLLIN, 0 },
                            { signals->fd, POLLIN, 0 } };
    int64_t end = now_ns() + left_ms * 1000000, left;

    release->rc = hf_release_async(run->hold, on_released, release, &release->why);
    release->done = release->rc != 0;
    hf_dispatch(run->client, NULL);
    while (!release->done && (left = end - now_ns()) > 0) {
        poll(fds, 2, (int)(left / 1000000) + 1);
        if (fds[1].revents && ends_us(signals_next(signals)))
            break;
        hf_dispatch(run->client, NULL);
    }
    if (release->done)
        return;
    run->given_up = true;
    release->rc = release->why.code = HF_EUNCERTAIN;
    snprintf(release->why.text, sizeof release->why.text,
             "the store did not confirm the release; the lease ends by itself");
}

int run_release(struct run *run, struct signals *signals, int code)
{
    struct release release = { .rc = 0 };
    int64_t left = hf_hold_left_ms(run->hold);

    if (left == HF_FOREVER)
        release.rc = hf_release(run->hold, &release.why);
    else
        release_within(run, signals, left < RELEASE_MS ? left : RELEASE_MS, &release);
    run->hold = NULL;
    if (release.rc == 0)
        cli_verbose(run->args, "%s: released", run->names);
    if (release.rc == 0 || code == EXIT_LOST)
        return code;
    if (release.rc == HF_ELOST) {
        cli_say("run: %s: the lock was lost before the command had ended", run->names);
        return EXIT_LOST;
    }
    cli_fail(run->args, run->names, &release.why);
    return code;
}
