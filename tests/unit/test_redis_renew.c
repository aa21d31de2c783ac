/* SPDX-License-Identifier: MIT */
/*
 * Renewals of the redis store, against a played server: many tickets in one script
 * call, an answer for each, and "unknown" where the server gave none.
 */
#include "unit.h"

#include "../../src/base/mem.h"
#include "redis_peer.h"

#include <stdio.h>
#include <string.h>

enum { MANY = 300, BATCH = 128 };

static struct hf_ticket tickets[MANY];

static void renew(struct hf_ticket *const *list, size_t count, enum hf_renew_mode mode)
{
    peer.host.calls++;
    hf__backend_redis.renew(peer.host.session, list, count, mode);
    peer.host.calls--;
}

static void renew_first(size_t count, enum hf_renew_mode mode)
{
    struct hf_ticket *list[MANY];
    for (size_t i = 0; i < count; i++)
        list[i] = &tickets[i];
    renew(list, count, mode);
}

static void make(int kind, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tickets[i] = peer_ticket(kind);
}

static void expect(size_t index, enum hf_renewal what)
{
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_RENEWED);
    ck_assert_ptr_eq(answer.about, &tickets[index]);
    ck_assert_int_eq(answer.code, (int)what);
}

/* What is sent for each kind: its keys, its letter, its lease. */
START_TEST(kinds)
{
    static const struct {
        int kind;
        const char *words;
    } rows[] = {
        { HF_MUTEX, "renew 3 name holdfast_info:{name} name m *-*:1 30000 0" },
        { HF_REENTRANT, "renew 3 name holdfast_info:{name} name m *:1 30000 0" },
        { HF_FAIR, "renew 3 name holdfast_info:{name} name f *:1 30000 0" },
        { HF_READ, "renew 3 name holdfast_info:{name} name r *:1 30000 0" },
        { HF_WRITE, "renew 3 name holdfast_info:{name} name w *:1 30000 0" },
        { HF_PERMITS, "renew 3 name holdfast_info:{name} holdfast_permits:{name} p *:1 "
                      "30000 0" },
        { HF_EXPIRING, "renew 3 name holdfast_info:{name} {name}:timeout e *:1 30000 "
                       "0" },
    };
    peer_open("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        make(rows[i].kind, 1);
        size_t live = hf__mem_live();
        renew_first(1, HF_RENEW);
        peer_answer(rows[i].words, "*1\r\n:1\r\n");
        expect(0, HF_RENEWED);
        if (i > 0) /* the rings of the connection are there by now */
            ck_assert_uint_eq(hf__mem_live(), live);
    }
    peer_close();
}
END_TEST

START_TEST(a_look_asks_for_no_lease)
{
    peer_open("&layout=simple");
    make(HF_MUTEX, 1);
    renew_first(1, HF_CHECK);
    peer_answer("renew 3 name holdfast_info:{name} name s * 0 0", "*1\r\n:1\r\n");
    expect(0, HF_STILL_HELD);
    renew_first(1, HF_CHECK);
    peer_answer("renew *", "*1\r\n:0\r\n");
    expect(0, HF_RENEWAL_LOST);
    peer_close();
}
END_TEST

/* The lease counts from when the request was sent, and is as long as was asked for;
 * that of less than a millisecond is one. */
START_TEST(leases)
{
    peer_open("");
    make(HF_MUTEX, 1);
    int64_t sent = peer.clock.now_ns;
    renew_first(1, HF_RENEW);
    peer.clock.now_ns += INT64_C(1000000000);
    peer_answer("renew *", "*1\r\n:1\r\n");
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.lease.since_ns, sent);
    ck_assert_int_eq(answer.lease.ttl_ns, INT64_C(30000000000));
    tickets[0].ttl_ns = 5;
    renew_first(1, HF_RENEW);
    peer_answer("renew * 1 0", "*1\r\n:1\r\n");
    ck_assert_int_eq(fake_next(&peer.host).lease.ttl_ns, 1000000);
    tickets[0].ttl_ns = 1000000;
    renew_first(1, HF_RENEW);
    peer_answer("renew * 1 0", "*1\r\n:1\r\n");
    expect(0, HF_RENEWED);
    peer_close();
}
END_TEST

/* After a hand-off the token is sent with the next renewal, and with a check. */
START_TEST(a_token_that_was_handed_on)
{
    peer_open("");
    make(HF_MUTEX, 2);
    peer_grant(&tickets[0]);
    ck_assert(hf__backend_redis.pass(peer.host.session, &tickets[0], 9));
    renew_first(2, HF_RENEW);
    peer_answer("renew 6 name * 30000 9 m * 30000 0", "*2\r\n:1\r\n:0\r\n");
    expect(0, HF_RENEWED);
    expect(1, HF_RENEWAL_LOST);
    peer_close();
}
END_TEST

/* As many calls as are needed, each ticket in one of them, and each answered for
 * itself. */
START_TEST(many_at_once)
{
    static char reply[16 * MANY];
    peer_open("");
    make(HF_MUTEX, MANY);
    renew_first(MANY, HF_RENEW);
    for (size_t from = 0; from < MANY; from += BATCH) {
        size_t count = MANY - from < BATCH ? MANY - from : BATCH;
        char pattern[32];
        snprintf(pattern, sizeof pattern, "renew %zu name *", 3 * count);
        int at = snprintf(reply, sizeof reply, "*%zu\r\n", count);
        for (size_t i = 0; i < count; i++)
            at += snprintf(reply + at, sizeof reply - (size_t)at, ":%d\r\n",
                           (from + i) % 3 != 0);
        peer_answer(pattern, reply);
        for (size_t i = from; i < from + count; i++)
            expect(i, i % 3 != 0 ? HF_RENEWED : HF_RENEWAL_LOST);
    }
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

/* Exactly as many as fit into one call. */
START_TEST(a_full_batch)
{
    static char reply[16 * MANY];
    peer_open("");
    make(HF_MUTEX, BATCH);
    renew_first(BATCH, HF_RENEW);
    int at = snprintf(reply, sizeof reply, "*%d\r\n", BATCH);
    for (int i = 0; i < BATCH; i++)
        at += snprintf(reply + at, sizeof reply - (size_t)at, ":1\r\n");
    peer_answer("renew 384 name *", reply);
    for (size_t i = 0; i < BATCH; i++)
        expect(i, HF_RENEWED);
    ck_assert(peer_is_quiet());
    renew_first(0, HF_RENEW);
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

/* Not a list, or not of that many: no answer of this connection is believed any
 * more. */
START_TEST(answers_that_are_none)
{
    static const struct {
        const char *reply;
        enum hf_renewal first, second;
        bool ends;
    } rows[] = {
        { "*1\r\n:1\r\n", HF_RENEWED, HF_RENEWAL_UNKNOWN, true },
        { "*3\r\n:0\r\n:1\r\n:1\r\n", HF_RENEWAL_LOST, HF_RENEWED, true },
        { "*0\r\n", HF_RENEWAL_UNKNOWN, HF_RENEWAL_UNKNOWN, true },
        { ":1\r\n", HF_RENEWAL_UNKNOWN, HF_RENEWAL_UNKNOWN, true },
        { "_\r\n", HF_RENEWAL_UNKNOWN, HF_RENEWAL_UNKNOWN, true },
        { "+ab\r\n", HF_RENEWAL_UNKNOWN, HF_RENEWAL_UNKNOWN, true },
        { "*2\r\n+x\r\n:1\r\n", HF_RENEWAL_UNKNOWN, HF_RENEWED, false },
        { "*2\r\n_\r\n:0\r\n", HF_RENEWAL_UNKNOWN, HF_RENEWAL_LOST, false },
        { "-LOADING the data\r\n", HF_RENEWAL_UNKNOWN, HF_RENEWAL_UNKNOWN, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        peer_open("");
        make(HF_MUTEX, 2);
        renew_first(2, HF_RENEW);
        peer_answer("renew 6 *", rows[i].reply);
        expect(0, rows[i].first);
        expect(1, rows[i].second);
        renew_first(1, HF_RENEW);
        if (!rows[i].ends)
            peer_answer("renew *", "*1\r\n:1\r\n");
        expect(0, rows[i].ends ? HF_RENEWAL_UNKNOWN : HF_RENEWED);
        peer_close();
    }
}
END_TEST

START_TEST(a_server_that_goes_away)
{
    peer_open("");
    make(HF_MUTEX, 2);
    renew_first(2, HF_RENEW);
    peer_expect("renew *");
    peer_hang_up();
    expect(0, HF_RENEWAL_UNKNOWN);
    expect(1, HF_RENEWAL_UNKNOWN);
    renew_first(2, HF_CHECK); /* while it is away */
    expect(0, HF_RENEWAL_UNKNOWN);
    expect(1, HF_RENEWAL_UNKNOWN);
    peer_close();
}
END_TEST

/* The memory of a ticket that was forgotten is core's: nothing is said of it. */
START_TEST(forgotten_meanwhile)
{
    peer_open("");
    make(HF_MUTEX, 3);
    renew_first(3, HF_RENEW);
    renew_first(3, HF_CHECK);
    fake_forget(&peer.host, &tickets[1]);
    memset(&tickets[1], 0xee, sizeof tickets[1]);
    peer_answer("renew *", "*3\r\n:1\r\n:1\r\n:0\r\n");
    peer_answer("renew *", "*3\r\n:1\r\n:1\r\n:0\r\n");
    expect(0, HF_RENEWED);
    expect(2, HF_RENEWAL_LOST);
    expect(0, HF_STILL_HELD);
    expect(2, HF_RENEWAL_LOST);
    ck_assert(fake_quiet(&peer.host));
    peer_close();
}
END_TEST

/* A ticket that is withdrawn gets no answer to an earlier renewal. */
START_TEST(released_meanwhile)
{
    peer_open("");
    make(HF_MUTEX, 2);
    peer_grant(&tickets[0]);
    hf__backend_redis.withdraw(peer.host.session, &tickets[0]);
    renew_first(2, HF_RENEW);
    peer_answer("withdraw_mutex *", ":1\r\n");
    ck_assert_int_eq(fake_next(&peer.host).what, FAKE_WITHDRAWN);
    memset(&tickets[0], 0xee, sizeof tickets[0]);
    peer_answer("renew 6 *", "*2\r\n:1\r\n:1\r\n");
    expect(1, HF_RENEWED);
    ck_assert(fake_quiet(&peer.host));
    peer_close();
}
END_TEST

/* Closed while one is under way: its memory goes, too. */
START_TEST(closed_meanwhile)
{
    peer_open("");
    make(HF_MUTEX, 3);
    renew_first(3, HF_RENEW);
    peer_expect("renew *");
    peer_leave_open();
}
END_TEST

START_TEST(no_memory)
{
    peer_open("");
    make(HF_MUTEX, 2);
    for (unsigned nth = 1; nth <= 2; nth++) {
        size_t live = hf__mem_live();
        hf__mem_fail(nth, 0);
        renew_first(2, HF_RENEW);
        hf__mem_fail(0, 0);
        expect(0, HF_RENEWAL_UNKNOWN);
        expect(1, HF_RENEWAL_UNKNOWN);
        ck_assert(peer_is_quiet());
        ck_assert_uint_eq(hf__mem_live(), live);
    }
    peer_close();
}
END_TEST

UNIT_MAIN("redis_renew", kinds, a_look_asks_for_no_lease, leases,
          a_token_that_was_handed_on, many_at_once, a_full_batch, answers_that_are_none,
          a_server_that_goes_away, forgotten_meanwhile, released_meanwhile,
          closed_meanwhile, no_memory)
