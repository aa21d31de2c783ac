/* SPDX-License-Identifier: MIT */
/*
 * Bad input to latches and cells, and names that are a lock here and an object there.
 */
#include "badinput.h"

static void locks_are_no_objects(struct env *e)
{
    struct results r = untouched();
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    struct holder holder = holder_find(e, client);
    const char *name = holder.name;
    REFUSED(HF_EMISMATCH, hf_latch_set(client, name, 1, &why));
    REFUSED(HF_EMISMATCH, hf_latch_count(client, name, &r.count, &why));
    REFUSED(HF_EMISMATCH, hf_cell_set(client, name, 0, "x", 1, &r.version, &why));
    check_untouched(&r);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    let_go(hold);
}

static void objects_are_no_locks(struct env *e)
{
    struct results r = untouched();
    uint64_t version = 0;
    hf_client *client = client_open(e);
    CHECK_RC(hf_latch_set(client, "latch", 1, NULL), 0);
    CHECK_RC(hf_cell_set(client, "cell", 0, "x", 1, &version, NULL), 0);
    REFUSED(HF_EMISMATCH, hf_lock(client, "latch", 0, &r.hold, &why));
    REFUSED(HF_EMISMATCH, hf_lock(client, "cell", HF_FOREVER, &r.hold, &why));
    REFUSED(HF_EMISMATCH, hf_latch_set(client, "cell", 1, &why));
    REFUSED(HF_EMISMATCH, hf_cell_set(client, "latch", 0, "x", 1, &r.version, &why));
    check_untouched(&r);
    CHECK_RC(hf_latch_count_down(client, "latch", 1, NULL, NULL), 0);
    CHECK_RC(hf_cell_set(client, "cell", version, NULL, 0, NULL, NULL), 0);
    CHECK(e->form != NULL);
}

/* ---- Latch and cell -------------------------------------------------------------- */

static void bad_latch_calls_are_refused(struct env *e)
{
    struct results r = untouched();
    hf_client *client = client_open(e);
    (void)e;
    REFUSED(HF_EINVAL, hf_latch_set(client, THING, 0, &why));
    REFUSED(HF_EINVAL, hf_latch_count_down(client, THING, 0, &r.count, &why));
    REFUSED(HF_EINVAL, hf_latch_count(client, THING, NULL, &why));
    REFUSED(HF_EINVAL, hf_latch_wait(client, THING, -2, &why));
    REFUSED(HF_EINVAL, hf_latch_wait(client, THING, INT64_MAX, &why));
    REFUSED(HF_EINVAL, hf_latch_wait(NULL, THING, 0, &why));
    REFUSED(HF_EINVAL, hf_latch_wait_async(client, THING, 0, NULL, NULL, NULL, &why));
    for (const char *const *bad = bad_names; *bad; bad++) {
        const char *name = *bad;
        REFUSED(HF_ENAME, hf_latch_set(client, name, 1, &why));
        REFUSED(HF_ENAME, hf_latch_count(client, name, &r.count, &why));
        REFUSED(HF_ENAME, hf_latch_count_down(client, name, 1, &r.count, &why));
        REFUSED(HF_ENAME, hf_latch_wait(client, name, 0, &why));
        REFUSED(HF_ENAME,
                hf_latch_wait_async(client, name, 0, NULL, NULL, &r.op, &why));
    }
    check_untouched(&r);
}

static void bad_cell_calls_are_refused(struct env *e)
{
    struct results r = untouched();
    hf_client *client = client_open(e);
    (void)e;
    REFUSED(HF_EINVAL, hf_cell_get(client, THING, NULL, &r.len, &r.version, &why));
    REFUSED(HF_EINVAL, hf_cell_get(client, THING, &r.data, NULL, &r.version, &why));
    REFUSED(HF_EINVAL, hf_cell_get(client, THING, &r.data, &r.len, NULL, &why));
    REFUSED(HF_EINVAL, hf_cell_get(NULL, THING, &r.data, &r.len, &r.version, &why));
    REFUSED(HF_EINVAL, hf_cell_set(client, THING, 0, "x", SIZE_MAX, &r.version, &why));
    REFUSED(HF_EINVAL, hf_cell_set(client, THING, 0, NULL, 0, &r.version, &why));
    REFUSED(HF_EINVAL, hf_cell_set(client, THING, 1, NULL, 5, &r.version, &why));
    for (const char *const *bad = bad_names; *bad; bad++) {
        const char *name = *bad;
        REFUSED(HF_ENAME, hf_cell_get(client, name, &r.data, &r.len, &r.version, &why));
        REFUSED(HF_ENAME, hf_cell_set(client, name, 0, "x", 1, &r.version, &why));
    }
    check_untouched(&r);
}

#define INSPECT HF_CAP_INSPECT
#define OBJECTS (HF_CAP_LATCH | HF_CAP_CELL)

const struct scenario scenarios_badobject[] = {
    { "locks-are-no-objects", LOCKS & ~STRIPED, INSPECT | OBJECTS, 0,
      locks_are_no_objects },
    { "objects-are-no-locks", LATCH | CELL, HF_CAP_MUTEX | OBJECTS, 0,
      objects_are_no_locks },
    { "bad-latch-calls-are-refused", LATCH, 0, 0, bad_latch_calls_are_refused },
    { "bad-cell-calls-are-refused", CELL, 0, 0, bad_cell_calls_are_refused },
    { NULL, 0, 0, 0, NULL },
};
