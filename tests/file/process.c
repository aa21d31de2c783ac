/* SPDX-License-Identifier: MIT */
/* Locks and processes: killed, forked, started anew. */
#include "cases.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static hf_hold *hold_x(void)
{
    hf_hold *hold;

    CHECK_RC(hf_lock(opened(url_of(scratch, NULL)), "x", 0, &hold, NULL), 0);
    return hold;
}

static void body_hold(void *arg)
{
    (void)arg;
    hold_x();
    other_say("held");
    other_wait();
}

static void kill_frees(void)
{
    struct other other;
    hf_client *client = opened(url_of(scratch, NULL));
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_want want = hf_mutex("x");
    hf_hold *hold;
    hf_op *op;

    other_start(&other, body_hold, NULL);
    other_expect(&other, "held");
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), HF_EBUSY);
    options.timeout_ms = HF_FOREVER;
    CHECK_RC(hf_acquire_async(client, &want, 1, &options, NULL, NULL, &op, NULL), 0);
    CHECK_RC(hf_op_wait(op, 50, &hold, NULL), HF_ETIMEOUT);
    other_kill(&other);
    CHECK_RC(hf_op_wait(op, PATIENCE_MS, &hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_op_free(op);
    hf_close(client);
}

/* Opening and closing a file of the store in the holder does not release the lock. */
static void body_hold_and_touch(void *arg)
{
    static const char *const names[] = { "x", "state", "live", ".holdfast-tokens" };

    (void)arg;
    hold_x();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int fd = open(in_scratch(names[i]), O_RDWR);
        if (fd >= 0)
            close(fd);
    }
    other_say("held");
    other_wait();
}

static void close_keeps(void)
{
    struct other other;
    hf_client *client = opened(url_of(scratch, NULL));
    hf_hold *hold;

    other_start(&other, body_hold_and_touch, NULL);
    other_expect(&other, "held");
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), HF_EBUSY);
    other_kill(&other);
    CHECK_RC(hf_lock(client, "x", PATIENCE_MS, &hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
}

/* A child that lives on does not keep the lock of its dead parent. */
static void body_hold_and_fork(void *arg)
{
    (void)arg;
    hold_x();
    if (fork() == 0) {
        other_say("child");
        for (;;)
            pause();
    }
    other_wait();
}

static void child_does_not_keep(void)
{
    struct other other;
    hf_client *client = opened(url_of(scratch, NULL));
    hf_hold *hold;

    other_start(&other, body_hold_and_fork, NULL);
    other_expect(&other, "child");
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), HF_EBUSY);
    other_kill(&other);
    CHECK_RC(hf_lock(client, "x", PATIENCE_MS, &hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
}

/* A child may not use the client, and does not change the parent's lock. */
static void child_cannot_use(void)
{
    hf_client *client = opened(url_of(scratch, NULL));
    hf_client *second = opened(url_of(scratch, NULL));
    hf_hold *hold, *other;
    int status;
    pid_t pid;

    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    pid = fork();
    if (pid == 0) {
        CHECK_RC(hf_lock(client, "y", 0, &other, NULL), HF_EFORKED);
        CHECK_RC(hf_release(hold, NULL), HF_EFORKED);
        hf_close(client);
        hf_close(second);
        client = opened(url_of(scratch, NULL));
        CHECK_RC(hf_lock(client, "x", 0, &other, NULL), HF_EBUSY);
        hf_close(client);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    CHECK_RC(hf_lock(second, "x", 0, &other, NULL), HF_EBUSY);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK_RC(hf_lock(second, "x", 0, &other, NULL), 0);
    CHECK_RC(hf_release(other, NULL), 0);
    hf_close(client);
    hf_close(second);
}

/* A program that is started has none of the descriptors. Not with fork(), which has
 * handlers that would hide a descriptor without O_CLOEXEC. */
static void exec_sees_nothing(void)
{
    const char *const argv[] = { "sh", "-c",    "! ls -l /proc/self/fd | grep \"$1\"",
                                 "sh", scratch, NULL };
    hf_hold *hold = hold_x();
    int status;
    pid_t pid;

    CHECK_EQ(posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv,
                          environ),
             0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
}

const struct file_case process_cases[] = {
    { "kill-frees", kill_frees, BOTH },
    { "close-keeps", close_keeps, BOTH },
    { "child-does-not-keep", child_does_not_keep, BOTH },
    { "child-cannot-use", child_cannot_use, BOTH },
    { "exec-sees-nothing", exec_sees_nothing, BOTH },
    { NULL, NULL, 0 },
};
