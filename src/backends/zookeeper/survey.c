/* SPDX-License-Identifier: MIT */
/*
 * Walking over names: see survey.h. Under the client's lock.
 *
 * What lies in a folder tells what the name is used as (kinds.h). By prefix the walk
 * goes down into whatever is not a node of a lock: those are folders of longer names.
 * It begins behind a sync, because who looks may be connected to a server that lags.
 * What has gone between being listed and being read is left out.
 */
#include "survey.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIPELINE = 64 };

static zk_done sight_reply;

/* ---- Sights ---------------------------------------------------------------------- */

/* path[0 .. len) and `more` behind it. */
static struct sight *sight_add(struct survey *survey, const struct sight *from,
                               enum sight_what what, const char *path, size_t len,
                               const char *more, size_t more_len)
{
    struct sight *sight = hf__alloc(sizeof(*sight) + len + more_len + 1);
    if (!sight) {
        survey->rc = hf__fail_code(&survey->why, HF_ENOMEM);
        return NULL;
    }
    if (from) {
        sight->kind = from->kind;
        sight->limit = from->limit;
        sight->folder_len = from->folder_len;
    }
    sight->survey = survey;
    sight->what = what;
    memcpy(sight->path, path, len);
    memcpy(sight->path + len, more, more_len);
    hf__list_push_back(&survey->todo, &sight->link);
    return sight;
}

static void sight_free(struct sight *sight)
{
    hf__list_remove(&sight->link);
    hf__free(sight);
}

/* A child of the folder that `from` lists. */
static struct sight *child_add(struct sight *from, enum sight_what what,
                               const struct zk_text *name)
{
    char path[PATH_SIZE];
    size_t len = strlen(from->path);
    if (len + 1 + name->len >= sizeof(path))
        return NULL;
    memcpy(path, from->path, len);
    if (len > 1)
        path[len++] = '/';
    return sight_add(from->survey, from, what, path, len, name->at, name->len);
}

bool survey_name(const struct sight *sight, char name[HF_NAME_MAX + 1])
{
    size_t len;
    return hf__zk_folder_read(sight->path, sight->folder_len, name, &len);
}

/* ---- The walk -------------------------------------------------------------------- */

/* Each reply is a step, also one with nothing to tell: most folders are no locks. */
static void survey_heard(struct zk_session *me, struct survey *survey,
                         const struct zk_reply *reply)
{
    if (reply)
        me->host->ops->progress(me->host, survey->job.request);
}

/* Nobody waits for it, and it tells nothing but that the server is there. */
static void synced(void *session, void *subject, uint64_t word,
                   const struct zk_reply *reply, int64_t sent_ns, const hf_error *gone)
{
    (void)word;
    (void)sent_ns;
    (void)gone;
    survey_heard(session, subject, reply);
}

static void survey_free(struct zk_session *me, struct job *job)
{
    struct survey *survey = HF_CONTAINER(job, struct survey, job);
    struct hf_link *link;
    while ((link = hf__list_first(&survey->todo)))
        sight_free(HF_CONTAINER(link, struct sight, link));
    while ((link = hf__list_first(&survey->asked))) {
        struct sight *sight = HF_CONTAINER(link, struct sight, link);
        hf__zk_forget(me->zk, sight);
        sight_free(sight);
    }
    hf__free(survey->victim);
}

static void sight_ask(struct zk_session *me, struct sight *sight)
{
    bool list = sight->what == SIGHT_FOLDER || sight->what == SIGHT_LEASES ||
                sight->what == SIGHT_QUEUE;
    hf__list_remove(&sight->link);
    hf__list_push_back(&sight->survey->asked, &sight->link);
    sight->survey->under_way++;
    if (list)
        hf__zk_children(me->zk, sight->path, false, sight_reply, sight, 0);
    else if (sight->unreadable)
        hf__zk_exists(me->zk, sight->path, false, sight_reply, sight, 0);
    else
        hf__zk_get(me->zk, sight->path, false, sight_reply, sight, 0);
}

/* Keeps some questions under way until none is left. They may be answered inside the
 * call: `under_way` keeps the survey alive meanwhile. */
void survey_go(struct zk_session *me, struct survey *survey)
{
    struct hf_link *link;
    hf_error why;
    survey->under_way++;
    hf__zk_gather(me->zk);
    while (survey->rc == 0 && survey->under_way <= PIPELINE &&
           (link = hf__list_first(&survey->todo)))
        sight_ask(me, HF_CONTAINER(link, struct sight, link));
    hf__zk_flush(me->zk);
    if (--survey->under_way > 0)
        return;
    why = survey->why;
    if (survey->rc != 0)
        hf__zk_job_end(me, &survey->job, survey->rc, &why);
    else
        survey->end(me, survey);
}

void survey_expect(struct survey *survey)
{
    survey->under_way++;
}

static void survey_judge(struct survey *survey, const struct zk_reply *reply,
                         const hf_error *gone)
{
    hf_error why;
    int rc = reply && reply->error == ZK_NONODE ? 0 : zk_reply_error(reply, gone, &why);
    if (rc == 0 || survey->rc != 0)
        return;
    survey->rc = rc;
    survey->why = why;
}

void survey_done(void *session, void *subject, uint64_t word,
                 const struct zk_reply *reply, int64_t sent_ns, const hf_error *gone)
{
    (void)word;
    (void)sent_ns;
    struct survey *survey = subject;
    survey_heard(session, survey, reply);
    survey_judge(survey, reply, gone);
    survey->under_way--;
    survey_go(session, survey);
}

/* ---- Queues ---------------------------------------------------------------------- */

struct standing {
    struct node node;
    const struct zk_text *name;
};

/* Without numbers (kazoo's leases) by name: what has one id stands together. */
static int compare_standing(const void *left, const void *right)
{
    const struct standing *a = left, *b = right;
    if (a->node.number && b->node.number)
        return hf__zk_node_compare(&a->node, &b->node);
    size_t len = a->name->len < b->name->len ? a->name->len : b->name->len;
    int order = memcmp(a->name->at, b->name->at, len);
    return order ? order
                 : (a->name->len > b->name->len) - (a->name->len < b->name->len);
}

static bool is_lock(const struct node *node)
{
    return node->form == NODE_LOCK || node->form == NODE_READ ||
           node->form == NODE_WRITE;
}

/* The nodes of a form that `wanted` likes, sorted. NULL: none, or no memory. */
static struct standing *line_up(struct sight *from, const struct zk_reply *reply,
                                enum layout layout, bool leases, size_t *ret_count)
{
    struct standing *line =
        reply->count ? hf__alloc(reply->count * sizeof(*line)) : NULL;
    *ret_count = 0;
    if (!line && reply->count)
        from->survey->rc = hf__fail_code(&from->survey->why, HF_ENOMEM);
    for (size_t i = 0; line && i < reply->count; i++) {
        struct standing *at = &line[*ret_count];
        at->name = &reply->names[i];
        hf__zk_node_parse(&at->node, layout, at->name->at, at->name->len);
        if (leases ? !is_lock(&at->node) && hf__zk_lease_weight(layout, at->name)
                   : is_lock(&at->node))
            ++*ret_count;
    }
    if (*ret_count > 1)
        qsort(line, *ret_count, sizeof(*line), compare_standing);
    return line;
}

static int32_t lock_kind(const struct node *node)
{
    if (node->form == NODE_READ)
        return HF_READ;
    return node->form == NODE_WRITE ? HF_WRITE : HF_MUTEX;
}

/* Locks: the first one is in, and so are readers before whom nobody writes. In the
 * queue of a semaphore all wait. */
static void see_queue(struct sight *from, const struct zk_reply *reply,
                      enum layout layout)
{
    size_t count;
    uint32_t waiting = 0;
    bool lock = from->what == SIGHT_FOLDER, writer = false;
    struct standing *line = line_up(from, reply, layout, false, &count);
    for (size_t i = 0; i < count; i++) {
        const struct node *node = &line[i].node;
        bool in = lock && (node->form == NODE_READ ? !writer : i == 0);
        struct sight *sight = child_add(from, SIGHT_NODE, line[i].name);
        writer |= node->form != NODE_READ;
        if (!sight)
            continue;
        if (lock)
            sight->kind = lock_kind(node);
        sight->role = in ? HF_HOLDER : HF_WAITER;
        sight->permits = 1;
        sight->limit = lock ? 1 : from->limit;
        sight->place = in ? 0 : waiting++;
    }
    hf__free(line);
}

static bool same_hold(const struct standing *a, const struct standing *b)
{
    return a->node.has_id && b->node.has_id &&
           memcmp(&a->node.id, &b->node.id, sizeof(a->node.id)) == 0;
}

/* Leases of one hold have one id, and were made in one step: they stand together. */
static void see_leases(struct sight *from, const struct zk_reply *reply,
                       enum layout layout)
{
    size_t count;
    struct standing *line = line_up(from, reply, layout, true, &count);
    struct sight *sight = NULL;
    for (size_t i = 0; i < count; i++) {
        uint32_t weight = hf__zk_lease_weight(layout, line[i].name);
        if (sight && i > 0 && same_hold(&line[i - 1], &line[i])) {
            sight->permits = weight < UINT32_MAX - sight->permits
                                 ? sight->permits + weight
                                 : UINT32_MAX;
            continue;
        }
        sight = child_add(from, SIGHT_NODE, line[i].name);
        if (!sight)
            continue;
        sight->role = HF_HOLDER;
        sight->permits = weight;
    }
    hf__free(line);
}

/* ---- Folders --------------------------------------------------------------------- */

static bool is(const struct zk_text *name, const char *node)
{
    size_t len = strlen(++node);
    return name->len == len && memcmp(name->at, node, len) == 0;
}

static bool begins(const struct zk_text *name, const char *node)
{
    size_t len = strlen(++node);
    return name->len > len && memcmp(name->at, node, len) == 0;
}

static void object_add(struct sight *from, const struct zk_text *name, int32_t kind,
                       int32_t role, uint32_t place)
{
    struct sight *sight = child_add(from, SIGHT_NODE, name);
    if (!sight)
        return;
    sight->kind = kind;
    sight->role = role;
    sight->place = place;
}

static void see_objects(struct sight *from, const struct zk_reply *reply)
{
    uint32_t waiting = 0;
    for (size_t i = 0; i < reply->count; i++) {
        const struct zk_text *name = &reply->names[i];
        if (is(name, NODE_LATCH))
            object_add(from, name, HF_LATCH, HF_OBJECT, 0);
        else if (is(name, NODE_CELL))
            object_add(from, name, HF_CELL, HF_OBJECT, 0);
    }
    for (size_t i = 0; i < reply->count; i++)
        if (begins(&reply->names[i], NODE_WAIT))
            object_add(from, &reply->names[i], HF_LATCH, HF_WAITER, waiting++);
}

static void base_add(struct sight *from, int32_t kind, const char *under)
{
    struct sight *sight = sight_add(from->survey, from, SIGHT_BASE, from->path,
                                    strlen(from->path), under, strlen(under));
    if (sight)
        sight->kind = kind;
}

static void see_semaphores(struct zk_session *me, struct sight *from,
                           const struct zk_reply *reply)
{
    bool permits = false, expiring = false;
    for (size_t i = 0; i < reply->count; i++) {
        const struct zk_text *name = &reply->names[i];
        struct node node;
        hf__zk_node_parse(&node, me->layout, name->at, name->len);
        if (me->layout == LAYOUT_KAZOO)
            permits |= node.has_id && node.form == NODE_OTHER;
        else
            permits |= is(name, FOLDER_LEASES);
        expiring |= is(name, FOLDER_EXPIRING);
    }
    if (permits)
        base_add(from, HF_PERMITS, "");
    if (expiring)
        base_add(from, HF_EXPIRING, FOLDER_EXPIRING);
}

/* Whether names below this path can be of interest; *ret_way if the path itself is not
 * a name that is. */
static bool leads_on(const struct survey *survey, const struct sight *sight,
                     bool *ret_way)
{
    const struct hf_request *request = survey->job.request;
    char name[HF_NAME_MAX + 1];
    size_t len;
    if (!hf__zk_folder_read(sight->path, strlen(sight->path), name, &len))
        return false;
    *ret_way = len < request->name_len;
    return !request->name_len ||
           memcmp(name, request->name, *ret_way ? len : request->name_len) == 0;
}

static bool has(const struct zk_reply *reply, const char *node)
{
    size_t i = 0;
    while (i < reply->count && !is(&reply->names[i], node))
        i++;
    return i < reply->count;
}

static void see_longer_names(struct zk_session *me, struct sight *from,
                             const struct zk_reply *reply)
{
    struct survey *survey = from->survey;
    bool semaphore = has(reply, FOLDER_LEASES);
    for (size_t i = 0; i < reply->count; i++) {
        const struct zk_text *name = &reply->names[i];
        struct node node;
        hf__zk_node_parse(&node, me->layout, name->at, name->len);
        if (node.form != NODE_OTHER || begins(name, "/hf%") ||
            (semaphore && is(name, FOLDER_LOCKS)) ||
            (strcmp(from->path, "/") == 0 && is(name, "/zookeeper")))
            continue;
        struct sight *sight = child_add(from, SIGHT_FOLDER, name);
        if (!sight)
            continue;
        sight->folder_len = strlen(sight->path);
        if (!leads_on(survey, sight, &sight->way))
            sight_free(sight);
    }
}

static void see_folder(struct zk_session *me, struct sight *sight,
                       const struct zk_reply *reply)
{
    struct survey *survey = sight->survey;
    if (!sight->way && reply->stat.ephemeral_owner && me->layout == LAYOUT_SINGLE) {
        struct sight *node = sight_add(survey, sight, SIGHT_NODE, sight->path,
                                       strlen(sight->path), "", 0);
        if (node) {
            node->kind = HF_MUTEX;
            node->role = HF_HOLDER;
            node->permits = node->limit = 1;
        }
    }
    if (!sight->way) {
        see_queue(sight, reply, me->layout);
        see_objects(sight, reply);
        see_semaphores(me, sight, reply);
    }
    if (survey->prefix)
        see_longer_names(me, sight, reply);
    if (survey->list && !sight->way)
        survey->list(me, survey, sight, reply);
}

/* ---- Answers --------------------------------------------------------------------- */

static void see_base(struct zk_session *me, struct sight *sight,
                     const struct zk_reply *reply)
{
    bool kazoo = me->layout == LAYOUT_KAZOO;
    const char *leases = kazoo ? "" : FOLDER_LEASES;
    const char *locks = kazoo ? "-__lock__" : FOLDER_LOCKS;
    size_t len = strlen(sight->path);
    hf__zk_limit_read(me->layout, sight->kind, &reply->data, &sight->limit);
    sight_add(sight->survey, sight, SIGHT_LEASES, sight->path, len, leases,
              strlen(leases));
    sight_add(sight->survey, sight, SIGHT_QUEUE, sight->path, len, locks,
              strlen(locks));
}

static void sight_seen(struct zk_session *me, struct sight *sight,
                       const struct zk_reply *reply)
{
    struct survey *survey = sight->survey;
    switch (sight->what) {
    case SIGHT_FOLDER:
        see_folder(me, sight, reply);
        break;
    case SIGHT_BASE:
        see_base(me, sight, reply);
        break;
    case SIGHT_LEASES:
        see_leases(sight, reply, me->layout);
        break;
    case SIGHT_QUEUE:
        see_queue(sight, reply, me->layout);
        break;
    case SIGHT_NODE:
        survey->tell(me, survey, sight, reply);
        break;
    }
}

static void sight_reply(void *session, void *subject, uint64_t word,
                        const struct zk_reply *reply, int64_t sent_ns,
                        const hf_error *gone)
{
    (void)word;
    (void)sent_ns;
    struct zk_session *me = session;
    struct sight *sight = subject;
    struct survey *survey = sight->survey;
    bool closed = reply && reply->error == ZK_NOAUTH;
    survey_heard(me, survey, reply);
    if (closed && sight->what == SIGHT_NODE && !sight->unreadable) {
        sight->unreadable = true;
        hf__list_remove(&sight->link);
        hf__list_push_front(&survey->todo, &sight->link);
    } else {
        if (reply && reply->error == ZK_OK)
            sight_seen(me, sight, reply);
        else if (!closed || !survey->prefix)
            survey_judge(survey, reply, gone);
        survey->vanished |=
            reply && reply->error == ZK_NONODE && sight->what == SIGHT_NODE;
        sight_free(sight);
    }
    survey->under_way--;
    survey_go(me, survey);
}

/* ---- Beginning ------------------------------------------------------------------- */

/* The deepest folder that all names with this prefix share: up to its last slash, where
 * that is plain (names with odd slashes have encoded paths: from the top). A slash at
 * its end may be the end of a name, whose path is no folder below: one further up. */
static size_t common_folder(const struct hf_request *request, char path[FOLDER_SIZE],
                            bool flat)
{
    size_t len = request->name_len;
    len -= len > 0 && request->name[len - 1] == '/';
    while (len > 0 && request->name[len - 1] != '/')
        len--;
    len -= len > 0;
    bool plain = len > 0 && request->name[0] != '/' && request->name[len - 1] != '/';
    for (size_t i = 1; plain && i < len; i++)
        plain = request->name[i] != '/' || request->name[i - 1] != '/';
    if (plain && !flat)
        return hf__zk_folder_write(path, request->name, len);
    snprintf(path, FOLDER_SIZE, "/");
    return 1;
}

/* The first sight, behind a sync. */
static void survey_start(struct zk_session *me, struct survey *survey)
{
    const struct hf_request *request = survey->job.request;
    char path[FOLDER_SIZE];
    size_t len;
    if (survey->prefix)
        len = common_folder(request, path, me->layout == LAYOUT_SINGLE);
    else if (me->layout == LAYOUT_SINGLE)
        len = hf__zk_flat_path_write(path, request->name, request->name_len);
    else
        len = hf__zk_folder_write(path, request->name, request->name_len);
    struct sight *sight = sight_add(survey, NULL, SIGHT_FOLDER, path, len, "", 0);
    if (sight) {
        sight->folder_len = len;
        sight->way = survey->prefix;
    }
    hf__zk_sync(me->zk, path, synced, survey, 0);
}

void survey_again(struct zk_session *me, struct survey *survey)
{
    survey->vanished = false;
    survey->under_way++; /* the sync may be answered inside its call */
    survey_start(me, survey);
    survey->under_way--;
    survey_go(me, survey);
}

struct survey *survey_begin(struct zk_session *me, struct hf_request *request,
                            bool prefix, survey_tell *tell, survey_end *end)
{
    struct job *job = hf__zk_job_begin(me, request, sizeof(struct survey), survey_free);
    if (!job)
        return NULL;
    struct survey *survey = HF_CONTAINER(job, struct survey, job);
    survey->prefix = prefix;
    survey->tell = tell;
    survey->end = end;
    hf__list_init(&survey->todo);
    hf__list_init(&survey->asked);
    survey_start(me, survey);
    return survey;
}
