/* SPDX-License-Identifier: MIT */
/*
 * What the URL of a zookeeper store sets, and what hf_diagnose() reports, on real
 * servers: who owns the nodes, how long the session is, how many servers there are.
 */
#include "unit.h"

#include "../harness/zookeeper_raw.h"
#include "../harness/zookeeper_server.h"
#include "fake_host.h"

#include <stdio.h>
#include <string.h>

extern const struct hf_backend hf__backend_zookeeper;

enum { NOAUTH = -102 };

static struct zookeeper zoo;

static int open_as(struct fake_host *fake, const char *user, const char *options,
                   hf_error *why)
{
    char url[256];
    snprintf(url, sizeof url, "zookeeper://%s127.0.0.1:%d/t?%s", user, zoo.node[0].port,
             options);
    return fake_open_why(fake, &hf__backend_zookeeper, url, NULL, why);
}

/* ---- Whose the nodes are --------------------------------------------------------- */

struct seen {
    struct zkraw *raw;
    int readable, closed;
};

static bool count_node(void *arg, const char *path)
{
    struct seen *seen = arg;
    char data[256];
    int rc = zkraw_get(seen->raw, path, data, sizeof data, NULL);
    seen->readable += rc == 0;
    seen->closed += rc == NOAUTH;
    return true;
}

/* Who has not authenticated reads what is open, and nothing that is not. */
static void check_nodes(const char *user, const char *options, bool open)
{
    struct fake_host fake;
    struct seen seen = { 0 };
    hf_error why = { 0 };
    struct hf_ticket ticket = fake_ticket("name", HF_MUTEX);

    zookeeper_start(&zoo, 1, NULL);
    int rc = open_as(&fake, user, options, &why);
    ck_assert_msg(rc == 0, "%d: %s", rc, why.text);
    ck_assert_int_eq(fake_try(&fake, &ticket).what, FAKE_GRANTED);
    seen.raw = zkraw_open(zoo.node[0].port, 20000);
    if (open) {
        zkraw_walk(seen.raw, "/t", count_node, &seen);
        ck_assert_int_ge(seen.readable, 2);
    } else {
        count_node(&seen, "/t");
        count_node(&seen, "/t/name");
        ck_assert_int_eq(seen.closed, 2);
    }
    zkraw_close(seen.raw);
    ck_assert_int_eq(fake_withdraw(&fake, &ticket), HF_WITHDRAWN);
    fake_close(&fake);
    zookeeper_stop(&zoo);
}

START_TEST(nodes_are_open)
{
    check_nodes("", "session=20000ms", true);
}
END_TEST

START_TEST(nodes_are_their_creators)
{
    check_nodes("somebody:secret@", "session=20000ms&acl=creator", false);
}
END_TEST

/* Another user is refused; one with the same password is not. */
START_TEST(a_creator_shares_with_itself)
{
    struct fake_host one, same, other;
    hf_error why = { 0 };
    struct hf_ticket held = fake_ticket("name", HF_MUTEX);
    struct hf_ticket wanted = fake_ticket("name", HF_MUTEX);

    zookeeper_start(&zoo, 1, NULL);
    ck_assert_int_eq(open_as(&one, "u:one@", "acl=creator", &why), 0);
    ck_assert_int_eq(open_as(&same, "u:one@", "acl=creator", &why), 0);
    ck_assert_int_eq(open_as(&other, "u:two@", "acl=creator", &why), 0);
    ck_assert_int_eq(fake_try(&one, &held).what, FAKE_GRANTED);
    ck_assert_int_eq(fake_try(&same, &wanted).what, FAKE_QUEUED);
    struct hf_ticket refused = fake_ticket("name", HF_MUTEX);
    struct fake_answer answer = fake_try(&other, &refused);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, HF_EREFUSED);
    ck_assert_int_eq(fake_withdraw(&one, &held), HF_WITHDRAWN);
    fake_expect_grant(&same, &wanted);
    ck_assert_int_eq(fake_withdraw(&same, &wanted), HF_WITHDRAWN);
    fake_close(&one);
    fake_close(&same);
    fake_close(&other);
    zookeeper_stop(&zoo);
}
END_TEST

START_TEST(bad_options_are_refused)
{
    struct fake_host fake;
    hf_error why = { 0 };

    zoo.node[0].port = 1;
    ck_assert_int_eq(open_as(&fake, "u:p@", "acl=world", &why), HF_EURL);
    ck_assert_ptr_nonnull(strstr(why.text, "acl"));
    ck_assert_int_eq(open_as(&fake, "", "acl=creator", &why), HF_EURL);
    ck_assert_ptr_nonnull(strstr(why.text, "user"));
}
END_TEST

/* ---- What the doctor says -------------------------------------------------------- */

static const struct fake_finding *finding(struct fake_host *fake, const char *topic)
{
    for (size_t i = 0; i < fake->finding_count; i++)
        if (strcmp(fake->findings[i].topic, topic) == 0)
            return &fake->findings[i];
    ck_abort_msg("nothing was said of: %s", topic);
    return NULL;
}

static void check_doctor(size_t servers, int session_ms, int session_level,
                         int servers_level, const char *servers_say)
{
    struct fake_host fake;
    hf_error why = { 0 };
    char options[64];
    struct hf_request request = fake_request(HF_DIAGNOSE, "");

    zookeeper_start(&zoo, servers,
                    &(struct zookeeper_options){
                        .more = "minSessionTimeout=1000\nmaxSessionTimeout=30000\n" });
    snprintf(options, sizeof options, "session=%dms", session_ms);
    int rc = open_as(&fake, "", options, &why);
    ck_assert_msg(rc == 0, "%d: %s", rc, why.text);
    ck_assert_int_eq(fake_ask(&fake, &request, NULL), 0);
    ck_assert_int_eq(finding(&fake, "session")->level, session_level);
    ck_assert_int_eq(finding(&fake, "servers")->level, servers_level);
    ck_assert_ptr_nonnull(strstr(finding(&fake, "servers")->what, servers_say));
    fake_close(&fake);
    zookeeper_stop(&zoo);
}

START_TEST(one_server_is_told)
{
    check_doctor(1, 20000, HF_GOOD, HF_REMARK, "one server");
}
END_TEST

START_TEST(two_servers_and_a_short_session_are_told)
{
    check_doctor(2, 60000, HF_REMARK, HF_REMARK, "2 servers");
}
END_TEST

START_TEST(three_servers_are_fine_and_a_long_session_is_told)
{
    check_doctor(3, 500, HF_REMARK, HF_GOOD, "3 servers");
}
END_TEST

UNIT_MAIN("zk_options", nodes_are_open, nodes_are_their_creators,
          a_creator_shares_with_itself, bad_options_are_refused, one_server_is_told,
          two_servers_and_a_short_session_are_told,
          three_servers_are_fine_and_a_long_session_is_told)
