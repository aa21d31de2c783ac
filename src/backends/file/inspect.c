/* SPDX-License-Identifier: MIT */
/*
 * Inspect: who holds, who waits, which latches count, which cells there are.
 *
 * Called outside the guard. Sessions that are gone are cleaned up first, so nobody dead
 * is shown. Then the table is walked a part at a time, so that the guard is never held
 * for long: what is seen of one name was true at one moment, the whole was not. Entries
 * are copied inside the guard and told outside.
 */
#include <string.h>

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"
#include "cells.h"

#define PART 512 /* blocks looked at in one go */

struct sight {
    struct hf_list_node link;
    hf_entry entry;
    char program[sizeof(((struct region_session *)0)->program)];
    char note[HF_NOTE_MAX + 1];
    char name[];
};

struct sights {
    struct file_queue *me;
    struct hf_request *request;
    struct hf_list_node list;
    int64_t now, coarse_now;
    bool incomplete; /* no memory */
};

/* ---- Copying, in the guard ------------------------------------------------------- */

static struct sight *sight_add(struct sights *sights, const struct region_block *record,
                               int32_t kind, int32_t role)
{
    const struct block_record *r = &record->record;
    struct sight *sight = hf__alloc(sizeof(*sight) + HF_NAME_MAX + 1);

    if (!sight) {
        sights->incomplete = true;
        return NULL;
    }
    hf__file_table_name(sights->me, record, sight->name);
    sight->entry = (hf_entry){
        .size = sizeof(hf_entry),
        .name = sight->name,
        .host = sights->me->host_name,
        .program = sight->program,
        .note = sight->note,
        .kind = kind,
        .role = role,
        .permits = 1,
        .limit = r->limit ? r->limit : 1,
        .since_ms = -1,
        .left_ms = HF_FOREVER,
    };
    hf__list_push_back(&sights->list, &sight->link);
    return sight;
}

static int64_t since_ms(const struct sights *sights, int64_t since)
{
    int64_t ns = sights->coarse_now - since;
    return ns > 0 ? ns / HF_NS_PER_MS : 0;
}

static void program_copy(const struct sights *sights, uint32_t session,
                         struct sight *sight)
{
    memcpy(sight->program, sights->me->region.sessions[session].program,
           sizeof(sight->program) - 1);
}

static void entry_see(struct sights *sights, const struct region_block *record,
                      const struct block_entry *e, uint32_t position)
{
    bool granted = e->state == ENTRY_GRANTED;
    struct sight *sight =
        sight_add(sights, record, e->kind, granted ? HF_HOLDER : HF_WAITER);

    if (!sight)
        return;
    sight->entry.permits = e->permits;
    sight->entry.pid = e->pid;
    sight->entry.since_ms = since_ms(sights, e->since);
    memcpy(sight->note, e->note, sizeof(sight->note) - 1);
    if (sights->me->region.sessions[e->session].gen == e->session_gen)
        program_copy(sights, e->session, sight);
    if (!granted) {
        sight->entry.place = position;
        return;
    }
    sight->entry.token = e->token;
    if (e->expires != HF_NEVER)
        sight->entry.left_ms = (e->expires - sights->now) / HF_NS_PER_MS;
}

static void fast_see(struct sights *sights, const struct region_block *record)
{
    struct fast_hold hold;
    struct sight *sight;

    if (!hf__file_fast_read(record, &hold))
        return;
    sight = sight_add(sights, record, hold.kind, HF_HOLDER);
    if (!sight)
        return;
    sight->entry.token = hold.token;
    sight->entry.pid = sights->me->region.sessions[hold.session].pid;
    sight->entry.since_ms = since_ms(sights, hold.since);
    program_copy(sights, hold.session, sight);
}

static void record_see(struct sights *sights, struct region_block *record)
{
    struct file_queue *me = sights->me;
    struct block_record *r = &record->record;
    uint32_t waiting = 0;

    hf__file_record_expire(me, record);
    if (r->left && r->family == hf__family(HF_LATCH)) {
        struct sight *sight = sight_add(sights, record, HF_LATCH, HF_OBJECT);
        if (sight)
            sight->entry.permits = r->left;
    }
    fast_see(sights, record);
    for (uint32_t i = r->first; i; i = block_at(me, i)->next) {
        const struct block_entry *e = &block_at(me, i)->entry;
        if (e->kind != HF_LATCH || e->state == ENTRY_WAITING)
            entry_see(sights, record, e, waiting);
        waiting += e->state == ENTRY_WAITING;
    }
}

static bool name_begins(const struct sights *sights, const struct region_block *record)
{
    const struct hf_request *request = sights->request;
    char name[HF_NAME_MAX + 1];

    if (record->record.name_len < request->name_len)
        return false;
    hf__file_table_name(sights->me, record, name);
    return memcmp(name, request->name, request->name_len) == 0;
}

/* ---- Telling --------------------------------------------------------------------- */

static void sights_tell(struct sights *sights)
{
    struct hf_host *host = sights->me->host;
    struct hf_list_node *link;

    while ((link = hf__list_first(&sights->list))) {
        struct sight *sight = HF_CONTAINER(link, struct sight, link);
        hf__list_remove(link);
        host->ops->entry(host, sights->request, &sight->entry);
        hf__free(sight);
    }
}

static int see_one(struct sights *sights, hf_error *why)
{
    struct file_queue *me = sights->me;
    const struct hf_request *request = sights->request;
    struct region_block *record;
    int rc = hf__file_guard_lock(me, why);

    if (rc != 0)
        return rc;
    record =
        hf__file_table_find(me, request->name, request->name_len, request->name_hash);
    if (record)
        record_see(sights, record);
    hf__file_guard_unlock(me);
    sights_tell(sights);
    return 0;
}

static int see_part(struct sights *sights, uint32_t from, uint32_t *ret_next,
                    hf_error *why)
{
    struct file_queue *me = sights->me;
    int rc = hf__file_guard_lock(me, why);
    uint32_t end;

    if (rc != 0)
        return rc;
    end = me->region.head->high_water;
    *ret_next = from + PART < end ? from + PART : 0;
    for (uint32_t i = from; i < end && i < from + PART; i++)
        if (block_at(me, i)->type == BLOCK_RECORD &&
            name_begins(sights, block_at(me, i)))
            record_see(sights, block_at(me, i));
    hf__file_guard_unlock(me);
    sights_tell(sights);
    return 0;
}

static void cell_see(void *arg, const char *name, size_t len, uint64_t version)
{
    struct sights *sights = arg;
    struct hf_host *host = sights->me->host;
    hf_entry entry = {
        .size = sizeof(entry),
        .name = name,
        .host = sights->me->host_name,
        .program = "",
        .note = "",
        .kind = HF_CELL,
        .role = HF_OBJECT,
        .token = version,
        .since_ms = -1,
        .left_ms = HF_FOREVER,
    };

    (void)len;
    host->ops->entry(host, sights->request, &entry);
}

int hf__file_queue_inspect(struct file_queue *me, struct hf_request *request,
                           hf_error *why)
{
    struct sights sights = {
        .me = me,
        .request = request,
        .now = queue_now(me),
        .coarse_now = hf__now_coarse(),
    };
    uint32_t next = request->store[2] ? (uint32_t)request->store[2] : 1;
    int rc = 0;

    hf__list_init(&sights.list);
    hf__file_sessions_sweep(me);
    if (!request->prefix)
        rc = see_one(&sights, why);
    while (request->prefix && rc == 0 && next) {
        request->store[2] = next; /* from here, if the guard cannot be had now */
        rc = see_part(&sights, next, &next, why);
    }
    if (rc == 0)
        rc = hf__file_cells_each(me, request, cell_see, &sights, why);
    if (rc == 0 && sights.incomplete)
        rc = hf__fail_code(why, HF_ENOMEM);
    return rc;
}
