/* SPDX-License-Identifier: MIT */
/* Foreign objects with the name of a file of the store, and files that were damaged. */
#include "cases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The directory as well. */
static const char *state_path(void)
{
    if (layout == QUEUE)
        CHECK(mkdir(in_scratch(".holdfast"), 0700) == 0 || errno == EEXIST);
    return in_scratch(state_name());
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);

    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

/* ---- Not a regular file ---------------------------------------------------------- */

static void state_is_link(void)
{
    write_file(in_scratch("victim"), "precious", 8);
    CHECK(symlink(layout == QUEUE ? "../victim" : "victim", state_path()) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, ELOOP, "symbolic link");
    CHECK(unlink(state_path()) == 0);
    CHECK(symlink("not-there", state_path()) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, ELOOP, "symbolic link");
    CHECK(unlink(state_path()) == 0);
    check_works(url_of(scratch, NULL));
}

static void state_is_hard_link(void)
{
    write_file(in_scratch("victim"), "precious", 8);
    CHECK(link(in_scratch("victim"), state_path()) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, 0, "hard link");
}

static void state_is_fifo(void)
{
    CHECK(mkfifo(state_path(), 0600) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, -1, "regular file");
}

static void state_is_directory(void)
{
    CHECK(mkdir(state_path(), 0700) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, -1, "regular file");
}

static void state_is_device(void)
{
    need_root();
    if (mknod(state_path(), S_IFCHR | 0600, makedev(1, 3)) != 0)
        skip("no device nodes here");
    check_refused(url_of(scratch, NULL), HF_EREFUSED, -1, "regular file");
}

/* The same for the file of a lock: the store opens, that one name is refused. */
static void lock_refused(const char *name, const char *part)
{
    hf_client *client = opened(url_of(scratch, NULL));
    hf_hold *hold = NULL;
    hf_error why = { 0 };

    CHECK_RC(hf_lock(client, name, 0, &hold, &why), HF_EREFUSED);
    CHECK(hold == NULL && strstr(why.text, part));
    CHECK_RC(hf_lock(client, "other", 0, &hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
}

static void lock_is_planted(void)
{
    struct stat st;

    write_file(in_scratch("victim"), "precious", 8);
    CHECK(symlink("victim", in_scratch("link")) == 0);
    lock_refused("link", "symbolic link");
    CHECK(symlink("not-there", in_scratch("dangling")) == 0);
    lock_refused("dangling", "symbolic link");
    CHECK(lstat(in_scratch("not-there"), &st) != 0);
    CHECK(link(in_scratch("victim"), in_scratch("hard")) == 0);
    lock_refused("hard", "hard link");
    CHECK(mkfifo(in_scratch("fifo"), 0600) == 0);
    lock_refused("fifo", "regular file");
    CHECK(mkdir(in_scratch("dir"), 0700) == 0);
    lock_refused("dir", "regular file");
    CHECK(stat(in_scratch("victim"), &st) == 0);
    CHECK_EQ(st.st_size, 8);
}

/* ---- Damage ---------------------------------------------------------------------- */

static void state_is_garbage(void)
{
    char bytes[8192];

    memset(bytes, 0xa5, sizeof bytes);
    write_file(state_path(), bytes, sizeof bytes);
    check_refused(url_of(scratch, NULL), HF_ECORRUPT, 0, "remove");
    write_file(state_path(), "#!/bin/sh\n", 10);
    check_refused(url_of(scratch, NULL), HF_ECORRUPT, 0, "remove");
    CHECK(unlink(state_path()) == 0);
    check_works(url_of(scratch, NULL));
}

static void state_of_other_version(void)
{
    int fd;

    check_works(url_of(scratch, NULL));
    fd = open(state_path(), O_RDWR);
    /* The magic comes first; the queue's version is after it, the other's in it. */
    CHECK(pwrite(fd, "\x7f\x7f", 2, layout == QUEUE ? 8 : 6) == 2);
    close(fd);
    check_refused(url_of(scratch, NULL), HF_ECORRUPT, 0, "version");
}

static void state_cut_short(void)
{
    struct stat st;

    check_works(url_of(scratch, NULL));
    CHECK(stat(state_path(), &st) == 0);
    CHECK(truncate(state_path(), st.st_size - 1) == 0);
    check_refused(url_of(scratch, NULL), HF_ECORRUPT, 0, "cut short");
    CHECK(truncate(state_path(), 100) == 0);
    check_refused(url_of(scratch, NULL), HF_ECORRUPT, 0, "cut short");
    /* An empty file has nothing to lose. */
    CHECK(truncate(state_path(), 0) == 0);
    check_works(url_of(scratch, NULL));
}

/* Numbers that no counter of the store could have reached. */
static void counter_at_its_end(void)
{
    int fd;

    check_works(url_of(scratch, NULL));
    fd = open(state_path(), O_RDWR);
    CHECK(pwrite(fd, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 8) == 8);
    close(fd);
    check_refused(url_of(scratch, NULL), HF_ECORRUPT, 0, "remove");
}

/* ---- Deleted under us (flock) ---------------------------------------------------- */

/* A look at the path counts for some microseconds, and at a release for a tick. */
static void let_looks_age(int64_t ms)
{
    int64_t since = real_ms();

    while (real_ms() <= since + ms)
        continue;
}

/* Deleted between two uses: no client locks the deleted file. */
static void lock_deleted_idle(void)
{
    hf_client *a = opened(url_of(scratch, NULL));
    hf_client *b = opened(url_of(scratch, NULL));
    hf_hold *hold, *other;

    for (int i = 0; i < 50; i++) {
        CHECK_RC(hf_lock(a, "x", 0, &hold, NULL), 0);
        CHECK_RC(hf_release(hold, NULL), 0);
        CHECK(unlink(in_scratch("x")) == 0);
        let_looks_age(1);
        CHECK_RC(hf_lock(b, "x", 0, &other, NULL), 0);
        CHECK_RC(hf_lock(a, "x", 0, &hold, NULL), HF_EBUSY);
        CHECK_RC(hf_release(other, NULL), 0);
    }
    hf_close(a);
    hf_close(b);
}

/* Deleted while it was held, some time before the release: the holder is told. */
static void lock_deleted_while_held(void)
{
    hf_client *client = opened(url_of(scratch, NULL));
    hf_hold *hold;

    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    CHECK(unlink(in_scratch("x")) == 0);
    let_looks_age(20);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
}

/* Deleted while one client holds it and another waits: the waiter is not admitted
 * through the deleted file. */
static void lock_deleted_while_waiting(void)
{
    hf_client *a = opened(url_of(scratch, NULL));
    hf_client *b = opened(url_of(scratch, NULL));
    hf_client *c = opened(url_of(scratch, NULL));
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_want want = hf_mutex("x");
    hf_hold *first, *second, *third;
    hf_op *op;

    CHECK_RC(hf_lock(a, "x", 0, &first, NULL), 0);
    options.timeout_ms = HF_FOREVER;
    CHECK_RC(hf_acquire_async(b, &want, 1, &options, NULL, NULL, &op, NULL), 0);
    CHECK(unlink(in_scratch("x")) == 0);
    CHECK_RC(hf_lock(c, "x", 0, &third, NULL), 0);
    CHECK_RC(hf_hold_verify(first, NULL), HF_ELOST);
    CHECK_RC(hf_release(first, NULL), HF_ELOST);
    CHECK_RC(hf_op_wait(op, 100, &second, NULL), HF_ETIMEOUT);
    CHECK(!hf_op_done(op));
    CHECK_RC(hf_release(third, NULL), 0);
    CHECK_RC(hf_op_wait(op, PATIENCE_MS, &second, NULL), 0);
    CHECK_RC(hf_lock(a, "x", 0, &first, NULL), HF_EBUSY);
    CHECK_RC(hf_release(second, NULL), 0);
    hf_op_free(op);
    hf_close(a);
    hf_close(b);
    hf_close(c);
}

/* A token file that vanishes does not set the tokens back. */
static void tokens_deleted(void)
{
    uint64_t last = 0;

    for (int i = 0; i < 20; i++) {
        hf_client *client = opened(url_of(scratch, NULL));
        hf_hold *hold;

        CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
        CHECK(hf_hold_token(hold, 0) > last);
        last = hf_hold_token(hold, 0);
        CHECK_RC(hf_release(hold, NULL), 0);
        hf_close(client);
        CHECK(unlink(state_path()) == 0);
    }
}

const struct file_case planted_cases[] = {
    { "state-is-link", state_is_link, BOTH },
    { "state-is-hard-link", state_is_hard_link, BOTH },
    { "state-is-fifo", state_is_fifo, BOTH },
    { "state-is-directory", state_is_directory, BOTH },
    { "state-is-device", state_is_device, BOTH },
    { "lock-is-planted", lock_is_planted, FLOCK },
    { "state-is-garbage", state_is_garbage, BOTH },
    { "state-of-other-version", state_of_other_version, BOTH },
    { "state-cut-short", state_cut_short, BOTH },
    { "counter-at-its-end", counter_at_its_end, FLOCK },
    { "lock-deleted-idle", lock_deleted_idle, FLOCK },
    { "lock-deleted-while-held", lock_deleted_while_held, FLOCK },
    { "lock-deleted-while-waiting", lock_deleted_while_waiting, FLOCK },
    { "tokens-deleted", tokens_deleted, BOTH },
    { NULL, NULL, 0 },
};
