/* SPDX-License-Identifier: MIT */
/*
 * Starts and stops a private redis-server: see redis_server.h.
 *
 * Called on a test's main thread. The server belongs to the test's process group and
 * has asked for a SIGKILL when its parent dies, so none is left behind however a test
 * ends. It takes about 10 ms until it answers; that is waited for by asking.
 */
#include "redis_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "redis_raw.h"

#define ARGS_MAX 48

static void args_add(char **args, const char *word)
{
    size_t count = 0;
    while (args[count])
        count++;
    CHECK(count + 1 < ARGS_MAX);
    args[count] = strdup(word);
    CHECK(args[count] != NULL);
}

static void args_fill(char **args, const struct redis_server *server,
                      const char *const *options)
{
    const char *const own[] = {
        "redis-server",
        "--port",
        "0",
        "--unixsocket",
        server->socket,
        "--dir",
        server->directory,
        "--save",
        "",
        "--appendonly",
        "no",
        "--loglevel",
        "warning",
        "--logfile",
        "redis.log",
        NULL,
    };
    for (const char *const *word = own; *word; word++)
        args_add(args, *word);
    for (const char *const *word = options; word && *word; word++)
        args_add(args, *word);
}

/* The module lies beside the program that runs. */
static void clock_follow(const struct redis_server *server)
{
    char path[512];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(len > 0);
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    CHECK(slash != NULL);
    snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "clock_preload.so");
    CHECK_EQ(access(path, R_OK), 0);
    CHECK_EQ(setenv("LD_PRELOAD", path, 1), 0);
    snprintf(path, sizeof path, "%s/clock", server->directory);
    CHECK_EQ(setenv("HOLDFAST_TEST_CLOCK", path, 1), 0);
}

static void child_exec(const struct redis_server *server, pid_t parent, bool clock,
                       char **args)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent || nothing < 0)
        _exit(126);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    unsetenv("LD_PRELOAD");
    if (clock)
        clock_follow(server);
    execvp(args[0], args);
    _exit(127);
}

static bool answers(const struct redis_server *server)
{
    int status = 0;
    if (waitpid(server->pid, &status, WNOHANG) != 0)
        check_failed(__FILE__, __LINE__,
                     "redis-server starts (it ended with %#x, see %s/redis.log)",
                     (unsigned)status, server->directory);
    struct raw *raw = raw_open_quietly(server->socket);
    if (!raw)
        return false;
    const char *text = raw_say(raw, "PING");
    bool ready = strncmp(text, "-LOADING", 8) != 0;
    raw_close(raw);
    return ready;
}

void redis_start(struct redis_server *server, const char *directory, bool clock,
                 const char *const *options)
{
    char *args[ARGS_MAX] = { NULL };
    pid_t parent = getpid();

    snprintf(server->directory, sizeof server->directory, "%s", directory);
    snprintf(server->socket, sizeof server->socket, "%s/redis.sock", server->directory);
    unlink(server->socket);
    args_fill(args, server, options);
    server->pid = fork();
    CHECK(server->pid >= 0);
    if (server->pid == 0)
        child_exec(server, parent, clock, args);
    for (char **word = args; *word; word++)
        free(*word);
    EVENTUALLY(answers(server));
}

static void server_reap(struct redis_server *server)
{
    int status = 0;
    pid_t reaped;
    do
        reaped = waitpid(server->pid, &status, 0);
    while (reaped < 0 && errno == EINTR);
    CHECK_EQ(reaped, server->pid);
    server->pid = 0;
}

void redis_kill(struct redis_server *server)
{
    CHECK(server->pid > 0 && kill(server->pid, SIGKILL) == 0);
    server_reap(server);
}

void redis_shut_down(struct redis_server *server)
{
    CHECK(server->pid > 0 && kill(server->pid, SIGTERM) == 0);
    server_reap(server);
}
