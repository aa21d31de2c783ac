/* SPDX-License-Identifier: MIT */
/* Decodes the records of ZooKeeper's protocol. Pure but for one growing list. */
#ifndef HF_ZK_RECORDS_H
#define HF_ZK_RECORDS_H

#include "jute.h"
#include "zk.h"

enum zk_opcode {
    ZK_OPCODE_CREATE = 1,
    ZK_OPCODE_DELETE = 2,
    ZK_OPCODE_EXISTS = 3,
    ZK_OPCODE_GET = 4,
    ZK_OPCODE_SET = 5,
    ZK_OPCODE_SYNC = 9,
    ZK_OPCODE_PING = 11,
    ZK_OPCODE_CHILDREN2 = 12,
    ZK_OPCODE_CHECK = 13,
    ZK_OPCODE_MULTI = 14,
    ZK_OPCODE_CREATE2 = 15,
    ZK_OPCODE_UNWATCH = 18,
    ZK_OPCODE_CONTAINER = 19,
    ZK_OPCODE_AUTH = 100,
    ZK_OPCODE_SET_WATCHES = 101,
    ZK_OPCODE_CLOSE = -11,
    ZK_OPCODE_ERROR = -1,
};

/* Xids with a fixed meaning. */
enum { ZK_XID_EVENT = -1, ZK_XID_PING = -2, ZK_XID_AUTH = -4, ZK_XID_WATCHES = -8 };

struct zk_header {
    int32_t xid;
    int64_t zxid;
    int32_t error;
};

struct zk_connect_reply {
    int32_t timeout_ms; /* 0 or less: no such session */
    int64_t session;
    struct zk_text password;
    bool read_only; /* false if an old server does not state it */
};

/* Memory for the lists of a reply. Zeroed is empty. */
struct zk_lists {
    struct zk_text *texts;
    int32_t *errors;
    size_t room;
};

void hf__zk_lists_done(struct zk_lists *lists);
/* Frees the memory of a long list. */
void hf__zk_lists_trim(struct zk_lists *lists);

struct zk_header hf__zk_header_read(struct jute *in);
struct zk_connect_reply hf__zk_connect_reply_read(struct jute *in);

/* The body of a reply without an error to a request of that kind. 0, HF_ENOMEM, or
 * HF_EUNREACHABLE: malformed. `ret` points into the input and the lists. */
int hf__zk_reply_read(enum zk_opcode opcode, struct jute *in, struct zk_lists *lists,
                      struct zk_reply *ret);

#endif
