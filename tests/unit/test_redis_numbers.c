/* SPDX-License-Identifier: MIT */
/*
 * Invalid numbers in every reply that has numbers: at each limit of the types they pass
 * through, and beyond. The store alone, against a played server. A grant that reaches
 * core has a valid lease and block of tokens; any other is refused or asked for again.
 * The sanitizers detect undefined behaviour.
 */
#include "unit.h"

#include "../../src/base/text.h"
#include "redis_peer.h"

#include <stdio.h>
#include <string.h>

#define TEN_YEARS_NS (INT64_C(315360000000) * 1000000)
#define TOKEN_MOST (UINT64_C(1) << 53) /* beyond it two tokens are one, in a script */

enum { RESERVE = 4, TEXT = 512 };

static const char *const limits[] = {
    "-9223372036854775808",
    "-9223372036854775807",
    "-4294967297",
    "-1",
    "0",
    "1",
    "4",
    "5",
    "2147483648",
    "4294967295",
    "4294967296",
    "4294967297",
    "9223372036854",
    "9223372036855",
    "315360000000",
    "315360000001",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775806",
    "9223372036854775807",
};
enum { LIMITS = sizeof limits / sizeof limits[0] };

static void answer(const char *text)
{
    peer_hear();
    peer_say(text);
}

/* ---- Tickets --------------------------------------------------------------------- */

static void check_grant(const struct hf_grant *grant)
{
    UNIT_ASSERT(grant->token >= 1 && grant->token <= TOKEN_MOST);
    UNIT_ASSERT(grant->span >= 1 && grant->span <= RESERVE);
    UNIT_ASSERT(grant->ttl_ns > 0 && grant->ttl_ns <= TEN_YEARS_NS);
    UNIT_ASSERT(grant->since_ns > 0 && grant->since_ns <= peer.clock.now_ns);
}

static void leave(struct hf_ticket *ticket)
{
    hf__backend_redis.withdraw(peer.host.session, ticket);
    answer(":1\r\n");
    UNIT_ASSERT(fake_next(&peer.host).what == FAKE_WITHDRAWN);
}

/* What makes no sense may have been a grant all the same: uncertain at first, and
 * refused the second time. */
static void refused(struct hf_ticket *ticket, const struct fake_answer *first,
                    const char *text)
{
    UNIT_ASSERT(first->what == FAKE_FAILED && first->code == HF_EUNCERTAIN);
    fake_attempt(&peer.host, ticket);
    answer(text);
    struct fake_answer got = fake_next(&peer.host);
    UNIT_ASSERT(got.what == FAKE_FAILED && got.code == HF_ECORRUPT);
}

START_TEST(grants)
{
    char text[TEXT];
    int granted = 0;
    peer_open("");
    for (int i = 0; i < LIMITS * LIMITS * LIMITS; i++) {
        struct hf_ticket ticket = peer_ticket(HF_MUTEX);
        fake_attempt(&peer.host, &ticket);
        snprintf(text, sizeof text, "*5\r\n:1\r\n:%s\r\n:%s\r\n:%s\r\n:%s\r\n",
                 limits[i % LIMITS], limits[i / LIMITS % LIMITS],
                 limits[i / LIMITS / LIMITS], limits[i % LIMITS]);
        answer(text);
        struct fake_answer got = fake_next(&peer.host);
        if (got.what == FAKE_GRANTED) {
            granted++;
            check_grant(&got.grant);
            leave(&ticket);
        } else {
            refused(&ticket, &got, text);
        }
    }
    ck_assert_int_gt(granted, LIMITS);
    ck_assert_int_lt(granted, LIMITS * LIMITS * LIMITS);
    peer_close();
}
END_TEST

START_TEST(places)
{
    char text[TEXT];
    peer_open("");
    for (int i = 0; i < LIMITS * LIMITS; i++) {
        struct hf_ticket ticket = peer_ticket(HF_MUTEX);
        fake_attempt(&peer.host, &ticket);
        snprintf(text, sizeof text, "*5\r\n:2\r\n:%s\r\n:%s\r\n:0\r\n:%s\r\n",
                 limits[i % LIMITS], limits[i / LIMITS], limits[i % LIMITS]);
        answer(text);
        struct fake_answer got = fake_next(&peer.host);
        UNIT_ASSERT(got.what == FAKE_QUEUED && got.retry_ns > 0);
        UNIT_ASSERT(got.retry_ns <= INT64_C(33000000000));
        leave(&ticket);
    }
    peer_close();
}
END_TEST

static void push_grant(const struct hf_ticket *ticket, const char *token,
                       const char *span, const char *ttl)
{
    char line[256];
    snprintf(line, sizeof line, "g %s %s %s %s 4600000", peer_address(ticket), token,
             span, ttl);
    peer_push(NULL, line);
}

#define QUEUED "*5\r\n:2\r\n:30000\r\n:0\r\n:0\r\n:1000000\r\n"

START_TEST(pushed_grants)
{
    static const char *const beyond[] = { "9223372036854775808", "18446744073709551615",
                                          "18446744073709551616", "x", "" };
    const int all = LIMITS + sizeof beyond / sizeof beyond[0];
    int granted = 0;
    peer_open("");
    for (int i = 0; i < all * all; i++) {
        const char *one = i % all < LIMITS ? limits[i % all] : beyond[i % all - LIMITS];
        const char *two = i / all < LIMITS ? limits[i / all] : beyond[i / all - LIMITS];
        struct hf_ticket ticket = peer_ticket(HF_MUTEX);
        fake_attempt(&peer.host, &ticket);
        answer(QUEUED);
        UNIT_ASSERT(fake_next(&peer.host).what == FAKE_QUEUED);
        push_grant(&ticket, i % 2 ? one : "7", i % 2 ? "1" : one, two);
        struct fake_answer got = fake_next(&peer.host);
        UNIT_ASSERT(got.what == FAKE_GRANTED || got.what == FAKE_NOTICE);
        if (got.what == FAKE_GRANTED)
            check_grant(&got.grant);
        granted += got.what == FAKE_GRANTED;
        leave(&ticket);
    }
    ck_assert_int_gt(granted, LIMITS);
    peer_close();
}
END_TEST

/* A grant that is read long after the place was asked for proves nothing about when its
 * lease began, whatever the server's clock says: it was set an hour forward since. */
START_TEST(late_grants)
{
    peer_open("");
    for (int s = 0; s <= 30; s++) {
        struct hf_ticket ticket = peer_ticket(HF_MUTEX);
        fake_attempt(&peer.host, &ticket);
        int64_t asked = peer.clock.now_ns;
        answer(QUEUED);
        ck_assert_int_eq(fake_next(&peer.host).what, FAKE_QUEUED);
        peer.clock.now_ns += s * INT64_C(1000000000);
        push_grant(&ticket, "7", "1", "30000");
        struct fake_answer got = fake_next(&peer.host);
        ck_assert_int_eq(got.what, s <= 7 ? FAKE_GRANTED : FAKE_NOTICE);
        if (got.what == FAKE_GRANTED)
            ck_assert(got.grant.since_ns <= asked);
        leave(&ticket);
    }
    peer_close();
}
END_TEST

START_TEST(adoptions)
{
    char text[TEXT];
    int adopted = 0;
    peer_open("");
    for (int i = 0; i < LIMITS * LIMITS; i++) {
        struct hf_ticket ticket = peer_ticket(HF_MUTEX);
        struct hf_request request = fake_request(HF_ADOPT, "name");
        request.ticket = &ticket;
        request.number = UINT64_MAX;
        hf__backend_redis.ask(peer.host.session, &request);
        snprintf(text, sizeof text, "*4\r\n:%s\r\n:%s\r\n:%s\r\n:0\r\n",
                 limits[i / 2 % LIMITS], i % 2 ? "1" : limits[i / LIMITS],
                 i % 2 ? limits[i / LIMITS] : "30000");
        answer(text);
        struct fake_answer got = fake_next(&peer.host);
        UNIT_ASSERT(got.what == FAKE_ANSWERED);
        UNIT_ASSERT(got.code == 0 || got.code == HF_ECORRUPT);
        if (got.code != 0)
            continue;
        adopted++;
        check_grant(&request.grant);
        leave(&ticket);
    }
    ck_assert_int_gt(adopted, 0);
    peer_close();
}
END_TEST

START_TEST(counts)
{
    char text[TEXT];
    peer_open("");
    for (int i = 0; i < LIMITS; i++) {
        struct hf_request request = fake_request(HF_LATCH_GET, "name");
        hf__backend_redis.ask(peer.host.session, &request);
        snprintf(text, sizeof text, ":%s\r\n", limits[i]);
        answer(text);
        ck_assert_int_eq(fake_next(&peer.host).code, 0);
        ck_assert_uint_le(request.result, UINT32_MAX);
    }
    peer_close();
}
END_TEST

/* Without scripts: what EXEC says after INCRBY, SET, PTTL and GET. */
START_TEST(plain_grants)
{
    char text[TEXT], hex[33] = "";
    int granted = 0;
    peer_open("&layout=simple&script=off");
    for (int i = 0; i < 2 * LIMITS * LIMITS; i++) {
        struct hf_ticket ticket = peer_ticket(HF_MUTEX);
        hf__hex_encode(&ticket.id, sizeof ticket.id, hex);
        fake_attempt(&peer.host, &ticket);
        for (int word = 0; word < 6; word++) /* MULTI, and what it begins */
            answer(word ? "+QUEUED\r\n" : "+OK\r\n");
        snprintf(text, sizeof text, "*5\r\n:%s\r\n%s\r\n:%s\r\n$32\r\n%s\r\n:0\r\n",
                 limits[i / 2 % LIMITS], i % 2 ? "+OK" : "_", limits[i / 2 / LIMITS],
                 hex);
        answer(text);
        struct fake_answer got = fake_next(&peer.host);
        if (got.what == FAKE_GRANTED) {
            check_grant(&got.grant);
            granted++;
        } else {
            UNIT_ASSERT(got.what == FAKE_FAILED && got.code == HF_EUNCERTAIN);
        }
        fake_forget(&peer.host, &ticket);
    }
    ck_assert_int_gt(granted, 0);
    peer_close();
}
END_TEST

UNIT_MAIN("redis_numbers", grants, places, pushed_grants, late_grants, adoptions,
          counts, plain_grants)
