/* SPDX-License-Identifier: MIT */
/*
 * Checks and patience: see check.h.
 *
 * Called on any thread of a scenario's process. A failure writes one line and leaves
 * with _exit(), so that nothing of a half-run scenario is cleaned up politely: the
 * runner reports the line, kills the process group and removes the scratch directory.
 */
#include "check.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../include/holdfast.h"

void check_failed(const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);

    const char *base = strrchr(file, '/');
    dprintf(STDOUT_FILENO, "%s:%d: not so: %s\n", base ? base + 1 : file, line, text);
    _exit(1);
}

static const char *rc_name(int rc)
{
    return rc == 0 ? "0" : hf_error_name(rc);
}

void check_rc(const char *file, int line, const char *call, int rc, int code)
{
    if (rc != code)
        check_failed(file, line, "%s gave %s (%d), not %s", call, rc_name(rc), rc,
                     rc_name(code));
}

void check_equal(const char *file, int line, const char *text, int64_t left,
                 int64_t right)
{
    if (left != right)
        check_failed(file, line, "%s: %lld and %lld", text, (long long)left,
                     (long long)right);
}

void check_text(const char *file, int line, const char *text, const char *left,
                const char *right)
{
    if (strcmp(left, right) != 0)
        check_failed(file, line, "%s: '%.80s' and '%.80s'", text, left, right);
}

int64_t real_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void patience_try(struct patience *patience, const char *file, int line,
                  const char *condition)
{
    if (patience->since_ms == 0)
        patience->since_ms = real_ms();
    if (real_ms() - patience->since_ms > PATIENCE_MS)
        check_failed(file, line, "waited in vain for %s", condition);
    poll(NULL, 0, 1);
}
