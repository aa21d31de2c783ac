/* SPDX-License-Identifier: MIT */
/* The clients of a worker: see station.h. */
#include "station.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"

#define REQUEST_TIMEOUT_MS 300

static pthread_mutex_t shared_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct station *shared; /* of the threads that share */

hf_client *station_connect(const char *url)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_client *client = NULL;
    hf_error why;
    options.program = "torture";
    options.request_timeout_ms = REQUEST_TIMEOUT_MS;
    if (hf_open(url, &options, &client, &why) == 0)
        return client;
    fprintf(stderr, "worker: %s\n", why.text);
    return NULL;
}

struct station *station_new(const char *url)
{
    pthread_rwlockattr_t writers_first;
    struct station *station = calloc(1, sizeof *station);
    if (!station)
        return NULL;
    atomic_store(&station->opened, atomic_load(&control.reopen));
    hf_client *client = station_connect(url);
    station->url = client ? strdup(url) : NULL;
    if (!station->url) {
        free(station);
        return NULL;
    }
    atomic_store(&station->client, client);
    pthread_rwlockattr_init(&writers_first);
    pthread_rwlockattr_setkind_np(&writers_first,
                                  PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&station->gate, &writers_first);
    pthread_rwlockattr_destroy(&writers_first);
    station->users = 1;
    return station;
}

static void station_free(struct station *station)
{
    hf_close(atomic_load(&station->client));
    pthread_rwlock_destroy(&station->gate);
    free(station->url);
    free(station);
}

struct station *station_share(const char *url)
{
    pthread_mutex_lock(&shared_mutex);
    if (shared)
        shared->users++;
    else
        shared = station_new(url);
    struct station *station = shared;
    pthread_mutex_unlock(&shared_mutex);
    return station;
}

void station_leave(struct station *station)
{
    pthread_mutex_lock(&shared_mutex);
    bool last = --station->users == 0;
    if (last && station == shared)
        shared = NULL;
    pthread_mutex_unlock(&shared_mutex);
    if (last)
        station_free(station);
}

/* The client to use; closed and opened anew if that was ordered meanwhile. */
hf_client *station_client(struct station *station)
{
    unsigned wanted = atomic_load(&control.reopen);
    if (atomic_load(&station->client) && atomic_load(&station->opened) == wanted)
        return atomic_load(&station->client);
    pthread_rwlock_wrlock(&station->gate);
    hf_client *client = atomic_load(&station->client);
    if (!client || atomic_load(&station->opened) != wanted) {
        hf_close(client);
        atomic_store(&station->opened, wanted);
        client = station_connect(station->url);
        atomic_store(&station->client, client);
    }
    pthread_rwlock_unlock(&station->gate);
    return client;
}

hf_client *station_shared(void)
{
    return shared ? atomic_load(&shared->client) : NULL;
}
