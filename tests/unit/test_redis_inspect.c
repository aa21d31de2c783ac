/* SPDX-License-Identifier: MIT */
/*
 * hf_inspect() on the redis store, against a played server: rows and what is shown of
 * them, pages, the walk over all keys, and invalid replies.
 */
#include "unit.h"

#include "../../src/base/mem.h"
#include "redis_peer.h"

#include <stdio.h>
#include <string.h>

#define KEYS(name)                                                                     \
    "inspect 7 " name " holdfast_info:{" name "} holdfast_queue:{" name                \
    "} redisson_lock_queue:{" name "} holdfast_permits:{" name "} {" name              \
    "}:timeout redisson_lock_token:{" name "} "

static struct hf_request request;

static void ask(const char *name, bool prefix)
{
    request = fake_request(HF_INSPECT, name);
    request.prefix = prefix;
    peer.host.entry_count = 0;
    peer.host.progress_count = 0;
    peer.host.calls++;
    hf__backend_redis.ask(peer.host.session, &request);
    peer.host.calls--;
}

static int code(void)
{
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_ANSWERED);
    ck_assert_ptr_eq(answer.about, &request);
    return answer.code;
}

/* ---- Rows ------------------------------------------------------------------------ */

/* A row's numbers as they are, and its details; asked for and read. */
static const struct fake_entry *row(const char *letters, const char *numbers,
                                    const char *details)
{
    char reply[4096];
    int at = snprintf(reply, sizeof reply,
                      "*3\r\n:0\r\n+0\r\n*1\r\n*10\r\n+%c\r\n+%c\r\n+owner\r\n%s",
                      letters[0], letters[1], numbers);
    snprintf(reply + at, sizeof reply - (size_t)at, "$%zu\r\n%s\r\n", strlen(details),
             details);
    ask("name", false);
    peer_answer("inspect *", reply);
    ck_assert_int_eq(code(), 0);
    ck_assert_uint_eq(peer.host.entry_count, 1);
    ck_assert_str_eq(peer.host.entries[0].name, "name");
    return &peer.host.entries[0];
}

#define NUMBERS ":7\r\n:2\r\n:5\r\n:3\r\n:1500\r\n:25000\r\n"
#define DETAILS                                                                        \
    "1\x1f"                                                                            \
    "host\x1f"                                                                         \
    "12\x1fprog\x1fnote"

START_TEST(a_holder)
{
    peer_open("");
    const struct fake_entry *entry = row("hm", NUMBERS, DETAILS);
    ck_assert_int_eq(entry->entry.role, HF_HOLDER);
    ck_assert_int_eq(entry->entry.kind, HF_MUTEX);
    ck_assert_uint_eq(entry->entry.token, 7);
    ck_assert_uint_eq(entry->entry.permits, 2);
    ck_assert_uint_eq(entry->entry.limit, 1);
    ck_assert_uint_eq(entry->entry.place, 3);
    ck_assert_int_eq(entry->entry.since_ms, 1500);
    ck_assert_int_eq(entry->entry.left_ms, 25000);
    ck_assert_int_eq(entry->entry.pid, 12);
    ck_assert_str_eq(entry->host, "host");
    ck_assert_str_eq(entry->program, "prog");
    ck_assert_str_eq(entry->note, "note");
    ck_assert_uint_eq(peer.host.progress_count, 1);
    peer_close();
}
END_TEST

START_TEST(roles_and_kinds)
{
    static const struct {
        const char *letters;
        int role, kind;
        uint32_t limit;
    } rows[] = {
        { "hm", HF_HOLDER, HF_MUTEX, 1 },   { "wf", HF_WAITER, HF_FAIR, 1 },
        { "hr", HF_HOLDER, HF_READ, 1 },    { "ww", HF_WAITER, HF_WRITE, 1 },
        { "hp", HF_HOLDER, HF_PERMITS, 5 }, { "we", HF_WAITER, HF_EXPIRING, 5 },
        { "ol", HF_OBJECT, HF_LATCH, 1 },   { "oc", HF_OBJECT, HF_CELL, 1 },
        { "h?", HF_HOLDER, HF_MUTEX, 1 },
    };
    peer_open("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct fake_entry *entry = row(rows[i].letters, NUMBERS, DETAILS);
        ck_assert_int_eq(entry->entry.role, rows[i].role);
        ck_assert_int_eq(entry->entry.kind, rows[i].kind);
        ck_assert_uint_eq(entry->entry.limit, rows[i].limit);
    }
    /* A reentrant mutex is one for the server, too; only its details know. */
    ck_assert_int_eq(row("hm", NUMBERS,
                         "2\x1fhost\x1f"
                         "12\x1fprog\x1f")
                         ->entry.kind,
                     HF_REENTRANT);
    ck_assert_int_eq(row("hf", NUMBERS,
                         "2\x1fhost\x1f"
                         "12\x1fprog\x1f")
                         ->entry.kind,
                     HF_FAIR);
    peer_close();
}
END_TEST

/* A lease that is over has nothing left; -1 is one without an end. */
START_TEST(numbers)
{
    peer_open("");
    const hf_entry *entry =
        &row("hp", ":-1\r\n:-1\r\n:4294967295\r\n:4294967296\r\n:-2\r\n:-1\r\n",
             DETAILS)
             ->entry;
    ck_assert_uint_eq(entry->token, 0);
    ck_assert_uint_eq(entry->permits, 0);
    ck_assert_uint_eq(entry->limit, UINT32_MAX);
    ck_assert_uint_eq(entry->place, UINT32_MAX);
    ck_assert_int_eq(entry->since_ms, -1);
    ck_assert_int_eq(entry->left_ms, HF_FOREVER);
    entry =
        &row("hp", ":1\r\n:1\r\n:4294967294\r\n:0\r\n:-1\r\n:-2\r\n", DETAILS)->entry;
    ck_assert_uint_eq(entry->token, 1);
    ck_assert_uint_eq(entry->limit, UINT32_MAX - 1);
    ck_assert_int_eq(entry->since_ms, -1);
    ck_assert_int_eq(entry->left_ms, 0);
    entry = &row("hp", "+x\r\n_\r\n$1\r\n9\r\n:0\r\n:0\r\n:0\r\n", DETAILS)->entry;
    ck_assert_uint_eq(entry->token, 0);
    ck_assert_uint_eq(entry->limit, 9);
    ck_assert_int_eq(entry->since_ms, 0);
    ck_assert_int_eq(entry->left_ms, 0);
    peer_close();
}
END_TEST

START_TEST(details)
{
    peer_open("");
    const struct fake_entry *entry = row("hm", NUMBERS, "foreign");
    ck_assert_str_eq(entry->host, "foreign");
    ck_assert_str_eq(entry->program, "");
    ck_assert_int_eq(entry->entry.pid, 0);
    ck_assert_int_eq(entry->entry.kind, HF_MUTEX);
    entry = row("hm", NUMBERS, "");
    ck_assert_str_eq(entry->host, "");
    entry = row("hm", NUMBERS, "1\x1fhost\x1f-5\x1fprog\x1fnote\x1fmore");
    ck_assert_int_eq(entry->entry.pid, 0);
    ck_assert_str_eq(entry->note, "note\x1fmore"); /* the last part is the rest */
    entry = row("hm", NUMBERS, "1\x1fhost");       /* cut short */
    ck_assert_str_eq(entry->host, "host");
    ck_assert_str_eq(entry->program, "");
    peer_close();
}
END_TEST

/* A note that is too long is cut, and the parts before it stand. */
START_TEST(long_details)
{
    char text[2048];
    peer_open("");
    int at = snprintf(text, sizeof text,
                      "1\x1fhost\x1f"
                      "12\x1fprog\x1f");
    memset(text + at, 'n', sizeof text - (size_t)at);
    text[sizeof text - 1] = '\0';
    const struct fake_entry *entry = row("hm", NUMBERS, text);
    ck_assert_str_eq(entry->program, "prog");
    ck_assert_uint_eq(strspn(entry->note, "n"), strlen(entry->note));
    ck_assert_uint_eq(strlen(entry->note), HF_NOTE_MAX); /* as the host keeps it */
    peer_close();
}
END_TEST

/* Rows that are none are left out; those beside them count. */
START_TEST(rows_without_sense)
{
    peer_open("");
    ask("name", false);
    peer_answer(
        KEYS("name") "1 0",
        "*3\r\n:0\r\n+0\r\n*4\r\n:1\r\n*9\r\n+h\r\n+m\r\n+o\r\n:1\r\n:1\r\n:1"
        "\r\n:0\r\n:0\r\n:0\r\n*10\r\n:1\r\n:2\r\n+o\r\n:9\r\n:1\r\n:1\r\n:0\r"
        "\n:0\r\n:0\r\n*1\r\n+x\r\n*10\r\n+h\r\n+m\r\n+o\r\n:8\r\n:1\r\n:1\r\n:0\r\n:"
        "0\r\n:0\r\n+d\r\n");
    ck_assert_int_eq(code(), 0);
    ck_assert_uint_eq(peer.host.entry_count, 2);
    ck_assert_int_eq(peer.host.entries[0].entry.role, HF_OBJECT);
    ck_assert_uint_eq(peer.host.entries[0].entry.token, 9);
    ck_assert_uint_eq(peer.host.entries[1].entry.token, 8);
    peer_close();
}
END_TEST

/* ---- Pages ----------------------------------------------------------------------- */

#define ROW(token)                                                                     \
    "*10\r\n+h\r\n+r\r\n+o\r\n:" #token "\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n+d\r\n"

START_TEST(pages)
{
    peer_open("");
    ask("name", false);
    peer_answer(KEYS("name") "1 0", "*3\r\n:2\r\n+17\r\n*1\r\n" ROW(1));
    peer_answer(KEYS("name") "2 17", "*3\r\n:2\r\n+18\r\n*0\r\n");
    peer_answer(KEYS("name") "2 18", "*3\r\n:0\r\n+0\r\n*2\r\n" ROW(2) ROW(3));
    ck_assert_int_eq(code(), 0);
    ck_assert_uint_eq(peer.host.entry_count, 3);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(peer.host.entries[i].entry.token, i + 1);
    ck_assert_uint_eq(peer.host.progress_count, 3);
    peer_close();
}
END_TEST

START_TEST(pages_without_sense)
{
    static const char *const replies[] = {
        "*2\r\n:0\r\n+0\r\n",
        "*3\r\n+x\r\n+0\r\n*0\r\n",
        "*3\r\n:0\r\n:0\r\n*0\r\n",
        "*3\r\n:0\r\n+0\r\n+x\r\n",
        "*1\r\n:0\r\n",
        ":0\r\n",
        "_\r\n",
    };
    peer_open("");
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        ask("name", false);
        peer_answer("inspect *", replies[i]);
        struct fake_answer answer = fake_next(&peer.host);
        ck_assert_int_eq(answer.code, HF_ECORRUPT);
        ck_assert_ptr_nonnull(strstr(answer.why.text, "invalid reply"));
    }
    ask("name", false);
    peer_answer("inspect *", "-NOPERM no\r\n");
    ck_assert_int_eq(code(), HF_EREFUSED);
    peer_close();
}
END_TEST

/* ---- The walk -------------------------------------------------------------------- */

#define NOTHING "*3\r\n:0\r\n+0\r\n*0\r\n"

/* Over our own keys, then over hashes, which may be foreign locks; each name once,
 * in order. */
START_TEST(a_walk)
{
    peer_open("");
    ask("a", true);
    peer_answer("SCAN 0 MATCH holdfast_info:\\*a\\* COUNT 1000",
                "*2\r\n+5\r\n*3\r\n+holdfast_info:{ab}\r\n+holdfast_info:{b}\r\n"
                "+holdfast_info:{ac}\r\n");
    peer_answer("SCAN 5 MATCH holdfast_info:\\*a\\* COUNT 1000",
                "*2\r\n+0\r\n*2\r\n+holdfast_info:{ac}\r\n:5\r\n");
    peer_answer("SCAN 0 MATCH a\\* COUNT 1000 TYPE hash",
                "*2\r\n+6\r\n*3\r\n+ab\r\n+aa\r\n+b\r\n");
    peer_answer("SCAN 6 MATCH a\\* COUNT 1000 TYPE hash", "*2\r\n+0\r\n*0\r\n");
    peer_answer(KEYS("aa") "1 0", NOTHING);
    peer_answer(KEYS("ab") "1 0", "*3\r\n:0\r\n+0\r\n*1\r\n" ROW(4));
    peer_answer(KEYS("ac") "1 0", "*3\r\n:0\r\n+0\r\n*1\r\n" ROW(5));
    ck_assert_int_eq(code(), 0);
    ck_assert_uint_eq(peer.host.entry_count, 2);
    ck_assert_str_eq(peer.host.entries[0].name, "ab");
    ck_assert_str_eq(peer.host.entries[1].name, "ac");
    ck_assert_uint_eq(peer.host.progress_count, 7);
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

/* Keys of ours and of Redisson are no locks, though they are hashes. */
START_TEST(keys_that_are_no_names)
{
    peer_open("");
    ask("", true);
    peer_answer("SCAN 0 MATCH holdfast_info:\\*\\* COUNT 1000",
                "*2\r\n+0\r\n*2\r\n+holdfast_info:x\r\n+holdfast_queue:{x}\r\n");
    peer_answer("SCAN 0 MATCH \\* COUNT 1000 TYPE hash",
                "*2\r\n+0\r\n*3\r\n+holdfast_info:{y}\r\n+redisson_x:{y}\r\n+z\r\n");
    peer_answer(KEYS("z") "1 0", NOTHING);
    ck_assert_int_eq(code(), 0);
    peer_close();
}
END_TEST

/* What is special in a pattern is none here. */
START_TEST(prefixes_are_no_patterns)
{
    peer_open("");
    ask("a*?[]^\\b", true);
    ck_assert_str_eq(peer_hear(), "SCAN 0 MATCH holdfast_info:*a\\*\\?\\[\\]\\^\\\\b* "
                                  "COUNT 1000");
    peer_say("*2\r\n+0\r\n*0\r\n");
    ck_assert_str_eq(peer_hear(),
                     "SCAN 0 MATCH a\\*\\?\\[\\]\\^\\\\b* COUNT 1000 TYPE hash");
    peer_say("*2\r\n+0\r\n*0\r\n");
    ck_assert_int_eq(code(), 0);
    peer_close();
}
END_TEST

/* Names that are longer than any are left out. */
START_TEST(names_that_are_too_long)
{
    char reply[4096], name[HF_NAME_MAX + 2];
    peer_open("");
    memset(name, 'n', sizeof name);
    ask("", true);
    peer_answer("SCAN *", "*2\r\n+0\r\n*0\r\n");
    peer_expect("SCAN *");
    snprintf(reply, sizeof reply, "*2\r\n+0\r\n*2\r\n+%.*s\r\n+%.*s\r\n",
             (int)HF_NAME_MAX, name, (int)HF_NAME_MAX + 1, name);
    peer_say(reply);
    const char *asked = peer_hear();
    ck_assert_uint_eq(strspn(asked + strlen("inspect 7 "), "n"), HF_NAME_MAX);
    peer_say(NOTHING);
    ck_assert_int_eq(code(), 0);
    peer_close();
}
END_TEST

START_TEST(walks_that_fail)
{
    static const char *const nonsense[] = { "*1\r\n+0\r\n", "*2\r\n:0\r\n*0\r\n",
                                            "*2\r\n+0\r\n+x\r\n", ":0\r\n" };
    peer_open("");
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        ask("", true);
        peer_answer("SCAN *", nonsense[i]);
        ck_assert_int_eq(code(), HF_ECORRUPT);
    }
    ask("", true);
    peer_answer("SCAN *", "-NOPERM no\r\n");
    ck_assert_int_eq(code(), HF_EREFUSED);
    ask("", true); /* SCAN ... TYPE is younger than Redis 6: what was found counts */
    peer_answer("SCAN *", "*2\r\n+0\r\n*1\r\n+holdfast_info:{x}\r\n");
    peer_answer("SCAN * TYPE hash", "-ERR syntax error\r\n");
    peer_answer(KEYS("x") "1 0", NOTHING);
    ck_assert_int_eq(code(), 0);
    peer_close();
}
END_TEST

/* Many names: some are asked for at a time, all in the end; of one with several pages
 * nothing is asked for beside it, and what was answered early is asked again. */
START_TEST(many_names)
{
    enum { MANY = 200, AT_ONCE = 64 };
    static char reply[MANY * 40];
    char words[64];
    int at = snprintf(reply, sizeof reply, "*2\r\n+0\r\n*%d\r\n", MANY);
    for (int i = 0; i < MANY; i++)
        at += snprintf(reply + at, sizeof reply - (size_t)at,
                       "+holdfast_info:{n%03d}\r\n", i);
    peer_open("");
    ask("", true);
    peer_answer("SCAN *", reply);
    peer_answer("SCAN *", "*2\r\n+0\r\n*0\r\n");
    for (int i = 0; i < AT_ONCE; i++) {
        snprintf(words, sizeof words, "inspect 7 n%03d * 1 0", i);
        if (i < 4) { /* these are on their way; the rest waits for an answer */
            peer_expect(words);
            continue;
        }
        if (i == 4)
            peer_say(NOTHING);
        peer_expect(words);
    }
    for (int i = 1; i < MANY; i++) {
        if (i + AT_ONCE - 1 < MANY) {
            snprintf(words, sizeof words, "inspect 7 n%03d * 1 0", i + AT_ONCE - 1);
            peer_expect(words);
            ck_assert(peer_is_quiet()); /* no more than so many at once */
        }
        peer_say(NOTHING);
    }
    ck_assert_int_eq(code(), 0);
    peer_close();
}
END_TEST

START_TEST(a_page_stops_the_rest)
{
    peer_open("");
    ask("", true);
    peer_answer("SCAN *", "*2\r\n+0\r\n*2\r\n+holdfast_info:{a}\r\n+holdfast_info:{b}"
                          "\r\n");
    peer_answer("SCAN *", "*2\r\n+0\r\n*0\r\n");
    peer_expect(KEYS("a") "1 0");
    peer_expect(KEYS("b") "1 0");
    peer_say("*3\r\n:2\r\n+9\r\n*1\r\n" ROW(1));
    peer_say("*3\r\n:0\r\n+0\r\n*1\r\n" ROW(7)); /* of b: too early */
    peer_answer(KEYS("a") "2 9", "*3\r\n:0\r\n+0\r\n*1\r\n" ROW(2));
    peer_answer(KEYS("b") "1 0", "*3\r\n:0\r\n+0\r\n*1\r\n" ROW(3));
    ck_assert_int_eq(code(), 0);
    ck_assert_uint_eq(peer.host.entry_count, 3);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(peer.host.entries[i].entry.token, i + 1);
    peer_close();
}
END_TEST

/* ---- Ends ------------------------------------------------------------------------ */

/* One answer, when the last of its requests is answered. */
START_TEST(a_server_that_goes_away)
{
    peer_open("");
    ask("", true);
    peer_answer("SCAN *", "*2\r\n+0\r\n*2\r\n+holdfast_info:{a}\r\n+holdfast_info:{b}"
                          "\r\n");
    peer_answer("SCAN *", "*2\r\n+0\r\n*0\r\n");
    peer_expect("inspect *");
    peer_hang_up();
    ck_assert_int_eq(code(), HF_EUNCERTAIN);
    ck_assert(fake_quiet(&peer.host));
    ask("name", false);
    ck_assert_int_eq(code(), HF_EUNREACHABLE);
    ask("name", true);
    ck_assert_int_eq(code(), HF_EUNREACHABLE);
    peer_close();
}
END_TEST

START_TEST(forgotten_meanwhile)
{
    peer_open("");
    size_t live = 0;
    for (int round = 0; round < 2; round++) {
        ask("", true);
        peer_answer("SCAN *", "*2\r\n+7\r\n*0\r\n");
        peer_expect("SCAN 7 *");
        fake_forget(&peer.host, &request);
        memset(&request, 0xee, sizeof request);
        peer_say("*2\r\n+8\r\n*1\r\n+holdfast_info:{a}\r\n");
        ask("name", false);
        peer_answer("inspect *", NOTHING);
        ck_assert_int_eq(code(), 0);
        ck_assert(peer_is_quiet());
        if (round == 0)
            live = hf__mem_live();
    }
    ck_assert_uint_eq(hf__mem_live(), live);
    peer_close();
}
END_TEST

START_TEST(closed_meanwhile)
{
    peer_open("");
    ask("", true);
    peer_answer("SCAN *", "*2\r\n+7\r\n*1\r\n+holdfast_info:{a}\r\n");
    peer_expect("SCAN 7 *");
    peer_leave_open();
}
END_TEST

/* Without memory for one name the walk fails, instead of leaving it out. */
START_TEST(no_memory)
{
    peer_open("");
    hf__mem_fail(1, 0);
    ask("", true);
    ck_assert_int_eq(code(), HF_ENOMEM);
    for (unsigned nth = 1; nth <= 2; nth++) {
        ask("", true);
        peer_expect("SCAN *");
        hf__mem_fail(nth, 0);
        peer_say("*2\r\n+0\r\n*2\r\n+holdfast_info:{a}\r\n+holdfast_info:{b}\r\n");
        ck_assert_int_eq(code(), HF_ENOMEM);
        hf__mem_fail(0, 0);
    }
    peer_close();
}
END_TEST

UNIT_MAIN("redis_inspect", a_holder, roles_and_kinds, numbers, details, long_details,
          rows_without_sense, pages, pages_without_sense, a_walk,
          keys_that_are_no_names, prefixes_are_no_patterns, names_that_are_too_long,
          walks_that_fail, many_names, a_page_stops_the_rest, a_server_that_goes_away,
          forgotten_meanwhile, closed_meanwhile, no_memory)
