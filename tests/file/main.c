/* SPDX-License-Identifier: MIT */
/*
 * Runs the cases, one process each, and reports the results in TAP. An argument picks
 * the cases whose name contains it. A case process leads a process group of its own,
 * which is killed when the case is over; its output is shown only if it fails or is
 * skipped.
 */
#include "cases.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77
#define CASE_SECONDS 300

enum layout layout;
char scratch[64];

static int total, failures;

void skip(const char *reason)
{
    dprintf(STDOUT_FILENO, "%s\n", reason);
    _exit(SKIPPED);
}

static void scratch_remove(const char *path)
{
    const char *const argv[] = { "rm", "-rf", path, NULL };
    run_program(argv);
}

static void case_child(const struct file_case *one, int out)
{
    setpgid(0, 0);
    dup2(out, STDOUT_FILENO);
    close(out);
    alarm(CASE_SECONDS);
    one->run();
    _exit(0);
}

static void output_read(int fd, char *text, size_t size)
{
    size_t used = 0;
    ssize_t got;

    while (used < size - 1 && (got = read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static void case_report(const char *name, int status, const char *text)
{
    bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
    bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    total++;
    failures += !skipped && !passed;
    printf("%s %d - %s%s%s\n", skipped || passed ? "ok" : "not ok", total, name,
           skipped ? " # SKIP " : "", skipped ? text : "");
    if (!skipped && !passed)
        printf("# %s (status %#x)\n", text, (unsigned)status);
    fflush(stdout);
}

static void case_run(const struct file_case *one, enum layout with)
{
    char name[128], text[600] = "";
    int fds[2], status;
    pid_t pid;

    layout = with;
    snprintf(name, sizeof name, "%s/%s", with == QUEUE ? "queue" : "flock", one->name);
    snprintf(scratch, sizeof scratch, "/tmp/holdfast-case-XXXXXX");
    if (!mkdtemp(scratch) || pipe2(fds, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
        case_report(name, -1, "cannot be started");
        return;
    }
    if (pid == 0)
        case_child(one, fds[1]);
    setpgid(pid, pid);
    close(fds[1]);
    waitpid(pid, &status, 0);
    kill(-pid, SIGKILL);
    output_read(fds[0], text, sizeof text);
    close(fds[0]);
    scratch_remove(scratch);
    case_report(name, status, text);
}

static void cases_run(const struct file_case *cases, const char *pick)
{
    for (; cases->name; cases++) {
        if (pick && !strstr(cases->name, pick))
            continue;
        if (cases->layouts & QUEUE)
            case_run(cases, QUEUE);
        if (cases->layouts & FLOCK)
            case_run(cases, FLOCK);
    }
}

int main(int argc, char **argv)
{
    const struct file_case *const groups[] = { directory_cases, planted_cases,
                                               system_cases,    process_cases,
                                               interop_cases,   foreign_files_cases,
                                               shared_cases };

    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        cases_run(groups[i], argc > 1 ? argv[1] : NULL);
    printf("1..%d\n", total);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
