/* SPDX-License-Identifier: MIT */
/* The optimistic lock: read a value with its version, compute, write only if the
 * version is still the same, else start over. No thread ever waits. Four threads add to
 * one number. */
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define TURNS 100

static hf_client *client;

/* Adds one; 0 or the code. */
static int add_one(hf_error *why)
{
    for (;;) {
        char text[24];
        void *data = NULL;
        size_t len;
        uint64_t version = 0; /* 0: the cell must not exist yet */
        int rc = hf_cell_get(client, "hits", &data, &len, &version, why);

        if (rc && rc != HF_ENOENT)
            return rc;
        snprintf(text, sizeof text, "%ld", data ? strtol(data, NULL, 10) + 1 : 1);
        hf_free(data);
        for (len = 0; text[len]; len++) {
        }
        rc = hf_cell_set(client, "hits", version, text, len, NULL, why);
        if (rc != HF_ESTALE)
            return rc; /* written, or a real error */
    }
}

static void *run(void *failed)
{
    hf_error why;

    for (int i = 0; i < TURNS; i++) {
        if (add_one(&why)) {
            fprintf(stderr, "cell: %s\n", why.text);
            *(int *)failed = 1;
            break;
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int failed[THREADS] = { 0 }, rc = 0;
    void *data = NULL;
    size_t len;
    uint64_t version;
    hf_error why;

    if (hf_open(NULL, NULL, &client, &why))
        return fprintf(stderr, "cell: %s\n", why.text), 1;
    for (int i = 0; i < THREADS; i++)
        rc |= pthread_create(&threads[i], NULL, run, &failed[i]);
    for (int i = 0; i < THREADS && rc == 0; i++)
        rc |= pthread_join(threads[i], NULL) || failed[i];
    if (hf_cell_get(client, "hits", &data, &len, &version, &why) ||
        hf_cell_set(client, "hits", version, NULL, 0, NULL, &why)) /* remove it */
        rc = fprintf(stderr, "cell: %s\n", why.text);
    printf("%d threads added %d each: %s\n", THREADS, TURNS, data ? (char *)data : "?");
    rc |= !data || strtol(data, NULL, 10) != THREADS * TURNS;
    hf_free(data);
    hf_close(client);
    return rc != 0;
}
