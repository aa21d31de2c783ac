/* SPDX-License-Identifier: MIT */
/*
 * The mem store alone: requests. Evict, revoke, adopt, downgrade; latches and cells;
 * reports.
 */
#include "memory_space.h"

#include <unistd.h>

/* ---- Evict, revoke, adopt, downgrade --------------------------------------------- */

START_TEST(eviction_takes_exactly_that_token)
{
    struct hf_ticket held = fake_ticket("n", HF_MUTEX);
    struct hf_ticket waits = fake_ticket("n", HF_MUTEX);
    uint64_t token, next;

    space_open();
    held.reserve = 8;
    token = grant(a, &held);
    fake_interest(a, &held);
    queue(b, &waits);
    ck_assert_int_eq(ask(c, HF_EVICT, "n", token + 1), HF_ENOENT);
    ck_assert_int_eq(ask(c, HF_EVICT, "n", token - 1), HF_ENOENT);
    ck_assert_int_eq(ask(c, HF_EVICT, "free", token), HF_ENOENT);
    ck_assert(fake_quiet(a));
    ck_assert(a->store->pass(a->session, &held, token + 3));
    ck_assert_int_eq(ask(c, HF_EVICT, "n", token), HF_ENOENT);
    ck_assert(fake_quiet(a));
    ck_assert_int_eq(ask(c, HF_EVICT, "n", token + 3), 0);
    fake_expect_event(a, &held, HF_EVENT_LOST);
    next = fake_expect_grant(b, &waits);
    ck_assert_int_eq(fake_renew(a, &held, HF_CHECK), HF_RENEWAL_LOST);
    ck_assert_int_eq(fake_withdraw(a, &held), HF_GONE);
    ck_assert_int_eq(ask(c, HF_EVICT, "n", next), 0);
    ck_assert(fake_quiet(b)); /* not interested yet */
    fake_interest(b, &waits);
    fake_expect_event(b, &waits, HF_EVENT_LOST);
    fake_interest(b, &waits);
    ck_assert(fake_quiet(b));
    space_close();
}
END_TEST

START_TEST(expiry_is_told_to_who_is_interested)
{
    struct hf_ticket held = leased("n", HF_MUTEX, SECOND);
    struct hf_ticket waits = fake_ticket("n", HF_MUTEX);

    space_open();
    grant(a, &held);
    fake_interest(a, &held);
    queue(b, &waits);
    false_clock.now_ns += SECOND;
    fake_expect_grant(b, &waits);
    fake_expect_event(a, &held, HF_EVENT_LOST);
    space_close();
}
END_TEST

START_TEST(revocation_asks_and_takes_nothing)
{
    struct hf_ticket first = fake_ticket("n", HF_READ);
    struct hf_ticket second = fake_ticket("n", HF_READ);
    uint64_t token;

    space_open();
    ck_assert_int_eq(ask(c, HF_REVOKE, "n", 0), HF_ENOENT);
    token = grant(a, &first);
    grant(b, &second);
    fake_interest(a, &first);
    ck_assert_int_eq(ask(c, HF_REVOKE, "n", token), 0);
    fake_expect_event(a, &first, HF_EVENT_REVOKED);
    ck_assert_int_eq(ask(c, HF_REVOKE, "n", 1000000), HF_ENOENT);
    ck_assert_int_eq(ask(c, HF_REVOKE, "n", 0), 0);
    fake_expect_event(a, &first, HF_EVENT_REVOKED);
    ck_assert(fake_quiet(b));
    fake_interest(b, &second);
    fake_expect_event(b, &second, HF_EVENT_REVOKED);
    leave(a, &first);
    leave(b, &second);
    space_close();
}
END_TEST

static int adopt(struct fake_host *host, struct hf_ticket *heir, struct hf_id id,
                 uint64_t token, struct hf_grant *ret_grant)
{
    struct hf_request request = fake_request(HF_ADOPT, heir->name);
    request.other = id;
    request.number = token;
    request.ticket = heir;
    int rc = fake_ask(host, &request, NULL);
    *ret_grant = request.grant;
    return rc;
}

START_TEST(adoption_moves_a_hold)
{
    struct hf_ticket old = leased("n", HF_MUTEX, 5 * SECOND);
    struct hf_ticket heir = leased("n", HF_MUTEX, 20 * SECOND);
    struct hf_ticket late = leased("n", HF_MUTEX, 20 * SECOND);
    struct hf_ticket waits = fake_ticket("n", HF_MUTEX);
    struct hf_grant moved;
    uint64_t token = 1;

    space_open();
    ck_assert_int_eq(adopt(b, &heir, old.id, token, &moved), HF_ENOENT);
    token = grant(a, &old);
    fake_interest(a, &old);
    queue(c, &waits);
    false_clock.now_ns += SECOND;
    ck_assert_int_eq(adopt(b, &heir, old.id, token, &moved), 0);
    ck_assert_uint_eq(moved.token, token);
    ck_assert_int_eq(moved.ttl_ns, 20 * SECOND);
    ck_assert_int_eq(moved.since_ns, false_clock.now_ns);
    ck_assert_int_eq(adopt(b, &heir, old.id, token, &moved), 0);
    ck_assert_uint_eq(moved.token, token);
    ck_assert_int_eq(adopt(c, &late, old.id, token, &moved), HF_ENOENT);
    fake_expect_event(a, &old, HF_EVENT_LOST);
    ck_assert_int_eq(fake_withdraw(a, &old), HF_GONE);
    false_clock.now_ns += 19 * SECOND;
    ck_assert(fake_quiet(c));
    leave(b, &heir);
    fake_expect_grant(c, &waits);
    space_close();
}
END_TEST

START_TEST(a_detached_hold_is_found_by_its_id)
{
    struct hf_ticket old = fake_permits("n", HF_EXPIRING, 1, 2);
    struct hf_ticket heir = fake_permits("n", HF_EXPIRING, 1, 2);
    struct hf_grant moved;
    uint64_t token;

    space_open();
    old.ttl_ns = heir.ttl_ns = 5 * SECOND;
    old.flags = HF_TICKET_DETACHED;
    old.note = "kept";
    token = grant(a, &old);
    fake_forget(a, &old);
    fake_close(a);
    ck_assert_int_eq(adopt(b, &heir, old.id, token, &moved), 0);
    ck_assert_uint_eq(moved.token, token);
    ck_assert_int_eq(ask(b, HF_INSPECT, "n", 0), 0);
    ck_assert_str_eq(b->entries[0].note, "kept");
    leave(b, &heir);
    fake_open(a, &hf__backend_memory, "mem:test", &false_clock);
    space_close();
}
END_TEST

START_TEST(downgrade_lets_readers_in)
{
    struct hf_ticket writer = leased("n", HF_WRITE, 5 * SECOND);
    struct hf_ticket reader = fake_ticket("n", HF_READ);
    struct hf_ticket second = fake_ticket("n", HF_WRITE);

    space_open();
    grant(a, &writer);
    queue(b, &reader);
    queue(c, &second);
    ck_assert_int_eq(downgrade(a, &writer), 0);
    fake_expect_grant(b, &reader);
    ck_assert_int_eq(downgrade(a, &writer), 0);
    leave(b, &reader);
    ck_assert(fake_quiet(c));
    leave(a, &writer);
    fake_expect_grant(c, &second);
    ck_assert_int_eq(downgrade(a, &writer), HF_ELOST);
    leave(c, &second);
    grant(a, &writer);
    false_clock.now_ns += 5 * SECOND;
    ck_assert_int_eq(downgrade(a, &writer), HF_ELOST);
    space_close();
}
END_TEST

/* ---- Latches, cells -------------------------------------------------------------- */

static uint64_t latch(struct fake_host *host, int verb, uint64_t number)
{
    struct hf_request request = fake_request(verb, "l");
    request.number = number;
    ck_assert_int_eq(fake_ask(host, &request, NULL), 0);
    return request.result;
}

START_TEST(a_latch_opens_for_all)
{
    struct hf_ticket open = fake_ticket("l", HF_LATCH);
    struct hf_ticket first = fake_ticket("l", HF_LATCH);
    struct hf_ticket second = fake_ticket("l", HF_LATCH);
    struct hf_ticket tries = fake_ticket("l", HF_LATCH);

    space_open();
    tries.flags = HF_TICKET_TRY;
    ck_assert_uint_eq(latch(a, HF_LATCH_GET, 0), 0);
    grant(a, &open);
    ck_assert_int_eq(fake_withdraw(a, &open), HF_GONE);
    latch(a, HF_LATCH_SET, 3);
    ck_assert_int_eq(ask(b, HF_LATCH_SET, "l", 3), HF_EBUSY);
    queue(b, &first);
    queue(c, &second);
    ck_assert_int_eq(fake_try(c, &tries).what, FAKE_BUSY);
    ck_assert_uint_eq(latch(a, HF_LATCH_DOWN, 2), 1);
    ck_assert_uint_eq(latch(c, HF_LATCH_GET, 0), 1);
    ck_assert(fake_quiet(b));
    leave(c, &second);
    queue(c, &second);
    ck_assert_uint_eq(latch(a, HF_LATCH_DOWN, 5), 0);
    latch(a, HF_LATCH_SET, 1); /* set again: it did open while they waited */
    fake_expect_grant(b, &first);
    fake_expect_grant(c, &second);
    ck_assert_int_eq(fake_withdraw(c, &second), HF_GONE);
    ck_assert_uint_eq(latch(a, HF_LATCH_GET, 0), 1);
    space_close();
}
END_TEST

START_TEST(counting_down_is_done_once)
{
    struct hf_request down = fake_request(HF_LATCH_DOWN, "l");

    space_open();
    down.number = 1;
    latch(a, HF_LATCH_SET, 100);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(fake_ask(b, &down, NULL), 0);
        ck_assert_uint_eq(down.result, 99);
    }
    for (uint64_t left = 98; left > 34; left--)
        ck_assert_uint_eq(latch(a, HF_LATCH_DOWN, 1), left);
    ck_assert_int_eq(fake_ask(b, &down, NULL), 0);
    ck_assert_uint_eq(down.result, 99);
    latch(a, HF_LATCH_DOWN, 100);
    latch(a, HF_LATCH_SET, 7); /* not even of a latch that was set afterwards */
    ck_assert_int_eq(fake_ask(b, &down, NULL), 0);
    ck_assert_uint_eq(latch(a, HF_LATCH_GET, 0), 7);
    space_close();
}
END_TEST

START_TEST(a_cell_changes_by_version)
{
    struct hf_request get = fake_request(HF_CELL_GET, "cell");
    uint64_t version = 0, none = 0, first;

    space_open();
    ck_assert_int_eq(fake_ask(a, &get, NULL), HF_ENOENT);
    ck_assert_int_eq(cell_set(a, &version, "A"), 0);
    first = version;
    ck_assert_int_eq(cell_set(b, &none, "X"), HF_ESTALE);
    ck_assert_int_eq(cell_set(a, &version, "B"), 0);
    ck_assert_int_eq(cell_set(a, &version, "A"), 0);
    ck_assert_int_eq(cell_set(b, &first, "X"), HF_ESTALE); /* ABA */
    ck_assert_int_eq(fake_ask(b, &get, NULL), 0);
    ck_assert_str_eq(b->cell, "A");
    ck_assert_uint_eq(get.result, version);
    ck_assert_int_eq(cell_set(a, &version, ""), 0);
    ck_assert_int_eq(fake_ask(b, &get, NULL), 0);
    ck_assert_uint_eq(b->cell_len, 0);
    first = version;
    ck_assert_int_eq(cell_set(a, &version, NULL), 0);
    ck_assert_int_eq(fake_ask(b, &get, NULL), HF_ENOENT);
    ck_assert_int_eq(cell_set(b, &first, "X"), HF_ESTALE);
    ck_assert_int_eq(cell_set(b, &none, "C"), 0);
    ck_assert_uint_gt(none, first);
    space_close();
}
END_TEST

START_TEST(a_cell_is_set_once_per_request)
{
    struct hf_request set = fake_request(HF_CELL_SET, "cell");
    uint64_t first;

    space_open();
    set.data = "A";
    set.data_len = 1;
    ck_assert_int_eq(fake_ask(a, &set, NULL), 0);
    first = set.result;
    ck_assert_int_eq(fake_ask(a, &set, NULL), 0);
    ck_assert_uint_eq(set.result, first);
    set.id = fake_id();
    ck_assert_int_eq(fake_ask(a, &set, NULL), HF_ESTALE);
    space_close();
}
END_TEST

/* ---- Inspect --------------------------------------------------------------------- */

START_TEST(a_report_shows_who_holds_and_waits)
{
    struct hf_ticket held = leased("jobs/a", HF_WRITE, 7 * SECOND);
    struct hf_ticket first = fake_ticket("jobs/a", HF_READ);
    struct hf_ticket second = fake_ticket("jobs/a", HF_WRITE);
    struct hf_request request = fake_request(HF_INSPECT, "jobs/a");
    struct fake_entry *e;
    char host[256] = "";

    space_open();
    e = c->entries;
    gethostname(host, sizeof(host) - 1);
    held.note = "nightly";
    uint64_t token = grant(a, &held);
    queue(b, &first);
    queue(a, &second);
    false_clock.now_ns += 2 * SECOND;
    ck_assert_int_eq(fake_ask(c, &request, NULL), 0);
    ck_assert_uint_eq(c->entry_count, 3);
    ck_assert_str_eq(e[0].name, "jobs/a");
    ck_assert_str_eq(e[0].host, host);
    ck_assert_str_eq(e[0].program, "fake");
    ck_assert_str_eq(e[0].note, "nightly");
    ck_assert_int_eq(e[0].entry.role, HF_HOLDER);
    ck_assert_int_eq(e[0].entry.kind, HF_WRITE);
    ck_assert_uint_eq(e[0].entry.token, token);
    ck_assert_int_eq(e[0].entry.pid, getpid());
    ck_assert_int_eq(e[0].entry.left_ms, 5000);
    ck_assert_int_ge(e[0].entry.since_ms, 0);
    for (uint32_t i = 1; i < 3; i++) {
        ck_assert_int_eq(e[i].entry.role, HF_WAITER);
        ck_assert_uint_eq(e[i].entry.place, i - 1);
        ck_assert_int_eq(e[i].entry.left_ms, HF_FOREVER);
        ck_assert_uint_eq(e[i].entry.token, 0);
    }
    ck_assert_int_eq(e[1].entry.kind, HF_READ);
    false_clock.now_ns += 5 * SECOND; /* inspecting ends the lease */
    ck_assert_int_eq(fake_ask(c, &request, NULL), 0);
    ck_assert_uint_eq(c->entry_count, 2);
    ck_assert_int_eq(e[0].entry.role, HF_HOLDER);
    ck_assert_int_eq(e[0].entry.kind, HF_READ);
    space_close();
}
END_TEST

START_TEST(a_report_may_cover_many_names)
{
    struct hf_request request = fake_request(HF_INSPECT, "jobs/");
    struct hf_ticket locks[3] = { fake_ticket("jobs/a", HF_MUTEX),
                                  fake_ticket("jobs/b", HF_FAIR),
                                  fake_ticket("other", HF_MUTEX) };
    uint64_t version = 0;

    space_open();
    ck_assert_int_eq(fake_ask(c, &request, NULL), 0);
    ck_assert_uint_eq(c->entry_count, 0);
    for (int i = 0; i < 3; i++)
        grant(a, &locks[i]);
    request.prefix = true;
    ck_assert_int_eq(fake_ask(c, &request, NULL), 0);
    ck_assert_uint_eq(c->entry_count, 2);
    request = fake_request(HF_INSPECT, "");
    request.prefix = true;
    ck_assert_int_eq(fake_ask(c, &request, NULL), 0);
    ck_assert_uint_eq(c->entry_count, 3);

    latch(a, HF_LATCH_SET, 4);
    cell_set(a, &version, "A");
    request = fake_request(HF_INSPECT, "l");
    ck_assert_int_eq(fake_ask(c, &request, NULL), 0);
    ck_assert_int_eq(c->entries[0].entry.role, HF_OBJECT);
    ck_assert_int_eq(c->entries[0].entry.kind, HF_LATCH);
    ck_assert_uint_eq(c->entries[0].entry.permits, 4);
    request = fake_request(HF_INSPECT, "cell");
    ck_assert_int_eq(fake_ask(c, &request, NULL), 0);
    ck_assert_int_eq(c->entries[0].entry.kind, HF_CELL);
    ck_assert_uint_eq(c->entries[0].entry.token, version);
    space_close();
}
END_TEST

UNIT_MAIN("memory_objects", eviction_takes_exactly_that_token,
          expiry_is_told_to_who_is_interested, revocation_asks_and_takes_nothing,
          adoption_moves_a_hold, a_detached_hold_is_found_by_its_id,
          downgrade_lets_readers_in, a_latch_opens_for_all, counting_down_is_done_once,
          a_cell_changes_by_version, a_cell_is_set_once_per_request,
          a_report_shows_who_holds_and_waits, a_report_may_cover_many_names)
