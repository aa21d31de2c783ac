/* SPDX-License-Identifier: MIT */
/*
 * Reports: who holds, who waits, in which order, since when.
 */
#include <string.h>
#include <unistd.h>

#include "contract.h"

#define TTL 30000

/* The entries of one look with a role, ballast aside; at most three. */
struct look {
    hf_report *report;
    const hf_entry *entry[3];
    size_t count;
};

static struct look look_at(hf_client *client, const char *name, bool prefix, int role)
{
    struct look look = { NULL, { NULL }, 0 };
    CHECK_RC(hf_inspect(client, name, prefix, &look.report, NULL), 0);
    for (size_t i = 0; i < hf_report_count(look.report); i++) {
        const hf_entry *entry = hf_report_entry(look.report, i);
        CHECK(entry->name && entry->host && entry->program && entry->note);
        CHECK(entry->size >= sizeof(hf_entry));
        if (entry->role != role || strcmp(entry->note, "ballast") == 0)
            continue;
        CHECK(look.count < 3);
        look.entry[look.count++] = entry;
    }
    return look;
}

static hf_client *named_client(struct env *e, const char *program)
{
    hf_options options = HF_OPTIONS_INIT;
    options.program = program;
    return client_with(e, &options);
}

static void holder_is_shown(struct env *e)
{
    hf_client *a = named_client(e, "night watch");
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .note = "row 42");
    struct look look = look_at(b, THING, false, HF_HOLDER);
    CHECK_EQ(look.count, 1);
    const hf_entry *entry = look.entry[0];
    CHECK_TEXT(entry->name, THING);
    CHECK_TEXT(entry->program, "night watch");
    CHECK_TEXT(entry->note, "row 42");
    CHECK(entry->host[0]);
    CHECK_EQ(entry->kind, e->form->code);
    CHECK_EQ(entry->token, hf_hold_token(hold, 0));
    CHECK_EQ(entry->pid, getpid());
    CHECK_EQ(entry->permits, 1);
    CHECK_EQ(entry->limit, e->form->ballast ? 5 : 1);
    CHECK(entry->since_ms >= 0 && entry->since_ms < PATIENCE_MS);
    if (!e->form->ttl_ms && e->store->caps & NEED_ENDLESS)
        CHECK_EQ(entry->left_ms, HF_FOREVER);
    else
        CHECK(entry->left_ms > 0);
    CHECK(hf_report_entry(look.report, hf_report_count(look.report)) == NULL);
    hf_report_free(look.report);
    let_go(hold);
}

static void free_name_is_empty(struct env *e)
{
    hf_report *report = NULL;
    hf_client *client = client_open(e);
    let_go(held(e, client));
    CHECK_RC(hf_inspect(client, "no such name", false, &report, NULL), 0);
    CHECK_EQ(hf_report_count(report), 0);
    CHECK(hf_report_entry(report, 0) == NULL);
    hf_report_free(report);
    CHECK_EQ(seen(e, client, HF_HOLDER), 0);
    CHECK_EQ(seen(e, client, HF_WAITER), 0);
}

static void waiters_in_order(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *waiting[2] = { named_client(e, "first"), named_client(e, "second") };
    hf_hold *hold = held(e, a);
    hf_op *ops[2];
    for (size_t i = 0; i < 2; i++) {
        ops[i] = begin(e, waiting[i], NULL, NULL, .rival = true, .timeout = HF_FOREVER,
                       .note = "soon");
        EVENTUALLY(queued(e, a, i + 1));
    }
    struct look look = look_at(a, "", true, HF_WAITER);
    CHECK_EQ(look.count, 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK_TEXT(look.entry[i]->program, i == 0 ? "first" : "second");
        CHECK_TEXT(look.entry[i]->note, "soon");
        CHECK_EQ(look.entry[i]->pid, getpid());
        CHECK_EQ(look.entry[i]->place, i);
        CHECK(look.entry[i]->since_ms >= 0);
    }
    hf_report_free(look.report);
    for (size_t i = 0; i < 2; i++)
        hf_op_free(ops[i]);
    let_go(hold);
}

static void names_begin_with(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *holds[3] = { held(e, client, .name = "app/one"),
                          held(e, client, .name = "app/two"),
                          held(e, client, .name = "apple") };
    struct look look = look_at(client, "app/", true, HF_HOLDER);
    CHECK_EQ(look.count, 2);
    hf_report_free(look.report);
    look = look_at(client, "app", true, HF_HOLDER);
    CHECK_EQ(look.count, 3);
    hf_report_free(look.report);
    look = look_at(client, "app/", false, HF_HOLDER);
    CHECK_EQ(look.count, 0);
    hf_report_free(look.report);
    look = look_at(client, "apple", false, HF_HOLDER);
    CHECK_EQ(look.count, 1);
    hf_report_free(look.report);
    for (size_t i = 0; i < 3; i++)
        let_go(holds[i]);
}

static void time_is_shown(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_FIXED);
    clock_advance(10000);
    struct look look = look_at(b, "", true, HF_HOLDER);
    CHECK(look.count >= 1);
    CHECK(look.entry[0]->since_ms >= 9900 && look.entry[0]->since_ms < TTL);
    CHECK(look.entry[0]->left_ms > 1000 && look.entry[0]->left_ms <= TTL - 10000);
    hf_report_free(look.report);
    let_go(hold);
}

static void long_note_is_cut(struct env *e)
{
    static const char note[] = "a note that goes on for longer than anybody cares to "
                               "read it, and is cut";
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client, .note = note);
    struct look look = look_at(client, "", true, HF_HOLDER);
    CHECK(look.count >= 1);
    CHECK_EQ(strlen(look.entry[0]->note), HF_NOTE_MAX);
    CHECK_EQ(strncmp(look.entry[0]->note, note, HF_NOTE_MAX), 0);
    hf_report_free(look.report);
    let_go(hold);
}

static void other_process_is_shown(struct env *e)
{
    hf_client *client = client_open(e);
    struct taker *taker = taker_start(e, NULL);
    uint64_t token = taker_take(e, taker, THING, 0, 0, 0);
    struct look look = look_at(client, "", true, HF_HOLDER);
    CHECK(look.count >= 1);
    bool found = false;
    for (size_t i = 0; i < look.count; i++) {
        CHECK_EQ(look.entry[i]->pid, taker->pid);
        CHECK_TEXT(look.entry[i]->program, "taker");
        found = found || look.entry[i]->token == token;
    }
    CHECK(found);
    hf_report_free(look.report);
}

/* A report is a snapshot: it outlives what it shows, and the client. */
static void report_outlives_client(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client, .note = "kept");
    struct look look = look_at(client, "", true, HF_HOLDER);
    let_go(hold);
    client_close(e, client);
    CHECK_TEXT(look.entry[0]->note, "kept");
    hf_report_free(look.report);
}

#define INSPECT HF_CAP_INSPECT

const struct scenario scenarios_inspect[] = {
    { "holder-is-shown", SINGLES & ~STRIPED, INSPECT, 0, holder_is_shown },
    { "free-name-is-empty", LOCKS, INSPECT, 0, free_name_is_empty },
    { "waiters-in-order", LOCKS, INSPECT, 0, waiters_in_order },
    { "names-begin-with", SINGLES & ~STRIPED, INSPECT, 0, names_begin_with },
    { "time-is-shown", LOCKS, INSPECT | HF_CAP_LEASE, CLOCK, time_is_shown },
    { "long-note-is-cut", LOCKS, INSPECT, 0, long_note_is_cut },
    { "other-process-is-shown", LOCKS, INSPECT | HF_CAP_PROCESSES, 0,
      other_process_is_shown },
    { "report-outlives-client", LOCKS, INSPECT, 0, report_outlives_client },
    { NULL, 0, 0, 0, NULL },
};
