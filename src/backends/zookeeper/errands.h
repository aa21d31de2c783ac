/* SPDX-License-Identifier: MIT */
/*
 * What the session remembers of changes that must be made once: see changes.c.
 */
#ifndef HF_ZOOKEEPER_ERRANDS_H
#define HF_ZOOKEEPER_ERRANDS_H

#include "../../../include/holdfast/backend.h"
#include "../../base/list.h"

enum { ERRAND_NOTES = 64 };

enum errand_state {
    ERRAND_NONE = 0,
    ERRAND_OPEN, /* sent, and no answer yet: while the session lives its marker tells */
    ERRAND_MADE, /* with that result */
};

struct errand_note {
    enum errand_state state;
    struct hf_id id;
    int64_t session;
    uint64_t result;
    char *marker; /* of an open one: the path of its marker, ours */
};

struct errands {
    struct hf_link under_way;
    struct errand_note notes[ERRAND_NOTES]; /* a ring */
    size_t next;
};

#endif
