/* SPDX-License-Identifier: MIT */
/*
 * lockcheck: says whether the locks of a campaign kept their promises.
 *
 *     lockcheck DIR [--json] [--strict-plain] [--unsound] [--bound MS] [--grace MS]
 *               [--killed P[@NS],...]
 *
 * Reads every history in DIR. --killed names processes that were killed on purpose, and
 * if known the time (CLOCK_MONOTONIC) by which each was gone. Exit: 0 if all that must
 * hold does, 1 if not, 2 if it cannot tell.
 */
#include "read_ahead.h"
#include "report.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct check_options options;
    struct check_killed *killed;
    const char *directory;
    bool json;
};

static bool number_parse(const char *text, char **ret_end, uint64_t *ret_number)
{
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *ret_number = strtoull(text, ret_end, 10);
    return errno == 0;
}

static bool ms_parse(const char *text, uint64_t *ret_ns)
{
    char *end;
    uint64_t ms;
    if (!number_parse(text, &end, &ms) || *end || ms > UINT64_MAX / 1000000)
        return false;
    *ret_ns = ms * 1000000;
    return true;
}

static bool killed_add(struct settings *settings, struct check_killed killed)
{
    size_t count = settings->options.killed_count;
    struct check_killed *list =
        realloc(settings->killed, (count + 1) * sizeof *settings->killed);
    if (!list)
        return false;
    list[count] = killed;
    settings->killed = list;
    settings->options.killed = list;
    settings->options.killed_count = count + 1;
    return true;
}

static bool killed_parse(struct settings *settings, const char *text)
{
    while (*text) {
        char *end;
        uint64_t process, gone = UINT64_MAX;
        if (!number_parse(text, &end, &process) || process > UINT32_MAX)
            return false;
        if (*end == '@' && !number_parse(end + 1, &end, &gone))
            return false;
        if (*end != ',' && *end)
            return false;
        if (!killed_add(settings, (struct check_killed){ (uint32_t)process, gone }))
            return false;
        text = *end ? end + 1 : end;
    }
    return true;
}

static bool option_take(struct settings *settings, int option)
{
    switch (option) {
    case 'j':
        settings->json = true;
        return true;
    case 'p':
        settings->options.strict_plain = true;
        return true;
    case 'u':
        settings->options.unsound = true;
        return true;
    case 'b':
        return ms_parse(optarg, &settings->options.bound_ns);
    case 'g':
        return ms_parse(optarg, &settings->options.grace_ns);
    case 'k':
        return killed_parse(settings, optarg);
    default:
        return false;
    }
}

static bool settings_parse(struct settings *settings, int argc, char **argv)
{
    static const struct option options[] = {
        { "json", no_argument, NULL, 'j' },
        { "strict-plain", no_argument, NULL, 'p' },
        { "unsound", no_argument, NULL, 'u' },
        { "bound", required_argument, NULL, 'b' },
        { "grace", required_argument, NULL, 'g' },
        { "killed", required_argument, NULL, 'k' },
        { 0 },
    };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!option_take(settings, option))
            return false;
    settings->directory = argv[optind];
    return optind + 1 == argc;
}

static int directory_check(const struct settings *settings)
{
    int rc = 2;
    struct check *check = check_new(&settings->options);

    if (history_read_ahead(settings->directory, check_add, check) < 0) {
        fprintf(stderr, "lockcheck: %s: %s\n", settings->directory, strerror(errno));
        goto out;
    }
    const struct check_report *report = check_run(check);
    (settings->json ? report_json : report_text)(stdout, &settings->options, report);
    rc = report->violations ? 1 : 0;
    if (report->events == 0) {
        fprintf(stderr, "lockcheck: %s: no histories\n", settings->directory);
        rc = 2;
    }
out:
    check_free(check);
    return rc;
}

int main(int argc, char **argv)
{
    struct settings settings = { .options = CHECK_OPTIONS_INIT };
    int rc = 2;

    /* Tables that grow move as pages, and what is freed is gone. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);

    if (settings_parse(&settings, argc, argv))
        rc = directory_check(&settings);
    else
        fprintf(stderr, "usage: lockcheck DIR [--json] [--strict-plain] [--unsound]\n"
                        "       [--bound MS] [--grace MS] [--killed P[@NS],...]\n");
    free(settings.killed);
    return rc;
}
