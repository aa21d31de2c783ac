/* SPDX-License-Identifier: MIT */
/*
 * Who holds and who waits; taking a lock away; asking for it. Three uses of a survey
 * (survey.h). Under the client's lock.
 *
 * A holder is known by its token: the czxid of its node, or what the node itself says
 * (after a downgrade it is younger than the grant). Eviction deletes its nodes.
 * Revocation writes Curator's word into the first of them, and whoever holds it is free
 * to listen.
 */
#include "survey.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <stdlib.h>
#include <string.h>

static void read_details(struct zk_session *me, const struct zk_reply *reply,
                         struct zk_details *ret)
{
    hf__zk_details_read(&me->self, reply->data.len ? reply->data.at : "",
                        reply->data.len, me->host->ops->now(me->host), ret);
}

static uint64_t token_of(const struct zk_reply *reply, const struct zk_details *details)
{
    return details->token ? details->token : (uint64_t)reply->stat.czxid;
}

/* A lock's name may end in "locks": then it lies where the queue of a semaphore would.
 * Our own nodes say what they are. */
static bool belongs(const struct sight *sight, const struct zk_details *details)
{
    bool counts = details->kind == HF_PERMITS || details->kind == HF_EXPIRING;
    bool counted = sight->kind == HF_PERMITS || sight->kind == HF_EXPIRING;
    return !details->kind || counts == counted;
}

/* ---- Inspect --------------------------------------------------------------------- */

/* All that a latch says is what is left of it. */
static uint32_t latch_left(const struct zk_reply *reply)
{
    char text[64] = "";
    if (reply->data.len >= sizeof(text))
        return 0;
    memcpy(text, reply->data.at, reply->data.len);
    const char *number = strrchr(text, '=');
    return number ? (uint32_t)strtoul(number + 1, NULL, 10) : 0;
}

static void tell_object(struct zk_session *me, struct survey *survey,
                        const struct sight *sight, const struct zk_reply *reply,
                        const char *name)
{
    hf_entry entry = {
        .size = sizeof(entry),
        .name = name,
        .host = "",
        .program = "",
        .note = "",
        .kind = sight->kind,
        .role = HF_OBJECT,
        .since_ms = -1,
        .left_ms = HF_FOREVER,
    };
    if (sight->kind == HF_CELL)
        entry.token = (uint64_t)reply->stat.mzxid;
    else
        entry.permits = latch_left(reply);
    me->host->ops->entry(me->host, survey->job.request, &entry);
}

static int32_t entry_kind(const struct sight *sight, const struct zk_details *details)
{
    bool mutex = sight->kind == HF_MUTEX && details->kind >= HF_MUTEX &&
                 details->kind <= HF_WRITE;
    return mutex && details->kind != HF_READ ? details->kind : sight->kind;
}

static void tell_person(struct zk_session *me, struct survey *survey,
                        const struct sight *sight, const struct zk_reply *reply,
                        const char *name)
{
    struct zk_details details;
    bool holds = sight->role == HF_HOLDER;
    read_details(me, reply, &details);
    if (!belongs(sight, &details))
        return;
    bool counted = sight->kind == HF_PERMITS || sight->kind == HF_EXPIRING;
    hf_entry entry = {
        .size = sizeof(entry),
        .name = name,
        .host = details.host,
        .program = details.program,
        .note = details.note,
        .kind = entry_kind(sight, &details),
        .role = sight->role,
        .token = holds ? token_of(reply, &details) : 0,
        .permits = holds && counted ? sight->permits : details.permits,
        .limit = counted && details.ours ? details.limit : sight->limit,
        .place = sight->place,
        .pid = details.pid,
        .since_ms = details.since_ms,
        .left_ms = holds ? details.left_ms : HF_FOREVER,
    };
    me->host->ops->entry(me->host, survey->job.request, &entry);
}

static void inspect_tell(struct zk_session *me, struct survey *survey,
                         const struct sight *sight, const struct zk_reply *reply)
{
    char name[HF_NAME_MAX + 1];
    if (!survey_name(sight, name))
        return;
    if (sight->role == HF_OBJECT)
        tell_object(me, survey, sight, reply, name);
    else
        tell_person(me, survey, sight, reply, name);
}

static void inspect_end(struct zk_session *me, struct survey *survey)
{
    hf__zk_job_end(me, &survey->job, 0, NULL);
}

void hf__zk_inspect(struct zk_session *me, struct hf_request *request)
{
    struct survey *survey =
        survey_begin(me, request, request->prefix, inspect_tell, inspect_end);
    if (survey)
        survey_go(me, survey);
}

/* ---- Evict ----------------------------------------------------------------------- */

enum { EVICT_ROUNDS = 10 }; /* of a hold that is another node each time */

static zk_done victims_listed;

static void evict_tell(struct zk_session *me, struct survey *survey,
                       const struct sight *sight, const struct zk_reply *reply)
{
    struct zk_details details;
    if (sight->role != HF_HOLDER || survey->victim)
        return;
    read_details(me, reply, &details);
    if (token_of(reply, &details) != survey->job.request->number ||
        !belongs(sight, &details))
        return;
    survey->victim = hf__copy_text(sight->path, strlen(sight->path));
    if (!survey->victim)
        survey->rc = hf__fail_code(&survey->why, HF_ENOMEM);
}

/* Of our own holds all nodes have one id: the folder is listed once more. Deletes that
 * find nothing mean that the nodes were released, or that the hold has another one now:
 * a writer that became a reader. The next listing tells. */
static void victims_list(struct zk_session *me, struct survey *survey)
{
    char folder[PATH_SIZE];
    size_t len = (size_t)(strrchr(survey->victim, '/') - survey->victim);
    memcpy(folder, survey->victim, len);
    folder[len] = '\0';
    hf__zk_children(me->zk, folder, false, victims_listed, survey, 0);
}

static void evict_fail(struct zk_session *me, struct survey *survey)
{
    hf_error why;
    int rc = hf__fail(&why, HF_ENOENT, "it has been released meanwhile");
    hf__zk_job_end(me, &survey->job, rc, &why);
}

static void evicted(struct zk_session *me, struct survey *survey)
{
    struct node node;
    const char *name = strrchr(survey->victim, '/') + 1;
    hf__zk_node_parse(&node, me->layout, name, strlen(name));
    if (survey->found)
        hf__zk_job_end(me, &survey->job, 0, NULL);
    else if (node.has_id && survey->rounds++ < EVICT_ROUNDS)
        victims_list(me, survey);
    else
        evict_fail(me, survey);
}

static void victim_deleted(void *session, void *subject, uint64_t word,
                           const struct zk_reply *reply, int64_t sent_ns,
                           const hf_error *gone)
{
    struct survey *survey = subject;
    survey->found += reply && reply->error == ZK_OK;
    survey_done(session, subject, word, reply, sent_ns, gone);
}

static bool is_victim(struct zk_session *me, const struct survey *survey,
                      const struct zk_text *name)
{
    const char *own = strrchr(survey->victim, '/') + 1;
    struct node victim, node;
    hf__zk_node_parse(&victim, me->layout, own, strlen(own));
    hf__zk_node_parse(&node, me->layout, name->at, name->len);
    return node.has_id && (size_t)(own - survey->victim) + name->len < PATH_SIZE &&
           memcmp(&node.id, &victim.id, sizeof(node.id)) == 0;
}

static void victims_listed(void *session, void *subject, uint64_t word,
                           const struct zk_reply *reply, int64_t sent_ns,
                           const hf_error *gone)
{
    (void)word;
    (void)sent_ns;
    struct zk_session *me = session;
    struct survey *survey = subject;
    char path[PATH_SIZE];
    size_t folder = (size_t)(strrchr(survey->victim, '/') - survey->victim) + 1;
    size_t count = 0;
    hf_error why;
    bool left = reply && reply->error == ZK_NONODE; /* the folder has gone with it */
    int rc = left ? 0 : zk_reply_error(reply, gone, &why);
    if (rc != 0) {
        hf__zk_job_end(me, &survey->job, rc, &why);
        return;
    }
    survey_expect(survey);
    for (size_t i = 0; i < reply->count; i++) {
        const struct zk_text *name = &reply->names[i];
        if (!is_victim(me, survey, name))
            continue;
        memcpy(path, survey->victim, folder);
        memcpy(path + folder, name->at, name->len);
        path[folder + name->len] = '\0';
        count++;
        survey_expect(survey);
        hf__zk_delete(me->zk, path, -1, victim_deleted, survey, 0);
    }
    survey->under_way--;
    if (count > 0)
        survey_go(me, survey);
    else
        evict_fail(me, survey);
}

/* The holder's node may have become another one between being listed and being read:
 * then the walk begins again. */
static void evict_end(struct zk_session *me, struct survey *survey)
{
    struct node node;
    hf_error why;
    if (!survey->victim && survey->vanished && survey->rounds++ < EVICT_ROUNDS) {
        survey_again(me, survey);
        return;
    }
    if (!survey->victim) {
        int rc = hf__fail(&why, HF_ENOENT, "nobody holds it with that token");
        hf__zk_job_end(me, &survey->job, rc, &why);
        return;
    }
    const char *name = strrchr(survey->victim, '/') + 1;
    survey->end = evicted;
    survey->rounds = 0;
    hf__zk_node_parse(&node, me->layout, name, strlen(name));
    if (node.has_id) {
        victims_list(me, survey);
        return;
    }
    survey_expect(survey); /* another library's */
    hf__zk_delete(me->zk, survey->victim, -1, victim_deleted, survey, 0);
}

void hf__zk_evict(struct zk_session *me, struct hf_request *request)
{
    struct survey *survey = survey_begin(me, request, false, evict_tell, evict_end);
    if (survey)
        survey_go(me, survey);
}

/* ---- Revoke ---------------------------------------------------------------------- */

static void revoke_tell(struct zk_session *me, struct survey *survey,
                        const struct sight *sight, const struct zk_reply *reply)
{
    static const char word[] = "__REVOKE__";
    const struct hf_request *request = survey->job.request;
    struct zk_details details;
    if (sight->role != HF_HOLDER)
        return;
    read_details(me, reply, &details);
    if (!belongs(sight, &details) ||
        (request->number && token_of(reply, &details) != request->number))
        return;
    survey->found++;
    survey_expect(survey);
    hf__zk_set(me->zk, sight->path, word, sizeof(word) - 1, -1, survey_done, survey, 0);
}

static void revoke_end(struct zk_session *me, struct survey *survey)
{
    hf_error why;
    if (survey->found)
        hf__zk_job_end(me, &survey->job, 0, NULL);
    else
        hf__zk_job_end(me, &survey->job, hf__fail(&why, HF_ENOENT, "nobody holds it"),
                       &why);
}

void hf__zk_revoke(struct zk_session *me, struct hf_request *request)
{
    struct survey *survey = survey_begin(me, request, false, revoke_tell, revoke_end);
    if (survey)
        survey_go(me, survey);
}
