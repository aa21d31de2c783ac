/* SPDX-License-Identifier: MIT */
/*
 * The versioned cell: written only if the version is still the one that was read.
 */
#include <stdlib.h>
#include <string.h>

#include "../harness/faults.h"
#include "contract.h"

struct value {
    void *data;
    size_t len;
    uint64_t version;
};

static struct value cell_get(hf_client *client)
{
    struct value value = { NULL, 77, 0 };
    CHECK_RC(hf_cell_get(client, THING, &value.data, &value.len, &value.version, NULL),
             0);
    CHECK(value.data != NULL && value.version != 0);
    CHECK_EQ(((const char *)value.data)[value.len], 0);
    return value;
}

static uint64_t cell_set(hf_client *client, uint64_t version, const char *text)
{
    uint64_t now = 0;
    CHECK_RC(hf_cell_set(client, THING, version, text, strlen(text), &now, NULL), 0);
    CHECK(now > version);
    return now;
}

static void cell_remove(hf_client *client, uint64_t version)
{
    CHECK_RC(hf_cell_set(client, THING, version, NULL, 0, NULL, NULL), 0);
}

static void cell_is(hf_client *client, uint64_t version, const char *text)
{
    struct value value = cell_get(client);
    CHECK_EQ(value.version, version);
    CHECK_EQ(value.len, strlen(text));
    CHECK_TEXT(value.data, text);
    hf_free(value.data);
}

static void absent_cell(struct env *e)
{
    hf_error why = { 0 };
    void *data = &why;
    size_t len = 77;
    uint64_t version = 77;
    hf_client *client = client_open(e);
    CHECK_RC(hf_cell_get(client, THING, &data, &len, &version, &why), HF_ENOENT);
    CHECK(why.code == HF_ENOENT && why.text[0]);
    CHECK(data == &why && len == 77 && version == 77);
    CHECK_RC(hf_cell_set(client, THING, 5, "x", 1, &version, NULL), HF_ESTALE);
    CHECK_RC(hf_cell_set(client, THING, 5, NULL, 0, &version, NULL), HF_ESTALE);
    CHECK_EQ(version, 77);
}

static void create_write_read(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    uint64_t one = cell_set(a, 0, "first");
    cell_is(b, one, "first");
    uint64_t two = cell_set(b, one, "second");
    cell_is(a, two, "second");
    CHECK_RC(hf_cell_set(a, THING, two, "third", 5, NULL, NULL), 0);
    struct value value = cell_get(b);
    CHECK(value.version > two);
    hf_free(value.data);
    cell_remove(b, value.version);
    CHECK_RC(hf_cell_get(a, THING, &value.data, &value.len, &value.version, NULL),
             HF_ENOENT);
}

static void stale_version(struct env *e)
{
    hf_error why = { 0 };
    uint64_t none = 77;
    hf_client *client = client_open(e);
    uint64_t one = cell_set(client, 0, "one");
    uint64_t two = cell_set(client, one, "two");
    CHECK_RC(hf_cell_set(client, THING, one, "late", 4, &none, &why), HF_ESTALE);
    CHECK(why.code == HF_ESTALE && why.text[0] && none == 77);
    CHECK_RC(hf_cell_set(client, THING, 0, "new", 3, &none, NULL), HF_ESTALE);
    CHECK_RC(hf_cell_set(client, THING, two + 1, "early", 5, &none, NULL), HF_ESTALE);
    CHECK_RC(hf_cell_set(client, THING, one, NULL, 0, &none, NULL), HF_ESTALE);
    cell_is(client, two, "two");
    cell_remove(client, two);
}

/* Removed and made anew: whoever still has the old version is told. */
static void version_never_comes_back(struct env *e)
{
    uint64_t last = 0;
    for (int i = 0; i < 5; i++) {
        hf_client *client = client_open(e);
        uint64_t version = cell_set(client, 0, "value");
        CHECK(version > last);
        if (last)
            CHECK_RC(hf_cell_set(client, THING, last, "old", 3, NULL, NULL), HF_ESTALE);
        cell_remove(client, version);
        last = version;
        client_close(e, client);
    }
}

static void large_value(struct env *e)
{
    char *data = malloc(HF_CELL_MAX + 1);
    hf_client *client = client_open(e);
    hf_error why = { 0 };
    uint64_t version = 0;
    CHECK(data != NULL);
    for (size_t i = 0; i <= HF_CELL_MAX; i++)
        data[i] = (char)(i * 31 % 251);
    CHECK_RC(hf_cell_set(client, THING, 0, data, HF_CELL_MAX + 1, &version, &why),
             HF_EINVAL);
    CHECK(why.text[0] && version == 0);
    CHECK_RC(hf_cell_set(client, THING, 0, data, HF_CELL_MAX, &version, NULL), 0);
    struct value value = cell_get(client);
    CHECK_EQ(value.len, HF_CELL_MAX);
    CHECK(memcmp(value.data, data, HF_CELL_MAX) == 0);
    hf_free(value.data);
    cell_remove(client, version);
    free(data);
}

static void any_bytes(struct env *e)
{
    unsigned char bytes[256];
    hf_client *client = client_open(e);
    uint64_t version = 0;
    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    CHECK_RC(hf_cell_set(client, THING, 0, bytes, sizeof bytes, &version, NULL), 0);
    struct value value = cell_get(client);
    CHECK_EQ(value.len, sizeof bytes);
    CHECK(memcmp(value.data, bytes, sizeof bytes) == 0);
    hf_free(value.data);
    CHECK_RC(hf_cell_set(client, THING, version, "", 0, &version, NULL), 0);
    value = cell_get(client); /* an empty value is a value */
    CHECK_EQ(value.len, 0);
    hf_free(value.data);
    cell_remove(client, version);
}

/* Grows and shrinks through all sizes that a store may treat differently. */
static void many_sizes(struct env *e)
{
    char *data = malloc(HF_CELL_MAX);
    hf_client *client = client_open(e);
    uint64_t version = 0;
    CHECK(data != NULL);
    memset(data, 'v', HF_CELL_MAX);
    for (size_t len = 1, i = 0; i < 40; i++, len = (len * 7 + 3) % HF_CELL_MAX) {
        CHECK_RC(hf_cell_set(client, THING, version, data, len, &version, NULL), 0);
        struct value value = cell_get(client);
        CHECK_EQ(value.len, len);
        CHECK(memcmp(value.data, data, len) == 0);
        hf_free(value.data);
    }
    cell_remove(client, version);
    free(data);
}

struct crowd {
    hf_client *clients[4];
};

/* The loop everybody writes: read, add one, write if nobody was quicker. */
static void crowd_member(void *arg, size_t number)
{
    struct crowd *crowd = arg;
    hf_client *client = crowd->clients[number % 4];
    for (int i = 0; i < 25;) {
        struct value value = cell_get(client);
        uint32_t count;
        memcpy(&count, value.data, sizeof count);
        hf_free(value.data);
        count++;
        int rc =
            hf_cell_set(client, THING, value.version, &count, sizeof count, NULL, NULL);
        CHECK(rc == 0 || rc == HF_ESTALE);
        i += rc == 0;
    }
}

static void crowd_adds_exactly(struct env *e)
{
    struct crowd crowd;
    uint32_t count = 0;
    for (int i = 0; i < 4; i++)
        crowd.clients[i] = client_open(e);
    CHECK_RC(hf_cell_set(crowd.clients[0], THING, 0, &count, sizeof count, NULL, NULL),
             0);
    threads_run(8, crowd_member, &crowd);
    struct value value = cell_get(crowd.clients[0]);
    memcpy(&count, value.data, sizeof count);
    CHECK_EQ(count, 8 * 25);
    hf_free(value.data);
    cell_remove(crowd.clients[0], value.version);
}

static void cell_is_shown(struct env *e)
{
    hf_report *report = NULL;
    hf_client *client = client_open(e);
    uint64_t version = cell_set(client, 0, "value");
    CHECK_RC(hf_inspect(client, THING, false, &report, NULL), 0);
    CHECK_EQ(hf_report_count(report), 1);
    CHECK_EQ(hf_report_entry(report, 0)->kind, HF_CELL);
    CHECK_EQ(hf_report_entry(report, 0)->role, HF_OBJECT);
    CHECK_EQ(hf_report_entry(report, 0)->token, version);
    hf_report_free(report);
    cell_remove(client, version);
    CHECK_EQ(seen(e, client, HF_OBJECT), 0);
}

static void cell_between_processes(struct env *e)
{
    hf_client *client = client_open(e);
    struct taker *taker = taker_start(e, NULL);
    taker_say(taker, "get " THING);
    CHECK_TEXT(taker_expect(taker, "failed"), "HF_ENOENT");
    uint64_t version = cell_set(client, 0, "hello");
    taker_say(taker, "get " THING);
    const char *said = taker_expect(taker, "value");
    CHECK_EQ(strtoull(said, NULL, 10), version);
    CHECK_TEXT(strchr(said, ' ') + 1, "hello");
    cell_remove(client, version);
}

/* The client that wrote it is gone; the cell is not. */
static void cell_outlives_its_maker(struct env *e)
{
    hf_client *b = client_open(e);
    hf_client *a = client_open(e);
    uint64_t version = cell_set(a, 0, "kept");
    client_close(e, a);
    cell_is(b, version, "kept");
    cell_remove(b, version);
}

/* The write was done and its answer lost: asked again, it is done, not stale. */
static void lost_reply_writes_once(struct env *e)
{
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = hasty_ms(e);
    hf_client *client = client_with(e, &options);
    uint64_t version = cell_set(client, 0, "zero");
    for (uint64_t n = 1; n <= 2; n++) {
        uint64_t before = version;
        fault_lose(HF_FAULT_ASK, 1, n);
        CHECK_RC(hf_cell_set(client, THING, version, "next", 4, &version, NULL), 0);
        fault_none();
        CHECK(version > before);
        cell_is(client, version, "next");
    }
    cell_remove(client, version);
}

const struct scenario scenarios_cell[] = {
    { "absent-cell", CELL, 0, 0, absent_cell },
    { "create-write-read", CELL, 0, 0, create_write_read },
    { "stale-version", CELL, 0, 0, stale_version },
    { "version-never-comes-back", CELL, 0, 0, version_never_comes_back },
    { "large-value", CELL, 0, 0, large_value },
    { "any-bytes", CELL, 0, 0, any_bytes },
    { "many-sizes", CELL, 0, 0, many_sizes },
    { "crowd-adds-exactly", CELL, 0, 0, crowd_adds_exactly },
    { "cell-is-shown", CELL, HF_CAP_INSPECT, 0, cell_is_shown },
    { "cell-between-processes", CELL, HF_CAP_PROCESSES, 0, cell_between_processes },
    { "cell-outlives-its-maker", CELL, 0, 0, cell_outlives_its_maker },
    { "lost-reply-writes-once", CELL, NEED_FAULT, 0, lost_reply_writes_once },
    { NULL, 0, 0, 0, NULL },
};
