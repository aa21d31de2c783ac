/* SPDX-License-Identifier: MIT */
/*
 * Bad input: each mistake has its code and its sentence, changes nothing, and leaves
 * every `ret_` parameter as it was.
 */
#include "badinput.h"

/* All four ways in. */
static void acquire_refused(hf_client *client, const hf_want *wants, size_t count,
                            const hf_acquire_options *options, int code)
{
    struct results r = untouched();
    struct told told = { 0 };
    REFUSED(code, hf_acquire(client, wants, count, options, &r.hold, &why));
    REFUSED(code,
            hf_acquire_async(client, wants, count, options, NULL, NULL, &r.op, &why));
    REFUSED(code, hf_acquire_async(client, wants, count, options, told_hold, &told,
                                   NULL, &why));
    CHECK_RC(hf_acquire(client, wants, count, options, &r.hold, NULL), code);
    check_untouched(&r);
    CHECK_EQ(told.ended, 0);
}

/* ---- Names ----------------------------------------------------------------------- */

const char *const bad_names[] = {
    "",
    "a\nb",
    "a\tb",
    "\x01",
    "\x7f",
    "\xc2\x80",         /* U+0080, a control character */
    "\xc2\x9f",         /* U+009F */
    "\xff",             /* never in UTF-8 */
    "\xc3",             /* cut short */
    "a\xe2\x82",        /* cut short */
    "\xc0\xaf",         /* overlong '/' */
    "\xe0\x80\xaf",     /* overlong */
    "\xed\xa0\x80",     /* a surrogate */
    "\xf4\x90\x80\x80", /* above U+10FFFF */
    "\x80",             /* a tail without a head */
    NULL,
};

static void bad_name(struct env *e, hf_client *client, const char *name)
{
    struct results r = untouched();
    struct wants wants;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.ttl_ms = e->form->ttl_ms;
    form_wants(e->form, &wants, "good", false);
    for (size_t i = 0; i < wants.count; i++) {
        const char *good = wants.want[i].name;
        wants.want[i].name = name;
        acquire_refused(client, wants.want, wants.count, &options, HF_ENAME);
        wants.want[i].name = good;
    }
    REFUSED(HF_ENAME, hf_inspect(client, name, false, &r.report, &why));
    REFUSED(HF_ENAME, hf_evict(client, name, 1, &why));
    REFUSED(HF_ENAME, hf_revoke(client, name, 0, &why));
    check_untouched(&r);
}

static void bad_names_are_refused(struct env *e)
{
    char longer[4097];
    hf_client *client = client_open(e);
    for (const char *const *name = bad_names; *name; name++)
        bad_name(e, client, *name);
    bad_name(e, client, NULL);
    memset(longer, 'x', sizeof longer - 1);
    longer[4096] = '\0';
    bad_name(e, client, longer);
    longer[HF_NAME_MAX + 1] = '\0';
    bad_name(e, client, longer);
    CHECK_EQ(seen(e, client, HF_HOLDER), 0);
}

static void bad_lock_calls(struct env *e)
{
    struct results r = untouched();
    hf_client *client = client_open(e);
    REFUSED(HF_ENAME, hf_lock(client, NULL, 0, &r.hold, &why));
    REFUSED(HF_ENAME, hf_lock(client, "", 0, &r.hold, &why));
    REFUSED(HF_EINVAL, hf_lock(client, "x", -2, &r.hold, &why));
    REFUSED(HF_EINVAL, hf_lock(client, "x", INT64_MAX, &r.hold, &why));
    REFUSED(HF_EINVAL, hf_lock(client, "x", 0, NULL, &why));
    REFUSED(HF_EINVAL, hf_lock(NULL, "x", 0, &r.hold, &why));
    check_untouched(&r);
    CHECK_EQ(seen(e, client, HF_HOLDER), 0);
}

/* ---- Wants ----------------------------------------------------------------------- */

static void bad_wants_are_refused(struct env *e)
{
    hf_client *client = client_open(e);
    const hf_want bad[] = {
        hf_want_of("x", 0, 1, 1),
        hf_want_of("x", -1, 1, 1),
        hf_want_of("x", HF_LATCH, 1, 1),
        hf_want_of("x", HF_CELL, 1, 1),
        hf_want_of("x", 99, 1, 1),
        hf_permits("x", 0, 5),
        hf_permits("x", 6, 5),
        hf_permits("x", 1, 0),
        hf_permits("x", 0, 0),
        hf_expiring("x", 0),
        hf_want_of("x", HF_EXPIRING, 2, 5),
        hf_want_of("x", HF_MUTEX, 2, 2),
        hf_want_of("x", HF_MUTEX, 1, 7),
        hf_want_of("x", HF_READ, 0, 1),
        hf_striped("x", "key", 65537),
        hf_striped("x", NULL, 4),
        hf_striped("x", "key", 0),
    };
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = HF_FOREVER;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        acquire_refused(client, &bad[i], 1, NULL, HF_EINVAL);
        acquire_refused(client, &bad[i], 1, &options, HF_EINVAL);
    }
    CHECK_EQ(seen(e, client, HF_HOLDER), 0);
}

static void bad_counts_are_refused(struct env *e)
{
    static hf_want wants[65];
    static char names[65][3];
    hf_client *client = client_open(e);
    for (int i = 0; i < 65; i++) {
        names[i][0] = (char)('a' + i / 26);
        names[i][1] = (char)('a' + i % 26);
        wants[i] = hf_mutex(names[i]);
    }
    acquire_refused(client, wants, 0, NULL, HF_EINVAL);
    acquire_refused(client, wants, 65, NULL, HF_EINVAL);
    acquire_refused(client, wants, SIZE_MAX, NULL, HF_EINVAL);
    acquire_refused(client, NULL, 1, NULL, HF_EINVAL);
    wants[1] = wants[0];
    acquire_refused(client, wants, 2, NULL, HF_EINVAL);
    acquire_refused(client, wants, 64, NULL, HF_EINVAL);
    CHECK_EQ(seen(e, client, HF_HOLDER), 0);
}

/* One name, two kinds; the kinds that may meet are tested in names.c. */
static void two_kinds_are_refused(struct env *e)
{
    const hf_want wants[] = { hf_mutex(THING), hf_read(THING), hf_permits(THING, 1, 1),
                              hf_expiring(THING, 1) };
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    options.ttl_ms = 600000;
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
            struct results r = untouched();
            hf_hold *hold = NULL;
            if (i == j)
                continue;
            CHECK_RC(hf_acquire(a, &wants[i], 1, &options, &hold, NULL), 0);
            REFUSED(HF_EMISMATCH, hf_acquire(b, &wants[j], 1, &options, &r.hold, &why));
            REFUSED(HF_EMISMATCH, hf_acquire(a, &wants[j], 1, &options, &r.hold, &why));
            check_untouched(&r);
            let_go(hold);
        }
    CHECK(e->form->code == HF_MUTEX);
}

/* ---- Options --------------------------------------------------------------------- */

static void bad_options_are_refused(struct env *e)
{
    static const int64_t far = INT64_C(11) * 366 * 24 * 3600 * 1000;
    const size_t size = sizeof(hf_acquire_options);
    const hf_acquire_options bad[] = {
        { .size = 0 },
        { .size = 1 },
        { .size = size + 8 },
        { .size = SIZE_MAX },
        { .size = size, .timeout_ms = -2 },
        { .size = size, .timeout_ms = INT64_MIN },
        { .size = size, .timeout_ms = far },
        { .size = size, .timeout_ms = INT64_MAX },
        { .size = size, .ttl_ms = -1 },
        { .size = size, .ttl_ms = far },
        { .size = size, .max_hold_ms = -1 },
        { .size = size, .max_hold_ms = far },
        { .size = size, .flags = 1u << 2 },
        { .size = size, .flags = 1u << 31 },
    };
    const hf_acquire_options detached = { .size = size, .flags = HF_DETACHED };
    bool can = e->store->caps & HF_CAP_DETACH;
    struct wants wants;
    hf_client *client = client_open(e);
    form_wants(e->form, &wants, THING, false);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        acquire_refused(client, wants.want, wants.count, &bad[i], HF_EINVAL);
    acquire_refused(client, wants.want, wants.count, &detached,
                    can ? HF_EINVAL : HF_EUNSUPPORTED);
    CHECK_EQ(seen(e, client, HF_HOLDER), 0);
}

/* ---- Holds and ops --------------------------------------------------------------- */

static void bad_pointers_are_refused(struct env *e)
{
    struct results r = untouched();
    struct wants wants;
    hf_client *client = client_open(e);
    form_wants(e->form, &wants, THING, false);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.ttl_ms = e->form->ttl_ms;
    REFUSED(HF_EINVAL,
            hf_acquire(NULL, wants.want, wants.count, &options, &r.hold, &why));
    REFUSED(HF_EINVAL,
            hf_acquire(client, wants.want, wants.count, &options, NULL, &why));
    REFUSED(HF_EINVAL, hf_acquire_async(client, wants.want, wants.count, &options, NULL,
                                        NULL, NULL, &why));
    REFUSED(HF_EINVAL, hf_inspect(client, THING, false, NULL, &why));
    REFUSED(HF_EINVAL, hf_inspect(NULL, THING, false, &r.report, &why));
    REFUSED(HF_EINVAL, hf_op_wait(NULL, 0, &r.hold, &why));
    REFUSED(HF_EINVAL, hf_evict(NULL, THING, 1, &why));
    REFUSED(HF_EINVAL, hf_dispatch(NULL, &why));
    check_untouched(&r);
    CHECK_RC(hf_release(NULL, NULL), 0);
    CHECK_EQ(hf_hold_state(NULL), HF_LOST);
    CHECK_EQ(hf_hold_left_ms(NULL), 0);
    CHECK_EQ(hf_hold_token(NULL, 0), 0);
    CHECK_EQ(hf_hold_count(NULL), 0);
    CHECK_EQ(hf_capabilities(NULL), 0);
    CHECK_EQ(hf_report_count(NULL), 0);
    hf_close(NULL);
    hf_op_free(NULL);
    hf_report_free(NULL);
    hf_free(NULL);
    CHECK_EQ(seen(e, client, HF_HOLDER), 0);
}

static void bad_hold_calls_are_refused(struct env *e)
{
    char id[HF_ID_MAX] = "untouched";
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    REFUSED(HF_EINVAL, hf_hold_id(hold, 64, id, sizeof id, &why));
    REFUSED(HF_EINVAL, hf_hold_id(hold, 0, id, 3, &why));
    REFUSED(HF_EINVAL, hf_hold_id(hold, 0, NULL, sizeof id, &why));
    REFUSED(HF_EINVAL, hf_hold_extend(hold, -1, &why));
    REFUSED(HF_EINVAL, hf_hold_extend(hold, INT64_MAX, &why));
    REFUSED(HF_EINVAL, hf_hold_downgrade(hold, 64, &why));
    CHECK_TEXT(id, "untouched");
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    let_go(hold);
    REFUSED(HF_ERELEASED, hf_release(hold, &why));
    REFUSED(HF_ERELEASED, hf_release_async(hold, NULL, NULL, &why));
    REFUSED(HF_ERELEASED, hf_hold_verify(hold, &why));
    REFUSED(HF_ERELEASED, hf_hold_extend(hold, 1000, &why));
    REFUSED(HF_ERELEASED, hf_hold_watch(hold, NULL, NULL, &why));
    REFUSED(HF_ERELEASED, hf_hold_id(hold, 0, id, sizeof id, &why));
    REFUSED(HF_ERELEASED, hf_hold_leave(hold, &why));
    CHECK_EQ(hf_hold_token(hold, 0), 0);
    CHECK_EQ(hf_hold_count(hold), 0);
}

/* An op with a callback tells its callback and nobody else. */
static void bad_op_calls_are_refused(struct env *e)
{
    struct results r = untouched();
    struct told told = { 0 };
    struct wants wants;
    hf_op *op = NULL;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = HF_FOREVER;
    options.ttl_ms = e->form->ttl_ms;
    form_wants(e->form, &wants, THING, true);
    CHECK_RC(hf_acquire_async(b, wants.want, wants.count, &options, told_hold, &told,
                              &op, NULL),
             0);
    REFUSED(HF_EINVAL, hf_op_wait(op, 0, &r.hold, &why));
    hf_op_cancel(op);
    EVENTUALLY(atomic_load(&told.ended) == 1);
    hf_op_free(op);
    op = begin(e, b, NULL, NULL, .rival = true, .timeout = HF_FOREVER, .who = 2);
    REFUSED(HF_EINVAL, hf_op_wait(op, -2, &r.hold, &why));
    REFUSED(HF_EINVAL, hf_op_wait(op, 0, NULL, &why));
    REFUSED(HF_ETIMEOUT, hf_op_wait(op, 0, &r.hold, &why));
    check_untouched(&r);
    hf_op_free(op);
    let_go(hold);
}

#define INSPECT HF_CAP_INSPECT

const struct scenario scenarios_badinput[] = {
    { "bad-names-are-refused", LOCKS, INSPECT, 0, bad_names_are_refused },
    { "bad-lock-calls", MUTEX, INSPECT, 0, bad_lock_calls },
    { "bad-wants-are-refused", MUTEX, INSPECT, 0, bad_wants_are_refused },
    { "bad-counts-are-refused", MULTI, INSPECT, 0, bad_counts_are_refused },
    { "two-kinds-are-refused", MUTEX, HF_CAP_RW | HF_CAP_PERMITS | HF_CAP_EXPIRING, 0,
      two_kinds_are_refused },
    { "bad-options-are-refused", LOCKS, INSPECT, 0, bad_options_are_refused },
    { "bad-pointers-are-refused", LOCKS, INSPECT, 0, bad_pointers_are_refused },
    { "bad-hold-calls-are-refused", LOCKS, HF_CAP_DETACH | HF_CAP_LEASE, 0,
      bad_hold_calls_are_refused },
    { "bad-op-calls-are-refused", LOCKS, 0, 0, bad_op_calls_are_refused },
    { NULL, 0, 0, 0, NULL },
};
