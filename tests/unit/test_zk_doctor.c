/* SPDX-License-Identifier: MIT */
/*
 * What hf_diagnose() reports of a ZooKeeper ensemble, on a server inside the test: each
 * trap is found where it exists, counted, and shown by an example; no trap is reported
 * where there is none.
 */
#include "unit.h"

#include "zk_sweep.h"

#include <stdio.h>
#include <string.h>

#define a sweep_a

static struct hf_request request;

static void begin(const char *options)
{
    tree_begin();
    tree_open(&a, options);
}

static void end(void)
{
    tree_close(&a);
    tree_end();
}

static const struct fake_finding *found(const char *topic)
{
    for (size_t i = 0; i < a.finding_count; i++)
        if (strcmp(a.findings[i].topic, topic) == 0)
            return &a.findings[i];
    return NULL;
}

static void diagnose(void)
{
    request = fake_request(HF_DIAGNOSE, "");
    ck_assert_int_eq(tree_ask(&a, &request, NULL), 0);
}

/* Exactly this much of the finding; a fix where there is something to fix. */
static void says(const char *topic, int level, const char *what)
{
    const struct fake_finding *finding = found(topic);
    ck_assert_msg(finding != NULL, "nothing about %s", topic);
    ck_assert_int_eq(finding->level, level);
    ck_assert_str_eq(finding->what, what);
    ck_assert_int_eq(finding->fix[0] != '\0', level != HF_GOOD);
}

START_TEST(all_is_well)
{
    begin("");
    tree_put("/a/x-lock-0000000001", "");
    tree_put("/b/x-__READ__2000000000", "");
    tree_put("/b/%25x", "");
    tree_put("/b/:x", "");
    tree_put("/c/leases/x-lease-0000000001", "");
    tree_put("/c/0", "");
    diagnose();
    ck_assert_uint_eq(a.finding_count, 3);
    says("session", HF_GOOD, "a session of 10000 ms");
    says("distance", HF_GOOD, "the server answers within 0 us");
    says("names", HF_GOOD, "2 queues, all in order");
    end();
}
END_TEST

START_TEST(children_that_sort_before_locks)
{
    begin("");
    tree_put("/a/x-lock-0000000001", "");
    tree_put("/a/9", "");
    tree_put("/a/-", "");
    diagnose();
    const struct fake_finding *finding = found("children");
    ck_assert_ptr_nonnull(finding);
    ck_assert_int_eq(finding->level, HF_TRAP);
    ck_assert_ptr_nonnull(strstr(finding->what, "2 children"));
    ck_assert_ptr_nonnull(strstr(finding->what, "as /a/9"));
    ck_assert_ptr_null(found("names"));
    end();
}
END_TEST

START_TEST(numbers_that_are_used_up)
{
    begin("");
    tree_put("/a/x-lock-2000000001", "");
    tree_put("/a/y-lock-2000000000", "");
    tree_put("/b/z-lock--2147483648", "");
    diagnose();
    const struct fake_finding *finding = found("numbers");
    ck_assert_ptr_nonnull(finding);
    ck_assert_int_eq(finding->level, HF_TRAP);
    ck_assert_ptr_nonnull(strstr(finding->what, "2 nodes"));
    ck_assert_ptr_nonnull(strstr(finding->what, "as /a/x-lock-2000000001"));
    ck_assert_ptr_null(found("names"));
    ck_assert_ptr_null(found("children"));
    ck_assert_ptr_null(found("kinds"));
    end();
}
END_TEST

START_TEST(kinds_that_are_mixed)
{
    begin("");
    tree_put("/a/x-lock-0000000001", "");
    tree_put("/a/x-__WRIT__0000000002", "");
    tree_put("/b/x-__READ__0000000001", "");
    tree_put("/b/x-__WRIT__0000000002", "");
    diagnose();
    const struct fake_finding *finding = found("kinds");
    ck_assert_ptr_nonnull(finding);
    ck_assert_int_eq(finding->level, HF_TRAP);
    ck_assert_ptr_nonnull(strstr(finding->what, "1 folders"));
    ck_assert_ptr_nonnull(strstr(finding->what, "as /a/x-"));
    ck_assert_ptr_null(found("names"));
    end();
}
END_TEST

/* The example of a long name is cut, and what it says fits. */
START_TEST(a_long_example)
{
    char path[420], child[200];
    begin("");
    memset(child, '1', sizeof child);
    child[150] = '\0';
    snprintf(path, sizeof path, "/%s/x-lock-0000000001", child);
    tree_put(path, "");
    snprintf(path, sizeof path, "/%s/%s", child, child);
    tree_put(path, "");
    diagnose();
    const struct fake_finding *finding = found("children");
    ck_assert_ptr_nonnull(finding);
    const char *slash = strrchr(finding->what, '/');
    ck_assert_uint_eq(strlen(slash + 1), 64);
    end();
}
END_TEST

static void with_config(const char *config)
{
    if (tree_find("/zookeeper/config"))
        tree_set("/zookeeper/config", config);
    else
        tree_put("/zookeeper/config", config);
    diagnose();
}

START_TEST(servers_are_counted)
{
    begin("");
    diagnose();
    ck_assert_ptr_null(found("servers")); /* it does not say */
    with_config("version=0");
    says("servers", HF_REMARK, "one server, without an ensemble");
    with_config("server.1=a:1:2:participant;x\nserver.2=b:1:2:participant;x\n"
                "server.3=c:1:2:participant;x\nversion=0");
    says("servers", HF_GOOD, "an ensemble of 3 servers");
    with_config("server.1=a:1:2:participant;x\nserver.2=b:1:2:participant;x");
    says("servers", HF_REMARK, "an ensemble of 2 servers");
    with_config("server.1=a:1:2:participant;x\nserver.2=b:1:2:participant;x\n"
                "server.3=c:1:2:participant;x\nserver.4=d:1:2:observer;x\n"
                "server.5=e:1:2:observer\nversion=0\nserver.\n");
    says("servers", HF_GOOD, "an ensemble of 3 servers");
    end();
}
END_TEST

/* The server may keep its configuration to itself. */
START_TEST(servers_that_are_not_told)
{
    begin("");
    tree_put("/zookeeper/config", "server.1=a:1:2:participant");
    tree.error = ZK_NOAUTH;
    tree.deny = ZK_OPCODE_GET;
    tree.deny_path = "/zookeeper/config";
    diagnose();
    ck_assert_ptr_null(found("servers"));
    says("names", HF_GOOD, "0 queues, all in order");
    end();
}
END_TEST

START_TEST(sessions_that_were_not_asked_for)
{
    begin("?session=20000ms");
    diagnose();
    says("session", HF_GOOD, "a session of 20000 ms");
    end();
    tree_begin();
    tree.session_ms = 4000;
    tree_open(&a, "?session=20000ms");
    diagnose();
    says("session", HF_REMARK, "a session of 4000 ms, though 20000 were asked for");
    ck_assert_ptr_nonnull(strstr(found("session")->fix, "maxSessionTimeout"));
    end();
    tree_begin();
    tree.session_ms = 40000;
    tree_open(&a, "?session=20000ms");
    diagnose();
    says("session", HF_REMARK, "a session of 40000 ms, though 20000 were asked for");
    ck_assert_ptr_nonnull(strstr(found("session")->fix, "minSessionTimeout"));
    end();
}
END_TEST

static int64_t slow_ms;

static void slow(void)
{
    tree.clock.now_ns += slow_ms * 1000000;
}

static void distance(int64_t ms, int level, const char *what)
{
    slow_ms = ms;
    tree.call = slow;
    tree_spoil(1, TREE_CALL); /* before the answers to all of it */
    diagnose();
    ck_assert(tree.spoilt);
    says("distance", level, what);
}

START_TEST(servers_far_away)
{
    begin("?session=20000ms");
    distance(50, HF_GOOD, "the server answers within 50000 us");
    distance(51, HF_REMARK, "the server answers within 51000 us");
    end();
    begin("?session=400ms");
    distance(20, HF_GOOD, "the server answers within 20000 us");
    distance(21, HF_REMARK, "the server answers within 21000 us");
    end();
}
END_TEST

static void whole(void)
{
    sweep_tickets(HF_MUTEX, 1, 1);
    sweep_hold(&sweep_b, &sweep_two);
    diagnose();
    says("names", HF_GOOD, "1 queues, all in order");
    sweep_leave(&sweep_b, &sweep_two);
}

START_TEST(diagnoses)
{
    sweep("", whole);
}
END_TEST

UNIT_MAIN("zk_doctor", all_is_well, children_that_sort_before_locks,
          numbers_that_are_used_up, kinds_that_are_mixed, a_long_example,
          servers_are_counted, servers_that_are_not_told,
          sessions_that_were_not_asked_for, servers_far_away, diagnoses)
