/* SPDX-License-Identifier: MIT */
/* The server of zk_tree.h: nodes, watches, changes, by hand and by request. */
#include "zk_tree_inside.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct tree tree;

/* ---- Nodes ----------------------------------------------------------------------- */

struct tree_node *tree_find(const char *path)
{
    for (size_t i = 0; i < TREE_NODES; i++)
        if (path[0] && strcmp(tree.nodes[i].path, path) == 0)
            return &tree.nodes[i];
    return NULL;
}

struct tree_node *tree_first(const char *part)
{
    for (size_t i = 0; i < TREE_NODES; i++)
        if (tree.nodes[i].path[0] && strstr(tree.nodes[i].path, part))
            return &tree.nodes[i];
    return NULL;
}

size_t tree_count(const char *part)
{
    size_t count = 0;
    for (size_t i = 0; i < TREE_NODES; i++)
        count += tree.nodes[i].path[0] && strstr(tree.nodes[i].path, part);
    return count;
}

size_t tree_watches(void)
{
    size_t count = 0;
    for (size_t i = 0; i < TREE_CALLERS; i++)
        for (size_t k = 0; k < TREE_WATCHES; k++)
            count += tree.callers[i].watches[k].path[0] != '\0';
    return count;
}

size_t tree_left(void)
{
    size_t count = 0;
    for (size_t i = 0; i < TREE_NODES; i++) {
        const struct tree_node *node = &tree.nodes[i];
        count += node->path[0] && (node->owner || strstr(node->path, "/hf%")) &&
                 !node->container;
    }
    return count;
}

static void parent_of(const char *path, char parent[TREE_PATH])
{
    snprintf(parent, TREE_PATH, "%s", path);
    char *slash = strrchr(parent, '/');
    slash[slash == parent] = '\0';
}

bool tree_is_child(const char *path, const char *parent)
{
    char found[TREE_PATH];
    if (!path[0] || !path[1])
        return false;
    parent_of(path, found);
    return strcmp(found, parent) == 0;
}

int32_t tree_children(const char *path)
{
    int32_t count = 0;
    for (size_t i = 0; i < TREE_NODES; i++)
        count += tree_is_child(tree.nodes[i].path, path);
    return count;
}

/* ---- Saying ---------------------------------------------------------------------- */

void tree_say(struct tree_caller *caller, struct jute_out *out, char *frame)
{
    hf__zk_jute_close(out, frame);
    if (caller->fd >= 0)
        send(caller->fd, frame, (size_t)(out->at - frame), MSG_NOSIGNAL);
}

struct jute_out tree_out(char *bytes, size_t size)
{
    return (struct jute_out){ .at = bytes, .end = bytes + size };
}

void tree_fire(const char *path, enum zk_event_type type, bool child)
{
    char bytes[TREE_PATH + 64];
    for (size_t i = 0; i < TREE_CALLERS; i++) {
        for (size_t k = 0; k < TREE_WATCHES; k++) {
            struct tree_caller *caller = &tree.callers[i];
            if (strcmp(caller->watches[k].path, path) != 0 ||
                caller->watches[k].child != child)
                continue;
            caller->watches[k].path[0] = '\0';
            struct jute_out out = tree_out(bytes, sizeof bytes);
            char *frame = hf__zk_jute_open(&out);
            hf__zk_jute_put_int(&out, ZK_XID_EVENT);
            hf__zk_jute_put_long(&out, -1);
            hf__zk_jute_put_int(&out, 0);
            hf__zk_jute_put_int(&out, type);
            hf__zk_jute_put_int(&out, 3);
            hf__zk_jute_put_text(&out, path, strlen(path));
            tree_say(caller, &out, frame);
        }
    }
}

void tree_watch(struct tree_caller *caller, const char *path, bool child)
{
    size_t free = TREE_WATCHES;
    for (size_t k = 0; k < TREE_WATCHES; k++) {
        if (!caller->watches[k].path[0])
            free = k;
        else if (strcmp(caller->watches[k].path, path) == 0 &&
                 caller->watches[k].child == child)
            return;
    }
    ck_assert_uint_lt(free, TREE_WATCHES);
    snprintf(caller->watches[free].path, TREE_PATH, "%s", path);
    caller->watches[free].child = child;
}

/* ---- Changes --------------------------------------------------------------------- */

int32_t tree_node_make(const char *path, const void *data, size_t len, int32_t mode,
                       int64_t session, char made[TREE_PATH])
{
    char parent[TREE_PATH];
    parent_of(path, parent);
    struct tree_node *up = tree_find(parent), *node = NULL;
    bool numbered = mode == ZK_EPHEMERAL_SEQUENTIAL || mode == ZK_PERSISTENT_SEQUENTIAL;
    if (!up)
        return ZK_NONODE;
    if (up->owner)
        return ZK_NOCHILDRENFOREPHEMERALS;
    if (numbered)
        snprintf(made, TREE_PATH, "%.600s%010d", path, up->next);
    else
        snprintf(made, TREE_PATH, "%s", path);
    if (tree_find(made))
        return ZK_NODEEXISTS;
    for (size_t i = 0; i < TREE_NODES && !node; i++)
        node = tree.nodes[i].path[0] ? NULL : &tree.nodes[i];
    ck_assert(node && len < TREE_DATA);
    up->next++;
    *node = (struct tree_node){ .czxid = tree.zxid, .mzxid = tree.zxid, .len = len };
    node->container = mode == ZK_CONTAINER;
    node->owner = mode == ZK_EPHEMERAL || mode == ZK_EPHEMERAL_SEQUENTIAL ? session : 0;
    memcpy(node->data, data, len);
    memcpy(node->path, made, TREE_PATH);
    tree_fire(made, ZK_CREATED, false);
    tree_fire(parent, ZK_CHILD, true);
    return ZK_OK;
}

int32_t tree_node_delete(const char *path, int32_t version)
{
    char parent[TREE_PATH], copy[TREE_PATH];
    struct tree_node *node = tree_find(path);
    if (!node)
        return ZK_NONODE;
    if (version >= 0 && version != node->version)
        return ZK_BADVERSION;
    if (tree_children(path))
        return ZK_NOTEMPTY;
    snprintf(copy, sizeof copy, "%s", path);
    parent_of(path, parent);
    node->path[0] = '\0';
    tree_fire(copy, ZK_DELETED, false);
    tree_fire(copy, ZK_DELETED, true);
    tree_fire(parent, ZK_CHILD, true);
    return ZK_OK;
}

int32_t tree_node_set(const char *path, const void *data, size_t len, int32_t version)
{
    struct tree_node *node = tree_find(path);
    if (!node)
        return ZK_NONODE;
    if (version >= 0 && version != node->version)
        return ZK_BADVERSION;
    ck_assert_uint_lt(len, TREE_DATA);
    memcpy(node->data, data, len);
    node->len = len;
    node->version++;
    node->mzxid = tree.zxid;
    tree_fire(path, ZK_CHANGED, false);
    return ZK_OK;
}

/* ---- Changes by hand ------------------------------------------------------------- */

struct tree_node *tree_put_at(const char *path, const char *data, int64_t owner)
{
    char parent[TREE_PATH], made[TREE_PATH];
    parent_of(path, parent);
    if (!tree_find(parent))
        tree_put_at(parent, "", 0)->container = true;
    tree.zxid++;
    int32_t mode = owner ? ZK_EPHEMERAL : ZK_PERSISTENT;
    int32_t rc = tree_node_make(path, data, strlen(data), mode, owner, made);
    ck_assert_int_eq(rc, ZK_OK);
    return tree_find(path);
}

struct tree_node *tree_put(const char *path, const char *data)
{
    return tree_put_at(path, data, 0);
}

void tree_delete(const char *path)
{
    tree.zxid++;
    ck_assert_int_eq(tree_node_delete(path, -1), ZK_OK);
}

void tree_set(const char *path, const char *data)
{
    tree.zxid++;
    ck_assert_int_eq(tree_node_set(path, data, strlen(data), -1), ZK_OK);
}

void tree_reap(void)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < TREE_NODES; i++) {
            char path[TREE_PATH];
            memcpy(path, tree.nodes[i].path, TREE_PATH);
            if (!path[0] || !tree.nodes[i].container || tree_children(path))
                continue;
            tree.zxid++;
            tree_node_delete(path, -1);
            again = true;
        }
    }
}

void tree_cut(size_t caller)
{
    struct tree_caller *at = &tree.callers[caller];
    if (at->fd >= 0)
        close(at->fd);
    at->fd = -1;
    at->heard_len = 0;
    memset(at->watches, 0, sizeof at->watches);
}

bool tree_is_over(int64_t session)
{
    for (size_t i = 0; i < tree.over_count; i++)
        if (tree.over[i] == session)
            return true;
    return false;
}

void tree_purge(void)
{
    tree.purge_ns = 0;
    for (size_t i = 0; i < TREE_NODES; i++) {
        char path[TREE_PATH];
        memcpy(path, tree.nodes[i].path, TREE_PATH);
        if (!path[0] || !tree.nodes[i].owner || !tree_is_over(tree.nodes[i].owner))
            continue;
        tree.zxid++;
        tree_node_delete(path, -1);
    }
}

void tree_session_over(int64_t session)
{
    ck_assert_uint_lt(tree.over_count, sizeof tree.over / sizeof tree.over[0]);
    tree.over[tree.over_count++] = session;
    if (!tree.purge_ns)
        tree_purge();
}

void tree_session_end(size_t caller)
{
    int64_t session = tree.callers[caller].session;
    tree_cut(caller);
    tree_session_over(session);
}
