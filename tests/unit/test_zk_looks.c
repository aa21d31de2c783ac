/* SPDX-License-Identifier: MIT */
/*
 * Inspect, evict, revoke and diagnose of the zookeeper store, on a server inside the
 * test: which entries a tree gives, in which order, and what follows when the
 * connection ends on the way.
 */
#include "unit.h"

#include "zk_sweep.h"

#include <stdio.h>
#include <string.h>

#define a sweep_a
#define b sweep_b
#define UUID(n) "_c_0000000" #n "-0000-0000-0000-000000000000"
#define OTHER INT64_C(0x4242)

static struct hf_request request;

static void begin_with(const char *options)
{
    tree_begin();
    tree_open(&a, options);
    tree_open(&b, options);
}

static void begin(void)
{
    begin_with("");
}

static void end(void)
{
    tree_close(&a);
    tree_close(&b);
    tree_end();
}

static int64_t put(const char *path, const char *data)
{
    return tree_put_at(path, data, OTHER)->czxid;
}

static void inspect(const char *name, bool prefix, size_t rows)
{
    request = fake_request(HF_INSPECT, name);
    request.prefix = prefix;
    ck_assert_int_eq(tree_ask(&a, &request, NULL), 0);
    ck_assert_msg(a.entry_count == rows, "%zu rows of %s", a.entry_count, name);
}

static void row(size_t at, const char *name, int kind, int role, uint64_t token)
{
    const struct fake_entry *found = &a.entries[at];
    ck_assert_str_eq(found->name, name);
    ck_assert_int_eq(found->entry.kind, kind);
    ck_assert_int_eq(found->entry.role, role);
    ck_assert_uint_eq(found->entry.token, token);
}

/* ---- Inspect --------------------------------------------------------------------- */

START_TEST(a_queue_of_mutexes)
{
    begin();
    put("/jobs/b-lock-0000000007", "10.0.0.1");
    int64_t first = put("/jobs/z-lock-0000000003", "10.0.0.2");
    put("/jobs/a-lock-0000000012", "");
    tree_put("/jobs/notes", "no lock");
    tree_put("/jobs/123", "no lock");
    inspect("jobs", false, 3);
    row(0, "jobs", HF_MUTEX, HF_HOLDER, (uint64_t)first);
    row(1, "jobs", HF_MUTEX, HF_WAITER, 0);
    row(2, "jobs", HF_MUTEX, HF_WAITER, 0);
    ck_assert_str_eq(a.entries[0].host, "10.0.0.2");
    ck_assert_str_eq(a.entries[1].host, "10.0.0.1");
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(a.entries[i].entry.place, i ? i - 1 : 0);
        ck_assert_uint_eq(a.entries[i].entry.permits, 1);
        ck_assert_uint_eq(a.entries[i].entry.limit, 1);
        ck_assert_int_eq(a.entries[i].entry.since_ms, -1);
        ck_assert_int_eq(a.entries[i].entry.left_ms, HF_FOREVER);
    }
    end();
}
END_TEST

/* Readers without a writer before them are admitted. */
START_TEST(readers_and_writers)
{
    begin();
    put("/rw/a-__READ__0000000001", "");
    put("/rw/b-__READ__0000000002", "");
    put("/rw/c-__WRIT__0000000003", "");
    put("/rw/d-__READ__0000000004", "");
    inspect("rw", false, 4);
    static const int kinds[] = { HF_READ, HF_READ, HF_WRITE, HF_READ };
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(a.entries[i].entry.kind, kinds[i]);
        ck_assert_int_eq(a.entries[i].entry.role, i < 2 ? HF_HOLDER : HF_WAITER);
        ck_assert_uint_eq(a.entries[i].entry.place, i == 3 ? 1 : 0);
    }
    tree_delete("/rw/a-__READ__0000000001");
    tree_delete("/rw/b-__READ__0000000002");
    inspect("rw", false, 2);
    ck_assert_int_eq(a.entries[0].entry.role, HF_HOLDER);
    ck_assert_int_eq(a.entries[1].entry.role, HF_WAITER);
    end();
}
END_TEST

/* What our own clients say of themselves. */
START_TEST(our_own_holders)
{
    begin();
    struct hf_ticket hold = fake_ticket("own", HF_FAIR),
                     next = fake_ticket("own", HF_FAIR);
    hold.ttl_ns = INT64_C(4000000000);
    hold.note = "row 42";
    sweep_hold(&b, &hold);
    uint64_t token = (uint64_t)tree_first("own/")->czxid;
    tree_queue(&b, &next);
    tree_sleep(1000);
    inspect("own", false, 2);
    row(0, "own", HF_FAIR, HF_HOLDER, token);
    row(1, "own", HF_FAIR, HF_WAITER, 0);
    ck_assert_str_eq(a.entries[0].note, "row 42");
    ck_assert_str_eq(a.entries[0].program, "fake");
    ck_assert_int_gt(a.entries[0].entry.pid, 0);
    ck_assert_int_ge(a.entries[0].entry.since_ms, 1000);
    ck_assert_int_lt(a.entries[0].entry.since_ms, 1100);
    ck_assert_int_eq(a.entries[0].entry.left_ms, 4000 - a.entries[0].entry.since_ms);
    ck_assert_int_eq(a.entries[1].entry.left_ms, HF_FOREVER);
    tree_leave(&b, &next);
    sweep_leave(&b, &hold);
    inspect("own", false, 0);
    end();
}
END_TEST

/* A row per hold, with all its leases; the queue of a semaphore only waits. */
START_TEST(semaphores)
{
    begin();
    int64_t one = put("/sem/leases/" UUID(1) "-lease-0000000001", "");
    put("/sem/leases/" UUID(1) "-lease-0000000002", "");
    int64_t two = put("/sem/leases/" UUID(2) "-x90-lease-0000000003", "");
    int64_t three = put("/sem/leases/foreign", "host");
    put("/sem/locks/" UUID(4) "-lock-0000000001", "");
    put("/sem/locks/" UUID(5) "-lock-0000000002", "");
    tree_set("/sem", "holdfast permits limit=100");
    inspect("sem", false, 5);
    row(0, "sem", HF_PERMITS, HF_HOLDER, (uint64_t)one);
    row(1, "sem", HF_PERMITS, HF_HOLDER, (uint64_t)two);
    row(2, "sem", HF_PERMITS, HF_HOLDER, (uint64_t)three);
    static const uint32_t permits[] = { 2, 90, 1, 1, 1 };
    for (size_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(a.entries[i].entry.permits, permits[i]);
        ck_assert_uint_eq(a.entries[i].entry.limit, 100);
        ck_assert_uint_eq(a.entries[i].entry.place, i == 4 ? 1 : 0);
    }
    row(3, "sem", HF_PERMITS, HF_WAITER, 0);
    end();
}
END_TEST

START_TEST(weights_do_not_overflow)
{
    begin();
    put("/sem/leases/" UUID(1) "-x4294967295-lease-0000000001", "");
    put("/sem/leases/" UUID(1) "-x7-lease-0000000002", "");
    put("/sem/leases/" UUID(2) "-x4294967290-lease-0000000003", "");
    put("/sem/leases/" UUID(2) "-x5-lease-0000000004", "");
    inspect("sem", false, 2);
    ck_assert_uint_eq(a.entries[0].entry.permits, UINT32_MAX);
    ck_assert_uint_eq(a.entries[1].entry.permits, UINT32_MAX);
    end();
}
END_TEST

START_TEST(expiring_permits)
{
    begin();
    int64_t one = put("/e/hf%expiring/leases/" UUID(1) "-lease-0000000001", "");
    put("/e/hf%expiring/locks/" UUID(2) "-lock-0000000001", "");
    tree_set("/e/hf%expiring", "holdfast expiring limit=7");
    inspect("e", false, 2);
    row(0, "e", HF_EXPIRING, HF_HOLDER, (uint64_t)one);
    row(1, "e", HF_EXPIRING, HF_WAITER, 0);
    ck_assert_uint_eq(a.entries[0].entry.limit, 7);
    end();
}
END_TEST

START_TEST(objects)
{
    begin();
    put("/l/hf%wait-x", "");
    put("/l/hf%wait-y", "");
    tree_put("/l/hf%latch", "holdfast latch left=12");
    tree_put("/l/hf%gate", "");
    int64_t version = tree_put("/c/hf%cell", "value")->mzxid;
    inspect("l", false, 3);
    row(0, "l", HF_LATCH, HF_OBJECT, 0);
    ck_assert_uint_eq(a.entries[0].entry.permits, 12);
    row(1, "l", HF_LATCH, HF_WAITER, 0);
    ck_assert_uint_eq(a.entries[1].entry.place, 0);
    ck_assert_uint_eq(a.entries[2].entry.place, 1);
    inspect("c", false, 1);
    row(0, "c", HF_CELL, HF_OBJECT, (uint64_t)version);
    ck_assert_int_eq(a.entries[0].entry.left_ms, HF_FOREVER);
    ck_assert_int_eq(a.entries[0].entry.since_ms, -1);
    tree_set("/l/hf%latch", "nothing of ours, and longer than a latch would ever be, "
                            "in any case");
    inspect("l", false, 3);
    ck_assert_uint_eq(a.entries[0].entry.permits, 0);
    end();
}
END_TEST

/* ---- By prefix ------------------------------------------------------------------- */

static void put_many(void)
{
    put("/app/one/x-lock-0000000001", "");
    put("/app/one/deep/er/x-lock-0000000001", "");
    put("/app/only/x-lock-0000000001", "");
    put("/app/two/x-lock-0000000001", "");
    put("/apple/x-lock-0000000001", "");
    put("/app/sem/leases/" UUID(1) "-lease-0000000001", "");
    put("/app/sem/locks/" UUID(1) "-lock-0000000001", "");
    put("/app/my/locks/x-lock-0000000001", ""); /* a name that ends so */
    put("/zookeeper/x-lock-0000000001", "");
    put("/%7Ano/x-lock-0000000001", ""); /* no name has this path */
}

static bool has_row(const char *name)
{
    size_t found = 0;
    for (size_t i = 0; i < a.entry_count; i++)
        found += strcmp(a.entries[i].name, name) == 0;
    return found > 0;
}

START_TEST(by_prefix)
{
    begin();
    put_many();
    inspect("", true, 8);
    inspect("app", true, 8);
    inspect("app/", true, 7);
    inspect("app/o", true, 3);
    ck_assert(has_row("app/one") && has_row("app/one/deep/er") && has_row("app/only"));
    inspect("app/one", true, 2);
    inspect("app/one/", true, 1);
    ck_assert(has_row("app/one/deep/er"));
    inspect("app/one/d", true, 1);
    inspect("app/one/deep/er", true, 1);
    inspect("app/one/deep/erx", true, 0);
    inspect("apple", true, 1);
    inspect("nothing/at/all", true, 0);
    inspect("app/my/lo", true, 1);
    ck_assert(has_row("app/my/locks"));
    inspect("app/sem", true, 2);
    inspect("app/one", false, 1);
    inspect("app", false, 0);
    end();
}
END_TEST

/* Names with odd slashes have encoded paths: they are found from the top. */
START_TEST(by_an_odd_prefix)
{
    static const char *const names[] = { "/front", "a//b", "end/", "a/b//c/d" };
    begin();
    for (size_t i = 0; i < 4; i++) {
        static struct hf_ticket kept[4];
        kept[i] = fake_ticket(names[i], HF_MUTEX);
        sweep_hold(&b, &kept[i]);
    }
    inspect("", true, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert(has_row(names[i]));
    inspect("/", true, 1);
    inspect("a//", true, 1);
    inspect("a//b", true, 1);
    inspect("a/b//", true, 1);
    inspect("a/b//c/", true, 1);
    inspect("a", true, 2);
    inspect("end/", true, 1);
    b.count = 0;
    end();
}
END_TEST

START_TEST(by_prefix_in_one_layer)
{
    begin_with("?layout=single");
    int64_t one = put("/app%2Fone", "10.0.0.1");
    put("/app%2Ftwo", "");
    tree_put("/folder", "");
    inspect("app/one", false, 1);
    row(0, "app/one", HF_MUTEX, HF_HOLDER, (uint64_t)one);
    inspect("app/", true, 2);
    inspect("", true, 2);
    inspect("app/t", true, 1);
    end();
}
END_TEST

/* Names of a folder that may not be listed are left out of a walk, and an error for who
 * asks for that name. A node that may not be read is told of. */
START_TEST(what_may_not_be_read)
{
    hf_error why;
    begin();
    put_many();
    tree.error = ZK_NOAUTH;
    tree.deny = ZK_OPCODE_CHILDREN2;
    tree.deny_path = "/app/one";
    inspect("app/", true, 5);
    request = fake_request(HF_INSPECT, "app/one");
    ck_assert_int_eq(tree_ask(&a, &request, &why), HF_EREFUSED);
    tree.deny_path = "=/"; /* a walk begins as deep as it can */
    inspect("app/one/deep", true, 1);
    tree.deny_path = "=/app";
    inspect("app/one/deep/e", true, 1);
    tree.deny = ZK_OPCODE_GET;
    tree.deny_path = "x-lock";
    inspect("app/one", false, 1);
    row(0, "app/one", HF_MUTEX, HF_HOLDER,
        (uint64_t)tree_find("/app/one/x-lock-0000000001")->czxid);
    ck_assert_str_eq(a.entries[0].host, "");
    end();
}
END_TEST

/* ---- Evict, revoke --------------------------------------------------------------- */

static int evict(const char *name, uint64_t token)
{
    request = fake_request(HF_EVICT, name);
    request.number = token;
    return tree_ask(&a, &request, NULL);
}

START_TEST(an_eviction_takes_one_holder)
{
    begin();
    int64_t one = put("/sem/leases/" UUID(1) "-lease-0000000001", "");
    put("/sem/leases/" UUID(1) "-lease-0000000002", "");
    put("/sem/leases/" UUID(2) "-lease-0000000003", "");
    put("/sem/locks/" UUID(1) "-lock-0000000001", "");
    int64_t foreign = put("/sem/leases/foreign", "");
    ck_assert_int_eq(evict("sem", (uint64_t)one + 1000), HF_ENOENT);
    ck_assert_int_eq(evict("sem", (uint64_t)one), 0);
    ck_assert_uint_eq(tree_count("/sem/leases/_c_00000001"), 0);
    ck_assert_uint_eq(tree_count("/sem/leases/_c_00000002"), 1);
    ck_assert_uint_eq(tree_count("/sem/locks/_c_00000001"), 1); /* it waits on */
    ck_assert_int_eq(evict("sem", (uint64_t)foreign), 0);
    ck_assert_uint_eq(tree_count("foreign"), 0);
    ck_assert_int_eq(evict("nobody", 5), HF_ENOENT);
    end();
}
END_TEST

/* A waiter's node is not a holder's, whatever its number. */
START_TEST(an_eviction_of_a_waiter)
{
    begin();
    put("/m/x-lock-0000000001", "");
    int64_t waiter = put("/m/y-lock-0000000002", "");
    ck_assert_int_eq(evict("m", (uint64_t)waiter), HF_ENOENT);
    ck_assert_uint_eq(tree_count("-lock-"), 2);
    end();
}
END_TEST

/* The folder goes with its last node: released meanwhile. */
static void release_all(void)
{
    tree_delete("/m/" UUID(1) "-lock-0000000001");
    tree_reap();
}

START_TEST(released_while_it_is_evicted)
{
    begin();
    int64_t token = put("/m/" UUID(1) "-lock-0000000001", "");
    tree.call = release_all;
    tree_spoil(4, TREE_CALL); /* a sync, the folder, the node; then the list again */
    ck_assert_int_eq(evict("m", (uint64_t)token), HF_ENOENT);
    ck_assert(tree.spoilt);
    end();
}
END_TEST

#define WRITER "/rw/" UUID(1) "-__WRIT__0000000001"
#define READER "/rw/" UUID(1) "-__READ__0000000001"

static char of_reader[96];

static void downgrade(void)
{
    tree_delete(WRITER);
    put(READER, of_reader);
}

/* The writer becomes a reader on the way: it is the same hold, and is taken away. */
START_TEST(downgraded_while_it_is_evicted)
{
    for (unsigned nth = 1; nth <= 5; nth++) {
        begin();
        int64_t token = put(WRITER, "");
        put("/rw/" UUID(2) "-__WRIT__0000000002", "");
        snprintf(of_reader, sizeof of_reader, "holdfast kind=read token=%lld",
                 (long long)token);
        tree.call = downgrade;
        tree_spoil(nth, TREE_CALL);
        ck_assert_int_eq(evict("rw", (uint64_t)token), 0);
        ck_assert(tree.spoilt);
        ck_assert_uint_eq(tree_count(UUID(1)), 0);
        ck_assert_uint_eq(tree_count(UUID(2)), 1);
        end();
    }
}
END_TEST

static void delete_foreign(void)
{
    tree_delete("/m/foreign-lock-0000000001");
}

START_TEST(a_foreign_node_deleted_while_evicted)
{
    begin();
    int64_t token = put("/m/foreign-lock-0000000001", "");
    tree.call = delete_foreign;
    tree_spoil(4, TREE_CALL);
    ck_assert_int_eq(evict("m", (uint64_t)token), HF_ENOENT);
    ck_assert(tree.spoilt);
    end();
}
END_TEST

static void evict_all(void)
{
    sweep_tickets(HF_PERMITS, 2, 3);
    sweep_hold(&b, &sweep_two);
    fake_interest(&b, &sweep_two);
    tree_rest();
    uint64_t token = (uint64_t)tree_first("-lease-")->czxid;
    int rc = evict("jobs/nightly", token);
    ck_assert(rc == 0 || rc == HF_ENOENT); /* asked again, it may be done */
    ck_assert_uint_eq(tree_count("-lease-"), 0);
    tree_rest();
    tree_leave(&b, &sweep_two);
    ck_assert_uint_eq(tree.losses, sweep_short ? tree.losses : 1); /* no watch there */
    tree.losses = 0;
}

START_TEST(evictions)
{
    sweep("", evict_all);
}
END_TEST

static int revoke(const char *name, uint64_t token)
{
    request = fake_request(HF_REVOKE, name);
    request.number = token;
    return tree_ask(&a, &request, NULL);
}

static bool is_revoked(const char *path)
{
    const struct tree_node *node = tree_find(path);
    return node->len == 10 && memcmp(node->data, "__REVOKE__", 10) == 0;
}

START_TEST(a_revocation_is_written_to_holders)
{
    begin();
    put("/rw/a-__READ__0000000001", "");
    int64_t second = put("/rw/b-__READ__0000000002", "");
    put("/rw/c-__WRIT__0000000003", "");
    ck_assert_int_eq(revoke("rw", (uint64_t)second), 0);
    ck_assert(!is_revoked("/rw/a-__READ__0000000001"));
    ck_assert(is_revoked("/rw/b-__READ__0000000002"));
    ck_assert_int_eq(revoke("rw", 0), 0);
    ck_assert(is_revoked("/rw/a-__READ__0000000001"));
    ck_assert(!is_revoked("/rw/c-__WRIT__0000000003"));
    ck_assert_int_eq(revoke("rw", 5), HF_ENOENT);
    ck_assert_int_eq(revoke("nobody", 0), HF_ENOENT);
    end();
}
END_TEST

/* The holder hears of it once for each time it is asked, and of nothing else. */
static void revoke_ours(void)
{
    sweep_tickets(HF_MUTEX, 1, 1);
    sweep_hold(&a, &sweep_one);
    fake_interest(&a, &sweep_one);
    tree_rest();
    for (int i = 0; i < 3 && !a.count && !tree.losses && !sweep_short; i++) {
        const struct tree_node *node = tree_first("jobs/nightly/");
        if (!node)
            break; /* it went with its session */
        tree_set(node->path, i ? "__REVOKE__" : "something else");
        tree_rest();
        ck_assert_uint_eq(a.count, i || sweep_ended ? a.count : 0);
        if (!a.count && !tree.losses && i)
            ck_abort_msg("not told");
        if (a.count && a.answers[a.first].code == HF_EVENT_LOST)
            break;
        a.count = 0;
        tree_cut(0); /* it is not told again */
        tree_sleep(1000);
        ck_assert(!a.count || sweep_ended);
    }
    tree_leave(&a, &sweep_one);
}

START_TEST(revocations)
{
    sweep("", revoke_ours);
}
END_TEST

static void inspect_all(void)
{
    sweep_tickets(HF_PERMITS, 2, 3);
    sweep_hold(&b, &sweep_two);
    struct hf_ticket mutex = fake_ticket("jobs/daily", HF_MUTEX);
    sweep_hold(&b, &mutex);
    inspect("jobs/", true, 2);
    inspect("", true, 2);
    inspect("jobs/nightly", false, 1);
    ck_assert_uint_eq(a.entries[0].entry.permits, 2);
    sweep_leave(&b, &sweep_two);
    sweep_leave(&b, &mutex);
}

START_TEST(inspections)
{
    sweep("", inspect_all);
}
END_TEST

/* Forgotten on the way. */
START_TEST(a_walk_that_is_forgotten)
{
    begin();
    put_many();
    for (int turns = 0; turns < 8; turns++) {
        struct hf_request *gone = malloc(sizeof *gone);
        *gone = fake_request(HF_INSPECT, "");
        gone->prefix = true;
        a.calls++;
        a.store->ask(a.session, gone);
        a.calls--;
        for (int i = 0; i < turns; i++)
            tree_turn();
        fake_forget(&a, gone);
        free(gone);
        a.count = a.entry_count = 0;
        tree_rest();
        ck_assert_uint_eq(a.entry_count, 0);
    }
    inspect("", true, 8);
    end();
}
END_TEST

/* More than fit under way at a time. */
START_TEST(a_long_walk)
{
    begin();
    for (int i = 0; i < 100; i++) {
        char path[64];
        snprintf(path, sizeof path, "/long/%c-lock-%010d", 'a' + i % 26, 100 - i);
        put(path, "");
    }
    inspect("long", true, 100);
    for (uint32_t i = 1; i < 100; i++)
        ck_assert_uint_eq(a.entries[i].entry.place, i - 1);
    end();
}
END_TEST

UNIT_MAIN("zk_looks", a_queue_of_mutexes, readers_and_writers, our_own_holders,
          semaphores, weights_do_not_overflow, expiring_permits, objects, by_prefix,
          by_an_odd_prefix, by_prefix_in_one_layer, what_may_not_be_read,
          an_eviction_takes_one_holder, an_eviction_of_a_waiter,
          released_while_it_is_evicted, downgraded_while_it_is_evicted,
          a_foreign_node_deleted_while_evicted, evictions,
          a_revocation_is_written_to_holders, revocations, inspections,
          a_walk_that_is_forgotten, a_long_walk)
