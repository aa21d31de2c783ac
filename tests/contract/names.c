/* SPDX-License-Identifier: MIT */
/*
 * Which names are one lock and which are two, and what many names leave behind.
 *
 * Every name that holdfast accepts has to work on every store, whatever the store
 * itself thinks of slashes, dots, case or length.
 */
#include <stdio.h>
#include <string.h>

#include "contract.h"

static const char *const strange_names[] = {
    "a",
    " ",
    ".",
    "..",
    "../../etc/passwd",
    "/",
    "//",
    "a/b/c",
    "a\\b",
    "C:\\con\\nul",
    "state",
    "lock",
    "%00%2f",
    "?*[a-z]{}",
    "'; DROP TABLE locks; --",
    "$(reboot)`reboot`",
    "trailing space ",
    "trailing dot.",
    "-rf",
    "~root",
    "#x?y=z&w",
    "\xc3\xa4\xc3\xb6\xc3\xbc",
    "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e",
    "\xf0\x9f\x94\x92",
    NULL,
};

static void name_check(struct env *e, hf_client *a, hf_client *b, const char *name)
{
    hf_hold *hold = held(e, a, .name = name);
    CHECK_BUSY(e, b, .name = name, .rival = true, .who = 2);
    let_go(hold);
}

static void strange_names_work(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    for (const char *const *name = strange_names; *name; name++)
        name_check(e, a, b, *name);
}

/* All at once: none of them is another one in disguise. */
static void strange_names_differ(struct env *e)
{
    hf_hold *holds[sizeof strange_names / sizeof *strange_names] = { NULL };
    hf_client *client = client_open(e);
    size_t count = 0;
    for (; strange_names[count]; count++)
        holds[count] = held(e, client, .name = strange_names[count]);
    for (size_t i = 0; i < count; i++)
        CHECK_BUSY(e, client, .name = strange_names[i], .rival = true, .who = 2);
    for (size_t i = 0; i < count; i++)
        let_go(holds[i]);
}

static void longest_name(struct env *e)
{
    char one[HF_NAME_MAX + 1];
    char two[HF_NAME_MAX + 1];
    size_t len = HF_NAME_MAX - e->form->name_room;
    memset(one, 'x', len);
    one[len] = '\0';
    memcpy(two, one, len + 1);
    two[len - 1] = 'y';

    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .name = one);
    CHECK_BUSY(e, b, .name = one, .rival = true, .who = 2);
    let_go(held(e, b, .name = two, .rival = true));
    let_go(hold);
}

static void case_counts(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *lower = held(e, client, .name = "name");
    hf_hold *upper = held(e, client, .name = "NAME");
    hf_hold *mixed = held(e, client, .name = "Name");
    CHECK_BUSY(e, client, .name = "NAME", .rival = true, .who = 2);
    let_go(lower);
    let_go(upper);
    let_go(mixed);
}

/* The two forms of one letter, composed and not, are two names: bytes count. */
static void bytes_count(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *composed = held(e, client, .name = "\xc3\xa9");
    hf_hold *apart = held(e, client, .name = "e\xcc\x81");
    let_go(composed);
    let_go(apart);
}

/* mutex, reentrant and fair may meet on one name and exclude each other. */
static void kin_exclude_each_other(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_want wants[] = { hf_mutex(THING), hf_reentrant(THING), hf_fair(THING) };
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++) {
            hf_hold *hold = NULL;
            hf_hold *other = NULL;
            CHECK_RC(hf_acquire(a, &wants[i], 1, NULL, &hold, NULL), 0);
            CHECK_RC(hf_acquire(b, &wants[j], 1, NULL, &other, NULL), HF_EBUSY);
            let_go(hold);
        }
    CHECK(e->form->code == HF_MUTEX);
}

/* ---- Many names ------------------------------------------------------------------ */

static void names_visit(struct env *e, hf_client *client, int from, int to)
{
    for (int i = from; i < to; i++) {
        char name[32];
        snprintf(name, sizeof name, "name/%d", i);
        let_go(held(e, client, .name = name));
    }
}

/* What a thousand names cost at first is what ten thousand cost in the end. Where a
 * server is slow enough for tests to share it, fewer. */
static void many_names_leave_nothing(struct env *e)
{
    int some = e->store->prepare ? 30 : 1000;
    hf_client *client = client_open(e);
    names_visit(e, client, 0, some);
    client_close(e, client);
    uint64_t before = store_weight(e);

    client = client_open(e);
    names_visit(e, client, some, 11 * some);
    CHECK_EQ(seen(e, client, HF_HOLDER), 0);
    client_close(e, client);
    CHECK_EQ(store_weight(e), before);
}

static void many_names_at_once(struct env *e)
{
    static hf_hold *holds[1000];
    int count = e->store->prepare ? 200 : 1000;
    hf_client *client = client_open(e);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "name/%d", i);
        holds[i] = held(e, client, .name = name);
    }
    CHECK_BUSY(e, client, .name = "name/199", .rival = true, .who = 2);
    for (int i = 0; i < count; i++)
        let_go(holds[i]);
}

const struct scenario scenarios_names[] = {
    { "strange-names-work", LOCKS, 0, 0, strange_names_work },
    { "strange-names-differ", LOCKS, 0, 0, strange_names_differ },
    { "longest-name", LOCKS, 0, 0, longest_name },
    { "case-counts", LOCKS, 0, 0, case_counts },
    { "bytes-count", LOCKS, 0, 0, bytes_count },
    { "kin-exclude-each-other", MUTEX, HF_CAP_FAIR, 0, kin_exclude_each_other },
    { "many-names-leave-nothing", LOCKS & ~PERMITS_OF_5, HF_CAP_INSPECT, 0,
      many_names_leave_nothing },
    { "many-names-at-once", LOCKS & ~PERMITS_OF_5, 0, 0, many_names_at_once },
    { NULL, 0, 0, 0, NULL },
};
