/* SPDX-License-Identifier: MIT */
/*
 * Numbers that no server should say, in every answer that has some: at each limit of
 * the types they pass through, and beyond. The store alone, against a server that is
 * played. Whatever comes, a grant that is passed on has a lease and a block of tokens
 * that can be added up; everything else is refused or asked for again. Undefined
 * behaviour on the way is the sanitizer's to see.
 */
#include "unit.h"

#include "../../src/backends/redis/resp.h"
#include "../../src/base/text.h"
#include "fake_host.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

extern const struct hf_backend hf__backend_redis;

#define TEN_YEARS_NS (INT64_C(315360000000) * 1000000)

enum { RESERVE = 4, WORDS_MAX = 64, TEXT = 512 };

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
    "9223372036854775806",
    "9223372036854775807",
};
enum { LIMITS = sizeof limits / sizeof limits[0] };

static struct fake_host host;
static struct fake_clock clock_now = { .now_ns = INT64_C(1000000000000) };
static int listener, fd;
static char path[64], inbox[64];

/* ---- The server ------------------------------------------------------------------ */

static void say(const char *text)
{
    size_t len = strlen(text);
    ck_assert_int_eq(send(fd, text, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* The next message; the client may have to turn to send it. */
static bool hear_any(struct resp *nodes, char *text, size_t size, bool turn)
{
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    size_t len = 0, used;
    for (;;) {
        while (turn && poll(&polled, 1, 0) == 0)
            fake_turn(&host, 1);
        ssize_t got = recv(fd, text + len, 1, 0);
        if (got <= 0 || len + 1 == size)
            return false;
        len++;
        if (resp_read(text, len, nodes, WORDS_MAX, &used) == RESP_WHOLE)
            return true;
    }
}

/* The next request that is not there to see whether we live. */
static void hear(void)
{
    static char text[65536];
    struct resp nodes[WORDS_MAX];
    do {
        UNIT_ASSERT(hear_any(nodes, text, sizeof text, true));
        if (resp_is(resp_at(nodes, 0, 0), "PING"))
            say("+PONG\r\n");
    } while (resp_is(resp_at(nodes, 0, 0), "PING"));
}

static void *shake_hands(void *arg)
{
    static char text[65536];
    struct resp nodes[WORDS_MAX];
    char reply[TEXT];
    (void)arg;
    fd = accept(listener, NULL, NULL);
    while (hear_any(nodes, text, sizeof text, false)) {
        const struct resp *word = resp_at(nodes, 0, 0), *name = resp_at(nodes, 0, 1);
        if (resp_is(word, "HELLO")) {
            say("%1\r\n+version\r\n+7.0.15\r\n");
        } else if (resp_is(word, "SUBSCRIBE")) {
            snprintf(inbox, sizeof inbox, "%.*s", (int)name->len, name->text);
            snprintf(reply, sizeof reply, ">3\r\n+subscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                     name->len, inbox);
            say(reply);
        } else {
            say("+PONG\r\n");
            break;
        }
    }
    return NULL;
}

static void begin(const char *options)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    pthread_t thread;
    char url[128];
    snprintf(path, sizeof path, "/tmp/hf-numbers-%d", (int)getpid());
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    unlink(path); /* of a test that failed under this number */
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, shake_hands, NULL), 0);
    snprintf(url, sizeof url, "redis+unix://%s?protocol=3%s", path, options);
    ck_assert_int_eq(fake_open(&host, &hf__backend_redis, url, &clock_now), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* What is left is not withdrawn: the server is gone before. */
static void end(void)
{
    close(fd);
    close(listener);
    unlink(path);
    fake_close(&host);
}

static void answer(const char *text)
{
    hear();
    say(text);
}

/* ---- Tickets --------------------------------------------------------------------- */

static struct hf_ticket ticket_of(int kind)
{
    struct hf_ticket ticket = fake_ticket("name", kind);
    ticket.reserve = RESERVE;
    ticket.ttl_ns = INT64_C(30000000000);
    return ticket;
}

static void check_grant(const struct hf_grant *grant)
{
    UNIT_ASSERT(grant->token >= 1 && grant->token <= INT64_MAX);
    UNIT_ASSERT(grant->span >= 1 && grant->span <= RESERVE);
    UNIT_ASSERT(grant->ttl_ns > 0 && grant->ttl_ns <= TEN_YEARS_NS);
    UNIT_ASSERT(grant->since_ns > 0 && grant->since_ns <= clock_now.now_ns);
}

static void leave(struct hf_ticket *ticket)
{
    hf__backend_redis.withdraw(host.session, ticket);
    hear();
    say(":1\r\n");
    UNIT_ASSERT(fake_next(&host).what == FAKE_WITHDRAWN);
}

START_TEST(grants)
{
    char text[TEXT];
    int granted = 0;
    begin("");
    for (int i = 0; i < LIMITS * LIMITS * LIMITS; i++) {
        struct hf_ticket ticket = ticket_of(HF_MUTEX);
        fake_attempt(&host, &ticket);
        snprintf(text, sizeof text, "*5\r\n:1\r\n:%s\r\n:%s\r\n:%s\r\n:%s\r\n",
                 limits[i % LIMITS], limits[i / LIMITS % LIMITS],
                 limits[i / LIMITS / LIMITS], limits[i % LIMITS]);
        answer(text);
        struct fake_answer got = fake_next(&host);
        if (got.what == FAKE_GRANTED) {
            granted++;
            check_grant(&got.grant);
            leave(&ticket);
        } else {
            UNIT_ASSERT(got.what == FAKE_FAILED && got.code == HF_ECORRUPT);
        }
    }
    ck_assert_int_gt(granted, LIMITS);
    ck_assert_int_lt(granted, LIMITS * LIMITS * LIMITS);
    end();
}
END_TEST

START_TEST(places)
{
    char text[TEXT];
    begin("");
    for (int i = 0; i < LIMITS * LIMITS; i++) {
        struct hf_ticket ticket = ticket_of(HF_MUTEX);
        fake_attempt(&host, &ticket);
        snprintf(text, sizeof text, "*5\r\n:2\r\n:%s\r\n:%s\r\n:0\r\n:%s\r\n",
                 limits[i % LIMITS], limits[i / LIMITS], limits[i % LIMITS]);
        answer(text);
        struct fake_answer got = fake_next(&host);
        UNIT_ASSERT(got.what == FAKE_QUEUED && got.retry_ns > 0);
        UNIT_ASSERT(got.retry_ns <= INT64_C(33000000000));
        leave(&ticket);
    }
    end();
}
END_TEST

static void push_grant(const struct hf_ticket *ticket, const char *token,
                       const char *span, const char *ttl)
{
    char owner[64], line[256], text[TEXT];
    char hex[33] = "";
    hf__hex_encode(&ticket->id, sizeof ticket->id, hex);
    snprintf(owner, sizeof owner, "%.8s-%.4s-%.4s-%.4s-%.12s:1", hex, hex + 8, hex + 12,
             hex + 16, hex + 20);
    snprintf(line, sizeof line, "g %u %s %s %s %s 4600000",
             (uint32_t)ticket->store[0] - 1, owner, token, span, ttl);
    snprintf(text, sizeof text, ">3\r\n+message\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
             strlen(inbox), inbox, strlen(line), line);
    say(text);
}

#define QUEUED "*5\r\n:2\r\n:30000\r\n:0\r\n:0\r\n:1000000\r\n"

START_TEST(pushed_grants)
{
    static const char *const beyond[] = { "9223372036854775808", "18446744073709551615",
                                          "18446744073709551616", "x", "" };
    const int all = LIMITS + sizeof beyond / sizeof beyond[0];
    int granted = 0;
    begin("");
    for (int i = 0; i < all * all; i++) {
        const char *one = i % all < LIMITS ? limits[i % all] : beyond[i % all - LIMITS];
        const char *two = i / all < LIMITS ? limits[i / all] : beyond[i / all - LIMITS];
        struct hf_ticket ticket = ticket_of(HF_MUTEX);
        fake_attempt(&host, &ticket);
        answer(QUEUED);
        UNIT_ASSERT(fake_next(&host).what == FAKE_QUEUED);
        push_grant(&ticket, i % 2 ? one : "7", i % 2 ? "1" : one, two);
        struct fake_answer got = fake_next(&host);
        UNIT_ASSERT(got.what == FAKE_GRANTED || got.what == FAKE_NOTICE);
        if (got.what == FAKE_GRANTED)
            check_grant(&got.grant);
        granted += got.what == FAKE_GRANTED;
        leave(&ticket);
    }
    ck_assert_int_gt(granted, LIMITS);
    end();
}
END_TEST

/* A grant that is read long after the place was asked for proves nothing about when its
 * lease began, whatever the server's clock says: it was set an hour forward since. */
START_TEST(late_grants)
{
    begin("");
    for (int s = 0; s <= 30; s++) {
        struct hf_ticket ticket = ticket_of(HF_MUTEX);
        fake_attempt(&host, &ticket);
        int64_t asked = clock_now.now_ns;
        answer(QUEUED);
        ck_assert_int_eq(fake_next(&host).what, FAKE_QUEUED);
        clock_now.now_ns += s * INT64_C(1000000000);
        push_grant(&ticket, "7", "1", "30000");
        struct fake_answer got = fake_next(&host);
        ck_assert_int_eq(got.what, s <= 7 ? FAKE_GRANTED : FAKE_NOTICE);
        if (got.what == FAKE_GRANTED)
            ck_assert(got.grant.since_ns <= asked);
        leave(&ticket);
    }
    end();
}
END_TEST

START_TEST(adoptions)
{
    char text[TEXT];
    int adopted = 0;
    begin("");
    for (int i = 0; i < LIMITS * LIMITS; i++) {
        struct hf_ticket ticket = ticket_of(HF_MUTEX);
        struct hf_request request = fake_request(HF_ADOPT, "name");
        request.ticket = &ticket;
        request.number = UINT64_MAX;
        hf__backend_redis.ask(host.session, &request);
        snprintf(text, sizeof text, "*4\r\n:%s\r\n:%s\r\n:%s\r\n:0\r\n",
                 limits[i / 2 % LIMITS], i % 2 ? "1" : limits[i / LIMITS],
                 i % 2 ? limits[i / LIMITS] : "30000");
        answer(text);
        struct fake_answer got = fake_next(&host);
        UNIT_ASSERT(got.what == FAKE_ANSWERED);
        UNIT_ASSERT(got.code == 0 || got.code == HF_ECORRUPT);
        if (got.code != 0)
            continue;
        adopted++;
        check_grant(&request.grant);
        leave(&ticket);
    }
    ck_assert_int_gt(adopted, 0);
    end();
}
END_TEST

START_TEST(counts)
{
    char text[TEXT];
    begin("");
    for (int i = 0; i < LIMITS; i++) {
        struct hf_request request = fake_request(HF_LATCH_GET, "name");
        hf__backend_redis.ask(host.session, &request);
        snprintf(text, sizeof text, ":%s\r\n", limits[i]);
        answer(text);
        ck_assert_int_eq(fake_next(&host).code, 0);
        ck_assert_uint_le(request.result, UINT32_MAX);
    }
    end();
}
END_TEST

/* Without scripts: what EXEC says after INCRBY, SET, PTTL and GET. */
START_TEST(plain_grants)
{
    char text[TEXT], hex[33] = "";
    int granted = 0;
    begin("&layout=simple&script=off");
    for (int i = 0; i < 2 * LIMITS * LIMITS; i++) {
        struct hf_ticket ticket = ticket_of(HF_MUTEX);
        hf__hex_encode(&ticket.id, sizeof ticket.id, hex);
        fake_attempt(&host, &ticket);
        for (int word = 0; word < 6; word++) /* MULTI, and what it begins */
            answer(word ? "+QUEUED\r\n" : "+OK\r\n");
        snprintf(text, sizeof text, "*5\r\n:%s\r\n%s\r\n:%s\r\n$32\r\n%s\r\n:0\r\n",
                 limits[i / 2 % LIMITS], i % 2 ? "+OK" : "_", limits[i / 2 / LIMITS],
                 hex);
        answer(text);
        struct fake_answer got = fake_next(&host);
        if (got.what == FAKE_GRANTED) {
            check_grant(&got.grant);
            granted++;
        } else {
            UNIT_ASSERT(got.what == FAKE_FAILED && got.code == HF_ECORRUPT);
        }
        fake_forget(&host, &ticket);
    }
    ck_assert_int_gt(granted, 0);
    end();
}
END_TEST

UNIT_MAIN("redis_numbers", grants, places, pushed_grants, late_grants, adoptions,
          counts, plain_grants)
