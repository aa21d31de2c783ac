/* SPDX-License-Identifier: MIT */
/*
 * A ZooKeeper server of the bench's own, and the least a C program needs to talk to
 * one.
 *
 * The server is private to the run: one alone on a port of the loopback, its data in
 * memory where the machine has a tmpfs with room for it. It is started by the first
 * group that needs it and stopped at the end; if the bench dies the kernel stops it.
 */
#ifndef BENCH_ZOOKEEPER_BARE_H
#define BENCH_ZOOKEEPER_BARE_H

#include "bench.h"

#include <sys/types.h>

#define ZOO_PATH_SIZE 128

struct zookeeper {
    pid_t pid;
    int port;
    char url[64];  /* zookeeper://127.0.0.1:port/bench */
    char dir[300]; /* of its data */
};

/* The server of this run, started if need be. NULL: there is none, and why was said. */
const struct zookeeper *zookeeper_server(struct bench *bench);
void zookeeper_stop(struct bench *bench);
/* All threads of the server to the core of pin_one(), or to all of them. */
void zookeeper_pin(const struct zookeeper *server, bool one);

/* Packets to and from clients so far (requests; answers and events), but for those of
 * this question: to be subtracted from each other. */
struct zoo_packets {
    int64_t received, sent;
};
int zookeeper_packets(const struct zookeeper *server, struct zoo_packets *ret_packets);

/* How many wait in a crowd of this run; and a crowd of ours, with the figures of
 * ours_crowd(). */
int zookeeper_crowd_size(const struct bench *bench);
int zookeeper_crowd(struct bench *bench, const struct zookeeper *server,
                    struct figures *ret_figures);

/* ---- A bare blocking session ----------------------------------------------------- */

struct zoo_bare {
    int fd;
    int32_t xid;
    int events;       /* that came while something else was awaited */
    int32_t error;    /* of the last answer, and */
    size_t at, until; /* what it says, in `in` */
    size_t from, to;
    char in[1 << 17]; /* the names of a thousand children, and more */
};

int zoo_open(struct zoo_bare *bare, const struct zookeeper *server);
void zoo_close(struct zoo_bare *bare); /* ends the session, too */

/* One node each, all open to everyone; what is made is there for good, or ephemeral and
 * with a number behind its path, which *ret_path then has. */
int zoo_make(struct zoo_bare *bare, const char *path);
int zoo_create(struct zoo_bare *bare, const char *path, char ret_path[ZOO_PATH_SIZE]);
int zoo_delete(struct zoo_bare *bare, const char *path);
/* Create, and list the folder, in one flight. */
int zoo_create_and_list(struct zoo_bare *bare, const char *folder, const char *path,
                        char ret_path[ZOO_PATH_SIZE]);
/* 1: it is there, and watched. 0: it is not. */
int zoo_watch(struct zoo_bare *bare, const char *path);
int zoo_await_event(struct zoo_bare *bare);

/* Lists the folder. 1: nobody is before `own`. 0: ret_ahead is next before it. */
int zoo_look(struct zoo_bare *bare, const char *folder, const char *own,
             char ret_ahead[ZOO_PATH_SIZE]);

/* For those who have many sessions in one loop: the halves of the calls above. */
int zoo_ask_list(struct zoo_bare *bare, const char *folder);
int zoo_ask_delete(struct zoo_bare *bare, const char *path);
enum zoo_packet { ZOO_FAILED = -1, ZOO_EVENT, ZOO_ANSWER };
enum zoo_packet zoo_next(struct zoo_bare *bare);
/* What the last answer said: as zoo_look(). */
int zoo_judge(const struct zoo_bare *bare, const char *folder, const char *own,
              char ret_ahead[ZOO_PATH_SIZE]);

/* The path of a lock's node, but for its number, in the form that Curator uses. */
void zoo_lock_path(char path[ZOO_PATH_SIZE], const char *folder);

#endif
