/* SPDX-License-Identifier: MIT */
/*
 * The wire of Redis, RESP2 and RESP3: where replies can be spoiled, and how.
 *
 * A reply is measured once, by a reader of the test's own, into parts: every value with
 * the range of its bytes. A site is a part, or a word of a part that is text (words are
 * parted by blanks or 0x1f: messages to a waiter, details of a holder). Spoiling cuts
 * the range out and puts something else there.
 */
#include "redis_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/redis_server.h"

enum { PARTS_MAX = 512, WORDS_MAX = 16, SITES_MAX = 1024 };

/* ---- Measuring ------------------------------------------------------------------- */

struct part {
    size_t from, to;     /* all of its bytes */
    size_t text, len;    /* what it says, of text and numbers */
    size_t kids, behind; /* of a list: how many, and the part behind the last */
    size_t last;         /* of a list: where its last element begins */
    char mark;
};

struct reading {
    const char *data;
    size_t size, at, count;
    struct part parts[PARTS_MAX];
};

static bool read_line(struct reading *r, size_t *ret_from, size_t *ret_to)
{
    const char *end = memmem(r->data + r->at, r->size - r->at, "\r\n", 2);
    if (!end)
        return false;
    *ret_from = r->at;
    *ret_to = (size_t)(end - r->data);
    r->at = *ret_to + 2;
    return true;
}

static bool read_value(struct reading *r);

static bool read_kids(struct reading *r, size_t index, long count)
{
    for (long i = 0; i < count; i++) {
        r->parts[index].last = r->at;
        if (!read_value(r))
            return false;
    }
    r->parts[index].behind = r->count;
    return true;
}

/* Honest replies only: no length is wrong, and nothing is deep. */
static bool read_value(struct reading *r)
{
    size_t index = r->count, from = r->at, line, end;
    if (r->at >= r->size || r->count == PARTS_MAX)
        return false;
    struct part *part = &r->parts[r->count++];
    *part = (struct part){ .from = from, .mark = r->data[r->at++] };
    if (!read_line(r, &line, &end))
        return false;
    part->text = line;
    part->len = end - line;
    long number = strchr("$=!*%~>|", part->mark) ? strtol(r->data + line, NULL, 10) : 0;
    if (strchr("$=!", part->mark) && number >= 0) {
        if (r->size - r->at < (size_t)number + 2)
            return false;
        part->text = r->at;
        part->len = (size_t)number;
        r->at += (size_t)number + 2;
    }
    bool list = strchr("*%~>", part->mark) && number >= 0;
    if (list) {
        long kids = part->mark == '%' ? 2 * number : number;
        part->kids = (size_t)kids;
        if (!read_kids(r, index, kids))
            return false;
    }
    r->parts[index].to = r->at;
    return true;
}

/* A reply with more parts than we know is passed on as far as it goes. */
static size_t redis_measure(const char *data, size_t size)
{
    static _Thread_local struct reading r;
    r = (struct reading){ .data = data, .size = size };
    if (size == 0)
        return 0;
    if (read_value(&r))
        return r.at;
    return r.count == PARTS_MAX ? size : 0;
}

static bool is_list(const struct part *part)
{
    return strchr("*%~>", part->mark) && part->kids > 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\x1f';
}

/* The word `index` (from 1) of a part's text; 0 is all of it. */
static bool word_of(const struct reading *r, const struct part *part, size_t index,
                    size_t *ret_from, size_t *ret_to)
{
    size_t at = part->text, end = part->text + part->len;
    for (size_t word = 1; at < end; word++, at++) {
        size_t from = at;
        while (at < end && !is_blank(r->data[at]))
            at++;
        if (word == index) {
            *ret_from = from;
            *ret_to = at;
            return true;
        }
    }
    *ret_from = part->text;
    *ret_to = end;
    return index == 0;
}

static size_t words_of(const struct reading *r, const struct part *part)
{
    size_t words = 0, from, to;
    if (part->mark != '$' || part->len > 400 ||
        !memchr(r->data + part->text, ' ', part->len))
        return 0;
    while (words < WORDS_MAX && word_of(r, part, words + 1, &from, &to))
        words++;
    return words;
}

struct site {
    size_t part, word;
};

/* The reply at hand, and where its sites are. */
static _Thread_local struct reading hand;
static _Thread_local size_t site_count;
static _Thread_local struct site sites[SITES_MAX];

static size_t redis_sites(const char *data, size_t len)
{
    hand = (struct reading){ .data = data, .size = len };
    site_count = 0;
    if (!read_value(&hand))
        return 0;
    for (size_t i = 0; i < hand.count; i++)
        for (size_t word = 0, words = words_of(&hand, &hand.parts[i]); word <= words;
             word++)
            if (site_count < SITES_MAX)
                sites[site_count++] = (struct site){ i, word };
    return site_count;
}

static bool redis_fits(size_t index, const struct spoil *how)
{
    struct site site = sites[index];
    const struct part *part = &hand.parts[site.part];
    if (how->how == AS_NUMBER)
        return strchr(":$+,", part->mark) != NULL;
    if (site.word > 0)
        return false;
    if (how->family == STREAMS)
        return site.part == 0;
    if (how->family == LISTS)
        return is_list(part) || how->how == NESTED;
    return true;
}

/* ---- Spoiling -------------------------------------------------------------------- */

struct out {
    char *data;
    size_t len, room;
};

static void put(struct out *out, const char *data, size_t len)
{
    if (len == 0)
        return;
    if (out->room - out->len < len) {
        out->room = 2 * (out->len + len);
        out->data = realloc(out->data, out->room);
        CHECK(out->data != NULL);
    }
    memcpy(out->data + out->len, data, len);
    out->len += len;
}

static void put_text(struct out *out, const char *text)
{
    put(out, text, strlen(text));
}

static void put_many(struct out *out, const char *text, long count)
{
    for (long i = 0; i < count; i++)
        put_text(out, text);
}

static void put_header(struct out *out, char mark, size_t number)
{
    char line[32];
    snprintf(line, sizeof line, "%c%zu\r\n", mark, number);
    put_text(out, line);
}

/* The part with one word, or all of it, replaced. */
static void put_number(struct out *out, const struct reading *r, struct site site,
                       const char *text)
{
    const struct part *part = &r->parts[site.part];
    size_t from, to, end = part->text + part->len;
    word_of(r, part, site.word, &from, &to);
    if (part->mark == '$')
        put_header(out, '$', part->len - (to - from) + strlen(text));
    else
        put(out, &part->mark, 1);
    put(out, r->data + part->text, from - part->text);
    put_text(out, text);
    put(out, r->data + to, end - to);
    put_text(out, "\r\n");
}

static void put_list(struct out *out, const struct reading *r, const struct part *part,
                     int how)
{
    size_t pairs = part->mark == '%' ? 2 : 1, more = how == MANY ? 5000 : 2;
    size_t first = r->parts[part - r->parts + 1].from, to = part->to;
    size_t count = part->kids / pairs;
    if (how == EMPTIED) {
        put_header(out, part->mark, 0);
        return;
    }
    if (how == SHORTER && pairs == 1) {
        to = part->last;
        count--;
    }
    put_header(out, part->mark, how == SHORTER ? count : count + more / pairs);
    put(out, r->data + first, to - first);
    if (how != SHORTER)
        put_many(out, ":7\r\n", (long)more);
}

static void put_bulk(struct out *out, size_t size)
{
    char *bytes = malloc(size);
    CHECK(bytes != NULL);
    memset(bytes, '7', size);
    put_header(out, '$', size);
    put(out, bytes, size);
    put_text(out, "\r\n");
    free(bytes);
}

static void put_spoiled(struct out *out, const struct reading *r, struct site site,
                        const struct spoil *how)
{
    const struct part *part = &r->parts[site.part];
    long number = strtol(how->text, NULL, 10);
    switch (how->how) {
    case AS_NUMBER:
        put_number(out, r, site, how->text);
        break;
    case BEFORE:
        put_text(out, how->text);
        put(out, r->data + part->from, part->to - part->from);
        break;
    case BULK:
        put_bulk(out, (size_t)number);
        break;
    case NESTED:
        put_many(out, "*1\r\n", number);
        put(out, r->data + part->from, part->to - part->from);
        break;
    case DEEP_OPEN:
        put_many(out, "*1\r\n", number);
        break;
    case AS_VALUE:
        put_text(out, how->text);
        break;
    default:
        put_list(out, r, part, how->how);
        break;
    }
}

static void say_endless(struct lane *lane)
{
    static char line[65536];
    memset(line, 'x', sizeof line);
    lane_say(lane, "+", 1);
    for (int i = 0; i < 256 && lane_say(lane, line, sizeof line); i++)
        ;
}

static void spoil_stream(struct lane *lane, const char *data, size_t len, int how)
{
    size_t half = how == CLOSED || how == RESET ? 0 : len / 2;
    if (how == LOST)
        return;
    if (how == TWICE) {
        lane_say(lane, data, len);
        lane_say(lane, data, len);
    } else if (how == TRICKLED) {
        lane_trickle(lane, data, len);
    } else if (how == WITHOUT_END) {
        say_endless(lane);
    } else {
        lane_say(lane, data, half);
        if (how == HALF_CLOSED)
            lane_end(lane, LANE_HALF);
        else if (how != HALF_AND_SILENCE)
            lane_end(lane,
                     how == HALF_AND_RESET || how == RESET ? LANE_RESET : LANE_CLOSE);
    }
}

static void redis_spoil(struct lane *lane, const char *data, size_t len, size_t index,
                        const struct spoil *how)
{
    struct site site = sites[index];
    struct out out = { NULL, 0, 0 };
    if (how->how >= LOST) {
        spoil_stream(lane, data, len, how->how);
        return;
    }
    const struct part *part = &hand.parts[site.part];
    put(&out, data, part->from);
    put_spoiled(&out, &hand, site, how);
    put(&out, data + part->to, len - part->to);
    lane_say(lane, out.data, out.len);
    free(out.data);
}

/* ---- What the client says -------------------------------------------------------- */

struct redis_heard redis_heard;

static void note(char *text, size_t size, const struct reading *r, size_t part)
{
    if (part < r->count)
        snprintf(text, size, "%.*s", (int)r->parts[part].len,
                 r->data + r->parts[part].text);
}

static bool is_text(const struct reading *r, size_t part, const char *text)
{
    return r->parts[part].len == strlen(text) &&
           memcmp(r->data + r->parts[part].text, text, r->parts[part].len) == 0;
}

/* A script that takes has the owner, two numbers, the inbox, the ticket number. */
static void command_heard(const struct reading *r)
{
    if (r->count == 3 && is_text(r, 1, "SUBSCRIBE") &&
        memcmp(r->data + r->parts[2].text, "holdfast:", 9) == 0)
        note(redis_heard.inbox, sizeof redis_heard.inbox, r, 2);
    for (size_t i = 4; redis_heard.inbox[0] && i < r->count; i++)
        if (is_text(r, i, redis_heard.inbox)) {
            note(redis_heard.owner, sizeof redis_heard.owner, r, i - 3);
            note(redis_heard.number, sizeof redis_heard.number, r, i + 1);
        }
}

/* A command that comes in pieces is not understood, which does no harm. */
static void redis_told(void *arg, struct lane *lane, const char *data, size_t size)
{
    static _Thread_local struct reading r;
    (void)arg;
    (void)lane;
    for (size_t at = 0; at < size; at += r.at) {
        r = (struct reading){ .data = data + at, .size = size - at };
        if (!read_value(&r))
            break;
        command_heard(&r);
    }
}

/* ---- The server ------------------------------------------------------------------ */

static struct redis_server server;

static void redis_begin(const char *directory)
{
    redis_start(&server, directory, false, NULL);
}

static void redis_end(void)
{
    redis_kill(&server);
}

static const char *redis_upstream(void)
{
    return server.socket;
}

static void redis_url(char *url, size_t size, int port)
{
    if (port)
        snprintf(url, size, "redis://127.0.0.1:%d", port);
    else
        snprintf(url, size, "redis+unix://%s", server.socket);
}

const struct wire redis_wire = {
    .name = "redis",
    .spoils = redis_spoils,
    .queries = { "", "&layout=simple", "&layout=simple&script=off" },
    .client_query = "",
    .sane_query = "",
    .start = redis_begin,
    .stop = redis_end,
    .url = redis_url,
    .upstream = redis_upstream,
    .measure = redis_measure,
    .sites = redis_sites,
    .fits = redis_fits,
    .spoil = redis_spoil,
    .told = redis_told,
};
