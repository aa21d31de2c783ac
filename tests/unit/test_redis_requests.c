/* SPDX-License-Identifier: MIT */
/*
 * Latches, cells and repair on the redis store, against a played server: what is sent,
 * what each reply means, and how invalid replies are handled.
 */
#include "unit.h"

#include "../../src/base/mem.h"
#include "redis_peer.h"

#include <stdio.h>
#include <string.h>

#define ZEROS "00000000000000000000000000000000"
#define HEX "????????????????????????????????"

static void ask(struct hf_request *request)
{
    peer.host.calls++;
    hf__backend_redis.ask(peer.host.session, request);
    peer.host.calls--;
}

static int code_of(const struct hf_request *request)
{
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.what, FAKE_ANSWERED);
    ck_assert_ptr_eq(answer.about, request);
    if (answer.code != 0)
        ck_assert_int_eq(answer.why.code, answer.code);
    return answer.code;
}

/* Asks, expects the request `pattern`, sends `reply`. */
static int said(struct hf_request *request, const char *pattern, const char *reply)
{
    ask(request);
    peer_answer(pattern, reply);
    return code_of(request);
}

static struct hf_request cell_set(const char *data)
{
    struct hf_request request = fake_request(HF_CELL_SET, "name");
    request.number = 3;
    request.data = data;
    request.data_len = data ? strlen(data) : 0;
    return request;
}

static struct hf_request about(int verb, struct hf_ticket *ticket)
{
    struct hf_request request = fake_request(verb, "name");
    request.ticket = ticket;
    request.number = 7;
    return request;
}

/* ---- Latches --------------------------------------------------------------------- */

#define LATCH                                                                          \
    " 6 name holdfast_info:{name} holdfast_queue:{name} "                              \
    "redisson_countdownlatch__channel__{name} holdfast_opened:{name} "                 \
    "holdfast_done:{name}:" HEX " "

START_TEST(latches_are_set)
{
    peer_open("");
    struct hf_request request = fake_request(HF_LATCH_SET, "name");
    request.number = 5;
    ck_assert_int_eq(said(&request, "latch_set" LATCH "5 " HEX, ":1\r\n"), 0);
    ck_assert_int_eq(said(&request, "latch_set *", ":0\r\n"), HF_EBUSY);
    ck_assert_int_eq(said(&request, "latch_set *", "$1\r\n0\r\n"), HF_EBUSY);
    ck_assert_int_eq(said(&request, "latch_set *", "+x\r\n"), HF_ECORRUPT);
    ck_assert_int_eq(said(&request, "latch_set *", "_\r\n"), HF_ECORRUPT);
    peer_close();
}
END_TEST

START_TEST(latches_are_counted)
{
    peer_open("");
    struct hf_request request = fake_request(HF_LATCH_GET, "name");
    request.result = 99;
    ck_assert_int_eq(
        said(&request, "latch_get 2 name holdfast_info:{name} *", ":0\r\n"), 0);
    ck_assert_uint_eq(request.result, 0);
    ck_assert_int_eq(said(&request, "latch_get *", "$2\r\n12\r\n"), 0);
    ck_assert_uint_eq(request.result, 12);
    ck_assert_int_eq(said(&request, "latch_get *", ":4294967295\r\n"), 0);
    ck_assert_uint_eq(request.result, UINT32_MAX);
    ck_assert_int_eq(said(&request, "latch_get *", ":4294967296\r\n"), 0);
    ck_assert_uint_eq(request.result, UINT32_MAX);
    ck_assert_int_eq(said(&request, "latch_get *", ":-1\r\n"), 0);
    ck_assert_uint_eq(request.result, 0);
    ck_assert_int_eq(said(&request, "latch_get *", "$2\r\nab\r\n"), HF_ECORRUPT);
    ck_assert_uint_eq(request.result, 0);
    ck_assert_int_eq(said(&request, "latch_get *", ":3\r\n"), 0);
    ck_assert_int_eq(said(&request, "latch_get *", "+x\r\n"), HF_ECORRUPT);
    ck_assert_uint_eq(request.result, 3); /* is written on success only */
    ck_assert_int_eq(said(&request, "latch_get *", "-HOLDFAST mismatch\r\n"),
                     HF_EMISMATCH);
    request.verb = HF_LATCH_DOWN;
    request.number = 2;
    ck_assert_int_eq(said(&request, "latch_down" LATCH "2 " HEX, ":3\r\n"), 0);
    ck_assert_uint_eq(request.result, 3);
    ck_assert_int_eq(said(&request, "latch_down *", ":0\r\n"), 0);
    ck_assert_uint_eq(request.result, 0);
    peer_close();
}
END_TEST

/* ---- Cells ----------------------------------------------------------------------- */

START_TEST(cells_are_read)
{
    static const char *const nonsense[] = {
        "*1\r\n:4\r\n",
        "*0\r\n",
        "*2\r\n:0\r\n+a\r\n",
        "*2\r\n:-1\r\n+a\r\n",
        "*2\r\n:4\r\n:5\r\n",
        "*2\r\n+x\r\n+a\r\n",
        ":4\r\n",
        "*2\r\n:4\r\n_\r\n",
    };
    peer_open("");
    struct hf_request request = fake_request(HF_CELL_GET, "name");
    ck_assert_int_eq(said(&request, "cell_get 1 name 0 " HEX, "_\r\n"), HF_ENOENT);
    ck_assert_int_eq(said(&request, "cell_get *", "*2\r\n:4\r\n+data\r\n"), 0);
    ck_assert_uint_eq(request.result, 4);
    ck_assert_str_eq(peer.host.cell, "data");
    ck_assert_int_eq(said(&request, "cell_get *", "*2\r\n:1\r\n$0\r\n\r\n"), 0);
    ck_assert_uint_eq(request.result, 1);
    ck_assert_uint_eq(peer.host.cell_len, 0);
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        ck_assert_int_eq(said(&request, "cell_get *", nonsense[i]), HF_ECORRUPT);
    ck_assert_uint_eq(request.result, 1);
    peer_close();
}
END_TEST

/* As long as a cell may be, and longer. */
START_TEST(cells_have_a_size)
{
    static char reply[HF_CELL_MAX + 64];
    peer_open("");
    for (size_t more = 0; more <= 1; more++) {
        struct hf_request request = fake_request(HF_CELL_GET, "name");
        size_t len = HF_CELL_MAX + more;
        int at = snprintf(reply, sizeof reply, "*2\r\n:4\r\n$%zu\r\n", len);
        memset(reply + at, 'x', len);
        memcpy(reply + at + len, "\r\n", 3);
        ask(&request);
        peer_expect("cell_get *");
        for (size_t sent = 0, all = strlen(reply); sent < all;) {
            char piece[4097];
            snprintf(piece, sizeof piece, "%s", reply + sent);
            sent += strlen(piece);
            peer_say(piece);
            fake_turn(&peer.host, 0);
        }
        ck_assert_int_eq(code_of(&request), more ? HF_ECORRUPT : 0);
    }
    ck_assert_uint_eq(peer.host.cell_len, HF_CELL_MAX);
    peer_close();
}
END_TEST

#define CELL                                                                           \
    " 4 name redisson_lock_token:{name} holdfast_done:{name}:" HEX                     \
    " holdfast_info:{name} 3 " HEX

START_TEST(cells_are_set)
{
    static const char *const nonsense[] = { "*2\r\n:1\r\n:0\r\n", "*2\r\n:1\r\n:-1\r\n",
                                            "*1\r\n:1\r\n",       "*2\r\n:1\r\n+x\r\n",
                                            "*2\r\n+x\r\n:4\r\n", ":1\r\n" };
    peer_open("");
    struct hf_request request = cell_set("data");
    ck_assert_int_eq(said(&request, "cell_set" CELL " 0 data", "*2\r\n:1\r\n:4\r\n"),
                     0);
    ck_assert_uint_eq(request.result, 4);
    ck_assert_int_eq(said(&request, "cell_set *", "*2\r\n:0\r\n:9\r\n"), HF_ESTALE);
    ck_assert_int_eq(said(&request, "cell_set *", "*2\r\n:0\r\n:0\r\n"), HF_ESTALE);
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        ck_assert_int_eq(said(&request, "cell_set *", nonsense[i]), HF_ECORRUPT);
    ck_assert_uint_eq(request.result, 4);
    request = cell_set("x"); /* the id of the request, in both places */
    request.id = (struct hf_id){ { 0, 0 } };
    ck_assert_int_eq(said(&request, "* holdfast_done:{name}:" ZEROS " * " ZEROS " 0 x",
                          "*2\r\n:1\r\n:5\r\n"),
                     0);
    request = cell_set("");
    ck_assert_int_eq(said(&request, "cell_set" CELL " 0 ", "*2\r\n:1\r\n:5\r\n"), 0);
    request = cell_set(NULL); /* removes it: there is no version then */
    ck_assert_int_eq(said(&request, "cell_set" CELL " 1 ", "*2\r\n:1\r\n:0\r\n"), 0);
    ck_assert_uint_eq(request.result, 0);
    ck_assert_int_eq(said(&request, "cell_set *", "*2\r\n:1\r\n:6\r\n"), HF_ECORRUPT);
    peer_close();
}
END_TEST

/* ---- Repair ---------------------------------------------------------------------- */

START_TEST(revocations)
{
    peer_open("");
    struct hf_request request = fake_request(HF_REVOKE, "name");
    request.number = 7;
    ck_assert_int_eq(
        said(&request, "revoke 2 name holdfast_info:{name} 7 " HEX, ":1\r\n"), 0);
    ck_assert_int_eq(said(&request, "revoke *", ":2\r\n"), 0);
    ck_assert_int_eq(said(&request, "revoke *", ":0\r\n"), HF_ENOENT);
    ck_assert_int_eq(said(&request, "revoke *", "+x\r\n"), HF_ECORRUPT);
    peer_close();
}
END_TEST

START_TEST(downgrades)
{
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_WRITE);
    struct hf_request request = about(HF_DOWNGRADE, &ticket);
    ck_assert_int_eq(said(&request,
                          "downgrade_rw 5 name redisson_lock_token:{name} "
                          "holdfast_info:{name} holdfast_queue:{name} "
                          "redisson_rwlock:{name} *-*:1 30000",
                          ":1\r\n"),
                     0);
    ck_assert_int_eq(said(&request, "downgrade_rw *", ":0\r\n"), HF_ELOST);
    ck_assert_int_eq(said(&request, "downgrade_rw *", "_\r\n"), HF_ECORRUPT);
    ticket.ttl_ns = 999999; /* 0 ms would be no lease */
    ck_assert_int_eq(said(&request, "downgrade_rw * *-*:1 1", ":1\r\n"), 0);
    peer_close();
}
END_TEST

/* Messages find the ticket under the number that was sent. */
START_TEST(adoptions)
{
    char line[128];
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_MUTEX);
    struct hf_request request = about(HF_ADOPT, &ticket);
    request.other = fake_id();
    ask(&request);
    int64_t sent = peer.clock.now_ns;
    peer.clock.now_ns += 5000;
    peer_answer("adopt 7 name redisson_lock_token:{name} holdfast_info:{name} "
                "holdfast_queue:{name} redisson_lock_queue:{name} "
                "redisson_lock_timeout:{name} redisson_lock__channel:{name} *-*:1 7 "
                "*-*:1 30000 4 holdfast:" HEX " 0 *  m 1 1",
                "*4\r\n:7\r\n:2\r\n:20000\r\n:0\r\n");
    ck_assert_int_eq(code_of(&request), 0);
    ck_assert_uint_eq(request.grant.token, 7);
    ck_assert_uint_eq(request.grant.span, 2);
    ck_assert_int_eq(request.grant.ttl_ns, INT64_C(20000000000));
    ck_assert_int_eq(request.grant.since_ns, sent);
    snprintf(line, sizeof line, "r %s", peer_address(&ticket));
    peer_push(NULL, line);
    fake_expect_event(&peer.host, &ticket, HF_EVENT_REVOKED);
    peer_close();
}
END_TEST

/* A failed adoption frees its number: the next one gets the same. */
START_TEST(adoptions_that_come_to_nothing)
{
    static const struct {
        const char *reply;
        int code;
    } rows[] = {
        { "_\r\n", HF_ENOENT },
        { "*2\r\n:7\r\n:1\r\n", HF_ECORRUPT },
        { "*3\r\n+x\r\n:1\r\n:9\r\n", HF_ECORRUPT },
        { "*3\r\n:7\r\n+x\r\n:9\r\n", HF_ECORRUPT },
        { "*3\r\n:7\r\n:1\r\n+x\r\n", HF_ECORRUPT },
        { "*3\r\n:7\r\n:1\r\n:0\r\n", HF_ECORRUPT },
        { "*3\r\n:0\r\n:1\r\n:9\r\n", HF_ECORRUPT },
        { ":7\r\n", HF_ECORRUPT },
        { "-HOLDFAST mismatch\r\n", HF_EMISMATCH },
    };
    peer_open("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hf_ticket ticket = peer_ticket(HF_MUTEX);
        struct hf_request request = about(HF_ADOPT, &ticket);
        ck_assert_int_eq(said(&request, "adopt * holdfast:" HEX " 0 *", rows[i].reply),
                         rows[i].code);
        ck_assert_uint_eq(request.store[0], 0);
    }
    peer_close();
}
END_TEST

/* ---- Refusals -------------------------------------------------------------------- */

START_TEST(what_servers_say)
{
    static const struct {
        const char *reply;
        int code;
        const char *words;
    } rows[] = {
        { "-HOLDFAST mismatch\r\n", HF_EMISMATCH, "" },
        { "-HOLDFAST corrupt\r\n", HF_ECORRUPT, "HOLDFAST corrupt" },
        { "-WRONGTYPE Operation\r\n", HF_EMISMATCH, "" },
        { "-OOM command not allowed\r\n", HF_EFULL, "the server says: OOM" },
        { "-MISCONF disk\r\n", HF_EFULL, "MISCONF" },
        { "-BUSY script\r\n", HF_EUNREACHABLE, "BUSY" },
        { "-LOADING data\r\n", HF_EUNREACHABLE, "LOADING" },
        { "-MASTERDOWN link\r\n", HF_EUNREACHABLE, "MASTERDOWN" },
        { "-TRYAGAIN later\r\n", HF_EUNREACHABLE, "TRYAGAIN" },
        { "-CLUSTERDOWN\r\n", HF_EUNREACHABLE, "CLUSTERDOWN" },
        { "-MOVED 1 elsewhere\r\n", HF_EUNSUPPORTED, "MOVED" },
        { "-ASK 1 elsewhere\r\n", HF_EUNSUPPORTED, "ASK" },
        { "-NOPERM no\r\n", HF_EREFUSED, "NOPERM no" },
        { "-READONLY replica\r\n", HF_EREFUSED, "READONLY replica" },
        { "-ERR Error running script (call to f_): @user_script:7: OOM now\r\n",
          HF_EFULL, "OOM" },
    };
    peer_open("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hf_request request = fake_request(HF_REVOKE, "name");
        ask(&request);
        peer_answer("revoke *", rows[i].reply);
        struct fake_answer answer = fake_next(&peer.host);
        ck_assert_int_eq(answer.code, rows[i].code);
        ck_assert_int_eq(answer.why.code, rows[i].code);
        ck_assert_msg(strstr(answer.why.text, rows[i].words), "%s", answer.why.text);
        ck_assert_ptr_null(strchr(answer.why.text, '\r')); /* and not a byte more */
    }
    peer_close();
}
END_TEST

/* A long one is cut. */
START_TEST(what_servers_say_at_length)
{
    char reply[400];
    memset(reply, 'x', sizeof reply);
    memcpy(reply, "-NO ", 4);
    memcpy(reply + sizeof reply - 3, "\r\n", 3);
    peer_open("");
    struct hf_request request = fake_request(HF_REVOKE, "name");
    ask(&request);
    peer_answer("revoke *", reply);
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.code, HF_EREFUSED);
    ck_assert_uint_eq(strspn(strchr(answer.why.text, 'x'), "x"), 160 - 3);
    peer_close();
}
END_TEST

/* Names that are keys of others are refused, and the server hears nothing of them. */
START_TEST(names_that_are_keys)
{
    static const int verbs[] = { HF_LATCH_SET, HF_LATCH_GET, HF_CELL_GET,
                                 HF_EVICT,     HF_REVOKE,    HF_INSPECT };
    peer_open("");
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct hf_request request = fake_request(verbs[i], "holdfast_info:{x}");
        ask(&request);
        ck_assert_int_eq(code_of(&request), HF_EINVAL);
        ck_assert(peer_is_quiet());
    }
    struct hf_ticket ticket = peer_ticket(HF_FAIR);
    struct hf_request request = about(HF_ADOPT, &ticket);
    request.name = "{x}"; /* which a fair lock cannot have, and a latch can */
    request.name_len = 3;
    ask(&request);
    ck_assert_int_eq(code_of(&request), HF_EINVAL);
    request = fake_request(HF_LATCH_GET, "{x}");
    ck_assert_int_eq(said(&request, "latch_get 2 {x} holdfast_info::{x} *", ":0\r\n"),
                     0);
    request = fake_request(HF_INSPECT, "holdfast_info:{x}"); /* as a beginning */
    request.prefix = true;
    ask(&request);
    peer_expect("SCAN 0 *");
    peer_close();
}
END_TEST

START_TEST(a_server_that_goes_away)
{
    peer_open("");
    struct hf_request request = fake_request(HF_REVOKE, "name");
    ask(&request);
    peer_expect("revoke *");
    peer_hang_up();
    ck_assert_int_eq(code_of(&request), HF_EUNCERTAIN);
    ask(&request);
    ck_assert_int_eq(code_of(&request), HF_EUNREACHABLE);
    peer_close();
}
END_TEST

START_TEST(no_memory_for_a_slot)
{
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_MUTEX);
    struct hf_request request = about(HF_ADOPT, &ticket);
    hf__mem_fail(1, 0);
    ask(&request);
    hf__mem_fail(0, 0);
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.code, HF_ENOMEM);
    ck_assert(peer_is_quiet());
    peer_close();
}
END_TEST

UNIT_MAIN("redis_requests", latches_are_set, latches_are_counted, cells_are_read,
          cells_have_a_size, cells_are_set, revocations, downgrades, adoptions,
          adoptions_that_come_to_nothing, what_servers_say, what_servers_say_at_length,
          names_that_are_keys, a_server_that_goes_away, no_memory_for_a_slot)
