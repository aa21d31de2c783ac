/* SPDX-License-Identifier: MIT */
/* The queue layout of the file store: a session adopts a hold of another one by its id.
 * The id is checked against what the store has. */
#include "file_peer.h"

static struct fake_host a, b;

static void open_both(void)
{
    scratch_make();
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), 0);
    ck_assert_int_eq(fake_open(&b, &hf__backend_file, url, NULL), 0);
}

static void close_both(void)
{
    struct state state = state_map();

    fake_close(&b);
    fake_close(&a);
    state_check(&state);
    state_unmap(&state);
    scratch_remove();
}

static uint64_t token_shown(struct fake_host *host)
{
    struct hf_request inspect = fake_request(HF_INSPECT, "x");

    ck_assert_int_eq(fake_ask(host, &inspect, NULL), 0);
    ck_assert_uint_eq(host->entry_count, 1);
    return host->entries[0].entry.token;
}

/* A hold has a span of tokens; an id names one of them. No other is adopted. */
static void adopt_exactly(struct hf_ticket old)
{
    struct hf_ticket mine = fake_ticket("x", HF_MUTEX);
    struct hf_request request = fake_request(HF_ADOPT, "x");
    struct fake_answer held;
    const uint32_t span = 8;

    old.reserve = span;
    held = fake_try(&a, &old);
    ck_assert_int_eq(held.what, FAKE_GRANTED);
    ck_assert_uint_eq(held.grant.span, span);
    const uint64_t wrong[] = { 0, held.grant.token - 1, held.grant.token + span,
                               UINT64_MAX };
    request.ticket = &mine;
    request.other = old.id;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        request.number = wrong[i];
        ck_assert_int_eq(fake_ask(&b, &request, NULL), HF_ENOENT);
        ck_assert_int_eq(fake_renew(&a, &old, HF_CHECK), HF_STILL_HELD);
    }
    for (int repeat = 0; repeat < 2; repeat++) {
        request.number = held.grant.token + 5;
        request.grant = (struct hf_grant){ 0 };
        ck_assert_int_eq(fake_ask(&b, &request, NULL), 0);
        ck_assert_uint_eq(request.grant.token, held.grant.token + 5);
        ck_assert_uint_eq(request.grant.span, 1);
        ck_assert_uint_eq(token_shown(&b), held.grant.token + 5);
    }
    request.number = held.grant.token + 6; /* not the same request any more */
    ck_assert_int_eq(fake_ask(&b, &request, NULL), HF_ENOENT);
    ck_assert_int_eq(fake_withdraw(&a, &old), HF_GONE);
    ck_assert_int_eq(fake_withdraw(&b, &mine), HF_WITHDRAWN);
    ck_assert_int_eq(fake_ask(&b, &request, NULL), HF_ENOENT);
}

START_TEST(only_the_number_of_an_id_is_adopted)
{
    struct hf_ticket leased = fake_ticket("x", HF_MUTEX), noted = leased;

    leased.id = fake_id();
    leased.ttl_ns = 60 * INT64_C(1000000000);
    noted.note = "noted";
    open_both();
    adopt_exactly(fake_ticket("x", HF_MUTEX));
    adopt_exactly(leased);
    adopt_exactly(noted);
    close_both();
}
END_TEST

/* The answer was lost: the repeat returns the same grant, and starts no new lease. */
START_TEST(a_repeated_adopt_tells_the_truth)
{
    struct hf_ticket old = fake_ticket("x", HF_MUTEX),
                     mine = fake_ticket("x", HF_MUTEX), again;
    struct hf_request request = fake_request(HF_ADOPT, "x");
    struct hf_grant first;

    open_both();
    old.note = "noted";
    request.number = fake_try(&a, &old).grant.token;
    request.other = old.id;
    request.ticket = &mine;
    mine.ttl_ns = 60 * INT64_C(1000000000);
    again = mine;
    ck_assert_int_eq(fake_ask(&b, &request, NULL), 0);
    first = request.grant;
    request.ticket = &again; /* the same id, and nothing is stored about it */
    ck_assert_int_eq(fake_ask(&b, &request, NULL), 0);
    ck_assert_uint_eq(request.grant.token, first.token);
    ck_assert_int_eq(request.grant.since_ns, first.since_ns);
    ck_assert_int_eq(request.grant.ttl_ns, first.ttl_ns);
    ck_assert_int_eq(fake_withdraw(&b, &again), HF_WITHDRAWN);
    ck_assert_int_eq(fake_withdraw(&b, &mine), HF_GONE);
    ck_assert_int_eq(fake_withdraw(&a, &old), HF_GONE);
    ck_assert_int_eq(fake_ask(&b, &request, NULL), HF_ENOENT);
    close_both();
}
END_TEST

UNIT_MAIN("file_adopt", only_the_number_of_an_id_is_adopted,
          a_repeated_adopt_tells_the_truth)
