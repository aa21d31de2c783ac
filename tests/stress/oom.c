/* SPDX-License-Identifier: MIT */
/*
 * oom: every allocation fails once, and then all of them from each one on.
 *
 * A script uses everything that allocates, or might: open, each kind, several names at
 * once, a lease that is renewed, a waiter in another client and one in the same,
 * verify, watch, inspect, latch, cell, adopt, release, close. It runs once to count
 * its allocations, then again for each of them with that one failing, then again with
 * all from that one on failing. After each run:
 *
 *   no crash (and under the sanitizers no report), no hang (the watchdog),
 *   every call said 0 or HF_ENOMEM, or what the script expected of it,
 *   no false hold: after an acquire that failed another client has the lock at once,
 *   no leak: as many blocks are live as before.
 *
 * Links the library's objects, for hf__mem_fail() and the clock that can be moved.
 */
#include "stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "../../src/core/handle.h"

#define TTL_MS 3000
#define PATIENCE_MS 20000
#define NTH_MAX 5000

struct script {
    const char *url;
    int driver;
    hf_client *witness; /* opened before anything fails */
    hf_client *a, *b;
    uint64_t nth;
    bool sticky;
    const char *step;
    int bad; /* answers nobody should give, false holds, leaks */
};

/* ---- Failing --------------------------------------------------------------------- */

static void arm(const struct script *script)
{
    if (script->nth)
        hf__mem_fail(script->nth, script->sticky);
}

static void complain(struct script *script, const char *what, int rc)
{
    if (script->bad++ < 5)
        tap_note("%s: %s: %s (allocation %llu%s)", script->step, what,
                 hf_error_name(rc), (unsigned long long)script->nth,
                 script->sticky ? " and on" : "");
}

/* True if the call succeeded. Out of memory is an answer too. */
static bool good(struct script *script, int rc)
{
    if (rc && rc != HF_ENOMEM)
        complain(script, "unexpected answer", rc);
    return rc == 0;
}

/* Another client can have the wants at once; the failing is suspended meanwhile. */
static void check_free(struct script *script, const hf_want *wants, size_t count)
{
    hf_hold *hold = NULL;
    int rc;

    hf__mem_fail(0, 0);
    rc = hf_acquire(script->witness, wants, count, NULL, &hold, NULL);
    if (rc)
        complain(script, "not free after an error", rc);
    else
        hf_release(hold, NULL);
    if (script->nth && script->sticky)
        hf__mem_fail(1, 1);
}

static hf_hold *acquire_with(struct script *script, hf_client *client,
                             const hf_want *wants, size_t count,
                             const hf_acquire_options *options)
{
    hf_hold *hold = NULL;

    if (good(script, hf_acquire(client, wants, count, options, &hold, NULL)))
        return hold;
    check_free(script, wants, count);
    return NULL;
}

static hf_hold *acquire(struct script *script, const hf_want *wants, size_t count)
{
    return acquire_with(script, script->a, wants, count, NULL);
}

/* A release must always work. */
static void release(struct script *script, hf_hold *hold)
{
    int rc = hf_release(hold, NULL);

    if (rc)
        complain(script, "release", rc);
}

/* ---- Steps ----------------------------------------------------------------------- */

static void step_kinds(struct script *script)
{
    const hf_want wants[] = {
        hf_mutex("mutex"),
        hf_fair("fair"),
        hf_reentrant("reentrant"),
        hf_read("rw"),
        hf_write("rw"),
        hf_permits("permits", 2, 4),
        hf_expiring("expiring", 2),
        hf_striped("striped", "key", 16),
    };

    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        hf_hold *hold = acquire(script, &wants[i], 1);

        if (!hold)
            continue;
        good(script, hf_hold_verify(hold, NULL));
        if (wants[i].kind == HF_WRITE)
            good(script, hf_hold_downgrade(hold, 0, NULL));
        release(script, hold);
    }
}

/* A name and a note that need memory of their own. */
static void step_long(struct script *script)
{
    hf_acquire_options options = { .size = sizeof options, .note = "a note to keep" };
    char name[200];
    hf_want want = hf_fair(name);

    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    release(script, acquire_with(script, script->a, &want, 1, &options));
}

static void step_reentrant(struct script *script)
{
    hf_want want = hf_reentrant("reentrant");
    hf_hold *outer = acquire(script, &want, 1), *inner = NULL;

    if (outer && good(script, hf_acquire(script->a, &want, 1, NULL, &inner, NULL)))
        release(script, inner);
    release(script, outer);
}

static void step_multi(struct script *script)
{
    const hf_want wants[] = { hf_mutex("multi/2"), hf_permits("multi/3", 1, 2),
                              hf_write("multi/1") };

    release(script, acquire(script, wants, 3));
}

/* One failed renewal must be made good by the next; with no memory at all the lease may
 * run out. */
static void step_renew(struct script *script)
{
    hf_acquire_options options = { .size = sizeof options, .ttl_ms = TTL_MS };
    hf_want want = hf_mutex("renewed");
    hf_hold *hold = acquire_with(script, script->a, &want, 1, &options);
    int rc;

    if (!hold)
        return;
    good(script, hf_hold_watch(hold, NULL, NULL, NULL));
    for (int i = 0; i < 4; i++) {
        hf__clock_shift_add(TTL_MS * HF_NS_PER_MS * 4 / 10);
        if (script->driver == HF_DRIVER_USER)
            good(script, hf_dispatch(script->a, NULL));
        rc = hf_hold_verify(hold, NULL);
        if (script->driver == HF_DRIVER_USER && !(script->sticky && rc == HF_ELOST))
            good(script, rc);
    }
    rc = hf_hold_extend(hold, 2 * TTL_MS, NULL);
    if (rc != HF_ELOST)
        good(script, rc);
    rc = hf_release(hold, NULL);
    if (rc && rc != HF_ELOST)
        complain(script, "release", rc);
}

/* A waiter in `client` gets the lock when it is let go, or says why not. */
static void contend(struct script *script, hf_client *client, const char *name)
{
    hf_acquire_options options = { .size = sizeof options, .timeout_ms = PATIENCE_MS };
    hf_want want = hf_mutex(name);
    hf_hold *hold = acquire(script, &want, 1), *next = NULL;
    hf_op *op = NULL;

    if (!hold)
        return;
    if (!good(script,
              hf_acquire_async(client, &want, 1, &options, NULL, NULL, &op, NULL))) {
        release(script, hold);
        check_free(script, &want, 1);
        return;
    }
    release(script, hold);
    if (good(script, hf_op_wait(op, PATIENCE_MS, &next, NULL)))
        release(script, next);
    else
        check_free(script, &want, 1);
    hf_op_free(op);
}

static void step_contended(struct script *script)
{
    contend(script, script->b, "contended");
    contend(script, script->a, "handed off");
}

static void step_timeout(struct script *script)
{
    hf_acquire_options options = { .size = sizeof options, .timeout_ms = 1 };
    hf_want want = hf_fair("timed");
    hf_hold *hold = acquire(script, &want, 1), *other = NULL;
    int rc;

    if (!hold)
        return;
    rc = hf_acquire(script->b, &want, 1, &options, &other, NULL);
    if (rc == 0)
        complain(script, "a false hold", rc);
    else if (rc != HF_ETIMEOUT)
        good(script, rc);
    release(script, hold);
    check_free(script, &want, 1);
}

static void step_objects(struct script *script)
{
    uint32_t left;
    uint64_t version = 0;
    size_t len;
    void *data = NULL;

    good(script, hf_latch_set(script->a, "latch", 1, NULL));
    good(script, hf_latch_count(script->a, "latch", &left, NULL));
    good(script, hf_latch_count_down(script->a, "latch", 1, &left, NULL));
    /* The count-down may have failed; then the wait just ends. */
    if (hf_latch_wait(script->b, "latch", 1, NULL) == HF_EBUSY)
        complain(script, "latch", HF_EBUSY);
    good(script, hf_cell_set(script->a, "cell", 0, "value", 5, &version, NULL));
    if (version &&
        good(script, hf_cell_get(script->a, "cell", &data, &len, &version, NULL))) {
        if (len != 5 || memcmp(data, "value", 6) != 0)
            complain(script, "cell", HF_ECORRUPT);
        hf_free(data);
    }
    if (version)
        good(script, hf_cell_set(script->a, "cell", version, NULL, 0, NULL, NULL));
}

static void step_look(struct script *script)
{
    hf_want want = hf_mutex("looked at");
    hf_hold *hold = acquire(script, &want, 1);
    hf_report *report = NULL;

    if (good(script, hf_inspect(script->b, "", true, &report, NULL))) {
        if (hold && hf_report_count(report) != 1)
            complain(script, "inspect", HF_ENOENT);
        hf_report_free(report);
    }
    if (hold)
        good(script, hf_revoke(script->b, "looked at", 0, NULL));
    release(script, hold);
}

static void step_adopt(struct script *script)
{
    hf_acquire_options options = { .size = sizeof options, .ttl_ms = TTL_MS };
    hf_want want = hf_mutex("adopted");
    hf_hold *hold = acquire_with(script, script->a, &want, 1, &options), *moved = NULL;
    char id[HF_ID_MAX];
    int rc;

    if (hold && good(script, hf_hold_id(hold, 0, id, sizeof id, NULL)) &&
        good(script, hf_adopt(script->b, id, &options, &moved, NULL)))
        release(script, moved);
    rc = hf_release(hold, NULL);
    if (rc && (rc != HF_ELOST || !moved))
        complain(script, "release of what was adopted", rc);
    check_free(script, &want, 1);
}

/* ---- The script ------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*run)(struct script *);
} steps[] = {
    { "kinds", step_kinds },         { "long", step_long },
    { "reentrant", step_reentrant }, { "multi", step_multi },
    { "renew", step_renew },         { "contended", step_contended },
    { "timeout", step_timeout },     { "objects", step_objects },
    { "look", step_look },           { "adopt", step_adopt },
};

/* What a run that was cut short may rightly leave: a latch that counts, a cell. */
static void script_tidy(struct script *script)
{
    uint64_t version;
    void *data;
    size_t len;

    hf_latch_count_down(script->witness, "latch", 1, NULL, NULL);
    if (hf_cell_get(script->witness, "cell", &data, &len, &version, NULL) == 0) {
        hf_free(data);
        hf_cell_set(script->witness, "cell", version, NULL, 0, NULL, NULL);
    }
}

/* One run. Returns how many allocations it asked for. */
static uint64_t script_run(struct script *script)
{
    const hf_options options = { .size = sizeof options, .driver = script->driver };
    uint64_t before;
    int seen;

    script->witness = open_or_bail(script->url, NULL);
    before = hf__mem_count();
    arm(script);
    script->step = "open";
    script->a = script->b = NULL;
    if (good(script, hf_open(script->url, &options, &script->a, NULL)) &&
        good(script, hf_open(script->url, &options, &script->b, NULL))) {
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            script->step = steps[i].name;
            steps[i].run(script);
        }
    }
    script->step = "close";
    hf_close(script->b);
    hf_close(script->a);
    hf__mem_fail(0, 0);
    before = hf__mem_count() - before;
    script_tidy(script);
    seen = entries_seen(script->witness);
    if (seen != 0)
        complain(script, "something is left in the store", seen);
    hf_close(script->witness);
    return before;
}

static size_t live_now(void)
{
    hf__debug_trim();
    return hf__mem_live();
}

static void script_series(struct script *script, uint64_t count, bool sticky)
{
    size_t live = live_now(), leaks = 0;

    script->sticky = sticky;
    for (script->nth = 1; script->nth <= count; script->nth++) {
        size_t now;

        script_run(script);
        now = live_now();
        if (now != live && leaks++ < 5)
            tap_note("%zu blocks live, %zu before (allocation %llu%s)", now, live,
                     (unsigned long long)script->nth, sticky ? " and on" : "");
        live = now;
    }
    script->nth = 0;
    tap_ok(script->bad == 0, "%s: %llu points, %s: right answers, no false hold",
           script->url, (unsigned long long)count,
           sticky ? "failing from then on" : "failing once");
    tap_ok(leaks == 0, "%s: no leak", script->url);
    script->bad = 0;
}

static void script_test(const char *url, int driver)
{
    struct script script = { .url = url, .driver = driver };
    uint64_t count;

    tap_note("%s, %s", url,
             driver == HF_DRIVER_USER ? "own loop" : "background thread");
    script_run(&script); /* what is made once and kept is made now */
    count = script_run(&script);
    tap_ok(script.bad == 0 && count > 0 && count < NTH_MAX,
           "%s: the script runs, with %llu allocations", url,
           (unsigned long long)count);
    script.bad = 0;
    if (count < NTH_MAX) {
        script_series(&script, count, false);
        script_series(&script, count, true);
    }
}

int main(int argc, char **argv)
{
    struct stress_options options = { 0 };
    char dir[96], path[128], url[128];

    stress_options(argc, argv, &options);
    watchdog(400);
    scratch_make(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/clock", dir);
    if (hf__clock_shift_open(path))
        tap_bail("cannot move the clock");
    snprintf(url, sizeof url, "file:%s/store", dir);
    if (mkdir(url + strlen("file:"), 0700))
        tap_bail("cannot make %s", url);
    script_test("mem:oom", HF_DRIVER_USER);
    script_test("mem:oom", HF_DRIVER_THREAD);
    script_test(url, HF_DRIVER_USER);
    script_test(url, HF_DRIVER_THREAD);
    scratch_remove(dir);
    return tap_done();
}
