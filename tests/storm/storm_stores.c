/* SPDX-License-Identifier: MIT */
/*
 * The stores of a run: private servers and directories, bad weather, and what may be
 * left at the end.
 *
 * store_start() and store_end() are the supervisor's, on its main thread: servers die
 * with it. In lossy runs mem and file sit behind the fault shim, whose plan each worker
 * changes for itself, and servers behind a proxy that the supervisor spoils; redis has
 * both, so that requests are repeated which were done long before.
 */
#include <dirent.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../src/shims/fault.h"
#include "../harness/harness.h"
#include "../harness/tcp_proxy.h"
#include "storm.h"
#ifdef HF_TEST_REDIS
#include "../harness/redis_raw.h"
#include "../harness/redis_server.h"
#endif
#ifdef HF_TEST_ZOOKEEPER
#include "../harness/zookeeper_raw.h"
#include "../harness/zookeeper_server.h"
#endif

#define SESSION_MS 10000
#define CHROOT "/storm"

static struct env env;
static const struct scenario no_scenario;
static struct tcp_proxy *proxy;
#ifdef HF_TEST_ZOOKEEPER
static struct zookeeper zoo;
#endif

static bool store_is(const char *name)
{
    return strncmp(world->config.store, name, strlen(name)) == 0;
}

static bool has_shim(void)
{
    return store_is("mem") || store_is("file") || store_is("redis");
}

/* ---- Starting -------------------------------------------------------------------- */

static void scratch_make(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(env.scratch, sizeof env.scratch, "%s/holdfast-storm-XXXXXX",
             base && strlen(base) < 64 ? base : "/tmp");
    CHECK(mkdtemp(env.scratch) != NULL);
}

#ifdef HF_TEST_ZOOKEEPER
static void zookeeper_begin(void)
{
    char hosts[128];
    struct zookeeper_options options = { .tick_ms = 200, .container_ms = 50 };
    char server[32];
    zookeeper_start(&zoo, 1, &options);
    struct zkraw *raw = zkraw_open(zoo.node[0].port, 60000);
    CHECK_EQ(zkraw_create(raw, CHROOT, "", ZKRAW_PERSISTENT, NULL), 0);
    zkraw_close(raw);
    zookeeper_hosts(&zoo, hosts, sizeof hosts);
    if (world->config.lossy) {
        snprintf(server, sizeof server, ":%d", zoo.node[0].port);
        proxy = proxy_start(server);
        snprintf(hosts, sizeof hosts, "127.0.0.1:%d", proxy_port(proxy));
    }
    snprintf(world->url, sizeof world->url, "zookeeper://%s" CHROOT "?session=%dms",
             hosts, SESSION_MS);
    world->default_ttl = world->session_ms = SESSION_MS;
}
#endif

#ifdef HF_TEST_REDIS
static void redis_begin(void)
{
    const char *query = store_is("redis-simple") ? "?layout=simple" : "";
    const struct redis_server *server = env.store_data;
    world->default_ttl = 30000;
    if (!world->config.lossy)
        return;
    proxy = proxy_start(server->socket);
    snprintf(world->url, sizeof world->url, "fault+redis://127.0.0.1:%d%s",
             proxy_port(proxy), query);
}
#endif

static void url_choose(void)
{
    char name[64];
    bool flock = store_is("flock");
    bool shim = world->config.lossy && has_shim() && !store_is("redis");
    snprintf(name, sizeof name, "%s%s", shim ? "fault+" : "",
             flock ? "file" : world->config.store);
    env.store = store_find(name);
    if (!env.store)
        trouble("there is no store %s in this build", world->config.store);
    env.store->start(&env);
    snprintf(world->url, sizeof world->url, "%s%s", env.url,
             flock ? "?layout=flock" : "");
#ifdef HF_TEST_REDIS
    if (store_is("redis"))
        redis_begin();
#endif
}

void store_start(void)
{
    hf_client *client = NULL;
    hf_error why;
    env.scenario = &no_scenario;
    scratch_make();
#ifdef HF_TEST_ZOOKEEPER
    if (store_is("zookeeper"))
        zookeeper_begin();
    else
#endif
        url_choose();
    stores_register(world->url);
    if (hf_open(world->url, NULL, &client, &why) != 0)
        trouble("hf_open of %s: %s", world->url, why.text);
    world->caps = hf_capabilities(client);
    hf_close(client);
}

void store_connect(void)
{
    stores_register(world->url);
}

/* ---- Weather --------------------------------------------------------------------- */

static void shim_weather(struct rng *rng)
{
    struct hf_fault fault = { .op = (enum hf_fault_op)rng_below(rng, HF_FAULT_OPS),
                              .what = (enum hf_fault_what)(1 + rng_below(rng, 4)),
                              .first = 1 + rng_below(rng, 5),
                              .delay_ms = (int64_t)(1 + rng_below(rng, 60)) };
    fault.last = fault.first + rng_below(rng, 4);
    if (fault.op == HF_FAULT_EVENT)
        fault.what = rng_chance(rng, 500) ? HF_FAULT_LOSE : HF_FAULT_DELAY;
    if (world->config.unsent) { /* the store does not do it, and says so */
        static const enum hf_fault_op ops[] = { HF_FAULT_WITHDRAW, HF_FAULT_WITHDRAW,
                                                HF_FAULT_ATTEMPT, HF_FAULT_RENEW };
        fault.op = ops[rng_below(rng, 4)];
        fault.what = HF_FAULT_FAIL_BEFORE;
    }
    if (proxy) { /* which does the rest: here answers get lost that were on their way */
        fault.op = HF_FAULT_ASK;
        fault.what = HF_FAULT_LOSE;
        fault.last = fault.first;
    }
    hf__fault_plan(&fault, proxy && rng_chance(rng, 850) ? 0 : 1);
}

static void proxy_weather(struct rng *rng)
{
    static const enum proxy_mode modes[] = { PROXY_SWALLOW, PROXY_CUT, PROXY_DELAY,
                                             PROXY_TRICKLE, PROXY_REFUSE };
    enum proxy_mode mode = modes[rng_below(rng, 5)];
    int64_t number = mode == PROXY_CUT ? (int64_t)rng_below(rng, 200) : 30;
    if (rng_chance(rng, 500))
        mode = PROXY_PASS;
    proxy_mode(proxy, mode, number);
}

void store_weather(struct rng *rng)
{
    static int64_t next_ns;
    if (now_ns() < next_ns)
        return;
    next_ns = now_ns() + (int64_t)(10 + rng_below(rng, 80)) * NS_PER_MS;
    if (proxy && !self)
        proxy_weather(rng);
    else if (self && has_shim())
        shim_weather(rng);
}

void store_calm(void)
{
    if (proxy && !self)
        proxy_mode(proxy, PROXY_PASS, 0);
    else if (self && has_shim() && world->config.lossy)
        hf__fault_plan(NULL, 0);
}

/* ---- What is left ---------------------------------------------------------------- */

static hf_want want_home(const struct name *name)
{
    switch (name->family) {
    case F_RW:
        return hf_write(name->text);
    case F_PERMITS:
        return hf_permits(name->text, 1, name->limit);
    case F_EXPIRING:
        return hf_expiring(name->text, name->limit);
    default:
        return hf_mutex(name->text);
    }
}

static void want_touch(struct client *client, hf_want want)
{
    hf_hold *hold = NULL;
    if (hf_acquire(client->handle, &want, 1, NULL, &hold, NULL) == 0)
        hf_release(hold, NULL);
}

/* What holders left that never came back is cleared by the next client that asks, as
 * the same kind. */
static void names_touch(struct client *client)
{
    for (size_t i = 0; i < world->names_count; i++) {
        const struct name *name = &world->names[i];
        if (name->family < F_LATCH)
            want_touch(client, want_home(name));
        if (!name->mixed)
            continue;
        want_touch(client, hf_expiring(name->text, name->limit));
        want_touch(client, hf_permits(name->text, 1, name->limit));
        want_touch(client, hf_permits(name->text, 1, name->limit + 1));
    }
}

/* `true`: the store is as empty as it can be seen to be. */
static bool is_empty(struct client *client, bool tell)
{
    hf_report *report = NULL;
    objects_clear(client);
    names_touch(client);
    if (hf_inspect(client->handle, "", true, &report, NULL) != 0)
        return false;
    size_t count = hf_report_count(report);
    if (count > 0 && tell) {
        const hf_entry *entry = hf_report_entry(report, 0);
        violation(12, "%.60s is left, kind %d, role %d, token %llu, %lld ms left",
                  entry->name, entry->kind, entry->role,
                  (unsigned long long)entry->token, (long long)entry->left_ms);
    }
    hf_report_free(report);
    return count == 0;
}

/* Leases of holds that were left behind, or of killed processes, run out. */
static void emptiness_check(void)
{
    struct client client = { 0 };
    int64_t until = now_ns() + 60000 * NS_PER_MS;
    if (!(world->caps & HF_CAP_INSPECT) || !(world->caps & HF_CAP_PROCESSES) ||
        hf_open(world->url, NULL, &client.handle, NULL) != 0)
        return;
    while (!is_empty(&client, now_ns() > until) && now_ns() <= until)
        poll(NULL, 0, 20); /* pause: between two looks */
    hf_close(client.handle);
}

#ifdef HF_TEST_ZOOKEEPER
static bool node_left(void *arg, const char *path)
{
    char *first = arg;
    if (!first[0])
        snprintf(first, ZKRAW_PATH_MAX, "%s", path);
    return true;
}

static void zookeeper_check(void)
{
    char path[ZKRAW_PATH_MAX] = "";
    struct zkraw *raw = zkraw_open(zoo.node[0].port, 60000);
    for (int tries = 0; tries < 1000; tries++) {
        path[0] = '\0';
        zkraw_walk(raw, CHROOT, node_left, path);
        if (!path[0])
            break;
        poll(NULL, 0, 20); /* pause: the server removes empty containers */
    }
    if (path[0])
        violation(12, "the node %.200s is left", path);
    zkraw_close(raw);
}
#endif

#ifdef HF_TEST_REDIS
/* Tokens stay; whatever else is left ends by itself soon: answers kept for a repeat,
 * and what tells of holds whose lease ran out (a lease and two minutes). */
static bool key_check(void *arg, const char *key)
{
    const char *const ttl[] = { "PTTL", key };
    if (strncmp(key, "redisson_lock_token:", 20) == 0)
        return true;
    long long left = strtoll(raw_call(arg, ttl, 2), NULL, 10);
    bool ours = strncmp(key, "holdfast_", 9) == 0;
    bool ends = left == -2 || (ours && left >= 0 && left <= 160000);
    if (world->config.kills || world->config.lossy) /* semaphores: a day */
        ends |= left >= 0 && left <= 24 * 3600 * 1000 + 160000;
    if (!ends)
        violation(12, "the key %.100s is left, for %lld ms", key, left);
    return true;
}

static void redis_check(void)
{
    const struct redis_server *server = env.store_data;
    struct raw *scan = raw_open(server->socket), *ask = raw_open(server->socket);
    raw_keys(scan, key_check, ask);
    raw_close(scan);
    raw_close(ask);
}
#endif

static void residue_check(void)
{
    char text[256];
#ifdef HF_TEST_ZOOKEEPER
    if (store_is("zookeeper")) {
        zookeeper_check();
        return;
    }
#endif
#ifdef HF_TEST_REDIS
    if (store_is("redis")) {
        redis_check();
        return;
    }
#endif
    if (!store_is("flock") && env.store->residue(&env, text, sizeof text))
        violation(12, "nothing may be left, but there is %s", text);
}

static int entry_remove(const char *path, const struct stat *about, int type,
                        struct FTW *ftw)
{
    (void)about;
    (void)type;
    (void)ftw;
    return remove(path);
}

void store_end(void)
{
    store_calm();
    emptiness_check();
    if (proxy)
        proxy_stop(proxy);
    if (atomic_load(&world->violations) == 0)
        residue_check();
#ifdef HF_TEST_ZOOKEEPER
    if (store_is("zookeeper"))
        zookeeper_stop(&zoo);
    else
#endif
        env.store->stop(&env);
    nftw(env.scratch, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}
