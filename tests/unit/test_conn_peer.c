/* SPDX-License-Identifier: MIT */
/*
 * The connection against a played server: old versions, temporary refusals, garbage,
 * replies in pieces, errors that repeat a password. A thread accepts one connection
 * after the other, waits for the handshake and sends its lines; after that the test
 * itself sends on the last socket.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "conn_stage.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HELLO "%2\r\n+server\r\n+redis\r\n+version\r\n+7.0.15\r\n"
#define INBOX ">3\r\n+subscribe\r\n$5\r\ninbox\r\n:1\r\n"
#define INBOX2 "*3\r\n$9\r\nsubscribe\r\n$5\r\ninbox\r\n:1\r\n"
#define NAMED "+OK\r\n"
#define PONG "+PONG\r\n"
#define FINE HELLO INBOX PONG

enum { LINES_MAX = 8 };

static struct {
    int listener, fd; /* of the last connection */
    const char *lines[LINES_MAX];
    size_t count;
    pthread_t thread;
    char path[64];
} peer;

static struct stage stage;

static void say(const char *text)
{
    size_t len = strlen(text);
    ck_assert_int_eq(send(peer.fd, text, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void *peer_play(void *arg)
{
    char heard[4096];
    (void)arg;
    for (size_t i = 0; i < peer.count; i++) {
        if (peer.fd >= 0)
            close(peer.fd);
        peer.fd = accept(peer.listener, NULL, NULL);
        if (recv(peer.fd, heard, sizeof heard, 0) > 0)
            send(peer.fd, peer.lines[i], strlen(peer.lines[i]), MSG_NOSIGNAL);
        if (!peer.lines[i][0])
            shutdown(peer.fd, SHUT_RDWR);
    }
    return NULL;
}

static void peer_begin(const char *first, const char *second, const char *third)
{
    const char *const lines[] = { first, second, third };
    struct sockaddr_un name = { .sun_family = AF_UNIX };

    snprintf(peer.path, sizeof peer.path, "/tmp/hf-peer-%d", (int)getpid());
    snprintf(name.sun_path, sizeof name.sun_path, "%s", peer.path);
    unlink(peer.path); /* of a test that failed under this number */
    peer.fd = -1;
    peer.count = 0;
    while (peer.count < 3 && lines[peer.count]) {
        peer.lines[peer.count] = lines[peer.count];
        peer.count++;
    }
    peer.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(peer.listener, (struct sockaddr *)&name, sizeof name), 0);
    ck_assert_int_eq(listen(peer.listener, 8), 0);
    ck_assert_int_eq(pthread_create(&peer.thread, NULL, peer_play, NULL), 0);
}

static void peer_end(void)
{
    close(peer.listener);
    if (peer.fd >= 0)
        close(peer.fd);
    unlink(peer.path);
}

static struct conn_settings peer_settings(void)
{
    struct conn_settings settings = stage_settings(peer.path);
    settings.client_name = "";
    return settings;
}

/* Opens, which the lines of the peer make end with `code`; stays open on 0. */
static void open_to(int code, const struct conn_settings *settings, const char *words)
{
    int rc = stage_open(&stage, settings, NULL);
    ck_assert_msg(rc == code, "%d: %s", rc, stage.why.text);
    if (rc < 0)
        ck_assert_msg(strstr(stage.why.text, words) != NULL, "%s", stage.why.text);
    ck_assert_int_eq(pthread_join(peer.thread, NULL), 0);
}

static void open_fine(void)
{
    peer_begin(FINE, NULL, NULL);
    struct conn_settings settings = peer_settings();
    open_to(0, &settings, "");
}

static void end(void)
{
    stage_close(&stage);
    peer_end();
}

/* ---- Handshakes ------------------------------------------------------------------ */

static void expect_open(int code, const char *words, int protocol, const char *first,
                        const char *second, const char *third)
{
    peer_begin(first, second, third);
    struct conn_settings settings = peer_settings();
    settings.protocol = protocol;
    if (code == HF_EUNREACHABLE) { /* at the deadline */
        settings.request_ns = 200 * HF_NS_PER_MS;
        settings.stream.connect_ns = 100 * HF_NS_PER_MS;
    }
    open_to(code, &settings, words);
    if (code == 0)
        stage_close(&stage);
    peer_end();
}

START_TEST(old_servers)
{
    static const char unknown[] = "-ERR unknown command `HELLO`\r\n" INBOX2 PONG;

    expect_open(0, "", 0, unknown, "$21\r\nredis_version:5.0.14\n\r\n" PONG, INBOX2);
    ck_assert_uint_eq(stage.ups, 0);
    expect_open(0, "", 0, "-NOPROTO sorry\r\n", "$20\r\nredis_version:5.0.1\n\r\n" PONG,
                INBOX2);
    expect_open(0, "", 2, "-NOPERM no INFO\r\n-NOPERM no PING\r\n", INBOX2, NULL);
    expect_open(HF_EUNSUPPORTED, "3.2.12", 0, unknown,
                "$21\r\nredis_version:3.2.12\n\r\n" PONG, NULL);
    expect_open(HF_EUNSUPPORTED, "4.0.1", 3, "%1\r\n+version\r\n+4.0.1\r\n" INBOX PONG,
                NULL, NULL);
    expect_open(HF_EUNSUPPORTED, "NOPROTO", 3, "-NOPROTO sorry\r\n", NULL, NULL);
}
END_TEST

START_TEST(what_passes_is_waited_for)
{
    static const char loading[] = HELLO INBOX "-LOADING in memory\r\n";

    expect_open(0, "", 0, loading, "-ERR max number of clients reached\r\n", FINE);
    expect_open(0, "", 0, HELLO INBOX "-MASTERDOWN Link\r\n", "-BUSY a script\r\n",
                FINE);
}
END_TEST

START_TEST(waiting_ends_with_the_deadline)
{
    static const char loading[] = HELLO INBOX "-LOADING in memory\r\n";

    peer_begin(loading, NULL, NULL);
    struct conn_settings settings = peer_settings();
    settings.request_ns = 60 * HF_NS_PER_MS;
    settings.stream.connect_ns = HF_NS_PER_MS;
    open_to(HF_EUNREACHABLE, &settings, "");
    peer_end();
}
END_TEST

START_TEST(refusals)
{
    expect_open(HF_EREFUSED, "DENIED", 0, "-DENIED protected mode\r\n", NULL, NULL);
    expect_open(HF_EREFUSED, "NOPERM", 0, HELLO "-NOPERM no channel\r\n" PONG, NULL,
                NULL);
    expect_open(HF_EREFUSED, "NOAUTH", 2, "-NOAUTH first\r\n-NOAUTH first\r\n", NULL,
                NULL);
    expect_open(HF_EUNREACHABLE, "protocol", 0, "HTTP/1.1 400 Bad Request\r\n\r\n",
                NULL, NULL);
    expect_open(HF_EUNREACHABLE, "not asked for", 0,
                HELLO ">3\r\n+subscribe\r\n+other\r\n:1\r\n" PONG, NULL, NULL);
    expect_open(HF_EUNREACHABLE, "not asked for", 0, INBOX HELLO PONG, NULL, NULL);
    expect_open(HF_EUNREACHABLE, "another reply", 0, HELLO "+inbox\r\n" PONG, NULL,
                NULL);
    expect_open(HF_EUNREACHABLE, "without a request", 0, FINE "+more\r\n", NULL, NULL);
    ck_assert_uint_eq(stage.downs, 0); /* `up` was not called before */
    expect_open(HF_EUNREACHABLE, "", 0, "", NULL, NULL);
    expect_open(HF_EUNREACHABLE, "200 ms", 0, HELLO, NULL, NULL); /* and no more */
}
END_TEST

/* The version in a server's reply, as far as it is valid. */
START_TEST(versions)
{
    static const struct {
        const char *hello, *version;
    } rows[] = {
        { "%1\r\n+version\r\n+7.0.15-rc1\r\n", "7.0.15" },
        { "%1\r\n+version\r\n+7.2.3.4.5.6.7.8.9.10.11.12.13.14\r\n",
          "7.2.3.4.5.6.7.8.9.10.11" },
        { "*3\r\n+version\r\n+6.2\r\n+version\r\n", "6.2" },
        { "*2\r\n+version\r\n:4\r\n", "" },
        { "*2\r\n+other\r\n+4.0\r\n", "" },
        { "+OK\r\n", "" },
        { "$31\r\nversion 4 of something or other\r\n", "" },
        { "*0\r\n", "" },
    };
    char lines[256];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(lines, sizeof lines, "%s" INBOX PONG, rows[i].hello);
        peer_begin(lines, NULL, NULL);
        struct conn_settings settings = peer_settings();
        open_to(0, &settings, "");
        ck_assert_str_eq(hf__redis_conn_version(stage.conn), rows[i].version);
        end();
    }
}
END_TEST

START_TEST(no_password_in_words)
{
    static const char *const said[] = {
        "-ERR what is hunter2 to you\r\n",
        "-WRONGPASS hunter2\r\n",
        "-ERR unknown thing, with args beginning with: `hunt\r\n",
    };
    for (size_t i = 0; i < 3; i++) {
        peer_begin(said[i], NULL, NULL);
        struct conn_settings settings = peer_settings();
        settings.password = "hunter2";
        open_to(HF_EREFUSED, &settings, peer.path);
        ck_assert_msg(!strstr(stage.why.text, "hunt"), "%s", stage.why.text);
        peer_end();
    }
}
END_TEST

/* ---- Replies --------------------------------------------------------------------- */

static void call(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        stage_say(&stage, i, "GET", "x", NULL);
}

START_TEST(pieces_are_put_together)
{
    static const char text[] = "*5\r\n:1\r\n:2\r\n$3\r\nabc\r\n:4\r\n:5\r\n"
                               ">3\r\n+message\r\n+inbox\r\n+first\r\n-READONLY no\r\n"
                               ">2\r\n+invalidate\r\n*0\r\n>0\r\n_\r\n";
    open_fine();
    call(3);
    for (size_t i = 0; text[i]; i++) {
        const char piece[] = { text[i], '\0' };
        say(piece);
        stage_turn(&stage);
    }
    STAGE_UNTIL(&stage, stage.reply_count == 3);
    ck_assert_int_eq(stage.replies[0].number, 1);
    ck_assert_str_eq(stage.replies[1].text, "READONLY no");
    ck_assert_int_eq(stage.replies[2].type, RESP_NIL);
    ck_assert_uint_eq(stage.message_count, 1);
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

START_TEST(errors_are_passed_on)
{
    static const char *const errors[] = { "READONLY", "MOVED",   "OOM",  "NOAUTH",
                                          "NOPERM",   "LOADING", "BUSY", "NOSCRIPT" };
    char line[64];

    open_fine();
    for (unsigned i = 0; i < 8; i++) {
        stage_say(&stage, i, "GET", "x", NULL);
        snprintf(line, sizeof line, "-%s it is\r\n", errors[i]);
        say(line);
        STAGE_UNTIL(&stage, stage.reply_count == i + 1);
        ck_assert_int_eq(stage.replies[i].type, RESP_ERROR);
        ck_assert_int_eq(strncmp(stage.replies[i].text, line + 1, strlen(errors[i])),
                         0);
    }
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

/* Two requests are under way; the input answers `answered` of them and ends the
 * connection. */
static void expect_end(const char *text, unsigned answered)
{
    open_fine();
    call(2);
    say(text);
    STAGE_UNTIL(&stage, stage.downs == 1);
    ck_assert_uint_eq(stage.reply_count, 2);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(stage.replies[i].code, i < answered ? 0 : HF_EUNCERTAIN);
    ck_assert_int_eq(stage.why.code, HF_EUNREACHABLE);
    ck_assert_ptr_nonnull(strstr(stage.why.text, peer.path));
    end();
}

START_TEST(what_does_not_fit_ends_it)
{
    expect_end("garbage", 0);
    expect_end(":1\r\ngarbage", 1);
    expect_end(":1\r\n:2\r\n:3\r\n", 2); /* a reply without a request */
    expect_end(":1\r\n$99999999\r\n", 1);
    expect_end(":1\r\n>3\r\n+subscribe\r\n+x\r\n:1\r\n", 1);
    expect_end(">3\r\n+unsubscribe\r\n+inbox\r\n:0\r\n", 0);
    expect_end(">1\r\n+subscribe\r\n", 0);
    expect_end("*1\r\n>1\r\n:1\r\n", 0);
}
END_TEST

START_TEST(messages_without_sense_are_dropped)
{
    open_fine();
    call(1);
    say(">1\r\n+message\r\n>2\r\n+message\r\n+a\r\n>3\r\n+message\r\n:1\r\n*0\r\n"
        ">3\r\n+message\r\n+x\r\n*0\r\n>3\r\n+message\r\n:1\r\n+x\r\n"
        ">1\r\n:5\r\n>2\r\n*1\r\n+message\r\n+x\r\n:7\r\n");
    STAGE_UNTIL(&stage, stage.reply_count == 1);
    ck_assert_int_eq(stage.replies[0].number, 7);
    ck_assert_uint_eq(stage.message_count + stage.downs, 0);
    end();
}
END_TEST

START_TEST(a_refused_channel)
{
    open_fine();
    call(1);
    ck_assert_int_eq(stage_subscribe(&stage, "a"), 0);
    ck_assert_int_eq(stage_subscribe(&stage, "b"), 0);
    say(":1\r\n-NOPERM no\r\n>3\r\n+subscribe\r\n+b\r\n:2\r\n");
    STAGE_UNTIL(&stage, stage.subscribed_count == 1);
    ck_assert_str_eq(stage.subscribed[0], "b");
    ck_assert_uint_eq(stage.reply_count, 1);
    stage_unsubscribe(&stage, "a");
    say("+OK\r\n"); /* is not how that is confirmed */
    STAGE_UNTIL(&stage, stage.downs == 1);
    end();
}
END_TEST

/* What the server refuses is settled, too: nothing of it is left. */
START_TEST(a_refused_end)
{
    open_fine();
    ck_assert_int_eq(stage_subscribe(&stage, "a"), 0);
    say("-NOPERM no\r\n");
    call(1);
    say(":1\r\n");
    STAGE_UNTIL(&stage, stage.reply_count == 1);
    ck_assert_uint_eq(stage.subscribed_count, 0);
    ck_assert_uint_eq(stage.conn->channel_count, 1);
    stage_unsubscribe(&stage, "a");
    say("-NOPERM no\r\n");
    STAGE_UNTIL(&stage, stage.conn->channel_count == 0);
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

/* ---- Time ------------------------------------------------------------------------ */

/* A reply extends the deadline of the others; messages and silence do not. */
START_TEST(a_reply_moves_the_deadline)
{
    struct fake_clock watch = { .now_ns = 1000 * HF_NS_PER_S };

    peer_begin(FINE, NULL, NULL);
    struct conn_settings settings = peer_settings();
    ck_assert_int_eq(stage_open(&stage, &settings, &watch), 0);
    ck_assert_int_eq(pthread_join(peer.thread, NULL), 0);
    call(4);
    for (unsigned i = 0; i < 3; i++) {
        watch.now_ns += 5 * HF_NS_PER_S - 1;
        stage_turn(&stage);
        say(":1\r\n");
        STAGE_UNTIL(&stage, stage.reply_count == i + 1);
    }
    watch.now_ns += 5 * HF_NS_PER_S - 1;
    say(">3\r\n+message\r\n+inbox\r\n+news\r\n");
    STAGE_UNTIL(&stage, stage.message_count == 1);
    ck_assert_uint_eq(stage.downs, 0);
    watch.now_ns += 1;
    STAGE_UNTIL(&stage, stage.downs == 1);
    ck_assert_int_eq(stage.replies[3].code, HF_EUNCERTAIN);
    ck_assert_int_ge(stage.conn->timer.at_ns - watch.now_ns, 20 * HF_NS_PER_MS);
    end();
}
END_TEST

/* A subscription that is not confirmed in time, long after the last word. */
START_TEST(a_subscription_has_a_deadline)
{
    struct fake_clock watch = { .now_ns = 1000 * HF_NS_PER_S };

    peer_begin(FINE, NULL, NULL);
    struct conn_settings settings = peer_settings();
    ck_assert_int_eq(stage_open(&stage, &settings, &watch), 0);
    ck_assert_int_eq(pthread_join(peer.thread, NULL), 0);
    watch.now_ns += 6 * HF_NS_PER_S;
    stage_turn(&stage);
    ck_assert_int_eq(stage_subscribe(&stage, "news"), 0);
    watch.now_ns += 5 * HF_NS_PER_S - 1;
    stage_turn(&stage);
    ck_assert_uint_eq(stage.downs, 0);
    watch.now_ns += 1;
    STAGE_UNTIL(&stage, stage.downs == 1);
    end();
}
END_TEST

/* Up for more than two seconds it was well: the next try comes soon. Lost at once, it
 * was not. */
START_TEST(a_while_makes_it_well)
{
    for (int well = 0; well <= 1; well++) {
        struct fake_clock watch = { .now_ns = 1000 * HF_NS_PER_S };
        peer_begin(FINE, NULL, NULL);
        struct conn_settings settings = peer_settings();
        ck_assert_int_eq(stage_open(&stage, &settings, &watch), 0);
        ck_assert_int_eq(pthread_join(peer.thread, NULL), 0);
        stage.conn->attempts = 6; /* in vain, before this one */
        watch.now_ns += 2 * HF_NS_PER_S + well;
        shutdown(peer.fd, SHUT_RDWR);
        STAGE_UNTIL(&stage, stage.downs == 1);
        int64_t pause = stage.conn->timer.at_ns - watch.now_ns;
        if (well)
            ck_assert_int_lt(pause, 40 * HF_NS_PER_MS);
        else
            ck_assert_int_ge(pause, HF_NS_PER_S);
        end();
    }
}
END_TEST

/* ---- Sending --------------------------------------------------------------------- */

/* What has been sent and not been read. */
static size_t heard(void)
{
    static char bytes[65536];
    ssize_t got = recv(peer.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    return got > 0 ? (size_t)got : 0;
}

START_TEST(calls_gather_while_answers_are_awaited)
{
    static const size_t each = sizeof "*2\r\n$3\r\nGET\r\n$1\r\nx\r\n" - 1;

    open_fine();
    call(3);
    ck_assert_uint_eq(heard(), 3 * each);
    call(30);
    ck_assert_uint_eq(heard(), each); /* the fourth; the rest waits */
    say(":1\r\n");
    STAGE_UNTIL(&stage, stage.reply_count == 1);
    ck_assert_uint_eq(heard(), 29 * each);
    end();
}
END_TEST

UNIT_MAIN("conn_peer", old_servers, what_passes_is_waited_for,
          waiting_ends_with_the_deadline, refusals, versions, no_password_in_words,
          pieces_are_put_together, errors_are_passed_on, what_does_not_fit_ends_it,
          messages_without_sense_are_dropped, a_refused_channel, a_refused_end,
          a_reply_moves_the_deadline, a_subscription_has_a_deadline,
          a_while_makes_it_well, calls_gather_while_answers_are_awaited)
