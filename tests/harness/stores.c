/* SPDX-License-Identifier: MIT */
/*
 * The stores that the contract suite runs on, one row each.
 *
 * A new store is a new row: its name, the capabilities it has to offer, and hooks that
 * make a private instance for one scenario and look for what it left behind. The same
 * row with "fault+" before its name runs the store behind the fault shim. Called on the
 * scenario's main thread.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "../../include/holdfast/backend.h"
#include "../../src/base/mem.h"
#include "../../src/shims/fault.h"
#include "harness.h"
#include "redis_store.h"
#include "zookeeper_store.h"

extern const struct hf_backend hf__backend_memory;
extern const struct hf_backend hf__backend_file;
#ifdef HF_TEST_REDIS
extern const struct hf_backend hf__backend_redis;
#endif
#ifdef HF_TEST_ZOOKEEPER
extern const struct hf_backend hf__backend_zookeeper;
#endif

#define CAPS_KINDS                                                                     \
    (HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_DOWNGRADE | HF_CAP_PERMITS |      \
     HF_CAP_EXPIRING | HF_CAP_LATCH | HF_CAP_CELL)
#define CAPS_HOLDS                                                                     \
    (HF_CAP_LEASE | HF_CAP_DETACH | HF_CAP_INSPECT | HF_CAP_EVICT | HF_CAP_REVOKE)
#define CAPS_ALWAYS (CAPS_HOLDS | HF_CAP_HANDOFF | HF_CAP_DIAGNOSE)
#define CAPS_SHARED (CAPS_ALWAYS | HF_CAP_PROCESSES | HF_CAP_DURABLE)
#define CAPS_MEM (CAPS_KINDS | CAPS_ALWAYS | NEED_ENDLESS | NEED_LONG | NEED_PROMPT)
#define CAPS_FILE                                                                      \
    (CAPS_KINDS | CAPS_SHARED | HF_CAP_CRASH | NEED_ENDLESS | NEED_LONG | NEED_PROMPT)
#define CAPS_REDIS (CAPS_KINDS | CAPS_SHARED | NEED_LONG | NEED_PROMPT)
#define CAPS_SIMPLE (HF_CAP_MUTEX | CAPS_SHARED | NEED_LONG | NEED_PROMPT)
#define CAPS_SESSION                                                                   \
    (HF_CAP_LEASE | HF_CAP_EVICT | HF_CAP_REVOKE | HF_CAP_PROCESSES | HF_CAP_DURABLE | \
     HF_CAP_DIAGNOSE)
#define CAPS_ZOOKEEPER (CAPS_KINDS | CAPS_SESSION | HF_CAP_INSPECT)
#define CAPS_KAZOO                                                                     \
    (HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_DOWNGRADE | HF_CAP_PERMITS |      \
     CAPS_SESSION | HF_CAP_INSPECT)
#define CAPS_SINGLE (HF_CAP_MUTEX | (CAPS_SESSION & ~(uint64_t)HF_CAP_EVICT))

static const char *url_prefix(const struct env *e)
{
    return e->store->caps & NEED_FAULT ? "fault+" : "";
}

/* ---- mem ------------------------------------------------------------------------- */

static void mem_start(struct env *e)
{
    const char *unique = strrchr(e->scratch, '/');
    snprintf(e->url, sizeof e->url, "%smem:%s", url_prefix(e),
             unique ? unique + 1 : "scenario");
}

static void mem_stop(struct env *e)
{
    (void)e;
}

/* What mem keeps is heap, and the heap is counted anyway. */
static bool mem_residue(const struct env *e, char *text, size_t size)
{
    (void)e;
    (void)text;
    (void)size;
    return false;
}

static uint64_t mem_weight(const struct env *e)
{
    (void)e;
    return hf__mem_live();
}

/* ---- file ------------------------------------------------------------------------ */

/* What docs/backends/file.md says stays in the directory of its own that the store
 * makes in the one it is given. */
#define FILE_HOME ".holdfast/"
static const char *const file_stays[] = { "state", "live", NULL };

static void file_path(const struct env *e, char *path, size_t size, const char *entry)
{
    snprintf(path, size, "%s/store/%s", e->scratch, entry);
}

static void file_start(struct env *e)
{
    char path[512];
    file_path(e, path, sizeof path, "");
    CHECK(mkdir(path, 0700) == 0);
    snprintf(e->url, sizeof e->url, "%sfile:%.128s/store", url_prefix(e), e->scratch);
}

static void file_stop(struct env *e)
{
    (void)e; /* the runner removes the scratch directory */
}

static bool file_may_stay(const char *entry)
{
    if (strcmp(entry, ".") == 0 || strcmp(entry, "..") == 0)
        return true;
    for (const char *const *name = file_stays; *name; name++)
        if (strcmp(entry, *name) == 0)
            return true;
    return false;
}

static bool file_residue(const struct env *e, char *text, size_t size)
{
    char path[512];
    file_path(e, path, sizeof path, FILE_HOME);
    DIR *dir = opendir(path);
    CHECK(dir != NULL || errno == ENOENT);
    if (!dir)
        return false;

    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(dir));)
        if (!file_may_stay(entry->d_name)) {
            snprintf(text, size, "the file %s", entry->d_name);
            found = true;
        }
    closedir(dir);
    return found;
}

/* Kibibytes on disk. A state file that has holes counts by its blocks. */
static uint64_t file_weight(const struct env *e)
{
    uint64_t blocks = 0;
    for (const char *const *name = file_stays; *name; name++) {
        char path[512];
        struct stat about;
        char inner[64];
        snprintf(inner, sizeof inner, FILE_HOME "%s", *name);
        file_path(e, path, sizeof path, inner);
        if (stat(path, &about) == 0)
            blocks += (uint64_t)about.st_blocks;
    }
    return blocks / 2;
}

/* ---- redis ----------------------------------------------------------------------- */

#ifdef HF_TEST_REDIS
static void redis_full_start(struct env *e)
{
    redis_store_start(e, url_prefix(e), "");
}

/* As a server before Redis 6: messages have a connection of their own, so that what
 * comes on one may overtake what comes on the other. */
static void redis_resp2_start(struct env *e)
{
    redis_store_start(e, url_prefix(e), "?protocol=2");
}

static void redis_simple_start(struct env *e)
{
    redis_store_start(e, url_prefix(e), "?layout=simple");
}

/* Its hooks are in redis_store.c. */
#define REDIS(name, caps, start)                                                       \
    {                                                                                  \
        name, caps, start, redis_store_stop, redis_store_residue, redis_store_weight,  \
            NULL, NULL                                                                 \
    }
#endif

/* ---- zookeeper ------------------------------------------------------------------- */

#ifdef HF_TEST_ZOOKEEPER
static void zookeeper_alone_start(struct env *e)
{
    zookeeper_store_start(e, 1, url_prefix(e), "");
}

static void zookeeper_ensemble_start(struct env *e)
{
    zookeeper_store_start(e, 3, url_prefix(e), "");
}

static void zookeeper_kazoo_start(struct env *e)
{
    zookeeper_store_start(e, 1, url_prefix(e), "&layout=kazoo");
}

static void zookeeper_single_start(struct env *e)
{
    zookeeper_store_start(e, 1, url_prefix(e), "&layout=single");
}

static void zookeeper_alone_prepare(size_t lane)
{
    zookeeper_store_prepare(lane, 1);
}

static void zookeeper_ensemble_prepare(size_t lane)
{
    zookeeper_store_prepare(lane, 3);
}

/* Its hooks are in zookeeper_store.c. */
#define ZOOKEEPER(name, caps, start, prepare)                                          \
    {                                                                                  \
        name, caps, start, zookeeper_store_stop, zookeeper_store_residue,              \
            zookeeper_store_weight, prepare, zookeeper_store_settle                    \
    }
#endif

/* ---- The table ------------------------------------------------------------------- */

#define LOCAL(name, caps, of)                                                          \
    {                                                                                  \
        name, caps, of##_start, of##_stop, of##_residue, of##_weight, NULL, NULL       \
    }

const struct store stores[] = {
    LOCAL("mem", CAPS_MEM, mem),
    LOCAL("file", CAPS_FILE, file),
    LOCAL("fault+mem", CAPS_MEM | NEED_FAULT, mem),
    LOCAL("fault+file", CAPS_FILE | NEED_FAULT, file),
#ifdef HF_TEST_REDIS
    REDIS("redis", CAPS_REDIS, redis_full_start),
    REDIS("redis-resp2", CAPS_REDIS, redis_resp2_start),
    REDIS("redis-simple", CAPS_SIMPLE, redis_simple_start),
    REDIS("fault+redis", CAPS_REDIS | NEED_FAULT, redis_full_start),
#endif
#ifdef HF_TEST_ZOOKEEPER
    ZOOKEEPER("zookeeper", CAPS_ZOOKEEPER, zookeeper_alone_start,
              zookeeper_alone_prepare),
    ZOOKEEPER("zookeeper-ensemble", CAPS_ZOOKEEPER, zookeeper_ensemble_start,
              zookeeper_ensemble_prepare),
    ZOOKEEPER("zookeeper-kazoo", CAPS_KAZOO, zookeeper_kazoo_start,
              zookeeper_alone_prepare),
    ZOOKEEPER("zookeeper-single", CAPS_SINGLE, zookeeper_single_start,
              zookeeper_alone_prepare),
    ZOOKEEPER("fault+zookeeper", CAPS_ZOOKEEPER | NEED_FAULT, zookeeper_alone_start,
              zookeeper_alone_prepare),
#endif
    { NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL },
};

const struct store *store_find(const char *name)
{
    for (const struct store *store = stores; store->name; store++)
        if (strcmp(store->name, name) == 0)
            return store;
    return NULL;
}

void stores_register(const char *url)
{
    if (strncmp(url, "fault+", 6) != 0)
        return;
    CHECK_RC(hf__fault_register(&hf__backend_memory, NULL), 0);
    CHECK_RC(hf__fault_register(&hf__backend_file, NULL), 0);
#ifdef HF_TEST_REDIS
    CHECK_RC(hf__fault_register(&hf__backend_redis, NULL), 0);
#endif
#ifdef HF_TEST_ZOOKEEPER
    CHECK_RC(hf__fault_register(&hf__backend_zookeeper, NULL), 0);
#endif
}

const char *capability_name(uint64_t bit)
{
    static const struct {
        uint64_t bit;
        const char *name;
    } names[] = {
        { HF_CAP_MUTEX, "mutex" },     { HF_CAP_FAIR, "fair" },
        { HF_CAP_RW, "rw" },           { HF_CAP_DOWNGRADE, "downgrade" },
        { HF_CAP_PERMITS, "permits" }, { HF_CAP_EXPIRING, "expiring" },
        { HF_CAP_LATCH, "latch" },     { HF_CAP_CELL, "cell" },
        { HF_CAP_LEASE, "lease" },     { HF_CAP_DETACH, "detach" },
        { HF_CAP_INSPECT, "inspect" }, { HF_CAP_EVICT, "evict" },
        { HF_CAP_REVOKE, "revoke" },   { HF_CAP_PROCESSES, "processes" },
        { HF_CAP_CRASH, "crash" },     { HF_CAP_DURABLE, "durable" },
        { HF_CAP_HANDOFF, "handoff" }, { HF_CAP_DIAGNOSE, "diagnose" },
        { NEED_FAULT, "fault" },       { NEED_ENDLESS, "endless" },
        { NEED_LONG, "long" },         { NEED_PROMPT, "prompt" },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].bit == bit)
            return names[i].name;
    return "unknown";
}
