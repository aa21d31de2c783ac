/* SPDX-License-Identifier: MIT */
/*
 * What several files need: errors of the server as codes, nodes that have to go,
 * requests that take more than one call.
 *
 * Litter is a node of ours that nobody waits for: the remains of a create whose answer
 * got lost. It is deleted again and again until it is known to be gone, or its session
 * is, and it with that. Under the client's lock.
 */
#include "session.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

#define RETRY_NS (100 * HF_NS_PER_MS)

/* ---- Errors ---------------------------------------------------------------------- */

static const struct {
    int32_t error;
    int code;
    const char *sentence;
} errors[] = {
    { ZK_NONODE, HF_EREFUSED, "the folder went away again and again" },
    { ZK_NOAUTH, HF_EREFUSED, "the server says: no permission" },
    { ZK_AUTHFAILED, HF_EREFUSED, "the server says: authentication failed" },
    { ZK_INVALIDACL, HF_EREFUSED, "the server says: invalid access list" },
    { ZK_NOTREADONLY, HF_EUNREACHABLE, "the server can only be read for now" },
    { ZK_THROTTLED, HF_EUNREACHABLE, "the server is too busy" },
    { ZK_SESSIONEXPIRED, HF_EUNCERTAIN, "the session is over" },
    { ZK_SESSIONMOVED, HF_EUNCERTAIN, "the session has moved to another server" },
    { ZK_QUOTAEXCEEDED, HF_EFULL, "the server says: a quota is used up" },
    { ZK_UNIMPLEMENTED, HF_EUNSUPPORTED, "the server is too old (3.5 is needed)" },
    { ZK_NOCHILDRENFOREPHEMERALS, HF_EMISMATCH,
      "the name, or one above it, is an ephemeral node" },
};

int hf__zk_server_error(const struct zk_reply *reply, hf_error *ret_why)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].error == reply->error)
            return hf__fail(ret_why, errors[i].code, "%s", errors[i].sentence);
    return hf__fail(ret_why, HF_EREFUSED, "the server says: error %d",
                    (int)reply->error);
}

/* ---- Litter ---------------------------------------------------------------------- */

struct orphan_node {
    struct hf_link link;
    bool delete_sent;
    char path[];
};

static void orphan_reply(void *session, void *subject, uint64_t tag,
                         const struct zk_reply *reply, int64_t sent_ns,
                         const hf_error *why)
{
    (void)tag;
    (void)sent_ns;
    (void)why;
    struct zk_session *me = session;
    struct orphan_node *orphan = subject;
    orphan->delete_sent = false;
    if (reply && (reply->error == ZK_OK || reply->error == ZK_NONODE)) {
        hf__list_remove(&orphan->link);
        hf__free(orphan);
    } else if (hf__zk_is_up(me->zk)) {
        hf__zk_session_retry_soon(me);
    }
}

static void orphan_delete(struct zk_session *me, struct orphan_node *orphan)
{
    orphan->delete_sent = true;
    hf__zk_delete(me->zk, orphan->path, -1, orphan_reply, orphan, 0);
}

/* Out of memory: once, and hope; it ends with the session at the latest. */
void hf__zk_orphan_node_add(struct zk_session *me, const char *path, size_t len)
{
    struct orphan_node *orphan = hf__alloc(sizeof(*orphan) + len + 1);
    if (!orphan) {
        hf__zk_delete(me->zk, path, -1, NULL, NULL, 0);
        return;
    }
    memcpy(orphan->path, path, len);
    hf__list_push_back(&me->orphans, &orphan->link);
    orphan_delete(me, orphan);
}

void hf__zk_orphan_nodes_retry(struct zk_session *me)
{
    for (HF_EACH_SAFE(link, &me->orphans)) {
        struct orphan_node *orphan = HF_CONTAINER(link, struct orphan_node, link);
        if (!orphan->delete_sent)
            orphan_delete(me, orphan);
    }
}

void hf__zk_orphan_nodes_done(struct zk_session *me)
{
    for (struct hf_link *link; (link = hf__list_first(&me->orphans));) {
        struct orphan_node *orphan = HF_CONTAINER(link, struct orphan_node, link);
        if (orphan->delete_sent)
            hf__zk_forget(me->zk, orphan);
        hf__list_remove(link);
        hf__free(orphan);
    }
}

/* ---- Stalls ---------------------------------------------------------------------- */

static void retry_due(void *arg)
{
    struct zk_session *me = arg;
    if (!hf__zk_is_up(me->zk))
        return;
    hf__zk_orphan_nodes_retry(me);
    hf__zk_tickets_up(me, false);
}

void hf__zk_session_retry_soon(struct zk_session *me)
{
    if (me->retry_timer.slot || me->closing)
        return;
    me->retry_timer.callback = retry_due;
    me->retry_timer.arg = me;
    me->host->ops->set_timer(me->host, &me->retry_timer,
                             me->host->ops->now(me->host) + RETRY_NS);
}

/* ---- Jobs ------------------------------------------------------------------------ */

struct job *hf__zk_job_begin(struct zk_session *me, struct hf_request *request,
                             size_t size,
                             void (*done)(struct zk_session *, struct job *))
{
    hf_error why;
    struct job *job = hf__alloc(size);
    if (!job) {
        hf__fail_code(&why, HF_ENOMEM);
        me->host->ops->answered(me->host, request, HF_ENOMEM, &why);
        return NULL;
    }
    job->request = request;
    job->done = done;
    hf__list_push_back(&me->jobs, &job->link);
    return job;
}

static void job_free(struct zk_session *me, struct job *job)
{
    hf__zk_forget(me->zk, job);
    hf__list_remove(&job->link);
    if (job->done)
        job->done(me, job);
    hf__free(job);
}

void hf__zk_job_end(struct zk_session *me, struct job *job, int rc, const hf_error *why)
{
    struct hf_request *request = job->request;
    hf_error copy = why ? *why : (hf_error){ .code = 0 };
    job_free(me, job);
    me->host->ops->answered(me->host, request, rc, why ? &copy : NULL);
}

void hf__zk_jobs_forget(struct zk_session *me, const void *request)
{
    for (HF_EACH_SAFE(link, &me->jobs)) {
        struct job *job = HF_CONTAINER(link, struct job, link);
        if (job->request == request)
            job_free(me, job);
    }
}

void hf__zk_jobs_done(struct zk_session *me)
{
    for (struct hf_link *link; (link = hf__list_first(&me->jobs));)
        job_free(me, HF_CONTAINER(link, struct job, link));
}
