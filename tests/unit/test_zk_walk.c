/* SPDX-License-Identifier: MIT */
/*
 * A walk over many folders on a slow ZooKeeper server: the whole library against a
 * server that a thread plays and that takes 40 seconds for each reply, by a clock that
 * it moves itself. None of the folders has an entry. The request timeout is a minute.
 */
#include "unit.h"

#include "unit_clock.h"
#include "zk_play.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { ANSWER_MS = 40000, TIMEOUT_MS = 60000, LONG_SESSION_MS = 6000000 };

static hf_client *client;
static pthread_t thread;
static atomic_bool over;
static atomic_int answers;
static int most; /* answers before it falls silent */

/* ---- The server ------------------------------------------------------------------ */

/* Five folders, and one in each of them. */
static void answer_folder(int32_t xid, const struct zk_text *path)
{
    if (path->len == 1)
        LIST(xid, "a", "b", "c", "d", "e");
    else if (path->len == 2)
        LIST(xid, "below");
    else
        answer_list(xid, (const char *const[]){ NULL });
}

/* The client's own end of the connection; -1: there is none. */
static int client_end(void)
{
    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_in name = { 0 };
        socklen_t len = sizeof name;
        if (getpeername(fd, (struct sockaddr *)&name, &len) == 0 &&
            name.sin_family == AF_INET && ntohs(name.sin_port) == peer.port)
            return fd;
    }
    return -1;
}

static void pass(int64_t ms)
{
    clock_pass(ms);
    poll(NULL, 0, 50); /* pause: for the client to see what time it is */
}

/* Time must not go on before the client has seen what came when. */
static void wait_until_read(void)
{
    int left = 1;
    while (!over && ioctl(client_end(), FIONREAD, &left) == 0 && left > 0)
        poll(NULL, 0, 1); /* pause: between two looks */
}

static void answer(struct jute *in)
{
    int32_t xid = hf__zk_jute_int(in), opcode = hf__zk_jute_int(in);
    atomic_fetch_add(&answers, 1);
    pass(ANSWER_MS);
    if (opcode == ZK_OPCODE_CHILDREN2) {
        struct zk_text path = hf__zk_jute_text(in);
        answer_folder(xid, &path);
    } else {
        ck_assert_int_eq(opcode, ZK_OPCODE_SYNC);
        answer_sync(xid);
    }
    wait_until_read();
}

static void *play(void *arg)
{
    struct jute in;
    (void)arg;
    while (!over && answers < most && peer_wait(&peer, &in))
        answer(&in);
    while (!over)
        pass(TIMEOUT_MS / 4);
    return NULL;
}

/* ---- Walks ----------------------------------------------------------------------- */

static void begin(int count)
{
    char url[96];
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = TIMEOUT_MS;
    most = count;
    clock_begin();
    peer_begin(&peer);
    peer_will_greet(&peer, PEER_SESSION, LONG_SESSION_MS);
    snprintf(url, sizeof url, "zookeeper://%s?timeout=%dms", peer.hosts, TIMEOUT_MS);
    ck_assert_int_eq(hf_open(url, &options, &client, NULL), 0);
    peer_met(&peer);
    ck_assert_int_eq(pthread_create(&thread, NULL, play, NULL), 0);
}

static void end(void)
{
    over = true;
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    peer_end(&peer);
    hf_close(client);
}

START_TEST(a_slow_server_is_heard_out)
{
    hf_report *report = NULL;
    hf_error why = { 0 };
    begin(12); /* a sync, the root, five folders, five below */
    int rc = hf_inspect(client, "", true, &report, &why);
    ck_assert_msg(rc == 0, "%d: %s (%d answers)", rc, why.text, answers);
    ck_assert_uint_eq(hf_report_count(report), 0);
    ck_assert_int_eq(answers, 12);
    hf_report_free(report);
    end();
}
END_TEST

START_TEST(a_server_that_stops_is_not)
{
    hf_report *report = NULL;
    begin(6);
    ck_assert_int_eq(hf_inspect(client, "", true, &report, NULL), HF_EUNREACHABLE);
    ck_assert_ptr_null(report);
    ck_assert_int_eq(answers, 6);
    end();
}
END_TEST

UNIT_MAIN("zk_walk", a_slow_server_is_heard_out, a_server_that_stops_is_not)
