/* SPDX-License-Identifier: MIT */
/*
 * Looking and force: hf_inspect, hf_evict, hf_revoke, hf_diagnose; and arguments that
 * are refused.
 */
#include <stdio.h>
#include <string.h>

#include "storm.h"

#define ROWS_MAX 256

/* ---- S5: inspect ----------------------------------------------------------------- */

struct row {
    int part;
    uint32_t serial;
    uint64_t token;
};

static bool part_stands(const struct part *part)
{
    return (part->flags & P_USED) && !part->leased &&
           !(part->flags &
             (P_EXCUSED | P_RELEASING | P_LEFT | P_DOWNGRADING | P_DOWNGRADED));
}

static size_t rows_before(struct row *rows, int name)
{
    size_t count = 0;
    model_lock();
    for (int i = 0; i < world->parts_end && count < ROWS_MAX; i++) {
        const struct part *part = &world->parts[i];
        if (part_stands(part) && (name < 0 || part->name == name))
            rows[count++] = (struct row){ i, part->serial, part->token };
    }
    model_unlock();
    return count;
}

/* After a hand-off between threads a server knows the holder by the token that its
 * client told last. */
static bool may_be_old(void)
{
    return strncmp(world->config.store, "redis", 5) == 0;
}

static bool report_shows(const hf_report *report, const struct part *part)
{
    const char *name = world->names[part->name].text;
    for (size_t i = 0; may_be_old() && i < hf_report_count(report); i++) {
        const hf_entry *entry = hf_report_entry(report, i);
        if (entry->role == HF_HOLDER && entry->token < part->token &&
            part->token - entry->token <= 64 && strcmp(entry->name, name) == 0) {
            atomic_fetch_add(&world->old_tokens, 1);
            return true;
        }
    }
    for (size_t i = 0; i < hf_report_count(report); i++) {
        const hf_entry *entry = hf_report_entry(report, i);
        if (entry->role == HF_HOLDER && entry->token == part->token &&
            strcmp(entry->name, name) == 0)
            return true;
    }
    return false;
}

/* No holder that was released before we looked. */
static void report_check_dead(const hf_report *report, int64_t began)
{
    for (size_t i = 0; i < hf_report_count(report); i++) {
        const hf_entry *entry = hf_report_entry(report, i);
        int name = name_find(entry->name);
        COUNTED(report_entry);
        if (name < 0) {
            violation(5, "hf_inspect shows %.60s, which is no name of this run",
                      entry->name);
            continue;
        }
        const struct grant *grant = grant_find(&world->names[name], entry->token);
        bool sibling = false;
        for (int j = 0; j < world->parts_end; j++)
            sibling |= (world->parts[j].flags & P_USED) &&
                       world->parts[j].name == name &&
                       (may_be_old() ? world->parts[j].token - entry->token <= 64
                                     : world->parts[j].token == entry->token);
        sibling |= may_be_old() && grant && grant->passed;
        if (entry->role == HF_HOLDER && grant && grant->freed_ns && !sibling &&
            grant->freed_ns < began && !world->config.lossy)
            violation(5,
                      "hf_inspect shows %.60s held with token %llu, which was "
                      "released %lld us before",
                      entry->name, (unsigned long long)entry->token,
                      (long long)((began - grant->freed_ns) / 1000));
    }
}

/* S6: who holds believes no longer than the store does. */
static void belief_check(const hf_report *report, int64_t began)
{
    if (world->session_ms) /* the server knows of the session only */
        return;
    for (int i = 0; i < world->parts_end; i++) {
        const struct part *part = &world->parts[i];
        bool later = part->since_ns >= began; /* adopted meanwhile: a new lease */
        if (!part->fixed || later || part->process != self->number ||
            !part_is_held(part, 0))
            continue;
        int64_t left = hf_hold_left_ms(part->handle);
        for (size_t j = 0; j < hf_report_count(report); j++) {
            const hf_entry *entry = hf_report_entry(report, j);
            if (entry->role == HF_HOLDER && entry->token == part->token &&
                strcmp(entry->name, world->names[part->name].text) == 0 &&
                entry->left_ms != HF_FOREVER && left > entry->left_ms + 5)
                violation(6, "%.60s is held for %lld ms more, and the store says %lld",
                          entry->name, (long long)left, (long long)entry->left_ms);
        }
    }
}

static void report_judge(const hf_report *report, const struct row *rows, size_t count,
                         int64_t began)
{
    model_lock();
    for (size_t i = 0; i < count; i++) {
        const struct part *part = &world->parts[rows[i].part];
        if (part->serial == rows[i].serial && part_stands(part) &&
            part->token == rows[i].token && !report_shows(report, part) &&
            !world->config.lossy)
            violation(5, "hf_inspect does not show %.60s, kind %d, token %llu",
                      world->names[part->name].text, part->kind,
                      (unsigned long long)part->token);
    }
    report_check_dead(report, began);
    belief_check(report, began);
    model_unlock();
}

void inspect_name(struct client *client, int name)
{
    struct row rows[ROWS_MAX];
    hf_error why;
    hf_report *report = NULL;
    size_t count = rows_before(rows, name);
    int64_t began = now_ns();
    int rc = CALL(inspect, client->handle, name < 0 ? "" : world->names[name].text,
                  name < 0, &report, &why);
    event("inspect %.30s: %s", name < 0 ? "all" : world->names[name].text,
          code_name(rc));
    if (rc == 0) {
        COUNTED(report_count);
        report_judge(report, rows, count, began);
        COUNTED(report_free);
        hf_report_free(report);
        return;
    }
    bool refused = rc == HF_EINVAL && name >= 0 &&
                   name_is_refused(world->config.store, world->names[name].text, 0);
    if (!refused && rc != HF_ECLOSED && !is_weather(rc, began))
        violation(13, "hf_inspect answers %s: %s", code_name(rc), why.text);
}

void act_inspect(struct rng *rng)
{
    struct client *client = client_pick(rng);
    int name = rng_chance(rng, 800) ? (int)rng_below(rng, world->names_count) : -1;
    if (client)
        inspect_name(client, name);
}

/* ---- S4: evict ------------------------------------------------------------------- */

static uint64_t token_pick(int name, uint64_t choice, uint64_t which)
{
    uint64_t token = 0, seen = 0;
    const struct name *of = &world->names[name];
    if (choice < 5) { /* one that is held */
        for (int i = 0; i < world->parts_end; i++)
            if ((world->parts[i].flags & P_USED) && world->parts[i].name == name &&
                which % ++seen == 0)
                token = world->parts[i].token;
        return token;
    }
    if (choice < 8) /* one that was */
        return of->grants[which % GRANTS_KEPT].token;
    if (choice == 8)
        return of->max_token ? of->max_token + 1 + which % 100 : 0;
    return UINT64_MAX / 2 - which % 1000;
}

/* The holder's client did not answer in time: the token that it told last decided. */
static void parts_doubt(int name)
{
    for (int i = 0; i < world->parts_end; i++)
        if ((world->parts[i].flags & P_USED) && world->parts[i].name == name)
            world->parts[i].flags |= P_DOUBTED;
}

static void evict_judge(int name, uint64_t token, int rc, enum known known,
                        int64_t began)
{
    const char *text = world->names[name].text;
    bool slow = strncmp(world->config.store, "redis", 5) == 0 &&
                now_ns() - began > 300 * NS_PER_MS;
    bool refused = rc == HF_EINVAL && name_is_refused(world->config.store, text, 0);
    if (slow && rc == 0)
        parts_doubt(name);
    else if (rc == 0 && (known == SURELY_FREE || token > UINT64_MAX / 4))
        violation(4, "%.60s was evicted with token %llu, which nobody has", text,
                  (unsigned long long)token);
    if (rc == HF_ENOENT && known == SURELY_HELD && !slow &&
        model_known(name, token) == SURELY_HELD)
        violation(4, "%.60s is held with token %llu, and hf_evict finds nobody", text,
                  (unsigned long long)token);
    if (rc != 0 && rc != HF_ENOENT && rc != HF_ECLOSED && !refused &&
        !is_weather(rc, began))
        violation(13, "hf_evict of %.60s answers %s", text, code_name(rc));
}

void act_evict(struct rng *rng)
{
    struct client *client = client_pick(rng);
    int name = (int)rng_below(rng, world->names_count);
    uint64_t choice = rng_below(rng, 10), which = rng_next(rng);
    if (!client)
        return;
    model_lock();
    uint64_t token = token_pick(name, choice, which);
    model_unlock();
    if (token)
        evict_now(client, name, token);
}

void evict_now(struct client *client, int name, uint64_t token)
{
    hf_error why;
    model_lock();
    enum known known = model_known(name, token);
    struct taking *taking = taking_begin(name, token, false);
    world->names[name].evictions++;
    model_unlock();
    int64_t began = now_ns();
    int rc = CALL(evict, client->handle, world->names[name].text, token, &why);
    event("evict %.30s token %llu: %s", world->names[name].text,
          (unsigned long long)token, code_name(rc));
    bool cannot = rc == HF_EUNSUPPORTED && !(world->caps & HF_CAP_EVICT);
    rc = cannot ? HF_ENOENT : rc;
    model_lock();
    bool nobody = rc == HF_ENOENT || rc == HF_EINVAL;
    taking_end(name, taking, rc == 0 ? TAKE_DONE : nobody ? TAKE_FAILED : TAKE_OPEN);
    if (!cannot)
        evict_judge(name, token, rc, known, began);
    model_unlock();
    if (rc == 0)
        atomic_fetch_add(&world->evictions, 1);
}

/* ---- Revoke, diagnose ------------------------------------------------------------ */

void act_revoke(struct rng *rng)
{
    hf_error why;
    struct client *client = client_pick(rng);
    int name = (int)rng_below(rng, world->names_count);
    uint64_t choice = rng_below(rng, 10), which = rng_next(rng);
    if (!client)
        return;
    model_lock();
    uint64_t token = choice < 3 ? 0 : token_pick(name, choice, which);
    enum known known = token ? model_known(name, token) : UNKNOWN;
    world->names[name].revokes++;
    model_unlock();
    int64_t began = now_ns();
    int rc = CALL(revoke, client->handle, world->names[name].text, token, &why);
    event("revoke %.30s token %llu: %s", world->names[name].text,
          (unsigned long long)token, code_name(rc));
    model_lock();
    if (rc == HF_ENOENT && known == SURELY_HELD &&
        model_known(name, token) == SURELY_HELD && now_ns() - began < 300 * NS_PER_MS)
        violation(4, "%.60s is held with token %llu, and hf_revoke finds nobody",
                  world->names[name].text, (unsigned long long)token);
    /* A server does not know which of its callers a client handed the lock on to. */
    const struct grant *grant = token ? grant_find(&world->names[name], token) : NULL;
    bool passed = world->default_ttl && grant && grant->passed;
    if (rc == 0 && known == SURELY_FREE && !passed &&
        now_ns() - began < 300 * NS_PER_MS)
        violation(4, "%.60s was revoked with token %llu, which nobody has",
                  world->names[name].text, (unsigned long long)token);
    model_unlock();
}

void act_diagnose(struct rng *rng)
{
    hf_error why;
    hf_report *report = NULL;
    struct client *client = client_pick(rng);
    if (!client || CALL(diagnose, client->handle, &report, &why) != 0)
        return;
    for (size_t i = 0; i < hf_report_count(report); i++) {
        COUNTED(report_finding);
        if (!hf_report_finding(report, i)->what)
            violation(13, "a finding without words");
    }
    hf_report_free(report);
}

/* ---- What is refused ------------------------------------------------------------- */

static void refused(int rc, int code, const char *what)
{
    if (rc != code && rc != HF_ECLOSED)
        violation(13, "%s answers %s", what, code_name(rc));
}

void act_bad_input(struct rng *rng)
{
    hf_hold *hold = NULL;
    hf_error why;
    char text[HF_NAME_MAX + 2];
    struct client *client = client_pick(rng);
    if (!client)
        return;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    hf_want twice[] = { hf_mutex("x"), hf_mutex("x") };
    hf_want none = hf_permits("x", 2, 1);
    refused(CALL(lock, client->handle, "", 0, &hold, &why), HF_ENAME, "no name");
    refused(CALL(lock, client->handle, text, 0, &hold, &why), HF_ENAME, "1025 bytes");
    refused(CALL(lock, client->handle, "\xff", 0, &hold, &why), HF_ENAME, "no UTF-8");
    refused(CALL(acquire, client->handle, twice, 2, NULL, &hold, &why), HF_EINVAL,
            "one name twice");
    if (world->caps & HF_CAP_PERMITS)
        refused(CALL(acquire, client->handle, &none, 1, NULL, &hold, &why), HF_EINVAL,
                "2 of 1 permits");
    if (hf_release(NULL, &why) != 0 || hf_hold_state(NULL) != HF_LOST)
        violation(13, "NULL is not taken for a hold that is lost");
    COUNTED(version);
    COUNTED(stores);
    COUNTED(error_name);
    COUNTED(error_sentence);
    if (!hf_version() || !hf_stores() || !hf_error_sentence(HF_EBUSY))
        violation(13, "a string is NULL");
}
