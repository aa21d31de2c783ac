/* SPDX-License-Identifier: MIT */
/*
 * The stage of conn_stage.h. The fake host takes stores only, so the connection is
 * wrapped in a store whose session is a pointer to the stage.
 */
#include "conn_stage.h"

#include "../../src/base/clock.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TURN_MS = 10, WORDS_MAX = 8 };

static struct stage *setting_up;
static const struct conn_settings *wanted;

static struct stage *stage_of(void *session)
{
    return *(struct stage **)session;
}

/* ---- Callbacks ------------------------------------------------------------------- */

static void on_up(void *session)
{
    struct stage *stage = stage_of(session);
    ck_assert(hf__redis_conn_is_up(stage->conn));
    stage->ups++;
}

static void on_down(void *session, const hf_error *why)
{
    struct stage *stage = stage_of(session);
    ck_assert(!hf__redis_conn_is_up(stage->conn));
    stage->why = *why;
    stage->downs++;
}

static void on_message(void *session, const char *channel, size_t channel_len,
                       const char *payload, size_t payload_len)
{
    struct stage *stage = stage_of(session);
    snprintf(stage->messages[stage->message_count++ % STAGE_MESSAGES], STAGE_TEXT,
             "%.*s %.*s", (int)channel_len, channel, (int)payload_len, payload);
}

static void on_subscribed(void *session, const char *channel, size_t channel_len)
{
    struct stage *stage = stage_of(session);
    snprintf(stage->subscribed[stage->subscribed_count++ % STAGE_MESSAGES], STAGE_TEXT,
             "%.*s", (int)channel_len, channel);
}

static const struct conn_user user = { on_up, on_down, on_message, on_subscribed };

static void note_reply(struct stage_reply *reply, const struct resp *nodes)
{
    const struct resp *value = nodes;

    reply->type = nodes->type;
    while (value->type == RESP_ARRAY && value->len)
        value++;
    reply->number = value->number;
    snprintf(reply->text, STAGE_TEXT, "%.*s", (int)value->len,
             value->text ? value->text : "");
}

void stage_take(void *session, void *subject, uint64_t word, const struct resp *nodes,
                int64_t sent_ns, const hf_error *why)
{
    struct stage *stage = stage_of(session);
    ck_assert_uint_lt(stage->reply_count, STAGE_MAX);
    struct stage_reply *reply = &stage->replies[stage->reply_count++];

    *reply = (struct stage_reply){ .word = word,
                                   .subject = subject,
                                   .code = why ? why->code : 0,
                                   .sent_ns = sent_ns };
    if (!nodes == !why)
        ck_abort_msg("neither reply nor reason, or both");
    if (why)
        snprintf(reply->text, STAGE_TEXT, "%s", why->text);
    else
        note_reply(reply, nodes);
    if (stage->on_reply)
        stage->on_reply(stage);
}

/* ---- As a store ------------------------------------------------------------------ */

static int store_open(void *session, struct hf_host *host, const struct hf_url *url,
                      uint64_t *ret_caps, hf_error *why)
{
    (void)url;
    *(struct stage **)session = setting_up;
    *ret_caps = 0;
    return hf__redis_conn_open(host, wanted, &user, session, &setting_up->conn, why);
}

static void store_close(void *session, bool forked)
{
    hf__redis_conn_close(stage_of(session)->conn, forked);
    stage_of(session)->conn = NULL;
}

static const struct hf_backend store = {
    .session_size = sizeof(struct stage *),
    .open = store_open,
    .close = store_close,
};

struct conn_settings stage_settings(const char *socket_path)
{
    return (struct conn_settings){
        .stream = { .host = "",
                    .unix_path = socket_path,
                    .connect_ns = 5 * HF_NS_PER_S },
        .user = "",
        .password = "",
        .client_name = "tester",
        .request_ns = 5 * HF_NS_PER_S,
        .inbox = "inbox",
    };
}

int stage_open(struct stage *stage, const struct conn_settings *settings,
               struct fake_clock *clock)
{
    memset(stage, 0, sizeof *stage);
    setting_up = stage;
    wanted = settings;
    return fake_open_why(&stage->host, &store, "test:", clock, &stage->why);
}

void stage_close(struct stage *stage)
{
    fake_close(&stage->host);
}

/* ---- Calls ----------------------------------------------------------------------- */

void stage_say(struct stage *stage, uint64_t word, ...)
{
    struct resp_arg args[WORDS_MAX];
    const char *text;
    size_t count = 0;
    va_list list;

    va_start(list, word);
    while ((text = va_arg(list, const char *)) && count < WORDS_MAX)
        args[count++] = (struct resp_arg){ text, strlen(text) };
    va_end(list);
    hf__redis_conn_send(stage->conn, args, count, stage_take, stage, word);
}

void stage_eval(struct stage *stage, const struct script *script, const char *key,
                const struct resp_arg *arg, uint64_t word)
{
    const struct resp_arg keys[] = { { key, strlen(key) } };
    hf__redis_conn_eval(stage->conn, script, keys, 1, arg, 1, stage_take, stage, word);
}

int stage_subscribe(struct stage *stage, const char *channel)
{
    return hf__redis_conn_subscribe(stage->conn, channel, strlen(channel));
}

void stage_unsubscribe(struct stage *stage, const char *channel)
{
    hf__redis_conn_unsubscribe(stage->conn, channel, strlen(channel));
}

void stage_turn(struct stage *stage)
{
    fake_turn(&stage->host, TURN_MS);
}
