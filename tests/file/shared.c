/* SPDX-License-Identifier: MIT */
/* Several users, one directory: the recipes of docs/backends/file.md. */
#include "cases.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANNA 60001
#define BERT 60002
#define CARL 60003 /* not in the group */
#define GROUP 60010

static const char *locks; /* the URL */

/* A user with a group of its own, and also in `group` (0: in none). */
static void become(uid_t user, gid_t group)
{
    CHECK(setgroups(group != 0, &group) == 0 && setgid(user) == 0 && setuid(user) == 0);
    umask(0077); /* must not matter */
}

/* The directory as the administrator makes it. */
static void directory_make(mode_t mode, gid_t group, const char *option)
{
    const char *path = in_scratch("locks");

    need_root();
    CHECK(chmod(scratch, 0755) == 0 && mkdir(path, 0700) == 0);
    CHECK(chown(path, 0, group) == 0 && chmod(path, mode) == 0);
    locks = url_of(path, option);
}

static void anna_holds(void *group)
{
    uint64_t version;
    hf_hold *hold;

    become(ANNA, *(gid_t *)group);
    hf_client *client = opened(locks);
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    if (layout == QUEUE)
        CHECK_RC(hf_cell_set(client, "plan", 0, "a", 1, &version, NULL), 0);
    other_say("held");
    other_wait();
    CHECK_RC(hf_release(hold, NULL), 0);
    other_say("released");
    other_wait();
}

static void bert_waits(void *group)
{
    hf_hold *hold;

    become(BERT, *(gid_t *)group);
    hf_client *client = opened(locks);
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), HF_EBUSY);
    other_say("busy");
    CHECK_RC(hf_lock(client, "x", PATIENCE_MS, &hold, NULL), 0);
    other_say("held");
    other_wait();
    hf_close(client);
}

/* Bert changes what Anna made; both see each other's locks. */
static void bert_changes_a_cell(void *group)
{
    uint64_t version;
    size_t len;
    void *data;

    become(BERT, *(gid_t *)group);
    hf_client *client = opened(locks);
    CHECK_RC(hf_cell_get(client, "plan", &data, &len, &version, NULL), 0);
    hf_free(data);
    CHECK_RC(hf_cell_set(client, "plan", version, "b", 1, &version, NULL), 0);
    CHECK_RC(hf_cell_set(client, "plan", version, NULL, 0, NULL, NULL), 0);
    other_say("changed");
    other_wait();
    hf_close(client);
}

static void both_meet(gid_t group)
{
    struct other anna, bert;

    other_start(&anna, anna_holds, &group);
    other_expect(&anna, "held");
    if (layout == QUEUE) {
        other_start(&bert, bert_changes_a_cell, &group);
        other_expect(&bert, "changed");
        CHECK_EQ(other_end(&bert), 0);
    }
    other_start(&bert, bert_waits, &group);
    other_expect(&bert, "busy");
    other_kill(&anna);
    other_expect(&bert, "held");
    CHECK_EQ(other_end(&bert), 0);
}

static void carl_is_refused(void *unused)
{
    hf_client *client;
    hf_error why;

    (void)unused;
    become(CARL, 0);
    CHECK_RC(hf_open(locks, NULL, &client, &why), HF_EREFUSED);
    CHECK_EQ(why.sys, EACCES);
    other_say("refused");
    other_wait();
}

static void group_shares(mode_t mode)
{
    struct other carl;

    directory_make(mode, GROUP, "mode=0660");
    both_meet(GROUP);
    other_start(&carl, carl_is_refused, NULL);
    other_expect(&carl, "refused");
    CHECK_EQ(other_end(&carl), 0);
    both_meet(GROUP);
}

static void group_shares_setgid(void)
{
    group_shares(02770);
}

static void group_shares_sticky(void)
{
    group_shares(03770);
}

/* The directory does not pass its group on; .holdfast gets it all the same. */
static void group_shares_plain(void)
{
    group_shares(0770);
}

static void everybody_shares(void)
{
    directory_make(01777, 0, "mode=0666");
    both_meet(0);
    both_meet(0);
}

const struct file_case shared_cases[] = {
    { "group-shares-setgid", group_shares_setgid, BOTH },
    { "group-shares-sticky", group_shares_sticky, BOTH },
    { "group-shares-plain", group_shares_plain, QUEUE },
    { "everybody-shares", everybody_shares, BOTH },
    { NULL, NULL, 0 },
};
