/* SPDX-License-Identifier: MIT */
/*
 * holdfast itself under torture: the driver that must stay green.
 *
 * Each thread of a worker has a `struct player`, and each player a station: a client
 * that it has alone, or shares with the other threads of the process. Closing a client
 * gives up what is held with it, so a station has a gate: whoever holds something keeps
 * it shut to a reopening (rdlock), and a reopening waits until nobody holds (wrlock).
 * Those who only wait are not spared: they are told HF_ECLOSED.
 *
 * Times: the library counts on CLOCK_BOOTTIME and histories on CLOCK_MONOTONIC, which
 * keep step while the machine is awake. What is left of a lease is asked after the
 * stamp that it is added to, so that the sum is never late.
 */
#include <holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "driver.h"
#include "shims/fault.h"

#define DEPTH_MAX 4
#define WARM_MAX 65
#define REQUEST_TIMEOUT_MS 300
#define NS_PER_MS UINT64_C(1000000)

extern const struct hf_backend hf__backend_memory;
extern const struct hf_backend hf__backend_file;
extern const struct hf_backend hf__backend_redis;

struct station {
    pthread_rwlock_t gate;
    hf_client *_Atomic client; /* NULL: could not be opened, try again */
    atomic_uint opened;        /* control.reopen when that was */
    char *url;
    unsigned users;
};

struct player {
    struct station *station;
    int64_t ttl_ms;
    unsigned round;
    unsigned looks;
    int depth;
    hf_hold *holds[DEPTH_MAX];
};

static pthread_once_t shims_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t shared_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct station *shared; /* of the threads that share */

static void shims_register(void)
{
#ifdef TORTURE_MEM
    hf__fault_register(&hf__backend_memory, NULL);
#endif
#ifdef TORTURE_FILE
    hf__fault_register(&hf__backend_file, NULL);
#endif
#ifdef TORTURE_REDIS
    hf__fault_register(&hf__backend_redis, NULL);
#endif
}

/* ---- Stations -------------------------------------------------------------------- */

static hf_client *client_open(const char *url)
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

static struct station *station_new(const char *url)
{
    pthread_rwlockattr_t writers_first;
    struct station *station = calloc(1, sizeof *station);
    if (!station)
        return NULL;
    atomic_store(&station->opened, atomic_load(&control.reopen));
    hf_client *client = client_open(url);
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

static struct station *station_share(const char *url)
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

static void station_leave(struct station *station)
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
static hf_client *station_client(struct station *station)
{
    unsigned wanted = atomic_load(&control.reopen);
    if (atomic_load(&station->client) && atomic_load(&station->opened) == wanted)
        return atomic_load(&station->client);
    pthread_rwlock_wrlock(&station->gate);
    hf_client *client = atomic_load(&station->client);
    if (!client || atomic_load(&station->opened) != wanted) {
        hf_close(client);
        atomic_store(&station->opened, wanted);
        client = client_open(station->url);
        atomic_store(&station->client, client);
    }
    pthread_rwlock_unlock(&station->gate);
    return client;
}

/* ---- The driver ------------------------------------------------------------------ */

static void *holdfast_open(const struct driver_settings *settings)
{
    pthread_once(&shims_once, shims_register);
    struct player *player = calloc(1, sizeof *player);
    if (!player)
        return NULL;
    player->ttl_ms = settings->ttl_ms;
    player->station =
        settings->share ? station_share(settings->url) : station_new(settings->url);
    if (!player->station) {
        free(player);
        return NULL;
    }
    return player;
}

static void holdfast_close(void *self)
{
    struct player *player = self;
    station_leave(player->station);
    free(player);
}

static hf_want want_of(const struct driver_want *want)
{
    static const int kinds[] = {
        [H_MUTEX] = HF_MUTEX, [H_FAIR] = HF_FAIR,       [H_READ] = HF_READ,
        [H_WRITE] = HF_WRITE, [H_PERMITS] = HF_PERMITS, [H_REENTRANT] = HF_REENTRANT,
    };
    return hf_want_of(want->name, kinds[want->kind], want->permits, want->limit);
}

static enum history_result acquire_result(int rc)
{
    switch (rc) {
    case 0:
        return H_OK;
    case HF_EBUSY:
        return H_BUSY;
    case HF_ETIMEOUT:
        return H_TIMEOUT;
    case HF_EUNCERTAIN: /* its withdrawal goes on by itself */
    case HF_ELOST:      /* was ours for a while */
        return H_UNKNOWN;
    default:
        return H_FAILED;
    }
}

/* Begun, waited for a moment or not at all, cancelled: may have been quicker. */
static int acquire_cancelled(struct player *player, hf_client *client,
                             const hf_want *want, const hf_acquire_options *options,
                             hf_hold **ret_hold)
{
    hf_op *op = NULL;
    int rc = hf_acquire_async(client, want, 1, options, NULL, NULL, &op, NULL);
    if (rc)
        return rc;
    rc = hf_op_wait(op, player->round % 3, ret_hold, NULL);
    if (rc == HF_ETIMEOUT) {
        hf_op_cancel(op);
        int end = hf_op_wait(op, HF_FOREVER, ret_hold, NULL);
        rc = end == HF_EINVAL ? rc : end; /* the timeout was the op's own */
    }
    hf_op_free(op);
    return rc;
}

static uint64_t hold_until(const hf_hold *hold, uint64_t stamp)
{
    int64_t left = hf_hold_left_ms(hold);
    return left == HF_FOREVER ? UINT64_MAX : stamp + (uint64_t)left * NS_PER_MS;
}

static enum history_result holdfast_acquire(void *self, const struct driver_want *want,
                                            struct driver_grant *ret_grant)
{
    struct player *player = self;
    hf_want wanted = want_of(want);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold = NULL;
    options.timeout_ms = want->timeout_ms;
    options.ttl_ms = player->ttl_ms;
    *ret_grant = (struct driver_grant){ .token = 0 };
    if (player->depth == DEPTH_MAX)
        return H_FAILED;
    hf_client *client = player->depth ? atomic_load(&player->station->client)
                                      : station_client(player->station);
    if (!client)
        return H_FAILED;

    player->round++;
    bool cancel = atomic_load(&control.cancel) && player->round % 2;
    int rc = cancel ? acquire_cancelled(player, client, &wanted, &options, &hold)
                    : hf_acquire(client, &wanted, 1, &options, &hold, NULL);
    ret_grant->code = (uint32_t)-rc;
    if (rc)
        return acquire_result(rc);
    if (player->depth == 0)
        pthread_rwlock_rdlock(&player->station->gate);
    player->holds[player->depth++] = hold;
    uint64_t stamp = history_now();
    ret_grant->token = hf_hold_token(hold, 0);
    ret_grant->until_ns = hold_until(hold, stamp);
    return H_OK;
}

static enum history_result holdfast_release(void *self)
{
    struct player *player = self;
    int rc = hf_release(player->holds[--player->depth], NULL);
    if (player->depth == 0)
        pthread_rwlock_unlock(&player->station->gate);
    if (rc == HF_ELOST)
        return H_LATE;
    if (rc == HF_EUNCERTAIN)
        return H_UNKNOWN;
    return rc == 0 ? H_OK : H_FAILED;
}

/* Now and then by a way that asks the store, and lengthens the lease or does not. */
static bool holdfast_still_held(void *self, uint64_t *ret_until_ns)
{
    struct player *player = self;
    hf_hold *hold = player->holds[player->depth - 1];
    player->looks++;
    if (player->looks % 16 == 0)
        hf_hold_verify(hold, NULL);
    else if (player->looks % 16 == 8 && player->ttl_ms)
        hf_hold_extend(hold, player->ttl_ms, NULL);
    *ret_until_ns = hold_until(hold, history_now());
    return hf_hold_state(hold) != HF_LOST;
}

const struct driver driver_holdfast = {
    .name = "holdfast",
    .kinds = 1 << H_MUTEX | 1 << H_FAIR | 1 << H_READ | 1 << H_WRITE | 1 << H_PERMITS |
             1 << H_REENTRANT,
    .open = holdfast_open,
    .close = holdfast_close,
    .acquire = holdfast_acquire,
    .release = holdfast_release,
    .still_held = holdfast_still_held,
};

/* ---- For the worker -------------------------------------------------------------- */

bool holdfast_warm(const struct driver_settings *settings, size_t sharing, size_t count)
{
    struct driver_settings own = *settings;
    struct player *players[WARM_MAX] = { NULL };
    struct driver_grant grant;
    char name[64];
    bool warm = count <= WARM_MAX;
    for (size_t i = 0; warm && i < count; i++) {
        struct driver_want want = { name, H_REENTRANT, 1, 1, 1000 };
        snprintf(name, sizeof name, "torture-warm-%d-%zu", (int)getpid(), i);
        own.share = i < sharing;
        players[i] = holdfast_open(&own);
        for (int depth = 0; warm && depth < 2; depth++)
            warm = players[i] && holdfast_acquire(players[i], &want, &grant) == H_OK;
    }
    for (size_t i = 0; i < count && i < WARM_MAX; i++) {
        while (players[i] && players[i]->depth)
            holdfast_release(players[i]);
        if (players[i])
            holdfast_close(players[i]);
    }
    return warm;
}

bool holdfast_is_refused(void)
{
    hf_hold *hold = NULL;
    hf_client *client = shared ? atomic_load(&shared->client) : NULL;
    return !client || hf_lock(client, "torture/forked", 0, &hold, NULL) == HF_EFORKED;
}

long holdfast_entries(const char *url)
{
    hf_report *report = NULL;
    hf_client *client = client_open(url);
    long count = -1;
    if (client && hf_inspect(client, "", true, &report, NULL) == 0)
        count = (long)hf_report_count(report);
    hf_report_free(report);
    hf_close(client);
    return count;
}
