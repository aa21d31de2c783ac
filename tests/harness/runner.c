/* SPDX-License-Identifier: MIT */
/*
 * The runner: see runner.h.
 *
 * One thread. Each test is a process group of its own, so that a test that hangs is
 * killed together with the takers it started. Its output goes to an anonymous file and
 * is shown only if it failed. There is no way for a test to be skipped: it ends with 0
 * or it has failed.
 */
#include "runner.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_MS 240000
#define JOBS_MAX 16

struct job {
    const struct test *test;
    pid_t pid;
    int pidfd;
    int output;
    int64_t since;
    char scratch[128];
};

void test_name(const struct test *test, char *text, size_t size)
{
    snprintf(text, size, "%s/%s/%s", test->store->name, test->form->name,
             test->scenario->name);
}

static int64_t limit_ms(void)
{
    const char *factor = getenv("HOLDFAST_TEST_PATIENCE");
    long times = factor ? strtol(factor, NULL, 10) : 1;
    return LIMIT_MS * (times > 1 ? times : 1);
}

/* ---- The scratch directory ------------------------------------------------------- */

static void scratch_make(char *path, size_t size)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, size, "%s/holdfast-XXXXXX",
             base && strlen(base) < 64 ? base : "/tmp");
    CHECK(mkdtemp(path) != NULL);
}

static int scratch_entry(const char *path, const struct stat *about, int type,
                         struct FTW *ftw)
{
    (void)about;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void scratch_remove(const char *path)
{
    nftw(path, scratch_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- One job --------------------------------------------------------------------- */

static void job_exec(const struct job *job)
{
    char name[256];
    char scratch[sizeof job->scratch];
    char program[] = "contract";
    char one[] = "--one";
    char option[] = "--scratch";
    char *arguments[] = { program, one, name, option, scratch, NULL };

    test_name(job->test, name, sizeof name);
    snprintf(scratch, sizeof scratch, "%s", job->scratch);
    setpgid(0, 0);
    dup2(job->output, STDOUT_FILENO);
    dup2(job->output, STDERR_FILENO);
    execv("/proc/self/exe", arguments);
    _exit(126);
}

static void job_start(struct job *job, size_t lane, const struct test *test)
{
    if (test->store->prepare)
        test->store->prepare(lane);
    job->test = test;
    job->since = real_ms();
    scratch_make(job->scratch, sizeof job->scratch);
    job->output = memfd_create("output", MFD_CLOEXEC);
    CHECK(job->output >= 0);
    job->pid = fork();
    CHECK(job->pid >= 0);
    if (job->pid == 0)
        job_exec(job);
    setpgid(job->pid, job->pid); /* as the child does: whoever is first */
    job->pidfd = pidfd_open(job->pid, 0);
    CHECK(job->pidfd >= 0);
}

static void output_read(int fd, char *text, size_t size, const char *last)
{
    ssize_t len = pread(fd, text, size - 128, 0);
    if (len < 0)
        len = 0;
    snprintf(text + len, size - (size_t)len, "%s", last);
}

static void job_end(struct job *job, bool in_time, runner_report *report, void *user)
{
    char last[96] = "";
    char text[8192];
    int status = 0;

    kill(-job->pid, SIGKILL); /* itself if it hangs, and takers it left */
    CHECK_EQ(waitpid(job->pid, &status, 0), job->pid);
    bool passed = in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!in_time)
        snprintf(last, sizeof last, "no end after %lld s",
                 (long long)limit_ms() / 1000);
    else if (WIFSIGNALED(status))
        snprintf(last, sizeof last, "ended by signal %d", WTERMSIG(status));
    else if (!passed)
        snprintf(last, sizeof last, "ended with %d", WEXITSTATUS(status));
    output_read(job->output, text, sizeof text, last);

    struct verdict verdict = { passed, real_ms() - job->since, text };
    report(user, job->test, &verdict);
    close(job->pidfd);
    close(job->output);
    scratch_remove(job->scratch);
    job->test = NULL;
}

/* ---- All of them ----------------------------------------------------------------- */

static void jobs_wait(struct job *jobs, size_t count, runner_report *report, void *user)
{
    struct pollfd ready[JOBS_MAX];
    int64_t left = limit_ms();
    for (size_t i = 0; i < count; i++) {
        ready[i] = (struct pollfd){ .fd = jobs[i].test ? jobs[i].pidfd : -1,
                                    .events = POLLIN };
        int64_t mine = jobs[i].since + limit_ms() - real_ms();
        if (jobs[i].test && mine < left)
            left = mine;
    }
    poll(ready, count, left > 0 ? (int)left : 0);
    for (size_t i = 0; i < count; i++) {
        if (!jobs[i].test)
            continue;
        if (ready[i].revents)
            job_end(&jobs[i], true, report, user);
        else if (real_ms() - jobs[i].since > limit_ms())
            job_end(&jobs[i], false, report, user);
    }
}

void runner_run(const struct test *tests, size_t count, size_t jobs,
                runner_report *report, void *user)
{
    struct job job[JOBS_MAX] = { { 0 } };
    size_t next = 0;
    size_t running = count;
    if (jobs < 1 || jobs > JOBS_MAX)
        jobs = 1;
    fflush(stdout);
    while (running > 0) {
        for (size_t i = 0; i < jobs && next < count; i++)
            if (!job[i].test)
                job_start(&job[i], i, &tests[next++]);
        jobs_wait(job, jobs, report, user);
        running = 0;
        for (size_t i = 0; i < jobs; i++)
            running += job[i].test != NULL;
        running += next < count;
    }
}
