/* SPDX-License-Identifier: MIT */
/*
 * What a played server pushes to the redis store: messages to the client's inbox, and
 * messages on Redisson's channels. Only the ticket that is meant gets a message, and a
 * grant is believed only if it is valid.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "redis_peer.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define QUEUED "*5\r\n:2\r\n:30000\r\n:0\r\n:0\r\n:0\r\n"
#define FOREIGN "*5\r\n:2\r\n:30000\r\n:0\r\n:1\r\n:0\r\n"
#define LATER "*5\r\n:2\r\n:30000\r\n:1\r\n:1\r\n:0\r\n"

static void wait_in_line(struct hf_ticket *ticket, const char *reply)
{
    fake_attempt(&peer.host, ticket);
    peer_hear();
    peer_say(reply);
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_QUEUED);
}

/* "<letter> <number> <owner><rest>", to our inbox. */
static void push(const char *letter, const struct hf_ticket *ticket, const char *rest)
{
    char line[512];
    snprintf(line, sizeof line, "%s %s%s", letter, peer_address(ticket), rest);
    peer_push(NULL, line);
}

/* What is heard of it first; a question that is answered behind it shows that it came.
 */
static struct fake_answer heard(void)
{
    struct hf_request request = fake_request(HF_LATCH_GET, "latch");
    struct fake_answer first;
    peer.host.calls++;
    hf__backend_redis.ask(peer.host.session, &request);
    peer.host.calls--;
    peer_answer("latch_get 2 latch *", ":1\r\n");
    first = fake_next(&peer.host);
    if (first.what == FAKE_ANSWERED)
        return (struct fake_answer){ .what = FAKE_NOTHING };
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_ANSWERED);
    return first;
}

/* ---- The inbox ------------------------------------------------------------------- */

START_TEST(each_word)
{
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_MUTEX), bystander = peer_ticket(HF_MUTEX);
    wait_in_line(&bystander, QUEUED);
    wait_in_line(&ticket, QUEUED);
    push("n", &ticket, "");
    struct fake_answer answer = heard();
    ck_assert_int_eq(answer.what, FAKE_NOTICE);
    ck_assert_ptr_eq(answer.about, &ticket);
    push("r", &ticket, "");
    answer = heard();
    ck_assert(answer.what == FAKE_EVENT && answer.code == HF_EVENT_REVOKED);
    push("l", &ticket, "");
    answer = heard();
    ck_assert(answer.what == FAKE_EVENT && answer.code == HF_EVENT_LOST);
    push("o", &ticket, ""); /* is of latches */
    ck_assert_int_eq(heard().what, FAKE_NOTHING);
    push("z", &ticket, "");
    ck_assert_int_eq(heard().what, FAKE_NOTHING);
    push("nn", &ticket, "");
    ck_assert_int_eq(heard().what, FAKE_NOTHING);
    push("g", &ticket, " 7 1 30000");
    answer = heard();
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    ck_assert_ptr_eq(answer.about, &ticket);
    ck_assert_uint_eq(answer.grant.token, 7);
    ck_assert_uint_eq(answer.grant.span, 1);
    ck_assert_int_eq(answer.grant.ttl_ns, 30 * HF_NS_PER_S);
    peer_close();
}
END_TEST

/* A number is reused: the owner decides which ticket gets the message. */
START_TEST(messages_of_others)
{
    static const char *const lines[] = {
        "n 0 00000000-0000-0000-0000-000000000000:1",
        "n 0",
        "n 0 ",
        "n",
        "",
        " ",
        "n x 1",
        "n -1 1",
        "n 99999999999 1",
        "n 1111111111111111111111111 1",
    };
    char line[128];
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_MUTEX), gone = peer_ticket(HF_MUTEX);
    wait_in_line(&ticket, QUEUED);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        peer_push(NULL, lines[i]);
        ck_assert_msg(heard().what == FAKE_NOTHING, "%s", lines[i]);
    }
    const char *owner = strchr(peer_address(&ticket), ' ') + 1;
    for (unsigned number = 1; number < 40; number++) { /* where it does not stand */
        snprintf(line, sizeof line, "n %u %s", number, owner);
        peer_push(NULL, line);
        ck_assert_int_eq(heard().what, FAKE_NOTHING);
    }
    wait_in_line(&gone, QUEUED);
    snprintf(line, sizeof line, "n %s", peer_address(&gone));
    hf__backend_redis.withdraw(peer.host.session, &gone);
    peer_answer("withdraw_mutex *", ":1\r\n");
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_WITHDRAWN);
    peer_push(NULL, line);
    ck_assert_int_eq(heard().what, FAKE_NOTHING);
    peer_push("holdfast:00000000000000000000000000000000", line);
    ck_assert_int_eq(heard().what, FAKE_NOTHING);
    peer_close();
}
END_TEST

/* "Not before": up to a second, otherwise the waiter asks at once. */
START_TEST(not_yet)
{
    static const struct {
        const char *rest;
        int64_t ms; /* 0: a notice */
    } rows[] = {
        { " 0", 1 },    { " 1", 2 }, { " 999 more", 1000 }, { " 1000", 1001 },
        { " 1001", 0 }, { "", 0 },   { " x", 0 },           { " -1", 0 },
    };
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_MUTEX);
    wait_in_line(&ticket, QUEUED);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        push("w", &ticket, rows[i].rest);
        struct fake_answer answer = heard();
        ck_assert_int_eq(answer.what, rows[i].ms ? FAKE_QUEUED : FAKE_NOTICE);
        ck_assert_int_eq(answer.retry_ns, rows[i].ms * HF_NS_PER_MS);
    }
    peer_close();
}
END_TEST

/* A grant that lacks a number, or came for one that was never queued, is looked into.
 */
START_TEST(grants_without_sense)
{
    static const char *const rests[] = { "",       " 7",     " 7 1",
                                         " 7 1 x", " 7 x 9", " x 1 9",
                                         " 0 1 9", " 7 0 9", " 7 1 0" };
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_MUTEX), early = peer_ticket(HF_MUTEX);
    wait_in_line(&ticket, QUEUED);
    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        push("g", &ticket, rests[i]);
        ck_assert_msg(heard().what == FAKE_NOTICE, "%s", rests[i]);
    }
    peer.clock.now_ns = HF_NS_PER_S; /* the machine has just been started */
    fake_attempt(&peer.host, &early);
    peer_expect("take_mutex *");
    push("g", &early, " 7 1 30000");
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_NOTICE);
    peer_close();
}
END_TEST

/* The request that queued it may be a quarter of the lease ago. */
START_TEST(old_grants)
{
    peer_open("");
    for (int late = 0; late <= 1; late++) {
        struct hf_ticket ticket = peer_ticket(HF_MUTEX);
        wait_in_line(&ticket, QUEUED);
        peer.clock.now_ns += 1000 * HF_NS_PER_MS / 4 + late;
        push("g", &ticket, " 7 1 1000");
        ck_assert_int_eq(heard().what, late ? FAKE_NOTICE : FAKE_GRANTED);
    }
    peer_close();
}
END_TEST

START_TEST(an_open_latch)
{
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_LATCH);
    wait_in_line(&ticket, QUEUED);
    push("o", &ticket, "");
    struct fake_answer answer = heard();
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    ck_assert_uint_eq(answer.grant.token, 1);
    ck_assert_uint_eq(answer.grant.span, 1);
    push("n", &ticket, ""); /* it stands nowhere any more */
    ck_assert_int_eq(heard().what, FAKE_NOTHING);
    peer_close();
}
END_TEST

/* ---- Channels -------------------------------------------------------------------- */

START_TEST(channels_of_kinds)
{
    static const struct {
        int kind;
        const char *channel;
    } rows[] = {
        { HF_MUTEX, "redisson_lock__channel:{name}" },
        { HF_REENTRANT, "redisson_lock__channel:{name}" },
        { HF_FAIR, "redisson_lock__channel:{name}:*-*-*-*-*:1" },
        { HF_READ, "redisson_rwlock:{name}" },
        { HF_WRITE, "redisson_rwlock:{name}" },
        { HF_PERMITS, "redisson_sc:{name}" },
        { HF_EXPIRING, "redisson_sc:{name}" },
        { HF_LATCH, "redisson_countdownlatch__channel__{name}" },
    };
    char words[256], channel[128];
    peer_open("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hf_ticket ticket = peer_ticket(rows[i].kind);
        wait_in_line(&ticket, FOREIGN);
        const char *request = peer_hear();
        snprintf(words, sizeof words, "SUBSCRIBE %s", rows[i].channel);
        ck_assert_msg(fnmatch(words, request, 0) == 0, "%s", request);
        snprintf(channel, sizeof channel, "%s", request + 10);
        peer_confirm(channel); /* something may have happened before */
        ck_assert_int_eq(heard().what, FAKE_NOTICE);
        peer_push(channel, "1");
        struct fake_answer answer = heard();
        ck_assert_int_eq(answer.what, FAKE_NOTICE);
        ck_assert_ptr_eq(answer.about, &ticket);
        fake_forget(&peer.host, &ticket);
        snprintf(words, sizeof words, "UNSUBSCRIBE %s", rows[i].channel);
        peer_expect(words);
        snprintf(words, sizeof words, ">3\r\n+unsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                 strlen(channel), channel);
        peer_say(words);
    }
    peer_close();
}
END_TEST

#define CHANNEL "redisson_lock__channel:{name}"

/* Two of one channel are told, and each at its own confirmation once; one of another
 * channel is not. */
START_TEST(two_who_listen)
{
    peer_open("");
    struct hf_ticket one = peer_ticket(HF_MUTEX), two = peer_ticket(HF_MUTEX);
    struct hf_ticket other = peer_ticket(HF_MUTEX);
    other.name = "else";
    wait_in_line(&one, FOREIGN);
    peer_expect("SUBSCRIBE " CHANNEL);
    peer_confirm(CHANNEL);
    ck_assert_ptr_eq(fake_next(&peer.host).about, &one);
    wait_in_line(&two, FOREIGN); /* confirmed long ago: reported at once */
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_NOTICE);
    ck_assert_ptr_eq(answer.about, &two);
    ck_assert(fake_quiet(&peer.host));
    wait_in_line(&other, FOREIGN);
    peer_expect("SUBSCRIBE redisson_lock__channel:{else}");
    peer_confirm("redisson_lock__channel:{else}");
    ck_assert_ptr_eq(fake_next(&peer.host).about, &other);
    peer_push(CHANNEL, "0");
    ck_assert_ptr_eq(fake_next(&peer.host).about, &one);
    ck_assert_ptr_eq(fake_next(&peer.host).about, &two);
    ck_assert(fake_quiet(&peer.host));
    wait_in_line(&one, FOREIGN); /* listens already */
    ck_assert(peer_is_quiet());
    wait_in_line(&one, QUEUED); /* behind one of ours: no more */
    ck_assert(peer_is_quiet());
    peer_push(CHANNEL, "0");
    ck_assert_ptr_eq(fake_next(&peer.host).about, &two);
    ck_assert(fake_quiet(&peer.host));
    push("g", &two, " 7 1 30000");
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_GRANTED);
    peer_expect("UNSUBSCRIBE " CHANNEL); /* the last one has it */
    peer_close();
}
END_TEST

/* Of many channels, more than there are buckets for, each has its own listener. */
START_TEST(many_who_listen)
{
    enum { MANY = 100 };
    static struct hf_ticket tickets[MANY];
    static char names[MANY][16], channel[64];
    peer_open("");
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "n%03d", i);
        snprintf(channel, sizeof channel, "redisson_lock__channel:{n%03d}", i);
        tickets[i] = peer_ticket(HF_MUTEX);
        tickets[i].name = names[i];
        wait_in_line(&tickets[i], FOREIGN);
        peer_expect("SUBSCRIBE *");
        peer_confirm(channel);
        struct fake_answer answer = fake_next(&peer.host);
        ck_assert_ptr_eq(answer.about, &tickets[i]);
        ck_assert(fake_quiet(&peer.host));
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(channel, sizeof channel, "redisson_lock__channel:{n%03d}", i);
        peer_push(channel, "0");
        ck_assert_ptr_eq(fake_next(&peer.host).about, &tickets[i]);
        ck_assert(fake_quiet(&peer.host));
    }
    peer_close();
}
END_TEST

/* "0" opens it; at any other message the waiter asks again. */
START_TEST(a_latch_on_its_channel)
{
    static const char *const others[] = { "1", "00", "", "x" };
    static const char gate[] = "redisson_countdownlatch__channel__{name}";
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_LATCH);
    wait_in_line(&ticket, LATER);
    peer_expect("SUBSCRIBE redisson_countdownlatch__channel__{name}");
    peer_confirm(gate);
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_NOTICE);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        peer_push(gate, others[i]);
        ck_assert_int_eq(heard().what, FAKE_NOTICE);
    }
    peer_push(gate, "0");
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    ck_assert_uint_eq(answer.grant.token, 1);
    peer_expect("UNSUBSCRIBE redisson_countdownlatch__channel__{name}");
    peer_close();
}
END_TEST

/* A mutex is not had by a "0". */
START_TEST(a_mutex_on_its_channel)
{
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_MUTEX);
    wait_in_line(&ticket, FOREIGN);
    peer_expect("SUBSCRIBE *");
    peer_push(CHANNEL, "0"); /* before it is confirmed, which comes then */
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_NOTICE);
    peer_confirm(CHANNEL);
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_NOTICE);
    peer_close();
}
END_TEST

/* The connection is back: all waiters ask again, once, and subscribe again. */
START_TEST(a_connection_that_comes_back)
{
    peer_open("");
    struct hf_ticket one = peer_ticket(HF_MUTEX), two = peer_ticket(HF_MUTEX);
    wait_in_line(&one, FOREIGN);
    peer_expect("SUBSCRIBE " CHANNEL);
    peer_confirm(CHANNEL);
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_NOTICE);
    struct hf_ticket gone = peer_ticket(HF_MUTEX);
    wait_in_line(&gone, QUEUED);
    wait_in_line(&two, QUEUED);
    fake_forget(&peer.host, &gone);
    peer_hang_up();
    fake_turn(&peer.host, 100);
    peer_again();
    ck_assert_ptr_eq(fake_next(&peer.host).about, &one);
    ck_assert_ptr_eq(fake_next(&peer.host).about, &two);
    ck_assert(fake_quiet(&peer.host));
    ck_assert_ptr_nonnull(strstr(peer.handshake, "SUBSCRIBE holdfast:"));
    peer_close();
}
END_TEST

/* Without memory to subscribe, the waiter asks often instead. */
START_TEST(no_memory_to_listen)
{
    peer_open("");
    for (unsigned nth = 1; nth <= 3; nth++) {
        struct hf_ticket ticket = peer_ticket(HF_MUTEX);
        fake_attempt(&peer.host, &ticket);
        peer_hear();
        peer_say(FOREIGN);
        hf__mem_fail(nth, 0);
        ck_assert_int_eq(fake_next(&peer.host).what, FAKE_QUEUED);
        hf__mem_fail(0, 0);
        struct fake_answer answer = fake_next(&peer.host);
        ck_assert_int_eq(answer.what, FAKE_QUEUED);
        ck_assert_int_eq(answer.retry_ns, 100 * HF_NS_PER_MS);
        ck_assert_uint_eq(ticket.store[1], 0);
        ck_assert(peer_is_quiet());
        fake_forget(&peer.host, &ticket);
    }
    peer_close();
}
END_TEST

/* Closed while some listen: their memory goes, too. */
START_TEST(closed_meanwhile)
{
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_MUTEX);
    wait_in_line(&ticket, FOREIGN);
    peer_expect("SUBSCRIBE " CHANNEL);
    peer_close();
}
END_TEST

UNIT_MAIN("redis_listen", each_word, messages_of_others, not_yet, grants_without_sense,
          old_grants, an_open_latch, channels_of_kinds, two_who_listen, many_who_listen,
          a_latch_on_its_channel, a_mutex_on_its_channel, a_connection_that_comes_back,
          no_memory_to_listen, closed_meanwhile)
