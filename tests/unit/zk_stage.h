/* SPDX-License-Identifier: MIT */
/*
 * A ZooKeeper client on a fake host, with everything that it reports recorded.
 *
 *     struct stage stage;
 *     struct zk_settings settings = stage_settings("127.0.0.1:2181");
 *     stage_open(&stage, &settings, NULL);
 *     hf__zk_exists(stage.zk, "/a", false, stage_take, &stage, 7);
 *     STAGE_UNTIL(&stage, stage.reply_count == 1);
 *     stage_close(&stage);
 */
#ifndef HF_TESTS_ZK_STAGE_H
#define HF_TESTS_ZK_STAGE_H

#include "../../src/backends/zookeeper/wire/zk_inside.h"
#include "fake_host.h"

enum { STAGE_MAX = 4096, STAGE_EVENTS = 64, STAGE_TEXT = 256 };

struct stage_reply {
    uint64_t word;
    const void *subject;
    int code; /* 0: there was a reply */
    int64_t sent_ns;
    struct zk_reply reply; /* without what it points to */
    char text[STAGE_TEXT]; /* path, data or names joined by blanks; or the error's */
};

struct stage {
    struct fake_host host;
    struct zk *zk;
    unsigned ups, fresh, downs, expiries, event_count;
    hf_error why; /* of the last down, or of open */
    struct stage_reply replies[STAGE_MAX];
    unsigned reply_count;
    char events[STAGE_EVENTS][STAGE_TEXT]; /* "type path" */
    char story[STAGE_TEXT];                /* one letter each: u U(fresh) d x e r */
    size_t story_len;
    void (*on_reply)(struct stage *stage); /* may make further calls; NULL */
};

/* Limits of 5 s each, a session of 10 s. */
struct zk_settings stage_settings(const char *hosts);

int stage_open(struct stage *stage, const struct zk_settings *settings,
               struct fake_clock *clock);
void stage_close(struct stage *stage);

zk_done stage_take;

/* The last reply, once it is there. */
const struct stage_reply *stage_last(struct stage *stage);

void stage_turn(struct stage *stage);
/* Turns the loop until the condition holds, for ten seconds at most. */
#define STAGE_UNTIL(stage, condition)                                                  \
    do {                                                                               \
        for (int turns_ = 0; !(condition) && turns_ < 1000; turns_++)                  \
            stage_turn(stage);                                                         \
        ck_assert_msg((condition), "%s (%s)", #condition, (stage)->why.text);          \
    } while (0)

#endif
