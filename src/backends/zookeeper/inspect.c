/* SPDX-License-Identifier: MIT */
/*
 * Inspect, evict and revoke: three uses of a walk (walk.h). Under the client's lock.
 *
 * A holder is identified by its token: the czxid of its node, or the token that the
 * node's data states (after a downgrade the node is younger than the grant). Eviction
 * deletes its nodes. Revocation writes Curator's word into the first of them, which the
 * holder may obey or ignore.
 */
#include "walk.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <stdlib.h>
#include <string.h>

static void read_details(struct zk_session *me, const struct zk_reply *reply,
                         struct zk_details *ret)
{
    hf__zk_details_read(&me->identity, reply->data.len ? reply->data.at : "",
                        reply->data.len, me->host->ops->now(me->host), ret);
}

static uint64_t token_of(const struct zk_reply *reply, const struct zk_details *details)
{
    return details->token ? details->token : (uint64_t)reply->stat.czxid;
}

/* A lock's name may end in "locks": then its folder is where the queue of a semaphore
 * would be. The data of our own nodes states the kind. */
static bool belongs(const struct step *step, const struct zk_details *details)
{
    bool counts = details->kind == HF_PERMITS || details->kind == HF_EXPIRING;
    bool counted = step->kind == HF_PERMITS || step->kind == HF_EXPIRING;
    return !details->kind || counts == counted;
}

/* ---- Inspect --------------------------------------------------------------------- */

/* A latch states what is left to count. */
static uint32_t latch_left(const struct zk_reply *reply)
{
    char text[64] = "";
    if (reply->data.len >= sizeof(text))
        return 0;
    memcpy(text, reply->data.at, reply->data.len);
    const char *number = strrchr(text, '=');
    return number ? (uint32_t)strtoul(number + 1, NULL, 10) : 0;
}

static void report_object(struct zk_session *me, struct walk *walk,
                          const struct step *step, const struct zk_reply *reply,
                          const char *name)
{
    hf_entry entry = {
        .size = sizeof(entry),
        .name = name,
        .host = "",
        .program = "",
        .note = "",
        .kind = step->kind,
        .role = HF_OBJECT,
        .since_ms = -1,
        .left_ms = HF_FOREVER,
    };
    if (step->kind == HF_CELL)
        entry.token = (uint64_t)reply->stat.mzxid;
    else
        entry.permits = latch_left(reply);
    me->host->ops->entry(me->host, walk->job.request, &entry);
}

static int32_t entry_kind(const struct step *step, const struct zk_details *details)
{
    bool mutex = step->kind == HF_MUTEX && details->kind >= HF_MUTEX &&
                 details->kind <= HF_WRITE;
    return mutex && details->kind != HF_READ ? details->kind : step->kind;
}

static void report_ticket(struct zk_session *me, struct walk *walk,
                          const struct step *step, const struct zk_reply *reply,
                          const char *name)
{
    struct zk_details details;
    bool holds = step->role == HF_HOLDER;
    read_details(me, reply, &details);
    if (!belongs(step, &details))
        return;
    bool counted = step->kind == HF_PERMITS || step->kind == HF_EXPIRING;
    hf_entry entry = {
        .size = sizeof(entry),
        .name = name,
        .host = details.host,
        .program = details.program,
        .note = details.note,
        .kind = entry_kind(step, &details),
        .role = step->role,
        .token = holds ? token_of(reply, &details) : 0,
        .permits = holds && counted ? step->permits : details.permits,
        .limit = counted && details.ours ? details.limit : step->limit,
        .place = step->place,
        .pid = details.pid,
        .since_ms = details.since_ms,
        .left_ms = holds ? details.left_ms : HF_FOREVER,
    };
    me->host->ops->entry(me->host, walk->job.request, &entry);
}

static void inspect_node(struct zk_session *me, struct walk *walk,
                         const struct step *step, const struct zk_reply *reply)
{
    char name[HF_NAME_MAX + 1];
    if (!hf__zk_walk_name(step, name))
        return;
    if (step->role == HF_OBJECT)
        report_object(me, walk, step, reply, name);
    else
        report_ticket(me, walk, step, reply, name);
}

static void inspect_end(struct zk_session *me, struct walk *walk)
{
    hf__zk_job_end(me, &walk->job, 0, NULL);
}

void hf__zk_inspect(struct zk_session *me, struct hf_request *request)
{
    struct walk *walk =
        hf__zk_walk_begin(me, request, request->prefix, inspect_node, inspect_end);
    if (walk)
        hf__zk_walk_continue(me, walk);
}

/* ---- Evict ----------------------------------------------------------------------- */

enum { EVICT_ROUNDS = 10 }; /* of a hold whose node changes each time */

static zk_done victims_listed;

static void evict_node(struct zk_session *me, struct walk *walk,
                       const struct step *step, const struct zk_reply *reply)
{
    struct zk_details details;
    if (step->role != HF_HOLDER || walk->victim)
        return;
    read_details(me, reply, &details);
    if (token_of(reply, &details) != walk->job.request->number ||
        !belongs(step, &details))
        return;
    walk->victim = hf__copy_text(step->path, strlen(step->path));
    if (!walk->victim)
        walk->rc = hf__fail_code(&walk->why, HF_ENOMEM);
}

/* All nodes of a hold of holdfast have one id: the folder is listed once more. Deletes
 * that find nothing mean that the nodes were released, or that the hold has another
 * node now: a writer that became a reader. The next listing shows which. */
static void victims_list(struct zk_session *me, struct walk *walk)
{
    char folder[PATH_SIZE];
    size_t len = (size_t)(strrchr(walk->victim, '/') - walk->victim);
    memcpy(folder, walk->victim, len);
    folder[len] = '\0';
    hf_error why;
    int rc = hf__zk_children(me->zk, folder, false, victims_listed, walk, 0);
    if (rc == 0)
        return;
    hf__zk_unsent_why(me->zk, rc, &why);
    hf__zk_job_end(me, &walk->job, rc, &why);
}

static void evict_fail(struct zk_session *me, struct walk *walk)
{
    hf_error why;
    int rc = hf__fail(&why, HF_ENOENT, "it has been released meanwhile");
    hf__zk_job_end(me, &walk->job, rc, &why);
}

static void evicted(struct zk_session *me, struct walk *walk)
{
    struct node node;
    const char *name = strrchr(walk->victim, '/') + 1;
    hf__zk_node_parse(&node, me->layout, name, strlen(name));
    if (walk->found)
        hf__zk_job_end(me, &walk->job, 0, NULL);
    else if (node.has_id && walk->rounds++ < EVICT_ROUNDS)
        victims_list(me, walk);
    else
        evict_fail(me, walk);
}

static void victim_deleted(const struct zk_answer *answer)
{
    struct walk *walk = answer->subject;
    const struct zk_reply *reply = answer->reply;
    walk->found += reply && reply->error == ZK_OK;
    hf__zk_walk_reply(answer);
}

static bool is_victim(struct zk_session *me, const struct walk *walk,
                      const struct zk_text *name)
{
    const char *own = strrchr(walk->victim, '/') + 1;
    struct node victim, node;
    hf__zk_node_parse(&victim, me->layout, own, strlen(own));
    hf__zk_node_parse(&node, me->layout, name->at, name->len);
    return node.has_id && (size_t)(own - walk->victim) + name->len < PATH_SIZE &&
           memcmp(&node.id, &victim.id, sizeof(node.id)) == 0;
}

static void victims_listed(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct walk *walk = answer->subject;
    const struct zk_reply *reply = answer->reply;
    char path[PATH_SIZE];
    size_t folder = (size_t)(strrchr(walk->victim, '/') - walk->victim) + 1;
    size_t count = 0;
    hf_error why;
    bool left = reply && reply->error ==
                             ZK_NONODE; /* the folder is gone, and the node with it */
    int rc = left ? 0 : zk_answer_error(answer, &why);
    if (rc != 0) {
        hf__zk_job_end(me, &walk->job, rc, &why);
        return;
    }
    for (size_t i = 0; i < reply->count; i++) {
        const struct zk_text *name = &reply->names[i];
        if (!is_victim(me, walk, name))
            continue;
        memcpy(path, walk->victim, folder);
        memcpy(path + folder, name->at, name->len);
        path[folder + name->len] = '\0';
        count++;
        hf__zk_walk_expect(me, walk,
                           hf__zk_delete(me->zk, path, -1, victim_deleted, walk, 0));
    }
    if (count > 0)
        hf__zk_walk_continue(me, walk);
    else
        evict_fail(me, walk);
}

/* A downgrade may have replaced the holder's node between being listed and being read:
 * then the walk begins again. */
static void evict_end(struct zk_session *me, struct walk *walk)
{
    struct node node;
    hf_error why;
    if (!walk->victim && walk->vanished && walk->rounds++ < EVICT_ROUNDS) {
        hf__zk_walk_restart(me, walk);
        return;
    }
    if (!walk->victim) {
        int rc = hf__fail(&why, HF_ENOENT, "no holder has that token");
        hf__zk_job_end(me, &walk->job, rc, &why);
        return;
    }
    const char *name = strrchr(walk->victim, '/') + 1;
    walk->ended = evicted;
    walk->rounds = 0;
    hf__zk_node_parse(&node, me->layout, name, strlen(name));
    if (node.has_id) {
        victims_list(me, walk);
        return;
    }
    /* of another library */
    hf__zk_walk_expect(
        me, walk, hf__zk_delete(me->zk, walk->victim, -1, victim_deleted, walk, 0));
    hf__zk_walk_continue(me, walk);
}

void hf__zk_evict(struct zk_session *me, struct hf_request *request)
{
    struct walk *walk = hf__zk_walk_begin(me, request, false, evict_node, evict_end);
    if (walk)
        hf__zk_walk_continue(me, walk);
}

/* ---- Revoke ---------------------------------------------------------------------- */

static void revoke_node(struct zk_session *me, struct walk *walk,
                        const struct step *step, const struct zk_reply *reply)
{
    static const char revocation[] = "__REVOKE__";
    const struct hf_request *request = walk->job.request;
    struct zk_details details;
    if (step->role != HF_HOLDER)
        return;
    read_details(me, reply, &details);
    if (!belongs(step, &details) ||
        (request->number && token_of(reply, &details) != request->number))
        return;
    walk->found++;
    hf__zk_walk_expect(me, walk,
                       hf__zk_set(me->zk, step->path, revocation,
                                  sizeof(revocation) - 1, -1, hf__zk_walk_reply, walk,
                                  0));
}

static void revoke_end(struct zk_session *me, struct walk *walk)
{
    hf_error why;
    if (walk->found)
        hf__zk_job_end(me, &walk->job, 0, NULL);
    else
        hf__zk_job_end(me, &walk->job,
                       hf__fail(&why, HF_ENOENT, "the lock has no holder"), &why);
}

void hf__zk_revoke(struct zk_session *me, struct hf_request *request)
{
    struct walk *walk = hf__zk_walk_begin(me, request, false, revoke_node, revoke_end);
    if (walk)
        hf__zk_walk_continue(me, walk);
}
