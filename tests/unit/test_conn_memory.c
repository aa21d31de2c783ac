/* SPDX-License-Identifier: MIT */
/*
 * The connection to Redis without memory, against a private redis-server: each
 * allocation fails once. A failed request is answered once, no memory is left behind,
 * and the connection goes on afterwards.
 */
#include "unit.h"

#include "../../src/backends/redis/scripts.h"
#include "../../src/base/mem.h"
#include "conn_server.h"

#include <string.h>

enum { MOST = 64 };

static struct stage stage;

static struct script script = { .name = "test",
                                .text = "redis.call('INCR', KEYS[1]) return ARGV[1]" };

static void script_ready(void)
{
    script.len = strlen(script.text);
    const char *const args[] = { "SCRIPT", "LOAD", script.text };
    snprintf(script.sha, sizeof script.sha, "%s", raw_call(raw, args, 3));
    raw_say(raw, "SCRIPT FLUSH");
}

/* Answers whether that many allocations were asked for at all. */
static bool was_reached(uint64_t before, unsigned nth)
{
    bool reached = hf__mem_count() - before >= nth;
    hf__mem_fail(0, 0);
    return reached;
}

/* Either it fails with HF_ENOMEM, or it is open and its handshake is complete. */
static void check_open(int rc, unsigned connections)
{
    unsigned named = 0;
    UNIT_ASSERT(rc == 0 || rc == HF_ENOMEM || rc == HF_EUNREACHABLE);
    if (rc != 0)
        return;
    const char *list = raw_say(raw, "CLIENT LIST");
    UNIT_ASSERT(strstr(list, "db=2"));
    for (const char *at = list; (at = strstr(at, "name=tester")); at++)
        named++;
    UNIT_ASSERT(named == connections);
    UNIT_ASSERT(hf__redis_conn_version(stage.conn)[0]);
    UNIT_ASSERT(raw_number(raw, "PUBLISH inbox x") == 1);
    STAGE_UNTIL(&stage, stage.message_count == 1);
    stage_close(&stage);
}

START_TEST(opening)
{
    server_begin(NULL);
    for (int protocol = 2; protocol <= 3; protocol++) {
        struct conn_settings settings = settings_of(protocol);
        bool reached = true;
        settings.database = 2;
        for (unsigned nth = 1; reached && nth < MOST; nth++) {
            size_t live = hf__mem_live();
            uint64_t before = hf__mem_count();
            hf__mem_fail(nth, 0);
            int rc = stage_open(&stage, &settings, NULL);
            reached = was_reached(before, nth);
            check_open(rc, protocol == 2 ? 2 : 1);
            UNIT_ASSERT(hf__mem_live() == live);
        }
        ck_assert(!reached);
    }
    server_end();
}
END_TEST

/* A request with a long script that the server does not know, from the first connection
 * on: the rings, the arguments, the full text. */
static void call_once(unsigned nth, bool *ret_reached)
{
    static char text[20000];
    memset(text, 'x', sizeof text);
    const struct resp_arg arg = { text, sizeof text };
    raw_say(raw, "SCRIPT FLUSH");
    raw_say(raw, "DEL n");
    open_fine(&stage, 3, NULL);
    uint64_t before = hf__mem_count();
    hf__mem_fail(nth, 0);
    stage_eval(&stage, &script, "n", &arg, 7);
    STAGE_UNTIL(&stage, stage.reply_count == 1);
    *ret_reached = was_reached(before, nth);
}

START_TEST(calling)
{
    unsigned failed = 0;
    bool reached = true;
    server_begin(NULL);
    script_ready();
    for (unsigned nth = 1; reached && nth < MOST; nth++) {
        size_t live = hf__mem_live();
        call_once(nth, &reached);
        UNIT_ASSERT(stage.replies[0].word == 7);
        UNIT_ASSERT(stage.replies[0].code == 0 || stage.replies[0].code == HF_ENOMEM ||
                    stage.downs == 1);
        failed += stage.replies[0].code != 0;
        int64_t done = raw_number(raw, "EXISTS n");
        UNIT_ASSERT(done == (stage.replies[0].code == 0) || stage.downs == 1);
        STAGE_UNTIL(&stage, stage.downs == stage.ups); /* it comes back if it went */
        stage_say(&stage, 8, "ECHO", "still", NULL);
        STAGE_UNTIL(&stage, stage.reply_count == 2);
        UNIT_ASSERT(strcmp(stage.replies[1].text, "still") == 0);
        stage_close(&stage);
        UNIT_ASSERT(hf__mem_live() == live);
    }
    ck_assert(!reached);
    ck_assert_uint_gt(failed, 2);
    server_end();
}
END_TEST

START_TEST(subscribing)
{
    unsigned failed = 0;
    bool reached = true;
    server_begin(NULL);
    for (unsigned nth = 1; reached && nth < MOST; nth++) {
        size_t live = hf__mem_live();
        open_fine(&stage, 3, NULL);
        for (unsigned i = 0; i < 100; i++) /* so that the buffers are full */
            stage_say(&stage, i, "ECHO", "x", NULL);
        uint64_t before = hf__mem_count();
        hf__mem_fail(nth, 0);
        int rc = stage_subscribe(&stage, "news");
        reached = was_reached(before, nth);
        UNIT_ASSERT(rc == 0 || rc == HF_ENOMEM);
        failed += rc != 0;
        if (rc != 0) {
            UNIT_ASSERT(stage.conn->channel_count == 0);
            UNIT_ASSERT(stage_subscribe(&stage, "news") == 0);
        }
        STAGE_UNTIL(&stage, stage.subscribed_count == 1 && stage.reply_count == 100);
        UNIT_ASSERT(raw_number(raw, "PUBLISH news x") == 1);
        STAGE_UNTIL(&stage, stage.message_count == 1);
        stage_unsubscribe(&stage, "news");
        STAGE_UNTIL(&stage, stage.conn->channel_count == 0);
        stage_close(&stage);
        UNIT_ASSERT(hf__mem_live() == live);
    }
    ck_assert(!reached);
    ck_assert_uint_gt(failed, 1);
    server_end();
}
END_TEST

/* Where a connection comes back without the memory to say all that is said first, the
 * next one does. */
START_TEST(coming_back)
{
    enum { CHANNELS = 250 };
    char name[32];
    bool reached = true;
    server_begin(NULL);
    for (unsigned nth = 1; reached && nth < MOST; nth++) {
        size_t live = hf__mem_live();
        open_fine(&stage, 2, NULL);
        for (unsigned i = 0; i < CHANNELS; i++) {
            snprintf(name, sizeof name, "channel:%u", i);
            UNIT_ASSERT(stage_subscribe(&stage, name) == 0);
        }
        STAGE_UNTIL(&stage, stage.subscribed_count == CHANNELS);
        uint64_t before = hf__mem_count();
        hf__mem_fail(nth, 0);
        raw_say(raw, "CLIENT KILL TYPE pubsub");
        STAGE_UNTIL(&stage, stage.ups == 1);
        reached = was_reached(before, nth);
        STAGE_UNTIL(&stage, stage.subscribed_count == 2 * CHANNELS);
        stage_close(&stage);
        UNIT_ASSERT(hf__mem_live() == live);
    }
    ck_assert(!reached);
    server_end();
}
END_TEST

/* The memory of many requests is given back when all are answered. */
START_TEST(room_is_given_back)
{
    enum { CALLS = 100 };
    static char text[20000];
    memset(text, 'x', sizeof text);
    const struct resp_arg arg = { text, sizeof text };
    server_begin(NULL);
    script_ready();
    open_fine(&stage, 3, NULL);
    for (unsigned i = 0; i < CALLS; i++)
        stage_eval(&stage, &script, "n", &arg, i);
    ck_assert_uint_ge(stage.conn->sockets[0].kept_room, CALLS * sizeof text);
    STAGE_UNTIL(&stage, stage.reply_count == CALLS);
    ck_assert_uint_eq(stage.conn->sockets[0].kept_room, 0);
    stage_eval(&stage, &script, "n", &arg, 0);
    STAGE_UNTIL(&stage, stage.reply_count == CALLS + 1);
    ck_assert_uint_gt(stage.conn->sockets[0].kept_room, 0); /* a little may stay */
    ck_assert_int_eq(raw_number(raw, "GET n"), CALLS + 1);
    stage_close(&stage);
    server_end();
}
END_TEST

UNIT_MAIN("conn_memory", opening, calling, subscribing, coming_back, room_is_given_back)
