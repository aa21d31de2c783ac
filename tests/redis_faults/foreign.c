/* SPDX-License-Identifier: MIT */
/*
 * layout=simple beside foreign clients, which poll and leave no trace while they wait.
 * holdfast's clients keep the queue full, so that every release has a next waiter; a
 * foreign client must get the lock all the same. If no foreign client comes, or the
 * first waiter dies in the window, the next waiter must get the lock.
 *
 * And Redisson's clients that release without a message.
 */
#include "cases.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONTENDERS = 6, TURNS = 3 };

/* A foreign client gets the lock after some 2.3 s, and a waiter behind a foreign holder
 * asks every second. Both may be late on a busy machine; any other waiter asks again
 * after 30 s. */
enum { SOON_MS = 10000 };

static atomic_bool over;

static hf_client *opened_simple(void)
{
    char url[256];
    hf_client *client = NULL;
    snprintf(url, sizeof url, "redis+unix://%s?protocol=%d&layout=simple",
             world.server.socket, world.protocol);
    CHECK_RC(hf_open(url, NULL, &client, NULL), 0);
    return client;
}

static void *contend(void *arg)
{
    hf_client *client = arg;
    while (!over) {
        hf_hold *hold = NULL;
        CHECK_RC(lock(client, "shared", HF_FOREVER, STEADY_MS, &hold), 0);
        CHECK_RC(hf_release(hold, NULL), 0);
    }
    return NULL;
}

/* As redis-py does: one try each 100 ms. */
static bool foreign_takes(void)
{
    for (int64_t end = real_ms() + PATIENCE_MS; real_ms() < end;) {
        if (raw_say(world.raw, "SET shared theirs NX PX 60000")[0] == 'O')
            return true;
        poll(NULL, 0, 100); /* pause: the foreign client polls */
    }
    return false;
}

static void foreign_among_ours(void)
{
    pthread_t threads[CONTENDERS];
    hf_client *clients[CONTENDERS];
    int64_t longest = 0;
    world_start(NULL);
    for (int i = 0; i < CONTENDERS; i++) {
        clients[i] = opened_simple();
        CHECK(pthread_create(&threads[i], NULL, contend, clients[i]) == 0);
    }
    EVENTUALLY(raw_number(world.raw, "LLEN holdfast_queue:{shared}") >= 2);
    for (int i = 0; i < TURNS; i++) {
        int64_t since = real_ms();
        CHECK(foreign_takes());
        longest = real_ms() - since > longest ? real_ms() - since : longest;
        CHECK_TEXT(raw_say(world.raw, "GET shared"), "theirs");
        raw_say(world.raw, "DEL shared");
        EVENTUALLY(raw_number(world.raw, "EXISTS shared") == 1); /* ours go on */
    }
    over = true;
    for (int i = 0; i < CONTENDERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < CONTENDERS; i++)
        hf_close(clients[i]);
    check_nothing_left(0);
    CHECK(longest < SOON_MS);
    report("a foreign client polls, queue is full", longest, "granted");
}

/* Waits in a process of its own, to be killed. */
static pid_t waits_elsewhere(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    hf_hold *hold = NULL;
    lock(opened_simple(), "shared", HF_FOREVER, STEADY_MS, &hold);
    pause();
    _exit(0);
}

/* The key has been shut for long: the next release leaves it open. */
static void window_is_due(void)
{
    const char *const due[] = {
        "EVAL",
        "redis.call('HSET', KEYS[1], '#shut', redis.call('TIME')[1] * 1000 - 60000)",
        "1",
        "holdfast_info:{shared}",
    };
    raw_call(world.raw, due, 4);
}

/* The first waiter, which was to ask at the end of the window, dies. */
static void first_dies_in_window(void)
{
    hf_op *op = NULL;
    hf_want want = hf_mutex("shared");
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    how.timeout_ms = HF_FOREVER;
    world_start(NULL);
    hf_client *holder = opened_simple(), *next = opened_simple();
    hf_hold *hold = NULL;
    CHECK_RC(lock(holder, "shared", 0, 600000, &hold), 0);
    pid_t first = waits_elsewhere();
    EVENTUALLY(raw_number(world.raw, "LLEN holdfast_queue:{shared}") == 1);
    CHECK_RC(hf_acquire_async(next, &want, 1, &how, NULL, NULL, &op, NULL), 0);
    EVENTUALLY(raw_number(world.raw, "LLEN holdfast_queue:{shared}") == 2);
    window_is_due();
    CHECK_RC(hf_release(hold, NULL), 0);
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    CHECK_EQ(raw_number(world.raw, "HEXISTS holdfast_info:{shared} #empty"), 1);
    int64_t since = real_ms();
    CHECK_RC(hf_release(waited(op), NULL), 0);
    CHECK(real_ms() - since < SOON_MS);
    report("the next waiter dies in an open window", real_ms() - since,
           "the waiter behind it: 0");
    hf_close(next);
    hf_close(holder);
}

/* ---- Redisson's that are silent -------------------------------------------------- */

static hf_op *wanted(hf_client *client, hf_want want)
{
    hf_op *op = NULL;
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    how.timeout_ms = HF_FOREVER;
    CHECK_RC(hf_acquire_async(client, &want, 1, &how, NULL, NULL, &op, NULL), 0);
    return op;
}

/* A waiter asks once more when its subscription is confirmed, and so sees a change
 * before that without asking every second. This returns after a request that came later
 * than this call: each request extends the TTL of the waiters' records. */
static void looks_again(const char *name)
{
    int64_t since = real_ms();
    CHECK_EQ(raw_number(world.raw, "PEXPIRE holdfast_info:{%s} 60000", name), 1);
    EVENTUALLY(raw_number(world.raw, "PTTL holdfast_info:{%s}", name) > 60000);
    CHECK(real_ms() - since < SOON_MS);
}

/* Redisson's spin lock: released without a message, long before its lease ends. */
static void silent_release(void)
{
    world_start(NULL);
    hf_client *client = opened();
    CHECK(rival_try("spun"));
    CHECK(rival_try("fair"));
    hf_op *op = wanted(client, hf_mutex("spun"));
    hf_op *fair = wanted(client, hf_fair("fair"));
    EVENTUALLY(raw_number(world.raw, "LLEN holdfast_queue:{spun}") == 1);
    EVENTUALLY(raw_number(world.raw, "LLEN redisson_lock_queue:{fair}") == 1);
    looks_again("spun");
    looks_again("fair");
    int64_t since = real_ms();
    CHECK_EQ(raw_number(world.raw, "DEL spun fair"), 2);
    CHECK_RC(hf_release(waited(op), NULL), 0);
    CHECK_RC(hf_release(waited(fair), NULL), 0);
    CHECK(real_ms() - since < SOON_MS);
    report("a foreign holder releases silently", real_ms() - since, "granted: 0");
    hf_close(client);
    check_nothing_left(0);
}

/* Its downgrade from write to read. */
static void silent_downgrade(void)
{
    static const char owner[] = "11111111-2222-4333-8444-555555555555:7";
    world_start(NULL);
    hf_client *client = opened();
    raw_say(world.raw, "HSET rw mode write %s:write 1", owner);
    raw_say(world.raw, "PEXPIRE rw 60000");
    hf_op *op = wanted(client, hf_read("rw"));
    EVENTUALLY(raw_number(world.raw, "LLEN holdfast_queue:{rw}") == 1);
    looks_again("rw");
    int64_t since = real_ms();
    raw_say(world.raw, "SET {rw}:%s:rwlock_timeout:1 1 PX 60000", owner);
    raw_say(world.raw, "HSET rw %s 1 mode read", owner);
    raw_say(world.raw, "HDEL rw %s:write", owner);
    CHECK_RC(hf_release(waited(op), NULL), 0);
    CHECK(real_ms() - since < SOON_MS);
    report("a foreign writer downgrades silently", real_ms() - since, "granted: 0");
    hf_close(client);
}

static void option_needs_layout(void)
{
    char url[256];
    hf_client *client = NULL;
    world_start(NULL);
    snprintf(url, sizeof url, "redis+unix://%s?strangers=off", world.server.socket);
    CHECK_RC(hf_open(url, NULL, &client, NULL), HF_EURL);
    snprintf(url, sizeof url, "redis+unix://%s?layout=simple&strangers=some",
             world.server.socket);
    CHECK_RC(hf_open(url, NULL, &client, NULL), HF_EURL);
    snprintf(url, sizeof url, "redis+unix://%s?layout=simple&strangers=off",
             world.server.socket);
    CHECK_RC(hf_open(url, NULL, &client, NULL), 0);
    hf_close(client);
}

const struct fault_case foreign_cases[] = {
    { "foreign-among-ours", foreign_among_ours },
    { "foreign-first-dies", first_dies_in_window },
    { "silent-release", silent_release },
    { "silent-downgrade", silent_downgrade },
    { "foreign-option", option_needs_layout },
    { NULL, NULL },
};
