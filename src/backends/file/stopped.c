/* SPDX-License-Identifier: MIT */
/*
 * Whether a process is kept from running: guard.c asks when one holds the guard for
 * longer than a busy host explains.
 *
 * SIGSTOP and debuggers show in /proc/<pid>/stat. A frozen container does not: its
 * control group says so, in `cgroup.events` (version 2) or `freezer.state` (version 1).
 * What cannot be read counts as "not stopped": the caller then waits as for a slow
 * process, which is never wrong.
 */
#include "stopped.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CGROUPS "/sys/fs/cgroup"

static bool text_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd < 0)
        return false;
    got = read(fd, text, size - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

const char *hf__file_stopped_by_stat(const char *text)
{
    const char *at = strrchr(text, ')'); /* the name may contain this, too */

    if (!at || at[1] != ' ')
        return NULL;
    switch (at[2]) {
    case 'T':
        return "stopped";
    case 't':
        return "held by a debugger";
    default:
        return NULL;
    }
}

static bool group_frozen(const char *format, const char *group, const char *sign)
{
    char path[512], text[256];
    int len = snprintf(path, sizeof(path), format, group);

    return len > 0 && (size_t)len < sizeof(path) &&
           text_read(path, text, sizeof(text)) && strstr(text, sign);
}

/* `line`: "0::/group", or "7:freezer:/group" where there are several hierarchies. */
static bool line_frozen(const char *line)
{
    const char *group = strchr(line, '/');

    if (!group)
        return false;
    if (strncmp(line, "0::", 3) == 0)
        return group_frozen(CGROUPS "%s/cgroup.events", group, "frozen 1") ||
               group_frozen(CGROUPS "/unified%s/cgroup.events", group, "frozen 1");
    return strstr(line, ":freezer:") &&
           group_frozen(CGROUPS "/freezer%s/freezer.state", group, "FROZEN");
}

static bool process_frozen(int32_t pid)
{
    char path[32], text[2048];
    char *rest = NULL;

    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    if (!text_read(path, text, sizeof(text)))
        return false;
    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        if (line_frozen(line))
            return true;
    return false;
}

const char *hf__file_stopped(int32_t pid)
{
    char path[32], text[1024];
    const char *word = NULL;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (text_read(path, text, sizeof(text)))
        word = hf__file_stopped_by_stat(text);
    if (!word && process_frozen(pid))
        word = "frozen";
    return word;
}
