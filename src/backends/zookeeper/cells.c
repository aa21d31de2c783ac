/* SPDX-License-Identifier: MIT */
/*
 * Cells: a value and its version, in the node P/hf%cell.
 *
 * The node's data is the value and nothing else, so that any client can read it. The
 * version is the node's mzxid, the number of the transaction that wrote it. The
 * ensemble never gives a number twice, so no version comes back, even after the cell
 * was removed, and nothing has to stay for that. A write is conditional on the znode
 * version that was read together with the mzxid.
 */
#include "changes.h"

#include "../../base/error.h"

static int cell_get(struct zk_session *me, struct hf_request *request,
                    const char *folder, const struct zk_reply *found, struct plan *plan,
                    hf_error *why)
{
    (void)folder;
    if (!found)
        return hf__fail(why, HF_ENOENT, "there is no such cell");
    if (found->stat.mzxid == 0 || found->data.len > HF_CELL_MAX)
        return hf__fail_code(why, HF_ECORRUPT);
    plan->result = (uint64_t)found->stat.mzxid;
    me->host->ops->cell_data(me->host, request, found->data.len ? found->data.at : "",
                             found->data.len);
    return 0;
}

static int cell_set(struct zk_session *me, struct hf_request *request,
                    const char *folder, const struct zk_reply *found, struct plan *plan,
                    hf_error *why)
{
    (void)me;
    uint64_t version = found ? (uint64_t)found->stat.mzxid : 0;
    if (version != request->number)
        return hf__fail_code(why, HF_ESTALE);
    int what = !request->data ? ZK_OP_DELETE : found ? ZK_OP_SET : ZK_OP_CREATE;
    struct zk_op *op = hf__zk_plan_add(plan, what, folder, NODE_CELL);
    op->mode = ZK_PERSISTENT;
    op->version = found ? found->stat.version : -1;
    if (request->data) {
        op->data = request->data;
        op->len = request->data_len;
        plan->by_zxid = true;
    }
    return 0;
}

void hf__zk_cell_ask(struct zk_session *me, struct hf_request *request)
{
    static const struct change_verb get = { NODE_CELL, HF_CELL, cell_get };
    static const struct change_verb set = { NODE_CELL, HF_CELL, cell_set };
    hf__zk_change_ask(me, request, request->verb == HF_CELL_GET ? &get : &set);
}
