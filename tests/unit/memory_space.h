/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the mem store share: sessions a, b and c of one space, on fake
 * hosts, with a clock that the test moves; and helpers for the usual steps, each of
 * which asserts the result that its name says.
 */
#ifndef HF_TESTS_MEMORY_SPACE_H
#define HF_TESTS_MEMORY_SPACE_H

#include "unit.h"

#include "fake_host.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"

#include <string.h>

#define SECOND HF_NS_PER_S
#define HOSTS 3

extern const struct hf_backend hf__backend_memory;

static struct fake_clock false_clock = { 1000 * SECOND };
static struct fake_host hosts[HOSTS];
static struct fake_host *const a = &hosts[0], *const b = &hosts[1],
                               *const c = &hosts[2];
static size_t live_before;

static inline void space_open(void)
{
    live_before = hf__mem_live();
    for (int i = 0; i < HOSTS; i++)
        ck_assert_int_eq(
            fake_open(&hosts[i], &hf__backend_memory, "mem:test", &false_clock), 0);
}

static inline void space_close(void)
{
    for (int i = 0; i < HOSTS; i++)
        fake_close(&hosts[i]);
    ck_assert_uint_eq(hf__mem_live(), live_before);
}

static inline uint64_t grant(struct fake_host *host, struct hf_ticket *ticket)
{
    struct fake_answer answer = fake_try(host, ticket);
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    return answer.grant.token;
}

static inline void queue(struct fake_host *host, struct hf_ticket *ticket)
{
    ck_assert_int_eq(fake_try(host, ticket).what, FAKE_QUEUED);
}

static inline void leave(struct fake_host *host, struct hf_ticket *ticket)
{
    ck_assert_int_eq(fake_withdraw(host, ticket), HF_WITHDRAWN);
}

static inline struct hf_ticket leased(const char *name, int kind, int64_t ttl_ns)
{
    struct hf_ticket ticket = fake_ticket(name, kind);
    ticket.ttl_ns = ttl_ns;
    return ticket;
}

static inline int ask(struct fake_host *host, int verb, const char *name,
                      uint64_t number)
{
    struct hf_request request = fake_request(verb, name);
    request.number = number;
    return fake_ask(host, &request, NULL);
}

static inline int downgrade(struct fake_host *host, struct hf_ticket *ticket)
{
    struct hf_request request = fake_request(HF_DOWNGRADE, ticket->name);
    request.ticket = ticket;
    return fake_ask(host, &request, NULL);
}

static inline int cell_set(struct fake_host *host, uint64_t *version, const char *data)
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

#endif
