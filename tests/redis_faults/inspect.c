/* SPDX-License-Identifier: MIT */
/*
 * Large inspections: thousands of rows of one name, thousands of names, and keys of an
 * application that are larger than any lock. The inspecting client also waits for a
 * lock, and must keep its connection and its place in the queue.
 */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 5000
#define FIELDS 100000

/* Writes what MANY others would have written, in one go. */
static void written(const char *script, const char *name, int count)
{
    char number[16];
    snprintf(number, sizeof number, "%d", count);
    const char *const words[] = { "EVAL", script, "1", name, number };
    const char *reply = raw_call(world.raw, words, 5);
    if (reply[0] == '-')
        check_failed(__FILE__, __LINE__, "the server says %s", reply);
}

static const char write_waiters[] =
    "for i = 1, ARGV[1] do "
    "local owner = string.format('00000000-0000-4000-8000-%012x:1', i) "
    "redis.call('RPUSH', 'holdfast_queue:{' .. KEYS[1] .. '}', owner) "
    "redis.call('HSET', 'holdfast_info:{' .. KEYS[1] .. '}', owner, "
    "'w m 1 30000 1 0 0 1 nobody 1 1\31host\0311\31prog\31note') end";

static const char write_readers[] =
    "redis.call('HSET', KEYS[1], 'mode', 'read') "
    "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], "
    "string.format('00000000-0000-4000-8000-%012x:1', i), 1) end";

static const char write_names[] =
    "for i = 1, ARGV[1] do local name = string.format('%s/%05d', KEYS[1], i) "
    "local owner = string.format('00000000-0000-4000-8000-%012x:1', i) "
    "redis.call('HSET', name, owner, 1) redis.call('PEXPIRE', name, 600000) "
    "redis.call('HSET', 'holdfast_info:{' .. name .. '}', owner, "
    "'h m 1 30000 1 7 1 1 nobody 1 1\31host\0311\31prog\31note') end";

static const char write_application[] =
    "redis.call('HSET', KEYS[1] .. '/small', 'age', 30) "
    "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'field' .. i, i) end";

/* How often the server has carried out a command; scripts count. */
static int64_t calls_of(const char *command)
{
    char word[64];
    snprintf(word, sizeof word, "cmdstat_%s:calls=", command);
    const char *found = strstr(raw_say(world.raw, "INFO commandstats"), word);
    return found ? strtoll(found + strlen(word), NULL, 10) : 0;
}

static int64_t connections_made(void)
{
    const char *stats = raw_say(world.raw, "INFO stats");
    return strtoll(strstr(stats, "total_connections_received:") + 27, NULL, 10);
}

/* Somebody holds `wanted`, the client waits for it, and stays in its place. */
struct place {
    hf_client *holder, *client;
    hf_hold *held;
    hf_op *op;
    int64_t connections;
};

static struct place place_taken(const char *name, int64_t before)
{
    struct place place = { .holder = opened(), .client = opened() };
    hf_want want = hf_mutex(name);
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    how.timeout_ms = HF_FOREVER;
    place.held = locked(place.holder, name, 60000);
    if (before)
        written(write_waiters, name, (int)before);
    CHECK_RC(
        hf_acquire_async(place.client, &want, 1, &how, NULL, NULL, &place.op, NULL), 0);
    EVENTUALLY(raw_number(world.raw, "LLEN holdfast_queue:{%s}", name) == before + 1);
    place.connections = connections_made();
    return place;
}

static void place_kept(struct place *place)
{
    CHECK_EQ(connections_made(), place->connections);
    CHECK(!hf_op_done(place->op));
    CHECK_RC(hf_release(place->held, NULL), 0);
    CHECK_RC(hf_release(waited(place->op), NULL), 0);
    hf_close(place->client);
    hf_close(place->holder);
}

static hf_report *inspect(hf_client *client, const char *name, bool prefix)
{
    hf_report *report = NULL;
    hf_error why = { 0 };
    if (hf_inspect(client, name, prefix, &report, &why) != 0)
        check_failed(__FILE__, __LINE__, "hf_inspect: %s", why.text);
    return report;
}

static void many_waiters(void)
{
    world_start(NULL);
    struct place place = place_taken("wanted", MANY);
    for (int round = 0; round < 4; round++) {
        hf_report *report = inspect(place.client, "wanted", round % 2);
        CHECK_EQ(hf_report_count(report), MANY + 2);
        CHECK_EQ(hf_report_entry(report, 0)->role, HF_HOLDER);
        for (size_t i = 0; i <= MANY; i++) {
            const hf_entry *entry = hf_report_entry(report, i + 1);
            CHECK(entry->role == HF_WAITER && entry->place == i);
        }
        hf_report_free(report);
    }
    place_kept(&place);
    check_nothing_left(0);
    report("5,000 waiters are inspected", 0, "all of them, in their places");
}

static void many_readers(void)
{
    world_start(NULL);
    written(write_readers, "read", MANY);
    struct place place = place_taken("wanted", 0);
    hf_report *rows = inspect(place.client, "read", false);
    CHECK_EQ(hf_report_count(rows), MANY);
    CHECK_EQ(hf_report_entry(rows, MANY - 1)->kind, HF_READ);
    hf_report_free(rows);
    place_kept(&place);
    raw_say(world.raw, "DEL read");
    check_nothing_left(0);
    report("5,000 readers are inspected", 0, "all of them");
}

/* One of them has more rows than a page; all come in the order of their names. */
static void many_names(void)
{
    char name[32];
    world_start(NULL);
    written(write_names, "many", MANY);
    written(write_waiters, "many/00010", MANY);
    struct place place = place_taken("wanted", 0);
    hf_report *rows = inspect(place.client, "many/", true);
    CHECK_EQ(hf_report_count(rows), 2 * MANY);
    for (size_t i = 0; i < 2 * MANY; i++) {
        size_t number = i < 10 ? i + 1 : i < 10 + MANY ? 10 : i - MANY + 1;
        snprintf(name, sizeof name, "many/%05zu", number);
        CHECK_TEXT(hf_report_entry(rows, i)->name, name);
    }
    hf_report_free(rows);
    place_kept(&place);
    report("5,000 names are inspected", 0, "all of them, in order");
}

static void large_application(void)
{
    world_start(NULL);
    written(write_application, "app", FIELDS);
    raw_say(world.raw, "HSET app/mode mode read");
    written("for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'f' .. i, i) end",
            "app/mode", FIELDS);
    raw_say(world.raw, "RPUSH app/list a b c");
    raw_say(world.raw, "SET {app}:timeout 5");
    struct place place = place_taken("wanted", 0);
    int64_t whole = calls_of("hgetall"), steps = calls_of("hscan");
    hf_report *rows = inspect(place.client, "app", false);
    CHECK_EQ(hf_report_count(rows), 0);
    hf_report_free(rows);
    CHECK_EQ(calls_of("hgetall"), whole); /* it is not read to see that it is no lock */
    rows = inspect(place.client, "app/mode", false);
    CHECK_EQ(hf_report_count(rows), 0);
    hf_report_free(rows);
    CHECK_EQ(calls_of("hscan"), steps + 1); /* nor this one behind its first fields */
    rows = inspect(place.client, "app", true);
    CHECK_EQ(hf_report_count(rows), 0);
    hf_report_free(rows);
    rows = inspect(place.client, "", true);
    CHECK_EQ(hf_report_count(rows), 2);
    hf_report_free(rows);
    place_kept(&place);
    report("hashes of 100,000 fields beside locks", 0, "nothing of them");
}

const struct fault_case inspect_cases[] = {
    { "inspect-many-waiters", many_waiters },
    { "inspect-many-readers", many_readers },
    { "inspect-many-names", many_names },
    { "inspect-large-application", large_application },
    { NULL, NULL },
};
