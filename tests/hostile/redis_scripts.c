/* SPDX-License-Identifier: MIT */
/*
 * What a redis server can do besides answering wrongly: floods of messages, replies
 * without end, answers to nobody, connections that never last.
 *
 * What is injected goes out under the middle's lock, in pieces, beside what the real
 * server says. A message about a ticket is written as the scripts write it, with the
 * owner and the number that the client was heard to ask with.
 */
#include "hostile.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 500 };

static bool resp2(void)
{
    return strstr(settings.query, "protocol=2") != NULL;
}

/* ---- Floods ---------------------------------------------------------------------- */

/* A message on `channel`, as the server pushes it. */
static size_t message_write(char *out, size_t size, const char *channel,
                            const char *text)
{
    int len =
        snprintf(out, size, "%c3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                 resp2() ? '*' : '>', strlen(channel), channel, strlen(text), text);
    CHECK(len > 0 && (size_t)len < size);
    return (size_t)len;
}

/* `count` messages about the last ticket, or as many as the connection lasts. */
static int flood(struct trial *t, const char *channel, const char *letter,
                 const char *rest, int count)
{
    char text[256], one[512];
    char *piece = malloc(PIECE * sizeof one);
    bool lasts = true;
    int sent = 0;
    CHECK(piece != NULL);
    while (sent < count && lasts) {
        size_t len = 0;
        middle_lock(t->middle);
        for (int i = 0; i < PIECE && sent < count; i++, sent++) {
            snprintf(text, sizeof text, "%s %s %s %s", letter, redis_heard.number,
                     redis_heard.owner, rest);
            len += message_write(piece + len, sizeof one,
                                 channel ? channel : redis_heard.inbox, text);
        }
        struct lane *lane = middle_newest(t->middle);
        lasts = lane && lane_say(lane, piece, len);
        middle_unlock(t->middle);
    }
    free(piece);
    return sent;
}

/* A waiter under a flood of messages is granted the lock as ever. Where each message
 * makes the client ask again, the answers may come too late behind the flood, and it
 * looks for another connection: then the flood is over. */
static void flood_waiter(struct trial *t, const char *channel, const char *letter,
                         const char *rest)
{
    hf_hold *theirs = sane_hold(t, hf_mutex(t->name));
    hf_op *op = queue_behind(t);
    int64_t before = peak_bytes();
    CHECK(flood(t, channel, letter, rest, settings.flood) >= PIECE);
    granted_after(t, theirs, op);
    check_peak(before, 192 * MIB);
}

static void flood_other_channels(struct trial *t)
{
    flood_waiter(t, "redisson_lock__channel:{nobody}", "0", "");
}

static void flood_unknown(struct trial *t)
{
    flood_waiter(t, NULL, "g 77", "1 1 1000 1");
}

static void flood_notices(struct trial *t)
{
    flood_waiter(t, NULL, "n", "");
}

static void flood_later(struct trial *t)
{
    flood_waiter(t, NULL, "w", "0");
}

static void flood_opened(struct trial *t)
{
    flood_waiter(t, NULL, "o", "");
}

static void flood_lost(struct trial *t)
{
    flood_waiter(t, NULL, "l",
                 "host\x1f"
                 "1\x1fprogram\x1f");
}

static void flood_wishes(struct trial *t)
{
    flood_waiter(t, NULL, "e", "5 6 00112233445566778899aabbccddeeff host");
}

/* ---- A holder -------------------------------------------------------------------- */

static void ignore(void *user, hf_hold *hold, enum hf_event event, const hf_error *why)
{
    (void)user;
    (void)hold;
    (void)event;
    CHECK(!why || text_is_clean(why->text));
}

static void flood_holder(struct trial *t, const char *letter, const char *rest)
{
    hf_hold *hold = held(t, hf_mutex(t->name));
    int64_t before = peak_bytes();
    uint64_t token = hf_hold_token(hold, 0);
    CHECK_RC(hf_hold_watch(hold, ignore, NULL, NULL), 0);
    CHECK(flood(t, NULL, letter, rest, settings.flood / 10) >= PIECE);
    begin(t);
    judged(t, hf_hold_verify(hold, &t->why), 4 * REQUEST_MS);
    judge_hold(t, hold, LEASE_MS);
    CHECK_EQ(hf_hold_token(hold, 0), token);
    let_go(t, hold);
    check_peak(before, 256 * MIB);
}

static void holder_granted_again(struct trial *t)
{
    flood_holder(t, "g", "9007199254740991 7 315360000000 1");
}

static void holder_revoked(struct trial *t)
{
    flood_holder(t, "r", "");
}

static void holder_queued(struct trial *t)
{
    flood_holder(t, "w", "1");
}

static void holder_lost(struct trial *t)
{
    flood_holder(t, "l",
                 "h\x1b[2Jost\x1f"
                 "1\x1fprogram\x1f");
}

static void holder_wishes(struct trial *t)
{
    flood_holder(t, "e", "5 6 00112233445566778899aabbccddeeff host");
}

/* ---- Replies without end --------------------------------------------------------- */

static int64_t said; /* bytes that the client took, under the middle's lock */

static void say_until_refused(struct lane *lane, const char *first, const char *again,
                              size_t fill)
{
    static char bytes[65536];
    memset(bytes, '7', sizeof bytes);
    lane_say(lane, first, strlen(first));
    for (said = 0; said < 400 * MIB;) {
        if (!lane_say(lane, again, strlen(again)))
            break;
        for (size_t left = fill; left > 0;) {
            size_t some = left < sizeof bytes ? left : sizeof bytes;
            if (!lane_say(lane, bytes, some))
                return;
            left -= some;
            said += (int64_t)some;
        }
        if (fill && !lane_say(lane, "\r\n", 2))
            break;
        said += (int64_t)strlen(again);
    }
}

/* 4000 texts of 16 MiB each. */
static bool rewrite_huge(struct lane *lane, const char *data, size_t len)
{
    (void)data;
    (void)len;
    say_until_refused(lane, "*4000\r\n", "$16777216\r\n", 16777216);
    lane_end(lane, LANE_CLOSE);
    return true;
}

static bool rewrite_hundred(struct lane *lane, const char *data, size_t len)
{
    (void)data;
    (void)len;
    say_until_refused(lane, "", "$104857600\r\n", 104857600);
    lane_end(lane, LANE_CLOSE);
    return true;
}

static bool rewrite_attributes(struct lane *lane, const char *data, size_t len)
{
    (void)data;
    (void)len;
    say_until_refused(lane, "", "|1\r\n+a\r\n+b\r\n", 0);
    lane_end(lane, LANE_CLOSE);
    return true;
}

/* The call ends with an error, and the client took no more than 64 MiB and what lies
 * in the sockets. */
static void refuse(struct trial *t,
                   bool (*rewrite)(struct lane *, const char *, size_t))
{
    hf_want want = hf_mutex(t->name);
    hf_hold *hold;
    int64_t before = peak_bytes();
    set_rewrite(t, rewrite);
    CHECK(take(t, &want, 1, 0, &hold) != 0);
    set_rewrite(t, NULL);
    middle_lock(t->middle);
    CHECK(said < 80 * MIB);
    middle_unlock(t->middle);
    check_peak(before, 256 * MIB);
}

static void huge(struct trial *t)
{
    refuse(t, rewrite_huge);
}

static void hundred(struct trial *t)
{
    refuse(t, rewrite_hundred);
}

static void attributes(struct trial *t)
{
    refuse(t, rewrite_attributes);
}

/* ---- Walks without end ----------------------------------------------------------- */

/* Every step of SCAN finds a thousand names more, and is never the last. */
static bool rewrite_scan(struct lane *lane, const char *data, size_t len)
{
    static char out[65536];
    static unsigned number;
    if (len < 10 || memcmp(data, "*2\r\n$1\r\n0\r\n*", 12) != 0)
        return false;
    size_t at = (size_t)snprintf(out, sizeof out, "*2\r\n$2\r\n17\r\n*1000\r\n");
    for (int i = 0; i < 1000; i++)
        at += (size_t)snprintf(out + at, sizeof out - at,
                               "$24\r\nholdfast_info:%010u\r\n", ++number);
    lane_say(lane, out, at);
    return true;
}

/* A page is never the last one, and has the row that it has. */
static bool rewrite_page(struct lane *lane, const char *data, size_t len)
{
    if (len < 8 || memcmp(data, "*3\r\n:0\r\n", 8) != 0)
        return false;
    lane_say(lane, "*3\r\n:1\r\n", 8);
    lane_say(lane, data + 8, len - 8);
    return true;
}

/* The same, with as many rows as a reply may have, each as long as it can be. */
static bool rewrite_full_page(struct lane *lane, const char *data, size_t len)
{
    enum { ROWS = 360, TEXT = 3000 };
    static const char page[] = "*3\r\n:1\r\n$1\r\n0\r\n*360\r\n";
    static char row[TEXT + 256];
    if (len < 8 || (memcmp(data, "*3\r\n:0\r\n", 8) && memcmp(data, "*3\r\n:1\r\n", 8)))
        return false;
    int head =
        snprintf(row, sizeof row,
                 "*10\r\n+h\r\n+m\r\n+o\r\n:1\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1\r\n$%d"
                 "\r\n",
                 TEXT);
    memset(row + head, 'x', TEXT);
    for (int part = 0; part < 4; part++) /* kind, host, pid, program, note */
        row[head + (int[]){ 1, 1000, 1002, 2000 }[part]] = '\x1f';
    memcpy(row + head + TEXT, "\r\n", 2);
    bool fine = lane_say(lane, page, strlen(page));
    for (int i = 0; i < ROWS && fine; i++)
        fine = lane_say(lane, row, (size_t)head + TEXT + 2);
    return true;
}

struct walk {
    struct trial *t;
    bool prefix;
    int rc;
};

static void *walk_run(void *arg)
{
    struct walk *walk = arg;
    hf_report *report = NULL;
    do /* again if the machine was too busy to answer within REQUEST_MS */
        walk->rc = hf_inspect(walk->t->client, walk->prefix ? "" : walk->t->name,
                              walk->prefix, &report, NULL);
    while (walk->rc == HF_EUNREACHABLE);
    hf_report_free(report);
    return NULL;
}

static uint32_t steps(struct trial *t)
{
    middle_lock(t->middle);
    uint32_t count = t->plan->applied;
    middle_unlock(t->middle);
    return count;
}

/* A walk goes on as long as the server does; hf_close() ends it. */
static void walk(struct trial *t, bool prefix,
                 bool (*rewrite)(struct lane *, const char *, size_t))
{
    struct walk walk = { t, prefix, 0 };
    pthread_t thread;
    hf_hold *hold = sane_hold(t, hf_mutex(t->name));
    set_rewrite(t, rewrite);
    CHECK_EQ(pthread_create(&thread, NULL, walk_run, &walk), 0);
    EVENTUALLY(steps(t) > 50);
    begin(t);
    hf_close(t->client);
    t->client = NULL;
    judged(t, 0, 2 * REQUEST_MS);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_RC(walk.rc, HF_ECLOSED);
    set_rewrite(t, NULL);
    hf_release(hold, NULL);
}

static void endless_scan(struct trial *t)
{
    walk(t, true, rewrite_scan);
}

static void endless_pages(struct trial *t)
{
    walk(t, false, rewrite_page);
}

/* One that brings too much ends by itself, with no more than it may have. */
static void too_much(struct trial *t)
{
    hf_report *report = NULL;
    hf_hold *hold = sane_hold(t, hf_mutex(t->name));
    int64_t before = peak_bytes();
    set_rewrite(t, rewrite_full_page);
    begin(t);
    judged(t, hf_inspect(t->client, t->name, false, &report, &t->why), PATIENCE_MS);
    CHECK_EQ(t->why.code, HF_ENOMEM);
    set_rewrite(t, NULL);
    check_peak(before, 320 * MIB);
    hf_release(hold, NULL);
}

/* ---- Answers to nobody ----------------------------------------------------------- */

static bool inject(struct trial *t, const char *text)
{
    middle_lock(t->middle);
    struct lane *lane = middle_newest(t->middle);
    bool done = lane && lane_say(lane, text, strlen(text));
    middle_unlock(t->middle);
    return done;
}

/* Before the request that it could be an answer to. Replies have no number, so that one
 * too many shifts those that follow until the client notices: a server that says so is
 * believed; but a hold is judged as ever, and the client comes back. */
static void answer_first(struct trial *t)
{
    static const char *const texts[] = {
        "*4\r\n:1\r\n:1\r\n:1\r\n:1000\r\n",
        ":1\r\n",
        "+OK\r\n",
        "-ERR no\r\n",
        "$-1\r\n",
        "_\r\n",
        "\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(t->name, sizeof t->name, "before%zu", i);
        hf_hold *theirs = sane_hold(t, hf_mutex(t->name)), *ours = NULL;
        hf_want want = hf_mutex(t->name);
        EVENTUALLY(inject(t, texts[i]));
        take(t, &want, 1, REQUEST_MS, &ours);
        let_go(t, ours);
        hf_release(theirs, NULL);
    }
}

/* ---- The table ------------------------------------------------------------------- */

const struct script redis_scripts[] = {
    { "flood: channels not subscribed to", flood_other_channels, false },
    { "flood: grants for tickets unknown", flood_unknown, false },
    { "flood: notices", flood_notices, false },
    { "flood: not yet", flood_later, false },
    { "flood: opened, to a mutex", flood_opened, false },
    { "flood: lost, to a waiter", flood_lost, false },
    { "flood: wishes, to a waiter", flood_wishes, false },
    { "flood: granted again", holder_granted_again, false },
    { "flood: revoked", holder_revoked, false },
    { "flood: queued, to a holder", holder_queued, false },
    { "flood: lost", holder_lost, false },
    { "flood: wishes", holder_wishes, false },
    { "reply: 64 GB in pieces of 16 MiB", huge, false },
    { "reply: 100 MiB in one piece", hundred, false },
    { "reply: attributes without end", attributes, false },
    { "walk: a scan without end", endless_scan, false },
    { "walk: pages without end", endless_pages, false },
    { "walk: pages of megabytes without end", too_much, true },
    { "answers before the request", answer_first, false },
    { "connections that never last", never_lasts, false },
    { .name = NULL },
};
