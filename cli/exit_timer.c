/* SPDX-License-Identifier: MIT */
/*
 * A time limit for the end of the process, independent of the store.
 *
 * A timer's handler writes the last line and ends the process, even in the middle of a
 * call of the library. What the process leaves in the store expires: a hold or a ticket
 * in a queue ends with its lease or session, and on this host with the process.
 */
#include "cli.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t last_code;
static char last_line[2048];
static size_t last_length;

static void end_now(int number)
{
    (void)number;
    if (last_length > 0 && write(STDERR_FILENO, last_line, last_length) < 0)
        _exit(last_code); /* stderr is closed: exit without the line */
    _exit(last_code);
}

static void timer_set(int64_t ms)
{
    struct itimerval timer = { { 0, 0 }, { ms / 1000, ms % 1000 * 1000 } };

    setitimer(ITIMER_REAL, &timer, NULL);
}

void exit_timer_start(int64_t ms, int code, const char *line)
{
    struct sigaction action = { .sa_handler = end_now };
    sigset_t set;

    fflush(NULL); /* the handler must not flush */
    last_code = code;
    last_length = line ? strlen(line) : 0;
    if (last_length > sizeof last_line)
        last_length = sizeof last_line;
    if (line)
        memcpy(last_line, line, last_length);
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    timer_set(ms > 0 ? ms : 1);
}

void exit_timer_stop(void)
{
    timer_set(0);
}

void die_by(int number)
{
    sigset_t only;

    signal(number, SIG_DFL);
    raise(number);
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    _exit(128 + number);
}

int cli_close(hf_client *client, int code)
{
    exit_timer_start(CLOSE_MS, code, NULL);
    hf_close(client);
    exit_timer_stop();
    return code;
}
