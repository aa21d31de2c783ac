/* SPDX-License-Identifier: MIT */
/*
 * Errors of the server as codes of holdfast's, each with a sentence. Pure.
 */
#include "session.h"

#include "../../base/error.h"

static const struct {
    int32_t error;
    int code;
    const char *sentence;
} errors[] = {
    { ZK_NONODE, HF_EREFUSED, "the folder was removed repeatedly" },
    { ZK_NOAUTH, HF_EREFUSED, "the server says: no permission" },
    { ZK_AUTHFAILED, HF_EREFUSED, "the server says: authentication failed" },
    { ZK_INVALIDACL, HF_EREFUSED, "the server says: invalid access list" },
    { ZK_NOTREADONLY, HF_EUNREACHABLE, "the server can only be read for now" },
    { ZK_THROTTLED, HF_EUNREACHABLE, "the server is too busy" },
    { ZK_SESSIONEXPIRED, HF_EUNCERTAIN, "the session is over" },
    { ZK_SESSIONMOVED, HF_EUNCERTAIN, "the session has moved to another server" },
    { ZK_QUOTAEXCEEDED, HF_EFULL, "the server says: a quota is used up" },
    { ZK_UNIMPLEMENTED, HF_EUNSUPPORTED, "the server is too old (3.5 is needed)" },
    { ZK_NOCHILDRENFOREPHEMERALS, HF_EMISMATCH,
      "the name, or one above it, is an ephemeral node" },
};

int hf__zk_server_error(const struct zk_reply *reply, hf_error *ret_why)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].error == reply->error)
            return hf__fail(ret_why, errors[i].code, "%s", errors[i].sentence);
    return hf__fail(ret_why, HF_EREFUSED, "the server says: error %d",
                    (int)reply->error);
}
