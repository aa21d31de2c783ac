/* SPDX-License-Identifier: MIT */
/* A system that has run out of space, inodes or descriptors. */
#include "cases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Fills the file system up to less than a page. */
static void fill(const char *path)
{
    static const char page[4096];
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    CHECK(fd >= 0);
    while (write(fd, page, sizeof page) > 0)
        continue;
    CHECK_EQ(errno, ENOSPC);
    close(fd);
}

static void refused_full(const char *url)
{
    hf_client *client = NULL;
    hf_error why = { 0 };

    CHECK_RC(hf_open(url, NULL, &client, &why), HF_EFULL);
    CHECK_EQ(why.sys, ENOSPC);
    CHECK(strstr(why.text, "space"));
}

static void disk_full(void)
{
    private_tmpfs(scratch, "size=2m,mode=0700");
    fill(in_scratch("ballast"));
    refused_full(url_of(scratch, NULL));
    refused_full(url_of(scratch, NULL));
    CHECK(unlink(in_scratch("ballast")) == 0);
    check_works(url_of(scratch, NULL));
}

/* Full after the store was opened: operations that need no space succeed, and nothing
 * breaks. */
static void disk_full_later(void)
{
    hf_client *client;
    hf_hold *hold;

    private_tmpfs(scratch, "size=2m,mode=0700");
    client = opened(url_of(scratch, NULL));
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    fill(in_scratch("ballast"));
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
    check_works(url_of(scratch, NULL));
}

static void inodes_gone(void)
{
    hf_client *client;
    hf_hold *hold;
    hf_error why = { 0 };
    char name[32];
    int made = 0;

    private_tmpfs(scratch, "nr_inodes=20,mode=0700");
    client = opened(url_of(scratch, NULL));
    for (int fd; made < 100; made++) {
        snprintf(name, sizeof name, "filler%d", made);
        fd = open(in_scratch(name), O_CREAT | O_WRONLY, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    CHECK(made < 100);
    CHECK_RC(hf_lock(client, "x", 0, &hold, &why), HF_EFULL);
    CHECK_EQ(why.sys, ENOSPC);
    CHECK(unlink(in_scratch("filler0")) == 0);
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
}

/* A limit on the size of files would otherwise cause a signal. */
static void file_size_limited(void)
{
    struct rlimit limit = { 100, RLIM_INFINITY };
    hf_client *client = NULL;
    hf_error why = { 0 };

    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK_RC(hf_open(url_of(scratch, NULL), NULL, &client, &why), HF_EFULL);
    limit.rlim_cur = RLIM_INFINITY;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    check_works(url_of(scratch, NULL));
}

/* With 0, 1, 2, ... descriptors left: opening, locking and waiting either succeed or
 * fail with EMFILE, and leave nothing open. */
static bool descriptors_enough(rlim_t spare, const struct rlimit *was)
{
    struct rlimit limit = *was;
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    hf_error why = { 0 };
    int lowest = dup(0);
    int rc;

    close(lowest);
    limit.rlim_cur = (rlim_t)lowest + spare;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    rc = hf_open(url_of(scratch, NULL), NULL, &client, &why);
    if (rc == 0) {
        rc = hf_lock(client, "x", 0, &hold, &why);
        if (rc == 0)
            CHECK_RC(hf_release(hold, NULL), 0);
        hf_close(client);
    }
    CHECK(setrlimit(RLIMIT_NOFILE, was) == 0);
    if (rc != 0) {
        CHECK_RC(rc, HF_ESYSTEM);
        CHECK_EQ(why.sys, EMFILE);
        CHECK(strstr(why.text, "open files"));
    }
    CHECK_EQ(dup(0), lowest);
    close(lowest);
    return rc == 0;
}

static void descriptors_gone(void)
{
    struct rlimit was;
    rlim_t spare = 0;

    CHECK(getrlimit(RLIMIT_NOFILE, &was) == 0);
    check_works(url_of(scratch, NULL));
    while (!descriptors_enough(spare, &was))
        CHECK(++spare < 32);
    CHECK(spare > 1);
}

const struct file_case system_cases[] = {
    { "disk-full", disk_full, BOTH },
    { "disk-full-later", disk_full_later, QUEUE },
    { "inodes-gone", inodes_gone, FLOCK },
    { "file-size-limited", file_size_limited, BOTH },
    { "descriptors-gone", descriptors_gone, BOTH },
    { NULL, NULL, 0 },
};
