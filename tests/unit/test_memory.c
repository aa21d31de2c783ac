/* SPDX-License-Identifier: MIT */
/*
 * The mem store alone, behind a fake host: every call of the seam and every kind of
 * lock, through sessions a, b and c of one space.
 *
 * Leases are tested on a clock that the test moves. A wait is always for an answer,
 * never for time. The last tests compare the store with a model of queues over many
 * random steps, and let two threads fight for one lock.
 */
#include "unit.h"

#include "fake_host.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "../../src/kit/admit.h"

#define SECOND HF_NS_PER_S
#define HOSTS 3

extern const struct hf_backend hf__backend_memory;

static struct fake_clock false_clock = { 1000 * SECOND };
static struct fake_host hosts[HOSTS];
static struct fake_host *const a = &hosts[0], *const b = &hosts[1],
                               *const c = &hosts[2];
static size_t live_before;

static void space_open(void)
{
    live_before = hf__mem_live();
    for (int i = 0; i < HOSTS; i++)
        ck_assert_int_eq(
            fake_open(&hosts[i], &hf__backend_memory, "mem:test", &false_clock), 0);
}

static void space_close(void)
{
    for (int i = 0; i < HOSTS; i++)
        fake_close(&hosts[i]);
    ck_assert_uint_eq(hf__mem_live(), live_before);
}

static uint64_t grant(struct fake_host *host, struct hf_ticket *ticket)
{
    struct fake_answer answer = fake_try(host, ticket);
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    return answer.grant.token;
}

static void queue(struct fake_host *host, struct hf_ticket *ticket)
{
    ck_assert_int_eq(fake_try(host, ticket).what, FAKE_QUEUED);
}

static void leave(struct fake_host *host, struct hf_ticket *ticket)
{
    ck_assert_int_eq(fake_withdraw(host, ticket), HF_WITHDRAWN);
}

static struct hf_ticket leased(const char *name, int kind, int64_t ttl_ns)
{
    struct hf_ticket ticket = fake_ticket(name, kind);
    ticket.ttl_ns = ttl_ns;
    return ticket;
}

static int ask(struct fake_host *host, int verb, const char *name, uint64_t number)
{
    struct hf_request request = fake_request(verb, name);
    request.number = number;
    return fake_ask(host, &request, NULL);
}

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
                      2 * HF_CAP_HANDOFF - 1);
    token = grant(x, &first);
    ck_assert_uint_gt(grant(y, &second), 0);
    fake_close(x);
    fake_close(y);
    ck_assert_uint_eq(hf__mem_live(), before);

    /* The space is gone with its locks, and its tokens do not come back. */
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
    ck_assert_uint_eq(b->wakes, 0); /* the eventfd is one, for both processes */
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
    /* The repeat finds the grant before the loop does: it is told once. */
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

START_TEST(nobody_overtakes)
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
    leave(b, &writer); /* who was behind the writer is in at once, all of them */
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

START_TEST(a_lease_ends_when_somebody_looks)
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
    held.ttl_ns = SECOND / 2; /* shorter: who waits must hear of it */
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
    leave(a, &held); /* c now waits for a lease that was not there when it came */
    fake_expect_grant(b, &second);
    ck_assert(fake_quiet(c));
    queue(a, &fourth);
    leave(c, &third); /* and now a is the first in line */
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
    ck_assert_int_eq(ask(c, HF_EVICT, "n", token + 8), HF_ENOENT);
    ck_assert_int_eq(ask(c, HF_EVICT, "n", token - 1), HF_ENOENT);
    ck_assert_int_eq(ask(c, HF_EVICT, "free", token), HF_ENOENT);
    ck_assert(fake_quiet(a));
    ck_assert_int_eq(ask(c, HF_EVICT, "n", token + 7), 0);
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
                 struct hf_grant *ret_grant)
{
    struct hf_request request = fake_request(HF_ADOPT, heir->name);
    request.other = id;
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
    uint64_t token;

    space_open();
    ck_assert_int_eq(adopt(b, &heir, old.id, &moved), HF_ENOENT);
    token = grant(a, &old);
    fake_interest(a, &old);
    queue(c, &waits);
    false_clock.now_ns += SECOND;
    ck_assert_int_eq(adopt(b, &heir, old.id, &moved), 0);
    ck_assert_uint_eq(moved.token, token);
    ck_assert_int_eq(moved.ttl_ns, 20 * SECOND);
    ck_assert_int_eq(moved.since_ns, false_clock.now_ns);
    ck_assert_int_eq(adopt(b, &heir, old.id, &moved), 0);
    ck_assert_uint_eq(moved.token, token);
    ck_assert_int_eq(adopt(c, &late, old.id, &moved), HF_ENOENT);
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
    ck_assert_int_eq(adopt(b, &heir, old.id, &moved), 0);
    ck_assert_uint_eq(moved.token, token);
    ck_assert_int_eq(ask(b, HF_INSPECT, "n", 0), 0);
    ck_assert_str_eq(b->entries[0].note, "kept");
    leave(b, &heir);
    fake_open(a, &hf__backend_memory, "mem:test", &false_clock);
    space_close();
}
END_TEST

static int downgrade(struct fake_host *host, struct hf_ticket *ticket)
{
    struct hf_request request = fake_request(HF_DOWNGRADE, ticket->name);
    request.ticket = ticket;
    return fake_ask(host, &request, NULL);
}

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
    latch(a, HF_LATCH_SET, 7); /* not even from a latch that came after */
    ck_assert_int_eq(fake_ask(b, &down, NULL), 0);
    ck_assert_uint_eq(latch(a, HF_LATCH_GET, 0), 7);
    space_close();
}
END_TEST

static int cell_set(struct fake_host *host, uint64_t *version, const char *data)
{
    struct hf_request request = fake_request(HF_CELL_SET, "cell");
    request.number = *version;
    request.data = data;
    request.data_len = data ? strlen(data) : 0;
    int rc = fake_ask(host, &request, NULL);
    if (rc == 0)
        *version = request.result;
    return rc;
}

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
    false_clock.now_ns += 5 * SECOND; /* looking ends the lease */
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

/* ---- Under strain ---------------------------------------------------------------- */

static char many_text[1000][HF_NAME_MAX + 1];
static struct hf_ticket many[1000];

START_TEST(many_names_of_all_lengths)
{
    const size_t count = sizeof many / sizeof many[0];

    space_open();
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < count; i++) {
            snprintf(many_text[i], sizeof many_text[i], "%0*zu", (int)(1 + i), i);
            many[i] = fake_ticket(many_text[i], HF_MUTEX);
            grant(a, &many[i]);
        }
        for (size_t i = 0; i < count; i++) {
            struct hf_ticket tries = fake_ticket(many_text[i], HF_MUTEX);
            tries.flags = HF_TICKET_TRY;
            ck_assert_int_eq(fake_try(b, &tries).what, FAKE_BUSY);
        }
        for (size_t i = 0; i < count; i++)
            leave(a, &many[i]);
    }
    space_close();
}
END_TEST

START_TEST(names_may_share_a_hash)
{
    struct hf_ticket first = fake_ticket("first", HF_MUTEX);
    struct hf_ticket other = fake_ticket("other", HF_MUTEX);

    space_open();
    other.name_hash = first.name_hash;
    grant(a, &first);
    grant(b, &other);
    leave(a, &first);
    leave(b, &other);
    space_close();
}
END_TEST

START_TEST(without_memory_nothing_is_left_behind)
{
    char long_name[200];
    uint64_t version = 0;

    memset(long_name, 'n', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    space_open();
    for (uint64_t nth = 2; nth >= 1; nth--) {
        struct hf_ticket ticket = fake_ticket(long_name, HF_MUTEX);
        hf__mem_fail(nth, 0);
        ck_assert_int_eq(fake_try(a, &ticket).code, HF_ENOMEM);
        hf__mem_fail(0, 0);
        ck_assert_int_eq(fake_withdraw(a, &ticket), HF_GONE);
        grant(b, &ticket);
        leave(b, &ticket);
    }
    for (uint64_t nth = 1; nth <= 2; nth++) {
        hf__mem_fail(nth, 0);
        ck_assert_int_eq(cell_set(a, &version, "A"), HF_ENOMEM);
        hf__mem_fail(0, 0);
    }
    ck_assert_int_eq(cell_set(a, &version, "A"), 0);
    hf__mem_fail(1, 0);
    ck_assert_int_eq(ask(a, HF_INSPECT, "cell", 0), HF_ENOMEM);
    hf__mem_fail(0, 0);
    space_close();
}
END_TEST

/* The model: one array of tickets in order of arrival per name, and the admission rule
 * walked from the front. */
#define TICKETS 24
#define NAMES 4
#define STEPS 20000

static struct {
    struct hf_ticket ticket;
    int host;
    int name; /* -1: idle */
    bool held;
    uint64_t token;
} players[TICKETS];
static int queues[NAMES][TICKETS], queue_len[NAMES];
static uint64_t last_token[NAMES]; /* the largest of a grant that ended */

static void model_remove(int player)
{
    int name = players[player].name, *line = queues[name], at = 0;

    while (line[at] != player)
        at++;
    memmove(&line[at], &line[at + 1],
            (size_t)(queue_len[name] - at - 1) * sizeof line[0]);
    queue_len[name]--;
    uint64_t last = players[player].token + players[player].ticket.reserve - 1;
    if (players[player].held && last > last_token[name])
        last_token[name] = last;
    players[player].name = -1;
    players[player].held = false;
}

static bool model_in(int name, int player)
{
    struct hf_tally ahead = { 0 };

    for (int i = 0; queues[name][i] != player; i++) {
        const struct hf_ticket *other = &players[queues[name][i]].ticket;
        hf__tally_add(&ahead, other->kind, other->permits);
    }
    return hf__admit(&ahead, players[player].ticket.kind,
                     players[player].ticket.permits,
                     players[player].ticket.limit) == HF_IN;
}

static void player_granted(int player, uint64_t token)
{
    int name = players[player].name;

    ck_assert_int_ge(name, 0);
    ck_assert(!players[player].held);
    ck_assert_uint_gt(token, last_token[name]);
    players[player].held = true;
    players[player].token = token;
}

/* Who fits is in, and numbers grow along the queue. */
static void player_check(int name, int player, int before)
{
    ck_assert_int_eq(players[player].held, model_in(name, player));
    if (before >= 0 && players[player].held)
        ck_assert_uint_ge(players[player].token,
                          players[before].token + players[before].ticket.reserve);
}

static void model_compare(void)
{
    for (int i = 0; i < HOSTS; i++) {
        while (!fake_quiet(&hosts[i])) {
            struct fake_answer answer = fake_next(&hosts[i]);
            int player = 0;
            ck_assert_int_eq(answer.what, FAKE_GRANTED);
            while (answer.about != &players[player].ticket)
                player++;
            player_granted(player, answer.grant.token);
        }
    }
    for (int name = 0; name < NAMES; name++)
        for (int i = 0; i < queue_len[name]; i++)
            player_check(name, queues[name][i], i ? queues[name][i - 1] : -1);
}

static void player_join(int player, uint64_t *random)
{
    static const char *const texts[NAMES] = { "mutex", "rw", "permits", "expiring" };
    int name = (int)unit_below(random, NAMES), n = (int)unit_below(random, 3);
    int kinds[NAMES] = { HF_MUTEX + n, n ? HF_READ : HF_WRITE, HF_PERMITS,
                         HF_EXPIRING };
    uint32_t limit = name < 2 ? 1 : 3;

    players[player].ticket = fake_permits(
        texts[name], kinds[name], name == 2 ? 1 + unit_below(random, 3) : 1, limit);
    players[player].ticket.flags = unit_below(random, 4) ? 0 : HF_TICKET_TRY;
    players[player].ticket.reserve = 1 + unit_below(random, 4);
    players[player].host = (int)unit_below(random, HOSTS);
    players[player].name = name;
    queues[name][queue_len[name]++] = player;

    struct fake_answer answer =
        fake_try(&hosts[players[player].host], &players[player].ticket);
    bool in = model_in(name, player);
    bool tries = players[player].ticket.flags & HF_TICKET_TRY;
    ck_assert_int_eq(answer.what, in ? FAKE_GRANTED : tries ? FAKE_BUSY : FAKE_QUEUED);
    if (in)
        player_granted(player, answer.grant.token);
    else if (tries)
        model_remove(player);
}

static void player_move(int player, uint64_t *random)
{
    struct hf_ticket *ticket = &players[player].ticket;
    struct fake_host *host = &hosts[players[player].host];
    uint32_t dice = unit_below(random, 8);

    if (dice == 0 && players[player].held) {
        ck_assert_int_eq(ask(a, HF_EVICT, ticket->name, players[player].token), 0);
        model_remove(player);
        ck_assert_int_eq(fake_withdraw(host, ticket), HF_GONE);
    } else if (dice == 1 && players[player].held && ticket->kind == HF_WRITE) {
        ck_assert_int_eq(downgrade(host, ticket), 0);
        ticket->kind = HF_READ;
    } else if (dice == 2) {
        ck_assert_int_eq(fake_try(host, ticket).what,
                         players[player].held ? FAKE_GRANTED : FAKE_QUEUED);
    } else {
        leave(host, ticket);
        model_remove(player);
    }
}

START_TEST(the_store_does_what_the_model_does)
{
    uint64_t random = 0x5eed;

    space_open();
    for (int i = 0; i < TICKETS; i++)
        players[i].name = -1;
    for (int step = 0; step < STEPS; step++) {
        int player = (int)unit_below(&random, TICKETS);
        if (players[player].name < 0)
            player_join(player, &random);
        else
            player_move(player, &random);
        model_compare();
    }
    space_close();
}
END_TEST

#define ROUNDS 2000

static long guarded;

static void *fight(void *arg)
{
    struct fake_host *own = calloc(1, sizeof(*own));

    (void)arg;
    fake_open(own, &hf__backend_memory, "mem:test", NULL);
    for (int i = 0; i < ROUNDS; i++) {
        struct hf_ticket ticket = fake_ticket("n", HF_MUTEX);
        struct fake_answer answer = fake_try(own, &ticket);
        if (answer.what == FAKE_QUEUED)
            fake_expect_grant(own, &ticket);
        guarded++;
        leave(own, &ticket);
    }
    fake_close(own);
    free(own);
    return NULL;
}

START_TEST(threads_exclude_each_other)
{
    pthread_t other;

    guarded = 0;
    ck_assert_int_eq(pthread_create(&other, NULL, fight, NULL), 0);
    fight(NULL);
    pthread_join(other, NULL);
    ck_assert_int_eq(guarded, 2 * ROUNDS);
}
END_TEST

UNIT_MAIN("memory", urls_name_a_space, close_lets_the_next_in,
          detached_holds_stay_for_their_lease,
          a_forked_child_touches_nothing_of_its_parent, mutex_goes_from_one_to_the_next,
          own_tickets_are_told_in_the_call, requests_may_be_repeated,
          kinds_meet_as_they_should, nobody_overtakes, permits_add_up,
          a_name_is_used_as_one_thing, a_grant_reserves_numbers,
          forgotten_tickets_hear_nothing, a_lease_ends_when_somebody_looks,
          renewal_keeps_a_lease, the_alarm_follows_the_queue,
          one_timer_serves_all_that_wait, eviction_takes_exactly_that_token,
          expiry_is_told_to_who_is_interested, revocation_asks_and_takes_nothing,
          adoption_moves_a_hold, a_detached_hold_is_found_by_its_id,
          downgrade_lets_readers_in, a_latch_opens_for_all, counting_down_is_done_once,
          a_cell_changes_by_version, a_cell_is_set_once_per_request,
          a_report_shows_who_holds_and_waits, a_report_may_cover_many_names,
          many_names_of_all_lengths, names_may_share_a_hash,
          without_memory_nothing_is_left_behind, the_store_does_what_the_model_does,
          threads_exclude_each_other)
