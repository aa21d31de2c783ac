/* SPDX-License-Identifier: MIT */
/*
 * Eviction on the redis store, against a played server: the evicting client, which asks
 * until the holder's client has answered or its time is over, and the holder's client,
 * which answers whether that token holds the lock now.
 */
#include "unit.h"

#include "../../src/backends/redis/session.h"
#include "../../src/base/clock.h"
#include "redis_peer.h"

#include <stdio.h>
#include <string.h>

#define HEX "????????????????????????????????"
#define ID "000102030405060708090a0b0c0d0e0f"
#define KEYS                                                                           \
    "evict 12 name redisson_lock_token:{name} holdfast_info:{name} "                   \
    "holdfast_queue:{name} redisson_lock_queue:{name} redisson_lock_timeout:{name} "   \
    "redisson_lock__channel:{name} redisson_rwlock:{name} redisson_sc:{name} "         \
    "holdfast_permits:{name} {name}:timeout holdfast_done:{name}:"

static struct hf_request request;
static struct hf_ticket ticket;

/* ---- The client that evicts ------------------------------------------------------ */

static void ask(void)
{
    request = fake_request(HF_EVICT, "name");
    request.number = 7;
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

static void pass(int64_t ms)
{
    peer.clock.now_ns += ms * HF_NS_PER_MS;
}

START_TEST(answers)
{
    peer_open("");
    ask();
    peer_answer(KEYS HEX " 7 r n " HEX " *\x1f*\x1f"
                         "fake\x1f",
                ":1\r\n");
    ck_assert_int_eq(code(), 0);
    ask();
    peer_answer("evict *", ":0\r\n");
    ck_assert_int_eq(code(), HF_ENOENT);
    ask();
    peer_answer("evict *", "+x\r\n");
    ck_assert_int_eq(code(), HF_ECORRUPT);
    ask();
    peer_answer("evict *", "-HOLDFAST mismatch 2\r\n");
    ck_assert_int_eq(code(), HF_EMISMATCH);
    peer_close();
    peer_open("&layout=simple");
    ask();
    peer_answer("evict 12 * 7 s n " HEX " *", ":1\r\n");
    ck_assert_int_eq(code(), 0);
    peer_close();
}
END_TEST

/* Asked again every 20 ms; with half a second gone the holder's client counts as
 * silent. */
START_TEST(the_holder_is_waited_for)
{
    peer_open("");
    ask();
    peer_answer("evict * r n *", ":2\r\n");
    ck_assert(fake_quiet(&peer.host));
    ck_assert_uint_eq(peer.host.progress_count, 1);
    ck_assert(peer_is_quiet());
    pass(19);
    ck_assert(peer_is_quiet());
    pass(1);
    peer_answer("evict * r n *", ":2\r\n");
    ck_assert(fake_quiet(&peer.host));
    ck_assert_uint_eq(peer.host.progress_count, 2);
    pass(480); /* 500 in all */
    peer_answer("evict * r n *", ":2\r\n");
    ck_assert(fake_quiet(&peer.host));
    pass(20);
    peer_answer("evict * r f *", ":1\r\n");
    ck_assert_int_eq(code(), 0);
    pass(1000);
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

/* It fails after half of a request's time. */
START_TEST(and_not_forever)
{
    peer_open("");
    ask();
    peer_answer("evict *", ":2\r\n");
    ck_assert(fake_quiet(&peer.host));
    pass(2500);
    peer_answer("evict *", ":2\r\n");
    ck_assert(fake_quiet(&peer.host));
    pass(20);
    peer_answer("evict *", ":2\r\n");
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.code, HF_EUNREACHABLE);
    ck_assert_ptr_nonnull(strstr(answer.why.text, "does not answer"));
    pass(1000);
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

/* Two wait; one of them is forgotten, and the other one goes on. */
START_TEST(forgotten_meanwhile)
{
    struct hf_request other = fake_request(HF_EVICT, "other");
    peer_open("");
    ask();
    peer_answer("evict 12 name *", ":2\r\n");
    peer.host.calls++;
    hf__backend_redis.ask(peer.host.session, &other);
    peer.host.calls--;
    peer_answer("evict 12 other *", ":2\r\n");
    ck_assert(fake_quiet(&peer.host));
    fake_forget(&peer.host, &request);
    memset(&request, 0xee, sizeof request);
    pass(20);
    peer_answer("evict 12 other *", ":1\r\n");
    ck_assert_ptr_eq(fake_next(&peer.host).about, &other);
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

START_TEST(closed_meanwhile)
{
    peer_open("");
    ask();
    peer_answer("evict *", ":2\r\n");
    ck_assert(fake_quiet(&peer.host));
    peer_leave_open();
}
END_TEST

/* ---- The client of the holder ---------------------------------------------------- */

static void send_evict(int token, const char *details)
{
    char line[1024];
    snprintf(line, sizeof line, "e %s %d 7 " ID " %s", peer_address(&ticket), token,
             details);
    peer_push(NULL, line);
}

static void begin(const char *options)
{
    peer_open(options);
    ticket = peer_ticket(HF_MUTEX);
    peer_grant(&ticket);
}

START_TEST(the_token_that_was_granted)
{
    begin("");
    send_evict(7, "host\x1f"
                  "12\x1fprog\x1f");
    fake_expect_event(&peer.host, &ticket, HF_EVENT_LOST);
    ck_assert_str_eq(peer.host.reason, "evicted by host pid 12 prog");
    peer_answer(KEYS ID " 7 r y " ID " host\x1f"
                        "12\x1fprog\x1f",
                ":1\r\n");
    ck_assert(fake_quiet(&peer.host));
    peer_close();
}
END_TEST

/* Another one of its block holds: the server is told which, and that it was not this
 * one. */
START_TEST(a_token_that_holds_no_more)
{
    begin("");
    ck_assert(hf__backend_redis.pass(peer.host.session, &ticket, 8));
    send_evict(7, "host\x1f"
                  "12\x1fprog\x1f");
    peer_answer("renew 3 name holdfast_info:{name} name m * 0 8", "*1\r\n:1\r\n");
    peer_answer(KEYS ID " 7 r x " ID " *", ":0\r\n");
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_RENEWED);
    ck_assert_int_eq(answer.code, HF_STILL_HELD);
    ck_assert(fake_quiet(&peer.host));
    ck_assert_uint_eq(peer.host.reason_count, 0);
    send_evict(8, "host\x1f"
                  "12\x1fprog\x1f");
    fake_expect_event(&peer.host, &ticket, HF_EVENT_LOST);
    peer_expect("evict 12 * 8 r y " ID " *");
    peer_close();
}
END_TEST

START_TEST(wishes_without_sense)
{
    char line[256];
    static const char *const rests[] = {
        "",
        " x 7 " ID " d",
        " 7 x " ID " d",
        " 7 7",
        " 7 7 0001",
        " 7 7 " ID "00 d",
        " 7 7 zz0102030405060708090a0b0c0d0e0f d",
    };
    begin("");
    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        snprintf(line, sizeof line, "e %s%s", peer_address(&ticket), rests[i]);
        peer_push(NULL, line);
        fake_turn(&peer.host, 10);
        ck_assert_msg(fake_quiet(&peer.host) && peer_is_quiet(), "%s", line);
    }
    send_evict(7, ""); /* without details it is one */
    fake_expect_event(&peer.host, &ticket, HF_EVENT_LOST);
    ck_assert_uint_eq(peer.host.reason_count, 0);
    peer_expect("evict 12 * 7 r y " ID " ");
    peer_close();
}
END_TEST

/* While the connection is down the server could not ask: no hand-off is allowed. */
START_TEST(nothing_is_passed_while_down)
{
    begin("");
    peer_hang_up();
    fake_turn(&peer.host, 100);
    ck_assert(!hf__backend_redis.pass(peer.host.session, &ticket, 8));
    ck_assert_uint_eq(ticket.store[3], 0);
    peer_close();
}
END_TEST

/* With thousands of requests under way it answers only when asked again. */
START_TEST(a_flood)
{
    enum { CALLS = 1100 };
    static struct hf_request many[CALLS];
    begin("");
    for (int i = 0; i < CALLS; i++) {
        many[i] = fake_request(HF_LATCH_GET, "latch");
        peer.host.calls++;
        hf__backend_redis.ask(peer.host.session, &many[i]);
        peer.host.calls--;
    }
    send_evict(7, "host\x1f"
                  "12\x1fprog\x1f");
    fake_turn(&peer.host, 100);
    ck_assert(fake_quiet(&peer.host));
    ck_assert_uint_eq(peer.host.reason_count, 0);
    for (int i = 0; i < CALLS; i++) {
        peer_answer("latch_get 2 latch *", ":1\r\n");
        fake_next(&peer.host);
    }
    send_evict(7, "host\x1f"
                  "12\x1fprog\x1f");
    fake_expect_event(&peer.host, &ticket, HF_EVENT_LOST);
    peer_close();
}
END_TEST

/* ---- The reason ------------------------------------------------------------------ */

static void lost(const char *details)
{
    char line[1024];
    unsigned before = peer.host.reason_count;
    peer.host.reason[0] = '\0';
    snprintf(line, sizeof line, "l %s %s", peer_address(&ticket), details);
    peer_push(NULL, line);
    fake_expect_event(&peer.host, &ticket, HF_EVENT_LOST);
    ck_assert_uint_eq(peer.host.reason_count - before, peer.host.reason[0] != '\0');
}

START_TEST(reasons)
{
    static const struct {
        const char *details, *reason;
    } rows[] = {
        { "host\x1f"
          "12\x1fprog\x1f",
          "evicted by host pid 12 prog" },
        { "host\x1f"
          "12\x1fprog",
          "evicted by host pid 12 prog" },
        { "host\x1f"
          "12\x1fprog\x1fnote\x1f",
          "evicted by host pid 12 prog" },
        { "\x1f\x1f\x1f", "evicted by  pid  " },
        { "host\x1f"
          "12",
          "" },
        { "host\x1f", "" },
        { "host", "" },
        { "", "" },
        { "h\x01\x7f\nst\x1f"
          "12\x1fpr\x1bg\x1f",
          "evicted by h???st pid 12 pr?g" },
        { "h st\x1f~\x1f\xc3\xa4\x1f", "evicted by h st pid ~ \xc3\xa4" },
    };
    begin("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lost(rows[i].details);
        ck_assert_str_eq(peer.host.reason, rows[i].reason);
    }
    peer_close();
}
END_TEST

/* Longer than there is room for: cut, and clean to the end. */
START_TEST(a_long_reason)
{
    char details[800];
    memset(details, '\t', sizeof details);
    memcpy(details,
           "host\x1f"
           "12\x1f",
           8);
    details[sizeof details - 1] = '\0';
    begin("");
    lost(details);
    ck_assert_uint_gt(strlen(peer.host.reason), 200);
    ck_assert_ptr_null(strchr(peer.host.reason, '\t'));
    peer_close();
}
END_TEST

static void revoked(const char *rest)
{
    char line[256];
    snprintf(line, sizeof line, "r %s%s", peer_address(&ticket), rest);
    peer_push(NULL, line);
}

/* The holder hears of its own token, and of 0, but not of one of its block that another
 * caller of the client had before. A message without tokens is of an older client. */
START_TEST(revoked_by_exactly_that_token)
{
    begin("");
    revoked(" 7 7");
    fake_expect_event(&peer.host, &ticket, HF_EVENT_REVOKED);
    ck_assert(hf__backend_redis.pass(peer.host.session, &ticket, 8));
    revoked(" 7 7");
    fake_turn(&peer.host, 10);
    ck_assert(fake_quiet(&peer.host));
    revoked(" 8 7");
    fake_expect_event(&peer.host, &ticket, HF_EVENT_REVOKED);
    revoked(" 0 7");
    fake_expect_event(&peer.host, &ticket, HF_EVENT_REVOKED);
    revoked("");
    fake_expect_event(&peer.host, &ticket, HF_EVENT_REVOKED);
    peer_close();
}
END_TEST

UNIT_MAIN("redis_evict", answers, the_holder_is_waited_for, and_not_forever,
          forgotten_meanwhile, closed_meanwhile, the_token_that_was_granted,
          a_token_that_holds_no_more, wishes_without_sense,
          nothing_is_passed_while_down, a_flood, reasons, a_long_reason,
          revoked_by_exactly_that_token)
