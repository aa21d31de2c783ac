/* SPDX-License-Identifier: MIT */
/*
 * The client of zk_stage.h. The fake host knows stores only, so the client is wrapped
 * as a store whose session is a pointer to the stage.
 */
#include "zk_stage.h"

#include "../../src/base/clock.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { TURN_MS = 10 };

static struct stage *setting_up;
static const struct zk_settings *wanted;

static struct stage *stage_of(void *session)
{
    return *(struct stage **)session;
}

/* ---- What the client says -------------------------------------------------------- */

static void note(struct stage *stage, char letter)
{
    if (stage->story_len < STAGE_TEXT - 1)
        stage->story[stage->story_len++] = letter;
}

static void on_up(void *session, bool fresh)
{
    struct stage *stage = stage_of(session);
    ck_assert(hf__zk_is_up(stage->zk));
    stage->ups++;
    stage->fresh += fresh;
    note(stage, fresh ? 'U' : 'u');
}

static void on_down(void *session, const hf_error *why)
{
    struct stage *stage = stage_of(session);
    ck_assert(!hf__zk_is_up(stage->zk));
    stage->why = *why;
    stage->downs++;
    note(stage, 'd');
}

static void on_expired(void *session)
{
    struct stage *stage = stage_of(session);
    ck_assert(!hf__zk_is_up(stage->zk));
    stage->expiries++;
    note(stage, 'x');
}

static void on_event(void *session, enum zk_event_type type, const char *path,
                     size_t len)
{
    struct stage *stage = stage_of(session);
    snprintf(stage->events[stage->event_count++ % STAGE_EVENTS], STAGE_TEXT, "%d %.*s",
             (int)type, (int)len, path);
    note(stage, 'e');
}

static const struct zk_user user = { on_up, on_down, on_expired, on_event };

static void join(struct stage_reply *to, const struct zk_text *texts, size_t count)
{
    size_t len = strlen(to->text);

    for (size_t i = 0; i < count && len + texts[i].len + 2 < STAGE_TEXT; i++)
        len += (size_t)snprintf(to->text + len, STAGE_TEXT - len, "%s%.*s",
                                len ? " " : "", (int)texts[i].len, texts[i].at);
}

static void note_reply(struct stage_reply *to, const struct zk_reply *reply)
{
    to->reply = *reply;
    if (reply->path.len)
        join(to, &reply->path, 1);
    if (reply->data.len)
        join(to, &reply->data, 1);
    if (reply->names)
        join(to, reply->names, reply->count);
    if (reply->paths)
        join(to, reply->paths, reply->count);
}

void stage_take(const struct zk_answer *answer)
{
    struct stage *stage = stage_of(answer->session);
    if (stage->reply_count == STAGE_MAX)
        ck_abort_msg("too many replies");
    struct stage_reply *to = &stage->replies[stage->reply_count++];

    memset(to, 0, sizeof *to);
    to->word = answer->tag;
    to->subject = answer->subject;
    const struct zk_reply *reply = answer->reply;
    to->code = answer->why ? answer->why->code : 0;
    to->sent_ns = answer->sent_ns;
    if (!reply == !answer->why)
        ck_abort_msg("neither reply nor reason, or both");
    if (answer->why)
        snprintf(to->text, STAGE_TEXT, "%s", answer->why->text);
    else
        note_reply(to, reply);
    note(stage, 'r');
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
    return hf__zk_open(host, wanted, &user, session, &setting_up->zk, why);
}

static void store_close(void *session, bool forked)
{
    hf__zk_close(stage_of(session)->zk, forked);
    stage_of(session)->zk = NULL;
}

static const struct hf_backend store = {
    .session_size = sizeof(struct stage *),
    .open = store_open,
    .close = store_close,
};

struct zk_settings stage_settings(const char *hosts)
{
    return (struct zk_settings){
        .hosts = hosts,
        .chroot = "",
        .stream = { .host = "", .unix_path = "", .connect_ns = 5 * HF_NS_PER_S },
        .auth = "",
        .session_ns = 10 * HF_NS_PER_S,
        .request_ns = 5 * HF_NS_PER_S,
    };
}

int stage_open(struct stage *stage, const struct zk_settings *settings,
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

void stage_turn(struct stage *stage)
{
    fake_turn(&stage->host, TURN_MS);
}

const struct stage_reply *stage_last(struct stage *stage)
{
    STAGE_UNTIL(stage, stage->reply_count > 0 && !hf__zk_ring_oldest(&stage->zk->ring));
    return &stage->replies[stage->reply_count - 1];
}
