/* SPDX-License-Identifier: MIT */
/*
 * The holder of a wanted lock, in words: "held for 4m12s by db3 pid 8123 backup.sh".
 * For the message of a lock that was not granted, and for the status line
 * (status_line.c).
 */
#include "view.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 200 /* longest delay of the message */

static bool is_process(const hf_entry *entry, int64_t pid)
{
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    return entry->pid == pid && strcmp(entry->host, host) == 0;
}

static void describe(const hf_entry *holder, size_t more, char *buffer, size_t size)
{
    char who[400], since[32] = "", others[32] = "";
    bool known = holder->since_ms >= 0;

    entry_describe(holder, who, sizeof who);
    if (known)
        format_duration(holder->since_ms, since, sizeof since);
    if (more > 0)
        snprintf(others, sizeof others, " and %zu more", more);
    snprintf(buffer, size, "held %s%s%sby %.200s%s", known ? "for " : "", since,
             known ? " " : "", who, others);
}

/* One name: 1 with words, 0 if no process but `own_pid` holds it, or an error code. */
static int holder_find(hf_client *client, const char *name, int64_t own_pid,
                       char *buffer, size_t size, hf_error *why)
{
    const hf_entry *holder = NULL;
    hf_report *report = NULL;
    size_t holders = 0, used;
    uint32_t ahead = 0;
    int rc = hf_inspect(client, name, false, &report, why);

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < hf_report_count(report); i++) {
        const hf_entry *entry = hf_report_entry(report, i);

        if (entry->role == HF_HOLDER && !is_process(entry, own_pid) && holders++ == 0)
            holder = entry;
        if (entry->role == HF_WAITER && is_process(entry, own_pid))
            ahead = entry->place;
    }
    if (holder) {
        describe(holder, holders - 1, buffer, size);
        used = strlen(buffer);
        if (ahead > 0)
            snprintf(buffer + used, size - used, ", %" PRIu32 " waiter%s ahead", ahead,
                     ahead == 1 ? "" : "s");
    }
    hf_report_free(report);
    return holder != NULL;
}

int holder_describe(hf_client *client, const hf_want *wants, size_t count,
                    int64_t own_pid, char *buffer, size_t size, hf_error *why)
{
    int rc = 0;
    size_t used = 0;

    *buffer = '\0';
    if (!(hf_capabilities(client) & HF_CAP_INSPECT))
        return 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (wants[i].stripes)
            continue; /* the store has its own name for a sub-lock */
        if (count > 1)
            used = (size_t)snprintf(buffer, size, "%.200s is ", wants[i].name);
        rc = holder_find(client, wants[i].name, own_pid, buffer + used, size - used,
                         why);
    }
    if (rc <= 0)
        *buffer = '\0';
    return rc;
}

int cli_fail_held(struct args *args, hf_client *client, const char *what,
                  const hf_want *wants, size_t count, const hf_error *why, int code)
{
    char line[2048], words[512];
    hf_error full = *why;
    bool timeout = why->code == HF_ETIMEOUT;

    cli_error_line(args, what, why, line, sizeof line);
    exit_timer_start(LOOK_MS, code, line);
    if (holder_describe(client, wants, count, getpid(), words, sizeof words, NULL) == 1)
        snprintf(full.text, sizeof full.text, "%s%.200s", timeout ? "timed out: " : "",
                 words);
    exit_timer_stop();
    cli_fail(args, what, &full);
    return code;
}
