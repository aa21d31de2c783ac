/* SPDX-License-Identifier: MIT */
/* layout=flock beside flock(1) of util-linux, on one path, both ways. */
#include "cases.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME "jobs/nightly"
#define FILE_NAME "jobs%2Fnightly"

/* flock(1) that holds the lock until it is told to end. */
static void tool_start(struct other *tool, const char *how)
{
    const char *const argv[] = {
        "flock", how, in_scratch(FILE_NAME), "sh", "-c", "echo held; cat >/dev/null",
        NULL,
    };

    other_run(tool, argv);
}

static int tool_try(const char *how)
{
    const char *const argv[] = {
        "flock", "-n", how, in_scratch(FILE_NAME), "true", NULL
    };

    return run_program(argv);
}

/* True if that process is in the kernel's queue for a lock. */
static bool tool_waits(pid_t pid)
{
    FILE *stream = fopen("/proc/locks", "re");
    char line[256], number[32];
    bool found = false;

    CHECK(stream != NULL);
    snprintf(number, sizeof number, " %ld ", (long)pid);
    while (fgets(line, sizeof line, stream))
        found |= strstr(line, "->") && strstr(line, number);
    fclose(stream);
    return found;
}

static hf_want wants(const char *how)
{
    return strcmp(how, "-s") == 0 ? hf_read(NAME) : hf_write(NAME);
}

static const char *const hows[] = { "-s", "-x" };

/* The second one gets the lock only if both share it. */
static void tool_first(void)
{
    hf_client *client = opened(url_of(scratch, NULL));

    for (int i = 0; i < 4; i++) {
        const char *first = hows[i / 2], *second = hows[i % 2];
        struct other tool;
        hf_hold *hold;
        int rc;

        tool_start(&tool, first);
        other_expect(&tool, "held");
        rc = try_want(client, wants(second), &hold);
        CHECK_RC(rc, i == 0 ? 0 : HF_EBUSY);
        if (rc == 0)
            CHECK_RC(hf_release(hold, NULL), 0);
        CHECK_EQ(other_end(&tool), 0);
    }
    hf_close(client);
}

static void holdfast_first(void)
{
    hf_client *client = opened(url_of(scratch, NULL));

    for (int i = 0; i < 4; i++) {
        const char *first = hows[i / 2], *second = hows[i % 2];
        hf_hold *hold;

        CHECK_RC(try_want(client, wants(first), &hold), 0);
        CHECK_EQ(tool_try(second), i == 0 ? 0 : 1);
        CHECK_RC(hf_release(hold, NULL), 0);
        CHECK_EQ(tool_try(second), 0);
    }
    hf_close(client);
}

static void mutex_excludes_tool(void)
{
    hf_client *client = opened(url_of(scratch, NULL));
    hf_hold *hold;

    CHECK_RC(hf_lock(client, NAME, 0, &hold, NULL), 0);
    CHECK_EQ(tool_try("-x"), 1);
    CHECK_EQ(tool_try("-s"), 1);
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK_RC(try_want(client, hf_reentrant(NAME), &hold), 0);
    CHECK_EQ(tool_try("-x"), 1);
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK_EQ(tool_try("-x"), 0);
    hf_close(client);
}

static void holdfast_waits(void)
{
    hf_client *client = opened(url_of(scratch, NULL));
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_want want = hf_mutex(NAME);
    struct other tool;
    hf_hold *hold;
    hf_op *op;

    tool_start(&tool, "-x");
    other_expect(&tool, "held");
    CHECK_RC(hf_lock(client, NAME, 30, &hold, NULL), HF_ETIMEOUT);
    options.timeout_ms = HF_FOREVER;
    CHECK_RC(hf_acquire_async(client, &want, 1, &options, NULL, NULL, &op, NULL), 0);
    CHECK_RC(hf_op_wait(op, 30, &hold, NULL), HF_ETIMEOUT);
    CHECK_EQ(other_end(&tool), 0);
    CHECK_RC(hf_op_wait(op, PATIENCE_MS, &hold, NULL), 0);
    CHECK_EQ(tool_try("-s"), 1);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_op_free(op);
    hf_close(client);
}

static void tool_waits_for_us(void)
{
    hf_client *client = opened(url_of(scratch, NULL));
    struct other tool;
    hf_hold *hold;

    CHECK_RC(hf_lock(client, NAME, 0, &hold, NULL), 0);
    tool_start(&tool, "-x");
    EVENTUALLY(tool_waits(tool.pid));
    CHECK_RC(hf_release(hold, NULL), 0);
    other_expect(&tool, "held");
    CHECK_RC(hf_lock(client, NAME, 0, &hold, NULL), HF_EBUSY);
    CHECK_EQ(other_end(&tool), 0);
    hf_close(client);
}

/* A cancelled wait leaves no entry in the kernel's queue, and no thread. */
static void cancelled_wait(void)
{
    hf_client *client = opened(url_of(scratch, NULL));
    struct other tool;
    hf_hold *hold;

    tool_start(&tool, "-x");
    other_expect(&tool, "held");
    for (int i = 0; i < 20; i++)
        CHECK_RC(hf_lock(client, NAME, 1, &hold, NULL), HF_ETIMEOUT);
    CHECK(!tool_waits(getpid()));
    CHECK_EQ(other_end(&tool), 0);
    CHECK_EQ(tool_try("-x"), 0);
    hf_close(client);
}

const struct file_case interop_cases[] = {
    { "tool-first", tool_first, FLOCK },
    { "holdfast-first", holdfast_first, FLOCK },
    { "mutex-excludes-tool", mutex_excludes_tool, FLOCK },
    { "holdfast-waits", holdfast_waits, FLOCK },
    { "tool-waits", tool_waits_for_us, FLOCK },
    { "cancelled-wait", cancelled_wait, FLOCK },
    { NULL, NULL, 0 },
};
