/* SPDX-License-Identifier: MIT */
/*
 * What the cases are written with: see cases.h. All on the case's main thread, except
 * callbacks, which the library calls on its own.
 */
#include "cases.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct world world;

/* ---- The case's world ------------------------------------------------------------ */

static void world_again(void)
{
    for (size_t i = 0; i < world.zoo.count; i++) {
        if (world.zoo.node[i].frozen)
            zookeeper_thaw(&world.zoo, i);
        if (!world.zoo.node[i].pid)
            zookeeper_run(&world.zoo, i);
    }
    zookeeper_settle(&world.zoo);
}

void world_start(size_t servers)
{
    struct zookeeper_options options = {
        .tick_ms = 100, .sync_ticks = 5, .container_ms = 50, .base = world.directory
    };
    world.session_ms = SESSION_MS;
    if (world.zoo.count == servers) {
        world_again();
        return;
    }
    zookeeper_stop(&world.zoo);
    zookeeper_start(&world.zoo, servers, &options);
}

void case_done(void)
{
    if (world.proxy)
        proxy_stop(world.proxy);
    world.proxy = NULL;
}

void world_done(void)
{
    zookeeper_stop(&world.zoo);
}

static hf_client *client_open(const char *hosts, const char *more)
{
    char url[256];
    hf_client *client = NULL;
    hf_error why = { 0 };
    snprintf(url, sizeof url, "zookeeper://%s?session=%dms%s", hosts, world.session_ms,
             more);
    if (hf_open(url, NULL, &client, &why) != 0)
        check_failed(__FILE__, __LINE__, "hf_open: %s: %s", hf_error_name(why.code),
                     why.text);
    return client;
}

hf_client *opened_at(unsigned servers, const char *more)
{
    char hosts[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < world.zoo.count; i++)
        if (servers & (1U << i))
            used +=
                (size_t)snprintf(hosts + used, sizeof hosts - used, "%s127.0.0.1:%d",
                                 used ? "," : "", world.zoo.node[i].port);
    CHECK(used < sizeof hosts);
    return client_open(hosts, more);
}

hf_client *opened(const char *more)
{
    return opened_at(~0U, more);
}

hf_client *opened_through(const char *more)
{
    char where[32];
    if (!world.proxy) {
        snprintf(where, sizeof where, ":%d", world.zoo.node[0].port);
        world.proxy = proxy_start(where);
    }
    snprintf(where, sizeof where, "127.0.0.1:%d", proxy_port(world.proxy));
    return client_open(where, more);
}

/* ---- Locks ----------------------------------------------------------------------- */

static hf_acquire_options options_of(int64_t timeout_ms)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = timeout_ms;
    options.ttl_ms = SESSION_MS;
    return options;
}

int lock(hf_client *client, const char *name, int64_t timeout_ms, hf_hold **ret_hold)
{
    hf_want want = hf_mutex(name);
    hf_acquire_options options = options_of(timeout_ms);
    return hf_acquire(client, &want, 1, &options, ret_hold, NULL);
}

hf_hold *locked(hf_client *client, const char *name)
{
    hf_hold *hold = NULL;
    CHECK_RC(lock(client, name, HEAL_MS, &hold), 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    return hold;
}

static void waiter_told(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct waiter *waiter = user;
    (void)why;
    pthread_mutex_lock(&waiter->mutex);
    if (rc == 0 && waiter->former && hf_hold_state(waiter->former) == HF_HELD &&
        hf_hold_state(hold) == HF_HELD)
        atomic_store(&waiter->both, true);
    pthread_mutex_unlock(&waiter->mutex);
    waiter->rc = rc;
    waiter->hold = hold;
    atomic_store(&waiter->over, true);
}

void waiter_start(struct waiter *waiter, hf_client *client, const char *name, int place,
                  const hf_hold *former)
{
    hf_want want = hf_mutex(name);
    hf_acquire_options options = options_of(HF_FOREVER);
    *waiter = (struct waiter){ .former = former };
    pthread_mutex_init(&waiter->mutex, NULL);
    CHECK_RC(
        hf_acquire_async(client, &want, 1, &options, waiter_told, waiter, NULL, NULL),
        0);
    EVENTUALLY(contenders(name) == place + 1);
}

void waiter_blind(struct waiter *waiter)
{
    pthread_mutex_lock(&waiter->mutex);
    waiter->former = NULL;
    pthread_mutex_unlock(&waiter->mutex);
}

int64_t waiter_served(struct waiter *waiter)
{
    int64_t since = real_ms();
    EVENTUALLY(atomic_load(&waiter->over));
    int64_t took = real_ms() - since;
    CHECK_RC(waiter->rc, 0);
    CHECK(!atomic_load(&waiter->both));
    if (took > HEAL_MS)
        check_failed(__FILE__, __LINE__, "served in %d ms (it took %lld)", HEAL_MS,
                     (long long)took);
    return took;
}

static void events_told(void *user, hf_hold *hold, enum hf_event event,
                        const hf_error *why)
{
    struct events *events = user;
    (void)hold;
    (void)why;
    atomic_fetch_add(&events->lost, event == HF_EVENT_LOST);
    atomic_fetch_add(&events->doubtful, event == HF_EVENT_DOUBTFUL);
}

void watch(hf_hold *hold, struct events *events)
{
    CHECK_RC(hf_hold_watch(hold, events_told, events, NULL), 0);
}

/* ---- What the servers say -------------------------------------------------------- */

static struct zkraw *raw_try(void)
{
    for (size_t i = 0; i < world.zoo.count; i++)
        if (world.zoo.node[i].pid && !world.zoo.node[i].frozen) {
            struct zkraw *raw = zkraw_open_quietly(world.zoo.node[i].port, 10000);
            if (raw && zkraw_sync(raw) == 0) {
                zkraw_insist(raw);
                return raw;
            }
            zkraw_close(raw);
        }
    return NULL;
}

static struct zkraw *look(void)
{
    struct zkraw *raw = NULL;
    EVENTUALLY((raw = raw_try()));
    return raw;
}

int contenders(const char *name)
{
    char path[128];
    struct zkraw *raw = look();
    snprintf(path, sizeof path, "/%s", name);
    int count = zkraw_children(raw, path, NULL, NULL);
    zkraw_close(raw);
    return count;
}

struct names {
    char of[8][128];
    int count;
};

static bool name_keep(void *arg, const char *name)
{
    struct names *names = arg;
    if (names->count < 8)
        snprintf(names->of[names->count++], sizeof names->of[0], "%s", name);
    return true;
}

int contenders_of(const char *name, int64_t session)
{
    int count = 0;
    char path[300];
    struct names names = { .count = 0 };
    struct zkraw *raw = look();
    snprintf(path, sizeof path, "/%.100s", name);
    zkraw_children(raw, path, name_keep, &names);
    for (int i = 0; i < names.count; i++) {
        struct zkraw_stat stat = { 0 };
        snprintf(path, sizeof path, "/%.100s/%s", name, names.of[i]);
        count += zkraw_exists(raw, path, &stat) == 0 && stat.owner == session;
    }
    zkraw_close(raw);
    return count;
}

static const char *sequence_of(const char *name)
{
    size_t len = strlen(name);
    return len > 10 ? name + len - 10 : name;
}

static bool name_first(void *arg, const char *name)
{
    char *first = arg;
    if (!first[0] || strcmp(sequence_of(name), sequence_of(first)) < 0)
        snprintf(first, 128, "%s", name);
    return true;
}

int64_t holder_session(const char *name)
{
    char path[300];
    char first[128] = "";
    struct zkraw_stat stat = { 0 };
    struct zkraw *raw = look();
    snprintf(path, sizeof path, "/%.100s", name);
    CHECK(zkraw_children(raw, path, name_first, first) > 0);
    snprintf(path, sizeof path, "/%.100s/%s", name, first);
    CHECK_EQ(zkraw_exists(raw, path, &stat), 0);
    zkraw_close(raw);
    return stat.owner;
}

bool server_has(size_t node, int64_t session)
{
    static char text[1 << 18];
    char sid[32];
    snprintf(sid, sizeof sid, "sid=%#llx,", (long long)session);
    return world.zoo.node[node].pid && !world.zoo.node[node].frozen &&
           zookeeper_word(&world.zoo, node, "cons", text, sizeof text) &&
           strstr(text, sid);
}

size_t server_of(int64_t session)
{
    for (size_t i = 0; i < world.zoo.count; i++)
        if (server_has(i, session))
            return i;
    check_failed(__FILE__, __LINE__, "a server has the connection of %#llx",
                 (long long)session);
}

static bool node_of_ours(void *arg, const char *path)
{
    char *found = arg;
    if (strncmp(path, "/zookeeper", 10) != 0)
        snprintf(found, 256, "%s", path);
    return !found[0];
}

static bool nothing_left(char *found)
{
    struct zkraw *raw = look();
    found[0] = '\0';
    zkraw_walk(raw, "/", node_of_ours, found);
    zkraw_close(raw);
    return !found[0];
}

void check_nothing_left(void)
{
    char found[256] = "";
    int64_t end = real_ms() + HEAL_MS;
    while (!nothing_left(found))
        if (real_ms() > end)
            check_failed(__FILE__, __LINE__, "%s is gone", found);
}

int64_t check_recovers(hf_client *client)
{
    hf_hold *hold = NULL;
    int64_t since = real_ms();
    CHECK_RC(lock(client, "recovery", HEAL_MS, &hold), 0);
    int64_t took = real_ms() - since;
    CHECK_EQ(contenders("recovery"), 1);
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK(contenders("recovery") <= 0);
    return took;
}

const char *name_of(int rc)
{
    return rc == 0 ? "0" : hf_error_name(rc);
}

void check_one_of(int rc, const char *file, int line, const int *codes)
{
    for (; *codes != 1; codes++)
        if (rc == *codes)
            return;
    check_failed(file, line, "%s (%d) is not among the codes allowed", name_of(rc), rc);
}

void report(const char *fault, int64_t served_ms, const char *saw, ...)
{
    char text[128];
    va_list list;
    va_start(list, saw);
    vsnprintf(text, sizeof text, saw, list);
    va_end(list);
    printf("@%-40s | %-44s | %lld ms\n", fault, text, (long long)served_ms);
}
