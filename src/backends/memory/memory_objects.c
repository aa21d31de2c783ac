/* SPDX-License-Identifier: MIT */
/*
 * Requests to the mem store: the table of verbs, and the verbs of latches and cells.
 *
 * One function per verb, called with the space locked; what it finds for the host is
 * copied into the session, and hf__memory_ask() passes it on after the space was
 * unlocked. Requests are always answered before the call returns.
 *
 * A latch exists while it counts, and a cell while it has a value: an open latch and a
 * removed cell leave nothing. Cell versions are numbers of the process-wide counter, so
 * that no version comes back. Counting down and setting a cell take effect once per
 * request id: the space remembers the last MEMORY_DONE requests with their results.
 */
#include "memory.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

/* ---- Done once ------------------------------------------------------------------- */

static bool done_before(const struct memory_space *space, struct hf_request *request)
{
    size_t count = space->done_next < MEMORY_DONE ? space->done_next : MEMORY_DONE;

    for (size_t i = 0; i < count; i++) {
        const struct memory_done *done = &space->done[i];
        if (memcmp(&done->id, &request->id, sizeof(done->id)) == 0) {
            request->result = done->result;
            return true;
        }
    }
    return false;
}

static void done_note(struct memory_space *space, const struct hf_request *request)
{
    struct memory_done *done = &space->done[space->done_next++ % MEMORY_DONE];

    done->id = request->id;
    done->result = request->result;
}

/* ---- Latch ----------------------------------------------------------------------- */

static int latch_asked(struct memory_session *me, const struct hf_request *request,
                       struct memory_name **ret_name, hf_error *why)
{
    *ret_name = hf__memory_asked(me, request);
    return *ret_name ? hf__memory_match(*ret_name, HF_LATCH, 0, why) : 0;
}

static int latch_set(struct memory_session *me, struct hf_request *request,
                     hf_error *why)
{
    struct memory_name *name;
    int rc;

    if (done_before(me->space, request))
        return 0;
    rc = latch_asked(me, request, &name, why);
    if (rc < 0)
        return rc;
    if (name)
        return hf__fail(why, HF_EBUSY, "the latch is counting: %u left",
                        name->latch_left);
    name = hf__memory_name_new(me, request->name, request->name_len, request->name_hash,
                               HF_LATCH, 0);
    if (!name)
        return hf__fail_code(why, HF_ENOMEM);
    name->latch_left = (uint32_t)request->number;
    request->result = request->number;
    done_note(me->space, request);
    return 0;
}

static int latch_get(struct memory_session *me, struct hf_request *request,
                     hf_error *why)
{
    struct memory_name *name;
    int rc = latch_asked(me, request, &name, why);

    request->result = rc == 0 && name ? name->latch_left : 0;
    return rc;
}

static int latch_down(struct memory_session *me, struct hf_request *request,
                      hf_error *why)
{
    struct memory_name *name;
    int rc;

    if (done_before(me->space, request))
        return 0;
    rc = latch_asked(me, request, &name, why);
    if (rc < 0)
        return rc;
    request->result = 0;
    if (name && name->latch_left > request->number)
        request->result = name->latch_left - request->number;
    done_note(me->space, request);
    if (name) {
        name->latch_left = (uint32_t)request->result;
        hf__memory_update(me, name);
    }
    return 0;
}

/* ---- Cell ------------------------------------------------------------------------ */

static int cell_get(struct memory_session *me, struct hf_request *request,
                    hf_error *why)
{
    struct memory_name *name = hf__memory_asked(me, request);

    if (!name)
        return hf__fail(why, HF_ENOENT, "there is no such cell");
    if (hf__memory_match(name, HF_CELL, 0, why) < 0)
        return HF_EMISMATCH;
    me->cell_data = hf__copy_text(name->cell_data, name->cell_len);
    if (!me->cell_data)
        return hf__fail_code(why, HF_ENOMEM);
    me->cell_len = name->cell_len;
    request->result = name->cell_version;
    return 0;
}

static int cell_write(struct memory_session *me, struct memory_name *name,
                      struct hf_request *request, hf_error *why)
{
    void *data = hf__copy_text(request->data, request->data_len);

    if (data && !name)
        name = hf__memory_name_new(me, request->name, request->name_len,
                                   request->name_hash, HF_CELL, 0);
    if (!data || !name) {
        hf__free(data);
        return hf__fail_code(why, HF_ENOMEM);
    }
    hf__free(name->cell_data);
    name->cell_data = data;
    name->cell_len = request->data_len;
    name->cell_version = request->result = hf__memory_draw(1);
    return 0;
}

static int cell_remove(struct memory_session *me, struct memory_name *name,
                       struct hf_request *request)
{
    request->result = 0;
    if (name) {
        hf__free(name->cell_data);
        name->cell_data = NULL;
        name->cell_version = 0;
        hf__memory_update(me, name);
    }
    return 0;
}

static int cell_set(struct memory_session *me, struct hf_request *request,
                    hf_error *why)
{
    struct memory_name *name;
    uint64_t version;
    int rc;

    if (done_before(me->space, request))
        return 0;
    name = hf__memory_asked(me, request);
    if (name && hf__memory_match(name, HF_CELL, 0, why) < 0)
        return HF_EMISMATCH;
    version = name ? name->cell_version : 0;
    if (version != request->number)
        return hf__fail_code(why, HF_ESTALE);
    rc = request->data ? cell_write(me, name, request, why)
                       : cell_remove(me, name, request);
    if (rc == 0)
        done_note(me->space, request);
    return rc;
}

/* ---- Ask ------------------------------------------------------------------------- */

static hf__memory_verb *const verbs[] = {
    [HF_LATCH_SET] = latch_set,
    [HF_LATCH_GET] = latch_get,
    [HF_LATCH_DOWN] = latch_down,
    [HF_CELL_GET] = cell_get,
    [HF_CELL_SET] = cell_set,
    [HF_INSPECT] = hf__memory_inspect,
    [HF_EVICT] = hf__memory_evict,
    [HF_REVOKE] = hf__memory_revoke,
    [HF_DOWNGRADE] = hf__memory_downgrade,
    [HF_ADOPT] = hf__memory_adopt,
    [HF_DIAGNOSE] = hf__memory_diagnose,
};

static void findings_tell(struct memory_session *me, struct hf_request *request)
{
    const struct hf_host_ops *ops = me->host->ops;

    if (me->cell_data)
        ops->cell_data(me->host, request, me->cell_data, me->cell_len);
    for (HF_EACH(link, &me->report)) {
        struct memory_item *item = HF_CONTAINER(link, struct memory_item, link);
        ops->entry(me->host, request, &item->entry);
    }
    if (request->verb == HF_DIAGNOSE)
        ops->finding(me->host, request, &hf__memory_finding);
}

static void findings_done(struct memory_session *me)
{
    for (HF_EACH_SAFE(link, &me->report))
        hf__free(HF_CONTAINER(link, struct memory_item, link));
    hf__free(me->cell_data);
    me->cell_data = NULL;
    hf__list_init(&me->report);
}

void hf__memory_ask(void *session, struct hf_request *request)
{
    struct memory_session *me = session;
    hf_error why;
    int rc;

    hf__memory_lock(me);
    rc = verbs[request->verb](me, request, &why);
    hf__memory_unlock(me);
    if (rc == 0)
        findings_tell(me, request);
    findings_done(me);
    me->host->ops->answered(me->host, request, rc, rc < 0 ? &why : NULL);
    hf__memory_drain(me);
}
