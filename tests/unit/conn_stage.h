/* SPDX-License-Identifier: MIT */
/*
 * A connection under test: opened on a fake host, with all its callbacks recorded.
 *
 *     struct stage stage;
 *     struct conn_settings settings = stage_settings(path);
 *     stage_open(&stage, &settings, NULL);
 *     stage_say(&stage, 7, "GET", "key", NULL);
 *     STAGE_UNTIL(&stage, stage.reply_count == 1);
 *     stage_close(&stage);
 */
#ifndef HF_TESTS_CONN_STAGE_H
#define HF_TESTS_CONN_STAGE_H

#include "../../src/backends/redis/conn_inside.h"
#include "fake_host.h"

enum { STAGE_MAX = 4096, STAGE_MESSAGES = 64, STAGE_TEXT = 256 };

struct stage_reply {
    uint64_t word;
    const void *subject;
    int code; /* 0: there was a reply */
    enum resp_type type;
    int64_t number; /* of the reply or its first element */
    int64_t sent_ns;
    char text[STAGE_TEXT]; /* the same; or the error's */
};

struct stage {
    struct fake_host host;
    struct redis_conn *conn;
    unsigned ups, downs, message_count, subscribed_count;
    hf_error why; /* of the last down, or of open */
    struct stage_reply replies[STAGE_MAX];
    unsigned reply_count;
    char messages[STAGE_MESSAGES][STAGE_TEXT]; /* "channel payload" */
    char subscribed[STAGE_MESSAGES][STAGE_TEXT];
    void (*on_reply)(struct stage *stage); /* may make further calls; NULL */
};

/* For a server on a unix socket: a deadline of 5 s, the inbox "inbox". */
struct conn_settings stage_settings(const char *socket_path);

int stage_open(struct stage *stage, const struct conn_settings *settings,
               struct fake_clock *clock);
void stage_close(struct stage *stage);

/* A command of the words up to NULL, whose reply is written down. */
void stage_say(struct stage *stage, uint64_t word, ...);
void stage_eval(struct stage *stage, const struct script *script, const char *key,
                const struct resp_arg *arg, uint64_t word);
conn_reply stage_take;

int stage_subscribe(struct stage *stage, const char *channel);
void stage_unsubscribe(struct stage *stage, const char *channel);

void stage_turn(struct stage *stage);
/* Turns the loop until the condition holds, for ten seconds at most. */
#define STAGE_UNTIL(stage, condition)                                                  \
    do {                                                                               \
        for (int turns_ = 0; !(condition) && turns_ < 1000; turns_++)                  \
            stage_turn(stage);                                                         \
        ck_assert_msg((condition), "%s", #condition);                                  \
    } while (0)

#endif
