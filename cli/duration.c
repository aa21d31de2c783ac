/* SPDX-License-Identifier: MIT */
/*
 * Reading and printing durations. Pure functions.
 */
#include "cli.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* The longest time the library accepts: ten years. */
#define LONGEST (3652 * DAY)

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    { "d", DAY },    { "h", HOUR },     { "ms", 1 },     { "min", MINUTE },
    { "m", MINUTE }, { "sec", SECOND }, { "s", SECOND },
};

/* The unit at `text`, which is moved behind it. No unit means seconds, but only for the
 * `only` number: 1h30 could mean 1h30m or 1h30s. */
static int64_t read_unit(const char **text, bool only)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(units[i].name);

        if (strncmp(*text, units[i].name, length) == 0 &&
            !isalpha((unsigned char)(*text)[length])) {
            *text += length;
            return units[i].ms;
        }
    }
    return only && **text == '\0' ? SECOND : 0;
}

/* "12" or "1.5" in thousandths; fails without digits and when it is too large. */
static int read_thousandths(const char **text, int64_t *ret_value)
{
    const char *c = *text;
    int64_t value = 0, scale = 1000;

    if (!isdigit((unsigned char)*c))
        return -1;
    for (; isdigit((unsigned char)*c); c++) {
        value = value * 10 + (*c - '0');
        if (value > LONGEST)
            return -1;
    }
    value *= scale;
    if (*c == '.' && !isdigit((unsigned char)c[1]))
        return -1;
    if (*c == '.') {
        for (c++; isdigit((unsigned char)*c); c++) {
            scale /= 10;
            value += (*c - '0') * scale;
        }
    }
    *text = c;
    *ret_value = value;
    return 0;
}

int parse_duration(const char *text, int64_t *ret_ms)
{
    int64_t total = 0, before = INT64_MAX;

    if (!*text)
        return -1;
    while (*text) {
        int64_t value, unit;

        if (read_thousandths(&text, &value) != 0)
            return -1;
        unit = read_unit(&text, before == INT64_MAX);
        if (unit == 0 || unit >= before) /* 1m30s, but not 30s1m */
            return -1;
        before = unit;
        if (value > LONGEST * 1000 / unit)
            return -1;
        total += (value * unit + 999) / 1000;
        if (total > LONGEST)
            return -1;
    }
    *ret_ms = total;
    return 0;
}

/* Two units, the second one only if it is not 0: "1m30s", "2h". */
static void two_units(int64_t large, const char *large_name, int64_t small,
                      const char *small_name, char *buffer, size_t size)
{
    if (small > 0)
        snprintf(buffer, size, "%" PRId64 "%s%" PRId64 "%s", large, large_name, small,
                 small_name);
    else
        snprintf(buffer, size, "%" PRId64 "%s", large, large_name);
}

void format_duration(int64_t ms, char *buffer, size_t size)
{
    int64_t s = ms / SECOND;

    if (ms < 0)
        snprintf(buffer, size, "forever");
    else if (ms < SECOND)
        snprintf(buffer, size, "%" PRId64 "ms", ms);
    else if (ms < 10 * SECOND && ms % SECOND >= 100)
        snprintf(buffer, size, "%" PRId64 ".%" PRId64 "s", s, ms % SECOND / 100);
    else if (ms < MINUTE)
        snprintf(buffer, size, "%" PRId64 "s", s);
    else if (ms < HOUR)
        two_units(s / 60, "m", s % 60, "s", buffer, size);
    else if (ms < DAY)
        two_units(s / 3600, "h", s % 3600 / 60, "m", buffer, size);
    else
        two_units(s / 86400, "d", s % 86400 / 3600, "h", buffer, size);
}
