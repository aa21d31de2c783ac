/* SPDX-License-Identifier: MIT */
/*
 * The ZooKeeper client against a real server: every request once, watches and sessions
 * that outlive a connection and a server, and sessions that end.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "../harness/tcp_proxy.h"
#include "../harness/zookeeper_server.h"
#include "zk_stage.h"

#include <stdio.h>
#include <string.h>

static struct zookeeper zoo;
static struct stage stage, other;

static void begin(void)
{
    zookeeper_start(&zoo, 1, NULL);
}

static void end(void)
{
    zookeeper_stop(&zoo);
}

static void open_at(struct stage *at, int port, int64_t session_ns)
{
    char hosts[64];
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", port);
    struct zk_settings settings = stage_settings(hosts);
    settings.chroot = "/test/root";
    settings.session_ns = session_ns;
    int rc = stage_open(at, &settings, NULL);
    ck_assert_msg(rc == 0, "%d: %s", rc, at->why.text);
}

static void open_both(void)
{
    open_at(&stage, zoo.node[0].port, 10 * HF_NS_PER_S);
    open_at(&other, zoo.node[0].port, 10 * HF_NS_PER_S);
    hf__zk_make_folder(stage.zk, "/l", stage_take, &stage, 0);
    ck_assert_int_eq(stage_last(&stage)->reply.error, ZK_OK);
}

static void close_both(void)
{
    stage_close(&other);
    stage_close(&stage);
}

/* The node that `at` has made last. */
static const char *make_node(struct stage *at)
{
    hf__zk_create(at->zk, "/l/x-", "data", 4, ZK_EPHEMERAL_SEQUENTIAL, stage_take, at,
                  1);
    const struct stage_reply *last = stage_last(at);
    ck_assert_int_eq(last->code, 0);
    ck_assert_int_eq(last->reply.error, ZK_OK);
    ck_assert_int_eq(last->reply.zxid, last->reply.stat.czxid);
    ck_assert_int_eq(last->reply.stat.ephemeral_owner, hf__zk_session_id(at->zk));
    return last->text;
}

static int exists(struct stage *at, const char *path)
{
    hf__zk_exists(at->zk, path, false, stage_take, at, 2);
    const struct stage_reply *last = stage_last(at);
    ck_assert_int_eq(last->code, 0);
    return last->reply.error;
}

START_TEST(every_request)
{
    begin();
    open_both();
    struct zk *zk = stage.zk;

    hf__zk_gather(zk);
    hf__zk_create(zk, "/l/x-", "data", 4, ZK_EPHEMERAL_SEQUENTIAL, stage_take, &stage,
                  1);
    hf__zk_children(zk, "/l", true, stage_take, &stage, 2);
    hf__zk_flush(zk);
    const struct stage_reply *last = stage_last(&stage);
    char path[STAGE_TEXT];
    snprintf(path, sizeof path, "%s", last[-1].text);
    ck_assert_str_eq(path, "/l/x-0000000000");
    ck_assert_str_eq(last->text, "x-0000000000");
    ck_assert_int_eq(last->reply.stat.num_children, 1);

    hf__zk_get(zk, path, true, stage_take, &stage, 3);
    ck_assert_str_eq(stage_last(&stage)->text, "data");
    hf__zk_set(zk, path, "new", 3, 5, stage_take, &stage, 4);
    ck_assert_int_eq(stage_last(&stage)->reply.error, ZK_BADVERSION);
    hf__zk_set(zk, path, "new", 3, 0, stage_take, &stage, 5);
    ck_assert_int_eq(stage_last(&stage)->reply.stat.version, 1);
    ck_assert_str_eq(stage.events[0], "3 /l/x-0000000000");
    hf__zk_exists(zk, "/none", true, stage_take, &stage, 6);
    ck_assert_int_eq(stage_last(&stage)->reply.error, ZK_NONODE);
    hf__zk_create(zk, "/none/a", "", 0, ZK_PERSISTENT, stage_take, &stage, 7);
    ck_assert_int_eq(stage_last(&stage)->reply.error, ZK_NONODE);

    const struct zk_op ops[] = {
        { .what = ZK_OP_CREATE, .path = "/none", .data = "", .mode = ZK_CONTAINER },
        { .what = ZK_OP_CREATE, .path = "/l/y", .data = "y", .len = 1 },
        { .what = ZK_OP_SET, .path = path, .data = "z", .len = 1, .version = 1 },
        { .what = ZK_OP_CHECK, .path = path, .version = 2 },
        { .what = ZK_OP_DELETE, .path = path, .version = -1 },
    };
    hf__zk_multi(zk, ops, 5, stage_take, &stage, 8);
    last = stage_last(&stage);
    ck_assert_int_eq(last->code, 0);
    ck_assert_int_eq(last->reply.error, ZK_OK);
    ck_assert_uint_eq(last->reply.count, 5);
    ck_assert_str_eq(stage.events[1], "1 /none");
    ck_assert_str_eq(stage.events[2], "4 /l");
    hf__zk_multi(zk, ops + 1, 4, stage_take, &stage, 9);
    last = stage_last(&stage);
    ck_assert_int_eq(last->reply.error, ZK_NODEEXISTS);
    ck_assert_uint_eq(last->reply.count, 4);
    hf__zk_sync(zk, "/", stage_take, &stage, 10);
    ck_assert_int_eq(stage_last(&stage)->reply.error, ZK_OK);
    hf__zk_ping(zk, stage_take, &stage, 11);
    ck_assert_int_eq(stage_last(&stage)->reply.error, ZK_OK);
    hf__zk_delete(zk, "/l", -1, stage_take, &stage, 12);
    ck_assert_int_eq(stage_last(&stage)->reply.error, ZK_NOTEMPTY);
    ck_assert_uint_eq(stage.downs, 0);
    close_both();
    end();
}
END_TEST

START_TEST(watches_on_the_server)
{
    begin();
    open_both();
    hf__zk_get(stage.zk, "/l", true, stage_take, &stage, 1);
    hf__zk_children(stage.zk, "/l", true, stage_take, &stage, 1);
    stage_last(&stage);
    ck_assert_int_eq(zookeeper_number(&zoo, 0, "watch_count"), 2);
    hf__zk_unwatch(stage.zk, "/l");
    hf__zk_unwatch(stage.zk, "/l");
    hf__zk_ping(stage.zk, stage_take, &stage, 1);
    stage_last(&stage);
    ck_assert_int_eq(zookeeper_number(&zoo, 0, "watch_count"), 0);
    ck_assert_uint_eq(stage.zk->watches.count, 0);
    /* A session that is ended takes its nodes along at once. */
    char path[STAGE_TEXT];
    snprintf(path, sizeof path, "%s", make_node(&other));
    ck_assert_int_eq(exists(&stage, path), ZK_OK);
    hf__zk_mute(other.zk);
    hf__zk_close_wait(other.zk, hf__now() + 5 * HF_NS_PER_S);
    ck_assert_int_eq(hf__zk_session_id(other.zk), 0);
    ck_assert_int_eq(exists(&stage, path), ZK_NONODE);
    close_both();
    end();
}
END_TEST

/* The connection goes, and with it what happened meanwhile; then the server goes. */
START_TEST(a_session_goes_on)
{
    begin();
    char where[16], path[STAGE_TEXT], own[STAGE_TEXT];
    snprintf(where, sizeof where, ":%d", zoo.node[0].port);
    struct tcp_proxy *proxy = proxy_start(where);
    open_at(&stage, proxy_port(proxy), 10 * HF_NS_PER_S);
    open_at(&other, zoo.node[0].port, 10 * HF_NS_PER_S);
    hf__zk_make_folder(stage.zk, "/l", stage_take, &stage, 0);
    stage_last(&stage);
    snprintf(path, sizeof path, "%s", make_node(&other));
    snprintf(own, sizeof own, "%s", make_node(&stage));
    hf__zk_get(stage.zk, path, true, stage_take, &stage, 1);
    stage_last(&stage);

    proxy_mode(proxy, PROXY_REFUSE, 0);
    STAGE_UNTIL(&stage, stage.downs == 1);
    hf__zk_delete(other.zk, path, -1, stage_take, &other, 1);
    ck_assert_int_eq(stage_last(&other)->reply.error, ZK_OK);
    proxy_mode(proxy, PROXY_PASS, 0);
    STAGE_UNTIL(&stage, stage.event_count == 1);
    ck_assert_str_eq(stage.events[0], "2 /l/x-0000000000");
    ck_assert_str_eq(stage.story + stage.story_len - 3, "due");
    ck_assert_int_eq(exists(&stage, own), ZK_OK);

    hf__zk_get(stage.zk, own, true, stage_take, &stage, 1);
    stage_last(&stage);
    zookeeper_kill(&zoo, 0);
    STAGE_UNTIL(&stage, stage.downs == 2);
    STAGE_UNTIL(&other, other.downs == 1);
    zookeeper_run(&zoo, 0);
    STAGE_UNTIL(&stage, stage.ups == 2);
    STAGE_UNTIL(&other, other.ups == 1);
    ck_assert_uint_eq(stage.fresh + stage.expiries + other.fresh, 0);
    hf__zk_set(other.zk, own, "", 0, -1, stage_take, &other, 1);
    ck_assert_int_eq(stage_last(&other)->reply.error, ZK_OK);
    STAGE_UNTIL(&stage, stage.event_count == 2);
    ck_assert_str_eq(stage.events[1], "3 /l/x-0000000001");
    close_both();
    proxy_stop(proxy);
    end();
}
END_TEST

/* Cut off for longer than the session: over at the time granted, not before; then a
 * new one. */
START_TEST(a_session_ends)
{
    begin();
    char where[16], own[STAGE_TEXT];
    snprintf(where, sizeof where, ":%d", zoo.node[0].port);
    struct tcp_proxy *proxy = proxy_start(where);
    open_at(&other, zoo.node[0].port, 10 * HF_NS_PER_S);
    hf__zk_make_folder(other.zk, "/l", stage_take, &other, 0);
    stage_last(&other);
    open_at(&stage, proxy_port(proxy), 2 * HF_NS_PER_S);
    snprintf(own, sizeof own, "%s", make_node(&stage));
    int64_t session = hf__zk_session_id(stage.zk), until = hf__zk_valid_until(stage.zk);

    proxy_mode(proxy, PROXY_HOLE, 0);
    STAGE_UNTIL(&stage, stage.expiries == 1);
    ck_assert_int_ge(hf__now(), until);
    ck_assert_int_lt(hf__now(), until + HF_NS_PER_S);
    ck_assert_uint_eq(stage.downs, 1);
    proxy_mode(proxy, PROXY_PASS, 0);
    STAGE_UNTIL(&stage, stage.ups == 1);
    ck_assert_uint_eq(stage.fresh, 1);
    ck_assert_uint_eq(stage.expiries, 1);
    ck_assert_int_ne(hf__zk_session_id(stage.zk), session);
    ck_assert_int_eq(exists(&other, own), ZK_NONODE);
    make_node(&stage);
    close_both();
    proxy_stop(proxy);
    end();
}
END_TEST

UNIT_MAIN("zk", every_request, watches_on_the_server, a_session_goes_on, a_session_ends)
