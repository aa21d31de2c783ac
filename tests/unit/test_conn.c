/* SPDX-License-Identifier: MIT */
/*
 * The connection to Redis, against a private redis-server: handshakes, requests,
 * scripts, subscriptions, and the loss of the server. test_conn_peer.c plays a server
 * that replies as a real one would not.
 */
#include "unit.h"

#include "../../src/backends/redis/scripts.h"
#include "../../src/base/mem.h"
#include "conn_server.h"
#include "conn_stage.h"

#include <stdio.h>
#include <string.h>

static struct stage stage;

static void expect_refusal(const struct conn_settings *settings, int code,
                           const char *words)
{
    size_t live = hf__mem_live();
    int rc = stage_open(&stage, settings, NULL);
    ck_assert_msg(rc == code && stage.why.code == code, "%d: %s", rc, stage.why.text);
    ck_assert_msg(strstr(stage.why.text, words) != NULL, "%s", stage.why.text);
    ck_assert_uint_eq(hf__mem_live(), live);
    if (settings->password[0])
        ck_assert_msg(!strstr(stage.why.text, settings->password), "%s",
                      stage.why.text);
}

/* ---- Handshake ------------------------------------------------------------------- */

static void check_talk(const char *version, unsigned connections)
{
    ck_assert(hf__redis_conn_is_up(stage.conn));
    ck_assert_msg(
        strncmp(hf__redis_conn_version(stage.conn), version, strlen(version)) == 0,
        "%s", hf__redis_conn_version(stage.conn));
    ck_assert_uint_eq(raw_others(raw), connections);
    ck_assert_int_eq(raw_number(raw, "PUBLISH inbox hello"), 1);
    stage_say(&stage, 1, "ECHO", "one", NULL);
    STAGE_UNTIL(&stage, stage.reply_count == 1 && stage.message_count == 1);
    ck_assert_str_eq(stage.replies[0].text, "one");
    ck_assert_str_eq(stage.messages[0], "inbox hello");
    ck_assert_uint_eq(stage.ups + stage.downs + stage.subscribed_count, 0);
}

START_TEST(does_handshake)
{
    server_begin(NULL);
    for (int protocol = 0; protocol <= 3; protocol++) {
        if (protocol == 1)
            continue;
        struct conn_settings settings = settings_of(protocol);
        settings.database = 3;
        settings.client_name = "a b\n"; /* as the server would not take it */
        ck_assert_int_eq(stage_open(&stage, &settings, NULL), 0);
        check_talk("7.", protocol == 2 ? 2 : 1);
        const char *list = raw_say(raw, "CLIENT LIST");
        ck_assert_msg(strstr(list, "name=a_b_") && strstr(list, "db=3"), "%s", list);
        stage_close(&stage);
    }
    server_end();
}
END_TEST

START_TEST(falls_back_to_resp2)
{
    static const char *const options[] = { "--rename-command", "HELLO", "", NULL };
    server_begin(options);
    open_fine(&stage, 0, NULL);
    check_talk("7.", 2);
    stage_close(&stage);
    struct conn_settings settings = settings_of(3);
    settings.password = "hunter2";
    expect_refusal(&settings, HF_EUNSUPPORTED, "unknown command");
    server_end();
}
END_TEST

START_TEST(passwords)
{
    static const char *const options[] = { "--requirepass", "secret", NULL };
    static const int protocols[] = { 0, 2 };

    server_begin(options);
    raw_say(raw, "AUTH secret");
    raw_say(raw, "ACL SETUSER ann on >annpass ~* &* +@all");
    raw_say(raw, "ACL SETUSER bob on >bobpass ~* resetchannels +@all");
    for (size_t i = 0; i < 2; i++) {
        struct conn_settings settings = settings_of(protocols[i]);
        expect_refusal(&settings, HF_EREFUSED, "NOAUTH");
        settings.password = "wrong";
        expect_refusal(&settings, HF_EREFUSED, "WRONGPASS");
        settings.user = "bob";
        settings.password = "bobpass";
        expect_refusal(&settings, HF_EREFUSED, "NOPERM");
        settings.user = "ann";
        settings.password = "annpass";
        ck_assert_int_eq(stage_open(&stage, &settings, NULL), 0);
        check_talk("7.", protocols[i] == 2 ? 2 : 1);
        stage_close(&stage);
        settings.user = "";
        settings.password = "secret";
        ck_assert_int_eq(stage_open(&stage, &settings, NULL), 0);
        stage_close(&stage);
    }
    server_end();
}
END_TEST

START_TEST(passwords_are_not_repeated)
{
    static const char *const options[] = { "--rename-command", "AUTH", "", NULL };
    server_begin(options);
    struct conn_settings settings = settings_of(2);
    settings.password = "hunter2";
    expect_refusal(&settings, HF_EREFUSED, "unknown command");
    server_end();
}
END_TEST

START_TEST(what_the_server_will_not_do)
{
    server_begin(NULL);
    struct conn_settings settings = settings_of(0);
    settings.database = 999;
    expect_refusal(&settings, HF_EREFUSED, "out of range");
    redis_kill(&server);
    settings.database = 0;
    expect_refusal(&settings, HF_EUNREACHABLE, server.socket);
    server_end();
}
END_TEST

/* ---- Calls ----------------------------------------------------------------------- */

START_TEST(replies_come_in_order)
{
    enum { CALLS = 2000 };
    char number[16];

    server_begin(NULL);
    open_fine(&stage, 0, NULL);
    for (unsigned i = 0; i < CALLS; i++) {
        snprintf(number, sizeof number, "%u", i);
        stage_say(&stage, i, "ECHO", number, NULL);
        if (i % 97 == 0)
            stage_turn(&stage);
    }
    STAGE_UNTIL(&stage, stage.reply_count == CALLS);
    for (unsigned i = 0; i < CALLS; i++) {
        snprintf(number, sizeof number, "%u", i);
        UNIT_ASSERT(stage.replies[i].word == i && stage.replies[i].code == 0);
        UNIT_ASSERT(strcmp(stage.replies[i].text, number) == 0);
        UNIT_ASSERT(i == 0 || stage.replies[i].sent_ns >= stage.replies[i - 1].sent_ns);
    }
    stage_close(&stage);
    server_end();
}
END_TEST

static void call_once_more(struct stage *at)
{
    if (at->reply_count >= 100)
        return;
    stage_say(at, at->reply_count, "INCR", "n", NULL);
    ck_assert_uint_ne(at->conn->sockets[0].flushed, at->conn->sockets[0].end);
}

START_TEST(calls_from_inside_of_a_reply)
{
    server_begin(NULL);
    open_fine(&stage, 0, NULL);
    stage.on_reply = call_once_more;
    stage_say(&stage, 0, "INCR", "n", NULL);
    STAGE_UNTIL(&stage, stage.reply_count == 100);
    ck_assert_int_eq(stage.replies[99].number, 100);
    stage_close(&stage);
    server_end();
}
END_TEST

START_TEST(errors_are_replies)
{
    server_begin(NULL);
    open_fine(&stage, 0, NULL);
    stage_say(&stage, 1, "NONSENSE", NULL);
    stage_say(&stage, 2, "INCR", "n", NULL);
    STAGE_UNTIL(&stage, stage.reply_count == 2);
    ck_assert_int_eq(stage.replies[0].type, RESP_ERROR);
    ck_assert_int_eq(stage.replies[1].number, 1);
    stage_close(&stage);
    server_end();
}
END_TEST

START_TEST(the_forgotten_hear_nothing)
{
    server_begin(NULL);
    open_fine(&stage, 0, NULL);
    hf__redis_conn_forget(stage.conn, &stage);
    for (unsigned i = 0; i < 20; i++) {
        const struct resp_arg args[] = { { "INCR", 4 }, { "n", 1 } };
        hf__redis_conn_send(stage.conn, args, 2, stage_take,
                            i % 2 ? &server : (void *)&stage, i);
    }
    hf__redis_conn_forget(stage.conn, &server);
    STAGE_UNTIL(&stage, stage.reply_count == 10);
    stage_say(&stage, 99, "GET", "n", NULL);
    STAGE_UNTIL(&stage, stage.reply_count == 11);
    for (unsigned i = 0; i < 10; i++)
        ck_assert_uint_eq(stage.replies[i].word, 2 * i);
    ck_assert_str_eq(stage.replies[10].text, "20");
    stage_close(&stage);
    server_end();
}
END_TEST

/* ---- Scripts --------------------------------------------------------------------- */

static struct script script = { .name = "test",
                                .text = "redis.call('INCR', KEYS[1]) return ARGV[1]" };

static void script_ready(void)
{
    script.len = strlen(script.text);
    const char *const args[] = { "SCRIPT", "LOAD", script.text };
    snprintf(script.sha, sizeof script.sha, "%s", raw_call(raw, args, 3));
    raw_say(raw, "SCRIPT FLUSH");
}

START_TEST(unknown_scripts_are_sent_whole)
{
    enum { CALLS = 200 };
    static char text[20000];
    memset(text, 'x', sizeof text);

    server_begin(NULL);
    script_ready();
    open_fine(&stage, 0, NULL);
    for (unsigned i = 0; i < CALLS; i++) {
        char number[16];
        snprintf(number, sizeof number, "%u.", i);
        memcpy(text, number, strlen(number));
        const struct resp_arg arg = { text, i * 100 + strlen(number) };
        stage_eval(&stage, &script, "count", &arg, i);
        if (i % 7 == 3)
            stage_say(&stage, 1000 + i, "SCRIPT", "FLUSH", NULL);
        if (i % 11 == 0)
            stage_turn(&stage);
    }
    STAGE_UNTIL(&stage, stage.reply_count == CALLS + (CALLS + 3) / 7);
    bool seen[CALLS] = { false };
    for (unsigned i = 0; i < stage.reply_count; i++) {
        uint64_t word = stage.replies[i].word;
        UNIT_ASSERT(stage.replies[i].type == RESP_TEXT);
        if (word >= 1000)
            continue;
        UNIT_ASSERT(!seen[word] && strtoull(stage.replies[i].text, NULL, 10) == word);
        seen[word] = true;
    }
    ck_assert_int_eq(raw_number(raw, "GET count"), CALLS); /* none of them twice */
    stage_close(&stage);
    server_end();
}
END_TEST

/* The server does not know the script; what comes behind it, it does. */
static void take(const char *key)
{
    const struct resp_arg keys[] = { { key, strlen(key) } };
    const struct resp_arg arg = { "taken", 5 };
    hf__redis_conn_eval_undoable(stage.conn, &script, keys, 1, &arg, 1, stage_take,
                                 &stage, 1);
}

START_TEST(what_was_revoked_is_not_sent_again)
{
    server_begin(NULL);
    script_ready();
    open_fine(&stage, 0, NULL);
    take("overtaken");
    stage_say(&stage, 2, "DEL", "overtaken", NULL);
    STAGE_UNTIL(&stage, stage.reply_count == 2);
    ck_assert_uint_eq(stage.replies[0].word, 1);
    ck_assert_int_eq(stage.replies[0].code, HF_EUNREACHABLE);
    ck_assert_int_eq(stage.replies[1].code, 0);
    take("forgotten");
    hf__redis_conn_forget(stage.conn, &stage);
    stage_say(&stage, 3, "PING", NULL);
    STAGE_UNTIL(&stage, stage.reply_count == 3);
    take("wanted");
    STAGE_UNTIL(&stage, stage.reply_count == 4);
    ck_assert_str_eq(stage.replies[3].text, "taken");
    ck_assert_int_eq(raw_number(raw, "EXISTS overtaken forgotten"), 0);
    ck_assert_int_eq(raw_number(raw, "EXISTS wanted"), 1);
    stage_close(&stage);
    server_end();
}
END_TEST

/* ---- Subscriptions --------------------------------------------------------------- */

START_TEST(subscriptions_are_counted)
{
    server_begin(NULL);
    for (int protocol = 2; protocol <= 3; protocol++) {
        open_fine(&stage, protocol, NULL);
        ck_assert_int_eq(stage_subscribe(&stage, "news"), 0);
        ck_assert_int_eq(stage_subscribe(&stage, "news"), 0);
        ck_assert_uint_eq(stage.subscribed_count, 0);
        STAGE_UNTIL(&stage, stage.subscribed_count == 1);
        ck_assert_int_eq(stage_subscribe(&stage, "news"), 0);
        ck_assert_uint_eq(stage.subscribed_count, 2);
        ck_assert_str_eq(stage.subscribed[1], "news");
        stage_unsubscribe(&stage, "news");
        stage_unsubscribe(&stage, "news");
        ck_assert_int_eq(raw_number(raw, "PUBLISH news x"), 1);
        STAGE_UNTIL(&stage, stage.message_count == 1);
        ck_assert_str_eq(stage.messages[0], "news x");

        stage_unsubscribe(&stage, "news"); /* the last; and all at once from here */
        ck_assert_int_eq(stage_subscribe(&stage, "news"), 0);
        stage_unsubscribe(&stage, "news");
        stage_unsubscribe(&stage, "news"); /* one too many */
        ck_assert_int_eq(stage_subscribe(&stage, "news"), 0);
        STAGE_UNTIL(&stage, stage.subscribed_count == 3);
        ck_assert_int_eq(raw_number(raw, "PUBLISH news y"), 1);
        STAGE_UNTIL(&stage, stage.message_count == 2);
        stage_unsubscribe(&stage, "news");
        STAGE_UNTIL(&stage, raw_number(raw, "PUBLISH news z") == 0);
        STAGE_UNTIL(&stage, stage.conn->channel_count == 0);
        ck_assert_uint_eq(stage.subscribed_count, 3);
        stage_close(&stage);
    }
    server_end();
}
END_TEST

START_TEST(many_channels)
{
    enum { MANY = 500 };
    char name[32];

    server_begin(NULL);
    open_fine(&stage, 0, NULL);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "channel:%u", i);
        ck_assert_int_eq(stage_subscribe(&stage, name), 0);
    }
    STAGE_UNTIL(&stage, stage.subscribed_count == MANY);
    raw_say(raw, "CLIENT KILL TYPE pubsub");
    STAGE_UNTIL(&stage, stage.ups == 1 && stage.subscribed_count == 2 * MANY);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "channel:%u", i);
        UNIT_ASSERT(raw_number(raw, "PUBLISH %s x", name) == 1);
        stage_unsubscribe(&stage, name);
    }
    STAGE_UNTIL(&stage, stage.message_count == MANY && stage.conn->channel_count == 0);
    stage_close(&stage);
    server_end();
}
END_TEST

UNIT_MAIN("conn", does_handshake, falls_back_to_resp2, passwords,
          passwords_are_not_repeated, what_the_server_will_not_do,
          replies_come_in_order, calls_from_inside_of_a_reply, errors_are_replies,
          the_forgotten_hear_nothing, unknown_scripts_are_sent_whole,
          what_was_revoked_is_not_sent_again, subscriptions_are_counted, many_channels)
