/* SPDX-License-Identifier: MIT */
/*
 * The requests of zk.h, one function each: what they contain and in which order.
 * zk_ring.c sends them and matches the replies.
 *
 * A path is written with the chroot in front, without being joined before. Nodes are
 * open to everyone, as those of the other clients that share our locks, or to their
 * creator alone: to clients that authenticated as this one has.
 *
 * Called by the store, under its lock.
 */
#include "../../../base/error.h"
#include "zk_inside.h"

#include <string.h>

enum {
    LEN_SIZE = 4,  /* of a text, a number, the count of a vector */
    ACL_SIZE = 27, /* put_acl(), at most */
    MULTI_SIZE = 9,
    ALL_PERMISSIONS = 31,
    ANY_WATCH = 3,
};

static const char CONFIG[] = "/zookeeper/config";

struct reply_to {
    zk_done *done;
    void *subject;
    uint64_t tag;
};

/* ---- Paths ----------------------------------------------------------------------- */

/* "/" below a chroot is the chroot itself. */
static size_t tail_of(const struct zk *zk, const char *path)
{
    return zk->chroot_len && path[1] == '\0' ? 0 : strlen(path);
}

static size_t path_size(const struct zk *zk, const char *path)
{
    return LEN_SIZE + zk->chroot_len + strlen(path);
}

static void put_path(const struct zk *zk, struct jute_out *out, const char *path)
{
    hf__zk_jute_put_joined(out, zk->settings.chroot, zk->chroot_len, path,
                           tail_of(zk, path));
}

/* ---- Beginning and end ----------------------------------------------------------- */

/* 0, or why it cannot be sent. */
static int begin(struct zk *zk, struct zk_request *request, enum zk_opcode opcode,
                 size_t size, const struct reply_to *reply_to)
{
    request->pending = (struct zk_pending){ .done = reply_to->done,
                                            .subject = reply_to->subject,
                                            .tag = reply_to->tag };
    if (zk->state != ZK_STATE_UP)
        return HF_EUNREACHABLE;
    if (size + LEN_SIZE + LEN_SIZE > JUTE_REQUEST_MAX)
        return HF_EINVAL;
    return hf__zk_request_begin(zk, request, opcode, size);
}

static int end(struct zk *zk, struct zk_request *request)
{
    hf__zk_request_end(zk, request);
    hf__zk_flush_soon(zk);
    return 0;
}

void hf__zk_unsent_why(const struct zk *zk, int code, hf_error *ret_why)
{
    *ret_why = zk->why;
    if (code == HF_EUNREACHABLE)
        ret_why->code = code;
    else if (code == HF_EINVAL)
        hf__error_set(ret_why, code, "a request of more than %zu bytes is not taken",
                      JUTE_REQUEST_MAX);
    else
        hf__fail_code(ret_why, code);
}

/* ---- Creating -------------------------------------------------------------------- */

static void put_acl(const struct zk *zk, struct jute_out *out)
{
    bool own = zk->settings.creator_only;
    const char *scheme = own ? "auth" : "world", *id = own ? "" : "anyone";

    hf__zk_jute_put_int(out, 1);
    hf__zk_jute_put_int(out, ALL_PERMISSIONS);
    hf__zk_jute_put_text(out, scheme, strlen(scheme));
    hf__zk_jute_put_text(out, id, strlen(id));
}

static void put_node(const struct zk *zk, struct jute_out *out, const void *data,
                     size_t len, enum zk_mode mode)
{
    hf__zk_jute_put_text(out, data, len);
    put_acl(zk, out);
    hf__zk_jute_put_int(out, mode);
}

int hf__zk_create(struct zk *zk, const char *path, const void *data, size_t len,
                  enum zk_mode mode, zk_done *done, void *subject, uint64_t tag)
{
    struct zk_request request;
    size_t size = path_size(zk, path) + LEN_SIZE + len + ACL_SIZE + LEN_SIZE;
    enum zk_opcode opcode =
        mode == ZK_CONTAINER ? ZK_OPCODE_CONTAINER : ZK_OPCODE_CREATE2;

    int rc =
        begin(zk, &request, opcode, size, &(struct reply_to){ done, subject, tag });
    if (rc != 0)
        return rc;
    put_path(zk, &request.out, path);
    put_node(zk, &request.out, data, len, mode);
    return end(zk, &request);
}

/* Creates the folder whose path is the first `len` bytes of chroot and path joined. */
static int make_one(struct zk *zk, const char *path, size_t len,
                    const struct reply_to *reply_to)
{
    size_t head = len < zk->chroot_len ? len : zk->chroot_len;
    size_t size = LEN_SIZE + len + LEN_SIZE + ACL_SIZE + LEN_SIZE;
    struct zk_request request;
    bool keep = zk->settings.keep_folders;
    enum zk_opcode opcode = keep ? ZK_OPCODE_CREATE2 : ZK_OPCODE_CONTAINER;

    int rc = begin(zk, &request, opcode, size, reply_to);
    if (rc != 0)
        return rc;
    hf__zk_jute_put_joined(&request.out, zk->settings.chroot, head, path, len - head);
    put_node(zk, &request.out, "", 0, keep ? ZK_PERSISTENT : ZK_CONTAINER);
    hf__zk_request_end(zk, &request);
    return 0;
}

int hf__zk_make_folder(struct zk *zk, const char *path, zk_done *done, void *subject,
                       uint64_t tag)
{
    const char *chroot = zk->settings.chroot;
    size_t len = zk->chroot_len + tail_of(zk, path);
    int rc = 0;

    hf__zk_gather(zk);
    for (size_t i = 1; i < len && rc == 0; i++) {
        char c = i < zk->chroot_len ? chroot[i] : path[i - zk->chroot_len];
        if (c == '/')
            rc = make_one(zk, path, i, &(struct reply_to){ NULL, NULL, 0 });
    }
    if (rc == 0)
        rc = make_one(zk, path, len, &(struct reply_to){ done, subject, tag });
    hf__zk_flush(zk);
    return rc;
}

/* ---- Changing -------------------------------------------------------------------- */

int hf__zk_delete(struct zk *zk, const char *path, int32_t version, zk_done *done,
                  void *subject, uint64_t tag)
{
    struct zk_request request;
    int rc = begin(zk, &request, ZK_OPCODE_DELETE, path_size(zk, path) + LEN_SIZE,
                   &(struct reply_to){ done, subject, tag });
    if (rc != 0)
        return rc;
    put_path(zk, &request.out, path);
    hf__zk_jute_put_int(&request.out, version);
    return end(zk, &request);
}

int hf__zk_set(struct zk *zk, const char *path, const void *data, size_t len,
               int32_t version, zk_done *done, void *subject, uint64_t tag)
{
    struct zk_request request;
    size_t size = path_size(zk, path) + LEN_SIZE + len + LEN_SIZE;

    int rc = begin(zk, &request, ZK_OPCODE_SET, size,
                   &(struct reply_to){ done, subject, tag });
    if (rc != 0)
        return rc;
    put_path(zk, &request.out, path);
    hf__zk_jute_put_text(&request.out, data, len);
    hf__zk_jute_put_int(&request.out, version);
    return end(zk, &request);
}

static size_t op_size(const struct zk *zk, const struct zk_op *op)
{
    return MULTI_SIZE + path_size(zk, op->path) + LEN_SIZE + op->len + ACL_SIZE +
           LEN_SIZE;
}

static void put_op_header(struct jute_out *out, int32_t opcode, bool done)
{
    hf__zk_jute_put_int(out, opcode);
    hf__zk_jute_put_bool(out, done);
    hf__zk_jute_put_int(out, -1);
}

static void put_op(const struct zk *zk, struct jute_out *out, const struct zk_op *op)
{
    static const enum zk_opcode opcodes[] = { [ZK_OP_CREATE] = ZK_OPCODE_CREATE,
                                              [ZK_OP_DELETE] = ZK_OPCODE_DELETE,
                                              [ZK_OP_SET] = ZK_OPCODE_SET,
                                              [ZK_OP_CHECK] = ZK_OPCODE_CHECK };
    bool container = op->what == ZK_OP_CREATE && op->mode == ZK_CONTAINER;

    put_op_header(out, container ? ZK_OPCODE_CONTAINER : opcodes[op->what], false);
    put_path(zk, out, op->path);
    if (op->what == ZK_OP_CREATE)
        put_node(zk, out, op->data, op->len, op->mode);
    if (op->what == ZK_OP_SET)
        hf__zk_jute_put_text(out, op->data, op->len);
    if (op->what != ZK_OP_CREATE)
        hf__zk_jute_put_int(out, op->version);
}

int hf__zk_multi(struct zk *zk, const struct zk_op *ops, size_t count, zk_done *done,
                 void *subject, uint64_t tag)
{
    struct zk_request request;
    size_t size = MULTI_SIZE;

    for (size_t i = 0; i < count; i++)
        size += op_size(zk, &ops[i]);
    int rc = begin(zk, &request, ZK_OPCODE_MULTI, size,
                   &(struct reply_to){ done, subject, tag });
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        put_op(zk, &request.out, &ops[i]);
    put_op_header(&request.out, -1, true);
    request.pending.count = (uint32_t)count;
    return end(zk, &request);
}

/* ---- Looking --------------------------------------------------------------------- */

static int look(struct zk *zk, enum zk_opcode opcode, const char *path, bool watch,
                const struct reply_to *reply_to)
{
    struct zk_request request;
    struct zk_watch *kept = NULL;

    if (watch && zk->state == ZK_STATE_UP && !(kept = hf__zk_watch_ref(zk, path)))
        return HF_ENOMEM;
    int rc = begin(zk, &request, opcode, path_size(zk, path) + 1, reply_to);
    if (rc != 0) {
        hf__zk_watch_unref(zk, kept);
        return rc;
    }
    put_path(zk, &request.out, path);
    hf__zk_jute_put_bool(&request.out, watch);
    request.pending.watch = kept;
    if (kept)
        hf__zk_watch_asked(kept);
    return end(zk, &request);
}

int hf__zk_exists(struct zk *zk, const char *path, bool watch, zk_done *done,
                  void *subject, uint64_t tag)
{
    return look(zk, ZK_OPCODE_EXISTS, path, watch,
                &(struct reply_to){ done, subject, tag });
}

int hf__zk_get(struct zk *zk, const char *path, bool watch, zk_done *done,
               void *subject, uint64_t tag)
{
    return look(zk, ZK_OPCODE_GET, path, watch,
                &(struct reply_to){ done, subject, tag });
}

int hf__zk_children(struct zk *zk, const char *path, bool watch, zk_done *done,
                    void *subject, uint64_t tag)
{
    return look(zk, ZK_OPCODE_CHILDREN2, path, watch,
                &(struct reply_to){ done, subject, tag });
}

int hf__zk_get_config(struct zk *zk, zk_done *done, void *subject, uint64_t tag)
{
    struct zk_request request;
    int rc = begin(zk, &request, ZK_OPCODE_GET, LEN_SIZE + sizeof CONFIG,
                   &(struct reply_to){ done, subject, tag });
    if (rc != 0)
        return rc;
    hf__zk_jute_put_text(&request.out, CONFIG, sizeof CONFIG - 1);
    hf__zk_jute_put_bool(&request.out, false);
    return end(zk, &request);
}

int hf__zk_sync(struct zk *zk, const char *path, zk_done *done, void *subject,
                uint64_t tag)
{
    struct zk_request request;
    int rc = begin(zk, &request, ZK_OPCODE_SYNC, path_size(zk, path),
                   &(struct reply_to){ done, subject, tag });
    if (rc != 0)
        return rc;
    put_path(zk, &request.out, path);
    return end(zk, &request);
}

int hf__zk_ping(struct zk *zk, zk_done *done, void *subject, uint64_t tag)
{
    struct zk_request request;
    int rc = begin(zk, &request, ZK_OPCODE_PING, 0,
                   &(struct reply_to){ done, subject, tag });
    return rc != 0 ? rc : end(zk, &request);
}

void hf__zk_unwatch(struct zk *zk, const char *path)
{
    struct zk_watch *watch = hf__zk_watch_find(zk, path);
    struct zk_request request;

    if (!watch || !hf__zk_watch_unwant(watch))
        return;
    watch->refs++;
    if (begin(zk, &request, ZK_OPCODE_UNWATCH, path_size(zk, path) + LEN_SIZE,
              &(struct reply_to){ NULL, NULL, 0 }) != 0) {
        watch->set = 0; /* so that the next connection does not set it again */
        hf__zk_watch_unref(zk, watch);
        return;
    }
    put_path(zk, &request.out, path);
    hf__zk_jute_put_int(&request.out, ANY_WATCH);
    request.pending.watch = watch;
    end(zk, &request);
}
