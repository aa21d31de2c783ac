/* SPDX-License-Identifier: MIT */
/*
 * Promises of the stores in one process, mem and file, through the library as a whole,
 * on a clock that the test moves. These are small cases that no other test covers.
 */
#include "unit.h"

#include "../../include/holdfast.h"
#include "../../src/base/mem.h"
#include "unit_clock.h"

#include <dirent.h>
#include <ftw.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOUR INT64_C(3600000) /* ms */

#define EVENTUALLY(condition)                                                          \
    do {                                                                               \
        for (int looks_ = 0; !(condition) && looks_ < 10000; looks_++)                 \
            poll(NULL, 0, 1); /* pause: between two checks */                          \
        ck_assert_msg((condition), "%s", #condition);                                  \
    } while (0)

static char directory[64];
static char urls[2][80] = { "mem:stores" };

static void begin(void)
{
    snprintf(directory, sizeof directory, "/tmp/holdfast-stores-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(urls[1], sizeof urls[1], "file://%s", directory);
}

static int entry_remove(const char *path, const struct stat *about, int type,
                        struct FTW *ftw)
{
    (void)about;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void end(void)
{
    ck_assert_int_eq(nftw(directory, entry_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static hf_client *client_open(const char *url)
{
    hf_client *client = NULL;
    ck_assert_int_eq(hf_open(url, NULL, &client, NULL), 0);
    return client;
}

static int take(hf_client *client, hf_want want, int64_t ttl_ms, hf_hold **ret_hold)
{
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    how.ttl_ms = ttl_ms;
    how.flags = ttl_ms ? HF_FIXED : 0;
    return hf_acquire(client, &want, 1, &how, ret_hold, NULL);
}

/* ---- Leases ---------------------------------------------------------------------- */

/* Three permits with a lease each: each is free when its own lease is over. */
static void leases_of(const char *url)
{
    clock_begin();
    hf_client *a = client_open(url), *b = client_open(url);
    hf_want want = hf_permits("permits", 1, 3);
    hf_hold *holds[3], *next[3], *none = NULL;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(take(a, want, (i + 1) * 10 * HOUR, &holds[i]), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(take(b, want, 0, &none), HF_EBUSY);
        clock_pass(10 * HOUR + 1000);
        ck_assert_int_eq(take(b, want, 0, &next[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(hf_release(holds[i], NULL), HF_ELOST);
        ck_assert_int_eq(hf_release(next[i], NULL), 0);
    }
    hf_close(a);
    hf_close(b);
}

START_TEST(each_lease_ends_in_its_time)
{
    begin();
    leases_of(urls[_i]);
    end();
}
END_TEST

/* ---- Names ----------------------------------------------------------------------- */

START_TEST(a_lock_is_no_latch)
{
    uint32_t left = 7;
    hf_hold *hold = NULL;
    begin();
    hf_client *client = client_open(urls[_i]);
    ck_assert_int_eq(take(client, hf_mutex("thing"), 0, &hold), 0);
    ck_assert_int_eq(hf_latch_count(client, "thing", &left, NULL), HF_EMISMATCH);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
    end();
}
END_TEST

/* The number of the stripe is appended to the name, and there must be room for it. */
START_TEST(the_name_of_a_striped_lock_leaves_room)
{
    char name[HF_NAME_MAX + 1];
    hf_hold *hold = NULL;
    begin();
    hf_client *client = client_open("mem:stripes");
    memset(name, 'n', sizeof name);
    name[HF_NAME_MAX - 5] = '\0';
    hf_want want = hf_striped(name, "key", 65536);
    ck_assert_int_eq(take(client, want, 0, &hold), HF_ENAME);
    name[HF_NAME_MAX - 6] = '\0';
    ck_assert_int_eq(take(client, want, 0, &hold), 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
    end();
}
END_TEST

/* Short names live inside their records and long ones outside. */
START_TEST(names_of_every_length)
{
    char name[HF_NAME_MAX + 1] = "";
    hf_hold *hold = NULL, *none = NULL;
    begin();
    hf_client *a = client_open(urls[_i]), *b = client_open(urls[_i]);
    for (size_t len = 1; len <= 300; len++) {
        name[len - 1] = 'n';
        ck_assert_int_eq(take(a, hf_mutex(name), 0, &hold), 0);
        ck_assert_int_eq(take(b, hf_mutex(name), 0, &none), HF_EBUSY);
        ck_assert_int_eq(hf_release(hold, NULL), 0);
    }
    hf_close(a);
    hf_close(b);
    end();
}
END_TEST

/* ---- Descriptors ----------------------------------------------------------------- */

static int descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* However often a store is made, taken from and closed. */
START_TEST(no_descriptor_is_left)
{
    hf_hold *hold = NULL;
    int before = 0;
    for (int i = 0; i < 3; i++) {
        begin();
        hf_client *client = client_open(urls[_i]);
        ck_assert_int_eq(take(client, hf_mutex("thing"), 0, &hold), 0);
        ck_assert_int_eq(hf_release(hold, NULL), 0);
        hf_close(client);
        end();
        before = i == 0 ? descriptors() : before;
        ck_assert_int_eq(descriptors(), before);
    }
}
END_TEST

/* ---- Forks ----------------------------------------------------------------------- */

static void granted(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    (void)why;
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    atomic_store((atomic_bool *)user, true);
}

/* A child that closes what it inherited leaves the parent's wake-ups alone. */
START_TEST(a_childs_close_is_not_the_parents)
{
    static atomic_bool over;
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_want want = hf_mutex("thing");
    hf_hold *hold = NULL;
    int status = 0;
    begin();
    hf_client *a = client_open(urls[_i]), *b = client_open(urls[_i]);
    ck_assert_int_eq(take(a, want, 0, &hold), 0);
    how.timeout_ms = HF_FOREVER;
    ck_assert_int_eq(hf_acquire_async(b, &want, 1, &how, granted, &over, NULL, NULL),
                     0);
    pid_t child = fork();
    if (child == 0) {
        hf_close(b);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(!over);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    EVENTUALLY(over);
    hf_close(a);
    hf_close(b);
    end();
}
END_TEST

/* ---- Tokens ---------------------------------------------------------------------- */

/* A hold that was handed off within its client is adopted under its present token. */
START_TEST(adopted_after_a_hand_off)
{
    char id[HF_ID_MAX];
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_want want = hf_mutex("thing");
    hf_hold *hold = NULL, *next = NULL, *adopted = NULL;
    hf_op *op = NULL;
    begin();
    hf_client *a = client_open(urls[_i]), *b = client_open(urls[_i]);
    ck_assert_int_eq(take(a, want, 0, &hold), 0);
    uint64_t first = hf_hold_token(hold, 0);
    how.timeout_ms = HF_FOREVER;
    ck_assert_int_eq(hf_acquire_async(a, &want, 1, &how, NULL, NULL, &op, NULL), 0);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    ck_assert_int_eq(hf_op_wait(op, HF_FOREVER, &next, NULL), 0);
    hf_op_free(op);
    ck_assert_uint_eq(hf_hold_token(next, 0), first + 1); /* handed on */
    ck_assert_int_eq(hf_hold_id(next, 0, id, sizeof id, NULL), 0);
    how = (hf_acquire_options)HF_ACQUIRE_OPTIONS_INIT;
    ck_assert_int_eq(hf_adopt(b, id, &how, &adopted, NULL), 0);
    ck_assert_uint_eq(hf_hold_token(adopted, 0), first + 1);
    ck_assert_int_eq(hf_evict(a, "thing", first, NULL), HF_ENOENT);
    ck_assert_int_eq(hf_release(next, NULL), HF_ELOST);
    ck_assert_int_eq(hf_release(adopted, NULL), 0);
    hf_close(a);
    hf_close(b);
    end();
}
END_TEST

/* ---- No memory ------------------------------------------------------------------- */

static int adopt(hf_client *client, const char *id)
{
    hf_acquire_options how = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold = NULL;
    how.ttl_ms = HOUR;
    int rc = hf_adopt(client, id, &how, &hold, NULL);
    hf__mem_fail(0, 0);
    if (rc == 0)
        ck_assert_int_eq(hf_release(hold, NULL), 0);
    return rc;
}

/* An adoption without memory says so, and leaves the hold where it was. */
START_TEST(adoption_without_memory)
{
    char id[HF_ID_MAX];
    hf_hold *hold = NULL;
    begin();
    hf_client *a = client_open(urls[_i]), *b = client_open(urls[_i]);
    ck_assert_int_eq(take(a, hf_mutex("thing"), HOUR, &hold), 0);
    ck_assert_int_eq(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    uint64_t failures = 0;
    for (int rc = 1; rc != 0;) {
        hf__mem_fail(failures + 1, 0);
        rc = adopt(b, id);
        ck_assert(rc == 0 || rc == HF_ENOMEM);
        if (rc != 0) {
            failures++;
            ck_assert_int_eq(hf_hold_verify(hold, NULL), 0);
        }
    }
    ck_assert_uint_ge(failures, 2);
    ck_assert_int_eq(hf_release(hold, NULL), HF_ELOST);
    hf_close(a);
    hf_close(b);
    end();
}
END_TEST

/* A name that finds no room is not mistaken for another one. */
START_TEST(a_long_name_without_memory)
{
    hf_want want = hf_mutex("a name that is longer than what a claim has room for");
    hf_hold *hold = NULL, *none = NULL;
    begin();
    hf_client *a = client_open(urls[_i]), *b = client_open(urls[_i]);
    int rc = HF_ENOMEM;
    uint64_t failures = 0;
    while (rc != 0) {
        hf__mem_fail(failures + 1, 0);
        rc = take(a, want, 0, &hold);
        hf__mem_fail(0, 0);
        ck_assert(rc == 0 || rc == HF_ENOMEM);
        failures += rc != 0;
    }
    ck_assert_uint_ge(failures, 2);
    ck_assert_int_eq(take(b, want, 0, &none), HF_EBUSY);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(a);
    hf_close(b);
    end();
}
END_TEST

/* Nor is half a report an answer. */
START_TEST(a_look_without_memory)
{
    hf_report *report = NULL;
    hf_hold *hold = NULL;
    begin();
    hf_client *client = client_open(urls[_i]);
    ck_assert_int_eq(take(client, hf_mutex("thing"), 0, &hold), 0);
    int rc = 1;
    uint64_t failures = 0;
    while (rc != 0) {
        hf__mem_fail(failures + 1, 0);
        rc = hf_inspect(client, "thing", false, &report, NULL);
        hf__mem_fail(0, 0);
        ck_assert(rc == 0 || rc == HF_ENOMEM);
        failures += rc != 0;
    }
    ck_assert_uint_ge(failures, 2);
    ck_assert_uint_eq(hf_report_count(report), 1);
    hf_report_free(report);
    ck_assert_int_eq(hf_release(hold, NULL), 0);
    hf_close(client);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stores");
    TCase *tcase = tcase_create("stores");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, UNIT_TIMEOUT_S);
    tcase_add_loop_test(tcase, each_lease_ends_in_its_time, 0, 2);
    tcase_add_loop_test(tcase, a_lock_is_no_latch, 0, 2);
    tcase_add_test(tcase, the_name_of_a_striped_lock_leaves_room);
    tcase_add_loop_test(tcase, no_descriptor_is_left, 0, 2);
    tcase_add_loop_test(tcase, a_childs_close_is_not_the_parents, 0, 2);
    tcase_add_loop_test(tcase, adopted_after_a_hand_off, 0, 2);
    tcase_add_loop_test(tcase, adoption_without_memory, 0, 2);
    tcase_add_loop_test(tcase, a_long_name_without_memory, 0, 2);
    tcase_add_loop_test(tcase, names_of_every_length, 0, 2);
    tcase_add_loop_test(tcase, a_look_without_memory, 0, 2);
    suite_add_tcase(suite, tcase);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
