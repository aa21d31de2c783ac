/* SPDX-License-Identifier: MIT */
/*
 * Latches, cells and permits of the zookeeper store on a real server whose replies get
 * cut: a request is carried out once, the answer is the right one, and nothing stays.
 *
 * One client uses a proxy, the other one connects directly and checks. A request
 * without a reply is asked again with the same id, as core does.
 */
#include "unit.h"

#include "../harness/tcp_proxy.h"
#include "../harness/zookeeper_raw.h"
#include "../harness/zookeeper_server.h"
#include "fake_host.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

extern const struct hf_backend hf__backend_zookeeper;

#define CUT_STEP 29  /* of all bytes: the faults of the whole store cut at each */
#define CUT_MOST 260 /* longer than all replies to one request together */

static struct zookeeper zoo;
static struct tcp_proxy *proxy;
static struct fake_host cut, direct;

static void open_at(struct fake_host *fake, int port)
{
    char url[128];
    hf_error why = { 0 };
    snprintf(url, sizeof url,
             "zookeeper://127.0.0.1:%d/t?session=20000ms&timeout=1000ms", port);
    int rc = fake_open_why(fake, &hf__backend_zookeeper, url, NULL, &why);
    ck_assert_msg(rc == 0, "%d: %s", rc, why.text);
}

static void begin(void)
{
    char server[32];
    zookeeper_start(&zoo, 1, NULL);
    snprintf(server, sizeof server, ":%d", zoo.node[0].port);
    proxy = proxy_start(server);
    open_at(&cut, proxy_port(proxy));
    open_at(&direct, zoo.node[0].port);
}

static bool is_ours(void *arg, const char *path)
{
    bool *found = arg;
    *found = strchr(path, '%') || strstr(path, "-lock-") || strstr(path, "-lease-");
    return !*found;
}

/* Nothing but empty folders. */
static void end(void)
{
    bool found = false;
    fake_close(&cut);
    fake_close(&direct);
    struct zkraw *raw = zkraw_open(zoo.node[0].port, 5000);
    zkraw_walk(raw, "/t", is_ours, &found);
    zkraw_close(raw);
    ck_assert(!found);
    proxy_stop(proxy);
    zookeeper_stop(&zoo);
}

/* One that is not connected is asked again in a moment. */
static int ask_until_known(struct fake_host *fake, struct hf_request *request)
{
    int rc = fake_ask(fake, request, NULL);
    while (rc == HF_EUNCERTAIN || rc == HF_EUNREACHABLE) {
        fake_turn(fake, 10);
        rc = fake_ask(fake, request, NULL);
    }
    return rc;
}

static uint64_t cell_version(struct fake_host *fake)
{
    struct hf_request request = fake_request(HF_CELL_GET, "cell");
    return ask_until_known(fake, &request) == 0 ? request.result : 0;
}

static struct hf_request cell_write(uint64_t version, const char *value)
{
    struct hf_request request = fake_request(HF_CELL_SET, "cell");
    request.number = version;
    request.data = value;
    request.data_len = value ? strlen(value) : 0;
    return request;
}

/* ---- Replies that are cut -------------------------------------------------------- */

START_TEST(cell_is_written_once)
{
    uint64_t version = 0;
    begin();
    for (int64_t bytes = 0; bytes < CUT_MOST; bytes += CUT_STEP) {
        struct hf_request write = cell_write(version, "value");
        proxy_mode(proxy, PROXY_CUT, bytes);
        ck_assert_int_eq(ask_until_known(&cut, &write), 0);
        ck_assert_uint_gt(write.result, version);
        version = write.result;
        ck_assert_uint_eq(cell_version(&direct), version);
        /* The same one, asked once more. */
        ck_assert_int_eq(ask_until_known(&cut, &write), 0);
        ck_assert_uint_eq(write.result, version);
    }
    struct hf_request removal = cell_write(version, NULL);
    ck_assert_int_eq(ask_until_known(&cut, &removal), 0);
    end();
}
END_TEST

START_TEST(cell_is_removed_once)
{
    begin();
    for (int64_t bytes = 0; bytes < CUT_MOST; bytes += CUT_STEP) {
        struct hf_request write = cell_write(0, "value");
        ck_assert_int_eq(ask_until_known(&direct, &write), 0);
        struct hf_request removal = cell_write(write.result, NULL);
        proxy_mode(proxy, PROXY_CUT, bytes);
        ck_assert_int_eq(ask_until_known(&cut, &removal), 0);
        ck_assert_uint_eq(cell_version(&direct), 0);
    }
    end();
}
END_TEST

START_TEST(latch_is_counted_once)
{
    begin();
    struct hf_request set = fake_request(HF_LATCH_SET, "latch");
    set.number = 1 + CUT_MOST / CUT_STEP;
    proxy_mode(proxy, PROXY_CUT, 30);
    ck_assert_int_eq(ask_until_known(&cut, &set), 0);
    for (uint64_t left = set.number; left-- > 0;) {
        struct hf_request down = fake_request(HF_LATCH_DOWN, "latch");
        struct hf_request get = fake_request(HF_LATCH_GET, "latch");
        down.number = 1;
        proxy_mode(proxy, PROXY_CUT, (int64_t)left * CUT_STEP);
        ck_assert_int_eq(ask_until_known(&cut, &down), 0);
        ck_assert_uint_eq(down.result, left);
        ck_assert_int_eq(ask_until_known(&direct, &get), 0);
        ck_assert_uint_eq(get.result, left);
    }
    end();
}
END_TEST

/* Attempts until it is in; a queue that is left open by an error is asked again. */
static uint64_t take(struct fake_host *fake, struct hf_ticket *ticket)
{
    fake_attempt(fake, ticket);
    for (;;) {
        struct fake_answer answer = fake_next(fake);
        if (answer.what == FAKE_GRANTED)
            return answer.grant.token;
        ck_assert_int_eq(answer.what, FAKE_FAILED);
        ck_assert(answer.code == HF_EUNCERTAIN || answer.code == HF_EUNREACHABLE);
        fake_turn(fake, 10);
        fake_attempt(fake, ticket);
    }
}

static enum hf_withdrawal give(struct fake_host *fake, struct hf_ticket *ticket)
{
    enum hf_withdrawal answer = fake_withdraw(fake, ticket);
    while (answer == HF_WITHDRAWAL_UNKNOWN) {
        fake_turn(fake, 10);
        answer = fake_withdraw(fake, ticket);
    }
    return answer;
}

static size_t holders(void)
{
    size_t count = 0;
    struct hf_request look = fake_request(HF_INSPECT, "sem");
    ck_assert_int_eq(fake_ask(&direct, &look, NULL), 0);
    for (size_t i = 0; i < direct.entry_count; i++) {
        ck_assert_int_eq(direct.entries[i].entry.role, HF_HOLDER);
        ck_assert_uint_eq(direct.entries[i].entry.permits, 3);
        count++;
    }
    return count;
}

START_TEST(permits_are_taken_and_given_once)
{
    begin();
    uint64_t last = 0;
    for (int64_t bytes = 0; bytes < 900; bytes += 6 * CUT_STEP) {
        struct hf_ticket ticket = fake_permits("sem", HF_PERMITS, 3, 5);
        proxy_mode(proxy, PROXY_CUT, bytes);
        uint64_t token = take(&cut, &ticket);
        ck_assert_uint_gt(token, last);
        last = token;
        ck_assert_uint_eq(holders(), 1);
        ck_assert_uint_eq(direct.entries[0].entry.token, token);
        proxy_mode(proxy, PROXY_CUT, bytes / 8);
        ck_assert_int_eq(give(&cut, &ticket), HF_WITHDRAWN);
        ck_assert_uint_eq(holders(), 0);
    }
    end();
}
END_TEST

/* ---- The session ends before the answer ------------------------------------------ */

static bool take_owner(void *arg, const char *path)
{
    char *marker = arg;
    if (strstr(path, "hf%done-"))
        snprintf(marker, ZKRAW_PATH_MAX, "%s", path);
    return !marker[0];
}

/* Written, but the reply and the session are lost: the outcome cannot be known. */
START_TEST(what_cannot_be_known_is_said)
{
    static char marker[ZKRAW_PATH_MAX];
    struct zkraw_stat stat = { 0 };
    begin();
    struct hf_request write = cell_write(0, "value");
    struct zkraw *raw = zkraw_open(zoo.node[0].port, 60000);
    ck_assert_int_eq(ask_until_known(&direct, &write), 0);
    /* Behind what a look says, in the answer to the change. */
    for (int64_t bytes = CUT_MOST / 2; !marker[0] && bytes < CUT_MOST; bytes += 5) {
        write = cell_write(cell_version(&direct), "value");
        proxy_mode(proxy, PROXY_CUT, bytes);
        int said = fake_ask(&cut, &write, NULL);
        ck_assert(said == HF_EUNCERTAIN || said == HF_EUNREACHABLE || said == 0);
        if (said == HF_EUNCERTAIN)
            zkraw_walk(raw, "/t", take_owner, marker);
        if (!marker[0])
            ck_assert_int_eq(ask_until_known(&cut, &write), 0);
    }
    ck_assert_str_ne(marker, "");
    ck_assert_int_eq(zkraw_exists(raw, marker, &stat), 0);
    zkraw_expire(zoo.node[0].port, stat.owner);
    int rc = HF_EUNREACHABLE;
    for (int i = 0; i < 1000 && rc == HF_EUNREACHABLE; i++) {
        fake_turn(&cut, 10);
        rc = fake_ask(&cut, &write, NULL);
    }
    ck_assert_int_eq(rc, HF_EUNCERTAIN);
    struct hf_request removal = cell_write(cell_version(&direct), NULL);
    ck_assert_int_eq(ask_until_known(&direct, &removal), 0);
    zkraw_close(raw);
    end();
}
END_TEST

UNIT_MAIN("zk_objects", cell_is_written_once, cell_is_removed_once,
          latch_is_counted_once, permits_are_taken_and_given_once,
          what_cannot_be_known_is_said)
