/* SPDX-License-Identifier: MIT */
/*
 * Out of memory, at every point once.
 *
 * Each body is run again and again, and each time one allocation later fails, until
 * none does. It may then succeed or answer HF_ENOMEM, and nothing else; what it took
 * must be gone afterwards, and releasing must always work. Leaks show in the residue
 * check.
 */
#include "contract.h"

#define TTL 30000

typedef void memory_body(struct env *e, hf_client *client, hf_client *other);

static void every_allocation(struct env *e, memory_body *body, hf_client *client,
                             hf_client *other)
{
    hf_client *watcher = client_open(e);
    ballast_ensure(e, THING);
    for (uint64_t nth = 1, asked = nth; asked >= nth; nth++) {
        uint64_t before = memory_asked();
        CHECK(nth < 5000);
        memory_fail(nth);
        body(e, client, other);
        memory_fail(0);
        asked = memory_asked() - before;
        EVENTUALLY(seen(e, watcher, HF_HOLDER) == 0 &&
                   seen(e, watcher, HF_WAITER) == 0);
    }
    check_free(e);
}

static bool memory_rc(int rc)
{
    CHECK(rc == 0 || rc == HF_ENOMEM);
    return rc == 0;
}

/* A client of its own, from open to close. */
static void body_whole_life(struct env *e, hf_client *client, hf_client *other)
{
    hf_client *mine = NULL;
    hf_hold *hold = NULL;
    (void)client;
    (void)other;
    if (!memory_rc(hf_open(e->url, NULL, &mine, NULL)))
        return;
    if (memory_rc(take(e, mine, &hold, .note = "a note", .ttl = TTL)))
        CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(mine);
}

static void memory_whole_life(struct env *e)
{
    every_allocation(e, body_whole_life, NULL, NULL);
}

static void body_take(struct env *e, hf_client *client, hf_client *other)
{
    hf_hold *hold = NULL;
    hf_op *op = NULL;
    struct wants wants;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    (void)other;
    if (memory_rc(take(e, client, &hold, .note = "a note")))
        CHECK_RC(hf_release(hold, NULL), 0);
    options.timeout_ms = HF_FOREVER;
    options.ttl_ms = e->form->ttl_ms;
    form_wants(e->form, &wants, THING, false);
    if (!memory_rc(hf_acquire_async(client, wants.want, wants.count, &options, NULL,
                                    NULL, &op, NULL)))
        return;
    if (memory_rc(op_end(op, HF_FOREVER, &hold)))
        CHECK_RC(hf_release(hold, NULL), 0);
}

static void memory_take(struct env *e)
{
    every_allocation(e, body_take, client_open(e), NULL);
}

/* Two clients: one waits for the other and is served, or gives up. */
static void body_wait(struct env *e, hf_client *client, hf_client *other)
{
    hf_hold *hold = NULL;
    hf_hold *late = NULL;
    hf_op *op = NULL;
    struct wants wants;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    if (!memory_rc(take(e, client, &hold)))
        return;
    options.timeout_ms = HF_FOREVER;
    options.ttl_ms = e->form->ttl_ms;
    options.owner = 2;
    form_wants(e->form, &wants, THING, true);
    bool begun = memory_rc(hf_acquire_async(other, wants.want, wants.count, &options,
                                            NULL, NULL, &op, NULL));
    CHECK_RC(hf_release(hold, NULL), 0);
    if (begun && memory_rc(op_end(op, HF_FOREVER, &late)))
        CHECK_RC(hf_release(late, NULL), 0);
}

static void memory_wait(struct env *e)
{
    every_allocation(e, body_wait, client_open(e), client_open(e));
}

static void memory_wait_in_own_client(struct env *e)
{
    hf_client *client = client_open(e);
    every_allocation(e, body_wait, client, client);
}

/* Leases, watches, ids, looks. */
static void body_hold(struct env *e, hf_client *client, hf_client *other)
{
    struct told told = { 0 };
    hf_hold *hold = NULL;
    hf_report *report = NULL;
    char id[HF_ID_MAX];
    if (!memory_rc(take(e, client, &hold, .ttl = TTL)))
        return;
    memory_rc(hf_hold_watch(hold, told_event, &told, NULL));
    memory_rc(hf_hold_verify(hold, NULL));
    memory_rc(hf_hold_extend(hold, TTL, NULL));
    memory_rc(hf_hold_id(hold, 0, id, sizeof id, NULL));
    if (memory_rc(hf_inspect(other, "", true, &report, NULL)))
        hf_report_free(report);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK_EQ(told.lost, 0);
}

static void memory_hold(struct env *e)
{
    every_allocation(e, body_hold, client_open(e), client_open(e));
}

/* The clock moves on while the hold is there: a renewal is due and needs no luck. */
static void body_renew(struct env *e, hf_client *client, hf_client *other)
{
    hf_hold *hold = NULL;
    (void)other;
    if (!memory_rc(take(e, client, &hold, .ttl = TTL)))
        return;
    int64_t before = hf_hold_left_ms(hold);
    clock_advance(TTL / 2);
    EVENTUALLY(hf_hold_left_ms(hold) > before - TTL / 4);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_RC(hf_release(hold, NULL), 0);
}

static void memory_renew(struct env *e)
{
    every_allocation(e, body_renew, client_open(e), NULL);
}

static void body_latch(struct env *e, hf_client *client, hf_client *other)
{
    hf_op *op = NULL;
    uint32_t left = 1;
    (void)e;
    if (!memory_rc(hf_latch_set(client, THING, 1, NULL)))
        return;
    bool begun =
        memory_rc(hf_latch_wait_async(other, THING, HF_FOREVER, NULL, NULL, &op, NULL));
    while (!memory_rc(hf_latch_count_down(client, THING, 1, &left, NULL)))
        ;
    CHECK_EQ(left, 0);
    if (begun)
        memory_rc(op_end(op, HF_FOREVER, NULL));
}

static void memory_latch(struct env *e)
{
    hf_client *client = client_open(e);
    for (uint64_t nth = 1, asked = nth; asked >= nth; nth++) {
        uint64_t before = memory_asked();
        memory_fail(nth);
        body_latch(e, client, client);
        memory_fail(0);
        asked = memory_asked() - before;
    }
}

static void memory_cell(struct env *e)
{
    hf_client *client = client_open(e);
    (void)e;
    for (uint64_t nth = 1, asked = nth; asked >= nth; nth++) {
        uint64_t before = memory_asked();
        uint64_t version = 0;
        size_t len = 0;
        void *data = NULL;
        memory_fail(nth);
        if (memory_rc(hf_cell_set(client, THING, 0, "value", 5, &version, NULL))) {
            if (memory_rc(hf_cell_get(client, THING, &data, &len, &version, NULL)))
                hf_free(data);
            while (!memory_rc(hf_cell_set(client, THING, version, NULL, 0, NULL, NULL)))
                ;
        }
        memory_fail(0);
        asked = memory_asked() - before;
    }
}

const struct scenario scenarios_memory[] = {
    { "memory-whole-life", LOCKS, HF_CAP_INSPECT | HF_CAP_LEASE, 0, memory_whole_life },
    { "memory-take", LOCKS, HF_CAP_INSPECT, 0, memory_take },
    { "memory-wait", LOCKS, HF_CAP_INSPECT, 0, memory_wait },
    { "memory-wait-in-own-client", LOCKS, HF_CAP_INSPECT, 0,
      memory_wait_in_own_client },
    { "memory-hold", SINGLES, HF_CAP_INSPECT | HF_CAP_LEASE | HF_CAP_DETACH, 0,
      memory_hold },
    { "memory-renew", LOCKS, HF_CAP_INSPECT | HF_CAP_LEASE, CLOCK, memory_renew },
    { "memory-latch", LATCH, 0, 0, memory_latch },
    { "memory-cell", CELL, 0, 0, memory_cell },
    { NULL, 0, 0, 0, NULL },
};
