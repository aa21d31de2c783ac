/* SPDX-License-Identifier: MIT */
/*
 * A scenario's side of the taker program: start it, talk to it, stop it, kill it.
 *
 * Called on the scenario's main thread only (a taker dies with the thread that started
 * it). One line is one message; a scenario that waits longer than its patience for an
 * answer fails. Takers that a scenario leaves behind are killed at its end.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

extern char **environ;

/* The taker lies beside the program that runs. */
static void taker_path(char *path, size_t size)
{
    ssize_t len = readlink("/proc/self/exe", path, size - 1);
    CHECK(len > 0);
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    CHECK(slash != NULL);
    snprintf(slash + 1, size - (size_t)(slash + 1 - path), "taker");
}

static void taker_spawn(struct taker *taker, const char *url, const char *option,
                        const int in[2], const int out[2])
{
    char path[512];
    char program[] = "taker";
    char *arguments[] = { program, strdup(url), option ? strdup(option) : NULL, NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;

    taker_path(path, sizeof path);
    CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
    CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO), 0);
    CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO), 0);
    CHECK_EQ(posix_spawn(&pid, path, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    free(arguments[1]);
    free(arguments[2]);
    taker->pid = pid;
}

static struct taker *taker_slot(struct env *e)
{
    for (size_t i = 0; i < TAKERS_MAX; i++)
        if (!e->takers[i].pid)
            return &e->takers[i];
    check_failed(__FILE__, __LINE__, "there is room for another taker");
}

struct taker *taker_start(struct env *e, const char *option)
{
    int in[2];
    int out[2];
    struct taker *taker = taker_slot(e);
    CHECK_EQ(pipe2(in, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(out, O_CLOEXEC), 0);
    taker_spawn(taker, e->url, option, in, out);
    close(in[0]);
    close(out[1]);
    taker->in = in[1];
    taker->out = out[0];
    taker_expect(taker, "ready");
    return taker;
}

void taker_say(struct taker *taker, const char *format, ...)
{
    char line[HF_ID_MAX + 128];
    va_list list;
    va_start(list, format);
    int len = vsnprintf(line, sizeof line - 1, format, list);
    va_end(list);
    CHECK(len > 0 && (size_t)len < sizeof line - 1);
    line[len++] = '\n';
    CHECK_EQ(write(taker->in, line, (size_t)len), len);
}

/* One line without its end, read byte by byte: takers say little. */
static const char *taker_line(struct taker *taker)
{
    struct pollfd ready = { .fd = taker->out, .events = POLLIN };
    int64_t end = real_ms() + PATIENCE_MS;

    for (taker->filled = 0; taker->filled + 1 < sizeof taker->line; taker->filled++) {
        int64_t left = end - real_ms();
        if (poll(&ready, 1, left > 0 ? (int)left : 0) != 1)
            check_failed(__FILE__, __LINE__, "taker %lld says nothing",
                         (long long)taker->pid);
        char *at = &taker->line[taker->filled];
        if (read(taker->out, at, 1) != 1)
            check_failed(__FILE__, __LINE__, "taker %lld has gone",
                         (long long)taker->pid);
        if (*at == '\n') {
            *at = '\0';
            return taker->line;
        }
    }
    check_failed(__FILE__, __LINE__, "taker %lld does not stop talking",
                 (long long)taker->pid);
}

bool taker_has_said(const struct taker *taker)
{
    struct pollfd out = { taker->out, POLLIN, 0 };
    return poll(&out, 1, 0) > 0;
}

const char *taker_expect(struct taker *taker, const char *word)
{
    const char *line = taker_line(taker);
    size_t len = strlen(word);
    if (strncmp(line, word, len) != 0 || (line[len] && line[len] != ' '))
        check_failed(__FILE__, __LINE__, "taker says '%s', not '%s'", line, word);
    return line[len] ? line + len + 1 : line + len;
}

static void taker_ask(struct env *e, struct taker *taker, const char *verb,
                      const char *name, int64_t timeout_ms, int64_t ttl_ms,
                      uint32_t flags)
{
    ballast_ensure(e, name);
    taker_say(taker, "%s %s %s %lld %lld %u", verb, e->form->name, name,
              (long long)timeout_ms, (long long)(ttl_ms ? ttl_ms : e->form->ttl_ms),
              flags);
}

uint64_t taker_take(struct env *e, struct taker *taker, const char *name,
                    int64_t timeout_ms, int64_t ttl_ms, uint32_t flags)
{
    taker_ask(e, taker, "take", name, timeout_ms, ttl_ms, flags);
    return strtoull(taker_expect(taker, "held"), NULL, 10);
}

void taker_begin(struct env *e, struct taker *taker, const char *name,
                 int64_t timeout_ms, int64_t ttl_ms, uint32_t flags)
{
    taker_ask(e, taker, "begin", name, timeout_ms, ttl_ms, flags);
    taker_expect(taker, "begun");
}

void taker_stop(struct taker *taker)
{
    int status = 0;
    CHECK_EQ(kill((pid_t)taker->pid, SIGSTOP), 0);
    CHECK_EQ(waitpid((pid_t)taker->pid, &status, WUNTRACED), taker->pid);
    CHECK(WIFSTOPPED(status));
}

void taker_continue(struct taker *taker)
{
    CHECK_EQ(kill((pid_t)taker->pid, SIGCONT), 0);
}

void taker_gone(struct taker *taker)
{
    int status = 0;
    pid_t reaped;
    do
        reaped = waitpid((pid_t)taker->pid, &status, 0);
    while (reaped < 0 && errno == EINTR);
    CHECK_EQ(reaped, taker->pid);
    close(taker->in);
    close(taker->out);
    taker->pid = 0;
}

/* What it had begun may still be answered before it says that it has closed. */
void taker_close(struct taker *taker)
{
    taker_say(taker, "close");
    while (strcmp(taker_line(taker), "closed") != 0)
        ;
    taker_kill(taker);
}

void taker_kill(struct taker *taker)
{
    CHECK_EQ(kill((pid_t)taker->pid, SIGKILL), 0);
    taker_gone(taker);
}
