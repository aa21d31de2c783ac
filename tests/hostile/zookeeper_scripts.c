/* SPDX-License-Identifier: MIT */
/*
 * What a ZooKeeper server can do besides answering wrongly: floods of events, frames
 * without end, sessions and connections that never last.
 */
#include "hostile.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 500, EVENT_MAX = 600 };

/* ---- Floods ---------------------------------------------------------------------- */

static size_t put(char *out, size_t at, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        out[at + (size_t)i] = (char)(number >> (24 - 8 * i));
    return at + 4;
}

static size_t event_write(char *out, uint32_t type, const char *path)
{
    size_t len = strlen(path), at = put(out, 0, (uint32_t)(28 + len));
    at = put(out, at, UINT32_MAX); /* the xid of events */
    at = put(out, at, UINT32_MAX);
    at = put(out, at, UINT32_MAX);
    at = put(out, at, 0);
    at = put(out, at, type);
    at = put(out, at, 3);
    at = put(out, at, (uint32_t)len);
    memcpy(out + at, path, len);
    return at + len;
}

/* Events of all types for the path, or for the one that is watched. */
static int flood(struct trial *t, const char *path)
{
    char *piece = malloc(PIECE * EVENT_MAX);
    bool lasts = true;
    int sent = 0;
    CHECK(piece != NULL);
    while (sent < settings.flood && lasts) {
        size_t len = 0;
        middle_lock(t->middle);
        for (int i = 0; i < PIECE; i++, sent++)
            len += event_write(piece + len, 1 + (uint32_t)sent % 4,
                               path ? path : zookeeper_watched);
        struct lane *lane = middle_newest(t->middle);
        lasts = lane && lane_say(lane, piece, len);
        middle_unlock(t->middle);
    }
    free(piece);
    return sent;
}

static void flood_waiter(struct trial *t, const char *path)
{
    hf_hold *theirs = sane_hold(t, hf_mutex(t->name));
    hf_op *op = queue_behind(t);
    int64_t before = peak_bytes();
    CHECK(flood(t, path) >= PIECE);
    granted_after(t, theirs, op);
    check_peak(before, 192 * MIB);
}

static void flood_strange(struct trial *t)
{
    flood_waiter(t, "/never/watched");
}

static void flood_root(struct trial *t)
{
    flood_waiter(t, "/");
}

static void flood_no_path(struct trial *t)
{
    flood_waiter(t, "");
}

static void flood_watched(struct trial *t)
{
    flood_waiter(t, NULL);
}

static void flood_holder(struct trial *t)
{
    hf_hold *hold = held(t, hf_mutex(t->name));
    uint64_t token = hf_hold_token(hold, 0);
    int64_t before = peak_bytes();
    CHECK(flood(t, NULL) >= PIECE);
    begin(t);
    judged(t, hf_hold_verify(hold, &t->why), 4 * REQUEST_MS);
    judge_hold(t, hold, LEASE_MS);
    CHECK_EQ(hf_hold_token(hold, 0), token);
    let_go(t, hold);
    check_peak(before, 192 * MIB);
}

/* ---- Frames without end ---------------------------------------------------------- */

static int64_t said; /* bytes that the client took, under the middle's lock */

static void say_until_refused(struct lane *lane, uint32_t len)
{
    static char bytes[65536];
    char head[4];
    put(head, 0, len);
    lane_say(lane, head, sizeof head);
    for (said = 0; said < 400 * MIB && lane_say(lane, bytes, sizeof bytes);)
        said += (int64_t)sizeof bytes;
    lane_end(lane, LANE_CLOSE);
}

static bool rewrite_hundred(struct lane *lane, const char *data, size_t len)
{
    (void)data;
    (void)len;
    say_until_refused(lane, 104857600);
    return true;
}

/* The largest frame that is taken, then zeros: the next ones are empty. */
static bool rewrite_largest(struct lane *lane, const char *data, size_t len)
{
    (void)data;
    (void)len;
    say_until_refused(lane, 4 << 20);
    return true;
}

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
    CHECK(said < 16 * MIB);
    middle_unlock(t->middle);
    check_peak(before, 128 * MIB);
}

static void hundred(struct trial *t)
{
    refuse(t, rewrite_hundred);
}

static void largest(struct trial *t)
{
    refuse(t, rewrite_largest);
}

const struct script zookeeper_scripts[] = {
    { "flood: events of paths never watched", flood_strange, false },
    { "flood: events of the root", flood_root, false },
    { "flood: events without a path", flood_no_path, false },
    { "flood: events of the path watched", flood_watched, false },
    { "flood: events, to a holder", flood_holder, false },
    { "reply: 100 MiB in one frame", hundred, false },
    { "reply: the largest frame, and zeros", largest, false },
    { "connections that never last", never_lasts, false },
    { .name = NULL },
};
