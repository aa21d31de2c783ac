/* SPDX-License-Identifier: MIT */
/*
 * The clients of a worker: a station is one client, of one thread or of several.
 *
 * Closing a client gives up what is held with it, so a station has a gate: whoever
 * holds something keeps it shut to a reopening (rdlock), and a reopening waits until
 * nobody holds (wrlock). Those who only wait are not spared: they are told HF_ECLOSED.
 */
#ifndef TORTURE_STATION_H
#define TORTURE_STATION_H

#include <holdfast.h>
#include <pthread.h>
#include <stdatomic.h>

struct station {
    pthread_rwlock_t gate;
    hf_client *_Atomic client; /* NULL: could not be opened, try again */
    atomic_uint opened;        /* control.reopen when that was */
    char *url;
    unsigned users;
};

/* NULL: said on stderr. */
hf_client *station_connect(const char *url);
struct station *station_new(const char *url);
/* That of all threads that share. */
struct station *station_share(const char *url);
void station_leave(struct station *station);

/* The client to use; closed and opened anew if that was ordered meanwhile. */
hf_client *station_client(struct station *station);
/* The client of those that share, or NULL. */
hf_client *station_shared(void);

#endif
