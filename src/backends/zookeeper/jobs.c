/* SPDX-License-Identifier: MIT */
/*
 * Jobs: requests of core that take more than one request to the server. Under the
 * client's lock.
 */
#include "session.h"

#include "../../base/error.h"
#include "../../base/mem.h"

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
    for (struct hf_list_node *link; (link = hf__list_first(&me->jobs));)
        job_free(me, HF_CONTAINER(link, struct job, link));
}
