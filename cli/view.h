/* SPDX-License-Identifier: MIT */
/*
 * The locks of a store at one moment, sorted and grouped by name: what ls, show, top,
 * watch and sem read; view.c. Filled by view_take(), emptied by view_done(); the
 * entries belong to the view.
 */
#ifndef HOLDFAST_CLI_VIEW_H
#define HOLDFAST_CLI_VIEW_H

#include "cli.h"

struct lock {
    const char *name;
    int32_t kind;           /* of its first holder, or else its first waiter */
    const hf_entry *object; /* of a latch or a cell, or NULL */
    const hf_entry **holders;
    size_t holder_count; /* by token: the oldest first */
    const hf_entry **waiters;
    size_t waiter_count; /* by place */
};

struct view {
    hf_report *report;
    const hf_entry **entries;
    struct lock *locks; /* by name */
    size_t lock_count;
};

/* hf_inspect(), sorted. 0 or its code; an empty view needs no view_done(). */
int view_take(hf_client *client, const char *name, bool prefix, struct view *ret_view,
              hf_error *why);
void view_done(struct view *view);

/* "mutex", "read", ... of a ticket; "mutex", "rw", "permits", ... of a name. */
const char *kind_name(int32_t kind);
const char *lock_kind_name(const struct lock *lock);

/* The free permits of a semaphore; false if the lock is none. And its limit. */
bool lock_available(const struct lock *lock, uint32_t *ret_available);
uint32_t lock_limit(const struct lock *lock);

/* The longest time that an entry has held or waited; -1: none, or not known. */
int64_t oldest_ms(const hf_entry *const *entries, size_t count);

/* "host pid 8123 program", as far as it is known. Not escaped. */
void entry_describe(const hf_entry *entry, char *buffer, size_t size);

/* "held for 4m12s by host pid 8123 program and 2 more, 3 waiters ahead" for the first
 * of the wants that is held, but not by process `own_pid` of this host. 1 with words;
 * 0: none is held; or an error code. Not escaped. */
int holder_describe(hf_client *client, const hf_want *wants, size_t count,
                    int64_t own_pid, char *buffer, size_t size, hf_error *why);

/* The holders in words; for a latch its count, for a cell its version. Not escaped. */
void lock_describe(const struct lock *lock, char *buffer, size_t size);

/* `text` with characters that are unsafe on a terminal as \xNN; cut to fit. */
void text_escape(const char *text, char *buffer, size_t size);

/* A duration for a table: "-" if it is not known, `none` for HF_FOREVER. */
void cell_duration(int64_t ms, const char *none, char *buffer, size_t size);

/* The URL of the store, without secrets. */
void store_url(struct args *args, char *buffer, size_t size);

/* Begins the JSON document of a command: {"url": ..., "name": ... (unless NULL). */
struct json *json_document(struct args *args, const char *name);

/* One holder or waiter, several, and all locks of a view as "locks": [...]; view.c has
 * the schema. */
void entry_json(struct json *json, const char *key, const hf_entry *entry);
void entries_json(struct json *json, const char *key, const hf_entry *const *entries,
                  size_t count);
void view_json(struct json *json, const struct view *view);

/* The stores of this build as "stores": [...]; cmd_version.c. */
void stores_json(struct json *json);

#endif
