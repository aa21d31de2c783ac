/* SPDX-License-Identifier: MIT */
/*
 * The mem store alone, behind a fake host: sessions, every kind of lock, leases. Leases
 * are tested on a clock that the test moves. Tests wait for an answer, never for time
 * to pass.
 */
#include "memory_space.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- Sessions -------------------------------------------------------------------- */

START_TEST(urls_name_a_space)
{
    struct fake_host *x = calloc(1, sizeof(*x)), *y = calloc(1, sizeof(*y));
    struct hf_ticket first = fake_ticket("n", HF_MUTEX);
    struct hf_ticket second = fake_ticket("n", HF_MUTEX);
    size_t before = hf__mem_live();
    uint64_t token;
    hf_error why;

    ck_assert_int_eq(fake_open_why(x, &hf__backend_memory, "mem://host/x", NULL, &why),
                     HF_EURL);
    ck_assert_int_eq(fake_open(x, &hf__backend_memory, "mem:", NULL), 0);
    ck_assert_int_eq(fake_open(y, &hf__backend_memory, "mem:other", NULL), 0);
    ck_assert(!(x->capabilities & (HF_CAP_PROCESSES | HF_CAP_CRASH | HF_CAP_DURABLE)));
    ck_assert_uint_eq(x->capabilities | HF_CAP_PROCESSES | HF_CAP_CRASH |
                          HF_CAP_DURABLE,
                      2 * HF_CAP_DIAGNOSE - 1);
    token = grant(x, &first);
    ck_assert_uint_gt(grant(y, &second), 0);
    fake_close(x);
    fake_close(y);
    ck_assert_uint_eq(hf__mem_live(), before);

    /* The space ended with its locks, and its tokens do not come back. */
    ck_assert_int_eq(fake_open(x, &hf__backend_memory, "mem:", NULL), 0);
    second = fake_ticket("n", HF_MUTEX);
    ck_assert_uint_gt(grant(x, &second), token);
    fake_close(x);
    free(x);
    free(y);
}
END_TEST

START_TEST(close_lets_the_next_in)
{
    struct hf_ticket held = fake_ticket("n", HF_MUTEX);
    struct hf_ticket waits = fake_ticket("n", HF_MUTEX);
    struct hf_ticket last = fake_ticket("n", HF_MUTEX);

    space_open();
    grant(a, &held);
    queue(b, &waits);
    queue(c, &last);
    fake_close(a);
    fake_expect_grant(b, &waits);
    ck_assert(fake_quiet(c));
    fake_close(b);
    fake_expect_grant(c, &last);
    fake_open(a, &hf__backend_memory, "mem:test", &false_clock);
    fake_open(b, &hf__backend_memory, "mem:test", &false_clock);
    space_close();
}
END_TEST

START_TEST(detached_holds_stay_for_their_lease)
{
    struct hf_ticket stays = leased("n", HF_MUTEX, 30 * SECOND);
    struct hf_ticket goes = leased("m", HF_MUTEX, 30 * SECOND);
    struct hf_ticket waits = leased("n", HF_MUTEX, 0);
    struct hf_ticket other = fake_ticket("m", HF_MUTEX);

    space_open();
    stays.flags = waits.flags = HF_TICKET_DETACHED;
    grant(a, &stays);
    grant(a, &goes);
    fake_close(a);
    queue(b, &waits);
    grant(b, &other);
    false_clock.now_ns += 30 * SECOND - 1;
    ck_assert(fake_quiet(b));
    false_clock.now_ns += 1;
    fake_expect_grant(b, &waits);
    fake_open(a, &hf__backend_memory, "mem:test", &false_clock);
    space_close();
}
END_TEST

START_TEST(a_forked_child_touches_nothing_of_its_parent)
{
    struct hf_ticket held = leased("n", HF_MUTEX, SECOND);
    struct hf_ticket waits = fake_ticket("n", HF_MUTEX);
    int status = -1;
    pid_t child;

    space_open();
    grant(a, &held);
    queue(b, &waits);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct fake_host *own = calloc(1, sizeof(*own));
        struct hf_ticket same = fake_ticket("n", HF_MUTEX);
        fake_open(own, &hf__backend_memory, "mem:test", NULL);
        bool in = fake_try(own, &same).what == FAKE_GRANTED;
        for (int i = 0; i < HOSTS; i++)
            fake_close_forked(&hosts[i]);
        fake_close(own);
        bool clean = hf__mem_live() == live_before;
        free(own);
        _exit(clean && in ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert(fake_quiet(b));
    ck_assert_uint_eq(b->wakes, 0); /* both processes share the eventfd */
    leave(a, &held);
    fake_expect_grant(b, &waits);
    space_close();
}
END_TEST

/* ---- Tickets --------------------------------------------------------------------- */

START_TEST(mutex_goes_from_one_to_the_next)
{
    struct hf_ticket held = fake_ticket("n", HF_MUTEX);
    struct hf_ticket second = fake_ticket("n", HF_MUTEX);
    struct hf_ticket third = fake_ticket("n", HF_MUTEX);
    struct hf_ticket tries = fake_ticket("n", HF_MUTEX);
    uint64_t token, next;

    space_open();
    tries.flags = HF_TICKET_TRY;
    token = grant(a, &held);
    ck_assert_uint_gt(token, 0);
    queue(b, &second);
    queue(a, &third);
    ck_assert_int_eq(fake_try(c, &tries).what, FAKE_BUSY);
    leave(a, &held);
    ck_assert(fake_quiet(a));
    next = fake_expect_grant(b, &second);
    ck_assert_uint_gt(next, token);
    leave(b, &second);
    ck_assert_uint_gt(fake_expect_grant(a, &third), next);
    leave(a, &third);
    ck_assert_int_eq(fake_try(c, &tries).what, FAKE_GRANTED);
    space_close();
}
END_TEST

START_TEST(own_tickets_are_told_in_the_call)
{
    struct hf_ticket held = fake_ticket("n", HF_MUTEX);
    struct hf_ticket waits = fake_ticket("n", HF_MUTEX);

    space_open();
    grant(a, &held);
    queue(a, &waits);
    leave(a, &held);
    ck_assert_uint_eq(a->count, 1);
    fake_expect_grant(a, &waits);
    ck_assert(fake_quiet(a));
    ck_assert_uint_eq(a->wakes, 0);
    space_close();
}
END_TEST

START_TEST(requests_may_be_repeated)
{
    struct hf_ticket held = fake_ticket("n", HF_FAIR);
    struct hf_ticket waits = fake_ticket("n", HF_FAIR);
    struct hf_ticket never = fake_ticket("n", HF_FAIR);
    uint64_t token;

    space_open();
    token = grant(a, &held);
    ck_assert_uint_eq(grant(a, &held), token);
    queue(b, &waits);
    queue(b, &waits);
    ck_assert_int_eq(fake_withdraw(c, &never), HF_GONE);
    leave(b, &waits);
    ck_assert_int_eq(fake_withdraw(b, &waits), HF_GONE);
    queue(b, &waits);
    leave(a, &held);
    ck_assert_int_eq(fake_withdraw(a, &held), HF_GONE);
    /* The repeat finds the grant before the loop does: it is reported once. */
    ck_assert_uint_gt(grant(b, &waits), token);
    ck_assert(fake_quiet(b));
    space_close();
}
END_TEST

static const struct {
    int held, asked;
    bool in;
} meetings[] = {
    { HF_MUTEX, HF_MUTEX, false },    { HF_MUTEX, HF_FAIR, false },
    { HF_FAIR, HF_REENTRANT, false }, { HF_REENTRANT, HF_REENTRANT, false },
    { HF_READ, HF_READ, true },       { HF_READ, HF_WRITE, false },
    { HF_WRITE, HF_READ, false },     { HF_WRITE, HF_WRITE, false },
};

START_TEST(kinds_meet_as_they_should)
{
    space_open();
    for (size_t i = 0; i < sizeof meetings / sizeof meetings[0]; i++) {
        struct hf_ticket held = fake_ticket("n", meetings[i].held);
        struct hf_ticket asked = fake_ticket("n", meetings[i].asked);
        grant(a, &held);
        ck_assert_int_eq(fake_try(b, &asked).what,
                         meetings[i].in ? FAKE_GRANTED : FAKE_QUEUED);
        leave(a, &held);
        if (!meetings[i].in)
            fake_expect_grant(b, &asked);
        leave(b, &asked);
    }
    space_close();
}
END_TEST

START_TEST(no_waiter_is_overtaken)
{
    struct hf_ticket reader = fake_ticket("rw", HF_READ);
    struct hf_ticket writer = fake_ticket("rw", HF_WRITE);
    struct hf_ticket late[2] = { fake_ticket("rw", HF_READ),
                                 fake_ticket("rw", HF_READ) };
    struct hf_ticket tries = fake_ticket("rw", HF_READ);
    struct hf_ticket two = fake_permits("p", HF_PERMITS, 2, 3);
    struct hf_ticket three = fake_permits("p", HF_PERMITS, 3, 3);
    struct hf_ticket one = fake_permits("p", HF_PERMITS, 1, 3);

    space_open();
    grant(a, &reader);
    queue(b, &writer);
    queue(c, &late[0]);
    queue(c, &late[1]);
    tries.flags = HF_TICKET_TRY;
    ck_assert_int_eq(fake_try(a, &tries).what, FAKE_BUSY);
    leave(
        b,
        &writer); /* the waiters behind the writer are admitted at once, all of them */
    fake_expect_grant(c, &late[0]);
    fake_expect_grant(c, &late[1]);

    grant(a, &two);
    queue(b, &three);
    queue(c, &one);
    leave(a, &two);
    fake_expect_grant(b, &three);
    ck_assert(fake_quiet(c));
    leave(b, &three);
    fake_expect_grant(c, &one);
    space_close();
}
END_TEST

START_TEST(permits_add_up)
{
    struct hf_ticket two = fake_permits("p", HF_PERMITS, 2, 3);
    struct hf_ticket one = fake_permits("p", HF_PERMITS, 1, 3);
    struct hf_ticket more = fake_permits("p", HF_PERMITS, 1, 3);
    struct hf_ticket first = fake_permits("e", HF_EXPIRING, 1, 2);
    struct hf_ticket second = fake_permits("e", HF_EXPIRING, 1, 2);
    struct hf_ticket third = fake_permits("e", HF_EXPIRING, 1, 2);

    space_open();
    grant(a, &two);
    grant(b, &one);
    queue(c, &more);
    leave(a, &two);
    fake_expect_grant(c, &more);

    first.ttl_ns = 5 * SECOND;
    second.ttl_ns = third.ttl_ns = 9 * SECOND;
    grant(a, &first);
    grant(a, &second);
    queue(b, &third);
    false_clock.now_ns += 5 * SECOND;
    fake_expect_grant(b, &third);
    ck_assert_int_eq(fake_renew(a, &first, HF_RENEW), HF_RENEWAL_LOST);
    ck_assert_int_eq(fake_renew(a, &second, HF_CHECK), HF_STILL_HELD);
    space_close();
}
END_TEST

START_TEST(a_name_is_used_as_one_thing)
{
    struct hf_ticket mutex = fake_ticket("n", HF_MUTEX);
    struct hf_ticket reader = fake_ticket("n", HF_READ);
    struct hf_ticket of3 = fake_permits("p", HF_PERMITS, 1, 3);
    struct hf_ticket of4 = fake_permits("p", HF_PERMITS, 1, 4);
    struct hf_ticket on_latch = fake_ticket("l", HF_MUTEX);
    struct fake_answer answer;

    space_open();
    grant(a, &mutex);
    answer = fake_try(b, &reader);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, HF_EMISMATCH);
    ck_assert_ptr_nonnull(strstr(answer.why.text, "mutex"));
    ck_assert_ptr_nonnull(strstr(answer.why.text, "read lock"));
    ck_assert_int_eq(ask(b, HF_LATCH_SET, "n", 2), HF_EMISMATCH);
    ck_assert_int_eq(ask(b, HF_LATCH_DOWN, "n", 1), HF_EMISMATCH);
    ck_assert_int_eq(ask(b, HF_CELL_GET, "n", 0), HF_EMISMATCH);
    leave(a, &mutex);
    grant(b, &reader);

    grant(a, &of3);
    answer = fake_try(b, &of4);
    ck_assert_int_eq(answer.code, HF_EMISMATCH);
    ck_assert_ptr_nonnull(strstr(answer.why.text, "limit of 3, not 4"));

    ck_assert_int_eq(ask(a, HF_LATCH_SET, "l", 1), 0);
    ck_assert_int_eq(fake_try(b, &on_latch).code, HF_EMISMATCH);
    ck_assert_int_eq(ask(a, HF_LATCH_DOWN, "l", 1), 0);
    grant(b, &on_latch);
    space_close();
}
END_TEST

START_TEST(a_grant_reserves_numbers)
{
    struct hf_ticket first = fake_ticket("n", HF_MUTEX);
    struct hf_ticket second = fake_ticket("n", HF_MUTEX);
    struct fake_answer answer;

    space_open();
    first.reserve = 64;
    answer = fake_try(a, &first);
    ck_assert_uint_eq(answer.grant.span, 64);
    ck_assert_int_eq(answer.grant.ttl_ns, 0);
    queue(b, &second);
    leave(a, &first);
    ck_assert_uint_ge(fake_expect_grant(b, &second), answer.grant.token + 64);
    space_close();
}
END_TEST

START_TEST(forgotten_tickets_hear_nothing)
{
    struct hf_ticket held = leased("n", HF_MUTEX, SECOND);
    struct hf_ticket waits = fake_ticket("n", HF_MUTEX);
    struct hf_request any = fake_request(HF_LATCH_GET, "n");

    space_open();
    uint64_t token = grant(a, &held);
    fake_interest(a, &held);
    fake_forget(a, &any);
    fake_forget(a, &held);
    memset(&held, 0xee, sizeof(held));
    queue(b, &waits);
    ck_assert_int_eq(ask(c, HF_REVOKE, "n", token), 0);
    ck_assert(fake_quiet(a));
    false_clock.now_ns += SECOND;
    fake_expect_grant(b, &waits);
    ck_assert(fake_quiet(a));
    space_close();
}
END_TEST

/* ---- Leases ---------------------------------------------------------------------- */

START_TEST(a_lease_ends_when_it_is_checked)
{
    struct hf_ticket held = leased("n", HF_MUTEX, 10 * SECOND);
    struct hf_ticket waits = leased("n", HF_MUTEX, 3 * SECOND);
    struct hf_ticket tries = fake_ticket("n", HF_MUTEX);
    struct fake_answer answer;

    space_open();
    answer = fake_try(a, &held);
    ck_assert_int_eq(answer.grant.ttl_ns, 10 * SECOND);
    ck_assert_int_eq(answer.grant.since_ns, false_clock.now_ns);
    queue(b, &waits);
    false_clock.now_ns += 10 * SECOND;
    answer = fake_next(b);
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    ck_assert_int_eq(answer.grant.since_ns, false_clock.now_ns);
    ck_assert_int_eq(fake_renew(a, &held, HF_RENEW), HF_RENEWAL_LOST);
    ck_assert_int_eq(fake_withdraw(a, &held), HF_GONE);

    false_clock.now_ns += 3 * SECOND;
    ck_assert_int_eq(fake_withdraw(b, &waits), HF_GONE);
    grant(b, &tries);
    leave(b, &tries);
    grant(a, &held);
    false_clock.now_ns += 10 * SECOND;
    tries.flags = HF_TICKET_TRY;
    grant(b, &tries);
    space_close();
}
END_TEST

START_TEST(renewal_keeps_a_lease)
{
    struct hf_ticket held = leased("n", HF_MUTEX, 10 * SECOND);
    struct hf_ticket waits = fake_ticket("n", HF_MUTEX);
    struct hf_ticket plain = fake_ticket("m", HF_MUTEX);

    space_open();
    grant(a, &held);
    queue(b, &waits);
    for (int i = 0; i < 3; i++) {
        false_clock.now_ns += 9 * SECOND;
        ck_assert_int_eq(fake_renew(a, &held, HF_CHECK), HF_STILL_HELD);
        ck_assert_int_eq(fake_renew(a, &held, HF_RENEW), HF_RENEWED);
        ck_assert(fake_quiet(b));
    }
    held.ttl_ns = SECOND / 2; /* shorter: the waiters must hear of it */
    ck_assert_int_eq(fake_renew(a, &held, HF_RENEW), HF_RENEWED);
    ck_assert(fake_quiet(b));
    false_clock.now_ns += SECOND / 2;
    fake_expect_grant(b, &waits);
    grant(c, &plain);
    ck_assert_int_eq(fake_renew(c, &plain, HF_RENEW), HF_STILL_HELD);
    ck_assert_int_eq(fake_renew(c, &waits, HF_CHECK), HF_STILL_HELD);
    space_close();
}
END_TEST

START_TEST(the_alarm_follows_the_queue)
{
    struct hf_ticket held = fake_ticket("n", HF_MUTEX);
    struct hf_ticket second = leased("n", HF_MUTEX, 5 * SECOND);
    struct hf_ticket third = fake_ticket("n", HF_MUTEX);
    struct hf_ticket fourth = leased("n", HF_MUTEX, 5 * SECOND);
    struct hf_ticket fifth = fake_ticket("n", HF_MUTEX);

    space_open();
    grant(a, &held);
    queue(b, &second);
    queue(c, &third);
    leave(a, &held); /* c now waits for a lease that began after it came */
    fake_expect_grant(b, &second);
    ck_assert(fake_quiet(c));
    queue(a, &fourth);
    leave(c, &third); /* and now a is the first waiter */
    ck_assert(fake_quiet(a));
    queue(c, &fifth);
    false_clock.now_ns += 5 * SECOND;
    fake_expect_grant(a, &fourth);
    ck_assert(fake_quiet(c));
    false_clock.now_ns += 5 * SECOND;
    fake_expect_grant(c, &fifth);
    space_close();
}
END_TEST

START_TEST(one_timer_serves_all_that_wait)
{
    struct hf_ticket held[3], waits[3];
    static const char *const names[] = { "x", "y", "z" };

    space_open();
    for (int i = 0; i < 3; i++) {
        held[i] = leased(names[i], HF_MUTEX, (3 - i) * SECOND);
        waits[i] = fake_ticket(names[i], HF_MUTEX);
        grant(a, &held[i]);
        queue(b, &waits[i]);
    }
    for (int i = 2; i >= 0; i--) {
        ck_assert(fake_quiet(b));
        false_clock.now_ns += SECOND;
        fake_expect_grant(b, &waits[i]);
    }
    space_close();
}
END_TEST

UNIT_MAIN("memory", urls_name_a_space, close_lets_the_next_in,
          detached_holds_stay_for_their_lease,
          a_forked_child_touches_nothing_of_its_parent, mutex_goes_from_one_to_the_next,
          own_tickets_are_told_in_the_call, requests_may_be_repeated,
          kinds_meet_as_they_should, no_waiter_is_overtaken, permits_add_up,
          a_name_is_used_as_one_thing, a_grant_reserves_numbers,
          forgotten_tickets_hear_nothing, a_lease_ends_when_it_is_checked,
          renewal_keeps_a_lease, the_alarm_follows_the_queue,
          one_timer_serves_all_that_wait)
