/* SPDX-License-Identifier: MIT */
/* Several names at once, all or nothing. Two threads move money between two accounts
 * and name them in opposite order; holdfast acquires them in the order of their names,
 * so that the threads cannot deadlock. */
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>

#define TURNS 200

static hf_client *client;
static long balance[2] = { 1000, 1000 };
static const char *const names[2] = { "account/alice", "account/bob" };

static int transfer(int from, int to, long amount, hf_error *why)
{
    const hf_want both[2] = { hf_mutex(names[from]), hf_mutex(names[to]) };
    hf_acquire_options patient = { .size = sizeof patient, .timeout_ms = 10000 };
    hf_hold *hold;
    int rc = hf_acquire(client, both, 2, &patient, &hold, why);

    if (rc)
        return rc;
    balance[from] -= amount;
    balance[to] += amount;
    return hf_release(hold, why);
}

/* `arg` says who pays: 0 or 1. Returns NULL, or something on failure. */
static void *pay(void *arg)
{
    int from = *(int *)arg;
    hf_error why;

    for (int i = 0; i < TURNS; i++) {
        if (transfer(from, 1 - from, 1 + from, &why)) {
            fprintf(stderr, "multi: %s\n", why.text);
            return arg;
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t other;
    int alice = 0, bob = 1;
    void *failed = NULL;
    hf_error why;

    if (hf_open(NULL, NULL, &client, &why))
        return fprintf(stderr, "multi: %s\n", why.text), 1;
    if (pthread_create(&other, NULL, pay, &bob))
        return 1;
    if (pay(&alice))
        failed = &alice;
    if (pthread_join(other, failed ? NULL : &failed))
        return 1;
    printf("alice has %ld, bob has %ld, together still %ld\n", balance[0], balance[1],
           balance[0] + balance[1]);
    hf_close(client);
    return failed || balance[0] != 1000 + TURNS || balance[1] != 1000 - TURNS;
}
