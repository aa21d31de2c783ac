/* SPDX-License-Identifier: MIT */
/*
 * Private ZooKeeper servers on the loopback: one alone, or an ensemble of a few.
 *
 *     struct zookeeper zoo = { 0 };
 *     char hosts[256];
 *     zookeeper_start(&zoo, 3, NULL);
 *     zookeeper_hosts(&zoo, hosts, sizeof hosts);
 *     ...
 *     size_t leader = zookeeper_leader(&zoo);
 *     zookeeper_kill(&zoo, leader);
 *     ...
 *     zookeeper_run(&zoo, leader);
 *     zookeeper_settle(&zoo);
 *     zookeeper_stop(&zoo);
 *
 * A start takes one to three seconds. The servers keep their data in a directory of
 * their own, in memory where the machine has a tmpfs for it, and die with the thread
 * that started them: call all of this from the main thread. A step that fails ends the
 * test, like every check. zookeeper_raw.h speaks with them.
 */
#ifndef HARNESS_ZOOKEEPER_SERVER_H
#define HARNESS_ZOOKEEPER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ZOOKEEPER_MAX 5

struct zookeeper_options {
    int tick_ms;      /* 0: 200; sessions end with the next tick after their time */
    int sync_ticks;   /* 0: 10; followers that are silent for so long are left behind */
    int container_ms; /* 0: 60 s; how often empty containers are removed */
    const char *clock; /* file whose shift the servers' clocks follow, or NULL */
    const char *more;  /* lines for zoo.cfg, or NULL */
    const char *base;  /* where to make the servers' directory, or NULL */
};

struct zookeeper_node {
    pid_t pid; /* 0: not running */
    bool frozen;
    int port; /* for clients; a server that is run again has the same one */
    int quorum_port;
    int election_port;
};

struct zookeeper {
    char directory[96];
    char clock[160];
    size_t count;
    struct zookeeper_options options;
    struct zookeeper_node node[ZOOKEEPER_MAX];
};

/* Starts `count` servers (1: standalone) and waits until all of them serve. */
void zookeeper_start(struct zookeeper *zoo, size_t count,
                     const struct zookeeper_options *options);

/* Kills all of them and removes their data. Fine if none runs. */
void zookeeper_stop(struct zookeeper *zoo);

/* "127.0.0.1:20001,127.0.0.1:20004,...": what stands in a URL. */
void zookeeper_hosts(const struct zookeeper *zoo, char *text, size_t size);

/* One server: SIGKILL; starts it again, without waiting; SIGSTOP and SIGCONT. */
void zookeeper_kill(struct zookeeper *zoo, size_t node);
void zookeeper_run(struct zookeeper *zoo, size_t node);
void zookeeper_freeze(struct zookeeper *zoo, size_t node);
void zookeeper_thaw(struct zookeeper *zoo, size_t node);

/* Waits until every server that runs and is not frozen serves. */
void zookeeper_settle(struct zookeeper *zoo);

/* The server that leads, which in a single one is itself; and any that does not. */
size_t zookeeper_leader(const struct zookeeper *zoo);
size_t zookeeper_follower(const struct zookeeper *zoo);

/* What a server says to a four-letter word: srvr, mntr, dump, cons, wchp. False if it
 * says nothing within a second. */
bool zookeeper_word(const struct zookeeper *zoo, size_t node, const char *word,
                    char *text, size_t size);

/* One number of its `mntr`, without the prefix zk_: "packets_received", "watch_count",
 * "global_sessions", "ephemerals_count". And of all that run, added up. */
int64_t zookeeper_number(const struct zookeeper *zoo, size_t node, const char *key);
int64_t zookeeper_total(const struct zookeeper *zoo, const char *key);

#endif
