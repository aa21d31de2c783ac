/* SPDX-License-Identifier: MIT */
/*
 * What the session remembers of changes that must be made once: see changes.c.
 */
#ifndef HF_ZOOKEEPER_PENDING_CHANGES_H
#define HF_ZOOKEEPER_PENDING_CHANGES_H

#include "../../../include/holdfast/backend.h"
#include "../../base/list.h"

enum { CHANGE_RECORDS = 64 };

enum change_state {
    CHANGE_NONE = 0,
    CHANGE_PENDING, /* no reply yet: while the session lives its marker tells */
    CHANGE_MADE,    /* with that result */
};

struct change_record {
    enum change_state state;
    struct hf_id id;
    int64_t session;
    uint64_t result;
    char *marker; /* while pending: the path of its marker, owned */
};

struct pending_changes {
    struct hf_list_node under_way;
    struct change_record records[CHANGE_RECORDS]; /* a ring */
    size_t next;
};

#endif
