/* SPDX-License-Identifier: MIT */
/*
 * The walk over names: see walk.h. Under the client's lock.
 *
 * The children of a folder tell which kind its name serves (kinds.h). By prefix the
 * walk goes down into every child that is not a node of a lock: those are folders of
 * longer names. It begins behind a sync, because the server of this client may lag. A
 * node that is deleted between being listed and being read is left out.
 */
#include "walk.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIPELINE = 64 };

static zk_done step_reply;

/* ---- Steps ----------------------------------------------------------------------- */

/* Of path[0 .. len) with `more` behind it. */
static struct step *step_add(struct walk *walk, const struct step *from,
                             enum step_what what, const char *path, size_t len,
                             const char *more, size_t more_len)
{
    struct step *step = hf__alloc(sizeof(*step) + len + more_len + 1);
    if (!step) {
        walk->rc = hf__fail_code(&walk->why, HF_ENOMEM);
        return NULL;
    }
    if (from) {
        step->kind = from->kind;
        step->limit = from->limit;
        step->folder_len = from->folder_len;
    }
    step->walk = walk;
    step->what = what;
    memcpy(step->path, path, len);
    memcpy(step->path + len, more, more_len);
    hf__list_push_back(&walk->todo, &step->link);
    return step;
}

static void step_free(struct step *step)
{
    hf__list_remove(&step->link);
    hf__free(step);
}

/* A child of the folder that `from` lists. */
static struct step *child_add(struct step *from, enum step_what what,
                              const struct zk_text *name)
{
    char path[PATH_SIZE];
    size_t len = strlen(from->path);
    if (len + 1 + name->len >= sizeof(path))
        return NULL;
    memcpy(path, from->path, len);
    if (len > 1)
        path[len++] = '/';
    return step_add(from->walk, from, what, path, len, name->at, name->len);
}

bool hf__zk_walk_name(const struct step *step, char name[HF_NAME_MAX + 1])
{
    size_t len;
    return hf__zk_folder_read(step->path, step->folder_len, name, &len);
}

/* ---- The walk -------------------------------------------------------------------- */

/* Each reply counts as progress, even without an entry: most folders are no locks. */
static void walk_progress(struct zk_session *me, struct walk *walk,
                          const struct zk_reply *reply)
{
    if (reply)
        me->host->ops->progress(me->host, walk->job.request);
}

/* The walk does not wait for it: it only shows that the server answers. */
static void synced(const struct zk_answer *answer)
{
    walk_progress(answer->session, answer->subject, answer->reply);
}

static void walk_free(struct zk_session *me, struct job *job)
{
    struct walk *walk = HF_CONTAINER(job, struct walk, job);
    struct hf_list_node *link;
    while ((link = hf__list_first(&walk->todo)))
        step_free(HF_CONTAINER(link, struct step, link));
    while ((link = hf__list_first(&walk->asked))) {
        struct step *step = HF_CONTAINER(link, struct step, link);
        hf__zk_forget(me->zk, step);
        step_free(step);
    }
    hf__free(walk->victim);
}

static int step_ask(struct zk_session *me, struct step *step)
{
    bool list = step->what == STEP_FOLDER || step->what == STEP_LEASES ||
                step->what == STEP_QUEUE;
    if (list)
        return hf__zk_children(me->zk, step->path, false, step_reply, step, 0);
    if (step->unreadable)
        return hf__zk_exists(me->zk, step->path, false, step_reply, step, 0);
    return hf__zk_get(me->zk, step->path, false, step_reply, step, 0);
}

/* The walk ends if the request cannot be sent: the step stays where it is. */
static void step_send(struct zk_session *me, struct step *step)
{
    struct walk *walk = step->walk;
    int rc = step_ask(me, step);
    hf__zk_walk_expect(me, walk, rc);
    if (rc == 0) {
        hf__list_remove(&step->link);
        hf__list_push_back(&walk->asked, &step->link);
    }
}

/* Keeps up to PIPELINE steps under way until none is left. */
void hf__zk_walk_continue(struct zk_session *me, struct walk *walk)
{
    struct hf_list_node *link;
    hf_error why;
    hf__zk_gather(me->zk);
    while (walk->rc == 0 && walk->under_way < PIPELINE &&
           (link = hf__list_first(&walk->todo)))
        step_send(me, HF_CONTAINER(link, struct step, link));
    hf__zk_flush(me->zk);
    if (walk->under_way > 0)
        return;
    why = walk->why;
    if (walk->rc != 0)
        hf__zk_job_end(me, &walk->job, walk->rc, &why);
    else
        walk->ended(me, walk);
}

void hf__zk_walk_expect(struct zk_session *me, struct walk *walk, int rc)
{
    if (rc == 0) {
        walk->under_way++;
    } else if (walk->rc == 0) {
        walk->rc = rc;
        hf__zk_unsent_why(me->zk, rc, &walk->why);
    }
}

static void walk_note_error(struct walk *walk, const struct zk_answer *answer)
{
    const struct zk_reply *reply = answer->reply;
    hf_error why;
    int rc = reply && reply->error == ZK_NONODE ? 0 : zk_answer_error(answer, &why);
    if (rc == 0 || walk->rc != 0)
        return;
    walk->rc = rc;
    walk->why = why;
}

void hf__zk_walk_reply(const struct zk_answer *answer)
{
    struct walk *walk = answer->subject;
    walk_progress(answer->session, walk, answer->reply);
    walk_note_error(walk, answer);
    walk->under_way--;
    hf__zk_walk_continue(answer->session, walk);
}

/* ---- Queues ---------------------------------------------------------------------- */

struct queued {
    struct node node;
    const struct zk_text *name;
};

/* Without numbers (kazoo's leases) by name: leases with one id are neighbours. */
static int queued_compare(const void *left, const void *right)
{
    const struct queued *a = left, *b = right;
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

/* The nodes that are leases, or that are contenders, sorted. NULL: none, or no
 * memory. */
static struct queued *tickets_sort(struct step *from, const struct zk_reply *reply,
                                   enum layout layout, bool leases, size_t *ret_count)
{
    struct queued *line = reply->count ? hf__alloc(reply->count * sizeof(*line)) : NULL;
    *ret_count = 0;
    if (!line && reply->count)
        from->walk->rc = hf__fail_code(&from->walk->why, HF_ENOMEM);
    for (size_t i = 0; line && i < reply->count; i++) {
        struct queued *at = &line[*ret_count];
        at->name = &reply->names[i];
        hf__zk_node_parse(&at->node, layout, at->name->at, at->name->len);
        if (leases ? !is_lock(&at->node) && hf__zk_lease_weight(layout, at->name)
                   : is_lock(&at->node))
            ++*ret_count;
    }
    if (*ret_count > 1)
        qsort(line, *ret_count, sizeof(*line), queued_compare);
    return line;
}

static int32_t kind_of_form(const struct node *node)
{
    if (node->form == NODE_READ)
        return HF_READ;
    return node->form == NODE_WRITE ? HF_WRITE : HF_MUTEX;
}

/* Of a lock the first node holds it, and so does each reader without a writer before
 * it. In the queue of a semaphore all wait. */
static void queue_read(struct step *from, const struct zk_reply *reply,
                       enum layout layout)
{
    size_t count;
    uint32_t waiting = 0;
    bool lock = from->what == STEP_FOLDER, writer = false;
    struct queued *line = tickets_sort(from, reply, layout, false, &count);
    for (size_t i = 0; i < count; i++) {
        const struct node *node = &line[i].node;
        bool in = lock && (node->form == NODE_READ ? !writer : i == 0);
        struct step *step = child_add(from, STEP_NODE, line[i].name);
        writer |= node->form != NODE_READ;
        if (!step)
            continue;
        if (lock)
            step->kind = kind_of_form(node);
        step->role = in ? HF_HOLDER : HF_WAITER;
        step->permits = 1;
        step->limit = lock ? 1 : from->limit;
        step->place = in ? 0 : waiting++;
    }
    hf__free(line);
}

static bool same_hold(const struct queued *a, const struct queued *b)
{
    return a->node.has_id && b->node.has_id &&
           memcmp(&a->node.id, &b->node.id, sizeof(a->node.id)) == 0;
}

/* Leases of one hold have one id and were made in one multi: they are neighbours. */
static void leases_read(struct step *from, const struct zk_reply *reply,
                        enum layout layout)
{
    size_t count;
    struct queued *line = tickets_sort(from, reply, layout, true, &count);
    struct step *step = NULL;
    for (size_t i = 0; i < count; i++) {
        uint32_t weight = hf__zk_lease_weight(layout, line[i].name);
        if (step && i > 0 && same_hold(&line[i - 1], &line[i])) {
            step->permits = weight < UINT32_MAX - step->permits ? step->permits + weight
                                                                : UINT32_MAX;
            continue;
        }
        step = child_add(from, STEP_NODE, line[i].name);
        if (!step)
            continue;
        step->role = HF_HOLDER;
        step->permits = weight;
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

static void object_add(struct step *from, const struct zk_text *name, int32_t kind,
                       int32_t role, uint32_t place)
{
    struct step *step = child_add(from, STEP_NODE, name);
    if (!step)
        return;
    step->kind = kind;
    step->role = role;
    step->place = place;
}

static void objects_read(struct step *from, const struct zk_reply *reply)
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

static void base_add(struct step *from, int32_t kind, const char *under)
{
    struct step *step = step_add(from->walk, from, STEP_BASE, from->path,
                                 strlen(from->path), under, strlen(under));
    if (step)
        step->kind = kind;
}

static void semaphores_read(struct zk_session *me, struct step *from,
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

/* Whether this path, or a path below it, may be a name that was asked for;
 * *ret_pass_through: only a path below it. */
static bool leads_on(const struct walk *walk, const struct step *step,
                     bool *ret_pass_through)
{
    const struct hf_request *request = walk->job.request;
    char name[HF_NAME_MAX + 1];
    size_t len;
    if (!hf__zk_folder_read(step->path, strlen(step->path), name, &len))
        return false;
    *ret_pass_through = len < request->name_len;
    return !request->name_len ||
           memcmp(name, request->name, *ret_pass_through ? len : request->name_len) ==
               0;
}

static bool has(const struct zk_reply *reply, const char *node)
{
    size_t i = 0;
    while (i < reply->count && !is(&reply->names[i], node))
        i++;
    return i < reply->count;
}

static void longer_names_read(struct zk_session *me, struct step *from,
                              const struct zk_reply *reply)
{
    struct walk *walk = from->walk;
    bool semaphore = has(reply, FOLDER_LEASES);
    for (size_t i = 0; i < reply->count; i++) {
        const struct zk_text *name = &reply->names[i];
        struct node node;
        hf__zk_node_parse(&node, me->layout, name->at, name->len);
        if (node.form != NODE_OTHER || begins(name, "/hf%") ||
            (semaphore && is(name, FOLDER_LOCKS)) ||
            (strcmp(from->path, "/") == 0 && is(name, "/zookeeper")))
            continue;
        struct step *step = child_add(from, STEP_FOLDER, name);
        if (!step)
            continue;
        step->folder_len = strlen(step->path);
        if (!leads_on(walk, step, &step->pass_through))
            step_free(step);
    }
}

static void folder_listed(struct zk_session *me, struct step *step,
                          const struct zk_reply *reply)
{
    struct walk *walk = step->walk;
    if (!step->pass_through && reply->stat.ephemeral_owner &&
        me->layout == LAYOUT_SINGLE) {
        struct step *node =
            step_add(walk, step, STEP_NODE, step->path, strlen(step->path), "", 0);
        if (node) {
            node->kind = HF_MUTEX;
            node->role = HF_HOLDER;
            node->permits = node->limit = 1;
        }
    }
    if (!step->pass_through) {
        queue_read(step, reply, me->layout);
        objects_read(step, reply);
        semaphores_read(me, step, reply);
    }
    if (walk->prefix)
        longer_names_read(me, step, reply);
    if (walk->folder_listed && !step->pass_through)
        walk->folder_listed(me, walk, step, reply);
}

/* ---- Answers --------------------------------------------------------------------- */

static void base_read(struct zk_session *me, struct step *step,
                      const struct zk_reply *reply)
{
    bool kazoo = me->layout == LAYOUT_KAZOO;
    const char *leases = kazoo ? "" : FOLDER_LEASES;
    const char *locks = kazoo ? "-__lock__" : FOLDER_LOCKS;
    size_t len = strlen(step->path);
    hf__zk_limit_read(me->layout, step->kind, &reply->data, &step->limit);
    step_add(step->walk, step, STEP_LEASES, step->path, len, leases, strlen(leases));
    step_add(step->walk, step, STEP_QUEUE, step->path, len, locks, strlen(locks));
}

static void step_read(struct zk_session *me, struct step *step,
                      const struct zk_reply *reply)
{
    struct walk *walk = step->walk;
    switch (step->what) {
    case STEP_FOLDER:
        folder_listed(me, step, reply);
        break;
    case STEP_BASE:
        base_read(me, step, reply);
        break;
    case STEP_LEASES:
        leases_read(step, reply, me->layout);
        break;
    case STEP_QUEUE:
        queue_read(step, reply, me->layout);
        break;
    case STEP_NODE:
        walk->node_read(me, walk, step, reply);
        break;
    }
}

static void step_reply(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct step *step = answer->subject;
    const struct zk_reply *reply = answer->reply;
    struct walk *walk = step->walk;
    bool closed = reply && reply->error == ZK_NOAUTH;
    walk_progress(me, walk, reply);
    if (closed && step->what == STEP_NODE && !step->unreadable) {
        step->unreadable = true;
        hf__list_remove(&step->link);
        hf__list_push_front(&walk->todo, &step->link);
    } else {
        if (reply && reply->error == ZK_OK)
            step_read(me, step, reply);
        else if (!closed || !walk->prefix)
            walk_note_error(walk, answer);
        walk->vanished |= reply && reply->error == ZK_NONODE && step->what == STEP_NODE;
        step_free(step);
    }
    walk->under_way--;
    hf__zk_walk_continue(me, walk);
}

/* ---- Beginning ------------------------------------------------------------------- */

/* The deepest folder that all names with this prefix share: the prefix up to its last
 * slash, if its slashes are plain. Names with odd slashes have encoded paths: the walk
 * begins at the root. A slash at the end of the prefix may be the end of a name, whose
 * path is not below that folder: the walk begins one level higher. */
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

/* The first step, behind a sync. */
static void walk_start(struct zk_session *me, struct walk *walk)
{
    const struct hf_request *request = walk->job.request;
    char path[FOLDER_SIZE];
    size_t len;
    if (walk->prefix)
        len = common_folder(request, path, me->layout == LAYOUT_SINGLE);
    else if (me->layout == LAYOUT_SINGLE)
        len = hf__zk_flat_path_write(path, request->name, request->name_len);
    else
        len = hf__zk_folder_write(path, request->name, request->name_len);
    struct step *step = step_add(walk, NULL, STEP_FOLDER, path, len, "", 0);
    if (step) {
        step->folder_len = len;
        step->pass_through = walk->prefix;
    }
    hf__zk_sync(me->zk, path, synced, walk, 0);
}

void hf__zk_walk_restart(struct zk_session *me, struct walk *walk)
{
    walk->vanished = false;
    walk_start(me, walk);
    hf__zk_walk_continue(me, walk);
}

struct walk *hf__zk_walk_begin(struct zk_session *me, struct hf_request *request,
                               bool prefix, walk_node_read *node_read,
                               walk_ended *ended)
{
    struct job *job = hf__zk_job_begin(me, request, sizeof(struct walk), walk_free);
    if (!job)
        return NULL;
    struct walk *walk = HF_CONTAINER(job, struct walk, job);
    walk->prefix = prefix;
    walk->node_read = node_read;
    walk->ended = ended;
    hf__list_init(&walk->todo);
    hf__list_init(&walk->asked);
    walk_start(me, walk);
    return walk;
}
