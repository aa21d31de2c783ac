/* SPDX-License-Identifier: MIT */
/*
 * The redis store on a played server without scripts (script=off): what MULTI and WATCH
 * are used for, what each reply means, and that jobs run one after the other.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "../../src/base/text.h"
#include "redis_peer.h"

#include <stdio.h>
#include <string.h>

#define VALUE "????????????????????????????????"

static struct hf_ticket ticket;

static void begin(void)
{
    peer_open("&layout=simple&script=off");
    ck_assert(!(peer.host.capabilities & (HF_CAP_INSPECT | HF_CAP_EVICT)));
    ticket = peer_ticket(HF_MUTEX);
}

static const char *value_of(const struct hf_ticket *of)
{
    static char hex[33];
    hf__hex_encode(&of->id, sizeof of->id, hex);
    return hex;
}

/* ---- Taking ---------------------------------------------------------------------- */

static void hear_take(void)
{
    peer_answer("MULTI", "+OK\r\n");
    peer_answer("INCRBY redisson_lock_token:{name} 4", "+QUEUED\r\n");
    peer_answer("SET name " VALUE " NX PX 30000", "+QUEUED\r\n");
    peer_answer("PTTL name", "+QUEUED\r\n");
    peer_answer("GET name", "+QUEUED\r\n");
    peer_answer("PERSIST redisson_lock_token:{name}", "+QUEUED\r\n");
    peer_expect("EXEC");
}

/* The reply to EXEC; `value` NULL: our own. */
static void say_taken(const char *token, const char *set, const char *left,
                      const char *value)
{
    char reply[256];
    const char *text = value ? value : value_of(&ticket);
    snprintf(reply, sizeof reply, "*5\r\n%s\r\n%s\r\n%s\r\n$%zu\r\n%s\r\n:0\r\n", token,
             set, left, strlen(text), text);
    peer_say(reply);
}

static struct fake_answer take(const char *token, const char *set, const char *left,
                               const char *value)
{
    fake_attempt(&peer.host, &ticket);
    hear_take();
    say_taken(token, set, left, value);
    return fake_next(&peer.host);
}

START_TEST(taken)
{
    begin();
    fake_attempt(&peer.host, &ticket);
    int64_t sent = peer.clock.now_ns;
    hear_take();
    peer.clock.now_ns += 1000;
    say_taken(":11", "+OK", ":29999", NULL);
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    ck_assert_uint_eq(answer.grant.token, 8); /* 8 to 11 */
    ck_assert_uint_eq(answer.grant.span, 4);
    ck_assert_int_eq(answer.grant.ttl_ns, 30 * HF_NS_PER_S);
    ck_assert_int_eq(answer.grant.since_ns, sent);
    peer_close();
}
END_TEST

/* Asked again after an answer that was lost: it is ours, with what is left of it. */
START_TEST(taken_before)
{
    begin();
    struct fake_answer answer = take(":4", "_", ":12000", NULL);
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    ck_assert_uint_eq(answer.grant.token, 1);
    ck_assert_int_eq(answer.grant.ttl_ns, 12 * HF_NS_PER_S);
    peer_close();
}
END_TEST

/* Another client holds: ask again after 20 to 80 ms, or when its lease is over. */
START_TEST(not_taken)
{
    int64_t first = 0;
    bool differ = false;
    begin();
    for (int i = 0; i < 50; i++) {
        struct fake_answer answer = take(":11", "_", i % 2 ? ":30000" : ":-1", "other");
        ck_assert_int_eq(answer.what, FAKE_QUEUED);
        ck_assert_int_ge(answer.retry_ns, 20 * HF_NS_PER_MS);
        ck_assert_int_lt(answer.retry_ns, 80 * HF_NS_PER_MS);
        first = first ? first : answer.retry_ns;
        differ |= answer.retry_ns != first;
    }
    ck_assert(differ);
    ck_assert_int_eq(take(":11", "_", ":5", "other").retry_ns, 6 * HF_NS_PER_MS);
    ck_assert_int_eq(take(":11", "_", ":0", "other").retry_ns, HF_NS_PER_MS);
    /* A value as long as ours, and the beginning of ours. */
    ck_assert_int_eq(take(":11", "_", ":5", "00000000000000000000000000000000").what,
                     FAKE_QUEUED);
    ck_assert_int_eq(take(":11", "_", ":5", "0").what, FAKE_QUEUED);
    ticket.flags |= HF_TICKET_TRY;
    ck_assert_int_eq(take(":11", "_", ":30000", "other").what, FAKE_BUSY);
    peer_close();
}
END_TEST

/* What makes no sense may have been a grant: uncertain, then corrupt; where the answer
 * is that of something else the connection is not believed any more. */
START_TEST(taken_or_not)
{
    static const struct {
        const char *reply;
        bool ends;
    } rows[] = {
        { "*3\r\n:11\r\n+OK\r\n:9\r\n", true },
        { ":1\r\n", true },
        { "*5\r\n+x\r\n+OK\r\n:9\r\n+v\r\n:0\r\n", true },
        { "*5\r\n:11\r\n+OK\r\n+x\r\n+v\r\n:0\r\n", true },
        { "_\r\n", true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin();
        fake_attempt(&peer.host, &ticket);
        hear_take();
        peer_say(rows[i].reply);
        struct fake_answer answer = fake_next(&peer.host);
        ck_assert_int_eq(answer.what, FAKE_FAILED);
        ck_assert_int_eq(answer.code, HF_EUNCERTAIN);
        fake_attempt(&peer.host, &ticket); /* over no connection */
        ck_assert_int_eq(fake_next(&peer.host).code, HF_EUNREACHABLE);
        peer_again();
        fake_attempt(&peer.host, &ticket);
        hear_take();
        peer_say(rows[i].reply);
        ck_assert_int_eq(fake_next(&peer.host).code, HF_ECORRUPT);
        peer_close();
    }
}
END_TEST

/* Numbers that no grant can have. */
START_TEST(tokens_without_sense)
{
    begin();
    struct fake_answer answer = take(":3", "+OK", ":9", NULL); /* less than 4 */
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, HF_EUNCERTAIN);
    ck_assert_int_eq(take(":11", "_", ":-1", NULL).code, HF_ECORRUPT);
    peer_close();
}
END_TEST

START_TEST(refusals)
{
    begin();
    fake_attempt(&peer.host, &ticket);
    hear_take();
    peer_say("-EXECABORT OOM before\r\n");
    ck_assert_int_eq(fake_next(&peer.host).code, HF_EREFUSED);
    fake_attempt(&peer.host, &ticket);
    hear_take();
    peer_say("*5\r\n:11\r\n_\r\n:-1\r\n-WRONGTYPE no text\r\n:0\r\n");
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, HF_EMISMATCH);
    fake_attempt(&peer.host, &ticket);
    hear_take();
    peer_hang_up();
    ck_assert_int_eq(fake_next(&peer.host).code, HF_EUNCERTAIN);
    peer_close();
}
END_TEST

/* ---- Leaving and renewing -------------------------------------------------------- */

static void say_value(const struct hf_ticket *of)
{
    char reply[64];
    snprintf(reply, sizeof reply, "$32\r\n%s\r\n", value_of(of));
    peer_say(reply);
}

static void look(void)
{
    peer_answer("WATCH name", "+OK\r\n");
    peer_expect("GET name");
}

static void leave(void)
{
    peer.host.calls++;
    hf__backend_redis.withdraw(peer.host.session, &ticket);
    peer.host.calls--;
}

static void renew(enum hf_renew_mode mode)
{
    struct hf_ticket *one = &ticket;
    peer.host.calls++;
    hf__backend_redis.renew(peer.host.session, &one, 1, mode);
    peer.host.calls--;
}

static void expect(enum fake_what what, int code)
{
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, what);
    ck_assert_ptr_eq(answer.about, &ticket);
    ck_assert_int_eq(answer.code, code);
}

static void change(const char *command, const char *reply)
{
    peer_answer("MULTI", "+OK\r\n");
    peer_answer(command, "+QUEUED\r\n");
    peer_answer("EXEC", reply);
}

START_TEST(left)
{
    static const struct {
        const char *reply;
        enum hf_withdrawal what;
    } rows[] = {
        { "*1\r\n:1\r\n", HF_WITHDRAWN },
        { "*1\r\n:0\r\n", HF_GONE },
        { "_\r\n", HF_GONE }, /* it changed in between */
        { "*0\r\n", HF_GONE },
        { "-OOM no\r\n", HF_WITHDRAWAL_UNKNOWN },
    };
    begin();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        leave();
        look();
        say_value(&ticket);
        change("DEL name", rows[i].reply);
        expect(FAKE_WITHDRAWN, (int)rows[i].what);
    }
    peer_close();
}
END_TEST

/* What is not ours any more is left alone. */
START_TEST(not_ours_any_more)
{
    static const char *const replies[] = {
        "_\r\n",
        "$5\r\nother\r\n",
        "-WRONGTYPE no\r\n",
        "$32\r\n00000000000000000000000000000000\r\n",
        ":5\r\n",
    };
    begin();
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        leave();
        look();
        peer_say(replies[i]);
        peer_answer("UNWATCH", "+OK\r\n");
        expect(FAKE_WITHDRAWN, HF_GONE);
        renew(HF_RENEW);
        look();
        peer_say(replies[i]);
        peer_answer("UNWATCH", "+OK\r\n");
        expect(FAKE_RENEWED, HF_RENEWAL_LOST);
        renew(HF_CHECK);
        look();
        peer_say(replies[i]);
        peer_answer("UNWATCH", "+OK\r\n");
        expect(FAKE_RENEWED, HF_RENEWAL_LOST);
    }
    peer_close();
}
END_TEST

START_TEST(renewed)
{
    begin();
    renew(HF_RENEW);
    int64_t sent = peer.clock.now_ns;
    look();
    peer.clock.now_ns += 1000;
    say_value(&ticket);
    change("PEXPIRE name 30000", "*1\r\n:1\r\n");
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.code, HF_RENEWED);
    ck_assert_int_eq(answer.lease.since_ns, sent);
    ck_assert_int_eq(answer.lease.ttl_ns, 30 * HF_NS_PER_S);
    renew(HF_RENEW);
    look();
    say_value(&ticket);
    change("PEXPIRE name 30000", "_\r\n");
    expect(FAKE_RENEWED, HF_RENEWAL_LOST);
    renew(HF_CHECK); /* changes nothing */
    look();
    say_value(&ticket);
    peer_answer("UNWATCH", "+OK\r\n");
    expect(FAKE_RENEWED, HF_STILL_HELD);
    renew(HF_RENEW);
    look();
    peer_say("-LOADING\r\n");
    expect(FAKE_RENEWED, HF_RENEWAL_UNKNOWN);
    peer_close();
}
END_TEST

START_TEST(a_server_that_goes_away)
{
    begin();
    leave();
    look();
    peer_hang_up();
    expect(FAKE_WITHDRAWN, HF_WITHDRAWAL_UNKNOWN);
    leave();
    expect(FAKE_WITHDRAWN, HF_WITHDRAWAL_UNSENT);
    renew(HF_RENEW);
    expect(FAKE_RENEWED, HF_RENEWAL_UNKNOWN);
    fake_attempt(&peer.host, &ticket);
    expect(FAKE_FAILED, HF_EUNREACHABLE);
    peer_close();
}
END_TEST

/* ---- One after the other --------------------------------------------------------- */

START_TEST(one_at_a_time)
{
    begin();
    struct hf_ticket second = peer_ticket(HF_MUTEX);
    second.name = "second";
    second.name_len = 6;
    renew(HF_RENEW);
    fake_attempt(&peer.host, &second);
    look();
    ck_assert(peer_is_quiet());
    say_value(&ticket);
    peer_answer("MULTI", "+OK\r\n");
    peer_answer("PEXPIRE name 30000", "+QUEUED\r\n");
    peer_expect("EXEC");
    ck_assert(peer_is_quiet());
    peer_say("*1\r\n:1\r\n");
    expect(FAKE_RENEWED, HF_RENEWED);
    peer_expect("MULTI");
    peer_expect("INCRBY redisson_lock_token:{second} 4");
    peer_close();
}
END_TEST

/* For a forgotten ticket there is no callback, and jobs that have not begun are
 * dropped; the next job runs. */
START_TEST(forgotten_meanwhile)
{
    begin();
    struct hf_ticket gone = peer_ticket(HF_MUTEX);
    struct hf_ticket *list[] = { &gone, &gone, &ticket };
    peer.host.calls++;
    hf__backend_redis.renew(peer.host.session, list, 3, HF_RENEW);
    peer.host.calls--;
    look();
    fake_forget(&peer.host, &gone);
    say_value(&gone);
    memset(&gone, 0xee, sizeof gone);
    change("PEXPIRE name 30000", "*1\r\n:1\r\n");
    look(); /* for the third */
    say_value(&ticket);
    change("PEXPIRE name 30000", "*1\r\n:1\r\n");
    expect(FAKE_RENEWED, HF_RENEWED);
    ck_assert(fake_quiet(&peer.host));
    peer_close();
}
END_TEST

START_TEST(forgotten_while_it_is_taken)
{
    begin();
    fake_attempt(&peer.host, &ticket);
    hear_take();
    fake_forget(&peer.host, &ticket);
    say_taken(":11", "+OK", ":30000", NULL);
    struct hf_ticket next = peer_ticket(HF_MUTEX);
    fake_attempt(&peer.host, &next);
    hear_take();
    ck_assert(fake_quiet(&peer.host));
    peer_close();
}
END_TEST

/* Refused for good: an attempt that is still to come is not made. A withdrawal is. */
START_TEST(nothing_after_the_last_answer)
{
    begin();
    ticket.flags |= HF_TICKET_TRY;
    fake_attempt(&peer.host, &ticket);
    fake_attempt(&peer.host, &ticket);
    leave();
    hear_take();
    say_taken(":11", "_", ":30000", "other");
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_BUSY);
    look();
    peer_say("_\r\n");
    peer_answer("UNWATCH", "+OK\r\n");
    expect(FAKE_WITHDRAWN, HF_GONE);
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

START_TEST(nothing_after_a_refusal)
{
    begin();
    fake_attempt(&peer.host, &ticket);
    fake_attempt(&peer.host, &ticket);
    hear_take();
    peer_say("-NOPERM no\r\n");
    expect(FAKE_FAILED, HF_EREFUSED);
    ck_assert(peer_is_quiet());
    fake_attempt(&peer.host, &ticket);
    fake_attempt(&peer.host, &ticket);
    hear_take();
    peer_say("-LOADING\r\n"); /* is no refusal for good */
    expect(FAKE_FAILED, HF_EUNREACHABLE);
    hear_take();
    peer_close();
}
END_TEST

START_TEST(no_memory)
{
    begin();
    hf__mem_fail(1, 0);
    fake_attempt(&peer.host, &ticket);
    expect(FAKE_FAILED, HF_ENOMEM);
    hf__mem_fail(1, 0);
    leave();
    expect(FAKE_WITHDRAWN, HF_WITHDRAWAL_UNKNOWN);
    hf__mem_fail(1, 0);
    renew(HF_RENEW);
    expect(FAKE_RENEWED, HF_RENEWAL_UNKNOWN);
    hf__mem_fail(0, 0);
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

/* Closed with jobs under way and waiting: their memory goes, too. */
START_TEST(closed_meanwhile)
{
    begin();
    renew(HF_RENEW);
    renew(HF_CHECK);
    look();
    peer_leave_open();
}
END_TEST

UNIT_MAIN("redis_noscript", taken, taken_before, not_taken, taken_or_not,
          tokens_without_sense, refusals, left, not_ours_any_more, renewed,
          a_server_that_goes_away, one_at_a_time, forgotten_meanwhile,
          forgotten_while_it_is_taken, nothing_after_the_last_answer,
          nothing_after_a_refusal, no_memory, closed_meanwhile)
