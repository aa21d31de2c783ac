/* SPDX-License-Identifier: MIT */
/*
 * What ls, show, top, watch and sem share (view.h): the view, descriptions in words,
 * and JSON.
 *
 * The JSON, the same for ls, show and top:
 *
 *   {"url": "file:/srv/locks", "locks": [
 *     {"name": "db", "kind": "mutex", "limit": null, "available": null, "left": null,
 *      "version": null,
 *      "holders": [{"kind": "mutex", "host": "db3", "pid": 8123, "program": "backup",
 *                   "note": "", "permits": 1, "since_ms": 4200, "token": 17,
 *                   "lease_ms": null, "place": null}],
 *      "waiters": [{...}]}]}
 *
 * kind of a lock: mutex, rw, permits, expiring, latch, cell; of a holder or waiter:
 * mutex, reentrant, fair, read, write, permits, expiring, latch. limit and available
 * are of permits and expiring, left is of a latch, version of a cell. Durations are
 * milliseconds, tokens and versions numbers. null: not known, or there is none (token
 * and lease of a waiter, place of a holder, lease of a hold without one).
 */
#include "view.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- The view -------------------------------------------------------------------- */

/* By name; then the object, holders by token, waiters by place. */
static int entry_order(const void *left, const void *right)
{
    const hf_entry *a = *(const hf_entry *const *)left;
    const hf_entry *b = *(const hf_entry *const *)right;
    int rc = strcmp(a->name, b->name);

    if (rc != 0)
        return rc;
    if (a->role != b->role)
        return (a->role % HF_OBJECT) - (b->role % HF_OBJECT);
    if (a->token != b->token)
        return a->token < b->token ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

static void lock_add(struct lock *lock, const hf_entry **at)
{
    const hf_entry *entry = *at;

    if (!lock->name) {
        lock->name = entry->name;
        lock->kind = entry->kind;
    }
    if (entry->role == HF_OBJECT) {
        lock->object = entry;
    } else if (entry->role == HF_HOLDER) {
        if (lock->holder_count++ == 0)
            lock->holders = at;
    } else if (lock->waiter_count++ == 0) {
        lock->waiters = at;
    }
}

static void view_group(struct view *view, size_t count)
{
    struct lock *lock = view->locks;

    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(view->entries[i]->name, lock->name) != 0)
            lock++;
        lock_add(lock, &view->entries[i]);
    }
    view->lock_count = count ? (size_t)(lock - view->locks) + 1 : 0;
}

int view_take(hf_client *client, const char *name, bool prefix, struct view *ret_view,
              hf_error *why)
{
    struct view view = { 0 };
    size_t count;
    int rc = hf_inspect(client, name, prefix, &view.report, why);

    if (rc != 0)
        return rc;
    count = hf_report_count(view.report);
    view.entries = calloc(count + 1, sizeof *view.entries);
    view.locks = calloc(count + 1, sizeof *view.locks);
    if (!view.entries || !view.locks) {
        cli_say("out of memory");
        exit(EXIT_INTERNAL);
    }
    for (size_t i = 0; i < count; i++)
        view.entries[i] = hf_report_entry(view.report, i);
    qsort(view.entries, count, sizeof *view.entries, entry_order);
    view_group(&view, count);
    *ret_view = view;
    return 0;
}

void view_done(struct view *view)
{
    free(view->entries);
    free(view->locks);
    hf_report_free(view->report);
    *view = (struct view){ 0 };
}

/* ---- Descriptions ---------------------------------------------------------------- */

const char *kind_name(int32_t kind)
{
    static const char *const names[] = {
        [HF_MUTEX] = "mutex",       [HF_REENTRANT] = "reentrant",
        [HF_FAIR] = "fair",         [HF_READ] = "read",
        [HF_WRITE] = "write",       [HF_PERMITS] = "permits",
        [HF_EXPIRING] = "expiring", [HF_LATCH] = "latch",
        [HF_CELL] = "cell",
    };

    return kind >= HF_MUTEX && kind <= HF_CELL ? names[kind] : "unknown";
}

const char *lock_kind_name(const struct lock *lock)
{
    switch (lock->kind) {
    case HF_REENTRANT:
    case HF_FAIR:
        return kind_name(HF_MUTEX);
    case HF_READ:
    case HF_WRITE:
        return "rw";
    default:
        return kind_name(lock->kind);
    }
}

static const hf_entry *lock_first(const struct lock *lock)
{
    if (lock->object)
        return lock->object;
    return lock->holder_count ? lock->holders[0] : lock->waiters[0];
}

static bool lock_is_semaphore(const struct lock *lock)
{
    return lock->kind == HF_PERMITS || lock->kind == HF_EXPIRING;
}

uint32_t lock_limit(const struct lock *lock)
{
    return lock_first(lock)->limit;
}

bool lock_available(const struct lock *lock, uint32_t *ret_available)
{
    uint32_t limit = lock_limit(lock), taken = 0;

    if (!lock_is_semaphore(lock))
        return false;
    for (size_t i = 0; i < lock->holder_count; i++)
        taken += lock->holders[i]->permits;
    *ret_available = limit > taken ? limit - taken : 0;
    return true;
}

int64_t oldest_ms(const hf_entry *const *entries, size_t count)
{
    int64_t oldest = -1;

    for (size_t i = 0; i < count; i++)
        if (entries[i]->since_ms > oldest)
            oldest = entries[i]->since_ms;
    return oldest;
}

void entry_describe(const hf_entry *entry, char *buffer, size_t size)
{
    char pid[32] = "";

    if (entry->pid > 0)
        snprintf(pid, sizeof pid, "%spid %lld", entry->host[0] ? " " : "",
                 (long long)entry->pid);
    snprintf(buffer, size, "%s%s%s%s", entry->host, pid,
             entry->program[0] && (entry->host[0] || pid[0]) ? " " : "",
             entry->program);
    if (!buffer[0])
        snprintf(buffer, size, "another client");
}

void lock_describe(const struct lock *lock, char *buffer, size_t size)
{
    char who[400];

    if (lock->kind == HF_LATCH && lock->object) {
        snprintf(buffer, size, "%u left", lock->object->permits);
    } else if (lock->kind == HF_CELL && lock->object) {
        snprintf(buffer, size, "version %llu", (unsigned long long)lock->object->token);
    } else if (lock->holder_count == 0) {
        snprintf(buffer, size, "-");
    } else {
        entry_describe(lock->holders[0], who, sizeof who);
        if (lock->holder_count > 1)
            snprintf(buffer, size, "%s and %zu more", who, lock->holder_count - 1);
        else
            snprintf(buffer, size, "%s", who);
    }
}

void cell_duration(int64_t ms, const char *none, char *buffer, size_t size)
{
    if (ms >= 0)
        format_duration(ms, buffer, size);
    else
        snprintf(buffer, size, "%s", none);
}

void store_url(struct args *args, char *buffer, size_t size)
{
    const char *url = args_url(args);

    if (!url)
        url = getenv("HOLDFAST_URL");
    url_without_secrets(url && *url ? url : "file:", buffer, size);
}

/* ---- JSON ------------------------------------------------------------------------ */

static void json_known(struct json *json, const char *key, bool known, uint64_t value)
{
    if (known)
        json_token(json, key, value);
    else
        json_null(json, key);
}

void entry_json(struct json *json, const char *key, const hf_entry *entry)
{
    bool holds = entry->role == HF_HOLDER;

    json_open(json, key, '{');
    json_text(json, "kind", kind_name(entry->kind));
    json_text(json, "host", entry->host[0] ? entry->host : NULL);
    json_known(json, "pid", entry->pid > 0, (uint64_t)entry->pid);
    json_text(json, "program", entry->program[0] ? entry->program : NULL);
    json_text(json, "note", entry->note);
    json_number(json, "permits", entry->permits);
    json_known(json, "since_ms", entry->since_ms >= 0, (uint64_t)entry->since_ms);
    json_known(json, "token", holds, entry->token);
    json_known(json, "lease_ms", holds && entry->left_ms >= 0,
               (uint64_t)entry->left_ms);
    json_known(json, "place", !holds, entry->place);
    json_close(json);
}

void entries_json(struct json *json, const char *key, const hf_entry *const *entries,
                  size_t count)
{
    json_open(json, key, '[');
    for (size_t i = 0; i < count; i++)
        entry_json(json, NULL, entries[i]);
    json_close(json);
}

static void lock_json(struct json *json, const struct lock *lock)
{
    uint32_t available = 0;
    bool semaphore = lock_available(lock, &available);
    const hf_entry *object = lock->object;

    json_open(json, NULL, '{');
    json_text(json, "name", lock->name);
    json_text(json, "kind", lock_kind_name(lock));
    json_known(json, "limit", semaphore, lock_limit(lock));
    json_known(json, "available", semaphore, available);
    json_known(json, "left", object && lock->kind == HF_LATCH,
               object ? object->permits : 0);
    json_known(json, "version", object && lock->kind == HF_CELL,
               object ? object->token : 0);
    entries_json(json, "holders", lock->holders, lock->holder_count);
    entries_json(json, "waiters", lock->waiters, lock->waiter_count);
    json_close(json);
}

void view_json(struct json *json, const struct view *view)
{
    json_open(json, "locks", '[');
    for (size_t i = 0; i < view->lock_count; i++)
        lock_json(json, &view->locks[i]);
    json_close(json);
}

struct json *json_document(struct args *args, const char *name)
{
    struct json *json = json_new(stdout);
    char url[512];

    store_url(args, url, sizeof url);
    json_open(json, NULL, '{');
    json_text(json, "url", url);
    if (name)
        json_text(json, "name", name);
    return json;
}

/* ---- Escaping -------------------------------------------------------------------- */

void text_escape(const char *text, char *buffer, size_t size)
{
    size_t used = 0;

    while (*text) {
        uint32_t code;
        size_t len = utf8_read(text, &code);
        bool safe = len && !utf8_unsafe(code);

        if (used + 5 > size)
            break;
        if (safe) {
            memcpy(buffer + used, text, len);
            used += len;
            text += len;
        } else {
            used += (size_t)snprintf(buffer + used, 5, "\\x%02x",
                                     (unsigned)(unsigned char)*text++);
        }
    }
    buffer[used] = '\0';
}

/* One '?' for each character or stray byte. */
void text_blank(char *text)
{
    char *to = text;

    while (*text) {
        uint32_t code;
        size_t len = utf8_read(text, &code);

        if (len && !utf8_unsafe(code)) {
            memmove(to, text, len);
            to += len;
        } else {
            *to++ = '?';
        }
        text += len ? len : 1;
    }
    *to = '\0';
}
