/* SPDX-License-Identifier: MIT */
/*
 * Where the command waits for the store: for a grant (waiting.h), and for the release
 * of `run`. waiting.h says what a signal does.
 */
#include "run.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

#define RELEASE_MS 1000 /* longest wait for the confirmation */

/* ---- The wait -------------------------------------------------------------------- */

void wait_acquired(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct wait *wait = user;

    wait->hold = hold;
    wait_done(wait, rc, why);
}

void wait_done(void *user, int rc, const hf_error *why)
{
    struct wait *wait = user;

    wait->done = true;
    wait->rc = rc;
    if (rc != 0)
        wait->why = *why;
}

/* After a signal the process ends within CLOSE_MS, whatever the store does. */
static void signal_take(struct wait *wait)
{
    wait->signal = signals_next(wait->signals);
    if (!wait->signal)
        return;
    if (wait->line)
        status_line_end(wait->line);
    exit_timer_start(CLOSE_MS, 128 + wait->signal, NULL);
    hf_op_cancel(wait->op);
}

static void wait_step(struct wait *wait)
{
    struct status_line *line = wait->signal ? NULL : wait->line;
    struct pollfd fds[] = { { hf_dispatch_fd(wait->client, NULL), POLLIN, 0 },
                            { wait->signal ? -1 : wait->signals->fd, POLLIN, 0 },
                            { line ? status_line_fd(line) : -1, POLLIN, 0 } };
    int ready = poll(fds, 3, line ? status_line_timeout(line) : -1);

    if (ready > 0 && fds[1].revents)
        signal_take(wait);
    hf_dispatch(wait->client, NULL);
    if (line && !wait->done && !wait->signal)
        status_line_step(line);
}

int wait_finish(struct wait *wait)
{
    hf_dispatch(wait->client, NULL);
    while (!wait->done)
        wait_step(wait);
    hf_op_free(wait->op);
    wait->op = NULL;
    return wait->rc;
}

int wait_signalled(struct wait *wait)
{
    hf_release(wait->hold, NULL);
    hf_close(wait->client);
    return 128 + wait->signal;
}

/* ---- The acquire of run ---------------------------------------------------------- */

static int acquire_once(struct run *run, struct wait *wait)
{
    int rc = hf_acquire_async(run->client, run->wants, run->count, &run->acquire,
                              wait_acquired, wait, &wait->op, &wait->why);

    wait->done = false;
    return rc ? rc : wait_finish(wait);
}

static int64_t ms_since(int64_t since_ns)
{
    return (now_ns() - since_ns) / 1000000;
}

/* The lock was granted while this process was stopped, and was lost before it
 * continued. No command has run yet, so acquire again if time is left. */
static bool try_again(struct run *run, const struct wait *wait, int64_t timeout)
{
    int64_t left = timeout - ms_since(wait->line->since_ns);

    if (wait->rc != HF_ELOST || wait->signal || timeout == 0)
        return false;
    if (timeout == HF_FOREVER)
        return true;
    run->acquire.timeout_ms = left;
    return left > 0;
}

int run_acquire(struct run *run, struct signals *signals)
{
    struct status_line line = { .what = run->names,
                                .wants = run->wants,
                                .count = run->count };
    struct wait wait = { .client = run->client, .signals = signals, .line = &line };
    int64_t timeout = run->acquire.timeout_ms;
    char took[32];
    int rc;

    status_line_begin(&line, run->args, signals);
    if (timeout == 0)
        line.step_ms = 0;
    do
        rc = acquire_once(run, &wait);
    while (rc != 0 && try_again(run, &wait, timeout));
    status_line_end(&line);
    if (wait.signal) {
        rc = wait_signalled(&wait);
        run->client = NULL;
        return rc;
    }
    if (rc != 0)
        return run_not_acquired(run, &wait.why);
    run->hold = wait.hold;
    format_duration(ms_since(line.since_ns), took, sizeof took);
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

/* A store that does not answer is given up after left_ms, or on a signal: the hold ends
 * with its lease or session. */
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
             "the store did not confirm the release; the lock expires by itself");
}

int run_release(struct run *run, struct signals *signals, int code)
{
    struct release release = { .rc = 0 };
    int64_t left = hf_hold_left_ms(run->hold);

    release_within(run, signals,
                   left != HF_FOREVER && left < RELEASE_MS ? left : RELEASE_MS,
                   &release);
    run->hold = NULL;
    if (release.rc == 0)
        cli_verbose(run->args, "%s: released", run->names);
    if (release.rc == 0 || code == EXIT_LOST)
        return code;
    if (release.rc == HF_ELOST) {
        cli_say("run: %s: the lock was lost before the command ended", run->names);
        return EXIT_LOST;
    }
    cli_fail(run->args, run->names, &release.why);
    return code;
}
