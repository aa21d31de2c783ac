/* SPDX-License-Identifier: MIT */
/* The private redis-server of a test of the connection, and a second opinion on it:
 * `raw`. */
#ifndef HF_TESTS_CONN_SERVER_H
#define HF_TESTS_CONN_SERVER_H

#include "../harness/redis_raw.h"
#include "../harness/redis_server.h"
#include "conn_stage.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DIRECTORY "/tmp/hf-conn-XXXXXX"

static struct redis_server server;
static struct raw *raw;
static char directory[] = DIRECTORY;

static inline void server_begin(const char *const *options)
{
    snprintf(directory, sizeof directory, "%s", DIRECTORY);
    ck_assert_ptr_nonnull(mkdtemp(directory));
    redis_start(&server, directory, false, options);
    raw = raw_open(server.socket);
}

static inline void server_end(void)
{
    char path[256];

    raw_close(raw);
    if (server.pid)
        redis_kill(&server);
    unlink(server.socket);
    snprintf(path, sizeof path, "%s/redis.log", directory);
    unlink(path);
    ck_assert_int_eq(rmdir(directory), 0);
}

static inline struct conn_settings settings_of(int protocol)
{
    struct conn_settings settings = stage_settings(server.socket);
    settings.protocol = protocol;
    return settings;
}

static inline void open_fine(struct stage *stage, int protocol,
                             struct fake_clock *clock)
{
    struct conn_settings settings = settings_of(protocol);
    int rc = stage_open(stage, &settings, clock);
    ck_assert_msg(rc == 0, "%d: %s", rc, stage->why.text);
}

#endif
