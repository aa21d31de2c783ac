/* SPDX-License-Identifier: MIT */
/* A count-down latch: wait until three other processes have done their part. A child
 * must not use the client of its parent after fork(), so each child opens its own. */
#include <holdfast.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 3

static int fail(const char *what, const hf_error *why)
{
    fprintf(stderr, "latch: %s: %s\n", what, why->text);
    return 1;
}

static int work(int number)
{
    hf_client *client = NULL;
    hf_error why;
    uint32_t left;
    int rc = 0;

    if (hf_open(NULL, NULL, &client, &why))
        return fail("open", &why);
    if (hf_latch_count_down(client, "ready", 1, &left, &why))
        rc = fail("count down", &why);
    else
        printf("worker %d is ready, %u to go\n", number, left);
    fflush(stdout);
    hf_close(client);
    return rc;
}

int main(void)
{
    hf_client *client = NULL;
    hf_error why;
    int rc = 0, status;

    if (hf_open(NULL, NULL, &client, &why))
        return fail("open", &why);
    if (hf_latch_set(client, "ready", WORKERS, &why)) {
        hf_close(client);
        return fail("set", &why);
    }
    for (int i = 1; i <= WORKERS; i++) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(work(i));
        rc |= pid < 0;
    }
    if (hf_latch_wait(client, "ready", 10000, &why))
        rc = fail("wait", &why);
    else
        printf("all are ready\n");
    while (wait(&status) > 0)
        rc |= status != 0;
    hf_close(client);
    return rc;
}
