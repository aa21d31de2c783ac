/* SPDX-License-Identifier: MIT */
/* The queue layout of the file store without core: every kind between processes,
 * leases, and what can be done to a hold. test_file_state.c has latches, cells and the
 * state file, test_file_crash.c the deaths. */
#include "file_peer.h"

#define MS INT64_C(1000000)

static struct fake_host a, b;
static struct peer p[4];

static void open_a(void)
{
    scratch_make();
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), 0);
}

static void open_both(struct fake_clock *clock)
{
    scratch_make();
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, clock), 0);
    ck_assert_int_eq(fake_open(&b, &hf__backend_file, url, clock), 0);
}

static void close_a(void)
{
    struct state state = state_map();

    fake_close(&a);
    state_check(&state);
    state_unmap(&state);
    ck_assert_int_eq(scratch_count("w"), 0);
    ck_assert_int_eq(scratch_count("tmp"), 0);
    scratch_remove();
}

static void close_both(void)
{
    fake_close(&b);
    close_a();
}

static struct hf_ticket slow_ticket(const char *name, int kind)
{
    struct hf_ticket ticket = fake_ticket(name, kind);
    ticket.note = "noted";
    return ticket;
}

static struct hf_ticket try_ticket(const char *name, int kind)
{
    struct hf_ticket ticket = fake_ticket(name, kind);
    ticket.flags = HF_TICKET_TRY;
    return ticket;
}

static struct hf_ticket leased_ticket(const char *name, int kind, int64_t ttl_ns)
{
    struct hf_ticket ticket = fake_ticket(name, kind);
    ticket.ttl_ns = ttl_ns;
    return ticket;
}

static uint64_t takes(struct fake_host *host, struct hf_ticket *ticket)
{
    struct fake_answer answer = fake_try(host, ticket);
    ck_assert_msg(answer.what == FAKE_GRANTED, "answer %d: %s", answer.what,
                  answer.why.text);
    return answer.grant.token;
}

static void queues(struct fake_host *host, struct hf_ticket *ticket)
{
    ck_assert_int_eq(fake_try(host, ticket).what, FAKE_QUEUED);
}

static void drops(struct fake_host *host, struct hf_ticket *ticket)
{
    ck_assert_int_eq(fake_withdraw(host, ticket), HF_WITHDRAWN);
}

static int asks(struct fake_host *host, int verb, const char *name, uint64_t number)
{
    struct hf_request request = fake_request(verb, name);
    request.number = number;
    return fake_ask(host, &request, NULL);
}

/* ---- Kinds ----------------------------------------------------------------------- */

/* One process holds, on the fast path or in the table; another waits and is next;
 * tokens grow. */
static void pass_on(struct hf_ticket first, struct hf_ticket second)
{
    uint64_t token = takes(&a, &first);
    struct hf_ticket refused = second;

    refused.id = fake_id();
    refused.flags = HF_TICKET_TRY;
    ck_assert_int_eq(peer_attempt(&p[0], 1, refused).what, FAKE_BUSY);
    peer_queues(&p[0], 0, second);
    drops(&a, &first);
    ck_assert_uint_gt(peer_gets(&p[0], 0), token);
    first.id = fake_id();
    first.flags = HF_TICKET_TRY;
    ck_assert_int_eq(fake_try(&a, &first).what, FAKE_BUSY);
    peer_drops(&p[0], 0);
    ck_assert_uint_gt(takes(&a, &first), token);
    drops(&a, &first);
}

START_TEST(exclusive_kinds_pass_on)
{
    static const int kinds[] = { HF_MUTEX, HF_REENTRANT, HF_FAIR, HF_WRITE };

    open_a();
    ck_assert_int_eq(peer_start(&p[0]), 0);
    for (size_t i = 0; i < 4; i++) {
        pass_on(fake_ticket("x", kinds[i]), fake_ticket("x", kinds[i]));
        pass_on(slow_ticket("x", kinds[i]), fake_ticket("x", kinds[i]));
        pass_on(fake_ticket("x", kinds[i]), slow_ticket("x", kinds[i]));
    }
    pass_on(fake_ticket("x", HF_MUTEX), fake_ticket("x", HF_FAIR));
    pass_on(fake_ticket("x", HF_FAIR), fake_ticket("x", HF_REENTRANT));
    pass_on(fake_permits("s", HF_PERMITS, 2, 2), fake_permits("s", HF_PERMITS, 1, 2));
    pass_on(fake_permits("e", HF_EXPIRING, 1, 1), fake_permits("e", HF_EXPIRING, 1, 1));
    peer_leaves(&p[0]);
    close_a();
}
END_TEST

START_TEST(readers_share_and_no_reader_overtakes_a_writer)
{
    struct hf_ticket reader = fake_ticket("rw", HF_READ);

    open_a();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(peer_start(&p[i]), 0);
    takes(&a, &reader);
    peer_takes(&p[0], 0, fake_ticket("rw", HF_READ));
    peer_queues(&p[1], 0, fake_ticket("rw", HF_WRITE));
    peer_queues(&p[2], 0, fake_ticket("rw", HF_READ));
    peer_queues(&p[2], 1, fake_ticket("rw", HF_READ));
    drops(&a, &reader);
    peer_drops(&p[0], 0);
    peer_gets(&p[1], 0);
    peer_drops(&p[1], 0);
    peer_gets(&p[2], 0);
    peer_gets(&p[2], 1);
    for (int i = 0; i < 3; i++)
        peer_leaves(&p[i]);
    close_a();
}
END_TEST

START_TEST(permits_add_up_and_keep_their_order)
{
    struct hf_ticket two = fake_permits("s", HF_PERMITS, 2, 5);

    open_a();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(peer_start(&p[i]), 0);
    takes(&a, &two);
    peer_takes(&p[0], 0, fake_permits("s", HF_PERMITS, 2, 5));
    peer_queues(&p[1], 0, fake_permits("s", HF_PERMITS, 3, 5));
    peer_queues(&p[2], 0, fake_permits("s", HF_PERMITS, 1, 5));
    drops(&a, &two);
    peer_gets(&p[1], 0);
    peer_drops(&p[0], 0);
    peer_gets(&p[2], 0);
    for (int i = 0; i < 3; i++)
        peer_leaves(&p[i]);
    close_a();
}
END_TEST

START_TEST(fair_is_first_come_first_served)
{
    struct hf_ticket mine = fake_ticket("x", HF_FAIR),
                     again = try_ticket("x", HF_MUTEX);
    uint64_t last;

    open_a();
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(peer_start(&p[i]), 0);
    last = takes(&a, &mine);
    for (int i = 0; i < 4; i++)
        peer_queues(&p[i], 0, fake_ticket("x", HF_FAIR));
    drops(&a, &mine);
    ck_assert_int_eq(fake_try(&a, &again).what, FAKE_BUSY);
    for (int i = 0; i < 4; i++) {
        uint64_t token = peer_gets(&p[i], 0);
        ck_assert_uint_gt(token, last);
        last = token;
        peer_drops(&p[i], 0);
    }
    for (int i = 0; i < 4; i++)
        peer_leaves(&p[i]);
    close_a();
}
END_TEST

static bool passes(void)
{
    struct hf_ticket ticket = try_ticket("x", HF_MUTEX);
    bool granted = fake_try(&a, &ticket).what == FAKE_GRANTED;

    if (granted)
        drops(&a, &ticket);
    return granted;
}

/* A mutex may be taken while the invited waiter is on its way, but not for ever: the
 * peer gets it although this session never stops taking it. */
START_TEST(a_mutex_is_taken_in_passing_for_a_while)
{
    struct hf_ticket mine = fake_ticket("x", HF_MUTEX);
    struct hf_ticket polite = try_ticket("x", HF_MUTEX),
                     fair = try_ticket("x", HF_FAIR);

    open_a();
    ck_assert_int_eq(peer_start(&p[0]), 0);
    takes(&a, &mine);
    peer_queues(&p[0], 0, fake_ticket("x", HF_MUTEX));
    kill(p[0].pid, SIGSTOP);
    peer_stopped(&p[0]);
    drops(&a, &mine);
    for (int i = 0; i < 100; i++)
        ck_assert(passes());
    polite.flags |= HF_TICKET_YIELD;
    ck_assert_int_eq(fake_try(&a, &polite).what, FAKE_BUSY);
    ck_assert_int_eq(fake_try(&a, &fair).what, FAKE_BUSY);
    kill(p[0].pid, SIGCONT);
    while (passes())
        continue;
    peer_gets(&p[0], 0);
    peer_leaves(&p[0]);
    close_a();
}
END_TEST

START_TEST(other_uses_of_a_name_are_refused)
{
    struct hf_ticket mutex = fake_ticket("x", HF_MUTEX);
    struct hf_ticket reader = fake_ticket("x", HF_READ);
    struct hf_ticket five = fake_permits("x", HF_PERMITS, 1, 5);
    struct hf_ticket six = fake_permits("x", HF_PERMITS, 1, 6);
    struct fake_answer answer;

    open_both(NULL);
    takes(&a, &mutex);
    answer = fake_try(&b, &reader);
    ck_assert_int_eq(answer.code, HF_EMISMATCH);
    ck_assert_ptr_nonnull(strstr(answer.why.text, "a mutex"));
    ck_assert_ptr_nonnull(strstr(answer.why.text, "a read/write lock"));
    drops(&a, &mutex);
    takes(&b, &five);
    answer = fake_try(&a, &six);
    ck_assert_int_eq(answer.code, HF_EMISMATCH);
    ck_assert_ptr_nonnull(strstr(answer.why.text, "limit 5, not 6"));
    ck_assert_int_eq(fake_try(&a, &mutex).code, HF_EMISMATCH);
    ck_assert_int_eq(asks(&a, HF_LATCH_SET, "x", 1), HF_EMISMATCH);
    drops(&b, &five);
    takes(&a, &six);
    drops(&a, &six);
    takes(&a, &mutex);
    close_both();
}
END_TEST

/* ---- Tickets --------------------------------------------------------------------- */

START_TEST(calls_may_be_repeated)
{
    struct hf_ticket quick = fake_ticket("x", HF_MUTEX),
                     slow = slow_ticket("y", HF_MUTEX);
    struct hf_ticket waiter = fake_ticket("x", HF_MUTEX);
    uint64_t token;

    open_both(NULL);
    token = takes(&a, &quick);
    ck_assert_uint_eq(takes(&a, &quick), token);
    token = takes(&a, &slow);
    ck_assert_uint_eq(takes(&a, &slow), token);
    queues(&b, &waiter);
    queues(&b, &waiter);
    drops(&a, &quick);
    ck_assert_int_eq(fake_withdraw(&a, &quick), HF_GONE);
    fake_expect_grant(&b, &waiter);
    drops(&b, &waiter);
    ck_assert_int_eq(fake_withdraw(&b, &waiter), HF_GONE);
    drops(&a, &slow);
    ck_assert_int_eq(fake_withdraw(&a, &slow), HF_GONE);
    close_both();
}
END_TEST

START_TEST(a_waiter_that_withdraws_lets_the_next_one_in)
{
    struct hf_ticket first = fake_ticket("x", HF_FAIR),
                     second = fake_ticket("x", HF_FAIR);
    struct hf_ticket third = fake_ticket("x", HF_FAIR);

    open_both(NULL);
    takes(&a, &first);
    queues(&b, &second);
    queues(&b, &third);
    drops(&b, &second);
    drops(&a, &first);
    fake_expect_grant(&b, &third);
    drops(&b, &third);
    ck_assert(fake_quiet(&b));
    close_both();
}
END_TEST

START_TEST(long_names_are_told_apart)
{
    char one[HF_NAME_MAX + 1], two[HF_NAME_MAX + 1];
    struct hf_ticket first, second;

    open_both(NULL);
    for (size_t len = 40; len <= HF_NAME_MAX; len += 24) {
        memset(one, 'n', len);
        one[len] = '\0';
        memcpy(two, one, sizeof(one));
        two[len - 1] = 'm';
        first = fake_ticket(one, HF_MUTEX);
        second = fake_ticket(two, HF_MUTEX);
        second.name_hash = first.name_hash; /* in one bucket, too */
        takes(&a, &first);
        takes(&b, &second);
        second = try_ticket(one, HF_MUTEX);
        ck_assert_int_eq(fake_try(&b, &second).what, FAKE_BUSY);
        drops(&a, &first);
    }
    fake_close(&b);
    close_a();
}
END_TEST

/* ---- Leases ---------------------------------------------------------------------- */

START_TEST(a_lease_ends_and_the_next_one_is_let_in)
{
    struct fake_clock clock = { 1000 * MS };
    struct hf_ticket mine = leased_ticket("x", HF_MUTEX, 100 * MS);
    struct hf_ticket next = leased_ticket("x", HF_MUTEX, 500 * MS);
    struct fake_answer answer;

    open_both(&clock);
    answer = fake_try(&a, &mine);
    ck_assert_int_eq(answer.grant.ttl_ns, 100 * MS);
    ck_assert_int_eq(answer.grant.since_ns, clock.now_ns);
    fake_interest(&a, &mine);
    queues(&b, &next);
    clock.now_ns += 60 * MS;
    ck_assert_int_eq(fake_renew(&a, &mine, HF_CHECK), HF_STILL_HELD);
    ck_assert_int_eq(fake_renew(&a, &mine, HF_RENEW), HF_RENEWED);
    clock.now_ns += 60 * MS;
    ck_assert(fake_quiet(&b));
    ck_assert_int_eq(fake_renew(&a, &mine, HF_CHECK), HF_STILL_HELD);
    clock.now_ns += 40 * MS;
    answer = fake_next(&b);
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    ck_assert_int_eq(answer.grant.since_ns, clock.now_ns);
    fake_expect_event(&a, &mine, HF_EVENT_LOST);
    ck_assert_int_eq(fake_renew(&a, &mine, HF_RENEW), HF_RENEWAL_LOST);
    ck_assert_int_eq(fake_withdraw(&a, &mine), HF_GONE);
    drops(&b, &next);
    close_both();
}
END_TEST

START_TEST(a_detached_hold_outlives_its_session_until_its_lease_ends)
{
    struct fake_clock clock = { 1000 * MS };
    struct hf_ticket mine = leased_ticket("x", HF_MUTEX, 100 * MS);
    struct hf_ticket next = fake_ticket("x", HF_FAIR);
    struct hf_ticket waiting = leased_ticket("x", HF_MUTEX, 100 * MS);

    open_both(&clock);
    mine.flags = waiting.flags = HF_TICKET_DETACHED;
    takes(&a, &mine);
    queues(&b, &next);
    queues(&a, &waiting); /* is not held, and ends with its session */
    fake_close(&a);
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, &clock), 0);
    ck_assert(fake_quiet(&b));
    clock.now_ns += 100 * MS;
    fake_expect_grant(&b, &next);
    drops(&b, &next);
    close_both();
}
END_TEST

/* ---- What can be done to a hold -------------------------------------------------- */

static void evict_one(struct hf_ticket mine)
{
    struct hf_ticket next = fake_ticket("x", HF_MUTEX);
    uint64_t token;

    mine.reserve = 10;
    token = takes(&a, &mine);
    fake_interest(&a, &mine);
    queues(&b, &next);
    ck_assert_int_eq(asks(&b, HF_EVICT, "x", token - 1), HF_ENOENT);
    ck_assert_int_eq(asks(&b, HF_EVICT, "x", token + 1), HF_ENOENT);
    ck_assert_int_eq(asks(&b, HF_EVICT, "y", token), HF_ENOENT);
    ck_assert(fake_quiet(&a));
    ck_assert(a.store->pass(a.session, &mine, token + 4));
    ck_assert_int_eq(fake_renew(&a, &mine, HF_CHECK), HF_STILL_HELD);
    ck_assert_int_eq(asks(&b, HF_EVICT, "x", token), HF_ENOENT);
    ck_assert(fake_quiet(&a));
    ck_assert_int_eq(asks(&b, HF_EVICT, "x", token + 4), 0);
    ck_assert(!a.store->pass(a.session, &mine, token + 5));
    fake_expect_event(&a, &mine, HF_EVENT_LOST);
    ck_assert_uint_gt(fake_expect_grant(&b, &next), token + 9);
    ck_assert_int_eq(fake_renew(&a, &mine, HF_CHECK), HF_RENEWAL_LOST);
    ck_assert_int_eq(fake_withdraw(&a, &mine), HF_GONE);
    drops(&b, &next);
}

START_TEST(a_holder_can_be_evicted)
{
    open_both(NULL);
    evict_one(fake_ticket("x", HF_MUTEX));
    evict_one(slow_ticket("x", HF_MUTEX));
    close_both();
}
END_TEST

/* Reported each time, also if the request came before core was interested. */
static void revoke_one(struct hf_ticket mine)
{
    struct hf_ticket other = fake_ticket("y", HF_MUTEX);
    uint64_t token = takes(&a, &mine);

    ck_assert_int_eq(asks(&b, HF_REVOKE, "x", token + 1), HF_ENOENT);
    ck_assert_int_eq(asks(&b, HF_REVOKE, "x", token), 0);
    fake_interest(&a, &mine);
    fake_expect_event(&a, &mine, HF_EVENT_REVOKED);
    ck_assert_int_eq(asks(&b, HF_REVOKE, "x", 0), 0);
    fake_expect_event(&a, &mine, HF_EVENT_REVOKED);
    takes(&a, &other);
    fake_interest(&a, &other);
    ck_assert_int_eq(asks(&b, HF_REVOKE, "y", 0), 0);
    fake_expect_event(&a, &other, HF_EVENT_REVOKED);
    ck_assert(fake_quiet(&a));
    ck_assert_int_eq(fake_renew(&a, &mine, HF_CHECK), HF_STILL_HELD);
    drops(&a, &mine);
    drops(&a, &other);
    ck_assert_int_eq(asks(&b, HF_REVOKE, "x", 0), HF_ENOENT);
}

START_TEST(a_holder_can_be_asked_to_let_go)
{
    open_both(NULL);
    revoke_one(fake_ticket("x", HF_MUTEX));
    revoke_one(slow_ticket("x", HF_MUTEX));
    close_both();
}
END_TEST

static void downgrade_one(struct hf_ticket writer)
{
    struct hf_ticket reader = fake_ticket("x", HF_READ),
                     other = fake_ticket("x", HF_WRITE);
    struct hf_request request = fake_request(HF_DOWNGRADE, "x");
    uint64_t token = takes(&a, &writer);

    request.ticket = &writer;
    queues(&b, &reader);
    queues(&b, &other);
    ck_assert_int_eq(fake_ask(&a, &request, NULL), 0);
    fake_expect_grant(&b, &reader);
    ck_assert_int_eq(fake_ask(&a, &request, NULL), 0); /* once is enough */
    ck_assert_uint_eq(takes(&a, &writer), token);
    drops(&b, &reader);
    ck_assert(fake_quiet(&b));
    drops(&a, &writer);
    fake_expect_grant(&b, &other);
    drops(&b, &other);
    ck_assert_int_eq(fake_ask(&a, &request, NULL), HF_ELOST);
}

START_TEST(a_writer_becomes_a_reader)
{
    open_both(NULL);
    downgrade_one(fake_ticket("x", HF_WRITE));
    downgrade_one(slow_ticket("x", HF_WRITE));
    close_both();
}
END_TEST

static void adopt_one(struct hf_ticket old)
{
    struct hf_ticket mine = fake_ticket("x", HF_MUTEX),
                     next = fake_ticket("x", HF_MUTEX);
    struct hf_request request = fake_request(HF_ADOPT, "x");
    uint64_t token = takes(&a, &old);

    request.ticket = &mine;
    request.other = fake_id();
    request.number = token;
    ck_assert_int_eq(fake_ask(&b, &request, NULL), HF_ENOENT);
    request.other = old.id;
    fake_interest(&a, &old);
    queues(&a, &next);
    ck_assert_int_eq(fake_ask(&b, &request, NULL), 0);
    ck_assert_uint_eq(request.grant.token, token);
    fake_expect_event(&a, &old, HF_EVENT_LOST);
    ck_assert_int_eq(fake_ask(&b, &request, NULL), 0); /* repeated */
    ck_assert_uint_eq(request.grant.token, token);
    ck_assert_int_eq(fake_withdraw(&a, &old), HF_GONE);
    ck_assert(fake_quiet(&a));
    ck_assert_int_eq(fake_renew(&b, &mine, HF_CHECK), HF_STILL_HELD);
    drops(&b, &mine);
    fake_expect_grant(&a, &next);
    drops(&a, &next);
}

START_TEST(a_hold_can_be_adopted)
{
    open_both(NULL);
    adopt_one(fake_ticket("x", HF_MUTEX));
    adopt_one(slow_ticket("x", HF_MUTEX));
    close_both();
}
END_TEST

/* b has drawn numbers that are newer than one reader's token and older than the
 * other's. They are not valid for a name where the newer one was granted, whichever
 * client holds the older one now. */
START_TEST(tokens_grow_though_holds_change_hands)
{
    struct hf_ticket older = fake_ticket("x", HF_READ),
                     newer = fake_ticket("x", HF_READ);
    struct hf_ticket mine = fake_ticket("x", HF_READ), other, writer;
    struct hf_request adopt = fake_request(HF_ADOPT, "x");
    uint64_t token;

    open_both(NULL);
    adopt.number = takes(&a, &older);
    for (int i = 0; i < 10; i++) {
        other = fake_ticket("y", HF_MUTEX);
        takes(&b, &other);
        drops(&b, &other);
    }
    token = takes(&a, &newer);
    adopt.ticket = &mine;
    adopt.other = older.id;
    ck_assert_int_eq(fake_ask(&b, &adopt, NULL), 0);
    drops(&b, &mine);
    drops(&a, &newer);
    writer = fake_ticket("x", HF_WRITE);
    ck_assert_uint_gt(takes(&b, &writer), token);
    drops(&b, &writer);
    close_both();
}
END_TEST

UNIT_MAIN("file", tokens_grow_though_holds_change_hands, exclusive_kinds_pass_on,
          readers_share_and_no_reader_overtakes_a_writer,
          permits_add_up_and_keep_their_order, fair_is_first_come_first_served,
          a_mutex_is_taken_in_passing_for_a_while, other_uses_of_a_name_are_refused,
          calls_may_be_repeated, a_waiter_that_withdraws_lets_the_next_one_in,
          long_names_are_told_apart, a_lease_ends_and_the_next_one_is_let_in,
          a_detached_hold_outlives_its_session_until_its_lease_ends,
          a_holder_can_be_evicted, a_holder_can_be_asked_to_let_go,
          a_writer_becomes_a_reader, a_hold_can_be_adopted)
