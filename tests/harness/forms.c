/* SPDX-License-Identifier: MIT */
/*
 * The forms in which locks are taken: see harness.h.
 *
 * The table's order is that of enum form_bit. Latch and cell are in it because they are
 * rows of the matrix; nothing can be taken in these forms. The multi form mixes kinds
 * and names them against the library's sorting order, so that every scenario that looks
 * at tokens also proves that they come in the caller's order.
 */
#include <stdio.h>
#include <string.h>

#include "harness.h"

static void wants_add(struct wants *wants, const char *name, const char *suffix,
                      hf_want want)
{
    char *text = wants->text[wants->count];
    snprintf(text, sizeof wants->text[0], "%s%s", name, suffix);
    want.name = text;
    wants->want[wants->count++] = want;
}

static void fill_mutex(struct wants *wants, const char *name, bool rival)
{
    (void)rival;
    wants_add(wants, name, "", hf_mutex(NULL));
}

static void fill_reentrant(struct wants *wants, const char *name, bool rival)
{
    (void)rival;
    wants_add(wants, name, "", hf_reentrant(NULL));
}

static void fill_fair(struct wants *wants, const char *name, bool rival)
{
    (void)rival;
    wants_add(wants, name, "", hf_fair(NULL));
}

static void fill_read(struct wants *wants, const char *name, bool rival)
{
    wants_add(wants, name, "", rival ? hf_write(NULL) : hf_read(NULL));
}

static void fill_write(struct wants *wants, const char *name, bool rival)
{
    (void)rival;
    wants_add(wants, name, "", hf_write(NULL));
}

static void fill_permits(struct wants *wants, const char *name, bool rival)
{
    (void)rival;
    wants_add(wants, name, "", hf_permits(NULL, 1, 1));
}

static void fill_permits_of_5(struct wants *wants, const char *name, bool rival)
{
    (void)rival;
    wants_add(wants, name, "", hf_permits(NULL, 1, 5));
}

static void fill_expiring(struct wants *wants, const char *name, bool rival)
{
    (void)rival;
    wants_add(wants, name, "", hf_expiring(NULL, 1));
}

static void fill_multi(struct wants *wants, const char *name, bool rival)
{
    (void)rival;
    wants_add(wants, name, "/c", hf_mutex(NULL));
    wants_add(wants, name, "/a", hf_write(NULL));
    wants_add(wants, name, "/b", hf_permits(NULL, 2, 2));
}

static void fill_striped(struct wants *wants, const char *name, bool rival)
{
    (void)rival;
    wants_add(wants, name, "", hf_striped(NULL, "key", 16));
}

#define CAPS_MULTI (HF_CAP_MUTEX | HF_CAP_RW | HF_CAP_PERMITS)

const struct form forms[] = {
    { "mutex", "mutex", HF_CAP_MUTEX, 0, HF_MUTEX, 0, false, fill_mutex },
    { "reentrant", "reentrant", HF_CAP_MUTEX, 0, HF_REENTRANT, 0, false,
      fill_reentrant },
    { "fair", "fair", HF_CAP_FAIR, 0, HF_FAIR, 0, false, fill_fair },
    { "read", "read", HF_CAP_RW, 0, HF_READ, 0, false, fill_read },
    { "write", "write", HF_CAP_RW, 0, HF_WRITE, 0, false, fill_write },
    { "permits", "permits", HF_CAP_PERMITS, 0, HF_PERMITS, 0, false, fill_permits },
    { "permits-of-5", "permits", HF_CAP_PERMITS, 0, HF_PERMITS, 0, true,
      fill_permits_of_5 },
    { "expiring", "expiring", HF_CAP_EXPIRING, 0, HF_EXPIRING, 600000, false,
      fill_expiring },
    { "latch", "latch", HF_CAP_LATCH, 0, HF_LATCH, 0, false, NULL },
    { "cell", "cell", HF_CAP_CELL, 0, HF_CELL, 0, false, NULL },
    { "multi", "multi", CAPS_MULTI, 2, HF_MUTEX, 0, false, fill_multi },
    { "striped", "striped", HF_CAP_MUTEX, 16, HF_MUTEX, 0, false, fill_striped },
    { NULL, NULL, 0, 0, 0, 0, false, NULL },
};

const struct form *form_find(const char *name)
{
    for (const struct form *form = forms; form->name; form++)
        if (strcmp(form->name, name) == 0)
            return form;
    return NULL;
}

void form_wants(const struct form *form, struct wants *wants, const char *name,
                bool rival)
{
    wants->count = 0;
    form->fill(wants, name, rival);
}
