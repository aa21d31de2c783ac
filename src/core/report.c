/* SPDX-License-Identifier: MIT */
/*
 * Reports: copies of what a store tells about its tickets, its cells and itself.
 *
 * Filled while the store answers, under the client's lock; read by the caller
 * afterwards without one. If memory runs out, the
 * request ends with HF_ENOMEM.
 */
#include "report.h"

#include "../base/mem.h"
#include "client.h"

#include <string.h>

/* A store that sends more than this is taken for one that never ends. */
#define BYTES_MAX ((size_t)256 << 20)

static struct request_call *call_of(struct hf_request *request)
{
    return HF_CONTAINER(request, struct request_call, request);
}

hf_report *hf__report_new(void)
{
    return hf__alloc(sizeof(hf_report));
}

void hf__report_free(hf_report *report)
{
    if (!report)
        return;
    for (size_t i = 0; i < report->count; i++)
        hf__free((void *)(uintptr_t)report->entries[i].name);
    for (size_t i = 0; i < report->finding_count; i++)
        hf__free((void *)(uintptr_t)report->findings[i].topic);
    hf__free(report->entries);
    hf__free(report->findings);
    hf__free(report);
}

static hf_entry *next_entry(hf_report *report)
{
    if (report->count == report->room) {
        size_t room = report->room ? report->room * 2 : 16;
        hf_entry *entries = hf__realloc(
            report->entries, report->room * sizeof(hf_entry), room * sizeof(hf_entry));
        if (!entries)
            return NULL;
        report->entries = entries;
        report->room = room;
    }
    return &report->entries[report->count];
}

static char *append(char *at, const char *text, const char **ret_copy)
{
    size_t size = strlen(text) + 1;
    memcpy(at, text, size);
    *ret_copy = at;
    return at + size;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

void hf__report_add(struct hf_request *request, const hf_entry *entry)
{
    struct request_call *call = call_of(request);
    const char *name = or_empty(entry->name), *host = or_empty(entry->host);
    const char *program = or_empty(entry->program), *note = or_empty(entry->note);
    size_t size = strlen(name) + strlen(host) + strlen(program) + strlen(note) + 4;
    if (call->no_memory)
        return;
    call->report->bytes += sizeof(*entry) + size;
    bool fits = call->report->bytes <= BYTES_MAX;
    hf_entry *copy = fits ? next_entry(call->report) : NULL;
    char *strings = copy ? hf__alloc(size) : NULL;
    if (!strings) {
        call->no_memory = true;
        return;
    }
    *copy = *entry;
    copy->size = sizeof(*copy);
    strings = append(strings, name, &copy->name);
    strings = append(strings, host, &copy->host);
    strings = append(strings, program, &copy->program);
    append(strings, note, &copy->note);
    call->report->count++;
}

/* Few findings and one at a time: kept sorted by inserting each where it belongs. */
void hf__report_find(struct hf_request *request, const hf_finding *finding)
{
    struct request_call *call = call_of(request);
    hf_report *report = call->report;
    const char *topic = or_empty(finding->topic), *what = or_empty(finding->what);
    const char *fix = or_empty(finding->fix);
    size_t size = sizeof(hf_finding), count = report->finding_count;
    hf_finding *findings =
        hf__realloc(report->findings, count * size, (count + 1) * size);
    if (findings)
        report->findings = findings;
    char *strings = hf__alloc(strlen(topic) + strlen(what) + strlen(fix) + 3);
    if (!findings || !strings) {
        hf__free(strings);
        call->no_memory = true;
        return;
    }
    size_t at = count;
    while (at > 0 && findings[at - 1].level < finding->level)
        at--;
    memmove(&findings[at + 1], &findings[at], (count - at) * size);
    findings[at].size = size;
    findings[at].level = finding->level;
    strings = append(strings, topic, &findings[at].topic);
    strings = append(strings, what, &findings[at].what);
    append(strings, fix, &findings[at].fix);
    report->finding_count++;
}

void hf__report_cell(struct hf_request *request, const void *data, size_t len)
{
    struct request_call *call = call_of(request);
    hf__free(call->cell);
    call->cell = hf__alloc(len + 1);
    call->cell_len = len;
    if (!call->cell)
        call->no_memory = true;
    else if (len)
        memcpy(call->cell, data, len);
}
