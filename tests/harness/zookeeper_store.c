/* SPDX-License-Identifier: MIT */
/*
 * The zookeeper rows of the contract suite: see zookeeper_store.h.
 *
 * zookeeper_store_prepare() runs in the runner's process, all else on the main thread
 * of a scenario's. The servers of a lane live as long as the runner. Before a scenario
 * they are made as new: a scenario that failed was killed, and its sessions and nodes
 * are still there. The virtual clock of the servers only ever goes on: a scenario finds
 * it where the last one left it.
 *
 * What may stay after a scenario is nothing at all. Parents are containers, which the
 * server removes when they are empty; these servers look for such every few
 * milliseconds, so that also while a scenario runs a parent is gone the moment its last
 * child is. Sessions must have been ended, not just left to run out. With layout=kazoo
 * folders are kept, as kazoo's clients need them; there it is latches and cells (named
 * hf%..) that must have gone, all else goes with its session.
 */
#include "zookeeper_store.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zookeeper_raw.h"
#include "zookeeper_server.h"

#define LANES_MAX 16
#define CHROOT "/contract"
#define WHERE "HOLDFAST_TEST_ZOOKEEPER"
#define RAW_MS 60000

/* On the virtual clock: as long as leases are where processes are stopped (TTL in
 * token.c), who have lost what they hold when it is over; elsewhere longer than the
 * clock ever jumps, so that leases end in company of a session that goes on. */
#define SESSION_MS 30000
#define LONG_MS (2 * 3600 * 1000)

struct keepers {
    struct zookeeper zoo;
    bool own;
};

/* ---- The servers ----------------------------------------------------------------- */

static void servers_start(struct zookeeper *zoo, size_t count, const char *clock)
{
    static const char zero[8];
    struct zookeeper_options options = {
        .tick_ms = 20, .sync_ticks = 3000, .container_ms = 20, .clock = clock
    };
    int fd = open(clock, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, zero, sizeof zero) == (ssize_t)sizeof zero);
    close(fd);
    zookeeper_start(zoo, count, &options);
}

static struct zookeeper lanes[LANES_MAX];

static void lanes_stop(void)
{
    for (size_t i = 0; i < LANES_MAX; i++) {
        unlink(lanes[i].clock);
        zookeeper_stop(&lanes[i]);
    }
}

/* Where the servers are, for who is started next: the struct itself, in a file. */
static void lane_tell(const struct zookeeper *zoo)
{
    char path[128];
    snprintf(path, sizeof path, "%s/servers", zoo->directory);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fwrite(zoo, sizeof *zoo, 1, file) == 1 && fclose(file) == 0);
    CHECK_EQ(setenv(WHERE, path, 1), 0);
}

void zookeeper_store_prepare(size_t lane, size_t servers)
{
    static bool registered;
    char clock[64]; /* named so that zookeeper_start() sweeps what a kill leaves */
    CHECK(lane < LANES_MAX);
    struct zookeeper *zoo = &lanes[lane];
    if (!registered)
        CHECK_EQ(atexit(lanes_stop), 0);
    registered = true;
    if (zoo->count != servers) {
        if (zoo->count)
            unlink(zoo->clock);
        zookeeper_stop(zoo);
        snprintf(clock, sizeof clock, "%s/holdfast-zk-%d-clock-XXXXXX",
                 access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp",
                 (int)getpid());
        close(mkstemp(clock));
        servers_start(zoo, servers, clock);
    }
    lane_tell(zoo);
}

/* ---- A scenario ------------------------------------------------------------------ */

/* Servers whose clocks have jumped may have to elect a leader first. They may also do
 * so later and drop this session's connection: what needs it is repeated then. */
static struct zkraw *look(const struct keepers *keepers)
{
    struct zkraw *raw = NULL;
    EVENTUALLY((raw = zkraw_open_quietly(keepers->zoo.node[0].port, RAW_MS)));
    return raw;
}

/* Every number after "\t0x" in what a server says of its sessions, but for `mine`. */
static void sessions_end(const struct keepers *keepers, int64_t mine)
{
    static char text[1 << 20];
    size_t leader = zookeeper_leader(&keepers->zoo);
    EVENTUALLY(zookeeper_word(&keepers->zoo, leader, "dump", text, sizeof text));
    char *end = strstr(text, "ephemeral nodes dump");
    CHECK(end != NULL);
    *end = '\0';
    for (char *at = text; (at = strstr(at, "\t0x")); at++) {
        int64_t session = (int64_t)strtoull(at + 1, NULL, 16);
        if (session != mine)
            zkraw_expire_quietly(keepers->zoo.node[leader].port, session);
    }
}

static bool node_clear(void *arg, const char *name)
{
    char path[ZKRAW_PATH_MAX];
    snprintf(path, sizeof path, "/%.*s", ZKRAW_PATH_MAX - 2, name);
    if (strcmp(name, "zookeeper") != 0)
        zkraw_remove(arg, path);
    return true;
}

/* False if the connection was lost. The next try ends this session, too. */
static bool servers_clear(const struct keepers *keepers)
{
    struct zkraw *raw = look(keepers);
    sessions_end(keepers, zkraw_session(raw));
    zkraw_children(raw, "/", node_clear, raw);
    int rc = zkraw_create(raw, CHROOT, "", ZKRAW_PERSISTENT, NULL);
    bool lost = zkraw_is_lost(raw);
    CHECK(lost || rc == 0);
    zkraw_close(raw);
    return !lost;
}

static void keepers_find(struct keepers *keepers, const struct env *e, size_t servers)
{
    char clock[160];
    const char *path = getenv(WHERE);
    if (path) {
        FILE *file = fopen(path, "re");
        CHECK(file != NULL && fread(&keepers->zoo, sizeof keepers->zoo, 1, file) == 1);
        fclose(file);
        return;
    }
    keepers->own = true;
    snprintf(clock, sizeof clock, "%s/clock", e->scratch);
    servers_start(&keepers->zoo, servers, clock);
}

static int session_ms(const struct scenario *scenario)
{
    bool stops = scenario->needs & HF_CAP_PROCESSES;
    return (scenario->flags & CLOCK) && !stops ? LONG_MS : SESSION_MS;
}

void zookeeper_store_start(struct env *e, size_t servers, const char *prefix,
                           const char *query)
{
    char hosts[128];
    /* A request under way while the clock jumps is not late. */
    const char *patience = e->scenario->flags & CLOCK ? "&timeout=600000ms" : "";
    struct keepers *keepers = calloc(1, sizeof *keepers);
    CHECK(keepers != NULL);
    keepers_find(keepers, e, servers);
    EVENTUALLY(servers_clear(keepers));
    zookeeper_hosts(&keepers->zoo, hosts, sizeof hosts);
    snprintf(e->url, sizeof e->url, "%szookeeper://%s" CHROOT "?session=%dms%s%s",
             prefix, hosts, session_ms(e->scenario), patience, query);
    snprintf(e->clock, sizeof e->clock, "%s", keepers->zoo.clock);
    e->store_data = keepers;
}

void zookeeper_store_settle(const struct env *e)
{
    struct keepers *keepers = e->store_data;
    if (e->scenario->flags & CLOCK)
        zookeeper_settle(&keepers->zoo);
}

void zookeeper_store_stop(struct env *e)
{
    struct keepers *keepers = e->store_data;
    if (keepers->own)
        zookeeper_stop(&keepers->zoo);
    free(keepers);
    e->store_data = NULL;
}

/* ---- What is left ---------------------------------------------------------------- */

struct left {
    bool folders; /* may stay */
    uint64_t count;
    char path[ZKRAW_PATH_MAX];
};

static bool node_left(void *arg, const char *path)
{
    struct left *left = arg;
    bool object = strstr(path, "/hf%") && !strstr(path, "/hf%expiring");
    if (left->folders && !object)
        return true;
    if (left->count++ == 0)
        snprintf(left->path, sizeof left->path, "%s", path);
    return true;
}

/* Waits for the server to remove containers, while there are fewer and fewer. */
static void nodes_left(const struct env *e, struct zkraw *raw, struct left *left)
{
    uint64_t before = UINT64_MAX;
    int64_t since = real_ms();
    left->folders = strstr(e->url, "layout=kazoo");
    for (;;) {
        left->count = 0;
        zkraw_walk(raw, CHROOT, node_left, left);
        if (left->count == 0 || real_ms() - since > 3000)
            break;
        if (left->count < before)
            since = real_ms();
        before = left->count;
        poll(NULL, 0, 2); /* pause: between two looks */
    }
}

/* False if the connection was lost: this look is repeated then. */
static bool nodes_seen(const struct env *e, struct left *left)
{
    struct keepers *keepers = e->store_data;
    struct zkraw *raw = look(keepers);
    int64_t session = zkraw_session(raw);
    nodes_left(e, raw, left);
    bool lost = zkraw_is_lost(raw);
    zkraw_close(raw);
    if (lost)
        zkraw_expire_quietly(keepers->zoo.node[0].port, session);
    return !lost;
}

static bool no_session(const struct keepers *keepers)
{
    size_t leader = zookeeper_leader(&keepers->zoo);
    return zookeeper_number(&keepers->zoo, leader, "global_sessions") == 0;
}

bool zookeeper_store_residue(const struct env *e, char *text, size_t size)
{
    struct left left;
    struct keepers *keepers = e->store_data;
    EVENTUALLY(no_session(keepers));
    EVENTUALLY(nodes_seen(e, &left));
    if (left.count > 0)
        snprintf(text, size, "the node %.200s", left.path);
    CHECK_EQ(zookeeper_total(&keepers->zoo, "watch_count"), 0);
    return left.count > 0;
}

uint64_t zookeeper_store_weight(const struct env *e)
{
    struct left left;
    EVENTUALLY(nodes_seen(e, &left));
    return left.count;
}
