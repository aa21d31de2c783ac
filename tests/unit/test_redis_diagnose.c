/* SPDX-License-Identifier: MIT */
/*
 * The findings of `doctor` about a Redis server, for servers of many kinds: the redis
 * store against a played server. Each finding has its level, its topic and its text;
 * advice if something is wrong, and no advice if all is well.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "redis_peer.h"

#include <stdio.h>
#include <string.h>

enum { EIGHT = 8 };

struct server {
    const char *info; /* the whole reply, or NULL: what follows */
    const char *version, *memory, *disk, *role;
    const char *time; /* the whole reply; NULL: our own time */
    const char *script;
};

#define VERSION "redis_version:7.0.15\r\n"
#define MEMORY "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
#define DISK "aof_enabled:1\r\n"
#define ROLE "role:master\r\nconnected_slaves:0\r\ncluster_enabled:0\r\n"
#define FAR_AWAY "*2\r\n$10\r\n4102444800\r\n$1\r\n0\r\n" /* the year 2100 */

static const struct server healthy = { .version = VERSION,
                                       .memory = MEMORY,
                                       .disk = DISK,
                                       .role = ROLE,
                                       .time = FAR_AWAY,
                                       .script = ":1\r\n" };

static struct hf_request request;

static void say_info(const struct server *server)
{
    char text[2048], reply[2200];
    if (server->info) {
        peer_say(server->info);
        return;
    }
    int len =
        snprintf(text, sizeof text, "# Server\r\n%s\r\n# Memory\r\n%s# Disk\r\n%s%s",
                 server->version, server->memory, server->disk, server->role);
    snprintf(reply, sizeof reply, "$%d\r\n%s\r\n", len, text);
    peer_say(reply);
}

static void say_time(const struct server *server)
{
    char reply[128], seconds[32], micros[16];
    int64_t now = hf__wall_us();
    snprintf(seconds, sizeof seconds, "%lld", (long long)(now / 1000000));
    snprintf(micros, sizeof micros, "%lld", (long long)(now % 1000000));
    snprintf(reply, sizeof reply, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(seconds),
             seconds, strlen(micros), micros);
    peer_say(server->time ? server->time : reply);
}

static void ask(void)
{
    request = fake_request(HF_DIAGNOSE, "");
    peer.host.finding_count = 0;
    peer.host.progress_count = 0;
    peer.host.calls++;
    hf__backend_redis.ask(peer.host.session, &request);
    peer.host.calls--;
    peer_expect("INFO");
    peer_expect("TIME");
    peer_expect("EVAL return 1 0");
}

/* What is said of one; three answers are three steps. */
static void examine(const struct server *server)
{
    ask();
    say_info(server);
    say_time(server);
    peer_say(server->script);
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_ANSWERED);
    ck_assert_int_eq(answer.code, 0);
    ck_assert_uint_eq(peer.host.progress_count, 3);
}

static const struct fake_finding *found(const char *topic)
{
    const struct fake_finding *only = NULL;
    for (size_t i = 0; i < peer.host.finding_count; i++)
        if (strcmp(peer.host.findings[i].topic, topic) == 0) {
            ck_assert_msg(!only, "two of %s", topic);
            only = &peer.host.findings[i];
        }
    return only;
}

static void expect(const char *topic, int level, const char *what)
{
    const struct fake_finding *finding = found(topic);
    ck_assert_msg(finding != NULL, "nothing of %s", topic);
    ck_assert_msg(strstr(finding->what, what), "%s", finding->what);
    ck_assert_int_eq(finding->level, level);
    ck_assert_int_eq(finding->fix[0] == '\0', level == HF_GOOD);
}

START_TEST(a_healthy_server)
{
    peer_open("");
    examine(&healthy);
    ck_assert_uint_eq(peer.host.finding_count, 6);
    expect("version", HF_GOOD, "Redis 7.0.15");
    expect("eviction", HF_GOOD, "maxmemory 0, maxmemory-policy noeviction");
    expect("persistence", HF_GOOD, "append-only");
    expect("role", HF_GOOD, "primary without replicas");
    expect("clock", HF_REMARK, "ahead of ours");
    expect("scripts", HF_GOOD, "EVAL is allowed");
    peer_close();
}
END_TEST

START_TEST(versions)
{
    static const struct {
        const char *info;
        int level;
        const char *what;
    } rows[EIGHT] = {
        { "redis_version:5.0.14\r\n", HF_REMARK, "Redis 5.0.14" },
        { "redis_version:6.0.0\r\n", HF_GOOD, "Redis 6.0.0" },
        { "redis_version:10.1\r\n", HF_GOOD, "Redis 10.1" },
        { "redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n", HF_GOOD, "Valkey 8.0.1" },
        { "redis_versions:9\r\nredis_version:6.1\r\n", HF_GOOD, "Redis 6.1" },
        { "redis_version\r\nredis_version:6.2\r\n", HF_GOOD, "Redis 6.2" },
        { "xredis_version:5\r\nredis_version:6.3\r\n", HF_GOOD, "Redis 6.3" },
        { "redis_version:6.4444444444444444444444444444444444444\r\n", HF_GOOD,
          "Redis 6.44444" },
    };
    peer_open("");
    for (size_t i = 0; i < EIGHT; i++) {
        struct server server = healthy;
        server.version = rows[i].info;
        examine(&server);
        expect("version", rows[i].level, rows[i].what);
        expect("role", HF_GOOD, "primary"); /* the lines behind it were read */
    }
    peer_close();
}
END_TEST

START_TEST(evictions)
{
    struct server server = healthy;
    peer_open("");
    server.memory = "maxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n";
    examine(&server);
    expect("eviction", HF_TRAP, "maxmemory 1000, maxmemory-policy allkeys-lru");
    server.memory = "maxmemory_policy:allkeys-lru\r\nmaxmemory:0\r\n";
    examine(&server);
    expect("eviction", HF_GOOD, "maxmemory 0, maxmemory-policy allkeys-lru");
    server.memory = "maxmemory:18446744073709551615\r\nmaxmemory_policy:noeviction\r\n";
    examine(&server);
    expect("eviction", HF_GOOD, "18446744073709551615");
    peer_close();
}
END_TEST

START_TEST(disks)
{
    struct server server = healthy;
    peer_open("");
    server.disk = "aof_enabled:0\r\n";
    examine(&server);
    expect("persistence", HF_TRAP, "forgets locks");
    server.disk = ""; /* not in its INFO */
    examine(&server);
    expect("persistence", HF_TRAP, "forgets locks");
    peer_close();
}
END_TEST

START_TEST(roles)
{
    struct server server = healthy;
    peer_open("");
    server.role = "role:slave\r\nconnected_slaves:2\r\n";
    examine(&server);
    expect("role", HF_TRAP, "replica");
    server.role = "role:master\r\nconnected_slaves:1\r\n";
    examine(&server);
    expect("role", HF_REMARK, "failover");
    ck_assert_ptr_null(found("cluster"));
    server.role = "role:master\r\nconnected_slaves:0\r\ncluster_enabled:1\r\n";
    examine(&server);
    expect("role", HF_GOOD, "primary");
    expect("cluster", HF_TRAP, "cluster");
    server.role = "role:master\r\ncluster_enabled:1"; /* and no line end */
    examine(&server);
    expect("cluster", HF_TRAP, "cluster");
    server.role = "cluster_enabled:1\r\nrole:master";
    examine(&server);
    expect("role", HF_GOOD, "primary");
    peer_close();
}
END_TEST

START_TEST(clocks)
{
    struct server server = healthy;
    peer_open("");
    server.time = "*2\r\n$10\r\n4102444800\r\n$6\r\n999999\r\n";
    examine(&server);
    expect("clock", HF_REMARK, "ahead of ours");
    server.time = "*2\r\n:0\r\n:0\r\n"; /* 1970 */
    examine(&server);
    expect("clock", HF_REMARK, "behind ours");
    /* Our own time, unless this machine was too slow for that. */
    server.time = NULL;
    for (int i = 0; i < 100; i++) {
        examine(&server);
        if (found("clock")->level == HF_GOOD)
            break;
    }
    expect("clock", HF_GOOD, "ms ");
    peer_close();
}
END_TEST

/* How far the clocks are apart: a day and our own time. */
START_TEST(clocks_in_milliseconds)
{
    enum { DAY_S = 86400, MINUTE_MS = 60000 };
    struct server server = healthy;
    char time[64];
    peer_open("");
    for (int sign = -1; sign <= 1; sign += 2) {
        int64_t now = hf__wall_us() / 1000000;
        snprintf(time, sizeof time, "*2\r\n:%lld\r\n:500000\r\n",
                 (long long)(now + sign * DAY_S));
        server.time = time;
        examine(&server);
        expect("clock", HF_REMARK, sign < 0 ? "behind ours" : "ahead of ours");
        long long ms = 0;
        ck_assert_int_eq(
            sscanf(found("clock")->what, "the server's clock is %lld ms", &ms), 1);
        ck_assert_int_gt(ms, DAY_S * 1000LL - MINUTE_MS);
        ck_assert_int_lt(ms, DAY_S * 1000LL + MINUTE_MS);
    }
    peer_close();
}
END_TEST

START_TEST(times_that_are_none)
{
    static const char *const none[] = {
        "*1\r\n:4102444800\r\n",
        "*0\r\n",
        ":4102444800\r\n",
        "*2\r\n+x\r\n:0\r\n",
        "*2\r\n:4102444800\r\n+x\r\n",
        "*2\r\n:-1\r\n:0\r\n",
        "*2\r\n:4102444800\r\n:-1\r\n",
        "*2\r\n:4102444800\r\n:1000000\r\n",
        "*2\r\n:100000000001\r\n:0\r\n",
        "-NOPERM no TIME\r\n",
    };
    static const char *const some[] = { "*2\r\n:100000000000\r\n:0\r\n",
                                        "*2\r\n:0\r\n:0\r\n" };
    struct server server = healthy;
    peer_open("");
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        server.time = none[i];
        examine(&server);
        ck_assert_msg(!found("clock"), "%s", none[i]);
        ck_assert_uint_eq(peer.host.finding_count, 5);
    }
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        server.time = some[i];
        examine(&server);
        expect("clock", HF_REMARK, "ours");
    }
    peer_close();
}
END_TEST

START_TEST(what_the_user_may_not)
{
    struct server server = healthy;
    peer_open("");
    server.script = "-NOPERM no EVAL\r\n";
    examine(&server);
    expect("scripts", HF_TRAP, "may not");
    server.info = "-NOPERM no INFO\r\n";
    examine(&server);
    expect("info", HF_REMARK, "may not read INFO");
    ck_assert_uint_eq(peer.host.finding_count, 3);
    server.info = ":7\r\n"; /* is no INFO */
    examine(&server);
    expect("info", HF_REMARK, "may not read INFO");
    peer_close();
}
END_TEST

/* Its answer is one, and comes last, however much was heard. */
START_TEST(a_server_that_goes_away)
{
    peer_open("");
    for (int heard = 0; heard < 3; heard++) {
        ask();
        if (heard > 0)
            say_info(&healthy);
        if (heard > 1)
            say_time(&healthy);
        peer_hang_up();
        struct fake_answer answer = fake_next(&peer.host);
        ck_assert_int_eq(answer.what, FAKE_ANSWERED);
        ck_assert_int_eq(answer.code, HF_EUNCERTAIN);
        ck_assert(answer.why.text[0]);
        ck_assert(fake_quiet(&peer.host));
        peer_again();
    }
    peer_close();
}
END_TEST

UNIT_MAIN("redis_diagnose", a_healthy_server, versions, evictions, disks, roles, clocks,
          clocks_in_milliseconds, times_that_are_none, what_the_user_may_not,
          a_server_that_goes_away)
