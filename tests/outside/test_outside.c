/* SPDX-License-Identifier: MIT */
/*
 * A store from outside (outside_store.c), used as any other: registered by its table,
 * opened by its URL, and driven through holdfast.h alone. Speaks TAP.
 *
 * Two clients of the store stand for two users. Waits are waits for an answer.
 */
#include <holdfast/backend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 10000

extern const struct hf_backend outside_store;

static int checks, failures;

static void ok(int good, const char *what)
{
    checks++;
    failures += !good;
    printf("%sok %d - %s\n", good ? "" : "not ", checks, what);
}

static void is(int rc, int expected, const char *what)
{
    ok(rc == expected, what);
    if (rc != expected)
        printf("# %s, expected %s\n", hf_error_name(rc), hf_error_name(expected));
}

static hf_op *begin(hf_client *client, const char *name)
{
    hf_want want = hf_mutex(name);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_op *op = NULL;

    options.timeout_ms = HF_FOREVER;
    hf_acquire_async(client, &want, 1, &options, NULL, NULL, &op, NULL);
    return op;
}

static void test_register(void)
{
    struct hf_backend broken = outside_store;
    static const char *const schemes[] = { "broken", NULL };
    hf_client *client = NULL;
    hf_error why;

    broken.schemes = schemes;
    broken.withdraw = NULL;
    is(hf_open("toy:", NULL, &client, &why), HF_EURL,
       "unknown before it is registered");
    is(hf_backend_register(&broken, &why), HF_EINVAL, "a table with a hole is refused");
    is(hf_backend_register(&outside_store, &why), 0, "registered");
    is(hf_backend_register(&outside_store, &why), HF_EINVAL, "the scheme is taken");
    ok(strstr(why.text, "toy") != NULL, "and the refusal names it");
    is(hf_open("toy:?colour=red", NULL, &client, &why), HF_EURL, "no such option");
}

static void test_acquire(hf_client *first, hf_client *second)
{
    hf_hold *hold = NULL, *other = NULL;
    hf_op *op;
    uint64_t token;

    is(hf_lock(first, "a", 0, &hold, NULL), 0, "acquired");
    token = hf_hold_token(hold, 0);
    ok(token > 0, "with a token");
    ok(hf_hold_state(hold) == HF_HELD, "and held");
    is(hf_lock(second, "a", 0, &other, NULL), HF_EBUSY, "busy for the other client");
    is(hf_lock(second, "a", 20, &other, NULL), HF_ETIMEOUT, "a wait that ends");

    op = begin(second, "a");
    ok(!hf_op_done(op), "a wait that goes on");
    hf_op_cancel(op);
    is(hf_op_wait(op, LONG_MS, &other, NULL), HF_ECANCELLED, "and is cancelled");
    hf_op_free(op);

    op = begin(second, "a");
    is(hf_release(hold, NULL), 0, "released");
    is(hf_release(hold, NULL), HF_ERELEASED, "released before");
    is(hf_op_wait(op, LONG_MS, &other, NULL), 0, "who waits is next");
    ok(hf_hold_token(other, 0) > token, "with a larger token");
    hf_op_free(op);
    is(hf_lock(first, "a", 0, &hold, NULL), HF_EBUSY, "busy for the first client");
    is(hf_release(other, NULL), 0, "released by the second");
    is(hf_lock(first, "a", 0, &hold, NULL), 0, "nothing was left behind");
    hf_release(hold, NULL);
}

static void test_refusals(hf_client *client)
{
    hf_want want = hf_read("a");
    hf_hold *hold = NULL;
    hf_error why;

    ok(hf_capabilities(client) == HF_CAP_MUTEX, "it says what it can do");
    is(hf_acquire(client, &want, 1, NULL, &hold, &why), HF_EUNSUPPORTED,
       "a kind that it has not is refused");
    ok(strstr(why.text, "toy") != NULL && strstr(why.text, "read") != NULL,
       "by the names of store and kind");
    is(hf_latch_set(client, "l", 1, &why), HF_EUNSUPPORTED, "so is a latch");
}

int main(void)
{
    hf_client *first = NULL, *second = NULL;
    hf_hold *left = NULL, *hold = NULL;

    test_register();
    is(hf_open("toy:", NULL, &first, NULL), 0, "opened");
    is(hf_open("toy:", NULL, &second, NULL), 0, "opened again");
    if (!first || !second)
        return EXIT_FAILURE;
    test_acquire(first, second);
    test_refusals(first);
    is(hf_lock(first, "b", 0, &left, NULL), 0, "a lock that is left");
    hf_close(first);
    is(hf_lock(second, "b", 0, &hold, NULL), 0, "is free when its client is closed");
    is(hf_release(left, NULL), HF_ECLOSED, "and its hold can only be given up");
    is(hf_release(hold, NULL), 0, "released at the end");
    hf_close(second);
    printf("1..%d\n", checks);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
