/* SPDX-License-Identifier: MIT */
/*
 * Obeys the commands of control.h: a worker's main thread lives here while its other
 * threads take locks. Commands come through a pipe; a worker that is stopped finds them
 * when it goes on. End of input is no command: the worker goes on until it is stopped.
 *
 * The storm of signals is made here too, by this thread, at the threads that take
 * locks: the library's own thread has signals blocked and is left alone.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/file/guard.h"
#include "base/mem.h"
#include "control.h"
#include "shims/fault.h"

#define TICK_MS 50

struct control control;

static bool is_on(const char *word)
{
    return strcmp(word, "on") == 0;
}

/* ---- The commands ---------------------------------------------------------------- */

static void do_memory(char words[][16])
{
    if (strcmp(words[1], "next") == 0)
        hf__mem_fail(strtoull(words[2], NULL, 10), 0);
    else
        hf__mem_fail(is_on(words[1]) ? 1 : 0, 1);
}

static void do_shim(char words[][16])
{
    static const char *const ops[] = { "attempt", "withdraw", "renew", "ask", "event" };
    static const char *const whats[] = { "lose", "before", "after", "delay" };
    struct hf_fault fault = { .op = HF_FAULT_OPS, .first = 1 };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(words[1], ops[i]) == 0)
            fault.op = (enum hf_fault_op)i;
    for (size_t i = 0; i < sizeof whats / sizeof *whats; i++)
        if (strcmp(words[2], whats[i]) == 0)
            fault.what = (enum hf_fault_what)(i + 1);
    fault.last = strtoull(words[3], NULL, 10);
    if (fault.last == 0)
        fault.last = HF_FAULT_ALWAYS;
    fault.delay_ms = strtoll(words[4], NULL, 10);
    hf__fault_plan(&fault, fault.op < HF_FAULT_OPS && fault.what ? 1 : 0);
}

/* The child inherits everything and must not keep any of it alive, nor use it. */
static void do_fork(char words[][16])
{
    long ms = strtol(words[1], NULL, 10);
    struct timespec life = { ms / 1000, ms % 1000 * 1000000 };
    pid_t pid = fork();
    if (pid != 0)
        return;
    bool refused = holdfast_is_refused();
    nanosleep(&life, NULL); /* pause: the child's life */
    _exit(refused ? 0 : 1);
}

static void children_reap(void)
{
    int status;
    while (waitpid(-1, &status, WNOHANG) > 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "worker: a forked child ended with %#x\n",
                    (unsigned)status);
            atomic_fetch_add(&control.broken, 1);
        }
}

static void do_failpoint(char words[][16])
{
    hf__file_fail_signal = strcmp(words[2], "stop") == 0 ? SIGSTOP : SIGKILL;
    hf__file_failpoint = (uint32_t)strtoul(words[1], NULL, 10);
}

static void obey(const char *line)
{
    char words[5][16] = { "" };
    sscanf(line, "%15s %15s %15s %15s %15s", words[0], words[1], words[2], words[3],
           words[4]);
    if (strcmp(words[0], "memory") == 0)
        do_memory(words);
    else if (strcmp(words[0], "signals") == 0)
        atomic_store(&control.signals, is_on(words[1]));
    else if (strcmp(words[0], "cancel") == 0)
        atomic_store(&control.cancel, is_on(words[1]));
    else if (strcmp(words[0], "reopen") == 0)
        atomic_fetch_add(&control.reopen, 1);
    else if (strcmp(words[0], "fork") == 0)
        do_fork(words);
    else if (strcmp(words[0], "shim") == 0)
        do_shim(words);
    else if (strcmp(words[0], "silent") == 0)
        hf__fault_pause(is_on(words[1]));
    else if (strcmp(words[0], "failpoint") == 0)
        do_failpoint(words);
    else
        fprintf(stderr, "worker: no such command: %s\n", words[0]);
}

/* ---- The loop -------------------------------------------------------------------- */

struct input {
    bool ended;
    size_t len;
    char text[1024];
};

static void input_obey(struct input *input)
{
    char *end;
    while ((end = memchr(input->text, '\n', input->len)) != NULL) {
        size_t len = (size_t)(end - input->text) + 1;
        *end = '\0';
        obey(input->text);
        input->len -= len;
        memmove(input->text, input->text + len, input->len);
    }
    if (input->len == sizeof input->text)
        input->len = 0; /* no command is that long */
}

static void input_wait(struct input *input, int patience_ms)
{
    struct pollfd polled = { .fd = input->ended ? -1 : STDIN_FILENO, .events = POLLIN };
    if (poll(&polled, 1, patience_ms) <= 0 || !polled.revents)
        return;
    ssize_t len =
        read(STDIN_FILENO, input->text + input->len, sizeof input->text - input->len);
    input->ended = len == 0 || (len < 0 && errno != EINTR && errno != EAGAIN);
    if (len > 0)
        input->len += (size_t)len;
    input_obey(input);
}

void control_run(const char *stop_path, const pthread_t *threads, size_t count)
{
    struct input input = { .len = 0 };
    while (!atomic_load(&control.stop)) {
        bool storm = atomic_load(&control.signals);
        input_wait(&input, storm ? 1 : TICK_MS);
        for (size_t i = 0; storm && i < count; i++)
            pthread_kill(threads[i], SIGUSR1);
        children_reap();
        if (access(stop_path, F_OK) == 0)
            atomic_store(&control.stop, true);
    }
    hf__mem_fail(0, 0);
    hf__fault_plan(NULL, 0);
    hf__fault_pause(false);
}
