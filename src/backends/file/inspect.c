/* SPDX-License-Identifier: MIT */
/*
 * Inspect: holders, waiters, latches that are counting, cells.
 *
 * Called without the guard. Dead sessions are cleaned up first, so that their tickets
 * are not reported. Then the table is read a part at a time, so that the guard is never
 * held for long: what is reported of one name was true at one moment, the whole was
 * not. Entries are copied with the guard held and passed to the host without it.
 */
#include <string.h>

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"
#include "cells.h"

#define PART 512 /* blocks read per lock of the guard */

struct item {
    struct hf_list_node link;
    hf_entry entry;
    char program[sizeof(((struct region_session *)0)->program)];
    char note[HF_NOTE_MAX + 1];
    char name[];
};

struct report {
    struct file_queue *me;
    struct hf_request *request;
    struct hf_list_node list;
    int64_t now, coarse_now;
    bool incomplete; /* no memory */
};

/* ---- Copying, guard held --------------------------------------------------------- */

static struct item *item_add(struct report *report, const struct region_block *record,
                             int32_t kind, int32_t role)
{
    const struct block_record *r = &record->record;
    struct item *item = hf__alloc(sizeof(*item) + HF_NAME_MAX + 1);

    if (!item) {
        report->incomplete = true;
        return NULL;
    }
    hf__file_table_name(report->me, record, item->name);
    item->entry = (hf_entry){
        .size = sizeof(hf_entry),
        .name = item->name,
        .host = report->me->host_name,
        .program = item->program,
        .note = item->note,
        .kind = kind,
        .role = role,
        .permits = 1,
        .limit = r->limit ? r->limit : 1,
        .since_ms = -1,
        .left_ms = HF_FOREVER,
    };
    hf__list_push_back(&report->list, &item->link);
    return item;
}

static int64_t since_ms(const struct report *report, int64_t since)
{
    int64_t ns = report->coarse_now - since;
    return ns > 0 ? ns / HF_NS_PER_MS : 0;
}

static void program_copy(const struct report *report, uint32_t session,
                         struct item *item)
{
    memcpy(item->program, report->me->region.sessions[session].program,
           sizeof(item->program) - 1);
}

static void entry_report(struct report *report, const struct region_block *record,
                         const struct block_entry *e, uint32_t position)
{
    bool granted = e->state == ENTRY_GRANTED;
    struct item *item =
        item_add(report, record, e->kind, granted ? HF_HOLDER : HF_WAITER);

    if (!item)
        return;
    item->entry.permits = e->permits;
    item->entry.pid = e->pid;
    item->entry.since_ms = since_ms(report, e->since);
    memcpy(item->note, e->note, sizeof(item->note) - 1);
    if (report->me->region.sessions[e->session].gen == e->session_gen)
        program_copy(report, e->session, item);
    if (!granted) {
        item->entry.place = position;
        return;
    }
    item->entry.token = e->token;
    if (e->expires != HF_NEVER)
        item->entry.left_ms = (e->expires - report->now) / HF_NS_PER_MS;
}

static void fast_report(struct report *report, const struct region_block *record)
{
    struct fast_hold hold;
    struct item *item;

    if (!hf__file_fast_read(record, &hold))
        return;
    item = item_add(report, record, hold.kind, HF_HOLDER);
    if (!item)
        return;
    item->entry.token = hold.token;
    item->entry.pid = report->me->region.sessions[hold.session].pid;
    item->entry.since_ms = since_ms(report, hold.since);
    program_copy(report, hold.session, item);
}

static void record_report(struct report *report, struct region_block *record)
{
    struct file_queue *me = report->me;
    struct block_record *r = &record->record;
    uint32_t waiting = 0;

    hf__file_record_expire(me, record);
    if (r->left && r->family == hf__family(HF_LATCH)) {
        struct item *item = item_add(report, record, HF_LATCH, HF_OBJECT);
        if (item)
            item->entry.permits = r->left;
    }
    fast_report(report, record);
    for (uint32_t i = r->first; i; i = block_at(me, i)->next) {
        const struct block_entry *e = &block_at(me, i)->entry;
        if (e->kind != HF_LATCH || e->state == ENTRY_WAITING)
            entry_report(report, record, e, waiting);
        waiting += e->state == ENTRY_WAITING;
    }
}

static bool name_begins(const struct report *report, const struct region_block *record)
{
    const struct hf_request *request = report->request;
    char name[HF_NAME_MAX + 1];

    if (record->record.name_len < request->name_len)
        return false;
    hf__file_table_name(report->me, record, name);
    return memcmp(name, request->name, request->name_len) == 0;
}

/* ---- Reporting ------------------------------------------------------------------- */

static void report_send(struct report *report)
{
    struct hf_host *host = report->me->host;
    struct hf_list_node *link;

    while ((link = hf__list_first(&report->list))) {
        struct item *item = HF_CONTAINER(link, struct item, link);
        hf__list_remove(link);
        host->ops->entry(host, report->request, &item->entry);
        hf__free(item);
    }
}

static int report_one(struct report *report, hf_error *why)
{
    struct file_queue *me = report->me;
    const struct hf_request *request = report->request;
    struct region_block *record;
    int rc = hf__file_guard_lock(me, why);

    if (rc != 0)
        return rc;
    record =
        hf__file_table_find(me, request->name, request->name_len, request->name_hash);
    if (record)
        record_report(report, record);
    hf__file_guard_unlock(me);
    report_send(report);
    return 0;
}

static int report_part(struct report *report, uint32_t from, uint32_t *ret_next,
                       hf_error *why)
{
    struct file_queue *me = report->me;
    int rc = hf__file_guard_lock(me, why);
    uint32_t end;

    if (rc != 0)
        return rc;
    end = me->region.head->high_water;
    *ret_next = from + PART < end ? from + PART : 0;
    for (uint32_t i = from; i < end && i < from + PART; i++)
        if (block_at(me, i)->type == BLOCK_RECORD &&
            name_begins(report, block_at(me, i)))
            record_report(report, block_at(me, i));
    hf__file_guard_unlock(me);
    report_send(report);
    return 0;
}

static void cell_report(void *arg, const char *name, size_t len, uint64_t version)
{
    struct report *report = arg;
    struct hf_host *host = report->me->host;
    hf_entry entry = {
        .size = sizeof(entry),
        .name = name,
        .host = report->me->host_name,
        .program = "",
        .note = "",
        .kind = HF_CELL,
        .role = HF_OBJECT,
        .token = version,
        .since_ms = -1,
        .left_ms = HF_FOREVER,
    };

    (void)len;
    host->ops->entry(host, report->request, &entry);
}

int hf__file_queue_inspect(struct file_queue *me, struct hf_request *request,
                           hf_error *why)
{
    struct report report = {
        .me = me,
        .request = request,
        .now = queue_now(me),
        .coarse_now = hf__now_coarse(),
    };
    uint32_t next = request->store[2] ? (uint32_t)request->store[2] : 1;
    int rc = 0;

    hf__list_init(&report.list);
    hf__file_sessions_sweep(me);
    if (!request->prefix)
        rc = report_one(&report, why);
    while (request->prefix && rc == 0 && next) {
        request->store[2] = next; /* go on here, if the guard is busy */
        rc = report_part(&report, next, &next, why);
    }
    if (rc == 0)
        rc = hf__file_cells_each(me, request, cell_report, &report, why);
    if (rc == 0 && report.incomplete)
        rc = hf__fail_code(why, HF_ENOMEM);
    return rc;
}
