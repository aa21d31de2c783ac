/* SPDX-License-Identifier: MIT */
/*
 * What `make try` runs: holdfast with files in a new directory, without a server.
 *
 * Four processes contend for one lock and add to one number in a file (read, add, write
 * back), which has no other guard. Then a process acquires the lock and is killed while
 * it holds it. Each child opens its own client; the parent opens one after the last
 * fork.
 */
#include <ftw.h>
#include <holdfast.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 4
#define TURNS 5

static char dir[] = "/tmp/holdfast-try.XXXXXX";
static char url[64], counter[64];

static int fail(const char *what, const hf_error *why)
{
    fprintf(stderr, "try: %s: %s\n", what, why ? why->text : "a system call failed");
    return 1;
}

/* ---- The guarded number ---------------------------------------------------------- */

static long counter_read(void)
{
    FILE *file = fopen(counter, "r");
    long value = 0;

    if (file && fscanf(file, "%ld", &value) != 1)
        value = -1;
    if (file)
        fclose(file);
    return value;
}

static int counter_add(void)
{
    long value = counter_read();
    FILE *file = fopen(counter, "w");

    if (!file)
        return -1;
    fprintf(file, "%ld\n", value + 1);
    return fclose(file);
}

/* ---- Children -------------------------------------------------------------------- */

static int worker(int number)
{
    hf_client *client = NULL;
    hf_hold *hold;
    hf_error why;
    int rc = hf_open(url, NULL, &client, &why) ? fail("open", &why) : 0;

    for (int i = 0; i < TURNS && rc == 0; i++) {
        if (hf_lock(client, "counter", 10000, &hold, &why))
            return fail("lock", &why);
        rc = counter_add();
        printf("  worker %d holds the lock, token %llu, counter %ld\n", number,
               (unsigned long long)hf_hold_token(hold, 0), counter_read());
        fflush(stdout);
        if (hf_release(hold, &why))
            rc = fail("release", &why);
    }
    hf_close(client);
    return rc;
}

/* Takes the lock, says so through the pipe, and stays until it is killed. */
static int victim(int ready)
{
    hf_options options = { .size = sizeof options, .program = "victim" };
    hf_acquire_options patient = { .size = sizeof patient,
                                   .timeout_ms = 10000,
                                   .note = "about to be killed" };
    hf_want want = hf_mutex("counter");
    hf_client *client = NULL;
    hf_hold *hold;
    hf_error why;

    if (hf_open(url, &options, &client, &why) ||
        hf_acquire(client, &want, 1, &patient, &hold, &why))
        return fail("victim", &why);
    if (write(ready, "r", 1) != 1)
        return 1;
    for (;;)
        pause();
}

/* ---- The two scenes -------------------------------------------------------------- */

static int act_contend(void)
{
    int status, rc = 0;

    printf("%d processes, one lock, %d turns each:\n", WORKERS, TURNS);
    fflush(stdout);
    for (int i = 1; i <= WORKERS; i++) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(worker(i));
        rc |= pid < 0;
    }
    while (wait(&status) > 0)
        rc |= status != 0;
    return rc;
}

static int show(hf_client *client)
{
    hf_report *report;
    hf_error why;

    if (hf_inspect(client, "", true, &report, &why))
        return fail("inspect", &why);
    printf("  %-10s %-8s %-10s %-8s %-18s %s\n", "NAME", "ROLE", "PROGRAM", "PID",
           "TOKEN", "NOTE");
    for (size_t i = 0; i < hf_report_count(report); i++) {
        const hf_entry *entry = hf_report_entry(report, i);

        printf("  %-10s %-8s %-10s %-8lld %-18llu %s\n", entry->name,
               entry->role == HF_HOLDER ? "holds" : "waits", entry->program,
               (long long)entry->pid, (unsigned long long)entry->token, entry->note);
    }
    hf_report_free(report);
    return 0;
}

static double milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int act_kill(pid_t pid)
{
    hf_client *client = NULL;
    hf_hold *hold;
    hf_error why;
    double start;
    int rc;

    if (hf_open(url, NULL, &client, &why))
        return fail("open", &why);
    printf("\nNow another process holds the lock:\n");
    rc = show(client);
    start = milliseconds();
    kill(pid, SIGKILL);
    if (hf_lock(client, "counter", 10000, &hold, &why)) {
        hf_close(client);
        return fail("lock", &why);
    }
    printf("\nKilled it (SIGKILL). We got the lock %.1f ms later, token %llu.\n",
           milliseconds() - start, (unsigned long long)hf_hold_token(hold, 0));
    if (hf_release(hold, &why))
        rc = fail("release", &why);
    hf_close(client);
    return rc;
}

static int act_crash(void)
{
    int ready[2], rc = 1;
    char byte;
    pid_t pid;

    if (pipe(ready))
        return fail("pipe", NULL);
    pid = fork();
    if (pid == 0)
        _exit(victim(ready[1]));
    close(ready[1]);
    if (pid > 0 && read(ready[0], &byte, 1) == 1)
        rc = act_kill(pid);
    close(ready[0]);
    waitpid(pid, NULL, 0);
    return rc;
}

static int remove_one(const char *path, const struct stat *info, int type,
                      struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

int main(void)
{
    bool exact;
    int rc;

    if (!mkdtemp(dir))
        return fail(dir, NULL);
    snprintf(url, sizeof url, "file:%s", dir);
    snprintf(counter, sizeof counter, "%s/counter", dir);
    printf("holdfast %s on %s\n\n", hf_version(), url);
    rc = act_contend() || act_crash();
    exact = counter_read() == WORKERS * TURNS;
    printf("\n%s: the counter is %ld, %d were added.\n",
           exact && !rc ? "Exact" : "WRONG", counter_read(), WORKERS * TURNS);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return exact && !rc ? 0 : 1;
}
