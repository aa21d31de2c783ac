/* SPDX-License-Identifier: MIT */
/*
 * Trials: a client, an operation, a plan, and what must be true whatever came. See
 * hostile.h.
 *
 * Runs on the main thread of a case's process. The first check that fails ends it, with
 * the spot on the line before.
 */
#include "hostile.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"

/* Frees what the library keeps for reuse at process level. */
extern void hf__debug_trim(void);

static struct plan plan;
static struct {
    size_t descriptors, threads, blocks;
} before;

/* ---- Judging --------------------------------------------------------------------- */

void begin(struct trial *t)
{
    memset(&t->why, 0, sizeof t->why);
    t->since_ms = real_ms();
}

bool text_is_clean(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == '\x7f')
            return false;
    return true;
}

int judged(struct trial *t, int rc, int64_t most_ms)
{
    int64_t took = real_ms() - t->since_ms;
    if (took > most_ms + SLACK_MS)
        check_failed(__FILE__, __LINE__, "a call ends in time: %lld ms of %lld",
                     (long long)took, (long long)most_ms);
    CHECK(rc <= 0);
    CHECK(strcmp(hf_error_name(rc), "HF_E?") != 0);
    if (rc != 0) {
        CHECK_EQ(t->why.code, rc);
        CHECK(memchr(t->why.text, '\0', sizeof t->why.text) && t->why.text[0]);
        CHECK(text_is_clean(t->why.text));
    }
    return rc;
}

void judge_hold(struct trial *t, hf_hold *hold, int64_t lease_ms)
{
    int64_t left = hf_hold_left_ms(hold);
    enum hf_state state = hf_hold_state(hold);
    (void)t;
    CHECK(state == HF_HELD || state == HF_DOUBTFUL || state == HF_LOST);
    CHECK(left >= 0);
    if (left > lease_ms)
        check_failed(__FILE__, __LINE__, "a lease of %lld ms, and %lld ms are left",
                     (long long)lease_ms, (long long)left);
    for (size_t i = 0; i < hf_hold_count(hold); i++)
        CHECK(hf_hold_token(hold, i) > 0 && hf_hold_token(hold, i) <= INT64_MAX);
}

/* ---- Calls ----------------------------------------------------------------------- */

int take(struct trial *t, const hf_want *wants, size_t count, int64_t timeout_ms,
         hf_hold **ret_hold)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = timeout_ms;
    options.ttl_ms = LEASE_MS;
    options.note = "a note";
    *ret_hold = NULL;
    begin(t);
    int rc = hf_acquire(t->client, wants, count, &options, ret_hold, &t->why);
    judged(t, rc, timeout_ms + (int64_t)count * 4 * REQUEST_MS);
    CHECK((rc == 0) == (*ret_hold != NULL));
    if (rc == 0) {
        CHECK_EQ(hf_hold_count(*ret_hold), count);
        judge_hold(t, *ret_hold, LEASE_MS);
    }
    return rc;
}

void let_go(struct trial *t, hf_hold *hold)
{
    if (!hold)
        return;
    begin(t);
    judged(t, hf_release(hold, &t->why), 4 * REQUEST_MS);
}

hf_hold *held(struct trial *t, hf_want want)
{
    hf_hold *hold = NULL;
    if (take(t, &want, 1, PATIENCE_MS, &hold) != 0)
        check_failed(__FILE__, __LINE__, "the lock can be had: %s", t->why.text);
    return hold;
}

hf_hold *sane_hold(struct trial *t, hf_want want)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold = NULL;
    options.timeout_ms = PATIENCE_MS;
    options.ttl_ms = LEASE_MS;
    CHECK_RC(hf_acquire(t->sane, &want, 1, &options, &hold, NULL), 0);
    return hold;
}

size_t entries(struct trial *t, int role)
{
    hf_report *report = NULL;
    size_t count = 0;
    CHECK_RC(hf_inspect(t->sane, t->name, false, &report, NULL), 0);
    for (size_t i = 0; i < hf_report_count(report); i++)
        count += hf_report_entry(report, i)->role == role;
    hf_report_free(report);
    return count;
}

/* ---- The plan -------------------------------------------------------------------- */

void arm(struct trial *t)
{
    middle_lock(t->middle);
    t->plan->armed = true;
    middle_unlock(t->middle);
}

void disarm(struct trial *t)
{
    middle_lock(t->middle);
    t->plan->armed = false;
    middle_unlock(t->middle);
}

static void plan_set(struct trial *t, const struct spot *spots, size_t count,
                     bool record)
{
    middle_lock(t->middle);
    if (record)
        plan_forget(t->plan);
    t->plan->armed = false;
    t->plan->recording = record;
    t->plan->replies = t->plan->applied = 0;
    t->plan->spot_count = count;
    for (size_t i = 0; i < count; i++)
        t->plan->spots[i] = spots[i];
    middle_unlock(t->middle);
}

static void spots_show(const struct trial *t, const struct op *op,
                       const struct spot *spots, size_t count)
{
    char text[512] = "";
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 " reply %u site %u '%s'", spots[i].reply, spots[i].site,
                 t->wire->spoils[spots[i].spoil].name);
    rewind(stdout); /* only the last one is of interest */
    CHECK_EQ(ftruncate(STDOUT_FILENO, 0), 0);
    printf("%s %s:%s\n", t->wire->name, op->name, text);
    fflush(stdout);
}

/* ---- A trial --------------------------------------------------------------------- */

hf_client *client_open(struct trial *t, int port, hf_error *why, int *ret_rc)
{
    char url[320];
    hf_client *client = NULL;
    hf_options options = HF_OPTIONS_INIT;
    options.request_timeout_ms = port ? REQUEST_MS : PATIENCE_MS;
    options.close_timeout_ms = 2 * REQUEST_MS;
    options.program = "hostile";
    t->wire->url(url, sizeof url, port);
    snprintf(url + strlen(url), sizeof url - strlen(url), "?connect_timeout=%s%s%s%s",
             port ? "1s" : "20s", port ? t->wire->client_query : t->wire->sane_query,
             settings.query, t->query);
    int rc = hf_open(url, &options, &client, why);
    /* The server is honest here, and maybe slow: the machine may be busy. */
    for (int64_t end = real_ms() + PATIENCE_MS;
         !ret_rc && rc == HF_EUNREACHABLE && real_ms() < end;)
        rc = hf_open(url, &options, &client, why);
    if (ret_rc)
        *ret_rc = rc;
    else if (rc != 0)
        check_failed(__FILE__, __LINE__, "hf_open(%s): %s", url, why->text);
    return client;
}

/* The same client, and an honest server: soon it works as ever. */
static void check_works(struct trial *t)
{
    hf_hold *hold = NULL;
    hf_error why = { 0 };
    int rc;
    /* After an answer too many the next one is not ours; then the client notices. */
    for (int tries = 0; (rc = hf_lock(t->client, "honest", PATIENCE_MS, &hold, &why));)
        if (++tries > 5)
            check_failed(__FILE__, __LINE__, "the client works again: %s %s",
                         hf_error_name(rc), why.text);
    CHECK(hf_hold_token(hold, 0) > t->token);
    t->token = hf_hold_token(hold, 0);
    rc = hf_release(hold, &why);
    if (rc != 0 && rc != HF_EUNCERTAIN)
        check_failed(__FILE__, __LINE__, "the client releases again: %s %s",
                     hf_error_name(rc), why.text);
}

static void client_end(struct trial *t)
{
    begin(t);
    hf_close(t->client);
    t->client = NULL;
    judged(t, 0, 2 * REQUEST_MS);
}

bool trial_run(struct trial *t, const struct op *op, const struct spot *spots,
               size_t count, bool record)
{
    static unsigned number;
    snprintf(t->name, sizeof t->name, "n%u", ++number);
    spots_show(t, op, spots, count);
    plan_set(t, spots, count, record);
    if (!op->opens)
        t->client = client_open(t, middle_port(t->middle), &t->why, NULL);
    op->run(t);
    disarm(t);
    if (t->client && !op->clock)
        check_works(t);
    if (t->client)
        client_end(t);
    middle_lock(t->middle);
    bool met = t->plan->applied > 0;
    middle_unlock(t->middle);
    return met;
}

void script_run(struct trial *t, const struct script *script)
{
    snprintf(t->name, sizeof t->name, "script");
    plan_set(t, NULL, 0, false);
    t->client = client_open(t, middle_port(t->middle), &t->why, NULL);
    script->run(t);
    disarm(t);
    if (t->client)
        check_works(t);
    if (t->client)
        client_end(t);
}

/* ---- The world ------------------------------------------------------------------- */

static size_t entries_count(const char *path)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

int64_t peak_bytes(void)
{
    struct rusage usage;
    CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return (int64_t)usage.ru_maxrss * 1024;
}

static void *nothing(void *arg)
{
    return arg;
}

static void clock_start(const char *directory)
{
    static const char zero[8];
    char path[128];
    snprintf(path, sizeof path, "%s/clock", directory);
    FILE *file = fopen(path, "we");
    CHECK(file && fwrite(zero, sizeof zero, 1, file) == 1);
    fclose(file);
    CHECK_EQ(hf__clock_shift_open(path), 0);
}

void world_begin(struct trial *t, const char *directory, const struct op *op)
{
    pthread_t thread;
    memset(t, 0, sizeof *t);
    t->wire = settings.wire;
    t->plan = &plan;
    plan.wire = t->wire;
    snprintf(t->query, sizeof t->query, "%s", t->wire->queries[op ? op->query : 0]);
    CHECK_EQ(pthread_create(&thread, NULL, nothing, NULL), 0); /* of a race detector */
    CHECK_EQ(pthread_join(thread, NULL), 0);
    if (op && op->clock)
        clock_start(directory);
    if (!t->wire->shared)
        t->wire->start(directory);
    before.descriptors = entries_count("/proc/self/fd");
    before.threads = entries_count("/proc/self/task");
    before.blocks = hf__mem_live();
    t->middle = middle_start(t->wire->upstream(), &plan_hooks, t->plan);
    t->sane = client_open(t, 0, &t->why, NULL);
}

void world_end(struct trial *t)
{
    hf_close(t->sane);
    middle_stop(t->middle);
    plan_forget(t->plan);
    hf__debug_trim();
    EVENTUALLY(entries_count("/proc/self/task") <= before.threads);
    CHECK_EQ(entries_count("/proc/self/fd"), before.descriptors);
    CHECK_EQ(hf__mem_live(), before.blocks);
    if (!t->wire->shared)
        t->wire->stop();
}
