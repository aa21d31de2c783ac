/* SPDX-License-Identifier: MIT */
/*
 * Operations of one client: every kind of lock, and what can be done with a hold, a
 * latch, a cell and the store. Each arms the plan itself, when what has to be there is.
 */
#include "hostile.h"

#include <stdio.h>
#include <string.h>

#include "../../src/base/clock.h"

/* ---- Locks ----------------------------------------------------------------------- */

static void cycle(struct trial *t, const hf_want *wants, size_t count)
{
    hf_hold *hold;
    arm(t);
    take(t, wants, count, 0, &hold);
    let_go(t, hold);
}

static void open_it(struct trial *t)
{
    int rc;
    arm(t);
    begin(t);
    t->client = client_open(t, middle_port(t->middle), &t->why, &rc);
    judged(t, rc, 5000 + 4 * REQUEST_MS);
    CHECK((rc == 0) == (t->client != NULL));
    if (rc == 0) {
        hf_want want = hf_mutex(t->name);
        hf_hold *hold;
        take(t, &want, 1, 0, &hold);
        let_go(t, hold);
    }
}

static void mutex(struct trial *t)
{
    hf_want want = hf_mutex(t->name);
    cycle(t, &want, 1);
}

static void fair(struct trial *t)
{
    hf_want want = hf_fair(t->name);
    cycle(t, &want, 1);
}

static void reads(struct trial *t)
{
    hf_want want = hf_read(t->name);
    cycle(t, &want, 1);
}

static void writes(struct trial *t)
{
    hf_want want = hf_write(t->name);
    cycle(t, &want, 1);
}

static void permits(struct trial *t)
{
    hf_want want = hf_permits(t->name, 2, 5);
    cycle(t, &want, 1);
}

static void expiring(struct trial *t)
{
    hf_want want = hf_expiring(t->name, 3);
    cycle(t, &want, 1);
}

static void striped(struct trial *t)
{
    hf_want want = hf_striped(t->name, "key", 8);
    cycle(t, &want, 1);
}

/* The second one needs no server, and has the same token. */
static void reentrant(struct trial *t)
{
    hf_want want = hf_reentrant(t->name);
    hf_hold *first, *second = NULL;
    arm(t);
    if (take(t, &want, 1, 0, &first) == 0)
        take(t, &want, 1, 0, &second);
    if (second && hf_hold_state(first) == HF_HELD)
        CHECK_EQ(hf_hold_token(second, 0), hf_hold_token(first, 0));
    let_go(t, second);
    let_go(t, first);
}

static void many(struct trial *t)
{
    char names[2][80];
    snprintf(names[0], sizeof names[0], "%s-b", t->name);
    snprintf(names[1], sizeof names[1], "%s-c", t->name);
    hf_want wants[] = { hf_mutex(t->name), hf_mutex(names[0]), hf_mutex(names[1]) };
    cycle(t, wants, 3);
}

/* The second grant has the larger token. */
static void twice(struct trial *t)
{
    hf_want want = hf_mutex(t->name);
    hf_hold *hold;
    arm(t);
    int rc = take(t, &want, 1, 0, &hold);
    uint64_t token = hold ? hf_hold_token(hold, 0) : 0;
    let_go(t, hold);
    if (rc == 0 && take(t, &want, 1, 2 * REQUEST_MS, &hold) == 0) {
        CHECK(hf_hold_token(hold, 0) > token);
        let_go(t, hold);
    }
}

/* ---- A hold ---------------------------------------------------------------------- */

static void verify(struct trial *t)
{
    hf_hold *hold = held(t, hf_mutex(t->name));
    arm(t);
    begin(t);
    judged(t, hf_hold_verify(hold, &t->why), 4 * REQUEST_MS);
    judge_hold(t, hold, LEASE_MS);
    let_go(t, hold);
}

static void extend(struct trial *t)
{
    hf_hold *hold = held(t, hf_mutex(t->name));
    arm(t);
    begin(t);
    judged(t, hf_hold_extend(hold, LEASE_MS + 5000, &t->why), 4 * REQUEST_MS);
    judge_hold(t, hold, LEASE_MS + 5000);
    let_go(t, hold);
}

static void downgrade(struct trial *t)
{
    hf_hold *hold = held(t, hf_write(t->name));
    arm(t);
    begin(t);
    judged(t, hf_hold_downgrade(hold, 0, &t->why), 4 * REQUEST_MS);
    judge_hold(t, hold, LEASE_MS);
    let_go(t, hold);
}

/* The hold of the other client becomes ours. */
static void adopt(struct trial *t)
{
    char id[HF_ID_MAX];
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold = sane_hold(t, hf_mutex(t->name)), *ours = NULL;
    options.ttl_ms = LEASE_MS;
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    arm(t);
    begin(t);
    int rc =
        judged(t, hf_adopt(t->client, id, &options, &ours, &t->why), 4 * REQUEST_MS);
    CHECK((rc == 0) == (ours != NULL));
    if (ours) {
        judge_hold(t, ours, LEASE_MS);
        let_go(t, ours);
    }
    hf_release(hold, NULL);
}

/* A third of the lease is over: the client renews by itself. Once all of it is over
 * the hold is lost, whatever the server said. */
static void renewal(struct trial *t)
{
    hf_hold *hold = held(t, hf_mutex(t->name));
    uint32_t replies = 0;
    arm(t);
    hf__clock_shift_add((LEASE_MS / 3 + 1000) * HF_NS_PER_MS);
    EVENTUALLY(replies > 0)
    {
        middle_lock(t->middle);
        replies = t->plan->replies;
        middle_unlock(t->middle);
        judge_hold(t, hold, LEASE_MS);
    }
    judge_hold(t, hold, LEASE_MS);
    hf__clock_shift_add((LEASE_MS + 1000) * HF_NS_PER_MS);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    hf_release(hold, NULL);
}

/* ---- Latch and cell -------------------------------------------------------------- */

static void latch(struct trial *t)
{
    uint32_t left = 0;
    arm(t);
    begin(t);
    judged(t, hf_latch_set(t->client, t->name, 3, &t->why), 4 * REQUEST_MS);
    begin(t);
    judged(t, hf_latch_count(t->client, t->name, &left, &t->why), 4 * REQUEST_MS);
    begin(t);
    judged(t, hf_latch_count_down(t->client, t->name, 2, &left, &t->why),
           4 * REQUEST_MS);
    begin(t);
    judged(t, hf_latch_wait(t->client, t->name, 0, &t->why), 4 * REQUEST_MS);
}

static void cell(struct trial *t)
{
    void *data = NULL;
    size_t len = 0;
    uint64_t version = 0;
    arm(t);
    begin(t);
    int rc = hf_cell_set(t->client, t->name, 0, "value", 5, &version, &t->why);
    if (judged(t, rc, 4 * REQUEST_MS) == 0)
        CHECK(version > 0 && version <= INT64_MAX);
    begin(t);
    rc = hf_cell_get(t->client, t->name, &data, &len, &version, &t->why);
    if (judged(t, rc, 4 * REQUEST_MS) == 0) {
        CHECK(version > 0 && version <= INT64_MAX && data && len <= HF_CELL_MAX);
        CHECK_EQ(((char *)data)[len], 0);
        hf_free(data);
    }
    begin(t);
    rc = hf_cell_set(t->client, t->name, version, NULL, 0, NULL, &t->why);
    judged(t, rc, 4 * REQUEST_MS);
}

/* ---- Looking and repair ---------------------------------------------------------- */

static bool entry_is_whole(const hf_entry *entry)
{
    return entry->name && entry->host && entry->program && entry->note;
}

static void look(struct trial *t, bool prefix)
{
    hf_report *report = NULL;
    begin(t);
    int rc = hf_inspect(t->client, t->name, prefix, &report, &t->why);
    judged(t, rc, 8 * REQUEST_MS);
    CHECK((rc == 0) == (report != NULL));
    for (size_t i = 0; report && i < hf_report_count(report); i++) {
        const hf_entry *entry = hf_report_entry(report, i);
        CHECK(entry->kind >= HF_MUTEX && entry->kind <= HF_CELL);
        CHECK(entry->role >= HF_HOLDER && entry->role <= HF_OBJECT);
        CHECK(entry->left_ms >= HF_FOREVER && entry->since_ms >= -1 && entry->pid >= 0);
        CHECK(entry->token <= INT64_MAX);
        CHECK(entry_is_whole(entry));
    }
    hf_report_free(report);
}

static void inspect(struct trial *t)
{
    hf_hold *hold = sane_hold(t, hf_mutex(t->name));
    arm(t);
    look(t, false);
    hf_release(hold, NULL);
}

static void inspect_all(struct trial *t)
{
    hf_hold *hold = sane_hold(t, hf_permits(t->name, 1, 3));
    arm(t);
    look(t, true);
    hf_release(hold, NULL);
}

static void evict(struct trial *t)
{
    hf_hold *hold = sane_hold(t, hf_mutex(t->name));
    arm(t);
    begin(t);
    judged(t, hf_evict(t->client, t->name, hf_hold_token(hold, 0), &t->why),
           8 * REQUEST_MS);
    hf_release(hold, NULL);
}

static void revoke(struct trial *t)
{
    hf_hold *hold = sane_hold(t, hf_mutex(t->name));
    arm(t);
    begin(t);
    judged(t, hf_revoke(t->client, t->name, 0, &t->why), 4 * REQUEST_MS);
    hf_release(hold, NULL);
}

static void diagnose(struct trial *t)
{
    hf_report *report = NULL;
    arm(t);
    begin(t);
    int rc = judged(t, hf_diagnose(t->client, &report, &t->why), 8 * REQUEST_MS);
    CHECK((rc == 0) == (report != NULL));
    for (size_t i = 0; report && i < hf_report_count(report); i++) {
        const hf_finding *finding = hf_report_finding(report, i);
        CHECK(finding->level >= HF_GOOD && finding->level <= HF_TRAP);
        CHECK(text_is_clean(finding->what) && text_is_clean(finding->fix));
    }
    hf_report_free(report);
}

/* ---- The end --------------------------------------------------------------------- */

static void closing(struct trial *t)
{
    char other[80];
    snprintf(other, sizeof other, "%s-b", t->name);
    hf_hold *first = held(t, hf_mutex(t->name)), *second = held(t, hf_mutex(other));
    arm(t);
    begin(t);
    hf_close(t->client);
    t->client = NULL;
    judged(t, 0, 2 * REQUEST_MS);
    CHECK_RC(hf_release(first, NULL), HF_ECLOSED);
    CHECK_RC(hf_release(second, NULL), HF_ECLOSED);
}

const struct op ops[] = {
    { .name = "open", .opens = true, .run = open_it },
    { .name = "mutex", .run = mutex },
    { .name = "fair", .run = fair, .needs = HF_CAP_FAIR },
    { .name = "read", .run = reads, .needs = HF_CAP_RW },
    { .name = "write", .run = writes, .needs = HF_CAP_RW },
    { .name = "permits", .run = permits, .needs = HF_CAP_PERMITS },
    { .name = "expiring", .run = expiring, .needs = HF_CAP_EXPIRING },
    { .name = "striped", .run = striped },
    { .name = "reentrant", .run = reentrant },
    { .name = "many", .run = many },
    { .name = "twice", .run = twice },
    { .name = "verify", .run = verify },
    { .name = "extend", .run = extend },
    { .name = "downgrade", .run = downgrade, .needs = HF_CAP_DOWNGRADE },
    { .name = "adopt", .run = adopt, .needs = HF_CAP_DETACH },
    { .name = "renewal", .run = renewal, .clock = true },
    { .name = "latch", .run = latch, .needs = HF_CAP_LATCH },
    { .name = "cell", .run = cell, .needs = HF_CAP_CELL },
    { .name = "inspect", .run = inspect, .needs = HF_CAP_INSPECT },
    { .name = "inspect-all", .run = inspect_all, .needs = HF_CAP_INSPECT },
    { .name = "evict", .run = evict, .needs = HF_CAP_EVICT },
    { .name = "revoke", .run = revoke, .needs = HF_CAP_REVOKE },
    { .name = "diagnose", .run = diagnose, .needs = HF_CAP_DIAGNOSE },
    { .name = "closing", .run = closing },
    { .name = "mutex, layout 2", .run = mutex, .query = 1 },
    { .name = "evict, layout 2", .run = evict, .query = 1, .needs = HF_CAP_EVICT },
    { .name = "inspect, layout 2",
      .run = inspect,
      .query = 1,
      .needs = HF_CAP_INSPECT },
    { .name = "mutex, layout 3", .run = mutex, .query = 2 },
    { .name = "verify, layout 3", .run = verify, .query = 2 },
    { .name = "extend, layout 3", .run = extend, .query = 2 },
    { .name = NULL },
};
