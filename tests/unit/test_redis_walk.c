/* SPDX-License-Identifier: MIT */
/*
 * A walk over many keys on a slow Redis server: the whole library, against a server
 * that a thread plays. It takes 40 seconds for each reply, by a clock that it moves
 * itself. It has pages without a name of ours, then three names without rows. The
 * request timeout is a minute.
 */
#include "unit.h"

#include "../../src/backends/redis/resp.h"
#include "unit_clock.h"

#include "../../include/holdfast.h"
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    ANSWER_MS = 40000,
    TIMEOUT_MS = 60000,
    PAGES = 5,
    WORDS_MAX = 64,
    BUFFER = 65536
};

static hf_client *client;
static pthread_t thread;
static atomic_bool over;
static atomic_int answers; /* but for those of the handshake */
static int most;           /* before it falls silent */
static int listener, fd;
static char path[64];

/* ---- The server ------------------------------------------------------------------ */

static void say(const char *text)
{
    size_t len = strlen(text);
    send(fd, text, len, MSG_NOSIGNAL);
}

/* True if that was all that is said first. */
static bool answer_handshake(const struct resp *nodes)
{
    const struct resp *word = hf__redis_resp_at(nodes, 0, 0),
                      *name = hf__redis_resp_at(nodes, 0, 1);
    char text[256];
    if (hf__redis_resp_is(word, "HELLO")) {
        say("%1\r\n+version\r\n+7.0.15\r\n");
    } else if (hf__redis_resp_is(word, "SUBSCRIBE")) {
        snprintf(text, sizeof text, ">3\r\n+subscribe\r\n$%zu\r\n%.*s\r\n:1\r\n",
                 name->len, (int)name->len, name->text);
        say(text);
    } else {
        ck_assert(hf__redis_resp_is(word, "PING"));
        say("+PONG\r\n");
        return true;
    }
    return false;
}

/* The names are on the last page but one of our own keys; there are no other hashes. */
static void say_page(const struct resp *nodes)
{
    static const char names[] =
        "$17\r\nholdfast_info:{a}\r\n$17\r\nholdfast_info:{b}\r\n"
        "$17\r\nholdfast_info:{c}\r\n";
    int64_t cursor = 0;
    char text[256];
    bool hashes = nodes[0].len > 6;
    ck_assert(hf__redis_resp_number(hf__redis_resp_at(nodes, 0, 1), &cursor));
    bool full = !hashes && cursor == PAGES - 2;
    snprintf(text, sizeof text, "*2\r\n+%d\r\n*%d\r\n%s",
             cursor + 1 < PAGES ? (int)cursor + 1 : 0, full ? 3 : 0, full ? names : "");
    say(text);
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
    while (!over && ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0)
        poll(NULL, 0, 1); /* pause: between two looks */
}

static void answer(const struct resp *nodes)
{
    atomic_fetch_add(&answers, 1);
    pass(ANSWER_MS);
    if (hf__redis_resp_is(hf__redis_resp_at(nodes, 0, 0), "SCAN"))
        say_page(nodes);
    else
        say("*3\r\n:0\r\n+0\r\n*0\r\n");
    wait_until_read();
}

static void *play(void *arg)
{
    static char heard[BUFFER];
    struct resp nodes[WORDS_MAX];
    size_t len = 0, taken = 0, used;
    bool handshake_done = false;
    (void)arg;
    fd = accept(listener, NULL, NULL);
    while (!over && answers < most) {
        struct pollfd polled = { .fd = fd, .events = POLLIN };
        if (hf__redis_resp_read(heard + taken, len - taken, nodes, WORDS_MAX, &used) ==
            RESP_WHOLE) {
            taken += used;
            if (handshake_done)
                answer(nodes);
            else
                handshake_done = answer_handshake(nodes);
        } else if (poll(&polled, 1, 100) == 1) {
            ssize_t got = recv(fd, heard + len, BUFFER - len, 0);
            len += got > 0 ? (size_t)got : 0;
        }
    }
    while (!over)
        pass(TIMEOUT_MS / 4);
    return NULL;
}

/* ---- Walks ----------------------------------------------------------------------- */

static void begin(int count)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    char url[128];
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = TIMEOUT_MS;
    most = count;
    clock_begin();
    snprintf(path, sizeof path, "/tmp/hf-walk-%d", (int)getpid());
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    unlink(path); /* of a test that failed under this number */
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, play, NULL), 0);
    snprintf(url, sizeof url, "redis+unix://%s?protocol=3&timeout=%dms", path,
             TIMEOUT_MS);
    ck_assert_int_eq(hf_open(url, &options, &client, NULL), 0);
}

static void end(void)
{
    over = true;
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    close(fd);
    close(listener);
    unlink(path);
    hf_close(client);
}

START_TEST(a_slow_server_is_heard_out)
{
    hf_report *report = NULL;
    hf_error why = { 0 };
    begin(2 * PAGES + 3);
    int rc = hf_inspect(client, "", true, &report, &why);
    ck_assert_msg(rc == 0, "%d: %s (%d answers)", rc, why.text, answers);
    ck_assert_uint_eq(hf_report_count(report), 0);
    ck_assert_int_eq(answers, 2 * PAGES + 3);
    hf_report_free(report);
    end();
}
END_TEST

START_TEST(a_server_that_stops_is_not)
{
    hf_report *report = NULL;
    begin(PAGES + 1);
    ck_assert_int_eq(hf_inspect(client, "", true, &report, NULL), HF_EUNREACHABLE);
    ck_assert_ptr_null(report);
    ck_assert_int_eq(answers, PAGES + 1);
    end();
}
END_TEST

/* What it found comes in three parts. */
START_TEST(a_slow_server_is_examined)
{
    hf_report *report = NULL;
    begin(3);
    ck_assert_int_eq(hf_diagnose(client, &report, NULL), 0);
    ck_assert_uint_gt(hf_report_count(report), 0);
    hf_report_free(report);
    end();
}
END_TEST

UNIT_MAIN("redis_walk", a_slow_server_is_heard_out, a_server_that_stops_is_not,
          a_slow_server_is_examined)
