/* SPDX-License-Identifier: MIT */
/*
 * The wire of ZooKeeper: where replies can be spoiled, and how.
 *
 * A frame does not say what it answers, so its fields are found by their places: the
 * header (xid, zxid, error), the Stat that most replies end with, the ten digits of a
 * sequence number; of the greeting each field. Beside that four bytes anywhere, which
 * hit lengths, counts and texts. A list of children is known by its form.
 */
#include "zookeeper_wire.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../harness/zookeeper_server.h"

enum { FIELDS_MAX = 512, HEADER = 20, STAT = 68, GREETING = 41, DIGITS = 10 };

/* ---- Fields ---------------------------------------------------------------------- */

enum kind { WHOLE, FIELD, ANYWHERE, SEQUENCE, CHILDREN };

struct field {
    size_t at;
    size_t width;
    enum kind kind;
};

struct fields {
    size_t count;
    struct field of[FIELDS_MAX];
};

static uint32_t word_at(const char *data, size_t at)
{
    uint32_t bits;
    memcpy(&bits, data + at, sizeof bits);
    return be32toh(bits);
}

static void word_put(char *data, int64_t number)
{
    uint32_t bits = htobe32((uint32_t)number);
    memcpy(data, &bits, sizeof bits);
}

static void add(struct fields *all, enum kind kind, size_t at, size_t width)
{
    if (all->count < FIELDS_MAX)
        all->of[all->count++] = (struct field){ at, width, kind };
}

static bool is_greeting(const char *data, size_t len)
{
    return (len == GREETING || len == GREETING - 1) && word_at(data, 4) == 0 &&
           word_at(data, 20) == 16;
}

/* The names, one behind the other, then a Stat, and nothing else. */
static bool is_children(const char *data, size_t len)
{
    if (len < HEADER + 4 + STAT || word_at(data, 16) != 0)
        return false;
    uint32_t count = word_at(data, HEADER);
    size_t at = HEADER + 4;
    for (uint32_t i = 0; i < count && at + 4 + STAT <= len; i++)
        at += 4 + (size_t)word_at(data, at);
    return at + STAT == len;
}

static void add_stat(struct fields *all, size_t at)
{
    static const size_t widths[] = { 8, 8, 8, 8, 4, 4, 4, 8, 4, 4, 8 };
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        add(all, FIELD, at, widths[i]);
        at += widths[i];
    }
}

static size_t digits_at(const char *data, size_t len, size_t at)
{
    size_t count = 0;
    while (at + count < len && data[at + count] >= '0' && data[at + count] <= '9')
        count++;
    return count;
}

static void add_sequences(struct fields *all, const char *data, size_t len)
{
    for (size_t at = HEADER; at < len; at++)
        if (data[at - 1] == '-' && digits_at(data, len, at) == DIGITS) {
            add(all, SEQUENCE, at, DIGITS);
            at += DIGITS;
        }
}

static void find_fields(struct fields *all, const char *data, size_t len)
{
    all->count = 0;
    add(all, WHOLE, 0, 0);
    if (is_greeting(data, len)) {
        add(all, FIELD, 4, 4);  /* version */
        add(all, FIELD, 8, 4);  /* timeout */
        add(all, FIELD, 12, 8); /* session */
        add(all, FIELD, 20, 4); /* length of the password */
        return;
    }
    if (len < HEADER)
        return;
    add(all, FIELD, 4, 4);  /* xid */
    add(all, FIELD, 8, 8);  /* zxid */
    add(all, FIELD, 16, 4); /* error */
    if (is_children(data, len))
        add(all, CHILDREN, 0, 0);
    if (len >= HEADER + STAT)
        add_stat(all, len - STAT);
    add_sequences(all, data, len);
    for (size_t at = HEADER; at + 4 <= len && at < HEADER + 200; at++)
        add(all, ANYWHERE, at, 4);
}

static size_t zookeeper_measure(const char *data, size_t size)
{
    if (size < 4)
        return 0;
    size_t len = 4 + (size_t)word_at(data, 0);
    return len <= size ? len : 0;
}

static _Thread_local struct fields fields; /* of the reply at hand */

static size_t zookeeper_sites(const char *data, size_t len)
{
    find_fields(&fields, data, len);
    return fields.count;
}

static bool zookeeper_fits(size_t site, const struct spoil *how)
{
    if (site >= fields.count)
        return false;
    switch (fields.of[site].kind) {
    case FIELD:
        return how->family == NUMBERS;
    case ANYWHERE:
        return how->family == TYPES && how->how == AS_NUMBER;
    case SEQUENCE:
        return how->how == AS_DIGITS;
    case CHILDREN:
        return how->how == NAMES;
    default:
        return how->family == LENGTHS || how->family == STREAMS;
    }
}

/* ---- Spoiling -------------------------------------------------------------------- */

static void say_number(struct lane *lane, char *frame, size_t len,
                       const struct field *field, const char *text)
{
    int64_t number = (int64_t)strtoll(text, NULL, 10);
    uint64_t bits = htobe64((uint64_t)number);
    if (field->width == 8)
        memcpy(frame + field->at, &bits, sizeof bits);
    else
        word_put(frame + field->at, number);
    lane_say(lane, frame, len);
}

/* Names as the lock's own clients make them, each with another number. */
static void say_names(struct lane *lane, const char *data, size_t len, size_t count)
{
    static const char form[] = "_c_00000000-0000-0000-0000-000000000000-lock-%010u";
    enum { NAME = 55 };
    char name[80];
    size_t size = HEADER + 4 + count * (4 + NAME) + STAT, at = HEADER + 4;
    char *frame = malloc(size + 1);
    CHECK(frame != NULL);
    memcpy(frame, data, HEADER);
    word_put(frame, (int64_t)size - 4);
    word_put(frame + HEADER, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        word_put(frame + at, NAME);
        snprintf(name, sizeof name, form, i % 7 ? (unsigned)i : UINT32_MAX);
        memcpy(frame + at + 4, name, NAME);
        at += 4 + NAME;
    }
    memcpy(frame + at, data + len - STAT, STAT);
    lane_say(lane, frame, size);
    free(frame);
}

static void say_grown(struct lane *lane, const char *data, size_t len, size_t more)
{
    char *frame = calloc(1, len + more);
    CHECK(frame != NULL);
    memcpy(frame, data, len);
    word_put(frame, (int64_t)(len + more) - 4);
    lane_say(lane, frame, len + more);
    free(frame);
}

static void say_event(struct lane *lane, int64_t type, const char *path)
{
    char frame[128] = "";
    size_t len = strlen(path), size = HEADER + 12 + len;
    CHECK(size <= sizeof frame);
    word_put(frame, (int64_t)size - 4);
    memset(frame + 4, 0xff, 12); /* xid and zxid: -1 */
    word_put(frame + 20, type);
    word_put(frame + 24, 3);
    word_put(frame + 28, (int64_t)len);
    memcpy(frame + 32, path, len);
    lane_say(lane, frame, size);
}

static void say_reply(struct lane *lane, int64_t xid)
{
    char frame[HEADER] = "";
    word_put(frame, HEADER - 4);
    word_put(frame + 4, xid);
    lane_say(lane, frame, sizeof frame);
}

static void spoil_stream(struct lane *lane, const char *data, size_t len,
                         const struct spoil *how)
{
    static const char zeros[64];
    int64_t number = (int64_t)strtoll(how->text, NULL, 10);
    size_t half = how->how == CLOSED || how->how == RESET ? 0 : len / 2;
    switch (how->how) {
    case LOST:
        return;
    case TRICKLED:
        lane_trickle(lane, data, len);
        return;
    case TWICE:
    case EVENT_BEFORE:
    case REPLY_BEFORE:
    case ZEROS_BEFORE:
        if (how->how == TWICE)
            lane_say(lane, data, len);
        else if (how->how == EVENT_BEFORE)
            say_event(lane, number, "/never/watched");
        else if (how->how == REPLY_BEFORE)
            say_reply(lane, number);
        else
            lane_say(lane, zeros, sizeof zeros);
        lane_say(lane, data, len);
        return;
    default:
        break;
    }
    lane_say(lane, data, half);
    if (how->how == HALF_CLOSED)
        lane_end(lane, LANE_HALF);
    else if (how->how == HALF_AND_RESET || how->how == RESET)
        lane_end(lane, LANE_RESET);
    else if (how->how != HALF_AND_SILENCE)
        lane_end(lane, LANE_CLOSE);
}

static void zookeeper_spoil(struct lane *lane, const char *data, size_t len,
                            size_t site, const struct spoil *how)
{
    size_t number = (size_t)strtoull(how->text, NULL, 10);
    char *frame = malloc(len);
    CHECK(frame != NULL);
    memcpy(frame, data, len);
    const struct field *field = &fields.of[site];
    if (how->how == AS_NUMBER) {
        say_number(lane, frame, len, field, how->text);
    } else if (how->how == AS_DIGITS) {
        memcpy(frame + field->at, how->text, DIGITS);
        lane_say(lane, frame, len);
    } else if (how->how == AS_LENGTH) {
        word_put(frame, strtoll(how->text, NULL, 10));
        lane_say(lane, frame, len);
    } else if (how->how == CUT && number + 4 < len) {
        word_put(frame, (int64_t)(len - number) - 4);
        lane_say(lane, frame, len - number);
    } else if (how->how == CUT || how->how == GROWN) {
        say_grown(lane, data, len, number);
    } else if (how->how == NAMES) {
        say_names(lane, data, len, number);
    } else {
        spoil_stream(lane, data, len, how);
    }
    free(frame);
}

/* ---- What the client says -------------------------------------------------------- */

char zookeeper_watched[512];

/* exists, getData or getChildren2: xid, what it is, the path, whether to watch. */
static void zookeeper_told(void *arg, struct lane *lane, const char *data, size_t size)
{
    (void)arg;
    (void)lane;
    for (size_t at = 0, len; at + 16 <= size; at += len) {
        len = 4 + (size_t)word_at(data, at);
        uint32_t what = word_at(data, at + 8), path = word_at(data, at + 12);
        if (len > size - at || (what != 3 && what != 4 && what != 12))
            continue;
        if (len == 17 + (size_t)path && path < sizeof zookeeper_watched &&
            data[at + len - 1]) {
            memcpy(zookeeper_watched, data + at + 16, path);
            zookeeper_watched[path] = '\0';
        }
    }
}

/* ---- The server ------------------------------------------------------------------ */

/* It takes a second to start: one for all cases, each with names of its own. */
static struct zookeeper zoo;
static char upstream[16];

static void zookeeper_begin(const char *directory)
{
    struct zookeeper_options options = { .tick_ms = 400 };
    (void)directory;
    zookeeper_start(&zoo, 1, &options);
    snprintf(upstream, sizeof upstream, ":%d", zoo.node[0].port);
}

static void zookeeper_end(void)
{
    zookeeper_stop(&zoo);
}

static const char *zookeeper_upstream(void)
{
    return upstream;
}

static void zookeeper_url(char *url, size_t size, int port)
{
    snprintf(url, size, "zookeeper://127.0.0.1:%d/p%d", port ? port : zoo.node[0].port,
             (int)getpid());
}

const struct wire zookeeper_wire = {
    .name = "zookeeper",
    .shared = true,
    .spoils = zookeeper_spoils,
    .queries = { "", "&layout=single", "&layout=kazoo" },
    .client_query = "&session=4s&timeout=300ms",
    .sane_query = "&session=8s&timeout=20s",
    .start = zookeeper_begin,
    .stop = zookeeper_end,
    .url = zookeeper_url,
    .upstream = zookeeper_upstream,
    .measure = zookeeper_measure,
    .sites = zookeeper_sites,
    .fits = zookeeper_fits,
    .spoil = zookeeper_spoil,
    .told = zookeeper_told,
};
