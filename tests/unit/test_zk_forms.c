/* SPDX-License-Identifier: MIT */
/*
 * What holdfast writes to a ZooKeeper server besides queues: the line of text in nodes,
 * which kind a folder serves, names and weights of leases, limits. All pure.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../src/backends/zookeeper/leases.h"
#include "../../src/backends/zookeeper/session.h"
#include "../../src/base/clock.h"
#include "../../src/base/mem.h"

static const struct hf_id id = { { UINT64_C(0x0706050403020100),
                                   UINT64_C(0x0f0e0d0c0b0a0908) } };

#define UUID "00010203-0405-0607-0809-0a0b0c0d0e0f"
#define HEX "000102030405060708090a0b0c0d0e0f"

static struct zk_text text(const char *from)
{
    return (struct zk_text){ from, strlen(from) };
}

/* ---- Details --------------------------------------------------------------------- */

static struct zk_identity self_of(const char *program)
{
    struct zk_identity self = { .len = 0 };
    hf__zk_identity_init(&self, program);
    return self;
}

static struct zk_details written(const struct zk_identity *writer,
                                 const struct zk_identity *reader, const char *note,
                                 int64_t ttl_ms, int64_t age_ms)
{
    char line[ZK_DETAILS_SIZE];
    struct zk_details details;
    const struct hf_ticket ticket = {
        .kind = HF_FAIR,
        .permits = 3,
        .limit = 5,
        .ttl_ns = ttl_ms * HF_NS_PER_MS,
        .note = note,
    };
    int64_t now = 1000 * HF_NS_PER_S;
    size_t len = hf__zk_details_write(writer, &ticket, now, 0, line);
    ck_assert_uint_eq(len, strlen(line));
    hf__zk_details_read(reader, line, len, now + age_ms * HF_NS_PER_MS, &details);
    return details;
}

START_TEST(details_come_back)
{
    struct zk_identity self = self_of("night watch 100%");
    struct zk_details details = written(&self, &self, "row 42 = \"x\"", 30000, 1234);
    ck_assert(details.ours);
    ck_assert_str_eq(details.program, "night watch 100%");
    ck_assert_str_eq(details.note, "row 42 = \"x\"");
    ck_assert(details.host[0] != '\0');
    ck_assert_int_eq(details.kind, HF_FAIR);
    ck_assert_int_eq(details.pid, getpid());
    ck_assert_uint_eq(details.permits, 3);
    ck_assert_uint_eq(details.limit, 5);
    ck_assert_uint_eq(details.token, 0);
    ck_assert_int_eq(details.since_ms, 1234);
    ck_assert_int_eq(details.left_ms, 30000 - 1234);
}
END_TEST

START_TEST(a_note_cannot_pose_as_another_field)
{
    struct zk_identity self = self_of("p");
    struct zk_details details =
        written(&self, &self, "a pid=1 token=7 host=evil", 0, 0);
    ck_assert_int_eq(details.pid, getpid());
    ck_assert_uint_eq(details.token, 0);
    ck_assert_str_ne(details.host, "evil");
    ck_assert_str_eq(details.note, "a pid=1 token=7 host=evil");
}
END_TEST

START_TEST(longest_details_fit)
{
    char bad[200];
    memset(bad, '%', sizeof(bad));
    bad[sizeof(bad) - 1] = '\0';
    struct zk_identity self = self_of(bad);
    struct zk_details details = written(&self, &self, bad, INT32_MAX, 0);
    ck_assert_uint_eq(strlen(details.note), HF_NOTE_MAX);
    ck_assert_uint_eq(strlen(details.program), 64);
}
END_TEST

START_TEST(times_of_another_machine_are_not_known)
{
    struct zk_identity here = self_of("p"), there = here;
    memcpy(there.boot, "00000000", sizeof(there.boot));
    struct zk_details details = written(&there, &here, "", 30000, 5000);
    ck_assert_int_eq(details.since_ms, -1);
    ck_assert_int_eq(details.left_ms, 30000);
    details = written(&here, &here, "", 0, 5000);
    ck_assert_int_eq(details.since_ms, 5000);
    ck_assert_int_eq(details.left_ms, HF_FOREVER);
    /* Over by the line alone: it was renewed since. */
    details = written(&here, &here, "", 30000, 31000);
    ck_assert_int_eq(details.left_ms, 30000);
}
END_TEST

START_TEST(data_of_foreign_clients_is_the_host)
{
    static const char *const data[] = { "127.0.0.1", "", "__REVOKE__", "holdfast",
                                        "\x01\x02" };
    struct zk_identity self = self_of("p");
    struct zk_details details;
    for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++) {
        hf__zk_details_read(&self, data[i], strlen(data[i]), 0, &details);
        ck_assert(!details.ours);
        ck_assert_str_eq(details.host, i == 4 ? "??" : data[i]);
        ck_assert_int_eq(details.since_ms, -1);
        ck_assert_uint_eq(details.permits, 1);
    }
}
END_TEST

/* Numbers of any size: none overflows, and none is taken for a smaller one. */
START_TEST(numbers_without_end)
{
    static const char *const sizes[] = { "-9223372036854775808", "-1",
                                         "9223372036854775807", "99999999999999999999",
                                         "4294967296" };
    struct zk_identity self = self_of("p");
    struct zk_details details;
    char line[ZK_DETAILS_SIZE];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int len = snprintf(line, sizeof(line),
                           "holdfast permits=%s/%s ttl=%s since=%s:%s token=%s pid=%s",
                           sizes[i], sizes[i], sizes[i], self.boot, sizes[i], sizes[i],
                           sizes[i]);
        hf__zk_details_read(&self, line, (size_t)len, INT64_MAX, &details);
        ck_assert_uint_eq(details.permits, UINT32_MAX);
        ck_assert_uint_eq(details.limit, UINT32_MAX);
        ck_assert_int_eq(details.since_ms < 0, sizes[i][0] == '-');
        ck_assert_int_eq(details.left_ms == HF_FOREVER, sizes[i][0] == '-');
    }
}
END_TEST

/* Whatever anybody writes there: it is read to its end and no further. */
START_TEST(malformed_data_is_read_safely)
{
    uint64_t seed = 42;
    struct zk_identity self = self_of("p");
    struct zk_details details;
    char line[ZK_DETAILS_SIZE];
    for (int round = 0; round < 20000; round++) {
        size_t len = unit_below(&seed, 64) + 9;
        char *data = malloc(len);
        memcpy(line, "holdfast  pid=%2 note=%A permits=/ since=: ttl=- token=", 56);
        for (size_t i = 0; i < len; i++)
            data[i] =
                i < 56 && unit_below(&seed, 8) ? line[i] : (char)unit_random(&seed);
        hf__zk_details_read(&self, data, len, 0, &details);
        UNIT_ASSERT(strlen(details.note) <= HF_NOTE_MAX);
        free(data);
    }
}
END_TEST

/* One that begins like ours and is longer than any of ours. */
START_TEST(a_line_too_long_is_foreign)
{
    char *line = malloc(2 * ZK_DETAILS_SIZE);
    struct zk_identity self = self_of("p");
    struct zk_details details;
    for (size_t len = ZK_DETAILS_SIZE; len <= 2 * ZK_DETAILS_SIZE; len++) {
        memset(line, 'x', len);
        memcpy(line, "holdfast pid=7 ", 15);
        hf__zk_details_read(&self, line, len, 0, &details);
        ck_assert(!details.ours);
        ck_assert_int_eq(details.pid, 0);
    }
    free(line);
}
END_TEST

START_TEST(a_token_that_is_written_comes_back)
{
    char line[ZK_DETAILS_SIZE];
    struct zk_identity self = self_of("p");
    struct zk_details details;
    const struct hf_ticket ticket = {
        .kind = HF_READ, .permits = 1, .limit = 1, .note = "n"
    };
    size_t len = hf__zk_details_write(&self, &ticket, 0, UINT64_C(0x100000002a), line);
    hf__zk_details_read(&self, line, len, 0, &details);
    ck_assert_uint_eq(details.token, UINT64_C(0x100000002a));
    ck_assert_str_eq(details.note, "n");
    ck_assert_int_eq(details.kind, HF_READ);
}
END_TEST

/* ---- Kinds ----------------------------------------------------------------------- */

static int32_t clash(const char *child, int32_t kind)
{
    struct zk_text names[] = { text("some-longer-name"), text(child) };
    return hf__zk_kind_clash(LAYOUT_CURATOR, names, 2, kind);
}

START_TEST(kinds_do_not_mix)
{
    static const struct {
        const char *child;
        int32_t kind, seen;
    } of[] = {
        { "_c_" UUID "-lock-0000000007", HF_MUTEX, HF_MUTEX },
        { "_c_" UUID "-__READ__0000000007", HF_READ, HF_READ },
        { "_c_" UUID "-__WRIT__0000000007", HF_WRITE, HF_READ },
        { "leases", HF_PERMITS, KIND_MAYBE },
        { "hf%expiring", HF_EXPIRING, KIND_MAYBE },
        { "hf%latch", HF_LATCH, HF_LATCH },
        { "hf%gate", HF_LATCH, HF_LATCH },
        { "hf%cell", HF_CELL, HF_CELL },
    };
    static const int32_t asked[] = { HF_MUTEX,    HF_READ,  HF_PERMITS,
                                     HF_EXPIRING, HF_LATCH, HF_CELL };
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
        for (size_t j = 0; j < sizeof(asked) / sizeof(asked[0]); j++) {
            bool same = asked[j] == of[i].kind ||
                        (of[i].kind == HF_WRITE && asked[j] == HF_READ);
            ck_assert_int_eq(clash(of[i].child, asked[j]), same ? 0 : of[i].seen);
        }
    ck_assert_int_eq(clash("_c_" UUID "-lock-0000000007", HF_FAIR), 0);
    ck_assert_int_eq(clash("hf%wait-" UUID, HF_MUTEX), 0);
    ck_assert_int_eq(clash("hf%done-" UUID, HF_MUTEX), 0);
    ck_assert_int_eq(clash("locks", HF_MUTEX), 0);
}
END_TEST

/* For kazoo a lock is a writer, too. */
START_TEST(kazoo_locks_are_writers)
{
    struct zk_text lock = text(HEX "__lock__0000000001");
    struct zk_text reader = text(HEX "__rlock__0000000001");
    ck_assert_int_eq(hf__zk_kind_clash(LAYOUT_KAZOO, &lock, 1, HF_WRITE), 0);
    ck_assert_int_eq(hf__zk_kind_clash(LAYOUT_KAZOO, &reader, 1, HF_MUTEX), 0);
    ck_assert_int_eq(hf__zk_kind_clash(LAYOUT_KAZOO, &lock, 1, HF_PERMITS), HF_MUTEX);
}
END_TEST

/* Curator sorts by whole name what it does not know: ours must not come before 0. */
START_TEST(our_nodes_sort_behind_numbers)
{
    static const char *const nodes[] = { NODE_LATCH,   NODE_GATE,    NODE_WAIT,
                                         NODE_CELL,    NODE_DONE,    FOLDER_EXPIRING,
                                         FOLDER_LOCKS, FOLDER_LEASES };
    char name[HF_NAME_MAX + 1];
    size_t len;
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        ck_assert_int_gt(strcmp(nodes[i] + 1, "9999999999"), 0);
        if (i < 6) /* and no name has such a path */
            ck_assert(!hf__zk_folder_read(nodes[i], strlen(nodes[i]), name, &len));
    }
}
END_TEST

/* ---- Leases ---------------------------------------------------------------------- */

static uint32_t weight(enum layout layout, const char *name)
{
    struct zk_text as_text = text(name);
    return hf__zk_lease_weight(layout, &as_text);
}

START_TEST(leases_have_names_and_weights)
{
    char name[NODE_SIZE];
    hf__zk_lease_name_write(name, LAYOUT_CURATOR, &id, 3, 1);
    ck_assert_str_eq(name, "_c_" UUID "-lease-");
    ck_assert_uint_eq(weight(LAYOUT_CURATOR, "_c_" UUID "-lease-0000000001"), 1);
    hf__zk_lease_name_write(name, LAYOUT_CURATOR, &id, UINT32_MAX, 0);
    ck_assert_str_eq(name, "_c_" UUID "-x4294967295-lease-");
    ck_assert_uint_lt(strlen(name) + 11, NODE_SIZE); /* with a number behind it */
    ck_assert_uint_eq(
        weight(LAYOUT_CURATOR, "_c_" UUID "-x4294967295-lease-0000000001"), UINT32_MAX);
    ck_assert_uint_eq(weight(LAYOUT_CURATOR, "anything"), 1);
    ck_assert_uint_eq(weight(LAYOUT_CURATOR, "_c_" UUID "-x0-lease-0000000001"), 1);
    ck_assert_uint_eq(weight(LAYOUT_CURATOR, "_c_" UUID "-x99999999999-lease-01"), 1);
    ck_assert_uint_eq(weight(LAYOUT_CURATOR, "_c_" UUID "-x"), 1);
    ck_assert_uint_eq(hf__zk_lease_node_count(1), 1);
    ck_assert_uint_eq(hf__zk_lease_node_count(LEASE_NODES), LEASE_NODES);
    ck_assert_uint_eq(hf__zk_lease_node_count(LEASE_NODES + 1), 1);
}
END_TEST

/* What only looks like a weight is none, and a name is read to its end. */
START_TEST(weights_of_foreign_leases)
{
    static const char *const ones[] = {
        "_c_" UUID "_x7-lease-0000000001",
        "_c_" UUID "-y7-lease-0000000001",
        "_c_" UUID "xx7-lease-0000000001",
        "_c_" UUID "-x+7-lease-000000001",
        "_c_" UUID "-x 7-lease-000000001",
        "_c_" UUID "-x-7-lease-000000001",
        "_c_" UUID "-x/7",
        "_c_" UUID "-x:7",
        "_c_" UUID,
        "_c_" UUID "-",
    };
    for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++)
        ck_assert_uint_eq(weight(LAYOUT_CURATOR, ones[i]), 1);
    struct zk_text cut = text("_c_" UUID "-x1234");
    for (uint32_t left = 0, is = 1234; left < 4; left++, is /= 10, cut.len--)
        ck_assert_uint_eq(hf__zk_lease_weight(LAYOUT_CURATOR, &cut), is);
    ck_assert_uint_eq(hf__zk_lease_weight(LAYOUT_CURATOR, &cut), 1);
    ck_assert_uint_eq(weight(LAYOUT_CURATOR, "_c_" UUID "-x90"), 90);
    ck_assert_uint_eq(weight(LAYOUT_CURATOR, "_c_" UUID "-x09z"), 9);
}
END_TEST

START_TEST(kazoo_leases_have_names_and_weights)
{
    char name[NODE_SIZE];
    hf__zk_lease_name_write(name, LAYOUT_KAZOO, &id, 1, 0);
    ck_assert_str_eq(name, HEX);
    hf__zk_lease_name_write(name, LAYOUT_KAZOO, &id, 3, 2);
    ck_assert_str_eq(name, HEX "-2");
    hf__zk_lease_name_write(name, LAYOUT_KAZOO, &id, 500, 0);
    ck_assert_str_eq(name, HEX "-x500");
    ck_assert_uint_eq(weight(LAYOUT_KAZOO, HEX), 1);
    ck_assert_uint_eq(weight(LAYOUT_KAZOO, HEX "-x500"), 500);
    ck_assert_uint_eq(weight(LAYOUT_KAZOO, "longer-name"), 0);
    ck_assert_uint_eq(weight(LAYOUT_KAZOO, HEX "__lock__0000000001"), 0);
}
END_TEST

START_TEST(limits_come_back)
{
    static const enum layout layouts[] = { LAYOUT_CURATOR, LAYOUT_KAZOO };
    static const int32_t kinds[] = { HF_PERMITS, HF_EXPIRING };
    for (size_t i = 0; i < 4; i++) {
        char line[LIMIT_SIZE];
        uint32_t limit = 0;
        struct zk_text data = { line, hf__zk_limit_write(line, layouts[i / 2],
                                                         kinds[i % 2], UINT32_MAX) };
        ck_assert_int_eq(hf__zk_limit_read(layouts[i / 2], kinds[i % 2], &data, &limit),
                         LIMIT_THERE);
        ck_assert_uint_eq(limit, UINT32_MAX);
    }
}
END_TEST

START_TEST(what_is_no_limit_is_left_alone)
{
    static const char *const others[] = {
        "10.0.0.1", "holdfast permits limit=", "holdfast permits limit=x",
        "holdfast permits limit=4294967296", "holdfast expiring limit=5"
    };
    struct zk_text none = text("");
    uint32_t limit = 0;
    ck_assert_int_eq(hf__zk_limit_read(LAYOUT_CURATOR, HF_PERMITS, &none, &limit),
                     LIMIT_NONE);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct zk_text data = text(others[i]);
        ck_assert_int_eq(hf__zk_limit_read(LAYOUT_CURATOR, HF_PERMITS, &data, &limit),
                         LIMIT_FOREIGN);
    }
}
END_TEST

START_TEST(semaphores_have_folders)
{
    struct lease_folders at;
    ck_assert(hf__zk_lease_folders_write(&at, LAYOUT_CURATOR, HF_PERMITS, "a/b", 3));
    ck_assert_str_eq(at.base, "/a/b");
    ck_assert_str_eq(at.locks, "/a/b/locks");
    ck_assert_str_eq(at.leases, "/a/b/leases");
    hf__free(at.name);
    ck_assert(hf__zk_lease_folders_write(&at, LAYOUT_CURATOR, HF_EXPIRING, "a/b", 3));
    ck_assert_str_eq(at.name, "/a/b");
    ck_assert_str_eq(at.base, "/a/b/hf%expiring");
    ck_assert_str_eq(at.leases, "/a/b/hf%expiring/leases");
    hf__free(at.name);
    ck_assert(hf__zk_lease_folders_write(&at, LAYOUT_KAZOO, HF_PERMITS, "a/b", 3));
    ck_assert_str_eq(at.locks, "/a/b-__lock__");
    ck_assert_str_eq(at.leases, "/a/b");
    hf__free(at.name);
}
END_TEST

UNIT_MAIN("zk_forms", details_come_back, a_note_cannot_pose_as_another_field,
          longest_details_fit, times_of_another_machine_are_not_known,
          data_of_foreign_clients_is_the_host, numbers_without_end,
          malformed_data_is_read_safely, a_line_too_long_is_foreign,
          a_token_that_is_written_comes_back, kinds_do_not_mix, kazoo_locks_are_writers,
          our_nodes_sort_behind_numbers, leases_have_names_and_weights,
          weights_of_foreign_leases, kazoo_leases_have_names_and_weights,
          limits_come_back, what_is_no_limit_is_left_alone, semaphores_have_folders)
