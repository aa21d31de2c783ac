/* SPDX-License-Identifier: MIT */
/*
 * Latches and cells: reading their node, and changing it once.
 *
 * A change is one multi: first a marker (an ephemeral node P/hf%done-<id of the
 * request> whose data is the result), then the plan of the verb. The server carries out
 * all of it or nothing. When the reply has come the result is recorded in the session
 * and the marker is deleted. If no reply comes core asks again with the same id, and
 * the marker tells whether the change was made, and with which result. The marker ends
 * with the session: after that the outcome cannot be known, and core is told
 * HF_EUNCERTAIN.
 *
 * A *change* is the job of one request and ends with it. A *pending change* is a multi
 * without a reply yet; it outlives a request that core forgets, because the marker has
 * to be deleted.
 *
 * A plan that fails because another client changed the node first is made anew from
 * what is there now. All under the client's lock.
 */
#include "changes.h"

#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum look { LOOK_MARKER = 1, LOOK_NODE, LOOK_FOLDER, LOOK_INSIDE };

enum { PARENT_ROUNDS = 50 }; /* the server may remove a container before it is used */

struct pending_change {
    struct hf_list_node link;
    struct change *change; /* NULL: core has forgotten the request */
    struct hf_id id;
    uint64_t result;
    bool by_zxid;
};

struct change {
    struct job job;
    const struct change_verb *verb;
    struct pending_change *pending; /* under way; NULL: none */
    int32_t clash;     /* another kind that uses the name; 0: none was seen */
    bool kind_checked; /* the name serves no other kind */
    uint8_t rounds;
    char folder[FOLDER_SIZE];
};

static void change_look(struct zk_session *me, struct change *change);
static zk_done look_reply;

/* ---- Records --------------------------------------------------------------------- */

void hf__zk_pending_changes_init(struct pending_changes *pending)
{
    hf__list_init(&pending->under_way);
}

void hf__zk_pending_changes_done(struct zk_session *me)
{
    struct pending_changes *pending = &me->pending;
    for (size_t i = 0; i < CHANGE_RECORDS; i++)
        hf__free(pending->records[i].marker);
    for (struct hf_list_node *link;
         pending->under_way.next && (link = hf__list_first(&pending->under_way));) {
        hf__list_remove(link);
        hf__free(HF_CONTAINER(link, struct pending_change, link));
    }
}

static struct change_record *record_find(struct zk_session *me, const struct hf_id *id)
{
    for (size_t i = 0; i < CHANGE_RECORDS; i++) {
        struct change_record *record = &me->pending.records[i];
        if (record->state != CHANGE_NONE && memcmp(&record->id, id, sizeof(*id)) == 0)
            return record;
    }
    return NULL;
}

static void record_drop(struct change_record *record)
{
    hf__free(record->marker);
    *record = (struct change_record){ .state = CHANGE_NONE };
}

/* The oldest record gives way: core will not ask for that request again. */
static void record_retire(struct zk_session *me, struct change_record *record)
{
    if (record->marker && record->session == hf__zk_session_id(me->zk))
        hf__zk_orphan_node_add(me, record->marker, strlen(record->marker));
    record_drop(record);
}

/* Owns `marker` from here on. */
static void record_open(struct zk_session *me, const struct hf_id *id, char *marker)
{
    struct change_record *record = record_find(me, id);
    if (!record)
        record = &me->pending.records[me->pending.next++ % CHANGE_RECORDS];
    record_retire(me, record);
    *record = (struct change_record){ .state = CHANGE_PENDING,
                                      .id = *id,
                                      .session = hf__zk_session_id(me->zk),
                                      .marker = marker };
}

static void record_made(struct zk_session *me, const struct hf_id *id, uint64_t result)
{
    struct change_record *record = record_find(me, id);
    if (!record || record->state != CHANGE_PENDING)
        return;
    record->state = CHANGE_MADE;
    record->result = result;
    hf__zk_orphan_node_add(me, record->marker, strlen(record->marker));
    hf__free(record->marker);
    record->marker = NULL;
}

static void record_unmade(struct zk_session *me, const struct hf_id *id)
{
    struct change_record *record = record_find(me, id);
    if (record && record->state == CHANGE_PENDING)
        record_drop(record);
}

/* ---- The job --------------------------------------------------------------------- */

static void change_done(struct zk_session *me, struct job *job)
{
    struct change *change = HF_CONTAINER(job, struct change, job);
    (void)me;
    if (change->pending)
        change->pending->change = NULL;
}

static void change_answer(struct zk_session *me, struct change *change, uint64_t result)
{
    change->job.request->result = result;
    hf__zk_job_end(me, &change->job, 0, NULL);
}

static void change_fail(struct zk_session *me, struct change *change, int rc,
                        const hf_error *why)
{
    hf__zk_job_end(me, &change->job, rc, why);
}

/* Frees the change if its request was not sent. */
static void change_sent(struct zk_session *me, struct change *change, int rc)
{
    hf_error why;
    if (rc == 0)
        return;
    hf__zk_unsent_why(me->zk, rc, &why);
    change_fail(me, change, rc, &why);
}

/* True: the request was carried out before, or that cannot be known; it is answered. */
static bool change_known(struct zk_session *me, struct change *change)
{
    const struct change_record *record = record_find(me, &change->job.request->id);
    hf_error why;
    if (!record)
        return false;
    if (record->state == CHANGE_MADE) {
        change_answer(me, change, record->result);
        return true;
    }
    if (record->session == hf__zk_session_id(me->zk))
        return false;
    change_fail(me, change,
                hf__fail(&why, HF_EUNCERTAIN,
                         "the session ended before the answer came; the outcome is "
                         "not known"),
                &why);
    return true;
}

/* ---- Carrying it out ------------------------------------------------------------- */

struct zk_op *hf__zk_plan_add(struct plan *plan, int what, const char *folder,
                              const char *node)
{
    struct zk_op *op = &plan->ops[plan->count];
    char *path = plan->paths[plan->count++];
    snprintf(path, PATH_SIZE, "%s%s", folder, node);
    *op = (struct zk_op){ .path = path, .data = "", .version = -1 };
    op->what = what;
    return op;
}

static void marker_path(const struct change *change, char path[PATH_SIZE])
{
    char uuid[UUID_SIZE];
    hf__zk_uuid_write(uuid, &change->job.request->id);
    snprintf(path, PATH_SIZE, "%s%s%.*s", change->folder, NODE_DONE, UUID_SIZE, uuid);
}

/* The index of the operation that failed: those before it have no error. */
static size_t first_failure(const struct zk_reply *reply)
{
    size_t i = 0;
    while (i + 1 < reply->count && reply->errors[i] == ZK_OK)
        i++;
    return i;
}

static void parents_made(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct change *change = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    /* NONODE: a parent was removed meanwhile; so once more. */
    bool fine = reply && (reply->error == ZK_NODEEXISTS || reply->error == ZK_NONODE);
    int rc = fine ? 0 : zk_answer_error(answer, &why);
    if (rc == 0)
        change_look(me, change);
    else
        change_fail(me, change, rc, &why);
}

/* The multi was not carried out. Operation 0 is the marker. */
static void change_again(struct zk_session *me, struct change *change, size_t failed,
                         int32_t error)
{
    struct zk_reply reply = { .error = error };
    hf_error why;
    bool folder = error == ZK_NONODE && failed == 0;
    if (folder && change->rounds++ < PARENT_ROUNDS)
        change_sent(
            me, change,
            hf__zk_make_folder(me->zk, change->folder, parents_made, change, 0));
    else if (error == ZK_NODEEXISTS || error == ZK_BADVERSION ||
             (error == ZK_NONODE && !folder))
        change_look(me, change); /* changed meanwhile, maybe by an earlier try */
    else if (error != ZK_OK)
        change_fail(me, change, hf__zk_server_error(&reply, &why), &why);
}

static void pending_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct pending_change *pending = answer->subject;
    const struct zk_reply *reply = answer->reply;
    struct change *change = pending->change;
    bool by_zxid = pending->by_zxid;
    uint64_t result = reply && by_zxid ? (uint64_t)reply->zxid : pending->result;
    struct hf_id id = pending->id;
    hf_error why;
    /* An error with results is that of one of the operations. */
    int rc = reply && reply->count ? 0 : zk_answer_error(answer, &why);
    hf__list_remove(&pending->link);
    hf__free(pending);
    if (change)
        change->pending = NULL;
    bool replied = reply && rc == 0;
    bool made = replied && reply->error == ZK_OK;
    size_t failed = replied && !made ? first_failure(reply) : 0;
    bool marked = replied && failed == 0 && reply->error == ZK_NODEEXISTS;
    if (made)
        record_made(me, &id, result);
    else if (rc != HF_EUNCERTAIN && !marked)
        record_unmade(me, &id);
    if (!change)
        return;
    if (made && by_zxid && result == 0) /* no transaction has number 0 */
        change_fail(me, change, hf__fail_code(&why, HF_ECORRUPT), &why);
    else if (made)
        change_answer(me, change, result);
    else if (replied)
        change_again(me, change, failed, reply->error);
    else
        change_fail(me, change, rc, &why);
}

static void plan_send(struct zk_session *me, struct change *change,
                      const struct plan *plan)
{
    struct zk_op ops[1 + PLAN_OPS] = { { .what = ZK_OP_CREATE } };
    char path[PATH_SIZE], text[24];
    hf_error why;
    marker_path(change, path);
    struct pending_change *pending = hf__alloc(sizeof(*pending));
    char *marker = hf__copy_text(path, strlen(path));
    if (!pending || !marker) {
        hf__free(pending);
        hf__free(marker);
        change_fail(me, change, hf__fail_code(&why, HF_ENOMEM), &why);
        return;
    }
    *pending = (struct pending_change){ .change = change,
                                        .id = change->job.request->id,
                                        .result = plan->result,
                                        .by_zxid = plan->by_zxid };
    hf__list_push_back(&me->pending.under_way, &pending->link);
    change->pending = pending;
    record_open(me, &pending->id, marker);
    ops[0].path = path;
    ops[0].data = text;
    ops[0].len = plan->by_zxid
                     ? 0
                     : (size_t)snprintf(text, sizeof(text), "%" PRIu64, plan->result);
    ops[0].mode = ZK_EPHEMERAL;
    memcpy(ops + 1, plan->ops, plan->count * sizeof(*ops));
    int rc = hf__zk_multi(me->zk, ops, 1 + plan->count, pending_reply, pending, 0);
    if (rc == 0)
        return;
    hf__zk_unsent_why(me->zk, rc, &why);
    pending_reply(
        &(struct zk_answer){ .session = me, .subject = pending, .why = &why });
}

static void change_plan(struct zk_session *me, struct change *change,
                        const struct zk_reply *found)
{
    struct plan plan = { .count = 0 };
    hf_error why;
    int rc =
        change->verb->plan(me, change->job.request, change->folder, found, &plan, &why);
    if (rc != 0)
        change_fail(me, change, rc, &why);
    else if (plan.count == 0)
        change_answer(me, change, plan.result);
    else
        plan_send(me, change, &plan);
}

/* ---- Looking --------------------------------------------------------------------- */

/* Other kinds may use the name: looks into their folders. */
static void look_inside(struct zk_session *me, struct change *change)
{
    char path[PATH_SIZE];
    int rc = 0;
    change->clash = 0;
    hf__zk_gather(me->zk);
    for (size_t i = 0; i < KIND_INSIDES && rc == 0; i++)
        if (hf__zk_kind_inside(path, change->folder, change->verb->kind, i))
            rc = hf__zk_children(me->zk, path, false, look_reply, change,
                                 LOOK_INSIDE + i);
    hf__zk_flush(me->zk);
    if (rc != 0)
        hf__zk_forget(me->zk, change);
    change_sent(me, change, rc);
}

/* The last reply decides; no reply comes behind one that did not come. */
static void inside_reply(struct zk_session *me, struct change *change, size_t index,
                         const struct zk_answer *answer)
{
    int32_t kind = change->verb->kind;
    hf_error why;
    if (answer->reply && hf__zk_kind_found(me->layout, index, answer->reply))
        change->clash = hf__zk_kind_found(me->layout, index, answer->reply);
    if (index != hf__zk_kind_inside_last(kind))
        return;
    if (!answer->reply) {
        change_fail(me, change, answer->why->code, answer->why);
    } else if (change->clash) {
        change_fail(me, change, hf__zk_kind_mismatch(&why, change->clash, kind), &why);
    } else {
        change->kind_checked = true;
        change_plan(me, change, NULL);
    }
}

static void look_at_folder(struct zk_session *me, struct change *change,
                           const struct zk_reply *reply)
{
    hf_error why;
    int32_t clash =
        hf__zk_kind_clash(me->layout, reply->names, reply->count, change->verb->kind);
    if (clash == KIND_MAYBE) {
        look_inside(me, change);
    } else if (clash) {
        change_fail(me, change, hf__zk_kind_mismatch(&why, clash, change->verb->kind),
                    &why);
    } else {
        change->kind_checked = true;
        change_plan(me, change, NULL);
    }
}

static void look_at_marker(struct zk_session *me, const struct change *change,
                           const struct zk_reply *reply)
{
    char text[24] = "";
    if (reply->error == ZK_NONODE)
        record_unmade(me, &change->job.request->id);
    if (reply->error != ZK_OK || reply->data.len >= sizeof(text))
        return;
    memcpy(text, reply->data.at, reply->data.len);
    record_made(me, &change->job.request->id,
                reply->data.len ? strtoull(text, NULL, 10)
                                : (uint64_t)reply->stat.czxid);
}

static void look_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct change *change = answer->subject;
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    bool absent = reply && reply->error == ZK_NONODE;
    int rc = absent ? 0 : zk_answer_error(answer, &why);
    if (answer->tag >= LOOK_INSIDE) {
        inside_reply(me, change, answer->tag - LOOK_INSIDE, answer);
        return;
    }
    if (answer->tag == LOOK_MARKER) {
        if (reply)
            look_at_marker(me, change, reply);
        return; /* the next reply decides */
    }
    if (rc != 0)
        change_fail(me, change, rc, &why);
    else if (answer->tag == LOOK_FOLDER)
        look_at_folder(me, change, reply);
    else if (change_known(me, change))
        return;
    else if (absent && !change->kind_checked)
        change_sent(me, change,
                    hf__zk_children(me->zk, change->folder, false, look_reply, change,
                                    LOOK_FOLDER));
    else
        change_plan(me, change, absent ? NULL : reply);
}

/* With a sync in front: this server may lag behind what other clients were told. */
static void change_look(struct zk_session *me, struct change *change)
{
    char path[PATH_SIZE];
    const struct change_record *record = record_find(me, &change->job.request->id);
    hf__zk_gather(me->zk);
    if (record && record->state == CHANGE_PENDING)
        hf__zk_get(me->zk, record->marker, false, look_reply, change, LOOK_MARKER);
    snprintf(path, sizeof(path), "%s%s", change->folder, change->verb->node);
    hf__zk_sync(me->zk, path, NULL, NULL, 0);
    int rc = hf__zk_get(me->zk, path, false, look_reply, change, LOOK_NODE);
    hf__zk_flush(me->zk);
    change_sent(me, change, rc);
}

void hf__zk_change_ask(struct zk_session *me, struct hf_request *request,
                       const struct change_verb *verb)
{
    struct job *job = hf__zk_job_begin(me, request, sizeof(struct change), change_done);
    if (!job)
        return;
    struct change *change = HF_CONTAINER(job, struct change, job);
    change->verb = verb;
    hf__zk_folder_write(change->folder, request->name, request->name_len);
    if (!change_known(me, change))
        change_look(me, change);
}
