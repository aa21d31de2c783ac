/* SPDX-License-Identifier: MIT */
/*
 * Tickets of the redis store, against a played server: what attempt and withdraw send,
 * what each reply means, when a waiter asks again, and what the end of the session
 * withdraws.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "redis_peer.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define HEX "????????????????????????????????"
#define OWNER "*-*-*-*-*:1"
#define SIDE "redisson_lock_token:{name} holdfast_info:{name} holdfast_queue:{name} "
#define MUTEX_KEYS                                                                     \
    "7 name " SIDE "redisson_lock_queue:{name} redisson_lock_timeout:{name} "          \
    "redisson_lock__channel:{name} " OWNER " "
#define RW_KEYS "5 name " SIDE "redisson_rwlock:{name} " OWNER " "
#define PERMITS_KEYS                                                                   \
    "6 name " SIDE "redisson_sc:{name} holdfast_permits:{name} " OWNER " "
#define EXPIRING_KEYS "6 name " SIDE "redisson_sc:{name} {name}:timeout " OWNER " "
#define LATCH_KEYS                                                                     \
    "5 name holdfast_info:{name} holdfast_queue:{name} "                               \
    "redisson_countdownlatch__channel__{name} holdfast_opened:{name} " OWNER " "
/* ttl, reserve, inbox, number, kind and details, no flags */
#define TAKE                                                                           \
    "30000 4 holdfast:" HEX " 0 %d\x1f*\x1f*\x1f"                                      \
    "fake\x1f  "

static struct hf_ticket ticket;

static void leave(struct hf_ticket *of)
{
    peer.host.calls++;
    hf__backend_redis.withdraw(peer.host.session, of);
    peer.host.calls--;
}

static struct fake_answer attempt(struct hf_ticket *of, const char *reply)
{
    fake_attempt(&peer.host, of);
    peer_hear();
    peer_say(reply);
    return fake_next(&peer.host);
}

/* ---- What is said ---------------------------------------------------------------- */

START_TEST(kinds)
{
    static const struct {
        int kind;
        const char *take, *keys, *leave, *letter;
    } rows[] = {
        { HF_MUTEX, "take_mutex", MUTEX_KEYS, "withdraw_mutex", "m" },
        { HF_REENTRANT, "take_mutex", MUTEX_KEYS, "withdraw_mutex", "m" },
        { HF_FAIR, "take_mutex", MUTEX_KEYS, "withdraw_mutex", "f" },
        { HF_READ, "take_rw", RW_KEYS, "withdraw_rw", "r" },
        { HF_WRITE, "take_rw", RW_KEYS, "withdraw_rw", "w" },
        { HF_PERMITS, "take_permits", PERMITS_KEYS, "withdraw_permits", "p" },
        { HF_EXPIRING, "take_permits", EXPIRING_KEYS, "withdraw_permits", "e" },
        { HF_LATCH, "latch_wait", LATCH_KEYS, "latch_withdraw", "l" },
    };
    char take[256], words[1024];
    peer_open("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ticket = peer_ticket(rows[i].kind);
        ticket.permits = 2;
        ticket.limit = 5;
        fake_attempt(&peer.host, &ticket);
        snprintf(take, sizeof take, TAKE, rows[i].kind);
        snprintf(words, sizeof words, "%s %s%s%s 2 5", rows[i].take, rows[i].keys, take,
                 rows[i].letter);
        peer_answer(words, "*5\r\n:2\r\n:30000\r\n:0\r\n:0\r\n:0\r\n");
        ck_assert_int_eq(fake_next(&peer.host).what, FAKE_QUEUED);
        leave(&ticket);
        snprintf(words, sizeof words, "%s %s%s 1", rows[i].leave, rows[i].keys,
                 rows[i].letter);
        peer_answer(words, ":1\r\n");
        ck_assert_int_eq(fake_next(&peer.host).code, HF_WITHDRAWN);
    }
    peer_close();
}
END_TEST

START_TEST(the_simple_layout)
{
    for (int alone = 0; alone <= 1; alone++) {
        peer_open(alone ? "&layout=simple&strangers=off" : "&layout=simple");
        ticket = peer_ticket(HF_MUTEX);
        fake_attempt(&peer.host, &ticket);
        peer_answer("simple_take 4 name " SIDE HEX " 30000 4 holdfast:" HEX " 0 *  s "
                    "1 1",
                    "*1\r\n:3\r\n");
        ticket.flags |= HF_TICKET_TRY;
        ck_assert_int_eq(fake_next(&peer.host).what, FAKE_BUSY);
        leave(&ticket);
        peer_answer(alone ? "simple_withdraw 4 name " SIDE HEX " s 0"
                          : "simple_withdraw 4 name " SIDE HEX " s 1",
                    ":0\r\n");
        ck_assert_int_eq(fake_next(&peer.host).code, HF_GONE);
        peer_close();
    }
}
END_TEST

START_TEST(flags_and_notes)
{
    static const struct {
        uint32_t flags;
        const char *words;
    } rows[] = {
        { 0, "*\x1f"
             "a note  m 1 1" },
        { HF_TICKET_TRY, "*\x1f"
                         "a note t m 1 1" },
        { HF_TICKET_YIELD, "*\x1f"
                           "a note y m 1 1" },
        { HF_TICKET_TRY | HF_TICKET_YIELD, "*\x1f"
                                           "a note ty m 1 1" },
    };
    peer_open("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ticket = peer_ticket(HF_MUTEX);
        ticket.flags = rows[i].flags;
        ticket.note = "a note";
        fake_attempt(&peer.host, &ticket);
        peer_answer(rows[i].words, "-NOPERM\r\n");
        ck_assert_int_eq(fake_next(&peer.host).code, HF_EREFUSED);
    }
    peer_close();
}
END_TEST

/* ---- Answers --------------------------------------------------------------------- */

START_TEST(grants)
{
    peer_open("");
    ticket = peer_ticket(HF_MUTEX);
    fake_attempt(&peer.host, &ticket);
    int64_t sent = peer.clock.now_ns;
    peer.clock.now_ns += 1000;
    peer_hear();
    peer_say("*5\r\n:1\r\n:7\r\n:9\r\n:25000\r\n:0\r\n");
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    ck_assert_uint_eq(answer.grant.token, 7);
    ck_assert_uint_eq(answer.grant.span, 4); /* no more than was asked for */
    ck_assert_int_eq(answer.grant.ttl_ns, 25 * HF_NS_PER_S);
    ck_assert_int_eq(answer.grant.since_ns, sent);
    struct hf_ticket longest = peer_ticket(HF_MUTEX); /* ten years */
    answer = attempt(&longest, "*5\r\n:1\r\n:7\r\n:1\r\n:315360000000\r\n:0\r\n");
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    struct hf_ticket latch = peer_ticket(HF_LATCH);
    answer = attempt(&latch, "*1\r\n:1\r\n");
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    ck_assert_uint_eq(answer.grant.token, 1);
    ck_assert_uint_eq(latch.store[0], 0); /* nothing to be given back */
    peer_close();
}
END_TEST

/* After a final refusal the ticket has no number; otherwise it keeps its number. */
START_TEST(refusals)
{
    static const struct {
        const char *reply;
        int code;
        bool over;
    } rows[] = {
        { "-NOPERM no\r\n", HF_EREFUSED, true },
        { "-HOLDFAST mismatch\r\n", HF_EMISMATCH, true },
        { "-OOM\r\n", HF_EFULL, true },
        { "-LOADING\r\n", HF_EUNREACHABLE, false },
        { "*5\r\n:1\r\n:0\r\n:1\r\n:9\r\n:0\r\n", HF_EUNCERTAIN, false },
    };
    peer_open("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ticket = peer_ticket(HF_MUTEX);
        struct fake_answer answer = attempt(&ticket, rows[i].reply);
        ck_assert_int_eq(answer.what, FAKE_FAILED);
        ck_assert_int_eq(answer.code, rows[i].code);
        ck_assert_int_eq((uint32_t)ticket.store[0] == 0, rows[i].over);
        fake_forget(&peer.host, &ticket);
        ck_assert_uint_eq((uint32_t)ticket.store[0], 0);
    }
    peer_close();
}
END_TEST

/* The answer to something else: nothing on this connection is believed any more. */
START_TEST(answers_that_are_none)
{
    static const char *const replies[] = { "*1\r\n:4\r\n", "*0\r\n", ":1\r\n", "_\r\n",
                                           "+OK\r\n" };
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        peer_open("");
        ticket = peer_ticket(HF_MUTEX);
        ck_assert_int_eq(attempt(&ticket, replies[i]).code, HF_EUNCERTAIN);
        fake_attempt(&peer.host, &ticket);
        ck_assert_int_eq(fake_next(&peer.host).code, HF_EUNREACHABLE);
        peer_close();
    }
}
END_TEST

START_TEST(withdrawals)
{
    static const struct {
        const char *reply;
        enum hf_withdrawal what;
    } rows[] = {
        { ":1\r\n", HF_WITHDRAWN },
        { ":0\r\n", HF_GONE },
        { "-HOLDFAST mismatch\r\n", HF_GONE }, /* the name is another thing's */
        { "-LOADING\r\n", HF_WITHDRAWAL_UNSENT },
        { "-NOPERM\r\n", HF_WITHDRAWAL_UNKNOWN },
    };
    peer_open("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ticket = peer_ticket(HF_MUTEX);
        peer_grant(&ticket);
        leave(&ticket);
        peer_answer("withdraw_mutex *", rows[i].reply);
        struct fake_answer answer = fake_next(&peer.host);
        ck_assert_int_eq(answer.what, FAKE_WITHDRAWN);
        ck_assert_int_eq(answer.code, (int)rows[i].what);
        bool over = rows[i].what == HF_WITHDRAWN || rows[i].what == HF_GONE;
        ck_assert_int_eq((uint32_t)ticket.store[0] == 0, over);
        fake_forget(&peer.host, &ticket);
    }
    ticket = peer_ticket(HF_MUTEX);
    peer_grant(&ticket);
    leave(&ticket);
    peer_answer("withdraw_mutex *", "+x\r\n"); /* not the answer to that */
    ck_assert_int_eq(fake_next(&peer.host).code, HF_WITHDRAWAL_UNKNOWN);
    leave(&ticket);
    ck_assert_int_eq(fake_next(&peer.host).code, HF_WITHDRAWAL_UNSENT);
    fake_forget(&peer.host, &ticket);
    peer_close();
}
END_TEST

/* While it is being withdrawn the answer to that is the last one. */
START_TEST(busy_while_leaving)
{
    peer_open("");
    ticket = peer_ticket(HF_MUTEX);
    ticket.flags |= HF_TICKET_TRY;
    fake_attempt(&peer.host, &ticket);
    leave(&ticket);
    peer_answer("take_mutex *", "*1\r\n:3\r\n");
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_BUSY);
    ck_assert_uint_ne((uint32_t)ticket.store[0], 0);
    peer_answer("withdraw_mutex *", ":0\r\n");
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_WITHDRAWN);
    ck_assert_uint_eq(ticket.store[0], 0);
    peer_close();
}
END_TEST

/* ---- When to ask again ----------------------------------------------------------- */

static int64_t look_ms(const char *options, int kind, int64_t left, int64_t place,
                       int64_t foreign)
{
    char reply[128];
    peer_open(options);
    ticket = peer_ticket(kind);
    snprintf(reply, sizeof reply, "*5\r\n:2\r\n:%lld\r\n:%lld\r\n:%lld\r\n:0\r\n",
             (long long)left, (long long)place, (long long)foreign);
    struct fake_answer answer = attempt(&ticket, reply);
    ck_assert_int_eq(answer.what, FAKE_QUEUED);
    ck_assert(!options[0] || peer_is_quiet()); /* simple locks have no channel */
    peer_close();
    return answer.retry_ns / HF_NS_PER_MS;
}

/* When the holder's lease ends, and half a minute at most; those further behind a
 * little later, so that not all ask in one moment. */
START_TEST(behind_one_of_ours)
{
    ck_assert_int_eq(look_ms("", HF_MUTEX, 5000, 0, 0), 5001);
    ck_assert_int_eq(look_ms("", HF_MUTEX, 5000, 3, 0), 5007);
    ck_assert_int_eq(look_ms("", HF_MUTEX, 0, 0, 0), 1);
    ck_assert_int_eq(look_ms("", HF_MUTEX, -1, 0, 0), 30001);
    ck_assert_int_eq(look_ms("", HF_MUTEX, 30000, 0, 0), 30001);
    ck_assert_int_eq(look_ms("", HF_MUTEX, 99999, 0, 0), 30001);
    ck_assert_int_eq(look_ms("", HF_MUTEX, 1000, 1000, 0), 3001);
    ck_assert_int_eq(look_ms("", HF_MUTEX, 1000, 1001, 0), 3001);
    ck_assert_int_eq(look_ms("", HF_MUTEX, 1000, -1, 0), 3001);
}
END_TEST

/* A foreign holder may release without a message. */
START_TEST(behind_a_foreign_holder)
{
    ck_assert_int_eq(look_ms("", HF_MUTEX, 30000, 0, 1), 1000);
    ck_assert_int_eq(look_ms("", HF_MUTEX, 500, 0, 1), 501);
    ck_assert_int_eq(look_ms("", HF_FAIR, 30000, 0, 1), 1000);
    ck_assert_int_eq(look_ms("", HF_FAIR, 30000, 1, 1), 30003);
    ck_assert_int_eq(look_ms("", HF_LATCH, 30000, 0, 1), 30001);
    for (int i = 0; i < 5; i++) {
        int64_t poll = look_ms("&layout=simple", HF_MUTEX, 30000, 0, 1);
        ck_assert_int_ge(poll, 20);
        ck_assert_int_lt(poll, 80);
    }
    ck_assert_int_eq(look_ms("&layout=simple", HF_MUTEX, 5, 0, 1), 7);
    ck_assert_int_eq(look_ms("&layout=simple", HF_MUTEX, 30000, 0, 250), 250);
    ck_assert_int_eq(look_ms("&layout=simple", HF_MUTEX, 30000, 0, 2), 2);
    ck_assert_int_eq(look_ms("&layout=simple", HF_MUTEX, 3000, 0, 0), 3001);
}
END_TEST

/* An answer that has lain here long: what is left of the time, a millisecond at least.
 */
START_TEST(an_answer_that_comes_late)
{
    peer_open("");
    for (int late_ms = 0; late_ms <= 4000; late_ms += 2000) {
        ticket = peer_ticket(HF_MUTEX);
        fake_attempt(&peer.host, &ticket);
        peer_hear();
        peer.clock.now_ns += late_ms * HF_NS_PER_MS;
        peer_say("*5\r\n:2\r\n:3000\r\n:0\r\n:0\r\n:0\r\n");
        int64_t ms = fake_next(&peer.host).retry_ns / HF_NS_PER_MS;
        ck_assert_int_eq(ms, late_ms < 4000 ? 3001 - late_ms : 1);
        fake_forget(&peer.host, &ticket);
    }
    peer_close();
}
END_TEST

/* ---- Slots ----------------------------------------------------------------------- */

/* Many at once, each found under its own number; given back, a number is used again. */
START_TEST(numbers)
{
    enum { MANY = 100 };
    static struct hf_ticket many[MANY];
    char line[128];
    peer_open("");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            many[i] = peer_ticket(HF_MUTEX);
            peer_grant(&many[i]);
            ck_assert_uint_le((uint32_t)many[i].store[0], MANY);
            peer_grant(&many[i]); /* asked again it keeps its own */
        }
        for (int i = 0; i < MANY; i++) {
            snprintf(line, sizeof line, "r %s", peer_address(&many[i]));
            peer_push(NULL, line);
            fake_expect_event(&peer.host, &many[i], HF_EVENT_REVOKED);
        }
        for (int i = 0; i < MANY; i++)
            fake_forget(&peer.host, &many[i]);
    }
    peer_close();
}
END_TEST

START_TEST(no_memory)
{
    peer_open("");
    ticket = peer_ticket(HF_MUTEX);
    hf__mem_fail(1, 0);
    fake_attempt(&peer.host, &ticket);
    hf__mem_fail(0, 0);
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, HF_ENOMEM);
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

START_TEST(names_that_are_keys)
{
    peer_open("");
    ticket = fake_ticket("holdfast_info:{x}", HF_MUTEX);
    fake_attempt(&peer.host, &ticket);
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, HF_EINVAL);
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

/* ---- The end --------------------------------------------------------------------- */

static char farewell[2][256];

static void *hear_farewell(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        snprintf(farewell[i], sizeof farewell[i], "%s", peer_hear_alone());
        peer_say(":1\r\n");
    }
    return NULL;
}

/* Tickets that hold or wait are withdrawn; detached ones are not. */
START_TEST(what_is_left_leaves)
{
    pthread_t thread;
    peer_open("");
    struct hf_ticket held = peer_ticket(HF_MUTEX), waits = peer_ticket(HF_WRITE);
    struct hf_ticket stays = peer_ticket(HF_FAIR);
    peer_grant(&held);
    peer_grant(&stays);
    stays.flags |= HF_TICKET_DETACHED;
    ck_assert_int_eq(attempt(&waits, "*5\r\n:2\r\n:30000\r\n:0\r\n:0\r\n:0\r\n").what,
                     FAKE_QUEUED);
    ck_assert_int_eq(pthread_create(&thread, NULL, hear_farewell, NULL), 0);
    fake_close(&peer.host);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(strncmp(farewell[0], "withdraw_mutex ", 15), 0);
    ck_assert_int_eq(strncmp(farewell[1], "withdraw_rw ", 12), 0);
    ck_assert_uint_eq(hf__mem_live(), peer.live);
}
END_TEST

/* In a forked child the connection is the parent's: nothing is said on it. */
START_TEST(a_forked_child_says_nothing)
{
    peer_open("");
    ticket = peer_ticket(HF_MUTEX);
    peer_grant(&ticket);
    fake_close_forked(&peer.host);
    ck_assert_str_eq(peer_rest(), "");
}
END_TEST

UNIT_MAIN("redis_tickets", kinds, the_simple_layout, flags_and_notes, grants, refusals,
          answers_that_are_none, withdrawals, busy_while_leaving, behind_one_of_ours,
          behind_a_foreign_holder, an_answer_that_comes_late, numbers, no_memory,
          names_that_are_keys, what_is_left_leaves, a_forked_child_says_nothing)
