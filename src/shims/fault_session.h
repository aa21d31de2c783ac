/* SPDX-License-Identifier: MIT */
/*
 * A session of the fault shim and its records, shared by fault.c (calls, from core to
 * the store) and fault_host.c (answers, from the store to core).
 *
 * A record is a call whose answer is to be changed, or that a pause holds back, or an
 * answer that is not delivered yet. Without a fault and without a pause there are no
 * records, and everything is passed on unchanged. A newer call for the same ticket or
 * request replaces the record of an older one, whose late answer core does not wait for
 * any more. Once `withdrawn` has been passed on, the ticket belongs to core again, and
 * all records about it are dropped.
 */
#ifndef HF_SHIMS_FAULT_SESSION_H
#define HF_SHIMS_FAULT_SESSION_H

#include "../base/list.h"
#include "fault.h"

enum stage {
    STAGE_KEPT = 1,  /* a call that a pause holds back */
    STAGE_SENT = 2,  /* the store has it; its answer will be changed */
    STAGE_READY = 3, /* an answer that waits for its time or for the end of the pause */
    STAGE_SILENT =
        4, /* the shim answered "failed"; later answers of the store are dropped */
};

enum answer_kind {
    ANSWER_GRANTED = 1,
    ANSWER_QUEUED,
    ANSWER_NOTICE,
    ANSWER_BUSY,
    ANSWER_FAILED,
    ANSWER_WITHDRAWN,
    ANSWER_RENEWED,
    ANSWER_EVENT,
    ANSWER_ANSWERED,
};

struct answer {
    enum answer_kind kind;
    int code; /* withdrawal, renewal, event, or rc */
    int64_t retry_ns;
    struct hf_grant grant;
    struct hf_lease lease;
    hf_error why;
};

struct record {
    struct hf_list_node link;
    enum hf_fault_op op;
    enum hf_fault_what what; /* 0: none */
    enum stage stage;
    enum hf_renew_mode mode;
    void *key; /* the ticket or the request */
    int64_t delay_ns;
    int64_t due_ns;
    struct answer answer;
};

struct session {
    struct hf_host host; /* the host that the inner store sees */
    struct hf_host *outer;
    const struct hf_backend *inner;
    struct hf_list_node records;
    struct hf_timer timer;
    int64_t renew_ns; /* when the renewal began that the inner store is answering */
    _Alignas(16) unsigned char inner_session[];
};

/* The answer to core in place of the store's, or for a call that the store did not
 * get. */
struct answer hf__fault_failure(enum hf_fault_op op, int code);

void hf__fault_deliver(struct session *s, void *key, const struct answer *answer);

/* NULL: no memory; the call is then passed on unchanged. */
struct record *hf__fault_record(struct session *s, struct hf_fault fault, void *key,
                                enum stage stage);
struct record *hf__fault_find(struct session *s, enum hf_fault_op op, const void *key);
/* `op` HF_FAULT_OPS: of any. */
void hf__fault_drop(struct session *s, enum hf_fault_op op, const void *key);
void hf__fault_record_free(struct record *record);

/* Has the waiting records checked again in a moment. */
void hf__fault_arm(struct session *s);

/* Counts a call and returns its fault; `what` 0: none. */
struct hf_fault hf__fault_next(enum hf_fault_op op);
bool hf__fault_paused(void);

extern const struct hf_host_ops hf__fault_host_ops;

#endif
