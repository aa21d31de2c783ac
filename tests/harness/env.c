/* SPDX-License-Identifier: MIT */
/*
 * The environment of one scenario, and the residue check at its end.
 *
 * env_run() is called once per process, on its main thread. It opens and closes a
 * client before it takes the first count, so that what the library sets up once per
 * process is not taken for a leak. After the scenario everything it left open is
 * closed, a fresh client must see an empty store, and descriptors, threads and blocks
 * of memory must be as many as before.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "harness.h"

/* Frees what the library keeps for reuse at process level. */
extern void hf__debug_trim(void);

#define STEP_MS 5000

static struct env *running;

struct count {
    size_t descriptors;
    size_t threads;
    size_t blocks;
};

/* ---- Clients --------------------------------------------------------------------- */

static hf_client **client_slot(struct env *e, const hf_client *client)
{
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (e->clients[i] == client)
            return &e->clients[i];
    return NULL;
}

/* On a busy machine the answer to a withdrawal may take a while, and most scenarios are
 * not about that: they wait for it. */
hf_client *client_with(struct env *e, const hf_options *given)
{
    hf_client *client = NULL;
    hf_error why = { 0 };
    hf_options options = HF_OPTIONS_INIT;
    if (given)
        options = *given;
    if (!options.confirm_timeout_ms)
        options.confirm_timeout_ms =
            3 * (options.request_timeout_ms ? options.request_timeout_ms : 5000);
    if (hf_open(e->url, &options, &client, &why) != 0)
        check_failed(__FILE__, __LINE__, "hf_open: %s: %s", hf_error_name(why.code),
                     why.text);
    pthread_mutex_lock(&e->mutex);
    hf_client **slot = client_slot(e, NULL);
    CHECK(slot != NULL);
    *slot = client;
    pthread_mutex_unlock(&e->mutex);
    return client;
}

hf_client *client_open(struct env *e)
{
    return client_with(e, NULL);
}

void client_close(struct env *e, hf_client *client)
{
    pthread_mutex_lock(&e->mutex);
    hf_client **slot = client_slot(e, client);
    CHECK(slot != NULL);
    *slot = NULL;
    pthread_mutex_unlock(&e->mutex);
    hf_close(client);
}

int64_t hasty_ms(const struct env *e)
{
    if (e->store->caps & HF_CAP_CRASH)
        return 20;
    return e->store->prepare ? 1000 : 600; /* a slow server; a server */
}

/* ---- The clock ------------------------------------------------------------------- */

/* A server that outlives the scenario has a clock that was moved before. */
static void clock_make(struct env *e)
{
    static const char zero[8];
    if (!e->clock[0]) {
        snprintf(e->clock, sizeof e->clock, "%s/clock", e->scratch);
        int fd = open(e->clock, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        CHECK(fd >= 0 && write(fd, zero, sizeof zero) == (ssize_t)sizeof zero);
        close(fd);
    }
    CHECK(setenv("HOLDFAST_TEST_CLOCK", e->clock, 1) == 0);
    CHECK_EQ(hf__clock_shift_open(e->clock), 0);
}

/* Each of this process's clients says something to the store. */
static void clients_touch(const struct env *e)
{
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        hf_hold *hold = NULL;
        if (!e->clients[i])
            continue;
        CHECK_RC(hf_lock(e->clients[i], "touched", 0, &hold, NULL), 0);
        CHECK_RC(hf_release(hold, NULL), 0);
    }
}

/* Where a whole client expires, and not each of its leases, time must not jump over
 * what a client that is alive would have said meanwhile. */
void clock_advance(int64_t ms)
{
    bool touch = !(running->store->caps & NEED_PROMPT) &&
                 (running->scenario->needs & HF_CAP_PROCESSES);
    CHECK(getenv("HOLDFAST_TEST_CLOCK") != NULL);
    for (int64_t step; touch && ms > 0; ms -= step) {
        step = ms < STEP_MS ? ms : STEP_MS;
        hf__clock_shift_add(step * HF_NS_PER_MS);
        clients_touch(running);
    }
    hf__clock_shift_add(ms * HF_NS_PER_MS);
}

/* ---- Memory ---------------------------------------------------------------------- */

void memory_fail(uint64_t nth)
{
    hf__mem_fail(nth, 0);
}

uint64_t memory_asked(void)
{
    return hf__mem_count();
}

uint64_t store_weight(struct env *e)
{
    hf__debug_trim();
    return e->store->weight(e);
}

/* ---- Residue --------------------------------------------------------------------- */

static size_t entries_count(const char *path)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            count++;
    closedir(dir);
    return count;
}

static struct count count_all(void)
{
    hf__debug_trim();
    struct count count = { entries_count("/proc/self/fd"),
                           entries_count("/proc/self/task"), hf__mem_live() };
    return count;
}

static void descriptors_show(void)
{
    for (int fd = 0; fd < 256; fd++) {
        char path[64];
        char target[256] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) > 0)
            printf("descriptor %d is %s\n", fd, target);
    }
    fflush(stdout);
}

/* A thread that was joined may stay in /proc for a moment: hence the patience, and the
 * count before may have been one too high. */
static void residue_check_process(const struct count *before)
{
    EVENTUALLY(entries_count("/proc/self/task") <= before->threads);
    struct count after = count_all();
    if (after.descriptors != before->descriptors)
        descriptors_show();
    CHECK_EQ(after.descriptors, before->descriptors);
    CHECK_EQ(after.blocks, before->blocks);
}

static void residue_check_store(struct env *e)
{
    char text[256];
    if (e->store->caps & HF_CAP_INSPECT) {
        hf_client *client = client_open(e);
        for (int role = HF_HOLDER; role <= HF_OBJECT; role++)
            EVENTUALLY(seen(e, client, role) == 0);
        client_close(e, client);
    }
    if (e->store->residue(e, text, sizeof text))
        check_failed(__FILE__, __LINE__, "nothing may be left, but there is %s", text);
}

/* ---- A run ----------------------------------------------------------------------- */

static void ballasts_done(struct env *e)
{
    while (e->ballasts) {
        struct ballast *ballast = e->ballasts;
        e->ballasts = ballast->next;
        hf_release(ballast->hold, NULL);
        free(ballast->name);
        free(ballast);
    }
    if (e->ballast_client)
        client_close(e, e->ballast_client);
    e->ballast_client = NULL;
}

/* Where a lease outlives the process, a taker has to be asked to let go. */
static void takers_done(struct env *e)
{
    void (*end)(struct taker *) =
        e->store->caps & HF_CAP_CRASH ? taker_kill : taker_close;
    for (size_t i = 0; i < TAKERS_MAX; i++)
        if (e->takers[i].pid)
            end(&e->takers[i]);
}

static void env_done(struct env *e)
{
    takers_done(e);
    ballasts_done(e);
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (e->clients[i])
            client_close(e, e->clients[i]);
}

/* The scenario's row of the matrix says that it can run here; the store must agree. */
static void capabilities_check(struct env *e)
{
    hf_client *client = client_open(e);
    uint64_t said = hf_capabilities(client);
    uint64_t declared = e->store->caps & ~NEED_FAULT;
    client_close(e, client);
    for (int i = 0; i < 40; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if ((said ^ declared) & bit)
            check_failed(__FILE__, __LINE__, "capability %s: the store says %s",
                         capability_name(bit), said & bit ? "yes" : "no");
    }
}

static void thread_nothing(void *arg, size_t number)
{
    (void)arg;
    (void)number;
}

void env_run(const struct store *store, const struct form *form,
             const struct scenario *scenario, const char *scratch)
{
    static struct env e = { .mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP };
    e.store = store;
    e.form = form;
    e.scenario = scenario;
    running = &e;
    snprintf(e.scratch, sizeof e.scratch, "%s", scratch);

    store->start(&e);
    stores_register(e.url);
    if (scenario->flags & CLOCK)
        clock_make(&e);
    capabilities_check(&e);
    threads_run(1, thread_nothing, NULL); /* race detectors start one of their own */
    struct count before = count_all();

    scenario->run(&e);

    if (store->settle)
        store->settle(&e);
    env_done(&e);
    residue_check_store(&e);
    residue_check_process(&before);
    store->stop(&e);
}
