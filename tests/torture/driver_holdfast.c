/* SPDX-License-Identifier: MIT */
/*
 * holdfast itself under torture: the driver that must stay green.
 *
 * Each thread of a worker has a `struct player`, and each player a station: a client
 * that it has alone, or shares with the other threads of the process (station.c).
 *
 * Times: the library counts on CLOCK_BOOTTIME and histories on CLOCK_MONOTONIC, which
 * keep step while the machine is awake. What is left of a lease is asked after the
 * stamp that it is added to, so that the sum is never late.
 */
#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "driver.h"
#include "shims/fault.h"
#include "station.h"

#define DEPTH_MAX 4
/* A re-entry after a loss waits like any other caller. Meanwhile it keeps the station's
 * gate from a worker that wants to open the client anew, and with that from the worker
 * that has been granted the lock: it must not wait for long. */
#define NESTED_MS 200
#define WARM_MAX 65
#define NS_PER_MS UINT64_C(1000000)

extern const struct hf_backend hf__backend_memory;
extern const struct hf_backend hf__backend_file;
extern const struct hf_backend hf__backend_redis;

struct player {
    struct station *station;
    int64_t ttl_ms;
    bool pieces; /* the store gives less than the lease at a time (zookeeper) */
    unsigned round;
    unsigned looks;
    int depth;
    hf_hold *holds[DEPTH_MAX];
};

static pthread_once_t shims_once = PTHREAD_ONCE_INIT;

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

/* ---- The driver ------------------------------------------------------------------ */

static void *holdfast_open(const struct driver_settings *settings)
{
    pthread_once(&shims_once, shims_register);
    struct player *player = calloc(1, sizeof *player);
    if (!player)
        return NULL;
    player->ttl_ms = settings->ttl_ms;
    player->pieces = strncmp(settings->url, "zookeeper", 9) == 0;
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

static void player_take(struct player *player, hf_hold *hold,
                        struct driver_grant *ret_grant)
{
    if (player->depth == 0)
        pthread_rwlock_rdlock(&player->station->gate);
    player->holds[player->depth++] = hold;
    uint64_t stamp = history_now();
    ret_grant->token = hf_hold_token(hold, 0);
    ret_grant->until_ns = hold_until(hold, stamp);
}

static void player_drop(struct player *player)
{
    if (--player->depth == 0)
        pthread_rwlock_unlock(&player->station->gate);
}

/* NULL: it could not be opened. */
static hf_client *player_client(struct player *player)
{
    return player->depth ? atomic_load(&player->station->client)
                         : station_client(player->station);
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
    options.flags = want->detached ? HF_DETACHED : 0;
    *ret_grant = (struct driver_grant){ .token = 0 };
    if (player->depth == DEPTH_MAX)
        return H_FAILED;
    if (player->depth && !(options.timeout_ms >= 0 && options.timeout_ms < NESTED_MS))
        options.timeout_ms = NESTED_MS;
    hf_client *client = player_client(player);
    if (!client)
        return H_FAILED;

    player->round++;
    bool cancel = atomic_load(&control.cancel) && player->round % 2;
    int rc = cancel ? acquire_cancelled(player, client, &wanted, &options, &hold)
                    : hf_acquire(client, &wanted, 1, &options, &hold, NULL);
    ret_grant->code = (uint32_t)-rc;
    if (rc)
        return acquire_result(rc);
    player_take(player, hold, ret_grant);
    return H_OK;
}

static enum history_result holdfast_release(void *self)
{
    struct player *player = self;
    int rc = hf_release(player->holds[player->depth - 1], NULL);
    player_drop(player);
    if (rc == HF_ELOST)
        return H_LATE;
    if (rc == HF_EUNCERTAIN)
        return H_UNKNOWN;
    return rc == 0 ? H_OK : H_FAILED;
}

/* Now and then by a way that asks the store. */
static bool holdfast_still_held(void *self, uint64_t *ret_until_ns)
{
    struct player *player = self;
    hf_hold *hold = player->holds[player->depth - 1];
    player->looks++;
    if (player->looks % 16 == 0)
        hf_hold_verify(hold, NULL);
    *ret_until_ns = hold_until(hold, history_now());
    return hf_hold_state(hold) != HF_LOST;
}

/* ---- What is done to a hold ------------------------------------------------------ */

static enum history_result change_result(int rc)
{
    if (rc == HF_ELOST)
        return H_LATE;
    if (rc == HF_EINVAL || rc == HF_EUNSUPPORTED)
        return H_FAILED;
    return rc == 0 ? H_OK : H_UNKNOWN;
}

/* The end lies between until_ns and latest_ns: what is left is asked in between. */
static enum history_result holdfast_extend(void *self, int64_t ttl_ms,
                                           struct driver_grant *ret_grant)
{
    struct player *player = self;
    hf_hold *hold = player->holds[player->depth - 1];
    int rc = hf_hold_extend(hold, ttl_ms, NULL);
    uint64_t stamp = history_now();
    ret_grant->until_ns = hold_until(hold, stamp);
    ret_grant->latest_ns = ret_grant->until_ns == UINT64_MAX || player->pieces
                               ? UINT64_MAX
                               : ret_grant->until_ns + (history_now() - stamp);
    ret_grant->code = (uint32_t)-rc;
    if (hf_hold_state(hold) == HF_LOST) { /* before the call, or meanwhile */
        ret_grant->until_ns = ret_grant->latest_ns = 0;
        return H_LATE;
    }
    return change_result(rc);
}

static enum history_result holdfast_downgrade(void *self)
{
    struct player *player = self;
    return change_result(hf_hold_downgrade(player->holds[player->depth - 1], 0, NULL));
}

static enum history_result holdfast_identify(void *self, char *buffer, size_t size)
{
    struct player *player = self;
    return hf_hold_id(player->holds[player->depth - 1], 0, buffer, size, NULL) == 0
               ? H_OK
               : H_FAILED;
}

static enum history_result holdfast_adopt(void *self, const struct driver_want *want,
                                          const char *id,
                                          struct driver_grant *ret_grant)
{
    struct player *player = self;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold = NULL;
    options.ttl_ms = player->ttl_ms;
    options.flags = want->detached ? HF_DETACHED : 0;
    *ret_grant = (struct driver_grant){ .token = 0 };
    hf_client *client = player_client(player);
    if (!client || player->depth == DEPTH_MAX)
        return H_FAILED;
    int rc = hf_adopt(client, id, &options, &hold, NULL);
    ret_grant->code = (uint32_t)-rc;
    if (rc == HF_ENOENT)
        return H_ABSENT;
    if (rc)
        return rc == HF_ELOST ? H_UNKNOWN : change_result(rc);
    player_take(player, hold, ret_grant);
    return H_OK;
}

static enum history_result holdfast_leave(void *self)
{
    struct player *player = self;
    int rc = hf_hold_leave(player->holds[player->depth - 1], NULL);
    if (rc == 0)
        player_drop(player);
    return rc == 0 ? H_OK : H_FAILED;
}

static enum history_result holdfast_evict(void *self, const char *name, uint64_t token)
{
    hf_client *client = player_client(self);
    int rc = client ? hf_evict(client, name, token, NULL) : HF_EUNSUPPORTED;
    return rc == HF_ENOENT ? H_ABSENT : change_result(rc);
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
    .extend = holdfast_extend,
    .downgrade = holdfast_downgrade,
    .identify = holdfast_identify,
    .adopt = holdfast_adopt,
    .leave = holdfast_leave,
    .evict = holdfast_evict,
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
        struct driver_want want = { name, H_REENTRANT, 1, 1, 1000, false };
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
    hf_client *client = station_shared();
    int rc = client ? hf_lock(client, "torture/forked", 0, &hold, NULL) : HF_EFORKED;
    return rc == HF_EFORKED || rc == HF_ECLOSED; /* it was about to be opened anew */
}

long holdfast_entries(const char *url)
{
    hf_report *report = NULL;
    hf_client *client = station_connect(url);
    long count = -1;
    if (client && hf_inspect(client, "", true, &report, NULL) == 0)
        count = (long)hf_report_count(report);
    hf_report_free(report);
    hf_close(client);
    return count;
}
