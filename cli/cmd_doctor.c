/* SPDX-License-Identifier: MIT */
/*
 * `holdfast doctor`: whether a store answers, what it can do, and which known
 * conditions there can break locks.
 *
 * The store itself knows these conditions (hf_diagnose); each finding comes with its
 * fix. The JSON:
 *
 *   {"version": "0.1.0", "stores": ["mem", "file"], "url": "file:/srv/locks",
 *    "reachable": true, "error": null, "open_us": 410, "round_trip_us": 35,
 *    "capabilities": ["mutex", ...], "findings": [{"level": "trap", "topic":
 *    "permissions", "what": "...", "fix": "chmod o-w '/srv/locks'"}]}
 *
 * error is {"name": "HF_EUNREACHABLE", "text": "..."} if the store is not reachable.
 * findings is null if the store has no checks. Exit code: 0 without a trap; 1 with one;
 * otherwise that of the error.
 */
#include "commands.h"
#include "view.h"

#include <time.h>

static const struct {
    uint64_t bit;
    const char *name; /* for JSON */
    const char *words;
} capabilities_known[] = {
    { HF_CAP_MUTEX, "mutex", "mutex" },
    { HF_CAP_FAIR, "fair", "fair mutex" },
    { HF_CAP_RW, "rw", "read and write locks" },
    { HF_CAP_DOWNGRADE, "downgrade", "downgrade" },
    { HF_CAP_PERMITS, "permits", "semaphores" },
    { HF_CAP_EXPIRING, "expiring", "expiring permits" },
    { HF_CAP_LATCH, "latch", "latches" },
    { HF_CAP_CELL, "cell", "cells" },
    { HF_CAP_LEASE, "lease", "leases" },
    { HF_CAP_DETACH, "detach", "holds that outlive their process" },
    { HF_CAP_INSPECT, "inspect", "listing holders and waiters" },
    { HF_CAP_EVICT, "evict", "evicting holders" },
    { HF_CAP_REVOKE, "revoke", "asking holders to release" },
    { HF_CAP_PROCESSES, "processes", "locks between processes" },
    { HF_CAP_CRASH, "crash", "release at once when a holder is killed" },
    { HF_CAP_DURABLE, "durable", "tokens that grow across a restart" },
    { HF_CAP_HANDOFF, "handoff", "hand-off between threads" },
    { HF_CAP_DIAGNOSE, "diagnose", "checks for traps" },
};

#define CAPABILITY_COUNT (sizeof capabilities_known / sizeof *capabilities_known)

struct examination {
    char url[512]; /* without secrets */
    uint64_t capabilities;
    int64_t open_us, round_trip_us; /* -1: not known */
    hf_report *findings;            /* NULL: the store has no checks */
    int rc;
    hf_error why;
};

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- Examination ----------------------------------------------------------------- */

/* Inspects an unused name, twice: the first request may have to connect. */
static int round_trip(hf_client *client, int64_t *ret_us, hf_error *why)
{
    int64_t begin = 0;
    int rc = 0;

    for (int i = 0; i < 2 && rc == 0; i++) {
        hf_report *report = NULL;

        begin = now_us();
        rc = hf_inspect(client, "holdfast-doctor", false, &report, why);
        hf_report_free(report);
    }
    if (rc == 0)
        *ret_us = now_us() - begin;
    return rc;
}

static void examine(struct examination *exam, const char *url)
{
    int64_t begin = now_us();
    hf_client *client = NULL;

    exam->open_us = exam->round_trip_us = -1;
    exam->rc = hf_open(url, NULL, &client, &exam->why);
    if (exam->rc != 0)
        return;
    exam->open_us = now_us() - begin;
    exam->capabilities = hf_capabilities(client);
    if (exam->capabilities & HF_CAP_INSPECT)
        exam->rc = round_trip(client, &exam->round_trip_us, &exam->why);
    begin = now_us();
    if (exam->rc == 0 && (exam->capabilities & HF_CAP_DIAGNOSE))
        exam->rc = hf_diagnose(client, &exam->findings, &exam->why);
    if (exam->rc == 0 && exam->findings && exam->round_trip_us < 0)
        exam->round_trip_us = now_us() - begin;
    hf_close(client);
}

static size_t count_level(const struct examination *exam, enum hf_level level)
{
    size_t count = 0;

    for (size_t i = 0; i < hf_report_count(exam->findings); i++)
        count += hf_report_finding(exam->findings, i)->level == (int32_t)level;
    return count;
}

static int exit_of(const struct examination *exam)
{
    int code = cli_exit_of(exam->rc);

    if (exam->rc != 0)
        return code == EXIT_BUSY ? EXIT_UNREACHABLE : code; /* 1 means a trap */
    return count_level(exam, HF_TRAP) ? EXIT_BUSY : EXIT_DONE;
}

/* ---- JSON ------------------------------------------------------------------------ */

static const char *level_name(int32_t level)
{
    return level == HF_TRAP ? "trap" : level == HF_REMARK ? "remark" : "good";
}

static void error_json(struct json *json, const struct examination *exam)
{
    if (exam->rc == 0) {
        json_null(json, "error");
        return;
    }
    json_open(json, "error", '{');
    json_text(json, "name", hf_error_name(exam->rc));
    json_text(json, "text", exam->why.text);
    json_close(json);
}

static void findings_json(struct json *json, const struct examination *exam)
{
    if (!exam->findings) {
        json_null(json, "findings");
        return;
    }
    json_open(json, "findings", '[');
    for (size_t i = 0; i < hf_report_count(exam->findings); i++) {
        const hf_finding *finding = hf_report_finding(exam->findings, i);

        json_open(json, NULL, '{');
        json_text(json, "level", level_name(finding->level));
        json_text(json, "topic", finding->topic);
        json_text(json, "what", finding->what);
        json_text(json, "fix", finding->fix[0] ? finding->fix : NULL);
        json_close(json);
    }
    json_close(json);
}

static void us_json(struct json *json, const char *key, int64_t us)
{
    if (us >= 0)
        json_number(json, key, us);
    else
        json_null(json, key);
}

static void print_json(const struct examination *exam)
{
    struct json *json = json_new(stdout);

    json_open(json, NULL, '{');
    json_text(json, "version", hf_version());
    stores_json(json);
    json_text(json, "url", exam->url);
    json_bool(json, "reachable", exam->rc == 0);
    error_json(json, exam);
    us_json(json, "open_us", exam->open_us);
    us_json(json, "round_trip_us", exam->round_trip_us);
    json_open(json, "capabilities", '[');
    for (size_t i = 0; i < CAPABILITY_COUNT; i++)
        if (exam->capabilities & capabilities_known[i].bit)
            json_text(json, NULL, capabilities_known[i].name);
    json_close(json);
    findings_json(json, exam);
    json_end(json);
}

/* ---- Text ------------------------------------------------------------------------ */

static void print_capabilities(const struct examination *exam, bool there,
                               const char *head)
{
    const char *between = head;

    for (size_t i = 0; i < CAPABILITY_COUNT; i++) {
        if (!(exam->capabilities & capabilities_known[i].bit) == there)
            continue;
        printf("%s%s", between, capabilities_known[i].words);
        between = ", ";
    }
    if (between != head)
        putchar('\n');
}

static void print_finding(const hf_finding *finding)
{
    static const char *const colours[] = { "", "\033[32m", "\033[33m", "\033[31;1m" };
    bool colour =
        colours_on(stdout) && finding->level >= HF_GOOD && finding->level <= HF_TRAP;
    char safe[2048];

    text_escape(finding->what, safe, sizeof safe);
    printf("%s%-6s%s  %s: %s\n", colour ? colours[finding->level] : "",
           level_name(finding->level), colour ? "\033[0m" : "", finding->topic, safe);
    if (!finding->fix[0])
        return;
    text_escape(finding->fix, safe, sizeof safe);
    printf("        fix: %s\n", safe);
}

static void print_findings(const struct examination *exam)
{
    size_t traps = count_level(exam, HF_TRAP);
    size_t remarks = count_level(exam, HF_REMARK);

    if (!exam->findings) {
        puts("This store has no checks for traps.");
        return;
    }
    for (size_t i = 0; i < hf_report_count(exam->findings); i++)
        print_finding(hf_report_finding(exam->findings, i));
    if (traps + remarks == 0)
        puts("All good.");
    else
        printf("%zu trap%s, %zu remark%s.\n", traps, traps == 1 ? "" : "s", remarks,
               remarks == 1 ? "" : "s");
}

static void print_text(struct args *args, const struct examination *exam)
{
    char safe[1024];

    printf("holdfast %s, stores: %s\n", hf_version(), hf_stores());
    if (exam->rc != 0) {
        fflush(stdout);
        cli_fail(args, exam->url, &exam->why);
        return;
    }
    text_escape(exam->url, safe, sizeof safe);
    printf("%s: opened in %.2f ms", safe, (double)exam->open_us / 1000);
    if (exam->round_trip_us >= 0)
        printf(", answers in %.2f ms", (double)exam->round_trip_us / 1000);
    putchar('\n');
    print_capabilities(exam, true, "can: ");
    print_capabilities(exam, false, "cannot: ");
    print_findings(exam);
}

/* ---- The command ----------------------------------------------------------------- */

static int run_doctor(struct args *args)
{
    const char *given = args_operand(args, 0);
    const char *url = given ? given : args_url(args);
    struct examination exam = { 0 };
    int code;

    if (given && args_url(args))
        return cli_usage(args, "the URL was given twice");
    if (given)
        url_without_secrets(given, exam.url, sizeof exam.url);
    else
        store_url(args, exam.url, sizeof exam.url);
    examine(&exam, url);
    if (args_get(args, "json")->flag)
        print_json(&exam);
    else
        print_text(args, &exam);
    code = exit_of(&exam);
    hf_report_free(exam.findings);
    return code;
}

static const struct option doctor_options[] = {
    { "json", 0, OPT_FLAG, NULL, "print JSON", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const doctor_examples[] = {
    "holdfast doctor", "examine the default store",
    "holdfast doctor file:/srv/locks --json > report.json || exit 1",
    "for CI: fails if there is a trap or no answer", NULL
};

const struct command cmd_doctor = {
    .name = "doctor",
    .operands = "[URL]",
    .summary = "examine a store: connection, capabilities, known traps and their fixes",
    .group = "look",
    .about =
        "Opens the store, measures how long that and one request take, lists what the "
        "store can do, and checks for what is known to break or slow down locks there, "
        "each with its fix. A trap may cost a lock; a remark will not.\n\n"
        "The exit code is 0 without a trap, 1 with a trap, and 69 or the code of the "
        "failure if the store could not be examined.",
    .examples = doctor_examples,
    .options = doctor_options,
    .run = run_doctor,
    .min_operands = 0,
    .max_operands = 1,
};
