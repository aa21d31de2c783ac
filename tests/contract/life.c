/* SPDX-License-Identifier: MIT */
/*
 * The life of a client: its end, use after its end, and fork().
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract.h"

/* ---- Close ----------------------------------------------------------------------- */

static void close_frees(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    CHECK_BUSY(e, b, .rival = true);
    client_close(e, a);
    let_go(held(e, b, .rival = true));
    CHECK_RC(hf_release(hold, NULL), HF_ECLOSED);
}

static void close_lets_waiter_in(struct env *e)
{
    struct contender waiter;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    contend(&waiter, e, b, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, b, 1));
    client_close(e, a);
    CHECK_RC(contender_join(&waiter), 0);
    let_go(waiter.hold);
    CHECK_RC(hf_release(hold, NULL), HF_ECLOSED);
}

/* A thread inside hf_acquire(), an op, and a callback: all of them are told. */
static void close_ends_waits(struct env *e)
{
    struct contender waiter;
    struct told told = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    hf_hold *other = NULL;
    hf_op *op = begin(e, b, NULL, NULL, .rival = true, .timeout = HF_FOREVER, .who = 2);
    begin(e, b, told_hold, &told, .rival = true, .timeout = HF_FOREVER, .who = 3);
    contend(&waiter, e, b, .rival = true, .timeout = HF_FOREVER, .who = 4);
    EVENTUALLY(seen(e, a, HF_WAITER) > 0);
    client_close(e, b);
    CHECK_RC(contender_join(&waiter), HF_ECLOSED);
    EVENTUALLY(atomic_load(&told.ended) == 1);
    CHECK_RC(told.rc, HF_ECLOSED);
    CHECK_RC(op_end(op, HF_FOREVER, &other), HF_ECLOSED);
    CHECK_EQ(seen(e, a, HF_WAITER), 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    let_go(hold);
}

static void client_use_after_close(struct env *e)
{
    struct wants wants;
    hf_report *report = NULL;
    hf_hold *hold = NULL;
    hf_op *op = NULL;
    hf_error why = { 0 };
    hf_client *client = client_open(e);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.ttl_ms = e->form->ttl_ms;
    form_wants(e->form, &wants, THING, false);
    client_close(e, client);

    CHECK_RC(hf_acquire(client, wants.want, wants.count, &options, &hold, &why),
             HF_ECLOSED);
    CHECK(why.code == HF_ECLOSED && why.text[0]);
    CHECK_RC(hf_acquire_async(client, wants.want, wants.count, &options, NULL, NULL,
                              &op, NULL),
             HF_ECLOSED);
    CHECK_RC(hf_inspect(client, "", true, &report, NULL), HF_ECLOSED);
    CHECK_RC(hf_dispatch(client, NULL), HF_ECLOSED);
    CHECK_RC(hf_dispatch_fd(client, NULL), HF_ECLOSED);
    CHECK_EQ(hf_capabilities(client), 0);
    CHECK(hold == NULL && op == NULL && report == NULL);
    hf_close(client);
}

static void hold_use_after_close(struct env *e)
{
    struct told told = { 0 };
    char id[HF_ID_MAX];
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    client_close(e, client);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_EQ(hf_hold_left_ms(hold), 0);
    CHECK_RC(hf_hold_verify(hold, NULL), HF_ECLOSED);
    CHECK_RC(hf_hold_extend(hold, 1000, NULL), HF_ECLOSED);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), HF_ECLOSED);
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), HF_ECLOSED);
    CHECK_RC(hf_release_async(hold, NULL, NULL, NULL), HF_ECLOSED);
    check_free(e);
}

static void release_after_close(struct env *e)
{
    hf_error why = { 0 };
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    client_close(e, client);
    CHECK_RC(hf_release(hold, &why), HF_ECLOSED);
    CHECK(why.code == HF_ECLOSED && why.text[0]);
    check_free(e);
}

/* Opened and closed while others are at it. */
static void client_comes_and_goes(void *arg, size_t number)
{
    struct env *e = arg;
    for (int i = 0; i < 10; i++) {
        hf_client *client = client_open(e);
        let_go(held(e, client, .timeout = HF_FOREVER, .who = number + 1));
        client_close(e, client);
    }
}

static void clients_come_and_go(struct env *e)
{
    threads_run(4, client_comes_and_goes, e);
    check_free(e);
}

/* ---- Fork ------------------------------------------------------------------------ */

static bool thread_sleeps(const char *number)
{
    char path[300];
    char state = 'S';
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", number);
    FILE *file = fopen(path, "re");
    if (!file)
        return true; /* it has ended */
    CHECK_EQ(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state == 'S';
}

/* True if every other thread of this process sleeps. */
static bool others_sleep(void)
{
    bool sleep = true;
    DIR *dir = opendir("/proc/self/task");
    CHECK(dir != NULL);
    for (struct dirent *entry; sleep && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != gettid())
            sleep = thread_sleeps(entry->d_name);
    closedir(dir);
    return sleep;
}

/* The child ends with a failed check or with 0. The fork waits for a quiet moment: some
 * sanitizers do not survive one in the middle of another thread's allocation. */
static void child_check(void (*body)(struct env *, hf_client *, hf_hold *),
                        struct env *e, hf_client *client, hf_hold *hold)
{
    int status = 1;
    EVENTUALLY(others_sleep());
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        body(e, client, hold);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void child_calls(struct env *e, hf_client *client, hf_hold *hold)
{
    struct wants wants;
    hf_hold *other = NULL;
    hf_op *op = NULL;
    hf_report *report = NULL;
    hf_error why = { 0 };
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.ttl_ms = e->form->ttl_ms;
    form_wants(e->form, &wants, "other", false);
    CHECK_RC(hf_acquire(client, wants.want, wants.count, &options, &other, &why),
             HF_EFORKED);
    CHECK(why.code == HF_EFORKED && why.text[0]);
    CHECK_RC(hf_acquire_async(client, wants.want, wants.count, &options, NULL, NULL,
                              &op, NULL),
             HF_EFORKED);
    CHECK_RC(hf_inspect(client, "", true, &report, NULL), HF_EFORKED);
    CHECK_RC(hf_dispatch(client, NULL), HF_EFORKED);
    CHECK_RC(hf_evict(client, THING, 1, NULL), HF_EFORKED);
    CHECK_RC(hf_hold_verify(hold, NULL), HF_EFORKED);
    CHECK_RC(hf_hold_extend(hold, 1000, NULL), HF_EFORKED);
    CHECK_EQ(hf_hold_state(hold), HF_LOST);
    CHECK_RC(hf_release(hold, NULL), HF_EFORKED);
    hf_close(client);
}

static void fork_child_is_refused(struct env *e)
{
    struct contender waiter;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    contend(&waiter, e, b, .rival = true, .timeout = HF_FOREVER, .who = 2);
    EVENTUALLY(queued(e, a, 1));
    child_check(child_calls, e, a, hold);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    CHECK(!atomic_load(&waiter.over));
    CHECK_BUSY(e, a, .rival = true, .who = 3);
    let_go(hold);
    CHECK_RC(contender_join(&waiter), 0);
    let_go(waiter.hold);
}

/* What a child does that never heard of us. */
static void child_nothing(struct env *e, hf_client *client, hf_hold *hold)
{
    (void)e;
    (void)client;
    (void)hold;
}

static void fork_child_ends(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    for (int i = 0; i < 5; i++)
        child_check(child_nothing, e, a, hold);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    CHECK_BUSY(e, b, .rival = true);
    let_go(hold);
}

/* A client that the child opens itself is one like any other. (It starts no thread:
 * race detectors cannot do that after a fork.) */
static void child_own_client(struct env *e, hf_client *client, hf_hold *hold)
{
    (void)client;
    (void)hold;
    hf_options options = HF_OPTIONS_INIT;
    options.driver = HF_DRIVER_USER;
    hf_client *mine = client_with(e, &options);
    CHECK_BUSY(e, mine, .rival = true);
    let_go(held(e, mine, .name = "other"));
    client_close(e, mine);
}

static void fork_child_opens_its_own(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    child_check(child_own_client, e, client, hold);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    let_go(hold);
}

const struct scenario scenarios_life[] = {
    { "close-frees", LOCKS, 0, 0, close_frees },
    { "close-lets-waiter-in", LOCKS, HF_CAP_INSPECT, 0, close_lets_waiter_in },
    { "close-ends-waits", LOCKS, HF_CAP_INSPECT, 0, close_ends_waits },
    { "client-use-after-close", LOCKS, 0, 0, client_use_after_close },
    { "hold-use-after-close", LOCKS, 0, 0, hold_use_after_close },
    { "release-after-close", LOCKS, 0, 0, release_after_close },
    { "clients-come-and-go", LOCKS, 0, 0, clients_come_and_go },
    { "fork-child-is-refused", LOCKS, HF_CAP_INSPECT, 0, fork_child_is_refused },
    { "fork-child-ends", LOCKS, 0, 0, fork_child_ends },
    { "fork-child-opens-its-own", LOCKS & ~PERMITS_OF_5, HF_CAP_PROCESSES, 0,
      fork_child_opens_its_own },
    { NULL, 0, 0, 0, NULL },
};
