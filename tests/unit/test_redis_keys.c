/* SPDX-License-Identifier: MIT */
/*
 * Keys of the redis store, over every name that can be made of a few pieces: those that
 * the forms of keys are made of. No two names that are accepted share a key, but for
 * the token, and none is a key of another one.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "../../src/backends/redis/keys.h"

enum { PIECES = 12, DEPTH = 4, DONE = KEY_END, READER, KINDS_OF_KEYS };

static const char *const pieces[PIECES] = {
    "x",
    "{",
    "}",
    ":",
    ":timeout",
    ":rwlock_timeout:",
    "1",
    "holdfast_info:",
    "holdfast_done:",
    "redisson_lock_queue:",
    "redisson_lock_token:",
    "holdfast_fair:",
};

struct entry {
    char *key;
    uint32_t name;
    int which;
};

static struct entry *entries;
static size_t entry_count, entry_room;
static char **names;
static size_t name_count;

/* Does the store accept it? A refusal comes with a sentence. */
static bool accepted(int kind, const char *name)
{
    hf_error why = { 0 };
    int rc = hf__redis_name_check(LAYOUT_REDISSON, kind, name, strlen(name), &why);
    UNIT_ASSERT(rc == 0 || (rc == HF_EINVAL && why.text[0]));
    return rc == 0;
}

static void entry_add(const char *key, size_t len, size_t name, int which)
{
    if (entry_count == entry_room) {
        entry_room = entry_room ? 2 * entry_room : 4096;
        entries = realloc(entries, entry_room * sizeof *entries);
        UNIT_ASSERT(entries);
    }
    entries[entry_count++] = (struct entry){ strndup(key, len), (uint32_t)name, which };
}

static void names_make(char *name, size_t len, int depth)
{
    if (len > 0 && accepted(0, name)) {
        names = realloc(names, (name_count + 1) * sizeof *names);
        UNIT_ASSERT(names);
        names[name_count++] = strndup(name, len);
    }
    for (int i = 0; depth > 0 && i < PIECES; i++) {
        size_t more = strlen(pieces[i]);
        memcpy(name + len, pieces[i], more + 1);
        names_make(name, len + more, depth - 1);
    }
    name[len] = '\0';
}

/* As part_names.lua has it; the owner is the ticket's own. */
static void reader_add(size_t index)
{
    char key[KEY_SIZE];
    const char *name = names[index], *tag = strchr(name, '{') ? "" : "{";
    int len = snprintf(key, sizeof key, "%s%s%s:%032zx:rwlock_timeout:1", tag, name,
                       *tag ? "}" : "", index);
    entry_add(key, (size_t)len, index, READER);
}

static void keys_add_all(size_t index)
{
    static const enum key_name held[] = { KEY_NAME,    KEY_TOKEN,   KEY_INFO,
                                          KEY_QUEUE,   KEY_FAIR,    KEY_PATIENCE,
                                          KEY_PERMITS, KEY_TIMEOUT, KEY_OPENED };
    static const struct hf_id id = { { 1, 2 } };
    static struct keys keys;
    const char *name = names[index];
    size_t len = strlen(name);
    char key[KEY_SIZE];
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++)
        entry_add(key, hf__redis_key_write(key, held[i], name, len), index,
                  (int)held[i]);
    hf__redis_keys_init(&keys);
    hf__redis_keys_add_done(&keys, name, len, &id);
    entry_add(keys.key[0].text, keys.key[0].len, index, DONE);
    reader_add(index);
}

static int compare(const void *left, const void *right)
{
    return strcmp(((const struct entry *)left)->key,
                  ((const struct entry *)right)->key);
}

START_TEST(keys_are_told_apart)
{
    char name[256] = "";
    size_t tokens = 0;
    names_make(name, 0, DEPTH);
    ck_assert_uint_gt(name_count, 10000);
    for (size_t i = 0; i < name_count; i++)
        keys_add_all(i);
    qsort(entries, entry_count, sizeof *entries, compare);
    for (size_t i = 1; i < entry_count; i++) {
        const struct entry *a = &entries[i - 1], *b = &entries[i];
        if (strcmp(a->key, b->key) != 0 ||
            (a->which == b->which && strcmp(names[a->name], names[b->name]) == 0))
            continue;
        if (a->which != KEY_TOKEN || b->which != KEY_TOKEN)
            ck_abort_msg("%s is key %d of %s and key %d of %s", a->key, a->which,
                         names[a->name], b->which, names[b->name]);
        tokens++;
    }
    ck_assert_uint_gt(tokens, 0);
}
END_TEST

/* Redisson's forms as they are, for a name with and without a tag of its own. */
START_TEST(forms)
{
    static const struct {
        enum key_name which;
        const char *name, *key;
    } rows[] = {
        { KEY_NAME, "x", "x" },
        { KEY_TOKEN, "x", "redisson_lock_token:{x}" },
        { KEY_TOKEN, "{x}", "redisson_lock_token:{x}" },
        { KEY_TOKEN, "a{x}", "redisson_lock_token:a{x}" },
        { KEY_FAIR, "x", "redisson_lock_queue:{x}" },
        { KEY_FAIR, "a{x}", "redisson_lock_queue:a{x}" },
        { KEY_PATIENCE, "{x}a", "redisson_lock_timeout:{x}a" },
        { KEY_TIMEOUT, "x", "{x}:timeout" },
        { KEY_TIMEOUT, "{x}a", "{x}a:timeout" },
        { KEY_CHANNEL, "{x}", "redisson_lock__channel:{x}" },
        { KEY_RW, "x", "redisson_rwlock:{x}" },
        { KEY_SC, "{x}", "redisson_sc:{x}" },
        { KEY_GATE, "{x}", "redisson_countdownlatch__channel__{{x}}" },
        { KEY_INFO, "x", "holdfast_info:{x}" },
        { KEY_INFO, "{x}", "holdfast_info::{x}" },
        { KEY_QUEUE, "{x}a", "holdfast_queue::{x}a" },
    };
    char key[KEY_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        key[hf__redis_key_write(key, rows[i].which, rows[i].name,
                                strlen(rows[i].name))] = '\0';
        ck_assert_str_eq(key, rows[i].key);
    }
}
END_TEST

START_TEST(info_names_its_lock)
{
    static const char *const some[] = { "x", "{x}", "a{x}", "x}y", "a{b", ":", ":{x}" };
    static const char *const none[] = { "holdfast_info:",     "holdfast_info:x",
                                        "holdfast_info:{}",   "holdfast_info::x",
                                        "holdfast_queue:{x}", "holdfast_info:{x}y",
                                        "holdfast_info.{x}" };
    struct resp_arg name;
    char key[KEY_SIZE];
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        size_t len = hf__redis_key_write(key, KEY_INFO, some[i], strlen(some[i]));
        ck_assert(hf__redis_key_parse(key, len, &name));
        ck_assert_uint_eq(name.len, strlen(some[i]));
        ck_assert_mem_eq(name.text, some[i], name.len);
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        ck_assert_msg(!hf__redis_key_parse(none[i], strlen(none[i]), &name), "%s",
                      none[i]);
}
END_TEST

static int simple_check(const char *name)
{
    hf_error why;
    return hf__redis_name_check(LAYOUT_SIMPLE, HF_MUTEX, name, strlen(name), &why);
}

START_TEST(refused_names)
{
    ck_assert(accepted(HF_MUTEX, "{x}") && accepted(HF_WRITE, "{x}"));
    ck_assert(accepted(HF_PERMITS, "{x}") && accepted(HF_LATCH, "{x}"));
    ck_assert(!accepted(HF_FAIR, "{x}") && !accepted(HF_EXPIRING, "{x}"));
    ck_assert(!accepted(HF_FAIR, "{x}y}") && accepted(HF_FAIR, "{x}{y}"));
    ck_assert(accepted(HF_FAIR, "{x}a") && accepted(HF_EXPIRING, "a{x}"));
    ck_assert(accepted(HF_MUTEX, "x:timeout") && !accepted(HF_MUTEX, "{x}:timeout"));
    ck_assert(!accepted(HF_MUTEX, "{x}:me:rwlock_timeout:12"));
    ck_assert(accepted(HF_MUTEX, "{x}:me:rwlock_timeout:"));
    ck_assert(accepted(HF_MUTEX, "{x}:me:rwlock_timeout:-1"));
    ck_assert(accepted(HF_MUTEX, "{x}:me:rwlock_timeout:a1"));
    ck_assert(accepted(HF_MUTEX, "holdfast_info") &&
              accepted(HF_MUTEX, "holdfast_x:y"));
    ck_assert(accepted(HF_MUTEX, "holdfast_info2:y"));
    ck_assert(accepted(HF_MUTEX, "redisson_lock__channel:{x}"));
    ck_assert(!accepted(HF_MUTEX, "redisson_unlock_latch:{x}:0"));
    ck_assert_int_eq(simple_check("holdfast_queue:{x}"), HF_EINVAL);
    ck_assert_int_eq(simple_check("redisson_lock_token:{x}"), HF_EINVAL);
    ck_assert_int_eq(simple_check("{x}:timeout"), 0);
}
END_TEST

UNIT_MAIN("redis_keys", keys_are_told_apart, forms, info_names_its_lock, refused_names)
