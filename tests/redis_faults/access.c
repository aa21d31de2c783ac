/* SPDX-License-Identifier: MIT */
/*
 * The server refuses the client: passwords, ACLs, replicas. The caller gets HF_EREFUSED
 * with the server's reason and never the password; when the rights are restored, the
 * client works again.
 */
#include "cases.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECRET "hunter2"

static const char *const at_once[] = { "--repl-diskless-sync-delay", "0", NULL };
static const char *const with_password[] = { "--requirepass", SECRET, NULL };

static void open_refused(const char *user, const char *part)
{
    char url[256];
    hf_error why = { 0 };
    hf_client *client = NULL;
    url_through(url, sizeof url, user);
    CHECK_RC(hf_open(url, NULL, &client, &why), HF_EREFUSED);
    CHECK(client == NULL && strstr(why.text, part) != NULL);
    CHECK(strstr(why.text, SECRET) == NULL && strstr(why.text, "hunter3") == NULL);
}

/* ---- Passwords ------------------------------------------------------------------- */

static void raw_login(void)
{
    CHECK_TEXT(raw_say(world.raw, "AUTH " SECRET), "OK");
}

static void wrong_password(void)
{
    world_start(with_password);
    raw_login();
    open_refused("", "NOAUTH");
    open_refused(":hunter3@", "WRONGPASS");
    open_refused("nobody:" SECRET "@", "WRONGPASS");
    hf_client *client = opened_through(":" SECRET "@");
    int64_t back = check_recovers(client);
    hf_close(client);
    check_nothing_left(0);
    report("wrong or no password", back, "hf_open EREFUSED");
}

/* Ours is refused when the connection has to be made anew. */
static void password_changes(void)
{
    hf_error why = { 0 };
    hf_hold *none = NULL;
    world_start(with_password);
    raw_login();
    hf_client *client = opened_through(":" SECRET "@");
    check_recovers(client);
    raw_say(world.raw, "CONFIG SET requirepass hunter3");
    raw_say(world.raw, "CLIENT KILL TYPE normal SKIPME yes");
    raw_say(world.raw, "CLIENT KILL TYPE pubsub");
    int rc = hf_lock(client, "refused", 300, &none, &why);
    CHECK_ONE_OF(rc, HF_EREFUSED, HF_EUNREACHABLE, HF_EUNCERTAIN);
    CHECK(strstr(why.text, SECRET) == NULL);
    raw_say(world.raw, "CONFIG SET requirepass " SECRET);
    int64_t back = check_recovers(client);
    hf_close(client);
    check_nothing_left(LEASE_MS);
    report("password changed, connection killed", back, "%s", hf_error_name(rc));
}

/* ---- ACL ------------------------------------------------------------------------- */

static void user_allow(void)
{
    CHECK_TEXT(raw_say(world.raw, "ACL SETUSER app on >" SECRET " ~* &* +@all"), "OK");
}

static void rights_revoked(void)
{
    hf_error why = { 0 };
    hf_hold *none = NULL;
    struct events events = { 0 };
    world_start(NULL);
    user_allow();
    hf_client *client = opened_through("app:" SECRET "@");
    hf_hold *hold = locked(client, "held", LEASE_MS);
    watch(hold, &events);
    raw_say(world.raw, "ACL SETUSER app -@all");
    int64_t since = real_ms();
    int rc = hf_lock(client, "other", 0, &none, &why);
    CHECK_RC(rc, HF_EREFUSED);
    CHECK(strstr(why.text, "NOPERM") != NULL);
    EVENTUALLY(atomic_load(&events.lost) == 1);
    CHECK(real_ms() - since <= LEASE_MS + BUSY_MS);
    hf_release(hold, NULL);
    user_allow();
    int64_t back = check_recovers(client);
    hf_close(client);
    check_nothing_left(LEASE_MS);
    report("ACL -@all while connected", back, "%s; hold LOST with its lease",
           hf_error_name(rc));
}

static void user_switched_off(void)
{
    hf_error why = { 0 };
    hf_hold *none = NULL;
    world_start(NULL);
    user_allow();
    hf_client *client = opened_through("app:" SECRET "@");
    check_recovers(client);
    raw_say(world.raw, "ACL SETUSER app off");
    raw_say(world.raw, "CLIENT KILL USER app");
    int rc = hf_lock(client, "refused", 300, &none, &why);
    CHECK_ONE_OF(rc, HF_EREFUSED, HF_EUNREACHABLE, HF_EUNCERTAIN);
    user_allow();
    int64_t back = check_recovers(client);
    hf_close(client);
    check_nothing_left(LEASE_MS);
    report("ACL user off, connection killed", back, "%s", hf_error_name(rc));
}

static void key_forbidden(void)
{
    hf_error why = { 0 };
    hf_hold *none = NULL;
    world_start(NULL);
    raw_say(world.raw, "ACL SETUSER app on >" SECRET " ~*recovery* &* +@all");
    hf_client *client = opened_through("app:" SECRET "@");
    CHECK_RC(hf_lock(client, "forbidden", 0, &none, &why), HF_EREFUSED);
    CHECK(strstr(why.text, "NOPERM") != NULL);
    int64_t back = check_recovers(client);
    hf_close(client);
    check_nothing_left(0);
    report("ACL forbids the key", back, "EREFUSED, other names 0");
}

/* ---- Replicas -------------------------------------------------------------------- */

static void on_a_replica(void)
{
    char directory[80];
    char url[256];
    char port[16];
    hf_error why = { 0 };
    hf_client *client = NULL;
    hf_hold *none = NULL;
    struct redis_server replica = { 0 };
    const char *const options[] = { "--replicaof", "127.0.0.1", port, NULL };

    world_start(at_once);
    world.proxy = proxy_start(world.server.socket);
    snprintf(port, sizeof port, "%d", proxy_port(world.proxy));
    snprintf(directory, sizeof directory, "%s/replica", world.directory);
    CHECK_EQ(mkdir(directory, 0700), 0);
    redis_start(&replica, directory, false, options);
    struct raw *raw = raw_open(replica.socket);
    EVENTUALLY(strstr(raw_say(raw, "INFO replication"), "master_link_status:up"));

    snprintf(url, sizeof url, "redis+unix://%s", replica.socket);
    int rc = hf_open(url, NULL, &client, &why);
    if (rc == 0)
        rc = hf_lock(client, "refused", 0, &none, &why);
    CHECK_RC(rc, HF_EREFUSED);
    CHECK(strstr(why.text, "replica") != NULL || strstr(why.text, "READONLY") != NULL);
    raw_say(raw, "REPLICAOF NO ONE");
    int64_t since = real_ms();
    if (client)
        CHECK_RC(hf_lock(client, "refused", PATIENCE_MS, &none, NULL), 0);
    int64_t back = real_ms() - since;
    hf_release(none, NULL);
    hf_close(client);
    raw_close(raw);
    redis_kill(&replica);
    report("READONLY replica, then promoted", back, "%s", hf_error_name(rc));
}

/* A master that is made a replica of nowhere, and comes back. */
static void demoted(void)
{
    hf_error why = { 0 };
    hf_hold *none = NULL;
    struct events events = { 0 };
    world_start(NULL);
    hf_client *client = opened();
    hf_hold *hold = locked(client, "held", LEASE_MS);
    watch(hold, &events);
    raw_say(world.raw, "REPLICAOF 127.0.0.1 1");
    int64_t since = real_ms();
    int rc = hf_lock(client, "other", 0, &none, &why);
    CHECK_RC(rc, HF_EREFUSED);
    CHECK(strstr(why.text, "READONLY") != NULL);
    EVENTUALLY(atomic_load(&events.lost) == 1);
    CHECK(real_ms() - since <= LEASE_MS + BUSY_MS);
    raw_say(world.raw, "REPLICAOF NO ONE");
    hf_release(hold, NULL);
    int64_t back = check_recovers(client);
    hf_close(client);
    check_nothing_left(LEASE_MS);
    report("demoted to a replica while held", back, "%s; hold LOST with its lease",
           hf_error_name(rc));
}

const struct fault_case access_cases[] = {
    { "wrong-password", wrong_password },
    { "password-changes", password_changes },
    { "rights-revoked", rights_revoked },
    { "user-switched-off", user_switched_off },
    { "key-forbidden", key_forbidden },
    { "on-a-replica", on_a_replica },
    { "demoted", demoted },
    { NULL, NULL },
};
