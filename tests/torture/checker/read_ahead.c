/* SPDX-License-Identifier: MIT */
/*
 * history_read() on a thread of its own, so that reading and summing go on while the
 * events before are being judged.
 *
 * Events travel in batches through two slots. The reader fills one while the caller
 * empties the other; each waits for the other at a condition. `each` is called on the
 * caller's thread, in the order of the histories, as if there were no second one.
 */
#include "read_ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define BATCH 2048
#define SLOTS 2

struct batch {
    struct history_header header;
    size_t count;
    struct history_event events[BATCH];
};

struct pipe {
    const char *directory;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t filled, emptied; /* how many batches ever; under the mutex */
    bool ended;
    int rc, error;
    struct batch slots[SLOTS];
};

static struct batch *slot_free(struct pipe *pipe)
{
    pthread_mutex_lock(&pipe->mutex);
    while (pipe->filled - pipe->emptied == SLOTS)
        pthread_cond_wait(&pipe->changed, &pipe->mutex);
    struct batch *batch = &pipe->slots[pipe->filled % SLOTS];
    pthread_mutex_unlock(&pipe->mutex);
    return batch;
}

/* NULL when all has been read. */
static struct batch *slot_full(struct pipe *pipe)
{
    pthread_mutex_lock(&pipe->mutex);
    while (pipe->filled == pipe->emptied && !pipe->ended)
        pthread_cond_wait(&pipe->changed, &pipe->mutex);
    struct batch *batch = NULL;
    if (pipe->filled != pipe->emptied)
        batch = &pipe->slots[pipe->emptied % SLOTS];
    pthread_mutex_unlock(&pipe->mutex);
    return batch;
}

static void slot_pass(struct pipe *pipe, size_t *counter)
{
    pthread_mutex_lock(&pipe->mutex);
    (*counter)++;
    pthread_cond_signal(&pipe->changed);
    pthread_mutex_unlock(&pipe->mutex);
}

/* ---- The reader ------------------------------------------------------------------ */

struct reader {
    struct pipe *pipe;
    struct batch *batch; /* being filled; NULL: none yet */
};

static bool same_thread(const struct history_header *a, const struct history_header *b)
{
    return a->process == b->process && a->thread == b->thread && a->pid == b->pid;
}

static void batch_add(void *arg, const struct history_header *header,
                      const struct history_event *event)
{
    struct reader *reader = arg;
    struct batch *batch = reader->batch;
    if (batch && (batch->count == BATCH || !same_thread(&batch->header, header))) {
        slot_pass(reader->pipe, &reader->pipe->filled);
        batch = NULL;
    }
    if (!batch) {
        reader->batch = batch = slot_free(reader->pipe);
        batch->header = *header;
        batch->count = 0;
    }
    batch->events[batch->count++] = *event;
}

static void *reader_run(void *arg)
{
    struct reader reader = { .pipe = arg };
    struct pipe *pipe = arg;
    pipe->rc = history_read(pipe->directory, batch_add, &reader);
    pipe->error = errno;
    if (reader.batch)
        slot_pass(pipe, &pipe->filled);
    pthread_mutex_lock(&pipe->mutex);
    pipe->ended = true;
    pthread_cond_signal(&pipe->changed);
    pthread_mutex_unlock(&pipe->mutex);
    return NULL;
}

int history_read_ahead(const char *directory, history_each *each, void *arg)
{
    struct pipe *pipe = calloc(1, sizeof *pipe);
    struct batch *batch;
    pthread_t thread;
    int rc = -1, error;

    if (!pipe)
        return -1;
    pipe->directory = directory;
    pthread_mutex_init(&pipe->mutex, NULL);
    pthread_cond_init(&pipe->changed, NULL);
    error = pthread_create(&thread, NULL, reader_run, pipe);
    if (error)
        goto out;
    while ((batch = slot_full(pipe)) != NULL) {
        for (size_t i = 0; i < batch->count; i++)
            each(arg, &batch->header, &batch->events[i]);
        slot_pass(pipe, &pipe->emptied);
    }
    pthread_join(thread, NULL);
    rc = pipe->rc;
    error = pipe->error;
out:
    pthread_cond_destroy(&pipe->changed);
    pthread_mutex_destroy(&pipe->mutex);
    free(pipe);
    errno = error;
    return rc;
}
