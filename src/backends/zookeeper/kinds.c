/* SPDX-License-Identifier: MIT */
/*
 * Which kind a name serves already: see kinds.h for the nodes of each.
 *
 * A client that enters a queue lists the folder after its own node exists, so that of
 * two kinds that come at once at least one sees the other. Pure functions.
 */
#include "kinds.h"

#include "../../base/error.h"
#include "../../kit/admit.h"

#include <stdio.h>
#include <string.h>

static bool is(const struct zk_text *name, const char *node)
{
    size_t len = strlen(node + 1); /* constants begin with a '/' */
    return name->len == len && memcmp(name->at, node + 1, len) == 0;
}

/* The kind that a child shows; *ret_maybe: only if its folder is not empty. */
static int32_t child_kind(enum layout layout, const struct zk_text *name,
                          bool *ret_maybe)
{
    struct node node;
    *ret_maybe = true;
    if (is(name, FOLDER_LEASES)) /* "locks" may be the end of a longer name */
        return HF_PERMITS;
    if (is(name, FOLDER_EXPIRING))
        return HF_EXPIRING;
    *ret_maybe = false;
    if (is(name, NODE_LATCH) || is(name, NODE_GATE))
        return HF_LATCH;
    if (is(name, NODE_CELL))
        return HF_CELL;
    hf__zk_node_parse_number(&node, layout, name->at, name->len);
    if (node.form == NODE_READ || node.form == NODE_WRITE)
        return HF_READ;
    return node.form == NODE_LOCK ? HF_MUTEX : 0;
}

/* kazoo's Lock and WriteLock are one form: such a node identifies neither. */
static bool may_meet(enum layout layout, int32_t one, int32_t other)
{
    int a = hf__family(one), b = hf__family(other);
    int mutex = hf__family(HF_MUTEX), rw = hf__family(HF_READ);
    if (layout == LAYOUT_KAZOO && (a == mutex || a == rw) && (b == mutex || b == rw))
        return true;
    return a == b;
}

int32_t hf__zk_kind_clash(enum layout layout, const struct zk_text *names, size_t count,
                          int32_t kind)
{
    int32_t answer = 0;
    for (size_t i = 0; i < count; i++) {
        bool maybe;
        int32_t there = child_kind(layout, &names[i], &maybe);
        if (!there || may_meet(layout, there, kind))
            continue;
        if (!maybe)
            return there;
        answer = KIND_MAYBE;
    }
    return answer;
}

int hf__zk_kind_mismatch(hf_error *why, int32_t there, int32_t asked)
{
    static const char *const words[] = {
        "mutex",           "mutex",
        "mutex",           "mutex",
        "read/write lock", "read/write lock",
        "semaphore",       "semaphore of expiring permits",
        "latch",           "cell",
    };
    return hf__fail(why, HF_EMISMATCH, "the name is in use as a %s, not as a %s",
                    words[there], words[asked]);
}

/* ---- Looking inside -------------------------------------------------------------- */

static const struct {
    const char *folder;
    int32_t kind;
} inside[KIND_INSIDES] = {
    /* a ticket moves from the queue to the leases: it is seen in one of them */
    { FOLDER_LOCKS, HF_PERMITS },
    { FOLDER_LEASES, HF_PERMITS },
    { FOLDER_EXPIRING FOLDER_LOCKS, HF_EXPIRING },
    { FOLDER_EXPIRING FOLDER_LEASES, HF_EXPIRING },
};

static bool has_contender(enum layout layout, const struct zk_reply *reply)
{
    for (size_t i = 0; i < reply->count; i++) {
        struct node node;
        hf__zk_node_parse_number(&node, layout, reply->names[i].at,
                                 reply->names[i].len);
        if (node.form == NODE_LOCK || node.form == NODE_LEASE)
            return true;
    }
    return false;
}

bool hf__zk_kind_inside(char path[PATH_SIZE], const char *folder, int32_t kind,
                        size_t index)
{
    if (hf__family(inside[index].kind) == hf__family(kind))
        return false;
    snprintf(path, PATH_SIZE, "%s%s", folder, inside[index].folder);
    return true;
}

size_t hf__zk_kind_inside_last(int32_t kind)
{
    size_t last = KIND_INSIDES - 1;
    while (last > 0 && hf__family(inside[last].kind) == hf__family(kind))
        last--;
    return last;
}

int32_t hf__zk_kind_found(enum layout layout, size_t index,
                          const struct zk_reply *reply)
{
    bool found = reply->error == ZK_OK && has_contender(layout, reply);
    return found ? inside[index].kind : 0;
}
