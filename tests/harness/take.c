/* SPDX-License-Identifier: MIT */
/*
 * Short words for taking and releasing in a scenario's form: see harness.h.
 *
 * All of it may be called from any thread of the scenario. Ballast (four of five
 * permits taken beforehand) is laid when a name is first used, by a client of its own,
 * with a lease that no advance of the clock outlives and a note by which it is left out
 * of counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define BALLAST_NOTE "ballast"
#define BALLAST_TTL_MS (INT64_C(9) * 365 * 24 * 3600 * 1000)

/* Called with the environment's mutex held. */
static bool ballast_lies(const struct env *e, const char *name)
{
    for (const struct ballast *ballast = e->ballasts; ballast; ballast = ballast->next)
        if (strcmp(ballast->name, name) == 0)
            return true;
    return false;
}

static void ballast_lay(struct env *e, const char *name)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.note = BALLAST_NOTE;
    options.ttl_ms = e->store->caps & HF_CAP_LEASE ? BALLAST_TTL_MS : 0;
    hf_want want = hf_permits(name, 4, 5);
    struct ballast *ballast = calloc(1, sizeof *ballast);

    CHECK(ballast != NULL && (ballast->name = strdup(name)) != NULL);
    CHECK_RC(hf_acquire(e->ballast_client, &want, 1, &options, &ballast->hold, NULL),
             0);
    ballast->next = e->ballasts;
    e->ballasts = ballast;
}

void ballast_ensure(struct env *e, const char *name)
{
    if (!e->form->ballast)
        return;
    pthread_mutex_lock(&e->mutex);
    if (!e->ballast_client)
        e->ballast_client = client_open(e);
    if (!ballast_lies(e, name))
        ballast_lay(e, name);
    pthread_mutex_unlock(&e->mutex);
}

static const char *take_name(const struct take *how)
{
    return how->name ? how->name : THING;
}

static hf_acquire_options take_options(const struct env *e, const struct take *how)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = how->timeout;
    options.ttl_ms = how->ttl ? how->ttl : e->form->ttl_ms;
    options.max_hold_ms = how->max_hold;
    options.owner = how->who ? how->who : 1;
    options.note = how->note;
    options.flags = how->flags;
    return options;
}

static int take_why(struct env *e, hf_client *client, hf_hold **ret_hold,
                    const struct take *how, hf_error *why)
{
    struct wants wants;
    hf_acquire_options options = take_options(e, how);
    ballast_ensure(e, take_name(how));
    form_wants(e->form, &wants, take_name(how), how->rival);
    return hf_acquire(client, wants.want, wants.count, &options, ret_hold, why);
}

int take_with(struct env *e, hf_client *client, hf_hold **ret_hold, struct take how)
{
    return take_why(e, client, ret_hold, &how, NULL);
}

hf_hold *held_with(struct env *e, hf_client *client, struct take how)
{
    hf_hold *hold = NULL;
    hf_error why = { 0 };
    if (take_why(e, client, &hold, &how, &why) != 0)
        check_failed(__FILE__, __LINE__, "%s is taken: %s: %s", take_name(&how),
                     hf_error_name(why.code), why.text);
    CHECK(hold != NULL);
    return hold;
}

hf_hold *held_soon_with(struct env *e, hf_client *client, struct take how)
{
    hf_hold *hold = NULL;
    if (e->store->caps & NEED_PROMPT)
        return held_with(e, client, how);
    EVENTUALLY(take_with(e, client, &hold, how) == 0);
    return hold;
}

hf_op *begin_with(struct env *e, hf_client *client, hf_acquire_cb *callback, void *user,
                  struct take how)
{
    hf_op *op = NULL;
    struct wants wants;
    hf_acquire_options options = take_options(e, &how);
    ballast_ensure(e, take_name(&how));
    form_wants(e->form, &wants, take_name(&how), how.rival);
    CHECK_RC(hf_acquire_async(client, wants.want, wants.count, &options, callback, user,
                              callback ? NULL : &op, NULL),
             0);
    return op;
}

void let_go(hf_hold *hold)
{
    CHECK_RC(hf_release(hold, NULL), 0);
}

void check_free(struct env *e)
{
    hf_client *client = client_open(e);
    let_go(held(e, client, .rival = true, .who = 77));
    client_close(e, client);
}

int op_end(hf_op *op, int64_t timeout_ms, hf_hold **ret_hold)
{
    int rc = hf_op_wait(op, timeout_ms, ret_hold, NULL);
    hf_op_free(op);
    return rc;
}

size_t seen(struct env *e, hf_client *client, int role)
{
    (void)e;
    size_t count = 0;
    hf_report *report = NULL;
    CHECK_RC(hf_inspect(client, "", true, &report, NULL), 0);
    for (size_t i = 0; i < hf_report_count(report); i++) {
        const hf_entry *entry = hf_report_entry(report, i);
        if (entry->role == role && strcmp(entry->note, BALLAST_NOTE) != 0)
            count++;
    }
    hf_report_free(report);
    return count;
}

struct holder holder_find(struct env *e, hf_client *client)
{
    (void)e;
    struct holder holder = { "", 0 };
    hf_report *report = NULL;
    CHECK_RC(hf_inspect(client, "", true, &report, NULL), 0);
    for (size_t i = 0; i < hf_report_count(report) && !holder.token; i++) {
        const hf_entry *entry = hf_report_entry(report, i);
        if (entry->role != HF_HOLDER || strcmp(entry->note, BALLAST_NOTE) == 0)
            continue;
        snprintf(holder.name, sizeof holder.name, "%s", entry->name);
        holder.token = entry->token;
    }
    hf_report_free(report);
    CHECK(holder.token != 0);
    return holder;
}

void holder_evict(struct env *e, hf_client *client)
{
    struct holder holder = holder_find(e, client);
    CHECK_RC(hf_evict(client, holder.name, holder.token, NULL), 0);
}

bool queued(struct env *e, hf_client *client, size_t count)
{
    return seen(e, client, HF_WAITER) == count;
}
