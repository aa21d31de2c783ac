/* SPDX-License-Identifier: MIT */
/*
 * What is asked of a client and of its store: options at their limits, findings and
 * their order. With the store of turns_store.h.
 */
#include "unit.h"

#include "turns_store.h"

#include "../../src/base/mem.h"
#include "../../src/core/client.h"

static int open_with(hf_options options)
{
    hf_client *client = NULL;
    int rc = hf_open("turns:", &options, &client, NULL);
    if (rc == 0)
        hf_close(client);
    return rc;
}

/* The largest value is one that may be asked for, and the next one is not. */
START_TEST(options_at_their_limits)
{
    const hf_options none = HF_OPTIONS_INIT;
    hf_options options = none;
    ck_assert_int_eq(hf_backend_register(&turns_store, NULL), 0);
    for (int64_t more = 0; more < 2; more++) {
        int rc = more ? HF_EINVAL : 0;
        options = none;
        options.request_timeout_ms = HF_TTL_MAX_MS + more;
        ck_assert_int_eq(open_with(options), rc);
        options = none;
        options.ttl_ms = HF_TTL_MAX_MS + more;
        ck_assert_int_eq(open_with(options), rc);
        options = none;
        options.close_timeout_ms = HF_TTL_MAX_MS + more;
        ck_assert_int_eq(open_with(options), rc);
        options = none;
        options.confirm_timeout_ms = HF_TTL_MAX_MS + more;
        ck_assert_int_eq(open_with(options), rc);
        options = none;
        options.handoff = 1000000 + (int)more;
        ck_assert_int_eq(open_with(options), rc);
    }
}
END_TEST

/* The worst first, those that are alike in the order they came, and none without all
 * that the store said. */
START_TEST(the_worst_finding_comes_first)
{
    static const char *const topics[] = { "second", "fourth", "third", "first" };
    static const char *const fixes[] = { "go round it", "go round it, too", "read it",
                                         "" };
    hf_report *report = NULL;
    hf_client *client = turns_client(50);
    ck_assert_int_eq(hf_diagnose(client, &report, NULL), 0);
    ck_assert_uint_eq(hf_report_count(report), 4);
    for (size_t i = 0; i < 4; i++) {
        const hf_finding *finding = hf_report_finding(report, i);
        ck_assert_str_eq(finding->topic, topics[i]);
        ck_assert_str_eq(finding->fix, fixes[i]);
        ck_assert_uint_gt(strlen(finding->what), 0);
    }
    ck_assert_int_eq(hf_report_finding(report, 0)->level, HF_TRAP);
    ck_assert_int_eq(hf_report_finding(report, 3)->level, HF_GOOD);
    ck_assert_ptr_null(hf_report_finding(report, 4));
    hf_report_free(report);
    hf_close(client);
}
END_TEST

/* Nor is a part of them an answer. */
START_TEST(findings_without_memory)
{
    hf_report *report = NULL;
    hf_client *client = turns_client(50);
    int rc = HF_ENOMEM;
    uint64_t failures = 0;
    while (rc != 0) {
        hf__mem_fail(failures + 1, 0);
        rc = hf_diagnose(client, &report, NULL);
        hf__mem_fail(0, 0);
        ck_assert(rc == 0 || rc == HF_ENOMEM);
        failures += rc != 0;
    }
    ck_assert_uint_ge(failures, 4);
    ck_assert_uint_eq(hf_report_count(report), 4);
    hf_report_free(report);
    hf_close(client);
}
END_TEST

/* The name of a program is cut where it is too long, but not inside a character. */
START_TEST(a_program_is_cut_between_characters)
{
    char program[64];
    hf_options options = HF_OPTIONS_INIT;
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    hf_report *report = NULL;
    for (size_t before = 40; before < 50; before++) {
        memset(program, 'p', sizeof program);
        memcpy(program + before, "\xe6\x97\xa5", 4); /* one character */
        options.program = program;
        ck_assert_int_eq(hf_open("mem:program", &options, &client, NULL), 0);
        ck_assert_int_eq(hf_lock(client, "thing", 0, &hold, NULL), 0);
        ck_assert_int_eq(hf_inspect(client, "thing", false, &report, NULL), 0);
        size_t len = strlen(hf_report_entry(report, 0)->program);
        ck_assert(len == before || len == before + 3 || (before > 47 && len == 47));
        hf_report_free(report);
        ck_assert_int_eq(hf_release(hold, NULL), 0);
        hf_close(client);
    }
}
END_TEST

UNIT_MAIN("asking", a_program_is_cut_between_characters, findings_without_memory,
          options_at_their_limits, the_worst_finding_comes_first)
