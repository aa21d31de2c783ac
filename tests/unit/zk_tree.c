/* SPDX-License-Identifier: MIT */
/* The server of zk_tree.h: requests, faults, connections. */
#include "zk_tree_inside.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Requests -------------------------------------------------------------------- */

static void put_stat(struct jute_out *out, const struct tree_node *node)
{
    hf__zk_jute_put_long(out, node->czxid);
    hf__zk_jute_put_long(out, node->mzxid);
    hf__zk_jute_put_long(out, 0);
    hf__zk_jute_put_long(out, 0);
    hf__zk_jute_put_int(out, node->version);
    hf__zk_jute_put_int(out, node->next);
    hf__zk_jute_put_int(out, 0);
    hf__zk_jute_put_long(out, node->owner);
    hf__zk_jute_put_int(out, (int32_t)node->len);
    hf__zk_jute_put_int(out, tree_children(node->path));
    hf__zk_jute_put_long(out, node->mzxid);
}

static void path_read(struct jute *in, char path[TREE_PATH])
{
    struct zk_text text = hf__zk_jute_text(in);
    ck_assert_uint_lt(text.len, TREE_PATH);
    memcpy(path, text.at, text.len);
    path[text.len] = '\0';
}

static void skip_acl(struct jute *in)
{
    for (int32_t left = hf__zk_jute_int(in); left > 0; left--) {
        hf__zk_jute_int(in);
        hf__zk_jute_text(in);
        hf__zk_jute_text(in);
    }
}

/* One change, of its own or in a transaction. */
struct change {
    int32_t opcode, mode, version;
    char path[TREE_PATH], made[TREE_PATH];
    struct zk_text data;
};

static void change_read(struct change *change, struct jute *in)
{
    int32_t what = change->opcode;
    bool creates = what == ZK_OPCODE_CREATE || what == ZK_OPCODE_CREATE2 ||
                   what == ZK_OPCODE_CONTAINER;
    path_read(in, change->path);
    if (creates || what == ZK_OPCODE_SET)
        change->data = hf__zk_jute_text(in);
    if (creates) {
        skip_acl(in);
        change->mode = hf__zk_jute_int(in);
    } else {
        change->version = hf__zk_jute_int(in);
    }
}

static bool path_denied(const char *path)
{
    if (tree.deny_path[0] == '=')
        return strcmp(path, tree.deny_path + 1) == 0;
    return strstr(path, tree.deny_path) != NULL;
}

static int32_t change_do(struct change *change, int64_t session)
{
    if (tree.deny && (int32_t)tree.deny == change->opcode && path_denied(change->path))
        return tree.error;
    const struct tree_node *node = tree_find(change->path);
    switch (change->opcode) {
    case ZK_OPCODE_DELETE:
        return tree_node_delete(change->path, change->version);
    case ZK_OPCODE_SET:
        return tree_node_set(change->path, change->data.at, change->data.len,
                             change->version);
    case ZK_OPCODE_CHECK:
        if (!node)
            return ZK_NONODE;
        return change->version >= 0 && change->version != node->version ? ZK_BADVERSION
                                                                        : ZK_OK;
    default:
        return tree_node_make(change->path, change->data.at, change->data.len,
                              change->mode, session, change->made);
    }
}

static void put_result(struct jute_out *out, const struct change *change, int32_t error)
{
    int32_t what =
        change->opcode == ZK_OPCODE_CONTAINER ? ZK_OPCODE_CREATE : change->opcode;
    hf__zk_jute_put_int(out, error == 1 ? what : ZK_OPCODE_ERROR);
    hf__zk_jute_put_bool(out, false);
    hf__zk_jute_put_int(out, error == 1 ? 0 : error);
    if (error != 1)
        hf__zk_jute_put_int(out, error);
    else if (what == ZK_OPCODE_CREATE)
        hf__zk_jute_put_text(out, change->made, strlen(change->made));
    else if (what == ZK_OPCODE_SET)
        put_stat(out, tree_find(change->path));
}

/* All of it or nothing: the tree is put back. Events of a change that failed go out
 * nevertheless; they only make clients look. */
static void multi(struct jute *in, int64_t session, struct jute_out *out)
{
    static struct change changes[80];
    static struct tree_node before[TREE_NODES];
    int32_t error = ZK_OK;
    size_t count = 0, failed;
    memcpy(before, tree.nodes, sizeof before);
    for (; count < 80; count++) {
        changes[count] = (struct change){ .opcode = hf__zk_jute_int(in) };
        bool last = hf__zk_jute_bool(in);
        hf__zk_jute_int(in);
        if (last)
            break;
        change_read(&changes[count], in);
    }
    for (failed = 0; failed < count && error == ZK_OK; failed += error == ZK_OK)
        error = change_do(&changes[failed], session);
    if (error != ZK_OK)
        memcpy(tree.nodes, before, sizeof before);
    for (size_t i = 0; i < count; i++) /* 1: done. -2: those behind the failure */
        put_result(out, &changes[i],
                   error == ZK_OK ? 1
                   : i < failed   ? 0
                   : i == failed  ? error
                                  : -2);
    hf__zk_jute_put_int(out, -1);
    hf__zk_jute_put_bool(out, true);
    hf__zk_jute_put_int(out, -1);
}

static int32_t look(struct tree_caller *caller, int32_t opcode, struct jute *in,
                    struct jute_out *out)
{
    char path[TREE_PATH];
    path_read(in, path);
    bool watched = hf__zk_jute_bool(in);
    const struct tree_node *node = tree_find(path);
    if (watched && (node || opcode == ZK_OPCODE_EXISTS))
        tree_watch(caller, path, opcode == ZK_OPCODE_CHILDREN2);
    if (!node)
        return ZK_NONODE;
    if (opcode == ZK_OPCODE_GET)
        hf__zk_jute_put_text(out, node->data, node->len);
    if (opcode == ZK_OPCODE_CHILDREN2) {
        hf__zk_jute_put_int(out, tree_children(path));
        for (size_t i = 0; i < TREE_NODES; i++) {
            const char *name = tree.nodes[i].path;
            if (tree_is_child(name, path))
                hf__zk_jute_put_text(out, strrchr(name, '/') + 1,
                                     strlen(strrchr(name, '/') + 1));
        }
    }
    put_stat(out, node);
    return ZK_OK;
}

static void unwatch(struct tree_caller *caller, struct jute *in)
{
    char path[TREE_PATH];
    path_read(in, path);
    for (size_t k = 0; k < TREE_WATCHES; k++)
        if (strcmp(caller->watches[k].path, path) == 0)
            caller->watches[k].path[0] = '\0';
}

/* What was missed is told at once. */
static void set_watches(struct tree_caller *caller, struct jute *in)
{
    int64_t seen = hf__zk_jute_long(in);
    for (int kind = 0; kind < 3; kind++) {
        for (int32_t left = hf__zk_jute_int(in); left > 0; left--) {
            char path[TREE_PATH];
            path_read(in, path);
            const struct tree_node *node = tree_find(path);
            tree_watch(caller, path, kind == 2);
            if (kind == 1 ? node != NULL : !node)
                tree_fire(path, kind == 1 ? ZK_CREATED : ZK_DELETED, kind == 2);
            else if (kind == 0 && node->mzxid > seen)
                tree_fire(path, ZK_CHANGED, false);
            else if (kind == 2)
                tree_fire(path, ZK_CHILD, true);
        }
    }
}

static int32_t carry_out(struct tree_caller *caller, int32_t opcode, struct jute *in,
                         struct jute_out *out)
{
    struct change change = { .opcode = opcode };
    int32_t error = ZK_OK;
    switch (opcode) {
    case ZK_OPCODE_CREATE2:
    case ZK_OPCODE_CONTAINER:
    case ZK_OPCODE_DELETE:
    case ZK_OPCODE_SET:
        tree.zxid++;
        change_read(&change, in);
        error = change_do(&change, caller->session);
        if (error == ZK_OK && opcode != ZK_OPCODE_SET && opcode != ZK_OPCODE_DELETE)
            hf__zk_jute_put_text(out, change.made, strlen(change.made));
        if (error == ZK_OK && opcode != ZK_OPCODE_DELETE)
            put_stat(out,
                     tree_find(opcode == ZK_OPCODE_SET ? change.path : change.made));
        break;
    case ZK_OPCODE_MULTI:
        tree.zxid++;
        multi(in, caller->session, out);
        break;
    case ZK_OPCODE_GET:
    case ZK_OPCODE_EXISTS:
    case ZK_OPCODE_CHILDREN2:
        return look(caller, opcode, in, out);
    case ZK_OPCODE_UNWATCH:
        unwatch(caller, in);
        break;
    case ZK_OPCODE_SET_WATCHES:
        set_watches(caller, in);
        break;
    case ZK_OPCODE_SYNC:
        hf__zk_jute_put_text(out, "/", 1);
        break;
    case ZK_OPCODE_PING:
        break;
    case ZK_OPCODE_CLOSE:
        tree_session_over(caller->session);
        break;
    default:
        ck_abort_msg("opcode %d", opcode);
    }
    return error;
}

/* ---- Faults ---------------------------------------------------------------------- */

void tree_spoil(unsigned nth, enum tree_fault fault)
{
    tree.requests = 0;
    tree.fault_at = nth;
    tree.fault = fault;
    tree.spoilt = false;
    tree.asked_by_first[0] = '\0';
}

static char letter_of(int32_t opcode)
{
    switch (opcode) {
    case ZK_OPCODE_CREATE2:
        return 'C';
    case ZK_OPCODE_CONTAINER:
        return 'F'; /* a folder */
    case ZK_OPCODE_CHILDREN2:
        return 'L';
    case ZK_OPCODE_GET:
        return 'G';
    case ZK_OPCODE_EXISTS:
        return 'E';
    case ZK_OPCODE_DELETE:
        return 'D';
    case ZK_OPCODE_SYNC:
        return 'S';
    case ZK_OPCODE_MULTI:
        return 'M';
    case ZK_OPCODE_UNWATCH:
        return 'U';
    default:
        return '?';
    }
}

static void letter_add(int32_t opcode)
{
    size_t len = strlen(tree.asked_by_first);
    if (len + 1 < sizeof tree.asked_by_first) {
        tree.asked_by_first[len] = letter_of(opcode);
        tree.asked_by_first[len + 1] = '\0';
    }
}

static enum tree_fault fault_now(const struct tree_caller *caller, int32_t opcode)
{
    bool counts = caller == &tree.callers[0] && opcode != ZK_OPCODE_CLOSE &&
                  opcode != ZK_OPCODE_PING && opcode != ZK_OPCODE_SET_WATCHES;
    if (!counts)
        return TREE_FINE;
    letter_add(opcode);
    if (tree.fault == TREE_FINE || ++tree.requests != tree.fault_at)
        return TREE_FINE;
    tree.spoilt = true;
    return tree.fault;
}

static bool denied(int32_t opcode, struct jute in)
{
    char path[TREE_PATH];
    if (!tree.deny || (int32_t)tree.deny != opcode)
        return false;
    path_read(&in, path);
    return path_denied(path);
}

static void trace(size_t caller, int32_t opcode, struct jute in)
{
    struct zk_text path = hf__zk_jute_text(&in);
    if (!getenv("ZK_TRACE"))
        return;
    if (opcode == ZK_OPCODE_MULTI || in.bad)
        path.len = 0;
    fprintf(stderr, "client %zu: opcode %d %.*s\n", caller, opcode, (int)path.len,
            path.at);
}

static void answer(struct tree_caller *caller, struct jute in)
{
    static char bytes[TREE_BUFFER];
    struct jute_out out = tree_out(bytes, sizeof bytes);
    struct jute_out head = tree_out(bytes + 4, 16);
    char *frame = hf__zk_jute_open(&out);
    int32_t xid = hf__zk_jute_int(&in), opcode = hf__zk_jute_int(&in);
    enum tree_fault fault = fault_now(caller, opcode);
    size_t index = (size_t)(caller - tree.callers);
    int32_t error;
    if (fault == TREE_CALL)
        tree.call();
    if (fault == TREE_REAP)
        tree_reap();
    if (fault == TREE_END_BEFORE)
        tree_session_end(index);
    if (fault == TREE_CUT_BEFORE)
        tree_cut(index);
    trace(index, opcode, in);
    tree.asked += opcode != ZK_OPCODE_SYNC && opcode != ZK_OPCODE_PING;
    if (caller->fd < 0)
        return;
    out.at += 16; /* the header: its error is known at the end */
    if (fault == TREE_ERROR || denied(opcode, in))
        error = tree.error;
    else
        error = carry_out(caller, opcode, &in, &out);
    if (tree.after)
        tree.after();
    hf__zk_jute_put_int(&head, xid);
    hf__zk_jute_put_long(&head, tree.zxid);
    hf__zk_jute_put_int(&head, error);
    if (error)
        out.at = bytes + 20;
    if (fault == TREE_LINGER)
        tree.purge_ns = tree.clock.now_ns + 300 * INT64_C(1000000);
    if (fault == TREE_END_AFTER || fault == TREE_LINGER)
        tree_session_end(index);
    else if (fault == TREE_CUT_AFTER)
        tree_cut(index);
    else
        tree_say(caller, &out, frame);
    if (opcode == ZK_OPCODE_CLOSE)
        tree_cut(index);
}

/* ---- Connections ----------------------------------------------------------------- */

/* A session that is known goes on where it was: each has a caller of its own. */
static void greet(struct tree_caller *caller, struct jute in)
{
    char bytes[64];
    struct jute_out out = tree_out(bytes, sizeof bytes);
    char *frame = hf__zk_jute_open(&out);
    hf__zk_jute_int(&in);
    hf__zk_jute_long(&in);
    int32_t timeout = hf__zk_jute_int(&in);
    int64_t session = hf__zk_jute_long(&in);
    bool over = session && tree_is_over(session);
    caller->session = session ? session : ++tree.sessions;
    hf__zk_jute_put_int(&out, 0);
    hf__zk_jute_put_int(&out, over ? 0 : tree.session_ms ? tree.session_ms : timeout);
    hf__zk_jute_put_long(&out, over ? 0 : caller->session);
    hf__zk_jute_put_text(&out, "0123456789abcdef", over ? 0 : 16);
    hf__zk_jute_put_bool(&out, false);
    tree_say(caller, &out, frame);
    caller->session = over ? -1 : caller->session;
}

/* Clients come back one at a time: the first one that is missing is the one. */
static bool meet(void)
{
    struct pollfd polled = { .fd = tree.listener, .events = POLLIN };
    int on = 1;
    if (tree.deaf || poll(&polled, 1, 0) <= 0)
        return false;
    for (size_t i = 0; i < TREE_CALLERS; i++) {
        struct tree_caller *caller = &tree.callers[i];
        if (caller->fd >= 0 || !tree.hosts[i])
            continue;
        caller->fd = accept(tree.listener, NULL, NULL);
        setsockopt(caller->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        caller->session = 0;
        caller->heard_len = 0;
        return true;
    }
    return false;
}

static bool hear(struct tree_caller *caller)
{
    struct jute record;
    size_t used = 0, taken = 0;
    ssize_t got = recv(caller->fd, caller->heard + caller->heard_len,
                       TREE_BUFFER - caller->heard_len, MSG_DONTWAIT);
    if (got == 0)
        tree_cut((size_t)(caller - tree.callers));
    if (got <= 0)
        return got == 0;
    caller->heard_len += (size_t)got;
    while (caller->fd >= 0 &&
           hf__zk_jute_frame(caller->heard + taken, caller->heard_len - taken, &record,
                             &used) == JUTE_WHOLE) {
        taken += used;
        if (caller->session)
            answer(caller, record);
        else
            greet(caller, record);
    }
    if (caller->fd < 0)
        return true;
    memmove(caller->heard, caller->heard + taken, caller->heard_len - taken);
    caller->heard_len -= taken;
    return true;
}

bool tree_step(void)
{
    bool heard = meet();
    for (size_t i = 0; i < TREE_CALLERS; i++)
        if (tree.callers[i].fd >= 0)
            heard |= hear(&tree.callers[i]);
    return heard;
}

void tree_begin(void)
{
    struct sockaddr_in name = { .sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof name;
    memset(&tree, 0, sizeof tree);
    for (size_t i = 0; i < TREE_CALLERS; i++)
        tree.callers[i].fd = -1;
    tree.deny_path = "";
    tree.clock.now_ns = INT64_C(1000000000);
    tree.nodes[0] = (struct tree_node){ .path = "/" };
    tree.zxid = 100;
    tree.sessions = INT64_C(0x7700000000);
    tree.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(tree.listener, (struct sockaddr *)&name, len), 0);
    ck_assert_int_eq(listen(tree.listener, 16), 0);
    ck_assert_int_eq(getsockname(tree.listener, (struct sockaddr *)&name, &len), 0);
    tree.port = ntohs(name.sin_port);
}

void tree_end(void)
{
    for (size_t i = 0; i < TREE_CALLERS; i++)
        tree_cut(i);
    close(tree.listener);
}
