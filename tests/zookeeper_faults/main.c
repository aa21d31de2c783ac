/* SPDX-License-Identifier: MIT */
/*
 * Runs the cases, one process each, and reports in TAP what came of them; at the end, a
 * table of what callers saw.
 *
 *   zookeeper_faults [PART]     PART: cases whose name contains it
 *
 * Cases run one after the other in a process that keeps its servers from one to the
 * next. The first check that fails ends that process, and another one goes on with the
 * next case and servers of its own. Each process leads a process group, which is killed
 * when it is over. What a case prints is shown if it fails; lines that begin with '@'
 * are rows of the table, and one that begins with '=' ends the case.
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

#define CASES_MAX 64
#define CASE_SECONDS 300
#define TABLE_MAX 16384

static int total, failures;
static char table[TABLE_MAX];
static const struct fault_case *cases[CASES_MAX];
static int cases_count;

static int entry_remove(const char *path, const struct stat *about, int type,
                        struct FTW *ftw)
{
    (void)about;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* ---- The process that runs them -------------------------------------------------- */

static void cases_run(int first, int out)
{
    setpgid(0, 0);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    for (int i = first; i < cases_count; i++) {
        int64_t since = real_ms();
        alarm(CASE_SECONDS);
        cases[i]->run();
        case_done();
        printf("=%lld\n", (long long)(real_ms() - since));
        fflush(stdout);
    }
    world_done();
    exit(0);
}

/* ---- The one that tells ---------------------------------------------------------- */

static void case_report(const char *name, bool passed, long long ms)
{
    total++;
    failures += !passed;
    printf("%s %d - %s # %lld ms\n", passed ? "ok" : "not ok", total, name, ms);
    fflush(stdout);
}

/* Reads what they say; returns how many cases have passed. */
static int output_read(FILE *file, int first)
{
    char line[512];
    int passed = 0;
    while (fgets(line, sizeof line, file)) {
        size_t used = strlen(table);
        if (line[0] == '@')
            snprintf(table + used, sizeof table - used, "# %s", line + 1);
        else if (line[0] == '=')
            case_report(cases[first + passed++]->name, true,
                        strtoll(line + 1, NULL, 10));
        else
            printf("# %s", line);
    }
    return passed;
}

/* Goes on with `first`; returns the next case to be run. */
static int cases_follow(int first)
{
    int fds[2], status;
    snprintf(world.directory, sizeof world.directory, "%s/holdfast-case-XXXXXX",
             access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(world.directory) != NULL && pipe2(fds, O_CLOEXEC) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        cases_run(first, fds[1]);
    setpgid(pid, pid);
    close(fds[1]);
    FILE *file = fdopen(fds[0], "r");
    CHECK(file != NULL);
    int next = first + output_read(file, first);
    fclose(file);
    waitpid(pid, &status, 0);
    kill(-pid, SIGKILL);
    nftw(world.directory, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
    if (next < cases_count)
        case_report(cases[next++]->name, false, 0);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        case_report("the end", false, 0);
    return next;
}

int main(int argc, char **argv)
{
    const struct fault_case *const groups[] = { ensemble_cases, cut_cases,
                                                session_cases,  wire_cases,
                                                herd_cases,     deadline_cases };
    const char *pick = argc > 1 ? argv[1] : NULL;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        for (const struct fault_case *one = groups[i]; one->name; one++)
            if ((!pick || strstr(one->name, pick)) && cases_count < CASES_MAX)
                cases[cases_count++] = one;
    for (int next = 0; next < cases_count;)
        next = cases_follow(next);
    printf("1..%d\n", total);
    printf("# %-40s | %-44s | served in\n%s", "fault", "the caller saw", table);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
