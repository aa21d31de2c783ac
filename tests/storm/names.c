/* SPDX-License-Identifier: MIT */
/*
 * The names of a run, chosen to collide: a root and what looks like it, like a key or
 * node that a store derives from it, like a file that it keeps, or like a part of it.
 *
 * Few names make many meetings, so a run has about a dozen of the forms below; the
 * first two (`x` and `{x}`) are always among them. The seed decides which, and as what
 * kind each is used. A quarter of the names is also asked for as other kinds.
 */
#include <stdio.h>
#include <string.h>

#include "storm.h"

#define PICKED 11

/* `@` stands for the root. */
static const char *const forms[] = {
    "@",
    "{@}",
    "@/",
    "/@",
    "@/y",
    "@//y",
    "@/.",
    "@/..",
    "@/y/z",
    "@:timeout",
    "{@}:timeout",
    "{@}y",
    "{@",
    "@}",
    "{}@",
    "holdfast_info:{@}",
    "holdfast_info::{@}",
    "holdfast_queue:{@}",
    "holdfast_permits:{@}",
    "redisson_lock_token:{@}",
    "redisson_lock_queue:{@}",
    "redisson_lock__channel:{@}",
    "{@}:rwlock_timeout:1",
    "@%2f",
    "%",
    "%2e",
    "@ y",
    "@\\y",
    "@*",
    "@?[y]",
    "-@",
    ".@",
    ".holdfast",
    ".holdfast-tokens",
    "state",
    "live",
    "tmp.@",
    "w2.@",
    "_c_0123-lock-0000000000",
    "@-lock-1",
    "lock-1",
    "\xc3\xa9@",
    "\xc3\x89@",
    "e\xcc\x81@",
    "\xe6\x97\xa5\xe6\x9c\xac",
    "\xf0\x9f\x94\x92",
};

static const char *const roots[] = { "x", "X", "jobs", "a", "0" };

static void text_fill(char *text, const char *form, const char *root)
{
    size_t len = 0;
    for (; *form; form++) {
        if (*form != '@') {
            text[len++] = *form;
            continue;
        }
        memcpy(text + len, root, strlen(root));
        len += strlen(root);
    }
    text[len] = '\0';
}

int name_find(const char *text)
{
    for (size_t i = 0; i < world->names_count; i++)
        if (strcmp(world->names[i].text, text) == 0)
            return (int)i;
    return -1;
}

static bool text_is_there(const struct name *names, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i].text, text) == 0)
            return true;
    return false;
}

static enum family family_pick(struct rng *rng, uint32_t kinds)
{
    static const enum family likely[] = { F_MUTEX,   F_MUTEX,    F_MUTEX, F_MUTEX,
                                          F_RW,      F_RW,       F_RW,    F_PERMITS,
                                          F_PERMITS, F_EXPIRING, F_LATCH, F_CELL };
    for (;;) {
        enum family family = likely[rng_below(rng, sizeof likely / sizeof *likely)];
        if (kinds & (1u << (family - F_MUTEX)))
            return family;
    }
}

static void name_add(struct name *names, size_t *count, const char *text,
                     enum family family, struct rng *rng)
{
    bool mixed = rng_chance(rng, 250);
    uint32_t limit = 1 + (uint32_t)rng_below(rng, 4);
    if (*count == NAMES_MAX || text_is_there(names, *count, text))
        return;
    struct name *name = &names[(*count)++];
    snprintf(name->text, sizeof name->text, "%s", text);
    name->family = family;
    name->limit = limit;
    name->mixed = mixed;
    name->cell.known = name->latch.surely_open = true;
}

/* The parts of a striped lock: names of their own, which plain mutexes ask for too. */
static void stripes_add(struct name *names, size_t *count, const char *base,
                        struct rng *rng)
{
    for (uint32_t i = 0; i < 3; i++) {
        char text[HF_NAME_MAX + 1];
        snprintf(text, sizeof text, "%.900s#%u", base, i);
        size_t before = *count;
        name_add(names, count, text, F_MUTEX, rng);
        if (*count == before)
            continue;
        names[before].mixed = false;
        names[before].stripes = 3;
        snprintf(names[before].base, sizeof names[before].base, "%.900s", base);
    }
}

static void long_add(struct name *names, size_t *count, enum family family,
                     struct rng *rng)
{
    static const size_t lengths[] = { 127, 128, 129, 200, 255, 256, 1023, 1024 };
    char text[HF_NAME_MAX + 1];
    size_t length = lengths[rng_below(rng, sizeof lengths / sizeof *lengths)];
    memset(text, 'x', length);
    text[length] = '\0';
    text[0] = (char)('a' + *count); /* for a reader of events */
    name_add(names, count, text, family, rng);
}

/* Curator's semaphores have children of these names: documented, and not a lock's. */
static bool name_is_excluded(const char *store, const char *text)
{
    return strncmp(store, "zookeeper", 9) == 0 &&
           (strstr(text, "/locks") || strstr(text, "/leases"));
}

void names_make(struct name *names, size_t *ret_count, const struct config *config)
{
    struct rng rng = plan_step(config->seed, 255, 255, 0);
    const char *root = roots[rng_below(&rng, sizeof roots / sizeof *roots)];
    char text[HF_NAME_MAX + 1];
    enum family twins = family_pick(&rng, config->kinds);
    size_t count = 0;

    for (size_t i = 0; count < PICKED; i++) {
        size_t form = i < 2 ? i : rng_below(&rng, sizeof forms / sizeof *forms);
        enum family family = family_pick(&rng, config->kinds);
        if (i < 2 && rng_chance(&rng, 800))
            family = twins;
        text_fill(text, forms[form], root);
        if (!name_is_excluded(config->store, text))
            name_add(names, &count, text, family, &rng);
    }
    long_add(names, &count, family_pick(&rng, config->kinds), &rng);
    long_add(names, &count, family_pick(&rng, config->kinds), &rng);
    if (config->kinds & K_MUTEX)
        stripes_add(names, &count, root, &rng);
    for (size_t i = 0; config->pure && i < count; i++)
        names[i].mixed = false;
    *ret_count = count;
}

/* ---- What redis refuses: docs/backends/redis.md ---------------------------------- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_derived(const char *text)
{
    static const char *const keys[] = {
        "holdfast_info:",       "holdfast_queue:",        "holdfast_permits:",
        "holdfast_opened:",     "holdfast_done:",         "holdfast_fair:",
        "holdfast_patience:",   "holdfast_timeout:",      "redisson_lock_token:",
        "redisson_lock_queue:", "redisson_lock_timeout:", "redisson_unlock_latch:",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (begins(text, keys[i]))
            return true;
    return false;
}

static bool is_redissons(const char *text)
{
    size_t len = strlen(text);
    const char *rw = strstr(text, ":rwlock_timeout:");
    if (!strchr(text, '{'))
        return false;
    if (len >= 8 && strcmp(text + len - 8, ":timeout") == 0)
        return true;
    return rw && rw[16] && strspn(rw + 16, "0123456789") == strlen(rw + 16);
}

bool name_is_refused(const char *store, const char *text, int kind)
{
    size_t len = strlen(text);
    if (!begins(store, "redis"))
        return false;
    if (is_derived(text))
        return true;
    if (strcmp(store, "redis-simple") == 0)
        return false;
    bool braced = len > 2 && text[0] == '{' && strchr(text, '}') == text + len - 1;
    return is_redissons(text) || (braced && (kind == HF_FAIR || kind == HF_EXPIRING));
}
