/* SPDX-License-Identifier: MIT */
/*
 * A follower is cut off from its leader and does not know it: it goes on answering its
 * clients, while the leader hears nothing of their sessions any more and ends them. A
 * holder that is connected there must have stopped believing before the next client is
 * admitted; and if it knows other servers it must have moved to one of them in time.
 *
 * The follower has been given other ports for the other servers, where proxies listen.
 * It may be silent for much longer than a session before the two sides give each other
 * up.
 */
#include "cases.h"

#include <stdio.h>
#include <string.h>

#define THING "thing"
#define SYNC_TICKS 150 /* of 100 ms */

/* ---- An ensemble with a thin place ----------------------------------------------- */

struct thin {
    size_t follower;
    struct tcp_proxy *proxies[ZOOKEEPER_MAX]; /* before the ports of the others */
};

static void config_read(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    CHECK(file != NULL);
    size_t len = fread(text, 1, size - 1, file);
    text[len] = '\0';
    CHECK(len < size - 1 && fclose(file) == 0);
}

/* What comes later in the file holds. */
static void config_bend(struct thin *thin)
{
    char path[160], text[4096], where[32];
    snprintf(path, sizeof path, "%s/%zu/zoo.cfg", world.zoo.directory,
             thin->follower + 1);
    config_read(path, text, sizeof text);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fputs(text, file) >= 0);
    for (size_t i = 0; i < world.zoo.count; i++) {
        const struct zookeeper_node *node = &world.zoo.node[i];
        if (i == thin->follower)
            continue;
        snprintf(where, sizeof where, ":%d", node->quorum_port);
        thin->proxies[i] = proxy_start(where);
        fprintf(file, "server.%zu=127.0.0.1:%d:%d\n", i + 1,
                proxy_port(thin->proxies[i]), node->election_port);
    }
    CHECK_EQ(fclose(file), 0);
}

static void thin_set(struct thin *thin, enum proxy_mode mode)
{
    for (size_t i = 0; i < world.zoo.count; i++)
        if (thin->proxies[i])
            proxy_mode(thin->proxies[i], mode, 0);
}

static bool thin_in_use(const struct thin *thin)
{
    for (size_t i = 0; i < world.zoo.count; i++)
        if (thin->proxies[i] && proxy_count(thin->proxies[i]).connections > 0)
            return true;
    return false;
}

static void thin_start(struct thin *thin)
{
    struct zookeeper_options options = { .tick_ms = 100,
                                         .sync_ticks = SYNC_TICKS,
                                         .container_ms = 50,
                                         .base = world.directory };
    world_done();
    world.session_ms = SESSION_MS;
    zookeeper_start(&world.zoo, 3, &options);
    thin->follower = zookeeper_follower(&world.zoo);
    zookeeper_kill(&world.zoo, thin->follower);
    config_bend(thin);
    zookeeper_run(&world.zoo, thin->follower);
    zookeeper_settle(&world.zoo);
    CHECK(thin_in_use(thin));
    CHECK(zookeeper_leader(&world.zoo) != thin->follower);
}

static void thin_end(struct thin *thin)
{
    world_done();
    for (size_t i = 0; i < ZOOKEEPER_MAX; i++)
        if (thin->proxies[i])
            proxy_stop(thin->proxies[i]);
}

/* A client of that follower; of the others; of all, and connected to the follower. */
static hf_client *opened_there(const struct thin *thin)
{
    return opened_at((unsigned)1 << thin->follower, "");
}

static hf_client *opened_elsewhere(const struct thin *thin)
{
    return opened_at(7 & ~((unsigned)1 << thin->follower), "");
}

static hf_client *opened_by_chance(const struct thin *thin, hf_hold **ret_hold)
{
    for (;;) {
        hf_client *client = opened("");
        *ret_hold = locked(client, THING);
        if (server_has(thin->follower, holder_session(THING)))
            return client;
        CHECK_RC(hf_release(*ret_hold, NULL), 0);
        hf_close(client);
    }
}

/* ---- Cases ----------------------------------------------------------------------- */

/* The follower answers all the while: the holder has to find out by itself. */
static void follower_cut(void)
{
    struct thin thin = { 0 };
    struct events events = { 0 };
    struct waiter waiter;
    thin_start(&thin);
    hf_client *a = opened_there(&thin);
    hf_client *b = opened_elsewhere(&thin);
    hf_hold *hold = locked(a, THING);
    watch(hold, &events);
    waiter_start(&waiter, b, THING, 1, hold);
    thin_set(&thin, PROXY_HOLE);
    int64_t served = waiter_served(&waiter);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    EVENTUALLY(atomic_load(&events.lost) == 1);
    waiter_blind(&waiter);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK_RC(hf_release(waiter.hold, NULL), 0);
    thin_set(&thin, PROXY_PASS);
    hf_close(a);
    hf_close(b);
    thin_end(&thin);
    report("follower cut off, holder knows no other", served, "LOST before the next");
}

/* It goes to another server before the leader has ended the session. */
static void follower_cut_and_left(void)
{
    struct thin thin = { 0 };
    struct events events = { 0 };
    struct waiter waiter;
    hf_hold *hold = NULL;
    thin_start(&thin);
    hf_client *a = opened_by_chance(&thin, &hold);
    hf_client *b = opened_elsewhere(&thin);
    int64_t session = holder_session(THING);
    watch(hold, &events);
    waiter_start(&waiter, b, THING, 1, hold);
    thin_set(&thin, PROXY_HOLE);
    int64_t since = real_ms();
    EVENTUALLY(!server_has(thin.follower, session));
    int64_t took = real_ms() - since;
    CHECK(took < SESSION_MS);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    EVENTUALLY(hf_hold_state(hold) == HF_HELD); /* a look is no renewal; that comes */
    CHECK_EQ(events.lost, 0);
    waiter_blind(&waiter);
    CHECK_RC(hf_release(hold, NULL), 0);
    waiter_served(&waiter);
    CHECK_RC(hf_release(waiter.hold, NULL), 0);
    hf_close(a);
    hf_close(b);
    thin_end(&thin);
    report("follower cut off, holder knows others", took, "still held, elsewhere");
}

const struct fault_case cut_cases[] = {
    { "follower-cut", follower_cut },
    { "follower-cut-and-left", follower_cut_and_left },
    { NULL, NULL },
};
