/* SPDX-License-Identifier: MIT */
/*
 * Runs the cases, one process each, and reports their results in TAP; at the end, a
 * table of what callers saw.
 *
 *   redis_faults [--protocol 2] [PART]     PART: cases whose name contains it
 *
 * A case process leads a process group of its own, which is killed when the case is
 * over. What it prints is shown if it fails; lines that begin with '@' are rows of the
 * table.
 */
#include "cases.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_SECONDS 300
#define TABLE_MAX 16384

static int total, failures;
static char table[TABLE_MAX];

static int entry_remove(const char *path, const struct stat *about, int type,
                        struct FTW *ftw)
{
    (void)about;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void case_child(const struct fault_case *one, int out)
{
    setpgid(0, 0);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    alarm(CASE_SECONDS);
    one->run();
    world_done();
    exit(0);
}

static void output_read(int fd, char *text, size_t size)
{
    size_t used = 0;
    ssize_t got;
    while (used < size - 1 && (got = read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
}

static void line_report(const char *line, size_t len, bool passed)
{
    size_t used = strlen(table);
    if (line[0] == '@')
        snprintf(table + used, sizeof table - used, "# %.*s\n", (int)len - 1, line + 1);
    else if (!passed)
        printf("# %.*s\n", (int)len, line);
}

static void case_report(const char *name, int status, const char *text, int64_t ms)
{
    bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    total++;
    failures += !passed;
    printf("%s %d - %s # %lld ms\n", passed ? "ok" : "not ok", total, name,
           (long long)ms);
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        line_report(line, len, passed);
        line += len + (line[len] == '\n');
    }
    if (!passed)
        printf("# status %#x\n", (unsigned)status);
    fflush(stdout);
}

static void case_run(const struct fault_case *one)
{
    char text[8192] = "";
    int fds[2], status;
    pid_t pid;
    int64_t since = real_ms();

    snprintf(world.directory, sizeof world.directory, "/tmp/holdfast-redis-XXXXXX");
    CHECK(mkdtemp(world.directory) != NULL && pipe2(fds, O_CLOEXEC) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        case_child(one, fds[1]);
    setpgid(pid, pid);
    close(fds[1]);
    output_read(fds[0], text, sizeof text);
    close(fds[0]);
    waitpid(pid, &status, 0);
    kill(-pid, SIGKILL);
    nftw(world.directory, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
    case_report(one->name, status, text, real_ms() - since);
}

int main(int argc, char **argv)
{
    const struct fault_case *const groups[] = {
        connection_cases, server_cases,  access_cases,  network_cases, name_cases,
        ending_cases,     inspect_cases, foreign_cases, noscript_cases
    };
    const char *pick = NULL;
    world.protocol = 3;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--protocol") == 0 && i + 1 < argc)
            world.protocol = strcmp(argv[++i], "2") == 0 ? 2 : 3;
        else
            pick = argv[i];
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        for (const struct fault_case *one = groups[i]; one->name; one++)
            if (!pick || strstr(one->name, pick))
                case_run(one);
    printf("1..%d\n", total);
    printf("# %-40s | %-44s | recovered in\n%s", "fault", "the caller saw", table);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
