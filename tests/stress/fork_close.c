/* SPDX-License-Identifier: MIT */
/*
 * fork_close: processes are forked while other threads open, close, take and release,
 * and each child closes what it has inherited, which must not hang.
 *
 *     fork_close [--rounds 300] [--threads 4]
 */
#include "stress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_PATIENCE 20 /* seconds; SIGALRM ends a child that hangs */

static atomic_bool over;

static void *busy_run(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        hf_client *client = open_or_bail("mem:fork_close", NULL);
        hf_hold *holds[80];
        size_t count = 0;
        /* More than a client keeps for itself: the rest goes through the lists. */
        for (; count < sizeof holds / sizeof *holds; count++) {
            hf_want want = hf_read("thing");
            if (hf_acquire(client, &want, 1, NULL, &holds[count], NULL) != 0)
                break;
        }
        while (count > 0)
            hf_release(holds[--count], NULL);
        hf_close(client);
    }
    return NULL;
}

/* 0, or how the child ended. */
static int child_closes(hf_client *client, hf_hold *hold)
{
    int status = -1;
    pid_t pid = fork();
    if (pid < 0)
        tap_bail("cannot fork");
    if (pid == 0) {
        alarm(CHILD_PATIENCE);
        int rc = hf_release(hold, NULL);
        hf_close(client);
        hf_client *own = NULL;
        bool opened = hf_open("mem:", NULL, &own, NULL) == 0;
        hf_close(own);
        _exit(rc == HF_EFORKED && opened ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    return status;
}

int main(int argc, char **argv)
{
    struct stress_options options = { .rounds = 300, .threads = 4 };
    pthread_t threads[64];
    int bad = 0;

    stress_options(argc, argv, &options);
    watchdog(170);
    if (options.threads > 64)
        options.threads = 64;
    hf_client *client = open_or_bail("mem:", NULL);
    hf_hold *hold = NULL;
    if (hf_lock(client, "kept", 0, &hold, NULL) != 0)
        tap_bail("cannot take the lock");
    for (int i = 0; i < options.threads; i++)
        if (pthread_create(&threads[i], NULL, busy_run, NULL) != 0)
            tap_bail("cannot start a thread");
    for (int i = 0; i < options.rounds; i++)
        bad += child_closes(client, hold) != 0;
    atomic_store(&over, true);
    for (int i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    tap_ok(bad == 0, "%d forked children close what they inherited; %d did not",
           options.rounds, bad);
    tap_ok(hf_release(hold, NULL) == 0, "the parent still held its lock");
    hf_close(client);
    return tap_done();
}
